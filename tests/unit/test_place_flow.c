/* From a schedule to values. Which slices a copy engine can make: the compiler's own choices among slices compiled for this purpose (v5e and v6e agree). */
#include "models/place/flow.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

static const struct {
    const char *from, *to, *bounds;
    bool copies;
} cases[] = {
    /* One dimension, whole tiles or their beginning. */
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1021,2048]{1,0:T(8,128)}", "{[0:1021], [0:2048]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1016,2048]{1,0:T(8,128)}", "{[8:1024], [0:2048]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[6,2048]{1,0:T(8,128)}", "{[4090:4096], [0:2048]}", false},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[4096,896]{1,0:T(8,128)}", "{[0:4096], [128:1024]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[4096,924]{1,0:T(8,128)}", "{[0:4096], [100:1024]}", false},
    {"f32[1048576]{0:T(1024)}", "f32[524160]{0:T(1024)}", "{[128:524288]}", false},
    {"f32[1048576]{0:T(1024)}", "f32[523264]{0:T(1024)}", "{[1024:524288]}", true},
    /* A dimension outside the tile may begin anywhere. */
    {"bf16[16,512,1024]{1,0,2:T(8,128)(2,1)}", "bf16[16,512,100]{1,0,2:T(8,128)(2,1)}", "{[0:16], [0:512], [0:100]}", true},
    {"bf16[16,64,2048]{2,1,0:T(8,128)(2,1)}", "bf16[1,64,2048]{2,1,0:T(8,128)(2,1)}", "{[1:2], [0:64], [0:2048]}", true},
    {"bf16[16,512,1024]{1,0,2:T(8,128)(2,1)}", "bf16[16,84,1024]{1,0,2:T(8,128)(2,1)}", "{[0:16], [16:100], [0:1024]}", false},
    /* Two dimensions, or a stride: kernels. */
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1024,1024]{1,0:T(8,128)}", "{[0:1024], [0:1024]}", false},
    {"bf16[8,16,512,256]{3,2,1,0:T(8,128)(2,1)}", "bf16[2,2,512,256]{3,2,1,0:T(8,128)(2,1)}", "{[2:4], [3:5], [0:512], [0:256]}", false},
    {"bf16[2048,768]{1,0:T(8,128)(2,1)}", "bf16[1024,768]{1,0:T(8,128)(2,1)}", "[0:2047:2], [0:768:1]", false},
    {"bf16[2048,768]{1,0:T(8,128)(2,1)}", "bf16[1024,768]{1,0:T(8,128)(2,1)}", "[0:1024:1], [0:768:1]", true},
    /* Fewer sublanes. */
    {"f32[8192,8]{0,1:T(8,128)}", "f32[8192,4]{0,1:T(4,128)}", "{[0:8192], [0:4]}", true},
    {"f32[8192,8]{0,1:T(8,128)}", "f32[8192,1]{0,1:T(1,128)}", "{[0:8192], [0:1]}", false},
    {"f32[2,2,512,3]{2,3,1,0:T(4,128)}", "f32[2,2,512,2]{2,3,1,0:T(2,128)}", "{[0:2], [0:2], [0:512], [0:2]}", true},
    {"bf16[8,4096]{1,0:T(8,128)(2,1)}", "bf16[2,4096]{1,0:T(2,128)(2,1)}", "{[2:4], [0:4096]}", false},
    /* What cannot be read is not refused. */
    {"f32[8,", "f32[4]", "{[0:4]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1024,1024]{1,0:T(8,128)}", "{[0:1024]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1024,1024]{1,0:T(8,128)}", "", true},
};

START_TEST(slices_that_are_copies)
{
    ck_assert_msg(ech_flow_slice_is_copy(cases[_i].from, cases[_i].to, cases[_i].bounds, strlen(cases[_i].bounds)) == cases[_i].copies, "%s of %s as %s",
                  cases[_i].bounds, cases[_i].from, cases[_i].to);
}
END_TEST

static uint32_t value_at(const EchFlow *flow, uint32_t step, uint32_t leaf)
{
    return flow->value_of[flow->leaf_start[step] + leaf];
}

static const EchFlowLeaf array = {.bytes = 1 << 20, .elements = 1 << 18, .major = 512, .text = "f32[512,512]{1,0:T(8,128)}"};

