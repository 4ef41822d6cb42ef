#include "sim/import/direct.h"
#include "sim/base/compare.h"
#include "sim/base/hash.h"
#include "sim/trace/allocator_marks.h"

/* Addresses [begin, end) that the allocator had at some time. */
typedef struct {
    uint64_t begin, end;
} Segment;

static int by_begin(gconstpointer a, gconstpointer b)
{
    const Segment *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* The allocator's segments, joined and by address; *ret_last: when the recording tells of something last, from its begin on. */
static GArray *segments_of(const EchTrace *snapshot, EchTime *ret_last)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Segment));
    *ret_last = 0;
    for (size_t i = 0; i < ech_trace_n_ops(snapshot); i++) {
        const EchOp *op = &ech_trace_ops(snapshot)[i];
        Segment segment;
        if (ech_op_has_start(op))
            *ret_last = MAX(*ret_last, op->recorded.start);
        if (op->kind != ECH_OP_MARK || !ech_mark_takes_segment(ech_trace_string(snapshot, op->name)) ||
            !ech_mark_address(ech_trace_string(snapshot, op->name), &segment.begin) || op->bytes > UINT64_MAX - segment.begin)
            continue;
        segment.end = segment.begin + op->bytes;
        g_array_append_val(all, segment);
    }
    g_array_sort(all, by_begin);
    GArray *joined = g_array_new(FALSE, FALSE, sizeof(Segment));
    for (guint i = 0; i < all->len; i++) {
        const Segment *segment = &g_array_index(all, Segment, i);
        Segment *last = joined->len > 0 ? &g_array_index(joined, Segment, joined->len - 1) : NULL;
        if (last && segment->begin <= last->end)
            last->end = MAX(last->end, segment->end);
        else
            g_array_append_val(joined, *segment);
    }
    return joined;
}

static bool touches(const GArray *segments, uint64_t begin, EchBytes bytes)
{
    guint low = 0, high = segments->len; /* the first segment that ends behind @begin */
    ECH_SEARCH(low, high, middle, g_array_index(segments, Segment, middle).end <= begin)
    if (low == segments->len)
        return false;
    uint64_t next = g_array_index(segments, Segment, low).begin;
    return next < begin || next - begin < bytes;
}

static void set_direct(EchItem *item, EchId name)
{
    item->direct = true;
    item->name = name;
}

void ech_direct_mark(EchCapture *capture, const EchTrace *snapshot, EchTime zero, EchId name, EchId direct)
{
    EchTime last;
    g_autoptr(GArray) segments = segments_of(snapshot, &last);
    g_autoptr(GHashTable) open = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL); /* address -> item that took it + 1 */
    if (segments->len == 0 || last > ECH_TIME_MAX / 4 - MAX(zero, 0))
        return;
    for (size_t i = 0; i < ech_capture_n_items(capture); i++) {
        EchItem *item = ech_capture_item(capture, i);
        if ((item->kind != ECH_ITEM_ALLOC && item->kind != ECH_ITEM_FREE) || item->to != ECH_TIER_DEVICE || item->direct || item->name != name ||
            touches(segments, item->address, item->bytes))
            continue;
        if (item->kind == ECH_ITEM_ALLOC && item->issued <= zero + last) {
            g_hash_table_replace(open, g_memdup2(&item->address, sizeof item->address), GSIZE_TO_POINTER(i + 1));
        } else if (item->kind == ECH_ITEM_FREE) {
            gsize taken = GPOINTER_TO_SIZE(g_hash_table_lookup(open, &item->address));
            if (taken == 0)
                continue;
            g_hash_table_remove(open, &item->address);
            if (item->issued < zero)
                continue;
            set_direct(ech_capture_item(capture, taken - 1), direct);
            set_direct(item, direct);
        }
    }
    GHashTableIter it;
    gpointer taken;
    g_hash_table_iter_init(&it, open);
    while (g_hash_table_iter_next(&it, NULL, &taken))
        set_direct(ech_capture_item(capture, GPOINTER_TO_SIZE(taken) - 1), direct);
}
