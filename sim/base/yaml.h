/** @file yaml.h
 * A small YAML tree with the line and column of every node, read through libfyaml, and edits by dotted path for `--set`.
 *
 * One document per file; maps, sequences and scalars. Anchors, aliases and tags are refused: a configuration says what it says where it says it,
 * and cannot grow while it is read. Duplicate keys are refused. Depth is at most 32, a file at most 1 MiB.
 * Every message begins with FILE:line:column (or with the --set that made the node).
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { ECH_YAML_SCALAR, ECH_YAML_MAP, ECH_YAML_LIST } EchYamlKind;

typedef struct EchYamlNode EchYamlNode;
struct EchYamlNode {
    EchYamlKind kind;
    char *text;          /**< SCALAR: its text, quotes removed; NULL elsewhere. */
    bool quoted;         /**< SCALAR: was written in quotes. */
    char **keys;         /**< MAP: keys[n]; NULL elsewhere. */
    EchYamlNode **items; /**< MAP values or LIST items: items[n]. */
    size_t n;
    char *file;      /**< Name of the file, or "--set PATH=VALUE". */
    uint32_t line;   /**< From 1; 0 for a node made by an edit. */
    uint32_t column; /**< From 1. */
};

/** Reads a document. @where names it in messages. ECH_ERROR_CONFIG. */
EchYamlNode *ech_yaml_parse(const char *data, size_t n, const char *where, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Reads a file of at most 1 MiB. G_FILE_ERROR or ECH_ERROR_CONFIG. */
EchYamlNode *ech_yaml_load(const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
EchYamlNode *ech_yaml_copy(const EchYamlNode *node) G_GNUC_WARN_UNUSED_RESULT;
void ech_yaml_free(EchYamlNode *node);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchYamlNode, ech_yaml_free)

/** A scalar or an empty map that stands in no file; @place names it in messages ("--trace"). */
EchYamlNode *ech_yaml_new_scalar(const char *text, const char *place) G_GNUC_WARN_UNUSED_RESULT;
EchYamlNode *ech_yaml_new_map(const char *place) G_GNUC_WARN_UNUSED_RESULT;
EchYamlNode *ech_yaml_new_list(const char *place) G_GNUC_WARN_UNUSED_RESULT;
/** Appends to a list; takes @item. */
void ech_yaml_append(EchYamlNode *list, EchYamlNode *item);

/** Value of a key of a map, or NULL (also where @map is NULL or no map). Borrowed. */
EchYamlNode *ech_yaml_get(const EchYamlNode *map, const char *key);
/** Text of a key of a map that is a scalar and not empty, or NULL. Borrowed. */
const char *ech_yaml_text(const EchYamlNode *map, const char *key);
/** Sets or appends a key of a map; takes @value. */
void ech_yaml_put(EchYamlNode *map, const char *key, EchYamlNode *value);
/** Where it stands: "FILE:line:column", or the --set that made it. Owned by the caller. */
char *ech_yaml_place(const EchYamlNode *node) G_GNUC_WARN_UNUSED_RESULT;
/** Sets *error to ECH_ERROR_CONFIG with the node's place in front. */
void ech_yaml_error(const EchYamlNode *node, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
/** Puts the node's place in front of an error's message. */
void ech_yaml_prefix(const EchYamlNode *node, GError **error);
/** Every key of @map is one of the NULL-terminated @keys; otherwise ECH_ERROR_CONFIG names the first that is not and the nearest that is.
 * @what names the map in the message ("memories.hbm"). A node that is no map is refused too. */
bool ech_yaml_check_keys(const EchYamlNode *map, const char *what, const char *const *keys, GError **error);

/** One edit "PATH=VALUE" below @root, which is called @above ("device.", or "") in messages: PATH is keys (or list positions) joined by dots; keys that are not
 * there are made. VALUE is YAML flow text (a scalar, [a, b], {k: v}); "xNUMBER" multiplies the number that stands there and keeps its unit. A number written as
 * {value: ..., source: ...} has its value changed and its source becomes the edit. ECH_ERROR_CONFIG. */
bool ech_yaml_edit(EchYamlNode *root, const char *above, const char *edit, GError **error);
/** @text, a decimal number with any suffix, multiplied by the positive decimal @factor, exactly where 18 digits suffice; NULL if it is no number. */
char *ech_yaml_scale(const char *text, const char *factor) G_GNUC_WARN_UNUSED_RESULT;
/** The tree as canonical text (flow style, quotes where needed): same tree, same bytes. Owned by the caller. */
char *ech_yaml_print(const EchYamlNode *node) G_GNUC_WARN_UNUSED_RESULT;
