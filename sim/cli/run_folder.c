/* What `echelon run -o DIR` leaves of one run. */
#include "sim/cli/run_folder.h"

#include "sim/base/error.h"
#include "sim/base/file.h"

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

JsonParser *ech_cli_read_json(const char *path, bool is_run, char **ret_text, GError **error)
{
    g_autoptr(GMappedFile) file = ech_map_file(path, error);
    if (!file)
        return NULL;
    gsize n = g_mapped_file_get_length(file);
    if (n == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: the file is empty", path);
        return NULL;
    }
    g_autofree char *text = g_strndup(g_mapped_file_get_contents(file), n);
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
    if (ret_text)
        *ret_text = g_steal_pointer(&text);
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
