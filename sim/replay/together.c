/* Several ranks on one engine: each has a machine and resources of its own, and its collectives begin when all that they meet are ready.
 *
 * Calls are the collectives of all ranks, and their hosts' waits for other hosts, meetings what their words stand for (sim/trace/meets.h), parties the calls of
 * a meeting. A message that finds room in its channel's buffer is sent before its receiver comes, as NCCL does.
 *
 * Or several processes on one device, whose resources and memory they share. Without MPS its kernels are one process's at a time: that of whose turn it is,
 * until its time is over, or it has had nothing there for a while, and another waits. A kernel that runs is not taken off. */
#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/replay/replaying.h"
#include "sim/trace/meets.h"
#include "sim/trace/select.h"

#define NOWHERE UINT32_MAX

typedef struct {
    uint32_t rank, op;
    uint32_t first_party, n_parties;
    uint32_t missing; /* meetings of it that are not complete */
    uint32_t last;    /* rank that completed them, or ECH_NONE */
    bool arrived;
} Call;

typedef struct {
    uint32_t expected, arrived, first_party;
    uint32_t speakers, spoken; /* of them, those that do not only hear */
    uint32_t channel;
} Meeting;

typedef struct {
    uint32_t call, meeting;
    uint32_t next;   /* of the same meeting; NOWHERE */
    EchBytes buffer; /* of what it sends; else 0 */
    EchBytes ahead;  /* sent before its receiver came, and in the channel's buffer */
    bool hears;      /* only: it keeps nobody waiting */
} Party;

/* All that one sends to another, one after another. */
typedef struct {
    EchBytes under_way;
} Channel;

typedef struct Together Together;

/* A rank's share of the engine. */
typedef struct {
    Together *together;
    EchReplaying replaying;
    uint32_t first_token;
    uint32_t *resource; /* the engine's, by its own */
    uint32_t *call;     /* by op; NOWHERE */
    GQueue kernels;     /* that wait for their turn, by op, + 1 */
    bool gone;          /* it has stopped: nobody waits for it */
} Seat;

/* Whose turn it is on a device of several processes. */
typedef struct {
    uint32_t whose;  /* NOWHERE: nobody's yet */
    bool changes;    /* to @whose, under way */
    bool timed;      /* the engine has @token: until the change is done, or to look again whether it is idle */
    EchTime over;    /* its time, where others wait */
    EchTime idle_at; /* since when it has had nothing on the device; below 0: it has */
    EchTime slice, idle, change;
    uint32_t token;
} Turn;

struct Together {
    Seat *seats;
    size_t n;
    GArray *calls, *meetings, *parties, *channels; /* Call, Meeting, Party, Channel */
    GQueue ready;                                  /* Calls that others made ready, + 1. */
    EchNative *engine;
    EchFluidPart *parts; /* scratch */
    EchTime now;
    EchSharing share;
    Turn turn;
};

static void together_clear(Together *t)
{
    for (size_t i = 0; i < t->n; i++) {
        ech_replaying_clear(&t->seats[i].replaying);
        g_free(t->seats[i].call);
        g_free(t->seats[i].resource);
        g_queue_clear(&t->seats[i].kernels);
    }
    g_free(t->seats);
    g_array_unref(t->calls);
    g_array_unref(t->meetings);
    g_array_unref(t->parties);
    g_array_unref(t->channels);
    g_queue_clear(&t->ready);
    ech_native_free(t->engine);
    g_free(t->parts);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Together, together_clear)

static Call *call_at(const Together *t, uint32_t i)
{
    return &g_array_index(t->calls, Call, i);
}

static Party *party_at(const Together *t, uint32_t i)
{
    return &g_array_index(t->parties, Party, i);
}

/* ---- who meets whom ---- */

static uint32_t channel_of(Together *t, GHashTable *channels, uint64_t group)
{
    uint32_t at = GPOINTER_TO_UINT(g_hash_table_lookup(channels, &group));
    if (at == 0) {
        Channel channel = {0};
        g_array_append_val(t->channels, channel);
        at = t->channels->len;
        g_hash_table_insert(channels, g_memdup2(&group, sizeof group), GUINT_TO_POINTER(at));
    }
    return at - 1;
}

