/* Captures of programs on a TPU that was not there: each run is what its program is when it is replayed by itself, between the process's own arrays. */
#include "tests/support/support.h"
#include "traces/capture/pjrt/header.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define HEAD "echelon-pretend-tpu 1\nclock 5\ndevice 16911433728 1 \"tpu-v5e\"\nrank 0 1\n"
/* gpt_nothing.v5e: five arrays of parameters that are donated, tokens, and a loss. */
#define PARAMETERS                                                                                                                                             \
    "array 10 1 0 0 524288 \"bf16[1024,256]{1,0:T(8,128)(2,1)}\"\ncopy 11 1 524288 1\n"                                                                        \
    "array 12 2 0 0 2097152 \"bf16[4,1024,256]{2,1,0:T(8,128)(2,1)}\"\ncopy 13 2 2097152 1\n"                                                                  \
    "array 14 3 0 0 524288 \"bf16[4,256,256]{2,1,0:T(8,128)(2,1)}\"\ncopy 15 3 524288 1\n"                                                                     \
    "array 16 4 0 0 1572864 \"bf16[4,256,768]{2,1,0:T(8,128)(2,1)}\"\ncopy 17 4 1572864 1\n"                                                                   \
    "array 18 5 0 0 2097152 \"bf16[4,256,1024]{2,1,0:T(8,128)(2,1)}\"\ncopy 19 5 2097152 1\n"
#define TOKENS(T, N) "array " #T " " #N " 0 0 6144 \"s32[4,257]{1,0:T(4,128)}\"\ncopy " #T " " #N " 4112 1\n"
#define RESULTS(A, B, C, D, E, F)                                                                                                                              \
    "array 30 " #A " 0 0 524288 \"bf16[1024,256]{1,0:T(8,128)(2,1)}\"\n"                                                                                       \
    "array 30 " #B " 0 0 2097152 \"bf16[4,1024,256]{2,1,0:T(8,128)(2,1)}\"\n"                                                                                  \
    "array 30 " #C " 0 0 524288 \"bf16[4,256,256]{2,1,0:T(8,128)(2,1)}\"\n"                                                                                    \
    "array 30 " #D " 0 0 1572864 \"bf16[4,256,768]{2,1,0:T(8,128)(2,1)}\"\n"                                                                                   \
    "array 30 " #E " 0 0 2097152 \"bf16[4,256,1024]{2,1,0:T(8,128)(2,1)}\"\n"                                                                                  \
    "array 30 " #F " 0 0 512 \"f32[]{:T(128)}\"\n"

enum { PARAMETER_BYTES = 524288 + 2097152 + 524288 + 1572864 + 2097152 };

static char *folder;

static void setup(void)
{
    g_autoptr(GError) error = NULL;
    folder = g_dir_make_tmp("pretend-tpu-XXXXXX", &error);
    ck_assert_ok(folder, error);
    g_autofree char *programs = g_build_filename(folder, "x.1.programs", NULL), *program = g_build_filename(programs, "step", NULL);
    ck_assert_int_eq(g_mkdir(programs, 0777), 0);
    ck_assert_int_eq(symlink(ECH_SOURCE_DIR "/traces/gpt_nothing.v5e", program), 0);
}

static void teardown(void)
{
    g_free(folder);
}

