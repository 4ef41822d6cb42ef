/* nvidia-smi of a GPU that is not there: what programs ask of it, answered by NVML's functions (../nvml.c). What is printed stands where NVIDIA's own prints
 * it, for programs that read it: -L, --query-gpu, --query-compute-apps and the table.
 *
 *   nvidia-smi [-L] [-i GPU[,GPU]...] [--query-gpu=NAME[,NAME]... | --query-compute-apps=NAME[,NAME]...] [--format=csv[,noheader][,nounits]] [-l SECONDS | -lms
 * MS] [-f FILE]
 *
 * Exits with 6 where no such GPU is, 2 where it is asked for something else. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TEXT = 256, MOST_DEVICES = 64, MOST_FIELDS = 128, MOST_PROCESSES = 256 };
enum { DONE = 0, BAD_ARGUMENT = 2, NO_DEVICE = 6, NO_DRIVER = 9 }; /* as NVIDIA's exits */

static void *nvml;

/* An NVML function; the program ends where it is missing. */
static void *function(const char *name)
{
    void *found = dlsym(nvml, name);
    if (!found) {
        fprintf(stderr, "nvidia-smi: %s is not pretended\n", name);
        exit(NO_DRIVER);
    }
    return found;
}

static int call(const char *name, void *device, void *ret)
{
    int (*f)(void *, void *);
    void *found = function(name);
    memcpy(&f, &found, sizeof f);
    return f(device, ret);
}

static int call_with(const char *name, void *device, unsigned number, void *ret)
{
    int (*f)(void *, unsigned, void *);
    void *found = function(name);
    memcpy(&f, &found, sizeof f);
    return f(device, number, ret);
}

static int call_text(const char *name, void *device, char *ret)
{
    int (*f)(void *, char *, unsigned);
    void *found = function(name);
    memcpy(&f, &found, sizeof f);
    return f(device, ret, TEXT);
}

static int system_text(const char *name, char *ret)
{
    int (*f)(char *, unsigned);
    void *found = function(name);
    memcpy(&f, &found, sizeof f);
    return f(ret, TEXT);
}

static unsigned count(void)
{
    unsigned n = 0;
    int (*f)(unsigned *);
    void *found = function("nvmlDeviceGetCount_v2");
    memcpy(&f, &found, sizeof f);
    return f(&n) == 0 ? n : 0;
}

static void *device_at(unsigned index)
{
    void *device = NULL;
    int (*f)(unsigned, void **);
    void *found = function("nvmlDeviceGetHandleByIndex_v2");
    memcpy(&f, &found, sizeof f);
    return f(index, &device) == 0 ? device : NULL;
}

typedef struct {
    unsigned process;
    uint64_t used;
    unsigned gpu_instance, compute_instance;
} Process;

static unsigned processes_of(void *device, Process processes[MOST_PROCESSES])
{
    unsigned n = MOST_PROCESSES;
    int (*f)(void *, unsigned *, void *);
    void *found = function("nvmlDeviceGetComputeRunningProcesses_v3");
    memcpy(&f, &found, sizeof f);
    return f(device, &n, processes) == 0 ? n : 0;
}

static void text_of(char *ret, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void text_of(char *ret, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ret, TEXT, format, args);
    va_end(args);
}

static void now_is(char *ret, const char *format)
{
    struct timespec at;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &at);
    localtime_r(&at.tv_sec, &local);
    strftime(ret, TEXT, format, &local);
}

/* ---- what can be asked of a device ---- */

typedef enum { A_TEXT, A_NUMBER, A_MILLIWATT, A_MEMORY, A_UTILIZATION, A_CLOCK, A_PCI, A_CAPABILITY, A_ENABLED, A_CONSTANT } Kind;

typedef struct {
    const char *name, *alias; /* as asked for; @alias prints under @name */
    const char *unit;         /* NULL: none */
    Kind kind;
    const char *function; /* of NVML; of A_CONSTANT the value itself */
    unsigned number;      /* which clock, which word */
} Field;

