/* Kernels that XLA compiled, in a capture with the folders of their programs beside it: hand-made files. */
#include "sim/import/import.h"
#include "tests/support/support.h"

#include <glib/gstdio.h>
#include <string.h>

#define CLOCK "1790000000000000000"
#define HEAD "echelon-pretend 1\nclock " CLOCK "\ndevice 84942979072 536870912 1 \"h100-sxm\"\n"
#define NAMES                                                                                                                                                  \
    "name 1 \"jit_step\"\nname 2 \"loop_add_fusion_1\"\nname 3 \"loop_add_fusion.1\"\nname 4 \"sort_1_1\"\nname 5 \"sort.1\"\nname 6 \"custom\"\n"             \
    "name 7 \"\"\n"
/* Memory of the program: an argument, and all of its temporaries in one block. */
#define ARRAYS "alloc 1 0 0 4096 4194304 3 1\nalloc 2 0 0 67108864 134217728 3 1\n"
/* Each round adds a row's worth of the argument to a part of the temporaries, in place. */
#define ROUND "kernel 10 0 0 2 2048 1 1 128 1 1 0\nargs 0 4096 1 67108864 2 67108864\nof 1 1 7 3\n"
#define SORTS "kernel 20 0 0 4 64 1 1 128 1 1 0\nargs 0 71303168\nof 1 1 7 5\n"

static const char step[] = "HloModule jit_step, is_scheduled=true\n"
                           "\n"
                           "%fused_add (a: f32[1024,1024], b: f32[1024,1024]) -> f32[1024,1024] {\n"
                           "  %a = f32[1024,1024]{1,0} parameter(0)\n"
                           "  %b = f32[1024,1024]{1,0} parameter(1)\n"
                           "  ROOT %add.1 = f32[1024,1024]{1,0} add(%a, %b)\n"
                           "}\n"
                           "\n"
                           "%less (x: f32[], y: f32[]) -> pred[] {\n"
                           "  %x = f32[] parameter(0)\n"
                           "  %y = f32[] parameter(1)\n"
                           "  ROOT %lt.1 = pred[] compare(%x, %y), direction=LT\n"
                           "}\n"
                           "\n"
                           "%body (t: (s32[], f32[1024,1024], f32[1024,1024])) -> (s32[], f32[1024,1024], f32[1024,1024]) {\n"
                           "  %t = (s32[], f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) parameter(0)\n"
                           "  %i = s32[] get-tuple-element(%t), index=0\n"
                           "  %w = f32[1024,1024]{1,0} get-tuple-element(%t), index=1\n"
                           "  %s = f32[1024,1024]{1,0} get-tuple-element(%t), index=2\n"
                           "  %loop_add_fusion.1 = f32[1024,1024]{1,0} fusion(%w, %s), kind=kLoop, calls=%fused_add, metadata={op_name=\"jit(step)/add\"}\n"
                           "  ROOT %next = (s32[], f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(%i, %w, %loop_add_fusion.1)\n"
                           "}\n"
                           "\n"
                           "%more (u: (s32[], f32[1024,1024], f32[1024,1024])) -> pred[] {\n"
                           "  %u = (s32[], f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) parameter(0)\n"
                           "  ROOT %go = pred[] constant(true)\n"
                           "}\n"
                           "\n"
                           "ENTRY %main (w0: f32[1024,1024], i0: s32[], s0: f32[1024,1024], k0: f32[65536]) -> (f32[1024,1024], f32[65536]) {\n"
                           "  %w0 = f32[1024,1024]{1,0} parameter(0)\n"
                           "  %i0 = s32[] parameter(1)\n"
                           "  %s0 = f32[1024,1024]{1,0} parameter(2)\n"
                           "  %k0 = f32[65536]{0} parameter(3)\n"
                           "  %first = (s32[], f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(%i0, %w0, %s0)\n"
                           "  %while.1 = (s32[], f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) while(%first), condition=%more, body=%body, "
                           "backend_config={\"known_trip_count\":{\"n\":\"3\"}}\n"
                           "  %sum = f32[1024,1024]{1,0} get-tuple-element(%while.1), index=2\n"
                           "  %sort.1 = f32[65536]{0} sort(%k0), dimensions={0}, to_apply=%less\n"
                           "  ROOT %out = (f32[1024,1024]{1,0}, f32[65536]{0}) tuple(%sum, %sort.1)\n"
                           "}\n";

