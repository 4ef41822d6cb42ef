/* The injection library of `echelon capture`: the CUDA driver loads it into the program (CUDA_INJECTION64_PATH), it asks CUPTI for
 * kernels, copies, sets, allocations, pools, synchronisation, unified memory, overhead and NVTX ranges, and writes them as lines of text.
 *
 * Buffers are bounded: BUFFERS of BUFFER_BYTES, given back and used again; when all are full CUPTI drops records, and the count is written.
 * Callbacks run on a CUPTI thread and make no CUDA calls. The file is complete after the exit handler; until then it lacks its `end` line.
 * Environment: ECHELON_CAPTURE_OUT is the file's name ("%p" is the process id). */
#include "cupti_abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)4 << 20)
#define BUFFERS 24

static struct {
#define MEMBER(member, symbol, parameters) CuptiResult(*member) parameters;
    CUPTI_FUNCTIONS(MEMBER)
#undef MEMBER
} cupti;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *idle[BUFFERS];
static unsigned n_idle, n_made;
static FILE *out;
static pid_t owner;
static uint64_t dropped, refused;
static bool finished;

int InitializeInjection(void);

static void say(const char *text, const char *detail)
{
    fprintf(stderr, "echelon capture: %s%s%s\n", text, detail ? ": " : "", detail ? detail : "");
}

static void write_name(const char *name)
{
    fputs(" \"", out);
    for (const char *at = name ? name : ""; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            fputc('\\', out);
        if (c < 0x20)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputs("\"\n", out);
}

static void write_record(const void *record)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    switch (kind) {
    case RECORD_CONCURRENT_KERNEL: {
        const KernelRecord *r = record;
        fprintf(out, "kernel %" PRIu64 " %" PRIu64 " %u %u %u %d %d %d %d %d %d", r->start, r->end, r->device, r->stream, r->correlation, r->grid[0], r->grid[1],
                r->grid[2], r->block[0], r->block[1], r->block[2]);
        write_name(r->name);
        break;
    }
    case RECORD_MEMCPY: {
        const MemcpyRecord *r = record;
        fprintf(out, "copy %" PRIu64 " %" PRIu64 " %u %u %u %" PRIu64 " %u %u %u\n", r->start, r->end, r->device, r->stream, r->correlation, r->bytes,
                r->source_kind, r->target_kind, r->flags & 1u);
        break;
    }
    case RECORD_MEMSET: {
        const MemsetRecord *r = record;
        fprintf(out, "set %" PRIu64 " %" PRIu64 " %u %u %u %" PRIu64 "\n", r->start, r->end, r->device, r->stream, r->correlation, r->bytes);
        break;
    }
    case RECORD_MEMORY2: {
        const MemoryRecord *r = record;
        fprintf(out, "%s %" PRIu64 " %u %u %u %" PRIu64 " %" PRIu64 " %u %u\n", r->operation == 1 ? "alloc" : "free", r->timestamp, r->device, r->stream,
                r->correlation, r->address, r->bytes, r->memory_kind, r->is_async);
        break;
    }
    case RECORD_MEMORY_POOL: {
        const PoolRecord *r = record;
        fprintf(out, "pool %" PRIu64 " %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r->timestamp, r->operation, r->pool_type, r->address, r->size,
                r->release_threshold);
        break;
    }
    case RECORD_SYNCHRONIZATION: {
        const SynchronizationRecord *r = record;
        fprintf(out, "sync %" PRIu64 " %" PRIu64 " %u %u %u %u\n", r->start, r->end, r->type, r->stream, r->event, r->correlation);
        break;
    }
    case RECORD_UNIFIED_MEMORY: {
        const UnifiedMemoryRecord *r = record;
        fprintf(out, "unified %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %" PRIu64 " %u %u\n", r->start, r->end, r->counter, r->value, r->address, r->source,
                r->target);
        break;
    }
    case RECORD_OVERHEAD: {
        const OverheadRecord *r = record;
        fprintf(out, "overhead %" PRIu64 " %" PRIu64 " %u\n", r->start, r->end, r->overhead_kind);
        break;
    }
    case RECORD_MARKER: {
        const MarkerRecord *r = record;
        fprintf(out, "mark %" PRIu64 " %u %u", r->timestamp, r->id, r->flags);
        write_name(r->name);
        break;
    }
    default: fprintf(out, "other %u\n", kind); break;
    }
}

