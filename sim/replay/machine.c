#include "sim/replay/machine_private.h"

#include <math.h>
#include <string.h>

/* Running an op */

/* Of what a collective's price has of a link, what its bytes are: that is a share of all ports, and they went through those that it used. Of the network it is
 * the bytes. */
static double used_of(const EchMachine *m, const EchPrice *price, uint32_t link)
{
    const EchLink *of = &m->device->links[link];
    return price->ports == 0 || strcmp(of->name, "network") == 0 ? 1 : (double)price->ports / (double)MAX(of->ports, 1u);
}

/* What the parts of a price move over links. */
static void count_over_links(EchMachine *m, const EchPrice *price)
{
    const EchFluidPart *parts = m->prices->parts + price->first_part;
    for (uint32_t k = 0; k < price->n_parts; k++) {
        uint32_t owner = m->prices->owners[parts[k].resource];
        EchResourceKind kind = (EchResourceKind)m->prices->kinds[parts[k].resource];
        if (kind == ECH_RESOURCE_LINK_TO || kind == ECH_RESOURCE_LINK_FROM)
            add_sum(&link_sums(m, owner)[kind == ECH_RESOURCE_LINK_TO ? ECH_SUM_LINK_FORWARD : ECH_SUM_LINK_BACKWARD],
                    (int64_t)(parts[k].amount * used_of(m, price, owner)));
    }
}

/* From now on the link is busy in the ways told. */
static void hold_link(EchMachine *m, uint32_t id, bool backward, bool forward)
{
    LinkState *link = &m->links[id];
    if (link->active[0] + link->active[1] == 0)
        link->since_any = m->now;
    if (backward && link->active[0]++ == 0)
        link->since[0] = m->now;
    if (forward && link->active[1]++ == 0)
        link->since[1] = m->now;
}

static void link_begin(EchMachine *m, const EchPrice *price, const EchOp *op)
{
    hold_link(m, price->link, price->duplex || !price->forward, price->duplex || price->forward);
    int64_t *sums = link_sums(m, price->link);
    sums[ECH_SUM_LINK_TRANSFERS]++;
    if (op->kind == ECH_OP_COPY)
        add_sum(&sums[price->forward ? ECH_SUM_LINK_FORWARD : ECH_SUM_LINK_BACKWARD], (int64_t)MIN(op->bytes, (uint64_t)INT64_MAX));
    else
        count_over_links(m, price);
}

static void release_link(EchMachine *m, uint32_t id, bool backward, bool forward)
{
    LinkState *link = &m->links[id];
    int64_t *sums = link_sums(m, id);
    if (backward && --link->active[0] == 0)
        add_sum(&sums[ECH_SUM_LINK_BUSY_BACKWARD], m->now - link->since[0]);
    if (forward && --link->active[1] == 0)
        add_sum(&sums[ECH_SUM_LINK_BUSY_FORWARD], m->now - link->since[1]);
    if (link->active[0] + link->active[1] == 0)
        add_sum(&sums[ECH_SUM_LINK_BUSY], m->now - link->since_any);
}

/* Whether all engines of way @d are taken: by copies, by those who were woken to take them, by pages that move. */
static bool engines_are_taken(const LinkState *link, int d)
{
    return link->active[d] + link->promised[d] >= link->limit[d];
}

/* An engine of way @d, if one is free, goes to who waits longest. */
static void pass_engine_on(EchMachine *m, uint32_t id, int d)
{
    LinkState *link = &m->links[id];
    uint32_t queue = link->first_waiter[d];
    if (queue != NOWHERE && !engines_are_taken(link, d)) {
        link->first_waiter[d] = m->queues[queue].next_waiter;
        if (link->first_waiter[d] == NOWHERE)
            link->last_waiter[d] = NOWHERE;
        m->queues[queue].next_waiter = NOWHERE;
        m->queues[queue].state = STATE_ENGINE;
        link->promised[d]++;
        schedule(m, queue);
    }
}

static void link_end(EchMachine *m, const EchPrice *price)
{
    release_link(m, price->link, price->duplex || !price->forward, price->duplex || price->forward);
    for (int d = 0; d < 2; d++) {
        if (price->duplex || price->forward == d)
            pass_engine_on(m, price->link, d);
    }
}

/* Collectives bring their own ordering; only copies have engines. */
static bool has_engine(const EchOp *op, const EchPrice *price)
{
    return price->link != ECH_NONE && op->kind == ECH_OP_COPY;
}

/* Copies between memories are asked for ahead: set-up, or the latency of on-chip memory, overlaps the bytes of those before on its queue. What a size curve has
 * beyond the bytes does not: it was measured of copies one after the other. */
static bool sets_up_ahead(const EchOp *op, const EchPrice *price)
{
    return op->kind == ECH_OP_COPY && op->memory_from != op->memory_to && !price->on_engine;
}

static double own_time(const EchPrice *price)
{
    return (double)(price->alone - price->fixed);
}

/* Demand beyond capacity, integrated over time: which of its resources an op had to share most. */
static void press(EchMachine *m, uint32_t r)
{
    if (m->load[r] > 1)
        m->pressed[r] += (m->load[r] - 1) * (double)(m->now - m->pressed_at[r]);
    m->pressed_at[r] = m->now;
}

static uint32_t most_pressed(EchMachine *m, const Queue *q, const EchPrice *price)
{
    double worst = 0;
    uint32_t resource = ECH_NONE;
    for (uint32_t k = 0; k < price->n_parts; k++) {
        uint32_t r = m->prices->parts[price->first_part + k].resource;
        press(m, r);
        if (m->pressed[r] - q->pressed[k] > worst) {
            worst = m->pressed[r] - q->pressed[k];
            resource = r;
        }
    }
    return resource;
}

static void change_load(EchMachine *m, const EchPrice *price, bool begin)
{
    double own = own_time(price);
    const EchFluidPart *parts = m->prices->parts + price->first_part;
    if (!(own > 0))
        return;
    for (uint32_t k = 0; k < price->n_parts; k++) {
        uint32_t r = parts[k].resource;
        press(m, r);
        double load = parts[k].amount * (double)ECH_PS_PER_S / own / m->prices->resources[r].capacity;
        if (begin) {
            m->load[r] += load;
            m->n_load[r]++;
        } else {
            m->load[r] -= load;
            if (--m->n_load[r] == 0)
                m->load[r] = 0;
        }
    }
}

