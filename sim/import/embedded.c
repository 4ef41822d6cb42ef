#include "sim/import/embedded.h"

#include "models/device/device.h"
#include "models/kernel/kernel.h"
#include "sim/base/error.h"
#include "sim/program/price_kernels.h"
#include "sim/trace/meets.h"

#include <string.h>

/* What a buffer of the program is, in the trace around it. */
typedef enum {
    OWN,      /* allocated and freed by each run, and one buffer for all runs */
    PART,     /* a part of the block of temporaries */
    CONSTANT, /* there from the first run on */
    FETCHED,  /* there before a run begins (what the run before it has fetched) */
    LOOPED,   /* made by a loop for each of its iterations */
    GIVEN     /* an argument's or a result's: each run has another */
} Kind;

struct EchEmbedded {
    char *name;
    EchImport *import;
    EchTrace *trace;
    size_t n;              /* buffers of the trace */
    uint8_t *kinds;        /* kinds[n] */
    EchId *buffers;        /* buffers[n]: in the builder; of those given, in the run that is being appended */
    bool *live;            /* live[n] */
    GArray *parameters;    /* EchId of the trace, or ECH_NONE: not used, or of no bytes */
    GArray *results;       /* likewise */
    bool *allocated;       /* allocated[n_results]: by an op of the program; of two that lie in one place the first */
    uint32_t n_events;     /* 1 + the largest event */
    EchId *strings[2];     /* [n_strings]: in the builder, as it is and behind the program's name; ECH_NONE while nothing asked for it */
    EchId *queues;         /* queues[n_queues]: in the builder; NULL before the first run */
    EchId block;           /* in the builder, or ECH_NONE */
    EchBytes block_bytes;  /* 0: there are no temporaries */
    uint64_t block_offset; /* where it begins in the program's plan */
    uint32_t n_runs;
    bool entered; /* its buffers are in the builder */
};

void ech_embedded_free(EchEmbedded *self)
{
    if (!self)
        return;
    g_clear_pointer(&self->parameters, g_array_unref);
    g_clear_pointer(&self->results, g_array_unref);
    g_clear_pointer(&self->trace, ech_trace_unref);
    g_clear_pointer(&self->import, ech_import_free);
    g_free(self->allocated);
    g_free(self->kinds);
    g_free(self->buffers);
    g_free(self->live);
    g_free(self->strings[0]);
    g_free(self->strings[1]);
    g_free(self->queues);
    g_free(self->name);
    g_free(self);
}

/* ---- what the program is ---- */

/* The trace's buffer at a position of an instruction, or ECH_NONE. */
static EchId buffer_at(const EchProgram *p, const EchId *buffers, EchId instruction, uint32_t position)
{
    EchId value = ech_program_value(p, instruction, position);
    return value == ECH_NONE ? ECH_NONE : buffers[p->values[value].buffer];
}

static void find_ends(EchEmbedded *self, const EchId *buffers)
{
    const EchProgram *p = self->import->program;
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(p);
    self->parameters = g_array_new(FALSE, FALSE, sizeof(EchId));
    self->results = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (int64_t number = 0;; number++) {
        EchId instruction = GPOINTER_TO_UINT(g_hash_table_lookup(parameters, &number));
        if (instruction == 0)
            break;
        EchId buffer = buffer_at(p, buffers, instruction - 1, 0);
        g_array_append_val(self->parameters, buffer);
    }
    EchId root = p->computations[p->entry].root;
    const EchShape *shape = &p->shapes[p->instructions[root].shape];
    for (uint32_t k = 0; k < (shape->is_tuple ? shape->n_elements : 1); k++) {
        EchId buffer = buffer_at(p, buffers, root, shape->is_tuple ? ech_program_member_position(p, p->instructions[root].shape, k) : 0);
        g_array_append_val(self->results, buffer);
    }
}

