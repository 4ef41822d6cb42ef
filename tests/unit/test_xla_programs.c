/* XLA's programs beside recordings of what they ran: which kernel is which program's, and which of its instructions. */
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "sim/import/xplane.h"
#include "sim/trace/step.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

/* A sum, a product of cuBLAS and a negation of arrays of @n floats; "shared" is in every program. */
static const char program_text[] = "HloModule %s, is_scheduled=true\n\n"
                                   "%%f (p: f32[%u]) -> f32[%u] {\n  %%p = f32[%u]{0} parameter(0)\n  ROOT %%a = f32[%u]{0} add(%%p, %%p)\n}\n\n"
                                   "%%g (p: f32[%u]) -> f32[%u] {\n  %%p = f32[%u]{0} parameter(0)\n  ROOT %%a = f32[%u]{0} negate(%%p)\n}\n\n"
                                   "ENTRY %%main (x: f32[%u]) -> f32[%u] {\n  %%x = f32[%u]{0} parameter(0)\n"
                                   "  %%%s = f32[%u]{0} fusion(%%x), kind=kLoop, calls=%%f\n"
                                   "  %%call.1 = f32[%u]{0} custom-call(%%%s), custom_call_target=\"own_call\"\n"
                                   "  ROOT %%shared = f32[%u]{0} fusion(%%call.1), kind=kLoop, calls=%%g\n}\n";

/* A folder of programs as XLA dumps them: module 1 jit_a and module 2 jit_b, of 1024 and @n floats, and what is none. */
static char *dump(unsigned n)
{
    char *folder = g_dir_make_tmp("dump-XXXXXX", NULL);
    ck_assert_ptr_nonnull(folder);
    const struct {
        const char *file, *module, *sum;
        unsigned n;
    } programs[] = {{"module_0001.jit_a.sm_9.0_gpu_after_optimizations.txt", "jit_a", "sum.a", 1024},
                    {"module_0002.jit_b.sm_9.0_gpu_after_optimizations.txt", "jit_b", "sum.b", n},
                    {"module_0002.jit_b.before_optimizations.txt", "jit_c", "sum.c", 7}};
    for (size_t i = 0; i < G_N_ELEMENTS(programs); i++) {
        unsigned k = programs[i].n;
        g_autofree char *path = g_build_filename(folder, programs[i].file, NULL);
        g_autofree char *text = g_strdup_printf(program_text, programs[i].module, k, k, k, k, k, k, k, k, k, k, k, programs[i].sum, k, k, programs[i].sum, k);
        ck_assert(g_file_set_contents(path, text, -1, NULL));
    }
    return folder;
}

static EchImport *read_with(const char *path, const char *text, const char *beside, GError **error)
{
    g_autoptr(EchSource) source = text ? ech_source_new_memory((const uint8_t *)text, strlen(text), "text") : ech_source_open(path, error);
    EchImportOptions options = {.beside = beside};
    return source ? ech_import_source(source, NULL, &options, error) : NULL;
}

/* "sum_a:4096 own:- shared:12": bytes read of each kernel, in order; "-" where they are not known. */
static char *reads(const EchTrace *t)
{
    GString *out = g_string_new(NULL);
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        if (op->kind != ECH_OP_KERNEL)
            continue;
        EchBytes read = 0;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
            read += ech_trace_uses(t)[u].access == ECH_READ ? ech_trace_uses(t)[u].bytes : 0;
        g_string_append_printf(out, "%s%s:", out->len ? " " : "", ech_trace_string(t, op->name));
        if (op->n_uses)
            g_string_append_printf(out, "%" G_GUINT64_FORMAT, read);
        else
            g_string_append_c(out, '-');
    }
    return g_string_free(out, FALSE);
}

#define MODULE(start, id, name, number) "mark " start " " id " 2 \"XlaModule:#prefix=x,hlo_module=" name ",program_id=" number "#\"\n"
#define END(time, id) "mark " time " " id " 4 \"\"\n"
#define KERNEL(start, end, name) "kernel " start " " end " 0 7 1 8 1 1 128 1 1 \"" name "\"\n"
#define CAPTURE(lines) "echelon-capture 1\nclock 0 1790000000000000000\n" lines "dropped 0 0\nend\n"

