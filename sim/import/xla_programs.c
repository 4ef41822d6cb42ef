#include "sim/import/xla_programs.h"

#include "models/kernel/comm_name.h"
#include "models/link/link.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/folder.h"
#include "sim/trace/step.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char *path, *name;   /* of a file beside the capture: its own, and its module's */
    uint64_t number;     /* of that in its process, from the file's name; UINT64_MAX: not told */
    bool ran;            /* a range says so */
    const uint8_t *data; /* else of the capture itself */
    size_t n;
    bool read;
    EchTrace *trace;     /* NULL: not read, or it cannot be */
    GHashTable *index;   /* name -> op + 1 */
    GHashTable *kernels; /* kernel's name -> GArray of the ops that it runs for */
    GHashTable *named;   /* kernel's name -> op + 1 of the instruction of that name */
    GHashTable *copies;  /* bytes of the copies inside the device's memory, a set */
    uint8_t *roles;      /* per op: Role */
    GHashTable *between; /* Between -> op + 1, 0: not sure */
} Program;

typedef enum { ROLE_OTHER, ROLE_KERNEL, ROLE_CALL } Role;

typedef EchXlaLaunched Launched;

/* Calls of libraries between kernels of two names: the @nth of @n. */
typedef struct {
    EchId before, after;
    uint32_t n, nth;
} Between;

/* Kernels of one name that ran for one instruction. */
typedef struct {
    const EchOp *op;
    EchId name;
    double time;
} Share;

struct EchXlaPrograms {
    GHashTable *modules;  /* where its bytes are -> Program, its owner: many ids may refer to one module, which is read once */
    GHashTable *programs; /* id -> Program */
    GArray *launched;     /* Launched */
};

enum {
    NEAR = 64,        /* calls between two kernels */
    TWINS = 512,      /* instructions of one kernel */
    MOST_FILES = 8192 /* programs of a folder */
};

static void program_free(gpointer data)
{
    Program *program = data;
    g_clear_pointer(&program->trace, ech_trace_unref);
    g_clear_pointer(&program->index, g_hash_table_unref);
    g_clear_pointer(&program->kernels, g_hash_table_unref);
    g_clear_pointer(&program->named, g_hash_table_unref);
    g_clear_pointer(&program->copies, g_hash_table_unref);
    g_clear_pointer(&program->roles, g_free);
    g_clear_pointer(&program->between, g_hash_table_unref);
    g_free(program->path);
    g_free(program->name);
    g_free(program);
}

EchXlaPrograms *ech_xla_programs_new(void)
{
    EchXlaPrograms *programs = g_new0(EchXlaPrograms, 1);
    programs->modules = g_hash_table_new_full(ech_hash_key, NULL, NULL, program_free);
    programs->programs = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    programs->launched = g_array_new(FALSE, FALSE, sizeof(Launched));
    return programs;
}

void ech_xla_programs_free(EchXlaPrograms *programs)
{
    if (!programs)
        return;
    g_hash_table_unref(programs->programs);
    g_hash_table_unref(programs->modules);
    g_array_unref(programs->launched);
    g_free(programs);
}

void ech_xla_programs_add(EchXlaPrograms *programs, uint64_t id, const uint8_t *data, size_t n)
{
    Program *program = g_hash_table_lookup(programs->modules, data);
    if (!program) {
        program = g_new0(Program, 1);
        *program = (Program){.data = data, .n = n};
        g_hash_table_insert(programs->modules, (gpointer)(uintptr_t)data, program);
    }
    int64_t *key = g_new(int64_t, 1);
    *key = (int64_t)id;
    g_hash_table_replace(programs->programs, key, program);
}

void ech_xla_programs_launched(EchXlaPrograms *programs, const EchXlaLaunched *launched)
{
    g_array_append_vals(programs->launched, launched, 1);
}

static guint hash_between(gconstpointer p)
{
    return (guint)ech_hash_bytes(p, sizeof(Between));
}

static gboolean equal_between(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, sizeof(Between)) == 0;
}

/* As XLA makes a kernel's name of an instruction's. */
static char *kernel_name(const char *instruction)
{
    char *name = g_strdup(instruction);
    for (char *c = name; *c; c++)
        if (!g_ascii_isalnum(*c))
            *c = '_';
    return name;
}

/* The kernel of several instructions has the name of one of them, which need not be the one that the others are told to be twins of: that which is compiled
 * first. */
