/* The table of functions, the client with its devices and memories. */
#include "plugin.h"

#include "models/layout/advice.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const PJRT_Api *tpu_real;
PJRT_Client tpu_client;
static PJRT_Api table;
/* An earlier libtpu does not tell what a program needs at its fullest. */
enum { LEAST = offsetof(PJRT_Api, Client_UpdateGlobalProcessInfo), LEAST_MINOR = 72 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tpu_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tpu_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- the client ---- */

static long long number_of(const char *variable, long long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atoll(text) : otherwise;
}

/* The chips of the slice, as libtpu describes them; @bounds: how many of them a host has. */
static PJRT_Error *describe(void)
{
    const char *slice = getenv("ECHELON_PRETEND_SLICE"), *host = getenv("ECHELON_PRETEND_HOST_BOUNDS");
    int64_t bounds[3] = {1, 1, 1};
    if (host && sscanf(host, "%" SCNd64 ",%" SCNd64 ",%" SCNd64, &bounds[0], &bounds[1], &bounds[2]) != 3)
        return tpu_error(PJRT_INVALID_ARGUMENT, "ECHELON_PRETEND_HOST_BOUNDS: '%s'; expected something like 2,2,1", host);
    const PJRT_NamedValue option = {.struct_size = sizeof option,
                                    .name = "chips_per_host_bounds",
                                    .name_size = strlen("chips_per_host_bounds"),
                                    .type = PJRT_INT64_LIST,
                                    .int64_array_value = bounds,
                                    .value_size = 3};
    PJRT_TopologyDescription_Create_Args made = {.struct_size = sizeof made,
                                                 .topology_name = slice ? slice : "",
                                                 .topology_name_size = slice ? strlen(slice) : 0,
                                                 .create_options = &option,
                                                 .num_options = 1};
    PJRT_Error *error = tpu_real->TopologyDescription_Create(&made);
    tpu_client.topology = made.topology;
    g_autofree char *chip = slice ? g_strndup(slice, strcspn(slice, ":")) : NULL;
    tpu_client.generation = chip ? ech_layout_generation(chip) : 0;
    return error;
}

static const char *const kinds[TPU_MEMORIES] = {"device", "pinned_host", "unpinned_host"};

static void add_device(PJRT_DeviceDescription *description, size_t index)
{
    PJRT_Device *device = &tpu_client.devices[index];
    PJRT_DeviceDescription_Id_Args id = {.struct_size = sizeof id, .device_description = description};
    g_autofree char *unknown = tpu_failed(tpu_real->DeviceDescription_Id, &id);
    *device = (PJRT_Device){.description = description, .index = (int)index, .id = unknown ? (int)index : id.id};
    for (unsigned k = 0; k < TPU_MEMORIES; k++) {
        PJRT_Memory *memory = &device->memories[k];
        *memory = (PJRT_Memory){.id = (int)(index * TPU_MEMORIES + k), .kind = k, .device = device};
        snprintf(memory->text, sizeof memory->text, "%s memory of TPU %d", kinds[k], device->id);
        device->list[k] = memory;
        if (index >= tpu_client.first && index < tpu_client.first + tpu_client.n_own)
            tpu_client.memories[tpu_client.n_memories++] = memory;
    }
    tpu_client.list[index] = device;
}

/* Made once in a process. Under torchrun and its like each process has the chip that is its own and knows of the others. */
PJRT_Error *tpu_Client_Create(PJRT_Client_Create_Args *args)
{
    args->client = &tpu_client;
    if (tpu_client.topology)
        return NULL;
    tpu_programs_begin();
    PJRT_Error *error = describe();
    if (error)
        return error;
    PJRT_TopologyDescription_GetDeviceDescriptions_Args found = {.struct_size = sizeof found, .topology = tpu_client.topology};
    error = tpu_real->TopologyDescription_GetDeviceDescriptions(&found);
    if (error)
        return error;
    long long ranks = number_of("ECHELON_PRETEND_RANKS", number_of("WORLD_SIZE", 0)), rank = number_of("ECHELON_PRETEND_RANK", number_of("RANK", 0)),
              devices = number_of("ECHELON_PRETEND_DEVICES", 1);
    size_t n = (size_t)CLAMP(ranks > 1 ? ranks : devices, 1, (long long)MAX(found.num_descriptions, 1));
    if (found.num_descriptions == 0 || (ranks > 1 && (ranks > (long long)found.num_descriptions || rank < 0 || rank >= ranks)))
        return tpu_error(PJRT_INVALID_ARGUMENT, "rank %lld of %lld processes, but the slice has %zu devices: echelon capture --gpus says how many", rank, ranks,
                         found.num_descriptions);
    tpu_client.n = n;
    tpu_client.first = ranks > 1 ? (size_t)rank : 0;
    tpu_client.n_own = ranks > 1 ? 1 : n;
    tpu_client.process = (int)rank;
    tpu_client.capacity = (EchBytes)number_of("ECHELON_PRETEND_HBM", 0);
    tpu_client.devices = g_new0(PJRT_Device, n);
    tpu_client.list = g_new0(PJRT_Device *, n);
    tpu_client.memories = g_new0(PJRT_Memory *, n * TPU_MEMORIES);
    for (size_t i = 0; i < n; i++)
        add_device(found.descriptions[i], i);
    const char *chip = getenv("ECHELON_PRETEND_NAME"), *out = getenv("ECHELON_PRETEND_TPU_OUT");
    g_autofree char *pattern = out ? g_strconcat(out, ".%p.pretend", NULL) : NULL;
    tpu_record_begin(pattern, tpu_client.capacity, n, chip ? chip : "", (int)rank, (int)MAX(ranks, 1));
    return NULL;
}

PJRT_Error *tpu_Client_Destroy(PJRT_Client_Destroy_Args *args)
{
    (void)args;
    return NULL;
}

PJRT_Error *tpu_Client_PlatformName(PJRT_Client_PlatformName_Args *args)
{
    args->platform_name = "tpu";
    args->platform_name_size = strlen("tpu");
    return NULL;
}

PJRT_Error *tpu_Client_ProcessIndex(PJRT_Client_ProcessIndex_Args *args)
{
    args->process_index = args->client->process;
    return NULL;
}

PJRT_Error *tpu_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args *args)
{
    PJRT_TopologyDescription_PlatformVersion_Args version = {.struct_size = sizeof version, .topology = args->client->topology};
    PJRT_Error *error = tpu_real->TopologyDescription_PlatformVersion(&version);
    args->platform_version = version.platform_version;
    args->platform_version_size = version.platform_version_size;
    return error;
}

