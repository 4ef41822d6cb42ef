/** @file product.h
 * A tiled matrix product as a workload: `matmul:` of an experiment, in place of a captured program. What a Pallas kernel's author varies (blocks, buffers,
 * element types), on the schedule of emit_pipeline (models/kernel/pipeline.h): every block's copy and every step's product is an operation on the device's
 * ports and units, so that all of the device's settings count.
 */
#pragma once
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/base/param.h"
#include "sim/trace/trace.h"

/** result[m, n] = lhs[m, k] rhs[k, n]. Fill with ech_params_defaults(ech_product_params, &options). */
typedef struct {
    uint64_t m, n, k;
    uint64_t block_m, block_n, block_k; /**< Cut to the array; 0 in any of them: searched (ech_pipeline_search). */
    uint64_t buffers;                   /**< Per input: 1 is no prefetch at all, 2 the usual one, more look further ahead. */
    char *dtype;                        /**< Of the operands: "bf16". */
    char *result;                       /**< Of the result; NULL: as the operands. */
} EchProductOptions;
extern const EchParam ech_product_params[];

/** Whether there can be such a product on @device: its element types are some, and kernels manage their on-chip memory. Errors as below. */
bool ech_product_check(const EchProductOptions *options, const EchDevice *device, GError **error);
/** The trace of a product on a device with on-chip memory that the compiler manages (a TPU). Remarks say what its windows take. ECH_ERROR_CONFIG,
 * ECH_ERROR_UNSUPPORTED. */
EchTrace *ech_product_trace(const EchProductOptions *options, const EchDevice *device, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