static void name_by_twins(Program *program, const EchProgram *p)
{
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        gsize op = GPOINTER_TO_SIZE(g_hash_table_lookup(program->index, instruction->name));
        if (op == 0 || program->roles[op - 1] != ROLE_KERNEL)
            continue;
        g_autofree char *shared = kernel_name(instruction->twin ? instruction->twin : instruction->name), *own = kernel_name(instruction->name);
        GArray *ops = g_hash_table_lookup(program->kernels, shared);
        if (ops && !g_hash_table_contains(program->kernels, own))
            g_hash_table_insert(program->kernels, g_strdup(own), g_array_ref(ops));
        g_hash_table_insert(program->named, g_steal_pointer(&own), GSIZE_TO_POINTER(op));
    }
}

static void read_kernels(Program *program, const EchProgram *p)
{
    program->kernels = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
    program->named = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    program->roles = g_new0(uint8_t, ech_trace_n_ops(program->trace) + 1);
    program->between = g_hash_table_new_full(hash_between, equal_between, g_free, NULL);
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        gsize op = GPOINTER_TO_SIZE(g_hash_table_lookup(program->index, instruction->name));
        if (op == 0)
            continue;
        if (instruction->opcode == ECH_HLO_CUSTOM_CALL) {
            program->roles[op - 1] = ROLE_CALL;
            continue;
        }
        if (instruction->opcode == ECH_HLO_COPY) {
            g_hash_table_add(program->copies, g_memdup2(&p->shapes[instruction->shape].bytes, sizeof(EchBytes)));
            continue;
        }
        program->roles[op - 1] = ROLE_KERNEL;
        g_autofree char *name = kernel_name(instruction->twin ? instruction->twin : instruction->name);
        GArray *ops = g_hash_table_lookup(program->kernels, name);
        if (!ops) {
            ops = g_array_new(FALSE, FALSE, sizeof(EchId));
            g_hash_table_insert(program->kernels, g_steal_pointer(&name), ops);
        }
        EchId id = (EchId)(op - 1);
        g_array_append_val(ops, id);
    }
    name_by_twins(program, p);
}

/* Its trace, by the names of its instructions; NULL where it cannot be read. */
static const EchTrace *read_program(Program *program, EchDiag *diag)
{
    if (program->read)
        return program->trace;
    program->read = true;
    EchImportOptions options = {.ignore_beside = true};
    g_autoptr(EchSource) source = program->path ? ech_source_open(program->path, NULL) : ech_source_new_memory(program->data, program->n, NULL);
    g_autoptr(EchImport) import = source ? ech_import_source(source, program->path ? NULL : "hlo_proto", &options, NULL) : NULL;
    EchLowerOptions lower = {.loop_trips = 1};
    g_autoptr(EchDiag) unheard = ech_diag_new();
    if (import && import->program) {
        program->name = g_strdup(import->program->name);
        program->trace = ech_program_lower(import->program, NULL, &lower, unheard, NULL);
    }
    if (!program->trace) {
        ech_diag_note(diag, "programs_not_read", 1);
        return NULL;
    }
    program->index = g_hash_table_new(ech_hash_text, g_str_equal);
    program->copies = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    for (size_t i = 0; i < ech_trace_n_ops(program->trace); i++) {
        const EchOp *op = &ech_trace_ops(program->trace)[i];
        if (op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COLLECTIVE)
            g_hash_table_insert(program->index, (char *)(uintptr_t)ech_trace_string(program->trace, op->name), GSIZE_TO_POINTER(i + 1));
        else if (op->kind == ECH_OP_COPY && op->memory_from == op->memory_to)
            g_hash_table_add(program->copies, g_memdup2(&op->bytes, sizeof op->bytes));
    }
    read_kernels(program, import->program);
    return program->trace;
}

static Program *program_of(EchXlaPrograms *programs, uint64_t id, EchDiag *diag)
{
    int64_t key = (int64_t)id;
    Program *program = g_hash_table_lookup(programs->programs, &key);
    return program && read_program(program, diag) ? program : NULL;
}

/* @a of @of_a and @b of @of_b. */
static bool does_the_same(const EchTrace *of_a, const EchOp *a, const EchTrace *of_b, const EchOp *b)
{
    EchBytes bytes[2] = {0};
    uint64_t counts[2] = {0};
    const EchTrace *traces[2] = {of_a, of_b};
    const EchOp *ops[2] = {a, b};
    for (int k = 0; k < 2; k++) {
        for (uint32_t u = 0; u < ops[k]->n_uses; u++)
            bytes[k] = ech_bytes_add(bytes[k], ech_trace_uses(traces[k])[ops[k]->first_use + u].bytes);
        for (uint32_t w = 0; w < ops[k]->n_work; w++)
            counts[k] = ech_bytes_add(counts[k], ech_trace_work(traces[k])[ops[k]->first_work + w].count);
    }
    return a->kind == b->kind && bytes[0] == bytes[1] && counts[0] == counts[1] &&
           strcmp(ech_trace_string(of_a, a->launch), ech_trace_string(of_b, b->launch)) == 0;
}

