/* The CUDA engine over a fake driver: what it issues, what it gives back, and every call failing in turn. Nothing here ran on a GPU. */
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/experiment/validate_cuda.h"
#include "sim/replay/cuda.h"
#include "sim/trace/file.h"
#include "sim/trace/trace.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static EchFakeCuda fake;

/* Three trips of: allocate, copy in, compute on another queue, copy out, free. A resident buffer is only read. */
static EchTrace *streaming_trace(EchBytes bytes)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host");
    EchId core = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0), in = ech_trace_builder_queue(b, "in", ECH_QUEUE_COPY, 0);
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = hbm;
    buffer.bytes = bytes;
    buffer.resident = 1;
    EchId weights = ech_trace_builder_buffer(b, buffer);
    buffer.memory = host;
    EchId source = ech_trace_builder_buffer(b, buffer);
    buffer.memory = hbm;
    buffer.resident = 0;
    EchId tile = ech_trace_builder_buffer(b, buffer);
    EchOp op = ech_op_init(ECH_OP_LOOP);
    op.queue = core;
    op.target = 5;
    op.bytes = 3;
    op.bytes_origin = ECH_KNOWN;
    ech_trace_builder_op(b, op);
    op = ech_op_init(ECH_OP_ALLOC);
    op.queue = in;
    op.target = tile;
    ech_trace_builder_op(b, op);
    op = ech_op_init(ECH_OP_COPY);
    op.queue = in;
    op.memory_from = host;
    op.memory_to = hbm;
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    EchId copy = ech_trace_builder_op(b, op);
    ech_trace_builder_use(b, source, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, tile, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, copy + 1, 1);
    op = ech_op_init(ECH_OP_KERNEL);
    op.queue = core;
    ech_trace_builder_op(b, op);
    ech_trace_builder_use(b, weights, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, tile, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, copy, 0);
    op = ech_op_init(ECH_OP_KERNEL);
    op.queue = core;
    ech_trace_builder_op(b, op);
    ech_trace_builder_work(b, ECH_WORK_MATRIX, ECH_DTYPE_BF16, 1000000000, ECH_KNOWN);
    op = ech_op_init(ECH_OP_FREE);
    op.queue = in;
    op.target = tile;
    ech_trace_builder_op(b, op);
    ech_trace_builder_dep(b, copy + 2, 0);
    GError *error = NULL;
    EchTrace *trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

static EchDevice *load_device(void)
{
    return ech_test_device("h200", NULL);
}

static const char *const settings[] = {"alloc=malloc,warmups=1,repeats=3",
                                       "alloc=async,pool_reuse=false,warmups=0,repeats=2",
                                       "alloc=arena,allocator=best_fit,warmups=0,repeats=2",
                                       "graph=true,warmups=0,repeats=2",
                                       "alloc=vmm,warmups=0,repeats=2",
                                       "alloc=auto,blas=false,warmups=1,repeats=2"};

START_TEST(replays_and_gives_everything_back)
{
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = streaming_trace(1 << 20);
    g_autoptr(EchDevice) device = load_device();
    EchCudaOptions options = {0};
    ech_params_defaults(ech_cuda_params, &options);
    g_autoptr(GError) error = NULL;
    ck_assert(ech_params_parse(ech_cuda_params, &options, settings[_i], &error));
    g_autoptr(EchCudaRun) run = ech_cuda_replay(trace, device, NULL, &options, &error);
    ck_assert_ok(run != NULL, error);
    ck_assert_int_eq(fake.held(), 0);
    ck_assert_uint_eq(run->n_makespans, options.repeats);
    ck_assert_int_gt(run->makespan, 0);
    ck_assert_uint_eq(run->differing, 0);
    ck_assert_uint_eq(run->verified, 1 << 20); /* The weights, which only kernels touch */
    ck_assert_str_eq(run->gpu, "Fake GPU 0");
    if (!options.graph) {
        ck_assert_uint_eq(run->ops[2].instances, 3);
        /* The fake's copy: 5 us and 20 bytes a nanosecond, three times. */
        EchTime expected = 3 * (5000 + (1 << 20) / 20) * ECH_PS_PER_NS;
        ck_assert_int_le(llabs(run->ops[2].duration - expected), expected / 1000);
        ck_assert_uint_ge(run->peak_used, (EchBytes)1 << 21);
    }
    ech_params_clear(ech_cuda_params, &options);
}
END_TEST

/* The kernels' own PTX runs in place of functions of their names, from the parameters that the engine gives them: it touches nothing but the engine's buffers.
 */
START_TEST(kernels_stay_within_buffers)
{
    static const EchBytes sizes[] = {1 << 20, 16, 100, 4096, 12345};
    fake = ech_test_fake_cuda(NULL);
    g_setenv("ECH_FAKE_CUDA_PTX", "100000", TRUE);
    for (size_t i = _i == 0 ? 0 : 1; i < G_N_ELEMENTS(sizes); i++) { /* the largest takes long */
        g_autoptr(EchTrace) trace = streaming_trace(sizes[i]);
        g_autoptr(EchDevice) device = load_device();
        EchCudaOptions options = {0};
        ech_params_defaults(ech_cuda_params, &options);
        g_autoptr(GError) error = NULL;
        ck_assert(ech_params_parse(ech_cuda_params, &options, settings[_i], &error));
        options.warmups = 0;
        options.repeats = 1;
        g_autoptr(EchCudaRun) run = ech_cuda_replay(trace, device, NULL, &options, &error);
        ck_assert_msg(run != NULL, "%" G_GUINT64_FORMAT " bytes: %s", sizes[i], error ? error->message : "");
        ck_assert_uint_eq(run->differing, 0);
        ck_assert_int_eq(fake.held(), 0);
        ech_params_clear(ech_cuda_params, &options);
    }
}
END_TEST

/* Whatever call fails, the error names a driver function and nothing is kept. */
START_TEST(every_call_fails_cleanly)
{
    fake = ech_test_fake_cuda("12582912"); /* A small card is quickly given back, a thousand times */
    g_autoptr(EchTrace) trace = streaming_trace(1 << 16);
    g_autoptr(EchDevice) device = load_device();
    EchCudaOptions options = {0};
    ech_params_defaults(ech_cuda_params, &options);
    ck_assert(ech_params_parse(ech_cuda_params, &options, settings[_i], NULL));
    options.warmups = 0;
    options.repeats = 1;
    fake.reset();
    g_autoptr(EchCudaRun) whole = ech_cuda_replay(trace, device, NULL, &options, NULL);
    ck_assert_ptr_nonnull(whole);
    long n = fake.calls();
    ck_assert_int_gt(n, 50);
    long failures = 0;
    for (long i = 1; i <= n; i++) {
        g_autofree char *number = g_strdup_printf("%ld", i);
        g_setenv("ECH_FAKE_CUDA_FAIL", number, TRUE);
        fake.reset();
        g_autoptr(GError) error = NULL;
        g_autoptr(EchCudaRun) run = ech_cuda_replay(trace, device, NULL, &options, &error);
        g_unsetenv("ECH_FAKE_CUDA_FAIL");
        ck_assert((run == NULL) == (error != NULL));
        if (error) {
            failures++;
            /* The latter where the driver does not say how large a page is. */
            ck_assert_msg(g_error_matches(error, ECH_ERROR, ECH_ERROR_BACKEND) || g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED), "%s",
                          error->message);
        }
        ck_assert_msg(fake.held() == 0, "call %ld of %ld failed and left %ld things held", i, n, fake.held());
    }
    /* Only releases after the measurement may fail unseen. */
    ck_assert_int_gt(failures, n / 2);
    ech_params_clear(ech_cuda_params, &options);
}
END_TEST

