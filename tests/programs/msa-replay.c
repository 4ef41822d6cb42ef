/* msa-replay FILE.json.gz [--hlo FILE.hlo.gz | --alone FILE.hlo.gz | --knobs OTHER.json.gz]: places one oracle compile again with models/place and prints the
 * outcome as JSON.
 *
 * Reads only what a compiler pass would have: schedule, values (their list order is not used), target constraints, options, picker size, bandwidth,
 * and the benefits of definitions and uses; the heaps from their events. The compiler's own decisions are never looked at. With --alone
 * everything but the options' numbers comes from the program's text, as in the place pass; the file only gives values their names. With --knobs the options are
 * another compile's of the same program, a what-if; what the compiler decided there is then priced by this file's costs, as ours is: "real". */
#include "models/place/cost.h"
#include "models/place/flow.h"
#include "models/place/loop.h"
#include "models/place/xheap.h"
#include "sim/base/error.h"
#include "sim/import/hlo.h"
#include "sim/program/place_inputs.h"

#include <gio/gio.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

typedef struct {
    double definition, use;
    bool has;
} Benefit;

typedef struct {
    JsonObject *root;
    GHashTable *step_of;      /* instruction name -> 1 + step */
    GHashTable *computations; /* name -> 1 + number */
    EchFlowInstruction *instructions;
    uint32_t n;
    const EchPlaceChip *chip;
    double bandwidth, saving;         /* bytes/s, s/byte */
    double *definitions;              /* benefit of the definition at each position; NAN: not known */
    bool compare;                     /* say where our costs differ from the printed ones */
    float *total;                     /* bytes accessed per step; NAN: not known, or bound by compute */
    uint64_t *while_trips;            /* per step: iterations of a loop, else 0 */
    float *loop_compute, *loop_total; /* what the optimizer of unrolled loops is told */
    EchFlow *flow;
} Replay;

static char *read_gz(const char *path, size_t *ret_size)
{
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return NULL;
    GByteArray *bytes = g_byte_array_new();
    guint8 buffer[65536];
    int got;
    while ((got = gzread(file, buffer, sizeof buffer)) > 0)
        g_byte_array_append(bytes, buffer, (guint)got);
    gzclose(file);
    *ret_size = bytes->len;
    g_byte_array_append(bytes, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(bytes, FALSE);
}

static uint32_t number_of(GHashTable *table, const char *name)
{
    gpointer known = g_hash_table_lookup(table, name);
    if (known == NULL) {
        known = GUINT_TO_POINTER(g_hash_table_size(table) + 1);
        g_hash_table_insert(table, g_strdup(name), known);
    }
    return GPOINTER_TO_UINT(known) - 1;
}

/* What a shape text such as bf16[4,8]{1,0:T(8,128)} tells beyond its bytes. */
static void read_dimensions(const char *text, uint32_t *ret_major, uint64_t *ret_elements)
{
    EchLayout layout;
    *ret_major = 0;
    *ret_elements = 1;
    if (!ech_layout_parse(text, strlen(text), &layout, NULL, NULL))
        return;
    *ret_major = ech_flow_major(&layout, NULL);
    *ret_elements = ech_layout_elements(&layout);
}

static void read_schedule(Replay *r)
{
    JsonArray *schedule = json_object_get_array_member(r->root, "schedule");
    r->n = json_array_get_length(schedule);
    r->instructions = g_new0(EchFlowInstruction, MAX(r->n, 1));
    r->while_trips = g_new0(uint64_t, MAX(r->n, 1));
    for (uint32_t t = 0; t < r->n; t++)
        g_hash_table_insert(r->step_of, g_strdup(json_array_get_string_element(json_array_get_array_element(schedule, t), 1)), GUINT_TO_POINTER(t + 1));
    const char *entry = r->n > 0 ? json_array_get_string_element(json_array_get_array_element(schedule, r->n - 1), 0) : "";
    for (uint32_t t = 0; t < r->n; t++) {
        JsonArray *row = json_array_get_array_element(schedule, t);
        EchFlowInstruction *in = &r->instructions[t];
        in->name = json_array_get_string_element(row, 1);
        in->computation = number_of(r->computations, json_array_get_string_element(row, 0));
        in->entry = strcmp(json_array_get_string_element(row, 0), entry) == 0;
        in->seconds = json_array_get_double_element(row, 2);
        if (json_array_get_length(row) < 6)
            continue;
        const char *opcode = json_array_get_string_element(row, 3);
        in->op = ech_flow_op(opcode);
        in->opcode = opcode;
        JsonArray *operands = json_array_get_array_element(row, 4), *leaves = json_array_get_array_element(row, 5);
        in->n_operands = json_array_get_length(operands);
        uint32_t *steps = g_new0(uint32_t, MAX(in->n_operands, 1));
        for (uint32_t k = 0; k < in->n_operands; k++)
            steps[k] = GPOINTER_TO_UINT(g_hash_table_lookup(r->step_of, json_array_get_string_element(operands, k))) - 1;
        in->operands = steps;
        in->n_leaves = json_array_get_length(leaves);
        EchFlowLeaf *out = g_new0(EchFlowLeaf, MAX(in->n_leaves, 1));
        for (uint32_t l = 0; l < in->n_leaves; l++) {
            JsonArray *leaf = json_array_get_array_element(leaves, l);
            out[l].text = json_array_get_string_element(leaf, 0);
            out[l].bytes = (EchBytes)json_array_get_int_element(leaf, 1);
            out[l].space = (int32_t)json_array_get_int_element(leaf, 2);
            read_dimensions(out[l].text, &out[l].major, &out[l].elements);
        }
        in->leaves = out;
        const char *number = strstr(in->name, "param_");
        if (in->op == ECH_FLOW_PARAMETER && number != NULL)
            in->number = (uint32_t)g_ascii_strtoull(number + 6, NULL, 10);
        in->root = t + 1 == r->n;
        if (json_array_get_length(row) < 7)
            continue;
        JsonObject *extra = json_array_get_object_element(row, 6);
        in->root = in->root || json_object_has_member(extra, "root");
        if (json_object_has_member(extra, "trips"))
            r->while_trips[t] = (uint64_t)MAX(json_object_get_int_member(extra, "trips"), 1);
        if (json_object_has_member(extra, "slice") && in->n_operands == 1 && in->n_leaves == 1 && steps[0] < t && r->instructions[steps[0]].n_leaves == 1) {
            const char *bounds = json_object_get_string_member(extra, "slice");
            in->synchronous = !ech_flow_slice_is_copy(r->instructions[steps[0]].leaves[0].text, out[0].text, bounds, strlen(bounds));
        }
        if (json_object_has_member(extra, "index"))
            in->index = (uint32_t)json_object_get_int_member(extra, "index");
        uint32_t called[64], n_called = 0;
        static const char *const keys[] = {"body", "condition"};
        for (size_t k = 0; k < 2; k++)
            if (json_object_has_member(extra, keys[k]))
                called[n_called++] = number_of(r->computations, json_object_get_string_member(extra, keys[k]));
        if (json_object_has_member(extra, "branches")) {
            JsonArray *branches = json_object_get_array_member(extra, "branches");
            for (guint k = 0; k < json_array_get_length(branches) && n_called < 64; k++)
                called[n_called++] = number_of(r->computations, json_array_get_string_element(branches, k));
        }
        if (json_object_has_member(extra, "calls") && (in->op == ECH_FLOW_ASYNC_START || in->op == ECH_FLOW_CALL))
            called[n_called++] = number_of(r->computations, json_object_get_string_member(extra, "calls"));
        in->called = g_memdup2(called, MAX(n_called, 1) * sizeof(uint32_t));
        in->n_called = n_called;
    }
    /* A root's extras may lie in a computation whose last instruction is the root without saying so. */
}

/* "fusion.2{1}" -> step and leaf. */
static bool find_place(const Replay *r, const char *text, uint32_t *ret_step, uint32_t *ret_leaf)
{
    g_autofree char *name = g_strdup(text);
    char *brace = strchr(name, '{');
    if (brace != NULL) {
        *brace++ = '\0';
        brace[strcspn(brace, "}")] = '\0';
    }
    g_strchomp(name);
    uint32_t step = GPOINTER_TO_UINT(g_hash_table_lookup(r->step_of, name));
    if (step == 0)
        return false;
    uint32_t leaf = brace != NULL && r->flow != NULL ? ech_flow_leaf(r->flow, step - 1, brace) : 0;
    if (leaf == ECH_PLACE_NONE || leaf >= r->instructions[step - 1].n_leaves)
        return false;
    *ret_step = step - 1;
    *ret_leaf = leaf;
    return true;
}

/* "tuple.11, operand 1 {0}" -> step, operand, leaf of the operand. */
static bool find_use(const Replay *r, const char *text, EchFlowPlace *ret)
{
    const char *comma = strstr(text, ", operand ");
    if (comma == NULL)
        return false;
    g_autofree char *name = g_strndup(text, (gsize)(comma - text));
    uint32_t step = GPOINTER_TO_UINT(g_hash_table_lookup(r->step_of, name));
    char *end;
    uint32_t operand = (uint32_t)g_ascii_strtoull(comma + 10, &end, 10);
    if (step == 0 || operand >= r->instructions[step - 1].n_operands || r->instructions[step - 1].operands[operand] == ECH_PLACE_NONE)
        return false;
    uint32_t source = r->instructions[step - 1].operands[operand], leaf = 0;
    const char *brace = strchr(end, '{');
    if (brace != NULL) {
        g_autofree char *index = g_strndup(brace + 1, strcspn(brace + 1, "}"));
        leaf = ech_flow_leaf(r->flow, source, index);
    }
    if (leaf == ECH_PLACE_NONE || leaf >= r->instructions[source].n_leaves)
        return false;
    *ret = (EchFlowPlace){step - 1, operand, leaf};
    return true;
}

static uint32_t value_at(const Replay *r, uint32_t step, uint32_t leaf)
{
    return r->flow->value_of[r->flow->leaf_start[step] + leaf];
}

/* Values of one row share a buffer: the definition and what every use reads. */
static GArray *read_pairs(const Replay *r)
{
    GArray *pairs = g_array_new(FALSE, FALSE, sizeof(EchFlowPair));
    JsonArray *values = json_object_get_array_member(r->root, "values");
    for (guint i = 0; i < json_array_get_length(values); i++) {
        JsonArray *row = json_array_get_array_element(values, i), *uses = json_array_get_array_element(row, 6);
        uint32_t step, leaf;
        if (json_array_get_int_element(row, 7) != 0 || !find_place(r, json_array_get_string_element(row, 1), &step, &leaf))
            continue;
        for (guint k = 0; k < json_array_get_length(uses); k++) {
            EchFlowPlace use;
            if (!find_use(r, json_array_get_string_element(uses, k), &use))
                continue;
            EchFlowPair pair = {step, leaf, r->instructions[use.step].operands[use.operand], use.leaf};
            g_array_append_val(pairs, pair);
        }
    }
    return pairs;
}

static double member(JsonObject *object, const char *name, double fallback)
{
    if (!json_object_has_member(object, name))
        return fallback;
    JsonNode *node = json_object_get_member(object, name);
    if (json_node_get_value_type(node) == G_TYPE_STRING) {
        /* An unsigned -1 is how the compiler prints "no limit". */
        double x = g_ascii_strtod(json_node_get_string(node), NULL);
        return x;
    }
    return json_node_get_value_type(node) == G_TYPE_INT64 ? (double)json_node_get_int(node) : json_node_get_double(node);
}

/* The stand-in where the file names none (no prefetch was ever tried): the rule without the bodies of fusions, which the file lacks. */
static EchBytes guess_picker_bytes(const Replay *r)
{
    g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(EchBytes));
    EchBytes largest = 0;
    for (uint32_t t = 0; t < r->n; t++) {
        const EchFlowInstruction *in = &r->instructions[t];
        if (in->op == ECH_FLOW_ELEMENT || in->op == ECH_FLOW_BITCAST || in->op == ECH_FLOW_TUPLE || in->op == ECH_FLOW_WHILE ||
            (in->n_leaves > 1 && in->op != ECH_FLOW_OTHER))
            continue;
        for (uint32_t l = 0; l < in->n_leaves; l++)
            if (in->leaves[l].bytes > 1048576) {
                g_array_append_val(sizes, in->leaves[l].bytes);
                largest = MAX(largest, in->leaves[l].bytes);
            }
    }
    return ech_place_picker_bytes((EchBytes *)(void *)sizes->data, sizes->len, largest);
}

