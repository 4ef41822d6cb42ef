/* Runs of several ranks side by side, from their JSON. */
#include "sim/base/units.h"
#include "sim/report/json_out.h"
#include "sim/report/ranks.h"
#include "sim/report/text.h"

static JsonArray *ranks_of(JsonObject *run)
{
    JsonNode *node = json_object_get_member(run, "ranks");
    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

static JsonObject *rank_at(JsonObject *run, guint i)
{
    JsonArray *ranks = ranks_of(run);
    JsonNode *node = ranks && i < json_array_get_length(ranks) ? json_array_get_element(ranks, i) : NULL;
    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

static JsonObject *rank_of_number(JsonObject *run, gint64 number)
{
    JsonObject *rank;
    for (guint i = 0; (rank = rank_at(run, i)); i++)
        if (ech_member_int(rank, "rank") == number)
            return rank;
    return NULL;
}

/* Of a member that is an object: 0 where there is none. */
static gint64 part(JsonObject *rank, const char *object, const char *member)
{
    JsonObject *of = ech_member_object(rank, object);
    return of ? ech_member_int(of, member) : 0;
}

bool ech_report_is_of_ranks(JsonObject *run)
{
    return rank_at(run, 0) != NULL;
}

static void append_change(GString *out, EchTime change)
{
    g_autofree char *time = ech_format_time(ABS(change));
    g_autofree char *text = change == 0 ? g_strdup("=") : g_strdup_printf("%c%s", change > 0 ? '+' : '-', time);
    g_string_append_printf(out, " %14s", text);
}

static void append_changes(GString *out, const EchTableRow *a, const EchTableRow *b)
{
    static const char *const parts[] = {"kernels_ps", "communication_alone_ps", "waits_for_ranks_ps", "idle_ps"};
    g_string_append_printf(out, "\n  What changed from %s to %s\n", a->label, b->label);
    g_string_append_printf(out, "  %5s %24s %14s %14s %14s %14s %24s\n", "rank", "step", "kernels", "communication", "waits", "host, idle", "live");
    JsonObject *before, *after;
    for (guint i = 0; (before = rank_at(a->run, i)); i++) {
        gint64 number = ech_member_int(before, "rank");
        g_string_append_printf(out, "  %5" G_GINT64_FORMAT, number);
        if (!(after = rank_of_number(b->run, number))) {
            g_string_append_printf(out, "  only in %s\n", a->label);
            continue;
        }
        g_autofree char *was = ech_format_time(part(before, "step", "time_ps")), *is = ech_format_time(part(after, "step", "time_ps")),
                        *live = ech_format_bytes((EchBytes)part(before, "memory", "peak_live_bytes")),
                        *now = ech_format_bytes((EchBytes)part(after, "memory", "peak_live_bytes"));
        g_autofree char *step = g_strdup_printf("%s -> %s", was, is), *memory = g_strdup_printf("%s -> %s", live, now);
        g_string_append_printf(out, " %24s", step);
        for (size_t p = 0; p < G_N_ELEMENTS(parts); p++)
            append_change(out, part(after, "step", parts[p]) - part(before, "step", parts[p]));
        g_string_append_printf(out, " %24s\n", memory);
    }
    for (guint i = 0; (after = rank_at(b->run, i)); i++)
        if (!rank_of_number(a->run, ech_member_int(after, "rank")))
            g_string_append_printf(out, "  %5" G_GINT64_FORMAT "  only in %s\n", ech_member_int(after, "rank"), b->label);
}

GString *ech_report_ranks_compared(const EchTableRow *rows, size_t n)
{
    GString *out = g_string_new(NULL);
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = MAX(width, MIN(ech_text_width(rows[i].label), 40));
    g_string_append_printf(out, "  %-*s %6s %10s %10s %9s %8s %10s\n", width, "run", "ranks", "time", "step", "relative", "waiting", "fullest");
    for (size_t i = 0; i < n; i++) {
        JsonObject *run = rows[i].run;
        gint64 first = ech_member_int(rows[0].run, "step_ps"), own = ech_member_int(run, "step_ps");
        g_autofree char *time = ech_format_time(ech_member_int(run, "makespan_ps")), *step = ech_format_time(own),
                        *fullest = ech_format_bytes((EchBytes)ech_member_int(run, "fullest_bytes"));
        g_string_append(out, "  ");
        ech_text_cell(out, rows[i].label, width);
        g_string_append_printf(out, " %6u %10s %10s", json_array_get_length(ranks_of(run)), time, step);
        if (i > 0 && first > 0)
            g_string_append_printf(out, " %9.3f", (double)own / (double)first);
        else
            g_string_append_printf(out, " %9s", "-");
        g_string_append_printf(out, " %6.1f %% %10s%s\n", 100 * ech_member_double(run, "waits_share"), fullest,
                               ech_member_bool(run, "fits") ? "" : "  does not fit");
    }
    for (size_t i = 1; i < n; i++)
        append_changes(out, &rows[0], &rows[i]);
    g_string_append_printf(out, "\n  What changed within one rank, and why: echelon compare %s/000 %s/000\n", rows[0].label, rows[n - 1].label);
    return out;
}

JsonNode *ech_report_ranks_compared_json(const EchTableRow *rows, size_t n)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_begin_array(b, "runs");
    gint64 first = ech_member_int(rows[0].run, "step_ps");
    for (size_t i = 0; i < n; i++) {
        JsonObject *run = rows[i].run, *rank;
        json_builder_begin_object(b);
        ech_json_add_text(b, "label", rows[i].label);
        ech_json_add_text(b, "title", ech_member_text(run, "title"));
        ech_json_add_bool(b, "fits", ech_member_bool(run, "fits"));
        ech_json_add_int(b, "makespan_ps", ech_member_int(run, "makespan_ps"));
        ech_json_add_int(b, "step_ps", ech_member_int(run, "step_ps"));
        ech_json_add_double(b, "relative", first > 0 ? (double)ech_member_int(run, "step_ps") / (double)first : 0);
        ech_json_add_double(b, "waits_share", ech_member_double(run, "waits_share"));
        ech_json_add_int(b, "fullest_bytes", ech_member_int(run, "fullest_bytes"));
        ech_json_begin_array(b, "ranks");
        for (guint k = 0; (rank = rank_at(run, k)); k++) {
            json_builder_begin_object(b);
            ech_json_add_int(b, "rank", ech_member_int(rank, "rank"));
            ech_json_add_bool(b, "fits", ech_member_bool(rank, "fits"));
            for (size_t m = 0; m < 2; m++) {
                const char *member = m ? "memory" : "step";
                JsonNode *node = json_object_get_member(rank, member);
                if (!node)
                    continue;
                json_builder_set_member_name(b, member);
                json_builder_add_value(b, json_node_copy(node));
            }
            json_builder_end_object(b);
        }
        json_builder_end_array(b);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}
