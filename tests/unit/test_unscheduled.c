/* Programs that no compiler has seen yet: what becomes of offload marks, calls, layouts and element-wise chains; and pairs of a module before and after the
 * compiler, held against each other. */
#include "models/device/device.h"
#include "sim/import/import.h"
#include "sim/program/gpu_launch.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* Whether an array has the dimensions that its instruction's numbers say, of its first operand's. */
static bool has_dimensions(const EchInstruction *i, const EchLayout *to, const EchLayout *from)
{
    size_t length = 0;
    const char *text = ech_program_attribute(i, "dimensions", &length);
    unsigned n = 0, numbers[ECH_LAYOUT_MAX_RANK], kept = 0;
    for (size_t k = 0; text && k < length && n < ECH_LAYOUT_MAX_RANK; k++)
        if (g_ascii_isdigit(text[k]) && !g_ascii_isdigit(text[k - 1])) /* "{0,2}" */
            numbers[n++] = (unsigned)g_ascii_strtoull(text + k, NULL, 10);
    bool same = i->opcode != ECH_HLO_TRANSPOSE || (n == from->rank && n == to->rank);
    for (unsigned k = 0; i->opcode == ECH_HLO_BROADCAST && k < from->rank; k++)
        same = same && n == from->rank && numbers[k] < to->rank && to->dims[numbers[k]] == from->dims[k];
    for (unsigned k = 0; same && i->opcode == ECH_HLO_TRANSPOSE && k < n; k++)
        same = numbers[k] < n && to->dims[k] == from->dims[numbers[k]];
    for (unsigned k = 0; i->opcode == ECH_HLO_REDUCE && k < from->rank; k++) {
        bool summed = false;
        for (unsigned j = 0; j < n; j++)
            summed |= numbers[j] == k;
        same = same && (summed || (kept < to->rank && to->dims[kept] == from->dims[k]));
        kept += !summed;
    }
    same = same && (i->opcode != ECH_HLO_REDUCE || kept == to->rank);
    for (unsigned k = 0; i->opcode == ECH_HLO_MULTIPLY && k < to->rank; k++)
        same = same && to->rank == from->rank && to->dims[k] == from->dims[k];
    return same && (i->opcode != ECH_HLO_RESHAPE || ech_layout_elements(to) == ech_layout_elements(from));
}

/* The program, with places; what was made of it is made of arrays of the right dimensions. */
static EchImport *read_text(const char *text, const char *device)
{
    EchImport *import = ech_test_hlo(text, device);
    const EchProgram *p = import->program;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        for (uint32_t o = 0; o < i->n_operands && (o == 0 || i->opcode == ECH_HLO_MULTIPLY); o++) {
            const EchLayout *to = ech_program_layout(p, i->shape), *from = ech_program_layout(p, p->instructions[ech_program_operand(p, i, o)].shape);
            ck_assert_msg(!to || !from || has_dimensions(i, to, from), "%s of %s", i->name, text);
        }
    }
    ech_test_assign(import);
    return import;
}

/* What a program reads of a file's literals is there for as long as it is, however many programs were made of one another on the way to it. */
START_TEST(literals_stay)
{
    g_autoptr(EchImport) import = ech_test_corpus("hlo_proto/table.before.pb", "hlo_proto");
    const EchProgram *p = import->program;
    unsigned found = 0;
    for (size_t i = 0; i < p->n_instructions; i++) {
        const char *literal = p->instructions[i].literal;
        bool kept = literal == NULL;
        for (guint k = 0; k < p->keep->len && !kept; k++) {
            gsize n;
            const char *data = g_bytes_get_data(p->keep->pdata[k], &n);
            kept = (uintptr_t)literal >= (uintptr_t)data && (uintptr_t)literal < (uintptr_t)data + n;
        }
        ck_assert_msg(kept, "%s", p->instructions[i].name);
        found += literal != NULL;
    }
    ck_assert_uint_gt(found, 0);
}
END_TEST

static uint64_t count_opcode(const EchProgram *p, EchHlo opcode)
{
    uint64_t n = 0;
    for (size_t i = 0; i < p->n_instructions; i++)
        n += p->instructions[i].opcode == opcode && p->instructions[i].schedule != ECH_NONE;
    return n;
}

/* Bytes over the link and copies, each body once. */
typedef struct {
    EchBytes to_host, from_host;
    unsigned copies;
} Moved;

static Moved moved(const EchProgram *program, EchDiag *diag)
{
    GError *error = NULL;
    g_autoptr(EchTrace) trace = ech_program_lower(program, NULL, NULL, diag, &error);
    ck_assert_ok(trace != NULL, error);
    Moved sum = {0};
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_COPY)
            continue;
        bool from = strcmp(ech_trace_memory(trace, op->memory_from), "host") == 0, to = strcmp(ech_trace_memory(trace, op->memory_to), "host") == 0;
        sum.to_host += to && !from ? op->bytes : 0;
        sum.from_host += from && !to ? op->bytes : 0;
        sum.copies += from != to;
    }
    return sum;
}

/* Two loops: the first keeps a slice of every iteration in a stack on the host, the second takes them back. TO and BACK are the marks. */
#define STACKED(TO, BACK)                                                                                                                                      \
    "HloModule stacked, entry_computation_layout={(f32[64,128]{1,0})->f32[64,128]{1,0}}\n\n"                                                                   \
    "%below (s: (s32[], f32[64,128], f32[4,64,128])) -> pred[] {\n"                                                                                            \
    "  %s = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) parameter(0)\n"                                                                                    \
    "  %i = s32[] get-tuple-element(%s), index=0\n"                                                                                                            \
    "  %n = s32[] constant(4)\n"                                                                                                                               \
    "  ROOT %l = pred[] compare(%i, %n), direction=LT\n"                                                                                                       \
    "}\n\n"                                                                                                                                                    \
    "%keep (s: (s32[], f32[64,128], f32[4,64,128])) -> (s32[], f32[64,128], f32[4,64,128]) {\n"                                                                \
    "  %s = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) parameter(0)\n"                                                                                    \
    "  %i = s32[] get-tuple-element(%s), index=0\n"                                                                                                            \
    "  %one = s32[] constant(1)\n"                                                                                                                             \
    "  %zero = s32[] constant(0)\n"                                                                                                                            \
    "  %next = s32[] add(%i, %one)\n"                                                                                                                          \
    "  %x = f32[64,128]{1,0} get-tuple-element(%s), index=1\n"                                                                                                 \
    "  %y = f32[64,128]{1,0} custom-call(%x), custom_call_target=\"layer\"\n"                                                                                  \
    "  %moved = f32[64,128]{1,0} custom-call(%x), " TO "\n"                                                                                                    \
    "  %slice = f32[1,64,128]{2,1,0} reshape(%moved)\n"                                                                                                        \
    "  %stack = f32[4,64,128]{2,1,0} get-tuple-element(%s), index=2\n"                                                                                         \
    "  %kept = f32[4,64,128]{2,1,0} dynamic-update-slice(%stack, %slice, %i, %zero, %zero)\n"                                                                  \
    "  ROOT %t = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) tuple(%next, %y, %kept)\n"                                                                    \
    "}\n\n"                                                                                                                                                    \
    "%take (s: (s32[], f32[64,128], f32[4,64,128])) -> (s32[], f32[64,128], f32[4,64,128]) {\n"                                                                \
    "  %s = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) parameter(0)\n"                                                                                    \
    "  %i = s32[] get-tuple-element(%s), index=0\n"                                                                                                            \
    "  %one = s32[] constant(1)\n"                                                                                                                             \
    "  %zero = s32[] constant(0)\n"                                                                                                                            \
    "  %next = s32[] add(%i, %one)\n"                                                                                                                          \
    "  %g = f32[64,128]{1,0} get-tuple-element(%s), index=1\n"                                                                                                 \
    "  %stack = f32[4,64,128]{2,1,0} get-tuple-element(%s), index=2\n"                                                                                         \
    "  %slice = f32[1,64,128]{2,1,0} dynamic-slice(%stack, %i, %zero, %zero), dynamic_slice_sizes={1,64,128}\n"                                                \
    "  %flat = f32[64,128]{1,0} reshape(%slice)\n"                                                                                                             \
    "  %back = f32[64,128]{1,0} custom-call(%flat), " BACK "\n"                                                                                                \
    "  %h = f32[64,128]{1,0} custom-call(%g, %back), custom_call_target=\"gradient\"\n"                                                                        \
    "  ROOT %t = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) tuple(%next, %h, %stack)\n"                                                                   \
    "}\n\n"                                                                                                                                                    \
    "ENTRY %main (p: f32[64,128]) -> f32[64,128] {\n"                                                                                                          \
    "  %p = f32[64,128]{1,0} parameter(0)\n"                                                                                                                   \
    "  %zero = s32[] constant(0)\n"                                                                                                                            \
    "  %blank = f32[] constant(0)\n"                                                                                                                           \
    "  %empty = f32[4,64,128]{2,1,0} broadcast(%blank), dimensions={}\n"                                                                                       \
    "  %a = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) tuple(%zero, %p, %empty)\n"                                                                        \
    "  %w = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) while(%a), condition=%below, body=%keep\n"                                                         \
    "  %y = f32[64,128]{1,0} get-tuple-element(%w), index=1\n"                                                                                                 \
    "  %stack = f32[4,64,128]{2,1,0} get-tuple-element(%w), index=2\n"                                                                                         \
    "  %b = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) tuple(%zero, %y, %stack)\n"                                                                        \
    "  %v = (s32[], f32[64,128]{1,0}, f32[4,64,128]{2,1,0}) while(%b), condition=%below, body=%take\n"                                                         \
    "  ROOT %r = f32[64,128]{1,0} get-tuple-element(%v), index=1\n"                                                                                            \
    "}\n"

static const char stacked[] = STACKED("custom_call_target=\"MoveToHost\"", "custom_call_target=\"MoveToDevice\"");
static const char annotated[] =
    STACKED("custom_call_target=\"annotate_device_placement\", custom_call_has_side_effect=true, frontend_attributes={_xla_buffer_placement=\"pinned_host\"}",
            "custom_call_target=\"annotate_device_placement\", custom_call_has_side_effect=true, frontend_attributes={_xla_buffer_placement=\"device\"}");

enum { SLICE = 64 * 128 * 4, STACK = 4 * SLICE };

START_TEST(a_stack_on_the_host_goes_through_two_loops)
{
    static const char *const texts[] = {stacked, annotated};
    static const char *const devices[] = {"h100-sxm", "tpu-v5e"};
    for (size_t k = 0; k < 4; k++) {
        g_autoptr(EchImport) import = read_text(texts[k / 2], devices[k % 2]);
        EchMemoryAnalysis m = ech_program_memory_analysis(import->program);
        ck_assert_uint_eq(m.host_temp, STACK);
        ck_assert_uint_eq(m.argument, SLICE);
        ck_assert_uint_lt(m.temp, k % 2 ? 2 * STACK : STACK);
        Moved sum = moved(import->program, import->diag);
        ck_assert_uint_eq(sum.to_host, SLICE);
        ck_assert_uint_eq(sum.from_host, SLICE);
        ck_assert_uint_eq(sum.copies, 2);
        ck_assert_uint_eq(ech_diag_count(import->diag, "host_buffers_made_of_broadcasts"), 1);
        ck_assert_uint_eq(ech_diag_count(import->diag, "host_copies_scheduled_by_echelon"), 2);
        ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_on_host_memory"), 0);
        ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_ASYNC_START), 2);
        /* Both loops still tell how often they run. */
        for (size_t i = 0; i < import->program->n_instructions; i++) {
            uint64_t trips = 0;
            EchOrigin origin;
            if (import->program->instructions[i].opcode == ECH_HLO_WHILE)
                ck_assert(ech_program_trips(import->program, (EchId)i, &trips, &origin) && trips == 4);
        }
    }
}
END_TEST

/* A loop's element lies as it came in, and its body makes it so: rows of 4 would take nearly twice as much as columns of 256 do. */
START_TEST(loops_keep_the_layout_that_they_were_given)
{
    static const char text[] = "HloModule m, entry_computation_layout={(f32[256,9,4]{0,2,1:T(4,128)})->f32[256,9,4]{0,2,1:T(4,128)}}\n\n"
                               "%below (s: (s32[], f32[256,9,4])) -> pred[] {\n"
                               "  %s = (s32[], f32[256,9,4]{2,1,0}) parameter(0)\n"
                               "  %i = s32[] get-tuple-element(%s), index=0\n"
                               "  %n = s32[] constant(4)\n"
                               "  ROOT %l = pred[] compare(%i, %n), direction=LT\n"
                               "}\n\n"
                               "%turn (b: (s32[], f32[256,9,4])) -> (s32[], f32[256,9,4]) {\n"
                               "  %b = (s32[], f32[256,9,4]{2,1,0}) parameter(0)\n"
                               "  %j = s32[] get-tuple-element(%b), index=0\n"
                               "  %one = s32[] constant(1)\n"
                               "  %next = s32[] add(%j, %one)\n"
                               "  %x = f32[256,9,4]{2,1,0} get-tuple-element(%b), index=1\n"
                               "  %y = f32[256,9,4]{2,1,0} custom-call(%x, %x), custom_call_target=\"layer\"\n"
                               "  ROOT %t = (s32[], f32[256,9,4]{2,1,0}) tuple(%next, %y)\n"
                               "}\n\n"
                               "ENTRY %main (p: f32[256,9,4]) -> f32[256,9,4] {\n"
                               "  %p = f32[256,9,4]{2,1,0} parameter(0)\n"
                               "  %zero = s32[] constant(0)\n"
                               "  %a = (s32[], f32[256,9,4]{2,1,0}) tuple(%zero, %p)\n"
                               "  %w = (s32[], f32[256,9,4]{2,1,0}) while(%a), condition=%below, body=%turn\n"
                               "  ROOT %r = f32[256,9,4]{2,1,0} get-tuple-element(%w), index=1\n"
                               "}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    EchMemoryAnalysis m = ech_program_memory_analysis(import->program);
    ck_assert_uint_eq(m.argument, 36864);
    ck_assert_uint_eq(m.output, 36864);
}
END_TEST

/* Donated arguments that are given to no output yet are so by size, as XLA does when it compiles. */
START_TEST(donors_are_given_to_outputs_of_their_size)
{
    static const char text[] =
        "HloModule m, buffer_donor={ (0, {}), (2, {}) }, "
        "entry_computation_layout={(f32[64,128]{1,0}, f32[64,128]{1,0}, f32[32]{0})->(f32[64,128]{1,0}, f32[64,128]{1,0}, f32[16]{0})}\n\n"
        "ENTRY %main (p: f32[64,128], q: f32[64,128], r: f32[32]) -> (f32[64,128], f32[64,128], f32[16]) {\n"
        "  %p = f32[64,128]{1,0} parameter(0)\n"
        "  %q = f32[64,128]{1,0} parameter(1)\n"
        "  %r = f32[32]{0} parameter(2)\n"
        "  %a = f32[64,128]{1,0} add(%p, %q)\n"
        "  %b = f32[64,128]{1,0} multiply(%p, %q)\n"
        "  %c = f32[16]{0} slice(%r), slice={[0:16]}\n"
        "  ROOT %t = (f32[64,128]{1,0}, f32[64,128]{1,0}, f32[16]{0}) tuple(%a, %b, %c)\n"
        "}\n";
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    ck_assert_uint_eq(import->program->n_donations, 1);
    ck_assert_int_eq(import->program->donations[0].parameter, 0);
    ck_assert_uint_eq(ech_program_memory_analysis(import->program).alias, SLICE);
}
END_TEST

/* Without marks the stack is an ordinary temporary. */
START_TEST(without_marks_nothing_moves)
{
    g_autoptr(EchImport) import = read_text(STACKED("custom_call_target=\"other\"", "custom_call_target=\"another\""), "h100-sxm");
    EchMemoryAnalysis m = ech_program_memory_analysis(import->program);
    ck_assert_uint_eq(m.host_temp, 0);
    ck_assert_uint_ge(m.temp, STACK);
    ck_assert_uint_eq(moved(import->program, import->diag).copies, 0);
}
END_TEST

#define ENTRY_OF(LAYOUT, BODY)                                                                                                                                 \
    "HloModule m, entry_computation_layout={" LAYOUT "}\n\n"                                                                                                   \
    "ENTRY %main (p: f32[64,128]) -> f32[64,128] {\n  %p = f32[64,128]{1,0} parameter(0)\n" BODY "}\n"
#define ON_HOST "f32[64,128]{1,0:S(5)}"
#define HERE "f32[64,128]{1,0}"
#define MOVE(NAME, FROM, TO) " %" NAME " = f32[64,128]{1,0} custom-call(%" FROM "), custom_call_target=\"MoveTo" TO "\"\n"
#define WORK(NAME, FROM) " %" NAME " = f32[64,128]{1,0} custom-call(%" FROM "), custom_call_target=\"layer\"\n"

START_TEST(parameters_and_results_on_the_host)
{
    static const char text[] = ENTRY_OF("(" ON_HOST ")->" ON_HOST, MOVE("d", "p", "Device") WORK("y", "d") "  ROOT" MOVE("r", "y", "Host"));
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    EchMemoryAnalysis m = ech_program_memory_analysis(import->program);
    ck_assert_uint_eq(m.host_argument, SLICE);
    ck_assert_uint_eq(m.host_output, SLICE);
    ck_assert_uint_eq(m.argument, 0);
    ck_assert_uint_eq(m.host_temp, 0);
    Moved sum = moved(import->program, import->diag);
    ck_assert_uint_eq(sum.to_host, SLICE);
    ck_assert_uint_eq(sum.from_host, SLICE);
    ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_COPY_START), 2);
}
END_TEST

/* XLA refuses to compute on what lies on the host; echelon says so and lets the device read over the link. */
START_TEST(computing_on_host_memory_is_told)
{
    static const char text[] = ENTRY_OF("(" ON_HOST ")->" HERE, "  ROOT" WORK("y", "p"));
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_on_host_memory"), 1);
    ck_assert(ech_test_says(import->diag, "y (custom-call)"));
    ck_assert_uint_eq(moved(import->program, import->diag).copies, 0);
    ck_assert_uint_eq(ech_program_memory_analysis(import->program).host_argument, SLICE);
}
END_TEST

/* The result's layout says host, no mark does: it is copied there. A mark of what is there already moves nothing. */
START_TEST(a_result_is_brought_to_where_its_layout_says)
{
    static const char unmarked[] = ENTRY_OF("(" HERE ")->" ON_HOST, "  ROOT" WORK("y", "p"));
    g_autoptr(EchImport) import = read_text(unmarked, "h100-sxm");
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_to_host_without_a_mark"), 1);
    ck_assert_uint_eq(ech_program_memory_analysis(import->program).host_output, SLICE);
    ck_assert_uint_eq(moved(import->program, import->diag).to_host, SLICE);
    static const char twice[] = ENTRY_OF("(" HERE ")->" ON_HOST, WORK("y", "p") MOVE("h", "y", "Host") "  ROOT" MOVE("again", "h", "Host"));
    g_autoptr(EchImport) marked = read_text(twice, "h100-sxm");
    ck_assert_uint_eq(moved(marked->program, marked->diag).copies, 1);
    static const char back[] = ENTRY_OF("(" HERE ")->" HERE, WORK("y", "p") "  ROOT" MOVE("d", "y", "Device"));
    g_autoptr(EchImport) none = read_text(back, "h100-sxm");
    ck_assert_uint_eq(moved(none->program, none->diag).copies, 0);
}
END_TEST

/* Through tuples, barriers, branches, and slices of a parameter on the host. */
START_TEST(host_places_pass_through_what_only_passes_on)
{
    static const char text[] =
        "HloModule m, entry_computation_layout={(pred[], f32[4,64,128]{2,1,0:S(5)})->f32[64,128]{1,0}}\n\n"
        "%yes (a: f32[4,64,128]) -> f32[64,128] {\n"
        "  %a = f32[4,64,128]{2,1,0} parameter(0)\n"
        "  %s = f32[1,64,128]{2,1,0} slice(%a), slice={[1:2], [0:64], [0:128]}\n"
        "  %f = f32[64,128]{1,0} reshape(%s)\n"
        "  ROOT" MOVE("d", "f", "Device") "}\n\n"
                                          "%no (b: f32[4,64,128]) -> f32[64,128] {\n"
                                          "  %b = f32[4,64,128]{2,1,0} parameter(0)\n"
                                          "  %t = (f32[4,64,128]{2,1,0}, f32[4,64,128]{2,1,0}) tuple(%b, %b)\n"
                                          "  %o = (f32[4,64,128]{2,1,0}, f32[4,64,128]{2,1,0}) opt-barrier(%t)\n"
                                          "  %g = f32[4,64,128]{2,1,0} get-tuple-element(%o), index=1\n"
                                          "  %whole = f32[4,64,128]{2,1,0} custom-call(%g), custom_call_target=\"MoveToDevice\"\n"
                                          "  ROOT %r = f32[64,128]{1,0} custom-call(%whole), custom_call_target=\"fold\"\n"
                                          "}\n\n"
                                          "ENTRY %main (c: pred[], p: f32[4,64,128]) -> f32[64,128] {\n"
                                          "  %c = pred[] parameter(0)\n"
                                          "  %p = f32[4,64,128]{2,1,0} parameter(1)\n"
                                          "  ROOT %r = f32[64,128]{1,0} conditional(%c, %p, %p), true_computation=%yes, false_computation=%no\n"
                                          "}\n";
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_on_host_memory"), 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "slices_from_host"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_from_host"), 1);
    ck_assert_uint_eq(ech_program_memory_analysis(import->program).host_argument, STACK);
}
END_TEST

