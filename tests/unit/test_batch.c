/* The batch pass on a training step made by hand, whose sizes, launches and peaks follow from its rows. */
#include "models/device/device_yaml.h"
#include "tests/support/made.h"

#include <check.h>
#include <string.h>

static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 80GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  matrix: {peaks: {f32: 100TFLOP/s}}\n  vector: {peaks: {f32: 10TFLOP/s}}\n";

/* 8 rows of 1,024 numbers of 4 bytes, over and over, and 1,024 x 2,048 weights: y[8192, 2048] = x[8192, 1024] w. */
enum { ROWS = 8, KB = 1 << 10, MB = 1 << 20, X = 32 * MB, Y = 64 * MB, W = 8 * MB, TABLE = MB, EDGES = MB, N = 8192 };
#define MODULE "nn.Module: GPT"
#define NODE "autograd::engine::evaluate_function: "
#define STEP "aten::_foreach_add_\nOptimizer.step#SGD.step"

typedef enum { ALONE, IN_BUCKETS, AS_VIEWS } Sums;
typedef struct {
    Sums sums;
    unsigned steps;                                   /* 0: one */
    bool made, kept_output, inference;                /* made: x is made anew for each step; kept_output: until the next step's is there */
    unsigned rows;                                    /* 0: eight */
    bool untold, no_rows, views, twice, loop, hooked; /* hooked: the step is a hook of the gradient's */
    bool classes;                                     /* y are logits, of classes */
    bool pairs;                                       /* and compared with all */
    bool dense;                                       /* or summed up by an array of all by all */
    bool filters;                                     /* the gradient of a convolution's, left where rows are, too, a workspace's, and taken from there */
    bool edges;                                       /* rows are summed up by an index that is given, made anew with x */
} Made;

typedef struct {
    EchTraceBuilder *b;
    const Made *how;
    EchId x, w, m, g, bucket, y, edges;
} Step;