static void add_party(Together *t, GHashTable *index, GHashTable *channels, uint32_t call, EchMeeting key)
{
    uint32_t at = GPOINTER_TO_UINT(g_hash_table_lookup(index, &key));
    if (at == 0) {
        Meeting meeting = {.first_party = NOWHERE, .channel = channel_of(t, channels, key.group)};
        g_array_append_val(t->meetings, meeting);
        at = t->meetings->len;
        g_hash_table_insert(index, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(at));
    }
    Meeting *meeting = &g_array_index(t->meetings, Meeting, at - 1);
    Party party = {.call = call, .meeting = at - 1, .next = meeting->first_party, .buffer = key.sends ? key.buffer : 0, .hears = key.hears};
    meeting->expected++;
    meeting->speakers += !key.hears;
    meeting->first_party = t->parties->len;
    g_array_append_val(t->parties, party);
    call_at(t, call)->n_parties++;
    call_at(t, call)->missing++;
}

static bool is_message(const EchOp *op)
{
    return op->collective == ECH_COLLECTIVE_SEND || op->collective == ECH_COLLECTIVE_RECV || op->collective == ECH_COLLECTIVE_PERMUTE;
}

/* Says what those that are not there would have done, and what tells nobody. */
static void remark_absent(const Together *t, const Seat *seat)
{
    const EchTrace *trace = seat->replaying.rank.trace;
    uint64_t untold = 0, absent = 0;
    for (uint32_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (seat->call[i] == NOWHERE) {
            untold += op->kind == ECH_OP_COLLECTIVE;
            continue;
        }
        const Call *call = call_at(t, seat->call[i]);
        bool of_hosts = op->kind == ECH_OP_WAIT;
        uint32_t wanted = of_hosts ? 0 : call->n_parties > 1 || is_message(op) ? 2 : op->memory_from == ECH_NONE ? 0 : op->memory_from, some = 0;
        for (uint32_t p = call->first_party; p < call->first_party + call->n_parties; p++) {
            const Meeting *meeting = &g_array_index(t->meetings, Meeting, party_at(t, p)->meeting);
            some |= meeting->expected < wanted || meeting->speakers == 0;
        }
        absent += some;
    }
    ech_diag_note(seat->replaying.run->diag, "collectives_of_absent_ranks", absent);
    ech_diag_note(seat->replaying.run->diag, "collectives_that_say_nobody", untold);
    if (absent > 0)
        ech_diag_remark(seat->replaying.run->diag,
                        "%" G_GUINT64_FORMAT " of its collectives and messages are with ranks that are not given, too: those are taken to be ready when it is",
                        absent);
    if (untold > 0)
        ech_diag_remark(seat->replaying.run->diag,
                        "%" G_GUINT64_FORMAT " of its collectives do not say whom they meet: they wait for nobody (echelon capture --pretend tells)", untold);
}

/* Where nothing joins them. Captures of two runs under one name are matched by one pattern. */
static void remark_apart(Together *t)
{
    bool several = false;
    const char *first = ech_trace_get_property(t->seats[0].replaying.rank.trace, "pretended_device");
    for (uint32_t s = 1; s < t->n; s++)
        several |= g_strcmp0(first, ech_trace_get_property(t->seats[s].replaying.rank.trace, "pretended_device")) != 0;
    for (uint32_t s = 0; s < t->n; s++)
        ech_diag_remark(
            t->seats[s].replaying.run->diag,
            "nothing in these traces says what of one rank meets what of another%s: each is replayed by itself. Are they ranks of one run? Two runs "
            "captured with the same -o leave files that the same step.*.pretend matches; then give one of them",
            several ? ", and they were captured for different devices" : "");
}

