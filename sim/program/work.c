/* What one instruction costs: operations by unit, bytes it touches, and how often a loop runs. */
#include "sim/program/gpu_launch.h"
#include "sim/program/private.h"

#include "sim/base/error.h"

#include <string.h>

enum { MAX_DEPTH = 64, MAX_BODY_DEPTH = 256 };

static uint64_t mul(uint64_t a, uint64_t b)
{
    return ech_bytes_mul(a, b);
}

static const EchLayout *layout_of(const EchProgram *p, EchId i)
{
    EchId shape = p->instructions[i].shape;
    /* A custom call may give (result, workspace): its result is the first array. */
    for (unsigned depth = 0; p->shapes[shape].is_tuple && depth < MAX_DEPTH; depth++) {
        if (p->shapes[shape].n_elements == 0)
            return NULL;
        shape = p->elements[p->shapes[shape].first_element];
    }
    return ech_program_layout(p, shape);
}

static uint64_t count_of(const EchProgram *p, EchId i)
{
    const EchLayout *layout = layout_of(p, i);
    return layout ? ech_layout_elements(layout) : 0;
}

static size_t list(const EchInstruction *i, const char *name, int64_t *ret, size_t max)
{
    size_t n;
    const char *text = ech_program_attribute(i, name, &n);
    return text ? ech_program_numbers(text, n, ret, max) : 0;
}

/* Matrix work */

/* Whether a ragged product sums up over the rows that its groups share: each of its results, one a group, over that group's alone. */
static bool sums_groups(const EchInstruction *i, const int64_t *summed, size_t n)
{
    int64_t ragged[ECH_LAYOUT_MAX_RANK];
    if (i->opcode != ECH_HLO_RAGGED_DOT || i->n_operands < 3 || list(i, "lhs_ragged_dims", ragged, G_N_ELEMENTS(ragged)) != 1)
        return false;
    for (size_t k = 0; k < n; k++) {
        if (summed[k] == ragged[0])
            return true;
    }
    return false;
}

static uint64_t dot_work(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    if (i->n_operands < 1)
        return 0;
    const EchLayout *left = layout_of(p, ech_program_operand(p, i, 0));
    size_t n = list(i, "lhs_contracting_dims", dims, G_N_ELEMENTS(dims));
    if (n == 0) {
        /* cuBLAS calls keep the dimension numbers in their configuration. */
        size_t length;
        const char *text = ech_program_config(i, "lhs_contracting_dimensions", &length);
        n = text ? ech_program_numbers(text, length, dims, G_N_ELEMENTS(dims)) : 0;
    }
    uint64_t depth = 1;
    for (size_t k = 0; left && k < MIN(n, G_N_ELEMENTS(dims)); k++) {
        if (dims[k] >= 0 && dims[k] < left->rank)
            depth = mul(depth, left->dims[dims[k]]);
    }
    uint64_t work = mul(2, mul(depth, count_of(p, id)));
    return sums_groups(i, dims, MIN(n, G_N_ELEMENTS(dims))) ? work / MAX(count_of(p, ech_program_operand(p, i, 2)), 1u) : work;
}

typedef struct {
    int64_t size, stride, low, high, lhs, rhs;
} WindowDim;

