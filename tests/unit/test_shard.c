/* Which arguments devices hold alike, by what becomes of them; and the shard pass, which splits those over the devices. Programs and traces made by hand. */
#include "models/device/device_yaml.h"
#include "sim/program/private.h"
#include "tests/support/made.h"

#include <check.h>
#include <math.h>

/* A step of two arrays, weights and their moment, on four devices: @h is a product of data and weights, and @s, which is to be made of it, brings both up to
 * date. */
#define STEP(alias, text)                                                                                                                                      \
    "HloModule m, is_scheduled=true, num_partitions=4" alias "\n\n"                                                                                            \
    "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n" text
#define DONATED ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
#define BEGIN                                                                                                                                                  \
    "ENTRY e {\n  w = f32[64,64]{1,0} parameter(0)\n  m = f32[64,64]{1,0} parameter(1)\n  x = f32[64,64]{1,0} parameter(2)\n  rate = f32[] parameter(3)\n"     \
    "  h = f32[64,64]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
#define END                                                                                                                                                    \
    "  slow = f32[64,64]{1,0} broadcast(rate), dimensions={}\n  step = f32[64,64]{1,0} multiply(s, slow)\n  m2 = f32[64,64]{1,0} add(m, step)\n"               \
    "  w2 = f32[64,64]{1,0} subtract(w, m2)\n  ROOT r = (f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(w2, m2)\n}\n"
#define SUM(groups) "  s = f32[64,64]{1,0} all-reduce(h), replica_groups=" groups ", to_apply=add\n"
#define SCATTERED                                                                                                                                              \
    "scattered {\n  p = f32[64,64]{1,0} parameter(0)\n  all = f32[64,64]{1,0} all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=add\n"                       \
    "  i = s32[] constant(0)\n  part = f32[16,64]{1,0} dynamic-slice(all, i, i), dynamic_slice_sizes={16,64}\n"                                                \
    "  ROOT again = f32[64,64]{1,0} broadcast(part), dimensions={0,1}\n}\n\n"
#define LOOP(inside, after)                                                                                                                                    \
    "more {\n  c = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) parameter(0)\n  n = s32[] get-tuple-element(c), index=0\n"                                        \
    "  sum = f32[64,64]{1,0} get-tuple-element(c), index=1\n  g = f32[64,64]{1,0} get-tuple-element(c), index=2\n  one = s32[] constant(1)\n"                  \
    "  next = s32[] add(n, one)\n" inside "  plus = f32[64,64]{1,0} add(sum, part)\n"                                                                          \
    "  ROOT t = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(next, plus, g)\n}\n\n"                                                                         \
    "goes_on {\n  c = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) parameter(0)\n  n = s32[] get-tuple-element(c), index=0\n  three = s32[] constant(3)\n"        \
    "  ROOT less = pred[] compare(n, three), direction=LT\n}\n\n" BEGIN                                                                                        \
    "  zero = s32[] constant(0)\n  zeros = f32[64,64]{1,0} broadcast(zero), dimensions={}\n"                                                                   \
    "  from = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(zero, zeros, h)\n"                                                                               \
    "  loop = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) while(from), condition=goes_on, body=more\n"                                                           \
    "  summed = f32[64,64]{1,0} get-tuple-element(loop), index=1\n" after END

