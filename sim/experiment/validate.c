/* What all validations share. */
#include "sim/experiment/validate.h"
#include "sim/base/error.h"

#include <math.h>
#include <string.h>

void ech_validation_free(EchValidation *validation)
{
    if (validation == NULL)
        return;
    for (size_t i = 0; i < validation->n_pairs; i++) {
        g_free(validation->pairs[i].name);
        g_free(validation->pairs[i].kind);
        g_free(validation->pairs[i].group);
    }
    g_free(validation->pairs);
    for (size_t i = 0; i < validation->n_gaps; i++)
        g_free(validation->gaps[i].example);
    g_free(validation->gaps);
    g_free(validation->wholes);
    g_free(validation->subject);
    if (validation->notes)
        g_ptr_array_unref(validation->notes);
    g_free(validation);
}

double ech_validation_mape(const EchValidation *validation, const char *kind)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < validation->n_pairs; i++) {
        const EchValidatePair *pair = &validation->pairs[i];
        if (pair->measured <= 0 || (kind != NULL && strcmp(pair->kind, kind) != 0))
            continue;
        sum += fabs((double)pair->predicted / (double)pair->measured - 1);
        n++;
    }
    return n > 0 ? sum / (double)n : -1;
}

bool ech_validate_is_of_kind(EchPlatform platform, const EchDevice *device, GError **error)
{
    bool tpu = platform == ECH_PLATFORM_TPU;
    if (g_strcmp0(device->family, tpu ? "gpu" : "tpu") != 0)
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                "the program was compiled for a %s, and %s is none: its compiler's estimates say nothing about that; expected something like --device %s",
                tpu ? "TPU" : "GPU", device->name, tpu ? "tpu-v5e" : "h100-sxm");
    return false;
}
