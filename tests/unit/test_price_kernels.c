/* Instructions as kernels: what the program's text decides about their price. */
#include "sim/base/error.h"
#include "sim/experiment/validate.h"
#include "sim/import/import.h"
#include "sim/program/price_kernels.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <string.h>

static EchKernelCost price_in(const EchProgram *program, const char *name, const char *device, EchKernelView view, bool own_tiles)
{
    g_autoptr(EchDevice) chip = ech_test_device(device, NULL);
    EchKernelModel model;
    EchKernelCost cost;
    ck_assert(ech_kernel_model_init(&model, chip, view, NULL));
    ck_assert(ech_program_price_kernel(program, ech_test_instruction(program, name), &model, own_tiles, NULL, &cost));
    return cost;
}

static EchKernelCost price(const EchProgram *program, const char *name, const char *device, EchKernelView view)
{
    return price_in(program, name, device, view, true);
}

/* Its time at @ghz is the cycles that the compiler prints for it, but for a share of them; @own_tiles: with windows of ours. */
static EchKernelCost check_cycles(const EchProgram *program, const char *name, const char *device, double ghz, bool own_tiles, double expected, double within)
{
    EchKernelCost cost = price_in(program, name, device, ECH_KERNEL_COMPILER, own_tiles);
    double cycles = (double)cost.time * ghz * 1e-3;
    ck_assert_msg(fabs(cycles / expected - 1) < within, "%s on %s: %g cycles, the compiler has %g", name, device, cycles, expected);
    return cost;
}

static const char reductions[] =
    "HloModule reductions, is_scheduled=true\n\n"
    "%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a.1 = f32[] parameter(0)\n  %b.1 = f32[] parameter(1)\n  ROOT %s = f32[] add(%a.1, %b.1)\n}\n\n"
    "%exps (p: f32[4096,1024]) -> f32[4096] {\n  %p = f32[4096,1024]{1,0:T(8,128)} parameter(0)\n"
    "  %e = f32[4096,1024]{1,0:T(8,128)} exponential(%p)\n  %z = f32[] constant(0)\n"
    "  ROOT %r = f32[4096]{0:T(1024)} reduce(%e, %z), dimensions={1}, to_apply=%sum\n}\n\n"
    "%squares (p: f32[4096,1024]) -> f32[4096] {\n  %p.1 = f32[4096,1024]{1,0:T(8,128)} parameter(0)\n"
    "  %q = f32[4096,1024]{1,0:T(8,128)} multiply(%p.1, %p.1)\n  %z.1 = f32[] constant(0)\n"
    "  ROOT %r.1 = f32[4096]{0:T(1024)} reduce(%q, %z.1), dimensions={1}, to_apply=%sum\n}\n\n"
    "%rows (p: f32[4096,1024]) -> f32[1024] {\n  %p.2 = f32[4096,1024]{1,0:T(8,128)} parameter(0)\n"
    "  %q.2 = f32[4096,1024]{1,0:T(8,128)} multiply(%p.2, %p.2)\n  %z.2 = f32[] constant(0)\n"
    "  ROOT %r.2 = f32[1024]{0:T(1024)} reduce(%q.2, %z.2), dimensions={0}, to_apply=%sum\n}\n\n"
    "ENTRY %main (x: f32[4096,1024]) -> f32[4096] {\n  %x = f32[4096,1024]{1,0:T(8,128)} parameter(0)\n  %zero = f32[] constant(0)\n"
    "  %largest = f32[4096]{0:T(1024)} reduce(%x, %zero), dimensions={1}, to_apply=%max\n"
    "  %of_exps = f32[4096]{0:T(1024)} fusion(%x), kind=kLoop, calls=%exps\n"
    "  %of_rows = f32[1024]{0:T(1024)} fusion(%x), kind=kLoop, calls=%rows\n"
    "  ROOT %of_squares = f32[4096]{0:T(1024)} fusion(%x), kind=kLoop, calls=%squares\n}\n";

/* On the chip a softmax's two reductions and one over rows cost what they read; another sum along lanes a pass more. The compiler counts all of them. */
START_TEST(reductions_cost)
{
    g_autoptr(EchProgram) program = ech_test_program(reductions, "tpu-v3");
    double read = 4096.0 * 1024 * 4 / 418e9 * 1e12;
    static const char *const free_of_charge[] = {"largest", "of_exps", "of_rows"};
    for (size_t i = 0; i < G_N_ELEMENTS(free_of_charge); i++) {
        EchKernelCost hardware = price(program, free_of_charge[i], "tpu-v3", ECH_KERNEL_HARDWARE),
                      compiler = price(program, free_of_charge[i], "tpu-v3", ECH_KERNEL_COMPILER);
        ck_assert_double_gt((double)hardware.time, 0.9 * read);
        ck_assert_double_lt((double)hardware.time, 1.3 * read);
        ck_assert_double_gt((double)compiler.time, 1.85 * read);
    }
    EchKernelCost hardware = price(program, "of_squares", "tpu-v3", ECH_KERNEL_HARDWARE),
                  compiler = price(program, "of_squares", "tpu-v3", ECH_KERNEL_COMPILER);
    ck_assert_double_gt((double)hardware.time, 1.85 * read);
    ck_assert_int_eq(hardware.time, compiler.time);
}
END_TEST

/* Arrays that are born on chip, with the cycles that libtpu 2026-10 prints for v6e: whole registers need no copy and start at once, parts of one are laid out
 * again, and lanes are filled by a permutation a register. */
START_TEST(born_on_chip)
{
    static const struct {
        const char *name;
        double cycles, within;
    } cases[] = {{"planes", 64, 0.5}, {"lanes", 8464, 0.05}, {"few", 2120, 0.05}, {"many", 18, 0.5}};
    g_autoptr(EchProgram) program = ech_test_program("HloModule born, is_scheduled=true\n\n"
                                                     "ENTRY %main (x: f32[2,4,1024]) -> s32[64] {\n  %x = f32[2,4,1024]{2,1,0:T(4,128)S(1)} parameter(0)\n"
                                                     "  %z = f32[]{:T(128)} constant(0)\n"
                                                     "  %planes = f32[48,32,128]{2,1,0:T(8,128)S(1)} broadcast(%z), dimensions={}\n"
                                                     "  %lanes = f32[2,4,1024,128]{3,2,1,0:T(8,128)S(1)} broadcast(%x), dimensions={0,1,2}\n"
                                                     "  %many = s32[8192]{0:T(1024)S(1)} iota(), iota_dimension=0\n"
                                                     "  ROOT %few = s32[64]{0:T(128)S(1)} iota(), iota_dimension=0\n}\n",
                                                     "tpu-v6e");
    EchKernelCost cost = price(program, cases[_i].name, "tpu-v6e", ECH_KERNEL_COMPILER);
    double cycles = (double)cost.time * 1.75e-3;
    ck_assert_msg(cycles > cases[_i].cycles * (1 - cases[_i].within) && cycles < cases[_i].cycles * (1 + cases[_i].within),
                  "%s: %g cycles, the compiler has %g", cases[_i].name, cycles, cases[_i].cycles);
}
END_TEST

#define WINDOWS(kernel, out, in, steps)                                                                                                                        \
    "backend_config={\"window_config\":{\"kernel_window_bounds\":[" kernel "],\"output_window_bounds\":[" out "],\"input_window_bounds\":[" in                 \
    "],\"iteration_bounds\":[" steps "],\"buffering_level\":\"2\"}}"

/* Convolutions that training makes, with the cycles that libtpu 2026-10 prints for v6e: steps over a gradient's pixels add to one result, which is stored once;
 * an input's gradient takes no whole number of passes; every register of a depthwise one is loaded and stored besides; and a softmax behind a product, whose
 * maximum needs whole rows, is a pass after it. */
static const char training[] =
    "HloModule training, is_scheduled=true\n\n"
    "%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a.1 = f32[] parameter(0)\n  %b.1 = f32[] parameter(1)\n  ROOT %s = f32[] add(%a.1, %b.1)\n}\n\n"
    "%attend (q: bf16[8,196,6,64], k: bf16[8,196,6,64]) -> (f32[8,6,196], f32[8,6,196,196]) {\n"
    "  %q = bf16[8,196,6,64]{1,3,2,0:T(8,128)(2,1)S(1)} parameter(0)\n  %k = bf16[8,196,6,64]{1,3,2,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %c = f32[8,6,196,196]{2,3,1,0:T(8,128)} convolution(%q, %k), window={size=8x6 stride=7x5 lhs_dilate=8x6}, dim_labels=0b1f_0o1i->01bf\n"
    "  %low = f32[] constant(-inf)\n"
    "  %w = f32[8,6,196,196]{2,3,1,0:T(8,128)} reduce-window(%c, %low), window={size=1x1x1x391 pad=0_0x0_0x0_0x195_195}, to_apply=%max\n"
    "  %d = f32[8,6,196,196]{2,3,1,0:T(8,128)} subtract(%c, %w)\n  %e = f32[8,6,196,196]{2,3,1,0:T(8,128)S(1)} exponential(%d)\n"
    "  %z = f32[] constant(0)\n  %r = f32[8,6,196]{2,1,0:T(8,128)S(1)} reduce(%e, %z), dimensions={3}, to_apply=%sum\n"
    "  ROOT %t = (f32[8,6,196]{2,1,0:T(8,128)S(1)}, f32[8,6,196,196]{2,3,1,0:T(8,128)S(1)}) tuple(%r, %e)\n}\n\n"
    "ENTRY %main (x: bf16[32,56,56,256], y: bf16[32,28,28,512], g: bf16[32,28,28,128], f: bf16[3,3,128,128], u: bf16[32,28,28,240], v: bf16[5,5,1,240], "
    "h: bf16[8,196,6,64]) -> bf16[32,28,28,240] {\n"
    "  %x = bf16[32,56,56,256]{3,2,1,0:T(8,128)(2,1)} parameter(0)\n  %y = bf16[32,28,28,512]{3,0,2,1:T(8,128)(2,1)} parameter(1)\n"
    "  %g = bf16[32,28,28,128]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(2)\n  %f = bf16[3,3,128,128]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(3)\n"
    "  %u = bf16[32,28,28,240]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(4)\n  %v = bf16[5,5,1,240]{3,1,2,0:T(8,128)(2,1)S(1)} parameter(5)\n"
    "  %h = bf16[8,196,6,64]{1,3,2,0:T(8,128)(2,1)S(1)} parameter(6)\n"
    "  %filter = bf16[1,1,256,512]{3,2,1,0:T(8,128)(2,1)} convolution(%x, %y), window={size=28x28 pad=0_-1x0_-1 rhs_dilate=2x2}, "
    "dim_labels=f01b_i01o->01bf, " WINDOWS(
        "4,28,4,4", "1,1,32,4", "7,55,4,2",
        "1,1,1,1,7,1,1") "\n"
                         "  %input = bf16[32,56,56,128]{3,0,2,1:T(8,128)(2,1)S(1)} convolution(%g, %f), window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2 "
                         "rhs_reversal=1x1}, "
                         "dim_labels=b01f_01oi->b01f, " WINDOWS(
                             "3,3,16,1", "28,28,4,1", "15,15,4,1",
                             "1,1,2,2,1,1,1") "\n"
                                              "  %softmax = (f32[8,6,196]{2,1,0:T(8,128)S(1)}, f32[8,6,196,196]{2,3,1,0:T(8,128)S(1)}) fusion(%h, %h), "
                                              "kind=kOutput, calls=%attend, " WINDOWS(
                                                  "1,1,1,2", "8,6,25,2", "8,6,25,2",
                                                  "1,1,1,1,1,1,1") "\n"
                                                                   "  ROOT %depthwise = bf16[32,28,28,240]{3,0,2,1:T(8,128)(2,1)} convolution(%u, %v), "
                                                                   "window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f, "
                                                                   "feature_group_count=240, " WINDOWS("5,5,1,1", "7,14,1,1", "11,18,1,1",
                                                                                                       "2,4,4,2,1,1,1") "\n}\n";

