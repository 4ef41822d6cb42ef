/* The TPU that is not there, as a runtime that knows nothing of it uses it: through the table of PJRT's functions, over a libtpu that is made up. */
#include "tests/support/support.h"
#include "traces/capture/pjrt/pjrt_abi.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { F32 = 11, S32 = 4, BF16 = 13, S8 = 2 };

static char *folder;
static const PJRT_Api *api;
static PJRT_Client *client;

/* What a call's error says, or NULL. */
static char *said(PJRT_Error *error)
{
    if (!error)
        return NULL;
    PJRT_Error_Message_Args message = {.struct_size = sizeof message, .error = error};
    api->Error_Message(&message);
    char *text = g_strndup(message.message, message.message_size);
    api->Error_Destroy(&(PJRT_Error_Destroy_Args){.error = error});
    return text;
}

#define FINE(CALL)                                                                                                                                             \
    do {                                                                                                                                                       \
        g_autofree char *why = said(CALL);                                                                                                                     \
        ck_assert_msg(!why, "%s", why);                                                                                                                        \
    } while (false)
#define FAILS(CALL, WORDS)                                                                                                                                     \
    do {                                                                                                                                                       \
        g_autofree char *why = said(CALL);                                                                                                                     \
        ck_assert_msg(why &&strstr(why, WORDS), "%s", why ? why : "no error");                                                                                 \
    } while (false)

static void set(const char *name, const char *value)
{
    g_setenv(name, value, TRUE);
}

static void load(void)
{
    g_autoptr(GError) error = NULL;
    folder = g_dir_make_tmp("plugin-XXXXXX", &error);
    ck_assert_ok(folder, error);
    g_autofree char *out = g_build_filename(folder, "x", NULL);
    set("ECHELON_PRETEND_LIBTPU", ECH_BINARY_DIR "/tests/libfake_libtpu.so");
    set("ECHELON_PRETEND_TPU_OUT", out);
    set("ECHELON_PRETEND_SLICE", "v5e:2x2");
    set("ECHELON_PRETEND_HOST_BOUNDS", "2,2,1");
    set("ECHELON_PRETEND_CHIP", "v5e");
    set("ECHELON_PRETEND_NAME", "tpu-v5e");
    set("ECHELON_PRETEND_HBM", "16777216");
    g_unsetenv("WORLD_SIZE");
    g_unsetenv("RANK");
    g_unsetenv("XLA_FLAGS");
    g_unsetenv("FAKE_LIBTPU_MINOR");
}

static void begin(void)
{
    void *library = dlopen(ECH_BINARY_DIR "/lib/echelon/libechelon_pretend_tpu.so", RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library, "%s", dlerror());
    const PJRT_Api *(*get)(void);
    void *found = dlsym(library, "GetPjrtApi");
    memcpy(&get, &found, sizeof get);
    api = get();
    ck_assert_ptr_nonnull(api);
    PJRT_Client_Create_Args create = {.struct_size = sizeof create};
    FINE(api->Client_Create(&create));
    client = create.client;
}

/* The capture of this process, which has ended in a child: what it wrote, read again. */
static EchImport *captured(pid_t pid)
{
    g_autofree char *name = g_strdup_printf("x.%d.pretend", (int)pid), *path = g_build_filename(folder, name, NULL);
    return ech_test_import(path, NULL);
}

static char *text_of(pid_t pid)
{
    g_autofree char *name = g_strdup_printf("x.%d.pretend", (int)pid), *path = g_build_filename(folder, name, NULL);
    char *text;
    g_autoptr(GError) error = NULL;
    ck_assert_ok(g_file_get_contents(path, &text, NULL, &error), error);
    return text;
}

/* A process of its own, which ends as a program does. */
static pid_t in_a_process(void (*program)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        program();
        exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    return pid;
}

static PJRT_Buffer *from_host(const void *data, int type, const int64_t *dims, size_t rank, const int64_t *strides)
{
    PJRT_Client_BufferFromHostBuffer_Args args = {.struct_size = sizeof args,
                                                  .client = client,
                                                  .data = data,
                                                  .type = type,
                                                  .dims = dims,
                                                  .num_dims = rank,
                                                  .byte_strides = strides,
                                                  .num_byte_strides = strides ? rank : 0};
    FINE(api->Client_BufferFromHostBuffer(&args));
    FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = args.done_with_host_buffer}));
    return args.buffer;
}

