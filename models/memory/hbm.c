#include "models/memory/hbm.h"

#include <math.h>
#include <string.h>

#define NS(x) ((EchTime)((x)*1000))
static const char ramulator[] = "ramulator2 @ c5b1c3a, python/ramulator/dram; refresh of one bank at a time as GPUs' read rates imply (RRZE gpu-benches)";

/* HBM2: 64 bits, bursts of 4; HBM3: 32 bits, bursts of 8. Faster parts keep the nanoseconds of the array. */
static const EchHbm presets[] = {
    {"hbm2", ramulator, 32,     1024,  16,     4,     64,    NS(2), NS(14), NS(12),   NS(14),  NS(34),  NS(2), NS(4),
     NS(4),  NS(4),     NS(15), NS(5), NS(16), NS(6), NS(8), NS(5), NS(13), NS(3900), NS(260), NS(160), true},
    {"hbm2e", ramulator, 32,     1024,  16,     4,     128,   NS(1.25), NS(14), NS(12),   NS(14),  NS(34),  NS(1.25), NS(2.5),
     NS(4),   NS(4),     NS(15), NS(5), NS(16), NS(6), NS(8), NS(5),    NS(12), NS(3900), NS(350), NS(160), true},
    {"hbm3",  ramulator, 32,     1024,     32,       4,       128,      NS(1.25), NS(19.4), NS(9.4),  NS(16.25), NS(28.1), NS(1.25), NS(2.5),
     NS(2.5), NS(3.1),   NS(15), NS(6.25), NS(20.6), NS(4.4), NS(6.25), NS(5),    NS(12.5), NS(3900), NS(350),   NS(200),  true},
    {"hbm3e", ramulator, 32,     1024,     32,       4,       128,      NS(0.84), NS(19.4), NS(9.4),  NS(16.25), NS(28.1), NS(0.84), NS(1.68),
     NS(2.5), NS(3.1),   NS(15), NS(6.25), NS(20.6), NS(4.4), NS(6.25), NS(5),    NS(12.5), NS(3900), NS(350),   NS(200),  true},
};

const EchHbm *ech_hbm_preset(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(presets); i++) {
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    }
    return NULL;
}

const char *const *ech_hbm_names(void)
{
    static const char *const names[] = {"hbm2", "hbm2e", "hbm3", "hbm3e", NULL};
    G_STATIC_ASSERT(G_N_ELEMENTS(names) == G_N_ELEMENTS(presets) + 1);
    return names;
}

/* What the rows of a pattern look like: bytes moved per activation, and how many rows the queue sees at once. */
typedef struct {
    double bytes, window;
} Rows;

static Rows rows_of(const EchHbm *d, const EchHbmPattern *p, double moved)
{
    Rows rows = {.bytes = (double)d->row_bytes};
    if (p->kind == ECH_HBM_RANDOM)
        rows.bytes = MIN(moved, rows.bytes);
    else if (p->kind == ECH_HBM_STRIDED && p->stride > p->run)
        rows.bytes = MIN(moved * MAX((double)d->row_bytes / (double)p->stride, 1), rows.bytes);
    rows.window = MAX((double)(d->queue * d->burst_bytes) / rows.bytes, 1);
    return rows;
}

/* Banks that work at once: all of them where rows follow each other in order; random ones fall on banks like balls into bins. */
static double banks_at_work(const EchHbm *d, const EchHbmPattern *p, const Rows *rows)
{
    double n = (double)d->banks;
    if (p->kind != ECH_HBM_RANDOM)
        return n;
    /* With more requests than banks some wait behind others while banks idle (fit: an eighth at twice as many). */
    double crowded = CLAMP((rows->window - n) / n, 0, 1) / 8;
    return MAX(n * (1 - pow(1 - 1 / n, rows->window)) * (1 - crowded), 1);
}

/* Commands fall on clocks, two to a burst. */
static double clocks(const EchHbm *d, double time)
{
    double clock = (double)d->t_burst / 2;
    return ceil(time / clock - 1e-9) * clock;
}

