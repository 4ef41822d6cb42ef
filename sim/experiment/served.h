/** @file served.h
 * A server's cache of keys and values (ECH_ROLE_KV_CACHE) is as large as the memory that it was captured with left; with another it is as large as that leaves.
 */
#pragma once
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/trace/trace.h"

/** How the remark on it begins, which advice repeats. */
#define ECH_REMARK_CACHE "the server's KV cache"

/** Whether @trace has one. */
bool ech_serves(const EchTrace *trace);
/** @trace with such a cache as the same share of @device's memory leaves beside all else, where that is smaller than the captured one's; @least: with next to
 * none, which tells what is needed beside it. The same, referenced, where there is none, or nothing to be cut. Remarks go to @diag. ECH_ERROR_VERIFY. */
EchTrace *ech_served_here(EchTrace *trace, const EchDevice *device, bool least, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
