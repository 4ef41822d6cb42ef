#include "sim/import/xplane_programs.h"

#include "models/kernel/comm_name.h"
#include "models/link/link.h"
#include "sim/base/hash.h"
#include "sim/import/import.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const uint8_t *data;
    size_t n;
    bool read;
    EchTrace *trace;     /* NULL: not read, or it cannot be */
    GHashTable *index;   /* name -> op + 1 */
    GHashTable *kernels; /* kernel's name -> GArray of the ops that it runs for */
    GHashTable *copies;  /* bytes of the copies inside the device's memory, a set */
    uint8_t *roles;      /* per op: Role */
    GHashTable *between; /* Between -> op + 1, 0: not sure */
} Program;

typedef enum { ROLE_OTHER, ROLE_KERNEL, ROLE_CALL } Role;

typedef EchXplaneLaunched Launched;

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

struct EchXplanePrograms {
    GHashTable *modules;  /* where its bytes are -> Program, its owner: many ids may refer to one module, which is read once */
    GHashTable *programs; /* id -> Program */
    GArray *launched;     /* Launched */
};

enum {
    NEAR = 64,  /* calls between two kernels */
    TWINS = 512 /* instructions of one kernel */
};

static void program_free(gpointer data)
{
    Program *program = data;
    g_clear_pointer(&program->trace, ech_trace_unref);
    g_clear_pointer(&program->index, g_hash_table_unref);
    g_clear_pointer(&program->kernels, g_hash_table_unref);
    g_clear_pointer(&program->copies, g_hash_table_unref);
    g_clear_pointer(&program->roles, g_free);
    g_clear_pointer(&program->between, g_hash_table_unref);
    g_free(program);
}

EchXplanePrograms *ech_xplane_programs_new(void)
{
    EchXplanePrograms *programs = g_new0(EchXplanePrograms, 1);
    programs->modules = g_hash_table_new_full(ech_hash_key, NULL, NULL, program_free);
    programs->programs = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    programs->launched = g_array_new(FALSE, FALSE, sizeof(Launched));
    return programs;
}

void ech_xplane_programs_free(EchXplanePrograms *programs)
{
    if (!programs)
        return;
    g_hash_table_unref(programs->programs);
    g_hash_table_unref(programs->modules);
    g_array_unref(programs->launched);
    g_free(programs);
}

void ech_xplane_programs_add(EchXplanePrograms *programs, uint64_t id, const uint8_t *data, size_t n)
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

void ech_xplane_programs_launched(EchXplanePrograms *programs, const EchXplaneLaunched *launched)
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

static void read_kernels(Program *program, const EchProgram *p)
{
    program->kernels = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
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
}