static void begin_work(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchPrice *price = &m->prices->prices[id];
    q->state = STATE_RUNNING;
    q->work_start = m->now;
    if (price->link != ECH_NONE)
        link_begin(m, price, &m->ops[id]);
    change_load(m, price, true);
    for (uint32_t k = 0; k < price->n_parts; k++)
        q->pressed[k] = m->pressed[m->prices->parts[price->first_part + k].resource];
    m->class->start(m->engine, queue, m->prices->parts + price->first_part, price->n_parts, price->minimum);
}

static void end_op(EchMachine *m, uint32_t queue);
static void lift_barrier(EchMachine *m);

/* Blocks of unified memory that the op at the head of @queue touches come, and others go. False: it need not wait. */
static bool begin_paging(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    if (!m->managed)
        return false;
    EchMigration migration;
    EchTime time = ech_machine_touch(m, q->entries[q->at].id, q->ordinal, &migration);
    if (time == 0)
        return false;
    const EchBytes bytes[2] = {ech_bytes_add(migration.from_device, migration.written), ech_bytes_add(migration.to_device, migration.read)};
    EchFluidPart parts[2];
    uint32_t n = 0;
    for (int d = 0; d < 2; d++) {
        if (bytes[d] > 0 && m->link_parts[d] != NOWHERE)
            parts[n++] = (EchFluidPart){.resource = m->link_parts[d], .amount = (double)bytes[d]};
        add_sum(&link_sums(m, m->host_link)[d ? ECH_SUM_LINK_FORWARD : ECH_SUM_LINK_BACKWARD], (int64_t)MIN(bytes[d], (uint64_t)INT64_MAX));
    }
    EchMemoryState *state = &m->memories[m->managed_memory];
    state->paged_in = ech_bytes_add(state->paged_in, bytes[1]);
    state->paged_out = ech_bytes_add(state->paged_out, bytes[0]);
    hold_link(m, m->host_link, true, true);
    q->state = STATE_PAGING;
    q->pages_since = m->now;
    m->class->start(m->engine, queue, parts, n, time);
    return true;
}

static void end_paging(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    if (!ech_op_is_prefetch(m->trace, &m->ops[q->entries[q->at].id])) /* whose work it is */
        q->waits[ECH_WAIT_PAGES] += m->now - q->pages_since;
    m->memories[m->managed_memory].paging = ech_time_add(m->memories[m->managed_memory].paging, m->now - q->pages_since);
    release_link(m, m->host_link, true, true);
    for (int d = 0; d < 2; d++)
        pass_engine_on(m, m->host_link, d);
}

/* After set-up, and when all that it touches is there: the link's engine, then the work. */
static void go_on(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchPrice *price = &m->prices->prices[id];
    if (price->n_parts == 0 && price->minimum == 0 && !has_engine(&m->ops[id], price)) {
        q->work_start = m->now;
        end_op(m, queue);
        return;
    }
    if (has_engine(&m->ops[id], price)) {
        LinkState *link = &m->links[price->link];
        int d = price->forward ? 1 : 0;
        if (engines_are_taken(link, d) || link->first_waiter[d] != NOWHERE) {
            q->state = STATE_BLOCKED;
            q->reason = ECH_WAIT_LINK;
            q->next_waiter = NOWHERE;
            q->ready = m->now;
            if (link->last_waiter[d] == NOWHERE)
                link->first_waiter[d] = queue;
            else
                m->queues[link->last_waiter[d]].next_waiter = queue;
            link->last_waiter[d] = queue;
            return;
        }
    }
    begin_work(m, queue);
}

static void after_fixed(EchMachine *m, uint32_t queue)
{
    if (!begin_paging(m, queue))
        go_on(m, queue);
}

/* The host has asked for the op at the queue's head, and what released it is known here. */
static void end_gap(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    EchTime host = m->prices->gaps ? m->prices->gaps[q->entries[q->at].id] : q->host_gap;
    q->waits[ECH_WAIT_HOST] += host;
    q->waits[ECH_WAIT_DEPENDENCY] += MAX(q->handoff - host, 0);
    q->ready = m->now;
    q->gap_over = true;
    q->state = STATE_IDLE;
    schedule(m, queue);
}

static void start_op(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchPrice *price = &m->prices->prices[id];
    q->start = m->now;
    q->tells_copy = q->tells_copy && !ech_op_is_work(&m->ops[id]);
    EchTime fixed = ech_time_add(price->fixed, q->driver);
    m->out.driver = ech_time_add(m->out.driver, q->driver);
    if (q->driver > 0)
        m->host_free = MAX(m->host_free, ech_time_add(m->now, q->driver));
    q->driver = 0;
    q->drains = false;
    if (sets_up_ahead(&m->ops[id], price)) {
        /* Over a link each set-up follows the one before: n copies of b bytes take n max(set-up, b / rate). The latency of a memory passes for all that are
         * asked for at once. */
        EchTime begin = has_engine(&m->ops[id], price) ? MAX(q->ready, MIN(q->issued, m->now)) : MIN(q->ready, m->now);
        q->issued = ech_time_add(begin, fixed);
        fixed = MAX(q->issued - m->now, 0);
    }
    if (fixed > 0) {
        q->state = STATE_FIXED;
        m->class->start(m->engine, queue, NULL, 0, fixed);
        return;
    }
    after_fixed(m, queue);
}

static void emit_span(EchMachine *m, uint32_t queue, uint32_t resource)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    int64_t *sums = queue_sums(m, queue);
    bool waited = false;
    for (int w = 0; w < ECH_N_WAITS; w++) {
        if (q->waits[w] <= 0)
            continue;
        waited = true;
        add_sum(&m->sums[w], q->waits[w]);
        add_sum(&sums[ECH_SUM_QUEUE_WAITS + w], q->waits[w]);
    }
    add_sum(&sums[ECH_SUM_QUEUE_BUSY], m->now - q->start);
    sums[ECH_SUM_QUEUE_OPS]++;
    m->out.executed++;
    m->out.ops++;
    bool instant = m->now == q->start && m->prices->prices[id].source == ECH_PRICE_FREE;
    if (instant && !waited)
        return;
    if (m->out.spans >= m->options->max_spans) {
        m->out.spans_left_out++;
        return;
    }
    m->out.spans++;
    EchSpan span = {.op = id, .queue = m->ops[id].queue, .iteration = q->ordinal, .start = q->start, .end = m->now, .resource = resource, .awaited = ECH_NONE};
    memcpy(span.waits, q->waits, sizeof span.waits);
    if (m->sink)
        m->sink(&span, m->sink_user);
}