static const GArray *ops_named(const Program *program, EchCapture *capture, EchId name)
{
    return g_hash_table_lookup(program->kernels, ech_trace_builder_peek_string(ech_capture_builder(capture), name));
}

/* What the kernel of this name does, if all instructions that it may run for do the same: of its own instruction, as each one's work is given to one name. */
static const EchOp *by_name(const Program *program, EchCapture *capture, EchId name)
{
    const GArray *ops = ops_named(program, capture, name);
    const EchOp *all = ech_trace_ops(program->trace);
    for (guint k = 1; ops && k < ops->len; k++)
        if (k > TWINS || !does_the_same(program->trace, &all[g_array_index(ops, EchId, 0)], program->trace, &all[g_array_index(ops, EchId, k)]))
            return NULL;
    if (!ops)
        return NULL;
    gsize own = GPOINTER_TO_SIZE(g_hash_table_lookup(program->named, ech_trace_builder_peek_string(ech_capture_builder(capture), name)));
    return own ? &all[own - 1] : &all[g_array_index(ops, EchId, 0)];
}

/* The @nth of the @n calls of libraries that stand between each instruction of kernel @before and the next of kernel @after: the same wherever that is. */
static const EchOp *call_between(Program *program, EchCapture *capture, Between key)
{
    gpointer known;
    const EchOp *all = ech_trace_ops(program->trace), *found = NULL;
    if (g_hash_table_lookup_extended(program->between, &key, NULL, &known))
        return known ? &all[GPOINTER_TO_SIZE(known) - 1] : NULL;
    const GArray *before = ops_named(program, capture, key.before), *after = ops_named(program, capture, key.after);
    bool sure = before && after && before->len <= TWINS && after->len <= TWINS;
    for (guint k = 0; sure && k < before->len; k++) {
        EchId from = g_array_index(before, EchId, k), calls[NEAR];
        uint32_t n = 0;
        bool met = false, others = false;
        for (size_t i = from + 1; !met && !others && n < NEAR && i < ech_trace_n_ops(program->trace) && all[i].kind != ECH_OP_LOOP; i++) {
            for (guint j = 0; program->roles[i] == ROLE_KERNEL && j < after->len; j++)
                met |= g_array_index(after, EchId, j) == i;
            others = program->roles[i] == ROLE_KERNEL && !met;
            if (program->roles[i] == ROLE_CALL)
                calls[n++] = (EchId)i;
        }
        if (!met || n == 0)
            continue;
        const EchOp *op = n == key.n ? &all[calls[key.nth]] : n == 1 ? &all[calls[0]] : NULL;
        sure = op && (!found || does_the_same(program->trace, found, program->trace, op));
        found = op;
    }
    found = sure ? found : NULL;
    g_hash_table_insert(program->between, g_memdup2(&key, sizeof key), GSIZE_TO_POINTER(found ? (gsize)(found - all) + 1 : 0));
    return found;
}

/* The driver's copies inside a device are kernels in a graph: "memcpy128", of so many bits a thread. */
static EchBytes copied(EchCapture *capture, const EchItem *item, uint64_t threads)
{
    static const char driver[] = "memcpy";
    const char *name = ech_trace_builder_peek_string(ech_capture_builder(capture), item->name), *bits = name + sizeof driver - 1;
    if (!g_str_has_prefix(name, driver) || !g_ascii_isdigit(*bits) || strspn(bits, "0123456789") != strlen(bits) || strlen(bits) > 4)
        return 0;
    return ech_bytes_mul(threads, (EchBytes)g_ascii_strtoull(bits, NULL, 10) / 8);
}

static guint hash_share(gconstpointer p)
{
    const Share *share = p;
    return ech_hash_pair((uintptr_t)share->op, share->name);
}

static gboolean equal_shares(gconstpointer a, gconstpointer b)
{
    const Share *x = a, *y = b;
    return x->op == y->op && x->name == y->name;
}

/* The share of a kernel's name, or with @name ECH_NONE the longest one's; made when first asked for. */
static Share *share_of(GHashTable *shares, const EchOp *op, EchId name)
{
    Share key = {.op = op, .name = name};
    Share *share = g_hash_table_lookup(shares, &key);
    if (!share) {
        share = g_memdup2(&key, sizeof key);
        g_hash_table_add(shares, share);
    }
    return share;
}

static bool communicates(EchCapture *capture, const EchItem *item)
{
    EchCommName name;
    return ech_comm_name(ech_trace_builder_peek_string(ech_capture_builder(capture), item->name), &name);
}