static void to_host(PJRT_Buffer *array, void *into, size_t n)
{
    PJRT_Buffer_ToHostBuffer_Args args = {.struct_size = sizeof args, .src = array, .dst = into, .dst_size = n};
    FINE(api->Buffer_ToHostBuffer(&args));
    FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = args.event}));
}

static void destroy(PJRT_Buffer *array)
{
    FINE(api->Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){.buffer = array}));
}

static int64_t in_use(void)
{
    PJRT_Client_AddressableDevices_Args devices = {.struct_size = sizeof devices, .client = client};
    FINE(api->Client_AddressableDevices(&devices));
    PJRT_Device_MemoryStats_Args stats = {.struct_size = sizeof stats, .device = devices.addressable_devices[0]};
    FINE(api->Device_MemoryStats(&stats));
    ck_assert(stats.peak_bytes_in_use >= stats.bytes_in_use && stats.bytes_limit == 16777216);
    return stats.bytes_in_use;
}

static PJRT_Error *compile(const char *code, const char *options, PJRT_LoadedExecutable **ret)
{
    g_autofree char *copy = g_strdup(code);
    const PJRT_Program program = {.struct_size = sizeof program, .code = copy, .code_size = strlen(copy), .format = "mlir", .format_size = 4};
    PJRT_Client_Compile_Args args = {
        .struct_size = sizeof args, .client = client, .program = &program, .compile_options = options, .compile_options_size = strlen(options)};
    PJRT_Error *error = api->Client_Compile(&args);
    *ret = args.executable;
    return error;
}

static PJRT_Error *run(PJRT_LoadedExecutable *program, PJRT_Buffer *const *arguments, size_t n, const int64_t *kept, size_t n_kept, PJRT_Buffer **results)
{
    PJRT_ExecuteOptions options = {.struct_size = sizeof options, .non_donatable_input_indices = kept, .num_non_donatable_input_indices = n_kept};
    PJRT_Event *over = NULL;
    PJRT_LoadedExecutable_Execute_Args args = {.struct_size = sizeof args,
                                               .executable = program,
                                               .options = &options,
                                               .argument_lists = &arguments,
                                               .num_devices = 1,
                                               .num_args = n,
                                               .output_lists = &results,
                                               .device_complete_events = &over};
    PJRT_Error *error = api->LoadedExecutable_Execute(&args);
    if (!error)
        FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = over}));
    return error;
}

/* ---- what it says of itself ---- */

static void look(void)
{
    PJRT_Client_Devices_Args devices = {.struct_size = sizeof devices, .client = client};
    FINE(api->Client_Devices(&devices));
    ck_assert_uint_eq(devices.num_devices, 1); /* of the four of the slice */
    PJRT_Client_PlatformName_Args name = {.struct_size = sizeof name, .client = client};
    FINE(api->Client_PlatformName(&name));
    ck_assert_int_eq(strncmp(name.platform_name, "tpu", name.platform_name_size), 0);
    PJRT_Device_AddressableMemories_Args memories = {.struct_size = sizeof memories, .device = devices.devices[0]};
    FINE(api->Device_AddressableMemories(&memories));
    static const char *const kinds[] = {"device", "pinned_host", "unpinned_host"};
    ck_assert_uint_eq(memories.num_memories, 3);
    for (size_t i = 0; i < 3; i++) {
        PJRT_Memory_Kind_Args kind = {.struct_size = sizeof kind, .memory = memories.memories[i]};
        FINE(api->Memory_Kind(&kind));
        ck_assert_str_eq(kind.kind, kinds[i]);
    }
    PJRT_Client_LookupDevice_Args lookup = {.struct_size = sizeof lookup, .client = client, .id = 0};
    FINE(api->Client_LookupDevice(&lookup));
    lookup.id = 7;
    FAILS(api->Client_LookupDevice(&lookup), "no device 7");
    PJRT_Client_LookupAddressableDevice_Args own = {.struct_size = sizeof own, .client = client, .local_hardware_id = -1};
    FAILS(api->Client_LookupAddressableDevice(&own), "no device -1");
    int ids[4];
    PJRT_Client_DefaultDeviceAssignment_Args assign = {
        .struct_size = sizeof assign, .client = client, .num_replicas = 1, .num_partitions = 4, .default_assignment_size = 4, .default_assignment = ids};
    FAILS(api->Client_DefaultDeviceAssignment(&assign), "a program for 4 devices; there are 1");
    FAILS(api->Client_CreateViewOfDeviceBuffer(NULL), "PJRT_Client_CreateViewOfDeviceBuffer is not pretended");
}

