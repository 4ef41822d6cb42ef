#include "models/memory/managed.h"

enum { BLOCK_BITS = 21 };
#define BLOCK ((EchBytes)1 << BLOCK_BITS)

typedef enum { NOWHERE, ON_DEVICE, ON_HOST } Where;

typedef struct {
    GList link; /* Of the resident ones; data is the block. */
    EchBytes bytes;
    Where where;
    bool copied; /* Of one on the device: it lies on the host, too. */
} Block;

struct EchManaged {
    GHashTable *blocks; /* Number -> Block; never walked in an order that shows. */
    GQueue *resident;   /* Blocks on the device, the oldest first. */
    EchBytes room, on_device, on_host;
    bool coherent;
};

EchManaged *ech_managed_new(EchBytes room, bool coherent)
{
    EchManaged *self = g_new(EchManaged, 1);
    *self = (EchManaged){.blocks = g_hash_table_new_full(NULL, NULL, NULL, g_free), .resident = g_queue_new(), .room = MAX(room, BLOCK), .coherent = coherent};
    return self;
}

void ech_managed_free(EchManaged *self)
{
    if (!self)
        return;
    while (self->resident->length > 0)
        (void)g_queue_pop_head_link(self->resident); /* parts of the blocks */
    g_queue_free(self->resident);
    g_hash_table_unref(self->blocks);
    g_free(self);
}

static void put_on_host(EchManaged *self, Block *block)
{
    block->where = ON_HOST;
    block->copied = false;
    self->on_host += block->bytes;
}

static void leave_host(EchManaged *self, const Block *block)
{
    if (block->where == ON_HOST)
        self->on_host -= block->bytes;
}

static void leave_device(EchManaged *self, Block *block)
{
    if (block->where != ON_DEVICE)
        return;
    g_queue_unlink(self->resident, &block->link);
    self->on_device -= block->bytes;
}

/* A resident block goes to the host. */
static void evict(EchManaged *self, Block *block, EchMigration *migration)
{
    migration->from_device += block->copied ? 0 : block->bytes;
    leave_device(self, block);
    put_on_host(self, block);
}

static bool has_room(const EchManaged *self, EchBytes bytes)
{
    return self->on_device + bytes <= self->room;
}

/* A block becomes resident; where there is no room, the oldest go. */
static void take(EchManaged *self, Block *block, EchMigration *migration)
{
    while (!has_room(self, block->bytes) && self->resident->length > 0)
        evict(self, self->resident->head->data, migration);
    leave_host(self, block);
    block->where = ON_DEVICE;
    self->on_device += block->bytes;
    g_queue_push_tail_link(self->resident, &block->link);
}

void ech_managed_set_room(EchManaged *self, EchBytes room, EchMigration *migration)
{
    self->room = MAX(room, BLOCK);
    while (!has_room(self, 0) && self->resident->length > 0)
        evict(self, self->resident->head->data, migration);
}

/* What @bytes of a block cost. */
static void touch(EchManaged *self, const EchManagedRange *range, Block *block, EchBytes bytes, bool reads, bool writes, EchMigration *migration)
{
    if (block->where == ON_DEVICE) {
        block->copied = block->copied && !writes;
        return;
    }
    bool on_host = block->where == ON_HOST || (reads && range->of_host) || (range->advice & ECH_ADVICE_ON_HOST) != 0;
    if (!on_host && (!self->coherent || has_room(self, block->bytes))) {
        take(self, block, migration);
        return;
    }
    if (block->where == NOWHERE)
        put_on_host(self, block);
    bool stays = self->coherent && !(range->of_host && has_room(self, block->bytes));
    if (stays || (range->advice & (ECH_ADVICE_ON_HOST | ECH_ADVICE_MAPPED)) != 0) {
        migration->read += reads ? bytes : 0;
        migration->written += writes ? bytes : 0;
        return;
    }
    migration->to_device += block->bytes;
    migration->faults = true;
    take(self, block, migration);
    block->copied = (range->advice & ECH_ADVICE_READ_MOSTLY) != 0 && !writes;
}

