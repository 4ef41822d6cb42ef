/* A kernel's PTX (PTX ISA 9.0), as far as it says which memory its threads touch: what addresses, branches and tensor cores hang on. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where shared and local memory, and parameters, lie among generic addresses. */
#define PTX_SHARED (UINT64_C(1) << 60)
#define PTX_LOCAL (UINT64_C(1) << 61)
#define PTX_PARAMETER (UINT64_C(1) << 62)
enum { PTX_PARAMETER_BITS = 20 }; /* of a place in a parameter; its ordinal is above */

typedef enum {
    PTX_ADD,
    PTX_SUB,
    PTX_MUL,
    PTX_MULHI,
    PTX_MULWIDE,
    PTX_MAD,
    PTX_MADHI,
    PTX_MADWIDE,
    PTX_DIV,
    PTX_REM,
    PTX_ABS,
    PTX_NEG,
    PTX_MIN,
    PTX_MAX,
    PTX_AND,
    PTX_OR,
    PTX_XOR,
    PTX_NOT,
    PTX_CNOT,
    PTX_LOP3,
    PTX_SHL,
    PTX_SHR,
    PTX_SHFL,
    PTX_SHFR,
    PTX_BFE,
    PTX_BFI,
    PTX_BFIND,
    PTX_CLZ,
    PTX_POPC,
    PTX_BREV,
    PTX_PRMT,
    PTX_SET,
    PTX_SELP,
    PTX_SLCT,
    PTX_CVT,
    PTX_TO_GENERIC,
    PTX_FROM_GENERIC,
    PTX_MOV,
    PTX_PACK,
    PTX_UNPACK,
    PTX_FMA,
    PTX_SQRT,
    PTX_RCP,
    PTX_LANES,
    PTX_VOTE,
    PTX_ACTIVE,
    PTX_REDUX,
    PTX_ELECT,
    PTX_ZERO, /* what hangs on no address, or is not known */
    PTX_LD,
    PTX_ST,
    PTX_ATOM,
    PTX_COPY /* from global to shared memory */,
    PTX_BRA,
    PTX_BRX,
    PTX_EXIT,
    PTX_BAR,
    PTX_MMA,
    PTX_TILE /* a warp's loads or stores of a tile, row by row */,
    PTX_TENSOR /* a copy of a box of a tensor, from or to shared memory */,
    PTX_MATRIX /* of shared memory, matrices of 8 rows of 16 bytes, each row by the address of one lane */,
    PTX_NOP
} PtxCode;

typedef enum { PTX_GENERIC, PTX_GLOBAL, PTX_IN_SHARED, PTX_IN_LOCAL, PTX_CONST, PTX_PARAM } PtxSpace;
typedef enum { PTX_EQ, PTX_NE, PTX_LT, PTX_LE, PTX_GT, PTX_GE, PTX_NAN, PTX_NUM } PtxRelation;
typedef enum { PTX_UP, PTX_DOWN, PTX_BFLY, PTX_IDX } PtxLanes;
typedef enum { PTX_ALL, PTX_ANY, PTX_UNI, PTX_BALLOT } PtxVote;

typedef struct {
    uint8_t bits; /* 1: a predicate */
    bool is_signed, is_float;
} PtxType;

/* A register; ~k: constant k. PTX_NOWHERE: none. */
typedef int32_t PtxOperand;
#define PTX_NOWHERE INT32_MAX

/* What an instruction comes to, and those left out since the one before. */
typedef struct {
    uint32_t flops, flops_64; /* of a thread, on 32 and on 64 bits */
    uint32_t slots, slots_64; /* of a thread: instructions that take the units for arithmetic on floating-point numbers of 32 and of 64 bits */
    uint32_t functions;       /* of a thread: special functions of 32 bits, each a result of the unit for them */
    uint32_t issued;          /* of a warp: instructions that machine code has, too */
    uint32_t barriers;        /* of a block */
    uint32_t cycles, trips;   /* Of the last one of a basic block: what all of it takes a warp, beside so many trips to global memory, one after the other. */
} PtxCounts;