static void note(PJRT_Error *error, void *told)
{
    ck_assert_ptr_null(error);
    *(bool *)told = true;
}

/* What is asked for is over at once, by whatever way one looks. */
static void look_whether_over(void)
{
    static const int64_t dims[1] = {1};
    PJRT_Client_CreateUninitializedBuffer_Args made = {
        .struct_size = sizeof made, .client = client, .shape_dims = dims, .shape_num_dims = 1, .shape_element_type = F32};
    FINE(api->Client_CreateUninitializedBuffer(&made));
    PJRT_Buffer_ReadyEvent_Args ready = {.struct_size = sizeof ready, .buffer = made.buffer};
    FINE(api->Buffer_ReadyEvent(&ready));
    PJRT_Event_IsReady_Args is = {.struct_size = sizeof is, .event = ready.event};
    FINE(api->Event_IsReady(&is));
    ck_assert(is.is_ready);
    FINE(api->Event_Await(&(PJRT_Event_Await_Args){.event = ready.event}));
    FINE(api->Event_Error(&(PJRT_Event_Error_Args){.event = ready.event}));
    bool told = false;
    FINE(api->Event_OnReady(&(PJRT_Event_OnReady_Args){.event = ready.event, .callback = note, .user_arg = &told}));
    ck_assert(told);
    FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = ready.event}));
    destroy(made.buffer);
    made.shape_element_type = 99;
    PJRT_Error *error = api->Client_CreateUninitializedBuffer(&made);
    PJRT_Error_GetCode_Args code = {.struct_size = sizeof code, .error = error};
    FINE(api->Error_GetCode(&code));
    ck_assert_int_eq(code.code, PJRT_UNIMPLEMENTED);
    FINE(api->Error_ForEachPayload(&(PJRT_Error_ForEachPayload_Args){.error = error}));
    FINE(api->Error_Destroy(&(PJRT_Error_Destroy_Args){.error = error}));
}

START_TEST(what_is_asked_for_is_over)
{
    in_a_process(look_whether_over);
}
END_TEST

START_TEST(it_looks_like_one)
{
    pid_t pid = in_a_process(look);
    g_autoptr(EchImport) import = captured(pid);
    ck_assert_uint_eq(ech_trace_n_ops(import->trace), 0);
    ck_assert(ech_test_says(import->diag, "the program ran nothing on a TPU"));
}
END_TEST

/* ---- arrays ---- */

