/* What `echelon run -o DIR` leaves of one run. */
#include "sim/cli/run_folder.h"

#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/report/table.h"

#include <string.h>

/* JSON-GLib reads a value within a value by calling itself. */
enum { DEEPEST = 64 };

static bool is_too_deep(const char *text)
{
    unsigned depth = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++)
                at += *at == '\\' && at[1];
            if (!*at)
                return false;
        } else if ((*at == '[' || *at == '{') && ++depth > DEEPEST) {
            return true;
        } else if ((*at == ']' || *at == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

/* @text, NULL of an empty file, of the file @path. */
static JsonParser *parse(const char *path, const char *text, bool is_run, GError **error)
{
    if (!text || !*text) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: the file is empty", path);
        return NULL;
    }
    if (is_too_deep(text)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: values nest more than %d deep", path, DEEPEST);
        return NULL;
    }
    g_autoptr(JsonParser) parser = json_parser_new();
    g_autoptr(GError) own = NULL;
    if (!json_parser_load_from_data(parser, text, -1, &own)) {
        static const char place[] = "<data>:"; /* its name for what has none */
        const char *message = g_str_has_prefix(own->message, place) ? own->message + strlen(place) : own->message;
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%s%s", path, message == own->message ? " " : "", message);
        return NULL;
    }
    JsonNode *root = json_parser_get_root(parser);
    bool object = root && JSON_NODE_HOLDS_OBJECT(root);
    JsonNode *makespan = object ? json_object_get_member(json_node_get_object(root), "makespan_ps") : NULL;
    if (!object || (is_run && !(makespan && JSON_NODE_HOLDS_VALUE(makespan) && json_node_get_value_type(makespan) == G_TYPE_INT64))) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    is_run ? "%s: is no run of echelon; expected an object with 'makespan_ps'" : "%s: expected a JSON object", path);
        return NULL;
    }
    return g_steal_pointer(&parser);
}

JsonParser *ech_cli_read_json(const char *path, bool is_run, char **ret_text, GError **error)
{
    g_autoptr(GMappedFile) file = ech_map_file(path, error);
    if (!file)
        return NULL;
    g_autofree char *text = g_strndup(g_mapped_file_get_contents(file), g_mapped_file_get_length(file));
    JsonParser *parser = parse(path, text, is_run, error);
    if (parser && ret_text)
        *ret_text = g_steal_pointer(&text);
    return parser;
}

static const char *behind_space(const char *at, const char *end)
{
    while (at < end && g_ascii_isspace(*at))
        at++;
    return at;
}

/* Behind the value at @at, as far as brackets and quotes tell: @end where it does not end. */
static const char *behind_value(const char *at, const char *end)
{
    for (unsigned depth = 0; at < end; at++) {
        bool closes = *at == ']' || *at == '}';
        if (depth == 0 && (closes || *at == ','))
            return at; /* of a number or a word */
        if (*at == '"') {
            for (at++; at < end && *at != '"'; at++)
                at += *at == '\\' && at + 1 < end;
            if (depth == 0 || at == end)
                return at < end ? at + 1 : end;
        } else if (closes && --depth == 0) {
            return at + 1;
        } else if (*at == '[' || *at == '{') {
            depth++;
        }
    }
    return end;
}

/* The value of the member "points" of a document that is an object, from its beginning or from behind a value; NULL: none is found. */
static const char *find_points(const char *at, const char *end)
{
    static const char points[] = "\"points\"";
    at = behind_space(at, end);
    bool more = at < end && (*at == '{' || *at == ',');
    while (more) {
        const char *key = behind_space(at + 1, end), *behind = behind_value(key, end), *colon = behind_space(behind, end);
        const char *value = colon < end ? behind_space(colon + 1, end) : end;
        if (value == end || *key != '"' || *colon != ':')
            return NULL;
        if ((size_t)(behind - key) == strlen(points) && strncmp(key, points, strlen(points)) == 0)
            return value;
        at = behind_space(behind_value(value, end), end);
        more = at < end && *at == ',';
    }
    return NULL;
}

