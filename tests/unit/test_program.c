/* Programs: small modules whose figures and traces are known, and every captured program beside the tree held against its compiler. */
#include "models/device/device.h"
#include "sim/import/import.h"
#include "sim/program/place_inputs.h"
#include "sim/program/place_rewrite.h"
#include "sim/program/private.h"
#include "tests/support/support.h"

#include <check.h>
#include <json-glib/json-glib.h>
#include <string.h>

static void assign(EchProgram *program)
{
    GError *error = NULL;
    EchProgramAssignment *made = ech_program_assign(program, 0, NULL, &error);
    ck_assert_ok(made != NULL, error);
    ech_program_set_assignment(program, made, "made by echelon");
}

static EchTrace *lower(const EchProgram *program)
{
    GError *error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    EchTrace *trace = ech_program_lower(program, NULL, NULL, diag, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

/* Largest live sum of HBM in the trace's order, each body once. */
static EchBytes peak_of(const EchTrace *trace)
{
    EchBytes live = 0, peak = 0;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++)
        live += buffers[b].resident && strcmp(ech_trace_memory(trace, buffers[b].memory), "hbm") == 0 ? buffers[b].bytes : 0;
    peak = live;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if ((op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE) || strcmp(ech_trace_memory(trace, buffers[op->target].memory), "hbm") != 0)
            continue;
        live = op->kind == ECH_OP_ALLOC ? live + buffers[op->target].bytes : live - buffers[op->target].bytes;
        peak = MAX(peak, live);
    }
    return peak;
}

static const char lengths[] = "HloModule lengths, is_scheduled=true\n\n"
                              "%fused (q: s32[4]) -> s32[4] {\n"
                              "  %q = s32[4]{0} parameter(0)\n"
                              "  %first = s32[1]{0} slice(%q), slice={[0:1]}\n"
                              "  %one = s32[] constant(1)\n"
                              "  ROOT %u = s32[4]{0} dynamic-update-slice(%q, %first, %one)\n"
                              "}\n\n"
                              "ENTRY %main (p: s32[4], f: f32[4]) -> s32[4] {\n"
                              "  %p = s32[4]{0} parameter(0)\n"
                              "  %f = f32[4]{0} parameter(1)\n"
                              "  %moved = s32[4]{0} fusion(%p), kind=kLoop, calls=%fused\n"
                              "  %zero = s32[] constant(0)\n"
                              "  %three = s32[] constant(3)\n"
                              "  %nine = s32[] constant(9)\n"
                              "  %threes = s32[4]{0} broadcast(%three), dimensions={}\n"
                              "  %pages = s32[4]{0} divide(%moved, %threes)\n"
                              "  %longer = pred[4]{0} compare(%pages, %threes), direction=GT\n"
                              "  %shorter = pred[4]{0} not(%longer)\n"
                              "  %lowest = s32[4]{0} not(%threes)\n"
                              "  %picked = s32[4]{0} select(%longer, %pages, %threes)\n"
                              "  %odd = s32[2]{0} slice(%picked), slice={[1:4:2]}\n"
                              "  %padded = s32[4]{0} pad(%odd, %zero), padding=1_1\n"
                              "  %joined = s32[8]{0} concatenate(%padded, %pages), dimensions={0}\n"
                              "  %last = s32[2]{0} dynamic-slice(%joined, %nine), dynamic_slice_sizes={2}\n"
                              "  %square = s32[4]{0} multiply(%pages, %pages)\n"
                              "  %narrow = s8[4]{0} convert(%square)\n"
                              "  %which = s32[4]{0} iota(), iota_dimension=0\n"
                              "  %by_none = s32[4]{0} divide(%pages, %which)\n"
                              "  %of_floats = s32[4]{0} convert(%f)\n"
                              "  ROOT %r = s32[4]{0} add(%by_none, %of_floats)\n"
                              "}\n";

START_TEST(integers_of_arguments_are_followed)
{
    static const struct {
        const char *name;
        size_t n; /* 0: not known */
        int64_t values[8];
        bool by_argument;
    } expected[] = {
        {"moved", 4, {5, 5, 100, 33}, true}, {"threes", 4, {3, 3, 3, 3}, false},
        {"pages", 4, {1, 1, 33, 11}, true},  {"longer", 4, {0, 0, 1, 1}, true},
        {"shorter", 4, {1, 1, 0, 0}, true},  {"lowest", 4, {-4, -4, -4, -4}, false},
        {"picked", 4, {3, 3, 33, 11}, true}, {"odd", 2, {3, 11}, true},
        {"padded", 4, {0, 3, 11, 0}, true},  {"joined", 8, {0, 3, 11, 0, 1, 1, 33, 11}, true},
        {"last", 2, {33, 11}, true},         {"narrow", 4, {1, 1, 1089 % 256, 121}, true},
        {"which", 4, {0, 1, 2, 3}, false},   {"by_none", 0, {0}, false},
        {"of_floats", 0, {0}, false},
    };
    g_autoptr(EchProgram) program = ech_test_program(lengths, "tpu-v5e");
    g_autoptr(EchIntegers) before = ech_integers_new(program);
    ck_assert_ptr_null(ech_integers_of(before, ech_test_instruction(program, "moved"), NULL));
    g_autoptr(GPtrArray) texts = g_ptr_array_new();
    char given[] = "5,0,100,33";
    g_ptr_array_add(texts, given);
    ck_assert(!ech_program_set_arguments(program, texts)); /* no kernel goes by them */
    g_autoptr(EchIntegers) integers = ech_integers_new(program);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        unsigned by = ECH_BY_DEVICE;
        const GArray *values = ech_integers_of(integers, ech_test_instruction(program, expected[i].name), &by);
        ck_assert_msg((values ? values->len : 0) == expected[i].n && by == (expected[i].by_argument ? ECH_BY_ARGUMENT : 0u), "%s: %u numbers, %u",
                      expected[i].name, values ? values->len : 0, by);
        for (size_t k = 0; k < expected[i].n; k++)
            ck_assert_msg(g_array_index(values, int64_t, k) == expected[i].values[k], "%s: number %zu is %" G_GINT64_FORMAT, expected[i].name, k,
                          g_array_index(values, int64_t, k));
    }
}
END_TEST

/* Tables of which each of four devices has a part, two replicas of two partitions. */
static const char tables[] = "HloModule tables, is_scheduled=true, replica_count=2, num_partitions=2\n\n"
                             "ENTRY %main (f: f32[4]) -> s32[2,3] {\n"
                             "  %f = f32[4]{0} parameter(0)\n"
                             "  %zero = s32[] constant(0)\n"
                             "  %table = s32[2,4,3]{2,1,0} constant({{{0,1,2},{3,4,5},{6,7,8},{9,10,11}},{{12,13,14},{15,16,17},{18,19,20},{21,22,23}}})\n"
                             "  %partition = u32[] partition-id()\n"
                             "  %replica = u32[] replica-id()\n"
                             "  %twice = u32[] add(%replica, %replica)\n"
                             "  %both = s32[] convert(%twice)\n"
                             "  %part = s32[1,2,3]{2,1,0} dynamic-slice(%table, %partition, %both, %zero), dynamic_slice_sizes={1,2,3}\n"
                             "  %flat = s32[2,3]{1,0} bitcast(%part)\n"
                             "  %turned = s32[3,2]{1,0} transpose(%flat), dimensions={1,0}\n"
                             "  %relaid = s32[3,2]{0,1} bitcast(%flat)\n"
                             "  %row = s32[3]{0} iota(), iota_dimension=0\n"
                             "  %column = s32[3,1]{0,1} bitcast(%row)\n"
                             "  %again = s32[3]{0} bitcast(%column)\n"
                             "  %odd = s32[2,1]{1,0} slice(%turned), slice={[0:3:2], [1:2]}\n"
                             "  %wide = s32[2,2]{1,0} pad(%odd, %zero), padding=0_0x1_0\n"
                             "  %spaced = s32[2,3]{1,0} pad(%wide, %zero), padding=0_0_0x0_0_1\n"
                             "  %corner = s32[1,1,1,1,1]{4,3,2,1,0} bitcast(%zero)\n"
                             "  %huge = s32[65536,65536,65536,65536,65536]{4,3,2,1,0} pad(%corner, %zero), padding=0_65535x0_65535x0_65535x0_65535x0_65535\n"
                             "  %fixed = s32[2,3]{1,0} broadcast(%row), dimensions={1}\n"
                             "  %columns = s32[2,3]{1,0} iota(), iota_dimension=0\n"
                             "  %joined = s32[2,4]{1,0} concatenate(%wide, %wide), dimensions={1}\n"
                             "  %line = s32[1,3]{1,0} bitcast(%row)\n"
                             "  %stacked = s32[3,3]{1,0} concatenate(%flat, %line), dimensions={0}\n"
                             "  %over = s32[2,3]{1,0} dynamic-update-slice(%flat, %odd, %zero, %partition)\n"
                             "  ROOT %r = s32[2,3]{1,0} add(%over, %columns)\n"
                             "}\n";

START_TEST(integers_of_a_device)
{
    static const struct {
        const char *name;
        unsigned by;
        size_t n;                  /* 0: not known */
        int64_t first[9], last[9]; /* on device 0 and on device 3 */
    } expected[] = {
        {"part", ECH_BY_DEVICE, 6, {0, 1, 2, 3, 4, 5}, {18, 19, 20, 21, 22, 23}},
        {"turned", ECH_BY_DEVICE, 6, {0, 3, 1, 4, 2, 5}, {18, 21, 19, 22, 20, 23}},
        {"relaid", 0, 0, {0}, {0}},
        {"again", 0, 3, {0, 1, 2}, {0, 1, 2}},
        {"odd", ECH_BY_DEVICE, 2, {3, 5}, {21, 23}},
        {"wide", ECH_BY_DEVICE, 4, {0, 3, 0, 5}, {0, 21, 0, 23}},
        {"spaced", ECH_BY_DEVICE, 6, {0, 0, 3, 0, 0, 5}, {0, 0, 21, 0, 0, 23}},
        {"corner", 0, 1, {0}, {0}},
        {"huge", 0, 0, {0}, {0}},
        {"fixed", 0, 6, {0, 1, 2, 0, 1, 2}, {0, 1, 2, 0, 1, 2}},
        {"columns", 0, 6, {0, 0, 0, 1, 1, 1}, {0, 0, 0, 1, 1, 1}},
        {"joined", ECH_BY_DEVICE, 8, {0, 3, 0, 3, 0, 5, 0, 5}, {0, 21, 0, 21, 0, 23, 0, 23}},
        {"stacked", ECH_BY_DEVICE, 9, {0, 1, 2, 3, 4, 5, 0, 1, 2}, {18, 19, 20, 21, 22, 23, 0, 1, 2}},
        {"over", ECH_BY_DEVICE, 6, {3, 1, 2, 5, 4, 5}, {18, 21, 20, 21, 23, 23}},
        {"r", ECH_BY_DEVICE, 6, {3, 1, 2, 6, 5, 6}, {18, 21, 20, 22, 24, 24}},
    };
    g_autoptr(EchProgram) program = ech_test_program(tables, "tpu-v5e");
    g_autoptr(EchIntegers) integers = ech_integers_new(program);
    ck_assert_ptr_null(ech_integers_of(integers, ech_test_instruction(program, "part"), NULL));
    static const uint32_t devices[] = {0, 3, 0};
    for (size_t d = 0; d < G_N_ELEMENTS(devices); d++) {
        ech_integers_set_device(integers, devices[d]);
        for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
            unsigned by = 0;
            const GArray *values = ech_integers_of(integers, ech_test_instruction(program, expected[i].name), &by);
            ck_assert_msg((values ? values->len : 0) == expected[i].n && by == expected[i].by, "%s: %u numbers, %u", expected[i].name, values ? values->len : 0,
                          by);
            const int64_t *wanted = devices[d] == 0 ? expected[i].first : expected[i].last;
            for (size_t k = 0; k < expected[i].n; k++)
                ck_assert_msg(g_array_index(values, int64_t, k) == wanted[k], "%s on device %u: number %zu is %" G_GINT64_FORMAT, expected[i].name, devices[d],
                              k, g_array_index(values, int64_t, k));
        }
    }
}
END_TEST

static const char branches[] = "HloModule branches, is_scheduled=true\n\n"
                               "%small (a: f32[1024]) -> f32[1024] {\n"
                               "  %a = f32[1024]{0} parameter(0)\n"
                               "  ROOT %small_end = f32[1024]{0} negate(%a)\n"
                               "}\n\n"
                               "%large (b: f32[1024]) -> f32[1024] {\n"
                               "  %b = f32[1024]{0} parameter(0)\n"
                               "  %c = f32[1024]{0} negate(%b)\n"
                               "  ROOT %large_end = f32[1024]{0} multiply(%c, %c)\n"
                               "}\n\n"
                               "ENTRY %main (which: s32[], x: f32[1024]) -> f32[1024] {\n"
                               "  %which = s32[] parameter(0)\n"
                               "  %x = f32[1024]{0} parameter(1)\n"
                               "  ROOT %r = f32[1024]{0} conditional(%which, %x, %x), branch_computations={%small, %large}\n"
                               "}\n";

/* Without what it is called with, the branch of more work. */
START_TEST(conditionals_go_by_arguments)
{
    static const struct {
        const char *given, *ran;
    } cases[] = {{NULL, "large_end"}, {"0", "small_end"}, {"1", "large_end"}, {"7", "large_end"}, {"-1", "large_end"}};
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        g_autoptr(EchProgram) program = ech_test_program(branches, "tpu-v5e");
        g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
        if (cases[c].given) {
            g_ptr_array_add(texts, g_strdup(cases[c].given));
            ck_assert(ech_program_set_arguments(program, texts));
        }
        g_autoptr(EchTrace) trace = lower(program);
        unsigned small = 0, large = 0;
        for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
            const EchOp *op = &ech_trace_ops(trace)[i];
            const char *name = op->kind == ECH_OP_KERNEL ? ech_trace_string(trace, op->name) : "";
            small += strcmp(name, "small_end") == 0;
            large += strcmp(name, "large_end") == 0;
        }
        ck_assert_msg(small + large == 1 && (small == 1) == (strcmp(cases[c].ran, "small_end") == 0), "given %s: %u small, %u large",
                      cases[c].given ? cases[c].given : "nothing", small, large);
    }
}
END_TEST

static const char chain[] = "HloModule chain, is_scheduled=true\n\n"
                            "ENTRY %main (p: f32[1024]) -> f32[1024] {\n"
                            "  %p = f32[1024]{0} parameter(0)\n"
                            "  %a = f32[1024]{0} add(%p, %p)\n"
                            "  %b = f32[1024]{0} multiply(%a, %p)\n"
                            "  %c = f32[1024]{0} transpose(%b), dimensions={0}\n"
                            "  ROOT %d = f32[1024]{0} negate(%c)\n"
                            "}\n";

START_TEST(in_place_operations_take_their_operands_place)
{
    g_autoptr(EchProgram) program = ech_test_program(chain, "h100-sxm");
    assign(program);
    EchMemoryAnalysis m = ech_program_memory_analysis(program);
    ck_assert_uint_eq(m.argument, 4096);
    ck_assert_uint_eq(m.output, 4096);
    /* a and b lie in one place; c in the output's, which d takes over: one temporary. */
    ck_assert_uint_eq(m.temp, 4096);
    ck_assert_uint_eq(m.peak, 3 * 4096);
    g_autoptr(EchTrace) trace = lower(program);
    ck_assert_uint_eq(peak_of(trace), 3 * 4096);
}
END_TEST

/* What a fusion on a GPU may write in the place of what it reads: XLA's rule (xla/service/gpu/alias_info.cc, FusionCanShareBufferHint), and for sorts what
 * compiles show. May the result at @position lie in the place of @operand? */
#define FUSED(body)                                                                                                                                            \
    "%f (q: f32[64,128], r: f32[64,128], i: s32[]) -> f32[64,128] {\n  %q = f32[64,128]{1,0} parameter(0)\n  %r = f32[64,128]{1,0} parameter(1)\n"             \
    "  %i = s32[] parameter(2)\n  %z = s32[] constant(0)\n" body "}\n\n"
#define SORTED "(f32[64,128]{1,0}, f32[64,128]{1,0})"
static const struct {
    const char *body, *result;
    uint32_t position;
    const char *operand;
    bool may;
} fused[] = {
    {FUSED("  ROOT %o = f32[64,128]{1,0} add(%q, %r)\n"), "f32[64,128]{1,0}", 0, "a", true},
    {FUSED("  %n = f32[64,128]{1,0} negate(%q)\n  ROOT %o = f32[64,128]{1,0} reverse(%n), dimensions={0}\n"), "f32[64,128]{1,0}", 0, "a", false},
    /* A slice of the array that is changed: the very one that is changed, or a lone element. */
    {FUSED("  %n = f32[64,128]{1,0} negate(%q)\n  %s = f32[1,128]{1,0} dynamic-slice(%n, %i, %z), dynamic_slice_sizes={1,128}\n"
           "  %e = f32[1,128]{1,0} exponential(%s)\n  ROOT %o = f32[64,128]{1,0} dynamic-update-slice(%n, %e, %i, %z)\n"),
     "f32[64,128]{1,0}", 0, "a", true},
    {FUSED("  %n = f32[64,128]{1,0} negate(%q)\n  %s = f32[1,128]{1,0} dynamic-slice(%n, %z, %z), dynamic_slice_sizes={1,128}\n"
           "  %e = f32[1,128]{1,0} exponential(%s)\n  ROOT %o = f32[64,128]{1,0} dynamic-update-slice(%n, %e, %i, %z)\n"),
     "f32[64,128]{1,0}", 0, "a", false},
    {FUSED("  %n = f32[64,128]{1,0} negate(%q)\n  %s = f32[1,1]{1,0} dynamic-slice(%n, %z, %z), dynamic_slice_sizes={1,1}\n"
           "  %e = f32[1,1]{1,0} exponential(%s)\n  ROOT %o = f32[64,128]{1,0} dynamic-update-slice(%n, %e, %i, %z)\n"),
     "f32[64,128]{1,0}", 0, "a", true},
    {FUSED("  %n = f32[64,128]{1,0} negate(%q)\n  %s = f32[64,1]{1,0} dynamic-slice(%n, %z, %i), dynamic_slice_sizes={64,1}\n"
           "  %b = f32[64]{0} bitcast(%s)\n  ROOT %o = f32[64,128]{1,0} broadcast(%b), dimensions={0}\n"),
     "f32[64,128]{1,0}", 0, "a", false},
    /* Operand k of a sort is result k, if nothing else reads it. */
    {FUSED("  ROOT %o = " SORTED " sort(%q, %r), dimensions={1}, to_apply=%less\n"), SORTED, 1, "a", true},
    {FUSED("  ROOT %o = " SORTED " sort(%q, %r), dimensions={1}, to_apply=%less\n"), SORTED, 1, "b", false},
    {FUSED("  ROOT %o = " SORTED " sort(%q, %r), dimensions={1}, to_apply=%less\n"), SORTED, 2, "b", true},
    {FUSED("  %n = f32[64,128]{1,0} negate(%q)\n  ROOT %o = " SORTED " sort(%q, %n), dimensions={1}, to_apply=%less\n"), SORTED, 1, "a", false},
};

