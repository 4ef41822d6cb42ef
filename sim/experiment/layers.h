/** @file layers.h
 * Layers that come as shapes only (SCALE-Sim's topologies), priced by the kernel model on a TPU with tiles of our own choice. */
#pragma once
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/trace/trace.h"

/** The trace with the model's time as the estimate (origin inferred) of every kernel that reads filters or a right operand with a shape and writes a
 * result with one; the same trace where the device is no TPU or nothing has shapes. Arrays get the tiles that the chip's compiler gives them. */
EchTrace *ech_layers_price(EchTrace *trace, const EchDevice *device, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
