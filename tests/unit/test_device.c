/* Device files: every shipped one loads, carries sources, and answers to --set; bad ones say where and what. */
#include "models/device/device_yaml.h"
#include "models/device/mig.h"
#include "models/kernel/kernel.h"
#include "models/link/link.h"
#include "sim/base/error.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const char small[] =
    "name: t\nfamily: tpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 16GiB, available: 15GiB, read: 800GB/s, write: 800GB/s, both: 700GB/s}\n"
    "  host: {kind: host-pinned, space: 5, capacity: 64GiB, source: a shop}\n"
    "links:\n  host: {from: host, to: hbm, to_device: {value: 10GB/s, source: measured}, from_device: 20GB/s, both_ways: 24GB/s}\n"
    "units:\n  matrix: {count: 4, clock: 1.5GHz, peaks: {bf16: 100TFLOP/s, s8: 200TOP/s, f32: 50TFLOP/s}}\n"
    "kernel:\n  step: 12.5\n  deep: {er: [1, 2us]}\n";

static EchDevice *load(const char *text, const char *const *settings, GError **error)
{
    g_autoptr(EchYamlNode) root = ech_yaml_parse(text, strlen(text), "t.yaml", error);
    return root ? ech_device_load_yaml(root, settings, error) : NULL;
}

START_TEST(test_small)
{
    GError *error = NULL;
    g_autoptr(EchDevice) device = load(small, NULL, &error);
    ck_assert_ok(device != NULL, error);
    const EchMemory *hbm = ech_device_memory(device, "hbm");
    ck_assert_uint_eq(hbm->capacity, UINT64_C(16) << 30);
    ck_assert_uint_eq(hbm->assignment_limit, UINT64_C(15) << 30);
    ck_assert_ptr_eq(ech_device_space(device, 5), ech_device_memory(device, "host"));
    ck_assert_ptr_null(ech_device_memory_kind(device, ECH_MEM_VECTOR));
    bool forward = true;
    ck_assert_ptr_eq(ech_device_link_between(device, hbm, ech_device_memory(device, "host"), &forward), ech_device_link(device, "host"));
    ck_assert(!forward);
    const EchUnit *matrix = ech_device_unit(device, ECH_UNIT_MATRIX);
    ck_assert_uint_eq(ech_unit_peak(matrix, "bf16"), UINT64_C(100000000000000));
    ck_assert_uint_eq(ech_unit_peak(matrix, "f8e4m3fn"), UINT64_C(100000000000000));
    ck_assert_uint_eq(ech_unit_peak(matrix, "s4"), UINT64_C(200000000000000));
    ck_assert_uint_eq(ech_unit_peak(matrix, "f64"), UINT64_C(100000000000000));
    ck_assert(ech_device_number(device, "kernel.step", 0) == 12.5);
    ck_assert(ech_device_number(device, "kernel.deep.er.1", 0) == 2e6);
    ck_assert(ech_device_number(device, "kernel.none", 7) == 7);
    for (size_t i = 0; i < device->n_numbers; i++) {
        if (strcmp(device->numbers[i].path, "memories.host.capacity") == 0)
            ck_assert_str_eq(device->numbers[i].source, "a shop");
        if (strcmp(device->numbers[i].path, "links.host.to_device") == 0)
            ck_assert_str_eq(device->numbers[i].source, "measured");
        if (strcmp(device->numbers[i].path, "memories.hbm.capacity") == 0)
            ck_assert_str_eq(device->numbers[i].source, "assumed");
    }
}
END_TEST

START_TEST(test_settings)
{
    GError *error = NULL;
    const char *const settings[] = {
        "device.memories.hbm.capacity=x2", "links.host.to_device=x0.5", "device.links.host.from_device=x0.5", "memories.hbm.read=x0.5", "kernel.step=3", NULL};
    g_autoptr(EchDevice) device = load(small, settings, &error);
    ck_assert_ok(device != NULL, error);
    const EchMemory *hbm = ech_device_memory(device, "hbm");
    ck_assert_uint_eq(hbm->capacity, UINT64_C(32) << 30);
    ck_assert_uint_eq(hbm->available, UINT64_C(31) << 30);
    ck_assert_uint_eq(hbm->assignment_limit, UINT64_C(31) << 30);
    ck_assert_uint_eq(hbm->both, UINT64_C(525000000000));
    const EchLink *link = ech_device_link(device, "host");
    ck_assert_uint_eq(link->to_device, UINT64_C(5000000000));
    ck_assert_uint_eq(link->from_device, UINT64_C(10000000000));
    ck_assert_uint_eq(link->both_ways, UINT64_C(12000000000));
    ck_assert(ech_device_number(device, "kernel.step", 0) == 3);
    ck_assert(ech_device_number(device, "links.host.both_ways", 0) == 12e9);
}
END_TEST

