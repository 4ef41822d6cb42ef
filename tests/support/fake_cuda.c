#include "tests/support/fake_cuda.h"

#include "tests/support/support.h"

#include <check.h>
#include <dlfcn.h>
#include <glib.h>
#include <string.h>

EchFakeCuda ech_test_fake_cuda(const char *card_bytes)
{
    g_setenv("ECHELON_LIBCUDA", ECH_FAKE_CUDA, TRUE);
    g_setenv("ECHELON_LIBCUBLAS", ECH_FAKE_CUDA, TRUE);
    if (card_bytes)
        g_setenv("ECH_FAKE_CUDA_BYTES", card_bytes, TRUE);
    void *library = dlopen(ECH_FAKE_CUDA, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    EchFakeCuda fake;
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"fake_cuda_held", &fake.held},
                  {"fake_cuda_calls", &fake.calls},
                  {"fake_cuda_reset", &fake.reset},
                  {"fake_cuda_plain_products", &fake.plain_products},
                  {"fake_cuda_shared_workspaces", &fake.shared_workspaces}};
    for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
        void *found = dlsym(library, wanted[i].name);
        ck_assert_msg(found != NULL, "%s", wanted[i].name);
        memcpy(wanted[i].function, &found, sizeof found); /* ISO C converts no object pointer to a function */
    }
    return fake;
}

EchCalibration *ech_test_calibrate(void)
{
    g_autoptr(GError) error = NULL;
    EchCalibration *calibration = ech_calibrate(0, NULL, NULL, NULL, &error);
    ck_assert_ok(calibration != NULL, error);
    return calibration;
}
