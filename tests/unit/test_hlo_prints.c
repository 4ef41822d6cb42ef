/* The ways in which XLA prints a module: each is read as the same program, or refused with what to print instead. */
#include "sim/import/hlo.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

#define HEAD "HloModule m, is_scheduled=true, entry_computation_layout={(s32[], f32[256]{0})->f32[256]{0}}\n\n"

static const char plain[] =
    HEAD "%double (p: f32[256]) -> f32[256] {\n  %p = f32[256]{0:T(256)} parameter(0)\n  ROOT %d = f32[256]{0:T(256)} add(%p, %p)\n}\n\n"
         "%body (t: (s32[], f32[256])) -> (s32[], f32[256]) {\n  %t = (s32[], f32[256]{0:T(256)}) parameter(0)\n"
         "  %i = s32[] get-tuple-element(%t), index=0\n  %x = f32[256]{0:T(256)} get-tuple-element(%t), index=1\n  %one = s32[] constant(1)\n"
         "  %next = s32[] add(%i, %one)\n  %twice = f32[256]{0:T(256)} fusion(%x), kind=kLoop, calls=%double\n"
         "  ROOT %r = (s32[], f32[256]{0:T(256)}) tuple(%next, %twice)\n}\n\n"
         "%condition (t: (s32[], f32[256])) -> pred[] {\n  %t.1 = (s32[], f32[256]{0:T(256)}) parameter(0)\n"
         "  %i.1 = s32[] get-tuple-element(%t.1), index=0\n  %five = s32[] constant(5)\n  ROOT %c = pred[] compare(%i.1, %five), direction=LT\n}\n\n"
         "%a (u: f32[256]) -> f32[256] {\n  ROOT %u = f32[256]{0:T(256)} parameter(0)\n}\n\n"
         "%b (v: f32[256]) -> f32[256] {\n  %v = f32[256]{0:T(256)} parameter(0)\n  ROOT %n = f32[256]{0:T(256)} negate(%v)\n}\n\n"
         "ENTRY %main (k: s32[], y: f32[256]) -> f32[256] {\n  %k = s32[] parameter(0)\n  %y = f32[256]{0:T(256)} parameter(1)\n  %zero = s32[] constant(0)\n"
         "  %start = (s32[], f32[256]{0:T(256)}) tuple(%zero, %y)\n  %loop = (s32[], f32[256]{0:T(256)}) while(%start), condition=%condition, body=%body\n"
         "  %z = f32[256]{0:T(256)} get-tuple-element(%loop), index=1\n"
         "  ROOT %chosen = f32[256]{0:T(256)} conditional(%k, %z, %z), branch_computations={%a, %b}\n}\n";

