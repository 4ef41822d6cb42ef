/* A validation as JSON, text, SVG, HTML and comma-separated values. */
#include "sim/experiment/validate.h"
#include "sim/base/compare.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Figures over several pairs ---- */

typedef struct {
    size_t first, n;             /* Of the sorted pairs. */
    EchTime measured, predicted; /* Sums. */
    double mean, half, most;     /* Of |error|: mean, median, 90 %. */
    EchTime median_measured, median_predicted;
} Figures;

typedef struct {
    const EchValidation *validation;
    size_t *order; /* Pairs with a measured time, sorted by kind, group, name, bytes. */
    size_t n;
    GArray *kinds, *groups, *points; /* Figures */
} Analysis;

static gint compare_text(const char *a, const char *b)
{
    return g_strcmp0(a, b);
}

/* Level 0: all the same; 1: kind; 2: and group; 3: and name and bytes. */
static gint compare_pairs(const EchValidatePair *a, const EchValidatePair *b, int level)
{
    gint order = level >= 1 ? compare_text(a->kind, b->kind) : 0;
    if (order == 0 && level >= 2)
        order = compare_text(a->group, b->group);
    if (order == 0 && level >= 3)
        order = compare_text(a->name, b->name);
    if (order == 0 && level >= 3)
        order = (a->bytes > b->bytes) - (a->bytes < b->bytes);
    return order;
}

static gint compare_order(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchValidation *validation = *(const EchValidation *const *)data;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    gint order = compare_pairs(&validation->pairs[x], &validation->pairs[y], 3);
    return order != 0 ? order : (x > y) - (x < y);
}

static double error_of(const EchValidatePair *pair)
{
    return (double)pair->predicted / (double)pair->measured - 1;
}

static Figures figures(const Analysis *analysis, size_t first, size_t n)
{
    Figures f = {.first = first, .n = n};
    g_autofree double *errors = g_new(double, n + 1);
    g_autofree EchTime *times = g_new(EchTime, n + 1);
    for (size_t i = 0; i < n; i++) {
        const EchValidatePair *pair = &analysis->validation->pairs[analysis->order[first + i]];
        f.measured = ech_time_add(f.measured, pair->measured);
        f.predicted = ech_time_add(f.predicted, pair->predicted);
        errors[i] = fabs(error_of(pair));
        f.mean += errors[i] / (double)n;
        times[i] = pair->measured;
    }
    if (n == 0)
        return f;
    qsort(errors, n, sizeof *errors, ech_compare_double);
    f.half = errors[n / 2];
    f.most = errors[MIN(n - 1, (size_t)(0.9 * (double)n))];
    qsort(times, n, sizeof *times, ech_compare_i64);
    f.median_measured = times[n / 2];
    for (size_t i = 0; i < n; i++)
        times[i] = analysis->validation->pairs[analysis->order[first + i]].predicted;
    qsort(times, n, sizeof *times, ech_compare_i64);
    f.median_predicted = times[n / 2];
    return f;
}

static GArray *partition(const Analysis *analysis, int level)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(Figures));
    for (size_t i = 0, n; i < analysis->n; i += n) {
        const EchValidatePair *pairs = analysis->validation->pairs;
        for (n = 1; i + n < analysis->n && compare_pairs(&pairs[analysis->order[i]], &pairs[analysis->order[i + n]], level) == 0;)
            n++;
        Figures f = figures(analysis, i, n);
        g_array_append_val(all, f);
    }
    return all;
}

static Analysis analyse(const EchValidation *validation)
{
    Analysis analysis = {.validation = validation, .order = g_new(size_t, validation->n_pairs + 1)};
    for (size_t i = 0; i < validation->n_pairs; i++)
        if (validation->pairs[i].measured > 0)
            analysis.order[analysis.n++] = i;
    g_qsort_with_data(analysis.order, (gint)MIN(analysis.n, (size_t)G_MAXINT), sizeof *analysis.order, compare_order, &analysis.validation);
    analysis.kinds = partition(&analysis, 1);
    analysis.groups = partition(&analysis, 2);
    analysis.points = partition(&analysis, 3);
    return analysis;
}

