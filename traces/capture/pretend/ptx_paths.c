/* What each basic block takes a warp at least, by what hangs on what in it, and which loads of shared memory and which atomics are one in machine code. All
 * are of the code alone, found before what only makes values is left out.
 *
 * Within a block an instruction begins when what it uses is there, in whatever order they stand (ptxas puts them in a good one), and a block ends when all that
 * it made is there: what is fetched in one block for a later one is waited for in the first. So loops that are unrolled or fetch ahead hide as much as their
 * own body does. */
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

/* Cycles from an instruction to one that uses what it made. Arithmetic on 32 bits: arXiv 2208.11174 (A100) and 1804.06826 (V100). Loads of shared memory:
 * 2402.13499 (29 to 30: RTX 4090, A100, H100). */
enum { ARITHMETIC = 4, SHARED = 29, MOST_JOINED = 4, JOINED_BYTES = 16, JOINED_WITHIN = 1024 /* instructions */ };

static bool is_of_array(const PtxInstruction *in)
{
    return in->space == PTX_GLOBAL || in->space == PTX_GENERIC;
}

/* @trip: cycles of a load of global memory. */
static uint32_t latency_of(const PtxInstruction *in, uint32_t trip)
{
    switch (in->code) {
    case PTX_LD: return in->space == PTX_IN_SHARED || in->space == PTX_IN_LOCAL ? SHARED : is_of_array(in) ? trip : 0;
    case PTX_ATOM:
    case PTX_TENSOR:
    case PTX_COPY: return is_of_array(in) ? trip : SHARED;
    case PTX_TILE: return in->is_written ? 0 : is_of_array(in) ? trip : SHARED;
    case PTX_MATRIX:
    case PTX_LANES: return SHARED; /* by the same unit */
    default: return in->counts.issued > 0 ? ARITHMETIC : 0;
    }
}

/* The longest path through instructions [@first, @end); @ready: of each register, 0 before and after. */
static uint32_t longest_path(const PtxKernel *k, uint32_t first, uint32_t end, uint32_t trip, uint32_t *ready)
{
    uint32_t fence = 0, begun = 0, done = 0, copied = 0, issued = 0; /* issued: since the fence */
    for (uint32_t i = first; i < end; i++) {
        const PtxInstruction *in = &k->instructions[i];
        const PtxOperand *operands = in->n > 0 ? k->operands + in->first : NULL;
        uint32_t start = in->code == PTX_BAR && begun > fence ? begun : fence, latency = latency_of(in, trip);
        for (size_t o = in->n_results; o < in->n; o++)
            if (operands[o] >= 0 && operands[o] != PTX_NOWHERE && ready[operands[o]] > start)
                start = ready[operands[o]];
        if (in->guard >= 0 && in->guard != PTX_NOWHERE && ready[in->guard] > start)
            start = ready[in->guard];
        if (in->waits_for_copies && copied > start)
            start = copied;
        uint32_t made = start + latency;
        for (size_t o = 0; o < in->n_results; o++)
            if (operands[o] >= 0 && operands[o] != PTX_NOWHERE)
                ready[operands[o]] = made;
        if (in->code == PTX_BAR || in->waits_for_copies) {
            fence = start > fence + issued ? start : fence + issued;
            issued = 0;
        }
        if (in->code == PTX_COPY || in->code == PTX_TENSOR)
            copied = made > copied ? made : copied;
        else if (in->n_results > 0 && made > done)
            done = made;
        begun = start > begun ? start : begun;
        issued += in->counts.issued;
    }
    for (uint32_t i = first; i < end; i++)
        for (size_t o = 0; o < k->instructions[i].n_results; o++) {
            PtxOperand one = k->operands[k->instructions[i].first + o];
            if (one >= 0 && one != PTX_NOWHERE)
                ready[one] = 0;
        }
    done = begun > done ? begun : done;
    return fence + issued > done ? fence + issued : done;
}