/* What was put on the host stays there under other shapes and orders, which move nothing. */
START_TEST(host_memory_is_reshaped_where_it_is)
{
    static const char text[] = "HloModule m\n\n"
                               "ENTRY %main (p: f32[64,128]) -> f32[64,128] {\n  %p = f32[64,128]{1,0} parameter(0)\n" WORK("f", "p")
                                   MOVE("h", "f", "Host") "  %flat = f32[8192]{0} bitcast(%h)\n  %again = f32[64,128]{1,0} bitcast(%flat)\n" MOVE(
                                       "d", "again", "Device") "  ROOT" WORK("r", "d") "}\n";
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_to_host"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_from_host"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_on_host_memory"), 0);
    ck_assert_uint_eq(ech_program_memory_analysis(import->program).host_temp, 64 * 128 * 4);
    const EchProgram *p = import->program;
    const char *const on_host[] = {"flat", "again"};
    for (size_t i = 0; i < G_N_ELEMENTS(on_host); i++) {
        const EchShape *shape = &p->shapes[p->instructions[ech_test_instruction(p, on_host[i])].shape];
        ck_assert_msg(shape->space == ECH_SPACE_HOST, "%s in space %d", on_host[i], (int)shape->space);
    }
}
END_TEST

/* Where one branch hands out what it has put on the host, the others' results go there, too. */
START_TEST(branches_hand_out_host_memory)
{
    static const char text[] =
        "HloModule m\n\n"
        "%yes (a: f32[64,128]) -> f32[64,128] {\n  %a = f32[64,128]{1,0} parameter(0)\n"
        " " WORK("f", "a") "  ROOT" MOVE("h", "f",
                                         "Host") "}\n\n"
                                                 "%no (b: f32[64,128]) -> f32[64,128] {\n  %b = f32[64,128]{1,0} parameter(0)\n  ROOT" WORK(
                                                     "n", "b") "}\n\n"
                                                               "ENTRY %main (c: pred[], p: f32[64,128]) -> f32[64,128] {\n"
                                                               "  %c = pred[] parameter(0)\n  %p = f32[64,128]{1,0} parameter(1)\n"
                                                               "  %r = f32[64,128]{1,0} conditional(%c, %p, %p), true_computation=%yes, false_computation=%no\n"
                                                               "  ROOT" MOVE("d", "r", "Device") "}\n";
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_to_host"), 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_from_host"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_on_host_memory"), 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "host_places_not_reached"), 0);
    ck_assert_uint_eq(ech_program_memory_analysis(import->program).host_temp, 64 * 128 * 4);
}
END_TEST

/* Calls */

START_TEST(calls_with_several_callers_are_made_anew_for_each)
{
    static const char text[] = "HloModule m\n\n"
                               "%inner (a: f32[1024]) -> f32[1024] {\n  %a = f32[1024]{0} parameter(0)\n"
                               "  ROOT %k = f32[1024]{0} custom-call(%a), custom_call_target=\"k\"\n}\n\n"
                               "%outer (b: f32[1024]) -> (f32[1024], f32[1024]) {\n  %b = f32[1024]{0} parameter(0)\n"
                               "  %x = f32[1024]{0} call(%b), to_apply=%inner\n  %y = f32[1024]{0} call(%x), to_apply=%inner\n"
                               "  ROOT %t = (f32[1024]{0}, f32[1024]{0}) tuple(%x, %y)\n}\n\n"
                               "ENTRY %main (p: f32[1024]) -> f32[1024] {\n  %p = f32[1024]{0} parameter(0)\n"
                               "  %a = (f32[1024]{0}, f32[1024]{0}) call(%p), to_apply=%outer\n  %g = f32[1024]{0} get-tuple-element(%a), index=1\n"
                               "  %c = (f32[1024]{0}, f32[1024]{0}) call(%g), to_apply=%outer\n  ROOT %r = f32[1024]{0} get-tuple-element(%c), index=1\n}\n";
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    ck_assert_uint_eq(ech_diag_count(import->diag, "calls_inlined"), 6);
    ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_CUSTOM_CALL), 4);
    ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_CALL), 0);
    g_autoptr(EchTrace) trace = ech_program_lower(import->program, NULL, NULL, import->diag, NULL);
    unsigned kernels = 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        kernels += ech_trace_ops(trace)[i].kind == ECH_OP_KERNEL && ech_trace_ops(trace)[i].n_uses == 2;
    ck_assert_uint_eq(kernels, 4);
}
END_TEST

/* Every level calls the one below twice. */
static char *tower(unsigned levels)
{
    GString *text = g_string_new("HloModule tower\n\n%f0 (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n"
                                 "  ROOT %k = f32[8]{0} custom-call(%a), custom_call_target=\"k\"\n}\n\n");
    for (unsigned k = 1; k <= levels; k++)
        g_string_append_printf(text,
                               "%s%%f%u (a: f32[8]) -> f32[8] {\n  %%a = f32[8]{0} parameter(0)\n  %%x = f32[8]{0} call(%%a), to_apply=%%f%u\n"
                               "  ROOT %%y = f32[8]{0} call(%%x), to_apply=%%f%u\n}\n\n",
                               k == levels ? "ENTRY " : "", k, k - 1, k - 1);
    return g_string_free(text, FALSE);
}

static char *refusal(const char *text)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "text");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, "hlo", NULL, &error);
    ck_assert(import == NULL && error != NULL);
    return g_strdup(error->message);
}

START_TEST(calls_are_inlined_within_bounds)
{
    g_autofree char *fine = tower(10), *high = tower(40);
    g_autoptr(EchImport) import = read_text(fine, "h100-sxm");
    ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_CUSTOM_CALL), 1024);
    g_autofree char *message = refusal(high);
    ck_assert_msg(strstr(message, "too many call the same") != NULL, "%s", message);
    g_autofree char *round =
        refusal("HloModule m\n\n%f (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n  ROOT %r = f32[8]{0} call(%a), to_apply=%g\n}\n\n"
                "%g (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n  ROOT %r = f32[8]{0} call(%a), to_apply=%f\n}\n\n"
                "ENTRY %main (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %r = f32[8]{0} call(%p), to_apply=%f\n}\n");
    ck_assert_msg(strstr(round, "calls itself") != NULL, "%s", round);
}
END_TEST

/* Fusion, copies, layouts */

START_TEST(chains_take_no_memory_between_their_ends)
{
    static const char text[] = "HloModule m\n\nENTRY %main (p: f32[1024,1024]) -> f32[1024,1024] {\n  %p = f32[1024,1024]{1,0} parameter(0)\n"
                               "  %c = f32[] constant(2)\n  %b = f32[1024,1024]{1,0} broadcast(%c), dimensions={}\n"
                               "  %x = f32[1024,1024]{1,0} multiply(%p, %b)\n  %y = f32[1024,1024]{1,0} tanh(%x)\n"
                               "  %z = f32[1024,1024]{1,0} add(%y, %x)\n  ROOT %r = f32[1024,1024]{1,0} subtract(%z, %b)\n}\n";
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    EchMemoryAnalysis m = ech_program_memory_analysis(import->program);
    ck_assert_uint_eq(m.temp, 0);
    ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_FUSION), 1);
    EchId fusion = import->program->computations[import->program->entry].root;
    EchHloWork work = ech_program_work(import->program, fusion);
    ck_assert_uint_eq(work.vector, 3 * 1024 * 1024);
    ck_assert_uint_eq(work.transcendental, 1024 * 1024);
    ck_assert_uint_eq(ech_program_operand_bytes(import->program, fusion, 0), 1024 * 1024 * 4);
}
END_TEST

/* An update in place of a parameter that must stay as it is works on a copy; of a donated one it does not. */
START_TEST(what_is_updated_in_place_is_alone_there)
{
#define UPDATE(ALIAS)                                                                                                                                          \
    "HloModule m" ALIAS "\n\nENTRY %main (p: f32[64,128], u: f32[1,128]) -> f32[64,128] {\n  %p = f32[64,128]{1,0} parameter(0)\n"                             \
    "  %u = f32[1,128]{1,0} parameter(1)\n  %zero = s32[] constant(0)\n"                                                                                       \
    "  ROOT %r = f32[64,128]{1,0} dynamic-update-slice(%p, %u, %zero, %zero)\n}\n"
    g_autoptr(EchImport) kept = read_text(UPDATE(""), "h100-sxm");
    g_autoptr(EchImport) given = read_text(UPDATE(", input_output_alias={ {}: (0, {}, may-alias) }"), "h100-sxm");
    ck_assert_uint_eq(ech_diag_count(kept->diag, "copies_for_updates_in_place"), 1);
    ck_assert_uint_eq(ech_diag_count(given->diag, "copies_for_updates_in_place"), 0);
    EchMemoryAnalysis m = ech_program_memory_analysis(kept->program), n = ech_program_memory_analysis(given->program);
    ck_assert_uint_eq(m.argument + m.output - m.alias, 2 * SLICE + 512);
    ck_assert_uint_eq(n.argument + n.output - n.alias, SLICE + 512);
}
END_TEST

/* Scores of four heads in the minor dimension would be 31 parts padding of 32: the product writes them in another order, and what follows keeps it. */
START_TEST(products_are_laid_out_without_much_padding)
{
    static const char text[] =
        "HloModule m\n\nENTRY %main (p: f32[8,256,64], q: f32[8,4,64]) -> f32[] {\n  %p = f32[8,256,64]{2,1,0} parameter(0)\n"
        "  %q = f32[8,4,64]{2,1,0} parameter(1)\n"
        "  %d = f32[8,256,4]{2,1,0} dot(%p, %q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
        "  ROOT %r = f32[] custom-call(%d), custom_call_target=\"k\"\n}\n";
    static const EchBytes temp[] = {8 * 256 * 4 * 4, 8 * 4 * 256 * 4};
    static const char *const devices[] = {"h100-sxm", "tpu-v5e"};
    for (size_t k = 0; k < 2; k++) {
        g_autoptr(EchImport) import = read_text(text, devices[k]);
        const EchProgram *p = import->program;
        const EchInstruction *dot = &p->instructions[ech_program_operand(p, &p->instructions[p->computations[p->entry].root], 0)];
        ck_assert_uint_eq(p->shapes[dot->shape].bytes, temp[k]);
    }
}
END_TEST

/* On a TPU a gather is a kernel of its own with what makes its indices; on a GPU it is part of what reads it. */
START_TEST(gathers_are_kernels_on_tpus)
{
    static const char text[] = "HloModule m\n\nENTRY %main (t: f32[1024,512], i: s32[256]) -> (f32[256,512], f32[256,512]) {\n"
                               "  %t = f32[1024,512]{1,0} parameter(0)\n  %i = s32[256]{0} parameter(1)\n  %j = s32[256]{0} add(%i, %i)\n"
                               "  %g = f32[256,512]{1,0} gather(%t, %j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                               "slice_sizes={1,512}\n"
                               "  %x = f32[256,512]{1,0} tanh(%g)\n  %y = f32[256,512]{1,0} negate(%g)\n"
                               "  ROOT %r = (f32[256,512]{1,0}, f32[256,512]{1,0}) tuple(%x, %y)\n}\n";
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    uint64_t custom = 0;
    for (size_t k = 0; k < p->n_instructions; k++)
        custom += p->instructions[k].opcode == ECH_HLO_FUSION && p->instructions[k].fusion_kind == 'C';
    ck_assert_uint_eq(custom, 1);
    ck_assert_uint_eq(count_opcode(p, ECH_HLO_ADD), 0); /* inside */
    ck_assert_uint_eq(count_opcode(p, ECH_HLO_TANH) + count_opcode(p, ECH_HLO_NEGATE), 2);
}
END_TEST

/* The instruction of a body, whichever it is in; NULL where there is none. */
static const EchInstruction *find_opcode(const EchProgram *p, EchHlo opcode)
{
    for (size_t k = 0; k < p->n_instructions; k++) {
        if (p->instructions[k].opcode == opcode)
            return &p->instructions[k];
    }
    return NULL;
}

/* Which products stay on the matrix unit, and which become sums. */
START_TEST(products_with_vectors_are_sums)
{
    static const struct {
        const char *left, *right, *result, *how;
        bool matrix, reduce;
        uint64_t turned; /* arrays whose dimensions have to be put in another order */
        bool gpu;        /* stays a product there */
    } cases[] = {
        /* one column; a vector for each of many, the batches in another order; the same in 16 bits stays a product */
        {"f32[256,512]", "f32[512,1]", "f32[256,1]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", false, true, 0, false},
        {"f32[8,4,128]", "f32[8,64,4,128]", "f32[8,4,64]", "lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={2}, rhs_contracting_dims={3}",
         false, true, 0, false},
        {"bf16[8,4,128]", "bf16[8,64,4,128]", "bf16[8,4,64]", "lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={2}, rhs_contracting_dims={3}",
         true, false, 0, false},
        /* the vector's batches in another order; a dimension of one more */
        {"f32[4,8,128]", "f32[8,64,4,128]", "f32[8,4,64]", "lhs_batch_dims={1,0}, rhs_batch_dims={0,2}, lhs_contracting_dims={2}, rhs_contracting_dims={3}",
         false, true, 1, false},
        {"f32[8,4,1,128]", "f32[8,64,4,128]", "f32[8,4,1,64]", "lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}",
         false, true, 0, false},
        /* nothing summed; a matrix on both sides */
        {"f32[64,8]", "f32[32,8]", "f32[8,64,32]", "lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={}, rhs_contracting_dims={}", false, false, 2,
         false},
        {"f32[8,64]", "f32[8,32]", "f32[8,64,32]", "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={}, rhs_contracting_dims={}", false, false, 0,
         false},
        {"f32[256,512]", "f32[512,2]", "f32[256,2]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", true, false, 0, true},
        /* a vector that is too long for a GPU's other units, but not for two of them */
        {"f32[4096,4096]", "f32[4096,1]", "f32[4096,1]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", false, true, 0, true},
        {"f32[1,16777216]", "f32[16777216,1]", "f32[1,1]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", false, true, 0, false},
        /* numbers that no dimension has */
        {"f32[256,512]", "f32[512,1]", "f32[256,1]", "lhs_contracting_dims={7}, rhs_contracting_dims={0}", true, false, 0, true},
    };
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autofree char *text = g_strdup_printf("HloModule m\n\nENTRY %%main (p: %s, q: %s) -> %s {\n  %%p = %s parameter(0)\n  %%q = %s parameter(1)\n"
                                                "  ROOT %%d = %s dot(%%p, %%q), %s\n}\n",
                                                cases[k].left, cases[k].right, cases[k].result, cases[k].left, cases[k].right, cases[k].result, cases[k].how);
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v6e");
        ck_assert_msg((find_opcode(tpu->program, ECH_HLO_DOT) != NULL) == cases[k].matrix, "%s: the dot", text);
        ck_assert_msg((find_opcode(tpu->program, ECH_HLO_REDUCE) != NULL) == cases[k].reduce, "%s: the sum", text);
        ck_assert_msg((find_opcode(tpu->program, ECH_HLO_MULTIPLY) != NULL) == !cases[k].matrix, "%s: the product", text);
        const EchProgram *p = tpu->program;
        uint64_t turned = 0;
        for (size_t j = 0; j < p->n_instructions; j++)
            turned += p->instructions[j].opcode == ECH_HLO_TRANSPOSE;
        ck_assert_msg(turned == cases[k].turned, "%s: %" G_GUINT64_FORMAT " turned", text, turned);
        const EchShape *result = &p->shapes[p->instructions[p->computations[p->entry].root].shape];
        g_autofree char *shape = ech_program_shape_text(p, (EchId)(result - p->shapes));
        ck_assert_msg(g_str_has_prefix(shape, cases[k].result), "%s: %s", text, shape);
        g_autoptr(EchImport) gpu = read_text(text, "h100-sxm");
        ck_assert_msg((find_opcode(gpu->program, ECH_HLO_DOT) != NULL) == cases[k].gpu, "%s: the dot on a GPU", text);
    }
}
END_TEST

/* How many such instructions run as kernels of their own, or are in any: @inside. */
static unsigned count_of(const EchProgram *p, EchHlo opcode, bool inside)
{
    unsigned count = 0;
    for (size_t k = 0; k < p->n_instructions; k++)
        count += p->instructions[k].opcode == opcode && (inside || p->instructions[k].computation == p->entry);
    return count;
}

/* The kernel that ends with the instruction of that name. */
static EchId kernel_named(const EchProgram *p, const char *name)
{
    for (size_t k = 0; k < p->n_instructions; k++)
        if (p->instructions[k].computation == p->entry && strcmp(p->instructions[k].name, name) == 0)
            return (EchId)k;
    ck_abort_msg("no kernel %s", name);
    return ECH_NONE;
}

#define SUM_FORM "%%sum (a: f32[], b: f32[]) -> f32[] {\n  %%a = f32[] parameter(0)\n  %%b = f32[] parameter(1)\n  ROOT %%c = f32[] add(%%a, %%b)\n}\n\n"
#define SUM "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = f32[] add(%a, %b)\n}\n\n"

/* Experts' products on a GPU: every row with every group, masked in memory; two that read the same rows share the mask. */
START_TEST(ragged_products_are_masked_on_gpus)
{
    static const char text[] =
        "HloModule m\n\nENTRY %main (x: bf16[4096,512], w: bf16[8,512,1024], v: bf16[8,1024,512], s: s32[8]) -> (bf16[4096,1024], bf16[4096,1024], "
        "bf16[8,512,512]) {\n"
        "  %x = bf16[4096,512]{1,0} parameter(0)\n  %w = bf16[8,512,1024]{2,1,0} parameter(1)\n  %v = bf16[8,1024,512]{2,1,0} parameter(2)\n  %s = s32[8]{0} "
        "parameter(3)\n"
        "  %one = bf16[4096,1024]{1,0} ragged-dot(%x, %w, %s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}\n"
        "  %two = bf16[4096,1024]{1,0} ragged-dot(%x, %v, %s), lhs_contracting_dims={1}, rhs_contracting_dims={2}, lhs_ragged_dims={0}, rhs_group_dims={0}\n"
        "  %gradient = bf16[8,512,512]{2,1,0} ragged-dot(%x, %x, %s), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}\n"
        "  ROOT %all = (bf16[4096,1024]{1,0}, bf16[4096,1024]{1,0}, bf16[8,512,512]{2,1,0}) tuple(%one, %two, %gradient)\n}\n";
    g_autoptr(EchImport) gpu = read_text(text, "h100-sxm");
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_RAGGED_DOT, true), 0);
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_SELECT, true), 1);
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_DOT, true), 3);
    uint64_t work = 0;
    EchBytes most = 0;
    for (size_t k = 0; k < gpu->program->n_instructions; k++) {
        if (gpu->program->instructions[k].computation != gpu->program->entry)
            continue;
        work += ech_program_work(gpu->program, (EchId)k).matrix;
        most = MAX(most, gpu->program->shapes[gpu->program->instructions[k].shape].bytes);
    }
    ck_assert_uint_eq(work, UINT64_C(2) * 8 * 4096 * 512 * (1024 + 1024 + 512));
    ck_assert_uint_eq(most, 8 * 4096 * 512 * 2); /* for every group once */
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    ck_assert_uint_eq(count_of(tpu->program, ECH_HLO_RAGGED_DOT, true), 3);
}
END_TEST

