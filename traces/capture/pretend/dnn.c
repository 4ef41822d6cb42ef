/* cuDNN: what a graph of its operations does, by the shapes that the program set.
 *
 * From 9.8 on the real library chooses engines and says their workspaces without a GPU, if told of one: descriptors are passed on to it, with the pretended
 * device as the "device property" of heuristics and plans. Older ones are not asked: then every graph has two engines, and convolutions copy
 * into their workspace what does not lie channel by channel. Plans are
 * never executed; a plan's operations are written as one launch each (convolutions, products, normalisations) or as one of all (attention). */
#include "pretend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cudnnStatus_t. */
enum { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, NO_MEMORY = 4003 };

/* cudnnBackendDescriptorType_t. */
enum {
    POINTWISE = 0,
    CONVOLUTION = 1,
    ENGINE = 2,
    ENGINE_CONFIG = 3,
    HEURISTICS = 4,
    PLAN = 5,
    CONVOLUTION_FORWARD = 10,
    CONVOLUTION_FILTER = 11,
    CONVOLUTION_DATA = 12,
    OPERATION_POINTWISE = 13,
    GRAPH = 15,
    TENSOR = 17,
    OPERATION_PRODUCT = 19,
    NORM_FORWARD = 29,
    NORM_BACKWARD = 30,
    DEVICE_PROPERTY = 38,
    ATTENTION_FORWARD = 41,
    ATTENTION_BACKWARD = 43,
    BAND_MASK = 44,
    SOFTMAX = 45,
};

/* cudnnBackendAttributeType_t. */
enum { TYPE_HANDLE = 0, TYPE_INT64 = 3, TYPE_ADDRESS = 6, TYPE_NUMERICAL_NOTE = 11, TYPE_DESCRIPTOR = 15, TYPE_INT32 = 23, TYPE_CHAR = 24 };

/* cudnnBackendAttributeName_t. */
enum {
    POINTWISE_MODE = 0,
    HEURISTICS_MODE = 200,
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    HEURISTICS_DEVICE = 204,
    CONFIG_ENGINE = 300,
    CONFIG_WORKSPACE = 303,
    CONFIG_SHARED = 304,
    PLAN_HANDLE = 400,
    PLAN_CONFIG = 401,
    PLAN_WORKSPACE = 402,
    PLAN_JSON = 405,
    PLAN_DEVICE = 407,
    FORWARD_W = 703,
    FORWARD_X = 704,
    FORWARD_Y = 705,
    DATA_W = 709,
    DATA_DX = 710,
    DATA_DY = 711,
    FILTER_DW = 715,
    FILTER_X = 716,
    FILTER_DY = 717,
    OPERATION_POINTWISE_DESCRIPTOR = 750,
    GRAPH_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    TENSOR_TYPE = 901,
    TENSOR_DIMENSIONS = 902,
    TENSOR_STRIDES = 903,
    TENSOR_ID = 906,
    TENSOR_VIRTUAL = 907,
    TENSOR_BY_VALUE = 908,
    PACK_IDS = 1000,
    PACK_ADDRESSES = 1001,
    ENGINE_GRAPH = 1300,
    ENGINE_INDEX = 1301,
    ENGINE_NOTES = 1303,
    ENGINE_DEVICE = 1307,
    PRODUCT_A = 1520,
    PRODUCT_B = 1521,
    PRODUCT_C = 1522,
    NORM_FORWARD_PHASE = 2001,
    NORM_FORWARD_X = 2002,
    NORM_FORWARD_MEAN = 2003,
    NORM_FORWARD_INVERSE = 2004,
    NORM_BACKWARD_X = 2101,
    DEVICE_JSON = 2702,
    ATTENTION_Q = 2800,
    ATTENTION_K = 2801,
    ATTENTION_V = 2802,
    ATTENTION_SUBGRAPH = 2811,
    ATTENTION_BACKWARD_Q = 2851,
    ATTENTION_BACKWARD_K = 2852,
    ATTENTION_BACKWARD_V = 2853,
    ATTENTION_BACKWARD_SUBGRAPH = 2867,
};

/* cudnnBackendNumericalNote_t. */
enum { NOTE_TENSOR_CORE = 0 };
/* Without the library: one on tensor cores, one not, for programs that will not have f32 rounded to tf32. */
enum { N_OWN_ENGINES = 2 };
#define LANES_FIRST 0.5

/* cudnnBackendHeurMode_t: engines that serve where nothing better does. */
enum { MODE_FALLBACK = 2 };
/* A plan's place among those of the same graph, to who times them (torch.backends.cudnn.benchmark, XLA): as its heuristics order them, whatever copies it
 * makes, and fallbacks last. A graph of ours has three copies at most. */
enum { LAUNCHES_APART = 4, FALLBACK_PLACE = 1000 };

/* cudnnPointwiseMode_t: of a causal mask, rows against columns. */
enum { MODE_GREATER_EQUAL = 303, MODE_INDEX = 501 };

/* ---- the real library ---- */

static struct {
    int (*create)(int type, void **ret);
    int (*destroy)(void *descriptor);
    int (*set)(void *descriptor, int name, int type, int64_t n, const void *values);
    int (*get)(void *descriptor, int name, int type, int64_t room, int64_t *ret_n, void *ret);
    int (*finalize)(void *descriptor);
    void *device; /* the device property; NULL: it is not asked */
} real;

void *pretend_cudnn_symbol(const char *name)
{
    static const char *const libraries[] = {"libcudnn.so.9", NULL};
    return pretend_real_symbol(name, libraries);
}

static void *describe_device(void)
{
    const PretendDevice *d = pretend_device();
    char json[1024];
    int driver = 12080;
    int (*driver_version)(int *) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "cudaDriverGetVersion");
    memcpy(&driver_version, &symbol, sizeof symbol);
    if (driver_version)
        driver_version(&driver);
    snprintf(json, sizeof json,
             "{\"deviceVer\":%u,\"driverVer\":%d,\"cudaDeviceId\":0,\"totalGlobalMem\":%llu,\"maxGridSize\":[2147483647,65535,65535],"
             "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":%u,\"smCountOrigin\":0,\"warpSize\":32,"
             "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%llu,\"oversizedSharedMemoryPerBlock\":0,"
             "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
             "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%u,\"memClockRateKHz\":%u,\"l2CacheSize\":%llu,"
             "\"deviceName\":\"%s\"}",
             100 * d->major + 10 * d->minor, driver, (unsigned long long)d->bytes, d->multiprocessors, (unsigned long long)d->shared_per_block, d->clock_khz,
             d->memory_clock_khz, (unsigned long long)d->l2_bytes, d->name);
    void *device = NULL;
    if (real.create(DEVICE_PROPERTY, &device) != SUCCESS)
        return NULL;
    if (real.set(device, DEVICE_JSON, TYPE_CHAR, (int64_t)strlen(json) + 1, json) == SUCCESS && real.finalize(device) == SUCCESS)
        return device;
    real.destroy(device);
    return NULL;
}

static void find_real(void)
{
    static const char *const names[] = {"cudnnBackendCreateDescriptor", "cudnnBackendDestroyDescriptor", "cudnnBackendSetAttribute", "cudnnBackendGetAttribute",
                                        "cudnnBackendFinalize"};
    void *found[5];
    for (size_t i = 0; i < 5; i++) {
        if (!(found[i] = pretend_cudnn_symbol(names[i])))
            return;
    }
    memcpy(&real.create, &found[0], sizeof found[0]);
    memcpy(&real.destroy, &found[1], sizeof found[1]);
    memcpy(&real.set, &found[2], sizeof found[2]);
    memcpy(&real.get, &found[3], sizeof found[3]);
    memcpy(&real.finalize, &found[4], sizeof found[4]);
    real.device = describe_device();
}

static bool asks_real(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_real);
    return real.device != NULL;
}

/* ---- descriptors ---- */

typedef struct Descriptor Descriptor;

typedef struct {
    int name, type;
    int64_t n;
    union {
        uint8_t *bytes;
        Descriptor **descriptors; /* counted references */
    } values;
} Attribute;

struct Descriptor {
    int type;
    atomic_int references;
    bool unmade;       /* a plan whose workspace is known without it */
    int64_t workspace; /* of such a plan */
    void *real;        /* the library's; NULL where it is not asked */
    Attribute *attributes;
    size_t n_attributes;
    Descriptor *graph; /* of an engine configuration that heuristics gave, and of its engine */
    int index;         /* its place among what they gave */
    bool fallback;     /* they were asked for what serves at all */
};

static Descriptor *take(Descriptor *descriptor)
{
    if (descriptor)
        atomic_fetch_add(&descriptor->references, 1);
    return descriptor;
}

static void drop(Descriptor *descriptor);

static void clear_attribute(Attribute *attribute)
{
    for (int64_t i = 0; attribute->type == TYPE_DESCRIPTOR && i < attribute->n; i++)
        drop(attribute->values.descriptors[i]);
    free(attribute->values.bytes);
}