/* Where the instruction's address is counted from, and how far from there. */
static void split_address(const PtxKernel *k, const PtxInstruction *in, uint64_t *ret_base, uint64_t *ret_offset)
{
    PtxOperand base = k->operands[in->first + in->n_results];
    const PtxConstant *constant = base < 0 ? &k->constants[~base] : NULL;
    *ret_base = !constant ? (uint64_t)base : UINT64_C(1) << 32 | (uint64_t)constant->kind;
    *ret_offset = (uint64_t)in->offset + (constant ? constant->value + constant->more : 0);
}

static bool may_join(const PtxInstruction *in)
{
    return in->code == PTX_LD && in->space == PTX_IN_SHARED && in->n_results == 1 && in->n == 2 && in->type.bits >= 16 && in->joined == 1;
}

/* Loads from @i on, before shared memory is written, of one aligned piece of @elements, as ptxas joins them where it knows the address to be a multiple of the
 * piece: of CUDA 13.0 in 30 kernels of matrix products (f16, f32, f64) for compute capability 8.6. */
static void join_loads(PtxKernel *k, uint32_t i, uint32_t end, uint32_t elements)
{
    PtxInstruction *first = &k->instructions[i], *found[MOST_JOINED] = {NULL};
    uint64_t base, offset, each = first->type.bits / 8u, whole = each * elements;
    split_address(k, first, &base, &offset);
    uint64_t piece = offset / whole;
    uint32_t n = 0;
    end = end - i > JOINED_WITHIN ? i + JOINED_WITHIN : end;
    for (; i < end && n < elements; i++) {
        PtxInstruction *in = &k->instructions[i];
        bool writes = (in->code == PTX_ST || in->code == PTX_ATOM || in->code == PTX_TILE) && in->space != PTX_GLOBAL;
        uint64_t other_base, other;
        if (writes || in->code == PTX_BAR)
            break;
        if (!may_join(in) || in->type.bits != first->type.bits || in->guard != first->guard)
            continue;
        split_address(k, in, &other_base, &other);
        if (other_base == base && other / whole == piece && other % each == 0 && !found[other % whole / each]) {
            found[other % whole / each] = in;
            n++;
        }
    }
    if (n < elements)
        return;
    for (uint32_t at = 0; at < n; at++)
        found[at]->joined = 0;
    first->joined = (uint8_t)n;
}

/* Whether instructions [@first, @end) are a loop of their own that ends by a number which is known: ptxas unrolls it, and joins what it loads in one round
 * after another. */
static bool is_unrolled(const PtxKernel *k, uint32_t first, uint32_t end)
{
    const PtxInstruction *last = &k->instructions[end - 1];
    if (last->code != PTX_BRA || last->target != first || last->guard < 0 || last->guard == PTX_NOWHERE)
        return false;
    for (uint32_t i = end - 1; i-- > first;) {
        const PtxInstruction *in = &k->instructions[i];
        const PtxOperand *operands = in->n > 0 ? k->operands + in->first : NULL;
        if (in->code == PTX_SET && operands[0] == last->guard && in->n == in->n_results + 2)
            return operands[in->n_results + 1] < 0 && k->constants[~operands[in->n_results + 1]].kind == PTX_NUMBER;
    }
    return false;
}

/* Of shared memory, in a loop that is unrolled. */
static void number_loads(PtxKernel *k, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        PtxInstruction *in = &k->instructions[i];
        if (in->code == PTX_LD && in->space == PTX_IN_SHARED && in->n_results == 1 && in->joined > 0)
            in->again = ++k->n_again;
    }
}

