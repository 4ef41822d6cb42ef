/* Captures side by side: what their lines hold, at the end and when most is in use, is what the traces say, as worked out by hand. */
#include "sim/experiment/alloc_compare.h"
#include "sim/report/json_out.h"
#include "tests/support/support.h"

#include <glib/gstdio.h>

static const char head[] = "echelon-trace 1 \"by hand\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\nhost 0 \"allocator\"\n";

/* Keeps 3 of weights and 10 of cache; at its fullest it also has 20 of scratch. */
static const char first[] = "buffers 3\nb \"weights\" m=0 bytes=3\nb \"cache\" m=0 bytes=10\nb \"scratch\" m=0 bytes=20\nops 4\n"
                            "alloc \"weights\" q=0 target=0 bytes=3\nalloc \"cache\" q=0 target=1 bytes=10\nalloc \"scratch\" q=0 target=2 bytes=20\n"
                            "free \"scratch\" q=0 target=2 bytes=20\n";
/* The same, with another 10 of cache that is kept, after 5 of scratch are free again. */
static const char later[] = "buffers 4\nb \"weights\" m=0 bytes=3\nb \"cache\" m=0 bytes=10\nb \"scratch\" m=0 bytes=5\nb \"cache\" m=0 bytes=10\nops 5\n"
                            "alloc \"weights\" q=0 target=0 bytes=3\nalloc \"cache\" q=0 target=1 bytes=10\nalloc \"scratch\" q=0 target=2 bytes=5\n"
                            "free \"scratch\" q=0 target=2 bytes=5\nalloc \"cache\" q=0 target=3 bytes=10\n";

static EchAllocStudy *study_of(const char *body)
{
    g_autofree char *path = NULL;
    int fd = g_file_open_tmp("compare-XXXXXX.ech", &path, NULL);
    ck_assert_int_ge(fd, 0);
    g_close(fd, NULL);
    g_autofree char *text = g_strconcat(head, body, NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    GError *error = NULL;
    EchAllocStudy *study = ech_alloc_study_read(path, &(EchAllocStudyOptions){0}, &error);
    ck_assert_msg(study != NULL, "%s", error ? error->message : "");
    g_unlink(path);
    return study;
}

/* @name's numbers of the first and of the later capture. */
static void expect(JsonObject *of, const char *name, gint64 first_one, gint64 later_one)
{
    JsonArray *values = json_object_get_array_member(of, name);
    ck_assert_uint_eq(json_array_get_length(values), 2);
    ck_assert_int_eq(json_array_get_int_element(values, 0), first_one);
    ck_assert_int_eq(json_array_get_int_element(values, 1), later_one);
}

static void expect_line(JsonObject *moment, guint index, const char *name, gint64 first_one, gint64 later_one)
{
    JsonObject *line = json_array_get_object_element(json_object_get_array_member(moment, "lines"), index);
    ck_assert_str_eq(json_object_get_string_member(line, "line"), name);
    expect(line, "bytes", first_one, later_one);
}

START_TEST(test_lines)
{
    g_autoptr(EchAllocStudy) a = study_of(first);
    g_autoptr(EchAllocStudy) b = study_of(later);
    EchAllocStudy *const both[] = {a, b};
    char *const paths[] = {(char[]){"a"}, (char[]){"b"}};
    g_autofree char *text = ech_alloc_compare_json(both, paths, 2);
    g_autoptr(JsonNode) node = json_from_string(text, NULL);
    ck_assert_ptr_nonnull(node);
    JsonObject *end = json_object_get_object_member(json_node_get_object(node), "end"),
               *most = json_object_get_object_member(json_node_get_object(node), "most");
    expect(end, "live_bytes", 13, 23);
    expect_line(end, 0, "cache", 10, 20);
    expect_line(end, 1, "weights", 3, 3);
    expect(json_array_get_object_element(json_object_get_array_member(end, "lines"), 0), "blocks", 1, 2);
    expect(most, "live_bytes", 33, 23);
    expect_line(most, 0, "scratch", 20, 0);
    expect_line(most, 1, "cache", 10, 20);
    expect_line(most, 2, "weights", 3, 3);
}
END_TEST

/* Three captures: each is told against the first, with what holds as much only counted. */
START_TEST(test_text)
{
    g_autoptr(EchAllocStudy) a = study_of(first);
    g_autoptr(EchAllocStudy) b = study_of(later);
    EchAllocStudy *const all[] = {b, a, b};
    char *const paths[] = {(char[]){"b"}, (char[]){"a"}, (char[]){"c"}};
    g_autoptr(GString) text = ech_alloc_compare_text(all, paths, 3, 0);
    ck_assert_str_eq(text->str, "b -> a\n"
                                "  in use at the end: 23 B -> 13 B (-10 B)\n"
                                "         -10 B        2 -> 1 blocks  cache\n"
                                "    1 line holds as much as before\n"
                                "  in use when most is: 23 B -> 33 B (+10 B)\n"
                                "         +20 B        0 -> 1 blocks  scratch\n"
                                "         -10 B        2 -> 1 blocks  cache\n"
                                "    1 line holds as much as before\n"
                                "\nb -> c\n"
                                "  in use at the end: 23 B -> 23 B (the same)\n"
                                "    2 lines hold as much as before\n"
                                "  in use when most is: 23 B -> 23 B (the same)\n"
                                "    2 lines hold as much as before\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alloc_compare");
    TCase *tcase = tcase_create("alloc_compare");
    tcase_add_test(tcase, test_lines);
    tcase_add_test(tcase, test_text);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
