/* place: what lies in the on-chip memory, and when it is fetched, decided anew as the TPU compiler would, or better. */
#include "sim/pass/pass.h"

#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/program/donation.h"
#include "sim/program/place_rewrite.h"

#include <math.h>
#include <string.h>

typedef enum { COMPILER_AUTO, COMPILER_0_0_51, COMPILER_0_0_52 } Compiler;
typedef enum { POLICY_XLA, POLICY_FRAGMENTATION, POLICY_ON_DEMAND, POLICY_DEPTH, POLICY_BELADY, POLICY_NONE } Policy;

typedef struct {
    EchBytes vmem;
    EchRate bandwidth;
    uint64_t prefetches, evictions, cross_program, slices, repacks, loops, policy, depth, compiler;
    double min_overlap, overlap, max_overlap;
} PlaceOptions;

static const char *const policies[] = {"xla", "fragmentation", "on-demand", "depth", "belady", "none", NULL};

static const char *const compilers[] = {"auto", "libtpu-0.0.51", "libtpu-0.0.52", NULL};

static const EchParam place_params[] = {
    {"vmem", ECH_PARAM_BYTES, offsetof(PlaceOptions, vmem), "0", NULL, NULL, NULL,
     "on-chip memory given to values; 0: what the device has without its kernels' own windows"},
    {"policy", ECH_PARAM_ENUM, offsetof(PlaceOptions, policy), "xla", NULL, NULL, policies,
     "xla: as the compiler; fragmentation: gaps chosen to keep the largest one whole; on-demand: fetched as late as the time allows; depth: fetched a fixed "
     "number of kernels ahead; belady: shortest wait for the next use first; none: everything in HBM"},
    {"depth", ECH_PARAM_U64, offsetof(PlaceOptions, depth), "1", "1", "1000", NULL, "policy=depth: kernels ahead"},
    {"bandwidth", ECH_PARAM_RATE, offsetof(PlaceOptions, bandwidth), "0", NULL, NULL, NULL, "rate of a copy that decisions assume; 0: the device's"},
    {"prefetches", ECH_PARAM_U64, offsetof(PlaceOptions, prefetches), "40", NULL, NULL, NULL, "copies into the on-chip memory under way at a time, at most"},
    {"evictions", ECH_PARAM_U64, offsetof(PlaceOptions, evictions), "40", NULL, NULL, NULL,
     "copies out of it under way at a time: fewer than so many, as the compiler counts them"},
    {"cross_program", ECH_PARAM_U64, offsetof(PlaceOptions, cross_program), "1", NULL, "64", NULL,
     "parameters fetched before the program begins, at most; 0: none"},
    {"slices", ECH_PARAM_BOOL, offsetof(PlaceOptions, slices), "true", NULL, NULL, NULL,
     "large arrays are fetched in slices where the chip's compiler does so"},
    {"repacks", ECH_PARAM_U64, offsetof(PlaceOptions, repacks), "4", NULL, "1000", NULL, "times that everything is placed again when space runs out, at most"},
    {"loops", ECH_PARAM_BOOL, offsetof(PlaceOptions, loops), "true", NULL, NULL, NULL, "iterations of unrolled loops are decided together"},
    {"min_overlap", ECH_PARAM_RATIO, offsetof(PlaceOptions, min_overlap), "1", "0", "1000", NULL,
     "a fetch starts at least this many times its own length before its use"},
    {"overlap", ECH_PARAM_RATIO, offsetof(PlaceOptions, overlap), "2", "0", "1000", NULL, "best distance of a fetch from its use, in its own lengths"},
    {"max_overlap", ECH_PARAM_RATIO, offsetof(PlaceOptions, max_overlap), "8", "0", "1000", NULL, "longest distance, in lengths of a copy of the whole memory"},
    {"compiler", ECH_PARAM_ENUM, offsetof(PlaceOptions, compiler), "auto", NULL, NULL, compilers,
     "whose rules, where versions differ: on tpu7x 0.0.51 places kernels' scratch with the values, 0.0.52 cuts 32 MiB off for it beforehand as on other chips; "
     "auto: what the program's text tells, else 0.0.51"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/* Where the compiler places kernels' scratch with the values, its text says what every kernel asked for; the text of one that cuts scratch off beforehand does
 * not. */
static void set_compiler(const PlaceOptions *place, const EchProgram *p, const EchPlaceChip *compiled, EchPlaceChip *chip, EchDiag *diag)
{
    if (chip->scoped == 0 || place->compiler == COMPILER_0_0_51)
        return;
    bool asks = compiled == NULL || compiled->scoped == 0; /* another chip's text says nothing about this */
    for (size_t id = 0; place->compiler == COMPILER_AUTO && id < p->n_instructions && !asks; id++)
        asks = ech_program_asked_bytes(&p->instructions[id], (int32_t)chip->fast_space) > 0;
    if (place->compiler == COMPILER_AUTO && asks)
        return;
    g_autofree char *bytes = ech_format_bytes(chip->scoped);
    ech_diag_remark(diag, "place: %s for kernels' scratch is cut off beforehand, as libtpu 0.0.52 does%s", bytes,
                    place->compiler == COMPILER_AUTO ? ": no kernel of the program asks for its own" : "");
    chip->limit -= MIN(chip->scoped, chip->limit);
    chip->scoped = 0;
}

/* The chip as the cost analysis sees it: the compiler's table, with the device's own rates and sizes where they differ from what the table was made for. A
 * device that the table does not know (a user's own) is taken for the chip that the program was compiled for, if values may lie in its on-chip memory at all.
 */
static bool find_chip(const EchProgram *p, const EchDevice *device, EchPlaceChip *ret)
{
    const EchPlaceChip *known = device != NULL && device->name != NULL ? ech_place_chip(device->name) : NULL;
    if (known == NULL && p->chip != NULL) {
        known = ech_place_chip(p->chip);
        const EchMemory *fast = known != NULL && device != NULL ? ech_device_space(device, (int32_t)known->fast_space) : NULL;
        if (device != NULL && (fast == NULL || !fast->assignable))
            known = NULL;
    }
    if (known == NULL)
        return false;
    *ret = *known;
    const EchMemory *fast = device != NULL ? ech_device_space(device, (int32_t)known->fast_space) : NULL,
                    *hbm = device != NULL ? ech_device_memory(device, "hbm") : NULL;
    if (fast != NULL && fast->assignment_limit > 0)
        ret->limit = fast->assignment_limit;
    if (fast != NULL && fast->capacity > 0)
        ret->limit = MIN(ret->limit, fast->capacity > fast->kernel_reserved ? fast->capacity - fast->kernel_reserved : 0);
    if (hbm != NULL && hbm->read > 0) {
        double ratio = (double)hbm->read / ret->hbm_bytes_per_s;
        if (fabs(ratio - 1) > 1e-3) {
            ret->hbm_bytes_per_s = (double)hbm->read;
            ret->fast_ratio /= ratio;
        }
    }
    return true;
}

/* Where kernels' own windows leave nothing of the on-chip memory, nothing can lie there. */
static void say_full(const EchDevice *device, const EchPlaceChip *chip, EchDiag *diag)
{
    const EchMemory *fast = device != NULL ? ech_device_space(device, (int32_t)chip->fast_space) : NULL;
    if (fast == NULL || chip->limit > 0 || fast->kernel_reserved < fast->capacity)
        return;
    g_autofree char *has = ech_format_bytes(fast->capacity), *kept = ech_format_bytes(fast->kernel_reserved);
    ech_diag_remark(diag,
                    "place: nothing can lie in %s: the compiler keeps %s for kernels' own windows, and there are %s "
                    "(--set device.memories.%s.kernel_reserved=... says what windows take)",
                    fast->name, kept, has, fast->name);
}

static void set_options(const PlaceOptions *place, EchMsaOptions *o)
{
    if (place->vmem > 0)
        o->size = place->vmem;
    if (place->bandwidth > 0)
        o->copy_bytes_per_s = (double)place->bandwidth;
    o->max_prefetches = (int64_t)MIN(place->prefetches, INT32_MAX);
    o->max_evictions = (int64_t)MIN(place->evictions, INT32_MAX);
    o->max_cross_program = (uint32_t)place->cross_program;
    o->cross_program = place->cross_program > 0;
    if (!place->slices)
        o->max_slices = 0;
    o->max_repacks = (uint32_t)place->repacks;
    o->min_overlap = place->min_overlap;
    o->preferred_overlap = place->overlap;
    o->max_overlap = place->max_overlap;
    o->keep_largest_gap = place->policy == POLICY_FRAGMENTATION;
    o->on_demand = place->policy == POLICY_ON_DEMAND;
    o->depth = place->policy == POLICY_DEPTH ? (uint32_t)place->depth : 0;
    o->belady = place->policy == POLICY_BELADY;
}

static void say(EchDiag *diag, const char *who, const EchPlaceCounts *c)
{
    g_autofree char *kept = ech_format_bytes(c->kept_bytes), *in = ech_format_bytes(c->prefetched), *out = ech_format_bytes(c->evicted),
                    *before = ech_format_bytes(c->cross_program_bytes);
    ech_diag_remark(
        diag,
        "place: %s: %u array%s made on chip (%s), %u prefetch%s (%s, %u of them in slices), %u eviction%s (%s), %u fetched before the program begins (%s)", who,
        c->kept, c->kept == 1 ? "" : "s", kept, c->prefetches, c->prefetches == 1 ? "" : "es", in, c->sliced, c->evictions, c->evictions == 1 ? "" : "s", out,
        c->cross_program, before);
}

typedef struct {
    const char *why;
    uint32_t n;
    EchBytes bytes;
} Declined;

/* Reads of HBM that are left, by what stood in the way. */
static void say_declined(const EchMsaProblem *m, const EchMsaResult *result, EchDiag *diag)
{
    enum { TOO_BIG, NO_ROOM, NO_TIME, NO_COPIES, REFUSED, N };
    Declined declined[N] = {{.why = "larger than the on-chip memory given"},
                            {.why = "no room"},
                            {.why = "too soon after the value is there to hide a copy"},
                            {.why = "no bandwidth or no free copy"},
                            {.why = "need not or may not be on chip (inputs and outputs of the program in place, other cores, no gain)"}};
    for (uint32_t u = 0; u < m->n_uses; u++) {
        const EchMsaValue *value = &m->values[m->uses[u].value];
        if (result->use_fast[u] || m->steps[m->uses[u].step].kind == ECH_MSA_TRIVIAL || m->uses[u].reduction <= 0)
            continue;
        uint32_t why = result->use_why[u];
        int k = value->bytes > m->options.size    ? TOO_BIG
                : (why & ECH_MSA_WHY_SPACE) != 0  ? NO_ROOM
                : (why & ECH_MSA_WHY_COPIES) != 0 ? NO_COPIES
                : (why & ECH_MSA_WHY_TIME) != 0   ? NO_TIME
                                                  : REFUSED;
        declined[k].n++;
        declined[k].bytes = ech_bytes_add(declined[k].bytes, (EchBytes)MAX(m->uses[u].accessed, 0));
    }
    for (int k = 0; k < N; k++)
        if (declined[k].n > 0) {
            g_autofree char *bytes = ech_format_bytes(declined[k].bytes);
            ech_diag_remark(diag, "place: declined %u read%s that would be faster (%s): %s", declined[k].n, declined[k].n == 1 ? "" : "s", bytes,
                            declined[k].why);
        }
}

/* Without what the compiler placed in memory space @was. Where a fetch was the copy that an argument needs before it is updated, a copy takes its place. */
static EchProgram *strip(const EchProgram *in, int32_t was, EchDiag *diag, GError **error)
{
    g_autoptr(EchProgram) bare = ech_place_strip(in, was, diag, error);
    if (bare == NULL)
        return NULL;
    EchDonationChange change;
    EchProgram *kept = ech_program_keep_arguments(bare, &change, error);
    if (kept != NULL && change.copies > 0) {
        g_autofree char *bytes = ech_format_bytes(change.copy_bytes);
        ech_diag_remark(diag, "place: %u argument%s updated in place (%s) but not donated: copied first", change.copies, change.copies == 1 ? " is" : "s are",
                        bytes);
    }
    return kept;
}

static EchProgram *place_run(const void *options, const EchDevice *device, EchProgram *in, EchDiag *diag, GError **error)
{
    const PlaceOptions *place = options;
    EchPlaceChip chip;
    if (in->platform != ECH_PLATFORM_TPU) {
        ech_diag_remark(diag, "place: left the program as it is: a GPU's compiler manages no on-chip memory across kernels");
        return ech_program_ref(in);
    }
    if (!in->scheduled)
        ech_diag_remark(diag, "place: the program's schedule is echelon's, and so are its kernels: what a compiler places depends on its own");
    /* What lies on chip now lies where the chip that the program was compiled for has its fast memory. */
    const EchPlaceChip *compiled = in->chip != NULL ? ech_place_chip(in->chip) : NULL;
    int32_t was = compiled != NULL ? (int32_t)compiled->fast_space : ECH_SPACE_VECTOR;
    bool places = find_chip(in, device, &chip);
    if (places) {
        set_compiler(place, in, compiled, &chip, diag);
        say_full(device, &chip, diag);
    }
    int32_t fast = places ? (int32_t)chip.fast_space : was;
    const EchMemory *hbm = device != NULL ? ech_device_memory(device, "hbm") : NULL;
    EchPlaceCounts before = ech_place_count(in, was);
    bool empty = before.kept + before.prefetches + before.evictions + before.cross_program == 0;
    if (!places && empty) {
        ech_diag_remark(diag, "place: left the program as it is: the compiler of %s places nothing in an on-chip memory",
                        device != NULL ? device->name : in->chip);
        return ech_program_ref(in);
    }
    g_autoptr(EchProgram) bare = strip(in, was, diag, error);
    if (bare == NULL)
        return NULL;
    if (places && compiled != NULL && strcmp(chip.name, compiled->name) != 0) {
        const EchMemory *to = ech_device_space(device, (int32_t)chip.fast_space);
        ech_diag_remark(diag, "place: placed as the compiler of %s would, in its %s (S(%u)%s); kernels and layouts are still those compiled for %s",
                        device->name, to != NULL ? to->name : "on-chip memory", chip.fast_space,
                        chip.fast_space != compiled->fast_space ? ", another kind than before" : "", in->chip);
        g_autofree char *kernels = g_strdup(ech_program_kernels_for(in));
        if (!ech_program_set_chip(bare, device->name, error))
            return NULL;
        ech_program_set_kernels_for(bare, kernels);
    } else if (bare->chip == NULL && !ech_program_set_chip(bare, device != NULL ? device->name : chip.name, error))
        return NULL;
    if (!empty)
        say(diag, "the compiler had", &before);
    else
        ech_diag_remark(diag, "place: the compiler had placed nothing on chip");
    if (!places) {
        ech_diag_remark(diag, "place: took everything off the chip: the compiler of %s places nothing in an on-chip memory", device->name);
        return g_steal_pointer(&bare);
    }
    if (place->policy == POLICY_NONE) {
        ech_diag_remark(diag, "place: took everything off the chip: all values are in HBM");
        return g_steal_pointer(&bare);
    }
    g_autoptr(EchPlaceCosts) costs = ech_place_costs_new(bare, &chip);
    g_autoptr(EchPlaceProblem) problem = ech_place_problem_new(bare, costs, place->loops != 0, error);
    if (problem == NULL)
        return NULL;
    EchMsaProblem *m = &problem->flow->problem;
    set_options(place, &m->options);
    g_autoptr(EchMsaResult) result = ech_msa_run(m);
    g_autofree char *wrong = ech_msa_check(m, result);
    if (wrong != NULL) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: the placement is not legal: %s", in->name, wrong);
        return NULL;
    }
    EchProgram *out = ech_place_apply(bare, problem, result, fast, hbm != NULL ? hbm->assignment_limit : 0, diag, error);
    if (out == NULL)
        return NULL;
    EchPlaceCounts after = ech_place_count(out, fast);
    g_autofree char *given = ech_format_bytes(m->options.size), *peak = ech_format_bytes(result->peak);
    g_autofree char *who = g_strdup_printf("now, with %s (%s used at most, policy %s)", given, peak, policies[place->policy]);
    say(diag, who, &after);
    if (result->repacks > 0)
        ech_diag_remark(diag, "place: ran out of space %u time%s; placing everything again helped %u time%s", result->repacks, result->repacks == 1 ? "" : "s",
                        result->repacks_good, result->repacks_good == 1 ? "" : "s");
    say_declined(m, result, diag);
    return out;
}

const EchPassClass ech_pass_place = {.name = "place",
                                     .summary = "decide anew what lies in the on-chip memory and when it is fetched",
                                     .source = "XLA's memory-space assignment as libtpu 2026-10 runs it; the policies besides xla are ours",
                                     .params = place_params,
                                     .options_size = sizeof(PlaceOptions),
                                     .program = place_run};
