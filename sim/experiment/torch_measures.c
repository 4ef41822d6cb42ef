#include "sim/experiment/torch_measures.h"

#include "sim/base/error.h"
#include "sim/base/param.h"
#include "sim/base/units.h"

#include <string.h>

static const EchTorchMeasure measures[] = {
    {"autocast", "bfloat16|float16", false, "mixed precision: the forward pass and the loss under torch.autocast (bfloat16, float16)",
     "with torch.autocast(\"cuda\", dtype=torch.bfloat16): around the forward pass and the loss"},
    {"bfloat16", NULL, false, "weights, gradients, optimizer state and inputs in bfloat16, whatever has 32 bits",
     "model.to(torch.bfloat16) before the optimizer is made"},
    {"float32_matmul_precision", "high|medium", false, "products of float32 in TF32 (high), or in bfloat16 where torch.compile has them so (medium)",
     "torch.set_float32_matmul_precision(\"high\")"},
    {"sdpa", NULL, false, "attention by PyTorch's own kernels, which keep no array of all scores (models of transformers and timm that have both)",
     ECH_TORCH_SDPA},
    {"compile", "default|reduce-overhead|max-autotune|max-autotune-no-cudagraphs", false, "torch.compile of the outermost modules (default, or another mode)",
     "model.compile(mode=\"default\")"},
    {"checkpoint", "*", false, "torch.utils.checkpoint around modules, like checkpoint=blocks.*+head; around repeated blocks where none are named",
     ECH_TORCH_CHECKPOINT},
    {"activation_memory_budget", "*", true, "of what torch.compile keeps for the backward pass, what it may keep: 0 (what checkpoints around all keep) to 1",
     "torch._functorch.config.activation_memory_budget = *, before torch.compile"},
    {"save_on_cpu", NULL, false, "what is kept for the backward pass waits in pinned host memory", ECH_TORCH_SAVE_ON_CPU},
    {"no_grad", NULL, false, "nothing is kept for a backward pass that is not asked for", ECH_TORCH_NO_GRAD},
    {"fused", NULL, false, "the optimizer as one kernel, without temporaries", ECH_TORCH_FUSED},
    {"foreach", "false", true, "foreach=false: the optimizer one parameter at a time",
     "foreach=False for the optimizer: torch.optim.AdamW(..., foreach=False)"},
    {"channels_last", NULL, false, "weights and inputs of convolutions with channels last", "model.to(memory_format=torch.channels_last), and inputs alike"},
    {"quantize", "Int8WeightOnly|Float8WeightOnly|Int4WeightOnly|Int8DynamicActivationInt8Weight|Float8DynamicActivationFloat8Weight", false,
     "weights of linear layers that are not trained in few bits, by torchao, as its config of that name has it (8-bit integers)",
     "torchao.quantization.quantize_(model, torchao.quantization.Int8WeightOnlyConfig())"},
    {"layerwise_casting", "float8_e4m3fn|float8_e5m2", false, "weights of diffusers' models stored in 8-bit floats, widened while their layer runs",
     "model.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=torch.bfloat16), of pipe.transformer or pipe.unet"},
    {"gradient_as_bucket_view", NULL, false, "DistributedDataParallel's gradients lie in its buckets, not beside them",
     "DistributedDataParallel(model, gradient_as_bucket_view=True)"},
};

const EchTorchMeasure *ech_torch_measures(size_t *n)
{
    *n = G_N_ELEMENTS(measures);
    return measures;
}

const EchTorchMeasure *ech_torch_measure_find(const char *spec)
{
    size_t n = strcspn(spec, "=");
    for (size_t i = 0; i < G_N_ELEMENTS(measures); i++)
        if (strncmp(measures[i].name, spec, n) == 0 && measures[i].name[n] == '\0')
            return &measures[i];
    return NULL;
}

char *ech_torch_measure_code(const char *spec)
{
    const EchTorchMeasure *measure = ech_torch_measure_find(spec);
    const char *value = strchr(spec, '=');
    if (!measure || !value || !measure->values)
        return g_strdup(measure ? measure->in_code : spec);
    if (strcmp(measure->in_code, ECH_TORCH_CHECKPOINT) == 0)
        return g_strconcat(measure->in_code, " of ", value + 1, NULL);
    g_autofree char *usual = g_strndup(measure->values, strcspn(measure->values, "|"));
    g_auto(GStrv) parts = g_strsplit(measure->in_code, usual, -1);
    return g_strjoinv(value + 1, parts);
}

static bool check(const char *spec, GError **error)
{
    const EchTorchMeasure *measure = ech_torch_measure_find(spec);
    const char *value = strchr(spec, '=');
    if (!measure) {
        const char *names[G_N_ELEMENTS(measures) + 1] = {NULL};
        for (size_t i = 0; i < G_N_ELEMENTS(measures); i++)
            names[i] = measures[i].name;
        g_autofree char *name = g_strndup(spec, strcspn(spec, "=")), *all = g_strjoinv(", ", (char **)(uintptr_t)names);
        const char *nearest = ech_nearest_name(name, names);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "there is no '%s'; %s%s%s", name, nearest ? "did you mean '" : "expected one of ",
                    nearest ? nearest : all, nearest ? "'?" : "");
        return false;
    }
    if (value && !measure->values) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s': %s takes no value", spec, measure->name);
        return false;
    }
    g_auto(GStrv) values = g_strsplit(measure->values ? measure->values : "", "|", -1);
    bool any = g_strcmp0(measure->values, "*") == 0;
    if (value ? !(any ? value[1] != '\0' : g_strv_contains((const char *const *)values, value + 1)) : measure->needs_value) {
        g_autofree char *expected = g_strjoinv(", ", values);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s'; expected %s=%s", spec, measure->name, any ? "VALUE" : expected);
        return false;
    }
    double budget;
    if (strcmp(measure->name, "activation_memory_budget") == 0 && !(ech_parse_double(value + 1, &budget, NULL) && budget >= 0 && budget <= 1)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s'; expected a number from 0 to 1", spec);
        return false;
    }
    return true;
}

bool ech_torch_measures_check(const char *specs, GError **error)
{
    g_auto(GStrv) all = g_strsplit(specs, ",", -1);
    if (!all[0])
        return check("", error);
    for (char **spec = all; *spec; spec++) {
        if (!check(*spec, error))
            return false;
        for (char **before = all; before < spec; before++) {
            if (ech_torch_measure_find(*before) != ech_torch_measure_find(*spec))
                continue;
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s is asked for twice", ech_torch_measure_find(*spec)->name);
            return false;
        }
    }
    return true;
}
