/* Chakra's execution traces as JSON: what chakra_jsonizer prints of the protobuf, one document after another, of which the first is the metadata (numbers of 64
 * bits as text, zeros left out, as protobuf's own JSON has it); and the "workload_graph" that Chakra's feeder reads for ASTRA-sim (mlcommons/chakra
 * src/feeder/json_node.cpp), where attributes are keys of the node. */
#include "sim/import/chakra.h"
#include "sim/import/json_stream.h"

#include "sim/base/error.h"

typedef struct {
    uint64_t id;
    bool control;
} Dep;

typedef struct {
    EchEt *et;
    EchJson *json;
    EchImport *import;
    GArray *deps;     /* Dep, of the node that is being read */
    GPtrArray *texts; /* its literals of tensors; whether written by the first byte, 'w' or 'r' */
    GPtrArray *words; /* its attributes that are texts, in pairs: properties, if it is the metadata */
    GError **error;
} Reader;

static bool bad(Reader *r)
{
    ech_json_error(r->json, r->error);
    return false;
}

static void set_property(Reader *r, const char *key, const char *value)
{
    g_autofree char *valid_key = g_utf8_make_valid(key, -1), *valid = g_utf8_make_valid(value, -1);
    ech_et_property(r->et, valid_key, valid);
}

/* A number, or one in quotes; truths are 0 and 1. False for other values, which are skipped, *ret_ok: whether they could be. */
static bool whole(Reader *r, EchJsonToken token, int64_t *ret, bool *ret_ok)
{
    size_t n;
    *ret_ok = true;
    switch (token) {
    case ECH_JSON_STRING:
    case ECH_JSON_NUMBER: {
        const char *text = ech_json_text(r->json, &n);
        return ech_json_parse_whole(text, n, ret);
    }
    case ECH_JSON_TRUE:
    case ECH_JSON_FALSE: *ret = token == ECH_JSON_TRUE; return true;
    case ECH_JSON_NULL: return false;
    case ECH_JSON_END:
    case ECH_JSON_BAD:
    case ECH_JSON_OBJECT:
    case ECH_JSON_OBJECT_END:
    case ECH_JSON_ARRAY:
    case ECH_JSON_ARRAY_END:
    case ECH_JSON_KEY: break;
    }
    *ret_ok = false;
    return false;
}

static bool read_deps(Reader *r, bool control)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_ARRAY)
        return bad(r);
    while ((token = ech_json_next(r->json)) != ECH_JSON_ARRAY_END) {
        int64_t id;
        bool ok;
        if (whole(r, token, &id, &ok)) {
            Dep dep = {(uint64_t)id, control};
            g_array_append_val(r->deps, dep);
        } else if (!ok) {
            return bad(r);
        }
    }
    return true;
}

/* {"values": "[[1, 2, 0, 4096, 4, 'cuda:0']]", ...} */
static bool read_tensors(Reader *r, bool written)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_OBJECT)
        return bad(r);
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        if (strcmp(ech_json_text(r->json, NULL), "values") != 0) {
            if (!ech_json_skip(r->json))
                return bad(r);
            continue;
        }
        if (ech_json_next(r->json) != ECH_JSON_STRING)
            return bad(r);
        g_ptr_array_add(r->texts, g_strconcat(written ? "w" : "r", ech_json_text(r->json, NULL), NULL));
    }
    return token == ECH_JSON_OBJECT_END || bad(r);
}

/* [{"name": "num_ops", "int64Val": "100"}, ...] */
static bool read_attributes(Reader *r, EchEtNode *node)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_ARRAY)
        return bad(r);
    while ((token = ech_json_next(r->json)) == ECH_JSON_OBJECT) {
        g_autofree char *name = NULL, *text = NULL;
        int64_t value = 0;
        bool has_value = false;
        while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
            const char *key = ech_json_text(r->json, NULL);
            bool is_name = strcmp(key, "name") == 0, is_value = g_str_has_suffix(key, "Val") || g_str_has_suffix(key, "_val"), ok = true;
            if (!is_name && !is_value) {
                if (!ech_json_skip(r->json))
                    return bad(r);
                continue;
            }
            token = ech_json_next(r->json);
            if (is_name && token == ECH_JSON_STRING) {
                g_free(name);
                name = g_strdup(ech_json_text(r->json, NULL));
            } else if (is_value) {
                if (token == ECH_JSON_STRING || token == ECH_JSON_NUMBER) {
                    g_free(text);
                    text = g_strdup(ech_json_text(r->json, NULL));
                }
                has_value = whole(r, token, &value, &ok);
            }
            if (!ok)
                return bad(r);
        }
        if (token != ECH_JSON_OBJECT_END)
            return bad(r);
        if (name && has_value)
            ech_chakra_attribute(node, name, strlen(name), value);
        else if (name && text)
            ech_chakra_word(node, name, strlen(name), text, strlen(text));
        if (name && text) {
            g_ptr_array_add(r->words, g_steal_pointer(&name));
            g_ptr_array_add(r->words, g_steal_pointer(&text));
        }
    }
    return token == ECH_JSON_ARRAY_END || bad(r);
}

