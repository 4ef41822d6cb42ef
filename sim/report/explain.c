#include "sim/report/explain.h"

#include "sim/base/units.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

enum { MOST_PARTS = 3, LONGEST_NAME = 60 };
#define SAME 0.001        /* Makespans this near each other are the same. */
#define SMALL_BYTES 65536 /* Less is flags and loop counters. */

static void say(GPtrArray *sentences, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void say(GPtrArray *sentences, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_ptr_array_add(sentences, g_strdup_vprintf(format, args));
    va_end(args);
}

/* A part of a difference. */
typedef struct {
    const char *name;
    gint64 a, b;
} Part;

static int compare_parts(const void *a, const void *b)
{
    const Part *x = a, *y = b;
    gint64 dx = llabs(x->b - x->a), dy = llabs(y->b - y->a);
    return dx != dy ? (dx < dy ? 1 : -1) : strcmp(x->name, y->name);
}

static void add_part(GArray *parts, const char *name, gint64 a, gint64 b)
{
    Part part = {name, a, b};
    g_array_append_val(parts, part);
}

/* Members of two objects that are numbers, or objects with a number @member; largest change first. */
static GArray *parts_of(JsonObject *a, JsonObject *b, const char *member)
{
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(Part));
    JsonObject *const objects[2] = {a, b};
    for (size_t side = 0; side < 2; side++) {
        g_autoptr(GList) names = objects[side] ? json_object_get_members(objects[side]) : NULL;
        for (GList *at = names; at; at = at->next) {
            const char *name = at->data;
            if (side == 1 && a && json_object_has_member(a, name))
                continue;
            gint64 in_a = member ? ech_member_int(ech_member_object(a, name), member) : ech_member_int(a, name);
            gint64 in_b = member ? ech_member_int(ech_member_object(b, name), member) : ech_member_int(b, name);
            add_part(parts, name, in_a, in_b);
        }
    }
    if (parts->len > 1)
        qsort(parts->data, parts->len, sizeof(Part), compare_parts);
    return parts;
}

static JsonObject *child(JsonObject *run, const char *group, const char *name)
{
    return ech_member_object(ech_member_object(run, group), name);
}

/* -- words ------------------------------------------------------------------ */

static char *signed_time(gint64 by)
{
    g_autofree char *text = ech_format_time(llabs(by));
    return g_strconcat(by < 0 ? "-" : "+", text, NULL);
}

static char *signed_bytes(gint64 by)
{
    g_autofree char *text = ech_format_bytes((EchBytes)llabs(by));
    return g_strconcat(by < 0 ? "-" : "+", text, NULL);
}

static char *rate_of(gint64 bytes, gint64 ps)
{
    return ps > 0 ? ech_format_rate((EchRate)((double)MAX(bytes, 0) / (double)ps * 1e12)) : g_strdup("no rate");
}

static char *times_as_long(double ratio)
{
    if (ratio >= 1.995)
        return g_strdup_printf("%.3g times as long", ratio);
    return ratio > 1 ? g_strdup_printf("%.1f %% longer", 100 * (ratio - 1)) : g_strdup_printf("%.1f %% less time", 100 * (1 - ratio));
}

/* -- fit -------------------------------------------------------------------- */

gint64 ech_run_memory_bytes(JsonObject *run, const char *name)
{
    return ech_member_int(child(run, "needs", name), "bytes");
}

static void explain_misfit(GPtrArray *out, JsonObject *run, const char *lead)
{
    JsonObject *needs = ech_member_object(run, "needs"), *failure = ech_member_object(run, "failure");
    g_autoptr(GArray) parts = parts_of(needs, NULL, "bytes");
    /* What has its place by a plan may be refused early, with most of the memory still free: it lies beyond. */
    bool beyond = failure && ech_member_int(failure, "asked_bytes") <= ech_member_int(failure, "limit_bytes") - ech_member_int(failure, "live_bytes") &&
                  g_strcmp0(ech_member_text(failure, "reason"), "fragmented") != 0;
    for (guint i = 0; i < parts->len; i++) {
        const Part *part = &g_array_index(parts, Part, i);
        JsonObject *need = ech_member_object(needs, part->name);
        gint64 available = ech_member_int(need, "available_bytes");
        if (part->a <= available || !(ech_member_bool(need, "planned") || beyond))
            continue;
        g_autofree char *needed = ech_format_bytes((EchBytes)part->a), *has = ech_format_bytes((EchBytes)MAX(available, 0)),
                        *over = ech_format_bytes((EchBytes)(part->a - available));
        say(out, "%s: %s needs %s and %s are handed out, %s too little.", lead, part->name, needed, has, over);
        return;
    }
    if (!failure)
        return;
    g_autofree char *asked = ech_format_bytes((EchBytes)ech_member_int(failure, "asked_bytes")),
                    *live = ech_format_bytes((EchBytes)ech_member_int(failure, "live_bytes"));
    g_autofree char *limit = ech_format_bytes((EchBytes)ech_member_int(failure, "limit_bytes")), *when = ech_format_time(ech_member_int(failure, "time_ps"));
    const char *buffer = ech_member_text(failure, "buffer");
    if (!buffer && !ech_member_bool(run, "completed")) {
        say(out, "%s: what is there from the start takes %s of %s, of which there are %s.", lead, asked, ech_member_text(failure, "memory"), limit);
        return;
    }
    const char *at = ech_member_bool(failure, "before_the_step") ? "in the steps before" : NULL;
    say(out, "%s: %s%s %s%s%s asks for %s of %s, where %s of %s are live%s.", lead, at ? at : "at ", at ? "" : when, buffer ? "'" : "",
        buffer ? buffer : "the plan", buffer ? "'" : "", asked, ech_member_text(failure, "memory"), live, limit,
        g_strcmp0(ech_member_text(failure, "reason"), "fragmented") == 0 ? " and no free piece is large enough" : "");
}