/* Running sums on a GPU: windows of 16, and of what those come to; no window is as long as the row. */
START_TEST(running_sums_are_windows_of_16_on_gpus)
{
    static const char text[] =
        "HloModule m\n\n" SUM "%pair (d: f32[8], e: f32[8]) -> (f32[8], f32[8]) {\n  %d = f32[8]{0} parameter(0)\n  %e = f32[8]{0} parameter(1)\n"
        "  %f = f32[8]{0} add(%d, %e)\n  ROOT %g = (f32[8]{0}, f32[8]{0}) tuple(%f, %f)\n}\n\n"
        "ENTRY %main (x: f32[8,5000], y: f32[8]) -> (f32[8,5000], f32[8,5000], f32[8]) {\n  %x = f32[8,5000]{1,0} parameter(0)\n"
        "  %y = f32[8]{0} parameter(1)\n  %zero = f32[] constant(0)\n"
        "  %back = f32[8,5000]{1,0} reduce-window(%x, %zero), window={size=1x5000 pad=0_0x0_4999}, to_apply=%sum\n"
        "  %scan = (f32[8,5000]{1,0}, f32[8]{0}) scan(%x, %y), dimensions={1}, num_carries=1, is_associative=true, to_apply=%pair\n"
        "  %sums = f32[8,5000]{1,0} get-tuple-element(%scan), index=0\n  %end = f32[8]{0} get-tuple-element(%scan), index=1\n"
        "  ROOT %all = (f32[8,5000]{1,0}, f32[8,5000]{1,0}, f32[8]{0}) tuple(%back, %sums, %end)\n}\n";
    g_autoptr(EchImport) gpu = read_text(text, "h100-sxm");
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_SCAN, true), 0);
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_REDUCE_WINDOW, true), 2 * 4); /* 5,000, 313, 20, 2 */
    uint64_t work = 0;
    for (size_t k = 0; k < gpu->program->n_instructions; k++) {
        const EchInstruction *i = &gpu->program->instructions[k];
        size_t n;
        const char *window = i->opcode == ECH_HLO_REDUCE_WINDOW ? ech_program_attribute(i, "window", &n) : NULL;
        ck_assert(!window || g_strstr_len(window, (gssize)n, "x16 pad=") || g_strstr_len(window, (gssize)n, "x16x1 pad=") ||
                  g_strstr_len(window, (gssize)n, "size=1x2 "));
        work += i->opcode == ECH_HLO_REDUCE_WINDOW ? ech_program_work(gpu->program, (EchId)k).vector : 0;
    }
    ck_assert_uint_lt(work, 2 * 8 * 5000 * 18);
}
END_TEST

/* As protobuf a program's windows are those of its text: JAX's running sums along both dimensions of f32[64,5000]. */
START_TEST(running_sums_read_as_protobuf)
{
    const EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    g_autoptr(EchImport) gpu = ech_test_import(ECH_SOURCE_DIR "/tests/fuzz/corpus/hlo_proto/running_sums.before.pb", &options);
    ck_assert_str_eq(gpu->format, "hlo_proto");
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_REDUCE_WINDOW, true), 4 + 2); /* 5,000, 313, 20, 2; 64, 4 */
}
END_TEST

/* Convolutions whose two ends differ, or whose input is spread, read a padded copy on a GPU, which those of one input share; the input's gradient does not. */
START_TEST(convolutions_read_padded_copies_on_gpus)
{
    static const char text[] =
        "HloModule m\n\nENTRY %main (x: f32[4,32,32,64], w: f32[3,3,64,64], g: f32[4,16,16,64]) -> (f32[4,16,16,64], f32[4,16,16,64], f32[4,64,64,64], "
        "f32[4,32,32,64]) {\n"
        "  %x = f32[4,32,32,64]{3,2,1,0} parameter(0)\n  %w = f32[3,3,64,64]{3,2,1,0} parameter(1)\n  %g = f32[4,16,16,64]{3,2,1,0} parameter(2)\n"
        "  %v = f32[3,3,64,64]{3,2,1,0} negate(%w)\n"
        "  %one = f32[4,16,16,64]{3,2,1,0} convolution(%x, %w), window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f\n"
        "  %two = f32[4,16,16,64]{3,2,1,0} convolution(%x, %v), window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f\n"
        "  %wide = f32[4,64,64,64]{3,2,1,0} convolution(%x, %w), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f\n"
        "  %turned = f32[3,3,64,64]{3,2,1,0} reverse(%w), dimensions={0,1}\n"
        "  %back = f32[4,32,32,64]{3,2,1,0} convolution(%g, %turned), window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2}, dim_labels=b01f_01oi->b01f\n"
        "  ROOT %all = (f32[4,16,16,64]{3,2,1,0}, f32[4,16,16,64]{3,2,1,0}, f32[4,64,64,64]{3,2,1,0}, f32[4,32,32,64]{3,2,1,0}) tuple(%one, %two, %wide, "
        "%back)\n}\n";
    g_autoptr(EchImport) gpu = read_text(text, "h100-sxm");
    const EchProgram *p = gpu->program;
    ck_assert_uint_eq(count_of(p, ECH_HLO_PAD, true), 2);
    static const struct {
        const char *name;
        uint64_t side;
        bool padded;
    } wanted[] = {{"one", 33, true}, {"two", 33, true}, {"wide", 66, true}, {"back", 16, false}};
    for (size_t k = 0; k < G_N_ELEMENTS(wanted); k++) {
        EchId id = ech_test_instruction(p, wanted[k].name);
        ck_assert_uint_eq(ech_program_first_layout(p, ech_program_operand(p, &p->instructions[id], 0))->dims[1], wanted[k].side);
    }
    ck_assert_uint_eq(ech_program_work(p, ech_test_instruction(p, "wide")).matrix, UINT64_C(2) * 4 * 64 * 64 * 64 * 64 * 9); /* zeros too */
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    for (size_t k = 0; k < G_N_ELEMENTS(wanted); k++) {
        EchId id = ech_test_instruction(tpu->program, wanted[k].name);
        ck_assert_uint_eq(ech_program_first_layout(tpu->program, ech_program_operand(tpu->program, &tpu->program->instructions[id], 0))->dims[1],
                          k == 3 ? 16 : 32);
    }
}
END_TEST

/* What a GPU's kernels take in: a sum over many rows is two, the largest and its place are one kernel with what they look through, a scatter makes its updates,
 * a loop's part of an array is copied for the product. */
START_TEST(kernels_on_gpus)
{
    static const char text[] =
        "HloModule m\n\n" SUM "%larger (a: f32[], i: s32[], b: f32[], j: s32[]) -> (f32[], s32[]) {\n  %a1 = f32[] parameter(0)\n  %i1 = s32[] parameter(1)\n  "
        "%b1 = f32[] parameter(2)\n"
        "  %j1 = s32[] parameter(3)\n  %more = pred[] compare(%a1, %b1), direction=GT\n  %v1 = f32[] select(%more, %a1, %b1)\n  %w1 = s32[] select(%more, %i1, "
        "%j1)\n"
        "  ROOT %r1 = (f32[], s32[]) tuple(%v1, %w1)\n}\n\n"
        "ENTRY %main (x: f32[8192,256], n: s32[8192,1], p: bf16[12,256,256], k: s32[], t: f32[512,256]) -> (f32[256], f32[8192], s32[8192], bf16[256,256], "
        "f32[512,256]) {\n"
        "  %x = f32[8192,256]{1,0} parameter(0)\n  %n = s32[8192,1]{1,0} parameter(1)\n  %p = bf16[12,256,256]{2,1,0} parameter(2)\n  %k = s32[] parameter(3)\n"
        "  %t = f32[512,256]{1,0} parameter(4)\n  %zero = f32[] constant(0)\n  %first = s32[] constant(0)\n  %low = f32[] constant(-inf)\n"
        "  %sums = f32[256]{0} reduce(%x, %zero), dimensions={0}, to_apply=%sum\n"
        "  %minus = f32[8192,256]{1,0} negate(%x)\n  %place = s32[8192,256]{1,0} iota(), iota_dimension=1\n"
        "  %best = (f32[8192]{0}, s32[8192]{0}) reduce(%minus, %place, %low, %first), dimensions={1}, to_apply=%larger\n"
        "  %value = f32[8192]{0} get-tuple-element(%best), index=0\n  %where = s32[8192]{0} get-tuple-element(%best), index=1\n"
        "  %part = bf16[1,256,256]{2,1,0} dynamic-slice(%p, %k, %first, %first), dynamic_slice_sizes={1,256,256}\n  %w = bf16[256,256]{1,0} reshape(%part)\n"
        "  %product = bf16[256,256]{1,0} dot(%w, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  %twice = f32[8192,256]{1,0} add(%x, %x)\n"
        "  %table = f32[512,256]{1,0} scatter(%t, %n, %twice), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, "
        "to_apply=%sum\n"
        "  ROOT %all = (f32[256]{0}, f32[8192]{0}, s32[8192]{0}, bf16[256,256]{1,0}, f32[512,256]{1,0}) tuple(%sums, %value, %where, %product, %table)\n}\n";
    g_autoptr(EchImport) gpu = read_text(text, "h100-sxm");
    const EchProgram *p = gpu->program;
    ck_assert_uint_eq(count_of(p, ECH_HLO_REDUCE, true), 3);
    ck_assert_uint_eq(count_of(p, ECH_HLO_IOTA, false), 0);
    ck_assert_uint_eq(count_of(p, ECH_HLO_NEGATE, false), 0);
    ck_assert_uint_eq(count_of(p, ECH_HLO_ADD, false), 0);
    ck_assert_int_eq(p->instructions[kernel_named(p, "table")].fusion_kind, 'I');
    EchGpuLaunch launch;
    ck_assert(ech_program_gpu_launch(p, kernel_named(p, "table"), 132, &launch));
    ck_assert_int_eq(launch.kind, ECH_GPU_SCATTER);
    EchId product = kernel_named(p, "product"), read = ech_program_operand(p, &p->instructions[product], 0);
    while (p->instructions[read].opcode == ECH_HLO_BITCAST)
        read = ech_program_operand(p, &p->instructions[read], 0);
    ck_assert_uint_eq(ech_layout_elements(ech_program_first_layout(p, read)), 256 * 256); /* the part, not the whole */
}
END_TEST

/* A GPU's product turns and scales what it reads; what is computed of more bytes than it has, or dearly, is made before. A TPU's makes all of it. */
START_TEST(products_make_little_of_what_they_read)
{
    static const struct {
        const char *how;
        bool inside;
    } cases[] = {{"  %b = bf16[512,512]{1,0} multiply(%x, %scales)\n", true},
                 {"  %b = bf16[512,512]{1,0} transpose(%x), dimensions={1,0}\n", true},
                 {"  %b = bf16[512,512]{1,0} tanh(%x)\n", false},
                 {"  %b = bf16[512,512]{1,0} multiply(%x, %y)\n", false},
                 {"  %b = bf16[512,512]{1,0} convert(%w)\n", false}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autofree char *text =
            g_strdup_printf("HloModule m\n\nENTRY %%main (x: bf16[512,512], y: bf16[512,512], w: f32[512,512]) -> bf16[512,512] {\n"
                            "  %%x = bf16[512,512]{1,0} parameter(0)\n  %%y = bf16[512,512]{1,0} parameter(1)\n  %%w = f32[512,512]{1,0} parameter(2)\n"
                            "  %%scale = bf16[] constant(2)\n  %%scales = bf16[512,512]{1,0} broadcast(%%scale), dimensions={}\n%s"
                            "  ROOT %%d = bf16[512,512]{1,0} dot(%%y, %%b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                            cases[k].how);
        for (unsigned d = 0; d < 2; d++) {
            g_autoptr(EchImport) import = read_text(text, d ? "tpu-v5e" : "h100-sxm");
            const EchProgram *p = import->program;
            unsigned apart = 0;
            for (size_t j = 0; j < p->n_instructions; j++)
                apart += p->instructions[j].computation == p->entry && strcmp(p->instructions[j].name, "b") == 0;
            ck_assert_msg(apart == !(cases[k].inside || d), "%s on %s", cases[k].how, d ? "a TPU" : "a GPU");
        }
    }
}
END_TEST

/* A group norm's reshape: where eight channels a group would lie on 128 lanes, its places do; where 32 would, they do not. */
START_TEST(reshapes_are_turned_for_their_lanes)
{
    static const struct {
        unsigned channels;
        uint8_t fastest; /* dimension on the lanes */
    } cases[] = {{8, 1}, {16, 1}, {32, 3}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        unsigned c = cases[k].channels;
        g_autofree char *text = g_strdup_printf("HloModule m\n\nENTRY %%main (x: f32[16,128,128,%u], y: f32[16,16384,8,%u]) -> f32[16,16384,8,%u] {\n"
                                                "  %%x = f32[16,128,128,%u]{3,2,1,0} parameter(0)\n  %%y = f32[16,16384,8,%u]{3,2,1,0} parameter(1)\n"
                                                "  %%r = f32[16,16384,8,%u]{3,2,1,0} reshape(%%x)\n  ROOT %%e = f32[16,16384,8,%u]{3,2,1,0} add(%%r, %%y)\n}\n",
                                                c * 8, c, c, c * 8, c, c, c);
        g_autoptr(EchImport) tpu = ech_test_hlo(text, "tpu-v5e");
        ck_assert_int_eq(ech_program_first_layout(tpu->program, ech_test_instruction(tpu->program, "r"))->order[0], cases[k].fastest);
    }
}
END_TEST

static const EchLayout *layout_of(const EchProgram *p, const char *name)
{
    return ech_program_first_layout(p, ech_test_instruction(p, name));
}

/* Images lie with features or the batch on the lanes, whichever pads less, and the other on rows; few images with their last dimension there, since they are
 * split. What lies otherwise is turned first. */
START_TEST(images_lie_as_convolutions_have_them)
{
    static const struct {
        unsigned images, side, in, out;
        uint8_t lanes, rows; /* dimensions of the result */
        bool turned;         /* is the input copied? */
    } cases[] = {{16, 64, 64, 64, 3, 0, true},   {128, 64, 64, 3, 0, 3, true},   {64, 56, 64, 64, 3, 0, true},
                 {128, 32, 64, 128, 3, 0, true}, {4, 64, 128, 128, 3, 2, false}, {8, 64, 128, 128, 3, 0, true}};
    uint64_t work = 0;
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        unsigned b = cases[k].images, s = cases[k].side, i = cases[k].in, o = cases[k].out;
        g_autofree char *text = g_strdup_printf(
            "HloModule m\n\nENTRY %%main (x: bf16[%u,%u,%u,%u], f: bf16[3,3,%u,%u]) -> bf16[%u,%u,%u,%u] {\n  %%x = bf16[%u,%u,%u,%u]{3,2,1,0} parameter(0)\n"
            "  %%f = bf16[3,3,%u,%u]{3,2,1,0} parameter(1)\n  %%c = bf16[%u,%u,%u,%u]{3,2,1,0} convolution(%%x, %%f), window={size=3x3 pad=1_1x1_1}, "
            "dim_labels=b01f_01io->b01f\n  %%g = bf16[3,3,%u,%u]{3,2,1,0} negate(%%f)\n  ROOT %%d = bf16[%u,%u,%u,%u]{3,2,1,0} convolution(%%c, %%g), "
            "window={size=1x1}, "
            "dim_labels=b01f_01oi->b01f\n}\n",
            b, s, s, i, i, o, b, s, s, i, b, s, s, i, i, o, b, s, s, o, i, o, b, s, s, i);
        g_autoptr(EchImport) tpu = ech_test_hlo(text, "tpu-v5e");
        const EchLayout *c = layout_of(tpu->program, "c");
        ck_assert_msg(c->order[0] == cases[k].lanes && c->order[1] == cases[k].rows, "case %zu: %u on the lanes, %u on rows", k, c->order[0], c->order[1]);
        const EchProgram *p = tpu->program;
        ck_assert_uint_eq(count_of(p, ECH_HLO_COPY, true), cases[k].turned);
        ck_assert_uint_eq(count_of(p, ECH_HLO_PAD, false), b < 8); /* what parts have of each other, before the first; a window of 1 takes nothing */
        uint64_t products = ech_program_work(p, ech_test_instruction(p, "c")).matrix;
        ck_assert_msg(b != 8 || (2 * work >= products && 2 * work <= products / 100 * 101),
                      "%" G_GUINT64_FORMAT " of eight images, %" G_GUINT64_FORMAT " of four", products, work);
        work = products;
        if (b < 8)
            ck_assert_uint_eq(ech_program_first_layout(p, ech_test_instruction(p, "parts.e2"))->dims[2], 8 * (64 / 8 + 1 + 2));
    }
}
END_TEST

/* Every second element of what lies in one tile is taken, or put, by a kernel of its own; of dimensions outside of it inside others. */
START_TEST(spaced_elements_are_taken_apart)
{
    static const struct {
        const char *slice;
        unsigned dims[3];
        bool apart;
    } cases[] = {{"[0:64], [0:128:2], [0:256]", {64, 64, 256}, true},
                 {"[0:64:2], [0:128], [0:256]", {32, 128, 256}, false},
                 {"[0:64:1], [0:64:1], [0:256:1]", {64, 64, 256}, false}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        const unsigned *d = cases[k].dims;
        g_autofree char *text = g_strdup_printf("HloModule m\n\nENTRY %%main (x: f32[64,128,256], y: f32[%u,%u,%u]) -> f32[%u,%u,%u] {\n  %%x = "
                                                "f32[64,128,256]{2,1,0} parameter(0)\n  %%y = f32[%u,%u,%u]{2,1,0} parameter(1)\n"
                                                "  %%s = f32[%u,%u,%u]{2,1,0} slice(%%x), slice={%s}\n  ROOT %%a = f32[%u,%u,%u]{2,1,0} add(%%s, %%y)\n}\n",
                                                d[0], d[1], d[2], d[0], d[1], d[2], d[0], d[1], d[2], d[0], d[1], d[2], cases[k].slice, d[0], d[1], d[2]);
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
        ck_assert_msg((count_of(tpu->program, ECH_HLO_SLICE, false) == 1) == cases[k].apart, "%s", cases[k].slice);
    }
    static const char pad[] =
        "HloModule m\n\nENTRY %main (x: f32[64,128,256], y: f32[64,255,256]) -> f32[64,255,256] {\n  %x = f32[64,128,256]{2,1,0} parameter(0)\n"
        "  %y = f32[64,255,256]{2,1,0} parameter(1)\n  %z = f32[] constant(0)\n"
        "  %p = f32[64,255,256]{2,1,0} pad(%x, %z), padding=0_0x0_0_1x0_0\n  ROOT %a = f32[64,255,256]{2,1,0} add(%p, %y)\n}\n";
    g_autoptr(EchImport) tpu = read_text(pad, "tpu-v5e"), gpu = read_text(pad, "h100-sxm");
    ck_assert_uint_eq(count_of(tpu->program, ECH_HLO_PAD, false), 1);
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_PAD, false), 0);
}
END_TEST

