/** @file writers.h
 * Traces in the formats of other tools: what was recorded, as a timeline or a profile; what is allocated, as lifetimes; the graph, as an execution trace.
 *
 * To add one: a row in writers.c with a function that makes the file's bytes.
 */
#pragma once
#include "sim/report/report.h"

typedef struct {
    const char *name;    /**< What --to takes: "ech", "chrome", "perfetto", "pprof", "minimalloc", "chakra". */
    const char *endings; /**< File endings that choose it, separated by blanks; ".gz" after any of them packs. */
    const char *summary; /**< One sentence. */
    /** The file. @title names the trace; what is lost or had to be inferred goes to @diag as remarks. ECH_ERROR_UNSUPPORTED where the trace has nothing for
     * this format. */
    GBytes *(*write)(const EchTrace *trace, const char *title, EchDiag *diag, GError **error);
} EchTraceWriter;

const EchTraceWriter *ech_trace_writers(size_t *ret_n);
/** The writer called @name, or, where that is NULL, the one that the ending of @path chooses. ECH_ERROR_CONFIG naming what there is. */
const EchTraceWriter *ech_trace_writer_find(const char *name, const char *path, GError **error);

/** The recordings of a trace as a run: spans where starts were recorded, occupancy in the order of the allocations; nothing of it is simulated. Without
 * recorded starts the operations' numbers stand for nanoseconds and there are no spans. */
EchRun *ech_recorded_run(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;

/** Chakra's execution trace: a node per kernel, copy and collective, loops unrolled (at most @max_nodes nodes, else ECH_ERROR_UNSUPPORTED), the order of queues
 * and the dependencies as data dependencies, buffers as storages. Allocations have no nodes. */
GByteArray *ech_report_chakra(const EchTrace *trace, size_t max_nodes, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
