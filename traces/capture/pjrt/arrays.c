/* Arrays: what they take of the device's memory, and what the host copied into them. */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

/* What the host copies is kept for it to read again: labels, lengths, small constants. Weights are not. */
#define KEPT_EACH ((EchBytes)1 << 20)
#define KEPT_IN_ALL ((EchBytes)1 << 30)
static EchBytes kept;
static uint64_t last_number;

/* PJRT_Buffer_Type by XLA's names. */
static const char *const type_names[] = {NULL,  "pred",  "s8",   "s16", "s32",    "s64",    "u8",        "u16",           "u32",        "u64",        "f16",
                                         "f32", "f64",   "bf16", "c64", "c128",   "f8e5m2", "f8e4m3fn",  "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s4",
                                         "u4",  "token", "s2",   "u2",  "f8e4m3", "f8e3m4", "f8e8m0fnu", "f4e2m1fn",      "s1",         "u1"};

static const char *type_name(int type)
{
    return type > 0 && (size_t)type < G_N_ELEMENTS(type_names) ? type_names[type] : NULL;
}

/* ---- layouts ---- */

/* "{1,0:T(8,128)(2,1)}" as libtpu lays such an array out by itself; "" where it says nothing. */
static char *default_layout(int type, const int64_t *dims, size_t rank)
{
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args found = {
        .struct_size = sizeof found, .topology_description = tpu_client.topology, .type = type, .dims = dims, .num_dims = rank};
    g_autofree char *unknown = tpu_layouts.Topology_GetDefaultLayout ? tpu_failed(tpu_layouts.Topology_GetDefaultLayout, &found) : g_strdup("");
    if (unknown)
        return g_strdup("");
    PJRT_Layouts_MemoryLayout_Serialize_Args text = {.struct_size = sizeof text, .layout = found.layout};
    g_autofree char *untold = tpu_failed(tpu_layouts.MemoryLayout_Serialize, &text);
    char *copy = untold ? g_strdup("") : g_strndup(text.serialized_bytes, text.serialized_bytes_size);
    if (!untold && text.serialized_layout_deleter)
        text.serialized_layout_deleter(text.serialized_layout);
    PJRT_Layouts_MemoryLayout_Destroy_Args gone = {.struct_size = sizeof gone, .layout = found.layout};
    g_autofree char *ignored = tpu_failed(tpu_layouts.MemoryLayout_Destroy, &gone);
    return copy;
}

static void append_list(GString *text, const int64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", numbers[i]);
}

/* The layout that the program asks for, if it says tiles; else libtpu's own, or, where that does not tell it (before PJRT 0.93), row after row in its tiles. */
static bool shape_of(int type, const int64_t *dims, size_t rank, const PJRT_MemoryLayout *layout, bool on_host, EchLayout *ret)
{
    if (!type_name(type) || rank > ECH_LAYOUT_MAX_RANK)
        return false;
    g_autoptr(GString) text = g_string_new(type_name(type));
    g_string_append_c(text, '[');
    append_list(text, dims, rank);
    g_string_append_c(text, ']');
    const PJRT_Tiled *tiled = layout && layout->type == 0 && layout->tiled.num_tiles > 0 && layout->tiled.minor_to_major_size == rank ? &layout->tiled : NULL;
    if (tiled && !on_host) {
        g_string_append_c(text, '{');
        append_list(text, tiled->minor_to_major, rank);
        g_string_append(text, ":T");
        const int64_t *at = tiled->tile_dims;
        for (size_t t = 0; t < tiled->num_tiles; at += tiled->tile_dim_sizes[t++]) {
            g_string_append_c(text, '(');
            for (size_t i = 0; i < tiled->tile_dim_sizes[t]; i++) { /* the least number is '*' */
                g_string_append(text, i > 0 ? "," : "");
                if (at[i] == INT64_MIN)
                    g_string_append_c(text, '*');
                else
                    append_list(text, &at[i], 1);
            }
            g_string_append_c(text, ')');
        }
        g_string_append_c(text, '}');
    } else if (!on_host) {
        g_autofree char *own = default_layout(type, dims, rank);
        g_string_append(text, own);
    }
    bool read = ech_layout_parse(text->str, text->len, ret, NULL, NULL);
    if (read && !tiled && !on_host && !tpu_layouts.Topology_GetDefaultLayout)
        ech_layout_choose_tiles(ret, tpu_client.generation);
    return read;
}