/* As HloPrintOptions.canonical() has it, with the copies beside that it keeps. */
static const char nested[] =
    HEAD "double {\n  tmp_0 = f32[256]{0:T(256)} parameter(0)\n  ROOT tmp_1 = f32[256]{0:T(256)} add(f32[256]{0:T(256)} tmp_0, f32[256]{0:T(256)} tmp_0)\n}\n\n"
         "ENTRY main {\n  tmp_0 = s32[] parameter(0)\n  tmp_1 = f32[256]{0:T(256)} parameter(1)\n  tmp_2 = s32[] constant(0)\n"
         "  tmp_3 = (s32[], f32[256]{0:T(256)}) tuple(s32[] tmp_2, f32[256]{0:T(256)} tmp_1)\n"
         "  tmp_4 = (s32[], f32[256]{0:T(256)}) while((s32[], f32[256]{0:T(256)}) tmp_3), condition=\n  {\n"
         "    tmp_0 = (s32[], f32[256]{0:T(256)}) parameter(0)\n    tmp_1 = s32[] get-tuple-element((s32[], f32[256]{0:T(256)}) tmp_0), index=0\n"
         "    tmp_2 = s32[] constant(5)\n    ROOT tmp_3 = pred[] compare(s32[] tmp_1, s32[] tmp_2), direction=LT\n  }, body=\n  {\n"
         "    tmp_0 = (s32[], f32[256]{0:T(256)}) parameter(0)\n    tmp_1 = s32[] get-tuple-element((s32[], f32[256]{0:T(256)}) tmp_0), index=0\n"
         "    tmp_2 = f32[256]{0:T(256)} get-tuple-element((s32[], f32[256]{0:T(256)}) tmp_0), index=1\n    tmp_3 = s32[] constant(1)\n"
         "    tmp_4 = s32[] add(s32[] tmp_1, s32[] tmp_3)\n"
         "    tmp_5 = f32[256]{0:T(256)} fusion(f32[256]{0:T(256)} tmp_2), kind=kLoop, calls=\n    {\n"
         "      tmp_0 = f32[256]{0:T(256)} parameter(0)\n"
         "      ROOT tmp_1 = f32[256]{0:T(256)} add(f32[256]{0:T(256)} tmp_0, f32[256]{0:T(256)} tmp_0)\n    }, frontend_attributes={a=\"b\"}\n"
         "    ROOT tmp_6 = (s32[], f32[256]{0:T(256)}) tuple(s32[] tmp_4, f32[256]{0:T(256)} tmp_5)\n  }\n"
         "  tmp_5 = f32[256]{0:T(256)} get-tuple-element((s32[], f32[256]{0:T(256)}) tmp_4), index=1\n"
         "  ROOT tmp_6 = f32[256]{0:T(256)} conditional(s32[] tmp_0, f32[256]{0:T(256)} tmp_5, f32[256]{0:T(256)} tmp_5), branch_computations={\n  {\n"
         "    ROOT tmp_0 = f32[256]{0:T(256)} parameter(0)\n  },\n  {\n    tmp_0 = f32[256]{0:T(256)} parameter(0)\n"
         "    ROOT tmp_1 = f32[256]{0:T(256)} negate(f32[256]{0:T(256)} tmp_0)\n  }\n  }\n}\n";

static EchProgram *module_of(const char *text, EchDiag *diag, GError **error)
{
    g_autoptr(GBytes) bytes = g_bytes_new_static(text, strlen(text));
    return ech_hlo_read_text(bytes, "m.txt", "tpu-v5e", diag, error);
}

static char *replaced(const char *text, const char *what, const char *with)
{
    g_auto(GStrv) parts = g_strsplit(text, what, -1);
    ck_assert_ptr_nonnull(parts[1]);
    return g_strjoinv(with, parts);
}

/* The same computations in the same order, with the same calls. */
static void check_same(const EchProgram *a, const EchProgram *b)
{
    ck_assert_uint_eq(a->n_computations, b->n_computations);
    ck_assert_uint_eq(a->n_instructions, b->n_instructions);
    ck_assert_uint_eq(a->n_flat, b->n_flat);
    ck_assert_uint_eq(a->entry, b->entry);
    for (size_t i = 0; i < a->n_instructions; i++) {
        const EchInstruction *x = &a->instructions[i], *y = &b->instructions[i];
        ck_assert_uint_eq(x->opcode, y->opcode);
        ck_assert_uint_eq(x->n_operands, y->n_operands);
        ck_assert_uint_eq(x->n_called, y->n_called);
        for (uint32_t k = 0; k < x->n_called; k++)
            ck_assert_uint_eq(ech_program_called(a, x, k), ech_program_called(b, y, k));
        for (uint32_t k = 0; k < x->n_operands; k++)
            ck_assert_uint_eq(ech_program_operand(a, x, k), ech_program_operand(b, y, k));
    }
}

/* A text that ends before its last computation is told as such. */
START_TEST(cut_off)
{
    g_autofree char *text = g_strndup(plain, (gsize)(strstr(plain, "ENTRY") - plain));
    g_autoptr(EchDiag) diag = ech_diag_new(), whole = ech_diag_new();
    g_autoptr(EchProgram) program = module_of(text, diag, NULL), other = module_of(plain, whole, NULL);
    ck_assert(program && other);
    ck_assert(ech_test_says(diag, "no computation is marked ENTRY"));
    ck_assert(!ech_test_says(whole, "no computation is marked ENTRY"));
}
END_TEST

