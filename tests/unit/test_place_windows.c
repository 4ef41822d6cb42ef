/* The windows by which placement prices a matrix product on v6e and tpu7x, and what it counts for all that is fused around one: against what libtpu 0.0.52
 * logs of its own. */
#include "models/place/windows.h"
#include "sim/import/hlo.h"
#include "sim/program/place_inputs.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

typedef struct {
    const char *name;
    EchPlaceProduct product;
    EchPlaceWindows window; /* sizes, clocks of the matrix unit, instructions of the unit that adds */
} Case;

#define PLAIN(...)                                                                                                                                             \
    {                                                                                                                                                          \
        .batch = 1, .m_outer = 1, .n_outer = 1, .k_outer = 1, .lhs_arrays = 1, .rhs_arrays = 1, __VA_ARGS__                                                    \
    }
#define WINDOW(m_, n_, k_, matrix_, pop_)                                                                                                                      \
    {                                                                                                                                                          \
        .batch = 1, .m = m_, .n = n_, .k = k_, .m_outer = 1, .n_outer = 1, .k_outer = 1, .matrix = matrix_, .pop = pop_                                        \
    }

static const Case cases[] = {
    {"all of k and n, rows as they fit", PLAIN(.m = 1280, .n = 512, .k = 1792), WINDOW(1024, 512, 1792, 7168, 13312)},
    {"an odd depth", PLAIN(.m = 2048, .n = 2048, .k = 384), WINDOW(1024, 2048, 384, 6144, 8192)},
    {"columns do not fit", PLAIN(.m = 2304, .n = 4096, .k = 2304), WINDOW(128, 1152, 2304, 93312, 176256)},
    {"nor by one tile", PLAIN(.m = 1024, .n = 3072, .k = 12288), WINDOW(128, 128, 12288, 147456, 291840)},
    {"the whole result", PLAIN(.m = 512, .n = 512, .k = 32768), WINDOW(512, 512, 5760, 34560, 67584)},
    {"weights turned", PLAIN(.m = 2048, .n = 2048, .k = 16384, .rhs_turned = true), WINDOW(128, 128, 16384, 262144, 520192)},
    {"the result turned", PLAIN(.m = 4096, .n = 192, .k = 5120, .rhs_turned = true, .out_turned = true), WINDOW(384, 192, 5120, 15840, 30888)},
    {"halves", PLAIN(.m = 2048, .n = 8192, .k = 16384, .rows_on_lanes = true, .summed_first = true), WINDOW(1024, 512, 1024, 1048576, 786432)},
    {"halves, another order", PLAIN(.m = 1024, .n = 3072, .k = 20480, .rows_on_lanes = true, .summed_first = true), WINDOW(1024, 768, 640, 245760, 98304)},
    {"products of a batch together",
     {.batch = 96, .m = 256, .n = 256, .k = 128, .m_outer = 1, .n_outer = 1, .k_outer = 1, .lhs_arrays = 1, .rhs_arrays = 1},
     {.batch = 49, .m = 256, .n = 256, .k = 128, .m_outer = 1, .n_outer = 1, .k_outer = 1, .matrix = 3136, .pop = 0}},
    {"a batch of heads",
     {.batch = 12,
      .batch_outer = 8,
      .m = 197,
      .n = 197,
      .k = 64,
      .m_outer = 1,
      .n_outer = 1,
      .k_outer = 1,
      .rows_on_lanes = true,
      .out_turned = true,
      .lhs_arrays = 1,
      .rhs_arrays = 1},
     {.batch = 48, .m = 197, .n = 197, .k = 64, .m_outer = 1, .n_outer = 1, .k_outer = 1, .matrix = 2400, .pop = 0}},
    {"sequences together",
     {.batch = 1, .m_outer = 6, .m = 640, .n = 512, .k = 1024, .n_outer = 1, .k_outer = 1, .lhs_arrays = 1, .rhs_arrays = 1},
     {.batch = 1, .m_outer = 3, .m = 640, .n = 512, .k = 1024, .n_outer = 1, .k_outer = 1, .matrix = 7680, .pop = 13440}},
    {"sums over sequences",
     {.batch = 1,
      .m = 1024,
      .n = 512,
      .k = 640,
      .k_outer = 6,
      .m_outer = 1,
      .n_outer = 1,
      .rows_on_lanes = true,
      .summed_first = true,
      .lhs_arrays = 1,
      .rhs_arrays = 1},
     {.batch = 1, .m = 128, .n = 512, .k = 640, .k_outer = 6, .m_outer = 1, .n_outer = 1, .matrix = 7680, .pop = 7168}},
};

