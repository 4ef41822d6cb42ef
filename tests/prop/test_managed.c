/* Managed memory under random runs: nothing is lost, no more is on the device than there is room for. */
#include "tests/fuzz/managed_case.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

START_TEST(any_run)
{
    uint64_t state = ech_test_seed_of(_i);
    uint8_t bytes[512];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(ech_test_draw(&state) >> 24);
    ech_managed_case(bytes, sizeof bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("managed");
    TCase *tests = tcase_create("managed");
    tcase_add_loop_test(tests, any_run, 0, 300);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
