/** @file tree.h
 * An ordered map from (major, minor) to a block number: a B+ tree of block-pooled nodes with linked leaves.
 *
 * Every allocator that searches "smallest first, then lowest address" keeps its free blocks here. Keys are unique. Nothing is
 * allocated per operation: nodes come from slabs and go back to a free list.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/** Two 64-bit keys compared as one number, the first one first. */
__extension__ typedef unsigned __int128 EchTreeKey;

#define ECH_TREE_FANOUT 32u

typedef struct EchTreeNode EchTreeNode;

/** A tree; zero-initialised is an empty one. */
typedef struct {
    EchTreeNode *root;  /**< NULL where empty. */
    EchTreeNode *spare; /**< Free nodes. */
    void *slabs;        /**< List of slabs, freed by ech_tree_clear. */
    uint64_t n;         /**< Keys held. */
    unsigned height;    /**< Levels of inner nodes above the leaves. */
} EchTree;

/** A position: a key of the tree, or the end (leaf NULL). Invalid after the next insertion or removal. */
typedef struct {
    EchTreeNode *leaf;
    unsigned at;
} EchTreeIter;

static inline EchTreeKey ech_tree_key(uint64_t major, uint64_t minor)
{
    return (EchTreeKey)major << 64 | minor;
}

/** Gives all memory back; the tree is empty afterwards. */
void ech_tree_clear(EchTree *tree);
/** Adds a key that is not there yet. */
void ech_tree_insert(EchTree *tree, EchTreeKey key, uint32_t value);
/** Removes a key; false if it was not there. */
bool ech_tree_remove(EchTree *tree, EchTreeKey key);
/** Removes the key at a position that is not the end. */
void ech_tree_remove_at(EchTree *tree, EchTreeIter at);
/** First key not below @key. */
EchTreeIter ech_tree_lower_bound(const EchTree *tree, EchTreeKey key);
EchTreeIter ech_tree_first(const EchTree *tree);
EchTreeIter ech_tree_last(const EchTree *tree);
/** Neighbours in order; the end has a predecessor only through ech_tree_last. */
EchTreeIter ech_tree_next(EchTreeIter at);
EchTreeIter ech_tree_prev(EchTreeIter at);
EchTreeKey ech_tree_iter_key(EchTreeIter at);
uint32_t ech_tree_iter_value(EchTreeIter at);
