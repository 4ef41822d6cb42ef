/* Program -> trace: buffers with fixed offsets, kernels, copies on their directions' queues, collectives, loops.
 *
 * The core's queue runs in program order; a copy or a collective that the program starts waits for what the core did before it, and the
 * core waits for it where the program does. Loop bodies begin with a MARK on the core, so that nothing of an iteration starts before it. */
#include "sim/program/gpu_launch.h"
#include "sim/program/gpu_library.h"
#include "sim/program/lower.h"
#include "sim/program/price_kernels.h"
#include "sim/program/price_stationary.h"
#include "sim/program/private.h"
#include "sim/program/softmax.h"

#include "models/device/device.h"
#include "models/kernel/stalls.h"
#include "models/link/link.h"
#include "sim/base/hash.h"

#include <string.h>

/* Multiprocessors of a GPU that is not known: an H100's. They decide how XLA launches loops and short rows. */
enum { USUAL_SMS = 132 };

/* MAX_REPEATED: what computations that are called again may add, in instructions and arrays that these are given or make. MUCH, MUCH_PART: bytes, and part of
 * all arguments, from which it is worth a remark that devices hold them alike. */
enum { MAX_REMARKS_PER_KIND = 4, MAX_REPEATED = 1 << 22, MUCH = 1 << 20, MUCH_PART = 8 };

/* A collective that was started inside a fusion and not yet waited for. */
typedef struct {
    int64_t channel;
    EchId op;
} Pending;

/* Operations */

EchId ech_lower_stack(Lowerer *l, const EchInstruction *i)
{
    if (!i->source)
        return i->op_name ? ech_trace_builder_string(l->b, i->op_name, -1) : ECH_NONE;
    g_autofree char *text = g_strconcat(i->op_name ? i->op_name : "", "\n", i->source, NULL);
    return ech_trace_builder_string(l->b, text, -1);
}

static EchId add_op(Lowerer *l, EchOp op, const EchInstruction *i, EchId queue)
{
    op.queue = queue;
    op.name = ech_trace_builder_string(l->b, i->name, -1);
    EchId origin = ech_program_origin(l->p, (EchId)(i - l->p->instructions), 0);
    op.stack = ech_lower_stack(l, origin == ECH_NONE ? i : &l->p->instructions[origin]);
    EchId id = ech_trace_builder_op(l->b, op);
    if (queue == l->core)
        l->last_core = id;
    return id;
}

static void give_or_take(Lowerer *l, EchOpKind kind, EchId b)
{
    EchId buffer = l->places[b].id;
    EchOp op = ech_op_init(kind);
    op.target = buffer;
    op.bytes = ech_lower_buffer_bytes(l, buffer);
    op.bytes_origin = ECH_KNOWN;
    op.queue = l->core;
    op.name = ech_trace_builder_peek_buffer(l->b, buffer)->name;
    l->last_core = ech_trace_builder_op(l->b, op);
}

static bool overlap(const Lowerer *l, EchId a, EchId b)
{
    const Place *x = &l->places[a], *y = &l->places[b];
    return x->offset != ECH_OFFSET_NONE && y->offset != ECH_OFFSET_NONE && l->p->buffers[a].space == l->p->buffers[b].space &&
           x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/* What is needed from @instruction on. A buffer that ends there and whose bytes one of these takes is given back first: the instruction works in
 * place, and reads the old bytes where the new ones will be. */
static void allocate(Lowerer *l, EchId instruction)
{
    const GArray *born = l->born[instruction];
    GArray *dies = l->dies[instruction];
    bool joins = ech_program_joins_slices(&l->p->instructions[instruction]);
    for (guint d = 0; born && dies && l->repeats == 0 && d < dies->len; d++) {
        EchId old = g_array_index(dies, EchId, d), taker = ECH_NONE;
        bool own = false;
        for (guint k = 0; k < born->len; k++) {
            EchId b = g_array_index(born, EchId, k);
            own |= b == old;
            if (taker == ECH_NONE && (overlap(l, old, b) || (joins && l->p->buffers[old].space == l->p->buffers[b].space)))
                taker = b;
        }
        if (own || taker == ECH_NONE)
            continue;
        give_or_take(l, ECH_OP_FREE, old);
        l->handed[old] = taker;
    }
    for (guint k = 0; born && l->repeats == 0 && k < born->len; k++)
        give_or_take(l, ECH_OP_ALLOC, g_array_index(born, EchId, k));
}

static void release(Lowerer *l, EchId instruction)
{
    const GArray *list = l->dies[instruction];
    for (guint k = 0; list && l->repeats == 0 && k < list->len; k++) {
        EchId b = g_array_index(list, EchId, k);
        if (l->handed[b] == ECH_NONE)
            give_or_take(l, ECH_OP_FREE, b);
        l->handed[b] = ECH_NONE;
    }
}

static void use(Lowerer *l, EchId buffer, EchAccess access, EchBytes bytes, EchPattern pattern, EchOrigin origin)
{
    if (buffer != ECH_NONE && bytes > 0)
        ech_trace_builder_use(l->b, buffer, access, bytes, pattern, origin);
}

/* What a kernel of the program's own moves, by its code or by what its author says (pl.CostEstimate): blocks read again and again, or a few pages of a large
 * cache. Scales what its operands' sizes say: reads alone where it is more, all where it is less. */
typedef struct {
    EchBytes told, reads, writes; /* told 0: nothing to scale */
} Claim;

static Claim claim_of(const Lowerer *l, EchId id)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[id];
    Claim claim = {0};
    const EchKernelGrid *grid = ech_program_grid(p, id);
    if (grid)
        claim.told = ech_bytes_add(grid->read, grid->written);
    else if (!ech_program_is_own_kernel(i) || !ech_program_config_u64(i, "cost_estimate.bytes_accessed", &claim.told))
        return (Claim){0};
    for (uint32_t k = 0; k < i->n_operands; k++)
        claim.reads = ech_bytes_add(claim.reads, p->shapes[p->instructions[ech_program_operand(p, i, k)].shape].is_tuple ? 0 : l->operand_bytes[k]);
    for (uint32_t q = 0; q < p->shapes[i->shape].n_positions; q++)
        claim.writes = ech_bytes_add(claim.writes, p->shapes[ech_program_subshape(p, i->shape, q)].is_tuple ? 0 : ech_program_result_bytes(p, id, q));
    return claim;
}

static EchBytes scaled(EchBytes bytes, EchBytes part, EchBytes whole)
{
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)bytes * part;
    return whole == 0 ? bytes : product / whole > UINT64_MAX ? UINT64_MAX : (EchBytes)(product / whole);
}

static EchBytes claimed(const Claim *claim, EchBytes bytes, bool read)
{
    EchBytes all = ech_bytes_add(claim->reads, claim->writes);
    if (claim->told == 0 || all == 0)
        return bytes;
    if (claim->told <= all)
        return scaled(bytes, claim->told, all);
    return read ? scaled(bytes, claim->told - claim->writes, claim->reads) : bytes;
}

/* Whether result @position of @id lies where an operand does. */
static bool lies_in_operand(const Lowerer *l, EchId id, uint32_t position)
{
    const EchInstruction *i = &l->p->instructions[id];
    EchId buffer = ech_lower_buffer_at(l, id, position);
    bool found = false;
    for (uint32_t k = 0; k < i->n_operands; k++)
        found |= buffer != ECH_NONE && buffer == ech_lower_buffer_at(l, ech_program_operand(l->p, i, k), 0);
    return found;
}