static void end_op(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchOp *op = &m->ops[id];
    const EchPrice *price = &m->prices->prices[id];
    uint32_t resource = q->state == STATE_PAGING && ech_op_is_prefetch(m->trace, op) ? m->link_parts[op->memory_to == m->managed_memory] : price->bound;
    if (q->state == STATE_RUNNING) {
        uint32_t worst = most_pressed(m, q, price);
        change_load(m, price, false);
        /* Longer than alone: charged to the resource under most pressure. A picosecond either way is rounding. */
        EchTime stretch = m->now - q->work_start - (price->alone - price->fixed);
        if (stretch > 1 && worst != ECH_NONE) {
            resource = m->prices->kinds[worst] == ECH_RESOURCE_LINK_LANE ? price->bound : worst;
            EchResourceKind kind = (EchResourceKind)m->prices->kinds[worst];
            EchWait reason = kind == ECH_RESOURCE_PORT                                           ? ECH_WAIT_MEMORY_PORT
                             : kind == ECH_RESOURCE_UNIT || kind == ECH_RESOURCE_MULTIPROCESSORS ? ECH_WAIT_COMPUTE
                                                                                                 : ECH_WAIT_LINK;
            q->waits[reason] += stretch;
        }
        if (price->link != ECH_NONE)
            link_end(m, price);
    }
    if (m->ops[id].kind == ECH_OP_KERNEL) /* memory of the host that it reaches by itself */
        count_over_links(m, price);
    for (uint32_t t = m->first_traffic[id]; t < m->first_traffic[id + 1]; t++) {
        int64_t *sums = memory_sums(m, m->traffic[t].memory);
        add_sum(&sums[ECH_SUM_MEMORY_READ], (int64_t)MIN(m->traffic[t].read, (uint64_t)INT64_MAX));
        add_sum(&sums[ECH_SUM_MEMORY_WRITTEN], (int64_t)MIN(m->traffic[t].written, (uint64_t)INT64_MAX));
        add_sum(&sums[ECH_SUM_MEMORY_CACHED], (int64_t)MIN(m->traffic[t].cached, (uint64_t)INT64_MAX));
    }
    for (uint32_t k = price->first_part; k < price->first_part + price->n_parts; k++)
        m->amounts[m->prices->parts[k].resource] += m->prices->work[k];
    for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++) {
        uint32_t unit = m->kind_unit[price->on_lanes && m->work[w].unit == ECH_WORK_MATRIX ? ECH_WORK_VECTOR : m->work[w].unit];
        if (unit != NOWHERE)
            m->amounts[m->prices->n_resources + unit] += (double)m->work[w].count;
    }
    emit_span(m, queue, resource);
    m->done[id] = q->ordinal + 1;
    m->last_end[id] = m->now;
    m->tells_copy[id] = q->tells_copy;
    if (op->kind == ECH_OP_MARK)
        ech_machine_run_mark(m, &m->ops[id]);
    if (op->kind == ECH_OP_FREE)
        ech_machine_run_free(m, id, q->ordinal);
    else
        ech_machine_end_uses(m, id, q->ordinal);
    if (m->freed_before)
        m->freed_before[id] = m->frees;
    if (m->op_waiters[id] != NOWHERE)
        wake_list(m, &m->op_waiters[id]);
    if (id == m->barrier)
        lift_barrier(m);
    q->at++;
    q->has_head = false;
    q->state = STATE_IDLE;
    schedule(m, queue);
    if (m->progress && (m->out.executed & 1023) == 0)
        __atomic_store_n(m->progress, m->out.ops, __ATOMIC_RELAXED);
    if (m->out.executed > m->options->max_ops && m->options->max_ops > 0) {
        m->out.too_many = true;
        m->stop = true;
    }
}

/* Which instance of need->op the op at the head of its queue waits for. False: none, as in the first iterations of a loop. */
static bool instance_needed(const EchMachine *m, const Queue *q, const Need *need, uint32_t op, uint64_t *ret)
{
    uint64_t iteration = m->op_loop[op] == NOWHERE || q->depth == 0 ? 0 : q->iter[q->depth - 1];
    if (need->distance > 0 && iteration < need->distance)
        return false;
    *ret = (q->ordinal / need->div + 1) * need->times - 1 - need->distance;
    return true;
}

static bool need_met(const EchMachine *m, const Queue *q, const Need *need, uint32_t op)
{
    uint64_t instance;
    return !instance_needed(m, q, need, op, &instance) || m->done[need->op] > instance;
}

/* When another queue released the op at the head by @need, which is met; 0: so long ago that its op has ended again since; -1: it never had to. */
static EchTime released_at(const EchMachine *m, const Queue *q, const Need *need, uint32_t op)
{
    uint64_t instance;
    if (!need->other_queue || !instance_needed(m, q, need, op, &instance))
        return -1;
    return m->done[need->op] == instance + 1 ? m->last_end[need->op] : 0;
}

static bool needs_met(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    for (uint32_t n = m->first_need[op]; n < m->first_need[op + 1]; n++) {
        if (need_met(m, q, &m->needs[n], op))
            continue;
        wait_on(m, queue, &m->op_waiters[m->needs[n].op], ECH_WAIT_DEPENDENCY);
        return false;
    }
    return true;
}

/* Allocators that go by queues: what of other queues the op at the head comes after, and what was over when the host, which is ahead of the GPU as far as it
 * can be, asked for it. */
