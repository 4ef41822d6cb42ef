#include "sim/replay/machine_private.h"

#include "sim/base/compare.h"
#include "sim/trace/allocator_marks.h"

enum { N_HOLDERS = G_N_ELEMENTS(((EchOutcome *)NULL)->holders) };

/* ALLOCs and uses of the buffer before the op at @position in its instance @ordinal. */
Position ech_machine_count_before(const EchMachine *m, uint64_t position, uint64_t ordinal)
{
    Position count = m->positions[position];
    for (uint32_t t = count.first_turn; t < count.first_turn + count.n_turns; t++) {
        const Turn *turn = &m->turns[t];
        uint64_t iteration = ordinal / turn->div % turn->trips;
        count.allocs += iteration * m->rates[turn->rate].allocs;
        count.uses += iteration * m->rates[turn->rate].uses;
    }
    return count;
}

/* Which instance of its life a use by an op's instance @ordinal means. */
uint64_t ech_machine_instance_used(const EchMachine *m, const LifeUse *use, uint64_t ordinal)
{
    const Life *life = &m->lives[use->life];
    if (life->turns_over)
        return ech_machine_count_before(m, use->div, ordinal).allocs - 1;
    return life->alloc_op == NOWHERE ? 0 : ordinal / use->div;
}

/* What one iteration of loop @l adds to the numbers of a life's instances, all zero if the loop does not allocate it. */
Rate ech_machine_rate_in(const EchMachine *m, const Life *life, uint32_t l)
{
    const Loop *loop = &m->loops[l];
    if (!life->turns_over) {
        bool made = life->alloc_op != NOWHERE && life->alloc_op > loop->op && life->alloc_op < loop->end && m->mult[life->alloc_op] > 0;
        return (Rate){.loop = l, .allocs = made ? trips_between(m, m->op_loop[life->alloc_op], l) : 0};
    }
    uint32_t low = life->first_rate, high = low + life->n_rates;
    ECH_SEARCH(low, high, middle, m->rates[middle].loop < l);
    bool found = low < life->first_rate + life->n_rates && m->rates[low].loop == l && m->rates[low].allocs > 0;
    return found ? m->rates[low] : (Rate){.loop = l};
}

static void add_point(EchMachine *m, uint32_t memory)
{
    EchMemoryState *state = &m->memories[memory];
    EchPoint point = {.time = m->now, .live = state->live, .reserved = state->reserved};
    GArray *series = state->series;
    if (series->len > 0) {
        EchPoint *last = &g_array_index(series, EchPoint, series->len - 1);
        if (last->live == point.live && last->reserved == point.reserved)
            return;
        if (last->time == point.time) {
            /* A peak inside one instant stays visible. */
            const EchPoint *before = series->len > 1 ? &g_array_index(series, EchPoint, series->len - 2) : NULL;
            if (!(before && before->time == point.time && before->live >= last->live)) {
                bool falls = point.live < last->live;
                if (!falls) {
                    *last = point;
                    return;
                }
            } else {
                *last = point;
                return;
            }
        }
    }
    if (series->len >= MAX(m->options->max_points, 16u)) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < series->len; i += 2) {
            EchPoint a = g_array_index(series, EchPoint, i), b = g_array_index(series, EchPoint, MIN(i + 1, series->len - 1));
            a.live = MAX(a.live, b.live);
            a.reserved = MAX(a.reserved, b.reserved);
            g_array_index(series, EchPoint, n++) = a;
        }
        g_array_set_size(series, n);
    }
    g_array_append_val(series, point);
}

/* What a memory holds of the one that it shares with others: of an allocator's what is in use, for it gives the rest back before it is refused. */
static EchBytes holds(const EchMachine *m, uint32_t memory, bool reserved)
{
    const EchMemoryState *state = &m->memories[memory];
    EchBytes fixed = m->has_fixed[memory] ? state->fixed_extent : 0;
    return m->allocators[memory] ? reserved ? state->reserved : ech_bytes_add(fixed, state->live) : MAX(state->live, fixed);
}

/* The same of all that share one with @memory, which is shared. */
static EchBytes held_together(const EchMachine *m, uint32_t memory, bool reserved)
{
    EchBytes sum = 0;
    for (uint32_t i = 0; i < m->n_memories; i++)
        sum = m->whole[i] == m->whole[memory] ? ech_bytes_add(sum, holds(m, i, reserved)) : sum;
    return sum;
}

