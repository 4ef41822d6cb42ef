/* The GPU that is not there: libraries of CUDA's names over ordinary memory, for `echelon capture --pretend DEVICE`.
 *
 * The library is preloaded into a program that was built for CUDA (PyTorch's wheels, say). Its symbols stand before those of libcudart, libcublas and others,
 * and it is found as libcuda.so.1. Allocations get addresses and are counted against the device's memory, streams and events have their order, kernels are not
 * run: what is written down is what was asked for. Results are zeros: a program whose sizes hang on computed values takes another way than on a GPU.
 *
 * Environment (set by `echelon capture`): ECHELON_PRETEND_DEVICE, "key=value" joined by ';' (Device below), ECHELON_PRETEND_OUT, the file's name ("%p" is the
 * process id), ECHELON_PRETEND_PROCESSES, a file by which all processes of a capture know what each takes of the devices (memory.c). Everything that threads
 * share is under one lock (record.c); a process made by fork() alone writes nothing. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRETEND_EXPORT __attribute__((visibility("default")))

/* ---- what is pretended ---- */

typedef struct {
    char id[64], name[128]; /* echelon's name and the driver's */
    uint64_t bytes;         /* of device memory, as the driver reports them */
    uint64_t context_bytes; /* taken by the driver's context before the first allocation */
    uint32_t devices;       /* how many the process sees */
    uint32_t all_devices;   /* of the host */
    uint32_t links;         /* of each to the others or to a switch; 0: over PCIe */
    bool staged;            /* over PCIe the driver copies between devices by the host's memory */
    uint32_t multiprocessors, major, minor;
    uint32_t threads, blocks; /* of a multiprocessor */
    uint32_t clock_khz, memory_clock_khz, memory_bus_bits;
    uint64_t l2_bytes, shared_per_multiprocessor;
    uint64_t shared_per_block; /* that asks for it */
    uint64_t host_rate;        /* bytes/s of the link to the host */
} PretendDevice;

/* Reads the environment once. */
const PretendDevice *pretend_device(void);
/* Whether devices read and write each other's memory: over NVLink all do, over PCIe those whose copies are not staged. */
bool pretend_reaches_peers(void);

/* ---- the lock (record.c) ---- */

/* The lock of all that threads share; who has it may take it again. Lines that are written under it stand together, whatever other threads write. While it is
 * held nothing of the program's is called, and nothing is loaded: the dynamic linker has a lock of its own, and runs constructors that call us. */
void pretend_lock(void);
void pretend_unlock(void);

/* ---- what is written (record.c); the lines stand in sim/import/pretend.c ---- */

