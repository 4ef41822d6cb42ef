/* PyTorch's ExecutionTraceObserver: one JSON object with "nodes", a tree of operators (ctrl_deps, earlier "parent", is the caller) with
 * tensors [tensor, storage, offset, elements, element bytes, device]. Schemas 1.0 (inputs, outputs as lists; attributes as members) and
 * 1.1 (inputs.values, shapes and strides; attrs as a list). No times: those come with a profile of the same run.
 *
 * Products, convolutions and attention compute what their shapes say (gpu_work.h); f32 products other than convolutions as PyTorch does them unless it is told
 * otherwise: exactly, not as TF32. */
#include "sim/import/et.h"
#include "sim/import/gpu_work.h"
#include "sim/import/json_stream.h"

#include "sim/base/error.h"

#include <string.h>

#define MAX_DEPTH 64

enum { MAX_INPUTS = 16 };

typedef struct {
    EchEt *et;
    EchJson *json;
    EchImport *import;
    GArray *tensors; /* Tensor: of the node being read */
    GArray *dims[2]; /* Dim: of the inputs or outputs being read, their shapes and their strides */
    EchGpuInput inputs[MAX_INPUTS];
    size_t n_inputs;
    bool exact; /* there are f32 products, which may be TF32's */
    GError **error;
} Reader;

/* One number of the list of value @position. */
typedef struct {
    uint32_t position;
    int64_t number;
} Dim;

typedef struct {
    bool written, host;
    int64_t numbers[5];
    uint32_t ordinal;
    uint32_t position; /* among the values, or UINT32_MAX inside a list of tensors */
} Tensor;

static bool bad(Reader *reader)
{
    return ech_json_error(reader->json, reader->error);
}

static bool number_of(Reader *reader, int64_t *ret)
{
    size_t n;
    const char *text = ech_json_text(reader->json, &n);
    return ech_json_parse_whole(text, n, ret);
}

typedef struct {
    int64_t numbers[5];
    unsigned n_items;
    bool plain, host, has_device;
    uint32_t ordinal;
} List;

static EchGpuInput *input_at(Reader *reader, uint32_t position)
{
    if (position >= MAX_INPUTS)
        return NULL;
    reader->n_inputs = MAX(reader->n_inputs, (size_t)position + 1);
    return &reader->inputs[position];
}

static void end_list(Reader *reader, const List *list, bool written, uint32_t position)
{
    EchGpuInput *input = list->plain && !written && list->n_items > 0 && list->n_items <= ECH_GPU_MAX_INTEGERS ? input_at(reader, position) : NULL;
    if (input) { /* strides, padding */
        for (unsigned i = 0; i < list->n_items; i++)
            input->integers[i] = list->numbers[i];
        input->n_integers = (uint8_t)list->n_items;
    }
    if (!list->plain || list->n_items != 6 || !list->has_device)
        return;
    Tensor tensor = {.written = written, .host = list->host, .ordinal = list->ordinal, .position = position};
    memcpy(tensor.numbers, list->numbers, sizeof tensor.numbers);
    g_array_append_val(reader->tensors, tensor);
}

static void add_device(List *list, const char *text, size_t n)
{
    list->has_device = true;
    list->host = n >= 3 && strncmp(text, "cpu", 3) == 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] >= '0' && text[i] <= '9' && list->ordinal < 10000)
            list->ordinal = list->ordinal * 10 + (uint32_t)(text[i] - '0');
    }
}

