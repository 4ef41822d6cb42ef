/** @file induction.h
 * Which slices of arrays the iterations of a loop take and put, by the loop's counter.
 */
#pragma once
#include "sim/program/private.h"

/** A dimension of an array, and where along it an iteration takes or puts a slice: at @times an element of what the loop carries, plus @offset. */
typedef struct {
    uint32_t element;
    int64_t offset, times;
    uint64_t size;  /**< Of the slice. */
    uint64_t apart; /**< Elements between neighbours of the dimension in memory, without padding: tells dimensions apart whatever shape an array goes by. */
} EchStride;

/** The dimensions along which each iteration of @loop puts a slice of its own, that no other iteration's overlaps, with @writer, an instruction of its body
 * that updates an array in place (of what it makes member @member, UINT32_MAX: all). Returns how many. */
size_t ech_program_put_slices(const EchProgram *program, EchId loop, EchId writer, uint32_t member, EchStride ret[ECH_LAYOUT_MAX_RANK]);
/** Whether @user, of a loop's body, takes of its @operand nothing but slices along @stride, within those that are put there in the same iteration. */
bool ech_program_takes_slices(const EchProgram *program, EchId user, uint32_t operand, const EchStride *stride);
/** Which of the first @n members of what @loop carries it writes all of, a slice each iteration, from the first to the last, and reads nothing of: what they
 * begin with is of no account. Owned by the caller. */
bool *ech_program_filled(const EchProgram *program, EchId loop, size_t n) G_GNUC_WARN_UNUSED_RESULT;
