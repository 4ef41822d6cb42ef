/** @file et.h
 * Execution traces of nodes and tensors, as Chakra and PyTorch write them, collected and made into a trace.
 *
 * A reader appends nodes in file order and finishes; what is common to both formats (order by dependencies, which nodes become kernels,
 * copies and collectives, how long storages live) is decided here.
 */
#pragma once
#include "sim/import/import.h"

/** Chakra's node types; the numbers are its own. */
typedef enum {
    ECH_ET_INVALID,
    ECH_ET_METADATA,
    ECH_ET_MEM_LOAD,
    ECH_ET_MEM_STORE,
    ECH_ET_COMP,
    ECH_ET_COMM_SEND,
    ECH_ET_COMM_RECV,
    ECH_ET_COMM_COLL,
    ECH_ET_STORAGE,
    ECH_ET_BATCH,
    ECH_ET_CHECKPOINT,
    ECH_N_ET_TYPES
} EchEtType;

typedef enum { ECH_ET_UNKNOWN, ECH_ET_HOST, ECH_ET_DEVICE } EchEtPlace;

/** A node; what is not known is 0 (or as said). Fill it, then append; tensors and dependencies come after. */
typedef struct {
    uint64_t id;
    EchId name;        /**< String id in the builder of the collection. */
    uint8_t type;      /**< EchEtType */
    uint8_t place;     /**< EchEtPlace: what is_cpu_op says */
    uint8_t comm_type; /**< CollectiveCommType + 1, or 0 */
    bool has_comm_bytes;
    uint64_t comm_bytes;
    uint32_t comm_src, comm_dst; /**< Ranks + 1. */
    int64_t comm_tag;
    uint64_t comm_group;           /**< Of those who take part, by their name (ech_et_group); 0: all ranks. */
    uint64_t tensor_bytes;         /**< Attribute tensor_size. */
    uint64_t num_ops;              /**< Operations, as generators state them, or as the operator's shapes say. */
    uint8_t work_unit, work_dtype; /**< Of num_ops: EchWorkUnit, EchDtype; ECH_DTYPE_NONE: not known, and bf16 on the matrix unit is assumed. */
    int64_t thread;                /**< tid: CPU thread or GPU stream */
    int64_t start_us, duration_us; /**< -1 unknown. */
} EchEtNode;

typedef struct EchEt EchEt;

/** The type that schemas name "COMP_NODE" and so on; ECH_N_ET_TYPES where it is none. */
EchEtType ech_et_type(const char *name);
/** An empty collection; @format names what it came from. */
EchEt *ech_et_new(const char *format) G_GNUC_WARN_UNUSED_RESULT;
void ech_et_free(EchEt *et);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchEt, ech_et_free)
/** Interns a text; @length < 0 means strlen. */
EchId ech_et_string(EchEt *et, const char *text, gssize length);
/** The rank whose file @path is, where it has a name as Chakra's writers give it, NAME.RANK.et. */
void ech_et_rank_of(EchEt *et, const char *path);
/** A number for the group of a name; 0 for "". */
uint64_t ech_et_group(const char *name, size_t n);
/** Sets a property of the trace. */
void ech_et_property(EchEt *et, const char *key, const char *value);
/** Appends a node. */
void ech_et_node(EchEt *et, EchEtNode node);
/** Of the last node: it comes after node @id. Data decide the order; control (the caller, in files made from PyTorch's) is kept where it does not
 * contradict data, and counts as data in files without any. */
void ech_et_dep(EchEt *et, uint64_t id, bool control);
/** Of the last node: an array [tensor_id, storage_id, offset, n_elements, element_bytes, device]. Ignored where a number is negative or sizes overflow. */
void ech_et_tensor(EchEt *et, bool written, const int64_t numbers[5], const char *device, size_t device_length);
/** Makes the trace. Nodes that a dependency cycle holds are appended in file order, counted. @by_id: file order means nothing, ids do. */
EchTrace *ech_et_finish(EchEt *et, bool by_id, EchImport *import, GError **error) G_GNUC_WARN_UNUSED_RESULT;
