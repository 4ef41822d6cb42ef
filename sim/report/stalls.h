/** @file stalls.h
 * Inside the kernels of a run: what keeps their compute units from working, tile by tile, as the kernel model has it. */
#pragma once
#include "models/kernel/stalls.h"
#include "sim/report/report.h"

/** One kernel's row. */
typedef struct {
    const char *name; /**< Borrowed from the trace; NULL: the whole run. */
    EchTime time;     /**< All its runs, alone. */
    uint64_t runs;
    EchStalls stalls; /**< Add up to @time. */
    EchBytes vmem;    /**< On-chip bytes of its windows; 0: not known. */
} EchStallRow;

/** The whole run first, then its kernels, longest first. Only for TPU programs and tiled products; NULL and 0 else. Free with g_free. */
EchStallRow *ech_report_stalls(const EchReport *report, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** The terminal's table of it, notes in lines of at most @columns; nothing where there is none. */
void ech_report_append_stalls(GString *out, const EchReport *report, unsigned columns);
/** The member "kernel_stalls" of an object that is being built; nothing where there is none. */
void ech_report_build_stalls(JsonBuilder *b, const EchReport *report);
