/* Which addresses a launch hands to its kernel: words of its parameters that lie in memory of a device. Structures of fixed size are seldom filled, and hold
 * whatever lay on the stack behind that: of those that PyTorch launches often, what is filled is known; for all others the stack is cleared. */
#include "pretend.h"

#include <string.h>

static const uint8_t *parameter(const PretendKernelCode *code, void *const *arguments, size_t i, size_t *ret_bytes)
{
    *ret_bytes = i < code->n_parameters && arguments[i] ? code->parameters[i] : 0;
    return *ret_bytes ? arguments[i] : NULL;
}

/* Words [first, first + n) of a parameter. */
static void tell_words(size_t which, const uint8_t *data, size_t bytes, size_t first, size_t n)
{
    for (size_t i = first; i < first + n && (i + 1) * sizeof(uint64_t) <= bytes; i++) {
        uint64_t word;
        memcpy(&word, data + i * sizeof word, sizeof word);
        if (pretend_is_address(word))
            pretend_argument(which, word);
    }
}

/* Bytes of a scalar by its mangled type; 0 where it is none that is known. */
static size_t scalar_bytes(const char *type)
{
    static const struct {
        const char *type;
        size_t bytes;
    } known[] = {{"f", 4}, {"i", 4}, {"d", 8}, {"l", 8}, {"s", 2}, {"a", 1}, {"b", 1}, {"h", 1}, {"N3c107complexId", 16}, {"N3c107complexIf", 8}, {"N3c10", 2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(type, known[i].type, strlen(known[i].type)) == 0)
            return known[i].bytes;
    return 0;
}

/* Lists of tensors (ATen/native/cuda/MultiTensorApply.cuh of PyTorch 2.1 to 2.15): rows of @room addresses, how many is in the type's name; a row of their
 * sizes; one of scalars, or of addresses of step counts; for every block its tensor and its chunk. Blocks are 320 and tensors numbered in a byte, or, where
 * parameters may be longer than 4 KiB, 2240 and 16 bits. False where the first parameter is none of these. */
static bool tell_lists(const PretendKernelCode *code, const uint8_t *data, size_t bytes, unsigned n_blocks)
{
    static const char scalars[] = "28TensorListScalarListMetadataI", steps[] = "32FusedOptimizerTensorListMetadataILi", lists[] = "18TensorListMetadataILi";
    const char *at, *number;
    size_t more = 0, last = 4; /* bytes a tensor has besides, and behind all */
    if ((at = strstr(code->name, scalars))) {
        more = scalar_bytes(at + strlen(scalars));
        last = 0;
        number = strstr(at + strlen(scalars), "Li");
        number = number ? number + 2 : "";
    } else if ((at = strstr(code->name, steps))) {
        more = sizeof(uint64_t);
        number = at + strlen(steps);
    } else if ((at = strstr(code->name, lists))) {
        number = at + strlen(lists);
    } else {
        return false;
    }
    bool wide = bytes > 4096;
    size_t rows = *number >= '1' && *number <= '9' ? (size_t)(*number - '0') : 0, width = wide ? 2 : 1, blocks = (wide ? 2240u : 320u) * (width + 4) + last;
    if (rows == 0 || bytes <= blocks || n_blocks > (wide ? 2240u : 320u) || (!last && more == 0))
        return false;
    size_t each = (rows + 1) * sizeof(uint64_t) + more, room = (bytes - blocks) / each, used = 0;
    for (unsigned i = 0; i < n_blocks; i++) {
        uint16_t tensor = 0;
        memcpy(&tensor, data + (room * each + width - 1) / width * width + i * width, width);
        used = tensor >= used ? (size_t)tensor + 1 : used;
    }
    if (used > room)
        return false;
    for (size_t row = 0; row < rows + (last && more ? 2 : 0); row++)
        if (row != rows) /* sizes */
            tell_words(0, data, bytes, row * room, used);
    return true;
}

/* Where TensorFlow's element-wise kernels have their result: Eigen's assignments first, those that its compiler made ("AddV2_GPU_DT_FLOAT_DT_FLOAT_kernel";
 * "main_kernel" at run time) last. They may write over what the host copied there. */
typedef enum { NOWHERE, FIRST, LAST } Result;

static Result result_of(const char *name)
{
    size_t n = strlen(name), end = strlen("_kernel");
    if (strstr(name, "15EigenMetaKernel") && strstr(name, "14TensorAssignOp"))
        return FIRST;
    if (strcmp(name, "main_kernel") == 0)
        return LAST;
    return strstr(name, "_GPU_DT_") && n > end && strcmp(name + n - end, "_kernel") == 0 ? LAST : NOWHERE;
}

static void forget_result(const PretendKernelCode *code, void *const *arguments, Result where)
{
    uint64_t result = 0;
    for (size_t i = 0; i < code->n_parameters; i++) {
        size_t bytes;
        const uint8_t *data = parameter(code, arguments, i, &bytes);
        for (size_t at = 0; data && at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, data + at, sizeof word);
            if ((where == LAST || result == 0) && pretend_is_address(word))
                result = word;
        }
    }
    PretendBlock block;
    if (result != 0 && pretend_find((const void *)result, &block))
        pretend_clear((void *)result, block.address + block.bytes - result);
}

