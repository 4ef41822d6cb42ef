#include "models/place/vmem.h"

#include "sim/base/compare.h"

#include <string.h>

#define BUCKET 32

typedef struct {
    GArray *chunks; /* EchVmemChunk, any order */
    int64_t max_end;
    int64_t max_start, min_end; /* all have these steps in common */
} Bucket;

typedef struct {
    int64_t start, end;
} Gap;

typedef struct {
    int64_t offset, end;
    int64_t time; /* the first slice time from which on it is free */
} Piece;

/* Chunks in the order of their offsets, in blocks, each behind the one before. */
enum { IN_ORDER = 512 };
typedef struct {
    uint32_t n;
    bool summed;                /* what follows is so */
    int64_t min_start, max_end; /* none is used before or behind */
    int64_t max_start, min_end; /* all have these steps in common */
    int64_t gap;                /* the largest between two of them, of all as they lie */
    int64_t top;                /* the highest of their ends */
    EchVmemChunk rows[IN_ORDER];
} Block;

struct EchVmem {
    Bucket *buckets; /* by start / BUCKET */
    uint32_t n_buckets;
    int64_t alignment;
    bool keep_largest;
    GPtrArray *order;                   /* Block, never none */
    uint32_t n_ordered;                 /* chunks in it */
    GArray *used;                       /* Gap, scratch */
    GArray *gaps;                       /* Gap, scratch of whole buffers */
    GArray *times[ECH_VMEM_MAX_SLICES]; /* Gap, scratch of slices */
};

EchVmem *ech_vmem_new(uint32_t n_steps, int64_t alignment)
{
    EchVmem *vmem = g_new0(EchVmem, 1);
    vmem->n_buckets = n_steps / BUCKET + 2;
    vmem->buckets = g_new0(Bucket, vmem->n_buckets);
    vmem->alignment = alignment;
    vmem->order = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(vmem->order, g_new0(Block, 1));
    vmem->used = g_array_new(FALSE, FALSE, sizeof(Gap));
    vmem->gaps = g_array_new(FALSE, FALSE, sizeof(Gap));
    for (uint32_t i = 0; i < vmem->n_buckets; i++)
        vmem->buckets[i].max_end = INT64_MIN;
    return vmem;
}

void ech_vmem_free(EchVmem *vmem)
{
    if (vmem == NULL)
        return;
    for (uint32_t i = 0; i < vmem->n_buckets; i++)
        if (vmem->buckets[i].chunks != NULL)
            g_array_unref(vmem->buckets[i].chunks);
    for (uint32_t i = 0; i < ECH_VMEM_MAX_SLICES; i++)
        if (vmem->times[i] != NULL)
            g_array_unref(vmem->times[i]);
    g_free(vmem->buckets);
    g_ptr_array_unref(vmem->order);
    g_array_unref(vmem->used);
    g_array_unref(vmem->gaps);
    g_free(vmem);
}

void ech_vmem_keep_largest_gap(EchVmem *vmem, bool on)
{
    vmem->keep_largest = on;
}

