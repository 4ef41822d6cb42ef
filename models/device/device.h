/** @file device.h
 * A device description: compute units, memories, links, runtime costs and model constants, each number with its source.
 *
 * Plain data. Read from configs/devices/NAME.yaml by device_yaml.c; never derived from another number except where the file says so.
 */
#pragma once
#include "sim/base/units.h"
#include "sim/base/diag.h"

typedef enum {
    ECH_MEM_HBM,
    ECH_MEM_VECTOR,
    ECH_MEM_COMMON,
    ECH_MEM_SCALAR,
    ECH_MEM_ACCUMULATOR,
    ECH_MEM_CACHE,
    ECH_MEM_HOST_PINNED,
    ECH_MEM_HOST_PAGEABLE,
    ECH_MEM_DISK
} EchMemoryKind;

/** One point of a link's size curve: at @bytes per transfer the rate reached is @rate. Between points: linear in time. */
typedef struct {
    EchBytes bytes;
    EchRate rate;
} EchCurvePoint;

typedef struct {
    char *name; /**< "hbm", "vector", "common", "scalar", "accumulator", "l2", "host". */
    EchMemoryKind kind;
    int32_t space;             /**< XLA memory-space number (0 hbm, 1 vector, 5 host, ...), -1 none. */
    EchBytes capacity;         /**< Data sheet. */
    EchBytes available;        /**< What the runtime hands out; = capacity where not given. */
    EchBytes assignment_limit; /**< Where the compiler's heap falls back; = available where not given. */
    EchBytes kernel_reserved;  /**< Kept by the compiler for kernels' own windows. */
    EchRate read, write, both; /**< Achievable bandwidth; both: mixed total. 0 = unlimited. */
    EchRate nominal;           /**< Data-sheet bandwidth. */
    EchTime latency;
    EchBytes granule; /**< Smallest access. */
    bool assignable;  /**< The compiler may place values here. */
    uint32_t within;  /**< 1 + index of the memory whose bytes these are (of a host that has one with the device), 0: they are its own. */
    char *dram;       /**< Generation whose timing holds (models/memory/hbm.h: "hbm2e"), or NULL. */
} EchMemory;

typedef struct {
    char *name;                        /**< "host", "ici", "nvlink", "network". */
    uint32_t from, to;                 /**< Memory indices; to == from for links between devices. */
    EchRate nominal;                   /**< Each way, data sheet. */
    EchRate to_device, from_device;    /**< Achieved alone. */
    EchRate both_ways;                 /**< Total achieved when both directions run; 0 = sum of the two. */
    EchTime latency;                   /**< One way. */
    EchTime setup;                     /**< Per transfer. */
    uint32_t engines_to, engines_from; /**< Transfers in flight per direction. */
    uint32_t ports;                    /**< Links of this kind per chip (ICI, NVLink); 1 elsewhere. */
    uint32_t ring;                     /**< Length from which an axis of a TPU slice closes into a ring (models/link/link.h); 0: any. */
    bool one_way;                      /**< Of a TPU's chips: how reductions that leave each its part go round (models/link/link.h). */
    uint32_t sharers;                  /**< Devices of a chip, which share its links. */
    uint32_t reach;                    /**< Devices that links to a switch join, those of a host; beyond is a network. 0: any number. */
    bool coherent;                     /**< The device reads and writes memory beyond it by itself, as its own (NVLink-C2C). */
    bool mesh;                         /**< Without a switch: of the ports as many lead to each of the reach - 1 others. */
    EchCurvePoint *curve;              /**< To the device, and from it too where that has none of its own. */
    size_t n_curve;
    EchRate measured_to, measured_from; /**< to_device and from_device beside which its curves were measured; 0: as now. */
    EchCurvePoint *curve_from;          /**< From the device ("curve_from_device"). */
    size_t n_curve_from;
} EchLink;

typedef enum { ECH_UNIT_MATRIX, ECH_UNIT_VECTOR, ECH_UNIT_TRANSCENDENTAL, ECH_UNIT_SCALAR } EchUnitKind;

