/* Where nothing computes while a transfer is waited for, against times counted by hand. */
#include "sim/report/transfer_waits.h"

#include "sim/base/file.h"
#include "tests/support/support.h"

#include <string.h>

/* A byte takes a nanosecond on the link, an operation as long. */
static const char device_text[] = "name: test\nsummary: a device for tests\nfamily: other\n"
                                  "units: {matrix: {peaks: {bf16: 1GFLOP/s}}}\nruntime: {eager_launch_ps: 100ns}\n"
                                  "memories:\n  hbm: {kind: hbm, space: 0, granule: 1, capacity: 1GB, read: 1000TB/s, write: 1000TB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 1GB, read: 1000TB/s, write: 1000TB/s}\n"
                                  "links: {host: {from: host, to: hbm, to_device: 1GB/s, from_device: 1GB/s}}\n";

typedef struct {
    EchTrace *trace;
    EchDevice *device;
    EchRun *run;
    EchReport report;
    EchTransferWaits *waits;
} Case;

static Case case_with(const char *property, const char *queues, const char *ops, uint64_t skip)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text =
        g_strdup_printf("echelon-trace 1 \"by hand\"\n%sstrings 0\nmemories 2\n\"hbm\"\n\"host\"\n%sbuffers 3\n"
                        "b \"there\" m=1 bytes=3000 resident=1\nb \"first\" m=0 bytes=1000 resident=1\nb \"second\" m=0 bytes=1000 resident=1\n%s",
                        property, queues, ops);
    g_autoptr(EchImport) import = ech_test_text(text, &error);
    ck_assert_ok(import != NULL, error);
    Case c = {.trace = ech_trace_ref(import->trace), .device = ech_test_device_yaml(device_text)};
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    options.skip_steady = skip;
    c.run = ech_replay_run(c.trace, c.device, NULL, &options, &error);
    ck_assert_ok(c.run != NULL, error);
    c.report = (EchReport){.title = "waits", .trace = c.trace, .device = c.device, .run = c.run};
    c.waits = ech_transfer_waits_new(&c.report);
    EchTime sum = 0;
    for (size_t i = 0; i < c.waits->n; i++)
        sum += c.waits->waits[i].time;
    ck_assert_int_eq(sum, c.waits->total);
    return c;
}

static Case case_of(const char *queues, const char *ops, uint64_t skip)
{
    return case_with("", queues, ops, skip);
}

static void case_clear(Case *c)
{
    ech_transfer_waits_free(c->waits);
    ech_run_free(c->run);
    ech_device_free(c->device);
    ech_trace_unref(c->trace);
}

static const EchTransferWait *wait_for(const Case *c, const char *transfer)
{
    for (size_t i = 0; i < c->waits->n; i++)
        if (strcmp(ech_trace_string(c->trace, ech_trace_ops(c->trace)[c->waits->waits[i].transfer].name), transfer) == 0)
            return &c->waits->waits[i];
    return NULL;
}

static void expect(const Case *c, const char *transfer, const char *waiter, EchTime time, EchTime ahead, EchTime behind, EchTime took)
{
    const EchTransferWait *wait = wait_for(c, transfer);
    ck_assert_ptr_nonnull(wait);
    ck_assert_str_eq(wait->waiter == ECH_NONE ? "" : ech_trace_string(c->trace, ech_trace_ops(c->trace)[wait->waiter].name), waiter);
    ck_assert_int_eq(wait->time, time * ECH_PS_PER_NS);
    ck_assert_int_eq(wait->ahead, ahead * ECH_PS_PER_NS);
    ck_assert_int_eq(wait->behind, behind * ECH_PS_PER_NS);
    ck_assert_int_eq(wait->took, took * ECH_PS_PER_NS);
}

static const char two_queues[] = "queues 2\ncompute 0 \"core\"\ncopy 0 \"dma\"\n";

/* 0 to 500 "warm", to 1000 waits for "a", to 1200 "one", to 2000 waits for "b" that stood behind it, to 2100 "two", a copy of 300, "three" to 2500; then "c"
 * goes back, which nothing needs. */
