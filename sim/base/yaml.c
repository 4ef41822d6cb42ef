#include "sim/base/yaml.h"

#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/base/param.h"
#include "sim/base/units.h"

#include <libfyaml.h>
#include <stdarg.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_FILE = 1 << 20, MAX_NODES = 1 << 17, MAX_KEYS = 1024 };

static EchYamlNode *node_new(EchYamlKind kind, const char *file, uint32_t line, uint32_t column)
{
    EchYamlNode *node = g_new0(EchYamlNode, 1);
    node->kind = kind;
    node->file = g_ref_string_new_intern(file);
    node->line = line;
    node->column = column;
    return node;
}

void ech_yaml_free(EchYamlNode *node)
{
    if (!node)
        return;
    for (size_t i = 0; i < node->n; i++) {
        ech_yaml_free(node->items[i]);
        if (node->keys)
            g_free(node->keys[i]);
    }
    g_free(node->items);
    g_free(node->keys);
    g_free(node->text);
    g_ref_string_release(node->file);
    g_free(node);
}

static void append(EchYamlNode *parent, char *key, EchYamlNode *value)
{
    /* Powers of two from 4: no separate capacity to keep. */
    if (parent->n == 0 || (parent->n >= 4 && (parent->n & (parent->n - 1)) == 0)) {
        size_t size = parent->n == 0 ? 4 : parent->n * 2;
        parent->items = g_renew(EchYamlNode *, parent->items, size);
        if (parent->kind == ECH_YAML_MAP)
            parent->keys = g_renew(char *, parent->keys, size);
    }
    parent->items[parent->n] = value;
    if (parent->kind == ECH_YAML_MAP)
        parent->keys[parent->n] = key;
    parent->n++;
}

EchYamlNode *ech_yaml_new_scalar(const char *text, const char *place)
{
    EchYamlNode *node = node_new(ECH_YAML_SCALAR, place, 0, 0);
    node->text = g_strdup(text);
    return node;
}

EchYamlNode *ech_yaml_new_map(const char *place)
{
    return node_new(ECH_YAML_MAP, place, 0, 0);
}

EchYamlNode *ech_yaml_new_list(const char *place)
{
    return node_new(ECH_YAML_LIST, place, 0, 0);
}

void ech_yaml_append(EchYamlNode *list, EchYamlNode *item)
{
    g_assert(list->kind == ECH_YAML_LIST);
    append(list, NULL, item);
}

EchYamlNode *ech_yaml_copy(const EchYamlNode *node)
{
    EchYamlNode *copy = node_new(node->kind, node->file, node->line, node->column);
    copy->text = g_strdup(node->text);
    copy->quoted = node->quoted;
    for (size_t i = 0; i < node->n; i++)
        append(copy, node->keys ? g_strdup(node->keys[i]) : NULL, ech_yaml_copy(node->items[i]));
    return copy;
}

EchYamlNode *ech_yaml_get(const EchYamlNode *map, const char *key)
{
    if (!map || map->kind != ECH_YAML_MAP)
        return NULL;
    for (size_t i = 0; i < map->n; i++) {
        if (strcmp(map->keys[i], key) == 0)
            return map->items[i];
    }
    return NULL;
}

const char *ech_yaml_text(const EchYamlNode *map, const char *key)
{
    const EchYamlNode *node = ech_yaml_get(map, key);
    return node && node->kind == ECH_YAML_SCALAR && *node->text ? node->text : NULL;
}

void ech_yaml_put(EchYamlNode *map, const char *key, EchYamlNode *value)
{
    g_assert(map->kind == ECH_YAML_MAP);
    for (size_t i = 0; i < map->n; i++) {
        if (strcmp(map->keys[i], key) == 0) {
            ech_yaml_free(map->items[i]);
            map->items[i] = value;
            return;
        }
    }
    append(map, g_strdup(key), value);
}

char *ech_yaml_place(const EchYamlNode *node)
{
    return node->line ? g_strdup_printf("%s:%u:%u", node->file, node->line, node->column) : g_strdup(node->file);
}