/* Whether the branch at @i passes over a few instructions that machine code has with a predicate instead, so that what lies around them is one block. */
static bool is_predicated(const PtxKernel *k, uint32_t i)
{
    enum { FEW = 8 };
    const PtxInstruction *in = &k->instructions[i];
    if (in->code != PTX_BRA || in->guard == PTX_NOWHERE || in->target <= i || in->target - i > FEW + 1)
        return false;
    for (uint32_t at = i + 1; at < in->target; at++) {
        uint8_t code = k->instructions[at].code;
        if (code == PTX_BRA || code == PTX_BRX || code == PTX_BAR || code == PTX_EXIT)
            return false;
    }
    return true;
}

/* Instructions that begin a block: where a branch that machine code has goes, and what is behind one. Owned by the caller; NULL: no memory. */
static bool *find_blocks(const PtxKernel *k)
{
    bool *begins = calloc(k->n_instructions + 1u, sizeof *begins);
    for (uint32_t i = 0; begins && i < k->n_instructions; i++) {
        const PtxInstruction *in = &k->instructions[i];
        if (in->code == PTX_BRX || (in->code == PTX_BRA && !is_predicated(k, i)))
            begins[i + 1] = true;
        if (in->code == PTX_BRA && !is_predicated(k, i))
            begins[in->target] = true;
    }
    for (uint32_t i = 0; begins && i < k->n_targets; i++)
        begins[k->targets[i]] = true;
    return begins;
}

/* Whether lanes of a warp differ in it. */
static bool varies(const PtxKernel *k, const bool *is_varying, PtxOperand one)
{
    if (one == PTX_NOWHERE)
        return false;
    if (one >= 0)
        return is_varying[one];
    const PtxConstant *constant = &k->constants[~one];
    if (constant->kind != PTX_SPECIAL)
        return false;
    return constant->value <= PTX_TID_Z || constant->value == PTX_LANEID || (constant->value >= PTX_LANEMASK_EQ && constant->value <= PTX_LANEMASK_GE);
}

/* Whether its results differ from lane to lane: as one of its operands does, or as what memory or another lane has. */
static bool makes_varying(const PtxKernel *k, const bool *is_varying, const PtxInstruction *in)
{
    bool is_read = (in->code == PTX_LD && in->space != PTX_PARAM && in->space != PTX_CONST) || in->code == PTX_ATOM || in->code == PTX_LANES;
    if (is_read || in->code == PTX_ELECT)
        return true;
    if (in->code == PTX_VOTE || in->code == PTX_REDUX || in->code == PTX_ACTIVE)
        return false;
    bool made = varies(k, is_varying, in->guard) || (in->code == PTX_ZERO && in->n == in->n_results);
    for (size_t o = in->n_results; o < in->n; o++)
        made = made || varies(k, is_varying, k->operands[in->first + o]);
    return made;
}

/* Atomics whose address is one for all lanes: on whole numbers of 32 bits machine code has one of the sum, the least or the most (VOTE, then REDUX, POPC or
 * SHFL, and one lane; of CUDA 13.0 for compute capabilities 7.5 to 9.0). */
static void find_at_once(PtxKernel *k)
{
    bool has_atomics = false;
    for (uint32_t i = 0; i < k->n_instructions && !has_atomics; i++)
        has_atomics = k->instructions[i].code == PTX_ATOM;
    bool *is_varying = has_atomics ? calloc(k->n_registers + 1u, sizeof *is_varying) : NULL;
    for (bool changed = is_varying != NULL; changed;) {
        changed = false;
        for (uint32_t i = 0; i < k->n_instructions; i++) {
            const PtxInstruction *in = &k->instructions[i];
            for (size_t o = 0; o < in->n_results; o++) {
                PtxOperand one = k->operands[in->first + o];
                if (one < 0 || one == PTX_NOWHERE || is_varying[one] || !makes_varying(k, is_varying, in))
                    continue;
                is_varying[one] = changed = true;
            }
        }
    }
    for (uint32_t i = 0; is_varying && i < k->n_instructions; i++) {
        PtxInstruction *in = &k->instructions[i];
        bool sums = in->code == PTX_ATOM && !in->type.is_float && in->type.bits == 32 && in->relation != PTX_MOV && in->relation != PTX_SELP;
        in->at_once = sums && !varies(k, is_varying, k->operands[in->first + in->n_results]);
    }
    free(is_varying);
}

