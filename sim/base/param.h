/** @file param.h
 * Parameter tables: one row serves parsing, ranges, defaults, `--help`, `list` and the manual.
 *
 * A row names a field of a plain struct by its offset. To add a parameter, add a field and a row. Specs are
 * "name" or "name:key=value,key=value".
 */
#pragma once
#include "sim/base/units.h"

#include <stddef.h>

/** What text a parameter takes, and the type of its field. */
typedef enum {
    ECH_PARAM_U64,    /**< uint64_t */
    ECH_PARAM_BYTES,  /**< EchBytes */
    ECH_PARAM_TIME,   /**< EchTime (int64_t) */
    ECH_PARAM_RATE,   /**< EchRate */
    ECH_PARAM_BOOL,   /**< uint64_t 0 or 1; text true or false (or 1, 0, True, False) */
    ECH_PARAM_RATIO,  /**< double */
    ECH_PARAM_ENUM,   /**< uint64_t index into values */
    ECH_PARAM_STRING, /**< char *, owned by the struct, freed by ech_params_clear */
} EchParamType;

typedef struct {
    const char *name; /**< As written in a spec. */
    EchParamType type;
    size_t offset;             /**< Of the field in the struct. */
    const char *def;           /**< Default, as text; NULL leaves zero. */
    const char *min, *max;     /**< Inclusive bounds as text, or NULL. */
    const char *const *values; /**< ECH_PARAM_ENUM: NULL-terminated names. */
    const char *doc;           /**< One sentence: meaning and unit. */
} EchParam;

/** Fills every field of @object with its default. Defaults are ours, so a bad one is our mistake (asserts). */
void ech_params_defaults(const EchParam *params, void *object);
/** Sets one field. ECH_ERROR_CONFIG names the parameter, the value, what was expected and the nearest name. */
bool ech_params_set(const EchParam *params, void *object, const char *name, const char *value, GError **error);
/** Sets fields from "key=value,key=value"; commas inside [] belong to the value. Empty or NULL text is fine. */
bool ech_params_parse(const EchParam *params, void *object, const char *text, GError **error);
/** Frees the strings of @object. */
void ech_params_clear(const EchParam *params, void *object);
/** "key=value,key=value" of the current values, defaults left out; owned by the caller. */
char *ech_params_print(const EchParam *params, const void *object) G_GNUC_WARN_UNUSED_RESULT;
/** Splits "name:rest" at the first colon. *ret_rest is NULL where there is none. Both owned by the caller. */
void ech_spec_split(const char *spec, char **ret_name, char **ret_rest);
/** The name of the NULL-terminated @names nearest to @text: one that holds it as it stands, in any case, else by edit distance, at most two letters in five;
 * NULL where none is that near. Borrowed. */
const char *ech_nearest_name(const char *text, const char *const *names);
