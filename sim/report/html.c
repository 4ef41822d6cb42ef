/* The HTML page: template, style, script and d3 are embedded when the program is built (viz/, CMake); data goes in as JSON. */
#include "sim/report/report.h"

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