/* Reads of every operand, writes of every leaf of the result. @starts: a fusion that starts a collective, whose results begin with the operand. */
static void add_uses(Lowerer *l, EchId id, bool starts)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[id];
    EchHlo opcode = (EchHlo)i->opcode;
    EchPattern reading = opcode == ECH_HLO_GATHER || opcode == ECH_HLO_SCATTER ? ECH_PATTERN_RANDOM
                         : opcode == ECH_HLO_TRANSPOSE                         ? ECH_PATTERN_STRIDED
                                                                               : ECH_PATTERN_STREAM;
    ech_program_all_operand_bytes(p, id, l->operand_bytes);
    const Claim claim = claim_of(l, id);
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId operand = ech_program_operand(p, i, k);
        const EchInstruction *o = &p->instructions[operand];
        const EchShape *shape = &p->shapes[o->shape];
        if (!shape->is_tuple) {
            EchBytes bytes = starts ? shape->bytes : claimed(&claim, l->operand_bytes[k], true);
            EchOrigin origin = bytes == shape->bytes ? ECH_KNOWN : ECH_INFERRED;
            use(l, ech_lower_buffer_at(l, operand, 0), ECH_READ, bytes, k == 0 ? reading : ECH_PATTERN_STREAM, origin);
            continue;
        }
        for (uint32_t q = 1; q < shape->n_positions; q++) {
            const EchShape *leaf = &p->shapes[ech_program_subshape(p, o->shape, q)];
            use(l, leaf->is_tuple ? ECH_NONE : ech_lower_buffer_at(l, operand, q), ECH_READ, leaf->bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        }
    }
    for (uint32_t q = 0; q < p->shapes[i->shape].n_positions; q++) {
        EchId value = ech_program_value(p, id, q);
        if (value != ECH_NONE && p->values[value].defined.instruction != id)
            continue; /* handed on: the start of a collective has its operand as a result, too */
        if (starts && q == 1 && lies_in_operand(l, id, q))
            continue;
        EchBytes bytes = claimed(&claim, ech_program_result_bytes(p, id, q), false);
        EchOrigin origin = bytes == p->shapes[ech_program_subshape(p, i->shape, q)].bytes ? ECH_KNOWN : ECH_INFERRED;
        use(l, ech_lower_buffer_at(l, id, q), ECH_WRITE, bytes, opcode == ECH_HLO_SCATTER ? ECH_PATTERN_RANDOM : ECH_PATTERN_STREAM, origin);
    }
}

static void add_work(Lowerer *l, const EchHloWork *work)
{
    if (work->matrix > 0)
        ech_trace_builder_work(l->b, ECH_WORK_MATRIX, (EchDtype)work->matrix_dtype, work->matrix, ECH_KNOWN);
    if (work->vector > 0)
        ech_trace_builder_work(l->b, ECH_WORK_VECTOR, (EchDtype)work->vector_dtype, work->vector, ECH_KNOWN);
    if (work->transcendental > 0)
        ech_trace_builder_work(l->b, ECH_WORK_TRANSCENDENTAL, ECH_DTYPE_F32, work->transcendental, ECH_KNOWN);
}

/* Memory that no plan has, from here on to the kernel's end; ECH_NONE: the device has no such memory. */
static EchId take_own(Lowerer *l, const EchInstruction *i, int32_t space, EchBytes bytes, const char *what)
{
    const char *memory = ech_lower_memory_name(l, space);
    if (!memory)
        return ECH_NONE;
    EchBuffer buffer = ech_buffer_init();
    g_autofree char *name = g_strdup_printf("%s %s", i->name, what);
    buffer.name = ech_trace_builder_string(l->b, name, -1);
    buffer.memory = ech_trace_builder_memory(l->b, memory);
    buffer.role = ECH_ROLE_TEMPORARY;
    buffer.bytes = bytes;
    EchId taken = ech_trace_builder_buffer(l->b, buffer);
    EchOp alloc = ech_op_init(ECH_OP_ALLOC);
    alloc.target = taken;
    alloc.bytes = bytes;
    alloc.bytes_origin = ECH_KNOWN;
    add_op(l, alloc, i, l->core);
    return taken;
}

/* Solvers and sorts that a TPU's compiler calls and does not compile: steps one after another, whose cycles it does not write down. */
static bool is_of_library(const EchInstruction *i)
{
    static const char *const targets[] = {"EighTpu",
                                          "QrDecompositionBlock",
                                          "Cholesky",
                                          "LuRealDecompositionBlock",
                                          "LuDecompositionBlock",
                                          "InvertDiagBlocksLowerTriangular",
                                          "InvertDiagBlocksUpperTriangular",
                                          "CompactWyHelper",
                                          "TopK",
                                          NULL};
    return i->opcode == ECH_HLO_CUSTOM_CALL && i->target && g_strv_contains(targets, i->target);
}

static void kernel(Lowerer *l, EchId id)
{
    const EchInstruction *i = &l->p->instructions[id];
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    uint64_t cycles;
    bool estimated = l->p->platform == ECH_PLATFORM_TPU && ech_program_estimated_cycles(i, &cycles);
    if (estimated && l->clock > 0) {
        op.estimate = ech_time_for(cycles, l->clock);
        op.estimate_origin = ECH_KNOWN;
    } else if (estimated) {
        ech_diag_note(l->diag, "estimates_without_a_clock", 1);
    }
    EchTime time;
    bool carried;
    if (l->stationary) {
        op.estimate = l->stationary->times[id];
        op.estimate_origin = op.estimate == ECH_TIME_NONE ? ECH_ABSENT : ECH_INFERRED;
    } else if (l->model && ech_program_kernel_time(l->p, id, l->model, l->options.price_by_model ? NULL : l->own_model,
                                                   op.estimate_origin == ECH_KNOWN ? op.estimate : ECH_TIME_NONE, l->memo, &time, &carried)) {
        op.estimate = time;
        op.estimate_origin = carried ? ECH_KNOWN : ECH_INFERRED;
    }
    EchGpuLaunch launch;
    if (l->sms > 0 && ech_program_gpu_launch(l->p, id, l->sms, &launch)) {
        g_autoptr(GString) text = g_string_new(NULL);
        ech_gpu_launch_print(&launch, text);
        op.launch = ech_trace_builder_string(l->b, text->str, (gssize)text->len);
    }
    EchKernelCost cost;
    if (l->stationary || (l->inside && ech_program_price_kernel(l->p, id, l->inside, false, l->memo, &cost))) {
        EchKernelInside inside = l->stationary ? l->stationary->insides[id] : ech_kernel_inside(&cost);
        op.launch = ech_inside_text(l->b, &inside);
    }
    /* A kernel of the user's own brings its window buffers, cuFFT has XLA take a work area when it runs. */
    EchBytes scoped = i->opcode == ECH_HLO_CUSTOM_CALL ? ech_program_kept_bytes(l->p, id) : 0, area = l->sms > 0 ? ech_program_gpu_fft_work(l->p, id) : 0;
    EchId own = scoped > 0 ? take_own(l, i, ECH_SPACE_VECTOR, scoped, "windows") : area > 0 ? take_own(l, i, ECH_SPACE_HBM, area, "work area") : ECH_NONE;
    add_op(l, op, i, l->core);
    add_uses(l, id, false);
    const EchHloWork work = ech_program_work(l->p, id);
    add_work(l, &work);
    uint64_t told;
    const EchKernelGrid *grid = ech_program_grid(l->p, id);
    if (grid && grid->by_device && l->repeats == 0)
        l->first_by_device = l->by_device++ == 0 ? id : l->first_by_device;
    if (grid && grid->assumed && l->repeats == 0) {
        l->first_assumed = l->assumed++ == 0 ? id : l->first_assumed;
    } else if (!grid && ech_program_is_own_kernel(i) && op.estimate == ECH_TIME_NONE && l->repeats == 0 &&
               !ech_program_config_u64(i, "cost_estimate.flops", &told)) {
        l->first_opaque = l->opaque++ == 0 ? id : l->first_opaque;
    }
    if (l->repeats == 0 && op.estimate == ECH_TIME_NONE && is_of_library(i))
        l->first_library = l->library++ == 0 ? id : l->first_library;
    if (own != ECH_NONE) {
        EchOp release_op = ech_op_init(ECH_OP_FREE);
        release_op.target = own;
        release_op.bytes = scoped > 0 ? scoped : area;
        release_op.bytes_origin = ECH_KNOWN;
        add_op(l, release_op, i, l->core);
    }
}

