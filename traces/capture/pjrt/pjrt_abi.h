/** @file pjrt_abi.h
 * The part of PJRT's binary interface that the pretended TPU uses: the table of functions in its order, the arguments of those that it answers itself, and two
 * extensions. Own declarations, so that nothing of XLA is needed to build; tests/lint/pjrt_abi.sh compares every offset with pjrt_c_api.h where that is at
 * hand. Source: xla/pjrt/c/pjrt_c_api.h, version 0.104 (2026-07); functions are only added at the end of the table, fields at the end of their arguments.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRT_MAJOR = 0, PJRT_MINOR = 104 };

typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_RawBuffer PJRT_RawBuffer;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Transfer PJRT_Transfer; /* PJRT_AsyncHostToDeviceTransferManager */
typedef struct PJRT_Layout PJRT_Layout;     /* PJRT_Layouts_MemoryLayout */

typedef enum { PJRT_INVALID_ARGUMENT = 3, PJRT_NOT_FOUND = 5, PJRT_RESOURCE_EXHAUSTED = 8, PJRT_UNIMPLEMENTED = 12, PJRT_INTERNAL = 13 } PJRT_Code;
typedef enum { PJRT_STRING, PJRT_INT64, PJRT_INT64_LIST, PJRT_FLOAT, PJRT_BOOL } PJRT_ValueType;
enum {
    PJRT_EXTENSION_LAYOUTS = 4,
    PJRT_EXTENSION_MEMORY_DESCRIPTIONS = 6,
    PJRT_EXTENSION_RAW_BUFFER = 8,
    PJRT_EXTENSION_EXECUTABLE_METADATA = 13,
    PJRT_EXTENSION_TPU_TOPOLOGY = 16,
    PJRT_EXTENSION_TPU_EXECUTABLE = 17,
    PJRT_EXTENSION_SHARDINGS = 19,
    PJRT_EXTENSION_ABI_VERSION = 20
};

typedef struct PJRT_Extension {
    size_t struct_size;
    int type;
    struct PJRT_Extension *next;
} PJRT_Extension;

typedef void (*PJRT_Callback)(PJRT_Error *error, void *user_arg); /* takes the error */

/* What every argument struct begins with. */
#define PJRT_ARGS                                                                                                                                              \
    size_t struct_size;                                                                                                                                        \
    PJRT_Extension *extension_start

typedef struct {
    PJRT_ARGS;
    const char *name;
    size_t name_size;
    PJRT_ValueType type;
    union {
        const char *string_value;
        int64_t int64_value;
        const int64_t *int64_array_value;
        float float_value;
        bool bool_value;
    };
    size_t value_size;
} PJRT_NamedValue;

typedef struct {
    PJRT_ARGS;
    const int64_t *minor_to_major;
    size_t minor_to_major_size;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t num_tiles;
} PJRT_Tiled;
typedef struct {
    PJRT_ARGS;
    const int64_t *byte_strides;
    size_t num_byte_strides;
} PJRT_Strides;
typedef struct {
    PJRT_ARGS;
    union {
        PJRT_Tiled tiled;
        PJRT_Strides strides;
    };
    int type; /* 0 tiled, 1 strides */
} PJRT_MemoryLayout;

typedef struct {
    PJRT_ARGS;
    char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} PJRT_Program;

typedef struct {
    PJRT_ARGS;
    const int64_t *dims;
    size_t num_dims;
    int element_type;
} PJRT_ShapeSpec;

typedef struct {
    int replica, partition;
} PJRT_LogicalIds;

typedef struct {
    PJRT_ARGS;
    void *send_callbacks, *recv_callbacks;
    size_t num_send_ops, num_recv_ops;
    int launch_id;
    const int64_t *non_donatable_input_indices;
    size_t num_non_donatable_input_indices;
    void *context;
    const char *call_location;
} PJRT_ExecuteOptions; /* and what later versions have */

/* The arguments of PJRT_NAME. */
#define PJRT_CALL(NAME, ...)                                                                                                                                   \
    typedef struct {                                                                                                                                           \
        PJRT_ARGS;                                                                                                                                             \
        __VA_ARGS__;                                                                                                                                           \
    } PJRT_##NAME##_Args
