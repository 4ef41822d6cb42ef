/* What a sweep left, read one point after the other: refused where the whole is, and else the same page. */
#include "sim/cli/run_folder.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* NULL where there is no list of points. Owned by the caller. */
static char *page_of(JsonParser *parser)
{
    JsonObject *sweep = parser ? json_node_get_object(json_parser_get_root(parser)) : NULL;
    JsonNode *points = sweep ? json_object_get_member(sweep, "points") : NULL;
    return points && JSON_NODE_HOLDS_ARRAY(points) ? g_string_free(ech_report_sweep_html(sweep), FALSE) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    int file = memfd_create("sweep", 0);
    g_assert(file >= 0 && write(file, data, n) == (ssize_t)n);
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", file);
    g_autoptr(JsonParser) parts = ech_cli_read_sweep(path, NULL), whole = ech_cli_read_json(path, false, NULL, NULL);
    g_assert((parts != NULL) == (whole != NULL));
    g_autofree char *page = page_of(parts), *page_of_whole = page_of(whole);
    if (!memchr(data, '\\', n)) /* a second list "points" may be spelt in another way */
        g_assert_cmpstr(page, ==, page_of_whole);
    close(file);
    return 0;
}