static void drop(Descriptor *descriptor)
{
    if (!descriptor || atomic_fetch_sub(&descriptor->references, 1) > 1)
        return;
    for (size_t i = 0; i < descriptor->n_attributes; i++)
        clear_attribute(&descriptor->attributes[i]);
    free(descriptor->attributes);
    drop(descriptor->graph);
    if (descriptor->real)
        real.destroy(descriptor->real);
    free(descriptor);
}

/* Bytes of a value of cudnnBackendAttributeType_t. */
static size_t value_bytes(int type)
{
    switch (type) {
    case 0:  /* handle */
    case 3:  /* int64 */
    case 5:  /* double */
    case 6:  /* pointer */
    case 15: /* descriptor */
    case 26: /* fraction */ return 8;
    case 2: /* bool */
    case 24: /* char */ return 1;
    default: return 4;
    }
}

static const Attribute *attribute_of(const Descriptor *descriptor, int name)
{
    for (size_t i = 0; descriptor && i < descriptor->n_attributes; i++) {
        if (descriptor->attributes[i].name == name)
            return &descriptor->attributes[i];
    }
    return NULL;
}

static Descriptor *descriptor_at(const Descriptor *descriptor, int name)
{
    const Attribute *attribute = attribute_of(descriptor, name);
    return attribute && attribute->type == TYPE_DESCRIPTOR && attribute->n > 0 ? attribute->values.descriptors[0] : NULL;
}

/* The first value, of 1, 4 or 8 bytes; 0 where it is not set. */
static int64_t integer_at(const Descriptor *descriptor, int name)
{
    const Attribute *attribute = attribute_of(descriptor, name);
    if (!attribute || attribute->n < 1 || attribute->type == TYPE_DESCRIPTOR)
        return 0;
    int64_t wide = 0;
    int32_t narrow = 0;
    switch (value_bytes(attribute->type)) {
    case 8: memcpy(&wide, attribute->values.bytes, sizeof wide); return wide;
    case 4: memcpy(&narrow, attribute->values.bytes, sizeof narrow); return narrow;
    default: return attribute->values.bytes[0];
    }
}

/* Up to @room of the whole numbers of @name; how many there are, at most @room. */
static int integers_at(const Descriptor *descriptor, int name, int64_t *ret, int room)
{
    const Attribute *attribute = attribute_of(descriptor, name);
    int n = attribute && attribute->type == TYPE_INT64 ? (int)(attribute->n < room ? attribute->n : room) : 0;
    if (n > 0)
        memcpy(ret, attribute->values.bytes, (size_t)n * sizeof *ret);
    return n;
}

static bool keep(Descriptor *descriptor, int name, int type, int64_t n, const void *values)
{
    size_t bytes = (size_t)n * value_bytes(type);
    Attribute attribute = {.name = name, .type = type, .n = n, .values.bytes = malloc(bytes ? bytes : 1)};
    if (!attribute.values.bytes)
        return false;
    if (bytes > 0)
        memcpy(attribute.values.bytes, values, bytes);
    for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < n; i++)
        take(attribute.values.descriptors[i]);
    for (size_t i = 0; i < descriptor->n_attributes; i++) {
        if (descriptor->attributes[i].name == name) {
            clear_attribute(&descriptor->attributes[i]);
            descriptor->attributes[i] = attribute;
            return true;
        }
    }
    Attribute *larger = realloc(descriptor->attributes, (descriptor->n_attributes + 1) * sizeof *larger);
    if (!larger) {
        clear_attribute(&attribute);
        return false;
    }
    descriptor->attributes = larger;
    larger[descriptor->n_attributes++] = attribute;
    return true;
}

PRETEND_EXPORT int cudnnBackendCreateDescriptor(int type, void **ret)
{
    Descriptor *descriptor = calloc(1, sizeof *descriptor);
    if (!descriptor)
        return NO_MEMORY;
    descriptor->type = type;
    atomic_init(&descriptor->references, 1);
    int status = asks_real() ? real.create(type, &descriptor->real) : SUCCESS;
    if (status != SUCCESS) {
        free(descriptor);
        return status;
    }
    *ret = descriptor;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBackendDestroyDescriptor(void *descriptor)
{
    drop(descriptor);
    return SUCCESS;
}

/* Plans that are written as text, for others to be made of (XLA does so when it has compiled): the text is the number of their configuration, which stays as
 * long as the process runs. */
static const char plan_text[] = "echelon plan ";
static pthread_mutex_t written_lock = PTHREAD_MUTEX_INITIALIZER;
static Descriptor **written_configs;
static size_t n_written_configs;

static int write_plan(Descriptor *config, int64_t room, int64_t *ret_n, char *ret)
{
    pthread_mutex_lock(&written_lock);
    size_t at = 0;
    while (at < n_written_configs && written_configs[at] != config)
        at++;
    Descriptor **larger = at < n_written_configs ? written_configs : realloc(written_configs, (at + 1) * sizeof(Descriptor *));
    if (larger && at == n_written_configs)
        larger[n_written_configs++] = take(config);
    written_configs = larger ? larger : written_configs;
    pthread_mutex_unlock(&written_lock);
    char text[64];
    int64_t bytes = snprintf(text, sizeof text, "%s%zu", plan_text, at) + 1;
    if (ret && room > 0)
        memcpy(ret, text, (size_t)(room < bytes ? room : bytes));
    if (ret_n)
        *ret_n = bytes;
    return larger ? SUCCESS : NO_MEMORY;
}

/* The configuration of a plan written as @text; NULL where it is none of ours. */
static Descriptor *read_plan(const char *text, int64_t n)
{
    char kept[64] = {0};
    memcpy(kept, text, (size_t)(n < (int64_t)sizeof kept ? n : (int64_t)sizeof kept - 1));
    if (strncmp(kept, plan_text, strlen(plan_text)) != 0)
        return NULL;
    size_t at = strtoul(kept + strlen(plan_text), NULL, 10);
    pthread_mutex_lock(&written_lock);
    Descriptor *config = at < n_written_configs ? written_configs[at] : NULL;
    pthread_mutex_unlock(&written_lock);
    return config;
}

PRETEND_EXPORT int cudnnBackendSetAttribute(void *of, int name, int type, int64_t n, const void *values)
{
    Descriptor *descriptor = of;
    if (!descriptor || n < 0 || n > INT32_MAX || (n > 0 && !values) || type < 0)
        return BAD_PARAM;
    Descriptor *config = descriptor->type == PLAN && name == PLAN_JSON && type == TYPE_CHAR && n > 0 ? read_plan(values, n) : NULL;
    if (config)
        return cudnnBackendSetAttribute(of, PLAN_CONFIG, TYPE_DESCRIPTOR, 1, &config);
    if (!keep(descriptor, name, type, n, values))
        return NO_MEMORY;
    if (!descriptor->real || type == TYPE_HANDLE) /* the handle is of our making */
        return SUCCESS;
    if (type != TYPE_DESCRIPTOR)
        return real.set(descriptor->real, name, type, n, values);
    void **theirs = calloc((size_t)n + 1, sizeof *theirs);
    if (!theirs)
        return NO_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const Descriptor *one = ((Descriptor *const *)values)[i];
        theirs[i] = one ? one->real : NULL;
    }
    int status = real.set(descriptor->real, name, type, n, theirs);
    free(theirs);
    return status;
}

/* The graph that a plan, a configuration, an engine or heuristics are of. */
static Descriptor *graph_of(Descriptor *descriptor)
{
    for (int depth = 0; descriptor && depth < 4; depth++) {
        if (descriptor->graph)
            return descriptor->graph;
        switch (descriptor->type) {
        case GRAPH: return descriptor;
        case HEURISTICS: return descriptor_at(descriptor, HEURISTICS_GRAPH);
        case ENGINE: return descriptor_at(descriptor, ENGINE_GRAPH);
        case ENGINE_CONFIG: descriptor = descriptor_at(descriptor, CONFIG_ENGINE); break;
        case PLAN: descriptor = descriptor_at(descriptor, PLAN_CONFIG); break;
        default: return NULL;
        }
    }
    return NULL;
}

static bool lanes_come_first(Descriptor *descriptor);

/* Whether the engine of @descriptor, a plan or a configuration, uses tensor cores. Without the library, every graph has two: one does. */
static bool uses_tensor_cores(Descriptor *descriptor)
{
    Descriptor *config = descriptor->type == PLAN ? descriptor_at(descriptor, PLAN_CONFIG) : descriptor;
    if (!config)
        return false;
    if (!config->real)
        return (config->index == 0) != lanes_come_first(config);
    void *engine = NULL;
    int notes[16];
    int64_t n = 0;
    bool any = false;
    if (real.create(ENGINE, &engine) != SUCCESS)
        return false;
    if (real.get(config->real, CONFIG_ENGINE, TYPE_DESCRIPTOR, 1, &n, &engine) == SUCCESS &&
        real.get(engine, ENGINE_NOTES, TYPE_NUMERICAL_NOTE, 16, &n, notes) == SUCCESS) {
        for (int64_t i = 0; i < n && i < 16; i++)
            any = any || notes[i] == NOTE_TENSOR_CORE;
    }
    real.destroy(engine);
    return any;
}

