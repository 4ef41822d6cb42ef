/* What work does with arrays of which it tells addresses alone. */
#include "sim/import/arrays.h"
#include "tests/support/support.h"

#include <check.h>

/* Arrays of 64 bytes, numbered from 0 on. */
static EchAddressUse any(EchId array)
{
    return (EchAddressUse){4096 + 64 * (uint64_t)array, 0, ECH_ADDRESS_ANY};
}

static EchArrays *made(EchId n)
{
    EchArrays *arrays = ech_arrays_new();
    for (EchId i = 0; i < n; i++)
        ech_arrays_alloc(arrays, i, any(i).address, 64);
    return arrays;
}

/* What each of arrays 0 to @n - 1 is to work that is given them all: "r", "w", "u" for both. */
static char *access_of(EchArrays *arrays, EchId n)
{
    g_autofree EchAddressUse *uses = g_new(EchAddressUse, n);
    for (EchId i = 0; i < n; i++)
        uses[i] = any(i);
    size_t n_found;
    uint64_t unknown = 0, inferred = 0;
    const EchArrayUse *found = ech_arrays_resolve(arrays, uses, n, false, &n_found, &unknown, &inferred);
    ck_assert_uint_eq(n_found, n);
    ck_assert_uint_eq(unknown, 0);
    ck_assert_uint_eq(inferred, n);
    GString *out = g_string_new(NULL);
    for (size_t i = 0; i < n_found; i++)
        g_string_append_c(out, found[i].reads && found[i].writes ? 'u' : found[i].reads ? 'r' : 'w');
    return g_string_free(out, FALSE);
}

static void expect(EchArrays *arrays, EchId n, const char *what)
{
    g_autofree char *access = access_of(arrays, n);
    ck_assert_str_eq(access, what);
}

/* Flash attention's backward pass: three kernels, one set of parameters. The second and third go on with what the first wrote, and leave its inputs alone. */
START_TEST(kernels_that_share_their_parameters_write_the_same_arrays)
{
    g_autoptr(EchArrays) arrays = made(4);
    expect(arrays, 2, "ww");
    expect(arrays, 4, "rrww");
    expect(arrays, 4, "rruu");
    expect(arrays, 4, "rruu");
    ech_arrays_alloc(arrays, 3, any(3).address, 64); /* another array at the same address */
    expect(arrays, 4, "rrrw");
}
END_TEST

START_TEST(a_kernel_of_used_arrays_alone_updates_any)
{
    g_autoptr(EchArrays) arrays = made(4);
    expect(arrays, 3, "www");
    expect(arrays, 2, "uu");
    expect(arrays, 2, "uu");
    expect(arrays, 3, "uuu");
    expect(arrays, 4, "rrrw");
    expect(arrays, 3, "uuu"); /* not the same as before */
}
END_TEST

/* The host's own memory: read unless told otherwise, also where nothing used it before or nothing else is written. */
START_TEST(the_hosts_arrays_are_read)
{
    g_autoptr(EchArrays) arrays = made(3);
    ech_arrays_of_host(arrays, any(0).address);
    ech_arrays_of_host(arrays, any(9).address); /* nothing lies there */
    expect(arrays, 2, "rw");
    expect(arrays, 2, "ru");
    const EchAddressUse told = {any(0).address, 64, ECH_ADDRESS_WRITE};
    size_t n;
    uint64_t unknown = 0, inferred = 0;
    const EchArrayUse *found = ech_arrays_resolve(arrays, &told, 1, false, &n, &unknown, &inferred);
    ck_assert(n == 1 && found[0].writes && !found[0].reads);
    ech_arrays_alloc(arrays, 0, any(0).address, 64); /* a device's array at the same address */
    expect(arrays, 1, "w");
}
END_TEST

/* What has no use yet is written, what was asked for last first, as far as that goes; and what is older never is. */
START_TEST(what_is_new_is_filled)
{
    g_autoptr(EchArrays) arrays = made(6);
    g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(EchAddressUse));
    expect(arrays, 1, "w");
    ech_arrays_release(arrays, any(5).address);
    ech_arrays_fill_new(arrays, 64 + 32, uses);
    ck_assert_uint_eq(uses->len, 2);
    for (guint i = 0; i < 2; i++) {
        const EchAddressUse *use = &g_array_index(uses, EchAddressUse, i);
        ck_assert(use->address == any(4 - i).address && use->bytes == (i == 0 ? 64 : 32) && use->access == ECH_ADDRESS_WRITE);
    }
    size_t n;
    uint64_t unknown = 0, inferred = 0;
    (void)ech_arrays_resolve(arrays, (const EchAddressUse *)(const void *)uses->data, uses->len, false, &n, &unknown, &inferred);
    g_array_set_size(uses, 0);
    ech_arrays_fill_new(arrays, 1000, uses);
    ck_assert_uint_eq(uses->len, 0);
    ech_arrays_alloc(arrays, 6, any(0).address, 64); /* another in the place of the first */
    ech_arrays_fill_new(arrays, 1000, uses);
    ck_assert(uses->len == 1 && g_array_index(uses, EchAddressUse, 0).address == any(0).address);
}
END_TEST

/* Parts of a block, each where it lies; or the block, from the first of them on. */
START_TEST(parts_stand_apart)
{
    g_autoptr(EchArrays) arrays = ech_arrays_new();
    ech_arrays_alloc(arrays, 7, 4096, 1000);
    const EchAddressUse uses[] = {{4096 + 600, 200, ECH_ADDRESS_READ}, {4096 + 100, 50, ECH_ADDRESS_READ}, {4096 + 300, 80, ECH_ADDRESS_WRITE}};
    size_t n;
    uint64_t unknown = 0, inferred = 0;
    const EchArrayUse *found = ech_arrays_resolve(arrays, uses, G_N_ELEMENTS(uses), _i, &n, &unknown, &inferred);
    ck_assert_uint_eq(n, _i ? 3 : 1);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(found[i].buffer, 7);
        ck_assert_int_eq(found[i].part, _i);
        ck_assert_uint_eq(found[i].offset, _i ? uses[i].address - 4096 : 100);
        ck_assert_uint_eq(found[i].read + found[i].written, _i ? uses[i].bytes : 330);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arrays");
    TCase *tcase = tcase_create("arrays");
    tcase_add_test(tcase, kernels_that_share_their_parameters_write_the_same_arrays);
    tcase_add_test(tcase, a_kernel_of_used_arrays_alone_updates_any);
    tcase_add_test(tcase, the_hosts_arrays_are_read);
    tcase_add_test(tcase, what_is_new_is_filled);
    tcase_add_loop_test(tcase, parts_stand_apart, 0, 2);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
