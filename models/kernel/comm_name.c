#include "models/kernel/comm_name.h"

#include <string.h>

/* Parts of names, in lower case, the more particular first. @argument: which argument of the template is the number of GPUs, from 1; 0: none. */
static const struct {
    const char *part;
    bool known;
    EchComm comm;
    unsigned argument;
} parts[] = {
    /* NCCL and RCCL: ncclKernel_AllReduce_RING_LL_Sum_float (2.10), ncclDevKernel_AllReduce_Sum_bf16_RING_LL (2.19), ncclAllReduceRingLLKernel_sum_f32 (2.4),
     * ncclSymkDevKernel_AllReduce_... (2.27), ncclDevKernel_Generic: NVIDIA/nccl src/device/generate.py, ROCm/rccl likewise. */
    {"ncclallreduce", true, ECH_COMM_ALL_REDUCE, 0},
    {"nccl*kernel_allreduce", true, ECH_COMM_ALL_REDUCE, 0},
    {"nccl*kernel_allgather", true, ECH_COMM_ALL_GATHER, 0},
    {"ncclallgather", true, ECH_COMM_ALL_GATHER, 0},
    {"nccl*kernel_reducescatter", true, ECH_COMM_REDUCE_SCATTER, 0},
    {"ncclreducescatter", true, ECH_COMM_REDUCE_SCATTER, 0},
    {"nccl*kernel_broadcast", true, ECH_COMM_BROADCAST, 0},
    {"ncclbroadcast", true, ECH_COMM_BROADCAST, 0},
    {"nccl*kernel", false, ECH_COMM_PERMUTE, 0}, /* SendRecv: also all-to-all; Reduce; Generic: any */
    {"ncclsendrecv", false, ECH_COMM_PERMUTE, 0},
    {"mscclkernel", false, ECH_COMM_PERMUTE, 0},
    /* vLLM, SGLang, AITER: csrc/custom_all_reduce.cuh, <T, ngpus>. */
    {"cross_device_reduce_", true, ECH_COMM_ALL_REDUCE, 2},
    /* PyTorch: torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu, <T, alignment, k_world_size>. */
    {"multimem_all_reduce_kernel", true, ECH_COMM_ALL_REDUCE, 0},
    {"multimem_one_shot_all_reduce_kernel", true, ECH_COMM_ALL_REDUCE, 0},
    {"one_shot_all_reduce_kernel", true, ECH_COMM_ALL_REDUCE, 3},
    {"two_shot_all_reduce_kernel", true, ECH_COMM_ALL_REDUCE, 3},
    {"multimem_all_gather_kernel", true, ECH_COMM_ALL_GATHER, 0},
    /* TensorRT-LLM, and FlashInfer after it: allReduceFusionKernels.cu, <pattern, T, NRanks, ...>; customAllReduceKernels.cu; moeAllReduceFusionKernels.cu. */
    {"allreduce_fusion_kernel_", true, ECH_COMM_ALL_REDUCE, 3},
    {"oneshotallreduce", true, ECH_COMM_ALL_REDUCE, 0},
    {"twoshotallreduce", true, ECH_COMM_ALL_REDUCE, 0},
    {"lamport_style_one_shot_all_reduce", true, ECH_COMM_ALL_REDUCE, 0},
    {"oneshotallreducefusionkernel", true, ECH_COMM_ALL_REDUCE, 0},
    /* AMD's quick all-reduce in vLLM and SGLang: csrc/quickreduce. */
    {"allreduce_prototype_", true, ECH_COMM_ALL_REDUCE, 0},
    /* Anything else of NVSHMEM's, DeepEP's and MSCCL++'s. */
    {"nvshmem", false, ECH_COMM_PERMUTE, 0},
    {"deep_ep::", false, ECH_COMM_PERMUTE, 0},
    {"mscclpp", false, ECH_COMM_PERMUTE, 0},
};

/* Where @part begins in @name, in any case; its '*' stands for up to eight letters. NULL: nowhere. */
static const char *find(const char *name, const char *part, const char **ret_end)
{
    for (const char *at = name; *at; at++) {
        const char *p = part, *q = at;
        while (*p && *p != '*' && *q && g_ascii_tolower(*q) == *p)
            p++, q++;
        for (unsigned skipped = 0; *p == '*' && skipped <= 8 && *q; skipped++, q++) {
            size_t n = strlen(p + 1);
            if (g_ascii_strncasecmp(q, p + 1, n) == 0) {
                p += n + 1;
                q += n;
                break;
            }
        }
        if (!*p) {
            *ret_end = q;
            return at;
        }
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
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        const char *end;
        if (!find(name, parts[i].part, &end))
            continue;
        ret->known = parts[i].known;
        ret->comm = (uint8_t)parts[i].comm;
        ret->group = parts[i].argument ? argument_of(end, parts[i].argument) : 0;
        return true;
    }
    return false;
}
