/* Where arrays and kernels come from in the program's source: XLA's tables of frames as text and as protobuf, and what a loop's stack, a prefetch or a transfer
 * holds. */
#include "sim/import/import.h"
#include "sim/report/report.h"
#include "sim/report/wire_out.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

static EchImport *read_bytes(const void *data, size_t n, const char *format)
{
    g_autoptr(EchSource) source = ech_source_new_memory(data, n, "module");
    GError *error = NULL;
    EchImportOptions options = {.device = "tpu-v5e", .ignore_beside = true};
    EchImport *import = ech_import_source(source, format, &options, &error);
    ck_assert_ok(import != NULL, error);
    return import;
}

static const EchInstruction *named(const EchProgram *p, const char *name)
{
    return &p->instructions[ech_test_instruction(p, name)];
}

#define TABLES(PARENT_OF_1, PARENT_OF_2, PARENT_OF_3, PARENT_OF_4)                                                                                             \
    "FileNames\n1 \"site-packages/flax/linen/linear.py\"\n2 \"dir/model.py\"\n\n"                                                                              \
    "FunctionNames\n1 \"Dense.__call__\"\n2 \"main\"\n3 \"layer\"\n\n"                                                                                         \
    "FileLocations\n1 {file_name_id=2 function_name_id=2 line=90 end_line=90 column=1 end_column=2}\n"                                                         \
    "2 {file_name_id=2 function_name_id=3 line=17 end_line=18 column=1 end_column=2}\n"                                                                        \
    "3 {file_name_id=1 function_name_id=1 line=251 end_line=251 column=1 end_column=2}\n\n"                                                                    \
    "StackFrames\n1 {file_location_id=1 parent_frame_id=" PARENT_OF_1 "}\n2 {file_location_id=2 parent_frame_id=" PARENT_OF_2 "}\n"                            \
    "3 {file_location_id=3 parent_frame_id=" PARENT_OF_3 "}\n4 {file_location_id=1 parent_frame_id=" PARENT_OF_4 "}\n\n"

/* Frame 4 is main again inside layer: differentiation runs lines inside themselves. */
#define MODULE(TABLES_OR_NOT, METADATA)                                                                                                                        \
    "HloModule f, is_scheduled=true\n\n" TABLES_OR_NOT "\nENTRY %main (x: f32[8,128]) -> f32[8,128] {\n  %x = f32[8,128]{1,0} parameter(0)\n"                  \
    "  ROOT %exp = f32[8,128]{1,0} exponential(%x), metadata={op_name=\"jit(f)/exp stack_frame_id=1\" " METADATA "}\n}\n"

START_TEST(frames_of_text)
{
    static const struct {
        const char *text, *source, *line;
    } cases[] = {
        /* Parents counted from one more, as XLA's text has them: the first frame names itself. */
        {MODULE(TABLES("1", "2", "3", "3"), "stack_frame_id=3"),
         "site-packages/flax/linen/linear.py:251:Dense.__call__\ndir/model.py:17:layer\ndir/model.py:90:main", "model.py:17"},
        {MODULE(TABLES("0", "1", "2", "2"), "stack_frame_id=3"),
         "site-packages/flax/linen/linear.py:251:Dense.__call__\ndir/model.py:17:layer\ndir/model.py:90:main", "model.py:17"},
        {MODULE(TABLES("1", "2", "3", "3"), "stack_frame_id=4"), "dir/model.py:90:main\ndir/model.py:17:layer", "model.py:90"},
        {MODULE(TABLES("1", "2", "3", "3"), "stack_frame_id=9"), NULL, NULL},
        {MODULE(TABLES("4", "1", "2", "2"), "stack_frame_id=1"), "dir/model.py:90:main\ndir/model.py:17:layer", "model.py:90"}, /* A cycle ends. */
        {MODULE("", "source_file=\"/home/me/net.py\" source_line=7"), "/home/me/net.py:7:", "net.py:7"},
        {MODULE("", "source_file=\"/opt/lib/python3.11/site-packages/tensorflow/python/framework/ops.py\" source_line=12"), NULL, NULL}, /* of any operator */
        {MODULE("", "stack_frame_id=3"), NULL, NULL},
        {MODULE("", "op_type=\"a \\\" source_line=9 stack_frame_id=1 }\" source_file=\"net.py\" source_line=7 source_end_line=8"), "net.py:7:", "net.py:7"},
    };
    g_autoptr(EchImport) import = read_bytes(cases[_i].text, strlen(cases[_i].text), "hlo");
    const EchInstruction *exp = named(import->program, "exp");
    ck_assert_str_eq(exp->op_name, "jit(f)/exp stack_frame_id=1");
    ck_assert_msg(g_strcmp0(exp->source, cases[_i].source) == 0, "%s", exp->source);
    g_autofree char *stack = g_strconcat(exp->op_name, exp->source ? "\n" : "", exp->source ? exp->source : "", NULL), *line = ech_report_source_line(stack);
    ck_assert_msg(g_strcmp0(line, cases[_i].line) == 0, "%s", line);
}
END_TEST