static void analysis_clear(Analysis *analysis)
{
    g_free(analysis->order);
    g_array_unref(analysis->kinds);
    g_array_unref(analysis->groups);
    g_array_unref(analysis->points);
}

static const EchValidatePair *pair_of(const Analysis *analysis, const Figures *f)
{
    return &analysis->validation->pairs[analysis->order[f->first]];
}

static double distance(const Figures *f)
{
    return fabs((double)f->predicted - (double)f->measured);
}

static gint compare_distance(gconstpointer a, gconstpointer b)
{
    const Figures *x = a, *y = b;
    double dx = distance(x), dy = distance(y);
    return dx != dy ? (dx < dy) - (dx > dy) : (x->first > y->first) - (x->first < y->first);
}

/* The points whose predictions miss the most time, worst first. */
static GArray *worst_points(const Analysis *analysis, guint limit)
{
    GArray *worst = g_array_copy(analysis->points);
    g_array_sort(worst, compare_distance);
    g_array_set_size(worst, MIN(worst->len, limit));
    while (worst->len > 0 && distance(&g_array_index(worst, Figures, worst->len - 1)) < 1)
        g_array_set_size(worst, worst->len - 1);
    return worst;
}

char *ech_validation_nothing(const EchValidation *validation)
{
    for (size_t i = 0; i < validation->n_pairs; i++)
        if (validation->pairs[i].measured > 0)
            return NULL;
    g_autoptr(GString) text = g_string_new("nothing could be compared");
    for (size_t i = 0; i < validation->n_gaps; i++) {
        const EchValidateGap *gap = &validation->gaps[i];
        g_string_append_printf(text, "%s%" G_GUINT64_FORMAT " %s%s: %s", i == 0 ? ": " : "; ", gap->count,
                               strcmp(gap->kind, "copy") == 0 && gap->count != 1 ? "copie" : gap->kind, gap->count == 1 ? "" : "s", gap->reason);
    }
    if (validation->n_gaps == 0)
        g_string_append(text, ": it holds no kernel, copy or collective that took time");
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* ---- JSON ---- */

static void add_pair(JsonBuilder *json, const EchValidatePair *pair)
{
    json_builder_begin_object(json);
    ech_json_add_text(json, "name", pair->name);
    ech_json_add_text(json, "kind", pair->kind);
    if (pair->group)
        ech_json_add_text(json, "group", pair->group);
    ech_json_add_int(json, "measured_ps", pair->measured);
    ech_json_add_int(json, "predicted_ps", pair->predicted);
    if (pair->how)
        ech_json_add_text(json, "predicted_by", pair->how);
    if (pair->group) {
        ech_json_add_int(json, "device", pair->device);
        if (pair->start != ECH_TIME_NONE)
            ech_json_add_int(json, "start_ps", pair->start);
        if (pair->bytes > 0)
            ech_json_add_count(json, "bytes", pair->bytes);
    }
    if (pair->cost.time > 0) {
        ech_json_add_int(json, "compute_ps", pair->cost.compute);
        ech_json_add_int(json, "hbm_ps", pair->cost.hbm);
        ech_json_add_int(json, "latency_ps", pair->cost.latency);
        ech_json_add_int(json, "space_ps", pair->cost.space);
        ech_json_add_int(json, "vmem_port_ps", pair->cost.port);
        ech_json_add_int(json, "fill_ps", pair->cost.fill);
        ech_json_add_int(json, "overhead_ps", pair->cost.overhead);
        ech_json_add_count(json, "steps", pair->cost.blocks.steps);
    }
    if (pair->vmem_measured > 0) {
        ech_json_add_count(json, "measured_vmem_bytes", pair->vmem_measured);
        ech_json_add_count(json, "predicted_vmem_bytes", pair->vmem_predicted);
    }
    json_builder_end_object(json);
}

static void add_makespan(JsonBuilder *json, const EchValidation *validation)
{
    ech_json_begin_object(json, "makespan");
    if (validation->makespan_measured != ECH_TIME_NONE) {
        ech_json_add_int(json, "measured_ps", validation->makespan_measured);
        ech_json_add_int(json, "predicted_ps", validation->makespan_predicted);
        ech_json_add_double(json, "error", ech_relative_error(validation->makespan_predicted, validation->makespan_measured));
    } else {
        /* A table of kernels is no run. */
        static const char *const names[] = {"measured_ps", "predicted_ps", "error"};
        for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
            ech_json_add_mean(json, names[i], -1);
    }
    if (validation->basis.all > 0)
        ech_json_add_int(json, "hardware_ps", validation->basis.all);
    if (validation->n_wholes > 0) {
        ech_json_begin_array(json, "devices");
        for (size_t i = 0; i < validation->n_wholes; i++) {
            const EchValidateWhole *whole = &validation->wholes[i];
            json_builder_begin_object(json);
            ech_json_add_int(json, "device", whole->device);
            ech_json_add_int(json, "span_ps", whole->span);
            ech_json_add_int(json, "measured_ps", whole->measured);
            ech_json_add_int(json, "predicted_ps", whole->predicted);
            ech_json_add_int(json, "recorded_standing_in_ps", whole->stand_in);
            json_builder_end_object(json);
        }
        json_builder_end_array(json);
    }
    json_builder_end_object(json);
}

static void add_figures(JsonBuilder *json, const Analysis *analysis, const Figures *f, bool point)
{
    const EchValidatePair *pair = pair_of(analysis, f);
    json_builder_begin_object(json);
    if (point)
        ech_json_add_text(json, "name", pair->name);
    ech_json_add_text(json, "kind", pair->kind);
    if (pair->group)
        ech_json_add_text(json, "group", pair->group);
    ech_json_add_count(json, "pairs", f->n);
    ech_json_add_int(json, "measured_ps", point ? f->median_measured : f->measured);
    ech_json_add_int(json, "predicted_ps", point ? f->median_predicted : f->predicted);
    if (!point) {
        ech_json_add_double(json, "error", ech_relative_error(f->predicted, f->measured));
        ech_json_add_double(json, "mape", f->mean);
        ech_json_add_double(json, "median", f->half);
        ech_json_add_double(json, "p90", f->most);
    } else if (pair->bytes > 0) {
        ech_json_add_count(json, "bytes", pair->bytes);
    }
    json_builder_end_object(json);
}

JsonNode *ech_validation_json(const EchValidation *validation, const EchDevice *device)
{
    Analysis analysis = analyse(validation);
    g_autoptr(JsonBuilder) json = json_builder_new();
    json_builder_begin_object(json);
    ech_json_add_text(json, "device", device->name);
    if (validation->subject)
        ech_json_add_text(json, "measured", validation->subject);
    ech_json_add_bool(json, "comparable", analysis.n > 0);
    ech_json_begin_array(json, "pairs");
    for (size_t i = 0; i < validation->n_pairs; i++)
        add_pair(json, &validation->pairs[i]);
    json_builder_end_array(json);
    add_makespan(json, validation);
    ech_json_begin_object(json, "mape");
    static const char *const kinds[] = {"copy", "kernel", "collective", NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
        ech_json_add_mean(json, kinds[i] ? kinds[i] : "all", ech_validation_mape(validation, kinds[i]));
    json_builder_end_object(json);
    ech_json_begin_array(json, "groups");
    for (guint i = 0; i < analysis.groups->len; i++)
        add_figures(json, &analysis, &g_array_index(analysis.groups, Figures, i), false);
    json_builder_end_array(json);
    ech_json_begin_array(json, "scatter");
    for (guint i = 0; i < analysis.points->len; i++)
        add_figures(json, &analysis, &g_array_index(analysis.points, Figures, i), true);
    json_builder_end_array(json);
    ech_json_begin_array(json, "not_compared");
    for (size_t i = 0; i < validation->n_gaps; i++) {
        const EchValidateGap *gap = &validation->gaps[i];
        json_builder_begin_object(json);
        ech_json_add_text(json, "kind", gap->kind);
        ech_json_add_text(json, "reason", gap->reason);
        ech_json_add_count(json, "count", gap->count);
        ech_json_add_int(json, "measured_ps", gap->measured);
        ech_json_add_text(json, "first", gap->example);
        json_builder_end_object(json);
    }
    json_builder_end_array(json);
    ech_json_begin_array(json, "notes");
    for (guint i = 0; validation->notes && i < validation->notes->len; i++)
        json_builder_add_string_value(json, validation->notes->pdata[i]);
    json_builder_end_array(json);
    json_builder_end_object(json);
    analysis_clear(&analysis);
    return json_builder_get_root(json);
}

/* ---- Text ---- */

/* The table in a terminal of so many columns: what says least is left out first. */
typedef struct {
    int name;
    bool most, mean; /* The columns "9 in 10" and "mean". */
    unsigned columns;
} Widths;

enum { NAME = 52, LEAST_NAME = 24 };

/* @longest: columns of the longest label. */
static Widths widths(unsigned columns, int longest)
{
    enum { FIXED = 52, EXTRA = 10 };
    Widths w = {.name = MIN(longest, NAME), .most = true, .mean = true, .columns = columns};
    if (columns == 0)
        return w;
    w.most = (int)columns >= w.name + FIXED + 2 * EXTRA;
    w.mean = (int)columns >= w.name + FIXED + EXTRA;
    w.name = MIN(w.name, MAX((int)columns - FIXED, LEAST_NAME));
    return w;
}

/* A name in at most @width columns; of C++ kernels without what all of them begin with. */
static char *cut(const char *name, int width)
{
    g_autofree char *kernel = ech_text_kernel(name);
    return ech_text_short(kernel, width);
}

/* "+1.2 %", or "x12" where per cent say nothing. */
static char *signed_error(double error)
{
    return error > 9.995 ? g_strdup_printf("x%.0f", error + 1) : g_strdup_printf("%+.1f %%", 100 * error);
}

/* What the figures beside the predicted ones are. */
static const char *compared_with(const EchValidation *validation)
{
    return validation->estimated ? "estimated" : "measured";
}

static char *plain_error(double error)
{
    return error > 99.995 ? g_strdup("> 9999 %") : g_strdup_printf("%.1f %%", 100 * error);
}

/* A name before figures: one that a terminal has no room for beside them stands on a line of its own. */
static void append_name(GString *text, const char *name, int width, unsigned columns)
{
    g_autofree char *cut_name = cut(name, columns ? (int)columns - 2 : NAME);
    g_string_append(text, "  ");
    if (columns && ech_text_width(cut_name) > width)
        g_string_append_printf(text, "%s\n  %*s", cut_name, width, "");
    else
        ech_text_cell(text, cut_name, width);
}

static void row(GString *text, const Widths *w, const char *label, const Figures *f)
{
    g_autofree char *measured = ech_format_time(f->measured), *predicted = ech_format_time(f->predicted);
    g_autofree char *error = signed_error(ech_relative_error(f->predicted, f->measured)), *half = plain_error(f->half), *most = plain_error(f->most),
                    *mean = plain_error(f->mean);
    append_name(text, label, w->name, w->columns);
    g_string_append_printf(text, " %7zu %10s %10s %9s %9s", f->n, measured, predicted, error, half);
    if (w->most)
        g_string_append_printf(text, " %9s", most);
    if (w->mean)
        g_string_append_printf(text, " %9s", mean);
    g_string_append_c(text, '\n');
}

static char *group_label(const char *group)
{
    return g_strconcat("  ", group, NULL);
}

static int longest_label(const Analysis *analysis)
{
    int longest = (int)strlen("collective");
    for (guint i = 0; i < analysis->groups->len; i++) {
        const char *group = pair_of(analysis, &g_array_index(analysis->groups, Figures, i))->group;
        g_autofree char *label = group ? group_label(group) : NULL;
        longest = label ? MAX(longest, ech_text_width(label)) : longest;
    }
    return longest;
}

static void append_worst(GString *text, unsigned columns, const Analysis *analysis)
{
    g_autoptr(GArray) worst = worst_points(analysis, 10);
    if (worst->len == 0)
        return;
    g_string_append(text, "\nWhere the prediction misses the most time (times of all occurrences together)\n");
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    int widest = 0, longest = 0, numbers = 42;
    for (guint i = 0; i < worst->len; i++) {
        const EchValidatePair *pair = pair_of(analysis, &g_array_index(worst, Figures, i));
        g_autofree char *bytes = pair->bytes > 0 ? ech_format_bytes(pair->bytes) : NULL, *name = cut(pair->name, NAME);
        g_ptr_array_add(notes, g_strdup_printf("%s%s%s", pair->kind, bytes ? " of " : "", bytes ? bytes : ""));
        widest = MAX(widest, ech_text_width(notes->pdata[i]));
        longest = MAX(longest, ech_text_width(name));
    }
    int width = columns ? MIN(longest, MAX((int)columns - 2 - numbers - widest, 0)) : longest;
    for (guint i = 0; i < worst->len; i++) {
        const Figures *f = &g_array_index(worst, Figures, i);
        const EchValidatePair *pair = pair_of(analysis, f);
        g_autofree char *measured = ech_format_time(f->measured), *predicted = ech_format_time(f->predicted),
                        *error = signed_error(ech_relative_error(f->predicted, f->measured));
        append_name(text, pair->name, width, columns);
        g_string_append_printf(text, " %7zu %10s %10s %9s  %s\n", f->n, measured, predicted, error, (const char *)notes->pdata[i]);
    }
}

static void append_gaps(GString *text, const EchValidation *validation, unsigned columns)
{
    if (validation->n_gaps == 0)
        return;
    g_string_append(text, "\nNot compared, and not in any figure above\n");
    for (size_t i = 0; i < validation->n_gaps; i++) {
        const EchValidateGap *gap = &validation->gaps[i];
        g_autofree char *time = ech_format_time(gap->measured), *example = cut(gap->example, 40);
        g_autoptr(GString) line = g_string_new(NULL);
        g_string_append_printf(line, "%" G_GUINT64_FORMAT " %s%s", gap->count, strcmp(gap->kind, "copy") == 0 && gap->count != 1 ? "copie" : gap->kind,
                               gap->count == 1 ? "" : "s");
        if (gap->measured > 0)
            g_string_append_printf(line, ", recorded %s in all", time);
        g_string_append_printf(line, ": %s (first: %s)", gap->reason, example);
        ech_text_wrap(text, "  ", line->str, columns);
    }
}

static void append_whole(GString *text, const EchValidation *validation)
{
    if (validation->makespan_measured == ECH_TIME_NONE)
        return;
    g_string_append_c(text, '\n');
    for (size_t i = 0; i < validation->n_wholes; i++) {
        const EchValidateWhole *whole = &validation->wholes[i];
        g_autofree char *span = ech_format_time(whole->span), *measured = ech_format_time(whole->measured), *predicted = ech_format_time(whole->predicted),
                        *error = signed_error(ech_relative_error(whole->predicted, whole->measured)), *stand_in = ech_format_time(whole->stand_in);
        g_string_append_printf(text, "Whole run%s", validation->n_wholes > 1 ? "" : ":");
        if (validation->n_wholes > 1)
            g_string_append_printf(text, ", device %u:", whole->device);
        g_string_append_printf(text, " busy %s of the %s recorded; predicted %s (%s)", measured, span, predicted, error);
        if (whole->stand_in > 0)
            g_string_append_printf(text, ", with %s of recorded kernel times standing in", stand_in);
        g_string_append_c(text, '\n');
    }
    if (validation->n_wholes == 0) {
        g_autofree char *measured = ech_format_time(validation->makespan_measured), *predicted = ech_format_time(validation->makespan_predicted),
                        *error = signed_error(ech_relative_error(validation->makespan_predicted, validation->makespan_measured));
        g_string_append_printf(text, "One after the other, loops as often as they run: %s estimated, predicted %s (%s)\n", measured, predicted, error);
    }
    if (validation->basis.all > 0) {
        g_autofree char *hardware = ech_format_time(validation->basis.all), *basis = ech_report_basis_text(&validation->basis);
        g_string_append_printf(text, "All kernels by the hardware's own constants, as 'echelon run' prices them: %s\n%s\n", hardware, basis);
    }
}

GString *ech_validation_text(const EchValidation *validation, const EchDevice *device, const char *title, unsigned columns)
{
    Analysis analysis = analyse(validation);
    const Widths w = widths(columns, longest_label(&analysis));
    GString *text = g_string_new(NULL);
    g_autofree char *against = g_strdup_printf("%s%sagainst %s%s%s%s", validation->subject ? validation->subject : "", validation->subject ? ", " : "",
                                               device->name, *device->summary ? " (" : "", device->summary, *device->summary ? ")" : "");
    g_string_append_printf(text, "%s\n", title);
    ech_text_wrap(text, "", against, columns);
    g_string_append_c(text, '\n');
    if (analysis.n == 0)
        g_string_append(text, "Nothing could be compared.\n");
    else
        g_string_append_printf(text, "  %-*s %7s %10s %10s %9s %9s%s%s\n", w.name, "", "pairs", compared_with(validation), "predicted", "in all", "median",
                               w.most ? "   9 in 10" : "", w.mean ? "      mean" : "");
    for (guint k = 0; k < analysis.kinds->len; k++) {
        const Figures *kind = &g_array_index(analysis.kinds, Figures, k);
        row(text, &w, pair_of(&analysis, kind)->kind, kind);
        for (guint g = 0; g < analysis.groups->len; g++) {
            const Figures *group = &g_array_index(analysis.groups, Figures, g);
            if (group->first < kind->first || group->first >= kind->first + kind->n || !pair_of(&analysis, group)->group)
                continue;
            g_autofree char *label = group_label(pair_of(&analysis, group)->group);
            row(text, &w, label, group);
        }
    }
    if (analysis.kinds->len > 1) {
        Figures all = figures(&analysis, 0, analysis.n);
        row(text, &w, "all", &all);
    }
    g_autoptr(GString) whole = g_string_new(NULL);
    append_whole(whole, validation);
    g_autoptr(GString) folded = ech_text_fold(whole->str, columns);
    g_string_append(text, folded->str);
    append_worst(text, columns, &analysis);
    append_gaps(text, validation, columns);
    if (validation->notes && validation->notes->len > 0)
        g_string_append_c(text, '\n');
    for (guint i = 0; validation->notes && i < validation->notes->len; i++)
        ech_text_wrap(text, "- ", validation->notes->pdata[i], columns);
    analysis_clear(&analysis);
    return text;
}

/* ---- SVG and HTML ---- */

enum { SIZE = 640, LEFT = 84, TOP = 24, BOTTOM = 56 };

static const char *colour(const char *kind)
{
    return strcmp(kind, "copy") == 0 ? "#d9822b" : strcmp(kind, "collective") == 0 ? "#3d9a6a" : "#3f6fb5";
}

static void append_escaped(GString *out, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1), *escaped = g_markup_escape_text(valid, -1);
    for (const char *at = escaped; *at; at++) /* control characters are not allowed even escaped */
        g_string_append_c(out, (unsigned char)*at < 0x20 ? ' ' : *at);
}

typedef struct {
    double low, high; /* log10 of picoseconds, whole decades */
} Axis;

static double place(const Axis *axis, EchTime time)
{
    double at = time > 0 ? (log10((double)time) - axis->low) / (axis->high - axis->low) : 0;
    return CLAMP(at, 0, 1) * SIZE;
}

static void append_axes(GString *out, const EchValidation *validation, const Axis *axis)
{
    for (int decade = (int)axis->low; decade <= (int)axis->high; decade++) {
        EchTime time = 1;
        for (int i = 0; i < decade && time < ECH_TIME_MAX / 10; i++)
            time *= 10;
        double at = place(axis, time);
        g_autofree char *label = ech_format_time(time);
        g_string_append_printf(out, "<path class=\"grid\" d=\"M%.1f %dV%dM%d %.1fH%d\"/>", LEFT + at, TOP, TOP + SIZE, LEFT, TOP + SIZE - at, LEFT + SIZE);
        g_string_append_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                               LEFT + at, TOP + SIZE + 18, label, LEFT - 6, TOP + SIZE - at + 4, label);
    }
    double twice = log10(2) / (axis->high - axis->low) * SIZE;
    g_string_append_printf(out, "<path class=\"exact\" d=\"M%d %dL%d %d\"/><path class=\"twice\" d=\"M%d %.1fL%.1f %dM%.1f %dL%d %.1f\"/>\n", LEFT, TOP + SIZE,
                           LEFT + SIZE, TOP, LEFT, TOP + SIZE - twice, LEFT + SIZE - twice, TOP, LEFT + twice, TOP + SIZE, LEFT + SIZE, TOP + twice);
    g_string_append_printf(out,
                           "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text><text transform=\"translate(16 %d) rotate(-90)\" "
                           "text-anchor=\"middle\">predicted</text>\n",
                           LEFT + SIZE / 2, TOP + SIZE + 44, compared_with(validation), TOP + SIZE / 2);
}