void ech_yaml_error(const EchYamlNode *node, GError **error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_autofree char *place = ech_yaml_place(node);
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: %s", place, text);
}

void ech_yaml_prefix(const EchYamlNode *node, GError **error)
{
    g_autofree char *place = ech_yaml_place(node);
    g_prefix_error(error, "%s: ", place);
}

bool ech_yaml_check_keys(const EchYamlNode *map, const char *what, const char *const *keys, GError **error)
{
    if (map->kind != ECH_YAML_MAP) {
        g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)keys);
        ech_yaml_error(map, error, "%s: expected keys with their values, of %s", what, all);
        return false;
    }
    for (size_t i = 0; i < map->n; i++) {
        if (g_strv_contains(keys, map->keys[i]))
            continue;
        const char *nearest = ech_nearest_name(map->keys[i], keys);
        g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)keys);
        ech_yaml_error(map->items[i], error, "%s%s'%s' is no key here; %s%s%s", what, *what ? ": " : "", map->keys[i],
                       nearest ? "did you mean '" : "expected one of ", nearest ? nearest : all, nearest ? "'?" : "");
        return false;
    }
    return true;
}

/* Reading */

typedef struct {
    struct fy_diag *diag;
    const char *where;
    unsigned n_nodes;
    uint32_t line, column; /* where the last event stood that stands somewhere: a value that is left out does not */
} Reader;

static void parser_destroy(struct fy_parser *parser)
{
    if (parser)
        fy_parser_destroy(parser);
}
static void diag_destroy(struct fy_diag *diag)
{
    if (diag)
        fy_diag_destroy(diag);
}
typedef struct fy_parser FyParser;
typedef struct fy_diag FyDiag;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FyParser, parser_destroy)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FyDiag, diag_destroy)

static void reader_error(const Reader *reader, const struct fy_mark *mark, GError **error, const char *text)
{
    if (mark)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s:%d:%d: %s", reader->where, mark->line + 1, mark->column + 1, text);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: %s", reader->where, text);
}

static void collected_error(Reader *reader, GError **error)
{
    void *at = NULL;
    const struct fy_diag_error *first = fy_diag_errors_iterate(reader->diag, &at);
    if (first && first->msg)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s:%d:%d: %s", reader->where, first->line, first->column, first->msg);
    else
        reader_error(reader, NULL, error, "is not YAML");
}

static void iterator_destroy(struct fy_token_iter *iterator)
{
    if (iterator)
        fy_token_iter_destroy(iterator);
}
typedef struct fy_token_iter FyIterator;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FyIterator, iterator_destroy)

/* Piece by piece, because fy_token_get_text of libfyaml 0.7 loses memory over a quoted scalar with many escapes. */
static bool scalar_text(Reader *reader, struct fy_event *event, char **ret, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    if (event->scalar.value) {
        g_autoptr(FyIterator) iterator = fy_token_iter_create(event->scalar.value);
        g_assert(iterator);
        const struct fy_iter_chunk *chunk = NULL;
        while ((chunk = fy_token_iter_chunk_next(iterator, chunk, NULL)))
            g_string_append_len(text, chunk->str, (gssize)chunk->len);
    }
    if (text->len && (memchr(text->str, 0, text->len) || !g_utf8_validate(text->str, (gssize)text->len, NULL))) {
        reader_error(reader, fy_event_start_mark(event), error, "text that is not UTF-8");
        return false;
    }
    *ret = g_strdup(text->str);
    return true;
}

static EchYamlNode *begin_node(Reader *reader, struct fy_event *event, EchYamlKind kind, GError **error)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    if (fy_event_get_anchor_token(event) || fy_event_get_tag_token(event)) {
        reader_error(reader, mark, error, "anchors and tags are not used here; write the value out");
        return NULL;
    }
    if (++reader->n_nodes > MAX_NODES) {
        reader_error(reader, mark, error, "more than 131072 values; a configuration is smaller than that");
        return NULL;
    }
    return node_new(kind, reader->where, reader->line, reader->column);
}

