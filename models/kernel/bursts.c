/** @file bursts.c  A kernel's copies, in their order, at many rates. */
#include "models/kernel/bursts.h"

#include <math.h>

static double rate_of(unsigned i)
{
    return exp2(ECH_BURST_FIRST + i / 8.0);
}

void ech_bursts_work(EchBursts *bursts, double cycles)
{
    bursts->waits.worked += cycles;
}

void ech_bursts_begin(EchBursts *bursts, double bytes, EchBurstTimes *ret)
{
    *ret = (EchBurstTimes){{0}};
    if (!(bytes > 0))
        return;
    for (unsigned i = 0; i < ECH_BURST_RATES; i++) {
        double now = bursts->waits.worked + bursts->waits.waited[i];
        ret->at[i] = bursts->idle.at[i] = MAX(bursts->idle.at[i], now) + bytes / rate_of(i);
    }
}

void ech_bursts_wait(EchBursts *bursts, const EchBurstTimes *done)
{
    for (unsigned i = 0; i < ECH_BURST_RATES; i++)
        bursts->waits.waited[i] = MAX(bursts->waits.waited[i], done->at[i] - bursts->waits.worked);
}

/* All of it is a sum of greatest values of times that are in proportion to work or to bytes: between two rates it is at most on the line between them. */
double ech_bursts_waited(const EchBurstWaits *waits, double work, double rate)
{
    if (!(waits->worked > 0 && isfinite(waits->worked) && work > 0 && isfinite(work) && rate > 0))
        return 0;
    double here = rate * work / waits->worked, place = (log2(here) - ECH_BURST_FIRST) * 8;
    double waited;
    if (place <= 0) { /* all wait for bytes */
        waited = (waits->worked + waits->waited[0]) * rate_of(0) / here - waits->worked;
    } else if (place >= ECH_BURST_RATES - 1) {
        waited = waits->waited[ECH_BURST_RATES - 1] * rate_of(ECH_BURST_RATES - 1) / here;
    } else {
        unsigned i = (unsigned)place;
        double slow = 1 / rate_of(i), fast = 1 / rate_of(i + 1), part = (slow - 1 / here) / (slow - fast);
        waited = waits->waited[i] + part * (waits->waited[i + 1] - waits->waited[i]);
    }
    return waited * work / waits->worked;
}
