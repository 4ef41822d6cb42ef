/* cuDNN: what a graph of its operations does, by the shapes that the program set.
 *
 * From 9.8 on the real library chooses engines and says their workspaces without a GPU, if told of one: descriptors are passed on to it, with the pretended
 * device as the "device property" of heuristics and plans. Older ones are not asked: then every graph has two engines, and convolutions copy
 * into their workspace what does not lie channel by channel. Plans are
 * never executed; a plan's operations are written as one launch each (convolutions, products, normalisations) or as one of all (attention). */
#include "dnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cudnnBackendDescriptorType_t. */
enum {
    POINTWISE = 0,
    CONVOLUTION = 1,
    ENGINE = 2,
    ENGINE_CONFIG = 3,
    KNOB_CHOICE = 7,
    HEURISTICS = 4,
    PLAN = 5,
    OPERATION_POINTWISE = 13,
    GRAPH = 15,
    TENSOR = 17,
    OPERATION_PRODUCT = 19,
    NORM_FORWARD = 29,
    NORM_BACKWARD = 30,
    OPERATION_RANDOM = 33,
    DEVICE_PROPERTY = 38,
    ATTENTION_FORWARD = 41,
    ATTENTION_BACKWARD = 43,
    BAND_MASK = 44,
    SOFTMAX = 45,
};

/* cudnnBackendAttributeType_t. */
enum { TYPE_HANDLE = 0, TYPE_INT64 = 3, TYPE_ADDRESS = 6, TYPE_KNOB = 9, TYPE_NUMERICAL_NOTE = 11, TYPE_DESCRIPTOR = 15, TYPE_INT32 = 23, TYPE_CHAR = 24 };

/* cudnnBackendAttributeName_t. */
enum {
    POINTWISE_MODE = 0,
    HEURISTICS_MODE = 200,
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    HEURISTICS_DEVICE = 204,
    CONFIG_ENGINE = 300,
    CONFIG_KNOBS = 302,
    CONFIG_WORKSPACE = 303,
    CONFIG_SHARED = 304,
    PLAN_HANDLE = 400,
    PLAN_CONFIG = 401,
    PLAN_WORKSPACE = 402,
    PLAN_JSON = 405,
    PLAN_DEVICE = 407,
    KNOB_TYPE = 600,
    KNOB_VALUE = 601,
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
             "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%u,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%u,"
             "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%u,\"memClockRateKHz\":%u,\"l2CacheSize\":%llu,"
             "\"deviceName\":\"%s\"}",
             100 * d->major + 10 * d->minor, driver, (unsigned long long)d->bytes, d->multiprocessors, (unsigned long long)d->shared_per_block, d->blocks,
             d->threads, d->clock_khz, d->memory_clock_khz, (unsigned long long)d->l2_bytes, d->name);
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
 * long as the process runs. It is JSON, as cuDNN's is: cudnn-frontend looks into it for the engine of plans that some releases of cuDNN get wrong. */
static const char plan_text[] = "{\"echelon_plan\": ";
static Descriptor **written_configs;
static size_t n_written_configs;

