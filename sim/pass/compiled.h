/** @file compiled.h
 * Programs of PyTorch that torch.compile compiled, for passes that treat each module by itself.
 */
#pragma once
#include "sim/pass/survey.h"

/** Whether an op of a forward pass was compiled in a graph that is called within the module whose line in its stack @module is: that module by itself. */
bool ech_compiled_is_within(const EchSurvey *survey, EchId op, const char *module);
/** Whether it was compiled in a graph that is called around the module. */
bool ech_compiled_is_beside(const EchSurvey *survey, EchId op, const char *module);
/** The trace in which modules whose path fits one of the patterns @modules (ECH_MODULES_OR between them), and that were compiled, stand apart, as a compiler
 * would have them that compiles one at a time: each result lies in a buffer of its own, where it took that of one that nobody read any more, or changed it in
 * place; and gradients are computed in the backward pass of their own module, where they were left for the end. Owned: another reference to @trace where it has
 * no such modules; NULL and *@error where it cannot be written. */
EchTrace *ech_compiled_apart(EchTrace *trace, const EchDevice *device, const char *modules, GError **error) G_GNUC_WARN_UNUSED_RESULT;
