/* Kernels that communicate, by their names as profiles have them. */
#include "models/kernel/comm_name.h"
#include "tests/support/support.h"

static const struct {
    const char *name;
    int comm; /* -1: known to communicate, not how; -2: it does not */
    uint32_t group;
    uint8_t steps;
} names[] = {
    {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ECH_COMM_ALL_REDUCE, 0, 0},
    {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", ECH_COMM_ALL_REDUCE, 0, 0},
    {"ncclAllReduceRingLLKernel_sum_f32(ncclColl)", ECH_COMM_ALL_REDUCE, 0, 0},
    {"ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)", ECH_COMM_ALL_REDUCE, 0, 0},
    {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ECH_COMM_ALL_GATHER, 0, 0},
    {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ECH_COMM_REDUCE_SCATTER, 0, 0},
    {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", -1, 0, 0},
    {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", -1, 0, 0},
    {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)",
     ECH_COMM_ALL_REDUCE, 4, 1},
    {"void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8, false>(aiter::RankData*)", ECH_COMM_ALL_REDUCE, 8, 2},
    {"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)", ECH_COMM_ALL_REDUCE, 0, 0},
    {"void c10d::symmetric_memory::one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)", ECH_COMM_ALL_REDUCE, 8, 1},
    {"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, "
     "__nv_bfloat16, 2, true, true>(flashinfer::trtllm_allreduce_fusion::AllReduceFusionParams<__nv_bfloat16>)",
     ECH_COMM_ALL_REDUCE, 2, 1},
    {"void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8, true>(tensorrt_llm::kernels::AllReduceParams)", ECH_COMM_ALL_REDUCE, 0, 2},
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", -2, 0, 0},
    {"void cross_entropy_reduce<float, 4>(float*)", -2, 0, 0},
    {"cross_device_reduce_1stage<float", ECH_COMM_ALL_REDUCE, 0, 1},
    {"", -2, 0, 0},
};

START_TEST(communicates)
{
    EchCommName name;
    ck_assert_int_eq(ech_comm_name(names[_i].name, &name), names[_i].comm != -2);
    ck_assert_int_eq(name.known, names[_i].comm >= 0);
    if (name.known)
        ck_assert_int_eq(name.comm, names[_i].comm);
    ck_assert_uint_eq(name.group, names[_i].group);
    ck_assert_uint_eq(name.steps, names[_i].steps);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm_name");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, communicates, 0, G_N_ELEMENTS(names));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
