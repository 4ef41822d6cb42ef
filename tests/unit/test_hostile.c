/* Files that are small and would take much: what is read of them stays in proportion, or they are refused and told why. */
#include "models/alloc/events.h"
#include "models/place/xheap.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/alloc_text.h"
#include "sim/import/import.h"
#include "sim/program/place_inputs.h"
#include "sim/program/place_rewrite.h"
#include "sim/program/price_kernels.h"
#include "sim/program/program.h"
#include "sim/report/explain.h"
#include "sim/report/report.h"
#include "sim/report/table.h"
#include "sim/report/text.h"
#include "sim/trace/meets.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts that are made, growing. */
#define APPEND(text, ...) g_string_append_printf(text, __VA_ARGS__)

static EchImport *read_text(const GString *text, const char *format, GError **error)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text->str, text->len, "text");
    return ech_import_source(source, format, NULL, error);
}

static EchImport *read_well(const GString *text, const char *format)
{
    g_autoptr(GError) error = NULL;
    EchImport *import = read_text(text, format, &error);
    ck_assert_ok(import, error);
    return import;
}

static void refused(const GString *text, const char *format, const char *why)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = read_text(text, format, &error);
    ck_assert_msg(!import && error, "read, but expected '%s'", why);
    ck_assert_msg(strstr(error->message, why) != NULL, "'%s' without '%s'", error->message, why);
}

/* ---- programs ---- */

static GString *program_begin(void)
{
    return g_string_new("HloModule m, is_scheduled=true\n\n");
}

static void entry_begin(GString *text)
{
    g_string_append(text, "ENTRY %main (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n");
}

static void entry_end(GString *text)
{
    g_string_append(text, "  ROOT %r = f32[8]{0} add(%p, %p)\n}\n");
}

/* A tuple of @n members, in brackets, each @member. */
static void append_list(GString *text, unsigned n, const char *member)
{
    for (unsigned k = 0; k < n; k++)
        APPEND(text, "%s%s", k ? ", " : "", member);
}

/* Each of 3000 kernels is given all of a tuple of 3000 arrays: 9 million, of 200 KB. */
START_TEST(tuples_given_many_times)
{
    g_autoptr(GString) text = program_begin();
    entry_begin(text);
    g_string_append(text, "  %t = (");
    append_list(text, 3000, "f32[8]");
    g_string_append(text, ") tuple(");
    append_list(text, 3000, "%p");
    g_string_append(text, ")\n");
    for (unsigned k = 0; k < 3000; k++)
        APPEND(text, "  %%x%u = f32[8]{0} custom-call(%%t), custom_call_target=\"x\"\n", k);
    entry_end(text);
    refused(text, "hlo", "tuples are used too many times");
}
END_TEST

/* Positions in wide tuples. */
START_TEST(members_of_wide_tuples)
{
    g_autoptr(GString) text = program_begin();
    entry_begin(text);
    g_string_append(text, "  %t = (");
    for (unsigned k = 0; k < 2000; k++)
        APPEND(text, "%s(f32[8], f32[%u])", k ? ", " : "", 1 + k);
    g_string_append(text, ") custom-call(%p), custom_call_target=\"x\"\n  %g = (f32[8], f32[1500]) get-tuple-element(%t), index=1499\n");
    entry_end(text);
    g_autoptr(EchImport) import = read_well(text, "hlo");
    const EchProgram *p = import->program;
    EchId shape = p->instructions[ech_test_instruction(p, "t")].shape;
    ck_assert_uint_eq(p->shapes[shape].n_positions, 6001);
    ck_assert_uint_eq(ech_program_member_position(p, shape, 0), 1);
    ck_assert_uint_eq(ech_program_member_position(p, shape, 1499), 4498);
    ck_assert_uint_eq(ech_program_member_position(p, shape, 2000), 6001);
    ck_assert_uint_eq(p->shapes[ech_program_subshape(p, shape, 4500)].count, 1500);
    ck_assert_uint_eq(p->shapes[ech_program_subshape(p, shape, 4499)].count, 8);
    ck_assert_uint_eq(p->shapes[ech_program_subshape(p, shape, 4498)].n_elements, 2);
    ck_assert_uint_eq(p->shapes[shape].whole, 4 * (8 * 2000 + 2000 * 2001 / 2));
}
END_TEST

/* A computation of 6000 instructions that 6000 fusions call. */
START_TEST(computations_that_many_call)
{
    g_autoptr(GString) text = program_begin();
    g_string_append(text, "%c (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n");
    for (unsigned k = 0; k < 6000; k++)
        APPEND(text, "  %%a%u = f32[8]{0} negate(%%p)\n", k);
    g_string_append(text, "  ROOT %a = f32[8]{0} add(%p, %p)\n}\n\n");
    entry_begin(text);
    for (unsigned k = 0; k < 6000; k++)
        APPEND(text, "  %%x%u = f32[8]{0} fusion(%%p), kind=kLoop, calls=%%c\n", k);
    entry_end(text);
    refused(text, "hlo", "too many call the same");
}
END_TEST