static void read_options(const Replay *r, JsonObject *from)
{
    JsonObject *in = json_object_get_object_member(from, "options");
    EchMsaOptions *o = &r->flow->problem.options;
    o->size = (EchBytes)member(in, "max_size_in_bytes", 0);
    o->alignment = (EchBytes)member(in, "alignment_in_bytes", 4096);
    o->copy_bytes_per_s = r->bandwidth;
    /* The stand-in is a median of arrays above 1 MiB; a smaller number is only the first buffer's own size. */
    o->picker_bytes = (EchBytes)member(r->root, "picker_bytes", 0);
    if (o->picker_bytes <= 1048576)
        o->picker_bytes = 0;
    if (!json_object_has_member(r->root, "picker_bytes"))
        o->picker_bytes = guess_picker_bytes(r);
    else if (o->picker_bytes > 0 && strcmp(r->chip->name, "v4") == 0)
        o->picker_bytes = (EchBytes)llround((double)o->picker_bytes * r->bandwidth / 491.2e9 / 512) * 512; /* what these files divided by */
    o->max_prefetches = (int64_t)member(in, "max_outstanding_prefetches", -1);
    o->max_evictions = (int64_t)member(in, "max_outstanding_evictions", -1);
    o->while_extra = (int64_t)member(in, "while_use_extra_outstanding_prefetch_limit", 0);
    o->max_retries = (uint32_t)member(in, "max_retries", 1);
    o->max_repacks = (uint32_t)member(in, "max_repacks", 0);
    o->max_cross_program = (uint32_t)member(in, "max_cross_program_prefetches", 1);
    o->cross_program = member(in, "enable_cross_program_prefetch", 1) != 0;
    o->cross_program_free = member(in, "enable_cross_program_prefetch_freeing", 1) != 0;
    o->fifo = member(in, "enforce_prefetch_fifo_order", 0) != 0;
    o->max_slices = (uint32_t)MIN(member(in, "max_slices", 0), 4294967295.0);
    o->min_slice_bytes = (EchBytes)member(in, "min_bytes", 0);
    o->preferred_slice = (EchBytes)member(in, "preferred_slice_size", 0);
    o->all_permutations = (uint32_t)member(in, "all_slice_time_permutations_threshold", 0);
    o->inefficient_ratio = member(in, "inefficient_use_to_copy_ratio", 0);
    o->sync_copies = member(in, "enable_sync_copy_replacement", 0) != 0;
    o->sync_slices = member(in, "enable_sync_slice_replacement", 0) != 0;
    /* Overlap ratios are arguments of the picker, not printed options: the settings that change them name them. */
    const char *setting = json_object_get_string_member(from, "setting");
    if (g_strcmp0(setting, "pref4") == 0)
        o->preferred_overlap = 4;
    if (g_strcmp0(setting, "max1") == 0)
        o->max_overlap = 1;
    if (g_strcmp0(setting, "min2") == 0)
        o->min_overlap = 2;
}

/* Benefits of a use, and of the definition that it reads, by the use's text. */
static GHashTable *read_benefits(const Replay *r)
{
    GHashTable *table = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    JsonArray *trace = json_object_get_array_member(r->root, "trace");
    const char *use = NULL;
    for (guint i = 0; i < json_array_get_length(trace); i++) {
        JsonArray *event = json_array_get_array_element(trace, i);
        const char *kind = json_array_get_string_element(event, 0);
        if (strcmp(kind, "seg") == 0)
            use = json_array_get_string_element(event, 6); /* only names what the next event's benefits belong to */
        else if (strcmp(kind, "ben") == 0 && use != NULL) {
            Benefit *benefit = g_new0(Benefit, 1);
            benefit->definition = json_array_get_double_element(event, 1);
            benefit->use = json_array_get_double_element(event, 2);
            g_hash_table_replace(table, g_strdup(use), benefit);
            use = NULL;
        }
    }
    return table;
}

