/* Which slices a copy engine can make: the compiler's own choices among slices compiled for this purpose (v5e and v6e agree). */
#include "models/place/flow.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *from, *to, *bounds;
    bool copies;
} cases[] = {
    /* One dimension, whole tiles or their beginning. */
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1021,2048]{1,0:T(8,128)}", "{[0:1021], [0:2048]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1016,2048]{1,0:T(8,128)}", "{[8:1024], [0:2048]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[6,2048]{1,0:T(8,128)}", "{[4090:4096], [0:2048]}", false},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[4096,896]{1,0:T(8,128)}", "{[0:4096], [128:1024]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[4096,924]{1,0:T(8,128)}", "{[0:4096], [100:1024]}", false},
    {"f32[1048576]{0:T(1024)}", "f32[524160]{0:T(1024)}", "{[128:524288]}", false},
    {"f32[1048576]{0:T(1024)}", "f32[523264]{0:T(1024)}", "{[1024:524288]}", true},
    /* A dimension outside the tile may begin anywhere. */
    {"bf16[16,512,1024]{1,0,2:T(8,128)(2,1)}", "bf16[16,512,100]{1,0,2:T(8,128)(2,1)}", "{[0:16], [0:512], [0:100]}", true},
    {"bf16[16,64,2048]{2,1,0:T(8,128)(2,1)}", "bf16[1,64,2048]{2,1,0:T(8,128)(2,1)}", "{[1:2], [0:64], [0:2048]}", true},
    {"bf16[16,512,1024]{1,0,2:T(8,128)(2,1)}", "bf16[16,84,1024]{1,0,2:T(8,128)(2,1)}", "{[0:16], [16:100], [0:1024]}", false},
    /* Two dimensions, or a stride: kernels. */
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1024,1024]{1,0:T(8,128)}", "{[0:1024], [0:1024]}", false},
    {"bf16[8,16,512,256]{3,2,1,0:T(8,128)(2,1)}", "bf16[2,2,512,256]{3,2,1,0:T(8,128)(2,1)}", "{[2:4], [3:5], [0:512], [0:256]}", false},
    {"bf16[2048,768]{1,0:T(8,128)(2,1)}", "bf16[1024,768]{1,0:T(8,128)(2,1)}", "[0:2047:2], [0:768:1]", false},
    {"bf16[2048,768]{1,0:T(8,128)(2,1)}", "bf16[1024,768]{1,0:T(8,128)(2,1)}", "[0:1024:1], [0:768:1]", true},
    /* Fewer sublanes. */
    {"f32[8192,8]{0,1:T(8,128)}", "f32[8192,4]{0,1:T(4,128)}", "{[0:8192], [0:4]}", true},
    {"f32[8192,8]{0,1:T(8,128)}", "f32[8192,1]{0,1:T(1,128)}", "{[0:8192], [0:1]}", false},
    {"f32[2,2,512,3]{2,3,1,0:T(4,128)}", "f32[2,2,512,2]{2,3,1,0:T(2,128)}", "{[0:2], [0:2], [0:512], [0:2]}", true},
    {"bf16[8,4096]{1,0:T(8,128)(2,1)}", "bf16[2,4096]{1,0:T(2,128)(2,1)}", "{[2:4], [0:4096]}", false},
    /* What cannot be read is not refused. */
    {"f32[8,", "f32[4]", "{[0:4]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1024,1024]{1,0:T(8,128)}", "{[0:1024]}", true},
    {"f32[4096,2048]{1,0:T(8,128)}", "f32[1024,1024]{1,0:T(8,128)}", "", true},
};

START_TEST(slices_that_are_copies)
{
    ck_assert_msg(ech_flow_slice_is_copy(cases[_i].from, cases[_i].to, cases[_i].bounds, strlen(cases[_i].bounds)) == cases[_i].copies, "%s of %s as %s",
                  cases[_i].bounds, cases[_i].from, cases[_i].to);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place_flow");
    TCase *tcase = tcase_create("slices");
    tcase_add_loop_test(tcase, slices_that_are_copies, 0, (int)G_N_ELEMENTS(cases));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