static void find_meetings(Together *t)
{
    g_autoptr(GHashTable) index = g_hash_table_new_full(ech_meeting_hash, ech_meeting_equal, g_free, NULL),
                          channels = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    for (uint32_t s = 0; s < t->n; s++) {
        const EchTrace *trace = t->seats[s].replaying.rank.trace;
        size_t n_ops = ech_trace_n_ops(trace);
        for (uint32_t i = 0; i < n_ops; i++) {
            const EchOp *op = &ech_trace_ops(trace)[i];
            const char *at =
                (op->kind == ECH_OP_COLLECTIVE || op->kind == ECH_OP_WAIT) && op->launch != ECH_NONE ? ech_meets_of(ech_trace_string(trace, op->launch)) : "";
            EchMeeting key;
            while (ech_meets_next(&at, &key)) {
                if (t->seats[s].call[i] == NOWHERE) {
                    Call call = {.rank = s, .op = i, .first_party = t->parties->len, .last = ECH_NONE};
                    t->seats[s].call[i] = t->calls->len;
                    g_array_append_val(t->calls, call);
                }
                add_party(t, index, channels, t->seats[s].call[i], key);
            }
        }
    }
    bool of_one = ech_trace_get_property(t->seats[0].replaying.rank.trace, ECH_TRACE_TOGETHER) != NULL; /* devices that need not wait for one another */
    if (t->n > 1 && t->calls->len == 0 && !of_one)
        remark_apart(t);
    for (uint32_t p = 0; p < t->parties->len; p++) /* who hears nobody that is there does not wait */
        if (g_array_index(t->meetings, Meeting, party_at(t, p)->meeting).speakers == 0)
            call_at(t, party_at(t, p)->call)->missing--;
    for (size_t s = 0; s < t->n; s++)
        remark_absent(t, &t->seats[s]);
}

/* One less is missing to the call of @party; @at is the one that comes just now. */
static void settle_party(Together *t, const Party *party, uint32_t at)
{
    Call *call = call_at(t, party->call);
    if (--call->missing > 0 || !call->arrived || party->call == at)
        return;
    call->last = call_at(t, at)->rank;
    g_queue_push_tail(&t->ready, GUINT_TO_POINTER(party->call + 1));
}

/* The last of those who speak has come: all that hear may go on. The last of all: so may the others, but for what was sent ahead. */
static void settle_meeting(Together *t, const Meeting *meeting, bool all, uint32_t at)
{
    Channel *channel = &g_array_index(t->channels, Channel, meeting->channel);
    for (uint32_t other = meeting->first_party; other != NOWHERE; other = party_at(t, other)->next) {
        Party *met = party_at(t, other);
        if (met->hears == all)
            continue;
        if (met->ahead > 0)
            channel->under_way -= MIN(channel->under_way, met->ahead);
        else
            settle_party(t, met, at);
    }
}

static void arrive(Together *t, uint32_t at)
{
    Call *call = call_at(t, at);
    if (call->arrived)
        return;
    call->arrived = true;
    const EchOp *op = &ech_trace_ops(t->seats[call->rank].replaying.rank.trace)[call->op];
    for (uint32_t p = call->first_party; p < call->first_party + call->n_parties; p++) {
        Party *party = party_at(t, p);
        Meeting *meeting = &g_array_index(t->meetings, Meeting, party->meeting);
        Channel *channel = &g_array_index(t->channels, Channel, meeting->channel);
        EchBytes bytes = op->bytes / call->n_parties;
        if (++meeting->arrived < meeting->expected && party->buffer > 0 && ech_bytes_add(channel->under_way, bytes) <= party->buffer) {
            channel->under_way += bytes;
            party->ahead = MAX(bytes, 1);
            settle_party(t, party, at);
        }
        if (!party->hears && ++meeting->spoken == meeting->speakers)
            settle_meeting(t, meeting, false, at);
        if (meeting->arrived == meeting->expected)
            settle_meeting(t, meeting, true, at);
    }
}

/* ---- turns on a device of several processes ---- */

static bool others_wait(const Together *t, uint32_t seat)
{
    for (uint32_t s = 0; s < t->n; s++)
        if (s != seat && t->seats[s].kernels.length > 0)
            return true;
    return false;
}

