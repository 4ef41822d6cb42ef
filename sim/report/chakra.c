/* MLCommons Chakra execution traces; field and enumeration numbers from schema/protobuf/et_def.proto. */
#include "sim/report/wire_out.h"
#include "sim/report/writers.h"

#include "sim/base/error.h"
#include "sim/trace/meets.h"

/* Loops in loops; and bytes of the file, which a GByteArray must hold. */
enum { MAX_DEPTH = 256, MAX_BYTES = 2000000000 };
enum { TYPE_METADATA = 1, TYPE_LOAD = 2, TYPE_STORE = 3, TYPE_COMP = 4, TYPE_SEND = 5, TYPE_RECV = 6, TYPE_COLL = 7 };
enum {
    NODE_ID = 1,
    NODE_NAME = 2,
    NODE_TYPE = 3,
    NODE_DATA_DEPS = 5,
    NODE_START = 6,
    NODE_DURATION = 7,
    NODE_INPUTS = 8,
    NODE_OUTPUTS = 9,
    NODE_ATTRIBUTE = 10
};
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_I64 = 9, ATTRIBUTE_U32 = 11, ATTRIBUTE_U64 = 13, ATTRIBUTE_BOOL = 27, ATTRIBUTE_TEXT = 29 };

typedef struct {
    const EchTrace *trace;
    GByteArray *out;
    EchDiag *diag;
    size_t n_nodes, max_nodes, n_steps;
    unsigned depth;
    uint64_t *last;       /* by queue: id of its last node, 0 none; ids begin with 1 */
    uint64_t **instances; /* by op: ids of its instances in the iterations of its loop so far */
    uint32_t *n_instances, *room;
    GArray *deps;        /* uint64_t, of the node at hand */
    GHashTable *signals; /* event -> the op that signals it, + 1 */
} Writer;

static void add_number(GByteArray *node, const char *name, uint32_t field, uint64_t value)
{
    g_autoptr(GByteArray) attribute = g_byte_array_new();
    ech_wire_text(attribute, ATTRIBUTE_NAME, name);
    ech_wire_u64(attribute, field, value);
    ech_wire_message(node, NODE_ATTRIBUTE, attribute);
}

static void add_text(GByteArray *node, uint32_t field, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    ech_wire_text(node, field, valid);
}

/* Reads or writes of an op as [tensor, storage, offset, elements, element bytes, device]; storages are the outermost buffers. */
static void add_tensors(const Writer *writer, GByteArray *node, uint32_t field, const EchOp *op, EchAccess access)
{
    g_autoptr(GString) values = g_string_new("["), shapes = g_string_new("["), types = g_string_new("[");
    const EchBuffer *buffers = ech_trace_buffers(writer->trace);
    size_t n = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(writer->trace)[u];
        /* What is known to move, but not from where, has no tensor. */
        EchBytes bytes = MIN(use->bytes, buffers[use->buffer].bytes);
        if (use->access != access || bytes == 0)
            continue;
        uint64_t offset;
        EchId root = ech_buffer_root(buffers, use->buffer, &offset);
        unsigned bits = ech_dtype_bits((EchDtype)buffers[use->buffer].dtype);
        uint64_t element = bits >= 8 && bits % 8 == 0 && bytes % (bits / 8) == 0 && offset % (bits / 8) == 0 ? bits / 8 : 1;
        const char *comma = n++ ? ", " : "";
        g_string_append_printf(values, "%s[%u, %u, %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT ", '%s']", comma, use->buffer + 1,
                               root + 1, offset / element, bytes / element, element,
                               ech_trace_is_host(writer->trace, buffers[use->buffer].memory) ? "cpu" : "cuda:0");
        g_string_append_printf(shapes, "%s[%" G_GUINT64_FORMAT "]", comma, bytes / element);
        const char *dtype = ech_dtype_name((EchDtype)buffers[use->buffer].dtype);
        g_string_append_printf(types, "%s'Tensor(%s)'", comma, element > 1 && dtype && *dtype ? dtype : "byte");
    }
    if (n == 0)
        return;
    GString *const texts[] = {values, shapes, types};
    g_autoptr(GByteArray) io = g_byte_array_new();
    for (uint32_t i = 0; i < 3; i++) {
        g_string_append_c(texts[i], ']');
        ech_wire_text(io, i + 1, texts[i]->str);
    }
    ech_wire_message(node, field, io);
}

