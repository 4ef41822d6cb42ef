/* Arithmetic: units alone, matrix products by dtype and shape. */
#include "models/kernel/measured.h"
#include "sim/experiment/calibrate_private.h"

#include <string.h>

#define PEAK_SECONDS 0.5
#define PAUSE_SECONDS 0.2
#define BREATH_SECONDS 0.04 /* Some times what a few products take after it */

typedef struct {
    EchCuFunction function;
    uint64_t rounds;
    bool wide; /* float64 factor; no factor at all where the kernel takes none */
    bool plain;
} BurnShape;

static bool issue_burn(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    BurnShape shape = *(const BurnShape *)data;
    float narrow = 0.999F;
    double wide = 0.999;
    void *with[] = {&shape.rounds, shape.wide ? (void *)&wide : (void *)&narrow, &b->sink}, *without[] = {&shape.rounds, &b->sink};
    return ech_bench_launch(b, shape.function, (unsigned)b->gpu.multiprocessors * 4, 256, stream, shape.plain ? without : with, error);
}

/* Rounds of @operations a thread and round that take about a millisecond at two operations a lane and clock. */
static bool time_burn(Bench *b, BurnShape shape, double operations, double lanes, EchFigure *ret, GError **error)
{
    double threads = (double)b->gpu.multiprocessors * 4 * 256;
    double peak = (double)MAX(b->gpu.multiprocessors, 1) * lanes * (double)(b->gpu.clock_khz > 0 ? b->gpu.clock_khz : 1500000) * 1e3;
    shape.rounds = (uint64_t)MAX(peak * 1e-3 / (threads * operations), 16);
    EchFigure time;
    if (!ech_bench_time_each(b, issue_burn, &shape, REPEATS, &time, error))
        return false;
    *ret = ech_calibration_rate(time, threads * operations * (double)shape.rounds, b->result->alone.median);
    return true;
}

bool ech_calibrate_arithmetic(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    return time_burn(b, (BurnShape){.function = b->fma}, 32, 256, &r->f32, error) &&
           time_burn(b, (BurnShape){.function = b->fma64, .wide = true}, 32, 128, &r->f64, error) &&
           time_burn(b, (BurnShape){.function = b->exponential, .plain = true}, 16, 16, &r->exponential, error) &&
           time_burn(b, (BurnShape){.function = b->mma, .plain = true}, 16384.0 / 32, 4096, &r->tensor, error);
}

static bool issue_gemm(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    const EchGemm *gemm = data;
    EchBytes inputs, output;
    ech_cuda_gemm_bytes(gemm, &inputs, &output);
    EchBytes at = ech_bench_next_place(b, MAX(inputs, output));
    return ech_cuda_gemm_issue(b->blas, b->handle, gemm, b->a + at, b->b + at, b->workspace, b->workspace_bytes, stream, error);
}

static const EchDtype matrix_dtypes[] = {ECH_DTYPE_BF16, ECH_DTYPE_F16, ECH_DTYPE_F32, ECH_DTYPE_F64, ECH_DTYPE_S8};

/* What runs over and over: a product, a smaller one behind some of them, and @rest nanoseconds after each in which next to nothing does. */
typedef struct {
    const EchGemm *gemm, *brief; /* NULL: none */
    double rest;
} Load;

typedef struct {
    EchFigure gemm, brief; /* Nanoseconds of one */
    double duty;           /* The larger products' part of the time */
} Loaded;

/* The GPU rests from power, not from clocks, which fall where nothing runs: one thread waits. */
static bool issue_rest(Bench *b, double ns, GError **error)
{
    uint64_t nanoseconds = (uint64_t)ns;
    void *parameters[] = {&nanoseconds};
    return ech_bench_launch(b, b->spin, 1, 1, b->streams[0], parameters, error);
}

static bool rest(Bench *b, double seconds, GError **error)
{
    return issue_rest(b, seconds * 1e9, error) && CU(b, stream_synchronize, "waiting for the GPU to rest", error, b->streams[0]);
}

