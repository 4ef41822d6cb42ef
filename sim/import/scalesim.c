/* SCALE-Sim's topologies (scalesim-project/SCALE-Sim): one line a layer, convolutions or matrix products, run one after the other.
 *
 * Columns by position, as SCALE-Sim reads them: name, IFMAP height and width, filter height and width, channels, filters, stride; or name, M, N, K. The next
 * one is what its header says: a batch size, a stride along the width, a sparsity; or what people add, as those behind it. Commas or tabs. A layer whose name
 * holds "DP" is depthwise: every channel has its own filters. Rules, each counted or remarked:
 *  - a word is one byte of s8, SCALE-Sim's own size: bytes are assumed;
 *  - a layer reads what the layer before it wrote where the number of elements is the same; else its input is a new array made for it
 *    (padding, pooling and branches are not in the file) (inputs_that_are_not_the_output_before);
 *  - filters are dense, whatever their sparsity (sparse_layers_taken_as_dense);
 *  - a row without whole numbers is left out (rows_without_dimensions), a file of such rows only is refused;
 *  - inputs and outputs live from the layer that makes them to the end of the one that reads them; filters are there from the start. */
#include "sim/base/error.h"
#include "sim/import/import.h"

#include <string.h>

enum { MAX_FIELDS = 32, MAX_LAYERS = 1 << 22 };

typedef struct {
    const char *text;
    size_t n;
} Field;

typedef struct {
    EchBytes input, filter, output;
    uint64_t macs;
    char filter_shape[96], output_shape[96]; /* "" where a layer is no plain product or convolution (depthwise) */
} Layer;

/* What the column behind those of a layer holds. */
typedef enum { EXTRA_NOTHING, EXTRA_BATCH, EXTRA_STRIDE, EXTRA_SPARSITY } Extra;

typedef struct {
    EchImport *ret;
    const char *where;
    size_t line;
    bool gemm;
    char comma; /* or a tab */
    Extra extra;
    GError *first_bad; /* of the first row that was left out for its numbers */
    EchTraceBuilder *builder;
    EchId memory, core;
    EchId output; /* of the layer before, or ECH_NONE */
    size_t n_layers;
} Reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '"';
}

/* Spreadsheets write blanks that do not break, too. */
static Field trim(const char *text, size_t n)
{
    static const char hard[] = "\xc2\xa0";
    for (size_t step = 1; n && step;) {
        step = is_blank(*text) ? 1 : n >= 2 && memcmp(text, hard, 2) == 0 ? 2 : 0;
        text += step;
        n -= step;
    }
    for (size_t step = 1; n && step;) {
        step = is_blank(text[n - 1]) ? 1 : n >= 2 && memcmp(text + n - 2, hard, 2) == 0 ? 2 : 0;
        n -= step;
    }
    return (Field){text, n};
}

/* What separates the fields of a file that begins with this line. */
static char separator(const char *line, size_t n)
{
    return !memchr(line, ',', n) && memchr(line, '\t', n) ? '\t' : ',';
}

static size_t split(const char *line, size_t n, char comma, Field fields[MAX_FIELDS])
{
    size_t count = 0, from = 0;
    for (size_t i = 0; i <= n && count < MAX_FIELDS; i++) {
        if (i == n || line[i] == comma) {
            fields[count++] = trim(line + from, i - from);
            from = i + 1;
        }
    }
    return count;
}

static bool starts(Field field, const char *text)
{
    return field.n >= strlen(text) && g_ascii_strncasecmp(field.text, text, strlen(text)) == 0;
}

static bool same(Field field, const char *text)
{
    return field.n == strlen(text) && g_ascii_strncasecmp(field.text, text, field.n) == 0;
}

/* 0 no header, 1 convolutions, 2 products. */
static int header_kind(const Field *fields, size_t n)
{
    if (n < 4)
        return 0;
    bool named = starts(fields[0], "layer"), product = same(fields[0], "L") || same(fields[0], "name");
    if (!named && !product)
        return 0;
    if (same(fields[1], "M") && same(fields[2], "N") && same(fields[3], "K"))
        return 2;
    /* SCALE-Sim's data layouts are tables of the same layers: "IFMAP Height Intraline Factor". */
    bool layout = memmem(fields[1].text, fields[1].n, "traline", 7) != NULL;
    return named && n >= 8 && starts(fields[1], "ifmap") && starts(fields[3], "filter") && !layout ? 1 : 0;
}

