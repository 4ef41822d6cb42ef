#include "sim/import/et.h"

#include "sim/base/fnv.h"
#include "sim/base/hash.h"
#include "sim/base/heap.h"
#include "sim/import/capture.h"
#include "sim/trace/meets.h"

#include <string.h>

static const char *const type_names[ECH_N_ET_TYPES] = {"INVALID",   "METADATA",  "MEM_LOAD", "MEM_STORE", "COMP",      "COMM_SEND",
                                                       "COMM_RECV", "COMM_COLL", "STORAGE",  "BATCH",     "CHECKPOINT"};

#define MAX_DEVICES 1024
#define MAX_PEERS 4096
#define MAX_US (INT64_MAX / (2 * ECH_PS_PER_US))

typedef struct {
    uint32_t storage; /* in storages */
    bool written;
    EchBytes bytes;
    EchBytes end; /* of the tensor in its storage */
} Access;

typedef struct {
    uint64_t id;
    bool control;
} Dep;

typedef struct {
    uint64_t key;
    EchBytes bytes; /* to the end of the last tensor in it */
    bool host;
    uint32_t device;
    EchId buffer;
    uint32_t first, last; /* positions in the final order of the nodes that touch it; first > last: none */
    bool written_first;
    bool replaced;    /* its id stands for another later */
    bool made;        /* whoever named it first returned it and was not given it */
    uint32_t touched; /* position of that node, marks too */
    uint32_t named;   /* position of the last one that names it, marks too */
} Storage;

typedef struct {
    EchEtNode node;
    uint32_t first_access, n_accesses;
    uint32_t first_dep, n_deps;
    bool has_children;
    uint8_t becomes;  /* EchOpKind */
    uint32_t missing; /* dependencies not yet ordered */
    EchId op;
} Node;

struct EchEt {
    EchTraceBuilder *builder;
    GArray *nodes;    /* Node */
    GArray *accesses; /* Access, by node */
    GArray *deps;     /* Dep, by node */
    bool has_data_deps;
    GArray *storages;   /* Storage */
    GHashTable *by_key; /* uint64_t in the array's order -> index + 1 */
    uint64_t bad_tensors;
    uint32_t rank; /* + 1, or 0 */
};

EchEtType ech_et_type(const char *name)
{
    for (int i = 0; i < ECH_N_ET_TYPES; i++) {
        if (g_str_has_prefix(name, type_names[i]) && strcmp(name + strlen(type_names[i]), "_NODE") == 0)
            return (EchEtType)i;
    }
    return ECH_N_ET_TYPES;
}

EchEt *ech_et_new(const char *format)
{
    EchEt *et = g_new0(EchEt, 1);
    et->builder = ech_trace_builder_new(format);
    et->nodes = g_array_new(FALSE, TRUE, sizeof(Node));
    et->accesses = g_array_new(FALSE, TRUE, sizeof(Access));
    et->deps = g_array_new(FALSE, TRUE, sizeof(Dep));
    et->storages = g_array_new(FALSE, TRUE, sizeof(Storage));
    et->by_key = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    return et;
}

void ech_et_free(EchEt *et)
{
    if (!et)
        return;
    ech_trace_builder_free(et->builder);
    g_array_unref(et->nodes);
    g_array_unref(et->accesses);
    g_array_unref(et->deps);
    g_array_unref(et->storages);
    g_hash_table_unref(et->by_key);
    g_free(et);
}

EchId ech_et_string(EchEt *et, const char *text, gssize length)
{
    return ech_trace_builder_string(et->builder, text, length);
}

void ech_et_rank_of(EchEt *et, const char *path)
{
    g_autofree char *name = path ? g_path_get_basename(path) : g_strdup("");
    g_auto(GStrv) parts = g_strsplit(name, ".", -1);
    for (guint i = 1; i + 1 < g_strv_length(parts); i++) {
        uint64_t rank;
        if (!ech_parse_u64(parts[i], &rank, NULL) || rank >= ECH_NONE)
            continue;
        et->rank = (uint32_t)rank + 1;
        ech_et_property(et, "rank", parts[i]);
    }
}

uint64_t ech_et_group(const char *name, size_t n)
{
    return n > 0 ? ech_fnv(ECH_FNV, name, n) : 0;
}

void ech_et_property(EchEt *et, const char *key, const char *value)
{
    ech_trace_builder_set_property(et->builder, key, value);
}

void ech_et_node(EchEt *et, EchEtNode node)
{
    if (node.duration_us > MAX_US || node.duration_us < 0)
        node.duration_us = -1;
    Node row = {.node = node, .first_access = et->accesses->len, .first_dep = et->deps->len, .op = ECH_NONE};
    if (row.node.type >= ECH_N_ET_TYPES)
        row.node.type = ECH_ET_INVALID;
    g_array_append_val(et->nodes, row);
}

static Node *last_node(EchEt *et)
{
    return &g_array_index(et->nodes, Node, et->nodes->len - 1);
}

void ech_et_dep(EchEt *et, uint64_t id, bool control)
{
    Node *node = last_node(et);
    Dep dep = {id, control};
    if (id == node->node.id)
        return;
    g_array_append_val(et->deps, dep);
    node->n_deps++;
    et->has_data_deps = et->has_data_deps || !control;
}