/* ---- room ---- */

static char *short_bytes(EchBytes bytes)
{
    static const char *const units[] = {"B", "K", "M", "G", "T"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < G_N_ELEMENTS(units); unit++)
        value /= 1024;
    return g_strdup_printf("%.2f%s", value, units[unit]);
}

PJRT_Error *tpu_room(PJRT_Device *device, EchBytes bytes, const char *what)
{
    if (tpu_client.capacity == 0 || ech_bytes_add(device->used, bytes) <= tpu_client.capacity)
        return NULL;
    tpu_record("refused", "%zu 0 %" G_GUINT64_FORMAT, tpu_own_index(device), bytes);
    g_autofree char *asked = short_bytes(bytes), *left = short_bytes(tpu_client.capacity - device->used);
    return tpu_error(PJRT_RESOURCE_EXHAUSTED, "Error %s: Attempting to allocate %s. That was not possible. There are %s free.; (0x0x0_HBM0)", what, asked,
                     left);
}

static void take(PJRT_Buffer *array)
{
    PJRT_Device *device = array->memory->device;
    if (array->memory->kind != TPU_HBM)
        return;
    device->used = ech_bytes_add(device->used, array->bytes);
    device->peak = MAX(device->peak, device->used);
    device->largest = MAX(device->largest, array->bytes);
    device->arrays++;
}

static void give_back(PJRT_Buffer *array)
{
    PJRT_Device *device = array->memory->device;
    if (array->memory->kind == TPU_HBM) {
        device->used -= MIN(device->used, array->bytes);
        device->arrays -= MIN(device->arrays, 1);
    }
    if (array->data)
        kept -= array->dense;
    g_clear_pointer(&array->data, g_free);
    array->gone = true;
}

/* Bytes of an element on the host, where those of less than 8 bits have one each. */
static unsigned element_bytes(const EchLayout *shape)
{
    return (shape->bits + 7u) / 8u;
}

static PJRT_Buffer *new_array(int type, const EchLayout *shape, PJRT_Memory *memory)
{
    PJRT_Buffer *array = g_new0(PJRT_Buffer, 1);
    array->number = ++last_number;
    array->type = type;
    array->shape = *shape;
    array->memory = memory;
    for (unsigned i = 0; i < shape->rank; i++) {
        array->dims[i] = (int64_t)shape->dims[i];
        array->order[i] = shape->order[i];
    }
    size_t at = 0;
    for (unsigned t = 0; t < shape->n_tiles; t++) {
        array->tile_ranks[t] = shape->tiles[t].rank;
        for (unsigned i = 0; i < shape->tiles[t].rank; i++)
            array->tiles[at++] = shape->tiles[t].dims[i];
    }
    array->dense = ech_bytes_mul(ech_layout_elements(shape), element_bytes(shape));
    array->bytes = memory->kind == TPU_HBM ? ech_layout_padded_bytes(shape, ECH_LAYOUT_TPU) : array->dense;
    return array;
}

/* A line of the capture; of a result the one of its run follows. */
static void tell(const PJRT_Buffer *array)
{
    g_autofree char *text = ech_layout_print(&array->shape);
    tpu_record("array", "%" G_GUINT64_FORMAT " %zu %u %" G_GUINT64_FORMAT " \"%s\"", array->number, tpu_own_index(array->memory->device), array->memory->kind,
               array->bytes, text);
}