/* Results that are 60 times the same tuple, twelve times over. */
START_TEST(results_of_results)
{
    g_autoptr(GString) text = program_begin();
    g_string_append(text, "%c (p: f32[8,128]) -> f32[8,128] {\n  %t0 = f32[8,128]{1,0:T(8,128)} parameter(0)\n");
    for (unsigned k = 0; k < 12; k++) {
        g_autofree char *member = g_strdup_printf("%%t%u", k);
        APPEND(text, "  %s%%t%u = f32[8,128]{1,0:T(8,128)} tuple(", k == 11 ? "ROOT " : "", k + 1);
        append_list(text, 60, member);
        g_string_append(text, ")\n");
    }
    g_string_append(text, "}\n\n");
    entry_begin(text);
    g_string_append(text, "  %a = f32[8,128]{1,0:T(8,128)} broadcast(%p), dimensions={}\n"
                          "  %x = f32[8,128]{1,0:T(8,128)} fusion(%a), kind=kLoop, calls=%c\n");
    entry_end(text);
    g_autoptr(EchImport) import = read_well(text, "hlo");
    g_autoptr(EchDevice) device = ech_test_device("tpu-v5e", NULL);
    EchKernelModel model;
    ck_assert(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, NULL));
    g_autoptr(EchKernelMemo) memo = ech_kernel_memo_new();
    EchTime time;
    bool carried;
    ck_assert(ech_program_kernel_time(import->program, ech_test_instruction(import->program, "x"), &model, NULL, ECH_TIME_NONE, memo, &time, &carried));
}
END_TEST

/* Loops of loops: what is called again is lowered again, until that is too much. */
START_TEST(bodies_that_many_loops_share)
{
    g_autoptr(GString) text = program_begin();
    g_string_append(text, "%k (p: f32[8]) -> pred[] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %c = pred[] constant(true)\n}\n\n"
                          "%b20 (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %a = f32[8]{0} custom-call(");
    append_list(text, 2000, "%p");
    g_string_append(text, "), custom_call_target=\"x\"\n}\n\n");
    for (unsigned k = 20; k-- > 0;)
        APPEND(text,
               "%%b%u (p: f32[8]) -> f32[8] {\n  %%p = f32[8]{0} parameter(0)\n  %%x = f32[8]{0} while(%%p), condition=%%k, body=%%b%u\n"
               "  ROOT %%y = f32[8]{0} while(%%x), condition=%%k, body=%%b%u\n}\n\n",
               k, k + 1, k + 1);
    entry_begin(text);
    g_string_append(text, "  ROOT %r = f32[8]{0} while(%p), condition=%k, body=%b0\n}\n");
    g_autoptr(EchImport) import = read_well(text, "hlo");
    g_autoptr(GError) error = NULL;
    ech_test_assign(import);
    g_autoptr(EchTrace) trace = ech_program_lower(import->program, NULL, NULL, import->diag, &error);
    ck_assert_ok(trace, error);
    ck_assert_uint_gt(ech_diag_count(import->diag, "repeated_calls_left_out"), 0);
    ck_assert_uint_lt(ech_trace_n_uses(trace) + ech_trace_n_ops(trace), (size_t)1 << 23);
}
END_TEST

/* A loop that fills 4000 arrays, each of which it carries and begins with one number: for each the body is not walked again, nor all of them weighed for each
 * that is taken out. */
START_TEST(stacks_without_number)
{
    enum { STACKS = 4000 };
    g_autoptr(GString) text = g_string_new("HloModule m\n\n"), state = g_string_new("(s32[], ");
    append_list(state, STACKS, "f32[8,512]{1,0}");
    g_string_append_c(state, ')');
    APPEND(
        text,
        "%%body (p: s) -> s {\n  %%p = %s parameter(0)\n  %%i = s32[] get-tuple-element(%%p), index=0\n  %%z = s32[] constant(0)\n  %%one = s32[] constant(1)\n"
        "  %%v = f32[1,512]{1,0} constant({...})\n",
        state->str);
    for (unsigned k = 0; k < STACKS; k++)
        APPEND(text, "  %%s%u = f32[8,512]{1,0} get-tuple-element(%%p), index=%u\n  %%u%u = f32[8,512]{1,0} dynamic-update-slice(%%s%u, %%v, %%i, %%z)\n", k,
               k + 1, k, k);
    APPEND(text, "  %%j = s32[] add(%%i, %%one)\n  ROOT %%o = %s tuple(%%j", state->str);
    for (unsigned k = 0; k < STACKS; k++)
        APPEND(text, ", %%u%u", k);
    APPEND(text,
           ")\n}\n\n%%cond (q: s) -> pred[] {\n  %%q = %s parameter(0)\n  %%m = s32[] get-tuple-element(%%q), index=0\n  %%n = s32[] constant(8)\n"
           "  ROOT %%l = pred[] compare(%%m, %%n), direction=LT\n}\n\nENTRY %%main (y: f32[8,512]) -> f32[8,512] {\n  %%y = f32[8,512]{1,0} parameter(0)\n"
           "  %%k = s32[] constant(0)\n  %%h = f32[] constant(0)\n",
           state->str);
    for (unsigned k = 0; k < STACKS; k++)
        APPEND(text, "  %%b%u = f32[8,512]{1,0} broadcast(%%h), dimensions={}\n", k);
    APPEND(text, "  %%t = %s tuple(%%k", state->str);
    for (unsigned k = 0; k < STACKS; k++)
        APPEND(text, ", %%b%u", k);
    APPEND(text,
           ")\n  %%w = %s while(%%t), condition=%%cond, body=%%body\n  %%g = f32[8,512]{1,0} get-tuple-element(%%w), index=1\n"
           "  ROOT %%e = f32[8,512]{1,0} add(%%g, %%y)\n}\n",
           state->str);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text->str, text->len, "text");
    g_autoptr(GError) error = NULL;
    EchImportOptions options = {.device = "tpu-v5e"};
    g_autoptr(EchImport) import = ech_import_source(source, "hlo", &options, &error);
    ck_assert_ok(import, error);
    unsigned unset = 0;
    for (size_t k = 0; k < import->program->n_instructions; k++)
        unset += import->program->instructions[k].opcode == ECH_HLO_CUSTOM_CALL;
    ck_assert_uint_eq(unset, STACKS);
}
END_TEST