static char *use_text(const Replay *r, uint32_t u)
{
    const EchFlowPlace *place = &r->flow->use_places[u];
    const EchFlowInstruction *in = &r->instructions[place->step];
    g_autofree char *index = ech_flow_index(r->flow, in->operands[place->operand], place->leaf);
    return g_strdup_printf("%s, operand %u%s%s", in->name, place->operand, *index != '\0' ? " " : "", index);
}

/* The position that a use reads: the last one before it in its computation. */
static uint32_t holder_of(const EchMsaProblem *p, const EchMsaUse *use)
{
    uint32_t low = 0, high = p->n_positions, found = ECH_PLACE_NONE;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (p->positions[middle].value < use->value)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->n_positions && p->positions[low].value == use->value && p->positions[low].step < use->step; low++)
        if (p->steps[p->positions[low].step].computation == p->steps[use->step].computation)
            found = low;
    return found;
}

/* What an instruction bound by compute accesses is not known, but not more than its time allows. */
static int64_t at_most(const Replay *r, double seconds, EchBytes bytes)
{
    return seconds <= r->chip->clock_s * 1.01 ? 0 : (int64_t)MIN((double)bytes, seconds * r->bandwidth);
}

/* The loop whose body step @t is in, or ECH_PLACE_NONE. */
static uint32_t loop_of(const Replay *r, uint32_t t)
{
    for (uint32_t w = t + 1; w < r->n; w++)
        for (uint32_t c = 0; r->instructions[w].op == ECH_FLOW_WHILE && c < r->instructions[w].n_called; c++)
            if (r->instructions[w].called[c] == r->instructions[t].computation)
                return w;
    return ECH_PLACE_NONE;
}

/* A scan reads one slice an iteration of what is stacked for it: a fusion in a loop that takes a counter, and an array from outside that is stacked matrices,
 * or as long as others that the loop takes. How often the loop runs these files do not say. */
static EchBytes read_at_once(const Replay *r, uint32_t u)
{
    const EchMsaUse *use = &r->flow->problem.uses[u];
    const EchMsaValue *value = &r->flow->problem.values[use->value];
    const EchFlowInstruction *in = &r->instructions[use->step];
    const EchFlowPlace *from = &r->flow->value_places[use->value];
    uint32_t loop = in->op == ECH_FLOW_OTHER && in->opcode != NULL && strcmp(in->opcode, "fusion") == 0 ? loop_of(r, use->step) : ECH_PLACE_NONE;
    EchLayout layout;
    const char *text = r->instructions[from->step].leaves[from->leaf].text;
    if (loop == ECH_PLACE_NONE || r->instructions[from->step].computation == in->computation || !ech_layout_parse(text, strlen(text), &layout, NULL, NULL) ||
        layout.rank < 2 || layout.dims[0] < 2 || layout.order[layout.rank - 1] != 0)
        return value->bytes;
    uint32_t alike = 0;
    for (uint32_t l = 0; layout.rank == 2 && l < r->instructions[loop].n_leaves; l++) {
        EchLayout other;
        text = r->instructions[loop].leaves[l].text;
        alike += ech_layout_parse(text, strlen(text), &other, NULL, NULL) && other.rank > 1 && other.dims[0] == layout.dims[0];
    }
    if (layout.rank == 2 && alike < 2)
        return value->bytes;
    for (uint32_t k = 0; k < in->n_operands; k++) {
        const EchFlowInstruction *index = in->operands[k] != ECH_PLACE_NONE ? &r->instructions[in->operands[k]] : NULL;
        if (index != NULL && index->n_leaves == 1 && g_str_has_prefix(index->leaves[0].text, "s32[]"))
            return value->bytes / layout.dims[0];
    }
    return value->bytes;
}

/* Reduction and bytes accessed from a benefit: memory-bound if positive. */
static void fill_costs(Replay *r, GHashTable *benefits)
{
    EchMsaProblem *p = &r->flow->problem;
    for (uint32_t u = 0; u < p->n_uses; u++) {
        EchMsaUse *use = &p->uses[u];
        const EchMsaStep *step = &p->steps[use->step];
        g_autofree char *text = use_text(r, u);
        const Benefit *benefit = g_hash_table_lookup(benefits, text);
        double times = pow(5, step->while_nest);
        bool moves = step->kind != ECH_MSA_TRIVIAL && step->kind != ECH_MSA_WHILE && step->kind != ECH_MSA_CONDITIONAL;
        use->accessed = moves ? at_most(r, step->seconds, read_at_once(r, u)) : 0;
        if (benefit != NULL && benefit->use > 0) {
            use->reduction = MIN(benefit->use / times, step->seconds);
            use->accessed = (int64_t)llround(benefit->use / times / r->saving);
        } else if (benefit != NULL && benefit->use == 0)
            use->accessed = 0;
        if (r->instructions[use->step].op == ECH_FLOW_GATHER_START) /* takes no time but reads all of it */
            use->accessed = (int64_t)p->values[use->value].bytes;
    }
    r->definitions = g_new(double, MAX(p->n_positions, 1));
    for (uint32_t k = 0; k < p->n_positions; k++)
        r->definitions[k] = NAN;
    for (uint32_t u = 0; u < p->n_uses; u++) {
        g_autofree char *text = use_text(r, u);
        const Benefit *benefit = g_hash_table_lookup(benefits, text);
        uint32_t k = benefit != NULL ? holder_of(p, &p->uses[u]) : ECH_PLACE_NONE;
        if (k != ECH_PLACE_NONE)
            r->definitions[k] = benefit->definition;
    }
    for (uint32_t k = 0; k < p->n_positions; k++) {
        const EchFlowInstruction *in = &r->instructions[p->positions[k].step];
        bool moves = in->op != ECH_FLOW_PARAMETER && in->op != ECH_FLOW_WHILE && in->op != ECH_FLOW_CONDITIONAL && in->op != ECH_FLOW_CONSTANT;
        p->definition_bytes[k] = moves ? at_most(r, p->steps[p->positions[k].step].seconds, p->values[p->positions[k].value].bytes) : 0;
        if ((moves || in->op == ECH_FLOW_WHILE) && r->definitions[k] > 0)
            p->definition_bytes[k] = (int64_t)llround(r->definitions[k] / pow(5, p->steps[p->positions[k].step].while_nest) / r->saving);
        else if (r->definitions[k] == 0)
            p->definition_bytes[k] = 0;
    }
}

/* The roundest whole number that prints, times @unit, as @seconds with six digits: counts of operations, bytes and clocks are multiples of powers of two. */
static double roundest(double seconds, double unit)
{
    double half = 0.5 * pow(10, floor(log10(seconds)) - 5), low = (seconds - half) / unit, high = (seconds + half) / unit;
    for (double step = 0x1p40; step >= 1; step /= 2) {
        double at = ceil(low / step) * step;
        if (at > 0 && at <= high)
            return at;
    }
    return seconds / unit;
}

/* The bytes behind a positive benefit: the padded size where it is that to the printed digits, else the roundest. */
static double bytes_of(const Replay *r, double benefit, double times, EchBytes padded)
{
    double bytes = benefit / times / r->saving;
    return fabs(bytes - (double)padded) <= 2e-5 * (double)padded ? (double)padded : round(roundest(benefit, times * r->saving));
}

