/** @file donation.h
 * A compiled program with more or fewer of its arguments donated: which output takes the place of an argument, and the copies that this adds or saves.
 */
#pragma once
#include "sim/program/program.h"

/** What changed. Bytes are the arguments'. */
typedef struct {
    uint32_t donated; /**< Arguments whose place an output takes now. */
    EchBytes donated_bytes;
    uint32_t kept; /**< Arguments whose place no output takes any more. */
    EchBytes kept_bytes;
    uint32_t unmatched; /**< Asked for, but no output left has the shape, layout and memory. */
    EchBytes unmatched_bytes;
    uint32_t copies; /**< Added: the output is made while the argument is still read, or the argument would be written over. */
    EchBytes copy_bytes;
    uint32_t spared; /**< Copies of arguments into what is updated in place that are no longer made. */
    EchBytes spared_bytes;
} EchDonationChange;

/** Whether the array at @position of entry parameter @parameter (an instruction) is meant. */
typedef bool (*EchArgumentFunc)(const EchProgram *program, EchId parameter, uint32_t position, const void *data);

/** @program with the arguments that @meant says donated (@donate), each to the first output of its shape that no argument has yet, as JAX pairs them; or not
 * any more. Without an assignment. *@ret is set. Owned: another reference where nothing changes. ECH_ERROR_VERIFY. */
EchProgram *ech_program_donate(EchProgram *program, EchArgumentFunc meant, const void *data, bool donate, EchDonationChange *ret,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** @program with copies of arguments that are written over or handed back without being donated, where a pass has taken out the copies that stood there.
 * *@ret counts them. Without an assignment where it changed. Owned: another reference where it did not. ECH_ERROR_VERIFY. */
EchProgram *ech_program_keep_arguments(EchProgram *program, EchDonationChange *ret, GError **error) G_GNUC_WARN_UNUSED_RESULT;
