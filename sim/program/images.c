/* Images as a TPU's convolutions have them: which way round they lie, and few of them split into parts.
 *
 * Batches of fewer than eight images are split (XLA's space_to_batch_converter; libtpu 0.0.52 splits 1, 2 and 4 images, not 8 and more): each image's last
 * dimension becomes eight parts, which lie where images do. Here images stay one array, that dimension on rows in the parts' place, but what a part has of its
 * neighbours is copied in memory before each convolution as there: of a window of k, k - 1 positions and one more, eight times; before a filter's gradient
 * the images lie there once for each of the filter's positions. */
#include "sim/program/convolution.h"
#include "sim/program/graph.h"

#include <string.h>

enum { FEW_IMAGES = 8, PARTS = 8, MOST = 1 << 16 /* positions, so that none of what is computed of them overflows */ };

/* How a TPU's convolution has its images, @labels[@n] saying what their dimensions are: features and batch innermost, whichever pads less on the lanes
 * (features, where alike), the positions behind them as they come. So lie all 412 results of convolutions in 36 programs by libtpu 0.0.52 for v5e and v6e,
 * gradients among them, and 380 of their inputs. */
static bool lay_images(const EchGraph *g, const EchLayout *images, const char *labels, size_t n, EchLayout *ret)
{
    int batch = ech_hlo_label_at(labels, n, 'b'), features = ech_hlo_label_at(labels, n, 'f'), last = ech_hlo_label_at(labels, n, (char)('0' + n - 3));
    if (!images || images->rank != n || n < 3 || images->bits == 0 || images->space != ECH_SPACE_HBM || batch < 0 || features < 0 || last < 0)
        return false;
    bool split = images->dims[batch] < FEW_IMAGES && images->dims[last] >= PARTS;
    EchLayout tried[2] = {*images, *images};
    for (unsigned k = 0; k < 2; k++) {
        uint8_t at = 0;
        int beside = split ? last : batch; /* parts lie one after the other: the dimension that was split, as large as it was */
        tried[k].order[at++] = (uint8_t)(k == 0 ? features : beside);
        tried[k].order[at++] = (uint8_t)(k == 0 ? beside : features);
        if (split)
            tried[k].order[at++] = (uint8_t)batch;
        for (size_t place = n - 2 - split; place-- > 0;) { /* the last position is the fastest of them */
            int d = ech_hlo_label_at(labels, n, (char)('0' + place));
            if (d >= 0 && at < n)
                tried[k].order[at++] = (uint8_t)d;
        }
        if (at != n)
            return false;
        tried[k].has_layout = true;
        ech_layout_choose_tiles(&tried[k], g->generation);
    }
    *ret = tried[ech_layout_padded_bytes(&tried[1], ECH_LAYOUT_TPU) < ech_layout_padded_bytes(&tried[0], ECH_LAYOUT_TPU)];
    return true;
}

/* Whether an array lies as a convolution can read it, @wanted or with its two innermost dimensions the other way round. */
static bool lies_so(const EchLayout *l, const EchLayout *wanted)
{
    int a[2] = {ech_hlo_physical(l, 0), ech_hlo_physical(l, 1)}, b[2] = {ech_hlo_physical(wanted, 0), ech_hlo_physical(wanted, 1)};
    return (a[0] == b[0] && a[1] == b[1]) || (a[0] == b[1] && a[1] == b[0]);
}

/* "pad=1_1x0_1" of @id's window with @more cut off behind the last dimension. */
static void cut_window(EchGraph *g, EchId id, unsigned n, uint64_t more)
{
    EchInstruction *i = ech_graph_node(g, id);
    size_t length;
    const char *window = ech_program_attribute(i, "window", &length);
    if (!window)
        return;
    const char *pad = g_strstr_len(window, (gssize)length, "pad="), *end = pad ? pad : window + length;
    int64_t sides[2 * ECH_LAYOUT_MAX_RANK] = {0};
    if (pad) {
        while (end < window + length && *end != ' ' && *end != '}')
            end++;
        g_autofree char *listed = g_strndup(pad, (size_t)(end - pad));
        g_strdelimit(listed, "_x", ' ');
        (void)ech_program_numbers(listed, strlen(listed), sides, 2 * n);
    } else {
        while (end > window && end[-1] == '}')
            end--;
        pad = end;
    }
    sides[2 * n - 1] -= (int64_t)more;
    g_autoptr(GString) text = g_string_new_len(i->attributes, pad - i->attributes);
    g_string_append_printf(text, "%spad=", text->len > 0 && text->str[text->len - 1] != ' ' && text->str[text->len - 1] != '{' ? " " : "");
    for (unsigned k = 0; k < n; k++)
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT "_%" G_GINT64_FORMAT, k ? "x" : "", sides[2 * k], sides[2 * k + 1]);
    g_string_append_len(text, end, i->attributes + i->attributes_n - end);
    i->attributes = ech_program_builder_string(g->out, text->str, (gssize)text->len);
    i->attributes_n = (uint32_t)text->len;
}

