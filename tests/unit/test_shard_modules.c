/* The shard pass on what PyTorch runs over devices: steps made by hand, whose peaks follow from the sizes; and shipped ones, against what PyTorch itself does.
 */
#include "models/device/device_yaml.h"
#include "tests/support/made.h"

#include <check.h>
#include <math.h>
#include <string.h>

static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 80GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  matrix: {peaks: {f32: 100TFLOP/s}}\n  vector: {peaks: {f32: 10TFLOP/s}}\n";

/* A model of two blocks, of 4 MiB each, and 8 MiB beside them, on four devices; each weight has one moment. */
enum { MB = 1 << 20, BLOCK = 4 * MB, ROOT = 8 * MB, DEVICES = 4, N_WEIGHTS = 3, LISTED = 70, LISTED_BYTES = MB };
static const EchBytes sizes[N_WEIGHTS] = {BLOCK, BLOCK, ROOT};
static const char *const modules[N_WEIGHTS] = {"nn.Module: blocks.0 (Block)\nnn.Module: GPT", "nn.Module: blocks.1 (Block)\nnn.Module: GPT", "nn.Module: GPT"};
#define NODE "autograd::engine::evaluate_function: "
#define HOOK "aten::mul\n" NODE "torch::autograd::AccumulateGrad"
#define STEP "aten::_foreach_add_\nOptimizer.step#SGD.step"

typedef enum { ALONE, IN_BUCKETS, AS_VIEWS } Sums; /* one device's; gradients copied to what is summed up, and back; or kept there */

typedef struct {
    Sums sums;
    unsigned passes;                                 /* forward and backward, before the optimizer; 0: one */
    bool kept_gradients;                             /* from step to step */
    bool clipped;                                    /* by their length */
    bool stateless, loop, no_modules, split, shared; /* shared: a block's weight is used by the root, too */
    bool listed;                                     /* an operator over lists of more tensors, of which each launch has one */
} Made;

typedef struct {
    EchTraceBuilder *b;
    const Made *how;
    EchId w[N_WEIGHTS], m[N_WEIGHTS], g[N_WEIGHTS], bucket[N_WEIGHTS], listed[LISTED], x, links;
} Step;