static void sort_buffers(EchEmbedded *self)
{
    const EchBuffer *buffers = ech_trace_buffers(self->trace);
    uint64_t begin = UINT64_MAX, end = 0;
    for (size_t i = 0; i < self->n; i++) {
        const EchBuffer *b = &buffers[i];
        bool hbm = strcmp(ech_trace_memory(self->trace, b->memory), "hbm") == 0;
        if (b->resident)
            self->kinds[i] = b->role == ECH_ROLE_CONSTANT ? CONSTANT : FETCHED;
        else if (hbm && b->offset != ECH_OFFSET_NONE && b->bytes > 0)
            self->kinds[i] = PART;
        else
            self->kinds[i] = b->loop != ECH_NONE ? LOOPED : OWN;
    }
    const GArray *given[] = {self->parameters, self->results};
    for (unsigned e = 0; e < 2; e++)
        for (guint k = 0; k < given[e]->len; k++)
            if (g_array_index(given[e], EchId, k) != ECH_NONE)
                self->kinds[g_array_index(given[e], EchId, k)] = GIVEN;
    for (size_t i = 0; i < self->n; i++) {
        if (buffers[i].alias_of != ECH_NONE)
            self->kinds[i] = self->kinds[ech_buffer_root(buffers, (EchId)i, NULL)];
        else if (self->kinds[i] == PART) {
            begin = MIN(begin, buffers[i].offset);
            end = MAX(end, ech_bytes_add(buffers[i].offset, buffers[i].bytes));
        }
    }
    self->block_offset = begin;
    self->block_bytes = end > begin ? end - begin : 0;
}

static void count_events(EchEmbedded *self)
{
    const EchOp *ops = ech_trace_ops(self->trace);
    for (size_t i = 0; i < ech_trace_n_ops(self->trace); i++)
        if ((ops[i].kind == ECH_OP_SIGNAL || ops[i].kind == ECH_OP_WAIT) && ops[i].target != ECH_NONE)
            self->n_events = MAX(self->n_events, ops[i].target + 1);
}

static EchTrace *lower(EchEmbedded *self, const EchDevice *chip, const EchDevice *device, EchId *buffers, EchDiag *diag, GError **error)
{
    EchProgram *p = self->import->program;
    if (!p->assignment) {
        const EchMemory *hbm = ech_device_memory(chip, "hbm");
        EchProgramAssignment *made = ech_program_assign(p, hbm ? hbm->assignment_limit : 0, diag, error);
        if (!made)
            return NULL;
        ech_program_set_assignment(p, made, "made by echelon");
    }
    const EchDevice *runs_on = device ? device : chip;
    bool tpu = g_strcmp0(runs_on->family, "tpu") == 0;
    const EchLowerOptions options = {
        .loop_trips = 1, .price_on = tpu ? runs_on : NULL, .price_by_model = tpu && ech_kernel_stands_alone(runs_on), .buffers = buffers};
    return ech_program_lower(p, chip, &options, diag, error);
}

EchEmbedded *ech_embedded_new(const char *path, const char *name, const char *chip, const char *device, EchBytes temporary, EchDiag *diag, GError **error)
{
    g_autoptr(EchEmbedded) self = g_new0(EchEmbedded, 1);
    self->name = g_strdup(name);
    self->block = ECH_NONE;
    g_autoptr(EchDevice) compiled = ech_device_load(chip, NULL, error);
    g_autoptr(EchDevice) asked = compiled && device ? ech_device_load(device, NULL, error) : NULL;
    if (!compiled || (device && !asked))
        return NULL;
    const EchImportOptions options = {.device = chip};
    self->import = ech_import_file(path, "hlo", &options, error);
    if (!self->import)
        return NULL;
    g_autofree EchId *buffers = g_new(EchId, self->import->program->n_buffers + 1);
    self->trace = lower(self, compiled, asked, buffers, diag, error);
    if (!self->trace)
        return NULL;
    self->n = ech_trace_n_buffers(self->trace);
    self->kinds = g_new0(uint8_t, self->n + 1);
    self->live = g_new0(bool, self->n + 1);
    self->buffers = g_new(EchId, self->n + 1);
    memset(self->buffers, 0xff, (self->n + 1) * sizeof *self->buffers);
    find_ends(self, buffers);
    self->allocated = g_new0(bool, self->results->len + 1);
    for (guint k = self->results->len; k-- > 0;) {
        EchId id = g_array_index(self->results, EchId, k);
        self->allocated[k] = id != ECH_NONE && !ech_trace_buffers(self->trace)[id].resident;
        for (guint j = 0; j < k && self->allocated[k]; j++)
            self->allocated[k] = g_array_index(self->results, EchId, j) != id;
    }
    sort_buffers(self);
    self->block_bytes = MAX(self->block_bytes, temporary);
    count_events(self);
    size_t n_strings = ech_trace_n_strings(self->trace);
    for (unsigned k = 0; k < G_N_ELEMENTS(self->strings); k++) {
        self->strings[k] = g_new(EchId, n_strings + 1);
        memset(self->strings[k], 0xff, (n_strings + 1) * sizeof(EchId));
    }
    return g_steal_pointer(&self);
}

