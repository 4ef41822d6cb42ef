/* What kernels ask for by name: arrays in the fast or in the slow memory at one step (custom_call_config); and what is fetched before the program. */
#include "sim/import/hlo.h"
#include "sim/program/place_inputs.h"
#include "sim/program/place_rewrite.h"
#include "tests/support/support.h"

#include <string.h>

static const char asking[] =
    "HloModule m, is_scheduled=true\n"
    "\n"
    "ENTRY %e (p: f32[256,512], q: f32[256,512]) -> f32[256,512] {\n"
    "  %p = f32[256,512]{1,0:T(8,128)} parameter(0)\n"
    "  %q = f32[256,512]{1,0:T(8,128)} parameter(1)\n"
    "  %two = s32[2]{0:T(128)} constant({1, 2})\n"
    "  %one = s32[1]{0:T(128)} constant({1})\n"
    "  %k = (f32[256,512]{1,0:T(8,128)}, f32[256,512]{1,0:T(8,128)}) custom-call(%p, %q, %two, %one), custom_call_target=\"tpu_custom_call\", "
    "backend_config={\"custom_call_config\":{\"body\":\"\",\"input_memory_space_colors\":[{\"color\":\"1\",\"operand_index\":\"0\",\"shape_index\":[]},"
    "{\"color\":\"0\",\"operand_index\":\"1\",\"shape_index\":[]},{\"color\":\"1\",\"operand_index\":\"2\",\"shape_index\":[]},"
    "{\"color\":\"1\",\"operand_index\":\"3\",\"shape_index\":[]},{\"color\":\"1\",\"operand_index\":\"9\",\"shape_index\":[]}],"
    "\"output_memory_space_colors\":[{\"color\":\"1\",\"shape_index\":[\"0\"]},{\"color\":\"0\",\"shape_index\":[\"1\"]},{\"color\":\"1\",\"shape_index\":["
    "\"7\"]}]}}\n"
    "  %a = f32[256,512]{1,0:T(8,128)} get-tuple-element(%k), index=0\n"
    "  %b = f32[256,512]{1,0:T(8,128)} get-tuple-element(%k), index=1\n"
    "  ROOT %r = f32[256,512]{1,0:T(8,128)} add(%a, %b)\n"
    "}\n";

static uint32_t step_of(const EchPlaceProblem *problem, const char *name)
{
    for (uint32_t t = 0; t < problem->n; t++)
        if (strcmp(problem->instructions[t].name, name) == 0)
            return t;
    return ECH_PLACE_NONE;
}

static bool reads_fast(const EchPlaceProblem *problem, const EchMsaResult *result, const char *user, uint32_t operand)
{
    const EchMsaProblem *m = &problem->flow->problem;
    for (uint32_t u = 0; u < m->n_uses; u++)
        if (m->uses[u].step == step_of(problem, user) && problem->flow->use_places[u].operand == operand)
            return result->use_fast[u];
    ck_abort_msg("%s reads no operand %u", user, operand);
    return false;
}

static EchPlaceProblem *make_problem(const char *text, EchProgram **ret_program, EchPlaceCosts **ret_costs)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GBytes) bytes = g_bytes_new_static(text, strlen(text));
    *ret_program = ech_hlo_read_text(bytes, "m.hlo", "tpu7x", diag, &error);
    ck_assert_msg(*ret_program != NULL, "%s", error ? error->message : "");
    *ret_costs = ech_place_costs_new(*ret_program, ech_place_chip("tpu7x"));
    EchPlaceProblem *problem = ech_place_problem_new(*ret_program, *ret_costs, true, &error);
    ck_assert_msg(problem != NULL, "%s", error ? error->message : "");
    return problem;
}

