#include "sim/import/range_sizes.h"

#include <string.h>

size_t ech_range_bare_length(const char *name)
{
    static const char *const behind[] = {", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "};
    size_t length = strlen(name);
    for (size_t i = 0; i < G_N_ELEMENTS(behind); i++) {
        const char *at = strstr(name, behind[i]);
        if (at)
            length = MIN(length, (size_t)(at - name));
    }
    return length;
}

/* Operators whose sizes are those of the tensors of lists, one after another. */
static bool takes_lists(const char *name)
{
    return g_str_has_prefix(name, "aten::_foreach_") || g_str_has_prefix(name, "aten::_fused_ad") || g_str_has_prefix(name, "aten::_fused_sgd") ||
           g_str_has_prefix(name, "aten::_amp_foreach_") || g_str_has_prefix(name, "aten::cat,") || g_str_has_prefix(name, "aten::stack,") ||
           g_str_has_prefix(name, "aten::_cat,");
}

/* "sizes = [[8192, 768], [], [768, 2304]]" */
static size_t read_sizes(const char *name, EchDtype dtype, EchGpuInput *inputs, size_t room)
{
    const char *at = strstr(name, ", sizes = [");
    size_t n = 0;
    at = at ? at + 11 : "";
    while (*at == '[' && n < room) {
        EchGpuInput *input = &inputs[n++];
        *input = (EchGpuInput){.numel = 1, .dtype = (uint8_t)dtype};
        for (at++; g_ascii_isdigit(*at);) {
            int64_t value = 0;
            for (; g_ascii_isdigit(*at); at++)
                value = value < INT64_MAX / 16 ? value * 10 + (*at - '0') : value;
            if (input->rank < ECH_GPU_MAX_RANK)
                input->dims[input->rank++] = value;
            input->numel = ech_bytes_mul(input->numel, (uint64_t)value);
            at += *at == ',';
            at += *at == ' ';
        }
        input->known = input->rank > 0;
        if (*at != ']')
            break;
        at++;
        at += *at == ',';
        at += *at == ' ';
    }
    return n;
}

/* Sizes say no types: these are truth. */
static bool is_mask(const char *name, size_t input)
{
    return (input == 0 && g_str_has_prefix(name, "aten::where,")) ||
           (input == 1 && (g_str_has_prefix(name, "aten::masked_fill_,") || g_str_has_prefix(name, "aten::native_dropout_backward,")));
}

/* These are of 64 bits. */
static bool is_index(const char *name, size_t input)
{
    return (input == 1 && (g_str_has_prefix(name, "aten::index,") || g_str_has_prefix(name, "aten::_index_put_impl_,"))) ||
           ((input == 1 || input == 2) && g_str_has_prefix(name, "aten::_embedding_bag")) || (input == 1 && g_str_has_prefix(name, "aten::take,")) ||
           (input == 1 && (g_str_has_prefix(name, "aten::embedding,") || g_str_has_prefix(name, "aten::embedding_dense_backward,"))) ||
           (input == 2 && (g_str_has_prefix(name, "aten::gather,") || g_str_has_prefix(name, "aten::index_select,")));
}

/* Of "out bf16" or "inout bf16" the length of what is before the type. */
static size_t direction_length(const char *at)
{
    return g_str_has_prefix(at, "out ") ? 4 : g_str_has_prefix(at, "inout ") ? 6 : 0;
}

/* ", types = [bf16, s64, 4096, true, out f32, -]" behind the sizes: the types of arrays, and which of them are written; numbers, and what is so. */
static void read_types(const char *name, EchGpuInput *inputs, size_t n)
{
    const char *at = strstr(name, ", types = [");
    at = at ? at + 11 : "";
    for (size_t i = 0; i < n && *at && *at != ']'; i++) {
        size_t before = direction_length(at);
        at += before;
        size_t length = strcspn(at, ",]");
        EchDtype dtype = ech_dtype_parse(at, length);
        inputs[i].typed = dtype != ECH_DTYPE_NONE;
        inputs[i].written = before > 0;
        inputs[i].updated = before == 6;
        if (dtype != ECH_DTYPE_NONE) {
            inputs[i].dtype = (uint8_t)dtype;
        } else if (g_ascii_isdigit(*at)) {
            inputs[i].integers[0] = (int64_t)MIN(g_ascii_strtoull(at, NULL, 10), (uint64_t)INT64_MAX);
            inputs[i].n_integers = 1;
        } else if (length == 4 && memcmp(at, "true", 4) == 0) {
            inputs[i].truth = true;
        }
        at += length;
        at += *at == ',';
        at += *at == ' ';
    }
}

size_t ech_range_inputs(const char *name, EchDtype dtype, EchGpuInput *inputs, size_t room)
{
    size_t n = read_sizes(name, dtype, inputs, room);
    if (takes_lists(name)) {
        EchGpuInput list = {.dtype = ECH_DTYPE_NONE, .list = true, .known = true};
        for (size_t i = 0; i < n; i++)
            if (inputs[i].known) {
                list.numel = ech_bytes_add(list.numel, inputs[i].numel);
                list.largest = MAX(list.largest, inputs[i].numel);
            }
        inputs[0] = list;
        n = list.numel > 0 ? 1 : 0;
    }
    for (size_t i = 0; i < n; i++)
        if (is_index(name, i))
            inputs[i].dtype = ECH_DTYPE_S64;
        else if (is_mask(name, i))
            inputs[i].dtype = ECH_DTYPE_PRED;
    read_types(name, inputs, n);
    return n;
}

bool ech_range_tells_types(const char *name)
{
    return strstr(name, ", types = [") != NULL;
}

void ech_range_types_of(const EchGpuInput *outer, size_t n_outer, EchGpuInput *inputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_outer && inputs[i].known && !inputs[i].list; k++) {
            const EchGpuInput *other = &outer[k];
            if (other->known && !other->list && other->rank == inputs[i].rank && memcmp(other->dims, inputs[i].dims, sizeof other->dims) == 0) {
                inputs[i].dtype = other->dtype;
                break;
            }
        }
}
