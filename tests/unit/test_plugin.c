/* A user's allocator: the documented example builds outside the tree with one line; crashes and lies are reported. */
#include "models/alloc/alloc.h"
#include "sim/base/error.h"
#include "sim/base/file.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static char *folder;

/* Compiles @source (or @text) into folder/NAME.so; exits with 77 where there is no compiler. Owned by the caller. */
static char *build(const char *name, const char *source, const char *text)
{
    g_autofree char *object = g_strdup_printf("%s/%s.so", folder, name);
    g_autofree char *written = g_strdup_printf("%s/%s.c", folder, name);
    if (text)
        ck_assert(g_file_set_contents(written, text, -1, NULL));
    g_autofree char *command =
        g_strdup_printf("gcc -std=c99 -O2 -shared -fPIC -I '%s/models/alloc' -o '%s' '%s'", ECH_SOURCE_DIR, object, source ? source : written);
    int status = 0;
    ck_assert(g_spawn_command_line_sync(command, NULL, NULL, &status, NULL));
    ck_assert_msg(status == 0, "%s", command);
    return g_steal_pointer(&object);
}

static EchAllocator *open_plugin(const char *object, const char *settings, GError **error)
{
    g_autofree char *spec = g_strdup_printf("plugin:%s%s", object, settings);
    EchAllocDevice device = {.capacity = 1 << 20};
    return ech_allocator_new(spec, &device, error);
}

START_TEST(example_places_and_reuses)
{
    g_autofree char *object = build("stacks", ECH_SOURCE_DIR "/models/alloc/example/stacks.c", NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocator) allocator = open_plugin(object, ",smallest=512", &error);
    ck_assert_ok(allocator != NULL, error);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 0, .bytes = 700}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.address, 0);
    ck_assert_uint_eq(p.rounded, 1024);
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 1, .bytes = 1}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.address, 1024);
    ck_assert_uint_eq(p.rounded, 512);
    ck_assert(ech_allocator_release(allocator, 0));
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 2, .bytes = 1024}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.address, 0);
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 3, .bytes = 1 << 21}, &p), ECH_FIT_FULL);
    ck_assert_ptr_null(ech_allocator_fault(allocator));
}
END_TEST

START_TEST(settings_are_the_plugins_own)
{
    g_autofree char *object = build("stacks", ECH_SOURCE_DIR "/models/alloc/example/stacks.c", NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(open_plugin(object, ",largest=1", &error));
    ck_assert_msg(strstr(error->message, "'largest' is no setting; expected smallest") != NULL, "%s", error->message);
    g_clear_error(&error);
    ck_assert_ptr_null(open_plugin("/nowhere/none.so", "", &error));
    ck_assert_msg(strstr(error->message, "/nowhere/none.so") != NULL, "%s", error->message);
}
END_TEST

/* What a bad plugin does at the second allocation, and what must be said. */
static const struct {
    const char *name, *statement, *said;
} bad[] = {
    {"crash", "*(volatile int *)0 = 1;", "crashed with signal 11"},
    {"leave", "_exit(3);", "left with exit code 3"},
    {"overlap", "*address = 50; *rounded = bytes; return 0;", "placed illegally: placement of 1 at [50, 150) overlaps 0 at [0, 100)"},
    {"outside", "*address = 1 << 20; *rounded = bytes; return 0;", "placed illegally"},
    {"short", "*address = 4096; *rounded = bytes - 1; return 0;", "placed illegally"},
};

START_TEST(bad_plugins_are_reported)
{
    g_autofree char *text = g_strdup_printf(
        "#include \"echelon_allocator.h\"\n"
        "#include <unistd.h>\n"
        "static int object;\n"
        "static void *create(uint64_t c, const char *const *k, const char *const *v, uint32_t n, char *m, size_t s)\n"
        "{ (void)c; (void)k; (void)v; (void)n; (void)m; (void)s; return &object; }\n"
        "static int place(void *self, uint32_t id, uint64_t bytes, uint32_t stream, uint64_t *address, uint64_t *rounded)\n"
        "{ (void)self; (void)stream; if (id == 0) { *address = 0; *rounded = bytes; return 0; } %s return 1; }\n"
        "static void release(void *self, uint32_t id, uint64_t address) { (void)self; (void)id; (void)address; }\n"
        "const echelon_allocator *echelon_allocator_get(uint32_t version)\n"
        "{ static const echelon_allocator me = {ECHELON_ALLOCATOR_VERSION, \"bad\", create, place, release, 0, 0, 0}; (void)version; return &me; }\n",
        bad[_i].statement);
    g_autofree char *object = build(bad[_i].name, NULL, text);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocator) allocator = open_plugin(object, "", &error);
    ck_assert_ok(allocator != NULL, error);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 0, .bytes = 100}, &p), ECH_FIT_OK);
    ck_assert_int_ne(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 1, .bytes = 100}, &p), ECH_FIT_OK);
    const char *fault = ech_allocator_fault(allocator);
    ck_assert_msg(fault && strstr(fault, bad[_i].said), "%s", fault ? fault : "nothing said");
    ck_assert_int_ne(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 2, .bytes = 1}, &p), ECH_FIT_OK);
    ck_assert(ech_allocator_release(allocator, 0));
}
END_TEST

