/* HloProto and HloModuleProto. Attributes become HLO text (hlo_proto_text.h).
 * Field numbers: openxla/xla xla/service/hlo.proto and xla/xla_data.proto. */
#include "sim/import/hlo.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/hlo_proto_text.h"
#include "sim/import/hlo_source.h"
#include "sim/import/wire.h"

#include <math.h>
#include <string.h>

enum { MAX_SHAPE_DEPTH = 64, MAX_REPEATED = 256 << 20 };

typedef struct {
    const uint8_t *data;
    size_t size;
} Span;

typedef struct {
    uint64_t id;
    Span span;
    Span schedule; /* packed instruction ids; empty where there is none */
    bool scheduled;
} Computation;

typedef struct {
    const char *where;
    EchWire file;
    EchProgramBuilder *builder;
    EchDiag *diag;
    GArray *computations;     /* Computation */
    GHashTable *by_id;        /* int64 -> computation + 1 */
    GHashTable *instructions; /* int64 id -> EchId + 1 */
    GHashTable *shapes;       /* GBytes -> EchId + 1 */
    GPtrArray *ids;           /* owned int64 keys */
    GArray *payloads;         /* EchWireField: backend configurations that instructions name by number */
    size_t repeated;          /* Bytes of payloads that were named so far. */
    Span alias, assignment, donors;
    EchHloFrames *frames;
} Reader;

static bool fail(const Reader *r, const uint8_t *at, GError **error, const char *what)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: %s", r->where, (size_t)(at - r->file.begin), what);
    return false;
}

static EchWire wire_of(const Reader *r, Span span)
{
    EchWire wire = r->file;
    wire.at = span.data;
    wire.end = span.size > 0 ? span.data + span.size : span.data;
    wire.bad = false;
    return wire;
}

static Span span_of(const EchWireField *field)
{
    return (Span){field->data, field->type == ECH_WIRE_BYTES ? field->size : 0};
}

enum { TYPE_TUPLE = 13, TYPE_BUFFER = 34 };

/* PrimitiveType numbers. */
static const char *const dtype_names[] = {
    [1] = "pred",
    [2] = "s8",
    [3] = "s16",
    [4] = "s32",
    [5] = "s64",
    [6] = "u8",
    [7] = "u16",
    [8] = "u32",
    [9] = "u64",
    [10] = "f16",
    [11] = "f32",
    [12] = "f64",
    [13] = "tuple",
    [14] = "opaque",
    [15] = "c64",
    [16] = "bf16",
    [17] = "token",
    [18] = "c128",
    [19] = "f8e5m2",
    [20] = "f8e4m3fn",
    [21] = "s4",
    [22] = "u4",
    [23] = "f8e4m3b11fnuz",
    [24] = "f8e5m2fnuz",
    [25] = "f8e4m3fnuz",
    [26] = "s2",
    [27] = "u2",
    [28] = "f8e4m3",
    [29] = "f8e3m4",
    [30] = "s1",
    [31] = "u1",
    [32] = "f4e2m1fn",
    [33] = "f8e8m0fnu",
    [35] = "f6e3m2fn",
    [36] = "f6e2m3fn",
};

static bool read_tile(const EchWire *parent, const EchWireField *field, EchLayout *layout)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    EchTile tile = {0};
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        EchWire packed = ech_wire_packed(&wire, &f);
        uint64_t value;
        while (ech_wire_packed_next(&packed, &value)) {
            int64_t size = (int64_t)value;
            if (tile.rank == G_N_ELEMENTS(tile.dims) || (size < 1 && size != ECH_LAYOUT_COMBINE))
                return false;
            tile.dims[tile.rank++] = size;
        }
    }
    if (wire.bad || tile.rank == 0 || layout->n_tiles == ECH_LAYOUT_MAX_TILES)
        return false;
    layout->tiles[layout->n_tiles++] = tile;
    return true;
}

static bool read_split(const EchWire *parent, const EchWireField *field, EchLayout *layout)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    EchSplit split = {0};
    uint64_t value;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1)
            split.dim = (uint8_t)MIN(f.value, 255);
        else if (f.number == 2) {
            EchWire packed = ech_wire_packed(&wire, &f);
            while (ech_wire_packed_next(&packed, &value)) {
                if (split.n == ECH_LAYOUT_MAX_SPLITS)
                    return false;
                split.at[split.n++] = value;
            }
        }
    }
    if (wire.bad || split.dim >= layout->rank || layout->n_splits == ECH_LAYOUT_MAX_SPLITS)
        return false;
    for (uint8_t k = 0; k < split.n; k++) {
        if (split.at[k] > layout->dims[layout->order[layout->rank - 1 - split.dim]] || (k > 0 && split.at[k] < split.at[k - 1]))
            return false;
    }
    layout->splits[layout->n_splits++] = split;
    return true;
}

static bool read_layout(const EchWire *parent, const EchWireField *field, EchLayout *layout)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    uint64_t value;
    uint8_t n = 0;
    uint32_t seen = 0;
    while (ech_wire_next(&wire, &f)) {
        switch (f.number) {
        case 1: {
            EchWire packed = ech_wire_packed(&wire, &f);
            while (ech_wire_packed_next(&packed, &value)) {
                if (value >= layout->rank || n == layout->rank || (seen & (UINT32_C(1) << value)))
                    return false;
                seen |= UINT32_C(1) << value;
                layout->order[n++] = (uint8_t)value;
            }
            break;
        }
        case 6:
            if (!read_tile(&wire, &f, layout))
                return false;
            break;
        case 7: layout->element_bits = (uint16_t)MIN(f.value, 1024); break;
        case 8: layout->space = (int32_t)MIN(f.value, INT16_MAX); break;
        case 15: layout->dynamic_prefix = MIN(f.value, INT32_MAX); break;
        case 16: layout->tail_alignment = CLAMP(f.value, 1, INT32_MAX); break;
        case 17:
            if (!read_split(&wire, &f, layout))
                return false;
            break;
        default: break;
        }
    }
    layout->has_layout = true;
    return !wire.bad && (n == layout->rank || n == 0);
}

