/* The donate pass: which output takes an argument's place, the copies that it costs and spares, and that giving and taking back end where they began. */
#include "sim/base/error.h"
#include "sim/pass/pass.h"
#include "tests/support/support.h"

#include <check.h>

static EchProgram *pass(EchProgram *in, const char *spec, EchDiag *diag)
{
    GError *error = NULL;
    g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    EchPass *made = ech_pass_new(spec, &error);
    ck_assert_ok(made != NULL, error);
    g_ptr_array_add(passes, made);
    EchProgram *out = ech_passes_run_program(passes, NULL, in, diag, &error);
    ck_assert_ok(out != NULL, error);
    return out;
}

/* As the compiler counts, by places of our own. */
static EchMemoryAnalysis memory_of(EchProgram *program)
{
    GError *error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    EchProgramAssignment *made = ech_program_assign(program, 0, diag, &error);
    ck_assert_ok(made != NULL, error);
    ech_program_set_assignment(program, made, "made by echelon");
    return ech_program_memory_analysis(program);
}

static size_t copies_in(const EchProgram *program)
{
    size_t n = 0;
    for (size_t i = 0; i < program->n_instructions; i++)
        n += program->instructions[i].opcode == ECH_HLO_COPY;
    return n;
}

#define HEAD                                                                                                                                                   \
    "HloModule m, is_scheduled=true%s, entry_computation_layout={(f32[1024]{0}, f32[1024]{0})->(f32[1024]{0}, f32[1024]{0})}\n\nENTRY e {\n"                   \
    "  a = f32[1024]{0} parameter(0), metadata={op_name=\"state\"}\n  b = f32[1024]{0} parameter(1), metadata={op_name=\"x\"}\n"
#define DONATED ", input_output_alias={ {0}: (0, {}, may-alias) }"

/* A kibi of floats is 4096 bytes; copies are those of the program after the pass. */
static const struct {
    const char *text, *donated, *spec;
    EchBytes alias, temp;
    size_t copies;
} programs[] = {
    /* One kernel reads the argument last and makes the output: in its place. */
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", "", "donate:names=state",
     4096, 0, 0},
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", "", "donate", 8192, 0, 0},
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", "", "donate:names=b", 4096,
     4096, 1}, /* s is given b, which t still reads */
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", "", "donate:above=5KiB", 0, 0,
     0},
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", "", "donate:above=4KiB", 8192,
     0, 0},
    /* One array handed back twice takes the place of one argument; its copy that of the other. */
    {HEAD "  s = f32[1024]{0} add(a, b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, s)\n}\n", "", "donate", 8192, 0, 1},
    /* The output is there while the argument is still read: it is made elsewhere and copied. */
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} multiply(s, a)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", "", "donate:names=state",
     4096, 4096, 1},
    /* What was copied to be updated is updated where it is. */
    {HEAD "  c = f32[1024]{0} copy(a)\n  z = s32[] constant(0)\n  u = f32[8]{0} slice(b), slice={[0:8]}\n  s = f32[1024]{0} dynamic-update-slice(c, u, z)\n"
          "  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n",
     "", "donate:names=state", 4096, 0, 0},
    /* And the other way round: kept, an argument that is updated is copied before; one that is not costs nothing but its place. */
    {HEAD "  z = s32[] constant(0)\n  u = f32[8]{0} slice(b), slice={[0:8]}\n  s = f32[1024]{0} dynamic-update-slice(a, u, z)\n  t = f32[1024]{0} negate(b)\n"
          "  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n",
     DONATED, "donate:what=none", 0, 0, 1},
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", DONATED, "donate:what=none",
     0, 0, 0},
    /* An output that an argument has already is not given again: the other one is. */
    {HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n", DONATED, "donate:names=x",
     8192, 0, 0},
    /* Updated in place, and not handed back. */
    {HEAD "  z = s32[] constant(0)\n  u = f32[8]{0} slice(b), slice={[0:8]}\n  w = f32[1024]{0} dynamic-update-slice(a, u, z)\n  s = f32[1024]{0} reverse(w), "
          "dimensions={0}\n  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n",
     DONATED, "donate:what=none", 0, 0, 1}, /* the copy lies where t will be */
    /* An argument handed back as it is. */
    {HEAD "  t = f32[1024]{0} negate(b)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(a, t)\n}\n", DONATED, "donate:what=none", 0, 0, 1},
};