static void tell_order(EchMachine *m, const Queue *q, uint32_t op)
{
    EchOpKind kind = (EchOpKind)m->ops[op].kind;
    uint64_t instance, passed = 0;
    if (kind == ECH_OP_KERNEL || kind == ECH_OP_COPY) {
        m->freed_by[m->launches++ % ECH_AHEAD] = m->frees;
    } else if (kind == ECH_OP_ALLOC && m->launches >= ECH_AHEAD) {
        passed = m->freed_by[m->launches % ECH_AHEAD];
    }
    for (uint32_t i = 0; i < m->n_memories; i++) {
        if (!m->allocators[i] || !ech_allocator_orders_streams(m->allocators[i]))
            continue;
        if (passed > 0)
            ech_allocator_passed(m->allocators[i], passed);
        for (uint32_t n = m->first_need[op]; n < m->first_need[op + 1]; n++) {
            const Need *need = &m->needs[n];
            if (need->other_queue && instance_needed(m, q, need, op, &instance))
                ech_allocator_ordered(m->allocators[i], ech_machine_stream(m, queue_of(m, need->op), ECH_NONE), m->freed_before[need->op]);
        }
    }
}

/* @asked: when the host asks for the op; until then nothing else held it up. */
static void count_waits(EchMachine *m, Queue *q, uint32_t op, EchTime asked)
{
    memset(q->waits, 0, sizeof q->waits);
    q->ready = m->now;
    q->waits[ECH_WAIT_HOST] = MAX(MIN(asked, m->now) - q->head, 0);
    q->waits[ECH_WAIT_DEPENDENCY] = m->now - q->head - q->waits[ECH_WAIT_HOST];
    EchTime released = -1;
    for (uint32_t n = m->first_need[op]; n < m->first_need[op + 1]; n++)
        released = MAX(released, released_at(m, q, &m->needs[n], op));
    if (m->now == q->head) {
        /* An iteration's own ops are there since it began on their queue, whatever was ready before. */
        EchTime since = q->depth > 0 ? MAX(released, q->began[q->depth - 1]) : released;
        if (released >= 0 && since < m->now)
            q->waits[ECH_WAIT_QUEUE] = m->now - since;
        /* For submitting ahead: everything this op needs was there since then. */
        q->ready = MAX(released, 0);
    }
}

/* Whether the op's end tells that of a copy over a link: it is one, or its queue has waited for one and done no work since. (What copies within a memory, an
 * engine or a kernel, is for the driver to choose.) */
static bool tells_copy(const EchMachine *m, uint32_t op)
{
    return (m->ops[op].kind == ECH_OP_COPY && m->prices->prices[op].link != ECH_NONE) || m->tells_copy[op];
}

/* From the end of an op to where one that it releases in another queue begins. Kernels and copies learn late of each other's ends; queues and copies that only
 * pass on that a copy is over do not: on two H200s parameters that come by copies in a row, each released by the compute queue once it has seen the one before,
 * lose 1 to 2 us between two of them where a kernel between two copies loses 8. */
static EchTime handoff_time(const EchMachine *m, uint32_t from, uint32_t to)
{
    EchOpKind kind = (EchOpKind)m->ops[to].kind;
    if (tells_copy(m, from) && kind != ECH_OP_KERNEL && kind != ECH_OP_COLLECTIVE)
        return m->wait_through;
    return tells_copy(m, from) || m->ops[from].kind == ECH_OP_COPY || kind == ECH_OP_COPY ? m->wait_copy : m->wait_kernel;
}

/* What lies between a kernel and the one before it in its queue. And where another queue released the op at the head, which takes some time to be known here:
 * what is left of that, and at least what looking takes. */
static EchTime handoff_of(const EchMachine *m, Queue *q, uint32_t op)
{
    EchTime left = 0;
    uint32_t before = m->kernel_before ? m->kernel_before[op] : NOWHERE;
    bool work = ech_op_is_work(&m->ops[op]);
    if (before != NOWHERE)
        left = MAX(m->last_end[before] + m->kernel_gap - m->now, 0);
    if (m->wait_kernel <= 0 && m->wait_copy <= 0 && m->wait_passed <= 0)
        return left;
    for (uint32_t n = m->first_need[op]; n < m->first_need[op + 1]; n++) {
        uint32_t from = m->needs[n].op;
        EchTime released = released_at(m, q, &m->needs[n], op);
        if (released >= 0)
            left = MAX(left, MAX(released > 0 ? released + handoff_time(m, from, op) - m->now : 0, m->wait_passed));
        /* A queue that has waited for it itself, not one that comes later. */
        if (!work && released > 0 && released >= q->head && tells_copy(m, from)) {
            q->tells_copy = true;
            q->works_from = MAX(q->works_from, ech_time_add(released, m->wait_copy));
        }
    }
    return work ? MAX(left, q->works_from - m->now) : left;
}

enum { DRIVER_PAGE = 2 << 20 };

/* Picoseconds of @calls of the driver for @pieces of physical memory of @bytes in all. */
static double driver_time(uint64_t calls, uint64_t pieces, EchBytes bytes, const DriverPrice *price, bool beside)
{
    return (double)calls * (double)(beside ? price->beside : price->call) + (double)(pieces - MIN(calls, pieces)) * (double)price->piece +
           MAX((double)bytes / DRIVER_PAGE - (double)pieces, 0) * (double)price->page;
}

static EchTime driver_ps(double ps)
{
    return ps < 1e18 ? (EchTime)ps : ECH_TIME_MAX;
}

/*
 * Where every request is a call of the driver (paced), the host makes its calls as early as it can: one that waits for nothing passes while the device still
 * works on what was asked for before, and what is behind it on a queue of the device begins when the host has come there.
 */
static bool is_on_device(const EchMachine *m, const Queue *q)
{
    return ech_trace_queues(m->trace)[m->ops[q->entries[q->at].id].queue].kind != ECH_QUEUE_HOST;
}

/* Such a host has come to the op at the head of its queue before the device has: that is at work while the host calls. */
static bool host_is_ahead(const EchMachine *m, const Queue *q)
{
    return m->paced && is_on_device(m, q) && m->host_free < m->now;
}

/*
 * Driver calls of allocators. The trace's order is the order in which the host asked: a call that waits for the device ends when everything before it has, and
 * the host asks for nothing behind it until then. Loops repeat their ops, so in traces with loops a call takes its time on its own queue alone. What the
 * allocator had before the recording it takes without a call: how much that was may be known where its places are not.
 */