/* Several limits at once are a little lower than the lowest of them. */
static double together(const double *rates, size_t n)
{
    enum { SHARPNESS = 16 };
    double lowest = rates[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        lowest = MIN(lowest, rates[i]);
    for (size_t i = 0; i < n; i++)
        sum += pow(lowest / rates[i], SHARPNESS);
    return lowest / pow(sum, 1.0 / SHARPNESS);
}

/* Bytes a picosecond, of reads or of writes. */
static double rate_of(const EchHbm *d, const EchHbmPattern *p, const Rows *rows, bool reads)
{
    double burst = (double)d->burst_bytes, bursts = MAX(rows->bytes / burst, 1), t_burst = (double)d->t_burst;
    /* With a row of another group at hand bursts follow each other directly. Few random rows may all lie in one group (fit: a third of the gaps cannot be
     * filled then). */
    double alone = rows->window < 2 ? 1 : p->kind == ECH_HBM_RANDOM ? pow(1 / (double)d->groups, rows->window - 1) / 3 : 0;
    double bus = burst / (t_burst + alone * MAX((double)d->t_ccd_l - t_burst, 0));
    double activate = rows->bytes / MAX(clocks(d, (double)d->t_faw) / 4, clocks(d, (double)d->t_rrd_s));
    double close = reads ? (double)d->t_rtp : (double)(d->t_cwl + d->t_burst + d->t_wr);
    double open = MAX((double)d->t_ras, (double)(reads ? d->t_rcd_read : d->t_rcd_write) + (bursts - 1) * t_burst + close);
    double bank = rows->bytes * banks_at_work(d, p, rows) / (open + (double)d->t_rp);
    const double rates[] = {bus, activate, bank};
    /* What comes in order meets its limits one at a time. */
    return p->kind == ECH_HBM_RANDOM ? together(rates, G_N_ELEMENTS(rates)) : MIN(MIN(bus, activate), bank);
}

EchHbmShare ech_hbm_share(const EchHbm *d, const EchHbmPattern *p)
{
    double run = (double)MAX(p->run, 1), moved = (double)ech_round_up(MAX(p->run, 1), d->burst_bytes), burst = (double)d->burst_bytes;
    double reads = CLAMP(p->reads, 0, 1), bus = (double)d->t_burst / burst;
    Rows rows = rows_of(d, p, moved);
    double byte = reads / rate_of(d, p, &rows, true) + (1 - reads) / rate_of(d, p, &rows, false);
    EchHbmShare share = {.granularity = run / moved, .activation = bus / byte, .turnaround = 1};
    if (reads > 0 && reads < 1) {
        /* A batch of writes, the reads until the next one, and a turn each way: the bus' own gaps, and rows to open again where nothing keeps them open. */
        double writes = (double)d->queue * 7 / 8, bursts = MIN(writes / (1 - reads), writes * 64);
        double turn = (double)(d->t_rtw - d->t_burst) + (double)(d->t_cwl + d->t_wtr_s);
        double reopen = (double)d->t_rp + (double)(d->t_rcd_read + d->t_rcd_write) / 2;
        turn += (p->kind == ECH_HBM_STREAM ? 0.3 : 0.25 + 2.2 * burst / rows.bytes) * reopen;
        share.turnaround = bursts * burst * byte / (bursts * burst * byte + turn);
    }
    /* All banks at once stop everything; one at a time holds up what waits for that bank. */
    double pause = (double)d->t_rfc + (double)d->t_rp + (double)d->t_rcd_read;
    share.refresh = 1 - (d->per_bank ? (double)d->t_rfc_bank / 2 : pause) / (double)d->t_refi;
    share.efficiency = share.granularity * share.activation * share.turnaround * share.refresh;
    return share;
}

bool ech_hbm_of(const EchDevice *device, const EchMemory *memory, EchHbm *ret)
{
    const EchHbm *preset = memory->dram ? ech_hbm_preset(memory->dram) : NULL;
    if (!preset)
        return false;
    *ret = *preset;
    uint64_t *const counts[] = {&ret->burst_bytes, &ret->row_bytes, &ret->banks, &ret->groups, &ret->queue};
    static const char *const count_names[] = {"burst_bytes", "row_bytes", "banks", "groups", "queue"};
    for (size_t i = 0; i < G_N_ELEMENTS(counts); i++) {
        g_autofree char *path = g_strconcat("dram.", count_names[i], NULL);
        double value = ech_device_number(device, path, (double)*counts[i]);
        *counts[i] = value >= 1 && value <= 1e6 ? (uint64_t)value : *counts[i];
    }
    EchTime *const times[] = {&ret->t_burst, &ret->t_rcd_read, &ret->t_rcd_write, &ret->t_rp,  &ret->t_ras,     &ret->t_ccd_s, &ret->t_ccd_l,
                              &ret->t_rrd_s, &ret->t_rrd_l,    &ret->t_faw,       &ret->t_cwl, &ret->t_wr,      &ret->t_wtr_s, &ret->t_wtr_l,
                              &ret->t_rtp,   &ret->t_rtw,      &ret->t_refi,      &ret->t_rfc, &ret->t_rfc_bank};
    static const char *const time_names[] = {"t_burst", "t_rcd_read", "t_rcd_write", "t_rp",    "t_ras", "t_ccd_s", "t_ccd_l", "t_rrd_s", "t_rrd_l",   "t_faw",
                                             "t_cwl",   "t_wr",       "t_wtr_s",     "t_wtr_l", "t_rtp", "t_rtw",   "t_refi",  "t_rfc",   "t_rfc_bank"};
    G_STATIC_ASSERT(G_N_ELEMENTS(times) == G_N_ELEMENTS(time_names));
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++) {
        g_autofree char *path = g_strconcat("dram.", time_names[i], NULL);
        double value = ech_device_number(device, path, (double)*times[i]);
        *times[i] = value >= 1 && value <= 1e12 ? (EchTime)value : *times[i];
    }
    ret->per_bank = ech_device_number(device, "dram.per_bank", ret->per_bank) != 0;
    return true;
}