typedef struct {
    char *dtype;  /**< "bf16", "f32", "s8", ... */
    uint64_t ops; /**< Peak operations per second of the whole device (all cores). */
} EchPeak;

typedef struct {
    char *name; /**< "matrix", "vector", "transcendental", "scalar". */
    EchUnitKind kind;
    uint32_t count;         /**< Per core. */
    uint32_t rows, columns; /**< Systolic dimensions, or sublanes and lanes. */
    uint64_t clock_hz;
    EchPeak *peaks; /**< peaks[n_peaks] */
    size_t n_peaks;
    uint64_t counted_clock, counted_peak; /**< Its clock, and its peak for f32, beside which models' constants in cycles hold; 0: as now. */
} EchUnit;

/** A number of a model (kernel costs, runtime, layout), by dotted path. Values are what the file says, as double; integers up to 2^53 exact. */
typedef struct {
    char *path; /**< "runtime.launch_ps", "kernel.step_overhead_cycles", ... */
    double value;
    char *source;  /**< Where it comes from, or "assumed". */
    uint64_t hash; /**< Of the path (ech_hash_bytes), so that models find it soon; 0 where it was not made. */
} EchDeviceNumber;

typedef struct EchDevice {
    char *name;       /**< "tpu-v5e" */
    char *summary;    /**< One line. */
    char *family;     /**< "tpu" or "gpu" */
    char *compiler;   /**< Key of compiler rules: "v5e", "h100", "gfx942" (AMD's), ...; may be "". */
    char **products;  /**< What the hardware calls itself in captures: "NVIDIA H100 80GB HBM3"; NULL-terminated, may be NULL. */
    char *calibrated; /**< Day on which one such device was measured for this file; NULL where its numbers are the kind's (data sheets, compilers). */
    char *unmeasured; /**< Where nobody's times of such a device were to be had: what its rates rest on instead ("announced figures; ..."), else NULL. */
    uint32_t cores;   /**< Cores that share one program's device (1 for v3 per-core devices). */
    EchMemory *memories;
    size_t n_memories;
    EchLink *links;
    size_t n_links;
    EchUnit *units;
    size_t n_units;
    EchDeviceNumber *numbers; /**< Every number of the file, in file order, for `list --sources` and models. */
    size_t n_numbers;
    uint32_t *number_slots; /**< number_slots[n_slots]: an open table over the hashes of paths, 1 + index into numbers or 0; NULL: numbers are searched. */
    size_t n_slots;         /**< A power of two. */
    uint64_t hash;          /**< Of the canonical content. */
} EchDevice;

EchDevice *ech_device_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_device_free(EchDevice *device);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchDevice, ech_device_free)

/** NULL where the device has none of that name or kind. Borrowed. */
const EchMemory *ech_device_memory(const EchDevice *device, const char *name);
/** Of several of a kind the one that is called as in shipped devices, else the first that has a number of XLA's. */
const EchMemory *ech_device_memory_kind(const EchDevice *device, EchMemoryKind kind);
const EchMemory *ech_device_space(const EchDevice *device, int32_t space);
/** The memory whose bytes those of @memory are: itself, or the one that it is within. */
const EchMemory *ech_device_bytes_of(const EchDevice *device, const EchMemory *memory);
/** Whether host and device have one memory. */
bool ech_device_shares_host(const EchDevice *device);
const EchLink *ech_device_link(const EchDevice *device, const char *name);
/** The link that joins two memories (by index), or NULL; *ret_forward says whether from -> to is its to_device direction. */
const EchLink *ech_device_link_between(const EchDevice *device, const EchMemory *from, const EchMemory *to, bool *ret_forward);
/** The link that a transfer between two memories takes: the one that joins them, else, between the host and any memory of the device, the host's, wherever on
 * the device it ends. NULL where there is none. */
const EchLink *ech_device_transfer_link(const EchDevice *device, const EchMemory *from, const EchMemory *to, bool *ret_forward);
/** The link to the host's memory, whatever either is called; *ret_forward (may be NULL) says whether its to_device direction leads to the device. NULL where
 * there is none. */