/* Adds a finished node to the innermost open collection, or makes it the root. */
static bool place_node(Reader *reader, GPtrArray *open, char **key, EchYamlNode **root, EchYamlNode *node, GError **error)
{
    if (open->len == 0) {
        *root = node;
        return true;
    }
    EchYamlNode *parent = open->pdata[open->len - 1];
    if (parent->kind == ECH_YAML_MAP && ech_yaml_get(parent, *key)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s:%u:%u: '%s' stands here twice", reader->where, node->line, node->column, *key);
        ech_yaml_free(node);
        return false;
    }
    if (parent->kind == ECH_YAML_MAP && parent->n >= MAX_KEYS) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s:%u:%u: more than 1024 keys in one map", reader->where, node->line, node->column);
        ech_yaml_free(node);
        return false;
    }
    append(parent, g_steal_pointer(key), node);
    return true;
}

/* Handles one event; *ret_done at the end of the stream. Open collections already hang in their parents, so the root owns all. */
static bool take_event(Reader *reader, struct fy_event *event, GPtrArray *open, char **key, EchYamlNode **root, bool *ret_done, GError **error)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    if (mark) {
        reader->line = (uint32_t)mark->line + 1;
        reader->column = (uint32_t)mark->column + 1;
    }
    EchYamlNode *parent = open->len ? open->pdata[open->len - 1] : NULL;
    bool wants_key = parent && parent->kind == ECH_YAML_MAP && !*key;
    switch (event->type) {
    case FYET_STREAM_END: *ret_done = true; return true;
    case FYET_DOCUMENT_START:
        if (*root) {
            reader_error(reader, mark, error, "a second document; expected one");
            return false;
        }
        return true;
    case FYET_ALIAS: reader_error(reader, mark, error, "aliases are not used here; write the value out"); return false;
    case FYET_SCALAR: {
        if (wants_key)
            return scalar_text(reader, event, key, error);
        EchYamlNode *node = begin_node(reader, event, ECH_YAML_SCALAR, error);
        if (!node)
            return false;
        enum fy_scalar_style style = event->scalar.value ? fy_token_scalar_style(event->scalar.value) : FYSS_PLAIN;
        node->quoted = style != FYSS_PLAIN && style != FYSS_ANY;
        if (!scalar_text(reader, event, &node->text, error)) {
            ech_yaml_free(node);
            return false;
        }
        return place_node(reader, open, key, root, node, error);
    }
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START: {
        if (wants_key) {
            reader_error(reader, mark, error, "a key must be a word");
            return false;
        }
        if (open->len >= MAX_DEPTH) {
            reader_error(reader, mark, error, "nested more than 32 deep");
            return false;
        }
        EchYamlNode *node = begin_node(reader, event, event->type == FYET_MAPPING_START ? ECH_YAML_MAP : ECH_YAML_LIST, error);
        if (!node || !place_node(reader, open, key, root, node, error))
            return false;
        g_ptr_array_add(open, node);
        return true;
    }
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END: g_ptr_array_set_size(open, (int)open->len - 1); return true;
    case FYET_NONE:
    case FYET_STREAM_START:
    case FYET_DOCUMENT_END: break;
    }
    return true;
}

/* What YAML forbids and libfyaml 0.7 does not come back from: text that is no UTF-8, control characters, odd directives. Ours need no directive. */
static bool check_text(const char *data, size_t n, const char *where, GError **error)
{
    uint32_t line = 1, column = 1;
    bool content = false;
    for (size_t at = 0; at < n;) {
        gunichar c = g_utf8_get_char_validated(data + at, (gssize)(n - at));
        const char *wrong = NULL;
        if (c == (gunichar)-1 || c == (gunichar)-2)
            wrong = "is not UTF-8";
        else if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            wrong = "is a control character";
        else if (c == '%' && column == 1 && !content)
            wrong = "begins a YAML directive; none is taken";
        if (wrong) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s:%u:%u: byte 0x%02x %s", where, line, column, (unsigned char)data[at], wrong);
            return false;
        }
        content = content || (c != '\n' && c != '\r' && c != ' ' && c != '\t' && c != '#' && c != 0xfeff && column == 1);
        column = c == '\n' ? 1 : column + 1;
        line += c == '\n';
        at += (size_t)(g_utf8_next_char(data + at) - (data + at));
    }
    return true;
}