/* Reads "{size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=2x2}"; returns the number of dimensions. */
static size_t read_window(const EchInstruction *i, WindowDim *dims, size_t max)
{
    size_t n, count = 0;
    const char *text = ech_program_attribute(i, "window", &n);
    static const char *const keys[] = {"size=", "stride=", "pad=", "lhs_dilate=", "rhs_dilate="};
    for (size_t k = 0; text && k < G_N_ELEMENTS(keys); k++) {
        const char *at = g_strstr_len(text, (gssize)n, keys[k]);
        if (!at)
            continue;
        at += strlen(keys[k]);
        const char *stop = at;
        while (stop < text + n && *stop != ' ' && *stop != '}')
            stop++;
        int64_t numbers[2 * ECH_LAYOUT_MAX_RANK];
        /* "1_1x1_1" and "3x3" are numbers in order; a pad may be negative. */
        size_t found = MIN(ech_program_numbers(at, (size_t)(stop - at), numbers, G_N_ELEMENTS(numbers)), G_N_ELEMENTS(numbers));
        if (k == 0) {
            count = MIN(found, max);
            for (size_t d = 0; d < count; d++)
                dims[d] = (WindowDim){numbers[d], 1, 0, 0, 1, 1};
        }
        for (size_t d = 0; k > 0 && d < count; d++) {
            if (k == 2 && 2 * d + 1 < found) {
                dims[d].low = numbers[2 * d];
                dims[d].high = numbers[2 * d + 1];
            } else if (k != 2 && d < found)
                *(k == 1 ? &dims[d].stride : k == 3 ? &dims[d].lhs : &dims[d].rhs) = MAX(numbers[d], 1);
        }
    }
    return count;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* x with @a * x = 1 modulo @m, which have no common factor: Euclid's algorithm. */
static int64_t inverse(int64_t a, int64_t m)
{
    int64_t r[2] = {m, a % m}, x[2] = {0, 1};
    while (r[1] > 1) {
        int64_t times = r[0] / r[1], rest = r[0] % r[1], next = x[0] - times * x[1];
        r[0] = r[1];
        r[1] = rest;
        x[0] = x[1];
        x[1] = next;
    }
    return (x[1] % m + m) % m;
}

/* Pairs of (output position, window position) that read a true input element: not padding, not a hole of base dilation. */
static uint64_t valid_positions(const WindowDim *dim, int64_t input, int64_t output)
{
    enum { MAX_WINDOW = 1 << 20, BIG = 1 << 30 };
    if (input <= 0 || output <= 0 || dim->size <= 0 || dim->size > MAX_WINDOW || input > BIG || output > BIG || dim->stride > BIG || dim->lhs > BIG ||
        dim->rhs > BIG || dim->low > BIG || dim->low < -BIG)
        return 0;
    int64_t last = (input - 1) * dim->lhs, total = 0, common = (int64_t)ech_gcd((uint64_t)dim->stride, (uint64_t)dim->lhs), step = dim->lhs / common;
    if (step > MAX_WINDOW)
        return 0;
    int64_t back = inverse(dim->stride / common, step);
    for (int64_t k = 0; k < dim->size; k++) {
        /* 0 <= o * stride + offset <= last, and a multiple of the base dilation */
        int64_t offset = k * dim->rhs - dim->low;
        int64_t low = MAX(-floor_div(offset, dim->stride), 0), high = MIN(floor_div(last - offset, dim->stride), output - 1);
        if (offset % common != 0)
            continue;
        int64_t wanted = (step - (offset / common % step + step) % step) * back % step, first = low + ((wanted - low) % step + step) % step;
        if (first <= high)
            total += (high - first) / step + 1;
    }
    return (uint64_t)total;
}

static uint64_t convolution_work(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    size_t n;
    const char *labels = ech_program_attribute(i, "dim_labels", &n);
    const char *kernel_labels = labels ? memchr(labels, '_', n) : NULL;
    const char *arrow = labels ? g_strstr_len(labels, (gssize)n, "->") : NULL;
    if (!kernel_labels || !arrow || i->n_operands < 2)
        return 0;
    const EchLayout *input = layout_of(p, ech_program_operand(p, i, 0)), *kernel = layout_of(p, ech_program_operand(p, i, 1)), *output = layout_of(p, id);
    /* cuDNN's calls for gradients keep the labels of the convolution they are of. */
    if (i->target && strstr(i->target, "BackwardFilter")) {
        const EchLayout *gradient = kernel;
        kernel = output;
        output = gradient;
    } else if (i->target && strstr(i->target, "BackwardInput")) {
        const EchLayout *gradient = input;
        input = output;
        output = gradient;
    }
    kernel_labels++;
    const char *output_labels = arrow + 2;
    if (!input || !kernel || !output || kernel_labels - labels - 1 != input->rank || arrow - kernel_labels != kernel->rank ||
        (size_t)(labels + n - output_labels) != output->rank)
        return 0;
    WindowDim window[ECH_LAYOUT_MAX_RANK];
    size_t n_window = read_window(i, window, G_N_ELEMENTS(window));
    uint64_t work = 2;
    /* The result's batch and the kernel's input features are already divided by the counts of groups. */
    for (uint8_t d = 0; d < kernel->rank; d++) {
        if (kernel_labels[d] == 'i')
            work = mul(work, kernel->dims[d]);
    }
    for (uint8_t d = 0; d < output->rank; d++) {
        if (output_labels[d] == 'f' || output_labels[d] == 'b')
            work = mul(work, output->dims[d]);
    }
    for (uint8_t d = 0; d < input->rank; d++) {
        unsigned spatial = (unsigned)(labels[d] - '0');
        if (spatial > 9 || spatial >= n_window)
            continue;
        const char *at = memchr(output_labels, labels[d], output->rank);
        if (at)
            work = mul(work,
                       valid_positions(&window[spatial], (int64_t)MIN(input->dims[d], INT32_MAX), (int64_t)MIN(output->dims[at - output_labels], INT32_MAX)));
    }
    return work;
}

/* Work of one application of a reducer or comparator. */
static uint64_t reducer_work(const EchProgram *p, const EchInstruction *i)
{
    uint64_t work = 0;
    if (i->n_called == 0)
        return 1;
    const EchComputation *c = &p->computations[ech_program_called(p, i, i->n_called - 1)];
    for (uint32_t k = 0; k < c->n; k++)
        work += ech_hlo_is_elementwise((EchHlo)p->instructions[c->first + k].opcode);
    return MAX(work, 1);
}

static uint64_t log2_ceil(uint64_t n)
{
    uint64_t log = 0;
    while (log < 63 && (UINT64_C(1) << log) < n)
        log++;
    return log;
}

/* Of the first operand, or of the result where there is none. */
static uint8_t dtype_of(const EchProgram *p, const EchInstruction *i)
{
    EchId shape = i->n_operands > 0 ? p->instructions[ech_program_operand(p, i, 0)].shape : i->shape;
    return p->shapes[ech_program_first_array(p, shape)].dtype;
}

static void add_matrix(const EchProgram *p, const EchInstruction *i, uint64_t count, EchHloWork *work)
{
    uint8_t dtype = dtype_of(p, i);
    size_t n;
    /* XLA's default precision: tensor cores take f32 as tf32 on NVIDIA; a TPU's f32 is the device's own affair. */
    if (dtype == ECH_DTYPE_F32 && p->platform == ECH_PLATFORM_GPU && !ech_program_attribute(i, "operand_precision", &n))
        dtype = ECH_DTYPE_TF32;
    if (count >= work->matrix)
        work->matrix_dtype = dtype;
    work->matrix = ech_bytes_add(work->matrix, count);
}

static void merge_work(EchHloWork *work, const EchHloWork *more)
{
    if (more->matrix >= work->matrix && more->matrix > 0)
        work->matrix_dtype = more->matrix_dtype;
    if (more->vector >= work->vector && more->vector > 0)
        work->vector_dtype = more->vector_dtype;
    work->matrix = ech_bytes_add(work->matrix, more->matrix);
    work->vector = ech_bytes_add(work->vector, more->vector);
    work->transcendental = ech_bytes_add(work->transcendental, more->transcendental);
}

/* Products and convolutions of a library, attention, else what the call states of itself. */
/* A kernel's own code counts registers of 1024 elements. */
static void add_grid(const EchProgram *p, const EchInstruction *i, const EchKernelGrid *grid, EchHloWork *work)
{
    uint64_t most = (uint64_t)1 << 60, vector = (uint64_t)MIN((grid->vector + grid->half) * 1024, (double)most);
    add_matrix(p, i, (uint64_t)MIN(grid->operations, (double)most), work);
    if (vector >= work->vector && vector > 0)
        work->vector_dtype = ECH_DTYPE_F32;
    work->vector = ech_bytes_add(work->vector, vector);
    work->transcendental = ech_bytes_add(work->transcendental, (uint64_t)MIN(grid->transcendental * 1024, (double)most));
}

static void add_custom_call(const EchProgram *p, EchId id, EchHloWork *work)
{
    const EchInstruction *i = &p->instructions[id];
    uint64_t stated;
    if (!i->target)
        return;
    if (strstr(i->target, "cublas") && !strstr(i->target, "triangular")) {
        add_matrix(p, i, dot_work(p, id), work);
    } else if (strstr(i->target, "cudnn$conv")) {
        add_matrix(p, i, convolution_work(p, id), work);
    } else if (ech_program_attention(p, id, NULL) > 0) {
        add_matrix(p, i, ech_program_attention(p, id, NULL), work);
    } else {
        const EchKernelGrid *grid = ech_program_grid(p, id);
        if (grid) {
            add_grid(p, i, grid, work);
            return;
        }
        if (ech_program_config_u64(i, "cost_estimate.flops", &stated))
            add_matrix(p, i, stated, work);
        if (ech_program_config_u64(i, "cost_estimate.transcendentals", &stated))
            work->transcendental = ech_bytes_add(work->transcendental, stated);
    }
}

/* Applications of the reducer in a reduction over windows. Windows that hang over the edge combine only what is there; those that all hold the whole row
 * (softmaxes' maxima) are one reduction, whose result is spread again; long ones that overlap (running sums) are doubled step by step. */
static uint64_t window_steps(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    WindowDim window[ECH_LAYOUT_MAX_RANK];
    size_t n = read_window(i, window, G_N_ELEMENTS(window));
    const EchLayout *input = i->n_operands > 0 ? layout_of(p, ech_program_operand(p, i, 0)) : NULL, *output = layout_of(p, id);
    uint64_t combined = 1, results = 1;
    if (i->opcode == ECH_HLO_REDUCE_WINDOW && input && output && input->rank == n && output->rank == n) {
        for (size_t k = 0; k < n; k++) {
            uint64_t in = MIN(input->dims[k], INT32_MAX), out = MIN(output->dims[k], INT32_MAX), pairs = valid_positions(&window[k], (int64_t)in, (int64_t)out);
            bool whole = pairs == mul(in, out);
            results = mul(results, whole ? MIN(out, 1) : out);
            combined = mul(combined, whole ? in : MIN(pairs, mul(out, 2 * log2_ceil((uint64_t)MAX(window[k].size, 1)) + 1)));
        }
        return MAX(combined, results) - results;
    }
    for (size_t k = 0; k < n; k++)
        combined = mul(combined, (uint64_t)MAX(window[k].size, 1));
    return mul(count_of(p, id), combined > 1 ? combined - 1 : 1);
}

/* Elements that are sorted, or transformed, together: those along the dimensions that an instruction names. */
static uint64_t together(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    const EchLayout *layout = i->n_operands > 0 ? layout_of(p, ech_program_operand(p, i, 0)) : NULL;
    int64_t numbers[ECH_LAYOUT_MAX_RANK];
    bool lengths = i->opcode == ECH_HLO_FFT;
    size_t n = MIN(list(i, lengths ? "fft_length" : "dimensions", numbers, G_N_ELEMENTS(numbers)), G_N_ELEMENTS(numbers));
    uint64_t elements = 1;
    for (size_t k = 0; k < n; k++) {
        if (!lengths && (!layout || numbers[k] < 0 || numbers[k] >= layout->rank))
            continue;
        elements = mul(elements, lengths ? (uint64_t)MAX(numbers[k], 1) : layout->dims[numbers[k]]);
    }
    return n > 0 ? elements : count_of(p, id);
}

/* Operations of the vector unit in an instruction that is neither a product nor a call. */
static uint64_t vector_work(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    uint64_t out = count_of(p, id), in = i->n_operands > 0 ? count_of(p, ech_program_operand(p, i, 0)) : 0;
    const EchLayout *layout;
    switch ((int)i->opcode) {
    case ECH_HLO_REDUCE: return mul(in > out ? in - out : 0, reducer_work(p, i));
    case ECH_HLO_SCAN: return mul(in, reducer_work(p, i));
    case ECH_HLO_REDUCE_WINDOW:
    case ECH_HLO_SELECT_AND_SCATTER: return mul(window_steps(p, id), reducer_work(p, i));
    case ECH_HLO_SCATTER: return i->n_operands > 2 ? mul(count_of(p, ech_program_operand(p, i, i->n_operands - 1)), reducer_work(p, i)) : 0;
    case ECH_HLO_SORT: return mul(in, log2_ceil(together(p, id)));
    case ECH_HLO_FFT: return mul(5, mul(out, log2_ceil(together(p, id))));
    case ECH_HLO_CHOLESKY:
    case ECH_HLO_TRIANGULAR_SOLVE: layout = layout_of(p, id); return layout && layout->rank > 0 ? mul(out, layout->dims[layout->rank - 1]) : 0;
    default: return ech_hlo_is_elementwise((EchHlo)i->opcode) ? out : 0;
    }
}

uint64_t ech_program_ragged_groups(const EchInstruction *fusion)
{
    uint64_t groups = 0;
    return fusion->opcode == ECH_HLO_FUSION && ech_program_config_u64(fusion, "convolution_algorithm_config.num_groups_in_ragged_dot", &groups) ? groups : 0;
}

static void add_work(const EchProgram *p, EchId id, EchHloWork *work)
{
    const EchInstruction *i = &p->instructions[id];
    switch ((int)i->opcode) {
    case ECH_HLO_DOT:
    case ECH_HLO_RAGGED_DOT:
    case ECH_HLO_SCALED_DOT: add_matrix(p, i, dot_work(p, id), work); return;
    case ECH_HLO_CONVOLUTION: add_matrix(p, i, convolution_work(p, id), work); return;
    case ECH_HLO_CUSTOM_CALL: add_custom_call(p, id, work); return;
    case ECH_HLO_FUSION:
    case ECH_HLO_CALL:
        for (uint32_t k = 0; k < i->n_called; k++) {
            EchId called = ech_program_called(p, i, k);
            EchHloWork inner = p->bodies[called].work;
            /* Of a ragged product the innermost fusion multiplies every row with every group, and masks all but one. */
            if (ech_program_ragged_groups(&p->instructions[p->computations[called].root]) == 0)
                inner.matrix /= MAX(ech_program_ragged_groups(i), 1u);
            merge_work(work, &inner);
        }
        return;
    default: break;
    }
    uint64_t count = vector_work(p, id);
    if (ech_hlo_is_transcendental((EchHlo)i->opcode)) {
        work->transcendental = ech_bytes_add(work->transcendental, count);
    } else if (count > 0) {
        if (count >= work->vector)
            work->vector_dtype = dtype_of(p, i);
        work->vector = ech_bytes_add(work->vector, count);
    }
}

EchHloWork ech_program_work(const EchProgram *program, EchId instruction)
{
    EchHloWork work = {.matrix_dtype = ECH_DTYPE_NONE, .vector_dtype = ECH_DTYPE_NONE};
    add_work(program, instruction, &work);
    return work;
}

/* Bytes */

static EchBytes all_bytes(const EchProgram *p, EchId shape)
{
    return p->shapes[shape].whole;
}

/* A gather reads about what it gives back. */
static EchBytes plain_operand_bytes(const EchProgram *p, EchId id, uint32_t k)
{
    const EchInstruction *i = &p->instructions[id];
    EchBytes full = all_bytes(p, p->instructions[ech_program_operand(p, i, k)].shape), result = all_bytes(p, i->shape);
    bool picks = i->opcode == ECH_HLO_SLICE || i->opcode == ECH_HLO_DYNAMIC_SLICE || i->opcode == ECH_HLO_GATHER || i->opcode == ECH_HLO_SCATTER;
    if (picks && p->platform == ECH_PLATFORM_GPU)
        return ech_program_picked_bytes(p, id, k);
    switch ((int)i->opcode) {
    case ECH_HLO_SLICE:
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_GATHER: return k == 0 ? MIN(full, result) : full;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE: return k == 0 ? 0 : full;
    case ECH_HLO_SCATTER: {
        uint32_t n = i->n_operands / 2;
        EchBytes update = i->n_operands > 0 ? all_bytes(p, p->instructions[ech_program_operand(p, i, i->n_operands - 1)].shape) : 0;
        return k < n ? MIN(full, update) : full;
    }
    case ECH_HLO_TUPLE:
    case ECH_HLO_GET_TUPLE_ELEMENT:
    case ECH_HLO_BITCAST:
    case ECH_HLO_OPTIMIZATION_BARRIER: return 0;
    default: return full;
    }
}

uint32_t ech_program_handed_on(const EchProgram *p, EchId fusion)
{
    const EchInstruction *i = &p->instructions[fusion];
    if (i->opcode != ECH_HLO_FUSION || i->n_called == 0)
        return UINT32_MAX;
    EchId from = ech_program_look_through(p, p->computations[ech_program_called(p, i, 0)].root);
    for (uint32_t handed; (handed = ech_program_handed_on(p, from)) != UINT32_MAX;)
        from = ech_program_look_through(p, ech_program_operand(p, &p->instructions[from], handed));
    const EchInstruction *root = &p->instructions[from];
    if (root->opcode == ECH_HLO_COPY && root->n_operands == 1)
        root = &p->instructions[ech_program_look_through(p, ech_program_operand(p, root, 0))];
    return root->opcode == ECH_HLO_PARAMETER && root->number >= 0 && (uint64_t)root->number < i->n_operands ? (uint32_t)root->number : UINT32_MAX;
}

/* Per parameter of a fusion's body: what its users inside touch. What only rides through to the result touches nothing. */
static void touch_parameters(const EchProgram *p, EchId computation, EchTouched *touched, size_t n)
{
    const EchComputation *c = &p->computations[computation];
    g_autofree uint32_t *origin = g_new(uint32_t, c->n);
    for (uint32_t j = 0; j < c->n; j++) {
        EchId id = c->first + j;
        const EchInstruction *i = &p->instructions[id];
        origin[j] = ECH_NONE;
        if (i->opcode == ECH_HLO_PARAMETER && i->number >= 0 && (uint64_t)i->number < n) {
            origin[j] = (uint32_t)i->number;
            continue;
        }
        if (i->opcode == ECH_HLO_BITCAST && i->n_operands > 0) {
            origin[j] = origin[ech_program_operand(p, i, 0) - c->first];
            continue;
        }
        const EchBody *inner = i->opcode == ECH_HLO_FUSION && i->n_called > 0 ? &p->bodies[ech_program_called(p, i, 0)] : NULL;
        uint32_t handed = ech_program_handed_on(p, id);
        if (handed != UINT32_MAX) {
            origin[j] = origin[ech_program_operand(p, i, handed) - c->first];
            continue;
        }
        for (uint32_t k = 0; k < i->n_operands; k++) {
            uint32_t from = origin[ech_program_operand(p, i, k) - c->first];
            if (from == ECH_NONE || ech_hlo_class((EchHlo)i->opcode) == ECH_CLASS_COLLECTIVE || i->opcode == ECH_HLO_CUSTOM_CALL)
                continue;
            EchBytes full = all_bytes(p, p->instructions[ech_program_operand(p, i, k)].shape);
            EchBytes bytes =
                inner ? (k >= inner->n_parameters || inner->parameters[k].whole ? full : inner->parameters[k].sliced) : plain_operand_bytes(p, id, k);
            if (bytes >= full && bytes > 0)
                touched[from].whole = true;
            else
                touched[from].sliced = ech_bytes_add(touched[from].sliced, bytes);
        }
    }
}

/* What a loop's trips do, one where nobody knows how many; of a computation that is an op of its own. */
static void add_loop(const EchProgram *p, EchId id, EchHloWork *work)
{
    uint64_t trips = 1;
    EchOrigin origin;
    if (!ech_program_trips(p, id, &trips, &origin))
        trips = 1;
    for (uint32_t k = 0; k < p->instructions[id].n_called; k++) {
        EchHloWork all = p->bodies[ech_program_called(p, &p->instructions[id], k)].work;
        all.matrix = mul(all.matrix, trips);
        all.vector = mul(all.vector, trips);
        all.transcendental = mul(all.transcendental, trips);
        merge_work(work, &all);
    }
}

/* What the branch with the most operations does: that one is taken to run. */
static void add_branch(const EchProgram *p, EchId id, EchHloWork *work)
{
    const EchHloWork *taken = NULL;
    uint64_t most = 0;
    for (uint32_t k = 0; k < p->instructions[id].n_called; k++) {
        const EchHloWork *branch = &p->bodies[ech_program_called(p, &p->instructions[id], k)].work;
        uint64_t operations = ech_bytes_add(ech_bytes_add(branch->matrix, branch->vector), branch->transcendental);
        if (taken && operations <= most)
            continue;
        taken = branch;
        most = operations;
    }
    if (taken)
        merge_work(work, taken);
}

enum { BODY_NEW, BODY_OPEN, BODY_DONE };

/* Whether an instruction's kernels are told by the computations that it calls: then these are gone through for each of their callers. */
static bool looks_into(EchHlo opcode)
{
    return opcode != ECH_HLO_WHILE && opcode != ECH_HLO_CONDITIONAL && opcode != ECH_HLO_ASYNC_START && opcode != ECH_HLO_ASYNC_UPDATE &&
           opcode != ECH_HLO_ASYNC_DONE;
}

/* Instructions and operands that are gone through in all: so many, and besides for each instruction. Compilers give nearly every fusion a computation of its
 * own. */
#define MAX_STEPS (UINT64_C(1) << 24)
enum { STEPS_EACH = 16 };

static bool few_steps(const EchProgram *p, GError **error)
{
    uint64_t steps = 0;
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        for (uint32_t k = 0; looks_into((EchHlo)instruction->opcode) && k < instruction->n_called; k++)
            steps = ech_bytes_add(steps, p->bodies[ech_program_called(p, instruction, k)].steps);
        if (steps <= MAX_STEPS + STEPS_EACH * (uint64_t)p->n_instructions)
            continue;
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY,
                    "%s: up to %s, %zu instructions call computations of %" G_GUINT64_FORMAT " instructions and operands in all; too many call the same",
                    p->name, instruction->name, i + 1, steps);
        return false;
    }
    return true;
}