static int write_plan(Descriptor *config, int64_t room, int64_t *ret_n, char *ret)
{
    pretend_lock();
    size_t at = 0;
    while (at < n_written_configs && written_configs[at] != config)
        at++;
    Descriptor **larger = at < n_written_configs ? written_configs : realloc(written_configs, (at + 1) * sizeof(Descriptor *));
    if (larger && at == n_written_configs)
        larger[n_written_configs++] = take(config);
    written_configs = larger ? larger : written_configs;
    pretend_unlock();
    char text[64];
    int64_t bytes = snprintf(text, sizeof text, "%s%zu}", plan_text, at) + 1;
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
    pretend_lock();
    Descriptor *config = at < n_written_configs ? written_configs[at] : NULL;
    pretend_unlock();
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

/* cudnnBackendKnobType_t, of which engines of CUTLASS kernels have these; and their values, as kernels are called that cuDNN 9.19 then ran on an H200 (a
 * RegNet's groups; held out, first layers of a ConvNeXt and an EfficientNet there, of a ResNet-50 on an H100: the same tiles, and grids that are cut into as
 * many parts). */
enum { KNOB_SPLIT = 0, KNOB_TILE = 2, KNOB_DEPTH = 5, KNOB_STAGES = 14, MOST_KNOBS = 32 };
static const struct {
    int64_t value;
    unsigned m, n;
} tiles[] = {{0, 128, 128}, {4, 256, 64}, {5, 64, 64}, {7, 64, 128}};
static const uint8_t depths[] = {[3] = 32, [4] = 64}, all_stages[] = {[2] = 3, [3] = 4, [4] = 5, [5] = 6, [6] = 10};

static PretendDnnTile tile_of(Descriptor *plan)
{
    PretendDnnTile tile = {0};
    const Descriptor *config = descriptor_at(plan, PLAN_CONFIG);
    if (!config || !config->real)
        return tile;
    void *knobs[MOST_KNOBS] = {NULL};
    int64_t n = 0, values[KNOB_STAGES + 1];
    memset(values, -1, sizeof values);
    for (int i = 0; i < MOST_KNOBS; i++)
        if (real.create(KNOB_CHOICE, &knobs[i]) != SUCCESS)
            knobs[i] = NULL;
    if (real.get(config->real, CONFIG_KNOBS, TYPE_DESCRIPTOR, MOST_KNOBS, &n, knobs) != SUCCESS)
        n = 0;
    for (int64_t i = 0; i < n && i < MOST_KNOBS; i++) {
        int type = -1;
        int64_t value = 0, got = 0;
        if (knobs[i] && real.get(knobs[i], KNOB_TYPE, TYPE_KNOB, 1, &got, &type) == SUCCESS &&
            real.get(knobs[i], KNOB_VALUE, TYPE_INT64, 1, &got, &value) == SUCCESS && type >= 0 && type <= KNOB_STAGES)
            values[type] = value;
    }
    for (int i = 0; i < MOST_KNOBS; i++)
        if (knobs[i])
            real.destroy(knobs[i]);
    int64_t depth = values[KNOB_DEPTH], stages = values[KNOB_STAGES];
    tile.split = values[KNOB_SPLIT] > 1 && values[KNOB_SPLIT] < 4096 ? (unsigned)values[KNOB_SPLIT] : 0;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        if (tiles[i].value == values[KNOB_TILE] && depth >= 0 && depth < (int64_t)sizeof depths && depths[depth] > 0 && stages >= 0 &&
            stages < (int64_t)sizeof all_stages && all_stages[stages] > 0)
            tile = (PretendDnnTile){.m = tiles[i].m, .n = tiles[i].n, .k = depths[depth], .stages = all_stages[stages], .split = tile.split};
    }
    return tile;
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

#define MAX_TENSORS 128

static bool read_tensor(const Descriptor *descriptor, PretendTensor *ret)
{
    *ret = (PretendTensor){0};
    if (!descriptor || descriptor->type != TENSOR)
        return false;
    ret->rank = integers_at(descriptor, TENSOR_DIMENSIONS, ret->sizes, PRETEND_DNN_DIMENSIONS);
    integers_at(descriptor, TENSOR_STRIDES, ret->strides, PRETEND_DNN_DIMENSIONS);
    ret->type = integer_at(descriptor, TENSOR_TYPE);
    ret->id = integer_at(descriptor, TENSOR_ID);
    ret->in_memory = !integer_at(descriptor, TENSOR_VIRTUAL) && !integer_at(descriptor, TENSOR_BY_VALUE);
    return ret->rank > 0;
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
            PretendTensor tensor;
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
            *(written ? &traffic->written : &traffic->read) += pretend_dnn_bytes(&tensor);
            pretend_use(written ? PRETEND_WRITES : PRETEND_READS, address_in(traffic->pack, tensor.id), pretend_dnn_bytes(&tensor));
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
static int read_convolution(const Descriptor *operation, PretendTensor *x, PretendTensor *w, PretendTensor *y)
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
    PretendTensor x, w, y;
    uint64_t copies[3];
    if (!operation || read_convolution(operation, &x, &w, &y) < 0 || pretend_dnn_bits(x.type) != 16 || x.sizes[1] != w.sizes[1])
        return false;
    double copied = (double)pretend_dnn_copied_bytes(&x, &w, &y, false, copies),
           bytes = (double)(pretend_dnn_bytes(&x) + pretend_dnn_bytes(&w) + pretend_dnn_bytes(&y)),
           operations = 2 * (double)pretend_dnn_elements(&y) * (double)pretend_dnn_elements(&w) / (double)w.sizes[0];
    return copied > 0 && operations / rate < LANES_FIRST * (bytes + 2 * copied) / memory;
}

/* Where the library is not asked: a convolution on tensor cores copies what does not lie right. */
static uint64_t assumed_workspace(Descriptor *descriptor)
{
    const Descriptor *graph = graph_of(descriptor);
    uint64_t bytes = 0, copies[3];
    for (size_t i = 0; graph && i < sizeof convolutions / sizeof *convolutions; i++) {
        const Descriptor *operation = operation_of(graph, convolutions[i].type);
        PretendTensor x, w, y;
        if (operation && read_convolution(operation, &x, &w, &y) >= 0 && uses_tensor_cores(descriptor) && pretend_dnn_bits(x.type) <= 32)
            bytes += pretend_dnn_copied_bytes(&x, &w, &y, false, copies);
    }
    return bytes;
}

/* ---- lines ---- */

static bool write_convolution_operation(PretendDnnCall *call, const Descriptor *operation)
{
    PretendTensor x, w, y;
    int which = read_convolution(operation, &x, &w, &y);
    if (which >= 0) {
        pretend_dnn_asked();
        pretend_dnn_convolution(call, convolutions[which].type, convolutions[which].name, &x, &w, &y);
    }
    return which >= 0;
}

/* [.., m, k] x [.., k, n]. */
typedef struct {
    uint64_t batch, m, n, k;
    uint64_t outermost; /* size of the first dimension of a batch; 1: there is no batch */
    int64_t type;
} Product;

static bool read_product(const Descriptor *operation, Product *ret)
{
    PretendTensor a, b, c;
    if (operation->type != OPERATION_PRODUCT || !read_tensor(descriptor_at(operation, PRODUCT_A), &a) ||
        !read_tensor(descriptor_at(operation, PRODUCT_B), &b) || !read_tensor(descriptor_at(operation, PRODUCT_C), &c) || a.rank < 2 || b.rank < 2 ||
        c.rank < 2)
        return false;
    *ret = (Product){.batch = 1,
                     .outermost = c.rank > 2 && c.sizes[0] > 0 ? (uint64_t)c.sizes[0] : 1,
                     .m = (uint64_t)c.sizes[c.rank - 2],
                     .n = (uint64_t)c.sizes[c.rank - 1],
                     .k = (uint64_t)a.sizes[a.rank - 1],
                     .type = a.in_memory ? a.type : b.type};
    for (int i = 0; i + 2 < c.rank; i++)
        ret->batch *= (uint64_t)c.sizes[i];
    return true;
}

/* Numbers for dropout. */
static bool draws(const Descriptor *graph)
{
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    bool found = false;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++)
        found = found || (operations->values.descriptors[i] && operations->values.descriptors[i]->type == OPERATION_RANDOM);
    return found;
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

#define BLOCK_QUERIES 128u

typedef struct {
    uint64_t sequences, heads, queries, keys; /* heads of a sequence */
    uint64_t depth, operations;               /* of all products */
    int64_t type;
    bool backward;
} Attention;

static bool read_attention(const Descriptor *graph, Attention *ret)
{
    const Descriptor *forward = operation_of(graph, ATTENTION_FORWARD), *backward = operation_of(graph, ATTENTION_BACKWARD);
    if (forward || backward) {
        PretendTensor q, k, v;
        if (!read_tensor(descriptor_at(forward ? forward : backward, forward ? ATTENTION_Q : ATTENTION_BACKWARD_Q), &q) ||
            !read_tensor(descriptor_at(forward ? forward : backward, forward ? ATTENTION_K : ATTENTION_BACKWARD_K), &k) ||
            !read_tensor(descriptor_at(forward ? forward : backward, forward ? ATTENTION_V : ATTENTION_BACKWARD_V), &v) || q.rank != 4 || k.rank != 4 ||
            v.rank != 4)
            return false;
        uint64_t d = (uint64_t)q.sizes[3], dv = (uint64_t)v.sizes[3];
        *ret = (Attention){.sequences = (uint64_t)q.sizes[0],
                           .heads = (uint64_t)q.sizes[1],
                           .queries = (uint64_t)q.sizes[2],
                           .keys = (uint64_t)k.sizes[2],
                           .depth = d,
                           .type = q.type,
                           .backward = !forward};
        ret->operations = 2 * ret->sequences * ret->heads * ret->queries * ret->keys * (forward ? d + dv : 3 * d + 2 * dv);
        return true;
    }
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    uint64_t n = 0, sum = 0;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        Product product;
        if (!operations->values.descriptors[i] || !read_product(operations->values.descriptors[i], &product))
            continue;
        sum += 2 * product.batch * product.m * product.n * product.k;
        if (n++ == 0)
            *ret = (Attention){.sequences = product.outermost,
                               .heads = product.batch / product.outermost,
                               .queries = product.m,
                               .keys = product.n,
                               .depth = product.k,
                               .type = product.type};
    }
    if (n < 2)
        return false;
    ret->operations = sum;
    ret->backward = n > 2;
    return true;
}