static void append_scatter(GString *out, const EchValidation *validation, const Analysis *analysis)
{
    Axis axis = {99, -99};
    for (guint i = 0; i < analysis->points->len; i++) {
        const Figures *f = &g_array_index(analysis->points, Figures, i);
        EchTime ends[2] = {f->median_measured, f->median_predicted};
        for (int e = 0; e < 2; e++) {
            double at = log10((double)MAX(ends[e], 1));
            axis.low = MIN(axis.low, floor(at));
            axis.high = MAX(axis.high, ceil(at));
        }
    }
    if (axis.high <= axis.low) {
        axis.low = MIN(axis.low, 18);
        axis.high = axis.low + 1;
    }
    g_string_append_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
                           LEFT + SIZE + 24, TOP + SIZE + BOTTOM);
    g_string_append(out, "<style>.grid{stroke:#8884;fill:none}.exact{stroke:#888;fill:none}.twice{stroke:#888;stroke-dasharray:4 "
                         "4;fill:none}text{fill:#777}circle{fill-opacity:.55}</style>\n");
    append_axes(out, validation, &axis);
    for (guint i = 0; i < analysis->points->len; i++) {
        const Figures *f = &g_array_index(analysis->points, Figures, i);
        const EchValidatePair *pair = pair_of(analysis, f);
        g_autofree char *measured = ech_format_time(f->median_measured), *predicted = ech_format_time(f->median_predicted);
        g_string_append_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"><title>", LEFT + place(&axis, f->median_measured),
                               TOP + SIZE - place(&axis, f->median_predicted), 2.5 + log10((double)f->n), colour(pair->kind));
        append_escaped(out, pair->name);
        if (pair->group) {
            g_string_append(out, " (");
            append_escaped(out, pair->group);
            g_string_append_c(out, ')');
        }
        g_string_append_printf(out, ": %zu times, %s %s, predicted %s</title></circle>\n", f->n, compared_with(validation), measured, predicted);
    }
    for (guint k = 0; k < MIN(analysis->kinds->len, 12u); k++) {
        const char *kind = pair_of(analysis, &g_array_index(analysis->kinds, Figures, k))->kind;
        g_string_append_printf(out, "<circle cx=\"%d\" cy=\"%u\" r=\"5\" fill=\"%s\"/><text x=\"%d\" y=\"%u\">", LEFT + 16, TOP + 18 + 18 * k, colour(kind),
                               LEFT + 28, TOP + 22 + 18 * k);
        append_escaped(out, kind);
        g_string_append(out, "</text>\n");
    }
    g_string_append(out, "</svg>\n");
}

