/* The injection library of `echelon capture`: the CUDA driver loads it into the program (CUDA_INJECTION64_PATH), it asks CUPTI for
 * kernels, copies, sets, allocations, pools, synchronisation, unified memory, overhead and NVTX ranges, and writes them as lines of text.
 * NVTX loads it too (NVTX_INJECTION64_PATH) and is passed on to CUPTI, without which there would be no ranges.
 *
 * Buffers are bounded: BUFFERS of BUFFER_BYTES, given back and used again; when all are full CUPTI drops records, and the count is written.
 * Callbacks run on a CUPTI thread and make no CUDA calls. What the GPUs are called, the driver is asked by another. The file is complete after the exit
 * handler; until then it lacks its `end` line. What is complete goes to the file once a second, so that a program that is killed leaves what it did. A process
 * made by fork() alone writes nothing: no text waits in a FILE that its exit would write a second time.
 *
 * Environment: ECHELON_CAPTURE_OUT is the file's name ("%p" is the process id); ECHELON_LIBCUPTI names the library to load, ECHELON_LIBCUDA the driver if it is
 * not libcuda.so.1. Without ECHELON_LIBCUPTI: CUPTI that the program has loaded itself, else the one beside its other NVIDIA libraries (toolkit or Python
 * wheels), else the system's, else ECHELON_LIBCUPTI_ELSE, which `echelon capture` sets. */
#include "cupti_abi.h"
#include "lines_out.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)4 << 20)
#define BUFFERS 24
#define TEXT_BYTES ((size_t)1 << 20)
#define EXPORT __attribute__((visibility("default")))

static struct {
#define MEMBER(member, symbol, parameters) CuptiResult(*member) parameters;
    CUPTI_FUNCTIONS(MEMBER)
    CUPTI_OPTIONAL_FUNCTIONS(MEMBER)
#undef MEMBER
} cupti;
static void *library;

/* Whoever launches kernels only ever waits for the first; writing holds the second. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER, write_lock = PTHREAD_MUTEX_INITIALIZER, tick_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tick = PTHREAD_COND_INITIALIZER;
static uint8_t *idle[BUFFERS];
static unsigned n_idle, n_made;
static int file = -1, write_error;
static char *text;
static size_t text_used;
static pid_t owner;
static uint64_t dropped, refused, kernels, moved; /* the last two: what was written of kernels, of copies and fills */
static CuptiResult unified_refused;               /* As long as it is not told. */
static bool finished, stopping;

int InitializeInjection(void);
int InitializeInjectionNvtx2(void *get_export_table);