#define PACKAGES "\n/opt/venv/lib/python3.11/site-packages/"
#define TORCH PACKAGES "torch/nn/functional.py:2400:silu"
#define CALL PACKAGES "torch/nn/modules/module.py:1885:_call_impl"
#define LIBRARY PACKAGES "transformers/models/llama/modeling_llama.py:123:forward"
#define TRAINER PACKAGES "transformers/trainer.py:2674:train"
#define OWN "\n/home/me/train.py:27:<module>"

/* A program's own line; else a library's; neither ranges nor code that was written while it ran. Of PyTorch's, that of the innermost module: its own one only
 * calls the trainer, or a model of a library, in all of them. */
START_TEST(lines_of_stacks)
{
    static const struct {
        const char *stack, *line;
    } cases[] = {
        {"aten::mm\n/opt/venv/lib/python3.11/site-packages/transformers/llama.py:70:forward\n/home/me/train.py:3:step", "train.py:3"},
        {"aten::mm\n<eval_with_key>.5:29:forward\n/opt/venv/lib/python3.11/site-packages/transformers/llama.py:70:forward", "llama.py:70"},
        {"aten::silu" TORCH CALL LIBRARY CALL TRAINER OWN, "modeling_llama.py:123"},
        {"aten::mm" CALL LIBRARY CALL OWN, "modeling_llama.py:123"}, /* a training loop around a library's model */
        {"aten::mm" TORCH CALL "\n/home/me/model.py:9:forward" CALL OWN, "model.py:9"},
        {"aten::permute" PACKAGES "einops/einops.py:487:rearrange"
         "\n/home/me/model.py:9:forward" CALL TRAINER OWN,
         "model.py:9"},
        {"aten::silu" TORCH LIBRARY CALL "\n/home/me/reward.py:5:forward" CALL OWN, "modeling_llama.py:123"},
        {"aten::log_softmax" TORCH PACKAGES "trl/trainer/utils.py:70:selective_log_softmax" TRAINER OWN, "utils.py:70"},
        {"aten::cross_entropy_loss" TORCH OWN TRAINER, "train.py:27"},
        {"/home/me/model.py:9:forward" CALL "\n/home/me/model.py:20:forward" CALL OWN, "model.py:9"}, /* an array's */
        /* With stacks of C++ and of the interpreter (_record_memory_history(stacks="all")). */
        {"CUDACachingAllocator.cpp:0:malloc\n??:0:at::_ops::mm::call(at::Tensor)\n/usr/src/python-3.11/Objects/descrobject.c:344:method_vectorcall\n"
         "/home/me/model.py:9:forward\n/usr/src/python-3.11/Python/ceval.c:5381:_PyEval_EvalFrameDefault" OWN,
         "model.py:9"},
        {"CUDACachingAllocator.cpp:0:malloc\n??:0:clone\nthread48.o:0:execute_native_thread_routine", NULL},
        {"CUDACachingAllocator.cpp:0:malloc\n/home/me/net.cpp:12:forward()", "net.cpp:12"},
        {"aten::mm\nnn.Module: layers.3 (Block)\nnn.Module: GPT", NULL},
        {"MulBackward0\nautograd::engine::evaluate_function: MulBackward0\n", NULL},
        {"aten::mm", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *line = ech_report_source_line(cases[i].stack);
        ck_assert_pstr_eq(line, cases[i].line);
    }
}
END_TEST

static void add_row(GByteArray *out, uint32_t field, uint64_t a, uint64_t b, uint64_t c)
{
    g_autoptr(GByteArray) row = g_byte_array_new();
    ech_wire_u64(row, 1, a);
    ech_wire_u64(row, 2, b);
    if (c > 0)
        ech_wire_u64(row, 3, c);
    ech_wire_message(out, field, row);
}

START_TEST(frames_of_proto)
{
    g_autoptr(GByteArray) module = g_byte_array_new(), computation = g_byte_array_new(), instruction = g_byte_array_new(), shape = g_byte_array_new();
    g_autoptr(GByteArray) metadata = g_byte_array_new(), index = g_byte_array_new(), layout = g_byte_array_new(), donors = g_byte_array_new();
    ech_wire_u64(shape, 2, 11); /* f32 */
    ech_wire_u64(shape, 3, 128);
    ech_wire_u64(layout, 1, 0);
    ech_wire_message(shape, 5, layout);
    ech_wire_text(metadata, 2, "jit(f)/iota");
    ech_wire_u64(metadata, 15, 2);
    ech_wire_text(instruction, 1, "iota");
    ech_wire_text(instruction, 2, "iota");
    ech_wire_message(instruction, 3, shape);
    ech_wire_message(instruction, 7, metadata);
    ech_wire_u64(instruction, 35, 1);
    ech_wire_text(computation, 1, "main");
    ech_wire_message(computation, 2, instruction);
    ech_wire_u64(computation, 5, 1);
    ech_wire_u64(computation, 6, 1);
    ech_wire_text(index, 1, "a/b.py");
    ech_wire_text(index, 2, "outer");
    ech_wire_text(index, 2, "inner");
    add_row(index, 3, 1, 1, 40);
    add_row(index, 3, 1, 2, 12);
    add_row(index, 4, 1, 0, 0);
    add_row(index, 4, 2, 1, 0);
    ech_wire_text(module, 1, "f");
    ech_wire_text(module, 2, "main");
    ech_wire_message(module, 3, computation);
    ech_wire_u64(module, 5, 1);
    ech_wire_u64(module, 6, 1);
    ech_wire_message(module, 17, index); /* Behind the computations, as written. */
    add_row(donors, 1, 0, 0, 0);
    ech_wire_message(module, 18, donors);
    g_autoptr(EchImport) import = read_bytes(module->data, module->len, "hlo_proto");
    ck_assert_str_eq(named(import->program, "iota")->source, "a/b.py:12:inner\na/b.py:40:outer");
    ck_assert_str_eq(named(import->program, "iota")->op_name, "jit(f)/iota");
}
END_TEST

/* XLA can put backend configurations into a list of the module's, which instructions name by number (HloProtoOptions.deduplicate_backend_config): field 99 of
 * an instruction holds a Payload {1 value, 2 id}, field 22 of the module the list. A number beyond it names none. */
START_TEST(shared_configurations_of_proto)
{
    static const char *const configs[] = {"{\"first\":\"1\"}", "{\"second\":\"2\"}", "{\"own\":\"3\"}"};
    g_autoptr(GByteArray) module = g_byte_array_new(), computation = g_byte_array_new(), shape = g_byte_array_new();
    ech_wire_u64(shape, 2, 11); /* f32 */
    ech_wire_text(computation, 1, "main");
    for (uint64_t k = 0; k < 4; k++) {
        g_autoptr(GByteArray) instruction = g_byte_array_new(), payload = g_byte_array_new();
        g_autofree char *name = g_strdup_printf("i%u", (unsigned)k);
        ech_wire_text(instruction, 1, name);
        ech_wire_text(instruction, 2, "parameter");
        ech_wire_message(instruction, 3, shape);
        ech_wire_u64(instruction, 9, k);
        ech_wire_u64(instruction, 35, k + 1);
        if (k == 2)
            ech_wire_text(payload, 1, configs[2]);
        else
            ech_wire_u64(payload, 2, k);
        ech_wire_message(instruction, 99, payload);
        ech_wire_message(computation, 2, instruction);
    }
    ech_wire_u64(computation, 5, 1);
    ech_wire_u64(computation, 6, 1);
    ech_wire_text(module, 1, "f");
    ech_wire_text(module, 2, "main");
    ech_wire_message(module, 3, computation);
    ech_wire_u64(module, 6, 1);
    ech_wire_text(module, 22, configs[0]); /* Behind the computations, as written. */
    ech_wire_text(module, 22, configs[1]);
    g_autoptr(EchImport) import = read_bytes(module->data, module->len, "hlo_proto");
    static const char *const keys[] = {"first", "second", "own"};
    for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
        g_autofree char *name = g_strdup_printf("i%zu", k);
        uint64_t value = 0;
        ck_assert(ech_program_config_u64(named(import->program, name), keys[k], &value));
        ck_assert_uint_eq(value, k + 1);
    }
    size_t n;
    ck_assert_ptr_null(ech_program_attribute(named(import->program, "i3"), "backend_config", &n));
}
END_TEST