static bool read_shape(Reader *r, Span span, unsigned depth, EchId *ret, GError **error);

static bool read_shape_fresh(Reader *r, Span span, unsigned depth, EchId *ret, GError **error)
{
    EchWire wire = wire_of(r, span);
    EchWireField f, layout_field = {0};
    EchLayout layout = {.tail_alignment = 1};
    g_autoptr(GArray) members = g_array_new(FALSE, FALSE, sizeof(EchId));
    uint64_t type = 0, value;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 2)
            type = f.value;
        else if (f.number == 3) {
            EchWire packed = ech_wire_packed(&wire, &f);
            while (ech_wire_packed_next(&packed, &value)) {
                if (layout.rank == ECH_LAYOUT_MAX_RANK)
                    return fail(r, span.data, error, "a shape of more than 32 dimensions");
                layout.dims[layout.rank++] = value > INT64_MAX ? 0 : value;
            }
        } else if (f.number == 4) {
            EchId member;
            if (depth == MAX_SHAPE_DEPTH || f.type != ECH_WIRE_BYTES)
                return fail(r, span.data, error, "a tuple shape nested too deep");
            if (!read_shape(r, span_of(&f), depth + 1, &member, error))
                return false;
            g_array_append_val(members, member);
        } else if (f.number == 5)
            layout_field = f;
    }
    if (!ech_wire_ok(&wire, r->where, error))
        return false;
    if (type == TYPE_BUFFER && members->len == 1) /* JAX's pin: the array, where it stays as long as it is one */
        *ret = g_array_index(members, EchId, 0);
    else if (type == TYPE_TUPLE)
        *ret = ech_program_builder_tuple(r->builder, (const EchId *)(void *)members->data, members->len);
    else {
        if (type >= G_N_ELEMENTS(dtype_names) || !dtype_names[type]) {
            /* A newer type: its width is what the layout says, a byte otherwise. */
            ech_diag_note(r->diag, "unknown_element_types", 1);
            type = 6;
        }
        g_strlcpy(layout.dtype, dtype_names[type], sizeof layout.dtype);
        int bits = ech_layout_dtype_bits(layout.dtype, strlen(layout.dtype));
        layout.bits = bits > 0 && bits < 8 ? 8 : (uint16_t)MAX(bits, 0);
        for (uint8_t k = 0; k < layout.rank; k++)
            layout.order[k] = (uint8_t)(layout.rank - 1 - k);
        if (layout_field.number != 0 && !read_layout(&wire, &layout_field, &layout))
            return fail(r, layout_field.data ? layout_field.data : span.data, error, "a layout that does not fit its shape");
        *ret = ech_program_builder_array(r->builder, &layout);
    }
    return *ret != ECH_NONE || fail(r, span.data, error, "too many shapes, or a tuple of too many members");
}

static bool read_shape(Reader *r, Span span, unsigned depth, EchId *ret, GError **error)
{
    g_autoptr(GBytes) key = g_bytes_new_static(span.data, span.size);
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(r->shapes, key));
    if (found > 0) {
        *ret = (EchId)(found - 1);
        return true;
    }
    if (!read_shape_fresh(r, span, depth, ret, error))
        return false;
    g_hash_table_insert(r->shapes, g_steal_pointer(&key), GSIZE_TO_POINTER((size_t)*ret + 1));
    return true;
}

static void put_id(Reader *r, GHashTable *table, uint64_t id, size_t value)
{
    int64_t *key = g_new(int64_t, 1);
    *key = (int64_t)id;
    g_ptr_array_add(r->ids, key);
    g_hash_table_insert(table, key, GSIZE_TO_POINTER(value + 1));
}

static EchId get_id(GHashTable *table, uint64_t id)
{
    int64_t key = (int64_t)id;
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(table, &key));
    return found > 0 ? (EchId)(found - 1) : ECH_NONE;
}

/* Ids are unique in the module (2024), or (computation id << 32 | local id), or local. */
static EchId find_instruction(const Reader *r, uint64_t computation, uint64_t id)
{
    EchId found = get_id(r->instructions, id);
    if (found == ECH_NONE)
        found = get_id(r->instructions, computation << 32 | (id & UINT32_MAX));
    return found != ECH_NONE ? found : get_id(r->instructions, id & UINT32_MAX);
}

static EchId find_computation(const Reader *r, uint64_t id)
{
    EchId found = get_id(r->by_id, id);
    return found != ECH_NONE ? found : get_id(r->by_id, id & UINT32_MAX);
}

/* Instructions */

enum { MAX_LITERAL = 65536 }; /* elements kept of a constant array; larger ones nobody asks for */

/* The one floating-point number that a field of a LiteralProto holds, if it is whole: f32s 8, f64s 9, f16s 11, bf16s 13, little endian. Text has it without a
 * point, and so without its type too. */
static bool whole_number(const EchWireField *f, int64_t *ret)
{
    double value = NAN;
    uint64_t bits = 0;
    for (size_t k = 0; k < MIN(f->size, sizeof bits); k++)
        bits |= (uint64_t)f->data[k] << (8 * k);
    if (f->type != ECH_WIRE_BYTES)
        return false;
    if (f->number == 9 && f->size == 8)
        memcpy(&value, &bits, sizeof value);
    else if ((f->number == 8 && f->size == 4) || (f->number == 13 && f->size == 2)) {
        uint32_t single = (uint32_t)bits << (f->number == 13 ? 16 : 0);
        float narrow;
        memcpy(&narrow, &single, sizeof narrow);
        value = narrow;
    } else if (f->number == 11 && f->size == 2) {
        int exponent = (int)(bits >> 10 & 31);
        double part = exponent > 0 ? 1 + (double)(bits & 1023) / 1024 : (bits & 1023) > 0 ? NAN : 0;
        value = exponent == 31 ? NAN : ldexp(bits >> 15 != 0 ? -part : part, exponent - 15);
    }
    if (!(fabs(value) < 1e6) || value != floor(value))
        return false;
    *ret = (int64_t)value;
    return true;
}