const EchLink *ech_device_host_link(const EchDevice *device, bool *ret_forward);
const EchUnit *ech_device_unit(const EchDevice *device, EchUnitKind kind);
/** Peak of a unit for a dtype; falls back to the nearest wider dtype the unit lists, then to its first; 0 where the unit is NULL or lists none. */
uint64_t ech_unit_peak(const EchUnit *unit, const char *dtype);
/** The peak that it falls back to where the unit has none of that type or of a wider one of its family (floats, integers), NULL where it need not. */
const EchPeak *ech_unit_peak_borrowed(const EchUnit *unit, const char *dtype);
/** Model constant by path, or @fallback. */
double ech_device_number(const EchDevice *device, const char *path, double fallback);
/** Where it comes from; NULL where the device has none. Borrowed. */
const char *ech_device_number_source(const EchDevice *device, const char *path);
bool ech_device_has_number(const EchDevice *device, const char *path);
/** Bytes of its main memory that a process's context has taken before it asks for any: runtime.driver.context_bytes; of a GPU that does not say, 512 MiB. */
EchBytes ech_device_context(const EchDevice *device);
/** Of the host link's rate, from 0.001 to 1, what a copy to another device over it gets: runtime.driver.peer_share. Less than 1 where the driver does not let
 * devices reach one another and stages such copies in the host's memory, which it does of GeForces (NCCL's issue 1309); 1 where it does or nothing is said. */
double ech_device_peer_share(const EchDevice *device);

/** Whether it is a GPU by AMD: its compiler's key is a gfx target. */
bool ech_device_is_amd(const EchDevice *device);

/** Loads a device: a name found in the device folders (ECHELON_DEVICES, then beside the program, then the install) or a path to a
 * YAML file, or to XLA's gpu_target_config text; "NAME:PROFILE" is an instance of it (models/device/mig.h). @settings are "PATH=VALUE" with PATH below
 * `device.` ("memories.hbm.capacity=32GiB", "links.host.to_device=x0.5"), NULL-terminated or NULL. */
EchDevice *ech_device_load(const char *name_or_path, const char *const *settings, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Whether @product, as a capture names its hardware, is this device. Case does not matter. */
bool ech_device_is_product(const EchDevice *device, const char *product);
/** The device among those found whose products include @product ("NVIDIA H100 80GB HBM3"; " MIG 1g.10gb" behind it is an instance of it), a calibrated one (one
 * specimen) only where there is no other; NULL where there is none. Files that do not load are passed over. */
EchDevice *ech_device_load_product(const char *product) G_GNUC_WARN_UNUSED_RESULT;
/** What a driver says of a GPU; 0: not said. */
typedef struct {
    bool amd;
    uint64_t multiprocessors, clock_hz;
    double capability; /**< NVIDIA's. */
    EchBytes memory;
} EchGpuFigures;
/** The device among those found that is a GPU of these figures, whose multiprocessors, clock and memory must be said; of several that are alike the first by
 * name, none that is calibrated. NULL where there is none. Files that do not load are passed over. */
EchDevice *ech_device_load_figures(const EchGpuFigures *figures) G_GNUC_WARN_UNUSED_RESULT;
/** EchDevice of @family ("tpu", "gpu"), of AMD's or not, whose runtime hands out at least @bytes of hbm, the smallest first; none that is calibrated (one
 * specimen). Files that do not load are passed over. Owned by the caller. */
GPtrArray *ech_device_with_room(const char *family, bool amd, EchBytes bytes) G_GNUC_WARN_UNUSED_RESULT;
/** Whether two devices' memories are sold as of one size: equal in whole GiB. */
bool ech_device_same_size(const EchDevice *a, const EchDevice *b);
/** Of @devices, sorted by their room, one of each size: the first of which measured times are known, else the first. @devices keeps them. */
GPtrArray *ech_device_of_each_size(const GPtrArray *devices) G_GNUC_WARN_UNUSED_RESULT;
/** Names of all devices found, sorted, NULL-terminated; owned by the caller. */
char **ech_device_list(void) G_GNUC_WARN_UNUSED_RESULT;