PJRT_Buffer *tpu_array_new(int type, const int64_t *dims, size_t rank, const PJRT_MemoryLayout *layout, PJRT_Memory *memory, PJRT_Error **error)
{
    EchLayout shape;
    if (!shape_of(type, dims, rank, layout, memory->kind != TPU_HBM, &shape)) {
        *error = tpu_error(PJRT_UNIMPLEMENTED, "echelon capture: an array of type %d with %zu dimensions is not pretended", type, rank);
        return NULL;
    }
    PJRT_Buffer *array = new_array(type, &shape, memory);
    *error = memory->kind == TPU_HBM ? tpu_room(memory->device, array->bytes, "allocating device buffer") : NULL;
    if (*error) {
        g_free(array);
        return NULL;
    }
    take(array);
    tell(array);
    return array;
}

PJRT_Buffer *tpu_array_of_program(int type, const EchLayout *shape, PJRT_Memory *memory, PJRT_Buffer *place, PJRT_Error **error)
{
    PJRT_Buffer *array = new_array(type, shape, memory);
    if (place && !place->gone)
        give_back(place);
    else
        *error = memory->kind == TPU_HBM ? tpu_room(memory->device, array->bytes, "allocating result") : NULL;
    if (*error) {
        g_free(array);
        return NULL;
    }
    take(array);
    tell(array);
    return array;
}

void tpu_array_let_go(PJRT_Buffer *array)
{
    if (array->gone)
        return;
    give_back(array);
    tpu_record("free", "%" G_GUINT64_FORMAT, array->number);
}

/* ---- what the host copies ---- */

/* Element by element, where one side is not dense and row-major. */
static void copy_elements(uint8_t *to, const int64_t *to_strides, const uint8_t *from, const int64_t *from_strides, const int64_t *dims, size_t rank,
                          size_t size)
{
    int64_t at[ECH_LAYOUT_MAX_RANK] = {0};
    for (size_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return;
    for (;;) {
        memcpy(to, from, size);
        size_t d = rank;
        while (d > 0 && ++at[d - 1] == dims[d - 1]) {
            d--;
            to -= to_strides[d] * (dims[d] - 1);
            from -= from_strides[d] * (dims[d] - 1);
            at[d] = 0;
        }
        if (d == 0)
            return;
        to += to_strides[d - 1];
        from += from_strides[d - 1];
    }
}

/* Of a dense array whose dimensions lie in @order, minor to major (NULL: row-major). */
static void strides_of(const int64_t *dims, size_t rank, const int64_t *order, size_t size, int64_t *ret)
{
    int64_t stride = (int64_t)size;
    for (size_t i = 0; i < rank; i++) {
        size_t d = order ? (size_t)order[i] : rank - 1 - i;
        ret[d < rank ? d : 0] = stride;
        stride *= dims[d < rank ? d : 0];
    }
}

/* True where there is room for what @array holds, zeros at first. */
static bool keep(PJRT_Buffer *array)
{
    if (!array->data && array->dense > 0 && array->dense <= KEPT_EACH && array->dense <= KEPT_IN_ALL - MIN(kept, KEPT_IN_ALL)) {
        array->data = g_malloc0(array->dense);
        kept += array->dense;
    }
    return array->data != NULL;
}

/* Bytes @offset to @offset + @n of the array, in either direction; what is not kept reads as zeros. */
static void write_raw(PJRT_Buffer *array, const void *from, int64_t offset, int64_t n)
{
    if (n > 0 && offset >= 0 && (uint64_t)offset + (uint64_t)n <= array->dense && keep(array))
        memcpy(array->data + offset, from, (size_t)n);
}

static void read_raw(const PJRT_Buffer *array, void *to, int64_t offset, int64_t n)
{
    if (n <= 0 || offset < 0)
        return;
    memset(to, 0, (size_t)n);
    if (array->data && (uint64_t)offset < array->dense)
        memcpy(to, array->data + offset, (size_t)MIN((uint64_t)n, array->dense - (uint64_t)offset));
}

static void record_copy(const PJRT_Buffer *array, bool to_device, EchBytes bytes)
{
    tpu_record("copy", "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %d", array->number, bytes, to_device ? 1 : 2);
}

PJRT_Error *tpu_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args *args)
{
    tpu_lock();
    PJRT_Error *error = NULL;
    PJRT_Buffer *array = tpu_array_new(args->type, args->dims, args->num_dims, args->device_layout, tpu_memory_of(args->memory, args->device), &error);
    if (array && keep(array)) {
        if (args->num_byte_strides == args->num_dims && args->num_dims > 0) {
            int64_t strides[ECH_LAYOUT_MAX_RANK];
            strides_of(args->dims, args->num_dims, NULL, element_bytes(&array->shape), strides);
            copy_elements(array->data, strides, args->data, args->byte_strides, args->dims, args->num_dims, element_bytes(&array->shape));
        } else {
            memcpy(array->data, args->data, array->dense);
        }
    }
    if (array)
        record_copy(array, true, array->dense);
    tpu_unlock();
    args->buffer = array;
    args->done_with_host_buffer = array ? tpu_over() : NULL;
    return error;
}

