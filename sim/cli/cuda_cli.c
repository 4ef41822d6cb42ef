#include "sim/cli/cuda_cli.h"

#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/experiment/validate_cuda.h"

int ech_cli_cuda(const char *path, const EchExperimentOverrides *overrides, const char *spec, unsigned repeats, bool json)
{
    GError *error = NULL;
    EchExperimentOverrides own = *overrides;
    own.engine = "native";
    own.allocator = NULL; /* Whose it is on the GPU is known below; the prediction is made again for that */
    g_autoptr(EchExperiment) experiment = ech_experiment_load(path, &own, &error);
    if (!experiment)
        return ech_cli_fail(error);
    if (experiment->n_cases != 1)
        return ech_cli_fail(g_error_new(ECH_ERROR, ECH_ERROR_CONFIG, "engine cuda replays one case at a time; this experiment has %zu", experiment->n_cases));
    if (experiment->find)
        return ech_cli_fail(g_error_new(ECH_ERROR, ECH_ERROR_CONFIG, "engine cuda replays one case, and searches for none; leave out --find or the engine"));
    EchCudaOptions options = {0};
    ech_params_defaults(ech_cuda_params, &options);
    bool present = ech_params_parse(ech_cuda_params, &options, spec, &error) && ech_cuda_present(options.gpu, &error);
    ech_params_clear(ech_cuda_params, &options);
    if (!present) {
        g_prefix_error(&error, "engine cuda: ");
        return ech_cli_fail(error);
    }
    g_autoptr(EchCudaValidation) validation = ech_validate_cuda(experiment, spec, repeats, overrides->allocator, &error);
    if (!validation)
        return ech_cli_fail(error);
    g_autofree char *text = json ? ech_cuda_validation_json(validation) : ech_cuda_validation_text(validation);
    ech_cli_print(text);
    return ECH_EXIT_DONE;
}