/* A kernel that fails is noticed by whoever waits next, and nothing works any more from then on: told, and nothing is kept. */
START_TEST(kernels_fail_late)
{
    fake = ech_test_fake_cuda("12582912");
    g_autoptr(EchTrace) trace = streaming_trace(1 << 16);
    g_autoptr(EchDevice) device = load_device();
    EchCudaOptions options = {.warmups = 1, .repeats = 2, .max_ops = 1000, .verify = 1};
    unsigned failures = 0;
    for (unsigned i = 1; i <= 60; i++) {
        g_autofree char *number = g_strdup_printf("%u", i);
        g_setenv("ECH_FAKE_CUDA_FAULT", number, TRUE);
        fake.reset();
        g_autoptr(GError) error = NULL;
        g_autoptr(EchCudaRun) run = ech_cuda_replay(trace, device, NULL, &options, &error);
        ck_assert((run == NULL) == (error != NULL));
        ck_assert_msg(!error || strstr(error->message, "CUDA_ERROR_LAUNCH_FAILED") != NULL, "%s", error->message);
        ck_assert_msg(fake.held() == 0, "kernel %u failed and left %ld things held", i, fake.held());
        failures += error != NULL;
    }
    ck_assert_uint_gt(failures, 50);
    g_unsetenv("ECH_FAKE_CUDA_FAULT");
    fake.reset();
}
END_TEST

/* Memory mapped in pieces is all there, and whatever call fails, none of it stays. */
START_TEST(mappings_are_whole_or_nothing)
{
    enum { PIECES = 3, PIECE = 4 << 20 };
    fake = ech_test_fake_cuda("33554432");
    g_autoptr(GError) error = NULL;
    const EchCuDriver *driver = ech_cuda_driver(&error);
    EchCuGpu gpu;
    ck_assert_ok(driver && ech_cuda_open(driver, 0, &gpu, &error), error);
    EchCuMapping mapping;
    size_t before, mapped, after, total;
    ck_assert_int_eq(driver->memory_info(&before, &total), 0);
    long held = fake.held(), calls = fake.calls();
    ck_assert_ok(ech_cuda_map(driver, &gpu, PIECE, PIECES, &mapping, &error), error);
    ck_assert_int_eq(driver->memory_info(&mapped, &total), 0);
    ck_assert_uint_eq(before - mapped, PIECES * PIECE);
    EchCuStream stream;
    ck_assert_int_eq(driver->stream_create(&stream, 0), 0);
    ck_assert_int_eq(driver->fill(mapping.address, 7, PIECES * PIECE / 4, stream), 0);
    ck_assert_int_eq(driver->stream_destroy(stream), 0);
    ck_assert_ok(ech_cuda_unmap(driver, &mapping, &error), error);
    ck_assert_int_eq(driver->memory_info(&after, &total), 0);
    ck_assert_uint_eq(before, after);
    long n = fake.calls() - calls;
    for (long i = 1; i <= n; i++) {
        g_autoptr(GError) failure = NULL;
        g_autofree char *number = g_strdup_printf("%ld", i);
        fake.reset();
        g_setenv("ECH_FAKE_CUDA_FAIL", number, TRUE);
        bool ok = ech_cuda_map(driver, &gpu, PIECE, PIECES, &mapping, &failure) && ech_cuda_unmap(driver, &mapping, &failure);
        g_unsetenv("ECH_FAKE_CUDA_FAIL");
        ck_assert(ok == (failure == NULL));
        ck_assert_msg(fake.held() == held, "call %ld of %ld failed and left %ld things held", i, n, fake.held() - held);
        ck_assert_int_eq(driver->memory_info(&after, &total), 0);
        ck_assert_uint_eq(before, after);
    }
    ech_cuda_close(driver, &gpu);
}
END_TEST

START_TEST(too_large_is_refused_or_scaled)
{
    fake = ech_test_fake_cuda("16777216");
    g_autoptr(EchTrace) trace = streaming_trace(16 << 20);
    g_autoptr(EchDevice) device = load_device();
    EchCudaOptions options = {0};
    ech_params_defaults(ech_cuda_params, &options);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchCudaRun) refused = ech_cuda_replay(trace, device, NULL, &options, &error);
    ck_assert_ptr_null(refused);
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
    g_clear_error(&error);
    options.scale = 1;
    g_autoptr(EchCudaRun) run = ech_cuda_replay(trace, device, NULL, &options, &error);
    ck_assert_ok(run != NULL, error);
    ck_assert(run->scale < 0.5 && run->scale > 0);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

/* One kernel with two inputs, an output and matrix work. */
static EchTrace *product_trace(EchBytes a, EchBytes b, EchBytes c, EchDtype dtype, uint64_t operations)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(builder, "hbm");
    buffer.dtype = (uint8_t)dtype;
    buffer.resident = 1;
    const EchBytes bytes[] = {a, b, c};
    EchId ids[3];
    for (int i = 0; i < 3; i++) {
        buffer.bytes = bytes[i];
        ids[i] = ech_trace_builder_buffer(builder, buffer);
    }
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    op.queue = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0);
    ech_trace_builder_op(builder, op);
    for (int i = 0; i < 3; i++)
        ech_trace_builder_use(builder, ids[i], i < 2 ? ECH_READ : ECH_WRITE, bytes[i], ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_work(builder, ECH_WORK_MATRIX, dtype, operations, ECH_KNOWN);
    EchTrace *trace = ech_trace_builder_finish(builder, NULL);
    ck_assert_ptr_nonnull(trace);
    return trace;
}

START_TEST(products_are_known_by_their_sides)
{
    EchGemm gemm;
    /* 300 x 70 by 70 x 50, bf16. */
    g_autoptr(EchTrace) plain = product_trace(300 * 70 * 2, 70 * 50 * 2, 300 * 50 * 2, ECH_DTYPE_BF16, 2 * 300 * 70 * 50);
    ck_assert(ech_cuda_gemm_of(plain, &ech_trace_ops(plain)[0], &gemm));
    ck_assert(gemm.known);
    ck_assert(gemm.batch == 1 && gemm.k == 70 && gemm.times == 1);
    ck_assert(gemm.m * gemm.n == 300 * 50 && MAX(gemm.m, gemm.n) == 300);
    ck_assert_uint_eq(ech_cuda_gemm_operations(&gemm), 2 * 300 * 70 * 50);
    /* Twelve at a time, f32. */
    g_autoptr(EchTrace) batch = product_trace(12 * 64 * 32 * 4, 12 * 32 * 96 * 4, 12 * 64 * 96 * 4, ECH_DTYPE_F32, 2 * 12 * 64 * 32 * 96);
    ck_assert(ech_cuda_gemm_of(batch, &ech_trace_ops(batch)[0], &gemm));
    ck_assert(gemm.known && gemm.batch == 12 && gemm.k == 32 && gemm.m * gemm.n == 64 * 96);
    /* A fusion that reads something else: as many operations in a shape of ours, to within one step of the inner side. */
    g_autoptr(EchTrace) other = product_trace(1001, 770, 4004, ECH_DTYPE_F16, 3000000000);
    ck_assert(ech_cuda_gemm_of(other, &ech_trace_ops(other)[0], &gemm));
    ck_assert(!gemm.known);
    uint64_t operations = ech_cuda_gemm_operations(&gemm), step = 2 * (uint64_t)gemm.m * (uint64_t)gemm.n * 8 * gemm.times;
    ck_assert_uint_le(operations, 3000000000 + step);
    ck_assert_uint_ge(operations + step, 3000000000);
    /* 8-bit floats are not for this interface. */
    g_autoptr(EchTrace) narrow = product_trace(64, 64, 64, ECH_DTYPE_F8E4M3FN, 1024);
    ck_assert(!ech_cuda_gemm_of(narrow, &ech_trace_ops(narrow)[0], &gemm));
}
END_TEST