static void use(Step *s, EchId buffer, EchAccess access, EchBytes bytes)
{
    ech_trace_builder_use(s->b, buffer, access, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
}

static EchOp *kernel(Step *s, const char *name, const char *stack, const char *launch)
{
    EchId name_id = ech_trace_builder_string(s->b, name, -1), stack_id = ech_trace_builder_string(s->b, stack, -1),
          launch_id = launch ? ech_trace_builder_string(s->b, launch, -1) : ECH_NONE;
    EchOp *o = ech_trace_builder_peek_op(s->b, ech_test_put(s->b, ECH_OP_KERNEL, ECH_NONE));
    o->name = name_id;
    o->stack = stack_id;
    o->launch = launch_id;
    return o;
}

static EchId asked_for(Step *s, const char *name, EchBytes bytes, EchRole role)
{
    EchId a = ech_test_buffer(s->b, name, bytes, role, false);
    (void)ech_test_put(s->b, ECH_OP_ALLOC, a);
    return a;
}

static void collective(Step *s, EchCollective kind, const char *name, const char *launch, EchId buffer, EchBytes bytes)
{
    EchOp o = ech_op_init(ECH_OP_COLLECTIVE);
    o.collective = kind;
    o.name = ech_trace_builder_string(s->b, name, -1);
    o.queue = 0;
    o.memory_from = 4;
    o.launch = ech_trace_builder_string(s->b, launch, -1);
    o.bytes = bytes;
    (void)ech_trace_builder_op(s->b, o);
    use(s, buffer, ECH_READ, bytes);
    use(s, buffer, ECH_WRITE, bytes);
}

static void forward(Step *s)
{
    EchId table = asked_for(s, "table", TABLE, ECH_ROLE_TEMPORARY); /* of nothing, in a module */
    (void)kernel(s, "arange", "aten::arange\n" MODULE, "grid=256x1x1 block=128x1x1 elements=262144 operand_bytes=4");
    use(s, table, ECH_WRITE, TABLE);
    if (s->how->sums != ALONE) /* what a module keeps besides its weights (DDP's broadcast_buffers) */
        collective(s, ECH_COLLECTIVE_BROADCAST, "sent", "devices=4 stride=1 meets=9f/7", table, TABLE);
    EchId mask = asked_for(s, "mask", ROWS * TABLE, ECH_ROLE_TEMPORARY); /* of that, for each row */
    (void)kernel(s, "repeat", "aten::copy_\n" MODULE, NULL);
    use(s, table, ECH_READ, TABLE);
    use(s, mask, ECH_WRITE, ROWS * TABLE);
    EchId before = s->y;
    s->y = asked_for(s, "y", Y, ECH_ROLE_ACTIVATION);
    (void)kernel(s, "cublasGemmEx", "aten::mm\n" MODULE, "product=1x8192x2048x1024 operand_bytes=4 class=product turned=2097152 operators=3");
    use(s, s->x, ECH_READ, X);
    use(s, s->w, ECH_READ, W);
    use(s, s->y, ECH_WRITE, Y);
    ech_trace_builder_work(s->b, ECH_WORK_MATRIX, ECH_DTYPE_F32, 2ull * N * 1024 * 2048, ECH_KNOWN);
    (void)kernel(s, "add", "aten::add\n" MODULE, "grid=65536x1x1 block=128x1x1 elements=16777216 operand_bytes=4");
    use(s, mask, ECH_READ, ROWS * TABLE);
    use(s, s->y, ECH_READ, Y);
    use(s, s->y, ECH_WRITE, Y);
    if (s->how->edges) {
        (void)kernel(s, "scatter", "aten::scatter_add_\n" MODULE, NULL);
        use(s, s->edges, ECH_READ, EDGES);
        use(s, s->y, ECH_READ, Y);
        use(s, s->y, ECH_WRITE, Y);
    }
    if (s->how->pairs) {
        (void)kernel(s, "cublasGemmEx", "aten::mm", "product=1x8x8x2097152 operand_bytes=4");
        use(s, s->y, ECH_READ, Y);
        ech_trace_builder_work(s->b, ECH_WORK_MATRIX, ECH_DTYPE_F32, 2ull * 64 * 2097152, ECH_KNOWN);
    }
    if (s->how->dense) {
        (void)kernel(s, "cublasGemmEx", "aten::mm\n" MODULE, "product=1x8x2097152x8 operand_bytes=4");
        use(s, s->y, ECH_READ, Y);
        ech_trace_builder_work(s->b, ECH_WORK_MATRIX, ECH_DTYPE_F32, 2ull * 64 * 2097152, ECH_KNOWN);
    }
    (void)ech_test_put(s->b, ECH_OP_FREE, table);
    (void)ech_test_put(s->b, ECH_OP_FREE, mask);
    if (before != ECH_NONE && s->how->kept_output)
        (void)ech_test_put(s->b, ECH_OP_FREE, before);
}

/* log-softmax, what it is by labels, and of both the gradients. */
static EchId loss_of_classes(Step *s)
{
    EchId log = asked_for(s, "log", Y, ECH_ROLE_ACTIVATION);
    (void)kernel(s, "softmax", "aten::_log_softmax\naten::cross_entropy_loss", "rows=8192 columns=2048 operand_bytes=4");
    use(s, s->y, ECH_READ, Y);
    use(s, log, ECH_WRITE, Y);
    EchId chosen = asked_for(s, "chosen", Y, ECH_ROLE_TEMPORARY), dy = asked_for(s, "dy", Y, ECH_ROLE_TEMPORARY);
    (void)kernel(s, "nll", NODE "NllLossBackward0", NULL);
    use(s, chosen, ECH_WRITE, Y);
    (void)kernel(s, "loss", NODE "LogSoftmaxBackward0", "rows=8192 columns=2048 operand_bytes=4");
    use(s, log, ECH_READ, Y);
    use(s, chosen, ECH_READ, Y);
    use(s, dy, ECH_WRITE, Y);
    (void)ech_test_put(s->b, ECH_OP_FREE, chosen);
    (void)ech_test_put(s->b, ECH_OP_FREE, log);
    return dy;
}

static void backward(Step *s)
{
    EchId dy = s->how->classes ? loss_of_classes(s) : asked_for(s, "dy", Y, ECH_ROLE_TEMPORARY);
    if (!s->how->classes) {
        (void)kernel(s, "loss", NODE "MseLossBackward0", "grid=65536x1x1 block=128x1x1 elements=16777216 operand_bytes=4");
        use(s, s->y, ECH_READ, Y);
        use(s, dy, ECH_WRITE, Y);
    }
    if (!s->how->kept_output)
        (void)ech_test_put(s->b, ECH_OP_FREE, s->y);
    EchId made = asked_for(s, "gradient", W, s->how->sums == AS_VIEWS ? ECH_ROLE_TEMPORARY : ECH_ROLE_GRADIENT);
    (void)kernel(s, s->how->filters ? "cudnn convolution: gradient of the filters" : "cublasGemmEx", NODE "MmBackward0\n" MODULE,
                 "product=1x1024x2048x8192 operand_bytes=4 class=product turned=25165824");
    use(s, s->x, ECH_READ, X);
    use(s, dy, ECH_READ, Y);
    use(s, s->how->filters ? dy : made, ECH_WRITE, W);
    ech_trace_builder_work(s->b, ECH_WORK_MATRIX, ECH_DTYPE_F32, 2ull * N * 1024 * 2048, ECH_KNOWN);
    if (s->how->filters) {
        (void)kernel(s, "relayout", NODE "MmBackward0\n" MODULE, NULL);
        use(s, dy, ECH_READ, W);
        use(s, made, ECH_WRITE, W);
    }
    (void)ech_test_put(s->b, ECH_OP_FREE, dy);
    s->g = made;
    if (s->how->sums == ALONE)
        return;
    (void)kernel(s, "hook", "aten::mul\n" NODE "torch::autograd::AccumulateGrad", NULL);
    use(s, made, ECH_READ, W);
    use(s, s->bucket, ECH_WRITE, W);
    if (s->how->sums == AS_VIEWS)
        (void)ech_test_put(s->b, ECH_OP_FREE, made);
    collective(s, ECH_COLLECTIVE_ALL_REDUCE, "sum", "devices=4 stride=1 meets=4be1/12", s->bucket, W);
}

static void optimizer(Step *s)
{
    EchId g = s->how->sums == AS_VIEWS ? s->bucket : s->g;
    if (s->how->sums == IN_BUCKETS) {
        (void)kernel(s, "back", "aten::copy_", NULL);
        use(s, s->bucket, ECH_READ, W);
        use(s, s->g, ECH_WRITE, W);
    }
    (void)kernel(s, "step", s->how->hooked ? STEP "\n" NODE "torch::autograd::AccumulateGrad" : STEP,
                 "grid=1x1x1 block=512x1x1 elements=2097152 operand_bytes=4");
    use(s, g, ECH_READ, W);
    use(s, s->m, ECH_WRITE, W);
    use(s, s->w, ECH_WRITE, W);
    if (s->how->sums != AS_VIEWS)
        (void)ech_test_put(s->b, ECH_OP_FREE, s->g);
}

static EchTrace *steps(const Made *how)
{
    Step made = {.b = ech_test_begin(), .how = how, .y = ECH_NONE}, *s = &made;
    g_autoptr(EchTraceBuilder) b = s->b;
    EchRole given = how->untold ? ECH_ROLE_PARAMETER : ECH_ROLE_INPUT;
    s->w = ech_test_buffer(b, "w", W, ECH_ROLE_PARAMETER, true);
    s->m = ech_test_buffer(b, "m", W, ECH_ROLE_OPTIMIZER, true);
    if (how->sums != ALONE)
        s->bucket = ech_test_buffer(b, "bucket", W, ECH_ROLE_GRADIENT, true);
    s->x = how->made ? ECH_NONE : ech_test_buffer(b, "x", X, given, true);
    if (how->edges && !how->made)
        s->edges = ech_test_buffer(b, "edges", EDGES, ECH_ROLE_INPUT, true);
    if (!how->no_rows)
        ech_trace_builder_printf_property(b, ECH_TRACE_BATCH, "%u", how->rows > 0 ? how->rows : 8);
    EchId loop = how->loop ? ech_test_loop(b, 1) : ECH_NONE;
    for (unsigned step = 0; step < MAX(how->steps, 1); step++) {
        if (how->made) { /* outside of modules, of nothing */
            s->x = asked_for(s, "x", X, ECH_ROLE_TEMPORARY);
            (void)kernel(s, "randn", "aten::randn", "grid=32x1x1 block=256x1x1 elements=8388608 operand_bytes=4");
            use(s, s->x, ECH_WRITE, X);
        }
        if (how->edges && how->made)
            s->edges = asked_for(s, "edges", EDGES, ECH_ROLE_INPUT);
        forward(s);
        if (!how->inference) {
            backward(s);
            optimizer(s);
        }
        if (how->made)
            (void)ech_test_put(b, ECH_OP_FREE, s->x);
        if (how->edges && how->made)
            (void)ech_test_put(b, ECH_OP_FREE, s->edges);
        if (how->twice)
            for (unsigned k = 0; k < 2; k++)
                (void)ech_test_put(b, k == 0 ? ECH_OP_ALLOC : ECH_OP_FREE, s->g);
    }
    if (how->views) {
        EchBuffer part = ech_buffer_init();
        part.memory = ech_trace_builder_memory(b, "hbm");
        part.alias_of = s->y;
        part.bytes = MB;
        (void)ech_trace_builder_buffer(b, part);
    }
    if (how->loop)
        ech_test_close_loop(b, loop);
    return ech_test_finish(b);
}

/* The @nth op named @name; NULL. */
static const EchOp *find(const EchTrace *t, const char *name, unsigned nth)
{
    for (size_t i = 0; i < ech_trace_n_ops(t); i++)
        if (strcmp(ech_trace_string(t, ech_trace_ops(t)[i].name), name) == 0 && nth-- == 0)
            return &ech_trace_ops(t)[i];
    return NULL;
}

static unsigned count(const EchTrace *t, const char *name)
{
    unsigned n = 0;
    while (find(t, name, n))
        n++;
    return n;
}

static EchBytes peak(const EchTrace *t, const EchDevice *device)
{
    g_autoptr(EchRun) run = ech_test_replay(t, device);
    return ech_test_peak(run, "hbm");
}

#define KEPT (2 * W) /* weights and their state */
/* While dy is made: x, y and dy; or while the gradient is: x, dy and that. */
#define AT_ONCE(rows) (KEPT + (X + 2ull * Y) * (rows) / ROWS)

static const struct {
    Made how;
    const char *spec, *says;
    EchBytes peak; /* 0: nothing changes */
} cases[] = {
    {{0}, "batch:times=0.5", "a batch of 4 for 8", AT_ONCE(4)},
    {{0}, "batch:times=2", "a batch of 16 for 8", AT_ONCE(16)},
    {{0}, "batch:rows=3", "a batch of 3 for 8", AT_ONCE(3)},
    {{.made = true}, "batch:rows=2", "a batch of 2 for 8", AT_ONCE(2)},
    {{.steps = 2}, "batch:rows=2", "a batch of 2 for 8", AT_ONCE(2)},
    {{.no_rows = true}, "batch:times=0.25", "a batch of 0.25 of what it was", AT_ONCE(2)},
    {{.inference = true, .kept_output = true}, "batch:rows=16", "a batch of 16 for 8", KEPT + (X + Y) * 2ull + TABLE + 2ull * ROWS *TABLE},
    /* x is there whole; from the second part on a gradient is. */
    {{0}, "batch:parts=2", "in 2 parts, 4 each", KEPT + X + Y + W},
    {{0}, "batch:parts=8", "in 8 parts, 1 each, one after the other, whose gradients are added up: 56 MiB in all", KEPT + X + 2 * W + Y / 8},
    {{.made = true}, "batch:parts=2", "in 2 parts, 4 each", KEPT + X / 2 + Y + W},
    {{.steps = 2}, "batch:rows=16,parts=4", "in 4 parts, 4 each", KEPT + 2 * X + Y + W},
    /* y stays while the gradient is made. */
    {{.kept_output = true, .steps = 2}, "batch:parts=2", "in 2 parts, 4 each", KEPT + X + Y + 2 * W},
    {{.sums = IN_BUCKETS}, "batch:parts=2", "in 2 parts, 4 each", KEPT + W + X + Y + W},
    {{.sums = AS_VIEWS}, "batch:parts=2", "in 2 parts, 4 each", KEPT + W + X + Y + W},
    {{0}, "batch", "", 0},
    {{0}, "batch:times=0.3", "its batch of 8 would be 2.4", 0},
    {{0}, "batch:parts=3", "its batch of 8 would be 2.66667", 0},
    {{.untold = true, .no_rows = true}, "batch:times=2", "it does not tell what its modules are given", 0},
    {{.no_rows = true}, "batch:rows=2", "how many rows its batch has is not known", 0},
    {{.inference = true, .kept_output = true}, "batch:parts=2", "it has no backward pass", 0},
    {{.edges = true, .steps = 2}, "batch:parts=2", "its rows are nodes of one graph", 0},
    {{.edges = true, .made = true, .steps = 2}, "batch:parts=2", "in 2 parts, 4 each", KEPT + X / 2 + EDGES / 2 + Y + W}, /* other graphs each time */
    {{.dense = true}, "batch:parts=2", "its rows are nodes of one graph, and parts", 0},
    {{.dense = true}, "batch:rows=4", "its rows are nodes of one graph, whose edges", 0},
    {{.pairs = true}, "batch:parts=2", "all of its rows are compared with all", 0},
    {{.pairs = true}, "batch:rows=4", "all of its rows are compared with all", 0},
    {{.hooked = true}, "batch:parts=2", "step within the backward pass", 0},
    {{.views = true}, "batch:parts=2", "go by other names", 0},
    {{.twice = true}, "batch:parts=2", "asks for an array more than once", 0},
    {{.loop = true}, "batch:times=2", "it has loops", 0},
};

START_TEST(rows)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {cases[_i].spec, NULL};
    g_autoptr(EchTrace) in = steps(&cases[_i].how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_msg(!*cases[_i].says || ech_test_says(diag, cases[_i].says), "%s", cases[_i].says);
    ck_assert_int_eq(out != in, cases[_i].peak > 0);
    if (out != in)
        ck_assert_uint_eq(peak(out, device), cases[_i].peak);
}
END_TEST

/* Any whole number of rows is one, whatever ratio it is of those that there are. */
START_TEST(whole_numbers)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTrace) in = steps(&(const Made){.inference = true, .kept_output = true, .rows = 50});
    for (unsigned n = 1; n < 200; n++) {
        g_autofree char *spec = g_strdup_printf("batch:rows=%u", n);
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){spec, NULL});
        ck_assert_msg((out != in) == (n != 50), "%s", spec);
    }
}
END_TEST