/* Of every kernel of the program's own the contents of one large constant are asked for. */
START_TEST(constants_that_many_kernels_read)
{
    g_autoptr(GString) text = program_begin();
    entry_begin(text);
    g_string_append(text, "  %c = s32[30000]{0} constant({");
    append_list(text, 30000, "1");
    g_string_append(text, "})\n");
    for (unsigned k = 0; k < 3000; k++)
        APPEND(text,
               "  %%x%u = f32[8]{0} custom-call(%%c), custom_call_target=\"tpu_custom_call\", "
               "backend_config={\"custom_call_config\": {\"body\": \"QUFB\"}}\n",
               k);
    entry_end(text);
    g_autoptr(EchImport) import = read_well(text, "hlo");
    for (size_t i = 0; i < import->program->n_instructions; i++)
        ck_assert_ptr_null(ech_program_grid(import->program, (EchId)i));
}
END_TEST

/* Arrays of one size whose lives follow each other take turns in an output's place, and those that meet do not. */
START_TEST(places_taken_in_turn)
{
    g_autoptr(GString) text = program_begin();
    entry_begin(text);
    g_string_append(text, "  %a0 = f32[8]{0} custom-call(%p), custom_call_target=\"x\"\n");
    for (unsigned k = 1; k < 2000; k++)
        APPEND(text, "  %%a%u = f32[8]{0} custom-call(%%a%u), custom_call_target=\"x\"\n", k, k - 1);
    g_string_append(text, "  ROOT %r = f32[8]{0} custom-call(%a1999), custom_call_target=\"x\"\n}\n");
    g_autoptr(EchImport) import = read_well(text, "hlo");
    g_autoptr(GError) error = NULL;
    import->program->platform = ECH_PLATFORM_GPU;
    g_autoptr(EchProgramAssignment) made = ech_program_assign(import->program, 0, import->diag, &error);
    ck_assert_ok(made, error);
    /* Each is read while the next is written: every other one fits into the output's. */
    size_t in_output = 0, temporary = 0;
    for (size_t k = 0; k < made->n_allocations; k++) {
        in_output += made->allocations[k].is_live_out ? made->allocations[k].n_assigned : 0;
        temporary += made->allocations[k].is_temp ? made->allocations[k].n_assigned : 0;
    }
    ck_assert_uint_eq(in_output, 1001);
    ck_assert_uint_eq(temporary, 1000);
}
END_TEST

/* A side of a product that 2^60 ways lead back to, all of them to a constant. */
START_TEST(ways_to_an_operand)
{
    g_autoptr(GString) text = program_begin();
    g_string_append(text, "%c (x: f32[512,512]) -> f32[512,512] {\n  %x = f32[512,512]{1,0:T(8,128)} parameter(0)\n  %k = f32[] constant(1)\n"
                          "  %a0 = f32[512,512]{1,0:T(8,128)} broadcast(%k), dimensions={}\n");
    for (unsigned k = 0; k < 60; k++)
        APPEND(text, "  %%a%u = f32[512,512]{1,0:T(8,128)} add(%%a%u, %%a%u)\n", k + 1, k, k);
    g_string_append(text, "  ROOT %d = f32[512,512]{1,0:T(8,128)} dot(%a60, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n\n"
                          "ENTRY %main (p: f32[512,512]) -> f32[512,512] {\n  %p = f32[512,512]{1,0:T(8,128)} parameter(0)\n"
                          "  ROOT %f = f32[512,512]{1,0:T(8,128)} fusion(%p), kind=kOutput, calls=%c\n}\n");
    g_autoptr(EchImport) import = read_well(text, "hlo");
    g_autoptr(EchDevice) device = ech_test_device("tpu-v5e", NULL);
    EchKernelModel model;
    EchKernelCost cost;
    ck_assert(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, NULL));
    ck_assert(ech_program_price_kernel(import->program, ech_test_instruction(import->program, "f"), &model, false, NULL, &cost));
    ck_assert_int_gt(cost.time, 0);
}
END_TEST

/* Places of a program, as a compiler for @chip would choose them; NULL, and why. */
static EchPlaceProblem *places_of(const EchProgram *program, const char *chip, GError **error)
{
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(program, ech_place_chip(chip));
    return ech_place_problem_new(program, costs, true, error);
}

/* 200 iterations of 60 steps each are one loop, 600 times 8 of 4 are as many. */
START_TEST(loops_unrolled_far)
{
    static const char *const opcodes[] = {"add", "multiply", "subtract", "maximum"};
    unsigned loops = _i == 0 ? 1 : 600, iterations = _i == 0 ? 200 : 8, size = _i == 0 ? 60 : 4, step = 0;
    g_autoptr(GString) text = program_begin();
    entry_begin(text);
    g_string_append(text, "  %a0 = f32[8]{0:T(1024)} copy(%p)\n");
    for (unsigned k = 0; k < loops * iterations * size; k++, step++)
        APPEND(text, "  %%a%u = f32[%u]{0:T(1024)} %s(%%a%u, %%p)\n", step + 1, 8 + k / (iterations * size), opcodes[k % size % 4], step);
    entry_end(text);
    g_autoptr(EchImport) import = read_well(text, "hlo");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchPlaceProblem) problem = places_of(import->program, "v5e", &error);
    ck_assert_ok(problem, error);
    ck_assert_uint_eq(problem->loops, loops);
}
END_TEST

