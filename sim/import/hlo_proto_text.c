/* Attributes of an HloInstructionProto as HLO text prints them. Field numbers: openxla/xla xla/service/hlo.proto and xla/xla_data.proto. */
#include "sim/import/hlo_proto_text.h"

#include "models/layout/layout.h"

static void append_list(GString *text, const char *name, const EchWire *parent, const EchWireField *field)
{
    EchWire packed = ech_wire_packed(parent, field);
    uint64_t value;
    bool first = true;
    g_string_append_printf(text, ", %s={", name);
    while (ech_wire_packed_next(&packed, &value)) {
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT, first ? "" : ",", (int64_t)value);
        first = false;
    }
    g_string_append_c(text, '}');
}

static void append_dot(GString *text, const EchWire *parent, const EchWireField *field)
{
    static const char *const names[] = {NULL, "lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"};
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        if (f.number < G_N_ELEMENTS(names))
            append_list(text, names[f.number], &wire, &f);
    }
}

typedef struct {
    int64_t size, stride, low, high, window_dilation, base_dilation, reversal;
} WindowDim;

static void append_window(GString *text, const EchWire *parent, const EchWireField *field)
{
    static const char *const keys[] = {"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"};
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, g;
    g_autoptr(GArray) dims = g_array_new(FALSE, FALSE, sizeof(WindowDim));
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        WindowDim dim = {0, 1, 0, 0, 1, 1, 0};
        EchWire sub = ech_wire_sub(&wire, &f);
        int64_t *const slots[] = {NULL, &dim.size, &dim.stride, &dim.low, &dim.high, &dim.window_dilation, &dim.base_dilation, &dim.reversal};
        while (ech_wire_next(&sub, &g)) {
            if (g.number < G_N_ELEMENTS(slots) && g.type == ECH_WIRE_VARINT)
                *slots[g.number] = ech_wire_int(&g);
        }
        g_array_append_val(dims, dim);
    }
    if (dims->len == 0)
        return;
    g_string_append(text, ", window={");
    for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
        g_string_append_printf(text, "%s%s=", k > 0 ? " " : "", keys[k]);
        for (guint d = 0; d < dims->len; d++) {
            const WindowDim *dim = &g_array_index(dims, WindowDim, d);
            const int64_t values[] = {dim->size, dim->stride, dim->low, dim->base_dilation, dim->window_dilation, dim->reversal};
            g_string_append_printf(text, "%s%" G_GINT64_FORMAT, d > 0 ? "x" : "", values[k]);
            if (k == 2)
                g_string_append_printf(text, "_%" G_GINT64_FORMAT, dim->high);
        }
    }
    g_string_append_c(text, '}');
}

/* One operand's letters: position d of the string says what dimension d is. */
static void append_letters(GString *text, int64_t a, char a_letter, int64_t b, char b_letter, const GArray *spatial)
{
    g_assert(spatial);
    char letters[ECH_LAYOUT_MAX_RANK + 1] = {0};
    size_t n = (size_t)spatial->len + 2;
    if (n > ECH_LAYOUT_MAX_RANK)
        return;
    memset(letters, '?', n);
    if (a >= 0 && a < (int64_t)n)
        letters[a] = a_letter;
    if (b >= 0 && b < (int64_t)n)
        letters[b] = b_letter;
    for (guint k = 0; k < spatial->len && k < 10; k++) {
        int64_t at = g_array_index(spatial, int64_t, k);
        if (at >= 0 && at < (int64_t)n)
            letters[at] = (char)('0' + k);
    }
    g_string_append(text, letters);
}

static void append_convolution(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    int64_t numbers[13] = {0};
    g_autoptr(GArray) input = g_array_new(FALSE, FALSE, sizeof(int64_t));
    g_autoptr(GArray) kernel = g_array_new(FALSE, FALSE, sizeof(int64_t));
    g_autoptr(GArray) output = g_array_new(FALSE, FALSE, sizeof(int64_t));
    while (ech_wire_next(&wire, &f)) {
        GArray *list = f.number == 11 ? input : f.number == 6 ? kernel : f.number == 12 ? output : NULL;
        if (!list) {
            if (f.number < G_N_ELEMENTS(numbers))
                numbers[f.number] = ech_wire_int(&f);
            continue;
        }
        EchWire packed = ech_wire_packed(&wire, &f);
        uint64_t value;
        while (ech_wire_packed_next(&packed, &value)) {
            int64_t dim = (int64_t)value;
            g_array_append_val(list, dim);
        }
    }
    g_string_append(text, ", dim_labels=");
    append_letters(text, numbers[7], 'b', numbers[8], 'f', input);
    g_string_append_c(text, '_');
    append_letters(text, numbers[3], 'i', numbers[4], 'o', kernel);
    g_string_append(text, "->");
    append_letters(text, numbers[9], 'b', numbers[10], 'f', output);
}