/** Reads a list that has begun, with all in it, and collects its tensors. */
static bool read_values(Reader *reader, bool written)
{
    List stack[MAX_DEPTH];
    unsigned depth = 1;
    uint32_t position = 0; /* of the next value */
    stack[0] = (List){.plain = true};
    while (depth > 0) {
        EchJsonToken token = ech_json_next(reader->json);
        List *list = &stack[depth - 1];
        int64_t number;
        position += depth == 1 && token != ECH_JSON_ARRAY_END && position < UINT32_MAX - 1;
        switch (token) {
        case ECH_JSON_ARRAY:
            list->plain = false;
            if (depth == MAX_DEPTH) {
                g_set_error(reader->error, ECH_ERROR, ECH_ERROR_PARSE, "byte %" G_GUINT64_FORMAT ": lists of tensors nest deeper than %d",
                            ech_json_offset(reader->json), MAX_DEPTH);
                return false;
            }
            stack[depth++] = (List){.plain = true};
            break;
        case ECH_JSON_ARRAY_END:
            end_list(reader, list, written, depth == 2 ? position - 1 : UINT32_MAX);
            depth--;
            break;
        case ECH_JSON_NUMBER:
            if (list->n_items < 5 && number_of(reader, &number))
                list->numbers[list->n_items] = number;
            else
                list->plain = false;
            list->n_items++;
            break;
        case ECH_JSON_STRING:
            if (list->n_items == 5) {
                size_t n;
                const char *text = ech_json_text(reader->json, &n);
                add_device(list, text, n);
            } else
                list->plain = false;
            list->n_items++;
            break;
        case ECH_JSON_TRUE:
            list->plain = false;
            if (depth == 1 && !written && input_at(reader, position - 1))
                input_at(reader, position - 1)->truth = true;
            break;
        case ECH_JSON_FALSE:
        case ECH_JSON_NULL: list->plain = false; break;
        case ECH_JSON_OBJECT: /* containers of objects are of no interest: their values are read as if they were the list's */
        case ECH_JSON_OBJECT_END:
        case ECH_JSON_KEY: list->plain = false; break;
        case ECH_JSON_END:
        case ECH_JSON_BAD:
        default: return bad(reader);
        }
    }
    return true;
}

/** Reads a list of lists of numbers that has begun; what nests deeper belongs to lists of tensors and is left out. */
static bool read_dims(Reader *reader, GArray *out)
{
    uint32_t position = 0;
    for (unsigned depth = 1; depth > 0;) {
        EchJsonToken token = ech_json_next(reader->json);
        Dim dim = {.position = position - 1};
        position += depth == 1 && token != ECH_JSON_ARRAY_END && position < UINT32_MAX - 1;
        switch (token) {
        case ECH_JSON_ARRAY:
            if (depth++ == MAX_DEPTH) {
                g_set_error(reader->error, ECH_ERROR, ECH_ERROR_PARSE, "byte %" G_GUINT64_FORMAT ": lists of sizes nest deeper than %d",
                            ech_json_offset(reader->json), MAX_DEPTH);
                return false;
            }
            break;
        case ECH_JSON_ARRAY_END: depth--; break;
        case ECH_JSON_NUMBER:
            if (depth == 2 && number_of(reader, &dim.number))
                g_array_append_val(out, dim);
            break;
        case ECH_JSON_OBJECT:
        case ECH_JSON_OBJECT_END:
        case ECH_JSON_KEY:
        case ECH_JSON_STRING:
        case ECH_JSON_TRUE:
        case ECH_JSON_FALSE:
        case ECH_JSON_NULL: break;
        case ECH_JSON_END:
        case ECH_JSON_BAD:
        default: return bad(reader);
        }
    }
    return true;
}

/** Reads the list of types of the inputs, which has begun: "Tensor(c10::BFloat16)". */
static bool read_types(Reader *reader)
{
    uint32_t position = 0;
    for (unsigned depth = 1; depth > 0;) {
        EchJsonToken token = ech_json_next(reader->json);
        size_t n = 0;
        const char *text = token == ECH_JSON_STRING && depth == 1 ? ech_json_text(reader->json, &n) : NULL;
        if (text && n > 8 && strncmp(text, "Tensor(", 7) == 0 && text[n - 1] == ')' && input_at(reader, position))
            input_at(reader, position)->dtype = (uint8_t)ech_gpu_torch_dtype(text + 7, n - 8);
        if (token == ECH_JSON_BAD || token == ECH_JSON_END || depth == MAX_DEPTH)
            return bad(reader);
        position += depth == 1 && token != ECH_JSON_ARRAY_END && position < UINT32_MAX - 1;
        depth += token == ECH_JSON_ARRAY;
        depth -= token == ECH_JSON_ARRAY_END;
    }
    return true;
}