/* A product of 32 bits that is only read as bf16 is one of 16; one that is also read as it is stays. */
START_TEST(products_are_as_wide_as_they_are_read)
{
    for (unsigned wide = 0; wide < 2; wide++) {
        g_autofree char *text = g_strdup_printf(
            "HloModule m\n\nENTRY %%main (x: bf16[512,512], y: bf16[512,512]) -> (bf16[512,512], %s[512,512]) {\n  %%x = bf16[512,512]{1,0} parameter(0)\n"
            "  %%y = bf16[512,512]{1,0} parameter(1)\n  %%d = f32[512,512]{1,0} dot(%%x, %%y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "  %%c = bf16[512,512]{1,0} convert(%%d)\n  %%e = bf16[512,512]{1,0} dot(%%c, %%y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "  %%t = %s[512,512]{1,0} tanh(%s)\n  ROOT %%r = (bf16[512,512]{1,0}, %s[512,512]{1,0}) tuple(%%e, %%t)\n}\n",
            wide ? "f32" : "bf16", wide ? "f32" : "bf16", wide ? "%d" : "%c", wide ? "f32" : "bf16");
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
        ck_assert_str_eq(layout_of(tpu->program, "d")->dtype, wide ? "f32" : "bf16");
    }
}
END_TEST

/* A broadcast that a scatter adds to takes the padding of the scatter's result, where their dimensions lie alike but for one of 1. */
START_TEST(scatters_add_to_arrays_as_large_as_their_result)
{
    static const char text[] =
        "HloModule m, entry_computation_layout={(s32[4096,1]{0,1:T(1,128)}, f32[4096,1]{0,1:T(1,128)}, "
        "f32[20000,1]{1,0:T(8,128)})->f32[20000,1]{1,0:T(8,128)}}\n\n" SUM "ENTRY %main (i: s32[4096,1], u: f32[4096,1], y: f32[20000,1]) -> f32[20000,1] {\n  "
        "%i = s32[4096,1]{1,0} parameter(0)\n  %u = f32[4096,1]{1,0} parameter(1)\n"
        "  %y = f32[20000,1]{1,0} parameter(2)\n  %zero = f32[] constant(0)\n  %b = f32[20000,1]{1,0} broadcast(%zero), dimensions={}\n"
        "  ROOT %s = f32[20000,1]{1,0} scatter(%b, %i, %u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, "
        "to_apply=%sum\n}\n";
    g_autoptr(EchImport) tpu = ech_test_hlo(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    const EchInstruction *s = &p->instructions[p->computations[p->entry].root];
    EchId target = ech_program_operand(p, s, 0);
    ck_assert_uint_eq(p->shapes[s->shape].bytes, p->shapes[p->instructions[target].shape].bytes);
}
END_TEST

/* A cache of all layers that a loop writes a row of lies there as the product that makes the row does: a head's columns on the lanes, the product's rows on
 * rows, heads behind; of one row alone the place that is written is on rows. So it does where a loop over tokens is around that over layers. */
START_TEST(caches_lie_as_what_is_written)
{
    static const struct {
        unsigned batch, tokens, place;
        uint8_t order[5];
    } cases[] = {{16, 1, 256, {4, 1, 3, 2, 0}}, {1, 1, 512, {4, 2, 3, 1, 0}}, {4, 8, 256, {4, 2, 3, 1, 0}}, {1, 32, 512, {4, 2, 3, 1, 0}}};
    for (size_t n = 0; n < 2 * G_N_ELEMENTS(cases); n++) {
        size_t k = n / 2;
        unsigned b = cases[k].batch, t = cases[k].tokens, s = cases[k].place;
        g_autofree char *carried = g_strdup_printf("(s32[], bf16[4,%u,%u,8,128]{4,3,2,1,0}, bf16[%u,%u,512]{2,1,0}, bf16[512,1024]{1,0})", b, s, b, t);
        g_autofree char *text = g_strdup_printf(
            "HloModule m\n\n%%body (p: %s) -> %s {\n  %%p = %s parameter(0)\n  %%i = s32[] get-tuple-element(%%p), index=0\n  %%c = "
            "bf16[4,%u,%u,8,128]{4,3,2,1,0} "
            "get-tuple-element(%%p), index=1\n  %%x = bf16[%u,%u,512]{2,1,0} get-tuple-element(%%p), index=2\n  %%w = bf16[512,1024]{1,0} "
            "get-tuple-element(%%p), index=3\n"
            "  %%k = bf16[%u,%u,1024]{2,1,0} dot(%%x, %%w), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n  %%n = bf16[%u,%u,1024]{2,1,0} negate(%%k)\n"
            "  %%h = bf16[1,%u,%u,8,128]{4,3,2,1,0} reshape(%%n)\n  %%zero = s32[] constant(0)\n  %%one = s32[] constant(1)\n"
            "  %%u = bf16[4,%u,%u,8,128]{4,3,2,1,0} dynamic-update-slice(%%c, %%h, %%i, %%zero, %%zero, %%zero, %%zero)\n  %%j = s32[] add(%%i, %%one)\n"
            "  ROOT %%r = %s tuple(%%j, %%u, %%x, %%w)\n}\n\n"
            "%%cond (q: %s) -> pred[] {\n  %%q = %s parameter(0)\n  %%m = s32[] get-tuple-element(%%q), index=0\n  %%four = s32[] constant(4)\n"
            "  ROOT %%less = pred[] compare(%%m, %%four), direction=LT\n}\n\n"
            "%%outer (o: %s) -> %s {\n  %%o = %s parameter(0)\n  %%oi = s32[] get-tuple-element(%%o), index=0\n"
            "  %%oc = bf16[4,%u,%u,8,128]{4,3,2,1,0} get-tuple-element(%%o), index=1\n  %%ox = bf16[%u,%u,512]{2,1,0} get-tuple-element(%%o), index=2\n"
            "  %%ow = bf16[512,1024]{1,0} get-tuple-element(%%o), index=3\n  %%oz = s32[] constant(0)\n  %%on = s32[] constant(1)\n"
            "  %%ot = %s tuple(%%oz, %%oc, %%ox, %%ow)\n  %%ol = %s while(%%ot), condition=%%cond, body=%%body\n"
            "  %%od = bf16[4,%u,%u,8,128]{4,3,2,1,0} get-tuple-element(%%ol), index=1\n  %%oj = s32[] add(%%oi, %%on)\n"
            "  ROOT %%or = %s tuple(%%oj, %%od, %%ox, %%ow)\n}\n\n"
            "ENTRY %%main (a: bf16[4,%u,%u,8,128], y: bf16[%u,%u,512], v: bf16[512,1024]) -> bf16[4,%u,%u,8,128] {\n  %%a = bf16[4,%u,%u,8,128]{4,3,2,1,0} "
            "parameter(0)\n"
            "  %%y = bf16[%u,%u,512]{2,1,0} parameter(1)\n  %%v = bf16[512,1024]{1,0} parameter(2)\n  %%start = s32[] constant(0)\n  %%t = %s tuple(%%start, "
            "%%a, %%y, %%v)\n"
            "  %%loop = %s while(%%t), condition=%%cond, body=%%%s\n  ROOT %%out = bf16[4,%u,%u,8,128]{4,3,2,1,0} get-tuple-element(%%loop), index=1\n}\n",
            carried, carried, carried, b, s, b, t, b, t, b, t, b, t, b, s, carried, carried, carried, carried, carried, carried, b, s, b, t, carried, carried,
            b, s, carried, b, s, b, t, b, s, b, s, b, t, carried, carried, n % 2 ? "outer" : "body", b, s);
        g_autoptr(EchImport) tpu = ech_test_hlo(text, "tpu-v5e");
        const EchLayout *u = layout_of(tpu->program, "u");
        ck_assert_msg(memcmp(u->order, cases[k].order, 5) == 0, "case %zu, %zu around: %u,%u,%u,%u,%u", k, n % 2, u->order[0], u->order[1], u->order[2],
                      u->order[3], u->order[4]);
        ck_assert_uint_ge(count_of(tpu->program, ECH_HLO_COPY, true), 1);
    }
}
END_TEST

/* Many products of two vectors each, in 16 bits, are sums of products on a TPU; with a dimension of one side alone they stay on the matrix unit. */
START_TEST(many_products_of_vectors_are_sums)
{
    for (unsigned alone = 0; alone < 2; alone++) {
        g_autofree char *text =
            g_strdup_printf("HloModule m\n\nENTRY %%main (a: bf16[8], b: bf16[8]) -> bf16[8] {\n"
                            "  %%a = bf16[8,128,128,%s16]{%s3,2,1,0} parameter(0)\n  %%b = bf16[8,128,128,16]{3,2,1,0} parameter(1)\n"
                            "  ROOT %%d = bf16[8,128,128%s]{%s2,1,0} dot(%%a, %%b), lhs_batch_dims={0,1,2}, lhs_contracting_dims={%u}, rhs_batch_dims={0,2,1}, "
                            "rhs_contracting_dims={3}\n}\n",
                            alone ? "4," : "", alone ? "4," : "", alone ? ",4" : "", alone ? "3," : "", 3 + alone);
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
        ck_assert_uint_eq(ech_diag_count(tpu->diag, "products_on_the_vector_unit"), !alone);
        ck_assert_uint_eq(count_of(tpu->program, ECH_HLO_REDUCE, true), !alone);
    }
}
END_TEST

/* A group norm: means are summed before groups are, and what is normalised is so in the shape that it came in. */
START_TEST(group_norms_are_computed_in_the_shape_of_their_images)
{
    static const char text[] =
        "HloModule m\n\n" SUM "ENTRY %main (x: f32[8,64,64,64], g: bf16[]) -> f32[8,64,64,64] {\n  %x = f32[8,64,64,64]{3,2,1,0} parameter(0)\n"
        "  %zero = bf16[] constant(0)\n  %y = f32[8,4096,8,8]{3,2,1,0} reshape(%x)\n  %b = bf16[8,4096,8,8]{3,2,1,0} convert(%y)\n"
        "  %s = bf16[8,8]{1,0} reduce(%b, %zero), dimensions={1,3}, to_apply=%sum\n  %w = bf16[8,4096,8,8]{3,2,1,0} broadcast(%s), dimensions={0,2}\n"
        "  %d = bf16[8,4096,8,8]{3,2,1,0} subtract(%b, %w)\n  %back = bf16[8,64,64,64]{3,2,1,0} reshape(%d)\n  ROOT %e = f32[8,64,64,64]{3,2,1,0} "
        "convert(%back)\n}\n";
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchLayout *l = ech_program_layout(p, p->instructions[k].shape);
        ck_assert_msg(!l || l->rank != 4 || l->dims[1] != 4096, "%s", p->instructions[k].name);
    }
    ck_assert_uint_eq(count_of(p, ECH_HLO_REDUCE, true), 2);
}
END_TEST

/* Where a reshape only splits the channels, variances are summed before it, too; and a wider copy that many kernels read is made by each. */
START_TEST(variances_of_split_channels_are_summed_first)
{
    static const char text[] =
        "HloModule m\n\n" SUM "ENTRY %main (x: f32[8,64,64,64]) -> f32[8,8] {\n  %x = f32[8,64,64,64]{3,2,1,0} parameter(0)\n  %zero = f32[] constant(0)\n"
        "  %y = f32[8,64,64,8,8]{4,3,2,1,0} reshape(%x)\n  %s = f32[8,8]{1,0} reduce(%y, %zero), dimensions={1,2,4}, to_apply=%sum\n"
        "  %w = f32[8,64,64,8,8]{4,3,2,1,0} broadcast(%s), dimensions={0,3}\n  %d = f32[8,64,64,8,8]{4,3,2,1,0} subtract(%y, %w)\n"
        "  %q = f32[8,64,64,8,8]{4,3,2,1,0} multiply(%d, %d)\n  ROOT %v = f32[8,8]{1,0} reduce(%q, %zero), dimensions={1,2,4}, to_apply=%sum\n}\n";
    g_autoptr(EchImport) tpu = ech_test_hlo(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchLayout *l = ech_program_layout(p, p->instructions[k].shape);
        ck_assert_msg(!l || l->rank != 5, "%s", p->instructions[k].name);
    }
    g_autoptr(GString) many = g_string_new("HloModule m\n\nENTRY %main (x: bf16[512,512]) -> (f32[512,512]");
    for (unsigned k = 1; k < 12; k++)
        g_string_append(many, ", f32[512,512]");
    g_string_append(many, ") {\n  %x = bf16[512,512]{1,0} parameter(0)\n  %c = f32[512,512]{1,0} convert(%x)\n");
    for (unsigned k = 0; k < 12; k++)
        g_string_append_printf(many,
                               "  %%k%u = f32[] constant(%u)\n  %%b%u = f32[512,512]{1,0} broadcast(%%k%u), dimensions={}\n"
                               "  %%e%u = f32[512,512]{1,0} multiply(%%c, %%b%u)\n",
                               k, k + 2, k, k, k, k);
    g_string_append(many, "  ROOT %r = (f32[512,512]{1,0}");
    for (unsigned k = 1; k < 12; k++)
        g_string_append(many, ", f32[512,512]{1,0}");
    g_string_append(many, ") tuple(%e0");
    for (unsigned k = 1; k < 12; k++)
        g_string_append_printf(many, ", %%e%u", k);
    g_string_append(many, ")\n}\n");
    g_autoptr(EchImport) copies = ech_test_hlo(many->str, "tpu-v5e");
    ck_assert_uint_eq(count_of(copies->program, ECH_HLO_CONVERT, false), 0);
}
END_TEST

/* Transforms over two dimensions are those along each. */
START_TEST(transforms_over_two_dimensions_are_products)
{
    static const char *const cases[] = {"ENTRY %main (x: f32[4,128,96]) -> c64[4,128,49] {\n  %x = f32[4,128,96]{2,1,0} parameter(0)\n"
                                        "  ROOT %f = c64[4,128,49]{2,1,0} fft(%x), fft_type=RFFT, fft_length={128,96}\n}\n",
                                        "ENTRY %main (x: c64[4,128,49]) -> f32[4,128,96] {\n  %x = c64[4,128,49]{2,1,0} parameter(0)\n"
                                        "  ROOT %f = f32[4,128,96]{2,1,0} fft(%x), fft_type=IRFFT, fft_length={128,96}\n}\n",
                                        "ENTRY %main (x: c64[16,1024,64]) -> c64[16,1024,64] {\n  %x = c64[16,1024,64]{2,1,0} parameter(0)\n"
                                        "  ROOT %f = c64[16,1024,64]{2,1,0} fft(%x), fft_type=FFT, fft_length={16,1024,64}\n}\n"};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autofree char *text = g_strconcat("HloModule m\n\n", cases[k], NULL);
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
        ck_assert_uint_eq(count_of(tpu->program, ECH_HLO_FFT, true), 0);
        ck_assert_uint_ge(count_of(tpu->program, ECH_HLO_DOT, true), 5);
    }
}
END_TEST

/* A product of 8-bit integers: they are rounded to before it, in memory, and its sums of 32 bits are scaled down in its kernel, though two read the result. */
START_TEST(products_of_8_bits_are_scaled_inside)
{
    static const char text[] =
        "HloModule m\n\n%max (p: bf16[], q: bf16[]) -> bf16[] {\n  %p = bf16[] parameter(0)\n  %q = bf16[] parameter(1)\n  ROOT %m = bf16[] maximum(%p, "
        "%q)\n}\n\n"
        "ENTRY %main (x: f32[512,512], w: s8[512,1024], v: bf16[1024,512]) -> (bf16[512], bf16[512,512]) {\n  %x = f32[512,512]{1,0} parameter(0)\n"
        "  %w = s8[512,1024]{1,0} parameter(1)\n  %v = bf16[1024,512]{1,0} parameter(2)\n  %q8 = s8[512,512]{1,0} convert(%x)\n"
        "  %d = s32[512,1024]{1,0} dot(%q8, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  %f = f32[512,1024]{1,0} convert(%d)\n"
        "  %b = bf16[512,1024]{1,0} convert(%f)\n  %low = bf16[] constant(-inf)\n  %most = bf16[512]{0} reduce(%b, %low), dimensions={1}, to_apply=%max\n"
        "  %e = bf16[512,512]{1,0} dot(%b, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  ROOT %r = (bf16[512]{0}, bf16[512,512]{1,0}) tuple(%most, %e)\n}\n";
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    bool rounded = false;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        if (i->computation != p->entry)
            continue;
        for (uint32_t at = 0; at < p->shapes[i->shape].n_positions; at++) {
            const EchLayout *l = ech_program_layout(p, ech_program_subshape(p, i->shape, at));
            ck_assert_msg(!l || strcmp(l->dtype, "s32") != 0, "%s", i->name);
        }
        rounded |= strcmp(i->name, "q8") == 0;
    }
    ck_assert(rounded);
}
END_TEST

/* Sums over dimensions that do not lie together (a group norm's) are not one thread's each on a GPU. */
START_TEST(sums_over_dimensions_apart)
{
    static const char text[] = "HloModule m\n\n" SUM "ENTRY %main (x: bf16[4,8192,8,16]) -> bf16[4,8] {\n  %x = bf16[4,8192,8,16]{3,2,1,0} parameter(0)\n"
                               "  %zero = bf16[] constant(0)\n  ROOT %sums = bf16[4,8]{1,0} reduce(%x, %zero), dimensions={1,3}, to_apply=%sum\n}\n";
    g_autoptr(EchImport) gpu = read_text(text, "h100-sxm");
    const EchProgram *p = gpu->program;
    ck_assert_uint_eq(count_of(p, ECH_HLO_REDUCE, true), 3);
    for (size_t k = 0; k < p->n_instructions; k++) {
        EchGpuLaunch launch;
        if (p->instructions[k].computation == p->entry && ech_program_gpu_launch(p, (EchId)k, 132, &launch))
            ck_assert_uint_lt(launch.trips, 64);
    }
}
END_TEST

/* Neighbours: scores of all pairs are looked through in the product's kernel on a TPU, for the largest and its place or for lax.approx_max_k's first step; on a
 * GPU they are made once. The largest by itself is the one that was found with its place. */
START_TEST(pairs_are_not_kept)
{
    static const char text[] =
        "HloModule m\n\n%max (p: f32[], q: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%p, %q)\n}\n\n"
        "%larger (a: f32[], i: s32[], b: f32[], j: s32[]) -> (f32[], s32[]) {\n  %a1 = f32[] parameter(0)\n  %i1 = s32[] parameter(1)\n  %b1 = f32[] "
        "parameter(2)\n"
        "  %j1 = s32[] parameter(3)\n  %more = pred[] compare(%a1, %b1), direction=GT\n  %v1 = f32[] select(%more, %a1, %b1)\n  %w1 = s32[] select(%more, %i1, "
        "%j1)\n"
        "  ROOT %r1 = (f32[], s32[]) tuple(%v1, %w1)\n}\n\n"
        "%above (c: f32[], d: f32[], k: s32[], l: s32[]) -> pred[] {\n  %k2 = s32[] parameter(2)\n  %l2 = s32[] parameter(3)\n  %c2 = f32[] parameter(0)\n"
        "  %d2 = f32[] parameter(1)\n  ROOT %g2 = pred[] compare(%c2, %d2), direction=GT\n}\n\n"
        "ENTRY %main (x: f32[4096,64], y: f32[8192,64], z: f32[16384,64]) -> (f32[4096], s32[4096], f32[4096], f32[4096,1024], s32[4096,1024]) {\n"
        "  %x = f32[4096,64]{1,0} parameter(0)\n  %y = f32[8192,64]{1,0} parameter(1)\n  %z = f32[16384,64]{1,0} parameter(2)\n"
        "  %low = f32[] constant(-inf)\n  %first = s32[] constant(0)\n"
        "  %scores = f32[4096,8192]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n  %less = f32[4096,8192]{1,0} negate(%scores)\n"
        "  %place = s32[4096,8192]{1,0} iota(), iota_dimension=1\n"
        "  %best = (f32[4096]{0}, s32[4096]{0}) reduce(%less, %place, %low, %first), dimensions={1}, to_apply=%larger\n"
        "  %alone = f32[4096]{0} reduce(%less, %low), dimensions={1}, to_apply=%max\n"
        "  %value = f32[4096]{0} get-tuple-element(%best), index=0\n  %where = s32[4096]{0} get-tuple-element(%best), index=1\n"
        "  %others = f32[4096,16384]{1,0} dot(%x, %z), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n  %more = f32[4096,16384]{1,0} negate(%others)\n"
        "  %at = s32[4096,16384]{1,0} iota(), iota_dimension=1\n"
        "  %part = (f32[4096,1024]{1,0}, s32[4096,1024]{1,0}) custom-call(%more, %at, %low, %first), custom_call_target=\"PartialReduce\", "
        "called_computations={%above}\n"
        "  %near = f32[4096,1024]{1,0} get-tuple-element(%part), index=0\n  %which = s32[4096,1024]{1,0} get-tuple-element(%part), index=1\n"
        "  ROOT %all = (f32[4096]{0}, s32[4096]{0}, f32[4096]{0}, f32[4096,1024]{1,0}, s32[4096,1024]{1,0}) tuple(%value, %where, %alone, %near, %which)\n}\n";
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchLayout *layout = ech_program_layout(p, p->instructions[k].shape);
        ck_assert_msg(p->instructions[k].computation != p->entry || !layout || ech_layout_elements(layout) < 4096 * 8192, "%s is kept",
                      p->instructions[k].name);
    }
    ck_assert_uint_eq(count_of(p, ECH_HLO_REDUCE, true), 1);
    g_autoptr(EchImport) gpu = read_text(text, "h100-sxm");
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_REDUCE, true), 1);
    ck_assert_uint_eq(count_of(gpu->program, ECH_HLO_IOTA, false), 1); /* PartialReduce's, which no GPU's program has */
}
END_TEST

/* What is computed twice, from the same in the same way, is computed once, whatever it is called and whoever asked for it; what differs in a single attribute,
 * or has one more, is not the same. */
START_TEST(equal_instructions_are_one)
{
    static const char text[] = "HloModule m\n\nENTRY %main (p: f32[512,512], q: f32[512,512]) -> (f32[512,512], f32[512,512], f32[512,512], f32[512,512]) {\n"
                               "  %p = f32[512,512]{1,0} parameter(0)\n  %q = f32[512,512]{1,0} parameter(1)\n"
                               "  %a = f32[512,512]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name=\"one\"}\n"
                               "  %b = f32[512,512]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "  %c = f32[512,512]{1,0} dot(%p, %q), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                               "  %d = f32[512,512]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}\n"
                               "  %e = f32[512,512]{1,0} dot(%q, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "  %s = f32[512,512]{1,0} add(%a, %b)\n"
                               "  ROOT %r = (f32[512,512]{1,0}, f32[512,512]{1,0}, f32[512,512]{1,0}, f32[512,512]{1,0}) tuple(%s, %c, %d, %e)\n}\n";
    g_autoptr(EchImport) import = read_text(text, "h100-sxm");
    unsigned products = 0;
    for (size_t k = 0; k < import->program->n_instructions; k++)
        products += import->program->instructions[k].opcode == ECH_HLO_DOT;
    ck_assert_uint_eq(products, 4);
}
END_TEST

/* What only says how devices share an array is no kernel. */
START_TEST(marks_of_sharding_are_nothing)
{
    static const char *const targets[] = {"Sharding", "xla.sdy.FuncResultSharding"};
    for (size_t i = 0; i < G_N_ELEMENTS(targets); i++) {
        g_autofree char *text = g_strdup_printf("HloModule m\n\nENTRY %%main (p: f32[512,512]) -> f32[512,512] {\n  %%p = f32[512,512]{1,0} parameter(0)\n"
                                                "  %%a = f32[512,512]{1,0} sine(%%p)\n"
                                                "  %%m = f32[512,512]{1,0} custom-call(%%a), custom_call_target=\"%s\"\n"
                                                "  ROOT %%b = f32[512,512]{1,0} negate(%%m)\n}\n",
                                                targets[i]);
        g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
        ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_CUSTOM_CALL), 0);
        ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_FUSION), 1);
    }
}
END_TEST

