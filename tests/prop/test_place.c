/* Properties of placements: random problems under every policy, and our own compiled programs through the place and prefetch passes. */
#include "models/place/loop.h"
#include "sim/import/import.h"
#include "sim/pass/pass.h"
#include "sim/program/place_rewrite.h"
#include "tests/fuzz/place_case.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>

static uint64_t state;

static uint64_t draw(void)
{
    return ech_test_draw(&state);
}

START_TEST(random_problems_are_placed_legally)
{
    state = ech_test_seed_of(_i);
    for (unsigned k = 0; k < 12; k++) {
        uint8_t bytes[1500];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)(draw() >> 24);
        EchPlaceCase *c = ech_place_case_new(bytes, sizeof bytes, 80);
        g_autoptr(EchMsaResult) result = ech_msa_run(&c->flow->problem), again = ech_msa_run(&c->flow->problem);
        g_autofree char *wrong = ech_place_case_check(&c->flow->problem, result);
        ck_assert_msg(wrong == NULL, "round %d, case %u: %s", _i, k, wrong);
        ck_assert_uint_eq(result->n_stays, again->n_stays);
        ck_assert_uint_eq(result->prefetched, again->prefetched);
        ck_assert_uint_eq(result->peak, again->peak);
        /* Nothing fits: nothing is there. */
        c->flow->problem.options.size = 0;
        g_autoptr(EchMsaResult) none = ech_msa_run(&c->flow->problem);
        for (uint32_t u = 0; u < c->flow->problem.n_uses; u++)
            ck_assert(!none->use_fast[u]);
        ech_place_case_free(c);
    }
}
END_TEST

static const char *const programs[] = {"gpt_nothing.v5e", "mlp_activations.v6e", "adam_moments.v5e", "gpt_offload.v6e"};
static const int32_t fast = 1;

static EchProgram *load(const char *name)
{
    g_autofree char *path = g_strdup_printf("%s/traces/%s/program.hlo.txt.gz", ECH_SOURCE_DIR, name);
    g_autoptr(GError) error = NULL;
    EchImport *import = ech_import_file(path, NULL, NULL, &error);
    ck_assert_msg(import != NULL && import->program != NULL, "%s", error ? error->message : path);
    EchProgram *program = ech_program_ref(import->program);
    ech_import_free(import);
    return program;
}

static EchProgram *place(EchProgram *program, const char *name, const char *spec)
{
    g_autofree char *device_name = ech_test_device_of(name);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_test_device(device_name, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchPass) pass = ech_pass_new(spec, &error);
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    g_ptr_array_add(list, pass);
    EchProgram *out = ech_passes_run_program(list, device, program, diag, &error);
    ck_assert_msg(out != NULL, "%s %s: %s", name, spec, error ? error->message : "");
    return out;
}

static size_t n_in_space(const EchProgram *p, int32_t space)
{
    size_t n = 0;
    for (size_t v = 0; v < p->n_values; v++)
        n += p->values[v].start >= 0 && p->values[v].space == space;
    return n;
}

/* What is no name for data and no copy between the memories. */
static size_t n_work(const EchProgram *p)
{
    size_t n = 0;
    for (size_t f = 0; f < p->n_flat; f++) {
        EchHlo opcode = (EchHlo)p->instructions[p->flat[f]].opcode;
        n += opcode == ECH_HLO_FUSION || opcode == ECH_HLO_WHILE || ech_hlo_is_elementwise(opcode);
    }
    return n;
}

START_TEST(placements_of_programs_can_be_taken_out_again)
{
    static const char *const specs[] = {"place",
                                        "place:vmem=3MiB",
                                        "place:policy=fragmentation,vmem=6MiB",
                                        "place:policy=on-demand",
                                        "place:policy=depth,depth=2",
                                        "place:policy=belady,vmem=2MiB"};
    const char *name = programs[(size_t)_i / G_N_ELEMENTS(specs)], *spec = specs[(size_t)_i % G_N_ELEMENTS(specs)];
    g_autoptr(EchProgram) program = load(name);
    g_autoptr(EchProgram) placed = place(program, name, spec);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) bare = ech_place_strip(program, fast, diag, NULL), again = ech_place_strip(placed, fast, diag, NULL);
    ck_assert(bare != NULL && again != NULL);
    ck_assert_uint_eq(n_in_space(bare, fast), 0);
    ck_assert_uint_eq(n_in_space(again, fast), 0);
    ck_assert_uint_gt(n_in_space(placed, fast), 0);
    ck_assert_uint_eq(n_work(bare), n_work(placed));
    ck_assert_uint_eq(n_work(bare), n_work(again));
    /* Placed a second time it is the same. */
    g_autoptr(EchProgram) twice = place(placed, name, spec);
    EchPlaceCounts a = ech_place_count(placed, fast), b = ech_place_count(twice, fast);
    ck_assert_uint_eq(a.kept, b.kept);
    ck_assert_uint_eq(a.kept_bytes, b.kept_bytes);
    ck_assert_uint_eq(a.prefetched, b.prefetched);
    ck_assert_uint_eq(a.evicted, b.evicted);
    ck_assert(placed->assignment != NULL && placed->assignment->made);
}
END_TEST