/* Elements that a field of a LiteralProto holds, as text: preds 2, s32s 4, s64s 5, u32s 6, u64s 7 in varints; u8s 3, s8s 15 a byte each; u16s 16 and s16s 17
 * two. Of floating-point numbers a lone whole one. */
static size_t literal_values(const EchWire *wire, const EchWireField *f, GString *text)
{
    size_t n = 0;
    uint64_t value;
    int64_t whole;
    if (f->number == 2 || (f->number >= 4 && f->number <= 7)) {
        EchWire packed = ech_wire_packed(wire, f);
        for (; ech_wire_packed_next(&packed, &value) && n <= MAX_LITERAL; n++)
            g_string_append_printf(text, "%s%" G_GINT64_FORMAT, text->len > 1 ? ", " : "", f->number == 4 ? (int32_t)(uint32_t)value : (int64_t)value);
    } else if (f->type == ECH_WIRE_BYTES && (f->number == 3 || f->number == 15)) {
        for (; n < f->size && n <= MAX_LITERAL; n++)
            g_string_append_printf(text, "%s%d", text->len > 1 ? ", " : "", f->number == 3 ? f->data[n] : (int8_t)f->data[n]);
    } else if (f->type == ECH_WIRE_BYTES && (f->number == 16 || f->number == 17)) {
        for (; n < f->size / 2 && n <= MAX_LITERAL; n++) {
            uint16_t both = (uint16_t)(f->data[2 * n] | f->data[2 * n + 1] << 8);
            g_string_append_printf(text, "%s%d", text->len > 1 ? ", " : "", f->number == 16 ? both : (int16_t)both);
        }
    } else if (whole_number(f, &whole)) {
        g_string_append_printf(text, "%" G_GINT64_FORMAT, whole);
        n = 1;
    }
    return n;
}

/* A constant's elements in the form of HLO text, without the braces between its rows. */
static void read_literal(Reader *r, const EchWire *parent, const EchWireField *field, EchInstruction *instruction)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    g_autoptr(GString) text = g_string_new("{");
    size_t n = 0;
    while (n <= MAX_LITERAL && ech_wire_next(&wire, &f))
        n += literal_values(&wire, &f, text);
    if (n > 0 && n <= MAX_LITERAL) {
        g_string_append_c(text, '}');
        g_autoptr(GBytes) kept = g_bytes_new(text->str, text->len); /* where programs that are made of this one find it, too */
        ech_program_builder_keep(r->builder, kept);
        instruction->literal = g_bytes_get_data(kept, NULL);
        instruction->literal_n = (uint32_t)text->len;
    }
}

/* OpMetadata: 2 op_name, 3 source_file, 4 source_line, 12 deduplicated_name, 15 stack_frame_id */
static void read_metadata(Reader *r, const EchWire *parent, const EchWireField *field, EchInstruction *instruction)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, file = {0};
    uint64_t frame = 0, line = 0;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 2 && f.type == ECH_WIRE_BYTES && f.size > 0 && !instruction->op_name)
            instruction->op_name = ech_program_builder_string(r->builder, (const char *)f.data, (gssize)f.size);
        else if (f.number == 3 && f.type == ECH_WIRE_BYTES)
            file = f;
        else if (f.number == 4)
            line = f.value;
        else if (f.number == 12 && f.type == ECH_WIRE_BYTES && f.size > 0)
            instruction->twin = ech_program_builder_string(r->builder, (const char *)f.data, (gssize)f.size);
        else if (f.number == 15)
            frame = f.value;
    }
    instruction->source =
        frame > 0 ? ech_hlo_frames_text(r->frames, r->builder, frame) : ech_hlo_line_text(r->frames, r->builder, (const char *)file.data, file.size, line);
}

/* StackFrameIndexProto: 1 file names, 2 function names, 3 locations {1 file, 2 function, 3 line}, 4 frames {1 location, 2 parent} */
static void read_frames(Reader *r, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, g;
    while (ech_wire_next(&wire, &f)) {
        if (f.type != ECH_WIRE_BYTES)
            continue;
        uint64_t row[4] = {0};
        EchWire sub = ech_wire_sub(&wire, &f);
        while (f.number >= 3 && ech_wire_next(&sub, &g)) {
            if (g.number < G_N_ELEMENTS(row))
                row[g.number] = g.value;
        }
        switch (f.number) {
        case 1: ech_hlo_frames_file(r->frames, (const char *)f.data, f.size); break;
        case 2: ech_hlo_frames_function(r->frames, (const char *)f.data, f.size); break;
        case 3: ech_hlo_frames_location(r->frames, row[1], row[2], row[3]); break;
        case 4: ech_hlo_frames_frame(r->frames, row[1], row[2]); break;
        default: break;
        }
    }
}

static bool read_references(Reader *r, const Computation *computation, const EchWire *parent, const EchWireField *field, GError **error)
{
    EchWire packed = ech_wire_packed(parent, field);
    uint64_t id;
    while (ech_wire_packed_next(&packed, &id)) {
        if (field->number == 38) {
            EchId called = find_computation(r, id);
            if (called == ECH_NONE)
                return fail(r, parent->at, error, "a called computation that is not in the module");
            ech_program_builder_called(r->builder, called);
            continue;
        }
        EchId other = find_instruction(r, computation->id, id);
        if (other == ECH_NONE && field->number == 37) {
            ech_diag_dropped(r->diag, "unknown_control_predecessors", 1, "%s", r->where);
            continue;
        }
        if (other == ECH_NONE)
            return fail(r, parent->at, error, "an operand that is not defined before its use");
        if (field->number == 36)
            ech_program_builder_operand(r->builder, other);
        else
            ech_program_builder_control(r->builder, other);
    }
    return !packed.bad || fail(r, parent->at, error, "a malformed list of ids");
}