static EchId queue_named(Lowerer *l, const char *name, EchQueueKind kind)
{
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(l->queues, name));
    if (found > 0)
        return (EchId)(found - 1);
    EchId queue = ech_trace_builder_queue(l->b, name, kind, 0);
    g_hash_table_insert(l->queues, g_strdup(name), GSIZE_TO_POINTER((size_t)queue + 1));
    return queue;
}

static EchId copy_queue(Lowerer *l, const char *from, const char *to)
{
    g_autofree char *name = g_strdup_printf("dma %s>%s", from, to);
    return queue_named(l, name, ECH_QUEUE_COPY);
}

static void wait_for(Lowerer *l, EchId id, EchId started)
{
    EchOp op = ech_op_init(started == ECH_NONE ? ECH_OP_MARK : ECH_OP_WAIT);
    (void)add_op(l, op, &l->p->instructions[id], l->core);
    if (started != ECH_NONE)
        ech_trace_builder_dep(l->b, started, 0);
}

/* A transfer from @from's buffer to @to's, started where the core is now. @in_graph: XLA puts the body of a loop into a CUDA graph, slices that move of
 * themselves included, and lets its commands run one after the other (xla_gpu_enable_command_buffer, xla_gpu_command_buffer_scheduling_mode; JAX 0.11.2 on an
 * H100 and an H200, jax_profile.xplane.pb.gz in traces/gpu_h100-sxm and gpu_h200): what follows waits. Within the device such a copy is a kernel (memcpy128),
 * which begins 0.1 to 0.3 us after the one before, as the next does after it. */
static void copy(Lowerer *l, EchId id, EchId from_buffer, int32_t from, EchId to_buffer, int32_t to, EchBytes bytes, bool in_graph)
{
    const EchInstruction *i = &l->p->instructions[id];
    const char *from_name = ech_lower_memory_name(l, from), *to_name = ech_lower_memory_name(l, to);
    if (!from_name || !to_name) {
        ech_diag_note(l->diag, "copies_of_memories_the_device_lacks", 1);
        return;
    }
    EchOp op = ech_op_init(ECH_OP_COPY);
    op.memory_from = ech_trace_builder_memory(l->b, from_name);
    op.memory_to = ech_trace_builder_memory(l->b, to_name);
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    EchId before = l->last_core;
    bool by_kernel = in_graph && op.memory_from == op.memory_to;
    EchId started = add_op(l, op, i, by_kernel ? l->core : copy_queue(l, from_name, to_name));
    if (before != ECH_NONE && !by_kernel)
        ech_trace_builder_dep(l->b, before, 0);
    if (from_buffer != ECH_NONE && to_buffer != ECH_NONE) {
        ech_trace_builder_use(l->b, from_buffer, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(l->b, to_buffer, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    if (in_graph)
        ech_diag_note(l->diag, "copies_in_order_of_a_graph", 1);
    else
        l->started[id] = started;
    if (in_graph && !by_kernel)
        wait_for(l, id, started);
}

/* The host's program and the device hand arrays over (callbacks, infeed and outfeed): over the link, whatever the host then does with them. What goes to other
 * slices goes that way, too. */
static void hand_over(Lowerer *l, EchId id, EchId shape, bool to_host)
{
    const EchShape *array = &l->p->shapes[shape];
    EchBytes bytes = array->is_tuple ? array->dense : array->bytes;
    size_t n;
    const char *text = ech_program_attribute(&l->p->instructions[id], "frontend_attributes", &n);
    bool slices = text && g_strstr_len(text, (gssize)n, "_xla_host_transfer_handler_name=\"xla_megascale_runtime\"");
    ech_diag_note(l->diag, slices ? "arrays_handed_to_and_from_other_slices" : "arrays_handed_to_and_from_the_host", 1);
    copy(l, id, ECH_NONE, to_host ? ECH_SPACE_HBM : ECH_SPACE_HOST, ECH_NONE, to_host ? ECH_SPACE_HOST : ECH_SPACE_HBM, bytes, false);
}

static bool is_host_transfer(const EchInstruction *i)
{
    size_t n;
    const char *text = i->opcode == ECH_HLO_SEND || i->opcode == ECH_HLO_RECV ? ech_program_attribute(i, "is_host_transfer", &n) : NULL;
    return text && n == strlen("true") && memcmp(text, "true", n) == 0;
}

/* The op that the start behind a done's operand made; the chain of updates is followed. */
static EchId start_of(const Lowerer *l, EchId done)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[done];
    while (i->n_operands > 0) {
        EchId operand = ech_program_operand(p, i, 0);
        if (l->started[operand] != ECH_NONE)
            return l->started[operand];
        i = &p->instructions[operand];
        if (i->opcode != ECH_HLO_ASYNC_UPDATE && i->opcode != ECH_HLO_GET_TUPLE_ELEMENT && i->opcode != ECH_HLO_BITCAST)
            break;
    }
    return ECH_NONE;
}

/* Collectives */

static EchCollective collective_of(EchHlo opcode)
{
    switch ((int)opcode) {
    case ECH_HLO_ALL_REDUCE:
    case ECH_HLO_ALL_REDUCE_START:
    case ECH_HLO_COLLECTIVE_REDUCE: return ECH_COLLECTIVE_ALL_REDUCE;
    case ECH_HLO_ALL_GATHER:
    case ECH_HLO_ALL_GATHER_START: return ECH_COLLECTIVE_ALL_GATHER;
    case ECH_HLO_REDUCE_SCATTER: return ECH_COLLECTIVE_REDUCE_SCATTER;
    case ECH_HLO_ALL_TO_ALL:
    case ECH_HLO_RAGGED_ALL_TO_ALL: return ECH_COLLECTIVE_ALL_TO_ALL;
    case ECH_HLO_COLLECTIVE_PERMUTE:
    case ECH_HLO_COLLECTIVE_PERMUTE_START: return ECH_COLLECTIVE_PERMUTE;
    case ECH_HLO_COLLECTIVE_BROADCAST: return ECH_COLLECTIVE_BROADCAST;
    case ECH_HLO_SEND: return ECH_COLLECTIVE_SEND;
    case ECH_HLO_RECV: return ECH_COLLECTIVE_RECV;
    default: return ECH_COLLECTIVE_NONE;
    }
}

/* "{{0,1},{2,3}}", "[2,4]<=[8]", "mesh['x'=4,'y'=2] {'y'}"; all devices where it is empty. */
static uint32_t group_size(const EchProgram *p, const EchInstruction *i)
{
    uint64_t all = MIN((uint64_t)p->replicas * p->partitions, UINT32_MAX);
    size_t n;
    const char *text = ech_program_attribute(i, "replica_groups", &n);
    int64_t numbers[2] = {0};
    if (!text || n < 2)
        return (uint32_t)all;
    if (text[0] == '[')
        return ech_program_numbers(text, n, numbers, 2) >= 2 ? (uint32_t)CLAMP(numbers[1], 0, INT32_MAX) : (uint32_t)all;
    if (text[0] == '{') {
        const char *open = memchr(text + 1, '{', n - 1);
        const char *close = open ? memchr(open, '}', n - (size_t)(open - text)) : NULL;
        return close ? (uint32_t)ech_program_numbers(open, (size_t)(close - open), NULL, 0) : (uint32_t)all;
    }
    /* Axes of a mesh: the product of the named ones. */
    const char *brace = memchr(text, '{', n);
    uint64_t size = 1;
    for (const char *at = brace; at && at < text + n;) {
        const char *quote = memchr(at, '\'', n - (size_t)(at - text));
        const char *end = quote ? memchr(quote + 1, '\'', n - (size_t)(quote + 1 - text)) : NULL;
        if (!end)
            break;
        g_autofree char *key = g_strndup(quote, (size_t)(end + 1 - quote));
        const char *axis = g_strstr_len(text, brace - text, key);
        size_t left = n - (size_t)(end + 1 - text);
        if (left > 1 && end[1] == ':' && ech_program_numbers(end + 1, left, numbers, 2) >= 2) /* part of an axis: what lies outside it, and its own size */
            size = ech_bytes_mul(size, (uint64_t)MAX(numbers[1], 1));
        else if (axis && ech_program_numbers(axis + strlen(key), (size_t)(brace - axis) - strlen(key), numbers, 1) > 0)
            size = ech_bytes_mul(size, (uint64_t)MAX(numbers[0], 1));
        at = end + 1;
    }
    return brace ? (uint32_t)MIN(size, INT32_MAX) : (uint32_t)all;
}

static int64_t channel_of(const EchInstruction *i)
{
    size_t n;
    int64_t channel = -1;
    const char *text = ech_program_attribute(i, "channel_id", &n);
    if (text)
        (void)ech_program_numbers(text, n, &channel, 1);
    return channel;
}

static bool on_sparse_cores(const EchProgram *p, const EchInstruction *i)
{
    if (i->opcode == ECH_HLO_ASYNC_UPDATE && i->n_operands > 0)
        i = &p->instructions[ech_program_operand(p, i, 0)];
    size_t n;
    const char *thread = ech_program_attribute(i, "async_execution_thread", &n);
    return thread && n == strlen("\"sparsecore\"") && memcmp(thread, "\"sparsecore\"", n) == 0;
}

/* Starts a collective: @shape is the instruction that says its kind and group (it may lie in a fusion), @id the one in the schedule. */
static EchId collective(Lowerer *l, EchId id, const EchInstruction *kind, EchCollective type, EchBytes bytes, bool starts)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[id];
    EchOp op = ech_op_init(ECH_OP_COLLECTIVE);
    op.collective = (uint8_t)type;
    op.memory_from = type == ECH_COLLECTIVE_PERMUTE || type == ECH_COLLECTIVE_SEND || type == ECH_COLLECTIVE_RECV ? 2 : group_size(p, kind);
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    size_t n;
    const char *groups = ech_program_attribute(kind, "replica_groups", &n);
    EchGroup group;
    char queue[64];
    g_strlcpy(queue, type == ECH_COLLECTIVE_RECV ? "receives" : "collectives", sizeof queue); /* what comes waits for nothing that goes */
    g_autoptr(GString) text = g_string_new(NULL);
    if (groups && ech_group_read(groups, n, &group) && group.size == op.memory_from) {
        group.sparse = on_sparse_cores(p, i);
        ech_group_print(&group, text);
        op.launch = ech_trace_builder_string(l->b, text->str, -1);
        if (group.stride > 1)
            g_snprintf(queue, sizeof queue, "collectives %u apart", group.stride);
    }
    const char *pairs = type == ECH_COLLECTIVE_PERMUTE ? ech_program_attribute(kind, "source_target_pairs", &n) : NULL;
    if (pairs && ech_group_read_pairs(pairs, n, &group)) {
        op.memory_from = group.size;
        group.devices = MAX(group.devices, (uint32_t)MIN((uint64_t)p->replicas * p->partitions, UINT32_MAX));
        g_string_truncate(text, 0);
        ech_group_print(&group, text);
        op.launch = ech_trace_builder_string(l->b, text->str, -1);
        g_snprintf(queue, sizeof queue, "permutes %c%u", group.back ? '-' : '+', group.stride);
    }
    /* What goes the same way waits for one another; other ways of a torus are other links. */
    EchId before = l->last_core;
    EchId made = add_op(l, op, i, queue_named(l, queue, ECH_QUEUE_COLLECTIVE));
    if (before != ECH_NONE)
        ech_trace_builder_dep(l->b, before, 0);
    add_uses(l, id, starts);
    return made;
}

static EchBytes operand_sum(const EchProgram *p, const EchInstruction *i)
{
    EchBytes total = 0;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        const EchShape *shape = &p->shapes[p->instructions[ech_program_operand(p, i, k)].shape];
        total = ech_bytes_add(total, shape->is_tuple ? shape->dense : shape->bytes);
    }
    return total;
}