/* A run of each, and what is of neither. */
#define ONE_AFTER_OTHER                                                                                                                                        \
    CAPTURE(MODULE("1000", "1", "jit_a", "1") END("1500", "1") KERNEL("2000", "2100", "sum_a") KERNEL("2200", "2300", "lib") KERNEL("2400", "2500", "shared")  \
                MODULE("3000", "2", "jit_b", "2") END("3500", "2") KERNEL("4000", "4100", "sum_b") KERNEL("4200", "4300", "lib")                               \
                    KERNEL("4400", "4500", "shared") KERNEL("4600", "4700", "alien"))
/* The host was at jit_b before the device began jit_a. */
#define AHEAD                                                                                                                                                  \
    CAPTURE(MODULE("1000", "1", "jit_a", "1") END("1100", "1") MODULE("1200", "2", "jit_b", "2") END("1300", "2") KERNEL("2000", "2100", "sum_a")              \
                KERNEL("2200", "2300", "lib") KERNEL("2400", "2500", "shared") KERNEL("4000", "4100", "sum_b") KERNEL("4200", "4300", "lib")                   \
                    KERNEL("4400", "4500", "shared"))
#define NO_RANGES CAPTURE(KERNEL("2000", "2100", "sum_a") KERNEL("2400", "2500", "shared"))
/* The same by rocprofv3. */
#define ROCPROF                                                                                                                                                \
    "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\","                         \
    "\"Start_Timestamp\",\"End_Timestamp\"\n"                                                                                                                  \
    "\"KERNEL_DISPATCH\",\"Agent 1\",3,1,5,0,0,\"sum_a.kd\",11,125,160\n\"KERNEL_DISPATCH\",\"Agent 1\",3,1,5,1,1,\"shared.kd\",12,170,290\n"
/* A program that is not there. */
#define OTHER CAPTURE(MODULE("1000", "1", "jit_z", "9") END("1500", "1") KERNEL("2000", "2100", "sum_a"))

static const struct {
    const char *capture;
    unsigned n; /* floats of jit_b's arrays, jit_a has 1024 */
    const char *reads;
    unsigned found, several, unknown;
} captures[] = {
    {ONE_AFTER_OTHER, 2048, "sum_a:4096 lib:4096 shared:4096 sum_b:8192 lib:8192 shared:8192 alien:-", 6, 0, 1},
    {AHEAD, 2048, "sum_a:4096 lib:- shared:- sum_b:8192 lib:8192 shared:8192", 4, 1, 1},
    {AHEAD, 1024, "sum_a:4096 lib:4096 shared:4096 sum_b:4096 lib:4096 shared:4096", 6, 0, 0},
    {NO_RANGES, 2048, "sum_a:4096 shared:-", 1, 1, 0},
    {NO_RANGES, 1024, "sum_a:4096 shared:4096", 2, 0, 0},
    {ROCPROF, 2048, "sum_a:4096 shared:-", 1, 1, 0},
    {OTHER, 2048, "sum_a:-", 0, 0, 1},
};

START_TEST(kernels_by_name)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = dump(captures[_i].n);
    g_autoptr(EchImport) import = read_with(NULL, captures[_i].capture, folder, &error);
    ck_assert_ok(import, error);
    g_autofree char *text = reads(import->trace);
    ck_assert_str_eq(text, captures[_i].reads);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernel_traffic_from_programs"), captures[_i].found);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_in_several_programs"), captures[_i].several);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_not_in_programs"), captures[_i].unknown);
    ck_assert_uint_eq(ech_diag_count(import->diag, "programs_beside"), 2);
    ck_assert(!ech_test_says(import->diag, "xla_dump_to"));
    ck_assert(ech_test_says(import->diag, captures[_i].found ? "kernels move and compute is told by the programs beside"
                                                             : "none of the recording's 1 kernels has the name of one"));
}
END_TEST

/* Three instructions that XLA says are twins of the first; their kernels have the names of the last, which was compiled first, and of the second, compiled
 * again.
 */