/* What a memory's file leaves out of its rates; and what follows one that is changed alone is no more than that allows. */
START_TEST(test_rates_left_out)
{
    static const char first[] = "read: 800GB/s, write: 800GB/s, both: 700GB/s";
    static const struct {
        const char *rates, *setting;
        EchRate read, write, both; /* GB/s */
    } cases[] = {
        {"read: 800GB/s", NULL, 800, 800, 0}, {"write: 300GB/s, both: 500GB/s", NULL, 300, 300, 500}, {"both: 500GB/s", NULL, 500, 500, 500},
        {"latency: 1us", NULL, 0, 0, 0},      {first, "memories.hbm.read=x0.25", 200, 800, 400},      {"read: 800GB/s", "memories.hbm.read=x0.5", 400, 400, 0}};
    const char *at = strstr(small, first);
    ck_assert_ptr_nonnull(at);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_strdup_printf("%.*s%s%s", (int)(at - small), small, cases[i].rates, at + strlen(first));
        const char *const settings[] = {cases[i].setting, NULL};
        GError *error = NULL;
        g_autoptr(EchDevice) device = load(text, settings, &error);
        ck_assert_ok(device != NULL, error);
        const EchMemory *hbm = ech_device_memory(device, "hbm");
        ck_assert_uint_eq(hbm->read, cases[i].read * 1000000000);
        ck_assert_uint_eq(hbm->write, cases[i].write * 1000000000);
        ck_assert_uint_eq(hbm->both, cases[i].both * 1000000000);
    }
}
END_TEST

/* A unit twice as fast and half as many of them: the same peaks; one that is edited itself stays. */
START_TEST(test_peaks_follow)
{
    static const struct {
        const char *settings[3];
        double bf16, f32;
    } cases[] = {{{"units.matrix.clock=x2"}, 200e12, 100e12},
                 {{"units.matrix.clock=x2", "units.matrix.count=2"}, 100e12, 50e12},
                 {{"units.matrix.clock=x3", "units.matrix.peaks.bf16=x0.5"}, 50e12, 50e12},
                 {{"units.matrix.rows=128"}, 100e12, 50e12}}; /* said for the first time */
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        g_autoptr(EchDevice) device = load(small, cases[i].settings, &error);
        ck_assert_ok(device != NULL, error);
        const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
        ck_assert((double)ech_unit_peak(unit, "bf16") == cases[i].bf16);
        ck_assert((double)ech_unit_peak(unit, "f32") == cases[i].f32);
        ck_assert(ech_device_number(device, "units.matrix.peaks.bf16", 0) == cases[i].bf16);
    }
}
END_TEST

typedef struct {
    const char *from, *to, *message;
} Bad;
static const Bad bads[] = {
    {"read: 800GB/s", "raed: 800GB/s", "t.yaml:4:71: memories.hbm: 'raed' is no key here; did you mean 'read'?"},
    {"read: 800GB/s", "read: fast", "t.yaml:4:71: memories.hbm.read: 'fast' is not a rate; expected something like 819GB/s or 400Gbit/s"},
    {"read: 800GB/s", "read: 0", "t.yaml:4:71: memories.hbm.read: '0' is not above 0, as a rate has to be"},
    {"kind: hbm", "kind: hdm", "t.yaml:4:15: memories.hbm: 'hdm' is unknown; did you mean 'hbm'?"},
    {"from: host", "from: hst", "t.yaml:7:16: links.host.from: 'hst' is unknown; did you mean 'host'?"},
    {"family: tpu", "family: cpu", "t.yaml:2:9: family: 'cpu' is unknown; did you mean 'tpu'?"},
    {"source: measured", "sauce: measured", "t.yaml:7:65: links.host.to_device: 'sauce' is no key here; did you mean 'source'?"},
    {"step: 12.5", "step: {a: b}", "t.yaml:11:13: kernel.step.a: 'b' is not a number; expected something like 0.9, 5us or 4MiB"},
    {"step: 12.5", "wait_ps: -3", "t.yaml:11:12: kernel.wait_ps: '-3' is not a time; expected something like 5us, at most 10 days"},
    {"step: 12.5", "wait_ps: 1e30", "t.yaml:11:12: kernel.wait_ps: '1e30' is not a time; expected something like 5us, at most 10 days"},
    {"name: t", "name: &a t", "t.yaml:1:10: anchors and tags are not used here; write the value out"},
    {"name: t", "name: t\nname: u", "t.yaml:2:7: 'name' stands here twice"},
    {"space: 5", "space: 0", "t.yaml:5:36: memories.host.space: 0 is hbm's already"},
    {"read: 800GB/s, write: 800GB/s, both: 700GB/s", "read: 800GB/s, write: 300GB/s, both: 700GB/s",
     "t.yaml:4:102: memories.hbm.both: 700 GB/s of reads and writes in equal parts are more than twice what write reaches alone, 300 GB/s"},
};