static const struct {
    const char *text;
    uint32_t weights, moment; /* on how many devices they are alike; 0: on none */
} steps[] = {
    {STEP(DONATED, BEGIN SUM("{{0,1,2,3}}") END), 4, 4},
    {STEP(DONATED, BEGIN SUM("{}") END), 4, 4},
    {STEP(DONATED, BEGIN SUM("[2,2]<=[4]") END), 2, 2},
    {STEP(DONATED, BEGIN SUM("{{0,2},{1,3}}") END), 2, 2},
    {STEP(DONATED, BEGIN "  b = f32[64,64]{1,0} all-reduce-start(h), replica_groups={{0,1,2,3}}, to_apply=add\n  s = f32[64,64]{1,0} all-reduce-done(b)\n" END),
     4, 4},
    /* Not summed; added to data; what other devices have; the device's number; each device another part of the sum. */
    {STEP(DONATED, BEGIN "  s = f32[64,64]{1,0} negate(h)\n" END), 0, 0},
    {STEP(DONATED, BEGIN "  t = f32[64,64]{1,0} all-reduce(h), replica_groups={}, to_apply=add\n  s = f32[64,64]{1,0} add(t, x)\n" END), 0, 0},
    {STEP(DONATED, BEGIN "  t = f32[64,64]{1,0} all-reduce(h), replica_groups={}, to_apply=add\n"
                         "  s = f32[64,64]{1,0} collective-permute(t), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n" END),
     0, 0},
    {STEP(DONATED, BEGIN "  t = f32[64,64]{1,0} all-reduce(h), replica_groups={}, to_apply=add\n  me = u32[] partition-id()\n"
                         "  mine = f32[] convert(me)\n  wide = f32[64,64]{1,0} broadcast(mine), dimensions={}\n  s = f32[64,64]{1,0} add(t, wide)\n" END),
     0, 0},
    {STEP(DONATED, SCATTERED BEGIN "  s = f32[64,64]{1,0} fusion(h), kind=kCustom, calls=scattered\n" END), 0, 0},
    /* Matrices that are split, whose results are summed up: what would be alike is not worth a sum. */
    {STEP(DONATED, BEGIN "  y = f32[64,64]{1,0} dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                         "  s = f32[64,64]{1,0} all-reduce(y), replica_groups={{0,1,2,3}}, to_apply=add\n" END),
     0, 0},
    /* Not donated: what becomes of it is not known. One of the two. */
    {STEP("", BEGIN SUM("{}") END), 0, 0},
    {STEP(", input_output_alias={ {1}: (1, {}, may-alias) }", BEGIN SUM("{}") END), 0, 4},
    /* Sums over the devices of each iteration, or of the sum of all; and of what a loop adds up by itself. */
    {STEP(DONATED, LOOP("  part = f32[64,64]{1,0} all-reduce(g), replica_groups={}, to_apply=add\n", "  s = f32[64,64]{1,0} negate(summed)\n")), 4, 4},
    {STEP(DONATED, LOOP("  part = f32[64,64]{1,0} negate(g)\n", "  s = f32[64,64]{1,0} all-reduce(summed), replica_groups={}, to_apply=add\n")), 4, 4},
    {STEP(DONATED, LOOP("  part = f32[64,64]{1,0} negate(g)\n", "  s = f32[64,64]{1,0} negate(summed)\n")), 0, 0},
};

static uint32_t replicas_of(const EchProgram *p, const uint32_t *replicas, const char *argument)
{
    return replicas[p->positions[p->instructions[ech_test_instruction(p, argument)].first_position]];
}

START_TEST(alike)
{
    g_autoptr(EchProgram) p = ech_test_program(steps[_i].text, NULL);
    g_autofree uint32_t *replicas = ech_program_replicas(p);
    ck_assert_uint_eq(replicas_of(p, replicas, "w"), steps[_i].weights);
    ck_assert_uint_eq(replicas_of(p, replicas, "m"), steps[_i].moment);
    ck_assert_uint_eq(replicas_of(p, replicas, "x"), 0);
}
END_TEST

/* A gigabyte takes 10 ms through the memory; eight devices on a switch. */
static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 80GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n  vector: {kind: vector, space: 1, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  matrix: {peaks: {bf16: 100TFLOP/s}}\n  vector: {peaks: {f32: 10TFLOP/s}}\n";
static const EchBytes large = 4096000000; /* a part of eight is a multiple of 512 */

typedef struct {
    EchDtype multiplied; /* what the product's operands are turned into */
    uint32_t replicas;
    bool read_later, updates_by_products, named_twice, on_chip, fetched, clipped, handed_back; /* on_chip: the moment is read there; fetched: the sum */
} Made;

static EchId argument(EchTraceBuilder *b, const char *name, uint32_t replicas)
{
    EchId id = ech_test_buffer(b, name, large, ECH_ROLE_PARAMETER, true);
    ech_trace_builder_peek_buffer(b, id)->replicas = replicas;
    ech_trace_builder_peek_buffer(b, id)->dtype = ECH_DTYPE_F32;
    return id;
}

static void all_of(EchTraceBuilder *b, EchId buffer, EchAccess access)
{
    ech_trace_builder_use(b, buffer, access, large, ECH_PATTERN_STREAM, ECH_KNOWN);
}

static EchTrace *step(const Made *how)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId links = ech_trace_builder_queue(b, "collectives", ECH_QUEUE_COLLECTIVE, 0), copies = ech_trace_builder_queue(b, "dma", ECH_QUEUE_COPY, 0);
    EchId w = argument(b, "w", how->replicas), m = argument(b, "m", how->replicas), g = ech_test_buffer(b, "g", large, ECH_ROLE_GRADIENT, false);
    EchId chip = ECH_NONE;
    if (how->named_twice) {
        EchBuffer part = ech_buffer_init();
        part.memory = ech_trace_builder_memory(b, "hbm");
        part.name = ech_trace_builder_string(b, "part", -1);
        part.bytes = large;
        part.alias_of = m;
        (void)ech_trace_builder_buffer(b, part);
    }
    if (how->on_chip || how->fetched) {
        chip = ech_test_buffer(b, "chip", large, ECH_ROLE_TEMPORARY, false);
        ech_trace_builder_peek_buffer(b, chip)->memory = ech_trace_builder_memory(b, "vector");
        ech_trace_builder_peek_buffer(b, chip)->offset = 0;
    }
    ech_test_kernel(b, 0, w, ECH_READ, large); /* forward and backward */
    ech_trace_builder_work(b, ECH_WORK_MATRIX, how->multiplied, 1000000000, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_ALLOC, g);
    ech_test_kernel(b, 0, g, ECH_WRITE, large);
    EchOp sum = ech_op_init(ECH_OP_COLLECTIVE);
    sum.collective = ECH_COLLECTIVE_ALL_REDUCE;
    sum.name = ech_trace_builder_string(b, "sum", -1);
    sum.queue = links;
    sum.memory_from = 8;
    sum.launch = ech_trace_builder_string(b, "devices=8 stride=1", -1);
    sum.bytes = large;
    EchId summed = ech_trace_builder_op(b, sum);
    all_of(b, g, ECH_READ);
    all_of(b, g, ECH_WRITE);
    ech_trace_builder_dep(b, summed - 1, 0);
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = 0;
    wait.name = ech_trace_builder_string(b, "wait", -1);
    (void)ech_trace_builder_op(b, wait);
    ech_trace_builder_dep(b, summed, 0);
    if (how->clipped) /* the length of all gradients */
        ech_test_kernel(b, 0, g, ECH_READ, large);
    if (how->handed_back) { /* all gradients to the caller */
        ech_test_kernel(b, 0, g, ECH_READ, large);
        all_of(b, ech_test_buffer(b, "result", large, ECH_ROLE_OUTPUT, true), ECH_WRITE);
    }
    if (how->on_chip || how->fetched) {
        (void)ech_test_put(b, ECH_OP_ALLOC, chip);
        EchOp fetch = ech_op_init(ECH_OP_COPY);
        fetch.name = ech_trace_builder_string(b, "fetch", -1);
        fetch.queue = copies;
        fetch.memory_from = ech_trace_builder_memory(b, "hbm");
        fetch.memory_to = ech_trace_builder_memory(b, "vector");
        fetch.bytes = large;
        EchId fetched = ech_trace_builder_op(b, fetch);
        all_of(b, how->on_chip ? m : g, ECH_READ);
        all_of(b, chip, ECH_WRITE);
        (void)ech_trace_builder_op(b, wait);
        ech_trace_builder_dep(b, fetched, 0);
    }
    (void)ech_test_put(b, ECH_OP_KERNEL, ECH_NONE); /* the update */
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->name = ech_trace_builder_string(b, "update", -1);
    all_of(b, how->on_chip ? chip : m, ECH_READ);
    all_of(b, w, ECH_READ);
    all_of(b, how->fetched ? chip : g, ECH_READ);
    all_of(b, w, ECH_WRITE);
    all_of(b, m, ECH_WRITE);
    ech_trace_builder_work(b, how->updates_by_products ? ECH_WORK_MATRIX : ECH_WORK_VECTOR, ECH_DTYPE_F32, 8000000000, ECH_KNOWN);
    if (how->on_chip || how->fetched)
        (void)ech_test_put(b, ECH_OP_FREE, chip);
    (void)ech_test_put(b, ECH_OP_FREE, g);
    if (how->read_later)
        ech_test_kernel(b, 0, m, ECH_READ, large);
    return ech_test_finish(b);
}

static EchBytes moved(const EchTrace *t, const EchOp *op, const char *buffer, EchAccess access)
{
    EchBytes bytes = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(t)[u];
        if (use->access == access && strcmp(ech_trace_string(t, ech_trace_buffers(t)[use->buffer].name), buffer) == 0)
            bytes += use->bytes;
    }
    return bytes;
}