START_TEST(fusions_in_their_operands_place)
{
    g_autofree char *text =
        g_strdup_printf("HloModule m, is_scheduled=true\n\n"
                        "%%less (x: f32[], y: f32[], v: f32[], w: f32[]) -> pred[] {\n  %%x = f32[] parameter(0)\n  %%y = f32[] parameter(1)\n"
                        "  %%v = f32[] parameter(2)\n  %%w = f32[] parameter(3)\n  ROOT %%l = pred[] compare(%%x, %%y), direction=LT\n}\n\n"
                        "%sENTRY %%main (p: f32[64,128], j: s32[]) -> %s {\n  %%p = f32[64,128]{1,0} parameter(0)\n  %%j = s32[] parameter(1)\n"
                        "  %%a = f32[64,128]{1,0} negate(%%p)\n  %%b = f32[64,128]{1,0} exponential(%%p)\n"
                        "  ROOT %%u = %s fusion(%%a, %%b, %%j), kind=kLoop, calls=%%f\n}\n",
                        fused[_i].body, fused[_i].result, fused[_i].result);
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    g_autofree uint32_t *n_users = g_new0(uint32_t, program->n_instructions);
    for (size_t k = 0; k < program->n_operands; k++)
        n_users[program->operands[k]]++;
    bool may =
        ech_program_may_share(program, ech_test_instruction(program, "u"), fused[_i].position, ech_test_instruction(program, fused[_i].operand), n_users);
    ck_assert_msg(may == fused[_i].may, "%s", fused[_i].body);
}
END_TEST

static const char fetched[] = "HloModule fetched, is_scheduled=true\n\n"
                              "%double (q: f32[8,1024]) -> f32[8,1024] {\n"
                              "  %q = f32[8,1024]{1,0:T(8,128)S(1)} parameter(0)\n"
                              "  ROOT %sum = f32[8,1024]{1,0:T(8,128)S(1)} add(%q, %q)\n"
                              "}\n\n"
                              "ENTRY %main (p: f32[8,1024]) -> f32[8,1024] {\n"
                              "  %p = f32[8,1024]{1,0:T(8,128)} parameter(0)\n"
                              "  %in = (f32[8,1024]{1,0:T(8,128)S(1)}, f32[8,1024]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%p)\n"
                              "  %there = f32[8,1024]{1,0:T(8,128)S(1)} copy-done(%in)\n"
                              "  %twice = f32[8,1024]{1,0:T(8,128)S(1)} fusion(%there), kind=kLoop, calls=%double, "
                              "backend_config={\"aliasing_operands\":{\"lists\":[{\"indices\":[\"0\",\"1\"]}]}}\n"
                              "  %out = (f32[8,1024]{1,0:T(8,128)}, f32[8,1024]{1,0:T(8,128)S(1)}, u32[]{:S(2)}) copy-start(%twice)\n"
                              "  ROOT %done = f32[8,1024]{1,0:T(8,128)} copy-done(%out)\n"
                              "}\n";

/* On chip, a result lies where its fetched operand was: one array, not two. */
START_TEST(fetched_operands_hand_their_place_on)
{
    g_autoptr(EchProgram) program = ech_test_program(fetched, "tpu-v5e");
    assign(program);
    ck_assert_uint_eq(ech_program_space_bytes(program, ECH_SPACE_VECTOR), 8 * 1024 * 4);
}
END_TEST

/* What a kernel announces decides, an empty list too; without any, arithmetic takes its operand's place. */
static const struct {
    const char *config;
    bool may;
} announced[] = {
    {"", true},
    {", backend_config={\"flag_configs\":[]}", true},
    {", backend_config={\"aliasing_operands\":{\"lists\":[]}}", false},
    {", backend_config={\"aliasing_operands\":{\"lists\":[{\"indices\":[\"0\",\"1\"]}]}}", false},
    {", backend_config={\"aliasing_operands\":{\"lists\":[{\"indices\":[\"0\",\"2\"]}]}}", true},
};

START_TEST(arithmetic_takes_a_place_that_is_announced)
{
    g_autofree char *text = g_strdup_printf("HloModule m, is_scheduled=true\n\n"
                                            "ENTRY %%main (p: f32[8,128], q: f32[8,128]) -> f32[8,128] {\n"
                                            "  %%p = f32[8,128]{1,0:T(8,128)} parameter(0)\n  %%q = f32[8,128]{1,0:T(8,128)} parameter(1)\n"
                                            "  %%a = f32[8,128]{1,0:T(8,128)} negate(%%p)\n"
                                            "  ROOT %%u = f32[8,128]{1,0:T(8,128)} multiply(%%a, %%q)%s\n}\n",
                                            announced[_i].config);
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    g_autofree uint32_t *n_users = g_new0(uint32_t, program->n_instructions);
    for (size_t k = 0; k < program->n_operands; k++)
        n_users[program->operands[k]]++;
    ck_assert_int_eq(ech_program_may_share(program, ech_test_instruction(program, "u"), 0, ech_test_instruction(program, "a"), n_users), announced[_i].may);
}
END_TEST

/* Compilers filled HBM otherwise before: @result of rows of 4 KiB at the end, behind temporaries of 4, 4 and 8 MiB, of which the first is gone before the last.
 */
static const struct {
    const char *config;
    unsigned rows;
    EchBytes temp; /* MiB */
} filled[] = {
    {"", 8, 16},
    {", backend_config={\"window_config\":{\"buffering_level\":\"2\"}}", 8, 16},
    {", backend_config={\"window_config\":{\"buffering_level\":\"2\"}}", 1024, 16},
    {", backend_config={\"window_config\":{\"estimated_scoped_vmem_bytes\":\"0\"}}", 8, 16},
    {", backend_config={\"window_config\":{\"estimated_scoped_vmem_bytes\":\"0\"}}", 1024, 12},
    {", backend_config={\"window_config\":{\"estimated_cycles\":\"9\"}}", 8, 12},
    {", backend_config={\"window_config\":{\"estimated_cycles\":\"9\"}}", 1024, 12},
};

START_TEST(compilers_fill_memory_as_in_their_day)
{
#define MIB "f32[1024,1024]{1,0:T(8,128)}"
#define TWICE "f32[2048,1024]{1,0:T(8,128)}"
    g_autofree char *text =
        g_strdup_printf("HloModule m, is_scheduled=true\n\n"
                        "%%one (q: f32[1024,1024]) -> f32[1024,1024] {\n  %%q = " MIB " parameter(0)\n  ROOT %%n = " MIB " negate(%%q)\n}\n\n"
                        "%%two (r: f32[1024,1024]) -> f32[2048,1024] {\n  %%r = " MIB " parameter(0)\n"
                        "  ROOT %%t = " TWICE " concatenate(%%r, %%r), dimensions={0}\n}\n\n"
                        "%%last (x: f32[1024,1024], y: f32[2048,1024]) -> f32[%u,1024] {\n  %%x = " MIB " parameter(0)\n"
                        "  %%y = " TWICE " parameter(1)\n  ROOT %%s = f32[%u,1024]{1,0:T(8,128)} slice(%%x), slice={[0:%u], [0:1024]}\n}\n\n"
                        "ENTRY %%main (p: f32[1024,1024]) -> f32[%u,1024] {\n  %%p = " MIB " parameter(0)\n"
                        "  %%a = " MIB " fusion(%%p), kind=kLoop, calls=%%one\n  %%b = " MIB " fusion(%%a), kind=kLoop, calls=%%one\n"
                        "  %%c = " TWICE " fusion(%%p), kind=kLoop, calls=%%two\n"
                        "  ROOT %%o = f32[%u,1024]{1,0:T(8,128)} fusion(%%b, %%c), kind=kLoop, calls=%%last%s\n}\n",
                        filled[_i].rows, filled[_i].rows, filled[_i].rows, filled[_i].rows, filled[_i].rows, filled[_i].config);
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    assign(program);
    ck_assert_uint_eq(ech_program_memory_analysis(program).temp, filled[_i].temp << 20);
}
END_TEST

/* A result takes the place of an operand that ends there, but not of what was made asynchronously: that belongs to who made it until the async-done. */
static const struct {
    const char *made;
    EchBytes least, most;
} asynchronous[] = {
    {"  %d = f32[1024]{0} exponential(%p)\n", 0, 0},
    {"  %s = ((f32[1024]{0}), f32[1024]{0}, u32[]) async-start(%p), calls=%run\n  %d = f32[1024]{0} async-done(%s)\n", 4096, 8192},
};

START_TEST(results_leave_what_is_made_asynchronously)
{
    g_autofree char *text =
        g_strdup_printf("HloModule m, is_scheduled=true\n\n"
                        "%%run (q: f32[1024]) -> f32[1024] {\n  %%q = f32[1024]{0} parameter(0)\n  ROOT %%w = f32[1024]{0} exponential(%%q)\n}\n\n"
                        "ENTRY %%main (p: f32[1024]) -> f32[1024] {\n  %%p = f32[1024]{0} parameter(0)\n%s"
                        "  ROOT %%r = f32[1024]{0} add(%%d, %%p)\n}\n",
                        asynchronous[_i].made);
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    EchBytes temp = ech_program_memory_analysis(program).temp;
    ck_assert_uint_ge(temp, asynchronous[_i].least);
    ck_assert_uint_le(temp, asynchronous[_i].most);
}
END_TEST

/* What starts and ends asynchronously has tables of its own for its tuples, as has what it calls; their arrays are the same. */
START_TEST(asynchronous_tuples_have_tables_of_their_own)
{
    static const char text[] = "HloModule m, is_scheduled=true\n\n"
                               "%run (q: f32[1024]) -> (f32[1024], f32[1024]) {\n  %q = f32[1024]{0:T(1024)S(5)} parameter(0)\n"
                               "  ROOT %w = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}) custom-call(%q), custom_call_target=\"HostExecute\"\n}\n\n"
                               "ENTRY %main (p: f32[1024]) -> f32[1024] {\n  %p = f32[1024]{0:T(1024)S(5)} parameter(0)\n"
                               "  %s = ((f32[1024]{0:T(1024)S(5)}), (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}), u32[]{:S(2)}) async-start(%p), "
                               "async_execution_thread=\"host\", calls=%run\n"
                               "  %d = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}) async-done(%s)\n"
                               "  %a = f32[1024]{0:T(1024)} get-tuple-element(%d), index=0\n  %b = f32[1024]{0:T(1024)} get-tuple-element(%d), index=1\n"
                               "  ROOT %r = f32[1024]{0:T(1024)} add(%a, %b)\n}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    unsigned n_tables = 0, n_arrays = 0;
    for (size_t v = 0; v < program->n_values; v++)
        *(program->buffers[program->values[v].buffer].is_tuple ? &n_tables : &n_arrays) += 1;
    ck_assert_uint_eq(n_tables, 5); /* The start's, its operands', its results'; the end's; what runs. */
    ck_assert_uint_eq(n_arrays, 5); /* The argument, both results, the semaphore, the sum. */
}
END_TEST

/* A fusion around a scatter of two arrays writes over both, whether it ends in the scatter or in a tuple of its results. */
static const char *const scattered[] = {"ROOT ", ""};

START_TEST(scatters_of_several_write_over_each)
{
    g_autofree char *text = g_strdup_printf(
        "HloModule m, is_scheduled=true\n\n"
        "%%both (a: f32[], b: s32[], c: f32[], d: s32[]) -> (f32[], s32[]) {\n  %%a = f32[] parameter(0)\n  %%b = s32[] parameter(1)\n"
        "  %%c = f32[] parameter(2)\n  %%d = s32[] parameter(3)\n  ROOT %%e = (f32[], s32[]) tuple(%%c, %%d)\n}\n\n"
        "%%work (i: s32[8,1], u: f32[8], v: s32[8], x: f32[1024], y: s32[1024]) -> (f32[1024], s32[1024]) {\n"
        "  %%i = s32[8,1]{1,0} parameter(0)\n  %%u = f32[8]{0} parameter(1)\n  %%v = s32[8]{0} parameter(2)\n"
        "  %%x = f32[1024]{0} parameter(3)\n  %%y = s32[1024]{0} parameter(4)\n"
        "  %s%%t = (f32[1024]{0}, s32[1024]{0}) scatter(%%x, %%y, %%i, %%u, %%v), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%%both\n%s}\n\n"
        "ENTRY %%main (p: f32[1024], q: s32[1024], i: s32[8,1], u: f32[8], v: s32[8]) -> (f32[1024], s32[1024]) {\n"
        "  %%p = f32[1024]{0} parameter(0)\n  %%q = s32[1024]{0} parameter(1)\n  %%i = s32[8,1]{1,0} parameter(2)\n  %%u = f32[8]{0} parameter(3)\n"
        "  %%v = s32[8]{0} parameter(4)\n  %%first = f32[1024]{0} negate(%%p)\n  %%second = s32[1024]{0} negate(%%q)\n"
        "  ROOT %%f = (f32[1024]{0}, s32[1024]{0}) fusion(%%i, %%u, %%v, %%first, %%second), kind=kCustom, calls=%%work\n}\n",
        scattered[_i],
        _i == 0 ? ""
                : "  %g = f32[1024]{0} get-tuple-element(%t), index=0\n  %h = s32[1024]{0} get-tuple-element(%t), index=1\n"
                  "  ROOT %r = (f32[1024]{0}, s32[1024]{0}) tuple(%g, %h)\n");
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    unsigned found = 0;
    for (size_t b = 0; b < program->n_buffers; b++) {
        const EchValueBuffer *buffer = &program->buffers[b];
        bool table = false;
        for (uint32_t k = 0; k < buffer->n_values; k++) {
            const EchValue *value = &program->values[program->buffer_values[buffer->first_value + k]];
            table |= program->instructions[value->defined.instruction].opcode == ECH_HLO_FUSION && value->defined.position == 0;
        }
        found += buffer->n_values == 2;
        ck_assert(!table || buffer->n_values == 1);
    }
    ck_assert_uint_eq(found, 2);
}
END_TEST

#define LOOP(config)                                                                                                                                           \
    "HloModule loop, is_scheduled=true\n\n"                                                                                                                    \
    "%cond (t: (s32[], f32[256])) -> pred[] {\n"                                                                                                               \
    "  %t = (s32[], f32[256]{0}) parameter(0)\n"                                                                                                               \
    "  %i = s32[] get-tuple-element(%t), index=0\n"                                                                                                            \
    "  %n = s32[] constant(17)\n"                                                                                                                              \
    "  ROOT %lt = pred[] compare(%i, %n), direction=LT\n"                                                                                                      \
    "}\n\n"                                                                                                                                                    \
    "%body (u: (s32[], f32[256])) -> (s32[], f32[256]) {\n"                                                                                                    \
    "  %u = (s32[], f32[256]{0}) parameter(0)\n"                                                                                                               \
    "  %j = s32[] get-tuple-element(%u), index=0\n"                                                                                                            \
    "  %x = f32[256]{0} get-tuple-element(%u), index=1\n"                                                                                                      \
    "  %two = s32[] constant(2)\n"                                                                                                                             \
    "  %k = s32[] add(%j, %two)\n"                                                                                                                             \
    "  %y = f32[256]{0} sort(%x), dimensions={0}, to_apply=%less\n"                                                                                            \
    "  ROOT %v = (s32[], f32[256]{0}) tuple(%k, %y)\n"                                                                                                         \
    "}\n\n"                                                                                                                                                    \
    "%less (a: f32[], b: f32[]) -> pred[] {\n"                                                                                                                 \
    "  %a = f32[] parameter(0)\n"                                                                                                                              \
    "  %b = f32[] parameter(1)\n"                                                                                                                              \
    "  ROOT %l = pred[] compare(%a, %b), direction=LT\n"                                                                                                       \
    "}\n\n"                                                                                                                                                    \
    "ENTRY %main (p: f32[256], first: s32[]) -> f32[256] {\n"                                                                                                  \
    "  %p = f32[256]{0} parameter(0)\n"                                                                                                                        \
    "  %first = s32[] parameter(1)\n"                                                                                                                          \
    "  %c = f32[256]{0} copy(%p)\n"                                                                                                                            \
    "  %zero = s32[] constant(3)\n"                                                                                                                            \
    "  %s = (s32[], f32[256]{0}) tuple(%zero, %c)\n"                                                                                                           \
    "  %w = (s32[], f32[256]{0}) while(%s), condition=%cond, body=%body" config "\n"                                                                           \
    "  ROOT %r = f32[256]{0} get-tuple-element(%w), index=1\n"                                                                                                 \
    "}\n"

START_TEST(trip_counts)
{
    uint64_t trips = 0;
    EchOrigin origin = ECH_ABSENT;
    /* 3, 5, .. 15: seven times. */
    g_autoptr(EchProgram) inferred = ech_test_program(LOOP(""), NULL);
    ck_assert(ech_program_trips(inferred, ech_test_instruction(inferred, "w"), &trips, &origin));
    ck_assert_uint_eq(trips, 7);
    ck_assert_int_eq(origin, ECH_INFERRED);
    g_autoptr(EchProgram) known = ech_test_program(LOOP(", backend_config={\"known_trip_count\":{\"n\":\"12\"}}"), NULL);
    ck_assert(ech_program_trips(known, ech_test_instruction(known, "w"), &trips, &origin));
    ck_assert_uint_eq(trips, 12);
    ck_assert_int_eq(origin, ECH_KNOWN);
    /* XLA counts such by one, and compares what it makes of the count: 3, 0, -3 .. -18 are not below -20. */
    g_auto(GStrv) parts = g_strsplit(LOOP(""), "  %n = s32[] constant(17)\n  ROOT %lt = pred[] compare(%i, %n), direction=LT\n", 2);
    g_autofree char *counted = g_strjoinv("  %m = s32[] constant(-3)\n  %o = s32[] multiply(%m, %i)\n  %q = s32[] constant(12)\n  %l = s32[] add(%o, %q)\n"
                                          "  %n = s32[] constant(-20)\n  ROOT %lt = pred[] compare(%l, %n), direction=GE\n",
                                          parts);
    g_auto(GStrv) steps = g_strsplit(counted, "%two = s32[] constant(2)", 2);
    g_autofree char *by_one = g_strjoinv("%two = s32[] constant(1)", steps);
    g_autoptr(EchProgram) scaled = ech_test_program(by_one, NULL);
    ck_assert(ech_program_trips(scaled, ech_test_instruction(scaled, "w"), &trips, &origin));
    ck_assert_uint_eq(trips, 8);
    /* What is left: 14, 12 .. 2. */
    g_autofree char *rest = g_strjoinv(
        "  %m = s32[] constant(17)\n  %l = s32[] subtract(%m, %i)\n  %n = s32[] constant(0)\n  ROOT %lt = pred[] compare(%l, %n), direction=GT\n", parts);
    g_autoptr(EchProgram) left = ech_test_program(rest, NULL);
    ck_assert(ech_program_trips(left, ech_test_instruction(left, "w"), &trips, &origin));
    ck_assert_uint_eq(trips, 7);
    /* A start that only the caller knows, unless what it gave was noted. */
    g_autofree char *text = g_strdup(LOOP(""));
    char *start = strstr(text, "tuple(%zero, %c)");
    memcpy(start, "tuple(%first,%c)", 16);
    g_autoptr(EchProgram) unknown = ech_test_program(text, NULL);
    ck_assert(!ech_program_trips(unknown, ech_test_instruction(unknown, "w"), &trips, &origin));
    EchLowerOptions options = {.loop_trips = 5};
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = ech_program_lower(unknown, NULL, &options, diag, NULL);
    bool seen = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind == ECH_OP_LOOP) {
            ck_assert_uint_eq(op->bytes, 5);
            ck_assert_int_eq(op->bytes_origin, ECH_ASSUMED);
            seen = true;
        }
    }
    ck_assert(seen);
    ck_assert_ptr_nonnull(ech_diag_remarks(diag)[0]);
    char given[] = "5";
    g_autoptr(GPtrArray) texts = g_ptr_array_new();
    g_ptr_array_add(texts, NULL);
    g_ptr_array_add(texts, given);
    ck_assert(!ech_program_trips_given(unknown, ech_test_instruction(unknown, "w")));
    ck_assert(ech_program_set_arguments(unknown, texts));
    ck_assert(ech_program_trips(unknown, ech_test_instruction(unknown, "w"), &trips, &origin));
    ck_assert_uint_eq(trips, 6);
    ck_assert(ech_program_trips_given(unknown, ech_test_instruction(unknown, "w")) && !ech_program_trips_given(left, ech_test_instruction(left, "w")));
}
END_TEST