/* Whether instructions [@first, @end), the last a branch to the first, do nothing but load or change a place of global memory that is the same each time, and
 * whether they go on hangs on what is there. @hangs: of each register, false before and after. */
static bool is_waiting(const PtxKernel *k, uint32_t first, uint32_t end, bool *hangs)
{
    enum { LONGEST = 32 };
    bool waits = end - first <= LONGEST, hangs_on = false;
    for (uint32_t i = first; i < end && waits; i++) {
        const PtxInstruction *in = &k->instructions[i];
        const PtxOperand *operands = k->operands + in->first;
        bool is_read = (in->code == PTX_LD || in->code == PTX_ATOM) && is_of_array(in), made = is_read;
        PtxOperand address = is_read ? operands[in->n_results] : PTX_NOWHERE;
        for (uint32_t j = first; j < end && address >= 0 && address != PTX_NOWHERE; j++)
            for (size_t o = 0; o < k->instructions[j].n_results; o++)
                waits = waits && k->operands[k->instructions[j].first + o] != address;
        for (size_t o = in->n_results; o < in->n; o++)
            made = made || (operands[o] >= 0 && operands[o] != PTX_NOWHERE && hangs[operands[o]]);
        for (size_t o = 0; o < in->n_results; o++)
            if (operands[o] >= 0 && operands[o] != PTX_NOWHERE)
                hangs[operands[o]] = made;
        waits = waits && in->code != PTX_ST && in->code != PTX_MMA && in->code != PTX_COPY && in->code != PTX_TENSOR;
        bool leaves = in->code == PTX_BRA && in->guard >= 0 && in->guard != PTX_NOWHERE && (i == end - 1 || in->target >= end);
        hangs_on = hangs_on || (leaves && hangs[in->guard]);
    }
    for (uint32_t i = first; i < end; i++)
        for (size_t o = 0; o < k->instructions[i].n_results; o++) {
            PtxOperand one = k->operands[k->instructions[i].first + o];
            if (one >= 0 && one != PTX_NOWHERE)
                hangs[one] = false;
        }
    return waits && hangs_on;
}

static void find_waits(PtxKernel *k)
{
    bool *hangs = calloc(k->n_registers + 1u, sizeof *hangs);
    for (uint32_t i = 0; hangs && i < k->n_instructions && !k->waits; i++)
        if (k->instructions[i].code == PTX_BRA && k->instructions[i].target <= i)
            k->waits = is_waiting(k, k->instructions[i].target, i + 1, hangs);
    free(hangs);
}

void ptx_paths(PtxKernel *k)
{
    enum { TRIP = 500 };
    uint32_t *ready = calloc(k->n_registers + 1u, sizeof *ready);
    bool *begins = find_blocks(k);
    for (uint32_t first = 0, end; ready && begins && first < k->n_instructions; first = end) {
        for (end = first + 1; end < k->n_instructions && !begins[end];)
            end++;
        uint32_t far = longest_path(k, first, end, TRIP, ready), near = longest_path(k, first, end, 0, ready);
        PtxCounts *counts = &k->instructions[end - 1].counts;
        counts->trips = (far - near + TRIP / 2) / TRIP;
        counts->cycles = far > TRIP * counts->trips ? far - TRIP * counts->trips : 1;
        for (uint32_t elements = MOST_JOINED; elements >= 2; elements /= 2)
            for (uint32_t i = first; i < end; i++)
                if (may_join(&k->instructions[i]) && elements * k->instructions[i].type.bits / 8 <= JOINED_BYTES)
                    join_loads(k, i, end, elements);
        if (is_unrolled(k, first, end))
            number_loads(k, first, end);
    }
    free(ready);
    free(begins);
    find_at_once(k);
    find_waits(k);
}