/* As far down as an operator's frames reach between what it asks first (which device, on each guard) and its launch. AddressSanitizer would keep the array
 * elsewhere. */
__attribute__((noinline, no_sanitize("address"))) void pretend_clear_stack(void)
{
    enum { BELOW = 16384 };
    uint8_t below[BELOW];
    explicit_bzero(below, sizeof below);
}

/* PyTorch's element-wise kernels that take a place in each array apart (ATen/native/cuda/CUDALoops.cuh, gpu_kernel_impl): in their last parameter how many
 * dimensions, of each its size and two numbers to divide by it (OffsetCalculator.cuh, MAX_DIMS; IntegerDivider.cuh), then of each a step in bytes for every
 * array, then the arrays. How many those dimensions are (0: this is no such kernel), and how many sectors of 32 bytes 32 neighbours touch (0: what they touch
 * lies together). */
static unsigned scattered_sectors(const PretendKernelCode *code, void *const *arguments, unsigned *ret_axes)
{
    enum { MOST_DIMENSIONS = 25, MOST_ARRAYS = 6, LANES = 32, SECTOR = 32 };
    size_t bytes = 0, n = 0, last = code->n_parameters > 0 ? code->n_parameters - 1 : 0;
    const uint8_t *data = strstr(code->name, "gpu_kernel_impl") ? parameter(code, arguments, last, &bytes) : NULL;
    uint32_t words[1 + 3 * MOST_DIMENSIONS + MOST_DIMENSIONS * MOST_ARRAYS];
    for (size_t arrays = 1; data && n == 0 && arrays <= MOST_ARRAYS; arrays++) {
        size_t at = (4 * (1 + 3 * MOST_DIMENSIONS + MOST_DIMENSIONS * arrays) + 7) / 8 * 8, found = 0;
        for (size_t i = 0; i < arrays && at + 8 * arrays <= bytes; i++) {
            uint64_t word;
            memcpy(&word, data + at + 8 * i, sizeof word);
            found += pretend_is_address(word);
        }
        n = found == arrays ? arrays : 0;
    }
    *ret_axes = 0;
    if (n == 0)
        return 0;
    memcpy(words, data, 4 * (1 + 3 * MOST_DIMENSIONS + MOST_DIMENSIONS * n));
    unsigned touched = 0;
    bool apart = false;
    for (size_t array = 0; array < n && words[0] <= MOST_DIMENSIONS; array++) {
        uint64_t sectors[LANES];
        unsigned n_sectors = 0;
        for (unsigned lane = 0; lane < LANES; lane++) {
            uint64_t rest = lane, place = 0;
            for (size_t d = 0; d < words[0]; d++) {
                uint64_t size = words[1 + 3 * d] > 0 ? words[1 + 3 * d] : 1;
                place += rest % size * words[1 + 3 * MOST_DIMENSIONS + d * n + array];
                rest /= size;
            }
            unsigned i = 0;
            while (i < n_sectors && sectors[i] != place / SECTOR)
                i++;
            if (i == n_sectors)
                sectors[n_sectors++] = place / SECTOR;
        }
        touched += n_sectors;
        apart |= n_sectors > LANES / 2; /* what lies together are 16 at most, of complex doubles */
    }
    *ret_axes = words[0] <= MOST_DIMENSIONS ? words[0] : 0;
    return apart ? touched : 0;
}

static void tell_arguments(const PretendKernelCode *code, void *const *arguments, PretendDim grid)
{
    unsigned axes, sectors = scattered_sectors(code, arguments, &axes);
    pretend_places(sectors, axes);
    size_t bytes;
    const uint8_t *data = parameter(code, arguments, 0, &bytes);
    bool lists = data && tell_lists(code, data, bytes, grid.x);
    /* What is joined: as many addresses as the grid has rows, first in their structure (CatArrInputTensorMetadata). */
    bool joins = strstr(code->name, "CatArray") != NULL;
    for (size_t i = lists; i < code->n_parameters; i++) {
        data = parameter(code, arguments, i, &bytes);
        if (data)
            tell_words(i, data, bytes, 0, joins && i == 1 ? grid.y : bytes / sizeof(uint64_t));
    }
}

void pretend_arguments(const PretendKernelCode *code, void *const *arguments, PretendDim grid, PretendDim block, size_t shared)
{
    if (pretend_use_told())
        return;
    if (!pretend_moves(code, arguments, grid, block, shared))
        tell_arguments(code, arguments, grid);
    if (result_of(code->name) != NOWHERE)
        forget_result(code, arguments, result_of(code->name));
}