static Extra extra_of(const Field *fields, size_t n, bool gemm)
{
    size_t at = gemm ? 4 : 8;
    if (n <= at)
        return EXTRA_NOTHING;
    return starts(fields[at], "batch") && !gemm    ? EXTRA_BATCH
           : starts(fields[at], "stride") && !gemm ? EXTRA_STRIDE
           : starts(fields[at], "sparsity")        ? EXTRA_SPARSITY
                                                   : EXTRA_NOTHING;
}

/* SCALE-Sim's "2:4": two of four are there. */
static void note_sparsity(Reader *r, const Field *fields, size_t n)
{
    size_t at = r->gemm ? 4 : 8;
    if (r->extra == EXTRA_SPARSITY && n > at && fields[at].n && !same(fields[at], "1:1"))
        ech_diag_note(r->ret->diag, "sparse_layers_taken_as_dense", 1);
}

static bool bad(const Reader *r, Field field, const char *expected, GError **error)
{
    g_autofree char *raw = g_strndup(field.text, MIN(field.n, (size_t)60)), *text = g_utf8_make_valid(raw, -1);
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: '%s' is not %s", r->where, r->line, text, expected);
    return false;
}

static bool number(const Reader *r, Field field, uint64_t *ret, GError **error)
{
    uint64_t value = 0;
    for (size_t i = 0; i < field.n; i++) {
        if (!g_ascii_isdigit(field.text[i]) || value > (UINT64_C(1) << 40))
            return bad(r, field, "a layer's dimension; expected a whole number from 1 to 2^40", error);
        value = value * 10 + (uint64_t)(field.text[i] - '0');
    }
    if (value == 0 || value > UINT64_C(1) << 40)
        return bad(r, field, "a layer's dimension; expected a whole number from 1 to 2^40", error);
    *ret = value;
    return true;
}

static bool product(const Reader *r, const uint64_t *factors, size_t n, uint64_t *ret, GError **error)
{
    uint64_t value = 1;
    for (size_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(value, factors[i], &value) || value > UINT64_C(1) << 61) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: the layer is larger than 2^61 words or multiplications", r->where, r->line);
            return false;
        }
    }
    *ret = value;
    return true;
}

static bool depthwise(Field name)
{
    return memmem(name.text, name.n, "DP", 2) != NULL;
}

/* False with an error, or true and *ret_skip where the layer cannot be computed. */
static bool convolution(Reader *r, const Field *fields, size_t n_fields, Layer *ret, bool *ret_skip, GError **error)
{
    uint64_t d[9] = {0}, height, width;
    for (size_t i = 1; i <= 7; i++) {
        if (!number(r, fields[i], &d[i], error))
            return false;
    }
    uint64_t across = d[7];
    d[8] = 1;
    uint64_t *extra = r->extra == EXTRA_BATCH ? &d[8] : r->extra == EXTRA_STRIDE ? &across : NULL;
    if (extra && n_fields > 8 && fields[8].n && !number(r, fields[8], extra, error))
        return false;
    if (d[3] > d[1] || d[4] > d[2]) {
        ech_diag_dropped(r->ret->diag, "layers_with_a_filter_larger_than_their_input", 1, "line %zu", r->line);
        *ret_skip = true;
        return true;
    }
    height = (d[1] - d[3] + d[7] + d[7] - 1) / d[7];
    width = (d[2] - d[4] + across + across - 1) / across;
    bool apart = depthwise(fields[0]);
    if (apart)
        ech_diag_note(r->ret->records, "depthwise", 1);
#define N "%" G_GUINT64_FORMAT
    if (!apart) {
        g_snprintf(ret->filter_shape, sizeof ret->filter_shape, "s8[" N "," N "," N "," N "]{3,2,1,0}", d[3], d[4], d[5], d[6]);
        g_snprintf(ret->output_shape, sizeof ret->output_shape, "s8[" N "," N "," N "," N "]{3,2,1,0}", d[8], height, width, d[6]);
    }
    const uint64_t input[] = {d[1], d[2], d[5], d[8]}, filter[] = {d[3], d[4], d[5], d[6]}, output[] = {height, width, d[6], d[8], apart ? d[5] : 1},
                   macs[] = {height, width, d[3], d[4], d[5], d[6], d[8]};
    return product(r, input, 4, &ret->input, error) && product(r, filter, 4, &ret->filter, error) && product(r, output, 5, &ret->output, error) &&
           product(r, macs, 7, &ret->macs, error);
}