/* Of a sweep's point, @n bytes of text, what its page draws; NULL where it is none. */
static JsonObject *read_point(const char *text, size_t n)
{
    g_autofree char *own = g_strndup(text, n);
    g_autoptr(JsonNode) node = is_too_deep(own) ? NULL : json_from_string(own, NULL);
    JsonObject *point = node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_dup_object(node) : NULL, *run = ech_member_object(point, "run");
    if (run)
        json_object_set_object_member(point, "run", ech_report_table_run(run));
    return point;
}

JsonParser *ech_cli_read_sweep(const char *path, GError **error)
{
    g_autoptr(GMappedFile) file = ech_map_file(path, error);
    if (!file)
        return NULL;
    const char *text = g_mapped_file_get_contents(file), *end = text ? text + g_mapped_file_get_length(file) : NULL; /* NULL: it is empty */
    const char *list = text ? find_points(text, end) : NULL;
    const char *at = list && *list == '[' ? behind_space(list + 1, end) : end;
    g_autoptr(JsonArray) points = json_array_new();
    for (bool more = at < end && *at != ']'; more;) {
        const char *last = behind_value(at, end);
        JsonObject *point = read_point(at, (size_t)(last - at));
        at = point ? behind_space(last, end) : end;
        more = at < end && *at == ',';
        at = more ? behind_space(at + 1, end) : at < end && *at == ']' ? at : end;
        if (point)
            json_array_add_object_element(points, point);
    }
    if (at == end || find_points(at + 1, end)) /* What is wrong is said of the whole, of two lists the last one counts. */
        return ech_cli_read_json(path, false, NULL, error);
    g_autoptr(GString) rest = g_string_new_len(text, list + 1 - text);
    g_string_append_len(rest, at, end - at);
    g_autoptr(JsonParser) parser = parse(path, rest->str, false, error);
    JsonObject *sweep = parser ? json_node_get_object(json_parser_get_root(parser)) : NULL;
    if (sweep)
        json_object_set_array_member(sweep, "points", g_steal_pointer(&points));
    return g_steal_pointer(&parser);
}

static bool write_text(EchOutput *output, const char *folder, const char *name, const char *text, size_t n, GError **error)
{
    g_autofree char *path = g_strconcat(folder, name, NULL);
    return ech_output_write(output, path, text, n, error);
}

static bool write_gzip(EchOutput *output, const char *folder, const char *name, const void *data, size_t n, GError **error)
{
    g_autoptr(GBytes) packed = ech_report_gzip(data, n);
    gsize size;
    const void *bytes = g_bytes_get_data(packed, &size);
    return write_text(output, folder, name, bytes, size, error);
}

bool ech_cli_write_run(EchOutput *output, const char *folder, const EchReport *report, const char *json, const char *summary, GError **error)
{
    g_autoptr(GByteArray) time = ech_report_pprof(report, ECH_PPROF_TIME);
    g_autoptr(GByteArray) memory = ech_report_pprof(report, ECH_PPROF_MEMORY);
    g_autoptr(GString) details = ech_report_details(report, ECH_HTML_SPANS);
    g_autoptr(GString) html = ech_report_html(json, details->str);
    g_autofree char *plain = ech_plain(summary);
    return write_text(output, folder, "run.json", json, strlen(json), error) && write_text(output, folder, "summary.txt", plain, strlen(plain), error) &&
           write_text(output, folder, "report.html", html->str, html->len, error) &&
           write_text(output, folder, "details.json", details->str, details->len, error) &&
           write_gzip(output, folder, "time.pprof.gz", time->data, time->len, error) &&
           write_gzip(output, folder, "memory.pprof.gz", memory->data, memory->len, error);
}

bool ech_cli_write_timelines(EchOutput *output, const EchReport *report, GError **error)
{
    g_autoptr(GString) chrome = ech_report_chrome(report);
    g_autoptr(GByteArray) perfetto = ech_report_perfetto(report);
    return write_gzip(output, "", "timeline.json.gz", chrome->str, chrome->len, error) &&
           write_text(output, "", "timeline.pftrace", (const char *)perfetto->data, perfetto->len, error);
}