/* On sparse cores a gather takes a piece of memory for each index, however large the table; a scatter writes such pieces. */
static const char sparse[] =
    "HloModule sparse, is_scheduled=true\n\n"
    "%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
    "%pick (t: f32[1024,1024], i: s32[50,2]) -> f32[50] {\n"
    "  %t = f32[1024,1024]{1,0} parameter(0)\n  %i = s32[50,2]{1,0} parameter(1)\n"
    "  ROOT %g = f32[50]{0} gather(%t, %i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, "
    "slice_sizes={1,1}\n}\n\n"
    "%called (t: f32[1024,1024], i: s32[50,2]) -> f32[50] {\n"
    "  %t.1 = f32[1024,1024]{1,0} parameter(0)\n  %i.1 = s32[50,2]{1,0} parameter(1)\n"
    "  ROOT %c = f32[50]{0} call(%t.1, %i.1), to_apply=%pick\n}\n\n"
    "%put (t: f32[1024,1024], i: s32[50,2], u: f32[50]) -> f32[1024,1024] {\n"
    "  %t.2 = f32[1024,1024]{1,0} parameter(0)\n  %i.2 = s32[50,2]{1,0} parameter(1)\n  %u.2 = f32[50]{0} parameter(2)\n"
    "  ROOT %s = f32[1024,1024]{1,0} scatter(%t.2, %i.2, %u.2), update_window_dims={}, inserted_window_dims={0,1}, "
    "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=%max\n}\n\n"
    "ENTRY %main (x: f32[1024,1024], j: s32[50,2]) -> f32[1024,1024] {\n"
    "  %x = f32[1024,1024]{1,0} parameter(0)\n  %j = s32[50,2]{1,0} parameter(1)\n"
    "  %gather = ((f32[1024,1024]{1,0}, s32[50,2]{1,0}), f32[50]{0}, u32[]) async-start(%x, %j), "
    "async_execution_thread=\"sparsecore\", calls=%called\n"
    "  %gathered = f32[50]{0} async-done(%gather)\n"
    "  %scatter = ((f32[1024,1024]{1,0}, s32[50,2]{1,0}, f32[50]{0}), f32[1024,1024]{1,0}, u32[]) async-start(%x, %j, %gathered), "
    "async_execution_thread=\"sparsecore\", calls=%put\n"
    "  ROOT %scattered = f32[1024,1024]{1,0} async-done(%scatter)\n}\n";

START_TEST(sparse_cores_take_pieces)
{
    g_autoptr(EchProgram) program = ech_test_program(sparse, "tpu-v6e");
    g_autoptr(EchTrace) trace = lower(program);
    EchBytes read = 0, written = 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        for (uint32_t u = op->first_use; op->kind == ECH_OP_KERNEL && u < op->first_use + op->n_uses; u++)
            *(ech_trace_uses(trace)[u].access == ECH_READ ? &read : &written) += ech_trace_uses(trace)[u].bytes;
    }
    EchBytes pieces = 50 * 64, indices = 50 * 2 * 4, row = 50 * 4;
    ck_assert_uint_eq(read, pieces + indices + pieces + indices + row);
    ck_assert_uint_eq(written, row + pieces);
}
END_TEST

/* What is counted for less than it is, or for more, is said. */
static const char limits[] =
    "HloModule limits, is_scheduled=true\n\n"
    "%less (n: (s32[], f32[8,128])) -> pred[] {\n  %n = (s32[], f32[8,128]{1,0}) parameter(0)\n"
    "  %at = s32[] get-tuple-element(%n), index=0\n  %end = s32[] constant(9)\n  ROOT %l = pred[] compare(%at, %end), direction=LT\n}\n\n"
    "%one (a: f32[8,128]) -> f32[8,128] {\n  %a = f32[8,128]{1,0} parameter(0)\n  ROOT %na = f32[8,128]{1,0} negate(%a)\n}\n\n"
    "%two (b: f32[8,128]) -> f32[8,128] {\n  %b = f32[8,128]{1,0} parameter(0)\n  ROOT %nb = f32[8,128]{1,0} exponential(%b)\n}\n\n"
    "%body (c: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {\n  %c = (s32[], f32[8,128]{1,0}) parameter(0)\n"
    "  %i = s32[] get-tuple-element(%c), index=0\n  %y = f32[8,128]{1,0} get-tuple-element(%c), index=1\n  %by = s32[] constant(1)\n"
    "  %j = s32[] add(%i, %by)\n  %w = s32[] and(%j, %by)\n"
    "  %z = f32[8,128]{1,0} conditional(%w, %y, %y), branch_computations={%one, %two}\n"
    "  ROOT %t = (s32[], f32[8,128]{1,0}) tuple(%j, %z)\n}\n\n"
    "ENTRY %main (x: f32[8,128]) -> f32[8,128] {\n  %x = f32[8,128]{1,0} parameter(0)\n"
    "  %f = f32[8,128]{1,0} custom-call(%x), custom_call_target=\"Cholesky\"\n  %zero = s32[] constant(0)\n"
    "  %s = (s32[], f32[8,128]{1,0}) tuple(%zero, %f)\n  %v = (s32[], f32[8,128]{1,0}) while(%s), condition=%less, body=%body\n"
    "  ROOT %r = f32[8,128]{1,0} get-tuple-element(%v), index=1\n}\n";

START_TEST(limits_are_said)
{
    g_autoptr(EchProgram) program = ech_test_program(limits, "tpu-v5e");
    EchLowerOptions options = {.loop_trips = 1};
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = ech_program_lower(program, NULL, &options, diag, NULL);
    ck_assert_ptr_nonnull(trace);
    g_autofree char *said = g_strjoinv("\n", (char **)(uintptr_t)ech_diag_remarks(diag));
    ck_assert_msg(strstr(said, "conditional z, in a loop") && strstr(said, "each of 9 times"), "%s", said);
    ck_assert_msg(strstr(said, "1 call of the TPU's own library (Cholesky: f)"), "%s", said);
}
END_TEST

/* What a reduction over windows combines: a pool each of its windows; where all of them hold the whole row, the row once; a running sum by doubling; and of
 * windows of two dimensions, one of each kind. */
START_TEST(windows_are_counted_as_they_are_reduced)
{
    static const char text[] = "HloModule m, is_scheduled=true\n\n%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
                               "  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"
                               "ENTRY %main (p: f32[64,128]) -> f32[64,128] {\n  %p = f32[64,128]{1,0} parameter(0)\n  %z = f32[] constant(0)\n"
                               "  %pool = f32[64,64]{1,0} reduce-window(%p, %z), window={size=1x2 stride=1x2}, to_apply=%max\n"
                               "  %near = f32[64,126]{1,0} reduce-window(%p, %z), window={size=1x3}, to_apply=%max\n"
                               "  %row = f32[64,128]{1,0} reduce-window(%p, %z), window={size=1x255 pad=0_0x127_127}, to_apply=%max\n"
                               "  %sum = f32[64,128]{1,0} reduce-window(%p, %z), window={size=1x128 pad=0_0x127_0}, to_apply=%max\n"
                               "  %both = f32[32,128]{1,0} reduce-window(%p, %z), window={size=2x255 stride=2x1 pad=0_0x127_127}, to_apply=%max\n"
                               "  ROOT %r = f32[64,128]{1,0} add(%row, %sum)\n}\n";
    static const struct {
        const char *name;
        uint64_t steps;
    } cases[] = {{"pool", 64 * 64}, {"near", UINT64_C(64) * 126 * 2}, {"row", 64 * 127}, {"sum", UINT64_C(64) * 128 * 14}, {"both", 32 * 255}};
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        ck_assert_msg(ech_program_work(program, ech_test_instruction(program, cases[i].name)).vector == cases[i].steps, "%s: %" G_GUINT64_FORMAT, cases[i].name,
                      ech_program_work(program, ech_test_instruction(program, cases[i].name)).vector);
}
END_TEST

/* The value at element @index of what an instruction called @name makes. */
static EchId element_of(const EchProgram *p, const char *name, uint32_t index)
{
    EchId i = ech_test_instruction(p, name);
    return ech_program_value(p, i, ech_program_member_position(p, p->instructions[i].shape, index));
}

/* Both branches hand {0} back as they got it, and the one that computes makes {1} anew. */
START_TEST(what_all_branches_hand_back_is_what_they_got)
{
    static const char text[] = "HloModule merged, is_scheduled=true\n\n"
                               "%keep (a: (f32[1024], f32[1024])) -> (f32[1024], f32[1024]) {\n"
                               "  %a = (f32[1024]{0}, f32[1024]{0}) parameter(0)\n"
                               "  %a0 = f32[1024]{0} get-tuple-element(%a), index=0\n"
                               "  %a1 = f32[1024]{0} get-tuple-element(%a), index=1\n"
                               "  ROOT %at = (f32[1024]{0}, f32[1024]{0}) tuple(%a0, %a1)\n"
                               "}\n\n"
                               "%make (b: f32[1024]) -> (f32[1024], f32[1024]) {\n"
                               "  %b = f32[1024]{0} parameter(0)\n"
                               "  %b1 = f32[1024]{0} negate(%b)\n"
                               "  ROOT %bt = (f32[1024]{0}, f32[1024]{0}) tuple(%b, %b1)\n"
                               "}\n\n"
                               "ENTRY %main (p: f32[1024], q: pred[]) -> f32[1024] {\n"
                               "  %p = f32[1024]{0} parameter(0)\n"
                               "  %q = pred[] parameter(1)\n"
                               "  %x = f32[1024]{0} negate(%p)\n"
                               "  %y = f32[1024]{0} negate(%x)\n"
                               "  %t = (f32[1024]{0}, f32[1024]{0}) tuple(%x, %y)\n"
                               "  %c = (f32[1024]{0}, f32[1024]{0}) conditional(%q, %t, %x), true_computation=%keep, false_computation=%make\n"
                               "  %c0 = f32[1024]{0} get-tuple-element(%c), index=0\n"
                               "  %c1 = f32[1024]{0} get-tuple-element(%c), index=1\n"
                               "  ROOT %r = f32[1024]{0} add(%c0, %c1)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    ck_assert_uint_eq(element_of(program, "c", 0), ech_program_value(program, ech_test_instruction(program, "x"), 0));
    EchId made = element_of(program, "c", 1);
    ck_assert(program->values[made].is_phi && program->values[made].defined.instruction == ech_test_instruction(program, "c"));
}
END_TEST

/* A loop of two elements, and those within it: they hand {1} on, the outermost negates it. */
static void append_loop(GString *text, unsigned level, unsigned deepest)
{
    static const char state[] = "(s32[], f32[1024]{0})";
    if (level < deepest)
        append_loop(text, level + 1, deepest);
    g_string_append_printf(text,
                           "%%below%u (s%u: (s32[], f32[1024])) -> pred[] {\n"
                           "  %%s%u = %s parameter(0)\n"
                           "  %%i%u = s32[] get-tuple-element(%%s%u), index=0\n"
                           "  %%n%u = s32[] constant(4)\n"
                           "  ROOT %%l%u = pred[] compare(%%i%u, %%n%u), direction=LT\n}\n\n"
                           "%%body%u (b%u: (s32[], f32[1024])) -> (s32[], f32[1024]) {\n"
                           "  %%b%u = %s parameter(0)\n"
                           "  %%j%u = s32[] get-tuple-element(%%b%u), index=0\n"
                           "  %%one%u = s32[] constant(1)\n"
                           "  %%next%u = s32[] add(%%j%u, %%one%u)\n"
                           "  %%x%u = f32[1024]{0} get-tuple-element(%%b%u), index=1\n",
                           level, level, level, state, level, level, level, level, level, level, level, level, level, state, level, level, level, level, level,
                           level, level, level);
    if (level < deepest)
        g_string_append_printf(text,
                               "  %%zero%u = s32[] constant(0)\n"
                               "  %%t%u = %s tuple(%%zero%u, %%x%u)\n"
                               "  %%w%u = %s while(%%t%u), condition=%%below%u, body=%%body%u\n"
                               "  %%y%u = f32[1024]{0} get-tuple-element(%%w%u), index=1\n",
                               level, level, state, level, level, level + 1, state, level, level + 1, level + 1, level, level + 1);
    /* Only the outermost changes it. */
    if (level == 0)
        g_string_append(text, "  %z0 = f32[1024]{0} negate(%y0)\n");
    g_string_append_printf(text, "  ROOT %%r%u = %s tuple(%%next%u, %%%c%u)\n}\n\n", level, state, level,
                           level == 0        ? 'z'
                           : level < deepest ? 'y'
                                             : 'x',
                           level);
}

static EchProgram *nested_loops(unsigned deepest)
{
    g_autoptr(GString) text = g_string_new("HloModule nested, is_scheduled=true\n\n");
    append_loop(text, 0, deepest);
    g_string_append(text, "ENTRY %main (p: f32[1024]) -> f32[1024] {\n"
                          "  %p = f32[1024]{0} parameter(0)\n"
                          "  %zero = s32[] constant(0)\n"
                          "  %x = f32[1024]{0} negate(%p)\n"
                          "  %t = (s32[], f32[1024]{0}) tuple(%zero, %x)\n"
                          "  %w0 = (s32[], f32[1024]{0}) while(%t), condition=%below0, body=%body0\n"
                          "  ROOT %y = f32[1024]{0} get-tuple-element(%w0), index=1\n}\n");
    return ech_test_program(text->str, "h100-sxm");
}

/* What an inner loop hands round unchanged is the outer loop's. With one more loop inside, XLA's bookkeeping loses that for the one in between, whose result
 * then lives as a value of its own. */
START_TEST(loops_hand_round_what_they_got)
{
    g_autoptr(EchProgram) one = nested_loops(1), two = nested_loops(2);
    ck_assert(one->values[element_of(one, "b0", 1)].is_phi);
    ck_assert_uint_eq(element_of(one, "w1", 1), element_of(one, "b0", 1));
    ck_assert_uint_eq(element_of(two, "w2", 1), element_of(two, "b0", 1));
    ck_assert_uint_eq(two->values[element_of(two, "w1", 1)].defined.instruction, ech_test_instruction(two, "w1"));
}
END_TEST

START_TEST(branches_not_taken_hold_nothing)
{
    static const char text[] = "HloModule branches, is_scheduled=true\n\n"
                               "%small (a: f32[1024]) -> f32[1024] {\n"
                               "  %a = f32[1024]{0} parameter(0)\n"
                               "  ROOT %b = f32[1024]{0} sort(%a), dimensions={0}, to_apply=%less\n"
                               "}\n\n"
                               "%large (c: f32[1024]) -> f32[1024] {\n"
                               "  %c = f32[1024]{0} parameter(0)\n"
                               "  %d = f32[1024,64]{1,0} broadcast(%c), dimensions={0}\n"
                               "  %e = f32[1024,64]{1,0} tanh(%d)\n"
                               "  %f = f32[1024]{0} custom-call(%e), custom_call_target=\"fold\"\n"
                               "  ROOT %g = f32[1024]{0} negate(%f)\n"
                               "}\n\n"
                               "%less (x: f32[], y: f32[]) -> pred[] {\n"
                               "  %x = f32[] parameter(0)\n"
                               "  %y = f32[] parameter(1)\n"
                               "  ROOT %l = pred[] compare(%x, %y), direction=LT\n"
                               "}\n\n"
                               "ENTRY %main (p: f32[1024], q: pred[]) -> f32[1024] {\n"
                               "  %p = f32[1024]{0} parameter(0)\n"
                               "  %q = pred[] parameter(1)\n"
                               "  ROOT %r = f32[1024]{0} conditional(%q, %p, %p), true_computation=%small, false_computation=%large\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    g_autoptr(EchTrace) trace = lower(program);
    /* The branch with the most work is the one that runs. */
    bool sorted = false, widened = false;
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++) {
        const char *name = ech_trace_string(trace, ech_trace_buffers(trace)[b].name);
        sorted |= strcmp(name, "b") == 0;
        widened |= strcmp(name, "d") == 0 || strcmp(name, "e") == 0;
    }
    ck_assert(widened && !sorted);
}
END_TEST

#define HERE "f32[8,128]{1,0:T(8,128)S(1)}"
#define COUNT "s32[]{:T(128)}"
#define CARRIED "(" COUNT ", " HERE ")"

