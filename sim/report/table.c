#include "sim/report/table.h"

#include "sim/base/hash.h"
#include "sim/base/units.h"
#include "sim/report/report.h"
#include "sim/report/text.h"

#include <string.h>

static JsonNode *member_of(JsonObject *object, const char *name, GType type)
{
    JsonNode *node = object ? json_object_get_member(object, name) : NULL;
    return node && JSON_NODE_HOLDS_VALUE(node) && (type == G_TYPE_DOUBLE || json_node_get_value_type(node) == type) ? node : NULL;
}

gint64 ech_member_int(JsonObject *object, const char *name)
{
    JsonNode *node = member_of(object, name, G_TYPE_INT64);
    return node ? json_node_get_int(node) : 0;
}

double ech_member_double(JsonObject *object, const char *name)
{
    JsonNode *node = member_of(object, name, G_TYPE_DOUBLE);
    if (!node || json_node_get_value_type(node) == G_TYPE_STRING)
        return 0;
    return json_node_get_double(node);
}

const char *ech_member_text(JsonObject *object, const char *name)
{
    JsonNode *node = member_of(object, name, G_TYPE_STRING);
    return node ? json_node_get_string(node) : NULL;
}

gboolean ech_member_bool(JsonObject *object, const char *name)
{
    JsonNode *node = member_of(object, name, G_TYPE_BOOLEAN);
    return node && json_node_get_boolean(node);
}