static const Field device_fields[] = {
    {"timestamp", NULL, NULL, A_CONSTANT, NULL, 0},
    {"driver_version", NULL, NULL, A_CONSTANT, NULL, 0},
    {"count", NULL, NULL, A_CONSTANT, NULL, 0},
    {"name", "gpu_name", NULL, A_TEXT, "nvmlDeviceGetName", 0},
    {"uuid", "gpu_uuid", NULL, A_TEXT, "nvmlDeviceGetUUID", 0},
    {"serial", "gpu_serial", NULL, A_CONSTANT, "[N/A]", 0},
    {"index", NULL, NULL, A_NUMBER, "nvmlDeviceGetIndex", 0},
    {"pci.bus_id", "gpu_bus_id", NULL, A_PCI, "nvmlDeviceGetPciInfo_v3", 0},
    {"pci.bus", NULL, NULL, A_PCI, "nvmlDeviceGetPciInfo_v3", 1},
    {"vbios_version", NULL, NULL, A_CONSTANT, "[N/A]", 0},
    {"compute_cap", NULL, NULL, A_CAPABILITY, "nvmlDeviceGetCudaComputeCapability", 0},
    {"memory.total", NULL, "MiB", A_MEMORY, NULL, 0},
    {"memory.reserved", NULL, "MiB", A_CONSTANT, "0", 0},
    {"memory.free", NULL, "MiB", A_MEMORY, NULL, 1},
    {"memory.used", NULL, "MiB", A_MEMORY, NULL, 2},
    {"utilization.gpu", NULL, "%", A_UTILIZATION, NULL, 0},
    {"utilization.memory", NULL, "%", A_UTILIZATION, NULL, 1},
    {"temperature.gpu", NULL, NULL, A_CLOCK, "nvmlDeviceGetTemperature", 0},
    {"temperature.memory", NULL, NULL, A_CONSTANT, "N/A", 0},
    {"power.draw", NULL, "W", A_MILLIWATT, "nvmlDeviceGetPowerUsage", 0},
    {"power.draw.instant", NULL, "W", A_MILLIWATT, "nvmlDeviceGetPowerUsage", 0},
    {"power.draw.average", NULL, "W", A_MILLIWATT, "nvmlDeviceGetPowerUsage", 0},
    {"power.management", NULL, NULL, A_CONSTANT, "[N/A]", 0},
    {"power.limit", NULL, "W", A_CONSTANT, "[N/A]", 0},
    {"enforced.power.limit", NULL, "W", A_CONSTANT, "[N/A]", 0},
    {"power.default_limit", NULL, "W", A_CONSTANT, "[N/A]", 0},
    {"power.min_limit", NULL, "W", A_CONSTANT, "[N/A]", 0},
    {"power.max_limit", NULL, "W", A_CONSTANT, "[N/A]", 0},
    {"fan.speed", NULL, "%", A_CONSTANT, "[N/A]", 0},
    {"pstate", NULL, NULL, A_CONSTANT, "P0", 0},
    {"clocks.current.graphics", "clocks.gr", "MHz", A_CLOCK, "nvmlDeviceGetClockInfo", 0},
    {"clocks.current.sm", "clocks.sm", "MHz", A_CLOCK, "nvmlDeviceGetClockInfo", 1},
    {"clocks.current.memory", "clocks.mem", "MHz", A_CLOCK, "nvmlDeviceGetClockInfo", 2},
    {"clocks.current.video", "clocks.video", "MHz", A_CLOCK, "nvmlDeviceGetClockInfo", 3},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", A_CLOCK, "nvmlDeviceGetMaxClockInfo", 0},
    {"clocks.max.sm", NULL, "MHz", A_CLOCK, "nvmlDeviceGetMaxClockInfo", 1},
    {"clocks.max.memory", "clocks.max.mem", "MHz", A_CLOCK, "nvmlDeviceGetMaxClockInfo", 2},
    {"compute_mode", NULL, NULL, A_CONSTANT, "Default", 0},
    {"persistence_mode", NULL, NULL, A_ENABLED, "nvmlDeviceGetPersistenceMode", 0},
    {"display_active", NULL, NULL, A_ENABLED, "nvmlDeviceGetDisplayActive", 0},
    {"display_mode", NULL, NULL, A_ENABLED, "nvmlDeviceGetDisplayMode", 0},
    {"mig.mode.current", NULL, NULL, A_CONSTANT, "Disabled", 0},
    {"mig.mode.pending", NULL, NULL, A_CONSTANT, "Disabled", 0},
    {"ecc.mode.current", NULL, NULL, A_CONSTANT, "[N/A]", 0},
    {"ecc.mode.pending", NULL, NULL, A_CONSTANT, "[N/A]", 0},
    {"pcie.link.gen.current", "pcie.link.gen.gpucurrent", NULL, A_NUMBER, "nvmlDeviceGetCurrPcieLinkGeneration", 0},
    {"pcie.link.gen.max", "pcie.link.gen.gpumax", NULL, A_NUMBER, "nvmlDeviceGetMaxPcieLinkGeneration", 0},
    {"pcie.link.width.current", NULL, NULL, A_NUMBER, "nvmlDeviceGetCurrPcieLinkWidth", 0},
    {"pcie.link.width.max", NULL, NULL, A_NUMBER, "nvmlDeviceGetMaxPcieLinkWidth", 0},
    {NULL, NULL, NULL, A_CONSTANT, NULL, 0},
};

