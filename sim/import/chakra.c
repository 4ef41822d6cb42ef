/* MLCommons Chakra execution traces: a stream of [varint length][message], first GlobalMetadata, then nodes (schema mlcommons/chakra
 * schema/protobuf/et_def.proto; field numbers in the cases below). Tensors are Python literals inside strings. */
#include "sim/import/chakra.h"
#include "sim/import/wire.h"

#include "sim/base/error.h"

#define MAX_DEPTH 64

/** A list of a Python literal being read. */
typedef struct {
    int64_t numbers[5];
    unsigned n_items;
    bool plain; /* so far five whole numbers, then perhaps a text */
    const char *text;
    size_t text_length;
} List;

static void add_item(List *list, bool is_number, int64_t number, const char *text, size_t length)
{
    if (list->n_items < 5 && is_number)
        list->numbers[list->n_items] = number;
    else if (list->n_items == 5 && text) {
        list->text = text;
        list->text_length = length;
    } else
        list->plain = false;
    list->n_items++;
}

bool ech_chakra_tensors(EchEt *et, bool written, const char *text, size_t n)
{
    List stack[MAX_DEPTH];
    unsigned depth = 0;
    for (size_t i = 0; i < n;) {
        char c = text[i];
        if (c == '[' || c == '(') {
            if (depth > 0)
                stack[depth - 1].plain = false;
            if (depth == MAX_DEPTH)
                return false;
            stack[depth++] = (List){.plain = true};
            i++;
        } else if (c == ']' || c == ')') {
            if (depth > 0) {
                const List *list = &stack[--depth];
                if (list->plain && list->n_items == 6)
                    ech_et_tensor(et, written, list->numbers, list->text, list->text_length);
            }
            i++;
        } else if (c == '\'' || c == '"') {
            size_t from = ++i;
            while (i < n && text[i] != c)
                i += text[i] == '\\' && i + 1 < n ? 2 : 1;
            if (depth > 0)
                add_item(&stack[depth - 1], false, 0, text + from, MIN(i, n) - from);
            i++;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            size_t from = i++;
            bool whole = true;
            uint64_t value = c == '-' ? 0 : (uint64_t)(c - '0');
            for (; i < n && text[i] != ',' && text[i] != ']' && text[i] != ')' && text[i] != ' '; i++) {
                if (text[i] < '0' || text[i] > '9' || value > (uint64_t)INT64_MAX / 10 - 1)
                    whole = false;
                else
                    value = value * 10 + (uint64_t)(text[i] - '0');
            }
            if (depth > 0)
                add_item(&stack[depth - 1], whole, text[from] == '-' ? -(int64_t)value : (int64_t)value, NULL, 0);
        } else if (g_ascii_isalpha(c)) {
            while (i < n && (g_ascii_isalnum(text[i]) || text[i] == '_' || text[i] == '.'))
                i++;
            if (depth > 0)
                stack[depth - 1].plain = false;
        } else {
            i++;
        }
    }
    return true;
}

/** IOInfo: values 1, shapes 2, types 3. */
static void read_tensors(EchEt *et, EchWire io, bool written, EchDiag *diag)
{
    EchWireField field;
    while (ech_wire_next(&io, &field)) {
        if (field.number == 1 && field.type == ECH_WIRE_BYTES && !ech_chakra_tensors(et, written, (const char *)field.data, field.size))
            ech_diag_dropped(diag, "tensor_lists_nested_too_deeply", 1, NULL);
    }
}

typedef struct {
    EchWireField name, value;
    bool has_name, has_value;
} Attribute;

/** AttributeProto: name 1, doc 2, one value 3 to 32. */
static Attribute read_attribute(EchWire wire)
{
    Attribute attribute = {.has_name = false};
    EchWireField field;
    while (ech_wire_next(&wire, &field)) {
        if (field.number == 1 && field.type == ECH_WIRE_BYTES) {
            attribute.name = field;
            attribute.has_name = true;
        } else if (field.number >= 3 && field.number <= 32) {
            attribute.value = field;
            attribute.has_value = true;
        }
    }
    return attribute;
}

static int64_t attribute_int(const EchWireField *value)
{
    switch (value->number) {
    case 3:
    case 5: {
        double number = ech_wire_double(value);
        return number > -9e18 && number < 9e18 ? (int64_t)number : 0;
    }
    case 15:
    case 17: return ech_wire_zigzag(value);
    default: return value->type == ECH_WIRE_BYTES ? 0 : ech_wire_int(value);
    }
}