/* An on-chip array that a loop in a branch begins with stays until the loop is over, beside what an iteration makes and its copy. */
START_TEST(branches_keep_what_their_loops_begin_with)
{
    static const char text[] =
        "HloModule m, is_scheduled=true\n\n"
        "%short (a: (f32[8,128])) -> (f32[8,128]) {\n  %a = (" HERE ") parameter(0)\n  %b = " HERE " get-tuple-element(%a), index=0\n"
        "  %c = " HERE " sine(%b)\n  ROOT %d = (" HERE ") tuple(%c)\n}\n\n"
        "%body (e: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {\n  %one = " COUNT " constant(1)\n  %e = " CARRIED " parameter(0)\n"
        "  %f = " COUNT " get-tuple-element(%e), index=0\n  %g = " COUNT " add(%f, %one)\n  %h = " HERE " get-tuple-element(%e), index=1\n"
        "  %i = " HERE " fusion(%h), kind=kLoop, calls=%turned\n  %j = " HERE " copy(%i)\n  ROOT %k = " CARRIED " tuple(%g, %j)\n}\n\n"
        "%turned (v: f32[8,128]) -> f32[8,128] {\n  %v = " HERE " parameter(0)\n  ROOT %w = " HERE " tanh(%v)\n}\n\n"
        "%cond (l: (s32[], f32[8,128])) -> pred[] {\n  %n = " COUNT " constant(5)\n  %l = " CARRIED " parameter(0)\n"
        "  %m = " COUNT " get-tuple-element(%l), index=0\n  ROOT %lt = pred[]{:T(512)} compare(%m, %n), direction=LT\n}\n\n"
        "%long (o: (f32[8,128])) -> (f32[8,128]) {\n  %zero = " COUNT " constant(0)\n  %o = (" HERE ") parameter(0)\n"
        "  %start = " COUNT " copy(%zero)\n  %p = " HERE " get-tuple-element(%o), index=0\n  %q = " CARRIED " tuple(%start, %p)\n"
        "  %loop = " CARRIED " while(%q), condition=%cond, body=%body\n  %r = " HERE " get-tuple-element(%loop), index=1\n"
        "  ROOT %s = (" HERE ") tuple(%r)\n}\n\n"
        "ENTRY %main (which: s32[], x: f32[8,128]) -> f32[8,128] {\n  %which = " COUNT " parameter(0)\n  %x = f32[8,128]{1,0:T(8,128)} parameter(1)\n"
        "  %cs = (" HERE ", f32[8,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%x)\n  %y = " HERE " copy-done(%cs)\n"
        "  %t = (" HERE ") tuple(%y)\n  %u = (" HERE ") tuple(%y)\n"
        "  %chosen = (" HERE ") conditional(%which, %t, %u), branch_computations={%short, %long}\n"
        "  %z = " HERE " get-tuple-element(%chosen), index=0\n"
        "  %back = (f32[8,128]{1,0:T(8,128)}, " HERE ", u32[]{:S(2)}) copy-start(%z)\n  ROOT %out = f32[8,128]{1,0:T(8,128)} copy-done(%back)\n}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    assign(program);
    /* The arguments, the result and three constants; three arrays on chip. */
    ck_assert_uint_eq(ech_program_memory_analysis(program).peak, 512 + 4096 + 4096 + 3 * 512 + 3 * 4096);
}
END_TEST

/* Many short rows are sorted and transformed row by row: of 16 elements each four steps. */
START_TEST(rows_are_worked_on_alone)
{
    static const char text[] = "HloModule rows, is_scheduled=true\n\n"
                               "%less (x: f32[], y: f32[]) -> pred[] {\n"
                               "  %x = f32[] parameter(0)\n"
                               "  %y = f32[] parameter(1)\n"
                               "  ROOT %l = pred[] compare(%x, %y), direction=LT\n"
                               "}\n\n"
                               "ENTRY %main (p: f32[256,16], q: c64[256,16]) -> (f32[256,16], c64[256,16]) {\n"
                               "  %p = f32[256,16]{1,0} parameter(0)\n"
                               "  %q = c64[256,16]{1,0} parameter(1)\n"
                               "  %s = f32[256,16]{1,0} sort(%p), dimensions={1}, to_apply=%less\n"
                               "  %f = c64[256,16]{1,0} fft(%q), fft_type=FFT, fft_length={16}\n"
                               "  ROOT %t = (f32[256,16]{1,0}, c64[256,16]{1,0}) tuple(%s, %f)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    ck_assert_uint_eq(ech_program_work(program, ech_test_instruction(program, "s")).vector, 256 * 16 * 4);
    ck_assert_uint_eq(ech_program_work(program, ech_test_instruction(program, "f")).vector, 5 * 256 * 16 * 4);
}
END_TEST

/* Operations on @unit in the whole of a trace. */
static uint64_t work_of(const EchTrace *trace, EchWorkUnit unit)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < ech_trace_n_work(trace); k++)
        sum += ech_trace_work(trace)[k].unit == unit ? ech_trace_work(trace)[k].count : 0;
    return sum;
}

/* A computation that another stream runs has all of its operations, those of special functions, too. */
START_TEST(asynchronous_computations_do_their_work)
{
    static const char text[] = "HloModule beside, is_scheduled=true\n\n"
                               "%work (a: f32[1024]) -> f32[1024] {\n"
                               "  %a = f32[1024]{0} parameter(0)\n"
                               "  %b = f32[1024]{0} tanh(%a)\n"
                               "  ROOT %c = f32[1024]{0} multiply(%b, %a)\n"
                               "}\n\n"
                               "ENTRY %main (p: f32[1024]) -> f32[1024] {\n"
                               "  %p = f32[1024]{0} parameter(0)\n"
                               "  %s = ((f32[1024]{0}), f32[1024]{0}) async-start(%p), calls=%work\n"
                               "  ROOT %d = f32[1024]{0} async-done(%s)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    g_autoptr(EchTrace) trace = lower(program);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_VECTOR), 1024);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_TRANSCENDENTAL), 1024);
}
END_TEST

/* Those of each trip of its loops, of loops in these, too. */
START_TEST(asynchronous_loops_do_all_their_trips)
{
    static const char text[] = "HloModule beside, is_scheduled=true\n\n"
                               "%cond (s: f32[1024]) -> pred[] {\n"
                               "  %s = f32[1024]{0} parameter(0)\n"
                               "  ROOT %go = pred[] constant(true)\n"
                               "}\n\n"
                               "%inner (t: f32[1024]) -> f32[1024] {\n"
                               "  %t = f32[1024]{0} parameter(0)\n"
                               "  ROOT %u = f32[1024]{0} tanh(%t)\n"
                               "}\n\n"
                               "%outer (v: f32[1024]) -> f32[1024] {\n"
                               "  %v = f32[1024]{0} parameter(0)\n"
                               "  %w = f32[1024]{0} negate(%v)\n"
                               "  ROOT %x = f32[1024]{0} while(%w), condition=%cond, body=%inner, backend_config={\"known_trip_count\":{\"n\":\"3\"}}\n"
                               "}\n\n"
                               "%work (a: f32[1024]) -> f32[1024] {\n"
                               "  %a = f32[1024]{0} parameter(0)\n"
                               "  %b = f32[1024]{0} while(%a), condition=%cond, body=%outer, backend_config={\"known_trip_count\":{\"n\":\"5\"}}\n"
                               "  ROOT %c = f32[1024]{0} negate(%b)\n"
                               "}\n\n"
                               "ENTRY %main (p: f32[1024]) -> f32[1024] {\n"
                               "  %p = f32[1024]{0} parameter(0)\n"
                               "  %q = ((f32[1024]{0}), f32[1024]{0}) async-start(%p), calls=%work\n"
                               "  ROOT %d = f32[1024]{0} async-done(%q)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    g_autoptr(EchTrace) trace = lower(program);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_VECTOR), 6 * 1024);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_TRANSCENDENTAL), 15 * 1024);
}
END_TEST

/* Of branches what the largest does, and each product's rows by one group alone. */
START_TEST(asynchronous_computations_take_a_branch)
{
    static const char text[] = "HloModule beside, is_scheduled=true\n\n"
                               "%few (a: f32[1024]) -> f32[1024] {\n"
                               "  %a = f32[1024]{0} parameter(0)\n"
                               "  ROOT %b = f32[1024]{0} negate(%a)\n"
                               "}\n\n"
                               "%many (c: f32[1024]) -> f32[1024] {\n"
                               "  %c = f32[1024]{0} parameter(0)\n"
                               "  %d = f32[1024]{0} tanh(%c)\n"
                               "  ROOT %e = f32[1024]{0} negate(%d)\n"
                               "}\n\n"
                               "%ragged (f: f32[32,32]) -> f32[32,32] {\n"
                               "  %f = f32[32,32]{1,0} parameter(0)\n"
                               "  ROOT %g = f32[32,32]{1,0} dot(%f, %f), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "}\n\n"
                               "%work (k: s32[], h: f32[1024], q: f32[32,32]) -> f32[1024] {\n"
                               "  %k = s32[] parameter(0)\n"
                               "  %h = f32[1024]{0} parameter(1)\n"
                               "  %q = f32[32,32]{1,0} parameter(2)\n"
                               "  %plain = f32[32,32]{1,0} dot(%q, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "  %grouped = f32[32,32]{1,0} fusion(%plain), kind=kOutput, calls=%ragged, "
                               "backend_config={\"convolution_algorithm_config\":{\"num_groups_in_ragged_dot\":\"4\"}}\n"
                               "  ROOT %l = f32[1024]{0} conditional(%k, %h, %h), branch_computations={%few, %many}\n"
                               "}\n\n"
                               "ENTRY %main (n: s32[], p: f32[1024], r: f32[32,32]) -> f32[1024] {\n"
                               "  %n = s32[] parameter(0)\n"
                               "  %p = f32[1024]{0} parameter(1)\n"
                               "  %r = f32[32,32]{1,0} parameter(2)\n"
                               "  %s = ((s32[], f32[1024]{0}, f32[32,32]{1,0}), f32[1024]{0}) async-start(%n, %p, %r), calls=%work\n"
                               "  ROOT %t = f32[1024]{0} async-done(%s)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    g_autoptr(EchTrace) trace = lower(program);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_VECTOR), 1024);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_TRANSCENDENTAL), 1024);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_MATRIX), 5 * (2 * 32 * 32 * 32) / 4);
}
END_TEST

/* Operations of XLA's of 2026: the upper half of a product, which JAX 0.12's random numbers count by, sums along a dimension, elements in another order. */
START_TEST(late_operations_are_known)
{
    static const char text[] = "HloModule late, is_scheduled=true\n\n"
                               "%sum (s: u32[], t: u32[]) -> u32[] {\n"
                               "  %s = u32[] parameter(0)\n"
                               "  %t = u32[] parameter(1)\n"
                               "  ROOT %u = u32[] add(%s, %t)\n"
                               "}\n\n"
                               "%high (a: u32[1024]) -> u32[1024] {\n"
                               "  %a = u32[1024]{0} parameter(0)\n"
                               "  ROOT %h = u32[1024]{0} mulhi(%a, %a)\n"
                               "}\n\n"
                               "ENTRY %main (p: u32[1024]) -> u32[1024] {\n"
                               "  %p = u32[1024]{0} parameter(0)\n"
                               "  %f = u32[1024]{0} fusion(%p), kind=kLoop, calls=%high\n"
                               "  %c = u32[1024]{0} scan(%f), dimensions={0}, to_apply=%sum\n"
                               "  ROOT %r = u32[1024]{0} shuffle(%c)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    static const char *const names[] = {"h", "c", "r"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        ck_assert_uint_ne(program->instructions[ech_test_instruction(program, names[i])].opcode, ECH_HLO_UNKNOWN);
    g_autoptr(EchTrace) trace = lower(program);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_VECTOR), 2 * 1024);
}
END_TEST

/* Ragged products as JAX hands them over: every row is multiplied once, whether its group tells which matrix, or which result it is summed into. */
START_TEST(ragged_products_multiply_each_row_once)
{
    static const char text[] = "HloModule ragged\n\n"
                               "ENTRY %main (x: bf16[64,16], w: bf16[8,16,32], n: s32[8]) -> bf16[8,16,32] {\n"
                               "  %x = bf16[64,16]{1,0} parameter(0)\n"
                               "  %w = bf16[8,16,32]{2,1,0} parameter(1)\n"
                               "  %n = s32[8]{0} parameter(2)\n"
                               "  %y = bf16[64,32]{1,0} ragged-dot(%x, %w, %n), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
                               "rhs_group_dims={0}\n"
                               "  ROOT %g = bf16[8,16,32]{2,1,0} ragged-dot(%x, %y, %n), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
                               "lhs_ragged_dims={0}\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    g_autoptr(EchTrace) trace = lower(program);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_MATRIX), 2 * (2 * 64 * 16 * 32));
}
END_TEST

/* What another device sends comes in beside what goes out, all of its bytes. */
START_TEST(messages_between_devices_come_and_go)
{
    static const char text[] = "HloModule messages, is_scheduled=true, num_partitions=2\n\n"
                               "ENTRY %main (p: f32[1024]) -> f32[512] {\n"
                               "  %p = f32[1024]{0} parameter(0)\n"
                               "  %t = token[] after-all()\n"
                               "  %r = (f32[512]{0}, u32[], token[]) recv(%t), channel_id=1\n"
                               "  %s = (f32[1024]{0}, u32[], token[]) send(%p, %t), channel_id=2\n"
                               "  %e = (f32[512]{0}, token[]) recv-done(%r), channel_id=1\n"
                               "  %d = token[] send-done(%s), channel_id=2\n"
                               "  ROOT %g = f32[512]{0} get-tuple-element(%e), index=0\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    g_autoptr(EchTrace) trace = lower(program);
    EchBytes bytes[2] = {0};
    EchId queues[2] = {ECH_NONE, ECH_NONE};
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_COLLECTIVE)
            continue;
        bytes[op->collective == ECH_COLLECTIVE_RECV] += op->bytes;
        queues[op->collective == ECH_COLLECTIVE_RECV] = op->queue;
    }
    ck_assert_uint_eq(bytes[0], 1024 * 4);
    ck_assert_uint_eq(bytes[1], 512 * 4);
    ck_assert_uint_ne(queues[0], queues[1]);
}
END_TEST

/* Five times a negation is more than three operations: the branch with a loop is taken. */
START_TEST(branches_weigh_what_their_loops_do)
{
    static const char text[] = "HloModule branches, is_scheduled=true\n\n"
                               "%cond (s: (s32[], f32[1024])) -> pred[] {\n"
                               "  %s = (s32[], f32[1024]{0}) parameter(0)\n"
                               "  %i = s32[] get-tuple-element(%s), index=0\n"
                               "  %n = s32[] constant(5)\n"
                               "  ROOT %lt = pred[] compare(%i, %n), direction=LT\n"
                               "}\n\n"
                               "%body (t: (s32[], f32[1024])) -> (s32[], f32[1024]) {\n"
                               "  %t = (s32[], f32[1024]{0}) parameter(0)\n"
                               "  %j = s32[] get-tuple-element(%t), index=0\n"
                               "  %x = f32[1024]{0} get-tuple-element(%t), index=1\n"
                               "  %one = s32[] constant(1)\n"
                               "  %k = s32[] add(%j, %one)\n"
                               "  %turned = f32[1024]{0} negate(%x)\n"
                               "  ROOT %u = (s32[], f32[1024]{0}) tuple(%k, %turned)\n"
                               "}\n\n"
                               "%long (a: f32[1024]) -> f32[1024] {\n"
                               "  %a = f32[1024]{0} parameter(0)\n"
                               "  %zero = s32[] constant(0)\n"
                               "  %init = (s32[], f32[1024]{0}) tuple(%zero, %a)\n"
                               "  %w = (s32[], f32[1024]{0}) while(%init), condition=%cond, body=%body\n"
                               "  ROOT %b = f32[1024]{0} get-tuple-element(%w), index=1\n"
                               "}\n\n"
                               "%short (c: f32[1024]) -> f32[1024] {\n"
                               "  %c = f32[1024]{0} parameter(0)\n"
                               "  %d = f32[1024]{0} negate(%c)\n"
                               "  %e = f32[1024]{0} abs(%d)\n"
                               "  ROOT %f = f32[1024]{0} multiply(%e, %d)\n"
                               "}\n\n"
                               "ENTRY %main (p: f32[1024], q: pred[]) -> f32[1024] {\n"
                               "  %p = f32[1024]{0} parameter(0)\n"
                               "  %q = pred[] parameter(1)\n"
                               "  ROOT %r = f32[1024]{0} conditional(%q, %p, %p), true_computation=%short, false_computation=%long\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    g_autoptr(EchTrace) trace = lower(program);
    ck_assert_uint_eq(ech_test_count(trace, ECH_OP_LOOP), 1);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        ck_assert_str_ne(ech_trace_string(trace, ech_trace_ops(trace)[i].name), "f");
}
END_TEST

/* Two wide arrays that need not live at once: the file makes both before it folds either. */
START_TEST(unscheduled_programs_get_an_order)
{
    static const char text[] = "HloModule wide\n\n"
                               "ENTRY %main (p: f32[64]) -> f32[64] {\n"
                               "  %p = f32[64]{0} parameter(0)\n"
                               "  %a = f32[64,4096]{1,0} broadcast(%p), dimensions={0}\n"
                               "  %q = f32[64]{0} negate(%p)\n"
                               "  %b = f32[64,4096]{1,0} broadcast(%q), dimensions={0}\n"
                               "  %c = f32[64]{0} custom-call(%a), custom_call_target=\"fold\"\n"
                               "  %d = f32[64]{0} custom-call(%b), custom_call_target=\"fold\"\n"
                               "  ROOT %e = f32[64]{0} add(%c, %d)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    ck_assert(!program->scheduled);
    ck_assert_uint_lt(ech_program_memory_analysis(program).temp, 2 * 64 * 4096 * 4);
    /* Operands still come first. */
    for (EchId i = 0; i < program->n_instructions; i++)
        for (uint32_t k = 0; k < program->instructions[i].n_operands; k++)
            ck_assert_uint_lt(ech_program_operand(program, &program->instructions[i], k), i);
}
END_TEST

/* A TPU's compiler makes products of Fourier transforms, three real ones for a complex one: of 8,192 points by matrices of 64 and 128, of a few by one. */
START_TEST(transforms_become_products)
{
    static const struct {
        const char *in, *out, *type;
        uint64_t points, work;
    } cases[] = {{"c64[32,8192]", "c64[32,8192]", "FFT", 8192, UINT64_C(3) * 2 * 32 * 8192 * (64 + 128)},
                 {"f32[4,8,8192]", "c64[4,8,4097]", "RFFT", 8192, UINT64_C(3) * 2 * 32 * 8192 * (64 + 128)},
                 {"c64[4097]", "f32[8192]", "IRFFT", 8192, UINT64_C(2) * 8192 * (3 * 64 + 2 * 128)},
                 {"c64[1024,100]", "c64[1024,100]", "IFFT", 100, UINT64_C(3) * 2 * 1024 * 100 * 100},
                 {"f32[1024,128]", "c64[1024,65]", "RFFT", 128, UINT64_C(2) * 2 * 1024 * 65 * 128},
                 {"c64[1024,65]", "f32[1024,128]", "IRFFT", 128, UINT64_C(2) * 2 * 1024 * 65 * 128}};
    g_autofree char *text = g_strdup_printf("HloModule transform\n\nENTRY %%main (p: %s) -> %s {\n  %%p = %s parameter(0)\n"
                                            "  ROOT %%f = %s fft(%%p), fft_type=%s, fft_length={%" G_GUINT64_FORMAT "}\n}\n",
                                            cases[_i].in, cases[_i].out, cases[_i].in, cases[_i].out, cases[_i].type, cases[_i].points);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) given = ech_test_program(text, "tpu-v5e");
    g_autoptr(EchProgram) prepared = ech_program_prepare(given, "tpu-v5e", diag, NULL);
    ck_assert_ptr_nonnull(prepared);
    g_autoptr(EchTrace) trace = lower(prepared);
    ck_assert_uint_eq(work_of(trace, ECH_WORK_MATRIX), cases[_i].work);
}
END_TEST