PJRT_Error *tpu_Client_Devices(PJRT_Client_Devices_Args *args)
{
    args->devices = args->client->list;
    args->num_devices = args->client->n;
    return NULL;
}

PJRT_Error *tpu_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args *args)
{
    args->addressable_devices = args->client->list + args->client->first;
    args->num_addressable_devices = args->client->n_own;
    return NULL;
}

PJRT_Error *tpu_Client_LookupDevice(PJRT_Client_LookupDevice_Args *args)
{
    for (size_t i = 0; i < args->client->n; i++) {
        args->device = args->client->list[i];
        if (args->device->id == args->id)
            return NULL;
    }
    return tpu_error(PJRT_NOT_FOUND, "no device %d", args->id);
}

PJRT_Error *tpu_Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args *args)
{
    if (args->local_hardware_id < 0 || (size_t)args->local_hardware_id >= args->client->n_own)
        return tpu_error(PJRT_NOT_FOUND, "no device %d in this process", args->local_hardware_id);
    args->addressable_device = args->client->list[args->client->first + (size_t)args->local_hardware_id];
    return NULL;
}

PJRT_Error *tpu_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args *args)
{
    args->addressable_memories = args->client->memories;
    args->num_addressable_memories = args->client->n_memories;
    return NULL;
}

PJRT_Error *tpu_Client_TopologyDescription(PJRT_Client_TopologyDescription_Args *args)
{
    args->topology = args->client->topology;
    return NULL;
}

PJRT_Error *tpu_Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args *args)
{
    size_t asked = (size_t)MAX(args->num_replicas, 0) * (size_t)MAX(args->num_partitions, 0);
    if (asked > args->client->n || asked > args->default_assignment_size)
        return tpu_error(PJRT_INVALID_ARGUMENT, "a program for %zu devices; there are %zu", asked, args->client->n);
    for (size_t i = 0; i < asked; i++)
        args->default_assignment[i] = args->client->list[i]->id;
    return NULL;
}

PJRT_Error *tpu_Client_DmaMap(PJRT_Client_DmaMap_Args *args)
{
    (void)args;
    return NULL;
}

PJRT_Error *tpu_Client_DmaUnmap(PJRT_Client_DmaUnmap_Args *args)
{
    (void)args;
    return NULL;
}

