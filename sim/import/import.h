/** @file import.h
 * Readers of captured formats: one file per format, one table, content sniffed (never the name), gzip unpacked by content.
 *
 * To add a reader: write sim/import/NAME.c with a const EchImportClass, and add a row to importers.def. The readers, and what they share:
 *
 *     XLA        hlo (hlo_text, hlo_proto, hlo_source, hlo_donation; xla_assignment beside it), xplane and xplane_json (xplane_core), xla_programs,
 *                memory_profile (resident, where it lies beside another capture), memory_usage_report
 *     PyTorch    kineto (kineto_join), memory_snapshot (pickle), memory_timeline; execution traces: pytorch_et, chakra, chakra_json (et)
 *     GPUs       nsys (sqlite), cupti, and pretend of one that is not there (range_sizes, kernel_arguments, xla_folders)
 *     TPUs       pretend_tpu of one that is not there (embedded)
 *     AMD's      rocpd (sqlite), rocprof_json, rocprof_csv: all by rocprof
 *     pasted     messages of refused memory: out_of_memory (bfc_dump, torch_says, engine_says, refused); figures: memory_figures (pool_says, gpu_tools,
 *                tensorrt_says), gpu_tools by gpu_rows (gpu_others, gpu_json);
 *                llama_says in both; both by pasted and rounded
 *     others     ech, alloc_text, rmm_log, minimalloc, scalesim
 *
 * Profilers of GPUs and TPUs fill a capture.h (arrays, roles, stream_waits, meetings); what a GPU's operators and kernels do is gpu_operator.h's and
 * gpu_work.h's. Bytes are read by wire.h (protobuf), json_stream.h and lines.h. alloc_events.h and anonymize.h work on any trace.
 */
#pragma once
#include "sim/base/diag.h"
#include "sim/program/program.h"
#include "sim/trace/trace.h"

#include <string.h>

/** Where bytes come from: a file, unpacked if it is gzip. Every read is bounded; a bomb gets ECH_ERROR_PARSE. */
typedef struct EchSource EchSource;

/** Opens a file and looks whether it is gzip. G_FILE_ERROR. */
EchSource *ech_source_open(const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** A source over memory, for fuzz targets and tests; @path is only used in messages and for files beside it (may be NULL). */
EchSource *ech_source_new_memory(const uint8_t *data, size_t n, const char *path) G_GNUC_WARN_UNUSED_RESULT;
void ech_source_free(EchSource *source);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchSource, ech_source_free)
/** As given; may be NULL for a source over memory. Borrowed. */
const char *ech_source_path(const EchSource *source);
/** Up to the first 64 KiB of the unpacked bytes, for probing; borrowed. */
const uint8_t *ech_source_head(EchSource *source, size_t *ret_n);
/** The next bytes of the stream: up to @n into @buffer; 0 at the end, -1 and an error on failure. */
gssize ech_source_read(EchSource *source, void *buffer, size_t n, GError **error);
/** From now on (NULL: no longer) @progress is told how much of a large file has been read from it as a stream, bytes. */
typedef void (*EchImportProgress)(uint64_t read, uint64_t total);
void ech_import_set_progress(EchImportProgress progress);
/** The whole unpacked contents, at most @limit bytes (0: 4 GiB), from the beginning; a plain file is mapped. Owned by the caller. */
GBytes *ech_source_bytes(EchSource *source, size_t limit, GError **error) G_GNUC_WARN_UNUSED_RESULT;

typedef struct {
    const char *device; /**< --device, or NULL: some formats need the chip. */
    /** A second file of the same run to merge, or NULL: a memory snapshot beside a Kineto profile; XLA's programs, a folder or one, beside CUPTI's and Nsight
     * Systems' recordings; a device memory profile beside anything. */
    const char *beside;
    bool ignore_beside; /**< Do not pick up files beside the program (buffer assignment). */
} EchImportOptions;

