/** @file verify.h
 * The verifier behind ech_trace_builder_finish: invariants V1..V17 of trace.h.
 */
#pragma once
#include "sim/trace/trace.h"

/** True if every invariant holds; otherwise ECH_ERROR_VERIFY: "V6: op 17 (free): ...". O(ops + uses + buffers). */
bool ech_trace_verify(const EchTrace *trace, GError **error);