/* -- time ------------------------------------------------------------------- */

static JsonArray *member_array(JsonObject *object, const char *name)
{
    JsonNode *node = object ? json_object_get_member(object, name) : NULL;
    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

static const char *text_at(JsonArray *array, guint i)
{
    JsonNode *node = json_array_get_element(array, i);
    return JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node) : NULL;
}

/* Remarks that begin with the name of a pass of the run; borrowed. */
static GPtrArray *remarks_of_passes(JsonObject *run)
{
    GPtrArray *out = g_ptr_array_new();
    JsonArray *remarks = member_array(run, "remarks"), *passes = member_array(ech_member_object(run, "provenance"), "passes");
    for (guint i = 0; remarks && passes && i < json_array_get_length(remarks); i++) {
        const char *remark = text_at(remarks, i);
        for (guint k = 0; remark && k < json_array_get_length(passes); k++) {
            const char *spec = text_at(passes, k);
            size_t n = spec ? strcspn(spec, ":") : 0;
            if (n > 0 && strncmp(remark, spec, n) == 0 && remark[n] == ':') {
                g_ptr_array_add(out, (gpointer)(uintptr_t)remark);
                break;
            }
        }
    }
    return out;
}

/* What a resource had to do. */
typedef struct {
    gint64 amount, busy; /* Bytes or operations, picoseconds. */
    gint64 cached;       /* Of the bytes, what a cache had: the amount divided by the time is no rate of the resource then. */
    bool bytes;
} Work;