/* From now on work says which thread asks for it, where that is not the one of the line before. */
void pretend_name_threads(void);
/* One line: a word, then what @format says. A newline is added. Safe from every thread. */
void pretend_line(const char *word, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "WORD T <format>": of the host, at once. Times never fall from line to line. */
void pretend_event(const char *word, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "WORD T DEVICE STREAM <format>": work on @stream, now, or, where the stream is captured into a graph, whenever the graph is launched. @word is a literal. */
void pretend_work(const char *word, void *stream, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Whether @process still runs: one that has ended may wait for its parent. */
bool pretend_runs(long process);
/* Whether this thread asked for work or memory last. */
bool pretend_asks(void);
/* The program read a result back that it may decide by. */
void pretend_looked(void);
/* The number of a text, written as `name NUMBER "TEXT"` at its first use. */
uint32_t pretend_name(const char *text);
/* The same for a kernel's symbol, which is written as people write it. */
uint32_t pretend_symbol(const char *symbol);
/* As pretend_name(), of a text that will hardly come again: it is not remembered. */
uint32_t pretend_new_name(const char *text);
/* A warning on standard error, once for each @what. */
void pretend_say_once(const char *what);

/* A function of a library that says, once, that it is not pretended, and tells the program @status, the library's own "not supported". */
#define PRETEND_REFUSED(name, status)                                                                                                                          \
    PRETEND_EXPORT int name(void)                                                                                                                              \
    {                                                                                                                                                          \
        pretend_say_once(#name " is not pretended: the program is told that it is not supported");                                                             \
        return status;                                                                                                                                         \
    }

/* What the next work of this thread does with memory: from @address on, @bytes where that is known (0: not). Addresses of no allocation are left out. */
typedef enum { PRETEND_READS = 1, PRETEND_WRITES, PRETEND_UPDATES } PretendUse;
void pretend_use(PretendUse how, const void *address, uint64_t bytes);
/* What a call is given to read and to write; what it is not given is NULL. It stands with the first kernel of the call. */
void pretend_uses(const void *const *read, size_t n_read, const void *const *written, size_t n_written);
/* There is no such work. */
void pretend_no_uses(void);
/* The same of a kernel, where Python has told it. False: it has not. */
bool pretend_use_told(void);
/* It is a kernel: of 32 bytes, that 32 neighbours touch, where these lie apart, and dimensions by which it computes where its elements lie (0: not known). Its
 * arguments follow, if any. */
void pretend_places(unsigned sectors, unsigned axes);
/* It is a kernel: what it computes, by its own code. */
typedef struct {
    uint64_t products;        /* operations of tensor cores */
    char type[8];             /* of what these multiply: "bf16" */
    uint64_t lanes, lanes_64; /* operations of lanes, on numbers of up to 32 and of 64 bits */
    uint64_t issued, accesses, wavefronts, fetched, cycles, trips, barriers, atomics, crowded, slots, slots_64, functions; /* as in PtxMoves */
    bool by_groups;                                                                                                        /* likewise */
    uint32_t registers, shared; /* of a thread (0: not known), bytes of a block beside dynamic ones */
} PretendComputed;
void pretend_computes(const PretendComputed *computed);
/* An address that stands in a kernel's parameter @parameter. */
void pretend_argument(size_t parameter, uint64_t address);

/* A launch on @stream: a kernel of a library whose real one is not asked (products, convolutions); @launch as models/kernel/gpu.h has it, @read and @written
 * bytes of device memory, @operations of the matrix unit on @dtype ("bf16"; NULL: none). */
void pretend_library_kernel(void *stream, const char *name, const char *launch, uint64_t read, uint64_t written, uint64_t operations, const char *dtype);

/* To who times it by events, what was launched last takes as long as so many @launches more. */
void pretend_takes_longer(unsigned launches);

/* ---- memory (memory.c) ---- */

/* As CUPTI numbers them; LIBRARY: device memory that a library takes for itself, beside the program's allocator; UNTOUCHED: pageable memory without pages yet.
 */
typedef enum {
    PRETEND_UNKNOWN,
    PRETEND_PAGEABLE,
    PRETEND_PINNED,
    PRETEND_DEVICE,
    PRETEND_ARRAY,
    PRETEND_MANAGED,
    PRETEND_LIBRARY,
    PRETEND_UNTOUCHED,
    PRETEND_STAGED /* another device's, to which copies go over the host's memory */
} PretendKind;

typedef struct {
    uint64_t address, bytes;
    PretendKind kind;
    int device;
} PretendBlock;

/* Of device @device. NULL where it does not fit (or where the host has no more addresses). */
void *pretend_allocate(int device, size_t bytes, PretendKind kind, void *stream, bool async);
/* False where nothing was allocated there. */
bool pretend_free(void *address, void *stream, bool async);
/* The allocation that holds @address; false where there is none. */
bool pretend_find(const void *address, PretendBlock *ret);
/* Whether a word of a kernel's parameters is an address in memory of a device. */
bool pretend_is_address(uint64_t word);
/* @bytes from @from on are copied to a device, and have to be read first where a file is mapped there (files.c); @touches: so that their pages come in here,
 * too. */
void pretend_copies_from(const void *from, size_t bytes, bool touches);
/* Tells of host memory that was pinned where it lay, for @device, and that it is so no more. */
void pretend_pin(int device, void *address, size_t bytes);
bool pretend_unpin(int device, void *address);
/* Bytes of @device that no process of its host has taken, and what is allocated stream by stream (the pool of cudaMallocAsync), now and at most. */
uint64_t pretend_free_bytes(int device);
uint64_t pretend_pool_bytes(int device, bool most);
/* That pool has room for @more bytes, beside what it was told before, and for no more than that. */
void pretend_limit_pool(int device, uint64_t more);
/* The processes of this capture that have memory of a device, as the host counts them, with what its driver's context takes of each: processes[n]; @room at
 * most.
 */
typedef struct {
    unsigned process;
    uint64_t bytes;
} PretendProcess;
size_t pretend_processes(int device_on_host, PretendProcess *processes, size_t room);
/* Tells the other processes which CUDA runtime the program has, @version, and returns it; 0: it is not known here, and what another said is returned. */
int pretend_shared_runtime(int version);
/* In a process made by fork(): what its parent took is its parent's. */
void pretend_leave_processes(void);
/* Physical memory without addresses (cuMemCreate), and addresses without memory (cuMemAddressReserve). False or NULL where there is no room. */
bool pretend_take_bytes(int device, uint64_t bytes);
void pretend_give_bytes(int device, uint64_t bytes);
void *pretend_reserve(uint64_t bytes, uint64_t align);
void pretend_unreserve(void *address, uint64_t bytes);
/* Addresses of a reservation get memory that was taken, and lose it: every piece that was mapped within @bytes. */
bool pretend_map(void *address, uint64_t bytes, int device);
void pretend_unmap(void *address, uint64_t bytes);
/* Addresses for memory of @device that is another process's: none is taken, nothing is written. NULL where the host has no more addresses. */
void *pretend_see(uint64_t bytes, int device);
/* Devices that one process can see ('echelon capture --gpus'). */
#define PRETEND_DEVICES 256
/* How a copy is asked for: BATCHED with the one before, in one call. */
typedef enum { PRETEND_SYNC, PRETEND_ASYNC, PRETEND_BATCHED } PretendAsked;
/* What the host copies to a device is kept for copies of up to PRETEND_COPIED_BYTES; all else reads zeros there. Writes the line. */
#define PRETEND_COPIED_BYTES ((size_t)1 << 20)
#define PRETEND_LOOKED_BYTES 64 /* results of so few bytes are what a program decides by */
void pretend_copy(void *to, const void *from, size_t bytes, void *stream, PretendAsked asked);
/* From now on @device, or of -1 every one, reaches @peer's memory, and copies between the two go straight. */
void pretend_reach(int device, int peer);
/* The same within the device, as part of something else: no line. Whether the contents are known, of up to PRETEND_COPIED_BYTES. */
bool pretend_carry(void *to, const void *from, size_t bytes);
/* The same of a piece of @whole, which counts as known if that does: the first piece of an array by itself may be anything (memory.c). */
bool pretend_carry_piece(void *to, const void *from, size_t bytes, const void *whole, size_t whole_bytes);
void pretend_set(void *to, int value, size_t bytes, void *stream);
/* What lies there is known, as one copy. */
void pretend_fill(const void *address, size_t bytes);
/* The device wrote over what the host copied there: it reads zeros. */
void pretend_clear(void *address, size_t bytes);

/* Managed memory is asked to move, or is said to be used in some way (cudaMemoryAdvise), by a device or by the host. False where it is not managed. */
bool pretend_prefetch(const void *address, size_t bytes, bool to_device, void *stream);
bool pretend_advise(const void *address, size_t bytes, int advice, bool of_device);

/* Whether all of it is known. */
int pretend_known(const void *address, size_t bytes);

/* ---- lengths of sequences (lengths.c) ---- */

/* Arrays of the device, of @n sequences: of @keys each, or, @cumulative, where the keys of each begin and the last end; where their queries do (NULL: one
 * each). @before: where those keys of each begin and the last end, if @keys are the new ones alone (NULL: they are all).
 * @causal: a query does not look at the keys behind it. */
typedef struct {
    const void *address;
    bool wide; /* of 64 bits each, else of 32 */
} PretendIntegers;
typedef struct {
    PretendIntegers keys, query_starts, before;
    size_t n;
    bool cumulative, causal;
    uint64_t counted[5]; /* What such a line says, where it is known already; the first 0: it is not. */
} PretendLengths;

/* Those of what this thread launches now; NULL: none are told. */
const PretendLengths *pretend_lengths(void);
/* What they say now, as `counted` has it: sequences, queries, keys, keys of the longest, scores; queries and scores 0: not known. False where nothing is. */
bool pretend_count_lengths(const PretendLengths *lengths, uint64_t ret[5]);
/* A line of what they say now, for the work that is written next; none where that is not known. */
void pretend_write_lengths(const PretendLengths *lengths);

/* ---- compiled programs (xla.c) ---- */

/* A range of XLA's own begins and ends on this thread. */
void pretend_xla_push(const char *text);
void pretend_xla_pop(void);
/* Whether this thread runs a compiled program: which run of all, its module's name and number, and the instruction that asks, "" where none is said; names by
 * their numbers. */
bool pretend_xla_asks(uint64_t *ret_run, uint32_t *ret_module, uint64_t *ret_id, uint32_t *ret_instruction);

/* ---- devices (runtime.c) ---- */

int pretend_current_device(void);
/* Which of the host's devices is the process's @device (CUDA_VISIBLE_DEVICES). */
int pretend_on_host(int device);
/* Of the program's own CUDA runtime: 12040. */
int pretend_runtime_version(void);
/* Keeps @error for cudaGetLastError() and returns it. */
int pretend_fail(int error);
/* Says once that @name is not pretended; 801, which is "not supported" to the runtime and to the driver. */
int pretend_refuse(const char *name);

/* ---- streams, events, graphs (stream.c) ---- */

/* The number that a stream is written by: 0 the default one. */
uint32_t pretend_stream(void *stream);
int pretend_stream_device(void *stream);
/* A collective was asked of it: an event recorded behind that is not over at once. */
void pretend_stream_communicates(void *stream);
/* Keeps the line (what stands in it behind its place, and lines that follow it) if @stream is being captured; false where it is not. */
bool pretend_graph_take(const char *word, void *stream, const char *rest);

/* ---- messages (nccl.c) ---- */

/* Frees what this thread has gathered; it ends. */
void pretend_forget_messages(void);

/* ---- the real libraries (symbols.c) ---- */

/* What the program would have found behind @name without us: of a library that it was linked with, or of the first of @libraries (NULL behind them) that it
 * loaded itself. NULL where there is none. */
void *pretend_real_symbol(const char *name, const char *const *libraries);
/* Whether @code lies in a library of NVIDIA's, by its file's name; or in ours. */
bool pretend_is_of_cuda(const void *code);
/* Our own function of that name; NULL: we have none. */
void *pretend_own_symbol(const char *name);
/* Of cuDNN. */
void *pretend_cudnn_symbol(const char *name);

/* ---- runtimes that are linked into programs (linked.c) ---- */

/* Sends calls of the runtimes in files that were loaded since it was last called to ours. */
void pretend_redirect_linked(void);
/* Of such a runtime, 12040; 0: there is none. */
int pretend_linked_version(void);

/* ---- machine code (code.c) ---- */

/* A fat binary or a module; lives as long as the process. */
typedef struct PretendCode PretendCode;
/* A kernel's PTX (ptx.h). */
typedef struct PtxKernel PtxKernel;

typedef struct {
    const char *name;     /* mangled */
    uint32_t *parameters; /* bytes of each */
    size_t n_parameters;
    uint32_t registers; /* of a thread; 0: not known */
    uint32_t threads;   /* of a block at most, as it was compiled for; 0: not said */
    uint32_t shared;    /* bytes of a block that it takes whatever its launch says */
    uint64_t number;    /* of no other kernel, ever */
    PretendCode *of;
    PtxKernel *ptx; /* What was found of its PTX, once that is looked for; see pretend_code_ptx. */
    bool is_looked_for;
} PretendKernelCode;
/* Of a fat binary as compilers register it (it stays where it is), and of what is handed to the driver. NULL where memory is short. */
PretendCode *pretend_code_of_wrapper(const void *wrapper);
PretendCode *pretend_code_of_image(const void *image);
/* Machine code that was made of @ptx, which is taken: code of those very bytes has that, too. */
void pretend_code_made_of(const void *image, size_t bytes, char *ptx);
/* Of a file of machine code, or of anything else, which suits every device. NULL where it cannot be opened. */
PretendCode *pretend_code_of_file(const char *path);
/* 10 * major + minor of the code in it that suits the device. */
enum { PRETEND_NO_CODE = 0, PRETEND_ANY_CODE = -1 };
int pretend_code_version(const PretendCode *code);
/* The file that a fat binary stands in is unloaded: what was not read of it is not there, and other kernels may come to lie where its kernels lay. */
void pretend_code_leaves(PretendCode *code);
bool pretend_code_has_left(const PretendCode *code);
/* Frees all that has left: nobody knows a kernel of it any more. */
void pretend_code_forget(void);
/* NULL where nothing is known of it. @code may be NULL. */
const PretendKernelCode *pretend_code_kernel(PretendCode *code, const char *name);
/* A kernel's PTX, if its file has some that suits the device and that is understood; else NULL. */
PtxKernel *pretend_code_ptx(const PretendKernelCode *kernel);
/* How many kernels it has, and the names of the first @room of them. Functions that kernels call have code, too, but no parameters in memory; neither are
 * kernels that take none told from them, so that these are left out. */
size_t pretend_code_kernels(PretendCode *code, const char **ret_names, size_t room);
/* Memory of a module's variable on the current device, taken when it is first asked for; its bytes, 0 where there is no such variable. NULL where there is
 * no room. */
void *pretend_code_variable(PretendCode *code, const char *name, uint64_t *ret_bytes);

/* ---- kernels (runtime.c) ---- */

typedef struct {
    unsigned x, y, z;
} PretendDim;

/* cudaFuncAttributes. */
typedef struct {
    size_t shared, constant, local;
    int threads, registers, ptx, binary, cache, dynamic_shared, carveout;
} PretendFunctionAttributes;

/* @function is launched as @name from now on; both stay. */
void pretend_register_kernel(const void *function, const char *name, PretendCode *code);

/* ---- addresses among parameters (arguments.c) ---- */

/* Those of a launch stand with the next work of this thread. */
void pretend_arguments(const PretendKernelCode *code, void *const *arguments, PretendDim grid, PretendDim block, size_t shared);
/* What its PTX says that it moves (moves.c). False: there is none, or it cannot be told. */
bool pretend_moves(const PretendKernelCode *code, void *const *arguments, PretendDim grid, PretendDim block, size_t shared);
/* Launches of kernels of which no PTX is known, that were given places within allocations, in programs without an allocator that is known. */
uint64_t pretend_launches_within(void);
/* Launches of kernels that could not be told and whose blocks wait for others; *@ret_name: the first of those kernels, as it is linked, or NULL. */
uint64_t pretend_launches_waiting(const char **ret_name);
/* Writes zeros over the stack below the caller. What a program leaves uninitialized in a kernel's parameters (strides of dimensions that an array has not) is
 * what lay there: addresses that kernels before were given. Called where a program asks something before each launch and after it. */
void pretend_clear_stack(void);

/* ---- names of CUDA's that other files of ours call ---- */

int cudaDeviceGetAttribute(int *ret, int attribute, int device);
int cudaDeviceGetLimit(size_t *ret, int limit);
int cudaDeviceCanAccessPeer(int *ret, int device, int peer);
int cudaDeviceGetP2PAttribute(int *ret, int attribute, int source, int target);
int cudaDeviceGetDefaultMemPool(void **ret, int device);
int cudaDeviceGetMemPool(void **ret, int device);
int cudaMemPoolGetAttribute(void *pool, int attribute, void *ret);
int cudaMemPoolSetAttribute(void *pool, int attribute, void *value);
int cudaMemPoolSetAccess(void *pool, const void *access, size_t n);
int cudaMemPoolTrimTo(void *pool, size_t keep);
int cudaDeviceGetPCIBusId(char *ret, int room, int device);
int cudaDeviceGetByPCIBusId(int *ret, const char *bus);
int cudaDeviceGetStreamPriorityRange(int *ret_least, int *ret_greatest);
int cudaDeviceSynchronize(void);
int cudaSetDevice(int device);
int cudaGetDeviceCount(int *ret);
const char *cudaGetErrorString(int error);
int cudaMemGetInfo(size_t *ret_free, size_t *ret_total);
int cudaMalloc(void **ret, size_t bytes);
int cudaMallocManaged(void **ret, size_t bytes, unsigned flags);
int cudaMemPrefetchAsync_v2(const void *address, size_t bytes, uint64_t location, unsigned flags, void *stream);
int cudaMemAdvise_v2(const void *address, size_t bytes, int advice, uint64_t location);
int cudaFree(void *address);
int cudaHostAlloc(void **ret, size_t bytes, unsigned flags);
int cudaHostRegister(void *address, size_t bytes, unsigned flags);
int cudaHostUnregister(void *address);
int cudaHostGetDevicePointer(void **ret, void *host, unsigned flags);
int cudaMallocHost(void **ret, size_t bytes);
int cudaFreeHost(void *address);
int cudaMallocAsync(void **ret, size_t bytes, void *stream);
int cudaFreeAsync(void *address, void *stream);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cuMemcpyBatchAsync_v2(void *const *to, const void *const *from, const size_t *bytes, size_t n, void *attributes, size_t *first_with, size_t n_attributes,
                          void *stream);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream);
int cudaStreamCreateWithFlags(void **ret, unsigned flags);
int cudaStreamCreateWithPriority(void **ret, unsigned flags, int priority);
int cudaStreamDestroy(void *stream);
int cudaStreamSynchronize(void *stream);
int cudaStreamQuery(void *stream);
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
int cudaStreamGetPriority(void *stream, int *ret);
int cudaStreamGetFlags(void *stream, unsigned *ret);
int cudaStreamGetId(void *stream, unsigned long long *ret);
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data);
int cudaStreamAddCallback(void *stream, void (*callback)(void *, int, void *), void *data, unsigned flags);
int cudaStreamIsCapturing(void *stream, int *ret);
int cudaEventCreateWithFlags(void **ret, unsigned flags);
int cudaEventDestroy(void *event);
int cudaEventRecord(void *event, void *stream);
int cudaEventQuery(void *event);
int cudaEventSynchronize(void *event);
int cudaEventElapsedTime(float *ret_ms, void *begin, void *end);
int cudaLaunchKernel(const void *function, PretendDim grid, PretendDim block, void **arguments, size_t shared, void *stream);
int cudaFuncGetName(const char **ret, const void *function);
int cudaFuncGetParamInfo(const void *function, size_t index, size_t *ret_offset, size_t *ret_size);
int cudaFuncGetParamCount(const void *function, size_t *ret);
int cudaFuncSetAttribute(const void *function, int attribute, int value);
int cudaFuncGetAttributes(PretendFunctionAttributes *ret, const void *function);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, const void *function, int threads, size_t shared);
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, const void *function, int threads, size_t shared, unsigned flags);