START_TEST(training_costs)
{
    static const struct {
        const char *name;
        double cycles, within;
    } cases[] = {{"filter", 99538, 0.03}, {"input", 116992, 0.002}, {"depthwise", 320567, 0.002}, {"softmax", 9132, 0.002}};
    g_autoptr(EchProgram) program = ech_test_program(training, "tpu-v6e");
    check_cycles(program, cases[_i].name, "tpu-v6e", 1.75, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* What libtpu 0.0.51 prints for v6e: 128 channels take a pass of a large unit a position, 192 share passes by threes; holes leave the images alone to pass;
 * results of 16 bits are narrowed after every block on chip but a column's last; and arithmetic that takes longer than the units is what counts. */
static const char passes[] =
    "HloModule passes, is_scheduled=true\n\n"
    "%add (r: bf16[49152,256], x: bf16[49152,256], w: bf16[256,256]) -> bf16[49152,256] {\n"
    "  %r = bf16[49152,256]{1,0:T(8,128)(2,1)} parameter(0)\n  %x.1 = bf16[49152,256]{1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %w.1 = bf16[256,256]{1,0:T(8,128)(2,1)} parameter(2)\n"
    "  %p = bf16[49152,256]{1,0:T(8,128)(2,1)} convolution(%x.1, %w.1), dim_labels=bf_io->bf\n"
    "  %a = f32[49152,256]{1,0:T(8,128)} convert(%p)\n  %b = f32[49152,256]{1,0:T(8,128)} convert(%r)\n"
    "  %c = f32[49152,256]{1,0:T(8,128)} add(%a, %b)\n  ROOT %d = bf16[49152,256]{1,0:T(8,128)(2,1)S(1)} convert(%c)\n}\n\n"
    "ENTRY %main (x: bf16[8,16,16,128], f: bf16[3,3,128,256], y: bf16[8,16,16,192], g: bf16[5,5,192,128], z: bf16[16,14,14,256], h: bf16[3,3,256,256], "
    "r: bf16[49152,256], m: bf16[49152,256], w: bf16[256,256]) -> bf16[49152,256] {\n"
    "  %x = bf16[8,16,16,128]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(0)\n  %f = bf16[3,3,128,256]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %y = bf16[8,16,16,192]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(2)\n  %g = bf16[5,5,192,128]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(3)\n"
    "  %z = bf16[16,14,14,256]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(4)\n  %h = bf16[3,3,256,256]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(5)\n"
    "  %r.1 = bf16[49152,256]{1,0:T(8,128)(2,1)S(1)} parameter(6)\n  %m = bf16[49152,256]{1,0:T(8,128)(2,1)S(1)} parameter(7)\n"
    "  %w = bf16[256,256]{1,0:T(8,128)(2,1)S(1)} parameter(8)\n"
    "  %one = bf16[8,16,16,256]{3,0,2,1:T(8,128)(2,1)S(1)} convolution(%x, %f), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, " WINDOWS(
        "3,3,16,2", "16,16,1,2", "18,18,1,1",
        "1,1,1,1,1,1,1") "\n"
                         "  %three = bf16[8,16,16,128]{3,0,2,1:T(8,128)(2,1)S(1)} convolution(%y, %g), window={size=5x5 pad=2_2x2_2}, "
                         "dim_labels=b01f_01io->b01f, " WINDOWS(
                             "5,5,24,1", "16,16,1,1", "20,20,1,2",
                             "1,1,1,1,1,1,1") "\n"
                                              "  %holes = bf16[16,28,28,256]{3,0,2,1:T(8,128)(2,1)S(1)} convolution(%z, %h), window={size=3x3 pad=2_1x2_1 "
                                              "lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f, " WINDOWS(
                                                  "3,3,32,2", "28,28,2,2", "15,15,2,2",
                                                  "1,1,1,1,1,1,1") "\n"
                                                                   "  ROOT %residual = bf16[49152,256]{1,0:T(8,128)(2,1)S(1)} fusion(%r.1, %m, %w), "
                                                                   "kind=kOutput, calls=%add, " WINDOWS("32,2", "1536,2", "1536,2", "1,4,1") "\n}\n";

START_TEST(pass_costs)
{
    static const struct {
        const char *name;
        double cycles, within;
    } cases[] = {{"one", 5632, 0.002}, {"three", 7168, 0.002}, {"holes", 57472, 0.002}, {"residual", 50981, 0.002}};
    g_autoptr(EchProgram) program = ech_test_program(passes, "tpu-v6e");
    check_cycles(program, cases[_i].name, "tpu-v6e", 1.75, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* Products that sum up over 512 positions and the lanes of each, as the gradient of what mixes a few streams of a model: each position's few rows of both are
 * taken in as they are (libtpu 0.0.52, v6e). */
static const char mixing[] =
    "HloModule mixing, is_scheduled=true\n\n"
    "ENTRY %main (a: bf16[8,512,512], b: bf16[16,512,1024], c: bf16[32,512,512]) -> bf16[32,8,1] {\n"
    "  %a = bf16[8,512,512]{2,0,1:T(8,128)(2,1)S(1)} parameter(0)\n  %b = bf16[16,512,1024]{2,0,1:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %c = bf16[32,512,512]{2,0,1:T(8,128)(2,1)S(1)} parameter(2)\n"
    "  %eight = bf16[8,8,1]{1,0,2:T(8,128)(2,1)S(1)} convolution(%a, %a), window={size=512}, dim_labels=b0f_o0i->bf0, " WINDOWS(
        "512,1,4", "1,1,1", "512,1,4",
        "1,1,1,1,1") "\n"
                     "  %sixteen = bf16[16,16,1]{1,0,2:T(8,128)(2,1)S(1)} convolution(%b, %b), window={size=512}, dim_labels=b0f_o0i->bf0, " WINDOWS(
                         "512,2,1", "1,2,1", "512,2,1", "1,1,1,1,8") "\n"
                                                                     "  ROOT %oblong = bf16[32,8,1]{0,1,2:T(8,128)(2,1)S(1)} convolution(%c, %a), "
                                                                     "window={size=512}, dim_labels=b0f_o0i->bf0, " WINDOWS("512,1,4", "1,1,1", "512,4,4",
                                                                                                                            "1,1,1,1,1") "\n}\n";

START_TEST(mixing_costs)
{
    static const struct {
        const char *name;
        double cycles, within;
    } cases[] = {{"eight", 6543, 0.25}, {"sixteen", 21907, 0.25}, {"oblong", 11322, 0.35}};
    g_autoptr(EchProgram) program = ech_test_program(mixing, "tpu-v6e");
    check_cycles(program, cases[_i].name, "tpu-v6e", 1.75, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* The matrices of an FFT times arrays whose images lie on lanes: the rows that pass are a matrix's (libtpu 0.0.52, v6e). */
static const char pointwise[] =
    "HloModule pointwise, is_scheduled=true\n\n"
    "ENTRY %main (a: f32[4,128,128,64], b: f32[2,256,128,16], c: f32[8,384,128,8], x: f32[64,64,1,1], y: f32[16,16,1,1], z: f32[8,8,1,1]) -> f32[8,384,128,8] "
    "{\n"
    "  %a = f32[4,128,128,64]{2,3,1,0:T(8,128)S(1)} parameter(0)\n  %b = f32[2,256,128,16]{2,3,1,0:T(8,128)S(1)} parameter(1)\n"
    "  %c = f32[8,384,128,8]{2,3,1,0:T(8,128)S(1)} parameter(2)\n  %x = f32[64,64,1,1]{0,1,3,2:T(8,128)S(1)} parameter(3)\n"
    "  %y = f32[16,16,1,1]{0,1,3,2:T(8,128)S(1)} parameter(4)\n  %z = f32[8,8,1,1]{0,1,3,2:T(8,128)S(1)} parameter(5)\n"
    "  %sixtyfour = f32[4,128,128,64]{2,3,1,0:T(8,128)S(1)} convolution(%a, %x), window={size=1x1}, dim_labels=01bf_io01->01bf, "
    "operand_precision={highest,highest}, " WINDOWS(
        "1,1,8,1", "2,128,8,1", "2,128,8,1",
        "1,1,2,1,1,1,1") "\n"
                         "  %sixteen = f32[2,256,128,16]{2,3,1,0:T(8,128)S(1)} convolution(%b, %y), window={size=1x1}, dim_labels=01bf_io01->01bf, "
                         "operand_precision={highest,highest}, " WINDOWS("1,1,2,1", "2,256,2,1", "2,256,2,1",
                                                                         "1,1,1,1,1,1,1") "\n"
                                                                                          "  ROOT %eight = f32[8,384,128,8]{2,3,1,0:T(8,128)S(1)} "
                                                                                          "convolution(%c, %z), window={size=1x1}, dim_labels=01bf_io01->01bf, "
                                                                                          "operand_precision={highest,highest}, " WINDOWS(
                                                                                              "1,1,1,1", "8,384,1,1", "8,384,1,1", "1,1,1,1,1,1,1") "\n}\n";

START_TEST(pointwise_costs)
{
    static const struct {
        const char *name;
        double cycles, within;
    } cases[] = {{"sixtyfour", 26624, 0.08}, {"sixteen", 7168, 0.15}, {"eight", 19456, 0.06}};
    g_autoptr(EchProgram) program = ech_test_program(pointwise, "tpu-v6e");
    check_cycles(program, cases[_i].name, "tpu-v6e", 1.75, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* Convolutions of images that lie on lanes, with the cycles that libtpu 0.0.52 has for v6e. Groups are as many convolutions; weights with the channels in on
 * lanes are taken in position by position, others of few channels together; a filter's gradient passes its few rows by the window's last dimension, and takes
 * in the channels that there are; of a dilated input positions that meet holes are left out. */
static const char laned[] =
    "HloModule laned, is_scheduled=true\n\n"
    "ENTRY %main (a: bf16[256,16,16,4,16], b: bf16[3,3,16,4,16], c: bf16[128,16,16,4,16], d: bf16[3,3,16,4,32], e: bf16[128,16,16,1], f: bf16[5,5,1,64], "
    "g: bf16[128,16,16,64], h: bf16[256,16,16,64], i: bf16[5,5,3,64]) -> bf16[256,32,32,3] {\n"
    "  %a = bf16[256,16,16,4,16]{0,4,3,2,1:T(8,128)(2,1)S(1)} parameter(0)\n  %b = bf16[3,3,16,4,16]{2,4,3,1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %c = bf16[128,16,16,4,16]{0,4,3,2,1:T(8,128)(2,1)S(1)} parameter(2)\n  %d = bf16[3,3,16,4,32]{4,2,3,1,0:T(8,128)(2,1)S(1)} parameter(3)\n"
    "  %e = bf16[128,16,16,1]{0,3,2,1:T(2,128)(2,1)S(1)} parameter(4)\n  %f = bf16[5,5,1,64]{3,2,1,0:T(2,128)(2,1)S(1)} parameter(5)\n"
    "  %g = bf16[128,16,16,64]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(6)\n  %h = bf16[256,16,16,64]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(7)\n"
    "  %i = bf16[5,5,3,64]{3,2,1,0:T(4,128)(2,1)S(1)} parameter(8)\n"
    "  %groups = bf16[256,16,16,4,16]{0,4,3,2,1:T(8,128)(2,1)S(1)} convolution(%a, %b), "
    "window={size=3x3x4 stride=1x1x3 pad=1_1x1_1x0_0 lhs_dilate=1x1x4}, dim_labels=b012f_01i2o->b012f, " WINDOWS(
        "3,3,2,2,1", "16,16,2,2,2", "18,18,2,2,2",
        "2,1,1,1,1,1,1,1,1") "\n"
                             "  %wider = bf16[128,16,16,4,32]{0,4,3,2,1:T(8,128)(2,1)S(1)} convolution(%c, %d), "
                             "window={size=3x3x4 stride=1x1x3 pad=1_1x1_1x0_0 lhs_dilate=1x1x4}, dim_labels=b012f_01i2o->b012f, " WINDOWS(
                                 "3,3,2,2,1", "16,16,2,4,1", "18,18,2,2,1",
                                 "2,1,1,1,1,1,1,1,1") "\n"
                                                      "  %first = bf16[128,16,16,64]{0,3,2,1:T(8,128)(2,1)S(1)} convolution(%e, %f), window={size=5x5 "
                                                      "pad=2_2x2_2}, dim_labels=b01f_01io->b01f, " WINDOWS(
                                                          "5,5,1,1", "16,16,8,1", "20,20,1,1",
                                                          "1,1,1,1,1,1,1") "\n"
                                                                           "  %filter = bf16[5,5,1,64]{3,2,1,0:T(2,128)(2,1)S(1)} convolution(%e, %g), "
                                                                           "window={size=16x16 pad=2_2x2_2}, dim_labels=f01b_i01o->01bf, " WINDOWS(
                                                                               "16,16,8,1", "5,5,1,1", "20,20,1,1",
                                                                               "1,1,1,1,1,1,1") "\n"
                                                                                                "  ROOT %holes = bf16[256,32,32,3]{0,3,2,1:T(4,128)(2,1)S(1)} "
                                                                                                "convolution(%h, %i), "
                                                                                                "window={size=5x5 pad=3_2x3_2 lhs_dilate=2x2 "
                                                                                                "rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f, " WINDOWS(
                                                                                                    "5,5,1,1", "16,32,1,1", "11,19,8,1",
                                                                                                    "1,2,2,1,1,1,1") "\n}\n";

START_TEST(laned_costs)
{
    static const struct {
        const char *name;
        double cycles;
    } cases[] = {{"groups", 38912}, {"wider", 20278}, {"first", 3072}, {"filter", 3072}, {"holes", 106496}};
    g_autoptr(EchProgram) program = ech_test_program(laned, "tpu-v6e");
    check_cycles(program, cases[_i].name, "tpu-v6e", 1.75, false, cases[_i].cycles, 0.03);
}
END_TEST

/* Transposed convolutions: each position of the result meets its own part of the window, 1, 4, 2 1/4 and 1 of its pixels, and takes the weights in anew, 256 or
 * 32 rows of 128 lanes of them; v4 slowly. The cycles are libtpu 0.0.52's, for v6e and the last for v4. */
static const char transposed[] =
    "HloModule transposed, is_scheduled=true\n\n"
    "%half.body (f: bf16[2,2,256,128], x: bf16[8,32,32,256]) -> bf16[8,64,64,128] {\n"
    "  %f.half = bf16[2,2,256,128]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %x.half = bf16[8,32,32,256]{3,2,1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %y.half = bf16[8,32,32,256]{3,0,2,1:T(8,128)(2,1)} copy(%x.half)\n"
    "  ROOT %c.half = bf16[8,64,64,128]{3,0,2,1:T(8,128)(2,1)S(1)} convolution(%y.half, %f.half), window={size=2x2 pad=1_1x1_1 lhs_dilate=2x2}, "
    "dim_labels=b01f_01io->b01f\n}\n\n"
    "%narrow.body (f: bf16[4,4,128,32], x: bf16[8,32,32,128]) -> bf16[8,64,64,32] {\n"
    "  %f.narrow = bf16[4,4,128,32]{2,3,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %x.narrow = bf16[8,32,32,128]{3,2,1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %y.narrow = bf16[8,32,32,128]{3,0,2,1:T(8,128)(2,1)} copy(%x.narrow)\n"
    "  ROOT %c.narrow = bf16[8,64,64,32]{3,0,2,1:T(8,128)(2,1)S(1)} convolution(%y.narrow, %f.narrow), window={size=4x4 pad=2_2x2_2 lhs_dilate=2x2}, "
    "dim_labels=b01f_01io->b01f\n}\n\n"
    "%quarters.body (f: bf16[3,3,128,384], x: bf16[8,32,32,128]) -> bf16[8,64,64,384] {\n"
    "  %f.quarters = bf16[3,3,128,384]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %x.quarters = bf16[8,32,32,128]{3,2,1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %y.quarters = bf16[8,32,32,128]{3,0,2,1:T(8,128)(2,1)} copy(%x.quarters)\n"
    "  ROOT %c.quarters = bf16[8,64,64,384]{3,0,2,1:T(8,128)(2,1)S(1)} convolution(%y.quarters, %f.quarters), window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2}, "
    "dim_labels=b01f_01io->b01f\n}\n\n"
    "%slow.body (f: bf16[2,2,256,256], x: bf16[8,32,32,256]) -> bf16[8,64,64,256] {\n"
    "  %f.slow = bf16[2,2,256,256]{3,2,1,0:T(8,128)(2,1)S(3)} parameter(0)\n  %x.slow = bf16[8,32,32,256]{3,2,1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %y.slow = bf16[8,32,32,256]{3,0,2,1:T(8,128)(2,1)} copy(%x.slow)\n"
    "  ROOT %c.slow = bf16[8,64,64,256]{3,0,2,1:T(8,128)(2,1)S(3)} convolution(%y.slow, %f.slow), window={size=2x2 pad=1_1x1_1 lhs_dilate=2x2}, "
    "dim_labels=b01f_01io->b01f\n}\n\n"
    "ENTRY %main (f1: bf16[2,2,256,128], f2: bf16[4,4,128,32], f3: bf16[3,3,128,384], f4: bf16[2,2,256,256], x: bf16[8,32,32,256], y: bf16[8,32,32,128]) -> "
    "bf16[8,64,64,256] {\n"
    "  %f1 = bf16[2,2,256,128]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n"
    "  %f2 = bf16[4,4,128,32]{2,3,1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %f3 = bf16[3,3,128,384]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(2)\n"
    "  %f4 = bf16[2,2,256,256]{3,2,1,0:T(8,128)(2,1)S(3)} parameter(3)\n"
    "  %x = bf16[8,32,32,256]{3,2,1,0:T(8,128)(2,1)} parameter(4)\n  %y = bf16[8,32,32,128]{3,2,1,0:T(8,128)(2,1)} parameter(5)\n"
    "  %half = bf16[8,64,64,128]{3,0,2,1:T(8,128)(2,1)S(1)} fusion(%f1, %x), kind=kOutput, calls=%half.body, " WINDOWS(
        "2,2,32,1", "32,64,1,1", "17,33,1,2",
        "1,1,2,1,1,1,1") "\n"
                         "  %narrow = bf16[8,64,64,32]{3,0,2,1:T(8,128)(2,1)S(1)} fusion(%f2, %y), kind=kOutput, calls=%narrow.body, " WINDOWS(
                             "4,4,4,1", "32,64,1,1", "18,34,1,1",
                             "1,1,2,1,1,1,1") "\n"
                                              "  %quarters = bf16[8,64,64,384]{3,0,2,1:T(8,128)(2,1)S(1)} fusion(%f3, %y), kind=kOutput, "
                                              "calls=%quarters.body, " WINDOWS(
                                                  "3,3,16,3", "16,64,1,3", "9,33,1,1",
                                                  "1,1,4,1,1,1,1") "\n"
                                                                   "  ROOT %slow = bf16[8,64,64,256]{3,0,2,1:T(8,128)(2,1)S(3)} fusion(%f4, %x), kind=kOutput, "
                                                                   "calls=%slow.body, " WINDOWS("2,2,32,2", "8,32,1,2", "5,17,1,2", "1,1,8,2,1,1,1") "\n}\n";

START_TEST(transposed_costs)
{
    static const struct {
        const char *name, *chip;
        double clock, cycles; /* GHz */
    } cases[] = {{"half", "tpu-v6e", 1.75, 71759}, {"narrow", "tpu-v6e", 1.75, 70359}, {"quarters", "tpu-v6e", 1.75, 448451}, {"slow", "tpu-v4", 1.05, 541419}};
    g_autoptr(EchProgram) program = ech_test_program(transposed, cases[_i].chip);
    check_cycles(program, cases[_i].name, cases[_i].chip, cases[_i].clock, false, cases[_i].cycles, 0.015);
}
END_TEST

/* Of kernel "out" of a program. */
static double cycles_on_v4(const char *text)
{
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v4");
    return (double)price_in(program, "out", "tpu-v4", ECH_KERNEL_COMPILER, false).time * 1.05e-3;
}

/* A product on v4 with 64 multiplications and as many maxima of every element behind it, all after the units: 60,448 cycles by libtpu 0.0.52. */
START_TEST(work_behind_costs)
{
    g_autoptr(GString) text = g_string_new("HloModule behind, is_scheduled=true\n\n"
                                           "%behind (a: bf16[1024,512], b: bf16[512,768]) -> bf16[1024,768] {\n"
                                           "  %a = bf16[1024,512]{1,0:T(8,128)(2,1)S(3)} parameter(0)\n"
                                           "  %b = bf16[512,768]{1,0:T(8,128)(2,1)S(3)} parameter(1)\n"
                                           "  %product = bf16[1024,768]{1,0:T(8,128)(2,1)} convolution(%a, %b), dim_labels=bf_io->bf\n"
                                           "  %m0 = f32[1024,768]{1,0:T(8,128)} convert(%product)\n  %c = f32[] constant(0.1)\n"
                                           "  %w = f32[1024,768]{1,0:T(8,128)} broadcast(%c), dimensions={}\n");
    for (int i = 0; i < 64; i++)
        g_string_append_printf(text,
                               "  %%x%d = f32[1024,768]{1,0:T(8,128)} multiply(%%m%d, %%w)\n"
                               "  %%m%d = f32[1024,768]{1,0:T(8,128)} maximum(%%x%d, %%w)\n",
                               i, i, i + 1, i);
    g_string_append(
        text, "  ROOT %n = bf16[1024,768]{1,0:T(8,128)(2,1)} convert(%m64)\n}\n\n"
              "ENTRY %main (p: bf16[1024,512], q: bf16[512,768]) -> bf16[1024,768] {\n"
              "  %p = bf16[1024,512]{1,0:T(8,128)(2,1)S(3)} parameter(0)\n  %q = bf16[512,768]{1,0:T(8,128)(2,1)S(3)} parameter(1)\n"
              "  ROOT %out = bf16[1024,768]{1,0:T(8,128)(2,1)} fusion(%p, %q), kind=kOutput, calls=%behind, " WINDOWS("64,3", "64,3", "64,4", "2,2,1") "\n}\n");
    ck_assert_double_eq_tol(cycles_on_v4(text->str) / 60448, 1, 0.03);
}
END_TEST

/* Sixteen exponentials of every element, multiplied, in eight windows: v4 has one function a cycle, two other operations, one load and one store (libtpu
 * 0.0.52). */
START_TEST(functions_cost)
{
    g_autoptr(GString) text = g_string_new("HloModule functions, is_scheduled=true\n\n%functions (a: f32[1024,512]) -> f32[1024,512] {\n"
                                           "  %m0 = f32[1024,512]{1,0:T(8,128)S(3)} parameter(0)\n  %c = f32[] constant(0.1)\n"
                                           "  %w = f32[1024,512]{1,0:T(8,128)} broadcast(%c), dimensions={}\n");
    for (int i = 0; i < 16; i++)
        g_string_append_printf(text,
                               "  %%x%d = f32[1024,512]{1,0:T(8,128)} exponential(%%m%d)\n"
                               "  %sm%d = f32[1024,512]{1,0:T(8,128)} multiply(%%x%d, %%w)\n",
                               i, i, i < 15 ? "%" : "ROOT %", i + 1, i);
    g_string_append(text, "}\n\nENTRY %main (p: f32[1024,512]) -> f32[1024,512] {\n  %p = f32[1024,512]{1,0:T(8,128)S(3)} parameter(0)\n"
                          "  ROOT %out = f32[1024,512]{1,0:T(8,128)} fusion(%p), kind=kLoop, calls=%functions, " WINDOWS("", "16,4", "", "8,1") "\n}\n");
    ck_assert_double_eq_tol(cycles_on_v4(text->str) / 15416, 1, 0.01);
}
END_TEST

/* A softmax of windows of 49 by 49 on chip, walked in 384 steps that wait for nothing: 7480 cycles by libtpu 0.0.52 for v6e, where a step's latency for each
 * made 813,000. The second is a batch of products of 16 by 16, which load 16 rows each, not a unit's: 3072. */
static const char narrow_steps[] =
    "HloModule narrow, is_scheduled=true\n\n"
    "%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a.1 = f32[] parameter(0)\n  %b.1 = f32[] parameter(1)\n  ROOT %s = f32[] add(%a.1, %b.1)\n}\n\n"
    "%soft (p: bf16[64,6,49,49]) -> (f32[64,6,49], f32[64,6,49,49]) {\n"
    "  %p = bf16[64,6,49,49]{2,3,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %c = f32[64,6,49,49]{2,3,1,0:T(8,128)} convert(%p)\n"
    "  %k = f32[] constant(0.2)\n  %w = f32[64,6,49,49]{2,3,1,0:T(8,128)} broadcast(%k), dimensions={}\n"
    "  %x = f32[64,6,49,49]{2,3,1,0:T(8,128)} multiply(%c, %w)\n  %low = f32[] constant(-inf)\n"
    "  %r = f32[64,6,49,49]{2,3,1,0:T(8,128)} reduce-window(%x, %low), window={size=1x1x1x97 pad=0_0x0_0x0_0x48_48}, to_apply=%max\n"
    "  %d = f32[64,6,49,49]{2,3,1,0:T(8,128)} subtract(%x, %r)\n  %e = f32[64,6,49,49]{2,3,1,0:T(8,128)S(1)} exponential(%d)\n"
    "  %zero = f32[] constant(0)\n  %n = f32[64,6,49]{2,1,0:T(8,128)S(1)} reduce(%e, %zero), dimensions={3}, to_apply=%sum\n"
    "  ROOT %t = (f32[64,6,49]{2,1,0:T(8,128)S(1)}, f32[64,6,49,49]{2,3,1,0:T(8,128)S(1)}) tuple(%n, %e)\n}\n\n"
    "ENTRY %main (s: bf16[64,6,49,49], a: bf16[512,16,16], b: bf16[512,16,16]) -> f32[512,16,16] {\n"
    "  %s.1 = bf16[64,6,49,49]{2,3,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %a.2 = bf16[512,16,16]{2,1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %b.2 = bf16[512,16,16]{2,1,0:T(8,128)(2,1)S(1)} parameter(2)\n"
    "  %softmax = (f32[64,6,49]{2,1,0:T(8,128)S(1)}, f32[64,6,49,49]{2,3,1,0:T(8,128)S(1)}) fusion(%s.1), kind=kOutput, calls=%soft, " WINDOWS(
        "1,1,1,1", "1,1,7,1", "1,1,7,1", "1,1,64,6,1,1,1") "\n"
                                                           "  ROOT %batch = f32[512,16,16]{2,1,0:T(8,128)S(1)} convolution(%a.2, %b.2), window={size=512 "
                                                           "stride=511 lhs_dilate=512}, dim_labels=0bf_0io->0bf, " WINDOWS("512,2,1", "512,2,1", "512,2,1",
                                                                                                                           "1,1,1,1,1") "\n}\n";

START_TEST(narrow_costs)
{
    static const struct {
        const char *name;
        double cycles, within;
    } cases[] = {{"softmax", 7480, 0.2}, {"batch", 3072, 0.005}};
    g_autoptr(EchProgram) program = ech_test_program(narrow_steps, "tpu-v6e");
    check_cycles(program, cases[_i].name, "tpu-v6e", 1.75, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* A side that begins with a scalar is as large as the product says, not as the scalar is; lone elements are picked one by one, however their result is shaped.
 */
static const char sides[] =
    "HloModule sides, is_scheduled=true\n\n"
    "%scaled (s: bf16[], x: bf16[2048,512], w: bf16[512,512]) -> bf16[2048,512] {\n  %s = bf16[] parameter(0)\n"
    "  %b = bf16[2048,512]{1,0:T(8,128)(2,1)} broadcast(%s), dimensions={}\n  %x.1 = bf16[2048,512]{1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %m = bf16[2048,512]{1,0:T(8,128)(2,1)} multiply(%b, %x.1)\n  %w.1 = bf16[512,512]{1,0:T(8,128)(2,1)} parameter(2)\n"
    "  ROOT %d = bf16[2048,512]{1,0:T(8,128)(2,1)} dot(%m, %w.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n\n"
    "ENTRY %main (half: bf16[], x: bf16[2048,512], w: bf16[512,512], t: f32[65536], i: s32[16384,1]) -> bf16[2048,512] {\n  %half = bf16[] parameter(0)\n"
    "  %x = bf16[2048,512]{1,0:T(8,128)(2,1)} parameter(1)\n  %w = bf16[512,512]{1,0:T(8,128)(2,1)} parameter(2)\n"
    "  %t = f32[65536]{0:T(1024)} parameter(3)\n  %i = s32[16384,1]{0,1:T(1,128)} parameter(4)\n"
    "  %flat = f32[16384]{0:T(1024)} gather(%t, %i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n"
    "  %rows = f32[16384,1]{0,1:T(1,128)} gather(%t, %i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n"
    "  %plain = bf16[2048,512]{1,0:T(8,128)(2,1)} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT %fused = bf16[2048,512]{1,0:T(8,128)(2,1)} fusion(%half, %x, %w), kind=kOutput, calls=%scaled\n}\n";

START_TEST(small_beginnings)
{
    g_autoptr(EchProgram) program = ech_test_program(sides, "tpu-v5p");
    EchKernelCost plain = price(program, "plain", "tpu-v5p", ECH_KERNEL_HARDWARE), fused = price(program, "fused", "tpu-v5p", ECH_KERNEL_HARDWARE);
    ck_assert_int_ge(fused.time, plain.time);
    ck_assert_int_le(fused.time, plain.time + plain.time / 2);
    EchKernelCost flat = price(program, "flat", "tpu-v5p", ECH_KERNEL_HARDWARE), rows = price(program, "rows", "tpu-v5p", ECH_KERNEL_HARDWARE);
    ck_assert_int_ge(flat.time, rows.time / 2);
    ck_assert_int_le(flat.time, rows.time * 2);
}
END_TEST

/* Where the text alone leaves places on chip open, and ours would need more than there is, what the compiler has placed is not refused. */
START_TEST(places_left_open)
{
    const EchExperimentOverrides overrides = {
        .trace = ECH_SOURCE_DIR "/traces/published_steps/maxtext-16b.v5e-256.hlo.txt.gz", .device = "tpu-v5e", .engine = "native"};
    g_autoptr(EchResult) result = ech_test_run(&overrides);
    const EchRun *run = result->run;
    ck_assert_int_eq(run->fits, true);
    bool over = false;
    for (size_t i = 0; i < run->n_memories; i++)
        over = over || (strcmp(run->memories[i].name, "vector") == 0 && run->memories[i].peak_live > run->memories[i].available);
    ck_assert_int_eq(over, true);
}
END_TEST

/* The compiler's estimate is none where it says that a kernel takes for ever. */
/* Data that moves, with the cycles that libtpu 0.0.51 prints for v5e: lanes turned to rows a window after the other, in 32 bits; tiles of 4 rows that fill
 * registers in part; arrays laid side by side, each window of both as long as the result's; conversions to 8 bits; a batch that keeps its images while their
 * filters change; a softmax down columns; and a quotient of integers. */
#define MOVED(out, steps) "backend_config={\"window_config\":{\"output_window_bounds\":[" out "],\"iteration_bounds\":[" steps "],\"buffering_level\":\"2\"}}\n"
static const char moves[] =
    "HloModule moves, is_scheduled=true\n\n"
    "%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
    "%beside (p: f32[4096,384], q: f32[4096,384]) -> f32[8192,384] {\n"
    "  %p = f32[4096,384]{1,0:T(8,128)} parameter(0)\n  %q = f32[4096,384]{1,0:T(8,128)} parameter(1)\n  %low = f32[] constant(-inf)\n"
    "  %above = f32[8192,384]{1,0:T(8,128)} pad(%p, %low), padding=0_4096x0_0\n"
    "  %below = f32[8192,384]{1,0:T(8,128)} pad(%q, %low), padding=4096_0x0_0\n"
    "  ROOT %both = f32[8192,384]{1,0:T(8,128)} maximum(%above, %below)\n}\n\n"
    "ENTRY %main (x: s32[128,512], y: bf16[8,14,14,4,32], t: f32[4096,384], h: bf16[2304,1792], m: bf16[4,320,2000], w: bf16[4,2000,1792]) "
    "-> bf16[4,320,1792] {\n"
    "  %x = s32[128,512]{0,1:T(8,128)} parameter(0)\n  %y = bf16[8,14,14,4,32]{4,0,3,2,1:T(8,128)(2,1)} parameter(1)\n"
    "  %t = f32[4096,384]{1,0:T(8,128)} parameter(2)\n  %h = bf16[2304,1792]{1,0:T(8,128)(2,1)} parameter(3)\n"
    "  %m.1 = bf16[4,320,2000]{2,1,0:T(8,128)(2,1)} parameter(4)\n  %w.1 = bf16[4,2000,1792]{2,1,0:T(8,128)(2,1)} parameter(5)\n"
    "  %turned = s32[128,512]{1,0:T(8,128)} copy(%x), backend_config={\"window_config\":{\"output_window_bounds\":[16,4],"
    "\"input_window_bounds\":[64,1],\"iteration_bounds\":[1,1],\"buffering_level\":\"0\"}}\n"
    "  %parts = bf16[8,14,14,4,32]{4,3,0,2,1:T(4,128)(2,1)} copy(%y), " MOVED(
        "14,14,8,1,1", "1,1,1,1,1") "  %concatenated = f32[8192,384]{1,0:T(8,128)} "
                                    "fusion(%t, %t), kind=kLoop, calls=%beside, " MOVED(
                                        "205,3", "5,1") "  %eight = "
                                                        "f8e4m3fn[2304,1792]{1,0:T(32,128)(4,1)} "
                                                        "convert(%h), " MOVED("9,14", "32,1") "  ROOT "
                                                                                              "%experts = "
                                                                                              "bf16[4,320,"
                                                                                              "1792]{2,1,"
                                                                                              "0:T(8,128)("
                                                                                              "2,1)} "
                                                                                              "convolution"
                                                                                              "(%m.1, "
                                                                                              "%w.1), "
                                                                                              "window={"
                                                                                              "size=4 "
                                                                                              "stride=3 "
                                                                                              "lhs_dilate="
                                                                                              "4}, "
                                                                                              "dim_labels="
                                                                                              "0bf_0io->"
                                                                                              "0bf,"
                                                                                              " " WINDOWS("2,250,2", "2,40,2", "2,40,16", "2,7,1,1,1") "\n}\n";

static const char down[] =
    "HloModule down, is_scheduled=true\n\n"
    "%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a.1 = f32[] parameter(0)\n  %b.1 = f32[] parameter(1)\n  ROOT %s = f32[] add(%a.1, %b.1)\n}\n\n"
    "%along (p: f32[8,160,192]) -> f32[8,160,192] {\n  %p.1 = f32[8,160,192]{2,1,0:T(8,128)} parameter(0)\n  %low.1 = f32[] constant(-inf)\n"
    "  %w = f32[8,160,192]{2,1,0:T(8,128)} reduce-window(%p.1, %low.1), window={size=1x319x1 pad=0_0x159_159x0_0}, to_apply=%max\n"
    "  %d = f32[8,160,192]{2,1,0:T(8,128)} subtract(%p.1, %w)\n  %e = f32[8,160,192]{2,1,0:T(8,128)} exponential(%d)\n  %z = f32[] constant(0)\n"
    "  %v = f32[8,160,192]{2,1,0:T(8,128)} reduce-window(%e, %z), window={size=1x319x1 pad=0_0x159_159x0_0}, to_apply=%sum\n"
    "  ROOT %o = f32[8,160,192]{2,1,0:T(8,128)} divide(%e, %v)\n}\n\n"
    "%quotient (p: s32[448,320]) -> s32[448,320] {\n  %p.2 = s32[448,320]{0,1:T(8,128)} parameter(0)\n  %seven = s32[] constant(7)\n"
    "  %sevens = s32[448,320]{0,1:T(8,128)} broadcast(%seven), dimensions={}\n  %g = s32[448,320]{0,1:T(8,128)} sign(%p.2)\n"
    "  %f = pred[448,320]{0,1:T(8,128)(4,1)} compare(%g, %sevens), direction=NE\n  %r = s32[448,320]{0,1:T(8,128)} remainder(%p.2, %sevens)\n"
    "  %n = pred[448,320]{0,1:T(8,128)(4,1)} compare(%r, %sevens), direction=NE\n  %k = pred[448,320]{0,1:T(8,128)(4,1)} and(%f, %n)\n"
    "  %i = s32[448,320]{0,1:T(8,128)} divide(%p.2, %sevens)\n  %l = s32[448,320]{0,1:T(8,128)} add(%i, %sevens)\n"
    "  ROOT %c = s32[448,320]{0,1:T(8,128)} select(%k, %l, %i)\n}\n\n"
    "ENTRY %main (j: s32[448,320], l: f32[8,160,192]) -> s32[448,320] {\n  %j = s32[448,320]{0,1:T(8,128)} parameter(0)\n"
    "  %l.1 = f32[8,160,192]{2,1,0:T(8,128)} parameter(1)\n"
    "  %columns = f32[8,160,192]{2,1,0:T(8,128)} fusion(%l.1), kind=kOutput, calls=%along, " MOVED(
        "8,20,2", "1,1,1,1,1") "  ROOT %quotients = s32[448,320]{0,1:T(8,128)} fusion(%j), kind=kLoop, calls=%quotient, " MOVED("40,4", "1,1") "}\n";

START_TEST(moves_cost)
{
    static const struct {
        const char *text, *name;
        double cycles, within;
    } cases[] = {{moves, "turned", 4766, 0.001},    {moves, "parts", 22581, 0.03},  {moves, "concatenated", 87142, 0.001}, {moves, "eight", 117019, 0.001},
                 {moves, "experts", 156304, 0.001}, {down, "columns", 14139, 0.01}, {down, "quotients", 6241, 0.02}};
    g_autoptr(EchProgram) program = ech_test_program(cases[_i].text, "tpu-v5e");
    check_cycles(program, cases[_i].name, "tpu-v5e", 1.5, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* A weight's gradient with its update by momentum, of 4096 by 4096: weights and momentum come and go in windows of their own, and all windows have 32 MiB of a
 * tpu7x (the cycles are libtpu 0.0.52's). */
START_TEST(updates_cost)
{
    static const char text[] =
        "HloModule update, is_scheduled=true\n\n"
        "%updated (w: f32[4096,4096], m: f32[4096,4096], x: bf16[4096,4096], d: bf16[4096,4096]) -> (f32[4096,4096], f32[4096,4096]) {\n"
        "  %w = f32[4096,4096]{1,0:T(8,128)} parameter(0)\n  %m = f32[4096,4096]{1,0:T(8,128)} parameter(1)\n"
        "  %x = bf16[4096,4096]{1,0:T(8,128)(2,1)} parameter(2)\n  %d = bf16[4096,4096]{1,0:T(8,128)(2,1)} parameter(3)\n"
        "  %p = bf16[4096,4096]{1,0:T(8,128)(2,1)} convolution(%x, %d), dim_labels=fb_io->bf\n"
        "  %g = f32[4096,4096]{1,0:T(8,128)} convert(%p)\n  %decay = f32[]{:T(128)} constant(0.9)\n"
        "  %b = f32[4096,4096]{1,0:T(8,128)} broadcast(%decay), dimensions={}\n  %k = f32[4096,4096]{1,0:T(8,128)} multiply(%m, %b)\n"
        "  %a = f32[4096,4096]{1,0:T(8,128)} add(%g, %k)\n  %rate = f32[]{:T(128)} constant(-0.01)\n"
        "  %c = f32[4096,4096]{1,0:T(8,128)} broadcast(%rate), dimensions={}\n  %s = f32[4096,4096]{1,0:T(8,128)} multiply(%a, %c)\n"
        "  %n = f32[4096,4096]{1,0:T(8,128)} add(%w, %s)\n"
        "  ROOT %t = (f32[4096,4096]{1,0:T(8,128)}, f32[4096,4096]{1,0:T(8,128)}) tuple(%n, %a)\n}\n\n"
        "ENTRY %main (w.1: f32[4096,4096], m.1: f32[4096,4096], x.1: bf16[4096,4096], d.1: bf16[4096,4096]) -> (f32[4096,4096], f32[4096,4096]) {\n"
        "  %w.1 = f32[4096,4096]{1,0:T(8,128)} parameter(0)\n  %m.1 = f32[4096,4096]{1,0:T(8,128)} parameter(1)\n"
        "  %x.1 = bf16[4096,4096]{1,0:T(8,128)(2,1)} parameter(2)\n  %d.1 = bf16[4096,4096]{1,0:T(8,128)(2,1)} parameter(3)\n"
        "  ROOT %update = (f32[4096,4096]{1,0:T(8,128)}, f32[4096,4096]{1,0:T(8,128)}) fusion(%w.1, %m.1, %x.1, %d.1), kind=kOutput, calls=%updated\n}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu7x");
    EchKernelCost cost = check_cycles(program, "update", "tpu7x", 2.2, true, 528648, 0.05);
    ck_assert_uint_le(cost.vmem, UINT64_C(32) << 20);
}
END_TEST

/* A gradient put into its slice of a stack, while a collective of larger arrays rides along: that is the collective's own affair (an FSDP step by libtpu
 * 0.0.51; before, 6.4 times as long by its windows). */
START_TEST(rides_along)
{
    g_autoptr(EchProgram) program = ech_test_program(
        "HloModule rides, is_scheduled=true\n\n"
        "%body (b: bf16[32,1024,768], w: bf16[32,1024,3072], s: f32[12,768,192], i: s32[], d: bf16[32,1024,192], x: bf16[32,1024,768]) -> "
        "(f32[12,768,192], bf16[32,1024,768], bf16[32,1024,3072], bf16[32,1024,3072]) {\n"
        "  %b = bf16[32,1024,768]{2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %w = bf16[32,1024,3072]{2,1,0:T(8,128)(2,1)} parameter(1)\n"
        "  %s = f32[12,768,192]{1,2,0:T(8,128)} parameter(2)\n  %i = s32[]{:T(128)S(6)} parameter(3)\n"
        "  %d = bf16[32,1024,192]{1,2,0:T(8,128)(2,1)} parameter(4)\n  %x = bf16[32,1024,768]{1,2,0:T(8,128)(2,1)} parameter(5)\n"
        "  %p = bf16[768,192,1]{0,1,2:T(8,128)(2,1)} convolution(%x, %d), window={size=32}, dim_labels=0fb_0io->bf0\n"
        "  %q = bf16[1,768,192]{1,2,0:T(8,128)(2,1)} bitcast(%p)\n  %g = f32[1,768,192]{1,2,0:T(8,128)} convert(%q)\n"
        "  %z = s32[]{:T(128)} constant(0)\n"
        "  %u = f32[12,768,192]{1,2,0:T(8,128)} dynamic-update-slice(%s, %g, %i, %z, %z)\n"
        "  %a = bf16[32,1024,3072]{2,1,0:T(8,128)(2,1)} all-gather(%b), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={2}, use_global_device_ids=true\n"
        "  ROOT %t = (f32[12,768,192]{1,2,0:T(8,128)}, bf16[32,1024,768]{2,1,0:T(8,128)(2,1)S(1)}, bf16[32,1024,3072]{2,1,0:T(8,128)(2,1)}, "
        "bf16[32,1024,3072]{2,1,0:T(8,128)(2,1)}) tuple(%u, %b, %w, %a)\n}\n\n"
        "ENTRY %main (b.1: bf16[32,1024,768], w.1: bf16[32,1024,3072], s.1: f32[12,768,192], i.1: s32[], d.1: bf16[32,1024,192], x.1: bf16[32,1024,768]) -> "
        "(f32[12,768,192], bf16[32,1024,768], bf16[32,1024,3072], bf16[32,1024,3072]) {\n"
        "  %b.1 = bf16[32,1024,768]{2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %w.1 = bf16[32,1024,3072]{2,1,0:T(8,128)(2,1)} parameter(1)\n"
        "  %s.1 = f32[12,768,192]{1,2,0:T(8,128)} parameter(2)\n  %i.1 = s32[]{:T(128)S(6)} parameter(3)\n"
        "  %d.1 = bf16[32,1024,192]{1,2,0:T(8,128)(2,1)} parameter(4)\n  %x.1 = bf16[32,1024,768]{1,2,0:T(8,128)(2,1)} parameter(5)\n"
        "  ROOT %gradient = (f32[12,768,192]{1,2,0:T(8,128)}, bf16[32,1024,768]{2,1,0:T(8,128)(2,1)S(1)}, bf16[32,1024,3072]{2,1,0:T(8,128)(2,1)}, "
        "bf16[32,1024,3072]{2,1,0:T(8,128)(2,1)}) fusion(%b.1, %w.1, %s.1, %i.1, %d.1, %x.1), kind=kOutput, calls=%body, "
        "backend_config={\"window_config\":{\"kernel_window_bounds\":[\"16\",\"24\",\"1\"],\"output_window_bounds\":[\"1\",\"24\",\"6\"],"
        "\"input_window_bounds\":[\"16\",\"96\",\"1\"],\"iteration_bounds\":[\"1\",\"1\",\"1\",\"2\",\"8\"],\"buffering_level\":\"2\"}}\n}\n",
        "tpu-v5e");
    check_cycles(program, "gradient", "tpu-v5e", 1.5, _i == 1, 193563, 0.03);
}
END_TEST

/* Windows of our own for what libtpu 0.0.52 cuts so: a maximum of rows on chip, a broadcast on chip into tiles of two rows, and the gradient of weights over
 * 64 positions of 4096 rows whose side another product makes. And a mask of rows, filled in lane by lane twice, in the compiler's windows. */
static const char cut[] =
    "HloModule cut, is_scheduled=true\n\n"
    "%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
    "%made (p: bf16[4096,64,256], v: f32[4096,64,256], q: f32[256,256]) -> bf16[4096,64,256] {\n"
    "  %p = bf16[4096,64,256]{2,0,1:T(8,128)(2,1)} parameter(0)\n  %v = f32[4096,64,256]{2,0,1:T(8,128)} parameter(1)\n"
    "  %q = f32[256,256]{1,0:T(8,128)S(1)} parameter(2)\n  %q.1 = f32[256,256,1]{1,0,2:T(8,128)} bitcast(%q)\n"
    "  %c = f32[4096,64,256]{2,0,1:T(8,128)} convolution(%p, %q.1), window={size=1}, dim_labels=b0f_io0->b0f\n"
    "  %s = f32[4096,64,256]{2,0,1:T(8,128)} multiply(%c, %v)\n  ROOT %n = bf16[4096,64,256]{2,0,1:T(8,128)(2,1)} convert(%s)\n}\n\n"
    "%slope (x: bf16[4096,64,63], y: bf16[4096,64,256], v: f32[4096,64,256], w: f32[256,256]) -> f32[63,256] {\n"
    "  %x = bf16[4096,64,63]{0,2,1:T(8,128)(2,1)S(1)} parameter(0)\n  %y = bf16[4096,64,256]{2,0,1:T(8,128)(2,1)} parameter(1)\n"
    "  %v = f32[4096,64,256]{2,0,1:T(8,128)} parameter(2)\n  %w = f32[256,256]{1,0:T(8,128)S(1)} parameter(3)\n"
    "  %z = bf16[4096,64,256]{2,0,1:T(8,128)(2,1)} fusion(%y, %v, %w), kind=kOutput, calls=%made\n"
    "  %d = f32[63,256,1]{1,0,2:T(8,128)} convolution(%x, %z), window={size=64}, dim_labels=f0b_i0o->bf0\n"
    "  ROOT %b = f32[63,256]{1,0:T(8,128)} bitcast(%d)\n}\n\n"
    "%kept (x: f32[2048,8,128], m: pred[2048]) -> f32[2048,8,128] {\n  %x = f32[2048,8,128]{2,1,0:T(8,128)S(1)} parameter(0)\n"
    "  %m = pred[2048]{0:T(1024)(128)(4,1)S(1)} parameter(1)\n  %n = pred[2048,8,128]{2,1,0:T(8,128)(4,1)} broadcast(%m), dimensions={0}\n"
    "  %z = f32[]{:T(128)} constant(0)\n  %o = f32[2048,8,128]{2,1,0:T(8,128)} broadcast(%z), dimensions={}\n"
    "  ROOT %s = f32[2048,8,128]{2,1,0:T(8,128)} select(%n, %x, %o)\n}\n\n"
    "ENTRY %main (l: f32[64,128256], t: bf16[2048,1024], x: bf16[4096,64,63], y: bf16[4096,64,256], w: f32[256,256], r: f32[2048,8,128], m: pred[2048], "
    "v: f32[4096,64,256]) -> f32[63,256] {\n  %l = f32[64,128256]{1,0:T(8,128)S(1)} parameter(0)\n  %t = bf16[2048,1024]{1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %x = bf16[4096,64,63]{0,2,1:T(8,128)(2,1)S(1)} parameter(2)\n  %y = bf16[4096,64,256]{2,0,1:T(8,128)(2,1)} parameter(3)\n"
    "  %w = f32[256,256]{1,0:T(8,128)S(1)} parameter(4)\n  %r = f32[2048,8,128]{2,1,0:T(8,128)S(1)} parameter(5)\n"
    "  %m = pred[2048]{0:T(1024)(128)(4,1)S(1)} parameter(6)\n  %v = f32[4096,64,256]{2,0,1:T(8,128)} parameter(7)\n  %low = f32[]{:T(128)} constant(-inf)\n"
    "  %most = f32[64]{0:T(128)S(1)} reduce(%l, %low), dimensions={1}, to_apply=%max\n"
    "  %twice = bf16[2048,2,1024]{2,1,0:T(2,128)(2,1)S(1)} broadcast(%t), dimensions={0,2}\n"
    "  %masked = f32[2048,8,128]{2,1,0:T(8,128)} fusion(%r, %m), kind=kLoop, calls=%kept, " MOVED(
        "\"512\",\"1\",\"1\"", "\"4\",\"1\",\"1\"") "  ROOT %filter = f32[63,256]{1,0:T(8,128)} fusion(%x, %y, %v, %w), kind=kOutput, calls=%slope\n}\n";

START_TEST(cut_costs)
{
    static const struct {
        const char *name, *device;
        double clock, cycles, within;
        bool own;
    } cases[] = {{"most", "tpu-v6e", 1.75, 172700, 0.003, true},
                 {"twice", "tpu-v5e", 1.5, 369088, 0.001, true},
                 {"masked", "tpu-v5e", 1.5, 49952, 0.001, false},
                 {"filter", "tpu-v5p", 1.75, 417299, 0.2, true}};
    g_autoptr(EchProgram) program = ech_test_program(cut, cases[_i].device);
    check_cycles(program, cases[_i].name, cases[_i].device, cases[_i].clock, cases[_i].own, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* Batches of small products as libtpu 0.0.52 prints them: rows that lie on lanes pass as half a unit's at least, and of whole products a step each waits for
 * the narrowing of the one before. And arrays on chip that are put in place one beside the other: no more of them is read than there is. */
static const char small[] =
    "HloModule small, is_scheduled=true\n\n"
    "%low (x: bf16[2104,16,8], y: bf16[2104,8,16]) -> bf16[2104,16,16] {\n  %x = bf16[2104,16,8]{1,2,0:T(8,128)(2,1)S(1)} parameter(0)\n"
    "  %y = bf16[2104,8,16]{2,1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  ROOT %c = bf16[2104,16,16]{2,1,0:T(8,128)(2,1)S(1)} convolution(%x, %y), window={size=2104 stride=2103 lhs_dilate=2104}, dim_labels=0bf_0io->0bf\n}\n\n"
    "%square (x: bf16[1032,48,48], y: bf16[1032,48,48]) -> bf16[1032,48,48] {\n  %x = bf16[1032,48,48]{2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n"
    "  %y = bf16[1032,48,48]{2,1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  ROOT %c = bf16[1032,48,48]{2,1,0:T(8,128)(2,1)S(1)} convolution(%x, %y), window={size=1032 stride=1031 lhs_dilate=1032}, dim_labels=0bf_0io->0bf\n}\n\n"
    "%rolled (b: f32[19,64,64,128], l: f32[1,64,128], f: f32[63,64,128], s: f32[64,64,127]) -> f32[19,64,64,128] {\n"
    "  %b = f32[19,64,64,128]{3,2,1,0:T(8,128)} parameter(0)\n  %s = f32[64,64,127]{2,1,0:T(8,128)S(1)} parameter(3)\n  %e = f32[]{:T(128)} constant(-inf)\n"
    "  %p = f32[64,64,128]{2,1,0:T(8,128)} pad(%s, %e), padding=0_0x0_0x0_1\n  %f = f32[63,64,128]{2,1,0:T(8,128)S(1)} parameter(2)\n"
    "  %q = f32[64,64,128]{2,1,0:T(8,128)} pad(%f, %e), padding=0_1x0_0x127_-127\n  %l = f32[1,64,128]{2,1,0:T(8,128)S(1)} parameter(1)\n"
    "  %r = f32[64,64,128]{2,1,0:T(8,128)} pad(%l, %e), padding=63_0x0_0x127_-127\n  %m = f32[64,64,128]{2,1,0:T(8,128)} maximum(%q, %r)\n"
    "  %n = f32[64,64,128]{2,1,0:T(8,128)} maximum(%p, %m)\n  %o = f32[1,64,64,128]{3,2,1,0:T(8,128)} bitcast(%n)\n  %z = u32[] constant(0)\n"
    "  ROOT %u = f32[19,64,64,128]{3,2,1,0:T(8,128)} dynamic-update-slice(%b, %o, %z, %z, %z, %z)\n}\n\n"
    "ENTRY %main (x: bf16[2104,16,8], y: bf16[2104,8,16], v: bf16[1032,48,48], w: bf16[1032,48,48], b: f32[19,64,64,128], l: f32[1,64,128], f: f32[63,64,128], "
    "s: f32[64,64,127]) -> f32[19,64,64,128] {\n  %x = bf16[2104,16,8]{1,2,0:T(8,128)(2,1)S(1)} parameter(0)\n"
    "  %y = bf16[2104,8,16]{2,1,0:T(8,128)(2,1)S(1)} parameter(1)\n  %v = bf16[1032,48,48]{2,1,0:T(8,128)(2,1)S(1)} parameter(2)\n"
    "  %w = bf16[1032,48,48]{2,1,0:T(8,128)(2,1)S(1)} parameter(3)\n  %b = f32[19,64,64,128]{3,2,1,0:T(8,128)} parameter(4)\n"
    "  %l = f32[1,64,128]{2,1,0:T(8,128)S(1)} parameter(5)\n  %f = f32[63,64,128]{2,1,0:T(8,128)S(1)} parameter(6)\n"
    "  %s = f32[64,64,127]{2,1,0:T(8,128)S(1)} parameter(7)\n"
    "  %few_rows = bf16[2104,16,16]{2,1,0:T(8,128)(2,1)S(1)} fusion(%x, %y), kind=kOutput, calls=%low, "
    "backend_config={\"window_config\":{\"kernel_window_bounds\":[2104,1,1],\"output_window_bounds\":[2104,2,1],"
    "\"input_window_bounds\":[2104,1,1],\"iteration_bounds\":[1,1,1,1,1],\"buffering_level\":\"2\"}}\n"
    "  %squares = bf16[1032,48,48]{2,1,0:T(8,128)(2,1)S(1)} fusion(%v, %w), kind=kOutput, calls=%square, "
    "backend_config={\"window_config\":{\"kernel_window_bounds\":[516,6,1],\"output_window_bounds\":[516,6,1],"
    "\"input_window_bounds\":[516,6,1],\"iteration_bounds\":[2,1,1,1,1],\"buffering_level\":\"2\"}}\n"
    "  ROOT %roll = f32[19,64,64,128]{3,2,1,0:T(8,128)} fusion(%b, %l, %f, %s), kind=kLoop, calls=%rolled, " MOVED("1,64,8,1", "1,1,1,1") "}\n";

START_TEST(small_costs)
{
    static const struct {
        const char *name, *device;
        double clock, cycles, within;
    } cases[] = {{"few_rows", "tpu-v6e", 1.75, 34688, 0.002}, {"squares", "tpu-v6e", 1.75, 22864, 0.001}, {"roll", "tpu-v5e", 1.5, 16017, 0.02}};
    g_autoptr(EchProgram) program = ech_test_program(small, cases[_i].device);
    check_cycles(program, cases[_i].name, cases[_i].device, cases[_i].clock, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* As libtpu 0.0.52 prints them: a running sum whose operand is in HBM in another order, one on chip (of which only the first step counts) and a pool, each
 * fetching its filter first; and a product of integers. */
static const char windows[] =
    "HloModule windows, is_scheduled=true\n"
    "\n"
    "%add (a: f32[], b: f32[]) -> f32[] {\n"
    "  %a = f32[] parameter(0)\n"
    "  %b = f32[] parameter(1)\n"
    "  ROOT %s = f32[] add(%a, %b)\n"
    "}\n"
    "\n"
    "%turn (p: f32[1024,8,128]) -> f32[1024,8,128] {\n"
    "  %p = f32[1024,8,128]{0,2,1:T(8,128)} parameter(0)\n"
    "  ROOT %c = f32[1024,8,128]{0,1,2:T(8,128)} copy(%p)\n"
    "}\n"
    "\n"
    "%summed (p: f32[1024,8,128]) -> f32[1024,8,128] {\n"
    "  %p = f32[1024,8,128]{0,2,1:T(8,128)} parameter(0)\n"
    "  %t = f32[1024,8,128]{0,1,2:T(8,128)} fusion(%p), kind=kLoop, calls=%turn\n"
    "  %z = f32[]{:T(128)} constant(0)\n"
    "  ROOT %r = f32[1024,8,128]{0,1,2:T(8,128)S(1)} reduce-window(%t, %z), window={size=1x1x128 pad=0_0x0_0x127_0}, to_apply=%add\n"
    "}\n"
    "\n"
    "%kept (p: f32[1024,8,128]) -> f32[1024,8,128] {\n"
    "  %p = f32[1024,8,128]{0,1,2:T(8,128)S(1)} parameter(0)\n"
    "  %z = f32[]{:T(128)} constant(0)\n"
    "  ROOT %r = f32[1024,8,128]{0,1,2:T(8,128)S(1)} reduce-window(%p, %z), window={size=1x1x128 pad=0_0x0_0x127_0}, to_apply=%add\n"
    "}\n"
    "\n"
    "%pooled (p: f32[8,14,14,512]) -> f32[8,14,14,512] {\n"
    "  %p = f32[8,14,14,512]{3,0,2,1:T(8,128)S(1)} parameter(0)\n"
    "  %z = f32[]{:T(128)} constant(0)\n"
    "  ROOT %r = f32[8,14,14,512]{3,0,2,1:T(8,128)} reduce-window(%p, %z), window={size=1x5x5x1 pad=0_0x2_2x2_2x0_0}, to_apply=%add\n"
    "}\n"
    "\n"
    "%whole (x: s32[256,128], y: s32[128,128]) -> s32[256,128] {\n"
    "  %x = s32[256,128]{1,0:T(8,128)S(1)} parameter(0)\n"
    "  %y = s32[128,128]{1,0:T(8,128)} parameter(1)\n"
    "  ROOT %c = s32[256,128]{1,0:T(8,128)} convolution(%x, %y), dim_labels=bf_io->bf\n"
    "}\n"
    "\n"
    "ENTRY %main (h: f32[1024,8,128], v: f32[1024,8,128], i: f32[8,14,14,512], j: s32[256,128], k: s32[128,128]) -> s32[256,128] {\n"
    "  %h = f32[1024,8,128]{0,2,1:T(8,128)} parameter(0)\n"
    "  %v = f32[1024,8,128]{0,1,2:T(8,128)S(1)} parameter(1)\n"
    "  %i = f32[8,14,14,512]{3,0,2,1:T(8,128)S(1)} parameter(2)\n"
    "  %j = s32[256,128]{1,0:T(8,128)S(1)} parameter(3)\n"
    "  %k = s32[128,128]{1,0:T(8,128)} parameter(4)\n"
    "  %far = f32[1024,8,128]{0,1,2:T(8,128)S(1)} fusion(%h), kind=kOutput, calls=%summed, "
    "backend_config={\"window_config\":{\"kernel_window_bounds\":[\"128\",\"1\",\"1\"],\"output_window_bounds\":[\"128\",\"1\",\"2\"],"
    "\"input_window_bounds\":[\"255\",\"1\",\"2\"],\"iteration_bounds\":[\"1\",\"4\",\"1\",\"1\",\"1\"],\"buffering_level\":\"2\"}}\n"
    "  %near = f32[1024,8,128]{0,1,2:T(8,128)S(1)} fusion(%v), kind=kOutput, calls=%kept, "
    "backend_config={\"window_config\":{\"kernel_window_bounds\":[\"128\",\"1\",\"1\"],\"output_window_bounds\":[\"1\",\"1\",\"1\"],"
    "\"input_window_bounds\":[\"128\",\"1\",\"1\"],\"iteration_bounds\":[\"1\",\"8\",\"128\",\"1\",\"1\"],\"buffering_level\":\"2\"}}\n"
    "  %pool = f32[8,14,14,512]{3,0,2,1:T(8,128)} fusion(%i), kind=kOutput, calls=%pooled, "
    "backend_config={\"window_config\":{\"kernel_window_bounds\":[\"5\",\"5\",\"1\",\"1\"],\"output_window_bounds\":[\"14\",\"14\",\"1\",\"4\"],"
    "\"input_window_bounds\":[\"18\",\"18\",\"1\",\"4\"],\"iteration_bounds\":[\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"],"
    "\"buffering_level\":\"2\"}}\n"
    "  ROOT %integers = s32[256,128]{1,0:T(8,128)} fusion(%j, %k), kind=kOutput, calls=%whole, "
    "backend_config={\"window_config\":{\"kernel_window_bounds\":[\"16\",\"1\"],\"output_window_bounds\":[\"32\",\"1\"],"
    "\"input_window_bounds\":[\"32\",\"1\"],\"iteration_bounds\":[\"1\",\"1\",\"1\"],\"buffering_level\":\"2\"}}\n"
    "}\n";

/* The same: a sine, a copy by another name, a stencil of slices that overlap, and arrays on chip that are only turned. */
static const char reads[] =
    "HloModule reads, is_scheduled=true\n"
    "\n"
    "%wave (y: f32[64,128], x: f32[64,128]) -> f32[64,128] {\n"
    "  %x = f32[64,128]{1,0:T(8,128)} parameter(1)\n"
    "  %s = f32[64,128]{1,0:T(8,128)} sine(%x)\n"
    "  %y = f32[64,128]{1,0:T(8,128)} parameter(0)\n"
    "  %m = f32[64,128]{1,0:T(8,128)} multiply(%s, %y)\n"
    "  ROOT %a = f32[64,128]{1,0:T(8,128)} add(%m, %y)\n"
    "}\n"
    "\n"
    "%named (p: bf16[2,8,128,1024]) -> bf16[1,2,1024,8,128] {\n"
    "  %p = bf16[2,8,128,1024]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n"
    "  %a = bf16[2,1024,8,128]{1,3,2,0:T(8,128)(2,1)} bitcast(%p)\n"
    "  ROOT %b = bf16[1,2,1024,8,128]{2,4,3,1,0:T(8,128)(2,1)} bitcast(%a)\n"
    "}\n"
    "\n"
    "%stencil (p: f32[16,512,512]) -> f32[16,497,497] {\n"
    "  %p = f32[16,512,512]{2,0,1:T(8,128)S(1)} parameter(0)\n"
    "  %a = f32[16,497,497]{2,0,1:T(8,128)} slice(%p), slice={[0:16], [15:512], [15:512]}\n"
    "  %b = f32[16,497,497]{2,0,1:T(8,128)} slice(%p), slice={[0:16], [0:497], [15:512]}\n"
    "  %c = f32[16,497,497]{2,0,1:T(8,128)} slice(%p), slice={[0:16], [15:512], [0:497]}\n"
    "  %d = f32[16,497,497]{2,0,1:T(8,128)} slice(%p), slice={[0:16], [0:497], [0:497]}\n"
    "  %e = f32[16,497,497]{2,0,1:T(8,128)} subtract(%a, %b)\n"
    "  %f = f32[16,497,497]{2,0,1:T(8,128)} subtract(%e, %c)\n"
    "  ROOT %g = f32[16,497,497]{2,0,1:T(8,128)} add(%f, %d)\n"
    "}\n"
    "\n"
    "%rows (a: f32[48,32,7,640], b: f32[48,32,7,640], c: bf16[48,32,7,640]) -> bf16[48,32,7,640] {\n"
    "  %a = f32[48,32,7,640]{3,0,2,1:T(8,128)S(1)} parameter(0)\n"
    "  %b = f32[48,32,7,640]{3,0,2,1:T(8,128)S(1)} parameter(1)\n"
    "  %c = bf16[48,32,7,640]{3,1,2,0:T(8,128)(2,1)S(1)} parameter(2)\n"
    "  %w = f32[48,32,7,640]{3,1,2,0:T(8,128)} convert(%c)\n"
    "  %x = f32[48,32,7,640]{3,1,2,0:T(8,128)} copy(%a)\n"
    "  %y = f32[48,32,7,640]{3,1,2,0:T(8,128)} copy(%b)\n"
    "  %s = f32[48,32,7,640]{3,1,2,0:T(8,128)} subtract(%w, %x)\n"
    "  %m = f32[48,32,7,640]{3,1,2,0:T(8,128)} multiply(%s, %y)\n"
    "  ROOT %n = bf16[48,32,7,640]{3,1,2,0:T(8,128)(2,1)S(1)} convert(%m)\n"
    "}\n"
    "\n"
    "ENTRY %main (e: f32[64,128], u: f32[64,128], q: bf16[2,8,128,1024], g: f32[16,512,512], a: f32[48,32,7,640], b: f32[48,32,7,640], c: "
    "bf16[48,32,7,640]) -> f32[64,128] {\n"
    "  %e = f32[64,128]{1,0:T(8,128)} parameter(0)\n"
    "  %u = f32[64,128]{1,0:T(8,128)} parameter(1)\n"
    "  %q = bf16[2,8,128,1024]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(2)\n"
    "  %g = f32[16,512,512]{2,0,1:T(8,128)S(1)} parameter(3)\n"
    "  %a = f32[48,32,7,640]{3,0,2,1:T(8,128)S(1)} parameter(4)\n"
    "  %b = f32[48,32,7,640]{3,0,2,1:T(8,128)S(1)} parameter(5)\n"
    "  %c = bf16[48,32,7,640]{3,1,2,0:T(8,128)(2,1)S(1)} parameter(6)\n"
    "  %copied = bf16[1,2,1024,8,128]{2,4,3,1,0:T(8,128)(2,1)} fusion(%q), kind=kLoop, calls=%named, "
    "backend_config={\"window_config\":{\"output_window_bounds\":[\"1\",\"1\",\"8\",\"16\",\"8\"],\"iteration_bounds\":[\"1\",\"2\",\"1\",\"1\","
    "\"1\"],\"buffering_level\":\"2\"}}\n"
    "  %overlap = f32[16,497,497]{2,0,1:T(8,128)} fusion(%g), kind=kLoop, calls=%stencil, "
    "backend_config={\"window_config\":{\"output_window_bounds\":[\"83\",\"1\",\"4\"],\"iteration_bounds\":[\"6\",\"2\",\"1\"],"
    "\"buffering_level\":\"2\"}}\n"
    "  %turned = bf16[48,32,7,640]{3,1,2,0:T(8,128)(2,1)S(1)} fusion(%a, %b, %c), kind=kLoop, calls=%rows, "
    "backend_config={\"window_config\":{\"output_window_bounds\":[\"48\",\"1\",\"4\",\"5\"],\"iteration_bounds\":[\"1\",\"7\",\"1\",\"1\"],"
    "\"buffering_level\":\"2\"}}\n"
    "  ROOT %sine = f32[64,128]{1,0:T(8,128)} fusion(%e, %u), kind=kLoop, calls=%wave, "
    "backend_config={\"window_config\":{\"output_window_bounds\":[\"8\",\"1\"],\"iteration_bounds\":[\"1\",\"1\"],\"buffering_level\":\"2\"}}\n"
    "}\n";

START_TEST(window_costs)
{
    static const struct {
        const char *name, *device;
        double clock, cycles, within;
    } cases[] = {{"far", "tpu-v5e", 1.5, 28457, 0.001},   {"near", "tpu-v5e", 1.5, 2866, 0.001},     {"near", "tpu-v6e", 1.75, 2660, 0.001},
                 {"pool", "tpu-v5e", 1.5, 10533, 0.001},  {"pool", "tpu-v6e", 1.75, 7935, 0.001},    {"integers", "tpu-v5e", 1.5, 4895, 0.001},
                 {"copied", "tpu-v5e", 1.5, 38514, 0.01}, {"overlap", "tpu-v5e", 1.5, 189115, 0.01}, {"turned", "tpu-v5e", 1.5, 100988, 0.03},
                 {"sine", "tpu-v5e", 1.5, 2335, 0.002}};
    g_autoptr(EchProgram) program = ech_test_program(_i < 6 ? windows : reads, cases[_i].device);
    check_cycles(program, cases[_i].name, cases[_i].device, cases[_i].clock, false, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* What libtpu prints for copies that turn lanes to rows on v5p, half of them on each of its two cores, with its windows and with ours; for an array cut in
 * three, narrowed on its way once; and for a product beside which a collective's arrays, larger than its own result, are handed on. */
START_TEST(several_results_cost)
{
    static const struct {
        const char *name, *device;
        double clock, cycles, within;
        bool own_tiles;
    } cases[] = {{"turned", "tpu-v5p", 1.75, 62888, 0.001, false},
                 {"turned", "tpu-v5p", 1.75, 62888, 0.001, true},
                 {"table", "tpu-v5p", 1.75, 114881, 0.04, true},
                 {"thirds", "tpu-v5e", 1.5, 26874, 0.06, false},
                 {"beside", "tpu-v5e", 1.5, 12636, 0.01, false}};
    g_autoptr(EchProgram) program =
        ech_test_program("HloModule several, is_scheduled=true\n\n"
                         "%cut (p: bf16[4,512,1536]) -> (bf16[4,512,512], bf16[4,512,512], bf16[4,512,512]) {\n"
                         "  %p = bf16[4,512,1536]{2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n"
                         "  %a = bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)} slice(%p), slice={[0:4], [0:512], [0:512]}\n"
                         "  %b = bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)} slice(%p), slice={[0:4], [0:512], [512:1024]}\n"
                         "  %c = bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)} slice(%p), slice={[0:4], [0:512], [1024:1536]}\n"
                         "  ROOT %t = (bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)}, bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)}, "
                         "bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)}) tuple(%a, %b, %c)\n}\n\n"
                         "%product (x: bf16[2,128,1024], w: bf16[2048,1024,1], g: bf16[1024,2048]) -> (bf16[2,128,2048], bf16[1024,2048]) {\n"
                         "  %x = bf16[2,128,1024]{2,1,0:T(8,128)(2,1)S(1)} parameter(0)\n  %w = bf16[2048,1024,1]{1,0,2:T(8,128)(2,1)S(1)} parameter(1)\n"
                         "  %g = bf16[1024,2048]{1,0:T(8,128)(2,1)S(1)} parameter(2)\n"
                         "  %y = bf16[2,128,2048]{2,1,0:T(8,128)(2,1)S(1)} convolution(%x, %w), window={size=1}, dim_labels=0bf_oi0->0bf\n"
                         "  ROOT %u = (bf16[2,128,2048]{2,1,0:T(8,128)(2,1)S(1)}, bf16[1024,2048]{1,0:T(8,128)(2,1)S(1)}) tuple(%y, %g)\n}\n\n"
                         "ENTRY %main (q: f32[1792,3072], r: bf16[4,512,1536], s: bf16[2,128,1024], v: bf16[2048,1024,1], o: bf16[1024,2048], z: "
                         "f32[100000,64]) -> f32[1792,3072] {\n"
                         "  %q = f32[1792,3072]{1,0:T(8,128)} parameter(0)\n  %r = bf16[4,512,1536]{2,1,0:T(8,128)(2,1)S(1)} parameter(1)\n"
                         "  %z = f32[100000,64]{0,1:T(8,128)} parameter(5)\n  %table = f32[100000,64]{1,0:T(8,128)} copy(%z)\n"
                         "  %s = bf16[2,128,1024]{2,1,0:T(8,128)(2,1)S(1)} parameter(2)\n  %v = bf16[2048,1024,1]{1,0,2:T(8,128)(2,1)S(1)} parameter(3)\n"
                         "  %o = bf16[1024,2048]{1,0:T(8,128)(2,1)S(1)} parameter(4)\n"
                         "  %thirds = (bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)}, bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)}, "
                         "bf16[4,512,512]{2,1,0:T(8,128)(2,1)S(1)}) fusion(%r), kind=kLoop, calls=%cut, "
                         "backend_config={\"window_config\":{\"output_window_bounds\":[\"2\",\"64\",\"4\"],\"iteration_bounds\":[\"2\",\"1\",\"1\"],"
                         "\"buffering_level\":\"2\"}}\n"
                         "  %beside = (bf16[2,128,2048]{2,1,0:T(8,128)(2,1)S(1)}, bf16[1024,2048]{1,0:T(8,128)(2,1)S(1)}) fusion(%s, %v, %o), kind=kOutput, "
                         "calls=%product, backend_config={\"window_config\":{\"kernel_window_bounds\":[\"1\",\"128\",\"8\"],"
                         "\"output_window_bounds\":[\"2\",\"16\",\"8\"],\"input_window_bounds\":[\"2\",\"16\",\"8\"],"
                         "\"iteration_bounds\":[\"2\",\"1\",\"1\",\"1\",\"1\"],\"buffering_level\":\"2\"}}\n"
                         "  ROOT %turned = f32[1792,3072]{0,1:T(8,128)} copy(%q), backend_config={\"window_config\":{\"output_window_bounds\":[\"192\",\"2\"],"
                         "\"input_window_bounds\":[\"32\",\"12\"],\"iteration_bounds\":[\"1\",\"7\"],\"buffering_level\":\"0\"}}\n}\n",
                         "tpu-v5e");
    check_cycles(program, cases[_i].name, cases[_i].device, cases[_i].clock, cases[_i].own_tiles, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* An adapter's gradient, whose 16 rows are a product of their own made on the way, by libtpu 0.0.52 for v5e: where blocks of it counted for more bytes than it
 * has none found room, and the smallest one fetched all of it again, 1561 times too long. */
START_TEST(products_of_products_cost)
{
    g_autoptr(EchProgram) program =
        ech_test_program("HloModule adapter, is_scheduled=true\n\n"
                         "%inner (a: bf16[2048,8192], b: bf16[8192,16]) -> bf16[2048,16] {\n  %a = bf16[2048,8192]{1,0:T(8,128)(2,1)} parameter(0)\n"
                         "  %b = bf16[8192,16]{0,1:T(8,128)(2,1)} parameter(1)\n"
                         "  ROOT %c = bf16[2048,16]{1,0:T(8,128)(2,1)} convolution(%a, %b), dim_labels=bf_io->bf\n}\n\n"
                         "%outer (d: bf16[2048,2048], e: bf16[2048,8192], f: bf16[8192,16]) -> bf16[16,2048] {\n"
                         "  %d = bf16[2048,2048]{0,1:T(8,128)(2,1)S(1)} parameter(0)\n  %e = bf16[2048,8192]{1,0:T(8,128)(2,1)} parameter(1)\n"
                         "  %f = bf16[8192,16]{0,1:T(8,128)(2,1)} parameter(2)\n"
                         "  %g = bf16[2048,16]{1,0:T(8,128)(2,1)} fusion(%e, %f), kind=kOutput, calls=%inner\n"
                         "  ROOT %h = bf16[16,2048]{1,0:T(8,128)(2,1)} convolution(%g, %d), dim_labels=fb_io->bf\n}\n\n"
                         "ENTRY %main (x: bf16[2048,2048], y: bf16[2048,8192], z: bf16[8192,16]) -> bf16[16,2048] {\n"
                         "  %x = bf16[2048,2048]{0,1:T(8,128)(2,1)S(1)} parameter(0)\n  %y = bf16[2048,8192]{1,0:T(8,128)(2,1)} parameter(1)\n"
                         "  %z = bf16[8192,16]{0,1:T(8,128)(2,1)} parameter(2)\n"
                         "  ROOT %grad = bf16[16,2048]{1,0:T(8,128)(2,1)} fusion(%x, %y, %z), kind=kOutput, calls=%outer\n}\n",
                         "tpu-v5e");
    check_cycles(program, "grad", "tpu-v5e", 1.5, true, 94553, 0.35);
}
END_TEST

/* A pool of a module that no compiler has seen costs what it does where images lie on rows, as compilers lay them; of one image rows move. */
START_TEST(unlaid_pools_cost)
{
    static const char *const layouts[] = {"{3,2,1,0:T(8,128)(2,1)}", "{3,0,2,1:T(8,128)(2,1)}"};
    double times[2][2];
    for (unsigned images = 0; images < 2; images++)
        for (unsigned k = 0; k < 2; k++) {
            unsigned n = images ? 64 : 1;
            g_autofree char *text =
                g_strdup_printf("HloModule pool\n\n%%most (a: bf16[], b: bf16[]) -> bf16[] {\n  %%a = bf16[] parameter(0)\n  %%b = bf16[] parameter(1)\n"
                                "  ROOT %%m = bf16[] maximum(%%a, %%b)\n}\n\nENTRY %%main (p: bf16[%u,112,112,128]) -> bf16[%u,56,56,128] {\n"
                                "  %%p = bf16[%u,112,112,128]%s parameter(0)\n  %%i = bf16[] constant(-inf)\n"
                                "  ROOT %%pool = bf16[%u,56,56,128]%s reduce-window(%%p, %%i), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, "
                                "to_apply=%%most\n}\n",
                                n, n, n, layouts[k], n, layouts[k]);
            g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v6e");
            times[images][k] = (double)price_in(program, "pool", "tpu-v6e", ECH_KERNEL_HARDWARE, true).time;
        }
    ck_assert_double_lt(times[1][0], 1.3 * times[1][1]);
    ck_assert_double_gt(times[0][0], 10 * times[1][0] / 64);
}
END_TEST

/* Sorts are networks of comparisons: the bundles of libtpu 0.0.52's final schedules, their loops as often as they run, at the chip's clock, besides what a copy
 * of the arrays takes. The compiler itself counts nothing. */
START_TEST(sorts_compare)
{
    static const struct {
        const char *shape, *device;
        unsigned along, arrays;
        double ghz, bundles, within;
    } cases[] = {
        {"f32[65536]{0:T(1024)}", "tpu-v5e", 0, 1, 1.5, 38970, 0.1},       {"f32[4096]{0:T(1024)}", "tpu-v5e", 0, 1, 1.5, 2843, 0.2},
        {"s32[4096]{0:T(1024)}", "tpu-v5e", 0, 2, 1.5, 3971, 0.15},        {"f32[5000]{0:T(1024)}", "tpu-v5e", 0, 1, 1.5, 5442, 0.1},
        {"f32[64,1024]{1,0:T(8,128)}", "tpu-v5e", 1, 1, 1.5, 16400, 0.1},  {"f32[64,2000]{1,0:T(8,128)}", "tpu-v5e", 1, 1, 1.5, 39500, 0.1},
        {"s32[64,1024]{1,0:T(8,128)}", "tpu-v5e", 1, 2, 1.5, 29650, 0.1},  {"f32[1024,256]{1,0:T(8,128)}", "tpu-v5e", 0, 1, 1.5, 49000, 0.1},
        {"f32[512,128]{1,0:T(8,128)}", "tpu-v5e", 0, 1, 1.5, 10300, 0.15}, {"f32[64,1024]{1,0:T(8,128)}", "tpu-v5p", 1, 1, 1.75, 8253, 0.15},
        {"f32[4096]{0:T(1024)}", "tpu-v5p", 0, 1, 1.75, 2865, 0.2},        {"f32[64,1024]{1,0:T(8,128)}", "tpu7x", 1, 1, 2.2, 15842, 0.15},
    };
    const char *shape = cases[_i].shape, *beside = cases[_i].arrays > 1 ? ", %q" : "";
    g_autofree char *pair = cases[_i].arrays > 1 ? g_strdup_printf("(%s, %s)", shape, shape) : g_strdup(shape);
    g_autofree char *text =
        g_strdup_printf("HloModule sort, is_scheduled=true\n\n"
                        "%%less (a: f32[], b: f32[], c: f32[], d: f32[]) -> pred[] {\n  %%a = f32[] parameter(0)\n  %%b = f32[] parameter(1)\n"
                        "  %%c = f32[] parameter(2)\n  %%d = f32[] parameter(3)\n  ROOT %%l = pred[] compare(%%a, %%b), direction=LT\n}\n\n"
                        "ENTRY %%main (p: f32[1], q: f32[1]) -> f32[1] {\n  %%p = %s parameter(0)\n  %%q = %s parameter(1)\n"
                        "  %%moved = %s negate(%%p)\n  ROOT %%sorted = %s sort(%%p%s), dimensions={%u}, to_apply=%%less\n}\n",
                        shape, shape, shape, pair, beside, cases[_i].along);
    g_autoptr(EchProgram) program = ech_test_program(text, cases[_i].device);
    EchKernelCost counted = price_in(program, "sorted", cases[_i].device, ECH_KERNEL_COMPILER, true),
                  real = price_in(program, "sorted", cases[_i].device, ECH_KERNEL_HARDWARE, true);
    double network = (double)real.busy_compute * cases[_i].ghz * 1e-3;
    ck_assert_msg(fabs(network / cases[_i].bundles - 1) < cases[_i].within, "%s on %s: %g cycles, the schedule has %g", shape, cases[_i].device, network,
                  cases[_i].bundles);
    ck_assert_int_lt(counted.busy_compute, real.busy_compute / 4);
    ck_assert_int_ge(real.time, real.busy_compute);
}
END_TEST

/* What libtpu prints for a slice of an array of bytes, read in tiles of 8 rows where it lies in tiles of 32: it reads the slice, not the array. */
START_TEST(other_tiles_cost)
{
    g_autoptr(EchProgram) program =
        ech_test_program("HloModule tiles, is_scheduled=true\n\n"
                         "%tiles (q: s8[24,96,4,4096,128]) -> s8[24,96,4,4096,128] {\n  %q = s8[24,96,4,4096,128]{4,3,2,1,0:T(32,128)(4,1)} parameter(0)\n"
                         "  ROOT %c = s8[24,96,4,4096,128]{4,3,2,1,0:T(8,128)(4,1)} copy(%q)\n}\n\n"
                         "%slice (p: s8[24,96,4,4096,128], i: s32[]) -> s8[96,4,4096,128] {\n"
                         "  %p = s8[24,96,4,4096,128]{4,3,2,1,0:T(32,128)(4,1)} parameter(0)\n  %i = s32[]{:T(128)S(6)} parameter(1)\n"
                         "  %z = s32[]{:T(128)} constant(0)\n"
                         "  %t = s8[24,96,4,4096,128]{4,3,2,1,0:T(8,128)(4,1)} fusion(%p), kind=kLoop, calls=%tiles\n"
                         "  %s = s8[1,96,4,4096,128]{4,3,2,1,0:T(8,128)(4,1)} dynamic-slice(%t, %i, %z, %z, %z, %z), "
                         "dynamic_slice_sizes={1,96,4,4096,128}\n  ROOT %b = s8[96,4,4096,128]{3,2,1,0:T(8,128)(4,1)} bitcast(%s)\n}\n\n"
                         "ENTRY %main (a: s8[24,96,4,4096,128], n: s32[]) -> s8[96,4,4096,128] {\n"
                         "  %a = s8[24,96,4,4096,128]{4,3,2,1,0:T(32,128)(4,1)} parameter(0)\n  %n = s32[]{:T(128)S(6)} parameter(1)\n"
                         "  ROOT %taken = s8[96,4,4096,128]{3,2,1,0:T(8,128)(4,1)} fusion(%a, %n), kind=kLoop, calls=%slice, "
                         "backend_config={\"window_config\":{\"output_window_bounds\":[\"1\",\"2\",\"512\",\"1\"],"
                         "\"iteration_bounds\":[\"96\",\"2\",\"1\",\"1\"],\"buffering_level\":\"6\"}}\n}\n",
                         "tpu-v6e");
    EchId taken = ech_test_instruction(program, "taken");
    ck_assert_uint_eq(ech_program_operand_bytes(program, taken, 0), UINT64_C(96) * 4 * 4096 * 128);
    double cycles = (double)price_in(program, "taken", "tpu-v6e", ECH_KERNEL_COMPILER, false).time * 1.75e-3;
    ck_assert_msg(fabs(cycles / 1697984 - 1) < 0.01, "%g cycles, the compiler has 1697984", cycles);
}
END_TEST

/* Weights that a product reads in other tiles, the copy of them two fusions deep: read all the same. */
START_TEST(other_tiles_deep)
{
    g_autoptr(EchProgram) program =
        ech_test_program("HloModule deep, is_scheduled=true\n\n"
                         "%tiles (q: bf16[4096,1024]) -> bf16[4096,1024] {\n  %q = bf16[4096,1024]{1,0:T(16,128)(2,1)} parameter(0)\n"
                         "  ROOT %c = bf16[4096,1024]{1,0:T(8,128)(2,1)} copy(%q)\n}\n\n"
                         "%turned (r: bf16[4096,1024]) -> bf16[4096,1024,1] {\n  %r = bf16[4096,1024]{1,0:T(16,128)(2,1)} parameter(0)\n"
                         "  %t = bf16[4096,1024]{1,0:T(8,128)(2,1)} fusion(%r), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=%tiles\n"
                         "  ROOT %b = bf16[4096,1024,1]{1,0,2:T(8,128)(2,1)} bitcast(%t)\n}\n\n"
                         "%product (w: bf16[4096,1024], x: bf16[8,512,1024]) -> bf16[8,512,4096] {\n  %w = bf16[4096,1024]{1,0:T(16,128)(2,1)} parameter(0)\n"
                         "  %x = bf16[8,512,1024]{2,1,0:T(8,128)(2,1)} parameter(1)\n"
                         "  %u = bf16[4096,1024,1]{1,0,2:T(8,128)(2,1)} fusion(%w), kind=kLoop, calls=%turned\n"
                         "  ROOT %y = bf16[8,512,4096]{2,1,0:T(8,128)(2,1)} convolution(%x, %u), window={size=1}, dim_labels=0bf_oi0->0bf\n}\n\n"
                         "ENTRY %main (a: bf16[4096,1024], n: bf16[8,512,1024]) -> bf16[8,512,4096] {\n"
                         "  %a = bf16[4096,1024]{1,0:T(16,128)(2,1)} parameter(0)\n  %n = bf16[8,512,1024]{2,1,0:T(8,128)(2,1)} parameter(1)\n"
                         "  ROOT %made = bf16[8,512,4096]{2,1,0:T(8,128)(2,1)} fusion(%a, %n), kind=kOutput, calls=%product\n}\n",
                         "tpu7x");
    ck_assert_uint_eq(ech_program_operand_bytes(program, ech_test_instruction(program, "made"), 0), UINT64_C(4096) * 1024 * 2);
}
END_TEST

/* A ragged product of 512 rows, 512 deep, 512 columns in four groups, as libtpu 0.0.52 writes it for v5e: 4 blocks of rows by 4 groups. */
/* A row's one element, taken by a mask that the kernel makes: next to nothing is read, and what is walked is the mask. */
static const char one_hot[] =
    "HloModule one_hot, is_scheduled=true\n\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n\n"
    "%taken (x: f32[1024], y: s32[1024]) -> f32[1024] {\n  %x.1 = f32[1024]{0:T(1024)} parameter(0)\n  %y.1 = s32[1024]{0:T(1024)} parameter(1)\n"
    "  %each = s32[1024,8192]{1,0:T(8,128)} broadcast(%y.1), dimensions={0}\n  %column = s32[1024,8192]{1,0:T(8,128)} iota(), iota_dimension=1\n"
    "  %is = pred[1024,8192]{1,0:T(8,128)(4,1)} compare(%each, %column), direction=EQ\n"
    "  %value = f32[1024,8192]{1,0:T(8,128)} broadcast(%x.1), dimensions={0}\n  %zero = f32[]{:T(128)} constant(0)\n"
    "  %none = f32[1024,8192]{1,0:T(8,128)} broadcast(%zero), dimensions={}\n  %one = f32[1024,8192]{1,0:T(8,128)} select(%is, %value, %none)\n"
    "  ROOT %r = f32[1024]{0:T(1024)} reduce(%one, %zero), dimensions={1}, to_apply=%sum\n}\n\n"
    "%near (x: f32[2048], y: s32[2048]) -> f32[2048] {\n  %x.2 = f32[2048]{0:T(1024)S(1)} parameter(0)\n  %y.2 = s32[2048]{0:T(1024)S(1)} parameter(1)\n"
    "  %each.2 = s32[2048,32000]{1,0:T(8,128)} broadcast(%y.2), dimensions={0}\n  %column.2 = s32[2048,32000]{1,0:T(8,128)} iota(), iota_dimension=1\n"
    "  %is.2 = pred[2048,32000]{1,0:T(8,128)(4,1)} compare(%each.2, %column.2), direction=EQ\n"
    "  %value.2 = f32[2048,32000]{1,0:T(8,128)} broadcast(%x.2), dimensions={0}\n  %zero.2 = f32[]{:T(128)} constant(0)\n"
    "  %none.2 = f32[2048,32000]{1,0:T(8,128)} broadcast(%zero.2), dimensions={}\n"
    "  %one.2 = f32[2048,32000]{1,0:T(8,128)} select(%is.2, %value.2, %none.2)\n"
    "  ROOT %r.2 = f32[2048]{0:T(1024)S(1)} reduce(%one.2, %zero.2), dimensions={1}, to_apply=%sum\n}\n\n"
    "ENTRY %main (x: f32[1024], y: s32[1024], v: f32[2048], w: s32[2048]) -> f32[1024] {\n  %x = f32[1024]{0:T(1024)} parameter(0)\n"
    "  %y = s32[1024]{0:T(1024)} parameter(1)\n  %v = f32[2048]{0:T(1024)S(1)} parameter(2)\n  %w = s32[2048]{0:T(1024)S(1)} parameter(3)\n"
    "  %on_chip = f32[2048]{0:T(1024)S(1)} fusion(%v, %w), kind=kLoop, calls=%near, backend_config={\"window_config\":{\"iteration_bounds\":[\"16\",\"4\"],"
    "\"output_window_bounds\":[\"16\",\"63\"],\"buffering_level\":\"6\",\"estimated_cycles\":\"654928\"}}\n"
    "  ROOT %in_hbm = f32[1024]{0:T(1024)} fusion(%x, %y), kind=kLoop, calls=%taken, backend_config={\"window_config\":{\"iteration_bounds\":[\"8\",\"1\"],"
    "\"output_window_bounds\":[\"16\",\"64\"],\"buffering_level\":\"2\",\"estimated_cycles\":\"84160\"}}\n}\n";

/* As the compiler counts both (libtpu 0.0.52, v5e); on the chip itself such a sum takes no less than its arithmetic. */
START_TEST(one_hot_costs)
{
    static const struct {
        const char *name;
        double cycles, registers;
    } kernels[] = {{"in_hbm", 84160, 1024.0 * 8192 / 1024}, {"on_chip", 654928, 2048.0 * 32000 / 1024}};
    g_autoptr(EchProgram) program = ech_test_program(one_hot, "tpu-v5e");
    double compiler = (double)price_in(program, kernels[_i].name, "tpu-v5e", ECH_KERNEL_COMPILER, false).time;
    double expected = kernels[_i].cycles / 1.5e9 * 1e12;
    ck_assert_double_eq_tol(compiler, expected, 0.005 * expected);
    ck_assert_double_gt((double)price(program, kernels[_i].name, "tpu-v5e", ECH_KERNEL_HARDWARE).time, kernels[_i].registers / 1.5e9 * 1e12);
}
END_TEST

static const char ragged[] =
    "HloModule ragged, is_scheduled=true\n\n"
    "%add (a: bf16[], b: bf16[]) -> bf16[] {\n  %a = bf16[] parameter(0)\n  %b = bf16[] parameter(1)\n  ROOT %s = bf16[] add(%a, %b)\n}\n\n"
    "%repeated (p: bf16[512,512]) -> bf16[4,512,512] {\n  %p = bf16[512,512]{1,0:T(8,128)(2,1)} parameter(0)\n"
    "  ROOT %r = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} broadcast(%p), dimensions={1,2}\n}\n\n"
    "%masked (k: bf16[4,512,512], x: bf16[512,512], m: pred[4,512]) -> bf16[512,512] {\n  %m = pred[4,512]{1,0:T(4,128)(4,1)} parameter(2)\n"
    "  %wide = pred[4,512,512]{2,1,0:T(8,128)(4,1)} broadcast(%m), dimensions={0,1}\n  %x = bf16[512,512]{1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %each = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} fusion(%x), kind=kLoop, calls=%repeated\n  %k = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} parameter(0)\n"
    "  %products = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} convolution(%each, %k), window={size=4 stride=3 lhs_dilate=4}, dim_labels=0bf_0io->0bf\n"
    "  %zero = bf16[]{:T(256)} constant(0)\n  %zeros = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} broadcast(%zero), dimensions={}\n"
    "  %own = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} select(%wide, %products, %zeros)\n"
    "  ROOT %sum = bf16[512,512]{1,0:T(8,128)(2,1)} reduce(%own, %zero), dimensions={0}, to_apply=%add\n}\n\n"
    "ENTRY %main (w: bf16[4,512,512], y: bf16[512,512], n: pred[4,512]) -> bf16[512,512] {\n  %w = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} parameter(0)\n"
    "  %y = bf16[512,512]{1,0:T(8,128)(2,1)} parameter(1)\n  %n = pred[4,512]{1,0:T(4,128)(4,1)} parameter(2)\n"
    "  ROOT %grouped = bf16[512,512]{1,0:T(8,128)(2,1)} fusion(%w, %y, %n), kind=kOutput, calls=%masked, "
    "backend_config={\"convolution_algorithm_config\":{\"emitter\":\"EmitAllBatchInSublanes\",\"is_ragged_dot\":true,"
    "\"num_groups_in_ragged_dot\":\"4\"},\"mask_aggregator_config\":{\"mask_dim_to_iteration_index\":[\"1\",\"2\"]},"
    "\"window_config\":{\"kernel_window_bounds\":[\"1\",\"64\",\"4\"],\"output_window_bounds\":[\"1\",\"16\",\"4\"],"
    "\"input_window_bounds\":[\"1\",\"16\",\"4\"],\"iteration_bounds\":[\"1\",\"4\",\"4\",\"1\",\"1\"],"
    "\"estimated_cycles\":\"74018\",\"buffering_level\":\"3\"}}\n}\n";

/* Before code is generated the kernel is a fusion around that one, with no configuration of its own. */
static char *not_generated(void)
{
    g_autofree char *inner = g_strdup(strstr(ragged, "  ROOT %grouped")), *before = g_strndup(ragged, (gsize)(strstr(ragged, "ENTRY") - ragged));
    *strchr(inner, '\n') = '\0';
    return g_strdup_printf("%s%%around (w: bf16[4,512,512], y: bf16[512,512], n: pred[4,512]) -> bf16[512,512] {\n"
                           "  %%w = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} parameter(0)\n  %%y = bf16[512,512]{1,0:T(8,128)(2,1)} parameter(1)\n"
                           "  %%n = pred[4,512]{1,0:T(4,128)(4,1)} parameter(2)\n%s\n}\n\n"
                           "ENTRY %%main (w: bf16[4,512,512], y: bf16[512,512], n: pred[4,512]) -> bf16[512,512] {\n"
                           "  %%w0 = bf16[4,512,512]{2,1,0:T(8,128)(2,1)} parameter(0)\n  %%y0 = bf16[512,512]{1,0:T(8,128)(2,1)} parameter(1)\n"
                           "  %%n0 = pred[4,512]{1,0:T(4,128)(4,1)} parameter(2)\n"
                           "  ROOT %%kernel = bf16[512,512]{1,0:T(8,128)(2,1)} fusion(%%w0, %%y0, %%n0), kind=kCustom, calls=%%around, "
                           "backend_config={\"flag_configs\":[]}\n}\n",
                           before, inner);
}

/* The chip runs the 7 of 16 blocks that have rows of their group, which the compiler counts all: its estimate is no ground to stand on. Every row is multiplied
 * once, but for the rest of its block. */
START_TEST(ragged_costs)
{
    g_autoptr(EchProgram) program = ech_test_program(ragged, "tpu-v5e");
    EchKernelCost hardware = price_in(program, "grouped", "tpu-v5e", ECH_KERNEL_HARDWARE, false),
                  compiler = price_in(program, "grouped", "tpu-v5e", ECH_KERNEL_COMPILER, false);
    ck_assert_double_eq_tol(hardware.macs, compiler.macs * 7 / 16, 1);
    ck_assert_double_eq_tol(compiler.macs, 4.0 * 512 * 512 * 512, 1);
    ck_assert_double_eq_tol((double)compiler.time, 74018 / 1.5e9 * 1e12, 0.1 * 74018 / 1.5e9 * 1e12);
    ck_assert_double_lt((double)hardware.time, 0.6 * (double)compiler.time);
    EchId grouped = ech_test_instruction(program, "grouped");
    ck_assert_uint_eq(ech_program_work(program, grouped).matrix, 2ull * 512 * 512 * 512);
    g_autofree char *text = not_generated();
    g_autoptr(EchProgram) early = ech_test_program(text, "tpu-v5e");
    ck_assert_double_eq_tol(price_in(early, "kernel", "tpu-v5e", ECH_KERNEL_HARDWARE, false).macs, hardware.macs, 1);
    ck_assert_uint_eq(ech_program_work(early, ech_test_instruction(early, "kernel")).matrix, 2ull * 512 * 512 * 512);
    g_autoptr(EchDevice) chip = ech_test_device("tpu-v5e", NULL);
    EchKernelModel model, own;
    ck_assert(ech_kernel_model_init(&model, chip, ECH_KERNEL_HARDWARE, NULL) && ech_kernel_model_init(&own, chip, ECH_KERNEL_COMPILER, NULL));
    EchTime time;
    bool carried;
    ck_assert(ech_program_kernel_time(program, grouped, &model, &own, 49345333, NULL, &time, &carried));
    ck_assert(!carried && time == hardware.time);
    g_autoptr(EchValidation) validation = ech_validate_program(program, chip, false, NULL);
    ck_assert_ptr_nonnull(validation);
    bool told = false;
    for (guint k = 0; k < validation->notes->len; k++)
        told |= strstr(g_ptr_array_index(validation->notes, k), "products of ragged groups") != NULL;
    ck_assert(told);
}
END_TEST

/* Estimates are cycles of the chip that was compiled for, whichever the predictions are for; of a GPU they say nothing. */
START_TEST(estimates_of_another_chip)
{
    GError *error = NULL;
    g_autoptr(EchProgram) program = ech_test_program(ragged, "tpu-v5e");
    g_autoptr(EchDevice) own = ech_test_device("tpu-v5e", NULL), newer = ech_test_device("tpu-v6e", NULL), gpu = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchValidation) here = ech_validate_program(program, own, false, NULL), there = ech_validate_program(program, newer, false, NULL);
    ck_assert(here && there && here->n_pairs == there->n_pairs && here->n_pairs > 0);
    for (size_t i = 0; i < here->n_pairs; i++) {
        ck_assert_int_eq(here->pairs[i].measured, there->pairs[i].measured);
        ck_assert_int_lt(there->pairs[i].predicted, here->pairs[i].predicted);
    }
    ck_assert_ptr_null(strstr(g_ptr_array_index(here->notes, 0), "compiled for"));
    ck_assert_ptr_nonnull(strstr(g_ptr_array_index(there->notes, 0), "compiled for tpu-v5e"));
    ck_assert_ptr_null(ech_validate_program(program, gpu, false, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED) && strstr(error->message, "compiled for a TPU, and h100-sxm is none"));
    g_clear_error(&error);
}
END_TEST

/* A grouped kernel of the compiler's own, as libtpu 0.0.52 writes one for a ragged product of many rows: its code is text, its blocks are told beside it. */
static const char grouped[] =
    "HloModule grouped, is_scheduled=true\n\n"
    "ENTRY %main (n: s32[1], x: bf16[1000,512], w: bf16[4,512,768], y: bf16[1000,768]) -> bf16[1000,768] {\n  %n = s32[1]{0:T(128)} parameter(0)\n"
    "  %x = bf16[1000,512]{1,0:T(8,128)(2,1)} parameter(1)\n  %w = bf16[4,512,768]{2,1,0:T(8,128)(2,1)} parameter(2)\n"
    "  %y = bf16[1000,768]{1,0:T(8,128)(2,1)} parameter(3)\n"
    "  %slope = bf16[4,512,768]{2,1,0:T(8,128)(2,1)} custom-call(%n, %x, %y), custom_call_target=\"tpu_custom_call\", "
    "frontend_attributes={mosaic_fusion_entry_point=\"true\",ragged_dot_tiling=\"128,256,384\"}, "
    "backend_config={\"custom_call_config\":{\"body\":\"bW9kdWxlIHt9\"}}\n"
    "  ROOT %product = bf16[1000,768]{1,0:T(8,128)(2,1)} custom-call(%n, %x, %w), custom_call_target=\"tpu_custom_call\", "
    "frontend_attributes={mosaic_fusion_entry_point=\"true\",ragged_dot_tiling=\"128,512,384\"}, "
    "backend_config={\"custom_call_config\":{\"body\":\"bW9kdWxlIHt9\"}}\n}\n";

/* 8 blocks of rows, and one again for each of three groups that begin inside one; what the next step has too stays. */
START_TEST(grouped_kernels_cost)
{
    g_autoptr(EchProgram) program = ech_test_program(grouped, "tpu-v5e");
    const EchKernelGrid *product = ech_program_grid(program, ech_test_instruction(program, "product")),
                        *slope = ech_program_grid(program, ech_test_instruction(program, "slope"));
    ck_assert(product != NULL && slope != NULL && product->assumed);
    ck_assert_double_eq_tol(product->steps, 2 * 11, 1e-9);
    ck_assert_double_eq_tol(slope->steps, 2 * 2 * 11, 1e-9);
    ck_assert_double_eq_tol(product->operations, 2.0 * 1000 * 512 * 768, 1);
    ck_assert_double_eq_tol(slope->operations, 2.0 * 1000 * 512 * 768, 1);
    ck_assert_uint_eq(product->read, 2 * (8 * 128 * 512 * 2 + 4 * 512 * 384 * 2));
    ck_assert_uint_eq(product->written, 2 * 8 * 128 * 384 * 2);
    ck_assert_uint_eq(slope->read, 2 * 2 * 8 * (128 * 256 + 128 * 384) * 2);
    ck_assert_uint_eq(slope->written, 4 * 512 * 768 * 2);
    ck_assert(product->products[0].m == 128 && product->products[0].k == 512 && slope->products[0].m == 256 && slope->products[0].k == 128);
}
END_TEST

/* Gradients of weights that Adam takes over at once, of heads whose 64 channels lie on rows, of groups and of a depthwise filter, with the cycles that libtpu
 * 0.0.52 prints for v5e: whatever is added up, the pixels of 16 images or the 197 rows of each of 256 sequences, is cut where a block of all of it has no room.
 * (Its cycles of the sequences are fewer than the units can do it in, 453,888.) */
/* clang-format off */
#define ADAM(n, type)                                                                                                                                          \
    "  %w" n " = " type " parameter(0)\n  %m" n " = " type " parameter(1)\n  %v" n " = " type " parameter(2)\n  %f" n " = " type " convert(%g" n ")\n"         \
    "  %a" n " = " type " add(%m" n ", %f" n ")\n  %q" n " = " type " multiply(%f" n ", %f" n ")\n  %b" n " = " type " add(%v" n ", %q" n ")\n"                \
    "  %s" n " = " type " sqrt(%b" n ")\n  %d" n " = " type " divide(%a" n ", %s" n ")\n  %u" n " = " type " subtract(%w" n ", %d" n ")\n"                     \
    "  ROOT %t" n " = (" type ", " type ", " type ") tuple(%u" n ", %a" n ", %b" n ")\n}\n\n"
#define FILTER "f32[3,3,256,256]{3,2,1,0:T(8,128)}"
#define MATRIX "f32[768,768]{1,0:T(8,128)}"

static const char gradients[] =
    "HloModule gradients, is_scheduled=true\n\n"
    "%images (p: f32[3,3,256,256], p.1: f32[3,3,256,256], p.2: f32[3,3,256,256], p.3: bf16[16,64,64,256], p.4: bf16[64,16,64,256]) -> "
    "(f32[3,3,256,256], f32[3,3,256,256], f32[3,3,256,256]) {\n"
    "  %x.1 = bf16[64,16,64,256]{3,1,0,2:T(8,128)(2,1)} parameter(4)\n  %y.1 = bf16[16,64,64,256]{3,0,2,1:T(8,128)(2,1)} parameter(3)\n"
    "  %g.1 = bf16[3,3,256,256]{3,2,1,0:T(8,128)(2,1)} convolution(%x.1, %y.1), window={size=64x64 pad=1_1x1_1}, dim_labels=1f0b_i01o->01bf\n"
    ADAM(".1", FILTER)
    "%sequences (p.5: f32[768,768], p.6: f32[768,768], p.7: f32[768,768], p.8: bf16[256,197,768], p.9: bf16[256,197,768]) -> "
    "(f32[768,768], f32[768,768], f32[768,768]) {\n"
    "  %x.2 = bf16[256,197,768]{1,2,0:T(8,128)(2,1)S(1)} parameter(3)\n  %y.2 = bf16[256,197,768]{2,1,0:T(8,128)(2,1)} parameter(4)\n"
    "  %c.2 = bf16[768,768,1]{1,0,2:T(8,128)(2,1)} convolution(%x.2, %y.2), window={size=256}, dim_labels=0fb_0io->bf0\n"
    "  %g.2 = bf16[768,768]{1,0:T(8,128)(2,1)} bitcast(%c.2)\n"
    ADAM(".2", MATRIX)
    "ENTRY %main (w: f32[3,3,256,256], m: f32[3,3,256,256], v: f32[3,3,256,256], x: bf16[64,16,64,256], y: bf16[16,64,64,256], w.3: f32[768,768], "
    "m.3: f32[768,768], v.3: f32[768,768], x.3: bf16[256,197,768], y.3: bf16[256,197,768]) -> (f32[768,768], f32[768,768], f32[768,768]) {\n"
    "  %w = f32[3,3,256,256]{3,2,1,0:T(8,128)S(1)} parameter(0)\n  %m = " FILTER " parameter(1)\n  %v = " FILTER " parameter(2)\n"
    "  %x = bf16[64,16,64,256]{3,1,0,2:T(8,128)(2,1)} parameter(3)\n  %y = bf16[16,64,64,256]{3,0,2,1:T(8,128)(2,1)} parameter(4)\n"
    "  %w.3 = " MATRIX " parameter(5)\n  %m.3 = f32[768,768]{1,0:T(8,128)S(1)} parameter(6)\n  %v.3 = " MATRIX " parameter(7)\n"
    "  %x.3 = bf16[256,197,768]{1,2,0:T(8,128)(2,1)S(1)} parameter(8)\n  %y.3 = bf16[256,197,768]{2,1,0:T(8,128)(2,1)} parameter(9)\n"
    "  %pixels = (f32[3,3,256,256]{3,2,1,0:T(8,128)S(1)}, " FILTER ", " FILTER ") fusion(%w, %m, %v, %y, %x), kind=kOutput, calls=%images\n"
    "  ROOT %rows = (" MATRIX ", f32[768,768]{1,0:T(8,128)S(1)}, " MATRIX ") fusion(%w.3, %m.3, %v.3, %x.3, %y.3), kind=kOutput, calls=%sequences\n}\n";

static const char parted[] =
    "HloModule parted, is_scheduled=true\n\n"
    "%groups (p.10: bf16[8,249,16,48], p.11: bf16[8,249,16,48]) -> f32[128,48,16,48] {\n"
    "  %x.5 = bf16[8,249,16,48]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(0)\n  %y.5 = bf16[8,249,16,48]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %g.5 = bf16[128,48,16,48]{3,1,2,0:T(8,128)(2,1)} convolution(%x.5, %y.5), window={size=249x16 stride=1x15 pad=63_64x0_0 lhs_dilate=1x16}, "
    "dim_labels=f01b_i01o->0b1f\n  ROOT %f.5 = f32[128,48,16,48]{3,1,2,0:T(8,128)S(1)} convert(%g.5)\n}\n\n"
    "ENTRY %main (x.4: bf16[16,1024,1024,1], y.4: bf16[16,1024,16,64], x.6: bf16[8,249,16,48], y.6: bf16[8,249,16,48], "
    "x.7: bf16[128,28,28,256], y.7: bf16[128,28,28,256]) -> f32[128,48,16,48] {\n"
    "  %x.4 = bf16[16,1024,1024,1]{2,1,3,0:T(8,128)(2,1)} parameter(0)\n  %y.4 = bf16[16,1024,16,64]{1,3,2,0:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %x.6 = bf16[8,249,16,48]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(2)\n  %y.6 = bf16[8,249,16,48]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(3)\n"
    "  %x.7 = bf16[128,28,28,256]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(4)\n  %y.7 = bf16[128,28,28,256]{3,0,2,1:T(8,128)(2,1)} parameter(5)\n"
    "  %depthwise = bf16[7,7,1,256]{3,2,1,0:T(2,128)(2,1)S(1)} convolution(%x.7, %y.7), window={size=28x28 pad=3_3x3_3}, dim_labels=f01b_i01o->01bf, "
    "batch_group_count=256\n"
    "  %heads = bf16[1024,16,64,1]{0,2,1,3:T(8,128)(2,1)} convolution(%x.4, %y.4), window={size=16x16 pad=15_15x0_0 rhs_reversal=1x0}, "
    "dim_labels=1fb0_1i0o->b0f1, " WINDOWS("16,16,8,1", "1,16,8,2", "16,1,16,2", "1,1,4,1,1,1,8") "\n"
    "  ROOT %grouped = f32[128,48,16,48]{3,1,2,0:T(8,128)S(1)} fusion(%x.6, %y.6), kind=kOutput, calls=%groups, "
    WINDOWS("249,1,1,1", "128,1,6,1", "376,1,1,1", "16,1,1,1,1,1,1") "\n}\n";
/* clang-format on */

START_TEST(gradients_cost)
{
    static const struct {
        const char *text, *name;
        double cycles, within;
        bool cut;
    } cases[] = {{gradients, "pixels", 636675, 0.1, true},
                 {gradients, "rows", 421036, 0.5, true},
                 {parted, "heads", 281096, 0.02, false},
                 {parted, "grouped", 528384, 0.02, false},
                 {parted, "depthwise", 634255, 0.1, true}};
    g_autoptr(EchProgram) program = ech_test_program(cases[_i].text, "tpu-v5e");
    EchKernelCost cost = check_cycles(program, cases[_i].name, "tpu-v5e", 1.5, cases[_i].cut, cases[_i].cycles, cases[_i].within);
    ck_assert((cost.blocks.taps > 0) == cases[_i].cut);
    ck_assert_uint_lt(cost.blocks.steps, 1000);
}
END_TEST

/* Gradients of depthwise filters, with the cycles that libtpu 0.0.52 prints: images on lanes, with a stride, with arithmetic before the product, in as many
 * steps as there are pixels, and channels on lanes; and a batch whose result of 16 bits fills registers in part, which is narrowed as if it filled them. */
/* clang-format off */
static const char filters[] =
    "HloModule filters, is_scheduled=true\n\n"
    "%scaled (x: bf16[256,9,9,32], y: bf16[256,9,9,32], s: bf16[32]) -> bf16[3,3,1,32] {\n"
    "  %x = bf16[256,9,9,32]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(0)\n  %y = bf16[256,9,9,32]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %s = bf16[32]{0:T(256)(128)(2,1)S(1)} parameter(2)\n  %r = bf16[256,9,9,32]{0,3,2,1:T(8,128)(2,1)} broadcast(%s), dimensions={3}\n"
    "  %u = f32[256,9,9,32]{0,3,2,1:T(8,128)} convert(%y)\n  %v = f32[256,9,9,32]{0,3,2,1:T(8,128)} convert(%r)\n"
    "  %w = f32[256,9,9,32]{0,3,2,1:T(8,128)} multiply(%u, %v)\n  %d = bf16[256,9,9,32]{0,3,2,1:T(8,128)(2,1)} convert(%w)\n"
    "  ROOT %g = bf16[3,3,1,32]{3,2,1,0:T(2,128)(2,1)S(1)} convolution(%x, %d), window={size=9x9 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf, "
    "batch_group_count=32\n}\n\n"
    "ENTRY %main (a: bf16[128,16,16,32], b: bf16[128,8,8,32], c: bf16[256,9,9,32], d: bf16[256,9,9,32], e: bf16[32], f: bf16[128,18,18,72], "
    "h: bf16[128,18,18,72], i: bf16[24,12,12,192], j: bf16[24,12,12,192], k: bf16[2,256,4,1], l: bf16[2,256,4,768]) -> bf16[2,256,1,768] {\n"
    "  %a = bf16[128,16,16,32]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(0)\n  %b = bf16[128,8,8,32]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(1)\n"
    "  %c = bf16[256,9,9,32]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(2)\n  %d.1 = bf16[256,9,9,32]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(3)\n"
    "  %e = bf16[32]{0:T(256)(128)(2,1)S(1)} parameter(4)\n  %f = bf16[128,18,18,72]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(5)\n"
    "  %h = bf16[128,18,18,72]{0,3,2,1:T(8,128)(2,1)S(1)} parameter(6)\n  %i = bf16[24,12,12,192]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(7)\n"
    "  %j = bf16[24,12,12,192]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(8)\n  %k = bf16[2,256,4,1]{2,3,1,0:T(2,128)(2,1)S(1)} parameter(9)\n"
    "  %l = bf16[2,256,4,768]{3,2,1,0:T(4,128)(2,1)S(1)} parameter(10)\n"
    "  %strided = bf16[3,3,1,32]{3,2,1,0:T(2,128)(2,1)S(1)} convolution(%a, %b), window={size=8x8 pad=0_1x0_1 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf, "
    "batch_group_count=32, " WINDOWS("8,8,4,1", "3,3,1,1", "17,17,4,1", "1,1,1,1,1,1,1") "\n"
    "  %before = bf16[3,3,1,32]{3,2,1,0:T(2,128)(2,1)S(1)} fusion(%c, %d.1, %e), kind=kOutput, calls=%scaled, "
    WINDOWS("9,9,4,2", "3,3,1,1", "11,11,4,2", "1,1,1,1,1,1,1") "\n"
    "  %steps = bf16[3,3,1,72]{3,2,1,0:T(2,128)(2,1)S(1)} convolution(%f, %h), window={size=18x18 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf, "
    "batch_group_count=72, " WINDOWS("1,1,9,1", "3,3,1,1", "3,3,9,1", "1,1,1,1,18,18,1") "\n"
    "  %channels = bf16[3,3,1,192]{3,2,1,0:T(2,128)(2,1)S(1)} convolution(%i, %j), window={size=12x12 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf, "
    "batch_group_count=192, " WINDOWS("12,12,3,2", "3,3,1,2", "14,14,3,2", "1,1,1,1,1,1,1") "\n"
    "  ROOT %part = bf16[2,256,1,768]{3,2,1,0:T(2,128)(2,1)S(1)} convolution(%k, %l), window={size=2x256 stride=1x255 lhs_dilate=2x256}, "
    "dim_labels=01fb_01io->01bf, " WINDOWS("2,256,1,6", "2,256,1,6", "2,256,1,1", "1,1,1,1,1,1,1") "\n}\n";
/* clang-format on */

START_TEST(filters_cost)
{
    static const struct {
        const char *name, *device;
        double ghz, cycles;
    } cases[] = {{"strided", "tpu7x", 2.2, 2441}, {"before", "tpu-v6e", 1.75, 1195},  {"before", "tpu-v5e", 1.5, 2936},
                 {"steps", "tpu-v5e", 1.5, 4803}, {"channels", "tpu-v5e", 1.5, 6037}, {"part", "tpu7x", 2.2, 12862}};
    g_autoptr(EchProgram) program = ech_test_program(filters, cases[_i].device);
    check_cycles(program, cases[_i].name, cases[_i].device, cases[_i].ghz, false, cases[_i].cycles, 0.004);
}
END_TEST

/* A transform's product with a matrix that the kernel makes of iotas; one whose pixels lie on lanes, 32 channels on rows, in windows of our own; and the edge
 * of images that a shift brings round, cut by negative pads: with the cycles that libtpu 0.0.52 prints for v5e. */
/* clang-format off */
static const char transforms[] =
    "HloModule transforms, is_scheduled=true\n\n"
    "%wave (p: f32[8,32,129,256]) -> f32[8,32,129,256] {\n  %p = f32[8,32,129,256]{3,2,1,0:T(8,128)S(1)} parameter(0)\n"
    "  %i = u32[256,256]{1,0:T(8,128)} iota(), iota_dimension=0\n  %j = u32[256,256]{1,0:T(8,128)} iota(), iota_dimension=1\n"
    "  %ij = u32[256,256]{1,0:T(8,128)} multiply(%i, %j)\n  %a = f32[256,256]{1,0:T(8,128)} convert(%ij)\n"
    "  %c = f32[256,256]{1,0:T(8,128)} cosine(%a)\n  %m = f32[256,256,1,1]{1,0,3,2:T(8,128)} bitcast(%c)\n"
    "  ROOT %r = f32[8,32,129,256]{3,2,1,0:T(8,128)S(1)} convolution(%p, %m), window={size=1x1}, dim_labels=01bf_io01->01bf, "
    "operand_precision={highest,highest}\n}\n\n"
    "%project (x: bf16[8,256,256,32], w: f32[32,32,1,1]) -> f32[8,256,256,32] {\n  %x.1 = bf16[8,256,256,32]{2,3,1,0:T(8,128)(2,1)} parameter(0)\n"
    "  %w.1 = f32[32,32,1,1]{1,0,3,2:T(8,128)S(1)} parameter(1)\n"
    "  ROOT %r.1 = f32[8,256,256,32]{2,3,1,0:T(8,128)} convolution(%x.1, %w.1), window={size=1x1}, dim_labels=01bf_oi01->01bf\n}\n\n"
    "%edge (a: bf16[32,56,3,96], b: bf16[32,56,53,96]) -> bf16[32,3,56,96] {\n  %a = bf16[32,56,3,96]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(0)\n"
    "  %b = bf16[32,56,53,96]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(1)\n  %zero = bf16[]{:T(256)} constant(0)\n"
    "  %c.2 = bf16[32,3,56,96]{3,0,2,1:T(8,128)(2,1)} pad(%a, %zero), padding=0_0x-53_0x0_53x0_0\n"
    "  %d = bf16[32,3,56,96]{3,0,2,1:T(8,128)(2,1)} pad(%b, %zero), padding=0_0x-53_0x3_0x0_0\n"
    "  %e = f32[32,3,56,96]{3,0,2,1:T(8,128)} convert(%c.2)\n  %f = f32[32,3,56,96]{3,0,2,1:T(8,128)} convert(%d)\n"
    "  %g = f32[32,3,56,96]{3,0,2,1:T(8,128)} add(%e, %f)\n  ROOT %h = bf16[32,3,56,96]{3,0,2,1:T(8,128)(2,1)S(1)} convert(%g)\n}\n\n"
    "ENTRY %main (p: f32[8,32,129,256], x: bf16[8,256,256,32], w: f32[32,32,1,1], a: bf16[32,56,3,96], b: bf16[32,56,53,96]) -> f32[8,256,256,32] {\n"
    "  %p.1 = f32[8,32,129,256]{3,2,1,0:T(8,128)S(1)} parameter(0)\n  %x = bf16[8,256,256,32]{2,3,1,0:T(8,128)(2,1)} parameter(1)\n"
    "  %w = f32[32,32,1,1]{1,0,3,2:T(8,128)S(1)} parameter(2)\n"
    "  %a.1 = bf16[32,56,3,96]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(3)\n  %b.1 = bf16[32,56,53,96]{3,0,2,1:T(8,128)(2,1)S(1)} parameter(4)\n"
    "  %shifted = bf16[32,3,56,96]{3,0,2,1:T(8,128)(2,1)S(1)} fusion(%a.1, %b.1), kind=kLoop, calls=%edge, " MOVED("3,56,4,1", "1,1,1,1")
    "  %made = f32[8,32,129,256]{3,2,1,0:T(8,128)S(1)} fusion(%p.1), kind=kOutput, calls=%wave, "
    WINDOWS("1,1,32,2", "1,32,17,2", "1,32,17,2", "1,1,8,1,1,1,1") "\n"
    "  ROOT %narrow = f32[8,256,256,32]{2,3,1,0:T(8,128)} fusion(%x, %w), kind=kOutput, calls=%project\n}\n";
/* clang-format on */

START_TEST(transforms_cost)
{
    static const struct {
        const char *name;
        double cycles, within;
        bool cut;
    } cases[] = {{"made", 210944, 0.06, false}, {"narrow", 264576, 0.25, true}, {"shifted", 11714, 0.25, false}};
    g_autoptr(EchProgram) program = ech_test_program(transforms, "tpu-v5e");
    check_cycles(program, cases[_i].name, "tpu-v5e", 1.5, cases[_i].cut, cases[_i].cycles, cases[_i].within);
}
END_TEST

/* A gather picks what lies together at once: of images each one, whichever order their pixels lie in, and of caches that lie token by token each token's. */
START_TEST(gathers_cost)
{
    static const struct {
        const char *name;
        double pieces;
    } cases[] = {{"images", 2048}, {"caches", 32 * 128}, {"rows", 8192}};
    g_autoptr(EchProgram) program = ech_test_program(
        "HloModule gathers, is_scheduled=true\n\n"
        "ENTRY %main (x: u8[16384,84,84,4], i: s32[2048], c: bf16[32,128,16,64], j: s32[32], t: f32[16000,1024], k: s32[8192]) -> f32[8192,1024] {\n"
        "  %x = u8[16384,84,84,4]{2,1,3,0:T(8,128)(4,1)S(1)} parameter(0)\n  %i = s32[2048]{0:T(1024)S(1)} parameter(1)\n"
        "  %c = bf16[32,128,16,64]{3,2,0,1:T(8,128)(2,1)S(1)} parameter(2)\n  %j = s32[32]{0:T(128)S(1)} parameter(3)\n"
        "  %t = f32[16000,1024]{1,0:T(8,128)S(1)} parameter(4)\n  %k = s32[8192]{0:T(1024)S(1)} parameter(5)\n"
        "  %images = u8[2048,84,84,4]{2,1,3,0:T(8,128)(4,1)S(1)} gather(%x, %i), offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,84,84,4}\n"
        "  %caches = bf16[32,128,16,64]{3,2,1,0:T(8,128)(2,1)S(1)} gather(%c, %j), offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,128,16,64}\n"
        "  ROOT %rows = f32[8192,1024]{1,0:T(8,128)S(1)} gather(%t, %k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,1024}\n}\n",
        "tpu-v5e");
    g_autoptr(EchDevice) chip = ech_test_device("tpu-v5e", NULL);
    EchKernelModel model;
    ck_assert(ech_kernel_model_init(&model, chip, ECH_KERNEL_HARDWARE, NULL));
    EchKernelCost cost = price_in(program, cases[_i].name, "tpu-v5e", ECH_KERNEL_HARDWARE, false);
    double cycles = (double)cost.time * model.clock_hz * 1e-12 - model.step;
    ck_assert_msg(fabs(cycles / (cases[_i].pieces * model.gather) - 1) < 0.001, "%s: %g cycles", cases[_i].name, cycles);
}
END_TEST

START_TEST(estimates)
{
    g_autoptr(EchProgram) program =
        ech_test_program("HloModule estimates, is_scheduled=true\n\n"
                         "ENTRY %main (x: f32[1024,1024]) -> f32[1024,1024] {\n  %x = f32[1024,1024]{1,0:T(8,128)} parameter(0)\n"
                         "  %some = f32[1024,1024]{1,0:T(8,128)} negate(%x), backend_config={\"window_config\":{\"estimated_cycles\":\"9000\"}}\n"
                         "  ROOT %endless = f32[1024,1024]{1,0:T(8,128)} negate(%some), "
                         "backend_config={\"window_config\":{\"estimated_cycles\":\"1152921505170404327\"}}\n}\n",
                         "tpu-v5e");
    uint64_t cycles = 7;
    ck_assert_int_eq(ech_program_estimated_cycles(&program->instructions[ech_test_instruction(program, "endless")], &cycles), false);
    ck_assert_uint_eq(cycles, 7);
    ck_assert_int_eq(ech_program_estimated_cycles(&program->instructions[ech_test_instruction(program, "some")], &cycles), true);
    ck_assert_uint_eq(cycles, 9000);
}
END_TEST

/* A price that is remembered is the one that would be computed, whichever model and windows it was asked for in between. */
START_TEST(remembered_prices)
{
    static const struct {
        const char *device;
        EchKernelView view;
    } models[] = {{"tpu-v5e", ECH_KERNEL_HARDWARE}, {"tpu-v5e", ECH_KERNEL_COMPILER}, {"tpu-v6e", ECH_KERNEL_HARDWARE}};
    g_autoptr(EchImport) import = ech_test_import(ECH_SOURCE_DIR "/traces/adam_none.v5e/program.hlo.txt.gz", NULL);
    const EchProgram *program = import->program;
    g_autoptr(EchKernelMemo) memo = ech_kernel_memo_new();
    EchDevice *devices[G_N_ELEMENTS(models)];
    EchKernelModel model[G_N_ELEMENTS(models)];
    size_t kernels = 0;
    for (size_t m = 0; m < G_N_ELEMENTS(models); m++) {
        devices[m] = ech_test_device(models[m].device, NULL);
        ck_assert(ech_kernel_model_init(&model[m], devices[m], models[m].view, NULL));
    }
    for (EchId id = 0; id < program->n_instructions; id++) {
        for (size_t m = 0; m < 2 * G_N_ELEMENTS(models); m++) {
            EchKernelCost cost, remembered;
            if (!ech_program_price_kernel(program, id, &model[m / 2], m % 2, NULL, &cost))
                continue;
            ck_assert(ech_program_price_kernel(program, id, &model[m / 2], m % 2, memo, &remembered));
            const char *name = program->instructions[id].name;
            ck_assert_msg(cost.time == remembered.time && cost.compute == remembered.compute && cost.hbm == remembered.hbm && cost.port == remembered.port &&
                              cost.latency == remembered.latency && cost.fill == remembered.fill && cost.overhead == remembered.overhead,
                          "%s: %" G_GINT64_FORMAT " ps, remembered %" G_GINT64_FORMAT, name, cost.time, remembered.time);
            ck_assert_uint_eq(cost.hbm_read, remembered.hbm_read);
            ck_assert_uint_eq(cost.vmem, remembered.vmem);
            ck_assert_uint_eq(cost.blocks.steps, remembered.blocks.steps);
            ck_assert_double_eq(cost.macs, remembered.macs);
            kernels++;
        }
    }
    ck_assert_uint_gt(kernels, 100);
    for (size_t m = 0; m < G_N_ELEMENTS(models); m++)
        ech_device_free(devices[m]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prices of instructions");
    TCase *tests = tcase_create("prices");
    tcase_add_test(tests, reductions_cost);
    tcase_add_loop_test(tests, born_on_chip, 0, 4);
    tcase_add_loop_test(tests, training_costs, 0, 4);
    tcase_add_loop_test(tests, pass_costs, 0, 4);
    tcase_add_loop_test(tests, mixing_costs, 0, 3);
    tcase_add_loop_test(tests, pointwise_costs, 0, 3);
    tcase_add_loop_test(tests, laned_costs, 0, 5);
    tcase_add_loop_test(tests, transposed_costs, 0, 4);
    tcase_add_test(tests, work_behind_costs);
    tcase_add_test(tests, functions_cost);
    tcase_add_loop_test(tests, narrow_costs, 0, 2);
    tcase_add_loop_test(tests, moves_cost, 0, 7);
    tcase_add_test(tests, updates_cost);
    tcase_add_loop_test(tests, rides_along, 0, 2);
    tcase_add_loop_test(tests, cut_costs, 0, 4);
    tcase_add_loop_test(tests, small_costs, 0, 3);
    tcase_add_loop_test(tests, window_costs, 0, 10);
    tcase_add_loop_test(tests, several_results_cost, 0, 5);
    tcase_add_loop_test(tests, sorts_compare, 0, 12);
    tcase_add_test(tests, products_of_products_cost);
    tcase_add_test(tests, unlaid_pools_cost);
    tcase_add_test(tests, other_tiles_cost);
    tcase_add_test(tests, other_tiles_deep);
    tcase_add_loop_test(tests, gradients_cost, 0, 5);
    tcase_add_loop_test(tests, filters_cost, 0, 6);
    tcase_add_loop_test(tests, transforms_cost, 0, 3);
    tcase_add_loop_test(tests, gathers_cost, 0, 3);
    tcase_add_test(tests, estimates);
    tcase_add_test(tests, ragged_costs);
    tcase_add_test(tests, estimates_of_another_chip);
    tcase_add_test(tests, grouped_kernels_cost);
    tcase_add_loop_test(tests, one_hot_costs, 0, 2);
    tcase_add_test(tests, small_beginnings);
    tcase_add_test(tests, places_left_open);
    tcase_add_test(tests, remembered_prices);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
