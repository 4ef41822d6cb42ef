/* What a program asked of a TPU that was not there through PJRT (traces/capture/pjrt): lines of a word, a time in nanoseconds since `clock`, and numbers.
 *
 *   echelon-pretend-tpu 1
 *   clock REALTIME_NS
 *   device BYTES DEVICES "NAME"                        what a device's memory has to give; NAME: as for --device
 *   rank RANK RANKS
 *   program T PROGRAM TEMPORARY "FOLDER"               was compiled; FOLDER: of the capture's .programs; TEMPORARY: bytes that it needs while it runs
 *   array T ARRAY DEVICE KIND BYTES "SHAPE"            KIND: 0 the device's memory, 1 and 2 the host's, pinned or not
 *   free T ARRAY
 *   copy T ARRAY BYTES TO                              1 from the host, 2 to the host
 *   move T FROM TO BYTES                               from one memory to another, where TO has just been made
 *   renamed T OLD NEW                                  the same place as another array
 *   run T DEVICE PROGRAM N ARRAY... N {OLD NEW}...     arguments, then results: NEW lies in the place of the argument OLD, which is gone; OLD 0: in its own
 *   refused T DEVICE 0 BYTES                           the device had no room
 *   mark T "NAME"
 *   end
 *
 * What a run does is what its program's folder says (embedded.h). Nothing in such a file was measured: its times say in which order things were asked for.
 */
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/embedded.h"
#include "sim/import/lines.h"

#include <string.h>

#define MAGIC "echelon-pretend-tpu 1\n"

/* A short file may run a long program often: far more than processes that anybody waits for do. */
enum { MOST_OPS = 1 << 22, MOST_PROGRAMS = 1 << 16, MOST_SAID = 3 };

typedef struct {
    char *folder;
    EchEmbedded *embedded; /* NULL: what it does is not known */
    uint64_t runs;
} Program;

typedef struct {
    EchId buffer;  /* ECH_NONE: of another device than the first */
    EchId written; /* by which copy, as far as the next run has to wait for it; ECH_NONE: by none */
    EchId queue;   /* that used it last */
    bool live;
} Array;

typedef struct {
    EchImport *ret;
    EchTraceBuilder *builder;
    EchLines lines;
    GString *scratch;
    const char *device;            /* --device, or NULL */
    char *chip;                    /* which was pretended */
    char *folders;                 /* where programs are; NULL: nowhere */
    GHashTable *programs, *arrays; /* number -> Program, Array */
    GHashTable *queues;            /* of ech_embedded_run */
    EchId host, copies_in, copies_out, core;
    EchId awaited; /* the last copy that the next run begins behind: it brings an argument, or the host has waited for it */
    EchId read;    /* the last copy that the host has waited for: what it asks for next comes later */
    EchId last;    /* the end of the last run, or ECH_NONE */
    EchEmbeddedRanks ranks;
    uint64_t n_refused, most_refused, n_unknown, n_left_out;
    bool told;
} Reader;

enum { CLOCK, DEVICE, RANK, PROGRAM, ARRAY, FREE, COPY, MOVE, RENAMED, RUN, REFUSED, MARK, END };
static const EchLineKind kinds[] = {[CLOCK] = {"clock", NULL, 1, false},
                                    [DEVICE] = {"device", NULL, 2, true},
                                    [RANK] = {"rank", NULL, 2, false},
                                    [PROGRAM] = {"program", "program", 3, true},
                                    [ARRAY] = {"array", "array", 5, true},
                                    [FREE] = {"free", "free", 2, false},
                                    [COPY] = {"copy", "copy", 4, false},
                                    [MOVE] = {"move", "move", 4, false},
                                    [RENAMED] = {"renamed", "renamed", 3, false},
                                    [RUN] = {"run", "run", ECH_LINE_LIST, false},
                                    [REFUSED] = {"refused", "refused", 4, false},
                                    [MARK] = {"mark", "mark", 1, true},
                                    [END] = {"end", NULL, 0, false}};

static bool wrong(const Reader *r, GError **error, const char *what, const char *expected)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: %s; expected %s", r->lines.where, r->lines.line, what, expected);
    return false;
}

static void free_program(gpointer data)
{
    Program *program = data;
    ech_embedded_free(program->embedded);
    g_free(program->folder);
    g_free(program);
}

static Array *find_array(Reader *r, uint64_t number)
{
    return g_hash_table_lookup(r->arrays, &number);
}

/* ---- programs ---- */

