/* Attributes of an HloInstructionProto as HLO text prints them. Field numbers: openxla/xla xla/service/hlo.proto and xla/xla_data.proto. */
#include "sim/import/hlo_proto_text.h"

#include "models/layout/layout.h"

#include <string.h>

/* "1,2,3" */
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

static void append_list(GString *text, const char *name, const EchWire *parent, const EchWireField *field)
{
    g_string_append_printf(text, ", %s={", name);
    append_index(text, parent, field);
    g_string_append_c(text, '}');
}

/* Messages whose fields are lists, or a number, each an attribute: names[field]. */
static void append_lists(GString *text, const char *const *names, size_t n_names, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        if (f.number >= n_names || names[f.number] == NULL)
            continue;
        if (f.type == ECH_WIRE_BYTES)
            append_list(text, names[f.number], &wire, &f);
        else
            g_string_append_printf(text, ", %s=%" G_GINT64_FORMAT, names[f.number], ech_wire_int(&f));
    }
}

static const char *const dot_names[] = {NULL, "lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"};
static const char *const gather_names[] = {
    NULL, "offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "operand_batching_dims", "start_indices_batching_dims"};
static const char *const scatter_names[] = {NULL,
                                            "update_window_dims",
                                            "inserted_window_dims",
                                            "scatter_dims_to_operand_dims",
                                            "index_vector_dim",
                                            "input_batching_dims",
                                            "scatter_indices_batching_dims"};

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
        bool said = k == 0; /* as XLA's text has it: what says nothing is left out */
        for (guint d = 0; d < dims->len; d++) {
            const WindowDim *dim = &g_array_index(dims, WindowDim, d);
            const bool says[] = {
                true, dim->stride != 1, dim->low != 0 || dim->high != 0, dim->base_dilation != 1, dim->window_dilation != 1, dim->reversal != 0};
            said |= says[k];
        }
        if (!said)
            continue;
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

/* IotaReplicaGroupList: "[4,2]<=[2,4]T(1,0)". */
static void append_iota(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    int64_t numbers[3] = {0};
    g_autoptr(GString) dims = g_string_new(NULL);
    g_autoptr(GString) order = g_string_new(NULL);
    while (ech_wire_next(&wire, &f)) {
        if (f.number < G_N_ELEMENTS(numbers))
            numbers[f.number] = ech_wire_int(&f);
        else if (f.number == 3 || f.number == 4)
            append_index(f.number == 3 ? dims : order, &wire, &f);
    }
    g_string_append_printf(text, ", replica_groups=[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT "]<=[%s]", numbers[1], numbers[2], dims->str);
    if (strchr(order->str, ',') != NULL)
        g_string_append_printf(text, "T(%s)", order->str);
}

/* CollectiveDeviceList of 2025: explicit groups, or an iota list. */
static void append_device_list(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    bool open = false;
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 2) {
            append_iota(text, &wire, &f);
            return;
        }
        if (f.number != 1)
            continue;
        g_string_append(text, open ? "" : ", replica_groups={");
        open = true;
        append_groups(text, &wire, &f);
    }
    if (open)
        g_string_append_c(text, '}');
}

static void append_name(GString *text, const EchWireField *field)
{
    g_string_append_c(text, '\'');
    for (size_t k = 0; field->data != NULL && k < field->size; k++)
        g_string_append_c(text, g_ascii_isalnum(field->data[k]) || field->data[k] == '_' ? (char)field->data[k] : '?');
    g_string_append_c(text, '\'');
}