/* A kernel that starts the program gets its operands by copies that nothing hides, where it asks for them, and nothing where it asks for the slow memory. */
START_TEST(asked_for_by_name)
{
    g_autoptr(EchProgram) program = NULL;
    g_autoptr(EchPlaceCosts) costs = NULL;
    g_autoptr(EchPlaceProblem) problem = make_problem(asking, &program, &costs);
    EchMsaProblem *m = &problem->flow->problem;
    ck_assert_uint_eq(m->n_colors, 6); /* entries that name nothing are passed over */
    m->options.cross_program = false;
    g_autoptr(EchMsaResult) result = ech_msa_run(m);
    g_autofree char *wrong = ech_msa_check(m, result);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    uint32_t kernel = step_of(problem, "k"), copies = 0;
    ck_assert(reads_fast(problem, result, "k", 0));
    ck_assert(!reads_fast(problem, result, "k", 1));
    ck_assert(reads_fast(problem, result, "k", 2));
    ck_assert(reads_fast(problem, result, "r", 0));
    ck_assert(!reads_fast(problem, result, "r", 1));
    for (uint32_t i = 0; i < result->n_stays; i++) {
        const EchMsaStay *stay = &result->stays[i];
        if (stay->kind != ECH_MSA_COPIED)
            continue;
        copies++;
        ck_assert(stay->fast && stay->copy_before == (int64_t)kernel);
        /* The constant of two elements is there in time, the parameter only because it must. */
        ck_assert_int_eq(stay->copy_after, stay->bytes == 256 * 512 * 4 ? (int64_t)kernel - 1 : (int64_t)kernel - 2);
    }
    ck_assert_uint_eq(copies, 2);
}
END_TEST

/* Room that is kept for names is there for nothing else, and what finds none goes without. */
START_TEST(room_is_kept)
{
    g_autoptr(EchProgram) program = NULL;
    g_autoptr(EchPlaceCosts) costs = NULL;
    g_autoptr(EchPlaceProblem) problem = make_problem(asking, &program, &costs);
    EchMsaProblem *m = &problem->flow->problem;
    m->options.cross_program = false;
    m->n_scoped = 0;
    const EchBytes array = 256 * 512 * 4;
    for (EchBytes size = 0; size <= 3 * array; size += array / 2) {
        m->options.size = size;
        g_autoptr(EchMsaResult) result = ech_msa_run(m);
        g_autofree char *wrong = ech_msa_check(m, result);
        ck_assert_msg(wrong == NULL, "%s", wrong);
        ck_assert(result->peak <= size);
        ck_assert_int_eq(reads_fast(problem, result, "k", 0), size >= array);
        ck_assert(!reads_fast(problem, result, "k", 1));
    }
}
END_TEST

static const char branching[] = "HloModule m, is_scheduled=true\n"
                                "\n"
                                "%b (a: (f32[256,512])) -> f32[256,512] {\n"
                                "  %a = (f32[256,512]{1,0:T(8,128)}) parameter(0)\n"
                                "  %zero = f32[]{:T(128)} constant(0)\n"
                                "  ROOT %zeros = f32[256,512]{1,0:T(8,128)} broadcast(%zero), dimensions={}\n"
                                "}\n"
                                "\n"
                                "%d (e: (f32[256,512])) -> f32[256,512] {\n"
                                "  %e = (f32[256,512]{1,0:T(8,128)}) parameter(0)\n"
                                "  %one = f32[]{:T(128)} constant(1)\n"
                                "  ROOT %ones = f32[256,512]{1,0:T(8,128)} broadcast(%one), dimensions={}\n"
                                "}\n"
                                "\n"
                                "ENTRY %e (i: s32[], p: f32[256,512]) -> f32[256,512] {\n"
                                "  %i = s32[]{:T(128)} parameter(0)\n"
                                "  %p = f32[256,512]{1,0:T(8,128)} parameter(1)\n"
                                "  %x = f32[256,512]{1,0:T(8,128)} negate(%p)\n"
                                "  %t = (f32[256,512]{1,0:T(8,128)}) tuple(%x)\n"
                                "  %u = (f32[256,512]{1,0:T(8,128)}) tuple(%x)\n"
                                "  %c = f32[256,512]{1,0:T(8,128)} conditional(%i, %t, %u), branch_computations={%b, %d}\n"
                                "  ROOT %r = f32[256,512]{1,0:T(8,128)} add(%x, %c)\n"
                                "}\n";

/* A short branch that leaves its operand alone is no reason to take it from the chip. */
START_TEST(through_a_conditional)
{
    g_autoptr(EchProgram) program = NULL;
    g_autoptr(EchPlaceCosts) costs = NULL;
    g_autoptr(EchPlaceProblem) problem = make_problem(branching, &program, &costs);
    EchMsaProblem *m = &problem->flow->problem;
    g_autoptr(EchMsaResult) result = ech_msa_run(m);
    g_autofree char *wrong = ech_msa_check(m, result);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    for (uint32_t branch = 1; branch <= 2; branch++)
        ck_assert(reads_fast(problem, result, "c", branch));
    ck_assert(reads_fast(problem, result, "r", 0));
    ck_assert(reads_fast(problem, result, "r", 1));
}
END_TEST

