/** @file pytorch.h
 * PYTORCH_CUDA_ALLOC_CONF for whoever reads it besides PyTorch's own allocator.
 */
#pragma once
#include <glib.h>
#include <stdbool.h>

/** What the settings say to another allocator (backend:cudaMallocAsync). */
typedef struct {
    double fraction; /**< per_process_memory_fraction; 0: not given. */
    char *ignored;   /**< Settings of the native allocator among them, "a, b", or NULL; owned by the caller. */
} EchPyTorchConf;

/** Checks @text as PyTorch does. *ret is untouched on failure. ECH_ERROR_CONFIG. */
bool ech_pytorch_conf_read(const char *text, EchPyTorchConf *ret, GError **error);
/** True for the name of a setting. */
bool ech_pytorch_is_setting(const char *name);
