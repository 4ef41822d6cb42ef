/* A table of kernels with what the compiler thinks each costs: a row becomes a kernel, the kernel a price. */
#include "sim/experiment/validate.h"

#include "sim/base/error.h"

#include <math.h>
#include <string.h>

#define MAX_COLUMNS 64
#define MAX_ARRAYS 64

enum {
    MODE,
    CASE,
    KIND,
    INSTR,
    OPCODE,
    FUSION,
    OUT,
    OPERANDS,
    BODY,
    CYCLES,
    KERNEL_WINDOW,
    OUTPUT_WINDOW,
    INPUT_WINDOW,
    ITERATIONS,
    BUFFERING,
    VMEM,
    EMITTER,
    N_FIELDS
};
static const char *const field_names[N_FIELDS] = {
    "mode",          "case",          "kind",         "instr",      "opcode",    "fusion",      "out",    "operands", "body", "estimated_cycles",
    "kernel_window", "output_window", "input_window", "iterations", "buffering", "scoped_vmem", "emitter"};

/* Reads one line of comma-separated fields into @cells; returns the rest of the text. Quotes may enclose a field, doubled inside. */
static const char *read_line(const char *at, const char *end, GPtrArray *cells)
{
    g_ptr_array_set_size(cells, 0);
    GString *cell = g_string_new(NULL);
    bool quoted = false;
    for (; at < end; at++) {
        if (quoted) {
            if (*at == '"' && at + 1 < end && at[1] == '"')
                g_string_append_c(cell, *at++);
            else if (*at == '"')
                quoted = false;
            else
                g_string_append_c(cell, *at);
        } else if (*at == '"') {
            quoted = true;
        } else if (*at == ',') {
            g_ptr_array_add(cells, g_string_free(cell, FALSE));
            cell = g_string_new(NULL);
        } else if (*at == '\n') {
            at++;
            break;
        } else if (*at != '\r') {
            g_string_append_c(cell, *at);
        }
    }
    g_ptr_array_add(cells, g_string_free(cell, FALSE));
    return at;
}

bool ech_validate_is_table(const char *data, size_t size)
{
    static const char start[] = "chip,mode,case,";
    return size > sizeof start && memcmp(data, start, sizeof start - 1) == 0;
}

static bool read_bounds(const char *text, uint32_t *ret, uint8_t *ret_n, GError **error)
{
    g_auto(GStrv) words = g_strsplit_set(text, " ", -1);
    uint8_t n = 0;
    for (char **word = words; *word != NULL; word++) {
        uint64_t value;
        if (**word == '\0')
            continue;
        if (n == ECH_KERNEL_MAX_WINDOW) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "'%s' has more than %d bounds", text, ECH_KERNEL_MAX_WINDOW);
            return false;
        }
        if (!ech_parse_u64(*word, &value, error))
            return false;
        if (value == 0 || value > UINT32_MAX) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "'%s' is not a bound; expected 1 to %u", *word, UINT32_MAX);
            return false;
        }
        ret[n++] = (uint32_t)value;
    }
    *ret_n = n;
    return true;
}

/* Array shapes separated by spaces, or a tuple of them. */
static bool read_arrays(const char *text, GArray *ret, GError **error)
{
    const char *at = text;
    while (*at != '\0') {
        if (*at == ' ' || *at == '(' || *at == ')' || *at == ',' || *at == '?') {
            at++;
            continue;
        }
        EchLayout layout;
        size_t used;
        if (!ech_layout_parse(at, strlen(at), &layout, &used, error))
            return false;
        if (ret->len == MAX_ARRAYS) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "more than %d arrays", MAX_ARRAYS);
            return false;
        }
        g_array_append_val(ret, layout);
        at += used;
    }
    return true;
}