/* How many instructions lie between the beginnings and the ends of copies, on average. */
static double mean_distance(const char *name, const char *spec)
{
    g_autoptr(EchProgram) program = load(name), placed = place(program, name, spec);
    uint64_t n = 0, sum = 0;
    for (size_t f = 0; f < placed->n_flat; f++) {
        const EchInstruction *done = &placed->instructions[placed->flat[f]];
        if (done->opcode != ECH_HLO_COPY_DONE)
            continue;
        sum += done->schedule - placed->instructions[ech_program_operand(placed, done, 0)].schedule;
        n++;
    }
    ck_assert_msg(n > 0, "%s: no copies", spec);
    return (double)sum / (double)n;
}

/* Copies begin as late as they may, or so many kernels ahead. */
START_TEST(policies_say_when_copies_begin)
{
    const char *name = programs[_i];
    double late = mean_distance(name, "place:policy=on-demand,vmem=6MiB"), usual = mean_distance(name, "place:vmem=6MiB");
    double two = mean_distance(name, "place:policy=depth,depth=2,vmem=6MiB"), many = mean_distance(name, "place:policy=depth,depth=12,vmem=6MiB");
    bool differ = g_str_has_prefix(name, "gpt"); /* the others have hardly any copies to choose for */
    ck_assert_msg(differ ? late < usual : late <= usual, "%s: %g, not less than %g", name, late, usual);
    ck_assert_msg(differ ? two < many : two <= many, "%s: %g, not less than %g", name, two, many);
}
END_TEST

/* The compiler's own placement of a program compiled by it, from nothing but its text: bytes made, fetched and evicted within a fifth. */
START_TEST(the_default_is_the_compilers)
{
    const char *name = programs[_i];
    g_autoptr(EchProgram) program = load(name), placed = place(program, name, "place");
    EchPlaceCounts real = ech_place_count(program, fast), ours = ech_place_count(placed, fast);
    ck_assert_msg(ours.prefetched <= real.prefetched * 6 / 5 + 65536 && real.prefetched <= ours.prefetched * 6 / 5 + 65536,
                  "%s: %lu prefetched, %lu by the compiler", name, (unsigned long)ours.prefetched, (unsigned long)real.prefetched);
    ck_assert_uint_le(ours.kept_bytes, real.kept_bytes * 6 / 5);
    ck_assert_uint_le(real.kept_bytes, ours.kept_bytes * 6 / 5);
    EchBytes a = ech_program_space_bytes(program, fast), b = ech_program_space_bytes(placed, fast);
    ck_assert_msg(a <= b + b / 5 && b <= a + a / 5, "%s: %lu on chip, %lu by the compiler", name, (unsigned long)b, (unsigned long)a);
}
END_TEST