static char *written(const char *text)
{
    char *path = g_build_filename(folder, "x.1.pretend", NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_ok(g_file_set_contents(path, text, -1, &error), error);
    return path;
}

static EchImport *read_text(const char *text)
{
    g_autofree char *path = written(text);
    return ech_test_import(path, &(EchImportOptions){.device = "tpu-v5e"});
}

static EchResult *run_file(const char *path)
{
    return ech_test_run(&(EchExperimentOverrides){.trace = path, .device = "tpu-v5e"});
}

/* Most bytes alive in a memory. */
static EchBytes peak_of(const EchResult *result, const char *memory)
{
    for (size_t i = 0; i < result->run->n_memories; i++)
        if (strcmp(result->run->memories[i].name, memory) == 0)
            return result->run->memories[i].peak_live;
    return 0;
}

#define TWO_STEPS                                                                                                                                              \
    HEAD "program 9 1 720896 \"step\"\n" PARAMETERS TOKENS(20, 6)                                                                                              \
        RESULTS(7, 8, 9, 10, 11, 12) "run 31 0 1 6 1 2 3 4 5 6 6 1 7 2 8 3 9 4 10 5 11 0 12\n"                                                                 \
                                     "copy 32 12 4 2\nmark 33 \"Optimizer.step#SGD.step\"\nfree 34 6\nfree 35 12\n" TOKENS(36, 13) RESULTS(                    \
                                         14, 15, 16, 17, 18,                                                                                                   \
                                         19) "run 37 0 1 6 7 8 9 10 11 13 6 7 14 8 15 9 16 10 17 11 18 0 19\nmark 38 \"Optimizer.step#SGD.step\"\nend\n"

/* Two steps take what the program takes by itself, twice, and what they wait for; memory is what the compiler has for it. */
START_TEST(steps_are_the_programs)
{
    g_autofree char *path = written(TWO_STEPS);
    EchResult *two = run_file(path), *one = run_file(ECH_SOURCE_DIR "/traces/gpt_nothing.v5e");
    EchTime all = two->run->makespan, alone = one->run->makespan, weights = ech_time_for(PARAMETER_BYTES + 4112, UINT64_C(15000000000));
    ck_assert_int_ge(all, 2 * alone + weights);
    ck_assert_int_le(all, 2 * alone + weights + 100 * ECH_PS_PER_US); /* set-ups of seven copies, the loss that is read */
    EchBytes both = peak_of(two, "hbm");
    ck_assert_uint_ge(both, PARAMETER_BYTES + 720896);
    ck_assert_uint_le(both, PARAMETER_BYTES + 720896 + (64 << 10)); /* tokens, the loss, constants */
    ck_assert_uint_ge(both + (64 << 10), peak_of(one, "hbm"));
    ck_assert_uint_eq(peak_of(two, "vector"), peak_of(one, "vector"));
    ech_result_free(two);
    ech_result_free(one);
}
END_TEST

START_TEST(what_is_told)
{
    g_autoptr(EchImport) import = read_text(TWO_STEPS);
    ck_assert_str_eq(import->format, "pretend_tpu");
    ck_assert_uint_eq(ech_diag_count(import->diag, "runs_of_programs"), 2);
    ck_assert(ech_test_says(import->diag, "2 runs of 1 compiled programs"));
    ck_assert_str_eq(ech_trace_get_property(import->trace, "pretended_device"), "tpu-v5e");
    ck_assert_str_eq(ech_trace_get_property(import->trace, "estimates_for"), "tpu-v5e");
    size_t marks = 0;
    for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++)
        marks += strcmp(ech_trace_string(import->trace, ech_trace_ops(import->trace)[i].name), "Optimizer.step#SGD.step") == 0;
    ck_assert_uint_eq(marks, 2);
    /* Donated arrays are the same memory from the first step to the last: six arrays of the host's, two losses, the temporaries and constants. */
    size_t of_host = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(import->trace); i++)
        of_host += strcmp(ech_trace_string(import->trace, ech_trace_buffers(import->trace)[i].name), "from the host") == 0 &&
                   ech_trace_buffers(import->trace)[i].bytes > 0;
    ck_assert_uint_eq(of_host, 7);
    ck_assert_ptr_nonnull(ech_test_find_buffer(import->trace, "temporaries of step"));
}
END_TEST

