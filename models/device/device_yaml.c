/* Device files: YAML to EchDevice, and the folders they are looked for in. */
#include "models/device/device_yaml.h"
#include "models/device/mig.h"

#include "models/device/gpu_target.h"
#include "models/memory/hbm.h"

#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/base/hash.h"
#include "sim/base/param.h"

#include <math.h>
#include <string.h>

static const char *const memory_kinds[] = {"hbm", "vector", "common", "scalar", "accumulator", "cache", "host-pinned", "host-pageable", "disk", NULL};
static const char *const unit_kinds[] = {"matrix", "vector", "transcendental", "scalar", NULL};

/* What peaks may be called: XLA's element types, and f8 and f4 for all of their width (ech_unit_peak takes the narrowest that is wide enough). */
static const char *const element_types[] = {
    "f64",           "f32",       "tf32", "bf16",     "f16", "f8",  "f8e4m3fn", "f8e5m2", "f8e4m3", "f8e3m4", "f8e4m3fnuz", "f8e5m2fnuz",
    "f8e4m3b11fnuz", "f8e8m0fnu", "f4",   "f4e2m1fn", "s64", "s32", "s16",      "s8",     "s4",     "s2",     "s1",         "u64",
    "u32",           "u16",       "u8",   "u4",       "u2",  "u1",  "pred",     "c64",    "c128",   NULL};

typedef enum { FIELD_BYTES, FIELD_RATE, FIELD_TIME, FIELD_OPS, FIELD_U32, FIELD_SPACE, FIELD_BOOL } FieldType;

/* One number of a section: its key, its type, where it goes and what it means. */
typedef struct {
    const char *key;
    FieldType type;
    size_t offset;
    const char *doc;
} Field;

static const Field memory_fields[] = {
    {"space", FIELD_SPACE, offsetof(EchMemory, space), "XLA's number of it: 0 hbm, 1 vector, 5 host; left out: none"},
    {"capacity", FIELD_BYTES, offsetof(EchMemory, capacity), "what there is"},
    {"available", FIELD_BYTES, offsetof(EchMemory, available), "what programs get of it; left out: all. It keeps its distance from a capacity that is changed"},
    {"assignment_limit", FIELD_BYTES, offsetof(EchMemory, assignment_limit),
     "more than this, XLA's assignment of buffers does not give out; left out: what is available"},
    {"kernel_reserved", FIELD_BYTES, offsetof(EchMemory, kernel_reserved), "kept by the compiler for kernels' own windows"},
    {"read", FIELD_RATE, offsetof(EchMemory, read), "reached by kernels that read; left out: that of write, else of both, else no limit"},
    {"write", FIELD_RATE, offsetof(EchMemory, write), "reached by kernels that write; left out: that of read, else of both, else no limit"},
    {"both", FIELD_RATE, offsetof(EchMemory, both),
     "reached in all by kernels that read as much as they write, twice the slower of read and write at most; left out: each byte at its own rate"},
    {"nominal", FIELD_RATE, offsetof(EchMemory, nominal), "of the data sheet"},
    {"latency", FIELD_TIME, offsetof(EchMemory, latency), "of one access"},
    {"granule", FIELD_BYTES, offsetof(EchMemory, granule), "least that is moved at once"},
    {"assignable", FIELD_BOOL, offsetof(EchMemory, assignable), "whether a compiler may place values in it"},
    {NULL, FIELD_U32, 0, NULL},
};
static const Field link_fields[] = {
    {"nominal", FIELD_RATE, offsetof(EchLink, nominal), "each way, of the data sheet"},
    {"to_device", FIELD_RATE, offsetof(EchLink, to_device), "reached by large copies to the device alone"},
    {"from_device", FIELD_RATE, offsetof(EchLink, from_device), "reached by large copies from the device alone"},
    {"both_ways", FIELD_RATE, offsetof(EchLink, both_ways),
     "reached in all while copies go both ways: the faster way's rate for a link that carries one way at a time (half duplex), up to the sum of both, which it "
     "is where it is left out. Less than the faster way holds that up alone, too; where one way is set and this is not, it keeps its part of the sum, but no "
     "less than the faster way"},
    {"latency", FIELD_TIME, offsetof(EchLink, latency), "one way"},
    {"setup", FIELD_TIME, offsetof(EchLink, setup), "of each copy, before its bytes move"},
    {"engines_to", FIELD_U32, offsetof(EchLink, engines_to), "copies to the device under way at a time; left out: 1"},
    {"engines_from", FIELD_U32, offsetof(EchLink, engines_from), "copies from it under way at a time; left out: 1"},
    {"ports", FIELD_U32, offsetof(EchLink, ports), "links of this kind that a chip has, each with these rates (ICI, NVLink); left out: 1"},
    {"ring", FIELD_U32, offsetof(EchLink, ring), "length from which an axis of a TPU slice closes into a ring; left out: any"},
    {"one_way", FIELD_BOOL, offsetof(EchLink, one_way), "how reductions of a TPU's chips that leave each its part go round: one way"},
    {"sharers", FIELD_U32, offsetof(EchLink, sharers), "devices of a chip, which share its links; left out: 1"},
    {"reach", FIELD_U32, offsetof(EchLink, reach), "devices that links to a switch join, those of a host; beyond it is the network. Left out: any number"},
    {"measured_to", FIELD_RATE, offsetof(EchLink, measured_to), "to_device beside which its curve was measured; left out: what that is"},
    {"measured_from", FIELD_RATE, offsetof(EchLink, measured_from), "the same of from_device"},
    {"mesh", FIELD_BOOL, offsetof(EchLink, mesh), "no switch: of the ports as many lead to each of the other devices within reach"},
    {"coherent", FIELD_BOOL, offsetof(EchLink, coherent), "the device reads and writes memory beyond it by itself, as its own (NVLink-C2C)"},
    {NULL, FIELD_U32, 0, NULL},
};
static const Field unit_fields[] = {
    {"count", FIELD_U32, offsetof(EchUnit, count), "of them in each core, of a GPU its multiprocessors; left out: 1"},
    {"rows", FIELD_U32, offsetof(EchUnit, rows), "of a systolic array, or sublanes"},
    {"columns", FIELD_U32, offsetof(EchUnit, columns), "of a systolic array, or lanes"},
    {"clock", FIELD_OPS, offsetof(EchUnit, clock_hz), "its rates go with it where it is changed; a TPU's kernels are priced in its cycles"},
    {"counted_clock", FIELD_OPS, offsetof(EchUnit, counted_clock), "the clock beside which the kernels' numbers in cycles hold; left out: its own"},
    {"counted_peak", FIELD_OPS, offsetof(EchUnit, counted_peak), "the same of its peak for f32"},
    {NULL, FIELD_U32, 0, NULL},
};

/* What sections have beside their numbers. */
static const EchDeviceKey memory_others[] = {
    {"kind", "text", "has to be given: hbm, vector, common, scalar, accumulator, cache, host-pinned, host-pageable or disk"},
    {"dram", "text", "generation whose timing holds, like hbm2e"},
    {"within", "hbm", "a host's memory that is the device's own"},
    {NULL, NULL, NULL},
};
static const EchDeviceKey link_others[] = {
    {"from, to", "memory", "where it leads from, and to; have to be given"},
    {"curve", "sizes with rates", "what copies of a size reach to the device, and from it too where that has none of its own: {64KiB: 2GB/s, 1MiB: 9GB/s}"},
    {"curve_from_device", "sizes with rates", "the same from the device"},
    {NULL, NULL, NULL},
};
static const EchDeviceKey unit_others[] = {
    {"kind", "matrix|vector|transcendental|scalar", "left out: as it is called"},
    {"peaks", "element types with rates", "of the whole device, all cores: {bf16: 197TFLOP/s}"},
    {NULL, NULL, NULL},
};

static const char *const field_takes[] = {[FIELD_BYTES] = "size", [FIELD_RATE] = "bandwidth", [FIELD_TIME] = "time",         [FIELD_OPS] = "clock",
                                          [FIELD_U32] = "number", [FIELD_SPACE] = "number",   [FIELD_BOOL] = "true or false"};

static void tell_section(const char *section, const EchDeviceKey *others, const Field *fields, EchDeviceTell tell, void *data)
{
    tell(section, NULL, data);
    for (; others->name; others++)
        tell(section, others, data);
    for (; fields->key; fields++)
        tell(section, &(EchDeviceKey){fields->key, field_takes[fields->type], fields->doc}, data);
}

void ech_device_keys(EchDeviceTell tell, void *data)
{
    tell_section("memories.NAME", memory_others, memory_fields, tell, data);
    tell_section("links.NAME", link_others, link_fields, tell, data);
    tell_section("units.NAME", unit_others, unit_fields, tell, data);
}

