/** @file plugin.h
 * A TPU that is not there, behind PJRT (`echelon capture --pretend tpu-v5e` of a program that brings its own runtime, as PyTorch does with torch_tpu or
 * torch_xla). The real libtpu describes the chips and compiles; its descriptions, executables and errors are handed on as they are. Devices, memories, arrays,
 * events and what runs are ours: nothing is run, results are zeros, and what was asked is written down (record.c; the reader is sim/import/pretend_tpu.c).
 *
 * Threads: everything of ours is read and written under tpu_lock(), but for what stays as the client was made with.
 */
#pragma once
#include "models/layout/layout.h"
#include "pjrt_abi.h"

enum { TPU_MEMORIES = 3 }; /* of a device: its own, the host's pinned and the host's other */
enum { TPU_HBM, TPU_PINNED, TPU_UNPINNED };

struct PJRT_Memory {
    int id;
    unsigned kind; /* TPU_HBM ... */
    PJRT_Device *device;
    char text[64];
};

struct PJRT_Device {
    PJRT_DeviceDescription *description; /* libtpu's */
    int index, id;
    PJRT_Memory memories[TPU_MEMORIES];
    PJRT_Memory *list[TPU_MEMORIES];
    EchBytes used, peak, largest; /* of its own memory */
    uint64_t arrays;
};

struct PJRT_Client {
    PJRT_TopologyDescription *topology; /* libtpu's */
    PJRT_Device *devices, **list;       /* n: all that a program may be for */
    size_t n, first, n_own;             /* own: devices[first] and the n_own - 1 after it */
    PJRT_Memory **memories;
    size_t n_memories;
    EchBytes capacity;
    unsigned generation; /* 2 to 7 */
    int process;
};

struct PJRT_Buffer {
    uint64_t number; /* in the capture */
    EchLayout shape;
    int type;
    int64_t dims[ECH_LAYOUT_MAX_RANK], order[ECH_LAYOUT_MAX_RANK], tiles[ECH_LAYOUT_MAX_TILES * 8];
    size_t tile_ranks[ECH_LAYOUT_MAX_TILES];
    PJRT_Memory *memory;
    EchBytes bytes, dense; /* as it lies there; what the host sees of it */
    bool gone;             /* deleted, or donated */
    uint8_t *data;         /* dense, row-major: what the host copied there; NULL: zeros */
};

extern const PJRT_Api *tpu_real;
extern PJRT_Client tpu_client;

void tpu_lock(void);
void tpu_unlock(void);

/* events.c */
/** A new error of that code and text. */
PJRT_Error *tpu_error(PJRT_Code code, const char *format, ...) G_GNUC_PRINTF(2, 3);
/** What an error says. Owned by the caller. */
char *tpu_error_text(const PJRT_Error *error) G_GNUC_WARN_UNUSED_RESULT;
/** An event that is over already. */
PJRT_Event *tpu_over(void);
/** Calls a function of libtpu's and gives its error back as text, or NULL. Owned by the caller. */
char *tpu_failed(PJRT_Function function, void *args) G_GNUC_WARN_UNUSED_RESULT;

/* client.c */
/** Deletes what need not be deleted. */
void tpu_nothing(void *data);
/** Its number among those of this process; past their end for another's. */
size_t tpu_own_index(const PJRT_Device *device);
/** Whose array or executable it is where a call names neither memory nor device. */
PJRT_Memory *tpu_memory_of(PJRT_Memory *memory, PJRT_Device *device);

/* arrays.c */
/** A new array in @memory, with the layout that libtpu gives it by itself where @layout is NULL or says none; NULL and *@error where there is no room (which is
 * written down), or for a type that PJRT has and XLA's text has not. Under the lock. */
PJRT_Buffer *tpu_array_new(int type, const int64_t *dims, size_t rank, const PJRT_MemoryLayout *layout, PJRT_Memory *memory, PJRT_Error **error);
/** The same of a result of a program, whose @shape its text gives; in @place's own place, if any, which is gone with it. */
PJRT_Buffer *tpu_array_of_program(int type, const EchLayout *shape, PJRT_Memory *memory, PJRT_Buffer *place, PJRT_Error **error);
/** Whether @bytes more find room in the device's memory; else the error that the runtime gives, and the request is written down. */
PJRT_Error *tpu_room(PJRT_Device *device, EchBytes bytes, const char *what);
/** It is deleted: its memory is free. */
void tpu_array_let_go(PJRT_Buffer *array);

/* record.c */
/** Opens the capture: @path from PATTERN with %p for the process. */
void tpu_record_begin(const char *pattern, EchBytes capacity, size_t devices, const char *chip, int rank, int ranks);
/** One line: "WORD T ..." with @format after the time. */
void tpu_record(const char *word, const char *format, ...) G_GNUC_PRINTF(2, 3);
/** Beside the capture, where programs are kept: PATTERN's stem and ".programs", made when first asked for. Borrowed; NULL: there is no capture. */
const char *tpu_record_folder(void);

/* programs.c */
/** Has libtpu write down what it compiles: before it is first asked for anything. Who only compiles by it (JAX, for a topology) is not watched by us. */
void tpu_programs_begin(void);

/* programs.c, arrays.c and client.c: the functions of the table that are ours. */
#define PJRT_REAL(NAME)
#define PJRT_NOBODY(NAME)
#define PJRT_OURS(NAME) PJRT_Error *tpu_##NAME(PJRT_##NAME##_Args *args);
#include "pjrt_table.def"
#undef PJRT_OURS
#undef PJRT_NOBODY
#undef PJRT_REAL
extern PJRT_LayoutsExtension tpu_layouts;
extern PJRT_RawBufferExtension tpu_raw_buffers;
/** The first of the extensions: libtpu's that only look at what is its own, and ours. */
PJRT_Extension *tpu_extensions(void);