/* Transforms that make no sense, or of sizes that no product is made for, stay as they are. */
START_TEST(other_transforms_stay)
{
    static const char *const lines[] = {"%p = c64[8,100003] parameter(0)\n  ROOT %f = c64[8,100003] fft(%p), fft_type=FFT, fft_length={100003}",
                                        "%p = c64[8,16,16] parameter(0)\n  ROOT %f = c64[8,16,16] fft(%p), fft_type=FFT, fft_length={16,16}",
                                        "%p = c64[8,16] parameter(0)\n  ROOT %f = c64[9,16] fft(%p), fft_type=FFT, fft_length={16}",
                                        "%p = c64[8,16] parameter(0)\n  ROOT %f = c64[8,16] fft(%p), fft_type=FFT, fft_length={8}",
                                        "%p = c128[8,16] parameter(0)\n  ROOT %f = c128[8,16] fft(%p), fft_type=FFT, fft_length={16}",
                                        "%p = (c64[8,16]) parameter(0)\n  ROOT %f = c64[8,16] fft(%p), fft_type=FFT, fft_length={16}",
                                        "%p = c64[] parameter(0)\n  ROOT %f = c64[] fft(%p), fft_type=FFT, fft_length={1}"};
    g_autofree char *text = g_strdup_printf("HloModule transform\n\nENTRY %%main (p: c64[8,16]) -> c64[8,16] {\n  %s\n}\n", lines[_i]);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) given = ech_test_program(text, "tpu-v5e");
    g_autoptr(EchProgram) prepared = ech_program_prepare(given, "tpu-v5e", diag, NULL);
    ck_assert_ptr_nonnull(prepared);
    ck_assert_uint_eq(ech_diag_count(diag, "transforms_made_products"), 0);
}
END_TEST

/* A module that is still one for all devices says so, in both spellings of shardings and around what is written for one device. */
START_TEST(whole_modules_say_so)
{
    static const char *const shardings[] = {"{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{mesh['x'=2,'y'=2], [{'y'}, {}]}",
                                            "{mesh['x'=4], [{'x':(1)2}, {}]}", "{mesh['x'=4], [{}, {}]}"};
    static const char *const bodies[] = {"  ROOT %n = f32[64,1024]{1,0} negate(%p)\n}\n",
                                         "  %l = f32[32,1024]{1,0} custom-call(%p), custom_call_target=\"xla.sdy.GlobalToLocalShape\"\n"
                                         "  %s = f32[32,1024]{1,0} all-reduce(%l), replica_groups={}, to_apply=%sum\n"
                                         "  ROOT %g = f32[64,1024]{1,0} custom-call(%s), custom_call_target=\"xla.sdy.LocalToGlobalShape\"\n}\n"};
    static const char sum[] =
        "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = f32[] add(%a, %b)\n}\n\n";
    const char *expected = "(256 KiB of arguments, of which each device holds 128 KiB)";
    for (size_t body = 0; body < G_N_ELEMENTS(bodies); body++)
        for (size_t k = 0; k < G_N_ELEMENTS(shardings); k++) {
            g_autofree char *text = g_strdup_printf("HloModule whole, num_partitions=4\n\n%sENTRY %%main (p: f32[64,1024]) -> f32[64,1024] {\n"
                                                    "  %%p = f32[64,1024]{1,0} parameter(0), sharding=%s\n%s",
                                                    sum, shardings[k], bodies[body]);
            g_autoptr(EchDiag) diag = ech_diag_new();
            g_autoptr(EchProgram) whole = ech_test_program(text, "tpu-v5e");
            g_autoptr(EchProgram) prepared = ech_program_prepare(whole, "tpu-v5e", diag, NULL);
            ck_assert_ptr_nonnull(prepared);
            bool said = false, split = k < 3;
            for (const char *const *remark = ech_diag_remarks(diag); *remark; remark++)
                said |= strstr(*remark, "not partitioned yet") && (!split || strstr(*remark, expected));
            ck_assert_msg(said == (split || body == 1), "%s, %zu", shardings[k], body);
            ck_assert(prepared->unsplit == said);
        }
}
END_TEST

/* A callback's send and recv go over the host's link, not to another chip; so do infeed, outfeed and what is for another slice. */
START_TEST(callbacks_go_over_the_hosts_link)
{
    static const char text[] = "HloModule callback, is_scheduled=true\n\n"
                               "ENTRY %main (p: f32[1024]) -> f32[1024] {\n"
                               "  %p = f32[1024]{0} parameter(0)\n"
                               "  %t = token[] after-all()\n"
                               "  %s = (f32[1024]{0}, u32[], token[]) send(%p, %t), channel_id=1, is_host_transfer=true\n"
                               "  %d = token[] send-done(%s), channel_id=1, is_host_transfer=true\n"
                               "  %r = (f32[512]{0}, u32[], token[]) recv(%d), channel_id=2, is_host_transfer=true\n"
                               "  %e = (f32[512]{0}, token[]) recv-done(%r), channel_id=2, is_host_transfer=true\n"
                               "  %i = ((f32[256]{0}), token[]) infeed(%t)\n"
                               "  %o = token[] outfeed(%p, %t), outfeed_shape=f32[1024]{0}\n"
                               "  %x = (f32[1024]{0}, u32[], token[]) send(%p, %t), channel_id=3, is_host_transfer=true, "
                               "frontend_attributes={_xla_host_transfer_handler_name=\"xla_megascale_runtime\"}\n"
                               "  %y = token[] send-done(%x), channel_id=3, is_host_transfer=true\n"
                               "  ROOT %n = f32[1024]{0} negate(%p)\n"
                               "}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = ech_program_lower(program, NULL, NULL, diag, NULL);
    ck_assert_ptr_nonnull(trace);
    EchBytes to_host = 0, from_host = 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        ck_assert_int_ne(op->kind, ECH_OP_COLLECTIVE);
        if (op->kind == ECH_OP_COPY && strcmp(ech_trace_memory(trace, op->memory_to), "host") == 0)
            to_host += op->bytes;
        else if (op->kind == ECH_OP_COPY)
            from_host += op->bytes;
    }
    ck_assert_uint_eq(to_host, 3 * 1024 * 4);
    ck_assert_uint_eq(from_host, (512 + 256) * 4);
    ck_assert_uint_eq(ech_diag_count(diag, "arrays_handed_to_and_from_the_host"), 4);
    ck_assert_uint_eq(ech_diag_count(diag, "arrays_handed_to_and_from_other_slices"), 1); /* which go the same way */
}
END_TEST

/* How many devices a collective joins, in the words that XLA has for it. */
static const struct {
    const char *groups;
    uint32_t size;
} joined[] = {
    {"", 8},
    {", replica_groups={}", 8},
    {", replica_groups={{0,1},{2,3},{4,5},{6,7}}", 2},
    {", replica_groups=[2,4]<=[8]", 4},
    {", replica_groups=[4,2]<=[2,4]T(1,0)", 2},
    {", replica_groups=mesh['x'=4,'y'=2] {'x'}", 4},
    {", replica_groups=mesh['x'=4,'y'=2] {'x','y'}", 8},
    /* The major half of x, as XLA prints a part of an axis: what is outside it, and its own size. */
    {", replica_groups=mesh['x'=4,'y'=2] {'x':(1)2}", 2},
    {", replica_groups=mesh['x'=8,'y'=3] {'x':(2)4,'y'}", 12},
};

START_TEST(collectives_join_their_groups)
{
    g_autofree char *text = g_strdup_printf("HloModule joined, is_scheduled=true, replica_count=2, num_partitions=4\n\n"
                                            "%%sum (a: f32[], b: f32[]) -> f32[] {\n"
                                            "  %%a = f32[] parameter(0)\n"
                                            "  %%b = f32[] parameter(1)\n"
                                            "  ROOT %%s = f32[] add(%%a, %%b)\n}\n\n"
                                            "ENTRY %%main (p: f32[1024]) -> f32[1024] {\n"
                                            "  %%p = f32[1024]{0} parameter(0)\n"
                                            "  ROOT %%r = f32[1024]{0} all-reduce(%%p), channel_id=1%s, use_global_device_ids=true, to_apply=%%sum\n}\n",
                                            joined[_i].groups);
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    g_autoptr(EchTrace) trace = lower(program);
    const EchOp *op = ech_test_op(trace, ECH_OP_COLLECTIVE, NULL);
    ck_assert_uint_eq(op->memory_from, joined[_i].size);
    ck_assert_uint_eq(op->bytes, 4096);
}
END_TEST

/* A start's first result is its operand (HLO: (operand, result, ...)): read, and not written again, whether the start is an instruction or a fusion. */
#define MIB2 "bf16[1024,1024]{1,0:T(8,128)(2,1)}"
#define QUARTER "bf16[256,1024]{1,0:T(8,128)(2,1)}"
#define FLAGS "u32[]{:S(2)}, u32[]{:S(2)}"
static const struct {
    const char *text;
    EchBytes read;
} started[] = {{"HloModule m, is_scheduled=true, num_partitions=4\n\n"
                "ENTRY %e (p: bf16[1024,1024]) -> bf16[1024,1024] {\n"
                "  %p = " MIB2 " parameter(0)\n"
                "  %n = " MIB2 " negate(%p)\n"
                "  %s = (" MIB2 ", " MIB2 ", " FLAGS ") collective-permute-start(%n), source_target_pairs={{0,1},{1,3}}\n"
                "  ROOT %d = " MIB2 " collective-permute-done(%s)\n}\n",
                2 << 20},
               {"HloModule m, is_scheduled=true, num_partitions=4\n\n"
                "%begin (a: bf16[256,1024]) -> (bf16[256,1024], bf16[1024,1024], u32[], u32[]) {\n"
                "  %a = " QUARTER " parameter(0)\n"
                "  %g = " MIB2 " all-gather(%a), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true\n"
                "  ROOT %c = (" QUARTER ", " MIB2 ", " FLAGS ") custom-call(%g), custom_call_target=\"AsyncCollectiveStart\"\n}\n\n"
                "%end (b: bf16[256,1024], c: bf16[1024,1024], d: u32[], f: u32[]) -> bf16[1024,1024] {\n"
                "  %b = " QUARTER " parameter(0)\n"
                "  %c.1 = " MIB2 " parameter(1)\n"
                "  %d = u32[]{:S(2)} parameter(2)\n"
                "  %f = u32[]{:S(2)} parameter(3)\n"
                "  ROOT %h = " MIB2 " custom-call(%b, %c.1, %d, %f), custom_call_target=\"AsyncCollectiveDone\"\n}\n\n"
                "ENTRY %e (p: bf16[256,1024]) -> bf16[1024,1024] {\n"
                "  %p = " QUARTER " parameter(0)\n"
                "  %n = " QUARTER " negate(%p)\n"
                "  %s = (" QUARTER ", " MIB2 ", " FLAGS ") fusion(%n), kind=kCustom, output_to_operand_aliasing={{0}: (0, {})}, calls=%begin\n"
                "  %s0 = " QUARTER " get-tuple-element(%s), index=0\n"
                "  %s1 = " MIB2 " get-tuple-element(%s), index=1\n"
                "  %s2 = u32[]{:S(2)} get-tuple-element(%s), index=2\n"
                "  %s3 = u32[]{:S(2)} get-tuple-element(%s), index=3\n"
                "  ROOT %r = " MIB2 " fusion(%s0, %s1, %s2, %s3), kind=kCustom, output_to_operand_aliasing={{}: (1, {})}, calls=%end\n}\n",
                512 << 10}};

START_TEST(collectives_write_their_result_alone)
{
    g_autoptr(EchProgram) program = ech_test_program(started[_i].text, "tpu-v5e");
    assign(program);
    g_autoptr(EchTrace) trace = lower(program);
    const EchOp *op = ech_test_op(trace, ECH_OP_COLLECTIVE, NULL);
    EchBytes moved[2] = {0};
    for (uint32_t u = 0; u < op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(trace)[op->first_use + u];
        moved[use->access == ECH_WRITE] += use->bytes;
    }
    ck_assert_uint_eq(moved[0], started[_i].read);
    ck_assert_uint_eq(moved[1], 2 << 20);
}
END_TEST

/* What XLA wrote of one module as protobuf, read as what it printed of it (jaxlib 0.10.2; lists.pb and lists.hlo.txt): all that prices and places ask for. */
START_TEST(protobuf_says_what_text_says)
{
    g_autoptr(EchImport) text = ech_test_corpus("hlo_text/lists.hlo.txt", "hlo"), proto = ech_test_corpus("hlo_proto/lists.pb", "hlo_proto");
    size_t compared = 0;
    ck_assert_uint_eq(text->program->n_instructions, proto->program->n_instructions);
    for (size_t k = 0; k < text->program->n_instructions; k++) {
        const EchInstruction *i = &text->program->instructions[k], *same = &proto->program->instructions[ech_test_instruction(proto->program, i->name)];
        ck_assert_msg(i->has_literal == same->has_literal && (!i->has_literal || i->number == same->number), "%s", i->name);
        const char *at = i->attributes;
        EchAttribute a;
        while (at && ech_program_next_attribute(&at, i->attributes + i->attributes_n, &a)) {
            g_autofree char *name = g_strndup(a.name, a.name_n), *value = g_strndup(a.value, a.value_n);
            static const char *const left_out[] = {"to_apply", "use_global_device_ids", "fft_type", NULL};
            if (g_strv_contains(left_out, name))
                continue;
            size_t n = 0;
            const char *other = ech_program_attribute(same, name, &n);
            ck_assert_msg(other && n == a.value_n && memcmp(other, value, n) == 0, "%s: %s=%s is %.*s", i->name, name, value, (int)n, other ? other : "");
            compared++;
        }
    }
    ck_assert_uint_eq(compared, 40);
    ck_assert_uint_eq(proto->program->partitions, 8); /* not written there: [4,2]<=[2,4]T(1,0) tells it */
}
END_TEST

/* A collective on the sparse cores is called by an asynchronous computation whose start says nothing of its operands. */
START_TEST(collectives_run_on_sparse_cores)
{
    g_autoptr(EchProgram) program = ech_test_program(
        "HloModule gather, is_scheduled=true, num_partitions=8\n\n"
        "%called (a: f32[64,8,128]) -> f32[256,8,128] {\n"
        "  %a = f32[64,8,128]{2,1,0} parameter(0)\n"
        "  %t = (f32[64,8,128]{2,1,0}) tuple(%a)\n"
        "  %e = f32[64,8,128]{2,1,0} get-tuple-element(%t), index=0\n"
        "  ROOT %g = f32[256,8,128]{2,1,0} all-gather(%e), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}, use_global_device_ids=true\n"
        "}, execution_thread=\"sparsecore\"\n\n"
        "%wrapped (b: f32[64,8,128]) -> f32[256,8,128] {\n"
        "  %b = f32[64,8,128]{2,1,0} parameter(0)\n"
        "  ROOT %c = f32[256,8,128]{2,1,0} custom-call(%b), custom_call_target=\"offload\", called_computations={%called}\n"
        "}, execution_thread=\"sparsecore\"\n\n"
        "ENTRY %main (p: f32[64,8,128]) -> f32[256,8,128] {\n"
        "  %p = f32[64,8,128]{2,1,0} parameter(0)\n"
        "  %start = ((), (), (s32[8])) async-start(), async_execution_thread=\"sparsecore\", calls=%wrapped\n"
        "  %update = ((f32[64,8,128]{2,1,0}), f32[256,8,128]{2,1,0}, (s32[8])) async-update(%start, %p), output_to_operand_aliasing={{2,0}: (0, {2,0})}\n"
        "  ROOT %done = f32[256,8,128]{2,1,0} async-done(%update)\n"
        "}\n",
        "tpu7x");
    assign(program);
    g_autoptr(EchTrace) trace = lower(program);
    const EchOp *op = ech_test_op(trace, ECH_OP_COLLECTIVE, NULL);
    ck_assert_int_eq(op->collective, ECH_COLLECTIVE_ALL_GATHER);
    ck_assert_uint_eq(op->memory_from, 4);
    ck_assert_uint_eq(op->bytes, 262144);
}
END_TEST

/* What a SparseCore has of its own for a call is the next call's from the update on, before the async-done, as off_pol's four transposes (libtpu 0.0.52,
 * tpu7x, of parameters and moments on the host) have one place in each of the spaces 8, 10, 11 and 15. */
static EchBytes sparse_bytes(const char *order, int32_t space)
{
#define ECH_OWN "(s32[25]{0:T(1)S(11)}, s32[12]{0:S(8)})"
#define ECH_UPDATED(n)                                                                                                                                         \
    "  %u" n " = ((f32[64,128]{1,0}), f32[64,128]{1,0}, " ECH_OWN ") async-update(%s" n                                                                        \
    ", %p), output_to_operand_aliasing={{2,0}: (0, {2,0}), {2,1}: (0, {2,1})}\n"
    static const char *const lines[][2] = {
        {"s1", "  %s1 = ((), (), " ECH_OWN ") async-start(), async_execution_thread=\"sparsecore\", calls=%first\n"},
        {"s2", "  %s2 = ((), (), " ECH_OWN ") async-start(), async_execution_thread=\"sparsecore\", calls=%second\n"},
        {"u1", ECH_UPDATED("1")},
        {"u2", ECH_UPDATED("2")},
        {"d1", "  %d1 = f32[64,128]{1,0} async-done(%u1)\n"},
        {"d2", "  %d2 = f32[64,128]{1,0} async-done(%u2)\n"},
    };
#undef ECH_UPDATED
#undef ECH_OWN
    g_autoptr(GString) text = g_string_new("HloModule two, is_scheduled=true\n\n"
                                           "%first (a: f32[64,128]) -> f32[64,128] {\n  %a = f32[64,128]{1,0} parameter(0)\n"
                                           "  ROOT %c = f32[64,128]{1,0} negate(%a)\n}, execution_thread=\"sparsecore\"\n\n"
                                           "%second (b: f32[64,128]) -> f32[64,128] {\n  %b = f32[64,128]{1,0} parameter(0)\n"
                                           "  ROOT %e = f32[64,128]{1,0} negate(%b)\n}, execution_thread=\"sparsecore\"\n\n"
                                           "ENTRY %main (p: f32[64,128]) -> f32[64,128] {\n  %p = f32[64,128]{1,0} parameter(0)\n");
    g_auto(GStrv) names = g_strsplit(order, " ", -1);
    for (char **name = names; *name; name++) {
        for (size_t k = 0; k < G_N_ELEMENTS(lines); k++) {
            if (strcmp(lines[k][0], *name) == 0)
                g_string_append(text, lines[k][1]);
        }
    }
    g_string_append(text, "  ROOT %n = f32[64,128]{1,0} add(%d1, %d2)\n}\n");
    g_autoptr(EchProgram) program = ech_test_program(text->str, "tpu7x");
    assign(program);
    return ech_program_space_bytes(program, space);
}

START_TEST(sparse_cores_take_turns)
{
    ck_assert_uint_eq(sparse_bytes("s1 u1 d1 s2 u2 d2", 11), 100);
    ck_assert_uint_eq(sparse_bytes("s1 u1 s2 u2 d1 d2", 11), 100);
    ck_assert_uint_eq(sparse_bytes("s1 u1 s2 u2 d1 d2", 8), 48);
    ck_assert_uint_eq(sparse_bytes("s1 s2 u1 u2 d1 d2", 11), 200);
    ck_assert_uint_eq(sparse_bytes("s1 s2 u1 u2 d1 d2", 8), 96);
}
END_TEST

