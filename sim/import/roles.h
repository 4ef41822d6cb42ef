/** @file roles.h
 * What the arrays of an eager PyTorch program are, by the ranges that what uses them stands in, where a capture tells both.
 *
 * State lives through a whole step: from one optimizer's step to its next (of several, that which all others step in between), or it is used by an optimizer
 * and never let go; without optimizers, what is there before the first module and is not let go before the last. Of state, what modules read is parameters,
 * what only optimizers use is theirs, what a backward pass writes first are gradients that are kept. Of the rest, what a forward pass makes and a backward pass
 * reads, or lets go unread (autograd saves more than is read), is activations, what a backward pass makes for an optimizer gradients, and what else is given
 * back again, where there are modules at all, temporary. State that neither uses and that the program works on beside weights as large is copies of those. What
 * a server makes within the range of its cache (ranges.h) is that. What is told to be given to modules and no module made is inputs.
 */
#pragma once
#include "sim/trace/trace.h"

/** Sets the roles of @builder's buffers, of which @given (EchId) are given to modules, and adds to the stacks of those that modules make (state: read first)
 * the module: "nn.Module: layers.3.mlp (MLP)". */
void ech_roles_infer(EchTraceBuilder *builder, const GArray *given);
