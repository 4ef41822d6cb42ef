/* The file: lines of text, names written once. */
#include "pretend.h"
#include "../lines_out.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES ((size_t)1 << 20)
#define PRETEND_END_BELOW 3             /* of SIGRTMAX: asks a process to write its capture and end (sitecustomize.py has it, too) */
#define FLUSH_AFTER UINT64_C(100000000) /* nanoseconds: what a process that is killed may lose */

#define LOCK PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
static pthread_mutex_t lock = LOCK;
static pthread_t holder; /* who has it; 0: nobody. A handler of a signal looks at it, which must not touch what is the thread's own */
static unsigned held;    /* how often */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool recording; /* the program gave us a name for a file; read without the lock, too */
static bool worked;    /* the device was asked for something: many a process of a program only looks at it, and leaves no file */
static int file = -1, write_error;
static char *text;
static size_t text_used;
static struct timespec begun;
static uint64_t flushed; /* when, of now() */
static pid_t owner;
static uint64_t looks; /* small results that the program read back */

/* Names by content: open addressing, a power of two of slots, at most half of them taken. */
typedef struct {
    char *text;
    uint64_t hash;
    uint32_t number;
} Name;
static Name *names;
static size_t n_names, n_slots;
static uint32_t last_name;

static const char *said[64];

void pretend_lock(void)
{
    pthread_mutex_lock(&lock);
    held++;
    __atomic_store_n(&holder, pthread_self(), __ATOMIC_RELAXED);
}