/* A program that lies nowhere leaves its results; one beside another capture is not looked for. */
START_TEST(without_its_programs)
{
    static const char text[] = HEAD "program 9 1 512 \"other\"\narray 10 1 0 0 4096 \"f32[1024]{0:T(1024)}\"\nrun 11 0 1 0 1 0 1\n"
                                    "program 12 2 512 \"step\"\nfree 13 1\nrefused 14 0 0 99999\nend\n";
    g_autoptr(EchImport) import = read_text(text);
    ck_assert_uint_eq(ech_diag_count(import->diag, "programs_not_known"), 1);
    ck_assert(ech_test_says(import->diag, "program other is not known"));
    ck_assert(ech_test_says(import->diag, "had no room for 1 of the program's requests"));
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_ALLOC), 1);
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_FREE), 1);
}
END_TEST

/* Arrays on the host take none of the device's memory; what goes between the two takes the link. */
START_TEST(between_memories)
{
    static const char text[] =
        HEAD "array 10 1 0 0 1048576 \"f32[262144]{0:T(1024)}\"\narray 11 2 0 1 1048576 \"f32[262144]\"\nmove 12 1 2 1048576\nfree 13 1\n"
             "array 14 3 0 0 1048576 \"f32[262144]{0:T(1024)}\"\nmove 15 2 3 1048576\narray 16 4 0 0 1048576 \"s32[262144]{0:T(1024)}\"\n"
             "renamed 17 3 4\ncopy 18 4 1048576 2\nfree 19 4\narray 20 5 1 0 77 \"s8[77]\"\ncopy 21 5 77 1\nfree 22 5\nend\n";
    g_autofree char *path = written(text);
    EchResult *result = run_file(path);
    ck_assert_uint_eq(peak_of(result, "hbm"), 2 << 20); /* the host asks for the second one while the first is on its way */
    ck_assert_uint_eq(peak_of(result, "host"), 1 << 20);
    EchTime link = ech_time_for(3 << 20, UINT64_C(15000000000));
    ck_assert_int_ge(result->run->makespan, link);
    ck_assert_int_le(result->run->makespan, link + 30 * ECH_PS_PER_US);
    ck_assert_uint_eq(ech_test_count(result->trace, ECH_OP_COPY), 3);
    ech_result_free(result);
}
END_TEST

START_TEST(what_is_wrong)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"echelon-pretend-tpu 2\n", "expected 'echelon-pretend-tpu 1'"},
        {HEAD "program 1 1 0 \"../step\"\n", "a name without '/'"},
        {HEAD "program 1 1 0 \"step\"\nprogram 1 1 0 \"step\"\n", "a program that was there before"},
        {HEAD "array 1 1 0 3 8 \"f32[2]\"\n", "0, 1 or 2"},
        {HEAD "array 1 1 0 0 8 \"f32[2]\"\narray 1 1 0 0 8 \"f32[2]\"\n", "an array that was there before"},
        {HEAD "array 1 1 0 0 8 \"f32[2]\"\ncopy 1 1 8 3\n", "1 or 2"},
        {HEAD "run 1 0\n", "too short"},
        {HEAD "run 1 0 1 5 1 0\n", "fewer arguments"},
        {HEAD "run 1 0 1 18446744073709551615 1 0\n", "fewer arguments"},
        {HEAD "run 1 0 1 0 1 0\n", "two numbers for each"},
        {HEAD "run 1 0 1 1 7 0\n", "an array that is not there"},
        {HEAD "program 9 1 0 \"step\"\nrun 1 0 1 0 0\n", "other arguments and results than its program has"},
        {HEAD "program 9 1 720896 \"step\"\n" PARAMETERS TOKENS(20, 6) RESULTS(7, 8, 9, 10, 11, 12) "run 31 0 1 6 1 2 3 4 5 6 6 1 7 2 8 3 9 4 10 5 11 6 12\n",
         "a result lies in the place of an argument"},
        {HEAD "run 1 0 1 0 1 0 3\n", "a run makes an array that was there before"},
        {"echelon-pretend-tpu 1\ndevice 1 1 \"h100-sxm\"\n", "is no TPU"},
        {HEAD "device 1 1 \"tpu-v5e\"\n", "told twice"},
        {HEAD "array 1 1\n", "expected 5 numbers and a text"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = written(cases[i].text);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_file(path, "pretend_tpu", NULL, &error);
        ck_assert_msg(!import && strstr(error->message, cases[i].says), "%zu: %s", i, import ? "was read" : error->message);
    }
}
END_TEST