/* "add:2 broadcast:4 tanh:1" */
static bool read_body(const char *text, EchKernelBody *ret, uint32_t *ret_contractions, uint32_t *ret_broadcasts, GError **error)
{
    static const char *const transcendental[] = {
        "tanh", "exponential", "exponential-minus-one", "log", "log-plus-one", "rsqrt", "logistic", "power", "erf", "sine", "cosine", NULL};
    static const char *const free_ops[] = {"constant", "convert",           "copy",    "bitcast", "iota", "parameter",
                                           "tuple",    "get-tuple-element", "reshape", "sqrt",    NULL};
    g_auto(GStrv) words = g_strsplit_set(text, " ", -1);
    EchKernelBody body = {.reads = true};
    uint32_t constants = 0, broadcasts = 0;
    for (char **word = words; *word != NULL; word++) {
        char *colon = strrchr(*word, ':');
        uint64_t count;
        if (**word == '\0')
            continue;
        if (colon == NULL || !ech_parse_u64(colon + 1, &count, NULL) || count > 1000000) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "'%s' is not an operation count; expected NAME:COUNT", *word);
            return false;
        }
        *colon = '\0';
        uint32_t n = (uint32_t)count;
        if (g_strv_contains(transcendental, *word))
            body.transcendental += n;
        else if (strcmp(*word, "divide") == 0)
            body.divide += n;
        else if (strcmp(*word, "broadcast") == 0)
            broadcasts += n;
        else if (strcmp(*word, "reduce") == 0)
            body.reduce += n;
        else if (strcmp(*word, "reduce-window") == 0)
            body.windows += n;
        else if (strcmp(*word, "convolution") == 0 || strcmp(*word, "dot") == 0)
            *ret_contractions += n;
        else if (strcmp(*word, "constant") == 0)
            constants += n;
        else if (!g_strv_contains(free_ops, *word))
            body.simple += n;
    }
    /* Broadcasting a constant is a register filled once; a reduction starts from one that is not broadcast. */
    constants -= MIN(constants, body.reduce);
    *ret_broadcasts = broadcasts - MIN(broadcasts, constants);
    *ret = body;
    return true;
}

/* Which vectors the body's broadcasts repeat: those that have the widest array's lanes lie along them, others are spread over them. */
static void add_broadcasts(const GArray *operands, const GArray *results, uint32_t broadcasts, EchKernelBody *body)
{
    const EchLayout *wide = NULL;
    for (guint i = 0; i < operands->len + results->len; i++) {
        const EchLayout *layout = i < operands->len ? &g_array_index(operands, EchLayout, i) : &g_array_index(results, EchLayout, i - operands->len);
        if (layout->rank == 2 && (wide == NULL || ech_layout_elements(layout) > ech_layout_elements(wide)))
            wide = layout;
    }
    for (guint i = 0; wide != NULL && i < operands->len && broadcasts > 0; i++) {
        const EchLayout *layout = &g_array_index(operands, EchLayout, i);
        if (layout->rank != 1)
            continue;
        uint64_t lanes = wide->dims[wide->order[0]], rows = wide->dims[wide->order[1]];
        if (layout->dims[0] == rows)
            body->spread += (double)((rows + 7) / 8);
        else if (layout->dims[0] == lanes)
            body->rows += (double)((lanes + 127) / 128);
        broadcasts--;
    }
}

/* -- contractions ---------------------------------------------------------- */

static bool rows_are(const EchLayout *layout, unsigned dim)
{
    return layout->rank >= 2 && layout->order[1] == dim;
}

/* Whether @b is a filter [window.., in, out] over the images [batch, pixels.., in] of @a. A batch of products of 3 dimensions may look the same: there the
 * batch is one of the filter's. */
static bool is_filter(const EchLayout *out, const EchLayout *a, const EchLayout *b)
{
    unsigned r = out->rank;
    return r >= 3 && a->rank == r && b->rank == r && b->dims[r - 1] == out->dims[r - 1] && b->dims[r - 2] == a->dims[r - 1] && a->dims[0] == out->dims[0] &&
           !(r == 3 && b->dims[0] == out->dims[0]);
}

/* Whether @a [m, k] and @b [k, n], either turned round, make @out [m, n]. */
static bool multiplies(const EchLayout *out, const EchLayout *a, const EchLayout *b)
{
    uint64_t elements_a = ech_layout_elements(a), elements_b = ech_layout_elements(b);
    uint64_t m = out->dims[0], n = out->dims[1];
    return out->rank == 2 && a->rank == 2 && b->rank == 2 && m > 0 && n > 0 && elements_a % m == 0 && elements_b % n == 0 && elements_a / m == elements_b / n &&
           (a->dims[0] == m || a->dims[1] == m) && (b->dims[0] == n || b->dims[1] == n);
}

/* Which operand is which, and m, n, k, from shapes alone: [b..., m, k] x [b..., k, n] -> [b..., m, n], or an image by a filter. False where the
 * shapes are neither: then the kernel is priced by what it moves. */