/* A schedule of our own may name a weight after the first kernel; it is fetched before the program all the same. */
START_TEST(weights_named_late)
{
    static const char text[] = "HloModule late, is_scheduled=true\n"
                               "\n"
                               "ENTRY %e (q: f32[512,512], w: f32[512,512]) -> f32[512,512] {\n"
                               "  %q = f32[512,512]{1,0:T(8,128)} parameter(0)\n"
                               "  %n = f32[512,512]{1,0:T(8,128)} negate(%q)\n"
                               "  %w = f32[512,512]{1,0:T(8,128)} parameter(1)\n"
                               "  %t = f32[512,512]{1,0:T(8,128)} tanh(%n)\n"
                               "  ROOT %d = f32[512,512]{1,0:T(8,128)} dot(%t, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "}\n";
    g_autoptr(EchProgram) program = NULL;
    g_autoptr(EchPlaceCosts) costs = NULL;
    g_autoptr(EchPlaceProblem) problem = make_problem(text, &program, &costs);
    g_autoptr(EchMsaResult) result = ech_msa_run(&problem->flow->problem);
    uint32_t before = 0;
    for (uint32_t i = 0; i < result->n_stays; i++)
        before += result->stays[i].cross_program;
    ck_assert_uint_eq(before, 1);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) placed = ech_place_apply(program, problem, result, 1, 0, diag, &error);
    ck_assert_msg(placed != NULL, "%s", error ? error->message : "");
    size_t fetched = ECH_NONE, read = ECH_NONE;
    for (size_t f = 0; f < placed->n_flat; f++) {
        const EchInstruction *i = &placed->instructions[placed->flat[f]];
        size_t n;
        if (i->opcode == ECH_HLO_COPY_START && ech_program_attribute(i, "cross_program_prefetch_index", &n) != NULL)
            fetched = f;
        if (i->opcode == ECH_HLO_DOT)
            read = f;
    }
    ck_assert(fetched != ECH_NONE && read != ECH_NONE && fetched < read);
}
END_TEST

/* Two stays of 256 bytes in a fast memory of 1024, of values of two groups where not said otherwise; and two slices of 128 that come one after the other. */
#define STAY(value_, start_, end_, offset_)                                                                                                                    \
    {                                                                                                                                                          \
        .kind = ECH_MSA_PINNED, .fast = true, .value = value_, .start = start_, .end = end_, .offset = offset_, .bytes = 256                                   \
    }
static const struct {
    EchMsaStay stays[2];
    const char *wrong;
} checked[] = {
    {{STAY(0, 0, 3, 0), STAY(1, 4, 5, 0)}, NULL},
    {{STAY(0, 0, 3, 0), STAY(1, 3, 5, 0)}, "groups 0 and 1 overlap at step 3"}, /* a step belongs to both */
    {{STAY(0, 4, 6, 0), STAY(1, 0, 5, 128)}, "groups 1 and 0 overlap at step 4"},
    {{STAY(0, 0, 3, 0), STAY(1, 0, 3, 256)}, NULL},
    {{STAY(0, 0, 3, 0), STAY(2, 0, 3, 0)}, NULL}, /* of one group */
    {{STAY(0, 0, 3, 768), STAY(1, 0, 3, 64)}, "value 1: offset 64 is not a multiple of 128"},
    {{STAY(0, 0, 3, 896), STAY(1, 0, 3, 0)}, "value 0: ends at 1152, limit 1024"},
    {{STAY(0, 0, 3, 0), {.kind = ECH_MSA_PINNED, .value = 1, .end = 9, .offset = 5, .bytes = 4096}}, NULL}, /* elsewhere */
    {{STAY(0, 0, 3, 0), {.kind = ECH_MSA_SCOPED, .fast = true, .start = 2, .end = 2, .bytes = 128}}, "overlap at step 2"},
    {{STAY(0, 0, 1, 128), {.kind = ECH_MSA_SLICED, .fast = true, .value = 1, .start = 0, .end = 9, .bytes = 256, .n_slices = 2}}, NULL},
    {{STAY(0, 0, 2, 128), {.kind = ECH_MSA_SLICED, .fast = true, .value = 1, .start = 0, .end = 9, .bytes = 256, .n_slices = 2}}, "overlap at step 2"},
};

