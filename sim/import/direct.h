/** @file direct.h
 * What a program's libraries take from a device beside its allocator, told from what the allocator takes.
 */
#pragma once
#include "sim/import/capture.h"

/** Marks as direct the device ALLOC and FREE items of @capture that are called @name and lie in no segment of @snapshot's allocator, which begins at @zero of
 * the capture's time. What the snapshot does not tell, because the allocator may have had it and given it back before the recording began, or taken it after it
 * ended, stays as it is. Items that are marked get the name @direct. */
void ech_direct_mark(EchCapture *capture, const EchTrace *snapshot, EchTime zero, EchId name, EchId direct);