/* The whole comparison on a shipped program: the fake GPU's own copies, and the plan's own bytes. */
START_TEST(a_program_is_compared)
{
    static const struct {
        const char *spec, *allocator;
    } ways[] = {{"repeats=3,warmups=1", NULL}, {"graph=true,repeats=2,warmups=0", NULL},
                {"repeats=2", "platform"},     {"repeats=2", "cuda_async"},
                {"repeats=2", "vmm"},          {"repeats=2", "tlsf"}};
    fake = ech_test_fake_cuda(NULL);
    const EchExperimentOverrides overrides = {.trace = ECH_SOURCE_DIR "/traces/gpt_offload.v5e", .device = "h100-sxm", .engine = "native"};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    g_autoptr(EchCudaValidation) v = ech_validate_cuda(experiment, ways[_i].spec, 0, ways[_i].allocator, &error);
    ck_assert_ok(v != NULL, error);
    ck_assert_int_eq(fake.held(), 0);
    ck_assert_int_gt(v->measured->makespan, 0);
    ck_assert_uint_eq(v->measured->differing, 0);
    if (_i == 0) {
        /* One block, laid out by the compiler: not a byte more than the model says but its rounding. */
        ck_assert_uint_ge(v->memory_measured, v->memory_predicted);
        ck_assert_uint_le(v->memory_measured, v->memory_predicted + 1024);
        bool copies = false;
        for (size_t i = 0; i < v->n_pairs; i++) {
            const EchCudaPair *pair = &v->pairs[i];
            ck_assert(pair->low <= pair->measured && pair->measured <= pair->high);
            if (strcmp(pair->kind, "copy") != 0)
                continue;
            copies = true;
            /* Alone it takes as long as at 20 bytes a nanosecond, beside one of the other direction no longer than at 15, and it may wait for one such. */
            double bytes = (double)ech_trace_ops(v->trace)[pair->op].bytes;
            ck_assert_int_ge(pair->measured, (EchTime)pair->instances * (EchTime)(5000 + bytes / 20) * ECH_PS_PER_NS);
            ck_assert_int_le(pair->measured, (EchTime)pair->instances * 2 * (EchTime)(5000 + bytes / 15) * ECH_PS_PER_NS);
        }
        ck_assert(copies);
    }
    g_autofree char *text = ech_cuda_validation_text(v), *json = ech_cuda_validation_json(v);
    ck_assert_ptr_nonnull(strstr(text, "Fake GPU 0"));
    ck_assert_ptr_nonnull(strstr(json, "\"engine\" : \"cuda\""));
}
END_TEST

static EchCudaRun *replay_with(EchTrace *trace, const EchDevice *device, const char *spec)
{
    EchCudaOptions options = {0};
    g_autoptr(GError) error = NULL;
    ech_params_defaults(ech_cuda_params, &options);
    ck_assert(ech_params_parse(ech_cuda_params, &options, spec, &error));
    EchCudaRun *run = ech_cuda_replay(trace, device, NULL, &options, &error);
    ck_assert_msg(run != NULL, "%s", error ? error->message : "");
    ech_params_clear(ech_cuda_params, &options);
    return run;
}

/* Two queues that take turns, a kernel each. */
static EchTrace *turns_trace(void)
{
    enum { TURNS = 40 };
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(b, "hbm");
    buffer.bytes = 1 << 20;
    buffer.resident = 1;
    EchId data = ech_trace_builder_buffer(b, buffer), queues[2], last = ECH_NONE;
    queues[0] = ech_trace_builder_queue(b, "even", ECH_QUEUE_COMPUTE, 0);
    queues[1] = ech_trace_builder_queue(b, "odd", ECH_QUEUE_COMPUTE, 0);
    for (unsigned i = 0; i < TURNS; i++) {
        EchOp op = ech_op_init(ECH_OP_KERNEL);
        op.queue = queues[i % 2];
        EchId id = ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, data, ECH_READ, buffer.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        if (last != ECH_NONE)
            ech_trace_builder_dep(b, last, 0);
        last = id;
    }
    EchTrace *trace = ech_trace_builder_finish(b, NULL);
    ck_assert_ptr_nonnull(trace);
    return trace;
}

/* What queues wait for are events without time, as in programs, while the makespan is measured: however long events with one take. */
START_TEST(waiting_needs_no_clock)
{
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = turns_trace();
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) usual = replay_with(trace, device, "repeats=9");
    g_setenv("ECH_FAKE_CUDA_FIGURES", "event=20000", TRUE);
    g_autoptr(EchCudaRun) slow = replay_with(trace, device, "repeats=9");
    ck_assert_msg(llabs(slow->makespan - usual->makespan) < usual->makespan / 10 + 50 * ECH_PS_PER_US, "%g and %g us", (double)slow->makespan / 1e6,
                  (double)usual->makespan / 1e6);
}
END_TEST

/* Kernels that read @bytes, one after the other. */
static EchTrace *row_of_kernels(unsigned n, EchBytes bytes)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(b, "hbm");
    buffer.bytes = bytes;
    buffer.resident = 1;
    EchId data = ech_trace_builder_buffer(b, buffer);
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    op.queue = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0);
    for (unsigned i = 0; i < n; i++) {
        ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, data, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    EchTrace *trace = ech_trace_builder_finish(b, NULL);
    ck_assert_ptr_nonnull(trace);
    return trace;
}

/* A queue holds a thousand launches and events; the driver then makes the host wait, whose calls take longer than kernels so short, which would be timed with
 * it: 1.1 us each for the fake's GPU. */
START_TEST(long_rows_of_short_kernels_are_timed_alone)
{
    enum { KERNELS = 900, LAST = 100 };
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    g_setenv("ECH_FAKE_CUDA_FIGURES", "launch=800,stream=0,call=2500,scatter=.1,step=32", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = row_of_kernels(KERNELS, 1 << 18);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) run = replay_with(trace, device, "repeats=3");
    double mean = 0;
    for (EchId at = KERNELS - LAST; at < KERNELS; at++)
        mean += (double)run->ops[at].duration / ECH_PS_PER_NS / LAST;
    ck_assert_msg(mean > 950 && mean < 1250, "%g ns", mean);
}
END_TEST

/* What events cost depends on the clocks: it is measured when these have risen, as they have in the replays that it is taken off. */
START_TEST(what_events_cost_is_measured_under_load)
{
    enum { KERNELS = 60 };
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = row_of_kernels(KERNELS, 1 << 20);
    g_autoptr(EchDevice) device = load_device();
    double mean[2] = {0, 0};
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1)
            g_setenv("ECH_FAKE_CUDA_FIGURES", "event=1", TRUE);
        g_autoptr(EchCudaRun) run = replay_with(trace, device, "repeats=9");
        for (EchId at = 0; at < KERNELS; at++)
            mean[i] += (double)run->ops[at].duration / ECH_PS_PER_NS / KERNELS;
    }
    ck_assert_msg(fabs(mean[0] - mean[1]) < 250, "%g and %g ns", mean[0], mean[1]);
}
END_TEST

/* Nor does it depend on what kept the queue busy: behind a kernel that waits, events and kernels cost otherwise than behind one another. */
START_TEST(what_events_cost_is_measured_as_replays_have_them)
{
    enum { KERNELS = 60 };
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = row_of_kernels(KERNELS, 1 << 16);
    g_autoptr(EchDevice) device = load_device();
    double mean[2] = {0, 0};
    for (unsigned i = 0; i < 2; i++) {
        g_setenv("ECH_FAKE_CUDA_FIGURES", i == 1 ? "step=32,alone=800" : "step=32", TRUE);
        g_autoptr(EchCudaRun) run = replay_with(trace, device, "repeats=9");
        for (EchId at = 0; at < KERNELS; at++)
            mean[i] += (double)run->ops[at].duration / ECH_PS_PER_NS / KERNELS;
    }
    ck_assert_msg(fabs(mean[0] - mean[1]) < 250, "%g and %g ns", mean[0], mean[1]);
}
END_TEST