JsonObject *ech_member_object(JsonObject *object, const char *name)
{
    JsonNode *node = object ? json_object_get_member(object, name) : NULL;
    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

/* A column: heading, right-aligned unless text, cells[n]. */
typedef struct {
    char *heading;
    bool left;
    bool of; /* The heading's first word is what the rest is about, and may stand above it. */
    char **cells;
    size_t n;
} Column;

static void column_clear(void *data)
{
    Column *column = data;
    g_free(column->heading);
    for (size_t i = 0; i < column->n; i++)
        g_free(column->cells[i]);
    g_free(column->cells);
}

static Column *add_column(GArray *columns, const char *heading, bool left, bool of, size_t n)
{
    Column column = {g_strdup(heading), left, of, g_new0(char *, n), n};
    g_array_append_val(columns, column);
    return &g_array_index(columns, Column, columns->len - 1);
}

static int column_width(const Column *column, const char *heading)
{
    int width = ech_text_width(heading);
    for (size_t i = 0; i < column->n; i++)
        width = MAX(width, column->cells[i] ? ech_text_width(column->cells[i]) : 0);
    return width;
}

static void print_row(GString *out, const GArray *columns, const int *widths, const guint *which, guint n, char **texts)
{
    g_string_append(out, "  ");
    for (guint i = 0; i < n; i++) {
        const char *text = texts[which[i]] ? texts[which[i]] : "";
        int fill = widths[which[i]] - ech_text_width(text);
        if (i)
            g_string_append(out, "  ");
        if (g_array_index(columns, Column, which[i]).left)
            g_string_append_printf(out, "%s%*s", text, fill, "");
        else
            g_string_append_printf(out, "%*s%s", fill, "", text);
    }
    while (out->str[out->len - 1] == ' ')
        g_string_truncate(out, out->len - 1);
    g_string_append_c(out, '\n');
}

/* The columns @which side by side. */
static void print_part(GString *out, const GArray *columns, const int *widths, const guint *which, guint n, size_t n_rows, const GPtrArray *headings)
{
    for (guint h = 0; h < headings->len; h++) {
        char **heading = headings->pdata[h];
        bool blank = true; /* the upper line, where no heading of this part needs two */
        for (guint k = 0; k < n; k++)
            blank = blank && !*heading[which[k]];
        if (!blank)
            print_row(out, columns, widths, which, n, heading);
    }
    g_auto(GStrv) line = g_new0(char *, columns->len + 1);
    for (guint c = 0; c < columns->len; c++)
        line[c] = g_strnfill((gsize)widths[c], '-');
    print_row(out, columns, widths, which, n, line);
    g_autofree char **cells = g_new0(char *, columns->len);
    for (size_t row = 0; row < n_rows; row++) {
        for (guint c = 0; c < columns->len; c++)
            cells[c] = g_array_index(columns, Column, c).cells[row];
        print_row(out, columns, widths, which, n, cells);
    }
}

/* The table; where it is too wide first with headings of two lines, then in parts that repeat the first column. */
static void print_columns(GString *out, const GArray *columns, size_t n, unsigned most)
{
    const guint beside = 4; /* label, fits, time, ratio */
    g_autofree int *widths = g_new(int, columns->len);
    int sum = 0;
    for (guint c = 0; c < columns->len; c++) {
        const Column *column = &g_array_index(columns, Column, c);
        widths[c] = column_width(column, column->heading);
        sum += widths[c] + 2;
    }
    g_autoptr(GPtrArray) headings = g_ptr_array_new_with_free_func((GDestroyNotify)(void (*)(void))g_strfreev);
    bool two = sum > (int)most;
    for (int h = 0; h < (two ? 2 : 1); h++) {
        char **row = g_new0(char *, columns->len + 1);
        for (guint c = 0; c < columns->len; c++) {
            const Column *column = &g_array_index(columns, Column, c);
            const char *blank = column->of ? strchr(column->heading, ' ') : NULL;
            row[c] = !two              ? g_strdup(column->heading)
                     : blank && h == 0 ? g_strndup(column->heading, (gsize)(blank - column->heading))
                                       : g_strdup(h == 0  ? ""
                                                  : blank ? blank + 1
                                                          : column->heading);
        }
        g_ptr_array_add(headings, row);
    }
    for (guint c = 0; two && c < columns->len; c++) {
        char **upper = headings->pdata[0], **lower = headings->pdata[1];
        widths[c] = MAX(column_width(&g_array_index(columns, Column, c), upper[c]), column_width(&g_array_index(columns, Column, c), lower[c]));
    }
    sum = 0;
    for (guint c = 0; c < columns->len; c++)
        sum += widths[c] + 2;
    /* In parts, what bounds a run (the last column) stands beside its time. */
    g_autofree guint *order = g_new0(guint, columns->len), *which = g_new0(guint, columns->len);
    for (guint c = 0; c < columns->len; c++)
        order[c] = sum <= (int)most || c < beside ? c : c == beside ? columns->len - 1 : c - 1;
    for (guint at = 1; at < columns->len;) {
        guint used = 1;
        int width = 2 + widths[0];
        if (at > 1)
            g_string_append_c(out, '\n');
        while (at < columns->len && (used == 1 || width + 2 + widths[order[at]] <= (int)most)) {
            width += 2 + widths[order[at]];
            which[used++] = order[at++];
        }
        print_part(out, columns, widths, which, used, n, headings);
    }
}

/* Names of the members of @group over all rows, in order of first use. */
static GPtrArray *names_in(const EchTableRow *rows, size_t n, const char *group)
{
    GPtrArray *names = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(ech_hash_text, g_str_equal);
    for (size_t i = 0; i < n; i++) {
        JsonObject *object = ech_member_object(rows[i].run, group);
        g_autoptr(GList) members = object ? json_object_get_members(object) : NULL;
        for (GList *at = members; at; at = at->next) {
            if (g_hash_table_add(seen, at->data))
                g_ptr_array_add(names, at->data);
        }
    }
    return names;
}

static void add_bytes_column(GArray *columns, const EchTableRow *rows, size_t n, const char *heading, const char *group, const char *name, const char *member)
{
    g_autofree gint64 *bytes = g_new(gint64, n + 1);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = ech_member_int(ech_member_object(ech_member_object(rows[i].run, group), name), member);
        any |= bytes[i] > 4096; /* Less is flags and loop counters. */
    }
    if (!any)
        return;
    Column *column = add_column(columns, heading, false, true, n);
    for (size_t i = 0; i < n; i++)
        column->cells[i] = !rows[i].run ? NULL : bytes[i] > 0 ? ech_format_bytes((EchBytes)bytes[i]) : g_strdup("-");
}

