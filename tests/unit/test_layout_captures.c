/* Every array of every TPU buffer assignment captured by others: its padded size is the compiler's, its text survives parsing and printing, and the tile of
 * every parameter is the one we would choose. Skipped where the captures are not there. */
#include "models/layout/advice.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define FOLDER ECH_SHARED "/traces/tpu_aot"

static char *read_text(const char *path)
{
    gzFile file = gzopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    GString *text = g_string_new(NULL);
    char buffer[65536];
    int n;
    while ((n = gzread(file, buffer, sizeof buffer)) > 0)
        g_string_append_len(text, buffer, n);
    gzclose(file);
    return g_string_free(text, FALSE);
}

typedef struct {
    size_t arrays, tuples, tiles, tiles_right, parameters;
} Counts;

/* Members of a tuple's text: commas at its own level. */
static uint64_t members_of(const char *text)
{
    int depth = 0;
    uint64_t n = text[1] != ')';
    for (const char *at = text; *at && *at != '\r'; at++) {
        depth += *at == '(' || *at == '[' || *at == '{';
        depth -= *at == ')' || *at == ']' || *at == '}';
        n += *at == ',' && depth == 1;
    }
    return n;
}

/* " value: <ID name @C> (size=N,offset=O): SHAPE" */
static void check_line(const char *line, const char *chip, bool parameter, Counts *counts)
{
    const char *size_at = strstr(line, "(size="), *shape = size_at ? strstr(size_at, "): ") : NULL;
    if (!shape)
        return;
    shape += 3;
    uint64_t size = g_ascii_strtoull(size_at + strlen("(size="), NULL, 10);
    unsigned generation = ech_layout_generation(chip);
    if (*shape == '(') {
        EchBytes granule = generation < 4 ? 1024 : strcmp(chip, "v4") == 0 || strcmp(chip, "v5e") == 0 ? 512 : 32;
        bool core = strstr(shape, ":S(7)") == NULL && size > 0; /* SparseCore's tuples have no table */
        ck_assert_msg(!core || ech_layout_tuple_bytes(members_of(shape), granule) == size, "%s: %" G_GUINT64_FORMAT, shape, size);
        counts->tuples += core;
        return;
    }
    EchLayout layout;
    GError *error = NULL;
    bool ok = ech_layout_parse(shape, strlen(shape), &layout, NULL, &error);
    ck_assert_msg(ok, "%s: %s", shape, error ? error->message : "");
    if (ech_layout_element_bits(&layout) == 0)
        return; /* tokens */
    counts->arrays++;
    EchBytes padded = ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU);
    ck_assert_msg(padded == size, "%s: %" G_GUINT64_FORMAT ", the compiler %" G_GUINT64_FORMAT, shape, padded, size);
    g_autofree char *printed = ech_layout_print(&layout);
    ck_assert_str_eq(printed, shape);
    if (layout.n_tiles == 0 || layout.n_splits > 0)
        return;
    EchLayout chosen = layout;
    ech_layout_choose_tiles(&chosen, generation);
    g_autofree char *ours = ech_layout_print(&chosen);
    bool right = strcmp(ours, printed) == 0;
    counts->tiles++;
    counts->tiles_right += right;
    counts->parameters += parameter;
    ck_assert_msg(right || !parameter, "parameter %s: we would choose %s", printed, ours);
}

START_TEST(captures)
{
    if (ech_test_lacks(FOLDER))
        return;
    g_autoptr(GDir) folder = g_dir_open(FOLDER, 0, NULL);
    ck_assert_ptr_nonnull(folder);
    Counts counts = {0};
    const char *name;
    while ((name = g_dir_read_name(folder))) {
        if (!g_str_has_suffix(name, ".buffer-assignment.txt") && !g_str_has_suffix(name, ".buffer-assignment.txt.gz"))
            continue;
        g_auto(GStrv) parts = g_strsplit(name, ".", 3);
        ck_assert_msg(ech_layout_generation(parts[1]) >= 2, "%s", name);
        g_autofree char *path = g_build_filename(FOLDER, name, NULL);
        g_autofree char *text = read_text(path);
        bool parameter = false;
        char *state = NULL;
        for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
            if (g_str_has_prefix(line, "allocation "))
                parameter = strstr(line, ": parameter ") != NULL || strstr(line, ", parameter ") != NULL;
            else if (g_str_has_prefix(line, " value: "))
                check_line(line, parts[1], parameter, &counts);
        }
    }
    printf("%zu arrays and %zu tuples, all padded as the compiler pads them; %zu of %zu tiles chosen as it does, all %zu of parameters among them\n",
           counts.arrays, counts.tuples, counts.tiles_right, counts.tiles, counts.parameters);
    ck_assert_uint_gt(counts.arrays + counts.tuples, 10000);
    ck_assert_uint_gt(counts.parameters, 500);
    ck_assert_uint_gt(counts.tiles_right * 100, counts.tiles * 95);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layouts of captures");
    TCase *tests = tcase_create("captures");
    tcase_add_test(tests, captures);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
