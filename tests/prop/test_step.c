/* A part of a random program alone, after what came before it: its arrays lie where they lay in the whole, and both parts take the time of the whole. */
#include "sim/trace/step.h"
#include "tests/support/made.h"
#include "tests/support/random.h"

#include <check.h>

#define MIB (UINT64_C(1) << 20)

static const char device_text[] = "name: t\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                                  "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n";

static const char *const allocators[] = {"pytorch", "pytorch:expandable_segments:True", "pytorch:release:2.11", "bfc", "cuda_async", "best_fit"};

enum { ARRAYS = 40, STEPS = 400 };

static EchTrace *random_program(uint64_t *state)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId arrays[ARRAYS];
    bool live[ARRAYS];
    for (int i = 0; i < ARRAYS; i++) {
        g_autofree char *name = g_strdup_printf("a%d", i);
        EchBytes bytes = ech_test_draw(state) % 3 == 0 ? ech_test_draw(state) % (64 * MIB) : ech_test_draw(state) % MIB;
        live[i] = i % 5 == 0;
        arrays[i] = ech_test_buffer(b, name, bytes + 1, ECH_ROLE_TEMPORARY, live[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        size_t which = ech_test_draw(state) % ARRAYS;
        if (live[which] && ech_test_draw(state) % 2)
            ech_test_kernel(b, (EchTime)(ech_test_draw(state) % 4) * ECH_TEST_MS, arrays[which], ECH_READ, 1);
        else
            (void)ech_test_put(b, live[which] ? ECH_OP_FREE : ECH_OP_ALLOC, arrays[which]);
        if (ech_trace_builder_peek_op(b, (EchId)(ech_trace_builder_n_ops(b) - 1))->kind != ECH_OP_KERNEL)
            live[which] = !live[which];
    }
    return ech_test_finish(b);
}

static EchRun *run(const EchTrace *trace, const EchDevice *device, const char *allocator, const EchTrace *whole, EchId n_before)
{
    EchReplayOptions options = {0};
    g_autoptr(GError) error = NULL;
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    options.allocator = g_strdup(allocator);
    options.whole = whole;
    options.n_before = n_before;
    EchRun *made = ech_replay_run(trace, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_ok(made != NULL, error);
    return made;
}

/* The address that @buffer was last given by an operation up to @op, or had from the start. */
static uint64_t address_at(const EchRun *made, EchId buffer, EchId op)
{
    uint64_t address = ECH_ADDRESS_NONE;
    for (size_t i = 0; i < made->n_placed; i++) {
        const EchPlaced *placed = &made->placed[i];
        if (placed->buffer == buffer && (placed->op == ECH_NONE || placed->op <= op))
            address = placed->place.address;
    }
    return address;
}

START_TEST(lies_and_takes_as_in_the_whole)
{
    uint64_t state = ech_test_seed_of(_i);
    const char *allocator = allocators[_i % (int)G_N_ELEMENTS(allocators)];
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTrace) whole = random_program(&state);
    EchId n = (EchId)ech_trace_n_ops(whole), cut = (EchId)(ech_test_draw(&state) % n);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) before = ech_trace_part(whole, 0, cut, &error), part = before ? ech_trace_part(whole, cut, n, &error) : NULL;
    ck_assert_ok(part != NULL, error);
    g_autoptr(EchRun) all = run(whole, device, allocator, NULL, 0), first = run(before, device, allocator, NULL, 0),
                      second = run(part, device, allocator, whole, cut);
    ck_assert(all->completed && second->completed);
    ck_assert_int_eq(first->makespan + second->makespan, all->makespan);
    size_t residents = 0, later = 0;
    for (size_t i = 0; i < second->n_placed; i++) {
        const EchPlaced *placed = &second->placed[i];
        EchId op = placed->op == ECH_NONE ? cut : placed->op + cut;
        ck_assert_msg(placed->place.address == address_at(all, placed->buffer, placed->op == ECH_NONE ? cut - 1 : op),
                      "%s, round %d: buffer %u of operation %u lies elsewhere than in the whole", allocator, _i, placed->buffer, op);
        *(placed->op == ECH_NONE ? &residents : &later) += 1;
    }
    ck_assert(cut == 0 || residents > 0 || later > 0);
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("step");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, lies_and_takes_as_in_the_whole, 0, 120);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