START_TEST(test_bad)
{
    const Bad *bad = &bads[_i];
    const char *at = strstr(small, bad->from);
    ck_assert_ptr_nonnull(at);
    g_autofree char *text = g_strdup_printf("%.*s%s%s", (int)(at - small), small, bad->to, at + strlen(bad->from));
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = load(text, NULL, &error);
    ck_assert_ptr_null(device);
    ck_assert_str_eq(error->message, bad->message);
}
END_TEST

static const Bad bad_settings[] = {
    {"memories.hbm.capcity=3", NULL, "--set device.memories.hbm.capcity=3: memories.hbm: 'capcity' is no key here; did you mean 'capacity'?"},
    {"memories.hbm.capacity=many", NULL, "--set device.memories.hbm.capacity=many: memories.hbm.capacity: 'many' is not a size; expected something like 16GiB"},
    {"memories.hbm.read=x0", NULL, "--set device.memories.hbm.read=x0: memories.hbm.read: '0GB/s' is not above 0, as a rate has to be"},
    {"units.matrix.peaks.bf16=x0", NULL, "--set device.units.matrix.peaks.bf16=x0: units.matrix.peaks.bf16: '0TFLOP/s' is not above 0, as a rate has to be"},
    {"memories.hbm.latency=x2", NULL,
     "--set device.memories.hbm.latency=x2: there is no 'latency' to multiply; expected one of kind, space, capacity, available, read, write, both"},
    {"memories..x=1", NULL, "--set device.memories..x=1: an empty step in the path"},
    {"memories", NULL, "--set device.memories: expected PATH=VALUE"},
};

START_TEST(test_bad_settings)
{
    const char *const settings[] = {bad_settings[_i].from, NULL};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = load(small, settings, &error);
    ck_assert_ptr_null(device);
    ck_assert_str_eq(error->message, bad_settings[_i].message);
}
END_TEST