static bool is_scalar(const Reader *r, EchId shape)
{
    const EchProgram *p = ech_program_builder_peek(r->builder);
    return !p->shapes[shape].is_tuple && p->layouts[p->shapes[shape].layout].rank == 0;
}

/* A backend configuration that is given here (Payload.value), or by its number among the module's (Payload.id): as the field that it has been so far. */
static EchWireField payload_of(Reader *r, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, config = {0};
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1)
            config = f;
        else if (f.number == 2 && f.value < r->payloads->len && r->repeated < MAX_REPEATED) {
            config = g_array_index(r->payloads, EchWireField, f.value);
            r->repeated += config.size;
        } else if (f.number == 2)
            ech_diag_dropped(r->diag, "backend_configurations_left_out", 1, "%s", r->where);
    }
    config.number = 43;
    return config;
}

static bool read_instruction(Reader *r, const Computation *computation, uint64_t root, Span span, GError **error)
{
    const EchWire whole = wire_of(r, span);
    EchWire wire = whole;
    EchWireField f;
    EchInstruction instruction = {.number = -1, .shape = ECH_NONE, .name = "", .opcode_name = ""};
    g_autoptr(GString) attributes = g_string_new(NULL);
    uint32_t listed = 0;
    while (ech_wire_next(&wire, &f)) {
        switch (f.number) {
        case 1: instruction.name = ech_program_builder_string(r->builder, f.data ? (const char *)f.data : "", (gssize)f.size); break;
        case 2:
            instruction.opcode = (uint16_t)ech_hlo_parse(f.data ? (const char *)f.data : "", f.size);
            instruction.opcode_name = instruction.opcode != ECH_HLO_UNKNOWN
                                          ? ech_hlo_name((EchHlo)instruction.opcode)
                                          : ech_program_builder_string(r->builder, f.data ? (const char *)f.data : "", (gssize)f.size);
            break;
        case 3:
            if (f.type != ECH_WIRE_BYTES || !read_shape(r, span_of(&f), 0, &instruction.shape, error))
                return f.type == ECH_WIRE_BYTES ? false : fail(r, span.data, error, "a shape was expected");
            break;
        case 7: read_metadata(r, &wire, &f, &instruction); break;
        case 8: read_literal(r, &wire, &f, &instruction); break;
        case 9:
            if (instruction.number < 0)
                instruction.number = ech_wire_int(&f);
            break;
        case 11: instruction.fusion_kind = f.size > 1 ? f.data[1] : 0; break;
        case 13:
            if (instruction.number < 0)
                instruction.number = ech_wire_int(&f);
            break;
        case 28: instruction.target = ech_program_builder_string(r->builder, f.data ? (const char *)f.data : "", (gssize)f.size); break;
        case 35: instruction.id = f.value; break;
        default: break;
        }
        EchWireField config = f.number == 99 ? payload_of(r, &wire, &f) : f;
        ech_hlo_append_attribute(attributes, &whole, &wire, &config, &listed);
    }
    if (!ech_wire_ok(&wire, r->where, error))
        return false;
    if (instruction.shape == ECH_NONE)
        return fail(r, span.data, error, "an instruction without a shape");
    if (instruction.literal && is_scalar(r, instruction.shape)) { /* its number alone, as from text */
        instruction.has_literal = ech_program_numbers(instruction.literal, instruction.literal_n, &instruction.number, 1) == 1;
        instruction.literal = NULL;
        instruction.literal_n = 0;
    }
    /* proto3 leaves zeros out. */
    if ((instruction.opcode == ECH_HLO_PARAMETER || instruction.opcode == ECH_HLO_GET_TUPLE_ELEMENT) && instruction.number < 0)
        instruction.number = 0;
    instruction.is_root = instruction.id == root || (instruction.id & UINT32_MAX) == root || instruction.id == (computation->id << 32 | root);
    instruction.attributes = ech_program_builder_string(r->builder, attributes->str, (gssize)attributes->len);
    instruction.attributes_n = (uint32_t)attributes->len;
    EchId id = ech_program_builder_instruction(r->builder, instruction);
    put_id(r, r->instructions, instruction.id, id);
    EchWireField condition = {0};
    wire = wire_of(r, span);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 38 && instruction.opcode == ECH_HLO_WHILE)
            condition = f;
        if (f.number >= 36 && f.number <= 38 && !read_references(r, computation, &wire, &f, error))
            return false;
    }
    /* A while lists its body first; the model has the condition first. */
    EchProgram *p = ech_program_builder_peek(r->builder);
    EchInstruction *made = &p->instructions[id];
    if (condition.number != 0 && made->n_called == 2) {
        EchId body = p->called[made->first_called];
        p->called[made->first_called] = p->called[made->first_called + 1];
        p->called[made->first_called + 1] = body;
    }
    return true;
}

typedef struct {
    uint64_t id;
    Span span;
} Raw;