static bool is_shared(const EchMachine *m, uint32_t memory)
{
    return m->whole && m->whole[memory] != NOWHERE;
}

/* Whether what is freed in one of them is room in the other. */
static bool are_one(const EchMachine *m, uint32_t memory, uint32_t other)
{
    return memory == other || (is_shared(m, memory) && m->whole[other] == m->whole[memory]);
}

bool ech_machine_is_taken_by_others(const EchMachine *m, const EchBuffer *buffer)
{
    if (!is_shared(m, buffer->memory))
        return false;
    EchBytes limit = m->limits[m->whole[buffer->memory]], held = held_together(m, buffer->memory, false);
    bool planned = buffer->offset != ECH_OFFSET_NONE; /* and counted */
    return held > limit || (!planned && buffer->bytes > limit - held);
}

static void note_memory(EchMachine *m, uint32_t memory)
{
    EchMemoryState *state = &m->memories[memory];
    EchBytes reserved = m->has_fixed[memory] ? state->fixed_extent : 0;
    if (m->allocators[memory]) {
        ech_allocator_stats(m->allocators[memory], &state->alloc);
        reserved = ech_bytes_add(reserved, ech_bytes_add(state->alloc.reserved, state->alloc.direct));
        state->peak_reserved = MAX(state->peak_reserved, ech_bytes_add(m->has_fixed[memory] ? state->fixed_extent : 0, state->alloc.peak_taken));
    } else {
        reserved = MAX(reserved, state->live);
    }
    state->reserved = reserved;
    state->peak_reserved = MAX(state->peak_reserved, reserved);
    if (state->live > state->peak_live) {
        state->peak_live = state->live;
        state->peak_at = m->now;
        state->peak_born = state->allocs + state->frees;
    }
    if (is_shared(m, memory)) {
        EchMemoryState *whole = &m->memories[m->whole[memory]];
        whole->peak_together = MAX(whole->peak_together, held_together(m, memory, true));
    }
    add_point(m, memory);
    bool keeps = m->options->allocator && *m->options->allocator; /* what is freed; else the driver has it back */
    ech_machine_press(m, memory, keeps ? reserved : state->live);
}

static uint32_t new_instance(EchMachine *m)
{
    if (m->free_instance != NOWHERE) {
        uint32_t at = m->free_instance;
        m->free_instance = g_array_index(m->instances, Instance, at).next;
        return at;
    }
    g_array_set_size(m->instances, m->instances->len + 1);
    return m->instances->len - 1;
}

/* Uses and FREEs mostly mean the first of a list, ALLOCs the last or one behind it: queues of a loop may be many iterations apart. */
Instance *ech_machine_find_instance(EchMachine *m, uint32_t life, uint64_t ordinal, bool make)
{
    Life *of = &m->lives[life];
    uint32_t before = of->last, at = of->last;
    if (at != NOWHERE && g_array_index(m->instances, Instance, at).ordinal > ordinal) {
        at = of->first;
        before = NOWHERE;
    }
    for (; at != NOWHERE && g_array_index(m->instances, Instance, at).ordinal < ordinal; at = g_array_index(m->instances, Instance, at).next)
        before = at;
    if (at != NOWHERE && g_array_index(m->instances, Instance, at).ordinal == ordinal)
        return &g_array_index(m->instances, Instance, at);
    if (!make)
        return NULL;
    uint32_t made = new_instance(m);
    Instance *instance = &g_array_index(m->instances, Instance, made);
    *instance = (Instance){.ordinal = ordinal, .next = at, .alloc_id = NOWHERE, .placed = NOWHERE};
    *(before == NOWHERE ? &of->first : &g_array_index(m->instances, Instance, before).next) = made;
    if (at == NOWHERE)
        of->last = made;
    return instance;
}

uint32_t ech_machine_stream(const EchMachine *m, EchId queue, EchId pool)
{
    uint32_t stream = queue == ECH_NONE ? 0 : queue;
    return pool == ECH_NONE ? stream : (pool + 1) * m->n_queues + stream;
}