static bool is(const char *name, size_t n, const char *what)
{
    return strlen(what) == n && memcmp(what, name, n) == 0;
}

void ech_chakra_word(EchEtNode *node, const char *name, size_t n, const char *text, size_t length)
{
    if (is(name, n, "pg_name") || is(name, n, "comm_group"))
        node->comm_group = ech_et_group(text, length);
}

void ech_chakra_attribute(EchEtNode *node, const char *name, size_t n, int64_t value)
{
    static const char *const names[] = {"is_cpu_op", "tid", "comm_type", "comm_size", "tensor_size", "num_ops", "comm_src", "comm_dst", "comm_tag"};
    uint64_t amount = value < 0 ? 0 : (uint64_t)value;
    size_t i = 0;
    while (i < G_N_ELEMENTS(names) && !is(name, n, names[i]))
        i++;
    switch (i) {
    case 0: node->place = value ? ECH_ET_HOST : ECH_ET_DEVICE; break;
    case 1: node->thread = value; break;
    case 2: node->comm_type = (uint8_t)(value >= 0 && value < 255 ? value + 1 : 0); break;
    case 3:
        node->comm_bytes = amount;
        node->has_comm_bytes = true;
        break;
    case 4: node->tensor_bytes = amount; break;
    case 5: node->num_ops = amount; break;
    case 6: node->comm_src = value < 0 ? 0 : (uint32_t)MIN(amount, ECH_NONE - 1) + 1; break;
    case 7: node->comm_dst = value < 0 ? 0 : (uint32_t)MIN(amount, ECH_NONE - 1) + 1; break;
    case 8: node->comm_tag = value; break;
    default: {
        char text[32];
        int length = g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, value);
        ech_chakra_word(node, name, n, text, (size_t)length);
    }
    }
}

/** Node: id 1, name 2, type 3, ctrl_deps 4, data_deps 5, start 6, duration 7, inputs 8, outputs 9, attributes 10. The wire is read twice: fields may come in
 * any order. */
static bool read_node(EchEt *et, EchWire wire, const char *where, EchDiag *diag, GError **error)
{
    EchEtNode node = {.start_us = -1, .duration_us = -1, .name = ECH_NONE};
    EchWire again = wire;
    EchWireField field;
    while (ech_wire_next(&wire, &field)) {
        switch (field.number) {
        case 1: node.id = field.value; break;
        case 2:
            if (field.type == ECH_WIRE_BYTES)
                node.name = ech_et_string(et, (const char *)field.data, (gssize)field.size);
            break;
        case 3: node.type = (uint8_t)MIN(field.value, ECH_N_ET_TYPES); break;
        case 6: node.start_us = ech_wire_int(&field); break;
        case 7: node.duration_us = ech_wire_int(&field); break;
        case 10: {
            Attribute attribute = read_attribute(ech_wire_sub(&wire, &field));
            if (attribute.has_name && attribute.has_value && attribute.value.type == ECH_WIRE_BYTES)
                ech_chakra_word(&node, (const char *)attribute.name.data, attribute.name.size, (const char *)attribute.value.data, attribute.value.size);
            else if (attribute.has_name && attribute.has_value)
                ech_chakra_attribute(&node, (const char *)attribute.name.data, attribute.name.size, attribute_int(&attribute.value));
            break;
        }
        default: break;
        }
    }
    if (!ech_wire_ok(&wire, where, error))
        return false;
    if (node.name == ECH_NONE)
        node.name = ech_et_string(et, "", 0);
    ech_et_node(et, node);
    while (ech_wire_next(&again, &field)) {
        if (field.number == 4 || field.number == 5) {
            EchWire packed = ech_wire_packed(&again, &field);
            uint64_t id;
            while (ech_wire_packed_next(&packed, &id))
                ech_et_dep(et, id, field.number == 4);
            ech_wire_join(&again, &packed);
        } else if (field.number == 8 || field.number == 9) {
            read_tensors(et, ech_wire_sub(&again, &field), field.number == 9, diag);
        }
    }
    return ech_wire_ok(&again, where, error);
}