START_TEST(kernels_of_twins)
{
#define TWIN(name, of) "  %" name " = f32[256]{0} fusion(%" of "), kind=kLoop, calls=%f, metadata={deduplicated_name=\"sum.1\"}\n"
    static const char text[] = "HloModule jit_t, is_scheduled=true\n\n"
                               "%f (p: f32[256]) -> f32[256] {\n  %p = f32[256]{0} parameter(0)\n  ROOT %a = f32[256]{0} add(%p, %p)\n}\n\n"
                               "ENTRY %main (x: f32[256]) -> f32[256] {\n  %x = f32[256]{0} parameter(0)\n" TWIN("sum.1", "x") TWIN("sum.2", "sum.1")
                                   TWIN("sum.3", "sum.2") "  ROOT %last = f32[256]{0} negate(%sum.3)\n}\n";
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = g_dir_make_tmp("twins-XXXXXX", NULL), *path = g_build_filename(folder, "jit_t.hlo.txt", NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    g_autoptr(EchImport) import =
        read_with(NULL, CAPTURE(KERNEL("2000", "2100", "sum_3") KERNEL("2200", "2250", "sum_2") KERNEL("2300", "2400", "sum_3")), path, &error);
    ck_assert_ok(import, error);
    g_autofree char *read = reads(import->trace);
    ck_assert_str_eq(read, "sum_3:1024 sum_2:1024 sum_3:1024");
}
END_TEST

/* Where calls are recorded a kernel is the program's, and the instruction's, in whose range its call lies; the host may be as far ahead as it likes. */
START_TEST(kernels_by_calls)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = dump(2048);
    g_autoptr(GString) sql = g_string_new(
        "CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1,'shared'),(2,'cublas'),(3,'cudaLaunchKernel');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
        " shortName INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000,5100,0,7,1,0,2),(5200,5300,0,7,2,0,1),(5400,5500,0,7,3,0,1),(5600,5700,0,7,4,0,2);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1020,1030,0,1,3),(1060,1070,0,2,3),(2020,2030,0,3,3),(3000,3010,0,4,3);"
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, eventType INTEGER, globalTid INTEGER);"
        "INSERT INTO NVTX_EVENTS VALUES (1000,1100,'XlaModule:#hlo_module=jit_a,program_id=1#',59,0),"
        "(1010,1040,'Thunk:#name=jit(a)/dot,hlo_op=call.1#',59,0),(2000,2100,'XlaModule:#hlo_module=jit_b,program_id=2#',59,0);");
    for (int i = 0; i < 200; i++) /* a run has many instructions */
        g_string_append_printf(sql, "INSERT INTO NVTX_EVENTS VALUES (%d,%d,'Thunk:#name=x,hlo_op=other.%d#',59,0);", 1041 + i / 20, 1042 + i / 20, i);
    g_autofree char *path = ech_test_database(sql->str);
    g_autoptr(EchImport) import = read_with(path, NULL, folder, &error);
    ck_assert_ok(import, error);
    g_autofree char *text = reads(import->trace);
    ck_assert_str_eq(text, "cublas:4096 shared:4096 shared:8192 cublas:-");
}
END_TEST

/* Runs are steps where what the device does is known to be the run's: it had nothing left to do when one began. */
START_TEST(runs_are_steps)
{
#define RUN(from, first, last, id) MODULE(from "000", id, "jit_a", "1") END(from "100", id) KERNEL(from first, from last, "sum_a")
    size_t n;
    g_autoptr(EchImport) idle = read_with(NULL, CAPTURE(RUN("1", "200", "900", "1") RUN("2", "200", "900", "2") RUN("3", "200", "900", "3")), NULL, NULL);
    g_autofree EchTraceStep *steps = ech_trace_steps(idle->trace, &n);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(ech_trace_string(idle->trace, ech_trace_ops(idle->trace)[steps[0].mark].name), "jit_a(1)");
    ck_assert(ech_test_says(idle->diag, "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto', and give --beside DIR"));
    g_autoptr(EchImport) busy = read_with(
        NULL, CAPTURE(RUN("1", "200", "900", "1") RUN("2", "200", "900", "2") KERNEL("2950", "3050", "sum_a") RUN("3", "200", "900", "3")), NULL, NULL);
    g_autofree EchTraceStep *none = ech_trace_steps(busy->trace, &n);
    ck_assert_uint_eq(n, 0);
}
END_TEST

