#include "sim/replay/price_gpu.h"

#include "sim/base/hash.h"

#include <string.h>

enum { MOST = 1 << 16 }; /* prices kept, about 200 bytes each */

/* All that a kernel's price hangs on; 64 bits each, so nothing lies between them. */
typedef struct {
    const EchDevice *device;
    EchId name, launch;
    uint64_t dtype; /* Of the matrix work, + 1; 0: there is none. */
    EchBytes read, written;
    double operations;
} Key;

typedef struct {
    Key key;
    bool known;
    uint8_t class;    /* EchGpuClass */
    const char *note; /* What is counted of it, or NULL. */
    EchGpuCost cost;
} Priced;

struct EchGpuPricer {
    const EchTrace *trace;
    const EchDevice *compiled_for; /* Or NULL: each device that is asked for. */
    bool tuned_tiles;
    double duty;
    EchDiag *diag;
    EchGpuName **names; /* By string: what a kernel's name says, read when first asked for. */
    GHashTable *priced; /* Priced */
};

static guint hash_priced(gconstpointer data)
{
    return (guint)ech_hash_bytes(data, sizeof(Key));
}

static gboolean equal_priced(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, sizeof(Key)) == 0;
}

EchGpuPricer *ech_gpu_pricer_new(const EchTrace *trace, const EchDevice *compiled_for, bool tuned_tiles, double duty, EchDiag *diag)
{
    EchGpuPricer *pricer = g_new0(EchGpuPricer, 1);
    g_autofree char *lacks = ech_gpu_lacks(compiled_for); /* a number that settings alone say may be one */
    *pricer = (EchGpuPricer){.trace = trace,
                             .compiled_for = g_strcmp0(compiled_for->family, "gpu") == 0 && !lacks ? compiled_for : NULL,
                             .tuned_tiles = tuned_tiles,
                             .duty = duty,
                             .diag = diag,
                             .names = g_new0(EchGpuName *, ech_trace_n_strings(trace) + 1),
                             .priced = g_hash_table_new_full(hash_priced, equal_priced, g_free, NULL)};
    return pricer;
}

void ech_gpu_pricer_free(EchGpuPricer *pricer)
{
    if (!pricer)
        return;
    for (size_t i = 0; i < ech_trace_n_strings(pricer->trace); i++)
        g_free(pricer->names[i]);
    g_free(pricer->names);
    g_hash_table_unref(pricer->priced);
    g_free(pricer);
}

static const EchGpuName *name_of(EchGpuPricer *pricer, EchId id)
{
    EchGpuName **name = &pricer->names[id];
    if (!*name) {
        *name = g_new(EchGpuName, 1);
        ech_gpu_name(ech_trace_string(pricer->trace, id), *name);
    }
    return *name;
}

static bool key_of(const EchGpuPricer *pricer, const EchDevice *device, const EchOp *op, Key *ret)
{
    if (!pricer || op->launch == ECH_NONE || op->name == ECH_NONE || g_strcmp0(device->family, "gpu") != 0)
        return false;
    Key key = {.device = device, .name = op->name, .launch = op->launch};
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(pricer->trace)[u];
        EchBytes *sum = use->access == ECH_WRITE ? &key.written : &key.read;
        *sum = ech_bytes_add(*sum, use->bytes);
    }
    for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++) {
        const EchWork *work = &ech_trace_work(pricer->trace)[w];
        if (work->unit == ECH_WORK_MATRIX) {
            key.operations += (double)work->count;
            key.dtype = work->dtype + UINT64_C(1);
        }
    }
    *ret = key;
    return true;
}

static bool kernel_of(EchGpuPricer *pricer, const Key *key, EchGpuKernel *ret)
{
    EchGpuKernel kernel = {
        .name = *name_of(pricer, key->name), .read = key->read, .written = key->written, .operations = key->operations, .duty = pricer->duty};
    if (!ech_gpu_launch_parse(ech_trace_string(pricer->trace, key->launch), &kernel.launch))
        return false;
    ech_gpu_launch_says(&kernel.launch, &kernel.name);
    if (key->dtype > 0)
        kernel.dtype = ech_dtype_name((EchDtype)(key->dtype - 1));
    if (kernel.launch.kind && kernel.name.arithmetic == ECH_GPU_FMA && g_strcmp0(kernel.dtype, "tf32") == 0)
        kernel.dtype = "f32"; /* what may not be rounded is not for tensor cores */
    *ret = kernel;
    return true;
}

