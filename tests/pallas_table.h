/** @file pallas_table.h
 * Matrix products of Pallas on a TPU v5e with published times, and what the tile recurrence says of them. Source: jax docs/pallas/tpu/matmul: step overhead
 * 0.33 us, 0.1 ms of Python dispatch a call. */
#pragma once
#include "models/kernel/pipeline.h"

typedef struct {
    uint64_t size, bm, bk, bn; /* size cubed, in blocks */
    double seconds;
} PallasRow;

static const PallasRow pallas_rows[] = {{1024, 128, 128, 128, 2.97666e-4},   {4096, 128, 128, 128, 1.177152e-2},  {8192, 128, 128, 128, 9.183577e-2},
                                        {1024, 512, 1024, 1024, 1.27087e-4}, {4096, 512, 1024, 1024, 8.89088e-4}, {8192, 512, 1024, 1024, 6.099434e-3}};

/** Seconds, dispatch included. */
static double pallas_predicted(const PallasRow *row)
{
    EchPipelineProduct product = {.m = row->size,
                                  .n = row->size,
                                  .k = row->size,
                                  .bits = 16,
                                  .out_bits = 16,
                                  .bm = row->bm,
                                  .bn = row->bn,
                                  .bk = row->bk,
                                  .macs_per_second = 197e12 / 2,
                                  .step_overhead = 330 * ECH_PS_PER_NS,
                                  .read = UINT64_C(819000000000),
                                  .write = UINT64_C(819000000000),
                                  .shared_port = true};
    EchPipelineOperand operands[3];
    EchPipeline pipeline;
    EchPipelineResult result;
    ech_pipeline_product(&product, operands, &pipeline);
    ech_pipeline_run(&pipeline, &result);
    return (double)result.total * 1e-12 + 1e-4;
}
