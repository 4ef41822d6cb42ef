/** @file validate_cuda.h
 * Predicted against measured on a GPU that is here: one experiment predicted by the native engine and replayed by the CUDA engine.
 *
 * Nothing here says how well predictions do in general: a result holds for the GPU, the driver and the device file it names.
 */
#pragma once
#include "sim/experiment/experiment.h"
#include "sim/replay/cuda.h"

/** One op of the trace, its instances together. */
typedef struct {
    EchId op;
    const char *kind;  /**< "copy"; "kernel": its bytes or operations were done; "spin": only waited for, says nothing about the model; "collective". */
    EchTime measured;  /**< Median over the repeats. */
    EchTime low, high; /**< 95 % confidence interval of the median. */
    EchTime predicted;
    uint64_t instances;
} EchCudaPair;

/** One queue of the trace. */
typedef struct {
    EchId queue;
    uint64_t ops;
    EchTime measured, predicted; /**< Time its operations took. */
} EchCudaQueue;

typedef struct {
    EchResult *result; /**< The experiment's case: trace, devices. */
    EchTrace *trace;   /**< What was replayed and predicted: the case's, or scaled to the GPU's memory. */
    EchRun *predicted;
    EchCudaRun *measured;
    char *options; /**< Of the CUDA engine, key=value. */
    uint64_t warmups;
    EchCudaPair *pairs; /**< pairs[n_pairs], in the trace's order. */
    size_t n_pairs;
    EchCudaQueue *queues; /**< queues[n_queues]: those with a pair. */
    size_t n_queues;
    double products_duty; /**< 0..1: part of the time, with what lies between replays, in which large bf16 products would draw the power of those that ran. */
    EchBytes memory_predicted; /**< Device memory reserved at most. */
    EchBytes memory_measured;  /**< The same of the driver; of the arena's extent, or of the pool, where that is who allocates. */
} EchCudaValidation;

/** True where the driver and GPU @ordinal are there; else ECH_ERROR_BACKEND says what is missing. */
bool ech_cuda_present(uint64_t ordinal, GError **error);
/** Predicts and measures the one case of @experiment. @spec: options of the CUDA engine, "key=value,key=value" or NULL. @repeats: 0 leaves the option as it is.
 * @allocator: the experiment's, or NULL: "platform" is cuMemAlloc, "cuda_async" cuMemAllocAsync, "vmm" is mapped memory, any other an arena. */
EchCudaValidation *ech_validate_cuda(EchExperiment *experiment, const char *spec, uint64_t repeats, const char *allocator,
                                     GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_cuda_validation_free(EchCudaValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchCudaValidation, ech_cuda_validation_free)

/** Mean absolute relative error of the pairs of @kind that move or do something ("copy", "kernel", NULL: both) and took any time; -1 without any.
 * @least_bytes: only copies of at least that many bytes. */
double ech_cuda_validation_mape(const EchCudaValidation *validation, const char *kind, EchBytes least_bytes);
/** Of the same pairs, half of what lies between the ends of a median's confidence interval, over the median: what may be off of a prediction that is right. */
double ech_cuda_validation_interval(const EchCudaValidation *validation, const char *kind, EchBytes least_bytes);
/** For a terminal, and as one JSON document with the documented names; both end with a newline. Owned by the caller. */
char *ech_cuda_validation_text(const EchCudaValidation *validation) G_GNUC_WARN_UNUSED_RESULT;
char *ech_cuda_validation_json(const EchCudaValidation *validation) G_GNUC_WARN_UNUSED_RESULT;