static void make_collective(const EchTrace *trace, const EchOp *op, EchItem *item)
{
    EchGroup group;
    item->kind = ECH_ITEM_COLLECTIVE;
    item->from = op->collective;
    item->bytes = op->bytes;
    item->origin = op->bytes_origin;
    item->other = op->memory_from ? op->memory_from : ECH_NONE;
    if (op->launch != ECH_NONE && ech_group_parse(ech_trace_string(trace, op->launch), op->memory_from, &group)) {
        item->rounded = group.devices;
        item->address = group.stride;
    }
}

static void give_work(EchCapture *capture, const EchTrace *trace, const EchOp *op, EchItem *item)
{
    item->work = ech_capture_work_of(capture, trace, op, ECH_INFERRED);
    if (op->launch != ECH_NONE)
        item->other = ech_trace_builder_string(ech_capture_builder(capture), ech_trace_string(trace, op->launch), -1);
}

/* What one launched kernel runs for. */
typedef struct {
    Launched launched; /* launch: with others that are known by what ran before and after them, or 0 */
    EchTime start;
    Program *program; /* NULL: not known, or it cannot be read */
    const EchOp *op;  /* NULL: not found */
    bool named;       /* by the kernel's own name, or the instruction's */
} Joined;

static int by_launch(gconstpointer a, gconstpointer b)
{
    const Joined *x = a, *y = b;
    if (x->launched.launch != y->launched.launch)
        return x->launched.launch < y->launched.launch ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->launched.item < y->launched.item ? -1 : x->launched.item > y->launched.item;
}

static bool same_graph(const Joined *a, const Joined *b)
{
    return a->program == b->program && a->launched.launch == b->launched.launch && a->launched.instruction == b->launched.instruction;
}

/* Of a graph the calls of libraries, by the kernels of the program's own before and after them. */
static void join_calls(EchCapture *capture, Joined *joined, guint n)
{
    for (guint i = 0; i < n; i++) {
        if (!joined[i].program || joined[i].op || joined[i].launched.launch == 0 || ech_capture_item(capture, joined[i].launched.item)->kind != ECH_ITEM_KERNEL)
            continue;
        guint end = i, count = 0, members[NEAR];
        for (; end < n && end - i < NEAR && same_graph(&joined[i], &joined[end]) && !joined[end].named; end++)
            if (ech_capture_item(capture, joined[end].launched.item)->kind == ECH_ITEM_KERNEL)
                members[count++] = end;
        guint begin = i;
        while (begin > 0 && i - begin < NEAR && same_graph(&joined[i], &joined[begin - 1]) && !joined[begin - 1].named)
            begin--;
        bool bounded = begin > 0 && same_graph(&joined[i], &joined[begin - 1]) && joined[begin - 1].named && end < n && same_graph(&joined[i], &joined[end]) &&
                       joined[end].named;
        for (guint k = 0; bounded && k < count; k++) {
            Between key = {.n = count, .nth = k};
            key.before = ech_capture_item(capture, joined[begin - 1].launched.item)->name;
            key.after = ech_capture_item(capture, joined[end].launched.item)->name;
            joined[members[k]].op = call_between(joined[i].program, capture, key);
        }
        i = end - 1;
    }
}

/* Gives each kernel what its instruction does. Counts them. */
static void give_all(EchCapture *capture, const Joined *all, guint n, EchDiag *diag)
{
    g_autoptr(GHashTable) shares = g_hash_table_new_full(hash_share, equal_shares, g_free, NULL);
    uint64_t kernels = 0, collectives = 0;
    for (guint i = 0; i < n; i++) {
        const EchItem *item = ech_capture_item(capture, all[i].launched.item);
        if (!all[i].op || item->kind != ECH_ITEM_KERNEL || item->duration == ECH_TIME_NONE)
            continue;
        Share *own = share_of(shares, all[i].op, item->name), *most = share_of(shares, all[i].op, ECH_NONE);
        own->time += (double)item->duration;
        most->time = MAX(most->time, own->time);
    }
    for (guint i = 0; i < n; i++) {
        EchItem *item = ech_capture_item(capture, all[i].launched.item);
        const EchOp *op = all[i].op;
        if (!op)
            continue;
        if (item->stack == ECH_NONE && op->stack != ECH_NONE)
            item->stack = ech_trace_builder_string(ech_capture_builder(capture), ech_trace_string(all[i].program->trace, op->stack), -1);
        if (op->kind == ECH_OP_COLLECTIVE && op->collective != ECH_COLLECTIVE_NONE && communicates(capture, item)) {
            make_collective(all[i].program->trace, op, item);
            collectives++;
        } else if (op->kind == ECH_OP_KERNEL && share_of(shares, op, item->name)->time >= share_of(shares, op, ECH_NONE)->time) {
            give_work(capture, all[i].program->trace, op, item);
            kernels++;
        }
    }
    ech_diag_note(diag, "kernel_traffic_from_programs", kernels);
    ech_diag_note(diag, "collectives_from_programs", collectives);
}

