/* A cycle-level simulator of one DRAM (pseudo-)channel, for holding the analytic model against: banks, rows, JEDEC's constraints, a queue each for reads and
 * writes, first-ready first-come scheduling, writes drained in batches, refresh of all banks or of one at a time. One column and one row command per clock, as
 * HBM has buses for both. */
#pragma once
#include "models/memory/hbm.h"

#include <string.h>

typedef struct {
    uint64_t row;
    bool open, refreshing;
    int64_t activate_at, read_at, write_at, precharge_at; /* Earliest next command, ps. */
} SimBank;

typedef struct {
    uint64_t row;
    uint32_t bank;
} SimRequest;

enum { SIM_MAX_QUEUE = 256, SIM_MAX_BANKS = 128 };

typedef struct {
    const EchHbm *dram;
    EchHbmPattern pattern;
    SimBank banks[SIM_MAX_BANKS];
    SimRequest queue[2][SIM_MAX_QUEUE]; /* reads, writes; oldest first */
    uint32_t n[2];
    int64_t column_at[2][2]; /* Earliest read and write of the same group, of another one: by last column command. */
    uint32_t last_group;
    int64_t activates[4]; /* Last four. */
    uint32_t activate_group;
    bool draining;
    uint64_t random, visit[2], offset[2], sent, bursts;
    int64_t next_refresh, refresh_until;
    uint32_t refresh_bank, owed;
} Sim;

static uint64_t sim_random(Sim *sim)
{
    sim->random ^= sim->random << 13;
    sim->random ^= sim->random >> 7;
    sim->random ^= sim->random << 17;
    return sim->random;
}

/* The next burst of a direction; writes work in another region. */
static SimRequest sim_next(Sim *sim, int way)
{
    const EchHbm *d = sim->dram;
    const uint64_t region = UINT64_C(1) << 32;
    uint64_t start;
    if (sim->pattern.kind == ECH_HBM_RANDOM) {
        if (sim->offset[way] == 0)
            sim->visit[way] = sim_random(sim) % (region / sim->pattern.run) * sim->pattern.run;
        start = sim->visit[way];
    } else {
        start = sim->visit[way] * (sim->pattern.kind == ECH_HBM_STRIDED ? sim->pattern.stride : sim->pattern.run) % region;
    }
    uint64_t address = (way ? region + d->row_bytes * (d->banks / 2) : 0) + start + sim->offset[way];
    sim->offset[way] += d->burst_bytes;
    if (sim->offset[way] >= sim->pattern.run) {
        sim->offset[way] = 0;
        if (sim->pattern.kind != ECH_HBM_RANDOM)
            sim->visit[way]++;
    }
    /* Rows go round the banks; the order changes with every turn, so that no stride stays on few of them for long. */
    uint64_t row = address / d->row_bytes, turn = row / d->banks;
    return (SimRequest){turn, (uint32_t)((row ^ ((turn * UINT64_C(0x9e3779b97f4a7c15)) >> 40)) % d->banks)};
}

static void sim_fill(Sim *sim)
{
    for (;;) {
        int way = (double)(sim->sent % 64) >= sim->pattern.reads * 64;
        if (sim->n[way] >= sim->dram->queue)
            return;
        sim->queue[way][sim->n[way]++] = sim_next(sim, way);
        sim->sent++;
    }
}

static void sim_remove(Sim *sim, int way, uint32_t at)
{
    memmove(&sim->queue[way][at], &sim->queue[way][at + 1], (sim->n[way] - at - 1) * sizeof(SimRequest));
    sim->n[way]--;
}

static bool sim_column(Sim *sim, int64_t now)
{
    const EchHbm *d = sim->dram;
    int way = sim->draining;
    if (sim->column_at[way][0] > now && sim->column_at[way][1] > now)
        return false;
    for (uint32_t i = 0; i < sim->n[way]; i++) {
        SimRequest *r = &sim->queue[way][i];
        SimBank *bank = &sim->banks[r->bank];
        uint32_t group = r->bank % (uint32_t)d->groups;
        int64_t ready = way ? bank->write_at : bank->read_at;
        if (!bank->open || bank->row != r->row || ready > now || sim->column_at[way][group != sim->last_group] > now)
            continue;
        /* To the next column command, by its direction and group. */
        int64_t write_to_read = d->t_cwl + d->t_burst;
        sim->column_at[0][0] = now + (way ? write_to_read + d->t_wtr_l : d->t_ccd_l);
        sim->column_at[0][1] = now + (way ? write_to_read + d->t_wtr_s : d->t_ccd_s);
        sim->column_at[1][0] = now + (way ? d->t_ccd_l : d->t_rtw);
        sim->column_at[1][1] = now + (way ? d->t_ccd_s : d->t_rtw);
        sim->last_group = group;
        bank->precharge_at = MAX(bank->precharge_at, now + (way ? d->t_cwl + d->t_burst + d->t_wr : d->t_rtp));
        sim->bursts++;
        sim_remove(sim, way, i);
        return true;
    }
    return false;
}

static bool sim_wanted(const Sim *sim, int way, uint32_t bank)
{
    for (uint32_t i = 0; i < sim->n[way]; i++) {
        if (sim->queue[way][i].bank == bank && sim->queue[way][i].row == sim->banks[bank].row)
            return true;
    }
    return false;
}