/* Of a machine of several processors: copies are as fast as where there is but one. */
START_TEST(host_memory_is_taken_on_the_gpus_side)
{
    fake = ech_test_fake_cuda(NULL);
    g_setenv("ECHELON_LIBNVML", ECH_FAKE_CUDA, TRUE);
    g_autoptr(EchTrace) trace = streaming_trace(1 << 20);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) one = replay_with(trace, device, "repeats=3");
    g_setenv("ECH_FAKE_CUDA_SOCKETS", "1", TRUE);
    g_autoptr(EchCudaRun) several = replay_with(trace, device, "repeats=3");
    ck_assert_int_gt(one->ops[2].duration, 0);
    ck_assert_int_eq(one->ops[2].duration, several->ops[2].duration);
}
END_TEST

static void give_or_take(EchTraceBuilder *b, EchOpKind kind, EchId queue, EchId buffer)
{
    EchOp op = ech_op_init(kind);
    op.queue = queue;
    op.target = buffer;
    ech_trace_builder_op(b, op);
}

/* Four trips of two queues, of which one copies into a buffer and one out of one. @allocates: which they take and give back; else the second copies once the
 * first has, @distance trips before. */
static EchTrace *two_queues_trace(EchBytes bytes, bool allocates, uint32_t distance)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host");
    EchId queues[] = {ech_trace_builder_queue(b, "one", ECH_QUEUE_COPY, 0), ech_trace_builder_queue(b, "two", ECH_QUEUE_COPY, 0)};
    EchOp op = ech_op_init(ECH_OP_LOOP);
    op.queue = queues[0];
    op.target = allocates ? 6 : 2;
    op.bytes = 4;
    op.bytes_origin = ECH_KNOWN;
    EchId loop = ech_trace_builder_op(b, op);
    EchBuffer buffer = ech_buffer_init();
    buffer.bytes = bytes;
    buffer.memory = host;
    buffer.resident = 1;
    EchId there = ech_trace_builder_buffer(b, buffer);
    buffer.memory = hbm;
    buffer.resident = !allocates;
    for (int q = 0; q < 2; q++) {
        EchId tile = ech_trace_builder_buffer(b, buffer);
        if (allocates)
            give_or_take(b, ECH_OP_ALLOC, queues[q], tile);
        op = ech_op_init(ECH_OP_COPY);
        op.queue = queues[q];
        op.memory_from = q ? hbm : host;
        op.memory_to = q ? host : hbm;
        op.bytes = bytes;
        op.bytes_origin = ECH_KNOWN;
        ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, q ? tile : there, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, q ? there : tile, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        if (allocates)
            give_or_take(b, ECH_OP_FREE, queues[q], tile);
        else if (q == 1)
            ech_trace_builder_dep(b, loop + 1, distance);
    }
    GError *error = NULL;
    EchTrace *trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

/* What a queue has freed it takes again at once; the other one takes it when the first is done with it. */
START_TEST(freed_memory_is_taken_again_once_it_is_not_in_use)
{
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = two_queues_trace(1 << 20, true, 0);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) arena = replay_with(trace, device, "alloc=arena,allocator=best_fit,warmups=0,repeats=1"),
                          pool = replay_with(trace, device, "alloc=async,warmups=0,repeats=1");
    ck_assert_uint_eq(arena->arena_extent, (EchBytes)2 << 20);
    ck_assert_uint_eq(arena->differing + pool->differing, 0);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

/* Where one copy of many replays is late, what it holds is freed late, and more is taken meanwhile: that is not what the program takes. */
START_TEST(one_late_copy_is_not_what_a_trace_takes)
{
    enum { BUFFERS = 6, BYTES = 1 << 18, WORK = 64 << 20 };
    g_setenv("ECH_FAKE_CUDA_LATE", "8", TRUE);
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda("536870912");
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host");
    EchId core = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0), out = ech_trace_builder_queue(b, "out", ECH_QUEUE_COPY, 0);
    EchBuffer buffer = ech_buffer_init();
    buffer.bytes = BYTES;
    buffer.memory = host;
    buffer.resident = 1;
    EchId there = ech_trace_builder_buffer(b, buffer);
    buffer.memory = hbm;
    buffer.resident = 0;
    for (unsigned i = 0; i < BUFFERS; i++) {
        EchId data = ech_trace_builder_buffer(b, buffer);
        give_or_take(b, ECH_OP_ALLOC, core, data);
        EchOp op = ech_op_init(ECH_OP_KERNEL);
        op.queue = core;
        EchId kernel = ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, data, ECH_READ, WORK, ECH_PATTERN_STREAM, ECH_KNOWN);
        op = ech_op_init(ECH_OP_COPY);
        op.queue = out;
        op.memory_from = hbm;
        op.memory_to = host;
        op.bytes = BYTES;
        op.bytes_origin = ECH_KNOWN;
        ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, data, ECH_READ, BYTES, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, there, ECH_WRITE, BYTES, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_dep(b, kernel, 0);
        give_or_take(b, ECH_OP_FREE, out, data);
    }
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    ck_assert_ptr_nonnull(trace);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) run = replay_with(trace, device, "alloc=arena,allocator=best_fit,warmups=1,repeats=3");
    ck_assert_uint_eq(run->arena_extent, 2 * (EchBytes)BYTES);
    ck_assert_uint_gt(run->most_reserved, 2 * (EchBytes)BYTES);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

/* A queue that waits for what another one did an iteration ago copies beside it, but for the first iteration: the fake's copy takes 5 us and a nanosecond for
 * 20 bytes. */
/* Of a card that has no room for what two queues take, the second waits for what the first has freed. */
START_TEST(a_full_arena_waits_for_what_is_freed)
{
    fake = ech_test_fake_cuda("41943040");
    g_autoptr(EchTrace) trace = two_queues_trace(16 << 20, true, 0), one_more = two_queues_trace((16 << 20) + 1, true, 0);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) arena = replay_with(trace, device, "alloc=arena,allocator=best_fit,warmups=0,repeats=1");
    ck_assert_uint_eq(arena->arena_extent, (EchBytes)16 << 20);
    ck_assert_uint_eq(arena->differing, 0);
    EchCudaOptions options = {0};
    ech_params_defaults(ech_cuda_params, &options);
    g_autoptr(GError) error = NULL;
    ck_assert(ech_params_parse(ech_cuda_params, &options, "alloc=arena,allocator=buddy", &error)); /* which takes 32 MiB for it, of some 28 */
    ck_assert_ptr_null(ech_cuda_replay(one_more, device, NULL, &options, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
    ck_assert_msg(strstr(error->message, "of 16777217 bytes does not fit the arena under buddy") != NULL, "%s", error->message);
    ech_params_clear(ech_cuda_params, &options);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

START_TEST(waits_reach_back_an_iteration)
{
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) now = two_queues_trace(1 << 20, false, 0), before = two_queues_trace(1 << 20, false, 1);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) at_once = replay_with(now, device, "warmups=0,repeats=1"), apart = replay_with(before, device, "warmups=0,repeats=1");
    EchTime copy = (5000 + (1 << 20) / 20) * ECH_PS_PER_NS;
    ck_assert_int_lt(apart->makespan, at_once->makespan - copy / 2);
}
END_TEST