PJRT_Error *tpu_Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args *args)
{
    tpu_lock();
    PJRT_Error *error = NULL;
    args->buffer =
        tpu_array_new(args->shape_element_type, args->shape_dims, args->shape_num_dims, args->shape_layout, tpu_memory_of(args->memory, args->device), &error);
    tpu_unlock();
    return error;
}

/* An array that stands for what failed: as good as any here, for whoever looks at it asks its event. */
PJRT_Error *tpu_Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args *args)
{
    tpu_lock();
    PJRT_Error *error = NULL;
    args->buffer =
        tpu_array_new(args->shape_element_type, args->shape_dims, args->shape_num_dims, args->shape_layout, tpu_memory_of(args->memory, NULL), &error);
    tpu_unlock();
    return error;
}

/* An error for an array that was deleted or donated; under the lock. */
static PJRT_Error *is_there(const PJRT_Buffer *array)
{
    return array->gone ? tpu_error(PJRT_INVALID_ARGUMENT, "an array was read after it had been deleted or donated") : NULL;
}

PJRT_Error *tpu_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args *args)
{
    PJRT_Buffer *array = args->src;
    if (!args->dst) {
        args->dst_size = array->dense;
        return NULL;
    }
    tpu_lock();
    PJRT_Error *error = is_there(array);
    if (error) {
        tpu_unlock();
        return error;
    }
    memset(args->dst, 0, args->dst_size);
    if (array->data && args->dst_size >= array->dense) {
        const PJRT_Tiled *wanted = args->host_layout && args->host_layout->type == 0 ? &args->host_layout->tiled : NULL;
        int64_t from[ECH_LAYOUT_MAX_RANK], to[ECH_LAYOUT_MAX_RANK];
        strides_of(array->dims, array->shape.rank, NULL, element_bytes(&array->shape), from);
        strides_of(array->dims, array->shape.rank, wanted && wanted->minor_to_major_size == array->shape.rank ? wanted->minor_to_major : NULL,
                   element_bytes(&array->shape), to);
        copy_elements(args->dst, to, array->data, from, array->dims, array->shape.rank, element_bytes(&array->shape));
    }
    record_copy(array, false, array->dense);
    tpu_unlock();
    args->event = tpu_over();
    return NULL;
}

static PJRT_Event *raw_to_host(const PJRT_Buffer *array, void *to, int64_t offset, int64_t n)
{
    tpu_lock();
    read_raw(array, to, offset, n);
    record_copy(array, false, (EchBytes)MAX(n, 0));
    tpu_unlock();
    return tpu_over();
}

PJRT_Error *tpu_Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args *args)
{
    args->event = raw_to_host(args->buffer, args->dst, args->offset, args->transfer_size);
    return NULL;
}

static PJRT_Error *copy_to(PJRT_Buffer *array, PJRT_Memory *memory, PJRT_Buffer **ret)
{
    tpu_lock();
    PJRT_Error *error = is_there(array);
    *ret = error ? NULL : tpu_array_new(array->type, array->dims, array->shape.rank, NULL, memory, &error);
    if (*ret && array->data && keep(*ret))
        memcpy((*ret)->data, array->data, array->dense);
    if (*ret)
        tpu_record("move", "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, array->number, (*ret)->number, array->dense);
    tpu_unlock();
    return error;
}

PJRT_Error *tpu_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args *args)
{
    return copy_to(args->buffer, args->dst_memory, &args->dst_buffer);
}