/* Of a process on a device. */
static const Field process_fields[] = {
    {"timestamp", NULL, NULL, A_CONSTANT, NULL, 0},
    {"gpu_name", NULL, NULL, A_TEXT, "nvmlDeviceGetName", 0},
    {"gpu_bus_id", NULL, NULL, A_PCI, "nvmlDeviceGetPciInfo_v3", 0},
    {"gpu_serial", NULL, NULL, A_CONSTANT, "[N/A]", 0},
    {"gpu_uuid", NULL, NULL, A_TEXT, "nvmlDeviceGetUUID", 0},
    {"pid", NULL, NULL, A_CONSTANT, NULL, 0},
    {"process_name", "name", NULL, A_CONSTANT, NULL, 0},
    {"used_gpu_memory", "used_memory", "MiB", A_CONSTANT, NULL, 0},
    {NULL, NULL, NULL, A_CONSTANT, NULL, 0},
};

static const Field *find_field(const Field *fields, const char *name)
{
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0 || (fields->alias && strcmp(fields->alias, name) == 0))
            return fields;
    return NULL;
}

static uint64_t mib(uint64_t bytes)
{
    return bytes >> 20;
}

static void process_name(unsigned process, char *ret)
{
    int (*f)(unsigned, char *, unsigned);
    void *found = function("nvmlSystemGetProcessName");
    memcpy(&f, &found, sizeof f);
    if (f(process, ret, TEXT) != 0)
        text_of(ret, "[Not Found]");
}

/* What is neither of a device nor the same for all. */
static void value_besides(const Field *field, const Process *process, char *ret)
{
    if (strcmp(field->name, "timestamp") == 0)
        now_is(ret, "%Y/%m/%d %H:%M:%S.000");
    else if (strcmp(field->name, "driver_version") == 0)
        system_text("nvmlSystemGetDriverVersion", ret);
    else if (strcmp(field->name, "count") == 0)
        text_of(ret, "%u", count());
    else if (strcmp(field->name, "pid") == 0)
        text_of(ret, "%u", process->process);
    else if (strcmp(field->name, "process_name") == 0)
        process_name(process->process, ret);
    else
        text_of(ret, "%llu", (unsigned long long)mib(process->used));
}