/* Instructions that lack what they name something by: placed somehow, and written again. */
static const char *const malformed[] = {
    "  %g = f32[1024]{0:T(1024)} bitcast()\n",
    "  %g = f32[1024]{0:T(1024)} get-tuple-element(), index=0\n",
    "  %t = (f32[1024]{0:T(1024)}) tuple(%p)\n  %g = f32[1024]{0:T(1024)} get-tuple-element(%t), index=99\n",
    "  %s = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}, u32[]) copy-start(%p)\n  %g = () copy-done(%s)\n",
    "  %t = () tuple()\n  %g = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}, u32[]) copy-start(%t)\n",
    "  %t = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}, u32[]) copy-start()\n  %g = f32[1024]{0:T(1024)} copy-done(%t)\n",
};

START_TEST(instructions_that_lack_something)
{
    g_autoptr(GString) text = program_begin();
    g_string_append(text, "ENTRY %main (p: f32[1024]) -> f32[1024] {\n  %p = f32[1024]{0:T(1024)} parameter(0)\n");
    APPEND(text, "  %%d = f32[1024]{0:T(1024)} add(%%p, %%p)\n%s  ROOT %%r = (f32[1024]{0:T(1024)}) tuple(%%d)\n}\n", malformed[_i]);
    for (unsigned root = 0; root < 2; root++) { /* and as the last of all, behind whose arrays there are no others */
        if (root == 1) {
            char *was = strstr(text->str, "  ROOT"), *last = g_strrstr_len(text->str, was - text->str, "  %g");
            g_string_truncate(text, (gsize)(was - text->str));
            g_string_insert(text, last - text->str + 2, "ROOT ");
            g_string_append(text, "}\n");
        }
        g_autoptr(EchImport) import = read_well(text, "hlo");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(import->program, ech_place_chip("v5e"));
        g_autoptr(EchPlaceProblem) problem = ech_place_problem_new(import->program, costs, true, &error);
        ck_assert_ok(problem, error);
        g_autoptr(EchMsaResult) result = ech_msa_run(&problem->flow->problem);
        g_autoptr(EchProgram) placed = ech_place_apply(import->program, problem, result, ECH_SPACE_VECTOR, 0, import->diag, &error);
        ck_assert_msg(placed != NULL || error != NULL, "no program, and no reason");
    }
}
END_TEST

/* A loop that carries the same array 3000 times: each has to lie where all others do. */
START_TEST(arrays_of_one_place)
{
    g_autoptr(GString) text = program_begin(), tuple = g_string_new("(");
    append_list(tuple, 3000, "f32[8]");
    g_string_append_c(tuple, ')');
    APPEND(text, "%%k (p: %s) -> pred[] {\n  %%p = %s parameter(0)\n  ROOT %%c = pred[] constant(true)\n}\n\n", tuple->str, tuple->str);
    APPEND(text, "%%b (p: %s) -> %s {\n  %%p = %s parameter(0)\n", tuple->str, tuple->str, tuple->str);
    for (unsigned k = 0; k < 3000; k++)
        APPEND(text, "  %%g%u = f32[8] get-tuple-element(%%p), index=%u\n  %%h%u = f32[8] negate(%%g%u)\n", k, k, k, k);
    APPEND(text, "  ROOT %%t = %s tuple(", tuple->str);
    for (unsigned k = 0; k < 3000; k++)
        APPEND(text, "%s%%h%u", k ? ", " : "", k);
    g_string_append(text, ")\n}\n\n");
    entry_begin(text);
    APPEND(text, "  %%i = %s tuple(", tuple->str);
    append_list(text, 3000, "%p");
    APPEND(text, ")\n  %%w = %s while(%%i), condition=%%k, body=%%b\n", tuple->str);
    entry_end(text);
    g_autoptr(EchImport) import = read_well(text, "hlo");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchPlaceProblem) problem = places_of(import->program, "v5e", &error);
    ck_assert_msg(problem == NULL && error != NULL, "placed");
    ck_assert_msg(strstr(error->message, "share one place") != NULL, "%s", error->message);
}
END_TEST

/* ---- captures ---- */

/* A name of 60 KB, on every line. */
START_TEST(names_looked_at_again_and_again)
{
    g_autoptr(GString) text = g_string_new("echelon-pretend 1\nclock 1\nname 1 \"");
    for (unsigned k = 0; k < 6000; k++)
        g_string_append(text, "0123456789");
    g_string_append(text, "\"\n");
    for (unsigned k = 0; k < 20000; k++)
        APPEND(text, "push %u 1 1\npop %u 1\n", k, k);
    g_string_append(text, "end\n");
    refused(text, "pretend", "names are used far too often for their length");
}
END_TEST

START_TEST(names_that_are_too_long)
{
    g_autoptr(GString) text = g_string_new("echelon-pretend 1\nclock 1\nname 1 \"");
    for (unsigned k = 0; k < 10000; k++)
        g_string_append(text, "0123456789");
    g_string_append(text, "\"\nkernel 5 0 0 1 1 1 1 32 1 1 0\nend\n");
    g_autoptr(EchImport) import = read_well(text, "pretend");
    ck_assert_uint_eq(ech_diag_count(import->diag, "names_cut"), 1);
    ck_assert_uint_eq(strlen(ech_trace_string(import->trace, ech_test_op(import->trace, ECH_OP_KERNEL, NULL)->name)), 65536);
}
END_TEST

