/* slice: arrays that are stacked, a layer's part after the other, are updated a layer at a time: jax.lax.fori_loop around an optimizer's update. What one
 * kernel did with whole stacks a loop does with a slice of each per iteration, so that an offload after it fetches and stores slices, where XLA brings whole
 * arrays back early, all at once (validation/what_ifs.md). Only kernels that work in place are taken: a compiler lets those alone write where they read whose
 * elements do not hang on each other. */
#include "sim/pass/pass.h"
#include "sim/pass/survey.h"

#include <string.h>

/* What stacks of layers are, where a first dimension of another kind (of features, before heads) has more and smaller slices. MAX_BESIDE: bytes of what every
 * iteration reads whole, rates and counters. */
enum { MAX_SLICES = 512, MIN_DIMENSIONS = 3, MIN_SLICE = 65536, MAX_BESIDE = 65536 };

typedef struct {
    char *names;
    EchBytes above;
} SliceOptions;

static const EchParam slice_params[] = {
    {"names", ECH_PARAM_STRING, offsetof(SliceOptions, names), "*", NULL, NULL, NULL,
     "only kernels that update an array whose name, argument (\"opt_state*\"), operation or source line fits this, * standing for anything"},
    {"above", ECH_PARAM_BYTES, offsetof(SliceOptions, above), "1MiB", NULL, NULL, NULL, "only where that array is of at least this size"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/* The dimensions in @shape, "12,4096,1024" of "f32[12,4096,1024]{2,1,0:T(8,128)}", and their length; NULL where a first one does not lie outermost. */
static const char *stacked(const char *shape, size_t *ret_length)
{
    const char *open = strchr(shape, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close || close[1] != '{')
        return NULL;
    const char *order = close + 2, *end = order + strcspn(order, ":}");
    unsigned dimensions = 1;
    for (const char *c = open; c < close; c++)
        dimensions += *c == ',';
    if (dimensions < MIN_DIMENSIONS || end - order < 2 || end[-1] != '0' || end[-2] != ',')
        return NULL;
    *ret_length = (size_t)(close - open) - 1;
    return open + 1;
}

static bool takes_all(const EchSurvey *s, const EchUse *use)
{
    const EchBuffer *b = &s->buffers[use->buffer];
    return use->bytes >= (b->dense > 0 ? b->dense : b->bytes);
}

/* The dimensions of a stack that @use takes whole; NULL where it takes none. */
static const char *stack_of(const EchSurvey *s, const EchUse *use, size_t *ret_length)
{
    EchId shape = s->buffers[use->buffer].shape;
    bool whole = shape != ECH_NONE && takes_all(s, use) && use->pattern != ECH_PATTERN_RANDOM;
    return whole ? stacked(ech_trace_string(s->t, shape), ret_length) : NULL;
}

/* How many parts an array has and how many elements, "12 50331648" of "f32[12,4096,1024]{2,1,0}"; NULL where its shape is not known. */
static char *extent_of(const EchSurvey *s, EchId buffer)
{
    EchId shape = s->buffers[buffer].shape;
    char *at = shape != ECH_NONE ? strchr(ech_trace_string(s->t, shape), '[') : NULL;
    if (!at)
        return NULL;
    const uint64_t first = g_ascii_strtoull(at + 1, NULL, 10);
    uint64_t count = 1;
    while (*at == '[' || *at == ',')
        count = ech_bytes_mul(count, g_ascii_strtoull(at + 1, &at, 10));
    return g_strdup_printf("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, first, count);
}

/* The extents of what the program is given: what has none of them is no state of layers, but made of the rows of a batch, say. */
static GHashTable *extents_given(const EchSurvey *s)
{
    GHashTable *given = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (EchId b = 0; b < s->n_buffers; b++) {
        char *extent = s->buffers[b].resident || s->buffers[b].role == ECH_ROLE_PARAMETER ? extent_of(s, b) : NULL;
        if (extent)
            g_hash_table_add(given, extent);
    }
    return given;
}

static bool is_like_given(const EchSurvey *s, EchId buffer, GHashTable *given)
{
    g_autofree char *extent = extent_of(s, buffer);
    return extent && g_hash_table_contains(given, extent);
}

static bool reads(const EchSurvey *s, const EchOp *o, EchId buffer)
{
    for (uint32_t u = 0; u < o->n_uses; u++)
        if (s->uses[o->first_use + u].access == ECH_READ && s->uses[o->first_use + u].buffer == buffer)
            return true;
    return false;
}

/* How many slices kernel @op can go through one after the other; 0: none. *@ret_updated: what it updates in place, whole arrays. */
static uint64_t slices_of(const EchSurvey *s, EchId op, const SliceOptions *options, GHashTable *given, EchBytes *ret_updated)
{
    const EchOp *o = &s->ops[op];
    *ret_updated = 0;
    if (o->kind != ECH_OP_KERNEL || o->queue != s->core || ech_survey_has_products(s, op))
        return 0;
    const char *dimensions = NULL;
    size_t length = 0;
    EchBytes least = UINT64_MAX;
    bool other = false;
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        if (use->access != ECH_WRITE || use->bytes < options->above || !reads(s, o, use->buffer) || !is_like_given(s, use->buffer, given) ||
            !ech_survey_fits_name(s, ech_survey_root(s, use->buffer), options->names))
            continue;
        *ret_updated = ech_bytes_add(*ret_updated, takes_all(s, use) ? use->bytes : 0);
        dimensions = stack_of(s, use, &length);
        least = MIN(least, use->bytes);
        other |= !dimensions;
    }
    if (!dimensions || other)
        return 0;
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        size_t same_length = 0;
        const char *same = stack_of(s, use, &same_length);
        if (!(use->access == ECH_READ && use->bytes <= MAX_BESIDE) && !(same && same_length == length && strncmp(same, dimensions, length) == 0))
            return 0;
    }
    uint64_t n = g_ascii_strtoull(dimensions, NULL, 10);
    return n >= 2 && n <= MAX_SLICES && least / n >= MIN_SLICE ? n : 0;
}

typedef struct {
    const EchSurvey *s;
    EchEdit e;
    GArray *loops; /* open ones, old numbers */
} Writer;

static void put_uses(Writer *w, const EchOp *o, uint64_t slices)
{
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &w->s->uses[o->first_use + u];
        size_t length;
        EchBytes bytes = slices > 1 && stack_of(w->s, use, &length) ? use->bytes / slices : use->bytes;
        ech_trace_builder_use(w->e.builder, use->buffer, (EchAccess)use->access, bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
}

static void put(Writer *w, EchId op)
{
    const EchOp *o = &w->s->ops[op];
    w->e.map[op] = ech_trace_builder_op(w->e.builder, ech_edit_op(&w->e, op));
    put_uses(w, o, 1);
    for (uint32_t d = 0; d < o->n_deps; d++)
        ech_edit_dep(&w->e, &w->s->deps[o->first_dep + d], 0);
    ech_edit_work(&w->e, op, 1);
}

static void put_slices(Writer *w, EchId op, uint64_t slices)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    EchOp loop = ech_op_init(ECH_OP_LOOP), slice = ech_edit_op(&w->e, op);
    loop.name = slice.name;
    loop.stack = slice.stack;
    loop.queue = slice.queue;
    loop.bytes = slices;
    loop.bytes_origin = ECH_INFERRED;
    w->e.map[op] = ech_trace_builder_op(w->e.builder, loop);
    for (uint32_t d = 0; d < o->n_deps; d++)
        ech_edit_dep(&w->e, &s->deps[o->first_dep + d], 0);
    slice.recorded = (EchRecorded){ECH_TIME_NONE, ECH_TIME_NONE};
    if (slice.estimate != ECH_TIME_NONE)
        slice.estimate /= (EchTime)slices;
    if (o->launch != ECH_NONE)
        slice.launch = ech_edit_launch(&w->e, o->launch, slices);
    (void)ech_trace_builder_op(w->e.builder, slice);
    put_uses(w, o, slices);
    ech_edit_work(&w->e, op, slices);
    ech_edit_close(&w->e, w->e.map[op]);
}

static EchTrace *slice_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    g_auto(EchSurvey) s = {0};
    g_autoptr(GArray) slices = g_array_new(FALSE, TRUE, sizeof(uint64_t));
    EchBytes updated = 0, all = 0;
    uint64_t least = UINT64_MAX, most = 0;
    guint n = 0;
    if (ech_survey_init(&s, in, device)) {
        g_autoptr(GHashTable) given = extents_given(&s);
        g_array_set_size(slices, (guint)s.n);
        for (EchId i = 0; i < s.n; i++) {
            EchBytes here;
            uint64_t of = slices_of(&s, i, options, given, &here);
            g_array_index(slices, uint64_t, i) = of;
            all = ech_bytes_add(all, here);
            if (of == 0)
                continue;
            updated = ech_bytes_add(updated, here);
            least = MIN(least, of);
            most = MAX(most, of);
            n++;
        }
    }
    /* Blocks one after the other may have some arrays of three dimensions. */
    const char *why = n == 0
                          ? "no kernel updates stacked arrays (of three dimensions or more) in place, element by element (donated arguments are: pass donate)"
                      : updated < all / 2 ? "most of what is updated in place is no stack of layers"
                                          : NULL;
    if (why) {
        ech_diag_remark(diag, "slice: left the trace as it is: %s", why);
        return ech_trace_ref(in);
    }
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(in));
    Writer writer = {.s = &s, .loops = g_array_new(FALSE, FALSE, sizeof(EchId))}, *w = &writer;
    ech_edit_init(&w->e, &s, builder);
    ech_edit_keep_places(&w->e); /* nothing lives longer */
    for (EchId i = 0; i <= s.n; i++) {
        while (w->loops->len > 0 && s.end[g_array_index(w->loops, EchId, w->loops->len - 1)] == i) {
            ech_edit_close(&w->e, w->e.map[g_array_index(w->loops, EchId, w->loops->len - 1)]);
            g_array_set_size(w->loops, w->loops->len - 1);
        }
        if (i == s.n)
            break;
        uint64_t of = g_array_index(slices, uint64_t, i);
        if (of > 0)
            put_slices(w, i, of);
        else
            put(w, i);
        if (s.ops[i].kind == ECH_OP_LOOP)
            g_array_append_val(w->loops, i);
    }
    ech_edit_loops(&w->e, s.n_buffers);
    g_autofree char *bytes = ech_format_bytes(updated), *parts = least == most ? g_strdup_printf("%" G_GUINT64_FORMAT, most)
                                                                               : g_strdup_printf("%" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, least, most);
    ech_diag_remark(diag, "slice: %u kernel%s that update%s %s in place do%s it %s slices one after the other", n, n == 1 ? "" : "s", n == 1 ? "s" : "", bytes,
                    n == 1 ? "es" : "", parts);
    ech_edit_clear(&w->e);
    g_array_unref(w->loops);
    return ech_trace_builder_finish(builder, error);
}

const EchPassClass ech_pass_slice = {
    .name = "slice",
    .summary = "update stacked arrays a layer at a time, so that offload fetches slices (lax.fori_loop around the optimizer's update)",
    .source = "ours; what XLA makes of such loops: validation/what_ifs.md",
    .params = slice_params,
    .options_size = sizeof(SliceOptions),
    .trace = slice_run};
