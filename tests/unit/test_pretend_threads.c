/* The pretended GPU in programs of many threads: calls of all kinds at once, forks among them, exits and signals while threads run, libraries that are loaded
 * and unloaded; and what is left of a file that cannot be written. Under the preset `tsan` the sanitizer watches over them. */
#include "sim/import/import.h"
#include "tests/support/support.h"

#include <dlfcn.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY ECH_BINARY_DIR "/lib/echelon/libechelon_pretend.so"
#define DEVICE "id=h100-sxm;bytes=85899345920;devices=2;major=9;minor=0"
#define PAGE ((size_t)2 << 20)
enum { THREADS = 8, ROUNDS = 40 };

#define NEED(condition)                                                                                                                                        \
    do {                                                                                                                                                       \
        if (!(condition)) {                                                                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                                                    \
            _exit(99);                                                                                                                                         \
        }                                                                                                                                                      \
    } while (0)

typedef struct {
    unsigned x, y, z;
} Dim;
typedef struct {
    char bytes[128];
} UniqueId;

/* CALLS(X): X(member, symbol, result, parameters). */
#define CALLS(X)                                                                                                                                               \
    X(set_device, cudaSetDevice, int, (int device))                                                                                                            \
    X(memory_info, cudaMemGetInfo, int, (size_t *, size_t *))                                                                                                  \
    X(allocate, cudaMalloc, int, (void **, size_t))                                                                                                            \
    X(release, cudaFree, int, (void *))                                                                                                                        \
    X(allocate_pinned, cudaHostAlloc, int, (void **, size_t, unsigned))                                                                                        \
    X(release_pinned, cudaFreeHost, int, (void *))                                                                                                             \
    X(allocate_async, cudaMallocAsync, int, (void **, size_t, void *))                                                                                         \
    X(release_async, cudaFreeAsync, int, (void *, void *))                                                                                                     \
    X(copy, cudaMemcpy, int, (void *, const void *, size_t, int))                                                                                              \
    X(set, cudaMemsetAsync, int, (void *, int, size_t, void *))                                                                                                \
    X(attributes, cudaPointerGetAttributes, int, (void *, const void *))                                                                                       \
    X(make_stream, cudaStreamCreateWithFlags, int, (void **, unsigned))                                                                                        \
    X(end_stream, cudaStreamDestroy, int, (void *))                                                                                                            \
    X(wait_event, cudaStreamWaitEvent, int, (void *, void *, unsigned))                                                                                        \
    X(is_capturing, cudaStreamIsCapturing, int, (void *, int *))                                                                                               \
    X(make_event, cudaEventCreate, int, (void **))                                                                                                             \
    X(end_event, cudaEventDestroy, int, (void *))                                                                                                              \
    X(record, cudaEventRecord, int, (void *, void *))                                                                                                          \
    X(query, cudaEventQuery, int, (void *))                                                                                                                    \
    X(elapsed, cudaEventElapsedTime, int, (float *, void *, void *))                                                                                           \
    X(launch, cudaLaunchKernel, int, (const void *, Dim, Dim, void **, size_t, void *))                                                                        \
    X(begin_capture, cudaStreamBeginCapture, int, (void *, int))                                                                                               \
    X(end_capture, cudaStreamEndCapture, int, (void *, void **))                                                                                               \
    X(instantiate, cudaGraphInstantiate, int, (void **, void *, unsigned long long))                                                                           \
    X(launch_graph, cudaGraphLaunch, int, (void *, void *))                                                                                                    \
    X(end_instance, cudaGraphExecDestroy, int, (void *))                                                                                                       \
    X(end_graph, cudaGraphDestroy, int, (void *))                                                                                                              \
    X(reserve, cuMemAddressReserve, int, (void **, size_t, size_t, void *, unsigned long long))                                                                \
    X(create, cuMemCreate, int, (void **, size_t, const void *, unsigned long long))                                                                           \
    X(map, cuMemMap, int, (void *, size_t, size_t, void *, unsigned long long))                                                                                \
    X(unmap, cuMemUnmap, int, (void *, size_t))                                                                                                                \
    X(let_go, cuMemRelease, int, (void *))                                                                                                                     \
    X(free_addresses, cuMemAddressFree, int, (void *, size_t))                                                                                                 \
    X(push, nvtxRangePushA, int, (const char *))                                                                                                               \
    X(pop, nvtxRangePop, int, (void))                                                                                                                          \
    X(tell_lengths, pretend_lengths_of, void, (const void *, int, const void *, size_t, int))                                                                  \
    X(register_binary, __cudaRegisterFatBinary, void **, (void *))                                                                                             \
    X(unregister_binary, __cudaUnregisterFatBinary, void, (void **))                                                                                           \
    X(register_kernel, __cudaRegisterFunction, void, (void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *))                \
    X(plan, cufftCreate, int, (int *))                                                                                                                         \
    X(end_plan, cufftDestroy, int, (int))                                                                                                                      \
    X(join_group, ncclCommInitRank, int, (void **, int, UniqueId, int))                                                                                        \
    X(leave_group, ncclCommDestroy, int, (void *))                                                                                                             \
    X(all_reduce, ncclAllReduce, int, (const void *, void *, size_t, int, int, void *, void *))                                                                \
    X(group_start, ncclGroupStart, int, (void))                                                                                                                \
    X(group_end, ncclGroupEnd, int, (void))                                                                                                                    \
    X(send, ncclSend, int, (const void *, size_t, int, int, void *, void *))                                                                                   \
    X(receive, ncclRecv, int, (void *, size_t, int, int, void *, void *))                                                                                      \
    X(leave, _exit, void, (int))