START_TEST(test_scale)
{
    static const struct {
        const char *text, *factor, *result;
    } cases[] = {
        {"819GB/s", "0.5", "409.5GB/s"},
        {"16GiB", "2", "32GiB"},
        {"1.5GHz", "0.1", "0.15GHz"},
        {"14224981504", "2", "28449963008"},
        {"10", "0.05", "0.5"},
        {"fast", "2", NULL},
        {"3", "y", NULL},
        {"1", "0", "0"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *result = ech_yaml_scale(cases[i].text, cases[i].factor);
        ck_assert_pstr_eq(result, cases[i].result);
    }
}
END_TEST

/* Every shipped device: loads, its name is its file's, no number without a source, and doubling a number by hand equals doubling it by --set. */
START_TEST(test_shipped)
{
    g_auto(GStrv) names = ech_device_list();
    ck_assert_uint_ge(g_strv_length(names), 3);
    for (char **name = names; *name; name++) {
        GError *error = NULL;
        g_autoptr(EchDevice) device = ech_device_load(*name, NULL, &error);
        ck_assert_ok(device != NULL, error);
        ck_assert_str_eq(device->name, *name);
        ck_assert_ptr_nonnull(ech_device_memory(device, "host"));
        ck_assert_ptr_nonnull(ech_device_link(device, "host"));
        ck_assert_ptr_nonnull(ech_device_unit(device, ECH_UNIT_MATRIX));
        ck_assert_ptr_nonnull(ech_device_unit(device, ECH_UNIT_VECTOR));
        for (size_t i = 0; i < device->n_numbers; i++)
            ck_assert_msg(strlen(device->numbers[i].source) >= 6, "%s: %s has no source", *name, device->numbers[i].path);
        for (size_t i = 0; i < device->n_memories; i++) {
            const EchMemory *memory = &device->memories[i];
            ck_assert_uint_le(memory->available, memory->capacity);
            ck_assert_uint_le(memory->assignment_limit, memory->available);
            ck_assert(memory->nominal == 0 || memory->read <= memory->nominal);
        }
        for (size_t i = 0; i < device->n_links; i++)
            ck_assert_uint_le(device->links[i].both_ways, device->links[i].to_device + device->links[i].from_device);
        const char *const settings[] = {"device.memories.hbm.capacity=x2", NULL};
        g_autoptr(EchDevice) twice = ech_device_load(*name, settings, &error);
        ck_assert_ok(twice != NULL, error);
        ck_assert_uint_eq(ech_device_memory(twice, "hbm")->capacity, 2 * ech_device_memory(device, "hbm")->capacity);
        ck_assert(device->hash != twice->hash);
    }
}
END_TEST

/* A unit of lanes does at its peak what they do in a clock, @per_clock operations each, but for what data sheets round. */
static void check_lanes(const EchDevice *device, EchUnitKind kind, double per_clock)
{
    const EchUnit *unit = ech_device_unit(device, kind);
    if (!unit || unit->columns == 0 || unit->clock_hz == 0)
        return;
    for (size_t i = 0; i < unit->n_peaks; i++) {
        double lanes = per_clock * unit->count * unit->columns * (double)unit->clock_hz;
        if (strcmp(unit->peaks[i].dtype, "f32") == 0)
            ck_assert_msg(fabs((double)unit->peaks[i].ops / lanes - 1) < 0.02, "%s: unit %s: %g in f32, by its lanes %g", device->name, unit->name,
                          (double)unit->peaks[i].ops, lanes);
    }
}

/* Numbers that hang on one another were changed together: peaks of lanes with counts and clocks, both views of a host's memory. */
START_TEST(test_shipped_agree)
{
    g_auto(GStrv) names = ech_device_list();
    for (char **name = names; *name; name++) {
        g_autoptr(EchDevice) device = ech_device_load(*name, NULL, NULL);
        ck_assert_ptr_nonnull(device);
        const EchMemory *pinned = ech_device_memory(device, "host"), *pageable = ech_device_memory(device, "pageable");
        ck_assert_msg(!pageable || pageable->capacity == pinned->capacity, "%s: memories host and pageable are one", *name);
        if (strcmp(device->family, "gpu") != 0)
            continue;
        check_lanes(device, ECH_UNIT_VECTOR, 2);
        check_lanes(device, ECH_UNIT_TRANSCENDENTAL, 1);
    }
}
END_TEST

/* Captures name their hardware in the vendor's words; every shipped device knows its own. */
START_TEST(test_products)
{
    static const struct {
        const char *product, *name;
    } known[] = {{"NVIDIA H100 80GB HBM3", "h100-sxm"},
                 {"TPU v6 Lite", "tpu-v6e"},
                 {"TPU v5 lite", "tpu-v5e"},
                 {"TPU v5", "tpu-v5p"},
                 {"NVIDIA A100-SXM4-80GB", "a100-80"},
                 {"AMD Instinct MI300X", "mi300x"},
                 {"Tesla P100-PCIE-16GB", "p100"},
                 {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"},
                 {"NVIDIA GH200 120GB", "gh200"},
                 {"NVIDIA GH200 144G HBM3e", "gh200-144"},
                 {"NVIDIA H20-3e", "h20-3e"}};
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        g_autoptr(EchDevice) device = ech_device_load_product(known[i].product);
        ck_assert_msg(device != NULL, "%s", known[i].product);
        ck_assert_str_eq(device->name, known[i].name);
        ck_assert(ech_device_is_product(device, known[i].name));
        ck_assert(!ech_device_is_product(device, "NVIDIA H100"));
        ck_assert(ech_device_is_amd(device) == g_str_has_prefix(known[i].product, "AMD"));
    }
    ck_assert_ptr_null(ech_device_load_product("Quadro RTX 6000"));
    ck_assert_ptr_null(ech_device_load_product(""));
}
END_TEST

static const char *source_of(const EchDevice *device, const char *path)
{
    for (size_t i = 0; i < device->n_numbers; i++) {
        if (strcmp(device->numbers[i].path, path) == 0)
            return device->numbers[i].source;
    }
    return NULL;
}

/* Writes @text beside the other files of @folder and loads it by path. */
static EchDevice *load_beside(const char *folder, const char *name, const char *text, GError **error)
{
    g_autofree char *path = g_strdup_printf("%s/%s.yaml", folder, name);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    return ech_device_load(path, NULL, error);
}

/* What a file says instead of its base's is followed as settings are: copies keep the set-up of a curve, kernels count what units do in cycles of the clock. */
START_TEST(test_base_is_followed)
{
    static const char calibrated[] =
        "base: tpu-v5e\nlinks:\n  host: {to_device: 10GB/s, from_device: 10GB/s, curve: {64KiB: 1GB/s, 1MiB: 5GB/s, 1GiB: 10GB/s}}\n";
    static const char *const settings[] = {"links.host.to_device=40GB/s", "links.host.from_device=40GB/s", "units.matrix.clock=3GHz",
                                           "units.vector.peaks.f32=x2", NULL};
    g_autofree char *folder = g_dir_make_tmp("devices-XXXXXX", NULL), *first = g_build_filename(folder, "c.yaml", NULL);
    GError *error = NULL;
    g_autoptr(EchDevice) base = load_beside(folder, "c", calibrated, &error);
    ck_assert_ok(base != NULL, error);
    g_autoptr(EchDevice) set = ech_device_load(first, settings, &error);
    ck_assert_ok(set != NULL, error);
    g_autofree char *peak = g_strdup_printf("%" G_GUINT64_FORMAT "OP/s", 2 * ech_unit_peak(ech_device_unit(base, ECH_UNIT_VECTOR), "f32"));
    g_autofree char *text = g_strdup_printf("base: c.yaml\nlinks: {host: {to_device: 40GB/s, from_device: 40GB/s}}\n"
                                            "units: {matrix: {clock: 3GHz}, vector: {peaks: {f32: %s}}}\n",
                                            peak);
    g_autoptr(EchDevice) own = load_beside(folder, "d", text, &error), like = own ? load_beside(folder, "e", "base: d.yaml\n", &error) : NULL;
    ck_assert_ok(like != NULL, error);
    const EchDevice *const both[] = {own, like};
    EchKernelModel as_set, as_own;
    ck_assert(ech_kernel_model_init(&as_set, set, ECH_KERNEL_HARDWARE, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        for (EchBytes bytes = 1; bytes < (UINT64_C(4) << 30); bytes *= 3)
            for (int forward = 0; forward < 2; forward++)
                ck_assert_int_eq(ech_link_time(ech_device_link(both[i], "host"), forward, bytes), ech_link_time(ech_device_link(set, "host"), forward, bytes));
        ck_assert(ech_kernel_model_init(&as_own, both[i], ECH_KERNEL_HARDWARE, NULL));
        ck_assert(ech_kernel_model_equal(&as_own, &as_set));
    }
    ck_assert_int_lt(ech_link_time(ech_device_link(own, "host"), true, UINT64_C(1) << 30),
                     ech_link_time(ech_device_link(base, "host"), true, UINT64_C(1) << 29));
    /* A curve of its own was measured beside its own rates. */
    g_autoptr(EchDevice) anew = load_beside(folder, "f", "base: d.yaml\nlinks: {host: {to_device: 20GB/s, curve: {1MiB: 20GB/s}}}\n", &error);
    ck_assert_ok(anew != NULL, error);
    ck_assert_uint_eq(ech_device_link(anew, "host")->measured_to, UINT64_C(20000000000));
    static const char *const files[] = {"c", "d", "e", "f"};
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_strdup_printf("%s/%s.yaml", folder, files[i]);
        (void)remove(path);
    }
    (void)remove(folder);
}
END_TEST

/* A device like another one: single numbers of its own, the other's elsewhere and so said, nothing that stands as none. */
START_TEST(test_base)
{
    g_autofree char *folder = g_dir_make_tmp("devices-XXXXXX", NULL), *old = g_strdup(g_getenv("ECHELON_DEVICES"));
    g_setenv("ECHELON_DEVICES", folder, TRUE);
    GError *error = NULL;
    g_autoptr(EchDevice) first = load_beside(folder, "t", small, &error);
    ck_assert_ok(first != NULL, error);
    g_autoptr(EchDevice) device = load_beside(
        folder, "u",
        "name: u\nbase: t\nmemories:\n  hbm: {capacity: {value: 32GiB, source: seen}}\nkernel:\n  step: none\n  own: 3\nlinks:\n  host: {to_device: 11GB/s}\n",
        &error);
    ck_assert_ok(device != NULL, error);
    ck_assert_str_eq(device->name, "u");
    ck_assert_str_eq(device->family, "tpu");
    ck_assert_str_eq(device->summary, "");
    const EchMemory *hbm = ech_device_memory(device, "hbm");
    ck_assert_uint_eq(hbm->capacity, UINT64_C(32) << 30);
    ck_assert_uint_eq(hbm->available, UINT64_C(31) << 30); /* the base keeps 1 GiB of its own */
    ck_assert_uint_eq(ech_device_link(device, "host")->to_device, UINT64_C(11000000000));
    ck_assert_uint_eq(ech_device_link(device, "host")->from_device, UINT64_C(20000000000));
    ck_assert(!ech_device_has_number(device, "kernel.step"));
    ck_assert(ech_device_number(device, "kernel.own", 0) == 3);
    ck_assert(ech_device_number(device, "kernel.deep.er.0", 0) == 1);
    ck_assert_str_eq(source_of(device, "memories.hbm.capacity"), "seen");
    ck_assert_str_eq(source_of(device, "memories.host.capacity"), "as t: a shop");
    ck_assert_str_eq(source_of(device, "links.host.to_device"), "assumed");
    g_autoptr(EchDevice) third = load_beside(folder, "v", "name: v\nbase: u\n", &error);
    ck_assert_ok(third != NULL, error);
    ck_assert_str_eq(source_of(third, "memories.hbm.capacity"), "as u: seen");
    g_autoptr(EchDevice) unnamed =
        load_beside(folder, "w", "base: t\nmemories: {hbm: {read: 400GB/s, write: 400GB/s}}\nunits: {matrix: {clock: 3GHz}}\n", &error);
    ck_assert_ok(unnamed != NULL, error);
    ck_assert_str_eq(unnamed->name, "w");
    ck_assert_uint_eq(ech_device_memory(unnamed, "hbm")->both, UINT64_C(350000000000));
    ck_assert_uint_eq(ech_unit_peak(ech_device_unit(unnamed, ECH_UNIT_MATRIX), "bf16"), UINT64_C(200000000000000));
    ck_assert_str_eq(source_of(unnamed, "memories.hbm.both"), "follows what was changed; was assumed");
    ck_assert_str_eq(source_of(third, "memories.host.capacity"), "as t: a shop");

    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"name: w\nbase: w\n", "w.yaml:2:7: base: more than 4 devices, each like the next"},
        {"name: w\nbase: tt\n", "w.yaml:2:7: base: 'tt' is no device; did you mean 't'?"},
        {"name: w\nbase: [t]\n", "w.yaml:2:7: base: expected the device that this one is like"},
        {"name: [w]\nbase: t\n", "w.yaml:1:7: name: expected a text"},
        {"name: w\nbase: t\nmemories: {hbm: {capacity: much}}\n", "w.yaml:3:28: memories.hbm.capacity: 'much' is not a size"},
        {"name: w\nbase: t\nmemories: {hbm: {capacity: none}}\n", "memories.hbm: expected a capacity"},
        {"base: t\nmemories: {hbm: {capacity: 48}}\n", "w.yaml:2:28: memories.hbm.capacity: '48' is 48 bytes; expected something like 16GiB"},
        {"base: t\nmemories: {hbm: {available: {value: 17GiB}}}\n", "w.yaml:2:37: memories.hbm.available: 17 GiB are more than its capacity, 16 GiB"},
        {"base: t\nmemories: {hmb: {capacity: 8GiB}}\n", "memories.hmb: expected a kind; its memories are hbm, host; did you mean 'hbm'?"},
        {"name: w\nmemories: {hbm: {capacity: 8GiB}}\n", "w.yaml:1:1: device: expected 'family', a text, among its keys"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(EchDevice) none = load_beside(folder, "w", wrong[i].text, &error);
        ck_assert_ptr_null(none);
        ck_assert_msg(strstr(error->message, wrong[i].message) != NULL, "%s", error->message);
        g_clear_error(&error);
    }
    static const char *const files[] = {"t", "u", "v", "w"};
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_strdup_printf("%s/%s.yaml", folder, files[i]);
        ck_assert_int_eq(remove(path), 0);
    }
    ck_assert_int_eq(remove(folder), 0);
    if (old)
        g_setenv("ECHELON_DEVICES", old, TRUE);
    else
        g_unsetenv("ECHELON_DEVICES");
}
END_TEST