typedef struct {
    uint8_t code;     /* PtxCode */
    uint8_t space;    /* PtxSpace */
    uint8_t relation; /* PtxRelation, PtxLanes, PtxVote, the PtxCode of an atom or redux, a tile's rows, how many matrices, or a tensor's dimensions */
    uint8_t combined; /* PTX_AND, PTX_OR, PTX_XOR: of a comparison with one more predicate; 0: none */
    PtxType type, from;
    bool not_guard, is_written, wraps; /* is_written: a copy or a tile that is written to global memory */
    bool negates;                      /* Of a set: its further predicate. */
    bool only_times;                   /* It is run for what it costs alone: what the kernel moves does not hang on it. */
    bool waits_for_copies;             /* to shared memory, for all of them */
    bool by_groups;                    /* MMA: of four warps together (wgmma). */
    bool at_once;                      /* An atomic on one place for all lanes, by the code: machine code sums these up first. */
    uint8_t joined;                    /* Loads of shared memory that are this one in machine code, itself included; 0: another does what it does. */
    uint32_t again;                    /* Such a load in a loop that machine code has not: its number from 1 on; else 0. */
    uint8_t n_results, n;              /* Of the operands the first are results. */
    PtxOperand guard;
    uint32_t first;  /* operand */
    int64_t offset;  /* Of an address, the last operand but the values of ST and ATOM: see ptx.c */
    int64_t apart;   /* COPY: offset of where it goes to in shared memory, the third operand; that is not there where a unit of its own copies. */
    uint32_t target; /* Instruction that a branch goes to; for BRX the first of the kernel's targets */
    uint32_t n_targets;
    uint32_t site;       /* Number among those that touch global memory */
    uint64_t multiplied; /* MMA: operations of a warp; TILE: bytes of a row */
    PtxCounts counts;
} PtxInstruction;

/* Whether it takes the time of the units that load and store. */
static inline bool ptx_is_access(const PtxInstruction *in)
{
    bool touches = in->code == PTX_LD || in->code == PTX_ST || in->code == PTX_ATOM || in->code == PTX_MATRIX;
    return touches && in->joined > 0 && in->space != PTX_PARAM && in->space != PTX_CONST;
}

/* Constants that hang on the block or the thread. */
typedef enum {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_NTID_X,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_LANEID,
    PTX_WARPID,
    PTX_NWARPID,
    PTX_LANEMASK_EQ,
    PTX_LANEMASK_LT,
    PTX_LANEMASK_LE,
    PTX_LANEMASK_GT,
    PTX_LANEMASK_GE,
    PTX_DYNAMIC_SHARED,
    PTX_IN_CLUSTER_X, /* of the block among those of its cluster */
    PTX_IN_CLUSTER_Y,
    PTX_IN_CLUSTER_Z,
    PTX_IN_CLUSTER,
    PTX_CLUSTER_X,
    PTX_CLUSTER_Y,
    PTX_CLUSTER_Z,
    PTX_CLUSTERS_X,
    PTX_CLUSTERS_Y,
    PTX_CLUSTERS_Z,
    PTX_SPECIALS /* where dynamic shared memory begins */
} PtxSpecial;

typedef struct {
    enum { PTX_NUMBER, PTX_SPECIAL, PTX_VARIABLE } kind;
    uint64_t value; /* PTX_VARIABLE: its number */
    uint64_t more;  /* bytes behind it */
} PtxConstant;