/* MeshAxesReplicaGroupList: "mesh['a'=4,'b'=2] {'b'}", the axes that a group spans. */
static void append_mesh(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f, g, h, axes[16];
    uint64_t n = 0;
    bool ordered = false, first = true;
    g_string_append(text, ", replica_groups=mesh[");
    EchWire whole = wire;
    while (ech_wire_next(&whole, &f)) {
        if (f.number != 1)
            continue;
        EchWire mesh = ech_wire_sub(&whole, &f);
        while (ech_wire_next(&mesh, &g)) {
            ordered |= g.number > 1;
            if (g.number != 1 || n == G_N_ELEMENTS(axes))
                continue;
            EchWire axis = ech_wire_sub(&mesh, &g);
            uint64_t side = 1;
            axes[n] = (EchWireField){0};
            while (ech_wire_next(&axis, &h)) {
                if (h.number == 1)
                    axes[n] = h;
                else if (h.number == 2)
                    side = h.value;
            }
            g_string_append(text, n > 0 ? "," : "");
            append_name(text, &axes[n++]);
            g_string_append_printf(text, "=%" G_GUINT64_FORMAT, side);
        }
    }
    g_string_append(text, ordered ? "], device_ids=(...) {" : "] {");
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 2)
            continue;
        EchWire axis = ech_wire_sub(&wire, &f);
        uint64_t number = 0, part[3] = {0};
        while (ech_wire_next(&axis, &g)) {
            if (g.number == 1)
                number = g.value;
            else if (g.number == 2) {
                EchWire sub = ech_wire_sub(&axis, &g);
                while (ech_wire_next(&sub, &h))
                    if (h.number < G_N_ELEMENTS(part))
                        part[h.number] = h.value;
            }
        }
        if (number >= n)
            continue;
        g_string_append(text, first ? "" : ",");
        first = false;
        append_name(text, &axes[number]);
        if (part[2] > 0)
            g_string_append_printf(text, ":(%" G_GUINT64_FORMAT ")%" G_GUINT64_FORMAT, part[1], part[2]);
    }
    g_string_append_c(text, '}');
}

/* PrecisionConfig: of what an operand's products are made; nothing where all are the default. */
static void append_precision(GString *text, const EchWire *parent, const EchWireField *field)
{
    static const char *const names[] = {"default", "high", "highest"};
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        g_autoptr(GString) list = g_string_new(NULL);
        EchWire packed = ech_wire_packed(&wire, &f);
        uint64_t value, most = 0;
        while (ech_wire_packed_next(&packed, &value)) {
            g_string_append_printf(list, "%s%s", list->len > 0 ? "," : "", names[value < G_N_ELEMENTS(names) ? value : 0]);
            most = MAX(most, value);
        }
        if (most > 0)
            g_string_append_printf(text, ", operand_precision={%s}", list->str);
    }
}

/* PaddingConfig: "0_1x2_3", the low and high padding of each dimension, and the inner one where any has it. */
static void append_padding(GString *text, const EchWire *parent, const EchWireField *field)
{
    EchWireField f, g;
    bool inner = false;
    for (int writing = 0; writing < 2; writing++) {
        EchWire wire = ech_wire_sub(parent, field);
        bool first = true;
        while (ech_wire_next(&wire, &f)) {
            if (f.number != 1)
                continue;
            int64_t numbers[4] = {0};
            EchWire sub = ech_wire_sub(&wire, &f);
            while (ech_wire_next(&sub, &g))
                if (g.number < G_N_ELEMENTS(numbers))
                    numbers[g.number] = ech_wire_int(&g);
            inner |= numbers[3] != 0;
            if (!writing)
                continue;
            g_string_append_printf(text, "%s%" G_GINT64_FORMAT "_%" G_GINT64_FORMAT, first ? ", padding=" : "x", numbers[1], numbers[2]);
            if (inner)
                g_string_append_printf(text, "_%" G_GINT64_FORMAT, numbers[3]);
            first = false;
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
    case 21: append_padding(text, wire, f); break;
    case 26: g_string_append_printf(text, ", channel_id=%" G_GUINT64_FORMAT, f->value); break;
    case 28: append_text(text, "custom_call_target", f, true); break;
    case 30: append_lists(text, dot_names, G_N_ELEMENTS(dot_names), wire, f); break;
    case 32: append_list(text, "fft_length", wire, f); break;
    case 33: append_lists(text, gather_names, G_N_ELEMENTS(gather_names), wire, f); break;
    case 34: append_list(text, "slice_sizes", wire, f); break;
    case 40: append_sharding(text, wire, f); break;
    case 43:
        if (f->size > 0)
            append_text(text, "backend_config", f, f->data[0] != '{');
        break;
    case 47:
        if (f->value)
            g_string_append(text, ", is_host_transfer=true");
        break;
    case 48: append_lists(text, scatter_names, G_N_ELEMENTS(scatter_names), wire, f); break;
    case 49:
        if (!(*listed & 2))
            append_all(text, instruction, 49, "replica_groups", append_group);
        *listed |= 2;
        break;
    case 50:
        if (f->value > 1)
            g_string_append_printf(text, ", feature_group_count=%" G_GUINT64_FORMAT, f->value);
        break;
    case 51: append_precision(text, wire, f); break;
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
    case 92: append_iota(text, wire, f); break;
    case 93: append_mesh(text, wire, f); break;
    default: break;
    }
}
