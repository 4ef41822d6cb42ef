/* Our CUPTI library from injection to imported trace, over a fake CUPTI. */
#include "sim/import/import.h"
#include "sim/trace/select.h"
#include "tests/support/support.h"
#include "traces/capture/cupti_abi.h"

#include <check.h>
#include <dlfcn.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY ECH_BINARY_DIR "/lib/echelon/libechelon_capture.so"
#define FAKE ECH_BINARY_DIR "/tests/libfake_cupti.so"
#define FAKE_DRIVER ECH_BINARY_DIR "/tests/libfake_cuda.so"

/* A driver that is loaded and has started, as whoever injects is. */
static bool start_driver(void)
{
    g_setenv("ECHELON_LIBCUDA", FAKE_DRIVER, TRUE);
    g_setenv("ECH_FAKE_CUDA_NAME", "NVIDIA L40S \"x\"", TRUE);
    void *driver = dlopen(FAKE_DRIVER, RTLD_NOW), *found = driver ? dlsym(driver, "cuInit") : NULL;
    int (*start)(unsigned);
    memcpy(&start, &found, sizeof found);
    return found && start(0) == 0;
}

/* Injects the library in a process of its own, as the driver would, and lets it end. @forks: it makes a process of its own first, which ends like any other;
 * @killed: it ends without its exit handlers. */
static int injected_into(const char *out, bool forks, bool killed)
{
    pid_t child = fork();
    if (child == 0) {
        g_setenv("ECHELON_LIBCUPTI", FAKE, TRUE);
        g_setenv("ECHELON_CAPTURE_OUT", out, TRUE);
        void *library = dlopen(LIBRARY, RTLD_NOW);
        void *found = library ? dlsym(library, "InitializeInjection") : NULL;
        int (*inject)(void);
        memcpy(&inject, &found, sizeof found);
        if (!found || !start_driver() || !dlopen("libstdc++.so.6", RTLD_NOW) || inject() != 1)
            _exit(9);
        void *nvtx = dlsym(library, "InitializeInjectionNvtx2");
        int (*pass_on)(void *);
        memcpy(&pass_on, &nvtx, sizeof nvtx);
        if (!nvtx || pass_on(NULL) != 2)
            _exit(8);
        pid_t grandchild = forks ? fork() : -1;
        if (grandchild > 0 && waitpid(grandchild, NULL, 0) != grandchild)
            _exit(7);
        if (killed)
            _exit(0);
        exit(0); /* Runs the exit handler that writes the capture */
    }
    int status;
    waitpid(child, &status, 0);
    return status;
}

static int injected(const char *out)
{
    return injected_into(out, false, false);
}

static char *temporary(void)
{
    char *path = g_build_filename(g_get_tmp_dir(), "echelon-test-XXXXXX", NULL);
    int fd = g_mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    return path;
}

START_TEST(capture_is_imported)
{
    g_autofree char *path = temporary();
    ck_assert_int_eq(injected(path), 0);
    g_autoptr(GError) error = NULL;
    EchImportOptions options = {0};
    g_autoptr(EchImport) import = ech_import_file(path, NULL, &options, &error);
    g_unlink(path);
    ck_assert_ok(import != NULL, error);
    ck_assert_str_eq(import->format, "cupti");
    ck_assert_str_eq(ech_trace_get_property(import->trace, "device.0.name"), "NVIDIA L40S \"x\"");
    ck_assert_uint_eq(ech_diag_count(import->records, "CONCURRENT_KERNEL"), 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "records_dropped_by_cupti"), 7);
    ck_assert_uint_eq(ech_diag_count(import->diag, "captures_without_end"), 0);
    unsigned kernels = 0, copies = 0, allocs = 0, frees = 0, marks = 0;
    for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++) {
        const EchOp *op = &ech_trace_ops(import->trace)[i];
        const char *name = ech_trace_string(import->trace, op->name);
        if (op->kind == ECH_OP_KERNEL) {
            static const char *const names[] = {"add(float \"x\")", "void at::native::fill<float>(float*, int)"};
            ck_assert_uint_lt(kernels, G_N_ELEMENTS(names));
            ck_assert_str_eq(name, names[kernels]);
            ck_assert_int_eq(op->recorded.duration, kernels == 0 ? 1500 * ECH_PS_PER_NS : 0);
            kernels++;
        } else if (op->kind == ECH_OP_COPY) {
            bool between = ech_trace_copy_between(import->trace, op);
            copies++;
            ck_assert_uint_eq(op->bytes, between ? 8192 : 4096);
            ck_assert_str_eq(name, between ? "Memcpy PtoP (Device -> Device)" : "Memcpy HtoD (Pinned -> Device)");
        } else if (op->kind == ECH_OP_MARK && strcmp(name, "step") == 0) {
            marks++;
            ck_assert_int_eq(op->recorded.duration, 4000 * ECH_PS_PER_NS);
        }
        allocs += op->kind == ECH_OP_ALLOC;
        frees += op->kind == ECH_OP_FREE;
    }
    ck_assert_uint_eq(kernels, 2);
    ck_assert_uint_eq(copies, 2);
    ck_assert_uint_eq(allocs, 1);
    ck_assert_uint_eq(frees, 1);
    ck_assert_uint_eq(marks, 1);
    const EchOp *wait = ech_test_op(import->trace, ECH_OP_WAIT, "Synchronize context"); /* of the GPU whose context it names */
    ck_assert_uint_eq(ech_trace_queues(import->trace)[wait->queue].device, 1);
}
END_TEST

