/* The library of the pretended GPU, called by CUDA's names: numbers, order, memory to the last byte, contents, graphs, forks, threads, ranges. Loaded rather
 * than preloaded, so that the sanitizers' own libraries may come first. */
#include "tests/support/support.h"

#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY ECH_BINARY_DIR "/lib/echelon/libechelon_pretend.so"
#define HOOK ECH_SOURCE_DIR "/traces/capture/pretend/python"
#define MIB ((size_t)1 << 20)

typedef struct {
    unsigned x, y, z;
} Dim;

static int (*memory_info)(size_t *, size_t *), (*memory_info_driver)(size_t *, size_t *), (*occupancy)(int *, const void *, int, size_t),
    (*device_count)(int *), (*get_device)(int *), (*set_device)(int), (*allocate)(void **, size_t), (*release)(void *),
    (*allocate_pinned)(void **, size_t, unsigned), (*copy)(void *, const void *, size_t, int), (*copy_async)(void *, const void *, size_t, int, void *),
    (*set)(void *, int, size_t), (*pointer_attributes)(void *, const void *), (*make_stream)(void **, unsigned), (*make_event)(void **),
    (*record)(void *, void *), (*wait_event)(void *, void *, unsigned), (*synchronize)(void), (*launch)(const void *, Dim, Dim, void **, size_t, void *),
    (*attribute)(int *, int, int), (*begin_capture)(void *, int), (*end_capture)(void *, void **), (*is_capturing)(void *, int *),
    (*instantiate)(void **, void *, unsigned long long), (*launch_graph)(void *, void *), (*destroy_graph)(void *),
    (*update_graph)(void *, void *, void *, int *), (*elapsed)(float *, void *, void *), (*last_error)(void),
    (*reserve)(void **, size_t, size_t, void *, unsigned long long), (*create)(void **, size_t, const void *, unsigned long long),
    (*map)(void *, size_t, size_t, void *, unsigned long long), (*unmap)(void *, size_t), (*let_go)(void *), (*free_addresses)(void *, size_t),
    (*push)(const char *), (*pop)(void), (*inject)(const void *(*)(uint32_t)), (*load_module)(void **, const void *), (*load_file)(void **, const char *),
    (*get_function)(void **, void *, const char *),
    (*launch_driver)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **), (*refused)(void),
    (*end_stream)(void *), (*end_event)(void *), (*end_instance)(void *), (*properties)(void *, int), (*unversioned_properties)(void *, int),
    (*runtime_version)(int *);
static void **(*register_binary)(void *);
static void (*tell_lengths)(const void *, int, const void *, size_t, int, const void *, int);
static int (*function_attributes)(void *, const void *);
static int (*pin)(void *, size_t, unsigned);
static int (*unpin)(void *);
static int (*copy_batch)(void *const *, const void *const *, const size_t *, size_t, void *, size_t *, size_t, void *);
static int (*copy_batch_12)(void *const *, const void *const *, const size_t *, size_t, void *, size_t *, size_t, size_t *, void *);
static void (*register_kernel)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);

#define NEED(condition)                                                                                                                                        \
    do {                                                                                                                                                       \
        if (!(condition)) {                                                                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                                                    \
            _exit(99);                                                                                                                                         \
        }                                                                                                                                                      \
    } while (0)

static void load(void)
{
    NEED(dlopen("libstdc++.so.6", RTLD_NOW) != NULL); /* as a program of C++ has it: names are demangled by it */
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    const struct {
        void *at;
        const char *name;
    } names[] = {{&memory_info, "cudaMemGetInfo"},
                 {&memory_info_driver, "cuMemGetInfo_v2"},
                 {&occupancy, "cudaOccupancyMaxActiveBlocksPerMultiprocessor"},
                 {&device_count, "cudaGetDeviceCount"},
                 {&get_device, "cudaGetDevice"},
                 {&set_device, "cudaSetDevice"},
                 {&allocate, "cudaMalloc"},
                 {&release, "cudaFree"},
                 {&allocate_pinned, "cudaHostAlloc"},
                 {&copy, "cudaMemcpy"},
                 {&copy_async, "cudaMemcpyAsync"},
                 {&copy_batch, "cuMemcpyBatchAsync_v2"},
                 {&copy_batch_12, "cuMemcpyBatchAsync"},
                 {&pin, "cudaHostRegister"},
                 {&unpin, "cudaHostUnregister"},
                 {&set, "cudaMemset"},
                 {&pointer_attributes, "cudaPointerGetAttributes"},
                 {&make_stream, "cudaStreamCreateWithFlags"},
                 {&make_event, "cudaEventCreate"},
                 {&record, "cudaEventRecord"},
                 {&wait_event, "cudaStreamWaitEvent"},
                 {&synchronize, "cudaDeviceSynchronize"},
                 {&launch, "cudaLaunchKernel"},
                 {&attribute, "cudaDeviceGetAttribute"},
                 {&begin_capture, "cudaStreamBeginCapture"},
                 {&end_capture, "cudaStreamEndCapture"},
                 {&is_capturing, "cudaStreamIsCapturing"},
                 {&instantiate, "cudaGraphInstantiate"},
                 {&launch_graph, "cudaGraphLaunch"},
                 {&destroy_graph, "cudaGraphDestroy"},
                 {&update_graph, "cudaGraphExecUpdate"},
                 {&elapsed, "cudaEventElapsedTime"},
                 {&last_error, "cudaGetLastError"},
                 {&reserve, "cuMemAddressReserve"},
                 {&create, "cuMemCreate"},
                 {&map, "cuMemMap"},
                 {&unmap, "cuMemUnmap"},
                 {&let_go, "cuMemRelease"},
                 {&free_addresses, "cuMemAddressFree"},
                 {&push, "nvtxRangePushA"},
                 {&pop, "nvtxRangePop"},
                 {&inject, "InitializeInjectionNvtx2"},
                 {&load_module, "cuModuleLoadData"},
                 {&load_file, "cuModuleLoad"},
                 {&get_function, "cuModuleGetFunction"},
                 {&launch_driver, "cuLaunchKernel"},
                 {&refused, "cudaMalloc3D"},
                 {&end_stream, "cudaStreamDestroy"},
                 {&tell_lengths, "pretend_lengths_of"},
                 {&end_event, "cudaEventDestroy"},
                 {&end_instance, "cudaGraphExecDestroy"},
                 {&properties, "cudaGetDeviceProperties_v2"},
                 {&unversioned_properties, "cudaGetDeviceProperties"},
                 {&runtime_version, "cudaRuntimeGetVersion"},
                 {&register_binary, "__cudaRegisterFatBinary"},
                 {&function_attributes, "cudaFuncGetAttributes"},
                 {&register_kernel, "__cudaRegisterFunction"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = library ? dlsym(library, names[i].name) : NULL;
        NEED(found != NULL);
        memcpy(names[i].at, &found, sizeof found);
    }
}

/* Runs @program in a process of its own with a device of @settings; what it left, times taken out, or NULL where it left no file. */
static char *pretended(const char *settings, void (*program)(void), int *ret_status)
{
    g_autofree char *path = g_strdup_printf("%s/echelon-pretend-%d-%u.pretend", g_get_tmp_dir(), getpid(), g_random_int());
    pid_t child = fork();
    if (child == 0) {
        g_setenv("ECHELON_PRETEND_DEVICE", settings, TRUE);
        g_setenv("ECHELON_PRETEND_OUT", path, TRUE);
        load();
        program();
        exit(0); /* runs the exit handler that ends the file */
    }
    int status;
    waitpid(child, &status, 0);
    if (ret_status)
        *ret_status = status;
    else
        ck_assert_int_eq(status, 0);
    g_autofree char *text = NULL;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return NULL;
    g_unlink(path);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    GString *out = g_string_new(NULL);
    uint64_t before = 0;
    for (char **line = lines; *line; line++) {
        g_auto(GStrv) words = g_strsplit(*line, " ", 3);
        if (g_strv_length(words) == 0 || g_str_equal(words[0], "clock"))
            continue;
        bool timed = !strstr(" echelon-pretend device name end uses args lanes code units atomics node lengths products of pool pool_told pool_wanted thread ",
                             words[0]);
        if (timed) {
            uint64_t time = g_ascii_strtoull(words[1], NULL, 10);
            ck_assert_uint_ge(time, before);
            before = time;
        }
        g_string_append_printf(out, "%s%s%s\n", timed ? words[0] : *line, timed && words[2] ? " " : "", timed && words[2] ? words[2] : "");
    }
    return g_string_free(out, FALSE);
}

static unsigned count(const char *text, const char *line)
{
    unsigned n = 0;
    for (const char *at = strstr(text, line); at; at = strstr(at + 1, line))
        n += at == text || at[-1] == '\n';
    return n;
}

/* Before 8.0 nothing of shared memory is kept; before 7.0 a block cannot ask for more. */
static void ask_old_numbers(void)
{
    int value;
    NEED(attribute(&value, 81, 0) == 0 && value == 65536 && attribute(&value, 97, 0) == 0 && value == 49152);
    NEED(attribute(&value, 39, 0) == 0 && value == 2048 && attribute(&value, 106, 0) == 0 && value == 32); /* of compute capability 6.0 */
}

/* What a compute capability brings: attributes, and where cudaDeviceProp has them. */
static void ask_of_capabilities(void)
{
    static const struct {
        int attribute, hopper, ampere;
    } of[] = {{95, 1, 1},  {91, 1, 1},  {99, 1, 1},  {125, 1, 1}, {90, 1, 1}, {111, 1024, 1024},
              {120, 1, 0}, {127, 1, 0}, {126, 4, 1}, {87, 2, 64}, {33, 2, 2}, {30, 512, 512}};
    int value, major;
    NEED(attribute(&major, 75, 1) == 0);
    for (size_t i = 0; i < G_N_ELEMENTS(of); i++)
        NEED(attribute(&value, of[i].attribute, 1) == 0 && value == (major == 9 ? of[i].hopper : of[i].ampere));
    NEED(attribute(&value, 95, 2) == 101 && last_error() == 101 && attribute(&value, 95, -1) == 101 && last_error() == 101);
    union {
        uint64_t sizes[1032 / 8];
        int32_t numbers[1032 / 4];
    } p;
    NEED(properties(&p, 1) == 0 && p.numbers[688 / 4] == 1 && p.numbers[684 / 4] == 1 && p.sizes[720 / 8] == 1024 && p.numbers[728 / 4] == 1);
    NEED(p.numbers[772 / 4] == (major == 9) && p.numbers[668 / 4] == (major == 9 ? 2 : 64) && p.numbers[744 / 4] == 1 && p.numbers[768 / 4] == 1);
    NEED(unversioned_properties(&p, 1) == 0 && p.sizes[720 / 8] == 1024 && properties(&p, 2) == 101 && last_error() == 101); /* of CUDA 11 */
}

#define SMALL "id=small;name=Small GPU;bytes=67108864;context=2097152;devices=2;major=8;minor=6;multiprocessors=7;shared=102400;l2=4194304"

static void ask_numbers(void)
{
    size_t room, total;
    int n, value;
    NEED(device_count(&n) == 0 && n == 2 && set_device(2) == 101 && last_error() == 101 && last_error() == 0 && set_device(1) == 0);
    NEED(memory_info(&room, &total) == 0 && total == 64 * MIB && room == 62 * MIB);
    NEED(memory_info_driver(&room, &total) == 0 && total == 64 * MIB && room == 62 * MIB);
    /* Bounded by threads, by blocks, by shared memory of which each takes 1 KiB more. */
    NEED(occupancy(&n, &n, 512, 0) == 0 && n == 3 && occupancy(&n, &n, 32, 0) == 0 && n == 16 && occupancy(&n, &n, 32, 49 << 10) == 0 && n == 2);
    NEED(attribute(&value, 16, 0) == 0 && value == 7 && attribute(&value, 75, 0) == 0 && value == 8 && attribute(&value, 76, 0) == 0 && value == 6);
    NEED(attribute(&value, 39, 0) == 0 && value == 1536 && attribute(&value, 106, 0) == 0 && value == 16); /* of compute capability 8.6 */
    NEED(attribute(&value, 81, 0) == 0 && value == 102400 && attribute(&value, 97, 0) == 0 && value == 101376);
    union {
        char name[256];
        uint64_t sizes[1032 / 8];
        int32_t numbers[1032 / 4];
    } p;
    NEED(properties(&p, 0) == 0 && strcmp(p.name, "Small GPU") == 0 && p.sizes[288 / 8] == 64 * MIB && p.numbers[360 / 4] == 8 && p.numbers[388 / 4] == 7);
    NEED(p.sizes[296 / 8] == 49152 && p.numbers[304 / 4] == 65536 && p.numbers[308 / 4] == 32 && p.numbers[320 / 4] == 1024); /* of a block, and its warps */
    NEED(p.numbers[616 / 4] == 4 << 20 && p.numbers[624 / 4] == 1536 && p.sizes[640 / 8] == 102400 && p.sizes[696 / 8] == 101376);
    NEED(refused() == 801 && last_error() == 801);
    NEED(push("only looked") == 0 && pop() == 0 && synchronize() == 0);
}

/* A program of CUDA 13: cudaDeviceProp has no clocks, and all behind them lies before where CUDA 12 has it (cuda_runtime_api.h of 13.0). */
static void ask_properties_of_13(void)
{
    enum { SIZE = 1008 };
    union {
        uint64_t sizes[SIZE / 8 + 1];
        int32_t numbers[SIZE / 4 + 2];
    } p;
    int version;
    NEED(dlopen(ECH_BINARY_DIR "/tests/libcudart.so.13", RTLD_NOW | RTLD_GLOBAL) != NULL);
    NEED(runtime_version(&version) == 0 && version == 13000);
    memset(&p, 0x5a, sizeof p);
    NEED(unversioned_properties(&p, 1) == 0 && p.sizes[SIZE / 8] == UINT64_C(0x5a5a5a5a5a5a5a5a)); /* nothing behind it */
    NEED(p.sizes[288 / 8] == 64 * MIB && p.numbers[348 / 4] == 0 && p.numbers[360 / 4] == 8 && p.numbers[364 / 4] == 6);
    NEED(p.numbers[384 / 4] == 7 && p.numbers[392 / 4] == 1 && p.numbers[560 / 4] == 1 && p.numbers[568 / 4] == 2); /* processors, the second's bus */
    NEED(p.numbers[584 / 4] == 3 && p.numbers[596 / 4] == 4 << 20 && p.numbers[604 / 4] == 1536);                   /* engines, L2, threads */
    NEED(p.sizes[624 / 8] == 102400 && p.numbers[632 / 4] == 65536 && p.sizes[672 / 8] == 101376 && p.numbers[688 / 4] == 16);
    NEED(p.numbers[668 / 4] == 1 && p.numbers[664 / 4] == 1 && p.sizes[696 / 8] == 1024 &&
         p.numbers[704 / 4] == 1);                                                       /* cooperative launches, what is registered */
    NEED(p.numbers[720 / 4] == 1 && p.numbers[744 / 4] == 1 && p.numbers[748 / 4] == 0); /* pools, events of others, clusters */
}

/* Of two devices the second alone, by its number or as NVML names it; NVML knows both. */
static void look_at_the_second(void)
{
    int (*number)(unsigned *), (*bus)(char *, int, int), (*handle)(unsigned, void **), (*name)(void *, char *, unsigned), n, value;
    void *of[] = {dlsym(RTLD_DEFAULT, "nvmlDeviceGetCount_v2"), dlsym(RTLD_DEFAULT, "cudaDeviceGetPCIBusId"),
                  dlsym(RTLD_DEFAULT, "nvmlDeviceGetHandleByIndex_v2"), dlsym(RTLD_DEFAULT, "nvmlDeviceGetUUID")};
    NEED(of[0] && of[1] && of[2] && of[3]);
    memcpy(&number, &of[0], sizeof number);
    memcpy(&bus, &of[1], sizeof bus);
    memcpy(&handle, &of[2], sizeof handle);
    memcpy(&name, &of[3], sizeof name);
    char place[16], uuid[96];
    unsigned all;
    void *second;
    NEED(device_count(&n) == 0 && n == 1 && number(&all) == 0 && all == 2);
    NEED(bus(place, sizeof place, 0) == 0 && strcmp(place, "0000:02:00.0") == 0 && attribute(&value, 33, 0) == 0 && value == 2);
    NEED(handle(1, &second) == 0 && name(second, uuid, sizeof uuid) == 0 && g_str_has_prefix(uuid, "GPU-02"));
}

/* The variable counts when the program first asks for its devices, whatever else of CUDA it has called before, and not after. */
static void hide_one_later(void)
{
    static const char function;
    register_kernel(NULL, &function, NULL, "k", -1, NULL, NULL, NULL, NULL, NULL);
    int n;
    NEED(last_error() == 0 && runtime_version(&n) == 0 && begin_capture(NULL, 0) != 0 && last_error() == 1);
    g_setenv("CUDA_VISIBLE_DEVICES", "1", TRUE);
    look_at_the_second();
    g_setenv("CUDA_VISIBLE_DEVICES", "0", TRUE);
    look_at_the_second();
}

START_TEST(devices_that_are_hidden_are_the_hosts)
{
    g_free(pretended(SMALL, hide_one_later, NULL));
    static const char *const visible[] = {"1", "GPU-02000000-0000-0000-0000-000000000000", "1,7"};
    for (size_t i = 0; i < G_N_ELEMENTS(visible); i++) {
        g_setenv("CUDA_VISIBLE_DEVICES", visible[i], TRUE);
        g_free(pretended(SMALL, look_at_the_second, NULL));
    }
    g_unsetenv("CUDA_VISIBLE_DEVICES");
}
END_TEST

START_TEST(numbers_are_the_devices_and_who_only_looks_leaves_nothing)
{
    g_free(pretended(SMALL, ask_of_capabilities, NULL));
    g_free(pretended("id=large;bytes=67108864;devices=2;major=9;minor=0;multiprocessors=7;shared=233472", ask_of_capabilities, NULL));
    ck_assert_ptr_null(pretended(SMALL, ask_properties_of_13, NULL));
    ck_assert_ptr_null(pretended(SMALL, ask_numbers, NULL));
    ck_assert_ptr_null(pretended("id=old;major=6;minor=0;shared=65536", ask_old_numbers, NULL));
}
END_TEST

/* A fat binary with an entry of each version: PTX where it is below 0. */
typedef struct {
    uint8_t bytes[256];
    struct {
        uint32_t magic, version;
        const void *binary, *unused;
    } wrapper;
} FatBinary;

static void *make_binary(FatBinary *fat, const int *versions, uint32_t n)
{
    enum { HEADER = 16, ENTRY = 48, BEHIND = 8 };
    const uint32_t magic = 0xba55ed50u, entry_bytes = ENTRY;
    const uint16_t header[] = {1, HEADER};
    const uint64_t all = n * (ENTRY + BEHIND), behind = BEHIND;
    memcpy(fat->bytes, &magic, 4);
    memcpy(fat->bytes + 4, header, 4);
    memcpy(fat->bytes + 8, &all, 8);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *at = fat->bytes + HEADER + i * (ENTRY + BEHIND);
        const uint16_t kind = versions[i] < 0 ? 1 : 2;
        const uint32_t version = (uint32_t)abs(versions[i]);
        memcpy(at, &kind, 2);
        memcpy(at + 4, &entry_bytes, 4);
        memcpy(at + 8, &behind, 8);
        memcpy(at + 28, &version, 4);
    }
    fat->wrapper.magic = 0x466243b1u;
    fat->wrapper.version = 1;
    fat->wrapper.binary = fat->bytes;
    return &fat->wrapper;
}