static bool issue_load(Bench *b, const Load *load, GError **error)
{
    return issue_gemm(b, b->streams[0], load->gemm, error) && (!(load->rest > 0) || issue_rest(b, load->rest, error));
}

static bool note(Bench *b, EchCuEvent event, GError **error)
{
    return CU(b, event_record, "recording an event", error, event, b->streams[0]);
}

/* Clocks and power settle only under load: keeps the GPU busy for @seconds or 500 products, the first of which loads code and the second tells how many. */
static bool settle(Bench *b, const Load *load, double seconds, GError **error)
{
    double once = 0;
    if (!issue_load(b, load, error) || !note(b, b->events[0][0], error) || !issue_load(b, load, error) || !note(b, b->events[0][1], error) ||
        !CU(b, stream_synchronize, "waiting for a product", error, b->streams[0]) || !ech_bench_elapsed(b, b->events[0][0], b->events[0][1], &once, error))
        return false;
    unsigned before = (unsigned)CLAMP(seconds * 1e9 / MAX(once, 1), 1, 500);
    for (unsigned i = 0; i < before; i++) {
        if (!issue_load(b, load, error))
            return false;
    }
    return true;
}

/* The same once that is over. Clocks swing about what power leaves on average, a tenth up and down for a tenth of a second each on an H200: medians of products
 * over a fifth of a second and more. */
static bool time_loaded(Bench *b, const Load *load, Loaded *ret, GError **error)
{
    enum { ROUNDS = 30, EACH = 4 };
    double gemm[ROUNDS], brief[ROUNDS], all, sum = 0, event = b->result->event.median;
    EchCuEvent *events = b->events[0], *behind = b->events[1];
    if (!settle(b, load, PEAK_SECONDS, error))
        return false;
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned j = 1; j < EACH; j++) {
            if (!issue_load(b, load, error))
                return false;
        }
        if (!note(b, events[2 * i], error) || !issue_gemm(b, b->streams[0], load->gemm, error) || !note(b, events[2 * i + 1], error) ||
            (load->rest > 0 && !issue_rest(b, load->rest, error)) ||
            (load->brief && (!issue_gemm(b, b->streams[0], load->brief, error) || !note(b, behind[i], error))))
            return false;
    }
    ech_gpu_watch_look(b->watch, b->state);
    if (!CU(b, stream_synchronize, "waiting for products", error, b->streams[0]))
        return false;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (!ech_bench_elapsed(b, events[2 * i], events[2 * i + 1], &gemm[i], error) ||
            (load->brief && !ech_bench_elapsed(b, events[2 * i + 1], behind[i], &brief[i], error)))
            return false;
        gemm[i] = MAX(gemm[i] - event, 0);
        brief[i] = load->brief ? MAX(brief[i] - event, 0) : 0;
        sum += gemm[i];
    }
    if (!ech_bench_elapsed(b, events[0], events[2 * ROUNDS - 2], &all, error))
        return false;
    ret->gemm = ech_bench_figure(gemm, ROUNDS);
    ret->brief = ech_bench_figure(brief, ROUNDS);
    ret->duty = CLAMP(sum / ROUNDS * (ROUNDS - 1) * EACH / MAX(all, 1), 0, 1);
    return true;
}

static EchGemm square(EchDtype dtype, int edge, int inner)
{
    return (EchGemm){.dtype = (uint8_t)dtype, .known = true, .m = edge, .n = edge, .k = inner, .batch = 1, .times = 1};
}

/* Whether a product of these sides has room. */
static bool fits(const Bench *b, EchDtype dtype, int side)
{
    EchGemm gemm = square(dtype, side, side);
    EchBytes inputs, output;
    ech_cuda_gemm_bytes(&gemm, &inputs, &output);
    return MAX(inputs, output) <= b->half;
}

static EchFigure over(EchFigure part, EchFigure whole)
{
    return (EchFigure){.median = whole.median > 0 ? part.median / whole.median : 0, .spread = part.spread, .n = part.n};
}

/* The rate of a product once power and heat have settled. How much more the GPU does just after a pause is seen on products with an eighth of the operations,
 * which are over before it looks at its power: after a pause, and between the large ones. */