/* Six times the same three kernels and a view: an unrolled loop. */
START_TEST(unrolled_loops_are_found)
{
    enum { N = 6, SIZE = 4 };
    EchFlowInstruction in[1 + N * SIZE + 1] = {0};
    EchFlowLeaf leaf = {.bytes = 8192, .elements = 2048, .major = 2, .text = "f32[2048]{0:T(1024)}"};
    uint32_t operands[1 + N * SIZE + 1][1];
    static const char *const names[SIZE] = {"add", "multiply", "reduce", "sort"};
    for (uint32_t t = 0; t < G_N_ELEMENTS(in); t++) {
        operands[t][0] = t > 0 ? t - 1 : 0;
        in[t] = (EchFlowInstruction){.name = "x",
                                     .op = t == 0 ? ECH_FLOW_PARAMETER : ECH_FLOW_OTHER,
                                     .opcode = t == 0         ? "parameter"
                                               : t > N * SIZE ? "cosine"
                                                              : names[(t - 1) % SIZE],
                                     .entry = true,
                                     .root = t + 1 == G_N_ELEMENTS(in),
                                     .operands = operands[t],
                                     .n_operands = t > 0,
                                     .leaves = &leaf,
                                     .n_leaves = 1,
                                     .seconds = 1e-6};
    }
    g_autoptr(EchFlow) flow = ech_flow_new(in, G_N_ELEMENTS(in), 1, NULL, 0);
    float compute[G_N_ELEMENTS(in)] = {0}, total[G_N_ELEMENTS(in)];
    for (size_t t = 0; t < G_N_ELEMENTS(in); t++)
        total[t] = 16384;
    flow->problem.options.size = 1 << 20;
    EchLoopOptions options = {
        .min_iterations = (double)_i, .desired_ratio = 0.7F, .fully_pipelined = true, .chip = ech_place_chip("v5e"), .compute = compute, .total = total};
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(EchLoopFound));
    uint32_t n = ech_loop_optimize(flow, in, &options, found);
    ck_assert_uint_eq(found->len, 1);
    const EchLoopFound *run = &g_array_index(found, EchLoopFound, 0);
    ck_assert_uint_eq(run->first, 1);
    ck_assert_uint_eq(run->last, N * SIZE);
    ck_assert_uint_eq(run->size, SIZE);
    ck_assert_uint_eq(n, _i <= N);
    uint32_t kept = 0;
    for (uint32_t u = 0; u < flow->problem.n_uses; u++)
        kept += flow->problem.uses[u].hint == ECH_MSA_HINT_KEEP;
    ck_assert(_i <= N ? kept > 0 : kept == 0);
}
END_TEST

START_TEST(prefetch_keeps_what_is_done)
{
    static const char *const names[] = {"gpt_offload.v5e", "mlp_parameters.v5e", "adam_moments.v5e", "gpt_unrolled_offload.h100"};
    static const char *const specs[] = {"prefetch", "prefetch:depth=3", "prefetch:depth=0,lookahead=4,budget=8MiB"};
    const char *name = names[(size_t)_i / G_N_ELEMENTS(specs)], *spec = specs[(size_t)_i % G_N_ELEMENTS(specs)];
    g_autofree char *device_name = ech_test_device_of(name);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load(device_name, NULL, &error);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) program = load(name);
    g_autoptr(EchTrace) trace = ech_program_lower(program, device, NULL, diag, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchPass) pass = ech_pass_new(spec, &error);
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    g_ptr_array_add(list, pass);
    g_autoptr(EchTrace) out = ech_passes_run_trace(list, device, trace, diag, &error), again = ech_passes_run_trace(list, device, trace, diag, &error);
    ck_assert_msg(out != NULL, "%s %s: %s", name, spec, error ? error->message : "");
    ck_assert_uint_eq(ech_trace_hash(out), ech_trace_hash(again));
    size_t kernels[2] = {0}, copies[2] = {0};
    const EchTrace *both[2] = {trace, out};
    for (unsigned k = 0; k < 2; k++)
        for (size_t i = 0; i < ech_trace_n_ops(both[k]); i++) {
            kernels[k] += ech_trace_ops(both[k])[i].kind == ECH_OP_KERNEL;
            copies[k] += ech_trace_ops(both[k])[i].kind == ECH_OP_COPY;
        }
    ck_assert_uint_eq(kernels[0], kernels[1]);
    ck_assert_uint_le(copies[0], copies[1]);
    if (strstr(spec, "depth=0"))
        ck_assert_uint_eq(copies[0], copies[1]);
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("place");
    TCase *tcase = tcase_create("place");
    tcase_add_loop_test(tcase, random_problems_are_placed_legally, 0, 20);
    tcase_add_loop_test(tcase, placements_of_programs_can_be_taken_out_again, 0, 24);
    tcase_add_loop_test(tcase, the_default_is_the_compilers, 0, 4);
    tcase_add_loop_test(tcase, policies_say_when_copies_begin, 0, 4);
    tcase_add_loop_test(tcase, unrolled_loops_are_found, 2, 9);
    tcase_add_loop_test(tcase, prefetch_keeps_what_is_done, 0, 12);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
