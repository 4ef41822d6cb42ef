/* Kernels of a program compiled for a GPU against XLA's own estimates of them. */
#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/experiment/validate.h"
#include "sim/replay/price.h"

#include <string.h>

/* XLA's cost models by their names in backend_config, the one made for a kind of kernel before the general one: products of Triton, tiles of Triton, all else.
 * Its bound ("sol") is no estimate. (openxla/xla, service/gpu/model: gpu_cost_model_stats_collection.cc writes them.) */
static const struct {
    const char *name, *words;
} models[] = {
    {"experimental-gemm-cost-model", "XLA's model of products"},
    {"indexing-cost-model", "XLA's model of tiles"},
    {"", "XLA's general model"},
};

typedef struct {
    EchTime time; /* ECH_TIME_NONE: none */
    unsigned model;
} Estimate;

static EchTime microseconds(const char *text, size_t n)
{
    char copy[40];
    if (n == 0 || n >= sizeof copy)
        return ECH_TIME_NONE;
    memcpy(copy, text, n);
    copy[n] = '\0';
    char *end;
    double ps = g_ascii_strtod(copy, &end) * 1e6;
    return *end == '\0' && ps >= 1 && ps < 9e18 ? (EchTime)ps : ECH_TIME_NONE;
}

/* "reification_cost":[{"exec_time_us":100.3,...,"name":""},...] */
static Estimate estimate_of(const EchInstruction *i)
{
    Estimate found = {ECH_TIME_NONE, G_N_ELEMENTS(models)};
    size_t n, length;
    const char *text = ech_program_config(i, "reification_cost", &n), *end = text ? text + n : NULL;
    for (const char *open = text ? memchr(text, '{', n) : NULL, *close; open; open = memchr(close, '{', (size_t)(end - close))) {
        close = memchr(open, '}', (size_t)(end - open));
        if (!close)
            break;
        size_t size = (size_t)(++close - open);
        const char *time = ech_program_config_member(open, size, "exec_time_us", &length);
        EchTime estimate = time ? microseconds(time, length) : ECH_TIME_NONE;
        const char *name = ech_program_config_member(open, size, "name", &length);
        for (unsigned m = 0; name && estimate != ECH_TIME_NONE && m < found.model; m++)
            if (strlen(models[m].name) == length && memcmp(models[m].name, name, length) == 0)
                found = (Estimate){estimate, m};
    }
    return found;
}

/* Instructions' names to their kernels; a value is the op's index + 1. */
static GHashTable *kernels_by_name(const EchTrace *trace)
{
    GHashTable *by_name = g_hash_table_new(ech_hash_text, g_str_equal);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind == ECH_OP_KERNEL && op->name != ECH_NONE)
            g_hash_table_insert(by_name, (char *)(uintptr_t)ech_trace_string(trace, op->name), GSIZE_TO_POINTER(i + 1));
    }
    return by_name;
}

static EchBytes bytes_of(const EchTrace *trace, const EchOp *op)
{
    EchBytes bytes = 0;
    for (uint32_t u = 0; u < op->n_uses; u++)
        bytes = ech_bytes_add(bytes, ech_trace_uses(trace)[op->first_use + u].bytes);
    return bytes;
}

EchValidation *ech_validate_gpu_program(EchProgram *program, const EchDevice *device, GError **error)
{
    if (!ech_validate_is_of_kind(ECH_PLATFORM_GPU, device, error))
        return NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    if (!program->assignment) {
        EchProgramAssignment *made = ech_program_assign(program, 0, diag, error);
        if (!made)
            return NULL;
        ech_program_set_assignment(program, made, "made by echelon");
    }
    const EchLowerOptions lowering = {0};
    g_autoptr(EchTrace) trace = ech_program_lower(program, device, &lowering, diag, error);
    if (!trace)
        return NULL;
    /* As written, and without the start of a kernel, as XLA counts. */
    const EchPriceOptions options = {.kernel_time = ECH_KERNEL_TIME_MODEL};
    g_autoptr(EchPrices) prices = ech_prices_new(trace, device, NULL, &options, diag);
    g_autoptr(GHashTable) by_name = kernels_by_name(trace);
    g_autoptr(GArray) pairs = g_array_new(FALSE, TRUE, sizeof(EchValidatePair));
    double measured = 0, predicted = 0;
    uint64_t without = 0;
    const char *first_without = NULL;
    for (size_t f = 0; f < program->n_flat; f++) {
        const EchInstruction *at = &program->instructions[program->flat[f]];
        size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(by_name, at->name));
        if (found == 0)
            continue;
        const EchOp *op = &ech_trace_ops(trace)[found - 1];
        const EchPrice *price = &prices->prices[found - 1];
        Estimate estimate = estimate_of(at);
        if (estimate.time == ECH_TIME_NONE) {
            without++;
            first_without = first_without ? first_without : at->name;
            continue;
        }
        const char *class = price->source == ECH_PRICE_MODEL ? ech_gpu_class_name((EchGpuClass)price->kernel_class) : ech_price_name(price->source);
        EchValidatePair pair = {
            .name = g_strdup(at->name),
            .kind = g_strdup("kernel"),
            .group = g_strdup_printf("%s, %s", class, models[estimate.model].words),
            .how = ech_price_name(price->source),
            .start = ECH_TIME_NONE,
            .bytes = bytes_of(trace, op),
            .measured = estimate.time,
            .predicted = price->alone,
        };
        double runs = (double)ech_program_runs(program, at->computation);
        measured += runs * (double)pair.measured;
        predicted += runs * (double)pair.predicted;
        g_array_append_val(pairs, pair);
    }
    if (pairs->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "%s: no kernel of the program carries XLA's estimate (reification_cost in its backend_config); compile with "
                    "xla_gpu_collect_cost_model_stats=true, as traces/capture/compile.py does",
                    program->name ? program->name : "program");
        return NULL;
    }
    EchValidation *validation = g_new0(EchValidation, 1);
    validation->makespan_measured = ech_time_round(measured);
    validation->makespan_predicted = ech_time_round(predicted);
    validation->estimated = true;
    validation->subject = g_strdup("XLA's own estimates (reification_cost)");
    validation->notes = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(validation->notes, g_strdup("No clock measured any of this. XLA counts operations and bytes at the rates of the chip it compiled for, no "
                                                "waiting for memory; agreement says that "
                                                "echelon reads shapes and bytes as the compiler does, and where the two differ neither is shown to be right."));
    g_ptr_array_add(validation->notes, g_strdup("Neither side has the start of a kernel here; 'echelon run' adds runtime.launch_ps to each."));
    g_ptr_array_add(validation->notes,
                    g_strdup("Products of Triton are in the tiles that the program says, on both sides; 'echelon run' takes a tile that no timing "
                             "would have chosen for the best one (replay.tuned_tiles)."));
    if (without > 0) {
        validation->gaps = g_new0(EchValidateGap, 1);
        validation->n_gaps = 1;
        validation->gaps[0] = (EchValidateGap){.kind = "kernel", .reason = "XLA gives no estimate", .example = g_strdup(first_without), .count = without};
    }
    validation->n_pairs = pairs->len;
    validation->pairs = (EchValidatePair *)(void *)g_array_free(g_steal_pointer(&pairs), FALSE);
    return validation;
}