/* Bodies before the instructions that call them; each once. */
static bool visit_body(EchProgram *p, EchId computation, unsigned depth, GError **error)
{
    EchBody *body = &p->bodies[computation];
    const EchComputation *c = &p->computations[computation];
    if (body->state == BODY_DONE)
        return true;
    if (body->state == BODY_OPEN || depth > MAX_BODY_DEPTH) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: computation %s calls itself, or calls are nested more than %d deep", p->name, c->name,
                    MAX_BODY_DEPTH);
        return false;
    }
    body->state = BODY_OPEN;
    body->steps = c->n;
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        for (uint32_t k = 0; k < i->n_called; k++) {
            if (!visit_body(p, ech_program_called(p, i, k), depth + 1, error))
                return false;
            if (looks_into((EchHlo)i->opcode))
                body->steps = ech_bytes_add(body->steps, p->bodies[ech_program_called(p, i, k)].steps);
        }
        body->steps = ech_bytes_add(body->steps, i->n_operands);
        if (i->opcode == ECH_HLO_PARAMETER && i->number >= body->n_parameters && i->number < c->n)
            body->n_parameters = (uint32_t)i->number + 1;
    }
    body->work = (EchHloWork){.matrix_dtype = ECH_DTYPE_NONE, .vector_dtype = ECH_DTYPE_NONE};
    for (uint32_t j = 0; j < c->n; j++) {
        EchHlo opcode = (EchHlo)p->instructions[c->first + j].opcode;
        if (opcode == ECH_HLO_WHILE)
            add_loop(p, c->first + j, &body->work);
        else if (opcode == ECH_HLO_CONDITIONAL)
            add_branch(p, c->first + j, &body->work);
        else
            add_work(p, c->first + j, &body->work);
    }
    body->state = BODY_DONE;
    return true;
}