/* @n streams with a kernel each, then a wait for the whole device @waits times. */
static GString *syncs(unsigned n, unsigned waits)
{
    GString *text = g_string_new("echelon-pretend 1\nclock 1\nname 1 \"k\"\n");
    for (unsigned k = 0; k < n; k++)
        APPEND(text, "kernel %u 0 %u 1 1 1 1 32 1 1 0\n", k, k);
    for (unsigned k = 0; k < waits; k++)
        APPEND(text, "kernel %u 0 0 1 1 1 1 32 1 1 0\nsync %u 4 0 0 0\n", n + 2 * k, n + 2 * k + 1);
    g_string_append(text, "end\n");
    return text;
}

START_TEST(waits_for_all_streams)
{
    g_autoptr(GString) few = syncs(10, 3), many = syncs(ECH_MAX_QUEUES + 1, 1);
    g_autoptr(EchImport) import = read_well(few, "pretend");
    /* The first waits for every stream, the others for the one that has something new. */
    ck_assert_uint_eq(ech_trace_n_deps(import->trace), 10 + 2 + 2); /* and what follows waits for the host */
    ck_assert_uint_eq(ech_diag_count(import->diag, "waits_for_too_many_streams"), 0);
    refused(many, "pretend", "V15");
}
END_TEST

/* Two threads in turn wait for thousands of streams each time. */
START_TEST(waits_that_are_too_many)
{
    g_autoptr(GString) text = g_string_new("{\"schemaVersion\":1,\"traceEvents\":[\n");
    for (unsigned k = 0; k < 4000; k++)
        APPEND(text, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":%u,\"ts\":%u,\"dur\":1,\"args\":{\"stream\":%u,\"device\":0}},\n", k, k,
               k);
    for (unsigned k = 0; k < 4000; k++)
        APPEND(text,
               "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":%u,\"ts\":%u,\"dur\":1,\"args\":{\"stream\":%u,\"device\":0}},\n"
               "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"s\",\"pid\":0,\"tid\":1,\"ts\":%u,\"dur\":1,\"args\":{\"cuda_sync_kind\":\"%s\",\"stream\":%d,"
               "\"device\":0}},\n",
               k, 9000 + 3 * k, k % 7, 9001 + 3 * k, k % 2 ? "Context Sync" : "Stream Sync", k % 2 ? -1 : 3);
    g_string_append(text, "{\"ph\":\"M\"}]}\n");
    g_autoptr(EchImport) import = read_well(text, "kineto");
    /* A wait depends on what the host has not waited for yet. */
    ck_assert_uint_lt(ech_trace_n_deps(import->trace), 100000);
}
END_TEST

static void put_text(GString *pickle, const char *text)
{
    g_string_append_c(pickle, 'X'); /* BINUNICODE */
    g_string_append_c(pickle, (char)strlen(text));
    g_string_append_len(pickle, "\0\0\0", 3);
    g_string_append(pickle, text);
}

static void put_number(GString *pickle, uint32_t number)
{
    number = GUINT32_TO_LE(number);
    g_string_append_c(pickle, 'J'); /* BININT */
    g_string_append_len(pickle, (const char *)&number, sizeof number);
}

/* Streams of a snapshot, however many: one queue each. */
START_TEST(streams_of_a_snapshot)
{
    g_autoptr(GString) pickle = g_string_new("\x80\x02}(");
    put_text(pickle, "segments");
    g_string_append(pickle, "]");
    put_text(pickle, "device_traces");
    g_string_append(pickle, "](](");
    for (unsigned k = 0; k < 90; k++) {
        g_string_append(pickle, "}(");
        put_text(pickle, "action");
        put_text(pickle, "alloc");
        put_text(pickle, "addr");
        put_number(pickle, 4096 + 512 * k);
        put_text(pickle, "size");
        put_number(pickle, 512);
        put_text(pickle, "stream");
        put_number(pickle, k % 9);
        g_string_append(pickle, "u");
    }
    g_string_append(pickle, "eeu.");
    g_autoptr(EchImport) import = read_well(pickle, "memory_snapshot");
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_ALLOC), 90);
    ck_assert_uint_eq(ech_trace_n_queues(import->trace), 1 + 9); /* the allocator's own first */
}
END_TEST

/* A column that is computed could be of any length, in every row. */
START_TEST(columns_that_are_computed)
{
    g_autofree char *path =
        ech_test_database("CREATE TABLE StringIds (id INTEGER, value TEXT AS (hex(zeroblob(100000))) VIRTUAL);"
                          "INSERT INTO StringIds (id) VALUES (1), (2);"
                          "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, shortName INTEGER);"
                          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 0, 7, 1), (300, 400, 0, 7, 2);");
    g_autoptr(EchImport) import = ech_test_import(path, NULL);
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_KERNEL), 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "names_not_in_StringIds"), 2);
}
END_TEST