void ech_xla_programs_apply(EchXlaPrograms *programs, EchCapture *capture, EchDiag *diag)
{
    guint n = programs->launched->len;
    g_autofree Joined *all = g_new0(Joined, n + 1);
    uint64_t copies = 0, named = 0, unknown = 0;
    for (guint i = 0; i < n; i++) {
        Joined *j = &all[i];
        j->launched = g_array_index(programs->launched, Launched, i);
        EchItem *item = ech_capture_item(capture, j->launched.item);
        j->start = item->start;
        if (item->kind != ECH_ITEM_KERNEL || !(j->program = program_of(programs, j->launched.program, diag)))
            continue;
        const char *instruction = ech_trace_builder_peek_string(ech_capture_builder(capture), j->launched.instruction);
        gsize op = GPOINTER_TO_SIZE(g_hash_table_lookup(j->program->index, instruction));
        j->op = op ? &ech_trace_ops(j->program->trace)[op - 1] : j->launched.launch ? by_name(j->program, capture, item->name) : NULL;
        j->named = j->op != NULL;
        named += j->op && !op;
        EchBytes bytes = j->op ? 0 : copied(capture, item, j->launched.threads);
        if (bytes > 0 && g_hash_table_contains(j->program->copies, &bytes)) {
            item->kind = ECH_ITEM_COPY;
            item->from = item->to = ECH_TIER_DEVICE;
            item->bytes = bytes;
            item->origin = ECH_INFERRED;
            item->other = item->work = ECH_NONE;
            copies++;
        }
    }
    qsort(all, n, sizeof *all, by_launch);
    join_calls(capture, all, n);
    for (guint i = 0; i < n; i++)
        unknown += !all[i].op && all[i].program && ech_capture_item(capture, all[i].launched.item)->kind == ECH_ITEM_KERNEL && all[i].launched.launch > 0;
    give_all(capture, all, n, diag);
    ech_diag_note(diag, "kernels_of_graphs_by_name", named);
    ech_diag_note(diag, "copies_of_graphs_from_programs", copies);
    ech_diag_note(diag, "kernels_of_graphs_not_in_programs", unknown);
}

/* ---- programs beside a recording ---- */

/* One of XLA's ranges: a run of a program, or the launch of an instruction. */
typedef struct {
    EchTime start, end;
    size_t item;
    EchId text;          /* the item's name */
    char *name;          /* what of that says whose it is, "jit_step(21)" or "while.17" */
    GPtrArray *programs; /* of a module's run: those that it may be of, where they are there; borrowed */
} Range;

/* What kernels of a name may run for, of programs that ran. */
typedef struct {
    GHashTable *programs; /* Program -> its op, NULL: several that do not do the same */
    Program *first;       /* NULL: no program has the name */
    bool same;            /* all do the same */
} Matches;

typedef struct {
    EchCapture *capture;
    GPtrArray *programs; /* Program, owned */
    GHashTable *ran;     /* "jit_step(21)" -> GPtrArray of programs */
    GArray *launches;    /* Range: of instructions, in the order of their starts; borrowed */
    GArray *modules;     /* Range: of runs, likewise */
    GArray *runs;        /* Range: of those the ones that are of other programs than the run before */
    GHashTable *matches; /* kernel's name -> Matches */
} Beside;

static gint by_name_of_file(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files of programs in @path. */
static GPtrArray *program_files(const char *path, GError **error)
{
    static const char *const patterns[] = {"*after_optimizations.hlo.pb*", "*after_optimizations.txt*"};
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
    for (size_t k = 0; k < G_N_ELEMENTS(patterns) && files->len == 0; k++) {
        g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
        for (const char *name = dir ? g_dir_read_name(dir) : NULL; name && files->len < MOST_FILES; name = g_dir_read_name(dir))
            if (g_pattern_match_simple(patterns[k], name))
                g_ptr_array_add(files, g_build_filename(path, name, NULL));
    }
    if (files->len == 0) {
        unsigned like;
        char *file = ech_import_file_in(path, &like, error);
        if (!file)
            return NULL;
        g_ptr_array_add(files, file);
    }
    g_ptr_array_sort(files, by_name_of_file);
    return g_steal_pointer(&files);
}

static GPtrArray *read_files(const char *path, EchDiag *diag, GError **error)
{
    g_autoptr(GPtrArray) files = program_files(path, error), programs = g_ptr_array_new_with_free_func(program_free);
    for (guint i = 0; files && i < files->len; i++) {
        Program *program = g_new0(Program, 1);
        program->path = g_strdup(files->pdata[i]);
        g_autofree char *name = g_path_get_basename(program->path);
        program->number = g_str_has_prefix(name, "module_") ? g_ascii_strtoull(name + strlen("module_"), NULL, 10) : UINT64_MAX;
        if (read_program(program, diag))
            g_ptr_array_add(programs, program);
        else
            program_free(program);
    }
    if (files && programs->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: no program that XLA compiled can be read there; expected what XLA_FLAGS=%s writes", path,
                    "'--xla_dump_to=DIR --xla_dump_hlo_as_proto'");
        return NULL;
    }
    return files ? g_steal_pointer(&programs) : NULL;
}

