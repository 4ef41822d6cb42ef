/* Placement: milliseconds for programs of a given number of instructions, cost analysis left out. The compiler's largest program in the oracle has 400. */
#include "tests/fuzz/place_case.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252;

int main(void)
{
    static const uint32_t sizes[] = {100, 360, 3600};
    for (size_t k = 0; k < G_N_ELEMENTS(sizes); k++) {
        g_autofree uint8_t *bytes = g_malloc(1 << 20);
        for (size_t i = 0; i < 1 << 20; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[i] = (uint8_t)(state >> 24);
        }
        bytes[0] = (uint8_t)(sizes[k] & 255);
        bytes[1] = (uint8_t)(sizes[k] >> 8);
        EchPlaceCase *c = ech_place_case_new(bytes, 1 << 20, 4096);
        EchMsaOptions *o = &c->flow->problem.options;
        EchMsaOptions defaults;
        ech_msa_options_default(&defaults);
        defaults.size = 112 << 20;
        defaults.copy_bytes_per_s = 737e9;
        defaults.picker_bytes = 4 << 20;
        defaults.max_slices = 4;
        *o = defaults;
        double best = 1e9;
        uint32_t stays = 0;
        for (unsigned round = 0; round < 5; round++) {
            gint64 start = g_get_monotonic_time();
            g_autoptr(EchMsaResult) result = ech_msa_run(&c->flow->problem);
            best = MIN(best, (double)(g_get_monotonic_time() - start) / 1e3);
            stays = result->n_stays;
        }
        printf("{\"bench\": \"place\", \"instructions\": %u, \"values\": %u, \"stays\": %u, \"ms\": %.3f, \"goal_ms\": %d}\n", c->n, c->flow->problem.n_values,
               stays, best, c->n <= 500 ? 50 : 1000);
        ech_place_case_free(c);
    }
    return EXIT_SUCCESS;
}