/** The shapes just read are those of the inputs. */
static void take_shapes(Reader *reader)
{
    for (guint i = 0; i < reader->dims[0]->len; i++) {
        const Dim *dim = &g_array_index(reader->dims[0], Dim, i);
        EchGpuInput *input = input_at(reader, dim->position);
        if (!input || input->rank == ECH_GPU_MAX_RANK)
            continue;
        input->numel = input->rank == 0 ? 1 : input->numel;
        input->numel = ech_bytes_mul(input->numel, dim->number > 0 ? (uint64_t)dim->number : 0);
        input->dims[input->rank++] = dim->number;
        input->known = true;
    }
}

/** What the operator @name computes of the inputs just read. */
static void count_work(Reader *reader, const char *name, EchEtNode *node)
{
    EchGpuOperator whole;
    ech_gpu_operator_of(name, reader->inputs, reader->n_inputs, &whole);
    uint64_t count = 0;
    if (whole.kind == ECH_GPU_OP_PRODUCT)
        count = ech_bytes_mul(ech_bytes_mul(2 * (uint64_t)whole.products, ech_bytes_mul(whole.batch, whole.m)), ech_bytes_mul(whole.n, whole.k));
    else if (whole.kind == ECH_GPU_OP_ATTENTION)
        count = whole.k;
    if (count == 0 || count == UINT64_MAX)
        return;
    bool exact = whole.dtype == ECH_DTYPE_F32 && whole.kind == ECH_GPU_OP_PRODUCT && !strstr(name, "convolution");
    reader->exact |= exact;
    node->num_ops = count;
    node->work_unit = exact ? ECH_WORK_VECTOR : ECH_WORK_MATRIX;
    node->work_dtype = whole.dtype;
}

/** An expanded tensor has more elements than its storage: strides of 0. What it reaches is what there is. From tensor @first on. */
static void bound_by_strides(Reader *reader, guint first)
{
    const GArray *shapes = reader->dims[0], *strides = reader->dims[1];
    guint at[2] = {0, 0};
    for (guint t = first; t < reader->tensors->len; t++) {
        Tensor *tensor = &g_array_index(reader->tensors, Tensor, t);
        if (tensor->position == UINT32_MAX)
            continue;
        /* Both lists are in order of position, as the tensors are. */
        for (int k = 0; k < 2; k++) {
            while (at[k] < reader->dims[k]->len && g_array_index(reader->dims[k], Dim, at[k]).position < tensor->position)
                at[k]++;
        }
        uint64_t reach = 1;
        bool pair = false, sound = true;
        for (guint i = at[0], j = at[1];; i++, j++) {
            bool a = i < shapes->len && g_array_index(shapes, Dim, i).position == tensor->position;
            bool b = j < strides->len && g_array_index(strides, Dim, j).position == tensor->position;
            if (!a || !b) {
                sound = sound && a == b;
                break;
            }
            int64_t size = g_array_index(shapes, Dim, i).number, stride = g_array_index(strides, Dim, j).number;
            sound = sound && size > 0 && stride >= 0;
            pair = true;
            reach = ech_bytes_add(reach, ech_bytes_mul((uint64_t)MAX(size - 1, 0), (uint64_t)MAX(stride, 0)));
        }
        if (pair && sound && tensor->numbers[3] > 0 && reach < (uint64_t)tensor->numbers[3])
            tensor->numbers[3] = (int64_t)reach;
    }
}

