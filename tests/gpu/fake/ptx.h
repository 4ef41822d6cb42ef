/** @file ptx.h
 * A PTX interpreter for tests: runs the kernels that a GPU would run, thread by thread, over memory that the caller guards.
 *
 * It knows the instructions that our kernels are compiled to and no others: anything else is refused when the text is loaded, with its line. Threads run one
 * after the other, the last first and then from the first on, so that a run cut short by its fuel has seen both ends. What it leaves out: a tensor-core
 * product is counted and gives its addend, since it takes the registers of 32 threads; %globaltimer goes on by a microsecond every time it is read.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Ptx Ptx;

/** Where @bytes at @address are on the host, if they may be read or written there; NULL makes the run fail. */
typedef void *(*PtxMemory)(uint64_t address, unsigned bytes, bool writes, void *data);

typedef struct {
    uint64_t instructions;
    uint64_t read, written;          /**< Bytes of global memory; an atomic counts as both. */
    uint64_t fma32, fma64, ex2, mma; /**< Executed, of all threads; an mma of one warp counts 32 times. */
    uint64_t threads;                /**< That ran to their end. */
    bool complete;                   /**< All did. */
} PtxCounts;

/** NULL and a reason in @why (of @room bytes) where it holds what the interpreter does not know. */
Ptx *ptx_load(const char *text, char *why, size_t room);
void ptx_free(Ptx *ptx);
/** Sizes in bytes of the parameters of kernel @name; -1: there is none of that name. At most @most are written. */
int ptx_parameters(const Ptx *ptx, const char *name, unsigned *sizes, int most);
/** Most threads that a block of @name may have, by its bounds. */
unsigned ptx_most_threads(const Ptx *ptx, const char *name);
/** Runs @name with @blocks of @threads. @parameters as cuLaunchKernel takes them. @fuel: most instructions, 0 for no limit. False and @why: it touched memory
 * that it may not, or runs away (a thread of more than 2^32 instructions). */
bool ptx_run(const Ptx *ptx, const char *name, unsigned blocks, unsigned threads, void *const *parameters, uint64_t fuel, PtxMemory memory, void *data,
             PtxCounts *ret, char *why, size_t room);
