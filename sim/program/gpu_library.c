/* Sorts, FFTs and solvers of GPU programs. */
#include "sim/program/gpu_library.h"

#include "models/kernel/fft.h"

#include <math.h>
#include <string.h>

static uint64_t bytes_each(const EchLayout *layout)
{
    return layout ? MAX(ech_layout_element_bits(layout) / 8, 1u) : 0;
}

static uint64_t whole(double n)
{
    return n < 1 ? 1 : n < 9e18 ? (uint64_t)n : (uint64_t)INT64_MAX;
}

/* ---- Sorts ---- */

/* Whether cub can sort so: the comparator looks at the first array's two elements alone, or beside them at the positions that XLA adds to keep equal ones in
 * order (openxla/xla, sort_rewriter.cc, stable_sort_expander.cc). */
static bool plain_order(const EchProgram *p, const EchInstruction *sort, bool positions)
{
    if (sort->n_called == 0)
        return false;
    const EchComputation *c = &p->computations[ech_program_called(p, sort, 0)];
    for (uint32_t j = 0; j < MIN(c->n, 256u); j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        for (uint32_t k = 0; k < i->n_operands; k++) {
            const EchInstruction *o = &p->instructions[ech_program_operand(p, i, k)];
            bool last = o->number / 2 + 1 == (int64_t)sort->n_operands;
            if (o->opcode == ECH_HLO_PARAMETER && o->number >= 2 && !(positions && last))
                return false;
        }
    }
    return c->n <= 256;
}

static double comparator(const EchProgram *p, const EchInstruction *sort)
{
    double cost = 0;
    const EchComputation *c = sort->n_called > 0 ? &p->computations[ech_program_called(p, sort, 0)] : NULL;
    for (uint32_t j = 0; c && j < MIN(c->n, 256u); j++)
        cost += ech_gpu_launch_instructions(p, &p->instructions[c->first + j]);
    return cost;
}

bool ech_program_gpu_sort(const EchProgram *p, EchId id, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    const EchLayout *keys = i->n_operands > 0 ? ech_program_first_layout(p, ech_program_operand(p, i, 0)) : NULL;
    if (!keys || keys->rank == 0)
        return false;
    bool cub = i->opcode == ECH_HLO_CUSTOM_CALL;
    size_t n;
    int64_t dim = keys->rank - 1;
    const char *text = cub ? NULL : ech_program_attribute(i, "dimensions", &n);
    if (text && (ech_program_numbers(text, n, &dim, 1) < 1 || dim < 0 || dim >= keys->rank))
        return false;
    uint64_t each = 0, arrays = i->n_operands, elements = ech_layout_elements(keys);
    const EchInstruction *last = &p->instructions[ech_program_operand(p, i, i->n_operands - 1)];
    bool positions = !cub && i->n_operands > 1 && last->opcode == ECH_HLO_IOTA;
    for (uint32_t k = 0; k < i->n_operands; k++)
        each += bytes_each(ech_program_first_layout(p, ech_program_operand(p, i, k)));
    if (elements == 0 || keys->dims[dim] == 0)
        return false;
    ret->kind = ECH_GPU_SORT;
    ret->columns = keys->dims[dim];
    ret->rows = elements / keys->dims[dim];
    ret->operand_bytes = (uint32_t)CLAMP(each, 1, 64);
    ret->instructions = (uint16_t)CLAMP(comparator(p, i) / 2, 1, 1000); /* for a pair */
    ret->routine = cub ? ECH_GPU_RADIX : ECH_GPU_ROUTINE_NONE;
    uint64_t payload = arrays - (positions && arrays > 2 ? 1 : 0);
    bool fastest = keys->order[0] == dim;
    if (bytes_each(keys) <= 8 && (cub || (payload <= 2 && fastest && plain_order(p, i, positions))))
        ret->keys = (uint8_t)bytes_each(keys);
    return true;
}

/* ---- FFTs ---- */

/* @ret_bytes: of a complex number. */
static bool transform_of(const EchProgram *p, EchId id, EchFft *ret, unsigned *ret_bytes)
{
    const EchInstruction *i = &p->instructions[id];
    if (i->opcode != ECH_HLO_FFT)
        return false;
    const EchLayout *out = ech_program_first_layout(p, id), *in = i->n_operands > 0 ? ech_program_first_layout(p, ech_program_operand(p, i, 0)) : NULL;
    size_t n;
    const char *text = ech_program_attribute(i, "fft_length", &n);
    int64_t lengths[3];
    size_t count = text ? ech_program_numbers(text, n, lengths, 3) : 0;
    if (!out || !in || count == 0 || count > 3)
        return false;
    unsigned in_bits = ech_layout_element_bits(in), out_bits = ech_layout_element_bits(out); /* one of the two is complex */
    uint64_t of[3], whole = 1;
    for (size_t k = 0; k < count; k++) {
        of[k] = (uint64_t)CLAMP(lengths[k], 1, INT64_C(1) << 40);
        whole = ech_bytes_mul(whole, of[k]);
    }
    /* What is not transformed: the larger side has all points. */
    uint64_t batch = MAX(MAX(ech_layout_elements(out), ech_layout_elements(in)) / whole, 1);
    *ret_bytes = MAX(in_bits, out_bits) / 8;
    *ret = ech_fft_of(of, (unsigned)count, batch, *ret_bytes, in_bits != out_bits);
    return true;
}