/* A recv is given a token alone; what comes is the first member of its result. */
static EchBytes received(const EchProgram *p, const EchInstruction *recv)
{
    const EchShape *shape = &p->shapes[recv->shape];
    if (!shape->is_tuple || shape->n_elements == 0)
        return shape->bytes;
    shape = &p->shapes[p->elements[shape->first_element]];
    return shape->is_tuple ? shape->dense : shape->bytes;
}

/* What a fusion's body holds of a collective. */
typedef struct {
    const EchInstruction *inner; /* the collective, or NULL */
    bool start, done, scatters;
} Riding;

static Riding find_riding(const EchProgram *p, const EchInstruction *fusion)
{
    Riding riding = {0};
    if (fusion->n_called == 0)
        return riding;
    const EchComputation *c = &p->computations[ech_program_called(p, fusion, 0)];
    for (uint32_t k = 0; k < c->n; k++) {
        const EchInstruction *i = &p->instructions[c->first + k];
        if (collective_of((EchHlo)i->opcode) != ECH_COLLECTIVE_NONE)
            riding.inner = i;
        riding.start |= i->target && strcmp(i->target, "AsyncCollectiveStart") == 0;
        riding.done |= i->target && strcmp(i->target, "AsyncCollectiveDone") == 0;
        riding.scatters |= i->opcode == ECH_HLO_DYNAMIC_SLICE;
    }
    return riding;
}

/* True if the fusion is a collective, or the end of one, rather than computation. */
static bool fused_collective(Lowerer *l, EchId id)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[id];
    Riding riding = find_riding(p, i);
    if (!riding.inner && !riding.done)
        return false;
    int64_t channel = riding.inner ? channel_of(riding.inner) : -1;
    guint found = l->pending->len;
    for (guint k = l->pending->len; k-- > 0;) {
        if (g_array_index(l->pending, Pending, k).channel == channel || (channel < 0 && riding.done))
            found = k;
    }
    if (riding.done) {
        wait_for(l, id, found < l->pending->len ? g_array_index(l->pending, Pending, found).op : ECH_NONE);
        if (found < l->pending->len)
            g_array_remove_index(l->pending, found);
        return true;
    }
    if (!riding.start && found < l->pending->len)
        return false; /* riding along: computation with a collective under way */
    EchCollective type = collective_of((EchHlo)riding.inner->opcode);
    if (type == ECH_COLLECTIVE_ALL_REDUCE && riding.scatters && !riding.start)
        type = ECH_COLLECTIVE_REDUCE_SCATTER;
    EchId made = collective(l, id, riding.inner, type, operand_sum(p, riding.inner), riding.start);
    if (riding.start) {
        Pending pending = {channel, made};
        g_array_append_val(l->pending, pending);
    } else
        wait_for(l, id, made);
    return true;
}

/* Asynchronous computations */

/* Looks through a wrapping fusion, or the call of a collective that runs on the sparse cores; NULL if the body is more than one piece of work. */
static const EchInstruction *only_work(const EchProgram *p, EchId computation, EchId *ret)
{
    for (unsigned depth = 0; depth < 8; depth++) {
        const EchComputation *c = &p->computations[computation];
        const EchInstruction *found = NULL;
        for (uint32_t k = 0; k < c->n; k++) {
            const EchInstruction *i = &p->instructions[c->first + k];
            switch ((int)i->opcode) {
            case ECH_HLO_PARAMETER:
            case ECH_HLO_CONSTANT:
            case ECH_HLO_TUPLE:
            case ECH_HLO_GET_TUPLE_ELEMENT:
            case ECH_HLO_BITCAST:
            case ECH_HLO_RESHAPE: continue;
            case ECH_HLO_CUSTOM_CALL:
                /* Holds the order of the sparse cores' ring. */
                if (i->target && strcmp(i->target, "Noop") == 0)
                    continue;
                break;
            case ECH_HLO_COPY:
                /* GPU wraps the moved slice in a copy. */
                if (c->n > 2 && (found || k + 1 < c->n))
                    continue;
                break;
            default: break;
            }
            if (found && ech_hlo_class((EchHlo)i->opcode) == ECH_CLASS_ELEMENTWISE)
                continue; /* index arithmetic */
            if (found && ech_hlo_class((EchHlo)found->opcode) != ECH_CLASS_ELEMENTWISE)
                return NULL;
            found = i;
            *ret = c->first + k;
        }
        if (!found || (found->opcode != ECH_HLO_FUSION && found->opcode != ECH_HLO_CUSTOM_CALL && found->opcode != ECH_HLO_CALL) || found->n_called == 0)
            return found;
        computation = ech_program_called(p, found, 0);
    }
    return NULL;
}

