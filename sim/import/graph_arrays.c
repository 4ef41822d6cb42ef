#include "sim/import/graph_arrays.h"

#include "sim/base/compare.h"

/* Steps that are gone from item to item of launches, where arrays come and go: a second of them, which no program comes near. */
#define MOST_STEPS (UINT64_C(1) << 28)

/* A snapshot counts whole microseconds: what it lets go so little before a use is let go behind it. */
#define SLACK (2 * ECH_PS_PER_US)

/* Of a block of the snapshot, by the op that asked for it; nodes count from 1 on, 0: none. */
typedef struct {
    guint first;         /* The node that used it first at its capture. */
    guint behind, until; /* The first nodes that were captured after it was asked for, and after it was let go. */
    guint alloc, free;   /* These items + 1; 0: none. */
    guint touched;       /* The first item + 1 of no graph that uses it; 0: none. */
    bool made;           /* Each launch makes it. */
} Block;

struct EchGraphArrays {
    GArray *items;
    const GArray *uses, *captured;
    const EchTrace *snapshot;
    Block *blocks;        /* Per op of the snapshot. */
    EchId *alloc_of;      /* Per buffer of the snapshot: that op. */
    guint *launched;      /* Per node: its first item, by the order of items; G_MAXUINT: none. */
    guint *begins, *ends; /* Per item: the first and the last of the launch that it is of; of others, itself. */
    uint64_t steps;       /* From item to item, that may still be gone. */
    EchId *used;          /* Per use of those: the op that asked for the block that lay there at the capture, or ECH_NONE. */
};

/* A use that needs a block which is gone. */
typedef struct {
    EchId alloc;
    guint item;
    bool begins; /* It is used by the node that used it first. */
    bool stays;  /* It is not gone, but made anew. */
} Need;

/* Which blocks lie where while the items are gone through. */
typedef struct {
    EchArrays *live, *gone; /* Their "buffers": the op that asked for it; the item that let it go. */
} Places;

static void places_init(Places *places)
{
    *places = (Places){ech_arrays_new(), ech_arrays_new()};
}

static void places_clear(Places *places)
{
    ech_arrays_free(places->live);
    ech_arrays_free(places->gone);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Places, places_clear)

static EchItem *item_at(const EchGraphArrays *self, guint i)
{
    return &g_array_index(self->items, EchItem, i);
}

static const EchAddressUse *use_at(const EchGraphArrays *self, uint32_t use)
{
    return &g_array_index(self->uses, EchAddressUse, use);
}

/* The block's buffer of the snapshot. */
static const EchBuffer *buffer_of(const EchGraphArrays *self, EchId alloc)
{
    return &ech_trace_buffers(self->snapshot)[ech_trace_ops(self->snapshot)[alloc].target];
}

/* The block that an op of the snapshot asks for or lets go; ECH_NONE: neither, or it was there before. */
static EchId block_of(const EchGraphArrays *self, const EchItem *item)
{
    const EchOp *op = item->kind == ECH_ITEM_FOREIGN ? &ech_trace_ops(self->snapshot)[item->address] : NULL;
    return op && (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE) ? self->alloc_of[op->target] : ECH_NONE;
}

static void follow(const EchGraphArrays *self, Places *places, guint i)
{
    EchId block = block_of(self, item_at(self, i));
    if (block == ECH_NONE)
        return;
    const EchBuffer *buffer = buffer_of(self, block);
    if (item_at(self, i)->address == block)
        ech_arrays_alloc(places->live, block, buffer->address, buffer->bytes);
    else {
        ech_arrays_release(places->live, buffer->address);
        ech_arrays_alloc(places->gone, i, buffer->address, buffer->bytes);
    }
}

/* The block that lay at @address at @time, just now; ECH_NONE. */
static EchId block_at(const EchGraphArrays *self, const Places *places, uint64_t address, EchTime time)
{
    EchId id;
    if (ech_arrays_find(places->live, address, &id))
        return id;
    bool just_gone = ech_arrays_find(places->gone, address, &id) && time - item_at(self, id)->issued <= SLACK;
    return just_gone ? block_of(self, item_at(self, id)) : ECH_NONE;
}

/* Whether item @i belongs to the launch of a graph that the work before does. */
static bool is_together(const EchGraphArrays *self, guint i)
{
    return i > 0 && i < self->items->len && item_at(self, i)->together && item_at(self, i)->node > 0 && item_at(self, i - 1)->node > 0;
}

static void find_launches(EchGraphArrays *self)
{
    for (guint i = 0; i < self->items->len; i++)
        self->begins[i] = is_together(self, i) ? self->begins[i - 1] : i;
    for (guint i = self->items->len; i-- > 0;)
        self->ends[i] = is_together(self, i + 1) ? self->ends[i + 1] : i;
    for (guint node = 0; node < self->captured->len; node++)
        self->launched[node] = G_MAXUINT;
    for (guint i = self->items->len; i-- > 0;)
        if (item_at(self, i)->node > 0)
            self->launched[item_at(self, i)->node - 1] = i;
}