static void charge_driver(EchMachine *m, Queue *q, uint32_t memory, const EchDriverCalls *before)
{
    EchDriverCalls now;
    ech_allocator_driver(m->allocators[memory], &now);
    uint64_t takes = now.takes - before->takes, gives = now.gives - before->gives, maps = now.maps - before->maps, unmaps = now.unmaps - before->unmaps;
    double ps = driver_time(gives, gives, now.given - before->given, &m->driver_free, false) +
                driver_time(unmaps, now.pieces_unmapped - before->pieces_unmapped, now.unmapped - before->unmapped, &m->driver_unmap, false);
    bool ahead = host_is_ahead(m, q);
    if (ech_bytes_add(now.taken, now.mapped) > m->options->held) {
        ps += driver_time(takes, takes, now.taken - before->taken, &m->driver_malloc, ahead) +
              driver_time(maps, now.pieces_mapped - before->pieces_mapped, now.mapped - before->mapped, &m->driver_map, ahead);
        q->drains = q->drains || (takes > 0 && m->driver_malloc.waits) || (maps > 0 && m->driver_map.waits);
    }
    /* Where every request is a call, one that finds room in a page of others is too. */
    if (m->free_call[memory] && takes + maps == 0)
        ps += (double)m->driver_malloc_small;
    q->drains = q->drains || gives + unmaps > 0;
    if (ahead && q->drains)
        ps += (double)m->trip;
    if (m->paced && is_on_device(m, q) && !q->drains) {
        m->host_free = ech_time_add(m->host_free, driver_ps(ps));
        q->driver = MAX(m->host_free - m->now, 0);
    } else {
        q->driver = ech_time_add(q->driver, driver_ps(ps));
    }
}

/* Whether all ops before the barrier have ended. */
static bool barrier_reached(const EchMachine *m)
{
    for (uint32_t i = 0; i < m->n_queues; i++) {
        const Queue *q = &m->queues[i];
        if (i != m->barrier_queue && q->at < q->n_entries && q->entries[q->at].kind == ENTRY_OP && q->entries[q->at].id < m->barrier)
            return false;
    }
    return true;
}

static void lift_barrier(EchMachine *m)
{
    m->barrier = NOWHERE;
    wake_list(m, &m->barrier_waiters);
}

/* The op at the head of @queue calls the driver and must wait for the device first. False: it waits. */
static bool pass_barrier(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    if (!q->drains || m->n_loops > 0)
        return true;
    if (m->barrier != NOWHERE && m->barrier_queue != queue) /* one at a time */
        return true;
    m->barrier = op;
    m->barrier_queue = queue;
    if (q->stall_since < 0)
        q->stall_since = m->now;
    if (!barrier_reached(m)) {
        q->state = STATE_BLOCKED;
        q->reason = ECH_WAIT_ALLOCATOR;
        q->next_waiter = NOWHERE;
        return false;
    }
    return true;
}

/* Lets the barrier's op go once all before it has ended, or (@stuck) where nothing else goes on. */
static bool try_barrier(EchMachine *m, bool stuck)
{
    Queue *q = &m->queues[m->barrier_queue];
    if (q->state != STATE_BLOCKED || q->reason != ECH_WAIT_ALLOCATOR || (!stuck && !barrier_reached(m)))
        return false;
    q->drains = false;
    q->state = STATE_IDLE;
    schedule(m, m->barrier_queue);
    return true;
}

/* ALLOCs and uses of the life that the ALLOC @op at the head of @q gives memory to, before it. */
static Position before_alloc(const EchMachine *m, const Queue *q, uint32_t op)
{
    return m->lives[m->op_life[op]].turns_over ? ech_machine_count_before(m, m->op_position[op], q->ordinal) : (Position){.allocs = q->ordinal};
}

/* An ALLOC that failed, as if it had fitted: counted, without a place. */
static void go_without(EchMachine *m, uint32_t life, const Position *before)
{
    Instance *instance = ech_machine_find_instance(m, life, before->allocs, true);
    instance->freed = false;
    instance->used_before = before->uses;
}

/* Entries without a price. Returns false when the queue must wait. */
static bool pass_alloc(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    const EchBuffer *buffer = &m->buffers[m->ops[op].target];
    uint32_t life = m->op_life[op];
    Position before = before_alloc(m, q, op);
    const Instance *there = ech_machine_find_instance(m, life, before.allocs, false);
    if (there && there->allocated)
        return true;
    bool driven = m->driven && m->allocators[buffer->memory];
    EchDriverCalls calls = {0};
    if (driven)
        ech_allocator_driver(m->allocators[buffer->memory], &calls);
    EchFit fit = ech_machine_allocate(m, life, before.allocs, op);
    if (driven)
        charge_driver(m, q, buffer->memory, &calls);
    if (fit == ECH_FIT_OK) {
        ech_machine_find_instance(m, life, before.allocs, false)->used_before = before.uses;
        return true;
    }
    if (ech_machine_space_may_come(m, queue, buffer->memory, op)) {
        wait_on(m, queue, &m->space_waiters[buffer->memory], ECH_WAIT_SPACE);
        return false;
    }
    ech_machine_record_failure(m, buffer->memory, op, m->ops[op].target, buffer->bytes, fit);
    if (!m->options->keep_going) {
        m->stop = true;
        return false;
    }
    go_without(m, life, &before);
    return true;
}

/* When the host is through with asking for what stands up to the op. */
static EchTime host_time(const EchMachine *m, uint32_t op)
{
    uint32_t since = m->host_since[op];
    EchTime from = since != NOWHERE && m->done[since] > 0 ? m->last_end[since] : 0;
    if (since != NOWHERE && m->ops[since].kind == ECH_OP_WAIT)
        from = ech_time_add(from, m->options->after_wait);
    return ech_time_add(from, m->host_asked[op]);
}

/* When the host asks for the op; 0: that is not modelled. */
static EchTime asked_at(const EchMachine *m, uint32_t op)
{
    bool asked = m->host_launch > 0 && (ech_op_is_work(&m->ops[op]) || m->ops[op].kind == ECH_OP_WAIT);
    return asked ? host_time(m, op) : 0;
}

static bool on_device(const EchMachine *m, uint32_t op)
{
    return m->ops[op].kind == ECH_OP_KERNEL && m->ops[op].queue != ECH_NONE && ech_trace_queues(m->trace)[m->ops[op].queue].kind != ECH_QUEUE_HOST;
}

static bool is_met(const EchMachine *m, uint32_t op)
{
    return m->ops[op].kind == ECH_OP_COLLECTIVE || m->ops[op].kind == ECH_OP_WAIT || (m->takes_turns && on_device(m, op));
}

