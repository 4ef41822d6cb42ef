/** @file msa_private.h
 * What the files of memory-space assignment share: the state of a run and what is decided so far. Short type names, because nothing else includes it.
 *
 * msa_state.c keeps what is decided (times, copies under way, stays, requirements) and takes it back; msa_segment.c decides one segment between two uses;
 * msa_joint.c walks over the buffers that must be placed together; msa.c goes through the values in order, retries, repacks and makes the result.
 * Steps and ordinary intervals are closed, as in msa.h; a copy's (after, before) is open.
 */
#pragma once
#include "models/place/msa.h"
#include "models/place/vmem.h"

/* Bits of a result, as they are collected over the segments of a buffer. */
enum {
    OK = 0,
    OUT_OF_MEMORY = 1,
    NOT_FAST_BEFORE = 2,
    TOO_LONG = 4,
    TOO_SHORT = 8,
    OUT_OF_COPIES = 16,
    OUT_OF_BANDWIDTH = 32,
    UNCOMMIT = 64,
    SAME_START = 128,
    OTHER_OFFSET = 256,
    SYNC_FAILED = 512,
};

/* One stay of a value in a memory, as it grows. */
typedef struct Stay Stay;
struct Stay {
    EchMsaKind kind;
    bool fast, cross, dead;
    uint32_t value, position, sync;
    int64_t offset, bytes, start, end, after, before;
    int32_t place;  /* index of the shared offset, -1 none */
    GArray *slices; /* EchMsaSlice by start, or NULL */
    GArray *uses;   /* uint32_t */
    const Stay *original;
};

/* At that step the value must be in the fast memory at that place, or in the slow one. */
typedef struct {
    int64_t time;
    bool fast, pending;
    int32_t place;
} Need;

/* A copy under way in (after, before); amount: its time in units of 2^-40 s. */
typedef struct {
    int64_t after, before, amount;
    uint32_t id;
} Copy;

/* Copy bandwidth as seconds per step: copies take it in order of their start; the part left over delays the next. */
typedef struct {
    int64_t *offered, *delay;
    GArray *copies; /* Copy, by start */
    GArray *undo;   /* int64_t pairs: step, delay */
} Resource;

/* Start steps of a prefetch, one after the other: from the preferred one up to the latest, by turns with those below it. */
typedef struct {
    float seconds, reduction; /* of the copy; saved by the use */
    int64_t end, earliest, latest, up, down;
    bool rising;
} Picker;

/* An allocation value: one position and its uses. */
typedef struct {
    uint32_t position, value, computation;
    int64_t bytes, step;
    bool contiguous, done; /* done: mirrored through a conditional */
    GArray *uses;          /* uint32_t */
    GPtrArray *stays;
} Holder;

/* One segment to decide: from where @use reads, given where the holder was before. */
typedef struct {
    Holder *from, *update;
    uint32_t use;
    int64_t start, end, latest;
    int64_t bytes;
    int64_t chunk_start; /* INT64_MIN: none */
    int64_t earliest;    /* INT64_MIN: none */
    int32_t preferred;   /* place, -1 */
    bool allow_keep, extend_only, need_copy, copy_is_slice;
    EchMsaHint hint;
    int64_t copy_latest;
    uint32_t copy_for;
    const GArray *times; /* int64_t, all use steps, ascending */
} Request;

