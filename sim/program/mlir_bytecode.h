/** @file mlir_bytecode.h
 * MLIR bytecode (mlir/docs/BytecodeFormat.md), versions 0 to 6: what JAX writes of a Pallas kernel into the backend_config of its custom call (0 of a TPU's, 6
 * of a GPU's). Operations, values, types and attributes as they stand; nothing is known of any dialect but the builtin one's types and attributes.
 *
 * Input is untrusted: every count is checked against the bytes that are left, nesting is limited. Memory is linear in the input.
 */
#pragma once
#include "sim/base/error.h"
#include "sim/base/units.h"

#define ECH_MLIR_MAX_RANK 8
#define ECH_MLIR_NONE UINT32_MAX

typedef enum { ECH_MLIR_OTHER, ECH_MLIR_INTEGER, ECH_MLIR_INDEX, ECH_MLIR_FLOAT, ECH_MLIR_VECTOR, ECH_MLIR_MEMREF, ECH_MLIR_TENSOR } EchMlirKind;

/** A type. Vectors, memrefs and tensors: their dimensions and their elements' bits. */
typedef struct {
    uint8_t kind; /**< EchMlirKind. */
    uint8_t rank; /**< Of a vector, memref or tensor; more than ECH_MLIR_MAX_RANK makes it ECH_MLIR_OTHER. */
    uint8_t is_float;
    uint16_t bits;                   /**< Of an element; 0: not a number. */
    uint32_t space;                  /**< Attribute of a memref's memory space; ECH_MLIR_NONE: it names none. */
    int64_t dims[ECH_MLIR_MAX_RANK]; /**< Outermost first; negative: dynamic. */
} EchMlirType;

typedef struct {
    const char *name;              /**< With its dialect: "stable_mosaic.tpu.matmul". Borrowed from the module. */
    uint32_t attributes;           /**< Dictionary; ECH_MLIR_NONE: has none. */
    uint32_t properties;           /**< Into EchMlirModule.properties; ECH_MLIR_NONE: has none. */
    uint32_t operands, n_operands; /**< Into EchMlirModule.operands. */
    uint32_t result, n_results;    /**< First result's value, in its scope; its type is EchMlirModule.results[result_types]. */
    uint32_t result_types;
    uint32_t regions, n_regions; /**< Into EchMlirModule.regions: the first block of each, or ECH_MLIR_NONE. */
    uint32_t next;               /**< Next operation of the block; ECH_MLIR_NONE: the last. */
} EchMlirOp;

typedef struct {
    uint32_t argument, n_arguments; /**< First argument's value; types in EchMlirModule.results[argument_types]. */
    uint32_t argument_types;
    uint32_t first; /**< First operation; ECH_MLIR_NONE: empty. */
    uint32_t next;  /**< Next block of the region. */
} EchMlirBlock;

typedef struct {
    uint32_t value, type;
} EchMlirOperand;

typedef struct {
    uint32_t at, n; /**< Its bytes in the input. */
    bool custom;    /**< In the dialect's own coding; false: text. */
    bool builtin;   /**< Of the builtin dialect. */
} EchMlirEntry;

/** A module. Arrays are its own; free with ech_mlir_free. The bytes it was read from must outlive it. */
typedef struct {
    const uint8_t *bytes;
    GPtrArray *strings, *names;
    GArray *entries;    /**< EchMlirEntry: attributes, then types. */
    GArray *types;      /**< EchMlirType. */
    GArray *ops;        /**< EchMlirOp; the first is the module itself. */
    GArray *blocks;     /**< EchMlirBlock. */
    GArray *regions;    /**< uint32_t. */
    GArray *operands;   /**< EchMlirOperand. */
    GArray *results;    /**< uint32_t: types of results and block arguments. */
    GArray *properties; /**< EchMlirEntry: in the coding of the operation's dialect. */
    uint32_t version;
    uint32_t n_attributes;
    uint32_t n_values; /**< Most values in one scope. */
} EchMlirModule;

/** Reads a module. Errors: ECH_ERROR_PARSE with the byte offset, ECH_ERROR_UNSUPPORTED for a later version than 6. */
EchMlirModule *ech_mlir_read(const uint8_t *bytes, size_t n, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_mlir_free(EchMlirModule *module);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchMlirModule, ech_mlir_free)

static inline const EchMlirOp *ech_mlir_op(const EchMlirModule *module, uint32_t op)
{
    return op < module->ops->len ? &g_array_index(module->ops, EchMlirOp, op) : NULL;
}

static inline const EchMlirBlock *ech_mlir_block(const EchMlirModule *module, uint32_t block)
{
    return block < module->blocks->len ? &g_array_index(module->blocks, EchMlirBlock, block) : NULL;
}

static inline const EchMlirType *ech_mlir_type(const EchMlirModule *module, uint32_t type)
{
    return type < module->types->len ? &g_array_index(module->types, EchMlirType, type) : NULL;
}

/** Operand @k of @op; both ECH_MLIR_NONE where it has fewer. */
static inline EchMlirOperand ech_mlir_operand(const EchMlirModule *module, const EchMlirOp *op, uint32_t k)
{
    return k < op->n_operands ? g_array_index(module->operands, EchMlirOperand, op->operands + k) : (EchMlirOperand){ECH_MLIR_NONE, ECH_MLIR_NONE};
}

/** Type of the first result, or NULL. */
static inline const EchMlirType *ech_mlir_result_type(const EchMlirModule *module, const EchMlirOp *op)
{
    return op->n_results > 0 ? ech_mlir_type(module, g_array_index(module->results, uint32_t, op->result_types)) : NULL;
}

/** An attribute of a dictionary by name; ECH_MLIR_NONE if absent. */
uint32_t ech_mlir_find(const EchMlirModule *module, uint32_t dictionary, const char *name);
/** Attribute @k of properties that are nothing but attributes, one after the other; ECH_MLIR_NONE past their end. */
uint32_t ech_mlir_property(const EchMlirModule *module, const EchMlirOp *op, uint32_t k);
/** The value of an integer attribute of at most 64 bits, a boolean too. */
bool ech_mlir_integer(const EchMlirModule *module, uint32_t attribute, int64_t *ret);
/** A string, or the name that a symbol reference gives; NULL for others. Borrowed. */
const char *ech_mlir_string(const EchMlirModule *module, uint32_t attribute);
/** Whether an attribute in text form holds @part: "#tpu.memory_space<smem>". */
bool ech_mlir_text_has(const EchMlirModule *module, uint32_t attribute, const char *part);
/** The numbers of a dense array of 32- or 64-bit integers; at most @max, returns how many there are. */
size_t ech_mlir_numbers(const EchMlirModule *module, uint32_t attribute, int64_t *ret, size_t max);
/** Element @k of an array attribute; ECH_MLIR_NONE past its end. */
uint32_t ech_mlir_element(const EchMlirModule *module, uint32_t attribute, size_t k);
