/* Unified memory: the device's memory holds what was touched last of a larger one, or of managed buffers, and ops wait for the rest of what they touch. */
#include "sim/base/error.h"
#include "sim/replay/machine_private.h"

G_STATIC_ASSERT(ECH_MANAGED_READ_MOSTLY >> 1 == ECH_ADVICE_READ_MOSTLY && ECH_MANAGED_ON_HOST >> 1 == ECH_ADVICE_ON_HOST);
G_STATIC_ASSERT(ECH_MANAGED_ON_DEVICE >> 1 == ECH_ADVICE_ON_DEVICE && ECH_MANAGED_MAPPED >> 1 == ECH_ADVICE_MAPPED);

/* Pages of managed buffers are numbered from here on, apart from each other and from addresses of the device's memory. */
#define FIRST_PAGES (UINT64_C(1) << 62)
#define PAGES_ROUND (UINT64_C(2) << 20)

static bool find_link(EchMachine *m, const EchMemory *memory, GError **error)
{
    const EchMemory *host = ech_device_memory_kind(m->device, ECH_MEM_HOST_PINNED);
    bool forward;
    const EchLink *link = host ? ech_device_transfer_link(m->device, host, memory, &forward) : NULL;
    if (host && host->within) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "unified memory: %s and its host have one memory", m->device->name);
        return false;
    }
    bool has = g_strcmp0(m->device->family, "gpu") == 0 && !ech_device_is_amd(m->device);
    if (!has || !link || link->to_device == 0 || link->from_device == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "unified memory: %s %s; expected an NVIDIA GPU with a link to the host", m->device->name,
                    has ? "says nothing of a link to the host" : "has no driver that moves pages when they are touched, as far as is known here");
        return false;
    }
    m->host_link = (uint32_t)(link - m->device->links);
    m->link_parts[0] = m->link_parts[1] = NOWHERE;
    for (uint32_t r = 0; r < m->prices->n_resources; r++) {
        EchResourceKind kind = (EchResourceKind)m->prices->kinds[r];
        if (m->prices->owners[r] == m->host_link && (kind == ECH_RESOURCE_LINK_TO || kind == ECH_RESOURCE_LINK_FROM))
            m->link_parts[kind == ECH_RESOURCE_LINK_TO] = r;
    }
    return true;
}

/* What @op does with pages. */
static TouchKind touch_kind(const EchMachine *m, const EchOp *op)
{
    if (ech_op_is_prefetch(m->trace, op))
        return op->memory_to == m->managed_memory ? TOUCH_TO_DEVICE : TOUCH_TO_HOST;
    if (op->queue != ECH_NONE && ech_trace_queues(m->trace)[op->queue].kind == ECH_QUEUE_HOST)
        return TOUCH_BY_HOST;
    return op->kind == ECH_OP_COPY ? TOUCH_BY_COPY : TOUCH_BY_KERNEL;
}

static bool has_pages(const EchMachine *m, const EchBuffer *buffer)
{
    return buffer->managed || (m->unified && buffer->memory == m->managed_memory);
}

/* Adds @touch to those of an op, which begin at @first. What is both read and written is touched once; so far back is looked for that. */
static void add_touch(GArray *touches, uint32_t first, const Touch *touch)
{
    enum { LOOKED_BACK = 64 };
    for (uint32_t t = touches->len; t-- > first && touches->len - t <= LOOKED_BACK;) {
        Touch *other = &g_array_index(touches, Touch, t);
        if (other->life == touch->life && other->offset == touch->offset && other->bytes == touch->bytes && other->whole == touch->whole) {
            other->reads |= touch->reads;
            other->writes |= touch->writes;
            return;
        }
    }
    g_array_append_vals(touches, touch, 1);
}