/* One CUDA event serves a whole training run: a wait is for its newest recording, however many there are, with or without their own numbers. */
START_TEST(events_recorded_again_and_again)
{
    enum { N = 3000 };
    for (int numbered = 0; numbered < 2; numbered++) {
        g_autoptr(GString) sql = g_string_new(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,"
            " globalPid INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
            " eventId INTEGER, eventSyncId INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
            " correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER, eventSyncId INTEGER); BEGIN;");
        for (int i = 0; i < N; i++) { /* a kernel on stream 7, the event, a wait of stream 13 for it, a kernel there */
            int at = 1000 * (i + 1), call = 4 * i + 1, sync = numbered ? i + 10 : -1;
            for (int k = 0; k < 4; k++)
                g_string_append_printf(sql, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (%d,%d,0,%d,NULL);", at + 10 * k, at + 10 * k + 5, call + k);
            g_string_append_printf(sql,
                                   "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%d,%d,0,1,7,%d,0),(%d,%d,0,1,13,%d,0);"
                                   "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0,1,7,%d,0,5,%d);"
                                   "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (%d,%d,0,1,13,%d,0,2,5,%d);",
                                   at + 100, at + 400, call, at + 500, at + 600, call + 3, call + 1, sync, at + 20, at + 20, call + 2, sync);
        }
        g_string_append(sql, "COMMIT;");
        g_autofree char *path = ech_test_database(sql->str);
        g_autoptr(EchImport) import = ech_test_import(path, NULL);
        const EchTrace *t = import->trace;
        EchId last = ECH_NONE;
        unsigned right = 0, waits = 0;
        for (EchId i = 0; i < ech_trace_n_ops(t); i++) {
            const EchOp *op = &ech_trace_ops(t)[i];
            if (op->kind == ECH_OP_KERNEL && strcmp(ech_trace_string(t, ech_trace_queues(t)[op->queue].name), "stream 7") == 0)
                last = i;
            if (op->kind != ECH_OP_WAIT)
                continue;
            waits++;
            for (uint32_t d = 0; d < op->n_deps; d++)
                right += ech_trace_deps(t)[op->first_dep + d].op == last;
        }
        ck_assert_uint_eq(waits, N);
        ck_assert_uint_eq(right, N);
    }
}
END_TEST

/* ---- what is read is also run ---- */

static void allocate(const GString *text, const char *spec, EchAllocStats *ret)
{
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_alloc_text_read(text->str, text->len, "text", events, diag, &error), error);
    const EchAllocDevice device = {.capacity = UINT64_C(1) << 40};
    g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, &error);
    ck_assert_ok(allocator, error);
    const EchAllocRunOptions options = {0};
    ech_alloc_run(allocator, (const EchAllocEvent *)(const void *)events->data, events->len, &options);
    ech_allocator_stats(allocator, ret);
}

/* Pools that end, and caches that are emptied where there are very many of them. */
START_TEST(pools_without_number)
{
    enum { N = 40000 };
    g_autoptr(GString) ends = g_string_new(NULL), empties = g_string_new(NULL);
    for (unsigned k = 0; k < N; k++)
        APPEND(ends, "p %u 1000 %u\n", k, k + 10);
    for (unsigned k = 0; k < N; k++)
        APPEND(ends, "f %u\nd %u\n", k, k + 10);
    for (unsigned k = 0; k < N; k++)
        APPEND(empties, "a %u 1000 %u\nc\n", k, k + 10);
    EchAllocStats stats;
    allocate(ends, "pytorch:release:2.15", &stats);
    ck_assert_uint_eq(stats.segments_freed, N);
    allocate(empties, "pytorch:release:2.15", &stats);
    ck_assert_uint_eq(stats.segments_allocated, N);
    ck_assert_uint_eq(stats.segments_freed, 0);
}
END_TEST

/* Loops that are skipped one after the other. */
START_TEST(loops_without_number)
{
    enum { N = 40000 };
    g_autoptr(GString) text = g_string_new("echelon-trace 1 \"hand\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\ncompute 0 \"core\"\n");
    APPEND(text, "buffers %u\n", N);
    for (unsigned k = 0; k < N; k++)
        APPEND(text, "b \"x\" m=0 bytes=8192\n");
    APPEND(text, "ops %u\n", 4 * N);
    for (unsigned k = 0; k < N; k++)
        APPEND(text,
               "loop \"w\" q=0 target=3 bytes=1000000\nalloc \"x\" q=0 target=%u bytes=8192\nkernel \"f\" q=0 r=%u:8192 after=-1\n"
               "free \"x\" q=0 target=%u bytes=8192\n",
               k, k, k);
    g_autoptr(EchImport) import = read_well(text, "ech");
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, NULL);
    ck_assert_ptr_nonnull(device);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = ech_replay_run(import->trace, device, NULL, &options, &error);
    ck_assert_ok(run, error);
    ck_assert_uint_eq(run->n_skips, N);
    ck_assert_uint_eq(run->ops, N * (UINT64_C(3) * 1000000 + 1));
    const EchReport report = {.title = "t", .trace = import->trace, .device = device, .run = run};
    size_t n;
    EchShare *shares = ech_report_critical_path(&report, &n);
    EchTime sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += shares[i].time;
    ck_assert_int_le(llabs(sum - run->makespan), run->makespan / 1000000);
    ech_shares_free(shares, n);
}
END_TEST

/* Arrays that all live at once, in a heap that tries every gap. */
START_TEST(arrays_that_all_live)
{
    enum { N = 40000 };
    g_autofree EchXheapEvent *events = g_new0(EchXheapEvent, 2 * N);
    g_autofree EchBytes *sizes = g_new(EchBytes, N), *offsets = g_new(EchBytes, N);
    g_autofree uint64_t *ids = g_new(uint64_t, N);
    EchBytes all = 0;
    for (uint32_t k = 0; k < N; k++) {
        sizes[k] = 256 * (1 + k * 7919 % 97);
        all += sizes[k];
        ids[k] = k;
        events[k] = (EchXheapEvent){.kind = ECH_XHEAP_ALLOC, .buffer = k};
        events[N + k] = (EchXheapEvent){.kind = ECH_XHEAP_RELEASE, .buffer = k};
    }
    ck_assert_uint_eq(ech_xheap_run(ECH_XHEAP_BEST, 256, events, 2 * N, sizes, ids, N, offsets), all);
}
END_TEST