static void value_of(const Field *field, void *device, const Process *process, char *ret)
{
    unsigned number = 0, pair[2] = {0, 0};
    uint64_t memory[3];
    struct {
        char legacy[16];
        unsigned domain, bus, device, number, subsystem;
        char id[32];
    } pci;
    int error = 0;
    switch (field->kind) {
    case A_TEXT: error = call_text(field->function, device, ret); break;
    case A_NUMBER:
    case A_ENABLED:
    case A_MILLIWATT: error = call(field->function, device, &number); break;
    case A_CLOCK: error = call_with(field->function, device, field->number, &number); break;
    case A_UTILIZATION: error = call("nvmlDeviceGetUtilizationRates", device, pair); break;
    case A_MEMORY: error = call("nvmlDeviceGetMemoryInfo", device, memory); break;
    case A_PCI: error = call(field->function, device, &pci); break;
    case A_CAPABILITY: {
        int (*f)(void *, unsigned *, unsigned *);
        void *found = function(field->function);
        memcpy(&f, &found, sizeof f);
        error = f(device, &pair[0], &pair[1]);
        break;
    }
    case A_CONSTANT: break;
    }
    if (error != 0) {
        text_of(ret, "[N/A]");
        return;
    }
    switch (field->kind) {
    case A_TEXT: break;
    case A_NUMBER:
    case A_CLOCK: text_of(ret, "%u", number); break;
    case A_ENABLED: text_of(ret, "%s", number ? "Enabled" : "Disabled"); break;
    case A_MILLIWATT: text_of(ret, "%u.%02u", number / 1000, number / 10 % 100); break;
    case A_UTILIZATION: text_of(ret, "%u", pair[field->number]); break;
    case A_MEMORY: text_of(ret, "%llu", (unsigned long long)mib(memory[field->number])); break;
    case A_PCI: field->number ? text_of(ret, "0x%02X", pci.bus) : text_of(ret, "%s", pci.id); break;
    case A_CAPABILITY: text_of(ret, "%u.%u", pair[0], pair[1]); break;
    case A_CONSTANT: field->function ? text_of(ret, "%s", field->function) : value_besides(field, process, ret); break;
    }
}

/* ---- what is printed ---- */

typedef struct {
    bool list, header, units;
    const Field *table; /* device_fields or process_fields; NULL: the table */
    const Field *fields[MOST_FIELDS];
    unsigned n_fields, devices[MOST_DEVICES], n_devices;
    long every; /* milliseconds; 0: once */
    FILE *out;
} Asked;

static void print_row(const Asked *asked, void *device, const Process *process)
{
    for (unsigned i = 0; i < asked->n_fields; i++) {
        char value[TEXT];
        const Field *field = asked->fields[i];
        value_of(field, device, process, value);
        fprintf(asked->out, "%s%s%s%s", i > 0 ? ", " : "", value, field->unit && asked->units && value[0] != '[' ? " " : "",
                field->unit && asked->units && value[0] != '[' ? field->unit : "");
    }
    fputc('\n', asked->out);
}

static void print_query(const Asked *asked, bool first)
{
    for (unsigned i = 0; first && asked->header && i < asked->n_fields; i++)
        fprintf(asked->out, "%s%s%s%s%s%s", i > 0 ? ", " : "", asked->fields[i]->name, asked->fields[i]->unit ? " [" : "",
                asked->fields[i]->unit ? asked->fields[i]->unit : "", asked->fields[i]->unit ? "]" : "", i + 1 == asked->n_fields ? "\n" : "");
    for (unsigned d = 0; d < asked->n_devices; d++) {
        void *device = device_at(asked->devices[d]);
        Process processes[MOST_PROCESSES];
        unsigned n = asked->table == process_fields ? processes_of(device, processes) : 0;
        if (asked->table == device_fields)
            print_row(asked, device, NULL);
        for (unsigned i = 0; i < n; i++)
            print_row(asked, device, &processes[i]);
    }
}

static void print_list(const Asked *asked)
{
    for (unsigned d = 0; d < asked->n_devices; d++) {
        char name[TEXT] = "", uuid[TEXT] = "";
        call_text("nvmlDeviceGetName", device_at(asked->devices[d]), name);
        call_text("nvmlDeviceGetUUID", device_at(asked->devices[d]), uuid);
        fprintf(asked->out, "GPU %u: %s (UUID: %s)\n", asked->devices[d], name, uuid);
    }
}