/* Line ends as Windows' tools write them mean nothing. */
START_TEST(ends_of_lines)
{
    static const char text[] = "HloModule m, is_scheduled=true\n\nENTRY %main (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n"
                               "  %k = f32[8]{0} custom-call(%p), custom_call_target=\"kernel\", backend_config={\n\"a\": 1\n}, metadata={op_name=\"f\"}\n"
                               "  ROOT %n = f32[8]{0} custom-call(%k), custom_call_target=\"last\"\n}\n";
    g_autofree char *windows = replaced(text, "\n", "\r\n");
    g_autoptr(EchDiag) diag = ech_diag_new();
    GError *error = NULL;
    g_autoptr(EchProgram) program = module_of(windows, diag, &error);
    ck_assert_msg(program, "%s", error ? error->message : "");
    ck_assert(program->scheduled);
    ck_assert_uint_eq(program->n_instructions, 3);
    ck_assert_str_eq(program->instructions[1].target, "kernel");
    ck_assert_str_eq(program->instructions[1].op_name, "f");
    ck_assert_str_eq(program->instructions[2].target, "last");
}
END_TEST

START_TEST(nested_computations)
{
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    g_autoptr(EchProgram) program = module_of(plain, diag, &error), same = program ? module_of(nested, diag, &error) : NULL;
    ck_assert_msg(same != NULL, "%s", error ? error->message : "");
    /* The body makes its next number first here. */
    ck_assert_uint_eq(program->n_computations, 6);
    ck_assert_uint_eq(same->n_computations, 6);
    g_autofree char *shapes = replaced(nested, "calls=\n    {", "calls=\n    (p: f32[256]) -> f32[256] {");
    g_autoptr(EchProgram) with_shapes = module_of(shapes, diag, &error);
    ck_assert_msg(with_shapes != NULL, "%s", error ? error->message : "");
    check_same(same, with_shapes);
    check_same(program, same);
}
END_TEST

/* Instructions over several lines, as people write them in tests: a newline is a blank. */
START_TEST(wrapped)
{
    static const struct {
        const char *what, *with;
    } wraps[] = {{", index=", ",\n      index="},
                 {") tuple(", ")\n    tuple("},
                 {"(%zero, %y)", "(%zero,\n\n    %y)"},
                 {"(%x), kind", "(\n    %x\n  ), kind"},
                 {"%loop = (s32[], f32", "%loop =\n  (s32[],\n    f32"},
                 {"compare(%i.1, %five)", "compare(%i.1\n    , %five)"},
                 {"condition=%condition, ", "condition=%condition,\n    "}};
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) flat = module_of(plain, diag, NULL);
    g_autofree char *all = g_strdup(plain);
    for (size_t i = 0; i < G_N_ELEMENTS(wraps); i++) {
        g_autofree char *one = replaced(plain, wraps[i].what, wraps[i].with), *before = all;
        all = replaced(before, wraps[i].what, wraps[i].with);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchProgram) program = module_of(one, diag, &error);
        ck_assert_ok(program != NULL, error);
        check_same(program, flat);
    }
    g_autoptr(EchProgram) program = module_of(all, diag, NULL);
    ck_assert_ptr_nonnull(program);
    check_same(program, flat);
    g_autofree char *wrong = replaced(all, "%y)", "%nobody)");
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(module_of(wrong, diag, &error));
    ck_assert_msg(strstr(error->message, "operand '%nobody' is not defined") || strstr(error->message, "operand 'nobody' is not defined"), "%s",
                  error->message);
}
END_TEST

