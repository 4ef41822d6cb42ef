/* The HTML page: template, style, script and d3 are embedded when the program is built (viz/, CMake); data goes in as JSON. */
#include "sim/report/report.h"
#include "sim/report/table.h"

#include "viz_page.h"

#include <string.h>

/* JSON inside a script element: "</script" and "<!--" must not end or open anything, so '<' is written as an escape. */
static void append_json(GString *out, const char *json)
{
    for (const char *at = json; *at; at++) {
        if (*at == '<')
            g_string_append(out, "\\u003c");
        else
            g_string_append_c(out, *at);
    }
}

GString *ech_report_html(const char *run_json, const char *details_json)
{
    static const char marks[][16] = {"/*STYLE*/", "/*D3*/", "/*RUN*/", "/*DETAILS*/", "/*SCRIPT*/"};
    GString *out = g_string_new(NULL);
    const char *at = (const char *)ech_viz_page_html;
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        const char *mark = strstr(at, marks[i]);
        g_assert(mark);
        g_string_append_len(out, at, mark - at);
        switch (i) {
        case 0: g_string_append(out, (const char *)ech_viz_page_css); break;
        case 1: g_string_append(out, (const char *)ech_viz_d3); break;
        case 2: append_json(out, run_json); break;
        case 3: append_json(out, details_json); break;
        default: g_string_append(out, (const char *)ech_viz_page_js); break;
        }
        at = mark + strlen(marks[i]);
    }
    g_string_append(out, at);
    return out;
}

/* Of @from the members that are called so, all where @names is NULL. */
static JsonObject *chosen(JsonObject *from, const char *const *names)
{
    JsonObject *out = json_object_new();
    g_autoptr(GList) members = json_object_get_members(from);
    for (GList *at = members; at; at = at->next) {
        if (!names || g_strv_contains(names, at->data))
            json_object_set_member(out, at->data, json_node_copy(json_object_get_member(from, at->data)));
    }
    return out;
}

/* A small part of a run: members of its own, and of what its needs, memories and links say of each. */
typedef struct {
    const char *plain[8], *needs[4], *memories[4], *links[4];
} Part;

static JsonObject *part_of_run(JsonObject *run, const Part *part)
{
    const struct {
        const char *group;
        const char *const *names;
    } groups[] = {{"needs", part->needs}, {"memories", part->memories}, {"links", part->links}};
    JsonObject *out = chosen(run, part->plain);
    for (size_t i = 0; i < G_N_ELEMENTS(groups); i++) {
        JsonObject *group = ech_member_object(run, groups[i].group), *part_of_group = json_object_new();
        g_autoptr(GList) names = group ? json_object_get_members(group) : NULL;
        for (GList *at = names; at; at = at->next) {
            JsonObject *one = ech_member_object(group, at->data);
            if (one)
                json_object_set_object_member(part_of_group, at->data, chosen(one, groups[i].names));
        }
        json_object_set_object_member(out, groups[i].group, part_of_group);
    }
    return out;
}

JsonObject *ech_report_table_run(JsonObject *run)
{
    static const Part part = {.plain = {"fits", "may_fit", "completed", "makespan_ps", "bound_by", "critical_path", "fullest_device"},
                              .needs = {"bytes", "planned"},
                              .memories = {"available_bytes", "peak_live_bytes", "peak_reserved_bytes"},
                              .links = {"bytes_forward", "bytes_backward", "peers"}};
    return part_of_run(run, &part);
}

/* What the page of a sweep draws of a run: the rest is in sweep.json and in the run's own folder, and the page of a thousand runs opens at once. */
static JsonObject *drawn_of_run(JsonObject *run)
{
    static const Part part = {.plain = {"completed", "may_fit", "bound_by", "critical_path", "fullest_device"},
                              .needs = {"bytes"},
                              .memories = {"available_bytes"},
                              .links = {"bytes_forward", "bytes_backward", "peers"}};
    return part_of_run(run, &part);
}

GString *ech_report_sweep_html(JsonObject *sweep)
{
    static const char *const of_point[] = {"values", "fits", "makespan_ps", "error", "interrupted", NULL};
    g_autoptr(JsonObject) drawn = chosen(sweep, NULL);
    JsonArray *points = json_object_get_array_member(sweep, "points"), *drawn_points = json_array_new();
    for (guint i = 0; i < json_array_get_length(points); i++) {
        JsonNode *node = json_array_get_element(points, i);
        JsonObject *point = JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL, *run = ech_member_object(point, "run");
        JsonObject *drawn_point = point ? chosen(point, of_point) : json_object_new();
        if (run)
            json_object_set_object_member(drawn_point, "run", drawn_of_run(run));
        json_array_add_object_element(drawn_points, drawn_point);
    }
    json_object_set_array_member(drawn, "points", drawn_points);
    g_autoptr(JsonNode) root = json_node_init_object(json_node_alloc(), drawn);
    g_autofree char *text = json_to_string(root, FALSE), *valid = g_utf8_make_valid(text, -1);
    return ech_report_html(valid, "{}");
}