/* Kernels that read one array, and none of which waits for another, are one kernel with several results; what waits is not. */
START_TEST(siblings_are_one_kernel)
{
    static const char text[] =
        "HloModule m\n\nENTRY %main (p: f32[256,512], q: f32[256,512], s: f32[64]) -> (f32[256,512], f32[256,512], f32[256,512], f32[64]) {\n"
        "  %p = f32[256,512]{1,0} parameter(0)\n  %q = f32[256,512]{1,0} parameter(1)\n  %s = f32[64]{0} parameter(2)\n"
        "  %a = f32[256,512]{1,0} add(%p, %q)\n  %b = f32[256,512]{1,0} tanh(%a)\n"
        "  %c = f32[256,512]{1,0} multiply(%p, %q)\n  %d = f32[256,512]{1,0} negate(%c)\n"
        "  %k = f32[256,512]{1,0} custom-call(%b), custom_call_target=\"k\"\n"
        "  %e = f32[256,512]{1,0} subtract(%k, %p)\n  %f = f32[256,512]{1,0} negate(%e)\n"
        "  %t = f32[64]{0} add(%s, %s)\n  %u = f32[64]{0} negate(%t)\n"
        "  ROOT %r = (f32[256,512]{1,0}, f32[256,512]{1,0}, f32[256,512]{1,0}, f32[64]{0}) tuple(%b, %d, %f, %u)\n}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    const EchProgram *p = import->program;
    unsigned several = 0, alone = 0, elements = 0;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        if (i->computation != p->entry)
            continue;
        elements += i->opcode == ECH_HLO_GET_TUPLE_ELEMENT;
        if (i->opcode == ECH_HLO_FUSION) {
            several += p->shapes[i->shape].is_tuple;
            alone += !p->shapes[i->shape].is_tuple;
            ck_assert_uint_eq(i->n_operands, p->shapes[i->shape].is_tuple || p->shapes[i->shape].count == 256 * 512 ? 2 : 1);
        }
    }
    ck_assert_uint_eq(several, 1);
    ck_assert_uint_eq(elements, 2);
    ck_assert_uint_eq(alone, 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_with_several_results"), 2);
}
END_TEST

#define REDUCERS                                                                                                                                               \
    "%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n\n"                         \
    "%most (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%a, %b)\n}\n\n"

/* One update for each row of zeros is a choice, element by element; two a row, and rows that hold something, stay scatters, as on a GPU. */
START_TEST(updates_of_a_row_are_masks_on_tpus)
{
    static const char form[] =
        "HloModule m\n\n%sENTRY %%main (t: f32[16,512], i: s32[16,%d,1], u: f32[16,%d]) -> f32[16,512] {\n"
        "  %%t = f32[16,512]{1,0} parameter(0)\n  %%i = s32[16,%d,1]{2,1,0} parameter(1)\n  %%u = f32[16,%d]{1,0} parameter(2)\n"
        "  %%zero = f32[] constant(0)\n  %%z = f32[16,512]{1,0} broadcast(%%zero), dimensions={}\n"
        "  %%s = f32[16,512]{1,0} scatter(%s, %%i, %%u), update_window_dims={}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=%%add\n"
        "  ROOT %%r = f32[16,512]{1,0} multiply(%%s, %%t)\n}\n";
    static const struct {
        int updates;
        const char *into, *device;
        bool masks;
    } cases[] = {{1, "%z", "tpu-v5e", true}, {2, "%z", "tpu-v5e", false}, {1, "%t", "tpu-v5e", false}, {1, "%z", "h100-sxm", false}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        int n = cases[k].updates;
        g_autofree char *text = g_strdup_printf(form, REDUCERS, n, n, n, n, cases[k].into);
        g_autoptr(EchImport) import = read_text(text, cases[k].device);
        const EchProgram *p = import->program;
        ck_assert_msg((find_opcode(p, ECH_HLO_SCATTER) == NULL) == cases[k].masks, "case %zu", k);
        ck_assert_msg((find_opcode(p, ECH_HLO_SELECT) != NULL) == cases[k].masks, "case %zu", k);
        /* With the product one kernel that reads indices, updates and the array. */
        if (cases[k].masks)
            ck_assert_uint_eq(p->instructions[p->computations[p->entry].root].n_operands, 4);
    }
}
END_TEST

/* A loop of @trips rounds over a stack of eight arrays: each puts one at @index, "i" or "last", and @reads of the stack beside that or not. */
static EchImport *read_stacking(const char *device, const char *index, unsigned trips, bool reads)
{
    g_autofree char *text =
        g_strdup_printf("HloModule m\n\n%%body (p: (s32[], bf16[8,512,512], bf16[512,512])) -> (s32[], bf16[8,512,512], bf16[512,512]) {\n"
                        "  %%p = (s32[], bf16[8,512,512]{2,1,0}, bf16[512,512]{1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%p), index=0\n"
                        "  %%s = bf16[8,512,512]{2,1,0} get-tuple-element(%%p), index=1\n  %%x = bf16[512,512]{1,0} get-tuple-element(%%p), index=2\n"
                        "  %%zero = s32[] constant(0)\n  %%one = s32[] constant(1)\n  %%seven = s32[] constant(7)\n  %%last = s32[] subtract(%%seven, %%i)\n"
                        "  %%d = bf16[1,512,512]{2,1,0} dynamic-slice(%%s, %%zero, %%zero, %%zero), dynamic_slice_sizes={1,512,512}\n"
                        "  %%f = bf16[512,512]{1,0} reshape(%%d)\n  %%t = bf16[512,512]{1,0} tanh(%%x)\n  %%a = bf16[512,512]{1,0} add(%%t, %%%s)\n"
                        "  %%r = bf16[1,512,512]{2,1,0} reshape(%%a)\n"
                        "  %%u = bf16[8,512,512]{2,1,0} dynamic-update-slice(%%s, %%r, %%%s, %%zero, %%zero)\n  %%j = s32[] add(%%i, %%one)\n"
                        "  ROOT %%o = (s32[], bf16[8,512,512]{2,1,0}, bf16[512,512]{1,0}) tuple(%%j, %%u, %%a)\n}\n\n"
                        "%%cond (q: (s32[], bf16[8,512,512], bf16[512,512])) -> pred[] {\n"
                        "  %%q = (s32[], bf16[8,512,512]{2,1,0}, bf16[512,512]{1,0}) parameter(0)\n  %%m = s32[] get-tuple-element(%%q), index=0\n"
                        "  %%n = s32[] constant(%u)\n  ROOT %%less = pred[] compare(%%m, %%n), direction=LT\n}\n\n"
                        "ENTRY %%main (y: bf16[512,512]) -> bf16[8,512,512] {\n  %%y = bf16[512,512]{1,0} parameter(0)\n  %%k = s32[] constant(0)\n"
                        "  %%h = bf16[] constant(0)\n  %%b = bf16[8,512,512]{2,1,0} broadcast(%%h), dimensions={}\n"
                        "  %%z = (s32[], bf16[8,512,512]{2,1,0}, bf16[512,512]{1,0}) tuple(%%k, %%b, %%y)\n"
                        "  %%w = (s32[], bf16[8,512,512]{2,1,0}, bf16[512,512]{1,0}) while(%%z), condition=%%cond, body=%%body\n"
                        "  %%g = bf16[8,512,512]{2,1,0} get-tuple-element(%%w), index=1\n  ROOT %%e = bf16[8,512,512]{2,1,0} negate(%%g)\n}\n",
                        reads ? "f" : "x", index, trips);
    return read_text(text, device);
}

/* Weights of f32 that a loop multiplies by in each iteration are carried in 16 bits on TPUs, converted before it; not what something else reads too, nor what
 * is multiplied in several passes. */
START_TEST(loops_carry_what_products_read)
{
#define STATE "(s32[], f32[64,1024]{1,0}, f32[1024,1024]{1,0})"
    static const char text[] =
        "HloModule m\n\n"
        "%%body (p: " STATE ") -> " STATE " {\n  %%p = " STATE " parameter(0)\n  %%i = s32[] get-tuple-element(%%p), index=0\n"
        "  %%h = f32[64,1024]{1,0} get-tuple-element(%%p), index=1\n  %%u = f32[1024,1024]{1,0} get-tuple-element(%%p), index=2\n"
        "  %%d = f32[64,1024]{1,0} dot(%%h, %%u), lhs_contracting_dims={1}, rhs_contracting_dims={0}%s\n  %%t = f32[64,1024]{1,0} tanh(%%d)\n"
        "  %%z = f32[] constant(0)\n  %%s = f32[1024]{0} reduce(%%u, %%z), dimensions={0}, to_apply=%%sum\n"
        "  %%b = f32[64,1024]{1,0} broadcast(%%s), dimensions={1}\n  %%w = f32[64,1024]{1,0} add(%%t, %%%s)\n"
        "  %%one = s32[] constant(1)\n  %%j = s32[] add(%%i, %%one)\n  ROOT %%o = " STATE " tuple(%%j, %%w, %%u)\n}\n\n"
        "%%cond (q: " STATE ") -> pred[] {\n  %%q = " STATE " parameter(0)\n  %%m = s32[] get-tuple-element(%%q), index=0\n"
        "  %%n = s32[] constant(8)\n  ROOT %%l = pred[] compare(%%m, %%n), direction=LT\n}\n\n"
        "%%sum (x: f32[], y: f32[]) -> f32[] {\n  %%x = f32[] parameter(0)\n  %%y = f32[] parameter(1)\n  ROOT %%a = f32[] add(%%x, %%y)\n}\n\n"
        "ENTRY %%main (c: f32[64,1024], v: f32[1024,1024]) -> (f32[64,1024], f32[1024,1024]) {\n  %%c = f32[64,1024]{1,0} parameter(0)\n"
        "  %%v = f32[1024,1024]{1,0} parameter(1)\n  %%k = s32[] constant(0)\n  %%y = " STATE " tuple(%%k, %%c, %%v)\n"
        "  %%g = " STATE " while(%%y), condition=%%cond, body=%%body\n  %%e = f32[64,1024]{1,0} get-tuple-element(%%g), index=1\n"
        "  %%f = f32[1024,1024]{1,0} get-tuple-element(%%g), index=2\n  ROOT %%r = (f32[64,1024]{1,0}, f32[1024,1024]{1,0}) tuple(%%e, %%f)\n}\n";
#undef STATE
    static const struct {
        const char *device, *precision, *added;
        bool narrow;
    } cases[] = {{"tpu-v5e", "", "t", true},
                 {"tpu7x", ", operand_precision={default,default}", "t", true},
                 {"tpu-v5e", ", operand_precision={highest,highest}", "t", false},
                 {"tpu-v5e", "", "b", false},
                 {"h100-sxm", "", "t", false}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autofree char *given = g_strdup_printf(text, cases[k].precision, cases[k].added);
        g_autoptr(EchImport) import = read_text(given, cases[k].device);
        const EchProgram *p = import->program;
        const EchShape *state = &p->shapes[find_opcode(p, ECH_HLO_WHILE)->shape];
        const EchLayout *weights = ech_program_layout(p, p->elements[state->first_element + 2]);
        ck_assert_msg((strcmp(weights->dtype, "bf16") == 0) == cases[k].narrow, "case %zu: %s", k, weights->dtype);
        /* What comes out is what went in. */
        const EchInstruction *root = &p->instructions[p->computations[p->entry].root];
        ck_assert_str_eq(ech_program_layout(p, p->instructions[ech_program_operand(p, root, 1)].shape)->dtype, "f32");
    }
}
END_TEST

/* What is transposed on a TPU stays where it lies, and that is so that little of it is padding, however its order is written: of 2048 x 4 x 1536 x 16 the 16 do
 * not lie on lanes. */
START_TEST(transposed_arrays_are_not_padding)
{
    static const char text[] =
        "HloModule m\n\nENTRY %main (a: f32[4,2048,1536], b: f32[1536,16]) -> f32[2048,4,1536] {\n"
        "  %a = f32[4,2048,1536]{2,1,0} parameter(0)\n  %b = f32[1536,16]{1,0} parameter(1)\n"
        "  %x = f32[4,2048,1536,16]{3,2,1,0} broadcast(%a), dimensions={0,1,2}\n  %y = f32[4,2048,1536,16]{3,2,1,0} broadcast(%b), dimensions={2,3}\n"
        "  %m = f32[4,2048,1536,16]{3,2,1,0} multiply(%x, %y)\n"
        "  %t = f32[2048,4,1536,16]{3,2,0,1} transpose(%m), dimensions={1,0,2,3}\n"
        "  %s = f32[2048,4,1536,16]{3,2,1,0} custom-call(%t, %t), custom_call_target=\"x\"\n"
        "  %z = f32[] constant(0)\n  ROOT %r = f32[2048,4,1536]{2,1,0} reduce(%s, %z), dimensions={3}, to_apply=%sum\n}\n\n"
        "%sum (p: f32[], q: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n  ROOT %e = f32[] add(%p, %q)\n}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    const EchProgram *p = import->program;
    const EchInstruction *call = find_opcode(p, ECH_HLO_CUSTOM_CALL);
    const EchInstruction *given = &p->instructions[ech_program_operand(p, call, 0)];
    ck_assert_uint_eq(p->shapes[given->shape].bytes, UINT64_C(2048) * 4 * 1536 * 16 * 4);
}
END_TEST

/* A transposed array that rows are picked from is turned, so that rows are rows, though its bytes could stay where they lie. */
START_TEST(transposed_tables_are_turned)
{
    static const char text[] =
        "HloModule m\n\nENTRY %main (a: f32[256,16,32], i: s32[256,16]) -> f32[256,32,16,1] {\n  %a = f32[256,16,32]{1,2,0} parameter(0)\n"
        "  %i = s32[256,16]{1,0} parameter(1)\n  %n = f32[256,16,32]{1,2,0} negate(%a)\n  %t = f32[256,32,16]{1,2,0} transpose(%n), dimensions={0,2,1}\n"
        "  %b = f32[256,32,16]{2,1,0} broadcast(%t), dimensions={0,1,2}\n  %j = s32[256,16,1]{2,1,0} reshape(%i)\n"
        "  ROOT %g = f32[256,32,16,1]{3,2,1,0} gather(%b, %j), offset_dims={1,3}, collapsed_slice_dims={2}, start_index_map={2}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,32,1,1}\n}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    const EchLayout *t = layout_of(import->program, "t");
    ck_assert_msg(t->order[0] == 1 && t->order[1] == 2 && t->order[2] == 0, "%u,%u,%u", t->order[0], t->order[1], t->order[2]);
}
END_TEST

/* What a loop fills from the first to the last begins unset on TPUs; not what it fills from the end, or in part, or reads. */
START_TEST(what_loops_fill_begins_unset)
{
    static const struct {
        const char *device, *index;
        unsigned trips;
        bool reads, unset;
    } cases[] = {{"tpu-v5e", "i", 8, false, true},
                 {"tpu-v5e", "last", 8, false, false},
                 {"tpu-v5e", "i", 7, false, false},
                 {"tpu-v5e", "i", 8, true, false},
                 {"h100-sxm", "i", 8, false, false}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autoptr(EchImport) import = read_stacking(cases[k].device, cases[k].index, cases[k].trips, cases[k].reads);
        const EchInstruction *begin = find_opcode(import->program, ECH_HLO_CUSTOM_CALL);
        ck_assert_msg((begin != NULL) == cases[k].unset, "case %zu", k);
        if (begin)
            ck_assert_str_eq(begin->target, "AllocateBuffer");
    }
}
END_TEST

/* What a loop stacks on a tpu7x lies in tiles of 16 rows all the way: it is never copied whole. */
START_TEST(stacks_keep_their_tiles)
{
    g_autoptr(EchImport) import = read_stacking("tpu7x", "i", 8, false);
    const EchProgram *p = import->program;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        const EchLayout *l = ech_program_layout(p, i->shape);
        if (!l || l->rank != 3 || l->dims[0] != 8 || i->opcode == ECH_HLO_NEGATE || (i->opcode == ECH_HLO_FUSION && i->computation == p->entry))
            continue;
        ck_assert_msg(i->opcode != ECH_HLO_COPY && l->tiles[0].dims[0] == 16, "%s", i->name);
    }
}
END_TEST

/* What several kernels read of a loop's stack each reads for itself. */
START_TEST(slices_of_stacks_are_read_by_each)
{
    static const char text[] =
        "HloModule m\n\n" SUM "%body (p: (s32[], f32[8,512,512], f32[512], f32[512])) -> (s32[], f32[8,512,512], f32[512], f32[512]) {\n"
        "  %p = (s32[], f32[8,512,512]{2,1,0}, f32[512]{0}, f32[512]{0}) parameter(0)\n  %i = s32[] get-tuple-element(%p), index=0\n"
        "  %s = f32[8,512,512]{2,1,0} get-tuple-element(%p), index=1\n  %zero = s32[] constant(0)\n  %one = s32[] constant(1)\n"
        "  %nil = f32[] constant(0)\n  %d = f32[1,512,512]{2,1,0} dynamic-slice(%s, %i, %zero, %zero), dynamic_slice_sizes={1,512,512}\n"
        "  %x = f32[512,512]{1,0} reshape(%d)\n  %a = f32[512]{0} reduce(%x, %nil), dimensions={1}, to_apply=%sum\n"
        "  %w = f32[512,512]{1,0} broadcast(%a), dimensions={0}\n  %y = f32[512,512]{1,0} multiply(%x, %w)\n"
        "  %b = f32[512]{0} reduce(%y, %nil), dimensions={0}, to_apply=%sum\n  %j = s32[] add(%i, %one)\n"
        "  ROOT %o = (s32[], f32[8,512,512]{2,1,0}, f32[512]{0}, f32[512]{0}) tuple(%j, %s, %a, %b)\n}\n\n"
        "%cond (q: (s32[], f32[8,512,512], f32[512], f32[512])) -> pred[] {\n"
        "  %q = (s32[], f32[8,512,512]{2,1,0}, f32[512]{0}, f32[512]{0}) parameter(0)\n  %m = s32[] get-tuple-element(%q), index=0\n"
        "  %n = s32[] constant(8)\n  ROOT %less = pred[] compare(%m, %n), direction=LT\n}\n\n"
        "ENTRY %main (t: f32[8,512,512], u: f32[512]) -> f32[512] {\n  %t = f32[8,512,512]{2,1,0} parameter(0)\n  %u = f32[512]{0} parameter(1)\n"
        "  %k = s32[] constant(0)\n  %z = (s32[], f32[8,512,512]{2,1,0}, f32[512]{0}, f32[512]{0}) tuple(%k, %t, %u, %u)\n"
        "  %v = (s32[], f32[8,512,512]{2,1,0}, f32[512]{0}, f32[512]{0}) while(%z), condition=%cond, body=%body\n"
        "  ROOT %g = f32[512]{0} get-tuple-element(%v), index=3\n}\n";
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchLayout *l = ech_program_layout(p, p->instructions[k].shape);
        bool makes = p->computations[p->instructions[k].computation].caller != ECH_NONE &&
                     p->instructions[p->computations[p->instructions[k].computation].caller].opcode == ECH_HLO_WHILE;
        ck_assert_msg(!makes || !l || l->rank < 2 || l->dims[l->rank - 2] != 512 || p->shapes[p->instructions[k].shape].count != 512 * 512, "%s",
                      p->instructions[k].name);
    }
}
END_TEST

/* A product for each head of what a loop takes of a cache where that has heads on its rows: it is taken out and turned in the product's kernel, as a whole
 * cache is; what rows were written on after it was taken is turned before. */