/* What the op at the head of @queue meets in other machines. False: it waits for one of them, which says so by ech_machine_meet. */
static bool pass_meeting(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    if (!m->meet(m->meet_user, op)) {
        q->gap_over = true; /* what it depends on here has been seen to */
        q->peers_since = m->now;
        q->state = STATE_BLOCKED;
        q->reason = ECH_WAIT_PEERS;
        q->next_waiter = NOWHERE;
        return false;
    }
    if (q->peers_since >= 0) {
        q->waits[ECH_WAIT_PEERS] = m->now - q->peers_since;
        q->peers_since = -1;
    }
    return true;
}

/* The op at the head of @queue: what it needs, the host's gap before it, the space it asks for, the driver calls that takes. False: the queue must wait. */
static bool may_start(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    if (q->space_since < 0 && !q->gap_over) {
        if (!needs_met(m, queue, op))
            return false;
        EchTime asked = asked_at(m, op);
        count_waits(m, q, op, asked);
        if (m->freed_before)
            tell_order(m, q, op);
        q->handoff = handoff_of(m, q, op);
        q->host_gap = MAX(asked - m->now, 0);
        EchTime gap = MAX(MAX(m->prices->gaps ? m->prices->gaps[op] : 0, q->host_gap), q->handoff);
        /* Until the first call of the driver there is nothing that kept the host from asking ahead. */
        if (m->paced && m->host_free > 0 && (m->ops[op].kind == ECH_OP_KERNEL || m->ops[op].kind == ECH_OP_COPY)) {
            m->host_free = ech_time_add(m->host_free, m->submit);
            gap = MAX(gap, m->host_free - m->now);
        }
        if (gap > 0) {
            q->state = STATE_GAP;
            m->class->start(m->engine, queue, NULL, 0, gap);
            return false;
        }
    }
    if (op > m->barrier && queue != m->barrier_queue) {
        q->gap_over = true; /* what it depends on has been seen to */
        if (q->stall_since < 0)
            q->stall_since = m->now;
        wait_on(m, queue, &m->barrier_waiters, ECH_WAIT_ALLOCATOR);
        return false;
    }
    if (m->meet && is_met(m, op) && !pass_meeting(m, queue, op))
        return false;
    q->gap_over = false;
    if (m->ops[op].kind == ECH_OP_ALLOC && m->barrier != op) {
        EchTime since = q->space_since < 0 ? m->now : q->space_since;
        q->space_since = since;
        if (!pass_alloc(m, queue, op))
            return false;
        q->waits[ECH_WAIT_SPACE] = m->now - since;
        q->space_since = -1;
    } else if (m->driven && m->ops[op].kind == ECH_OP_FREE && m->barrier != op && m->free_call[m->buffers[m->ops[op].target].memory]) {
        EchBytes bytes = m->buffers[m->ops[op].target].bytes;
        const DriverPrice *price = m->free_call[m->buffers[m->ops[op].target].memory];
        bool small = price == &m->driver_free && bytes <= DRIVER_PAGE / 2 && m->driver_free_small > 0;
        q->driver = small ? m->driver_free_small : driver_ps(driver_time(1, 1, ech_round_up(bytes, DRIVER_PAGE), price, false));
        q->driver = ech_time_add(q->driver, host_is_ahead(m, q) ? m->trip : 0);
        q->drains = true;
    }
    if (q->drains && !pass_barrier(m, queue, op)) {
        q->gap_over = true;
        return false;
    }
    if (q->stall_since >= 0) {
        q->waits[ECH_WAIT_ALLOCATOR] += m->now - q->stall_since;
        q->stall_since = -1;
    }
    q->drains = false;
    return true;
}

static void advance(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    if (q->state == STATE_ENGINE) {
        const EchPrice *price = &m->prices->prices[q->entries[q->at].id];
        m->links[price->link].promised[price->forward]--;
        q->waits[ECH_WAIT_LINK] += m->now - q->ready;
        q->start = m->now;
        begin_work(m, queue);
        return;
    }
    while (!m->stop && q->state == STATE_IDLE) {
        if (q->at >= q->n_entries) {
            q->state = STATE_FINISHED;
            return;
        }
        if (!q->has_head) {
            q->has_head = true;
            q->head = m->now;
            memset(q->waits, 0, sizeof q->waits);
        }
        const Entry *entry = &q->entries[q->at];
        switch ((EntryKind)entry->kind) {
        case ENTRY_BEGIN:
            if (!ech_machine_begin_loop(m, queue))
                return;
            break;
        case ENTRY_END:
            q->has_head = false;
            ech_machine_end_iteration(m, queue);
            break;
        case ENTRY_LOOP_START: {
            Loop *loop = &m->loops[entry->id];
            if (!needs_met(m, queue, loop->op))
                return;
            loop->started = q->ordinal + 1;
            q->at++;
            /* Queues at the loop's begin wait on its op. */
            wake_list(m, &m->op_waiters[loop->op]);
            break;
        }
        case ENTRY_LOOP_FINISH: {
            uint32_t op = m->loops[entry->id].op;
            if (!ech_machine_loop_over(m, entry->id, q->ordinal)) {
                m->loop_waiter[entry->id] = queue;
                q->state = STATE_BLOCKED;
                q->reason = ECH_WAIT_DEPENDENCY;
                return;
            }
            if (m->loops[entry->id].marks)
                g_array_set_size(m->loops[entry->id].marks, 0);
            m->done[op] = q->ordinal + 1;
            m->last_end[op] = m->now;
            m->out.ops++;
            m->out.executed++;
            q->at++;
            q->has_head = false;
            wake_list(m, &m->op_waiters[op]);
            break;
        }
        case ENTRY_OP:
            if (!may_start(m, queue, entry->id))
                return;
            start_op(m, queue);
            break;
        }
    }
}

static void drain(EchMachine *m)
{
    g_assert(m->n_queues > 0);
    while (m->todo_n > 0 && !m->stop) {
        uint32_t queue = m->todo[m->todo_first];
        m->todo_first = (m->todo_first + 1) % m->n_queues;
        m->todo_n--;
        m->queues[queue].in_todo = false;
        advance(m, queue);
    }
}