static const struct {
    Made how;
    const char *spec, *says;
    EchBytes weights, moment; /* on each device then; 0: nothing changes */
    EchBytes gathered;        /* in all */
    bool scatters;
} splits[] = {
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8},
     "shard",
     "2 arrays (7.63 GiB, 1 of them weights), alike on each of 8 devices",
     512000000,
     512000000,
     2048000000,
     true},
    {{.multiplied = ECH_DTYPE_F32, .replicas = 8}, "shard", "3.81 GiB are gathered when the step begins", 512000000, 512000000, 4096000000, true},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8}, "shard:weights=false", "3.81 GiB are gathered then", 4096000000, 512000000, 4096000000, true},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8, .on_chip = true}, "shard", "1 kernel updates a part each", 512000000, 512000000, 2048000000, true},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8, .fetched = true}, "shard", "1 of the reductions", 512000000, 512000000, 2048000000, true},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8, .clipped = true}, "shard", "1 kernel updates a part each", 512000000, 512000000, 2048000000, true},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8, .handed_back = true}, "shard", "0 of the reductions", 512000000, 512000000, 2048000000, false},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8}, "shard:names=m*", "2 arrays", 512000000, 512000000, 2048000000, true},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8}, "shard:names=v*", "no array is called 'v*'", 0, 0, 0, false},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8}, "shard:above=5GB", "used by more than its update, or is small", 0, 0, 0, false},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 0}, "shard", "no argument is known to be the same", 0, 0, 0, false},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8, .read_later = true}, "shard", "used by more than its update", 0, 0, 0, false},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8, .updates_by_products = true}, "shard", "used by more than its update", 0, 0, 0, false},
    {{.multiplied = ECH_DTYPE_BF16, .replicas = 8, .named_twice = true}, "shard", "used by more than its update", 0, 0, 0, false},
};

