#include "sim/import/kernel_arguments.h"

#include <string.h>

/* Where the parameters of the function @name[@n] begin, behind its last "(" that stands for itself; NULL where there are none. */
static const char *parameters_of(const char *name, size_t n)
{
    if (n == 0 || name[n - 1] != ')')
        return NULL;
    int depth = 0;
    for (size_t i = n; i-- > 0;) {
        depth += name[i] == ')';
        depth -= name[i] == '(';
        if (depth == 0)
            return name + i + 1;
    }
    return NULL;
}

static bool ends_with(const char *at, const char *end, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(end - at) >= n && memcmp(end - n, what, n) == 0;
}

static EchParameter parameter_of(const char *at, const char *end, bool elementwise)
{
    if (ends_with(at, end, "const*"))
        return ECH_PARAMETER_CONST;
    if (ends_with(at, end, "*"))
        return ECH_PARAMETER_ANY;
    /* An array of addresses, or a function that has caught one. */
    return g_str_has_prefix(at, "Eigen::TensorEvaluator<Eigen::TensorAssignOp<") || g_str_has_prefix(at, "std::array<char*") ||
                   g_str_has_prefix(at, "at::detail::Array<char*") || (elementwise && ends_with(at, end, "}"))
               ? ECH_PARAMETER_RESULTS
               : ECH_PARAMETER_ANY;
}

/* Whole numbers that are arguments of a template of their own right, from @at to the ">" that ends it: at most @room. */
static size_t numbers_of(const char *at, unsigned *ret, size_t room)
{
    size_t n = 0;
    int depth = 0;
    for (const char *begin = at; *at && depth >= 0; at++) {
        depth += *at == '<' || *at == '(';
        if (depth == 0 && (*at == ',' || *at == '>')) {
            begin += *begin == ' ';
            size_t digits = strspn(begin, "0123456789");
            if (digits > 0 && digits < 4 && begin + digits == at && n < room)
                ret[n++] = (unsigned)g_ascii_strtoull(begin, NULL, 10);
            begin = at + 1;
        }
        depth -= *at == '>' || *at == ')';
    }
    return n;
}

/* PyTorch's functors over lists of tensors (ForeachFunctors.cuh): <type, lists, how many of them are read, which is written>; the fused optimizers'
 * (fused_adam_utils.cuh, FusedSgdKernel.cu): parameters, gradients, state. */
static void read_lists(const char *name, EchArguments *ret)
{
    const char *functor = strstr(name, "Functor<");
    unsigned numbers[3];
    size_t n = functor ? numbers_of(functor + strlen("Functor<"), numbers, 3) : 0;
    bool fused = strstr(name, "FusedOptimizerTensorListMetadata") || strstr(name, "FusedAdam") || strstr(name, "FusedSgd") || strstr(name, "FusedAdagrad");
    if (n == 0 || numbers[0] < 1 || numbers[0] > 8)
        return;
    ret->lists = numbers[0];
    if (fused) {
        ret->read = (1u << ret->lists) - 1;
        ret->written = ret->read & ~2u;
    } else if (n == 3 && numbers[1] <= ret->lists && numbers[2] < ret->lists) {
        ret->read = (1u << numbers[1]) - 1;
        ret->written = 1u << numbers[2];
    } else {
        ret->lists = 0;
        return;
    }
    /* One more list, of step counts. */
    if (strstr(name, "FusedOptimizerTensorListMetadata"))
        ret->read |= 1u << ret->lists++;
    ret->parameters[0] = ECH_PARAMETER_LISTS;
}

/* What an element-wise kernel's function has caught. Those of ScatterGatherKernel.cu have addresses in the order in which they take them, the index first. */
static EchParameter caught_by(const char *name)
{
    if (strstr(name, "_cuda_scatter_gather_internal_kernel<false"))
        return ECH_PARAMETER_GATHER;
    bool scatters = strstr(name, "_cuda_scatter_gather_internal_kernel<true") || strstr(name, "_cuda_scatter_fill_internal_kernel<");
    return scatters ? ECH_PARAMETER_SCATTER : ECH_PARAMETER_RESULTS;
}

void ech_arguments_read(const char *name, EchArguments *ret)
{
    *ret = (EchArguments){0};
    size_t length = strlen(name);
    ret->result_last = strcmp(name, "main_kernel") == 0 || (strstr(name, "_GPU_DT_") && g_str_has_suffix(name, "_kernel"));
    const char *at = parameters_of(name, length), *end = name + length - 1, *marks = strchr(name, '<');
    if (!at)
        return;
    /* In the function's own name, not in its arguments'. */
    bool elementwise = marks && g_strstr_len(name, marks - name, "elementwise_kernel") != NULL;
    EchParameter caught = elementwise ? caught_by(name) : ECH_PARAMETER_RESULTS;
    int depth = 0;
    unsigned lists = 0;
    for (const char *begin = at, *p = at; p <= end && ret->n < ECH_MAX_PARAMETERS; p++) {
        if (p == end || (*p == ',' && depth == 0)) {
            begin += *begin == ' ';
            EchParameter kind = parameter_of(begin, p, elementwise);
            ret->parameters[ret->n++] = (uint8_t)(kind == ECH_PARAMETER_RESULTS ? caught : kind);
            lists += ends_with(begin, p, "**");
            begin = p + 1;
        }
        depth += *p == '(' || *p == '<' || *p == '{';
        depth -= *p == ')' || *p == '>' || *p == '}';
    }
    ret->beyond = lists > 1;
    if (marks && g_strstr_len(name, marks - name, "multi_tensor_apply_kernel"))
        read_lists(name, ret);
}

EchAddressAccess ech_arguments_by_result(const GArray *list, guint i)
{
    guint last = list->len - 1, same = 0;
    uint64_t result = g_array_index(list, uint64_t, last);
    for (guint k = 1; k <= last; k += 2)
        same += g_array_index(list, uint64_t, k) == result;
    if (same < 2)
        return ECH_ADDRESS_ANY;
    if (g_array_index(list, uint64_t, i) != result)
        return ECH_ADDRESS_READ;
    return same > 2 ? ECH_ADDRESS_UPDATE : ECH_ADDRESS_WRITE;
}

EchAddressAccess ech_arguments_access(const EchArguments *arguments, uint64_t parameter, const uint64_t *addresses, size_t n, size_t i)
{
    EchParameter kind = parameter < arguments->n ? (EchParameter)arguments->parameters[parameter] : ECH_PARAMETER_ANY;
    if (kind == ECH_PARAMETER_CONST)
        return ECH_ADDRESS_READ;
    if (kind == ECH_PARAMETER_RESULTS) {
        for (size_t k = 1; i == 0 && k < n; k++)
            if (addresses[k] == addresses[0])
                return ECH_ADDRESS_UPDATE;
        return i == 0 ? ECH_ADDRESS_WRITE : ECH_ADDRESS_INPUT;
    }
    if (kind == ECH_PARAMETER_GATHER || kind == ECH_PARAMETER_SCATTER)
        return i != 1 ? ECH_ADDRESS_READ : kind == ECH_PARAMETER_GATHER ? ECH_ADDRESS_WRITE : ECH_ADDRESS_UPDATE;
    if (kind == ECH_PARAMETER_LISTS && n % arguments->lists == 0) {
        size_t list = i / (n / arguments->lists);
        bool reads = arguments->read >> list & 1, writes = arguments->written >> list & 1;
        return writes ? (reads ? ECH_ADDRESS_UPDATE : ECH_ADDRESS_WRITE) : ECH_ADDRESS_READ;
    }
    return ECH_ADDRESS_ANY;
}