/* A device whose on-chip memory is called otherwise than in programs, and which has no peak for some types. */
START_TEST(test_own_names)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml("name: own\nfamily: tpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB}\n"
                                                       "  vmem: {kind: vector, space: 1, capacity: 64MiB}\n  dram: {kind: host-pinned, capacity: 64GB}\n"
                                                       "  cxl: {kind: host-pinned, capacity: 64GB}\n"
                                                       "units: {matrix: {peaks: {bf16: 4TFLOP/s, s32: 1TOP/s}}}\n");
    ck_assert_ptr_eq(ech_device_memory(device, "vector"), ech_device_memory(device, "vmem"));
    ck_assert_ptr_null(ech_device_memory(device, "host")); /* either of two */
    ck_assert_ptr_eq(ech_device_memory_kind(device, ECH_MEM_HOST_PINNED), ech_device_memory(device, "dram"));
    ck_assert_ptr_null(ech_device_host_link(device, NULL));
    ck_assert_ptr_null(ech_device_memory(device, "scalar"));
    const EchUnit *matrix = ech_device_unit(device, ECH_UNIT_MATRIX);
    ck_assert_ptr_null(ech_unit_peak_borrowed(matrix, "bf16"));
    ck_assert_ptr_null(ech_unit_peak_borrowed(matrix, "f8e4m3fn")); /* as wider floats */
    ck_assert_ptr_null(ech_unit_peak_borrowed(matrix, "s8"));
    const EchPeak *borrowed = ech_unit_peak_borrowed(matrix, "f32");
    ck_assert_ptr_nonnull(borrowed);
    ck_assert_str_eq(borrowed->dtype, "bf16");
    ck_assert_uint_eq(ech_unit_peak(matrix, "f32"), borrowed->ops);
}
END_TEST

