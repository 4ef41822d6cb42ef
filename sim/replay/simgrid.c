/* The SimGrid engine: a module that links none of our objects, loaded when first needed and run once per forked worker.
 *
 * A parallel execution under the ptask_L07 host model is a demand vector, and its bmf solver shares by bottleneck max fairness. Each resource is a
 * host; a minimum time is an amount on a private host of a pool, the meters. One simulated second is the typical time of a demand, and every host
 * has speed one, so that what the solver sees is near one: its tolerances are absolute, and amounts far above the speeds make it give up. */
#include "sim/replay/fluid.h"

#include "sim/base/compare.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/exec.h>
#include <simgrid/host.h>
#include <simgrid/version.h>
#if SIMGRID_VERSION >= 40000
#include <simgrid/activity_set.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPEED 1.0 /* Of every host, per simulated second. */

#if SIMGRID_VERSION >= 40000
typedef sg_activity_set_t Waiting;
#else
typedef sg_exec_t *Waiting;
#endif

typedef struct {
    sg_exec_t exec;
    uint32_t meter; /* Index in the pool, or UINT32_MAX. */
} Live;

typedef struct {
    const EchFluidResource *resources;
    sg_host_t *hosts, *meters;
    uint32_t n_resources, max_live;
    uint32_t *free_meters, n_free;
    Live *live;       /* By token. */
    uint32_t *tokens; /* Of live executions. */
    uint32_t n_live;
    uint32_t *instant; /* Tokens of demands of nothing. */
    uint32_t n_instant;
    Waiting waiting;
    sg_host_t *use;
    double *amounts;
    EchTime now;
    double unit; /* Picoseconds per simulated second. */
    EchFluidDrive drive;
    void *data;
} Engine;

static void *zeros(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);
    if (!memory)
        abort();
    return memory;
}

static void ended(Engine *e, uint32_t token)
{
    if (e->live[token].meter != UINT32_MAX)
        e->free_meters[e->n_free++] = e->live[token].meter;
    e->live[token].exec = NULL;
}

/* ---- waiting for one of many: C has sets since 3.35, and releases after 4.0 nothing else ---- */

#if SIMGRID_VERSION >= 40000
static Waiting waiting_new(uint32_t max_live)
{
    (void)max_live;
    return sg_activity_set_init();
}

static void waiting_free(Waiting waiting)
{
    sg_activity_set_delete(waiting);
}

static void waits_for(Engine *e, sg_exec_t exec)
{
    sg_activity_set_push(e->waiting, (sg_activity_t)exec);
}

static uint32_t wait_for_next(Engine *e, uint32_t *ret_tokens)
{
    uint32_t n = 0;
    for (sg_activity_t first = sg_activity_set_wait_any(e->waiting); first; first = sg_activity_set_test_any(e->waiting)) {
        uint32_t l = 0;
        while (l < e->n_live && (sg_activity_t)e->live[e->tokens[l]].exec != first)
            l++;
        if (l == e->n_live)
            abort();
        ret_tokens[n++] = e->tokens[l];
        ended(e, e->tokens[l]);
        e->n_live--;
        memmove(e->tokens + l, e->tokens + l + 1, (e->n_live - l) * sizeof *e->tokens);
        sg_activity_unref(first);
    }
    if (n == 0)
        abort();
    return n;
}
#else
static Waiting waiting_new(uint32_t max_live)
{
    return zeros(max_live, sizeof(sg_exec_t));
}

static void waiting_free(Waiting waiting)
{
    free(waiting);
}

static void waits_for(Engine *e, sg_exec_t exec)
{
    (void)e;
    (void)exec;
}

static uint32_t wait_for_next(Engine *e, uint32_t *ret_tokens)
{
    for (uint32_t l = 0; l < e->n_live; l++)
        e->waiting[l] = e->live[e->tokens[l]].exec;
    ssize_t first = sg_exec_wait_any(e->waiting, e->n_live);
    if (first < 0)
        abort();
    uint32_t n = 0, kept = 0;
    for (uint32_t l = 0; l < e->n_live; l++) {
        uint32_t token = e->tokens[l];
        if (l == (uint32_t)first || sg_exec_test(e->live[token].exec)) {
            ended(e, token);
            ret_tokens[n++] = token;
        } else {
            e->tokens[kept++] = token;
        }
    }
    e->n_live = kept;
    return n;
}
#endif

/* ---- the engine ---- */

static void engine_start(void *object, uint32_t token, const EchFluidPart *parts, uint32_t n_parts, EchTime min_time)
{
    Engine *e = object;
    int n = 0;
    for (uint32_t k = 0; k < n_parts; k++) {
        if (!(parts[k].amount > 0))
            continue;
        e->use[n] = e->hosts[parts[k].resource];
        e->amounts[n++] = parts[k].amount / e->resources[parts[k].resource].capacity * (1e12 / e->unit) * SPEED;
    }
    e->live[token].meter = UINT32_MAX;
    if (min_time > 0) {
        e->live[token].meter = e->free_meters[--e->n_free];
        e->use[n] = e->meters[e->live[token].meter];
        e->amounts[n++] = (double)min_time / e->unit * SPEED;
    }
    if (n == 0) {
        e->instant[e->n_instant++] = token;
        return;
    }
    e->live[token].exec = sg_actor_parallel_exec_init(n, e->use, e->amounts, NULL);
    sg_exec_start(e->live[token].exec);
    waits_for(e, e->live[token].exec);
    e->tokens[e->n_live++] = token;
}

