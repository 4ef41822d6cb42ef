/* Memory: the card's bytes and the pool; host memory stands behind all of it. */
#include "tests/gpu/fake/fake.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static Block *blocks;
static size_t pool_used, pool_high, pool_reserved, pool_kept; /* Of the pool: handed out, held, and what a wait leaves it of that */

/* What the pool has to give, in the order in which it got it. */
typedef struct {
    const struct EchCuStreamOpaque *stream; /* For this one alone, which freed it; NULL: for every one */
    long at;                                /* The so manieth free */
    size_t bytes;
} Spare;
static Spare *spares;
static size_t n_spares;
static long pool_frees;
static int pool_deaf; /* To events: cudaMemPoolReuseFollowEventDependencies is off */
static char pool;

/* What is taken of the card. A machine rounds up to pages of 2 MiB; allocations up to 1 MiB lie in pages of their own, the fullest that has room. */
enum { ALIGNED = 512, PAGE = 2 << 20, SHARED = 1 << 20, UNIT = 512, UNITS = PAGE / UNIT, POOL_GROWTH = 32 << 20 };
typedef struct Page {
    struct Page *next;
    size_t n_used;
    char used[UNITS];
} Page;
static Page *pages;

static size_t up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Where @wanted units in a row are free; UNITS: nowhere. */
static size_t free_run(const Page *page, size_t wanted)
{
    for (size_t at = 0, run = 0; at < UNITS; at++) {
        run = page->used[at] ? 0 : run + 1;
        if (run == wanted)
            return at + 1 - wanted;
    }
    return UNITS;
}

/* The fullest page with room, or NULL. */
static Page *page_for(size_t bytes)
{
    Page *best = NULL;
    for (Page *page = pages; page; page = page->next) {
        if ((!best || page->n_used > best->n_used) && free_run(page, up(bytes, UNIT) / UNIT) < UNITS)
            best = page;
    }
    return best;
}

static int is_small(size_t bytes)
{
    return fake_real() && bytes <= SHARED;
}

/* Bytes of the card that a new allocation takes. */
static size_t charge(size_t bytes)
{
    if (!fake_real())
        return bytes;
    return !is_small(bytes) ? up(bytes, PAGE) : page_for(bytes) ? 0 : PAGE;
}

static void enter_page(Block *b)
{
    size_t units = up(b->bytes, UNIT) / UNIT;
    Page *page = page_for(b->bytes);
    if (!page) {
        page = calloc(1, sizeof *page);
        if (!page)
            abort();
        page->next = pages;
        pages = page;
    }
    b->page = page;
    b->unit = free_run(page, units);
    memset(page->used + b->unit, 1, units);
    page->n_used += units;
}

/* Bytes that the card has back. */
static size_t leave_page(Block *b)
{
    size_t units = up(b->bytes, UNIT) / UNIT;
    Page *page = b->page;
    memset(page->used + b->unit, 0, units);
    page->n_used -= units;
    if (page->n_used > 0)
        return 0;
    Page **at = &pages;
    while (*at != page)
        at = &(*at)->next;
    *at = page->next;
    free(page);
    return PAGE;
}

Block *fake_block_at(const void *pointer, size_t bytes)
{
    for (Block *b = blocks; b; b = b->next) {
        if ((const char *)pointer >= b->data && (const char *)pointer + bytes <= b->data + b->bytes && (!b->granules || fake_is_open(b, pointer, bytes)))
            return b;
    }
    return NULL;
}

void fake_stray(const Block *but)
{
    for (Block *b = blocks; b; b = b->next) {
        if (b != but && !b->host && b->bytes >= 4 && fake_block_at(b->data, 4))
            b->data[0]++;
    }
}

void fake_note_written(const void *pointer, size_t bytes, int noise)
{
    Block *block = bytes > 0 ? fake_block_at(pointer, bytes) : NULL;
    if (!block)
        return;
    size_t at = (size_t)((const char *)pointer - block->data);
    if (noise)
        block->noise = at <= block->noise && at + bytes > block->noise ? at + bytes : block->noise;
    else
        block->noise = at < block->noise ? at : block->noise;
}

Block *fake_new_block(size_t bytes, int host)
{
    Block *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    /* As the driver's memory is aligned; what is odd is odd in the programs that use it. */
    void *data = NULL;
    if (posix_memalign(&data, ALIGNED, bytes) != 0)
        abort();
    b->data = data;
    b->bytes = bytes;
    b->host = host;
    b->next = blocks;
    blocks = b;
    fake.held++;
    return b;
}

Block *fake_block_from(const void *begin)
{
    Block *b = blocks;
    while (b && b->data != begin)
        b = b->next;
    return b;
}

void fake_drop_block(Block *b)
{
    Block **at = &blocks;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    free(b->granules);
    free(b->data);
    free(b);
    fake.held--;
}

static EchCuResult take(void **ret, size_t bytes, int host)
{
    if (bytes == 0)
        return INVALID_VALUE;
    if (!host && fake.used + charge(bytes) + fake_foreign() > CARD_BYTES)
        return ECH_CU_ERROR_OUT_OF_MEMORY;
    Block *b = fake_new_block(bytes, host);
    if (!host) {
        fake.used += charge(bytes);
        if (is_small(bytes))
            enter_page(b);
    }
    *ret = b->data;
    return 0;
}

