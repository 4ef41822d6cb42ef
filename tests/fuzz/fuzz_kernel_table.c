/* Tables of kernels: any bytes after a good header give pairs or an error, never a crash; prices are never negative. */
#include "models/device/device.h"
#include "sim/experiment/validate.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static EchDevice *device;
    if (device == NULL)
        device = ech_device_load("tpu-v5e", NULL, NULL);
    if (device == NULL || size > 65536)
        return 0;
    for (unsigned own = 0; own < 2; own++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchValidation) validation = ech_validate_table("fuzz", (const char *)data, size, device, own == 1, &error);
        if ((validation == NULL) == (error == NULL))
            abort();
        for (size_t i = 0; validation != NULL && i < validation->n_pairs; i++)
            if (validation->pairs[i].predicted < 0)
                abort();
    }
    return 0;
}