START_TEST(windows)
{
    const Case *c = &cases[_i];
    EchPlaceWindows w;
    ech_place_windows(&c->product, &w);
    ck_assert_msg(w.batch == c->window.batch && w.m == c->window.m && w.n == c->window.n && w.k == c->window.k && w.m_outer == c->window.m_outer &&
                      w.n_outer == c->window.n_outer && w.k_outer == c->window.k_outer,
                  "%s: %lu x %lu x %lu, %lu together", c->name, w.m, w.n, w.k, w.batch * w.m_outer);
    ck_assert_msg(w.matrix == c->window.matrix && w.pop == c->window.pop, "%s: %g clocks, %g instructions", c->name, w.matrix, w.pop);
    ck_assert(w.lhs_times >= 1 - 1e-9 && w.rhs_times >= 1 - 1e-9 && w.out_times >= 1 - 1e-9);
}
END_TEST

/* Convolutions: @rows of positions a step, clocks by what takes the products out of the units, as the compiler counts them; within 3 %. */
static const struct {
    const char *name;
    EchPlaceConvolution convolution;
    double steps, pop;
} convolutions[] = {
    {"3 x 3 over 32 channels",
     {.product = {.batch = 1, .m = 8, .n = 128, .k = 32, .m_outer = 1, .n_outer = 1, .k_outer = 1, .lhs_arrays = 1, .rhs_arrays = 1},
      .n = 2,
      .dims = {{64, 3, 64, 1, 60.0 / 62}, {64, 3, 64, 1, 60.0 / 62}}},
     3,
     31647},
    {"3 x 3 over 64 channels of 32 images",
     {.product = {.batch = 1, .m = 32, .n = 64, .k = 64, .m_outer = 1, .n_outer = 1, .k_outer = 1, .lhs_arrays = 1, .rhs_arrays = 1},
      .n = 2,
      .dims = {{56, 3, 56, 1, 52.0 / 54}, {56, 3, 56, 1, 52.0 / 54}}},
     14,
     93056},
    {"3 x 3 over 128 channels of 128 images",
     {.product = {.batch = 1, .m = 128, .n = 128, .k = 128, .m_outer = 1, .n_outer = 1, .k_outer = 1, .lhs_arrays = 1, .rhs_arrays = 1, .rhs_turned = true},
      .n = 2,
      .dims = {{28, 3, 28, 1, 24.0 / 26}, {28, 3, 28, 1, 24.0 / 26}}},
     28,
     85504},
    {"a filter's gradient",
     {.product = {.batch = 1, .m = 64, .n = 64, .k = 32, .m_outer = 1, .n_outer = 1, .k_outer = 1, .lhs_arrays = 1, .rhs_arrays = 1, .rows_on_lanes = true},
      .n = 2,
      .dims = {{56, 56, 3, 1, 52.0 / 54}, {56, 56, 3, 1, 52.0 / 54}}},
     7,
     235081},
};

START_TEST(positions)
{
    EchPlaceWindows w;
    ech_place_convolution(&convolutions[_i].convolution, &w);
    ck_assert_msg(w.steps == convolutions[_i].steps, "%s: %g steps", convolutions[_i].name, w.steps);
    ck_assert_msg(fabs(w.pop / convolutions[_i].pop - 1) < 0.03, "%s: %g", convolutions[_i].name, w.pop);
    ck_assert(w.lhs_times >= 1 && w.out_times >= 1 && w.matrix > 0);
}
END_TEST