static EchCuResult give(const void *pointer, int host)
{
    Block *b = fake_block_from(pointer);
    if (!b || b->host != host || b->granules)
        return INVALID_VALUE;
    if (!host)
        fake.used -= b->page ? leave_page(b) : charge(b->bytes);
    fake_drop_block(b);
    return 0;
}

void fake_release_pooled(const void *pointer)
{
    give(pointer, 0);
}

double fake_wall_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

void fake_keep_host(double begin, double nanoseconds)
{
    double now;
    while ((now = fake_wall_ns()) < begin + nanoseconds)
        ;
    /* What the fake itself takes the host is the driver's too; what else the machine did meanwhile is not. */
    fake_pass(now - begin < 2 * nanoseconds ? now - begin : nanoseconds);
}

void fake_take_beside(void)
{
    const FakeFigures *figures = fake_figures();
    double begin = fake_wall_ns(), before = fake.busy;
    if (!fake_real() || fake.capturing || !(figures->beside + figures->settle > 0) || !fake_at_work())
        return;
    if (figures->settle > 0)
        fake_run_all();
    fake_keep_host(begin, figures->beside + fake.busy - before);
}

/* An allocation, or a release, that began at @begin. */
static void dawdle(double begin, size_t bytes)
{
    const char *text = getenv("ECH_FAKE_CUDA_ALLOC_US");
    double call = text ? strtod(text, NULL) * 1e3 : fake_real() ? 20000 : 0;
    fake_keep_host(begin, call + (text ? call : call / 20) * (double)(up(bytes, PAGE) / PAGE - 1));
}

EXPORT EchCuResult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    ENTER_CONTEXT();
    *ret_total = CARD_BYTES;
    *ret_free = CARD_BYTES - fake.used - fake_foreign();
    return 0;
}

static EchCuResult take_device(EchCuPointer *ret, size_t bytes)
{
    void *data;
    EchCuResult result = take(&data, bytes, 0);
    if (result == ECH_CU_ERROR_OUT_OF_MEMORY && !fake.capturing) {
        fake_run_all(); /* What queues have yet to give back */
        result = take(&data, bytes, 0);
    }
    if (result == 0)
        *ret = (EchCuPointer)(uintptr_t)data;
    return result;
}

EXPORT EchCuResult cuMemAlloc_v2(EchCuPointer *ret, size_t bytes)
{
    ENTER_CONTEXT();
    fake_take_beside();
    double begin = fake_wall_ns();
    EchCuResult result = take_device(ret, bytes);
    dawdle(begin, bytes);
    return result;
}

EXPORT EchCuResult cuMemFree_v2(EchCuPointer pointer)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    if (fake_real() && !fake.capturing)
        fake_run_all(); /* It waits for the GPU */
    double begin = fake_wall_ns();
    const Block *block = fake_block_at((void *)(uintptr_t)pointer, 1);
    size_t bytes = block ? block->bytes : 0;
    EchCuResult result = give((void *)(uintptr_t)pointer, 0);
    if (result != 0)
        fake_misused(__func__, "no memory that cuMemAlloc gave");
    if (fake_real())
        dawdle(begin, bytes);
    return fails ? LAUNCH_FAILED : result;
}

EXPORT EchCuResult cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    enum { PORTABLE = 1, MAPPED = 2, WRITE_COMBINED = 4 };
    if (flags > (PORTABLE | MAPPED | WRITE_COMBINED))
        return INVALID_VALUE;
    const char *most = getenv("ECH_FAKE_CUDA_PINNED");
    if (most && bytes > strtoull(most, NULL, 10))
        return ECH_CU_ERROR_OUT_OF_MEMORY;
    EchCuResult result = take(ret, bytes, 1);
    if (result == 0)
        fake_block_from(*ret)->far = getenv("ECH_FAKE_CUDA_SOCKETS") != NULL && !fake.near;
    return result;
}

EXPORT EchCuResult cuMemFreeHost(void *pointer)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    if (give(pointer, 1) != 0)
        fake_misused(__func__, "no memory that cuMemHostAlloc gave");
    return fails ? LAUNCH_FAILED : 0;
}

static void add_spare(const struct EchCuStreamOpaque *stream, size_t bytes)
{
    if ((n_spares & (n_spares - 1)) == 0)
        spares = realloc(spares, (n_spares ? 2 * n_spares : 1) * sizeof *spares);
    if (!spares)
        abort();
    spares[n_spares++] = (Spare){stream, stream ? ++pool_frees : 0, bytes};
}

/* Takes @bytes of what @stream may have; what is lacking then. */
static size_t take_spares(const struct EchCuStreamOpaque *stream, size_t bytes)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_spares; i++) {
        Spare *spare = &spares[i];
        size_t part = spare->stream && spare->stream != stream ? 0 : spare->bytes < bytes ? spare->bytes : bytes;
        bytes -= part;
        spare->bytes -= part;
        if (spare->bytes > 0)
            spares[kept++] = *spare;
    }
    n_spares = kept;
    return bytes;
}

