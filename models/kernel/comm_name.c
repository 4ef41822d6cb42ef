#include "models/kernel/comm_name.h"

#include <string.h>

/* Parts of names, in lower case, the more particular first. @then: what else must follow it, at most eight letters later. @argument: which argument of the
 * template is the number of GPUs, from 1; 0: none. @steps: in which each GPU reads the others' memory; 0: not so, or not told. */
static const struct {
    const char *part, *then;
    bool known;
    EchComm comm;
    unsigned argument, steps;
} parts[] = {
    /* NCCL and RCCL: ncclKernel_AllReduce_RING_LL_Sum_float (2.10), ncclDevKernel_AllReduce_Sum_bf16_RING_LL (2.19), ncclAllReduceRingLLKernel_sum_f32 (2.4),
     * ncclSymkDevKernel_AllReduce_... (2.27), ncclDevKernel_Generic: NVIDIA/nccl src/device/generate.py, ROCm/rccl likewise. */
    {"ncclallreduce", NULL, true, ECH_COMM_ALL_REDUCE, 0, 0},
    {"nccl", "kernel_allreduce", true, ECH_COMM_ALL_REDUCE, 0, 0},
    {"nccl", "kernel_allgather", true, ECH_COMM_ALL_GATHER, 0, 0},
    {"ncclallgather", NULL, true, ECH_COMM_ALL_GATHER, 0, 0},
    {"nccl", "kernel_reducescatter", true, ECH_COMM_REDUCE_SCATTER, 0, 0},
    {"ncclreducescatter", NULL, true, ECH_COMM_REDUCE_SCATTER, 0, 0},
    {"nccl", "kernel_broadcast", true, ECH_COMM_BROADCAST, 0, 0},
    {"ncclbroadcast", NULL, true, ECH_COMM_BROADCAST, 0, 0},
    {"nccl", "kernel", false, ECH_COMM_PERMUTE, 0, 0}, /* SendRecv: also all-to-all; Reduce; Generic: any */
    {"ncclsendrecv", NULL, false, ECH_COMM_PERMUTE, 0, 0},
    {"mscclkernel", NULL, false, ECH_COMM_PERMUTE, 0, 0},
    /* vLLM, SGLang, AITER: csrc/custom_all_reduce.cuh, <T, ngpus>. */
    {"cross_device_reduce_1stage", NULL, true, ECH_COMM_ALL_REDUCE, 2, 1},
    {"cross_device_reduce_2stage", NULL, true, ECH_COMM_ALL_REDUCE, 2, 2},
    {"cross_device_reduce_", NULL, true, ECH_COMM_ALL_REDUCE, 2, 0},
    /* PyTorch: torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu, <T, alignment, k_world_size>. */
    {"multimem_all_reduce_kernel", NULL, true, ECH_COMM_ALL_REDUCE, 0, 0},
    {"multimem_one_shot_all_reduce_kernel", NULL, true, ECH_COMM_ALL_REDUCE, 0, 0},
    {"one_shot_all_reduce_kernel", NULL, true, ECH_COMM_ALL_REDUCE, 3, 1},
    {"two_shot_all_reduce_kernel", NULL, true, ECH_COMM_ALL_REDUCE, 3, 2},
    {"multimem_all_gather_kernel", NULL, true, ECH_COMM_ALL_GATHER, 0, 0},
    /* TensorRT-LLM, and FlashInfer after it: allReduceFusionKernels.cu, <pattern, T, NRanks, ...>; customAllReduceKernels.cu; moeAllReduceFusionKernels.cu. */
    {"allreduce_fusion_kernel_oneshot", NULL, true, ECH_COMM_ALL_REDUCE, 3, 1},
    {"allreduce_fusion_kernel_twoshot", NULL, true, ECH_COMM_ALL_REDUCE, 3, 2},
    {"allreduce_fusion_kernel_", NULL, true, ECH_COMM_ALL_REDUCE, 3, 0},
    {"oneshotallreduce", NULL, true, ECH_COMM_ALL_REDUCE, 0, 1},
    {"twoshotallreduce", NULL, true, ECH_COMM_ALL_REDUCE, 0, 2},
    {"lamport_style_one_shot_all_reduce", NULL, true, ECH_COMM_ALL_REDUCE, 0, 1},
    {"oneshotallreducefusionkernel", NULL, true, ECH_COMM_ALL_REDUCE, 0, 1},
    /* AMD's quick all-reduce in vLLM and SGLang: csrc/quickreduce. */
    {"allreduce_prototype_", NULL, true, ECH_COMM_ALL_REDUCE, 0, 0},
    /* Anything else of NVSHMEM's, DeepEP's and MSCCL++'s. */
    {"nvshmem", NULL, false, ECH_COMM_PERMUTE, 0, 0},
    {"deep_ep::", NULL, false, ECH_COMM_PERMUTE, 0, 0},
    {"mscclpp", NULL, false, ECH_COMM_PERMUTE, 0, 0},
};

/* Behind @part and @then in @name, which is in lower case. NULL: they are not there. */
static const char *behind(const char *name, const char *part, const char *then)
{
    for (const char *at = name; (at = strstr(at, part)); at++) {
        const char *end = at + strlen(part);
        if (!then)
            return end;
        for (unsigned skipped = 0; skipped <= 8 && *end; skipped++, end++)
            if (g_str_has_prefix(end, then))
                return end + strlen(then);
    }
    return NULL;
}

/* Argument @which of the template behind @text: "<c10::BFloat16, 16, 8>". 0 where it is no number of GPUs. */
static uint32_t argument_of(const char *text, unsigned which)
{
    while (g_ascii_isalnum(*text) || *text == '_')
        text++;
    if (*text != '<')
        return 0;
    unsigned depth = 0, at = 1;
    for (const char *p = text; *p; p++) {
        if (*p == '<' || *p == '(')
            depth++;
        else if (*p == '>' || *p == ')')
            depth--;
        if (depth == 0)
            return 0;
        at += depth == 1 && *p == ',';
        if (at != which || depth != 1 || (*p != ',' && *p != '<'))
            continue;
        guint64 value = g_ascii_strtoull(p + 1, NULL, 10);
        return value >= 2 && value <= 1024 ? (uint32_t)value : 0;
    }
    return 0;
}

bool ech_comm_name(const char *name, EchCommName *ret)
{
    *ret = (EchCommName){0};
    g_autofree char *lower = g_ascii_strdown(name, -1);
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        const char *end = behind(lower, parts[i].part, parts[i].then);
        if (!end)
            continue;
        ret->known = parts[i].known;
        ret->comm = (uint8_t)parts[i].comm;
        ret->steps = (uint8_t)parts[i].steps;
        ret->group = parts[i].argument ? argument_of(end, parts[i].argument) : 0;
        return true;
    }
    return false;
}