/* What of HBM SparseCores have for three calls, one after the other, the second's more than the first's and the third's @third; with what is there from after
 * the second to the end. */
static EchBytes sparse_calls(const char *third)
{
    const char *const sizes[] = {"8192", "16384", third};
    g_autoptr(GString) text = g_string_new("HloModule three, is_scheduled=true\n\n");
    for (int k = 0; k < 3; k++)
        g_string_append_printf(text,
                               "%%body%d (a%d: f32[64,128]) -> f32[64,128] {\n  %%a%d = f32[64,128]{1,0} parameter(0)\n"
                               "  ROOT %%c%d = f32[64,128]{1,0} negate(%%a%d)\n}, execution_thread=\"sparsecore\"\n\n",
                               k, k, k, k, k);
    g_string_append(text, "ENTRY %main (p: f32[64,128]) -> f32[64,128] {\n  %p = f32[64,128]{1,0} parameter(0)\n");
    for (int k = 0; k < 3; k++) {
        g_autofree char *from = k > 0 ? g_strdup_printf("d%d", k - 1) : g_strdup("p");
        g_autofree char *own = g_strdup_printf("(s32[%s]{0:T(1024)}, s32[25]{0:T(1)S(11)}, s32[0]{0})", sizes[k]);
        g_string_append_printf(text, "  %%s%d = ((), (), %s) async-start(), async_execution_thread=\"sparsecore\", calls=%%body%d\n", k, own, k);
        g_string_append_printf(text,
                               "  %%u%d = ((f32[64,128]{1,0}), f32[64,128]{1,0}, %s) async-update(%%s%d, %%%s), output_to_operand_aliasing={{2,0}: (0, {2,0}), "
                               "{2,1}: (0, {2,1}), {2,2}: (0, {2,2})}\n",
                               k, own, k, from);
        g_string_append_printf(text, "  %%d%d = f32[64,128]{1,0} async-done(%%u%d)\n", k, k);
        if (k == 1)
            g_string_append(text, "  %between = f32[8,128]{1,0} slice(%d1), slice={[0:8], [0:128]}\n");
    }
    g_string_append(text,
                    "  %all = f32[64,128]{1,0} concatenate(%between, %between, %between, %between, %between, %between, %between, %between), dimensions={0}\n"
                    "  ROOT %n = f32[64,128]{1,0} add(%d2, %all)\n}\n");
    g_autoptr(EchProgram) program = ech_test_program(text->str, "tpu7x");
    assign(program);
    return ech_program_memory_analysis(program).temp;
}

/* What is there between calls lies in what the first of them had, so that what the second had is free for the third (expert choice over eight tpu7x). */
START_TEST(sparse_cores_share)
{
    ck_assert_uint_eq(sparse_calls("8192"), sparse_calls("16384"));
    ck_assert_uint_eq(sparse_calls("16384") + 131072, sparse_calls("32768"));
}
END_TEST

/* Results of a SparseCore's kernel need no table, as the core's own do. */
START_TEST(sparse_cores_have_no_tables)
{
    EchBytes temp[2];
    for (int k = 0; k < 2; k++) {
        g_autofree char *text =
            g_strdup_printf("HloModule two, is_scheduled=true\n\n"
                            "%%wrapped (b: f32[64,128]) -> (f32[64,128], f32[64,128]) {\n"
                            "  %%b = f32[64,128]{1,0:T(8,128)} parameter(0)\n"
                            "  ROOT %%c = (f32[64,128]{1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)}) custom-call(%%b), custom_call_target=\"offload\"\n"
                            "}%s\n\n"
                            "ENTRY %%main (p: f32[64,128]) -> f32[64,128] {\n"
                            "  %%p = f32[64,128]{1,0:T(8,128)} parameter(0)\n"
                            "  %%start = ((f32[64,128]{1,0:T(8,128)}), (f32[64,128]{1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)}), s32[8]{0}) async-start(%%p), "
                            "async_execution_thread=\"sparsecore\", "
                            "calls=%%wrapped\n"
                            "  %%done = (f32[64,128]{1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)}) async-done(%%start)\n"
                            "  %%x = f32[64,128]{1,0:T(8,128)} get-tuple-element(%%done), index=0\n"
                            "  %%y = f32[64,128]{1,0:T(8,128)} get-tuple-element(%%done), index=1\n"
                            "  ROOT %%n = f32[64,128]{1,0:T(8,128)} add(%%x, %%y)\n}\n",
                            k == 0 ? ", execution_thread=\"sparsecore\"" : "");
        g_autoptr(EchProgram) program = ech_test_program(text, "tpu7x");
        assign(program);
        temp[k] = ech_program_memory_analysis(program).temp;
    }
    ck_assert_uint_eq(temp[0] + 16384, temp[1]);
}
END_TEST

/* A slice that a loop's iteration begins to bring for the next, which waits for it (libtpu's pipelined loops, tpu7x): its start is in what the loop carries,
 * and stays as it is, where a copy that is waited for beside goes. */
START_TEST(carried_starts_stay)
{
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
#define ECH_STARTED "((f32[4,1024]{1,0:T(4,128)}), f32[1,1024]{1,0:T(1,128)S(1)}, s32[]{:S(2)})"
#define ECH_CARRIED "(s32[]{:T(128)}, " ECH_STARTED ", f32[4,1024]{1,0:T(4,128)})"
#define ECH_START(name, of, calls) "  %" name " = " ECH_STARTED " async-start(%" of "), calls=%" calls "\n"
    g_autoptr(EchProgram) program = ech_test_program(
        "HloModule m, is_scheduled=true\n\n"
        "%cut (q: f32[4,1024]) -> f32[1,1024] {\n  %q = f32[4,1024]{1,0:T(4,128)} parameter(0)\n"
        "  ROOT %x = f32[1,1024]{1,0:T(1,128)S(1)} slice(%q), slice={[0:1], [0:1024]}\n}\n\n"
        "%first (r: f32[4,1024]) -> f32[1,1024] {\n  %r = f32[4,1024]{1,0:T(4,128)} parameter(0)\n"
        "  ROOT %y = f32[1,1024]{1,0:T(1,128)S(1)} slice(%r), slice={[0:1], [0:1024]}\n}\n\n"
        "%body (c: " ECH_CARRIED ") -> " ECH_CARRIED " {\n  %c = " ECH_CARRIED " parameter(0)\n"
        "  %i = s32[]{:T(128)} get-tuple-element(%c), index=0\n  %one = s32[]{:T(128)} constant(1)\n  %j = s32[]{:T(128)} add(%i, %one)\n"
        "  %under = " ECH_STARTED " get-tuple-element(%c), index=1\n  %w = f32[4,1024]{1,0:T(4,128)} get-tuple-element(%c), index=2\n"
        "  %came = f32[1,1024]{1,0:T(1,128)S(1)} async-done(%under)\n"
        "  %fetch = (f32[4,1024]{1,0:T(4,128)S(1)}, f32[4,1024]{1,0:T(4,128)}, u32[]{:S(2)}) copy-start(%w)\n"
        "  %near = f32[4,1024]{1,0:T(4,128)S(1)} copy-done(%fetch)\n"
        "  %all = f32[4,1024]{1,0:T(4,128)S(1)} concatenate(%came, %came, %came, %came), dimensions={0}\n"
        "  %n = f32[4,1024]{1,0:T(4,128)} add(%near, %all)\n" ECH_START(
            "next", "n", "cut") "  ROOT %t = " ECH_CARRIED " tuple(%j, %next, %n)\n}\n\n"
                                "%condition (d: " ECH_CARRIED ") -> pred[] {\n  %d = " ECH_CARRIED " parameter(0)\n"
                                "  %k = s32[]{:T(128)} get-tuple-element(%d), index=0\n  %trips = s32[]{:T(128)} constant(8)\n"
                                "  ROOT %less = pred[]{:T(512)} compare(%k, %trips), direction=LT\n}\n\n"
                                "ENTRY %main (p: f32[4,1024]) -> f32[4,1024] {\n  %p = f32[4,1024]{1,0:T(4,128)} parameter(0)\n  %zero = s32[]{:T(128)} "
                                "constant(0)\n" ECH_START(
                                    "begun", "p", "first") "  %s = " ECH_CARRIED " tuple(%zero, %begun, %p)\n"
                                                           "  %loop = " ECH_CARRIED " while(%s), condition=%condition, body=%body\n  %last = " ECH_STARTED
                                                           " get-tuple-element(%loop), index=1\n"
                                                           "  %end = f32[1,1024]{1,0:T(1,128)S(1)} async-done(%last)\n  %out = f32[4,1024]{1,0:T(4,128)} "
                                                           "get-tuple-element(%loop), index=2\n"
                                                           "  %more = f32[4,1024]{1,0:T(4,128)S(1)} concatenate(%end, %end, %end, %end), dimensions={0}\n"
                                                           "  ROOT %o = f32[4,1024]{1,0:T(4,128)} add(%out, %more)\n}\n",
        "tpu7x");
#undef ECH_START
#undef ECH_CARRIED
#undef ECH_STARTED
    g_autoptr(EchProgram) bare = ech_place_strip(program, ECH_SPACE_VECTOR, diag, &error);
    ck_assert_msg(bare != NULL, "%s", error ? error->message : "");
    unsigned starts = 0, copies = 0;
    for (size_t k = 0; k < bare->n_instructions; k++) {
        starts += bare->instructions[k].opcode == ECH_HLO_ASYNC_START;
        copies += bare->instructions[k].opcode == ECH_HLO_COPY_START;
    }
    ck_assert_uint_eq(starts, 2);
    ck_assert_uint_eq(copies, 0);
}
END_TEST

/* libtpu 0.0.34 has it called by a `call`, and hands it the order of its ring, which a custom call holds, and a token. */
START_TEST(collectives_called_on_sparse_cores)
{
    g_autoptr(EchProgram) program = ech_test_program(
        "HloModule gather, is_scheduled=true, num_partitions=8\n\n"
        "%called (a: f32[1,512], r: s32[32], t: token[]) -> f32[1,4096] {\n"
        "  %t = token[] parameter(2)\n"
        "  %r = s32[32]{0:T(128)} parameter(1)\n"
        "  %a = f32[1,512]{1,0:T(1,128)} parameter(0)\n"
        "  %held = s32[32]{0:T(128)} custom-call(%r), custom_call_target=\"Noop\", custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})}\n"
        "  ROOT %g = f32[1,4096]{1,0:T(1,128)} all-gather(%a), channel_id=1, replica_groups=[1,8]<=[8], dimensions={1}, use_global_device_ids=true\n"
        "}, execution_thread=\"sparsecore\"\n\n"
        "%wrapped (b: f32[1,512], s: s32[32], u: token[]) -> f32[1,4096] {\n"
        "  %u = token[] parameter(2)\n"
        "  %b = f32[1,512]{1,0:T(1,128)} parameter(0)\n"
        "  %s = s32[32]{0:T(128)} parameter(1)\n"
        "  ROOT %c = f32[1,4096]{1,0:T(1,128)} call(%b, %s, %u), to_apply=%called\n"
        "}, execution_thread=\"sparsecore\"\n\n"
        "ENTRY %main (p: f32[1,512], order: s32[32]) -> f32[1,4096] {\n"
        "  %p = f32[1,512]{1,0:T(1,128)} parameter(0)\n"
        "  %order = s32[32]{0:T(128)} parameter(1)\n"
        "  %ready = token[] after-all()\n"
        "  %start = ((f32[1,512]{1,0:T(1,128)}, s32[32]{0:T(128)}, token[]), f32[1,4096]{1,0:T(1,128)}) async-start(%p, %order, %ready),"
        " async_execution_thread=\"sparsecore\", calls=%wrapped\n"
        "  ROOT %done = f32[1,4096]{1,0:T(1,128)} async-done(%start)\n"
        "}\n",
        "tpu-v6e");
    assign(program);
    g_autoptr(EchTrace) trace = lower(program);
    const EchOp *op = ech_test_op(trace, ECH_OP_COLLECTIVE, NULL);
    ck_assert_int_eq(op->collective, ECH_COLLECTIVE_ALL_GATHER);
    ck_assert_uint_eq(op->memory_from, 8);
    ck_assert_uint_eq(op->bytes, 2048);
    ck_assert_str_eq(ech_trace_string(trace, op->launch), "devices=8 stride=1 sparse");
}
END_TEST

/* "X-start" of an opcode that is not asynchronous by itself is an async-start whose computation was folded away. */
START_TEST(folded_starts)
{
    g_autoptr(EchProgram) p =
        ech_test_program("HloModule folded, is_scheduled=true\n\n"
                         "ENTRY %main (a: f32[64,128]) -> f32[8,128] {\n"
                         "  %a = f32[64,128]{1,0:T(8,128)} parameter(0)\n"
                         "  %s = ((f32[64,128]{1,0:T(8,128)}), f32[8,128]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) slice-start(%a), slice={[0:8], [0:128]}\n"
                         "  %d = f32[8,128]{1,0:T(8,128)S(1)} slice-done(%s)\n"
                         "  ROOT %n = f32[8,128]{1,0:T(8,128)} negate(%d)\n}\n",
                         "tpu-v5e");
    const EchInstruction *start = &p->instructions[ech_test_instruction(p, "s")], *done = &p->instructions[ech_test_instruction(p, "d")];
    ck_assert_uint_eq(start->opcode, ECH_HLO_ASYNC_START);
    ck_assert_str_eq(start->opcode_name, "slice-start");
    ck_assert_uint_eq(done->opcode, ECH_HLO_ASYNC_DONE);
    assign(p);
    g_autoptr(EchTrace) trace = lower(p);
    ck_assert_uint_eq(ech_test_count(trace, ECH_OP_COPY), 1);
    ck_assert_uint_eq(ech_test_op(trace, ECH_OP_COPY, NULL)->bytes, 8 * 128 * 4);
}
END_TEST

/* A start that is written with what it runs stands for a computation of that one instruction, whatever that calls itself. */
static const struct {
    const char *folded, *called, *start;
} unfolded[] = {
    {"fusion-start(%a, %j), kind=kCustom, calls=%put",
     "%wrapped (x: f32[64,1024], y: s32[]) -> f32[64,1024] {\n"
     "  %x = f32[64,1024]{1,0} parameter(0)\n  %y = s32[] parameter(1)\n"
     "  ROOT %w = f32[64,1024]{1,0} fusion(%x, %y), kind=kCustom, calls=%put\n}\n\n",
     "async-start(%a, %j), calls=%wrapped"},
    {"all-to-all-start(%a, %j), replica_groups={{0,1}}, to_apply=%put",
     "%wrapped (x: f32[64,1024], y: s32[]) -> f32[64,1024] {\n"
     "  %x = f32[64,1024]{1,0} parameter(0)\n  %y = s32[] parameter(1)\n"
     "  ROOT %w = f32[64,1024]{1,0} all-to-all(%x, %y), replica_groups={{0,1}}, to_apply=%put\n}\n\n",
     "async-start(%a, %j), calls=%wrapped"},
};

static EchMemoryAnalysis started_with(const char *called, const char *start, size_t *ret_ops)
{
    g_autofree char *text = g_strdup_printf("HloModule m, is_scheduled=true\n\n"
                                            "%%put (q: f32[64,1024], i: s32[]) -> f32[64,1024] {\n"
                                            "  %%q = f32[64,1024]{1,0} parameter(0)\n  %%i = s32[] parameter(1)\n  %%z = s32[] constant(0)\n"
                                            "  %%u = f32[1,1024]{1,0} slice(%%q), slice={[0:1], [0:1024]}\n"
                                            "  %%e = f32[64,1024]{1,0} exponential(%%q)\n"
                                            "  ROOT %%d = f32[64,1024]{1,0} dynamic-update-slice(%%e, %%u, %%i, %%z)\n}\n\n"
                                            "%sENTRY %%main (p: f32[64,1024], j: s32[]) -> f32[64,1024] {\n"
                                            "  %%p = f32[64,1024]{1,0} parameter(0)\n  %%j = s32[] parameter(1)\n"
                                            "  %%a = f32[64,1024]{1,0} negate(%%p)\n"
                                            "  %%s = ((f32[64,1024]{1,0}, s32[]), f32[64,1024]{1,0}, u32[]) %s\n"
                                            "  %%t = f32[64,1024]{1,0} %s(%%s)\n"
                                            "  ROOT %%r = f32[64,1024]{1,0} tanh(%%t)\n}\n",
                                            called, start, g_str_has_prefix(start, "fusion") ? "fusion-done" : "async-done");
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    g_autoptr(EchTrace) trace = lower(program);
    *ret_ops = ech_trace_n_ops(trace);
    return ech_program_memory_analysis(program);
}

START_TEST(folded_starts_run_one_instruction)
{
    size_t n_folded, n_whole;
    EchMemoryAnalysis folded = started_with("", unfolded[_i].folded, &n_folded), whole = started_with(unfolded[_i].called, unfolded[_i].start, &n_whole);
    ck_assert_uint_gt(whole.temp, 0);
    ck_assert_uint_eq(folded.temp, whole.temp);
    ck_assert_uint_eq(folded.peak, whole.peak);
    ck_assert_uint_eq(n_folded, n_whole);
}
END_TEST

START_TEST(cuts_over_cores_count_from_the_most_major)
{
    EchLayout layout;
    GError *error = NULL;
    static const char text[] = "pred[100,300]{0,1:T(8,128)(4,1)S(1)SC(0:152)}";
    ck_assert_ok(ech_layout_parse(text, strlen(text), &layout, NULL, &error), error);
    ck_assert_uint_eq(ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU), 19456);
}
END_TEST

/* As compilers of late 2026 print elements of tuples, without instructions of their own. */
START_TEST(elements_named_by_their_tuples)
{
    static const char text[] = "HloModule m, is_scheduled=true\n\n"
                               "ENTRY %%main (p: (f32[8], (s32[4], f32[2]))) -> f32[2] {\n"
                               "  %%p = (f32[8]{0}, (s32[4]{0}, f32[2]{0})) parameter(0)\n"
                               "  %%n = f32[2]{0} negate(%%p#1#1)\n"
                               "  ROOT %%s = f32[2]{0} add(%%n, f32[2]{0} %%p#1#1)%s\n}\n";
    g_autofree char *good = g_strdup_printf(text, ""), *bad = g_strdup_printf(text, "\n  %q = f32[2]{0} negate(%p#2)");
    g_autoptr(EchProgram) p = ech_test_program(good, "tpu-v5e");
    ck_assert_uint_eq(p->n_instructions, 5); /* each element once */
    EchId inner = ech_test_instruction(p, "p#1"), element = ech_test_instruction(p, "p#1#1");
    ck_assert_uint_eq(p->instructions[element].opcode, ECH_HLO_GET_TUPLE_ELEMENT);
    ck_assert_int_eq(p->instructions[element].number, 1);
    ck_assert_uint_eq(ech_program_operand(p, &p->instructions[element], 0), inner);
    ck_assert_uint_eq(p->shapes[p->instructions[element].shape].count, 2);
    ck_assert_uint_eq(ech_program_operand(p, &p->instructions[ech_test_instruction(p, "s")], 1), element);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)bad, strlen(bad), "m");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, "hlo", NULL, &error);
    ck_assert_ptr_null(import);
    ck_assert_str_eq(error->message, "m:7:26: operand 'p#2' is not defined before its use");
}
END_TEST