START_TEST(parts_of_caches_are_turned_for_products_of_heads)
{
    static const char body[] =
        "%%body (p: (s32[], bf16[2,%s], bf16[8,4,16,128])) -> (s32[], bf16[2,%s], bf16[8,4,16,128]) {\n"
        "  %%p = (s32[], bf16[2,%s]{4,3,2,1,0}, bf16[8,4,16,128]{3,2,1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%p), index=0\n"
        "  %%s = bf16[2,%s]{4,3,2,1,0} get-tuple-element(%%p), index=1\n  %%q = bf16[8,4,16,128]{3,2,1,0} get-tuple-element(%%p), index=2\n"
        "  %%zero = s32[] constant(0)\n  %%one = s32[] constant(1)\n"
        "  %%a = bf16[1,%s]{4,3,2,1,0} dynamic-slice(%%s, %%i, %%zero, %%zero, %%zero, %%zero), dynamic_slice_sizes={1,%s}\n"
        "  %%b = bf16[8,1,4,128]{3,2,1,0} slice(%%q), slice={[0:8], [0:1], [0:4], [0:128]}\n"
        "  %%c = bf16[%s]{3,2,1,0} reshape(%%a)\n%s"
        "  %%d = bf16[8,4,16,1024]{3,2,1,0} dot(%%q, %%%s), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,%d}, "
        "rhs_contracting_dims={3}\n"
        "  %%x = bf16[8,4,16,128]{3,2,1,0} slice(%%d), slice={[0:8], [0:4], [0:16], [0:128]}\n  %%j = s32[] add(%%i, %%one)\n"
        "  ROOT %%o = (s32[], bf16[2,%s]{4,3,2,1,0}, bf16[8,4,16,128]{3,2,1,0}) tuple(%%j, %%s, %%x)\n}\n\n"
        "%%cond (r: (s32[], bf16[2,%s], bf16[8,4,16,128])) -> pred[] {\n"
        "  %%r = (s32[], bf16[2,%s]{4,3,2,1,0}, bf16[8,4,16,128]{3,2,1,0}) parameter(0)\n"
        "  %%m = s32[] get-tuple-element(%%r), index=0\n  %%two = s32[] constant(2)\n"
        "  ROOT %%less = pred[] compare(%%m, %%two), direction=LT\n}\n\n",
                      whole[] = "HloModule m\n\nENTRY %main (c: bf16[8,1024,4,128], q: bf16[8,4,16,128]) -> bf16[8,4,16,1024] {\n"
                                "  %c = bf16[8,1024,4,128]{3,2,1,0} parameter(0)\n  %q = bf16[8,4,16,128]{3,2,1,0} parameter(1)\n"
                                "  ROOT %d = bf16[8,4,16,1024]{3,2,1,0} dot(%q, %c), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, "
                                "rhs_contracting_dims={3}\n}\n";
    for (unsigned k = 0; k < 4; k++) {
        const char *c = k == 1 ? "8,4,1024,128" : "8,1024,4,128";
        const char *write = k == 3 ? "  %u = bf16[8,1024,4,128]{3,2,1,0} dynamic-update-slice(%c, %b, %zero, %i, %zero, %zero)\n" : "",
                   *read = k == 3 ? "u" : "c";
        g_autofree char *loop = g_strdup_printf(body, c, c, c, c, c, c, c, write, read, k == 1 ? 1 : 2, c, c, c),
                        *text = g_strdup_printf("HloModule m\n\n%sENTRY %%main (s: bf16[2,%s], q: bf16[8,4,16,128]) -> bf16[8,4,16,128] {\n"
                                                "  %%s = bf16[2,%s]{4,3,2,1,0} parameter(0)\n  %%q = bf16[8,4,16,128]{3,2,1,0} parameter(1)\n"
                                                "  %%k = s32[] constant(0)\n"
                                                "  %%z = (s32[], bf16[2,%s]{4,3,2,1,0}, bf16[8,4,16,128]{3,2,1,0}) tuple(%%k, %%s, %%q)\n"
                                                "  %%w = (s32[], bf16[2,%s]{4,3,2,1,0}, bf16[8,4,16,128]{3,2,1,0}) while(%%z), condition=%%cond, body=%%body\n"
                                                "  ROOT %%g = bf16[8,4,16,128]{3,2,1,0} get-tuple-element(%%w), index=2\n}\n",
                                                loop, c, c, c, c);
        g_autoptr(EchImport) tpu = read_text(k == 2 ? whole : text, "tpu-v5e");
        const EchProgram *p = tpu->program;
        unsigned turned = 0, taken = 0;
        for (size_t j = 0; j < p->n_instructions; j++) {
            const EchInstruction *i = &p->instructions[j];
            if (p->shapes[i->shape].count != 8 * 1024 * 4 * 128)
                continue;
            turned += i->opcode == ECH_HLO_COPY;
            taken += i->opcode == ECH_HLO_FUSION && p->instructions[p->computations[ech_program_called(p, i, 0)].root].opcode == ECH_HLO_DYNAMIC_SLICE;
        }
        ck_assert_msg(turned == (k == 3) && (taken == 1) == (k == 0), "case %u: %u, %u", k, turned, taken);
    }
}
END_TEST

/* Rows that a loop scatters into a cache lie in it with all that each has innermost, whatever they are put between. */
START_TEST(caches_of_scattered_rows_lie_by_rows)
{
    static const char form[] =
        "HloModule m\n\n%%put (a: bf16[], b: bf16[]) -> bf16[] {\n  %%a = bf16[] parameter(0)\n  ROOT %%b = bf16[] parameter(1)\n}\n\n"
        "%%body (p: (s32[], bf16[4,8,%s], s32[8,3], bf16[8,16,128])) -> (s32[], bf16[4,8,%s], s32[8,3], bf16[8,16,128]) {\n"
        "  %%p = (s32[], bf16[4,8,%s]{4,3,2,1,0}, s32[8,3]{1,0}, bf16[8,16,128]{2,1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%p), index=0\n"
        "  %%c = bf16[4,8,%s]{4,3,2,1,0} get-tuple-element(%%p), index=1\n  %%at = s32[8,3]{1,0} get-tuple-element(%%p), index=2\n"
        "  %%r = bf16[8,16,128]{2,1,0} get-tuple-element(%%p), index=3\n  %%one = s32[] constant(1)\n"
        "  %%u = bf16[4,8,%s]{4,3,2,1,0} scatter(%%c, %%at, %%r), update_window_dims={1,2}, inserted_window_dims={0,1,%u}, "
        "scatter_dims_to_operand_dims={0,1,%u}, index_vector_dim=1, to_apply=%%put\n  %%j = s32[] add(%%i, %%one)\n"
        "  ROOT %%o = (s32[], bf16[4,8,%s]{4,3,2,1,0}, s32[8,3]{1,0}, bf16[8,16,128]{2,1,0}) tuple(%%j, %%u, %%at, %%r)\n}\n\n"
        "%%cond (q: (s32[], bf16[4,8,%s], s32[8,3], bf16[8,16,128])) -> pred[] {\n"
        "  %%q = (s32[], bf16[4,8,%s]{4,3,2,1,0}, s32[8,3]{1,0}, bf16[8,16,128]{2,1,0}) parameter(0)\n"
        "  %%m = s32[] get-tuple-element(%%q), index=0\n  %%four = s32[] constant(4)\n  ROOT %%less = pred[] compare(%%m, %%four), direction=LT\n}\n\n"
        "ENTRY %%main (a: bf16[4,8,%s], y: s32[8,3], v: bf16[8,16,128]) -> bf16[4,8,%s] {\n  %%a = bf16[4,8,%s]{4,3,2,1,0} parameter(0)\n"
        "  %%y = s32[8,3]{1,0} parameter(1)\n  %%v = bf16[8,16,128]{2,1,0} parameter(2)\n  %%start = s32[] constant(0)\n"
        "  %%t = (s32[], bf16[4,8,%s]{4,3,2,1,0}, s32[8,3]{1,0}, bf16[8,16,128]{2,1,0}) tuple(%%start, %%a, %%y, %%v)\n"
        "  %%w = (s32[], bf16[4,8,%s]{4,3,2,1,0}, s32[8,3]{1,0}, bf16[8,16,128]{2,1,0}) while(%%t), condition=%%cond, body=%%body\n"
        "  ROOT %%out = bf16[4,8,%s]{4,3,2,1,0} get-tuple-element(%%w), index=1\n}\n";
    for (unsigned heads_first = 0; heads_first < 2; heads_first++) {
        const char *c = heads_first ? "16,512,128" : "512,16,128";
        unsigned at = heads_first ? 3 : 2;
        g_autofree char *text = g_strdup_printf(form, c, c, c, c, c, at, at, c, c, c, c, c, c, c, c, c);
        g_autoptr(EchImport) tpu = ech_test_hlo(text, "tpu-v5e");
        static const uint8_t order[2][5] = {{4, 3, 2, 1, 0}, {4, 2, 3, 1, 0}};
        const EchLayout *u = layout_of(tpu->program, "u");
        ck_assert_msg(memcmp(u->order, order[heads_first], 5) == 0, "%u: %u,%u,%u,%u,%u", heads_first, u->order[0], u->order[1], u->order[2], u->order[3],
                      u->order[4]);
    }
}
END_TEST

/* One query a head: with a dimension of 1 for it the products are sums before tpu7x, without they stay on the matrix unit. */
START_TEST(queries_of_one_are_sums)
{
    for (unsigned k = 0; k < 3; k++) {
        const char *one = k == 1 ? "" : "1,";
        g_autofree char *text = g_strdup_printf("HloModule m\n\nENTRY %%main (q: bf16[8,16,%s128], c: bf16[8,16,256,128]) -> bf16[8,16,%s256] {\n"
                                                "  %%q = bf16[8,16,%s128]{%s2,1,0} parameter(0)\n  %%c = bf16[8,16,256,128]{3,2,1,0} parameter(1)\n"
                                                "  ROOT %%d = bf16[8,16,%s256]{%s2,1,0} dot(%%q, %%c), lhs_batch_dims={0,1}, lhs_contracting_dims={%u}, "
                                                "rhs_batch_dims={0,1}, rhs_contracting_dims={3}\n}\n",
                                                one, one, one, k == 1 ? "" : "3,", one, k == 1 ? "" : "3,", k == 1 ? 2 : 3);
        g_autoptr(EchImport) tpu = read_text(text, k == 2 ? "tpu7x" : "tpu-v6e");
        ck_assert_uint_eq(count_of(tpu->program, ECH_HLO_REDUCE, true), k == 0);
    }
}
END_TEST

/* Kernels' results of so many elements, arguments and views aside. */
static unsigned made_of(const EchProgram *p, uint64_t count)
{
    unsigned n = 0;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        n += i->computation == p->entry && i->opcode != ECH_HLO_PARAMETER && i->opcode != ECH_HLO_BITCAST && !p->shapes[i->shape].is_tuple &&
             p->shapes[i->shape].count == count;
    }
    return n;
}

/* Random numbers, however many steps they take, are made again by each that reads them. */
START_TEST(random_numbers_are_made_again)
{
    g_autoptr(GString) text = g_string_new("HloModule m\n\nENTRY %main (a: u32[512,1024], b: u32[512,1024]) -> (u32[512,1024], u32[512,1024]) {\n"
                                           "  %a = u32[512,1024]{1,0} parameter(0)\n  %b = u32[512,1024]{1,0} parameter(1)\n"
                                           "  %r0 = u32[512,1024]{1,0} iota(), iota_dimension=0\n  %s = u32[512,1024]{1,0} iota(), iota_dimension=1\n");
    for (unsigned k = 0; k < 300; k++)
        g_string_append_printf(text, "  %%r%u = u32[512,1024]{1,0} %s(%%r%u, %%s)\n", k + 1, k % 2 ? "xor" : "add", k);
    g_string_append(text, "  %x = u32[512,1024]{1,0} add(%a, %r300)\n  %y = u32[512,1024]{1,0} multiply(%b, %r300)\n"
                          "  ROOT %o = (u32[512,1024]{1,0}, u32[512,1024]{1,0}) tuple(%x, %y)\n}\n");
    g_autoptr(EchImport) tpu = read_text(text->str, "tpu-v5e");
    ck_assert_uint_eq(made_of(tpu->program, 512 * 1024), 2);
}
END_TEST

/* What is computed of two arrays that are there anyhow is made again by each product that reads it, but not by a sum, and not of a product that would end with
 * it. */
START_TEST(products_make_what_they_read)
{
    static const char form[] =
        "HloModule m\n\n" SUM_FORM
        "ENTRY %%main (x: bf16[512,1024], g: bf16[512,1024], w: bf16[1024,256], v: bf16[1024,384], t: bf16[1024,1024]) -> (bf16[512,256], %s) {\n"
        "  %%x = bf16[512,1024]{1,0} parameter(0)\n  %%g = bf16[512,1024]{1,0} parameter(1)\n  %%w = bf16[1024,256]{1,0} parameter(2)\n"
        "  %%v = bf16[1024,384]{1,0} parameter(3)\n  %%zero = f32[] constant(0)\n  %%t = bf16[1024,1024]{1,0} parameter(4)\n"
        "  %%h = bf16[512,1024]{1,0} %s\n  %%y = bf16[512,1024]{1,0} multiply(%%x, %%h)\n"
        "  %%d = bf16[512,256]{1,0} dot(%%y, %%w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n%s"
        "  ROOT %%o = (bf16[512,256]{1,0}, %s) tuple(%%d, %%e)\n}\n";
    static const char product[] = "  %e = bf16[512,384]{1,0} dot(%y, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
                      sum[] = "  %f = f32[512,1024]{1,0} convert(%y)\n  %e = f32[1024]{0} reduce(%f, %zero), dimensions={0}, to_apply=%sum\n";
    for (unsigned k = 0; k < 3; k++) {
        const char *type = k == 1 ? "f32[1024]{0}" : "bf16[512,384]{1,0}";
        g_autofree char *text = g_strdup_printf(form, type, k == 2 ? "dot(%g, %t), lhs_contracting_dims={1}, rhs_contracting_dims={0}" : "negate(%g)",
                                                k == 1 ? sum : product, type);
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
        ck_assert_msg(made_of(tpu->program, 512 * 1024) == (k != 0), "case %u: %u", k, made_of(tpu->program, 512 * 1024));
    }
}
END_TEST

/* What products of 32 bits read, computed of a product that nothing else reads, is in memory in 16 bits, unless they are asked for more or something else reads
 * it. */
START_TEST(factors_of_products_are_narrow)
{
    for (unsigned k = 0; k < 3; k++) {
        const char *precision = k == 1 ? ", operand_precision={highest,highest}" : "";
        g_autofree char *text = g_strdup_printf(
            "HloModule m\n\nENTRY %%main (x: f32[512,512], w: f32[512,1024], m: f32[512,1024], a: f32[1024,256], b: f32[1024,384]) -> (f32[512,256], %s) {\n"
            "  %%x = f32[512,512]{1,0} parameter(0)\n  %%w = f32[512,1024]{1,0} parameter(1)\n  %%m = f32[512,1024]{1,0} parameter(2)\n"
            "  %%a = f32[1024,256]{1,0} parameter(3)\n  %%b = f32[1024,384]{1,0} parameter(4)\n"
            "  %%h = f32[512,1024]{1,0} dot(%%x, %%w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  %%y = f32[512,1024]{1,0} multiply(%%h, %%m)\n"
            "  %%d = f32[512,256]{1,0} dot(%%y, %%a), lhs_contracting_dims={1}, rhs_contracting_dims={0}%s\n"
            "  %%e = f32[512,384]{1,0} dot(%%y, %%b), lhs_contracting_dims={1}, rhs_contracting_dims={0}%s\n"
            "  ROOT %%o = (f32[512,256]{1,0}, %s) tuple(%%d, %s)\n}\n",
            k == 2 ? "f32[512,1024]" : "f32[512,384]", precision, precision, k == 2 ? "f32[512,1024]{1,0}" : "f32[512,384]{1,0}", k == 2 ? "%y" : "%e");
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
        const EchProgram *p = tpu->program;
        unsigned narrow = 0, wide = 0;
        for (size_t j = 0; j < p->n_instructions; j++) {
            const EchInstruction *i = &p->instructions[j];
            bool made = i->computation == p->entry && i->opcode == ECH_HLO_FUSION && p->shapes[i->shape].count == 512 * 1024;
            narrow += made && p->shapes[i->shape].dense == 512 * 1024 * 2;
            wide += made && p->shapes[i->shape].dense == 512 * 1024 * 4;
        }
        ck_assert_msg(narrow == (k == 0) && wide == (k != 0), "case %u: %u, %u", k, narrow, wide);
    }
}
END_TEST

/* Attention of one query group: scores lie as if that dimension were not there, and what of them is summed by rows, with what belongs to rows, is in their
 * kernel. */
START_TEST(groups_of_one_lie_outside)
{
    static const char text[] =
        "HloModule m\n\n" SUM "ENTRY %main (q: bf16[4,6,1024,1,64], k: bf16[4,6,1024,64], m: f32[4,6,1024,1]) -> (f32[4,6,1024,1,1024], f32[1,4,6,1024]) {\n"
        "  %q = bf16[4,6,1024,1,64]{4,3,2,1,0} parameter(0)\n  %k = bf16[4,6,1024,64]{3,2,1,0} parameter(1)\n"
        "  %m = f32[4,6,1024,1]{3,2,1,0} parameter(2)\n"
        "  %d = f32[4,6,1024,1,1024]{4,3,2,1,0} dot(%q, %k), lhs_batch_dims={0,1}, lhs_contracting_dims={4}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}\n"
        "  %t = f32[1,4,6,1024,1024]{4,3,2,1,0} reshape(%d)\n  %f = f32[1,4,6,1024,1024]{4,3,2,1,0} negate(%t)\n"
        "  %r = f32[1,4,6,1024]{3,2,1,0} reshape(%m)\n  %w = f32[1,4,6,1024,1024]{4,3,2,1,0} broadcast(%r), dimensions={0,1,2,3}\n"
        "  %x = f32[1,4,6,1024,1024]{4,3,2,1,0} multiply(%f, %w)\n  %zero = f32[] constant(0)\n"
        "  %s = f32[1,4,6,1024]{3,2,1,0} reduce(%x, %zero), dimensions={4}, to_apply=%sum\n"
        "  %n = f32[4,6,1024,1,1024]{4,3,2,1,0} negate(%d)\n"
        "  ROOT %o = (f32[4,6,1024,1,1024]{4,3,2,1,0}, f32[1,4,6,1024]{3,2,1,0}) tuple(%n, %s)\n}\n";
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    const EchInstruction *dot = find_opcode(p, ECH_HLO_DOT);
    ck_assert_ptr_nonnull(dot);
    const EchLayout *l = ech_program_layout(p, dot->shape);
    ck_assert_msg(l->order[0] == 4 && l->order[1] == 2 && l->order[4] == 3, "%u,%u,%u,%u,%u", l->order[0], l->order[1], l->order[2], l->order[3], l->order[4]);
    /* Two results: the scores and the sums. */
    unsigned several = 0;
    for (size_t k = 0; k < p->n_instructions; k++)
        several += p->instructions[k].opcode == ECH_HLO_FUSION && p->shapes[p->instructions[k].shape].is_tuple;
    ck_assert_uint_eq(several, 1);
}
END_TEST

/* The same where the text turns scores round (bqngd,bknd->bngqk) and says so of all that is made of them: nothing has the dimension of 1 on its lanes. */
START_TEST(groups_of_one_are_turned)
{
    static const char text[] =
        "HloModule m\n\n" SUM "ENTRY %main (q: bf16[4,6,196,1,64], k: bf16[4,6,196,64], m: f32[4,6,1,196]) -> (bf16[4,6,1,196,196], f32[4,6,1,196]) {\n"
        "  %q = bf16[4,6,196,1,64]{4,3,2,1,0} parameter(0)\n  %k = bf16[4,6,196,64]{3,2,1,0} parameter(1)\n"
        "  %m = f32[4,6,1,196]{3,2,1,0} parameter(2)\n"
        "  %d = f32[4,6,196,196,1]{4,3,2,1,0} dot(%k, %q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={4}\n"
        "  %t = f32[4,6,1,196,196]{2,3,4,1,0} transpose(%d), dimensions={0,1,4,3,2}\n"
        "  %b = f32[4,6,1,196,196]{4,3,2,1,0} broadcast(%m), dimensions={0,1,2,3}\n"
        "  %s = f32[4,6,1,196,196]{2,3,4,1,0} subtract(%t, %b)\n  %e = f32[4,6,1,196,196]{2,3,4,1,0} exponential(%s)\n  %zero = f32[] constant(0)\n"
        "  %r = f32[4,6,1,196]{3,2,1,0} reduce(%e, %zero), dimensions={4}, to_apply=%sum\n"
        "  %c = bf16[4,6,1,196,196]{2,3,4,1,0} convert(%e)\n"
        "  ROOT %o = (bf16[4,6,1,196,196]{2,3,4,1,0}, f32[4,6,1,196]{3,2,1,0}) tuple(%c, %r)\n}\n";
    g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
    const EchProgram *p = tpu->program;
    unsigned scores = 0;
    for (EchId i = 0; i < p->n_instructions; i++) {
        const EchLayout *l = ech_program_layout(p, p->instructions[i].shape);
        if (l == NULL || l->rank != 5 || ech_layout_elements(l) != 4 * 6 * 196 * 196)
            continue;
        scores++;
        ck_assert_msg(l->dims[l->order[0]] > 1, "%s: %u,%u,%u", p->instructions[i].name, l->order[0], l->order[1], l->order[2]);
    }
    ck_assert_uint_gt(scores, 2);
}
END_TEST