START_TEST(split)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {splits[_i].spec, NULL};
    g_autoptr(EchTrace) in = step(&splits[_i].how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_msg(ech_test_says(diag, splits[_i].says), "%s", splits[_i].says);
    ck_assert_int_eq(out != in, splits[_i].moment > 0);
    if (out == in)
        return;
    ck_assert_uint_eq(ech_test_find_buffer(out, "w")->bytes, splits[_i].weights);
    ck_assert_uint_eq(ech_test_find_buffer(out, "m")->bytes, splits[_i].moment);
    const EchOp *update = ech_test_op(out, ECH_OP_KERNEL, "update"), *sum = ech_test_op(out, ECH_OP_COLLECTIVE, "sum"),
                *gather = ech_test_op(out, ECH_OP_COLLECTIVE, "w");
    ck_assert_uint_eq(moved(out, update, "w", ECH_WRITE), large / 8);
    ck_assert_uint_eq(moved(out, update, splits[_i].how.fetched ? "chip" : "g", ECH_READ), large / 8);
    ck_assert_uint_eq(moved(out, update, splits[_i].how.on_chip ? "chip" : "m", ECH_READ), large / 8);
    ck_assert_uint_eq(ech_trace_work(out)[update->first_work].count, 1000000000);
    ck_assert_int_eq(sum->collective, splits[_i].scatters ? ECH_COLLECTIVE_REDUCE_SCATTER : ECH_COLLECTIVE_ALL_REDUCE);
    ck_assert_uint_eq(sum->bytes, large);
    ck_assert_uint_eq(moved(out, sum, "g", ECH_WRITE), splits[_i].scatters ? large / 8 : large);
    ck_assert_int_eq(gather->collective, ECH_COLLECTIVE_ALL_GATHER);
    ck_assert_uint_eq(gather->memory_from, 8);
    ck_assert_uint_eq(gather->bytes, splits[_i].gathered / 8);
    ck_assert_int_eq(gather < update, splits[_i].weights < large); /* when the step begins, or after it */
    if (splits[_i].how.on_chip || splits[_i].how.fetched)
        ck_assert_uint_eq(ech_test_op(out, ECH_OP_COPY, "fetch")->bytes, large / 8);
    /* What multiplies reads what was gathered, once it is there. */
    const EchOp *forward = ech_test_op(out, ECH_OP_KERNEL, NULL);
    ck_assert_uint_eq(moved(out, forward, "w", ECH_READ), splits[_i].weights < large ? splits[_i].gathered : large);
    bool waits = false;
    for (uint32_t k = 0; k < forward->n_deps; k++)
        waits |= &ech_trace_ops(out)[ech_trace_deps(out)[forward->first_dep + k].op] == gather;
    ck_assert_int_eq(waits, splits[_i].weights < large);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    EchBytes whole = splits[_i].weights < large ? splits[_i].gathered : 0; /* let go before there is a gradient */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), splits[_i].weights + splits[_i].moment + MAX(large, whole) + (splits[_i].how.handed_back ? large : 0));
}
END_TEST