/* CollectiveCommType, or -1 where the schema has none. */
static int comm_type(EchCollective collective)
{
    switch (collective) {
    case ECH_COLLECTIVE_ALL_REDUCE: return 0;
    case ECH_COLLECTIVE_ALL_GATHER: return 2;
    case ECH_COLLECTIVE_BROADCAST: return 5;
    case ECH_COLLECTIVE_ALL_TO_ALL: return 6;
    case ECH_COLLECTIVE_REDUCE_SCATTER: return 7;
    case ECH_COLLECTIVE_NONE:
    case ECH_COLLECTIVE_PERMUTE:
    case ECH_COLLECTIVE_SEND:
    case ECH_COLLECTIVE_RECV:
    case ECH_N_COLLECTIVES: break;
    }
    return -1;
}

static unsigned type_of(const Writer *writer, const EchOp *op)
{
    switch ((EchOpKind)op->kind) {
    case ECH_OP_KERNEL: return TYPE_COMP;
    case ECH_OP_COPY:
        if (ech_trace_is_host(writer->trace, op->memory_from) == ech_trace_is_host(writer->trace, op->memory_to))
            return TYPE_COMP;
        return ech_trace_is_host(writer->trace, op->memory_from) ? TYPE_LOAD : TYPE_STORE;
    case ECH_OP_COLLECTIVE:
        if (op->collective == ECH_COLLECTIVE_RECV)
            return TYPE_RECV;
        return op->collective == ECH_COLLECTIVE_SEND || op->collective == ECH_COLLECTIVE_PERMUTE ? TYPE_SEND : TYPE_COLL;
    case ECH_OP_WAIT:
    case ECH_OP_SIGNAL:
    case ECH_OP_LOOP:
    case ECH_OP_MARK:
    case ECH_OP_ALLOC:
    case ECH_OP_FREE:
    case ECH_N_OP_KINDS: break;
    }
    return TYPE_METADATA;
}

static void add_dep(Writer *writer, uint64_t id)
{
    for (guint i = 0; i < writer->deps->len && i < 64; i++)
        if (g_array_index(writer->deps, uint64_t, i) == id)
            return;
    if (id)
        g_array_append_val(writer->deps, id);
}

/* On the instance of @op that is @back before its last, where there is one. */
static void add_instance_dep(Writer *writer, EchId op, uint32_t back)
{
    uint32_t n = writer->n_instances[op];
    if (back < n)
        add_dep(writer, writer->instances[op][n - 1 - back]);
}

static void find_deps(Writer *writer, const EchOp *op)
{
    g_array_set_size(writer->deps, 0);
    add_dep(writer, writer->last[op->queue]);
    guint signal = op->kind == ECH_OP_WAIT ? GPOINTER_TO_UINT(g_hash_table_lookup(writer->signals, GUINT_TO_POINTER(op->target))) : 0;
    if (signal > 0)
        add_instance_dep(writer, signal - 1, 0);
    for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++) {
        const EchDep *dep = &ech_trace_deps(writer->trace)[d];
        /* Of the same iteration: the last instance; of one before: further back, where there was one. In its own iteration the op at hand has no instance yet.
         */
        uint32_t back = dep->distance;
        if (back > 0 && dep->op >= (EchId)(op - ech_trace_ops(writer->trace)))
            back--;
        add_instance_dep(writer, dep->op, back);
    }
}