/* A run. */
typedef struct {
    const EchMsaProblem *p;
    const EchMsaOptions *o;
    uint32_t n;
    float *cumulative; /* [n + 1] seconds x 5^nest */
    uint32_t *nest, *while_nest;
    int64_t *lower; /* [n + 1] last earlier step in fewer loops, -1 */
    float power[64];
    float max_seconds;
    EchVmem *vmem;
    int64_t *peak;
    Resource fetch, evict;
    int64_t *fetch_starts, *fetch_ends, *evict_starts, *evict_ends; /* Fenwick trees */
    GArray **needs;                                                 /* per value: Need */
    GArray *pending_needs;                                          /* uint32_t value */
    GArray *pending_chunks;
    GArray *pending_fetch, *pending_evict; /* Copy */
    GHashTable *intervals;                 /* fetches under way as counted: key -> number */
    GArray *places;                        /* int64_t */
    GPtrArray *final;                      /* Stay, every stay, in order */
    GArray *blocks;                        /* BlockRef */
    GArray *colors;                        /* Color, by value */
    bool colors_pending;                   /* some are */
    GPtrArray *all;                        /* every Stay made, to free */
    bool *finalized;
    bool *failed_sync;
    GArray *candidates; /* uint32_t steps */
    GArray *converted;  /* uint32_t steps, not final */
    bool any_converted;
    bool *edges;       /* [n + 2] shifted by one */
    uint32_t *sync_of; /* per use */
    uint8_t *why;      /* per use */
    float *waits;      /* belady, per value: longest time between two uses */
    uint32_t copies, repacks, repacks_good, retry, freed;
    uint32_t *first_use, *first_position, *first_view; /* per value, n_values + 1 */
    GArray **members;                                  /* per group: values by start */
    Picker pick;
    uint32_t n_groups, next_group; /* of the problem; of blocks */
} Msa;

/* Room kept for a value at one step, until the value is placed. */
typedef struct {
    Stay *stay; /* NULL: the slow memory was asked for */
    uint32_t value;
    int64_t time;
    bool kept, pending; /* pending: given up, until uncommitted */
} Color;

/* What kernels ask of a segment by name. */
typedef struct {
    bool start_fast, start_slow, end_fast, end_slow;
} Asked;

/* A stay as the repacker sees it; those of one group lie at one offset. */
typedef struct {
    Stay *stay;
    uint32_t group;
} BlockRef;

/* msa_state.c */

/** Sums of the steps' times and the loops around them. First of all. */
void ech_msa_prepare_times(Msa *m);
/** Seconds strictly between two steps, per run of the innermost loop around both. */
float ech_msa_elapsed(const Msa *m, int64_t from, int64_t to);
/** Copies under way in [from, to], counted in two trees of starts and ends. */
int64_t ech_msa_overlapping(const Msa *m, const int64_t *starts, const int64_t *ends, int64_t from, int64_t to);
/** All of every step's time is there for copies. */
void ech_msa_resource_init(Resource *r, const EchMsaProblem *p);
/** Whether a copy of so many seconds finds them in (after, before). */
bool ech_msa_enough(const Msa *m, Resource *r, int64_t after, int64_t before, float seconds);
/** Whether the slices of one prefetch do, with caution. */
bool ech_msa_enough_for(const Msa *m, Resource *r, uint32_t n, const int64_t *starts, int64_t end, const float *seconds);
/** Whether a fetch would begin before one under way and end after it, or the reverse. */
bool ech_msa_breaks_fifo(const Msa *m, int64_t after, int64_t before);
/** Owned by @m; not yet of a holder. */
Stay *ech_msa_stay_new(Msa *m, EchMsaKind kind, bool fast, uint32_t value, uint32_t position, int64_t start, int64_t end);
/** A GDestroyNotify. */
void ech_msa_stay_free(gpointer data);
/** Shares that place, or with -1 opens one at the stay's offset. */
void ech_msa_set_place(Msa *m, Stay *stay, int32_t place);
/** The last stay of the holder that covers the step, or NULL. */
Stay *ech_msa_live_at(const Holder *holder, int64_t time);
/** The last stay in the slow memory, or NULL. */
Stay *ech_msa_last_slow(const Holder *holder);
/** Takes these bytes of the fast memory, until uncommitted. */
void ech_msa_commit_chunk(Msa *m, EchVmemChunk chunk);
/** Counts a copy as under way in (after, before), until uncommitted. */
void ech_msa_register_copy(Msa *m, bool fetch, int64_t after, int64_t before, float seconds, bool slice);
/** A new stay of the holder that begins with a copy. */
Stay *ech_msa_add_copy(Msa *m, Holder *holder, bool fast, int64_t offset, int64_t bytes, int64_t after, int64_t end, int64_t before, int32_t place,
                       float seconds, uint32_t sync);
