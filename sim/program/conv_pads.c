/* Convolutions as XLA hands them to cuDNN: what pads their two ends unequally, or spreads their input, is done in memory first
 * (xla/service/gpu/transforms/conv_padding_legalization.cc). Those whose filter is reversed are gradients of the input, which cuDNN has a call for. */
#include "sim/base/hash.h"
#include "sim/program/graph.h"

#include <string.h>

#define MOST_PADS 4096 /* of a program */

enum { MAX_WINDOW = 4 };

typedef struct {
    int64_t low[MAX_WINDOW], high[MAX_WINDOW], spread[MAX_WINDOW];
    size_t n;
} Pads;

/* "3x3" or "1_2x1_2" behind @key; false where it is not there. */
static bool numbers_of(const char *window, size_t n, const char *key, int64_t *ret, size_t wanted)
{
    const char *at = g_strstr_len(window, (gssize)n, key);
    if (!at)
        return false;
    at += strlen(key);
    size_t length = 0;
    while (at + length < window + n && at[length] != ' ' && at[length] != '}')
        length++;
    return ech_program_numbers(at, length, ret, wanted) == wanted;
}

static bool read_pads(const char *window, size_t n, size_t rank, Pads *ret)
{
    int64_t pads[2 * MAX_WINDOW], spread[MAX_WINDOW];
    *ret = (Pads){.n = rank};
    bool padded = numbers_of(window, n, "pad=", pads, 2 * rank), apart = numbers_of(window, n, "lhs_dilate=", spread, rank), needed = false;
    for (size_t k = 0; k < rank; k++) {
        ret->low[k] = padded ? pads[2 * k] : 0;
        ret->high[k] = padded ? pads[2 * k + 1] : 0;
        ret->spread[k] = apart ? MAX(spread[k], 1) : 1;
        needed |= ret->low[k] != ret->high[k] || ret->low[k] < 0 || ret->spread[k] > 1;
    }
    return needed;
}

/* @attributes with @window without what @pads did. */
static char *without_pads(const EchInstruction *i, const char *window, size_t n)
{
    g_autoptr(GString) text = g_string_new_len(i->attributes, window - i->attributes);
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && window[end] != ' ' && window[end] != '}')
            end++;
        bool gone = g_str_has_prefix(window + at, "pad=") || g_str_has_prefix(window + at, "lhs_dilate=");
        if (!gone)
            g_string_append_len(text, window + at, (gssize)(end - at));
        if (end < n && (!gone || window[end] == '}'))
            g_string_append_c(text, window[end]);
        at = end + 1;
    }
    g_string_append_len(text, window + n, (gssize)(i->attributes_n - (size_t)(window - i->attributes) - n));
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* False where it is left as it is. */
static bool pad(EchGraph *g, EchId id, GHashTable *made)
{
    const EchInstruction i = *ech_graph_node(g, id);
    size_t n, labels_n;
    const char *window = ech_program_attribute(&i, "window", &n), *labels = ech_program_attribute(&i, "dim_labels", &labels_n);
    EchId input = ech_graph_operand(g, id, 0);
    const EchLayout *layout = ech_graph_layout(g, input);
    if (!window || !labels || window < i.attributes || window + n > i.attributes + i.attributes_n || !layout || layout->rank < 3 ||
        layout->rank > 2 + MAX_WINDOW || labels_n < layout->rank || g_strstr_len(window, (gssize)n, "rhs_reversal") ||
        ech_graph_node(g, ech_graph_operand(g, id, 1))->opcode == ECH_HLO_REVERSE)
        return false;
    const EchLayout type = *layout;
    Pads pads;
    if (!read_pads(window, n, type.rank - 2u, &pads))
        return false;
    g_autoptr(GString) text = g_string_new("padding=");
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    for (uint8_t d = 0; d < type.rank; d++) {
        int64_t k = g_ascii_digit_value(labels[d]), size = (int64_t)MIN(type.dims[d], (uint64_t)INT32_MAX), low = 0, high = 0, between = 0;
        if (k >= (int64_t)pads.n)
            return false;
        if (k >= 0) {
            low = CLAMP(pads.low[k], -INT32_MAX, INT32_MAX);
            high = CLAMP(pads.high[k], -INT32_MAX, INT32_MAX);
            between = MIN(pads.spread[k] - 1, INT32_MAX);
        }
        int64_t whole = size + (size - 1) * between + low + high;
        if (whole <= 0)
            return false;
        dims[d] = (uint64_t)whole;
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT "_%" G_GINT64_FORMAT "_%" G_GINT64_FORMAT, d ? "x" : "", low, high, between);
    }
    g_autofree char *key = g_strdup_printf("%u %u %s", i.computation, input, text->str), *rest = without_pads(&i, window, n);
    gpointer known = g_hash_table_lookup(made, key);
    EchId padded = (EchId)(GPOINTER_TO_SIZE(known) - 1);
    if (!known) {
        EchId zero = ech_graph_add_new(g, i.computation, ECH_HLO_CONSTANT, "conv-zero", ech_graph_array(g, &type, NULL, 0), NULL, 0);
        EchId shape = ech_graph_array(g, &type, dims, type.rank);
        padded = ech_graph_add_new(g, i.computation, ECH_HLO_PAD, "conv-pad", shape, (EchId[]){input, zero}, 2);
        size_t said_n;
        const char *said = ech_program_attribute(&i, "metadata", &said_n);
        if (said)
            g_string_append_printf(text, ", metadata=%.*s", (int)MIN(said_n, 4096), said);
        EchInstruction *node = ech_graph_node(g, padded);
        node->attributes = ech_program_builder_string(g->out, text->str, (gssize)text->len);
        node->attributes_n = (uint32_t)text->len;
        padded = ech_graph_add_new(g, i.computation, ECH_HLO_OPTIMIZATION_BARRIER, "conv-padded", shape, &padded, 1); /* in memory */
        g_hash_table_insert(made, g_steal_pointer(&key), GSIZE_TO_POINTER((size_t)padded + 1));
    }
    ech_graph_set_operand(g, id, 0, padded);
    EchInstruction *node = ech_graph_node(g, id);
    node->attributes = ech_program_builder_string(g->out, rest, -1);
    node->attributes_n = (uint32_t)strlen(rest);
    return true;
}

void ech_graph_pad_convolutions(EchGraph *g)
{
    g_autoptr(GHashTable) made = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    size_t n = g->nodes->len;
    uint64_t changed = 0;
    for (EchId id = 0; id < n && changed < MOST_PADS; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (i->opcode == ECH_HLO_CONVOLUTION && i->n_operands == 2 && !ech_graph_computation(g, i->computation)->body && i->n_control == 0)
            changed += pad(g, id, made);
    }
    if (changed > 0)
        ech_diag_note(g->diag, "convolutions_padded_in_memory", changed);
}