START_TEST(small)
{
    g_autofree char *text = g_strdup_printf(programs[_i].text, programs[_i].donated);
    g_autoptr(EchImport) import = ech_test_hlo(text, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = pass(import->program, programs[_i].spec, diag);
    EchMemoryAnalysis m = memory_of(out);
    ck_assert_uint_eq(m.alias, programs[_i].alias);
    ck_assert_msg(m.temp == programs[_i].temp, "%" G_GUINT64_FORMAT " bytes of temporaries", m.temp);
    ck_assert_uint_eq(copies_in(out), programs[_i].copies);
    ck_assert_ptr_nonnull(ech_diag_remarks(diag)[0]);
}
END_TEST

/* Both outputs are there while the arguments are still read: each is copied into the place of its own argument, the first of the shape. */
/* What no output has the shape of takes one of its size, as XLA pairs what JAX leaves: written over where it lies alike, else made elsewhere and copied. */
static const struct {
    const char *made;
    EchBytes alias;
    size_t copies;
} sized[] = {
    {"  t = f32[64,32]{0,1} bitcast(a)\n  s = f32[64,32]{0,1} negate(t)\n", 8192, 0},
    {"  s = f32[2048]{0} custom-call(a), custom_call_target=\"other\"\n", 8192, 1},
    {"  s = f32[2049]{0} custom-call(a), custom_call_target=\"other\"\n", 0, 0},
    {"  s = f16[4096]{0} custom-call(a), custom_call_target=\"other\"\n", 0, 0}, /* as large, but JAX counts elements */
    {"  s = s32[2048]{0} custom-call(a), custom_call_target=\"other\"\n", 8192, 1},
};

START_TEST(sizes_pair_what_shapes_do_not)
{
    const char *shape = strstr(sized[_i].made, "  s = ") + strlen("  s = ");
    g_autofree char *of = g_strndup(shape, (gsize)(strchr(shape, ' ') - shape));
    g_autofree char *text =
        g_strdup_printf("HloModule m, is_scheduled=true, entry_computation_layout={(f32[32,64]{1,0}, f32[64]{0})->(%s, f32[8]{0})}\n\nENTRY e {\n"
                        "  a = f32[32,64]{1,0} parameter(0)\n  b = f32[64]{0} parameter(1)\n%s"
                        "  u = f32[8]{0} slice(b), slice={[0:8]}\n  ROOT r = (%s, f32[8]{0}) tuple(s, u)\n}\n",
                        of, sized[_i].made, of);
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) donated = pass(program, "donate", diag);
    ck_assert_uint_eq(memory_of(donated).alias, sized[_i].alias);
    ck_assert_uint_eq(copies_in(donated), sized[_i].copies);
}
END_TEST

START_TEST(two_copies)
{
    g_autofree char *text = g_strdup_printf(HEAD "  s = f32[1024]{0} add(a, b)\n  t = f32[1024]{0} subtract(a, b)\n  w = f32[1024]{0} multiply(a, b)\n"
                                                 "  v = f32[1024]{0} negate(w)\n  ROOT r = (f32[1024]{0}, f32[1024]{0}) tuple(s, t)\n}\n",
                                            "");
    g_autoptr(EchImport) import = ech_test_hlo(text, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = pass(import->program, "donate", diag);
    const EchInstruction *root = &out->instructions[out->computations[out->entry].root];
    for (uint32_t k = 0; k < 2; k++) {
        const EchInstruction *copy = &out->instructions[ech_program_operand(out, root, k)];
        ck_assert_str_eq(copy->opcode_name, "copy");
        ck_assert_str_eq(out->instructions[ech_program_operand(out, copy, 0)].name, k == 0 ? "s" : "t");
        bool given = false;
        for (size_t d = 0; d < out->n_donations; d++)
            given |= out->donations[d].parameter == (int64_t)k && out->donations[d].output_position == k + 1;
        ck_assert(given);
    }
    ck_assert_uint_eq(out->n_donations, 2);
    ck_assert_uint_eq(copies_in(out), 2);
}
END_TEST

/* Takes every donation back and gives them anew: the same memory as the compiler's own pairs. Without them, an output's worth more. */
static const char *const shipped[] = {"adam_none.v5e", "adam_none.h100", "gpt_nothing.v5e", "gpt_everything.h100", "gpt_unrolled_kept.h100", "sharded_mlp.v6e"};

START_TEST(there_and_back)
{
    g_autofree char *path = g_strconcat(ECH_SOURCE_DIR "/traces/", shipped[_i], "/program.hlo.txt.gz", NULL);
    g_autofree char *device = ech_test_device_of(shipped[_i]);
    g_autoptr(EchImport) import = ech_test_import(path, &(EchImportOptions){.device = device});
    g_autoptr(EchDiag) diag = ech_diag_new();
    EchMemoryAnalysis before = memory_of(import->program);
    ck_assert_uint_gt(before.alias, 0);
    g_autoptr(EchProgram) none = pass(import->program, "donate:what=none", diag);
    EchMemoryAnalysis kept = memory_of(none);
    ck_assert_uint_eq(kept.alias, 0);
    ck_assert_uint_gt(kept.output + kept.temp, before.output - before.alias + before.temp);
    g_autoptr(EchProgram) all = pass(none, "donate:above=1KiB", diag);
    EchMemoryAnalysis after = memory_of(all);
    ck_assert_uint_ge(after.alias + 4096, before.alias);
    ck_assert_msg(after.temp == before.temp, "%" G_GUINT64_FORMAT " bytes of temporaries, %" G_GUINT64_FORMAT " before", after.temp, before.temp);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("donate");
    TCase *tcase = tcase_create("donate");
    tcase_add_loop_test(tcase, small, 0, G_N_ELEMENTS(programs));
    tcase_add_test(tcase, two_copies);
    tcase_add_loop_test(tcase, sizes_pair_what_shapes_do_not, 0, (int)G_N_ELEMENTS(sized));
    tcase_add_loop_test(tcase, there_and_back, 0, G_N_ELEMENTS(shipped));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