static uint64_t assumed_workspace(Descriptor *descriptor);

/* What is read of a descriptor that the library does not know of. */
static int get_own(Descriptor *descriptor, int name, int type, int64_t room, int64_t *ret_n, void *ret)
{
    int64_t n = 0;
    static const int note = NOTE_TENSOR_CORE;
    const Attribute *attribute = attribute_of(descriptor, name);
    if (attribute && attribute->type == type) {
        n = attribute->n;
        if (ret && room > 0)
            memcpy(ret, attribute->values.bytes, (size_t)(n < room ? n : room) * value_bytes(type));
    } else if (descriptor->type == HEURISTICS && name == HEURISTICS_RESULTS) {
        n = N_OWN_ENGINES;
    } else if (descriptor->type == ENGINE_CONFIG && name == CONFIG_ENGINE) {
        n = 1;
    } else if (descriptor->type == ENGINE && name == ENGINE_NOTES) {
        n = (descriptor->index == 0) != lanes_come_first(descriptor);
        if (ret && room > 0 && n > 0)
            memcpy(ret, &note, sizeof note);
    } else if (descriptor->type == ENGINE_CONFIG && name == CONFIG_SHARED && type == TYPE_INT32) { /* shared memory of a block: fits */
        n = 1;
        if (ret && room > 0)
            memset(ret, 0, sizeof(int32_t));
    } else if (type == TYPE_INT64 && (name == PLAN_WORKSPACE || name == CONFIG_WORKSPACE || name == ENGINE_INDEX)) {
        int64_t value = name == ENGINE_INDEX ? descriptor->index : (int64_t)assumed_workspace(descriptor);
        n = 1;
        if (ret && room > 0)
            memcpy(ret, &value, sizeof value);
    }
    if (ret_n)
        *ret_n = ret && n > room ? room : n; /* how many there are, or were given */
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBackendGetAttribute(void *of, int name, int type, int64_t room, int64_t *ret_n, void *ret)
{
    Descriptor *descriptor = of;
    if (!descriptor || room < 0 || room > INT32_MAX)
        return BAD_PARAM;
    int64_t n = 0;
    int status;
    if (descriptor->unmade && name == PLAN_WORKSPACE && type == TYPE_INT64) {
        n = 1;
        if (ret && room > 0)
            memcpy(ret, &descriptor->workspace, sizeof descriptor->workspace);
        if (ret_n)
            *ret_n = n;
        return SUCCESS;
    }
    Descriptor *config = descriptor_at(descriptor, PLAN_CONFIG);
    if (descriptor->type == PLAN && name == PLAN_JSON && type == TYPE_CHAR && config)
        return write_plan(config, room, ret_n, ret);
    if (descriptor->unmade) {
        status = real.finalize(descriptor->real);
        if (status != SUCCESS)
            return status;
        descriptor->unmade = false;
    }
    if (!descriptor->real) {
        status = get_own(descriptor, name, type, room, &n, ret);
    } else if (type != TYPE_DESCRIPTOR || !ret) {
        status = real.get(descriptor->real, name, type, room, &n, ret);
    } else {
        void **theirs = calloc((size_t)room + 1, sizeof *theirs);
        if (!theirs)
            return NO_MEMORY;
        for (int64_t i = 0; i < room; i++)
            theirs[i] = ((Descriptor **)ret)[i] ? ((Descriptor **)ret)[i]->real : NULL;
        status = real.get(descriptor->real, name, type, room, &n, theirs);
        free(theirs);
    }
    if (status == SUCCESS && type == TYPE_DESCRIPTOR && ret && (name == HEURISTICS_RESULTS || name == CONFIG_ENGINE)) {
        for (int64_t i = 0; i < n && i < room; i++) {
            Descriptor *one = ((Descriptor **)ret)[i], *graph = one ? graph_of(descriptor) : NULL;
            if (!one || one == descriptor)
                continue;
            take(graph);
            drop(one->graph);
            one->graph = graph;
            one->index = name == HEURISTICS_RESULTS ? (int)i : descriptor->index;
            one->fallback = name == HEURISTICS_RESULTS ? integer_at(descriptor, HEURISTICS_MODE) == MODE_FALLBACK : descriptor->fallback;
        }
    }
    if (ret_n)
        *ret_n = n;
    return status;
}

/* A plan is not made where its configuration, which the library checked, tells the workspace: it would be compiled, and is not run. */
static bool knows_workspace(Descriptor *plan)
{
    const Descriptor *config = descriptor_at(plan, PLAN_CONFIG);
    int64_t n = 0;
    plan->unmade = config && config->real && real.get(config->real, CONFIG_WORKSPACE, TYPE_INT64, 1, &n, &plan->workspace) == SUCCESS && n == 1;
    return plan->unmade;
}

PRETEND_EXPORT int cudnnBackendFinalize(void *of)
{
    Descriptor *descriptor = of;
    if (!descriptor)
        return BAD_PARAM;
    if (descriptor->real) {
        static const struct {
            int type, name;
        } devices[] = {{HEURISTICS, HEURISTICS_DEVICE}, {ENGINE, ENGINE_DEVICE}, {PLAN, PLAN_DEVICE}};
        for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
            if (descriptor->type == devices[i].type)
                real.set(descriptor->real, devices[i].name, TYPE_DESCRIPTOR, 1, &real.device);
        }
        int status = descriptor->type == PLAN && knows_workspace(descriptor) ? SUCCESS : real.finalize(descriptor->real);
        if (status != SUCCESS)
            return status;
    }
    return SUCCESS;
}

/* ---- what a graph does ---- */

#define MAX_DIMENSIONS 8
#define MAX_TENSORS 128

/* cudnnDataType_t. */
static const struct {
    const char *name;
    unsigned bits;
} types[] = {{"f32", 32},     {"f64", 64},  {"f16", 16}, {"s8", 8},   {"s32", 32},     {"s8", 32},    {"u8", 8},       {"u8", 32},
             {"s8", 256},     {"bf16", 16}, {"s64", 64}, {"u8", 1},   {"f8e4m3fn", 8}, {"f8e5m2", 8}, {"f8e4m3fn", 8}, {"f8e8m0fnu", 8},
             {"f4e2m1fn", 4}, {"s4", 4},    {"u4", 4},   {"u32", 32}, {"c64", 64},     {"c128", 128}, {"u8", 8},       {"f8e5m3", 8}};

static unsigned bits_of(int64_t type)
{
    return type >= 0 && (size_t)type < sizeof types / sizeof *types ? types[type].bits : 32;
}

static const char *type_name(int64_t type)
{
    return type >= 0 && (size_t)type < sizeof types / sizeof *types ? types[type].name : "f32";
}

typedef struct {
    int rank;
    int64_t sizes[MAX_DIMENSIONS], strides[MAX_DIMENSIONS];
    int64_t type, id;
    bool in_memory; /* neither inside the kernel nor a number that is handed over */
} Tensor;

static bool read_tensor(const Descriptor *descriptor, Tensor *ret)
{
    *ret = (Tensor){0};
    if (!descriptor || descriptor->type != TENSOR)
        return false;
    ret->rank = integers_at(descriptor, TENSOR_DIMENSIONS, ret->sizes, MAX_DIMENSIONS);
    integers_at(descriptor, TENSOR_STRIDES, ret->strides, MAX_DIMENSIONS);
    ret->type = integer_at(descriptor, TENSOR_TYPE);
    ret->id = integer_at(descriptor, TENSOR_ID);
    ret->in_memory = !integer_at(descriptor, TENSOR_VIRTUAL) && !integer_at(descriptor, TENSOR_BY_VALUE);
    return ret->rank > 0;
}

static uint64_t elements_of(const Tensor *tensor)
{
    uint64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        elements *= tensor->strides[i] == 0 || tensor->sizes[i] < 1 ? 1 : (uint64_t)tensor->sizes[i];
    return elements;
}

static uint64_t bytes_of(const Tensor *tensor)
{
    return (elements_of(tensor) * bits_of(tensor->type) + 7) / 8;
}

/* Channels apart from each other: kernels of tensor cores read them side by side, and the plan copies what does not lie so into its workspace. */
static bool channels_apart(const Tensor *tensor)
{
    return tensor->rank > 2 && tensor->strides[1] != 1 && tensor->sizes[1] > 1;
}

/* Channels in whole pieces of 16 bytes. */
static uint64_t padded(uint64_t channels, const Tensor *tensor)
{
    uint64_t piece = 128 / bits_of(tensor->type);
    return piece > 1 ? (channels + piece - 1) / piece * piece : channels;
}

/* Elements of the copies of input, filters and output that kernels of tensor cores need, and their bytes in all. @fill: with channels filled up, so that what
 * lies well, too, is copied. cuDNN 9.26 asks for these bytes, to within 256, on an H100. */
