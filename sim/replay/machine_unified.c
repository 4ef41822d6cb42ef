/* Unified memory: the device's memory holds what was touched last of a larger one, and ops wait for the rest of what they touch. */
#include "sim/base/error.h"
#include "sim/replay/machine_private.h"

static bool find_link(EchMachine *m, const EchMemory *memory, GError **error)
{
    const EchMemory *host = ech_device_memory_kind(m->device, ECH_MEM_HOST_PINNED);
    bool forward;
    const EchLink *link = host ? ech_device_transfer_link(m->device, host, memory, &forward) : NULL;
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
            if (life == NOWHERE || m->buffers[root].memory != m->managed_memory || m->buffers[root].bytes <= offset)
                continue;
            whole = MIN(whole, m->buffers[root].bytes - offset);
            uint32_t alloc = m->lives[life].alloc_op;
            Touch touch = {.life = life,
                           .div = trips_between(m, m->op_loop[i], alloc == NOWHERE ? NOWHERE : m->op_loop[alloc]),
                           .offset = offset,
                           .bytes = MIN(uses[u].bytes, whole),
                           .whole = whole,
                           .reads = uses[u].access != ECH_WRITE,
                           .writes = uses[u].access != ECH_READ};
            if (touch.bytes > 0)
                g_array_append_val(touches, touch);
        }
    }
    m->first_touch[m->n_ops] = touches->len;
    m->touches = (Touch *)(void *)g_array_free(g_steal_pointer(&touches), FALSE);
}

bool ech_machine_compile_unified(EchMachine *m, GError **error)
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
        m->managed_memory = i;
        m->memories[i].on_device = there;
        m->memories[i].limit = m->limits[i];
        m->managed = ech_managed_new(there, m->device->links[m->host_link].coherent);
        compile_touches(m);
    }
    return true;
}

/* The live instance that @touch means, or NULL. Of a life that turns over there is one at a time, but for its last uses. */
static const Instance *instance_of(EchMachine *m, const Touch *touch, uint64_t ordinal)
{
    const Life *life = &m->lives[touch->life];
    if (!life->turns_over)
        return ech_machine_find_instance(m, touch->life, life->alloc_op == NOWHERE ? 0 : ordinal / touch->div, false);
    return life->first == NOWHERE ? NULL : &g_array_index(m->instances, Instance, life->first);
}

static bool has_address(const Instance *instance)
{
    return instance && instance->allocated && instance->address != ECH_OFFSET_NONE && instance->address != ECH_ADDRESS_NONE;
}

EchTime ech_machine_touch(EchMachine *m, uint32_t op, uint64_t ordinal, EchMigration *ret)
{
    *ret = (EchMigration){0};
    for (uint32_t t = m->first_touch[op]; t < m->first_touch[op + 1]; t++) {
        const Touch *touch = &m->touches[t];
        const Instance *instance = instance_of(m, touch, ordinal);
        if (!has_address(instance))
            continue;
        /* Slices of an array, an iteration each. */
        EchBytes at = ordinal % (touch->whole / touch->bytes) * touch->bytes;
        ech_managed_touch(m->managed, instance->address + touch->offset + at, MIN(touch->bytes, m->limits[m->managed_memory]), touch->reads, touch->writes,
                          ret);
    }
    const EchLink *link = &m->device->links[m->host_link];
    return ech_managed_time(link, ret, link->coherent);
}

void ech_machine_populate(EchMachine *m, uint32_t life)
{
    const EchBuffer *buffer = &m->buffers[m->lives[life].buffer];
    const Instance *instance = ech_machine_find_instance(m, life, 0, false);
    EchMigration before_the_run = {0};
    if (m->managed && !m->paged_before && buffer->memory == m->managed_memory && has_address(instance))
        ech_managed_touch(m->managed, instance->address, MIN(buffer->bytes, m->limits[buffer->memory]), false, true, &before_the_run);
}

bool ech_machine_may_page(const EchMachine *m)
{
    return m->managed && (m->memories[m->managed_memory].peak_reserved > m->memories[m->managed_memory].on_device || ech_managed_on_host(m->managed) > 0);
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
