/** @file step.h
 * The steps of a captured program, as its marks tell them (ProfilerStep#3, "step 3", Optimizer.step, XLA's programs, a model's calls), and a part of a trace
 * alone.
 */
#pragma once
#include "sim/trace/ranges.h"
#include "sim/trace/trace.h"

#include <string.h>

/** The operations [mark, end), which begin with a mark and have kernels or collectives in them. */
typedef struct {
    EchId mark;
    EchId end;
    EchId next;    /**< The mark of the same kind behind it, or ECH_NONE. */
    EchId last;    /**< The last of its kernels and collectives, or of its copies where it has none. */
    bool others;   /**< It is told by an optimizer, and others step in it, too. */
    uint64_t rows; /**< Of a batch, as ech_rows_usual() has it of the modules' calls in it; 0: all calls of the trace have as many, or none is told. */
} EchTraceStep;
/** A mark where an outermost module is called, with how many rows of a batch it is given: "given 512 rows". Of traces whose calls are not all given as many. */
#define ECH_MARK_GIVEN "given %" G_GUINT64_FORMAT " rows"
/** A queue of marks: each is one run of a compiled program, called after it. */
#define ECH_QUEUE_OF_PROGRAMS "XLA Modules"
/** A property of the trace: how many programs the file that it was read from holds beside it. */
#define ECH_PROGRAMS_BESIDE "programs"

/** In order. An optimizer's step ends a step of the program: from one to the next is a whole one, and what follows the last is none; of several optimizers
 * (a GAN's), told apart by what they write, from one of them to its next, with steps of all others in between. Where no marks are called so, the runs of the
 * program that takes longest are steps, if it ran twice and for half the time of all; else, where no optimizer steps, the calls of the outermost module, or
 * function that torch.compile compiled, in which most kernels run (a prompt, a token, a step of diffusion), the last up to the call of one that followed none
 * of those before; without modules, too, from one backward pass to the next. NULL and 0 where no two marks of a kind tell steps. g_free. */
EchTraceStep *ech_trace_steps(const EchTrace *trace, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** Which of @steps[n], 1 at least, stands for all: the last, or where its batch has other rows than those of half of them have, as the last batch of a data set
 * does, the last of these. */
size_t ech_trace_usual_step(const EchTraceStep *steps, size_t n);
/** Of numbers of rows and how often each is given (GUINT_TO_POINTER), what is given most often, of as many the most: the last batch of all may have fewer. 0:
 * none. */
uint64_t ech_rows_usual(GHashTable *times);
/** Counts @rows once more there. */
void ech_rows_count(GHashTable *times, uint64_t rows);
/** Of the compiled programs that ran on the first device, by ECH_QUEUE_OF_PROGRAMS, the one that took longest in all: its name without its number ("jit_step"
 * of "jit_step(6643)"), owned by the caller; NULL: none. */
char *ech_trace_main_program(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
/** Whether a mark's name is an optimizer's step: a step goes from it to the next. */
static inline bool ech_mark_is_optimizer(const char *name)
{
    return g_str_has_prefix(name, "Optimizer.step");
}
/** Whether it is a call of a PyTorch module outside of all others, or of a function that torch.compile compiled. */
static inline bool ech_mark_is_module_call(const char *name)
{
    return g_str_has_prefix(name, ECH_RANGE_MODULE) || g_str_has_prefix(name, ECH_MARK_COMPILED);
}
/** Whether it is where a backward pass begins: a step goes from it to the next. */
static inline bool ech_mark_is_backward(const char *name)
{
    return strcmp(name, ECH_MARK_BACKWARD) == 0;
}
/** How far a step goes that begins with the mark @name, behind that name. */
static inline const char *ech_step_until(const char *name, bool others)
{
    if (ech_mark_is_module_call(name))
        return " to its next call";
    if (ech_mark_is_backward(name))
        return " to the next";
    return !ech_mark_is_optimizer(name) ? "" : others ? " to the next of that optimizer" : " to the next";
}

/** More optimizers than anybody steps by. */
#define ECH_MAX_OPTIMIZERS 64
/** Of optimizers' steps in order, @of[n], each below ECH_MAX_OPTIMIZERS, the optimizer whose steps end those of the program: between any two of its own stand
 * some of each other one that steps twice at all; the most of these, and the first. UINT32_MAX: less than two optimizers step twice, or none has all others
 * in between. */
uint32_t ech_steps_of_program(const uint32_t *of, size_t n);

/** The operations [begin, end) alone: what is alive before them is resident, what they wait for of earlier ones has been. Strings, memories, queues and buffers
 * keep their numbers; buffers that are neither alive then nor allocated later have no bytes. ECH_ERROR_UNSUPPORTED where a loop is cut. */
EchTrace *ech_trace_part(const EchTrace *trace, EchId begin, EchId end, GError **error) G_GNUC_WARN_UNUSED_RESULT;