/* @resource: "hbm port", "host link to device", "ici link out", "matrix unit". False where it is none of them. */
static bool resource_work(JsonObject *run, const char *resource, Work *ret)
{
    static const struct {
        const char *end, *group;
        const char *amounts[2], *busy;
    } kinds[] = {
        {" port", "memories", {"traffic_read_bytes", "traffic_written_bytes"}, "busy_ps"},
        {" link to device", "links", {"bytes_forward", NULL}, "busy_forward_ps"},
        {" link from device", "links", {"bytes_backward", NULL}, "busy_backward_ps"},
        {" link out", "links", {"bytes_forward", NULL}, "busy_forward_ps"},
        {" link in", "links", {"bytes_backward", NULL}, "busy_backward_ps"},
        {" link both ways", "links", {"bytes_forward", "bytes_backward"}, "busy_ps"},
        {" unit", "units", {"flops", NULL}, "busy_ps"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (!g_str_has_suffix(resource, kinds[i].end))
            continue;
        g_autofree char *name = g_strndup(resource, strlen(resource) - strlen(kinds[i].end));
        JsonObject *object = child(run, kinds[i].group, name);
        *ret = (Work){.bytes = strcmp(kinds[i].group, "units") != 0,
                      .busy = ech_member_int(object, kinds[i].busy),
                      .cached = ech_member_int(object, "traffic_cached_bytes")};
        for (size_t k = 0; k < 2 && kinds[i].amounts[k]; k++)
            ret->amount += ret->bytes ? ech_member_int(object, kinds[i].amounts[k]) : (gint64)MIN(ech_member_double(object, kinds[i].amounts[k]), 9e18);
        return true;
    }
    return false;
}

static char *amount_text(const Work *work)
{
    if (!work->bytes)
        return ech_format_count((double)work->amount, "OP");
    g_autofree char *all = ech_format_bytes((EchBytes)MAX(work->amount, 0)), *cached = ech_format_bytes((EchBytes)MAX(work->cached, 0));
    return work->cached > work->amount / 100 ? g_strdup_printf("%s (%s of that in L2)", all, cached) : g_steal_pointer(&all);
}

/* Why a resource's share moved: more to do, or the same at another rate. */
static void explain_resource(GPtrArray *out, JsonObject *a, JsonObject *b, const char *resource)
{
    Work of_a, of_b;
    if (strcmp(resource, "overhead") == 0) {
        say(out, "Overhead is what no bandwidth shortens: launches, set-ups, latencies, the fill and drain of kernels.");
        return;
    }
    if (strcmp(resource, "allocator") == 0) {
        say(out, "The allocator's share is its calls of the driver: cudaMalloc, and cudaFree, which waits until the device has done all that was asked for "
                 "before and lets nothing new begin. "
                 "A cache that must be emptied to make room for a request (PyTorch's retry) costs that every time.");
        return;
    }
    if (!resource_work(a, resource, &of_a) || !resource_work(b, resource, &of_b))
        return;
    g_autofree char *from = amount_text(&of_a), *to = amount_text(&of_b), *busy_from = ech_format_time(of_a.busy), *busy_to = ech_format_time(of_b.busy);
    double moved = (double)(of_b.amount - of_a.amount) / (double)MAX(MAX(of_a.amount, of_b.amount), 1),
           slower = (double)(of_b.busy - of_a.busy) / (double)MAX(MAX(of_a.busy, of_b.busy), 1);
    g_autofree char *rate_a = rate_of(of_a.amount, of_a.busy), *rate_b = rate_of(of_b.amount, of_b.busy);
    bool rates = of_b.bytes && of_a.cached == 0 && of_b.cached == 0;
    if (fabs(moved) > 0.01) {
        g_autofree char *before = of_a.busy && of_b.busy ? g_strdup_printf(" instead of %s", busy_from) : g_strdup("");
        say(out, "The %s has to %s %s instead of %s; that %s for %s%s%s%s.", resource, of_b.bytes ? "move" : "do", of_b.amount ? to : "nothing",
            of_a.amount ? from : "nothing", of_b.busy ? "keeps it busy" : "kept it busy", of_b.busy ? busy_to : busy_from, before,
            rates && of_b.amount ? ", at " : "", rates && of_b.amount ? rate_b : "");
    } else if (fabs(slower) > 0.01) {
        if (rates)
            say(out, "The %s moves the same %s in %s instead of %s: %s instead of %s.", resource, to, busy_to, busy_from, rate_b, rate_a);
        else
            say(out, "The %s %s the same %s in %s instead of %s.", resource, of_b.bytes ? "moves" : "does", to, busy_to, busy_from);
    } else {
        say(out, "The %s does the same work as fast as before (%s); what changed is how much of it lies under other work.", resource, busy_to);
    }
}

/* What the passes of @b say that those of @a do not: where nothing changed, mostly why. */
static void explain_passes(GPtrArray *out, JsonObject *a, JsonObject *b)
{
    enum { MOST_REMARKS = 2 };
    g_autoptr(GPtrArray) known = remarks_of_passes(a), said = remarks_of_passes(b);
    for (guint i = 0; i < MIN(said->len, MOST_REMARKS); i++) {
        if (!g_ptr_array_find_with_equal_func(known, said->pdata[i], g_str_equal, NULL))
            say(out, "(%s)", (const char *)said->pdata[i]);
    }
}

static bool same_passes(JsonObject *a, JsonObject *b)
{
    JsonArray *of_a = member_array(ech_member_object(a, "provenance"), "passes"), *of_b = member_array(ech_member_object(b, "provenance"), "passes");
    bool same = of_a && of_b && json_array_get_length(of_a) == json_array_get_length(of_b);
    for (guint i = 0; same && i < json_array_get_length(of_a); i++)
        same = g_strcmp0(text_at(of_a, i), text_at(of_b, i)) == 0;
    return same;
}

/* Passes that are the same in both and leave other arrays alone: what they say of that, since nobody asked them to. */
static void explain_choice(GPtrArray *out, JsonObject *a, JsonObject *b)
{
    if (!same_passes(a, b))
        return;
    g_autoptr(GPtrArray) known = remarks_of_passes(a), said = remarks_of_passes(b);
    for (guint i = 0; i < said->len; i++) {
        const char *remark = said->pdata[i];
        if (strstr(remark, ": left ") && !g_ptr_array_find_with_equal_func(known, remark, g_str_equal, NULL)) {
            say(out, "(The same passes choose otherwise here. %s)", remark);
            return;
        }
    }
}

/* Whether what bounds @b had as much to do in @a, as fast; of what has no such figures, whether as much of the critical path was its. */
static bool is_untouched(JsonObject *a, JsonObject *b, const char *resource)
{
    Work of_a, of_b;
    if (!resource_work(a, resource, &of_a) || !resource_work(b, resource, &of_b))
        return ech_member_int(ech_member_object(a, "critical_path"), resource) == ech_member_int(ech_member_object(b, "critical_path"), resource);
    return of_a.amount == of_b.amount && of_a.busy == of_b.busy;
}

/* @passes: also what they say of themselves, where the time stays the same. */
static void explain_time(GPtrArray *out, JsonObject *a, JsonObject *b, bool passes)
{
    gint64 from = ech_member_int(a, "makespan_ps"), to = ech_member_int(b, "makespan_ps"), by = to - from;
    if (!ech_member_bool(a, "completed") || !ech_member_bool(b, "completed"))
        return; /* One of them stopped where it did not fit. */
    g_autofree char *time_a = ech_format_time(from), *time_b = ech_format_time(to);
    g_autoptr(GArray) parts = parts_of(ech_member_object(a, "critical_path"), ech_member_object(b, "critical_path"), NULL);
    if (llabs(by) <= (gint64)(SAME * (double)MAX(from, to))) {
        const char *bound = ech_member_text(b, "bound_by");
        gint64 share = ech_member_int(ech_member_object(b, "critical_path"), bound ? bound : "");
        if (to == 0)
            say(out, "It takes no time, as before.");
        else
            say(out, "It takes as long as before, %s: %.0f %% of its critical path is on %s%s%s.", time_b, 100 * (double)share / (double)to,
                bound && g_str_has_prefix(bound, "the ") ? "" : "the ", bound ? bound : "?",
                is_untouched(a, b, bound ? bound : "") ? ", which this does not touch" : "");
        if (passes)
            explain_passes(out, a, b);
        return;
    }
    g_autofree char *ratio = times_as_long(from > 0 ? (double)to / (double)from : 0);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "It takes %s: %s -> %s. Along the critical path:", ratio, time_a, time_b);
    guint said = 0;
    gint64 rest = by;
    for (guint i = 0; i < parts->len && said < MOST_PARTS; i++) {
        const Part *part = &g_array_index(parts, Part, i);
        if (llabs(part->b - part->a) < llabs(by) / 20)
            break;
        g_autofree char *change = signed_time(part->b - part->a);
        g_string_append_printf(text, "%s %s %s", said ? "," : "", change, part->name);
        rest -= part->b - part->a;
        said++;
    }
    g_autofree char *others = signed_time(rest);
    if (said && llabs(rest) > llabs(by) / 20)
        g_string_append_printf(text, ", %s others", others);
    g_string_append_c(text, '.');
    say(out, "%s", text->str);
    if (parts->len > 0) {
        /* The largest share in the direction that the time went. */
        for (guint i = 0; i < parts->len; i++) {
            const Part *part = &g_array_index(parts, Part, i);
            if ((part->b > part->a) == (by > 0) && part->a != part->b) {
                explain_resource(out, a, b, part->name);
                break;
            }
        }
    }
    if (passes)
        explain_choice(out, a, b);
    static const struct {
        const char *name, *words;
    } waits[] = {{"link", "for other transfers on their link"},
                 {"memory_port", "because others used the memory port"},
                 {"compute", "because others used the unit"},
                 {"space", "for memory to come free"},
                 {"peers", "for other devices"}};
    for (size_t i = 0; i < G_N_ELEMENTS(waits); i++) {
        gint64 more = ech_member_int(ech_member_object(b, "waits"), waits[i].name) - ech_member_int(ech_member_object(a, "waits"), waits[i].name);
        if (llabs(more) > MAX(from, to) / 10) {
            g_autofree char *change = ech_format_time(llabs(more));
            say(out, "Operations wait %s %s %s (summed over all of them).", change, more > 0 ? "longer" : "less", waits[i].words);
        }
    }
}

