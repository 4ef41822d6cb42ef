/** @file fluid.h
 * The engine seam: resources with capacities, demands on several of them that progress together, what ends next.
 *
 * A demand is an amount on each of several resources (operations on a unit, bytes on a memory port, bytes on a link). All parts of a
 * demand progress at one common pace. Sharing is bottleneck max fairness: every demand gets an equal share (in units of the resource
 * per second) of the resource that bounds it, and nothing idles that a demand could use. A demand never ends before its min_time:
 * that is an amount of seconds on a private meter of rate one, so a set-up time or a recorded duration is a demand without parts.
 *
 * Two implementations of these semantics: native (in process) and simgrid (a module run in a forked worker). What is above this seam
 * knows neither. Amounts and capacities are doubles here and only here; times are integer picoseconds.
 */
#pragma once
#include "sim/base/units.h"

/** Something that is shared: units per second, > 0 and finite. */
typedef struct {
    char *name;
    double capacity;
} EchFluidResource;

/** Part of a demand: an @amount >= 0 on one resource, in the resource's units. */
typedef struct {
    uint32_t resource;
    double amount;
} EchFluidPart;

/** Where time ends, in picoseconds: 46 days. What is live then ends at it. */
#define ECH_FLUID_END INT64_C(4000000000000000000)

/** The calls of an engine. @engine is the implementation's own. To add an engine: fill one of these.
 * Time stands still between two calls of next; demands started in between start at the same instant. */
typedef struct {
    const char *name; /**< "native", "simgrid". */
    /** Starts demand @token (the caller's number, unique among live demands, below max_live). Parts name distinct resources; parts of amount 0 are
     * ignored. @parts is copied. @min_time in picoseconds, >= 0. A demand of nothing ends at this very instant. */
    void (*start)(void *engine, uint32_t token, const EchFluidPart *parts, uint32_t n_parts, EchTime min_time);
    /** Lets time pass until something ends. Writes the tokens that end at that instant, ascending, to @ret_tokens (room for
     * max_live), the instant to *ret_now (rounded to a picosecond; never goes back) and returns how many; 0 when nothing is live. */
    uint32_t (*next)(void *engine, uint32_t *ret_tokens, EchTime *ret_now);
    /** Share of a live demand that is still to be done, 0..1. */
    double (*remaining)(void *engine, uint32_t token);
    /** The engine's clock below a picosecond: now is *ret_ps + the result, which lies in [0, 1). */
    double (*clock)(void *engine, EchTime *ret_ps);
} EchFluidClass;

/** What runs on an engine: the replay state machine. Returns when it is done. */
typedef void (*EchFluidDrive)(const EchFluidClass *class, void *engine, void *data);

/** What the SimGrid module exports under the symbol "ech_fluid_module". It links none of our objects; everything comes in by pointers. */
#define ECH_FLUID_MODULE_ABI 2
typedef struct {
    uint32_t abi;
    const char *name;
    const char *version; /**< Of the library behind it. */
    /** Runs @drive to its end on a fresh engine, in this process, which can do so only once and must then leave by _exit. May abort.
     * @unit: a typical time of a demand alone, picoseconds > 0, which stands for one simulated second. */
    void (*run)(const EchFluidResource *resources, uint32_t n_resources, uint32_t max_live, EchTime unit, EchFluidDrive drive, void *data);
} EchFluidModule;

/** The engine of this process. */
extern const EchFluidClass ech_native_class;
typedef struct EchNative EchNative;
/** @max_live: most demands alive at one time; tokens are below it. Owned by the caller. */
EchNative *ech_native_new(const EchFluidResource *resources, uint32_t n_resources, uint32_t max_live) G_GNUC_WARN_UNUSED_RESULT;
void ech_native_free(EchNative *engine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchNative, ech_native_free)

/** Loads the SimGrid module once per process; it lies in lib/echelon or ../lib/echelon beside the program, or in ECHELON_MODULES.
 * ECH_ERROR_BACKEND says where it was looked for. */
const EchFluidModule *ech_simgrid_module(GError **error);