/* A loop that stacks what `tanh` makes, five times, through a fusion; a prefetch without a name; a buffer born empty. */
static const char stacking[] =
    "HloModule f, is_scheduled=true\n\n"
    "%put (p0: f32[5,8,128], p1: f32[8,128], p2: s32[]) -> f32[5,8,128] {\n"
    "  %p0 = f32[5,8,128]{2,1,0:T(8,128)} parameter(0)\n  %p1 = f32[8,128]{1,0:T(8,128)} parameter(1)\n"
    "  %b = f32[1,8,128]{2,1,0:T(8,128)} bitcast(%p1)\n  %p2 = s32[]{:T(128)} parameter(2)\n  %zero = s32[]{:T(128)} constant(0)\n"
    "  ROOT %put.dus = f32[5,8,128]{2,1,0:T(8,128)} dynamic-update-slice(%p0, %b, %p2, %zero, %zero), metadata={op_name=\"scan/dus\"}\n}\n\n"
    "%below (s: (s32[], f32[8,128], f32[5,8,128])) -> pred[] {\n"
    "  %s = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}, f32[5,8,128]{2,1,0:T(8,128)}) parameter(0)\n"
    "  %i = s32[]{:T(128)} get-tuple-element(%s), index=0\n  %five = s32[]{:T(128)} constant(5)\n"
    "  ROOT %lt = pred[]{:T(512)} compare(%i, %five), direction=LT\n}\n\n"
    "%body (t: (s32[], f32[8,128], f32[5,8,128])) -> (s32[], f32[8,128], f32[5,8,128]) {\n"
    "  %t = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}, f32[5,8,128]{2,1,0:T(8,128)}) parameter(0)\n"
    "  %j = s32[]{:T(128)} get-tuple-element(%t), index=0\n  %x = f32[8,128]{1,0:T(8,128)} get-tuple-element(%t), index=1\n"
    "  %stack = f32[5,8,128]{2,1,0:T(8,128)} get-tuple-element(%t), index=2\n  %one = s32[]{:T(128)} constant(1)\n"
    "  %tanh = f32[8,128]{1,0:T(8,128)} tanh(%x), metadata={op_name=\"layer/tanh\" source_file=\"model.py\" source_line=3}\n"
    "  %fused = f32[5,8,128]{2,1,0:T(8,128)} fusion(%stack, %tanh, %j), kind=kLoop, calls=%put, metadata={op_name=\"scan/dus\"}\n"
    "  %next = s32[]{:T(128)} add(%j, %one)\n"
    "  ROOT %r = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}, f32[5,8,128]{2,1,0:T(8,128)}) tuple(%next, %tanh, %fused)\n}\n\n"
    "ENTRY %main (w: f32[8,128]) -> (f32[5,8,128], f32[8,128]) {\n"
    "  %w = f32[8,128]{1,0:T(8,128)} parameter(0), metadata={op_name=\"w['up']\"}\n"
    "  %empty = f32[5,8,128]{2,1,0:T(8,128)} custom-call(), custom_call_target=\"AllocateBuffer\"\n  %zero.1 = s32[]{:T(128)} constant(0)\n"
    "  %start = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%w)\n"
    "  %done = f32[8,128]{1,0:T(8,128)S(1)} copy-done(%start)\n"
    "  %begin = f32[8,128]{1,0:T(8,128)} negate(%done), metadata={op_name=\"start/neg\"}\n"
    "  %init = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}, f32[5,8,128]{2,1,0:T(8,128)}) tuple(%zero.1, %begin, %empty)\n"
    "  %loop = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}, f32[5,8,128]{2,1,0:T(8,128)}) while(%init), condition=%below, body=%body\n"
    "  %kept = f32[5,8,128]{2,1,0:T(8,128)} get-tuple-element(%loop), index=2\n"
    "  %last = f32[8,128]{1,0:T(8,128)} get-tuple-element(%loop), index=1\n"
    "  ROOT %out = (f32[5,8,128]{2,1,0:T(8,128)}, f32[8,128]{1,0:T(8,128)}) tuple(%kept, %last)\n}\n";