static uint64_t add_node(Writer *writer, EchId id)
{
    const EchOp *op = &ech_trace_ops(writer->trace)[id];
    unsigned type = type_of(writer, op);
    const EchQueue *queue = &ech_trace_queues(writer->trace)[op->queue];
    uint64_t number = ++writer->n_nodes;
    g_autoptr(GByteArray) node = g_byte_array_new();
    const char *name = ech_trace_string(writer->trace, op->name);
    ech_wire_u64(node, NODE_ID, number);
    add_text(node, NODE_NAME, *name ? name : ech_op_kind_name((EchOpKind)op->kind));
    ech_wire_u64(node, NODE_TYPE, type);
    if (writer->deps->len > 0) {
        g_autoptr(GByteArray) packed = g_byte_array_new();
        for (guint i = 0; i < writer->deps->len; i++)
            ech_wire_varint(packed, g_array_index(writer->deps, uint64_t, i));
        ech_wire_message(node, NODE_DATA_DEPS, packed);
    }
    if (op->recorded.start != ECH_TIME_NONE && op->recorded.start >= 0)
        ech_wire_u64(node, NODE_START, (uint64_t)(op->recorded.start / ECH_PS_PER_US));
    if (op->recorded.duration != ECH_TIME_NONE && op->recorded.duration >= 0)
        ech_wire_u64(node, NODE_DURATION, ((uint64_t)op->recorded.duration + ECH_PS_PER_US / 2) / ECH_PS_PER_US);
    add_tensors(writer, node, NODE_INPUTS, op, ECH_READ);
    add_tensors(writer, node, NODE_OUTPUTS, op, ECH_WRITE);
    add_number(node, "is_cpu_op", ATTRIBUTE_BOOL, queue->kind == ECH_QUEUE_HOST);
    add_number(node, "tid", ATTRIBUTE_U32, op->queue);
    if (type == TYPE_LOAD || type == TYPE_STORE)
        add_number(node, "tensor_size", ATTRIBUTE_U64, op->bytes);
    if (type == TYPE_SEND || type == TYPE_RECV || type == TYPE_COLL) {
        add_number(node, "comm_size", ATTRIBUTE_I64, op->bytes);
        int kind = comm_type((EchCollective)op->collective);
        if (kind >= 0)
            add_number(node, "comm_type", ATTRIBUTE_I64, (uint64_t)kind);
        if (op->collective == ECH_COLLECTIVE_PERMUTE)
            ech_diag_note(writer->diag, "permutes_written_as_sends", 1);
        if (op->launch != ECH_NONE && *ech_meets_of(ech_trace_string(writer->trace, op->launch)))
            ech_diag_note(writer->diag, "meetings_of_ranks_not_written", 1);
    }
    if (type == TYPE_COMP && op->kind == ECH_OP_KERNEL) {
        uint64_t work = 0, bytes = 0;
        for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++)
            work = ech_bytes_add(work, ech_trace_work(writer->trace)[w].count);
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
            bytes = ech_bytes_add(bytes, ech_trace_uses(writer->trace)[u].bytes);
        if (work > 0)
            add_number(node, "num_ops", ATTRIBUTE_I64, MIN(work, (uint64_t)INT64_MAX));
        if (bytes > 0)
            add_number(node, "tensor_size", ATTRIBUTE_U64, bytes);
    }
    ech_wire_varint(writer->out, node->len);
    g_byte_array_append(writer->out, node->data, node->len);
    return number;
}

static void note_instance(Writer *writer, EchId op, uint64_t id)
{
    if (writer->n_instances[op] == writer->room[op]) {
        writer->room[op] = MAX(4, writer->room[op] * 2);
        writer->instances[op] = g_renew(uint64_t, writer->instances[op], writer->room[op]);
    }
    writer->instances[op][writer->n_instances[op]++] = id;
}

static bool add_range(Writer *writer, EchId first, EchId end, GError **error);