typedef struct {
    EchDevice *device;
    GArray *numbers; /* EchDeviceNumber */
} Loader;

static void number_clear(void *data)
{
    EchDeviceNumber *number = data;
    g_free(number->path);
    g_free(number->source);
}

static void add_number(Loader *loader, char *path, double value, const char *source)
{
    EchDeviceNumber number = {.path = path, .value = value, .source = g_strdup(source), .hash = ech_hash_bytes(path, strlen(path))};
    g_array_append_val(loader->numbers, number);
}

/* Models look numbers up by path for every kernel. */
static void index_numbers(EchDevice *device)
{
    device->n_slots = 16;
    while (device->n_slots < 2 * device->n_numbers)
        device->n_slots *= 2;
    device->number_slots = g_new0(uint32_t, device->n_slots);
    for (size_t i = 0; i < device->n_numbers; i++) {
        size_t slot = device->numbers[i].hash & (device->n_slots - 1);
        while (device->number_slots[slot])
            slot = (slot + 1) & (device->n_slots - 1);
        device->number_slots[slot] = (uint32_t)(i + 1);
    }
}

/* A number stands as VALUE or as {value: VALUE, source: TEXT}; without a source, the one of the section around it. */
static const EchYamlNode *number_node(const EchYamlNode *node, const char *path, const char *section_source, const char **ret_source, GError **error)
{
    static const char *const keys[] = {"value", "source", NULL};
    *ret_source = section_source ? section_source : "assumed";
    if (node->kind == ECH_YAML_MAP) {
        if (!ech_yaml_check_keys(node, path, keys, error))
            return NULL;
        const EchYamlNode *source = ech_yaml_get(node, "source");
        if (source && (source->kind != ECH_YAML_SCALAR || !*source->text)) {
            ech_yaml_error(source, error, "%s: a source is a text, or 'assumed'", path);
            return NULL;
        }
        if (source)
            *ret_source = source->text;
        const EchYamlNode *value = ech_yaml_get(node, "value");
        if (!value) {
            ech_yaml_error(node, error, "%s: expected a value beside the source", path);
            return NULL;
        }
        node = value;
    }
    if (node->kind != ECH_YAML_SCALAR) {
        ech_yaml_error(node, error, "%s: expected a number, or {value: ..., source: ...}", path);
        return NULL;
    }
    return node;
}

typedef union {
    uint64_t u64;
    EchTime time;
    uint32_t u32;
    int32_t space;
    bool flag;
} FieldValue;

static bool parse_field(FieldType type, const char *text, FieldValue *ret, double *ret_value, GError **error)
{
    uint64_t u64 = 0;
    switch (type) {
    case FIELD_BYTES:
    case FIELD_RATE:
    case FIELD_OPS:
        if (!(type == FIELD_BYTES  ? ech_parse_bytes(text, &u64, error)
              : type == FIELD_RATE ? ech_parse_rate(text, &u64, error)
                                   : ech_parse_ops(text, &u64, error)))
            return false;
        /* In EchDevice 0 stands for a rate that is not known: what hangs on it takes no time. */
        if (u64 == 0 && type != FIELD_BYTES) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not above 0, as a rate has to be", text);
            return false;
        }
        ret->u64 = u64;
        break;
    case FIELD_TIME: {
        EchTime time;
        if (!ech_parse_time(text, &time, error))
            return false;
        ret->time = time;
        *ret_value = (double)time;
        return true;
    }
    case FIELD_U32:
    case FIELD_SPACE:
        if (!ech_parse_u64(text, &u64, error))
            return false;
        if (u64 > (type == FIELD_SPACE ? 255U : 1000000U)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is too large; expected at most %s", text, type == FIELD_SPACE ? "255" : "1000000");
            return false;
        }
        if (type == FIELD_SPACE)
            ret->space = (int32_t)u64;
        else
            ret->u32 = (uint32_t)u64;
        break;
    case FIELD_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is neither true nor false", text);
            return false;
        }
        u64 = text[0] == 't';
        ret->flag = u64 != 0;
        break;
    }
    *ret_value = (double)u64;
    return true;
}

static size_t field_size(FieldType type)
{
    return type == FIELD_BOOL ? sizeof(bool) : type == FIELD_U32 || type == FIELD_SPACE ? sizeof(uint32_t) : sizeof(uint64_t);
}

static const Field *find_field(const Field *fields, const char *key)
{
    for (; fields->key; fields++) {
        if (strcmp(fields->key, key) == 0)
            return fields;
    }
    return NULL;
}

/* Reads one entry of a section by its table. The path is what --set takes below `device.`. */
static bool read_field(Loader *loader, const Field *field, const EchYamlNode *node, const char *section, const char *section_source, void *object,
                       GError **error)
{
    g_autofree char *path = g_strdup_printf("%s.%s", section, field->key);
    const char *source;
    const EchYamlNode *number = number_node(node, path, section_source, &source, error);
    if (!number)
        return false;
    FieldValue value;
    double as_double;
    if (!parse_field(field->type, number->text, &value, &as_double, error)) {
        g_prefix_error(error, "%s: ", path);
        ech_yaml_prefix(number, error);
        return false;
    }
    memcpy((char *)object + field->offset, &value, field_size(field->type));
    add_number(loader, g_steal_pointer(&path), as_double, source);
    return true;
}

static bool read_curve(Loader *loader, const EchYamlNode *node, const char *section, const char *key, const char *section_source, EchCurvePoint **ret,
                       size_t *ret_n, GError **error)
{
    g_autofree char *path = g_strdup_printf("%s.%s", section, key);
    if (node->kind != ECH_YAML_MAP) {
        ech_yaml_error(node, error, "%s: expected sizes with their rates, like {64KiB: 2GB/s, 1MiB: 9GB/s}", path);
        return false;
    }
    EchCurvePoint *points = g_new0(EchCurvePoint, node->n + 1);
    g_clear_pointer(ret, g_free);
    *ret = points;
    *ret_n = node->n;
    for (size_t i = 0; i < node->n; i++) {
        g_autofree char *step = g_strdup_printf("%s.%s", path, node->keys[i]);
        const char *source;
        const EchYamlNode *number = number_node(node->items[i], step, section_source, &source, error);
        if (!number)
            return false;
        if (!ech_parse_bytes(node->keys[i], &points[i].bytes, error) || !ech_parse_rate(number->text, &points[i].rate, error)) {
            g_prefix_error(error, "%s: ", path);
            ech_yaml_prefix(number, error);
            return false;
        }
        if (points[i].rate == 0 || (i && points[i].bytes <= points[i - 1].bytes)) {
            ech_yaml_error(number, error, "%s: sizes must ascend and rates must be above 0", path);
            return false;
        }
        add_number(loader, g_steal_pointer(&step), (double)points[i].rate, source);
    }
    return true;
}