static bool matrix_product(Reader *r, const Field *fields, Layer *ret, GError **error)
{
    uint64_t d[4] = {0};
    for (size_t i = 1; i <= 3; i++) {
        if (!number(r, fields[i], &d[i], error))
            return false;
    }
    g_snprintf(ret->filter_shape, sizeof ret->filter_shape, "s8[" N "," N "]{1,0}", d[3], d[2]);
    g_snprintf(ret->output_shape, sizeof ret->output_shape, "s8[" N "," N "]{1,0}", d[1], d[2]);
#undef N
    const uint64_t a[] = {d[1], d[3]}, b[] = {d[3], d[2]}, c[] = {d[1], d[2]}, macs[] = {d[1], d[2], d[3]};
    return product(r, a, 2, &ret->input, error) && product(r, b, 2, &ret->filter, error) && product(r, c, 2, &ret->output, error) &&
           product(r, macs, 3, &ret->macs, error);
}

static EchId array(Reader *r, const char *name, EchBytes bytes, const char *shape, EchRole role, bool resident)
{
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(r->builder, name, -1);
    b.memory = r->memory;
    b.bytes = bytes;
    b.role = (uint8_t)role;
    b.dtype = ECH_DTYPE_S8;
    if (*shape)
        b.shape = ech_trace_builder_string(r->builder, shape, -1);
    b.resident = resident;
    return ech_trace_builder_buffer(r->builder, b);
}

static void memory_op(Reader *r, EchOpKind kind, EchId buffer)
{
    EchOp op = ech_op_init(kind);
    const EchBuffer *b = ech_trace_builder_peek_buffer(r->builder, buffer);
    op.name = b->name;
    op.bytes = b->bytes;
    op.bytes_origin = ECH_ASSUMED;
    op.target = buffer;
    op.queue = r->core;
    ech_trace_builder_op(r->builder, op);
}

static void add_layer(Reader *r, Field name, const Layer *layer)
{
    g_autofree char *raw = g_strndup(name.text, MIN(name.n, (size_t)256)), *text = g_utf8_make_valid(raw, -1);
    g_autofree char *input_name = g_strconcat(text, " input", NULL), *filter_name = g_strconcat(text, " filters", NULL),
                    *output_name = g_strconcat(text, " output", NULL);
    EchId before = r->output, input = before;
    bool chained = before != ECH_NONE && ech_trace_builder_peek_buffer(r->builder, before)->bytes == layer->input;
    if (!chained) {
        input = array(r, input_name, layer->input, "", before == ECH_NONE ? ECH_ROLE_INPUT : ECH_ROLE_ACTIVATION, before == ECH_NONE);
        if (before != ECH_NONE) {
            ech_diag_note(r->ret->diag, "inputs_that_are_not_the_output_before", 1);
            memory_op(r, ECH_OP_ALLOC, input);
            memory_op(r, ECH_OP_FREE, before);
        }
    }
    EchId filters = array(r, filter_name, layer->filter, layer->filter_shape, ECH_ROLE_PARAMETER, true),
          output = array(r, output_name, layer->output, layer->output_shape, ECH_ROLE_ACTIVATION, false);
    memory_op(r, ECH_OP_ALLOC, output);
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    op.name = ech_trace_builder_string(r->builder, text, -1);
    op.queue = r->core;
    ech_trace_builder_op(r->builder, op);
    ech_trace_builder_use(r->builder, input, ECH_READ, layer->input, ECH_PATTERN_STREAM, ECH_ASSUMED);
    ech_trace_builder_use(r->builder, filters, ECH_READ, layer->filter, ECH_PATTERN_STREAM, ECH_ASSUMED);
    ech_trace_builder_use(r->builder, output, ECH_WRITE, layer->output, ECH_PATTERN_STREAM, ECH_ASSUMED);
    ech_trace_builder_work(r->builder, ECH_WORK_MATRIX, ECH_DTYPE_S8, layer->macs * 2, ECH_KNOWN);
    if (chained || before != ECH_NONE)
        memory_op(r, ECH_OP_FREE, input);
    r->output = output;
    r->n_layers++;
}