typedef enum { ID, NAME, TYPE, START, DURATION, CONTROL, DATA, INPUTS, OUTPUTS, ATTRIBUTES, VERSION, GRAPH, OWN, UNKNOWN } Key;

/* OWN: an attribute, which the feeder has as a key. */
static Key key_of(const char *name)
{
    static const struct {
        const char *name;
        Key key;
    } keys[] = {{"id", ID},
                {"Id", ID},
                {"name", NAME},
                {"Name", NAME},
                {"type", TYPE},
                {"NodeType", TYPE},
                {"startTimeMicros", START},
                {"start_time_micros", START},
                {"durationMicros", DURATION},
                {"duration_micros", DURATION},
                {"runtime", DURATION},
                {"ctrlDeps", CONTROL},
                {"ctrl_deps", CONTROL},
                {"dataDeps", DATA},
                {"data_deps", DATA},
                {"inputs", INPUTS},
                {"outputs", OUTPUTS},
                {"attr", ATTRIBUTES},
                {"version", VERSION},
                {"workload_graph", GRAPH},
                {"is_cpu_op", OWN},
                {"tid", OWN},
                {"num_ops", OWN},
                {"tensor_size", OWN},
                {"comm_type", OWN},
                {"comm_size", OWN},
                {"comm_src", OWN},
                {"comm_dst", OWN},
                {"comm_tag", OWN}};
    for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
        if (strcmp(keys[k].name, name) == 0)
            return keys[k].key;
    }
    return UNKNOWN;
}

/* The value of a member that is a number, a text, or either. */
static bool read_scalar(Reader *r, Key key, const char *name, EchEtNode *node)
{
    EchJsonToken token = ech_json_next(r->json);
    int64_t value = 0;
    bool ok = true;
    if (key == NAME || key == VERSION) {
        if (token != ECH_JSON_STRING && (key == NAME || token != ECH_JSON_NUMBER))
            return bad(r);
        if (key == NAME)
            node->name = ech_et_string(r->et, ech_json_text(r->json, NULL), -1);
        else
            set_property(r, "chakra_version", ech_json_text(r->json, NULL));
        return true;
    }
    bool has = whole(r, token, &value, &ok);
    if (key == TYPE)
        node->type = has                        ? (uint8_t)CLAMP(value, 0, ECH_N_ET_TYPES)
                     : token == ECH_JSON_STRING ? (uint8_t)ech_et_type(ech_json_text(r->json, NULL))
                                                : ECH_N_ET_TYPES;
    else if (has && key == ID)
        node->id = (uint64_t)value;
    else if (has && key == OWN)
        ech_chakra_attribute(node, name, strlen(name), value);
    else if (has)
        *(key == START ? &node->start_us : &node->duration_us) = value;
    return ok || bad(r);
}

static bool read_member(Reader *r, Key key, const char *name, EchEtNode *node)
{
    switch (key) {
    case CONTROL:
    case DATA: return read_deps(r, key == CONTROL);
    case INPUTS:
    case OUTPUTS: return read_tensors(r, key == OUTPUTS);
    case ATTRIBUTES: return read_attributes(r, node);
    case ID:
    case NAME:
    case TYPE:
    case START:
    case DURATION:
    case VERSION:
    case OWN: return read_scalar(r, key, name, node);
    case GRAPH:
    case UNKNOWN: break;
    }
    return ech_json_skip(r->json) || bad(r);
}