static void say(const char *what, const char *detail)
{
    fprintf(stderr, "echelon capture: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
}

/* ---- text ---- */

static void flush_text(void)
{
    if (write_error == 0) /* nothing after a gap: what the file holds is what was done up to there */
        write_error = lines_write(file, text, text_used);
    text_used = 0;
}

static void put(char c)
{
    if (text_used == TEXT_BYTES)
        flush_text();
    text[text_used++] = c;
}

static void emit(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void emit(const char *format, ...)
{
    char one[512]; /* The longest line has 11 numbers */
    va_list args;
    va_start(args, format);
    int n = vsnprintf(one, sizeof one, format, args);
    va_end(args);
    for (int i = 0; i < n && i < (int)sizeof one - 1; i++)
        put(one[i]);
}

static void write_name(const char *name)
{
    put(' ');
    lines_quote(put, name ? name : "");
    put('\n');
}

/* What a kernel is called, until the next call. Names come again and again, and to read one takes longer than to write it. */
static const char *kernel_name(const char *symbol)
{
    static struct {
        char *symbol, *text;
    } known[1024], *one;
    one = &known[((uintptr_t)symbol >> 4) % (sizeof known / sizeof *known)];
    if (!symbol || strncmp(symbol, "_Z", 2) != 0)
        return symbol;
    if (!one->symbol || strcmp(one->symbol, symbol) != 0) {
        free(one->symbol);
        free(one->text);
        one->symbol = strdup(symbol);
        one->text = lines_demangled(symbol);
    }
    return one->text ? one->text : symbol;
}

/* Which device a context is of, once: records of synchronisation name the context alone. */
static void tell_context(uint32_t context, uint32_t device)
{
    static uint32_t told[64];
    static size_t n_told;
    size_t i = 0;
    while (i < n_told && told[i] != context)
        i++;
    if (context == UINT32_MAX || i < n_told || n_told == sizeof told / sizeof *told)
        return;
    told[n_told++] = context;
    emit("context %u %u\n", context, device);
}

static void write_record(const void *record)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    switch (kind) {
    case RECORD_CONCURRENT_KERNEL: {
        const KernelRecord *r = record;
        kernels++;
        tell_context(r->context, r->device);
        emit("kernel %" PRIu64 " %" PRIu64 " %u %u %u %d %d %d %d %d %d", r->start, r->end, r->device, r->stream, r->correlation, r->grid[0], r->grid[1],
             r->grid[2], r->block[0], r->block[1], r->block[2]);
        write_name(kernel_name(r->name));
        break;
    }
    case RECORD_MEMCPY: {
        const MemcpyRecord *r = record;
        moved++;
        tell_context(r->context, r->device);
        emit("copy %" PRIu64 " %" PRIu64 " %u %u %u %" PRIu64 " %u %u %u\n", r->start, r->end, r->device, r->stream, r->correlation, r->bytes, r->source_kind,
             r->target_kind, r->flags & COPY_ASYNCHRONOUS);
        break;
    }
    case RECORD_MEMCPY_PEER: {
        const PeerMemcpyRecord *r = record;
        moved++;
        tell_context(r->context, r->device);
        emit("peer %" PRIu64 " %" PRIu64 " %u %u %u %" PRIu64 " %u %u %u\n", r->start, r->end, r->device, r->stream, r->correlation, r->bytes, r->source_device,
             r->target_device, r->flags & COPY_ASYNCHRONOUS);
        break;
    }
    case RECORD_MEMSET: {
        const MemsetRecord *r = record;
        moved++;
        tell_context(r->context, r->device);
        emit("set %" PRIu64 " %" PRIu64 " %u %u %u %" PRIu64 "\n", r->start, r->end, r->device, r->stream, r->correlation, r->bytes);
        break;
    }
    case RECORD_MEMORY2: {
        const MemoryRecord *r = record;
        emit("%s %" PRIu64 " %u %u %u %" PRIu64 " %" PRIu64 " %u %u\n", r->operation == MEMORY_ALLOCATED ? "alloc" : "free", r->timestamp, r->device, r->stream,
             r->correlation, r->address, r->bytes, r->memory_kind, r->is_async);
        break;
    }
    case RECORD_MEMORY_POOL: {
        const PoolRecord *r = record;
        emit("pool %" PRIu64 " %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r->timestamp, r->operation, r->pool_type, r->address, r->size,
             r->release_threshold);
        break;
    }
    case RECORD_SYNCHRONIZATION: {
        const SynchronizationRecord *r = record;
        emit("sync %" PRIu64 " %" PRIu64 " %u %u %u %u %u\n", r->start, r->end, r->type, r->context, r->stream, r->event, r->correlation);
        break;
    }
    case RECORD_UNIFIED_MEMORY: {
        const UnifiedMemoryRecord *r = record;
        emit("unified %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %" PRIu64 " %u %u\n", r->start, r->end, r->counter, r->value, r->address, r->source, r->target);
        break;
    }
    case RECORD_OVERHEAD: {
        const OverheadRecord *r = record;
        emit("overhead %" PRIu64 " %" PRIu64 " %u\n", r->start, r->end, r->overhead_kind);
        break;
    }
    case RECORD_MARKER: {
        const MarkerRecord *r = record;
        emit("mark %" PRIu64 " %u %u", r->timestamp, r->id, r->flags);
        write_name(r->name);
        break;
    }
    default: emit("other %u\n", kind); break;
    }
}

/* ---- buffers ---- */

static void on_request(uint8_t **ret_buffer, size_t *ret_size, size_t *ret_max_records)
{
    pthread_mutex_lock(&pool_lock);
    uint8_t *buffer = NULL;
    if (n_idle > 0)
        buffer = idle[--n_idle];
    else if (n_made < BUFFERS && (buffer = aligned_alloc(8, BUFFER_BYTES)))
        n_made++;
    if (!buffer)
        refused++;
    pthread_mutex_unlock(&pool_lock);
    *ret_buffer = buffer;
    *ret_size = buffer ? BUFFER_BYTES : 0;
    *ret_max_records = 0;
}

static void on_complete(CuptiContext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)size;
    if (getpid() != owner)
        return;
    pthread_mutex_lock(&write_lock);
    if (!finished) {
        CuptiRecord *record = NULL;
        while (buffer && valid > 0 && cupti.next_record(buffer, valid, &record) == 0)
            write_record(record);
        size_t lost = 0;
        if (cupti.dropped(context, stream, &lost) == 0)
            dropped += lost;
        flush_text();
    }
    pthread_mutex_unlock(&write_lock);
    pthread_mutex_lock(&pool_lock);
    if (buffer && n_idle < BUFFERS)
        idle[n_idle++] = buffer;
    pthread_mutex_unlock(&pool_lock);
}