START_TEST(another_profiler_is_named_and_harmless)
{
    static const char *const refusals[] = {"ECH_FAKE_CUPTI_HELD", "ECH_FAKE_CUPTI_NO_GPU"};
    g_autofree char *path = temporary();
    g_setenv(refusals[_i], "1", TRUE);
    ck_assert_int_eq(injected(path), 0);
    g_autofree char *text = NULL;
    size_t n;
    ck_assert(g_file_get_contents(path, &text, &n, NULL));
    g_unlink(path);
    ck_assert_uint_eq(n, 0);
}
END_TEST

/* A profiler that the program starts itself is taken in by CUPTI, and gets what is recorded from then on. */
START_TEST(a_profiler_of_the_program_takes_over)
{
    g_autofree char *path = temporary();
    g_setenv("ECH_FAKE_CUPTI_TAKEN", "1", TRUE);
    ck_assert_int_eq(injected(path), 0);
    g_autoptr(EchImport) import = ech_test_import(path, NULL);
    g_unlink(path);
    ck_assert_uint_eq(ech_diag_count(import->records, "MEMCPY"), 1);
    ck_assert_uint_eq(ech_diag_count(import->records, "CONCURRENT_KERNEL"), 0);
    ck_assert(g_str_has_prefix(ech_diag_remarks(import->diag)[0], "the capture has no kernel: "));
}
END_TEST

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

/* A data loader's workers: made by fork() after the driver had started, they end by exit() and must write nothing. */
START_TEST(children_write_nothing)
{
    g_autofree char *path = temporary(), *text = NULL;
    ck_assert_int_eq(injected_into(path, true, false), 0);
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_unlink(path);
    ck_assert_uint_eq(count(text, "echelon-capture 1\n"), 1);
    ck_assert_uint_eq(count(text, "kernel "), 2);
    ck_assert_uint_eq(count(text, " 0 7 21 8192 0 1 1\n"), 1); /* the copy to device 1, of its own kind */
    ck_assert_uint_eq(count(text, "\nend\n"), 1);
}
END_TEST

/* What was complete is there, and its missing end is said. */
START_TEST(a_killed_program_leaves_what_it_did)
{
    g_autofree char *path = temporary(), *text = NULL;
    ck_assert_int_eq(injected_into(path, false, true), 0);
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    ck_assert(g_str_has_prefix(text, "echelon-capture 1\nclock "));
    ck_assert_uint_eq(count(text, "\nend\n"), 0);
    g_unlink(path);
}
END_TEST

/* ---- threads, and files that cannot be written ---- */

static CuptiResult (*deliver)(void);

/* Injects the library into this process, and finds out how to have records delivered. */
static bool inject_here(const char *out)
{
    g_setenv("ECHELON_LIBCUPTI", FAKE, TRUE);
    g_setenv("ECHELON_CAPTURE_OUT", out, TRUE);
    void *library = dlopen(LIBRARY, RTLD_NOW), *found = library ? dlsym(library, "InitializeInjection") : NULL;
    int (*inject)(void);
    memcpy(&inject, &found, sizeof found);
    if (!found || inject() != 1 || dlclose(library) != 0 || !dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD)) /* it stays: a thread of its own runs in it */
        return false;
    found = dlsym(dlopen(FAKE, RTLD_NOW | RTLD_NOLOAD), "fake_cupti_deliver");
    memcpy(&deliver, &found, sizeof found);
    return found != NULL;
}

