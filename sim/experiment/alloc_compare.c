#include "sim/experiment/alloc_compare.h"

#include "sim/base/hash.h"
#include "sim/experiment/alloc_study_private.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

/* What one line holds in each capture. */
typedef struct {
    char *line;
    EchBytes *bytes;  /* [n] */
    uint64_t *blocks; /* [n] */
    EchBytes most;    /* The largest change from the first capture, either way. */
} Line;

/* One moment of all captures. */
typedef struct {
    GArray *lines;  /* Line, those that change most first. */
    EchBytes *live; /* [n] */
} Moment;

static void line_clear(void *data)
{
    Line *line = data;
    g_free(line->line);
    g_free(line->bytes);
    g_free(line->blocks);
}

static int compare_lines(const void *a, const void *b)
{
    const Line *x = a, *y = b;
    return x->most != y->most ? (x->most < y->most ? 1 : -1) : strcmp(x->line, y->line);
}

static void moment_clear(Moment *moment)
{
    g_array_unref(moment->lines);
    g_free(moment->live);
}

static EchBytes apart(EchBytes a, EchBytes b)
{
    return a > b ? a - b : b - a;
}

static Moment moment_of(EchAllocStudy *const *studies, size_t n, bool at_end)
{
    Moment moment = {g_array_new(FALSE, FALSE, sizeof(Line)), g_new0(EchBytes, n)};
    g_array_set_clear_func(moment.lines, line_clear);
    g_autoptr(GHashTable) known = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* line to index + 1 */
    for (size_t i = 0; i < n; i++) {
        g_autoptr(GArray) held = ech_alloc_study_holders(studies[i], at_end, &moment.live[i]);
        for (guint k = 0; k < held->len; k++) {
            const EchTallyRow *holder = &g_array_index(held, EchTallyRow, k);
            guint index = GPOINTER_TO_UINT(g_hash_table_lookup(known, holder->name));
            if (index == 0) {
                Line line = {g_strdup(holder->name), g_new0(EchBytes, n), g_new0(uint64_t, n), 0};
                g_array_append_val(moment.lines, line);
                index = moment.lines->len;
                g_hash_table_insert(known, g_strdup(holder->name), GUINT_TO_POINTER(index));
            }
            Line *line = &g_array_index(moment.lines, Line, index - 1);
            line->bytes[i] = holder->bytes;
            line->blocks[i] = holder->blocks;
        }
    }
    for (guint k = 0; k < moment.lines->len; k++) {
        Line *line = &g_array_index(moment.lines, Line, k);
        for (size_t i = 1; i < n; i++)
            line->most = MAX(line->most, apart(line->bytes[i], line->bytes[0]));
    }
    if (moment.lines->len)
        g_array_sort(moment.lines, compare_lines);
    return moment;
}

static char *change_text(EchBytes from, EchBytes to)
{
    g_autofree char *by = ech_format_bytes(apart(from, to));
    return from == to ? g_strdup("the same") : g_strdup_printf("%c%s", to > from ? '+' : '-', by);
}

/* Where ech_alloc_study_holders looks unless at the end. */
static EchMomentKind moment_kind(const EchAllocStudy *study)
{
    return ech_alloc_study_n_refusals(study) ? ECH_MOMENT_FAILURE : ECH_MOMENT_PEAK;
}

/* The same from the first capture to another, in words. */
static char *most_words(const EchAllocStudy *from, const EchAllocStudy *to)
{
    static const char *const words[] = {[ECH_MOMENT_PEAK] = "when most is", [ECH_MOMENT_FAILURE] = "at the refusal"};
    EchMomentKind a = moment_kind(from), b = moment_kind(to);
    return a == b ? g_strdup(words[a]) : g_strdup_printf("%s -> %s", words[a], words[b]);
}