static bool read_computation(Reader *r, const Computation *computation, GError **error)
{
    EchWire wire = wire_of(r, computation->span);
    EchWireField f;
    const char *name = "", *thread = NULL;
    uint64_t root = 0;
    g_autoptr(GArray) raw = g_array_new(FALSE, FALSE, sizeof(Raw));
    g_autoptr(GHashTable) index = g_hash_table_new(ech_hash_int64, g_int64_equal);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1)
            name = ech_program_builder_string(r->builder, f.data ? (const char *)f.data : "", (gssize)f.size);
        else if (f.number == 2 && f.type == ECH_WIRE_BYTES) {
            Raw one = {0, span_of(&f)};
            EchWire sub = ech_wire_sub(&wire, &f);
            EchWireField g;
            while (ech_wire_next(&sub, &g)) {
                if (g.number == 35)
                    one.id = g.value;
            }
            if (!ech_wire_ok(&sub, r->where, error))
                return false;
            g_array_append_val(raw, one);
        } else if (f.number == 6)
            root = f.value;
        else if (f.number == 8 && f.size > 0)
            thread = ech_program_builder_string(r->builder, (const char *)f.data, (gssize)f.size);
    }
    if (!ech_wire_ok(&wire, r->where, error))
        return false;
    EchId id = ech_program_builder_computation(r->builder, name);
    ech_program_builder_peek(r->builder)->computations[id].thread = thread && strcmp(thread, "main") != 0 ? thread : NULL;
    if (!computation->scheduled) {
        for (guint k = 0; k < raw->len; k++) {
            if (!read_instruction(r, computation, root, g_array_index(raw, Raw, k).span, error))
                return false;
        }
        return true;
    }
    for (guint k = 0; k < raw->len; k++) {
        int64_t *key = g_new(int64_t, 2);
        key[0] = (int64_t)g_array_index(raw, Raw, k).id;
        key[1] = key[0] & UINT32_MAX;
        g_ptr_array_add(r->ids, key);
        g_hash_table_insert(index, &key[1], GUINT_TO_POINTER(k + 1));
        g_hash_table_insert(index, &key[0], GUINT_TO_POINTER(k + 1));
    }
    wire = wire_of(r, computation->schedule);
    uint64_t next;
    g_autofree bool *seen = g_new0(bool, raw->len + 1);
    while (ech_wire_packed_next(&wire, &next)) {
        int64_t full = (int64_t)next, local = full & UINT32_MAX;
        guint found = GPOINTER_TO_UINT(g_hash_table_lookup(index, &full));
        if (found == 0)
            found = GPOINTER_TO_UINT(g_hash_table_lookup(index, &local));
        if (found == 0 || seen[found - 1])
            return fail(r, computation->span.data, error, "a schedule that names an unknown instruction, or one twice");
        seen[found - 1] = true;
        if (!read_instruction(r, computation, root, g_array_index(raw, Raw, found - 1).span, error))
            return false;
    }
    for (guint k = 0; k < raw->len; k++) {
        if (!seen[k])
            return fail(r, computation->span.data, error, "a schedule that leaves an instruction out");
    }
    return !wire.bad || fail(r, computation->span.data, error, "a malformed schedule");
}

/* Module */

static void read_schedule(Reader *r, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, g;
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        EchWire entry = ech_wire_sub(&wire, &f);
        uint64_t id = 0;
        Span sequence = {0};
        while (ech_wire_next(&entry, &g)) {
            if (g.number == 1)
                id = g.value;
            else if (g.number == 2) {
                EchWire ids = ech_wire_sub(&entry, &g);
                EchWireField h;
                while (ech_wire_next(&ids, &h)) {
                    if (h.number == 1 && h.type == ECH_WIRE_BYTES)
                        sequence = span_of(&h);
                }
            }
        }
        EchId c = find_computation(r, id);
        if (c == ECH_NONE || !sequence.data)
            continue;
        Computation *computation = &g_array_index(r->computations, Computation, c);
        computation->schedule = sequence;
        computation->scheduled = true;
        ech_program_builder_peek(r->builder)->scheduled = true;
    }
}

/* HloInputOutputAliasProto: entries {1 output index, 2 parameter, 3 parameter index, 4 kind} */
static void read_aliases(Reader *r)
{
    EchProgram *p = ech_program_builder_peek(r->builder);
    if (!r->alias.data || p->entry == ECH_NONE)
        return;
    EchWire wire = wire_of(r, r->alias);
    EchWireField f, g;
    EchId root = p->computations[p->entry].root;
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(p);
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        EchWire entry = ech_wire_sub(&wire, &f);
        int64_t out[16], in[16];
        size_t n_out = 0, n_in = 0;
        EchDonation donation = {0};
        while (ech_wire_next(&entry, &g)) {
            uint64_t value;
            EchWire packed = ech_wire_packed(&entry, &g);
            if (g.number == 1) {
                while (ech_wire_packed_next(&packed, &value) && n_out < G_N_ELEMENTS(out))
                    out[n_out++] = (int64_t)value;
            } else if (g.number == 2)
                donation.parameter = ech_wire_int(&g);
            else if (g.number == 3) {
                while (ech_wire_packed_next(&packed, &value) && n_in < G_N_ELEMENTS(in))
                    in[n_in++] = (int64_t)value;
            }
        }
        donation.output_position = root == ECH_NONE ? UINT32_MAX : ech_program_index_position(p, p->instructions[root].shape, out, n_out);
        donation.parameter_position = ech_program_parameter_position(p, parameters, donation.parameter, in, n_in);
        if (donation.output_position != UINT32_MAX && donation.parameter_position != UINT32_MAX)
            ech_program_builder_donation(r->builder, donation);
    }
}

/* HloBufferDonorProto: entries {1 parameter, 2 index in its shape} */
static void settle_donors(Reader *r, EchProgram *p)
{
    g_autoptr(GArray) donors = g_array_new(FALSE, FALSE, sizeof(EchHloDonor));
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(p);
    EchWire wire = wire_of(r, r->donors);
    EchWireField f, g;
    while (r->donors.data && ech_wire_next(&wire, &f)) {
        if (f.number != 1 || f.type != ECH_WIRE_BYTES)
            continue;
        int64_t number = 0, in[16];
        size_t n = 0;
        EchWire entry = ech_wire_sub(&wire, &f);
        while (ech_wire_next(&entry, &g)) {
            uint64_t value;
            EchWire packed = ech_wire_packed(&entry, &g);
            if (g.number == 1)
                number = ech_wire_int(&g);
            while (g.number == 2 && n < G_N_ELEMENTS(in) && ech_wire_packed_next(&packed, &value))
                in[n++] = (int64_t)value;
        }
        const EchHloDonor donor = {number, ech_program_parameter_position(p, parameters, number, in, n)};
        g_array_append_val(donors, donor);
    }
    if (p->scheduled)
        ech_hlo_remark_donors(p, (const EchHloDonor *)(const void *)donors->data, donors->len, r->diag);
    else
        ech_hlo_pair_donors(p, (const EchHloDonor *)(const void *)donors->data, donors->len);
}