/* The program has loaded the driver: it needs no context to say what its GPUs are called. Once, and not before it has started. */
static void write_gpus(void)
{
    static bool written;
    if (written)
        return;
    const char *chosen = getenv("ECHELON_LIBCUDA");
    void *driver = dlopen(chosen && *chosen ? chosen : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*count)(int *) = NULL, (*name_of)(char *, int, int) = NULL, n = 0;
    void *found[] = {driver ? dlsym(driver, "cuDeviceGetCount") : NULL, driver ? dlsym(driver, "cuDeviceGetName") : NULL};
    memcpy(&count, &found[0], sizeof count);
    memcpy(&name_of, &found[1], sizeof name_of);
    if (!count || !name_of || count(&n) != 0)
        return;
    written = true;
    pthread_mutex_lock(&write_lock);
    for (int i = 0; i < n; i++) {
        char name[256] = ""; /* A CUdevice is its number */
        if (name_of(name, (int)sizeof name - 1, i) == 0) {
            emit("gpu %d", i);
            write_name(name);
        }
    }
    flush_text();
    pthread_mutex_unlock(&write_lock);
}

static CuptiResult enable_unified(void)
{
    UnifiedMemoryConfig configs[] = {{UNIFIED_ALL_DEVICES, UNIFIED_TO_DEVICE, 0, 1},
                                     {UNIFIED_ALL_DEVICES, UNIFIED_TO_HOST, 0, 1},
                                     {UNIFIED_ALL_DEVICES, UNIFIED_CPU_FAULTS, 0, 1},
                                     {UNIFIED_ALL_DEVICES, UNIFIED_GPU_FAULTS, 0, 1}};
    CuptiResult result = cupti.configure_unified(configs, sizeof configs / sizeof *configs);
    return result != 0 ? result : cupti.enable(RECORD_UNIFIED_MEMORY);
}

/* The caller has write_lock, or is alone. */
static void emit_refused(CuptiKind kind, CuptiResult result)
{
    const char *name = NULL;
    if (cupti.result_string)
        cupti.result_string(result, &name);
    emit("refused %d %d", kind, result);
    write_name(name ? name : "error");
}

/* Inside cuInit an H100's driver refuses the counters of unified memory (CUDA 13.0), whatever else it takes: asked for again when the driver has begun,
 * and told where it is still refused, or where the program ended before. The caller has tick_lock. */
static void settle_unified(bool begun)
{
    if (unified_refused == 0)
        return;
    CuptiResult result = begun ? enable_unified() : unified_refused;
    unified_refused = 0;
    if (result == 0)
        return;
    pthread_mutex_lock(&write_lock);
    emit_refused(RECORD_UNIFIED_MEMORY, result);
    pthread_mutex_unlock(&write_lock);
}

/* Once a second what is complete is asked for. The exit handler stops this first: no call may come after the driver's end. */
static void *flush_often(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&tick_lock);
    while (!stopping) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        int waited = pthread_cond_timedwait(&tick, &tick_lock, &until);
        pthread_mutex_lock(&pool_lock);
        bool begun = n_made > 0; /* Before the first record the driver may still be starting */
        pthread_mutex_unlock(&pool_lock);
        if (waited == ETIMEDOUT && !stopping && begun) {
            write_gpus();
            settle_unified(true);
            cupti.flush(0);
        }
    }
    pthread_mutex_unlock(&tick_lock);
    return NULL;
}

