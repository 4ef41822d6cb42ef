/* What fusions of GPU programs touch of their operands: slices, gathers and updates behind and before what is done element by element. */
#include "sim/import/import.h"
#include "tests/support/support.h"

#include <string.h>

/* Of a fusion with this body over a parameter %p (and %i, %u): bytes read of operand 0, and written. */
static const struct {
    const char *what, *parameters, *body, *result;
    EchBytes read, written;
} cases[] = {
    {"a gather behind a conversion reads its rows in the operand's width", "p: bf16[50304,1024], i: s32[4096]",
     "  %p = bf16[50304,1024]{1,0} parameter(0)\n  %i = s32[4096]{0} parameter(1)\n"
     "  %c = f32[50304,1024]{1,0} convert(%p)\n"
     "  ROOT %g = f32[4096,1024]{1,0} gather(%c, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
     "slice_sizes={1,1024}\n",
     "f32[4096,1024]{1,0}", 4096 * 1024 * 2, 4096 * 1024 * 4},
    {"single elements far apart each take a piece of 64 bytes", "p: f32[1000000], i: s32[4096]",
     "  %p = f32[1000000]{0} parameter(0)\n  %i = s32[4096]{0} parameter(1)\n"
     "  ROOT %g = f32[4096]{0} gather(%p, %i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n",
     "f32[4096]{0}", 4096 * 64, 4096 * 4},
    {"more of them than there are pieces read all", "p: f32[1000], i: s32[4096]",
     "  %p = f32[1000]{0} parameter(0)\n  %i = s32[4096]{0} parameter(1)\n"
     "  ROOT %g = f32[4096]{0} gather(%p, %i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n",
     "f32[4096]{0}", 4000, 4096 * 4},
    {"rows picked behind arithmetic that two users share count once", "p: bf16[8192,4096], i: s32[]",
     "  %p = bf16[8192,4096]{1,0} parameter(0)\n  %i = s32[] parameter(1)\n  %z = s32[] constant(0)\n"
     "  %c = f32[8192,4096]{1,0} convert(%p)\n  %n = f32[8192,4096]{1,0} negate(%c)\n  %a = f32[8192,4096]{1,0} abs(%c)\n"
     "  %s = f32[8192,4096]{1,0} add(%n, %a)\n"
     "  ROOT %d = f32[16,4096]{1,0} dynamic-slice(%s, %i, %z), dynamic_slice_sizes={16,4096}\n",
     "f32[16,4096]{1,0}", 16 * 4096 * 2, 16 * 4096 * 4},
    {"a column is a piece of every row", "p: f32[8192,4096], i: s32[]",
     "  %p = f32[8192,4096]{1,0} parameter(0)\n  %i = s32[] parameter(1)\n  %z = s32[] constant(0)\n"
     "  ROOT %d = f32[8192,1]{1,0} dynamic-slice(%p, %z, %i), dynamic_slice_sizes={8192,1}\n",
     "f32[8192,1]{1,0}", 8192 * 64, 8192 * 4},
    {"a column of an array that lies by columns is one run", "p: f32[8192,4096], i: s32[]",
     "  %p = f32[8192,4096]{0,1} parameter(0)\n  %i = s32[] parameter(1)\n  %z = s32[] constant(0)\n"
     "  ROOT %d = f32[8192,1]{0,1} dynamic-slice(%p, %z, %i), dynamic_slice_sizes={8192,1}\n",
     "f32[8192,1]{0,1}", 8192 * 4, 8192 * 4},
    {"half the rows", "p: f32[8192,4096]",
     "  %p = f32[8192,4096]{1,0} parameter(0)\n  %s = f32[4096,4096]{1,0} slice(%p), slice={[4096:8192], [0:4096]}\n"
     "  ROOT %n = f32[4096,4096]{1,0} negate(%s)\n",
     "f32[4096,4096]{1,0}", 64 << 20, 64 << 20},
    {"slices that lie over one another read the whole once", "p: f32[8192,4096]",
     "  %p = f32[8192,4096]{1,0} parameter(0)\n  %s = f32[8191,4096]{1,0} slice(%p), slice={[1:8192], [0:4096]}\n"
     "  %t = f32[8191,4096]{1,0} slice(%p), slice={[0:8191], [0:4096]}\n  ROOT %n = f32[8191,4096]{1,0} subtract(%s, %t)\n",
     "f32[8191,4096]{1,0}", 128 << 20, 8191 * 4096 * 4},
    {"every second element brings its neighbours along", "p: f32[8192,4096]",
     "  %p = f32[8192,4096]{1,0} parameter(0)\n  ROOT %s = f32[8192,2048]{1,0} slice(%p), slice={[0:8192], [0:4096:2]}\n", "f32[8192,2048]{1,0}", 128 << 20,
     64 << 20},
    {"every second row does not", "p: f32[8192,4096]",
     "  %p = f32[8192,4096]{1,0} parameter(0)\n  ROOT %s = f32[4096,4096]{1,0} slice(%p), slice={[0:8192:2], [0:4096]}\n", "f32[4096,4096]{1,0}", 64 << 20,
     64 << 20},
    {"sums of the rows that are picked", "p: f32[8192,4096], i: s32[]",
     "  %p = f32[8192,4096]{1,0} parameter(0)\n  %i = s32[] parameter(1)\n  %z = f32[] constant(0)\n"
     "  %r = f32[8192]{0} reduce(%p, %z), dimensions={1}, to_apply=%add\n"
     "  ROOT %d = f32[32]{0} dynamic-slice(%r, %i), dynamic_slice_sizes={32}\n",
     "f32[32]{0}", 32 * 4096 * 4, 128},
    {"an update in place reads nothing of what it updates", "p: bf16[8,2048,1024], u: f32[8,1,1024], i: s32[]",
     "  %p = bf16[8,2048,1024]{2,1,0} parameter(0)\n  %u = f32[8,1,1024]{2,1,0} parameter(1)\n  %i = s32[] parameter(2)\n  %z = s32[] constant(0)\n"
     "  %c = bf16[8,1,1024]{2,1,0} convert(%u)\n"
     "  ROOT %d = bf16[8,2048,1024]{2,1,0} dynamic-update-slice(%p, %c, %z, %i, %z)\n",
     "bf16[8,2048,1024]{2,1,0}", 0, 8 * 1024 * 2},
    {"an update of what is made here writes all of it", "p: bf16[8,2048,1024], u: f32[8,1,1024], i: s32[]",
     "  %p = bf16[8,2048,1024]{2,1,0} parameter(0)\n  %u = f32[8,1,1024]{2,1,0} parameter(1)\n  %i = s32[] parameter(2)\n  %z = s32[] constant(0)\n"
     "  %c = f32[8,2048,1024]{2,1,0} convert(%p)\n"
     "  ROOT %d = f32[8,2048,1024]{2,1,0} dynamic-update-slice(%c, %u, %z, %i, %z)\n",
     "f32[8,2048,1024]{2,1,0}", 8 * 2047 * 1024 * 2, 8 * 2048 * 1024 * 4},
    {"a scatter reads and writes the rows it adds to", "p: f32[50304,1024], i: s32[128], u: f32[128,1024]",
     "  %p = f32[50304,1024]{1,0} parameter(0)\n  %i = s32[128]{0} parameter(1)\n  %u = f32[128,1024]{1,0} parameter(2)\n"
     "  ROOT %s = f32[50304,1024]{1,0} scatter(%p, %i, %u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=%add\n",
     "f32[50304,1024]{1,0}", 128 * 4096, 128 * 4096},
    {"one that adds single elements a piece each", "p: f32[1000000], i: s32[128], u: f32[128]",
     "  %p = f32[1000000]{0} parameter(0)\n  %i = s32[128]{0} parameter(1)\n  %u = f32[128]{0} parameter(2)\n"
     "  ROOT %s = f32[1000000]{0} scatter(%p, %i, %u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=%add\n",
     "f32[1000000]{0}", 128 * 64, 128 * 64},
    {"a row that is spread over many is read once", "p: f32[4096,1024], i: s32[]",
     "  %p = f32[4096,1024]{1,0} parameter(0)\n  %i = s32[] parameter(1)\n  %z = s32[] constant(0)\n"
     "  %d = f32[1,1024]{1,0} dynamic-slice(%p, %i, %z), dynamic_slice_sizes={1,1024}\n  %t = f32[1024]{0} bitcast(%d)\n"
     "  ROOT %b = f32[4096,1024]{1,0} broadcast(%t), dimensions={1}\n",
     "f32[4096,1024]{1,0}", 4096, 16 << 20},
    {"one that hands its operand on, as tiles of Triton's products are loaded, reads it", "p: f32[8192,4096]", "  ROOT %p = f32[8192,4096]{1,0} parameter(0)\n",
     "f32[8192,4096]{1,0}", 128 << 20, 0},
};