/* ProgramShapeProto: parameters are its fields 1, the result its field 2. */
static void read_entry_layout(Reader *r, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    g_autoptr(GArray) parameters = g_array_new(FALSE, FALSE, sizeof(EchId));
    EchId sides[2] = {ECH_NONE, ECH_NONE};
    bool ok = true;
    while (ok && ech_wire_next(&wire, &f)) {
        EchId shape = ECH_NONE;
        if (f.type != ECH_WIRE_BYTES || (f.number != 1 && f.number != 2))
            continue;
        ok = read_shape(r, span_of(&f), 0, &shape, NULL);
        if (f.number == 2)
            sides[1] = shape;
        else
            g_array_append_val(parameters, shape);
    }
    sides[0] = ok ? ech_program_builder_tuple(r->builder, (const EchId *)(const void *)parameters->data, parameters->len) : ECH_NONE;
    EchId both = ok && sides[0] != ECH_NONE && sides[1] != ECH_NONE ? ech_program_builder_tuple(r->builder, sides, 2) : ECH_NONE;
    if (both == ECH_NONE)
        ech_diag_note(r->diag, "entry_layouts_not_understood", 1);
    else
        ech_program_builder_peek(r->builder)->entry_layout = both;
}

static bool read_module(Reader *r, Span module, GError **error)
{
    EchWire wire = wire_of(r, module);
    EchWireField f, schedule = {0}, assignment = {0}, layout = {0};
    uint64_t entry = 0;
    bool has_entry = false;
    EchProgram *p = ech_program_builder_peek(r->builder);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1 && f.type == ECH_WIRE_BYTES)
            p->name = ech_program_builder_string(r->builder, (const char *)f.data, (gssize)f.size);
        else if (f.number == 3 && f.type == ECH_WIRE_BYTES) {
            Computation computation = {.span = span_of(&f)};
            EchWire sub = ech_wire_sub(&wire, &f);
            EchWireField g;
            while (ech_wire_next(&sub, &g)) {
                if (g.number == 5)
                    computation.id = g.value;
            }
            ech_wire_join(&wire, &sub);
            if (get_id(r->by_id, computation.id) != ECH_NONE)
                return fail(r, f.data, error, "a second computation of one id: is the file two modules, one after the other?");
            put_id(r, r->by_id, computation.id, r->computations->len);
            g_array_append_val(r->computations, computation);
        } else if (f.number == 6) {
            entry = f.value;
            has_entry = true;
        } else if (f.number == 4 && f.type == ECH_WIRE_BYTES)
            layout = f;
        else if (f.number == 7)
            schedule = f;
        else if (f.number == 8)
            r->alias = span_of(&f);
        else if (f.number == 15)
            assignment = f;
        else if (f.number == 17)
            read_frames(r, &wire, &f);
        else if (f.number == 18)
            r->donors = span_of(&f);
        else if (f.number == 22)
            g_array_append_val(r->payloads, f);
    }
    if (!ech_wire_ok(&wire, r->where, error))
        return false;
    if (r->computations->len == 0)
        return fail(r, module.data, error, "a module without computations");
    if (assignment.number != 0) {
        EchWire sub = ech_wire_sub(&wire, &assignment);
        while (ech_wire_next(&sub, &f)) {
            if (f.number == 1)
                p->replicas = (uint32_t)CLAMP(f.value, 1, INT32_MAX);
            else if (f.number == 2)
                p->partitions = (uint32_t)CLAMP(f.value, 1, INT32_MAX);
        }
    }
    if (schedule.number != 0)
        read_schedule(r, &wire, &schedule);
    for (guint c = 0; c < r->computations->len; c++) {
        Computation computation = g_array_index(r->computations, Computation, c);
        if (!read_computation(r, &computation, error))
            return false;
    }
    p = ech_program_builder_peek(r->builder);
    p->entry = has_entry ? find_computation(r, entry) : (EchId)p->n_computations - 1;
    read_aliases(r);
    if (!p->scheduled && layout.number != 0)
        read_entry_layout(r, &wire, &layout);
    return true;
}

/* Buffer assignment */

typedef struct {
    EchId value;
    EchBytes bytes;
    uint32_t allocation;
} Logical;

static EchId read_logical_value(const Reader *r, const EchProgram *p, GHashTable *names, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    EchId instruction = ECH_NONE;
    int64_t index[16];
    size_t n = 0;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 2 && f.size > 0) {
            g_autofree char *name = ech_wire_string(&f);
            size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(names, name));
            if (found > 0)
                instruction = (EchId)(found - 1);
        } else if (f.number == 3) {
            EchWire packed = ech_wire_packed(&wire, &f);
            uint64_t value;
            while (ech_wire_packed_next(&packed, &value) && n < G_N_ELEMENTS(index))
                index[n++] = (int64_t)value;
        } else if (f.number == 4 && instruction == ECH_NONE)
            instruction = find_instruction(r, 0, f.value);
    }
    if (instruction == ECH_NONE || p->instructions[instruction].first_position == ECH_NONE)
        return ECH_NONE;
    uint32_t position = ech_program_index_position(p, p->instructions[instruction].shape, index, n);
    return position == UINT32_MAX ? ECH_NONE : ech_program_value(p, instruction, position);
}