double ech_hbm_slowdown(const EchHbm *dram, const EchHbmPattern *pattern)
{
    EchHbmPattern stream = {ECH_HBM_STREAM, dram->row_bytes, 0, pattern->reads};
    double of_stream = ech_hbm_share(dram, &stream).efficiency, own = ech_hbm_share(dram, pattern).efficiency;
    return own > 0 ? MAX(of_stream / own, 1) : 1;
}

EchHbmPattern ech_hbm_of_layout(const EchLayout *layout, EchHbmKind kind, uint64_t granule, double reads, double *ret_moved)
{
    uint64_t bits = MAX(ech_layout_element_bits(layout), 1u), minor = layout->rank > 0 ? layout->dims[layout->order[0]] : 1;
    const EchTile *tile = layout->n_tiles > 0 && layout->tiles[0].rank > 0 ? &layout->tiles[0] : NULL;
    EchHbmPattern pattern = {.kind = kind, .run = MAX(ech_bytes_mul(minor, bits) / 8, 1), .reads = reads};
    double moved = 1;
    if (tile == NULL) {
        if (kind == ECH_HBM_STRIDED) {
            pattern.stride = MAX(pattern.run, granule);
            pattern.run = MAX(granule, 1);
        }
    } else {
        uint64_t lanes = (uint64_t)MAX(tile->dims[tile->rank - 1], 1), rows = tile->rank > 1 ? (uint64_t)MAX(tile->dims[tile->rank - 2], 1) : 1;
        const EchTile *packing = layout->n_tiles > 1 ? &layout->tiles[layout->n_tiles - 1] : NULL;
        if (kind == ECH_HBM_STRIDED) {
            pattern.run = MAX(ech_bytes_mul(ech_bytes_mul(lanes, rows), bits) / 8, 1);
            pattern.stride = ech_bytes_mul(pattern.run, ech_div_up(minor, lanes));
        } else {
            if (packing != NULL && packing->rank == 2 && packing->dims[1] == 1 && packing->dims[0] > 1 && rows > 1)
                moved = (double)packing->dims[0];
            pattern.run = MAX((uint64_t)((double)(ech_bytes_mul(MIN(minor, lanes), bits) / 8) * moved), 1);
        }
    }
    *ret_moved = kind == ECH_HBM_RANDOM ? moved : 1;
    return pattern;
}