/* The programs that a run called "jit_step(21)" may be of: the one of that number, or all of that name, unless those are many. */
static GPtrArray *programs_called(Beside *b, const char *name)
{
    GPtrArray *called = g_hash_table_lookup(b->ran, name);
    if (called)
        return called;
    called = g_ptr_array_new();
    g_hash_table_insert(b->ran, g_strdup(name), called);
    const char *paren = strrchr(name, '(');
    size_t n = paren ? (size_t)(paren - name) : strlen(name);
    uint64_t number = paren ? g_ascii_strtoull(paren + 1, NULL, 10) : UINT64_MAX;
    for (guint i = 0; i < b->programs->len; i++) {
        Program *program = b->programs->pdata[i];
        if (strlen(program->name) != n || memcmp(program->name, name, n) != 0)
            continue;
        if (paren && program->number == number) {
            g_ptr_array_set_size(called, 0);
            g_ptr_array_add(called, program);
            break;
        }
        g_ptr_array_add(called, program);
    }
    if (called->len > NEAR)
        g_ptr_array_set_size(called, 0);
    for (guint i = 0; i < called->len; i++)
        ((Program *)called->pdata[i])->ran = true;
    return called;
}

static gint by_start(gconstpointer a, gconstpointer b)
{
    const Range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

static void clear_range(gpointer data)
{
    g_free(((Range *)data)->name);
}

static GArray *ranges_new(void)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(Range));
    g_array_set_clear_func(ranges, clear_range);
    return ranges;
}

/* Those of instructions and of runs, each in the order of their starts. */
static void find_ranges(EchCapture *capture, GArray *launches, GArray *modules)
{
    for (size_t i = 0; i < ech_capture_n_items(capture); i++) {
        const EchItem *item = ech_capture_item(capture, i);
        if (item->kind != ECH_ITEM_MARK || item->start == ECH_TIME_NONE)
            continue;
        bool module;
        Range range = {.start = item->start, .end = item->start + MAX(item->duration, 0), .item = i, .text = item->name};
        range.name = ech_capture_xla_range(ech_trace_builder_peek_string(ech_capture_builder(capture), item->name), &module);
        if (range.name)
            g_array_append_val(module ? modules : launches, range);
    }
    g_array_sort(launches, by_start);
    g_array_sort(modules, by_start);
}

/* Which programs runs may be of. */
static void find_programs(Beside *b)
{
    for (guint i = 0; i < b->modules->len; i++) {
        Range *range = &g_array_index(b->modules, Range, i);
        range->programs = programs_called(b, range->name);
        if (i == 0 || range[-1].programs != range->programs)
            g_array_append_vals(b->runs, range, 1);
    }
}

/* How many of @ranges have begun at @time. */
static guint begun(const GArray *ranges, EchTime time)
{
    guint low = 0, high = ranges->len;
    ECH_SEARCH(low, high, middle, g_array_index(ranges, Range, middle).start <= time);
    return low;
}

/* The innermost of @ranges around a call; NULL: none. */
static const Range *range_around(const GArray *ranges, EchTime time)
{
    guint n = begun(ranges, time);
    for (guint k = n; k > 0 && n - k < NEAR; k--) {
        const Range *range = &g_array_index(ranges, Range, k - 1);
        if (time <= range->end)
            return range;
    }
    return NULL;
}

static void matches_free(gpointer data)
{
    Matches *matches = data;
    g_hash_table_unref(matches->programs);
    g_free(matches);
}

static void add_match(const Beside *b, Matches *matches, Program *program, EchId name)
{
    if (g_hash_table_contains(matches->programs, program) || !ops_named(program, b->capture, name))
        return;
    const EchOp *op = by_name(program, b->capture, name), *first = matches->first ? g_hash_table_lookup(matches->programs, matches->first) : NULL;
    matches->same = op && (!matches->first || (matches->same && does_the_same(matches->first->trace, first, program->trace, op)));
    matches->first = matches->first ? matches->first : program;
    g_hash_table_insert(matches->programs, program, (gpointer)(uintptr_t)op);
}