static void use(Step *s, EchId buffer, EchAccess access, EchBytes bytes)
{
    ech_trace_builder_use(s->b, buffer, access, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
}

static void kernel(Step *s, const char *name, const char *stack)
{
    EchId op = ech_test_put(s->b, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(s->b, op)->name = ech_trace_builder_string(s->b, name, -1);
    ech_trace_builder_peek_op(s->b, op)->stack = ech_trace_builder_string(s->b, stack, -1);
}

static void product(Step *s, const char *name, const char *stack, EchId weight, EchBytes bytes)
{
    kernel(s, name, stack);
    use(s, s->x, ECH_READ, MB);
    use(s, weight, ECH_READ, bytes);
    ech_trace_builder_work(s->b, ECH_WORK_MATRIX, ECH_DTYPE_F32, 1000, ECH_KNOWN);
}

static void collective(Step *s, EchCollective what, EchId buffer, EchBytes bytes, EchId to, EchBytes left)
{
    EchOp o = ech_op_init(ECH_OP_COLLECTIVE);
    o.collective = (uint8_t)what;
    o.name = ech_trace_builder_string(s->b, "sum", -1);
    o.queue = s->links;
    o.memory_from = DEVICES;
    o.launch = ech_trace_builder_string(s->b, "devices=4 stride=1 meets=4be1/12", -1);
    o.bytes = bytes;
    (void)ech_trace_builder_op(s->b, o);
    use(s, buffer, ECH_READ, bytes);
    use(s, to, ECH_WRITE, left);
    ech_trace_builder_dep(s->b, (EchId)ech_trace_builder_n_ops(s->b) - 2, 0);
}

static EchId gradient(Step *s, int k)
{
    EchId g = ech_test_buffer(s->b, "g", sizes[k], ECH_ROLE_GRADIENT, false);
    (void)ech_test_put(s->b, ECH_OP_ALLOC, g);
    return g;
}

static void backward(Step *s, int k, bool first)
{
    const Made *how = s->how;
    g_autofree char *stack = g_strconcat(NODE "MmBackward0\n", how->no_modules ? "" : modules[k], NULL);
    EchId made = gradient(s, k);
    product(s, "backward", stack, s->w[k], sizes[k]);
    use(s, made, ECH_WRITE, sizes[k]);
    bool adds = how->kept_gradients || !first;
    if (how->sums == AS_VIEWS || adds) {
        EchId to = how->sums == AS_VIEWS ? s->bucket[k] : s->g[k];
        kernel(s, "hook", HOOK);
        use(s, made, ECH_READ, sizes[k]);
        if (adds)
            use(s, to, ECH_READ, sizes[k]);
        use(s, to, ECH_WRITE, sizes[k]);
        (void)ech_test_put(s->b, ECH_OP_FREE, made);
    } else
        s->g[k] = made;
    if (how->sums == IN_BUCKETS) {
        kernel(s, "hook", HOOK);
        use(s, s->g[k], ECH_READ, sizes[k]);
        use(s, s->bucket[k], ECH_WRITE, sizes[k]);
    }
    if (how->sums != ALONE)
        collective(s, ECH_COLLECTIVE_ALL_REDUCE, s->bucket[k], sizes[k], s->bucket[k], sizes[k]);
}

static void copy_back(Step *s, int k)
{
    EchOp o = ech_op_init(ECH_OP_COPY);
    o.name = ech_trace_builder_string(s->b, "copy back", -1);
    o.queue = 0;
    o.memory_from = o.memory_to = ech_trace_builder_memory(s->b, "hbm");
    o.bytes = sizes[k];
    (void)ech_trace_builder_op(s->b, o);
    use(s, s->bucket[k], ECH_READ, sizes[k]);
    use(s, s->g[k], ECH_WRITE, sizes[k]);
}

#define LIST_KERNEL                                                                                                                                            \
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, "                             \
    "at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(x)"

/* Of 1 MiB each, four chunks of 65,536 elements. */
static void lists(Step *s)
{
    for (int k = 0; k < LISTED; k++) {
        EchId moment = s->listed[k];
        kernel(s, LIST_KERNEL, STEP);
        ech_trace_builder_peek_op(s->b, (EchId)ech_trace_builder_n_ops(s->b) - 1)->launch =
            ech_trace_builder_string(s->b, "grid=4x1x1 block=512x1x1 elements=262144 operand_bytes=4", -1);
        use(s, moment, ECH_READ, LISTED_BYTES);
        use(s, moment, ECH_WRITE, LISTED_BYTES);
        if (k > 0)
            ech_trace_builder_dep(s->b, (EchId)ech_trace_builder_n_ops(s->b) - 2, 0);
    }
}

static void optimizer(Step *s)
{
    const Made *how = s->how;
    EchId handed = ech_test_buffer(s->b, "handed", ROOT, ECH_ROLE_TEMPORARY, false);
    if (how->clipped) { /* the length of all, and all by that */
        kernel(s, "norm", "aten::_foreach_norm");
        for (int k = 0; k < N_WEIGHTS; k++)
            use(s, s->g[k], ECH_READ, sizes[k]);
    }
    (void)ech_test_put(s->b, ECH_OP_ALLOC, handed);
    kernel(s, "step", STEP);
    use(s, handed, ECH_WRITE, ROOT);
    kernel(s, "step", STEP);
    use(s, handed, ECH_READ, ROOT);
    for (int k = 0; k < N_WEIGHTS; k++) {
        EchId g = how->sums == AS_VIEWS ? s->bucket[k] : s->g[k];
        use(s, g, ECH_READ, sizes[k]);
        for (int writes = 0; writes < 2; writes++) {
            use(s, s->w[k], writes ? ECH_WRITE : ECH_READ, sizes[k]);
            if (!how->stateless)
                use(s, s->m[k], writes ? ECH_WRITE : ECH_READ, sizes[k]);
        }
    }
    (void)ech_test_put(s->b, ECH_OP_FREE, handed);
    if (how->listed)
        lists(s);
}

static EchTrace *step(const Made *how)
{
    Step made = {.b = ech_test_begin(), .how = how}, *s = &made;
    g_autoptr(EchTraceBuilder) b = s->b;
    s->links = ech_trace_builder_queue(b, "links", ECH_QUEUE_COMPUTE, 0);
    s->x = ech_test_buffer(b, "x", MB, ECH_ROLE_TEMPORARY, true);
    for (int k = 0; k < N_WEIGHTS; k++) {
        s->w[k] = ech_test_buffer(b, "w", sizes[k], ECH_ROLE_PARAMETER, true);
        if (!how->stateless)
            s->m[k] = ech_test_buffer(b, "m", sizes[k], ECH_ROLE_OPTIMIZER, true);
        if (how->sums != ALONE)
            s->bucket[k] = ech_test_buffer(b, "bucket", sizes[k], ECH_ROLE_GRADIENT, true);
        if (how->kept_gradients)
            s->g[k] = ech_test_buffer(b, "g", sizes[k], ECH_ROLE_GRADIENT, true);
    }
    for (int k = 0; k < LISTED && how->listed; k++)
        s->listed[k] = ech_test_buffer(b, "listed", LISTED_BYTES, ECH_ROLE_OPTIMIZER, true);
    EchId loop = how->loop ? ech_test_loop(b, 1) : ECH_NONE;
    for (unsigned pass = 0; pass < MAX(how->passes, 1); pass++) {
        for (int k = 0; k < N_WEIGHTS; k++) {
            g_autofree char *stack = g_strconcat("aten::linear\n", how->no_modules ? "nn.Module: GPT" : modules[k], NULL);
            product(s, "forward", stack, s->w[k], sizes[k]);
            if (k < 2) { /* what a block is made of */
                g_autofree char *part = g_strdup_printf("aten::gelu\nnn.Module: blocks.%d.act (GELU)\n%s", k, modules[k]);
                kernel(s, "act", how->no_modules ? "aten::gelu\nnn.Module: GPT" : part);
                use(s, s->x, ECH_WRITE, MB);
            }
        }
        if (how->shared)
            product(s, "forward", "aten::linear\nnn.Module: GPT", s->w[0], sizes[0]);
        kernel(s, "loss", NODE "NllLossBackward0");
        use(s, s->x, ECH_WRITE, MB);
        for (int k = N_WEIGHTS; k-- > 0;)
            backward(s, k, pass == 0);
    }
    if (how->split)
        collective(s, ECH_COLLECTIVE_REDUCE_SCATTER, s->x, MB, s->g[0], MB);
    for (int k = 0; k < N_WEIGHTS && how->sums == IN_BUCKETS; k++)
        copy_back(s, k);
    optimizer(s);
    for (int k = 0; k < N_WEIGHTS && how->sums != AS_VIEWS && !how->kept_gradients; k++)
        (void)ech_test_put(b, ECH_OP_FREE, s->g[k]);
    if (how->loop)
        ech_test_close_loop(b, loop);
    return ech_test_finish(b);
}

static size_t count(const EchTrace *t, EchOpKind kind, EchCollective collective, EchBytes *ret_bytes)
{
    size_t n = 0;
    *ret_bytes = 0;
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *o = &ech_trace_ops(t)[i];
        if (o->kind != kind || o->collective != collective)
            continue;
        n++;
        *ret_bytes += o->bytes;
    }
    return n;
}

/* Bytes that ops named @name read and write. */
static EchBytes moved(const EchTrace *t, const char *name)
{
    EchBytes bytes = 0;
    for (size_t i = 0; i < ech_trace_n_ops(t); i++)
        for (uint32_t u = 0; u < ech_trace_ops(t)[i].n_uses && strcmp(ech_trace_string(t, ech_trace_ops(t)[i].name), name) == 0; u++)
            bytes += ech_trace_uses(t)[ech_trace_ops(t)[i].first_use + u].bytes;
    return bytes;
}

/* A quarter of weights and moments, and the data. Then, while the first block's backward pass runs, what that ended with: the root's weights and gradient, the
 * second block's part of its gradients, and what they were summed up from, which stays until the next is; the block's own weights and gradient. */
#define PARTS (8 * MB + MB)
#define RINGS (24 * MB) /* NCCL's, of a device without links to others, where nothing was summed up before */
#define AT_MOST (PARTS + ROOT + ROOT + BLOCK / DEVICES + BLOCK + BLOCK + BLOCK)

static const struct {
    Made how;
    const char *spec, *says;
    EchBytes peak;     /* 0: nothing changes */
    unsigned gathered; /* units, in all */
    unsigned summed;
} cases[] = {
    {{.sums = IN_BUCKETS}, "shard", "weights and optimizer state (32 MiB), and gradients, in parts over 4 devices", AT_MOST, 5, 3},
    {{.sums = AS_VIEWS}, "shard", "as fully_shard of blocks.*", AT_MOST, 5, 3},
    {{.sums = ALONE}, "shard:over=4", "24 MiB of weights", AT_MOST + RINGS, 5, 3},
    {{.sums = IN_BUCKETS, .clipped = true}, "shard", "24 MiB of weights", AT_MOST, 5, 3},
    {{.sums = IN_BUCKETS}, "shard:modules=blocks.*", "24 MiB of weights", AT_MOST, 5, 3},
    /* Both blocks stay whole until their backward passes: the first, while the second's runs, but no copy of the next that comes. */
    {{.sums = IN_BUCKETS}, "shard:keep=true", "16 MiB of weights", AT_MOST, 3, 3},
    /* Another backward pass on what the first left: all of the root's and the blocks' parts are there. */
    {{.sums = ALONE, .passes = 2}, "shard:over=4", "32 MiB of gradients", AT_MOST + RINGS + (ROOT + BLOCK) / DEVICES + BLOCK / DEVICES, 10, 6},
    {{.sums = ALONE, .kept_gradients = true}, "shard:over=4", "16 MiB of gradients", AT_MOST + RINGS + (ROOT + BLOCK + BLOCK) / DEVICES, 5, 3},
    /* What two units use is the root's: the other block alone is a unit. */
    {{.sums = IN_BUCKETS, .shared = true}, "shard", "20 MiB of weights", PARTS + 2 * (ROOT + BLOCK) + BLOCK / DEVICES + BLOCK, 3, 3},
    /* State alone: each device has its weights', the largest is the root's, half of all. */
    {{.sums = IN_BUCKETS}, "shard:weights=false", "at most 8 MiB on one", 16 * MB + 8 * MB + MB + 16 * MB + 16 * MB + 4 * MB, 0, 0},
    {{.sums = IN_BUCKETS}, "shard:over=3", "over devices that are no multiple of over=", 0, 0, 0},
    {{.sums = ALONE}, "shard", "over=8 says of how many it is one", 0, 0, 0},
    {{.sums = IN_BUCKETS, .no_modules = true}, "shard", "it repeats no module", 0, 0, 0},
    {{.sums = IN_BUCKETS}, "shard:modules=layers.*", "none fits modules=", 0, 0, 0},
    {{.sums = IN_BUCKETS, .stateless = true}, "shard:weights=false", "its optimizer keeps no state", 0, 0, 0},
    {{.sums = ALONE, .split = true}, "shard", "are split over devices already", 0, 0, 0},
    {{.sums = IN_BUCKETS, .loop = true}, "shard", "it has loops", 0, 0, 0},
};

START_TEST(split)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {cases[_i].spec, NULL};
    g_autoptr(EchTrace) in = step(&cases[_i].how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_msg(ech_test_says(diag, cases[_i].says), "%s", cases[_i].says);
    ck_assert_int_eq(out != in, cases[_i].peak > 0);
    if (out == in)
        return;
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), cases[_i].peak);
    bool whole = strstr(cases[_i].spec, "weights=false") != NULL;
    EchBytes bytes;
    ck_assert_uint_eq(count(out, ECH_OP_COLLECTIVE, ECH_COLLECTIVE_ALL_GATHER, &bytes), cases[_i].gathered);
    ck_assert_uint_eq(count(out, ECH_OP_COLLECTIVE, ECH_COLLECTIVE_REDUCE_SCATTER, &bytes), cases[_i].summed);
    ck_assert_uint_eq(bytes, whole ? 0 : 16 * MB * MAX(cases[_i].how.passes, 1));
    ck_assert_uint_eq(count(out, ECH_OP_COLLECTIVE, ECH_COLLECTIVE_BROADCAST, &bytes), whole ? N_WEIGHTS : 0);
    ck_assert_uint_eq(bytes, whole ? 16 * MB : 0);
    ck_assert_uint_eq(count(out, ECH_OP_COLLECTIVE, ECH_COLLECTIVE_ALL_REDUCE, &bytes), whole ? N_WEIGHTS : 0);
    ck_assert_int_eq(moved(out, "hook") > 0, whole);
    /* An optimizer does a part, here half where each device has whole weights; what multiplies does what it did. */
    ck_assert_uint_eq(moved(out, "step"), moved(in, "step") / (whole ? 2 : DEVICES));
    ck_assert_uint_eq(moved(out, "norm"), moved(in, "norm") / DEVICES);
    ck_assert_uint_eq(moved(out, "forward"), moved(in, "forward"));
    ck_assert_uint_eq(moved(out, "backward"), moved(in, "backward"));
}
END_TEST