static uint64_t copied_bytes(const Tensor *x, const Tensor *w, const Tensor *y, bool fill, uint64_t ret_elements[3])
{
    const Tensor *const all[] = {x, w, y};
    uint64_t bytes = 0;
    for (size_t i = 0; i < 3; i++) {
        uint64_t channels = (uint64_t)all[i]->sizes[1], full = fill && all[i] != y ? padded(channels, all[i]) : channels;
        ret_elements[i] = channels_apart(all[i]) || full != channels ? elements_of(all[i]) / (channels ? channels : 1) * full : 0;
        bytes += ret_elements[i] * ((bits_of(all[i]->type) + 7) / 8);
    }
    return bytes;
}

/* Attributes of operations that are written. */
static bool is_result(int name)
{
    static const int16_t results[] = {FORWARD_Y, DATA_DX, FILTER_DW, 753,  756,  773,  774,  788,  789,  790,  791,  792,  793,  1522, 1611,
                                      1711,      1712,    1720,      1803, 1951, 1626, 1627, 1628, 1629, 1630, 2011, 2012, 2013, 2107, 2108,
                                      2109,      2201,    2251,      2271, 2310, 2501, 2502, 2602, 2803, 2804, 2828, 2829, 2859, 2860, 2861,
                                      2864,      2905,    2953,      3006, 3101, 3102, 3103, 3104, 3201, 3301, 3401, 3411};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i] == name)
            return true;
    }
    return false;
}

typedef struct {
    uint64_t read, written;
    int64_t seen[MAX_TENSORS];
    size_t n_seen;
    int depth;
    const Descriptor *pack; /* where the tensors lie; may be NULL */
} Traffic;

static void count_graph(const Descriptor *graph, bool written, Traffic *traffic);

/* Whether @operation writes what stands at @name. */
static bool is_written(const Descriptor *operation, int name)
{
    bool statistics = operation->type == NORM_FORWARD && (name == NORM_FORWARD_MEAN || name == NORM_FORWARD_INVERSE);
    return statistics ? integer_at(operation, NORM_FORWARD_PHASE) != 0 : is_result(name);
}

static const void *address_in(const Descriptor *pack, int64_t id)
{
    const Attribute *ids = attribute_of(pack, PACK_IDS), *addresses = attribute_of(pack, PACK_ADDRESSES);
    if (!ids || !addresses || ids->type != TYPE_INT64 || addresses->type != TYPE_ADDRESS)
        return NULL;
    for (int64_t i = 0; i < ids->n && i < addresses->n; i++) {
        int64_t known;
        const void *address;
        memcpy(&known, ids->values.bytes + i * 8, sizeof known);
        memcpy(&address, addresses->values.bytes + i * 8, sizeof address);
        if (known == id)
            return address;
    }
    return NULL;
}

/* Every tensor in memory once, by its number: first those that are written, as what is made and read again within a graph is not read from memory. */
static void count_traffic(const Descriptor *operation, bool written, Traffic *traffic)
{
    for (size_t i = 0; i < operation->n_attributes; i++) {
        const Attribute *attribute = &operation->attributes[i];
        for (int64_t j = 0; attribute->type == TYPE_DESCRIPTOR && j < attribute->n; j++) {
            const Descriptor *value = attribute->values.descriptors[j];
            Tensor tensor;
            if (value && (value->type == GRAPH || value->type == SOFTMAX) && traffic->depth < 2) {
                traffic->depth++;
                (value->type == GRAPH ? count_graph : count_traffic)(value, written, traffic);
                traffic->depth--;
            }
            if (!read_tensor(value, &tensor) || !tensor.in_memory || is_written(operation, attribute->name) != written)
                continue;
            bool known = false;
            for (size_t k = 0; k < traffic->n_seen; k++)
                known = known || traffic->seen[k] == tensor.id;
            if (known || traffic->n_seen == MAX_TENSORS)
                continue;
            traffic->seen[traffic->n_seen++] = tensor.id;
            *(written ? &traffic->written : &traffic->read) += bytes_of(&tensor);
            pretend_use(written ? PRETEND_WRITES : PRETEND_READS, address_in(traffic->pack, tensor.id), bytes_of(&tensor));
        }
    }
}

static void count_graph(const Descriptor *graph, bool written, Traffic *traffic)
{
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        if (operations->values.descriptors[i])
            count_traffic(operations->values.descriptors[i], written, traffic);
    }
}

/* Its uses are those of what is written next. */
static Traffic traffic_of(const Descriptor *graph, const Descriptor *pack)
{
    Traffic traffic = {.pack = pack};
    count_graph(graph, true, &traffic);
    count_graph(graph, false, &traffic);
    return traffic;
}

/* The first operation of @graph that is of @type. */
static const Descriptor *operation_of(const Descriptor *graph, int type)
{
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        const Descriptor *operation = operations->values.descriptors[i];
        if (operation && operation->type == type)
            return operation;
    }
    return NULL;
}

static const struct {
    int type, x, w, y;
    const char *name;
} convolutions[] = {{CONVOLUTION_FORWARD, FORWARD_X, FORWARD_W, FORWARD_Y, "cudnn convolution"},
                    {CONVOLUTION_DATA, DATA_DX, DATA_W, DATA_DY, "cudnn convolution: gradient of the data"},
                    {CONVOLUTION_FILTER, FILTER_X, FILTER_DW, FILTER_DY, "cudnn convolution: gradient of the filters"}};

/* Which of them @operation is, and its tensors; -1 where it is none. */
static int read_convolution(const Descriptor *operation, Tensor *x, Tensor *w, Tensor *y)
{
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
        if (operation->type == convolutions[i].type && read_tensor(descriptor_at(operation, convolutions[i].x), x) &&
            read_tensor(descriptor_at(operation, convolutions[i].w), w) && read_tensor(descriptor_at(operation, convolutions[i].y), y) && x->rank >= 3 &&
            x->rank == w->rank && x->rank == y->rank)
            return (int)i;
    }
    return -1;
}

/* Where the library is not asked: a convolution of 16 bits whose tensors do not lie channel by channel is for the lanes, which take them as they lie, if at
 * their peak they need less than half of the time that memory takes with the copies for tensor cores. So the heuristics of cuDNN 9.26 order them: of a
 * ResNet-50, a ResNet-34 and a RegNet they put the lanes first up to 0.41 of that time on an RTX 4090 and up to 0.9 on an RTX 3090, nowhere on an A100 and an
 * H100, and hardly ever for gradients. */
static bool lanes_come_first(Descriptor *descriptor)
{
    const Descriptor *graph = graph_of(descriptor);
    const PretendDevice *d = pretend_device();
    double lanes = d->major > 8 || (d->major == 8 && d->minor > 0) ? 128 : 64, rate = 2e3 * lanes * d->multiprocessors * d->clock_khz,
           memory = 2e3 * d->memory_clock_khz * d->memory_bus_bits / 8;
    const Descriptor *operation = graph ? operation_of(graph, CONVOLUTION_FORWARD) : NULL;
    Tensor x, w, y;
    uint64_t copies[3];
    if (!operation || read_convolution(operation, &x, &w, &y) < 0 || bits_of(x.type) != 16 || x.sizes[1] != w.sizes[1])
        return false;
    double copied = (double)copied_bytes(&x, &w, &y, false, copies), bytes = (double)(bytes_of(&x) + bytes_of(&w) + bytes_of(&y)),
           operations = 2 * (double)elements_of(&y) * (double)elements_of(&w) / (double)w.sizes[0];
    return copied > 0 && operations / rate < LANES_FIRST * (bytes + 2 * copied) / memory;
}

/* Where the library is not asked: a convolution on tensor cores copies what does not lie right. */
static uint64_t assumed_workspace(Descriptor *descriptor)
{
    const Descriptor *graph = graph_of(descriptor);
    uint64_t bytes = 0, copies[3];
    for (size_t i = 0; graph && i < sizeof convolutions / sizeof *convolutions; i++) {
        const Descriptor *operation = operation_of(graph, convolutions[i].type);
        Tensor x, w, y;
        if (operation && read_convolution(operation, &x, &w, &y) >= 0 && uses_tensor_cores(descriptor) && bits_of(x.type) <= 32)
            bytes += copied_bytes(&x, &w, &y, false, copies);
    }
    return bytes;
}

/* ---- lines ---- */

typedef struct {
    void *stream;
    uint64_t workspace; /* of the plan */
    bool tensor_cores;  /* its engine uses them, on f32 by rounding to tf32 */
    Traffic traffic;    /* of the graph that is not written yet */
} Call;

/* The launch's traffic: what is left of the graph's. */
static void write_launch(Call *call, const char *name, const char *launch, uint64_t operations, const char *type)
{
    pretend_library_kernel(call->stream, name, launch, call->traffic.read, call->traffic.written, operations, type);
    call->traffic.read = call->traffic.written = 0;
}

static void write_relayout(Call *call, const Tensor *tensor, uint64_t elements, bool result)
{
    char launch[128];
    unsigned bytes = (bits_of(tensor->type) + 7) / 8;
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=relayout", (unsigned long long)elements, bytes);
    pretend_library_kernel(call->stream, result ? "cudnn channels last to first" : "cudnn channels first to last", launch,
                           result ? elements * bytes : bytes_of(tensor), result ? bytes_of(tensor) : elements * bytes, 0, NULL);
}