size_t ech_embedded_n_parameters(const EchEmbedded *self)
{
    return self->parameters->len;
}

size_t ech_embedded_n_results(const EchEmbedded *self)
{
    return self->results->len;
}

bool ech_embedded_allocates(const EchEmbedded *self, size_t k)
{
    return self->allocated[k];
}

size_t ech_embedded_n_ops(const EchEmbedded *self)
{
    return ech_trace_n_ops(self->trace) + 2 * self->n + self->results->len + 4;
}

void ech_embedded_tell(const EchEmbedded *self, EchTraceBuilder *builder)
{
    static const char *const keys[] = {"platform", "chip", "estimates_for", "estimates_scaled_from", ECH_INSIDES_OF};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const char *value = ech_trace_get_property(self->trace, keys[i]);
        if (value)
            ech_trace_builder_set_property(builder, keys[i], value);
    }
}

/* ---- a run ---- */

/* @named: "fusion.3" is many programs'. */
static EchId string_of(EchEmbedded *self, EchTraceBuilder *b, EchId string, bool named)
{
    if (string == ECH_NONE)
        return ECH_NONE;
    EchId *known = &self->strings[named][string];
    if (*known == ECH_NONE) {
        const char *text = ech_trace_string(self->trace, string);
        g_autofree char *whole = named ? g_strdup_printf("%s/%s", self->name, text) : NULL;
        *known = ech_trace_builder_string(b, whole ? whole : text, -1);
    }
    return *known;
}

static EchId memory_of(const EchEmbedded *self, EchTraceBuilder *b, EchId memory)
{
    return memory == ECH_NONE ? ECH_NONE : ech_trace_builder_memory(b, ech_trace_memory(self->trace, memory));
}

EchId ech_embedded_queue(EchTraceBuilder *builder, GHashTable *queues, const char *name, EchQueueKind kind)
{
    EchId known = GPOINTER_TO_UINT(g_hash_table_lookup(queues, name));
    if (known > 0)
        return known - 1;
    EchId made = ech_trace_builder_queue(builder, name, kind, 0);
    g_hash_table_insert(queues, g_strdup(name), GUINT_TO_POINTER(made + 1));
    return made;
}

/* Buffer @i as the builder is to have it. */
static EchBuffer made_of(EchEmbedded *self, EchTraceBuilder *b, size_t i)
{
    EchBuffer own = ech_trace_buffers(self->trace)[i];
    own.name = string_of(self, b, own.name, true);
    own.memory = memory_of(self, b, own.memory);
    own.stack = string_of(self, b, own.stack, false);
    own.shape = string_of(self, b, own.shape, false);
    own.queue = own.pool = own.segment = own.loop = ECH_NONE;
    if (strcmp(ech_trace_memory(self->trace, ech_trace_buffers(self->trace)[i].memory), "hbm") == 0)
        own.offset = ECH_OFFSET_NONE; /* of the program's own plan */
    own.resident = 0;
    return own;
}

/* Its own buffers, the same for all runs. */
static void enter(EchEmbedded *self, EchTraceBuilder *b, GHashTable *queues)
{
    if (self->entered)
        return;
    self->entered = true;
    self->queues = g_new(EchId, ech_trace_n_queues(self->trace) + 1);
    for (size_t i = 0; i < ech_trace_n_queues(self->trace); i++) {
        const EchQueue *queue = &ech_trace_queues(self->trace)[i];
        self->queues[i] = ech_embedded_queue(b, queues, ech_trace_string(self->trace, queue->name), (EchQueueKind)queue->kind);
    }
    if (self->block_bytes > 0) {
        EchBuffer block = ech_buffer_init();
        g_autofree char *name = g_strdup_printf("temporaries of %s", self->name);
        block.name = ech_trace_builder_string(b, name, -1);
        block.memory = ech_trace_builder_memory(b, "hbm");
        block.role = ECH_ROLE_TEMPORARY;
        block.bytes = block.dense = self->block_bytes;
        self->block = ech_trace_builder_buffer(b, block);
    }
    for (size_t i = 0; i < self->n; i++) {
        if (self->kinds[i] == GIVEN || self->kinds[i] == LOOPED)
            continue;
        EchBuffer own = made_of(self, b, i);
        if (own.alias_of != ECH_NONE) {
            own.alias_of = self->buffers[own.alias_of];
        } else if (self->kinds[i] == PART) {
            own.alias_of = self->block;
            own.alias_offset = ech_trace_buffers(self->trace)[i].offset - self->block_offset;
        }
        if (own.alias_of != ECH_NONE)
            own.offset = ECH_OFFSET_NONE;
        self->buffers[i] = ech_trace_builder_buffer(b, own);
    }
}

