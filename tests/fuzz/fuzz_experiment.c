/* Experiment files: any bytes give cases or an error. Nothing is run. */
#include "sim/experiment/experiment.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    int file = memfd_create("experiment", MFD_CLOEXEC); /* leaves nothing behind where this is killed */
    if (file < 0)
        return 0;
    if (write(file, data, n) == (gssize)n) {
        g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", file);
        static const char *const settings[] = {"device.memories.hbm.capacity=x2", "replay.trips=3", NULL};
        const EchExperimentOverrides overrides = {.settings = settings};
        g_autoptr(EchExperiment) experiment = ech_experiment_load(path, &overrides, NULL);
    }
    close(file);
    return 0;
}