/* All that a memory holds from the start. */
static EchBytes resident_bytes(const EchMachine *m, uint32_t memory)
{
    EchBytes sum = 0;
    for (uint32_t l = 0; l < m->n_lives; l++) {
        if (m->lives[l].alloc_op == NOWHERE && m->buffers[m->lives[l].buffer].memory == memory)
            sum = ech_bytes_add(sum, m->buffers[m->lives[l].buffer].bytes);
    }
    return sum;
}

static void begin_residents(EchMachine *m)
{
    for (uint32_t l = 0; l < m->n_lives && !m->stop; l++) {
        if (m->lives[l].alloc_op != NOWHERE)
            continue;
        const EchBuffer *buffer = &m->buffers[m->lives[l].buffer];
        EchFit fit = ech_machine_allocate(m, l, 0, ECH_NONE);
        if (fit == ECH_FIT_OK) {
            ech_machine_populate(m, l);
            continue;
        }
        /* Which of them finds no room is a matter of their order: what does not fit is all of them. */
        EchBytes all = resident_bytes(m, buffer->memory);
        bool whole = all > m->limits[buffer->memory] && buffer->offset == ECH_OFFSET_NONE;
        ech_machine_record_failure(m, buffer->memory, ECH_NONE, whole ? ECH_NONE : m->lives[l].buffer, whole ? all : buffer->bytes, whole ? ECH_FIT_FULL : fit);
        if (!m->options->keep_going)
            m->stop = true;
    }
}

/* A queue that waits for space which nothing will free any more: the allocation fails. */
static bool fail_stuck(EchMachine *m)
{
    for (uint32_t i = 0; i < m->n_queues; i++) {
        Queue *q = &m->queues[i];
        if (q->state != STATE_BLOCKED || q->reason != ECH_WAIT_SPACE)
            continue;
        uint32_t op = q->entries[q->at].id;
        const EchBuffer *buffer = &m->buffers[m->ops[op].target];
        EchMemoryState *state = &m->memories[buffer->memory];
        bool room =
            state->live <= m->limits[buffer->memory] && buffer->bytes <= m->limits[buffer->memory] - state->live && !ech_machine_is_taken_by_others(m, buffer);
        ech_machine_record_failure(m, buffer->memory, op, m->ops[op].target, buffer->bytes, room ? ECH_FIT_FRAGMENTED : ECH_FIT_FULL);
        if (!m->options->keep_going) {
            m->stop = true;
            return true;
        }
        Position before = before_alloc(m, q, op);
        go_without(m, m->op_life[op], &before);
        uint32_t *link = &m->space_waiters[buffer->memory];
        while (*link != i)
            link = &m->queues[*link].next_waiter;
        *link = q->next_waiter;
        q->next_waiter = NOWHERE;
        q->state = STATE_IDLE;
        q->waits[ECH_WAIT_SPACE] = m->now - q->space_since;
        q->space_since = -1;
        start_op(m, i);
        return true;
    }
    return false;
}

void ech_machine_begin(EchMachine *m, const EchFluidClass *class, void *engine)
{
    m->class = class;
    m->engine = engine;
    ech_machine_run_before(m);
    begin_residents(m);
    for (uint32_t q = 0; q < m->n_queues; q++)
        schedule(m, q);
    drain(m);
}

/* What may go on now does. */
static void settle(EchMachine *m)
{
    drain(m);
    if (m->barrier != NOWHERE && try_barrier(m, false))
        drain(m);
}

void ech_machine_step(EchMachine *m, const uint32_t *tokens, uint32_t n, EchTime now)
{
    m->out.events += n;
    if (now < 0 || now >= ECH_FLUID_END || m->base >= ECH_FLUID_END - now) {
        m->out.too_long = true;
        m->stop = true;
    }
    if (m->stop)
        return;
    m->engine_now = now;
    m->now = m->base + now;
    for (uint32_t i = 0; i < n && !m->stop; i++) {
        uint32_t queue = tokens[i];
        if (m->queues[queue].state == STATE_GAP)
            end_gap(m, queue);
        else if (m->queues[queue].state == STATE_FIXED)
            after_fixed(m, queue);
        else if (m->queues[queue].state == STATE_PAGING) {
            end_paging(m, queue);
            go_on(m, queue);
        } else
            end_op(m, queue);
    }
    settle(m);
}

void ech_machine_meet(EchMachine *m, uint32_t op, EchTime now)
{
    uint32_t queue = queue_of(m, op);
    if (m->stop)
        return;
    m->now = now;
    m->queues[queue].state = STATE_IDLE;
    schedule(m, queue);
    settle(m);
}

bool ech_machine_unstick(EchMachine *m)
{
    if (m->stop || (!(m->barrier != NOWHERE && try_barrier(m, true)) && !fail_stuck(m)))
        return false;
    drain(m);
    return true;
}

bool ech_machine_has_stopped(const EchMachine *m)
{
    return m->stop;
}

void ech_machine_finish(EchMachine *m)
{
    if (m->stop && !m->out.too_many)
        m->out.completed = false;
    else
        m->out.completed = !m->out.too_many;
    for (uint32_t q = 0; q < m->n_queues && !m->stop; q++)
        if (m->queues[q].state != STATE_FINISHED && m->out.stuck == ECH_NONE) {
            const Entry *entry = &m->queues[q].entries[m->queues[q].at];
            m->out.stuck = entry->kind == ENTRY_OP ? entry->id : m->loops[entry->id].op;
        }
    m->out.makespan = m->now;
    for (guint i = 0; i < m->placed->len; i++) {
        EchPlaced *placed = &g_array_index(m->placed, EchPlaced, i);
        if (placed->end < 0)
            placed->end = m->now;
    }
}

void ech_machine_drive(const EchFluidClass *class, void *engine, void *data)
{
    EchMachine *m = data;
    g_autofree uint32_t *tokens = g_new(uint32_t, m->n_queues);
    ech_machine_begin(m, class, engine);
    while (!m->stop) {
        EchTime now;
        uint32_t n = class->next(engine, tokens, &now);
        if (n > 0)
            ech_machine_step(m, tokens, n, now);
        else if (!ech_machine_unstick(m))
            break;
    }
    ech_machine_finish(m);
}