static uint32_t storage_of(EchEt *et, uint64_t key)
{
    gpointer found = g_hash_table_lookup(et->by_key, &key);
    if (found)
        return GPOINTER_TO_UINT(found) - 1;
    Storage storage = {.key = key, .buffer = ECH_NONE, .first = UINT32_MAX, .touched = UINT32_MAX};
    g_array_append_val(et->storages, storage);
    uint64_t *own = g_new(uint64_t, 1);
    *own = key;
    g_hash_table_insert(et->by_key, own, GUINT_TO_POINTER(et->storages->len));
    return et->storages->len - 1;
}

void ech_et_tensor(EchEt *et, bool written, const int64_t numbers[5], const char *device, size_t device_length)
{
    for (unsigned i = 0; i < 5; i++) {
        if (numbers[i] < 0) {
            et->bad_tensors++;
            return;
        }
    }
    EchBytes element = (EchBytes)numbers[4], bytes = ech_bytes_mul((EchBytes)numbers[3], element);
    EchBytes end = ech_bytes_add(ech_bytes_mul((EchBytes)numbers[2], element), bytes);
    if (end > UINT64_C(1) << 50) {
        et->bad_tensors++;
        return;
    }
    if (bytes == 0) /* uninitialised tensors are of no bytes */
        return;
    bool host = device_length >= 3 && strncmp(device, "cpu", 3) == 0;
    uint64_t ordinal = 0;
    const char *colon = memchr(device, ':', device_length);
    for (const char *at = colon ? colon + 1 : device + device_length; at < device + device_length && *at >= '0' && *at <= '9' && ordinal < MAX_DEVICES; at++)
        ordinal = ordinal * 10 + (uint64_t)(*at - '0');
    /* Without a storage id the tensor stands for its storage. Ids of devices are apart. */
    uint64_t id = numbers[1] ? (uint64_t)numbers[1] << 1 : (uint64_t)numbers[0] << 1 | 1;
    uint32_t index = storage_of(et, (id << 11) + (host ? MAX_DEVICES : MIN(ordinal, MAX_DEVICES - 1)));
    Storage *storage = &g_array_index(et->storages, Storage, index);
    storage->bytes = MAX(storage->bytes, end);
    storage->host = host;
    storage->device = (uint32_t)MIN(ordinal, MAX_DEVICES - 1);
    Node *node = last_node(et);
    /* A storage is named again and again in lists of views: keep one access of a kind. */
    for (uint32_t i = 0; i < MIN(node->n_accesses, 16); i++) {
        Access *before = &g_array_index(et->accesses, Access, et->accesses->len - 1 - i);
        if (before->storage == index && before->written == written) {
            before->bytes = MAX(before->bytes, bytes);
            before->end = MAX(before->end, end);
            return;
        }
    }
    Access access = {index, written, bytes, end};
    g_array_append_val(et->accesses, access);
    node->n_accesses++;
}

/* ---- Order ---- */

/** Numbers of nodes in the order of the file, @data being NULL, or of the ids of the nodes[] at @data. */
static gint compare_nodes(gconstpointer a, gconstpointer b, gpointer data)
{
    const Node *nodes = data;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (nodes && nodes[x].node.id != nodes[y].node.id)
        return nodes[x].node.id < nodes[y].node.id ? -1 : 1;
    return (x > y) - (x < y);
}

/** Turns ids of dependencies into node numbers (ECH_NONE where unknown or repeated) and marks parents. Owned by the caller. */
static uint32_t *resolve(EchEt *et, EchDiag *diag)
{
    Node *nodes = (Node *)(void *)et->nodes->data;
    const Dep *rows = (const Dep *)(const void *)et->deps->data;
    g_autoptr(GHashTable) index = g_hash_table_new(ech_hash_int64, g_int64_equal);
    for (guint i = 0; i < et->nodes->len; i++) {
        if (g_hash_table_contains(index, &nodes[i].node.id))
            ech_diag_dropped(diag, "repeated_node_ids", 1, "node %" G_GUINT64_FORMAT, nodes[i].node.id);
        else
            g_hash_table_insert(index, &nodes[i].node.id, GUINT_TO_POINTER(i + 1));
    }
    uint32_t *numbers = g_new(uint32_t, (size_t)et->deps->len + 1);
    for (guint i = 0; i < et->nodes->len; i++) {
        for (uint32_t d = nodes[i].first_dep; d < nodes[i].first_dep + nodes[i].n_deps; d++) {
            guint found = GPOINTER_TO_UINT(g_hash_table_lookup(index, &rows[d].id));
            numbers[d] = found && found - 1 != i ? found - 1 : ECH_NONE;
            if (!found)
                ech_diag_note(diag, "dependencies_on_nodes_outside", 1);
            else
                nodes[found - 1].has_children = true;
            for (uint32_t e = nodes[i].first_dep; e < d && d - e < 64; e++) {
                if (numbers[e] == numbers[d] && (!rows[e].control || rows[d].control))
                    numbers[d] = ECH_NONE;
            }
        }
    }
    return numbers;
}