START_TEST(indented)
{
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    const char *const texts[] = {plain, nested};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autofree char *rest = replaced(texts[i], "\n", "\n      "), *text = g_strconcat("      ", rest, NULL);
        g_autoptr(EchProgram) a = module_of(texts[i], diag, NULL), b = module_of(text, diag, &error);
        ck_assert_msg(b != NULL, "%s", error ? error->message : "");
        check_same(a, b);
    }
}
END_TEST

/* What cannot be read says which print can; places are those of the text that was given. */
START_TEST(refused)
{
    static const struct {
        const char *text, *what, *with, *place, *says;
    } cases[] = {
        {plain, "tuple(%next, %twice)", "tuple(%next, ...(+1))", "m.txt:15:", "compact_operands=False"},
        {plain, "%next", "%i", "m.txt:13:", "print_ids=True"},
        {plain, "(%t), index=0", "(%t)", "m.txt:10:", "print_extra_attributes=True"},
        {plain, "{0:T(256)}", "", "m.txt:1:", "include_layout_in_shapes=True"},
        {plain, "%double (p: f32[256]) -> f32[256] {", "(p: f32[256]) -> f32[256] {", "m.txt:14:", "is_in_nested_computation=False"},
        {nested, "tuple(s32[] tmp_4, f32[256]{0:T(256)} tmp_5)", "tuple(s32[], f32[256]{0:T(256)})", "m.txt:31:", "without a name"},
        {nested, "negate(", "negate", "m.txt:40:", "not defined"},
        {nested, "  }\n  }\n}\n", "", "m.txt:", "without its '}'; the text ends here, and looks cut off"},
        {plain, "%a (u: f32[256])", "%b (u: f32[256])", "m.txt:29:", "a second computation 'b'"},
        {plain, "%b (v: f32[256])", "ENTRY %b (v: f32[256])", "m.txt:34:", "a second ENTRY"},
    };
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *text = replaced(cases[_i].text, cases[_i].what, cases[_i].with);
    g_autoptr(EchProgram) program = module_of(text, diag, &error);
    ck_assert_ptr_null(program);
    ck_assert_msg(g_str_has_prefix(error->message, cases[_i].place) && strstr(error->message, cases[_i].says), "%s", error->message);
    ck_assert_int_eq(strstr(error->message, "cut off") != NULL, strstr(cases[_i].says, "cut off") != NULL);
}
END_TEST

/* Half of a text, as an interrupted copy leaves it: within a line. */
START_TEST(said_to_be_cut)
{
    size_t n = strlen(plain);
    for (size_t i = n / 3; i < n; i += 7) {
        if (plain[i - 1] == '\n')
            continue;
        g_autofree char *text = g_strndup(plain, i);
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(GError) error = NULL;
        g_autoptr(EchProgram) program = module_of(text, diag, &error);
        ck_assert_msg(program || strstr(error->message, "cut off"), "after %zu bytes: %s", i, error ? error->message : "");
    }
}
END_TEST

/* A parameter that is the whole program: its name, and its computation. */
#define PROTO_NAME "\x0a\x01m"
#define PROTO_COMPUTATION(id)                                                                                                                                  \
    "\x1a\x21"                                                                                                                                                 \
    "\x0a\x01"                                                                                                                                                 \
    "e"                                                                                                                                                        \
    "\x12\x18\x0a\x01p\x12\x09parameter\x1a\x05\x10\x0b\x1a\x01\x04\x98\x02\x01"                                                                               \
    "\x28" id "\x30\x01"

