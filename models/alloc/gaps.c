#include "models/alloc/gaps.h"

#include <glib.h>

void ech_gaps_clear(EchGaps *gaps)
{
    g_free(gaps->nodes);
    *gaps = (EchGaps){0};
}

static void update(EchGaps *gaps, uint32_t at)
{
    EchGap *node = &gaps->nodes[at];
    uint64_t longest = node->bytes;
    if (node->left)
        longest = MAX(longest, gaps->nodes[node->left].longest);
    if (node->right)
        longest = MAX(longest, gaps->nodes[node->right].longest);
    node->longest = longest;
}

static uint32_t take_node(EchGaps *gaps, uint64_t address, uint64_t bytes)
{
    uint32_t at = gaps->spare;
    if (at) {
        gaps->spare = gaps->nodes[at].left;
    } else {
        if (gaps->n_nodes == gaps->allocated) {
            gaps->allocated = gaps->allocated ? gaps->allocated * 2 : 64;
            gaps->nodes = g_renew(EchGap, gaps->nodes, gaps->allocated);
            if (gaps->n_nodes == 0)
                gaps->n_nodes = 1;
        }
        at = gaps->n_nodes++;
    }
    /* xorshift: the shape of the tree never shows in results. */
    uint32_t x = gaps->seed ? gaps->seed : 2463534242u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    gaps->seed = x;
    gaps->nodes[at] = (EchGap){.address = address, .bytes = bytes, .longest = bytes, .priority = x};
    return at;
}

static uint32_t insert(EchGaps *gaps, uint32_t root, uint32_t at)
{
    if (!root)
        return at;
    EchGap *nodes = gaps->nodes;
    if (nodes[at].address < nodes[root].address) {
        uint32_t left = insert(gaps, nodes[root].left, at);
        nodes[root].left = left;
        if (nodes[left].priority > nodes[root].priority) {
            nodes[root].left = nodes[left].right;
            nodes[left].right = root;
            update(gaps, root);
            update(gaps, left);
            return left;
        }
    } else {
        uint32_t right = insert(gaps, nodes[root].right, at);
        nodes[root].right = right;
        if (nodes[right].priority > nodes[root].priority) {
            nodes[root].right = nodes[right].left;
            nodes[right].left = root;
            update(gaps, root);
            update(gaps, right);
            return right;
        }
    }
    update(gaps, root);
    return root;
}

static uint32_t merge(EchGaps *gaps, uint32_t a, uint32_t b)
{
    if (!a || !b)
        return a ? a : b;
    EchGap *nodes = gaps->nodes;
    if (nodes[a].priority > nodes[b].priority) {
        nodes[a].right = merge(gaps, nodes[a].right, b);
        update(gaps, a);
        return a;
    }
    nodes[b].left = merge(gaps, a, nodes[b].left);
    update(gaps, b);
    return b;
}

static uint32_t erase(EchGaps *gaps, uint32_t root, uint64_t address)
{
    g_assert(root);
    EchGap *node = &gaps->nodes[root];
    if (address == node->address) {
        uint32_t joined = merge(gaps, node->left, node->right);
        node->left = gaps->spare;
        gaps->spare = root;
        return joined;
    }
    if (address < node->address)
        node->left = erase(gaps, node->left, address);
    else
        node->right = erase(gaps, node->right, address);
    update(gaps, root);
    return root;
}

bool ech_gaps_at(const EchGaps *gaps, uint64_t address, uint64_t *ret_address, uint64_t *ret_bytes)
{
    uint32_t best = 0;
    for (uint32_t at = gaps->root; at;) {
        const EchGap *node = &gaps->nodes[at];
        if (node->address <= address) {
            best = at;
            at = node->right;
        } else {
            at = node->left;
        }
    }
    if (!best)
        return false;
    *ret_address = gaps->nodes[best].address;
    *ret_bytes = gaps->nodes[best].bytes;
    return true;
}