/* What a row of the longest operations is called: of several whose names differ in their number, "fusion.*" and where they come from. Owned by the caller. */
static char *row_label(JsonObject *row)
{
    const char *name = ech_member_text(row, "name"), *source = ech_member_text(row, "source");
    if (!name || !json_object_has_member(row, "names_alike"))
        return name ? ech_text_kernel(name) : NULL;
    return g_strdup_printf("%.*s.*%s%s%s", (int)ech_report_stem(name), name, source ? " (" : "", source ? source : "", source ? ")" : "");
}

static JsonArray *longest_of(JsonObject *run, const char *member)
{
    JsonNode *node = json_object_get_member(run, member);
    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

static JsonObject *row_of(JsonArray *rows, guint i)
{
    JsonNode *node = json_array_get_element(rows, i);
    return JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

/* Kernels and copies of the same name; names mean the same only in the same trace. */
static void explain_operations(GPtrArray *out, JsonObject *a, JsonObject *b)
{
    gint64 by = ech_member_int(b, "makespan_ps") - ech_member_int(a, "makespan_ps");
    const char *hash_a = ech_member_text(ech_member_object(a, "provenance"), "trace"), *hash_b = ech_member_text(ech_member_object(b, "provenance"), "trace");
    const char *member = json_object_has_member(a, "longest_alike") && json_object_has_member(b, "longest_alike") ? "longest_alike" : "longest";
    JsonArray *rows_a = longest_of(a, member), *rows_b = longest_of(b, member);
    if (!rows_a || !rows_b || g_strcmp0(hash_a, hash_b) != 0 || by == 0)
        return;
    g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(Part));
    g_autoptr(GPtrArray) labels = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < json_array_get_length(rows_b); i++) {
        JsonObject *of_b = row_of(rows_b, i);
        char *label = row_label(of_b);
        if (!label)
            continue;
        g_ptr_array_add(labels, label);
        for (guint j = 0; j < json_array_get_length(rows_a); j++) {
            JsonObject *of_a = row_of(rows_a, j);
            g_autofree char *other = row_label(of_a);
            if (g_strcmp0(other, label) == 0 && g_strcmp0(ech_member_text(of_a, "kind"), ech_member_text(of_b, "kind")) == 0 &&
                g_strcmp0(ech_member_text(of_a, "kernel_class"), ech_member_text(of_b, "kernel_class")) == 0)
                add_part(parts, label, ech_member_int(of_a, "time_ps"), ech_member_int(of_b, "time_ps"));
        }
    }
    if (parts->len > 1)
        qsort(parts->data, parts->len, sizeof(Part), compare_parts);
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < MIN(parts->len, MOST_PARTS); i++) {
        const Part *part = &g_array_index(parts, Part, i);
        if (20.0 * (double)llabs(part->b - part->a) < (double)llabs(by) || (part->b > part->a) != (by > 0))
            continue;
        g_autofree char *before = ech_format_time(part->a), *after = ech_format_time(part->b), *name = ech_text_short(part->name, LONGEST_NAME);
        if (strcmp(before, after) != 0)
            g_string_append_printf(text, "%s '%s' %s -> %s", text->len ? "," : "", name, before, after);
    }
    if (text->len)
        say(out, "The operations that changed most:%s.", text->str);
}

/* -- bytes ------------------------------------------------------------------ */

static void append_analysis(GString *text, JsonObject *a, JsonObject *b, const char *prefix)
{
    JsonObject *of_a = ech_member_object(a, "memory_analysis"), *of_b = ech_member_object(b, "memory_analysis");
    if (!of_a || !of_b)
        return;
    gint64 sums[2][2];
    JsonObject *const objects[2] = {of_a, of_b};
    for (size_t i = 0; i < 2; i++) {
        gint64 figures[4];
        static const char *const names[] = {"argument", "output", "alias", "temp"};
        for (size_t k = 0; k < 4; k++) {
            g_autofree char *name = g_strconcat(prefix, names[k], NULL);
            figures[k] = ech_member_int(objects[i], name);
        }
        sums[i][0] = figures[0] + figures[1] - figures[2];
        sums[i][1] = figures[3];
    }
    static const char *const words[] = {"arguments and results", "temporaries"};
    bool said = false;
    for (size_t k = 0; k < 2; k++) {
        if (llabs(sums[1][k] - sums[0][k]) < SMALL_BYTES)
            continue;
        g_autofree char *change = signed_bytes(sums[1][k] - sums[0][k]);
        g_string_append_printf(text, "%s %s %s", said ? "," : ":", change, words[k]);
        said = true;
    }
}

static void explain_memory(GPtrArray *out, JsonObject *a, JsonObject *b, const char *name)
{
    gint64 from = ech_run_memory_bytes(a, name), to = ech_run_memory_bytes(b, name), by = to - from;
    bool on_chip = strcmp(name, "hbm") != 0 && strcmp(name, "host") != 0; /* A tenth more of what nobody rents is not worth a sentence. */
    if (llabs(by) < MAX(SMALL_BYTES, MAX(from, to) / (on_chip ? 10 : 100)))
        return;
    g_autofree char *bytes_a = ech_format_bytes((EchBytes)from), *bytes_b = ech_format_bytes((EchBytes)to), *change = signed_bytes(by);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s: %s -> %s (%s)", name, bytes_a, bytes_b, change);
    if (strcmp(name, "hbm") == 0 || strcmp(name, "host") == 0)
        append_analysis(text, a, b, strcmp(name, "host") == 0 ? "host_" : "");
    g_string_append_c(text, '.');
    g_autoptr(GArray) parts = parts_of(ech_member_object(child(a, "memories", name), "holds"), ech_member_object(child(b, "memories", name), "holds"), "bytes");
    guint said = 0;
    for (guint i = 0; i < parts->len && said < MOST_PARTS + 1; i++) {
        const Part *part = &g_array_index(parts, Part, i);
        gint64 part_by = part->b - part->a;
        if (llabs(part_by) < MAX(SMALL_BYTES, llabs(by) / 10) || parts->len == 1)
            continue;
        g_autofree char *part_change = signed_bytes(part_by);
        g_string_append_printf(text, "%s %s %s", said ? "," : " At its fullest it holds", part_change, part->name);
        said++;
    }
    if (said)
        g_string_append_c(text, '.');
    say(out, "%s", text->str);
}