/** Whether a dependency decides the order. */
static bool orders(const EchEt *et, const uint32_t *deps, uint32_t d)
{
    return deps[d] != ECH_NONE && !(et->has_data_deps && g_array_index(et->deps, Dep, d).control);
}

/** Nodes so that dependencies come first, otherwise in file (or id) order; those of a cycle last. Owned by the caller. */
static uint32_t *sort_nodes(EchEt *et, const uint32_t *deps, bool by_id, EchDiag *diag)
{
    Node *nodes = (Node *)(void *)et->nodes->data;
    guint n = et->nodes->len;
    g_autofree uint32_t *first = g_new0(uint32_t, (size_t)n + 1), *users = g_new(uint32_t, (size_t)et->deps->len + 1);
    for (guint i = 0; i < n; i++) {
        for (uint32_t d = nodes[i].first_dep; d < nodes[i].first_dep + nodes[i].n_deps; d++) {
            if (orders(et, deps, d)) {
                first[deps[d] + 1]++;
                nodes[i].missing++;
            }
        }
    }
    for (guint i = 0; i < n; i++)
        first[i + 1] += first[i];
    g_autofree uint32_t *next = g_memdup2(first, ((size_t)n + 1) * sizeof *first);
    for (guint i = 0; i < n; i++) {
        for (uint32_t d = nodes[i].first_dep; d < nodes[i].first_dep + nodes[i].n_deps; d++) {
            if (orders(et, deps, d))
                users[next[deps[d]]++] = i;
        }
    }
    g_autoptr(GArray) ready = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    Node *ids = by_id ? nodes : NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (nodes[i].missing == 0)
            ech_heap_push(ready, &i, compare_nodes, ids);
    }
    uint32_t *order = g_new(uint32_t, (size_t)n + 1);
    guint n_order = 0;
    while (ready->len > 0) {
        uint32_t node;
        ech_heap_pop(ready, &node, compare_nodes, ids);
        order[n_order++] = node;
        for (uint32_t u = first[node]; u < first[node + 1]; u++) {
            if (--nodes[users[u]].missing == 0)
                ech_heap_push(ready, &users[u], compare_nodes, ids);
        }
    }
    for (guint i = 0; n_order < n && i < n; i++) {
        if (nodes[i].missing > 0) {
            ech_diag_dropped(diag, "nodes_in_dependency_cycles", 1, "node %" G_GUINT64_FORMAT, nodes[i].node.id);
            order[n_order++] = i;
        }
    }
    return order;
}

/* ---- The trace ---- */

enum { BARRIER = 10 }; /* of comm_type + 1 */

/* What a collective is of which neither its type nor its name tells: bytes that are sent once. */
#define UNKNOWN_COLLECTIVE ECH_COLLECTIVE_PERMUTE

static EchCollective collective_of(const EchEtNode *node, const char *name)
{
    switch (node->type == ECH_ET_COMM_COLL ? node->comm_type : 0) {
    case 1:
    case 2: return ECH_COLLECTIVE_ALL_REDUCE; /* reduce: the same traffic towards one */
    case 3:
    case 4: return ECH_COLLECTIVE_ALL_GATHER;
    case 5:
    case 6: return ECH_COLLECTIVE_BROADCAST;
    case 7: return ECH_COLLECTIVE_ALL_TO_ALL;
    case 8:
    case 9: return ECH_COLLECTIVE_REDUCE_SCATTER;
    default: break;
    }
    if (node->type != ECH_ET_COMM_COLL)
        return node->type == ECH_ET_COMM_SEND ? ECH_COLLECTIVE_SEND : ECH_COLLECTIVE_RECV;
    EchCollective named = ech_capture_collective(name);
    return named == ECH_COLLECTIVE_NONE ? UNKNOWN_COLLECTIVE : named;
}

static const char *node_name(const EchEt *et, const Node *node)
{
    return ech_trace_builder_peek_string(et->builder, node->node.name);
}

/* Operators of PyTorch that by themselves only name bytes anew, or ask for them: what copies does it in one that they call. Nodes of autograd likewise. */
static bool moves_nothing(const char *name)
{
    static const char *const names[] = {"view",         "resolve_conj",    "resolve_neg",  "as_strided",     "detach",           "t",
                                        "transpose",    "permute",         "expand",       "slice",          "select",           "squeeze",
                                        "unsqueeze",    "alias",           "_unsafe_view", "_reshape_alias", "narrow",           "unbind",
                                        "split",        "chunk",           "diagonal",     "unfold",         "split_with_sizes", "lift_fresh",
                                        "view_as_real", "view_as_complex", "_conj",        "real",           "numpy_T",          "set_",
                                        "resize_",      "empty",           "empty_like",   "empty_strided",  "new_empty",        "reshape",
                                        "contiguous",   "flatten",         "to",           "_to_copy",       "type_as",          "view_as",
                                        "expand_as",    "reshape_as",      "ravel",        "movedim",        "linear",           "matmul",
                                        "einsum"};
    if (!g_str_has_prefix(name, "aten::"))
        return strstr(name, "Backward") || g_str_has_prefix(name, "torch::autograd::") || g_str_has_prefix(name, "autograd::");
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(name + strlen("aten::"), names[i]) == 0)
            return true;
    }
    return false;
}