void pretend_unlock(void)
{
    if (--held == 0)
        __atomic_store_n(&holder, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

static bool is_recording(void)
{
    return __atomic_load_n(&recording, __ATOMIC_ACQUIRE);
}

static void say(const char *what, const char *detail)
{
    fprintf(stderr, "echelon capture: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
}

static int open_output(void);

static void flush_text(void)
{
    if (recording && file < 0 && write_error == 0)
        file = open_output();
    if (file >= 0 && write_error == 0) /* nothing after a gap: what the file holds is what was done up to there */
        write_error = lines_write(file, text, text_used);
    text_used = 0;
}

static void put(char c)
{
    if (text_used == TEXT_BYTES)
        flush_text();
    text[text_used++] = c;
}

static void emit(const char *format, va_list args)
{
    char some[1024], *whole = some;
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(some, sizeof some, format, args);
    if (n >= (int)sizeof some && (whole = malloc((size_t)n + 1)))
        vsnprintf(whole, (size_t)n + 1, format, again);
    va_end(again);
    for (int i = 0; whole && i < n; i++)
        put(whole[i]);
    if (whole != some)
        free(whole);
}

static void finish(void)
{
    pretend_lock();
    if (recording && worked && owner == getpid()) {
        for (const char *at = "end\n"; *at; at++)
            put(*at);
        flush_text();
        if (file >= 0 && close(file) != 0 && write_error == 0)
            write_error = errno;
        if (write_error != 0)
            say("the capture is not complete", strerror(write_error));
        uint64_t within = pretend_launches_within();
        if (within > 0)
            fprintf(stderr,
                    "echelon capture: %" PRIu64
                    " launch%s of kernels without PTX %s given places within larger allocations, and count%s for all that lies behind: "
                    "built with PTX beside its machine code (nvcc -gencode arch=compute_80,code=[compute_80,sm_80]) the program's kernels count for what they "
                    "touch\n",
                    within, within == 1 ? "" : "es", within == 1 ? "is" : "are", within == 1 ? "s" : "");
        const char *symbol;
        uint64_t n_waiting = pretend_launches_waiting(&symbol);
        char *waiting = symbol ? lines_demangled(symbol) : NULL;
        if (n_waiting > 0)
            fprintf(stderr,
                    "echelon capture: %" PRIu64
                    " launch%s of kernels whose blocks wait for what others write (the first is %s) count%s for all that lies behind the "
                    "addresses given, not by their own code: blocks are looked at one by one\n",
                    n_waiting, n_waiting == 1 ? "" : "es",
                    waiting  ? waiting
                    : symbol ? symbol
                             : "unknown",
                    n_waiting == 1 ? "s" : "");
        free(waiting);
        if (looks > 0)
            fprintf(stderr,
                    "echelon capture: results of kernels are zeros; the program read %" PRIu64
                    " small %s back (a loss, a sum, a count), and where it decides by "
                    "%s, a GPU goes another way\n",
                    looks, looks == 1 ? "one" : "ones", looks == 1 ? "it" : "them");
    }
    __atomic_store_n(&recording, false, __ATOMIC_RELEASE);
    pretend_unlock();
}

/* A process made by fork() alone has no GPU if its parent used one, and writes nothing; its allocator may still ask whose an address is. */
static void in_child(void)
{
    lock = (pthread_mutex_t)LOCK; /* it was taken by a thread of another number */
    holder = 0;
    held = 0;
    pretend_leave_processes();
    if (recording && !worked) { /* the parent only looked: what it looked at is the beginning of the child's file */
        owner = getpid();
        return;
    }
    if (file >= 0)
        close(file);
    file = -1;
    __atomic_store_n(&recording, false, __ATOMIC_RELEASE);
    text_used = 0;
}

/* A text that grows; of a thread, for its lines. */
typedef struct {
    char *at;
    size_t n, room;
} Text;
static __thread Text line_text, uses_text;
static pthread_key_t thread_end; /* of threads with texts */

static void free_texts(void *unused)
{
    (void)unused;
    free(line_text.at);
    free(uses_text.at);
    line_text = uses_text = (Text){0};
    pretend_forget_messages();
}

/* Before anything takes the lock. */
__attribute__((constructor)) static void watch_forks_and_threads(void)
{
    pthread_key_create(&thread_end, free_texts);
    pthread_atfork(pretend_lock, pretend_unlock, in_child);
}

/* Python's multiprocessing leaves a forked process by _exit(), which calls nobody. Handlers of signals do so, too: one that came while this thread wrote a line
 * leaves the file as it is. */
PRETEND_EXPORT void _exit(int status)
{
    bool writes = __atomic_load_n(&holder, __ATOMIC_RELAXED) == pthread_self();
    if (is_recording() && owner == getpid() && !writes) /* not in a vfork()'s child, whose memory is its parent's */
        finish();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

bool pretend_runs(long process)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    int stat = open(path, O_RDONLY | O_CLOEXEC); /* no stream: a process made by fork() of many threads may not allocate */
    ssize_t n = stat >= 0 ? read(stat, line, sizeof line - 1) : 0;
    if (stat >= 0)
        close(stat);
    line[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(line, ')');
    return name_end && strncmp(name_end, ") Z", 3) != 0;
}

/* Servers end their workers by SIGKILL, which leaves those no time for their captures. One that has begun a capture is asked to end first, by a signal that its
 * Python hook awaits and that ends whoever does not. */
PRETEND_EXPORT int kill(pid_t process, int number)
{
    enum { LOOKS = 1000, LOOK_EVERY = 10000000 /* ns */ };
    const char *pattern = getenv("ECHELON_PRETEND_OUT");
    char path[PATH_MAX];
    bool asked = number == SIGKILL && process > 0 && process != getpid() && pattern && lines_path(pattern, (long)process, path) && access(path, F_OK) == 0 &&
                 syscall(SYS_kill, process, SIGRTMAX - PRETEND_END_BELOW) == 0;
    for (int i = 0; asked && i < LOOKS && pretend_runs(process); i++)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY}, NULL);
    int result = (int)syscall(SYS_kill, process, number);
    return asked && result != 0 && errno == ESRCH ? 0 : result;
}

static int open_output(void)
{
    const char *pattern = getenv("ECHELON_PRETEND_OUT");
    if (!pattern)
        return -1;
    int opened = lines_open(pattern);
    if (opened < 0)
        write_error = errno;
    return opened;
}

static void put_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    emit(format, args);
    va_end(args);
}

static void begin(void)
{
    /* Both at one moment: PyTorch's snapshot counts by the other clock. */
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    const char *out = getenv("ECHELON_PRETEND_OUT");
    text = out && *out ? malloc(TEXT_BYTES) : NULL;
    if (!text)
        return;
    const PretendDevice *device = pretend_device();
    put_format("echelon-pretend 1\nclock %" PRIu64 "\ndevice %" PRIu64 " %" PRIu64 " %u \"%s\"\n", (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
               device->bytes, device->context_bytes, device->all_devices, device->id);
    owner = getpid();
    atexit(finish);
    __atomic_store_n(&recording, true, __ATOMIC_RELEASE);
}

/* Nanoseconds since the file was begun. */
static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)(at.tv_sec - begun.tv_sec) * 1000000000u + (uint64_t)at.tv_nsec - (uint64_t)begun.tv_nsec;
}