/* Two groups of two (HSDP): of each sum a device has half, which the groups sum up, too, while the next is summed up in each; the optimizer waits for the last.
 */
START_TEST(groups)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {"shard:over=2", NULL};
    const Made how = {.sums = IN_BUCKETS};
    g_autoptr(EchTrace) in = step(&how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert(ech_test_says(diag, "2 groups of 2 devices (HSDP: mesh= of 2 x 2) sum up 8 MiB"));
    EchId last = ECH_NONE;
    unsigned sums = 0;
    for (EchId i = 0; i < ech_trace_n_ops(out); i++) {
        const EchOp *o = &ech_trace_ops(out)[i];
        const char *launch = o->launch == ECH_NONE ? "" : ech_trace_string(out, o->launch);
        if (o->kind != ECH_OP_COLLECTIVE)
            continue;
        ck_assert_uint_eq(o->memory_from, 2);
        if (o->collective != ECH_COLLECTIVE_ALL_REDUCE) {
            ck_assert_str_eq(launch, "devices=2 stride=1");
            continue;
        }
        const EchOp *scatter = &ech_trace_ops(out)[ech_trace_deps(out)[o->first_dep].op];
        ck_assert_str_eq(launch, "devices=4 stride=2");
        ck_assert_uint_eq(scatter->collective, ECH_COLLECTIVE_REDUCE_SCATTER);
        ck_assert_uint_ne(scatter->queue, o->queue);
        ck_assert_uint_eq(o->bytes, scatter->bytes / 2);
        last = i;
        sums++;
    }
    ck_assert_uint_eq(sums, 3);
    bool waited = false;
    for (EchId i = last; i < ech_trace_n_ops(out); i++) {
        const EchOp *o = &ech_trace_ops(out)[i];
        waited |= o->kind == ECH_OP_WAIT && ech_trace_deps(out)[o->first_dep].op == last;
        ck_assert(waited || o->kind != ECH_OP_KERNEL || strcmp(ech_trace_string(out, o->name), "step") != 0);
    }
    ck_assert(waited);
}
END_TEST