/** inputs or outputs: a list (1.0), or an object with "values" (1.1). */
static bool read_io(Reader *reader, bool written)
{
    EchJsonToken token = ech_json_next(reader->json);
    if (token == ECH_JSON_ARRAY)
        return read_values(reader, written);
    if (token == ECH_JSON_BAD || token == ECH_JSON_END)
        return bad(reader);
    if (token != ECH_JSON_OBJECT)
        return true;
    guint first = reader->tensors->len;
    g_array_set_size(reader->dims[0], 0);
    g_array_set_size(reader->dims[1], 0);
    for (;;) {
        token = ech_json_next(reader->json);
        if (token == ECH_JSON_OBJECT_END) {
            bound_by_strides(reader, first);
            if (!written)
                take_shapes(reader);
            return true;
        }
        if (token != ECH_JSON_KEY)
            return bad(reader);
        bool shapes = strcmp(ech_json_text(reader->json, NULL), "shapes") == 0, strides = strcmp(ech_json_text(reader->json, NULL), "strides") == 0;
        if (shapes || strides) {
            GArray *dims = reader->dims[strides];
            g_array_set_size(dims, 0);
            token = ech_json_next(reader->json);
            if (token == ECH_JSON_OBJECT || token == ECH_JSON_BAD || token == ECH_JSON_END)
                return bad(reader);
            if (token == ECH_JSON_ARRAY && !read_dims(reader, dims))
                return false;
        } else if (strcmp(ech_json_text(reader->json, NULL), "values") == 0) {
            token = ech_json_next(reader->json);
            if (token == ECH_JSON_OBJECT || token == ECH_JSON_BAD || token == ECH_JSON_END)
                return bad(reader);
            if (token == ECH_JSON_ARRAY && !read_values(reader, written))
                return false;
        } else if (!written && strcmp(ech_json_text(reader->json, NULL), "types") == 0) {
            token = ech_json_next(reader->json);
            if (token == ECH_JSON_OBJECT || token == ECH_JSON_BAD || token == ECH_JSON_END)
                return bad(reader);
            if (token == ECH_JSON_ARRAY && !read_types(reader))
                return false;
        } else if (!ech_json_skip(reader->json)) {
            return bad(reader);
        }
    }
}

static void apply(EchEtNode *node, const char *key, int64_t value)
{
    if (strcmp(key, "tid") == 0)
        node->thread = value;
    else if (strcmp(key, "start_ts") == 0 || strcmp(key, "ts") == 0)
        node->start_us = value;
    else if (strcmp(key, "dur") == 0 || strcmp(key, "duration") == 0)
        node->duration_us = value;
}

/** attrs: a list of {name, type, value}. */
static bool read_attrs(Reader *reader, EchEtNode *node)
{
    EchJsonToken token = ech_json_next(reader->json);
    if (token != ECH_JSON_ARRAY)
        return token != ECH_JSON_BAD && token != ECH_JSON_END && token != ECH_JSON_OBJECT ? true : bad(reader);
    while ((token = ech_json_next(reader->json)) == ECH_JSON_OBJECT) {
        g_autofree char *name = NULL;
        int64_t value = 0;
        bool has_value = false;
        while ((token = ech_json_next(reader->json)) == ECH_JSON_KEY) {
            bool is_name = strcmp(ech_json_text(reader->json, NULL), "name") == 0, is_value = strcmp(ech_json_text(reader->json, NULL), "value") == 0;
            if (!is_name && !is_value) {
                if (!ech_json_skip(reader->json))
                    return bad(reader);
                continue;
            }
            token = ech_json_next(reader->json);
            if (token == ECH_JSON_STRING && is_name) {
                g_free(name);
                name = g_strdup(ech_json_text(reader->json, NULL));
            } else if (token == ECH_JSON_NUMBER && is_value) {
                has_value = number_of(reader, &value);
            } else if (token == ECH_JSON_ARRAY || token == ECH_JSON_OBJECT || token == ECH_JSON_BAD || token == ECH_JSON_END) {
                return bad(reader);
            }
        }
        if (token != ECH_JSON_OBJECT_END)
            return bad(reader);
        if (name && has_value)
            apply(node, name, value);
    }
    return token == ECH_JSON_ARRAY_END ? true : bad(reader);
}