/* The position where a value is defined. */
static uint32_t first_position(const EchMsaProblem *p, uint32_t value)
{
    uint32_t low = 0, high = p->n_positions;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (p->positions[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->n_positions && p->positions[low].value == value && p->positions[low].step == p->values[value].step ? low : ECH_PLACE_NONE;
}

/* The printed times are those that copies find: four fifths from where another core starts a gather or scatter to where it gets its operands. */
static void find_taken(Replay *r)
{
    EchMsaProblem *p = &r->flow->problem;
    for (uint32_t t = 0; t < r->n; t++) {
        const EchFlowInstruction *start = &r->instructions[t];
        if (start->op != ECH_FLOW_ASYNC_START || start->n_operands > 0 || start->n_called == 0)
            continue;
        bool works = false;
        for (uint32_t k = 0; k < r->n && !works; k++)
            works = r->instructions[k].computation == start->called[0] && strcmp(r->instructions[k].opcode, "custom-call") == 0;
        for (uint32_t u = t + 1, done = 0; u < r->n && works && !done; u++) {
            const EchFlowInstruction *in = &r->instructions[u];
            if (in->computation != start->computation)
                continue;
            done = in->n_operands > 0 && in->operands[0] == t;
            if (!done || in->op == ECH_FLOW_ASYNC_UPDATE) {
                p->steps[u].taken = 0.2;
                p->steps[u].seconds /= 0.8;
            }
        }
    }
}

/* The printed benefits have six digits; XLA's order hangs on the rounding of single precision. Adds up what each instruction bound by memory accesses, and
 * where the sum is the printed time repeats the arithmetic. */
static void sharpen_order(Replay *r, GHashTable *benefits)
{
    EchMsaProblem *p = &r->flow->problem;
    r->total = g_new(float, MAX(r->n, 1));
    g_autofree double *sum = g_new0(double, MAX(r->n, 1));
    g_autofree bool *known = g_new0(bool, MAX(r->n, 1)), *bound = g_new0(bool, MAX(r->n, 1));
    g_autofree double *read = g_new0(double, MAX(p->n_uses, 1)), *written = g_new0(double, MAX(p->n_values, 1));
    for (uint32_t t = 0; t < r->n; t++)
        known[t] = true;
    for (uint32_t u = 0; u < p->n_uses; u++) {
        uint32_t step = p->uses[u].step;
        g_autofree char *text = use_text(r, u);
        const Benefit *benefit = g_hash_table_lookup(benefits, text);
        read[u] = (double)p->values[p->uses[u].value].bytes;
        if (benefit != NULL && benefit->use > 0) {
            read[u] = bytes_of(r, benefit->use, pow(5, p->steps[step].while_nest), p->values[p->uses[u].value].bytes);
            bound[step] = true;
        } else if (benefit != NULL && benefit->use == 0)
            read[u] = 0;
        else if (benefit != NULL && benefit->use < 0)
            known[step] = false;
        sum[step] += read[u];
    }
    for (uint32_t v = 0; v < p->n_values; v++) {
        uint32_t step = p->values[v].step;
        uint32_t k = first_position(p, v);
        double benefit = k != ECH_PLACE_NONE ? r->definitions[k] : NAN;
        written[v] = (double)p->values[v].bytes;
        if (benefit > 0) {
            written[v] = bytes_of(r, benefit, pow(5, p->steps[step].while_nest), p->values[v].bytes);
            bound[step] = true;
        } else if (benefit == 0)
            written[v] = 0;
        else if (!isnan(benefit))
            known[step] = false;
        sum[step] += written[v];
    }
    for (uint32_t t = 0; t < r->n; t++) {
        double seconds = p->steps[t].seconds;
        bool exact = known[t] && fabs(sum[t] / r->bandwidth - seconds) <= 4e-6 * seconds;
        r->loop_total[t] = known[t] ? (float)sum[t] : (float)MIN(sum[t], seconds * r->bandwidth);
        r->loop_compute[t] = known[t] ? 0 : (float)seconds;
        bool work = seconds > r->chip->clock_s * 1.01;
        r->total[t] = exact ? (float)sum[t] : bound[t] && work ? (float)roundest(seconds, 1 / r->bandwidth) : bound[t] ? (float)(seconds * r->bandwidth) : NAN;
        if (work && (exact || bound[t]))
            p->steps[t].seconds = ech_place_memory_seconds(r->chip, r->total[t], 0, 0);
        else if (work) {
            /* Bound by compute: operations at a rate, or clocks. */
            double unit = r->chip->flops_per_s > 0 ? 1 / r->chip->flops_per_s : r->chip->clock_s;
            p->steps[t].seconds = (float)(roundest(seconds, unit) * unit);
        }
    }
    g_autofree float *gain = g_new(float, MAX(p->n_values, 1)); /* per value: sum over its uses */
    g_autofree bool *any = g_new0(bool, MAX(p->n_values, 1));
    g_autofree float *group_gain = g_new0(float, MAX(p->n_values, 1));
    for (uint32_t v = 0; v < p->n_values; v++) {
        const EchMsaValue *value = &p->values[v];
        const EchFlowInstruction *in = &r->instructions[value->step];
        bool still = in->op == ECH_FLOW_PARAMETER || in->op == ECH_FLOW_WHILE || in->op == ECH_FLOW_CONDITIONAL;
        uint32_t k = first_position(p, v);
        double benefit = k != ECH_PLACE_NONE ? r->definitions[k] : NAN;
        if (still)
            gain[v] = 0;
        else if (!isnan(r->total[value->step]))
            gain[v] = ech_place_benefit(r->chip, 0, r->total[value->step], 0, (float)written[v], p->steps[value->step].while_nest);
        else if (!isnan(benefit))
            gain[v] = (float)benefit;
        else
            gain[v] = -1; /* bound by compute: how far does not matter beside a positive benefit */
    }
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->values[v].eligible) {
            group_gain[p->values[v].group] = gain[v];
            any[p->values[v].group] = true;
        }
    for (uint32_t u = 0; u < p->n_uses; u++) {
        const EchMsaUse *use = &p->uses[u];
        const EchMsaStep *step = &p->steps[use->step];
        uint32_t group = p->values[use->value].group;
        if (!any[group] || step->kind == ECH_MSA_WHILE || step->kind == ECH_MSA_CONDITIONAL)
            continue;
        g_autofree char *text = use_text(r, u);
        const Benefit *benefit = g_hash_table_lookup(benefits, text);
        float one = -1;
        if (!isnan(r->total[use->step]))
            one = ech_place_benefit(r->chip, 0, r->total[use->step], (float)read[u], 0, step->while_nest);
        else if (benefit != NULL)
            one = (float)benefit->use;
        group_gain[group] = ech_place_add_benefit(group_gain[group], one);
    }
    for (uint32_t v = 0; v < p->n_values; v++) {
        EchMsaValue *value = &p->values[v];
        if (!value->eligible)
            continue;
        float own = ech_place_boundedness(group_gain[value->group], value->bytes);
        /* Never beyond what was printed. */
        double digit = value->boundedness != 0 ? 0.5 * pow(10, floor(log10(fabs(value->boundedness))) - 5) : 0;
        if (fabs((double)own - value->boundedness) <= 2e-5 * fabs(value->boundedness))
            value->boundedness = CLAMP((double)own, value->boundedness - digit, value->boundedness + digit);
    }
}

static EchProgram *read_program(const char *path, const EchPlaceChip *chip, GError **error)
{
    size_t size;
    char *text = read_gz(path, &size);
    if (text == NULL) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: cannot be read", path);
        return NULL;
    }
    g_autoptr(GBytes) bytes = g_bytes_new_take(text, size);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autofree char *device = g_strdup_printf("tpu-%s", chip->name);
    return ech_hlo_read_text(bytes, path, device, diag, error);
}

