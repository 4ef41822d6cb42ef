/** @file replaying.h
 * A run on its way: what replay.c and together.c share. Inside sim/replay only.
 */
#pragma once
#include "sim/replay/machine.h"

/** One trace that is being replayed; owns all but what @rank borrows. */
typedef struct {
    EchReplayRank rank;
    EchRun *run;
    EchPrices *prices;
    EchMachine *machine;
    GArray *spans; /**< EchSpan */
} EchReplaying;

/** Whether power holds the rank's device at rates that hang on how much of the time products run, and nobody says how much. */
bool ech_replaying_unsettled(const EchReplayRank *rank);
/** Whether that is a limit below the card's own power. */
bool ech_replaying_limited(const EchReplayRank *rank);
/** How much of the time they run, by @run: under a limit a replay with products_duty 1, else one at the rate just after a pause; 0: too short to be held. */
double ech_replaying_settled_duty(const EchReplayRank *rank, const EchRun *run);
/** Says in @run, a replay with the rank's products_duty, what that came to. */
void ech_replaying_remark_held(const EchReplayRank *rank, EchRun *run);

/** Prices and compiles. Errors of ech_machine_new. */
bool ech_replaying_begin(const EchReplayRank *rank, EchReplaying *ret, GError **error);
void ech_replaying_clear(EchReplaying *replaying);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchReplaying, ech_replaying_clear)
/** Its spans go where the run will have them; before the machine begins. */
void ech_replaying_keep_spans(EchReplaying *replaying);
/** The run, once the machine has finished; owned by the caller. ECH_ERROR_UNSUPPORTED where it took too many operations, too long, or did not come to its end.
 */
EchRun *ech_replaying_end(EchReplaying *replaying, const char *engine, const char *version, GError **error) G_GNUC_WARN_UNUSED_RESULT;