/* ---- devices and memories ---- */

PJRT_Memory *tpu_memory_of(PJRT_Memory *memory, PJRT_Device *device)
{
    if (!device)
        device = tpu_client.list[tpu_client.first];
    return memory ? memory : &device->memories[TPU_HBM];
}

PJRT_Error *tpu_Device_GetDescription(PJRT_Device_GetDescription_Args *args)
{
    args->device_description = args->device->description;
    return NULL;
}

size_t tpu_own_index(const PJRT_Device *device)
{
    return (size_t)device->index - tpu_client.first;
}

PJRT_Error *tpu_Device_IsAddressable(PJRT_Device_IsAddressable_Args *args)
{
    args->is_addressable = tpu_own_index(args->device) < tpu_client.n_own;
    return NULL;
}

PJRT_Error *tpu_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args *args)
{
    args->local_hardware_id = tpu_own_index(args->device) < tpu_client.n_own ? (int)tpu_own_index(args->device) : -1;
    return NULL;
}

PJRT_Error *tpu_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args *args)
{
    args->memories = args->device->list;
    args->num_memories = TPU_MEMORIES;
    return NULL;
}

PJRT_Error *tpu_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args *args)
{
    args->memory = &args->device->memories[TPU_HBM];
    return NULL;
}

void tpu_nothing(void *data)
{
    (void)data;
}

PJRT_Error *tpu_Device_GetAttributes(PJRT_Device_GetAttributes_Args *args)
{
    args->attributes = NULL;
    args->num_attributes = 0;
    args->device_attributes = NULL;
    args->attributes_deleter = tpu_nothing;
    return NULL;
}

PJRT_Error *tpu_Device_MemoryStats(PJRT_Device_MemoryStats_Args *args)
{
    tpu_lock();
    const PJRT_Device *device = args->device;
    EchBytes left = tpu_client.capacity - MIN(device->used, tpu_client.capacity);
    args->bytes_in_use = (int64_t)device->used;
    args->peak_bytes_in_use = (int64_t)device->peak;
    args->num_allocs = (int64_t)device->arrays;
    args->largest_alloc_size = (int64_t)device->largest;
    args->bytes_limit = (int64_t)tpu_client.capacity;
    args->bytes_reserved = args->peak_bytes_reserved = 0;
    args->bytes_reservable_limit = (int64_t)tpu_client.capacity;
    args->largest_free_block_bytes = (int64_t)left;
    args->peak_bytes_in_use_is_set = args->num_allocs_is_set = args->largest_alloc_size_is_set = args->bytes_limit_is_set = args->bytes_reserved_is_set =
        args->peak_bytes_reserved_is_set = args->bytes_reservable_limit_is_set = args->largest_free_block_bytes_is_set = true;
    args->pool_bytes_is_set = args->peak_pool_bytes_is_set = false;
    tpu_unlock();
    return NULL;
}

PJRT_Error *tpu_Memory_Id(PJRT_Memory_Id_Args *args)
{
    args->id = args->memory->id;
    return NULL;
}

PJRT_Error *tpu_Memory_Kind(PJRT_Memory_Kind_Args *args)
{
    args->kind = kinds[args->memory->kind];
    args->kind_size = strlen(args->kind);
    return NULL;
}

PJRT_Error *tpu_Memory_Kind_Id(PJRT_Memory_Kind_Id_Args *args)
{
    args->kind_id = (int)args->memory->kind;
    return NULL;
}

PJRT_Error *tpu_Memory_DebugString(PJRT_Memory_DebugString_Args *args)
{
    args->debug_string = args->memory->text;
    args->debug_string_size = strlen(args->memory->text);
    return NULL;
}

PJRT_Error *tpu_Memory_ToString(PJRT_Memory_ToString_Args *args)
{
    args->to_string = args->memory->text;
    args->to_string_size = strlen(args->memory->text);
    return NULL;
}

PJRT_Error *tpu_Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args *args)
{
    args->devices = &tpu_client.list[args->memory->device->index];
    args->num_devices = 1;
    return NULL;
}

/* ---- the table ---- */