/* Launches say as many rows, each kind of kernel where it has them; what has none stays. */
START_TEST(launches)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {"batch:rows=2", NULL};
    const Made how = {0};
    g_autoptr(EchTrace) in = steps(&how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    static const struct {
        const char *name, *launch;
        unsigned nth;
    } now[] = {
        {"arange", "grid=256x1x1 block=128x1x1 elements=262144 operand_bytes=4", 0},
        {"cublasGemmEx", "product=1x2048x2048x1024 turned=2097152 operand_bytes=4 class=product operators=3", 0},
        {"add", "grid=16384x1x1 block=128x1x1 elements=4194304 operand_bytes=4", 0},
        {"cublasGemmEx", "product=1x1024x2048x2048 turned=6291456 operand_bytes=4 class=product", 1},
        {"step", "grid=1x1x1 block=512x1x1 elements=2097152 operand_bytes=4", 0},
    };
    for (size_t k = 0; k < G_N_ELEMENTS(now); k++)
        ck_assert_str_eq(ech_trace_string(out, find(out, now[k].name, now[k].nth)->launch), now[k].launch);
    const EchOp *product = find(out, "cublasGemmEx", 0);
    const EchUse *uses = &ech_trace_uses(out)[product->first_use];
    ck_assert_uint_eq(uses[0].bytes, X / 4);
    ck_assert_uint_eq(uses[1].bytes, W);
    ck_assert_uint_eq(uses[2].bytes, Y / 4);
    ck_assert_uint_eq(ech_trace_work(out)[product->first_work].count, 2ull * N * 1024 * 2048 / 4);
    ck_assert_str_eq(ech_trace_get_property(out, ECH_TRACE_BATCH), "2");
}
END_TEST