START_TEST(by_hand)
{
    Case c = case_of(two_queues,
                     "ops 10\ncopy \"a\" q=1 from=1 to=0 bytes=1000 r=0:1000 w=1:1000\ncopy \"b\" q=1 from=1 to=0 bytes=1000 r=0:1000 w=2:1000\n"
                     "kernel \"warm\" q=0 work=matrix:bf16:500\nwait \"a-done\" q=0 after=-3\nkernel \"other\" q=0 work=matrix:bf16:0\n"
                     "kernel \"one\" q=0 r=1:1000 work=matrix:bf16:200\nkernel \"two\" q=0 r=2:1000 work=matrix:bf16:100 after=-5\n"
                     "copy \"own\" q=0 from=1 to=0 bytes=300 r=0:300 w=1:300\nkernel \"three\" q=0 r=1:300 work=matrix:bf16:100\n"
                     "copy \"c\" q=1 from=0 to=1 bytes=200 r=2:200 w=0:200 after=-1\n",
                     1);
    ck_assert_int_eq(c.run->makespan, 2700 * ECH_PS_PER_NS);
    expect(&c, "a", "one", 500, 500, 0, 1000);
    expect(&c, "b", "two", 800, 1200, 1000, 1000);
    expect(&c, "own", "three", 300, 0, 0, 300);
    ck_assert(wait_for(&c, "own")->own_queue);
    ck_assert_ptr_null(wait_for(&c, "c"));
    ck_assert_int_eq(c.waits->total, 1600 * ECH_PS_PER_NS);
    /* The link carries 2300 to the device; 1100 are not waits for copies. */
    ck_assert_int_eq(c.run->lower_bound, 2300 * ECH_PS_PER_NS);
    ck_assert_int_eq(c.waits->least, 1200 * ECH_PS_PER_NS);
    case_clear(&c);
}
END_TEST

/* Two queues of kernels wait for one copy: the time counts once, and not while a third one's kernel runs; by way of an event as well. */
START_TEST(no_time_twice)
{
    Case c = case_of("queues 4\ncompute 0 \"one\"\ncompute 0 \"two\"\ncompute 0 \"three\"\ncopy 0 \"dma\"\n",
                     "ops 6\ncopy \"a\" q=3 from=1 to=0 bytes=1000 r=0:1000 w=1:1000\nsignal \"event\" q=3 target=0\nkernel \"busy\" q=2 work=matrix:bf16:300\n"
                     "kernel \"x\" q=0 r=1:1000 work=matrix:bf16:100 after=-2\nkernel \"y\" q=1 r=1:1000 work=matrix:bf16:100 after=-4\n"
                     "kernel \"z\" q=2 work=matrix:bf16:100\n",
                     1);
    /* "z" follows "busy" at once, so that 400 of the 1000 are computed. */
    ck_assert_int_eq(c.waits->total, 600 * ECH_PS_PER_NS);
    case_clear(&c);
}
END_TEST

/* A loop that fetches for each iteration, whether its steady state is skipped or not: 1000 times 600 but for what lies before the first. */
START_TEST(loops_count_whole)
{
    for (uint64_t skip = 0; skip < 2; skip++) {
        Case c = case_of(two_queues,
                         "ops 3\nloop \"layers\" q=0 target=2 bytes=1000\ncopy \"fetch\" q=1 from=1 to=0 bytes=1000 r=0:1000 w=1:1000 after=1@1\n"
                         "kernel \"product\" q=0 r=1:1000 work=matrix:bf16:400 after=-1\n",
                         skip);
        const EchTransferWait *wait = wait_for(&c, "fetch");
        ck_assert_ptr_nonnull(wait);
        ck_assert_uint_eq(wait->count, 1000);
        ck_assert_int_eq(c.waits->total, c.run->makespan - 1000 * 400 * ECH_PS_PER_NS);
        case_clear(&c);
    }
}
END_TEST

/* As a recording has them: an operation each time that something ran. Copies of as many bytes for kernels of one name are told as one, what explains them is
 * the longest's; another size, or another kernel, is another matter. */
START_TEST(alike_are_one)
{
    Case c = case_of(two_queues,
                     "ops 9\ncopy \"in\" q=0 from=1 to=0 bytes=300 r=0:300 w=1:300\nkernel \"layer\" q=0 r=1:300 work=matrix:bf16:100\n"
                     "copy \"in\" q=0 from=1 to=0 bytes=300 r=0:300 w=2:300\nkernel \"layer\" q=0 r=2:300 work=matrix:bf16:100\n"
                     "copy \"in\" q=0 from=1 to=0 bytes=300 r=0:300 w=1:300\nkernel \"head\" q=0 r=1:300 work=matrix:bf16:100\n"
                     "copy \"in\" q=0 from=1 to=0 bytes=700 r=0:700 w=2:700\nkernel \"layer\" q=0 r=2:700 work=matrix:bf16:100\n"
                     "copy \"in\" q=0 from=1 to=0 bytes=300 r=0:300 w=1:300\n",
                     1);
    static const struct {
        const char *waiter;
        EchTime time;
        uint64_t count;
    } expected[] = {{"layer", 700, 1}, {"layer", 600, 2}, {"head", 300, 1}};
    ck_assert_uint_ge(c.waits->n, G_N_ELEMENTS(expected));
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        const EchTransferWait *wait = &c.waits->waits[i];
        ck_assert_str_eq(ech_trace_string(c.trace, ech_trace_ops(c.trace)[wait->waiter].name), expected[i].waiter);
        ck_assert_int_eq(wait->time, expected[i].time * ECH_PS_PER_NS);
        ck_assert_uint_eq(wait->count, expected[i].count);
        ck_assert_int_eq(wait->took, (i == 0 ? 700 : 300) * ECH_PS_PER_NS);
    }
    case_clear(&c);
}
END_TEST