/* Keeps the largest, largest first; of as many bytes those that came first. */
static void add_holder(EchMachine *m, EchHolder holder)
{
    size_t *n = &m->out.failure.n_holders, place = *n;
    while (place > 0 && m->out.holders[place - 1].bytes < holder.bytes)
        place--;
    if (place >= N_HOLDERS)
        return;
    *n = MIN(*n + 1, (size_t)N_HOLDERS);
    for (size_t k = *n - 1; k > place; k--)
        m->out.holders[k] = m->out.holders[k - 1];
    m->out.holders[place] = holder;
}

/* What other processes leave of a memory. */
static EchBytes limit_now(const EchMachine *m, uint32_t memory)
{
    EchBytes limit = m->limits[memory];
    return memory == m->hbm && limit != UINT64_MAX ? limit - MIN(limit, m->elsewhere) : limit;
}

void ech_machine_record_failure(EchMachine *m, uint32_t memory, EchId op, EchId buffer, EchBytes asked, EchFit fit)
{
    m->memories[memory].failed++;
    if (!m->out.fits)
        return;
    EchMemoryState *state = &m->memories[memory];
    m->out.fits = false;
    m->out.failed_memory = memory;
    m->out.failure = (EchFailure){.op = op,
                                  .buffer = buffer,
                                  .time = m->now,
                                  .asked = asked,
                                  .live = state->live,
                                  .reserved = state->reserved,
                                  .limit = limit_now(m, memory),
                                  .fit = fit};
    m->out.failure.elsewhere = memory == m->hbm ? m->elsewhere : 0;
    if (is_shared(m, memory)) { /* what it found no room beside */
        m->out.failure.limit = m->limits[m->whole[memory]];
        m->out.failure.live = held_together(m, memory, false);
        m->out.failure.reserved = held_together(m, memory, true);
    }
    if (buffer != ECH_NONE && m->allocators[memory]) {
        const EchBuffer *b = &m->buffers[buffer];
        EchAllocStats stats;
        ech_allocator_counters(m->allocators[memory], &stats);
        m->out.failure.direct = stats.direct;
        m->out.failure.kept =
            b->direct ? stats.reserved - stats.live : ech_allocator_kept(m->allocators[memory], ech_machine_stream(m, b->queue, b->pool), b->pool != ECH_NONE);
    }
    for (uint32_t l = 0; l < m->n_lives; l++) {
        uint32_t its = m->buffers[m->lives[l].buffer].memory;
        if (its != memory && !(is_shared(m, its) && is_shared(m, memory)))
            continue;
        for (uint32_t at = m->lives[l].first; at != NOWHERE; at = g_array_index(m->instances, Instance, at).next) {
            const Instance *instance = &g_array_index(m->instances, Instance, at);
            if (instance->allocated)
                add_holder(m, (EchHolder){.buffer = m->lives[l].buffer, .bytes = instance->bytes, .address = instance->address});
        }
    }
}

/* Whose stream asks for a buffer, or gives it back, by op @op: the buffer's own, or where it has none and the allocator goes by queues the op's. */
static uint32_t stream_of(const EchMachine *m, const EchBuffer *buffer, EchId op)
{
    bool by_op = m->freed_before && buffer->queue == ECH_NONE && op != ECH_NONE && ech_allocator_orders_streams(m->allocators[buffer->memory]);
    return ech_machine_stream(m, by_op ? queue_of(m, op) : buffer->queue, buffer->pool);
}

static EchAllocRequest request_of(const EchMachine *m, const EchBuffer *buffer, uint32_t id, EchId op)
{
    bool pool = buffer->pool != ECH_NONE;
    return (EchAllocRequest){.id = id,
                             .bytes = buffer->bytes,
                             .stream = stream_of(m, buffer, op),
                             .upper_end = buffer->upper_end,
                             .private_pool = pool,
                             .captured = ech_buffer_is_captured(m->trace, buffer),
                             .direct = buffer->direct != 0};
}