/* The gather or scatter of a body, through fusions, calls and what starts others (sparse cores); ECH_NONE: there is none, or several. */
static EchId only_pick(const EchProgram *p, EchId computation)
{
    for (unsigned depth = 0; depth < 8; depth++) {
        const EchComputation *c = &p->computations[computation];
        EchId pick = ECH_NONE, caller = ECH_NONE;
        unsigned picks = 0, callers = 0;
        for (EchId id = c->first; id < c->first + c->n; id++) {
            const EchInstruction *i = &p->instructions[id];
            bool picks_rows = i->opcode == ECH_HLO_GATHER || i->opcode == ECH_HLO_SCATTER,
                 calls = (i->opcode == ECH_HLO_FUSION || i->opcode == ECH_HLO_CALL || i->opcode == ECH_HLO_CUSTOM_CALL || i->opcode == ECH_HLO_ASYNC_START) &&
                         i->n_called > 0;
            pick = picks_rows ? id : pick;
            picks += picks_rows;
            caller = calls ? id : caller;
            callers += calls;
        }
        if (picks > 0 || callers != 1)
            return picks == 1 ? pick : ECH_NONE;
        computation = ech_program_called(p, &p->instructions[caller], 0);
    }
    return ECH_NONE;
}

static int32_t space_of(const EchProgram *p, EchId shape)
{
    return p->shapes[ech_program_first_array(p, shape)].space;
}

/* The operand that is written into the first one: that whose bytes the inner update's operand 1 has. */
static uint32_t update_operand(const EchProgram *p, const EchInstruction *i, uint32_t skip, const EchInstruction *work)
{
    if (!work || work->n_operands < 2)
        return skip + 1;
    EchBytes bytes = p->shapes[p->instructions[p->operands[work->first_operand + 1]].shape].bytes;
    for (uint32_t k = skip + 1; k < i->n_operands; k++)
        if (p->shapes[p->instructions[p->operands[i->first_operand + k]].shape].bytes == bytes)
            return k;
    return skip + 1;
}

/* First position below the result's member {1}, and the outer operand that holds the bytes that move. */
static void async_start(Lowerer *l, EchId id)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[id];
    const EchShape *shape = &p->shapes[i->shape];
    EchId body = ECH_NONE;
    if (i->opcode == ECH_HLO_ASYNC_UPDATE && i->n_operands > 0) {
        const EchInstruction *start = &p->instructions[ech_program_operand(p, i, 0)];
        if (start->opcode != ECH_HLO_ASYNC_START || start->n_operands > 0 || start->n_called == 0)
            return;
        body = ech_program_called(p, start, 0);
    } else if (i->opcode == ECH_HLO_ASYNC_START) {
        if (i->n_operands == 0)
            return;
        body = i->n_called > 0 ? ech_program_called(p, i, 0) : ECH_NONE;
    } else
        return;
    uint32_t skip = i->opcode == ECH_HLO_ASYNC_UPDATE ? 1 : 0;
    if (shape->n_elements < 2 || i->n_operands <= skip)
        return;
    uint32_t result = ech_program_member_position(p, i->shape, 1);
    EchId result_shape = ech_program_subshape(p, i->shape, result);
    EchId work_id = ECH_NONE;
    const EchInstruction *work = body == ECH_NONE ? NULL : only_work(p, body, &work_id);
    EchHlo opcode = work ? (EchHlo)work->opcode : ECH_HLO_UNKNOWN;
    /* Sugar without a body says in its name what it does. */
    if (!work && g_str_has_prefix(i->opcode_name, "dynamic-update-slice"))
        opcode = ECH_HLO_DYNAMIC_UPDATE_SLICE;
    else if (!work &&
             (g_str_has_prefix(i->opcode_name, "slice") || g_str_has_prefix(i->opcode_name, "dynamic-slice") || g_str_has_prefix(i->opcode_name, "copy")))
        opcode = ECH_HLO_DYNAMIC_SLICE;
    EchId first = ech_program_operand(p, i, skip);
    if (opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && i->n_operands > skip + 1) {
        EchId update = ech_program_operand(p, i, update_operand(p, i, skip, work));
        EchBytes bytes = p->shapes[p->instructions[update].shape].bytes;
        copy(l, id, ech_lower_buffer_at(l, update, 0), space_of(p, p->instructions[update].shape), ech_lower_buffer_at(l, id, result),
             space_of(p, result_shape), bytes, l->in_graph);
        return;
    }
    if (opcode == ECH_HLO_SLICE || opcode == ECH_HLO_DYNAMIC_SLICE || opcode == ECH_HLO_COPY) {
        EchBytes bytes = p->shapes[result_shape].is_tuple ? p->shapes[result_shape].dense : p->shapes[result_shape].bytes;
        EchId to = p->shapes[result_shape].is_tuple ? ECH_NONE : ech_lower_buffer_at(l, id, result);
        copy(l, id, ech_lower_buffer_at(l, first, 0), space_of(p, p->instructions[first].shape), to, space_of(p, result_shape), bytes, l->in_graph);
        return;
    }
    EchCollective type = collective_of(opcode);
    if (type != ECH_COLLECTIVE_NONE) {
        l->started[id] = collective(l, id, work, type, operand_sum(p, work), false);
        return;
    }
    size_t n;
    const char *thread = ech_program_attribute(i, "async_execution_thread", &n);
    g_autofree char *name = thread && n > 2 ? g_strndup(thread + 1, n - 2) : g_strdup("async");
    /* The result's leaves are written by the body; the operands are read whole, but of the array that a gather or scatter picks from only that, in pieces of 64
     * bytes: as many as a sparse core of a tpu7x takes at once (32 on a v5p and v6e: JAX's tpu_info.py). */
    EchId pick = body == ECH_NONE ? ECH_NONE : only_pick(p, body);
    const EchInstruction *picks = pick == ECH_NONE || p->instructions[pick].n_operands == 0 ? NULL : &p->instructions[pick];
    EchBytes table = picks ? p->shapes[p->instructions[ech_program_operand(p, picks, 0)].shape].bytes : 0,
             picked = picks ? ech_program_picked_bytes(p, pick, 0) : 0;
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    EchId before = l->last_core;
    l->started[id] = add_op(l, op, i, queue_named(l, name, ECH_QUEUE_COMPUTE));
    if (before != ECH_NONE)
        ech_trace_builder_dep(l->b, before, 0);
    for (uint32_t k = skip; k < i->n_operands; k++) {
        const EchShape *operand = &p->shapes[p->instructions[ech_program_operand(p, i, k)].shape];
        bool some = picks && operand->bytes == table && picked < table;
        use(l, operand->is_tuple ? ECH_NONE : ech_lower_buffer_at(l, ech_program_operand(p, i, k), 0), ECH_READ, some ? picked : operand->bytes,
            ECH_PATTERN_STREAM, ECH_INFERRED);
    }
    for (uint32_t q = result; q < result + p->shapes[result_shape].n_positions; q++) {
        const EchShape *leaf = &p->shapes[ech_program_subshape(p, i->shape, q)];
        bool some = picks && picks->opcode == ECH_HLO_SCATTER && leaf->bytes == table && picked < table;
        use(l, leaf->is_tuple ? ECH_NONE : ech_lower_buffer_at(l, id, q), ECH_WRITE, some ? picked : leaf->bytes, ECH_PATTERN_STREAM,
            some ? ECH_INFERRED : ECH_KNOWN);
    }
    if (body != ECH_NONE)
        add_work(l, &p->bodies[body].work);
}