/* An unrolled program calls its layers' operations by number: few are told apart, of many those of a kind are one. */
START_TEST(numbered_are_one_where_there_are_many)
{
    for (unsigned n = 12; n <= 13; n++) {
        g_autoptr(GString) ops = g_string_new(NULL);
        g_string_append_printf(ops, "ops %u\n", 2 * n);
        for (unsigned i = 0; i < n; i++) {
            unsigned bytes = i == 3 ? 500 : 300;
            g_string_append_printf(ops, "copy \"in.%u\" q=0 from=1 to=0 bytes=%u r=0:%u w=1:%u\nkernel \"layer.%u\" q=0 r=1:%u work=matrix:bf16:100\n", i,
                                   bytes, bytes, bytes, 7 * i, bytes);
        }
        Case c = case_of(two_queues, ops->str, 1);
        const EchTransferWait *wait = &c.waits->waits[0];
        bool joined = n == 13;
        ck_assert_uint_eq(c.waits->n, joined ? 2 : n);
        ck_assert_int_eq(wait->time, (joined ? 12 * 300 : 500) * ECH_PS_PER_NS);
        ck_assert_uint_eq(wait->count, joined ? 12 : 1);
        ck_assert_uint_eq(wait->n_alike, joined ? 12 : 1);
        ck_assert_int_eq(wait->took, (joined ? 300 : 500) * ECH_PS_PER_NS);
        g_autoptr(GString) out = g_string_new(NULL);
        ech_report_append_transfer_waits(out, &c.report, 0);
        ck_assert_int_eq(strstr(out->str, "layer.* for in.* (300 B from host to hbm), 12 times") != NULL, joined);
        ck_assert_ptr_nonnull(strstr(out->str, "layer.21 for in.3 (500 B from host to hbm)"));
        case_clear(&c);
    }
}
END_TEST

/* A host that asks, each launch taking it 100, and runs an operator of its own at first: it asks for the copy at 400 and waits for it from then on. Until then
 * the device stands still for the host, not for the copy: neither does the host itself wait, nor a stream that has had nothing to do so far. */
START_TEST(host_that_asks_does_not_wait)
{
    Case c = case_with("property \"host_order\" \"1\"\n", "queues 4\nhost 0 \"host\"\ncompute 0 \"one\"\ncompute 0 \"two\"\ncopy 0 \"dma\"\n",
                       "ops 8\nkernel \"init\" q=0 work=matrix:bf16:0\nkernel \"x\" q=1 work=matrix:bf16:10\nkernel \"y\" q=1 work=matrix:bf16:10\n"
                       "kernel \"z\" q=1 work=matrix:bf16:10\ncopy \"a\" q=3 from=1 to=0 bytes=50 r=0:50 w=1:50 after=-1\nwait \"sync\" q=0 after=-1\n"
                       "kernel \"after\" q=0 work=matrix:bf16:0\nkernel \"late\" q=2 r=1:50 work=matrix:bf16:10 after=-3\n",
                       1);
    ck_assert_int_eq(c.run->makespan, 560 * ECH_PS_PER_NS);
    ck_assert_int_eq(c.waits->total, 50 * ECH_PS_PER_NS);
    case_clear(&c);
}
END_TEST

/* A host with nothing to run itself that waits for what it has asked for, as diffusers' group offloading does for a layer's weights: from 200 on, until the
 * bias behind them is there at 1020, nothing computes. What it waits for is the weights, for the layer that uses them. */
START_TEST(host_that_waits)
{
    Case c = case_with(
        "property \"host_order\" \"1\"\n", "queues 3\nhost 0 \"host\"\ncompute 0 \"one\"\ncopy 0 \"dma\"\n",
        "ops 6\nwait \"begin\" q=0\ncopy \"weights\" q=2 from=1 to=0 bytes=900 r=0:900 w=1:900 after=-1\ncopy \"bias\" q=2 from=1 to=0 bytes=20 r=0:20 w=2:20\n"
        "wait \"sync\" q=0 after=-1\nkernel \"other\" q=1 work=matrix:bf16:0 after=-1\nkernel \"layer\" q=1 r=1:900 r=2:20 work=matrix:bf16:10\n",
        1);
    expect(&c, "weights", "layer", 820, 100, 0, 900);
    ck_assert_int_eq(wait_for(&c, "weights")->after, 20 * ECH_PS_PER_NS);
    ck_assert_int_eq(c.waits->total, 820 * ECH_PS_PER_NS);
    case_clear(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transfer_waits");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, by_hand);
    tcase_add_test(tcase, no_time_twice);
    tcase_add_test(tcase, loops_count_whole);
    tcase_add_test(tcase, alike_are_one);
    tcase_add_test(tcase, numbered_are_one_where_there_are_many);
    tcase_add_test(tcase, host_that_asks_does_not_wait);
    tcase_add_test(tcase, host_that_waits);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