/* Whether some run's plan says what it needs of a memory. */
static bool planned_in(const EchTableRow *rows, size_t n, const char *memory)
{
    bool planned = false;
    for (size_t i = 0; i < n; i++)
        planned |= ech_member_bool(ech_member_object(ech_member_object(rows[i].run, "needs"), memory), "planned");
    return planned;
}

/* Whether allocators take differently much of a memory: what they are chosen by. */
static bool reserved_differs(const EchTableRow *rows, size_t n, const char *memory)
{
    gint64 first = -1;
    bool differs = false, more = false;
    for (size_t i = 0; i < n; i++) {
        JsonObject *object = ech_member_object(ech_member_object(rows[i].run, "memories"), memory);
        gint64 reserved = ech_member_int(object, "peak_reserved_bytes");
        if (!object)
            continue;
        more = more || reserved > ech_member_int(object, "peak_live_bytes");
        differs = differs || (first >= 0 && reserved != first);
        first = first < 0 ? reserved : first;
    }
    return differs && more;
}

/* Whether runs are of several devices together: what is told but for the time is of the fullest. */
static bool of_several(const EchTableRow *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].run && json_object_has_member(rows[i].run, "fullest_device"))
            return true;
    return false;
}

/* Whether a link joins devices to one another. */
static bool peers_in(const EchTableRow *rows, size_t n, const char *link)
{
    for (size_t i = 0; i < n; i++) {
        if (ech_member_bool(ech_member_object(ech_member_object(rows[i].run, "links"), link), "peers"))
            return true;
    }
    return false;
}

/* Where labels would leave little of a line to figures, that needs several parts for them: they are told first, and rows are numbered. */
static void number_rows(GString *out, GArray *columns, size_t n, unsigned most)
{
    Column *labels = &g_array_index(columns, Column, 0);
    int sum = 0;
    for (guint c = 0; c < columns->len; c++)
        sum += column_width(&g_array_index(columns, Column, c), g_array_index(columns, Column, c).heading) + 2;
    if (sum <= (int)most || 5 * column_width(labels, labels->heading) <= 2 * (int)most)
        return;
    ech_text_wrap(out, "  ", labels->heading, most);
    labels->heading[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        g_autofree char *first = g_strdup_printf("  %3zu  ", i + 1);
        ech_text_wrap(out, first, labels->cells[i], most);
        g_free(labels->cells[i]);
        labels->cells[i] = g_strdup_printf("%3zu", i + 1);
    }
    g_string_append_c(out, '\n');
}