/* From the first capture to capture @i. */
static void moment_text(GString *out, const Moment *moment, size_t i, const char *when, unsigned columns)
{
    enum { MOST = 10 };
    g_autofree char *from = ech_format_bytes(moment->live[0]), *to = ech_format_bytes(moment->live[i]), *by = change_text(moment->live[0], moment->live[i]);
    g_string_append_printf(out, "  in use %s: %s -> %s (%s)\n", when, from, to, by);
    guint told = 0, same = 0, rest = 0;
    for (guint k = 0; k < moment->lines->len; k++) {
        const Line *line = &g_array_index(moment->lines, Line, k);
        if (line->bytes[i] == line->bytes[0]) {
            same += line->bytes[0] > 0; /* Else it is another capture's. */
            continue;
        }
        if (told == MOST) {
            rest++;
            continue;
        }
        told++;
        g_autofree char *change = change_text(line->bytes[0], line->bytes[i]), *name = ech_text_short(line->line, columns ? MAX((int)columns - 37, 24) : 0);
        g_autofree char *blocks = g_strdup_printf("%" G_GUINT64_FORMAT " -> %" G_GUINT64_FORMAT, line->blocks[0], line->blocks[i]);
        g_string_append_printf(out, "  %12s  %12s blocks  %s\n", change, blocks, name);
    }
    if (rest)
        g_string_append_printf(out, "    %u more lines change by less (--json)\n", rest);
    if (same)
        g_string_append_printf(out, "    %u line%s as much as before\n", same, same == 1 ? " holds" : "s hold");
}

GString *ech_alloc_compare_text(EchAllocStudy *const *studies, char *const *paths, size_t n, unsigned columns)
{
    Moment end = moment_of(studies, n, true), most = moment_of(studies, n, false);
    GString *out = g_string_new(NULL);
    for (size_t i = 1; i < n; i++) {
        g_string_append_printf(out, "%s%s -> %s\n", i > 1 ? "\n" : "", paths[0], paths[i]);
        moment_text(out, &end, i, "at the end", columns);
        g_autofree char *when = most_words(studies[0], studies[i]);
        moment_text(out, &most, i, when, columns);
    }
    moment_clear(&end);
    moment_clear(&most);
    return out;
}

static void moment_json(JsonBuilder *b, const char *name, const Moment *moment, size_t n)
{
    ech_json_begin_object(b, name);
    ech_json_begin_array(b, "live_bytes");
    for (size_t i = 0; i < n; i++)
        json_builder_add_int_value(b, (gint64)moment->live[i]);
    json_builder_end_array(b);
    ech_json_begin_array(b, "lines");
    for (guint k = 0; k < moment->lines->len; k++) {
        const Line *line = &g_array_index(moment->lines, Line, k);
        json_builder_begin_object(b);
        ech_json_add_text(b, "line", line->line);
        ech_json_begin_array(b, "bytes");
        for (size_t i = 0; i < n; i++)
            json_builder_add_int_value(b, (gint64)line->bytes[i]);
        json_builder_end_array(b);
        ech_json_begin_array(b, "blocks");
        for (size_t i = 0; i < n; i++)
            json_builder_add_int_value(b, (gint64)line->blocks[i]);
        json_builder_end_array(b);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
}

char *ech_alloc_compare_json(EchAllocStudy *const *studies, char *const *paths, size_t n)
{
    Moment end = moment_of(studies, n, true), most = moment_of(studies, n, false);
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_begin_array(b, "captures");
    for (size_t i = 0; i < n; i++) {
        json_builder_begin_object(b);
        ech_json_add_text(b, "path", paths[i]);
        ech_json_add_text(b, "format", studies[i]->format);
        ech_json_add_text(b, "most", ech_alloc_moment_name(moment_kind(studies[i])));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    moment_json(b, "end", &end, n);
    moment_json(b, "most", &most, n);
    json_builder_end_object(b);
    moment_clear(&end);
    moment_clear(&most);
    return ech_json_finish(b);
}