/* While a block computes, the next is gathered: it begins once what was gathered before that lies in its place, and no more than one is on its way. */
START_TEST(ahead)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {"shard", NULL};
    const Made how = {.sums = IN_BUCKETS};
    g_autoptr(EchTrace) in = step(&how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    size_t copied = 0, asked = 0;
    for (size_t i = 0; i < ech_trace_n_ops(out); i++) {
        const EchOp *o = &ech_trace_ops(out)[i];
        const char *name = ech_trace_string(out, o->name);
        copied += strcmp(name, "FSDP::all_gather_copy_out") == 0;
        if (strcmp(name, "FSDP::all_gather_copy_in") != 0)
            continue;
        asked++;
        ck_assert_uint_le(asked, copied + 1);
        if (asked > 2) {
            ck_assert_uint_eq(o->n_deps, 1);
            size_t before = 0; /* copies out that are through when it begins */
            for (size_t k = 0; k <= ech_trace_deps(out)[o->first_dep].op; k++)
                before += strcmp(ech_trace_string(out, ech_trace_ops(out)[k].name), "FSDP::all_gather_copy_out") == 0;
            ck_assert_uint_ge(before + 2, asked);
        }
    }
    ck_assert_uint_eq(asked, 5);
    ck_assert_uint_eq(copied, 5);
}
END_TEST