/* Of tiers of the host's memory the one that programs mean, wherever it stands, and its link, whatever that is called. */
START_TEST(test_tiers)
{
    static const char hbm[] = "name: own\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB}\n  cxl: {kind: host-pinned, capacity: 1TB}\n";
    g_autofree char *numbered = g_strconcat(
                        hbm,
                        "  dram: {kind: host-pinned, space: 5, capacity: 64GB}\nlinks:\n  a: {from: cxl, to: hbm, to_device: 1GB/s, from_device: 1GB/s}\n"
                        "  b: {from: hbm, to: dram, to_device: 2GB/s, from_device: 3GB/s}\nunits: {matrix: {peaks: {bf16: 4TFLOP/s}}}\n",
                        NULL),
                    *named =
                        g_strconcat(hbm,
                                    "  host: {kind: host-pinned, capacity: 64GB}\nlinks:\n  a: {from: cxl, to: hbm, to_device: 1GB/s, from_device: 1GB/s}\n"
                                    "  host: {from: host, to: hbm, to_device: 2GB/s, from_device: 2GB/s}\nunits: {matrix: {peaks: {bf16: 4TFLOP/s}}}\n",
                                    NULL);
    g_autoptr(EchDevice) a = ech_test_device_yaml(numbered), b = ech_test_device_yaml(named);
    bool forward = true;
    ck_assert_str_eq(ech_device_memory_kind(a, ECH_MEM_HOST_PINNED)->name, "dram");
    ck_assert_str_eq(ech_device_host_link(a, &forward)->name, "b");
    ck_assert(!forward);
    ck_assert_str_eq(ech_device_memory_kind(b, ECH_MEM_HOST_PINNED)->name, "host");
    ck_assert_str_eq(ech_device_host_link(b, &forward)->name, "host");
    ck_assert(forward);
}
END_TEST