EchYamlNode *ech_yaml_parse(const char *data, size_t n, const char *where, GError **error)
{
    Reader reader = {.where = where, .line = 1, .column = 1};
    if (n > MAX_FILE) {
        reader_error(&reader, NULL, error, "is larger than 1 MiB; a configuration is smaller than that");
        return NULL;
    }
    if (!check_text(data, n, where, error))
        return NULL;
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.level = FYET_ERROR;
    g_autoptr(FyDiag) diag = fy_diag_create(&diag_cfg);
    g_assert(diag);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_AUTO | FYPCF_JSON_NONE, .diag = diag};
    g_autoptr(FyParser) parser = fy_parser_create(&cfg);
    g_assert(parser);
    reader.diag = diag;
    if (fy_parser_set_string(parser, n ? data : " ", n ? n : 1) != 0) {
        reader_error(&reader, NULL, error, "is not YAML");
        return NULL;
    }
    g_autoptr(EchYamlNode) root = NULL;
    g_autoptr(GPtrArray) open = g_ptr_array_new();
    g_autofree char *key = NULL;
    bool done = false;
    while (!done) {
        struct fy_event *event = fy_parser_parse(parser);
        if (!event) {
            if (fy_parser_get_stream_error(parser)) {
                collected_error(&reader, error);
                return NULL;
            }
            break;
        }
        bool ok = take_event(&reader, event, open, &key, &root, &done, error);
        fy_parser_event_free(parser, event);
        if (!ok)
            return NULL;
    }
    if (!root) {
        reader_error(&reader, NULL, error, "the file is empty; expected keys and values");
        return NULL;
    }
    return g_steal_pointer(&root);
}

EchYamlNode *ech_yaml_load(const char *path, GError **error)
{
    g_autoptr(GMappedFile) file = ech_map_file(path, error);
    if (!file)
        return NULL;
    return ech_yaml_parse(g_mapped_file_get_contents(file), g_mapped_file_get_length(file), path, error);
}

/* Edits */

char *ech_yaml_scale(const char *text, const char *factor)
{
    const char *end = text, *factor_end = factor;
    while (g_ascii_isdigit(*end) || *end == '.')
        end++;
    while (g_ascii_isdigit(*factor_end) || *factor_end == '.')
        factor_end++;
    if (end == text || factor_end == factor || *factor_end)
        return NULL;
    g_autofree char *number = g_strndup(text, (size_t)(end - text));
    double checked;
    if (!ech_parse_double(number, &checked, NULL) || !ech_parse_double(factor, &checked, NULL))
        return NULL;
    /* Digits of both without points, multiplied in 128 bits; the points' places add up. */
    __extension__ typedef unsigned __int128 u128;
    u128 product[2] = {0, 0};
    unsigned scale = 0;
    const char *const parts[2] = {number, factor};
    for (size_t i = 0; i < 2; i++) {
        bool point = false;
        unsigned digits = 0;
        for (const char *at = parts[i]; *at; at++) {
            if (*at == '.') {
                point = true;
                continue;
            }
            if (++digits > 19)
                return NULL;
            product[i] = product[i] * 10 + (unsigned)(*at - '0');
            scale += point;
        }
    }
    u128 value = product[0] * product[1];
    while (scale > 0 && (value % 10 == 0 || scale > 9 || value >= (u128)G_MAXUINT64)) {
        value = value % 10 >= 5 ? value / 10 + 1 : value / 10;
        scale--;
    }
    if (value >= (u128)G_MAXUINT64)
        return NULL;
    g_autofree char *digits = g_strdup_printf("%0*" G_GUINT64_FORMAT, (int)scale + 1, (guint64)value);
    size_t whole = strlen(digits) - scale;
    return scale ? g_strdup_printf("%.*s.%s%s", (int)whole, digits, digits + whole, end) : g_strdup_printf("%s%s", digits, end);
}

