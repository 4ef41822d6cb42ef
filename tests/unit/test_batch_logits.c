/* The batch pass on the loss of a program that XLA compiled: which arrays are logits, and what their parts take. */
#include "sim/experiment/advise.h"
#include "sim/program/lower.h"
#include "tests/support/made.h"

#include <glib/gstdio.h>
#include <string.h>

/* 8,192 rows of 512 numbers, 65,536 classes: logits of 1 GiB in bf16, weights of 64 MiB. */
#define LOGITS "bf16[8192,65536]{1,0}"
#define WIDE "f32[8192,65536]{1,0}"
#define WEIGHTS "bf16[512,65536]{1,0}"
#define PRODUCT(name, result, a, b, dims) "  " name " = " result " dot(" a ", " b "), " dims "\n"
#define BY_ROWS "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
#define OF_ROWS "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
#define TURNED "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
enum { GB = 1 << 30, MB = 1 << 20, PARTS = 4 };

static const char text[] =
    "HloModule m, is_scheduled=true\n\nmax {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] maximum(a, b)\n}\n\n"
    "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
    "update {\n  x = bf16[8192,512]{1,0} parameter(0)\n  g = " LOGITS " parameter(1)\n  w = " WEIGHTS " parameter(2)\n" PRODUCT(
        "d", WEIGHTS, "x", "g",
        OF_ROWS) "  v = " WEIGHTS " subtract(w, d)\n  ROOT r = (" WEIGHTS ", " WEIGHTS ") tuple(v, d)\n}\n\n"
                 "kernel {\n  l = " LOGITS " parameter(0)\n  m = f32[8192]{0} parameter(1)\n  f = " WIDE " convert(l)\n  a = " WIDE
                 " broadcast(m), dimensions={0}\n"
                 "  s = " WIDE " subtract(f, a)\n  x = " WIDE " exponential(s)\n  ROOT g = " LOGITS " convert(x)\n}\n\n"
                 "rows {\n  l = " LOGITS " parameter(0)\n  f = " WIDE " convert(l)\n  i = f32[] constant(-inf)\n"
                 "  ROOT m = f32[8192]{0} reduce(f, i), dimensions={1}, to_apply=max\n}\n\n"
                 "sums {\n  l = " LOGITS " parameter(0)\n  f = " WIDE " convert(l)\n  i = f32[] constant(0)\n"
                 "  ROOT m = f32[8192]{0} reduce(f, i), dimensions={1}, to_apply=sum\n}\n\n"
                 "ENTRY e {\n  x = bf16[8192,512]{1,0} parameter(0)\n  w = " WEIGHTS " parameter(1)\n" PRODUCT(
                     "l", LOGITS, "x", "w",
                     BY_ROWS) "  m = f32[8192]{0} fusion(l), kind=kInput, calls=rows\n  n = f32[8192]{0} fusion(l), kind=kInput, calls=sums\n"
                              "  g = " LOGITS " fusion(l, m), kind=kLoop, calls=kernel\n" PRODUCT("dx", "bf16[8192,512]{1,0}", "g", "w", TURNED)
                                  PRODUCT("dw", WEIGHTS, "x", "g", OF_ROWS) "  ROOT r = (f32[8192]{0}, bf16[8192,512]{1,0}, " WEIGHTS ") tuple(n, dx, dw)\n}\n";

/* A change of the text; parts' arrays, or 0 where it is left as it is; how often the product runs; what is added up in a buffer of its own; by how much that is
 * more than the gradient in whose place it is; arrays as large that stay so. */
static const struct {
    const char *from, *to;
    size_t wide, products;
    EchBytes summed, more;
    size_t whole;
} programs[] = {
    {"%", "%", 2, 2, 64 * MB, 0, 0},
    /* Gradients make the logits again already. */
    {"  g = " LOGITS " fusion(l, ", PRODUCT("again", LOGITS, "x", "w", BY_ROWS) "  g = " LOGITS " fusion(again, ", 3, 1, 64 * MB, 0, 0},
    /* The weights' gradient is there in the optimizer's kernel alone. */
    {PRODUCT("dw", WEIGHTS, "x", "g", OF_ROWS),
     "  both = (" WEIGHTS ", " WEIGHTS ") fusion(x, g, w), kind=kCustom, calls=update\n  dw = " WEIGHTS " get-tuple-element(both), index=0\n", 2, 2, 64 * MB,
     64 * MB, 0},
    /* As many scores of something else. */
    {"  m = f32[8192]{0} fusion(l)", "  t = bf16[32768,16384]{1,0} custom-call(x), custom_call_target=\"scores\"\n  m = f32[8192]{0} fusion(l)", 2, 2, 64 * MB,
     0, 1},
    /* No row's largest is looked for: some activation. */
    {"ROOT c = f32[] maximum", "ROOT c = f32[] add", 0, 1, 0, 0, 2},
};