/* All products of the graph in one launch. Forward two, [queries, depth] x [depth, keys] and [queries, keys] x [keys, depth]; backward five. A causal mask
 * leaves out half. Sequences that lie one behind the other have the size of the longest, and are as long as the program says. */
static bool write_attention(PretendDnnCall *call, const Descriptor *graph)
{
    Attention of;
    if (!read_attention(graph, &of))
        return false;
    bool causal = is_causal(graph, 0);
    uint64_t counted[5] = {0}, operations = causal ? of.operations / 2 : of.operations, heads = of.sequences * of.heads, queries = of.queries;
    double room = (double)of.sequences * (double)of.queries * (double)of.keys;
    if (pretend_lengths() && pretend_count_lengths(pretend_lengths(), counted) && counted[0] <= of.sequences && counted[4] > 0 && (double)counted[4] <= room) {
        double filled = (double)(counted[1] + counted[2]) / ((double)of.sequences * (double)(of.queries + of.keys));
        operations = (uint64_t)((double)of.operations / room * (double)counted[4]);
        heads = of.heads;
        queries = counted[1] + counted[0] * BLOCK_QUERIES / 2; /* the last block of each is half full */
        call->read = (uint64_t)((double)call->read * filled);
        call->written = (uint64_t)((double)call->written * filled);
    }
    char launch[256];
    snprintf(launch, sizeof launch, "grid=%llux%llux1 class=attention%s%s%s head=%llu arithmetic=%s operand_bytes=%u",
             (unsigned long long)((queries + BLOCK_QUERIES - 1) / BLOCK_QUERIES), (unsigned long long)heads, of.backward ? " backward=1" : "",
             causal ? " causal=1" : "", draws(graph) ? " dropout=1" : "", (unsigned long long)of.depth, pretend_device()->major >= 9 ? "wgmma" : "mma",
             (pretend_dnn_bits(of.type) + 7) / 8);
    pretend_dnn_launch(call, of.backward ? "cudnn attention: gradients" : "cudnn attention", launch, operations, pretend_dnn_type(of.type));
    return true;
}

