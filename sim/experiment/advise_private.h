/** @file advise_private.h
 * What the files of advice share: advise_measures.c has the measures, with what a program says for each, advise_base.c runs the program as it is and learns
 * what it is, advise.c tries and ranks, advise_text.c tells.
 */
#pragma once
#include "sim/experiment/advise.h"
#include "sim/experiment/experiment_private.h"

/* Memory that nobody runs short of. */
#define ROOMY "64TiB"

/* What saves less than one part in so many of what is needed is not said to save any. */
enum { WORTH = 100 };

/* From which share on of its products that a program makes again its checkpoints have no policy, or one that keeps no product. */
#define MOST_AGAIN 0.6

/* Names of passes and measures, and how a program says of some what it does. */
#define PASS_DONATE "donate"
#define PASS_SLICE "slice"
#define PASS_SCHEDULE "schedule" /* of what is no program of XLA's it is this: */
#define PASS_PREFETCH "prefetch"
#define PASS_SHARD "shard"
#define PASS_REMAT "remat"
#define PARTS_IN_TURN "parts_in_turn"
#define WEIGHTS_AHEAD "weights_ahead"
#define REMAT_CHEAP "remat_cheap"
#define REMAT_BETWEEN "remat_between"
#define OFFLOADED_PRODUCTS "offload_products"
#define BLOCKS "remat:modules=" /* after it come the modules that a program repeats */
/* With how many: as many as a batch has rows. */
#define ROW_BY_ROW "batch:parts="
#define GROWING "pytorch:expandable_segments:True"
#define EXPANDABLE "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
#define JAX_CHECKPOINT "jax.checkpoint(block), around each block of layers; of a jax.lax.scan over layers around its body, with prevent_cse=False"
/* With the name of the argument after it, where it is known. */
#define DONATE "jax.jit(step, donate_argnames="
#define STATE "optimizer state (weights come back whole)"
#define TORCH_PARTS                                                                                                                                            \
    "torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False) for parts of the model; what torch.compile compiles: "                                    \
    "torch._functorch.config.activation_memory_budget below 1"

/* When a measure is tried. */
typedef enum {
    ALWAYS,
    FRAGMENTED, /* where what is live would have room */
    LAST,       /* where nothing that was tried by then is enough, or only what is dear */
    SHORT,      /* where it does not fit: with no more than that takes */
    MORE,       /* where it does not fit, and one device runs it: on several */
    PAGED       /* where it does not fit an NVIDIA GPU: slow, but no change to the program */
} When;

typedef struct {
    const char *name, *label;
    const char *passes[5];           /* NULL-terminated; after BLOCKS come the modules that a program repeats; place is for TPUs alone */
    size_t n_goals;                  /* of its first passes, slice aside, how many take memory= */
    const char *allocator;           /* or NULL */
    const char *in_jax, *in_pytorch; /* NULL: nothing that such a program could do; "": only of what is no program of XLA's; */
    const char *in_inference;        /* and where PyTorch has no backward pass to run */
    When when;
} Measure;

/* A measure that is being tried. */
typedef struct {
    const Measure *measure; /* NULL: another device, or */
    const char *trace;      /* another capture; else NULL */
    EchAdviceRow row;
    size_t tried; /* goals */
    size_t last;  /* of them, the one that was tried last */
    bool pieces;  /* What was free then was in pieces. */
    bool roomy;   /* Its numbers are of a run in ROOMY. */
    bool done;
} Trial;

typedef struct {
    EchExperiment *experiment;
    EchCase *base;      /* As it is. */
    const char *memory; /* what it may take; NULL: the device's */
    EchAdvice *advice;
    GArray *trials;         /* Trial */
    bool pytorch, xla, tpu; /* what was captured; xla, and for a TPU */
    bool tensorflow;        /* xla, for TensorFlow */
    bool by_hand;           /* No framework asked for it: a program in CUDA C++. */
    bool serves;            /* There is a server's KV cache. */
    bool trains;            /* PyTorch has a backward pass to run, or an optimizer; */
    bool twice;             /* and differentiates a gradient, too; */
    bool lists;             /* and its optimizer takes all parameters at once. */
    bool attends;           /* Much of what it holds is attention's scores. */
    bool loops;             /* A program has some. */
    bool logits;            /* A compiled program has those of a loss. */
    bool averages;          /* There are copies of weights that it brings up to date. */
    bool several;           /* It runs on several devices. */
    bool in_turn;           /* Devices of one process, one after the other. */
    guint step;             /* Of its whole steps the one that times are of, from 0. */
    bool before_last;       /* That is the last but one. */
    bool alone;             /* A step alone is asked for: times are those of the run. */
    bool remade;            /* XLA: the compiler made arrays again by itself. */
    double again;           /* XLA: ech_program_products_again() */
    bool stacks;            /* XLA: arguments are stacks that can be updated a layer at a time. */
    bool donates;           /* Donation saves some and is not enough: what is tried then is tried with it. */
    unsigned jobs;
    const volatile sig_atomic_t *stop;
    EchSweepProgress progress;
    void *data;
} Advise;

/* ---- advise_measures.c ---- */

/** In the order in which a person would try them; ech_advise_measures[ech_advise_n_measures]. */
extern const Measure ech_advise_measures[];
extern const size_t ech_advise_n_measures;
/** What the measure says to such a program; NULL where it is none for it. */
const char *ech_advise_code_for(const Advise *a, const Measure *m);
/** Whether stacks of layers are updated a layer at a time. */
bool ech_advise_is_by_layer(const Measure *m);
/** Whether what devices hold alike is split between them: that is known of donated arguments alone. */
bool ech_advise_is_sharded(const Measure *m);
/** Whether a measure, by name, is a policy of jax.checkpoint that keeps products on the device. */
bool ech_advise_is_policy(const char *measure);
/** Whether a pass is one that places, which is for TPUs alone. */
bool ech_advise_is_place(const char *pass);

/* ---- advise_base.c ---- */

/** The run as it is, and what it would need where it does not fit: all that Advise and EchAdvice say of the program. *ret is one of *ret_results, the fullest
 * device's; those are the caller's. */
bool ech_advise_run_base(Advise *a, GPtrArray **ret_results, EchResult **ret, GError **error);
/** Measures of PyTorch's that change kernels and types, which no pass tells of one capture, as far as the program has not got them; NULL: none. */
char *ech_advise_measures_to_capture(const Advise *a, const EchTrace *trace, const char *const *also);

/* ---- advise.c ---- */

EchCase *ech_advise_vary_memory(const EchCase *from, const char *bytes, GError **error);
/** Of a run's JSON: its steps, or NULL; what it needs and takes. */
JsonArray *ech_advise_steps_of(JsonObject *run);
EchAdviceRun ech_advise_run_of(const Advise *a, JsonObject *run);

/** How rows are grouped, best first. */
typedef enum { FITS, MAY_FIT, DEVICES, SEVERAL, PAGES, NOT_ENOUGH, NOTHING, ERROR } EchAdviceRank;
EchAdviceRank ech_advice_rank(const EchAdviceRow *row);
/** Why a measure that does something is of no use for memory. */
#define NEEDS_NO_LESS "no less is needed"
