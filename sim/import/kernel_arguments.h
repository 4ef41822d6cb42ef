/** @file kernel_arguments.h
 * What a kernel does with the addresses among its parameters, by its name as people write it: the types of its parameters are part of a template's name.
 */
#pragma once
#include "sim/import/arrays.h"

/** What is known of one parameter. */
typedef enum {
    ECH_PARAMETER_ANY,     /**< Nothing, or a pointer to what may be written. */
    ECH_PARAMETER_CONST,   /**< A pointer to what is not written. */
    ECH_PARAMETER_RESULTS, /**< PyTorch's element-wise kernels and Eigen's assignments: addresses of the result, then of operands. */
    ECH_PARAMETER_GATHER,  /**< PyTorch's gathers: the index, the result, what is taken from; */
    ECH_PARAMETER_SCATTER, /**< and scatters: the index, what is put into, what is put there. */
    ECH_PARAMETER_LISTS    /**< PyTorch's multi_tensor_apply: as many lists of addresses one after another as EchArguments says. */
} EchParameter;

enum { ECH_MAX_PARAMETERS = 64 };

/** Of a kernel. */
typedef struct {
    size_t n;
    uint8_t parameters[ECH_MAX_PARAMETERS]; /**< EchParameter; those behind are ECH_PARAMETER_ANY. */
    unsigned lists;                         /**< ECH_PARAMETER_LISTS. */
    uint32_t read, written;                 /**< A bit for each list. */
    bool beyond;      /**< What it reads and what it writes lies at addresses that lie elsewhere ("char**, char**"): none tells how much. */
    bool result_last; /**< TensorFlow's generated kernels: the last address of all is the result's, the others operands'. */
} EchArguments;

/** By its name. */
void ech_arguments_read(const char *name, EchArguments *ret);
/** What is done with address @i of @addresses[@n], all of parameter @parameter. */
EchAddressAccess ech_arguments_access(const EchArguments *arguments, uint64_t parameter, const uint64_t *addresses, size_t n, size_t i);
/** The same where the result is last: @list is of pairs of a parameter and an address, @i of one of its addresses. Each array's stands there twice, as MLIR's
 * descriptors have it: the allocation's and the first element's; what has it once is another's kernel. */
EchAddressAccess ech_arguments_by_result(const GArray *list, guint i);