GString *ech_report_table(const char *heading, const EchTableRow *rows, size_t n, unsigned most)
{
    g_autoptr(GArray) columns = g_array_new(FALSE, FALSE, sizeof(Column));
    g_array_set_clear_func(columns, column_clear);
    Column *labels = add_column(columns, heading, true, false, n);
    bool one_base = true;
    for (size_t i = 0; i < n; i++) {
        labels->cells[i] = g_strdup(rows[i].label);
        one_base = one_base && rows[i].base == 0;
    }
    Column *fits = add_column(columns, "fits", true, false, n);
    for (size_t i = 0; i < n; i++)
        fits->cells[i] = g_strdup(!rows[i].run ? "?" : !ech_member_bool(rows[i].run, "fits") ? "NO" : ech_member_bool(rows[i].run, "may_fit") ? "may" : "yes");
    Column *times = add_column(columns, "time", false, false, n);
    for (size_t i = 0; i < n; i++)
        times->cells[i] = !rows[i].run                                ? NULL
                          : ech_member_bool(rows[i].run, "completed") ? ech_format_time(ech_member_int(rows[i].run, "makespan_ps"))
                                                                      : g_strdup("stopped");
    Column *ratios = add_column(columns, one_base ? "x first" : "x its base", false, false, n);
    for (size_t i = 0; i < n; i++) {
        gint64 first = rows[i].base < n && ech_member_bool(rows[rows[i].base].run, "completed") ? ech_member_int(rows[rows[i].base].run, "makespan_ps") : 0;
        if (rows[i].run && first > 0 && ech_member_bool(rows[i].run, "completed"))
            ratios->cells[i] = g_strdup_printf("%.3f", (double)ech_member_int(rows[i].run, "makespan_ps") / (double)first);
    }
    g_autoptr(GPtrArray) needs = names_in(rows, n, "needs");
    for (int planned = 1; planned >= 0; planned--)
        for (guint i = 0; i < needs->len; i++) {
            const char *memory = needs->pdata[i];
            if (planned_in(rows, n, memory) != (planned == 1))
                continue;
            g_autofree char *title = g_strdup_printf(planned ? "%s needed" : "%s peak", memory), *reserved = g_strdup_printf("%s reserved", memory);
            add_bytes_column(columns, rows, n, title, "needs", memory, "bytes");
            if (!planned && reserved_differs(rows, n, memory))
                add_bytes_column(columns, rows, n, reserved, "memories", memory, "peak_reserved_bytes");
        }
    if (of_several(rows, n)) {
        Column *fullest = add_column(columns, "of device", false, false, n);
        for (size_t i = 0; i < n; i++)
            if (rows[i].run && json_object_has_member(rows[i].run, "fullest_device"))
                fullest->cells[i] = g_strdup_printf("%" G_GINT64_FORMAT, ech_member_int(rows[i].run, "fullest_device"));
    }
    g_autoptr(GPtrArray) links = names_in(rows, n, "links");
    for (guint i = 0; i < links->len; i++) {
        const char *name = links->pdata[i];
        bool peers = peers_in(rows, n, name);
        g_autofree char *to = g_strdup_printf(peers ? "%s out" : "%s to dev", name);
        g_autofree char *from = g_strdup_printf(peers ? "%s in" : "%s from dev", name);
        add_bytes_column(columns, rows, n, to, "links", name, "bytes_forward");
        add_bytes_column(columns, rows, n, from, "links", name, "bytes_backward");
    }
    Column *bound = add_column(columns, "bound by", true, false, n);
    for (size_t i = 0; i < n; i++)
        bound->cells[i] = g_strdup(!rows[i].run                                ? rows[i].error
                                   : ech_member_bool(rows[i].run, "completed") ? ech_member_text(rows[i].run, "bound_by")
                                                                               : "space");
    GString *out = g_string_new(NULL);
    number_rows(out, columns, n, most ? most : ECH_TEXT_COLUMNS);
    print_columns(out, columns, n, most ? most : ECH_TEXT_COLUMNS);
    return out;
}

enum { WHAT_WIDTH = 40 }; /* "latency inside kernels (critical path)" */

static void difference_bytes(GString *out, const char *what, gint64 a, gint64 b)
{
    if (a == b)
        return;
    g_autofree char *from = ech_format_bytes((EchBytes)MAX(a, 0));
    g_autofree char *to = ech_format_bytes((EchBytes)MAX(b, 0));
    g_autofree char *by = ech_format_bytes((EchBytes)llabs(b - a));
    g_string_append_printf(out, "    %-*s %9s -> %-9s (%s%s)\n", WHAT_WIDTH, what, from, to, b > a ? "+" : "-", by);
}

static void difference_time(GString *out, const char *what, gint64 a, gint64 b)
{
    if (a == b)
        return;
    g_autofree char *from = ech_format_time(a);
    g_autofree char *to = ech_format_time(b);
    g_autofree char *by = ech_format_time(llabs(b - a));
    g_string_append_printf(out, "    %-*s %9s -> %-9s (%s%s)\n", WHAT_WIDTH, what, from, to, b > a ? "+" : "-", by);
}

static void difference_group(GString *out, JsonObject *a, JsonObject *b, const char *group, const char *member, const char *format)
{
    const EchTableRow rows[2] = {{.run = a}, {.run = b}};
    g_autoptr(GPtrArray) names = names_in(rows, 2, group);
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        JsonObject *of_a = ech_member_object(a, group), *of_b = ech_member_object(b, group);
        g_autofree char *what = g_strdup_printf("%s%s", name, format);
        if (!member)
            difference_time(out, what, ech_member_int(of_a, name), ech_member_int(of_b, name));
        else
            difference_bytes(out, what, ech_member_int(ech_member_object(of_a, name), member), ech_member_int(ech_member_object(of_b, name), member));
    }
}

