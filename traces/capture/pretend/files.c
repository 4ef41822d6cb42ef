/* Files that the host reads and writes, which a disk takes time for: weights that a library leaves on a disk and fetches again (accelerate's and diffusers'
 * offload), checkpoints, what is mapped and copied to a device from there. Of the thread alone that asks the device for work, which waits for them; of files on
 * a disk, in pieces of 1 MiB and more. The real calls stand behind ours; what this library reads itself is left out. */
#include "../lines_out.h"
#include "pretend.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { LEAST_BYTES = 1 << 20, MOST_MAPS = 65536 };

/* glibc's own names of what stands behind ours. */
ssize_t __read(int file, void *to, size_t bytes);                         /* NOLINT(bugprone-reserved-identifier) */
ssize_t __write(int file, const void *from, size_t bytes);                /* NOLINT(bugprone-reserved-identifier) */
ssize_t __pread64(int file, void *to, size_t bytes, off_t at);            /* NOLINT(bugprone-reserved-identifier) */
ssize_t __pwrite64(int file, const void *from, size_t bytes, off_t at);   /* NOLINT(bugprone-reserved-identifier) */
size_t _IO_fread(void *to, size_t size, size_t n, FILE *stream);          /* NOLINT(bugprone-reserved-identifier) */
size_t _IO_fwrite(const void *from, size_t size, size_t n, FILE *stream); /* NOLINT(bugprone-reserved-identifier) */

extern const char __ehdr_start __attribute__((visibility("hidden"))); /* NOLINT(bugprone-reserved-identifier): the linker's, of this library */
extern const char etext __attribute__((visibility("hidden")));

static bool is_ours(const void *caller)
{
    return (const char *)caller >= &__ehdr_start && (const char *)caller < &etext;
}

/* A file on a disk: its path, its number, which stays when it is renamed, and whether it goes around the host's page cache. */
typedef struct {
    char path[PATH_MAX];
    uint64_t number;
    bool direct;
} Place;

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What the capture itself leaves of this process: PREFIX.PID.pretend, and PyTorch's snapshot beside it. */
static bool is_left(const char *path)
{
    char own[PATH_MAX];
    const char *pattern = getenv("ECHELON_PRETEND_OUT");
    if (!pattern || !lines_path(pattern, (long)getpid(), own))
        return false;
    const char *name = base_of(own), *end = strrchr(name, '.');
    return end && strncmp(base_of(path), name, (size_t)(end - name) + 1) == 0;
}

/* A library or a program, which a compiler reads once to know which it is (Triton its own): no data of the program's. */
static bool is_code(int file)
{
    char magic[4];
    return __pread64(file, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, "\177ELF", sizeof magic) == 0;
}

static bool find_place(int file, Place *ret)
{
    static const long of_memory[] = {0x01021994 /* tmpfs */, 0x858458f6 /* ramfs */, 0x958458f6 /* hugetlbfs */, 0x9fa0 /* proc */, 0x62656572 /* sysfs */};
    struct stat status;
    struct statfs system;
    char link[64];
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || fstatfs(file, &system) != 0)
        return false;
    for (size_t i = 0; i < sizeof of_memory / sizeof *of_memory; i++)
        if ((long)system.f_type == of_memory[i])
            return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, ret->path, sizeof ret->path - 1);
    int flags = fcntl(file, F_GETFL);
    ret->path[n > 0 ? n : 0] = '\0';
    ret->number = (uint64_t)status.st_ino;
    ret->direct = flags >= 0 && (flags & O_DIRECT);
    return n > 0 && !is_left(ret->path) && !is_code(file);
}

/* What the process has of the host's memory, beside files: the page cache has not got it. */
static uint64_t held_bytes(void)
{
    char text[128];
    unsigned long pages = 0, resident = 0, shared = 0;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? __read(file, text, sizeof text - 1) : 0;
    if (file >= 0)
        close(file);
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%lu %lu %lu", &pages, &resident, &shared) == 3 && resident > shared ? (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE)
                                                                                             : 0;
}

enum { HOW_READ, HOW_WRITTEN, HOW_MAPPED, HOW_DIRECT = 4, HOW_BESIDE = 8 };

static void tell(const char *path, uint64_t number, int how, uint64_t at, uint64_t bytes)
{
    pretend_event("file", "%d %" PRIu32 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " 0", pretend_current_device(), pretend_name(path), number, how, at,
                  bytes, held_bytes());
}

