#include "sim/import/xplane_programs.h"

#include "models/kernel/comm_name.h"
#include "models/link/link.h"
#include "sim/base/hash.h"
#include "sim/import/import.h"

typedef struct {
    const uint8_t *data;
    size_t n;
    bool read;
    EchTrace *trace;   /* NULL: not read, or it cannot be */
    GHashTable *index; /* name -> op + 1 */
} Program;

typedef struct {
    size_t item;
    uint64_t program;
    EchId instruction;
} Launched;

/* Kernels of one name that one instruction launched. */
typedef struct {
    uint64_t program;
    EchId instruction, name;
    double time;
} Share;

struct EchXplanePrograms {
    GHashTable *modules;  /* where its bytes are -> Program, its owner: many ids may refer to one module, which is read once */
    GHashTable *programs; /* id -> Program */
    GArray *launched;     /* Launched */
};

static void program_free(gpointer data)
{
    Program *program = data;
    g_clear_pointer(&program->trace, ech_trace_unref);
    g_clear_pointer(&program->index, g_hash_table_unref);
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

void ech_xplane_programs_launched(EchXplanePrograms *programs, size_t item, uint64_t id, EchId instruction)
{
    g_array_append_val(programs->launched, ((Launched){item, id, instruction}));
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
    for (size_t i = 0; i < ech_trace_n_ops(program->trace); i++) {
        const EchOp *op = &ech_trace_ops(program->trace)[i];
        if (op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COLLECTIVE)
            g_hash_table_insert(program->index, (char *)(uintptr_t)ech_trace_string(program->trace, op->name), GSIZE_TO_POINTER(i + 1));
    }
    return program->trace;
}

static const EchOp *op_of(EchXplanePrograms *programs, EchCapture *capture, const Launched *launched, const EchTrace **ret_trace, EchDiag *diag)
{
    int64_t key = (int64_t)launched->program;
    Program *program = g_hash_table_lookup(programs->programs, &key);
    *ret_trace = program ? read_program(program, diag) : NULL;
    if (!*ret_trace)
        return NULL;
    gsize op = GPOINTER_TO_SIZE(g_hash_table_lookup(program->index, ech_trace_builder_peek_string(ech_capture_builder(capture), launched->instruction)));
    return op ? &ech_trace_ops(*ret_trace)[op - 1] : NULL;
}

static guint hash_share(gconstpointer p)
{
    const Share *share = p;
    return ech_hash_key(GSIZE_TO_POINTER((gsize)(share->program * 0x9e3779b9u) ^ (gsize)share->instruction << 32 ^ share->name));
}

static gboolean equal_shares(gconstpointer a, gconstpointer b)
{
    const Share *x = a, *y = b;
    return x->program == y->program && x->instruction == y->instruction && x->name == y->name;
}

/* The share of a kernel's name, or with @name ECH_NONE the longest one's; made when first asked for. */
static Share *share_of(GHashTable *shares, const Launched *launched, EchId name)
{
    Share key = {.program = launched->program, .instruction = launched->instruction, .name = name};
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

void ech_xplane_programs_apply(EchXplanePrograms *programs, EchCapture *capture, EchDiag *diag)
{
    g_autoptr(GHashTable) shares = g_hash_table_new_full(hash_share, equal_shares, g_free, NULL);
    for (guint i = 0; i < programs->launched->len; i++) {
        const Launched *launched = &g_array_index(programs->launched, Launched, i);
        const EchItem *item = ech_capture_item(capture, launched->item);
        if (item->kind != ECH_ITEM_KERNEL || item->duration == ECH_TIME_NONE)
            continue;
        Share *own = share_of(shares, launched, item->name), *most = share_of(shares, launched, ECH_NONE);
        own->time += (double)item->duration;
        most->time = MAX(most->time, own->time);
    }
    uint64_t kernels = 0, collectives = 0;
    for (guint i = 0; i < programs->launched->len; i++) {
        const Launched *launched = &g_array_index(programs->launched, Launched, i);
        EchItem *item = ech_capture_item(capture, launched->item);
        const EchTrace *trace;
        const EchOp *op = item->kind == ECH_ITEM_KERNEL ? op_of(programs, capture, launched, &trace, diag) : NULL;
        if (!op)
            continue;
        if (op->kind == ECH_OP_COLLECTIVE && op->collective != ECH_COLLECTIVE_NONE && communicates(capture, item)) {
            make_collective(trace, op, item);
            collectives++;
        } else if (op->kind == ECH_OP_KERNEL && share_of(shares, launched, item->name)->time >= share_of(shares, launched, ECH_NONE)->time) {
            give_work(capture, trace, op, item);
            kernels++;
        }
    }
    ech_diag_note(diag, "kernel_traffic_from_programs", kernels);
    ech_diag_note(diag, "collectives_from_programs", collectives);
}