/* A step whose batch alone is split, and what compilers make of the same with weights and moments in parts (libtpu keeps more activations then). */
static const struct {
    const char *chip, *device;
    double least, most; /* memory told over compiled */
    double off;         /* time, at most */
} compiled[] = {{"h100", "h100-sxm", .99, 1.01, .05}, {"v5e", "tpu-v5e", .7, 1, .1}};

START_TEST(as_compiled)
{
    g_autofree char *whole = g_strdup_printf(ECH_SOURCE_DIR "/traces/data_parallel_whole.%s", compiled[_i].chip);
    g_autofree char *parts = g_strdup_printf(ECH_SOURCE_DIR "/traces/data_parallel_parts.%s", compiled[_i].chip);
    const char *passes[] = {"shard", NULL};
    const EchExperimentOverrides told = {.trace = whole, .device = compiled[_i].device, .engine = "native", .passes = passes},
                                 made = {.trace = parts, .device = compiled[_i].device, .engine = "native"};
    g_autoptr(EchResult) predicted = ech_test_run(&told);
    g_autoptr(EchResult) is = ech_test_run(&made);
    double memory = (double)ech_test_peak(predicted->run, "hbm") / (double)ech_test_peak(is->run, "hbm"),
           time = (double)predicted->run->makespan / (double)is->run->makespan;
    ck_assert_msg(memory >= compiled[_i].least && memory <= compiled[_i].most, "%g", memory);
    ck_assert_msg(fabs(time - 1) <= compiled[_i].off, "%g", time);
    size_t known = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(is->trace); b++)
        known += ech_trace_buffers(is->trace)[b].replicas > 1;
    ck_assert_uint_eq(known, 0); /* parts are not alike */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard");
    TCase *tcase = tcase_create("shard");
    tcase_add_loop_test(tcase, alike, 0, G_N_ELEMENTS(steps));
    tcase_add_loop_test(tcase, split, 0, G_N_ELEMENTS(splits));
    tcase_add_loop_test(tcase, as_compiled, 0, G_N_ELEMENTS(compiled));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