/* Kernel @op of @seat. False: it waits for its turn. */
static bool take_turn(Together *t, Seat *seat, uint32_t op)
{
    Turn *turn = &t->turn;
    uint32_t s = (uint32_t)(seat - t->seats);
    if (turn->whose == NOWHERE) {
        turn->whose = s;
        turn->over = ech_time_add(t->now, turn->slice);
    }
    if (turn->whose == s && !turn->changes && (t->now < turn->over || !others_wait(t, s)))
        return true;
    g_queue_push_tail(&seat->kernels, GUINT_TO_POINTER(op + 1));
    return false;
}

static void set_timer(Together *t, EchTime time)
{
    t->turn.timed = true;
    ech_native_class.start(t->engine, t->turn.token, NULL, 0, time);
}

/* To the next that waits, when whose turn it was has nothing on the device: at the end of its time, or once it has been idle. */
static void change_turn(Together *t)
{
    Turn *turn = &t->turn;
    if (turn->whose == NOWHERE || turn->changes)
        return;
    const EchMachine *machine = t->seats[turn->whose].replaying.machine;
    bool busy = ech_machine_is_on_device(machine);
    turn->idle_at = busy ? -1 : turn->idle_at < 0 ? t->now : turn->idle_at;
    if (busy || !others_wait(t, turn->whose))
        return;
    EchTime until = ech_machine_is_over(machine) ? t->now : MIN(turn->over, ech_time_add(turn->idle_at, turn->idle));
    if (until > t->now) {
        if (!turn->timed)
            set_timer(t, until - t->now);
        return;
    }
    if (turn->timed) /* soon over, and looked at then */
        return;
    do
        turn->whose = (turn->whose + 1) % (uint32_t)t->n;
    while (t->seats[turn->whose].kernels.length == 0);
    turn->changes = true;
    set_timer(t, turn->change);
}

/* The turn's timer has ended. */
static void look_at_turn(Together *t)
{
    Turn *turn = &t->turn;
    turn->timed = false;
    if (!turn->changes)
        return;
    Seat *seat = &t->seats[turn->whose];
    turn->changes = false;
    turn->over = ech_time_add(t->now, turn->slice);
    turn->idle_at = -1;
    for (guint n = seat->kernels.length; n > 0; n--)
        ech_machine_meet(seat->replaying.machine, GPOINTER_TO_UINT(g_queue_pop_head(&seat->kernels)) - 1, t->now);
}

/* What the others have of the device's memory, while the machine of seat @s goes on. */
static EchMachine *machine_of(const Together *t, uint32_t s)
{
    EchBytes elsewhere = 0;
    for (uint32_t other = 0; other < t->n && t->share != ECH_SHARE_NONE; other++)
        elsewhere = ech_bytes_add(elsewhere, other != s && !t->seats[other].gone ? ech_machine_holds(t->seats[other].replaying.machine) : 0);
    if (t->share != ECH_SHARE_NONE)
        ech_machine_set_elsewhere(t->seats[s].replaying.machine, elsewhere);
    return t->seats[s].replaying.machine;
}

static bool meet(void *user, uint32_t op)
{
    Seat *seat = user;
    uint32_t call = seat->call[op];
    if (ech_trace_ops(seat->replaying.rank.trace)[op].kind == ECH_OP_KERNEL)
        return take_turn(seat->together, seat, op);
    if (call == NOWHERE)
        return true;
    arrive(seat->together, call);
    return call_at(seat->together, call)->missing == 0;
}

/* ---- one engine for all ---- */

static void seat_start(void *engine, uint32_t token, const EchFluidPart *parts, uint32_t n_parts, EchTime min_time)
{
    const Seat *seat = engine;
    EchFluidPart *own = seat->together->parts;
    for (uint32_t i = 0; i < n_parts; i++)
        own[i] = (EchFluidPart){seat->resource[parts[i].resource], parts[i].amount};
    ech_native_class.start(seat->together->engine, token + seat->first_token, own, n_parts, min_time);
}