/* The largest few of each row: many of them, or of other than a matrix of floats, by a sort; of 16 bits with their places in one number. */
START_TEST(largest_are_sorted_where_many_are_wanted)
{
    static const struct {
        const char *type, *dims, *result;
        unsigned k, sorted; /* arrays that are sorted */
    } cases[] = {{"f32", "64,4096", "64,48", 48, 0}, {"f32", "64,4096", "64,64", 64, 2}, {"f32", "64,128", "64,2", 2, 0},
                 {"f32", "64,64", "64,2", 2, 2},     {"f32", "64,64", "64,1", 1, 0},     {"f32", "4,16,4096", "4,16,8", 8, 2},
                 {"s32", "64,4096", "64,8", 8, 2},   {"bf16", "64,4096", "64,8", 8, 0},  {"bf16", "64,4096", "64,100", 100, 1}};
    for (size_t n = 0; n < G_N_ELEMENTS(cases); n++) {
        const char *t = cases[n].type, *d = cases[n].dims, *r = cases[n].result, *o = strchr(strchr(d, ',') + 1, ',') ? "2,1,0" : "1,0";
        g_autofree char *text = g_strdup_printf("HloModule m\n\nENTRY %%main (x: %s[%s]) -> (%s[%s], s32[%s]) {\n  %%x = %s[%s]{%s} parameter(0)\n"
                                                "  %%t = (%s[%s]{%s}, s32[%s]{%s}) topk(%%x), k=%u, largest=true, is_stable=true\n"
                                                "  %%v = %s[%s]{%s} get-tuple-element(%%t), index=0\n  %%i = s32[%s]{%s} get-tuple-element(%%t), index=1\n"
                                                "  ROOT %%o = (%s[%s]{%s}, s32[%s]{%s}) tuple(%%v, %%i)\n}\n",
                                                t, d, t, r, r, t, d, o, t, r, o, r, o, cases[n].k, t, r, o, r, o, t, r, o, r, o);
        g_autoptr(EchImport) tpu = read_text(text, "tpu-v5e");
        const EchInstruction *sort = find_opcode(tpu->program, ECH_HLO_SORT);
        ck_assert_msg((sort ? sort->n_operands : 0) == cases[n].sorted, "case %zu: %u", n, sort ? sort->n_operands : 0);
        ck_assert_uint_eq(count_of(tpu->program, ECH_HLO_TOPK, true), cases[n].sorted == 0);
    }
}
END_TEST

/* A scatter computes the rows that it adds, and picks them where they are narrow; of a large table, and on tpu7x, it reads them. */
START_TEST(scatters_make_narrow_rows)
{
    static const struct {
        unsigned rows, width, made;
        const char *chip;
    } cases[] = {{512, 128, 0, "tpu-v5e"}, {512, 512, 1, "tpu-v5e"}, {30000, 128, 2, "tpu-v5e"}, {30000, 128, 0, "tpu-v6e"}, {512, 128, 2, "tpu7x"}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        unsigned d = cases[k].width, n = cases[k].rows;
        g_autofree char *text = g_strdup_printf(
            "HloModule m\n\n" SUM_FORM "ENTRY %%main (x: f32[%u,%u], w: f32[8192], s: s32[8192,1], r: s32[8192,1]) -> f32[%u,%u] {\n"
            "  %%x = f32[%u,%u]{1,0} parameter(0)\n  %%w = f32[8192]{0} parameter(1)\n  %%s = s32[8192,1]{1,0} parameter(2)\n"
            "  %%r = s32[8192,1]{1,0} parameter(3)\n  %%zero = f32[] constant(0)\n  %%z = f32[%u,%u]{1,0} broadcast(%%zero), dimensions={}\n"
            "  %%g = f32[8192,%u]{1,0} gather(%%x, %%s), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1,%u}\n  %%b = f32[8192,%u]{1,0} broadcast(%%w), dimensions={0}\n  %%m = f32[8192,%u]{1,0} multiply(%%g, %%b)\n"
            "  ROOT %%u = f32[%u,%u]{1,0} scatter(%%z, %%r, %%m), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
            "index_vector_dim=1, to_apply=%%sum\n}\n",
            n, d, n, d, n, d, n, d, d, d, d, d, n, d);
        g_autoptr(EchImport) tpu = read_text(text, cases[k].chip);
        ck_assert_msg(made_of(tpu->program, 8192ull * d) == cases[k].made, "case %zu: %u", k, made_of(tpu->program, 8192ull * d));
    }
}
END_TEST

/* A sort that keeps what is equal in order sorts positions, too, where it has none; on GPUs as it is. */
START_TEST(stable_sorts_have_positions)
{
    static const char form[] = "HloModule m\n\n%%less (a: f32[], b: f32[]%s) -> pred[] {\n  %%a = f32[] parameter(0)\n  %%b = f32[] parameter(1)\n%s"
                               "  ROOT %%l = pred[] compare(%%a, %%b), direction=LT\n}\n\nENTRY %%main (x: f32[64,4096]) -> f32[64,4096] {\n"
                               "  %%x = f32[64,4096]{1,0} parameter(0)\n%s}\n";
    static const char one[] = "  %s = f32[64,4096]{1,0} sort(%x), dimensions={1}, is_stable=true, to_apply=%less\n  ROOT %r = f32[64,4096]{1,0} negate(%s)\n",
                      loose[] = "  %s = f32[64,4096]{1,0} sort(%x), dimensions={1}, to_apply=%less\n  ROOT %r = f32[64,4096]{1,0} negate(%s)\n",
                      both[] = "  %i = s32[64,4096]{1,0} iota(), iota_dimension=1\n  %s = (f32[64,4096]{1,0}, s32[64,4096]{1,0}) sort(%x, %i), "
                               "dimensions={1}, is_stable=true, to_apply=%less\n  ROOT %r = f32[64,4096]{1,0} get-tuple-element(%s), index=0\n",
                      spread[] = "  %j = s32[4096]{0} iota(), iota_dimension=0\n  %i = s32[64,4096]{1,0} broadcast(%j), dimensions={1}\n  %s = "
                                 "(f32[64,4096]{1,0}, s32[64,4096]{1,0}) sort(%x, %i), dimensions={1}, is_stable=true, to_apply=%less\n"
                                 "  ROOT %r = f32[64,4096]{1,0} get-tuple-element(%s), index=0\n",
                      two[] = "  %n = f32[64,4096]{1,0} negate(%x)\n  %s = (f32[64,4096]{1,0}, f32[64,4096]{1,0}) sort(%x, %n), "
                              "dimensions={1}, is_stable=true, to_apply=%less\n  ROOT %r = f32[64,4096]{1,0} get-tuple-element(%s), index=1\n";
    static const struct {
        const char *text, *device, *more, *parameters;
        uint32_t sorted;
    } cases[] = {{one, "tpu-v5e", "", "", 2},
                 {loose, "tpu-v5e", "", "", 1},
                 {one, "h100-sxm", "", "", 1},
                 {both, "tpu-v5e", ", c: s32[], d: s32[]", "  %c = s32[] parameter(2)\n  %d = s32[] parameter(3)\n", 2},
                 {spread, "tpu-v5e", ", c: s32[], d: s32[]", "  %c = s32[] parameter(2)\n  %d = s32[] parameter(3)\n", 2},
                 {two, "tpu-v5e", ", c: f32[], d: f32[]", "  %c = f32[] parameter(2)\n  %d = f32[] parameter(3)\n", 3}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autofree char *text = g_strdup_printf(form, cases[k].more, cases[k].parameters, cases[k].text);
        g_autoptr(EchImport) import = read_text(text, cases[k].device);
        const EchProgram *p = import->program;
        const EchInstruction *sort = find_opcode(p, ECH_HLO_SORT);
        ck_assert_ptr_nonnull(sort);
        ck_assert_msg(sort->n_operands == cases[k].sorted, "case %zu: %u", k, sort->n_operands);
        ck_assert_uint_eq(p->shapes[sort->shape].is_tuple ? p->shapes[sort->shape].n_elements : 1, cases[k].sorted);
    }
}
END_TEST

/* A mask that is handed into a loop whole is made in it; what the loop changes, and what its condition reads, is carried. */
START_TEST(constants_are_made_inside_loops)
{
    static const char form[] = "HloModule m\n\n"
                               "%%below (s: (s32[], f32[512,512], pred[512,512])) -> pred[] {\n"
                               "  %%s = (s32[], f32[512,512]{1,0}, pred[512,512]{1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%s), index=0\n"
                               "  %%n = s32[] constant(4)\n  ROOT %%l = pred[] compare(%%i, %%n), direction=LT\n}\n\n"
                               "%%body (s: (s32[], f32[512,512], pred[512,512])) -> (s32[], f32[512,512], pred[512,512]) {\n"
                               "  %%s = (s32[], f32[512,512]{1,0}, pred[512,512]{1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%s), index=0\n"
                               "  %%x = f32[512,512]{1,0} get-tuple-element(%%s), index=1\n  %%m = pred[512,512]{1,0} get-tuple-element(%%s), index=2\n"
                               "  %%one = s32[] constant(1)\n  %%next = s32[] add(%%i, %%one)\n  %%zero = f32[] constant(0)\n"
                               "  %%z = f32[512,512]{1,0} broadcast(%%zero), dimensions={}\n  %%y = f32[512,512]{1,0} select(%%m, %%x, %%z)\n"
                               "  %%other = pred[512,512]{1,0} not(%%m)\n"
                               "  ROOT %%t = (s32[], f32[512,512]{1,0}, pred[512,512]{1,0}) tuple(%%next, %%y, %s)\n}\n\n"
                               "ENTRY %%main (x: f32[512,512]) -> (f32[512,512], pred[512,512]) {\n"
                               "  %%x = f32[512,512]{1,0} parameter(0)\n  %%start = s32[] constant(0)\n"
                               "  %%r = s32[512,512]{1,0} iota(), iota_dimension=0\n  %%c = s32[512,512]{1,0} iota(), iota_dimension=1\n"
                               "  %%mask = pred[512,512]{1,0} compare(%%r, %%c), direction=GE\n"
                               "  %%init = (s32[], f32[512,512]{1,0}, pred[512,512]{1,0}) tuple(%%start, %%x, %%mask)\n"
                               "  %%w = (s32[], f32[512,512]{1,0}, pred[512,512]{1,0}) while(%%init), condition=%%below, body=%%body\n"
                               "  %%a = f32[512,512]{1,0} get-tuple-element(%%w), index=1\n  %%b = pred[512,512]{1,0} get-tuple-element(%%w), index=2\n"
                               "  ROOT %%o = (f32[512,512]{1,0}, pred[512,512]{1,0}) tuple(%%a, %%b)\n}\n";
    for (unsigned changed = 0; changed < 2; changed++) {
        g_autofree char *text = g_strdup_printf(form, changed ? "%other" : "%m");
        g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
        const EchProgram *p = import->program;
        ck_assert_uint_eq(ech_diag_count(import->diag, "constants_made_inside_loops"), !changed);
        const EchInstruction *loop = find_opcode(p, ECH_HLO_WHILE);
        ck_assert_ptr_nonnull(loop);
        const EchShape *carried = &p->shapes[p->elements[p->shapes[loop->shape].first_element + 2]];
        ck_assert_uint_eq(carried->count, changed ? 512 * 512 : 1);
        /* What comes out of it is still the mask. */
        const EchShape *result = &p->shapes[p->instructions[p->computations[p->entry].root].shape];
        ck_assert_uint_eq(p->shapes[p->elements[result->first_element + 1]].count, 512 * 512);
    }
}
END_TEST

/* A product, the exponential of what it is above its rows' maxima, and the sum of that: one kernel of two results. */
START_TEST(a_softmax_is_one_kernel)
{
    static const char form[] =
        "HloModule m\n\n%sENTRY %%main (q: f32[4,256,64], k: f32[4,%d,64]) -> f32[4,256,%d] {\n"
        "  %%q = f32[4,256,64]{2,1,0} parameter(0)\n  %%k = f32[4,%d,64]{2,1,0} parameter(1)\n"
        "  %%d = f32[4,256,%d]{2,1,0} dot(%%q, %%k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
        "  %%low = f32[] constant(-inf)\n  %%m = f32[4,256]{1,0} reduce(%%d, %%low), dimensions={2}, to_apply=%%most\n"
        "  %%b = f32[4,256,%d]{2,1,0} broadcast(%%m), dimensions={0,1}\n  %%x = f32[4,256,%d]{2,1,0} subtract(%%d, %%b)\n"
        "  %%e = f32[4,256,%d]{2,1,0} exponential(%%x)\n  %%zero = f32[] constant(0)\n"
        "  %%s = f32[4,256]{1,0} reduce(%%e, %%zero), dimensions={2}, to_apply=%%add\n"
        "  %%c = f32[4,256,%d]{2,1,0} broadcast(%%s), dimensions={0,1}\n  ROOT %%r = f32[4,256,%d]{2,1,0} divide(%%e, %%c)\n}\n";
    for (unsigned k = 0; k < 3; k++) {
        int n = k == 1 ? 8192 : 512; /* rows that long are gone through twice */
        g_autofree char *text = g_strdup_printf(form, REDUCERS, n, n, n, n, n, n, n, n, n);
        g_autoptr(EchImport) import = read_text(text, k == 2 ? "h100-sxm" : "tpu-v5e");
        const EchProgram *p = import->program;
        unsigned kernels = 0, results = 0;
        for (size_t j = 0; j < p->n_instructions; j++) {
            const EchInstruction *i = &p->instructions[j];
            if (i->computation != p->entry ||
                (i->opcode != ECH_HLO_FUSION && i->opcode != ECH_HLO_DOT && i->opcode != ECH_HLO_REDUCE && i->opcode != ECH_HLO_DIVIDE))
                continue;
            kernels++;
            results = MAX(results, p->shapes[i->shape].is_tuple ? p->shapes[i->shape].n_elements : 1);
        }
        ck_assert_msg(k == 0 ? kernels == 2 && results == 2 : kernels > 2, "case %u: %u kernels, %u results", k, kernels, results);
    }
}
END_TEST

/* A narrow copy of an array that stays anyway is made by each product that reads it; where two cores share a kernel it is made once. */
START_TEST(narrow_copies_are_made_again)
{
    static const char text[] = "HloModule m\n\nENTRY %main (p: f32[512,256], q: f32[256,1024], r: bf16[1024,128], s: bf16[1024,384]) -> (f32[512,1024], "
                               "bf16[512,128], bf16[512,384]) {\n"
                               "  %p = f32[512,256]{1,0} parameter(0)\n  %q = f32[256,1024]{1,0} parameter(1)\n"
                               "  %r = bf16[1024,128]{1,0} parameter(2)\n  %s = bf16[1024,384]{1,0} parameter(3)\n"
                               "  %d = f32[512,1024]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "  %e = f32[512,1024]{1,0} exponential(%d)\n  %c = bf16[512,1024]{1,0} convert(%e)\n"
                               "  %x = bf16[512,128]{1,0} dot(%c, %r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "  %y = bf16[512,384]{1,0} dot(%c, %s), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "  ROOT %o = (f32[512,1024]{1,0}, bf16[512,128]{1,0}, bf16[512,384]{1,0}) tuple(%e, %x, %y)\n}\n";
    static const char *const chips[] = {"tpu-v5e", "tpu-v5p"};
    for (unsigned k = 0; k < 2; k++) {
        g_autoptr(EchImport) import = read_text(text, chips[k]);
        const EchProgram *p = import->program;
        unsigned narrow = 0;
        for (size_t j = 0; j < p->n_instructions; j++) {
            const EchInstruction *i = &p->instructions[j];
            narrow += i->computation == p->entry && p->shapes[i->shape].count == 512 * 1024 && p->shapes[i->shape].dense == 512 * 1024 * 2;
        }
        ck_assert_uint_eq(narrow, k);
    }
}
END_TEST

/* What the loops of a tpu7x read of a 16-bit argument lies in tiles of 16 rows: one copy for both; what they hand out is turned back. */
START_TEST(loops_have_tiles_of_their_own)
{
#define LAYER(NAME)                                                                                                                                            \
    "%" NAME " (s: (s32[], bf16[64,512], bf16[512,512])) -> (s32[], bf16[64,512], bf16[512,512]) {\n"                                                          \
    "  %s = (s32[], bf16[64,512]{1,0}, bf16[512,512]{1,0}) parameter(0)\n  %i = s32[] get-tuple-element(%s), index=0\n"                                        \
    "  %one = s32[] constant(1)\n  %next = s32[] add(%i, %one)\n  %x = bf16[64,512]{1,0} get-tuple-element(%s), index=1\n"                                     \
    "  %w = bf16[512,512]{1,0} get-tuple-element(%s), index=2\n"                                                                                               \
    "  %y = bf16[64,512]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"                                                               \
    "  ROOT %t = (s32[], bf16[64,512]{1,0}, bf16[512,512]{1,0}) tuple(%next, %y, %w)\n}\n\n"
    static const char text[] = "HloModule m, entry_computation_layout={(bf16[64,512]{1,0},bf16[512,512]{1,0})->bf16[64,512]{1,0}}\n\n"
                               "%few (s: (s32[], bf16[64,512], bf16[512,512])) -> pred[] {\n"
                               "  %s = (s32[], bf16[64,512]{1,0}, bf16[512,512]{1,0}) parameter(0)\n  %i = s32[] get-tuple-element(%s), index=0\n"
                               "  %n = s32[] constant(9)\n  ROOT %l = pred[] compare(%i, %n), direction=LT\n}\n\n" LAYER("one")
                                   LAYER("two") "ENTRY %main (p: bf16[64,512], q: bf16[512,512]) -> bf16[64,512] {\n"
                                                "  %p = bf16[64,512]{1,0} parameter(0)\n  %q = bf16[512,512]{1,0} parameter(1)\n  %zero = s32[] constant(0)\n"
                                                "  %a = (s32[], bf16[64,512]{1,0}, bf16[512,512]{1,0}) tuple(%zero, %p, %q)\n"
                                                "  %v = (s32[], bf16[64,512]{1,0}, bf16[512,512]{1,0}) while(%a), condition=%few, body=%one\n"
                                                "  %x = bf16[64,512]{1,0} get-tuple-element(%v), index=1\n"
                                                "  %b = (s32[], bf16[64,512]{1,0}, bf16[512,512]{1,0}) tuple(%zero, %x, %q)\n"
                                                "  %u = (s32[], bf16[64,512]{1,0}, bf16[512,512]{1,0}) while(%b), condition=%few, body=%two\n"
                                                "  ROOT %r = bf16[64,512]{1,0} get-tuple-element(%u), index=1\n}\n";
    static const char *const chips[] = {"tpu7x", "tpu-v6e"};
    for (unsigned k = 0; k < 2; k++) {
        g_autoptr(EchImport) import = read_text(text, chips[k]);
        const EchProgram *p = import->program;
        unsigned weights = 0;
        for (size_t j = 0; j < p->n_instructions; j++) {
            const EchInstruction *i = &p->instructions[j];
            const EchLayout *layout = ech_program_layout(p, i->shape);
            bool copy = i->computation == p->entry && i->opcode == ECH_HLO_COPY && layout && layout->rank == 2 && layout->dims[0] == 512;
            weights += copy;
            ck_assert(!copy || layout->tiles[0].dims[0] == 16);
        }
        ck_assert_uint_eq(weights, k == 0);
        const EchInstruction *root = &p->instructions[p->computations[p->entry].root];
        ck_assert_int_eq(root->opcode, k == 0 ? ECH_HLO_COPY : ECH_HLO_GET_TUPLE_ELEMENT);
    }
}
END_TEST

/* A stack that a loop fills goes into a donated argument's place, but not where the loop reads that argument: then it is copied there in the end. */
START_TEST(what_a_loop_reads_keeps_its_place)
{
    static const char form[] =
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, entry_computation_layout={(f32[4,64,128]{2,1,0})->f32[4,64,128]{2,1,0}}\n\n"
        "%%few (s: (s32[], f32[4,64,128], f32[4,64,128])) -> pred[] {\n"
        "  %%s = (s32[], f32[4,64,128]{2,1,0}, f32[4,64,128]{2,1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%s), index=0\n"
        "  %%n = s32[] constant(4)\n  ROOT %%l = pred[] compare(%%i, %%n), direction=LT\n}\n\n"
        "%%body (s: (s32[], f32[4,64,128], f32[4,64,128])) -> (s32[], f32[4,64,128], f32[4,64,128]) {\n"
        "  %%s = (s32[], f32[4,64,128]{2,1,0}, f32[4,64,128]{2,1,0}) parameter(0)\n  %%i = s32[] get-tuple-element(%%s), index=0\n"
        "  %%one = s32[] constant(1)\n  %%zero = s32[] constant(0)\n  %%next = s32[] add(%%i, %%one)\n"
        "  %%x = f32[4,64,128]{2,1,0} get-tuple-element(%%s), index=1\n  %%y = f32[4,64,128]{2,1,0} get-tuple-element(%%s), index=2\n"
        "  %%d = f32[1,64,128]{2,1,0} dynamic-slice(%%x, %%i, %%zero, %%zero), dynamic_slice_sizes={1,64,128}\n"
        "  %%e = f32[1,64,128]{2,1,0} exponential(%%d)\n  %%u = f32[4,64,128]{2,1,0} dynamic-update-slice(%%y, %%e, %%i, %%zero, %%zero)\n"
        "  ROOT %%t = (s32[], f32[4,64,128]{2,1,0}, f32[4,64,128]{2,1,0}) tuple(%%next, %%x, %%u)\n}\n\n"
        "ENTRY %%main (p: f32[4,64,128]) -> f32[4,64,128] {\n"
        "  %%p = f32[4,64,128]{2,1,0} parameter(0)\n  %%zero = s32[] constant(0)\n  %%blank = f32[] constant(0)\n"
        "  %%empty = f32[4,64,128]{2,1,0} broadcast(%%blank), dimensions={}\n  %%q = f32[4,64,128]{2,1,0} negate(%%p)\n"
        "  %%a = (s32[], f32[4,64,128]{2,1,0}, f32[4,64,128]{2,1,0}) tuple(%%zero, %s, %%empty)\n"
        "  %%w = (s32[], f32[4,64,128]{2,1,0}, f32[4,64,128]{2,1,0}) while(%%a), condition=%%few, body=%%body\n"
        "  ROOT %%r = f32[4,64,128]{2,1,0} get-tuple-element(%%w), index=2\n}\n";
    for (unsigned k = 0; k < 2; k++) {
        g_autofree char *text = g_strdup_printf(form, k == 0 ? "%p" : "%q");
        g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
        const EchProgram *p = import->program;
        ck_assert_int_eq(p->instructions[p->computations[p->entry].root].opcode, k == 0 ? ECH_HLO_COPY : ECH_HLO_GET_TUPLE_ELEMENT);
        ck_assert_uint_eq(ech_program_memory_analysis(p).alias, STACK);
    }
}
END_TEST