/* Those of this run: arguments, results, and what a loop makes for each iteration. @base: the first of its ops. */
static void give(EchEmbedded *self, EchTraceBuilder *b, const EchId *arguments, const EchId *results, EchId base)
{
    const EchBuffer *buffers = ech_trace_buffers(self->trace);
    for (guint k = self->results->len; k-- > 0;) { /* of two that lie in one place the first */
        EchId id = g_array_index(self->results, EchId, k);
        if (id != ECH_NONE)
            self->buffers[id] = results[k];
    }
    for (guint k = 0; k < self->parameters->len; k++) {
        EchId id = g_array_index(self->parameters, EchId, k);
        if (id != ECH_NONE)
            self->buffers[id] = arguments[k];
    }
    for (size_t i = 0; i < self->n; i++) {
        if (self->kinds[i] == GIVEN && buffers[i].alias_of != ECH_NONE) {
            self->buffers[i] = self->buffers[ech_buffer_root(buffers, (EchId)i, NULL)];
        } else if (self->kinds[i] == LOOPED) {
            EchBuffer own = made_of(self, b, i);
            own.loop = base + buffers[i].loop;
            if (own.alias_of != ECH_NONE)
                own.alias_of = self->buffers[own.alias_of];
            self->buffers[i] = ech_trace_builder_buffer(b, own);
        }
    }
}

static void allot(EchTraceBuilder *b, EchOpKind kind, EchId queue, EchId buffer)
{
    EchOp op = ech_op_init(kind);
    op.queue = queue;
    op.target = buffer;
    op.bytes = ech_trace_builder_peek_buffer(b, buffer)->bytes;
    ech_trace_builder_op(b, op);
}

/* When a temporary comes and goes: the block is there all the time, and what is ordered by it stays so. */
static bool is_moment(const EchEmbedded *self, const EchOp *op)
{
    return (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE) && self->kinds[op->target] == PART;
}

/* A collective's launch, with whom it meets. */
static EchId meeting(EchTraceBuilder *b, EchId launch, EchEmbeddedRanks *ranks)
{
    g_autoptr(GString) text = g_string_new(ech_trace_builder_peek_string(b, launch));
    if (text->len > 0)
        g_string_append_c(text, ' ');
    ech_meets_print(text, (EchMeeting){.group = ranks->n, .times = ranks->met++});
    return ech_trace_builder_string(b, text->str, -1);
}