static EchTrace *lowered(const char *hlo, const EchDevice *device, EchDiag *diag)
{
    GError *error = NULL;
    g_autoptr(EchImport) import = ech_test_hlo(hlo, "h100-sxm");
    ech_test_assign(import);
    EchTrace *trace = ech_program_lower(import->program, device, NULL, diag, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

START_TEST(logits)
{
    g_auto(GStrv) parts = g_strsplit(text, programs[_i].from, 2);
    g_autofree char *hlo = g_strjoinv(programs[_i].to, parts);
    ck_assert(*programs[_i].from == '%' || strcmp(hlo, text) != 0);
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) before = lowered(hlo, device, diag);
    g_autofree char *spec = g_strdup_printf("batch:what=loss,parts=%d", PARTS);
    g_autoptr(EchTrace) after = ech_test_pass(before, device, diag, (const char *const[]){spec, NULL});
    ck_assert_int_eq(after == before, programs[_i].wide == 0);
    ck_assert_int_eq(ech_trace_get_property(before, ECH_TRACE_LOGITS) != NULL, programs[_i].wide > 0);
    size_t wide = 0, whole = 0, products = 0;
    EchBytes summed = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(after); b++) {
        const EchBuffer *buffer = &ech_trace_buffers(after)[b];
        wide += buffer->bytes == GB / PARTS;
        whole += buffer->bytes == GB;
        summed += b >= ech_trace_n_buffers(before) ? buffer->bytes : 0;
    }
    bool is_asked = false; /* memory for what gradients add up, before the first of them */
    for (size_t i = 0; i < ech_trace_n_ops(after); i++) {
        const EchOp *o = &ech_trace_ops(after)[i];
        const char *name = ech_trace_string(after, o->name);
        is_asked |= o->kind == ECH_OP_ALLOC && o->target >= ech_trace_n_buffers(before);
        products += o->kind == ECH_OP_KERNEL && strcmp(name, "l") == 0;
        ck_assert(o->kind != ECH_OP_KERNEL || strcmp(name, "dx") != 0 || is_asked == (summed > 0));
    }
    ck_assert_uint_eq(wide, programs[_i].wide);
    ck_assert_uint_eq(whole, programs[_i].whole);
    ck_assert_uint_eq(products, programs[_i].products);
    ck_assert_uint_eq(summed, programs[_i].summed);
    g_autoptr(EchRun) was = ech_test_replay(before, device), is = ech_test_replay(after, device);
    EchBytes saved = programs[_i].wide == 0 ? 0 : (EchBytes)GB / PARTS * (PARTS - 1); /* gradients take the place of their logits */
    ck_assert_uint_eq(ech_test_peak(was, "hbm"), ech_test_peak(is, "hbm") + saved - programs[_i].more);
    ck_assert(programs[_i].products == 1 || is->makespan > was->makespan);
}
END_TEST

/* A loss of most rows, as "logits[:, :-1]" has it: all of them, and those, are there for a part at a time; the product's own are made again. */
START_TEST(most_rows)
{
    static const char product[] = PRODUCT("l", LOGITS, "x", "w", BY_ROWS);
    g_auto(GStrv) parts = g_strsplit(text, product, 2);
    ck_assert_uint_eq(g_strv_length(parts), 2);
    g_autofree char *hlo = g_strconcat(parts[0],
                                       "  z = bf16[9216,512]{1,0} parameter(2)\n" PRODUCT("all", "bf16[9216,65536]{1,0}", "z", "w",
                                                                                          BY_ROWS) "  l = " LOGITS " slice(all), slice={[0:8192], [0:65536]}\n",
                                       parts[1], NULL);
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) before = lowered(hlo, device, diag);
    ck_assert_str_eq(ech_trace_get_property(before, ECH_TRACE_LOGITS), "603979776/65536,536870912/65536");
    g_autoptr(EchTrace) after = ech_test_pass(before, device, diag, (const char *const[]){"batch:what=loss,parts=4", NULL});
    ck_assert(after != before);
    size_t made = 0;
    EchBytes summed = 0, largest = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(after); b++) {
        summed += b >= ech_trace_n_buffers(before) ? ech_trace_buffers(after)[b].bytes : 0;
        largest = MAX(largest, ech_trace_buffers(after)[b].bytes);
    }
    for (size_t i = 0; i < ech_trace_n_ops(after); i++)
        made += ech_trace_ops(after)[i].kind == ECH_OP_KERNEL && strcmp(ech_trace_string(after, ech_trace_ops(after)[i].name), "all") == 0;
    ck_assert_uint_eq(largest, UINT64_C(9216) * 65536 * 2 / PARTS);
    ck_assert_uint_eq(made, 2);
    ck_assert_uint_eq(summed, 64 * MB);
}
END_TEST

START_TEST(advised)
{
    GError *error = NULL;
    g_autofree char *folder = g_dir_make_tmp("echelon-logits-XXXXXX", NULL), *path = g_build_filename(folder, "step.hlo.txt", NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm"};
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    g_autoptr(EchAdvice) advice = ech_advise(experiment, "512MiB", NULL, 1, NULL, NULL, NULL, &error);
    ck_assert_ok(advice != NULL, error);
    g_autoptr(GString) told = ech_advice_text(advice, 0);
    ck_assert_msg(strstr(told->str, "IT DOES NOT FIT") && strstr(told->str, "   1  loss in eight parts ") &&
                      strstr(told->str, "jax.lax.scan(jax.checkpoint(f)"),
                  "%s", told->str);
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch_logits");
    TCase *tc = tcase_create("logits");
    tcase_add_loop_test(tc, logits, 0, G_N_ELEMENTS(programs));
    tcase_add_test(tc, most_rows);
    tcase_add_test(tc, advised);
    suite_add_tcase(suite, tc);
    return ech_test_main(suite);
}