/* Those of libtpu's that look at nothing but topologies, descriptions and executables. */
static PJRT_Extension *kept(PJRT_Extension *from)
{
    static union {
        PJRT_Extension base;
        char bytes[512];
    } copies[8];
    PJRT_Extension *first = NULL;
    for (size_t n = 0; from && n < G_N_ELEMENTS(copies); from = from->next) {
        bool ours = from->type == PJRT_EXTENSION_MEMORY_DESCRIPTIONS || from->type == PJRT_EXTENSION_EXECUTABLE_METADATA ||
                    from->type == PJRT_EXTENSION_TPU_TOPOLOGY || from->type == PJRT_EXTENSION_TPU_EXECUTABLE || from->type == PJRT_EXTENSION_SHARDINGS ||
                    from->type == PJRT_EXTENSION_ABI_VERSION;
        if (!ours || from->struct_size > sizeof copies[n])
            continue;
        memcpy(&copies[n], from, from->struct_size);
        copies[n].base.next = first;
        first = &copies[n++].base;
    }
    return first;
}

static const PJRT_Extension *real_extension(int type, size_t least)
{
    for (const PJRT_Extension *e = tpu_real->extension_start; e; e = e->next)
        if (e->type == type && e->struct_size >= least)
            return e;
    return NULL;
}

PJRT_Extension *tpu_extensions(void)
{
    PJRT_Extension *first = kept(tpu_real->extension_start);
    const PJRT_Extension *layouts = real_extension(PJRT_EXTENSION_LAYOUTS, sizeof tpu_layouts);
    if (layouts) { /* else callers ask the array (tpu_Buffer_GetMemoryLayout) */
        const PJRT_LayoutsExtension own = tpu_layouts;
        memcpy(&tpu_layouts, layouts, sizeof tpu_layouts);
        tpu_layouts.base.struct_size = sizeof tpu_layouts;
        tpu_layouts.Client_GetDefaultLayout = own.Client_GetDefaultLayout;
        tpu_layouts.Buffer_MemoryLayout = own.Buffer_MemoryLayout;
        tpu_layouts.base.next = first;
        first = &tpu_layouts.base;
    }
    tpu_raw_buffers.base.next = first;
    return &tpu_raw_buffers.base;
}

#define PJRT_REAL(NAME)
#define PJRT_OURS(NAME)
#define PJRT_NOBODY(NAME)                                                                                                                                      \
    static PJRT_Error *refuse_##NAME(void *args)                                                                                                               \
    {                                                                                                                                                          \
        (void)args;                                                                                                                                            \
        return tpu_error(PJRT_UNIMPLEMENTED, "echelon capture: PJRT_%s is not pretended: there is no TPU", #NAME);                                             \
    }
#include "pjrt_table.def"
#undef PJRT_OURS
#undef PJRT_NOBODY

/* Functions are called with arguments of their own type, which the table does not tell: as PJRT's callers do. */
static PJRT_Function as_function(void (*function)(void))
{
    PJRT_Function same;
    memcpy(&same, &function, sizeof same);
    return same;
}

static bool begin(void)
{
    const char *path = getenv("ECHELON_PRETEND_LIBTPU");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = library ? dlsym(library, "GetPjrtApi") : NULL;
    const PJRT_Api *(*get)(void);
    memcpy(&get, &found, sizeof get);
    const PJRT_Api *real = found ? get() : NULL;
    if (!real) {
        fprintf(stderr, "echelon capture: no TPU compiler: %s: %s\n", path ? path : "libtpu.so", path ? dlerror() : "pip install libtpu");
        return false;
    }
    if (real->version.major != PJRT_MAJOR || real->struct_size < LEAST) {
        fprintf(stderr, "echelon capture: %s has PJRT %d.%d; expected %d.%d or later\n", path, real->version.major, real->version.minor, PJRT_MAJOR,
                LEAST_MINOR);
        return false;
    }
    tpu_real = real;
    memcpy(&table, real, MIN(real->struct_size, sizeof table));
    table.struct_size = MIN(real->struct_size, sizeof table); /* callers look for what an earlier one has not */
    table.version.minor = MIN(real->version.minor, PJRT_MINOR);
#define PJRT_OURS(NAME) table.NAME = as_function((void (*)(void))tpu_##NAME);
#define PJRT_NOBODY(NAME) table.NAME = refuse_##NAME;
#include "pjrt_table.def"
    table.extension_start = tpu_extensions();
    return true;
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void);
const PJRT_Api *GetPjrtApi(void)
{
    static gsize once;
    static bool there;
    if (g_once_init_enter(&once)) {
        there = begin();
        g_once_init_leave(&once, 1);
    }
    return there ? &table : NULL;
}