static void on_request(uint8_t **ret_buffer, size_t *ret_size, size_t *ret_max_records)
{
    pthread_mutex_lock(&lock);
    uint8_t *buffer = NULL;
    if (n_idle > 0)
        buffer = idle[--n_idle];
    else if (n_made < BUFFERS && (buffer = aligned_alloc(8, BUFFER_BYTES)))
        n_made++;
    if (!buffer)
        refused++;
    pthread_mutex_unlock(&lock);
    *ret_buffer = buffer;
    *ret_size = buffer ? BUFFER_BYTES : 0;
    *ret_max_records = 0;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)size;
    pthread_mutex_lock(&lock);
    void *record = NULL;
    if (out && getpid() == owner && !finished) {
        while (valid > 0 && cupti.next_record(buffer, valid, &record) == 0)
            write_record(record);
        size_t lost = 0;
        if (cupti.dropped(context, stream, &lost) == 0)
            dropped += lost;
    }
    if (buffer)
        idle[n_idle++] = buffer;
    pthread_mutex_unlock(&lock);
}

static void finish(void)
{
    if (!out || getpid() != owner || finished)
        return;
    cupti.flush(1); /* Forced: buffers that are not full too */
    pthread_mutex_lock(&lock);
    finished = true;
    fprintf(out, "dropped %" PRIu64 " %" PRIu64 "\nend\n", dropped, refused);
    if (fflush(out) != 0 || fclose(out) != 0)
        say("the capture is not complete", strerror(errno));
    out = NULL;
    while (n_idle > 0)
        free(idle[--n_idle]);
    pthread_mutex_unlock(&lock);
}

static bool load(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    const char *chosen = getenv("ECHELON_LIBCUPTI");
    void *library = chosen ? dlopen(chosen, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !chosen && !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        say("CUPTI is not installed here", dlerror());
        return false;
    }
#define LOAD(member, symbol, parameters)                                                                                                             \
    {                                                                                                                                                \
        void *found = dlsym(library, #symbol);                                                                                                       \
        if (!found) {                                                                                                                                \
            say("CUPTI is too old, it lacks " #symbol, NULL);                                                                                        \
            return false;                                                                                                                            \
        }                                                                                                                                            \
        memcpy(&cupti.member, &found, sizeof found);                                                                                                 \
    }
    CUPTI_FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

static FILE *open_output(void)
{
    const char *pattern = getenv("ECHELON_CAPTURE_OUT");
    if (!pattern || !*pattern)
        pattern = "echelon-%p.capture";
    const char *mark = strstr(pattern, "%p");
    char path[4096];
    int n = mark ? snprintf(path, sizeof path, "%.*s%ld%s", (int)(mark - pattern), pattern, (long)getpid(), mark + 2) : snprintf(path, sizeof path, "%s", pattern);
    if (n < 0 || (size_t)n >= sizeof path) {
        say("the name of the output is too long", NULL);
        return NULL;
    }
    FILE *file = fopen(path, "we");
    if (!file)
        say(path, strerror(errno));
    return file;
}

/* Called by the CUDA driver at cuInit, once in every process. Returns 1: a program must not fail because it is watched. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    static const int kinds[] = {RECORD_CONCURRENT_KERNEL, RECORD_MEMCPY,         RECORD_MEMSET,   RECORD_MEMORY2, RECORD_MEMORY_POOL,
                                RECORD_SYNCHRONIZATION,   RECORD_UNIFIED_MEMORY, RECORD_OVERHEAD, RECORD_MARKER};
    if (out || !load())
        return 1;
    CuptiResult result = cupti.register_callbacks(on_request, on_complete);
    if (result != 0) {
        say(result == CUPTI_MULTIPLE_SUBSCRIBERS ? "another profiler holds CUPTI (Nsight, DCGM or the PyTorch profiler); stop it and run again"
                                                 : "CUPTI refuses to record",
            NULL);
        return 1;
    }
    out = open_output();
    if (!out)
        return 1;
    owner = getpid();
    setvbuf(out, NULL, _IOFBF, (size_t)1 << 20);
    uint64_t stamp = 0;
    struct timespec now = {0};
    cupti.timestamp(&stamp);
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(out, "echelon-capture 1\nclock %" PRIu64 " %" PRIu64 "\n", stamp, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    UnifiedMemoryConfig unified[] = {{2, 1, 0, 1}, {2, 2, 0, 1}, {2, 3, 0, 1}, {2, 4, 0, 1}};
    if (cupti.configure_unified(unified, 4) != 0)
        fputs("without unified memory counters\n", out);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        result = cupti.enable(kinds[i]);
        if (result == CUPTI_MULTIPLE_SUBSCRIBERS) {
            say("another profiler holds CUPTI (Nsight, DCGM or the PyTorch profiler); stop it and run again", NULL);
            return 1;
        }
        if (result != 0)
            fprintf(out, "without %d\n", kinds[i]);
    }
    atexit(finish);
    return 1;
}