/** For probes: does @text occur in @head? */
static inline bool ech_head_has(const uint8_t *head, size_t n, const char *text)
{
    return memmem(head, n, text, strlen(text)) != NULL;
}
/** For probes: where something other than blanks begins; @n where nothing does. */
static inline size_t ech_head_begin(const uint8_t *head, size_t n)
{
    size_t at = 0;
    while (at < n && g_ascii_isspace(head[at]))
        at++;
    return at;
}

/** For probes: does it begin as a page or another document in XML does? Lines may begin with such a bracket, too: "<frozen runpy>:128: RuntimeWarning". */
static inline bool ech_head_is_document(const uint8_t *head, size_t n)
{
    static const char *const begins[] = {"<?xml", "<!doctype", "<html", "<svg"};
    size_t at = ech_head_begin(head, n);
    bool any = false;
    for (size_t i = 0; i < G_N_ELEMENTS(begins) && !any; i++)
        any = n - at >= strlen(begins[i]) && g_ascii_strncasecmp((const char *)head + at, begins[i], strlen(begins[i])) == 0;
    return any;
}

/** What a reader found. Exactly one of trace and program is set. */
typedef struct {
    const char *format; /**< Name of the reader's class; static. */
    EchTrace *trace;
    EchProgram *program;
    EchTrace *resident; /**< Of a program with a device memory profile beside it: what to add to the lowered trace (ech_import_add_resident), or NULL. */
    bool told_idle;     /**< Why no device did anything in it is among the remarks. */
    char *refusal;      /**< Of a program that its compiler refused: what it said, as the capture's notes beside it have it; else NULL. */
    EchDiag *diag;      /**< Counters and remarks of the import. */
    EchDiag *records;   /**< The file's own record kinds under its own names (ech_diag_note), for info's `records`. */
} EchImport;

typedef struct {
    const char *name;    /**< "memory_snapshot", "kineto", "hlo", ... */
    const char *summary; /**< One sentence: what writes this format. */
    /** How sure: 0 no, 1 maybe, 2 yes, 3 yes and a kind of what says 2. Sees up to 64 KiB of unpacked bytes. */
    int (*probe)(const uint8_t *head, size_t n);
    /** Fills trace or program, diag and records (both already there). ECH_ERROR_PARSE with path and offset. */
    bool (*read)(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error);
    /** Of a profiler: the remark about a profile in which no device did anything; NULL where that says nothing. */
    const char *when_idle;
    /** Of a profiler of GPUs that tells kernels by their names: XLA's programs may be merged with it. */
    bool takes_programs;
    /** Of what people write themselves: how, in lines, an example that is read as it stands first; NULL of what tools write. */
    const char *by_hand;
} EchImportClass;

/** The table, in the order of importers.def. */
const EchImportClass *const *ech_import_classes(size_t *ret_n);
/** Whether there is a reader of that name; else ECH_ERROR_CONFIG with the nearest. */
bool ech_import_is_format(const char *format, GError **error);
/** Opens, sniffs (or takes @format by name) and reads; a folder stands for what ech_import_file_in() (folder.h) finds in
 * it. Owned by the caller. ECH_ERROR_UNSUPPORTED says what the bytes look like. */
EchImport *ech_import_file(const char *path, const char *format, const EchImportOptions *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The same of a source, which stays the caller's. */
EchImport *ech_import_source(EchSource *source, const char *format, const EchImportOptions *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Whether @format is of pasted text: sums that someone printed, of which the remarks say what they come to. */
bool ech_import_is_pasted(const char *format);
void ech_import_free(EchImport *import);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchImport, ech_import_free)

/** @trace (the import's own, or what its program was lowered to) with the import's counters and remarks as properties, to be written to a file: reading that
 * file gives the import again. */
EchTrace *ech_import_with_counters(const EchImport *import, EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
/** @trace with the resident buffers of @profile (a memory_profile) besides its own, each counted in @diag: a buffer that is as large as one that is resident
 * already in the same memory (a program's argument, a profiler's known start) is taken to be that one; those of devices that the trace does not have stay out.
 */
EchTrace *ech_import_add_resident(const EchTrace *trace, const EchTrace *profile, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