PJRT_Error *tpu_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args *args)
{
    return copy_to(args->buffer, &args->dst_device->memories[TPU_HBM], &args->dst_buffer);
}

/* ---- transfers piece by piece ---- */

struct PJRT_Transfer {
    PJRT_Buffer **arrays;
    size_t n;
    PJRT_Device *device;
};

PJRT_Error *tpu_Client_CreateBuffersForAsyncHostToDevice(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args *args)
{
    PJRT_Transfer *transfer = g_new0(PJRT_Transfer, 1);
    PJRT_Memory *memory = tpu_memory_of(args->memory, NULL);
    transfer->device = memory->device;
    transfer->arrays = g_new0(PJRT_Buffer *, args->num_shape_specs + 1);
    PJRT_Error *error = NULL;
    tpu_lock();
    for (; transfer->n < args->num_shape_specs && !error; transfer->n += !error) {
        const PJRT_ShapeSpec *spec = &args->shape_specs[transfer->n];
        transfer->arrays[transfer->n] = tpu_array_new(spec->element_type, spec->dims, spec->num_dims,
                                                      transfer->n < args->num_device_layouts ? args->device_layouts[transfer->n] : NULL, memory, &error);
    }
    for (size_t i = 0; i < transfer->n && error; i++) {
        tpu_array_let_go(transfer->arrays[i]);
        g_free(transfer->arrays[i]);
    }
    tpu_unlock();
    if (error) {
        g_free(transfer->arrays);
        g_free(transfer);
        return error;
    }
    args->transfer_manager = transfer;
    return NULL;
}

/* Arrays that nobody has asked for are the manager's. */
PJRT_Error *tpu_AsyncHostToDeviceTransferManager_Destroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args *args)
{
    PJRT_Transfer *transfer = args->transfer_manager;
    if (!transfer)
        return NULL;
    tpu_lock();
    for (size_t i = 0; i < transfer->n; i++) {
        if (transfer->arrays[i])
            tpu_array_let_go(transfer->arrays[i]);
        g_free(transfer->arrays[i]);
    }
    tpu_unlock();
    g_free(transfer->arrays);
    g_free(transfer);
    return NULL;
}

static PJRT_Error *of_transfer(const PJRT_Transfer *transfer, int index)
{
    bool there = index >= 0 && (size_t)index < transfer->n && transfer->arrays[index];
    return there ? NULL : tpu_error(PJRT_INVALID_ARGUMENT, "a transfer of %zu arrays has none with the number %d", transfer->n, index);
}

PJRT_Error *tpu_AsyncHostToDeviceTransferManager_TransferData(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args *args)
{
    PJRT_Error *error = of_transfer(args->transfer_manager, args->buffer_index);
    if (error)
        return error;
    PJRT_Buffer *array = args->transfer_manager->arrays[args->buffer_index];
    tpu_lock();
    write_raw(array, args->data, args->offset, args->transfer_size);
    record_copy(array, true, (EchBytes)MAX(args->transfer_size, 0));
    tpu_unlock();
    args->done_with_h2d_transfer = tpu_over();
    return NULL;
}

PJRT_Error *tpu_AsyncHostToDeviceTransferManager_RetrieveBuffer(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args *args)
{
    PJRT_Error *error = of_transfer(args->transfer_manager, args->buffer_index);
    if (!error)
        args->buffer_out = g_steal_pointer(&args->transfer_manager->arrays[args->buffer_index]);
    return error;
}

PJRT_Error *tpu_AsyncHostToDeviceTransferManager_Device(PJRT_AsyncHostToDeviceTransferManager_Device_Args *args)
{
    args->device_out = args->transfer_manager->device;
    return NULL;
}

PJRT_Error *tpu_AsyncHostToDeviceTransferManager_BufferCount(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args *args)
{
    args->buffer_count = args->transfer_manager->n;
    return NULL;
}

PJRT_Error *tpu_AsyncHostToDeviceTransferManager_BufferSize(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args *args)
{
    PJRT_Error *error = of_transfer(args->transfer_manager, args->buffer_index);
    if (!error)
        args->buffer_size = args->transfer_manager->arrays[args->buffer_index]->dense;
    return error;
}