/* Names of the largest buffers of a purpose: ": 'a', 'b', 'c'", or nothing. Owned. */
static char *largest_of(JsonObject *run, const char *memory, const char *purpose)
{
    JsonObject *holding = ech_member_object(ech_member_object(child(run, "memories", memory), "holds"), purpose);
    JsonNode *node = holding ? json_object_get_member(holding, "largest") : NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    guint n = node && JSON_NODE_HOLDS_ARRAY(node) ? json_array_get_length(json_node_get_array(node)) : 0;
    for (guint i = 0; i < n; i++) {
        JsonNode *name = json_array_get_element(json_node_get_array(node), i);
        const char *own = JSON_NODE_HOLDS_VALUE(name) && json_node_get_value_type(name) == G_TYPE_STRING ? json_node_get_string(name) : NULL;
        g_autofree char *quoted = own ? g_strdup_printf("'%s'", own) : NULL;
        if (quoted && !strstr(text->str, quoted)) /* results of one fusion share its name */
            g_string_append_printf(text, "%s%s", text->len ? ", " : " (largest: ", quoted);
    }
    if (text->len)
        g_string_append_c(text, ')');
    return g_strdup(text->str);
}

/* The purposes that hold more of hbm than before, and by which buffers. */
static void append_more_held(GString *text, JsonObject *a, JsonObject *b, gint64 at_least)
{
    JsonObject *holds_b = ech_member_object(child(b, "memories", "hbm"), "holds");
    g_autoptr(GArray) parts = parts_of(ech_member_object(child(a, "memories", "hbm"), "holds"), holds_b, "bytes");
    bool said = false;
    for (guint i = 0; i < parts->len; i++) {
        const Part *part = &g_array_index(parts, Part, i);
        if (part->b - part->a < at_least || !holds_b)
            continue;
        g_autofree char *more = ech_format_bytes((EchBytes)(part->b - part->a)), *names = largest_of(b, "hbm", part->name);
        g_string_append_printf(text, "%s %s more %s%s", said ? "," : " At the peak it holds", more, part->name, names);
        said = true;
    }
    if (said)
        g_string_append_c(text, '.');
}

