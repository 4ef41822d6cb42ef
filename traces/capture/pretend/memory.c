/* Addresses: reserved, counted, and never filled but by small copies. */
#include "pretend.h"

#include <inttypes.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((uint64_t)2 << 20) /* what the driver backs large allocations by */
#define HOST_PAGE ((uint64_t)4096)
#define MARK ((uint64_t)1 << 20)            /* addresses by which pages are asked for */
#define UNTOUCHED_BYTES ((uint64_t)8 << 20) /* less mostly comes from a heap whose pages are there; and a huge page has two marks of it */
#define KEPT_BYTES ((uint64_t)1 << 30)      /* host memory for what small copies brought, at most */

typedef struct {
    PretendBlock block;
    bool mapped; /* memory of a reservation: its addresses stay when it goes */
    bool pooled; /* by cudaMallocAsync */
    bool ours;   /* addresses of ours, to give back */
} Block;

/* What the host copied to a device. */
typedef struct {
    uint64_t address, bytes;
} Filled;

static Block *blocks; /* by address */
static size_t n_blocks, n_room;
static uint64_t pooled[PRETEND_DEVICES], most_pooled[PRETEND_DEVICES], pool_limit[PRETEND_DEVICES]; /* limit 0: none */
static Filled *filled;                                                                              /* by address, apart from each other */
static size_t n_filled, filled_room;
static uint64_t lowest = UINT64_MAX, highest; /* that devices reach, ever */
static uint64_t kept;                         /* bytes of host memory under them, at most */

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return value > UINT64_MAX - to ? UINT64_MAX / to * to : (value + to - 1) / to * to;
}

/* First block that ends after @address. */
static size_t position(uint64_t address)
{
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].block.address + blocks[middle].block.bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool on_device(PretendKind kind)
{
    return kind == PRETEND_DEVICE || kind == PRETEND_LIBRARY;
}

/* Lies where no memory of the host's does. */
static bool is_apart(PretendKind kind)
{
    return on_device(kind) || kind == PRETEND_MANAGED;
}

/* Devices reach it by its address: what a kernel's parameters may name. */
static bool is_reached(PretendKind kind)
{
    return is_apart(kind) || kind == PRETEND_PINNED;
}

static bool insert(const Block *block)
{
    if (n_blocks == n_room) {
        size_t room = n_room ? 2 * n_room : 256;
        Block *larger = realloc(blocks, room * sizeof *larger);
        if (!larger)
            return false;
        blocks = larger;
        n_room = room;
    }
    size_t at = position(block->block.address);
    memmove(blocks + at + 1, blocks + at, (n_blocks - at) * sizeof *blocks);
    blocks[at] = *block;
    n_blocks++;
    if (is_reached(block->block.kind)) {
        uint64_t end = block->block.address + block->block.bytes;
        __atomic_store_n(&lowest, block->block.address < lowest ? block->block.address : lowest, __ATOMIC_RELAXED);
        __atomic_store_n(&highest, end > highest ? end : highest, __ATOMIC_RELAXED);
    }
    return true;
}

/* What an allocation takes of the device: whole pages, but small ones share theirs. */
static uint64_t footprint(uint64_t bytes)
{
    return bytes >= PAGE / 2 ? round_up(bytes, PAGE) : round_up(bytes, 512);
}

/* The same of one from a pool, which cuts its own blocks (models/alloc has its multiple). */
static uint64_t footprint_of(uint64_t bytes, bool from_pool)
{
    return from_pool ? round_up(bytes, 512) : footprint(bytes);
}

/* What a process takes of each device of its host. */
typedef struct {
    long process; /* 0: nobody's */
    int host;     /* processes for ranks of their own (--rank) are taken to be on hosts of their own; -1: all others */
    uint64_t used[PRETEND_DEVICES];
} Share;
enum { MOST_SHARES = 1024 };
/* What lies in a file that all processes of the capture map. */
typedef struct {
    int runtime; /* of the program that said so last (pretend_runtime_version()) */
    unsigned n;  /* shares that were ever somebody's */
    Share shares[MOST_SHARES];
} Shared;
static Shared *shared; /* NULL: this process is alone */
static Share alone = {.host = -1}, *own = &alone;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