/* ---- what an array says of itself ---- */

PJRT_Error *tpu_Buffer_Destroy(PJRT_Buffer_Destroy_Args *args)
{
    if (!args->buffer)
        return NULL;
    tpu_lock();
    tpu_array_let_go(args->buffer);
    tpu_unlock();
    g_free(args->buffer);
    return NULL;
}

PJRT_Error *tpu_Buffer_Delete(PJRT_Buffer_Delete_Args *args)
{
    tpu_lock();
    tpu_array_let_go(args->buffer);
    tpu_unlock();
    return NULL;
}

PJRT_Error *tpu_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args *args)
{
    tpu_lock();
    args->is_deleted = args->buffer->gone;
    tpu_unlock();
    return NULL;
}

PJRT_Error *tpu_Buffer_ElementType(PJRT_Buffer_ElementType_Args *args)
{
    args->type = args->buffer->type;
    return NULL;
}

PJRT_Error *tpu_Buffer_Dimensions(PJRT_Buffer_Dimensions_Args *args)
{
    args->dims = args->buffer->dims;
    args->num_dims = args->buffer->shape.rank;
    return NULL;
}

PJRT_Error *tpu_Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args *args)
{
    args->unpadded_dims = args->buffer->dims;
    args->num_dims = args->buffer->shape.rank;
    return NULL;
}

PJRT_Error *tpu_Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args *args)
{
    args->dynamic_dim_indices = NULL;
    args->num_dynamic_dims = 0;
    return NULL;
}

PJRT_Error *tpu_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args *args)
{
    const PJRT_Buffer *array = args->buffer;
    args->layout = (PJRT_MemoryLayout){.struct_size = sizeof args->layout,
                                       .tiled = {.struct_size = sizeof args->layout.tiled,
                                                 .minor_to_major = array->order,
                                                 .minor_to_major_size = array->shape.rank,
                                                 .tile_dims = array->tiles,
                                                 .tile_dim_sizes = array->tile_ranks,
                                                 .num_tiles = array->shape.n_tiles}};
    return NULL;
}

PJRT_Error *tpu_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args *args)
{
    args->on_device_size_in_bytes = args->buffer->bytes;
    return NULL;
}

PJRT_Error *tpu_Buffer_Device(PJRT_Buffer_Device_Args *args)
{
    args->device = args->buffer->memory->device;
    return NULL;
}

PJRT_Error *tpu_Buffer_Memory(PJRT_Buffer_Memory_Args *args)
{
    args->memory = args->buffer->memory;
    return NULL;
}

PJRT_Error *tpu_Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args *args)
{
    args->is_on_cpu = false;
    return NULL;
}

PJRT_Error *tpu_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args *args)
{
    args->event = tpu_over();
    return NULL;
}

/* Addresses that tell arrays apart; nothing lies there. */
PJRT_Error *tpu_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args *args)
{
    args->buffer_pointer = (uintptr_t)args->buffer;
    return NULL;
}

PJRT_Error *tpu_Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args *args)
{
    args->device_memory_ptr = args->buffer;
    return NULL;
}

PJRT_Error *tpu_Buffer_IncreaseExternalReferenceCount(PJRT_Buffer_IncreaseExternalReferenceCount_Args *args)
{
    (void)args;
    return NULL;
}

PJRT_Error *tpu_Buffer_DecreaseExternalReferenceCount(PJRT_Buffer_DecreaseExternalReferenceCount_Args *args)
{
    (void)args;
    return NULL;
}