PJRT_CALL(Error_Message, const PJRT_Error *error; const char *message; size_t message_size);
PJRT_CALL(Error_Destroy, PJRT_Error *error);
PJRT_CALL(Error_GetCode, const PJRT_Error *error; int code);
PJRT_CALL(Error_ForEachPayload, const PJRT_Error *error; void *visitor; void *user_arg);
PJRT_CALL(Event_Destroy, PJRT_Event *event);
PJRT_CALL(Event_IsReady, PJRT_Event *event; bool is_ready);
PJRT_CALL(Event_Error, PJRT_Event *event);
PJRT_CALL(Event_Await, PJRT_Event *event);
PJRT_CALL(Event_OnReady, PJRT_Event *event; PJRT_Callback callback; void *user_arg);
PJRT_CALL(Client_Create, const PJRT_NamedValue *create_options; size_t num_options; void *kv_get_callback; void *kv_get_user_arg; void *kv_put_callback;
          void *kv_put_user_arg; PJRT_Client * client);
PJRT_CALL(Client_Destroy, PJRT_Client *client);
PJRT_CALL(Client_PlatformName, PJRT_Client *client; const char *platform_name; size_t platform_name_size);
PJRT_CALL(Client_ProcessIndex, PJRT_Client *client; int process_index);
PJRT_CALL(Client_PlatformVersion, PJRT_Client *client; const char *platform_version; size_t platform_version_size);
PJRT_CALL(Client_Devices, PJRT_Client *client; PJRT_Device *const *devices; size_t num_devices);
PJRT_CALL(Client_AddressableDevices, PJRT_Client *client; PJRT_Device *const *addressable_devices; size_t num_addressable_devices);
PJRT_CALL(Client_LookupDevice, PJRT_Client *client; int id; PJRT_Device * device);
PJRT_CALL(Client_LookupAddressableDevice, PJRT_Client *client; int local_hardware_id; PJRT_Device * addressable_device);
PJRT_CALL(Client_AddressableMemories, PJRT_Client *client; PJRT_Memory *const *addressable_memories; size_t num_addressable_memories);
PJRT_CALL(Client_TopologyDescription, PJRT_Client *client; PJRT_TopologyDescription * topology);
PJRT_CALL(Client_Compile, PJRT_Client *client; const PJRT_Program *program; const char *compile_options; size_t compile_options_size;
          PJRT_LoadedExecutable * executable);
PJRT_CALL(Client_Load, PJRT_Client *client; PJRT_Executable * executable; const char *compile_options; size_t compile_options_size;
          PJRT_LoadedExecutable * loaded_executable);
PJRT_CALL(Client_DefaultDeviceAssignment, PJRT_Client *client; int num_replicas; int num_partitions; size_t default_assignment_size; int *default_assignment);
PJRT_CALL(Client_BufferFromHostBuffer, PJRT_Client *client; const void *data; int type; const int64_t *dims; size_t num_dims; const int64_t *byte_strides;
          size_t num_byte_strides; int host_buffer_semantics; PJRT_Device * device; PJRT_Memory * memory; PJRT_MemoryLayout * device_layout;
          PJRT_Event * done_with_host_buffer; PJRT_Buffer * buffer);
PJRT_CALL(Client_CreateUninitializedBuffer, PJRT_Client *client; const int64_t *shape_dims; size_t shape_num_dims; int shape_element_type;
          PJRT_MemoryLayout * shape_layout; PJRT_Device * device; PJRT_Memory * memory; PJRT_Buffer * buffer);
PJRT_CALL(Client_CreateErrorBuffer, PJRT_Client *client; int error_code; const char *error_message; size_t error_message_size; const int64_t *shape_dims;
          size_t shape_num_dims; int shape_element_type; PJRT_MemoryLayout * shape_layout; PJRT_Memory * memory; PJRT_Buffer * buffer);
PJRT_CALL(Client_CreateBuffersForAsyncHostToDevice, PJRT_Client *client; PJRT_ShapeSpec * shape_specs; size_t num_shape_specs;
          PJRT_MemoryLayout * *device_layouts; size_t num_device_layouts; PJRT_Memory * memory; PJRT_Transfer * transfer_manager);
PJRT_CALL(Client_DmaMap, PJRT_Client *client; void *data; size_t size);
PJRT_CALL(Client_DmaUnmap, PJRT_Client *client; void *data);
PJRT_CALL(Device_GetDescription, PJRT_Device *device; PJRT_DeviceDescription * device_description);
PJRT_CALL(Device_IsAddressable, PJRT_Device *device; bool is_addressable);
PJRT_CALL(Device_LocalHardwareId, PJRT_Device *device; int local_hardware_id);
PJRT_CALL(Device_AddressableMemories, PJRT_Device *device; PJRT_Memory *const *memories; size_t num_memories);
PJRT_CALL(Device_DefaultMemory, PJRT_Device *device; PJRT_Memory * memory);
PJRT_CALL(Device_GetAttributes, PJRT_Device *device; const PJRT_NamedValue *attributes; size_t num_attributes; void *device_attributes;
          void (*attributes_deleter)(void *));