/* What each node used at its capture. */
static void look_at_captures(EchGraphArrays *self)
{
    g_auto(Places) places;
    places_init(&places);
    guint next = 0;
    for (guint node = 1; node <= self->captured->len; node++) {
        EchTime time = g_array_index(self->captured, EchTime, node - 1);
        for (; next < self->items->len && item_at(self, next)->issued <= time; next++) {
            follow(self, &places, next);
            EchId block = block_of(self, item_at(self, next));
            if (block != ECH_NONE)
                *(item_at(self, next)->address == block ? &self->blocks[block].behind : &self->blocks[block].until) = node;
        }
        const EchItem *item = self->launched[node - 1] < self->items->len ? item_at(self, self->launched[node - 1]) : NULL;
        for (uint32_t u = 0; item && u < item->n_uses; u++) {
            EchId block = block_at(self, &places, use_at(self, item->first_use + u)->address, time);
            self->used[item->first_use + u] = block;
            if (block != ECH_NONE && self->blocks[block].first == 0)
                self->blocks[block].first = node;
        }
    }
}

/* What everything else used, and where the snapshot's events are. */
static void look_at_others(EchGraphArrays *self)
{
    g_auto(Places) places;
    places_init(&places);
    for (guint i = 0; i < self->items->len; i++) {
        const EchItem *item = item_at(self, i);
        EchId block = block_of(self, item);
        if (block != ECH_NONE)
            *(item->address == block ? &self->blocks[block].alloc : &self->blocks[block].free) = i + 1;
        follow(self, &places, i);
        for (uint32_t u = 0; item->node == 0 && u < item->n_uses; u++)
            if (ech_arrays_find(places.live, use_at(self, item->first_use + u)->address, &block) && self->blocks[block].touched == 0)
                self->blocks[block].touched = i + 1;
    }
}

EchGraphArrays *ech_graph_arrays_new(GArray *items, const GArray *uses, const GArray *captured, const EchTrace *snapshot)
{
    EchGraphArrays *self = g_new(EchGraphArrays, 1);
    *self = (EchGraphArrays){items,
                             uses,
                             captured,
                             snapshot,
                             g_new0(Block, ech_trace_n_ops(snapshot) + 1),
                             g_new(EchId, ech_trace_n_buffers(snapshot) + 1),
                             g_new(guint, captured->len + 1),
                             g_new(guint, items->len + 1),
                             g_new(guint, items->len + 1),
                             MOST_STEPS,
                             g_new(EchId, uses->len + 1)};
    for (size_t a = 0; a < ech_trace_n_buffers(snapshot); a++)
        self->alloc_of[a] = ECH_NONE;
    for (size_t i = 0; i < ech_trace_n_ops(snapshot); i++)
        if (ech_trace_ops(snapshot)[i].kind == ECH_OP_ALLOC)
            self->alloc_of[ech_trace_ops(snapshot)[i].target] = (EchId)i;
    find_launches(self);
    if (captured->len > 0) {
        look_at_captures(self);
        look_at_others(self);
    }
    return self;
}

void ech_graph_arrays_free(EchGraphArrays *self)
{
    if (!self)
        return;
    g_free(self->blocks);
    g_free(self->alloc_of);
    g_free(self->launched);
    g_free(self->begins);
    g_free(self->ends);
    g_free(self->used);
    g_free(self);
}

/* When a block is asked for, or let go (@is_free), that was at @time, before @node was captured: before that is launched for the first time; behind the launch
 * of the graph that ended with the node before, where its capture had ended by then; ECH_TIME_NONE: when it was. */
static EchTime time_at_launch(const EchGraphArrays *self, guint node, EchTime time, bool is_free)
{
    guint none = self->items->len, item = node > 0 && node <= self->captured->len ? MIN(self->launched[node - 1], none) : none;
    guint before = node > 1 ? MIN(self->launched[node - 2], none) : none;
    guint end = before < none ? self->ends[before] : none;
    if (end < none && end < item) { /* of two graphs */
        if (time <= item_at(self, end)->issued)
            return item_at(self, end)->issued + 1;
        if (is_free)
            return ECH_TIME_NONE;
    }
    return item < none ? item_at(self, item)->issued - 1 : ECH_TIME_NONE;
}

void ech_graph_arrays_settle(EchGraphArrays *self)
{
    for (size_t op = 0; op < ech_trace_n_ops(self->snapshot) && self->captured->len > 0; op++) {
        Block *block = &self->blocks[op];
        guint launch = block->first > 0 ? self->launched[block->first - 1] : G_MAXUINT;
        if (launch == G_MAXUINT || block->alloc == 0 || buffer_of(self, (EchId)op)->pool == ECH_NONE)
            continue;
        EchItem *alloc = item_at(self, block->alloc - 1), *let_go = block->free > 0 ? item_at(self, block->free - 1) : NULL;
        block->made = block->touched == 0 || block->touched > launch;
        if (block->made)
            alloc->issued = MAX(alloc->issued, time_at_launch(self, block->behind, alloc->issued, false));
        if (let_go)
            let_go->issued =
                MAX(MAX(let_go->issued, alloc->issued), time_at_launch(self, block->until ? block->until : self->captured->len + 1, let_go->issued, true));
    }
}