/* Only what lies in the capture's own folder of programs is opened. */
static bool add_program(Reader *r, GError **error)
{
    const char *folder = ech_lines_text(r->scratch, r->lines.quoted, r->lines.n_quoted);
    if (!*folder || strchr(folder, '/') || *folder == '.')
        return wrong(r, error, "a program's folder is no name", "a name without '/'");
    if (g_hash_table_contains(r->programs, &r->lines.fields[1]) || g_hash_table_size(r->programs) >= MOST_PROGRAMS)
        return wrong(r, error, "a program that was there before, or one too many", "a new one");
    Program *program = g_new0(Program, 1);
    program->folder = g_strdup(folder);
    g_hash_table_insert(r->programs, g_memdup2(&r->lines.fields[1], sizeof(uint64_t)), program);
    g_autofree char *path = r->folders ? g_build_filename(r->folders, folder, "program.hlo.txt.gz", NULL) : NULL;
    g_autoptr(GError) why = NULL;
    g_autoptr(EchDiag) unheard = ech_diag_new(); /* what each program's reading remarks would be said a hundred times */
    if (path && r->chip)
        program->embedded = ech_embedded_new(path, folder, r->chip, r->device, r->lines.fields[2], unheard, &why);
    if (program->embedded) {
        if (!r->told)
            ech_embedded_tell(program->embedded, r->builder);
        r->told = true;
    } else if (r->n_unknown++ < MOST_SAID) {
        ech_diag_remark(r->ret->diag, "program %s is not known, and none of its runs is in the time: %s", folder,
                        why ? why->message : "there is no folder of programs beside the capture");
    }
    return true;
}

/* ---- arrays ---- */

static EchBuffer buffer_of(Reader *r, uint64_t kind, EchBytes bytes, const char *shape)
{
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = kind == 0 ? ech_trace_builder_memory(r->builder, "hbm") : r->host;
    buffer.bytes = bytes;
    buffer.shape = ech_trace_builder_string(r->builder, shape, -1);
    EchLayout layout;
    if (ech_layout_parse(shape, strlen(shape), &layout, NULL, NULL)) {
        buffer.dense = MIN(ech_layout_dense_bytes(&layout), bytes);
        buffer.dtype = ech_dtype_parse(layout.dtype, strlen(layout.dtype));
    }
    return buffer;
}

static bool add_array(Reader *r, GError **error)
{
    const uint64_t *f = r->lines.fields;
    if (g_hash_table_contains(r->arrays, &f[1]) || f[3] > 2)
        return wrong(r, error, f[3] > 2 ? "a kind of memory that there is not" : "an array that was there before", f[3] > 2 ? "0, 1 or 2" : "a new one");
    Array *array = g_new0(Array, 1);
    const char *shape = ech_lines_text(r->scratch, r->lines.quoted, r->lines.n_quoted);
    array->written = ECH_NONE;
    array->buffer = f[2] == 0 ? ech_trace_builder_buffer(r->builder, buffer_of(r, f[3], f[4], shape)) : ECH_NONE;
    g_hash_table_insert(r->arrays, g_memdup2(&f[1], sizeof *f), array);
    return true;
}

static void name_buffer(Reader *r, EchId buffer, const char *text)
{
    EchBuffer *b = ech_trace_builder_peek_buffer(r->builder, buffer);
    if (b->name == ECH_NONE) {
        EchId name = ech_trace_builder_string(r->builder, text, -1);
        ech_trace_builder_peek_buffer(r->builder, buffer)->name = name;
    }
}

/* What the host asks for comes behind what it has waited for. */
static void allot(Reader *r, EchOpKind kind, Array *array, EchId queue)
{
    EchOp op = ech_op_init(kind);
    op.queue = queue;
    op.target = array->buffer;
    op.bytes = ech_trace_builder_peek_buffer(r->builder, array->buffer)->bytes;
    ech_trace_builder_op(r->builder, op);
    if (kind == ECH_OP_ALLOC && r->read != ECH_NONE)
        ech_trace_builder_dep(r->builder, r->read, 0);
    array->live = kind == ECH_OP_ALLOC;
}

/* It is used on @queue; if nothing has allocated it yet, there and then. */
static void need(Reader *r, Array *array, EchId queue)
{
    array->queue = queue;
    if (array->live)
        return;
    name_buffer(r, array->buffer, "array");
    allot(r, ECH_OP_ALLOC, array, queue);
}

static bool free_array(Reader *r)
{
    Array *array = find_array(r, r->lines.fields[1]);
    if (array && array->live && array->buffer != ECH_NONE)
        allot(r, ECH_OP_FREE, array, array->queue);
    g_hash_table_remove(r->arrays, &r->lines.fields[1]); /* numbers are not used again */
    return true;
}