PJRT_CALL(Device_MemoryStats, PJRT_Device *device; int64_t bytes_in_use; int64_t peak_bytes_in_use; bool peak_bytes_in_use_is_set; int64_t num_allocs;
          bool num_allocs_is_set; int64_t largest_alloc_size; bool largest_alloc_size_is_set; int64_t bytes_limit; bool bytes_limit_is_set;
          int64_t bytes_reserved; bool bytes_reserved_is_set; int64_t peak_bytes_reserved; bool peak_bytes_reserved_is_set; int64_t bytes_reservable_limit;
          bool bytes_reservable_limit_is_set; int64_t largest_free_block_bytes; bool largest_free_block_bytes_is_set; int64_t pool_bytes;
          bool pool_bytes_is_set; int64_t peak_pool_bytes; bool peak_pool_bytes_is_set);
PJRT_CALL(Memory_Id, PJRT_Memory *memory; int id);
PJRT_CALL(Memory_Kind, PJRT_Memory *memory; const char *kind; size_t kind_size);
PJRT_CALL(Memory_Kind_Id, PJRT_Memory *memory; int kind_id);
PJRT_CALL(Memory_DebugString, PJRT_Memory *memory; const char *debug_string; size_t debug_string_size);
PJRT_CALL(Memory_ToString, PJRT_Memory *memory; const char *to_string; size_t to_string_size);
PJRT_CALL(Memory_AddressableByDevices, PJRT_Memory *memory; PJRT_Device *const *devices; size_t num_devices);
PJRT_CALL(Executable_Destroy, PJRT_Executable *executable);
PJRT_CALL(Executable_Name, PJRT_Executable *executable; const char *executable_name; size_t executable_name_size);
PJRT_CALL(Executable_NumReplicas, PJRT_Executable *executable; size_t num_replicas);
PJRT_CALL(Executable_NumPartitions, PJRT_Executable *executable; size_t num_partitions);
PJRT_CALL(Executable_Fingerprint, PJRT_Executable *executable; const char *executable_fingerprint; size_t executable_fingerprint_size);
PJRT_CALL(Executable_OutputElementTypes, PJRT_Executable *executable; int *output_types; size_t num_output_types);
PJRT_CALL(Executable_OutputDimensions, PJRT_Executable *executable; size_t num_outputs; const int64_t *dims; const size_t *dim_sizes);
PJRT_CALL(Executable_OutputMemoryKinds, PJRT_Executable *executable; size_t num_outputs; const char *const *memory_kinds; const size_t *memory_kind_sizes);
PJRT_CALL(Executable_GetCompiledMemoryStats, PJRT_Executable *executable; int64_t generated_code_size_in_bytes; int64_t argument_size_in_bytes;
          int64_t output_size_in_bytes; int64_t alias_size_in_bytes; int64_t temp_size_in_bytes; int64_t host_generated_code_size_in_bytes;
          int64_t host_argument_size_in_bytes; int64_t host_output_size_in_bytes; int64_t host_alias_size_in_bytes; int64_t host_temp_size_in_bytes;
          int64_t peak_memory_in_bytes; int64_t total_size_in_bytes; int64_t total_allocation_bytes; int64_t indefinite_allocations;
          int64_t peak_unpadded_heap_bytes);
PJRT_CALL(LoadedExecutable_Destroy, PJRT_LoadedExecutable *executable);
PJRT_CALL(LoadedExecutable_GetExecutable, PJRT_LoadedExecutable *loaded_executable; PJRT_Executable * executable);
PJRT_CALL(LoadedExecutable_AddressableDevices, PJRT_LoadedExecutable *executable; PJRT_Device *const *addressable_devices; size_t num_addressable_devices);
PJRT_CALL(LoadedExecutable_AddressableDeviceLogicalIds, PJRT_LoadedExecutable *executable; PJRT_LogicalIds * addressable_device_logical_ids;
          size_t num_addressable_device_logical_ids);
PJRT_CALL(LoadedExecutable_GetDeviceAssignment, PJRT_LoadedExecutable *executable; const char *serialized_bytes; size_t serialized_bytes_size;
          void *serialized_device_assignment; void (*serialized_device_assignment_deleter)(void *));
