/* A libtpu that describes chips and "compiles" what it is given as text: what the pretended TPU asks of the real one. A program's code is the module's text,
 * which is dumped as libtpu dumps it; its compile options are "results=TYPE,TYPE;temp=BYTES;partitions=N", or "refused=WHY". */
#include "traces/capture/pjrt/pjrt_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct PJRT_Error {
    int code;
    char message[512];
};

struct PJRT_DeviceDescription {
    int id;
};

struct PJRT_TopologyDescription {
    PJRT_DeviceDescription chips[16], *list[16];
    size_t n;
};

struct PJRT_Executable {
    int types[8];
    size_t n_types, partitions;
    long long temporary;
    char name[64];
};

struct PJRT_Layout {
    char text[64];
};

static int alive; /* executables */
int fake_libtpu_alive(void);
int fake_libtpu_alive(void)
{
    return alive;
}

static PJRT_Error *error_of(int code, const char *message)
{
    PJRT_Error *error = calloc(1, sizeof *error);
    error->code = code;
    snprintf(error->message, sizeof error->message, "%s", message);
    return error;
}

#define CALL(NAME) static PJRT_Error *NAME(PJRT_##NAME##_Args *args)
CALL(Error_Destroy)
{
    free(args->error);
    return NULL;
}

CALL(Error_Message)
{
    args->message = args->error->message;
    args->message_size = strlen(args->error->message);
    return NULL;
}

/* "v5e:2x2" has four chips. */
CALL(TopologyDescription_Create)
{
    unsigned x = 0, y = 0;
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)args->topology_name_size, args->topology_name);
    if (sscanf(name, "v5e:%ux%u", &x, &y) != 2 || x * y == 0 || x * y > 16)
        return error_of(PJRT_INVALID_ARGUMENT, "no such slice");
    static PJRT_TopologyDescription topology;
    topology.n = (size_t)x * y;
    for (size_t i = 0; i < topology.n; i++) {
        topology.chips[i].id = (int)i;
        topology.list[i] = &topology.chips[i];
    }
    args->topology = &topology;
    return NULL;
}

CALL(TopologyDescription_GetDeviceDescriptions)
{
    args->descriptions = args->topology->list;
    args->num_descriptions = args->topology->n;
    return NULL;
}

CALL(TopologyDescription_PlatformVersion)
{
    args->platform_version = "fake";
    args->platform_version_size = strlen("fake");
    return NULL;
}

CALL(DeviceDescription_Id)
{
    args->id = args->device_description->id;
    return NULL;
}

/* Into the folder that XLA_FLAGS names last, as libtpu does. */
static void dump(const char *name, const char *end, const char *text, size_t n)
{
    static const char flag[] = "--xla_dump_to=";
    const char *flags = getenv("XLA_FLAGS"), *at = NULL;
    for (const char *next = flags ? strstr(flags, flag) : NULL; next; next = strstr(next + 1, flag))
        at = next + strlen(flag);
    char path[512];
    snprintf(path, sizeof path, "%.*s/module_0001.%s.cl_1.%s", at ? (int)strcspn(at, " ") : 1, at ? at : ".", name, end);
    FILE *file = fopen(path, "w");
    if (file) {
        fwrite(text, 1, n, file);
        fclose(file);
    }
}

