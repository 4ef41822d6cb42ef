#include "models/alloc/tree.h"

#include <glib.h>
#include <string.h>

/* Inner node: children[n + 1], keys[i] is a lower bound of everything under children[i + 1]. Leaf: values[n].
 * No leaf of a tree is empty. Bounds may be stale (smaller than the first key below), never wrong. */
struct EchTreeNode {
    unsigned n;
    EchTreeNode *prev, *next; /* leaves only; next also links spare nodes */
    EchTreeKey keys[ECH_TREE_FANOUT];
    union {
        EchTreeNode *children[ECH_TREE_FANOUT + 1];
        uint32_t values[ECH_TREE_FANOUT];
    } u;
};

enum { SLAB_NODES = 16, MAX_HEIGHT = 16 };

typedef struct Slab Slab;
struct Slab {
    Slab *next;
    EchTreeNode nodes[SLAB_NODES];
};

static EchTreeNode *take_node(EchTree *tree)
{
    if (!tree->spare) {
        Slab *slab = g_new(Slab, 1);
        slab->next = tree->slabs;
        tree->slabs = slab;
        for (unsigned i = 0; i < SLAB_NODES; i++) {
            slab->nodes[i].next = tree->spare;
            tree->spare = &slab->nodes[i];
        }
    }
    EchTreeNode *node = tree->spare;
    tree->spare = node->next;
    node->n = 0;
    node->prev = node->next = NULL;
    return node;
}

static void give_node(EchTree *tree, EchTreeNode *node)
{
    node->next = tree->spare;
    tree->spare = node;
}

void ech_tree_clear(EchTree *tree)
{
    for (Slab *slab = tree->slabs; slab;) {
        Slab *next = slab->next;
        g_free(slab);
        slab = next;
    }
    *tree = (EchTree){0};
}

/* Number of keys below @key. The loop has no data-dependent branch. */
static unsigned count_below(const EchTreeNode *node, EchTreeKey key)
{
    const EchTreeKey *base = node->keys;
    unsigned n = node->n;
    if (n == 0)
        return 0;
    while (n > 1) {
        unsigned half = n / 2;
        base += base[half - 1] < key ? half : 0;
        n -= half;
    }
    return (unsigned)(base - node->keys) + (*base < key);
}

/* Child to descend to: number of bounds not above @key. */
static unsigned child_of(const EchTreeNode *node, EchTreeKey key)
{
    const EchTreeKey *base = node->keys;
    unsigned n = node->n;
    if (n == 0)
        return 0;
    while (n > 1) {
        unsigned half = n / 2;
        base += base[half - 1] <= key ? half : 0;
        n -= half;
    }
    return (unsigned)(base - node->keys) + (*base <= key);
}

void ech_tree_insert(EchTree *tree, EchTreeKey key, uint32_t value)
{
    EchTreeNode *path[MAX_HEIGHT];
    unsigned turn[MAX_HEIGHT];
    if (!tree->root)
        tree->root = take_node(tree);
    EchTreeNode *node = tree->root;
    for (unsigned level = 0; level < tree->height; level++) {
        path[level] = node;
        turn[level] = child_of(node, key);
        node = node->u.children[turn[level]];
    }
    tree->n++;
    unsigned at = count_below(node, key);
    if (node->n == ECH_TREE_FANOUT) {
        EchTreeNode *right = take_node(tree);
        unsigned half = ECH_TREE_FANOUT / 2;
        right->n = ECH_TREE_FANOUT - half;
        node->n = half;
        memcpy(right->keys, node->keys + half, right->n * sizeof *right->keys);
        memcpy(right->u.values, node->u.values + half, right->n * sizeof *right->u.values);
        right->next = node->next;
        right->prev = node;
        if (right->next)
            right->next->prev = right;
        node->next = right;
        EchTreeKey bound = right->keys[0];
        EchTreeNode *added = right;
        if (at > half) {
            node = right;
            at -= half;
        }
        unsigned level = tree->height;
        for (;;) {
            if (level == 0) {
                EchTreeNode *root = take_node(tree);
                root->n = 1;
                root->keys[0] = bound;
                root->u.children[0] = tree->root;
                root->u.children[1] = added;
                tree->root = root;
                tree->height++;
                g_assert(tree->height < MAX_HEIGHT);
                break;
            }
            EchTreeNode *parent = path[--level];
            unsigned place = turn[level];
            if (parent->n == ECH_TREE_FANOUT) {
                /* Keys left[0..half), the one at half moves up, right the rest. */
                EchTreeNode *sibling = take_node(tree);
                sibling->n = ECH_TREE_FANOUT - half - 1;
                EchTreeKey up = parent->keys[half];
                memcpy(sibling->keys, parent->keys + half + 1, sibling->n * sizeof *sibling->keys);
                memcpy(sibling->u.children, parent->u.children + half + 1, (sibling->n + 1) * sizeof(EchTreeNode *));
                parent->n = half;
                EchTreeNode *into = parent;
                if (place > half) {
                    into = sibling;
                    place -= half + 1;
                }
                memmove(into->keys + place + 1, into->keys + place, (into->n - place) * sizeof *into->keys);
                memmove(into->u.children + place + 2, into->u.children + place + 1, (into->n - place) * sizeof(EchTreeNode *));
                into->keys[place] = bound;
                into->u.children[place + 1] = added;
                into->n++;
                bound = up;
                added = sibling;
                continue;
            }
            memmove(parent->keys + place + 1, parent->keys + place, (parent->n - place) * sizeof *parent->keys);
            memmove(parent->u.children + place + 2, parent->u.children + place + 1, (parent->n - place) * sizeof(EchTreeNode *));
            parent->keys[place] = bound;
            parent->u.children[place + 1] = added;
            parent->n++;
            break;
        }
    }
    memmove(node->keys + at + 1, node->keys + at, (node->n - at) * sizeof *node->keys);
    memmove(node->u.values + at + 1, node->u.values + at, (node->n - at) * sizeof *node->u.values);
    node->keys[at] = key;
    node->u.values[at] = value;
    node->n++;
}

