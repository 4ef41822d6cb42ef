/** @file rocprof.h
 * What rocprofv3 records of AMD GPUs, whichever of its outputs tells it: its database (rocpd.c), its JSON (rocprof_json.c), its tables (rocprof_csv.c). A
 * reader adds records in any order; once all are there they become a capture.
 *
 * Which stream and which event a call was given is not recorded: waits of streams are inferred, what waits for the device waits for all of it, and so does what
 * waits for a stream or an event where a process has one stream. Where kernels are of one stream, their hardware queues are told apart instead.
 */
#pragma once
#include "sim/import/capture.h"

enum { ECH_ROC_PROCESSES = 256, ECH_ROC_DEVICES = 128 };
/** A number that a file does not tell. */
#define ECH_ROC_NONE INT64_MIN

/** CALL: of HIP or HSA. MARK: a range of the program's own. */
typedef enum { ECH_ROC_CALL, ECH_ROC_MARK, ECH_ROC_KERNEL, ECH_ROC_COPY, ECH_ROC_ALLOC, ECH_ROC_FREE, ECH_ROC_KINDS } EchRocKind;

/** A processor. */
typedef struct {
    bool gpu;
    uint32_t device; /**< Which GPU; 0 of a CPU. */
} EchRocAgent;

/** Numbers are ECH_ROC_NONE where not told, but as said. */
typedef struct {
    int64_t start, end;            /**< Nanoseconds of one clock. */
    int64_t call;                  /**< The number that work shares with the call that asked for it. */
    int64_t thread, queue, stream; /**< 0 where not told. */
    int64_t bytes;                 /**< COPY, ALLOC. */
    int64_t address;               /**< ALLOC, FREE. */
    EchId name;                    /**< CALL, MARK, KERNEL: of the builder; a kernel's may be ECH_NONE. */
    EchRocAgent from, to;          /**< COPY. KERNEL, ALLOC: `to` alone. */
    uint32_t items[3], block[3];   /**< KERNEL: work-items of the grid (as HSA counts) and of a block; 0 where not told. */
    uint32_t shared;               /**< KERNEL: bytes a block, or 0. */
    uint8_t process;               /**< Below ECH_ROC_PROCESSES: each has addresses and numbers of calls of its own. */
    uint8_t kind;                  /**< EchRocKind */
} EchRocRecord;

typedef struct EchRocprof EchRocprof;

/** Nothing recorded yet; @format is the reader's name. Borrows @ret. */
EchRocprof *ech_rocprof_new(EchImport *ret, const char *format) G_GNUC_WARN_UNUSED_RESULT;
void ech_rocprof_free(EchRocprof *r);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchRocprof, ech_rocprof_free)
/** For strings and properties. */
EchTraceBuilder *ech_rocprof_builder(EchRocprof *r);
/** A kernel's name as it is shown: without what says that it is a descriptor (".kd", " [clone .kd]"). Of the builder. */
EchId ech_rocprof_kernel_name(EchRocprof *r, const char *name);
/** Calls GPU @device what the machine calls it; empty and overlong names are passed over. */
void ech_rocprof_name_device(EchRocprof *r, uint32_t device, const char *name);
/** A record with nothing told. */
EchRocRecord ech_roc_record(EchRocKind kind);
/** Adds one. */
void ech_rocprof_add(EchRocprof *r, const EchRocRecord *record);
/** Sets the import's trace, with XLA's programs at @beside, NULL: none (xla_programs.h). */
bool ech_rocprof_finish(EchRocprof *r, const char *beside, GError **error);
