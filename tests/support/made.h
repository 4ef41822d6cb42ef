/** @file made.h
 * Small traces made by hand, for tests of passes in closed form, on a device where a gigabyte takes 10 ms through the memory.
 */
#pragma once
#include "sim/pass/pass.h"
#include "sim/replay/replay.h"
#include "tests/support/support.h"

#define ECH_TEST_MS INT64_C(1000000000)

/** A buffer of memory "hbm". */
EchId ech_test_buffer(EchTraceBuilder *b, const char *name, EchBytes bytes, EchRole role, bool resident);
/** An op of queue 0. */
EchId ech_test_put(EchTraceBuilder *b, EchOpKind kind, EchId target);
/** Computes for @time (at 10 GFLOP/s of f32), and reads or writes @bytes of a buffer beside that, unless it is ECH_NONE. */
void ech_test_kernel(EchTraceBuilder *b, EchTime time, EchId target, EchAccess access, EchBytes bytes);
EchId ech_test_loop(EchTraceBuilder *b, uint64_t trips);
void ech_test_close_loop(EchTraceBuilder *b, EchId made);
EchTraceBuilder *ech_test_begin(void);
EchTrace *ech_test_finish(EchTraceBuilder *b);
/** Runs passes in order; NULL ends them. */
EchTrace *ech_test_pass(EchTrace *in, const EchDevice *device, EchDiag *diag, const char *const *specs);
/** Most bytes that live in a memory. */
EchBytes ech_test_peak(const EchRun *run, const char *memory);
/** A shipped program ("gpt_offload.v5e"), assigned and lowered for @device. */
EchTrace *ech_test_shipped(const char *program, const EchDevice *device, EchDiag *diag) G_GNUC_WARN_UNUSED_RESULT;