/* What every op touches of the memory. */
static void compile_touches(EchMachine *m)
{
    size_t n_buffers = ech_trace_n_buffers(m->trace);
    g_autofree uint32_t *current = g_new(uint32_t, n_buffers + 1); /* Life of each buffer at the op that is looked at. */
    for (size_t b = 0; b < n_buffers; b++)
        current[b] = NOWHERE;
    for (uint32_t l = 0; l < m->n_lives; l++) {
        if (m->lives[l].alloc_op == NOWHERE)
            current[m->lives[l].buffer] = l;
    }
    g_autoptr(GArray) touches = g_array_new(FALSE, FALSE, sizeof(Touch));
    const EchUse *uses = ech_trace_uses(m->trace);
    m->first_touch = g_new(uint32_t, m->n_ops + 1);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const EchOp *op = &m->ops[i];
        m->first_touch[i] = touches->len;
        if (op->kind == ECH_OP_ALLOC)
            current[op->target] = m->op_life[i];
        for (uint32_t u = op->first_use; ech_op_is_work(op) && u < op->first_use + op->n_uses; u++) {
            EchBytes offset, whole = m->buffers[uses[u].buffer].bytes;
            EchId root = ech_buffer_root(m->buffers, uses[u].buffer, &offset);
            uint32_t life = current[root];
            if (life == NOWHERE || !has_pages(m, &m->buffers[root]) || m->buffers[root].bytes <= offset)
                continue;
            whole = MIN(whole, m->buffers[root].bytes - offset);
            uint32_t alloc = m->lives[life].alloc_op;
            Touch touch = {.life = life,
                           .div = trips_between(m, m->op_loop[i], alloc == NOWHERE ? NOWHERE : m->op_loop[alloc]),
                           .offset = offset,
                           .bytes = MIN(uses[u].bytes, whole),
                           .whole = whole,
                           .kind = touch_kind(m, op),
                           .reads = uses[u].access != ECH_WRITE,
                           .writes = uses[u].access != ECH_READ};
            if (touch.bytes > 0)
                add_touch(touches, m->first_touch[i], &touch);
        }
    }
    m->first_touch[m->n_ops] = touches->len;
    m->touches = (Touch *)(void *)g_array_free(g_steal_pointer(&touches), FALSE);
}

/* Bytes of each life, used in parts, which are not known to be used: a use of less than a buffer does not say of which part, and is taken to be of its
 * beginning; iterations of a loop use one part after another. Views say where they lie. */
static EchBytes *untold_by_life(const EchMachine *m)
{
    EchBytes *untold = g_new0(EchBytes, m->n_lives + 1);
    g_autofree EchBytes *reached = g_new0(EchBytes, m->n_lives + 1);
    g_autofree bool *of_parts = g_new0(bool, m->n_lives + 1);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        for (uint32_t t = m->first_touch[i]; t < m->first_touch[i + 1]; t++) {
            const Touch *touch = &m->touches[t];
            EchBytes bytes = MIN(ech_bytes_mul(touch->bytes, MAX(m->mult[i], 1u)), touch->whole), all = m->buffers[m->lives[touch->life].buffer].bytes;
            reached[touch->life] = MAX(reached[touch->life], touch->offset + bytes);
            of_parts[touch->life] |= touch->whole == all && bytes < all;
        }
    }
    for (uint32_t l = 0; l < m->n_lives; l++)
        untold[l] = of_parts[l] ? m->buffers[m->lives[l].buffer].bytes - reached[l] : 0;
    return untold;
}

/* Most of them that are there at one time. */
static EchBytes most_untold(const EchMachine *m)
{
    g_autofree EchBytes *untold = untold_by_life(m);
    EchBytes now = 0, most = 0;
    for (uint32_t l = 0; l < m->n_lives; l++)
        now = ech_bytes_add(now, m->lives[l].alloc_op == NOWHERE ? untold[l] : 0);
    most = now;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        if (m->op_life[i] == NOWHERE)
            continue;
        EchBytes its = untold[m->op_life[i]];
        now = m->ops[i].kind == ECH_OP_ALLOC ? ech_bytes_add(now, its) : now - MIN(now, its);
        most = MAX(most, now);
    }
    return most;
}

static bool any_managed(const EchTrace *trace)
{
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++) {
        if (ech_trace_buffers(trace)[b].managed)
            return true;
    }
    return false;
}