void pretend_line(const char *word, const char *format, ...)
{
    pthread_once(&once, begin);
    pretend_lock();
    if (recording) {
        put_format("%s ", word);
        va_list args;
        va_start(args, format);
        emit(format, args);
        va_end(args);
        put('\n');
    }
    pretend_unlock();
}

/* Which thread opened or closed a range last; TensorFlow's operators run in several at once. */
static bool names_threads;
static long thread_told;

void pretend_name_threads(void)
{
    __atomic_store_n(&names_threads, true, __ATOMIC_RELAXED);
}

static bool is_range(const char *word)
{
    return strcmp(word, "push") == 0 || strcmp(word, "pop") == 0 || strcmp(word, "mark") == 0;
}

static pthread_t asker; /* who asked for work or memory last; 0: nobody */

bool pretend_asks(void)
{
    return is_recording() && owner == getpid() && __atomic_load_n(&asker, __ATOMIC_RELAXED) == pthread_self();
}

static void tell_thread(const char *word)
{
    long thread = (long)gettid();
    if (!is_range(word) && thread != thread_told)
        put_format("thread %ld\n", thread);
    thread_told = thread;
}

/* Times are taken under the lock, so that they never fall from line to line. */
static void write_timed(const char *word, const char *place, const char *rest)
{
    uint64_t at = now();
    if (__atomic_load_n(&names_threads, __ATOMIC_RELAXED))
        tell_thread(word);
    put_format("%s %" PRIu64 "%s %s\n", word, at, place, rest);
    if (!is_range(word) && strcmp(word, "sync") != 0 && strcmp(word, "file") != 0) {
        worked = true;
        __atomic_store_n(&asker, pthread_self(), __ATOMIC_RELAXED);
    }
    if (worked && at - flushed > FLUSH_AFTER) {
        flush_text();
        flushed = at;
    }
}

static void append(Text *to, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(to->at ? to->at + to->n : NULL, to->room - to->n, format, args);
    if (n > 0 && (size_t)n >= to->room - to->n) {
        size_t room = 2 * (to->n + (size_t)n + 128);
        char *larger = realloc(to->at, room);
        if (larger) {
            to->at = larger;
            to->room = room;
            pthread_setspecific(thread_end, &lock);
            vsnprintf(to->at + to->n, room - to->n, format, again);
        }
    }
    va_end(again);
    if (n > 0 && (size_t)n < to->room - to->n)
        to->n += (size_t)n;
}