typedef struct PtxKernel PtxKernel;
struct PtxKernel {
    PtxInstruction *instructions;
    PtxOperand *operands;
    PtxConstant *constants;
    uint32_t *targets; /* of BRX */
    char **variables;  /* names of the module's variables that it takes addresses of */
    uint32_t n_instructions, n_operands, n_constants, n_targets, n_variables, n_registers, n_sites, n_again;
    unsigned cluster[3];            /* Blocks of a cluster, by the kernel itself; 0: it does not say. */
    uint64_t shared, local;         /* bytes: what it declares of each; dynamic shared memory begins behind */
    bool waits;                     /* It loads one place of global memory over and over until that changes: other blocks or kernels are to write it. */
    bool reads_shared, reads_local; /* Addresses or branches hang on what lies there. */
    char multiplied[8];             /* Type of what it multiplies: "bf16"; "" of none */
    unsigned n_told, n_untold;      /* launches that it was run for: for the caller's use */
};

/* The next word of PTX at @at: a name or directive with its dots, a number, or one sign. The text ends with a word of no bytes. */
const char *ptx_word(const char *at, size_t *ret_n);
bool ptx_is_word(const char *at, size_t n, const char *word);

/* Of a module's text. NULL where it has no such kernel, or that does what is not known here (textures, tensor maps, calls of functions). */
PtxKernel *ptx_kernel_new(const char *module, const char *name);
void ptx_kernel_free(PtxKernel *kernel);
/* Fills cycles, trips and joined of all instructions. For ptx_kernel_new. */
void ptx_paths(PtxKernel *kernel);

/* What the 128 bytes of a tensor's map (CUtensorMap) are here: of each dimension, from the one that lies together on, the size and that of a box, in elements,
 * and of all others how many bytes apart. */
typedef struct {
    uint64_t address, apart[4];
    uint32_t sizes[5], box[5];
    uint8_t dimensions, bits; /* bits of an element; 0: it is not known how it lies */
} PtxTensor;

/* What a kernel moves, found by running some of its blocks. */
typedef struct {
    uint64_t address, bytes;
    bool writes;
} PtxMove;
enum { PTX_MOVES = 512 };
typedef struct {
    PtxMove moves[PTX_MOVES];
    size_t n;
    uint64_t multiplied, flops, flops_64; /* operations of the whole grid: of tensor cores, and of lanes on 32 and on 64 bits */
    uint64_t slots, slots_64, functions;  /* of lanes: as in PtxCounts */
    bool by_groups;                       /* Tensor cores multiply for groups of four warps. */
    uint64_t issued;                      /* instructions of all its warps */
    uint64_t accesses,
        wavefronts;    /* of the units that load and store: instructions of all its warps, and lines or words of each bank that these let through one by one */
    uint64_t fetched;  /* bytes of sectors that each block touches, of all blocks */
    uint64_t barriers; /* that a warp of each block comes to, of all blocks */
    uint64_t atomics, crowded; /* clocks of the units of L2 that change sectors, by atomics or stores of parts: of all together, and of the one that has most;
                                  of all blocks */
    uint64_t cycles, trips;    /* of the warp that takes longest, in each block, and trips to L2 or beyond, one after the other; of all blocks */
} PtxMoves;

/* What the memory of a device holds: @bytes at @address, up to 8; false where that is not known. */
typedef bool (*PtxPeek)(uint64_t address, unsigned bytes, uint64_t *ret);
/* The array that holds @address: where that ends; 0: none does. */
typedef uint64_t (*PtxEnd)(uint64_t address);

typedef struct {
    unsigned grid[3], block[3];
    size_t dynamic_shared;
    uint64_t enough, most; /* Instructions of warps behind which no further block is begun, and behind which it is given up. */
    void *const *parameters;
    const uint32_t *parameter_bytes;
    size_t n_parameters;
    const uint64_t *variables; /* address of each of the kernel's; 0: not known */
    PtxPeek peek;
    PtxEnd end;
} PtxLaunch;

/* False where it takes too long to find out, or touches what is no array. */
bool ptx_moves(const PtxKernel *kernel, const PtxLaunch *launch, PtxMoves *ret);
