/** @file fake_cuda.h
 * The driver that tests load instead of NVIDIA's (tests/gpu/fake), and what it tells of itself.
 */
#pragma once
#include "sim/experiment/calibrate.h"

/** cuBLAS and NVML are in the same file. */
#define ECH_FAKE_CUDA ECH_BINARY_DIR "/tests/libfake_cuda.so"

/** What the fake counts. */
typedef struct {
    long (*held)(void);              /**< Contexts, memory, streams, events, modules taken and not given back. */
    long (*calls)(void);             /**< Calls since the last reset. */
    void (*reset)(void);             /**< Counts calls from 0 again; what is held stays. */
    long (*plain_products)(void);    /**< Matrix products whose operands were not noise. */
    long (*shared_workspaces)(void); /**< Matrix products in a workspace that another queue may still have been using. */
} EchFakeCuda;

/** Makes it the driver of this process; ends the test where it cannot be loaded. @card_bytes: memory of the card in decimal, NULL: the fake's own. */
EchFakeCuda ech_test_fake_cuda(const char *card_bytes);
/** What calibration measures over it; ends the test where that fails. */
EchCalibration *ech_test_calibrate(void) G_GNUC_WARN_UNUSED_RESULT;