/* The same in the heap whose places are filled piece by piece. */
START_TEST(places_that_all_live)
{
    enum { N = 16000 };
    g_autofree EchXheapEvent *events = g_new0(EchXheapEvent, 2 * N);
    g_autofree EchBytes *sizes = g_new(EchBytes, N), *within = g_new0(EchBytes, N), *offsets = g_new(EchBytes, N);
    EchBytes all = 0;
    for (uint32_t k = 0; k < N; k++) {
        sizes[k] = 256 * (1 + k * 7919 % 97);
        all += sizes[k];
        events[k] = (EchXheapEvent){.kind = ECH_XHEAP_ALLOC, .buffer = k};
        events[N + k] = (EchXheapEvent){.kind = ECH_XHEAP_RELEASE, .buffer = k};
    }
    ck_assert_uint_eq(ech_xheap_run_staggered(256, events, 2 * N, sizes, within, N, offsets), all);
}
END_TEST

/* Small requests that share the driver's pages, and a pool in pieces that is synchronised with again and again. */
START_TEST(pieces_without_number)
{
    enum { N = 200000 };
    static const char *const specs[] = {"platform:share_below=1MiB", "cuda_async"};
    for (size_t s = 0; s < G_N_ELEMENTS(specs); s++) {
        const EchAllocDevice device = {.capacity = UINT64_C(1) << 40};
        g_autoptr(EchAllocator) allocator = ech_allocator_new(specs[s], &device, NULL);
        EchPlacement placement;
        for (uint32_t k = 0; k < N; k++)
            ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = k, .bytes = 1000 + k % 7 * 500}, &placement), ECH_FIT_OK);
        for (uint32_t k = 0; k < N; k += 2) {
            ech_allocator_release(allocator, k);
            ech_allocator_stream_done(allocator, 0);
        }
        for (uint32_t k = 0; k < N; k += 2) {
            ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = k, .bytes = 20000}, &placement), ECH_FIT_OK);
            ech_allocator_stream_done(allocator, 0);
        }
    }
}
END_TEST

/* Arrays that come and go, in a heap of one pass. */
START_TEST(arrays_that_leave_gaps)
{
    enum { N = 300000, LIVE = N / 4 };
    g_autofree EchXheapEvent *events = g_new0(EchXheapEvent, 2 * N);
    g_autofree EchBytes *sizes = g_new(EchBytes, N), *offsets = g_new(EchBytes, N);
    g_autofree uint64_t *ids = g_new(uint64_t, N);
    uint32_t n = 0;
    for (uint32_t k = 0; k < N + LIVE; k++) {
        if (k < N) {
            sizes[k] = 1 + k * UINT64_C(7919) % 1000003;
            ids[k] = k;
            events[n++] = (EchXheapEvent){.kind = ECH_XHEAP_ALLOC, .buffer = k};
        }
        if (k >= LIVE)
            events[n++] = (EchXheapEvent){.kind = ECH_XHEAP_RELEASE, .buffer = k - LIVE};
    }
    ck_assert_uint_gt(ech_xheap_run(ECH_XHEAP_FAST_MERGE, 16384, events, n, sizes, ids, N, offsets), LIVE * UINT64_C(500000));
}
END_TEST

/* ---- tables ---- */

/* Numbers chosen so that their products with a constant that anybody can read are the same: what a table makes of them is another matter in every process. */
START_TEST(numbers_that_would_meet)
{
    enum { N = 1000 };
    GHashTable *hashes[2] = {g_hash_table_new(NULL, NULL), g_hash_table_new(NULL, NULL)};
    for (uint64_t i = 0; i < N; i++) {
        const EchMeeting meeting = {.group = i * UINT64_C(0x9e3779b97f4a7c15), .times = i};
        g_hash_table_add(hashes[0], GUINT_TO_POINTER(ech_meeting_hash(&meeting)));
        g_hash_table_add(hashes[1], GUINT_TO_POINTER(ech_hash_pair(i, i)));
    }
    for (int k = 0; k < 2; k++) {
        ck_assert_uint_gt(g_hash_table_size(hashes[k]), N - 10);
        g_hash_table_unref(hashes[k]);
    }
}
END_TEST

/* Addresses of which 40000 have the hash of all others under the multiplication by 2^64 over the golden ratio, live at once. */
START_TEST(addresses_that_would_meet)
{
    /* (h >> 32) ^ (h >> 7) is 0 where the upper seven bits of the upper half are its lower seven, and the lower half follows from it. */
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t inverse = golden;
    for (int k = 0; k < 6; k++)
        inverse *= 2 - golden * inverse;
    g_autoptr(GString) text = g_string_new("{\"schemaVersion\":1,\"traceEvents\":[");
    unsigned n = 0;
    for (uint64_t middle = 1; n < 40000; middle++) {
        uint64_t ends = middle & 127, upper = ends << 25 | (middle >> 7) << 7 | ends, lower = ((upper ^ (upper & 127) << 25) & ((1u << 25) - 1)) << 7;
        uint64_t address = (upper << 32 | lower) * inverse;
        if (address > INT64_MAX)
            continue;
        APPEND(
            text,
            "%s\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":1,\"tid\":1,\"ts\":%u,\"args\":{\"Device Type\":1,\"Device Id\":0,"
            "\"Addr\":%" G_GUINT64_FORMAT ",\"Bytes\":512,\"Total Allocated\":%u,\"Total Reserved\":%u}}",
            n ? "," : "", n + 1, address, 512 * (n + 1), 512 * (n + 1));
        n++;
    }
    g_string_append(text, "]}");
    g_autoptr(EchImport) import = read_well(text, "kineto");
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_ALLOC), n);
}
END_TEST