static void set_scalar(EchYamlNode *node, char *text, const char *place)
{
    g_free(node->text);
    node->text = text;
    g_ref_string_release(node->file);
    node->file = g_ref_string_new_intern(place);
    node->line = node->column = 0;
}

static EchYamlNode *child_of(const EchYamlNode *node, const char *step)
{
    uint64_t index;
    if (node->kind == ECH_YAML_LIST)
        return ech_parse_u64(step, &index, NULL) && index < node->n ? node->items[index] : NULL;
    return ech_yaml_get(node, step);
}

static void mark_edited(EchYamlNode *node, const char *place)
{
    g_ref_string_release(node->file);
    node->file = g_ref_string_new_intern(place);
    node->line = node->column = 0;
    for (size_t i = 0; i < node->n; i++)
        mark_edited(node->items[i], place);
}

/* An edit on its way: PATH=VALUE, and how far of the path there is. */
typedef struct {
    const char *place; /* names the edit in messages */
    char **steps;      /* of the path */
    size_t n_steps, depth;
    EchYamlNode *node;   /* the deepest that exists: after depth steps */
    EchYamlNode *parent; /* its parent, or NULL */
    EchYamlNode *number; /* the scalar that the path names, be it the value of a {value: ..., source: ...}; NULL where the path does not exist */
} Edit;

static void walk_path(Edit *e, EchYamlNode *root)
{
    e->node = root;
    for (EchYamlNode *next; e->depth < e->n_steps && (next = child_of(e->node, e->steps[e->depth])); e->depth++) {
        e->parent = e->node;
        e->node = next;
    }
    if (e->depth < e->n_steps)
        return;
    EchYamlNode *value = e->node->kind == ECH_YAML_MAP ? ech_yaml_get(e->node, "value") : NULL;
    e->number = value ? value : e->node;
}

static bool multiply(const Edit *e, const char *factor, GError **error)
{
    if (!e->number && e->node->kind == ECH_YAML_MAP) {
        g_autofree const char **keys = g_new0(const char *, e->node->n + 1);
        for (size_t i = 0; i < e->node->n; i++)
            keys[i] = e->node->keys[i];
        const char *missing = e->steps[e->depth], *nearest = ech_nearest_name(missing, keys);
        g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)keys);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: there is no '%s' to multiply%s%s%s", e->place, missing,
                    nearest ? "; did you mean '" : "; expected one of ", nearest ? nearest : all, nearest ? "'?" : "");
        return false;
    }
    if (!e->number || e->number->kind != ECH_YAML_SCALAR) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: no number stands there that could be multiplied", e->place);
        return false;
    }
    char *scaled = ech_yaml_scale(e->number->text, factor);
    if (!scaled) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' times '%s' cannot be written; expected a factor like x0.5 or x1000 of a decimal number",
                    e->place, e->number->text, factor);
        return false;
    }
    set_scalar(e->number, scaled, e->place);
    return true;
}

/* VALUE as a tree. What does not read as YAML is taken literally: allocator specs hold commas and colons. */
static EchYamlNode *read_value(const char *value, const char *place)
{
    EchYamlNode *parsed = *value ? ech_yaml_parse(value, strlen(value), place, NULL) : NULL;
    if (!parsed || (parsed->kind == ECH_YAML_MAP && value[0] != '{')) {
        g_clear_pointer(&parsed, ech_yaml_free);
        parsed = node_new(ECH_YAML_SCALAR, place, 0, 0);
        parsed->text = g_strdup(value);
    }
    mark_edited(parsed, place);
    return parsed;
}

static void replace(const Edit *e, EchYamlNode *made)
{
    g_assert(e->parent);
    size_t i = 0;
    while (e->parent->items[i] != e->node)
        i++;
    ech_yaml_free(e->node);
    e->parent->items[i] = made;
}