static void print_table(const Asked *asked)
{
    char driver[TEXT] = "", at[TEXT];
    int cuda = 0;
    int (*f)(int *);
    void *found = function("nvmlSystemGetCudaDriverVersion_v2");
    memcpy(&f, &found, sizeof f);
    f(&cuda);
    system_text("nvmlSystemGetDriverVersion", driver);
    now_is(at, "%a %b %e %H:%M:%S %Y");
    static const char line[] = "+-----------------------------------------+------------------------+----------------------+";
    fprintf(asked->out, "%s       \n", at);
    fprintf(asked->out, "+-----------------------------------------------------------------------------------------+\n");
    fprintf(asked->out, "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %2d.%d     |\n%s\n", driver, driver, cuda / 1000, cuda / 10 % 100, line);
    fprintf(asked->out, "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n");
    fprintf(asked->out, "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n");
    fprintf(asked->out, "|                                         |                        |               MIG M. |\n");
    fprintf(asked->out, "|=========================================+========================+======================|\n");
    for (unsigned d = 0; d < asked->n_devices; d++) {
        void *device = device_at(asked->devices[d]);
        char name[TEXT] = "", bus[TEXT] = "";
        uint64_t memory[3] = {0, 0, 0};
        call_text("nvmlDeviceGetName", device, name);
        value_of(find_field(device_fields, "pci.bus_id"), device, NULL, bus);
        call("nvmlDeviceGetMemoryInfo", device, memory);
        fprintf(asked->out, "| %3u  %-26.26s      On |   %s Off |                  N/A |\n", asked->devices[d], name, bus);
        fprintf(asked->out, "| N/A    0C    P0              0W /  N/A |  %6lluMiB / %6lluMiB  |      0%%      Default |\n", (unsigned long long)mib(memory[2]),
                (unsigned long long)mib(memory[0]));
        fprintf(asked->out, "|                                         |                        |             Disabled |\n%s\n", line);
    }
    fprintf(asked->out, "\n+-----------------------------------------------------------------------------------------+\n");
    fprintf(asked->out, "| Processes:                                                                              |\n");
    fprintf(asked->out, "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n");
    fprintf(asked->out, "|        ID   ID                                                               Usage      |\n");
    fprintf(asked->out, "|=========================================================================================|\n");
    bool any = false;
    for (unsigned d = 0; d < asked->n_devices; d++) {
        Process processes[MOST_PROCESSES];
        for (unsigned i = 0, n = processes_of(device_at(asked->devices[d]), processes); i < n; i++, any = true) {
            char name[TEXT];
            process_name(processes[i].process, name);
            fprintf(asked->out, "| %4u   N/A  N/A %16u      C   %-34.34s %7lluMiB |\n", asked->devices[d], processes[i].process, name,
                    (unsigned long long)mib(processes[i].used));
        }
    }
    if (!any)
        fprintf(asked->out, "|  No running processes found                                                             |\n");
    fprintf(asked->out, "+-----------------------------------------------------------------------------------------+\n");
}

/* ---- what is asked ---- */

static int bad(const char *format, const char *what)
{
    printf(format, what);
    return BAD_ARGUMENT;
}

/* "0,1", or identifiers as -L prints them, or buses. */
static int read_devices(Asked *asked, const char *text)
{
    char copy[4096], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    asked->n_devices = 0;
    for (char *word = strtok_r(copy, ",", &rest); word && asked->n_devices < MOST_DEVICES; word = strtok_r(NULL, ",", &rest)) {
        unsigned index = 0, n = count();
        for (; index < n; index++) {
            char number[16], uuid[TEXT] = "", bus[TEXT] = "";
            snprintf(number, sizeof number, "%u", index);
            call_text("nvmlDeviceGetUUID", device_at(index), uuid);
            value_of(find_field(device_fields, "pci.bus_id"), device_at(index), NULL, bus);
            if (strcmp(word, number) == 0 || strcmp(word, uuid) == 0 || strcmp(word, bus) == 0)
                break;
        }
        if (index == n) {
            printf("No devices were found\n");
            return NO_DEVICE;
        }
        asked->devices[asked->n_devices++] = index;
    }
    return DONE;
}