/* Index of @text in @names, or an error at the node that says it. */
static bool read_name(const EchYamlNode *node, const char *path, const char *const *names, size_t *ret, GError **error)
{
    const char *text = node->kind == ECH_YAML_SCALAR ? node->text : "";
    for (size_t i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    const char *nearest = ech_nearest_name(text, names);
    g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
    ech_yaml_error(node, error, "%s: '%s' is unknown; %s%s%s", path, text, nearest ? "did you mean '" : "expected one of ", nearest ? nearest : all,
                   nearest ? "'?" : "");
    return false;
}

static bool check_section(const EchYamlNode *node, const char *section, const Field *fields, const char *const *others, GError **error)
{
    g_autoptr(GPtrArray) keys = g_ptr_array_new();
    for (; fields->key; fields++)
        g_ptr_array_add(keys, (char *)(uintptr_t)fields->key);
    for (; *others; others++)
        g_ptr_array_add(keys, (char *)(uintptr_t)*others);
    g_ptr_array_add(keys, NULL);
    return ech_yaml_check_keys(node, section, (const char *const *)keys->pdata, error);
}

enum { MOST_PLAIN_BYTES = 1024 };

/* Where a number stands that may have a source beside it. */
static const EchYamlNode *value_of(const EchYamlNode *number)
{
    const EchYamlNode *value = number->kind == ECH_YAML_MAP ? ech_yaml_get(number, "value") : NULL;
    return value ? value : number;
}

/* The memory that a host's lies within: one of the device that stands before it. */
static bool read_within(const EchDevice *device, const EchYamlNode *node, EchMemory *memory, const char *section, GError **error)
{
    const EchYamlNode *within = ech_yaml_get(node, "within");
    const EchMemory *whole = within && within->kind == ECH_YAML_SCALAR ? ech_device_memory(device, within->text) : NULL;
    if (!within)
        return true;
    bool host = memory->kind == ECH_MEM_HOST_PINNED || memory->kind == ECH_MEM_HOST_PAGEABLE;
    if (!host || !whole || whole == memory || whole->kind != ECH_MEM_HBM) {
        ech_yaml_error(within, error, "%s.within: %s", section,
                       host ? "expected the device's own memory, 'hbm', where the host has no other"
                            : "only a host's memory may be another's, like 'within: hbm'");
        return false;
    }
    memory->within = (uint32_t)(whole - device->memories) + 1;
    return true;
}

static bool read_memory(Loader *loader, const EchYamlNode *node, EchMemory *memory, GError **error)
{
    static const char *const others[] = {"kind", "source", "dram", "within", NULL};
    g_autofree char *section = g_strdup_printf("memories.%s", memory->name);
    if (!check_section(node, section, memory_fields, others, error))
        return false;
    memory->space = -1;
    memory->granule = 1;
    const EchYamlNode *kind = ech_yaml_get(node, "kind");
    if (!kind) {
        ech_yaml_error(node, error, "%s: expected a kind", section);
        return false;
    }
    size_t index;
    if (!read_name(kind, section, memory_kinds, &index, error))
        return false;
    memory->kind = (EchMemoryKind)index;
    const EchYamlNode *dram = ech_yaml_get(node, "dram");
    if (dram && !read_name(dram, section, ech_hbm_names(), &index, error))
        return false;
    memory->dram = dram ? g_strdup(dram->text) : NULL;
    if (!read_within(loader->device, node, memory, section, error))
        return false;
    const char *source = ech_yaml_text(node, "source");
    for (size_t i = 0; i < node->n; i++) {
        const Field *field = find_field(memory_fields, node->keys[i]);
        if (field && !read_field(loader, field, node->items[i], section, source, memory, error))
            return false;
    }
    const EchYamlNode *capacity = ech_yaml_get(node, "capacity");
    if (!capacity) {
        ech_yaml_error(node, error, "%s: expected a capacity", section);
        return false;
    }
    /* A number without a unit is bytes, which nobody means who writes so few. */
    const EchYamlNode *written = value_of(capacity);
    if (memory->capacity < MOST_PLAIN_BYTES && !written->text[strspn(written->text, "0123456789.")]) {
        ech_yaml_error(written, error, "%s.capacity: '%s' is %s bytes; expected something like 16GiB", section, written->text, written->text);
        return false;
    }
    if (memory->capacity == 0) { /* which models take for one of no bounds */
        ech_yaml_error(written, error, "%s.capacity: '%s' leaves no memory; expected something like 16GiB", section, written->text);
        return false;
    }
    EchRate said = MAX(memory->read, memory->write), one = said ? said : memory->both;
    memory->read = memory->read ? memory->read : one;
    memory->write = memory->write ? memory->write : one;
    if (!ech_yaml_get(node, "available"))
        memory->available = memory->capacity;
    if (!ech_yaml_get(node, "assignment_limit"))
        memory->assignment_limit = memory->available;
    if (memory->granule == 0) {
        ech_yaml_error(ech_yaml_get(node, "granule"), error, "%s.granule: must be at least 1", section);
        return false;
    }
    return true;
}

static bool read_end(const EchDevice *device, const EchYamlNode *node, const char *section, const char *key, uint32_t *ret, GError **error)
{
    g_autofree char *path = g_strdup_printf("%s.%s", section, key);
    const EchYamlNode *end = ech_yaml_get(node, key);
    if (!end) {
        ech_yaml_error(node, error, "%s: expected '%s', a memory's name", section, key);
        return false;
    }
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    for (size_t i = 0; i < device->n_memories; i++)
        g_ptr_array_add(names, device->memories[i].name);
    g_ptr_array_add(names, NULL);
    size_t index;
    if (!read_name(end, path, (const char *const *)names->pdata, &index, error))
        return false;
    *ret = (uint32_t)index;
    return true;
}

static bool read_link(Loader *loader, const EchYamlNode *node, EchLink *link, GError **error)
{
    static const char *const others[] = {"from", "to", "curve", "curve_from_device", "source", NULL};
    g_autofree char *section = g_strdup_printf("links.%s", link->name);
    if (!check_section(node, section, link_fields, others, error))
        return false;
    link->engines_to = link->engines_from = link->ports = link->sharers = 1;
    if (!read_end(loader->device, node, section, "from", &link->from, error) || !read_end(loader->device, node, section, "to", &link->to, error))
        return false;
    const char *source = ech_yaml_text(node, "source");
    for (size_t i = 0; i < node->n; i++) {
        const Field *field = find_field(link_fields, node->keys[i]);
        if (field && !read_field(loader, field, node->items[i], section, source, link, error))
            return false;
        if (strcmp(node->keys[i], "curve") == 0 && !read_curve(loader, node->items[i], section, "curve", source, &link->curve, &link->n_curve, error))
            return false;
        if (strcmp(node->keys[i], "curve_from_device") == 0 &&
            !read_curve(loader, node->items[i], section, "curve_from_device", source, &link->curve_from, &link->n_curve_from, error))
            return false;
    }
    if (link->to_device == 0 || link->from_device == 0) {
        ech_yaml_error(node, error, "%s: expected to_device and from_device, rates above 0", section);
        return false;
    }
    link->measured_to = link->measured_to ? link->measured_to : link->to_device;
    link->measured_from = link->measured_from ? link->measured_from : link->from_device;
    if (link->engines_to == 0 || link->engines_from == 0 || link->ports == 0 || link->sharers == 0) {
        ech_yaml_error(node, error, "%s: engines, ports and sharers must be at least 1", section);
        return false;
    }
    return true;
}

static bool read_unit(Loader *loader, const EchYamlNode *node, EchUnit *unit, GError **error)
{
    static const char *const others[] = {"kind", "peaks", "source", NULL};
    g_autofree char *section = g_strdup_printf("units.%s", unit->name);
    const EchYamlNode *known = ech_yaml_get(node, "peaks");
    for (size_t i = 0; known && known->keys && i < known->n; i++) {
        const EchYamlNode *misplaced = ech_yaml_get(node, known->keys[i]);
        if (misplaced) {
            ech_yaml_error(misplaced, error, "%s: '%s' is no key here; did you mean 'peaks.%s'?", section, known->keys[i], known->keys[i]);
            return false;
        }
    }
    if (!check_section(node, section, unit_fields, others, error))
        return false;
    unit->count = 1;
    const EchYamlNode *kind = ech_yaml_get(node, "kind");
    size_t index = 0;
    if (kind && !read_name(kind, section, unit_kinds, &index, error))
        return false;
    for (size_t i = 0; !kind && unit_kinds[i]; i++) {
        if (strcmp(unit_kinds[i], unit->name) == 0) {
            index = i;
            break;
        }
        if (!unit_kinds[i + 1]) {
            ech_yaml_error(node, error, "%s: expected a kind, one of matrix, vector, transcendental, scalar", section);
            return false;
        }
    }
    unit->kind = (EchUnitKind)index;
    const char *source = ech_yaml_text(node, "source");
    for (size_t i = 0; i < node->n; i++) {
        const Field *field = find_field(unit_fields, node->keys[i]);
        if (field && !read_field(loader, field, node->items[i], section, source, unit, error))
            return false;
        if (strcmp(node->keys[i], "peaks") != 0)
            continue;
        const EchYamlNode *peaks = node->items[i];
        if (peaks->kind != ECH_YAML_MAP) {
            ech_yaml_error(peaks, error, "%s.peaks: expected element types with their rates, like {bf16: 197TFLOP/s}", section);
            return false;
        }
        g_autofree char *types = g_strdup_printf("%s.peaks", section);
        if (!ech_yaml_check_keys(peaks, types, element_types, error))
            return false;
        unit->peaks = g_new0(EchPeak, peaks->n + 1);
        for (size_t j = 0; j < peaks->n; j++) {
            const Field peak = {peaks->keys[j], FIELD_OPS, offsetof(EchPeak, ops), NULL};
            unit->peaks[j].dtype = g_strdup(peaks->keys[j]);
            unit->n_peaks = j + 1;
            if (!read_field(loader, &peak, peaks->items[j], types, source, &unit->peaks[j], error))
                return false;
        }
    }
    return true;
}

/* Of a time among the numbers: a run ends at 46 days. */
enum { LONGEST_DAYS = 10 };
#define LONGEST (LONGEST_DAYS * 86400.0 * (double)ECH_PS_PER_S)

/* Numbers of the models: any depth, any names; plain numbers, or with a unit (times in ps, sizes in bytes, rates per second). */
static bool read_numbers(Loader *loader, const EchYamlNode *node, const char *path, const char *source, GError **error)
{
    bool is_number = node->kind == ECH_YAML_SCALAR || ech_yaml_get(node, "value");
    if (!is_number) {
        const char *own = ech_yaml_text(node, "source");
        for (size_t i = 0; i < node->n; i++) {
            if (node->keys && strcmp(node->keys[i], "source") == 0)
                continue;
            g_autofree char *step = node->keys ? g_strdup_printf("%s.%s", path, node->keys[i]) : g_strdup_printf("%s.%zu", path, i);
            if (!read_numbers(loader, node->items[i], step, own ? own : source, error))
                return false;
        }
        return true;
    }
    const char *number_source;
    const EchYamlNode *number = number_node(node, path, source, &number_source, error);
    if (!number)
        return false;
    double value = 0;
    uint64_t u64;
    EchTime time;
    const char *text = number->text;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        value = text[0] == 't';
    else if (ech_parse_double(text, &value, NULL))
        ;
    else if (ech_parse_time(text, &time, NULL))
        value = (double)time;
    else if (ech_parse_bytes(text, &u64, NULL) || ech_parse_rate(text, &u64, NULL) || ech_parse_ops(text, &u64, NULL))
        value = (double)u64;
    else {
        char *end;
        (void)g_ascii_strtod(text, &end);
        g_autofree char *plain = end > text ? g_strdup_printf("'%.*s' or ", (int)(end - text), text) : g_strdup(""); /* of "500W" */
        ech_yaml_error(number, error, "%s: '%s' is not a number; expected %ssomething like 0.9, 5us or 4MiB", path, text, plain);
        return false;
    }
    if (g_str_has_suffix(path, "_ps") && !(value >= 0 && value <= LONGEST)) {
        ech_yaml_error(number, error, "%s: '%s' is not a time; expected something like 5us, at most %d days", path, text, LONGEST_DAYS);
        return false;
    }
    add_number(loader, g_strdup(path), value, number_source);
    return true;
}

static bool read_list(Loader *loader, const EchYamlNode *root, const char *key, GError **error)
{
    EchDevice *device = loader->device;
    const EchYamlNode *list = ech_yaml_get(root, key);
    if (!list || list->kind != ECH_YAML_MAP || list->n == 0 || list->n > 64) {
        if (!list && strcmp(key, "links") == 0)
            return true;
        ech_yaml_error(list ? list : root, error, "%s: expected names with what each is, at most 64", key);
        return false;
    }
    if (strcmp(key, "memories") == 0) {
        device->memories = g_new0(EchMemory, list->n);
        for (size_t i = 0; i < list->n; i++) {
            device->memories[i].name = g_strdup(list->keys[i]);
            device->n_memories = i + 1;
            if (!read_memory(loader, list->items[i], &device->memories[i], error))
                return false;
        }
    } else if (strcmp(key, "links") == 0) {
        device->links = g_new0(EchLink, list->n);
        for (size_t i = 0; i < list->n; i++) {
            device->links[i].name = g_strdup(list->keys[i]);
            device->n_links = i + 1;
            if (!read_link(loader, list->items[i], &device->links[i], error))
                return false;
        }
    } else {
        device->units = g_new0(EchUnit, list->n);
        for (size_t i = 0; i < list->n; i++) {
            device->units[i].name = g_strdup(list->keys[i]);
            device->n_units = i + 1;
            if (!read_unit(loader, list->items[i], &device->units[i], error))
                return false;
        }
    }
    return true;
}

static bool read_text(const EchYamlNode *root, const char *key, bool required, char **ret, GError **error)
{
    const EchYamlNode *node = ech_yaml_get(root, key);
    if (!node && !required) {
        *ret = g_strdup("");
        return true;
    }
    if (!node) {
        ech_yaml_error(root, error, "device: expected '%s', a text, among its keys", key);
        return false;
    }
    if (node->kind != ECH_YAML_SCALAR || (required && !*node->text)) {
        ech_yaml_error(node, error, "%s: expected a text", key);
        return false;
    }
    *ret = g_strdup(node->text);
    return true;
}

/* A list of names in quotes. */
static bool read_products(const EchYamlNode *root, char ***ret, GError **error)
{
    const EchYamlNode *node = ech_yaml_get(root, "products");
    if (!node)
        return true;
    if (node->kind != ECH_YAML_LIST) {
        ech_yaml_error(node, error, "products: expected a list of names as captures give them, like [\"NVIDIA H200\"]");
        return false;
    }
    g_autoptr(GStrvBuilder) products = g_strv_builder_new();
    for (size_t i = 0; i < node->n; i++) {
        if (node->items[i]->kind != ECH_YAML_SCALAR || !*node->items[i]->text) {
            ech_yaml_error(node->items[i], error, "products: expected a name");
            return false;
        }
        g_strv_builder_add(products, node->items[i]->text);
    }
    *ret = g_strv_builder_end(products);
    return true;
}

EchDevice *ech_device_from_yaml(const EchYamlNode *root, GError **error)
{
    static const char *const keys[] = {"name",   "summary", "family", "compiler", "products", "cores",      "memories",   "links", "units",
                                       "kernel", "runtime", "layout", "dram",     "mig",      "calibrated", "unmeasured", NULL};
    static const char *const families[] = {"tpu", "gpu", "other", NULL};
    if (!ech_yaml_check_keys(root, "device", keys, error))
        return NULL;
    g_autoptr(EchDevice) device = ech_device_new();
    g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(EchDeviceNumber));
    g_array_set_clear_func(numbers, number_clear);
    Loader loader = {.device = device, .numbers = numbers};
    size_t family;
    if (!read_text(root, "name", true, &device->name, error) || !read_text(root, "summary", false, &device->summary, error) ||
        !read_text(root, "family", true, &device->family, error) || !read_text(root, "compiler", false, &device->compiler, error) ||
        !read_text(root, "calibrated", false, &device->calibrated, error) || !read_text(root, "unmeasured", false, &device->unmeasured, error) ||
        !read_name(ech_yaml_get(root, "family"), "family", families, &family, error) || !read_products(root, &device->products, error))
        return NULL;
    if (!*device->calibrated)
        g_clear_pointer(&device->calibrated, g_free);
    if (!*device->unmeasured)
        g_clear_pointer(&device->unmeasured, g_free);
    const EchYamlNode *cores = ech_yaml_get(root, "cores");
    if (cores) {
        const char *source;
        const EchYamlNode *number = number_node(cores, "cores", NULL, &source, error);
        if (!number)
            return NULL;
        uint64_t n;
        if (!ech_parse_u64(number->text, &n, NULL) || n == 0 || n > 1024) {
            ech_yaml_error(number, error, "cores: '%s' is no number of cores; expected 1 to 1024", number->text);
            return NULL;
        }
        device->cores = (uint32_t)n;
        add_number(&loader, g_strdup("cores"), (double)n, source);
    }
    if (!read_list(&loader, root, "memories", error) || !read_list(&loader, root, "links", error) || !read_list(&loader, root, "units", error))
        return NULL;
    static const char *const models[] = {"kernel", "runtime", "layout", "dram", "mig", NULL};
    for (const char *const *model = models; *model; model++) {
        const EchYamlNode *node = ech_yaml_get(root, *model);
        if (node && node->kind == ECH_YAML_SCALAR && *node->text) {
            ech_yaml_error(node, error, "%s: expected names with numbers", *model);
            return NULL;
        }
        if (node && node->kind != ECH_YAML_SCALAR && !read_numbers(&loader, node, *model, NULL, error))
            return NULL;
    }
    if (!ech_device_memory(device, "hbm")) {
        ech_yaml_error(ech_yaml_get(root, "memories"), error, "memories: expected one named 'hbm'");
        return NULL;
    }
    const EchYamlNode *kernel = ech_yaml_get(root, "kernel"), *power = kernel && kernel->kind == ECH_YAML_MAP ? ech_yaml_get(kernel, "power") : NULL;
    if (power && !ech_yaml_get(kernel, "rated_power")) {
        ech_yaml_error(
            power, error,
            "kernel.power: how %s slows under less power than its own is not known; expected kernel.rated_power, the watts that its rates were measured under",
            device->name);
        return NULL;
    }
    g_autofree char *canonical = ech_yaml_print(root);
    device->hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = canonical; *at; at++)
        device->hash = (device->hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    device->n_numbers = numbers->len;
    g_array_set_clear_func(numbers, NULL);
    device->numbers = (EchDeviceNumber *)(void *)g_array_steal(numbers, NULL);
    index_numbers(device);
    return g_steal_pointer(&device);
}