/* --hlo: elapsed times, reductions, bytes accessed, order and picker size from the program's text by our own cost analysis. */
static bool use_program(Replay *r, const char *path, GError **error)
{
    g_autoptr(EchProgram) program = read_program(path, r->chip, error);
    if (program == NULL)
        return false;
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(program, r->chip);
    EchMsaProblem *p = &r->flow->problem;
    g_autoptr(GHashTable) by_name = g_hash_table_new(g_str_hash, g_str_equal);
    for (size_t f = 0; f < program->n_flat; f++)
        g_hash_table_insert(by_name, (gpointer)(guintptr)program->instructions[program->flat[f]].name, GUINT_TO_POINTER(program->flat[f] + 1));
    g_autofree EchId *ids = g_new(EchId, MAX(r->n, 1));
    for (uint32_t t = 0; t < r->n; t++) {
        ids[t] = GPOINTER_TO_UINT(g_hash_table_lookup(by_name, r->instructions[t].name)) - 1;
        if (ids[t] == ECH_NONE) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: no instruction '%s' in its schedule", path, r->instructions[t].name);
            return false;
        }
        if (r->compare && fabs((1 - (double)costs->taken[ids[t]]) * (double)costs->seconds[ids[t]] - p->steps[t].seconds) > 6e-6 * p->steps[t].seconds + 1e-15)
            fprintf(stderr, "%s: %g s, the compiler has %g\n", r->instructions[t].name, (double)costs->seconds[ids[t]], p->steps[t].seconds);
        r->loop_compute[t] = costs->compute[ids[t]];
        r->loop_total[t] = costs->total[ids[t]];
    }
    if (r->compare && costs->picker_bytes != p->options.picker_bytes)
        fprintf(stderr, "picker %" G_GUINT64_FORMAT ", the compiler has %" G_GUINT64_FORMAT "\n", costs->picker_bytes, p->options.picker_bytes);
    g_autofree double *printed = g_new(double, MAX(p->n_values, 1));
    for (uint32_t v = 0; v < p->n_values; v++)
        printed[v] = p->values[v].boundedness;
    ech_place_fill_costs(r->flow, program, costs, ids);
    ech_place_fill_colors(r->flow, program, r->chip, ids);
    for (uint32_t v = 0; r->compare && v < p->n_values; v++)
        if (p->values[v].eligible && fabs(p->values[v].boundedness - printed[v]) > 2e-5 * fabs(printed[v]))
            fprintf(stderr, "value %" G_GUINT64_FORMAT " (%s): %g, the compiler has %g\n", p->values[v].id, r->instructions[p->values[v].step].name,
                    p->values[v].boundedness, printed[v]);
    return true;
}

/* A parameter that was fetched before the program has no row of its own; another compile may treat it as any other. */
static void add_candidates(Replay *r)
{
    EchMsaProblem *p = &r->flow->problem;
    JsonArray *list = json_object_get_array_member(r->root, "xprogram_candidates");
    for (guint i = 0; i < json_array_get_length(list); i++) {
        int64_t id = json_array_get_int_element(json_array_get_array_element(list, i), 0);
        for (uint32_t v = 0; v < p->n_values; v++) {
            EchMsaValue *value = &p->values[v];
            if ((int64_t)MIN(value->id, INT32_MAX) != id || value->eligible || value->bytes > p->options.size)
                continue;
            double gain = 0;
            for (uint32_t u = 0; u < p->n_uses; u++) {
                EchMsaUse *use = &p->uses[u];
                if (use->value != v || r->loop_compute[use->step] > 0 || p->steps[use->step].seconds <= r->chip->clock_s * 1.01)
                    continue;
                use->accessed = (int64_t)value->bytes;
                use->reduction = MIN((double)value->bytes * r->saving, p->steps[use->step].seconds);
                gain += use->reduction * pow(5, p->steps[use->step].while_nest);
            }
            value->eligible = true;
            value->boundedness = gain / sqrt((double)value->bytes);
        }
    }
}

/* Unrolled loops, where the options have their optimizer on. */
static void optimize_loops(Replay *r, bool report)
{
    JsonObject *in = json_object_get_object_member(r->root, "options");
    const char *enabled = json_object_has_member(in, "enabled") ? json_object_get_string_member(in, "enabled") : NULL;
    if (g_strcmp0(enabled, "true") != 0)
        return;
    const char *whole = json_object_has_member(in, "allow_unsatisfied_fully_pipelined_prefetch")
                            ? json_object_get_string_member(in, "allow_unsatisfied_fully_pipelined_prefetch")
                            : NULL;
    EchLoopOptions options = {
        .min_iterations = member(in, "min_num_iterations", 6),
        .desired_ratio = (float)member(in, "desired_copy_ratio", 0.7),
        .fully_pipelined = g_strcmp0(whole, "true") == 0,
        .chip = r->chip,
        .compute = r->loop_compute,
        .total = r->loop_total,
    };
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(EchLoopFound));
    ech_loop_optimize(r->flow, r->instructions, &options, found);
    for (guint i = 0; report && i < found->len; i++) {
        const EchLoopFound *run = &g_array_index(found, EchLoopFound, i);
        fprintf(stderr, "loop %u-%u by %u%s\n", run->first, run->last, run->size, run->optimized ? ", optimized" : "");
    }
}

static void read_values(Replay *r)
{
    EchMsaProblem *p = &r->flow->problem;
    JsonArray *values = json_object_get_array_member(r->root, "values"), *required = json_object_get_array_member(r->root, "required");
    g_autoptr(GHashTable) by_id = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) scoped = g_array_new(FALSE, FALSE, sizeof(EchMsaScoped)), asked = g_array_new(FALSE, FALSE, sizeof(EchMsaScoped)),
                      needs = g_array_new(FALSE, FALSE, sizeof(EchMsaRequired));
    for (uint32_t v = 0; v < p->n_values; v++)
        p->values[v].id = UINT32_MAX + (uint64_t)v;
    for (guint i = 0; i < json_array_get_length(values); i++) {
        JsonArray *row = json_array_get_array_element(values, i);
        int64_t id = json_array_get_int_element(row, 0);
        if (json_array_get_int_element(row, 7) != 0) {
            EchMsaScoped s = {(uint32_t)json_array_get_int_element(row, 4), (EchBytes)json_array_get_int_element(row, 3), id};
            g_array_append_val(scoped, s);
            continue;
        }
        uint32_t step, leaf;
        if (!find_place(r, json_array_get_string_element(row, 1), &step, &leaf))
            continue;
        uint32_t v = value_at(r, step, leaf);
        p->values[v].eligible = true;
        p->values[v].id = (uint64_t)id;
        p->values[v].boundedness = json_array_get_double_element(row, 2);
        g_hash_table_insert(by_id, GINT_TO_POINTER((int)id), GUINT_TO_POINTER(v + 1));
    }
    /* What kernels ask for of the memory stands in the program's text (scoped_memory_configs), of which these files repeat only the size and the step, and only
     * beside the offset that it got: that is not looked at. */
    JsonArray *others = json_object_has_member(r->root, "allocations_other") ? json_object_get_array_member(r->root, "allocations_other") : NULL;
    for (guint i = 0; scoped->len == 0 && others != NULL && i < json_array_get_length(others); i++) {
        JsonObject *a = json_array_get_object_element(others, i);
        if (strcmp(json_object_get_string_member(a, "k"), "scoped") != 0)
            continue;
        EchMsaScoped s = {(uint32_t)json_object_get_int_member(a, "s"), (EchBytes)json_object_get_int_member(a, "z"), -1 - (int64_t)i};
        g_array_append_val(asked, s);
    }
    if (scoped->len == 0)
        g_array_append_vals(scoped, asked->data, asked->len);
    for (guint i = 0; i < json_array_get_length(required); i++) {
        JsonArray *row = json_array_get_array_element(required, i);
        const char *reason = json_array_get_string_element(row, 4);
        uint32_t step = (uint32_t)json_array_get_int_element(row, 2);
        uint32_t known = GPOINTER_TO_UINT(g_hash_table_lookup(by_id, GINT_TO_POINTER((int)json_array_get_int_element(row, 0))));
        if (g_str_has_prefix(reason, "Program input") && step < r->n && r->instructions[step].n_leaves == 1) {
            /* The entry parameter's id, where it is not among the values. */
            uint32_t v = value_at(r, step, 0);
            if (p->values[v].id >= UINT32_MAX && p->values[v].step == step && known == 0 && r->instructions[step].op == ECH_FLOW_PARAMETER)
                p->values[v].id = MIN(p->values[v].id, (uint64_t)json_array_get_int_element(row, 0));
            continue;
        }
        if (g_str_has_prefix(reason, "Program output") && known != 0 && p->values[known - 1].step < step) {
            /* A donated input that the output takes the place of: its row says so, its uses do not. */
            EchMsaRequired need = {known - 1, step};
            g_array_append_val(needs, need);
            continue;
        }
        bool constraint = g_str_has_prefix(reason, "Constraint"), use = g_str_has_prefix(reason, "Use not"), position = g_str_has_prefix(reason, "Position");
        if (!constraint && !use && !position)
            continue;
        if (known != 0) {
            EchMsaRequired need = {known - 1, step};
            g_array_append_val(needs, need);
            if (p->values[known - 1].step == step)
                p->values[known - 1].allowed = false;
            continue;
        }
        /* A value that no row names: by where it is defined or used. */
        for (uint32_t v = 0; (constraint || position) && v < p->n_values; v++)
            if (p->values[v].step == step && !p->values[v].eligible) {
                EchMsaRequired need = {v, step};
                g_array_append_val(needs, need);
            }
        for (uint32_t u = 0; use && u < p->n_uses; u++)
            if (p->uses[u].step == step && !p->values[p->uses[u].value].eligible) {
                EchMsaRequired need = {p->uses[u].value, step};
                g_array_append_val(needs, need);
            }
    }
    p->n_scoped = scoped->len;
    p->scoped = (EchMsaScoped *)(void *)g_array_free(g_steal_pointer(&scoped), FALSE);
    p->n_required = needs->len;
    p->required = (EchMsaRequired *)(void *)g_array_free(g_steal_pointer(&needs), FALSE);
}