/* Tries to give life @life its bytes. */
EchFit ech_machine_allocate(EchMachine *m, uint32_t life, uint64_t ordinal, EchId op)
{
    const EchBuffer *buffer = &m->buffers[m->lives[life].buffer];
    uint32_t memory = buffer->memory;
    EchMemoryState *state = &m->memories[memory];
    EchPlacement place = {.rounded = buffer->bytes, .reservation = -1};
    uint32_t id = NOWHERE;
    const EchPlacement *held = op == ECH_NONE && m->held ? g_hash_table_lookup(m->held, GUINT_TO_POINTER(m->lives[life].buffer + 1)) : NULL;
    if (held) {
        id = m->lives[life].buffer;
        place = *held;
    } else if (buffer->offset != ECH_OFFSET_NONE) {
        place.offset = place.address = buffer->offset;
        EchBytes limit = limit_now(m, memory);
        if (buffer->bytes > limit || buffer->offset > limit - buffer->bytes || ech_machine_is_taken_by_others(m, buffer))
            ech_machine_record_failure(m, memory, op, m->lives[life].buffer, buffer->bytes, ECH_FIT_FULL);
    } else if (ech_machine_is_taken_by_others(m, buffer)) {
        return ECH_FIT_FULL;
    } else if (m->allocators[memory] && !buffer->managed) {
        id = m->next_id[memory];
        EchAllocRequest request = request_of(m, buffer, id, op);
        EchFit fit = ech_allocator_alloc(m->allocators[memory], &request, &place);
        if (fit != ECH_FIT_OK)
            return fit;
        m->next_id[memory]++;
    } else if (buffer->bytes > limit_now(m, memory) || state->live > limit_now(m, memory) - buffer->bytes) {
        return ECH_FIT_FULL;
    } else {
        place.address = place.offset = ECH_OFFSET_NONE;
    }
    Instance *instance = ech_machine_find_instance(m, life, ordinal, true);
    instance->allocated = true;
    instance->alloc_id = id;
    instance->bytes = place.rounded;
    instance->address = place.address;
    ech_machine_give_pages(m, buffer, instance);
    state->live = ech_bytes_add(state->live, place.rounded);
    state->allocs++;
    if (m->placed->len < m->options->max_spans) {
        instance->placed = m->placed->len;
        EchPlaced placed = {.op = op,
                            .buffer = m->lives[life].buffer,
                            .iteration = ordinal,
                            .begin = m->now,
                            .end = -1,
                            .born = state->allocs + state->frees,
                            .died = UINT64_MAX,
                            .place = place};
        g_array_append_val(m->placed, placed);
    }
    note_memory(m, memory);
    return ECH_FIT_OK;
}

/* By op @op, which freed it or was the last that used it. */
static void release(EchMachine *m, uint32_t life, uint64_t ordinal, uint32_t op)
{
    const EchBuffer *buffer = &m->buffers[m->lives[life].buffer];
    uint32_t memory = buffer->memory;
    EchMemoryState *state = &m->memories[memory];
    Life *of = &m->lives[life];
    uint32_t before = NOWHERE, at = of->first;
    for (; at != NOWHERE && g_array_index(m->instances, Instance, at).ordinal != ordinal; at = g_array_index(m->instances, Instance, at).next)
        before = at;
    if (at == NOWHERE)
        return;
    Instance *instance = &g_array_index(m->instances, Instance, at);
    *(before == NOWHERE ? &of->first : &g_array_index(m->instances, Instance, before).next) = instance->next;
    if (at == of->last)
        of->last = before;
    if (instance->allocated) {
        m->frees++;
        if (instance->alloc_id != NOWHERE)
            ech_allocator_free_on(m->allocators[memory], instance->alloc_id, stream_of(m, buffer, op), m->frees);
        ech_machine_take_pages_back(m, buffer, instance);
        state->live -= MIN(state->live, instance->bytes);
        state->frees++;
        if (instance->placed != NOWHERE) {
            EchPlaced *placed = &g_array_index(m->placed, EchPlaced, instance->placed);
            placed->end = m->now;
            placed->died = state->allocs + state->frees;
        }
        note_memory(m, memory);
    }
    instance->next = m->free_instance;
    m->free_instance = at;
    for (uint32_t i = 0; i < m->n_memories; i++)
        if (are_one(m, i, memory))
            wake_list(m, &m->space_waiters[i]);
}

void ech_machine_end_uses(EchMachine *m, uint32_t op, uint64_t ordinal)
{
    for (uint32_t u = m->first_life[op]; u < m->first_life[op + 1]; u++) {
        const LifeUse *use = &m->life_uses[u];
        uint64_t of = ech_machine_instance_used(m, use, ordinal);
        Instance *instance = ech_machine_find_instance(m, use->life, of, true);
        instance->ended++;
        if (instance->freed && instance->ended >= instance->users) {
            m->pending_frees[m->buffers[m->lives[use->life].buffer].memory]--;
            release(m, use->life, of, op);
        }
    }
}