static int read_fields(Asked *asked, const Field *table, const char *text)
{
    char copy[4096], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    asked->table = table;
    asked->n_fields = 0;
    for (char *word = strtok_r(copy, ", ", &rest); word && asked->n_fields < MOST_FIELDS; word = strtok_r(NULL, ", ", &rest)) {
        const Field *field = find_field(table, word);
        if (!field)
            return bad("Field \"%s\" is not a valid field to query.\n\n", word);
        asked->fields[asked->n_fields++] = field;
    }
    return DONE;
}

/* @option's value, behind '=' or as the next word; NULL where @argument is another. */
static const char *value_in(char **argument, const char *option, int *ret_words)
{
    size_t n = strlen(option);
    if (strncmp(argument[0], option, n) != 0)
        return NULL;
    *ret_words = argument[0][n] == '\0' ? 2 : 1;
    return argument[0][n] == '=' ? argument[0] + n + 1 : argument[0][n] == '\0' ? argument[1] : NULL;
}

static int read_arguments(Asked *asked, char **argument)
{
    for (int words = 1, code; *argument; argument += words) {
        const char *value;
        words = 1;
        code = DONE;
        if (strcmp(*argument, "-L") == 0 || strcmp(*argument, "--list-gpus") == 0)
            asked->list = true;
        else if ((value = value_in(argument, "--query-gpu", &words)))
            code = read_fields(asked, device_fields, value);
        else if ((value = value_in(argument, "--query-compute-apps", &words)))
            code = read_fields(asked, process_fields, value);
        else if ((value = value_in(argument, "-i", &words)) || (value = value_in(argument, "--id", &words)))
            code = read_devices(asked, value);
        else if ((value = value_in(argument, "-lms", &words)) || (value = value_in(argument, "--loop-ms", &words)))
            asked->every = strtol(value, NULL, 10);
        else if ((value = value_in(argument, "-l", &words)) || (value = value_in(argument, "--loop", &words)))
            asked->every = strtol(value, NULL, 10) * 1000;
        else if ((value = value_in(argument, "--format", &words))) {
            asked->header = strstr(value, "noheader") == NULL;
            asked->units = strstr(value, "nounits") == NULL;
        } else if ((value = value_in(argument, "-f", &words)) || (value = value_in(argument, "--filename", &words))) {
            asked->out = fopen(value, "w");
            code = asked->out ? DONE : bad("%s cannot be written\n", value);
        } else
            code = bad("nvidia-smi of a GPU that is not there: '%s' is not known; expected -L, -i, --query-gpu, --query-compute-apps, --format, -l, -f\n",
                       *argument);
        if (code != DONE)
            return code;
    }
    return DONE;
}

int main(int argc, char **argv)
{
    (void)argc;
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!nvml || !getenv("ECHELON_PRETEND_DEVICE")) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver: it is run by 'echelon capture --pretend'\n");
        return NO_DRIVER;
    }
    Asked asked = {.header = true, .units = true, .out = stdout};
    for (unsigned i = 0, n = count(); i < n && i < MOST_DEVICES; i++)
        asked.devices[asked.n_devices++] = i;
    int code = read_arguments(&asked, argv + 1);
    for (bool first = true; code == DONE; first = false) {
        if (asked.list)
            print_list(&asked);
        else if (asked.table)
            print_query(&asked, first);
        else
            print_table(&asked);
        fflush(asked.out);
        if (asked.every <= 0)
            break;
        nanosleep(&(struct timespec){.tv_sec = asked.every / 1000, .tv_nsec = asked.every % 1000 * 1000000}, NULL);
    }
    return code;
}