START_TEST(checker_sees_overlaps)
{
    EchMsaValue values[3] = {{.group = 0}, {.group = 1}, {.group = 0}};
    EchMsaSlice slices[2] = {{.after = 3, .offset = 0, .bytes = 128}, {.after = 1, .offset = 128, .bytes = 256}};
    EchMsaStay stays[2] = {checked[_i].stays[0], checked[_i].stays[1]};
    const EchMsaProblem problem = {.n_values = 3, .values = values, .options = {.size = 1024, .alignment = 128}};
    const EchMsaResult result = {.stays = stays, .n_stays = 2, .slices = slices};
    g_autofree char *wrong = ech_msa_check(&problem, &result);
    if (checked[_i].wrong)
        ck_assert_msg(wrong && strstr(wrong, checked[_i].wrong), "%d: %s", _i, wrong);
    else
        ck_assert_msg(!wrong, "%d: %s", _i, wrong);
}
END_TEST

static const char silent[] = "HloModule m, is_scheduled=true\n"
                             "\n"
                             "ENTRY %e (p: f32[256,512]) -> f32[256,512] {\n"
                             "  %p = f32[256,512]{1,0:T(8,128)} parameter(0)\n"
                             "  %x = f32[256,512]{1,0:T(8,128)} negate(%p)\n"
                             "  %y = f32[256,512]{1,0:T(8,128)} exponential(%x)\n"
                             "  ROOT %r = f32[256,512]{1,0:T(8,128)} add(%x, %y)\n"
                             "}\n";

/* Where no kernel says what it asks for, every one may have all of it; and after the program something else may. */
START_TEST(scratch_of_every_kernel)
{
    g_autoptr(EchProgram) program = NULL;
    g_autoptr(EchPlaceCosts) costs = NULL;
    g_autoptr(EchPlaceProblem) problem = make_problem(silent, &program, &costs);
    const EchMsaProblem *m = &problem->flow->problem;
    static const char *const kernels[] = {"x", "y", "r"};
    ck_assert_uint_eq(m->n_scoped, G_N_ELEMENTS(kernels) + 1);
    for (size_t k = 0; k < m->n_scoped; k++) {
        ck_assert_uint_eq(m->scoped[k].step, k < G_N_ELEMENTS(kernels) ? step_of(problem, kernels[k]) : problem->n);
        ck_assert_uint_eq(m->scoped[k].bytes, ech_place_chip("tpu7x")->scoped);
    }
}
END_TEST

/* A row of each of 16 tables of their own is 512 bytes, in tiles of 8 rows that are moved as a whole. */
static const char batched[] = "HloModule m, is_scheduled=true\n"
                              "\n"
                              "%add (a: f32[], b: f32[]) -> f32[] {\n"
                              "  %a = f32[] parameter(0)\n"
                              "  %b = f32[] parameter(1)\n"
                              "  ROOT %s = f32[] add(%a, %b)\n"
                              "}\n"
                              "\n"
                              "ENTRY %e (t: f32[16,64,128], i: s32[16], u: f32[16,128]) -> f32[16,64,128] {\n"
                              "  %t = f32[16,64,128]{2,1,0:T(8,128)} parameter(0)\n"
                              "  %i = s32[16]{0:T(128)} parameter(1)\n"
                              "  %u = f32[16,128]{1,0:T(8,128)} parameter(2)\n"
                              "  ROOT %r = f32[16,64,128]{2,1,0:T(8,128)} scatter(%t, %i, %u), update_window_dims={1}, inserted_window_dims={1}, "
                              "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1, "
                              "to_apply=%add\n"
                              "}\n";

START_TEST(scatters_into_tables_of_their_own)
{
    g_autoptr(EchProgram) program = NULL;
    g_autoptr(EchPlaceCosts) costs = NULL;
    g_autoptr(EchPlaceProblem) problem = make_problem(batched, &program, &costs);
    EchId scatter = problem->ids[step_of(problem, "r")];
    ck_assert_uint_eq(ech_place_costs_operand(costs, program, scatter, 0, 0), 16 * 8 * 128 * 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place_colors");
    TCase *tcase = tcase_create("colors");
    tcase_add_test(tcase, asked_for_by_name);
    tcase_add_test(tcase, room_is_kept);
    tcase_add_test(tcase, through_a_conditional);
    tcase_add_test(tcase, weights_named_late);
    tcase_add_test(tcase, scratch_of_every_kernel);
    tcase_add_test(tcase, scatters_into_tables_of_their_own);
    tcase_add_loop_test(tcase, checker_sees_overlaps, 0, G_N_ELEMENTS(checked));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
