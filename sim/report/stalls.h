/** @file stalls.h
 * Inside the kernels of a run: what keeps their compute units from working, tile by tile, as the kernel model has it.
 * Only for TPU programs and tiled products.
 */
#pragma once
#include "models/kernel/stalls.h"
#include "sim/report/report.h"

/** What one kernel spends its time on, by the kernel model. */
typedef struct {
    bool known;       /**< Else nothing below is. */
    bool by_vector;   /**< What computes is not the matrix unit. */
    EchStalls stalls; /**< As the model times it, not as the run does. */
    uint64_t runs;    /**< How often the program runs it. */
    EchBytes vmem;    /**< On-chip bytes of its windows; 0: not known. */
} EchKernelInside;
/** insides[n_ops of the trace], known for those kernels that the run priced by a compiler's estimate or the kernel model; NULL where there is no TPU program
 * for a TPU. g_free. */
EchKernelInside *ech_report_kernel_insides(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;

/** The terminal's table of it, notes in lines of at most @columns; nothing where there is none. */
void ech_report_append_stalls(GString *out, const EchReport *report, unsigned columns);
/** The member "kernel_stalls" of an object that is being built; nothing where there is none. */
void ech_report_build_stalls(JsonBuilder *b, const EchReport *report);