static void copy(void)
{
    const float data[6] = {1, 2, 3, 4, 5, 6};
    float back[6];
    const int64_t dims[2] = {2, 3}, across[2] = {4, 8};
    PJRT_Buffer *array = from_host(data, F32, dims, 2, NULL), *turned = from_host(data, F32, dims, 2, across);
    ck_assert_int_eq(in_use(), 2 * 4096); /* f32[2,3] in tiles of 8 by 128 */
    to_host(array, back, sizeof back);
    ck_assert_mem_eq(back, data, sizeof back);
    to_host(turned, back, sizeof back);
    ck_assert(back[0] == 1 && back[1] == 3 && back[2] == 5 && back[3] == 2 && back[5] == 6);
    static const int64_t order[2] = {0, 1};
    PJRT_MemoryLayout layout = {.struct_size = sizeof layout, .tiled = {.minor_to_major = order, .minor_to_major_size = 2}};
    PJRT_Buffer_ToHostBuffer_Args columns = {.struct_size = sizeof columns, .src = array, .host_layout = &layout, .dst = back, .dst_size = sizeof back};
    FINE(api->Buffer_ToHostBuffer(&columns));
    FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = columns.event}));
    ck_assert(back[0] == 1 && back[1] == 4 && back[2] == 2);
    PJRT_Buffer_ToHostBuffer_Args asked = {.struct_size = sizeof asked, .src = array};
    FINE(api->Buffer_ToHostBuffer(&asked));
    ck_assert_uint_eq(asked.dst_size, sizeof data);
    PJRT_Buffer_GetMemoryLayout_Args told = {.struct_size = sizeof told, .buffer = array};
    FINE(api->Buffer_GetMemoryLayout(&told));
    ck_assert(told.layout.type == 0 && told.layout.tiled.num_tiles == 1 && told.layout.tiled.tile_dims[1] == 128 && told.layout.tiled.minor_to_major[0] == 1);
    destroy(turned);
    ck_assert_int_eq(in_use(), 4096);
    FINE(api->Buffer_Delete(&(struct {
        PJRT_ARGS;
        PJRT_Buffer *buffer;
    }){.buffer = array}));
    ck_assert_int_eq(in_use(), 0);
    FAILS(api->Buffer_ToHostBuffer(&columns), "after it had been deleted or donated");
    PJRT_Client_AddressableDevices_Args devices = {.struct_size = sizeof devices, .client = client};
    FINE(api->Client_AddressableDevices(&devices));
    PJRT_Buffer_CopyToDevice_Args moved = {.struct_size = sizeof moved, .buffer = array, .dst_device = devices.addressable_devices[0]};
    FAILS(api->Buffer_CopyToDevice(&moved), "after it had been deleted or donated");
    destroy(array);

    /* Of 4 bits each: the host has a byte for each. */
    static const int8_t few[6] = {1, -2, 3, -4, 5, -6};
    enum { S4 = 21 };
    int8_t few_back[6] = {0};
    PJRT_Buffer *narrow = from_host(few, S4, dims, 2, NULL);
    PJRT_Buffer_ToHostBuffer_Args narrow_size = {.struct_size = sizeof narrow_size, .src = narrow};
    FINE(api->Buffer_ToHostBuffer(&narrow_size));
    ck_assert_uint_eq(narrow_size.dst_size, sizeof few);
    to_host(narrow, few_back, sizeof few_back);
    ck_assert_mem_eq(few_back, few, sizeof few);
    destroy(narrow);

    /* As another type in its place it is what it was. */
    PJRT_Buffer *bytes = from_host(few, S8, dims, 2, NULL);
    PJRT_Buffer_Bitcast_Args cast = {.struct_size = sizeof cast, .buffer = bytes, .element_type = 6 /* u8 */, .dims = dims, .num_dims = 2};
    FINE(api->Buffer_Bitcast(&cast));
    to_host(cast.out_buffer, few_back, sizeof few_back);
    ck_assert_mem_eq(few_back, few, sizeof few);
    destroy(bytes);
    destroy(cast.out_buffer);
    ck_assert_int_eq(in_use(), 0);

    static int64_t large[2] = {2048, 1024}; /* 8 MiB: not kept, and two of them are all there is */
    g_autofree float *zeros = g_new(float, 2048 * 1024);
    memset(zeros, 0x55, 2048 * 1024 * sizeof *zeros);
    PJRT_Buffer *a = from_host(zeros, F32, large, 2, NULL), *b = from_host(zeros, F32, large, 2, NULL);
    to_host(a, zeros, 2048 * 1024 * sizeof *zeros);
    ck_assert(zeros[0] == 0 && zeros[2048 * 1024 - 1] == 0);
    PJRT_Client_CreateUninitializedBuffer_Args more = {
        .struct_size = sizeof more, .client = client, .shape_dims = dims, .shape_num_dims = 2, .shape_element_type = F32};
    FAILS(api->Client_CreateUninitializedBuffer(&more), "Attempting to allocate 4.00K. That was not possible. There are 0.00B free.");
    more.shape_element_type = 99;
    FAILS(api->Client_CreateUninitializedBuffer(&more), "an array of type 99");
    destroy(a);
    destroy(b);
}