/* Control */

static void lower_called(Lowerer *l, EchId caller, EchId computation);
static void lower_computation(Lowerer *l, EchId computation);

/* Commands that XLA makes a graph of at least (xla_gpu_graph_min_graph_size). */
#define LEAST_COMMANDS 5

static bool becomes_graph(const EchProgram *p, EchId body)
{
    const EchComputation *c = &p->computations[body];
    unsigned commands = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        EchHlo opcode = (EchHlo)p->instructions[c->first + k].opcode;
        commands += opcode == ECH_HLO_FUSION || opcode == ECH_HLO_CUSTOM_CALL || opcode == ECH_HLO_ASYNC_START;
    }
    return p->platform == ECH_PLATFORM_GPU && commands >= LEAST_COMMANDS;
}

/* The compiler knows how often the loop runs: on a GPU the host counts, and the condition is no kernel. */
static bool counted(const EchInstruction *i)
{
    uint64_t n;
    return ech_program_config_u64(i, "known_trip_count.n", &n);
}

static void lower_loop(Lowerer *l, EchId id)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[id];
    if (i->n_called < 2)
        return;
    uint64_t trips = MAX(l->options.loop_trips, 1);
    EchOrigin origin = ECH_ASSUMED;
    if (!ech_program_trips(p, id, &trips, &origin)) {
        trips = MAX(l->options.loop_trips, 1);
        ech_diag_note(l->diag, "loops_with_assumed_trip_counts", 1);
        if (l->remarks++ < MAX_REMARKS_PER_KIND)
            ech_diag_remark(l->diag,
                            "loop %s tells no trip count: %" G_GUINT64_FORMAT
                            " assumed (run --set replay.trips=N, or info and import --loop-trips N, say how many)",
                            i->name, trips);
    } else if (origin == ECH_INFERRED)
        ech_diag_note(l->diag, "loops_with_inferred_trip_counts", 1);
    EchOp op = ech_op_init(ECH_OP_LOOP);
    op.bytes = MIN(trips, INT64_MAX);
    op.bytes_origin = (uint8_t)origin;
    op.target = 0;
    EchId loop = add_op(l, op, i, l->core);
    (void)add_op(l, ech_op_init(ECH_OP_MARK), i, l->core);
    guint pending = l->pending->len;
    bool in_graph = l->in_graph;
    l->in_graph = becomes_graph(p, ech_program_called(p, i, 1));
    if (!(p->platform == ECH_PLATFORM_GPU && counted(i)))
        lower_called(l, id, ech_program_called(p, i, 0));
    lower_called(l, id, ech_program_called(p, i, 1));
    l->in_graph = in_graph;
    /* What a body starts and does not end itself is not waited for outside. */
    if (l->pending->len > pending)
        g_array_set_size(l->pending, pending);
    size_t n = ech_trace_builder_n_ops(l->b) - loop - 1;
    ech_trace_builder_peek_op(l->b, loop)->target = (EchId)n;
    l->last_core = loop;
    /* Buffers made one per iteration. */
    const GArray *own = l->homed[id];
    for (guint k = 0; own && l->repeats == 0 && k < own->len; k++)
        ech_trace_builder_peek_buffer(l->b, l->places[g_array_index(own, EchId, k)].id)->loop = loop;
}

static void lower_conditional(Lowerer *l, EchId id)
{
    const EchInstruction *i = &l->p->instructions[id];
    if (i->n_called == 0)
        return;
    bool known;
    uint32_t taken = ech_lower_taken_branch(l, id, &known);
    ech_diag_note(l->diag, known ? "conditionals_whose_branch_is_known" : "conditionals_with_one_branch_taken", 1);
    uint64_t runs = known || l->repeats > 0 || i->n_called < 2 ? 0 : ech_program_runs(l->p, i->computation);
    if (runs > 1 && l->remarks++ < MAX_REMARKS_PER_KIND)
        ech_diag_remark(l->diag,
                        "conditional %s, in a loop: which branch runs when is not told; the one with most work is counted each of %" G_GUINT64_FORMAT " times",
                        i->name, runs);
    lower_called(l, id, ech_program_called(l->p, i, taken));
}

/* Custom calls that say where an array lies, or what is known of it, and do nothing. */
static bool only_says(const EchInstruction *i)
{
    static const char *const targets[] = {
        "AllocateBuffer", "CreateBuffer", "Pin", "Unpin", "Sharding", "annotate_device_placement", "AssumeGatherIndicesInBound"};
    bool says = false;
    for (size_t k = 0; i->target && k < G_N_ELEMENTS(targets); k++)
        says |= strcmp(i->target, targets[k]) == 0;
    return says;
}

static void lower_instruction(Lowerer *l, EchId id)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[id];
    switch ((int)i->opcode) {
    case ECH_HLO_PARAMETER:
    case ECH_HLO_CONSTANT:
    case ECH_HLO_TUPLE:
    case ECH_HLO_GET_TUPLE_ELEMENT:
    case ECH_HLO_BITCAST:
    case ECH_HLO_AFTER_ALL:
    case ECH_HLO_ADD_DEPENDENCY:
    case ECH_HLO_OPTIMIZATION_BARRIER:
    case ECH_HLO_DOMAIN:
    case ECH_HLO_PARTITION_ID:
    case ECH_HLO_REPLICA_ID: break;
    case ECH_HLO_INFEED:
    case ECH_HLO_OUTFEED: {
        const EchShape *shape = &p->shapes[i->shape];
        bool out = i->opcode == ECH_HLO_OUTFEED;
        if (out ? i->n_operands > 0 : shape->n_elements > 0)
            hand_over(l, id, out ? p->instructions[ech_program_operand(p, i, 0)].shape : p->elements[shape->first_element], out);
        wait_for(l, id, l->started[id]);
        break;
    }
    case ECH_HLO_COPY_START: {
        const EchShape *shape = &p->shapes[i->shape];
        size_t n;
        if (shape->n_elements < 2 || i->n_operands == 0)
            break;
        /* A runtime may hide it behind the program before: the device's kernel.first_fetch says. */
        if (ech_program_attribute(i, "cross_program_prefetch_index", &n)) {
            ech_diag_note(l->diag, "cross_program_prefetches", 1);
            ech_trace_builder_set_property(l->b, "fetched_first", i->name);
        }
        EchId to_shape = p->elements[shape->first_element];
        uint32_t to = ech_program_member_position(p, i->shape, 0);
        copy(l, id, ech_lower_buffer_at(l, ech_program_operand(p, i, 0), 0), space_of(p, p->elements[shape->first_element + 1]), ech_lower_buffer_at(l, id, to),
             space_of(p, to_shape), p->shapes[to_shape].bytes, false); /* whole arrays are in no graph */
        break;
    }
    case ECH_HLO_ASYNC_START:
    case ECH_HLO_ASYNC_UPDATE: async_start(l, id); break;
    case ECH_HLO_COPY_DONE:
    case ECH_HLO_ASYNC_DONE:
    case ECH_HLO_ALL_GATHER_DONE:
    case ECH_HLO_ALL_REDUCE_DONE:
    case ECH_HLO_COLLECTIVE_PERMUTE_DONE:
    case ECH_HLO_SEND_DONE:
    case ECH_HLO_RECV_DONE: wait_for(l, id, start_of(l, id)); break;
    case ECH_HLO_WHILE: lower_loop(l, id); break;
    case ECH_HLO_CALL:
        if (i->n_called > 0)
            lower_called(l, id, ech_program_called(p, i, 0));
        break;
    case ECH_HLO_CONDITIONAL: lower_conditional(l, id); break;
    case ECH_HLO_CUSTOM_CALL:
        if (!only_says(i) && !ech_program_joins_slices(i))
            kernel(l, id);
        break;
    case ECH_HLO_FUSION:
        if (!fused_collective(l, id))
            kernel(l, id);
        break;
    default: {
        if (is_host_transfer(i)) {
            const EchShape *shape = &p->shapes[i->shape];
            if (shape->n_elements > 0)
                hand_over(l, id, p->elements[shape->first_element], i->opcode == ECH_HLO_SEND);
            break;
        }
        EchCollective type = collective_of((EchHlo)i->opcode);
        if (type == ECH_COLLECTIVE_NONE) {
            kernel(l, id);
            break;
        }
        EchId made = collective(l, id, i, type, type == ECH_COLLECTIVE_RECV ? received(p, i) : operand_sum(p, i), false);
        bool asynchronous = i->opcode == ECH_HLO_ALL_GATHER_START || i->opcode == ECH_HLO_ALL_REDUCE_START || i->opcode == ECH_HLO_COLLECTIVE_PERMUTE_START ||
                            i->opcode == ECH_HLO_SEND || i->opcode == ECH_HLO_RECV;
        if (asynchronous)
            l->started[id] = made;
        else
            wait_for(l, id, made);
        break;
    }
    }
}