static void append_groups(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        EchWire packed = ech_wire_packed(&wire, &f);
        uint64_t value;
        bool first = true;
        g_string_append(text, text->str[text->len - 1] == '{' ? "{" : ",{");
        while (ech_wire_packed_next(&packed, &value)) {
            g_string_append_printf(text, "%s%" G_GUINT64_FORMAT, first ? "" : ",", value);
            first = false;
        }
        g_string_append_c(text, '}');
    }
}

/* CollectiveDeviceList: explicit groups, or an iota list [groups, size]. */
static void append_device_list(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1) {
            g_string_append(text, ", replica_groups={");
            EchWire whole = ech_wire_sub(parent, field);
            EchWireField each;
            while (ech_wire_next(&whole, &each)) {
                if (each.number == 1)
                    append_groups(text, &whole, &each);
            }
            g_string_append_c(text, '}');
            return;
        }
        if (f.number == 2) {
            EchWire sub = ech_wire_sub(&wire, &f);
            int64_t numbers[3] = {0, 1, 1};
            while (ech_wire_next(&sub, &f)) {
                if (f.number < 3)
                    numbers[f.number] = ech_wire_int(&f);
            }
            g_string_append_printf(text, ", replica_groups=[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT "]<=[%" G_GINT64_FORMAT "]", numbers[1], numbers[2],
                                   (int64_t)((uint64_t)numbers[1] * (uint64_t)numbers[2]));
            return;
        }
    }
}

static void append_pair(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    int64_t numbers[3] = {0};
    while (ech_wire_next(&wire, &f)) {
        if (f.number < 3)
            numbers[f.number] = ech_wire_int(&f);
    }
    g_string_append_printf(text, "%s{%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT "}", text->str[text->len - 1] == '{' ? "" : ",", numbers[1], numbers[2]);
}

static void append_slice(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    int64_t numbers[4] = {0, 0, 0, 1};
    while (ech_wire_next(&wire, &f)) {
        if (f.number < 4)
            numbers[f.number] = ech_wire_int(&f);
    }
    g_string_append_printf(text, "%s[%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT "]", text->str[text->len - 1] == '{' ? "" : ", ", numbers[1],
                           numbers[2], numbers[3]);
}

static void append_index(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire packed = ech_wire_packed(parent, field);
    uint64_t value;
    bool first = true;
    while (ech_wire_packed_next(&packed, &value)) {
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT, first ? "" : ",", (int64_t)value);
        first = false;
    }
}

static void append_operand_alias(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, out = {0}, in = {0};
    int64_t operand = 0;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1)
            out = f;
        else if (f.number == 2)
            operand = ech_wire_int(&f);
        else if (f.number == 3)
            in = f;
    }
    g_string_append_printf(text, "%s{", text->str[text->len - 1] == '{' ? "" : ", ");
    if (out.number != 0)
        append_index(text, &wire, &out);
    g_string_append_printf(text, "}: (%" G_GINT64_FORMAT ", {", operand);
    if (in.number != 0)
        append_index(text, &wire, &in);
    g_string_append(text, "})");
}

/* Repeated messages that print as one list: every field @number of the instruction. */
static void append_all(GString *text, const EchWire *instruction, uint32_t number, const char *name,
                       void (*append)(GString *, const EchWire *, const EchWireField *))
{
    EchWire wire = *instruction;
    EchWireField f;
    g_string_append_printf(text, ", %s={", name);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == number)
            append(text, &wire, &f);
    }
    g_string_append_c(text, '}');
}

static void append_group(GString *text, const EchWire *parent, const EchWireField *field)
{
    /* A ReplicaGroup is the packed field 1 of a message: the same form a device list's groups have. */
    append_groups(text, parent, field);
}