/* Where the driver stops for every allocation nothing is issued ahead, and yet no kernel's time holds the host's. */
START_TEST(kernels_between_allocations_are_timed_alone)
{
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = streaming_trace(1 << 20);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) ahead = replay_with(trace, device, "alloc=arena,repeats=9");
    g_setenv("ECH_FAKE_CUDA_SLOW", "5", TRUE);
    g_autoptr(EchCudaRun) stopped = replay_with(trace, device, "alloc=malloc,repeats=9");
    ck_assert_msg(llabs(stopped->ops[3].duration - ahead->ops[3].duration) < ahead->ops[3].duration / 5, "%g and %g us", (double)stopped->ops[3].duration / 1e6,
                  (double)ahead->ops[3].duration / 1e6);
}
END_TEST

/* A kernel that is only waited for takes as long as it is priced, however coarse the device's clock: here one of the cache's bytes. */
START_TEST(waiting_is_no_longer_than_asked_for)
{
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(b, "l2");
    buffer.bytes = 1 << 20;
    buffer.resident = 1;
    EchId data = ech_trace_builder_buffer(b, buffer);
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    op.queue = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0);
    enum { KERNELS = 50 };
    for (unsigned i = 0; i < KERNELS; i++) {
        ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, data, ECH_READ, 100000000, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchDiag) diag = ech_diag_new();
    const EchPriceOptions pricing = {.kernel_time = ECH_KERNEL_TIME_ROOFLINE, .overhead = true, .copy_curve = true};
    g_autoptr(EchPrices) prices = ech_prices_new(trace, device, NULL, &pricing, diag);
    ck_assert(prices && ech_cuda_does(trace, 0, prices, device) == ECH_CUDA_SPINS);
    EchTime alone = prices->prices[0].alone;
    ck_assert_int_gt(alone, 10 * ECH_PS_PER_US);
    g_autoptr(EchCudaRun) run = replay_with(trace, device, "repeats=9");
    /* The fake's launch takes 2 us, and its clock's steps 1.5 on average. */
    alone += 2 * ECH_PS_PER_US - (EchTime)ech_device_number(device, "runtime.launch_ps", 0);
    ck_assert_msg(llabs(run->makespan / KERNELS - alone) < 750 * ECH_PS_PER_NS, "%g us, expected %g", (double)run->makespan / KERNELS / 1e6,
                  (double)alone / 1e6);
}
END_TEST

/* A product that the card has room for is done in its own shape, however small the card; one that it has not is said. */
START_TEST(products_keep_their_shape_where_there_is_room)
{
    fake = ech_test_fake_cuda("268435456");
    g_autoptr(EchDevice) device = load_device();
    static const uint64_t rows[] = {10496, 28672};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(EchTrace) trace = product_trace(rows[i] * 512 * 2, 512 * 2048 * 2, rows[i] * 2048 * 2, ECH_DTYPE_BF16, 2 * rows[i] * 512 * 2048);
        g_autoptr(EchCudaRun) run = replay_with(trace, device, "repeats=1");
        g_autofree char *remarks = g_strjoinv("\n", (char **)(uintptr_t)ech_diag_remarks(run->diag));
        ck_assert_msg((strstr(remarks, "not in its shape") != NULL) == (i == 1), "%s", remarks);
    }
}
END_TEST

/* Products that power slows down are measured once it has: half a second of them comes first, at most a hundred replays, where anything does. */
START_TEST(products_are_hot_before_they_are_measured)
{
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    fake = ech_test_fake_cuda("4294967296");
    static const struct {
        const char *burst;
        uint64_t side;
        const char *options;
        uint64_t least, most;
    } cases[] = {{"kernel.burst_share=1.2", 8192, "repeats=1,warmups=2", 10, 99},
                 {"kernel.burst_share=1.2", 3072, "repeats=1,warmups=2", 100, 100},
                 {"kernel.burst_share=1.2", 2048, "repeats=1,warmups=2", 2, 2},
                 {"kernel.burst_share=1.01", 3072, "repeats=1,warmups=2", 2, 2},
                 {"kernel.burst_share=1.2", 3072, "repeats=1,warmups=0", 0, 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const char *const told[] = {cases[i].burst, NULL};
        g_autoptr(EchDevice) device = ech_test_device("h100-sxm", told);
        EchBytes side = cases[i].side, bytes = side * side * 2;
        g_autoptr(EchTrace) trace = product_trace(bytes, bytes, bytes, ECH_DTYPE_BF16, 2 * side * side * side);
        g_autoptr(EchCudaRun) run = replay_with(trace, device, cases[i].options);
        ck_assert_msg(run->warmups >= cases[i].least && run->warmups <= cases[i].most, "case %zu: %" G_GUINT64_FORMAT " of %g ms", i, run->warmups,
                      (double)run->makespan / 1e9);
        ck_assert(cases[i].most != 99 || (EchTime)run->warmups * run->makespan > 480 * ECH_PS_PER_MS);
    }
}
END_TEST

/* The clocks that a measurement holds for are told where NVML is, and what held them back; where it is not, nothing is missing. */
START_TEST(clocks_are_told)
{
    fake = ech_test_fake_cuda(NULL);
    g_setenv("ECHELON_LIBNVML", _i == 2 ? "" : ECH_FAKE_CUDA, TRUE);
    g_setenv("ECH_FAKE_NVML_REASONS", _i == 1 ? "0x5" : "0x1", TRUE);
    g_autoptr(EchTrace) trace = streaming_trace(1 << 20);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) run = replay_with(trace, device, "repeats=2,warmups=1");
    g_autofree char *text = ech_gpu_state_text(&run->state), *remarks = g_strjoinv("\n", (char **)(uintptr_t)ech_diag_remarks(run->diag));
    static const char *const expected[] = {"SM clock 1500 MHz, memory 2000 MHz, at most 300 of 700 W, 55 C, ECC on",
                                           "SM clock 1500 MHz, memory 2000 MHz, at most 300 of 700 W, 55 C, ECC on; held back by the power limit", NULL};
    if (_i == 2)
        ck_assert_ptr_null(text);
    else
        ck_assert_str_eq(text, expected[_i]);
    ck_assert_uint_eq(run->state.looks, _i == 2 ? 0 : 3);
    ck_assert_int_eq(strstr(remarks, "held the clocks back") != NULL, _i == 1);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

/* A copy that also hits other buffers is found out. */
START_TEST(stray_writes_are_noticed)
{
    fake = ech_test_fake_cuda(NULL);
    g_setenv("ECH_FAKE_CUDA_STRAY", "1", TRUE);
    g_autoptr(EchTrace) trace = streaming_trace(1 << 16);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) run = replay_with(trace, device, "alloc=malloc,repeats=2");
    ck_assert_uint_eq(run->differing, 2); /* The first word of the weights, in each repeat */
}
END_TEST

/* Kernels that read the same buffer one after the other read it from memory, as a program's do that reads others in between. */
START_TEST(nothing_is_read_from_the_cache)
{
    enum { BYTES = 3 << 20 };
    const unsigned kernels = _i == 0 ? 30 : 1;
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = row_of_kernels(kernels, BYTES);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) run = replay_with(trace, device, "repeats=9");
    /* The fake's launch, ramp and 1000 bytes a nanosecond; from its cache 4000. */
    double each = (double)run->makespan / kernels / ECH_PS_PER_NS, memory = 4500 + BYTES / 1000.0;
    ck_assert_msg(fabs(each / memory - 1) < 0.1, "%g ns, expected %g", each, memory);
}
END_TEST

/* cuBLAS keeps sums and counters of a product in its workspace: two at a time there may never end. */
START_TEST(queues_that_multiply_share_no_workspace)
{
    enum { QUEUES = 3, PRODUCTS = 4 };
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    const char *const names[QUEUES] = {"a", "b", "c"};
    for (unsigned i = 0; i < QUEUES * PRODUCTS; i++) {
        op.queue = ech_trace_builder_queue(b, names[i % QUEUES], ECH_QUEUE_COMPUTE, 0);
        ech_trace_builder_op(b, op);
        ech_trace_builder_work(b, ECH_WORK_MATRIX, ECH_DTYPE_BF16, 1000000000, ECH_KNOWN);
    }
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) run = replay_with(trace, device, _i ? "graph=true,warmups=1,repeats=2" : "warmups=1,repeats=2");
    ck_assert_uint_gt(run->by_blas, 0);
    ck_assert_int_eq(fake.shared_workspaces(), 0);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

