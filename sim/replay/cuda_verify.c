/* Whether buffers that nothing writes are after a replay as they were before it. */
#include "sim/replay/cuda_private.h"

/* Each its own, so that one buffer's is not taken for another's. */
static uint32_t pattern_of(EchId id)
{
    return UINT32_C(0x5ca1ab1e) + id * UINT32_C(0x9e3779b9);
}

/* Whole, aligned words that nothing writes. */
static bool verifiable(const Engine *e, const Place *p)
{
    return e->options->verify && p->live && !p->is_host && !p->written && !p->overlaps && p->bytes >= 4 && p->device % 4 == 0;
}

bool ech_cuda_poison_buffer(Engine *e, EchId id, GError **error)
{
    const Place *p = &e->places[id];
    return !verifiable(e, p) || CU(e, fill, "filling a buffer", error, p->device, pattern_of(id), p->bytes / 4, e->streams[0]);
}

bool ech_cuda_verify_buffers(Engine *e, GError **error)
{
    uint32_t differing = 0;
    EchBytes bytes = 0;
    if (!CU(e, fill, "clearing a counter", error, e->sink, 0, 1, e->streams[0]))
        return false;
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++) {
        const Place *p = &e->places[i];
        if (!verifiable(e, p) || !ech_trace_buffers(e->trace)[i].resident)
            continue;
        uint64_t words = p->bytes / 4;
        bytes = ech_bytes_add(bytes, 4 * words);
        uint32_t pattern = pattern_of(i);
        EchCuPointer data = p->device, counter = e->sink;
        void *parameters[] = {&data, &words, &pattern, &counter};
        if (!ech_cuda_launch(e, e->verify_kernel, (unsigned)e->gpu.multiprocessors * 4, 256, e->streams[0], parameters, error))
            return false;
    }
    if (!CU(e, copy_from_device, "reading a counter", error, &differing, e->sink, sizeof differing, e->streams[0]) ||
        !CU(e, stream_synchronize, "waiting for the GPU", error, e->streams[0]))
        return false;
    e->run->differing += differing;
    e->run->verified = bytes;
    return true;
}