bool ech_program_derive_bodies(EchProgram *p, GError **error)
{
    p->bodies = g_new0(EchBody, p->n_computations);
    for (size_t c = 0; c < p->n_computations; c++) {
        if (!visit_body(p, (EchId)c, 0, error))
            return false;
    }
    if (!few_steps(p, error))
        return false;
    ech_program_touch_bodies(p);
    return true;
}

static void touch_body(EchProgram *p, EchId computation)
{
    EchBody *body = &p->bodies[computation];
    const EchComputation *c = &p->computations[computation];
    if (body->touched)
        return;
    body->touched = true;
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        if (i->opcode == ECH_HLO_FUSION && i->n_called > 0)
            touch_body(p, ech_program_called(p, i, 0));
    }
    g_free(body->parameters);
    body->parameters = g_new0(EchTouched, (size_t)body->n_parameters + 1);
    if (p->platform == ECH_PLATFORM_GPU)
        ech_program_touch_gpu(p, computation, body->parameters, body->n_parameters);
    else
        touch_parameters(p, computation, body->parameters, body->n_parameters);
}

void ech_program_touch_bodies(EchProgram *p)
{
    for (size_t c = 0; c < p->n_computations; c++)
        p->bodies[c].touched = false;
    for (size_t i = 0; i < p->n_instructions; i++) {
        if (p->instructions[i].opcode == ECH_HLO_FUSION && p->instructions[i].n_called > 0)
            touch_body(p, ech_program_called(p, &p->instructions[i], 0));
    }
}