static struct {
#define MEMBER(member, symbol, result, parameters) result(*member) parameters;
    CALLS(MEMBER)
#undef MEMBER
} cuda;

static const char kernels[THREADS + 1]; /* their addresses stand for kernels; the last one's for all threads' */

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
#define FIND(member, symbol, result, parameters)                                                                                                               \
    {                                                                                                                                                          \
        void *found = library ? dlsym(library, #symbol) : NULL;                                                                                                \
        NEED(found != NULL);                                                                                                                                   \
        memcpy(&cuda.member, &found, sizeof found);                                                                                                            \
    }
    CALLS(FIND)
#undef FIND
    /* The library stays, and with it the file, whoever closes it. */
    NEED(dlclose(library) == 0 && dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD) != NULL);
    cuda.register_kernel(NULL, &kernels[THREADS], NULL, "shared", -1, NULL, NULL, NULL, NULL, NULL);
}

/* ---- what a thread does ---- */

static void *shared_stream, *shared_event; /* of all threads */
static int endless;

typedef struct {
    unsigned number;
    void *stream, *other, *group;
} Thread;

static void use_memory(const Thread *t, unsigned round)
{
    static __thread unsigned char host[4096], seen[4096];
    void *device, *pinned, *pooled, *more;
    size_t room, total, bytes = 4096 + 512 * (t->number + round % 7);
    char attributes[64];
    NEED(cuda.allocate(&device, bytes) == 0 && cuda.allocate_pinned(&pinned, 8192, 0) == 0 && cuda.allocate_async(&pooled, 8192, t->stream) == 0);
    memset(host, (int)(1 + t->number), sizeof host);
    NEED(cuda.copy(device, host, sizeof host, 1) == 0 && cuda.copy(seen, device, sizeof seen, 2) == 0 && memcmp(host, seen, sizeof host) == 0);
    NEED(cuda.copy(pinned, host, sizeof host, 0) == 0 && memcmp(pinned, host, sizeof host) == 0); /* on the host alone */
    NEED(cuda.set(device, 0, sizeof host, t->stream) == 0 && cuda.attributes(attributes, device) == 0 && cuda.memory_info(&room, &total) == 0);
    NEED(cuda.allocate(&more, (size_t)1 << 50) == 2); /* no room */
    NEED(cuda.release_async(pooled, t->stream) == 0 && cuda.release_pinned(pinned) == 0 && cuda.release(device) == 0);
    void *at, *handle;
    NEED(cuda.reserve(&at, 2 * PAGE, 0, NULL, 0) == 0 && cuda.create(&handle, PAGE, NULL, 0) == 0 && cuda.map((char *)at + PAGE, PAGE, 0, handle, 0) == 0);
    NEED(cuda.let_go(handle) == 0 && cuda.unmap((char *)at + PAGE, PAGE) == 0 && cuda.free_addresses(at, 2 * PAGE) == 0);
}