bool ech_gpu_pricer_kernel(EchGpuPricer *pricer, const EchDevice *device, const EchOp *op, EchGpuKernel *ret)
{
    Key key;
    return key_of(pricer, device, op, &key) && kernel_of(pricer, &key, ret);
}

/* A tuner takes what is fastest, so a tile that costs more than this many times the best one was never timed: the compiler's default. */
#define NEVER_TIMED 2.0

/*
 * Whether the product's tile was never timed and the best one is faster, and then its cost with that. The device it was compiled for decides: what a what-if
 * changes of a device changes which tile is how good there, not whether a tuner chose it.
 */
static bool never_timed(const EchGpuPricer *pricer, const EchDevice *device, const EchGpuKernel *kernel, const EchGpuCost *cost, EchGpuCost *ret_best)
{
    EchGpuKernel best = *kernel;
    best.name.tile_m = best.name.tile_n = best.name.tile_k = best.name.stages = 0;
    best.name.arithmetic = kernel->name.arithmetic == ECH_GPU_FMA ? ECH_GPU_FMA : ECH_GPU_WGMMA;
    memset(best.launch.grid, 0, sizeof best.launch.grid);
    memset(best.launch.block, 0, sizeof best.launch.block);
    best.launch.shared = best.launch.registers = 0;
    if (!ech_gpu_kernel_price(device, &best, ret_best) || ret_best->time >= cost->time)
        return false;
    const EchDevice *compiled_for = pricer->compiled_for ? pricer->compiled_for : device;
    EchGpuCost as_written = *cost, as_tuned = *ret_best;
    if (compiled_for != device && (!ech_gpu_kernel_price(compiled_for, kernel, &as_written) || !ech_gpu_kernel_price(compiled_for, &best, &as_tuned)))
        return false;
    return (double)as_written.time > NEVER_TIMED * (double)as_tuned.time;
}

/* Prices what @priced is the key of. */
static void price(EchGpuPricer *pricer, Priced *priced)
{
    const EchDevice *device = priced->key.device;
    EchGpuKernel kernel;
    EchGpuCost *cost = &priced->cost, other;
    bool read = kernel_of(pricer, &priced->key, &kernel);
    /* Its own code says more than its name, but of what tensor cores do in tiles. */
    bool by_code = read && kernel.launch.issued > 0 && kernel.operations == 0;
    priced->known = read && !by_code && ech_gpu_kernel_price(device, &kernel, cost);
    if (!priced->known)
        return;
    priced->class = kernel.name.kind;
    if (kernel.launch.kind == ECH_GPU_SORT && kernel.launch.routine == ECH_GPU_ROUTINE_NONE && kernel.launch.keys > 0 && pricer->tuned_tiles) {
        EchGpuKernel radix = kernel;
        radix.launch.routine = ECH_GPU_RADIX;
        if (ech_gpu_kernel_price(device, &radix, &other) && other.time < cost->time) {
            priced->note = "sorts_as_radix";
            *cost = other;
        }
        return;
    }
    /* What cuDNN's heuristics choose for a convolution no tuner did. */
    bool convolution = kernel.launch.taps > 1 || kernel.launch.filters;
    if (kernel.launch.kind != ECH_GPU_PRODUCT || kernel.launch.tile_m == 0 || convolution || !pricer->tuned_tiles)
        return;
    if (never_timed(pricer, device, &kernel, cost, &other)) {
        priced->note = "products_with_tiles_never_timed";
        *cost = other;
    }
}

bool ech_gpu_pricer_cost(EchGpuPricer *pricer, const EchDevice *device, const EchOp *op, EchGpuCost *ret, uint8_t *ret_class)
{
    Key key;
    if (!key_of(pricer, device, op, &key))
        return false;
    Priced *priced = g_hash_table_lookup(pricer->priced, &key);
    if (!priced) {
        if (g_hash_table_size(pricer->priced) >= MOST)
            g_hash_table_remove_all(pricer->priced);
        priced = g_new0(Priced, 1);
        priced->key = key;
        price(pricer, priced);
        g_hash_table_add(pricer->priced, priced);
    }
    if (!priced->known)
        return false;
    if (priced->note)
        ech_diag_note(pricer->diag, priced->note, 1);
    *ret = priced->cost;
    if (ret_class)
        *ret_class = priced->class;
    return true;
}