/* Passes of @run, but those that send arrays to memories beside the device's and bring them back. Owned by the caller. */
static char *passes_beside_offload(JsonObject *run)
{
    static const char *const moving[] = {"offload", "prefetch", "schedule", NULL};
    JsonArray *passes = member_array(ech_member_object(run, "provenance"), "passes");
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; passes && i < json_array_get_length(passes); i++) {
        const char *spec = text_at(passes, i);
        g_autofree char *name = g_strndup(spec ? spec : "", strcspn(spec ? spec : "", ":"));
        if (!g_strv_contains(moving, name))
            g_string_append_printf(text, "%s ", spec ? spec : "");
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* The memory to which passes of @run send arrays, "offload:to=cxl". Owned by the caller. */
static char *tier_of(JsonObject *run)
{
    JsonArray *passes = member_array(ech_member_object(run, "provenance"), "passes");
    char *tier = g_strdup("host");
    for (guint i = 0; passes && i < json_array_get_length(passes); i++) {
        g_auto(GStrv) words = g_strsplit_set(text_at(passes, i) ? text_at(passes, i) : "", ":,", -1);
        for (char **word = words; *word && strcmp(words[0], "offload") == 0; word++) {
            if (!g_str_has_prefix(*word, "to=") || !(*word)[strlen("to=")])
                continue;
            g_free(tier);
            tier = g_strdup(*word + strlen("to="));
        }
    }
    return tier;
}

/* Where it is what the two differ in. */
static void explain_offload(GPtrArray *out, JsonObject *a, JsonObject *b)
{
    g_autofree char *tier = tier_of(b);
    const bool on_host = strcmp(tier, "host") == 0;
    gint64 host = ech_run_memory_bytes(b, tier) - ech_run_memory_bytes(a, tier), hbm = ech_run_memory_bytes(b, "hbm") - ech_run_memory_bytes(a, "hbm");
    gint64 crossed = ech_member_int(child(b, "links", tier), "bytes_backward") - ech_member_int(child(a, "links", tier), "bytes_backward");
    gint64 arguments =
        ech_member_int(ech_member_object(b, "memory_analysis"), "host_argument") - ech_member_int(ech_member_object(a, "memory_analysis"), "host_argument");
    g_autofree char *beside_a = passes_beside_offload(a), *beside_b = passes_beside_offload(b);
    if (host < MAX(SMALL_BYTES, ech_run_memory_bytes(b, "hbm") / 100) || strcmp(beside_a, beside_b) != 0)
        return;
    g_autofree char *moved = ech_format_bytes((EchBytes)host), *change = ech_format_bytes((EchBytes)llabs(hbm)),
                    *sent = ech_format_bytes((EchBytes)MAX(crossed, 0));
    g_autoptr(GString) text = g_string_new(NULL);
    if (hbm > 0)
        g_string_append_printf(text, "So this offload costs device memory: %s of %s moved to %s, and hbm needs %s more.", moved,
                               arguments > host / 2 ? "arguments" : "saved arrays", on_host ? "the host" : tier, change);
    else
        g_string_append_printf(text, "So this offload saves %s of hbm for %s %s%s.", change, moved, on_host ? "on the " : "in ", tier);
    if (crossed > host + host / 4)
        g_string_append_printf(text, " (%s were sent there in all, at most %s at a time.)", sent, moved);
    append_more_held(text, a, b, MAX(SMALL_BYTES, llabs(hbm) / 4));
    say(out, "%s", text->str);
}

static void explain_traffic(GPtrArray *out, JsonObject *a, JsonObject *b)
{
    gint64 from = ech_member_int(child(a, "memories", "hbm"), "traffic_read_bytes") + ech_member_int(child(a, "memories", "hbm"), "traffic_written_bytes");
    gint64 to = ech_member_int(child(b, "memories", "hbm"), "traffic_read_bytes") + ech_member_int(child(b, "memories", "hbm"), "traffic_written_bytes");
    if (llabs(to - from) <= MAX(from, to) / 50 || llabs(to - from) < SMALL_BYTES || !ech_member_bool(a, "completed") || !ech_member_bool(b, "completed"))
        return;
    g_autofree char *before = ech_format_bytes((EchBytes)from), *after = ech_format_bytes((EchBytes)to);
    say(out, "Traffic of hbm: %s -> %s (%.2fx).", before, after, from > 0 ? (double)to / (double)from : 0);
}

static GPtrArray *memory_names(JsonObject *a, JsonObject *b)
{
    GPtrArray *names = g_ptr_array_new();
    static const char *const first[] = {"hbm", "vector", "common", "host", NULL};
    for (size_t i = 0; first[i]; i++)
        g_ptr_array_add(names, (gpointer)(uintptr_t)first[i]);
    g_autoptr(GArray) parts = parts_of(ech_member_object(a, "memories"), ech_member_object(b, "memories"), "peak_live_bytes");
    for (guint i = 0; i < parts->len; i++) {
        const char *name = g_array_index(parts, Part, i).name;
        if (!g_strv_contains(first, name))
            g_ptr_array_add(names, (gpointer)(uintptr_t)name);
    }
    return names;
}

static JsonArray *provenance_list(JsonObject *run, const char *name)
{
    JsonObject *provenance = ech_member_object(run, "provenance");
    JsonNode *node = provenance ? json_object_get_member(provenance, name) : NULL;
    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

/* What the pass says of why it left all as it was: of the remark "NAME: left the trace as it is: ...". */
static char *reason_of(JsonObject *run, const char *pass)
{
    JsonNode *node = json_object_get_member(run, "remarks");
    JsonArray *remarks = node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    g_autofree char *begin = g_strdup_printf("%.*s: left the ", (int)strcspn(pass, ":"), pass);
    for (guint i = 0; remarks && i < json_array_get_length(remarks); i++) {
        const char *remark = json_array_get_string_element(remarks, i), *as_it_is = strstr(remark, " as it is: ");
        if (as_it_is && g_str_has_prefix(remark, begin))
            return g_strdup(as_it_is + strlen(" as it is: "));
    }
    return NULL;
}

static bool has_remark_of(JsonObject *run, const char *pass)
{
    g_autoptr(GPtrArray) remarks = remarks_of_passes(run);
    g_autofree char *begin = g_strdup_printf("%.*s: ", (int)strcspn(pass, ":"), pass);
    bool has = false;
    for (guint i = 0; i < remarks->len; i++)
        has |= g_str_has_prefix(remarks->pdata[i], begin);
    return has;
}

/* Whether @b differs from @a in passes that found nothing to do: the traces are the same, and nothing else was asked for. */
static bool explain_idle_passes(GPtrArray *out, JsonObject *a, JsonObject *b)
{
    JsonArray *before = provenance_list(a, "passes"), *passes = provenance_list(b, "passes"), *settings = provenance_list(b, "settings");
    guint n = passes ? json_array_get_length(passes) : 0;
    if (n == 0 || !settings || json_array_get_length(settings) > 0 || (before && json_array_get_length(before) >= n))
        return false;
    static const char *const same[] = {"trace", "trace_hash", "device_hash"};
    for (size_t i = 0; i < G_N_ELEMENTS(same); i++) {
        if (g_strcmp0(ech_member_text(ech_member_object(a, "provenance"), same[i]), ech_member_text(ech_member_object(b, "provenance"), same[i])) != 0)
            return false;
    }
    const char *pass = json_array_get_string_element(passes, n - 1);
    g_autofree char *reason = reason_of(b, pass);
    if (reason)
        say(out, "Nothing: pass %s leaves it as it is: %s.", pass, reason);
    else
        say(out, "Nothing: pass %s leaves it as it is%s.", pass, has_remark_of(b, pass) ? ", and says why in the notes below" : "");
    return true;
}

static GPtrArray *explain_change(JsonObject *a, JsonObject *b, bool passes)
{
    GPtrArray *out = g_ptr_array_new_with_free_func(g_free);
    if (!a || !b)
        return out;
    if (!passes && explain_idle_passes(out, a, b))
        return out;
    bool fits_a = ech_member_bool(a, "fits"), fits_b = ech_member_bool(b, "fits");
    if (fits_a && !fits_b)
        explain_misfit(out, b, "It stops fitting");
    else if (!fits_a && fits_b)
        say(out, "It fits now.");
    else if (!fits_b)
        explain_misfit(out, b, "It still does not fit");
    if (fits_b)
        explain_time(out, a, b, passes);
    if (fits_b)
        explain_operations(out, a, b);
    explain_traffic(out, a, b);
    g_autoptr(GPtrArray) names = memory_names(a, b);
    /* What a run held that stopped where it did not fit says nothing. */
    bool whole = ech_member_bool(a, "completed") && ech_member_bool(b, "completed");
    for (guint i = 0; whole && i < names->len; i++)
        explain_memory(out, a, b, names->pdata[i]);
    if (whole)
        explain_offload(out, a, b);
    return out;
}

GPtrArray *ech_explain_change(JsonObject *a, JsonObject *b)
{
    return explain_change(a, b, true);
}

GPtrArray *ech_report_changes(const EchReport *report)
{
    if (!report->plain)
        return g_ptr_array_new_with_free_func(g_free);
    EchReport alone = *report;
    alone.plain = NULL;
    alone.brief = true;
    g_autoptr(JsonNode) run = ech_report_json(&alone);
    GPtrArray *out = explain_change(report->plain, json_node_get_object(run), false); /* The run says all remarks itself. */
    g_autofree char *time = ech_format_time(ech_member_int(report->plain, "makespan_ps"));
    if (out->len == 0 && ech_member_bool(report->plain, "fits"))
        say(out, "Next to nothing: as it is it takes %s and needs as much.", time);
    else if (out->len == 0)
        say(out, "Nothing: as it is it does not fit either.");
    return out;
}

GPtrArray *ech_explain_run(JsonObject *run)
{
    GPtrArray *out = g_ptr_array_new_with_free_func(g_free);
    if (!run)
        return out;
    gint64 makespan = ech_member_int(run, "makespan_ps");
    if (!ech_member_bool(run, "fits"))
        explain_misfit(out, run, "It does not fit");
    g_autofree char *time = ech_format_time(makespan);
    g_autoptr(GArray) path = parts_of(NULL, ech_member_object(run, "critical_path"), NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < MIN(path->len, MOST_PARTS) && makespan > 0; i++) {
        const Part *part = &g_array_index(path, Part, i);
        if (20.0 * (double)part->b >= (double)makespan)
            g_string_append_printf(text, "%s %s %.0f %%", i ? "," : "", part->name, 100 * (double)part->b / (double)makespan);
    }
    if (ech_member_bool(run, "completed") && makespan == 0)
        say(out, "It takes no time: nothing in it has a cost.");
    else if (ech_member_bool(run, "completed"))
        say(out, "It takes %s.%s%s%s", time, text->len ? " Its critical path:" : "", text->str, text->len ? "." : "");
    const char *const names[] = {"hbm", "vector"};
    /* What a run held that stopped is not what it needs. */
    for (size_t i = 0; i < G_N_ELEMENTS(names) && ech_member_bool(run, "completed"); i++) {
        gint64 bytes = ech_run_memory_bytes(run, names[i]);
        if (bytes < SMALL_BYTES)
            continue;
        g_autofree char *needed = ech_format_bytes((EchBytes)bytes);
        g_autoptr(GArray) parts = parts_of(NULL, ech_member_object(child(run, "memories", names[i]), "holds"), "bytes");
        g_string_truncate(text, 0);
        guint said = 0;
        for (guint k = 0; k < MIN(parts->len, MOST_PARTS); k++) {
            const Part *part = &g_array_index(parts, Part, k);
            if (50.0 * (double)part->b < (double)bytes)
                continue;
            g_autofree char *held = ech_format_bytes((EchBytes)part->b);
            g_string_append_printf(text, "%s %s %s", said++ ? "," : "", held, part->name);
        }
        if (said)
            say(out, "It needs %s of %s; at its fullest that holds%s.", needed, names[i], text->str);
        else
            say(out, "It needs %s of %s.", needed, names[i]);
    }
    return out;
}

/* -- a grid of runs --------------------------------------------------------- */

/* How much the makespan varies along the line through run @start: largest over smallest; a line on which some fit and some do not varies most. */
static double variation(const EchTableRow *rows, size_t start, size_t stride, size_t n)
{
    gint64 least = G_MAXINT64, most = 0;
    bool fits = false, misfits = false;
    for (size_t k = 0; k < n; k++) {
        JsonObject *run = rows[start + k * stride].run;
        gint64 makespan = ech_member_int(run, "makespan_ps");
        if (!run)
            continue;
        least = MIN(least, makespan);
        most = MAX(most, makespan);
        fits = fits || ech_member_bool(run, "fits");
        misfits = misfits || !ech_member_bool(run, "fits");
    }
    return most == 0 ? 0 : (fits && misfits ? 1e6 : 0) + (double)most / (double)MAX(least, 1);
}

/* How much a step tells: whether it fits comes first, then what bounds it, then how much time changes. */
static double telling(const EchTableRow *rows, EchExplainStep step)
{
    if (step.from == SIZE_MAX || !rows[step.from].run || !rows[step.to].run)
        return G_MAXDOUBLE;
    JsonObject *a = rows[step.from].run, *b = rows[step.to].run;
    double from = (double)MAX(ech_member_int(a, "makespan_ps"), 1), to = (double)MAX(ech_member_int(b, "makespan_ps"), 1);
    bool fit = ech_member_bool(a, "fits") != ech_member_bool(b, "fits");
    bool bound = g_strcmp0(ech_member_text(a, "bound_by"), ech_member_text(b, "bound_by")) != 0;
    return (fit ? 2e12 : bound ? 1e12 : 0) + MAX(from, to) / MIN(from, to);
}

/* Of the steps from @first on the KEPT that tell most, in their order, if they tell anything; and before them the way as a whole. */
static void keep_telling(GArray *steps, guint first, const EchTableRow *rows)
{
    enum { KEPT = 6 };
    const double anything = 1.02;
    EchExplainStep whole = {g_array_index(steps, EchExplainStep, first).from, g_array_index(steps, EchExplainStep, steps->len - 1).to};
    g_autoptr(GArray) tells = g_array_new(FALSE, FALSE, sizeof(double)); /* Of each step from @first on. */
    for (guint i = first; i < steps->len; i++) {
        double told = telling(rows, g_array_index(steps, EchExplainStep, i));
        g_array_append_val(tells, told);
    }
    while (tells->len > 0) {
        guint least = 0;
        for (guint i = 1; i < tells->len; i++) {
            if (g_array_index(tells, double, i) <= g_array_index(tells, double, least))
                least = i;
        }
        if (tells->len <= KEPT && g_array_index(tells, double, least) >= anything)
            break;
        g_array_remove_index(tells, least);
        g_array_remove_index(steps, first + least);
    }
    if (whole.from != SIZE_MAX && rows[whole.from].run && rows[whole.to].run)
        g_array_insert_val(steps, first, whole);
}

EchExplainStep *ech_explain_steps(const EchTableRow *rows, const size_t *sizes, const size_t *const *bases, size_t n_axes, size_t *ret_n)
{
    g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(EchExplainStep));
    EchExplainStep start = {SIZE_MAX, 0};
    if (!rows[0].left_out)
        g_array_append_val(steps, start);
    size_t n_runs = 1;
    for (size_t i = 0; i < n_axes; i++)
        n_runs *= sizes[i];
    size_t stride = n_runs;
    for (size_t i = 0; i < n_axes; i++) {
        stride /= sizes[i];
        size_t line = 0;
        double most = variation(rows, 0, stride, sizes[i]);
        for (size_t other = 1; other < n_runs; other++) {
            double here = other / stride % sizes[i] == 0 ? variation(rows, other, stride, sizes[i]) : 0;
            if (here > most * (1 + SAME)) {
                most = here;
                line = other;
            }
        }
        const guint first = steps->len;
        for (size_t k = 1; k < sizes[i]; k++) {
            /* What others are held against is told as it is along the first line. */
            bool base = bases[i][k] == k;
            EchExplainStep step = {base ? SIZE_MAX : line + bases[i][k] * stride, (base ? 0 : line) + k * stride};
            if (!rows[step.to].left_out && (base || !rows[step.from].left_out))
                g_array_append_val(steps, step);
        }
        if (steps->len - first > ECH_EXPLAIN_VALUES)
            keep_telling(steps, first, rows);
    }
    *ret_n = steps->len;
    return (EchExplainStep *)(void *)g_array_steal(steps, NULL);
}

size_t ech_explain_base(const size_t *sizes, const size_t *const *bases, size_t n_axes, size_t index)
{
    size_t base = 0, stride = 1;
    for (size_t i = n_axes; i-- > 0; stride *= sizes[i]) {
        size_t at = index / stride % sizes[i];
        /* Back to where its group begins. */
        for (size_t k = 0; k < sizes[i] && bases[i][at] != at; k++)
            at = bases[i][at];
        base += at * stride;
    }
    return base;
}

static char *joined(const GPtrArray *sentences)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < sentences->len; i++)
        g_string_append_printf(text, "%s\n", (const char *)sentences->pdata[i]);
    return g_strdup(text->str);
}