/* Puts @made where the path leads, with maps on the way; takes it. */
static bool put_below(const Edit *e, EchYamlNode *made, GError **error)
{
    g_autoptr(EchYamlNode) owned = made;
    if (e->node->kind != ECH_YAML_MAP) {
        char *missing = e->steps[e->depth];
        e->steps[e->depth] = NULL;
        g_autofree char *upto = g_strjoinv(".", e->steps);
        e->steps[e->depth] = missing;
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' has no '%s'", e->place, upto, missing);
        return false;
    }
    EchYamlNode *node = e->node;
    for (size_t i = e->depth; i + 1 < e->n_steps; i++) {
        EchYamlNode *map = node_new(ECH_YAML_MAP, e->place, 0, 0);
        ech_yaml_put(node, e->steps[i], map);
        node = map;
    }
    ech_yaml_put(node, e->steps[e->n_steps - 1], g_steal_pointer(&owned));
    return true;
}

/* The source of a number written as {value: ..., source: ...} becomes the edit. */
static void name_source(const Edit *e)
{
    if (e->number == e->node)
        return;
    EchYamlNode *source = node_new(ECH_YAML_SCALAR, e->place, 0, 0);
    source->text = g_strdup(e->place);
    source->quoted = true;
    ech_yaml_put(e->node, "source", source);
}

bool ech_yaml_edit(EchYamlNode *root, const char *above, const char *edit, GError **error)
{
    g_autofree char *place = g_strdup_printf("--set %s%s", above, edit);
    const char *equals = strchr(edit, '=');
    if (!equals || equals == edit) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: expected PATH=VALUE", place);
        return false;
    }
    g_autofree char *path = g_strndup(edit, (size_t)(equals - edit));
    const char *value = equals + 1;
    g_auto(GStrv) steps = g_strsplit(path, ".", -1);
    Edit e = {.place = place, .steps = steps, .n_steps = g_strv_length(steps)};
    if (e.n_steps > MAX_DEPTH) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: more than %d steps", place, MAX_DEPTH);
        return false;
    }
    if (g_strv_contains((const char *const *)steps, "")) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: an empty step in the path", place);
        return false;
    }
    walk_path(&e, root);
    if (value[0] == 'x' && (g_ascii_isdigit(value[1]) || value[1] == '.')) {
        if (!multiply(&e, value + 1, error))
            return false;
        name_source(&e);
        return true;
    }
    g_autoptr(EchYamlNode) parsed = read_value(value, place);
    if (!e.number)
        return put_below(&e, g_steal_pointer(&parsed), error);
    if (e.number != e.node && parsed->kind == ECH_YAML_SCALAR) {
        set_scalar(e.number, g_strdup(parsed->text), place);
        name_source(&e);
    } else {
        replace(&e, g_steal_pointer(&parsed));
    }
    return true;
}

/* Printing */

static void print_text(GString *out, const char *text, bool quoted)
{
    bool plain =
        !quoted && *text && !strpbrk(text, ":#,[]{}&*!|>'\"%@`\\\n\t") && *text != ' ' && *text != '-' && *text != '?' && text[strlen(text) - 1] != ' ';
    if (plain) {
        g_string_append(out, text);
        return;
    }
    g_string_append_c(out, '"');
    for (const char *at = text; *at; at++) {
        if (*at == '"' || *at == '\\')
            g_string_append_printf(out, "\\%c", *at);
        else if ((unsigned char)*at < 0x20 || *at == 0x7f)
            g_string_append_printf(out, "\\x%02x", (unsigned)(unsigned char)*at);
        else
            g_string_append_c(out, *at);
    }
    g_string_append_c(out, '"');
}

static void print_node(GString *out, const EchYamlNode *node)
{
    if (node->kind == ECH_YAML_SCALAR) {
        print_text(out, node->text, node->quoted);
        return;
    }
    g_string_append_c(out, node->kind == ECH_YAML_MAP ? '{' : '[');
    for (size_t i = 0; i < node->n; i++) {
        if (i)
            g_string_append(out, ", ");
        if (node->keys) {
            print_text(out, node->keys[i], false);
            g_string_append(out, ": ");
        }
        print_node(out, node->items[i]);
    }
    g_string_append_c(out, node->kind == ECH_YAML_MAP ? '}' : ']');
}

char *ech_yaml_print(const EchYamlNode *node)
{
    GString *out = g_string_new(NULL);
    print_node(out, node);
    return g_string_free(out, FALSE);
}