/* A folder beside the capture. */
static void put(const char *root, const char *folder, const char *program, const char *notes)
{
    g_autofree char *path = g_build_filename(root, folder, NULL), *text = g_build_filename(path, "program.hlo.txt.gz", NULL),
                    *json = g_build_filename(path, "program.json", NULL);
    ck_assert_int_eq(g_mkdir(path, 0700), 0);
    ck_assert(g_file_set_contents(text, program, -1, NULL) && g_file_set_contents(json, notes, -1, NULL));
}

static char *room(void)
{
    g_autoptr(GError) error = NULL;
    char *root = g_dir_make_tmp("echelon-xla-XXXXXX", &error);
    ck_assert_ok(root, error);
    return root;
}

static EchImport *read_beside(const char *root, const char *text, const EchImportOptions *options)
{
    g_autofree char *path = g_build_filename(root, "step.9.pretend", NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    return ech_test_import(path, options);
}

static EchBytes moved(const EchTrace *t, const EchOp *op, EchAccess access)
{
    EchBytes bytes = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
        bytes += ech_trace_uses(t)[u].access == access ? ech_trace_uses(t)[u].bytes : 0;
    return bytes;
}

/* What the folder alone says of an instruction. */
static void same_as_alone(const EchImport *capture, const EchOp *op, const char *folder, const char *name)
{
    g_autoptr(EchImport) program = ech_test_import(folder, NULL);
    ech_test_assign(program);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    const EchLowerOptions options = {.loop_trips = 1};
    g_autoptr(EchTrace) alone = ech_program_lower(program->program, device, &options, program->diag, &error);
    ck_assert_ok(alone, error);
    const EchOp *there = ech_test_op(alone, ECH_OP_KERNEL, name);
    const EchTrace *t = capture->trace;
    ck_assert_str_eq(ech_trace_string(t, op->name), name);
    ck_assert_str_eq(ech_trace_string(t, op->stack), ech_trace_string(alone, there->stack));
    ck_assert(g_str_has_prefix(ech_trace_string(t, op->launch), ech_trace_string(alone, there->launch)));
    ck_assert_uint_gt(strlen(ech_trace_string(alone, there->launch)), 0);
    ck_assert_uint_eq(moved(t, op, ECH_READ), moved(alone, there, ECH_READ));
    ck_assert_uint_eq(moved(t, op, ECH_WRITE), moved(alone, there, ECH_WRITE));
    ck_assert_uint_eq(op->n_work, there->n_work);
    for (uint32_t w = 0; w < op->n_work; w++) {
        const EchWork *a = &ech_trace_work(t)[op->first_work + w], *b = &ech_trace_work(alone)[there->first_work + w];
        ck_assert(a->unit == b->unit && a->dtype == b->dtype && a->count == b->count);
    }
}

START_TEST(a_kernel_is_what_its_program_says)
{
    g_autofree char *root = room(), *folder = g_build_filename(root, "step.9.step", NULL);
    put(root, "step.9.step", step, "{\"chip\": \"h100\", \"program_id\": 7, \"written_unix_ns\": " CLOCK "}");
    put(root, "step.9.other", step, "{\"program_id\": 8, \"written_unix_ns\": " CLOCK "}");
    put(root, "step.90.step", step, "{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}"); /* of another process */
    g_autoptr(EchImport) import = read_beside(root, HEAD NAMES ARRAYS ROUND ROUND ROUND SORTS SORTS "end\n", NULL);
    const EchTrace *t = import->trace;
    ck_assert(ech_test_says(import->diag, "5 kernels that XLA compiled are priced as in the folders of their programs beside: jit_step"));
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_priced_by_their_program"), 5);
    /* Of two kernels of one sort the first stands for both. */
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_KERNEL), 4);
    unsigned rounds = 0;
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        if (op->kind != ECH_OP_KERNEL)
            continue;
        bool sorts = strcmp(ech_trace_string(t, op->name), "sort.1") == 0;
        same_as_alone(import, op, folder, sorts ? "sort.1" : "loop_add_fusion.1");
        /* A run of a program is one launch of the host's. */
        ck_assert_int_eq(strstr(ech_trace_string(t, op->launch), "graph=1") != NULL, rounds > 0);
        rounds++;
        if (sorts)
            continue;
        /* The block of temporaries is used by as much as the kernel takes of it: read and written. */
        ck_assert_uint_eq(op->n_uses, 3);
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
            ck_assert_uint_eq(ech_trace_uses(t)[u].bytes, 4194304);
    }
}
END_TEST