/* A launch over two lists has 64 tensors and 320 blocks at most: of 70 tensors there are two, of as many blocks each as tensors, of which each device has a
 * quarter, a chunk; where tensors are dealt out whole, half of them to one device, one. */
START_TEST(joined)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    static const char *const launches[2][2] = {
        {"grid=64x1x1 block=512x1x1 elements=4194304 operand_bytes=4", "grid=6x1x1 block=512x1x1 elements=393216 operand_bytes=4"},
        {"grid=140x1x1 block=512x1x1 elements=9175040 operand_bytes=4", NULL}};
    const char *const specs[] = {_i == 0 ? "shard" : "shard:weights=false", NULL};
    const Made how = {.sums = IN_BUCKETS, .listed = true};
    g_autoptr(EchTrace) in = step(&how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    size_t n = 0;
    for (size_t i = 0; i < ech_trace_n_ops(out); i++) {
        const EchOp *o = &ech_trace_ops(out)[i];
        if (strcmp(ech_trace_string(out, o->name), LIST_KERNEL) != 0)
            continue;
        ck_assert_uint_lt(n, 2);
        ck_assert_pstr_eq(ech_trace_string(out, o->launch), launches[_i][n]);
        n++;
    }
    ck_assert_uint_eq(n, _i == 0 ? 2 : 1);
    ck_assert_uint_eq(moved(out, LIST_KERNEL), moved(in, LIST_KERNEL) / (_i == 0 ? DEVICES : 2));
}
END_TEST

