/* Two inputs in one: a first line with an allocator's spec, then events as text. Whatever a spec or a sequence says, blocks stay legal. */
#include "models/alloc/check.h"
#include "models/alloc/events.h"
#include "sim/import/alloc_text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, '\n', n) : NULL;
    if (!end || end - data > 200 || n > 100000)
        return 0;
    g_autofree char *spec = g_strndup((const char *)data, (gsize)(end - data));
    if (g_str_has_prefix(spec, "plugin"))
        return 0;
    (void)ech_alloc_text_probe(end + 1, n - (size_t)(end + 1 - data));
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    if (!ech_alloc_text_read((const char *)end + 1, n - (size_t)(end + 1 - data), "fuzz", events, diag, &error)) {
        g_assert(error);
        return 0;
    }
    EchAllocDevice device = {.capacity = UINT64_C(1) << 32};
    g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, &error);
    if (!allocator) {
        g_assert(error);
        return 0;
    }
    g_autoptr(EchPlacementChecker) checker = ech_placement_checker_new();
    g_autoptr(GHashTable) live = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    for (guint i = 0; i < events->len; i++) {
        const EchAllocEvent *event = &g_array_index(events, EchAllocEvent, i);
        EchAllocRunOptions options = {.placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent))};
        const uint64_t *old = g_hash_table_lookup(live, GUINT_TO_POINTER(event->id));
        if (event->kind == ECH_EVENT_FREE && old) {
            ech_placement_checker_remove(checker, *old);
            g_hash_table_remove(live, GUINT_TO_POINTER(event->id));
        }
        if (i % 16 == n % 16) /* now and then the device refuses */
            ech_allocator_inject_failure(allocator, n % 3, 1 + n % 2);
        ech_alloc_run(allocator, event, 1, &options);
        if (options.placed->len) {
            const EchPlacedEvent *placed = &g_array_index(options.placed, EchPlacedEvent, 0);
            if (placed->fit == ECH_FIT_OK && placed->placement.address != ECH_ADDRESS_NONE) {
                bool legal = ech_placement_checker_add(checker, event->id, placed->placement.address, placed->placement.rounded, NULL);
                g_assert(legal && placed->placement.rounded >= event->bytes);
                g_hash_table_insert(live, GUINT_TO_POINTER(event->id), g_memdup2(&placed->placement.address, sizeof(uint64_t)));
            }
        }
        g_array_unref(options.placed);
    }
    size_t n_blocks;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n_blocks);
    EchAllocStats stats;
    ech_allocator_stats(allocator, &stats);
    EchBytes all = 0;
    for (size_t i = 0; i < n_blocks; i++)
        all += blocks[i].bytes;
    g_assert(all == stats.reserved && stats.live <= stats.reserved);
    return 0;
}