/* Takes an empty leaf out; @key is one that led to it. */
static void drop_leaf(EchTree *tree, EchTreeNode *leaf, EchTreeKey key)
{
    EchTreeNode *path[MAX_HEIGHT];
    unsigned turn[MAX_HEIGHT];
    EchTreeNode *node = tree->root;
    for (unsigned level = 0; level < tree->height; level++) {
        path[level] = node;
        turn[level] = child_of(node, key);
        node = node->u.children[turn[level]];
    }
    g_assert(node == leaf);
    if (leaf->prev)
        leaf->prev->next = leaf->next;
    if (leaf->next)
        leaf->next->prev = leaf->prev;
    give_node(tree, leaf);
    for (unsigned level = tree->height; level-- > 0;) {
        EchTreeNode *parent = path[level];
        unsigned place = turn[level];
        if (parent->n == 0) {
            give_node(tree, parent);
            continue;
        }
        unsigned bound = place > 0 ? place - 1 : 0;
        memmove(parent->keys + bound, parent->keys + bound + 1, (parent->n - bound - 1) * sizeof *parent->keys);
        memmove(parent->u.children + place, parent->u.children + place + 1, (parent->n - place) * sizeof(EchTreeNode *));
        parent->n--;
        while (tree->height > 0 && tree->root->n == 0) {
            EchTreeNode *root = tree->root;
            tree->root = root->u.children[0];
            tree->height--;
            give_node(tree, root);
        }
        return;
    }
    tree->root = NULL;
    tree->height = 0;
}

void ech_tree_remove_at(EchTree *tree, EchTreeIter it)
{
    EchTreeNode *leaf = it.leaf;
    EchTreeKey key = leaf->keys[it.at];
    leaf->n--;
    memmove(leaf->keys + it.at, leaf->keys + it.at + 1, (leaf->n - it.at) * sizeof *leaf->keys);
    memmove(leaf->u.values + it.at, leaf->u.values + it.at + 1, (leaf->n - it.at) * sizeof *leaf->u.values);
    tree->n--;
    if (leaf->n == 0)
        drop_leaf(tree, leaf, key);
}

bool ech_tree_remove(EchTree *tree, EchTreeKey key)
{
    EchTreeIter it = ech_tree_lower_bound(tree, key);
    if (!it.leaf || it.leaf->keys[it.at] != key)
        return false;
    ech_tree_remove_at(tree, it);
    return true;
}

EchTreeIter ech_tree_lower_bound(const EchTree *tree, EchTreeKey key)
{
    EchTreeNode *node = tree->root;
    if (!node)
        return (EchTreeIter){0};
    for (unsigned level = 0; level < tree->height; level++)
        node = node->u.children[child_of(node, key)];
    unsigned at = count_below(node, key);
    if (at == node->n)
        return (EchTreeIter){node->next, 0};
    return (EchTreeIter){node, at};
}

EchTreeIter ech_tree_first(const EchTree *tree)
{
    EchTreeNode *node = tree->root;
    for (unsigned level = 0; node && level < tree->height; level++)
        node = node->u.children[0];
    return (EchTreeIter){node, 0};
}

EchTreeIter ech_tree_last(const EchTree *tree)
{
    EchTreeNode *node = tree->root;
    for (unsigned level = 0; node && level < tree->height; level++)
        node = node->u.children[node->n];
    return (EchTreeIter){node, node ? node->n - 1 : 0};
}

EchTreeIter ech_tree_next(EchTreeIter it)
{
    return it.at + 1 < it.leaf->n ? (EchTreeIter){it.leaf, it.at + 1} : (EchTreeIter){it.leaf->next, 0};
}

EchTreeIter ech_tree_prev(EchTreeIter it)
{
    if (it.at > 0)
        return (EchTreeIter){it.leaf, it.at - 1};
    EchTreeNode *before = it.leaf->prev;
    return (EchTreeIter){before, before ? before->n - 1 : 0};
}

EchTreeKey ech_tree_iter_key(EchTreeIter it)
{
    return it.leaf->keys[it.at];
}

uint32_t ech_tree_iter_value(EchTreeIter it)
{
    return it.leaf->u.values[it.at];
}