/* A convolution is a product: [pixels, channels * taps] x [channels * taps, filters] forward, and as many multiplications in its gradients: of the data
 * [pixels, filters * taps] x [filters * taps, channels], of the filters [filters, pixels] x [pixels, channels * taps]. Pixels are those of @y. Tensor cores
 * take channels in pieces of 16 bytes: fewer are filled up with zeros. */
static void write_convolution(Call *call, int kind, const char *name, const Tensor *x, const Tensor *w, const Tensor *y)
{
    uint64_t groups = w->sizes[1] > 0 && x->sizes[1] > w->sizes[1] ? (uint64_t)(x->sizes[1] / w->sizes[1]) : 1, pixels = (uint64_t)y->sizes[0], taps = 1;
    for (int i = 2; i < y->rank; i++)
        pixels *= (uint64_t)y->sizes[i];
    for (int i = 2; i < w->rank; i++)
        taps *= (uint64_t)w->sizes[i];
    uint64_t filters = (uint64_t)w->sizes[0] / groups, channels = (uint64_t)w->sizes[1];
    bool each = channels == 1 && groups > 1,
         tensor_cores = call->tensor_cores && !each && (bits_of(x->type) <= 16 || (x->type == 0 && pretend_device()->major >= 8));
    uint64_t full = tensor_cores && groups == 1 ? padded(channels, x) : channels, m = pixels, n = filters, k = full * taps, steps = taps;
    if (kind == CONVOLUTION_DATA)
        n = full, k = filters * taps;
    if (kind == CONVOLUTION_FILTER)
        m = filters, n = full * taps, k = pixels, steps = 0;
    const Tensor *const all[] = {x, w, y}, *result = kind == CONVOLUTION_FORWARD ? y : kind == CONVOLUTION_DATA ? x : w;
    uint64_t copies[3] = {0}, plain = copied_bytes(x, w, y, false, copies), filled = full != channels ? copied_bytes(x, w, y, true, copies) : plain;
    if (!tensor_cores || call->workspace < filled)
        copied_bytes(x, w, y, false, copies);
    bool relayouts = tensor_cores && plain + filled > 0 && call->workspace >= (call->workspace >= filled ? filled : plain);
    for (size_t i = 0; i < 3 && relayouts; i++) {
        if (all[i] != result && copies[i] > 0)
            write_relayout(call, all[i], copies[i], false);
    }
    char launch[256];
    /* Lanes multiply and add in f32 whatever the operands are. */
    const char *type = tensor_cores ? x->type == 0 ? "tf32" : type_name(x->type) : bits_of(x->type) <= 16 ? "f32" : type_name(x->type);
    uint64_t operations = 2 * groups * pixels * filters * channels * taps;
    if (each) {
        /* A filter a channel: no product, but every element with each of its taps, a load and a multiply-add. */
        snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=%s instructions=%llu", (unsigned long long)elements_of(y),
                 (bits_of(x->type) + 7) / 8, kind == CONVOLUTION_FILTER ? "reduce" : "elementwise", (unsigned long long)(2 * taps < 60000 ? 2 * taps : 60000));
        operations = 0;
        type = NULL;
    } else {
        int at = snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu", (unsigned long long)groups, (unsigned long long)m, (unsigned long long)n,
                          (unsigned long long)k);
        if (steps > 1)
            at += snprintf(launch + at, sizeof launch - (size_t)at, " taps=%llu", (unsigned long long)steps);
        snprintf(launch + at, sizeof launch - (size_t)at, " operand_bytes=%u class=product", (bits_of(x->type) + 7) / 8);
    }
    write_launch(call, name, launch, operations, type);
    for (size_t i = 0; i < 3 && relayouts; i++) {
        if (all[i] == result && copies[i] > 0)
            write_relayout(call, result, copies[i], true);
    }
}

static bool write_convolution_operation(Call *call, const Descriptor *operation)
{
    Tensor x, w, y;
    int which = read_convolution(operation, &x, &w, &y);
    if (which >= 0)
        write_convolution(call, convolutions[which].type, convolutions[which].name, &x, &w, &y);
    return which >= 0;
}

/* [.., m, k] x [.., k, n]. */
typedef struct {
    uint64_t batch, m, n, k;
    int64_t type;
} Product;

static bool read_product(const Descriptor *operation, Product *ret)
{
    Tensor a, b, c;
    if (operation->type != OPERATION_PRODUCT || !read_tensor(descriptor_at(operation, PRODUCT_A), &a) ||
        !read_tensor(descriptor_at(operation, PRODUCT_B), &b) || !read_tensor(descriptor_at(operation, PRODUCT_C), &c) || a.rank < 2 || b.rank < 2 ||
        c.rank < 2)
        return false;
    *ret = (Product){.batch = 1,
                     .m = (uint64_t)c.sizes[c.rank - 2],
                     .n = (uint64_t)c.sizes[c.rank - 1],
                     .k = (uint64_t)a.sizes[a.rank - 1],
                     .type = a.in_memory ? a.type : b.type};
    for (int i = 0; i + 2 < c.rank; i++)
        ret->batch *= (uint64_t)c.sizes[i];
    return true;
}

/* Of a mask that leaves out what comes later: rows are compared with columns. */
static bool is_causal(const Descriptor *graph, int depth)
{
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    bool compares = false;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        const Descriptor *operation = operations->values.descriptors[i];
        int64_t mode =
            operation && operation->type == OPERATION_POINTWISE ? integer_at(descriptor_at(operation, OPERATION_POINTWISE_DESCRIPTOR), POINTWISE_MODE) : 0;
        compares = compares || mode == MODE_GREATER_EQUAL || (operation && operation->type == BAND_MASK);
        for (size_t j = 0; operation && depth < 2 && j < operation->n_attributes; j++) {
            const Descriptor *inner =
                operation->attributes[j].type == TYPE_DESCRIPTOR && operation->attributes[j].n > 0 ? operation->attributes[j].values.descriptors[0] : NULL;
            compares = compares || (inner && inner->type == GRAPH && is_causal(inner, depth + 1));
        }
    }
    return compares;
}

/* All products of the graph in one launch. Forward two, [queries, depth] x [depth, keys] and [queries, keys] x [keys, depth]; backward five. A causal mask
 * leaves out half. Blocks of 128 queries. */
static void write_attention(Call *call, const Descriptor *graph, uint64_t heads, uint64_t queries, uint64_t head, uint64_t operations, bool backward,
                            int64_t type)
{
    bool causal = is_causal(graph, 0);
    if (causal)
        operations /= 2;
    const PretendDevice *device = pretend_device();
    char launch[256];
    snprintf(launch, sizeof launch, "grid=%llux%llux1 class=attention%s%s head=%llu arithmetic=%s operand_bytes=%u",
             (unsigned long long)((queries + 127) / 128), (unsigned long long)heads, backward ? " backward=1" : "", causal ? " causal=1" : "",
             (unsigned long long)head, device->major >= 9 ? "wgmma" : "mma", (bits_of(type) + 7) / 8);
    write_launch(call, backward ? "cudnn attention: gradients" : "cudnn attention", launch, operations, type_name(type));
}

static bool write_attention_graph(Call *call, const Descriptor *graph)
{
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    const Descriptor *forward = operation_of(graph, ATTENTION_FORWARD), *backward = operation_of(graph, ATTENTION_BACKWARD);
    if (forward || backward) {
        Tensor q, k, v;
        if (!read_tensor(descriptor_at(forward ? forward : backward, forward ? ATTENTION_Q : ATTENTION_BACKWARD_Q), &q) ||
            !read_tensor(descriptor_at(forward ? forward : backward, forward ? ATTENTION_K : ATTENTION_BACKWARD_K), &k) ||
            !read_tensor(descriptor_at(forward ? forward : backward, forward ? ATTENTION_V : ATTENTION_BACKWARD_V), &v) || q.rank != 4 || k.rank != 4 ||
            v.rank != 4)
            return false;
        uint64_t heads = (uint64_t)(q.sizes[0] * q.sizes[1]), pairs = heads * (uint64_t)(q.sizes[2] * k.sizes[2]), d = (uint64_t)q.sizes[3],
                 dv = (uint64_t)v.sizes[3];
        write_attention(call, graph, heads, (uint64_t)q.sizes[2], d, 2 * pairs * (forward ? d + dv : 3 * d + 2 * dv), !forward, q.type);
        return true;
    }
    uint64_t n = 0, sum = 0, heads = 0, queries = 0, head = 0;
    int64_t type = 0;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        Product product;
        if (!operations->values.descriptors[i] || !read_product(operations->values.descriptors[i], &product))
            continue;
        sum += 2 * product.batch * product.m * product.n * product.k;
        if (n++ == 0) {
            heads = product.batch;
            queries = product.m;
            head = product.k;
            type = product.type;
        }
    }
    if (n < 2)
        return false;
    write_attention(call, graph, heads, queries, head, sum, n > 2, type);
    return true;
}