/* Modules that were written one behind the other into one file would be read as one. */
START_TEST(modules_in_one_file)
{
    static const struct {
        const char *proto, *says;
    } cases[] = {
        {PROTO_NAME PROTO_COMPUTATION("\x01"), NULL},
        {PROTO_NAME PROTO_COMPUTATION("\x01") PROTO_COMPUTATION("\x02"), NULL},
        {PROTO_NAME PROTO_COMPUTATION("\x01") PROTO_COMPUTATION("\x01"), "a second computation of one id"},
        {PROTO_NAME PROTO_COMPUTATION("\x01") PROTO_NAME PROTO_COMPUTATION("\x02"), "a second module"},
        {"\x0a\x26" PROTO_NAME PROTO_COMPUTATION("\x01"), NULL},
        {"\x0a\x26" PROTO_NAME PROTO_COMPUTATION("\x01") "\x0a\x26" PROTO_NAME PROTO_COMPUTATION("\x02"), "a second module"},
    };
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) bytes = g_bytes_new_static(cases[_i].proto, strlen(cases[_i].proto));
    g_autoptr(EchProgram) program = ech_hlo_read_proto(bytes, "m.pb", "tpu-v5e", diag, &error);
    if (!cases[_i].says)
        ck_assert_ok(program != NULL, error);
    else
        ck_assert_msg(!program && strstr(error->message, cases[_i].says), "%s", error ? error->message : "it was read");
}
END_TEST

/* A buffer that JAX's pin makes of an array is that array, in text as in protobuf (both by jaxlib 0.10.2), and nothing moves for it. */
START_TEST(buffers_are_their_arrays)
{
    static const char *const files[][2] = {{"hlo_text/pinned.hlo.txt", "hlo"}, {"hlo_proto/pinned.pb", "hlo_proto"}};
    g_autoptr(EchImport) import = ech_test_corpus(files[_i][0], files[_i][1]);
    const EchProgram *p = import->program;
    EchId pin = ech_test_instruction(p, "pin"), unpin = ech_test_instruction(p, "unpin"), negated = ech_test_instruction(p, "n");
    ck_assert_uint_eq(p->instructions[pin].shape, p->instructions[negated].shape);
    ck_assert_uint_eq(p->values[ech_program_value(p, pin, 0)].bytes, 512 * 256 * 4);
    EchId buffer = p->values[ech_program_value(p, negated, 0)].buffer;
    ck_assert_uint_eq(p->values[ech_program_value(p, unpin, 0)].buffer, buffer);
    ck_assert_uint_eq(p->values[ech_program_value(p, ech_test_instruction(p, "changed"), 0)].buffer, buffer);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = ech_program_lower(p, NULL, NULL, diag, NULL);
    ck_assert_ptr_nonnull(trace);
    for (size_t k = 0; k < ech_trace_n_ops(trace); k++) {
        const EchOp *op = &ech_trace_ops(trace)[k];
        const char *name = op->name == ECH_NONE ? "" : ech_trace_string(trace, op->name);
        ck_assert_msg(op->kind != ECH_OP_KERNEL || (strcmp(name, "pin") != 0 && strcmp(name, "unpin") != 0), "%s", name);
    }
}
END_TEST

/* As deep as tuples may be, and no deeper. */
START_TEST(buffers_in_buffers)
{
    g_autoptr(GString) shape = g_string_new("f32[8]{0}");
    for (int k = 0; k < 5000; k++) {
        g_string_prepend(shape, "b(");
        g_string_append_c(shape, ')');
    }
    g_autofree char *text =
        g_strdup_printf("HloModule m, is_scheduled=true\n\nENTRY %%main (p: f32[8]) -> f32[8] {\n  ROOT %%p = %s parameter(0)\n}\n", shape->str);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    g_autoptr(EchProgram) program = module_of(text, diag, &error);
    ck_assert_msg(!program && strstr(error->message, "nested more than"), "%s", error ? error->message : "it was read");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prints of HLO");
    TCase *tests = tcase_create("prints");
    tcase_add_test(tests, cut_off);
    tcase_add_test(tests, ends_of_lines);
    tcase_add_test(tests, nested_computations);
    tcase_add_test(tests, indented);
    tcase_add_test(tests, wrapped);
    tcase_add_loop_test(tests, refused, 0, 10);
    tcase_add_test(tests, said_to_be_cut);
    tcase_add_loop_test(tests, modules_in_one_file, 0, 6);
    tcase_add_loop_test(tests, buffers_are_their_arrays, 0, 2);
    tcase_add_test(tests, buffers_in_buffers);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