void ech_explain_json(JsonBuilder *b, const EchTableRow *rows, const EchExplainStep *steps, size_t n)
{
    ech_json_begin_array(b, "changes");
    for (size_t i = 0; i < n; i++) {
        size_t from = steps[i].from, to = steps[i].to;
        g_autoptr(GPtrArray) sentences = from == SIZE_MAX || !rows[from].run ? ech_explain_run(rows[to].run) : ech_explain_change(rows[from].run, rows[to].run);
        json_builder_begin_object(b);
        if (from != SIZE_MAX)
            ech_json_add_int(b, "from", (gint64)from);
        ech_json_add_int(b, "to", (gint64)to);
        ech_json_begin_array(b, "why");
        for (guint k = 0; k < sentences->len; k++)
            json_builder_add_string_value(b, sentences->pdata[k]);
        json_builder_end_array(b);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

GString *ech_explain_text(const EchTableRow *rows, const EchExplainStep *steps, size_t n, unsigned columns)
{
    GString *out = g_string_new(NULL);
    g_autofree char *last = NULL;
    g_autoptr(GString) heading = g_string_new(NULL);
    for (size_t i = 0; i <= n; i++) {
        g_autofree char *text = NULL;
        bool start = i < n && steps[i].from == SIZE_MAX;
        if (i < n) {
            g_autoptr(GPtrArray) sentences =
                start || !rows[steps[i].from].run ? ech_explain_run(rows[steps[i].to].run) : ech_explain_change(rows[steps[i].from].run, rows[steps[i].to].run);
            if (sentences->len == 0 && rows[steps[i].to].error)
                g_ptr_array_add(sentences, g_strdup(rows[steps[i].to].error));
            text = joined(sentences);
        }
        bool chained = i > 0 && i < n && !start && last && steps[i - 1].from != SIZE_MAX && strcmp(last, text) == 0;
        if (chained) {
            const bool on = steps[i].from == steps[i - 1].to, beside = steps[i].from == steps[i - 1].from;
            g_string_append_printf(heading, "%s%s%s%s",
                                   on       ? ""
                                   : beside ? ", "
                                            : "; ",
                                   on || beside ? "" : rows[steps[i].from].label, beside ? "" : " -> ", rows[steps[i].to].label);
            continue;
        }
        if (last) {
            ech_text_wrap(g_string_append_c(out, '\n'), "  ", heading->str, columns);
            g_auto(GStrv) lines = g_strsplit(last, "\n", -1);
            for (char **line = lines; *line; line++) {
                if (**line)
                    ech_text_wrap(out, "    ", *line, columns ? columns : ECH_TEXT_COLUMNS);
            }
        }
        if (i == n)
            break;
        if (start)
            g_string_printf(heading, "%s", rows[steps[i].to].label);
        else
            g_string_printf(heading, "%s -> %s", rows[steps[i].from].label, rows[steps[i].to].label);
        g_free(last);
        last = g_steal_pointer(&text);
    }
    return out;
}
