/* What `echelon run -o DIR` leaves of one run. */
#include "sim/cli/run_folder.h"

#include "sim/base/error.h"

#include <string.h>

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