/* A hundred thousand properties, and as many kernels that ask for one. */
START_TEST(properties_without_number)
{
    enum { N = 100000 };
    g_autoptr(GString) text = g_string_new("echelon-trace 1 \"x\"\n");
    for (unsigned k = 0; k < N; k++)
        APPEND(text, "property \"key %u\" \"\"\n", k);
    APPEND(text, "strings 0\nmemories 1\n\"hbm\"\nqueues 1\ncompute 0 \"core\"\nbuffers 0\nops %u\n", N);
    for (unsigned k = 0; k < N; k++)
        APPEND(text, "kernel q=0 estimate=%u\n", k);
    g_autoptr(EchImport) import = read_well(text, "ech");
    g_autoptr(EchDevice) device = ech_test_device("tpu-v5e", NULL);
    g_autoptr(EchRun) run = ech_test_replay(import->trace, device);
    ck_assert_uint_eq(run->ops, N);
}
END_TEST

/* What is said to be a run has a hundred thousand memories. */
START_TEST(memories_without_number)
{
    g_autoptr(GString) text = g_string_new("{\"completed\": true, \"fits\": true, \"memories\": {\"hbm\": {}");
    for (unsigned k = 0; k < 100000; k++)
        APPEND(text, ", \"%u\": {\"peak_live_bytes\": %u}", k, k % 4096);
    g_string_append(text, "}}");
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) node = json_from_string(text->str, &error);
    ck_assert_ok(node != NULL, error);
    EchTableRow rows[] = {{.label = "a", .run = json_node_get_object(node)}, {.label = "b", .run = json_node_get_object(node)}};
    g_autoptr(GString) table = ech_report_table("run", rows, 2, 0);
    ck_assert(strstr(table->str, "a") != NULL);
    g_autoptr(GPtrArray) sentences = ech_explain_change(rows[0].run, rows[1].run);
    ck_assert_uint_gt(sentences->len, 0);
    g_autoptr(GString) difference = ech_report_difference("a", rows[0].run, "b", rows[1].run);
    ck_assert_uint_eq(difference->len, 0);
}
END_TEST

/* ---- texts ---- */

/* A byte that says that three more belong to it, and none is left. */
START_TEST(characters_cut_short)
{
    static const char cut[] = "ab\xf0\0c\0\0\0\0", whole[] = "\xf0\xd0\xa4 \xd0\xa4 \xd0\xa4 \xd0\xa4 \xd0\xa4\xf0";
    ck_assert_int_eq(ech_text_width(cut), 3);
    ck_assert_int_eq(ech_text_width(whole), 11);
    g_autoptr(GString) out = g_string_new(NULL);
    ech_text_cell(out, whole, 7);
    ck_assert_str_eq(out->str, "\xf0\xd0\xa4...\xd0\xa4\xf0");
}
END_TEST

/* ---- files ---- */

START_TEST(devices_without_an_end)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_open("/dev/zero", &error);
    ck_assert(!source && error);
    ck_assert_msg(g_str_has_prefix(error->message, "/dev/zero: "), "%s", error->message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hostile");
    TCase *tests = tcase_create("hostile");
    tcase_add_test(tests, tuples_given_many_times);
    tcase_add_test(tests, members_of_wide_tuples);
    tcase_add_test(tests, computations_that_many_call);
    tcase_add_test(tests, results_of_results);
    tcase_add_test(tests, bodies_that_many_loops_share);
    tcase_add_test(tests, stacks_without_number);
    tcase_add_test(tests, constants_that_many_kernels_read);
    tcase_add_test(tests, places_taken_in_turn);
    tcase_add_test(tests, ways_to_an_operand);
    tcase_add_loop_test(tests, loops_unrolled_far, 0, 2);
    tcase_add_loop_test(tests, instructions_that_lack_something, 0, (int)G_N_ELEMENTS(malformed));
    tcase_add_test(tests, arrays_of_one_place);
    tcase_add_test(tests, names_looked_at_again_and_again);
    tcase_add_test(tests, names_that_are_too_long);
    tcase_add_test(tests, waits_for_all_streams);
    tcase_add_test(tests, waits_that_are_too_many);
    tcase_add_test(tests, streams_of_a_snapshot);
    tcase_add_test(tests, columns_that_are_computed);
    tcase_add_test(tests, events_recorded_again_and_again);
    tcase_add_test(tests, pools_without_number);
    tcase_add_test(tests, loops_without_number);
    tcase_add_test(tests, arrays_that_all_live);
    tcase_add_test(tests, places_that_all_live);
    tcase_add_test(tests, pieces_without_number);
    tcase_add_test(tests, arrays_that_leave_gaps);
    tcase_add_test(tests, numbers_that_would_meet);
    tcase_add_test(tests, addresses_that_would_meet);
    tcase_add_test(tests, properties_without_number);
    tcase_add_test(tests, memories_without_number);
    tcase_add_test(tests, characters_cut_short);
    tcase_add_test(tests, devices_without_an_end);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