/* Few images are copied with what their parts have of each other. */
static void copy_parts(EchGraph *g, EchId id, const EchHloLabels *labels)
{
    const EchInstruction i = *ech_graph_node(g, id);
    EchHloWindow window = ech_hlo_window(&i);
    unsigned n = (unsigned)labels->ln - 2, last = n - 1;
    EchId images = ech_graph_operand(g, id, 0);
    const EchLayout *from = ech_graph_layout(g, images), *to = ech_graph_layout(g, id);
    int place = ech_hlo_label_at(labels->l, labels->ln, (char)('0' + last)), kept = ech_hlo_label_at(labels->o, labels->on, (char)('0' + last));
    int batch = ech_hlo_label_at(labels->l, labels->ln, 'b'), features = ech_hlo_label_at(labels->l, labels->ln, 'f');
    if (!from || !to || labels->ln != from->rank || labels->on != to->rank || n == 0 || window.n != n || place < 0 || kept < 0 || batch < 0 || features < 0)
        return;
    EchLayout copy = *from;
    uint64_t size = copy.dims[place], parts = size / PARTS + 1, k = window.size[last], wanted;
    bool gradient = copy.dims[batch] >= FEW_IMAGES && copy.dims[features] < FEW_IMAGES && to->dims[kept] * 4 <= k;
    if (size < PARTS || size > MOST || to->dims[kept] > MOST || k > MOST || window.lhs_dilate[last] > MOST || i.attributes_n == 0)
        return;
    if (gradient)
        wanted = ech_bytes_mul(ech_bytes_mul(parts + 1, PARTS), to->dims[kept]);
    else if (copy.dims[batch] < FEW_IMAGES && k > 1 && k - 1 <= (size + PARTS - 1) / PARTS)
        wanted = ech_bytes_mul(parts + k - 1, PARTS);
    else
        return;
    uint64_t more = wanted - size;
    copy.dims[place] = wanted;
    copy.has_layout = true;
    ech_layout_choose_tiles(&copy, g->generation);
    EchLayout number = *from;
    EchId zero = ech_graph_add_new(g, i.computation, ECH_HLO_CONSTANT, "parts-zero", ech_graph_array(g, &number, NULL, 0), NULL, 0);
    EchId shape = ech_program_builder_array(g->out, &copy);
    EchId padded = ech_graph_add_new(g, i.computation, ECH_HLO_PAD, "parts", shape, (EchId[]){images, zero}, 2);
    g_autoptr(GString) text = g_string_new("padding=");
    for (int d = 0; d < copy.rank; d++)
        g_string_append_printf(text, "%s0_%" G_GUINT64_FORMAT, d ? "x" : "", d == place ? more : 0);
    EchInstruction *node = ech_graph_node(g, padded);
    node->attributes = ech_program_builder_string(g->out, text->str, (gssize)text->len);
    node->attributes_n = (uint32_t)text->len;
    g_hash_table_add(g->apart, GSIZE_TO_POINTER((size_t)padded + 1));
    ech_graph_set_operand(g, id, 0, padded);
    cut_window(g, id, n, ech_bytes_mul(more, window.lhs_dilate[last]));
}

void ech_graph_lay_convolution(EchGraph *g, EchId id)
{
    EchHloLabels labels;
    EchLayout layout;
    if (!ech_hlo_labels(ech_graph_node(g, id), &labels) || ech_graph_node(g, id)->n_operands < 2)
        return;
    if (lay_images(g, ech_graph_layout(g, id), labels.o, labels.on, &layout))
        ech_graph_node(g, id)->shape = ech_program_builder_array(g->out, &layout);
    EchId images = ech_graph_operand(g, id, 0);
    const EchLayout *have = ech_graph_layout(g, images);
    if (!lay_images(g, have, labels.l, labels.ln, &layout))
        return;
    if (!lies_so(have, &layout)) {
        EchId shape = ech_program_builder_array(g->out, &layout);
        EchId copy = ech_graph_add_new(g, ech_graph_node(g, id)->computation, ECH_HLO_COPY, "turned", shape, &images, 1);
        ech_graph_set_operand(g, id, 0, copy);
    }
    copy_parts(g, id, &labels);
}