/* Time is together_run's business; what loops ask for is not asked. */
static const EchFluidClass seat_class = {.name = "native", .start = seat_start};

/* The engine's number for @own of a seat: of one device what has the same name is the same. */
static uint32_t add_resource(const Together *t, GArray *resources, GHashTable *names, const EchFluidResource *own)
{
    uint32_t at = t->share != ECH_SHARE_NONE ? GPOINTER_TO_UINT(g_hash_table_lookup(names, own->name)) : 0;
    if (at > 0)
        return at - 1;
    g_array_append_vals(resources, own, 1);
    g_hash_table_insert(names, own->name, GUINT_TO_POINTER(resources->len));
    return resources->len - 1;
}

static uint32_t make_engine(Together *t)
{
    g_autoptr(GArray) resources = g_array_new(FALSE, FALSE, sizeof(EchFluidResource));
    g_autoptr(GHashTable) names = g_hash_table_new(ech_hash_text, g_str_equal);
    uint32_t n_tokens = 0, most = 0;
    for (size_t s = 0; s < t->n; s++) {
        Seat *seat = &t->seats[s];
        const EchPrices *prices = seat->replaying.prices;
        seat->first_token = n_tokens;
        seat->resource = g_new(uint32_t, prices->n_resources + 1);
        for (uint32_t i = 0; i < prices->n_resources; i++)
            seat->resource[i] = add_resource(t, resources, names, &prices->resources[i]);
        n_tokens += ech_machine_max_live(seat->replaying.machine);
        most = MAX(most, prices->n_resources);
    }
    t->turn.token = n_tokens++;
    t->parts = g_new(EchFluidPart, most + 1);
    t->engine = ech_native_new((const EchFluidResource *)(const void *)resources->data, resources->len, n_tokens);
    return n_tokens;
}

/* Whoever was made ready goes on, and a rank that has stopped keeps nobody waiting. */
static void settle(Together *t)
{
    bool again = true;
    while (again) {
        while (t->ready.length > 0) {
            const Call *call = call_at(t, GPOINTER_TO_UINT(g_queue_pop_head(&t->ready)) - 1);
            ech_machine_meet(machine_of(t, call->rank), call->op, t->now);
        }
        again = false;
        for (size_t s = 0; s < t->n; s++) {
            Seat *seat = &t->seats[s];
            if (seat->gone || !ech_machine_has_stopped(seat->replaying.machine))
                continue;
            seat->gone = again = true;
            g_queue_clear(&seat->kernels);
            for (size_t i = 0; i < ech_trace_n_ops(seat->replaying.rank.trace); i++)
                if (seat->call[i] != NOWHERE)
                    arrive(t, seat->call[i]);
        }
    }
    change_turn(t);
}

static void together_run(Together *t, uint32_t n_tokens)
{
    g_autofree uint32_t *tokens = g_new(uint32_t, n_tokens + 1);
    for (uint32_t s = 0; s < t->n; s++)
        ech_machine_begin(machine_of(t, s), &seat_class, &t->seats[s]);
    settle(t);
    for (;;) {
        uint32_t n = ech_native_class.next(t->engine, tokens, &t->now);
        bool any = n > 0, timed = any && tokens[n - 1] == t->turn.token;
        n -= timed;
        for (uint32_t i = 0, s = 0; i < n; s++) { /* tokens ascend, and so do the seats */
            uint32_t first = i, end = s + 1 < t->n ? t->seats[s + 1].first_token : t->turn.token;
            for (; i < n && tokens[i] < end; i++)
                tokens[i] -= t->seats[s].first_token;
            if (i > first)
                ech_machine_step(machine_of(t, s), tokens + first, i - first, t->now);
        }
        if (timed)
            look_at_turn(t);
        for (uint32_t s = 0; s < t->n && !any; s++)
            any = ech_machine_unstick(machine_of(t, s));
        if (!any)
            break;
        settle(t);
    }
    for (size_t s = 0; s < t->n; s++)
        ech_machine_finish(t->seats[s].replaying.machine);
}