/* Which parameters look like weights depends on fused bodies, which this file lacks: of our candidates, in our order, those the file names as such. */
static void keep_candidates(Replay *r)
{
    EchMsaProblem *p = &r->flow->problem;
    JsonArray *list = json_object_get_array_member(r->root, "xprogram_candidates");
    g_autoptr(GHashTable) named = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < json_array_get_length(list); i++)
        g_hash_table_add(named, GINT_TO_POINTER((int)json_array_get_int_element(json_array_get_array_element(list, i), 0) + 1));
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_candidates; i++)
        if (g_hash_table_contains(named, GINT_TO_POINTER((int)MIN(p->values[p->candidates[i].value].id, INT_MAX - 1) + 1)))
            p->candidates[n++] = p->candidates[i];
    p->n_candidates = n;
}

/* The ids of the file's values, for printing. */
static void name_values(Replay *r)
{
    EchMsaProblem *p = &r->flow->problem;
    JsonArray *values = json_object_get_array_member(r->root, "values");
    for (uint32_t v = 0; v < p->n_values; v++)
        p->values[v].id = (1u << 20) + v;
    for (guint i = 0; i < json_array_get_length(values); i++) {
        JsonArray *row = json_array_get_array_element(values, i);
        uint32_t step, leaf;
        if (json_array_get_int_element(row, 7) == 0 && find_place(r, json_array_get_string_element(row, 1), &step, &leaf))
            p->values[value_at(r, step, leaf)].id = (uint64_t)json_array_get_int_element(row, 0);
    }
    JsonArray *list = json_object_get_array_member(r->root, "required");
    for (guint i = 0; i < json_array_get_length(list); i++) {
        JsonArray *row = json_array_get_array_element(list, i);
        uint32_t step = (uint32_t)json_array_get_int_element(row, 2);
        if (!g_str_has_prefix(json_array_get_string_element(row, 4), "Program input") || step >= r->n || r->instructions[step].n_leaves != 1)
            continue;
        EchMsaValue *value = &p->values[value_at(r, step, 0)];
        if (value->step == step && value->id >= 1u << 20)
            value->id = (uint64_t)json_array_get_int_element(row, 0);
    }
}

static void print_placement(const Replay *r, const EchMsaResult *result, JsonBuilder *out)
{
    const EchMsaProblem *p = &r->flow->problem;
    EchBytes prefetched = 0, evicted = 0;
    json_builder_set_member_name(out, "alloc");
    json_builder_begin_array(out);
    for (uint32_t i = 0; i < result->n_stays; i++) {
        const EchMsaStay *stay = &result->stays[i];
        bool scoped = stay->kind == ECH_MSA_SCOPED;
        bool named = !scoped && (p->values[stay->value].eligible || stay->cross_program);
        int64_t id = scoped ? p->scoped[stay->value].tag : named ? (int64_t)MIN(p->values[stay->value].id, 1u << 30) : (int64_t)(1u << 20) + stay->value;
        if (named && !stay->cross_program && (stay->kind == ECH_MSA_COPIED || stay->kind == ECH_MSA_SLICED))
            *(stay->fast ? &prefetched : &evicted) += p->values[stay->value].bytes;
        if (!stay->fast || stay->kind == ECH_MSA_MIRRORED || (stay->start > stay->end))
            continue;
        for (uint32_t k = 0; k < MAX(stay->n_slices, 1); k++) {
            int64_t start = stay->start;
            uint64_t offset = stay->offset, bytes = stay->bytes;
            if (stay->n_slices > 0) {
                const EchMsaSlice *slice = &result->slices[stay->first_slice + k];
                start = (int64_t)(int32_t)slice->after + 1;
                offset = slice->offset;
                bytes = slice->bytes;
            }
            json_builder_begin_array(out);
            json_builder_add_int_value(out, id);
            json_builder_add_int_value(out, start);
            json_builder_add_int_value(out, stay->end);
            json_builder_add_int_value(out, (gint64)offset);
            json_builder_add_int_value(out, (gint64)bytes);
            json_builder_end_array(out);
        }
    }
    json_builder_end_array(out);
    json_builder_set_member_name(out, "uses");
    json_builder_begin_object(out);
    for (uint32_t u = 0; u < p->n_uses; u++) {
        if (!p->values[p->uses[u].value].eligible)
            continue;
        g_autofree char *text = use_text(r, u);
        g_autofree char *key = g_strdup_printf("%" G_GUINT64_FORMAT "|%s", p->values[p->uses[u].value].id, text);
        json_builder_set_member_name(out, key);
        json_builder_add_int_value(out, result->use_fast[u]);
    }
    json_builder_end_object(out);
    json_builder_set_member_name(out, "order");
    json_builder_begin_array(out);
    for (uint32_t i = 0; i < result->n_order; i++)
        json_builder_add_int_value(out, (gint64)p->values[result->order[i]].id);
    json_builder_end_array(out);
    json_builder_set_member_name(out, "prefetch_bytes");
    json_builder_add_int_value(out, (gint64)prefetched);
    json_builder_set_member_name(out, "evict_bytes");
    json_builder_add_int_value(out, (gint64)evicted);
}

/* Seconds of a placement by the file's own costs. Slices count as one copy: the compiler's are not told apart in its list. */
static double time_of(const Replay *r, const EchMsaResult *result)
{
    g_autofree uint64_t *trips = g_new(uint64_t, MAX(r->n, 1)), *runs = g_new(uint64_t, MAX(r->n, 1));
    for (uint32_t t = 0; t < r->n; t++)
        runs[t] = 1; /* per computation: fewer than steps */
    for (uint32_t t = r->n; t > 0; t--)
        for (uint32_t c = 0; c < r->instructions[t - 1].n_called; c++)
            if (r->instructions[t - 1].called[c] < r->n)
                runs[r->instructions[t - 1].called[c]] = runs[r->instructions[t - 1].computation] * MAX(r->while_trips[t - 1], 1);
    for (uint32_t t = 0; t < r->n; t++)
        trips[t] = runs[r->instructions[t].computation];
    g_autofree EchMsaStay *stays = g_memdup2(result->stays, MAX(result->n_stays, 1) * sizeof(EchMsaStay));
    for (uint32_t s = 0; s < result->n_stays; s++)
        stays[s].n_slices = 0;
    EchMsaResult whole = *result;
    whole.stays = stays;
    EchPlaceTimes times = {r->bandwidth, r->bandwidth * r->chip->fast_ratio, r->loop_compute, r->loop_total, trips};
    EchPlaceTime time = ech_place_time(&r->flow->problem, &whole, &times);
    return time.work + time.waits;
}