/* Behind @after, if any. */
static EchId copy_between(Reader *r, EchId queue, EchId from, EchId to, EchBytes bytes, EchId after)
{
    EchOp op = ech_op_init(ECH_OP_COPY);
    op.name = ech_trace_builder_string(r->builder, to == r->host ? "copy to the host" : from == r->host ? "copy from the host" : "copy", -1);
    op.queue = queue;
    op.memory_from = from;
    op.memory_to = to;
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    EchId id = ech_trace_builder_op(r->builder, op);
    if (after != ECH_NONE)
        ech_trace_builder_dep(r->builder, after, 0);
    return id;
}

/* Behind which op an array is whole: the copy that fills it, else the last run. */
static EchId whole_after(const Reader *r, const Array *array)
{
    return array->written != ECH_NONE ? array->written : r->last;
}

/* The host waits for what it reads. */
static bool copy_array(Reader *r, GError **error)
{
    const uint64_t *f = r->lines.fields;
    Array *array = find_array(r, f[1]);
    if (f[3] != 1 && f[3] != 2)
        return wrong(r, error, "a copy in no direction", "1 or 2");
    if (!array || array->buffer == ECH_NONE)
        return true;
    bool in = f[3] == 1;
    EchId queue = in ? r->copies_in : r->copies_out, memory = ech_trace_builder_peek_buffer(r->builder, array->buffer)->memory;
    name_buffer(r, array->buffer, in ? "from the host" : "array");
    need(r, array, queue);
    if (memory == r->host || f[2] == 0)
        return true; /* by the host's own processor */
    if (in)
        array->written = copy_between(r, queue, r->host, memory, f[2], r->read);
    else
        r->read = r->awaited = copy_between(r, queue, memory, r->host, f[2], whole_after(r, array));
    return true;
}

static bool move_array(Reader *r)
{
    const uint64_t *f = r->lines.fields;
    Array *from = find_array(r, f[1]), *to = find_array(r, f[2]);
    if (!from || !to || from->buffer == ECH_NONE || to->buffer == ECH_NONE)
        return true;
    EchId a = ech_trace_builder_peek_buffer(r->builder, from->buffer)->memory, b = ech_trace_builder_peek_buffer(r->builder, to->buffer)->memory;
    EchId queue = a == b ? r->core : a == r->host ? r->copies_in : r->copies_out;
    need(r, from, queue);
    need(r, to, queue);
    if (a != b || a != r->host)
        to->written = copy_between(r, queue, a, b, f[3], whole_after(r, from));
    return true;
}

static bool rename_array(Reader *r)
{
    Array *old = find_array(r, r->lines.fields[1]), *new = find_array(r, r->lines.fields[2]);
    if (!old || !new || old->buffer == ECH_NONE || new->buffer == ECH_NONE || new->live)
        return true;
    need(r, old, r->core);
    *new = *old;
    old->live = false;
    return true;
}

/* ---- runs ---- */

typedef struct {
    uint64_t device, program;
    const uint64_t *arguments, *results; /* results: pairs */
    size_t n_arguments, n_results;
} Run;

static bool read_run(Reader *r, Run *run, GError **error)
{
    const GArray *list = r->lines.list;
    const uint64_t *at = (const uint64_t *)(const void *)list->data, *end = at + list->len;
    if (list->len < 4)
        return wrong(r, error, "a run line that is too short", "a time, a device, a program, arguments and results");
    *run = (Run){.device = at[1], .program = at[2], .n_arguments = at[3], .arguments = at + 4};
    at += 4;
    if (run->n_arguments >= (size_t)(end - at) + (at == end))
        return wrong(r, error, "a run line with fewer arguments than it says", "as many as it says, and the results");
    at += run->n_arguments;
    run->n_results = *at++;
    run->results = at;
    if (run->n_results > list->len || 2 * run->n_results != (size_t)(end - at))
        return wrong(r, error, "a run line with other results than it says", "two numbers for each");
    return true;
}

/* Results lie in the places of arguments, or are to be made. Those of a program that is not known just appear. */
static bool place_results(Reader *r, const Run *run, EchId *buffers, EchResultPlace *places)
{
    for (size_t k = 0; k < run->n_results; k++) {
        Array *old = run->results[2 * k] ? find_array(r, run->results[2 * k]) : NULL, *new = find_array(r, run->results[2 * k + 1]);
        if (!new || new->buffer == ECH_NONE || new->live)
            return false;
        places[k] = ECH_RESULT_MADE;
        if (old && old->buffer != ECH_NONE && old->live) {
            places[k] = ECH_RESULT_IN_PLACE;
            new->buffer = old->buffer;
            new->live = true;
            old->live = false;
        }
        buffers[k] = new->buffer;
    }
    return true;
}