static void sim_precharge(const EchHbm *d, SimBank *bank, int64_t now)
{
    bank->open = false;
    bank->activate_at = MAX(bank->activate_at, now + d->t_rp);
}

static bool sim_activate(Sim *sim, const SimRequest *r, int64_t now)
{
    const EchHbm *d = sim->dram;
    SimBank *bank = &sim->banks[r->bank];
    uint32_t group = r->bank % (uint32_t)d->groups;
    if (bank->activate_at > now || sim->activates[0] + d->t_faw > now || sim->activates[3] + (group == sim->activate_group ? d->t_rrd_l : d->t_rrd_s) > now)
        return false;
    memmove(sim->activates, sim->activates + 1, 3 * sizeof *sim->activates);
    sim->activates[3] = now;
    sim->activate_group = group;
    *bank = (SimBank){.row = r->row,
                      .open = true,
                      .activate_at = now + d->t_ras + d->t_rp,
                      .read_at = now + d->t_rcd_read,
                      .write_at = now + d->t_rcd_write,
                      .precharge_at = now + d->t_ras};
    return true;
}

static void sim_row(Sim *sim, int64_t now)
{
    const EchHbm *d = sim->dram;
    int way = sim->draining;
    bool touched[SIM_MAX_BANKS] = {false};
    for (uint32_t i = 0; i < sim->n[way]; i++) {
        const SimRequest *r = &sim->queue[way][i];
        SimBank *bank = &sim->banks[r->bank];
        if (touched[r->bank])
            continue;
        touched[r->bank] = true;
        if (bank->refreshing || (d->per_bank && sim->owed > 0 && r->bank == sim->refresh_bank))
            continue;
        if (!bank->open) {
            if (sim_activate(sim, r, now))
                return;
        } else if (bank->row != r->row && bank->precharge_at <= now && !sim_wanted(sim, way, r->bank)) {
            sim_precharge(d, bank, now);
            return;
        }
    }
}

/* All banks: everything stops, rows close, t_rfc. One bank: when its turn comes it takes no new row; once its hits are served it refreshes while the others go
 * on. */
static bool sim_refresh(Sim *sim, int64_t now)
{
    const EchHbm *d = sim->dram;
    if (now >= sim->next_refresh) {
        sim->owed++;
        sim->next_refresh += d->per_bank ? d->t_refi / (int64_t)d->banks : d->t_refi;
    }
    if (d->per_bank) {
        SimBank *bank = &sim->banks[sim->refresh_bank];
        for (uint32_t i = 0; i < d->banks; i++) {
            if (sim->banks[i].refreshing && sim->banks[i].activate_at <= now)
                sim->banks[i].refreshing = false;
        }
        if (sim->owed == 0)
            return false;
        if (bank->open && bank->precharge_at <= now && !sim_wanted(sim, sim->draining, sim->refresh_bank))
            sim_precharge(d, bank, now);
        if (!bank->open && bank->activate_at <= now) {
            bank->refreshing = true;
            bank->activate_at = now + d->t_rfc_bank;
            sim->refresh_bank = (sim->refresh_bank + 1) % (uint32_t)d->banks;
            sim->owed--;
        }
        return false;
    }
    if (now < sim->refresh_until)
        return true;
    if (sim->owed == 0)
        return false;
    bool closed = true;
    for (uint32_t i = 0; i < d->banks; i++) {
        SimBank *bank = &sim->banks[i];
        if (bank->open && bank->precharge_at <= now)
            sim_precharge(d, bank, now);
        closed = closed && !bank->open && bank->activate_at <= now;
    }
    if (closed) {
        sim->owed--;
        sim->refresh_until = now + d->t_rfc;
        for (uint32_t i = 0; i < d->banks; i++)
            sim->banks[i].activate_at = sim->refresh_until;
    }
    return true;
}

/* Useful bytes over what the data bus could carry, once warm. */
static double sim_efficiency(const EchHbm *dram, const EchHbmPattern *pattern, int64_t duration)
{
    Sim *sim = g_new0(Sim, 1);
    sim->dram = dram;
    sim->pattern = *pattern;
    sim->random = 88172645463325252u;
    for (size_t i = 0; i < 4; i++)
        sim->activates[i] = -dram->t_faw;
    sim->next_refresh = dram->per_bank ? dram->t_refi / (int64_t)dram->banks : dram->t_refi;
    int64_t clock = dram->t_burst / 2, warm = duration / 4;
    uint64_t before = 0;
    for (int64_t now = 0; now < duration; now += clock) {
        if (now < warm)
            before = sim->bursts;
        sim_fill(sim);
        if (sim->draining && sim->n[1] <= dram->queue / 8 && sim->n[0] > 0)
            sim->draining = false;
        else if (!sim->draining && (sim->n[1] >= dram->queue || sim->n[0] == 0))
            sim->draining = true;
        if (sim_refresh(sim, now))
            continue;
        sim_column(sim, now);
        sim_row(sim, now);
    }
    double useful = (double)pattern->run / (double)ech_round_up(pattern->run, dram->burst_bytes);
    double bytes = (double)(sim->bursts - before) * (double)dram->burst_bytes * useful;
    g_free(sim);
    return bytes / ((double)(duration - warm) / (double)dram->t_burst * (double)dram->burst_bytes);
}
