/** @file lifetime.h
 * Lifetimes of buffers in program order (event indices, no clock): intervals, live curve, pressure, lower bound.
 */
#pragma once
#include "sim/trace/trace.h"

/** One allocation's life: half-open [begin, end) in op indices; end is n_ops where it is never freed. */
typedef struct {
    EchId buffer;
    uint32_t begin, end;
    EchBytes bytes;
} EchLifetime;

typedef struct {
    EchLifetime *items; /**< items[n], in order of begin */
    size_t n;
    EchBytes peak;     /**< Most bytes live at once: no allocator needs less. */
    uint32_t peak_at;  /**< Op index where it is first reached. */
    EchBytes end_live; /**< Live after the last op. */
    EchBytes total;    /**< Sum over all allocations. */
} EchLifetimes;

/** Lifetimes of the buffers of @memory (ECH_NONE: all). Loop bodies count once (their buffers are live for the body).
 * Aliases have none. Owned by the caller. */
EchLifetimes *ech_lifetimes_new(const EchTrace *trace, EchId memory) G_GNUC_WARN_UNUSED_RESULT;
void ech_lifetimes_free(EchLifetimes *lifetimes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchLifetimes, ech_lifetimes_free)