/* A step of JAX on an H100, recorded by CUPTI and, in another run, by JAX's profiler, which has the program: kernel by kernel the same. */
START_TEST(an_h100s)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) profile = ech_source_open(ECH_SOURCE_DIR "/traces/gpu_h100-sxm/jax_profile.xplane.pb.gz", NULL);
    g_autofree char *name = NULL, *folder = g_dir_make_tmp("program-XXXXXX", NULL), *path = g_build_filename(folder, "step.hlo.pb", NULL);
    g_autoptr(GBytes) program = ech_xplane_program(profile, "jit_step", &name, &error);
    ck_assert_ok(program, error);
    gsize n;
    const char *data = g_bytes_get_data(program, &n);
    ck_assert(g_file_set_contents(path, data, (gssize)n, NULL));
    g_autoptr(EchImport) cupti = read_with(ECH_SOURCE_DIR "/traces/gpu_h100-sxm/jax_cupti.1671.capture.gz", NULL, path, &error);
    ck_assert_ok(cupti, error);
    ck_assert_uint_eq(ech_diag_count(cupti->diag, "kernel_traffic_from_programs"), 460);
    ck_assert_uint_eq(ech_diag_count(cupti->diag, "kernels_not_in_programs"), 20); /* those that make the arrays */
    g_autoptr(EchImport) xplane = ech_test_import(ECH_SOURCE_DIR "/traces/gpu_h100-sxm/jax_profile.xplane.pb.gz", NULL);
    const EchTrace *traces[] = {cupti->trace, xplane->trace};
    unsigned compared = 0;
    for (size_t i = 0; i < ech_trace_n_ops(traces[0]); i++) {
        const EchOp *ops[] = {&ech_trace_ops(traces[0])[i], NULL};
        if (ops[0]->kind != ECH_OP_KERNEL || ops[0]->n_work == 0)
            continue;
        ops[1] = ech_test_op(traces[1], ECH_OP_KERNEL, ech_trace_string(traces[0], ops[0]->name));
        EchBytes bytes[2] = {0};
        uint64_t counts[2] = {0};
        for (int k = 0; k < 2; k++) {
            for (uint32_t u = ops[k]->first_use; u < ops[k]->first_use + ops[k]->n_uses; u++)
                bytes[k] += ech_trace_uses(traces[k])[u].bytes;
            for (uint32_t w = ops[k]->first_work; w < ops[k]->first_work + ops[k]->n_work; w++)
                counts[k] += ech_trace_work(traces[k])[w].count;
        }
        ck_assert_uint_eq(bytes[0], bytes[1]);
        ck_assert_uint_eq(counts[0], counts[1]);
        compared++;
    }
    ck_assert_uint_eq(compared, 452); /* eight fill arrays */
    /* The host was ahead by two runs: they are steps all the same, for each has as many kernels, as the profile tells. */
    size_t n_steps;
    g_autofree EchTraceStep *steps = ech_trace_steps(cupti->trace, &n_steps);
    ck_assert_uint_eq(n_steps, 4);
    for (size_t i = 0; i < n_steps; i++) {
        const EchOp *mark = &ech_trace_ops(cupti->trace)[steps[i].mark];
        unsigned kernels = 0;
        for (EchId op = steps[i].mark; op < steps[i].end; op++)
            kernels += ech_trace_ops(cupti->trace)[op].kind == ECH_OP_KERNEL;
        ck_assert_uint_eq(kernels, 125);
        ck_assert_int_ge(mark->recorded.duration, 7600 * ECH_PS_PER_US);
        ck_assert_int_le(mark->recorded.duration, 8000 * ECH_PS_PER_US);
    }
}
END_TEST

START_TEST(what_is_no_program)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = g_dir_make_tmp("empty-XXXXXX", NULL),
                    *path = g_build_filename(folder, "module_0001.jit_a.sm_9.0_gpu_after_optimizations.txt", NULL);
    ck_assert_ptr_null(read_with(NULL, NO_RANGES, folder, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "a folder without a program"));
    g_clear_error(&error);
    ck_assert(g_file_set_contents(path, "HloModule jit_a, is_scheduled=true\n\nENTRY %main (", -1, NULL));
    ck_assert_ptr_null(read_with(NULL, NO_RANGES, folder, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "no program that XLA compiled can be read there"));
    g_clear_error(&error);
    ck_assert_ptr_null(read_with(NULL, NO_RANGES, ECH_SOURCE_DIR "/tests/fuzz/corpus/cupti/small.capture", &error));
    ck_assert_ptr_nonnull(strstr(error->message, "a cupti file cannot be merged with a cupti file"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xla_programs");
    TCase *tcase = tcase_create("xla_programs");
    tcase_add_loop_test(tcase, kernels_by_name, 0, G_N_ELEMENTS(captures));
    tcase_add_test(tcase, kernels_of_twins);
    tcase_add_test(tcase, kernels_by_calls);
    tcase_add_test(tcase, runs_are_steps);
    tcase_add_test(tcase, an_h100s);
    tcase_add_test(tcase, what_is_no_program);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
