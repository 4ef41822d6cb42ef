/** @file xplane.h
 * What an XLA profile says, however it is written: the protobuf (xplane.c) and its JSON twin (xplane_json.c) describe their
 * events here, and this makes the trace of them.
 *
 * A TPU core's line is in order. Its copy-starts become COPYs on one queue per direction, its copy-dones become WAITs. A
 * copy's time is recovered from the FIFO of completions: a copy-done that really waited ends when its transfer ends, and the
 * transfer began when it was issued or when the one before it on its queue ended, whichever is later. A copy-done that found its
 * transfer finished tells no time; such copies have a start and no duration (async_copies_of_unknown_end).
 */
#pragma once
#include "models/kernel/gpu.h"
#include "sim/import/capture.h"
#include "sim/import/import.h"

/** One kind of event on a device's line; texts are borrowed for the call. */
typedef struct {
    const char *text; /**< The instruction's HLO text "%name = shape opcode(...)", or just a name. */
    size_t n_text;
    const char *name; /**< Short name; NULL: from the text. */
    size_t n_name;
    const char *category; /**< "hlo_category", may be NULL. */
    size_t n_category;
    EchId stack;           /**< Of the capture's builder, or ECH_NONE. */
    uint64_t flops, bytes; /**< As recorded. */
    bool has_flops, has_bytes, has_traffic;
    uint64_t read, written; /**< Main-memory traffic by the profile's own breakdown, where has_traffic. */
} EchXplaneOp;

typedef struct EchXplane EchXplane;

EchXplane *ech_xplane_new(EchImport *import, const char *format) G_GNUC_WARN_UNUSED_RESULT;
void ech_xplane_free(EchXplane *xplane);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchXplane, ech_xplane_free)
EchCapture *ech_xplane_capture(EchXplane *xplane);
/** Number of a kind of event, for ech_xplane_event. Same text, work and stack: same number. */
uint32_t ech_xplane_kind(EchXplane *xplane, const EchXplaneOp *op);
/** Something ran on a TPU core. */
void ech_xplane_event(EchXplane *xplane, uint32_t device, uint32_t kind, EchTime start, EchTime duration);
/** A named span that costs nothing by itself: a module, a step. */
void ech_xplane_mark(EchXplane *xplane, uint32_t device, const char *line, EchId name, EchTime start, EchTime duration);
/** Makes the trace of it all. */
bool ech_xplane_finish(EchXplane *xplane, GError **error);
/** Ordinal of "/device:TPU:3", false for other planes. *ret_tpu tells TPUs from GPUs. */
bool ech_xplane_device(const char *plane, size_t n, uint32_t *ret_device, bool *ret_tpu);
/** The HloProto of a program that the profile @source holds: @name is its whole name ("jit_step(6643)") or what stands before the number, where one program
 * alone is called so. *ret_name is the whole one, owned by the caller as the bytes are. ECH_ERROR_CONFIG, with the names that there are, where it holds no such
 * one. */
GBytes *ech_xplane_program(EchSource *source, const char *name, char **ret_name, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** What a GPU's kernel was launched with: "regs:40 static_shared:0 dynamic_shared:0 grid:1280,1,1 block:256,1,1 occ_pct:0". False where no grid is told. */
bool ech_xplane_launch(const char *details, size_t n, EchGpuLaunch *ret);