START_TEST(arrays_hold_what_the_host_copied)
{
    pid_t pid = in_a_process(copy);
    g_autofree char *text = text_of(pid);
    ck_assert_ptr_nonnull(strstr(text, " 1 0 0 4096 \"f32[2,3]{1,0:T(8,128)}\""));
    ck_assert_ptr_nonnull(strstr(text, "\nrefused "));
    ck_assert(g_str_has_suffix(text, "\nend\n"));
    g_autoptr(EchImport) import = captured(pid);
    ck_assert(ech_test_says(import->diag, "had no room for 1 of the program's requests"));
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_COPY), 6 + 6);
}
END_TEST

static void transfer(void)
{
    static const int64_t dims[1] = {256};
    PJRT_ShapeSpec specs[2] = {{.dims = dims, .num_dims = 1, .element_type = S32}, {.dims = dims, .num_dims = 1, .element_type = S8}};
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args create = {.struct_size = sizeof create, .client = client, .shape_specs = specs, .num_shape_specs = 2};
    FINE(api->Client_CreateBuffersForAsyncHostToDevice(&create));
    int32_t data[256], back[256];
    for (int i = 0; i < 256; i++)
        data[i] = i;
    for (int half = 0; half < 2; half++) {
        PJRT_AsyncHostToDeviceTransferManager_TransferData_Args send = {.struct_size = sizeof send,
                                                                        .transfer_manager = create.transfer_manager,
                                                                        .data = data + 128 * half,
                                                                        .offset = 512 * half,
                                                                        .transfer_size = 512,
                                                                        .is_last_transfer = half == 1};
        FINE(api->AsyncHostToDeviceTransferManager_TransferData(&send));
        FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = send.done_with_h2d_transfer}));
    }
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args get = {.struct_size = sizeof get, .transfer_manager = create.transfer_manager};
    FINE(api->AsyncHostToDeviceTransferManager_RetrieveBuffer(&get));
    FAILS(api->AsyncHostToDeviceTransferManager_RetrieveBuffer(&get), "none with the number 0");
    to_host(get.buffer_out, back, sizeof back);
    ck_assert_mem_eq(back, data, sizeof back);
    FINE(api->AsyncHostToDeviceTransferManager_Destroy(&(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args){.transfer_manager = create.transfer_manager}));
    ck_assert_int_eq(in_use(), 4096); /* the one that nobody asked for is gone */

    const PJRT_RawBufferExtension *raw = NULL;
    for (const PJRT_Extension *e = api->extension_start; e; e = e->next)
        if (e->type == PJRT_EXTENSION_RAW_BUFFER)
            raw = (const PJRT_RawBufferExtension *)(const void *)e;
    ck_assert_ptr_nonnull(raw);
    PJRT_RawBuffer_CreateRawAliasOfBuffer_Args alias = {.struct_size = sizeof alias, .buffer = get.buffer_out};
    FINE(raw->CreateRawAliasOfBuffer(&alias));
    PJRT_RawBuffer_CopyRawHostToDevice_Args in = {.struct_size = sizeof in, .buffer = alias.raw_buffer, .src = data + 200, .offset = 0, .transfer_size = 16};
    FINE(raw->CopyRawHostToDevice(&in));
    FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = in.event}));
    PJRT_RawBuffer_CopyRawDeviceToHost_Args out = {.struct_size = sizeof out, .buffer = alias.raw_buffer, .dst = back, .offset = 0, .transfer_size = 16};
    FINE(raw->CopyRawDeviceToHost(&out));
    FINE(api->Event_Destroy(&(PJRT_Event_Destroy_Args){.event = out.event}));
    ck_assert_mem_eq(back, data + 200, 16);
    FINE(raw->Destroy(&(PJRT_RawBuffer_Destroy_Args){.buffer = alias.raw_buffer}));

    PJRT_Client_AddressableMemories_Args memories = {.struct_size = sizeof memories, .client = client};
    FINE(api->Client_AddressableMemories(&memories));
    PJRT_Buffer_CopyToMemory_Args away = {.struct_size = sizeof away, .buffer = get.buffer_out, .dst_memory = memories.addressable_memories[1]};
    FINE(api->Buffer_CopyToMemory(&away));
    to_host(away.dst_buffer, back, sizeof back);
    ck_assert(back[0] == 200 && back[5] == 5);
    PJRT_Buffer_Bitcast_Args other = {.struct_size = sizeof other, .buffer = get.buffer_out, .element_type = F32, .dims = dims, .num_dims = 1};
    FINE(api->Buffer_Bitcast(&other));
    ck_assert_int_eq(in_use(), 4096); /* in the same place */
    destroy(get.buffer_out);
    destroy(other.out_buffer);
    destroy(away.dst_buffer);
    ck_assert_int_eq(in_use(), 0);
}