static void use_streams(const Thread *t)
{
    const void *own = &kernels[t->number], *all = &kernels[THREADS];
    void *event, *graph, *instance;
    int capturing;
    float ms;
    NEED(cuda.make_event(&event) == 0 && cuda.push("step") >= 0);
    NEED(cuda.launch(own, (Dim){1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, t->stream) == 0 &&
         cuda.launch(all, (Dim){1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, shared_stream) == 0);
    NEED(cuda.record(event, t->stream) == 0 && cuda.wait_event(shared_stream, event, 0) == 0 && cuda.elapsed(&ms, shared_event, event) == 0);
    NEED(cuda.record(shared_event, shared_stream) == 0 && cuda.wait_event(t->stream, shared_event, 0) == 0);
    NEED(cuda.begin_capture(t->stream, 0) == 0 && cuda.launch(own, (Dim){1, 1, 1}, (Dim){64, 1, 1}, NULL, 0, t->stream) == 0);
    NEED(cuda.record(event, t->stream) == 0 && cuda.wait_event(t->other, event, 0) == 0);
    NEED(cuda.launch(own, (Dim){1, 1, 1}, (Dim){64, 1, 1}, NULL, 0, t->other) == 0 && cuda.record(event, t->other) == 0);
    NEED(cuda.wait_event(t->stream, event, 0) == 0 && cuda.is_capturing(t->other, &capturing) == 0 && capturing == 1);
    NEED(cuda.end_capture(t->stream, &graph) == 0 && cuda.instantiate(&instance, graph, 0) == 0 && cuda.end_graph(graph) == 0);
    NEED(cuda.launch_graph(instance, t->stream) == 0 && cuda.launch_graph(instance, shared_stream) == 0 && cuda.end_instance(instance) == 0);
    NEED(cuda.pop() >= 0 && cuda.end_event(event) == 0);
}

/* Attention, whose kernels say of how long sequences. */
static void attend(const Thread *t)
{
    const int32_t lengths[4] = {100, 200, 300, 400};
    void *keys;
    NEED(cuda.allocate(&keys, sizeof lengths) == 0 && cuda.copy(keys, lengths, sizeof lengths, 1) == 0);
    cuda.tell_lengths(keys, 0, NULL, 4, 1);
    NEED(cuda.launch(&kernels[t->number], (Dim){4, 1, 1}, (Dim){128, 1, 1}, NULL, 0, t->stream) == 0);
    cuda.tell_lengths(NULL, 0, NULL, 0, 0);
    NEED(cuda.release(keys) == 0);
}

static void communicate(const Thread *t)
{
    void *memory;
    NEED(cuda.allocate(&memory, 4096) == 0 && cuda.all_reduce(memory, memory, 1024, 7, 0, t->group, t->stream) == 0);
    NEED(cuda.group_start() == 0 && cuda.send(memory, 16, 7, 1, t->group, t->stream) == 0 && cuda.receive(memory, 16, 7, 1, t->group, t->stream) == 0);
    NEED(cuda.group_end() == 0 && cuda.release(memory) == 0);
}

/* A library with kernels is loaded, and unloaded before it has launched one. */
static void come_and_go(const Thread *t)
{
    static const uint64_t nothing[8];
    int plan;
    void **handle = cuda.register_binary((void *)(uintptr_t)nothing);
    NEED(handle != NULL && cuda.plan(&plan) == 0);
    cuda.register_kernel(handle, &kernels[t->number], NULL, "passing", -1, NULL, NULL, NULL, NULL, NULL);
    cuda.unregister_binary(handle);
    cuda.register_kernel(NULL, &kernels[t->number], NULL, "own", -1, NULL, NULL, NULL, NULL, NULL);
    NEED(cuda.end_plan(plan) == 0);
}

/* A data loader's worker: it asks whose an address is, and ends. */
static void make_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        char attributes[64];
        void *memory, *stream;
        NEED(cuda.attributes(attributes, attributes) == 0 && cuda.allocate(&memory, 4096) == 0 && cuda.make_stream(&stream, 0) == 0);
        NEED(cuda.launch(&kernels[THREADS], (Dim){1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0 && cuda.release(memory) == 0);
        cuda.leave(0);
    }
    int status;
    NEED(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void *work(void *data)
{
    Thread t = {.number = GPOINTER_TO_UINT(data)};
    UniqueId id = {{(char)t.number}};
    NEED(cuda.set_device((int)(t.number % 2)) == 0 && cuda.make_stream(&t.stream, 1) == 0 && cuda.make_stream(&t.other, 1) == 0);
    NEED(cuda.join_group(&t.group, 2, id, 0) == 0);
    for (unsigned round = 0; endless || round < ROUNDS; round++) {
        come_and_go(&t);
        use_memory(&t, round);
        use_streams(&t);
        attend(&t);
        communicate(&t);
        if (!endless && round % 8 == t.number)
            make_child();
    }
    NEED(cuda.leave_group(t.group) == 0 && cuda.end_stream(t.stream) == 0 && cuda.end_stream(t.other) == 0);
    return NULL;
}

static void start(pthread_t threads[THREADS])
{
    NEED(cuda.make_stream(&shared_stream, 1) == 0 && cuda.make_event(&shared_event) == 0 && cuda.record(shared_event, shared_stream) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        NEED(pthread_create(&threads[i], NULL, work, GUINT_TO_POINTER(i)) == 0);
}

/* ---- programs ---- */

static void all_at_once(void)
{
    pthread_t threads[THREADS];
    start(threads);
    for (unsigned i = 0; i < THREADS; i++)
        NEED(pthread_join(threads[i], NULL) == 0);
}

/* The main thread leaves while the others are at it. */
static void leave_early(void)
{
    pthread_t threads[THREADS];
    endless = 1;
    start(threads);
    g_usleep(50000);
}

static void on_alarm(int number)
{
    (void)number;
    cuda.leave(7); /* a watchdog's */
}

/* A signal comes whatever its thread is at. */
static void be_interrupted(void)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 20000 + 1000 * (getpid() % 32)}};
    pthread_t threads[THREADS];
    endless = 1;
    NEED(signal(SIGALRM, on_alarm) != SIG_ERR && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    start(threads);
    NEED(pthread_join(threads[0], NULL) == 0);
}

/* Times never fall, and an address is given out again only after it was given back; the last line may have been cut off. */
static void check_order(const char *path)
{
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autoptr(GHashTable) live = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    uint64_t before = 0;
    for (char **line = lines; *line && line[1]; line++) {
        g_auto(GStrv) words = g_strsplit(*line, " ", -1);
        unsigned n = g_strv_length(words);
        if (n < 2 || !strstr(" kernel copy set alloc free record wait collective push pop graph ", words[0]))
            continue;
        uint64_t time = g_ascii_strtoull(words[1], NULL, 10);
        ck_assert_uint_ge(time, before);
        before = time;
        if (n == 8 && strcmp(words[0], "alloc") == 0)
            ck_assert_msg(g_hash_table_add(live, g_strdup(words[4])), "given out twice: %s", *line);
        if (n == 8 && strcmp(words[0], "free") == 0)
            ck_assert_msg(g_hash_table_remove(live, words[4]), "given back twice: %s", *line);
    }
}

enum { ROOM = 64 << 10 };

static void write_much(void)
{
    struct rlimit limit;
    NEED(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    const struct rlimit little = {ROOM, limit.rlim_max};
    NEED(setrlimit(RLIMIT_FSIZE, &little) == 0);
    for (unsigned i = 0; i < 100000; i++) {
        if (i == 90000)
            NEED(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        NEED(cuda.launch(&kernels[THREADS], (Dim){1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, NULL) == 0);
    }
}

/* Runs @program in a process of its own; what it left, or NULL where that is nothing (a process that ends at once may not have written anything out yet). */
static EchImport *pretended(void (*program)(void), int *ret_status)
{
    g_autofree char *path = g_strdup_printf("%s/threads-%u.pretend", g_get_tmp_dir(), g_random_int());
    pid_t child = fork();
    if (child == 0) {
        g_setenv("ECHELON_PRETEND_DEVICE", DEVICE, TRUE);
        g_setenv("ECHELON_PRETEND_OUT", path, TRUE);
        load();
        program();
        exit(0);
    }
    ck_assert_int_eq(waitpid(child, ret_status, 0), child);
    GStatBuf file;
    if (g_stat(path, &file) != 0 || file.st_size == 0)
        return NULL;
    check_order(path);
    return ech_test_import(path, NULL);
}

START_TEST(threads_ask_for_everything_at_once)
{
    int status;
    g_autoptr(EchImport) import = pretended(all_at_once, &status);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(import);
    ck_assert_uint_eq(ech_diag_count(import->diag, "captures_without_end"), 0);
    /* Of each round two, one that attends, two graphs of two, what is set and what is pinned. */
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_KERNEL), THREADS * ROUNDS * (2 + 1 + 4 + 1 + 1));
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_ALLOC), ech_test_count(import->trace, ECH_OP_FREE));
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_COLLECTIVE), THREADS * ROUNDS * 2);
}
END_TEST