/* A loop: its body as often as it runs; who depends on it waits for a node after the last iteration. */
static bool add_loop(Writer *writer, EchId at, GError **error)
{
    const EchOp *op = &ech_trace_ops(writer->trace)[at];
    EchId body = at + 1, end = body + op->target;
    if (++writer->depth > MAX_DEPTH) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "loops nest deeper than %d", MAX_DEPTH);
        return false;
    }
    size_t n_queues = ech_trace_n_queues(writer->trace);
    find_deps(writer, op);
    writer->last[op->queue] = add_node(writer, at); /* the body's queues begin after what the loop waits for */
    for (size_t q = 0; q < n_queues; q++)
        if (writer->last[q] == 0)
            writer->last[q] = writer->last[op->queue];
    uint64_t begin = writer->last[op->queue];
    for (EchId i = body; i < end; i++) {
        writer->n_instances[i] = 0;
        writer->last[ech_trace_ops(writer->trace)[i].queue] = begin;
    }
    for (uint64_t trip = 0; body < end && trip < op->bytes; trip++)
        if (!add_range(writer, body, end, error))
            return false;
    writer->depth--;
    g_array_set_size(writer->deps, 0);
    for (EchId i = body; i < end; i++)
        add_dep(writer, writer->last[ech_trace_ops(writer->trace)[i].queue]);
    add_dep(writer, begin);
    note_instance(writer, at, writer->last[op->queue] = add_node(writer, at));
    return true;
}

static bool add_range(Writer *writer, EchId first, EchId end, GError **error)
{
    for (EchId i = first; i < end; i++) {
        const EchOp *op = &ech_trace_ops(writer->trace)[i];
        if (writer->n_nodes >= writer->max_nodes || ++writer->n_steps > 4 * writer->max_nodes || writer->out->len > MAX_BYTES) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "the trace unrolls to more than %zu nodes, and the format has no loops", writer->max_nodes);
            return false;
        }
        if (op->kind == ECH_OP_LOOP) {
            if (!add_loop(writer, i, error))
                return false;
            i += op->target;
            continue;
        }
        find_deps(writer, op);
        if (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE || op->kind == ECH_OP_SIGNAL) {
            /* No node; who waits for it waits for what it would have waited for, which is at least the queue before it. */
            if (writer->last[op->queue])
                note_instance(writer, i, writer->last[op->queue]);
            if (op->kind == ECH_OP_SIGNAL)
                g_hash_table_insert(writer->signals, GUINT_TO_POINTER(op->target), GUINT_TO_POINTER(i + 1));
            continue;
        }
        uint64_t id = add_node(writer, i);
        writer->last[op->queue] = id;
        note_instance(writer, i, id);
    }
    return true;
}

GByteArray *ech_report_chakra(const EchTrace *trace, size_t max_nodes, EchDiag *diag, GError **error)
{
    size_t n = ech_trace_n_ops(trace);
    g_autofree uint64_t *last = g_new0(uint64_t, ech_trace_n_queues(trace) + 1);
    g_autofree uint64_t **instances = g_new0(uint64_t *, n + 1);
    g_autofree uint32_t *n_instances = g_new0(uint32_t, n + 1), *room = g_new0(uint32_t, n + 1);
    g_autoptr(GArray) deps = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autoptr(GHashTable) signals = g_hash_table_new(NULL, NULL);
    g_autoptr(GByteArray) out = g_byte_array_new(), meta = g_byte_array_new();
    Writer writer = {.trace = trace,
                     .out = out,
                     .diag = diag,
                     .max_nodes = max_nodes,
                     .last = last,
                     .instances = instances,
                     .n_instances = n_instances,
                     .room = room,
                     .deps = deps,
                     .signals = signals};
    ech_wire_text(meta, 1, "0.0.4");
    ech_wire_varint(out, meta->len);
    g_byte_array_append(out, meta->data, meta->len);
    bool ok = add_range(&writer, 0, (EchId)n, error);
    for (size_t i = 0; i < n; i++)
        g_free(instances[i]);
    if (!ok)
        return NULL;
    if (writer.n_nodes == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "nothing but allocations is in it, of which Chakra's nodes tell nothing");
        return NULL;
    }
    ech_diag_remark(diag, "Chakra's nodes have no allocations and count time in microseconds");
    return g_steal_pointer(&out);
}