static const Matches *matches_of(const Beside *b, EchId name)
{
    Matches *matches = g_hash_table_lookup(b->matches, GUINT_TO_POINTER(name));
    if (matches)
        return matches;
    matches = g_new0(Matches, 1);
    matches->programs = g_hash_table_new(ech_hash_key, NULL);
    g_hash_table_insert(b->matches, GUINT_TO_POINTER(name), matches);
    for (guint k = 0; k < b->programs->len; k++)
        if (b->modules->len == 0 || ((const Program *)b->programs->pdata[k])->ran)
            add_match(b, matches, b->programs->pdata[k], name);
    return matches;
}

/* The program that a kernel is of: any, where all that have its name do the same, or the only one of those that ran then. *@run: the run that the device was
 * at; it goes on to that one's. NULL: there is none, or several. */
static Program *choose(const Beside *b, const Matches *matches, EchTime start, guint *run)
{
    Program *found = NULL;
    guint end = begun(b->runs, start), of = 0;
    if (b->modules->len == 0)
        return matches->same ? matches->first : NULL;
    for (guint i = MAX(*run, end > NEAR ? end - NEAR : 0); matches->first && i < end; i++) {
        const GPtrArray *programs = g_array_index(b->runs, Range, i).programs;
        for (guint k = 0; k < programs->len; k++) {
            if (programs->pdata[k] == found || !g_hash_table_contains(matches->programs, programs->pdata[k]))
                continue;
            if (found && !matches->same)
                return NULL;
            of = found ? of : i;
            found = found ? found : programs->pdata[k];
        }
    }
    if (found && g_hash_table_size(matches->programs) == 1)
        *run = of;
    return found;
}

/* Of a kernel whose call was recorded, by the ranges around it. */
static void join_call(const Beside *b, EchTime issued, EchId name, Joined *j)
{
    const Range *run = range_around(b->modules, issued), *launch = range_around(b->launches, issued);
    const GPtrArray *programs = run ? run->programs : NULL;
    for (guint k = 0; programs && k < programs->len; k++) {
        Program *program = programs->pdata[k];
        gsize op = launch ? GPOINTER_TO_SIZE(g_hash_table_lookup(program->index, launch->name)) : 0;
        const EchOp *found = op ? &ech_trace_ops(program->trace)[op - 1] : by_name(program, b->capture, name);
        if (!found || (j->op && !does_the_same(j->program->trace, j->op, program->trace, found))) {
            j->op = NULL;
            j->program = programs->len == 1 ? program : NULL;
            return;
        }
        j->program = program;
        j->op = found;
    }
}

static guint join_all(const Beside *b, Joined *all)
{
    guint n = 0;
    for (size_t i = 0; i < ech_capture_n_items(b->capture); i++) {
        const EchItem *item = ech_capture_item(b->capture, i);
        if (item->kind != ECH_ITEM_KERNEL || item->start == ECH_TIME_NONE)
            continue;
        all[n++] = (Joined){.launched = {.item = i, .instruction = ECH_NONE, .launch = (uint64_t)ech_capture_queue_device(b->capture, item->queue) + 1},
                            .start = item->start};
    }
    qsort(all, n, sizeof *all, by_launch);
    Program *last = NULL;
    guint run = 0;
    for (guint i = 0; i < n; i++) {
        const EchItem *item = ech_capture_item(b->capture, all[i].launched.item);
        if (i == 0 || all[i].launched.launch != all[i - 1].launched.launch) {
            run = 0;
            last = NULL;
        }
        if (item->issued < item->start) {
            join_call(b, item->issued, item->name, &all[i]);
        } else {
            const Matches *matches = matches_of(b, item->name);
            all[i].program = choose(b, matches, item->start, &run);
            all[i].op = all[i].program ? g_hash_table_lookup(matches->programs, all[i].program) : NULL;
            if (!matches->first)
                all[i].program = last;
        }
        all[i].named = all[i].op != NULL;
        last = all[i].program;
    }
    join_calls(b->capture, all, n);
    return n;
}

/* The names of runs before which the device had not done all that it was asked, where calls are not told: a set. */
static GHashTable *find_ahead(EchCapture *capture, const GArray *modules)
{
    GHashTable *ahead = g_hash_table_new(NULL, NULL);
    for (size_t i = 0; i < ech_capture_n_items(capture); i++) {
        const EchItem *item = ech_capture_item(capture, i);
        if (item->kind != ECH_ITEM_KERNEL || item->start == ECH_TIME_NONE || item->duration == ECH_TIME_NONE || item->issued < item->start)
            continue;
        for (guint k = begun(modules, item->start); k < modules->len && g_array_index(modules, Range, k).start < item->start + item->duration; k++)
            g_hash_table_add(ahead, GUINT_TO_POINTER(g_array_index(modules, Range, k).text));
    }
    return ahead;
}

/* Runs of the program of @one that the host was ahead with become what the device did: from the first kernel of a run to its last, of which each run has as
 * many as the others. False: that is not known. */