/* A gradient of filters sums over rows, wherever a library puts it first. */
START_TEST(filters)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {"batch:rows=2", NULL};
    g_autoptr(EchTrace) in = steps(&(const Made){.filters = true});
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_str_eq(ech_trace_string(out, find(out, "cudnn convolution: gradient of the filters", 0)->launch),
                     "product=1x1024x2048x2048 turned=6291456 operand_bytes=4 class=product");
}
END_TEST

/* Gradients are added up once a part, but for the first; sums over devices and copies into buckets belong to the last. */
START_TEST(sums)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    const Made how = {.sums = (Sums)_i, .steps = 2};
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {"batch:parts=4", NULL};
    g_autoptr(EchTrace) in = steps(&how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    static const char adds[] = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>, false>(int, "
                               "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)";
    ck_assert_uint_eq(count(out, adds), 2 * 3);
    ck_assert_uint_eq(count(out, "loss"), 2 * 4);
    ck_assert_uint_eq(count(out, "step"), 2);
    ck_assert_uint_eq(count(out, "sum"), _i == ALONE ? 0 : 2);
    ck_assert_uint_eq(count(out, "hook"), _i == ALONE ? 0 : 2);
    ck_assert_str_eq(ech_trace_get_property(out, ECH_TRACE_BATCH), "2");
    for (unsigned part = 0; part < 4 && _i != ALONE; part++) { /* each is a meeting of its own */
        g_autofree char *meets = g_strdup_printf("devices=4 stride=1 meets=9f/%u", 7 * 4 + part);
        ck_assert_str_eq(ech_trace_string(out, find(out, "sent", part)->launch), meets);
    }
    if (_i != ALONE)
        ck_assert_str_eq(ech_trace_string(out, find(out, "sum", 0)->launch), "devices=4 stride=1 meets=4be1/48");
}
END_TEST

/* A loss in parts: its arrays have a part of the rows, what it is made of and what comes of it all. */
START_TEST(losses)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const Made how = {.classes = true, .steps = 2, .rows = 1};
    g_autoptr(EchTrace) in = steps(&how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"batch:what=loss,parts=8", NULL});
    ck_assert(ech_test_says(diag, "the loss in 8 parts, one after the other, each with its gradients: products add to 112 MiB of those"));
    ck_assert_uint_eq(peak(in, device), KEPT + X + 4ull * Y);
    ck_assert_uint_eq(peak(out, device), KEPT + X + 8ull * TABLE + W + 4ull * Y / 8); /* a mask is read in all parts, the gradient there from the first on */
    ck_assert_uint_eq(count(out, "softmax"), 2 * 8);
    ck_assert_uint_eq(count(out, "repeat"), 2);
    ck_assert_uint_eq(count(out, "step"), 2);
    ck_assert_str_eq(ech_trace_string(out, find(out, "softmax", 0)->launch), "rows=1024x0 operand_bytes=4 columns=2048");
    ck_assert_str_eq(ech_trace_get_property(out, ECH_TRACE_BATCH), "1");
    g_autoptr(EchTrace) liger = ech_test_pass(in, device, diag, (const char *const[]){"batch:what=loss", NULL}); /* 2,048 classes of 1,024: halves */
    ck_assert_uint_eq(count(liger, "softmax"), 2 * 2);
    static const struct {
        Made how;
        const char *spec, *says;
    } none[] = {{{0}, "batch:what=loss,parts=8", "it has no loss over classes"},
                {{.classes = true}, "batch:what=loss,times=2", "one of the batch that there is"}};
    for (size_t k = 0; k < G_N_ELEMENTS(none); k++) {
        g_autoptr(EchTrace) whole = steps(&none[k].how);
        g_autoptr(EchTrace) same = ech_test_pass(whole, device, diag, (const char *const[]){none[k].spec, NULL});
        ck_assert(same == whole && ech_test_says(diag, none[k].says));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *tc = tcase_create("batch");
    tcase_add_loop_test(tc, rows, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tc, whole_numbers);
    tcase_add_test(tc, launches);
    tcase_add_test(tc, filters);
    tcase_add_test(tc, losses);
    tcase_add_loop_test(tc, sums, ALONE, AS_VIEWS + 1);
    suite_add_tcase(suite, tc);
    return ech_test_main(suite);
}
