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
} EchCommName;

/** False where a kernel of that name does not communicate, as far as the name tells. */
bool ech_comm_name(const char *name, EchCommName *ret);
