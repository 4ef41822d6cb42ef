/** @file origins.h
 * Whose the device's time is, where operations say the ranges they were asked for in: modules of a network, steps of optimizers, operators.
 */
#pragma once
#include "sim/report/report.h"

/** Device time by what asked for it: sums over spans, skipped iterations included. */
typedef struct {
    char *name;          /**< "layers.*.mlp (MLP)": numbered layers together; outside of all modules "Optimizer.step#AdamW.step", "aten::cross_entropy_loss". */
    EchTime forward;     /**< Outside of backward passes. */
    EchTime again;       /**< A forward once more, within a backward pass: checkpoints. */
    EchTime backward;    /**< The rest of backward passes. */
    uint64_t operations; /**< Kernels, copies and collectives. */
} EchAsker;
/** Longest first; NULL and 0 where no operation names a module or an optimizer's step. Free with ech_askers_free. */
EchAsker *ech_report_askers(const EchReport *report, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
void ech_askers_free(EchAsker *askers, size_t n);
/** All three together. */
EchTime ech_asker_time(const EchAsker *asker);
/** The member "askers" of an object that is being built; nothing where there are none. */
void ech_report_build_askers(JsonBuilder *b, const EchReport *report);