static gint compare_needs(gconstpointer a, gconstpointer b)
{
    const Need *x = a, *y = b;
    int order = ech_compare_u32(&x->alloc, &y->alloc);
    return order ? order : ech_compare_u32(&x->item, &y->item);
}

static gint compare_arrays(gconstpointer a, gconstpointer b)
{
    const EchGraphArray *x = a, *y = b;
    int order = ech_compare_u32(&x->first, &y->first);
    return order ? order : ech_compare_u32(&x->alloc, &y->alloc);
}

/* Need, of all uses. */
static GArray *find_needs(const EchGraphArrays *self)
{
    GArray *needs = g_array_new(FALSE, FALSE, sizeof(Need));
    g_auto(Places) places;
    places_init(&places);
    g_autoptr(GHashTable) filled = g_hash_table_new(NULL, NULL); /* address -> item + 1 that wrote it outside of graphs */
    g_autoptr(EchArrays) left = ech_arrays_new();                /* the blocks that graphs needed last */
    for (guint i = 0; i < self->items->len; i++) {
        const EchItem *item = item_at(self, i), *like = item->node > 0 ? item_at(self, self->launched[item->node - 1]) : item;
        follow(self, &places, i);
        for (uint32_t u = 0; u < MIN(item->n_uses, like->n_uses); u++) {
            const EchAddressUse *use = use_at(self, item->first_use + u);
            Need need = {item->node > 0 ? self->used[like->first_use + u] : ECH_NONE, i, false, false};
            EchId there;
            if (ech_arrays_find(places.live, use->address, &there)) {
                if (need.alloc == ECH_NONE || !self->blocks[there].made || item == like)
                    continue;
                need.stays = there == need.alloc;
                if (need.stays && self->blocks[there].first != item->node)
                    continue;
            }
            if (need.alloc == ECH_NONE && use->access == ECH_ADDRESS_WRITE) { /* for whoever reads it next */
                g_hash_table_insert(filled, GSIZE_TO_POINTER(use->address), GUINT_TO_POINTER(i + 1));
                continue;
            }
            if (need.alloc != ECH_NONE)
                ech_arrays_alloc(left, need.alloc, buffer_of(self, need.alloc)->address, buffer_of(self, need.alloc)->bytes);
            else if (!ech_arrays_find(left, use->address, &need.alloc))
                continue;
            need.begins = item->node > 0 && self->blocks[need.alloc].first == item->node;
            guint before = GPOINTER_TO_UINT(g_hash_table_lookup(filled, GSIZE_TO_POINTER(use->address)));
            if (before > 0) {
                Need fill = {need.alloc, before - 1, need.begins, false};
                g_array_append_val(needs, fill);
                g_hash_table_remove(filled, GSIZE_TO_POINTER(use->address));
                need.begins = false;
            }
            g_array_append_val(needs, need);
        }
    }
    g_array_sort(needs, compare_needs);
    return needs;
}

/* The pool gives blocks out as it did at the capture where each comes and goes between the same nodes. */
static void come_and_go(EchGraphArrays *self, EchGraphArray *array)
{
    const Block *block = &self->blocks[array->alloc];
    array->after = array->after == G_MAXUINT ? G_MAXUINT : self->begins[array->after];
    for (guint begin = self->begins[array->first]; array->first > begin && self->steps > 0 && item_at(self, array->first - 1)->node >= block->behind;
         self->steps--)
        array->first--;
    for (guint end = array->last == G_MAXUINT ? G_MAXUINT : self->ends[array->last];
         array->last < end && self->steps > 0 && item_at(self, array->last + 1)->node < block->until; self->steps--)
        array->last++;
}

GArray *ech_graph_arrays_find(EchGraphArrays *self)
{
    GArray *arrays = g_array_new(FALSE, FALSE, sizeof(EchGraphArray));
    g_autoptr(GArray) needs = NULL;
    if (self->captured->len == 0)
        return arrays;
    find_launches(self);
    needs = find_needs(self);
    for (guint k = 0; k < needs->len; k++) {
        const Need *need = &g_array_index(needs, Need, k);
        EchGraphArray *newest = arrays->len > 0 ? &g_array_index(arrays, EchGraphArray, arrays->len - 1) : NULL;
        bool again = newest && newest->alloc == need->alloc && (!need->begins || need->item == newest->last || need->item == newest->first);
        if (again && newest->last != G_MAXUINT)
            newest->last = need->item;
        if (again)
            continue;
        EchGraphArray fresh = {need->alloc, need->item, need->stays ? G_MAXUINT : need->item, need->stays ? need->item : G_MAXUINT, ECH_NONE};
        g_array_append_val(arrays, fresh);
    }
    for (guint k = 0; k < arrays->len; k++)
        come_and_go(self, &g_array_index(arrays, EchGraphArray, k));
    g_array_sort(arrays, compare_arrays);
    return arrays;
}