static bool read_product(const EchLayout *out, const GArray *operands, EchKernel *kernel)
{
    EchKernelContraction *c = &kernel->contraction;
    if (operands->len < 2 || out->rank < 2)
        return false;
    const EchLayout *all = (const EchLayout *)(const void *)operands->data, *a = &all[0], *b = &all[1];
    kernel->lhs = 0;
    kernel->rhs = 1;
    c->batch = c->taps = c->passes = 1;
    /* What else is fused may stand before. */
    bool found = out->rank != 2 || multiplies(out, a, b);
    for (guint i = 0; i < operands->len && !found; i++) {
        for (guint k = 0; k < operands->len && !found; k++) {
            found = i != k && multiplies(out, &all[i], &all[k]);
            if (found) {
                kernel->lhs = i;
                kernel->rhs = k;
            }
        }
    }
    a = &all[kernel->lhs];
    b = &all[kernel->rhs];
    if (is_filter(out, a, b) || is_filter(out, b, a)) {
        unsigned last = out->rank - 1u;
        if (!is_filter(out, a, b)) {
            kernel->lhs = 1;
            kernel->rhs = 0;
            a = &all[1];
            b = &all[0];
        }
        c->convolution = true;
        c->n = out->dims[last];
        c->k = b->dims[last - 1];
        c->m = c->input_pixels = 1;
        for (unsigned i = 0; i < last; i++) {
            c->m *= out->dims[i];
            c->input_pixels *= a->dims[i];
        }
        for (unsigned i = 0; i + 1 < last; i++)
            c->taps *= MAX(b->dims[i], 1u);
    } else {
        unsigned m = out->rank - 2u, n = out->rank - 1u;
        if (out->rank > 2 && out->order[0] < m) { /* heads may lie between rows */
            n = out->order[1];
            m = out->order[0];
        } else if (out->rank > 2 && out->order[1] < m) {
            m = out->order[0] == n ? out->order[1] : m;
            n = out->order[0] == n ? n : out->order[1];
        }
        c->m = out->dims[m];
        c->n = out->dims[n];
        for (unsigned i = 0; i < out->rank; i++)
            c->batch *= i == m || i == n ? 1 : out->dims[i];
        c->k = ech_layout_elements(a) / MAX(c->batch, 1u) / MAX(c->m, 1u);
        if (a->rank >= 2)
            c->lhs_transposed = rows_are(a, a->rank - 1u) && a->rank == 2;
        c->rhs_transposed = b->rank == 2 && rows_are(b, 1);
        c->out_transposed = out->rank == 2 && rows_are(out, 1);
    }
    return c->batch > 0 && c->m > 0 && c->n > 0 && c->k > 0;
}

/* Operations that narrowing a wide result takes: one to 16 bits, three to 8. */
static uint32_t narrowing(const EchLayout *result, const GArray *results, const GArray *operands)
{
    uint64_t widest = 0;
    for (guint i = 0; i < results->len; i++)
        widest = MAX(widest, ech_layout_elements(&g_array_index(results, EchLayout, i)));
    for (guint i = 0; i < operands->len; i++)
        widest = MAX(widest, ech_layout_elements(&g_array_index(operands, EchLayout, i)));
    unsigned bits = ech_layout_element_bits(result);
    return ech_layout_elements(result) * 2 < widest || bits >= 32 ? 0 : bits > 8 ? 1 : 3;
}