static EchImport *import(size_t k)
{
    g_autofree char *arguments = g_strdup(cases[k].parameters);
    g_autoptr(GString) entry = g_string_new(NULL), call = g_string_new(NULL);
    g_auto(GStrv) named = g_strsplit(arguments, ", ", -1);
    for (guint n = 0; named[n]; n++) {
        const char *colon = strchr(named[n], ':');
        /* layouts as the body has them */
        g_autofree char *mark = g_strdup_printf("%%%.*s = ", (int)(colon - named[n]), named[n]);
        const char *line = strstr(cases[k].body, mark) + strlen(mark);
        g_string_append_printf(entry, "  %%x%u = %.*s parameter(%u)\n", n, (int)(strchr(line, ' ') - line), line, n);
        g_string_append_printf(call, "%s%%x%u", n ? ", " : "", n);
    }
    g_autofree char *text = g_strdup_printf(
        "HloModule touched, is_scheduled=true\n\n%%add (a: f32[], b: f32[]) -> f32[] {\n  %%a = f32[] parameter(0)\n  %%b = f32[] parameter(1)\n"
        "  ROOT %%s = f32[] add(%%a, %%b)\n}\n\n%%body (%s) -> %s {\n%s}\n\nENTRY %%main () -> %s {\n%s"
        "  ROOT %%f = %s fusion(%s), kind=kLoop, calls=%%body\n}\n",
        cases[k].parameters, cases[k].result, cases[k].body, cases[k].result, entry->str, cases[k].result, call->str);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "touched");
    GError *error = NULL;
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    EchImport *import = ech_import_source(source, "hlo", &options, &error);
    ck_assert_msg(import != NULL, "%s: %s\n%s", cases[k].what, error ? error->message : "", text);
    return import;
}

START_TEST(touched)
{
    size_t k = (size_t)_i;
    g_autoptr(EchImport) got = import(k);
    const EchProgram *p = got->program;
    EchId fusion = ECH_NONE;
    for (size_t i = 0; i < p->n_instructions; i++)
        if (p->instructions[i].opcode == ECH_HLO_FUSION)
            fusion = (EchId)i;
    ck_assert_uint_ne(fusion, ECH_NONE);
    EchBytes read = ech_program_operand_bytes(p, fusion, 0), written = ech_program_result_bytes(p, fusion, 0);
    ck_assert_msg(read == cases[k].read && written == cases[k].written,
                  "%s: read %" G_GUINT64_FORMAT ", expected %" G_GUINT64_FORMAT "; written %" G_GUINT64_FORMAT ", expected %" G_GUINT64_FORMAT, cases[k].what,
                  read, cases[k].read, written, cases[k].written);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("touched");
    TCase *all = tcase_create("bodies");
    tcase_add_loop_test(all, touched, 0, (int)G_N_ELEMENTS(cases));
    suite_add_tcase(suite, all);
    return ech_test_main(suite);
}