START_TEST(origin_of_arrays)
{
    g_autoptr(EchImport) import = read_bytes(stacking, strlen(stacking), "hlo");
    const EchProgram *p = import->program;
    static const struct {
        const char *name;
        uint32_t position;
        const char *origin;
    } cases[] = {
        {"fused", 0, "tanh"}, {"kept", 0, "tanh"}, {"stack", 0, "tanh"},  {"out", 1, "tanh"}, {"done", 0, "w"},
        {"start", 1, "w"},    {"x", 0, "tanh"},    {"begin", 0, "begin"}, {"empty", 0, NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchId origin = ech_program_origin(p, (EchId)(named(p, cases[i].name) - p->instructions), cases[i].position);
        ck_assert_msg(g_strcmp0(origin == ECH_NONE ? NULL : p->instructions[origin].name, cases[i].origin) == 0, "%s: %s", cases[i].name,
                      origin == ECH_NONE ? "none" : p->instructions[origin].name);
    }
}
END_TEST

/* Kernels that add and squash what a product makes, TPUs' and GPUs'. */
static const char multiplying[] =
    "HloModule f, is_scheduled=true\n\n"
    "%both (p0: f32[8,128], p1: f32[128,128], p2: f32[8,128]) -> (f32[8,128], f32[8,128], f32[8]) {\n"
    "  %p0 = f32[8,128]{1,0:T(8,128)} parameter(0)\n  %p1 = f32[128,128]{1,0:T(8,128)} parameter(1)\n  %p2 = f32[8,128]{1,0:T(8,128)} parameter(2)\n"
    "  %conv = f32[8,128]{1,0:T(8,128)} convolution(%p0, %p1), dim_labels=bf_io->bf, metadata={op_name=\"jit(f)/jvp()/dot_general\"}\n"
    "  %sum = f32[8,128]{1,0:T(8,128)} add(%conv, %p2), metadata={op_name=\"jit(f)/jvp()/add\"}\n"
    "  %squashed = f32[8,128]{1,0:T(8,128)} tanh(%sum), metadata={op_name=\"jit(f)/jvp()/tanh\"}\n  %zero = f32[]{:T(128)} constant(0)\n"
    "  %rows = f32[8]{0:T(128)} reduce(%conv, %zero), dimensions={1}, to_apply=%add\n"
    "  ROOT %t = (f32[8,128]{1,0:T(8,128)}, f32[8,128]{1,0:T(8,128)}, f32[8]{0:T(128)}) tuple(%squashed, %sum, %rows)\n}\n\n"
    "%add (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[]{:T(128)} parameter(0)\n  %y = f32[]{:T(128)} parameter(1)\n"
    "  ROOT %s = f32[]{:T(128)} add(%x, %y)\n}\n\n"
    "%inner (q0: f32[8,128], q1: f32[128,128]) -> f32[8,128] {\n"
    "  %q0 = f32[8,128]{1,0:T(8,128)} parameter(0)\n  %q1 = f32[128,128]{1,0:T(8,128)} parameter(1)\n"
    "  ROOT %dot = f32[8,128]{1,0:T(8,128)} dot(%q0, %q1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n\n"
    "%outer (r0: f32[8,128], r1: f32[128,128]) -> f32[8,128] {\n"
    "  %r0 = f32[8,128]{1,0:T(8,128)} parameter(0)\n  %r1 = f32[128,128]{1,0:T(8,128)} parameter(1)\n"
    "  %nested = f32[8,128]{1,0:T(8,128)} fusion(%r0, %r1), kind=kOutput, calls=%inner\n"
    "  ROOT %half = f32[8,128]{1,0:T(8,128)} negate(%nested), metadata={op_name=\"jit(f)/jvp()/neg\"}\n}\n\n"
    "%of_batches (u0: f32[4,8,128], u1: f32[4,128,8]) -> f32[4,8,8] {\n"
    "  %u0 = f32[4,8,128]{2,1,0:T(8,128)} parameter(0)\n  %u1 = f32[4,128,8]{2,1,0:T(8,128)} parameter(1)\n"
    "  ROOT %dilated = f32[4,8,8]{2,1,0:T(8,128)} convolution(%u0, %u1), window={size=4 stride=3 lhs_dilate=4}, dim_labels=0bf_0io->0bf, "
    "metadata={op_name=\"jit(f)/jvp()/dot_general\"}\n}\n\n"
    "%of_image (v0: f32[4,8,128], v1: f32[4,128,8]) -> f32[4,8,8] {\n"
    "  %v0 = f32[4,8,128]{2,1,0:T(8,128)} parameter(0)\n  %v1 = f32[4,128,8]{2,1,0:T(8,128)} parameter(1)\n"
    "  ROOT %image = f32[4,8,8]{2,1,0:T(8,128)} convolution(%v0, %v1), window={size=4 stride=3 lhs_dilate=4}, dim_labels=0bf_0io->0bf, "
    "metadata={op_name=\"jit(f)/jvp()/conv_general_dilated\"}\n}\n\n"
    "ENTRY %main (a: f32[8,128], w: f32[128,128], c: f32[4,8,128], d: f32[4,128,8]) -> f32[8,128] {\n"
    "  %a = f32[8,128]{1,0:T(8,128)} parameter(0)\n  %w = f32[128,128]{1,0:T(8,128)} parameter(1)\n"
    "  %c = f32[4,8,128]{2,1,0:T(8,128)} parameter(2)\n  %d = f32[4,128,8]{2,1,0:T(8,128)} parameter(3)\n"
    "  %fused = (f32[8,128]{1,0:T(8,128)}, f32[8,128]{1,0:T(8,128)}, f32[8]{0:T(128)}) fusion(%a, %w, %a), kind=kOutput, calls=%both\n"
    "  %first = f32[8,128]{1,0:T(8,128)} get-tuple-element(%fused), index=0\n  %second = f32[8,128]{1,0:T(8,128)} get-tuple-element(%fused), index=1\n"
    "  %twice = f32[8,128]{1,0:T(8,128)} fusion(%second, %w), kind=kOutput, calls=%outer\n"
    "  %plain = f32[8,128]{1,0:T(8,128)} exponential(%twice)\n"
    "  %batches = f32[4,8,8]{2,1,0:T(8,128)} fusion(%c, %d), kind=kOutput, calls=%of_batches\n"
    "  %convolved = f32[4,8,8]{2,1,0:T(8,128)} fusion(%c, %d), kind=kOutput, calls=%of_image\n"
    "  %gemm = (f32[8,128]{1,0}, s8[1024]{0}) custom-call(%a, %w), custom_call_target=\"__cublas$gemm\", "
    "backend_config={\"gemm_backend_config\":{\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],\"lhs_batch_dimensions\":[]}}}\n"
    "  %gemms = (f32[4,8,8]{2,1,0}, s8[1024]{0}) custom-call(%c, %d), custom_call_target=\"__cublas$gemm\", "
    "backend_config={\"gemm_backend_config\":{\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"2\"],\"lhs_batch_dimensions\":[\"0\"]}}}\n"
    "  ROOT %last = f32[8,128]{1,0:T(8,128)} add(%plain, %first)\n}\n";

START_TEST(products)
{
    g_autoptr(EchImport) import = read_bytes(multiplying, strlen(multiplying), "hlo");
    const EchProgram *p = import->program;
    static const struct {
        const char *name;
        uint32_t position;
        EchProduct product;
    } cases[] = {
        {"fused", 1, ECH_PRODUCT_BESIDE},  {"fused", 2, ECH_PRODUCT_RESULT},     {"fused", 3, ECH_PRODUCT_BESIDE}, {"second", 0, ECH_PRODUCT_RESULT},
        {"first", 0, ECH_PRODUCT_BESIDE},  {"twice", 0, ECH_PRODUCT_RESULT},     {"plain", 0, ECH_PRODUCT_NONE},   {"a", 0, ECH_PRODUCT_NONE},
        {"batches", 0, ECH_PRODUCT_BATCH}, {"convolved", 0, ECH_PRODUCT_RESULT}, {"gemm", 1, ECH_PRODUCT_RESULT},  {"gemm", 2, ECH_PRODUCT_NONE},
        {"gemms", 1, ECH_PRODUCT_BATCH},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchDtype own;
        ck_assert_msg(ech_program_product(p, (EchId)(named(p, cases[i].name) - p->instructions), cases[i].position, &own) == cases[i].product, "%s, %u",
                      cases[i].name, cases[i].position);
    }
}
END_TEST

/* What the trace says of them, and how often a kernel of the loop runs although most iterations are skipped. */
START_TEST(stacks_and_counts)
{
    g_autofree char *many = NULL;
    {
        g_auto(GStrv) parts = g_strsplit(stacking, "constant(5)", -1);
        many = g_strjoinv("constant(1000)", parts);
    }
    g_autoptr(EchImport) import = read_bytes(many, strlen(many), "hlo");
    GError *error = NULL;
    EchProgramAssignment *made = ech_program_assign(import->program, 0, import->diag, &error);
    ck_assert_ok(made != NULL, error);
    ech_program_set_assignment(import->program, made, "made by echelon");
    g_autoptr(EchDevice) device = ech_test_device("tpu-v5e", NULL);
    EchLowerOptions options = {.loop_trips = 1};
    g_autoptr(EchTrace) trace = ech_program_lower(import->program, device, &options, import->diag, &error);
    ck_assert_ok(trace != NULL, error);
    bool stack = false;
    for (EchId b = 0; b < ech_trace_n_buffers(trace); b++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[b];
        if (g_str_has_prefix(ech_trace_string(trace, buffer->shape), "f32[5,8,128]")) {
            ck_assert_str_eq(ech_trace_string(trace, buffer->stack), "layer/tanh\nmodel.py:3:");
            stack = true;
        }
    }
    ck_assert(stack);
    EchReplayOptions replay = {0};
    ech_params_defaults(ech_replay_params, &replay);
    EchRun *run = ech_replay_run(trace, device, NULL, &replay, &error);
    ck_assert_ok(run != NULL, error);
    ck_assert_uint_gt(run->n_skips, 0);
    const EchReport report = {.title = "t", .trace = trace, .program = import->program, .device = device, .run = run};
    size_t n;
    g_autofree EchNameTime *times = ech_report_longest(&report, 16, &n);
    unsigned seen = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t expected = strcmp(times[i].name, "begin") == 0 || times[i].kind == ECH_OP_COPY ? 1 : 1000;
        ck_assert_msg(times[i].count == expected, "%s %u", times[i].name, (unsigned)times[i].count);
        seen += strcmp(times[i].name, "fused") == 0 || strcmp(times[i].name, "tanh") == 0;
    }
    ck_assert_uint_eq(seen, 2);
    /* Kernels fill the run but for what the core waits for: their sum is the time. */
    EchTime sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += times[i].kind == ECH_OP_KERNEL ? times[i].time : 0;
    ck_assert_int_le(sum, run->makespan);
    ck_assert_int_ge(sum, run->makespan / 10 * 9);
    ech_params_clear(ech_replay_params, &replay);
    ech_run_free(run);
}
END_TEST

