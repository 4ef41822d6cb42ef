/** @file gpu_rows.h
 * What tools print of devices' memory and of the processes that hold it, gathered from whichever tool printed it (gpu_tools.c, gpu_others.c, gpu_json.c fill
 * it), and what that comes to. Words of their tables are told apart here, too.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

enum { ECH_GPU_MAX_ROWS = 64, ECH_GPU_MAX_PROCESSES = 512, ECH_GPU_MAX_WORDS = 64 };
#define ECH_GPU_UNTOLD UINT64_MAX /* of which device */
#define ECH_GPU_WHOLE UINT64_MAX  /* no slice */

/** Whose tool it was: what its devices are called, and what shows a program one of them, goes by it. */
typedef enum { ECH_GPU_NVIDIA, ECH_GPU_AMD, ECH_GPU_INTEL, ECH_GPU_GAUDI, ECH_GPU_ASCEND, ECH_GPU_TPU, ECH_GPU_N_MAKERS } EchGpuMaker;

/** A device, or one of the slices that MIG cuts it into. */
typedef struct {
    uint64_t index, slice; /**< slice: nvidia-smi's number of the instance, or ECH_GPU_WHOLE. */
    char name[48];
    bool has_used, has_total;
    EchRounded used, total;   /**< Of several readings the most. */
    char key[48];             /**< Its bus, UUID or card and chip, in tables that go by those. */
    uint64_t readings, rises; /**< Rises from a reading to the next... */
    bool falls;               /**< ...and falls. */
    EchBytes first, last;
    char fullest_at[32];
} EchGpuRow;

typedef struct {
    uint64_t gpu, slice, id;
    char name[48];
    EchRounded size; /**< Bytes 0: not told. */
} EchGpuProcess;

typedef struct {
    EchGpuMaker maker;
    bool lists; /**< Processes are told where there are any. */
    bool own;   /**< A program printed what it holds itself. */
    bool llama; /**< llama.cpp listed them, whose --device takes the names that are their keys. */
    EchGpuRow rows[ECH_GPU_MAX_ROWS];
    unsigned n_rows;
    EchGpuProcess processes[ECH_GPU_MAX_PROCESSES];
    unsigned n_processes;
} EchGpuRows;

/** The row of a device or of a slice, made when first asked for; NULL where there are too many. */
EchGpuRow *ech_gpu_row_slice(EchGpuRows *all, uint64_t index, uint64_t slice);
EchGpuRow *ech_gpu_row(EchGpuRows *all, uint64_t index);
/** The row of @key; those not met before are numbered as they come. */
EchGpuRow *ech_gpu_row_keyed(EchGpuRows *all, EchWords key);
/** @row may be NULL. */
void ech_gpu_row_set(EchGpuRow *row, EchRounded used, EchRounded total);
/** One more reading: of a table over time, or one after another. @time: when, or nothing. */
void ech_gpu_row_reading(EchGpuRow *row, EchRounded used, EchWords time);
/** A process on device @index, of which @name's last part is kept; told again by its number @id (0: none), what was told before of it there is forgotten. */
void ech_gpu_process_add(EchGpuRows *all, uint64_t index, uint64_t slice, uint64_t id, EchWords name, EchRounded size);

/** What follows tells the processes of device @index anew (ECH_GPU_UNTOLD: of all). */
void ech_gpu_processes_forget(EchGpuRows *all, uint64_t index);

/** Whether a device's memory, or a process that holds some, was read. */
bool ech_gpu_rows_any(const EchGpuRows *all);
/** Whether a device was read with all that it has, though nothing of it may be in use. */
bool ech_gpu_rows_whole(const EchGpuRows *all);
/** Says who holds how much of which device, and where there is room; @beside something that tells what is in it. */
void ech_gpu_rows_say(const EchGpuRows *all, bool beside, EchDiag *diag);
/** Puts who holds what of the fullest device into @builder. */
void ech_gpu_rows_write(const EchGpuRows *all, EchTraceBuilder *builder);

/** Puts @words into @to, of @size bytes, cut where they are longer. */
void ech_gpu_copy(char *to, size_t size, EchWords words);
/** The pieces of @line between @separator's, at most ECH_GPU_MAX_WORDS; blanks in a row count as one. How many. */
unsigned ech_gpu_split(EchWords line, char separator, EchWords *ret);
/** Whether @word is all of a number, a size with its unit, a size that is of MiB unless it says otherwise ("81920", "193.20"). */
bool ech_gpu_is_number(EchWords word, uint64_t *ret);
bool ech_gpu_is_size(EchWords word, EchRounded *ret);
bool ech_gpu_is_mib(EchWords word, EchRounded *ret);
/** "3.0/191.7 GB", "11MiB / 20096MiB": the unit may stand behind the second alone. */
bool ech_gpu_is_pair(EchWords cell, EchRounded *ret_used, EchRounded *ret_total);