static void print_time(const Replay *r, const EchMsaResult *result, JsonBuilder *out)
{
    json_builder_set_member_name(out, "seconds");
    json_builder_add_double_value(out, time_of(r, result));
}

/* What the compiler decided, as a result of ours. */
static void judge(const Replay *r, JsonObject *from, JsonBuilder *out)
{
    JsonArray *schedule = json_object_get_array_member(from, "schedule");
    bool same = json_array_get_length(schedule) == r->n;
    for (uint32_t t = 0; same && t < r->n; t++)
        same = strcmp(json_array_get_string_element(json_array_get_array_element(schedule, t), 1), r->instructions[t].name) == 0;
    const EchMsaProblem *p = &r->flow->problem;
    g_autoptr(GHashTable) uses = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (uint32_t u = 0; u < p->n_uses; u++)
        g_hash_table_insert(uses, use_text(r, u), GUINT_TO_POINTER(u + 1));
    g_autoptr(GHashTable) sizes = g_hash_table_new(NULL, NULL), others = g_hash_table_new(NULL, NULL);
    JsonArray *values = json_object_get_array_member(from, "values");
    for (guint i = 0; i < json_array_get_length(values); i++) {
        JsonArray *row = json_array_get_array_element(values, i);
        g_hash_table_insert(sizes, GINT_TO_POINTER((int)json_array_get_int_element(row, 0) + 1), GSIZE_TO_POINTER((gsize)json_array_get_int_element(row, 3)));
    }
    g_autoptr(GArray) stays = g_array_new(FALSE, FALSE, sizeof(EchMsaStay));
    g_autofree bool *fast = g_new0(bool, MAX(p->n_uses, 1));
    EchBytes prefetched = 0;
    static const char *const lists[] = {"allocations", "allocations_other"};
    for (size_t l = 0; l < G_N_ELEMENTS(lists); l++) {
        JsonArray *list = json_object_has_member(from, lists[l]) ? json_object_get_array_member(from, lists[l]) : NULL;
        for (guint i = 0; list != NULL && i < json_array_get_length(list); i++) {
            JsonObject *a = json_array_get_object_element(list, i);
            const char *kind = json_object_get_string_member(a, "k");
            EchMsaStay stay = {.fast = strcmp(json_object_get_string_member(a, "m"), "alt") == 0, .position = ECH_PLACE_NONE, .cross_program = l == 1};
            bool copy = strcmp(kind, "copy") == 0 || strcmp(kind, "sliced") == 0;
            stay.kind = copy ? ECH_MSA_COPIED : strcmp(kind, "pin") == 0 ? ECH_MSA_PINNED : ECH_MSA_MIRRORED;
            if (strcmp(kind, "scoped") == 0)
                continue;
            int id = json_object_has_member(a, "v") ? (int)json_object_get_int_member(a, "v") : -1;
            stay.bytes = GPOINTER_TO_SIZE(g_hash_table_lookup(sizes, GINT_TO_POINTER(id + 1)));
            if (stay.bytes == 0 && json_object_has_member(a, "z")) {
                stay.bytes = (EchBytes)json_object_get_int_member(a, "z");
                g_hash_table_insert(others, GINT_TO_POINTER(id + 1), GSIZE_TO_POINTER((gsize)stay.bytes));
            }
            /* A copy out says no size: it is that of the stay before. */
            if (stay.bytes == 0)
                stay.bytes = GPOINTER_TO_SIZE(g_hash_table_lookup(others, GINT_TO_POINTER(id + 1)));
            stay.start = json_object_get_int_member(a, "s");
            stay.end = json_object_get_int_member(a, "e");
            if (copy) {
                stay.copy_after = json_object_get_int_member(a, "cs");
                stay.copy_before = json_object_get_int_member(a, "cd");
                if (stay.fast && l == 0 && id >= 0 && g_hash_table_contains(sizes, GINT_TO_POINTER(id + 1)))
                    prefetched += stay.bytes;
            }
            uint32_t step, leaf;
            if (!copy && json_object_has_member(a, "p") && find_place(r, json_object_get_string_member(a, "p"), &step, &leaf))
                for (uint32_t k = 0; k < p->n_positions; k++)
                    if (p->positions[k].step == step && r->flow->position_places[k].leaf == leaf)
                        stay.position = k;
            JsonArray *list_of_uses = json_object_has_member(a, "u") ? json_object_get_array_member(a, "u") : NULL;
            for (guint k = 0; list_of_uses != NULL && stay.fast && k < json_array_get_length(list_of_uses); k++) {
                uint32_t known = GPOINTER_TO_UINT(g_hash_table_lookup(uses, json_array_get_string_element(list_of_uses, k)));
                if (known != 0)
                    fast[known - 1] = true;
            }
            g_array_append_val(stays, stay);
        }
    }
    EchMsaResult real = {.stays = (EchMsaStay *)(void *)stays->data, .n_stays = stays->len, .use_fast = fast};
    json_builder_set_member_name(out, "real");
    json_builder_begin_object(out);
    if (same) {
        json_builder_set_member_name(out, "seconds");
        json_builder_add_double_value(out, time_of(r, &real));
    }
    json_builder_set_member_name(out, "prefetch_bytes");
    json_builder_add_int_value(out, (gint64)prefetched);
    /* What the compiler's own simulator says that the placement takes: of the program that it placed, re-tiled or not. */
    JsonObject *outcome = json_object_has_member(from, "result") ? json_object_get_object_member(from, "result") : NULL;
    if (outcome != NULL && json_object_has_member(outcome, "est1")) {
        json_builder_set_member_name(out, "estimate");
        json_builder_add_double_value(out, json_object_get_double_member(outcome, "est1"));
    }
    json_builder_end_object(out);
}

static void place_alone(const Replay *in, const char *path, bool timing, JsonBuilder *out, GError **error)
{
    Replay replay = *in, *r = &replay;
    g_autoptr(EchProgram) program = read_program(path, r->chip, error);
    if (program == NULL)
        return;
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(program, r->chip);
    g_autoptr(EchPlaceProblem) problem = ech_place_problem_new(program, costs, true, error);
    if (problem == NULL)
        return;
    r->flow = problem->flow;
    r->instructions = problem->instructions;
    r->n = problem->n;
    r->step_of = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (uint32_t t = 0; t < r->n; t++)
        g_hash_table_insert(r->step_of, g_strdup(r->instructions[t].name), GUINT_TO_POINTER(t + 1));
    EchBytes picker = problem->flow->problem.options.picker_bytes;
    read_options(r, r->root);
    problem->flow->problem.options.picker_bytes = picker;
    for (uint32_t i = 0; i < problem->flow->problem.n_scoped; i++)
        problem->flow->problem.scoped[i].tag = -1 - (int64_t)i; /* no value's number */
    gint64 before = g_get_monotonic_time();
    g_autoptr(EchMsaResult) result = ech_msa_run(&r->flow->problem);
    if (timing)
        fprintf(stderr, "%s: %.3f ms\n", path, (double)(g_get_monotonic_time() - before) / 1e3);
    EchPlaceTime time = ech_place_problem_time(problem, program, costs, result);
    json_builder_set_member_name(out, "seconds");
    json_builder_add_double_value(out, time.work + time.waits);
    json_builder_set_member_name(out, "waits");
    json_builder_add_double_value(out, time.waits);
    name_values(r);
    print_placement(r, result, out);
    g_hash_table_unref(r->step_of);
}