#define DONATED(HEAD, BODY)                                                                                                                                    \
    "HloModule f, is_scheduled=true" HEAD "\n\nENTRY %main (w: f32[1024,1024], g: f32[1024,1024]) -> f32[1024,1024] {\n"                                       \
    "  %w = f32[1024,1024]{1,0:T(8,128)} parameter(0), metadata={op_name=\"state['w']\"}\n  %g = f32[1024,1024]{1,0:T(8,128)} parameter(1)\n" BODY "}\n"
#define SUM "  %sum = f32[1024,1024]{1,0:T(8,128)} add(%w, %g)\n"

/* Donations that save nothing are said; those that work, small ones and those of programs not compiled yet are not. */
START_TEST(donations)
{
    static const char unused[] = "1 donated argument (4 MiB) saved nothing", copied[] = "state['w'], 4 MiB) is not updated in place";
    static const struct {
        const char *text;
        bool unused, copied;
    } cases[] = {
        {DONATED("", SUM "  ROOT %out = f32[1024,1024]{1,0:T(8,128)} copy(%sum)\n"), false, false},
        {DONATED(", input_output_alias={ {}: (0, {}, may-alias) }", SUM "  ROOT %out = f32[1024,1024]{1,0:T(8,128)} negate(%sum)\n"), false, false},
        {DONATED(", input_output_alias={ {}: (0, {}, may-alias) }", SUM "  ROOT %out = f32[1024,1024]{1,0:T(8,128)} copy(%sum)\n"), false, true},
        {DONATED(", input_output_alias={ {0}: (0, {}, may-alias) }",
                 SUM "  %out = f32[1024,1024]{1,0:T(8,128)} copy(%sum)\n  ROOT %t = (f32[1024,1024]{1,0:T(8,128)}) tuple(%out)\n"),
         false, true},
        {DONATED(", input_output_alias={ {}: (0, {}, may-alias) }",
                 "  %chip = f32[1024,1024]{1,0:T(8,128)S(1)} add(%w, %g)\n  ROOT %out = f32[1024,1024]{1,0:T(8,128)} copy(%chip)\n"),
         false, false},
        {DONATED(", input_output_alias={ {}: (0, {}, may-alias) }",
                 "  %sum = f32[1024,1024]{0,1:T(8,128)} add(%w, %g)\n  ROOT %out = f32[1024,1024]{1,0:T(8,128)} copy(%sum)\n"),
         false, true},
        {DONATED(", buffer_donor={ (0, {}) }", SUM "  ROOT %out = bf16[1024,1024]{1,0:T(8,128)(2,1)} convert(%sum)\n"), true, false},
        {DONATED(", buffer_donor={ (7, {}), (0, {3}), (x }", SUM "  ROOT %out = f32[1024,1024]{1,0:T(8,128)} copy(%sum)\n"), false, false},
    };
    g_autoptr(EchImport) import = read_bytes(cases[_i].text, strlen(cases[_i].text), "hlo");
    ck_assert_int_eq(ech_test_says(import->diag, unused), cases[_i].unused);
    ck_assert_int_eq(ech_test_says(import->diag, copied), cases[_i].copied);
}
END_TEST