static void write_norm(Call *call, const char *name, const Tensor *x, bool backward)
{
    uint64_t elements = elements_of(x), rows = x->rank > 1 ? (uint64_t)x->sizes[1] : 1;
    char launch[160];
    snprintf(launch, sizeof launch, "rows=%llux%llu operand_bytes=%u class=norm%s", (unsigned long long)rows,
             (unsigned long long)(elements / (rows ? rows : 1)), (bits_of(x->type) + 7) / 8, backward ? " backward=1" : "");
    write_launch(call, name, launch, 0, NULL);
}

/* What is no convolution, product or norm: arrays read and written. */
static void write_elementwise(Call *call, const Descriptor *graph)
{
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    uint64_t elements = 0;
    unsigned bytes = 4;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        const Descriptor *operation = operations->values.descriptors[i];
        for (size_t j = 0; operation && j < operation->n_attributes; j++) {
            Tensor tensor;
            if (operation->attributes[j].type != TYPE_DESCRIPTOR || operation->attributes[j].n < 1 ||
                !read_tensor(operation->attributes[j].values.descriptors[0], &tensor) || elements_of(&tensor) <= elements)
                continue;
            elements = elements_of(&tensor);
            bytes = (bits_of(tensor.type) + 7) / 8;
        }
    }
    char launch[128];
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=elementwise", (unsigned long long)elements, bytes);
    write_launch(call, "cudnn operations", launch, 0, NULL);
}

static void write_graph(Call *call, const Descriptor *graph, const Descriptor *pack)
{
    call->traffic = traffic_of(graph, pack);
    if (write_attention_graph(call, graph))
        return;
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    bool any = false;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        const Descriptor *operation = operations->values.descriptors[i];
        Product product;
        Tensor x;
        if (!operation)
            continue;
        if (write_convolution_operation(call, operation)) {
            any = true;
        } else if (read_product(operation, &product)) {
            char launch[192];
            snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu operand_bytes=%u class=product", (unsigned long long)product.batch,
                     (unsigned long long)product.m, (unsigned long long)product.n, (unsigned long long)product.k, (bits_of(product.type) + 7) / 8);
            write_launch(call, "cudnn product", launch, 2 * product.batch * product.m * product.n * product.k, type_name(product.type));
            any = true;
        } else if ((operation->type == NORM_FORWARD && read_tensor(descriptor_at(operation, NORM_FORWARD_X), &x)) ||
                   (operation->type == NORM_BACKWARD && read_tensor(descriptor_at(operation, NORM_BACKWARD_X), &x))) {
            write_norm(call, operation->type == NORM_FORWARD ? "cudnn norm" : "cudnn norm: gradients", &x, operation->type == NORM_BACKWARD);
            any = true;
        }
    }
    if (!any)
        write_elementwise(call, graph);
}

/* ---- handles ---- */

typedef struct {
    void *stream;
} Handle;

PRETEND_EXPORT int cudnnCreate(void **ret)
{
    *ret = calloc(1, sizeof(Handle));
    return *ret ? SUCCESS : NO_MEMORY;
}

PRETEND_EXPORT int cudnnDestroy(void *handle)
{
    free(handle);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnSetStream(void *handle, void *stream)
{
    ((Handle *)handle)->stream = stream;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetStream(void *handle, void **ret)
{
    *ret = ((Handle *)handle)->stream;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    const Descriptor *graph = graph_of(plan);
    if (!handle || !graph)
        return BAD_PARAM;
    int64_t workspace = 0, n = 0;
    cudnnBackendGetAttribute(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &n, &workspace);
    Call call = {.stream = ((Handle *)handle)->stream, .workspace = workspace > 0 ? (uint64_t)workspace : 0, .tensor_cores = uses_tensor_cores(plan)};
    write_graph(&call, graph, pack);
    const Descriptor *config = descriptor_at(plan, PLAN_CONFIG);
    if (config)
        pretend_takes_longer(LAUNCHES_APART * (unsigned)(config->index + (config->fallback ? FALLBACK_PLACE : 0)));
    return SUCCESS;
}

/* ---- calls from before graphs: their tensors are the library's own, which needs no GPU for them ---- */

static bool read_own_tensor(const char *getter, bool filter, const void *descriptor, Tensor *ret)
{
    int type = 0, format = 0, rank = 0, sizes[MAX_DIMENSIONS] = {0}, strides[MAX_DIMENSIONS] = {0};
    void *symbol = descriptor ? pretend_cudnn_symbol(getter) : NULL;
    int (*get)(const void *, int, int *, int *, int *, int *);
    memcpy(&get, &symbol, sizeof get);
    *ret = (Tensor){.in_memory = true};
    /* A filter's layout stands where a tensor's rank does. */
    if (!symbol || get(descriptor, MAX_DIMENSIONS, &type, filter ? &format : &rank, filter ? &rank : sizes, filter ? sizes : strides) != SUCCESS || rank < 1 ||
        rank > MAX_DIMENSIONS)
        return false;
    ret->rank = rank;
    ret->type = type;
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        ret->sizes[i] = sizes[i];
        ret->strides[i] = filter ? stride : strides[i];
        stride *= sizes[i];
    }
    if (filter && format == 1) /* CUDNN_TENSOR_NHWC: channels side by side */
        ret->strides[1] = 1;
    return true;
}

static bool tensor_of(const void *descriptor, Tensor *ret)
{
    return read_own_tensor("cudnnGetTensorNdDescriptor", false, descriptor, ret);
}

static bool filter_of(const void *descriptor, Tensor *ret)
{
    return read_own_tensor("cudnnGetFilterNdDescriptor", true, descriptor, ret);
}

/* @at: where x, w and y lie. CUDNN_FMA_MATH is asked for where tf32 is not allowed; it is not read back from the descriptor: f32 stands for f32 here. */
static int call_convolution(void *handle, int kind, const char *name, const void *x_of, const void *w_of, const void *y_of, const void *const *at)
{
    Tensor x, w, y;
    if (!handle || !tensor_of(x_of, &x) || !filter_of(w_of, &w) || !tensor_of(y_of, &y) || x.rank < 3 || x.rank != w.rank || x.rank != y.rank)
        return BAD_PARAM;
    const Tensor *const all[] = {&x, &w, &y}, *result = kind == CONVOLUTION_FORWARD ? &y : kind == CONVOLUTION_DATA ? &x : &w;
    Call call = {.stream = ((Handle *)handle)->stream, .tensor_cores = bits_of(x.type) <= 16};
    for (size_t i = 0; i < 3; i++)
        *(all[i] == result ? &call.traffic.written : &call.traffic.read) += bytes_of(all[i]);
    for (size_t i = 0; i < 3; i++)
        pretend_use(all[i] == result ? PRETEND_WRITES : PRETEND_READS, at[i], bytes_of(all[i]));
    write_convolution(&call, kind, name, &x, &w, &y);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnConvolutionForward(void *handle, const void *alpha, const void *x_of, const void *x, const void *w_of, const void *w,
                                           const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *beta, const void *y_of,
                                           void *y)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)beta;
    return call_convolution(handle, CONVOLUTION_FORWARD, "cudnn convolution", x_of, w_of, y_of, (const void *const[]){x, w, y});
}

PRETEND_EXPORT int cudnnConvolutionBiasActivationForward(void *handle, const void *alpha, const void *x_of, const void *x, const void *w_of, const void *w,
                                                         const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *alpha2,
                                                         const void *z_of, const void *z, const void *bias_of, const void *bias, const void *activation,
                                                         const void *y_of, void *y)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)alpha2, (void)z_of, (void)bias_of, (void)activation;
    pretend_use(PRETEND_READS, z, 0);
    pretend_use(PRETEND_READS, bias, 0);
    return call_convolution(handle, CONVOLUTION_FORWARD, "cudnn convolution", x_of, w_of, y_of, (const void *const[]){x, w, y});
}

PRETEND_EXPORT int cudnnConvolutionBackwardData(void *handle, const void *alpha, const void *w_of, const void *w, const void *dy_of, const void *dy,
                                                const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *beta,
                                                const void *dx_of, void *dx)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)beta;
    return call_convolution(handle, CONVOLUTION_DATA, "cudnn convolution: gradient of the data", dx_of, w_of, dy_of, (const void *const[]){dx, w, dy});
}

PRETEND_EXPORT int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, const void *x_of, const void *x, const void *dy_of, const void *dy,
                                                  const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *beta,
                                                  const void *dw_of, void *dw)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)beta;
    return call_convolution(handle, CONVOLUTION_FILTER, "cudnn convolution: gradient of the filters", x_of, dw_of, dy_of, (const void *const[]){x, dw, dy});
}

/* cudnnConvolution*AlgoPerf_t. */
typedef struct {
    int algorithm, status;
    float ms;
    size_t workspace;
    int deterministic, math, reserved[3];
} Algorithm;

/* One algorithm, the implicit product (1 in all three enumerations), of no workspace. */
static int choose_algorithm(int room, int *ret_n, void *ret)
{
    *ret_n = room > 0;
    if (room > 0)
        *(Algorithm *)ret = (Algorithm){.algorithm = 1, .ms = 1, .deterministic = 1};
    return SUCCESS;
}