/* libtpu counts no temporaries where they are scalars alone, arrays of one element among them. */
START_TEST(arrays_of_one_element_are_scalars)
{
    static const char text[] = "HloModule m, is_scheduled=true\n\n"
                               "ENTRY %%main (p: s32[%u]) -> s32[512] {\n"
                               "  %%p = s32[%u]{0:T(128)} parameter(0)\n"
                               "  %%c = s32[%u]{0:T(128)} copy(%%p)\n"
                               "  %%b = s32[]{:T(128)} %s(%%c)\n"
                               "  ROOT %%r = s32[512]{0:T(512)} broadcast(%%b), dimensions={}\n}\n";
    g_autofree char *one = g_strdup_printf(text, 1, 1, 1, "bitcast"), *two = g_strdup_printf(text, 2, 2, 2, "custom-call");
    g_autoptr(EchProgram) p = ech_test_program(one, "tpu-v5e");
    g_autoptr(EchProgram) q = ech_test_program(two, "tpu-v5e");
    assign(p);
    assign(q);
    ck_assert_uint_eq(ech_program_memory_analysis(p).temp, 0);
    ck_assert_uint_gt(ech_program_memory_analysis(q).temp, 0);
}
END_TEST

/* JAX writes what a Pallas kernel in a mesh says of itself over several lines. */
START_TEST(attributes_go_on_over_lines)
{
    g_autoptr(EchProgram) p =
        ech_test_program("HloModule kernel, is_scheduled=true\n\n"
                         "ENTRY %main (a: f32[256,512]) -> f32[256,512] {\n"
                         "  %a = f32[256,512]{1,0:T(8,128)} parameter(0)\n"
                         "  %k = f32[256,512]{1,0:T(8,128)} custom-call(%a), custom_call_target=\"tpu_custom_call\", frontend_attributes={kernel_metadata={\n"
                         "\"mesh_axes\":\"[\\\"x\\\"]\",\n"
                         "  \"more\": \"}\"\n"
                         "}}, metadata={op_name=\"jit(kernel)\"}\n"
                         "  ROOT %n = f32[256,512]{1,0:T(8,128)} negate(%k)\n}\n",
                         "tpu-v5e");
    ck_assert_uint_eq(p->n_instructions, 3);
    size_t n;
    ck_assert_ptr_nonnull(ech_program_attribute(&p->instructions[1], "metadata", &n));
    /* A brace that nothing closes ends with its line. */
    g_autoptr(EchProgram) open = ech_test_program("HloModule kernel, is_scheduled=true\n\n"
                                                  "ENTRY %main (a: f32[2]) -> f32[2] {\n"
                                                  "  %a = f32[2]{0} parameter(0), frontend_attributes={\n"
                                                  "  ROOT %n = f32[2]{0} negate(%a)\n}\n",
                                                  "tpu-v5e");
    ck_assert_uint_eq(open->n_instructions, 2);
}
END_TEST

/* What v5p's compiler charges gathers, its own custom calls and Pallas kernels that say what they cost (read from its log). */
START_TEST(charges_of_gathers_and_custom_calls)
{
    g_autoptr(EchProgram) p =
        ech_test_program("HloModule charges, is_scheduled=true\n\n"
                         "ENTRY %main (t: f32[64,64], i: s32[64], v: s32[64]) -> (f32[64,64], s32[64]) {\n"
                         "  %t = f32[64,64]{0,1:T(8,128)} parameter(0)\n"
                         "  %i = s32[64]{0:T(128)} parameter(1)\n"
                         "  %v = s32[64]{0:T(128)} parameter(2)\n"
                         "  %g = f32[64,64]{1,0:T(8,128)} gather(%t, %i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
                         "index_vector_dim=1, slice_sizes={64,1}\n"
                         "  %h = s32[64]{0:T(128)} gather(%v, %i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                         "slice_sizes={1}\n"
                         "  %x = f32[64,64]{1,0:T(8,128)} custom-call(%g), custom_call_target=\"X64SplitLow\"\n"
                         "  %k = f32[64,64]{1,0:T(8,128)} custom-call(%x), custom_call_target=\"tpu_custom_call\", "
                         "backend_config={\"custom_call_config\":{\"body\":\"\",\"cost_estimate\":{\"bytes_accessed\":22020096,\"flops\":1073741824,"
                         "\"transcendentals\":0}}}\n"
                         "  %q = f32[64,64]{1,0:T(8,128)} custom-call(%k), custom_call_target=\"tpu_custom_call\", backend_config={\"custom_call_config\":{}}\n"
                         "  ROOT %r = (f32[64,64]{1,0:T(8,128)}, s32[64]{0:T(128)}) tuple(%q, %h)\n}\n",
                         "tpu-v5p");
    const EchPlaceChip *chip = ech_place_chip("v5p");
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(p, chip);
    ck_assert_uint_eq(ech_place_costs_operand(costs, p, 3, 0, 0), 262144);
    ck_assert_uint_eq(ech_place_costs_operand(costs, p, 4, 0, 0), 524288);
    ck_assert_double_eq_tol((double)costs->seconds[5], chip->clock_s, 1e-15);
    ck_assert_double_eq_tol((double)costs->seconds[6], 22020096 / chip->hbm_bytes_per_s, 1e-11);
    ck_assert_double_eq_tol((double)costs->seconds[7], chip->clock_s, 1e-15);
}
END_TEST

/* A sum over chips is written to memory, as compilers for seven chips count it (jaxlib 0.10.2), and what a kernel makes in VMEM of its own; a scalar of the
 * core's own is not. */
START_TEST(scalars_that_are_written_are_temporaries)
{
    static const char *const made[] = {
        "all-reduce(%m), replica_groups={{0,1,2,3}}, to_apply=%add",
        "broadcast(%m), dimensions={}, backend_config={\"used_scoped_memory_configs\":[{\"memory_space\":\"1\",\"offset\":\"0\",\"size\":\"1024\"}]}",
        "negate(%m), backend_config={\"used_scoped_memory_configs\":[]}"};
    g_autofree char *text = g_strdup_printf("HloModule m, is_scheduled=true, num_partitions=4\n\n"
                                            "%%add (a: f32[], b: f32[]) -> f32[] {\n"
                                            "  %%a = f32[]{:T(128)} parameter(0)\n  %%b = f32[]{:T(128)} parameter(1)\n"
                                            "  ROOT %%c = f32[]{:T(128)} add(%%a, %%b)\n}\n\n"
                                            "%%scaled (d: f32[256,256], e: f32[]) -> f32[256,256] {\n"
                                            "  %%d = f32[256,256]{1,0:T(8,128)} parameter(0)\n  %%e = f32[]{:T(128)} parameter(1)\n"
                                            "  %%f = f32[256,256]{1,0:T(8,128)} broadcast(%%e), dimensions={}\n"
                                            "  ROOT %%g = f32[256,256]{1,0:T(8,128)} multiply(%%d, %%f)\n}\n\n"
                                            "ENTRY %%main (x: f32[256,256], s: f32[]) -> f32[256,256] {\n"
                                            "  %%x = f32[256,256]{1,0:T(8,128)} parameter(0)\n  %%s = f32[]{:T(128)} parameter(1)\n"
                                            "  %%m = f32[]{:T(128)S(6)} multiply(%%s, %%s)\n  %%p = f32[]{:T(128)} %s\n"
                                            "  ROOT %%r = f32[256,256]{1,0:T(8,128)} fusion(%%x, %%p), kind=kLoop, calls=%%scaled\n}\n",
                                            made[_i]);
    g_autoptr(EchProgram) program = ech_test_program(text, "tpu-v5e");
    assign(program);
    ck_assert_uint_eq(ech_program_memory_analysis(program).temp, _i < 2 ? 16384 : 0);
}
END_TEST

/* Tables of what is sent and of what comes: several arrays that are permuted have one less than several that are gathered (jaxlib 0.10.2: 13,056 bytes). */
START_TEST(arrays_permuted_together)
{
    g_autoptr(EchProgram) program =
        ech_test_program("HloModule m, is_scheduled=true, num_partitions=2\n\nENTRY %main (x: f32[1024], y: f32[1024]) -> f32[1024] {\n"
                         "  %x = f32[1024]{0} parameter(0)\n  %m = f32[1024]{0} negate(%x)\n"
                         "  %y = f32[1024]{0} parameter(1)\n  %a = f32[1024]{0} negate(%y)\n"
                         "  %s = ((f32[1024]{0}, f32[1024]{0}), (f32[1024]{0}, f32[1024]{0})) collective-permute-start(%a, %m), "
                         "channel_id=1, source_target_pairs={{0,1},{1,0}}\n"
                         "  %d = (f32[1024]{0}, f32[1024]{0}) collective-permute-done(%s)\n"
                         "  %u = f32[1024]{0} get-tuple-element(%d), index=1\n  %v = f32[1024]{0} get-tuple-element(%d), index=0\n"
                         "  ROOT %r = f32[1024]{0} add(%v, %u)\n}\n",
                         "h100-sxm");
    assign(program);
    ck_assert_uint_eq(ech_program_memory_analysis(program).temp, 13056);
}
END_TEST

/* Rows that come from other devices are put into the operand that has room for them, at once or behind one's back (jaxlib 0.10.2). */
START_TEST(ragged_rows_come_in_place)
{
    static const char *const made[] = {"  ROOT %r = f32[2048,128]{1,0} ragged-all-to-all(%x, %c, %i, %i, %i, %i), channel_id=1, replica_groups={{0,1}}\n",
                                       "  %s = ((f32[1024,128]{1,0}, f32[2048,128]{1,0}, s64[2]{0}, s64[2]{0}, s64[2]{0}, s64[2]{0}), f32[2048,128]{1,0}) "
                                       "ragged-all-to-all-start(%x, %c, %i, %i, %i, %i), channel_id=1, replica_groups={{0,1}}\n"
                                       "  ROOT %r = f32[2048,128]{1,0} ragged-all-to-all-done(%s)\n"};
    g_autofree char *text = g_strdup_printf("HloModule m, is_scheduled=true, num_partitions=2\n\n"
                                            "ENTRY %%main (x: f32[1024,128], o: f32[2048,128], i: s64[2]) -> f32[2048,128] {\n"
                                            "  %%x = f32[1024,128]{1,0} parameter(0)\n  %%o = f32[2048,128]{1,0} parameter(1)\n"
                                            "  %%i = s64[2]{0} parameter(2)\n  %%c = f32[2048,128]{1,0} copy(%%o)\n%s}\n",
                                            made[_i]);
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    EchMemoryAnalysis m = ech_program_memory_analysis(program);
    ck_assert_uint_eq(m.output, 1 << 20);
    ck_assert_uint_lt(m.temp, 1024);
}
END_TEST

/* What collectives take of a GPU's memory lies beside the rest, and counts (xla_gpu_enable_nccl_user_buffers, jaxlib 0.10.2). */
START_TEST(memory_set_apart_is_a_gpus)
{
    g_autofree char *text = g_strdup_printf("HloModule m, is_scheduled=true\n\nENTRY %%main (x: f32[256,256]) -> f32[256,256] {\n"
                                            "  %%x = f32[256,256]{1,0} parameter(0)\n  %%n = f32[256,256]{1,0} negate(%%x)\n"
                                            "  %%c = f32[256,256]{1,0%s} copy(%%n)\n  %%d = f32[256,256]{1,0} add(%%c, %%n)\n"
                                            "  ROOT %%r = f32[256,256]{1,0} add(%%d, %%c)\n}\n",
                                            _i == 0 ? ":S(1)" : "");
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    ck_assert_uint_eq(ech_program_memory_analysis(program).temp, 262144);
    g_autoptr(EchTrace) trace = lower(program);
    EchBytes end = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++)
        end = MAX(end, ech_trace_buffers(trace)[b].offset + ech_trace_buffers(trace)[b].bytes);
    ck_assert_uint_eq(end, 3 * 262144);
}
END_TEST

/* As a GPU's compiler sizes them (1024008 bytes by the buffer assignment of jaxlib 0.10.2): the true lengths lie behind. */
START_TEST(arrays_of_bounded_lengths)
{
    g_autoptr(EchProgram) p = ech_test_program("HloModule m, is_scheduled=true\n\nENTRY %main (x: f32[1000,256], n: s32[]) -> f32[<=1000,256] {\n"
                                               "  %x = f32[1000,256]{1,0} parameter(0)\n  %n = s32[] parameter(1)\n"
                                               "  ROOT %c = f32[<=1000,256]{1,0} custom-call(%x, %n), custom_call_target=\"SliceToDynamic\"\n}\n",
                                               "h100-sxm");
    ck_assert_uint_eq(p->shapes[p->instructions[ech_test_instruction(p, "x")].shape].bytes, 1024000);
    ck_assert_uint_eq(p->shapes[p->instructions[ech_test_instruction(p, "c")].shape].bytes, 1024008);
}
END_TEST

/* Each of a tuple's arrays taken by itself: what reads nothing keeps no figures of all the others. */
START_TEST(charges_of_tuples)
{
    enum { N = 300 };
    g_autoptr(GString) text = g_string_new("HloModule m, is_scheduled=true\n\nENTRY %main (p: f32[8,128]) -> f32[8,128] {\n"
                                           "  %p = f32[8,128]{1,0:T(8,128)} parameter(0)\n  %t = (");
    for (int k = 0; k < N; k++)
        g_string_append_printf(text, "%sf32[8,128]{1,0:T(8,128)}", k ? ", " : "");
    for (int k = 0; k < N; k++)
        g_string_append_printf(text, "%s%%p", k ? ", " : ") tuple(");
    g_string_append(text, ")\n");
    for (int k = 0; k < N; k++)
        g_string_append_printf(text, "  %%g%d = f32[8,128]{1,0:T(8,128)} get-tuple-element(%%t), index=%d\n", k, k);
    g_string_append(text, "  ROOT %r = f32[8,128]{1,0:T(8,128)} add(%g0, %g1)\n}\n");
    g_autoptr(EchProgram) p = ech_test_program(text->str, "tpu-v5e");
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(p, ech_place_chip("v5e"));
    EchId root = ech_test_instruction(p, "r"), taken = ech_test_instruction(p, "g7");
    ck_assert_uint_le(costs->first_operand[p->n_instructions], 2 * N);
    ck_assert_uint_eq(ech_place_costs_operand(costs, p, taken, 0, 7), 0);
    ck_assert_uint_eq(ech_place_costs_operand(costs, p, root, 1, 0), 4096);
}
END_TEST

/* Gathers and scatters in fusions cost as they are inside: v5p's compiler charges eight times half a thousand rows of 256. */
START_TEST(fusions_that_move_rows_cost_as_the_compiler_says)
{
    g_autoptr(EchProgram) p = ech_test_program(
        "HloModule m, is_scheduled=true\n\n"
        "%add (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n  ROOT %s = f32[] add(%x, %y)\n}\n\n"
        "%rows (t: f32[4096,256], i: s32[500], u: f32[500,256]) -> f32[4096,256] {\n"
        "  %t = f32[4096,256]{1,0:T(8,128)} parameter(0)\n  %i = s32[500]{0:T(512)} parameter(1)\n  %u = f32[500,256]{1,0:T(8,128)} parameter(2)\n"
        "  ROOT %sc = f32[4096,256]{1,0:T(8,128)} scatter(%t, %i, %u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add\n}\n\n"
        "%columns (t2: f32[16,8], i2: s32[8]) -> f32[8,16] {\n"
        "  %t2 = f32[16,8]{0,1:T(8,128)} parameter(0)\n  %i2 = s32[8]{0:T(128)} parameter(1)\n"
        "  %g2 = f32[16,8]{1,0:T(8,128)} gather(%t2, %i2), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, "
        "slice_sizes={16,1}\n"
        "  ROOT %tr = f32[8,16]{1,0:T(8,128)} transpose(%g2), dimensions={1,0}\n}\n\n"
        "%again (a: bf16[6,768,768]) -> bf16[6,768,768] {\n  %a = bf16[6,768,768]{2,1,0:T(16,128)(2,1)} parameter(0)\n"
        "  ROOT %b = bf16[6,768,768]{2,1,0:T(8,128)(2,1)} copy(%a)\n}\n\n"
        "%slice (w: bf16[6,768,768], n: s32[]) -> bf16[1,768,768] {\n  %w = bf16[6,768,768]{2,1,0:T(16,128)(2,1)} parameter(0)\n"
        "  %f = bf16[6,768,768]{2,1,0:T(8,128)(2,1)} fusion(%w), kind=kLoop, calls=%again\n  %n = s32[]{:T(128)} parameter(1)\n"
        "  %z = s32[]{:T(128)} constant(0)\n"
        "  ROOT %d = bf16[1,768,768]{2,1,0:T(8,128)(2,1)} dynamic-slice(%f, %n, %z, %z), dynamic_slice_sizes={1,768,768}\n}\n\n"
        "ENTRY %main (p0: f32[4096,256], p1: s32[500], p2: f32[500,256], p3: f32[16,8], p4: s32[8], p5: bf16[6,768,768], p6: s32[]) -> "
        "f32[4096,256] {\n"
        "  %p0 = f32[4096,256]{1,0:T(8,128)} parameter(0)\n  %p1 = s32[500]{0:T(512)} parameter(1)\n"
        "  %p2 = f32[500,256]{1,0:T(8,128)} parameter(2)\n  %p3 = f32[16,8]{0,1:T(8,128)} parameter(3)\n"
        "  %p4 = s32[8]{0:T(128)} parameter(4)\n  %p5 = bf16[6,768,768]{2,1,0:T(16,128)(2,1)} parameter(5)\n  %p6 = s32[]{:T(128)} parameter(6)\n"
        "  %k1 = f32[8,16]{1,0:T(8,128)} fusion(%p3, %p4), kind=kCustom, calls=%columns\n"
        "  %k2 = bf16[1,768,768]{2,1,0:T(8,128)(2,1)} fusion(%p5, %p6), kind=kLoop, calls=%slice\n"
        "  ROOT %k0 = f32[4096,256]{1,0:T(8,128)} fusion(%p0, %p1, %p2), kind=kCustom, calls=%rows\n}\n",
        "tpu-v5p");
    const EchPlaceChip *chip = ech_place_chip("v5p");
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(p, chip);
    double bytes[3] = {0};
    for (size_t f = 0; f < p->n_flat; f++) {
        const char *name = p->instructions[p->flat[f]].name;
        if (name[0] == 'k')
            bytes[name[1] - '0'] = (double)costs->seconds[p->flat[f]] * chip->hbm_bytes_per_s;
    }
    ck_assert_double_eq_tol(bytes[0], 2 * 8 * 504 * 256 * 4 + 504 * 256 * 4 + 2048, 16);
    ck_assert_double_eq_tol(bytes[1], 9 * 16 * 128 * 4 + 512, 16);
    ck_assert_double_eq_tol(bytes[2], 2 * 768 * 768 * 2 + 512, 16);
}
END_TEST

