/** @file price_stationary.h
 * A program's kernels on a chip whose weights stay in the array (models/kernel/stationary.h): all of them at once, since what one costs depends on the one
 * before it. */
#pragma once
#include "models/device/device.h"
#include "models/kernel/stationary.h"
#include "sim/program/program.h"

/** Times and counters of a program. */
typedef struct {
    EchTime *times;           /**< times[n_instructions]: what a kernel adds to the core's time after what is before it; ECH_TIME_NONE where it is none. */
    EchKernelInside *insides; /**< insides[n_instructions]: what that is spent on. */
    EchStationaryCounters counters;
} EchStationaryPrices;

/** Runs the flat schedule of @program, loops' bodies once. NULL where @device is no such chip. Remarks say what the chip could not do as the program has it. */
EchStationaryPrices *ech_program_price_stationary(const EchProgram *program, const EchDevice *device, EchDiag *diag) G_GNUC_WARN_UNUSED_RESULT;
void ech_stationary_prices_free(EchStationaryPrices *prices);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchStationaryPrices, ech_stationary_prices_free)

/** The names under which a trace carries counters, as its properties: "matrix_counters.cycles" and so on, whole cycles. */
#define ECH_STATIONARY_PROPERTY "matrix_counters."
/** And those that were measured, in per cent of the cycles: "matrix_counters.measured.array_active". A program says them in its result's
 * frontend_attributes: {measured.array_active="12.7",...}. */
#define ECH_STATIONARY_MEASURED ECH_STATIONARY_PROPERTY "measured."
/** Gives the trace being built what the program says was measured. */
void ech_stationary_set_measured(EchTraceBuilder *builder, const EchProgram *program);
/** Gives them to the trace being built. */
void ech_stationary_set_counters(EchTraceBuilder *builder, const EchStationaryCounters *counters, const EchDevice *device);