static void append_format(Text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append_format(Text *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append(to, format, args);
    va_end(args);
}

void pretend_use(PretendUse how, const void *address, uint64_t bytes)
{
    PretendBlock block;
    if (address && pretend_find(address, &block))
        append_format(&uses_text, "%s %d %" PRIu64 " %" PRIu64, uses_text.n == 0 ? "\nuses" : "", (int)how, (uint64_t)(uintptr_t)address, bytes);
}

void pretend_uses(const void *const *read, size_t n_read, const void *const *written, size_t n_written)
{
    for (size_t i = 0; i < n_read; i++)
        pretend_use(PRETEND_READS, read[i], 0);
    for (size_t i = 0; i < n_written; i++)
        pretend_use(PRETEND_WRITES, written[i], 0);
}

void pretend_no_uses(void)
{
    uses_text.n = 0;
}

/* What this thread's next kernels move. */
static __thread struct {
    size_t n; /* 0: not told */
    const uint64_t *rows;
} moved;

/* For the Python hook: @n times an address, and how many bytes are read from there on and how many written (UINT64_MAX: not known how many), which live until
 * it is told that there are none. */
PRETEND_EXPORT void pretend_moves_of(size_t n, const uint64_t *rows)
{
    moved.n = n;
    moved.rows = rows;
}

bool pretend_use_told(void)
{
    if (moved.n > 0)
        uses_text.n = 0;
    for (const uint64_t *row = moved.rows; row < moved.rows + 3 * moved.n; row += 3) {
        const void *address = (const void *)(uintptr_t)row[0];
        if (row[1] > 0)
            pretend_use(PRETEND_READS, address, row[1] == UINT64_MAX ? 0 : row[1]);
        if (row[2] > 0)
            pretend_use(PRETEND_WRITES, address, row[2] == UINT64_MAX ? 0 : row[2]);
    }
    return moved.n > 0 && uses_text.n > 0;
}

void pretend_places(unsigned sectors, unsigned axes)
{
    uses_text.n = 0;
    if (sectors > 0)
        append_format(&uses_text, "\nsectors %u", sectors);
    if (axes > 0)
        append_format(&uses_text, "\naxes %u", axes);
    append_format(&uses_text, "\nargs");
}

void pretend_argument(size_t parameter, uint64_t address)
{
    append_format(&uses_text, " %zu %" PRIu64, parameter, address);
}

void pretend_event(const char *word, const char *format, ...)
{
    pthread_once(&once, begin);
    if (!is_recording())
        return;
    va_list args;
    va_start(args, format);
    line_text.n = 0;
    append(&line_text, format, args);
    va_end(args);
    pretend_lock();
    if (recording && line_text.at)
        write_timed(word, "", line_text.at);
    pretend_unlock();
}

/* What this thread's next kernels multiply. */
static __thread struct {
    uint64_t operations; /* 0: not told */
    const char *type, *launch;
} multiplied;

/* For the Python hook: operations on @type ("bf16"), and the launch as that of a product (models/kernel/gpu.h; "": it is none, or several), which live until it
 * is told that there are 0. */
PRETEND_EXPORT void pretend_products_of(uint64_t operations, const char *type, const char *launch)
{
    multiplied.operations = operations;
    multiplied.type = type;
    multiplied.launch = launch;
}

/* What this thread's next kernel computes, by its own code. */
static __thread struct {
    bool told;
    PretendComputed by;
} computed;

void pretend_computes(const PretendComputed *by)
{
    computed.told = true;
    computed.by = *by;
}

void pretend_work(const char *word, void *stream, const char *format, ...)
{
    pthread_once(&once, begin);
    uint32_t type = 0, product = 0;
    bool is_kernel = *word == 'k', multiplies = is_kernel && multiplied.operations > 0, computes = is_kernel && !multiplies && computed.by.products > 0;
    if (multiplies || computes) {
        type = pretend_name(multiplies ? multiplied.type : computed.by.type);
        product = pretend_name(multiplies ? multiplied.launch : "");
    }
    va_list args;
    va_start(args, format);
    line_text.n = 0;
    append(&line_text, format, args);
    va_end(args);
    if (*word != 'r' && *word != 'w') { /* record, wait: which a library asks for itself before it uses anything */
        if (uses_text.n > 0 && line_text.at)
            append_format(&line_text, "%s", uses_text.at);
        uses_text.n = 0;
    }
    if (multiplies || computes)
        append_format(&line_text, "\nproducts %u %" PRIu64 " %u", product, multiplies ? multiplied.operations : computed.by.products, type);
    if (is_kernel && computed.told)
        append_format(&line_text,
                      "\nlanes %" PRIu64 " %" PRIu64 " %" PRIu64 "\ncode %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32
                      " %" PRIu32,
                      computed.by.lanes, computed.by.lanes_64, computed.by.issued, computed.by.accesses, computed.by.wavefronts, computed.by.fetched,
                      computed.by.cycles, computed.by.trips, computed.by.barriers, computed.by.registers, computed.by.shared);
    if (is_kernel && computed.told && (computed.by.slots > 0 || computed.by.slots_64 > 0 || computed.by.functions > 0 || computed.by.by_groups))
        append_format(&line_text, "\nunits %" PRIu64 " %" PRIu64 " %" PRIu64 " %d", computed.by.slots, computed.by.slots_64, computed.by.functions,
                      computed.by.by_groups);
    if (is_kernel && computed.told && computed.by.atomics > 0)
        append_format(&line_text, "\natomics %" PRIu64 " %" PRIu64, computed.by.atomics, computed.by.crowded);
    if (is_kernel)
        memset(&computed, 0, sizeof computed);
    uint64_t run, id;
    uint32_t module, instruction;
    if (*word != 'r' && *word != 'w' && pretend_xla_asks(&run, &module, &id, &instruction)) /* not record, wait */
        append_format(&line_text, "\nof %" PRIu64 " %u %" PRIu64 " %u", run, module, id, instruction);
    pretend_lock();
    if (line_text.at && !pretend_graph_take(word, stream, line_text.at)) {
        char place[32];
        snprintf(place, sizeof place, " %d %u", pretend_stream_device(stream), pretend_stream(stream));
        if (*word == 'k' && pretend_lengths()) /* kernel */
            pretend_write_lengths(pretend_lengths());
        if (recording)
            write_timed(word, place, line_text.at);
    }
    pretend_unlock();
}

/* For the Python hook, which runs before whatever ends a process at its exit. */
PRETEND_EXPORT void pretend_flush(void)
{
    pretend_lock();
    if (worked)
        flush_text();
    pretend_unlock();
}

/* For the hook of a process that is about to be killed: what comes after this is not written. */
PRETEND_EXPORT void pretend_finish(void)
{
    finish();
}

void pretend_looked(void)
{
    pretend_lock();
    looks++;
    pretend_unlock();
}

static bool grow_names(void)
{
    size_t slots = n_slots ? 2 * n_slots : 1024;
    Name *larger = calloc(slots, sizeof *larger);
    if (!larger)
        return false;
    for (size_t i = 0; i < n_slots; i++) {
        if (!names[i].text)
            continue;
        size_t at = names[i].hash & (slots - 1);
        while (larger[at].text)
            at = (at + 1) & (slots - 1);
        larger[at] = names[i];
    }
    free(names);
    names = larger;
    n_slots = slots;
    return true;
}

static void write_name(uint32_t number, const char *name)
{
    put_format("name %u ", number);
    lines_quote(put, name);
    put('\n');
}

/* Number of the text @key; at its first use @written is written for it, or itself. */
static uint32_t number_of(const char *key, char *(*written)(const char *key))
{
    pthread_once(&once, begin);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = key; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    pretend_lock();
    uint32_t number = 0;
    if (recording && (2 * n_names < n_slots || grow_names())) {
        size_t at = hash & (n_slots - 1);
        while (names[at].text && (names[at].hash != hash || strcmp(names[at].text, key) != 0))
            at = (at + 1) & (n_slots - 1);
        if (!names[at].text) {
            names[at] = (Name){.text = strdup(key), .hash = hash, .number = ++last_name};
            n_names++;
            char *text_of = written ? written(key) : NULL;
            write_name(names[at].number, text_of ? text_of : key);
            free(text_of);
        }
        number = names[at].number;
    }
    pretend_unlock();
    return number;
}

uint32_t pretend_name(const char *name)
{
    return number_of(name, NULL);
}

uint32_t pretend_symbol(const char *symbol)
{
    return number_of(symbol, lines_demangled);
}

uint32_t pretend_new_name(const char *name)
{
    pthread_once(&once, begin);
    pretend_lock();
    uint32_t number = 0;
    if (recording)
        write_name(number = ++last_name, name);
    pretend_unlock();
    return number;
}

void pretend_say_once(const char *what)
{
    pretend_lock();
    bool new = true;
    size_t i = 0;
    for (; new &&i < sizeof said / sizeof *said &&said[i]; i++)
        new = strcmp(said[i], what) != 0;
    if (new &&i < sizeof said / sizeof *said)
        said[i] = strdup(what);
    pretend_unlock();
    if (new)
        say(what, NULL);
}

void pretend_library_kernel(void *stream, const char *name, const char *launch, uint64_t read, uint64_t written, uint64_t operations, const char *dtype)
{
    uint32_t name_number = pretend_name(name), launch_number = pretend_name(launch), type_number = pretend_name(dtype ? dtype : "");
    pretend_work("library", stream, "%u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %u", name_number, launch_number, read, written, operations, type_number);
}