GString *ech_validation_svg(const EchValidation *validation, const EchDevice *device, const char *title)
{
    Analysis analysis = analyse(validation);
    GString *out = g_string_new("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- ");
    g_autofree char *about = g_strdup_printf("%s against %s", title, device->name);
    g_strdelimit(about, "-", '_'); /* no double hyphen in a comment */
    append_escaped(out, about);
    g_string_append(out, " -->\n");
    append_scatter(out, validation, &analysis);
    analysis_clear(&analysis);
    return out;
}

GString *ech_validation_html(const EchValidation *validation, const EchDevice *device, const char *title)
{
    Analysis analysis = analyse(validation);
    GString *out = g_string_new(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>");
    append_escaped(out, title);
    g_string_append(out, " - validation</title>\n<style>body{margin:0 auto;max-width:960px;padding:28px 24px;font:15px/1.5 "
                         "system-ui,sans-serif;color:#1d2327;background:#fbfbfa}"
                         "pre{background:#fff;border:1px solid "
                         "#dcdfe2;border-radius:8px;padding:14px;overflow-x:auto;font-size:12.5px}figure{margin:0;background:#fff;border:1px solid "
                         "#dcdfe2;border-radius:8px;padding:8px}"
                         "p{color:#646c72}@media(prefers-color-scheme:dark){body{background:#16191c;color:#e6e8ea}pre,figure{background:#1f2428;border-color:#"
                         "343b41}p{color:#9aa4ab}}</style></head><body>\n<h1>");
    append_escaped(out, title);
    g_string_append_printf(out,
                           "</h1>\n<p>A point for each distinct operation: its median %s and predicted time. On the line the prediction is exact, "
                           "between the dashed lines it is within a factor of two. "
                           "Larger points stand for more occurrences; hold the pointer over one for its name.</p>\n<figure>\n",
                           compared_with(validation));
    append_scatter(out, validation, &analysis);
    g_string_append(out, "</figure>\n<pre>");
    g_autoptr(GString) text = ech_validation_text(validation, device, title, 0);
    g_autofree char *escaped = g_markup_escape_text(text->str, -1);
    g_string_append(out, escaped);
    g_string_append(out, "</pre>\n</body></html>\n");
    analysis_clear(&analysis);
    return out;
}

/* ---- CSV ---- */

static void append_cell(GString *out, const char *text)
{
    bool quote = text && strpbrk(text, ",\"\r\n") != NULL;
    if (quote)
        g_string_append_c(out, '"');
    for (const char *at = text ? text : ""; *at; at++) {
        if (*at == '"')
            g_string_append_c(out, '"');
        g_string_append_c(out, *at);
    }
    if (quote)
        g_string_append_c(out, '"');
}

GString *ech_validation_csv(const EchValidation *validation)
{
    GString *out = g_string_new("name,kind,group,predicted_by,device,start_ps,bytes,measured_ps,predicted_ps,error\n");
    for (size_t i = 0; i < validation->n_pairs; i++) {
        const EchValidatePair *pair = &validation->pairs[i];
        const char *texts[] = {pair->name, pair->kind, pair->group, pair->how};
        for (size_t t = 0; t < G_N_ELEMENTS(texts); t++) {
            append_cell(out, texts[t]);
            g_string_append_c(out, ',');
        }
        g_string_append_printf(out, "%u,", pair->device);
        if (pair->start != ECH_TIME_NONE && pair->group)
            g_string_append_printf(out, "%" G_GINT64_FORMAT, pair->start);
        g_string_append_printf(out, ",%" G_GUINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%.6f\n", pair->bytes, pair->measured, pair->predicted,
                               ech_relative_error(pair->predicted, pair->measured));
    }
    return out;
}
