/** @file lower.h
 * What the two halves of lowering share: lower_buffers.c makes the trace's buffers, lower.c its ops. Short type names, because nothing else includes it.
 */
#pragma once
#include "models/device/device.h"
#include "models/kernel/memo.h"
#include "sim/program/price_stationary.h"
#include "sim/program/private.h"

typedef struct {
    EchId id;                /* trace buffer, or ECH_NONE */
    EchId home;              /* while instruction it belongs to, ECH_NONE for the whole program */
    int64_t first, last;     /* home-level span in the flat schedule */
    EchId first_at, last_at; /* home-level instructions */
    EchId merged;            /* resident buffer whose place this one lies in, or ECH_NONE */
    EchBytes bytes;
    uint64_t offset;
    bool wanted, resident, kept; /* kept: not freed (outputs) */
} Place;

typedef struct {
    const EchProgram *p;
    const EchDevice *device;
    EchLowerOptions options;
    EchDiag *diag;
    EchTraceBuilder *b;
    Place *places;         /* places[p->n_buffers] */
    GArray **born, **dies; /* per instruction: EchValueBuffer ids allocated before it and freed after it, or NULL */
    GArray **homed;        /* per loop: EchValueBuffer ids made once per iteration, or NULL */
    EchIntegers *integers; /* that decide which branches are taken */
    bool *untaken;         /* per computation: in a branch of a conditional that is not taken */
    uint64_t *weights;     /* per computation: what decides between branches that nothing else does; 0: not asked for yet */
    bool *hidden;          /* per computation: run by an instruction that is lowered as one op, or not at all */
    EchId *started;        /* per instruction: the op that a done waits for, or ECH_NONE */
    EchBytes *operand_bytes;
    EchId *shape_texts; /* per shape: its text in the trace, or ECH_NONE while nothing asked for it */
    uint32_t *replicas; /* per value: as ech_program_replicas() */
    EchId *handed;      /* per value buffer: the one that took its place at the instruction being lowered, or ECH_NONE */
    GArray *pending;    /* Pending */
    GHashTable *queues; /* name -> queue id + 1 */
    EchId core;
    EchId last_core;                       /* last op on the core's queue in this body, or ECH_NONE */
    uint64_t clock;                        /* core clock, Hz; 0 unknown */
    uint32_t sms;                          /* multiprocessors of the GPU; 0: no GPU's program */
    const EchKernelModel *inside;          /* tells what kernels spend their time on; NULL: nothing does */
    const EchKernelModel *model;           /* prices kernels; NULL: the compiler's estimates stand */
    const EchKernelModel *own_model;       /* how the compiler priced them, on the chip it compiled for */
    EchKernelMemo *memo;                   /* what they were priced at before */
    const EchStationaryPrices *stationary; /* of every kernel, on a chip whose weights stay in the array; else NULL */
    bool in_graph;                         /* inside the body of a loop that XLA makes a CUDA graph of */
    unsigned remarks;
    unsigned opaque;  /* kernels of the program's own (Pallas) whose work nothing tells, ... */
    unsigned assumed; /* kernels whose branches hang on data that is not known, ... */
    EchId first_assumed;
    unsigned by_device; /* kernels whose work hangs on the number of the device, ... */
    EchId first_by_device;
    EchId first_opaque;  /* ...the first of them */
    unsigned library;    /* calls of a TPU's own library that are counted by their bytes alone, ... */
    EchId first_library; /* ...the first of them */
    unsigned repeats;    /* > 0 inside a computation that was lowered before */
    size_t repeated;     /* what was lowered that way, in instructions and their arrays */
} Lowerer;

/** Makes every buffer of the trace; fills places, born, dies, homed, untaken. hidden must be known. */
void ech_lower_buffers(Lowerer *l);
/** The operation's name in the program's source, and the source's frames behind it, one a line; the first line is empty where only frames are known. */
EchId ech_lower_stack(Lowerer *l, const EchInstruction *i);
/** The trace's name for a memory space. Borrowed. */
const char *ech_lower_memory_name(const Lowerer *l, int32_t space);
/** Of a conditional the branch that runs, where constants and arguments tell (@ret_known, may be NULL); else the one that is taken to: the one with the most
 * work, loops as often as they run, and instructions. */
uint32_t ech_lower_taken_branch(const Lowerer *l, EchId conditional, bool *ret_known);
/** The trace's buffer of a value's position, or ECH_NONE. */
EchId ech_lower_buffer_at(const Lowerer *l, EchId instruction, uint32_t position);
uint64_t ech_lower_buffer_bytes(const Lowerer *l, EchId buffer);