/* A call of @caller's has moved @done bytes of @file (below 0: it failed), up to @end (-1: up to where it stands now). */
static void tell_call(const void *caller, int file, int how, off_t end, ssize_t done)
{
    int error = errno;
    Place place;
    if (done < LEAST_BYTES || is_ours(caller) || !pretend_asks())
        return;
    if (find_place(file, &place)) {
        end = end < 0 ? lseek(file, 0, SEEK_CUR) : end;
        tell(place.path, place.number, how | (place.direct ? HOW_DIRECT : 0), end > done ? (uint64_t)(end - done) : 0, (uint64_t)done);
    }
    errno = error;
}

PRETEND_EXPORT ssize_t read(int file, void *to, size_t bytes)
{
    ssize_t done = __read(file, to, bytes);
    tell_call(__builtin_return_address(0), file, HOW_READ, -1, done);
    return done;
}

PRETEND_EXPORT ssize_t write(int file, const void *from, size_t bytes)
{
    ssize_t done = __write(file, from, bytes);
    tell_call(__builtin_return_address(0), file, HOW_WRITTEN, -1, done);
    return done;
}

PRETEND_EXPORT ssize_t pread64(int file, void *to, size_t bytes, off_t at)
{
    ssize_t done = __pread64(file, to, bytes, at);
    tell_call(__builtin_return_address(0), file, HOW_READ, at + done, done);
    return done;
}

PRETEND_EXPORT ssize_t pwrite64(int file, const void *from, size_t bytes, off_t at)
{
    ssize_t done = __pwrite64(file, from, bytes, at);
    tell_call(__builtin_return_address(0), file, HOW_WRITTEN, at + done, done);
    return done;
}

/* As streams of C++ do it. */
PRETEND_EXPORT ssize_t readv(int file, const struct iovec *pieces, int n)
{
    ssize_t done = syscall(SYS_readv, file, pieces, n);
    tell_call(__builtin_return_address(0), file, HOW_READ, -1, done);
    return done;
}

PRETEND_EXPORT ssize_t writev(int file, const struct iovec *pieces, int n)
{
    ssize_t done = syscall(SYS_writev, file, pieces, n);
    tell_call(__builtin_return_address(0), file, HOW_WRITTEN, -1, done);
    return done;
}

/* Files have 64-bit offsets under either name. */
PRETEND_EXPORT ssize_t pread(int file, void *to, size_t bytes, off_t at) __attribute__((alias("pread64")));
PRETEND_EXPORT ssize_t pwrite(int file, const void *from, size_t bytes, off_t at) __attribute__((alias("pwrite64")));

/* Where a stream stands takes a call to find, which small pieces are not worth. */
static void tell_stream(const void *caller, FILE *stream, int how, size_t done)
{
    int error = errno;
    if (done >= LEAST_BYTES)
        tell_call(caller, fileno(stream), how, ftello(stream), (ssize_t)done);
    errno = error;
}

PRETEND_EXPORT size_t fread(void *to, size_t size, size_t n, FILE *stream)
{
    size_t done = _IO_fread(to, size, n, stream);
    tell_stream(__builtin_return_address(0), stream, HOW_READ, done * size);
    return done;
}

PRETEND_EXPORT size_t fwrite(const void *from, size_t size, size_t n, FILE *stream)
{
    size_t done = _IO_fwrite(from, size, n, stream);
    tell_stream(__builtin_return_address(0), stream, HOW_WRITTEN, done * size);
    return done;
}

/* For the Python hook: what a library's own threads read (else write) of a file, whose blocks they ask the disk for themselves, by a @handle of the program's;
 * @beside: the program goes on, and waits later for all that it asked for by the handle. */
PRETEND_EXPORT void pretend_file(unsigned handle, const char *path, bool written, bool beside, uint64_t bytes)
{
    pretend_event("file", "%d %" PRIu32 " 0 %d 0 %" PRIu64 " 0 %u", pretend_current_device(), pretend_name(path),
                  (written ? HOW_WRITTEN : HOW_READ) | HOW_DIRECT | (beside ? HOW_BESIDE : 0), bytes, handle);
}

PRETEND_EXPORT void pretend_await_files(unsigned handle)
{
    pretend_event("sync", "5 %d %u 0", pretend_current_device(), handle);
}

/* ---- files that are mapped: their pages are read as they are touched ---- */

typedef struct {
    uint64_t address, bytes, at;
    uint64_t told; /* bytes of copies that touched their pages here */
    bool written;  /* into the file */
    char *path;
    uint64_t number;
} Map;