static void start_flushing(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* Signals are the program's own threads' */
    if (pthread_create(&thread, NULL, flush_often, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void finish(void)
{
    if (file < 0 || getpid() != owner)
        return;
    pthread_mutex_lock(&tick_lock);
    stopping = true;
    pthread_cond_signal(&tick);
    write_gpus();
    settle_unified(false);
    pthread_mutex_unlock(&tick_lock);
    CuptiResult flushed = cupti.flush(CUPTI_FLUSH_FORCED); /* Buffers that are not full too */
    pthread_mutex_lock(&pool_lock);
    uint64_t unasked = refused;
    bool kept = n_made > n_idle; /* buffers that did not come back */
    pthread_mutex_unlock(&pool_lock);
    pthread_mutex_lock(&write_lock);
    finished = true;
    if (flushed != 0)
        emit("without the last records\n");
    if (kept && moved > 0 && kernels == 0) {
        emit("taken\n");
        say("no kernel was recorded: where the program started a profiler of its own (PyTorch's, JAX's), that one got CUPTI's records from then on; run it "
            "without",
            NULL);
    }
    emit("dropped %" PRIu64 " %" PRIu64 "\nend\n", dropped, unasked);
    flush_text();
    if (close(file) != 0 && write_error == 0)
        write_error = errno;
    if (write_error != 0)
        say("the capture is not complete", strerror(write_error));
    file = -1;
    pthread_mutex_unlock(&write_lock);
}

/* A child made by fork() has the parent's memory and none of its threads: it must neither write nor wait for a lock that nobody holds any more. */
static void in_child(void)
{
    pthread_mutex_init(&pool_lock, NULL);
    pthread_mutex_init(&write_lock, NULL);
    pthread_mutex_init(&tick_lock, NULL);
    if (file >= 0)
        close(file);
    file = -1;
    text_used = 0;
    finished = stopping = true;
}

/* ---- finding CUPTI ---- */

static void *open_matching(const char *pattern)
{
    glob_t found = {0};
    void *opened = NULL;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; !opened && i-- > 0;)
            opened = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    }
    globfree(&found);
    return opened;
}

static void *open_below(const char *folder, int length, const char *below)
{
    char pattern[PATH_MAX];
    int n = snprintf(pattern, sizeof pattern, "%.*s%s", length, folder, below);
    return n > 0 && (size_t)n < sizeof pattern ? open_matching(pattern) : NULL;
}

/* A library of the program: CUPTI itself, or where CUPTI may lie beside it. */
static int look_at_object(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    void **found = data;
    const char *path = object->dlpi_name, *slash = path ? strrchr(path, '/') : NULL;
    if (!slash)
        return 0;
    if (strncmp(slash + 1, "libcupti.so", strlen("libcupti.so")) == 0) {
        *found = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        return *found != NULL;
    }
    return 0;
}

typedef struct {
    char folders[16][PATH_MAX];
    unsigned n;
} Places;

static void add_place(Places *places, const char *path, size_t length)
{
    for (unsigned i = 0; i < places->n; i++) {
        if (strlen(places->folders[i]) == length && strncmp(places->folders[i], path, length) == 0)
            return;
    }
    if (places->n < sizeof places->folders / sizeof *places->folders && length < PATH_MAX) {
        memcpy(places->folders[places->n], path, length);
        places->folders[places->n++][length] = '\0';
    }
}

static int note_place(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    static const char *const marks[] = {"/site-packages/", "/dist-packages/"};
    const char *path = object->dlpi_name;
    for (size_t i = 0; path && i < sizeof marks / sizeof *marks; i++) {
        const char *mark = strstr(path, marks[i]);
        if (mark)
            add_place(data, path, (size_t)(mark - path) + strlen(marks[i]) - 1);
    }
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash && (strncmp(slash + 1, "libcudart.so", 12) == 0 || strncmp(slash + 1, "libcublas", 9) == 0))
        add_place(data, path, (size_t)(slash - path));
    return 0;
}

static void *find_cupti(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    static const char *const below[] = {"/libcupti.so.1[23]", "/nvidia/cu1[34]/lib/libcupti.so.*", "/nvidia/cuda_cupti/lib/libcupti.so.*",
                                        "/../extras/CUPTI/lib64/libcupti.so.1[23]"};
    static const char *const toolkits[] = {"/usr/local/cuda", "/usr/local/cuda-1*", "/opt/cuda"};
    static const char *const inside[] = {"/extras/CUPTI/lib64/libcupti.so.1[23]", "/lib64/libcupti.so.1[23]", "/targets/*/lib/libcupti.so.1[23]"};
    const char *chosen = getenv("ECHELON_LIBCUPTI");
    if (chosen && *chosen)
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    void *found = NULL;
    dl_iterate_phdr(look_at_object, &found);
    Places *places = calloc(1, sizeof *places);
    if (places)
        dl_iterate_phdr(note_place, places);
    for (unsigned p = 0; !found && places && p < places->n; p++) {
        for (size_t b = 0; !found && b < sizeof below / sizeof *below; b++)
            found = open_below(places->folders[p], PATH_MAX, below[b]);
    }
    free(places);
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++)
        found = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), toolkits[0], toolkits[1], toolkits[2]};
    for (size_t h = 0; !found && h < sizeof homes / sizeof *homes; h++) {
        for (size_t i = 0; !found && homes[h] && i < sizeof inside / sizeof *inside; i++)
            found = open_below(homes[h], PATH_MAX, inside[i]);
    }
    const char *last = getenv("ECHELON_LIBCUPTI_ELSE");
    return found || !last || !*last ? found : dlopen(last, RTLD_NOW | RTLD_LOCAL);
}