/* A release that never ends, and more calls behind it than the socket holds, none of which is answered. */
START_TEST(hangs_are_stopped)
{
    g_autofree char *object = build("hang", NULL,
                                    "#include \"echelon_allocator.h\"\n"
                                    "static int object;\n"
                                    "static void *create(uint64_t c, const char *const *k, const char *const *v, uint32_t n, char *m, size_t s)\n"
                                    "{ (void)c; (void)k; (void)v; (void)n; (void)m; (void)s; return &object; }\n"
                                    "static int place(void *self, uint32_t id, uint64_t bytes, uint32_t stream, uint64_t *address, uint64_t *rounded)\n"
                                    "{ (void)self; (void)stream; *address = 1000 * id; *rounded = bytes; return 0; }\n"
                                    "static void release(void *self, uint32_t id, uint64_t address)\n"
                                    "{ (void)self; (void)id; for (volatile uint64_t *spin = &address;;) *spin += 1; }\n"
                                    "const echelon_allocator *echelon_allocator_get(uint32_t version)\n"
                                    "{ static const echelon_allocator me = {ECHELON_ALLOCATOR_VERSION, \"hang\", create, place, release, 0, 0, 0};\n"
                                    "  (void)version; return &me; }\n");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocator) allocator = open_plugin(object, "", &error);
    ck_assert_ok(allocator != NULL, error);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 0, .bytes = 100}, &p), ECH_FIT_OK);
    ck_assert(ech_allocator_release(allocator, 0));
    for (unsigned i = 0; i < 1 << 17; i++)
        ech_allocator_stream_done(allocator, 0);
    const char *fault = ech_allocator_fault(allocator);
    ck_assert_msg(fault && strstr(fault, "did not take its calls for 10 s"), "%s", fault ? fault : "nothing said");
    ck_assert_int_ne(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 1, .bytes = 1}, &p), ECH_FIT_OK);
}
END_TEST

int main(void)
{
    g_autofree char *gcc = g_find_program_in_path("gcc");
    if (!gcc) {
        puts("skipped: no gcc to build a plugin with");
        return 77;
    }
    folder = g_mkdtemp(g_strdup(ECH_BINARY_DIR "/tests/plugin-XXXXXX"));
    Suite *suite = suite_create("plugin");
    TCase *tests = tcase_create("plugin");
    tcase_add_test(tests, example_places_and_reuses);
    tcase_add_test(tests, settings_are_the_plugins_own);
    tcase_add_loop_test(tests, bad_plugins_are_reported, 0, G_N_ELEMENTS(bad));
    tcase_add_test(tests, hangs_are_stopped);
    suite_add_tcase(suite, tests);
    int status = ech_test_main(suite);
    ech_remove_tree(folder);
    g_free(folder);
    return status;
}