/* Copies of pageable memory are such where the trace knows of no buffer behind them, as captures do not, and where buffers lie at fixed offsets: the fake's
 * take 5 us and a nanosecond for 6 bytes, of pinned memory for 20. */
START_TEST(pageable_copies_are_pageable)
{
    enum { BYTES = 3 << 20 };
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchOp op = ech_op_init(ECH_OP_COPY);
    EchBuffer buffer = ech_buffer_init();
    EchId ids[2];
    for (unsigned i = 0; i < 2; i++) {
        buffer.memory = ech_trace_builder_memory(b, i == 0 ? "pageable" : "hbm");
        buffer.bytes = BYTES;
        buffer.offset = 256;
        buffer.resident = 1;
        ids[i] = ech_trace_builder_buffer(b, buffer);
    }
    op.queue = ech_trace_builder_queue(b, "in", ECH_QUEUE_COPY, 0);
    op.memory_from = ech_trace_builder_memory(b, "pageable");
    op.memory_to = buffer.memory;
    op.bytes = BYTES;
    op.bytes_origin = ECH_KNOWN;
    ech_trace_builder_op(b, op);
    for (unsigned i = 0; _i > 0 && i < 2; i++)
        ech_trace_builder_use(b, ids[i], i == 0 ? ECH_READ : ECH_WRITE, BYTES, ECH_PATTERN_STREAM, ECH_KNOWN);
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) run = replay_with(trace, device, "warmups=1,repeats=2");
    EchTime expected = (5000 + (EchTime)BYTES / 6) * ECH_PS_PER_NS;
    ck_assert_int_le(llabs(run->ops[0].duration - expected), expected / 100);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

/* What no kernel here computes is waited for, and so says nothing about the model. */
START_TEST(only_what_is_done_counts)
{
    static const struct {
        EchDtype dtype;
        EchCudaDoes does;
    } products[] = {{ECH_DTYPE_BF16, ECH_CUDA_MULTIPLIES}, {ECH_DTYPE_F8E4M3FN, ECH_CUDA_SPINS}};
    g_autoptr(EchDevice) device = load_device();
    const EchPriceOptions pricing = {.kernel_time = ECH_KERNEL_TIME_ROOFLINE, .overhead = true, .copy_curve = true};
    for (size_t i = 0; i < G_N_ELEMENTS(products); i++) {
        EchBytes bytes = (EchBytes)4096 * 4096 * ech_dtype_bits(products[i].dtype) / 8;
        g_autoptr(EchTrace) trace = product_trace(bytes, bytes, bytes, products[i].dtype, UINT64_C(2) * 4096 * 4096 * 4096);
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchPrices) prices = ech_prices_new(trace, device, NULL, &pricing, diag);
        ck_assert_ptr_nonnull(prices);
        ck_assert_int_eq(ech_cuda_does(trace, 0, prices, device), products[i].does);
    }
}
END_TEST

/* By hand: of 10 values the second and the ninth hold the median with 1 - 2 * 11/1024 = 97.9 %, the third and the eighth with only 89.1 %. */
START_TEST(intervals_are_of_the_median)
{
    static const struct {
        size_t n;
        EchTime low, median, high;
    } known[] = {{1, 1, 1, 1}, {2, 1, 1, 2}, {3, 1, 2, 3},  {5, 1, 3, 5},    {6, 1, 3, 6},
                 {8, 1, 4, 8}, {9, 2, 5, 8}, {10, 2, 5, 9}, {20, 6, 10, 15}, {100, 40, 50, 61}};
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        EchTime times[100], low, high;
        for (size_t k = 0; k < known[i].n; k++)
            times[k] = (EchTime)((k * 37 + 11) % known[i].n) + 1;
        EchTime median = ech_cuda_median(times, known[i].n, &low, &high);
        ck_assert_msg(low == known[i].low && median == known[i].median && high == known[i].high, "%zu: %d %d %d", known[i].n, (int)low, (int)median, (int)high);
    }
    /* So many that a power of a half is no number any more. */
    g_autofree EchTime *many = g_new(EchTime, 10000);
    EchTime low, high;
    for (size_t k = 0; k < 10000; k++)
        many[k] = (EchTime)k;
    ech_cuda_median(many, 10000, &low, &high);
    ck_assert(low >= 4900 && low <= 4903 && high >= 5096 && high <= 5099);
}
END_TEST

/* What takes a graph to the GPU is over before its clock starts, as in a program that launches it again and again. */
START_TEST(a_graph_is_on_the_gpu_before_it_is_timed)
{
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    g_setenv("ECH_FAKE_CUDA_FIGURES", "scatter=0", TRUE);
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = turns_trace();
    g_autoptr(EchDevice) device = load_device();
    g_autoptr(EchCudaRun) usual = replay_with(trace, device, "graph=true,repeats=3");
    g_setenv("ECH_FAKE_CUDA_FIGURES", "scatter=0,upload=50000", TRUE);
    g_autoptr(EchCudaRun) slow = replay_with(trace, device, "graph=true,repeats=3");
    ck_assert_msg(llabs(slow->makespan - usual->makespan) < usual->makespan / 10, "%g and %g us", (double)slow->makespan / 1e6, (double)usual->makespan / 1e6);
}
END_TEST

/* Power is predicted by how much of the time products run: in a graph too, of a loop's all trips. */
START_TEST(a_graph_counts_all_trips_of_its_products)
{
    enum { TRIPS = 20 };
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchOp op = ech_op_init(ECH_OP_LOOP);
    op.queue = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0);
    op.target = 1;
    op.bytes = TRIPS;
    op.bytes_origin = ECH_KNOWN;
    ech_trace_builder_op(b, op);
    EchOp product = ech_op_init(ECH_OP_KERNEL);
    product.queue = op.queue;
    ech_trace_builder_op(b, product);
    ech_trace_builder_work(b, ECH_WORK_MATRIX, ECH_DTYPE_BF16, UINT64_C(1000000000000), ECH_KNOWN);
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    g_autofree char *folder = g_dir_make_tmp("echelon-trips-XXXXXX", NULL), *path = g_build_filename(folder, "loop.ech", NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_trace_file_write(trace, path, &error), error);
    double duty[2], predicted = 0;
    for (unsigned graph = 0; graph < 2; graph++) {
        const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm", .engine = "native"};
        g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
        ck_assert_ok(experiment != NULL, error);
        g_autoptr(EchCudaValidation) v = ech_validate_cuda(experiment, graph ? "graph=true,repeats=2" : "repeats=2", 0, NULL, &error);
        ck_assert_ok(v != NULL, error);
        ck_assert_uint_eq(v->measured->ops[1].instances, TRIPS);
        duty[graph] = v->products_duty;
        predicted = (double)v->predicted->makespan / (double)v->measured->makespan;
    }
    /* Nothing else runs. As a graph it is not seen, and taken for what is predicted of all trips: this GPU is slower. */
    ck_assert_msg(duty[0] > 0.9, "%g of the time", duty[0]);
    ck_assert_msg(predicted < 0.2 && fabs(duty[1] / predicted - 1) < 0.1, "%g as a graph, predicted %g", duty[1], predicted);
}
END_TEST

