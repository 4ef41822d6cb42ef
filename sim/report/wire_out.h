/** @file wire_out.h
 * Writing protobuf: fields appended to a GByteArray; messages are written into an array of their own, then appended whole.
 */
#pragma once
#include <glib.h>
#include <stdint.h>
#include <string.h>

/** A number in pieces of seven bits, the lowest first. */
static inline void ech_wire_varint(GByteArray *out, uint64_t value)
{
    guint8 bytes[10];
    guint n = 0;
    do {
        bytes[n] = (guint8)(value & 0x7f);
        value >>= 7;
        if (value)
            bytes[n] |= 0x80;
        n++;
    } while (value);
    g_byte_array_append(out, bytes, n);
}

/** A field that is a number. */
static inline void ech_wire_u64(GByteArray *out, uint32_t field, uint64_t value)
{
    ech_wire_varint(out, (uint64_t)field << 3);
    ech_wire_varint(out, value);
}

/** A field of eight bytes. */
static inline void ech_wire_fixed64(GByteArray *out, uint32_t field, uint64_t value)
{
    ech_wire_varint(out, (uint64_t)field << 3 | 1);
    value = GUINT64_TO_LE(value);
    g_byte_array_append(out, (const guint8 *)&value, sizeof value);
}

/** A field that is data[n]; n is below 4 GiB, as a GByteArray is. */
static inline void ech_wire_bytes(GByteArray *out, uint32_t field, const void *data, size_t n)
{
    ech_wire_varint(out, (uint64_t)field << 3 | 2);
    ech_wire_varint(out, n);
    g_byte_array_append(out, data, (guint)n);
}

/** A field that is text. */
static inline void ech_wire_text(GByteArray *out, uint32_t field, const char *text)
{
    ech_wire_bytes(out, field, text, strlen(text));
}

/** A field that is a message, written into @message before. */
static inline void ech_wire_message(GByteArray *out, uint32_t field, const GByteArray *message)
{
    ech_wire_bytes(out, field, message->data, message->len);
}