static void print_heaps(const Replay *r, JsonBuilder *out)
{
    json_builder_set_member_name(out, "heaps");
    json_builder_begin_array(out);
    JsonArray *heaps = json_object_has_member(r->root, "heaps") ? json_object_get_array_member(r->root, "heaps") : NULL;
    JsonObject *buffers = json_object_has_member(r->root, "buffers") ? json_object_get_object_member(r->root, "buffers") : NULL;
    for (guint h = 0; heaps != NULL && buffers != NULL && h < json_array_get_length(heaps); h++) {
        JsonObject *heap = json_array_get_object_element(heaps, h);
        JsonArray *in = json_object_get_array_member(heap, "events");
        uint32_t n = json_array_get_length(in), n_buffers = 0;
        int64_t space = -1;
        g_autofree EchXheapEvent *events = g_new0(EchXheapEvent, MAX(n, 1));
        g_autofree EchBytes *sizes = g_new0(EchBytes, MAX(n, 1));
        g_autofree uint64_t *ids = g_new0(uint64_t, MAX(n, 1)), *offsets = g_new0(uint64_t, MAX(n, 1));
        g_autoptr(GHashTable) index = g_hash_table_new(NULL, NULL);
        uint32_t used = 0;
        for (uint32_t i = 0; i < n; i++) {
            JsonArray *event = json_array_get_array_element(in, i);
            const char *kind = json_array_get_string_element(event, 0);
            int id = (int)json_array_get_int_element(event, 1);
            gpointer known = g_hash_table_lookup(index, GINT_TO_POINTER(id + 1));
            if (known == NULL) {
                g_autofree char *key = g_strdup_printf("%d", id);
                ids[n_buffers] = (uint64_t)id;
                if (json_object_has_member(buffers, key)) {
                    JsonArray *buffer = json_object_get_array_member(buffers, key);
                    sizes[n_buffers] = (EchBytes)json_array_get_int_element(buffer, 2);
                    space = json_array_get_int_element(buffer, 1);
                }
                known = GUINT_TO_POINTER(++n_buffers);
                g_hash_table_insert(index, GINT_TO_POINTER(id + 1), known);
            }
            EchXheapEvent *e = &events[used++];
            e->buffer = GPOINTER_TO_UINT(known) - 1;
            e->kind = *kind == 'a' ? ECH_XHEAP_ALLOC : *kind == 's' ? ECH_XHEAP_SHARE : ECH_XHEAP_RELEASE;
            e->with = UINT32_MAX;
            if (*kind == 's')
                e->with = GPOINTER_TO_UINT(g_hash_table_lookup(index, GINT_TO_POINTER((int)json_array_get_int_element(event, 2) + 1))) - 1;
        }
        bool fast = strcmp(json_object_get_string_member(heap, "algorithm"), "fast_merge") == 0;
        EchBytes alignment = !fast ? 4 : space == 6 ? 512 : 16384;
        EchBytes size = ech_xheap_run(fast ? ECH_XHEAP_FAST_MERGE : ECH_XHEAP_BEST, alignment, events, used, sizes, ids, n_buffers, offsets);
        json_builder_begin_object(out);
        json_builder_set_member_name(out, "size");
        json_builder_add_int_value(out, (gint64)size);
        json_builder_set_member_name(out, "offsets");
        json_builder_begin_object(out);
        for (uint32_t i = 0; i < n_buffers; i++)
            if (offsets[i] != UINT64_MAX) {
                g_autofree char *key = g_strdup_printf("%" G_GUINT64_FORMAT, ids[i]);
                json_builder_set_member_name(out, key);
                json_builder_add_int_value(out, (gint64)offsets[i]);
            }
        json_builder_end_object(out);
        json_builder_end_object(out);
    }
    json_builder_end_array(out);
}

int main(int argc, char **argv)
{
    bool timing = g_getenv("MSA_REPLAY_TIME") != NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: msa-replay FILE.json.gz [--hlo FILE.hlo.gz]\n");
        return 2;
    }
    size_t size;
    g_autofree char *text = read_gz(argv[1], &size);
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    g_autoptr(GError) error = NULL;
    if (text == NULL || !json_parser_load_from_data(parser, text, (gssize)size, &error)) {
        fprintf(stderr, "%s: %s\n", argv[1], error != NULL ? error->message : "cannot be read");
        return 1;
    }
    Replay replay = {.root = json_node_get_object(json_parser_get_root(parser))}, *r = &replay;
    r->step_of = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    r->computations = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(JsonBuilder) out = json_builder_new();
    json_builder_begin_object(out);
    if (json_object_has_member(r->root, "schedule") && json_object_has_member(r->root, "options")) {
        read_schedule(r);
        JsonObject *knobs = r->root;
        g_autoptr(JsonParser) other = NULL;
        if (argc > 3 && strcmp(argv[2], "--knobs") == 0) {
            size_t n;
            g_autofree char *more = read_gz(argv[3], &n);
            other = json_parser_new_immutable();
            if (more == NULL || !json_parser_load_from_data(other, more, (gssize)n, &error)) {
                fprintf(stderr, "%s: %s\n", argv[3], error != NULL ? error->message : "cannot be read");
                return 1;
            }
            knobs = json_node_get_object(json_parser_get_root(other));
        }
        bool alone = argc > 3 && strcmp(argv[2], "--alone") == 0;
        const char *chip = json_object_get_string_member(r->root, "chip");
        r->chip = ech_place_chip(chip);
        if (r->chip == NULL) {
            fprintf(stderr, "%s: chip '%s' is not known\n", argv[1], chip);
            return 1;
        }
        r->bandwidth = r->chip->hbm_bytes_per_s;
        r->saving = (1 - 1 / r->chip->fast_ratio) / r->bandwidth;
        uint32_t n_computations = g_hash_table_size(r->computations);
        r->flow = ech_flow_new(r->instructions, r->n, n_computations, NULL, 0);
        g_autoptr(GArray) pairs = read_pairs(r);
        ech_flow_free(r->flow);
        r->flow = ech_flow_new(r->instructions, r->n, n_computations, (const EchFlowPair *)(const void *)pairs->data, pairs->len);
        read_options(r, knobs);
        read_values(r);
        ech_flow_clock(r->flow, r->instructions, 512);
        r->loop_compute = g_new0(float, MAX(r->n, 1));
        r->loop_total = g_new0(float, MAX(r->n, 1));
        if (argc > 3 && strcmp(argv[2], "--hlo") == 0) {
            r->compare = timing;
            if (!use_program(r, argv[3], &error)) {
                fprintf(stderr, "%s\n", error->message);
                return 1;
            }
        } else {
            g_autoptr(GHashTable) benefits = read_benefits(r);
            find_taken(r);
            fill_costs(r, benefits);
            sharpen_order(r, benefits);
            if (other != NULL)
                add_candidates(r);
        }
        ech_flow_mark_sync(r->flow, r->instructions);
        ech_flow_finish(r->flow, r->instructions);
        optimize_loops(r, timing);
        keep_candidates(r);
        gint64 before = g_get_monotonic_time();
        g_autoptr(EchMsaResult) result = ech_msa_run(&r->flow->problem);
        if (timing)
            fprintf(stderr, "%s: %.3f ms\n", argv[1], (double)(g_get_monotonic_time() - before) / 1e3);
        g_autofree char *wrong = ech_msa_check(&r->flow->problem, result);
        if (wrong != NULL)
            fprintf(stderr, "%s: %s\n", argv[1], wrong);
        if (alone)
            place_alone(r, argv[3], timing, out, &error);
        else {
            print_time(r, result, out);
            print_placement(r, result, out);
            if (other != NULL)
                judge(r, knobs, out);
        }
        if (error != NULL) {
            fprintf(stderr, "%s\n", error->message);
            return 1;
        }
        g_free(r->total);
        g_free(r->while_trips);
        g_free(r->loop_compute);
        g_free(r->loop_total);
        g_free(r->definitions);
        ech_flow_free(r->flow);
        for (uint32_t t = 0; t < r->n; t++) {
            g_free((gpointer)(guintptr)r->instructions[t].operands);
            g_free((gpointer)(guintptr)r->instructions[t].leaves);
            g_free((gpointer)(guintptr)r->instructions[t].called);
        }
        g_free(r->instructions);
    }
    print_heaps(r, out);
    json_builder_end_object(out);
    g_autoptr(JsonNode) node = json_builder_get_root(out);
    g_autofree char *json = json_to_string(node, FALSE);
    puts(json);
    g_hash_table_unref(r->step_of);
    g_hash_table_unref(r->computations);
    return 0;
}
