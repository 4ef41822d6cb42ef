/** @file graph_arrays.h
 * Arrays of CUDA graphs. While work is captured, an allocator gives out blocks of a pool that is kept for the graph, and takes them back; nothing has run by
 * then. Each launch writes and reads the same memory again, of which no event tells. So what a snapshot tells of the time of a capture belongs to the first
 * launch of the graph, between the same nodes, and at later launches what they use of it lives once more.
 */
#pragma once
#include "sim/import/capture.h"

typedef struct EchGraphArrays EchGraphArrays;

/** An array that lives from the item @first to the item @last, where a block of the snapshot lay. */
typedef struct {
    EchId alloc; /**< The op of the snapshot that asked for the block. */
    guint first, last;
    guint after;  /**< The block is still there: this takes its place, @last is G_MAXUINT, and what was there goes before this item. Else G_MAXUINT. */
    EchId buffer; /**< For the caller. */
} EchGraphArray;

/** Looks at @items (EchItem, in order, with the events of @snapshot), their @uses (EchAddressUse) and when nodes of graphs were @captured (EchTime, each).
 * Borrows all of them. */
EchGraphArrays *ech_graph_arrays_new(GArray *items, const GArray *uses, const GArray *captured, const EchTrace *snapshot) G_GNUC_WARN_UNUSED_RESULT;
void ech_graph_arrays_free(EchGraphArrays *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchGraphArrays, ech_graph_arrays_free)

/** Gives events of captures the times of first launches; the items are to be sorted then. */
void ech_graph_arrays_settle(EchGraphArrays *self);
/** Of the items, in order again: what is used of blocks that lay there at a capture and are gone, by graphs or of what they left. One goes from the work that
 * used the block first at its capture, or that needs it first, to the last before that work comes again; within a launch from where the block was asked for to
 * where it was let go. What a program keeps of a graph's results is made anew by each launch. EchGraphArray, by first; owned by the caller. */
GArray *ech_graph_arrays_find(EchGraphArrays *self) G_GNUC_WARN_UNUSED_RESULT;