/* The start of a collective hands on its operand; what it makes is what its end is. */
START_TEST(collectives_hand_on_their_operand)
{
    static const uint32_t operands[] = {0, 1, 2, 3};
    const EchFlowLeaf three[] = {array, array, {.bytes = 4, .space = 2, .text = "u32[]{:S(2)}"}};
    EchFlowInstruction in[] = {
        {.name = "p", .op = ECH_FLOW_PARAMETER, .opcode = "parameter", .entry = true, .leaves = &array, .n_leaves = 1},
        {.name = "a", .opcode = "negate", .entry = true, .operands = &operands[0], .n_operands = 1, .leaves = &array, .n_leaves = 1, .seconds = 1e-6},
        {.name = "s",
         .opcode = "collective-permute-start",
         .entry = true,
         .operands = &operands[1],
         .n_operands = 1,
         .leaves = three,
         .n_leaves = 3,
         .tuple = true},
        {.name = "d", .opcode = "collective-permute-done", .entry = true, .operands = &operands[2], .n_operands = 1, .leaves = &array, .n_leaves = 1},
        {.name = "n",
         .opcode = "negate",
         .entry = true,
         .root = true,
         .operands = &operands[3],
         .n_operands = 1,
         .leaves = &array,
         .n_leaves = 1,
         .seconds = 1e-6},
    };
    for (uint32_t t = 0; t < G_N_ELEMENTS(in); t++)
        in[t].op = ech_flow_op(in[t].opcode);
    g_autoptr(EchFlow) flow = ech_flow_new(in, G_N_ELEMENTS(in), 1, NULL, 0);
    ck_assert_uint_eq(value_at(flow, 2, 0), value_at(flow, 1, 0));
    ck_assert_uint_ne(value_at(flow, 2, 1), value_at(flow, 1, 0));
    ck_assert_uint_eq(value_at(flow, 3, 0), value_at(flow, 2, 1));
    ck_assert_int_eq(flow->problem.steps[2].kind, ECH_MSA_ASYNC_START);
}
END_TEST

/* Another core's work is started without operands and gets them at an update. */
START_TEST(operands_bound_at_an_update)
{
    static const uint32_t body_operand[] = {2}, update[] = {1, 0}, done[] = {4}, last[] = {5}, called[] = {1};
    const EchFlowLeaf context = {.bytes = 64, .space = 9, .text = "s32[16]{0:S(9)}"}, bound[] = {array, array, context};
    EchFlowInstruction in[] = {
        {.name = "p", .opcode = "parameter", .entry = true, .leaves = &array, .n_leaves = 1},
        {.name = "start", .opcode = "async-start", .entry = true, .leaves = &context, .n_leaves = 1, .tuple = true, .called = called, .n_called = 1},
        {.name = "q", .opcode = "parameter", .computation = 1, .leaves = &array, .n_leaves = 1},
        {.name = "k", .opcode = "custom-call", .computation = 1, .root = true, .operands = body_operand, .n_operands = 1, .leaves = &array, .n_leaves = 1},
        {.name = "update", .opcode = "async-update", .entry = true, .operands = update, .n_operands = 2, .leaves = bound, .n_leaves = 3, .tuple = true},
        {.name = "done", .opcode = "async-done", .entry = true, .operands = done, .n_operands = 1, .leaves = &array, .n_leaves = 1},
        {.name = "n", .opcode = "negate", .entry = true, .root = true, .operands = last, .n_operands = 1, .leaves = &array, .n_leaves = 1, .seconds = 1e-6},
    };
    for (uint32_t t = 0; t < G_N_ELEMENTS(in); t++)
        in[t].op = ech_flow_op(in[t].opcode);
    g_autoptr(EchFlow) flow = ech_flow_new(in, G_N_ELEMENTS(in), 2, NULL, 0);
    ck_assert_uint_eq(value_at(flow, 2, 0), value_at(flow, 0, 0));
    ck_assert_uint_eq(value_at(flow, 4, 0), value_at(flow, 0, 0));
    ck_assert_uint_eq(value_at(flow, 4, 1), value_at(flow, 3, 0));
    ck_assert_uint_eq(value_at(flow, 4, 2), value_at(flow, 1, 0));
    ck_assert_uint_eq(value_at(flow, 5, 0), value_at(flow, 3, 0));
}
END_TEST

/* Most computations of a program are inside fusions and have no step: a body's number may be larger than there are steps. What its root makes is there until
 * the body ends. */
START_TEST(bodies_of_large_numbers)
{
    for (uint32_t body = 1; body < 10000; body *= 99) {
        const uint32_t operands[] = {1, 0};
        EchFlowInstruction in[] = {
            {.name = "p", .opcode = "parameter", .entry = true, .leaves = &array, .n_leaves = 1},
            {.name = "q", .opcode = "parameter", .computation = body, .leaves = &array, .n_leaves = 1},
            {.name = "b", .opcode = "negate", .computation = body, .root = true, .operands = operands, .n_operands = 1, .leaves = &array, .n_leaves = 1},
            {.name = "e", .opcode = "after-all", .computation = body},
            {.name = "r", .opcode = "negate", .entry = true, .root = true, .operands = &operands[1], .n_operands = 1, .leaves = &array, .n_leaves = 1},
        };
        for (uint32_t t = 0; t < G_N_ELEMENTS(in); t++)
            in[t].op = ech_flow_op(in[t].opcode);
        g_autoptr(EchFlow) flow = ech_flow_new(in, G_N_ELEMENTS(in), body + 1, NULL, 0);
        ech_flow_clock(flow, in, 0);
        ck_assert_uint_eq(flow->problem.values[value_at(flow, 2, 0)].last, 3);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place_flow");
    TCase *tcase = tcase_create("slices");
    tcase_add_loop_test(tcase, slices_that_are_copies, 0, (int)G_N_ELEMENTS(cases));
    tcase_add_test(tcase, collectives_hand_on_their_operand);
    tcase_add_test(tcase, operands_bound_at_an_update);
    tcase_add_test(tcase, bodies_of_large_numbers);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