/* A call in a loop would be one for each iteration. */
static bool check_loops(const Together *t, GError **error)
{
    for (uint32_t s = 0; s < t->n; s++) {
        bool loops = ech_trace_has_op(t->seats[s].replaying.rank.trace, ECH_OP_LOOP);
        for (guint c = 0; c < t->calls->len && loops; c++)
            if (call_at(t, c)->rank == s) {
                g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "rank %u of those given has loops, in which nobody can be met", s);
                return false;
            }
    }
    return true;
}

/* What a rank that never comes on waits for. */
static bool check_waits(const Together *t, GError **error)
{
    for (size_t s = 0; s < t->n; s++) {
        const EchReplaying *r = &t->seats[s].replaying;
        uint32_t stuck = ech_machine_outcome(r->machine)->stuck, call = stuck == ECH_NONE ? NOWHERE : t->seats[s].call[stuck];
        if (call == NOWHERE || call_at(t, call)->missing == 0)
            continue;
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
            "rank %zu of those given: its op %u ('%s') waits for another rank that waits in turn for it; expected ranks of one run, each captured to its "
            "end",
            s, stuck, ech_trace_string(r->rank.trace, ech_trace_ops(r->rank.trace)[stuck].name));
        return false;
    }
    return true;
}

/* Where a device does not say: a process that shares the GPU has it for 2 ms (nvidia-smi compute-policy, its shortest). Of two or three that filled 96 % of it
 * each 4 and 3 % of the time went on changes (RobTand/prismaquant issue 283), 60 to 80 us of 2 ms. That it keeps it over gaps between launches is assumed. */
#define SLICE (2 * ECH_PS_PER_MS)
#define IDLE (200 * ECH_PS_PER_US)
#define SWITCH (70 * ECH_PS_PER_US)

/* Processes on one device have one, all the same. */
static bool begin_sharing(Together *t, const EchReplayRank *ranks, GError **error)
{
    const EchDevice *device = ranks[0].device;
    t->share = (EchSharing)ranks[0].options->share;
    for (size_t s = 1; s < t->n; s++) {
        bool same = ranks[s].options->share == t->share && (t->share == ECH_SHARE_NONE || ranks[s].device->hash == device->hash);
        if (!same) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                        "replay.share: process %zu is to share another device, or in another way, than process 0; expected one "
                        "for all",
                        s);
            return false;
        }
    }
    if (t->share != ECH_SHARE_NONE && g_strcmp0(device->family, "gpu") != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "replay.share: %s is no GPU, and a program has it to itself", device->name);
        return false;
    }
    t->turn = (Turn){.whose = NOWHERE,
                     .idle_at = -1,
                     .slice = (EchTime)ech_device_number(device, "runtime.slice_ps", (double)SLICE),
                     .idle = (EchTime)ech_device_number(device, "runtime.idle_slice_ps", (double)IDLE),
                     .change = (EchTime)ech_device_number(device, "runtime.switch_ps", (double)SWITCH)};
    return true;
}

static bool begin_seats(Together *t, const EchReplayRank *ranks, GError **error)
{
    for (size_t s = 0; s < t->n; s++) {
        t->seats[s].together = t;
        if (!ech_replaying_begin(&ranks[s], &t->seats[s].replaying, error))
            return false;
        size_t n_ops = ech_trace_n_ops(ranks[s].trace);
        t->seats[s].call = g_new(uint32_t, n_ops + 1);
        for (size_t i = 0; i < n_ops; i++)
            t->seats[s].call[i] = NOWHERE;
        ech_replaying_keep_spans(&t->seats[s].replaying);
        ech_machine_set_meet(t->seats[s].replaying.machine, meet, t->share == ECH_SHARE_SLICES, &t->seats[s]);
    }
    return true;
}

static void tell_awaited(const Together *t, size_t s, EchRun *run)
{
    for (size_t i = 0; i < run->n_spans; i++) {
        EchSpan *span = &run->spans[i];
        uint32_t call = span->waits[ECH_WAIT_PEERS] > 0 ? t->seats[s].call[span->op] : NOWHERE, last = call == NOWHERE ? ECH_NONE : call_at(t, call)->last;
        if (last != ECH_NONE)
            span->awaited = t->seats[last].replaying.rank.number;
    }
}