static bool read_row(Reader *r, const Field *fields, size_t n, GError **error)
{
    size_t needed = r->gemm ? 3 : 7, filled = 0;
    for (size_t i = 1; i < n; i++)
        filled += fields[i].n > 0;
    if (filled == 0) {
        if (fields[0].n)
            ech_diag_note(r->ret->records, "section titles", 1);
        return true;
    }
    if (n <= needed) {
        ech_diag_dropped(r->ret->diag, "rows_with_too_few_columns", 1, "line %zu", r->line);
        return true;
    }
    if (r->n_layers == MAX_LAYERS) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: more than %d layers", r->where, r->line, MAX_LAYERS);
        return false;
    }
    Layer layer = {0};
    bool skip = false;
    g_autoptr(GError) failure = NULL;
    if (!(r->gemm ? matrix_product(r, fields, &layer, &failure) : convolution(r, fields, n, &layer, &skip, &failure))) {
        ech_diag_dropped(r->ret->diag, "rows_without_dimensions", 1, "line %zu", r->line);
        if (!r->first_bad)
            r->first_bad = g_steal_pointer(&failure);
        return true;
    }
    if (skip)
        return true;
    note_sparsity(r, fields, n);
    ech_diag_note(r->ret->records, r->gemm ? "gemm layers" : "conv layers", 1);
    add_layer(r, fields[0], &layer);
    return true;
}

static bool read_text(Reader *r, const char *data, size_t n, GError **error)
{
    Field fields[MAX_FIELDS];
    bool header = false;
    for (size_t at = 0; at < n;) {
        const char *line = data + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        at += length + 1;
        r->line++;
        if (trim(line, length).n == 0)
            continue;
        if (!header)
            r->comma = separator(line, length);
        size_t n_fields = split(line, length, r->comma, fields);
        int kind = header_kind(fields, n_fields);
        if (!header) {
            if (!kind)
                return bad(r, trim(line, length), "a header; expected Layer name, IFMAP Height, ... or Layer,M,N,K", error);
            header = true;
            r->gemm = kind == 2;
            r->extra = extra_of(fields, n_fields, r->gemm);
        } else if (!kind && !read_row(r, fields, n_fields, error)) {
            return false;
        }
    }
    if (r->n_layers == 0 && r->first_bad) {
        g_propagate_error(error, g_steal_pointer(&r->first_bad));
        return false;
    }
    if (r->n_layers == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: a topology without layers", r->where, r->line);
        return false;
    }
    return true;
}

static bool read_scalesim(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)256 << 20, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("scalesim");
    Reader r = {.ret = ret, .where = ech_source_path(source), .builder = builder, .output = ECH_NONE};
    r.memory = ech_trace_builder_memory(builder, "hbm");
    r.core = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0);
    bool ok = read_text(&r, data, n, error);
    g_clear_error(&r.first_bad);
    if (!ok)
        return false;
    ech_diag_remark(ret->diag, "SCALE-Sim says no element type: a word is taken as one byte of s8, as SCALE-Sim does");
    ret->trace = ech_trace_builder_finish(builder, error);
    return ret->trace != NULL;
}

static int probe(const uint8_t *head, size_t n)
{
    const char *text = (const char *)head;
    const char *end = n ? memchr(text, '\n', n) : NULL;
    if (!end)
        return 0;
    Field fields[MAX_FIELDS];
    size_t length = (size_t)(end - text);
    return header_kind(fields, split(text, length, separator(text, length), fields)) ? 2 : 0;
}

const EchImportClass ech_import_scalesim = {
    .name = "scalesim",
    .summary = "SCALE-Sim topology (CSV of convolution or GEMM layers), run layer by layer",
    .probe = probe,
    .read = read_scalesim,
};
