/** @file private.h
 * Inside sim/program: the builder's arrays and the steps of its finish.
 */
#pragma once
#include "sim/program/program.h"

/** Flat schedule, values, uses, live ranges, buffers. ECH_ERROR_VERIFY for cyclic computations or more than 2^31 positions. */
bool ech_program_derive(EchProgram *program, EchDiag *diag, GError **error);
/** Live ranges and buffers' sizes again, after the chip became known. */
void ech_program_size_values(EchProgram *program);
/** The space whose memory an allocation of @space is part of: a GPU has one memory, whatever of it is set apart (1: what collectives take, 2: temporaries), and
 * the host's. */
static inline int32_t ech_program_memory_of(const EchProgram *program, int32_t space)
{
    return program->platform == ECH_PLATFORM_GPU && space != ECH_SPACE_HOST ? (int32_t)ECH_SPACE_HBM : space;
}
/** A GCompareDataFunc over value ids, by begin of their range, end, then order; @program: EchProgram. */
int ech_program_compare_ranges(gconstpointer a, gconstpointer b, gpointer program);
/** Operand @operand at its position @position must share its place with result position @result. */
typedef struct {
    uint32_t operand, position, result;
} EchSharePair;
/** Appends (EchSharePair) what @user must do in place. */
void ech_program_must_share(const EchProgram *program, EchId user, GArray *ret);
/** Follows a value inside a fusion back through tuple-free no-ops: bitcast, and reshape on a GPU. */
EchId ech_program_look_through(const EchProgram *program, EchId instruction);
/** The operand that a fusion of nothing but bitcasts and a copy hands on: inside another fusion it costs nothing, what reads it reads the operand in other
 * tiles. UINT32_MAX for other instructions. */
uint32_t ech_program_handed_on(const EchProgram *program, EchId fusion);
/** Rank of every instruction in XLA's post order; computations by size, or in reverse print order. Owned by the caller. */
uint32_t *ech_program_post_order(const EchProgram *program, bool by_size) G_GNUC_WARN_UNUSED_RESULT;
/** Bytes of every operand that an instruction reads (slices count what they touch, in-place destinations nothing), padded: ret[n_operands]. */
void ech_program_all_operand_bytes(const EchProgram *program, EchId instruction, EchBytes *ret);
/** The numbers of an attribute, as ech_program_numbers: at most @max, of which it returns how many there were (that is @max for more); 0 where it is absent. */
size_t ech_program_attribute_numbers(const EchInstruction *instruction, const char *name, int64_t *ret, size_t max);
/** What a slice takes of each dimension, first, end and step: "{[0:16], [0:4096:2]}". Returns how many dimensions it tells, at most @max. */
size_t ech_program_slice_ranges(const EchInstruction *slice, int64_t (*ret)[3], size_t max);
/** Integers that arrays of a program hold: constants, arguments that are known, and what is computed of those; looked at once each. */
typedef struct EchIntegers EchIntegers;
EchIntegers *ech_integers_new(const EchProgram *program) G_GNUC_WARN_UNUSED_RESULT;
void ech_integers_free(EchIntegers *integers);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchIntegers, ech_integers_free)
/** From here on they are those of one device, @device < partitions * replicas of the module; before, what hangs on a device's number is not known. */
void ech_integers_set_device(EchIntegers *integers, uint32_t device);
/** What has a part in an array's integers. */
enum { ECH_BY_ARGUMENT = 1, ECH_BY_DEVICE = 2 };
/** Array of int64_t, row by row, borrowed until the integers are freed or of another device; NULL for what is not known, is large (65536 elements) or holds
 * other things than integers. @ret_by (may be NULL): ECH_BY_ARGUMENT, ECH_BY_DEVICE or both. */
GArray *ech_integers_of(EchIntegers *integers, EchId instruction, unsigned *ret_by);
/** Per value (n_values): of a donated argument the devices of a group that hold the same of it, as far as the program shows; else 0. Owned by the caller. */
uint32_t *ech_program_replicas(const EchProgram *program) G_GNUC_WARN_UNUSED_RESULT;
/** What kernels of the program's own (Pallas) do, from their code. */
void ech_program_derive_grids(EchProgram *program);
/** Work of every computation and what fusions touch of their operands. ECH_ERROR_VERIFY for cycles. */
bool ech_program_derive_bodies(EchProgram *program, GError **error);
/** The touched bytes again, after shapes were sized anew. */
void ech_program_touch_bodies(EchProgram *program);
/** What the body @computation of a GPU's fusion touches of its @n parameters: from the results back only what is asked for, in whole pieces of device memory.
 * Bodies called inside must have been touched. Adds to @touched[n]. */
void ech_program_touch_gpu(const EchProgram *program, EchId computation, EchTouched *touched, size_t n);
/** What a slice, gather or scatter that stands alone touches of operand @k, in whole pieces of a GPU's memory. */
EchBytes ech_program_picked_bytes(const EchProgram *program, EchId instruction, uint32_t k);
/** Whether the update (dynamic-update-slice, scatter) in a fusion's body can be made in place of what it updates: that is a parameter of the body. */
bool ech_program_updates_in_place(const EchProgram *program, EchId instruction);
/** May result position @result of @user take the place of what its operand @operand (an instruction, position 0) holds? @n_users: uses of
 * every instruction as an operand. */
bool ech_program_may_share(const EchProgram *program, EchId user, uint32_t result, EchId operand, const uint32_t *n_users);