/* The last block that begins at the offset or before, or the first. */
static guint block_of(const GPtrArray *order, int64_t offset)
{
    guint low = 0, high = order->len;
    while (high - low > 1) {
        guint middle = low + (high - low) / 2;
        if (((const Block *)order->pdata[middle])->rows[0].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void add_in_order(GPtrArray *order, EchVmemChunk chunk)
{
    guint low = block_of(order, chunk.offset);
    Block *block = order->pdata[low];
    if (block->n == IN_ORDER) {
        Block *behind = g_new(Block, 1);
        behind->n = IN_ORDER / 2;
        behind->summed = block->summed = false;
        block->n -= behind->n;
        memcpy(behind->rows, block->rows + block->n, behind->n * sizeof *behind->rows);
        g_ptr_array_insert(order, (gint)low + 1, behind);
        block = behind->rows[0].offset <= chunk.offset ? behind : block;
    }
    uint32_t at = block->n;
    while (at > 0 && block->rows[at - 1].offset > chunk.offset)
        at--;
    memmove(block->rows + at + 1, block->rows + at, (block->n - at) * sizeof *block->rows);
    block->rows[at] = chunk;
    block->n++;
    block->summed = false;
}

static bool is_same(const EchVmemChunk *a, const EchVmemChunk *b)
{
    return a->start == b->start && a->end == b->end && a->offset == b->offset && a->bytes == b->bytes;
}

/* One of those that are the same as @chunk, of which there is one. */
static void remove_in_order(GPtrArray *order, EchVmemChunk chunk)
{
    guint b = block_of(order, chunk.offset) + 1;
    while (b-- > 0) {
        Block *block = order->pdata[b];
        for (uint32_t k = 0; k < block->n; k++) {
            if (!is_same(&block->rows[k], &chunk))
                continue;
            block->n--;
            memmove(block->rows + k, block->rows + k + 1, (block->n - k) * sizeof *block->rows);
            block->summed = false;
            if (block->n == 0 && order->len > 1)
                g_ptr_array_remove_index(order, b);
            return;
        }
    }
    g_assert_not_reached();
}

static uint32_t bucket_of(const EchVmem *vmem, int64_t start)
{
    int64_t i = start < 0 ? 0 : start / BUCKET;
    return (uint32_t)MIN(i, (int64_t)vmem->n_buckets - 1);
}

void ech_vmem_add(EchVmem *vmem, EchVmemChunk chunk)
{
    Bucket *bucket = &vmem->buckets[bucket_of(vmem, chunk.start)];
    if (bucket->chunks == NULL)
        bucket->chunks = g_array_new(FALSE, FALSE, sizeof(EchVmemChunk));
    bucket->max_start = bucket->chunks->len > 0 ? MAX(bucket->max_start, chunk.start) : chunk.start;
    bucket->min_end = bucket->chunks->len > 0 ? MIN(bucket->min_end, chunk.end) : chunk.end;
    g_array_append_val(bucket->chunks, chunk);
    bucket->max_end = MAX(bucket->max_end, chunk.end);
    if (chunk.bytes > 0) {
        add_in_order(vmem->order, chunk);
        vmem->n_ordered++;
    }
}

bool ech_vmem_remove(EchVmem *vmem, EchVmemChunk chunk)
{
    Bucket *bucket = &vmem->buckets[bucket_of(vmem, chunk.start)];
    if (bucket->chunks == NULL)
        return false;
    for (guint i = 0; i < bucket->chunks->len; i++) {
        if (!is_same(&g_array_index(bucket->chunks, EchVmemChunk, i), &chunk))
            continue;
        g_array_remove_index_fast(bucket->chunks, i);
        if (chunk.bytes > 0) {
            remove_in_order(vmem->order, chunk);
            vmem->n_ordered--;
        }
        bucket->max_end = INT64_MIN;
        for (guint k = 0; k < bucket->chunks->len; k++)
            bucket->max_end = MAX(bucket->max_end, g_array_index(bucket->chunks, EchVmemChunk, k).end);
        return true;
    }
    return false;
}

void ech_vmem_clear(EchVmem *vmem)
{
    for (uint32_t i = 0; i < vmem->n_buckets; i++) {
        if (vmem->buckets[i].chunks != NULL)
            g_array_set_size(vmem->buckets[i].chunks, 0);
        vmem->buckets[i].max_end = INT64_MIN;
    }
    g_ptr_array_set_size(vmem->order, 1);
    ((Block *)vmem->order->pdata[0])->n = 0;
    ((Block *)vmem->order->pdata[0])->summed = false;
    vmem->n_ordered = 0;
}

/* Adds the places taken at some step of [start, end] to vmem->used. */
static void collect(EchVmem *vmem, int64_t start, int64_t end)
{
    uint32_t last = bucket_of(vmem, end);
    for (uint32_t i = 0; i <= last && end >= 0; i++) {
        const Bucket *bucket = &vmem->buckets[i];
        if (bucket->chunks == NULL || bucket->max_end < start)
            continue;
        for (guint k = 0; k < bucket->chunks->len; k++) {
            const EchVmemChunk *c = &g_array_index(bucket->chunks, EchVmemChunk, k);
            if (c->start <= end && c->end >= start && c->bytes > 0) {
                Gap used = {c->offset, c->offset + c->bytes};
                g_array_append_val(vmem->used, used);
            }
        }
    }
}

/* Whether something that is used from @start to @end is so at some step of the ranges. */
static inline bool meets_any(int64_t start, int64_t end, const int64_t *starts, const int64_t *ends, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (start <= ends[i] && end >= starts[i] && ends[i] >= 0)
            return true;
    return false;
}

static bool meets(const EchVmemChunk *c, const int64_t *starts, const int64_t *ends, uint32_t n)
{
    return c->bytes > 0 && meets_any(c->start, c->end, starts, ends, n);
}

static gint compare_gap(gconstpointer a, gconstpointer b)
{
    const Gap *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

static int64_t align_up(int64_t x, int64_t alignment)
{
    return (x + alignment - 1) / alignment * alignment;
}

/* What is left between two used places, if it is at least @left. */
static inline void add_gap(const EchVmem *vmem, int64_t at, int64_t end, int64_t left, GArray *gaps)
{
    if (end - at < MAX(left, 1))
        return;
    Gap gap = {align_up(at, vmem->alignment), end};
    if (gap.end - gap.start >= MAX(left, 1))
        g_array_append_val(gaps, gap);
}

/* The gaps between the used places, which are sorted, of at least @left before a used place; the last one is endless. */
static void make_gaps(EchVmem *vmem, int64_t left, GArray *gaps)
{
    g_array_set_size(gaps, 0);
    int64_t at = 0;
    for (guint i = 0; i < vmem->used->len; i++) {
        const Gap *used = &g_array_index(vmem->used, Gap, i);
        add_gap(vmem, at, used->start, left, gaps);
        at = MAX(at, used->end);
    }
    Gap rest = {align_up(at, vmem->alignment), INT64_MAX};
    g_array_append_val(gaps, rest);
}

/* Where this part of all chunks meet, going through all in their order takes less than sorting those. */
enum { MANY = 16 };

/* Whether that many are used at some step of the ranges. */
static bool meets_many(const EchVmem *vmem, const int64_t *starts, const int64_t *ends, uint32_t n)
{
    int64_t first = INT64_MAX, last = -1;
    for (uint32_t i = 0; i < n; i++) {
        first = MIN(first, starts[i]);
        last = MAX(last, ends[i]);
    }
    uint32_t met = 0;
    for (uint32_t i = 0; last >= 0 && i <= bucket_of(vmem, last); i++) {
        const Bucket *bucket = &vmem->buckets[i];
        if (bucket->chunks == NULL || bucket->max_end < first)
            continue;
        bool all = meets_any(bucket->max_start, bucket->min_end, starts, ends, n);
        met += all ? bucket->chunks->len : 0;
        for (guint k = 0; k < bucket->chunks->len && !all; k++)
            met += meets(&g_array_index(bucket->chunks, EchVmemChunk, k), starts, ends, n);
        if (met > vmem->n_ordered / MANY)
            return true;
    }
    return false;
}

static void sum_up(Block *block)
{
    block->min_start = block->min_end = INT64_MAX;
    block->max_start = block->max_end = INT64_MIN;
    block->gap = 0;
    block->top = 0;
    for (uint32_t k = 0; k < block->n; k++) {
        const EchVmemChunk *c = &block->rows[k];
        block->min_start = MIN(block->min_start, c->start);
        block->max_start = MAX(block->max_start, c->start);
        block->min_end = MIN(block->min_end, c->end);
        block->max_end = MAX(block->max_end, c->end);
        block->gap = k > 0 ? MAX(block->gap, c->offset - block->top) : 0;
        block->top = MAX(block->top, c->offset + c->bytes);
    }
    block->summed = true;
}

/* The gaps between what is used at some step of the ranges. */
static void make_gaps_in_order(EchVmem *vmem, const int64_t *starts, const int64_t *ends, uint32_t n, int64_t left, GArray *gaps)
{
    g_array_set_size(gaps, 0);
    int64_t at = 0;
    for (guint b = 0; b < vmem->order->len; b++) {
        Block *block = vmem->order->pdata[b];
        if (!block->summed)
            sum_up(block);
        if (block->n == 0 || !meets_any(block->min_start, block->max_end, starts, ends, n))
            continue;
        if (block->gap < MAX(left, 1) && meets_any(block->max_start, block->min_end, starts, ends, n)) {
            add_gap(vmem, at, block->rows[0].offset, left, gaps);
            at = MAX(at, block->top);
            continue;
        }
        for (uint32_t k = 0; k < block->n; k++) {
            const EchVmemChunk *c = &block->rows[k];
            if (!meets(c, starts, ends, n))
                continue;
            add_gap(vmem, at, c->offset, left, gaps);
            at = MAX(at, c->offset + c->bytes);
        }
    }
    Gap rest = {align_up(at, vmem->alignment), INT64_MAX};
    g_array_append_val(gaps, rest);
}

static const Gap *gap_at(const GArray *gaps, int64_t offset)
{
    for (guint i = 0; i < gaps->len; i++) {
        const Gap *gap = &g_array_index(gaps, Gap, i);
        if (gap->start <= offset && offset < gap->end)
            return gap;
    }
    return NULL;
}

/* Ours: leave the largest finite gap alone if another one fits; take the upper end where that touches a neighbour more closely. */
static int64_t choose_gap(const EchVmem *vmem, const GArray *gaps, int64_t bytes)
{
    const Gap *best = NULL;
    for (guint i = 0; i < gaps->len; i++) {
        const Gap *gap = &g_array_index(gaps, Gap, i);
        if (gap->end - gap->start < bytes)
            continue;
        if (best == NULL || gap->end - gap->start < best->end - best->start)
            best = gap;
    }
    g_assert(best != NULL);
    if (vmem->keep_largest && best->end != INT64_MAX) {
        int64_t low_rest = best->end - align_up(best->start + bytes, vmem->alignment);
        int64_t high = (best->end - bytes) / vmem->alignment * vmem->alignment;
        if (high - best->start > low_rest)
            return high;
    }
    return best->start;
}

/* The gaps of at least @left between what is used at some step of the ranges; the last one is endless. */
static void find_gaps(EchVmem *vmem, const int64_t *starts, const int64_t *ends, uint32_t n, int64_t left, GArray *gaps)
{
    if (meets_many(vmem, starts, ends, n)) {
        make_gaps_in_order(vmem, starts, ends, n, left, gaps);
        return;
    }
    g_array_set_size(vmem->used, 0);
    for (uint32_t i = 0; i < n; i++)
        collect(vmem, starts[i], ends[i]);
    g_array_sort(vmem->used, compare_gap);
    make_gaps(vmem, left, gaps);
}

int64_t ech_vmem_find_many(EchVmem *vmem, const int64_t *starts, const int64_t *ends, uint32_t n, int64_t bytes, int64_t room, int64_t preferred)
{
    find_gaps(vmem, starts, ends, n, bytes, vmem->gaps);
    if (preferred >= 0 && preferred % vmem->alignment == 0) {
        const Gap *gap = gap_at(vmem->gaps, preferred);
        if (gap != NULL && gap->end - preferred >= room)
            return preferred;
    }
    return choose_gap(vmem, vmem->gaps, room);
}

int64_t ech_vmem_find(EchVmem *vmem, int64_t start, int64_t end, int64_t bytes, int64_t preferred)
{
    return ech_vmem_find_many(vmem, &start, &end, 1, bytes, bytes, preferred);
}

int64_t ech_vmem_find_lowest(EchVmem *vmem, int64_t start, int64_t end, int64_t within, int64_t bytes, int64_t from)
{
    int64_t base = align_up(from, vmem->alignment);
    for (guint b = 0; b < vmem->order->len && bytes > 0; b++) {
        Block *block = vmem->order->pdata[b];
        if (!block->summed)
            sum_up(block);
        if (block->n == 0 || block->top <= base + within || !meets_any(block->min_start, block->max_end, &start, &end, 1))
            continue;
        if (block->rows[0].offset < base + within + bytes && block->gap < bytes && meets_any(block->max_start, block->min_end, &start, &end, 1)) {
            base = align_up(block->top - within, vmem->alignment);
            continue;
        }
        for (uint32_t k = 0; k < block->n; k++) {
            const EchVmemChunk *c = &block->rows[k];
            if (c->offset >= base + within + bytes)
                return base;
            if (c->offset + c->bytes > base + within && meets(c, &start, &end, 1))
                base = align_up(c->offset + c->bytes - within, vmem->alignment);
        }
    }
    return base;
}

int64_t ech_vmem_free_until(const EchVmem *vmem, int64_t start, int64_t end, int64_t offset, int64_t bytes)
{
    int64_t until = end;
    uint32_t last = bucket_of(vmem, end);
    for (uint32_t i = 0; i <= last; i++) {
        const Bucket *bucket = &vmem->buckets[i];
        if (bucket->chunks == NULL || bucket->max_end < start)
            continue;
        for (guint k = 0; k < bucket->chunks->len; k++) {
            const EchVmemChunk *c = &g_array_index(bucket->chunks, EchVmemChunk, k);
            if (c->bytes > 0 && c->start <= until && c->end >= start && c->offset < offset + bytes && offset < c->offset + c->bytes)
                until = MAX(c->start, start) - 1;
        }
    }
    return until;
}

/* ---- slices ---- */

static bool next_permutation(uint32_t *p, uint32_t n)
{
    if (n < 2)
        return false;
    uint32_t i = n - 1;
    while (i > 0 && p[i - 1] >= p[i])
        i--;
    if (i == 0)
        return false;
    uint32_t j = n - 1;
    while (p[j] <= p[i - 1])
        j--;
    uint32_t t = p[i - 1];
    p[i - 1] = p[j];
    p[j] = t;
    for (uint32_t a = i, b = n - 1; a < b; a++, b--) {
        t = p[a];
        p[a] = p[b];
        p[b] = t;
    }
    return true;
}

typedef struct {
    int64_t bytes, start;
} Pair;

static int compare_pair(const void *a, const void *b)
{
    const Pair *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

/* Repacking keeps which sizes start when. */
static bool order_valid(const EchVmemRequest *request, const uint32_t *order)
{
    if (request->original == NULL)
        return true;
    Pair was[ECH_VMEM_MAX_SLICES], now[ECH_VMEM_MAX_SLICES];
    for (uint32_t i = 0; i < request->n; i++) {
        was[i] = (Pair){request->bytes[i], request->original[i]};
        now[i] = (Pair){request->bytes[i], request->starts[order[i]]};
    }
    qsort(was, request->n, sizeof(Pair), compare_pair);
    qsort(now, request->n, sizeof(Pair), compare_pair);
    for (uint32_t i = 0; i < request->n; i++)
        if (was[i].start != now[i].start || was[i].bytes != now[i].bytes)
            return false;
    return true;
}

/* Slices that start together are the same in either order: only the ascending one is tried. */
static bool order_canonical(const EchVmemRequest *request, const uint32_t *order)
{
    for (uint32_t i = 0; i < request->n; i++)
        for (uint32_t k = i + 1; k < request->n; k++)
            if (order[k] < order[i] && request->starts[order[k]] == request->starts[order[i]])
                return false;
    return true;
}

static bool order_fits(const uint32_t *order, const int64_t *needed, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if ((int64_t)order[i] < needed[i])
            return false;
    return true;
}

/* The three preferred orders: ascending, descending, small times around the middle. Slices of a size other than the first keep their time when
 * repacking. */
static bool preferred_order(const EchVmemRequest *request, uint32_t type, uint32_t *order)
{
    uint32_t n = request->n, free_times[ECH_VMEM_MAX_SLICES], n_free = 0;
    bool fixed[ECH_VMEM_MAX_SLICES] = {false};
    if (type >= 3 || (type == 1 && n <= 1) || (type == 2 && n <= 2))
        return false;
    if (request->original != NULL) {
        bool taken[ECH_VMEM_MAX_SLICES] = {false};
        for (uint32_t i = 0; i < n; i++) {
            uint32_t time = 0;
            while (time < n && (taken[time] || request->starts[time] != request->original[i]))
                time++;
            if (time == n)
                return false;
            taken[time] = true;
            if (request->bytes[i] != request->bytes[0]) {
                fixed[i] = true;
                order[i] = time;
            } else
                free_times[n_free++] = time;
        }
        for (uint32_t i = 1; i < n_free; i++)
            for (uint32_t k = i; k > 0 && free_times[k] < free_times[k - 1]; k--) {
                uint32_t t = free_times[k];
                free_times[k] = free_times[k - 1];
                free_times[k - 1] = t;
            }
    } else
        for (uint32_t i = 0; i < n; i++)
            free_times[n_free++] = i;
    uint32_t at = 0;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < n_free; k++) {
            uint32_t i = pass == 0 ? n_free - 1 - k : k;
            bool take = pass == 0 ? type == 1 || (type == 2 && i % 2 == 1) : type == 0 || (type == 2 && i % 2 == 0);
            if (!take)
                continue;
            while (at < n && fixed[at])
                at++;
            order[at++] = free_times[i];
        }
    return true;
}

static bool find_order(const EchVmemRequest *request, const int64_t *needed, uint32_t *order)
{
    if (request->n == 1) {
        order[0] = 0;
        return true;
    }
    if (!request->all_orders) {
        for (uint32_t type = 0; preferred_order(request, type, order); type++)
            if (order_valid(request, order) && order_fits(order, needed, request->n))
                return true;
        return false;
    }
    for (uint32_t i = 0; i < request->n; i++)
        order[i] = i;
    do
        if (order_fits(order, needed, request->n) && order_canonical(request, order) && order_valid(request, order))
            return true;
    while (next_permutation(order, request->n));
    return false;
}

/* Splits the root [root->start, root->end) by the first slice time from which each part is free. */
static void make_pieces(EchVmem *vmem, const EchVmemRequest *request, const Gap *root, GArray *pieces)
{
    g_array_set_size(pieces, 0);
    Piece whole = {root->start, root->end, request->n - 1};
    g_array_append_val(pieces, whole);
    for (int64_t time = (int64_t)request->n - 2; time >= 0; time--) {
        const GArray *gaps = vmem->times[time];
        for (guint g = 0; g < gaps->len; g++) {
            const Gap *gap = &g_array_index(gaps, Gap, g);
            if (gap->end <= root->start || gap->start >= root->end)
                continue;
            for (guint i = 0; i < pieces->len; i++) {
                Piece piece = g_array_index(pieces, Piece, i);
                if (piece.time != time + 1 || gap->end <= piece.offset || gap->start >= piece.end)
                    continue;
                Piece middle = {MAX(piece.offset, gap->start), MIN(piece.end, gap->end), time};
                g_array_index(pieces, Piece, i) = middle;
                if (piece.offset < middle.offset) {
                    Piece before = {piece.offset, middle.offset, piece.time};
                    g_array_insert_val(pieces, i, before);
                    i++;
                }
                if (middle.end < piece.end) {
                    Piece after = {middle.end, piece.end, piece.time};
                    g_array_insert_val(pieces, i + 1, after);
                    i++;
                }
            }
        }
    }
}

static bool fits_at(const EchVmemRequest *request, const GArray *pieces, int64_t root_end, int64_t offset, int64_t whole, uint32_t *order)
{
    int64_t needed[ECH_VMEM_MAX_SLICES];
    if (whole > root_end - offset)
        return false;
    int64_t at = offset;
    guint first = 0;
    for (uint32_t i = 0; i < request->n; i++) {
        int64_t end = at + request->bytes[i];
        needed[i] = 0;
        while (first < pieces->len && g_array_index(pieces, Piece, first).end <= at)
            first++;
        for (guint k = first; k < pieces->len && g_array_index(pieces, Piece, k).offset < end; k++)
            needed[i] = MAX(needed[i], g_array_index(pieces, Piece, k).time);
        at = end;
    }
    return find_order(request, needed, order);
}

typedef bool (*OffsetAllowed)(int64_t offset, gpointer data);

static bool find_in_root(EchVmem *vmem, const EchVmemRequest *request, const Gap *root, int64_t only, int64_t whole, OffsetAllowed allowed, gpointer data,
                         int64_t *ret_offsets)
{
    g_autoptr(GArray) pieces = g_array_new(FALSE, FALSE, sizeof(Piece));
    g_autoptr(GArray) tries = g_array_new(FALSE, FALSE, sizeof(int64_t));
    uint32_t order[ECH_VMEM_MAX_SLICES];
    make_pieces(vmem, request, root, pieces);
    if (only >= 0)
        g_array_append_val(tries, only);
    else {
        int64_t first = align_up(root->start, vmem->alignment);
        g_array_append_val(tries, first);
        /* A place can begin to fit only where some slice has just passed a part that is free too late. */
        for (guint i = 0; i + 1 < pieces->len; i++) {
            int64_t before = 0;
            for (uint32_t k = 0; k < request->n; k++) {
                int64_t offset = align_up(MAX(g_array_index(pieces, Piece, i).end - before, first), vmem->alignment);
                g_array_append_val(tries, offset);
                before += request->bytes[k];
            }
        }
        g_array_sort(tries, ech_compare_i64);
    }
    for (guint i = 0; i < tries->len; i++) {
        int64_t offset = g_array_index(tries, int64_t, i);
        if (offset % vmem->alignment != 0 || offset < root->start || offset >= root->end || (i > 0 && offset == g_array_index(tries, int64_t, i - 1)))
            continue;
        if (!fits_at(request, pieces, root->end, offset, whole, order) || (allowed != NULL && !allowed(offset, data)))
            continue;
        int64_t at = offset;
        for (uint32_t k = 0; k < request->n; k++) {
            ret_offsets[order[k]] = at;
            at += request->bytes[k];
        }
        return true;
    }
    return false;
}

static int64_t total(const EchVmemRequest *request)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < request->n; i++)
        sum += request->bytes[i];
    return sum;
}

/* Closed intervals of steps. */
typedef struct {
    const int64_t *starts, *ends;
    uint32_t n;
} Ranges;

/* Fills vmem->times[] with the gaps of every slice time. @more: further closed intervals that the whole buffer must be free in. */
static void make_times(EchVmem *vmem, const EchVmemRequest *request, const Ranges *more, int64_t whole)
{
    int64_t least = request->bytes[0];
    for (uint32_t i = 1; i < request->n; i++)
        least = MIN(least, request->bytes[i]);
    for (uint32_t i = 0; i < request->n; i++) {
        bool last = i + 1 == request->n;
        if (vmem->times[i] == NULL)
            vmem->times[i] = g_array_new(FALSE, FALSE, sizeof(Gap));
        if (!last) {
            int64_t until = request->starts[i + 1] - 1;
            find_gaps(vmem, &request->starts[i], &until, 1, least, vmem->times[i]);
            continue;
        }
        uint32_t n = 1 + (more ? more->n : 0);
        g_autofree int64_t *starts = g_new(int64_t, n), *ends = g_new(int64_t, n);
        for (uint32_t k = 1; k < n; k++) {
            starts[k] = more->starts[k - 1];
            ends[k] = more->ends[k - 1];
        }
        starts[0] = request->starts[i];
        ends[0] = request->end;
        find_gaps(vmem, starts, ends, n, MIN(whole, total(request)), vmem->times[i]);
    }
}

static gint compare_root(gconstpointer a, gconstpointer b)
{
    const Gap *x = a, *y = b;
    int64_t u = x->end - x->start, v = y->end - y->start;
    return u != v ? (u < v ? -1 : 1) : (x->start > y->start) - (x->start < y->start);
}

static bool find_general(EchVmem *vmem, const EchVmemRequest *request, int64_t preferred, const Ranges *more, int64_t whole, OffsetAllowed allowed,
                         gpointer data, int64_t *ret_offsets)
{
    make_times(vmem, request, more, whole);
    GArray *roots = vmem->times[request->n - 1];
    if (preferred >= 0 && preferred % vmem->alignment == 0) {
        const Gap *root = gap_at(roots, preferred);
        if (root != NULL && find_in_root(vmem, request, root, preferred, whole, allowed, data, ret_offsets))
            return true;
    }
    g_autoptr(GArray) sorted = g_array_copy(roots);
    g_array_sort(sorted, compare_root);
    for (guint i = 0; i < sorted->len; i++) {
        const Gap *root = &g_array_index(sorted, Gap, i);
        if (root->end - root->start >= whole && find_in_root(vmem, request, root, -1, whole, allowed, data, ret_offsets))
            return true;
    }
    return false;
}

bool ech_vmem_find_sliced(EchVmem *vmem, const EchVmemRequest *request, int64_t preferred, int64_t *ret_offsets)
{
    if (request->n == 1) {
        ret_offsets[0] = ech_vmem_find(vmem, request->starts[0], request->end, request->bytes[0], preferred);
        return true;
    }
    return find_general(vmem, request, preferred, NULL, total(request), NULL, NULL, ret_offsets);
}

/* ---- repacking ---- */

typedef struct {
    uint32_t owner; /* first block of the group */
    int64_t length; /* minus the stay of the group, as the sort wants it */
    int64_t bytes;
} Order;

static int compare_order(const void *a, const void *b)
{
    const Order *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->owner > y->owner) - (x->owner < y->owner);
}

typedef struct {
    EchVmemBlock *blocks;
    const uint32_t *members;
    uint32_t n;
    int64_t whole;
    EchVmem *vmem; /* where the sliced members look */
} Colocated;

static bool colocated_allowed(int64_t offset, gpointer data)
{
    Colocated *c = data;
    for (uint32_t i = 0; i < c->n; i++) {
        EchVmemBlock *block = &c->blocks[c->members[i]];
        if (block->request.n == 1)
            continue;
        EchVmem *vmem = c->vmem;
        make_times(vmem, &block->request, NULL, c->whole);
        const Gap *root = gap_at(vmem->times[block->request.n - 1], offset);
        if (root == NULL || !find_in_root(vmem, &block->request, root, offset, c->whole, NULL, NULL, block->offsets))
            return false;
    }
    return true;
}

static int64_t commit(EchVmem *vmem, EchVmem *twin, const EchVmemBlock *block)
{
    int64_t top = 0;
    g_autofree uint32_t *by_offset = g_new(uint32_t, block->request.n);
    for (uint32_t i = 0; i < block->request.n; i++) {
        uint32_t k = i;
        for (; k > 0 && block->offsets[by_offset[k - 1]] > block->offsets[i]; k--)
            by_offset[k] = by_offset[k - 1];
        by_offset[k] = i;
    }
    for (uint32_t i = 0; i < block->request.n; i++) {
        uint32_t time = by_offset[i];
        EchVmemChunk chunk = {block->request.starts[time], block->request.end, block->offsets[time], block->request.bytes[i]};
        ech_vmem_add(vmem, chunk);
        ech_vmem_add(twin, chunk);
        top = MAX(top, chunk.offset + chunk.bytes);
    }
    return top;
}

bool ech_vmem_repack(EchVmemBlock *blocks, uint32_t n, uint32_t n_steps, int64_t alignment, int64_t limit)
{
    g_autoptr(EchVmem) vmem = ech_vmem_new(n_steps, alignment);
    g_autoptr(EchVmem) twin = ech_vmem_new(n_steps, alignment);
    g_autoptr(GHashTable) first = g_hash_table_new(NULL, NULL); /* group -> 1 + index into owners */
    g_autoptr(GPtrArray) members = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(Order));
    for (uint32_t i = 0; i < n; i++) {
        guint at = GPOINTER_TO_UINT(g_hash_table_lookup(first, GUINT_TO_POINTER(blocks[i].group)));
        blocks[i].request.original = blocks[i].request.n > 1 ? blocks[i].original : NULL;
        int64_t length = blocks[i].request.starts[0] - blocks[i].request.end;
        if (at == 0) {
            Order o = {i, length, total(&blocks[i].request)};
            g_array_append_val(order, o);
            g_ptr_array_add(members, g_array_new(FALSE, FALSE, sizeof(uint32_t)));
            g_hash_table_insert(first, GUINT_TO_POINTER(blocks[i].group), GUINT_TO_POINTER(order->len));
            continue;
        }
        Order *o = &g_array_index(order, Order, at - 1);
        o->length = MIN(o->length, blocks[o->owner].request.starts[0] - blocks[i].request.end);
        g_array_append_val((GArray *)members->pdata[at - 1], i);
    }
    g_array_sort(order, compare_order);
    int64_t top = 0;
    for (guint i = 0; i < order->len; i++) {
        uint32_t owner = g_array_index(order, Order, i).owner;
        guint at = GPOINTER_TO_UINT(g_hash_table_lookup(first, GUINT_TO_POINTER(blocks[owner].group)));
        GArray *others = members->pdata[at - 1];
        g_autofree int64_t *starts = g_new(int64_t, MAX(others->len, 1)), *ends = g_new(int64_t, MAX(others->len, 1));
        int64_t whole = total(&blocks[owner].request);
        bool sliced = false;
        for (guint k = 0; k < others->len; k++) {
            const EchVmemRequest *r = &blocks[g_array_index(others, uint32_t, k)].request;
            starts[k] = r->starts[r->n - 1];
            ends[k] = r->end;
            whole = MAX(whole, total(r));
            sliced = sliced || r->n > 1;
        }
        Colocated colocated = {blocks, (const uint32_t *)(const void *)others->data, others->len, whole, twin};
        if (!find_general(vmem, &blocks[owner].request, -1, &(Ranges){starts, ends, others->len}, whole, sliced ? colocated_allowed : NULL, &colocated,
                          blocks[owner].offsets))
            return false;
        int64_t lowest = blocks[owner].offsets[0];
        for (uint32_t k = 1; k < blocks[owner].request.n; k++)
            lowest = MIN(lowest, blocks[owner].offsets[k]);
        top = MAX(top, commit(vmem, twin, &blocks[owner]));
        for (guint k = 0; k < others->len; k++) {
            EchVmemBlock *block = &blocks[g_array_index(others, uint32_t, k)];
            if (block->request.n == 1)
                block->offsets[0] = lowest;
            top = MAX(top, commit(vmem, twin, block));
        }
    }
    return top <= limit;
}