/* Told of DistributedDataParallel, and what PyTorch itself does; memory and time, and by how much those may be off. */
static const struct {
    const char *spec, *how;
    double memory, time;
} captured[] = {{"shard", "fsdp", .01, .01}, {"shard:keep=true", "zero2", .01, .01}, {"shard:weights=false", "zero1", .01, .01}};

START_TEST(as_captured)
{
    g_autofree char *made = g_strdup_printf(ECH_SOURCE_DIR "/traces/data_parallel_pytorch.h100/%s.pretend.gz", captured[_i].how);
    const char *passes[] = {captured[_i].spec, NULL};
    const EchExperimentOverrides told = {.trace = ECH_SOURCE_DIR "/traces/data_parallel_pytorch.h100/ddp.pretend.gz",
                                         .device = "h100-sxm",
                                         .engine = "native",
                                         .step = "last",
                                         .passes = passes},
                                 real = {.trace = made, .device = "h100-sxm", .engine = "native", .step = "last"};
    g_autoptr(EchResult) predicted = ech_test_run(&told);
    g_autoptr(EchResult) is = ech_test_run(&real);
    double memory = (double)ech_test_peak(predicted->run, "hbm") / (double)ech_test_peak(is->run, "hbm"),
           time = (double)predicted->run->makespan / (double)is->run->makespan;
    ck_assert_msg(fabs(memory - 1) <= captured[_i].memory, "%g", memory);
    ck_assert_msg(fabs(time - 1) <= captured[_i].time, "%g", time);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard_modules");
    TCase *tcase = tcase_create("shard_modules");
    tcase_add_loop_test(tcase, split, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tcase, groups);
    tcase_add_test(tcase, ahead);
    tcase_add_loop_test(tcase, joined, 0, 2);
    tcase_add_loop_test(tcase, as_captured, 0, G_N_ELEMENTS(captured));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
