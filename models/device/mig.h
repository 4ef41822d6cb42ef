/** @file mig.h
 * Instances of a GPU that is cut into parts (NVIDIA's Multi-Instance GPU): "a100-80:3g.40gb" is such a part of the device a100-80.
 *
 * A board's file says what it can be cut into:
 *
 *     mig:
 *       3g.40gb: {multiprocessors: 42, bytes: 40192MiB, eighths: 4}
 *
 * with multiprocessors, the bytes that programs are given, and eighths of the memory's and L2's rates and of L2.
 */
#pragma once
#include "models/device/device.h"

/** Where a device's name ends and that of an instance begins, or NULL: it names no instance. */
const char *ech_mig_profile(const char *name);
/** The device file of instance @profile of @board, over the board's: YAML whose base is @called. ECH_ERROR_CONFIG: it has none of that name; expected one of
 * those it has. Owned by the caller. */
GString *ech_mig_yaml(const EchDevice *board, const char *called, const char *profile, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Names of what @board can be cut into, "1g.10gb, 2g.20gb", or NULL: nothing. Owned by the caller. */
char *ech_mig_profiles(const EchDevice *board) G_GNUC_WARN_UNUSED_RESULT;