START_TEST(a_run_of_a_program_is_one_launch)
{
    g_autofree char *root = room();
    /* Another run, what follows a wait of the host and a further round of a loop are launches of their own. */
    g_autoptr(EchImport) import = read_beside(root,
                                              HEAD NAMES ARRAYS "kernel 10 0 0 2 1 1 1 128 1 1 0\nof 1 1 7 3\ncopy 11 0 0 64 3 3 1\nof 1 1 7 7\n"
                                                                "kernel 12 0 0 2 1 1 1 128 1 1 0\nof 2 1 7 3\nsync 13 3 0 0 0\n"
                                                                "kernel 14 0 0 2 1 1 1 128 1 1 0\nof 2 1 7 3\nkernel 15 0 0 6 1 1 1 128 1 1 0\n"
                                                                "kernel 16 0 0 2 1 1 1 128 1 1 0\nof 3 1 7 3\nkernel 17 0 0 4 1 1 1 128 1 1 0\nof 3 1 7 5\n"
                                                                "kernel 18 0 0 4 1 1 1 128 1 1 0\nof 3 1 7 5\nkernel 19 0 0 2 1 1 1 128 1 1 0\nof 3 1 7 3\n"
                                                                "kernel 20 0 0 4 1 1 1 128 1 1 0\nof 3 1 7 5\nend\n",
                                              NULL);
    static const bool together[] = {false, true, false, false, false, false, true, true, false, true};
    size_t n = 0;
    for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++) {
        const EchOp *op = &ech_trace_ops(import->trace)[i];
        if (op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COPY)
            ck_assert_int_eq(strstr(ech_trace_string(import->trace, op->launch), "graph=1") != NULL, together[n++]);
    }
    ck_assert_uint_eq(n, G_N_ELEMENTS(together));
}
END_TEST

/* Folders that are not taken, and what is said of them. */
static const struct {
    const char *notes, *program, *also, *says;
} strangers[] = {
    {NULL, NULL, NULL, "no folder of their programs lies beside (jit_step)"},
    {"{\"program_id\": 8, \"written_unix_ns\": " CLOCK "}", step, NULL, "no folder of their programs lies beside (jit_step)"},
    {"{\"program_id\": \"7\"}", step, NULL, "no folder of their programs lies beside"},
    {"[7", step, NULL, "no folder of their programs lies beside"},
    {"{\"program_id\": 7}", step, NULL, "step.9.step was written before the capture began"},
    {"{\"program_id\": 7, \"written_unix_ns\": 1789999999999999999}", step, NULL, "step.9.step was written before the capture began"},
    {"{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}", step, "{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}", "are both of it"},
    {"{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}",
     "HloModule jit_other, is_scheduled=true\n\nENTRY %main (a: f32[4]) -> f32[4] {\n  ROOT %a = f32[4]{0} parameter(0)\n}\n", NULL,
     "step.9.step is of jit_other"},
    {"{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}",
     "HloModule jit_step, is_scheduled=true\n\nENTRY %main (a: f32[4]) -> f32[4] {\n  %a = f32[4]{0} parameter(0)\n  ROOT %b = f32[4]{0} add(%a, %a)\n}\n",
     NULL, "step.9.step has no instruction loop_add_fusion.1"},
    {"{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}", "HloModule jit_step\n\nENTRY %main (", NULL, "program.hlo.txt.gz:"},
};