START_TEST(arrays_go_piece_by_piece)
{
    pid_t pid = in_a_process(transfer);
    g_autofree char *text = text_of(pid);
    ck_assert(strstr(text, "\nmove ") && strstr(text, "\nrenamed ") && strstr(text, " 1 1024 \"s32[256]\""));
    g_autoptr(EchImport) import = captured(pid);
    ck_assert_ptr_nonnull(import->trace);
}
END_TEST

/* ---- programs ---- */

static const char step[] = "HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, "
                           "entry_computation_layout={(f32[8,128]{1,0:T(8,128)}, f32[8,128]{1,0:T(8,128)})->(f32[8,128]{1,0:T(8,128)}, f32[]{:T(128)})}\n\n"
                           "FileNames\n1 \"/home/somebody/train.py\"\n2 \"/usr/lib/python3/site-packages/torch/nn.py\"\n\n"
                           "ENTRY %main (a: f32[8,128], b: f32[8,128]) -> (f32[8,128], f32[]) {\n"
                           "  %a = f32[8,128]{1,0:T(8,128)} parameter(0)\n  %b = f32[8,128]{1,0:T(8,128)} parameter(1)\n"
                           "  %c = f32[]{:T(128)} constant(0)\n  %sum = f32[8,128]{1,0:T(8,128)} add(%a, %b), "
                           "metadata={op_type=\"aten__add\" op_name=\"aten__add\" source_file=\"/home/somebody/own/model.py\" source_line=7}\n"
                           "  ROOT %t = (f32[8,128]{1,0:T(8,128)}, f32[]{:T(128)}) tuple(%sum, %c)\n}\n";

static void work(void)
{
    static const int64_t dims[2] = {8, 128};
    static float data[8 * 128];
    PJRT_LoadedExecutable *program = NULL, *none = NULL;
    g_unsetenv("XLA_FLAGS"); /* as Python does, whose environment has what it knew */
    FINE(compile(step, "results=11,11;temp=8192", &program));
    PJRT_Buffer *first = from_host(data, F32, dims, 2, NULL), *second = from_host(data, F32, dims, 2, NULL), *results[2];
    FINE(run(program, (PJRT_Buffer *[]){first, second}, 2, NULL, 0, results));
    ck_assert_int_eq(in_use(), 3 * 4096 - 4096 + 512); /* the first one is given away, for the result */
    PJRT_Buffer_IsDeleted_Args gone = {.struct_size = sizeof gone, .buffer = first};
    FINE(api->Buffer_IsDeleted(&gone));
    ck_assert(gone.is_deleted);
    PJRT_Buffer *more[2];
    FAILS(run(program, (PJRT_Buffer *[]){first, second}, 2, NULL, 0, more), "argument 0 of jit_step was deleted or donated");
    static const int64_t kept[1] = {0};
    FINE(run(program, (PJRT_Buffer *[]){results[0], second}, 2, kept, 1, more)); /* which is not to be given away */
    ck_assert_int_eq(in_use(), 3 * 4096 + 2 * 512);
    for (int i = 0; i < 2; i++) {
        destroy(results[i]);
        destroy(more[i]);
    }
    destroy(first);
    PJRT_LoadedExecutable_GetExecutable_Args get = {.struct_size = sizeof get, .loaded_executable = program};
    FINE(api->LoadedExecutable_GetExecutable(&get));
    PJRT_LoadedExecutable_GetDeviceAssignment_Args assignment = {.struct_size = sizeof assignment, .executable = program};
    FINE(api->LoadedExecutable_GetDeviceAssignment(&assignment));
    static const char one[] = {8, 1, 16, 1, 26, 3, 10, 1, 0};
    ck_assert_uint_eq(assignment.serialized_bytes_size, sizeof one);
    ck_assert_mem_eq(assignment.serialized_bytes, one, sizeof one);
    FINE(api->LoadedExecutable_Destroy(&(PJRT_LoadedExecutable_Destroy_Args){.executable = program}));
    int (*alive)(void);
    void *found = dlsym(dlopen(ECH_BINARY_DIR "/tests/libfake_libtpu.so", RTLD_NOW | RTLD_NOLOAD), "fake_libtpu_alive");
    memcpy(&alive, &found, sizeof alive);
    ck_assert_int_eq(alive(), 1); /* somebody has it still */
    FINE(api->Executable_Destroy(&(PJRT_Executable_Destroy_Args){.executable = get.executable}));
    ck_assert_int_eq(alive(), 0);

    FAILS(compile(step, "refused=Ran out of memory on HBM: 32.00G of 15.75G", &none), "Ran out of memory on HBM");
    FAILS(compile("HloModule other, x=1\n", "results=11", &none), "does not tell its arguments and results");
    FAILS(compile(step, "results=11,11;partitions=4", &none), "more chips than there are");
    FINE(compile(step, "results=11,11;temp=16777216", &none));
    FAILS(run(none, (PJRT_Buffer *[]){second, second}, 2, NULL, 0, more), "Error allocating the program's temporaries");
    FINE(api->LoadedExecutable_Destroy(&(PJRT_LoadedExecutable_Destroy_Args){.executable = none}));
    destroy(second);
}