/* What a node says of itself besides its tensors. */
typedef struct {
    EchEtNode et;
    int64_t parent;
    bool has_id;
    char *name; /* owned */
} Node;

/* "name", "id", "tid", "ctrl_deps" (since schema 1.0.2; "parent" before); of other types they are damage. */
static bool read_plain(Reader *reader, const char *key, Node *node)
{
    int64_t value;
    EchJsonToken token = ech_json_next(reader->json);
    if (token == ECH_JSON_STRING && strcmp(key, "name") == 0) {
        size_t n;
        const char *text = ech_json_text(reader->json, &n);
        node->et.name = ech_et_string(reader->et, text, (gssize)n);
        g_free(node->name);
        node->name = g_strndup(text, n);
    } else if (token == ECH_JSON_NUMBER && number_of(reader, &value)) {
        if (strcmp(key, "id") == 0) {
            node->et.id = (uint64_t)value;
            node->has_id = true;
        } else if (strcmp(key, "tid") == 0) {
            node->et.thread = value;
        } else {
            node->parent = value;
        }
    } else if (token == ECH_JSON_ARRAY || token == ECH_JSON_OBJECT || token == ECH_JSON_BAD || token == ECH_JSON_END) {
        return bad(reader);
    }
    return true;
}

/* "input_shapes", "input_types", of old files beside the inputs. */
static bool read_beside_inputs(Reader *reader, bool shapes)
{
    EchJsonToken token = ech_json_next(reader->json);
    if (token == ECH_JSON_OBJECT || token == ECH_JSON_BAD || token == ECH_JSON_END)
        return bad(reader);
    g_array_set_size(reader->dims[0], 0);
    if (token == ECH_JSON_ARRAY && !(shapes ? read_dims(reader, reader->dims[0]) : read_types(reader)))
        return false;
    if (shapes)
        take_shapes(reader);
    return true;
}

static bool read_member(Reader *reader, const char *key, Node *node)
{
    static const char *const plain[] = {"name", "id", "ctrl_deps", "parent", "tid", NULL};
    if (strcmp(key, "inputs") == 0 || strcmp(key, "outputs") == 0)
        return read_io(reader, key[0] == 'o');
    if (strcmp(key, "input_shapes") == 0 || strcmp(key, "input_types") == 0)
        return read_beside_inputs(reader, strcmp(key, "input_shapes") == 0);
    if (strcmp(key, "attrs") == 0)
        return read_attrs(reader, &node->et);
    return g_strv_contains(plain, key) ? read_plain(reader, key, node) : ech_json_skip(reader->json) || bad(reader);
}

static void add_node(Reader *reader, Node *node)
{
    if (node->et.name == ECH_NONE)
        node->et.name = ech_et_string(reader->et, "", 0);
    else
        count_work(reader, node->name, &node->et);
    ech_et_node(reader->et, node->et);
    if (node->parent >= 0)
        ech_et_dep(reader->et, (uint64_t)node->parent, true);
    for (guint i = 0; i < reader->tensors->len; i++) {
        const Tensor *tensor = &g_array_index(reader->tensors, Tensor, i);
        char device[24];
        g_snprintf(device, sizeof device, "%s:%u", tensor->host ? "cpu" : "cuda", tensor->ordinal);
        ech_et_tensor(reader->et, tensor->written, tensor->numbers, device, strlen(device));
    }
}

static bool read_node(Reader *reader)
{
    Node node = {.et = {.type = ECH_ET_COMP, .start_us = -1, .duration_us = -1, .name = ECH_NONE}, .parent = -1};
    EchJsonToken token;
    bool ok = true;
    g_array_set_size(reader->tensors, 0);
    memset(reader->inputs, 0, sizeof reader->inputs);
    reader->n_inputs = 0;
    while (ok && (token = ech_json_next(reader->json)) == ECH_JSON_KEY) {
        char key[24];
        g_strlcpy(key, ech_json_text(reader->json, NULL), sizeof key);
        ok = read_member(reader, key, &node);
    }
    g_autofree char *name = node.name;
    if (!ok)
        return false;
    if (token != ECH_JSON_OBJECT_END)
        return bad(reader);
    if (node.has_id)
        add_node(reader, &node);
    else
        ech_diag_dropped(reader->import->diag, "nodes_without_id", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(reader->json));
    return true;
}