static bool run_program(Reader *r, GError **error)
{
    Run run;
    if (!read_run(r, &run, error))
        return false;
    Program *program = g_hash_table_lookup(r->programs, &run.program);
    if (run.device != 0)
        return true;
    EchEmbedded *embedded = program ? program->embedded : NULL;
    if (embedded && (run.n_arguments != ech_embedded_n_parameters(embedded) || run.n_results != ech_embedded_n_results(embedded)))
        return wrong(r, error, "a run with other arguments and results than its program has", "those of its folder");
    g_autofree EchId *arguments = g_new(EchId, run.n_arguments + 1), *results = g_new(EchId, run.n_results + 1);
    g_autofree EchResultPlace *places = g_new(EchResultPlace, run.n_results + 1);
    for (size_t k = 0; k < run.n_arguments; k++) {
        Array *array = find_array(r, run.arguments[k]);
        if (!array || array->buffer == ECH_NONE)
            return wrong(r, error, "a run is given an array that is not there", "one that lives");
        need(r, array, r->core);
        arguments[k] = array->buffer;
        if (array->written != ECH_NONE && (r->awaited == ECH_NONE || array->written > r->awaited))
            r->awaited = array->written; /* copies are in order */
        array->written = ECH_NONE;
    }
    if (!place_results(r, &run, results, places))
        return wrong(r, error, "a run makes an array that was there before, or is not told", "new ones");
    for (size_t k = 0; embedded && k < run.n_results; k++)
        if (places[k] == ECH_RESULT_IN_PLACE && ech_embedded_allocates(embedded, k))
            return wrong(r, error, "a result lies in the place of an argument", "one of its own, as its program has it");
    bool room = embedded && ech_trace_builder_n_ops(r->builder) + ech_embedded_n_ops(embedded) < MOST_OPS;
    if (room) {
        r->last = ech_embedded_run(embedded, r->builder, &r->ranks, r->queues, arguments, results, places, r->awaited);
        r->awaited = ECH_NONE;
        program->runs++;
    } else if (embedded) {
        r->n_left_out++;
    }
    for (size_t k = 0; k < run.n_results; k++) {
        Array *array = find_array(r, run.results[2 * k + 1]);
        name_buffer(r, array->buffer, program ? program->folder : "result");
        array->queue = r->core;
        if (room)
            array->live = true;
        else
            need(r, array, r->core);
    }
    return true;
}

/* ---- the file ---- */

static bool set_device(Reader *r, GError **error)
{
    const char *name = ech_lines_text(r->scratch, r->lines.quoted, r->lines.n_quoted);
    g_autoptr(EchDevice) known = ech_device_load(name, NULL, NULL);
    if (r->chip || !known || g_strcmp0(known->family, "tpu") != 0)
        return wrong(r, error, "the device is told twice, or is no TPU", "one like tpu-v5e");
    r->chip = g_strdup(name);
    ech_trace_builder_set_property(r->builder, "pretended_device", name);
    ech_trace_builder_printf_property(r->builder, "pretended_bytes", "%" G_GUINT64_FORMAT, r->lines.fields[0]);
    return true;
}

static void add_mark(Reader *r)
{
    EchOp op = ech_op_init(ECH_OP_MARK);
    op.name = ech_trace_builder_string(r->builder, ech_lines_text(r->scratch, r->lines.quoted, r->lines.n_quoted), -1);
    op.queue = ech_embedded_queue(r->builder, r->queues, "host", ECH_QUEUE_HOST);
    ech_trace_builder_op(r->builder, op);
}

static bool read_line(size_t which, void *data, GError **error)
{
    Reader *r = data;
    switch (which) {
    case DEVICE: return set_device(r, error);
    case RANK:
        r->ranks.n = r->lines.fields[1];
        if (r->lines.fields[1] > 1) {
            ech_trace_builder_printf_property(r->builder, "rank", "%" G_GUINT64_FORMAT, r->lines.fields[0]);
            ech_trace_builder_printf_property(r->builder, "ranks", "%" G_GUINT64_FORMAT, r->lines.fields[1]);
        }
        return true;
    case PROGRAM: return add_program(r, error);
    case ARRAY: return add_array(r, error);
    case FREE: return free_array(r);
    case COPY: return copy_array(r, error);
    case MOVE: return move_array(r);
    case RENAMED: return rename_array(r);
    case RUN: return run_program(r, error);
    case REFUSED:
        r->n_refused++;
        r->most_refused = MAX(r->most_refused, r->lines.fields[3]);
        return true;
    case MARK: add_mark(r); return true;
    case END: r->lines.ended = true; return true;
    default: return true;
    }
}