/* The same bytes as another shape, in the same place: the first one is gone with it. */
PJRT_Error *tpu_Buffer_Bitcast(PJRT_Buffer_Bitcast_Args *args)
{
    PJRT_Buffer *array = args->buffer;
    EchLayout shape;
    if (!shape_of(args->element_type, args->dims, args->num_dims, args->device_layout, array->memory->kind != TPU_HBM, &shape))
        return tpu_error(PJRT_UNIMPLEMENTED, "echelon capture: an array of type %d with %zu dimensions is not pretended", args->element_type, args->num_dims);
    tpu_lock();
    PJRT_Error *error = is_there(array);
    uint8_t *data = g_steal_pointer(&array->data); /* goes with the place */
    EchBytes dense = array->dense;
    PJRT_Buffer *made = error ? NULL : tpu_array_of_program(args->element_type, &shape, array->memory, array, &error);
    if (made && made->dense == dense)
        made->data = g_steal_pointer(&data);
    kept -= data ? dense : 0;
    g_free(data);
    if (made)
        tpu_record("renamed", "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, array->number, made->number);
    tpu_unlock();
    args->out_buffer = made;
    return error;
}

/* ---- extensions ---- */

static PJRT_Error *client_default_layout(void *data)
{
    PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args *args = data;
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args found = {
        .struct_size = sizeof found, .topology_description = tpu_client.topology, .type = args->type, .dims = args->dims, .num_dims = args->num_dims};
    PJRT_Error *error = tpu_layouts.Topology_GetDefaultLayout(&found);
    args->layout = found.layout;
    return error;
}

static PJRT_Error *array_layout(void *data)
{
    PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args *args = data;
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args found = {.struct_size = sizeof found,
                                                              .topology_description = tpu_client.topology,
                                                              .type = args->buffer->type,
                                                              .dims = args->buffer->dims,
                                                              .num_dims = args->buffer->shape.rank};
    PJRT_Error *error = tpu_layouts.Topology_GetDefaultLayout(&found);
    args->layout = found.layout;
    return error;
}

PJRT_LayoutsExtension tpu_layouts = {.Client_GetDefaultLayout = client_default_layout, .Buffer_MemoryLayout = array_layout};

struct PJRT_RawBuffer {
    PJRT_Buffer *array; /* which outlives it, as PJRT wants it */
};

static PJRT_Error *raw_of(void *data)
{
    PJRT_RawBuffer_CreateRawAliasOfBuffer_Args *args = data;
    args->raw_buffer = g_new0(PJRT_RawBuffer, 1);
    args->raw_buffer->array = args->buffer;
    return NULL;
}

static PJRT_Error *raw_destroy(void *data)
{
    PJRT_RawBuffer_Destroy_Args *args = data;
    g_free(args->buffer);
    return NULL;
}

static PJRT_Error *raw_size(void *data)
{
    PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args *args = data;
    args->on_device_size_in_bytes = args->buffer->array->bytes;
    return NULL;
}

static PJRT_Error *raw_memory(void *data)
{
    PJRT_RawBuffer_GetMemorySpace_Args *args = data;
    args->memory_space = args->buffer->array->memory;
    return NULL;
}

static PJRT_Error *raw_write(void *data)
{
    PJRT_RawBuffer_CopyRawHostToDevice_Args *args = data;
    tpu_lock();
    write_raw(args->buffer->array, args->src, args->offset, args->transfer_size);
    record_copy(args->buffer->array, true, (EchBytes)MAX(args->transfer_size, 0));
    tpu_unlock();
    args->event = tpu_over();
    return NULL;
}

static PJRT_Error *raw_read(void *data)
{
    PJRT_RawBuffer_CopyRawDeviceToHost_Args *args = data;
    args->event = raw_to_host(args->buffer->array, args->dst, args->offset, args->transfer_size);
    return NULL;
}

static PJRT_Error *raw_on_host(void *data)
{
    PJRT_RawBuffer_GetHostPointer_Args *args = data;
    args->host_pointer = NULL;
    return NULL;
}

PJRT_RawBufferExtension tpu_raw_buffers = {.base = {.struct_size = sizeof tpu_raw_buffers, .type = PJRT_EXTENSION_RAW_BUFFER},
                                           .CreateRawAliasOfBuffer = raw_of,
                                           .Destroy = raw_destroy,
                                           .GetOnDeviceSizeInBytes = raw_size,
                                           .GetMemorySpace = raw_memory,
                                           .CopyRawHostToDevice = raw_write,
                                           .CopyRawDeviceToHost = raw_read,
                                           .GetHostPointer = raw_on_host};