/* Rows of another length: every element moves. On a TPU nothing is fused with that, but where a product takes the rows as they are. */
START_TEST(rows_of_another_length_are_moved)
{
    static const char form[] = "HloModule m\n\n%sENTRY %%main (p: f32[256,256]) -> f32[128,128] {\n  %%p = f32[256,256]{1,0} parameter(0)\n"
                               "  %%e = f32[256,256]{1,0} exponential(%%p)\n  %%q = f32[128,2,128,2]{3,2,1,0} reshape(%%e)\n  %%zero = f32[] constant(0)\n"
                               "  ROOT %%r = f32[128,128]{1,0} reduce(%%q, %%zero), dimensions={1,3}, to_apply=%%add\n}\n";
    g_autofree char *text = g_strdup_printf(form, REDUCERS);
    static const char *const devices[] = {"tpu-v5e", "h100-sxm"};
    for (unsigned k = 0; k < 2; k++) {
        g_autoptr(EchImport) import = read_text(text, devices[k]);
        ck_assert_uint_eq(count_opcode(import->program, ECH_HLO_RESHAPE), k == 0);
        /* 256 rows of 128 elements of which 2 are used, 128 times. */
        EchMemoryAnalysis analysis = ech_program_memory_analysis(import->program);
        ck_assert_msg(k == 0 ? analysis.temp >= 128 * 2 * 128 * 128 * 4 : analysis.temp == 0, "%" G_GUINT64_FORMAT " bytes of temporaries", analysis.temp);
    }
}
END_TEST

/* What a scatter adds to lies as its result does. */
START_TEST(updates_are_made_in_the_layout_of_their_result)
{
    static const char text[] =
        "HloModule m\n\n" REDUCERS "ENTRY %main (i: s32[4096,1], u: f32[4096,4,32], x: f32[4000,4,32]) -> (f32[4000,4,32], f32[4000,4,32]) {\n"
        "  %i = s32[4096,1]{1,0} parameter(0)\n  %u = f32[4096,4,32]{2,1,0} parameter(1)\n  %x = f32[4000,4,32]{2,1,0} parameter(2)\n"
        "  %zero = f32[] constant(0)\n  %z = f32[4000,4,32]{2,1,0} broadcast(%zero), dimensions={}\n"
        "  %s = f32[4000,4,32]{2,1,0} scatter(%z, %i, %u), update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=%add\n  %m = f32[4000,4,32]{2,1,0} maximum(%x, %z)\n"
        "  ROOT %r = (f32[4000,4,32]{2,1,0}, f32[4000,4,32]{2,1,0}) tuple(%s, %m)\n}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    const EchProgram *p = import->program;
    unsigned seen = 0;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        if (i->opcode != ECH_HLO_SCATTER)
            continue;
        const EchLayout *from = ech_program_first_layout(p, ech_program_operand(p, i, 0)), *to = ech_program_first_layout(p, (EchId)k);
        ck_assert_int_eq(memcmp(from->order, to->order, 3), 0);
        seen++;
    }
    ck_assert_uint_ge(seen, 1);
}
END_TEST

/* What reads a product's 16 bits in 32 widens them itself; only what needs them in memory gets them there. */
START_TEST(wider_copies_are_made_where_needed)
{
    static const char text[] =
        "HloModule m\n\n" REDUCERS "ENTRY %main (p: bf16[512,256], q: bf16[256,1024], i: s32[512,1]) -> (f32[512], f32[512], f32[512,1024]) {\n"
        "  %p = bf16[512,256]{1,0} parameter(0)\n  %q = bf16[256,1024]{1,0} parameter(1)\n  %i = s32[512,1]{1,0} parameter(2)\n"
        "  %d = bf16[512,1024]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  %w = f32[512,1024]{1,0} convert(%d)\n  %zero = f32[] constant(0)\n"
        "  %s = f32[512]{0} reduce(%w, %zero), dimensions={1}, to_apply=%add\n"
        "  %g = f32[512]{0} gather(%w, %i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}\n"
        "  %b = f32[512,1024]{1,0} broadcast(%s), dimensions={0}\n  %c = f32[512,1024]{1,0} multiply(%w, %b)\n"
        "  ROOT %r = (f32[512]{0}, f32[512]{0}, f32[512,1024]{1,0}) tuple(%s, %g, %c)\n}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    const EchProgram *p = import->program;
    unsigned wide = 0, narrow = 0;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        for (uint32_t o = 0; i->computation == p->entry && i->opcode != ECH_HLO_TUPLE && i->opcode != ECH_HLO_GET_TUPLE_ELEMENT && o < i->n_operands; o++) {
            const EchShape *read = &p->shapes[p->instructions[ech_program_operand(p, i, o)].shape];
            wide += read->count == 512 * 1024 && read->dense == 512 * 1024 * 4;
            narrow += read->count == 512 * 1024 && read->dense == 512 * 1024 * 2;
        }
    }
    ck_assert_uint_eq(wide, 1);   /* by the gather */
    ck_assert_uint_ge(narrow, 1); /* by the product */
}
END_TEST

/* A table whose columns lie one after the other is turned once, for the rows that are read and for those that are written; the result is turned back. */
START_TEST(tables_are_turned_for_their_rows)
{
    static const char text[] =
        "HloModule m, entry_computation_layout={(f32[1000,64]{0,1:T(8,128)}, s32[256,1]{1,0:T(8,128)})->f32[1000,64]{0,1:T(8,128)}}\n\n"
        "%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n\n"
        "ENTRY %main (t: f32[1000,64], i: s32[256,1]) -> f32[1000,64] {\n"
        "  %t = f32[1000,64]{1,0} parameter(0)\n  %i = s32[256,1]{1,0} parameter(1)\n"
        "  %g = f32[256,64]{1,0} gather(%t, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}\n"
        "  ROOT %r = f32[1000,64]{1,0} scatter(%t, %i, %g), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=%add\n}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    const EchProgram *p = import->program;
    unsigned rows = 0, columns = 0;
    for (size_t k = 0; k < p->n_instructions; k++) {
        if (p->instructions[k].opcode != ECH_HLO_COPY || p->instructions[k].computation != p->entry)
            continue;
        const EchLayout *layout = ech_program_layout(p, p->instructions[k].shape);
        *(layout->order[0] == 1 ? &rows : &columns) += 1;
    }
    ck_assert_uint_eq(rows, 1);
    ck_assert_uint_eq(columns, 1);
}
END_TEST

/* The gradient of such a table is turned before it is taken from it; that of a table of wide rows is not. Where rows are picked from the table too, its copy
 * for that is what the gradient is taken from, and the result is turned back. */
START_TEST(sums_of_rows_are_turned_for_their_table)
{
    static const char form[] =
        "HloModule m, entry_computation_layout={(f32[%s]{%s}, s32[256,1]{1,0:T(8,128)}, f32[256,%s]{1,0:T(8,128)})->f32[%s]{%s}}\n\n%s"
        "ENTRY %%main (t: f32[%s], i: s32[256,1], u: f32[256,%s]) -> f32[%s] {\n"
        "  %%t = f32[%s]{1,0} parameter(0)\n  %%i = s32[256,1]{1,0} parameter(1)\n  %%u = f32[256,%s]{1,0} parameter(2)\n"
        "  %%zero = f32[] constant(0)\n  %%z = f32[%s]{1,0} broadcast(%%zero), dimensions={}\n"
        "  %%s = f32[%s]{1,0} scatter(%%z, %%i, %%u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=%%add\n%s  ROOT %%r = f32[%s]{1,0} subtract(%%t, %%s)\n}\n";
    static const char use[] = "  %g = f32[256,64]{1,0} gather(%t, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                              "slice_sizes={1,64}\n  %c = f32[256,64]{1,0} custom-call(%g), custom_call_target=\"log\", custom_call_has_side_effect=true\n";
    static const struct {
        const char *table, *order, *row, *use;
        uint64_t copies;
        bool turned_back;
    } cases[] = {{"100000,64", "0,1:T(8,128)", "64", "", 1, false},
                 {"100000,128", "1,0:T(8,128)", "128", "", 0, false},
                 {"100000,64", "0,1:T(8,128)", "64", use, 2, true}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        const char *t = cases[k].table, *o = cases[k].order, *r = cases[k].row;
        g_autofree char *text = g_strdup_printf(form, t, o, r, t, o, REDUCERS, t, r, t, t, r, t, t, cases[k].use, t);
        g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
        const EchProgram *p = import->program;
        ck_assert_uint_eq(count_opcode(p, ECH_HLO_COPY), cases[k].copies);
        ck_assert_uint_eq(p->instructions[p->computations[p->entry].root].opcode == ECH_HLO_COPY, cases[k].turned_back);
    }
}
END_TEST

START_TEST(arrays_are_tiled_as_the_entry_layout_says)
{
    static const char text[] = "HloModule m, entry_computation_layout={(bf16[8,2048,64]{1,2,0:T(8,128)(2,1)})->bf16[8,2048,64]{1,2,0:T(8,128)(2,1)}}\n\n"
                               "ENTRY %main (p: bf16[8,2048,64]) -> bf16[8,2048,64] {\n  %p = bf16[8,2048,64]{2,1,0} parameter(0)\n"
                               "  ROOT %r = bf16[8,2048,64]{2,1,0} custom-call(%p), custom_call_target=\"k\"\n}\n";
    g_autoptr(EchImport) import = read_text(text, "tpu-v5e");
    ck_assert_int_eq(import->program->platform, ECH_PLATFORM_TPU);
    EchMemoryAnalysis m = ech_program_memory_analysis(import->program);
    /* With 64 as the minor dimension it would be twice that. */
    ck_assert_uint_eq(m.argument, 8 * 2048 * 64 * 2);
    ck_assert_uint_eq(m.output, 8 * 2048 * 64 * 2);
}
END_TEST

/* Pairs: the module handed to the compiler, and what it made of it */

static EchImport *read_file(const char *path, const char *device)
{
    const EchImportOptions options = {.device = device, .ignore_beside = true};
    EchImport *import = ech_test_import(path, &options);
    ech_test_assign(import);
    return import;
}

/* Temporaries on the device, on chip or not. */
static EchBytes on_device(const EchProgram *p)
{
    EchBytes sum = 0;
    for (size_t h = 0; h < p->assignment->n_heaps; h++) {
        int32_t space = p->assignment->heaps[h].space;
        sum += space == ECH_SPACE_HBM || space == ECH_SPACE_VECTOR || space == ECH_SPACE_COMMON ? p->assignment->heaps[h].peak_live_bytes : 0;
    }
    return sum;
}

/* What the program text settles is exact; how much the temporaries take is a guess within @low to @high of the compiler's. */
static void compare_pair(const char *before, const char *after, const char *device, double low, double high)
{
    g_autoptr(EchImport) ours = read_file(before, device), compiled = read_file(after, device);
    EchMemoryAnalysis a = ech_program_memory_analysis(ours->program), b = ech_program_memory_analysis(compiled->program);
    const struct {
        const char *name;
        EchBytes ours, compiled;
    } exact[] = {{"argument", a.argument, b.argument},
                 {"output", a.output, b.output},
                 {"alias", a.alias, b.alias},
                 {"host argument", a.host_argument, b.host_argument},
                 {"host output", a.host_output, b.host_output},
                 {"host temp", a.host_temp, b.host_temp}};
    for (size_t k = 0; k < G_N_ELEMENTS(exact); k++)
        ck_assert_msg(exact[k].ours == exact[k].compiled, "%s: %s is %" G_GUINT64_FORMAT ", compiled %" G_GUINT64_FORMAT, before, exact[k].name, exact[k].ours,
                      exact[k].compiled);
    Moved x = moved(ours->program, ours->diag), y = moved(compiled->program, compiled->diag);
    ck_assert_msg(x.to_host == y.to_host && x.from_host == y.from_host && x.copies == y.copies,
                  "%s: %u copies, %" G_GUINT64_FORMAT " bytes to the host, %" G_GUINT64_FORMAT " from it; compiled %u, %" G_GUINT64_FORMAT
                  ", %" G_GUINT64_FORMAT,
                  before, x.copies, x.to_host, x.from_host, y.copies, y.to_host, y.from_host);
    double ratio = (double)on_device(ours->program) / (double)MAX(on_device(compiled->program), 1);
    g_print("%-72s temporaries %7.2f MiB, compiled %7.2f MiB: %.2f\n", before + strlen(before) - MIN(strlen(before), 72),
            (double)on_device(ours->program) / (1 << 20), (double)on_device(compiled->program) / (1 << 20), ratio);
    ck_assert_msg(ratio >= low && ratio <= high, "%s: temporaries are %.2f times the compiler's", before, ratio);
}

START_TEST(pairs_of_our_own)
{
    static const struct {
        const char *name, *device;
        double low, high;
    } pairs[] = {{"gpt_offload.v5e", "tpu-v5e", .5, 1.5},
                 {"gpt_everything.v6e", "tpu-v6e", .5, 1.5},
                 {"adam_moments.v5e", "tpu-v5e", .5, 1.5},
                 {"mlp_parameters.v6e", "tpu-v6e", .5, 1.5},
                 /* The compiler keeps the weights on chip as bf16 over both loops. */
                 {"mlp_activations.v5e", "tpu-v5e", .03, 1.5}};
    for (size_t k = 0; k < G_N_ELEMENTS(pairs); k++) {
        g_autofree char *before = g_strdup_printf("%s/traces/%s/program.before.hlo.txt.gz", ECH_SOURCE_DIR, pairs[k].name);
        g_autofree char *after = g_strdup_printf("%s/traces/%s/program.hlo.txt.gz", ECH_SOURCE_DIR, pairs[k].name);
        compare_pair(before, after, pairs[k].device, pairs[k].low, pairs[k].high);
    }
}
END_TEST

START_TEST(captured_pairs)
{
    static const struct {
        const char *name;
        double low, high;
    } pairs[] = {{"adam4_base.a100.on", .4, 1.6},        {"adam4_base.h100.on", .4, 1.6},      {"adam4_offload.a100.off", .4, 1.6},
                 {"adam4_offload.h100.on", .4, 1.6},     {"gpt6_base.h100.on", .7, 1.4},       {"gpt6_offload.h100.on", .7, 1.4},
                 {"gpt6_remat.h100.on", .7, 1.4},        {"gpt6_save.h100.on", .7, 1.4},       {"mlp10_base.h100.on", .4, 1.6},
                 {"mlp10_act.a100.on", .4, 1.6},         {"mlp10_act_param.h100.on", .4, 1.6}, {"mlp10_act_param_devgrad.h100.on", .4, 1.6},
                 {"gpt6_unrolled_save.h100.on", .7, 1.4}};
    g_autofree char *root = g_build_filename(ECH_SHARED, "traces", "gpu_aot", NULL);
    if (ech_test_lacks(root))
        return;
    for (size_t k = 0; k < G_N_ELEMENTS(pairs); k++) {
        g_autofree char *before = g_strdup_printf("%s/%s.before.hlo.txt.gz", root, pairs[k].name);
        g_autofree char *after = g_strdup_printf("%s/%s.hlo.txt.gz", root, pairs[k].name);
        compare_pair(before, after, strstr(pairs[k].name, "a100") ? "a100-80" : "h100-sxm", pairs[k].low, pairs[k].high);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unscheduled");
    TCase *small = tcase_create("small"), *captured = tcase_create("captured");
    tcase_add_test(small, a_stack_on_the_host_goes_through_two_loops);
    tcase_add_test(small, loops_keep_the_layout_that_they_were_given);
    tcase_add_test(small, donors_are_given_to_outputs_of_their_size);
    tcase_add_test(small, without_marks_nothing_moves);
    tcase_add_test(small, parameters_and_results_on_the_host);
    tcase_add_test(small, computing_on_host_memory_is_told);
    tcase_add_test(small, a_result_is_brought_to_where_its_layout_says);
    tcase_add_test(small, host_places_pass_through_what_only_passes_on);
    tcase_add_test(small, host_memory_is_reshaped_where_it_is);
    tcase_add_test(small, branches_hand_out_host_memory);
    tcase_add_test(small, calls_with_several_callers_are_made_anew_for_each);
    tcase_add_test(small, calls_are_inlined_within_bounds);
    tcase_add_test(small, chains_take_no_memory_between_their_ends);
    tcase_add_test(small, what_is_updated_in_place_is_alone_there);
    tcase_add_test(small, products_are_laid_out_without_much_padding);
    tcase_add_test(small, gathers_are_kernels_on_tpus);
    tcase_add_test(small, products_with_vectors_are_sums);
    tcase_add_test(small, ragged_products_are_masked_on_gpus);
    tcase_add_test(small, running_sums_are_windows_of_16_on_gpus);
    tcase_add_test(small, running_sums_read_as_protobuf);
    tcase_add_test(small, convolutions_read_padded_copies_on_gpus);
    tcase_add_test(small, kernels_on_gpus);
    tcase_add_test(small, reshapes_are_turned_for_their_lanes);
    tcase_add_test(small, images_lie_as_convolutions_have_them);
    tcase_add_test(small, spaced_elements_are_taken_apart);
    tcase_add_test(small, products_are_as_wide_as_they_are_read);
    tcase_add_test(small, scatters_add_to_arrays_as_large_as_their_result);
    tcase_add_test(small, caches_lie_as_what_is_written);
    tcase_add_test(small, many_products_of_vectors_are_sums);
    tcase_add_test(small, group_norms_are_computed_in_the_shape_of_their_images);
    tcase_add_test(small, variances_of_split_channels_are_summed_first);
    tcase_add_test(small, transforms_over_two_dimensions_are_products);
    tcase_add_test(small, products_of_8_bits_are_scaled_inside);
    tcase_add_test(small, products_make_little_of_what_they_read);
    tcase_add_test(small, sums_over_dimensions_apart);
    tcase_add_test(small, pairs_are_not_kept);
    tcase_add_test(small, siblings_are_one_kernel);
    tcase_add_test(small, marks_of_sharding_are_nothing);
    tcase_add_test(small, equal_instructions_are_one);
    tcase_add_test(small, sums_of_rows_are_turned_for_their_table);
    tcase_add_test(small, updates_of_a_row_are_masks_on_tpus);
    tcase_add_test(small, constants_are_made_inside_loops);
    tcase_add_test(small, a_softmax_is_one_kernel);
    tcase_add_test(small, narrow_copies_are_made_again);
    tcase_add_test(small, loops_have_tiles_of_their_own);
    tcase_add_test(small, what_a_loop_reads_keeps_its_place);
    tcase_add_test(small, rows_of_another_length_are_moved);
    tcase_add_test(small, updates_are_made_in_the_layout_of_their_result);
    tcase_add_test(small, wider_copies_are_made_where_needed);
    tcase_add_test(small, tables_are_turned_for_their_rows);
    tcase_add_test(small, arrays_are_tiled_as_the_entry_layout_says);
    tcase_add_test(small, literals_stay);
    tcase_add_test(small, what_loops_fill_begins_unset);
    tcase_add_test(small, loops_carry_what_products_read);
    tcase_add_test(small, transposed_arrays_are_not_padding);
    tcase_add_test(small, transposed_tables_are_turned);
    tcase_add_test(small, stacks_keep_their_tiles);
    tcase_add_test(small, slices_of_stacks_are_read_by_each);
    tcase_add_test(small, parts_of_caches_are_turned_for_products_of_heads);
    tcase_add_test(small, caches_of_scattered_rows_lie_by_rows);
    tcase_add_test(small, queries_of_one_are_sums);
    tcase_add_test(small, random_numbers_are_made_again);
    tcase_add_test(small, products_make_what_they_read);
    tcase_add_test(small, factors_of_products_are_narrow);
    tcase_add_test(small, groups_of_one_lie_outside);
    tcase_add_test(small, groups_of_one_are_turned);
    tcase_add_test(small, largest_are_sorted_where_many_are_wanted);
    tcase_add_test(small, scatters_make_narrow_rows);
    tcase_add_test(small, stable_sorts_have_positions);
    tcase_add_test(captured, pairs_of_our_own);
    tcase_add_test(captured, captured_pairs);
    suite_add_tcase(suite, small);
    suite_add_tcase(suite, captured);
    return ech_test_main(suite);
}