static bool price_row(char **cells, const EchKernelModel *model, bool own_tiles, EchValidatePair *ret, GError **error)
{
    g_autoptr(GArray) results = g_array_new(FALSE, FALSE, sizeof(EchLayout));
    g_autoptr(GArray) operands = g_array_new(FALSE, FALSE, sizeof(EchLayout));
    EchKernel kernel = {.kind = ECH_KERNEL_STREAM, .fused = cells[FUSION][0] != '\0'};
    uint32_t contractions = 0, broadcasts = 0;
    if (!read_arrays(cells[OUT], results, error) || !read_arrays(cells[OPERANDS], operands, error) ||
        !read_body(cells[BODY], &kernel.body, &contractions, &broadcasts, error))
        return false;
    add_broadcasts(operands, results, broadcasts, &kernel.body);
    kernel.results = (const EchLayout *)(void *)results->data;
    kernel.n_results = results->len;
    kernel.operands = (const EchLayout *)(void *)operands->data;
    kernel.n_operands = operands->len;
    EchKernelWindows *w = &kernel.windows;
    if (!read_bounds(cells[KERNEL_WINDOW], w->kernel, &w->n_kernel, error) || !read_bounds(cells[OUTPUT_WINDOW], w->output, &w->n_output, error) ||
        !read_bounds(cells[INPUT_WINDOW], w->input, &w->n_input, error) || !read_bounds(cells[ITERATIONS], w->iterations, &w->n_iterations, error))
        return false;
    uint64_t cycles, buffers = 0, vmem = 0;
    if (!ech_parse_u64(cells[CYCLES], &cycles, error) || (cells[BUFFERING][0] != '\0' && !ech_parse_u64(cells[BUFFERING], &buffers, error)) ||
        (cells[VMEM][0] != '\0' && !ech_parse_u64(cells[VMEM], &vmem, error)))
        return false;
    w->buffers = (uint8_t)MIN(buffers, 255u);
    if (contractions > 0 && results->len > 0) {
        if (read_product(&g_array_index(results, EchLayout, 0), operands, &kernel)) {
            kernel.kind = ECH_KERNEL_CONTRACTION;
            kernel.body = (EchKernelBody){0};
        }
        kernel.contraction.one_tap = strcmp(cells[EMITTER], "EmitOutputBatchInSublanes") == 0;
        if (strstr(cells[KIND], "high") != NULL)
            kernel.contraction.passes = strstr(cells[KIND], "highest") != NULL ? 6 : 3;
    } else if (strcmp(cells[OPCODE], "copy") == 0 || strcmp(cells[OPCODE], "transpose") == 0) {
        kernel.kind = ECH_KERNEL_COPY;
    }
    g_autoptr(GArray) taken = g_array_new(FALSE, FALSE, sizeof(EchBytes));
    if (strstr(cells[BODY], "slice:") != NULL && strstr(cells[BODY], "update") == NULL && results->len == 1) { /* no more is read than is left */
        EchBytes left = ech_layout_padded_bytes(&g_array_index(results, EchLayout, 0), ECH_LAYOUT_DENSE);
        for (guint i = 0; i < operands->len; i++) {
            EchBytes bytes = MIN(ech_layout_padded_bytes(&g_array_index(operands, EchLayout, i), ECH_LAYOUT_DENSE), left);
            g_array_append_val(taken, bytes);
        }
        kernel.operand_bytes = (const EchBytes *)(void *)taken->data;
    }
    if (kernel.kind == ECH_KERNEL_STREAM)
        for (guint i = 0; i < results->len; i++)
            kernel.body.narrow += narrowing(&g_array_index(results, EchLayout, i), results, operands);
    ech_kernel_price(model, &kernel, own_tiles, &ret->cost);
    ret->name = g_strdup_printf("%s/%s/%s", cells[MODE], cells[CASE], cells[INSTR]);
    ret->kind = g_strdup(cells[KIND]);
    ret->measured = ech_time_for(cycles, (EchRate)model->clock_hz);
    ret->predicted = ret->cost.time;
    ret->vmem_measured = vmem;
    ret->vmem_predicted = ret->cost.vmem;
    return true;
}

EchValidation *ech_validate_table(const char *path, const char *data, size_t size, const EchDevice *device, bool own_tiles, GError **error)
{
    EchKernelModel model;
    if (!ech_kernel_model_init(&model, device, ECH_KERNEL_COMPILER, error))
        return NULL;
    const char *at = data, *end = data + size;
    g_autoptr(GPtrArray) cells = g_ptr_array_new_with_free_func(g_free);
    at = read_line(at, end, cells);
    if (cells->len > MAX_COLUMNS) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:1: more than %d columns", path, MAX_COLUMNS);
        return NULL;
    }
    size_t n_columns = cells->len, column[N_FIELDS];
    for (unsigned f = 0; f < N_FIELDS; f++) {
        column[f] = SIZE_MAX;
        for (size_t i = 0; i < n_columns; i++)
            if (strcmp(g_ptr_array_index(cells, i), field_names[f]) == 0)
                column[f] = i;
        if (column[f] == SIZE_MAX) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:1: the column '%s' is missing", path, field_names[f]);
            return NULL;
        }
    }
    g_autoptr(EchValidation) validation = g_new0(EchValidation, 1);
    validation->makespan_measured = validation->makespan_predicted = ECH_TIME_NONE;
    g_autoptr(GArray) pairs = g_array_new(FALSE, TRUE, sizeof(EchValidatePair));
    for (uint64_t line = 2; at < end; line++) {
        at = read_line(at, end, cells);
        if (cells->len == 1 && *(char *)g_ptr_array_index(cells, 0) == '\0')
            continue;
        EchValidatePair pair = {0};
        char *row[N_FIELDS];
        bool fine = cells->len == n_columns;
        if (!fine)
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%u fields; the header has %zu", cells->len, n_columns);
        for (unsigned f = 0; fine && f < N_FIELDS; f++)
            row[f] = g_ptr_array_index(cells, column[f]);
        if (!fine || !price_row(row, &model, own_tiles, &pair, error)) {
            g_prefix_error(error, "%s:%" G_GUINT64_FORMAT ": ", path, line);
            validation->pairs = (EchValidatePair *)(void *)pairs->data; /* freed with the validation */
            validation->n_pairs = pairs->len;
            (void)g_array_free(g_steal_pointer(&pairs), FALSE);
            return NULL;
        }
        g_array_append_val(pairs, pair);
    }
    validation->n_pairs = pairs->len;
    validation->pairs = (EchValidatePair *)(void *)g_array_free(g_steal_pointer(&pairs), FALSE);
    return g_steal_pointer(&validation);
}