static bool time_settled(Bench *b, const EchGemm *gemm, EchFigure *ret_rate, EchFigure *ret_burst, GError **error)
{
    double launch = b->result->alone.median;
    if (ech_cuda_gemm_operations(gemm) <= ECH_CUDA_GEMM_HEATS) {
        EchFigure time;
        if (!ech_bench_time_each(b, issue_gemm, gemm, 7, &time, error))
            return false;
        *ret_rate = ech_calibration_gemm_rate(time, gemm->m, gemm->k, launch);
        return true;
    }
    const EchGemm brief = square((EchDtype)gemm->dtype, (gemm->m + 1) / 2 - gemm->m % 2, (gemm->k + 1) / 2 - gemm->k % 2);
    EchFigure fresh;
    Loaded loaded;
    /* Once for the code, then after a pause. */
    if (!issue_gemm(b, b->streams[0], &brief, error) || !rest(b, PAUSE_SECONDS, error) || !ech_bench_time_each(b, issue_gemm, &brief, 5, &fresh, error) ||
        !time_loaded(b, &(Load){gemm, &brief, 0}, &loaded, error))
        return false;
    *ret_rate = ech_calibration_gemm_rate(loaded.gemm, gemm->m, gemm->k, launch);
    *ret_burst = over(ech_calibration_gemm_rate(fresh, brief.m, brief.k, launch), ech_calibration_gemm_rate(loaded.brief, brief.m, brief.k, launch));
    return true;
}

/* What products do that run only so much of the time. The faster they are for it the longer they must rest: tried twice. */
static bool time_duties(Bench *b, const EchGemm *gemm, GError **error)
{
    double launch = b->result->alone.median;
    for (size_t i = 0; i < ECH_MEASURED_DUTIES; i++) {
        double time = (double)ech_cuda_gemm_operations(gemm) / b->result->matrix[0].median * 1e9;
        Loaded loaded;
        for (unsigned attempt = 0; attempt < 2; attempt++) {
            if (!time_loaded(b, &(Load){gemm, NULL, time * (1 / ech_measured_duties[i] - 1)}, &loaded, error))
                return false;
            time = loaded.gemm.median;
        }
        b->result->duty_rate[i] = over(ech_calibration_gemm_rate(loaded.gemm, gemm->m, gemm->k, launch), b->result->matrix[0]);
        b->result->duty[i] = loaded.duty;
    }
    return true;
}

/* Of @n, at most 8, things that end one behind the other, the first at ends[1]. */
static double median_time(const double *ends, unsigned n)
{
    double times[8];
    for (unsigned i = 0; i < n; i++)
        times[i] = ends[i + 1] - ends[i];
    return ech_bench_figure(times, n).median;
}

/* How long after a pause large products have lost half of their burst; what the whole row took where they have not. */
static bool time_heat(Bench *b, const EchGemm *gemm, EchFigure *ret, GError **error)
{
    enum { ROW = MOST_EVENTS - 1, FEW = 5 }; /* Some, since one may be late by itself */
    double burst = b->result->burst[0].median, launch = b->result->alone.median, ends[ROW + 1];
    double settled = (double)ech_cuda_gemm_operations(gemm) / b->result->matrix[0].median * 1e9, half = launch + settled * (1 + 1 / burst) / 2;
    if (burst < 1.02)
        return true;
    if (!rest(b, PAUSE_SECONDS, error) || !ech_bench_head_start(b, 2 * ROW, error) ||
        !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]))
        return false;
    for (unsigned i = 1; i <= ROW; i++) {
        if (!issue_gemm(b, b->streams[0], gemm, error) || !CU(b, event_record, "recording an event", error, b->events[0][i], b->streams[0]))
            return false;
    }
    if (!CU(b, stream_synchronize, "waiting for products", error, b->streams[0]))
        return false;
    ends[0] = 0;
    for (unsigned i = 1; i <= ROW; i++) {
        if (!ech_bench_elapsed(b, b->events[0][0], b->events[0][i], &ends[i], error))
            return false;
    }
    unsigned at = 0;
    while (at + FEW < ROW && median_time(ends + at, FEW) < half)
        at++;
    *ret = (EchFigure){.median = ech_measured_heat_constant(burst, ends[at + FEW / 2]), .n = 1};
    return true;
}