static bool load(void)
{
    if (library)
        return true;
    void *found = find_cupti();
    if (!found) {
        say("CUPTI is not installed here; expected libcupti.so.12 or .13 beside the program's CUDA libraries, in a toolkit, or named by ECHELON_LIBCUPTI",
            dlerror());
        return false;
    }
#define LOAD(member, symbol, parameters)                                                                                                                       \
    {                                                                                                                                                          \
        void *function = dlsym(found, #symbol);                                                                                                                \
        if (!function) {                                                                                                                                       \
            say("CUPTI is too old, it lacks " #symbol, NULL);                                                                                                  \
            return false;                                                                                                                                      \
        }                                                                                                                                                      \
        memcpy(&cupti.member, &function, sizeof function);                                                                                                     \
    }
#define LOAD_OPTIONAL(member, symbol, parameters)                                                                                                              \
    {                                                                                                                                                          \
        void *function = dlsym(found, #symbol);                                                                                                                \
        memcpy(&cupti.member, &function, sizeof function);                                                                                                     \
    }
    CUPTI_FUNCTIONS(LOAD)
    CUPTI_OPTIONAL_FUNCTIONS(LOAD_OPTIONAL)
#undef LOAD
#undef LOAD_OPTIONAL
    library = found;
    return true;
}

static int open_output(void)
{
    const char *pattern = getenv("ECHELON_CAPTURE_OUT");
    if (!pattern || !*pattern)
        pattern = "echelon-%p.capture";
    int opened = lines_open(pattern);
    if (opened < 0)
        say(pattern, strerror(errno));
    return opened;
}

static void say_refused(CuptiResult result)
{
    const char *name = NULL;
    char text_of[128];
    if (cupti.result_string)
        cupti.result_string(result, &name);
    snprintf(text_of, sizeof text_of, "%s (%d)", name ? name : "error", result);
    if (result == CUPTI_MULTIPLE_SUBSCRIBERS)
        say("another profiler holds CUPTI (Nsight, DCGM or the PyTorch profiler); stop it and run again", NULL);
    else if (result == CUPTI_NO_PRIVILEGES)
        say("CUPTI may not record here: the driver gives profiling to administrators only (NVreg_RestrictProfilingToAdminUsers); run as root", NULL);
    else if (result == CUPTI_UNKNOWN)
        say("CUPTI does not start; it says so where the driver sees no GPU", text_of);
    else
        say("CUPTI refuses to record", text_of);
}

static void enable_all(void)
{
    static const CuptiKind kinds[] = {RECORD_CONCURRENT_KERNEL, RECORD_MEMCPY,   RECORD_MEMSET, RECORD_MEMORY2,    RECORD_MEMORY_POOL,
                                      RECORD_SYNCHRONIZATION,   RECORD_OVERHEAD, RECORD_MARKER, RECORD_MEMCPY_PEER};
    unsigned enabled = 0;
    CuptiResult refusal = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        CuptiResult result = cupti.enable(kinds[i]);
        enabled += result == 0;
        if (result == 0)
            continue;
        refusal = result;
        emit_refused(kinds[i], result);
    }
    unified_refused = enable_unified();
    if (enabled == 0)
        say_refused(refusal);
}

/* Called by the CUDA driver at cuInit, once in every process. Returns 1: a program must not fail because it is watched. */
EXPORT int InitializeInjection(void)
{
    if (file >= 0 || finished || !load())
        return 1;
    CuptiResult result = cupti.register_callbacks(on_request, on_complete);
    if (result != 0) {
        say_refused(result);
        return 1;
    }
    text = malloc(TEXT_BYTES);
    file = text ? open_output() : -1;
    if (file < 0)
        return 1;
    owner = getpid();
    uint64_t stamp = 0;
    struct timespec now = {0};
    cupti.timestamp(&stamp);
    clock_gettime(CLOCK_REALTIME, &now);
    emit("echelon-capture 1\nclock %" PRIu64 " %" PRIu64 "\n", stamp, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    enable_all();
    flush_text();
    if (cupti.flush_period)
        cupti.flush_period(1000);
    pthread_atfork(NULL, NULL, in_child);
    atexit(finish);
    start_flushing();
    return 1;
}

/* Called by NVTX at its first use, in whatever order with the above: CUPTI listens to it. */
EXPORT int InitializeInjectionNvtx2(void *get_export_table)
{
    if (!load())
        return 0;
    void *found = dlsym(library, "InitializeInjectionNvtx2");
    int (*pass_on)(void *);
    memcpy(&pass_on, &found, sizeof found);
    return found ? pass_on(get_export_table) : 0;
}