static bool place_runs(const Beside *b, const Range *one, const Joined *all, guint n)
{
    const GPtrArray *programs = one->programs;
    guint kernels = 0, times = 0, at = 0, next = 0;
    uint64_t device = 0;
    for (guint i = 0; i < b->modules->len; i++)
        times += g_array_index(b->modules, Range, i).text == one->text;
    for (guint i = 0; i < n && programs->len == 1; i++) {
        if (all[i].program != programs->pdata[0] || !all[i].op)
            continue;
        if (kernels++ > 0 && all[i].launched.launch != device)
            return false;
        device = all[i].launched.launch;
    }
    if (kernels == 0 || kernels % times != 0)
        return false;
    EchItem *mark = NULL;
    for (guint i = 0; i < n; i++) {
        if (all[i].program != programs->pdata[0] || !all[i].op)
            continue;
        if (at++ % (kernels / times) == 0) {
            while (g_array_index(b->modules, Range, next).text != one->text)
                next++;
            mark = ech_capture_item(b->capture, g_array_index(b->modules, Range, next++).item);
            mark->start = MAX(mark->start, all[i].start);
            mark->issued = mark->start - 1; /* before what begins then */
        }
        mark->duration = MAX(all[i].start + MAX(ech_capture_item(b->capture, all[i].launched.item)->duration, 0) - mark->start, 0);
    }
    return true;
}

/* Runs of programs, which may be steps: what the device does belongs to the run that the host was at when it asked for that. @b, with @all kernels, where the
 * programs are there; else NULL. */
static void mark_runs(EchCapture *capture, const GArray *modules, const Beside *b, const Joined *all, guint n)
{
    g_autoptr(GHashTable) ahead = find_ahead(capture, modules), settled = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < modules->len; i++) {
        const Range *run = &g_array_index(modules, Range, i);
        gpointer name = GUINT_TO_POINTER(run->text);
        if (g_hash_table_contains(ahead, name) && !g_hash_table_contains(settled, name)) {
            if (!b || !place_runs(b, run, all, n))
                continue;
            g_hash_table_add(settled, name);
        }
        ech_capture_item(capture, run->item)->queue = ech_capture_queue(capture, ECH_QUEUE_OF_PROGRAMS, ECH_QUEUE_HOST, 0);
    }
}

/* Says, and counts, how many kernels the programs tell of. */
static void tell(const Beside *b, const Joined *all, guint n, const char *path, EchDiag *diag)
{
    guint unknown = 0, several = 0;
    for (guint i = 0; i < n; i++) {
        const Matches *matches = g_hash_table_lookup(b->matches, GUINT_TO_POINTER(ech_capture_item(b->capture, all[i].launched.item)->name));
        unknown += !all[i].op;
        several += !all[i].op && matches && g_hash_table_size(matches->programs) > 1;
    }
    const char *many = b->programs->len == 1 ? "" : "s";
    if (unknown == n)
        ech_diag_remark(diag, "none of the recording's %u kernels has the name of one in the program%s beside (%s): another run's, or not XLA's", n, many,
                        path);
    else
        ech_diag_remark(diag, "what %u of the recording's %u kernels move and compute is told by the program%s beside%s", n - unknown, n, many,
                        unknown > 0 ? "; of the others it is not known" : "");
    ech_diag_note(diag, "programs_beside", b->programs->len);
    ech_diag_note(diag, "kernels_not_in_programs", unknown - several);
    ech_diag_note(diag, "kernels_in_several_programs", several);
}

bool ech_xla_programs_beside(EchCapture *capture, const char *path, EchDiag *diag, GError **error)
{
    g_autoptr(GArray) launches = ranges_new(), modules = ranges_new();
    find_ranges(capture, launches, modules);
    if (!path) {
        mark_runs(capture, modules, NULL, NULL, 0);
        if (modules->len > 0)
            ech_diag_remark(diag, "its kernels are of programs that XLA compiled, which say what each moves and computes: run again with "
                                  "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto', and give --beside DIR here");
        return true;
    }
    g_autoptr(GPtrArray) programs = read_files(path, diag, error);
    if (!programs)
        return false;
    g_autoptr(GHashTable) ran = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
    g_autoptr(GHashTable) matches = g_hash_table_new_full(NULL, NULL, NULL, matches_free);
    g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(Range));
    Beside b = {.capture = capture, .programs = programs, .ran = ran, .launches = launches, .modules = modules, .runs = runs, .matches = matches};
    find_programs(&b);
    g_autofree Joined *all = g_new0(Joined, ech_capture_n_items(capture) + 1);
    guint n = join_all(&b, all);
    give_all(capture, all, n, diag);
    tell(&b, all, n, path, diag);
    mark_runs(capture, modules, &b, all, n);
    return true;
}