/* Sizes that nobody has: an answer all the same, and soon. */
START_TEST(odd_sizes)
{
    static const uint64_t sizes[] = {1, 7, 8, 127, 129, 100000, UINT64_C(1) << 39};
    for (size_t i = 0; i < 7 * 7 * 7; i++) {
        EchPlaceProduct product = PLAIN(.m = sizes[i % 7], .n = sizes[i / 7 % 7], .k = sizes[i / 49], .rows_on_lanes = i % 2 == 0, .more_out = i % 3 == 0);
        EchPlaceWindows w;
        ech_place_windows(&product, &w);
        ck_assert(w.m >= 1 && w.m <= MAX(product.m, 128) && w.n >= 1 && w.k >= 1 && w.steps >= 1);
        ck_assert(w.lhs_times >= 1 - 1e-9 && w.matrix > 0);
        EchPlaceConvolution c = {.product = product, .n = 1 + (unsigned)(i % 3), .depthwise = i % 5 == 0, .depthwise_gradient = i % 5 == 1};
        for (unsigned d = 0; d < 3; d++) {
            c.dims[d].lhs = sizes[(i + d) % 7];
            c.dims[d].size = sizes[i / 7 % 7];
            c.dims[d].out = sizes[(i + 2 * d) % 7];
            c.dims[d].stride = 1 + i % 4;
            c.dims[d].met = 0.5;
        }
        ech_place_convolution(&c, &w);
        ck_assert(isfinite(w.matrix) && isfinite(w.moves) && w.lhs_times >= 1 - 1e-9 && w.steps >= 1);
    }
}
END_TEST

#define ENTRY(arguments, operands)                                                                                                                             \
    "ENTRY %e (" arguments ") -> bf16[1536,2560] {\n"                                                                                                          \
    "  %x = bf16[1536,1280]{1,0:T(8,128)(2,1)} parameter(0)\n  %w = bf16[1280,2560]{1,0:T(8,128)(2,1)} parameter(1)\n"                                         \
    "  %r = bf16[1536,2560]{1,0:T(8,128)(2,1)} parameter(2)\n"                                                                                                 \
    "  ROOT %f = bf16[1536,2560]{1,0:T(8,128)(2,1)} fusion(" operands "), kind=kOutput, calls=%b\n}\n"

static const char residual[] =
    "HloModule m, is_scheduled=true\n\n"
    "%b (p: bf16[1536,2560], q: bf16[1536,1280], s: bf16[1280,2560]) -> bf16[1536,2560] {\n"
    "  %p = bf16[1536,2560]{1,0:T(8,128)(2,1)} parameter(0)\n"
    "  %q = bf16[1536,1280]{1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %s = bf16[1280,2560]{1,0:T(8,128)(2,1)} parameter(2)\n"
    "  %pf = f32[1536,2560]{1,0:T(8,128)} convert(%p)\n"
    "  %c = bf16[1536,2560]{1,0:T(8,128)(2,1)} convolution(%q, %s), dim_labels=bf_io->bf\n"
    "  %cf = f32[1536,2560]{1,0:T(8,128)} convert(%c)\n"
    "  %a = f32[1536,2560]{1,0:T(8,128)} add(%pf, %cf)\n"
    "  ROOT %z = bf16[1536,2560]{1,0:T(8,128)(2,1)} convert(%a)\n}\n\n" ENTRY("x: bf16[1536,1280], w: bf16[1280,2560], r: bf16[1536,2560]", "%r, %x, %w");

static const char rectified[] = "HloModule m, is_scheduled=true\n\n"
                                "%b (q: bf16[1536,1280], s: bf16[1280,2560]) -> bf16[1536,2560] {\n"
                                "  %q = bf16[1536,1280]{1,0:T(8,128)(2,1)} parameter(0)\n"
                                "  %s = bf16[1280,2560]{1,0:T(8,128)(2,1)} parameter(1)\n"
                                "  ROOT %c = bf16[1536,2560]{1,0:T(8,128)(2,1)} convolution(%q, %s), dim_labels=bf_io->bf\n}\n\n" ENTRY(
                                    "x: bf16[1536,1280], w: bf16[1280,2560], r: bf16[1536,2560]", "%x, %w");

/* @text on @chip: clocks of its fusion %f, and how often its operand @operand is read. */
static double clocks_of(const char *text, const char *chip, uint32_t operand, double *ret_times)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GBytes) bytes = g_bytes_new_static(text, strlen(text));
    g_autoptr(EchProgram) program = ech_hlo_read_text(bytes, "m.hlo", chip, diag, &error);
    ck_assert_msg(program != NULL, "%s", error ? error->message : "");
    const EchPlaceChip *place = ech_place_chip(chip);
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(program, place);
    EchId f = program->computations[program->entry].root;
    uint32_t at = costs->first_operand[f] + operand;
    const EchInstruction *i = &program->instructions[f];
    *ret_times = (double)costs->operand_bytes[at] / (double)program->shapes[program->instructions[ech_program_operand(program, i, operand)].shape].bytes;
    return (double)costs->seconds[f] / place->clock_s;
}