/* Parts of a board: multiprocessors and what hangs on them, eighths of the memory's and L2's rates, the host's link whole; as often as there is one. */
START_TEST(test_instances)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) board = ech_device_load("a100-80", NULL, &error), part = ech_device_load("a100-80:2g.20gb", NULL, &error);
    ck_assert_ok(board && part, error);
    ck_assert_str_eq(part->name, "a100-80:2g.20gb");
    const EchMemory *hbm = ech_device_memory(part, "hbm"), *whole = ech_device_memory(board, "hbm");
    ck_assert_uint_eq(hbm->capacity, UINT64_C(19968) << 20);
    ck_assert_uint_eq(hbm->available, hbm->capacity);
    ck_assert_uint_eq(hbm->read, whole->read / 4);
    ck_assert_uint_eq(hbm->both, whole->both / 4);
    ck_assert_uint_eq(ech_device_memory(part, "l2")->capacity, 10485760);
    ck_assert_uint_eq(ech_device_unit(part, ECH_UNIT_VECTOR)->count, 28);
    ck_assert_uint_eq(ech_device_unit(part, ECH_UNIT_MATRIX)->count, 112);
    ck_assert_double_eq_tol((double)ech_unit_peak(ech_device_unit(part, ECH_UNIT_MATRIX), "bf16"), 312e12 * 28 / 108, 1e9);
    ck_assert_uint_eq(ech_device_link(part, "host")->to_device, ech_device_link(board, "host")->to_device);
    ck_assert_ptr_null(ech_device_link(part, "nvlink"));
    g_autofree char *profiles = ech_mig_profiles(board), *none = ech_mig_profiles(part);
    ck_assert_str_eq(profiles, "1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb");
    ck_assert_ptr_null(none);
    /* The board's power does not hold it. */
    g_autoptr(EchDevice) h100 = ech_device_load("h100-sxm:3g.40gb", NULL, &error);
    ck_assert_ok(h100 != NULL, error);
    ck_assert(!ech_device_has_number(h100, "kernel.sustained_share") && ech_device_number(h100, "kernel.compute_capability", 0) == 9);
    /* Settings come on top; the hardware's own name means it, too. */
    static const char *const settings[] = {"memories.hbm.available=8GiB", NULL};
    g_autoptr(EchDevice) less = ech_device_load("a100-80:2g.20gb", settings, &error), named = ech_device_load_product("NVIDIA A100-SXM4-80GB MIG 2g.20gb");
    ck_assert_ok(less && named, error);
    ck_assert_uint_eq(ech_device_memory(less, "hbm")->available, UINT64_C(8) << 30);
    ck_assert_str_eq(named->name, part->name);
    ck_assert_ptr_null(ech_device_load_product("NVIDIA A100-SXM4-80GB MIG 5g.50gb"));
    /* Every part of every board loads, and is no more than that. */
    g_auto(GStrv) names = ech_device_list();
    for (char **name = names; *name; name++) {
        g_autoptr(EchDevice) of = ech_device_load(*name, NULL, &error);
        g_autofree char *all = of ? ech_mig_profiles(of) : NULL;
        g_auto(GStrv) each = all ? g_strsplit(all, ", ", -1) : NULL;
        for (char **profile = each; profile && *profile; profile++) {
            g_autofree char *called = g_strdup_printf("%s:%s", *name, *profile);
            g_autoptr(EchDevice) its = ech_device_load(called, NULL, &error);
            ck_assert_ok(its != NULL, error);
            ck_assert_uint_le(ech_device_memory(its, "hbm")->available, ech_device_memory(of, "hbm")->available);
            ck_assert_uint_le(ech_device_unit(its, ECH_UNIT_VECTOR)->count, ech_device_unit(of, ECH_UNIT_VECTOR)->count);
        }
    }
    /* Of a file, too. */
    g_autofree char *folder = g_dir_make_tmp("echelon-mig-XXXXXX", NULL), *own = g_build_filename(folder, "own.yaml", NULL);
    ck_assert(
        g_file_set_contents(own, "base: a100-80\nmig: {1g.9gb: {multiprocessors: 12, bytes: 9GiB, eighths: 1}, 2g.9gb: {multiprocessors: 1.5}}\n", -1, NULL));
    g_autofree char *ninth = g_strconcat(own, ":1g.9gb", NULL), *broken = g_strconcat(own, ":2g.9gb", NULL);
    g_autoptr(EchDevice) ours = ech_device_load(ninth, NULL, &error), none_of_it = ech_device_load(broken, NULL, NULL);
    ck_assert_ok(ours != NULL, error);
    ck_assert_uint_eq(ech_device_unit(ours, ECH_UNIT_VECTOR)->count, 12);
    ck_assert_ptr_null(none_of_it);
    (void)remove(own);
    (void)remove(folder);
    static const char *const wrong[][2] = {{"a100-80:5g.50gb", "a100-80 cannot be cut into 5g.50gb (MIG); expected one of 1g.10gb, 1g.20gb"},
                                           {"l4:1g.5gb", "l4 cannot be cut into 1g.5gb (MIG); its file"},
                                           {"a100-81:1g.10gb", "'a100-81' is no device; did you mean"}};
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) why = NULL;
        g_autoptr(EchDevice) device = ech_device_load(wrong[i][0], NULL, &why);
        ck_assert_ptr_null(device);
        ck_assert_msg(g_str_has_prefix(why->message, wrong[i][1]), "%s", why->message);
    }
}
END_TEST

