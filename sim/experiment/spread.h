/** @file spread.h
 * Blocks that a program repeats, which devices of one process run one after the other, divided between those anew: what each device would need then. Told by
 * what each block holds when, of one capture; weights of what its optimizer keeps and makes go with those of the blocks. What a block's device copies to the
 * next one stays as much. Nothing is known of settings that no block is cut for: an embedding, a head, a loss stay where they are.
 */
#pragma once
#include "sim/trace/trace.h"

typedef struct {
    uint32_t device;
    size_t was, now; /**< Blocks. */
    char *first;     /**< The first it has then, "model.layers.4"; NULL: it has none. */
    EchBytes before; /**< The most that lives there at once, as it is; */
    EchBytes after;  /**< and then. */
} EchSpreadDevice;

typedef struct {
    EchSpreadDevice *devices; /**< devices[n], in the order in which they run blocks. */
    size_t n;
} EchSpread;

/** The division in which the fullest device needs least, then the next fullest and so on, blocks in their order as it is. @trace: of several devices;
 * @patterns: ech_modules_repeated(). NULL where one device runs all blocks, blocks do not follow one another device by device, or none is better. */
EchSpread *ech_spread_new(const EchTrace *trace, const char *patterns) G_GNUC_WARN_UNUSED_RESULT;
void ech_spread_free(EchSpread *spread);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchSpread, ech_spread_free)
