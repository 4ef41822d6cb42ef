/** @file comm_name.h
 * Kernels by which GPUs talk to one another, from their names: NCCL's and RCCL's, PyTorch's on symmetric memory, those that vLLM, SGLang, TensorRT-LLM,
 * FlashInfer and AITER bring with them for small all-reduces.
 */
#pragma once
#include "models/link/link.h"

/** What a name says; 0 where it does not. */
typedef struct {
    bool known;     /**< What it does is known: comm. */
    uint8_t comm;   /**< EchComm */
    uint32_t group; /**< GPUs that take part, where the name is a template's that is made for one number of them. */
    uint8_t steps;  /**< 1 or 2: an all-reduce that reads peers' memory itself, in as many steps; ech_own_reduce_cost(). */
} EchCommName;

/** False where a kernel of that name does not communicate, as far as the name tells. */
bool ech_comm_name(const char *name, EchCommName *ret);
