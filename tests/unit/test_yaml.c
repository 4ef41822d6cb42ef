/* YAML: what is refused, with its place, before the library sees it. */
#include "sim/base/yaml.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

START_TEST(odd_text_is_refused_with_its_place)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"%m\xff\xff\x01", "t:1:1: byte 0x25 begins a YAML directive; none is taken"},
        {"# c\n%YAML 1.2\n---\na: 1\n", "t:2:1: byte 0x25 begins a YAML directive; none is taken"},
        {"a: 1\nb: x\xff\n", "t:2:5: byte 0xff is not UTF-8"},
        {"a: \x01\n", "t:1:4: byte 0x01 is a control character"},
        {"", "t: the file is empty; expected keys and values"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchYamlNode) root = ech_yaml_parse(bad[i].text, strlen(bad[i].text), "t", &error);
        ck_assert_ptr_null(root);
        ck_assert_str_eq(error->message, bad[i].message);
    }
}
END_TEST

START_TEST(usual_text_is_taken)
{
    static const char *const good[] = {"a: 1\n", "---\na: 1\n", "# 100 %\na: 50%\n", "a: \"\xc3\xa9\"\n", "a:\n- b\n- c\n"};
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchYamlNode) root = ech_yaml_parse(good[i], strlen(good[i]), "t", &error);
        ck_assert_ok(root != NULL, error);
        ck_assert_ptr_nonnull(ech_yaml_get(root, "a"));
    }
}
END_TEST

START_TEST(what_is_left_out_stands_where_its_key_does)
{
    static const char text[] = "a: 1\nb:\nc:\n  d:\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchYamlNode) root = ech_yaml_parse(text, strlen(text), "t", &error);
    ck_assert_ok(root != NULL, error);
    g_autofree char *b = ech_yaml_place(ech_yaml_get(root, "b")), *d = ech_yaml_place(ech_yaml_get(ech_yaml_get(root, "c"), "d"));
    ck_assert_str_eq(b, "t:2:1");
    ck_assert_str_eq(d, "t:4:3");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("yaml");
    TCase *tests = tcase_create("yaml");
    tcase_add_test(tests, odd_text_is_refused_with_its_place);
    tcase_add_test(tests, usual_text_is_taken);
    tcase_add_test(tests, what_is_left_out_stands_where_its_key_does);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