static bool is_barrier(const EchEt *et, const Node *node)
{
    return node->node.type == ECH_ET_COMM_COLL && (node->node.comm_type == BARRIER || (!node->node.comm_type && strstr(node_name(et, node), "barrier")));
}

/** What a node becomes. In a trace with GPU nodes what runs on a CPU is a mark: it launched the others. In a tree of operators only leaves that touch tensors
 * work. */
static EchOpKind classify(const EchEt *et, const Node *node, bool any_device, bool tree)
{
    bool on_device = node->node.place == ECH_ET_DEVICE || !any_device;
    switch ((EchEtType)node->node.type) {
    case ECH_ET_COMP:
        if (!on_device || (tree && (node->has_children || node->n_accesses == 0 || moves_nothing(node_name(et, node)))))
            return ECH_OP_MARK;
        if (g_str_has_prefix(node_name(et, node), "Memcpy"))
            return ECH_OP_COPY;
        return ECH_OP_KERNEL;
    case ECH_ET_MEM_LOAD:
    case ECH_ET_MEM_STORE: return ECH_OP_COPY;
    case ECH_ET_COMM_SEND:
    case ECH_ET_COMM_RECV:
    case ECH_ET_COMM_COLL: return any_device && node->node.place == ECH_ET_HOST ? ECH_OP_MARK : is_barrier(et, node) ? ECH_OP_WAIT : ECH_OP_COLLECTIVE;
    case ECH_ET_INVALID:
    case ECH_ET_METADATA:
    case ECH_ET_STORAGE:
    case ECH_ET_BATCH:
    case ECH_ET_CHECKPOINT:
    case ECH_N_ET_TYPES: break;
    }
    return ECH_OP_MARK;
}

typedef struct {
    EchEt *et;
    EchImport *import;
    Node *nodes;
    Storage *storages;
    const uint32_t *deps;
    EchId hbm, host;
    GHashTable *queues;    /* kind and thread -> id + 1 */
    GHashTable *met;       /* group -> how often */
    uint64_t n_unknown;    /* collectives of no type that is known */
    bool any_device, tree; /* tree: of PyTorch's operators */
    int64_t base_us;       /* of the first that tells when it begins; -1: none does */
} Maker;

/* The rank that a message is sent to, or comes from, + 1; 0: it is none, or does not say. */
static uint32_t peer_of(const EchEtNode *node)
{
    uint32_t peer = node->type == ECH_ET_COMM_SEND ? node->comm_dst : node->type == ECH_ET_COMM_RECV ? node->comm_src : 0;
    return MIN(peer, (uint32_t)MAX_PEERS);
}

static EchId queue_of(Maker *maker, EchQueueKind kind, const Node *node)
{
    bool on_device = maker->any_device && node->node.place == ECH_ET_DEVICE;
    bool threads = on_device || kind == ECH_QUEUE_HOST;
    /* Messages wait for one peer each: those with others pass by. */
    uint32_t peer = kind != ECH_QUEUE_COLLECTIVE || threads ? 0 : peer_of(&node->node);
    bool sends = node->node.type == ECH_ET_COMM_SEND;
    uint64_t key = (uint64_t)kind << 56 | (threads ? (uint64_t)node->node.thread & 0xffffffffffff : peer ? (uint64_t)sends << 32 | peer : 0);
    gpointer found = g_hash_table_lookup(maker->queues, GSIZE_TO_POINTER(key));
    if (found)
        return GPOINTER_TO_UINT(found) - 1;
    static const char *const names[] = {"core", "dma", "thread", "network"};
    g_autofree char *name = threads ? g_strdup_printf("%s %" G_GINT64_FORMAT, kind == ECH_QUEUE_HOST ? "thread" : "stream", node->node.thread)
                            : peer  ? g_strdup_printf("%s %u", sends ? "send to" : "receive from", peer - 1)
                                    : g_strdup(names[kind]);
    EchId queue = ech_trace_builder_queue(maker->et->builder, name, kind, 0);
    g_hash_table_insert(maker->queues, GSIZE_TO_POINTER(key), GUINT_TO_POINTER(queue + 1));
    return queue;
}

static const Access *find_access(const Maker *maker, const Node *node, bool written, EchId memory)
{
    for (uint32_t a = node->first_access; a < node->first_access + node->n_accesses; a++) {
        const Access *access = &g_array_index(maker->et->accesses, Access, a);
        if (access->written == written && (maker->storages[access->storage].host ? maker->host : maker->hbm) == memory)
            return access;
    }
    return NULL;
}

static EchBytes largest_access(const Maker *maker, const Node *node)
{
    EchBytes bytes = 0;
    for (uint32_t a = node->first_access; a < node->first_access + node->n_accesses; a++)
        bytes = MAX(bytes, g_array_index(maker->et->accesses, Access, a).bytes);
    return bytes;
}