/* A short text that runs a long program very often is cut, and says so. */
START_TEST(no_end_of_runs)
{
    g_autoptr(GString) text = g_string_new(HEAD "program 9 1 720896 \"step\"\n" PARAMETERS TOKENS(20, 6));
    uint64_t own[6] = {1, 2, 3, 4, 5, 6}, next = 7;
    for (unsigned n = 0; n < 20000; n++) {
        g_autoptr(GString) run = g_string_new("run 31 0 1 6");
        for (unsigned k = 0; k < 6; k++)
            g_string_append_printf(run, " %" G_GUINT64_FORMAT, own[k]);
        g_string_append(run, " 6");
        for (unsigned k = 0; k < 6; k++) {
            g_string_append_printf(text, "array 30 %" G_GUINT64_FORMAT " 0 0 512 \"f32[]{:T(128)}\"\n", next);
            g_string_append_printf(run, " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, k < 5 ? own[k] : 0, next);
            own[k] = k < 5 ? next : own[k];
            next++;
        }
        g_string_append_printf(text, "%s\n", run->str);
    }
    g_string_append(text, "end\n");
    g_autoptr(EchImport) import = read_text(text->str);
    uint64_t kept = ech_diag_count(import->diag, "runs_of_programs"), left = ech_diag_count(import->diag, "runs_left_out");
    ck_assert_uint_eq(kept + left, 20000);
    ck_assert_uint_gt(left, 0);
    ck_assert_uint_lt(ech_trace_n_ops(import->trace), (1 << 22) + 6 * 20000); /* results of those that are left out are allocated */
}
END_TEST

static EchBytes bytes_of(const EchLayout *shape)
{
    return shape->space == ECH_SPACE_HOST ? ech_layout_dense_bytes(shape) : ech_layout_padded_bytes(shape, ECH_LAYOUT_TPU);
}

static void add_array(GString *text, uint64_t number, const EchLayout *shape)
{
    g_autofree char *printed = ech_layout_print(shape);
    g_string_append_printf(text, "array 1 %" G_GUINT64_FORMAT " 0 %d %" G_GUINT64_FORMAT " \"%s\"\n", number, shape->space == ECH_SPACE_HOST, bytes_of(shape),
                           printed);
}

/* The program that lies in folder @name of the capture, run twice: what it is given it is given again, unless it lies in a result's place now. */
static void run_twice(GString *text, const char *name, const TpuHeader *header)
{
    g_string_append_printf(text, "program 1 1 0 \"%s\"\n", name);
    uint64_t next = 1;
    g_autofree uint64_t *arguments = g_new(uint64_t, header->parameters->len + 1), *before = g_new(uint64_t, header->parameters->len + 1);
    for (guint k = 0; k < header->parameters->len; k++) {
        arguments[k] = next++;
        add_array(text, arguments[k], &g_array_index(header->parameters, EchLayout, k));
    }
    for (unsigned n = 0; n < 2; n++) {
        g_autoptr(GString) run = g_string_new(NULL);
        memcpy(before, arguments, header->parameters->len * sizeof *before);
        g_string_append_printf(run, "run 1 0 1 %u", header->parameters->len);
        for (guint k = 0; k < header->parameters->len; k++)
            g_string_append_printf(run, " %" G_GUINT64_FORMAT, arguments[k]);
        g_string_append_printf(run, " %u", header->results->len);
        for (guint k = 0; k < header->results->len; k++) {
            int32_t place = g_array_index(header->places, int32_t, k);
            add_array(text, next, &g_array_index(header->results, EchLayout, k));
            g_string_append_printf(run, " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, place >= 0 ? before[place] : 0, next);
            if (place >= 0)
                arguments[place] = next;
            next++;
        }
        g_string_append_printf(text, "%s\n", run->str);
    }
    for (uint64_t number = 1; number < next; number++)
        g_string_append_printf(text, "free 1 %" G_GUINT64_FORMAT "\n", number);
    g_string_append(text, "end\n");
}

/* Puts a shipped program among the capture's as @name; its header, to be cleared by the caller. */
static TpuHeader add_program(const char *program, const char *name)
{
    g_autofree char *from = g_strdup_printf("%s/traces/%s", ECH_SOURCE_DIR, program), *hlo = g_build_filename(from, "program.hlo.txt.gz", NULL);
    g_autofree char *link = g_strdup_printf("%s/x.1.programs/%s", folder, name);
    ck_assert_int_eq(symlink(from, link), 0);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_open(hlo, &error);
    ck_assert_ok(source, error);
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, &error);
    ck_assert_ok(bytes, error);
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autofree char *line = g_strndup(data, (gsize)((const char *)memchr(data, '\n', n) - data));
    TpuHeader header;
    ck_assert_msg(tpu_header_read(line, &header), "%s", program);
    return header;
}

/* Every shipped program of a TPU's compiler can stand in a process, with its loops, its arrays on the host, its donations: twice it takes twice as long, and no
 * array is held that was freed. */
START_TEST(every_program)
{
    static const char *const names[] = {"adam_moments.v5e",
                                        "adam_none.v6e",
                                        "cache_carry.v5e",
                                        "cache_scan.v5e",
                                        "decode_64.v5e",
                                        "gpt_everything.v6e",
                                        "gpt_offload.v5e",
                                        "mlp_activations.v5e",
                                        "mlp_none.v6e",
                                        "mlp_parameters.v5e",
                                        "ragged_copies.v5e",
                                        "sharded_mlp.v6e",
                                        "splash_attention.v6e",
                                        "checkpointed/llama_scan.v5p",
                                        "checkpointed/moe_scan.v6e"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *from = g_strdup_printf("%s/traces/%s", ECH_SOURCE_DIR, names[i]), *name = g_strdup_printf("p%zu", i),
                        *device = ech_test_device_of(names[i]);
        TpuHeader header = add_program(names[i], name);
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_append_printf(text, "echelon-pretend-tpu 1\nclock 5\ndevice 1 1 \"%s\"\n", device);
        run_twice(text, name, &header);
        tpu_header_clear(&header);
        g_autofree char *path = written(text->str);
        EchResult *two = ech_test_run(&(EchExperimentOverrides){.trace = path, .device = device}),
                  *one = ech_test_run(&(EchExperimentOverrides){.trace = from, .device = device});
        EchTime alone = one->run->makespan, both = two->run->makespan;
        ck_assert_msg(both >= alone * 19 / 10 && both <= alone * 21 / 10, "%s: %" G_GINT64_FORMAT " ps, by itself %" G_GINT64_FORMAT, names[i], both, alone);
        ech_result_free(two);
        ech_result_free(one);
    }
}
END_TEST

/* Processes of one run meet in the collectives that are all of theirs, as often as they come to one. */
START_TEST(ranks_meet)
{
    TpuHeader header = add_program("checkpointed/gpt_split.v6e", "split");
    size_t met[2] = {0, 0};
    for (unsigned ranks = 1; ranks <= 8; ranks += 7) {
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_append_printf(text, "echelon-pretend-tpu 1\nclock 5\ndevice 1 1 \"tpu-v6e\"\nrank 0 %u\n", ranks);
        run_twice(text, "split", &header);
        g_autoptr(EchImport) import = read_text(text->str);
        for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++) {
            const EchOp *op = &ech_trace_ops(import->trace)[i];
            g_autofree char *word = g_strdup_printf(" meets=8/%zu", met[ranks == 8]);
            met[ranks == 8] += op->kind == ECH_OP_COLLECTIVE && op->launch != ECH_NONE && g_str_has_suffix(ech_trace_string(import->trace, op->launch), word);
        }
    }
    tpu_header_clear(&header);
    ck_assert_uint_eq(met[0], 0); /* of a process alone */
    ck_assert_uint_gt(met[1], 4);
    ck_assert_uint_eq(met[1] % 2, 0); /* twice the same */
}
END_TEST