void ech_machine_set_meet(EchMachine *m, EchMachineMeet meet, bool turns, void *user)
{
    m->meet = meet;
    m->meet_user = user;
    m->takes_turns = turns;
}

bool ech_machine_is_on_device(const EchMachine *m)
{
    for (uint32_t i = 0; i < m->n_queues && !m->stop; i++) {
        const Queue *q = &m->queues[i];
        if (q->at >= q->n_entries || q->entries[q->at].kind != ENTRY_OP || !on_device(m, q->entries[q->at].id))
            continue;
        bool asked = q->state == STATE_GAP && q->host_gap <= 0; /* it lies there, and begins once the one before it has ended altogether */
        if (asked || q->state == STATE_FIXED || q->state == STATE_PAGING || q->state == STATE_RUNNING)
            return true;
    }
    return false;
}

bool ech_machine_is_over(const EchMachine *m)
{
    for (uint32_t i = 0; i < m->n_queues && !m->stop; i++)
        if (m->queues[i].state != STATE_FINISHED)
            return false;
    return true;
}

EchBytes ech_machine_holds(const EchMachine *m)
{
    return m->hbm == NOWHERE ? 0 : ech_bytes_add(m->memories[m->hbm].context, m->memories[m->hbm].reserved);
}

void ech_machine_set_elsewhere(EchMachine *m, EchBytes bytes)
{
    m->elsewhere = bytes;
    if (m->hbm != NOWHERE && m->allocators[m->hbm])
        ech_allocator_set_elsewhere(m->allocators[m->hbm], bytes);
}

void ech_machine_set_sink(EchMachine *m, EchSpanSink sink, void *user, uint64_t *progress)
{
    m->sink = sink;
    m->sink_user = user;
    m->progress = progress;
}

EchOutcome *ech_machine_outcome(EchMachine *m)
{
    return &m->out;
}

EchMemoryState *ech_machine_memories(EchMachine *m)
{
    return m->memories;
}

GArray *ech_machine_skips(EchMachine *m)
{
    return m->skips;
}

GArray *ech_machine_placed(EchMachine *m)
{
    return m->placed;
}

int64_t *ech_machine_sums(EchMachine *m, size_t *ret_n)
{
    *ret_n = m->n_sums;
    return m->sums;
}

double *ech_machine_amounts(EchMachine *m, size_t *ret_n)
{
    *ret_n = m->n_amounts;
    return m->amounts;
}

uint32_t ech_machine_max_live(const EchMachine *m)
{
    return m->n_queues;
}

uint64_t ech_machine_total(const EchMachine *m)
{
    uint64_t total = 0;
    for (size_t i = 0; i < m->n_ops; i++)
        total = ech_bytes_add(total, m->mult[i]);
    return total;
}

const char *ech_machine_allocator(const EchMachine *m, uint32_t memory)
{
    return m->allocators[memory] ? ech_allocator_name(m->allocators[memory]) : m->has_fixed[memory] ? "fixed" : "counted";
}

EchTime ech_machine_host_launch(const EchMachine *m, EchTime *ret_operator, uint64_t *ret_waits)
{
    *ret_operator = m->host_operator;
    *ret_waits = m->host_waits;
    return m->host_launch;
}

EchTime ech_machine_host_lead(const EchMachine *m)
{
    return m->host_launch > 0 && m->out.completed && m->n_ops > 0 ? m->now - host_time(m, (uint32_t)m->n_ops - 1) : 0;
}

void ech_machine_set_host_lead(EchMachine *m, EchTime lead)
{
    m->host_lead = lead;
    for (size_t i = 0; i < m->n_ops && m->host_since[i] == NOWHERE; i++)
        m->host_asked[i] = MAX(m->host_asked[i] - lead, 0);
}

EchTime ech_machine_kernel_gap(const EchMachine *m)
{
    return m->kernel_before ? m->kernel_gap : 0;
}

void ech_machine_bounds(const EchMachine *m, EchTime *ret_lower, EchTime *ret_serial)
{
    g_autofree double *queue = g_new0(double, m->n_queues), *gaps = g_new0(double, m->n_queues), *resource = g_new0(double, m->prices->n_resources + 1);
    double serial = 0, lower = 0, waited = 0;
    for (size_t i = 0; i < m->n_ops; i++) {
        const EchPrice *price = &m->prices->prices[i];
        double times = (double)m->mult[i];
        double gap = m->prices->gaps ? (double)m->prices->gaps[i] : 0, handoff = 0;
        for (uint32_t n = m->first_need[i]; n < m->first_need[i + 1]; n++) {
            if (m->needs[n].other_queue)
                handoff = (double)MAX(MAX(m->wait_kernel, m->wait_copy), m->wait_passed);
        }
        handoff += m->kernel_before && m->kernel_before[i] != NOWHERE ? (double)m->kernel_gap : 0;
        serial += times * ((double)price->alone + handoff);
        gaps[queue_of(m, (uint32_t)i)] += times * gap;
        /* The set-up of copies may hide behind what ran before; a picosecond of rounding is in the price alone. */
        double own = sets_up_ahead(&m->ops[i], price) ? own_time(price) : (double)price->alone;
        queue[queue_of(m, (uint32_t)i)] += times * (MAX(own - 1, 0) + gap);
        for (uint32_t k = price->first_part; k < price->first_part + price->n_parts; k++)
            resource[m->prices->parts[k].resource] +=
                times * m->prices->parts[k].amount * (double)ECH_PS_PER_S / m->prices->resources[m->prices->parts[k].resource].capacity;
    }
    double host = (double)m->host_asks + (double)m->options->after_wait * (double)m->host_waits, lead = (double)m->host_lead;
    lower = MAX(host - lead, 0);
    for (uint32_t q = 0; q < m->n_queues; q++) {
        lower = MAX(lower, queue[q]);
        waited = MAX(waited, gaps[q]);
    }
    /* The host is late for all queues at once, and what lies beside other work is counted there. */
    serial += MAX(host, host - lead) + (m->prices->gaps_beside ? 0 : waited);
    for (uint32_t r = 0; r < m->prices->n_resources; r++)
        lower = MAX(lower, resource[r]);
    *ret_lower = lower < 9e18 ? (EchTime)floor(lower) : ECH_TIME_MAX;
    *ret_serial = serial < 9e18 ? (EchTime)ceil(serial) : ECH_TIME_MAX;
}