static void map_shared(void)
{
    const char *path = getenv("ECHELON_PRETEND_PROCESSES");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *at = ftruncate(file, sizeof *shared) == 0 ? mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    shared = at != MAP_FAILED ? at : NULL;
    const char *rank = getenv("ECHELON_PRETEND_RANK");
    alone.host = rank ? atoi(rank) : -1;
}

int pretend_shared_runtime(int version)
{
    pthread_once(&looked, map_shared);
    if (shared && version != 0)
        __atomic_store_n(&shared->runtime, version, __ATOMIC_RELAXED);
    return shared && version == 0 ? __atomic_load_n(&shared->runtime, __ATOMIC_RELAXED) : version;
}

/* Takes a share of nobody's, or of a process that has ended. */
static void take_share(void)
{
    pthread_once(&looked, map_shared);
    alone.process = getpid();
    for (size_t i = 0; shared && own == &alone && i < MOST_SHARES; i++) {
        Share *share = &shared->shares[i];
        long before = __atomic_load_n(&share->process, __ATOMIC_ACQUIRE);
        if ((before == 0 || !pretend_runs(before)) &&
            __atomic_compare_exchange_n(&share->process, &before, alone.process, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            memcpy(share->used, alone.used, sizeof alone.used);
            share->host = alone.host;
            own = share;
            for (unsigned n = __atomic_load_n(&shared->n, __ATOMIC_RELAXED); n < i + 1;)
                if (__atomic_compare_exchange_n(&shared->n, &n, (unsigned)i + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
                    break;
        }
    }
}

void pretend_leave_processes(void)
{
    memcpy(alone.used, own->used, sizeof alone.used);
    alone.process = 0;
    own = &alone;
}

static size_t place_of(int device)
{
    return (unsigned)pretend_on_host(device) % PRETEND_DEVICES;
}

static uint64_t *use_of(int device)
{
    return &own->used[place_of(device)];
}

/* What the process of @share takes of the host's device @place; 0: nothing, or it is none of this host's, or has ended. */
static uint64_t taken_by(const Share *share, size_t place)
{
    long process = __atomic_load_n(&share->process, __ATOMIC_ACQUIRE);
    uint64_t bytes = __atomic_load_n(&share->used[place], __ATOMIC_RELAXED);
    bool counts = process != 0 && bytes > 0 && share->host == own->host && (share == own || pretend_runs(process));
    return counts ? bytes + pretend_device()->context_bytes : 0;
}

static size_t n_shares(void)
{
    return shared ? __atomic_load_n(&shared->n, __ATOMIC_ACQUIRE) : 0;
}

size_t pretend_processes(int device_on_host, PretendProcess *processes, size_t room)
{
    pthread_once(&looked, map_shared);
    pretend_lock();
    const Share *first = shared ? shared->shares : &alone;
    size_t n = 0;
    for (size_t i = 0; i < (shared ? n_shares() : 1) && n < room; i++) {
        uint64_t bytes = taken_by(&first[i], (unsigned)device_on_host % PRETEND_DEVICES);
        if (bytes > 0)
            processes[n++] = (PretendProcess){(unsigned)first[i].process, bytes};
    }
    pretend_unlock();
    return n;
}

/* What the driver's contexts and all processes take of @device: this one's context is there, whatever it has. With the lock held. */
static uint64_t taken(int device)
{
    pthread_once(&looked, map_shared);
    uint64_t sum = pretend_device()->context_bytes + *use_of(device);
    for (size_t i = 0; i < n_shares(); i++)
        sum += &shared->shares[i] != own ? taken_by(&shared->shares[i], place_of(device)) : 0;
    return sum;
}

static bool take_locked(int device, uint64_t bytes)
{
    if (own->process == 0)
        take_share();
    uint64_t all = pretend_device()->bytes, before = bytes > 0 ? taken(device) : 0;
    if (before > all || bytes > all - before)
        return false;
    *use_of(device) += bytes;
    return true;
}

bool pretend_take_bytes(int device, uint64_t bytes)
{
    pretend_lock();
    bool fits = take_locked(device, bytes);
    pretend_unlock();
    return fits;
}

void pretend_give_bytes(int device, uint64_t bytes)
{
    pretend_lock();
    *use_of(device) -= bytes;
    pretend_unlock();
}

uint64_t pretend_free_bytes(int device)
{
    uint64_t all = pretend_device()->bytes;
    pretend_lock();
    uint64_t used = taken(device);
    pretend_unlock();
    return used < all ? all - used : 0;
}

uint64_t pretend_pool_bytes(int device, bool most)
{
    pretend_lock();
    uint64_t bytes = (most ? most_pooled : pooled)[(unsigned)device % PRETEND_DEVICES];
    pretend_unlock();
    return bytes;
}

void pretend_limit_pool(int device, uint64_t more)
{
    pretend_lock();
    uint64_t *limit = &pool_limit[(unsigned)device % PRETEND_DEVICES];
    *limit = more < UINT64_MAX - *limit ? *limit + more : UINT64_MAX;
    pretend_unlock();
}

static bool pool_has_room_locked(int device, uint64_t bytes)
{
    uint64_t limit = pool_limit[(unsigned)device % PRETEND_DEVICES], used = pooled[(unsigned)device % PRETEND_DEVICES];
    return limit == 0 || (used <= limit && bytes <= limit - used);
}

/* Addresses of devices are looked for among the words of kernels' parameters. So they lie where no other words of parameters do: pairs of 32-bit numbers have a
 * small number below (not so the addresses: the first 16 MiB of every 4 GiB are left out where a block is no larger), pairs of floats are no denormals, 64-bit
 * sizes are smaller; and where the kernel puts no maps of its own (the upper end) or programs (0x55...). The same program gets the same ones. */
#ifdef __SANITIZE_THREAD__ /* which takes those for itself */
#define FIRST_ADDRESS UINT64_C(0x560000000000)
#define LAST_ADDRESS UINT64_C(0x568000000000)
#else
#define FIRST_ADDRESS UINT64_C(0x3a6700000000)
#define LAST_ADDRESS UINT64_C(0x500000000000)
#endif
#define GAP ((uint64_t)16 << 20)
#define TURN ((uint64_t)1 << 32)

static uint64_t choose_address(uint64_t bytes, uint64_t align)
{
    static uint64_t next = FIRST_ADDRESS;
    uint64_t old = __atomic_load_n(&next, __ATOMIC_RELAXED), begin;
    do {
        begin = old % TURN < GAP ? old / TURN * TURN + GAP : old;
        if (bytes <= TURN - 2 * GAP && begin / TURN != (begin + bytes + align) / TURN)
            begin = (begin / TURN + 1) * TURN + GAP;
        begin = round_up(begin, align);
    } while (!__atomic_compare_exchange_n(&next, &old, begin + bytes, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return begin;
}

/* @bytes of addresses at a multiple of @align; memory is only taken where something is written. NULL where there are none. */
static void *map_addresses(uint64_t bytes, uint64_t align, int protection, bool chosen)
{
    enum { FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };
    uint64_t whole = round_up(bytes, HOST_PAGE), wanted = chosen && whole < LAST_ADDRESS - FIRST_ADDRESS ? choose_address(whole, align) : LAST_ADDRESS;
    if (whole > UINT64_MAX / 2 || align > UINT64_MAX / 4)
        return NULL;
    uint8_t *at = wanted < LAST_ADDRESS ? mmap((void *)wanted, whole, protection, FLAGS | MAP_FIXED_NOREPLACE, -1, 0) : MAP_FAILED;
    if (at != MAP_FAILED && (uint64_t)at == wanted) {
        madvise(at, whole, MADV_NOHUGEPAGE); /* a byte written takes 4 KiB, not 2 MiB */
        return at;
    }
    if (at != MAP_FAILED) /* Linux before 4.17 */
        munmap(at, whole);
    at = mmap(NULL, whole + align, protection, FLAGS, -1, 0);
    if (at == MAP_FAILED) {
        pretend_say_once("the host has no addresses left for the device's memory (see ulimit -v and vm.overcommit_memory)");
        return NULL;
    }
    madvise(at, whole + align, MADV_NOHUGEPAGE);
    uint64_t address = round_up((uint64_t)at, align), end = address + whole;
    if (address > (uint64_t)at)
        munmap(at, address - (uint64_t)at);
    if ((uint64_t)at + whole + align > end)
        munmap((void *)end, (uint64_t)at + whole + align - end);
    return (void *)address;
}

void *pretend_allocate(int device, size_t bytes, PretendKind kind, void *stream, bool async)
{
    if (bytes == 0)
        return NULL;
    uint64_t counted = on_device(kind) ? footprint_of(bytes, async) : 0, *pool = &pooled[(unsigned)device % PRETEND_DEVICES],
             *most = &most_pooled[(unsigned)device % PRETEND_DEVICES];
    void *at = NULL;
    pretend_lock(); /* to the line: an address that another thread has given back may come again */
    if ((!async || pool_has_room_locked(device, counted)) && take_locked(device, counted)) {
        at = map_addresses(bytes, bytes >= PAGE / 2 ? PAGE : HOST_PAGE, PROT_READ | PROT_WRITE, is_apart(kind));
        Block block = {.block = {.address = (uint64_t)at, .bytes = bytes, .kind = kind, .device = device}, .pooled = async, .ours = true};
        bool kept_it = at && insert(&block);
        if (!kept_it)
            *use_of(device) -= counted;
        else if (async)
            *most = (*pool += counted) > *most ? *pool : *most;
        if (at && !kept_it) {
            munmap(at, round_up(bytes, HOST_PAGE));
            at = NULL;
        }
    }
    if (at)
        pretend_event("alloc", "%d %u %" PRIu64 " %zu %d %d", device, pretend_stream(stream), (uint64_t)at, bytes, kind, async);
    else if (on_device(kind))
        pretend_event("refused", "%d %u %zu", device, pretend_stream(stream), bytes);
    pretend_unlock();
    return at;
}

/* First range that ends after @address. */
static size_t filled_position(uint64_t address)
{
    size_t low = 0, high = n_filled;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (filled[middle].address + filled[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Drops the ranges that touch @bytes at @address. */
static void forget(uint64_t address, uint64_t bytes)
{
    size_t first = filled_position(address), end = first;
    for (; end < n_filled && filled[end].address < address + bytes; end++)
        kept -= round_up(filled[end].bytes, HOST_PAGE);
    if (end > first)
        memmove(filled + first, filled + end, (n_filled - end) * sizeof *filled);
    n_filled -= end - first;
}

/* Takes the block @at out of the list. */
static Block remove_at(size_t at)
{
    Block block = blocks[at];
    memmove(blocks + at, blocks + at + 1, (n_blocks - at - 1) * sizeof *blocks);
    n_blocks--;
    if (on_device(block.block.kind) && !block.mapped)
        *use_of(block.block.device) -= footprint_of(block.block.bytes, block.pooled);
    if (block.pooled)
        pooled[(unsigned)block.block.device % PRETEND_DEVICES] -= footprint_of(block.block.bytes, true);
    forget(block.block.address, block.block.bytes);
    return block;
}

bool pretend_free(void *address, void *stream, bool async)
{
    pretend_lock();
    size_t at = position((uint64_t)address);
    bool found = at < n_blocks && blocks[at].block.address == (uint64_t)address && blocks[at].ours;
    if (found) {
        const Block block = remove_at(at);
        munmap(address, round_up(block.block.bytes, HOST_PAGE));
        pretend_event("free", "%d %u %" PRIu64 " %" PRIu64 " %d %d", block.block.device, pretend_stream(stream), block.block.address, block.block.bytes,
                      block.block.kind, async);
    }
    pretend_unlock();
    return found;
}

bool pretend_find(const void *address, PretendBlock *ret)
{
    pretend_lock();
    size_t at = position((uint64_t)address);
    bool found = at < n_blocks && blocks[at].block.address <= (uint64_t)address;
    if (found)
        *ret = blocks[at].block;
    pretend_unlock();
    return found;
}

bool pretend_is_address(uint64_t word)
{
    PretendBlock block;
    return word >= __atomic_load_n(&lowest, __ATOMIC_RELAXED) && word < __atomic_load_n(&highest, __ATOMIC_RELAXED) &&
           pretend_find((const void *)word, &block) && is_reached(block.kind);
}

/* Whether the kernel has yet to bring in pages for who writes to @to: at most half of its marks have one. */
static bool is_untouched(const void *to, size_t bytes)
{
    uint64_t marks = 0, there = 0;
    unsigned char page = 0;
    for (uint64_t at = round_up((uint64_t)to, MARK); bytes >= UNTOUCHED_BYTES && at < (uint64_t)to + bytes; at += MARK, marks++)
        there += mincore((void *)at, 1, &page) != 0 || (page & 1);
    return there * 2 < marks;
}

void pretend_pin(int device, void *address, size_t bytes)
{
    Block block = {.block = {.address = (uint64_t)address, .bytes = bytes, .kind = PRETEND_PINNED}};
    pretend_lock();
    insert(&block);
    pretend_event("pin", "%d %zu %d", device, bytes, is_untouched(address, bytes));
    pretend_event("registered", "%d %" PRIu64 " %zu", device, (uint64_t)address, bytes);
    pretend_unlock();
}

bool pretend_unpin(int device, void *address)
{
    pretend_lock();
    size_t at = position((uint64_t)address);
    bool found = at < n_blocks && blocks[at].block.address == (uint64_t)address && !blocks[at].ours && !blocks[at].mapped;
    if (found) {
        pretend_event("unregistered", "%d %" PRIu64 " %" PRIu64, device, blocks[at].block.address, blocks[at].block.bytes);
        remove_at(at);
    }
    pretend_unlock();
    return found;
}

/* ---- addresses and memory apart ---- */

void *pretend_reserve(uint64_t bytes, uint64_t align)
{
    return map_addresses(bytes, align > PAGE ? align : PAGE, PROT_NONE, true);
}

void pretend_unreserve(void *address, uint64_t bytes)
{
    munmap(address, round_up(bytes, HOST_PAGE));
}

bool pretend_map(void *address, uint64_t bytes, int device)
{
    Block block = {.block = {.address = (uint64_t)address, .bytes = bytes, .kind = PRETEND_DEVICE, .device = device}, .mapped = true};
    if (mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    pretend_lock();
    bool mapped = insert(&block);
    if (mapped)
        pretend_event("alloc", "%d 0 %" PRIu64 " %" PRIu64 " %d 0", device, (uint64_t)address, bytes, PRETEND_DEVICE);
    pretend_unlock();
    return mapped;
}

void *pretend_see(uint64_t bytes, int device)
{
    void *address = map_addresses(bytes, PAGE, PROT_READ | PROT_WRITE, true);
    Block block = {.block = {.address = (uint64_t)address, .bytes = bytes, .kind = PRETEND_DEVICE, .device = device}, .mapped = true};
    pretend_lock();
    bool seen = address && insert(&block);
    pretend_unlock();
    return seen ? address : NULL;
}

void pretend_unmap(void *address, uint64_t bytes)
{
    pretend_lock();
    for (bool found = true; found;) {
        size_t at = position((uint64_t)address);
        found = at < n_blocks && blocks[at].block.address < (uint64_t)address + bytes && blocks[at].mapped;
        Block block = found ? remove_at(at) : (Block){0};
        if (found)
            pretend_event("free", "%d 0 %" PRIu64 " %" PRIu64 " %d 0", block.block.device, block.block.address, block.block.bytes, PRETEND_DEVICE);
    }
    madvise(address, bytes, MADV_DONTNEED);
    mprotect(address, bytes, PROT_NONE);
    pretend_unlock();
}

/* ---- contents: what the host copied to a device can be read back; all else reads zeros ---- */

static const Block *device_block(const void *address)
{
    size_t at = position((uint64_t)address);
    return at < n_blocks && blocks[at].block.address <= (uint64_t)address && on_device(blocks[at].block.kind) ? &blocks[at] : NULL;
}

static void let_go(void)
{
    for (size_t i = 0; i < n_filled; i++) {
        uint64_t first = filled[i].address / HOST_PAGE * HOST_PAGE;
        madvise((void *)first, round_up(filled[i].address + filled[i].bytes, HOST_PAGE) - first, MADV_DONTNEED);
    }
    n_filled = 0;
    kept = 0;
}

/* The host writes @bytes to @address, of a device. False where the host has no memory to keep them. */
static bool fill(const void *address, size_t bytes)
{
    bool full = kept + round_up(bytes, HOST_PAGE) > KEPT_BYTES;
    if (full) {
        let_go();
        pretend_say_once("small copies to the device brought 1 GiB, which is let go: they read as zeros from here on, as results do");
    }
    forget((uint64_t)address, bytes);
    if (n_filled == filled_room) {
        size_t room = filled_room ? 2 * filled_room : 256;
        Filled *larger = realloc(filled, room * sizeof *larger);
        if (!larger)
            return false;
        filled = larger;
        filled_room = room;
    }
    size_t at = filled_position((uint64_t)address);
    memmove(filled + at + 1, filled + at, (n_filled - at) * sizeof *filled);
    filled[at] = (Filled){(uint64_t)address, bytes};
    n_filled++;
    kept += round_up(bytes, HOST_PAGE);
    return true;
}

/* Whether @bytes at @address are all in what the host copied there, in one copy or several side by side. */
static bool is_covered(uint64_t address, size_t bytes)
{
    uint64_t reached = address;
    for (size_t at = filled_position(address); at < n_filled && filled[at].address <= reached && reached < address + bytes; at++)
        reached = filled[at].address + filled[at].bytes;
    return reached >= address + bytes;
}

/* Whether @bytes at @address are what the host copied there: copies as a whole, or a piece from the middle of one. The first piece of a longer copy may as well
 * be a result, at an address that was handed out again. */
static bool is_filled(const void *address, size_t bytes)
{
    size_t at = filled_position((uint64_t)address);
    bool first = at < n_filled && filled[at].address == (uint64_t)address && filled[at].bytes > bytes;
    return bytes > 0 && !first && is_covered((uint64_t)address, bytes);
}

/* The device writes zeros. */
static void clear(void *address, size_t bytes)
{
    uint64_t begin = (uint64_t)address, end = begin + bytes;
    for (size_t at = filled_position(begin); at < n_filled && filled[at].address < end; at++) {
        uint64_t from = filled[at].address > begin ? filled[at].address : begin, to = filled[at].address + filled[at].bytes;
        memset((void *)from, 0, (to < end ? to : end) - from);
    }
}

/* The host reads zeros from @to on. Whole pages of what is the program's own are given back rather than written: activations that save_on_cpu() brings to the
 * host would take as much memory here as there. MADV_FREE, which may drop what is overwritten anyway, is refused for all that does not read zeros when it is
 * dropped. Marks keep a page, a small one: the program has touched this memory. */
static void clear_host(void *to, size_t bytes)
{
    uint64_t begin = (uint64_t)to, end = begin + bytes, first = round_up(begin, HOST_PAGE), last = end / HOST_PAGE * HOST_PAGE;
    bool given_back =
        bytes > PRETEND_COPIED_BYTES && madvise((void *)first, last - first, MADV_FREE) == 0 && madvise((void *)first, last - first, MADV_DONTNEED) == 0;
    if (!given_back)
        first = last = end;
    else
        madvise((void *)first, last - first, MADV_NOHUGEPAGE);
    for (uint64_t at = round_up(first, MARK); at < last; at += MARK)
        *(volatile char *)at = 0;
    memset(to, 0, first - begin);
    memset((void *)last, 0, end - last);
}

/* Within an operator, which reads its own results. SOUND: first of all whether all of its operand is finite; it is. ALL_SOUND: it reads nothing but such. */
static __thread enum { NO_DOUBT, DOUBT, DOUBT_SOUND, DOUBT_ALL_SOUND } doubt;

/* With the lock held; @known: whether the contents are, if a device has them. False where a result of the device was asked for, which is not known. */
static bool copy_contents(void *to, const void *from, size_t bytes, bool known)
{
    const Block *target = device_block(to), *source = device_block(from);
    known = source ? known && (target || !doubt) : bytes <= PRETEND_COPIED_BYTES;
    if (target && known && bytes <= PRETEND_COPIED_BYTES && fill(to, bytes))
        memmove(to, from, bytes);
    else if (target)
        clear(to, bytes);
    else if (!source || known)
        memmove(to, from, bytes);
    else
        clear_host(to, bytes);
    if (!known && !target && doubt >= DOUBT_SOUND && bytes == 1) {
        *(uint8_t *)to = 1;
        doubt = doubt == DOUBT_SOUND ? DOUBT : doubt;
    }
    return known;
}

static bool reaches[PRETEND_DEVICES][PRETEND_DEVICES];

void pretend_reach(int device, int peer)
{
    for (int d = 0; d < PRETEND_DEVICES; d++)
        for (int p = 0; p < PRETEND_DEVICES; p++)
            if ((device < 0 || d == device) && (device < 0 || p == peer))
                __atomic_store_n(&reaches[d][p], true, __ATOMIC_RELAXED);
}

/* Where both could reach each other, and neither was told to, the driver brings it to the host first (CUDA's reference: cudaMemcpyPeer,
 * cudaDeviceEnablePeerAccess). */
static bool is_staged(const PretendBlock *source, const PretendBlock *target)
{
    unsigned from = (unsigned)source->device % PRETEND_DEVICES, to = (unsigned)target->device % PRETEND_DEVICES;
    return source->kind == PRETEND_DEVICE && target->kind == PRETEND_DEVICE && from != to && pretend_reaches_peers() &&
           !__atomic_load_n(&reaches[from][to], __ATOMIC_RELAXED) && !__atomic_load_n(&reaches[to][from], __ATOMIC_RELAXED);
}

void pretend_copy(void *to, const void *from, size_t bytes, void *stream, PretendAsked asked)
{
    PretendBlock target = {.kind = PRETEND_PAGEABLE}, source = {.kind = PRETEND_PAGEABLE};
    pretend_find(to, &target);
    pretend_find(from, &source);
    bool known = true;
    if (source.kind == PRETEND_PAGEABLE && on_device(target.kind))
        pretend_copies_from(from, bytes, bytes <= PRETEND_COPIED_BYTES);
    if (target.kind == PRETEND_PAGEABLE && on_device(source.kind) && is_untouched(to, bytes))
        target.kind = PRETEND_UNTOUCHED;
    if (target.kind == PRETEND_MANAGED && bytes > PRETEND_COPIED_BYTES) {
        clear_host(to, bytes);
    } else if (on_device(target.kind) || on_device(source.kind)) {
        pretend_lock();
        known = copy_contents(to, from, bytes, is_filled(from, bytes));
        pretend_unlock();
    } else {
        memmove(to, from, bytes);
    }
    if (!known && !doubt && on_device(source.kind) && !on_device(target.kind) && bytes <= PRETEND_LOOKED_BYTES)
        pretend_looked();
    pretend_use(PRETEND_READS, from, bytes);
    pretend_use(PRETEND_WRITES, to, bytes);
    if (is_staged(&source, &target))
        target.kind = PRETEND_STAGED;
    pretend_work("copy", stream, "%zu %d %d %d", bytes, source.kind, target.kind, asked);
}

bool pretend_carry_piece(void *to, const void *from, size_t bytes, const void *whole, size_t whole_bytes)
{
    if (!to || !from || bytes == 0 || bytes > PRETEND_COPIED_BYTES)
        return false;
    pretend_lock();
    bool known = !device_block(from) || is_filled(whole, whole_bytes);
    if (to != from)
        copy_contents(to, from, bytes, known);
    pretend_unlock();
    return known;
}

bool pretend_carry(void *to, const void *from, size_t bytes)
{
    return pretend_carry_piece(to, from, bytes, from, bytes);
}

void pretend_set(void *to, int value, size_t bytes, void *stream)
{
    PretendBlock block = {.kind = PRETEND_PAGEABLE};
    pretend_find(to, &block);
    pretend_lock();
    bool device = on_device(block.kind);
    if (block.kind == PRETEND_MANAGED && bytes > PRETEND_COPIED_BYTES)
        clear_host(to, bytes);
    else if (!device || (value != 0 && bytes <= PRETEND_COPIED_BYTES && fill(to, bytes)))
        memset(to, value, bytes);
    else
        clear(to, bytes);
    pretend_unlock();
    pretend_use(PRETEND_WRITES, to, bytes);
    pretend_work("set", stream, "%zu", bytes);
}

/* ---- managed memory: where it lies is the importer's to say ---- */

bool pretend_prefetch(const void *address, size_t bytes, bool to_device, void *stream)
{
    PretendBlock block;
    if (!pretend_find(address, &block) || block.kind != PRETEND_MANAGED)
        return false;
    pretend_use(PRETEND_UPDATES, address, bytes);
    pretend_work("prefetch", stream, "%zu %d", bytes, to_device);
    return true;
}

bool pretend_advise(const void *address, size_t bytes, int advice, bool of_device)
{
    PretendBlock block;
    if (!pretend_find(address, &block) || block.kind != PRETEND_MANAGED)
        return false;
    pretend_event("advise", "%d %" PRIu64 " %zu %d %d", block.device, (uint64_t)address, bytes, advice, of_device);
    return true;
}

/* ---- for the Python hook, which computes some values itself (python/pretend_values.py) ---- */

PRETEND_EXPORT void pretend_doubt(int how)
{
    doubt = how;
}

/* What lies in pinned memory, which kernels reach where it is, is what the host has written there. */
static bool is_of_host(uint64_t address, size_t bytes)
{
    size_t at = position(address);
    const PretendBlock *block = at < n_blocks ? &blocks[at].block : NULL;
    return block && block->kind == PRETEND_PINNED && block->address <= address && address + bytes <= block->address + block->bytes;
}

PRETEND_EXPORT int pretend_known(const void *address, size_t bytes)
{
    pretend_lock();
    bool known = is_covered((uint64_t)address, bytes) || is_of_host((uint64_t)address, bytes);
    pretend_unlock();
    return known;
}

PRETEND_EXPORT void pretend_fill(const void *address, size_t bytes)
{
    pretend_lock();
    if (device_block(address) && !(is_filled(address, bytes) && bytes > 0))
        fill(address, bytes);
    pretend_unlock();
}

PRETEND_EXPORT void pretend_clear(void *address, size_t bytes)
{
    pretend_lock();
    if (device_block(address)) {
        clear(address, bytes);
        forget((uint64_t)address, bytes); /* results, at an address that may have been handed out again */
    }
    pretend_unlock();
}

/* What lies there stays and is no more known than a result is. */
PRETEND_EXPORT void pretend_unknown(const void *address, size_t bytes)
{
    pretend_lock();
    forget((uint64_t)address, bytes);
    pretend_unlock();
}