/* Arithmetic behind a product adds to what takes it out of the units; the rows are read for both windows of columns. The compiler's own: 69,120 and 62,208. */
START_TEST(fused)
{
    static const char *const chips[] = {"tpu-v6e", "tpu-tpu7x"};
    for (size_t c = 0; c < 2; c++) {
        double times;
        ck_assert_double_eq_tol(clocks_of(residual, chips[c], 1, &times), 69120, 1);
        ck_assert_double_eq_tol(times, 2, 1e-6);
        ck_assert_double_eq_tol(clocks_of(rectified, chips[c], 1, &times), 62208, 1);
        ck_assert_double_eq_tol(times, 1.8, 1e-6);
    }
}
END_TEST

/* What lies in tiles of 16 rows comes in once, and takes no room: all columns fit (tpu7x: 34,560 clocks). */
START_TEST(other_tiles)
{
    g_autofree char *text = g_strdup(rectified);
    char *w = strstr(text, "%w = bf16[1280,2560]{1,0:T(8,128)(2,1)}");
    g_autofree char *tiled = g_strdup_printf("%.*s%%w = bf16[1280,2560]{1,0:T(16,128)(2,1)}%s", (int)(w - text), text, w + 39);
    double times;
    ck_assert_double_eq_tol(clocks_of(tiled, "tpu-tpu7x", 1, &times), 34560, 1);
    ck_assert_double_eq_tol(times, 1, 1e-6);
}
END_TEST

/* A ragged product counts all rows with every group, and nothing else (256,000 clocks). */
START_TEST(ragged)
{
    static const char text[] =
        "HloModule m, is_scheduled=true\n\n"
        "%i (p: bf16[5120,1024], q: bf16[10,1024,1280]) -> bf16[5120,1280] {\n"
        "  %p = bf16[5120,1024]{1,0:T(8,128)(2,1)} parameter(0)\n"
        "  %b = bf16[10,5120,1024]{2,1,0:T(8,128)(2,1)} broadcast(%p), dimensions={1,2}\n"
        "  %q = bf16[10,1024,1280]{2,1,0:T(8,128)(2,1)} parameter(1)\n"
        "  %c = bf16[10,5120,1280]{2,1,0:T(8,128)(2,1)} convolution(%b, %q), window={size=10 stride=9 lhs_dilate=10}, dim_labels=0bf_0io->0bf\n"
        "  ROOT %s = bf16[5120,1280]{1,0:T(8,128)(2,1)} bitcast(%c)\n}\n\n"
        "%b (p: bf16[5120,1024], q: bf16[10,1024,1280]) -> bf16[5120,1280] {\n"
        "  %p = bf16[5120,1024]{1,0:T(8,128)(2,1)} parameter(0)\n"
        "  %q = bf16[10,1024,1280]{2,1,0:T(8,128)(2,1)} parameter(1)\n"
        "  ROOT %g = bf16[5120,1280]{1,0:T(8,128)(2,1)} fusion(%p, %q), kind=kOutput, calls=%i, "
        "backend_config={\"convolution_algorithm_config\":{\"is_ragged_dot\":true,\"num_groups_in_ragged_dot\":\"10\"}}\n}\n\n"
        "ENTRY %e (x: bf16[5120,1024], w: bf16[10,1024,1280]) -> bf16[5120,1280] {\n"
        "  %x = bf16[5120,1024]{1,0:T(8,128)(2,1)} parameter(0)\n  %w = bf16[10,1024,1280]{2,1,0:T(8,128)(2,1)} parameter(1)\n"
        "  ROOT %f = bf16[5120,1280]{1,0:T(8,128)(2,1)} fusion(%x, %w), kind=kCustom, calls=%b\n}\n";
    double times;
    ck_assert_double_eq_tol(clocks_of(text, "tpu-v6e", 1, &times), 256000, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place_windows");
    TCase *tcase = tcase_create("windows");
    tcase_add_loop_test(tcase, windows, 0, G_N_ELEMENTS(cases));
    tcase_add_loop_test(tcase, positions, 0, G_N_ELEMENTS(convolutions));
    tcase_add_test(tcase, odd_sizes);
    tcase_add_test(tcase, fused);
    tcase_add_test(tcase, other_tiles);
    tcase_add_test(tcase, ragged);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