static bool read_document(Reader *reader)
{
    if (ech_json_next(reader->json) != ECH_JSON_OBJECT)
        return bad(reader);
    EchJsonToken token;
    bool nodes = false;
    while ((token = ech_json_next(reader->json)) == ECH_JSON_KEY) {
        char key[24];
        g_strlcpy(key, ech_json_text(reader->json, NULL), sizeof key);
        if (strcmp(key, "nodes") == 0 && !nodes) {
            nodes = true;
            if (ech_json_next(reader->json) != ECH_JSON_ARRAY)
                return bad(reader);
            while ((token = ech_json_next(reader->json)) == ECH_JSON_OBJECT) {
                if (!read_node(reader))
                    return false;
            }
            if (token != ECH_JSON_ARRAY_END)
                return bad(reader);
        } else if (strcmp(key, "schema") == 0 || strcmp(key, "pid") == 0 || strcmp(key, "time") == 0) {
            token = ech_json_next(reader->json);
            if (token != ECH_JSON_STRING && token != ECH_JSON_NUMBER)
                return bad(reader);
            g_autofree char *name = g_strdup_printf("pytorch_et.%s", key), *valid = g_utf8_make_valid(ech_json_text(reader->json, NULL), -1);
            ech_et_property(reader->et, name, valid);
        } else if (!ech_json_skip(reader->json)) {
            return bad(reader);
        }
    }
    if (token != ECH_JSON_OBJECT_END)
        return bad(reader);
    if (nodes)
        return true;
    g_set_error(reader->error, ECH_ERROR, ECH_ERROR_PARSE, "no \"nodes\" in the document; expected an execution trace");
    return false;
}

static int probe(const uint8_t *head, size_t n)
{
    size_t i = ech_head_begin(head, n);
    if (i == n || head[i] != '{' || ech_head_has(head, n, "\"traceEvents\""))
        return 0;
    return ech_head_has(head, n, "\"nodes\"") && (ech_head_has(head, n, "\"ctrl_deps\"") || ech_head_has(head, n, "\"fw_parent\"")) ? 2 : 0;
}

static bool read_pytorch_et(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(EchEt) et = ech_et_new("pytorch_et");
    g_autoptr(EchJson) json = ech_json_new(source);
    g_autoptr(GArray) tensors = g_array_new(FALSE, FALSE, sizeof(Tensor));
    g_autoptr(GArray) shapes = g_array_new(FALSE, FALSE, sizeof(Dim));
    g_autoptr(GArray) strides = g_array_new(FALSE, FALSE, sizeof(Dim));
    Reader reader = {.et = et, .json = json, .import = ret, .tensors = tensors, .dims = {shapes, strides}, .error = error};
    if (!read_document(&reader)) {
        if (error && *error && !g_str_has_prefix((*error)->message, ech_source_path(source)))
            g_prefix_error(error, "%s: ", ech_source_path(source));
        return false;
    }
    ech_diag_dropped(ret->diag, "strings_repaired", ech_json_repaired(json), NULL);
    if (reader.exact)
        ech_diag_remark(ret->diag, "f32 products are taken to be exact, as PyTorch does them unless told otherwise (set_float32_matmul_precision)");
    ret->trace = ech_et_finish(et, true, ret, error);
    return ret->trace != NULL;
}

const EchImportClass ech_import_pytorch_et = {
    .name = "pytorch_et",
    .summary = "PyTorch execution trace (ExecutionTraceObserver JSON)",
    .probe = probe,
    .read = read_pytorch_et,
};