/* Settings */

static bool is_set(const char *const *settings, const char *section, const char *name, const char *key)
{
    g_autofree char *path = g_strdup_printf("%s.%s.%s", section, name, key);
    size_t n = strlen(path);
    for (; *settings; settings++) {
        if (strncmp(*settings, path, n) == 0 && ((*settings)[n] == '=' || (*settings)[n] == '.'))
            return true;
    }
    return false;
}

static uint64_t scale(uint64_t value, double factor)
{
    double scaled = (double)value * factor;
    return scaled >= 18e18 ? G_MAXUINT64 : (uint64_t)(scaled + 0.5);
}

/* How many times as many lanes @unit has as @was of @base. What the file did not say was no number of them: saying it changes none. */
static double more_lanes(const EchUnit *unit, const EchUnit *was, const EchDevice *base)
{
    const struct {
        const char *key;
        uint32_t now, before;
    } numbers[] = {{"count", unit->count, was->count}, {"rows", unit->rows, was->rows}, {"columns", unit->columns, was->columns}};
    double more = 1;
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        g_autofree char *path = g_strdup_printf("units.%s.%s", unit->name, numbers[i].key);
        more *= ech_device_number(base, path, 0) > 0 ? (double)MAX(numbers[i].now, 1u) / (double)MAX(numbers[i].before, 1u) : 1;
    }
    return more;
}

