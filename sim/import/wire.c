#include "sim/import/wire.h"

#include <string.h>

enum { MAX_GROUP_DEPTH = 64 };

EchWire ech_wire_init(const void *data, size_t n)
{
    const uint8_t *bytes = data;
    return (EchWire){.at = bytes, .end = n ? bytes + n : bytes, .begin = bytes};
}

static bool fail(EchWire *wire, const char *what)
{
    if (!wire->bad) {
        wire->bad = true;
        wire->what = what;
        wire->where = wire->at;
    }
    wire->at = wire->end;
    return false;
}

static bool read_varint(EchWire *wire, uint64_t *ret)
{
    uint64_t value = 0;
    const uint8_t *at = wire->at;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (at == wire->end)
            return fail(wire, "varint runs past the end");
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1)
            return fail(wire, "varint of more than 64 bits");
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            wire->at = at;
            *ret = value;
            return true;
        }
    }
    return fail(wire, "varint of more than 10 bytes");
}

static bool read_fixed(EchWire *wire, unsigned n, uint64_t *ret)
{
    if ((size_t)(wire->end - wire->at) < n)
        return fail(wire, "fixed-width number runs past the end");
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)wire->at[i] << (8 * i);
    wire->at += n;
    *ret = value;
    return true;
}

static bool read_field(EchWire *wire, unsigned type, EchWireField *field)
{
    switch (type) {
    case ECH_WIRE_VARINT: return read_varint(wire, &field->value);
    case ECH_WIRE_FIXED64: return read_fixed(wire, 8, &field->value);
    case ECH_WIRE_FIXED32: return read_fixed(wire, 4, &field->value);
    case ECH_WIRE_BYTES: {
        uint64_t size;
        if (!read_varint(wire, &size))
            return false;
        if (size > (uint64_t)(wire->end - wire->at))
            return fail(wire, "length-delimited field longer than its message, or the file is cut");
        field->data = wire->at;
        field->size = (size_t)size;
        wire->at += size;
        return true;
    }
    default: return fail(wire, "unknown wire type");
    }
}

bool ech_wire_next(EchWire *wire, EchWireField *ret)
{
    uint64_t groups[MAX_GROUP_DEPTH];
    unsigned depth = 0;
    while (wire->at < wire->end) {
        uint64_t key;
        if (!read_varint(wire, &key))
            return false;
        uint64_t number = key >> 3;
        unsigned type = (unsigned)(key & 7);
        if (number == 0 || number > 0x1fffffff)
            return fail(wire, "field number out of range");
        if (type == 3) {
            if (depth == MAX_GROUP_DEPTH)
                return fail(wire, "groups nested too deep");
            groups[depth++] = number;
            continue;
        }
        if (type == 4) {
            if (depth == 0 || groups[depth - 1] != number)
                return fail(wire, "end of a group that was not begun");
            depth--;
            continue;
        }
        EchWireField field = {.number = (uint32_t)number, .type = (EchWireType)type};
        if (!read_field(wire, type, &field))
            return false;
        if (depth == 0) {
            *ret = field;
            return true;
        }
    }
    if (depth > 0)
        fail(wire, "group without an end");
    return false;
}

EchWire ech_wire_sub(const EchWire *parent, const EchWireField *field)
{
    if (field->type != ECH_WIRE_BYTES)
        return (EchWire){.at = parent->at, .end = parent->at, .begin = parent->begin, .bad = true, .what = "a message was expected", .where = parent->at};
    return (EchWire){.at = field->data, .end = field->data + field->size, .begin = parent->begin};
}

void ech_wire_join(EchWire *parent, const EchWire *sub)
{
    if (!sub->bad || parent->bad)
        return;
    parent->bad = true;
    parent->what = sub->what;
    parent->where = sub->where;
    parent->at = parent->end;
}

bool ech_wire_ok(const EchWire *wire, const char *where, GError **error)
{
    if (!wire->bad)
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: %s", where, (size_t)(wire->where - wire->begin), wire->what);
    return false;
}

int64_t ech_wire_int(const EchWireField *field)
{
    return (int64_t)field->value;
}

int64_t ech_wire_zigzag(const EchWireField *field)
{
    return (int64_t)((field->value >> 1) ^ (~(field->value & 1) + 1));
}

double ech_wire_double(const EchWireField *field)
{
    if (field->type == ECH_WIRE_FIXED64) {
        double value;
        memcpy(&value, &field->value, sizeof value);
        return value;
    }
    if (field->type == ECH_WIRE_FIXED32) {
        float value;
        uint32_t raw = (uint32_t)field->value;
        memcpy(&value, &raw, sizeof value);
        return (double)value;
    }
    return field->type == ECH_WIRE_VARINT ? (double)(int64_t)field->value : 0.0;
}

EchWire ech_wire_packed(const EchWire *parent, const EchWireField *field)
{
    if (field->type == ECH_WIRE_BYTES)
        return ech_wire_sub(parent, field);
    return (EchWire){.begin = parent->begin, .single = field->value, .has_single = true};
}

bool ech_wire_packed_next(EchWire *packed, uint64_t *ret)
{
    if (packed->has_single) {
        *ret = packed->single;
        packed->has_single = false;
        return true;
    }
    return packed->at < packed->end && read_varint(packed, ret);
}

char *ech_wire_string(const EchWireField *field)
{
    return g_strndup(field->data ? (const char *)field->data : "", field->size);
}