START_TEST(another_gpu_than_predicted_for_is_told)
{
    static const char *const names[] = {"NVIDIA H100 80GB HBM3", "NVIDIA A10"};
    fake = ech_test_fake_cuda(NULL);
    g_setenv("ECH_FAKE_CUDA_NAME", names[_i], TRUE);
    g_autoptr(EchTrace) trace = streaming_trace((EchBytes)1 << 20);
    g_autofree char *folder = g_dir_make_tmp("echelon-other-XXXXXX", NULL), *path = g_build_filename(folder, "stream.ech", NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_trace_file_write(trace, path, &error), error);
    const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm", .engine = "native"};
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    g_autoptr(EchCudaValidation) v = ech_validate_cuda(experiment, "repeats=2", 0, NULL, &error);
    ck_assert_ok(v != NULL, error);
    g_autofree char *text = ech_cuda_validation_text(v);
    ck_assert_msg((strstr(text, "- measured on NVIDIA A10, predicted for h100-sxm: ") != NULL) == (_i == 1), "%s", text);
}
END_TEST

/* A buffer that is made, worked on and given back, again and again on one queue, each time larger than before. */
static EchTrace *growing_trace(void)
{
    enum { STEPS = 20 };
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(b, "hbm");
    EchId core = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0);
    for (unsigned i = 0; i < STEPS; i++) {
        buffer.bytes = (EchBytes)(i + 1) << 19;
        EchId data = ech_trace_builder_buffer(b, buffer);
        EchOp op = ech_op_init(ECH_OP_ALLOC);
        op.queue = core;
        op.target = data;
        ech_trace_builder_op(b, op);
        op = ech_op_init(ECH_OP_KERNEL);
        op.queue = core;
        ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, data, ECH_READ, buffer.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        op = ech_op_init(ECH_OP_FREE);
        op.queue = core;
        op.target = data;
        ech_trace_builder_op(b, op);
    }
    EchTrace *trace = ech_trace_builder_finish(b, NULL);
    ck_assert_ptr_nonnull(trace);
    return trace;
}

/* A pool that gives everything back between replays calls the driver in each, and in a row of kernels that is issued ahead nothing waits for it: what the
 * GPU's clock does not see is not predicted either. Where the host makes its calls in between, it is. */
START_TEST(only_calls_that_the_gpu_waits_for_are_predicted)
{
    static const struct {
        const char *spec, *allocator;
        bool paced;
    } ways[] = {{"repeats=3", "cuda_async", false}, {"repeats=3,graph=true", "platform", false}, {"repeats=3", "platform", true}};
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(EchTrace) trace = growing_trace();
    g_autofree char *folder = g_dir_make_tmp("echelon-calls-XXXXXX", NULL), *path = g_build_filename(folder, "growing.ech", NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_trace_file_write(trace, path, &error), error);
    static const char *const driver[] = {"device.runtime.driver.malloc_ps=100000000000", "device.runtime.driver.free_ps=100000000000", NULL};
    EchTime predicted[2];
    for (unsigned dear = 0; dear < 2; dear++) {
        const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm", .engine = "native", .settings = dear ? driver : NULL};
        g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
        ck_assert_ok(experiment != NULL, error);
        g_autoptr(EchCudaValidation) v = ech_validate_cuda(experiment, ways[_i].spec, 0, ways[_i].allocator, &error);
        ck_assert_ok(v != NULL, error);
        ck_assert_int_eq(v->measured->paced, ways[_i].paced);
        /* All 20 buffers at once in a graph, in whole pages, of which this GPU has none; else one at a time. */
        if (_i > 0)
            ck_assert_uint_ge(v->memory_predicted, v->memory_measured);
        if (_i > 0)
            ck_assert_uint_le(v->memory_predicted, v->memory_measured + (EchBytes)20 * (2 << 20));
        predicted[dear] = v->predicted->makespan;
    }
    ck_assert_msg((predicted[1] > predicted[0] + 10 * ECH_PS_PER_MS) == ways[_i].paced, "%g and %g us", (double)predicted[0] / 1e6, (double)predicted[1] / 1e6);
}
END_TEST

/* The pool is predicted as it is set up, and as it is: what one queue has freed, and the pool keeps, another has where it comes after the free, and not where
 * it comes after the use alone. */
START_TEST(a_pool_is_predicted_as_it_is_set_up)
{
    enum { BYTES = 64 << 20 };
    static const struct {
        const char *spec;
        EchId after; /* Kernel or FREE of the other queue */
        bool owned;  /* Buffers say whose they are */
        unsigned buffers;
    } ways[] = {
        {"repeats=1,release_threshold=1TiB", 2, true, 1},  {"repeats=1,release_threshold=1TiB,pool_reuse=false", 2, true, 2},
        {"repeats=1,release_threshold=1TiB", 1, true, 2},  {"repeats=1,release_threshold=1TiB", 2, false, 1},
        {"repeats=1,release_threshold=1TiB", 1, false, 2},
    };
    fake = ech_test_fake_cuda("1073741824");
    g_autofree char *folder = g_dir_make_tmp("echelon-pool-XXXXXX", NULL), *path = g_build_filename(folder, "pool.ech", NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(ways); i++) {
        g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
        EchBuffer buffer = ech_buffer_init();
        buffer.memory = ech_trace_builder_memory(b, "hbm");
        buffer.bytes = BYTES;
        for (unsigned q = 0; q < 2; q++) {
            EchId queue = ech_trace_builder_queue(b, q ? "two" : "one", ECH_QUEUE_COMPUTE, 0);
            buffer.queue = ways[i].owned ? queue : ECH_NONE;
            EchId data = ech_trace_builder_buffer(b, buffer);
            give_or_take(b, ECH_OP_ALLOC, queue, data);
            if (q == 1)
                ech_trace_builder_dep(b, ways[i].after, 0);
            EchOp op = ech_op_init(ECH_OP_KERNEL);
            op.queue = queue;
            ech_trace_builder_op(b, op);
            ech_trace_builder_use(b, data, ECH_WRITE, BYTES, ECH_PATTERN_STREAM, ECH_KNOWN);
            give_or_take(b, ECH_OP_FREE, queue, data);
        }
        g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
        g_autoptr(GError) error = NULL;
        ck_assert_ok(ech_trace_file_write(trace, path, &error), error);
        const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm", .engine = "native"};
        g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
        ck_assert_ok(experiment != NULL, error);
        g_autoptr(EchCudaValidation) v = ech_validate_cuda(experiment, ways[i].spec, 0, "cuda_async", &error);
        ck_assert_ok(v != NULL, error);
        ck_assert_msg(v->memory_predicted == (EchBytes)ways[i].buffers * BYTES, "%u: %" G_GUINT64_FORMAT, i, v->memory_predicted);
        ck_assert_uint_eq(v->memory_measured, v->memory_predicted);
        g_autoptr(GError) refused = NULL;
        ck_assert_ptr_null(ech_validate_cuda(experiment, ways[i].spec, 0, "cuda_async:release_threshold=1TiB", &refused));
        ck_assert_ptr_nonnull(strstr(refused->message, "expected no parameters"));
    }
}
END_TEST

static gpointer ask_for_memory(gpointer driver)
{
    size_t available, total;
    return GINT_TO_POINTER(((const EchCuDriver *)driver)->memory_info(&available, &total));
}

/* What the fake refuses as a driver does, so that no test passes with what no GPU would take: another thread's context, a process made by fork() after the
 * driver was started, the time of events that are not over, of memory that is not aligned. */
