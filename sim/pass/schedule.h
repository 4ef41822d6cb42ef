/** @file schedule.h
 * Kernels in another order than they were given.
 */
#pragma once
#include "models/device/device.h"
#include "sim/trace/trace.h"

/** Times that libtpu takes what pass schedule tells of a program in which it had to make arrays again itself to come down to memory, with optimizer state on
 * the host, at most, mostly: how much it makes again with that is its own choice (validation/what_ifs.md). Property schedule_takes_up_to. */
#define ECH_SCHEDULE_MARGIN "1.2"

/** A program of XLA's whose kernels, around all loops, run as soon as what they need is there where they give back more memory than they take
 * (models/place/sooner.h): weights' gradients, as compilers that have no memory to spare have them. Kernels that use on-chip memory keep their place; places of
 * arrays stay as they are, which do not hold in that order. An owned
 * trace: another reference to @in where none would run sooner, or that is no program of XLA's; NULL and *@error where it cannot be written. */
EchTrace *ech_schedule_sooner(EchTrace *in, const EchDevice *device, GError **error) G_GNUC_WARN_UNUSED_RESULT;