bool ech_calibrate_matrix(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    for (size_t i = 0; b->blas && i < G_N_ELEMENTS(matrix_dtypes); i++) {
        EchDtype dtype = matrix_dtypes[i];
        int edge = 128, most = dtype == ECH_DTYPE_F64 ? 4096 : 8192;
        while (edge < most && fits(b, dtype, edge + 128))
            edge += 128;
        const EchGemm gemm = square(dtype, edge, edge), odd = square(dtype, edge - 1, edge - 1);
        EchFigure rate;
        g_autoptr(GError) refused = NULL;
        /* A library without one of these types is no reason to have none. */
        if (!time_settled(b, &gemm, &r->matrix[i], &r->burst[i], &refused)) {
            ech_bench_note_failure(b, ech_dtype_name(dtype), refused);
            continue;
        }
        /* Those that have a grid of odd sides too. */
        if (dtype != ECH_DTYPE_BF16 && dtype != ECH_DTYPE_F32)
            continue;
        if (!time_settled(b, &odd, &rate, &r->burst_odd[i], error))
            return false;
        if (dtype != ECH_DTYPE_BF16)
            continue;
        r->unpadded = over(rate, r->matrix[i]);
        if (ech_cuda_gemm_operations(&gemm) > ECH_CUDA_GEMM_HEATS && (!time_heat(b, &gemm, &r->heat, error) || !time_duties(b, &gemm, error)))
            return false;
    }
    return true;
}

/* One of the grid, as if between two events: small ones in a row, where they take another time than between events, which hide what a row of them does not;
 * large ones each after a pause. */
static bool time_product(Bench *b, const EchGemm *gemm, uint64_t operations, EchFigure *ret, GError **error)
{
    enum { ROW = 10 };
    if (operations > ECH_CUDA_GEMM_HEATS)
        return issue_gemm(b, b->streams[0], gemm, error) && rest(b, BREATH_SECONDS, error) &&
               ech_bench_time_each(b, issue_gemm, gemm, operations > 5 * ECH_CUDA_GEMM_HEATS ? 5 : REPEATS, ret, error);
    if (!ech_bench_time_batch(b, issue_gemm, gemm, ROW, ret, error))
        return false;
    ret->median += b->result->alone.median - b->result->launch.median;
    return true;
}

/* Products over a grid of sides, aligned and one less: tiles, waves and short inner loops all tell there. Each just after a pause: measured one behind the
 * other for seconds, an H100 fell from 1980 to 1110 MHz, and products of one size had 0.82 or 1.0 of the peak by what had run before them. */
bool ech_calibrate_products(Bench *b, GError **error)
{
    static const struct {
        EchDtype dtype;
        bool odd;
    } kinds[ECH_CALIBRATE_PRODUCTS] = {{ECH_DTYPE_BF16, false}, {ECH_DTYPE_BF16, true}, {ECH_DTYPE_F32, false}, {ECH_DTYPE_F32, true}};
    for (size_t i = 0; b->blas && i < G_N_ELEMENTS(kinds); i++) {
        EchProductGrid *grid = &b->result->products[i];
        unsigned sides[ECH_CALIBRATE_SIDES];
        size_t n = 0;
        for (unsigned side = 128; side <= 8192 && fits(b, kinds[i].dtype, (int)side); side *= 2)
            sides[n++] = side - kinds[i].odd;
        for (size_t e = 0; e < n; e++) {
            for (size_t k = 0; k < n; k++) {
                const EchGemm gemm = square(kinds[i].dtype, (int)sides[e], (int)sides[k]);
                uint64_t operations = ech_cuda_gemm_operations(&gemm);
                if (!time_product(b, &gemm, operations, &grid->time[e * n + k], error))
                    return false;
            }
        }
        grid->dtype = kinds[i].dtype;
        grid->odd = kinds[i].odd;
        memcpy(grid->sides, sides, sizeof sides);
        grid->n = n;
    }
    return true;
}
