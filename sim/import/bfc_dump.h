/** @file bfc_dump.h
 * What the BFC allocator of XLA and TensorFlow logs when it is out of memory: bins, every chunk of every region, sums and statistics. A part of the reader of
 * pasted messages (out_of_memory.c), which gives it the log line by line.
 *
 * Grammar: DumpMemoryLog of bfc_allocator.cc, from TensorFlow 0.8 ("Chunk at 0x...", no regions) to OpenXLA of 2026 ("tag", "allocation_annotation").
 */
#pragma once
#include "sim/import/import.h"

typedef struct EchBfcDump EchBfcDump;

/** @where: of the text, for messages; must outlive it. Owned by the caller. */
EchBfcDump *ech_bfc_dump_new(const char *where) G_GNUC_WARN_UNUSED_RESULT;
void ech_bfc_dump_free(EchBfcDump *dump);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchBfcDump, ech_bfc_dump_free)

/** Takes a line of @n bytes without its log prefix and without blanks around it; *ret_taken: it was one of a dump. The first dump counts; what comes after it,
 * or between its lines from another allocator's, is told apart by the addresses. ECH_ERROR_PARSE where there are too many chunks. */
bool ech_bfc_dump_line(EchBfcDump *dump, const char *text, size_t n, bool *ret_taken, GError **error);
/** Whether anything was read that tells how much is in use. */
bool ech_bfc_dump_tells(const EchBfcDump *dump);
/** Whether it is known what was asked for. */
bool ech_bfc_dump_asks(const EchBfcDump *dump);
/** Number of requests refused of which the caller says that it can do without. */
uint64_t ech_bfc_dump_optional(const EchBfcDump *dump);
/** Puts what is in use into @builder as resident buffers, at their addresses where those are known, the request as an allocation and the sums as properties;
 * says in @import what it comes to. @explained: why there was no room is said elsewhere. */
void ech_bfc_dump_write(EchBfcDump *dump, EchTraceBuilder *builder, EchImport *import, bool explained);
/** Says what was refused, and no more. */
void ech_bfc_dump_say_request(const EchBfcDump *dump, EchDiag *diag);