static bool run_once(const EchReplayRank *ranks, size_t n, EchRun **ret_runs, GError **error);

/* As one rank's (replay.c): at the rates of products that run all the time, or just after a pause, and then at those of what they run. */
static bool run_settled(const EchReplayRank *ranks, size_t n, EchRun **ret_runs, GError **error)
{
    EchReplayRank settled[ECH_MAX_RANKS] = {{0}};
    EchReplayOptions options[ECH_MAX_RANKS] = {{0}};
    bool held[ECH_MAX_RANKS] = {false}, any = false;
    for (size_t s = 0; s < n; s++) {
        settled[s] = ranks[s];
        options[s] = *ranks[s].options;
        settled[s].options = &options[s];
        if (ech_replaying_unsettled(&ranks[s]) && ech_replaying_limited(&ranks[s]))
            options[s].products_duty = 1;
    }
    if (!run_once(settled, n, ret_runs, error))
        return false;
    for (size_t s = 0; s < n; s++) {
        double duty = ech_replaying_unsettled(&ranks[s]) ? ech_replaying_settled_duty(&ranks[s], ret_runs[s]) : 0;
        held[s] = ech_replaying_unsettled(&ranks[s]) && (ech_replaying_limited(&ranks[s]) || ech_gpu_held(ranks[s].device, duty) < 1);
        options[s].products_duty = held[s] ? duty : options[s].products_duty;
        any = any || held[s];
    }
    if (!any)
        return true;
    for (size_t s = 0; s < n; s++)
        g_clear_pointer(&ret_runs[s], ech_run_free);
    if (!run_once(settled, n, ret_runs, error))
        return false;
    for (size_t s = 0; s < n; s++)
        if (held[s])
            ech_replaying_remark_held(&settled[s], ret_runs[s]);
    return true;
}

bool ech_replay_run_together(const EchReplayRank *ranks, size_t n, EchRun **ret_runs, GError **error)
{
    g_assert(n > 0 && n <= ECH_MAX_RANKS);
    for (size_t s = 0; s < n; s++)
        if (ech_replaying_unsettled(&ranks[s]))
            return run_settled(ranks, n, ret_runs, error);
    return run_once(ranks, n, ret_runs, error);
}

static bool run_once(const EchReplayRank *ranks, size_t n, EchRun **ret_runs, GError **error)
{
    g_auto(Together) t = {.seats = g_new0(Seat, n),
                          .n = n,
                          .calls = g_array_new(FALSE, FALSE, sizeof(Call)),
                          .meetings = g_array_new(FALSE, FALSE, sizeof(Meeting)),
                          .parties = g_array_new(FALSE, FALSE, sizeof(Party)),
                          .channels = g_array_new(FALSE, FALSE, sizeof(Channel)),
                          .ready = G_QUEUE_INIT};
    if (!begin_sharing(&t, ranks, error) || !begin_seats(&t, ranks, error))
        return false;
    if (t.share == ECH_SHARE_NONE) /* processes that share a device meet nobody else */
        find_meetings(&t);
    if (!check_loops(&t, error))
        return false;
    together_run(&t, make_engine(&t));
    if (!check_waits(&t, error))
        return false;
    EchRun *runs[ECH_MAX_RANKS] = {NULL};
    EchTime serial = 0;
    bool ok = true;
    for (size_t s = 0; s < n && ok; s++) {
        runs[s] = ech_replaying_end(&t.seats[s].replaying, "native", ECH_VERSION, error);
        ok = runs[s] != NULL;
        if (ok)
            tell_awaited(&t, s, runs[s]);
        serial = ok ? ech_time_add(serial, runs[s]->serial) : 0;
    }
    for (size_t s = 0; s < n; s++) {
        if (!ok) {
            ech_run_free(runs[s]);
            continue;
        }
        runs[s]->serial = serial;
        ret_runs[s] = runs[s];
    }
    return ok;
}