static uint32_t engine_next(void *object, uint32_t *ret_tokens, EchTime *ret_now)
{
    Engine *e = object;
    uint32_t n = 0;
    if (e->n_instant > 0) {
        n = e->n_instant;
        memcpy(ret_tokens, e->instant, n * sizeof *ret_tokens);
        e->n_instant = 0;
    } else if (e->n_live > 0) {
        n = wait_for_next(e, ret_tokens);
        double ps = simgrid_get_clock() * e->unit;
        EchTime now = ps < (double)ECH_FLUID_END ? (EchTime)llrint(ps) : ECH_FLUID_END;
        if (now > e->now)
            e->now = now;
    } else {
        return 0;
    }
    qsort(ret_tokens, n, sizeof *ret_tokens, ech_compare_u32);
    *ret_now = e->now;
    return n;
}

static double engine_remaining(void *object, uint32_t token)
{
    Engine *e = object;
    return e->live[token].exec ? sg_exec_get_remaining_ratio(e->live[token].exec) : 0;
}

static double engine_clock(void *object, EchTime *ret_ps)
{
    const Engine *e = object;
    double ps = simgrid_get_clock() * e->unit;
    *ret_ps = (EchTime)floor(ps);
    return ps - floor(ps);
}

static const EchFluidClass engine_class = {
    .name = "simgrid",
    .start = engine_start,
    .next = engine_next,
    .remaining = engine_remaining,
    .clock = engine_clock,
};

/* Actors take no pointer that survives as such: there is one engine per process anyway. */
static Engine *the_engine;

static void actor_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    Engine *e = the_engine;
    e->drive(&engine_class, e, e->data);
    /* Stopped early: an actor must not leave work behind. */
    for (uint32_t l = 0; l < e->n_live; l++)
        sg_exec_cancel(e->live[e->tokens[l]].exec);
}

/* Platforms come from files only: a file that exists nowhere. */
static void load_platform(uint32_t n_resources, uint32_t n_meters)
{
    int fd = memfd_create("platform.xml", 0);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        abort();
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n<zone id=\"device\" "
          "routing=\"None\">\n",
          file);
    fprintf(file, "<host id=\"control\" speed=\"1f\"/>\n");
    for (uint32_t j = 0; j < n_resources; j++)
        fprintf(file, "<host id=\"r%u\" speed=\"%.0ff\"/>\n", j, SPEED);
    for (uint32_t j = 0; j < n_meters; j++)
        fprintf(file, "<host id=\"m%u\" speed=\"%.0ff\"/>\n", j, SPEED);
    fputs("</zone>\n</platform>\n", file);
    if (fflush(file) != 0)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    simgrid_load_platform(path);
    fclose(file);
}

static void module_run(const EchFluidResource *resources, uint32_t n_resources, uint32_t max_live, EchTime unit, EchFluidDrive drive, void *data)
{
    static const int signals[] = {SIGINT, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM};
    struct sigaction before[sizeof signals / sizeof *signals];
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], NULL, &before[i]);
    char name[] = "echelon", model[] = "--cfg=host/model:ptask_L07", solver[] = "--cfg=host/solver:bmf", precision[] = "--cfg=bmf/precision:1e-9",
         iterations[] = "--cfg=bmf/max-iterations:100000", log[] = "--log=root.thresh:critical";
    char *argv[] = {name, model, solver, precision, iterations, log, NULL};
    int argc = 6;
    simgrid_init(&argc, argv);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &before[i], NULL);

    load_platform(n_resources, max_live);
    Engine engine = {
        .resources = resources,
        .n_resources = n_resources,
        .max_live = max_live,
        .hosts = zeros(n_resources, sizeof(sg_host_t)),
        .meters = zeros(max_live, sizeof(sg_host_t)),
        .free_meters = zeros(max_live, sizeof(uint32_t)),
        .live = zeros(max_live, sizeof(Live)),
        .tokens = zeros(max_live, sizeof(uint32_t)),
        .instant = zeros(max_live, sizeof(uint32_t)),
        .waiting = waiting_new(max_live),
        .use = zeros(n_resources + 1, sizeof(sg_host_t)),
        .amounts = zeros(n_resources + 1, sizeof(double)),
        .unit = (double)unit,
        .drive = drive,
        .data = data,
    };
    char host[32];
    for (uint32_t j = 0; j < n_resources; j++) {
        snprintf(host, sizeof host, "r%u", j);
        engine.hosts[j] = sg_host_by_name(host);
    }
    for (uint32_t j = 0; j < max_live; j++) {
        snprintf(host, sizeof host, "m%u", j);
        engine.meters[j] = sg_host_by_name(host);
        engine.free_meters[engine.n_free++] = max_live - 1 - j;
    }
    the_engine = &engine;
    sg_actor_create("replay", sg_host_by_name("control"), actor_main, 0, NULL);
    simgrid_run();
    the_engine = NULL;
    free(engine.hosts);
    free(engine.meters);
    free(engine.free_meters);
    free(engine.live);
    free(engine.tokens);
    free(engine.instant);
    waiting_free(engine.waiting);
    free(engine.use);
    free(engine.amounts);
}

extern const EchFluidModule ech_fluid_module;
const EchFluidModule ech_fluid_module = {
    .abi = ECH_FLUID_MODULE_ABI,
    .name = "simgrid",
    .version = SIMGRID_VERSION_STRING,
    .run = module_run,
};
