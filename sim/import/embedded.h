/** @file embedded.h
 * A compiled program inside the trace of a process that ran it, once or many times: what it was lowered to, with the process's own arrays in the place of its
 * arguments and results. Its temporaries in the device's memory are parts of one block, which is there while it runs, as a TPU's runtime has it.
 */
#pragma once
#include "sim/import/import.h"

typedef struct EchEmbedded EchEmbedded;

/** Reads the program at @path (a folder's program.hlo.txt.gz) and lowers it as compiled for @chip, priced on @device (both as for ech_device_load; @device may
 * be NULL: priced on the chip). @temporary: bytes of the block, if more than its temporaries take. What reading it remarks goes to @diag. Owned by the caller.
 */
EchEmbedded *ech_embedded_new(const char *path, const char *name, const char *chip, const char *device, EchBytes temporary, EchDiag *diag,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_embedded_free(EchEmbedded *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchEmbedded, ech_embedded_free)

size_t ech_embedded_n_parameters(const EchEmbedded *self);
size_t ech_embedded_n_results(const EchEmbedded *self);
/** Whether an op of the program allocates result @k: it cannot lie in an argument's place. */
bool ech_embedded_allocates(const EchEmbedded *self, size_t k);
/** Ops that a run appends, at most. */
size_t ech_embedded_n_ops(const EchEmbedded *self);
/** What the lowered trace says of itself: platform, chip, what its estimates are for. Sets those on @builder that it has not. */
void ech_embedded_tell(const EchEmbedded *self, EchTraceBuilder *builder);

/** Where a result of a run comes to lie. */
typedef enum {
    ECH_RESULT_MADE,    /**< The run allocates it. */
    ECH_RESULT_IN_PLACE /**< In the place of an argument, whose buffer it is given as. */
} EchResultPlace;

/** The processes of which this is one: a collective of all of them, outside of loops, meets those of the others that come as the same one in their order, for
 * all run the same programs. */
typedef struct {
    uint64_t n;
    uint64_t met; /**< How often they have met so far. */
} EchEmbeddedRanks;

/** Appends one run to @builder, whose queues by name are in @queues (char * -> id + 1; those that are missing are added). @arguments[n_parameters]: buffers,
 * all live. @results[n_results]: buffers too, of which those that are made here are not live yet and are afterwards. The first op is a WAIT for @after
 * (ECH_NONE: for nothing). Returns its last one, a WAIT for all of it. */
EchId ech_embedded_run(EchEmbedded *self, EchTraceBuilder *builder, EchEmbeddedRanks *ranks, GHashTable *queues, const EchId *arguments, const EchId *results,
                       const EchResultPlace *places, EchId after);
/** The queue of that name in @queues, made if it is not there. */
EchId ech_embedded_queue(EchTraceBuilder *builder, GHashTable *queues, const char *name, EchQueueKind kind);