/* The metadata's texts are properties. */
static void add_metadata(Reader *r)
{
    for (guint i = 0; i + 1 < r->words->len; i += 2) {
        g_autofree char *key = g_strconcat("chakra.", r->words->pdata[i], NULL);
        set_property(r, key, r->words->pdata[i + 1]);
    }
}

static void add_node(Reader *r, EchEtNode *node)
{
    if (node->name == ECH_NONE)
        node->name = ech_et_string(r->et, "", 0);
    ech_et_node(r->et, *node);
    for (guint i = 0; i < r->deps->len; i++)
        ech_et_dep(r->et, g_array_index(r->deps, Dep, i).id, g_array_index(r->deps, Dep, i).control);
    for (guint i = 0; i < r->texts->len; i++) {
        const char *text = r->texts->pdata[i];
        if (!ech_chakra_tensors(r->et, *text == 'w', text + 1, strlen(text + 1)))
            ech_diag_dropped(r->import->diag, "tensor_lists_nested_too_deeply", 1, NULL);
    }
}

/* Behind the opening brace of a node or of the metadata. */
static bool read_node(Reader *r)
{
    EchEtNode node = {.start_us = -1, .duration_us = -1, .name = ECH_NONE};
    EchJsonToken token;
    bool is_node = false;
    g_array_set_size(r->deps, 0);
    g_ptr_array_set_size(r->texts, 0);
    g_ptr_array_set_size(r->words, 0);
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        g_autofree char *name = g_strdup(ech_json_text(r->json, NULL)); /* up to a NUL, where the file has one in it */
        Key key = key_of(name);
        if (key == GRAPH)
            return ech_json_next(r->json) == ECH_JSON_ARRAY || bad(r); /* its nodes come next */
        if (!read_member(r, key, name, &node))
            return false;
        is_node |= key == ID || key == NAME || key == TYPE;
    }
    if (token != ECH_JSON_OBJECT_END)
        return bad(r);
    if (is_node)
        add_node(r, &node);
    else
        add_metadata(r);
    return true;
}

static bool read_documents(Reader *r)
{
    EchJsonToken token;
    while ((token = ech_json_next(r->json)) != ECH_JSON_END) {
        switch (token) {
        case ECH_JSON_OBJECT:
            if (!read_node(r))
                return false;
            break;
        case ECH_JSON_KEY: /* what follows the graph */
            if (!ech_json_skip(r->json))
                return bad(r);
            break;
        case ECH_JSON_ARRAY_END:
        case ECH_JSON_OBJECT_END: break;
        case ECH_JSON_ARRAY:
            if (ech_json_depth(r->json) == 1)
                break; /* of nodes */
            return bad(r);
        case ECH_JSON_END:
        case ECH_JSON_BAD:
        case ECH_JSON_STRING:
        case ECH_JSON_NUMBER:
        case ECH_JSON_TRUE:
        case ECH_JSON_FALSE:
        case ECH_JSON_NULL: return bad(r);
        }
    }
    return true;
}

static bool read_chakra_json(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(EchEt) et = ech_et_new("chakra_json");
    g_autoptr(EchJson) json = ech_json_new(source);
    g_autoptr(GArray) deps = g_array_new(FALSE, FALSE, sizeof(Dep));
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
    Reader r = {.words = words, .et = et, .json = json, .import = ret, .deps = deps, .texts = texts, .error = error};
    ech_json_allow_more(json);
    ech_et_rank_of(et, ech_source_path(source));
    if (!read_documents(&r))
        return false;
    ech_diag_dropped(ret->diag, "strings_repaired", ech_json_repaired(json), NULL);
    ret->trace = ech_et_finish(et, false, ret, error);
    return ret->trace != NULL;
}

static int probe(const uint8_t *head, size_t n)
{
    size_t i = ech_head_begin(head, n);
    if (i == n || (head[i] != '{' && head[i] != '[') || ech_head_has(head, n, "\"traceEvents\""))
        return 0;
    bool graph = ech_head_has(head, n, "\"workload_graph\"") && ech_head_has(head, n, "\"NodeType\"");
    return graph || ech_head_has(head, n, "_NODE\"") ? 2 : 0;
}

const EchImportClass ech_import_chakra_json = {
    .name = "chakra_json",
    .summary = "MLCommons Chakra execution trace as JSON (chakra_jsonizer's, ASTRA-sim's workload_graph)",
    .probe = probe,
    .read = read_chakra_json,
};
