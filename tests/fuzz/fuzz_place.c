/* Any bytes as a program with costs and options: every placement is legal, keeps its limits, and is the same again. */
#include "tests/fuzz/place_case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n > 4096)
        return 0;
    EchPlaceCase *c = ech_place_case_new(data, n, 60);
    g_autoptr(EchMsaResult) result = ech_msa_run(&c->flow->problem);
    g_autoptr(EchMsaResult) again = ech_msa_run(&c->flow->problem);
    char *wrong = ech_place_case_check(&c->flow->problem, result);
    if (wrong != NULL)
        g_error("%s", wrong);
    g_assert(again->n_stays == result->n_stays && again->prefetched == result->prefetched && again->evicted == result->evicted && again->peak == result->peak);
    for (uint32_t s = 0; s < result->n_stays; s++)
        g_assert(again->stays[s].offset == result->stays[s].offset && again->stays[s].start == result->stays[s].start &&
                 again->stays[s].end == result->stays[s].end);
    ech_place_case_free(c);
    return 0;
}