static void tell(Reader *r)
{
    EchDiag *diag = r->ret->diag;
    GHashTableIter iter;
    gpointer value;
    uint64_t runs = 0, programs = 0;
    for (g_hash_table_iter_init(&iter, r->programs); g_hash_table_iter_next(&iter, NULL, &value);) {
        runs += ((const Program *)value)->runs;
        programs += ((const Program *)value)->embedded != NULL;
    }
    ech_diag_note(diag, "programs", programs);
    ech_diag_note(diag, "runs_of_programs", runs);
    ech_diag_note(diag, "programs_not_known", r->n_unknown);
    if (runs > 0)
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT " runs of %" G_GUINT64_FORMAT
                        " compiled programs, one after the other: what the host takes between them (Python, dispatch, compiling) is not in the time",
                        runs, programs);
    if (r->n_unknown > MOST_SAID)
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " more programs are not known", r->n_unknown - MOST_SAID);
    if (r->n_left_out > 0)
        ech_diag_dropped(diag, "runs_left_out", r->n_left_out, "%s: more than %d operations in all", r->lines.where, MOST_OPS);
    if (r->n_refused > 0) {
        g_autofree char *most = ech_format_bytes(r->most_refused);
        ech_diag_remark(diag,
                        "the device had no room for %" G_GUINT64_FORMAT
                        " of the program's requests, the largest of %s: what the program did after that is not what it does where there is room",
                        r->n_refused, most);
    }
}

/* PREFIX.PID.programs of PREFIX.PID.pretend, or NULL. */
static char *folder_of(const char *path)
{
    static const char end[] = ".pretend";
    g_autofree char *plain = path && g_str_has_suffix(path, ".gz") ? g_strndup(path, strlen(path) - 3) : g_strdup(path);
    if (!plain || !g_str_has_suffix(plain, end))
        return NULL;
    plain[strlen(plain) - strlen(end)] = '\0';
    return g_strconcat(plain, ".programs", NULL);
}

static bool pretend_tpu_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("pretend_tpu");
    g_autoptr(GString) scratch = g_string_new(NULL);
    g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autoptr(GHashTable) programs = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, free_program),
                          arrays = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free),
                          queues = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    Reader r = {.ret = ret,
                .builder = builder,
                .lines = {.where = ech_source_path(source) ? ech_source_path(source) : "capture", .diag = ret->diag, .records = ret->records, .list = list},
                .scratch = scratch,
                .device = options->device,
                .folders = options->ignore_beside ? NULL : folder_of(ech_source_path(source)),
                .programs = programs,
                .arrays = arrays,
                .host = ech_trace_builder_memory(builder, "host"),
                .queues = queues,
                .core = ech_embedded_queue(builder, queues, "core", ECH_QUEUE_COMPUTE),
                .copies_in = ech_embedded_queue(builder, queues, "copies from the host", ECH_QUEUE_COPY),
                .copies_out = ech_embedded_queue(builder, queues, "copies to the host", ECH_QUEUE_COPY),
                .awaited = ECH_NONE,
                .read = ECH_NONE,
                .last = ECH_NONE};
    bool good = n >= strlen(MAGIC) && memcmp(data, MAGIC, strlen(MAGIC)) == 0;
    if (!good)
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:1: not what a program asked of a TPU; expected 'echelon-pretend-tpu 1'", r.lines.where);
    good = good && ech_lines_read(&r.lines, data + strlen(MAGIC), n - strlen(MAGIC), kinds, G_N_ELEMENTS(kinds), read_line, &r, error);
    if (good) {
        tell(&r);
        ret->trace = ech_trace_builder_finish(builder, error);
    }
    g_free(r.chip);
    g_free(r.folders);
    return good && ret->trace;
}

static int probe(const uint8_t *head, size_t n)
{
    return n >= strlen(MAGIC) && memcmp(head, MAGIC, strlen(MAGIC)) == 0 ? 2 : 0;
}

const EchImportClass ech_import_pretend_tpu = {
    .name = "pretend_tpu",
    .summary = "what a PyTorch program asked of a TPU that was not there ('echelon capture --pretend tpu-v5e'), with its compiled programs beside it",
    .probe = probe,
    .read = pretend_tpu_read,
    .when_idle = "the program ran nothing on a TPU: it may have been stopped before, or found none",
};