START_TEST(hostile_programs_are_refused)
{
    static const char *const bad[] = {
        "HloModule m\n",
        "HloModule m, is_scheduled=true\n\nENTRY %main (p: f32[2]) -> f32[2] {\n  ROOT %p = f32[2]{0} add(%q, %q)\n}\n",
        "HloModule m, is_scheduled=true\n\nENTRY %main (p: f32[2]) -> f32[2] {\n  %p = f32[2]{0} parameter(0)\n  ROOT %c = f32[2]{0} call(%p), "
        "to_apply=%main\n}\n",
        "HloModule m, is_scheduled=true\n\n%f (a: f32[2]) -> f32[2] {\n  ROOT %a = f32[2]{0} parameter(0)\n}\n\nENTRY %main (p: f32[2]) -> f32[2] {\n"
        "  %p = f32[2]{0} parameter(0)\n  %x = f32[2]{0} fusion(%p), kind=kLoop, calls=%f\n  ROOT %c = f32[2]{0} call(%x), to_apply=%f\n}\n",
    };
    for (size_t k = 0; k < G_N_ELEMENTS(bad); k++) {
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)bad[k], strlen(bad[k]), "text");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, "hlo", NULL, &error);
        ck_assert_msg(import == NULL && error != NULL, "module %zu was taken", k);
    }
}
END_TEST

/* Every captured program of ../shared: the compiler's figures from the text alone, and a run that never needs more than the compiler gave it. */
START_TEST(captured_programs_from_their_text_alone)
{
    static const char *const names[] = {"tpu_aot/tutorial_activation_offload.v5e",
                                        "tpu_aot/host_copies.v6e",
                                        "tpu_aot/gpt_4x512_nothing.v5e",
                                        "tpu_aot/padding_int4.v3",
                                        "gpu_aot/mlp10_act.h100.pipe",
                                        "gpu_aot/gpt6_offload.h100.on",
                                        "gpu_aot/adam4_offload.a100.on"};
    g_autofree char *root = g_build_filename(ECH_SHARED, "traces", NULL);
    if (ech_test_lacks(root))
        return;
    for (size_t k = 0; k < G_N_ELEMENTS(names); k++) {
        g_autofree char *packed = g_strdup_printf("%s/%s.hlo.txt.gz", root, names[k]), *plain = g_strdup_printf("%s/%s.hlo.txt", root, names[k]);
        g_autofree char *about = g_strdup_printf("%s/%s.json", root, names[k]);
        const char *chip = strrchr(names[k], '.') + 1;
        g_autofree char *device =
            g_str_has_prefix(names[k], "tpu") ? g_strdup_printf("tpu-%s", chip) : g_strdup(strstr(names[k], "a100") ? "a100-80" : "h100-sxm");
        EchImportOptions options = {.device = device, .ignore_beside = true};
        GError *error = NULL;
        g_autoptr(EchImport) import = ech_import_file(g_file_test(packed, G_FILE_TEST_EXISTS) ? packed : plain, NULL, &options, &error);
        ck_assert_ok(import != NULL, error);
        assign(import->program);
        EchMemoryAnalysis m = ech_program_memory_analysis(import->program);
        g_autoptr(JsonParser) parser = json_parser_new();
        ck_assert(json_parser_load_from_file(parser, about, NULL));
        JsonObject *said = json_object_get_object_member(json_node_get_object(json_parser_get_root(parser)), "memory_analysis");
        const struct {
            const char *name;
            EchBytes ours;
        } figures[] = {{"argument_size_in_bytes", m.argument}, {"output_size_in_bytes", m.output},       {"temp_size_in_bytes", m.temp},
                       {"alias_size_in_bytes", m.alias},       {"host_temp_size_in_bytes", m.host_temp}, {"peak_memory_in_bytes", m.peak}};
        for (size_t f = 0; f < G_N_ELEMENTS(figures); f++)
            ck_assert_msg(json_object_get_int_member(said, figures[f].name) == (gint64)figures[f].ours,
                          "%s: %s is %" G_GINT64_FORMAT ", echelon says %" G_GUINT64_FORMAT, names[k], figures[f].name,
                          json_object_get_int_member(said, figures[f].name), figures[f].ours);
        g_autoptr(EchTrace) trace = lower(import->program);
        EchBytes given = m.argument + m.output - m.alias + m.constant + m.temp + 16384, live = peak_of(trace);
        ck_assert_msg(live <= given, "%s: %" G_GUINT64_FORMAT " bytes live of %" G_GUINT64_FORMAT " assigned", names[k], live, given);
    }
}
END_TEST

/* Ten arrays that wait on the host, five of 256 KiB and five of a quarter of that, in the order in which a step that offloads its activations puts them there
 * (+) and brings them back (-): libtpu 0.0.51 places them by best fit, in four and a half of the large ones; tightest first would take five and a half. */
START_TEST(host_arrays_are_placed_by_best_fit)
{
    static const char order[] = "+A+B+a+C+b-a+D-A+c+d-b+E-B+e-c-C-e-D-d-E";
    GString *text = g_string_new("HloModule host, is_scheduled=true\n\nENTRY %main (x: f32[65536], y: f32[16384]) -> f32[65536] {\n"
                                 "  %x = f32[65536]{0:T(1024)} parameter(0)\n  %y = f32[16384]{0:T(1024)} parameter(1)\n");
    for (const char *at = order; *at; at += 2) {
        unsigned n = g_ascii_isupper(at[1]) ? 65536 : 16384;
        char name = at[1];
        if (*at == '+')
            g_string_append_printf(text,
                                   "  %%to%c = (f32[%u]{0:T(1024)S(5)}, f32[%u]{0:T(1024)}, u32[]{:S(2)}) copy-start(%%%c)\n"
                                   "  %%on%c = f32[%u]{0:T(1024)S(5)} copy-done(%%to%c)\n",
                                   name, n, n, n > 16384 ? 'x' : 'y', name, n, name);
        else
            g_string_append_printf(text,
                                   "  %%from%c = (f32[%u]{0:T(1024)}, f32[%u]{0:T(1024)S(5)}, u32[]{:S(2)}) copy-start(%%on%c)\n"
                                   "  %%back%c = f32[%u]{0:T(1024)} copy-done(%%from%c)\n",
                                   name, n, n, name, name, n, name);
    }
    g_string_append(text, "  ROOT %last = f32[65536]{0:T(1024)} add(%backE, %backA)\n}\n");
    g_autofree char *whole = g_string_free(text, FALSE);
    g_autoptr(EchProgram) program = ech_test_program(whole, "tpu7x");
    assign(program);
    ck_assert_uint_eq(ech_program_memory_analysis(program).host_temp, 9 * 131072);
}
END_TEST

/* A loop whose body is a CUDA graph with @more: a slice that is written, of the device's memory or of @host's, the update behind the index, and kernels; the
 * compiler knows its count. */
static EchTrace *graph_loop(const char *more, const char *trips, bool host)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_printf(text,
                    "HloModule graph, is_scheduled=true\n\n"
                    "%%update (p0: f32[4,1024], p1: s32[], p2: f32[1,1024]) -> f32[4,1024] {\n"
                    "  %%p0 = f32[4,1024]{1,0} parameter(0)\n  %%p1 = s32[] parameter(1)\n  %%p2 = f32[1,1024]{1,0} parameter(2)\n  %%z = s32[] constant(0)\n"
                    "  ROOT %%u = f32[4,1024]{1,0} dynamic-update-slice(%%p0, %%p2, %%p1, %%z)\n}\n\n"
                    "%%async (q0: f32[4,1024], q1: s32[], q2: f32[1,1024]) -> f32[4,1024] {\n"
                    "  %%q0 = f32[4,1024]{1,0} parameter(0)\n  %%q1 = s32[] parameter(1)\n  %%q2 = f32[1,1024]{1,0} parameter(2)\n"
                    "  ROOT %%w = f32[4,1024]{1,0} fusion(%%q0, %%q1, %%q2), kind=kLoop, calls=%%update\n}\n\n"
                    "%%next (r0: s32[]) -> s32[] {\n  %%r0 = s32[] parameter(0)\n  %%one = s32[] constant(1)\n  ROOT %%r1 = s32[] add(%%r0, %%one)\n}\n\n"
                    "%%minus (m0: f32[1,1024]) -> f32[1,1024] {\n  %%m0 = f32[1,1024]{1,0} parameter(0)\n  ROOT %%m1 = f32[1,1024]{1,0} negate(%%m0)\n}\n\n"
                    "%%less (l0: s32[]) -> pred[] {\n  %%l0 = s32[] parameter(0)\n  %%four = s32[] constant(4)\n  ROOT %%l1 = pred[] compare(%%l0, %%four), "
                    "direction=LT\n}\n\n"
                    "%%body (t: (s32[], f32[4,1024], f32[1,1024])) -> (s32[], f32[4,1024], f32[1,1024]) {\n"
                    "  %%t = (s32[], f32[4,1024]{1,0}, f32[1,1024]{1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%t), index=0\n"
                    "  %%a = f32[4,1024]{1,0} get-tuple-element(%%t), index=1\n  %%x = f32[1,1024]{1,0} get-tuple-element(%%t), index=2\n"
                    "  %%start = ((f32[4,1024]{1,0}, s32[], f32[1,1024]{1,0}), f32[4,1024]{1,0}, u32[]) async-start(%%a, %%i, %%x), calls=%%async\n"
                    "  %%n1 = f32[1,1024]{1,0} fusion(%%x), kind=kLoop, calls=%%minus\n  %%n2 = f32[1,1024]{1,0} fusion(%%n1), kind=kLoop, calls=%%minus\n%s"
                    "  %%d = f32[4,1024]{1,0} async-done(%%start)\n  %%j = s32[] fusion(%%i), kind=kLoop, calls=%%next\n"
                    "  ROOT %%o = (s32[], f32[4,1024]{1,0}, f32[1,1024]{1,0}) tuple(%%j, %%d, %%n2)\n}\n\n"
                    "%%condition (c: (s32[], f32[4,1024], f32[1,1024])) -> pred[] {\n  %%c = (s32[], f32[4,1024]{1,0}, f32[1,1024]{1,0}) parameter(0)\n"
                    "  %%k = s32[] get-tuple-element(%%c), index=0\n  ROOT %%compared = pred[] fusion(%%k), kind=kLoop, calls=%%less\n}\n\n"
                    "ENTRY %%main (s: s32[], b: f32[4,1024], y: f32[1,1024]) -> (s32[], f32[4,1024], f32[1,1024]) {\n"
                    "  %%s = s32[] parameter(0)\n  %%b = f32[4,1024]{1,0} parameter(1)\n  %%y = f32[1,1024]{1,0} parameter(2)\n"
                    "  %%init = (s32[], f32[4,1024]{1,0}, f32[1,1024]{1,0}) tuple(%%s, %%b, %%y)\n"
                    "  ROOT %%loop = (s32[], f32[4,1024]{1,0}, f32[1,1024]{1,0}) while(%%init), condition=%%condition, body=%%body%s\n}\n",
                    more, trips);
    if (host)
        g_string_replace(text, "f32[4,1024]{1,0}", "f32[4,1024]{1,0:S(5)}", 0);
    g_autoptr(EchImport) import = ech_test_hlo(text->str, "h100-sxm");
    GError *error = NULL;
    EchTrace *trace = ech_program_lower(import->program, NULL, NULL, import->diag, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

static bool has_kernel(const EchTrace *t, const char *name)
{
    for (size_t i = 0; i < ech_trace_n_ops(t); i++)
        if (ech_trace_ops(t)[i].kind == ECH_OP_KERNEL && strcmp(ech_trace_string(t, ech_trace_ops(t)[i].name), name) == 0)
            return true;
    return false;
}

/* XLA makes one CUDA graph of a loop's body that has five commands, which run one after the other: what follows a slice that moves waits for it, and where that
 * stays on the device it is a kernel among the others. What moves is the update, wherever it stands among the operands. A loop whose count is known has no
 * kernel for its condition. */
START_TEST(bodies_that_are_graphs)
{
    static const char more[] = "  %n3 = f32[1,1024]{1,0} fusion(%n1), kind=kLoop, calls=%minus\n",
                      four[] = ", backend_config={\"known_trip_count\":{\"n\":\"4\"}}";
    g_autoptr(EchTrace) graph = graph_loop(more, four, false), sent = graph_loop(more, four, true), few = graph_loop("", "", false);
    const EchOp *moved = ech_test_op(graph, ECH_OP_COPY, "start"), *out = ech_test_op(sent, ECH_OP_COPY, "start"),
                *apart = ech_test_op(few, ECH_OP_COPY, "start");
    ck_assert_uint_eq(moved->bytes, 4096);
    ck_assert_uint_eq(apart->bytes, 4096);
    ck_assert_uint_eq(moved->queue, ech_test_op(graph, ECH_OP_KERNEL, "n1")->queue);
    ck_assert_uint_eq(ech_test_count(graph, ECH_OP_WAIT), 0);
    ck_assert_uint_ne(out->queue, ech_test_op(sent, ECH_OP_KERNEL, "n1")->queue);
    ck_assert_int_eq(out[1].kind, ECH_OP_WAIT);
    ck_assert_uint_eq(ech_test_count(sent, ECH_OP_WAIT), 1);
    ck_assert_uint_ne(apart->queue, ech_test_op(few, ECH_OP_KERNEL, "n1")->queue);
    ck_assert_int_ne(apart[1].kind, ECH_OP_WAIT);
    ck_assert(!has_kernel(graph, "compared"));
    ck_assert(has_kernel(few, "compared"));
}
END_TEST

/* NCCL sums up in place where what it is given is read no more: the result takes its place, and nothing else is needed. */
START_TEST(all_reduces_in_place)
{
    static const char text[] =
        "HloModule jit_f, is_scheduled=true, num_partitions=4\n\n"
        "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = f32[] add(%a, %b)\n}\n\n"
        "%twice (d: f32[65536]) -> f32[65536] {\n  %d = f32[65536]{0} parameter(0)\n  ROOT %e = f32[65536]{0} add(%d, %d)\n}\n\n"
        "ENTRY %main (p: f32[65536]) -> f32[65536] {\n  %p = f32[65536]{0} parameter(0)\n"
        "  %t = f32[65536]{0} fusion(%p), kind=kLoop, calls=%twice\n"
        "  ROOT %r = f32[65536]{0} all-reduce(%t), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%sum\n}\n";
    g_autoptr(EchProgram) program = ech_test_program(text, "h100-sxm");
    assign(program);
    ck_assert_uint_eq(ech_program_memory_analysis(program).temp, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program");
    TCase *small = tcase_create("small"), *captured = tcase_create("captured");
    tcase_add_test(small, in_place_operations_take_their_operands_place);
    tcase_add_test(small, integers_of_arguments_are_followed);
    tcase_add_test(small, integers_of_a_device);
    tcase_add_test(small, conditionals_go_by_arguments);
    tcase_add_test(small, branches_weigh_what_their_loops_do);
    tcase_add_test(small, rows_are_worked_on_alone);
    tcase_add_test(small, branches_keep_what_their_loops_begin_with);
    tcase_add_test(small, asynchronous_tuples_have_tables_of_their_own);
    tcase_add_loop_test(small, scatters_of_several_write_over_each, 0, G_N_ELEMENTS(scattered));
    tcase_add_test(small, asynchronous_computations_do_their_work);
    tcase_add_test(small, asynchronous_loops_do_all_their_trips);
    tcase_add_test(small, asynchronous_computations_take_a_branch);
    tcase_add_test(small, ragged_products_multiply_each_row_once);
    tcase_add_test(small, late_operations_are_known);
    tcase_add_test(small, whole_modules_say_so);
    tcase_add_loop_test(small, transforms_become_products, 0, 6);
    tcase_add_loop_test(small, other_transforms_stay, 0, 7);
    tcase_add_test(small, messages_between_devices_come_and_go);
    tcase_add_loop_test(small, fusions_in_their_operands_place, 0, G_N_ELEMENTS(fused));
    tcase_add_test(small, fetched_operands_hand_their_place_on);
    tcase_add_loop_test(small, arithmetic_takes_a_place_that_is_announced, 0, G_N_ELEMENTS(announced));
    tcase_add_loop_test(small, compilers_fill_memory_as_in_their_day, 0, G_N_ELEMENTS(filled));
    tcase_add_loop_test(small, results_leave_what_is_made_asynchronously, 0, G_N_ELEMENTS(asynchronous));
    tcase_add_test(small, trip_counts);
    tcase_add_test(small, sparse_cores_take_pieces);
    tcase_add_test(small, limits_are_said);
    tcase_add_test(small, what_all_branches_hand_back_is_what_they_got);
    tcase_add_test(small, loops_hand_round_what_they_got);
    tcase_add_test(small, branches_not_taken_hold_nothing);
    tcase_add_test(small, unscheduled_programs_get_an_order);
    tcase_add_test(small, callbacks_go_over_the_hosts_link);
    tcase_add_loop_test(small, collectives_join_their_groups, 0, G_N_ELEMENTS(joined));
    tcase_add_loop_test(small, collectives_write_their_result_alone, 0, G_N_ELEMENTS(started));
    tcase_add_test(small, protobuf_says_what_text_says);
    tcase_add_test(small, collectives_run_on_sparse_cores);
    tcase_add_test(small, collectives_called_on_sparse_cores);
    tcase_add_test(small, sparse_cores_take_turns);
    tcase_add_test(small, sparse_cores_share);
    tcase_add_test(small, carried_starts_stay);
    tcase_add_test(small, sparse_cores_have_no_tables);
    tcase_add_test(small, folded_starts);
    tcase_add_loop_test(small, folded_starts_run_one_instruction, 0, G_N_ELEMENTS(unfolded));
    tcase_add_test(small, cuts_over_cores_count_from_the_most_major);
    tcase_add_test(small, attributes_go_on_over_lines);
    tcase_add_test(small, elements_named_by_their_tuples);
    tcase_add_test(small, arrays_of_one_element_are_scalars);
    tcase_add_test(small, windows_are_counted_as_they_are_reduced);
    tcase_add_test(small, charges_of_gathers_and_custom_calls);
    tcase_add_test(small, charges_of_tuples);
    tcase_add_test(small, arrays_of_bounded_lengths);
    tcase_add_loop_test(small, scalars_that_are_written_are_temporaries, 0, 3);
    tcase_add_test(small, arrays_permuted_together);
    tcase_add_loop_test(small, ragged_rows_come_in_place, 0, 2);
    tcase_add_loop_test(small, memory_set_apart_is_a_gpus, 0, 2);
    tcase_add_test(small, fusions_that_move_rows_cost_as_the_compiler_says);
    tcase_add_test(small, host_arrays_are_placed_by_best_fit);
    tcase_add_test(small, hostile_programs_are_refused);
    tcase_add_test(small, bodies_that_are_graphs);
    tcase_add_test(captured, captured_programs_from_their_text_alone);
    tcase_add_test(small, all_reduces_in_place);
    suite_add_tcase(suite, small);
    suite_add_tcase(suite, captured);
    return ech_test_main(suite);
}
