/** @file onchip.h
 * Rules of on-chip memories: what a kernel's windows leave of vector memory, what a value takes of scalar memory, and how much of a product's block stays in
 * the matrix units' accumulators.
 *
 * Sources: JAX's Pallas TPU guide (tiles of 8 x 128 words, transactions of 4 KiB, scalar memory read 32 bits an instruction), jax/_src/tpu_info.py
 * (accumulators), Jouppi et al., ISCA'17 (TPU v1: 4096 accumulators of 256 32-bit words).
 */
#pragma once
#include "models/device/device.h"

/** Bytes of @n values in scalar memory: a 32-bit word each, whatever their type. */
EchBytes ech_onchip_scalar_bytes(uint64_t n);

/** What a kernel's windows take of a memory and what does not fit. */
typedef struct {
    EchBytes windows; /**< Asked for. */
    EchBytes kept;    /**< What the compiler keeps for them (kernel_reserved). */
    EchBytes spilled; /**< windows - kept, 0 where they fit. */
    EchBytes values;  /**< What is left for values between kernels: available - kept. */
} EchOnchipFit;
EchOnchipFit ech_onchip_fit(const EchMemory *memory, EchBytes windows);

/** A product's result block of @rows x @columns f32 sums against a device's accumulators (memory of that kind; *rows x *columns words). */
typedef struct {
    EchBytes block;   /**< Of the sums. */
    EchBytes held;    /**< In accumulators. */
    EchBytes spilled; /**< Through vector memory, read and written once for every further part of the summed dimension. */
} EchAccumulators;
/** Whole rows of as many columns as the matrix unit has are held or spilled. Without accumulators everything goes through vector memory. */
EchAccumulators ech_onchip_accumulators(const EchDevice *device, uint64_t rows, uint64_t columns);