void ech_machine_run_free(EchMachine *m, uint32_t op, uint64_t ordinal)
{
    uint32_t l = m->op_life[op];
    if (l == NOWHERE)
        return;
    const Life *life = &m->lives[l];
    Position before = {.allocs = 1 + (life->alloc_op == NOWHERE ? 0 : ordinal), .uses = life->users};
    if (life->turns_over)
        before = ech_machine_count_before(m, m->op_position[op], ordinal);
    uint64_t of = before.allocs - 1;
    Instance *instance = ech_machine_find_instance(m, l, of, false);
    if (!instance)
        return;
    instance->users = before.uses - instance->used_before;
    if (instance->ended >= instance->users) {
        release(m, l, of, op);
        return;
    }
    instance->freed = true;
    m->pending_frees[m->buffers[life->buffer].memory]++;
}

/* A private pool is released, which what it gives back tells. */
static void release_pool(EchMachine *m, const EchOp *op, EchId pool)
{
    const EchQueue *queues = ech_trace_queues(m->trace);
    for (uint32_t q = 0; q + 1 < m->n_queues; q++) {
        if (op->queue != ECH_NONE && queues[q].device != queues[op->queue].device)
            continue;
        for (uint32_t i = 0; i < m->n_memories; i++) {
            if (m->allocators[i])
                ech_allocator_pool_done(m->allocators[i], ech_machine_stream(m, q, pool));
        }
    }
}

void ech_machine_run_mark(EchMachine *m, const EchOp *op)
{
    const char *name = ech_trace_string(m->trace, op->name), *pool = ech_mark_pool(name);
    if (!ech_mark_gives_segment(name))
        return;
    EchId stack = op->stack, id = pool && m->pools ? (EchId)GPOINTER_TO_UINT(g_hash_table_lookup(m->pools, pool)) - 1 : ECH_NONE;
    if (id != ECH_NONE)
        release_pool(m, op, id);
    uint64_t address;
    if (m->begun != NOWHERE && ech_mark_address(name, &address) && ech_allocator_give_back(m->allocators[m->begun], address, op->bytes)) {
        note_memory(m, m->begun);
        return;
    }
    if (pool || stack == ECH_NONE || !ech_stack_empties_cache(ech_trace_string(m->trace, stack)))
        return;
    for (uint32_t i = 0; i < m->n_memories; i++) {
        const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, i));
        if (!m->allocators[i] || !memory || memory->kind != ECH_MEM_HBM)
            continue;
        (void)ech_allocator_empty_cache(m->allocators[i]);
        note_memory(m, i);
    }
}

void ech_machine_hold(EchMachine *m, EchId buffer, const EchPlacement *place)
{
    if (!m->held)
        m->held = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    g_hash_table_insert(m->held, GUINT_TO_POINTER(buffer + 1), g_memdup2(place, sizeof *place));
}

/* What allocators hold in @memory before the trace, which has no lives by then. */
static void add_held(EchMachine *m, uint32_t memory)
{
    for (size_t i = 0; m->held && i < ech_trace_n_buffers(m->options->whole); i++) {
        const EchPlacement *place = g_hash_table_lookup(m->held, GUINT_TO_POINTER(i + 1));
        if (place && ech_trace_buffers(m->options->whole)[i].memory == memory)
            add_holder(m, (EchHolder){.buffer = (EchId)i, .bytes = place->rounded, .address = place->address});
    }
}