static const uint64_t *find_peak(const EchDevice *device, const char *unit, const char *dtype)
{
    for (size_t i = 0; i < device->n_units; i++)
        for (size_t k = 0; strcmp(device->units[i].name, unit) == 0 && k < device->units[i].n_peaks; k++)
            if (strcmp(device->units[i].peaks[k].dtype, dtype) == 0)
                return &device->units[i].peaks[k].ops;
    return NULL;
}

/* Reads and writes in equal parts are no faster than the slower of them alone. */
static EchRate most_of_both(const EchMemory *memory)
{
    return 2 * MIN(MIN(memory->read, memory->write), UINT64_MAX / 2);
}

static void follow_memory(EchMemory *memory, const EchMemory *was, const char *const *settings)
{
    if (memory->capacity != was->capacity && !is_set(settings, "memories", memory->name, "available")) {
        EchBytes kept = was->capacity > was->available ? was->capacity - was->available : 0;
        memory->available = memory->capacity - MIN(kept, memory->capacity / 2);
    }
    if (memory->available != was->available && !is_set(settings, "memories", memory->name, "assignment_limit")) {
        EchBytes kept = was->available > was->assignment_limit ? was->available - was->assignment_limit : 0;
        memory->assignment_limit = memory->available - MIN(kept, memory->available / 2);
    }
    double before = (double)was->read + (double)was->write, after = (double)memory->read + (double)memory->write;
    if (before > 0 && after != before && was->read && was->write && !is_set(settings, "memories", memory->name, "both"))
        memory->both = MIN(scale(memory->both, after / before), most_of_both(memory));
}

static void follow_link(EchLink *link, const EchLink *was, const char *const *settings)
{
    double factor = ((double)link->to_device + (double)link->from_device) / ((double)was->to_device + (double)was->from_device);
    if (factor != 1 && !is_set(settings, "links", link->name, "both_ways")) {
        /* One way alone is not held up by what the other has less. */
        EchRate one = MAX(link->to_device, link->from_device), one_was = MAX(was->to_device, was->from_device);
        link->both_ways = was->both_ways >= one_was ? MAX(scale(link->both_ways, factor), one) : scale(link->both_ways, factor);
    }
    /* Copies keep their set-up: what the curve takes beyond the bytes at the rate it was measured beside. */
    bool own = is_set(settings, "links", link->name, "curve") || is_set(settings, "links", link->name, "curve_from_device");
    if (!is_set(settings, "links", link->name, "measured_to"))
        link->measured_to = own ? link->to_device : was->measured_to;
    if (!is_set(settings, "links", link->name, "measured_from"))
        link->measured_from = own ? link->from_device : was->measured_from;
}

static void follow_unit(EchUnit *unit, const EchUnit *was, const EchDevice *base, const char *const *settings)
{
    double clock = was->clock_hz > 0 && unit->clock_hz > 0 ? (double)unit->clock_hz / (double)was->clock_hz : 1, factor = clock * more_lanes(unit, was, base);
    for (size_t k = 0; factor != 1 && k < unit->n_peaks && !is_set(settings, "units", unit->name, "peaks"); k++)
        unit->peaks[k].ops = scale(unit->peaks[k].ops, factor);
    unit->counted_clock = unit->counted_clock ? unit->counted_clock : was->clock_hz;
    unit->counted_peak = unit->counted_peak ? unit->counted_peak : ech_unit_peak(was, "f32");
}

/* The listed numbers say what is in force. */
static void follow_numbers(EchDevice *device)
{
    for (size_t i = 0; i < device->n_numbers; i++) {
        EchDeviceNumber *number = &device->numbers[i];
        g_auto(GStrv) steps = g_strsplit(number->path, ".", 3);
        if (g_strv_length(steps) != 3)
            continue;
        const Field *field = NULL;
        const void *object = NULL;
        if (strcmp(steps[0], "memories") == 0) {
            field = find_field(memory_fields, steps[2]);
            object = ech_device_memory(device, steps[1]);
        } else if (strcmp(steps[0], "links") == 0) {
            field = find_field(link_fields, steps[2]);
            object = ech_device_link(device, steps[1]);
        } else if (strcmp(steps[0], "units") == 0 && g_str_has_prefix(steps[2], "peaks.")) {
            static const Field peak = {"ops", FIELD_OPS, 0, NULL};
            field = &peak;
            object = find_peak(device, steps[1], steps[2] + strlen("peaks."));
        }
        if (!field || !object || field_size(field->type) != sizeof(uint64_t) || field->type == FIELD_TIME)
            continue;
        uint64_t value;
        memcpy(&value, (const char *)object + field->offset, sizeof value);
        if ((double)value != number->value) {
            number->value = (double)value;
            char *source = g_strdup_printf("follows what was changed; was %s", number->source);
            g_free(number->source);
            number->source = source;
        }
    }
}

/* What hangs together with an edited number and was not edited itself: documented at ech_device_load_yaml. */
static void follow_settings(EchDevice *device, const EchDevice *base, const char *const *settings)
{
    for (size_t i = 0; i < device->n_memories; i++) {
        const EchMemory *was = ech_device_memory(base, device->memories[i].name);
        if (was)
            follow_memory(&device->memories[i], was, settings);
    }
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *was = ech_device_link(base, device->links[i].name);
        if (was)
            follow_link(&device->links[i], was, settings);
    }
    for (size_t i = 0; i < device->n_units; i++) {
        const EchUnit *was = NULL;
        for (size_t k = 0; k < base->n_units && !was; k++)
            was = strcmp(base->units[k].name, device->units[i].name) == 0 ? &base->units[k] : NULL;
        if (was)
            follow_unit(&device->units[i], was, base, settings);
    }
    follow_numbers(device);
}

/* Edits that meant a part of the device, and made one of another name that lacks what a part needs. */
static void explain_new_part(const EchYamlNode *root, const EchYamlNode *edited, GError **error)
{
    static const char *const sections[] = {"memories", "links", "units"};
    for (size_t k = 0; k < G_N_ELEMENTS(sections); k++) {
        const EchYamlNode *had = ech_yaml_get(root, sections[k]), *has = ech_yaml_get(edited, sections[k]);
        if (!had || !has || had->kind != ECH_YAML_MAP || has->kind != ECH_YAML_MAP)
            continue;
        g_autoptr(GPtrArray) names = g_ptr_array_new();
        for (size_t i = 0; i < had->n; i++)
            g_ptr_array_add(names, had->keys[i]);
        g_ptr_array_add(names, NULL);
        for (size_t i = 0; i < has->n && error && *error; i++) {
            g_autofree char *part = g_strdup_printf("%s.%s", sections[k], has->keys[i]);
            if (ech_yaml_get(had, has->keys[i]) || !strstr((*error)->message, part))
                continue;
            const char *nearest = ech_nearest_name(has->keys[i], (const char *const *)names->pdata);
            g_autofree char *all = g_strjoinv(", ", (char **)names->pdata);
            char *message = g_strdup_printf("%s; its %s are %s%s%s%s", (*error)->message, sections[k], all, nearest ? "; did you mean '" : "",
                                            nearest ? nearest : "", nearest ? "'?" : "");
            g_free((*error)->message);
            (*error)->message = message;
            return;
        }
    }
}

