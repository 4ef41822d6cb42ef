/* Experiment files: any bytes give cases or an error. Nothing is run. */
#include "sim/experiment/experiment.h"

#include <glib/gstdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[] = "/tmp/echelon-fuzz-XXXXXX";
    int file = g_mkstemp(path);
    if (file < 0)
        return 0;
    gssize written = write(file, data, n);
    close(file);
    if (written == (gssize)n) {
        static const char *const settings[] = {"device.memories.hbm.capacity=x2", "replay.trips=3", NULL};
        const EchExperimentOverrides overrides = {.settings = settings};
        g_autoptr(EchExperiment) experiment = ech_experiment_load(path, &overrides, NULL);
    }
    g_unlink(path);
    return 0;
}
