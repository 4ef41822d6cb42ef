/* Unrolled loops: which weights are fetched an iteration ahead, and from when on. */
#include "models/place/loop.h"
#include "tests/support/support.h"

#include <check.h>
#include <limits.h>

#define MIB 1048576
#define KEPT_OUT INT_MAX

enum { ITERATIONS = 6, SIZE = 6, WEIGHTS = 2 * ITERATIONS, ELEMENTS = 1 + WEIGHTS, MOST = 64 };

/* Six times six steps, each reading the one before; the second also reads 5 MiB of its iteration's own, the last 4 MiB. */
typedef struct {
    EchFlowInstruction in[MOST];
    uint32_t operands[MOST][2], called[2], n;
    EchFlowLeaf small, last, early, all[ELEMENTS];
    float compute[MOST], total[MOST];
} Case;

static EchFlowInstruction *add(Case *c, const char *opcode, uint32_t computation, const EchFlowLeaf *leaf)
{
    EchFlowInstruction *in = &c->in[c->n];
    *in = (EchFlowInstruction){.name = "x",
                               .op = ech_flow_op(opcode),
                               .opcode = opcode,
                               .computation = computation,
                               .entry = computation == 0,
                               .operands = c->operands[c->n],
                               .leaves = leaf,
                               .n_leaves = 1,
                               .seconds = 1e-6};
    c->n++;
    return in;
}

static EchFlowInstruction *read_one(Case *c, EchFlowInstruction *in, uint32_t step)
{
    c->operands[in - c->in][in->n_operands++] = step;
    return in;
}

static uint32_t add_parameter(Case *c, uint32_t computation)
{
    EchFlowInstruction *in = add(c, "parameter", computation, c->all);
    in->n_leaves = ELEMENTS;
    in->tuple = true;
    return c->n - 1;
}

static uint32_t add_element(Case *c, uint32_t computation, uint32_t parameter, uint32_t index)
{
    read_one(c, add(c, "get-tuple-element", computation, &c->all[index]), parameter)->index = index;
    return c->n - 1;
}

/* Returns the first step of the loop. */
static uint32_t add_loop(Case *c, uint32_t computation)
{
    static const char *const names[SIZE] = {"add", "multiply", "subtract", "maximum", "minimum", "power"};
    static const float compute[SIZE] = {2, 2, 1, 2, 3, 1}; /* in the time that a MiB takes from HBM */
    uint32_t parameter = add_parameter(c, computation), elements[ELEMENTS];
    for (uint32_t k = 0; k < ELEMENTS; k++)
        elements[k] = add_element(c, computation, parameter, k);
    uint32_t first = c->n, before = elements[0];
    for (uint32_t k = 0; k < ITERATIONS * SIZE; k++) {
        uint32_t iteration = k / SIZE, at = k % SIZE;
        c->compute[c->n] = compute[at] * (float)(MIB / ech_place_chip("v5e")->hbm_bytes_per_s);
        EchFlowInstruction *in = read_one(c, add(c, names[at], computation, &c->small), before);
        if (at == 1)
            read_one(c, in, elements[1 + 2 * iteration]);
        else if (at == SIZE - 1)
            read_one(c, in, elements[2 + 2 * iteration]);
        before = c->n - 1;
    }
    return first;
}

static void init(Case *c)
{
    *c = (Case){.small = {.bytes = 4096, .elements = 1024, .major = 1, .text = "f32[1024]{0:T(1024)}"},
                .last = {.bytes = 4 * MIB, .elements = MIB, .major = 1024, .text = "f32[1048576]{0:T(1024)}"},
                .early = {.bytes = 5 * MIB, .elements = 5 * MIB / 4, .major = 1280, .text = "f32[1310720]{0:T(1024)}"}};
    for (uint32_t k = 0; k < ELEMENTS; k++)
        c->all[k] = k == 0 ? c->small : k % 2 ? c->early : c->last;
}

static const struct {
    EchBytes size;
    int early, last; /* fetched from this step of the iteration on; KEPT_OUT: left in HBM */
} fetched[] = {
    /* The last step's 4 MiB fit into the times of steps 3 and 4. The second step's 5 MiB take what steps 0 and 5 leave, 1 of step 3 and 1 of step 2 of the
     * iteration before: they overtake the 4 MiB, which are pulled forward to begin with them. */
    {16 * MIB, 1 - SIZE, 1},
    /* Both at once do not fit. */
    {8 * MIB, KEPT_OUT, 2},
};

START_TEST(fetches_keep_their_order)
{
    static Case c;
    init(&c);
    uint32_t first = add_loop(&c, 0);
    c.in[c.n - 1].root = true;
    g_autoptr(EchFlow) flow = ech_flow_new(c.in, c.n, 1, NULL, 0);
    flow->problem.options.size = fetched[_i].size;
    EchLoopOptions options = {.min_iterations = 6, .desired_ratio = 1, .chip = ech_place_chip("v5e"), .compute = c.compute, .total = c.total};
    ck_assert_uint_eq(ech_loop_optimize(flow, c.in, &options, NULL), 1);
    unsigned seen = 0;
    for (uint32_t u = 0; u < flow->problem.n_uses; u++) {
        const EchMsaUse *use = &flow->problem.uses[u];
        if (use->step < first || flow->use_places[u].operand != 1)
            continue;
        uint32_t iteration = (use->step - first) / SIZE, at = (use->step - first) % SIZE;
        int expected = at == 1 ? fetched[_i].early : fetched[_i].last;
        seen++;
        ck_assert_int_eq(use->hint, expected == KEPT_OUT ? ECH_MSA_HINT_SLOW : ECH_MSA_HINT_FETCH);
        if (expected != KEPT_OUT)
            ck_assert_int_eq(use->preferred_start, (int64_t)(first + iteration * SIZE) + expected);
    }
    ck_assert_uint_eq(seen, WEIGHTS);
}
END_TEST

/* What a loop's body fetches must enter it in HBM; a computation that the body calls is not the body. */
START_TEST(bodies_of_loops)
{
    static Case c;
    init(&c);
    uint32_t outer = add_parameter(&c, 0), inner = _i ? add_parameter(&c, 1) : 0;
    add_loop(&c, 1 + (uint32_t)_i);
    c.in[c.n - 1].root = true;
    c.called[0] = 1;
    c.called[1] = 2;
    if (_i) {
        EchFlowInstruction *call = read_one(&c, add(&c, "call", 1, &c.small), inner);
        call->root = true;
        call->called = &c.called[1];
        call->n_called = 1;
    }
    EchFlowInstruction *loop = read_one(&c, add(&c, "while", 0, c.all), outer);
    loop->n_leaves = ELEMENTS;
    loop->tuple = loop->root = true;
    loop->called = c.called;
    loop->n_called = 1;
    g_autoptr(EchFlow) flow = ech_flow_new(c.in, c.n, 2 + (uint32_t)_i, NULL, 0);
    flow->problem.options.size = 16 * MIB;
    EchLoopOptions options = {.min_iterations = 6, .desired_ratio = 1, .chip = ech_place_chip("v5e"), .compute = c.compute, .total = c.total};
    ck_assert_uint_eq(ech_loop_optimize(flow, c.in, &options, NULL), 1);
    ck_assert_uint_eq(flow->problem.n_required, _i ? 0 : WEIGHTS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place_loop");
    TCase *tcase = tcase_create("place_loop");
    tcase_add_loop_test(tcase, fetches_keep_their_order, 0, (int)G_N_ELEMENTS(fetched));
    tcase_add_loop_test(tcase, bodies_of_loops, 0, 2);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