static void read_allocation(Reader *r, const EchWire *parent, const EchWireField *field, GHashTable *logical, GArray *allocations, GArray *assigned)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, g;
    EchAllocation allocation = {.parameter = -1, .first_assigned = assigned->len};
    while (ech_wire_next(&wire, &f)) {
        switch (f.number) {
        case 2: allocation.bytes = f.value; break;
        case 3: allocation.is_thread_local = f.value != 0; break;
        case 5: allocation.is_parameter = f.value != 0; break;
        case 6: allocation.parameter = ech_wire_int(&f); break;
        case 7: allocation.is_live_out = f.value != 0; break;
        case 8: allocation.space = (int32_t)MIN(f.value, INT16_MAX); break;
        case 9: {
            EchWire sub = ech_wire_sub(&wire, &f);
            EchAssigned one = {.value = ECH_NONE};
            uint64_t id = 0;
            while (ech_wire_next(&sub, &g)) {
                if (g.number == 1)
                    id = g.value;
                else if (g.number == 2)
                    one.offset = g.value;
                else if (g.number == 3)
                    one.bytes = g.value;
            }
            int64_t key = (int64_t)id;
            Logical *known = g_hash_table_lookup(logical, &key);
            if (known) {
                one.value = known->value;
                known->allocation = allocations->len;
            }
            if (one.value == ECH_NONE)
                ech_diag_note(r->diag, "assigned_values_not_in_the_program", 1);
            g_array_append_val(assigned, one);
            allocation.n_assigned++;
            break;
        }
        case 12: allocation.is_constant = f.value != 0; break;
        default: break;
        }
    }
    if (allocation.is_parameter && allocation.parameter < 0)
        allocation.parameter = 0;
    allocation.is_temp = !allocation.is_parameter && !allocation.is_constant && !allocation.is_thread_local && !allocation.is_live_out;
    g_array_append_val(allocations, allocation);
}

typedef struct {
    uint64_t canonical;
    EchBytes bytes;
    int64_t references;
} Live;

/* The compiler's own heap trace. A SHARE_WITH of something already freed occupies its memory again. Names the allocation through its buffers: the index
 * in the message may be stale. */
static void read_heap_trace(const EchWire *parent, const EchWireField *field, GHashTable *logical, GArray *allocations, EchBytes *peaks)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, g;
    g_autoptr(GHashTable) live = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    EchBytes now = 0, peak = 0;
    uint32_t allocation = UINT32_MAX;
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        EchWire sub = ech_wire_sub(&wire, &f);
        uint64_t kind = 0, canonical = 0;
        int64_t id = 0;
        while (ech_wire_next(&sub, &g)) {
            if (g.number == 1)
                kind = g.value;
            else if (g.number == 2)
                id = ech_wire_int(&g);
            else if (g.number == 5)
                canonical = g.value;
        }
        const Logical *known = g_hash_table_lookup(logical, &id);
        if (!known)
            continue;
        if (allocation == UINT32_MAX && known->allocation < allocations->len && g_array_index(allocations, EchAllocation, known->allocation).is_temp)
            allocation = known->allocation;
        Live *state = g_hash_table_lookup(live, &id);
        if (!state) {
            int64_t *key = g_new(int64_t, 1);
            *key = id;
            state = g_new0(Live, 1);
            g_hash_table_insert(live, key, state);
        }
        if (kind == 0) {
            *state = (Live){(uint64_t)id, known->bytes, 1};
            now = ech_bytes_add(now, known->bytes);
        } else if (kind == 2) {
            int64_t key = (int64_t)canonical;
            Live *root = g_hash_table_lookup(live, &key);
            for (unsigned hops = 0; root && root->canonical != (uint64_t)key && hops < 1000; hops++) {
                key = (int64_t)root->canonical;
                root = g_hash_table_lookup(live, &key);
            }
            if (!root)
                continue;
            state->canonical = (uint64_t)key;
            if (++root->references == 1)
                now = ech_bytes_add(now, root->bytes);
        } else if (kind == 1) {
            int64_t key = (int64_t)state->canonical;
            Live *root = g_hash_table_lookup(live, &key);
            if (root && --root->references == 0)
                now -= MIN(now, root->bytes);
        }
        peak = MAX(peak, now);
    }
    if (allocation != UINT32_MAX)
        peaks[allocation] = MAX(peaks[allocation], peak);
}

static bool read_assignment(Reader *r, EchProgram *p, GError **error)
{
    EchWire wire = wire_of(r, r->assignment);
    EchWireField f, g;
    g_autoptr(GHashTable) names = g_hash_table_new(ech_hash_text, g_str_equal);
    for (size_t i = 0; i < p->n_instructions; i++) {
        if (p->instructions[i].first_position != ECH_NONE)
            g_hash_table_insert(names, (gpointer)(uintptr_t)p->instructions[i].name, GSIZE_TO_POINTER(i + 1));
    }
    g_autoptr(GHashTable) logical = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    g_autoptr(GArray) allocations = g_array_new(FALSE, FALSE, sizeof(EchAllocation));
    g_autoptr(GArray) assigned = g_array_new(FALSE, FALSE, sizeof(EchAssigned));
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        EchWire sub = ech_wire_sub(&wire, &f);
        Logical *one = g_new(Logical, 1);
        int64_t *id = g_new0(int64_t, 1);
        *one = (Logical){ECH_NONE, 0, UINT32_MAX};
        while (ech_wire_next(&sub, &g)) {
            if (g.number == 1)
                *id = ech_wire_int(&g);
            else if (g.number == 2)
                one->bytes = g.value;
            else if (g.number == 3)
                one->value = read_logical_value(r, p, names, &sub, &g);
        }
        g_hash_table_insert(logical, id, one);
    }
    wire = wire_of(r, r->assignment);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 3)
            read_allocation(r, &wire, &f, logical, allocations, assigned);
    }
    if (!ech_wire_ok(&wire, r->where, error))
        return false;
    if (allocations->len == 0)
        return true;
    g_autofree EchBytes *peaks = g_new0(EchBytes, allocations->len);
    wire = wire_of(r, r->assignment);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 4)
            read_heap_trace(&wire, &f, logical, allocations, peaks);
    }
    EchProgramAssignment *assignment = g_new0(EchProgramAssignment, 1);
    assignment->n_allocations = allocations->len;
    assignment->n_assigned = assigned->len;
    assignment->allocations = g_memdup2(allocations->data, allocations->len * sizeof(EchAllocation));
    assignment->assigned = g_memdup2(assigned->data, assigned->len * sizeof(EchAssigned));
    ech_program_set_assignment(p, assignment, "inside the program");
    /* Where the compiler wrote its heap trace, that is the live sum. */
    for (size_t h = 0; h < assignment->n_heaps; h++) {
        EchBytes traced = 0;
        for (guint a = 0; a < allocations->len; a++) {
            const EchAllocation *allocation = &g_array_index(allocations, EchAllocation, a);
            if (allocation->is_temp && allocation->space == assignment->heaps[h].space && allocation->bytes == assignment->heaps[h].allocation_bytes)
                traced = MAX(traced, peaks[a]);
        }
        if (traced > 0)
            assignment->heaps[h].peak_live_bytes = traced;
    }
    return true;
}

