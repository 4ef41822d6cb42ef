/** @file pickle.h
 * A Python pickle as data: an unpickler that knows the opcodes of plain values only (PyTorch memory snapshots need no
 * others) and refuses whatever could name or call code. It never recurses, and its memory stays near the file's size:
 * values are 16 bytes, a reference to one is 4 bytes, and shared values stay shared.
 *
 * Not a general pickle reader: no objects, no sets, no text protocol (0).
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/** A value: an index into the pickle, ECH_PICKLE_ABSENT where there is none. */
typedef uint32_t EchPickleRef;
#define ECH_PICKLE_ABSENT UINT32_MAX

typedef enum {
    ECH_PICKLE_NIL,
    ECH_PICKLE_BOOL,
    ECH_PICKLE_INT,  /**< Fits in int64. */
    ECH_PICKLE_UINT, /**< At least 2^63, fits in uint64. */
    ECH_PICKLE_BIG,  /**< Beyond 64 bits; its value is not kept. */
    ECH_PICKLE_FLOAT,
    ECH_PICKLE_STRING, /**< Text or bytes; not checked to be UTF-8. */
    ECH_PICKLE_LIST,   /**< List or tuple. */
    ECH_PICKLE_DICT,
    ECH_PICKLE_MARK,     /**< Never seen by users. */
    ECH_PICKLE_IDENTITY, /**< The JIT pickler's type-tag global; never seen by users. */
} EchPickleType;

typedef struct EchPickle EchPickle;

/** Reads one pickle from the start of @data, which must outlive the result: strings point into it. @where names the
 * file in messages. ECH_ERROR_PARSE gives the byte offset; ECH_ERROR_UNSUPPORTED for opcodes that could run code. */
EchPickle *ech_pickle_read(const uint8_t *data, size_t n, const char *where, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_pickle_free(EchPickle *pickle);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPickle, ech_pickle_free)

/** The value left at STOP. */
EchPickleRef ech_pickle_root(const EchPickle *pickle);
/** Bytes after STOP. */
size_t ech_pickle_trailing(const EchPickle *pickle);
EchPickleType ech_pickle_type(const EchPickle *pickle, EchPickleRef ref);
/** True and the bits for BOOL, INT and UINT (negative values in two's complement). */
bool ech_pickle_u64(const EchPickle *pickle, EchPickleRef ref, uint64_t *ret);
bool ech_pickle_i64(const EchPickle *pickle, EchPickleRef ref, int64_t *ret);
bool ech_pickle_double(const EchPickle *pickle, EchPickleRef ref, double *ret);
/** Text of a STRING, not terminated, borrowed; NULL for other types. */
const char *ech_pickle_text(const EchPickle *pickle, EchPickleRef ref, size_t *ret_n);
bool ech_pickle_equals(const EchPickle *pickle, EchPickleRef ref, const char *text);
/** Items of a LIST (n) or keys and values in turn of a DICT (n pairs); NULL and 0 for others and for empty ones. */
const EchPickleRef *ech_pickle_items(const EchPickle *pickle, EchPickleRef ref, size_t *ret_n);
/** Value of the last pair with this key, or ECH_PICKLE_ABSENT (also where @ref is no dict). Linear in the dict. */
EchPickleRef ech_pickle_get(const EchPickle *pickle, EchPickleRef ref, const char *key);
/** Sets a flag on a LIST or DICT and returns whether it was set before: to visit shared values only once. */
bool ech_pickle_visit(EchPickle *pickle, EchPickleRef ref);
/** Number of values, for tables indexed by EchPickleRef. */
size_t ech_pickle_n_values(const EchPickle *pickle);
