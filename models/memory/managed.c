#include "models/memory/managed.h"

enum { BLOCK_BITS = 21 };
#define BLOCK ((EchBytes)1 << BLOCK_BITS)

typedef enum { NOWHERE, ON_DEVICE, ON_HOST } Where;

struct EchManaged {
    GHashTable *where; /* Number of a block -> Where; never walked. */
    GQueue *resident;  /* Numbers of those on the device, the oldest first. */
    guint64 room;      /* Blocks that the device takes. */
    EchBytes on_host;
    bool coherent;
};

EchManaged *ech_managed_new(EchBytes capacity, bool coherent)
{
    EchManaged *self = g_new(EchManaged, 1);
    *self = (EchManaged){.where = g_hash_table_new(NULL, NULL), .resident = g_queue_new(), .room = MAX(capacity / BLOCK, 1), .coherent = coherent};
    return self;
}

void ech_managed_free(EchManaged *self)
{
    if (!self)
        return;
    g_hash_table_unref(self->where);
    g_queue_free(self->resident);
    g_free(self);
}

static void set_where(EchManaged *self, gpointer block, Where where)
{
    g_hash_table_insert(self->where, block, GUINT_TO_POINTER(where));
}

/* A block becomes resident; where there is no room, the oldest goes. */
static void take(EchManaged *self, gpointer block, EchMigration *migration)
{
    if (self->resident->length >= self->room) {
        set_where(self, g_queue_pop_head(self->resident), ON_HOST);
        self->on_host += BLOCK;
        migration->from_device += BLOCK;
    }
    g_queue_push_tail(self->resident, block);
    set_where(self, block, ON_DEVICE);
}

/* What @bytes of a block cost. */
static void touch(EchManaged *self, gpointer block, EchBytes bytes, bool reads, bool writes, EchMigration *migration)
{
    Where where = (Where)GPOINTER_TO_UINT(g_hash_table_lookup(self->where, block));
    if (where == ON_DEVICE)
        return;
    if (self->coherent) {
        if (where == NOWHERE && self->resident->length < self->room) {
            take(self, block, migration);
            return;
        }
        if (where == NOWHERE) {
            set_where(self, block, ON_HOST);
            self->on_host += BLOCK;
        }
        migration->to_device += reads ? bytes : 0;
        migration->from_device += writes ? bytes : 0;
        return;
    }
    if (where == ON_HOST) {
        self->on_host -= BLOCK;
        migration->to_device += BLOCK;
    }
    take(self, block, migration);
}

void ech_managed_touch(EchManaged *self, uint64_t address, EchBytes bytes, bool reads, bool writes, EchMigration *migration)
{
    uint64_t end = ech_bytes_add(address, bytes);
    for (uint64_t at = address; at < end;) {
        uint64_t next = MIN(ech_bytes_add(at | (BLOCK - 1), 1), end);
        touch(self, (gpointer)(uintptr_t)(at >> BLOCK_BITS), next - at, reads, writes, migration);
        at = next;
    }
}

EchBytes ech_managed_on_host(const EchManaged *self)
{
    return self->on_host;
}

EchTime ech_managed_time(const EchLink *link, const EchMigration *migration, bool coherent)
{
    EchTime in = ech_time_for(migration->to_device, link->to_device), out = ech_time_for(migration->from_device, link->from_device);
    return coherent ? MAX(in, out) : ech_time_round((double)ech_time_add(in, out) / ECH_MANAGED_SHARE);
}