/* Envelope */

/* A message whose field 1 is text is a module (its name); one whose field 1 is a message holds a module or an HloProto. */
static bool looks_like_text(const EchWireField *field)
{
    for (size_t k = 0; k < field->size; k++) {
        if (field->data[k] < 0x20 || field->data[k] == 0x7f)
            return false;
    }
    return field->size > 0;
}

static bool find_module(Reader *r, Span whole, unsigned depth, Span *ret, GError **error)
{
    EchWire wire = wire_of(r, whole);
    EchWireField f;
    Span first = {0};
    bool named = false, computations = false;
    const uint8_t *second = NULL;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1 && f.type == ECH_WIRE_BYTES && !first.data) {
            first = span_of(&f);
            named = looks_like_text(&f);
        } else if (f.number == 1 && f.type == ECH_WIRE_BYTES && !second) {
            second = f.data;
        } else if (f.number == 3 && f.type == ECH_WIRE_BYTES) {
            computations = true;
            if (!named && depth < 2)
                r->assignment = span_of(&f);
        }
    }
    if (!ech_wire_ok(&wire, r->where, error))
        return false;
    if (named && computations) {
        *ret = whole;
    } else {
        if (!first.data || depth == 3)
            return fail(r, whole.data, error, "neither an HloProto nor an HloModuleProto");
        if (!find_module(r, first, depth + 1, ret, error))
            return false;
    }
    return !second || fail(r, second, error, "a second module behind the first one; give each in a file of its own");
}

EchProgram *ech_hlo_read_proto(GBytes *bytes, const char *where, const char *device, EchDiag *diag, GError **error)
{
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    if (n == 0 || n >= INT32_MAX) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: %s", where, n == 0 ? "the file is empty" : "more than 2 GiB of HloProto");
        return NULL;
    }
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new("");
    Reader r = {.where = where, .file = ech_wire_init(data, n), .builder = builder, .diag = diag};
    Span whole = {data, n}, module = {0};
    EchProgram *program = NULL;
    if (!find_module(&r, whole, 0, &module, error))
        return NULL;
    if (module.data == data)
        r.assignment = (Span){0};
    g_autoptr(EchHloFrames) frames = ech_hlo_frames_new();
    r.frames = frames;
    r.computations = g_array_new(FALSE, FALSE, sizeof(Computation));
    r.payloads = g_array_new(FALSE, FALSE, sizeof(EchWireField));
    r.by_id = g_hash_table_new(ech_hash_int64, g_int64_equal);
    r.instructions = g_hash_table_new(ech_hash_int64, g_int64_equal);
    r.shapes = g_hash_table_new_full(ech_hash_gbytes, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    r.ids = g_ptr_array_new_with_free_func(g_free);
    if (read_module(&r, module, error)) {
        program = ech_program_builder_finish(builder, device, diag, error);
        if (!program) {
            g_prefix_error(error, "%s: ", where);
        } else {
            settle_donors(&r, program);
            if (program->scheduled) {
                ech_hlo_remark_copied_back(program, diag);
                ech_hlo_remark_undonated(program, diag);
            }
        }
    }
    if (program && r.assignment.data && !read_assignment(&r, program, error))
        g_clear_pointer(&program, ech_program_unref);
    g_array_unref(r.computations);
    g_array_unref(r.payloads);
    g_hash_table_unref(r.by_id);
    g_hash_table_unref(r.instructions);
    g_hash_table_unref(r.shapes);
    g_ptr_array_unref(r.ids);
    return program;
}

int ech_hlo_probe_proto(const uint8_t *head, size_t n)
{
    /* Only the head is here: the outermost field 1, opened as far as it goes, must begin with a module's name and then its entry's name or a computation. */
    const uint8_t *at = head, *end = head + n;
    for (unsigned depth = 0; depth < 3 && at < end && *at == 0x0a; depth++) {
        EchWire wire = ech_wire_init(at + 1, (size_t)(end - at - 1));
        uint64_t size;
        if (!ech_wire_packed_next(&wire, &size) || size == 0)
            return 0;
        const uint8_t *inside = wire.at;
        if (inside >= end)
            return 0;
        size_t there = MIN((size_t)(end - inside), (size_t)size);
        EchWireField name = {.type = ECH_WIRE_BYTES, .data = inside, .size = there};
        if (there == size && looks_like_text(&name)) {
            const uint8_t *next = inside + size;
            return next < end && (*next == 0x12 || *next == 0x1a) ? (depth > 0 ? 2 : 1) : 0;
        }
        at = inside;
    }
    return 0;
}
