/* A device memory profile beside another capture: what was in memory besides. */
#include "sim/import/import.h"

#include "sim/base/hash.h"

#include <string.h>

typedef struct {
    EchId memory;
    EchBytes bytes;
} Kind;

static guint kind_hash(gconstpointer p)
{
    const Kind *k = p;
    return ech_hash_pair(k->bytes, k->memory);
}

static gboolean kind_equal(gconstpointer a, gconstpointer b)
{
    const Kind *x = a, *y = b;
    return x->memory == y->memory && x->bytes == y->bytes;
}

/* How many resident buffers of each memory and size the trace has already. */
static GHashTable *count_residents(const EchTrace *trace)
{
    GHashTable *counts = g_hash_table_new_full(kind_hash, kind_equal, g_free, NULL);
    const EchBuffer *b = ech_trace_buffers(trace);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (!b[i].resident || b[i].alias_of != ECH_NONE || b[i].bytes == 0)
            continue;
        Kind kind = {b[i].memory, b[i].bytes};
        guint n = GPOINTER_TO_UINT(g_hash_table_lookup(counts, &kind));
        g_hash_table_insert(counts, g_memdup2(&kind, sizeof kind), GUINT_TO_POINTER(n + 1));
    }
    return counts;
}

EchTrace *ech_import_add_resident(const EchTrace *trace, const EchTrace *profile, EchDiag *diag, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    g_autoptr(GHashTable) counts = count_residents(trace);
    const EchBuffer *buffers = ech_trace_buffers(profile);
    uint64_t same = 0, elsewhere = 0, added = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(profile); i++) {
        EchBuffer b = buffers[i];
        const char *memory = ech_trace_memory(profile, b.memory);
        if (!b.resident)
            continue;
        if (ech_trace_find_memory(trace, memory) == ECH_NONE && strcmp(memory, "hbm") != 0 && strcmp(memory, "host") != 0) {
            elsewhere++;
            continue;
        }
        b.memory = ech_trace_builder_memory(builder, memory);
        Kind kind = {b.memory, b.bytes};
        guint n = GPOINTER_TO_UINT(g_hash_table_lookup(counts, &kind));
        if (n) {
            g_hash_table_insert(counts, g_memdup2(&kind, sizeof kind), GUINT_TO_POINTER(n - 1));
            same++;
            continue;
        }
        b.name = b.name == ECH_NONE ? ECH_NONE : ech_trace_builder_string(builder, ech_trace_string(profile, b.name), -1);
        b.stack = b.stack == ECH_NONE ? ECH_NONE : ech_trace_builder_string(builder, ech_trace_string(profile, b.stack), -1);
        b.shape = b.pool = b.queue = b.loop = b.alias_of = ECH_NONE;
        b.offset = ECH_OFFSET_NONE;
        ech_trace_builder_buffer(builder, b);
        added++;
    }
    ech_diag_note(diag, "resident_buffers_added", added);
    ech_diag_note(diag, "resident_buffers_that_are_inputs", same);
    ech_diag_note(diag, "resident_buffers_of_other_devices", elsewhere);
    return ech_trace_builder_finish(builder, error);
}
