/** @file arrays.h
 * Which arrays lie at which addresses while a capture's events are gone through in the order in which the host asked, and what work does with them.
 *
 * Who only tells addresses seldom tells what is read and what is written. Rules: what work is said to read, write or update, it does. Of the rest, an array
 * of the host's is read. One that nothing has used since it was allocated is written. What was used before is read; but where a kernel would then write
 * nothing at all, it updates what may be written: all, unless the op before it was given the very same addresses and only read some (the kernels of one
 * operator that share their parameters, as flash attention's of a backward pass do). A use of a part of an array, or of several parts, is one of the array,
 * unless parts are asked for apart.
 */
#pragma once
#include "sim/trace/trace.h"

/** What work does with an address. */
typedef enum {
    ECH_ADDRESS_ANY,   /**< Reads or writes. */
    ECH_ADDRESS_INPUT, /**< Reads, unless nothing was there. */
    ECH_ADDRESS_READ,
    ECH_ADDRESS_WRITE,
    ECH_ADDRESS_UPDATE, /**< Reads and writes. */
    ECH_ADDRESS_INOUT   /**< Writes, and reads unless nothing was there. */
} EchAddressAccess;

/** Of one op, by address. */
typedef struct {
    uint64_t address, bytes; /**< bytes: moved; 0: not known. */
    EchAddressAccess access;
} EchAddressUse;

/** Of one op, by array. */
typedef struct {
    EchId buffer;
    bool reads, writes;
    EchBytes read, written; /**< Each at most the array's. */
    EchBytes offset;        /**< Of the first byte that is used. */
    bool part;              /**< Other parts of the array have rows of their own. */
    bool told;              /**< How many bytes is told, of each of its uses. */
} EchArrayUse;

typedef struct EchArrays EchArrays;

EchArrays *ech_arrays_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_arrays_free(EchArrays *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchArrays, ech_arrays_free)

/** From now on @buffer lies at @address, and what lay in its place does not. */
void ech_arrays_alloc(EchArrays *self, EchId buffer, uint64_t address, EchBytes bytes);
void ech_arrays_release(EchArrays *self, uint64_t address);
/** The array at @address is the host's, which writes it without asking: work reads it unless it is said to write it. */
void ech_arrays_of_host(EchArrays *self, uint64_t address);
/** Whether an array lies at @address now; if so, which. */
bool ech_arrays_find(const EchArrays *self, uint64_t address, EchId *ret_buffer);
/** What @uses[@n] are of, each array once, in the order of its first use, or (@apart) once for each use; borrowed until the next call. @ret_unknown: addresses
 * where nothing lies;
 * @ret_inferred: directions that were not told. Both are added to. */
const EchArrayUse *ech_arrays_resolve(EchArrays *self, const EchAddressUse *uses, size_t n, bool apart, size_t *ret_n, uint64_t *ret_unknown,
                                      uint64_t *ret_inferred);
/** Appends to @uses (EchAddressUse) that arrays which nothing has used yet are written, those asked for last first, as many as have @bytes together. Those
 * that were not are not looked at again. */
void ech_arrays_fill_new(EchArrays *self, EchBytes bytes, GArray *uses);
/** Bytes that each of @arrays[@n] is read by, or written: theirs, but together no more than @bytes, unless what they are more by is as little as scales,
 * biases and statistics, which a library's call is counted without. Returns what is left of @bytes. */
EchBytes ech_arrays_share(const EchArrayUse *arrays, size_t n, bool writes, EchBytes bytes, EchBytes *ret_each);