/* @begin: the op that the run begins with, for what waits for nothing in it; ECH_NONE inside of loops. */
static void append_op(EchEmbedded *self, EchTraceBuilder *b, size_t i, EchId base, EchId begin, EchEmbeddedRanks *ranks)
{
    const EchOp *from = &ech_trace_ops(self->trace)[i];
    EchOp op = *from;
    op.name = string_of(self, b, op.name, true);
    op.queue = op.queue == ECH_NONE ? ECH_NONE : self->queues[op.queue];
    op.stack = string_of(self, b, op.stack, false);
    op.launch = string_of(self, b, op.launch, false);
    op.memory_to = memory_of(self, b, op.memory_to);
    if (op.kind != ECH_OP_COLLECTIVE) /* whose is the size of its group */
        op.memory_from = memory_of(self, b, op.memory_from);
    else if (begin != ECH_NONE && ranks->n > 1 && op.memory_from == ranks->n)
        op.launch = meeting(b, op.launch, ranks);
    if (is_moment(self, from)) {
        op.kind = ECH_OP_MARK;
        op.target = ECH_NONE;
        op.bytes = 0;
    } else if (op.kind == ECH_OP_ALLOC || op.kind == ECH_OP_FREE) {
        op.target = self->buffers[from->target];
    } else if (op.kind != ECH_OP_LOOP && op.target != ECH_NONE)
        op.target += self->n_runs * self->n_events;
    ech_trace_builder_op(b, op);
    for (uint32_t u = from->first_use; u < from->first_use + from->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(self->trace)[u];
        ech_trace_builder_use(b, self->buffers[use->buffer], (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = from->first_dep; d < from->first_dep + from->n_deps; d++) {
        const EchDep *dep = &ech_trace_deps(self->trace)[d];
        ech_trace_builder_dep(b, base + dep->op, dep->distance);
    }
    if (from->n_deps == 0 && begin != ECH_NONE)
        ech_trace_builder_dep(b, begin, 0);
    for (uint32_t w = from->first_work; w < from->first_work + from->n_work; w++) {
        const EchWork *work = &ech_trace_work(self->trace)[w];
        ech_trace_builder_work(b, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
    }
}

/* A WAIT on @core; returns it. */
static EchId wait_on(EchEmbedded *self, EchTraceBuilder *b, EchId core)
{
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.name = ech_trace_builder_string(b, self->name, -1);
    wait.queue = core;
    return ech_trace_builder_op(b, wait);
}

/* What is there before the program's first op: the block, what it finds, results that none of its ops allocates. */
static void allot_before(EchEmbedded *self, EchTraceBuilder *b, EchId core, const EchId *results, const EchResultPlace *places)
{
    if (self->block != ECH_NONE)
        allot(b, ECH_OP_ALLOC, core, self->block);
    for (size_t i = 0; i < self->n; i++) {
        bool whole = ech_trace_buffers(self->trace)[i].alias_of == ECH_NONE;
        if (whole && ((self->kinds[i] == CONSTANT && self->n_runs == 0) || self->kinds[i] == FETCHED)) {
            allot(b, ECH_OP_ALLOC, core, self->buffers[i]);
            self->live[i] = true;
        }
    }
    for (guint k = 0; k < self->results->len; k++)
        if (places[k] == ECH_RESULT_MADE && !self->allocated[k])
            allot(b, ECH_OP_ALLOC, core, results[k]);
}

/* What it leaves on chip, and the block, are gone behind its last op. */
static void allot_after(EchEmbedded *self, EchTraceBuilder *b, EchId core)
{
    for (size_t i = 0; i < self->n; i++) {
        if (self->live[i] && (self->kinds[i] == OWN || self->kinds[i] == FETCHED)) {
            allot(b, ECH_OP_FREE, core, self->buffers[i]);
            self->live[i] = false;
        }
    }
    if (self->block != ECH_NONE)
        allot(b, ECH_OP_FREE, core, self->block);
}

EchId ech_embedded_run(EchEmbedded *self, EchTraceBuilder *b, EchEmbeddedRanks *ranks, GHashTable *queues, const EchId *arguments, const EchId *results,
                       const EchResultPlace *places, EchId after)
{
    const EchOp *ops = ech_trace_ops(self->trace);
    size_t n = ech_trace_n_ops(self->trace), n_queues = ech_trace_n_queues(self->trace), body_end = 0;
    EchId core = ech_embedded_queue(b, queues, "core", ECH_QUEUE_COMPUTE);
    enter(self, b, queues);
    EchId begin = wait_on(self, b, core);
    if (after != ECH_NONE)
        ech_trace_builder_dep(b, after, 0);
    allot_before(self, b, core, results, places);
    EchId base = (EchId)ech_trace_builder_n_ops(b);
    give(self, b, arguments, results, base);
    g_autofree EchId *last = g_new(EchId, n_queues + 1); /* outside of loops, on each queue */
    memset(last, 0xff, (n_queues + 1) * sizeof *last);
    for (size_t i = 0; i < n; i++) {
        bool outside = i >= body_end;
        if (outside && ops[i].kind == ECH_OP_LOOP)
            body_end = i + 1 + ops[i].target;
        if (ops[i].kind == ECH_OP_ALLOC || ops[i].kind == ECH_OP_FREE)
            self->live[ops[i].target] = ops[i].kind == ECH_OP_ALLOC;
        append_op(self, b, i, base, outside ? begin : ECH_NONE, ranks);
        if (outside && ops[i].queue != ECH_NONE && self->queues[ops[i].queue] != core)
            last[ops[i].queue] = base + (EchId)i;
    }
    EchId end = wait_on(self, b, core);
    for (size_t q = 0; q < n_queues; q++)
        if (last[q] != ECH_NONE)
            ech_trace_builder_dep(b, last[q], 0);
    allot_after(self, b, core);
    self->n_runs++;
    return end;
}