#define PALLAS(CONFIG)                                                                                                                                         \
    "HloModule f, is_scheduled=true\n\nENTRY %main (x: f32[1024,1024], y: f32[1024,1024]) -> f32[1024,1024] {\n"                                               \
    "  %x = f32[1024,1024]{1,0:T(8,128)} parameter(0)\n  %y = f32[1024,1024]{1,0:T(8,128)} parameter(1)\n"                                                     \
    "  ROOT %k = f32[1024,1024]{1,0:T(8,128)} custom-call(%x, %y), custom_call_target=\"tpu_custom_call\", backend_config={\"custom_call_config\":{" CONFIG    \
    "}}\n}\n"

/* A Pallas kernel moves and does what its author's estimate says; without one it is said that nobody knows. */
START_TEST(kernels_of_the_programs_own)
{
    static const struct {
        const char *text;
        EchBytes read, written;
        uint64_t matrix, transcendental;
        bool unknown;
    } cases[] = {
        {PALLAS("\"body\":\"\""), 8 << 20, 4 << 20, 0, 0, true},
        {PALLAS("\"cost_estimate\":{\"bytes_accessed\":\"29360128\",\"flops\":\"1000\",\"transcendentals\":\"7\"}"), 24 << 20, 4 << 20, 1000, 7, false},
        {PALLAS("\"cost_estimate\":{\"bytes_accessed\":\"3145728\",\"flops\":\"0\",\"transcendentals\":\"0\"}"), 2 << 20, 1 << 20, 0, 0, false},
    };
    g_autoptr(EchImport) import = read_bytes(cases[_i].text, strlen(cases[_i].text), "hlo");
    GError *error = NULL;
    EchProgramAssignment *made = ech_program_assign(import->program, 0, import->diag, &error);
    ck_assert_ok(made != NULL, error);
    ech_program_set_assignment(import->program, made, "made by echelon");
    EchLowerOptions options = {.loop_trips = 1};
    g_autoptr(EchTrace) trace = ech_program_lower(import->program, NULL, &options, import->diag, &error);
    ck_assert_ok(trace != NULL, error);
    EchBytes moved[2] = {0, 0};
    uint64_t work[ECH_N_WORK_UNITS] = {0};
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        for (uint32_t u = op->first_use; op->kind == ECH_OP_KERNEL && u < op->first_use + op->n_uses; u++)
            moved[ech_trace_uses(trace)[u].access == ECH_WRITE] += ech_trace_uses(trace)[u].bytes;
        for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++)
            work[ech_trace_work(trace)[w].unit] += ech_trace_work(trace)[w].count;
    }
    ck_assert_uint_eq(moved[0], cases[_i].read);
    ck_assert_uint_eq(moved[1], cases[_i].written);
    ck_assert_uint_eq(work[ECH_WORK_MATRIX], cases[_i].matrix);
    ck_assert_uint_eq(work[ECH_WORK_TRANSCENDENTAL], cases[_i].transcendental);
    ck_assert_int_eq(ech_test_says(import->diag, "1 Pallas kernel (k): the code cannot be read and the program does not tell its operations"),
                     cases[_i].unknown);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("source");
    TCase *tcase = tcase_create("source");
    tcase_add_test(tcase, lines_of_stacks);
    tcase_add_loop_test(tcase, frames_of_text, 0, 9);
    tcase_add_test(tcase, frames_of_proto);
    tcase_add_test(tcase, shared_configurations_of_proto);
    tcase_add_test(tcase, origin_of_arrays);
    tcase_add_test(tcase, products);
    tcase_add_test(tcase, stacks_and_counts);
    tcase_add_loop_test(tcase, donations, 0, 8);
    tcase_add_loop_test(tcase, kernels_of_the_programs_own, 0, 3);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