/* As a driver chooses on a GPU of compute capability 8.6: machine code of its own major version, PTX of no later one, or nothing. */
static void choose_code(void)
{
    static const struct {
        int versions[4];
        uint32_t n;
        int chosen;
    } cases[] = {{{75, 80, 86, 90}, 4, 86}, {{75, 80, 89, 90}, 4, 80}, {{75, 90}, 2, 0}, {{75, -70}, 2, 70}, {{-90}, 1, 0},
                 {{80, -86}, 2, 80},        {{-75, -80, 90}, 3, 80},   {{0}, 0, 0}};
    static FatBinary binaries[G_N_ELEMENTS(cases) + 2];
    static const char functions[G_N_ELEMENTS(cases) + 2];
    for (size_t i = 0; i < G_N_ELEMENTS(cases) + 2; i++) {
        bool told = i < G_N_ELEMENTS(cases);
        void *wrapper = make_binary(&binaries[i], cases[told ? i : 0].versions, cases[told ? i : 0].n);
        if (i == G_N_ELEMENTS(cases)) /* no binary of that kind: anything suits */
            binaries[i].wrapper.magic = 1;
        if (i == G_N_ELEMENTS(cases) + 1) /* an entry longer than what is left */
            binaries[i].bytes[16 + 8 + 3] = 1;
        void **handle = register_binary(wrapper);
        register_kernel(handle, &functions[i], NULL, "kernel", -1, NULL, NULL, NULL, NULL, NULL);
        int chosen = told ? cases[i].chosen : 86;
        union {
            int32_t numbers[64];
            uint64_t aligned;
        } attributes = {{0}};
        NEED(function_attributes(&attributes, &functions[i]) == (chosen ? 0 : 209));
        NEED(chosen == 0 || attributes.numbers[8] == chosen); /* ptxVersion */
        NEED(launch(&functions[i], (Dim){(unsigned)i + 1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, NULL) == (chosen ? 0 : 209));
        NEED(last_error() == (chosen ? 0 : 209));
    }
}

START_TEST(code_is_chosen_as_a_driver_does)
{
    g_autofree char *text = pretended(SMALL, choose_code, NULL);
    ck_assert_uint_eq(count(text, "kernel 0 0 1 1 1 1 32 1 1 0\n"), 1);
    ck_assert_uint_eq(count(text, "kernel 0 0 1 3 1 1"), 0);
    ck_assert_uint_eq(count(text, "kernel"), 7);
}
END_TEST

/* An ELF file of one kernel: a pointer, a number, a structure of three words; 200 registers, at most 256 threads, 4096 bytes of shared memory. And of a
 * variable of 3 MiB, named "table". */
static size_t make_machine_code(uint8_t *elf, const char *kernel)
{
    enum { SECTION = 64, NAMES = 1024, INFO = 1536, SYMBOL = 1800, TABLE = 2048, SECTIONS = 6 };
    const uint64_t table = TABLE;
    const uint16_t numbers[] = {SECTION, SECTIONS, 1};
    memcpy(elf,
           "\x7f"
           "ELF\2",
           5);
    memcpy(elf + 40, &table, 8);
    memcpy(elf + 58, numbers, 6);
    uint8_t *info = elf + INFO;
    static const uint32_t bytes[] = {8, 4, 24};
    for (uint16_t i = 0; i < 3; i++, info += 16) {
        bool wide = i == 2; /* as kernels of more than 4 KiB of parameters say it, and those of a B200, with what it points to above */
        const uint16_t head[] = {(uint16_t)(4 | (wide ? 0x45 : 0x17) << 8), 12}, ordinal = i;
        const uint32_t size = wide ? bytes[i] | 0x05000000 : bytes[i] << 18;
        memcpy(info, head, 4);
        memcpy(info + 8, &ordinal, 2);
        memcpy(info + 12, &size, 4);
    }
    const uint16_t head[] = {4 | 5 << 8, 12};
    const uint32_t threads[] = {256, 1, 1};
    memcpy(info, head, 4);
    memcpy(info + 4, threads, 12);
    const char *const kinds[] = {NULL, NULL, ".nv.info.", ".text.", ".nv.shared."};
    uint32_t name = 1;
    for (uint32_t i = 1; i < SECTIONS - 1; i++) {
        uint8_t *section = elf + TABLE + i * SECTION;
        const uint64_t place[] = {i == 1 ? NAMES : INFO, i == 1 ? INFO - NAMES : i == 4 ? 4096 : 64};
        const uint32_t registers = i == 3 ? 200u << 24 | 3 : 0;
        memcpy(section, &name, 4);
        memcpy(section + 24, place, 16);
        memcpy(section + 44, &registers, 4);
        if (kinds[i])
            name += (uint32_t)sprintf((char *)elf + NAMES + name, "%s%s", kinds[i], kernel) + 1;
    }
    const uint32_t symbols[] = {0, 2}, names_section = 1;
    const uint64_t place[] = {SYMBOL, 24}, variable_bytes = 3 * MIB;
    memcpy(elf + TABLE + 5 * SECTION, symbols, 8);
    memcpy(elf + TABLE + 5 * SECTION + 24, place, 16);
    memcpy(elf + TABLE + 5 * SECTION + 40, &names_section, 4);
    memcpy(elf + SYMBOL, &name, 4);
    elf[SYMBOL + 4] = 1 << 4 | 1;
    memcpy(elf + SYMBOL + 16, &variable_bytes, 8);
    strcpy((char *)elf + NAMES + name, "table");
    return TABLE + SECTIONS * SECTION;
}

/* LZ4's block format: literals alone but for @zeros at @at, which are a match of the one before them. */
static size_t pack(uint8_t *to, const uint8_t *from, size_t n, size_t at, size_t zeros)
{
    uint8_t *begin = to;
    const struct {
        size_t literals, match;
    } parts[] = {{at + 1, zeros - 1}, {n - at - zeros, 0}};
    for (size_t i = 0; i < 2; i++) {
        size_t match = parts[i].match ? parts[i].match - 4 : 0, rest = parts[i].literals - 15;
        *to++ = (uint8_t)(0xf0 | (match >= 15 ? 15 : match));
        for (; rest >= 255; rest -= 255)
            *to++ = 255;
        *to++ = (uint8_t)rest;
        memcpy(to, from, parts[i].literals);
        to += parts[i].literals;
        from += parts[i].literals + parts[i].match;
        if (i == 1)
            break;
        *to++ = 1; /* one back */
        *to++ = 0;
        for (match -= 15; match >= 255; match -= 255)
            *to++ = 255;
        *to++ = (uint8_t)match;
    }
    return (size_t)(to - begin);
}

/* A fat binary of one entry, as a program registers it. */
typedef struct {
    uint8_t bytes[8192];
    struct {
        uint32_t magic, version;
        const void *binary, *unused;
    } wrapper;
} Fat;

/* What cudaFuncGetAttributes writes, and room for the rest. */
typedef union {
    struct {
        size_t shared, constant, local;
        int threads, registers;
    } known;
    char room[256];
} Attributes;

/* @code[@n] of a @kind (1 PTX, 2 machine code) for compute capability @version / 10, packed where it has zeros to match, registered as @function's kernel
 * @name.
 * @whole: bytes that it is said to have. */
static void register_code(Fat *fat, uint16_t kind, uint32_t version, const void *code, size_t n, size_t whole, size_t at, size_t zeros, const char *function,
                          const char *name)
{
    enum { ENTRY = 64, CODE = 80 };
    const uint32_t magic = 0xba55ed50u, entry = ENTRY, packed = (uint32_t)(zeros ? pack(fat->bytes + CODE, code, n, at, zeros) : 0);
    const uint16_t header[] = {1, 16};
    const uint64_t behind = zeros ? packed : n, all = entry + behind, flags = zeros ? 0x2000 : 0, said = whole;
    if (zeros == 0)
        memcpy(fat->bytes + CODE, code, n);
    memcpy(fat->bytes, &magic, 4);
    memcpy(fat->bytes + 4, header, 4);
    memcpy(fat->bytes + 8, &all, 8);
    memcpy(fat->bytes + 16, &kind, 2);
    memcpy(fat->bytes + 20, &entry, 4);
    memcpy(fat->bytes + 24, &behind, 8);
    memcpy(fat->bytes + 32, &packed, 4);
    memcpy(fat->bytes + 44, &version, 4);
    memcpy(fat->bytes + 56, &flags, 8);
    memcpy(fat->bytes + 72, &said, 8);
    fat->wrapper.magic = 0x466243b1u;
    fat->wrapper.binary = fat->bytes;
    register_kernel(register_binary(&fat->wrapper), (void *)(uintptr_t)function, NULL, name, -1, NULL, NULL, NULL, NULL, NULL);
}

/* The same kernel in a fat binary as it is, packed, packed and cut short, and handed to the driver; a pointer, and a structure that holds two and a number. */
static void launch_with_arguments(void)
{
    static Fat binaries[3];
    static uint8_t elf[4096];
    static const char functions[4];
    size_t n = make_machine_code(elf, "k");
    uint8_t *a, *freed;
    NEED(allocate((void **)&a, 4 * MIB) == 0 && allocate((void **)&freed, 2 * MIB) == 0 && release(freed) == 0);
    NEED((uintptr_t)a == UINT64_C(0x3a6701000000)); /* the same in every run */
    uint64_t structure[] = {(uint64_t)(uintptr_t)a + 512, 77, (uint64_t)(uintptr_t)a + 4 * MIB - 1}, gone[] = {(uint64_t)(uintptr_t)freed, 0, 0};
    int number = 5;
    for (size_t i = 0; i < 3; i++) {
        register_code(&binaries[i], 2, 86, elf, n, i == 2 ? n + 9 : n, 100, i ? 800 : 0, &functions[i], "k");
        Attributes attributes;
        NEED(function_attributes(&attributes, &functions[i]) == 0);
        NEED(attributes.known.registers == (i == 2 ? 32 : 200) && attributes.known.threads == (i == 2 ? 1024 : 256) &&
             attributes.known.shared == (i == 2 ? 0 : 4096));
        void *arguments[] = {&a, &number, structure};
        NEED(launch(&functions[i], (Dim){(unsigned)i + 1, 1, 1}, (Dim){32, 1, 1}, arguments, 0, NULL) == 0);
    }
    void *module, *driven, *stream, *graph, *instance, *arguments[] = {gone, &number, gone};
    NEED(load_module(&module, elf) == 0 && get_function(&driven, module, "k") == 0);
    g_autofree char *path = NULL;
    int file = g_file_open_tmp("echelon-module-XXXXXX", &path, NULL);
    void *of_file, *of_piece, *nowhere;
    NEED(write(file, elf, sizeof elf) == (ssize_t)sizeof elf && load_file(&module, path) == 0 && get_function(&of_file, module, "k") == 0);
    NEED(ftruncate(file, 100) == 0 && load_file(&module, path) == 0 && get_function(&of_piece, module, "k") == 0 && close(file) == 0);
    NEED(unlink(path) == 0 && load_file(&nowhere, path) == 301);
    memset(elf, 0, sizeof elf); /* the caller's again */
    NEED(launch_driver(driven, 4, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
    arguments[0] = &a;
    NEED(make_stream(&stream, 1) == 0 && begin_capture(stream, 0) == 0 && launch_driver(driven, 5, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == 0);
    NEED(end_capture(stream, &graph) == 0 && instantiate(&instance, graph, 0) == 0 && launch_graph(instance, NULL) == 0);
    NEED(copy(a + 64, functions, 4, 1) == 0 && set(a, 0, 32) == 0);
    NEED(end_instance(instance) == 0 && destroy_graph(graph) == 0 && end_stream(stream) == 0);
    NEED(launch_driver(of_file, 6, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0 && launch_driver(of_piece, 7, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
}

START_TEST(arguments_are_found_by_what_code_says)
{
    g_autofree char *text = pretended(SMALL, launch_with_arguments, NULL);
    ck_assert_ptr_nonnull(strstr(text, "kernel 0 0 1 1 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072820224 2 64214077014015\n"));
    ck_assert_ptr_nonnull(strstr(text, "kernel 0 0 1 2 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072820224 2 64214077014015\n"));
    ck_assert_ptr_nonnull(strstr(text, "kernel 0 0 1 3 1 1 32 1 1 0\nkernel 0 0 1 4 1 1 32 1 1 0\nargs\ncaptured 1\ngraph"));
    ck_assert_ptr_nonnull(strstr(text, "graph 0 0 1\nnode 1\nkernel 0 0 1 5 1 1 32 1 1 0\nargs 0 64214072819712\n"));
    ck_assert_ptr_nonnull(strstr(text, "copy 0 0 4 1 3 0\nuses 2 64214072819776 4\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "set 0 0 32\nuses 2 64214072819712 32\nkernel 0 0 1 6 1 1 32 1 1 0\nargs 0 64214072819712\nkernel 0 0 1 7 1 1 32 1 1 0\nend\n"));
}
END_TEST

/* Kernels of which Python has told what they move: of an array, or of nothing that is allocated. */
static void launch_with_moves(void)
{
    void (*moves)(size_t, const uint64_t *);
    void *found = dlsym(RTLD_DEFAULT, "pretend_moves_of"), *module, *driven;
    NEED(found != NULL);
    memcpy(&moves, &found, sizeof found);
    static uint8_t elf[4096];
    make_machine_code(elf, "k");
    uint8_t *a, described[128] = {0};
    int number = 5;
    void *arguments[] = {&a, &number, described};
    NEED(allocate((void **)&a, 4 * MIB) == 0 && load_module(&module, elf) == 0 && get_function(&driven, module, "k") == 0);
    const uint64_t rows[] = {(uint64_t)(uintptr_t)a, 64, 0, (uint64_t)(uintptr_t)(a + MIB), 96, 32, (uint64_t)(uintptr_t)(a + 2 * MIB), 0, UINT64_MAX},
                   nowhere[] = {(uint64_t)(uintptr_t)&number, 64, 64};
    moves(3, rows);
    NEED(launch_driver(driven, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
    moves(1, nowhere);
    NEED(launch_driver(driven, 2, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
    moves(0, NULL);
    NEED(launch_driver(driven, 3, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
}

START_TEST(moves_stand_for_arguments)
{
    g_autofree char *text = pretended(SMALL, launch_with_moves, NULL);
    ck_assert_ptr_nonnull(
        strstr(text, " 1 1 1 32 1 1 0\nuses 1 64214072819712 64 1 64214073868288 96 2 64214073868288 32 2 64214074916864 0\nkernel 0 0 1 2 "));
    ck_assert_ptr_nonnull(strstr(text, " 2 1 1 32 1 1 0\nargs 0 64214072819712\n"));
    ck_assert_ptr_nonnull(strstr(text, " 3 1 1 32 1 1 0\nargs 0 64214072819712\n"));
}
END_TEST

/* A kernel that is given descriptors of tensors, and one of which Python has told what it multiplies: as it is, and in a graph. */
static void launch_with_tensor_maps(void)
{
    int (*encode)(void *, int, unsigned, const void *, const uint64_t *, const uint64_t *, const uint32_t *);
    int (*encode_convolved)(void *, int, unsigned, const void *), (*replace)(void *, const void *);
    void (*multiplies)(uint64_t, const char *, const char *);
    const struct {
        void *at;
        const char *name;
    } names[] = {{&encode, "cuTensorMapEncodeTiled"},
                 {&encode_convolved, "cuTensorMapEncodeIm2colWide"},
                 {&replace, "cuTensorMapReplaceAddress"},
                 {&multiplies, "pretend_products_of"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i].name);
        NEED(found != NULL);
        memcpy(names[i].at, &found, sizeof found);
    }
    static uint8_t elf[4096];
    make_machine_code(elf, "k");
    uint8_t *a, described[128];
    int number = 5;
    void *module, *driven, *stream, *graph, *instance, *arguments[] = {&a, &number, described};
    NEED(allocate((void **)&a, 4 * MIB) == 0 && load_module(&module, elf) == 0 && get_function(&driven, module, "k") == 0);
    memset(described, 0xff, sizeof described);
    const uint64_t sizes[] = {512, 256}, apart[] = {1024};
    const uint32_t box[] = {64, 8};
    NEED(encode(described, 99, 2, a, sizes, apart, box) == 1 && encode(described, 9, 6, a, sizes, apart, box) == 1); /* no such type, too many dimensions */
    NEED(encode(described, 9, 2, a + 1024, sizes, apart, box) == 0 && described[127] == 0);
    NEED(launch_driver(driven, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
    NEED(replace(described, a + 2048) == 0 && launch_driver(driven, 2, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
    NEED(encode_convolved(described, 9, 4, a + 4096) == 0);
    multiplies(1 << 20, "bf16", "class=attention head=64");
    NEED(launch_driver(driven, 3, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
    NEED(make_stream(&stream, 1) == 0 && begin_capture(stream, 0) == 0 && launch_driver(driven, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == 0);
    multiplies(0, NULL, NULL);
    NEED(end_capture(stream, &graph) == 0 && instantiate(&instance, graph, 0) == 0 && launch_graph(instance, NULL) == 0);
    NEED(end_instance(instance) == 0 && destroy_graph(graph) == 0 && end_stream(stream) == 0);
    NEED(launch_driver(driven, 5, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
}

START_TEST(tensor_maps_and_products)
{
    g_autofree char *text = pretended(SMALL, launch_with_tensor_maps, NULL);
    ck_assert_ptr_nonnull(strstr(text, " 1 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072820736\nkernel"));
    ck_assert_ptr_nonnull(strstr(text, " 2 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072821760\n"));
    ck_assert_ptr_nonnull(strstr(text, " 3 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072823808\nproducts 3 1048576 2\n"));
    ck_assert_ptr_nonnull(strstr(text, "name 2 \"bf16\"\nname 3 \"class=attention head=64\"\n"));
    ck_assert_ptr_nonnull(strstr(text, " 4 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072823808\nproducts 3 1048576 2\nkernel 0 0 1 5 "));
    ck_assert_uint_eq(count(text, "products "), 2);
}
END_TEST

enum { LEFT_WORDS = 128, FRAME_WORDS = 48 /* of the function that clears */ };

/* AddressSanitizer, with GCC 13 and later, keeps arrays elsewhere than on the stack. */
#define ON_THE_STACK __attribute__((noinline, no_sanitize("address")))

static ON_THE_STACK void leave_on_the_stack(uint64_t word)
{
    uint64_t left[LEFT_WORDS];
    for (size_t i = 0; i < LEFT_WORDS; i++)
        left[i] = word;
    __asm__ volatile("" : : "r"(left) : "memory");
}

static ON_THE_STACK size_t left_on_the_stack(uint64_t word)
{
    uint64_t left[LEFT_WORDS]; /* not set, whatever the compiler believes */
    __asm__ volatile("" : "=m"(left));
    size_t n = 0;
    for (size_t i = 0; i < LEFT_WORDS; i++)
        n += left[i] == word;
    return n;
}

static void leave_words(void)
{
    const uint64_t word = 0x3a6746400000;
    int device;
    leave_on_the_stack(word);
    NEED(left_on_the_stack(word) > LEFT_WORDS / 2);
    leave_on_the_stack(word);
    NEED(get_device(&device) == 0 && device == 0 && left_on_the_stack(word) < FRAME_WORDS);
    leave_on_the_stack(word);
    NEED(last_error() == 0 && left_on_the_stack(word) < FRAME_WORDS);
}

/* What a program leaves uninitialized in a kernel's parameters is no address of kernels before. */
START_TEST(nothing_is_left_on_the_stack)
{
    g_autofree char *text = pretended(SMALL, leave_words, NULL);
    ck_assert_ptr_null(text);
}
END_TEST

#define DASHES "------------------------------------------------------------" /* 60 of them */

/* PTX of two kernels: a pointer, a number and a structure of three words, blocks of 8 x 4 threads at most, two arrays that share 1 KiB and 16 bytes; and one
 * without parameters, whose name begins like the other's. */
static const char ptx[] =
    "// made by hand " DASHES DASHES DASHES DASHES DASHES "\n.version 8.5\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 rest[];\n"
    ".visible .entry kk(\n\t.param .u64 .ptr .global .align 1 kk_param_0,\n\t.param .u32 kk_param_1, /* a comment, with a sign */\n"
    "\t.param .align 8 .b8 kk_param_2[24]\n)\n.maxntid 8, 4, 1\n.minnctapersm 2\n{\n\t.reg .b32 %r<3>;\n\t.shared .align 4 .b8 one[1024];\n"
    "\t{ .shared .f32 two[2][2]; }\n\ttex.1d.v4.s32.s32 {%r0, %r1, %r2, %r2}, [one, {%r0}];\n\tret;\n}\n.visible .entry k()\n{\n\tret;\n}\n";

/* The same text handed to the driver; in a fat binary as it is, packed, and cut short in the middle of its parameters. */
static void launch_what_the_driver_compiles(void)
{
    static Fat binaries[3];
    static const char functions[3];
    void *module, *driven, *bare, *a;
    NEED(allocate(&a, MIB) == 0 && load_module(&module, ptx) == 0 && get_function(&driven, module, "kk") == 0 && get_function(&bare, module, "k") == 0);
    uint64_t structure[] = {0, (uint64_t)(uintptr_t)a + 512, 0};
    int number = 5;
    void *arguments[] = {&a, &number, structure};
    NEED(launch_driver(driven, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0 && launch_driver(bare, 2, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) == 0);
    for (size_t i = 0; i < 3; i++) {
        size_t n = i == 2 ? 520 : sizeof ptx;
        register_code(&binaries[i], 1, 80, ptx, n, n, 16, i == 1 ? 300 : 0, &functions[i], "kk");
        Attributes attributes;
        NEED(function_attributes(&attributes, &functions[i]) == 0);
        NEED(attributes.known.threads == (i == 2 ? 1024 : 32) && attributes.known.shared == (i == 2 ? 0 : 1040));
        NEED(launch(&functions[i], (Dim){(unsigned)i + 3, 1, 1}, (Dim){32, 1, 1}, arguments, 0, NULL) == 0);
    }
}

/* Kernels of libraries, as cuda.core asks for them; tables of functions that there are not, whose entries may be called. */
static void ask_of_kernels(void)
{
    void *module, *kernel,
        *symbols[] = {dlsym(RTLD_DEFAULT, "cuLibraryGetKernel"), dlsym(RTLD_DEFAULT, "cuKernelGetAttribute"), dlsym(RTLD_DEFAULT, "cuKernelSetAttribute"),
                      dlsym(RTLD_DEFAULT, "cuGetExportTable")};
    int (*get)(void **, void *, const char *), (*attribute_of)(int *, int, void *, int), (*set_attribute)(int, int, void *, int),
        (*table_of)(const void **, const void *), value = 0;
    NEED(symbols[0] && symbols[1] && symbols[2] && symbols[3]);
    memcpy(&get, &symbols[0], sizeof get);
    memcpy(&attribute_of, &symbols[1], sizeof attribute_of);
    memcpy(&set_attribute, &symbols[2], sizeof set_attribute);
    memcpy(&table_of, &symbols[3], sizeof table_of);
    NEED(load_module(&module, ptx) == 0 && get(&kernel, module, "kk") == 0);
    NEED(attribute_of(&value, 0, kernel, 0) == 0 && value == 32); /* threads of a block */
    NEED(attribute_of(&value, 1, kernel, 0) == 0 && value == 1040 && set_attribute(8, 1024, kernel, 0) == 0);
    /* A program that compiled one kernel asks which one it is. */
    void *counted[] = {dlsym(RTLD_DEFAULT, "cuLibraryGetKernelCount"), dlsym(RTLD_DEFAULT, "cuLibraryEnumerateKernels"), dlsym(RTLD_DEFAULT, "cuFuncGetName")},
         *all[2] = {NULL};
    int (*count_of)(unsigned *, void *), (*enumerate)(void **, unsigned, void *), (*name_of)(const char **, void *);
    NEED(counted[0] && counted[1] && counted[2]);
    memcpy(&count_of, &counted[0], sizeof count_of);
    memcpy(&enumerate, &counted[1], sizeof enumerate);
    memcpy(&name_of, &counted[2], sizeof name_of);
    unsigned n = 0;
    const char *name = NULL;
    NEED(count_of(&n, module) == 0 && n == 1 && enumerate(all, 2, module) == 0 && all[0] && !all[1]);
    NEED(name_of(&name, all[0]) == 0 && strcmp(name, "kk") == 0 && attribute_of(&value, 1, all[0], 0) == 0 && value == 1040);
    const struct {
        size_t bytes;
        int (*function)(void);
    } *table = NULL;
    NEED(table_of((const void **)&table, &value) != 0 && table && table->bytes == sizeof(size_t) && table->function() != 0);
}

START_TEST(kernels_tell_their_attributes_and_tables_nothing)
{
    int status;
    g_autofree char *text = pretended(SMALL, ask_of_kernels, &status);
    ck_assert_int_eq(status, 0);
}
END_TEST

typedef int (*AddLinked)(void *, int, const void *, size_t, const char *, unsigned, const int *, void **);

/* Two texts of PTX, one of them a file's, without the NUL that the other counts: Numba's way to its kernels. */
static void link_code(void)
{
    void *found[] = {dlsym(RTLD_DEFAULT, "cuLinkCreate_v2"), dlsym(RTLD_DEFAULT, "cuLinkAddData_v2"),     dlsym(RTLD_DEFAULT, "cuLinkAddFile_v2"),
                     dlsym(RTLD_DEFAULT, "cuLinkComplete"),  dlsym(RTLD_DEFAULT, "cuKernelGetAttribute"), dlsym(RTLD_DEFAULT, "cuLinkDestroy")};
    int (*begin)(unsigned, const int *, void **, void **), (*add_file)(void *, int, const char *, unsigned, const int *, void **),
        (*complete)(void *, void **, size_t *), (*attribute_of)(int *, int, void *, int), (*end)(void *), value = 0;
    AddLinked add_data;
    for (size_t i = 0; i < G_N_ELEMENTS(found); i++)
        NEED(found[i] != NULL);
    memcpy(&begin, &found[0], sizeof begin);
    memcpy(&add_data, &found[1], sizeof add_data);
    memcpy(&add_file, &found[2], sizeof add_file);
    memcpy(&complete, &found[3], sizeof complete);
    memcpy(&attribute_of, &found[4], sizeof attribute_of);
    memcpy(&end, &found[5], sizeof end);
    static const char other[] = ".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry other(.param .u64 p)\n.maxntid 64, 1, 1\n{\n\tret;\n}\n";
    g_autofree char *path = NULL;
    int file = g_file_open_tmp("echelon-linked-XXXXXX", &path, NULL);
    NEED(write(file, other, sizeof other - 1) == (ssize_t)sizeof other - 1 && close(file) == 0);
    char log[16] = "not empty";
    const int options[] = {5, 6}; /* where errors go, and how many bytes there are */
    void *values[] = {log, (void *)sizeof log}, *linker, *code, *module, *kernel;
    size_t bytes = 0;
    NEED(begin(2, options, values, &linker) == 0 && log[0] == '\0' && values[1] == NULL);
    NEED(complete(linker, &code, &bytes) == 200); /* nothing was added */
    NEED(add_data(linker, 4, "!<arch>", 7, "libcudadevrt.a", 0, NULL, NULL) == 0 && complete(linker, &code, &bytes) == 200);
    NEED(add_data(linker, 1, ptx, sizeof ptx, "one", 0, NULL, NULL) == 0 && add_file(linker, 1, path, 0, NULL, NULL) == 0);
    NEED(add_data(linker, 1, NULL, 0, "none", 0, NULL, NULL) == 1 && complete(linker, &code, &bytes) == 0 && bytes == strlen(code) + 1);
    NEED(load_module(&module, code) == 0 && end(linker) == 0);
    NEED(get_function(&kernel, module, "kk") == 0 && attribute_of(&value, 0, kernel, 0) == 0 && value == 32);
    NEED(get_function(&kernel, module, "other") == 0 && attribute_of(&value, 0, kernel, 0) == 0 && value == 64);
    NEED(load_file(&module, path) == 0 && get_function(&kernel, module, "other") == 0 && attribute_of(&value, 0, kernel, 0) == 0 && value == 64);
    NEED(unlink(path) == 0 && begin(0, NULL, NULL, &linker) == 0 && add_file(linker, 1, path, 0, NULL, NULL) == 301);
    NEED(add_data(linker, 0, "machine", 8, "code", 0, NULL, NULL) == 0 && add_data(linker, 0, "more", 4, "code", 0, NULL, NULL) == 0);
    NEED(complete(linker, &code, &bytes) == 0 && bytes == 8 && strcmp(code, "machine") == 0 && end(linker) == 0);
}

START_TEST(linked_code_is_what_was_added)
{
    int status;
    g_autofree char *text = pretended(SMALL, link_code, &status);
    ck_assert_int_eq(status, 0);
}
END_TEST

static int loads, prepared, refuse_loading, refused_devices;
static const char *exception;

static int load_once(void **library)
{
    static void *modules[4]; /* they live as long as the process */
    NEED(loads < 4);
    int error = refuse_loading ? refuse_loading : load_module(&modules[loads], ptx);
    *library = modules[loads++];
    return error;
}

static int prepare_device(void **library, int device)
{
    NEED(*library != NULL && device == prepared);
    prepared++;
    return device < refused_devices ? 209 : 0;
}

static void raise_exception(const char *kind, const char *text)
{
    NEED(strcmp(kind, "RuntimeError") == 0);
    exception = text;
}

/* Kernels of CuTe's DSL: their hosts' code loads a module at its first call, for all devices of which one at least takes it. */
static void ask_as_cute_does(void)
{
    int (*load_library)(void **, int (*)(void **), int (*)(void **, int), void (*)(const char *, const char *)),
        (*launch_cute)(const void *, const void *, void **);
    void (*unload_library)(void **);
    void *symbols[] = {dlsym(RTLD_DEFAULT, "cuda_dialect_init_library_once"), dlsym(RTLD_DEFAULT, "cuda_dialect_unload_library_once"),
                       dlsym(RTLD_DEFAULT, "_cudaLaunchKernelEx")},
         *library = NULL, *kernel;
    NEED(symbols[0] && symbols[1] && symbols[2]);
    memcpy(&load_library, &symbols[0], sizeof load_library);
    memcpy(&unload_library, &symbols[1], sizeof unload_library);
    memcpy(&launch_cute, &symbols[2], sizeof launch_cute);
    refuse_loading = 200;
    NEED(load_library(&library, load_once, prepare_device, raise_exception) != 0 && !library && exception && prepared == 0);
    refuse_loading = 0;
    refused_devices = 2;
    exception = NULL;
    NEED(load_library(&library, load_once, prepare_device, raise_exception) != 0 && !library && exception && prepared == 2);
    refused_devices = 1;
    prepared = 0;
    NEED(load_library(&library, load_once, prepare_device, raise_exception) == 0 && library && loads == 3 && prepared == 2);
    NEED(load_library(&library, load_once, prepare_device, raise_exception) == 0 && loads == 3 && prepared == 2);
    NEED(get_function(&kernel, library, "kk") == 0);
    const struct {
        Dim grid, block;
        size_t shared;
        void *stream, *attributes;
        unsigned n_attributes;
    } config = {{5, 6, 7}, {32, 1, 1}, 64, NULL, NULL, 0};
    void *a, *arguments[3];
    int number = 1;
    uint64_t structure[3] = {0};
    NEED(allocate(&a, MIB) == 0);
    arguments[0] = &a;
    arguments[1] = &number;
    arguments[2] = structure;
    NEED(launch_cute(&config, kernel, arguments) == 0);
    unload_library(&library);
    NEED(!library && load_library(&library, load_once, NULL, raise_exception) == 0 && library && loads == 4);
}

START_TEST(kernels_of_cute_are_written)
{
    g_autofree char *text = pretended("id=small;bytes=67108864;context=4194304;devices=2;major=9;minor=0", ask_as_cute_does, NULL);
    ck_assert_ptr_nonnull(strstr(text, " 5 6 7 32 1 1 64\n"));
}
END_TEST

START_TEST(arguments_are_found_by_what_ptx_says)
{
    g_autofree char *text = pretended(SMALL, launch_what_the_driver_compiles, NULL);
    ck_assert_ptr_nonnull(strstr(text, "kernel 0 0 1 1 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072820224\n"));
    ck_assert_ptr_nonnull(strstr(text, " 2 1 1 32 1 1 0\nargs\n"));
    ck_assert_ptr_nonnull(strstr(text, " 3 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072820224\n"));
    ck_assert_ptr_nonnull(strstr(text, " 4 1 1 32 1 1 0\nargs 0 64214072819712 2 64214072820224\n"));
    ck_assert_ptr_nonnull(strstr(text, " 5 1 1 32 1 1 0\nargs 0 64214072819712"));
}
END_TEST

/* A kernel that adds b to a, in blocks of 64; where a thread's b lies, the host has copied. Two launches alike but for where their arrays lie, one of another
 * size, one in a graph, and one given a place within its array. */
static void launch_what_is_told(void)
{
    static const char adds[] =
        ".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry adds(.param .u64 a, .param .u64 b, .param .u32 n)\n{\n"
        ".reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .f32 %f<4>;\nld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u32 %r4, [n];\n"
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.s32 %r2, %r1, 64, %r0; setp.ge.u32 %p0, %r2, %r4; @%p0 bra $done;\n"
        "mul.wide.s32 %d2, %r2, 4; add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2; ld.global.f32 %f0, [%d3]; ld.global.f32 %f1, [%d4];\n"
        "fma.rn.f32 %f2, %f0, 0f40000000, %f1; st.global.f32 [%d3], %f2;\n$done: ret;\n}\n";
    void *module, *driven, *stream, *graph, *instance;
    uint8_t *a, *b;
    int n = 256;
    void *arguments[] = {&a, &b, &n};
    NEED(allocate((void **)&a, MIB) == 0 && allocate((void **)&b, MIB) == 0 && load_module(&module, adds) == 0 && get_function(&driven, module, "adds") == 0);
    NEED(launch_driver(driven, 4, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL) == 0);
    void *swapped[] = {&b, &a, &n};
    NEED(launch_driver(driven, 4, 1, 1, 64, 1, 1, 0, NULL, swapped, NULL) == 0);
    n = 100;
    NEED(launch_driver(driven, 5, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL) == 0);
    NEED(make_stream(&stream, 1) == 0 && begin_capture(stream, 0) == 0 && launch_driver(driven, 6, 1, 1, 64, 1, 1, 0, stream, arguments, NULL) == 0);
    NEED(end_capture(stream, &graph) == 0 && instantiate(&instance, graph, 0) == 0 && launch_graph(instance, NULL) == 0);
    NEED(end_instance(instance) == 0 && destroy_graph(graph) == 0 && end_stream(stream) == 0);
    uint8_t *within = a + 4096;
    void *further[] = {&within, &within, &n};
    NEED(launch_driver(driven, 7, 1, 1, 64, 1, 1, 0, NULL, further, NULL) == 0);
}

START_TEST(what_kernels_move_is_told_by_ptx)
{
    g_autofree char *text = pretended(SMALL, launch_what_is_told, NULL);
    ck_assert_ptr_nonnull(strstr(text, " 4 1 1 64 1 1 0\nuses 1 64214072819712 1024 1 64214074916864 1024 2 64214072819712 1024\nlanes 512 0 "));
    ck_assert_ptr_nonnull(strstr(text, " 4 1 1 64 1 1 0\nuses 1 64214074916864 1024 1 64214072819712 1024 2 64214074916864 1024\nlanes 512 0 "));
    ck_assert_ptr_nonnull(strstr(text, " 5 1 1 64 1 1 0\nuses 1 64214072819712 400 1 64214074916864 400 2 64214072819712 400\nlanes 200 0 "));
    ck_assert_ptr_nonnull(strstr(text, " 6 1 1 64 1 1 0\nuses 1 64214072819712 400 1 64214074916864 400 2 64214072819712 400\nlanes 200 0 "));
    ck_assert_ptr_nonnull(strstr(text, " 7 1 1 64 1 1 0\nuses 1 64214072823808 400 2 64214072823808 400\nlanes 200 0 "));
    ck_assert_ptr_null(strstr(text, "args"));
}
END_TEST

/* Machine code that NVRTC makes is told by the PTX that it was made of, whatever else is compiled between; other machine code of that length is not. */
static void launch_what_is_compiled_at_run_time(void)
{
    enum { ELF = 2048 + 6 * 64 };
    static const char text[] =
        ".version 8.5\n.entry k(.param .u64 a, .param .u32 n, .param .align 8 .b8 s[24]) { .reg .b64 %d<3>; .reg .b32 %r; mov.u32 %r, %tid.x;\n"
        "ld.param.u64 %d0, [a]; mul.wide.u32 %d1, %r, 8; add.s64 %d2, %d0, %d1; st.global.u64 [%d2], %d1; ret; }";
    static uint8_t elf[3][4096], got[4096];
    struct {
        const void *code;
        size_t bytes;
        const char *ptx;
    } programs[] = {
        {elf[0], ELF, text}, {elf[1], ELF, ".version 8.5\n.entry k(.param .u64 a, .param .u32 n, .param .align 8 .b8 s[24]) { ret; }"}, {elf[2], 0, ""}};
    void *library = dlopen(ECH_BINARY_DIR "/tests/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(RTLD_DEFAULT, "nvrtcGetCUBIN") : NULL;
    int (*get_code)(void *, void *), number = 5;
    uint8_t *a;
    NEED(found != NULL && allocate((void **)&a, MIB) == 0);
    memcpy(&get_code, &found, sizeof found);
    uint64_t structure[3] = {0};
    void *arguments[] = {&a, &number, structure};
    for (size_t i = 0; i < G_N_ELEMENTS(elf); i++) {
        make_machine_code(elf[i], "k");
        elf[i][1500] = (uint8_t)(i + 1); /* in no section */
        NEED(get_code(&programs[i], got) == (i == 2 ? 4 : 0) && (i == 2 || memcmp(got, elf[i], ELF) == 0));
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(elf); i++) {
        void *module, *driven;
        NEED(load_module(&module, elf[i]) == 0 && get_function(&driven, module, "k") == 0);
        NEED(launch_driver(driven, i + 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL) == 0);
    }
}

START_TEST(what_is_compiled_at_run_time_is_told)
{
    g_autofree char *text = pretended(SMALL, launch_what_is_compiled_at_run_time, NULL);
    ck_assert_ptr_nonnull(strstr(text, " 1 1 1 64 1 1 0\nuses 2 64214072819712 512\nlanes 0 0 "));
    ck_assert_ptr_nonnull(strstr(text, " 2 1 1 64 1 1 0\nargs\nlanes 0 0 "));
    ck_assert_ptr_nonnull(strstr(text, " 3 1 1 64 1 1 0\nargs 0 64214072819712\n"));
}
END_TEST

/* TensorFlow's kernels may have their result where the host copied something: it is gone then. What they read stays. */
static void overwrite_contents(void)
{
    static const struct {
        const char *name;
        bool first;
    } kernels[] = {{"Mul_GPU_DT_INT32_DT_INT32_kernel", false},
                   {"main_kernel", false},
                   {"_ZN5Eigen8internal15EigenMetaKernelINS_15TensorEvaluatorIKNS_14TensorAssignOpI", true},
                   {"another_kernel", false}};
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++) {
        g_autofree char *code = g_strdup_printf(".version 8.5\n.entry %s(.param .u64 a, .param .u64 b, .param .u64 c){ret;}", kernels[i].name);
        void *module, *function, *a, *b;
        int given[4] = {1, 2, 3, 4}, seen[4];
        uint64_t nothing = 0;
        NEED(load_module(&module, code) == 0 && get_function(&function, module, kernels[i].name) == 0);
        NEED(allocate(&a, sizeof given) == 0 && allocate(&b, sizeof given) == 0);
        NEED(copy(a, given, sizeof given, 1) == 0 && copy(b, given, sizeof given, 1) == 0);
        void *arguments[] = {&a, &b, &nothing};
        NEED(launch_driver(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) == 0);
        bool known = i == G_N_ELEMENTS(kernels) - 1;
        NEED(copy(seen, a, sizeof seen, 2) == 0 && seen[3] == (kernels[i].first ? 0 : 4));
        NEED(copy(seen, b, sizeof seen, 2) == 0 && seen[3] == (kernels[i].first || known ? 4 : 0));
    }
}

START_TEST(what_kernels_overwrite_does_not_read_back)
{
    int status;
    g_autofree char *text = pretended(SMALL, overwrite_contents, &status);
    ck_assert_int_eq(status, 0);
}
END_TEST

static void fill_memory(void)
{
    void *a, *b, *c, *other;
    size_t room, total;
    NEED(allocate(&a, 40 * MIB) == 0 && (uintptr_t)a % (2 * MIB) == 0);
    NEED(allocate(&b, 22 * MIB + 1) == 2 && b == NULL && last_error() == 2);
    NEED(allocate(&b, 22 * MIB) == 0 && memory_info(&room, &total) == 0 && room == 0);
    NEED(allocate(&c, 512) == 2 && allocate(&c, 0) == 0 && c == NULL);
    NEED(set_device(1) == 0 && allocate(&other, 62 * MIB) == 0 && set_device(0) == 0);
    NEED(release(b) == 0 && release(b) == 1 && release((char *)a + 1) == 1 && release(NULL) == 0);
    NEED(allocate(&c, 512) == 0 && memory_info(&room, &total) == 0 && room == 22 * MIB - 512);
    struct {
        int type, device;
        void *on_device, *on_host;
    } attributes;
    NEED(pointer_attributes(&attributes, (char *)other + 5) == 0 && attributes.type == 2 && attributes.device == 1 &&
         attributes.on_device == (char *)other + 5);
    NEED(pointer_attributes(&attributes, &room) == 0 && attributes.type == 0);
    NEED(pointer_attributes(&attributes, b) == 0 && attributes.type == 0);
    void *pinned;
    NEED(allocate_pinned(&pinned, 1024 * MIB, 0) == 0 && pointer_attributes(&attributes, pinned) == 0 && attributes.type == 1); /* the host's */
}

START_TEST(memory_ends_at_the_last_byte)
{
    g_autofree char *text = pretended(SMALL, fill_memory, NULL);
    ck_assert_ptr_nonnull(strstr(text, "device 67108864 2097152 2 \"small\"\n"));
    ck_assert_uint_eq(count(text, "refused 0 0 23068673\n"), 1);
    ck_assert_uint_eq(count(text, "refused"), 2);
    ck_assert_uint_eq(count(text, "alloc 0 0 "), 4); /* the pinned one, too */
    ck_assert_uint_eq(count(text, "alloc 1 0 "), 1);
    ck_assert_uint_eq(count(text, "free"), 1);
    ck_assert_ptr_nonnull(strstr(text, " 1073741824 2 0\n"));
    ck_assert(g_str_has_suffix(text, "\nend\n"));
}
END_TEST

static void write_contents(void)
{
    int given[1024], seen[1024] = {7};
    for (int i = 0; i < 1024; i++)
        given[i] = i + 1;
    void *a, *b;
    NEED(allocate(&a, 4 * MIB) == 0 && allocate(&b, 4 * MIB) == 0);
    NEED(copy(seen, a, 16, 2) == 0 && seen[0] == 0); /* a result */
    NEED(copy(a, given, sizeof given, 1) == 0 && copy(seen, a, sizeof seen, 2) == 0 && seen[0] == 1 && seen[1023] == 1024);
    NEED(copy(seen, (int *)a + 5, 4, 2) == 0 && seen[0] == 6);
    NEED(copy(seen, a, 4, 2) == 0 && seen[0] == 0); /* where a result may lie, too */
    NEED(copy(b, a, sizeof given, 3) == 0 && copy(seen, b, sizeof seen, 2) == 0 && seen[9] == 10);
    NEED(set(a, 0, 8) == 0 && copy(seen, a, sizeof seen, 2) == 0 && seen[0] == 0 && seen[2] == 3);
    NEED(set(a, 1, 4) == 0 && copy(seen, a, 4, 2) == 0 && seen[0] == 0x01010101);
    g_autofree char *large = g_malloc0(3 * MIB);
    large[0] = large[3 * MIB - 1] = 1;
    NEED(copy(b, large, 3 * MIB, 1) == 0 && copy(large, b, 3 * MIB, 2) == 0 && large[0] == 0 && large[3 * MIB - 1] == 0);
    NEED(copy(seen, b, sizeof seen, 2) == 0 && seen[9] == 0);
    NEED(release(a) == 0 && allocate(&a, 4 * MIB) == 0 && copy(seen, (int *)a + 5, 4, 2) == 0 && seen[0] == 0);
}

START_TEST(what_the_host_copied_reads_back)
{
    g_autofree char *text = pretended(SMALL, write_contents, NULL);
    ck_assert_uint_eq(count(text, "copy 0 0 4096 1 3 0\n"), 1);
    ck_assert_uint_eq(count(text, "copy 0 0 4096 3 3 0\n"), 1);
    ck_assert_uint_eq(count(text, "copy 0 0 3145728 1 3 0\n"), 1);
    ck_assert_uint_eq(count(text, "set 0 0 8\n"), 1);
}
END_TEST

/* Memory of the program's own is pinned, with and without its pages; copies in batches, as CUDA 13 and 12 have it. */
static void pin_and_copy(void)
{
    void *device;
    char *mine = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(mine != MAP_FAILED && allocate(&device, 32 * MIB) == 0 && pin(mine, 16 * MIB, 0) == 0);
    memset(mine + 16 * MIB, 1, 16 * MIB);
    NEED(pin(mine + 16 * MIB, 16 * MIB, 0) == 0);
    char *there = device;
    void *const to[] = {there, there + 8192};
    const void *const from[] = {mine + 16 * MIB, mine + 16 * MIB + 4096};
    const size_t bytes[] = {4096, 4096};
    char seen = 0;
    NEED(copy_batch(to, from, bytes, 2, NULL, NULL, 0, NULL) == 0 && copy_batch_12(to, from, bytes, 2, NULL, NULL, 0, NULL, NULL) == 0);
    NEED(copy(&seen, there + 8192 + 4095, 1, 2) == 0 && seen == 1);
    NEED(unpin(mine) == 0 && unpin(mine) == 713); /* cudaErrorHostMemoryNotRegistered */
}

START_TEST(pinned_and_copied_in_batches)
{
    int status;
    g_autofree char *text = pretended(SMALL, pin_and_copy, &status);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count(text, "pin 0 16777216 1\n"), 1);
    ck_assert_uint_eq(count(text, "pin 0 16777216 0\n"), 1);
    ck_assert_uint_eq(count(text, "registered 0 "), 2);
    ck_assert_uint_eq(count(text, "unregistered 0 "), 1);
    ck_assert_uint_eq(count(text, "copy 0 0 4096 2 3 1\n"), 2);
    ck_assert_uint_eq(count(text, "copy 0 0 4096 2 3 2\n"), 2);
}
END_TEST

/* Kilobytes of memory that the process has. */
static size_t resident(void)
{
    g_autofree char *text = NULL;
    NEED(g_file_get_contents("/proc/self/statm", &text, NULL, NULL));
    return (size_t)g_ascii_strtoull(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Activations that are brought to the host, as save_on_cpu() does it: to pinned memory and to the program's own. What lies beside them stays. */
static void bring_back(void)
{
    void *device, *pinned, *borrowed = g_malloc(32 * MIB);
    NEED(allocate(&device, 32 * MIB) == 0 && allocate_pinned(&pinned, 32 * MIB, 0) == 0);
    char *const targets[] = {pinned, borrowed};
    size_t before = resident();
    for (size_t i = 0; i < G_N_ELEMENTS(targets); i++) {
        char *to = targets[i];
        to[0] = to[1] = to[32 * MIB - 2] = to[32 * MIB - 1] = 'x';
        to[16 * MIB] = 'y';
        for (int again = 0; again < 2; again++) /* the second time its pages are there */
            NEED(copy(to + 1, device, 32 * MIB - 2, 2) == 0);
        NEED(to[0] == 'x' && to[1] == 0 && to[16 * MIB] == 0 && to[32 * MIB - 2] == 0 && to[32 * MIB - 1] == 'x');
    }
    NEED(resident() < before + 8 * 1024);
    /* What is shared with a file is written. */
    g_autofree char *path = g_strdup_printf("%s/echelon-pretend-%d.shared", g_get_tmp_dir(), getpid());
    int file = g_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    NEED(file >= 0 && g_unlink(path) == 0 && ftruncate(file, 4 * MIB) == 0);
    char *shared = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    NEED(shared != MAP_FAILED);
    shared[2 * MIB] = 'z';
    NEED(copy(shared, device, 4 * MIB, 2) == 0 && shared[2 * MIB] == 0);
    g_free(borrowed);
}

START_TEST(what_comes_back_to_the_host_takes_no_memory)
{
    int status;
    g_autofree char *text = pretended(SMALL, bring_back, &status);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count(text, "copy 0 0 33554430 3 2 0\n"), 2);
    ck_assert_uint_eq(count(text, "copy 0 0 33554430 3 7 0\n"), 1);
    ck_assert_uint_eq(count(text, "copy 0 0 33554430 3 1 0\n"), 1);
}
END_TEST

/* A file of the build's folder, which lies on a disk; 0: it does not, nothing is told of it. */
static int file_on_disk(void)
{
    g_autofree char *path = g_strdup_printf("%s/echelon-files-%d", ECH_BINARY_DIR, getpid());
    int file = g_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    NEED(file >= 0 && g_unlink(path) == 0 && ftruncate(file, 8 * MIB) == 0);
    return file;
}

/* By the names that programs call, of which ours stand before the C library's where it is preloaded. */
static void use_files(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), *device;
    ssize_t (*reads)(int, void *, size_t), (*reads_at)(int, void *, size_t, off_t), (*writes)(int, const void *, size_t);
    void *(*maps)(void *, size_t, int, int, int, off_t);
    int (*unmaps)(void *, size_t);
    size_t (*reads_stream)(void *, size_t, size_t, FILE *);
    void (*swaps)(unsigned, const char *, bool, bool, uint64_t), (*awaits)(unsigned);
    const struct {
        void *at;
        const char *name;
    } names[] = {{&reads, "read"},    {&reads_at, "pread"},     {&writes, "write"},       {&maps, "mmap"},
                 {&unmaps, "munmap"}, {&reads_stream, "fread"}, {&swaps, "pretend_file"}, {&awaits, "pretend_await_files"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = dlsym(library, names[i].name);
        NEED(found != NULL);
        memcpy(names[i].at, &found, sizeof found);
    }
    g_autofree char *to = g_malloc(8 * MIB);
    const int file = file_on_disk();
    NEED(reads_at(file, to, MIB, 0) == (ssize_t)MIB); /* before anything is asked of the device */
    NEED(allocate(&device, 8 * MIB) == 0);
    NEED(reads_at(file, to, 2 * MIB, MIB) == (ssize_t)(2 * MIB) && reads_at(file, to, MIB - 1, 0) == (ssize_t)(MIB - 1));
    NEED(lseek(file, (off_t)(4 * MIB), SEEK_SET) > 0 && reads(file, to, 8 * MIB) == (ssize_t)(4 * MIB)); /* up to its end */
    NEED(lseek(file, 0, SEEK_SET) == 0 && writes(file, to, MIB) == (ssize_t)MIB);
    FILE *stream = fdopen(dup(file), "r");
    NEED(stream && fseek(stream, (long)(3 * MIB), SEEK_SET) == 0 && reads_stream(to, 1024, 1024, stream) == 1024 && fclose(stream) == 0);
    int ends[2];
    NEED(pipe(ends) == 0 && writes(ends[1], to, 4096) == 4096 && reads(ends[0], to, MIB) == 4096);
    /* Mapped: what is copied from there, and what the program touches itself. */
    char *mapped = maps(NULL, 8 * MIB, PROT_READ, MAP_PRIVATE, file, 0);
    NEED(mapped != MAP_FAILED && copy(device, mapped + 2 * MIB, 4 * MIB, 1) == 0);
    for (size_t i = 6 * MIB; i < 8 * MIB; i += 4096)
        NEED(((volatile char *)mapped)[i] == 0);
    NEED(unmaps(mapped, 8 * MIB) == 0);
    char *shared = maps(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)(4 * MIB));
    NEED(shared != MAP_FAILED);
    memset(shared, 1, 2 * MIB);
    NEED(unmaps(shared, 2 * MIB) == 0);
    swaps(3, "/nvme/p.swp", true, true, 5);
    awaits(3);
    NEED(pwrite(file, "\177ELF", 4, 0) == 4 && reads_at(file, to, 2 * MIB, 0) == (ssize_t)(2 * MIB)); /* code is no data */
    close(file);
}

static void wait_and_read(void)
{
    void *found = dlsym(dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), "pread");
    ssize_t (*reads_at)(int, void *, size_t, off_t);
    memcpy(&reads_at, &found, sizeof found);
    g_autofree char *to = g_malloc(MIB);
    NEED(synchronize() == 0 && reads_at(file_on_disk(), to, MIB, 0) == (ssize_t)MIB);
}

START_TEST(files_are_told)
{
    ck_assert_ptr_null(pretended(SMALL, wait_and_read, NULL)); /* as a worker of a compiler does */
    int status;
    g_autofree char *text = pretended(SMALL, use_files, &status);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count(text, "sync 5 0 3 0\n"), 1);
    g_autoptr(GString) told = g_string_new(NULL); /* HOW FROM BYTES, in KiB */
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++) {
        unsigned name, how;
        uint64_t from, bytes;
        if (sscanf(*line, "file 0 %u %*u %u %" SCNu64 " %" SCNu64, &name, &how, &from, &bytes) == 4)
            g_string_append_printf(told, "%u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "; ", how, from >> 10, how == 13 ? bytes : bytes >> 10);
    }
    if (!strstr(told->str, "; ")) {
        puts("skipped: the build lies on no disk");
        return;
    }
    ck_assert_str_eq(told->str, "0 1024 2048; 0 4096 4096; 1 0 1024; 0 3072 1024; 2 2048 4096; 0 0 2048; 1 4096 2048; 13 0 5; ");
}
END_TEST

static void work_on_streams(void)
{
    static const char function;
    void *one, *two, *event, *later, *module, *driven;
    float ms;
    register_kernel(NULL, &function, NULL, "_Z3addPf", -1, NULL, NULL, NULL, NULL, NULL);
    NEED(make_stream(&one, 1) == 0 && make_stream(&two, 1) == 0 && make_event(&event) == 0 && make_event(&later) == 0);
    NEED(launch(&function, (Dim){4, 2, 1}, (Dim){128, 1, 1}, NULL, 64, one) == 0 && record(event, one) == 0 && wait_event(two, event, 0) == 0);
    static const uint64_t nothing[8];
    NEED(load_module(&module, nothing) == 0 && get_function(&driven, module, "triton_\"poi\"") == 0);
    NEED(launch_driver(driven, 1, 1, 1, 32, 1, 1, 0, two, NULL, NULL) == 0);
    NEED(record(later, two) == 0 && elapsed(&ms, event, later) == 0 && ms == 1 && elapsed(&ms, later, event) == 0 && ms > 0 && ms < 1);
    NEED(synchronize() == 0 && end_stream(one) == 0 && end_stream(two) == 0 && end_event(event) == 0 && end_event(later) == 0);
}

START_TEST(work_is_written_in_order)
{
    g_autofree char *text = pretended(SMALL, work_on_streams, NULL);
    ck_assert_str_eq(strstr(text, "name 1"), "name 1 \"add(float*)\"\n"
                                             "kernel 0 1 1 4 2 1 128 1 1 64\n"
                                             "record 0 1 1\n"
                                             "wait 0 2 1\n"
                                             "name 2 \"triton_\\\"poi\\\"\"\n"
                                             "kernel 0 2 2 1 1 1 32 1 1 0\n"
                                             "record 0 2 2\n"
                                             "sync 4 0 0 0\n"
                                             "end\n");
}
END_TEST

static void work_in_a_graph(void)
{
    static const char function;
    void *origin, *side, *third, *fork_event, *join_event, *graph, *instance;
    int capturing;
    register_kernel(NULL, &function, NULL, "k", -1, NULL, NULL, NULL, NULL, NULL);
    NEED(make_stream(&origin, 1) == 0 && make_stream(&side, 1) == 0 && make_stream(&third, 1) == 0 && make_event(&fork_event) == 0 &&
         make_event(&join_event) == 0);
    NEED(begin_capture(NULL, 0) != 0 && end_capture(origin, &graph) != 0 && graph == NULL && begin_capture(origin, 0) == 0 && begin_capture(origin, 0) != 0);
    NEED(is_capturing(origin, &capturing) == 0 && capturing == 1 && is_capturing(side, &capturing) == 0 && capturing == 0);
    NEED(launch(&function, (Dim){1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, origin) == 0 && record(fork_event, origin) == 0 && wait_event(side, fork_event, 0) == 0);
    NEED(is_capturing(side, &capturing) == 0 && capturing == 1);
    NEED(launch(&function, (Dim){2, 1, 1}, (Dim){32, 1, 1}, NULL, 0, side) == 0 && record(join_event, side) == 0 && wait_event(origin, join_event, 0) == 0);
    NEED(end_capture(origin, &graph) == 0 && graph && is_capturing(side, &capturing) == 0 && capturing == 0);
    NEED(instantiate(&instance, graph, 0) == 0 && destroy_graph(graph) == 0);
    push("first");
    NEED(launch_graph(instance, NULL) == 0);
    push("second");
    NEED(launch_graph(instance, third) == 0);
    NEED(launch(&function, (Dim){3, 1, 1}, (Dim){32, 1, 1}, NULL, 0, side) == 0);
    NEED(end_instance(instance) == 0 && end_event(fork_event) == 0 && end_event(join_event) == 0);
    NEED(end_stream(origin) == 0 && end_stream(side) == 0 && end_stream(third) == 0);
}

/* Nobody waits for what is being captured. */
static void wait_in_a_capture(void)
{
    int (*wait_stream)(void *), (*query)(void *);
    void *of[] = {dlsym(RTLD_DEFAULT, "cudaStreamSynchronize"), dlsym(RTLD_DEFAULT, "cudaStreamQuery")}, *stream, *other, *graph;
    NEED(of[0] && of[1]);
    memcpy(&wait_stream, &of[0], sizeof wait_stream);
    memcpy(&query, &of[1], sizeof query);
    NEED(make_stream(&stream, 1) == 0 && make_stream(&other, 1) == 0);
    for (int how = 0; how < 5; how++) {
        bool breaks = how < 3;
        NEED(begin_capture(stream, 0) == 0 && set_device(how == 4) == 0);
        int error = how == 0 ? wait_stream(stream) : how == 1 ? query(stream) : how == 3 ? wait_stream(other) : synchronize();
        NEED(error == (breaks ? 900 : 0) && last_error() == error && set_device(0) == 0);
        NEED(end_capture(stream, &graph) == (breaks ? 901 : 0) && last_error() == (breaks ? 901 : 0) && (graph == NULL) == breaks);
        NEED(breaks || destroy_graph(graph) == 0);
    }
    NEED(wait_stream(stream) == 0 && synchronize() == 0 && end_stream(stream) == 0 && end_stream(other) == 0);
}

/* What no device takes: of threads, of blocks, of shared memory. */
static void launch_too_much(void)
{
    static const char function;
    int (*set_attribute)(const void *, int, int);
    void *found = dlsym(RTLD_DEFAULT, "cudaFuncSetAttribute");
    NEED(found != NULL);
    memcpy(&set_attribute, &found, sizeof set_attribute);
    register_kernel(NULL, &function, NULL, "k", -1, NULL, NULL, NULL, NULL, NULL);
    static const struct {
        Dim grid, block;
        size_t shared;
        int error;
    } of[] = {{{1, 65536, 1}, {32, 1, 1}, 0, 9},
              {{1, 1, 65536}, {32, 1, 1}, 0, 9},
              {{1, 1, 1}, {64, 32, 1}, 0, 9},
              {{1, 1, 1}, {1, 1, 128}, 0, 9},
              {{1, 1, 1}, {0, 1, 1}, 0, 9},
              {{1, 1, 1}, {32, 1, 1}, 101377, 1},
              {{70000, 65535, 65535}, {1024, 1, 1}, 101376, 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(of); i++)
        NEED(launch(&function, of[i].grid, of[i].block, NULL, of[i].shared, NULL) == of[i].error && last_error() == of[i].error);
    NEED(set_attribute(&function, 8, 101376) == 0 && set_attribute(&function, 8, 101377) == 1 && last_error() == 1 && set_attribute(&function, 9, 100) == 0);
}

START_TEST(what_a_device_refuses_is_refused)
{
    g_free(pretended(SMALL, wait_in_a_capture, NULL));
    g_autofree char *text = pretended(SMALL, launch_too_much, NULL);
    ck_assert_uint_eq(count(text, "kernel "), 1);
}
END_TEST

START_TEST(graphs_are_written_at_each_launch)
{
    g_autofree char *text = pretended(SMALL, work_in_a_graph, NULL);
    const char *first = strstr(text, "name 2 \"first\"\n"), *second = strstr(text, "name 3 \"second\"\n");
    ck_assert(first && second && first < second);
    ck_assert_ptr_null(g_strstr_len(text, first - text, "kernel"));
    ck_assert_ptr_nonnull(g_strstr_len(text, first - text, "captured 1\ncaptured 2\n"));
    ck_assert_ptr_nonnull(g_strstr_len(first, second - first,
                                       "graph 0 0 6\nnode 1\nkernel 0 0 1 1 1 1 32 1 1 0\nrecord 0 0 1\nwait 0 2 1\nnode 2\nkernel 0 2 1 2 1 1 32 1 1 0\n"
                                       "record 0 2 2\nwait 0 0 2\n"));
    ck_assert_ptr_nonnull(strstr(second, "graph 0 3 6\nnode 1\nkernel 0 3 1 1 1 1 32 1 1 0\nrecord 0 3 1\nwait 0 2 1\nnode 2\nkernel 0 2 1 2 1 1 32 1 1 0\n"
                                         "record 0 2 2\nwait 0 3 2\nkernel 0 2 1 3 1 1 32 1 1 0\nend\n"));
}
END_TEST

/* A graph launched while another is captured is part of that one; an instance that is updated does what the new graph does. */
static void graphs_of_graphs(void)
{
    static const char function;
    void *stream, *one, *two, *other, *first, *second;
    register_kernel(NULL, &function, NULL, "k", -1, NULL, NULL, NULL, NULL, NULL);
    NEED(make_stream(&stream, 1) == 0 && begin_capture(stream, 0) == 0);
    NEED(launch(&function, (Dim){1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0 && end_capture(stream, &one) == 0 && instantiate(&first, one, 0) == 0);
    NEED(begin_capture(stream, 0) == 0 && launch(&function, (Dim){2, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    NEED(launch_graph(first, stream) == 0 && end_capture(stream, &two) == 0 && instantiate(&second, two, 0) == 0);
    NEED(launch_graph(second, NULL) == 0);
    NEED(begin_capture(stream, 0) == 0 && launch(&function, (Dim){3, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0 && end_capture(stream, &other) == 0);
    int result[6] = {1};
    NEED(update_graph(second, other, result, result) == 0 && result[0] == 0 && destroy_graph(other) == 0);
    NEED(launch_graph(second, NULL) == 0 && launch_graph(first, NULL) == 0);
    NEED(end_instance(first) == 0 && end_instance(second) == 0 && destroy_graph(one) == 0 && destroy_graph(two) == 0 && end_stream(stream) == 0);
}

/* How long sequences are is what lies in the device's arrays when the kernel is launched, by itself or as a node. */
static void attend(void)
{
    static const char function;
    int32_t keys[4] = {100, 7, 0, 0}, starts[5] = {0, 1, 4, 4, 5}, more[4] = {101, 8, 0, 3};
    int64_t long_starts[5] = {0, 1, 4, 4, 5};
    void *stream, *graph, *instance, *at, *begins, *unknown, *wide;
    register_kernel(NULL, &function, NULL, "k", -1, NULL, NULL, NULL, NULL, NULL);
    NEED(allocate(&wide, 512) == 0 && copy((uint8_t *)wide + 8, &long_starts[1], sizeof long_starts - 8, 1) == 0);
    NEED(make_stream(&stream, 1) == 0 && allocate(&at, 512) == 0 && allocate(&begins, 512) == 0 && allocate(&unknown, 512) == 0);
    NEED(copy(at, keys, sizeof keys, 1) == 0 && copy(begins, starts, sizeof starts, 1) == 0);
    tell_lengths(at, 0, begins, 4, 1, NULL, 0);
    NEED(launch(&function, (Dim){1, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    tell_lengths(begins, 1, NULL, 4, 0, NULL, 0);
    NEED(launch(&function, (Dim){2, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    tell_lengths(unknown, 0, begins, 4, 1, NULL, 0);
    NEED(launch(&function, (Dim){3, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    tell_lengths(begins, 1, begins, 4, 1, begins, 0);
    NEED(launch(&function, (Dim){6, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    tell_lengths(begins, 1, wide, 4, 1, NULL, 2);
    NEED(launch(&function, (Dim){7, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    tell_lengths(at, 0, begins, 4, 1, NULL, 0);
    NEED(begin_capture(stream, 0) == 0 && launch(&function, (Dim){4, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    tell_lengths(NULL, 0, NULL, 0, 0, NULL, 0);
    NEED(launch(&function, (Dim){5, 1, 1}, (Dim){32, 1, 1}, NULL, 0, stream) == 0);
    NEED(end_capture(stream, &graph) == 0 && instantiate(&instance, graph, 0) == 0 && launch_graph(instance, stream) == 0);
    NEED(copy(at, more, sizeof more, 1) == 0 && launch_graph(instance, stream) == 0);
    NEED(end_instance(instance) == 0 && destroy_graph(graph) == 0 && end_stream(stream) == 0);
}

START_TEST(lengths_are_those_that_lie_there)
{
    g_autofree char *text = pretended(SMALL, attend, NULL);
    /* One query of 100 keys, three of 7: the first of those looks at 5. */
    ck_assert_ptr_nonnull(strstr(text, "lengths 2 4 107 100 118\nkernel 0 1 1 1 1 1 32 1 1 0\n"
                                       "lengths 3 0 5 3 0\nkernel 0 1 1 2 1 1 32 1 1 0\nkernel 0 1 1 3 1 1 32 1 1 0\n"));
    /* As many keys again that were there before: the second sequence's three queries look at 4, 5 and 6. */
    ck_assert_ptr_nonnull(strstr(text, "kernel 0 1 1 3 1 1 32 1 1 0\nlengths 3 5 10 6 19\nkernel 0 1 1 6 1 1 32 1 1 0\n"
                                       "lengths 3 5 5 3 8\nkernel 0 1 1 7 1 1 32 1 1 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "graph 0 1 2\nnode 1\nlengths 2 4 107 100 118\nkernel 0 1 1 4 1 1 32 1 1 0\nnode 2\nkernel 0 1 1 5 1 1 32 1 1 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "graph 0 1 2\nnode 1\nlengths 3 5 112 101 125\nkernel 0 1 1 4 1 1 32 1 1 0\n"));
}
END_TEST

START_TEST(graphs_are_parts_of_others_and_change)
{
    g_autofree char *text = pretended(SMALL, graphs_of_graphs, NULL);
    ck_assert_ptr_nonnull(strstr(text, "captured 1\ncaptured 2\n"
                                       "graph 0 0 2\nnode 2\nkernel 0 0 1 2 1 1 32 1 1 0\nnode 1\nkernel 0 0 1 1 1 1 32 1 1 0\n"
                                       "captured 3\ngraph 0 0 1\nnode 3\nkernel 0 0 1 3 1 1 32 1 1 0\n"
                                       "graph 0 0 1\nnode 1\nkernel 0 0 1 1 1 1 32 1 1 0\nend\n"));
}
END_TEST

static void map_memory(void)
{
    const struct {
        int type, handles, location, id;
    } where = {1, 0, 1, 1};
    void *at, *handles[3];
    size_t room, total;
    NEED(set_device(1) == 0 && reserve(&at, 1024 * MIB, 0, NULL, 0) == 0 && memory_info(&room, &total) == 0 && room == 62 * MIB);
    NEED(create(&handles[0], 20 * MIB, &where, 0) == 0 && create(&handles[1], 42 * MIB, &where, 0) == 0 && create(&handles[2], 2 * MIB, &where, 0) == 2);
    NEED(create(&handles[2], 100, &where, 0) == 1 && memory_info(&room, &total) == 0 && room == 0);
    NEED(map(at, 20 * MIB, 0, handles[0], 0) == 0 && map((char *)at + 20 * MIB, 42 * MIB, 0, handles[1], 0) == 0);
    int given[4] = {1, 2, 3, 4}, seen[4];
    NEED(copy((char *)at + 30 * MIB, given, 16, 1) == 0 && copy(seen, (char *)at + 30 * MIB, 16, 2) == 0 && seen[3] == 4);
    NEED(let_go(handles[0]) == 0 && memory_info(&room, &total) == 0 && room == 0); /* still mapped */
    NEED(unmap(at, 20 * MIB) == 0 && memory_info(&room, &total) == 0 && room == 20 * MIB);
    NEED(unmap((char *)at + 20 * MIB, 42 * MIB) == 0 && memory_info(&room, &total) == 0 && room == 20 * MIB); /* its handle holds it */
    NEED(let_go(handles[1]) == 0 && memory_info(&room, &total) == 0 && room == 62 * MIB && free_addresses(at, 1024 * MIB) == 0);
}

START_TEST(memory_apart_from_addresses_is_counted)
{
    g_autofree char *text = pretended(SMALL, map_memory, NULL);
    ck_assert_uint_eq(count(text, "alloc 1 0 "), 2);
    ck_assert_uint_eq(count(text, "free 1 0 "), 2);
    ck_assert_uint_eq(count(text, "refused 1 0 2097152\n"), 1);
}
END_TEST

static void fork_midway(void)
{
    void *a, *b;
    NEED(allocate(&a, MIB) == 0);
    pid_t child = fork();
    if (child == 0) {
        NEED(allocate(&b, MIB) == 0 && synchronize() == 0);
        exit(0);
    }
    int status;
    NEED(waitpid(child, &status, 0) == child && status == 0 && allocate(&b, 2 * MIB) == 0);
}

START_TEST(a_forked_process_writes_nothing)
{
    g_autofree char *text = pretended(SMALL, fork_midway, NULL);
    ck_assert_uint_eq(count(text, "alloc"), 2);
    ck_assert_uint_eq(count(text, "sync"), 0);
    ck_assert_uint_eq(count(text, "end\n"), 1);
}
END_TEST

static void die_midway(void)
{
    void *a;
    NEED(allocate(&a, MIB) == 0 && allocate(&a, 2 * MIB) == 0);
    g_usleep(150000);
    NEED(synchronize() == 0);
    abort();
}

START_TEST(a_killed_process_leaves_what_it_did)
{
    int status;
    g_autofree char *text = pretended(SMALL, die_midway, &status);
    ck_assert(WIFSIGNALED(status) || WIFEXITED(status)); /* the sanitizer may turn the signal into an exit */
    ck_assert_int_ne(status, 0);
    ck_assert_uint_eq(count(text, "alloc"), 2);
    ck_assert_uint_eq(count(text, "sync"), 1);
    ck_assert_uint_eq(count(text, "end\n"), 0);
}
END_TEST

static const char *marker;

static void write_marker(int number)
{
    (void)number;
    _exit(g_file_set_contents(marker, "", 0, NULL) ? 7 : 99);
}

/* A worker that is to be killed: with a handler for the question to end, or without. */
static pid_t begin_worker(bool awaits)
{
    pid_t worker = fork();
    if (worker != 0)
        return worker;
    signal(SIGRTMAX - 3, awaits ? write_marker : SIG_DFL);
    g_autofree char *ready = g_strdup_printf("%s.%d", marker, (int)getpid());
    NEED(g_file_set_contents(ready, "", 0, NULL));
    for (;;)
        pause();
}

/* How it ended that the library's kill() was asked to kill; @path: its capture, which is there. */
static int end_of_worker(bool awaits, bool captured, const char *pattern)
{
    int (*library_kill)(pid_t, int), status = 0;
    void *found = dlsym(dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), "kill");
    NEED(found != NULL);
    memcpy(&library_kill, &found, sizeof found);
    pid_t worker = begin_worker(awaits);
    g_autofree char *ready = g_strdup_printf("%s.%d", marker, (int)worker), *number = g_strdup_printf("%d", (int)worker);
    g_auto(GStrv) parts = g_strsplit(pattern, "%p", 2);
    g_autofree char *capture = g_strjoinv(number, parts);
    NEED(!captured || g_file_set_contents(capture, "", 0, NULL));
    while (g_access(ready, F_OK) != 0)
        g_usleep(1000);
    NEED(library_kill(worker, SIGKILL) == 0 && waitpid(worker, &status, 0) == worker);
    g_unlink(ready);
    g_unlink(capture);
    return status;
}

static void kill_workers(void)
{
    g_autofree char *folder = g_dir_make_tmp("echelon-kill-XXXXXX", NULL);
    g_autofree char *pattern = g_strdup_printf("%s/c.%%p.pretend", folder), *file = g_strdup_printf("%s/asked", folder);
    marker = file;
    g_setenv("ECHELON_PRETEND_OUT", pattern, TRUE);
    int status = end_of_worker(true, false, pattern); /* no capture of its own: nothing to wait for */
    NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && g_access(marker, F_OK) != 0);
    status = end_of_worker(true, true, pattern);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) == 7 && g_access(marker, F_OK) == 0);
    status = end_of_worker(false, true, pattern); /* the question ends whoever does not await it */
    NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGRTMAX - 3);
    g_unlink(marker);
    NEED(g_rmdir(folder) == 0);
}

START_TEST(who_is_killed_by_the_program_may_write_first)
{
    ck_assert_ptr_null(pretended(SMALL, kill_workers, NULL));
}
END_TEST

typedef struct {
    char bytes[64];
} Handed;

/* Memory of another process: its own, at addresses of ours, on the device where it lies. */
static void hand_memory_over(void)
{
    int (*hand)(Handed *, void *), (*open_handed)(void **, Handed, unsigned), (*close_handed)(void *);
    void *symbols[] = {dlsym(RTLD_DEFAULT, "cudaIpcGetMemHandle"), dlsym(RTLD_DEFAULT, "cuIpcOpenMemHandle_v2"), dlsym(RTLD_DEFAULT, "cudaIpcCloseMemHandle")};
    NEED(symbols[0] && symbols[1] && symbols[2]);
    memcpy(&hand, &symbols[0], sizeof hand);
    memcpy(&open_handed, &symbols[1], sizeof open_handed);
    memcpy(&close_handed, &symbols[2], sizeof close_handed);
    Handed handed, *shared = mmap(NULL, sizeof handed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *a, *theirs;
    size_t before, after, total;
    NEED(shared != MAP_FAILED && hand(&handed, &handed) == 1 && last_error() == 1); /* the host's */
    pid_t other = fork();
    if (other == 0) {
        NEED(set_device(1) == 0 && allocate(&a, 3 * MIB) == 0 && hand(shared, (char *)a + 100) == 0);
        _exit(0);
    }
    int status;
    NEED(waitpid(other, &status, 0) == other && status == 0);
    NEED(allocate(&a, MIB) == 0 && hand(&handed, a) == 0 && open_handed(&theirs, handed, 0) == 1); /* one's own */
    NEED(memory_info(&before, &total) == 0 && open_handed(&theirs, *shared, 0) == 0 && theirs != a && memory_info(&after, &total) == 0 && after == before);
    struct {
        int type, device;
        void *on_device, *on_host;
    } attributes;
    NEED(pointer_attributes(&attributes, (char *)theirs + 3 * MIB - 1) == 0 && attributes.type == 2 && attributes.device == 1);
    int answer = 5;
    NEED(copy(&answer, theirs, sizeof answer, 2) == 0 && answer == 0);
    NEED(close_handed(theirs) == 0);
    /* An event of another process is over; one's own is not opened. */
    int (*hand_event)(Handed *, void *), (*open_event)(void **, Handed);
    void *of_events[] = {dlsym(RTLD_DEFAULT, "cudaIpcGetEventHandle"), dlsym(RTLD_DEFAULT, "cudaIpcOpenEventHandle")}, *event, *theirs_event, *stream;
    NEED(of_events[0] && of_events[1]);
    memcpy(&hand_event, &of_events[0], sizeof hand_event);
    memcpy(&open_event, &of_events[1], sizeof open_event);
    other = fork();
    if (other == 0) {
        NEED(make_event(&event) == 0 && record(event, NULL) == 0 && hand_event(shared, event) == 0);
        _exit(0);
    }
    NEED(waitpid(other, &status, 0) == other && status == 0 && make_event(&event) == 0 && make_stream(&stream, 1) == 0);
    NEED(hand_event(&handed, event) == 0 && open_event(&theirs_event, handed) == 1 && last_error() == 1);
    NEED(open_event(&theirs_event, *shared) == 0 && wait_event(stream, theirs_event, 0) == 0 && end_event(theirs_event) == 0);
    NEED(end_event(event) == 0 && end_stream(stream) == 0);
}

START_TEST(memory_of_other_processes_takes_none)
{
    g_autofree char *text = pretended("id=small;bytes=67108864;context=4194304;devices=2;major=9;minor=0", hand_memory_over, NULL);
    ck_assert_uint_eq(count(text, "alloc"), 1);
}
END_TEST

static void *launch_many(void *data)
{
    void *stream, *memory;
    NEED(make_stream(&stream, 0) == 0);
    for (int i = 0; i < 1000; i++) {
        NEED(launch(data, (Dim){1, 1, 1}, (Dim){1, 1, 1}, NULL, 0, stream) == 0);
        NEED(i % 10 || (allocate(&memory, 4096) == 0 && release(memory) == 0));
    }
    NEED(end_stream(stream) == 0);
    return NULL;
}

/* What NVML is asked by its names. */
static void *named(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    NEED(found != NULL);
    return found;
}

typedef struct {
    unsigned process;
    uint64_t used;
    unsigned gpu_instance, compute_instance;
} Process;

static int ready[2], asked[2]; /* pipes */

/* Where another has 4 MiB of the device and 2 of context: what is left is what both leave. */
static void ask_for_the_rest(void)
{
    size_t room, total;
    void *a, *b;
    char c;
    NEED(allocate(&a, 8 * MIB) == 0 && write(ready[1], "r", 1) == 1 && read(asked[0], &c, 1) == 1);
    bool apart = g_getenv("ECHELON_PRETEND_RANK") != NULL; /* on a host of its own */
    NEED(memory_info(&room, &total) == 0 && room == (apart ? 54 : 48) * MIB);
    NEED(allocate(&b, room + 1) == 2 && last_error() == 2 && allocate(&b, room) == 0 && memory_info(&room, &total) == 0 && room == 0);
    NEED(write(ready[1], "r", 1) == 1 && release(b) == 0);
}

/* Two processes with memory of the same device and one without, as NVML has them. */
static void ask_nvml(void)
{
    int (*handle)(unsigned, void **), (*by_uuid)(const char *, void **), (*memory)(void *, uint64_t *), (*processes)(void *, unsigned *, Process *),
        (*old_processes)(void *, unsigned *, void *), (*number)(void *, unsigned *), (*text)(void *, char *, unsigned), (*driver)(char *, unsigned),
        (*clock)(void *, int, unsigned *), (*affinity)(void *, unsigned, unsigned long *), (*link)(void *, unsigned, int, unsigned *);
    const struct {
        void *at;
        const char *name;
    } names[] = {{&handle, "nvmlDeviceGetHandleByIndex_v2"},
                 {&by_uuid, "nvmlDeviceGetHandleByUUID"},
                 {&memory, "nvmlDeviceGetMemoryInfo_v2"},
                 {&processes, "nvmlDeviceGetComputeRunningProcesses_v3"},
                 {&old_processes, "nvmlDeviceGetComputeRunningProcesses"},
                 {&number, "nvmlDeviceGetPowerUsage"},
                 {&text, "nvmlDeviceGetUUID"},
                 {&driver, "nvmlSystemGetNVMLVersion"},
                 {&clock, "nvmlDeviceGetClockInfo"},
                 {&affinity, "nvmlDeviceGetCpuAffinity"},
                 {&link, "nvmlDeviceGetNvLinkCapability"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = named(names[i].name);
        memcpy(names[i].at, &found, sizeof found);
    }
    void *device, *other, *same;
    char uuid[96], version[80];
    NEED(handle(0, &device) == 0 && handle(1, &other) == 0 && handle(2, &same) == 2);
    NEED(text(other, uuid, sizeof uuid) == 0 && by_uuid(uuid, &same) == 0 && same == other && by_uuid("GPU-none", &same) == 6);
    uint64_t info[5];
    NEED(memory(device, info) == 0 && info[1] == 64 * MIB && info[3] == 64 * MIB && info[4] == 0); /* nobody has a context */
    void *a;
    NEED(allocate(&a, 8 * MIB) == 0 && write(ready[1], "r", 1) == 1);
    char c;
    NEED(read(asked[0], &c, 1) == 1); /* the other has its memory */
    Process all[4];
    unsigned n = 4;
    NEED(processes(device, &n, all) == 0 && n == 2 && all[0].used + all[1].used == 16 * MIB && all[0].process != all[1].process);
    NEED(all[0].process == (unsigned)getpid() ? all[0].used == 10 * MIB : all[1].used == 10 * MIB); /* with 2 MiB of context each */
    n = 1;
    NEED(old_processes(device, &n, all) == 7 && n == 2);
    NEED(memory(device, info) == 0 && info[3] == 48 * MIB && info[4] == 16 * MIB && memory(other, info) == 0 && info[4] == 0);
    size_t room, total;
    NEED(memory_info(&room, &total) == 0 && room == 48 * MIB);
    NEED(number(device, &n) == 0 && n == 0 && clock(device, 2, &n) == 0 && n == 1593 && clock(device, 1, &n) == 0 && n == 1980);
    NEED(driver(version, sizeof version) == 0 && strcmp(version, "12.570.0.0") == 0);
    NEED(link(device, 0, 0, &n) == 3 && n == 0); /* none: not supported */
    unsigned long processors[4] = {0, 0, 0, 0};
    NEED(affinity(device, 4, processors) == 0 && (processors[0] & 1) == 1);
    /* Who ends takes nothing any more. */
    NEED(release(a) == 0);
    n = 4;
    NEED(processes(device, &n, all) == 0 && n == 1 && all[0].process != (unsigned)getpid() && all[0].used == 6 * MIB);
    NEED(write(ready[1], "r", 1) == 1);
    while (n > 0) {
        g_usleep(1000);
        n = 4;
        NEED(processes(device, &n, all) == 0);
    }
}

/* Until it is told to end, with 4 MiB of the first device. */
static void hold_memory(void)
{
    void *a;
    char c;
    NEED(read(ready[0], &c, 1) == 1 && allocate(&a, 4 * MIB) == 0 && write(asked[1], "a", 1) == 1 && read(ready[0], &c, 1) == 1);
}

START_TEST(processes_of_a_capture_know_of_each_other)
{
    static const char device[] = "id=small;bytes=67108864;context=2097152;devices=2;major=8;minor=6;clock_khz=1980000;memory_clock_khz=1593000";
    g_autofree char *path = g_strdup_printf("%s/echelon-taken-%d", g_get_tmp_dir(), getpid());
    ck_assert(g_file_set_contents(path, "", 0, NULL));
    g_setenv("ECHELON_PRETEND_PROCESSES", path, TRUE);
    ck_assert(pipe(ready) == 0 && pipe(asked) == 0);
    pid_t child = fork();
    if (child == 0) {
        g_free(pretended(device, hold_memory, NULL));
        _exit(0);
    }
    g_free(pretended(device, ask_nvml, NULL));
    int status;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    for (int apart = 0; apart < 2; apart++) {
        child = fork();
        if (child == 0) {
            g_free(pretended(device, hold_memory, NULL));
            _exit(0);
        }
        if (apart)
            g_setenv("ECHELON_PRETEND_RANK", "3", TRUE);
        g_free(pretended(device, ask_for_the_rest, NULL));
        g_unsetenv("ECHELON_PRETEND_RANK");
        ck_assert(waitpid(child, &status, 0) == child && status == 0);
    }
    g_unsetenv("ECHELON_PRETEND_PROCESSES");
    g_unlink(path);
}
END_TEST

static void launch_from_threads(void)
{
    static char function;
    pthread_t threads[4];
    register_kernel(NULL, &function, NULL, "k", -1, NULL, NULL, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++)
        NEED(pthread_create(&threads[i], NULL, launch_many, &function) == 0);
    for (int i = 0; i < 4; i++)
        NEED(pthread_join(threads[i], NULL) == 0);
}

START_TEST(threads_write_whole_lines)
{
    g_autofree char *text = pretended(SMALL, launch_from_threads, NULL);
    for (int i = 1; i <= 4; i++) {
        g_autofree char *line = g_strdup_printf("kernel 0 %d 1 1 1 1 1 1 1 0\n", i);
        ck_assert_uint_eq(count(text, line), 1000);
    }
    ck_assert_uint_eq(count(text, "alloc"), 400);
    ck_assert_uint_eq(count(text, "free"), 400);
}
END_TEST

/* As a program's copy of NVTX has them: functions that are called through pointers, which a tool replaces. */
static void *core[16], *core2[20];

static int module_functions(int id, void ****ret_table, unsigned *ret_n)
{
    static void **of_core[16], **of_core2[20];
    for (size_t i = 0; i < 16; i++)
        of_core[i] = &core[i];
    for (size_t i = 0; i < 20; i++)
        of_core2[i] = &core2[i];
    *ret_table = id == 1 ? of_core : of_core2;
    *ret_n = id == 1 ? 16 : 20;
    return id == 1 || id == 5;
}

static const void *export_table(uint32_t id)
{
    static const struct {
        size_t bytes;
        int (*module_functions)(int, void ****, unsigned *);
    } callbacks = {sizeof callbacks, module_functions};
    return id == 1 ? &callbacks : NULL;
}

static void open_ranges(void)
{
    int (*through)(const char *), (*close_range)(void), (*push_ex)(void *, const void *);
    void *a;
    NEED(inject(NULL) == 0 && inject(export_table) == 1);
    memcpy(&through, &core[9], sizeof through);
    memcpy(&close_range, &core[11], sizeof close_range);
    memcpy(&push_ex, &core2[4], sizeof push_ex);
    NEED(close_range() < 0); /* none is open */
    NEED(through("mine") == 0 && through("aten::mm, seq = 5, op_id = 12, sizes = [[2, 3]], input_op_ids = [(1,0)]") == 1);
    NEED(through("aten::relu, op_id = 13, sizes = [[2]], input_op_ids = [(12,0)]") == 2 && close_range() == 2);
    NEED(through("aten::relu, op_id = 14, sizes = [[2]], input_op_ids = [(13,0)]") == 2);
    const struct {
        uint16_t version, bytes;
        uint32_t other[7];
        int32_t text_type;
        const char *text;
    } attributes = {2, 48, {0}, 1, "of a domain"};
    NEED(push_ex(NULL, &attributes) == 3 && allocate(&a, 4096) == 0);
}

START_TEST(ranges_of_nvtx_are_written)
{
    g_autofree char *text = pretended(SMALL, open_ranges, NULL);
    ck_assert_ptr_nonnull(strstr(text, "name 1 \"mine\"\n"));
    ck_assert_ptr_nonnull(strstr(text, "name 2 \"aten::mm, seq = 5, sizes = [[2, 3]]\"\n"));
    ck_assert_ptr_nonnull(strstr(text, "name 3 \"aten::relu, sizes = [[2]]\"\n"));
    ck_assert_ptr_nonnull(strstr(text, "name 4 \"of a domain\"\n")); /* the second relu is the first's */
    ck_assert_uint_eq(count(text, "push "), 5);
    ck_assert_uint_eq(count(text, "pop "), 1);
}
END_TEST

/* As XLA says which instruction of which program it launches for: ranges in a domain of its own. */
static void *tsl;

static void xla_opens(const char *text)
{
    int (*push_ex)(void *, const void *);
    memcpy(&push_ex, &core2[4], sizeof push_ex);
    const struct {
        uint16_t version, bytes;
        uint32_t other[7];
        int32_t text_type;
        const char *text;
    } attributes = {2, 48, {0}, 1, text};
    push_ex(tsl, &attributes);
}

static void run_programs(void)
{
    void *(*make_domain)(const char *);
    int (*leave)(void *);
    void *a;
    NEED(inject(export_table) == 1);
    memcpy(&make_domain, &core2[12], sizeof make_domain);
    memcpy(&leave, &core2[5], sizeof leave);
    NEED(make_domain("NCCL") == NULL && (tsl = make_domain("TSL")) != NULL);
    NEED(allocate(&a, 4096) == 0 && set(a, 0, 4) == 0); /* of no program */
    xla_opens("XlaPass:#name=cse,module=jit_step,program_id=5#");
    leave(tsl);
    for (int i = 0; i < 2; i++) {
        xla_opens("XlaModule:#prefix=a,hlo_module=jit_step,program_id=5#");
        NEED(set(a, 0, 8) == 0);
        xla_opens(i == 0 ? "Thunk:#hlo_op=while.1#" : "Thunk:#hlo_op=while.1,unique_hlo_op_id=7#"); /* so since JAX 0.11 */
        xla_opens(i == 0 ? "Thunk:#name=jit(f)/hlo_op=x/add,hlo_op=loop_add_fusion.2#"
                         : "Thunk:#name=jit(f)/hlo_op=x/add,hlo_op=loop_add_fusion.2,unique_hlo_op_id=8#");
        NEED(set(a, 0, 16) == 0);
        leave(tsl);
        NEED(set(a, 0, 32) == 0);
        leave(tsl);
        leave(tsl);
    }
    for (int i = 0; i < 100; i++) /* more than are kept */
        xla_opens("Thunk:#hlo_op=deep#");
    for (int i = 0; i < 101; i++)
        leave(tsl);
    NEED(set(a, 0, 64) == 0);
}

START_TEST(what_asks_of_a_compiled_program_is_written)
{
    g_autofree char *text = pretended(SMALL, run_programs, NULL);
    ck_assert_uint_eq(count(text, "push "), 0);
    ck_assert_uint_eq(count(text, "set "), 8);
    ck_assert_uint_eq(count(text, "of "), 6);
    ck_assert(strstr(text, "name 1 \"jit_step\"\n") && strstr(text, "name 2 \"\"\n") && strstr(text, "name 3 \"loop_add_fusion.2\"\n") &&
              strstr(text, "name 4 \"while.1\"\n"));
    static const char *const lines[] = {" 8\nof 1 1 5 2\n", " 16\nof 1 1 5 3\n", " 32\nof 1 1 5 4\n",
                                        " 8\nof 2 1 5 2\n", " 16\nof 2 1 5 3\n", " 32\nof 2 1 5 4\n"};
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++)
        ck_assert_msg(strstr(text, lines[i]) != NULL, "no '%s' in %s", lines[i], text);
}
END_TEST

static gpointer set_elsewhere(gpointer at)
{
    NEED(set(at, 0, 64) == 0);
    return NULL;
}

/* Operators of TensorFlow's stand in that domain, too, and what XLA compiled may run within one. */
static void run_operators(void)
{
    void *(*make_domain)(const char *);
    int (*leave)(void *);
    void *a;
    NEED(inject(export_table) == 1);
    memcpy(&make_domain, &core2[12], sizeof make_domain);
    memcpy(&leave, &core2[5], sizeof leave);
    NEED((tsl = make_domain("TSL")) != NULL && allocate(&a, 4096) == 0);
    xla_opens("XlaEmitGpuAsm:#module=main_kernel#");
    leave(tsl);
    xla_opens("StatefulPartitionedCall/StatefulPartitionedCall_1/net/dense/MatMul:MatMul");
    g_thread_join(g_thread_new(NULL, set_elsewhere, a));
    NEED(set(a, 0, 8) == 0);
    leave(tsl);
    xla_opens("_send_x_0:_Send#from=/device:CPU:0,to=,key=x;0:0#");
    xla_opens("XlaModule:#prefix=a,hlo_module=cluster,program_id=5#");
    NEED(set(a, 0, 16) == 0);
    leave(tsl);
    leave(tsl);
    NEED(set(a, 0, 32) == 0);
}

START_TEST(operators_of_tensorflow_are_written)
{
    g_autofree char *text = pretended(SMALL, run_operators, NULL);
    ck_assert_uint_eq(count(text, "push "), 2);
    ck_assert_uint_eq(count(text, "pop "), 2);
    ck_assert_uint_eq(count(text, "of "), 1);
    ck_assert_uint_eq(count(text, "thread "), 2); /* the other, and this one again */
    ck_assert(strstr(text, "\"tf::net/dense/MatMul (MatMul)\"\n") && strstr(text, "\"tf::_send_x_0 (_Send)\"\n"));
}
END_TEST

/* As XLA uses the driver: a context for each device, variables of modules, one pool of each device. */
static void drive(void)
{
    int (*retain)(void **, int), (*use)(void *), (*push_context)(void *), (*pop_context)(void **), (*device)(int *), (*of_stream)(void *, void **),
        (*variable)(void **, size_t *, void *, const char *), (*pool)(void **, int), (*from_pool)(void **, size_t, void *, void *), (*back)(void *, void *),
        (*pool_number)(void *, int, void *), (*set_words)(void *, unsigned, size_t);
    const struct {
        void *at;
        const char *name;
    } names[] = {{&retain, "cuDevicePrimaryCtxRetain"},
                 {&use, "cuCtxSetCurrent"},
                 {&push_context, "cuCtxPushCurrent_v2"},
                 {&pop_context, "cuCtxPopCurrent_v2"},
                 {&device, "cuCtxGetDevice"},
                 {&of_stream, "cuStreamGetCtx"},
                 {&variable, "cuModuleGetGlobal_v2"},
                 {&pool, "cuDeviceGetDefaultMemPool"},
                 {&from_pool, "cuMemAllocFromPoolAsync"},
                 {&back, "cuMemFreeAsync"},
                 {&pool_number, "cuMemPoolGetAttribute"},
                 {&set_words, "cuMemsetD32_v2"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i].name);
        NEED(found != NULL);
        memcpy(names[i].at, &found, sizeof found);
    }
    void *contexts[2], *popped, *stream, *table, *again, *pools[2], *a;
    static void *modules[3]; /* stay, as those of a program do */
    int current;
    NEED(retain(&contexts[0], 0) == 0 && retain(&contexts[1], 1) == 0 && contexts[0] != contexts[1]);
    NEED(use(contexts[1]) == 0 && device(&current) == 0 && current == 1 && make_stream(&stream, 0) == 0);
    NEED(use(NULL) == 0 && device(&current) == 0 && current == 1);
    NEED(push_context(contexts[0]) == 0 && device(&current) == 0 && current == 0);
    NEED(of_stream(stream, &popped) == 0 && popped == contexts[1]);
    NEED(pop_context(&popped) == 0 && popped == contexts[0] && device(&current) == 0 && current == 1);
    static uint8_t elf[4096];
    size_t bytes, room, total;
    make_machine_code(elf, "k");
    NEED(load_module(&modules[0], elf) == 0 && variable(&table, &bytes, modules[0], "table") == 0 && bytes == 3 * MIB);
    NEED(variable(&again, &bytes, modules[0], "table") == 0 && again == table && memory_info(&room, &total) == 0 && room == 58 * MIB);
    NEED(variable(&again, &bytes, modules[0], "k") == 500 && variable(NULL, NULL, modules[0], "table") == 0);
    NEED(use(contexts[0]) == 0 && variable(&again, NULL, modules[0], "table") == 0 && again != table);
    int words[4];
    NEED(set_words(again, 0x05050505, 4) == 0 && copy(words, again, 16, 2) == 0 && words[3] == 0x05050505);
    uint64_t used;
    NEED(pool(&pools[0], 0) == 0 && pool(&pools[1], 1) == 0 && from_pool(&a, 8 * MIB, pools[0], NULL) == 0);
    NEED(pool_number(pools[0], 7, &used) == 0 && used == 8 * MIB && pool_number(pools[1], 7, &used) == 0 && used == 0);
    /* A pool cuts its own blocks, of whole 512 bytes each, where the driver gives pages of 2 MiB. */
    NEED(from_pool(&again, 3 * MIB + 1, pools[0], NULL) == 0 && pool_number(pools[0], 7, &used) == 0 && used == 11 * MIB + 512);
    NEED(memory_info(&room, &total) == 0 && room == 47 * MIB - 512 && back(again, NULL) == 0 && pool_number(pools[0], 7, &used) == 0 && used == 8 * MIB);
    NEED(from_pool(&again, 60 * MIB, pools[0], NULL) == 2 && last_error() == 2 && back(a, NULL) == 0);
    /* The runtime's pools, too: one of a device's own for all that are made of it. */
    int (*make_pool)(void **, const int *), (*end_pool)(void *), (*from_own)(void **, size_t, void *, void *),
        (*copy_rows)(void *, size_t, const void *, size_t, size_t, size_t, int);
    const struct {
        void *at;
        const char *name;
    } more[] = {{&make_pool, "cudaMemPoolCreate"}, {&end_pool, "cudaMemPoolDestroy"}, {&from_own, "cudaMallocFromPoolAsync"}, {&copy_rows, "cudaMemcpy2D"}};
    for (size_t i = 0; i < G_N_ELEMENTS(more); i++) {
        void *found = dlsym(RTLD_DEFAULT, more[i].name);
        NEED(found != NULL);
        memcpy(more[i].at, &found, sizeof found);
    }
    static const int of_second[22] = {1, 0, 1, 1}; /* pinned, no handles, a device: the second */
    NEED(make_pool(&pools[0], of_second) == 0 && from_own(&a, 8 * MIB, pools[0], NULL) == 0 && pool_number(pools[1], 7, &used) == 0 && used == 8 * MIB);
    /* What it is told to keep it tells again, but not to the driver's callers, who would take all of that at once. */
    int (*set_number)(void *, int, void *), (*number)(void *, int, void *), flag = 0;
    void *of_numbers[] = {dlsym(RTLD_DEFAULT, "cudaMemPoolSetAttribute"), dlsym(RTLD_DEFAULT, "cudaMemPoolGetAttribute")};
    NEED(of_numbers[0] && of_numbers[1]);
    memcpy(&set_number, &of_numbers[0], sizeof set_number);
    memcpy(&number, &of_numbers[1], sizeof number);
    uint64_t keeps = UINT64_MAX - 1;
    g_setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".9", TRUE);
    g_setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false", TRUE);
    NEED(number(pools[1], 4, &used) == 0 && used == 0 && set_number(pools[1], 4, &keeps) == 0 && number(pools[1], 4, &used) == 0 && used == keeps);
    NEED(number(pools[1], 1, &flag) == 0 && flag == 1 && pool_number(pools[1], 4, &used) == 0 && used == 0);
    /* Rows are written over what the host had copied there. */
    int seen[4];
    NEED(copy(a, (const int[]){1, 2, 3, 4}, sizeof seen, 1) == 0 && copy_rows(a, 8, (const int[]){7, 8}, 4, 4, 2, 1) == 0);
    NEED(copy(seen, a, sizeof seen, 2) == 0 && seen[0] == 0 && seen[2] == 0 && back(a, NULL) == 0 && end_pool(pools[0]) == 0);
    elf[2048 + 5 * 64 + 32] = 23; /* less than a symbol; then a table that is not there */
    NEED(load_module(&modules[1], elf) == 0 && variable(&table, &bytes, modules[1], "table") == 500);
    elf[2048 + 5 * 64 + 40] = 9;
    NEED(load_module(&modules[2], elf) == 0 && variable(&table, &bytes, modules[2], "table") == 500 && end_stream(stream) == 0);
}

START_TEST(contexts_variables_and_pools_are_of_a_device)
{
    g_autofree char *text = pretended(SMALL, drive, NULL);
    ck_assert_uint_eq(count(text, "alloc 0 0 "), 3);
    ck_assert_uint_eq(count(text, "alloc 1 0 "), 2);
    ck_assert_uint_eq(count(text, "refused 0 0 62914560\n"), 1);
    ck_assert(strstr(text, "\npool 900000 1\n"));
}
END_TEST

/* As TensorFlow does whose own pool would have 48 MiB of the first device, cut into two. */
static void fill_pool(void)
{
    int (*pool)(void **, int), (*set_number)(void *, int, void *), (*from_pool)(void **, size_t, void *, void *), (*back)(void *, void *);
    void (*tell)(uint64_t, int);
    const struct {
        void *at;
        const char *name;
    } names[] = {{&pool, "cuDeviceGetDefaultMemPool"},
                 {&set_number, "cuMemPoolSetAttribute"},
                 {&from_pool, "cuMemAllocFromPoolAsync"},
                 {&back, "cuMemFreeAsync"},
                 {&tell, "pretend_tell_pool"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i].name);
        NEED(found != NULL);
        memcpy(names[i].at, &found, sizeof found);
    }
    void *of_first, *a, *b;
    uint64_t each = 24 * MIB;
    tell(2 * each, 1);
    NEED(pool(&of_first, 0) == 0 && set_number(of_first, 4, &each) == 0 && set_number(of_first, 4, &each) == 0);
    NEED(from_pool(&a, 40 * MIB, of_first, NULL) == 0 && from_pool(&b, 9 * MIB, of_first, NULL) == 2 && from_pool(&b, 8 * MIB, of_first, NULL) == 0);
    NEED(back(a, NULL) == 0 && from_pool(&a, 33 * MIB, of_first, NULL) == 0);
}

START_TEST(a_pool_in_the_place_of_tensorflows)
{
    g_autofree char *text = pretended(SMALL, fill_pool, NULL);
    ck_assert(strstr(text, "\npool_told 50331648 1\n"));
    ck_assert_uint_eq(count(text, "refused 0 0 9437184\n"), 1);
}
END_TEST

/* As cuda.core and PyCUDA use the driver: contexts of their own, what a stream and a kernel are. */
static void drive_by_hand(void)
{
    int (*make_context)(void **, unsigned, int), (*end_context)(void *), (*device)(int *), (*by_bus)(int *, const char *), (*flags_of)(void *, unsigned *),
        (*id_of)(void *, unsigned long long *), (*device_of)(void *, int *), (*record_with)(void *, void *, unsigned),
        (*copy_any)(void *, const void *, size_t), (*set_halves)(void *, unsigned short, size_t), (*parameter)(void *, size_t, size_t *, size_t *),
        (*parameters)(void *, size_t *), (*entry)(const char *, void **, int, uint64_t, int *);
    const struct {
        void *at;
        const char *name;
    } names[] = {{&make_context, "cuCtxCreate_v2"},  {&end_context, "cuCtxDestroy_v2"},        {&device, "cuCtxGetDevice"},
                 {&by_bus, "cuDeviceGetByPCIBusId"}, {&flags_of, "cuStreamGetFlags"},          {&id_of, "cuStreamGetId"},
                 {&device_of, "cuStreamGetDevice"},  {&record_with, "cuEventRecordWithFlags"}, {&copy_any, "cuMemcpy"},
                 {&set_halves, "cuMemsetD16_v2"},    {&parameter, "cuKernelGetParamInfo"},     {&parameters, "cuKernelGetParamCount"},
                 {&entry, "cuGetProcAddress_v2"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i].name);
        NEED(found != NULL);
        memcpy(names[i].at, &found, sizeof found);
    }
    void *context, *stream, *event, *module, *kernel, *memory, *at;
    int current;
    unsigned flags;
    unsigned long long id;
    NEED(make_context(&context, 0, 2) == 101 && make_context(&context, 0, 1) == 0 && device(&current) == 0 && current == 1);
    NEED(make_stream(&stream, 1) == 0 && flags_of(stream, &flags) == 0 && flags == 1 && id_of(stream, &id) == 0 && id == 1);
    NEED(end_context(context) == 0 && device(&current) == 0 && current == 0 && device_of(stream, &current) == 0 && current == 1);
    NEED(by_bus(&current, "0000:02:00.0") == 0 && current == 1 && by_bus(&current, "01:00.0") == 0 && current == 0 && by_bus(&current, "0000:09:00.0") == 1);
    NEED(make_event(&event) == 0 && record_with(event, stream, 1) == 0 && end_event(event) == 0 && end_stream(stream) == 0 && last_error() == 1);
    int given[4] = {1, 2, 3, 4};
    NEED(allocate(&memory, sizeof given) == 0 && copy_any(memory, given, sizeof given) == 0 && set_halves(memory, 0x0707, 2) == 0);
    NEED(copy_any(given, memory, 4) == 0 && given[0] == 0x07070707);
    size_t offset, size, n;
    NEED(load_module(&module, ".version 8.5\n.entry k(.param .u32 a, .param .u64 b, .param .align 4 .b8 c[12], .param .u64 d){ret;}") == 0);
    NEED(get_function(&kernel, module, "k") == 0 && parameters(kernel, &n) == 0 && n == 4 && parameter(kernel, 4, &offset, &size) == 1);
    static const size_t offsets[] = {0, 8, 16, 32}, sizes[] = {4, 8, 12, 8};
    for (size_t i = 0; i < n; i++)
        NEED(parameter(kernel, i, &offset, &size) == 0 && offset == offsets[i] && size == sizes[i]);
    NEED(entry("cuCtxCreate", &at, 12000, 0, NULL) == 0 && at == dlsym(RTLD_DEFAULT, "cuCtxCreate_v2"));
    NEED(entry("cuCtxCreate", &at, 13000, 0, NULL) == 0 && at == dlsym(RTLD_DEFAULT, "cuCtxCreate_v4"));
}

START_TEST(the_driver_is_used_by_hand)
{
    g_autofree char *text = pretended(SMALL, drive_by_hand, NULL);
    ck_assert_uint_eq(count(text, "record 1 1 1\n"), 1);
}
END_TEST

static void asks_for_entry_points(void)
{
    int (*entry)(const char *, void **, int, uint64_t, int *), (*old_entry)(const char *, void **, int, uint64_t);
    void *found = dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2"), *old_found = dlsym(RTLD_DEFAULT, "cuGetProcAddress"), *at = NULL;
    NEED(found != NULL && old_found != NULL);
    memcpy(&entry, &found, sizeof found);
    memcpy(&old_entry, &old_found, sizeof old_found);
    int result = -1;
    NEED(entry("cuMemAlloc", &at, 12000, 0, &result) == 0 && result == 0 && at == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")); /* the version is the driver's */
    NEED(entry("cuLaunchKernel", &at, 12000, 0, NULL) == 0 && at == dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
    NEED(old_entry("cuInit", &at, 11000, 0) == 0 && at == dlsym(RTLD_DEFAULT, "cuInit"));
    NEED(entry("cuNoSuchName", &at, 12000, 0, &result) == 500 && result == 1 && at == NULL);
    /* Itself, which says more from CUDA 12.0 on. */
    NEED(entry("cuGetProcAddress", &at, 13000, 0, NULL) == 0 && at == found && entry("cuGetProcAddress", &at, 11030, 0, NULL) == 0 && at == old_found);
    /* Each attribute of an address fills what it is asked for, and no more: known, or a stranger's. */
    int (*take)(void **, size_t), (*give_back)(void *), (*attributes)(unsigned, const int *, void **, void *);
    void *const functions[] = {&take, &give_back, &attributes};
    static const char *const names[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuPointerGetAttributes"};
    static const int narrow[] = {2, 8, 9, 10, 13, 15, 16}, wide[] = {7, 11, 12, 17};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *of = dlsym(RTLD_DEFAULT, names[i]);
        NEED(of != NULL);
        memcpy(functions[i], &of, sizeof of);
    }
    void *memory = NULL;
    NEED(take(&memory, 4096) == 0);
    for (unsigned known = 0; known < 2; known++) {
        for (size_t i = 0; i < G_N_ELEMENTS(narrow) + G_N_ELEMENTS(wide); i++) {
            bool is_wide = i >= G_N_ELEMENTS(narrow);
            uint64_t value = UINT64_MAX;
            void *ret = &value;
            NEED(attributes(1, is_wide ? &wide[i - G_N_ELEMENTS(narrow)] : &narrow[i], &ret, known ? memory : (void *)&value) == 0);
            NEED((value >> 32 == UINT32_MAX) == !is_wide);
        }
    }
    NEED(give_back(memory) == 0);
}

START_TEST(entry_points_are_the_librarys_own)
{
    g_autofree char *text = pretended("bytes=1073741824", asks_for_entry_points, NULL);
    ck_assert_uint_eq(count(text, "alloc 0 0 "), 1);
}
END_TEST

static void uses_managed_memory(void)
{
    static const char *const names[] = {"cudaMallocManaged", "cudaMemPrefetchAsync_v2", "cuMemPrefetchAsync",  "cudaMemAdvise_v2", "cuMemAdvise",
                                        "cudaFree",          "cuGetProcAddress_v2",     "cudaMemPrefetchAsync"};
    int (*ask)(void **, size_t, unsigned), (*move)(const void *, size_t, uint64_t, unsigned, void *), (*move_old)(const void *, size_t, int, void *),
        (*advise)(const void *, size_t, int, uint64_t), (*advise_old)(const void *, size_t, int, int), (*give_back)(void *),
        (*entry)(const char *, void **, int, uint64_t, int *), (*move_12)(const void *, size_t, int, void *);
    void *const at[] = {&ask, &move, &move_old, &advise, &advise_old, &give_back, &entry, &move_12};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        NEED(found != NULL);
        memcpy(at[i], &found, sizeof found);
    }
    char *memory = NULL, ordinary[16];
    void *newer = NULL, *older = NULL;
    const uint64_t device = 1, host = 2;
    NEED(ask((void **)&memory, 8 << 20, 1) == 0 && memory != NULL); /* more than the device has */
    memory[5] = 7;
    NEED(advise(memory, 8 << 20, 1, device) == 0 && advise_old(memory, 8 << 20, 3, -1) == 0 && advise(ordinary, 16, 1, device) == 1);
    NEED(move(memory, 4096, device, 0, NULL) == 0 && move(memory + 4096, 4096, host, 0, NULL) == 0 && move_old(memory, 4096, 0, NULL) == 0);
    NEED(move_old(memory, 4096, -1, NULL) == 0 && move_12(memory, 512, 0, NULL) == 0 && move(ordinary, 16, device, 0, NULL) == 1);
    NEED(memory[5] == 7); /* the host's own */
    NEED(entry("cuMemPrefetchAsync", &older, 12000, 0, NULL) == 0 && entry("cuMemPrefetchAsync", &newer, 13000, 0, NULL) == 0);
    NEED(older == dlsym(RTLD_DEFAULT, "cuMemPrefetchAsync") && newer == dlsym(RTLD_DEFAULT, "cuMemPrefetchAsync_v2"));
    NEED(give_back(memory) == 0);
}

START_TEST(managed_memory_is_told_of)
{
    g_autofree char *text = pretended("bytes=4194304", uses_managed_memory, NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(count(text, "alloc 0 0 "), 1);
    ck_assert_uint_eq(count(text, "free 0 0 "), 1);
    ck_assert(strstr(text, " 8388608 5 0\nadvise 0 ") && strstr(text, " 8388608 1 1\nadvise 0 ") && strstr(text, " 8388608 3 0\nprefetch "));
    ck_assert_uint_eq(count(text, "advise 0 "), 2);
    ck_assert_uint_eq(count(text, "prefetch 0 0 4096 1\n"), 2);
    ck_assert_uint_eq(count(text, "prefetch 0 0 4096 0\n"), 2);
    ck_assert_uint_eq(count(text, "prefetch 0 0 512 1\n"), 1);
    ck_assert_uint_eq(count(text, "uses 3 "), 5);
    ck_assert_uint_eq(count(text, "refused"), 0);
}
END_TEST

/* The Python hook where torch is not as it expects: the program goes on, and another sitecustomize runs. */
START_TEST(the_hook_never_breaks_a_program)
{
    g_autofree char *python = g_find_program_in_path("python3");
    if (!python) {
        puts("skipped: no python3");
        return;
    }
    g_autofree char *folder = g_dir_make_tmp("echelon-hook-XXXXXX", NULL);
    g_autofree char *script =
        g_strdup_printf("cd '%s' && mkdir torch && echo 'print(\"chained\")' >sitecustomize.py && export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='%s':. "
                        "ECHELON_PRETEND_OUT='%s'/x.%%p.pretend && python3 -c 'print(\"plain\")' 2>&1 && "
                        "echo 'class version: cuda = None' >torch/__init__.py && echo '__version__ = \"2+cpu\"' >>torch/__init__.py && python3 -c 'import "
                        "importlib.util; importlib.util.find_spec(\"torch\"); import torch; print(torch.version.cuda)' 2>&1 && "
                        "echo 'class version: cuda = \"13\"' >torch/__init__.py && python3 -c 'import torch; print(torch.version.cuda)' 2>&1; rm -r '%s'",
                        folder, HOOK, folder, folder);
    g_autofree char *out = NULL;
    const char *const words[] = {"sh", "-c", script, NULL};
    ck_assert(g_spawn_sync(NULL, (char **)(uintptr_t)words, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, NULL, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(out, "\n", -1);
    ck_assert_uint_eq(g_strv_length(lines), 9);
    ck_assert_str_eq(lines[0], "chained");
    ck_assert_str_eq(lines[1], "plain");
    ck_assert_str_eq(lines[2], "chained");
    ck_assert_str_eq(lines[3], "echelon capture: this PyTorch (2+cpu) is built without CUDA and asks for no GPU; install the one for CUDA");
    ck_assert_str_eq(lines[4], "None");
    ck_assert_str_eq(lines[5], "chained");
    ck_assert(g_str_has_prefix(lines[6], "echelon capture: no ranges and no memory snapshot of this program: AttributeError: "));
    ck_assert_str_eq(lines[7], "13");
}
END_TEST

/* What DeepSpeed's handles are asked for, by a handle that only adds up. */
static const char swapping[] =
    "import ctypes, types, pretend_files\n"
    "class Library:\n"
    "    def pretend_file(self, *a): print('file', *(x.value for x in a))\n"
    "    def pretend_await_files(self, n): print('await', n.value)\n"
    "ctypes.CDLL = lambda name: Library()\n"
    "class aio_handle:\n"
    "    def __init__(self, size): self.n = size\n"
    "    def async_pread(self, buffer, filename, file_offset=0): self.n += 1; return 0\n"
    "    def sync_pwrite(self, buffer, filename, file_offset=0): self.n += 2; return 0\n"
    "    def pread(self, buffer, filename, validate, beside, file_offset=0): return beside\n"
    "    def wait(self): return self.n\n"
    "class AsyncIOBuilder:\n"
    "    def load(self, verbose=True): return module\n"
    "module = types.SimpleNamespace(aio_handle=aio_handle)\n"
    "builder = types.SimpleNamespace(AsyncIOBuilder=AsyncIOBuilder)\n"
    "pretend_files.install(builder)\n"
    "made = [AsyncIOBuilder().load(verbose=False).aio_handle(10 * i) for i in range(2)]\n"
    "buffer = types.SimpleNamespace(numel=lambda: 6, element_size=lambda: 4)\n"
    "made[1].async_pread(buffer, '/n/a', 0), made[0].sync_pwrite(buffer, '/n/b', file_offset=8), made[1].pread(buffer, '/n/c', False, True)\n"
    "print(made[0].wait(), made[1].wait(), type(made[0]).__mro__[1] is aio_handle and type(made[0]) is type(made[1]))\n";

/* What @program, which sees the hook's modules, prints; NULL: there is no Python. Owned by the caller. */
static char *run_python(const char *program)
{
    g_autofree char *python = g_find_program_in_path("python3"), *path = g_strdup("PYTHONPATH=" HOOK);
    char *out = NULL, *environment[] = {path, (char *)(uintptr_t) "PYTHONDONTWRITEBYTECODE=1", NULL};
    const char *const words[] = {python, "-c", program, NULL};
    if (python)
        ck_assert(g_spawn_sync(NULL, (char **)(uintptr_t)words, environment, 0, NULL, NULL, &out, NULL, NULL, NULL));
    else
        puts("skipped: no python3");
    return out;
}

START_TEST(swapped_files_are_told)
{
    g_autofree char *out = run_python(swapping);
    if (out)
        ck_assert_str_eq(out, "file 2 b'/n/a' False True 24\nfile 1 b'/n/b' True False 24\nfile 2 b'/n/c' False True 24\nawait 1\nawait 2\n2 11 True\n");
}
END_TEST

/* Calls of Python for what is saved: every other one is told; a graph that stands for one is left to who takes it in. */
static const char saving[] = "import ctypes, types, pretend_saved\n"
                             "class Library:\n"
                             "    def pretend_asked(self, n): print('asked', n)\n"
                             "ctypes.CDLL = lambda name: Library()\n"
                             "class saved_tensors_hooks:\n"
                             "    def __init__(self, pack_hook, unpack_hook): self.pack, self.unpack = pack_hook, unpack_hook\n"
                             "class inner(saved_tensors_hooks):\n"
                             "    def __init__(self): super().__init__(lambda x: x + 1, self.twice)\n"
                             "    def twice(self, x): return 2 * x\n"
                             "pretend_saved.install(types.SimpleNamespace(saved_tensors_hooks=saved_tensors_hooks))\n"
                             "hooks = inner()\n"
                             "print(hooks.pack(1), hooks.unpack(2), hooks.pack(3))\n"
                             "print(saved_tensors_hooks(Library, print).pack is Library)\n";

START_TEST(saved_arrays_take_the_host)
{
    g_autofree char *out = run_python(saving);
    if (out)
        ck_assert_str_eq(out, "asked 3\n2 4 4\nTrue\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretend");
    TCase *tcase = tcase_create("pretend");
    tcase_add_test(tcase, numbers_are_the_devices_and_who_only_looks_leaves_nothing);
    tcase_add_test(tcase, devices_that_are_hidden_are_the_hosts);
    tcase_add_test(tcase, what_a_device_refuses_is_refused);
    tcase_add_test(tcase, code_is_chosen_as_a_driver_does);
    tcase_add_test(tcase, arguments_are_found_by_what_code_says);
    tcase_add_test(tcase, tensor_maps_and_products);
    tcase_add_test(tcase, moves_stand_for_arguments);
    tcase_add_test(tcase, nothing_is_left_on_the_stack);
    tcase_add_test(tcase, kernels_of_cute_are_written);
    tcase_add_test(tcase, arguments_are_found_by_what_ptx_says);
    tcase_add_test(tcase, what_kernels_move_is_told_by_ptx);
    tcase_add_test(tcase, what_is_compiled_at_run_time_is_told);
    tcase_add_test(tcase, linked_code_is_what_was_added);
    tcase_add_test(tcase, kernels_tell_their_attributes_and_tables_nothing);
    tcase_add_test(tcase, what_kernels_overwrite_does_not_read_back);
    tcase_add_test(tcase, memory_ends_at_the_last_byte);
    tcase_add_test(tcase, what_the_host_copied_reads_back);
    tcase_add_test(tcase, pinned_and_copied_in_batches);
    tcase_add_test(tcase, what_comes_back_to_the_host_takes_no_memory);
    tcase_add_test(tcase, files_are_told);
    tcase_add_test(tcase, work_is_written_in_order);
    tcase_add_test(tcase, graphs_are_written_at_each_launch);
    tcase_add_test(tcase, graphs_are_parts_of_others_and_change);
    tcase_add_test(tcase, lengths_are_those_that_lie_there);
    tcase_add_test(tcase, memory_apart_from_addresses_is_counted);
    tcase_add_test(tcase, a_forked_process_writes_nothing);
    tcase_add_test(tcase, a_killed_process_leaves_what_it_did);
    tcase_add_test(tcase, who_is_killed_by_the_program_may_write_first);
    tcase_add_test(tcase, memory_of_other_processes_takes_none);
    tcase_add_test(tcase, processes_of_a_capture_know_of_each_other);
    tcase_add_test(tcase, threads_write_whole_lines);
    tcase_add_test(tcase, ranges_of_nvtx_are_written);
    tcase_add_test(tcase, what_asks_of_a_compiled_program_is_written);
    tcase_add_test(tcase, operators_of_tensorflow_are_written);
    tcase_add_test(tcase, contexts_variables_and_pools_are_of_a_device);
    tcase_add_test(tcase, a_pool_in_the_place_of_tensorflows);
    tcase_add_test(tcase, the_driver_is_used_by_hand);
    tcase_add_test(tcase, entry_points_are_the_librarys_own);
    tcase_add_test(tcase, managed_memory_is_told_of);
    tcase_add_test(tcase, the_hook_never_breaks_a_program);
    tcase_add_test(tcase, swapped_files_are_told);
    tcase_add_test(tcase, saved_arrays_take_the_host);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