/* What is no convolution, product or norm: arrays read and written. */
static void write_elementwise(PretendDnnCall *call, const Descriptor *graph)
{
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    uint64_t elements = 0;
    unsigned bytes = 4;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        const Descriptor *operation = operations->values.descriptors[i];
        for (size_t j = 0; operation && j < operation->n_attributes; j++) {
            PretendTensor tensor;
            if (operation->attributes[j].type != TYPE_DESCRIPTOR || operation->attributes[j].n < 1 ||
                !read_tensor(operation->attributes[j].values.descriptors[0], &tensor) || pretend_dnn_elements(&tensor) <= elements)
                continue;
            elements = pretend_dnn_elements(&tensor);
            bytes = (pretend_dnn_bits(tensor.type) + 7) / 8;
        }
    }
    char launch[128];
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=elementwise", (unsigned long long)elements, bytes);
    pretend_dnn_launch(call, "cudnn operations", launch, 0, NULL);
}

static void write_graph(PretendDnnCall *call, const Descriptor *graph, const Descriptor *pack)
{
    Traffic traffic = traffic_of(graph, pack);
    call->read = traffic.read;
    call->written = traffic.written;
    if (write_attention(call, graph))
        return;
    const Attribute *operations = attribute_of(graph, GRAPH_OPERATIONS);
    bool any = false;
    for (int64_t i = 0; operations && operations->type == TYPE_DESCRIPTOR && i < operations->n; i++) {
        const Descriptor *operation = operations->values.descriptors[i];
        Product product;
        PretendTensor x;
        if (!operation)
            continue;
        if (write_convolution_operation(call, operation)) {
            any = true;
        } else if (read_product(operation, &product)) {
            char launch[192];
            snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu operand_bytes=%u class=product", (unsigned long long)product.batch,
                     (unsigned long long)product.m, (unsigned long long)product.n, (unsigned long long)product.k, (pretend_dnn_bits(product.type) + 7) / 8);
            pretend_dnn_launch(call, "cudnn product", launch, 2 * product.batch * product.m * product.n * product.k, pretend_dnn_type(product.type));
            any = true;
        } else if ((operation->type == NORM_FORWARD && read_tensor(descriptor_at(operation, NORM_FORWARD_X), &x)) ||
                   (operation->type == NORM_BACKWARD && read_tensor(descriptor_at(operation, NORM_BACKWARD_X), &x))) {
            pretend_dnn_norm(call, operation->type == NORM_FORWARD ? "cudnn norm" : "cudnn norm: gradients", &x, operation->type == NORM_BACKWARD);
            any = true;
        }
    }
    if (!any)
        write_elementwise(call, graph);
}