/* Changes the bytes of the range that begins at @from, and where it begins; order is kept by the caller. */
static void change(EchGaps *gaps, uint32_t root, uint64_t from, uint64_t address, uint64_t bytes)
{
    EchGap *node = &gaps->nodes[root];
    if (from == node->address) {
        node->address = address;
        node->bytes = bytes;
    } else {
        change(gaps, from < node->address ? node->left : node->right, from, address, bytes);
    }
    update(gaps, root);
}

static bool find_exact(const EchGaps *gaps, uint64_t address, uint64_t *ret_bytes)
{
    for (uint32_t at = gaps->root; at;) {
        const EchGap *node = &gaps->nodes[at];
        if (node->address == address) {
            *ret_bytes = node->bytes;
            return true;
        }
        at = address < node->address ? node->left : node->right;
    }
    return false;
}

void ech_gaps_add(EchGaps *gaps, uint64_t address, uint64_t bytes)
{
    if (bytes == 0)
        return;
    uint64_t before = 0, before_bytes = 0, after_bytes = 0;
    bool joins_before = address > 0 && ech_gaps_at(gaps, address - 1, &before, &before_bytes) && before + before_bytes == address;
    bool joins_after = find_exact(gaps, address + bytes, &after_bytes);
    if (joins_before && joins_after) {
        gaps->root = erase(gaps, gaps->root, address + bytes);
        change(gaps, gaps->root, before, before, before_bytes + bytes + after_bytes);
    } else if (joins_before) {
        change(gaps, gaps->root, before, before, before_bytes + bytes);
    } else if (joins_after) {
        change(gaps, gaps->root, address + bytes, address, bytes + after_bytes);
    } else {
        uint32_t at = take_node(gaps, address, bytes);
        gaps->root = insert(gaps, gaps->root, at);
    }
}

static bool find(const EchGaps *gaps, uint32_t at, uint64_t from, uint64_t bytes, uint64_t *ret_address)
{
    while (at && gaps->nodes[at].longest >= bytes) {
        const EchGap *node = &gaps->nodes[at];
        if (node->address < from) {
            at = node->right;
            continue;
        }
        if (find(gaps, node->left, from, bytes, ret_address))
            return true;
        if (node->bytes >= bytes) {
            *ret_address = node->address;
            return true;
        }
        at = node->right;
    }
    return false;
}

bool ech_gaps_find(const EchGaps *gaps, uint64_t from, uint64_t bytes, uint64_t *ret_address)
{
    return find(gaps, gaps->root, from, bytes, ret_address);
}

void ech_gaps_take(EchGaps *gaps, uint64_t address, uint64_t bytes)
{
    uint64_t start = 0, length = 0;
    bool found = ech_gaps_at(gaps, address, &start, &length);
    g_assert(found && address - start <= length && length - (address - start) >= bytes);
    uint64_t tail = length - (address - start) - bytes;
    if (address == start && tail == 0) {
        gaps->root = erase(gaps, gaps->root, start);
    } else if (address == start) {
        change(gaps, gaps->root, start, address + bytes, tail);
    } else {
        change(gaps, gaps->root, start, start, address - start);
        if (tail) {
            uint32_t at = take_node(gaps, address + bytes, tail);
            gaps->root = insert(gaps, gaps->root, at);
        }
    }
}

static void each(const EchGaps *gaps, uint32_t at, void (*fn)(uint64_t, uint64_t, void *), void *data)
{
    if (!at)
        return;
    each(gaps, gaps->nodes[at].left, fn, data);
    fn(gaps->nodes[at].address, gaps->nodes[at].bytes, data);
    each(gaps, gaps->nodes[at].right, fn, data);
}

void ech_gaps_each(const EchGaps *gaps, void (*fn)(uint64_t address, uint64_t bytes, void *data), void *data)
{
    each(gaps, gaps->root, fn, data);
}
