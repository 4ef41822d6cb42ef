/** @file anonymize.h
 * A trace that its owner can share. Texts that a person or another program chose become pseudonyms; what predictions rest on stays, so that the copy predicts
 * what the original does. An XLA program is lowered first: this knows traces alone.
 */
#pragma once
#include "sim/base/diag.h"
#include "sim/trace/trace.h"

/** @trace with pseudonyms in place of the names of operations, buffers, queues and pools, and of the files, functions and other frames of stacks. The same text
 * gets the same pseudonym everywhere. A text whose every word is one of XLA's opcodes or of our own readers' ("copy-start.4", "Memcpy HtoD (Pinned -> Device)")
 * stays, unless three numbers in a row may be a date or a machine's address; a kernel's pseudonym says in our words what models/kernel/gpu.h reads of its name
 * ("kernel7 gemm 128x64x32_stage4 half"). Marks of allocators stay, and what steps, optimizers, modules ("nn.Module: module1.3.module2") and nodes of a
 * backward pass are known by; so do PyTorch's operators and files. Properties stay where they are numbers that the importers count, or name hardware. @diag
 * gets what was done, what was left out, and what still tells of the workload. Owned by the caller. */
EchTrace *ech_anonymize(const EchTrace *trace, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** What models/kernel/gpu.h reads of a kernel's name, in words that it reads the same of; appended to @out, each after a space. */
void ech_anonymize_kernel(const char *name, GString *out);