/* Asked for before the trace: under the buffer's number, as long as it is held. */
static void ask_before(EchMachine *m, EchId id)
{
    const EchBuffer *buffer = &ech_trace_buffers(m->options->whole)[id];
    EchAllocator *allocator = m->allocators[buffer->memory];
    if (!allocator || buffer->alias_of != ECH_NONE || buffer->offset != ECH_OFFSET_NONE)
        return;
    EchAllocRequest request = request_of(m, buffer, id, ECH_NONE);
    EchPlacement place = {.reservation = -1};
    EchFit fit = ech_allocator_alloc(allocator, &request, &place);
    if (fit == ECH_FIT_OK) {
        m->memories[buffer->memory].live += place.rounded;
        ech_machine_hold(m, id, &place);
        return;
    }
    EchAllocStats stats;
    ech_allocator_counters(allocator, &stats);
    m->memories[buffer->memory].reserved = ech_bytes_add(stats.reserved, stats.direct);
    bool first = m->out.fits;
    ech_machine_record_failure(m, buffer->memory, ECH_NONE, id, buffer->bytes, fit);
    if (first)
        add_held(m, buffer->memory);
    m->stop = !m->options->keep_going;
}

static void give_back_before(EchMachine *m, EchId id)
{
    const EchPlacement *place = m->held ? g_hash_table_lookup(m->held, GUINT_TO_POINTER(id + 1)) : NULL;
    if (!place)
        return;
    uint32_t memory = ech_trace_buffers(m->options->whole)[id].memory;
    ech_allocator_release(m->allocators[memory], id);
    m->memories[memory].live -= MIN(m->memories[memory].live, place->rounded);
    g_hash_table_remove(m->held, GUINT_TO_POINTER(id + 1));
}

void ech_machine_run_before(EchMachine *m)
{
    const EchTrace *whole = m->options->whole;
    if (!whole)
        return;
    size_t n_buffers = ech_trace_n_buffers(whole);
    for (uint32_t i = 0; i < m->n_memories; i++)
        m->next_id[i] = (uint32_t)n_buffers;
    for (size_t i = 0; i < n_buffers && m->held; i++) {
        const EchPlacement *place = g_hash_table_lookup(m->held, GUINT_TO_POINTER(i + 1));
        if (place)
            m->memories[ech_trace_buffers(whole)[i].memory].live += place->rounded;
    }
    for (size_t i = 0; i < n_buffers && !m->stop; i++) {
        if (ech_trace_buffers(whole)[i].resident && !(m->held && g_hash_table_contains(m->held, GUINT_TO_POINTER(i + 1))))
            ask_before(m, (EchId)i);
    }
    for (size_t i = 0; i < m->options->n_before && !m->stop; i++) {
        const EchOp *op = &ech_trace_ops(whole)[i];
        if (op->kind == ECH_OP_ALLOC)
            ask_before(m, op->target);
        else if (op->kind == ECH_OP_FREE)
            give_back_before(m, op->target);
        else if (op->kind == ECH_OP_MARK)
            ech_machine_run_mark(m, op);
    }
    for (uint32_t i = 0; i < m->n_memories; i++) { /* what is held is resident, and counted as that */
        m->memories[i].live = m->memories[i].peak_live = m->memories[i].peak_reserved = m->memories[i].peak_together = 0;
        g_array_set_size(m->memories[i].series, 0);
        if (m->allocators[i])
            ech_allocator_reset_peaks(m->allocators[i]);
    }
}

/* Of one that is not shared with others. */
static bool may_come_in(const EchMachine *m, uint32_t queue, uint32_t memory, uint32_t op)
{
    if (m->pending_frees[memory] > 0)
        return true;
    for (uint32_t q = 0; q < m->n_queues; q++) {
        const Queue *other = &m->queues[q];
        if (q == queue || other->state == STATE_FINISHED || (other->state == STATE_BLOCKED && other->reason == ECH_WAIT_SPACE))
            continue;
        uint32_t end = m->last_free[(size_t)q * m->n_memories + memory];
        if (!m->host_ordered && end > (other->depth > 0 ? 0 : other->at))
            return true;
        for (uint32_t e = other->at; m->host_ordered && e < end && other->entries[e].id < op; e++)
            if (m->ops[other->entries[e].id].kind == ECH_OP_FREE && m->buffers[m->ops[other->entries[e].id].target].memory == memory)
                return true;
    }
    return false;
}

/* Whether bytes of @memory may become free without @queue, at @op, going on. A host that asks for one thing after another asks for nothing while it waits: what
 * it frees later does not help. */
bool ech_machine_space_may_come(const EchMachine *m, uint32_t queue, uint32_t memory, uint32_t op)
{
    for (uint32_t i = 0; i < m->n_memories; i++)
        if (are_one(m, i, memory) && may_come_in(m, queue, i, op))
            return true;
    return false;
}