CALL(Compile)
{
    char options[256], name[64] = "program";
    snprintf(options, sizeof options, "%.*s", (int)args->compile_options_size, args->compile_options);
    sscanf(args->program->code, "HloModule %63[^, ]", name);
    if (strncmp(options, "refused=", 8) == 0) {
        dump(name, "after_optimizations.txt", args->program->code, args->program->code_size);
        return error_of(PJRT_RESOURCE_EXHAUSTED, options + 8);
    }
    dump(name, "after_codegen.txt", args->program->code, args->program->code_size);
    dump("another", "after_codegen.txt", "HloModule small\n", 16);
    PJRT_Executable *made = calloc(1, sizeof *made);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->partitions = 1;
    const char *types = strstr(options, "results="), *temporary = strstr(options, "temp="), *partitions = strstr(options, "partitions=");
    for (const char *at = types ? types + 8 : ";"; made->n_types < 8 && *at && *at != ';';) {
        char *end;
        made->types[made->n_types++] = (int)strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    made->temporary = temporary ? atoll(temporary + 5) : 0;
    made->partitions = partitions ? (size_t)atoll(partitions + 11) : 1;
    alive++;
    args->executable = made;
    return NULL;
}

CALL(Executable_Destroy)
{
    alive -= args->executable != NULL;
    free(args->executable);
    return NULL;
}

CALL(Executable_Name)
{
    args->executable_name = args->executable->name;
    args->executable_name_size = strlen(args->executable->name);
    return NULL;
}

CALL(Executable_NumReplicas)
{
    args->num_replicas = 1;
    return NULL;
}

CALL(Executable_NumPartitions)
{
    args->num_partitions = args->executable->partitions;
    return NULL;
}

CALL(Executable_Fingerprint)
{
    args->executable_fingerprint = args->executable->name;
    args->executable_fingerprint_size = strlen(args->executable->name);
    return NULL;
}

CALL(Executable_OutputElementTypes)
{
    args->output_types = args->executable->types;
    args->num_output_types = args->executable->n_types;
    return NULL;
}

CALL(Executable_GetCompiledMemoryStats)
{
    args->temp_size_in_bytes = args->executable->temporary;
    return NULL;
}

CALL(Layouts_MemoryLayout_Destroy)
{
    free(args->layout);
    return NULL;
}

static void not_kept(void *data)
{
    (void)data;
}

CALL(Layouts_MemoryLayout_Serialize)
{
    args->serialized_bytes = args->layout->text;
    args->serialized_bytes_size = strlen(args->layout->text);
    args->serialized_layout = NULL;
    args->serialized_layout_deleter = not_kept;
    return NULL;
}

CALL(Layouts_PJRT_Topology_GetDefaultLayout)
{
    static const char *const layouts[] = {"{:T(128)}", "{0:T(1024)}", "{1,0:T(8,128)}", "{2,1,0:T(8,128)}"};
    args->layout = calloc(1, sizeof *args->layout);
    snprintf(args->layout->text, sizeof args->layout->text, "%s", args->num_dims < 4 ? layouts[args->num_dims] : "");
    return NULL;
}

static PJRT_Function as_function(void (*function)(void))
{
    PJRT_Function same;
    memcpy(&same, &function, sizeof same);
    return same;
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void);
const PJRT_Api *GetPjrtApi(void)
{
    static PJRT_Api api;
    static PJRT_LayoutsExtension layouts;
#define SET(NAME) api.NAME = as_function((void (*)(void))NAME)
    SET(Error_Destroy);
    SET(Error_Message);
    SET(TopologyDescription_Create);
    SET(TopologyDescription_GetDeviceDescriptions);
    SET(TopologyDescription_PlatformVersion);
    SET(DeviceDescription_Id);
    SET(Compile);
    SET(Executable_Destroy);
    SET(Executable_Name);
    SET(Executable_NumReplicas);
    SET(Executable_NumPartitions);
    SET(Executable_Fingerprint);
    SET(Executable_OutputElementTypes);
    SET(Executable_GetCompiledMemoryStats);
    layouts.base = (PJRT_Extension){.struct_size = sizeof layouts, .type = PJRT_EXTENSION_LAYOUTS};
    layouts.MemoryLayout_Destroy = as_function((void (*)(void))Layouts_MemoryLayout_Destroy);
    layouts.MemoryLayout_Serialize = as_function((void (*)(void))Layouts_MemoryLayout_Serialize);
    layouts.Topology_GetDefaultLayout = as_function((void (*)(void))Layouts_PJRT_Topology_GetDefaultLayout);
    /* As libtpu 0.0.21 (FAKE_LIBTPU_MINOR=75): no functions after that, and a default layout is not told. */
    const char *minor = getenv("FAKE_LIBTPU_MINOR");
    api.version.minor = minor ? atoi(minor) : PJRT_MINOR;
    api.struct_size = minor ? offsetof(PJRT_Api, Client_CreateAliasBuffer) : sizeof api;
    layouts.base.struct_size = minor ? offsetof(PJRT_LayoutsExtension, Topology_GetDefaultLayout) : sizeof layouts;
    api.extension_start = &layouts.base;
    return &api;
}