#define CHOOSES(name)                                                                                                                                          \
    PRETEND_EXPORT int cudnnGet##name##Algorithm_v7(void *handle, void *a, void *b, void *c, void *d, int room, int *ret_n, void *ret)                         \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)b, (void)c, (void)d;                                                                                                      \
        return choose_algorithm(room, ret_n, ret);                                                                                                             \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cudnnFind##name##AlgorithmEx(void *handle, void *a, void *a_data, void *b, void *b_data, void *c, void *d, void *d_data, int room,      \
                                                    int *ret_n, void *ret, void *workspace, size_t bytes)                                                      \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)a_data, (void)b, (void)b_data, (void)c, (void)d, (void)d_data, (void)workspace, (void)bytes;                              \
        return choose_algorithm(room, ret_n, ret);                                                                                                             \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cudnnGet##name##WorkspaceSize(void *handle, void *a, void *b, void *c, void *d, int algorithm, size_t *ret)                             \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)b, (void)c, (void)d, (void)algorithm;                                                                                     \
        *ret = 0;                                                                                                                                              \
        return SUCCESS;                                                                                                                                        \
    }
CHOOSES(ConvolutionForward)
CHOOSES(ConvolutionBackwardData)
CHOOSES(ConvolutionBackwardFilter)

/* Batch norm. The library does not say sizes without a GPU: a bit an element is kept where an activation follows (cudnnBatchNormOps_t above 0), and partial
 * sums of two statistics a channel for every multiprocessor are assumed. */
static size_t norm_workspace(const void *x_of)
{
    Tensor x;
    return tensor_of(x_of, &x) && x.rank > 1 ? (size_t)x.sizes[1] * 2 * sizeof(float) * pretend_device()->multiprocessors : 0;
}

PRETEND_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations, const void *x_of, const void *z_of,
                                                                            const void *y_of, const void *scale_of, const void *activation, size_t *ret)
{
    (void)handle, (void)mode, (void)operations, (void)z_of, (void)y_of, (void)scale_of, (void)activation;
    *ret = norm_workspace(x_of);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations, const void *x_of, const void *y_of,
                                                                     const void *dy_of, const void *dz_of, const void *dx_of, const void *scale_of,
                                                                     const void *activation, size_t *ret)
{
    (void)handle, (void)mode, (void)operations, (void)y_of, (void)dy_of, (void)dz_of, (void)dx_of, (void)scale_of, (void)activation;
    *ret = norm_workspace(x_of);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations, const void *activation, const void *x_of,
                                                                        size_t *ret)
{
    (void)handle, (void)mode, (void)activation;
    Tensor x;
    *ret = operations > 0 && tensor_of(x_of, &x) ? (size_t)(elements_of(&x) + 7) / 8 : 0;
    return SUCCESS;
}