START_TEST(an_exit_while_threads_run_ends_the_file)
{
    int status;
    g_autoptr(EchImport) import = pretended(leave_early, &status);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(import);
    ck_assert_uint_eq(ech_diag_count(import->diag, "captures_without_end"), 0);
}
END_TEST

START_TEST(a_handler_that_leaves_is_never_stuck)
{
    int status;
    g_autoptr(EchImport) import = pretended(be_interrupted, &status);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %d", status);
}
END_TEST

/* The program goes on; the file holds what there was room for, and nothing behind the gap. */
START_TEST(a_file_that_is_full_is_no_end_of_the_program)
{
    int status;
    g_autoptr(EchImport) import = pretended(write_much, &status);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(import);
    ck_assert_uint_eq(ech_diag_count(import->diag, "captures_without_end"), 1);
    ck_assert_uint_le(ech_test_count(import->trace, ECH_OP_KERNEL), ROOM / strlen("kernel 1 0 0 1 1 1 1 32 1 1 0\n"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretend_threads");
    TCase *tests = tcase_create("tests");
    tcase_add_test(tests, threads_ask_for_everything_at_once);
    tcase_add_loop_test(tests, an_exit_while_threads_run_ends_the_file, 0, 3);
    tcase_add_loop_test(tests, a_handler_that_leaves_is_never_stuck, 0, 16);
    tcase_add_test(tests, a_file_that_is_full_is_no_end_of_the_program);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