START_TEST(the_fake_refuses_what_a_driver_does)
{
    enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
    fake = ech_test_fake_cuda(NULL);
    g_autoptr(GError) error = NULL;
    const EchCuDriver *driver = ech_cuda_driver(&error);
    EchCuGpu gpu;
    ck_assert_ok(driver && ech_cuda_open(driver, 0, &gpu, &error), error);
    ck_assert_int_eq(GPOINTER_TO_INT(ask_for_memory((gpointer)(uintptr_t)driver)), 0);
    ck_assert_int_eq(GPOINTER_TO_INT(g_thread_join(g_thread_new("other", ask_for_memory, (gpointer)(uintptr_t)driver))), INVALID_CONTEXT);
    pid_t child = fork();
    if (child == 0)
        _exit(driver->init(0) == NOT_INITIALIZED && GPOINTER_TO_INT(ask_for_memory((gpointer)(uintptr_t)driver)) == NOT_INITIALIZED ? 0 : 1);
    int status;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    EchCuStream stream;
    EchCuEvent begin, end, never;
    EchCuPointer memory;
    float ms;
    ck_assert_int_eq(driver->stream_create(&stream, 7), INVALID_VALUE);
    ck_assert_int_eq(driver->stream_create(&stream, ECH_CU_STREAM_NON_BLOCKING), 0);
    ck_assert(driver->event_create(&begin, 0) == 0 && driver->event_create(&end, 0) == 0 && driver->event_create(&never, 0) == 0);
    ck_assert(driver->allocate(&memory, 4096) == 0 && memory % 256 == 0);
    ck_assert_int_eq(driver->fill(memory + 2, 0, 1, stream), INVALID_VALUE);
    ck_assert_int_eq(driver->event_record(begin, stream), 0);
    ck_assert_int_eq(driver->fill(memory, 0, 1024, stream), 0);
    ck_assert_int_eq(driver->event_record(end, stream), 0);
    ck_assert_int_eq(driver->event_elapsed(&ms, begin, never), INVALID_HANDLE);
    ck_assert_int_eq(driver->event_elapsed(&ms, begin, end), ECH_CU_ERROR_NOT_READY);
    ck_assert_int_eq(driver->stream_synchronize(stream), 0);
    ck_assert_int_eq(driver->event_elapsed(&ms, begin, end), 0);
    ck_assert(driver->event_destroy(begin) == 0 && driver->event_destroy(end) == 0 && driver->event_destroy(never) == 0);
    ck_assert(driver->stream_destroy(stream) == 0 && driver->release(memory) == 0);
    ech_cuda_close(driver, &gpu);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

START_TEST(no_driver_is_one_clear_error)
{
    g_setenv("ECHELON_LIBCUDA", "/nonexistent/libcuda.so.1", TRUE);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_cuda_driver(&error));
    ck_assert(g_str_has_prefix(error->message, "no NVIDIA driver here: "));
}
END_TEST

START_TEST(no_gpu_is_one_clear_error)
{
    fake = ech_test_fake_cuda(NULL);
    g_setenv("ECH_FAKE_CUDA_NONE", "1", TRUE);
    g_autoptr(GError) error = NULL;
    EchCuGpu gpu;
    ck_assert(!ech_cuda_open(ech_cuda_driver(NULL), 0, &gpu, &error));
    ck_assert_str_eq(error->message, "the driver is installed but sees no GPU; nvidia-smi and CUDA_VISIBLE_DEVICES tell more");
}
END_TEST

START_TEST(a_refusing_driver_is_explained)
{
    fake = ech_test_fake_cuda(NULL);
    g_setenv("ECH_FAKE_CUDA_INIT", "100", TRUE);
    g_autoptr(GError) error = NULL;
    EchCuGpu gpu;
    ck_assert(!ech_cuda_open(ech_cuda_driver(NULL), 0, &gpu, &error));
    ck_assert_str_eq(error->message, "cuInit: CUDA_ERROR_NO_DEVICE (100) while starting the driver: the driver is installed but sees no GPU; nvidia-smi and "
                                     "CUDA_VISIBLE_DEVICES tell more");
}
END_TEST

/* A library inside a Python environment's wheel is found, by the name of its version. */
START_TEST(libraries_of_wheels_are_found)
{
    g_autofree char *root = g_dir_make_tmp("echelon-wheel-XXXXXX", NULL);
    g_autofree char *folder = g_build_filename(root, "lib/python3.99/site-packages/nvidia/cu13/lib", NULL);
    ck_assert_int_eq(g_mkdir_with_parents(folder, 0777), 0);
    g_autofree char *file = g_build_filename(folder, "libechelonprobe.so.13", NULL);
    ck_assert_int_eq(symlink(ECH_FAKE_CUDA, file), 0);
    static const char *const names[] = {"libechelonprobe.so.12", "libechelonprobe.so.13", NULL};
    g_autofree char *why = NULL;
    g_unsetenv("VIRTUAL_ENV");
    ck_assert_ptr_null(ech_cuda_open_library(names, &why));
    ck_assert_ptr_nonnull(strstr(why, "libechelonprobe.so.12"));
    g_setenv("VIRTUAL_ENV", root, TRUE);
    g_autofree char *again = NULL;
    ck_assert_ptr_nonnull(ech_cuda_open_library(names, &again));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda");
    TCase *tests = tcase_create("cuda");
    tcase_add_loop_test(tests, replays_and_gives_everything_back, 0, G_N_ELEMENTS(settings));
    tcase_add_loop_test(tests, kernels_stay_within_buffers, 0, G_N_ELEMENTS(settings));
    tcase_add_loop_test(tests, every_call_fails_cleanly, 0, G_N_ELEMENTS(settings));
    tcase_add_test(tests, kernels_fail_late);
    tcase_add_test(tests, mappings_are_whole_or_nothing);
    tcase_add_test(tests, too_large_is_refused_or_scaled);
    tcase_add_test(tests, products_are_known_by_their_sides);
    tcase_add_loop_test(tests, a_program_is_compared, 0, 6);
    tcase_add_test(tests, waiting_needs_no_clock);
    tcase_add_test(tests, a_graph_is_on_the_gpu_before_it_is_timed);
    tcase_add_test(tests, a_graph_counts_all_trips_of_its_products);
    tcase_add_loop_test(tests, another_gpu_than_predicted_for_is_told, 0, 2);
    tcase_add_loop_test(tests, only_calls_that_the_gpu_waits_for_are_predicted, 0, 3);
    tcase_add_test(tests, freed_memory_is_taken_again_once_it_is_not_in_use);
    tcase_add_test(tests, one_late_copy_is_not_what_a_trace_takes);
    tcase_add_test(tests, what_events_cost_is_measured_as_replays_have_them);
    tcase_add_test(tests, a_full_arena_waits_for_what_is_freed);
    tcase_add_test(tests, waits_reach_back_an_iteration);
    tcase_add_test(tests, kernels_between_allocations_are_timed_alone);
    tcase_add_test(tests, what_events_cost_is_measured_under_load);
    tcase_add_test(tests, long_rows_of_short_kernels_are_timed_alone);
    tcase_add_test(tests, host_memory_is_taken_on_the_gpus_side);
    tcase_add_test(tests, waiting_is_no_longer_than_asked_for);
    tcase_add_test(tests, products_keep_their_shape_where_there_is_room);
    tcase_add_test(tests, products_are_hot_before_they_are_measured);
    tcase_add_loop_test(tests, clocks_are_told, 0, 3);
    tcase_add_test(tests, stray_writes_are_noticed);
    tcase_add_loop_test(tests, nothing_is_read_from_the_cache, 0, 2);
    tcase_add_loop_test(tests, queues_that_multiply_share_no_workspace, 0, 2);
    tcase_add_loop_test(tests, pageable_copies_are_pageable, 0, 2);
    tcase_add_test(tests, only_what_is_done_counts);
    tcase_add_test(tests, intervals_are_of_the_median);
    tcase_add_test(tests, a_pool_is_predicted_as_it_is_set_up);
    tcase_add_test(tests, the_fake_refuses_what_a_driver_does);
    tcase_add_test(tests, no_driver_is_one_clear_error);
    tcase_add_test(tests, no_gpu_is_one_clear_error);
    tcase_add_test(tests, a_refusing_driver_is_explained);
    tcase_add_test(tests, libraries_of_wheels_are_found);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