START_TEST(test_unknown_name)
{
    static const char *const wrong[][2] = {
        {"tpu-v5x", "'tpu-v5x' is no device; did you mean 'tpu-v"},
        {"rtx4090", "'rtx4090' is no device; did you mean 'rtx-4090'?"},
        {"H100-80GB", "'H100-80GB' is no device; did you mean 'h100-nvl' or 'h100-pcie' or 'h100-sxm' or 'h100-sxm-calibrated'?"},
        /* As the hardware calls itself. */
        {"NVIDIA A100-SXM4-80GB", "'NVIDIA A100-SXM4-80GB' is no device; did you mean 'a100-80'?"},
        {"TPU v5 lite", "'TPU v5 lite' is no device; did you mean 'tpu-v5e'?"},
        {"abacus", "'abacus' is no device; expected a file, or a name of those that 'echelon list devices' shows"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDevice) device = ech_device_load(wrong[i][0], NULL, &error);
        ck_assert_ptr_null(device);
        ck_assert_msg(g_str_has_prefix(error->message, wrong[i][1]), "%s", error->message);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, test_small);
    tcase_add_test(tcase, test_rates_left_out);
    tcase_add_test(tcase, test_peaks_follow);
    tcase_add_test(tcase, test_settings);
    tcase_add_loop_test(tcase, test_bad, 0, G_N_ELEMENTS(bads));
    tcase_add_loop_test(tcase, test_bad_settings, 0, G_N_ELEMENTS(bad_settings));
    tcase_add_test(tcase, test_scale);
    tcase_add_test(tcase, test_shipped);
    tcase_add_test(tcase, test_base);
    tcase_add_test(tcase, test_base_is_followed);
    tcase_add_test(tcase, test_own_names);
    tcase_add_test(tcase, test_tiers);
    tcase_add_test(tcase, test_instances);
    tcase_add_test(tcase, test_unknown_name);
    tcase_add_test(tcase, test_shipped_agree);
    tcase_add_test(tcase, test_products);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