static void read_metadata(EchEt *et, EchWire wire)
{
    EchWireField field;
    while (ech_wire_next(&wire, &field)) {
        if (field.number == 1 && field.type == ECH_WIRE_BYTES) {
            g_autofree char *version = ech_wire_string(&field);
            g_autofree char *valid = g_utf8_make_valid(version, -1);
            ech_et_property(et, "chakra_version", valid);
        } else if (field.number == 2 && field.type == ECH_WIRE_BYTES) {
            Attribute attribute = read_attribute(ech_wire_sub(&wire, &field));
            if (!attribute.has_name || !attribute.has_value)
                continue;
            g_autofree char *name = ech_wire_string(&attribute.name);
            g_autofree char *value = attribute.value.type == ECH_WIRE_BYTES ? ech_wire_string(&attribute.value)
                                                                            : g_strdup_printf("%" G_GINT64_FORMAT, attribute_int(&attribute.value));
            g_autofree char *key = g_utf8_make_valid(name, -1), *valid = g_utf8_make_valid(value, -1);
            g_autofree char *full = g_strdup_printf("chakra.%s", key);
            ech_et_property(et, full, valid);
        }
    }
}

/** Reads a length; false at the end of @data or where it is no varint or points past the end. */
static bool next_message(const uint8_t *data, size_t n, size_t *at, size_t *ret_length)
{
    uint64_t length = 0;
    size_t i = *at;
    for (unsigned shift = 0; i < n && shift < 63; shift += 7) {
        length |= (uint64_t)(data[i] & 0x7f) << shift;
        if (!(data[i++] & 0x80)) {
            if (length > n - i)
                return false;
            *at = i;
            *ret_length = (size_t)length;
            return true;
        }
    }
    return false;
}

/** True for a message that can be GlobalMetadata: a short version, attributes with names. */
static bool looks_like_metadata(const uint8_t *data, size_t n)
{
    EchWire wire = ech_wire_init(data, n);
    EchWireField field;
    while (ech_wire_next(&wire, &field)) {
        if (field.type != ECH_WIRE_BYTES || (field.number != 1 && field.number != 2) || (field.number == 1 && field.size > 64))
            return false;
        if (field.number == 2 && !read_attribute(ech_wire_sub(&wire, &field)).has_name)
            return false;
    }
    return !wire.bad;
}

static bool looks_like_node(const uint8_t *data, size_t n)
{
    EchWire wire = ech_wire_init(data, n);
    EchWireField field;
    bool named = false;
    while (ech_wire_next(&wire, &field)) {
        if (field.number == 0 || field.number > 11 || ((field.number == 1 || field.number == 3) && field.type != ECH_WIRE_VARINT) ||
            (field.number == 3 && field.value >= ECH_N_ET_TYPES))
            return false;
        named = named || (field.number == 2 && field.type == ECH_WIRE_BYTES);
    }
    return !wire.bad && named;
}

static int probe(const uint8_t *head, size_t n)
{
    size_t at = 0, length;
    if (!next_message(head, n, &at, &length) || !looks_like_metadata(head + at, length))
        return 0;
    at += length;
    if (at == n)
        return length > 0;
    if (!next_message(head, n, &at, &length))
        return at > 1; /* the first node is larger than what is seen here, or the file is cut */
    return looks_like_node(head + at, length) ? 2 : 0;
}

static bool read_chakra(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    const char *where = ech_source_path(source);
    EchWire file = ech_wire_init(data, n);
    g_autoptr(EchEt) et = ech_et_new("chakra");
    ech_et_rank_of(et, where);
    size_t at = 0, length;
    for (size_t message = 0; at < n; message++) {
        if (!next_message(data, n, &at, &length)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: the length of message %zu is no number or reaches past the end; the file is cut",
                        where, at, message);
            return false;
        }
        /* A reader over the message that keeps offsets in the file. */
        EchWire wire = file;
        wire.at = data + at;
        wire.end = data + at + length;
        at += length;
        if (message == 0)
            read_metadata(et, wire);
        else if (!read_node(et, wire, where, ret->diag, error))
            return false;
    }
    ret->trace = ech_et_finish(et, false, ret, error);
    return ret->trace != NULL;
}

const EchImportClass ech_import_chakra = {
    .name = "chakra",
    .summary = "MLCommons Chakra execution trace (NAME.RANK.et)",
    .probe = probe,
    .read = read_chakra,
};