/** Memories of a copy: stated by the type, or by CUPTI's name ("Memcpy HtoD (Pageable -> Device)"). */
static void copy_memories(const Maker *maker, const Node *node, EchOp *op)
{
    const char *name = node_name(maker->et, node);
    bool load = node->node.type == ECH_ET_MEM_LOAD, store = node->node.type == ECH_ET_MEM_STORE;
    op->memory_from = load || strstr(name, "HtoD") || strstr(name, "HtoH") ? maker->host : maker->hbm;
    op->memory_to = store || strstr(name, "DtoH") || strstr(name, "HtoH") ? maker->host : maker->hbm;
    EchBytes known = node->node.tensor_bytes;
    op->bytes = known ? known : largest_access(maker, node);
    op->bytes_origin = known ? ECH_KNOWN : op->bytes ? ECH_INFERRED : ECH_ABSENT;
}

/* Whom a collective or a message meets: of one group, or of one sender, receiver and tag, the first of each, then the second. What is sent goes ahead of who
 * receives it. ECH_NONE: that is not told. */
static EchId meeting_of(Maker *maker, const EchEtNode *node)
{
    bool message = node->type != ECH_ET_COMM_COLL, sends = node->type == ECH_ET_COMM_SEND;
    uint64_t ends[3] = {node->comm_src ? node->comm_src : maker->et->rank, node->comm_dst ? node->comm_dst : maker->et->rank, (uint64_t)node->comm_tag};
    if (message && (!peer_of(node) || !ends[0] || !ends[1]))
        return ECH_NONE;
    EchMeeting meeting = {.group = message ? ech_fnv(ECH_FNV, ends, sizeof ends) : node->comm_group, .sends = sends, .buffer = sends ? UINT64_MAX : 0};
    uint64_t *times = g_hash_table_lookup(maker->met, &meeting.group);
    if (!times) {
        times = g_new0(uint64_t, 1);
        g_hash_table_insert(maker->met, g_memdup2(&meeting.group, sizeof meeting.group), times);
    }
    meeting.times = (*times)++;
    g_autoptr(GString) text = g_string_new(NULL);
    ech_meets_print(text, meeting);
    return ech_trace_builder_string(maker->et->builder, text->str, (gssize)text->len);
}

static EchOp node_op(Maker *maker, const Node *node)
{
    EchOp op = ech_op_init((EchOpKind)node->becomes);
    EchQueueKind kind = ECH_QUEUE_COMPUTE;
    op.name = node->node.name;
    switch ((EchOpKind)node->becomes) {
    case ECH_OP_COPY:
        copy_memories(maker, node, &op);
        kind = ECH_QUEUE_COPY;
        break;
    case ECH_OP_COLLECTIVE:
        op.collective = (uint8_t)collective_of(&node->node, node_name(maker->et, node));
        maker->n_unknown += op.collective == UNKNOWN_COLLECTIVE;
        op.bytes = node->node.has_comm_bytes ? node->node.comm_bytes : largest_access(maker, node);
        op.bytes_origin = node->node.has_comm_bytes ? ECH_KNOWN : op.bytes ? ECH_INFERRED : ECH_ABSENT;
        op.memory_from = node->node.type == ECH_ET_COMM_COLL ? 0 : 2;
        op.launch = meeting_of(maker, &node->node);
        kind = ECH_QUEUE_COLLECTIVE;
        break;
    case ECH_OP_WAIT:
        op.launch = meeting_of(maker, &node->node);
        kind = ECH_QUEUE_COLLECTIVE;
        break;
    case ECH_OP_MARK: kind = node->node.place == ECH_ET_DEVICE ? ECH_QUEUE_COMPUTE : ECH_QUEUE_HOST; break;
    case ECH_OP_KERNEL:
    case ECH_OP_ALLOC:
    case ECH_OP_FREE:
    case ECH_OP_LOOP:
    case ECH_OP_SIGNAL:
    case ECH_N_OP_KINDS: break;
    }
    op.queue = queue_of(maker, kind, node);
    if (node->node.start_us >= 0 && node->node.start_us - maker->base_us <= MAX_US)
        op.recorded.start = (node->node.start_us - maker->base_us) * ECH_PS_PER_US;
    if (node->node.duration_us >= 0)
        op.recorded.duration = node->node.duration_us * ECH_PS_PER_US;
    return op;
}