/* ---- handles ---- */

PRETEND_EXPORT int cudnnCreate(void **ret)
{
    *ret = calloc(1, sizeof(PretendDnnHandle));
    return *ret ? SUCCESS : NO_MEMORY;
}

PRETEND_EXPORT int cudnnDestroy(void *of)
{
    PretendDnnHandle *handle = of;
    for (size_t i = 0; handle && i <= PRETEND_DNN_STREAMS; i++) {
        if (i < PRETEND_DNN_STREAMS && handle->own[i])
            cudaStreamDestroy(handle->own[i]);
        if (handle->events[i])
            cudaEventDestroy(handle->events[i]);
    }
    free(handle);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnSetStream(void *handle, void *stream)
{
    ((PretendDnnHandle *)handle)->stream = stream;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetStream(void *handle, void **ret)
{
    *ret = ((PretendDnnHandle *)handle)->stream;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    const Descriptor *graph = graph_of(plan);
    if (!handle || !graph)
        return BAD_PARAM;
    int64_t workspace = 0, n = 0;
    cudnnBackendGetAttribute(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &n, &workspace);
    PretendDnnCall call = {.stream = ((PretendDnnHandle *)handle)->stream,
                           .workspace = workspace > 0 ? (uint64_t)workspace : 0,
                           .tensor_cores = uses_tensor_cores(plan),
                           .handle = handle,
                           .tile = tile_of(plan)};
    write_graph(&call, graph, pack);
    const Descriptor *config = descriptor_at(plan, PLAN_CONFIG);
    if (config)
        pretend_takes_longer(LAUNCHES_APART * (unsigned)(config->index + (config->fallback ? FALLBACK_PLACE : 0)));
    return SUCCESS;
}
