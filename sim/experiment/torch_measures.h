/** @file torch_measures.h
 * Measures that PyTorch itself, or a library of it, has, and that `echelon capture --pretend --with` applies to a program which asks for none of them
 * (traces/capture/pretend/python/pretend_with.py).
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;    /**< As PyTorch has it: "autocast". */
    const char *values;  /**< What may stand after "=": "bfloat16|float16"; "*": any; NULL: nothing. The first is meant where none is given. */
    bool needs_value;    /**< One has to be given. */
    const char *summary; /**< What it does. */
    const char *in_code; /**< How a program says so. */
} EchTorchMeasure;

/** How a program has checkpoints, with the modules after it, where they are known. */
#define ECH_TORCH_CHECKPOINT "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) for block(x)"
/** How it keeps activations on the host, or none where no backward pass follows, how it has attention without
 * an array of all scores, and an optimizer that takes one kernel. */
#define ECH_TORCH_SAVE_ON_CPU "with torch.autograd.graph.save_on_cpu(pin_memory=True): around the forward pass"
#define ECH_TORCH_NO_GRAD "with torch.no_grad(): around the calls"
#define ECH_TORCH_SDPA "torch.nn.functional.scaled_dot_product_attention (attn_implementation=\"sdpa\" of transformers' from_pretrained, fused_attn of timm)"
#define ECH_TORCH_FUSED "fused=True for the optimizer: torch.optim.AdamW(..., fused=True)"

/** All, @n of them. */
const EchTorchMeasure *ech_torch_measures(size_t *n);
/** The one that "NAME" or "NAME=VALUE" asks for; NULL: there is none of that name. */
const EchTorchMeasure *ech_torch_measure_find(const char *spec);
/** How a program says what @spec asks for, "NAME" or "NAME=VALUE", a measure's; owned by the caller. */
char *ech_torch_measure_code(const char *spec) G_GNUC_WARN_UNUSED_RESULT;
/** Whether @specs, "NAME" and "NAME=VALUE" joined by commas, are all measures with values that they take, each once. ECH_ERROR_CONFIG. */
bool ech_torch_measures_check(const char *specs, GError **error);