void ech_program_all_operand_bytes(const EchProgram *p, EchId id, EchBytes *ret)
{
    const EchInstruction *i = &p->instructions[id];
    const EchBody *body = i->opcode == ECH_HLO_FUSION && i->n_called > 0 ? &p->bodies[ech_program_called(p, i, 0)] : NULL;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        if (!body) {
            ret[k] = plain_operand_bytes(p, id, k);
            continue;
        }
        EchBytes full = all_bytes(p, p->instructions[ech_program_operand(p, i, k)].shape);
        ret[k] = k >= body->n_parameters || body->parameters[k].whole ? full : MIN(full, body->parameters[k].sliced);
    }
}

EchBytes ech_program_operand_bytes(const EchProgram *program, EchId instruction, uint32_t k)
{
    g_autofree EchBytes *bytes = g_new0(EchBytes, program->instructions[instruction].n_operands + 1);
    ech_program_all_operand_bytes(program, instruction, bytes);
    return bytes[k];
}

/* What the instruction that makes a leaf writes: an in-place update only its update; a parameter handed through nothing. */
static EchBytes written_by(const EchProgram *p, EchId id, EchBytes full, unsigned depth)
{
    id = ech_program_look_through(p, id);
    const EchInstruction *i = &p->instructions[id];
    bool gpu = p->platform == ECH_PLATFORM_GPU;
    if (gpu && depth > 0 && i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && !ech_program_updates_in_place(p, id))
        return full;
    if (gpu && i->opcode == ECH_HLO_SCATTER && i->n_operands > 2)
        return ech_program_picked_bytes(p, id, 0);
    if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && i->n_operands > 1)
        return MIN(full, all_bytes(p, p->instructions[ech_program_operand(p, i, 1)].shape));
    if (i->opcode == ECH_HLO_SCATTER && i->n_operands > 2)
        return MIN(full, all_bytes(p, p->instructions[ech_program_operand(p, i, i->n_operands - 1)].shape));
    if (depth > 0 && (i->opcode == ECH_HLO_PARAMETER || i->opcode == ECH_HLO_GET_TUPLE_ELEMENT || ech_hlo_class((EchHlo)i->opcode) == ECH_CLASS_COLLECTIVE))
        return 0;
    if (i->opcode == ECH_HLO_FUSION && i->n_called > 0 && depth < MAX_DEPTH && !p->shapes[i->shape].is_tuple)
        return written_by(p, p->computations[ech_program_called(p, i, 0)].root, full, depth + 1);
    return full;
}

EchBytes ech_program_result_bytes(const EchProgram *p, EchId id, uint32_t position)
{
    const EchInstruction *i = &p->instructions[id];
    const EchShape *shape = &p->shapes[ech_program_subshape(p, i->shape, position)];
    if (shape->is_tuple)
        return 0;
    if (i->opcode != ECH_HLO_FUSION || !p->shapes[i->shape].is_tuple || i->n_called == 0)
        return written_by(p, id, shape->bytes, 0);
    EchId root = ech_program_look_through(p, p->computations[ech_program_called(p, i, 0)].root);
    const EchInstruction *r = &p->instructions[root];
    for (uint32_t k = 0; r->opcode == ECH_HLO_TUPLE && k < r->n_operands && k < p->shapes[i->shape].n_elements; k++) {
        if (ech_program_member_position(p, i->shape, k) == position)
            return written_by(p, ech_program_operand(p, r, k), shape->bytes, 1);
    }
    return shape->bytes;
}
