/** @file steps.h
 * The steps of a recorded program, as its marks tell them (ProfilerStep#3, "step 3", Optimizer.step): how long each takes in the run.
 */
#pragma once
#include "sim/report/report.h"

/** The kernels issued from one mark to the next. A step begins where the one before ended, and ends when all of its kernels and of those before have. */
typedef struct {
    const char *name; /**< The mark's; borrowed from the trace. */
    EchTime start, end;
    EchTime recorded; /**< Between the marks when it was recorded, or as long as the mark itself says; ECH_TIME_NONE where neither is known. */
    uint64_t kernels;
    bool others;       /**< As EchTraceStep has it. */
    EchBytes peak;     /**< Most bytes live in the device's main memory meanwhile; 0 where the run does not tell. */
    EchBytes reserved; /**< Most bytes reserved there meanwhile; likewise. */
} EchStep;
/** In order; NULL and 0 where no two marks of a kind tell steps, or spans were left out of the run. g_free. */
EchStep *ech_report_steps(const EchReport *report, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;

/** The terminal's lines of it, at most @columns wide; nothing where there are none. */
void ech_report_append_steps(GString *out, const EchReport *report, unsigned columns);
/** The member "steps" of an object that is being built; nothing where there are none. */
void ech_report_build_steps(JsonBuilder *b, const EchReport *report);