/* The block at @number of @range; made where it is new. */
static Block *block_of(EchManaged *self, const EchManagedRange *range, uint64_t number)
{
    Block *block = g_hash_table_lookup(self->blocks, (gpointer)(uintptr_t)number);
    if (block)
        return block;
    uint64_t first = number << BLOCK_BITS, begin = MAX(first, range->address),
             end = MIN(ech_bytes_add(first, BLOCK), ech_bytes_add(range->address, range->bytes));
    block = g_new(Block, 1);
    *block = (Block){.link = {.data = block}, .bytes = end - begin, .where = NOWHERE};
    g_hash_table_insert(self->blocks, (gpointer)(uintptr_t)number, block);
    return block;
}

/* Where @bytes of @range from @offset on begin and end. */
static uint64_t first_address(const EchManagedRange *range, EchBytes offset)
{
    return ech_bytes_add(range->address, MIN(offset, range->bytes));
}

static uint64_t end_address(const EchManagedRange *range, EchBytes offset, EchBytes bytes)
{
    return MIN(ech_bytes_add(first_address(range, offset), bytes), ech_bytes_add(range->address, range->bytes));
}

void ech_managed_touch(EchManaged *self, const EchManagedRange *range, EchBytes offset, EchBytes bytes, bool reads, bool writes, EchMigration *migration)
{
    uint64_t end = end_address(range, offset, bytes);
    for (uint64_t at = first_address(range, offset); at < end;) {
        uint64_t next = MIN(ech_bytes_add(at | (BLOCK - 1), 1), end);
        touch(self, range, block_of(self, range, at >> BLOCK_BITS), next - at, reads, writes, migration);
        at = next;
    }
}

void ech_managed_move(EchManaged *self, const EchManagedRange *range, EchBytes offset, EchBytes bytes, bool to_device, EchMigration *migration)
{
    uint64_t end = end_address(range, offset, bytes);
    for (uint64_t at = first_address(range, offset); at < end; at = ech_bytes_add(at | (BLOCK - 1), 1)) {
        Block *block = block_of(self, range, at >> BLOCK_BITS);
        if (to_device && block->where != ON_DEVICE) {
            bool comes = block->where == ON_HOST;
            migration->to_device += comes ? block->bytes : 0;
            take(self, block, migration);
            block->copied = comes && (range->advice & ECH_ADVICE_READ_MOSTLY) != 0;
        } else if (!to_device && block->where == ON_DEVICE) {
            evict(self, block, migration);
        } else if (!to_device && block->where == NOWHERE) {
            put_on_host(self, block);
        }
    }
}

void ech_managed_forget(EchManaged *self, const EchManagedRange *range)
{
    uint64_t end = end_address(range, 0, range->bytes);
    for (uint64_t at = range->address; at < end; at = ech_bytes_add(at | (BLOCK - 1), 1)) {
        gpointer number = (gpointer)(uintptr_t)(at >> BLOCK_BITS);
        Block *block = g_hash_table_lookup(self->blocks, number);
        if (!block)
            continue;
        leave_host(self, block);
        leave_device(self, block);
        g_hash_table_remove(self->blocks, number);
    }
}

EchBytes ech_managed_on_host(const EchManaged *self)
{
    return self->on_host;
}

EchBytes ech_managed_on_device(const EchManaged *self)
{
    return self->on_device;
}

EchTime ech_managed_time(const EchLink *link, const EchMigration *migration)
{
    EchTime moved = ech_time_add(ech_time_for(migration->to_device, link->to_device), ech_time_for(migration->from_device, link->from_device)),
            reached = MAX(ech_time_for(migration->read, link->to_device), ech_time_for(migration->written, link->from_device));
    bool by_turns = migration->to_device > 0 && migration->from_device > 0;
    return ech_time_add(migration->faults || by_turns ? ech_time_round((double)moved / ECH_MANAGED_SHARE) : moved, reached);
}