long fake_pool_frees(void)
{
    return pool_frees;
}

/* As an H100's does (driver 13.0): what a queue has freed another may have where it comes after it by an event, or once the host has waited for that. That it
 * is merely over by then was not seen to be enough. */
void fake_order_pool(const struct EchCuStreamOpaque *stream, long frees, int waited)
{
    if (!waited && pool_deaf)
        return;
    for (size_t i = 0; i < n_spares; i++) {
        if (spares[i].stream && (!stream || spares[i].stream == stream) && spares[i].at <= frees)
            spares[i].stream = NULL;
    }
}

/* Whoever waits for the GPU has the pool give back what it does not keep. */
void fake_trim_pool(void)
{
    size_t spare = 0;
    for (size_t i = 0; i < n_spares; i++)
        spare += spares[i].stream ? 0 : spares[i].bytes;
    size_t least = up(pool_reserved - spare, fake_real() ? POOL_GROWTH : 1), kept = pool_kept > least ? pool_kept : least;
    if (pool_reserved <= kept)
        return;
    take_spares(NULL, pool_reserved - kept);
    pool_reserved = kept;
}

EXPORT EchCuResult cuMemAllocAsync(EchCuPointer *ret, size_t bytes, EchCuStream stream)
{
    fake_know_stream(stream, __func__);
    ENTER_CONTEXT();
    double begin = fake_wall_ns();
    EchCuResult result = take_device(ret, bytes);
    if (!fake_real())
        dawdle(begin, bytes);
    if (result != 0)
        return result;
    fake_block_at((void *)(uintptr_t)*ret, bytes)->pooled = 1;
    size_t lacking = take_spares(stream, bytes), grown = up(lacking, fake_real() ? POOL_GROWTH : 1);
    if (grown > lacking)
        add_spare(NULL, grown - lacking);
    pool_used += bytes;
    pool_reserved += grown;
    pool_high = pool_reserved > pool_high ? pool_reserved : pool_high;
    if (fake_real() && grown > 0)
        dawdle(begin, grown);
    return 0;
}

EXPORT EchCuResult cuMemFreeAsync(EchCuPointer pointer, EchCuStream stream)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    fake_know_stream(stream, __func__);
    const void *data = (void *)(uintptr_t)pointer;
    Block *block = fake_block_from(data);
    if (!stream || !block || !block->pooled || block->returned)
        fake_misused(__func__, "no memory that cuMemAllocAsync gave, or given back already");
    block->returned = 1;
    pool_used -= block->bytes;
    add_spare(stream, block->bytes);
    fake_issue(stream, (Task){.kind = RELEASE, .pointer = data});
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuDeviceGetDefaultMemPool(EchCuPool *ret, EchCuDevice device)
{
    ENTER_CONTEXT();
    *ret = (EchCuPool)(void *)&pool;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemPoolGetAttribute(EchCuPool which, int attribute, void *ret)
{
    ENTER_CONTEXT();
    uint64_t value = attribute == ECH_CU_POOL_RESERVED_HIGH ? pool_high : attribute == ECH_CU_POOL_RESERVED_CURRENT ? pool_reserved : pool_used;
    if ((void *)which != &pool || !ret || attribute <= 0 || attribute > ECH_CU_POOL_USED_HIGH)
        return INVALID_VALUE;
    if (attribute < ECH_CU_POOL_RELEASE_THRESHOLD)
        memset(ret, 1, sizeof(int)); /* Switches are ints */
    else
        memcpy(ret, &value, sizeof value);
    return 0;
}

EXPORT EchCuResult cuMemPoolSetAttribute(EchCuPool which, int attribute, void *value)
{
    ENTER_CONTEXT();
    uint64_t wanted = 0;
    if ((void *)which != &pool || attribute <= 0 || attribute > ECH_CU_POOL_USED_HIGH || !value || attribute == ECH_CU_POOL_RESERVED_CURRENT ||
        attribute == ECH_CU_POOL_USED_CURRENT)
        return INVALID_VALUE;
    memcpy(&wanted, value, attribute < ECH_CU_POOL_RELEASE_THRESHOLD ? sizeof(int) : sizeof wanted); /* Switches are ints */
    /* A high-water mark can only be set back. */
    if (attribute == ECH_CU_POOL_RESERVED_HIGH || attribute == ECH_CU_POOL_USED_HIGH) {
        if (wanted != 0)
            return INVALID_VALUE;
        pool_high = pool_reserved;
    }
    if (attribute == ECH_CU_POOL_RELEASE_THRESHOLD)
        pool_kept = wanted;
    if (attribute == ECH_CU_POOL_REUSE_AFTER_EVENTS)
        pool_deaf = wanted == 0;
    return 0;
}

EXPORT EchCuResult cuMemPoolTrimTo(EchCuPool which, size_t keep)
{
    ENTER_CONTEXT();
    size_t kept = pool_kept;
    pool_kept = keep;
    fake_trim_pool();
    pool_kept = kept;
    return (void *)which == &pool ? 0 : INVALID_VALUE;
}