static void lower_computation(Lowerer *l, EchId computation)
{
    const EchComputation *c = &l->p->computations[computation];
    for (uint32_t k = 0; k < c->n; k++) {
        allocate(l, c->first + k);
        lower_instruction(l, c->first + k);
        release(l, c->first + k);
    }
}

/* What lowering a computation adds to the trace, and takes, at most: attributes are looked through, too. */
static size_t added_by(const EchProgram *p, EchId computation)
{
    enum { LOOKED_AT = 256 }; /* bytes, at once */
    const EchComputation *c = &p->computations[computation];
    size_t weight = c->n;
    for (uint32_t k = 0; k < c->n; k++) {
        const EchInstruction *i = &p->instructions[c->first + k];
        weight += p->shapes[i->shape].n_positions + i->attributes_n / LOOKED_AT;
        for (uint32_t o = 0; o < i->n_operands; o++)
            weight += p->shapes[p->instructions[ech_program_operand(p, i, o)].shape].n_positions;
    }
    return weight;
}

/* A computation that several instructions call has its values at the first of them: the others repeat its work without its buffers. */
static void lower_called(Lowerer *l, EchId caller, EchId computation)
{
    if (l->p->computations[computation].caller == caller && l->repeats == 0) {
        lower_computation(l, computation);
        return;
    }
    if (l->repeated >= MAX_REPEATED) {
        ech_diag_dropped(l->diag, "repeated_calls_left_out", 1, "%s", l->p->instructions[caller].name);
        return;
    }
    l->repeats++;
    l->repeated += added_by(l->p, computation);
    ech_diag_note(l->diag, "repeated_calls_without_buffers", 1);
    lower_computation(l, computation);
    l->repeats--;
}

static void set_figure(EchTraceBuilder *b, const char *name, EchBytes bytes)
{
    g_autofree char *key = g_strconcat("memory_analysis.", name, NULL);
    ech_trace_builder_printf_property(b, key, "%" G_GUINT64_FORMAT, bytes);
}