/* A bandwidth is one for each direction: an error about @edit that asks for one of both says which they are. */
static void explain_bandwidth(const char *edit, GError **error)
{
    g_autofree char *path = g_strndup(edit, strcspn(edit, "="));
    const char *key = strrchr(path, '.'), *of = g_str_has_prefix(path, "memories.") ? "'read' and 'write'"
                                                : g_str_has_prefix(path, "links.")  ? "'to_device' and 'from_device'"
                                                                                    : NULL;
    if (!error || !*error || !of || !key || (strcmp(key, ".bandwidth") != 0 && strcmp(key, ".bw") != 0))
        return;
    g_autofree char *about = g_strdup_printf("'%s'", key + 1);
    char *said = strstr((*error)->message, about), *end = said ? strchr(said, ';') : NULL;
    if (!end)
        return;
    char *message = g_strdup_printf("%.*s; did you mean %s, one edit each?", (int)(end - (*error)->message), (*error)->message, of);
    g_free((*error)->message);
    (*error)->message = message;
}

/* No memory hands out more than it has, and each has a number of XLA's of its own. */
static bool check_memories(const EchDevice *device, const EchYamlNode *root, GError **error)
{
    for (size_t i = 0; i < device->n_memories; i++) {
        const EchMemory *memory = &device->memories[i];
        for (size_t k = 0; k < i; k++) {
            if (memory->space < 0 || memory->space != device->memories[k].space)
                continue;
            const EchYamlNode *part = ech_yaml_get(ech_yaml_get(root, "memories"), memory->name), *said = ech_yaml_get(part, "space");
            ech_yaml_error(said ? value_of(said) : root, error, "memories.%s.space: %d is %s's already", memory->name, memory->space, device->memories[k].name);
            return false;
        }
        if (memory->both > most_of_both(memory)) {
            g_autofree char *both = ech_format_rate(memory->both), *slower = ech_format_rate(most_of_both(memory) / 2);
            const EchYamlNode *part = ech_yaml_get(ech_yaml_get(root, "memories"), memory->name), *said = ech_yaml_get(part, "both");
            ech_yaml_error(said ? value_of(said) : root, error,
                           "memories.%s.both: %s of reads and writes in equal parts are more than twice what %s reaches alone, %s", memory->name, both,
                           memory->read <= memory->write ? "read" : "write", slower);
            return false;
        }
        if (memory->available <= memory->capacity)
            continue;
        g_autofree char *has = ech_format_bytes(memory->available), *of = ech_format_bytes(memory->capacity);
        const EchYamlNode *part = ech_yaml_get(ech_yaml_get(root, "memories"), memory->name), *said = ech_yaml_get(part, "available");
        ech_yaml_error(said ? value_of(said) : root, error, "memories.%s.available: %s are more than its capacity, %s", memory->name, has, of);
        return false;
    }
    return true;
}

/* Copies that meet hold each other up, and a link that was measured may carry less both ways than its faster way alone; less than half of the slower way is
 * another unit, or one way's share. Of a device that is; what if it did may be asked. */
static bool check_links(const EchDevice *device, const EchYamlNode *root, GError **error)
{
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *link = &device->links[i];
        EchRate slower = MIN(link->to_device, link->from_device);
        if (link->both_ways == 0 || link->both_ways >= slower / 2)
            continue;
        g_autofree char *both = ech_format_rate(link->both_ways), *alone = ech_format_rate(slower), *sum = ech_format_rate(link->to_device + link->from_device);
        const EchYamlNode *part = ech_yaml_get(ech_yaml_get(root, "links"), link->name), *said = ech_yaml_get(part, "both_ways");
        ech_yaml_error(said ? value_of(said) : root, error,
                       "links.%s.both_ways: %s in all while copies go both ways is less than half of what %s reaches alone, %s; expected up to the sum, %s",
                       link->name, both, link->to_device == slower ? "to_device" : "from_device", alone, sum);
        return false;
    }
    return true;
}

EchDevice *ech_device_load_yaml(const EchYamlNode *root, const char *const *settings, GError **error)
{
    g_autoptr(EchDevice) base = ech_device_from_yaml(root, error);
    if (!base || !check_links(base, root, error))
        return NULL;
    if (!settings || !*settings)
        return check_memories(base, root, error) ? g_steal_pointer(&base) : NULL;
    g_autoptr(EchYamlNode) edited = ech_yaml_copy(root);
    g_autoptr(GPtrArray) plain = g_ptr_array_new();
    for (const char *const *setting = settings; *setting; setting++) {
        const char *edit = g_str_has_prefix(*setting, "device.") ? *setting + strlen("device.") : *setting;
        g_ptr_array_add(plain, (char *)(uintptr_t)edit);
        if (!ech_yaml_edit(edited, "device.", edit, error)) {
            explain_bandwidth(edit, error);
            return NULL;
        }
    }
    g_ptr_array_add(plain, NULL);
    g_autoptr(EchDevice) device = ech_device_from_yaml(edited, error);
    if (!device) {
        explain_new_part(root, edited, error);
        for (const char *const *setting = (const char *const *)plain->pdata; *setting; setting++)
            explain_bandwidth(*setting, error);
        return NULL;
    }
    follow_settings(device, base, (const char *const *)plain->pdata);
    return check_memories(device, edited, error) ? g_steal_pointer(&device) : NULL;
}

/* Folders */

static char **device_folders(void)
{
    g_autoptr(GPtrArray) folders = g_ptr_array_new();
    const char *own = g_getenv("ECHELON_DEVICES");
    if (own && *own) {
        g_auto(GStrv) parts = g_strsplit(own, ":", -1);
        for (char **part = parts; *part; part++) {
            if (**part)
                g_ptr_array_add(folders, g_strdup(*part));
        }
    }
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    if (program) {
        g_autofree char *folder = g_path_get_dirname(program);
        g_ptr_array_add(folders, g_build_filename(folder, "configs", "devices", NULL));
        g_ptr_array_add(folders, g_build_filename(folder, "..", ECH_INSTALL_DATA, "devices", NULL));
    }
    g_ptr_array_add(folders, g_build_filename(ECH_SOURCE_CONFIGS, "devices", NULL));
    g_ptr_array_add(folders, NULL);
    return (char **)g_ptr_array_steal(folders, NULL);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **ech_device_list(void)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    g_auto(GStrv) folders = device_folders();
    for (char **folder = folders; *folder; folder++) {
        g_autoptr(GDir) dir = g_dir_open(*folder, 0, NULL);
        const char *file;
        while (dir && (file = g_dir_read_name(dir))) {
            if (g_str_has_suffix(file, ".yaml") && file[0] != '.')
                g_ptr_array_add(names, g_strndup(file, strlen(file) - strlen(".yaml")));
        }
    }
    g_ptr_array_sort(names, compare_names);
    for (guint i = 1; i < names->len;) {
        if (strcmp(names->pdata[i - 1], names->pdata[i]) == 0)
            g_free(g_ptr_array_remove_index(names, i));
        else
            i++;
    }
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_steal(names, NULL);
}

static int by_room(const void *a, const void *b)
{
    const EchDevice *x = *(EchDevice *const *)a, *y = *(EchDevice *const *)b;
    EchBytes room_x = ech_device_memory(x, "hbm")->available, room_y = ech_device_memory(y, "hbm")->available;
    return room_x != room_y ? (room_x > room_y) - (room_x < room_y) : strcmp(x->name, y->name);
}

GPtrArray *ech_device_with_room(const char *family, bool amd, EchBytes bytes)
{
    g_auto(GStrv) names = ech_device_list();
    GPtrArray *devices = g_ptr_array_new_with_free_func((GDestroyNotify)ech_device_free);
    for (char **name = names; *name; name++) {
        EchDevice *device = ech_device_load(*name, NULL, NULL);
        const EchMemory *hbm = device ? ech_device_memory(device, "hbm") : NULL;
        if (hbm && !device->calibrated && g_strcmp0(device->family, family) == 0 && ech_device_is_amd(device) == amd && hbm->available >= bytes)
            g_ptr_array_add(devices, device);
        else
            ech_device_free(device);
    }
    g_ptr_array_sort(devices, by_room);
    return devices;
}

bool ech_device_same_size(const EchDevice *a, const EchDevice *b)
{
    const EchBytes half = (EchBytes)1 << 29, gib = (EchBytes)1 << 30;
    return (ech_device_memory(a, "hbm")->capacity + half) / gib == (ech_device_memory(b, "hbm")->capacity + half) / gib;
}

GPtrArray *ech_device_of_each_size(const GPtrArray *devices)
{
    GPtrArray *chosen = g_ptr_array_new();
    for (guint i = 0; i < devices->len; i++) {
        EchDevice *device = devices->pdata[i];
        guint at = 0;
        while (at < chosen->len && !ech_device_same_size(chosen->pdata[at], device))
            at++;
        if (at == chosen->len)
            g_ptr_array_add(chosen, device);
        else if (((const EchDevice *)chosen->pdata[at])->unmeasured && !device->unmeasured)
            chosen->pdata[at] = device;
    }
    return chosen;
}

