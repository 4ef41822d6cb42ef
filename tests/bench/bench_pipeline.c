/* Speed of the tile pipeline: one 4096 cubed product at tile fidelity, and a thousand points of a sweep. */
#include "models/kernel/pipeline.h"

#include <stdio.h>

int main(void)
{
    EchPipelineProduct product = {.m = 4096,
                                  .n = 4096,
                                  .k = 4096,
                                  .bits = 16,
                                  .out_bits = 16,
                                  .bm = 128,
                                  .bn = 128,
                                  .bk = 128,
                                  .macs_per_second = 197e12 / 2,
                                  .step_overhead = 330 * ECH_PS_PER_NS,
                                  .read = UINT64_C(819000000000),
                                  .write = UINT64_C(819000000000),
                                  .shared_port = true};
    EchPipelineOperand operands[3];
    EchPipeline pipeline;
    EchPipelineResult result;
    gint64 start = g_get_monotonic_time();
    ech_pipeline_product(&product, operands, &pipeline);
    ech_pipeline_run(&pipeline, &result);
    double one = (double)(g_get_monotonic_time() - start) * 1e-6;
    printf("4096 cubed in blocks of 128 cubed: %" G_GUINT64_FORMAT " steps in %.6f s (%.1f ns a step; goal 0.1 s)\n", result.steps, one,
           one * 1e9 / (double)result.steps);
    start = g_get_monotonic_time();
    unsigned points = 0;
    uint64_t steps = 0;
    for (uint64_t bm = 128; bm <= 1024; bm += 128)
        for (uint64_t bn = 128; bn <= 1024; bn += 128)
            for (uint64_t bk = 256; bk <= 1024; bk *= 2)
                for (uint32_t buffers = 1; buffers <= 6; buffers++, points++) {
                    product.bm = bm;
                    product.bn = bn;
                    product.bk = bk;
                    product.buffers = buffers;
                    ech_pipeline_product(&product, operands, &pipeline);
                    ech_pipeline_run(&pipeline, &result);
                    steps += result.steps;
                }
    double many = (double)(g_get_monotonic_time() - start) * 1e-6;
    printf("%u points (tiles, buffers) of the same product: %.3f s, %" G_GUINT64_FORMAT " steps (goal: 1000 in 10 s)\n", points, many, steps);
    start = g_get_monotonic_time();
    EchPipelineProduct best;
    size_t tried = ech_pipeline_search(&product, UINT64_C(16) << 20, 3, &best, &result);
    printf("search of blocks in 16 MiB: %zu tried in %.3f s, best %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT ", %u buffers\n", tried,
           (double)(g_get_monotonic_time() - start) * 1e-6, best.bm, best.bn, best.bk, best.buffers);
    return 0;
}