static int call_norm(void *handle, const char *name, const void *x_of, uint64_t reads, bool backward)
{
    Tensor x;
    if (!handle || !tensor_of(x_of, &x))
        return BAD_PARAM;
    Call call = {.stream = ((Handle *)handle)->stream, .traffic = {.read = reads * bytes_of(&x), .written = bytes_of(&x)}};
    write_norm(&call, name, &x, backward);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBatchNormalizationForwardTrainingEx(void *handle, int mode, int operations, const void *alpha, const void *beta, const void *x_of,
                                                            const void *x, const void *z_of, const void *z, const void *y_of, void *y, const void *scale_of,
                                                            const void *scale, const void *bias, double factor, void *mean, void *variance, double epsilon,
                                                            void *saved_mean, void *saved_variance, void *activation, void *workspace, size_t workspace_bytes,
                                                            void *reserve, size_t reserve_bytes)
{
    (void)mode, (void)operations, (void)alpha, (void)beta, (void)z_of, (void)y_of, (void)scale_of, (void)factor, (void)epsilon, (void)activation;
    (void)workspace, (void)workspace_bytes, (void)reserve_bytes;
    pretend_uses((const void *const[]){x, z, scale, bias}, 4, (const void *const[]){y, saved_mean, saved_variance, reserve}, 4);
    pretend_use(PRETEND_UPDATES, mean, 0);
    pretend_use(PRETEND_UPDATES, variance, 0);
    return call_norm(handle, "cudnn batch norm", x_of, z ? 2 : 1, false);
}

PRETEND_EXPORT int cudnnBatchNormalizationForwardTraining(void *handle, int mode, const void *alpha, const void *beta, const void *x_of, const void *x,
                                                          const void *y_of, void *y, const void *scale_of, const void *scale, const void *bias, double factor,
                                                          void *mean, void *variance, double epsilon, void *saved_mean, void *saved_variance)
{
    return cudnnBatchNormalizationForwardTrainingEx(handle, mode, 0, alpha, beta, x_of, x, NULL, NULL, y_of, y, scale_of, scale, bias, factor, mean, variance,
                                                    epsilon, saved_mean, saved_variance, NULL, NULL, 0, NULL, 0);
}

PRETEND_EXPORT int cudnnBatchNormalizationForwardInference(void *handle, int mode, const void *alpha, const void *beta, const void *x_of, const void *x,
                                                           const void *y_of, void *y, const void *scale_of, const void *scale, const void *bias,
                                                           const void *mean, const void *variance, double epsilon)
{
    (void)mode, (void)alpha, (void)beta, (void)y_of, (void)scale_of, (void)epsilon;
    pretend_uses((const void *const[]){x, scale, bias, mean, variance}, 5, (const void *const[]){y}, 1);
    Tensor tensor;
    if (!handle || !tensor_of(x_of, &tensor))
        return BAD_PARAM;
    Call call = {.stream = ((Handle *)handle)->stream, .traffic = {.read = bytes_of(&tensor), .written = bytes_of(&tensor)}};
    char launch[96]; /* its statistics are there: every element once */
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=elementwise", (unsigned long long)elements_of(&tensor),
             (bits_of(tensor.type) + 7) / 8);
    write_launch(&call, "cudnn batch norm", launch, 0, NULL);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBatchNormalizationBackwardEx(void *handle, int mode, int operations, const void *alpha_data, const void *beta_data,
                                                     const void *alpha_parameters, const void *beta_parameters, const void *x_of, const void *x,
                                                     const void *y_of, const void *y, const void *dy_of, const void *dy, const void *dz_of, void *dz,
                                                     const void *dx_of, void *dx, const void *scale_of, const void *scale, const void *bias, void *dscale,
                                                     void *dbias, double epsilon, const void *saved_mean, const void *saved_variance, void *activation,
                                                     void *workspace, size_t workspace_bytes, void *reserve, size_t reserve_bytes)
{
    (void)mode, (void)operations, (void)alpha_data, (void)beta_data, (void)alpha_parameters, (void)beta_parameters, (void)y_of, (void)dy_of, (void)dz_of;
    (void)dx_of, (void)scale_of, (void)epsilon, (void)activation, (void)workspace, (void)workspace_bytes, (void)reserve_bytes;
    pretend_uses((const void *const[]){x, y, dy, scale, bias, saved_mean, saved_variance, reserve}, 8, (const void *const[]){dx, dz, dscale, dbias}, 4);
    return call_norm(handle, "cudnn batch norm: gradients", x_of, 2, true);
}

PRETEND_EXPORT int cudnnBatchNormalizationBackward(void *handle, int mode, const void *alpha_data, const void *beta_data, const void *alpha_parameters,
                                                   const void *beta_parameters, const void *x_of, const void *x, const void *dy_of, const void *dy,
                                                   const void *dx_of, void *dx, const void *scale_of, const void *scale, void *dscale, void *dbias,
                                                   double epsilon, const void *saved_mean, const void *saved_variance)
{
    return cudnnBatchNormalizationBackwardEx(handle, mode, 0, alpha_data, beta_data, alpha_parameters, beta_parameters, x_of, x, NULL, NULL, dy_of, dy, NULL,
                                             NULL, dx_of, dx, scale_of, scale, NULL, dscale, dbias, epsilon, saved_mean, saved_variance, NULL, NULL, 0, NULL,
                                             0);
}

/* ---- the rest: what they read and write ---- */

static uint64_t size_of(const void *descriptor)
{
    Tensor tensor;
    return tensor_of(descriptor, &tensor) ? bytes_of(&tensor) : 0;
}

/* @over: whose elements are gone over, as models/kernel/gpu.h calls @kind. */
static int call_elementwise(void *handle, const char *name, const char *kind, const void *over, uint64_t read, uint64_t written)
{
    Tensor tensor;
    if (!handle || !tensor_of(over, &tensor))
        return BAD_PARAM;
    char launch[128];
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=%s", (unsigned long long)elements_of(&tensor), (bits_of(tensor.type) + 7) / 8, kind);
    pretend_library_kernel(((Handle *)handle)->stream, name, launch, read, written, 0, NULL);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnPoolingForward(void *handle, const void *pooling, const void *alpha, const void *x_of, const void *x, const void *beta,
                                       const void *y_of, void *y)
{
    (void)pooling, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn pooling", "strided", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnPoolingBackward(void *handle, const void *pooling, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                        const void *dy, const void *x_of, const void *x, const void *beta, const void *dx_of, void *dx)
{
    (void)pooling, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy, x}, 3, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn pooling: gradients", "strided", dx_of, size_of(y_of) + size_of(dy_of) + size_of(x_of), size_of(dx_of));
}

PRETEND_EXPORT int cudnnSoftmaxForward(void *handle, int algorithm, int mode, const void *alpha, const void *x_of, const void *x, const void *beta,
                                       const void *y_of, void *y)
{
    (void)algorithm, (void)mode, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn softmax", "elementwise", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnSoftmaxBackward(void *handle, int algorithm, int mode, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                        const void *dy, const void *beta, const void *dx_of, void *dx)
{
    (void)algorithm, (void)mode, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy}, 2, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn softmax: gradients", "elementwise", dx_of, size_of(y_of) + size_of(dy_of), size_of(dx_of));
}

PRETEND_EXPORT int cudnnActivationForward(void *handle, void *activation, const void *alpha, const void *x_of, const void *x, const void *beta,
                                          const void *y_of, void *y)
{
    (void)activation, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn activation", "elementwise", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnActivationBackward(void *handle, void *activation, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                           const void *dy, const void *x_of, const void *x, const void *beta, const void *dx_of, void *dx)
{
    (void)activation, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy, x}, 3, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn activation: gradients", "elementwise", dx_of, size_of(y_of) + size_of(dy_of) + size_of(x_of), size_of(dx_of));
}

PRETEND_EXPORT int cudnnLRNCrossChannelForward(void *handle, void *norm, int mode, const void *alpha, const void *x_of, const void *x, const void *beta,
                                               const void *y_of, void *y)
{
    (void)norm, (void)mode, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn local response norm", "elementwise", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnLRNCrossChannelBackward(void *handle, void *norm, int mode, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                                const void *dy, const void *x_of, const void *x, const void *beta, const void *dx_of, void *dx)
{
    (void)norm, (void)mode, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy, x}, 3, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn local response norm: gradients", "elementwise", dx_of, size_of(y_of) + size_of(dy_of) + size_of(x_of),
                            size_of(dx_of));
}

/* c = a op b, and c += a, of which b or a may be smaller. */
PRETEND_EXPORT int cudnnOpTensor(void *handle, const void *operation, const void *alpha1, const void *a_of, const void *a, const void *alpha2, const void *b_of,
                                 const void *b, const void *beta, const void *c_of, void *c)
{
    (void)operation, (void)alpha1, (void)alpha2, (void)beta;
    pretend_uses((const void *const[]){a, b}, 2, (const void *const[]){c}, 1);
    return call_elementwise(handle, "cudnn element by element", "elementwise", c_of, size_of(a_of) + size_of(b_of), size_of(c_of));
}

PRETEND_EXPORT int cudnnAddTensor(void *handle, const void *alpha, const void *a_of, const void *a, const void *beta, const void *c_of, void *c)
{
    (void)alpha, (void)beta;
    pretend_use(PRETEND_READS, a, 0);
    pretend_use(PRETEND_UPDATES, c, 0);
    return call_elementwise(handle, "cudnn addition", "elementwise", c_of, size_of(a_of) + size_of(c_of), size_of(c_of));
}

PRETEND_EXPORT int cudnnTransformTensor(void *handle, const void *alpha, const void *x_of, const void *x, const void *beta, const void *y_of, void *y)
{
    (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn relayout", "relayout", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnConvolutionBackwardBias(void *handle, const void *alpha, const void *dy_of, const void *dy, const void *beta, const void *db_of,
                                                void *db)
{
    (void)alpha, (void)beta;
    pretend_uses(&dy, 1, (const void *const[]){db}, 1);
    return call_elementwise(handle, "cudnn convolution: gradient of the bias", "reduce", dy_of, size_of(dy_of), size_of(db_of));
}

/* A reduction's scratch memory is assumed to be as its result in f32. */
PRETEND_EXPORT int cudnnGetReductionWorkspaceSize(void *handle, const void *reduction, const void *a_of, const void *c_of, size_t *ret)
{
    (void)handle, (void)reduction, (void)a_of;
    Tensor c;
    *ret = tensor_of(c_of, &c) ? sizeof(float) * (size_t)elements_of(&c) : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetReductionIndicesSize(void *handle, const void *reduction, const void *a_of, const void *c_of, size_t *ret)
{
    return cudnnGetReductionWorkspaceSize(handle, reduction, a_of, c_of, ret); /* 32 bits each, too */
}

PRETEND_EXPORT int cudnnReduceTensor(void *handle, const void *reduction, void *indices, size_t indices_bytes, void *workspace, size_t workspace_bytes,
                                     const void *alpha, const void *a_of, const void *a, const void *beta, const void *c_of, void *c)
{
    (void)reduction, (void)indices_bytes, (void)workspace, (void)workspace_bytes, (void)alpha, (void)beta;
    pretend_uses(&a, 1, (const void *const[]){c, indices}, 2);
    return call_elementwise(handle, "cudnn reduction", "reduce", a_of, size_of(a_of), size_of(c_of));
}

PRETEND_EXPORT int cudnnSpatialTfSamplerForward(void *handle, const void *sampler, const void *alpha, const void *x_of, const void *x, const void *grid,
                                                const void *beta, const void *y_of, void *y)
{
    (void)sampler, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){x, grid}, 2, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn grid sampler", "gather", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnSpatialTfSamplerBackward(void *handle, const void *sampler, const void *alpha, const void *x_of, const void *x, const void *beta,
                                                 const void *dx_of, void *dx, const void *alpha_grid, const void *dy_of, const void *dy, const void *grid,
                                                 const void *beta_grid, void *dgrid)
{
    (void)sampler, (void)alpha, (void)beta, (void)alpha_grid, (void)beta_grid;
    pretend_uses((const void *const[]){x, dy, grid}, 3, (const void *const[]){dx, dgrid}, 2);
    return call_elementwise(handle, "cudnn grid sampler: gradients", "scatter", dy_of, 2 * size_of(x_of), size_of(dx_of));
}

/* Of a few numbers an image: what is computed is small, and the grid's size stands in a descriptor that cannot be read. */
PRETEND_EXPORT int cudnnSpatialTfGridGeneratorForward(void *handle, const void *sampler, const void *theta, void *grid)
{
    (void)handle, (void)sampler, (void)theta, (void)grid;
    pretend_say_once("cuDNN's affine grids (affine_grid) are not counted");
    return SUCCESS;
}

PRETEND_EXPORT int cudnnSpatialTfGridGeneratorBackward(void *handle, const void *sampler, const void *dgrid, void *dtheta)
{
    (void)handle, (void)sampler, (void)dgrid, (void)dtheta;
    pretend_say_once("cuDNN's affine grids (affine_grid) are not counted");
    return SUCCESS;
}

/* As large as the probabilities in two directions of time: assumed. */
static int ctc_workspace(const void *probabilities, size_t *ret)
{
    Tensor tensor;
    *ret = tensor_of(probabilities, &tensor) ? 2 * (size_t)bytes_of(&tensor) : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetCTCLossWorkspaceSize(void *handle, const void *probabilities, const void *gradients, const int *labels, const int *label_lengths,
                                                const int *lengths, int algorithm, const void *loss, size_t *ret)
{
    (void)handle, (void)gradients, (void)labels, (void)label_lengths, (void)lengths, (void)algorithm, (void)loss;
    return ctc_workspace(probabilities, ret);
}

PRETEND_EXPORT int cudnnGetCTCLossWorkspaceSize_v8(void *handle, int algorithm, const void *loss, const void *probabilities, const void *gradients, size_t *ret)
{
    (void)handle, (void)algorithm, (void)loss, (void)gradients;
    return ctc_workspace(probabilities, ret);
}

PRETEND_EXPORT int cudnnCTCLoss(void *handle, const void *probabilities_of, const void *probabilities, const int *labels, const int *label_lengths,
                                const int *lengths, void *costs, const void *gradients_of, void *gradients, int algorithm, const void *loss, void *workspace,
                                size_t bytes)
{
    (void)labels, (void)label_lengths, (void)lengths, (void)algorithm, (void)loss, (void)workspace, (void)bytes;
    pretend_uses(&probabilities, 1, (const void *const[]){costs, gradients}, 2);
    return call_elementwise(handle, "cudnn CTC loss", "reduce", probabilities_of, size_of(probabilities_of), size_of(gradients_of));
}

PRETEND_EXPORT int cudnnCTCLoss_v8(void *handle, int algorithm, const void *loss, const void *probabilities_of, const void *probabilities, const int *labels,
                                   const int *label_lengths, const int *lengths, void *costs, const void *gradients_of, void *gradients, size_t bytes,
                                   void *workspace)
{
    (void)algorithm, (void)loss, (void)bytes, (void)workspace;
    pretend_uses((const void *const[]){probabilities, labels, label_lengths, lengths}, 4, (const void *const[]){costs, gradients}, 2);
    return call_elementwise(handle, "cudnn CTC loss", "reduce", probabilities_of, size_of(probabilities_of), size_of(gradients_of));
}