PJRT_CALL(LoadedExecutable_Delete, PJRT_LoadedExecutable *executable);
PJRT_CALL(LoadedExecutable_IsDeleted, PJRT_LoadedExecutable *executable; bool is_deleted);
PJRT_CALL(LoadedExecutable_Fingerprint, PJRT_LoadedExecutable *executable; const char *executable_fingerprint; size_t executable_fingerprint_size);
PJRT_CALL(LoadedExecutable_Execute, PJRT_LoadedExecutable *executable; PJRT_ExecuteOptions * options; PJRT_Buffer *const *const *argument_lists;
          size_t num_devices; size_t num_args; PJRT_Buffer * *const *output_lists; PJRT_Event * *device_complete_events; PJRT_Device * execute_device);
PJRT_CALL(Buffer_Destroy, PJRT_Buffer *buffer);
PJRT_CALL(Buffer_ElementType, PJRT_Buffer *buffer; int type);
PJRT_CALL(Buffer_Dimensions, PJRT_Buffer *buffer; const int64_t *dims; size_t num_dims);
PJRT_CALL(Buffer_UnpaddedDimensions, PJRT_Buffer *buffer; const int64_t *unpadded_dims; size_t num_dims);
PJRT_CALL(Buffer_DynamicDimensionIndices, PJRT_Buffer *buffer; const size_t *dynamic_dim_indices; size_t num_dynamic_dims);
PJRT_CALL(Buffer_GetMemoryLayout, PJRT_Buffer *buffer; PJRT_MemoryLayout layout);
PJRT_CALL(Buffer_OnDeviceSizeInBytes, PJRT_Buffer *buffer; size_t on_device_size_in_bytes);
PJRT_CALL(Buffer_Device, PJRT_Buffer *buffer; PJRT_Device * device);
PJRT_CALL(Buffer_Memory, PJRT_Buffer *buffer; PJRT_Memory * memory);
PJRT_CALL(Buffer_Delete, PJRT_Buffer *buffer);
PJRT_CALL(Buffer_IsDeleted, PJRT_Buffer *buffer; bool is_deleted);
PJRT_CALL(Buffer_CopyToDevice, PJRT_Buffer *buffer; PJRT_Device * dst_device; PJRT_Buffer * dst_buffer);
PJRT_CALL(Buffer_CopyToMemory, PJRT_Buffer *buffer; PJRT_Memory * dst_memory; PJRT_Buffer * dst_buffer);
PJRT_CALL(Buffer_ToHostBuffer, PJRT_Buffer *src; PJRT_MemoryLayout * host_layout; void *dst; size_t dst_size; PJRT_Event * event);
PJRT_CALL(Buffer_CopyRawToHost, PJRT_Buffer *buffer; void *dst; int64_t offset; int64_t transfer_size; PJRT_Event * event);
PJRT_CALL(Buffer_IsOnCpu, PJRT_Buffer *buffer; bool is_on_cpu);
PJRT_CALL(Buffer_ReadyEvent, PJRT_Buffer *buffer; PJRT_Event * event);
PJRT_CALL(Buffer_UnsafePointer, PJRT_Buffer *buffer; uintptr_t buffer_pointer);
PJRT_CALL(Buffer_OpaqueDeviceMemoryDataPointer, PJRT_Buffer *buffer; void *device_memory_ptr);
PJRT_CALL(Buffer_IncreaseExternalReferenceCount, PJRT_Buffer *buffer);
PJRT_CALL(Buffer_DecreaseExternalReferenceCount, PJRT_Buffer *buffer);
PJRT_CALL(Buffer_Bitcast, PJRT_Buffer *buffer; int element_type; const int64_t *dims; size_t num_dims; PJRT_MemoryLayout * device_layout;
          PJRT_Buffer * out_buffer);
PJRT_CALL(AsyncHostToDeviceTransferManager_Destroy, PJRT_Transfer *transfer_manager);
PJRT_CALL(AsyncHostToDeviceTransferManager_TransferData, PJRT_Transfer *transfer_manager; int buffer_index; const void *data; int64_t offset;
          int64_t transfer_size; bool is_last_transfer; PJRT_Event * done_with_h2d_transfer);