static void difference_links(GString *out, JsonObject *a, JsonObject *b)
{
    const EchTableRow rows[2] = {{.run = a}, {.run = b}};
    static const char *const members[] = {"bytes_forward", "bytes_backward"};
    g_autoptr(GPtrArray) names = names_in(rows, 2, "links");
    for (unsigned way = 0; way < 2; way++) {
        for (guint i = 0; i < names->len; i++) {
            const char *name = names->pdata[i];
            g_autofree char *what = g_strdup_printf("%s link %s", name, ech_report_link_way(peers_in(rows, 2, name), way));
            difference_bytes(out, what, ech_member_int(ech_member_object(ech_member_object(a, "links"), name), members[way]),
                             ech_member_int(ech_member_object(ech_member_object(b, "links"), name), members[way]));
        }
    }
}

static void difference_section(GString *out, const char *title, const GString *lines)
{
    if (lines->len)
        g_string_append_printf(out, "  %s\n%s", title, lines->str);
}

GString *ech_report_difference(const char *label_a, JsonObject *a, const char *label_b, JsonObject *b)
{
    g_autoptr(GString) bytes = g_string_new(NULL);
    g_autoptr(GString) times = g_string_new(NULL);
    JsonObject *analysis_a = ech_member_object(a, "memory_analysis"), *analysis_b = ech_member_object(b, "memory_analysis");
    static const char *const figures[][2] = {
        {"argument", "arguments"},           {"output", "results"},           {"alias", "of both (donated)"},    {"temp", "temporaries"},
        {"host_argument", "host arguments"}, {"host_output", "host results"}, {"host_alias", "of both on host"}, {"host_temp", "host temporaries"}};
    for (size_t i = 0; analysis_a && analysis_b && i < G_N_ELEMENTS(figures); i++)
        difference_bytes(bytes, figures[i][1], ech_member_int(analysis_a, figures[i][0]), ech_member_int(analysis_b, figures[i][0]));
    difference_group(bytes, a, b, "memories", "peak_live_bytes", ", most live");
    difference_group(bytes, a, b, "memories", "peak_reserved_bytes", ", most reserved");
    difference_group(bytes, a, b, "memories", "traffic_read_bytes", ", read");
    difference_group(bytes, a, b, "memories", "traffic_written_bytes", ", written");
    difference_links(bytes, a, b);
    difference_time(times, "takes", ech_member_int(a, "makespan_ps"), ech_member_int(b, "makespan_ps"));
    difference_time(times, "no schedule is shorter than", ech_member_int(a, "lower_bound_ps"), ech_member_int(b, "lower_bound_ps"));
    difference_group(times, a, b, "critical_path", NULL, " (critical path)");
    JsonObject *waits_a = ech_member_object(a, "waits"), *waits_b = ech_member_object(b, "waits");
    static const char launches[] = "the host's launches";
    JsonObject *paths[] = {ech_member_object(a, "critical_path"), ech_member_object(b, "critical_path")};
    bool asked = (paths[0] && json_object_has_member(paths[0], launches)) || (paths[1] && json_object_has_member(paths[1], launches));
    for (int i = 0; i < ECH_N_WAITS; i++) {
        const char *name = ech_wait_name((EchWait)i);
        g_autofree char *what = g_strconcat("waits for ", ech_report_wait_words((EchWait)i, asked), NULL);
        difference_time(times, what, ech_member_int(waits_a, name), ech_member_int(waits_b, name));
    }
    GString *out = g_string_new(NULL);
    if (bytes->len || times->len)
        g_string_append_printf(out, "\n%s -> %s\n", label_a, label_b);
    difference_section(out, "time", times);
    difference_section(out, "bytes", bytes);
    return out;
}