/* All of @names that hold @text: "v5" stands in two. */
static void add_names_with(const char *text, char **names, GString *near)
{
    for (char **name = names; *name && strlen(text) >= 2; name++) {
        if (strstr(*name, text))
            g_string_append_printf(near, "%s'%s'", near->len ? " or " : "", *name);
    }
}

/* What clouds and their makers call chips, in small letters, without their number: "v5litepod-8" is eight of a v5e. */
static const char *chip_called(const char *given)
{
    static const struct {
        const char *called, *name;
    } chips[] = {{"v5lite", "tpu-v5e"}, {"tpu-v5lite", "tpu-v5e"}, {"trillium", "tpu-v6e"}, {"v6lite", "tpu-v6e"}, {"ironwood", "tpu7x"}, {"v7x", "tpu7x"}};
    for (size_t i = 0; i < G_N_ELEMENTS(chips); i++) {
        if (g_str_has_prefix(given, chips[i].called))
            return chips[i].name;
    }
    return NULL;
}

/* Path of the file of a device by name, or @name_or_path itself where it is a path. Owned by the caller. */
static char *find_file(const char *name_or_path, GError **error)
{
    if (strchr(name_or_path, '/') || g_str_has_suffix(name_or_path, ".yaml") || g_str_has_suffix(name_or_path, ".pbtxt") ||
        g_str_has_suffix(name_or_path, ".txtpb"))
        return g_strdup(name_or_path);
    g_auto(GStrv) folders = device_folders();
    for (char **folder = folders; *folder; folder++) {
        g_autofree char *file = g_strconcat(name_or_path, ".yaml", NULL);
        g_autofree char *path = g_build_filename(*folder, file, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
            return g_steal_pointer(&path);
    }
    if (g_file_test(name_or_path, G_FILE_TEST_IS_REGULAR))
        return g_strdup(name_or_path);
    g_auto(GStrv) names = ech_device_list();
    g_autofree char *given = g_ascii_strdown(name_or_path, -1);
    g_autoptr(GString) near = g_string_new(NULL);
    add_names_with(given, names, near);
    char *model = given + strcspn(given, "-_ ");
    if (!near->len && *model && strcspn(given, "0123456789") < (size_t)(model - given)) { /* of "H100-80GB" the H100 is right */
        *model = '\0';
        add_names_with(given, names, near);
    }
    const char *called = near->len ? NULL : chip_called(given),
               *nearest = near->len || called ? called : ech_nearest_name(name_or_path, (const char *const *)names);
    if (nearest)
        g_string_append_printf(near, "'%s'", nearest);
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no device; %s%s%s", name_or_path,
                near->len ? "did you mean "
                : *names  ? "expected a file, or a name of those that 'echelon list devices' shows"
                          : "no device files were found",
                near->str, near->len ? "?" : "");
    return NULL;
}

/* A device file as it stands, or XLA's description of a GPU. */
static EchYamlNode *load_file(const char *path, GError **error)
{
    g_autoptr(GMappedFile) file = g_str_has_suffix(path, ".yaml") ? NULL : ech_map_file(path, NULL);
    const char *text = file ? g_mapped_file_get_contents(file) : NULL;
    gsize n = file ? g_mapped_file_get_length(file) : 0;
    if (!text || n > (gsize)1 << 20 || !ech_gpu_target_probe(text, n))
        return ech_yaml_load(path, error);
    g_autoptr(GString) yaml = ech_gpu_target_yaml(text, n, path, error);
    return yaml ? ech_yaml_parse(yaml->str, yaml->len, path, error) : NULL;
}

/* Whether names stand below the node; a number with its source is one thing. */
static bool is_section(const EchYamlNode *node)
{
    return node->kind == ECH_YAML_MAP && !ech_yaml_get(node, "value");
}

/* "none" where the base has something. */
static bool takes_away(const EchYamlNode *node)
{
    return node && node->kind == ECH_YAML_SCALAR && !node->quoted && strcmp(node->text, "none") == 0;
}

/* @own where it says something, @base's elsewhere, with the name of that device before its sources. @own may be NULL. */
static EchYamlNode *put_over(const EchYamlNode *base, const EchYamlNode *own, const char *name)
{
    if (own && !(is_section(own) && is_section(base)))
        return ech_yaml_copy(own);
    if (base->kind != ECH_YAML_MAP)
        return ech_yaml_copy(base);
    EchYamlNode *node = ech_yaml_new_map(own ? own->file : base->file);
    for (size_t i = 0; i < base->n; i++) {
        const EchYamlNode *item = base->items[i], *over = ech_yaml_get(own, base->keys[i]);
        if (takes_away(over))
            continue;
        bool borrowed = !over && strcmp(base->keys[i], "source") == 0 && item->kind == ECH_YAML_SCALAR && !g_str_has_prefix(item->text, "as ");
        g_autofree char *source = borrowed ? g_strdup_printf("as %s: %s", name, item->text) : NULL;
        ech_yaml_put(node, base->keys[i], borrowed ? ech_yaml_new_scalar(source, item->file) : put_over(item, over, name));
    }
    for (size_t i = 0; own && i < own->n; i++) {
        if (!ech_yaml_get(base, own->keys[i]))
            ech_yaml_put(node, own->keys[i], ech_yaml_copy(own->items[i]));
    }
    return node;
}

/* What is said of one device only. */
static EchYamlNode *without_identity(const EchYamlNode *base)
{
    static const char *const identity[] = {"name", "summary", "products", "calibrated", "mig", NULL};
    EchYamlNode *rest = ech_yaml_new_map(base->file);
    for (size_t i = 0; i < base->n; i++) {
        if (!g_strv_contains(identity, base->keys[i]))
            ech_yaml_put(rest, base->keys[i], ech_yaml_copy(base->items[i]));
    }
    return rest;
}

/* "memories.hbm.capacity=" of all that the file says of parts by itself, as settings are written. */
static char **own_paths(const EchYamlNode *own)
{
    g_autoptr(GStrvBuilder) paths = g_strv_builder_new();
    for (size_t i = 0; i < own->n; i++) {
        for (size_t j = 0; own->items[i]->kind == ECH_YAML_MAP && j < own->items[i]->n; j++) {
            const EchYamlNode *part = own->items[i]->items[j];
            for (size_t k = 0; part->kind == ECH_YAML_MAP && k < part->n; k++) {
                g_autofree char *path = g_strdup_printf("%s.%s.%s=", own->keys[i], own->items[i]->keys[j], part->keys[k]);
                g_strv_builder_add(paths, path);
            }
        }
    }
    return g_strv_builder_end(paths);
}

/* Writes a number of the device into its tree. */
static void put_number(EchYamlNode *node, const EchDeviceNumber *number)
{
    g_auto(GStrv) steps = g_strsplit(number->path, ".", -1);
    guint n = g_strv_length(steps);
    for (guint i = 0; node && i + 1 < n; i++)
        node = ech_yaml_get(node, steps[i]);
    if (!node || node->kind != ECH_YAML_MAP)
        return;
    const Field *field = strcmp(steps[0], "memories") == 0 ? find_field(memory_fields, steps[n - 1])
                         : strcmp(steps[0], "links") == 0  ? find_field(link_fields, steps[n - 1])
                                                           : NULL;
    FieldType type = field ? field->type : FIELD_OPS; /* peaks of units */
    g_autofree char *text = g_strdup_printf("%.0f%s", number->value, type == FIELD_RATE ? "B/s" : type == FIELD_OPS ? "OP/s" : type == FIELD_TIME ? "ps" : "");
    EchYamlNode *said = ech_yaml_new_map(node->file);
    ech_yaml_put(said, "value", ech_yaml_new_scalar(text, node->file));
    ech_yaml_put(said, "source", ech_yaml_new_scalar(number->source, node->file));
    ech_yaml_put(node, steps[n - 1], said);
}

/* Writes beside which rates numbers of a part in @section hold, where those are no longer its own. */
static void put_beside(EchYamlNode *node, const char *section, const char *name, const char *key, uint64_t beside, uint64_t now)
{
    EchYamlNode *part = ech_yaml_get(ech_yaml_get(node, section), name);
    if (beside == 0 || beside == now || !part || part->kind != ECH_YAML_MAP || ech_yaml_get(part, key))
        return;
    g_autofree char *path = g_strdup_printf("%s.%s.%s", section, name, key);
    put_number(node, &(EchDeviceNumber){.path = path, .value = (double)beside, .source = (char *)(uintptr_t) "as its base's"});
}