/* Managed buffers have what others leave of the memory. */
static void compile_managed(EchMachine *m, EchDiag *diag)
{
    g_autoptr(GError) why = NULL;
    if (!any_managed(m->trace) || ech_trace_get_property(m->trace, "migrations_recorded"))
        return;
    for (uint32_t i = 0; i < m->n_memories && !m->managed && !why; i++) {
        const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, i));
        if (!memory || memory->kind != ECH_MEM_HBM || !find_link(m, memory, &why))
            continue;
        m->managed_memory = i;
        m->managed = ech_managed_new(m->limits[i], m->device->links[m->host_link].coherent);
    }
    if (why)
        ech_diag_remark(diag, "managed buffers cost no migration here: %s", why->message);
}

bool ech_machine_compile_unified(EchMachine *m, EchDiag *diag, GError **error)
{
    for (uint32_t i = 0; i < m->n_memories && !m->managed; i++) {
        const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, i));
        if (!memory || memory->kind != ECH_MEM_HBM)
            continue;
        EchBytes there = (memory->available ? memory->available : memory->capacity) - m->memories[i].context;
        if (m->limits[i] == UINT64_MAX || m->limits[i] <= there)
            continue;
        if (!find_link(m, memory, error))
            return false;
        m->unified = true;
        m->managed_memory = i;
        m->memories[i].on_device = there;
        m->memories[i].limit = m->limits[i];
        m->managed = ech_managed_new(there, m->device->links[m->host_link].coherent);
    }
    if (!m->managed)
        compile_managed(m, diag);
    if (!m->managed)
        return true;
    const EchMemory *host = ech_device_memory_kind(m->device, ECH_MEM_HOST_PINNED), *hbm = ech_device_memory_kind(m->device, ECH_MEM_HBM);
    m->managed_most = m->unified ? m->limits[m->managed_memory] : ech_bytes_add(hbm->capacity, host->capacity);
    m->next_pages = FIRST_PAGES;
    compile_touches(m);
    m->memories[m->managed_memory].untold = m->unified ? most_untold(m) : 0;
    return true;
}

/* Where pages of an instance of @buffer lie; of one in unified memory, which has addresses there, all of it. */
static EchManagedRange range_of(const EchMachine *m, const EchBuffer *buffer, const Instance *instance)
{
    if (!buffer->managed)
        return (EchManagedRange){.bytes = UINT64_MAX};
    return (EchManagedRange){
        .address = instance->pages, .bytes = MIN(buffer->bytes, m->managed_most), .advice = (unsigned)buffer->managed >> 1, .of_host = true};
}

void ech_machine_give_pages(EchMachine *m, const EchBuffer *buffer, Instance *instance)
{
    if (!m->managed || !buffer->managed)
        return;
    EchBytes bytes = MIN(buffer->bytes, m->managed_most), all = ech_bytes_add(m->next_pages, ech_bytes_add(bytes, PAGES_ROUND));
    instance->pages = all < UINT64_MAX ? m->next_pages : FIRST_PAGES; /* long since free */
    m->next_pages = ech_round_up(instance->pages + MAX(bytes, 1), PAGES_ROUND);
    m->managed_live = ech_bytes_add(m->managed_live, buffer->bytes);
    m->memories[m->managed_memory].managed = MAX(m->memories[m->managed_memory].managed, m->managed_live);
}

void ech_machine_take_pages_back(EchMachine *m, const EchBuffer *buffer, const Instance *instance)
{
    if (!m->managed || !buffer->managed)
        return;
    EchManagedRange range = range_of(m, buffer, instance);
    ech_managed_forget(m->managed, &range);
    m->managed_live -= MIN(m->managed_live, buffer->bytes);
}

void ech_machine_press(EchMachine *m, uint32_t memory, EchBytes taken)
{
    if (m->managed && !m->unified && memory == m->managed_memory)
        ech_managed_set_room(m->managed, m->limits[memory] - MIN(m->limits[memory], taken), &m->pressed_out);
}