static char *unpacked(const char *path)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_open(path, &error);
    ck_assert_ok(source, error);
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, &error);
    ck_assert_ok(bytes, error);
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    return g_strndup(data, n);
}

START_TEST(programs_are_kept_and_run)
{
    pid_t pid = in_a_process(work);
    g_autofree char *name = g_strdup_printf("x.%d.programs", (int)pid), *programs = g_build_filename(folder, name, NULL);
    g_autofree char *hlo = g_build_filename(programs, "jit_step", "program.hlo.txt.gz", NULL),
                    *refused = g_build_filename(programs, "jit_step.2", "program.json", NULL);
    g_autofree char *text = unpacked(hlo);
    /* Files by what is theirs: nobody's home is told. */
    ck_assert(strstr(text, "1 \"somebody/train.py\"") && strstr(text, "2 \"site-packages/torch/nn.py\"") && strstr(text, "ENTRY %main"));
    ck_assert(strstr(text, " source_file=\"own/model.py\" source_line=7}") && !strstr(text, "/home"));
    g_autofree char *notes = unpacked(refused);
    ck_assert_ptr_nonnull(strstr(notes, "Ran out of memory on HBM: 32.00G of 15.75G"));
    g_autoptr(EchImport) import = captured(pid);
    ck_assert_uint_eq(ech_diag_count(import->diag, "runs_of_programs"), 2);
    size_t kernels = 0;
    for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++)
        kernels += ech_trace_ops(import->trace)[i].kind == ECH_OP_KERNEL;
    ck_assert_uint_eq(kernels, 2);
    ck_assert_ptr_nonnull(ech_test_op(import->trace, ECH_OP_KERNEL, "jit_step/sum"));
    /* The second array was given to the run that found no room, and is gone with it. */
    g_autofree char *lines = text_of(pid);
    ck_assert(g_regex_match_simple("^free [0-9]+ 2$", lines, G_REGEX_MULTILINE, 0));
}
END_TEST

/* ---- several processes ---- */