/* Its trace, by the names of its instructions; NULL where it cannot be read. */
static const EchTrace *read_program(Program *program, EchDiag *diag)
{
    if (program->read)
        return program->trace;
    program->read = true;
    EchImportOptions options = {.ignore_beside = true};
    g_autoptr(EchSource) source = ech_source_new_memory(program->data, program->n, NULL);
    g_autoptr(EchImport) import = ech_import_source(source, "hlo_proto", &options, NULL);
    EchLowerOptions lower = {.loop_trips = 1};
    g_autoptr(EchDiag) unheard = ech_diag_new();
    if (import && import->program)
        program->trace = ech_program_lower(import->program, NULL, &lower, unheard, NULL);
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

static Program *program_of(EchXplanePrograms *programs, uint64_t id, EchDiag *diag)
{
    int64_t key = (int64_t)id;
    Program *program = g_hash_table_lookup(programs->programs, &key);
    return program && read_program(program, diag) ? program : NULL;
}

static bool does_the_same(const EchTrace *t, const EchOp *a, const EchOp *b)
{
    EchBytes bytes[2] = {0};
    const EchOp *ops[2] = {a, b};
    for (int k = 0; k < 2; k++)
        for (uint32_t u = 0; u < ops[k]->n_uses; u++)
            bytes[k] = ech_bytes_add(bytes[k], ech_trace_uses(t)[ops[k]->first_use + u].bytes);
    uint64_t counts[2] = {0};
    for (int k = 0; k < 2; k++)
        for (uint32_t w = 0; w < ops[k]->n_work; w++)
            counts[k] = ech_bytes_add(counts[k], ech_trace_work(t)[ops[k]->first_work + w].count);
    return a->kind == b->kind && bytes[0] == bytes[1] && counts[0] == counts[1] && a->launch == b->launch;
}

static const GArray *ops_named(const Program *program, EchCapture *capture, EchId name)
{
    return g_hash_table_lookup(program->kernels, ech_trace_builder_peek_string(ech_capture_builder(capture), name));
}

/* What the kernel of this name does, if all instructions that it may run for do the same. */
static const EchOp *by_name(const Program *program, EchCapture *capture, EchId name)
{
    const GArray *ops = ops_named(program, capture, name);
    const EchOp *all = ech_trace_ops(program->trace);
    for (guint k = 1; ops && k < ops->len; k++)
        if (k > TWINS || !does_the_same(program->trace, &all[g_array_index(ops, EchId, 0)], &all[g_array_index(ops, EchId, k)]))
            return NULL;
    return ops ? &all[g_array_index(ops, EchId, 0)] : NULL;
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
        sure = op && (!found || does_the_same(program->trace, found, op));
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
    const Launched *launched;
    EchTime start;
    Program *program; /* NULL: not known, or it cannot be read */
    const EchOp *op;  /* NULL: not found */
    bool named;       /* by the kernel's own name, or the instruction's */
} Joined;

static int by_launch(gconstpointer a, gconstpointer b)
{
    const Joined *x = a, *y = b;
    if (x->launched->launch != y->launched->launch)
        return x->launched->launch < y->launched->launch ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->launched->item < y->launched->item ? -1 : x->launched->item > y->launched->item;
}

static bool same_graph(const Joined *a, const Joined *b)
{
    return a->program == b->program && a->launched->launch == b->launched->launch && a->launched->instruction == b->launched->instruction;
}

/* Of a graph the calls of libraries, by the kernels of the program's own before and after them. */
static void join_calls(EchCapture *capture, Joined *joined, guint n)
{
    for (guint i = 0; i < n; i++) {
        if (!joined[i].program || joined[i].op || joined[i].launched->launch == 0 ||
            ech_capture_item(capture, joined[i].launched->item)->kind != ECH_ITEM_KERNEL)
            continue;
        guint end = i, count = 0, members[NEAR];
        for (; end < n && end - i < NEAR && same_graph(&joined[i], &joined[end]) && !joined[end].named; end++)
            if (ech_capture_item(capture, joined[end].launched->item)->kind == ECH_ITEM_KERNEL)
                members[count++] = end;
        guint begin = i;
        while (begin > 0 && i - begin < NEAR && same_graph(&joined[i], &joined[begin - 1]) && !joined[begin - 1].named)
            begin--;
        bool bounded = begin > 0 && same_graph(&joined[i], &joined[begin - 1]) && joined[begin - 1].named && end < n && same_graph(&joined[i], &joined[end]) &&
                       joined[end].named;
        for (guint k = 0; bounded && k < count; k++) {
            Between key = {.n = count, .nth = k};
            key.before = ech_capture_item(capture, joined[begin - 1].launched->item)->name;
            key.after = ech_capture_item(capture, joined[end].launched->item)->name;
            joined[members[k]].op = call_between(joined[i].program, capture, key);
        }
        i = end - 1;
    }
}

void ech_xplane_programs_apply(EchXplanePrograms *programs, EchCapture *capture, EchDiag *diag)
{
    g_autoptr(GHashTable) shares = g_hash_table_new_full(hash_share, equal_shares, g_free, NULL);
    guint n = programs->launched->len;
    g_autofree Joined *all = g_new0(Joined, n + 1);
    uint64_t kernels = 0, collectives = 0, copies = 0, named = 0, unknown = 0;
    for (guint i = 0; i < n; i++) {
        Joined *j = &all[i];
        j->launched = &g_array_index(programs->launched, Launched, i);
        EchItem *item = ech_capture_item(capture, j->launched->item);
        j->start = item->start;
        if (item->kind != ECH_ITEM_KERNEL || !(j->program = program_of(programs, j->launched->program, diag)))
            continue;
        const char *instruction = ech_trace_builder_peek_string(ech_capture_builder(capture), j->launched->instruction);
        gsize op = GPOINTER_TO_SIZE(g_hash_table_lookup(j->program->index, instruction));
        j->op = op ? &ech_trace_ops(j->program->trace)[op - 1] : j->launched->launch ? by_name(j->program, capture, item->name) : NULL;
        j->named = j->op != NULL;
        named += j->op && !op;
        EchBytes bytes = j->op ? 0 : copied(capture, item, j->launched->threads);
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
    for (guint i = 0; i < n; i++) {
        const EchItem *item = ech_capture_item(capture, all[i].launched->item);
        if (!all[i].op || item->kind != ECH_ITEM_KERNEL || item->duration == ECH_TIME_NONE)
            continue;
        Share *own = share_of(shares, all[i].op, item->name), *most = share_of(shares, all[i].op, ECH_NONE);
        own->time += (double)item->duration;
        most->time = MAX(most->time, own->time);
    }
    for (guint i = 0; i < n; i++) {
        EchItem *item = ech_capture_item(capture, all[i].launched->item);
        const EchOp *op = all[i].op;
        if (!op) {
            unknown += all[i].program && item->kind == ECH_ITEM_KERNEL && all[i].launched->launch > 0;
        } else if (op->kind == ECH_OP_COLLECTIVE && op->collective != ECH_COLLECTIVE_NONE && communicates(capture, item)) {
            make_collective(all[i].program->trace, op, item);
            collectives++;
        } else if (op->kind == ECH_OP_KERNEL && share_of(shares, op, item->name)->time >= share_of(shares, op, ECH_NONE)->time) {
            give_work(capture, all[i].program->trace, op, item);
            kernels++;
        }
    }
    ech_diag_note(diag, "kernel_traffic_from_programs", kernels);
    ech_diag_note(diag, "kernels_of_graphs_by_name", named);
    ech_diag_note(diag, "copies_of_graphs_from_programs", copies);
    ech_diag_note(diag, "kernels_of_graphs_not_in_programs", unknown);
    ech_diag_note(diag, "collectives_from_programs", collectives);
}