/* The live instance that @touch means, or NULL. Of a life that turns over there is one at a time, but for its last uses. */
static const Instance *instance_of(EchMachine *m, const Touch *touch, uint64_t ordinal)
{
    const Life *life = &m->lives[touch->life];
    if (!life->turns_over)
        return ech_machine_find_instance(m, touch->life, life->alloc_op == NOWHERE ? 0 : ordinal / touch->div, false);
    return life->last == NOWHERE ? NULL : &g_array_index(m->instances, Instance, life->last);
}

static bool has_address(const Instance *instance)
{
    return instance && instance->allocated && instance->address != ECH_OFFSET_NONE && instance->address != ECH_ADDRESS_NONE;
}

/* Which part of what it is a part of @touch is, in the op's instance @ordinal: slices of an array, an iteration each. */
static EchBytes part_at(const Touch *touch, uint64_t ordinal)
{
    return ordinal % (touch->whole / touch->bytes) * touch->bytes;
}

static void touch_pages(EchMachine *m, const Touch *touch, uint64_t ordinal, EchMigration *migration)
{
    const EchBuffer *buffer = &m->buffers[m->lives[touch->life].buffer];
    const Instance *instance = instance_of(m, touch, ordinal);
    if (!(buffer->managed ? instance && instance->allocated : has_address(instance)))
        return;
    EchManagedRange range = range_of(m, buffer, instance);
    EchBytes offset = ech_bytes_add(buffer->managed ? 0 : instance->address, touch->offset + part_at(touch, ordinal)),
             bytes = MIN(touch->bytes, m->managed_most);
    if (touch->kind == TOUCH_BY_COPY && buffer->managed) /* moves no pages: it brings the data itself (uvm_perf_thrashing.c, of non-replayable faults) */
        range.advice |= ECH_ADVICE_MAPPED;
    if (touch->kind <= TOUCH_BY_COPY)
        ech_managed_touch(m->managed, &range, offset, bytes, touch->reads, touch->writes, migration);
    else
        ech_managed_move(m->managed, &range, offset, bytes, touch->kind == TOUCH_TO_DEVICE, migration);
    migration->faults = migration->faults || touch->kind == TOUCH_BY_HOST;
}

EchTime ech_machine_touch(EchMachine *m, uint32_t op, uint64_t ordinal, EchMigration *ret)
{
    *ret = (EchMigration){0};
    if (m->ops[op].kind == ECH_OP_ALLOC) {
        *ret = m->pressed_out;
        m->pressed_out = (EchMigration){0};
    }
    for (uint32_t t = m->first_touch[op]; t < m->first_touch[op + 1]; t++)
        touch_pages(m, &m->touches[t], ordinal, ret);
    if (!m->unified && m->ops[op].kind == ECH_OP_COPY && m->ops[op].memory_from != m->ops[op].memory_to)
        ret->read = ret->written = 0; /* what crosses the link is priced */
    return ech_managed_time(&m->device->links[m->host_link], ret);
}

void ech_machine_populate(EchMachine *m, uint32_t life)
{
    const EchBuffer *buffer = &m->buffers[m->lives[life].buffer];
    const Instance *instance = ech_machine_find_instance(m, life, 0, false);
    EchMigration before_the_run = {0};
    const EchManagedRange all = {.bytes = UINT64_MAX};
    if (m->unified && !m->paged_before && buffer->memory == m->managed_memory && has_address(instance))
        ech_managed_touch(m->managed, &all, instance->address, MIN(buffer->bytes, m->limits[buffer->memory]), false, true, &before_the_run);
}

bool ech_machine_may_page(const EchMachine *m)
{
    return m->managed &&
           (!m->unified || m->memories[m->managed_memory].peak_reserved > m->memories[m->managed_memory].on_device || ech_managed_on_host(m->managed) > 0);
}

bool ech_machine_begins_paged(const EchMachine *m)
{
    return m->managed && (m->options->whole || !ech_trace_get_property(m->trace, "time_zero_ps"));
}

void ech_machine_take_pages(EchMachine *m, EchMachine *earlier)
{
    ech_managed_free(m->managed);
    m->managed = g_steal_pointer(&earlier->managed);
    m->paged_before = true;
}