enum { DELIVERING = 4, DELIVERIES = 100 };
static void *deliver_many(void *data)
{
    for (int i = 0; i < DELIVERIES || GPOINTER_TO_INT(data) < 0; i++) {
        if (deliver() != 0)
            _exit(6);
        if (i % 25 == GPOINTER_TO_INT(data)) {
            pid_t child = fork();
            if (child == 0)
                _exit(deliver() == 0 ? 0 : 5); /* what is recorded there is nobody's */
            int status;
            if (waitpid(child, &status, 0) != child || status != 0)
                _exit(5);
        }
    }
    return NULL;
}

/* @leave: the main thread leaves while the others go on. */
static int delivered_by_threads(const char *out, bool leave)
{
    pid_t child = fork();
    if (child == 0) {
        pthread_t threads[DELIVERING];
        if (!inject_here(out))
            _exit(9);
        for (int i = 0; i < DELIVERING; i++)
            pthread_create(&threads[i], NULL, deliver_many, GINT_TO_POINTER(leave ? -1 : i));
        for (int i = 0; i < DELIVERING && !leave; i++)
            pthread_join(threads[i], NULL);
        if (leave)
            g_usleep(20000);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return status;
}

START_TEST(threads_deliver_records_at_once)
{
    g_autofree char *path = temporary(), *text = NULL;
    ck_assert_int_eq(delivered_by_threads(path, _i == 1), 0);
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_autoptr(EchImport) import = ech_test_import(path, NULL);
    g_unlink(path);
    ck_assert_uint_eq(ech_diag_count(import->diag, "captures_without_end"), 0);
    if (_i == 0)
        ck_assert_uint_eq(count(text, "\nkernel "), 2 * (DELIVERING * DELIVERIES + 1));
}
END_TEST

/* The program goes on; the file holds what there was room for, and nothing behind the gap. */
START_TEST(a_file_that_is_full_is_no_end_of_the_program)
{
    enum { ROOM = 700 };
    g_autofree char *path = temporary(), *text = NULL;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit;
        if (!inject_here(path) || getrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(9);
        const struct rlimit little = {ROOM, limit.rlim_max};
        setrlimit(RLIMIT_FSIZE, &little);
        for (int i = 0; i < 5; i++)
            if (deliver() != 0)
                _exit(8);
        setrlimit(RLIMIT_FSIZE, &limit);
        exit(deliver());
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    size_t n;
    ck_assert(g_file_get_contents(path, &text, &n, NULL));
    ck_assert_uint_eq(n, ROOM);
    ck_assert_uint_eq(count(text, "\nend\n"), 0);
    g_autoptr(EchImport) import = ech_test_import(path, NULL);
    ck_assert_uint_eq(ech_diag_count(import->diag, "captures_without_end"), 1);
    g_unlink(path);
}
END_TEST

/* The counters of unified memory, which a driver may refuse while it starts: asked for again once it runs, and told where it refuses still or the program was
 * over before. */
static const struct {
    const char *granted; /* The request that is */
    unsigned seconds;    /* The program's */
    unsigned n_moved, n_refused;
} unified[] = {{"1", 0, 1, 0}, {"2", 2, 1, 0}, {"2", 0, 0, 1}, {"9", 3, 0, 1}};

START_TEST(counters_of_unified_memory_are_asked_for_again)
{
    g_autofree char *path = temporary(), *text = NULL;
    pid_t child = fork();
    if (child == 0) {
        g_setenv("ECH_FAKE_CUPTI_UNIFIED", unified[_i].granted, TRUE);
        if (!inject_here(path) || deliver() != 0)
            _exit(9);
        g_usleep(unified[_i].seconds * G_USEC_PER_SEC);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_autoptr(EchImport) import = ech_test_import(path, NULL);
    g_unlink(path);
    ck_assert_uint_eq(count(text, "\nrefused 25 15 \"CUPTI_ERROR_NOT_INITIALIZED\"\n"), unified[_i].n_refused);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kinds_of_record_cupti_refused"), unified[_i].n_refused);
    ck_assert_uint_ge(ech_diag_count(import->records, "UNIFIED_MEMORY_COUNTER"), unified[_i].n_moved);
    if (unified[_i].n_moved == 0)
        ck_assert_uint_eq(ech_diag_count(import->records, "UNIFIED_MEMORY_COUNTER"), 0);
    if (unified[_i].n_refused)
        ck_assert_str_eq(ech_diag_remarks(import->diag)[0],
                         "the capture has no migrations of unified memory: CUPTI refused them there (CUPTI_ERROR_NOT_INITIALIZED)");
}
END_TEST

static const struct {
    const char *text, *message;
} bad[] = {
    {"echelon-capture 1\nkernel 1 2\nend\n", "t:2: a kernel line; expected 11 numbers and a text"},
    {"echelon-capture 1\ncopy 1 2 3 4 5 6 7 8 x\nend\n", "t:2: a copy line; expected 9 numbers"},
    {"echelon-capture 1\nalloc 99999999999999999999 0 0 0 0 0 0 0\n", "t:2: a alloc line; expected 8 numbers"},
    {"echelon-capture 1\nnonsense\n", "t:2: 'nonsense' is no record; expected kernel, copy, alloc, ..."},
};

START_TEST(damage_is_refused)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)bad[_i].text, strlen(bad[_i].text), "t");
    EchImportOptions options = {0};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, &options, &error);
    ck_assert_ptr_null(import);
    ck_assert_str_eq(error->message, bad[_i].message);
}
END_TEST