static void add_uses(Maker *maker, const Node *node, const EchOp *op)
{
    EchTraceBuilder *builder = maker->et->builder;
    if (op->kind == ECH_OP_COPY) {
        const Access *from = find_access(maker, node, false, op->memory_from), *to = find_access(maker, node, true, op->memory_to);
        if (from && to && maker->storages[from->storage].buffer != ECH_NONE && maker->storages[to->storage].buffer != ECH_NONE) {
            ech_trace_builder_use(builder, maker->storages[from->storage].buffer, ECH_READ, op->bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
            ech_trace_builder_use(builder, maker->storages[to->storage].buffer, ECH_WRITE, op->bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
        }
        return;
    }
    for (uint32_t a = node->first_access; a < node->first_access + node->n_accesses; a++) {
        const Access *access = &g_array_index(maker->et->accesses, Access, a);
        ech_trace_builder_use(builder, maker->storages[access->storage].buffer, access->written ? ECH_WRITE : ECH_READ, access->bytes, ECH_PATTERN_STREAM,
                              maker->any_device ? ECH_INFERRED : ECH_KNOWN);
    }
    if (op->kind == ECH_OP_KERNEL && node->node.num_ops > 0) {
        bool known = node->node.work_dtype != ECH_DTYPE_NONE;
        ech_trace_builder_work(builder, known ? (EchWorkUnit)node->node.work_unit : ECH_WORK_MATRIX, known ? (EchDtype)node->node.work_dtype : ECH_DTYPE_BF16,
                               node->node.num_ops, known ? ECH_INFERRED : ECH_ASSUMED);
    }
}

/* In a tree of operators those work that call none that does: mm, although it asks resolve_conj for a view first. */
static void find_leaves(Maker *maker, const uint32_t *order, guint n)
{
    for (guint i = 0; i < n; i++)
        maker->nodes[i].has_children = false;
    for (guint position = n; position-- > 0;) {
        const Node *node = &maker->nodes[order[position]];
        uint32_t parent = node->n_deps ? maker->deps[node->first_dep] : ECH_NONE;
        bool works = node->n_accesses > 0 && !moves_nothing(node_name(maker->et, node));
        if (parent != ECH_NONE && (works || node->has_children))
            maker->nodes[parent].has_children = true;
    }
}

enum { MAX_CALLERS = 256 };

/* The node runs inside @caller, or is it. */
static bool runs_in(const Maker *maker, uint32_t node, uint32_t caller)
{
    for (unsigned i = 0; i < MAX_CALLERS && node != ECH_NONE; i++) {
        if (node == caller)
            return true;
        const Node *at = &maker->nodes[node];
        uint32_t parent = at->n_deps ? maker->deps[at->first_dep] : ECH_NONE;
        node = parent == node ? ECH_NONE : parent;
    }
    return false;
}

/* PyTorch's ids of storages are those of objects in memory, which come again when one has been freed: an operator that returns a storage it was not given, and
 * that no operator in which it runs has made, has made a new one. Each gets a Storage of its own, as large as what is named of it. */
static void split_lives(Maker *maker, const uint32_t *order, guint n)
{
    EchEt *et = maker->et;
    guint n_own = et->storages->len;
    g_autofree uint32_t *current = g_new(uint32_t, (size_t)n_own + 1), *given = g_new0(uint32_t, (size_t)n_own + 1);
    g_autoptr(GArray) made_by = g_array_new(FALSE, FALSE, sizeof(uint32_t)); /* by storage: a node, ECH_NONE for none */
    g_autoptr(GArray) named = g_array_new(FALSE, FALSE, sizeof(bool));
    const uint32_t nobody = ECH_NONE;
    const bool yes = true, no = false;
    for (uint32_t s = 0; s < n_own; s++) {
        current[s] = s;
        g_array_index(et->storages, Storage, s).bytes = 0;
        g_array_append_val(made_by, nobody);
        g_array_append_val(named, no);
    }
    for (guint position = 0; position < n; position++) {
        const Node *node = &maker->nodes[order[position]];
        for (uint32_t a = node->first_access; a < node->first_access + node->n_accesses; a++) {
            const Access *access = &g_array_index(et->accesses, Access, a);
            if (!access->written)
                given[access->storage] = position + 1;
        }
        for (uint32_t a = node->first_access; a < node->first_access + node->n_accesses; a++) {
            Access *access = &g_array_index(et->accesses, Access, a);
            uint32_t own = access->storage;
            bool makes = access->written && given[own] != position + 1;
            if (makes && g_array_index(named, bool, current[own]) && !runs_in(maker, order[position], g_array_index(made_by, uint32_t, current[own]))) {
                Storage *before = &g_array_index(et->storages, Storage, current[own]);
                Storage storage = {
                    .key = before->key, .host = before->host, .device = before->device, .buffer = ECH_NONE, .first = UINT32_MAX, .touched = UINT32_MAX};
                before->replaced = true;
                current[own] = et->storages->len;
                g_array_append_val(et->storages, storage);
                g_array_append_val(made_by, order[position]);
                g_array_append_val(named, yes);
            } else if (makes && !g_array_index(named, bool, current[own])) {
                g_array_index(made_by, uint32_t, current[own]) = order[position];
            }
            g_array_index(named, bool, current[own]) = true;
            Storage *storage = &g_array_index(et->storages, Storage, current[own]);
            storage->bytes = MAX(storage->bytes, access->end);
            access->storage = current[own];
        }
    }
    maker->storages = (Storage *)(void *)et->storages->data;
}

/** First and last node of every storage that a working node touches. An operator that returns a storage it was not given has made it, whoever of those that
 * it calls names it first (addmm's copy of the bias is into a result that only addmm returns). */
static void find_lives(Maker *maker, const uint32_t *order, guint n)
{
    for (guint position = 0; position < n; position++) {
        const Node *node = &maker->nodes[order[position]];
        for (uint32_t a = node->first_access; a < node->first_access + node->n_accesses; a++) {
            const Access *access = &g_array_index(maker->et->accesses, Access, a);
            Storage *storage = &maker->storages[access->storage];
            storage->named = position;
            if (storage->touched == UINT32_MAX) {
                storage->touched = position;
                storage->made = access->written;
            } else if (storage->touched == position && !access->written) {
                storage->made = false;
            }
        }
        if (node->becomes == ECH_OP_MARK)
            continue;
        for (uint32_t a = node->first_access; a < node->first_access + node->n_accesses; a++) {
            const Access *access = &g_array_index(maker->et->accesses, Access, a);
            Storage *storage = &maker->storages[access->storage];
            if (storage->first == UINT32_MAX) {
                storage->first = position;
                storage->written_first = storage->made || access->written;
            } else if (storage->first == position && !access->written) {
                storage->written_first = storage->made;
            }
            storage->last = position;
        }
    }
}

static void make_buffers(Maker *maker, const uint32_t *order)
{
    for (guint s = 0; s < maker->et->storages->len; s++) {
        Storage *storage = &maker->storages[s];
        if (storage->first == UINT32_MAX)
            continue;
        /* Who made it says more than its number; callers come first. */
        bool known = maker->tree && storage->made && storage->written_first;
        g_autofree char *name = known ? g_strdup(node_name(maker->et, &maker->nodes[order[storage->touched]]))
                                      : g_strdup_printf("%s %" G_GUINT64_FORMAT, storage->key >> 11 & 1 ? "tensor" : "storage", storage->key >> 12);
        EchBuffer buffer = ech_buffer_init();
        buffer.name = ech_trace_builder_string(maker->et->builder, name, -1);
        buffer.memory = storage->host ? maker->host : maker->hbm;
        buffer.bytes = storage->bytes;
        buffer.resident = !storage->written_first;
        storage->buffer = ech_trace_builder_buffer(maker->et->builder, buffer);
    }
}

static void add_life_op(Maker *maker, EchOpKind kind, const Storage *storage, EchId queue)
{
    EchOp op = ech_op_init(kind);
    op.target = storage->buffer;
    op.bytes = storage->bytes;
    op.bytes_origin = ECH_INFERRED;
    op.queue = queue;
    ech_trace_builder_op(maker->et->builder, op);
    ech_diag_note(maker->import->diag, kind == ECH_OP_ALLOC ? "allocations_inferred_from_first_write" : "frees_inferred_from_last_use", 1);
}

/** Lists of storages by a position: head[position] and next[storage], ECH_NONE at the end. */
typedef struct {
    uint32_t *head, *next;
} Lists;

static Lists lists_new(guint n_positions, guint n)
{
    Lists lists = {g_new(uint32_t, (size_t)n_positions + 1), g_new(uint32_t, (size_t)n + 1)};
    memset(lists.head, 0xff, ((size_t)n_positions + 1) * sizeof *lists.head);
    return lists;
}

static void lists_add(Lists *lists, uint32_t position, uint32_t storage)
{
    lists->next[storage] = lists->head[position];
    lists->head[position] = storage;
}

static void make_ops(Maker *maker, const uint32_t *order, guint n)
{
    EchEt *et = maker->et;
    guint n_storages = et->storages->len;
    Lists begins = lists_new(n, n_storages), ends = lists_new(n, n_storages);
    uint32_t last_working = 0;
    for (guint position = 0; position < n; position++) {
        if (maker->nodes[order[position]].becomes != ECH_OP_MARK)
            last_working = position;
    }
    for (guint s = n_storages; s-- > 0;) { /* backwards, so that lists are in order */
        const Storage *storage = &maker->storages[s];
        if (storage->first == UINT32_MAX || (!storage->written_first && !storage->replaced))
            continue;
        if (storage->written_first)
            lists_add(&begins, storage->first, s);
        /* What is written and never named again may be a result: it stays. In a tree of PyTorch's operators, which names everything that is used, only what the
         * last one made. */
        bool result = storage->last == storage->first && storage->named <= storage->first && (!maker->tree || storage->first == last_working);
        if (storage->replaced || !result || (storage->key & 0x7ff) == 0x7ff)
            lists_add(&ends, storage->last, s);
    }
    for (guint position = 0; position < n; position++) {
        Node *node = &maker->nodes[order[position]];
        EchOp op = node_op(maker, node);
        for (uint32_t s = begins.head[position]; s != ECH_NONE; s = begins.next[s])
            add_life_op(maker, ECH_OP_ALLOC, &maker->storages[s], op.queue);
        node->op = ech_trace_builder_op(et->builder, op);
        if (op.kind != ECH_OP_MARK)
            add_uses(maker, node, &op);
        for (uint32_t d = node->first_dep; d < node->first_dep + node->n_deps; d++) {
            if (maker->deps[d] == ECH_NONE)
                continue;
            if (maker->nodes[maker->deps[d]].op != ECH_NONE)
                ech_trace_builder_dep(et->builder, maker->nodes[maker->deps[d]].op, 0);
            else
                ech_diag_note(maker->import->diag, "control_dependencies_against_data", 1);
        }
        for (uint32_t s = ends.head[position]; s != ECH_NONE; s = ends.next[s])
            add_life_op(maker, ECH_OP_FREE, &maker->storages[s], op.queue);
    }
    g_free(begins.head);
    g_free(begins.next);
    g_free(ends.head);
    g_free(ends.next);
}

/** A generator states the bytes a node moves without naming tensors: they get a storage that lives as long as the node. */
static void add_stated_tensors(EchEt *et)
{
    g_autoptr(GArray) all = g_array_sized_new(FALSE, TRUE, sizeof(Access), et->accesses->len);
    for (guint i = 0; i < et->nodes->len; i++) {
        Node *node = &g_array_index(et->nodes, Node, i);
        guint first = all->len;
        if (node->n_accesses)
            g_array_append_vals(all, &g_array_index(et->accesses, Access, node->first_access), node->n_accesses);
        node->first_access = first;
        if (node->n_accesses || node->node.type != ECH_ET_COMP || node->node.tensor_bytes == 0 || node->node.tensor_bytes > UINT64_C(1) << 50)
            continue;
        Storage storage = {
            .key = (node->node.id << 12) | 0xfff, .bytes = node->node.tensor_bytes, .buffer = ECH_NONE, .first = UINT32_MAX, .touched = UINT32_MAX};
        Access access = {et->storages->len, true, node->node.tensor_bytes, node->node.tensor_bytes};
        g_array_append_val(et->storages, storage);
        g_array_append_val(all, access);
        node->n_accesses = 1;
    }
    g_array_unref(et->accesses);
    et->accesses = g_steal_pointer(&all);
}

/** When nodes begin. Protobuf does not write a 0, and writers put 0 where they know nothing: it is a time on a clock that begins with the trace, of the one
 * node of a thread that took time. */
static void set_starts(Maker *maker, guint n)
{
    const int64_t day_us = INT64_C(86400000000);
    g_autoptr(GHashTable) at_zero = g_hash_table_new(ech_hash_int64, g_int64_equal);
    bool one_each = true;
    int64_t first = -1;
    for (guint i = 0; i < n; i++) {
        const EchEtNode *node = &maker->nodes[i].node;
        if (node->start_us > 0)
            first = first < 0 ? node->start_us : MIN(first, node->start_us);
        else if (node->duration_us > 0)
            one_each = g_hash_table_add(at_zero, (gpointer)(uintptr_t)&node->thread) && one_each;
    }
    bool zero = !maker->tree && one_each && g_hash_table_size(at_zero) && first >= 0 && first < day_us;
    for (guint i = 0; i < n; i++) {
        EchEtNode *node = &maker->nodes[i].node;
        if (node->start_us <= 0)
            node->start_us = zero && node->duration_us > 0 ? 0 : -1;
    }
    maker->base_us = zero ? 0 : first;
}

EchTrace *ech_et_finish(EchEt *et, bool by_id, EchImport *import, GError **error)
{
    add_stated_tensors(et);
    Maker maker = {
        .et = et, .import = import, .nodes = (Node *)(void *)et->nodes->data, .storages = (Storage *)(void *)et->storages->data, .tree = by_id, .base_us = -1};
    guint n = et->nodes->len;
    maker.hbm = ech_trace_builder_memory(et->builder, "hbm");
    maker.host = ech_trace_builder_memory(et->builder, "host");
    g_autofree uint32_t *deps = resolve(et, import->diag);
    g_autofree uint32_t *order = sort_nodes(et, deps, by_id, import->diag);
    maker.deps = deps;
    bool on_host = false, kernels = false;
    for (guint i = 0; i < n; i++) {
        const EchEtNode *node = &maker.nodes[i].node;
        maker.any_device = maker.any_device || (node->place == ECH_ET_DEVICE && (node->type == ECH_ET_COMP || node->type == ECH_ET_COMM_COLL));
        on_host = on_host || (node->place == ECH_ET_HOST && node->type == ECH_ET_COMP);
        kernels = kernels || (node->place == ECH_ET_DEVICE && node->type == ECH_ET_COMP);
        ech_diag_note(import->records, type_names[node->type], 1);
    }
    set_starts(&maker, n);
    if (by_id)
        find_leaves(&maker, order, n);
    for (guint i = 0; i < n; i++)
        maker.nodes[i].becomes = (uint8_t)classify(et, &maker.nodes[i], maker.any_device, by_id);
    if (et->bad_tensors)
        ech_diag_dropped(import->diag, "tensors_of_impossible_size", et->bad_tensors, NULL);
    if (kernels && on_host)
        ech_diag_remark(import->diag, "a kernel's tensors are those of the operator that launched it; operators on CPU threads are marks");
    maker.queues = g_hash_table_new(NULL, NULL);
    maker.met = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    if (by_id)
        split_lives(&maker, order, n);
    find_lives(&maker, order, n);
    make_buffers(&maker, order);
    make_ops(&maker, order, n);
    g_hash_table_unref(maker.queues);
    g_hash_table_unref(maker.met);
    if (maker.n_unknown > 0)
        ech_diag_remark(import->diag, "%" G_GUINT64_FORMAT " collectives have no type, nor a name that tells it: taken as bytes that are sent once",
                        maker.n_unknown);
    return ech_trace_builder_finish(et->builder, error);
}