PJRT_CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, PJRT_Transfer *transfer_manager; int buffer_index; PJRT_Buffer * buffer_out);
PJRT_CALL(AsyncHostToDeviceTransferManager_Device, PJRT_Transfer *transfer_manager; PJRT_Device * device_out);
PJRT_CALL(AsyncHostToDeviceTransferManager_BufferCount, PJRT_Transfer *transfer_manager; size_t buffer_count);
PJRT_CALL(AsyncHostToDeviceTransferManager_BufferSize, PJRT_Transfer *transfer_manager; int buffer_index; size_t buffer_size);
PJRT_CALL(TopologyDescription_Create, const char *topology_name; size_t topology_name_size; const PJRT_NamedValue *create_options; size_t num_options;
          PJRT_TopologyDescription * topology);
PJRT_CALL(TopologyDescription_PlatformVersion, PJRT_TopologyDescription *topology; const char *platform_version; size_t platform_version_size);
PJRT_CALL(TopologyDescription_GetDeviceDescriptions, const PJRT_TopologyDescription *topology; PJRT_DeviceDescription *const *descriptions;
          size_t num_descriptions);
PJRT_CALL(DeviceDescription_Id, PJRT_DeviceDescription *device_description; int id);
PJRT_CALL(Compile, const PJRT_TopologyDescription *topology; const PJRT_Program *program; const char *compile_options; size_t compile_options_size;
          PJRT_Client * client; PJRT_Executable * executable);

/* Extensions; experimental ones, so a plugin says how long its own are. */
PJRT_CALL(Layouts_MemoryLayout_Destroy, PJRT_Layout *layout);
PJRT_CALL(Layouts_MemoryLayout_Serialize, PJRT_Layout *layout; const char *serialized_bytes; size_t serialized_bytes_size; void *serialized_layout;
          void (*serialized_layout_deleter)(void *));
PJRT_CALL(Layouts_PJRT_Client_GetDefaultLayout, PJRT_Client *client; int type; const int64_t *dims; size_t num_dims; PJRT_Layout * layout);
PJRT_CALL(Layouts_PJRT_Buffer_MemoryLayout, PJRT_Buffer *buffer; PJRT_Layout * layout);
PJRT_CALL(Layouts_PJRT_Topology_GetDefaultLayout, PJRT_TopologyDescription *topology_description; int type; const int64_t *dims; size_t num_dims;
          PJRT_Layout * layout);
PJRT_CALL(RawBuffer_CreateRawAliasOfBuffer, PJRT_Buffer *buffer; PJRT_RawBuffer * raw_buffer);
PJRT_CALL(RawBuffer_Destroy, PJRT_RawBuffer *buffer);
PJRT_CALL(RawBuffer_GetOnDeviceSizeInBytes, PJRT_RawBuffer *buffer; size_t on_device_size_in_bytes);
PJRT_CALL(RawBuffer_GetMemorySpace, PJRT_RawBuffer *buffer; PJRT_Memory * memory_space);
PJRT_CALL(RawBuffer_CopyRawHostToDevice, PJRT_RawBuffer *buffer; const void *src; int64_t offset; int64_t transfer_size; PJRT_Event * event);
PJRT_CALL(RawBuffer_CopyRawDeviceToHost, PJRT_RawBuffer *buffer; void *dst; int64_t offset; int64_t transfer_size; PJRT_Event * event);
PJRT_CALL(RawBuffer_GetHostPointer, PJRT_RawBuffer *buffer; void *host_pointer);
#undef PJRT_CALL

typedef PJRT_Error *(*PJRT_Function)(void *args);
typedef struct {
    PJRT_Extension base;
    PJRT_Function MemoryLayout_Destroy, MemoryLayout_Serialize, Client_GetDefaultLayout, Buffer_MemoryLayout, Topology_GetDefaultLayout,
        Executable_GetOutputLayouts, Executable_GetParameterLayouts;
} PJRT_LayoutsExtension;
typedef struct {
    PJRT_Extension base;
    PJRT_Function CreateRawAliasOfBuffer, Destroy, GetOnDeviceSizeInBytes, GetMemorySpace, CopyRawHostToDevice, CopyRawDeviceToHost, GetHostPointer;
} PJRT_RawBufferExtension;

typedef struct {
    size_t struct_size;
    PJRT_Extension *extension_start;
    struct {
        PJRT_ARGS;
        int major, minor;
    } version;
#define PJRT_REAL(NAME) PJRT_Function NAME;
#define PJRT_OURS PJRT_REAL
#define PJRT_NOBODY PJRT_REAL
#include "pjrt_table.def"
#undef PJRT_REAL
#undef PJRT_OURS
#undef PJRT_NOBODY
} PJRT_Api;
