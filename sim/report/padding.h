/** @file padding.h
 * Bytes that padding takes of a memory, buffer by buffer, and what another order of dimensions would take.
 */
#pragma once
#include "sim/replay/replay.h"
#include "sim/trace/trace.h"

#include <json-glib/json-glib.h>

/** One padded buffer. */
typedef struct {
    EchId buffer;
    EchBytes bytes, dense; /**< Padded and unpadded; dense < bytes. */
    EchBytes better_bytes; /**< With the best order of dimensions and the chip's tiles; 0 where no order is better, or the chip's rules are not known. */
    char *better;          /**< Its text, or NULL. */
    unsigned dimension;    /**< Whose padding costs most... */
    uint64_t size, stored; /**< ...its elements, and what they take; 0 where the chip's rules are not known. */
} EchPaddingRow;

typedef struct {
    EchBytes bytes;      /**< Of all buffers looked at whose shape is known. */
    EchBytes padding;    /**< Of them, padding. */
    EchPaddingRow *rows; /**< rows[n_rows], most padding first. */
    size_t n_rows;
} EchPadding;

/** Buffers of a memory; with @run those live at @time, else all. Aliases are left out. */
EchPadding *ech_padding_new(const EchTrace *trace, const char *memory, const EchRun *run, EchTime time) G_GNUC_WARN_UNUSED_RESULT;
void ech_padding_free(EchPadding *padding);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPadding, ech_padding_free)
/** {bytes, padding_bytes, buffers: [{name, shape, bytes, padding_bytes, dimension, size, stored, better, better_bytes}]}, at most @most buffers. */
void ech_padding_json(JsonBuilder *b, const EchTrace *trace, const EchPadding *padding, size_t most);
/** Lines behind @indent: the sum, then at most @most buffers. Nothing where less than a hundredth, or 16 KiB, is padding. */
void ech_padding_text(GString *out, const EchTrace *trace, const EchPadding *padding, size_t most, const char *indent, unsigned columns);