static void set_logits(EchTraceBuilder *b, const EchProgram *p)
{
    g_autoptr(GArray) softmaxes = ech_program_softmaxes(p);
    g_autoptr(GString) logits = g_string_new(NULL);
    for (guint i = 0; i < softmaxes->len; i++) {
        const EchSoftmax *softmax = &g_array_index(softmaxes, EchSoftmax, i);
        if (softmax->classes > 0)
            g_string_append_printf(logits, "%s%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, logits->len > 0 ? "," : "", softmax->elements, softmax->classes);
    }
    if (logits->len > 0)
        ech_trace_builder_set_property(b, ECH_TRACE_LOGITS, logits->str);
}

static void set_properties(const Lowerer *l)
{
    const EchProgram *p = l->p;
    ech_trace_builder_set_property(l->b, "program", p->name);
    if (p->platform != ECH_PLATFORM_UNKNOWN)
        ech_trace_builder_set_property(l->b, "platform", p->platform == ECH_PLATFORM_TPU ? "tpu" : "gpu");
    if (ech_program_kernels_for(p))
        ech_trace_builder_set_property(l->b, "chip", ech_program_kernels_for(p));
    set_logits(l->b, p);
    if (!p->assignment)
        return;
    ech_trace_builder_set_property(l->b, "buffer_assignment", p->assignment_source);
    EchMemoryAnalysis m = ech_program_memory_analysis(p);
    set_figure(l->b, "argument", m.argument);
    set_figure(l->b, "output", m.output);
    set_figure(l->b, "temp", m.temp);
    set_figure(l->b, "alias", m.alias);
    set_figure(l->b, "constant", m.constant);
    set_figure(l->b, "host_argument", m.host_argument);
    set_figure(l->b, "host_output", m.host_output);
    set_figure(l->b, "host_alias", m.host_alias);
    set_figure(l->b, "host_temp", m.host_temp);
    set_figure(l->b, "peak", m.peak);
    for (int32_t space = 1; space <= ECH_SPACE_SCALAR; space++) {
        g_autofree char *name = g_strdup_printf("space_%d", space);
        EchBytes bytes = ech_program_space_bytes(p, space);
        if (bytes)
            set_figure(l->b, name, bytes);
    }
}

/* What a program begins with: nothing lowered yet. */
static void lowerer_init(Lowerer *l)
{
    const EchProgram *p = l->p;
    const EchUnit *matrix = l->device ? ech_device_unit(l->device, ECH_UNIT_MATRIX) : NULL;
    l->clock = matrix ? matrix->clock_hz : 0;
    const EchUnit *vector = l->device && g_strcmp0(l->device->family, "gpu") == 0 ? ech_device_unit(l->device, ECH_UNIT_VECTOR) : NULL;
    if (p->platform != ECH_PLATFORM_TPU)
        l->sms = vector && vector->count > 0 ? vector->count : USUAL_SMS;
    l->queues = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    l->core = queue_named(l, "core", ECH_QUEUE_COMPUTE);
    l->places = g_new0(Place, p->n_buffers + 1);
    l->hidden = g_new0(bool, p->n_computations + 1);
    l->weights = g_new0(uint64_t, p->n_computations + 1);
    l->integers = ech_integers_new(p);
    l->untaken = g_new0(bool, p->n_computations + 1);
    l->handed = g_new(EchId, p->n_buffers + 1);
    memset(l->handed, 0xff, (p->n_buffers + 1) * sizeof(EchId));
    l->replicas = ech_program_replicas(p);
    l->shape_texts = g_new(EchId, p->n_shapes + 1);
    memset(l->shape_texts, 0xff, (p->n_shapes + 1) * sizeof(EchId));
    l->born = g_new0(GArray *, p->n_instructions + 1);
    l->dies = g_new0(GArray *, p->n_instructions + 1);
    l->homed = g_new0(GArray *, p->n_instructions + 1);
    l->started = g_new(EchId, p->n_instructions + 1);
    memset(l->started, 0xff, (p->n_instructions + 1) * sizeof(EchId));
    l->pending = g_array_new(FALSE, FALSE, sizeof(Pending));
    uint32_t most = 0;
    for (size_t i = 0; i < p->n_instructions; i++)
        most = MAX(most, p->instructions[i].n_operands);
    l->operand_bytes = g_new0(EchBytes, (size_t)most + 1);
}

static void lowerer_clear(Lowerer *l)
{
    for (size_t i = 0; i < l->p->n_instructions; i++) {
        g_clear_pointer(&l->born[i], g_array_unref);
        g_clear_pointer(&l->dies[i], g_array_unref);
        g_clear_pointer(&l->homed[i], g_array_unref);
    }
    g_free(l->born);
    g_free(l->dies);
    g_free(l->homed);
    g_free(l->started);
    g_free(l->replicas);
    g_free(l->places);
    g_free(l->hidden);
    g_free(l->weights);
    ech_integers_free(l->integers);
    g_free(l->untaken);
    g_free(l->handed);
    g_free(l->shape_texts);
    g_free(l->operand_bytes);
    g_array_unref(l->pending);
    g_hash_table_unref(l->queues);
}

/* Arrays in memories that the device has not. */
static void tell_lacking(const Lowerer *l)
{
    static const int32_t spaces[] = {ECH_SPACE_VECTOR, ECH_SPACE_COMMON};
    for (size_t k = 0; k < G_N_ELEMENTS(spaces); k++) {
        EchBytes bytes = ech_lower_memory_name(l, spaces[k]) ? 0 : ech_program_space_bytes(l->p, spaces[k]);
        g_autofree char *size = ech_format_bytes(bytes);
        if (bytes > 0)
            ech_diag_remark(l->diag,
                            "%s has no memory for the %s that the program keeps in S(%d): their traffic costs nothing and their capacity is not checked",
                            l->device->name, size, spaces[k]);
    }
}

/* What the times leave out, or assume. */
static void tell_limits(const Lowerer *l)
{
    const EchInstruction *instructions = l->p->instructions;
    if (l->library > 0)
        ech_diag_remark(
            l->diag,
            "%u call%s of the TPU's own library (%s: %s%s) %s counted by bytes alone: what is solved column by column, or sorted, takes longer, and how "
            "long is not known",
            l->library, l->library == 1 ? "" : "s", instructions[l->first_library].target, instructions[l->first_library].name,
            l->library == 1 ? "" : " and others", l->library == 1 ? "is" : "are");
    if (l->opaque > 0)
        ech_diag_remark(
            l->diag,
            "%u Pallas kernel%s (%s%s): the code cannot be read and the program does not tell %s operations, nor how often blocks are read again; %s at least "
            "what moving the arguments once takes%s",
            l->opaque, l->opaque == 1 ? "" : "s", instructions[l->first_opaque].name, l->opaque == 1 ? "" : " and others", l->opaque == 1 ? "its" : "their",
            l->opaque == 1 ? "its time is" : "their times are", l->sms > 0 ? "" : " (pl.pallas_call's cost_estimate tells both)");
    uint64_t handed = ech_diag_count(l->diag, "arrays_handed_to_and_from_the_host");
    if (handed > 0)
        ech_diag_remark(l->diag,
                        "%" G_GUINT64_FORMAT
                        " transfer%s between the program and the host's (callbacks, infeed, outfeed): the way over the link is in the time, "
                        "what the host does meanwhile is not",
                        handed, handed == 1 ? "" : "s");
    uint64_t across = ech_diag_count(l->diag, "arrays_handed_to_and_from_other_slices");
    if (across > 0)
        ech_diag_remark(l->diag,
                        "%" G_GUINT64_FORMAT
                        " transfer%s to and from other slices: the way over the host's link is in the time, the network between slices is not",
                        across, across == 1 ? "" : "s");
    if (l->by_device > 0)
        ech_diag_remark(l->diag, "%u Pallas kernel%s (%s%s) %s by the device's number what to work on: priced as on the device that has most to do",
                        l->by_device, l->by_device == 1 ? "" : "s", instructions[l->first_by_device].name, l->by_device == 1 ? "" : " and others",
                        l->by_device == 1 ? "chooses" : "choose");
    if (l->assumed > 0)
        ech_diag_remark(l->diag,
                        "%u Pallas kernel%s (%s%s) %s by data that the program's text does not hold which steps to work on: priced as if on all of them",
                        l->assumed, l->assumed == 1 ? "" : "s", instructions[l->first_assumed].name, l->assumed == 1 ? "" : " and others",
                        l->assumed == 1 ? "chooses" : "choose");
}

/* What of the arguments devices hold alike, where that is much. */
static void tell_alike(const Lowerer *l)
{
    EchBytes alike = 0, all = 0, largest = 0;
    uint32_t count = 0, devices = 0;
    EchId which = ECH_NONE;
    for (EchId b = 0; b < ech_trace_builder_n_buffers(l->b); b++) {
        const EchBuffer *buffer = ech_trace_builder_peek_buffer(l->b, b);
        if (buffer->role != ECH_ROLE_PARAMETER || !buffer->resident)
            continue;
        all = ech_bytes_add(all, buffer->bytes);
        if (buffer->replicas < 2)
            continue;
        count++;
        devices = MAX(devices, buffer->replicas);
        alike = ech_bytes_add(alike, buffer->bytes);
        which = buffer->bytes > largest ? b : which;
        largest = MAX(largest, buffer->bytes);
    }
    if (count == 0 || alike < MUCH || alike < all / MUCH_PART)
        return;
    const EchBuffer *buffer = ech_trace_builder_peek_buffer(l->b, which);
    g_autofree char *size = ech_format_bytes(alike);
    g_autofree char *name = g_strdup(ech_trace_builder_peek_string(l->b, buffer->stack != ECH_NONE ? buffer->stack : buffer->name));
    ech_diag_remark(l->diag,
                    "%u argument%s (%.*s%s, %s) %s the same on each of %u devices: --pass shard tells what splitting %s over these (ZeRO-1) would change",
                    count, count == 1 ? "" : "s", (int)strcspn(name, "\n"), name, count == 1 ? "" : " and others", size, count == 1 ? "is" : "are", devices,
                    count == 1 ? "it" : "them");
}

/* Of which device the trace's estimates are, and of which those that they are scaled from. */
static void tell_priced_for(const Lowerer *l, const EchDevice *runs_on)
{
    if (l->stationary) {
        ech_stationary_set_counters(l->b, &l->stationary->counters, l->options.price_on);
        ech_stationary_set_measured(l->b, l->p);
    }
    if (l->inside || l->stationary)
        ech_trace_builder_set_property(l->b, ECH_INSIDES_OF, runs_on->name);
    if (!l->model && !l->stationary)
        return;
    ech_trace_builder_set_property(l->b, "estimates_for", l->options.price_on->name);
    EchKernelModel home;
    bool alike = l->model && l->device && g_strcmp0(l->device->name, l->options.price_on->name) == 0 &&
                 ech_kernel_model_init(&home, l->device, ECH_KERNEL_HARDWARE, NULL) && ech_kernel_model_equal(&home, l->model);
    if (l->own_model && !alike)
        ech_trace_builder_set_property(l->b, "estimates_scaled_from", l->device->name);
}

EchTrace *ech_program_lower(const EchProgram *program, const EchDevice *device, const EchLowerOptions *options, EchDiag *diag, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("hlo");
    g_autoptr(EchKernelMemo) memo = ech_kernel_memo_new();
    Lowerer l = {.p = program, .device = device, .diag = diag, .b = builder, .memo = memo, .last_core = ECH_NONE};
    if (options)
        l.options = *options;
    lowerer_init(&l);
    EchKernelModel model, own_model;
    const EchDevice *runs_on = l.options.price_on ? l.options.price_on : device;
    if (runs_on && program->platform == ECH_PLATFORM_TPU && g_strcmp0(runs_on->family, "tpu") == 0) {
        g_autoptr(GError) lacks = NULL;
        l.inside = ech_kernel_model_init(&model, runs_on, ECH_KERNEL_HARDWARE, &lacks) ? &model : NULL;
        l.model = l.options.price_on ? l.inside : NULL;
        if (lacks && l.options.price_on)
            ech_diag_remark(diag, "%s", lacks->message);
    }
    if (l.model && device && ech_kernel_model_init(&own_model, device, ECH_KERNEL_COMPILER, NULL))
        l.own_model = &own_model;
    g_autoptr(EchStationaryPrices) stationary =
        l.options.price_on && program->platform == ECH_PLATFORM_TPU ? ech_program_price_stationary(program, l.options.price_on, diag) : NULL;
    l.stationary = stationary;
    ech_lower_buffers(&l);
    lower_computation(&l, program->entry);
    set_properties(&l);
    tell_lacking(&l);
    tell_limits(&l);
    tell_alike(&l);
    tell_priced_for(&l, runs_on);
    for (size_t b = 0; l.options.buffers && b < program->n_buffers; b++)
        l.options.buffers[b] = l.places[b].id;
    lowerer_clear(&l);
    return ech_trace_builder_finish(builder, error);
}