/* Prices @kernel, recorded on @reference, as what libraries have for it on either, whose kernels are others. */
static bool models_elsewhere(const EchGpuPricer *pricer, const EchDevice *device, const EchDevice *reference, const EchGpuKernel *kernel, EchGpuCost *here,
                             EchGpuCost *there)
{
    bool lanes = false, unheard = false;
    EchGpuKernel other = *kernel, same = *kernel;
    ech_gpu_kernel_elsewhere(&other, reference, device, &lanes);
    ech_gpu_kernel_elsewhere(&same, reference, reference, &unheard);
    if (!ech_gpu_kernel_price(device, &other, here) || !ech_gpu_kernel_price(reference, &same, there) || there->time <= 0)
        return false;
    if (lanes)
        ech_diag_note(pricer->diag, "products_by_lanes", 1);
    return true;
}

/*
 * The kernel model's times of a kernel here and where it was recorded; false where it does not know it. What was recorded takes longer or shorter than the
 * model says for what the kernel does that the model does not know of, and for what the GPU does. Where libraries have the same kernels for both GPUs
 * (@ret_whole) both are taken to be the same here: the times have one ratio. For others the kernel is another one with the same task, and the GPU another one:
 * half of it, as a factor, is taken to go along. Of operators that the NeuSight artifact times on seven GPUs the ratio is 22, 25, 18, 8 and 5 % off between
 * such (products, batched ones, softmax, layer norms, element-wise), the model alone 16, 19, 12, 5 and 5 %, half of it 16, 19, 14, 6 and 4 %; between two
 * of the same kernels 10, 8, 4, 4 and 4, where the model alone is 12, 19, 13, 8 and 7 % off. Nothing is fitted: it is one half.
 */
bool ech_gpu_pricer_costs(EchGpuPricer *pricer, const EchDevice *device, const EchDevice *reference, const EchOp *op, EchGpuCost *here, EchGpuCost *there,
                          bool *ret_whole)
{
    *ret_whole = ech_gpu_same_kernels(device, reference);
    if (*ret_whole)
        return ech_gpu_pricer_cost(pricer, device, op, here, NULL) && ech_gpu_pricer_cost(pricer, reference, op, there, NULL) && there->time > 0;
    EchGpuKernel kernel;
    return ech_gpu_pricer_kernel(pricer, reference, op, &kernel) && models_elsewhere(pricer, device, reference, &kernel, here, there);
}

/* How much longer a product takes here whose shape is not known: as a large square one in the type that its name says. */
#define SQUARE 4096
static double square_ratio(const EchGpuPricer *pricer, const EchDevice *device, const EchDevice *reference, const EchGpuName *name)
{
    EchGpuCost here, there;
    uint64_t bytes = SQUARE * SQUARE * (uint64_t)MAX(name->element_bytes, 1);
    EchGpuKernel square = {.name = {.kind = ECH_GPU_PRODUCT, .arithmetic = name->arithmetic, .element_bytes = name->element_bytes, .tf32 = name->tf32},
                           .launch = {.batch = 1, .m = SQUARE, .n = SQUARE, .k = SQUARE, .operand_bytes = name->element_bytes},
                           .read = 2 * bytes,
                           .written = bytes};
    return models_elsewhere(pricer, device, reference, &square, &here, &there) ? (double)here.time / (double)there.time : 0;
}

double ech_gpu_pricer_blind_ratio(EchGpuPricer *pricer, const EchDevice *device, const EchDevice *reference, const EchOp *op)
{
    if (pricer && op->name != ECH_NONE) {
        const EchGpuName *name = name_of(pricer, op->name);
        double ratio = name->kind == ECH_GPU_PRODUCT || name->kind == ECH_GPU_ATTENTION ? square_ratio(pricer, device, reference, name) : 0;
        if (ratio > 0)
            return ratio;
    }
    const EchMemory *here = ech_device_memory_kind(device, ECH_MEM_HBM), *there = ech_device_memory_kind(reference, ECH_MEM_HBM);
    return here && there && here->read && there->read ? (double)there->read / (double)here->read : 1;
}