bool ech_program_gpu_fft(const EchProgram *p, EchId id, EchGpuLaunch *ret)
{
    EchFft fft;
    unsigned bytes;
    if (!transform_of(p, id, &fft, &bytes))
        return false;
    ret->kind = ECH_GPU_FFT;
    ret->elements = MAX(fft.points, 1);
    ret->operand_bytes = bytes;
    ret->rows = ech_div_up(fft.points, fft.block);
    ret->columns = fft.block;
    ret->passes = (uint16_t)CLAMP(fft.passes, 1, 1000);
    ret->instructions = (uint16_t)CLAMP(fft.instructions, 1, 60000);
    return true;
}

EchBytes ech_program_gpu_fft_work(const EchProgram *p, EchId id)
{
    EchFft fft;
    unsigned bytes;
    return transform_of(p, id, &fft, &bytes) ? fft.work : 0;
}

/* ---- Solvers ---- */

static const struct {
    const char *part;
    EchGpuRoutine routine;
} calls[] = {
    {"potrf", ECH_GPU_CHOLESKY},   {"cholesky", ECH_GPU_CHOLESKY},    {"getrf", ECH_GPU_LU},          {"geqrf", ECH_GPU_QR},
    {"orgqr", ECH_GPU_ORTHOGONAL}, {"ungqr", ECH_GPU_ORTHOGONAL},     {"syev", ECH_GPU_EIGEN},        {"sytrd", ECH_GPU_EIGEN},
    {"gesvd", ECH_GPU_SINGULAR},   {"riangular", ECH_GPU_TRIANGULAR}, {"DeviceRadix", ECH_GPU_RADIX},
};

static bool is_batched(EchGpuRoutine routine, const EchGpuLaunch *launch)
{
    enum { ROWS_FOR_EACH = 128, JACOBI = 32 };
    uint64_t most = MAX(launch->m, launch->n);
    switch (routine) {
    case ECH_GPU_CHOLESKY:
    case ECH_GPU_TRIANGULAR: return true;
    case ECH_GPU_LU: return launch->m == launch->n && most / launch->batch <= ROWS_FOR_EACH;
    case ECH_GPU_QR: return most / launch->batch <= ROWS_FOR_EACH;
    case ECH_GPU_EIGEN:
    case ECH_GPU_SINGULAR: return most <= JACOBI;
    case ECH_GPU_ORTHOGONAL:
    case ECH_GPU_ROUTINE_NONE:
    case ECH_GPU_RADIX:
    case ECH_GPU_N_ROUTINES: break;
    }
    return false;
}

bool ech_program_gpu_solver(const EchProgram *p, EchId id, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    const char *name = i->opcode == ECH_HLO_CHOLESKY ? "cholesky" : i->opcode == ECH_HLO_TRIANGULAR_SOLVE ? "triangular" : i->target;
    EchGpuRoutine routine = ECH_GPU_ROUTINE_NONE;
    for (size_t k = 0; name && k < G_N_ELEMENTS(calls) && routine == ECH_GPU_ROUTINE_NONE; k++)
        if (strstr(name, calls[k].part))
            routine = calls[k].routine;
    if (routine == ECH_GPU_RADIX)
        return ech_program_gpu_sort(p, id, ret);
    const EchLayout *a = i->n_operands > 0 ? ech_program_first_layout(p, ech_program_operand(p, i, 0)) : NULL;
    if (routine == ECH_GPU_ROUTINE_NONE || !a || a->rank < 2 || ech_layout_elements(a) == 0)
        return false;
    ret->kind = ECH_GPU_SOLVER;
    ret->routine = (uint8_t)routine;
    ret->m = a->dims[a->rank - 2];
    ret->n = a->dims[a->rank - 1];
    ret->batch = whole((double)ech_layout_elements(a) / ((double)ret->m * (double)ret->n));
    ret->k = 1;
    /* What jaxlib does not give to a routine of batches it does one matrix after another (jaxlib/gpu/solver_kernels_ffi.cc). */
    if (ret->batch > 1 && !is_batched(routine, ret)) {
        ret->passes = (uint16_t)MIN(ret->batch, 60000u);
        ret->batch = 1;
    }
    const EchLayout *b = routine == ECH_GPU_TRIANGULAR && i->n_operands > 1 ? ech_program_first_layout(p, ech_program_operand(p, i, 1)) : NULL;
    if (b)
        ret->k = whole((double)ech_layout_elements(b) / ((double)ret->batch * (double)ret->m));
    ret->operand_bytes = (uint32_t)bytes_each(a);
    return true;
}