static void append_text(GString *text, const char *name, const EchWireField *field, bool quoted)
{
    g_string_append_printf(text, ", %s=%s", name, quoted ? "\"" : "");
    for (size_t k = 0; k < field->size; k++) {
        char c = (char)field->data[k];
        if (quoted && (c == '"' || c == '\\'))
            g_string_append_c(text, '\\');
        g_string_append_c(text, c == '\n' || c == '\0' ? ' ' : c);
    }
    if (quoted)
        g_string_append_c(text, '"');
}

/* Of an OpSharding only that it splits: its devices are nothing to one of them. */
static void append_sharding(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1 && f.value == 3)
            g_string_append(text, ", sharding={devices=}");
    }
}

/* FrontendAttributes: a map of strings. */
static void append_frontend(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, g;
    bool any = false;
    while (ech_wire_next(&wire, &f)) {
        EchWireField key = {0}, value = {0};
        EchWire entry = ech_wire_sub(&wire, &f);
        if (f.number != 1 || f.type != ECH_WIRE_BYTES)
            continue;
        while (ech_wire_next(&entry, &g)) {
            if (g.number == 1 && g.type == ECH_WIRE_BYTES)
                key = g;
            else if (g.number == 2 && g.type == ECH_WIRE_BYTES)
                value = g;
        }
        bool plain = key.size > 0;
        for (size_t k = 0; k < key.size && plain; k++)
            plain = g_ascii_isalnum(key.data[k]) || key.data[k] == '_' || key.data[k] == '.';
        if (!plain)
            continue;
        g_string_append_printf(text, "%s%.*s=\"", any ? "," : ", frontend_attributes={", (int)MIN(key.size, 256), (const char *)key.data);
        any = true;
        for (size_t k = 0; k < value.size; k++) {
            char c = (char)value.data[k];
            if (c == '"' || c == '\\')
                g_string_append_c(text, '\\');
            g_string_append_c(text, c == '\n' || c == '\0' ? ' ' : c);
        }
        g_string_append_c(text, '"');
    }
    if (any)
        g_string_append_c(text, '}');
}

void ech_hlo_append_attribute(GString *text, const EchWire *instruction, const EchWire *wire, const EchWireField *f, uint32_t *listed)
{
    switch (f->number) {
    case 14: append_list(text, "dimensions", wire, f); break;
    case 15: append_window(text, wire, f); break;
    case 16: append_convolution(text, wire, f); break;
    case 17:
        if (!(*listed & 1))
            append_all(text, instruction, 17, "slice", append_slice);
        *listed |= 1;
        break;
    case 20: append_list(text, "dynamic_slice_sizes", wire, f); break;
    case 26: g_string_append_printf(text, ", channel_id=%" G_GUINT64_FORMAT, f->value); break;
    case 28: append_text(text, "custom_call_target", f, true); break;
    case 30: append_dot(text, wire, f); break;
    case 40: append_sharding(text, wire, f); break;
    case 43:
        if (f->size > 0)
            append_text(text, "backend_config", f, f->data[0] != '{');
        break;
    case 47:
        if (f->value)
            g_string_append(text, ", is_host_transfer=true");
        break;
    case 49:
        if (!(*listed & 2))
            append_all(text, instruction, 49, "replica_groups", append_group);
        *listed |= 2;
        break;
    case 50:
        if (f->value > 1)
            g_string_append_printf(text, ", feature_group_count=%" G_GUINT64_FORMAT, f->value);
        break;
    case 52:
        if (!(*listed & 4))
            append_all(text, instruction, 52, "source_target_pairs", append_pair);
        *listed |= 4;
        break;
    case 58:
        if (f->value > 1)
            g_string_append_printf(text, ", batch_group_count=%" G_GUINT64_FORMAT, f->value);
        break;
    case 63: append_text(text, "direction", f, false); break;
    case 65:
        if (f->value)
            g_string_append(text, ", custom_call_has_side_effect=true");
        break;
    case 68: append_frontend(text, wire, f); break;
    case 74:
        if (!(*listed & 8))
            append_all(text, instruction, 74, "output_to_operand_aliasing", append_operand_alias);
        *listed |= 8;
        break;
    case 79:
        if (f->size > 0)
            append_text(text, "async_execution_thread", f, true);
        break;
    case 80: g_string_append_printf(text, ", cross_program_prefetch_index=%" G_GUINT64_FORMAT, f->value); break;
    case 87: append_device_list(text, wire, f); break;
    default: break;
    }
}