static void rank_of_four(void)
{
    PJRT_Client_Devices_Args devices = {.struct_size = sizeof devices, .client = client};
    PJRT_Client_AddressableDevices_Args own = {.struct_size = sizeof own, .client = client};
    FINE(api->Client_Devices(&devices));
    FINE(api->Client_AddressableDevices(&own));
    ck_assert_uint_eq(devices.num_devices, 4);
    ck_assert_uint_eq(own.num_addressable_devices, 1);
    ck_assert_ptr_eq(own.addressable_devices[0], devices.devices[2]);
    static const int64_t dims[2] = {8, 128};
    static float data[8 * 128];
    PJRT_LoadedExecutable *program;
    FINE(compile(step, "results=11,11;partitions=4", &program));
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args ids = {.struct_size = sizeof ids, .executable = program};
    FINE(api->LoadedExecutable_AddressableDeviceLogicalIds(&ids));
    ck_assert(ids.num_addressable_device_logical_ids == 1 && ids.addressable_device_logical_ids[0].partition == 2);
    PJRT_Buffer *array = from_host(data, F32, dims, 2, NULL), *results[2];
    FINE(run(program, (PJRT_Buffer *[]){array, array}, 2, NULL, 0, results));
    destroy(array);
    destroy(results[0]);
    destroy(results[1]);
    FINE(api->LoadedExecutable_Destroy(&(PJRT_LoadedExecutable_Destroy_Args){.executable = program}));
}

START_TEST(a_process_has_its_own_chip)
{
    set("WORLD_SIZE", "4");
    set("RANK", "2");
    pid_t pid = in_a_process(rank_of_four);
    g_autofree char *text = text_of(pid);
    ck_assert_ptr_nonnull(strstr(text, "\nrank 2 4\n"));
    g_autoptr(EchImport) import = captured(pid);
    ck_assert_uint_eq(ech_diag_count(import->diag, "runs_of_programs"), 1);
    ck_assert_uint_gt(ech_test_count(import->trace, ECH_OP_KERNEL), 0);
}
END_TEST

/* As of PJRT 0.75, which torch_xla 2.9 brings: no default layout is told, and functions that come later are not offered. */
static void work_on_an_earlier(void)
{
    ck_assert_int_eq(api->version.minor, 75);
    ck_assert_uint_eq(api->struct_size, offsetof(PJRT_Api, Client_CreateAliasBuffer));
    static const int64_t dims[2] = {300, 200}, row[1] = {300};
    g_autofree float *data = g_new0(float, 300 * 200);
    PJRT_Buffer *array = from_host(data, F32, dims, 2, NULL);
    ck_assert_int_eq(in_use(), 304 * 256 * 4);
    PJRT_Buffer *vector = from_host(data, BF16, row, 1, NULL);
    PJRT_LoadedExecutable *program;
    FAILS(compile(step, "refused=no room", &program), "no room");
    destroy(array);
    destroy(vector);
}

START_TEST(an_earlier_libtpu)
{
    set("FAKE_LIBTPU_MINOR", "75");
    pid_t pid = in_a_process(work_on_an_earlier);
    g_autofree char *text = text_of(pid);
    ck_assert_ptr_nonnull(strstr(text, "\"f32[300,200]{1,0:T(8,128)}\""));
    ck_assert_ptr_nonnull(strstr(text, "\"bf16[300]{0:T(512)(128)(2,1)}\""));
}
END_TEST

/* It says why it cannot be one, and the program's runtime is told that there is none. */
START_TEST(without_a_compiler)
{
    set("ECHELON_PRETEND_LIBTPU", "/nowhere/libtpu.so");
    pid_t pid = fork();
    if (pid == 0) {
        void *library = dlopen(ECH_BINARY_DIR "/lib/echelon/libechelon_pretend_tpu.so", RTLD_NOW | RTLD_LOCAL);
        const PJRT_Api *(*get)(void);
        void *found = library ? dlsym(library, "GetPjrtApi") : NULL;
        memcpy(&get, &found, sizeof get);
        _exit(!found || get() ? 1 : 0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretend_tpu_plugin");
    TCase *tc = tcase_create("pretend_tpu_plugin");
    tcase_add_checked_fixture(tc, load, NULL);
    tcase_add_test(tc, what_is_asked_for_is_over);
    tcase_add_test(tc, it_looks_like_one);
    tcase_add_test(tc, arrays_hold_what_the_host_copied);
    tcase_add_test(tc, arrays_go_piece_by_piece);
    tcase_add_test(tc, programs_are_kept_and_run);
    tcase_add_test(tc, a_process_has_its_own_chip);
    tcase_add_test(tc, an_earlier_libtpu);
    tcase_add_test(tc, without_a_compiler);
    suite_add_tcase(suite, tc);
    return ech_test_main(suite);
}