/** What is required of the value at that step, or NULL. */
const Need *ech_msa_need_at(const Msa *m, uint32_t value, int64_t time);
/** Requires it, unless something is required already; @pending: until uncommitted. */
void ech_msa_require(Msa *m, uint32_t value, int64_t time, bool fast, int32_t place, bool pending);
/** What is required of a position that shares its place with the use, or NULL. */
const Need *ech_msa_aliased_need(const Msa *m, const EchMsaUse *use);
/** What was decided since the last call stands. */
void ech_msa_clear_pending(Msa *m);
/** What was decided since clear_pending is undone. */
void ech_msa_uncommit(Msa *m, GPtrArray *holders);

/** Keeps room for every array that a kernel asks for by name, at that kernel alone. */
void ech_msa_keep_colors(Msa *m);
/** What is asked of the holder's segment from @start to @end; gives up the room that was kept for it, until uncommitted. */
Asked ech_msa_asked(Msa *m, const Holder *holder, int64_t start, int64_t end);

/* msa_segment.c */

/** The start in [earliest, latest] whose distance is nearest to the preferred one. */
int64_t ech_msa_preferred_start(const Msa *m, int64_t bytes, int64_t earliest, int64_t latest, int64_t end);
/** Decides from where the use reads: kept, prefetched or slow. Bits of a result. */
int ech_msa_allocate_segment(Msa *m, Request *r);

/* msa_joint.c */

/** A GCompareDataFunc over value numbers, by first step; @data: EchMsaProblem. */
gint ech_msa_compare_value(gconstpointer a, gconstpointer b, gpointer data);
/** The value and what hangs together with it through copies and slices that may become prefetches. */
GArray *ech_msa_joint_values(Msa *m, uint32_t value) G_GNUC_WARN_UNUSED_RESULT;
/** Their holders, those that may become prefetches of others last. Owned. */
GPtrArray *ech_msa_joint_holders(Msa *m, const GArray *values) G_GNUC_WARN_UNUSED_RESULT;
/** Decides every use of them. Bits of a result; with UNCOMMIT the caller undoes what was decided. */
int ech_msa_allocate_holders(Msa *m, GPtrArray *holders);

/* Too small for a file. */

static inline float copy_seconds(const Msa *m, int64_t bytes)
{
    return (float)bytes / (float)m->o->copy_bytes_per_s;
}

/* The copy's time as far as distances are chosen by it. */
static inline float picker_seconds(const Msa *m, int64_t bytes)
{
    return copy_seconds(m, m->o->picker_bytes != 0 ? (int64_t)m->o->picker_bytes : bytes);
}

/* Whether a value may stay in the fast memory from one use to the next: not longer than max_overlap copies of all of that memory take. */
static inline bool can_keep(const Msa *m, int64_t from, int64_t to)
{
    return m->max_seconds > ech_msa_elapsed(m, from, to);
}

static inline bool is_copy(const Stay *stay)
{
    return stay->kind == ECH_MSA_COPIED || stay->kind == ECH_MSA_SLICED;
}

/* From which step on it can be read. */
static inline int64_t available(const Stay *stay)
{
    return is_copy(stay) ? stay->before : stay->start;
}

static inline void extend(Stay *stay, int64_t end)
{
    stay->end = MAX(stay->end, end);
}

static inline void add_use(Stay *stay, uint32_t use)
{
    g_array_append_val(stay->uses, use);
}

static inline int32_t place_of(const Stay *stay)
{
    while (stay->kind == ECH_MSA_MIRRORED && stay->original != NULL)
        stay = stay->original;
    return stay->place;
}

static inline bool same_need(const Need *a, const Need *b)
{
    return a->fast == b->fast && (!a->fast || a->place == b->place);
}

static inline int64_t corrected(const Msa *m, uint32_t step)
{
    return m->p->steps[step].corrected;
}

static inline bool trivial(const Msa *m, uint32_t step)
{
    return m->p->steps[step].kind == ECH_MSA_TRIVIAL;
}