static EchImport *imported(const char *text)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "t");
    EchImportOptions options = {0};
    g_autoptr(GError) error = NULL;
    EchImport *import = ech_import_source(source, NULL, &options, &error);
    ck_assert_ok(import != NULL, error);
    return import;
}

/* Variables of a program's modules, which nobody asked for by a call. */
START_TEST(static_variables_are_told)
{
    static const char text[] = "echelon-capture 1\nclock 1 1\nalloc 10 0 0 0 4096 256 3 0\nalloc 11 0 0 0 8192 4 6 0\nalloc 12 0 0 0 8448 8 7 0\n"
                               "kernel 20 30 0 7 1 1 1 1 32 1 1 \"k\"\nend\n";
    g_autoptr(EchImport) import = imported(text);
    static const char *const names[] = {"device", "static variables", "managed static variables"};
    ck_assert_uint_eq(ech_trace_n_buffers(import->trace), G_N_ELEMENTS(names));
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        ck_assert_str_eq(ech_trace_string(import->trace, ech_trace_buffers(import->trace)[i].name), names[i]);
}
END_TEST

/* XLA's ranges are told as what they are of. */
START_TEST(ranges_of_xla)
{
    static const struct {
        const char *text, *name;
    } ranges[] = {{"XlaModule:#prefix=args[0],hlo_module=jit_stage,program_id=1#", "jit_stage(1)"},
                  {"XlaModule:#hlo_module=jit_f#", "jit_f"},
                  {"XlaModule:#program_id=7#", "XlaModule:#program_id=7#"},
                  {"Thunk:#name=jit(step)/hlo_op=x/add,hlo_op=while.17,unique_hlo_op_id=47244640263#", "while.17"},
                  {"Thunk:#hlo_op=command_buffer_26#", "command_buffer_26"},
                  {"Thunk:#hlo_op=", "Thunk:#hlo_op="},
                  {"step 3", "step 3"}};
    g_autoptr(GString) text = g_string_new("echelon-capture 1\nclock 1 1\n");
    for (size_t i = 0; i < G_N_ELEMENTS(ranges); i++)
        g_string_append_printf(text, "mark %zu %zu 2 \"%s\"\nmark %zu %zu 4 \"\"\n", 10 + 2 * i, i, ranges[i].text, 11 + 2 * i, i);
    g_string_append(text, "kernel 50 60 0 7 1 1 1 1 32 1 1 \"k\"\nend\n");
    g_autoptr(EchImport) import = imported(text->str);
    size_t n = 0;
    for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++) {
        const EchOp *op = &ech_trace_ops(import->trace)[i];
        if (op->kind == ECH_OP_MARK && n < G_N_ELEMENTS(ranges))
            ck_assert_str_eq(ech_trace_string(import->trace, op->name), ranges[n++].name);
    }
    ck_assert_uint_eq(n, G_N_ELEMENTS(ranges));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("capture");
    TCase *tests = tcase_create("capture");
    tcase_add_test(tests, capture_is_imported);
    tcase_add_loop_test(tests, another_profiler_is_named_and_harmless, 0, 2);
    tcase_add_test(tests, a_profiler_of_the_program_takes_over);
    tcase_add_test(tests, children_write_nothing);
    tcase_add_test(tests, a_killed_program_leaves_what_it_did);
    tcase_add_loop_test(tests, threads_deliver_records_at_once, 0, 2);
    tcase_add_test(tests, a_file_that_is_full_is_no_end_of_the_program);
    tcase_add_loop_test(tests, counters_of_unified_memory_are_asked_for_again, 0, G_N_ELEMENTS(unified));
    tcase_add_test(tests, static_variables_are_told);
    tcase_add_test(tests, ranges_of_xla);
    tcase_add_loop_test(tests, damage_is_refused, 0, G_N_ELEMENTS(bad));
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
