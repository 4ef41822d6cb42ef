/** @file wire.h
 * Protocol-buffer wire format, read in place: no copies, no allocation, every length checked against what is left.
 *
 * A message is a span of bytes. Step through its fields with ech_wire_next; submessages and strings are spans inside the parent's
 * bytes. Unknown fields and groups are skipped by the reader itself. Recursion is the caller's: bound it.
 */
#pragma once
#include "sim/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/** A reader over one message. Plain data: copy it to look ahead. */
typedef struct {
    const uint8_t *at, *end; /**< What is left. */
    const uint8_t *begin;    /**< Start of the whole file, for offsets in messages. */
    bool bad;                /**< Set once malformed bytes were met; stays. */
    const char *what;        /**< Static text: what was malformed, or NULL. */
    const uint8_t *where;    /**< Where. */
    uint64_t single;         /**< ech_wire_packed of a field that was not packed: its one value... */
    bool has_single;         /**< ...while it has not been taken. */
} EchWire;

typedef enum { ECH_WIRE_VARINT = 0, ECH_WIRE_FIXED64 = 1, ECH_WIRE_BYTES = 2, ECH_WIRE_FIXED32 = 5 } EchWireType;

/** One field. */
typedef struct {
    uint32_t number; /**< >= 1 */
    EchWireType type;
    uint64_t value;      /**< VARINT, FIXED32, FIXED64 (raw bits). */
    const uint8_t *data; /**< BYTES: data[size], inside the message. */
    size_t size;
} EchWireField;

EchWire ech_wire_init(const void *data, size_t n);
/** The next field; false at the end of the message or on malformed bytes (then .bad is set). Groups are skipped (nesting at most 64). */
bool ech_wire_next(EchWire *wire, EchWireField *ret);
/** A reader over a BYTES field's contents, keeping file offsets. An empty one for other types, marked bad. */
EchWire ech_wire_sub(const EchWire *parent, const EchWireField *field);
/** Marks @parent bad if @sub is. */
void ech_wire_join(EchWire *parent, const EchWire *sub);
/** False, and ECH_ERROR_PARSE "@where: byte N: ...", if the reader met malformed bytes. */
bool ech_wire_ok(const EchWire *wire, const char *where, GError **error);

/** Values of a field as numbers. */
int64_t ech_wire_int(const EchWireField *field);    /**< int32, int64, bool, enum: two's complement. */
int64_t ech_wire_zigzag(const EchWireField *field); /**< sint32, sint64 */
double ech_wire_double(const EchWireField *field);  /**< FIXED64 as double, FIXED32 as float, VARINT as integer. */
/** A repeated varint field, packed or not: a reader for ech_wire_packed_next, which gives its values until it returns false. */
EchWire ech_wire_packed(const EchWire *parent, const EchWireField *field);
bool ech_wire_packed_next(EchWire *packed, uint64_t *ret);
/** A string field's bytes, NUL-terminated copy; never validated as UTF-8. Owned by the caller. */
char *ech_wire_string(const EchWireField *field) G_GNUC_WARN_UNUSED_RESULT;