/* The first line of a module's text. */
START_TEST(headers)
{
    TpuHeader header;
    ck_assert(tpu_header_read("HloModule jit_f, is_scheduled=true, input_output_alias={ {1}: (2, {}, may-alias), {0}: (0, {}, must-alias) }, "
                              "entry_computation_layout={(bf16[1024,256]{1,0:T(8,128)(2,1)}, /*index=1*/f32[]{:T(128)}, s32[8]{0:T(128)S(5)})->"
                              "(bf16[1024,256]{1,0:T(8,128)(2,1)}, s32[8]{0:T(128)S(5)}, pred[4]{0:T(512)(128)(4,1)})}, num_partitions=4",
                              &header));
    ck_assert_uint_eq(header.parameters->len, 3);
    ck_assert_uint_eq(header.results->len, 3);
    ck_assert_uint_eq(ech_layout_padded_bytes(&g_array_index(header.parameters, EchLayout, 0), ECH_LAYOUT_TPU), 524288);
    ck_assert_int_eq(g_array_index(header.results, EchLayout, 1).space, 5);
    const int32_t places[] = {0, 2, -1};
    ck_assert_mem_eq(header.places->data, places, sizeof places);
    tpu_header_clear(&header);
    ck_assert(tpu_header_read("HloModule one, entry_computation_layout={()->f32[8,128]{1,0:T(8,128)}}", &header));
    ck_assert_uint_eq(header.parameters->len, 0);
    ck_assert_uint_eq(header.results->len, 1);
    tpu_header_clear(&header);
    static const char *const wrong[] = {"",
                                        "HloModule x, is_scheduled=true",
                                        "HloModule x, entry_computation_layout={(f32[2]{0})->",
                                        "HloModule x, entry_computation_layout={(f32[2]{0}->f32[2]{0})}",
                                        "HloModule x, entry_computation_layout={(f32[2]{0})->(f32[2]{0}, (f32[2]{0}))}",
                                        "HloModule x, entry_computation_layout={(f32[2]{0} f32[2])->f32[2]{0}}",
                                        "HloModule x, input_output_alias={ {3}: (0, {}, may-alias) }, entry_computation_layout={(f32[2]{0})->f32[2]{0}}",
                                        "HloModule x, input_output_alias={ {0}: (1, {}, may-alias) }, entry_computation_layout={(f32[2]{0})->f32[2]{0}}",
                                        "HloModule x, input_output_alias={ {0} }, entry_computation_layout={(f32[2]{0})->f32[2]{0}}"};
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
        ck_assert_msg(!tpu_header_read(wrong[i], &header), "%s", wrong[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretend_tpu");
    TCase *tc = tcase_create("pretend_tpu");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, steps_are_the_programs);
    tcase_add_test(tc, what_is_told);
    tcase_add_test(tc, without_its_programs);
    tcase_add_test(tc, between_memories);
    tcase_add_test(tc, what_is_wrong);
    tcase_add_test(tc, no_end_of_runs);
    tcase_add_test(tc, every_program);
    tcase_add_test(tc, ranks_meet);
    tcase_add_test(tc, headers);
    suite_add_tcase(suite, tc);
    return ech_test_main(suite);
}