/* The same for all parts of @device that have such numbers. */
static void put_all_beside(EchYamlNode *node, const EchDevice *device)
{
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *link = &device->links[i];
        if (link->n_curve + link->n_curve_from == 0)
            continue;
        put_beside(node, "links", link->name, "measured_to", link->measured_to, link->to_device);
        put_beside(node, "links", link->name, "measured_from", link->measured_from, link->from_device);
    }
    for (size_t i = 0; i < device->n_units && g_strcmp0(device->family, "tpu") == 0; i++) {
        const EchUnit *unit = &device->units[i];
        if (unit->kind == ECH_UNIT_MATRIX)
            put_beside(node, "units", unit->name, "counted_clock", unit->counted_clock, unit->clock_hz);
        else
            put_beside(node, "units", unit->name, "counted_peak", unit->counted_peak, ech_unit_peak(unit, "f32"));
    }
}

/* What hangs together with the numbers that @own says instead of @base's, and is not said itself, follows them in @node, @own over @base. */
static bool follow_base(EchYamlNode *node, const EchYamlNode *base, const EchYamlNode *own, GError **error)
{
    g_autoptr(EchDevice) was = ech_device_from_yaml(base, error);
    g_autoptr(EchDevice) device = was ? ech_device_from_yaml(node, error) : NULL;
    if (!device) {
        if (was)
            explain_new_part(base, node, error);
        return false;
    }
    g_auto(GStrv) paths = own_paths(own);
    g_autofree double *before = g_new(double, device->n_numbers + 1);
    for (size_t i = 0; i < device->n_numbers; i++)
        before[i] = device->numbers[i].value;
    follow_settings(device, was, (const char *const *)paths);
    for (size_t i = 0; i < device->n_numbers; i++) {
        if (device->numbers[i].value != before[i])
            put_number(node, &device->numbers[i]);
    }
    put_all_beside(node, device);
    return true;
}

static EchYamlNode *load_tree(const char *path, unsigned depth, GError **error);

/* @own, which names a base, over that; without a name of its own it is called @called, or, where that is NULL, as its base is, "changed". */
static EchYamlNode *put_over_base(const EchYamlNode *own, const char *called, unsigned depth, GError **error)
{
    enum { MOST_BASES = 4 };
    const EchYamlNode *said = ech_yaml_get(own, "base");
    if (said->kind != ECH_YAML_SCALAR || !*said->text || depth == MOST_BASES) {
        ech_yaml_error(said, error, depth == MOST_BASES ? "base: more than 4 devices, each like the next" : "base: expected the device that this one is like");
        return NULL;
    }
    /* A file is named from the folder of the one that names it. */
    g_autofree char *found = find_file(said->text, error), *folder = g_path_get_dirname(own->file);
    bool beside = found && strcmp(found, said->text) == 0 && !g_path_is_absolute(found);
    g_autofree char *file = beside ? g_build_filename(folder, found, NULL) : g_steal_pointer(&found);
    g_autoptr(EchYamlNode) base = file ? load_tree(file, depth + 1, error) : NULL;
    if (!file) {
        g_prefix_error(error, "base: ");
        ech_yaml_prefix(said, error);
    }
    if (!base)
        return NULL;
    g_autofree char *name = g_strdup(said->text), *changed = g_strdup_printf("%s, changed", name);
    g_autoptr(EchYamlNode) mine = ech_yaml_new_map(own->file), rest = without_identity(base);
    for (size_t i = 0; i < own->n; i++) {
        if (strcmp(own->keys[i], "base") != 0)
            ech_yaml_put(mine, own->keys[i], ech_yaml_copy(own->items[i]));
    }
    g_autoptr(EchYamlNode) node = put_over(rest, mine, name);
    if (!ech_yaml_get(node, "name"))
        ech_yaml_put(node, "name", ech_yaml_new_scalar(called ? called : changed, own->file));
    return follow_base(node, base, mine, error) ? g_steal_pointer(&node) : NULL;
}

static EchYamlNode *load_tree(const char *path, unsigned depth, GError **error)
{
    g_autoptr(EchYamlNode) own = load_file(path, error);
    if (!own || !ech_yaml_get(own, "base"))
        return g_steal_pointer(&own);
    g_autofree char *stem = g_path_get_basename(path);
    *(g_str_has_suffix(stem, ".yaml") ? strrchr(stem, '.') : strchr(stem, '\0')) = '\0';
    return put_over_base(own, stem, depth, error);
}

EchYamlNode *ech_device_tree_over_base(const EchYamlNode *own, GError **error)
{
    return put_over_base(own, NULL, 0, error);
}

/* "a100-80:1g.10gb" */
static EchYamlNode *load_instance(const char *name, const char *profile, GError **error)
{
    g_autofree char *called = g_strndup(name, (gsize)(profile - 1 - name));
    g_autoptr(EchDevice) board = ech_device_load(called, NULL, error);
    g_autoptr(GString) yaml = board ? ech_mig_yaml(board, called, profile, error) : NULL;
    g_autoptr(EchYamlNode) own = yaml ? ech_yaml_parse(yaml->str, yaml->len, name, error) : NULL;
    return own ? ech_device_tree_over_base(own, error) : NULL;
}

EchYamlNode *ech_device_tree(const char *name_or_path, GError **error)
{
    const char *profile = g_file_test(name_or_path, G_FILE_TEST_EXISTS) ? NULL : ech_mig_profile(name_or_path);
    if (profile)
        return load_instance(name_or_path, profile, error);
    g_autoptr(GError) why = NULL;
    g_autofree char *path = find_file(name_or_path, &why);
    if (path)
        return load_tree(path, 0, error);
    /* What nvidia-smi or JAX calls the hardware says which one is meant. */
    g_autoptr(EchDevice) meant = ech_device_load_product(name_or_path);
    if (meant)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no device; did you mean '%s'?", name_or_path, meant->name);
    else
        g_propagate_error(error, g_steal_pointer(&why));
    return NULL;
}

EchDevice *ech_device_load(const char *name_or_path, const char *const *settings, GError **error)
{
    g_autoptr(EchYamlNode) root = ech_device_tree(name_or_path, error);
    return root ? ech_device_load_yaml(root, settings, error) : NULL;
}

/* Of "NVIDIA A100-SXM4-80GB MIG 1g.10gb" the part of the board; NULL: it is none. */
static EchDevice *load_part(const char *product)
{
    static const char mig[] = " MIG ";
    const char *at = strstr(product, mig);
    if (!at)
        return NULL;
    g_autofree char *of = g_strndup(product, (gsize)(at - product));
    g_autoptr(EchDevice) board = ech_device_load_product(of);
    g_autofree char *name = board ? g_strdup_printf("%s:%s", board->name, at + strlen(mig)) : NULL;
    return name ? ech_device_load(name, NULL, NULL) : NULL;
}

EchDevice *ech_device_load_product(const char *product)
{
    EchDevice *part = load_part(product);
    if (part)
        return part;
    g_auto(GStrv) names = ech_device_list();
    g_autoptr(EchDevice) specimen = NULL;
    for (char **name = names; *name; name++) {
        g_autoptr(EchDevice) device = ech_device_load(*name, NULL, NULL);
        if (!device || !ech_device_is_product(device, product))
            continue;
        if (!device->calibrated)
            return g_steal_pointer(&device);
        if (!specimen)
            specimen = g_steal_pointer(&device);
    }
    return g_steal_pointer(&specimen);
}

/* Drivers keep some of the memory for themselves, and round clocks. */
static bool has_figures(const EchDevice *device, const EchGpuFigures *figures)
{
    const EchMemory *hbm = ech_device_memory(device, "hbm");
    const EchUnit *vector = ech_device_unit(device, ECH_UNIT_VECTOR);
    double capability = ech_device_number(device, "kernel.compute_capability", 0);
    if (!hbm || !vector || g_strcmp0(device->family, "gpu") != 0 || ech_device_is_amd(device) != figures->amd)
        return false;
    if (!figures->amd && figures->capability > 0 && capability > 0 && fabs(figures->capability - capability) > 0.05)
        return false;
    return (uint64_t)vector->count * device->cores == figures->multiprocessors &&
           fabs((double)vector->clock_hz - (double)figures->clock_hz) <= 0.01 * (double)vector->clock_hz && figures->memory <= hbm->capacity &&
           figures->memory >= hbm->capacity / 100 * 92;
}

EchDevice *ech_device_load_figures(const EchGpuFigures *figures)
{
    if (!figures->multiprocessors || !figures->clock_hz || !figures->memory)
        return NULL;
    g_auto(GStrv) names = ech_device_list();
    for (char **name = names; *name; name++) {
        g_autoptr(EchDevice) device = ech_device_load(*name, NULL, NULL);
        if (device && !device->calibrated && has_figures(device, figures))
            return g_steal_pointer(&device);
    }
    return NULL;
}