/* By address, under the lock. */
static Map *maps;
static size_t n_maps, maps_room;

static size_t map_at(uint64_t address)
{
    size_t low = 0, high = n_maps;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (maps[middle].address + maps[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_map(uint64_t address, uint64_t bytes, uint64_t at, bool written, const Place *place)
{
    pretend_lock();
    if (n_maps == maps_room && n_maps < MOST_MAPS) {
        size_t room = maps_room ? 2 * maps_room : 64;
        Map *larger = realloc(maps, room * sizeof *larger);
        maps = larger ? larger : maps;
        maps_room = larger ? room : maps_room;
    }
    size_t where = map_at(address);
    char *kept = n_maps < maps_room ? strdup(place->path) : NULL;
    if (kept) {
        memmove(maps + where + 1, maps + where, (n_maps - where) * sizeof *maps);
        maps[where] = (Map){address, bytes, at, 0, written, kept, place->number};
        __atomic_store_n(&n_maps, n_maps + 1, __ATOMIC_RELAXED);
    }
    pretend_unlock();
}

/* Bytes of the pages from @address on that the process has touched; the kernel brings in some beside those. */
static uint64_t touched_bytes(uint64_t address, uint64_t bytes)
{
    enum { MANY = 4096 };
    static const uint64_t there = UINT64_C(1) << 63;
    uint64_t entries[MANY], page = (uint64_t)sysconf(_SC_PAGESIZE), touched = 0;
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (uint64_t first = address / page, last = (address + bytes + page - 1) / page; file >= 0 && first < last;) {
        uint64_t n = last - first < MANY ? last - first : MANY;
        ssize_t got = __pread64(file, entries, n * sizeof *entries, (off_t)(first * sizeof *entries));
        n = got > 0 ? (uint64_t)got / sizeof *entries : 0;
        for (uint64_t i = 0; i < n; i++)
            touched += (entries[i] & there) ? page : 0;
        first = n > 0 ? first + n : last;
    }
    if (file >= 0)
        close(file);
    return touched < bytes ? touched : bytes;
}

/* What the program has touched of it beside what was told is read from the file by now, or will be written to it. */
static void tell_touched(const Map *map)
{
    uint64_t touched = touched_bytes(map->address, map->bytes);
    if (pretend_asks() && touched >= map->told + LEAST_BYTES)
        tell(map->path, map->number, map->written ? HOW_WRITTEN : HOW_READ, map->at, touched - map->told);
}

static void remove_maps(uint64_t address, uint64_t bytes)
{
    pretend_lock();
    for (size_t where = map_at(address); where < n_maps && maps[where].address < address + bytes;) {
        tell_touched(&maps[where]);
        free(maps[where].path);
        memmove(maps + where, maps + where + 1, (n_maps - where - 1) * sizeof *maps);
        __atomic_store_n(&n_maps, n_maps - 1, __ATOMIC_RELAXED);
    }
    pretend_unlock();
}

void pretend_copies_from(const void *from, size_t bytes, bool touches)
{
    if (__atomic_load_n(&n_maps, __ATOMIC_RELAXED) == 0)
        return;
    pretend_lock();
    size_t where = map_at((uint64_t)from);
    Map *map = where < n_maps && maps[where].address <= (uint64_t)from ? &maps[where] : NULL;
    if (map && bytes >= LEAST_BYTES) {
        tell(map->path, map->number, HOW_MAPPED, map->at + ((uint64_t)from - map->address), bytes);
        map->told += touches ? bytes : 0;
    }
    pretend_unlock();
}

PRETEND_EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t at)
{
    void *mapped = (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, at); /* NOLINT(performance-no-int-to-ptr) */
    Place place;
    if (mapped != MAP_FAILED && file >= 0 && bytes >= LEAST_BYTES && !(protection & PROT_EXEC) && !is_ours(__builtin_return_address(0)) &&
        find_place(file, &place))
        add_map((uint64_t)mapped, bytes, (uint64_t)at, (protection & PROT_WRITE) && (flags & MAP_SHARED), &place);
    return mapped;
}

PRETEND_EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t at) __attribute__((alias("mmap")));

PRETEND_EXPORT int munmap(void *address, size_t bytes)
{
    if (__atomic_load_n(&n_maps, __ATOMIC_RELAXED) > 0 && !is_ours(__builtin_return_address(0))) {
        int error = errno;
        remove_maps((uint64_t)address, bytes);
        errno = error;
    }
    return (int)syscall(SYS_munmap, address, bytes);
}