START_TEST(other_folders_price_nothing)
{
    g_autofree char *root = room();
    if (strangers[_i].notes)
        put(root, "step.9.step", strangers[_i].program, strangers[_i].notes);
    if (strangers[_i].also)
        put(root, "step.9.step.2", strangers[_i].program, strangers[_i].also);
    g_autoptr(EchImport) import = read_beside(root, HEAD NAMES ARRAYS ROUND "end\n", NULL);
    ck_assert_msg(ech_test_says(import->diag, strangers[_i].says), "expected '%s'", strangers[_i].says);
    ck_assert(ech_test_says(import->diag, "priced by the arrays that they are given"));
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_priced_by_their_program"), 0);
    ck_assert_uint_eq(ech_test_op(import->trace, ECH_OP_KERNEL, "loop_add_fusion_1")->stack, ECH_NONE);
}
END_TEST

START_TEST(what_is_beside_may_be_left_out)
{
    g_autofree char *root = room();
    put(root, "step.9.step", step, "{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}");
    const EchImportOptions options = {.ignore_beside = true};
    g_autoptr(EchImport) import = read_beside(root, HEAD NAMES ARRAYS ROUND "end\n", &options);
    ck_assert_ptr_nonnull(ech_test_op(import->trace, ECH_OP_KERNEL, "loop_add_fusion_1"));
    ck_assert(!ech_test_says(import->diag, "that XLA compiled"));
}
END_TEST

/* An instruction of which the program's own lowering makes no kernel stays what it was asked as; so do a sort's kernels where their number cannot be told. */
START_TEST(what_the_program_does_not_tell)
{
    g_autofree char *root = room();
    put(root, "step.9.step", step, "{\"program_id\": 7, \"written_unix_ns\": " CLOCK "}");
    g_autoptr(EchImport) import =
        read_beside(root, HEAD NAMES "name 8 \"while.1\"\n" ARRAYS "kernel 10 0 0 6 1 1 1 128 1 1 0\nargs 0 4096\nof 1 1 7 8\nend\n", NULL);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_not_told_by_their_program"), 1);
    ck_assert_ptr_nonnull(ech_test_op(import->trace, ECH_OP_KERNEL, "custom"));
    g_auto(GStrv) parts = g_strsplit(step, "backend_config={\"known_trip_count\":{\"n\":\"3\"}}", 2);
    g_autofree char *unknown = g_strconcat(parts[0], "frontend_attributes={}", parts[1], NULL);
    put(root, "step.9.again", unknown, "{\"program_id\": 9, \"written_unix_ns\": " CLOCK "}");
    g_autoptr(EchImport) again =
        read_beside(root, HEAD NAMES ARRAYS "kernel 10 0 0 2 1 1 1 128 1 1 0\nargs 0 4096 1 67108864 2 67108864\nof 1 1 9 3\nend\n", NULL);
    ck_assert_uint_eq(ech_diag_count(again->diag, "kernels_priced_by_their_program"), 1); /* of no known number of rounds: each is one */
    ck_assert(!ech_test_says(again->diag, "whose end is computed"));
    g_autoptr(EchImport) ended = read_beside(root, HEAD NAMES ARRAYS "kernel 20 0 0 4 64 1 1 128 1 1 0\nargs 0 71303168\nof 1 1 9 5\nend\n", NULL);
    ck_assert(ech_test_says(ended->diag, "jit_step: 1 kernel of loops whose end is computed never ran"));
}
END_TEST

START_TEST(lines_that_are_wrong)
{
    static const struct {
        const char *lines, *says;
    } wrong[] = {{"of 1 1 7 3\n", "expected the work before"},
                 {"kernel 1 0 0 2 1 1 1 1 1 1 0\nof 1 99 7 3\n", "name 99"},
                 {"kernel 1 0 0 2 1 1 1 1 1 1 0\nof 1 1 7\n", "of line"}};
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autofree char *text = g_strconcat(HEAD NAMES, wrong[i].lines, "end\n", NULL);
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), NULL);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
        ck_assert(!import);
        ck_assert_msg(strstr(error->message, wrong[i].says), "%s", error->message);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xla_folders");
    TCase *cases = tcase_create("all");
    tcase_add_test(cases, a_kernel_is_what_its_program_says);
    tcase_add_test(cases, a_run_of_a_program_is_one_launch);
    tcase_add_loop_test(cases, other_folders_price_nothing, 0, G_N_ELEMENTS(strangers));
    tcase_add_test(cases, what_is_beside_may_be_left_out);
    tcase_add_test(cases, what_the_program_does_not_tell);
    tcase_add_test(cases, lines_that_are_wrong);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
