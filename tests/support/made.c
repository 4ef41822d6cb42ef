#include "tests/support/made.h"

#include <check.h>
#include <string.h>

EchId ech_test_buffer(EchTraceBuilder *b, const char *name, EchBytes bytes, EchRole role, bool resident)
{
    EchBuffer made = ech_buffer_init();
    made.name = ech_trace_builder_string(b, name, -1);
    made.memory = ech_trace_builder_memory(b, "hbm");
    made.bytes = bytes;
    made.role = (uint8_t)role;
    made.resident = resident;
    return ech_trace_builder_buffer(b, made);
}

EchId ech_test_put(EchTraceBuilder *b, EchOpKind kind, EchId target)
{
    EchOp op = ech_op_init(kind);
    op.queue = 0;
    op.name = ech_trace_builder_string(b, ech_op_kind_name(kind), -1);
    op.target = target;
    return ech_trace_builder_op(b, op);
}

void ech_test_kernel(EchTraceBuilder *b, EchTime time, EchId target, EchAccess access, EchBytes bytes)
{
    (void)ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
    if (target != ECH_NONE)
        ech_trace_builder_use(b, target, access, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (time > 0)
        ech_trace_builder_work(b, ECH_WORK_VECTOR, ECH_DTYPE_F32, (uint64_t)(time / ECH_TEST_MS) * 10000000, ECH_KNOWN);
}

EchId ech_test_loop(EchTraceBuilder *b, uint64_t trips)
{
    EchId made = ech_test_put(b, ECH_OP_LOOP, 0);
    ech_trace_builder_peek_op(b, made)->bytes = trips;
    ech_trace_builder_peek_op(b, made)->bytes_origin = ECH_KNOWN;
    return made;
}

void ech_test_close_loop(EchTraceBuilder *b, EchId made)
{
    ech_trace_builder_peek_op(b, made)->target = (EchId)(ech_trace_builder_n_ops(b) - made - 1);
}

EchTraceBuilder *ech_test_begin(void)
{
    EchTraceBuilder *b = ech_trace_builder_new("ech");
    (void)ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0);
    return b;
}

EchTrace *ech_test_finish(EchTraceBuilder *b)
{
    GError *error = NULL;
    EchTrace *trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

EchTrace *ech_test_pass(EchTrace *in, const EchDevice *device, EchDiag *diag, const char *const *specs)
{
    GError *error = NULL;
    g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    for (; *specs != NULL; specs++) {
        EchPass *made = ech_pass_new(*specs, &error);
        ck_assert_ok(made != NULL, error);
        g_ptr_array_add(passes, made);
    }
    EchTrace *out = ech_passes_run_trace(passes, device, in, diag, &error);
    ck_assert_ok(out != NULL, error);
    return out;
}

EchBytes ech_test_peak(const EchRun *run, const char *memory)
{
    for (size_t i = 0; i < run->n_memories; i++)
        if (strcmp(run->memories[i].name, memory) == 0)
            return run->memories[i].peak_live;
    return 0;
}

EchTrace *ech_test_shipped(const char *program, const EchDevice *device, EchDiag *diag)
{
    GError *error = NULL;
    g_autofree char *name = g_strconcat(ECH_SOURCE_DIR "/traces/", program, NULL);
    g_autoptr(EchImport) import = ech_test_import(name, NULL);
    ech_test_assign(import);
    EchTrace *lowered = ech_program_lower(import->program, device, &(EchLowerOptions){0}, diag, &error);
    ck_assert_ok(lowered != NULL, error);
    return lowered;
}
