#include "sim/import/pretend_private.h"

#include "models/kernel/comm_name.h"
#include "sim/base/error.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"
#include <string.h>

/* Longer names are cut: an operator's sizes are, with thousands of arrays. */
#define MAX_NAME ((size_t)64 << 10)

/* The same, of a node where it was captured, with the call that it is of this launch. */
static Within within_node(Reader *r, uint64_t node)
{
    Within where = g_array_index(r->nodes_of_graphs, Node, node - 1).where;
    if (where.call == UINT32_MAX)
        return where;
    Call *captured = &g_array_index(r->calls, Call, where.call);
    if (captured->launch != r->n_launches) {
        Call call = {.name = captured->name, .around = captured->around};
        captured->launch = r->n_launches;
        captured->again = r->calls->len;
        g_array_append_val(r->calls, call);
        captured = &g_array_index(r->calls, Call, where.call);
    }
    where.call = captured->again;
    return where;
}

/* The outermost range around, where that is a mark and no backward pass is within it, or an optimizer's step; ECH_NONE. */
static EchId step_around(Reader *r)
{
    const Range *range = ech_pretend_innermost(r);
    EchId step = ECH_NONE;
    for (uint32_t i = range ? range->path : UINT32_MAX; i != UINT32_MAX; i = g_array_index(r->paths, Path, i).parent) {
        uint32_t parent = g_array_index(r->paths, Path, i).parent;
        EchId name = g_array_index(r->paths, Path, i).name;
        const char *text = ech_trace_builder_peek_string(r->builder, name);
        if (ech_mark_is_optimizer(text))
            return name;
        if (parent == UINT32_MAX && range->backward == 0 && ech_pretend_is_step(text, NULL))
            step = name;
    }
    return step;
}

bool ech_pretend_add_captured(Reader *r, GError **error)
{
    const uint64_t *fields = (const uint64_t *)(const void *)r->lines.list->data;
    guint n = r->lines.list->len;
    uint64_t number = n > 0 ? fields[n - 1] : 0;
    if (n > 2) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: captured %" G_GUINT64_FORMAT "; expected %u and when, no more", r->lines.where, r->lines.line,
                    number, r->nodes_of_graphs->len + 1);
        return false;
    }
    if (number != (uint64_t)r->nodes_of_graphs->len + 1) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: captured %" G_GUINT64_FORMAT "; expected %u, one more than the node before", r->lines.where,
                    r->lines.line, number, r->nodes_of_graphs->len + 1);
        return false;
    }
    Node node = {ech_pretend_within(r), step_around(r)};
    g_array_append_val(r->nodes_of_graphs, node);
    ech_capture_captured(r->capture, n == 2 ? ech_pretend_time_of(r, fields[0]) : r->newest);
    return true;
}

/* A graph's launch outside of all ranges: the steps that its work stood in at its capture are marks again. */
static void mark_of_graph(Reader *r, uint64_t node)
{
    EchId step = g_array_index(r->nodes_of_graphs, Node, node - 1).step;
    if (step != r->step_of_launch && step != ECH_NONE && !ech_pretend_innermost(r)) {
        g_autofree char *name = g_strdup(ech_trace_builder_peek_string(r->builder, step));
        ech_pretend_mark_here(r, r->lines.fields[0], name, strlen(name));
    }
    r->step_of_launch = step;
}

bool ech_pretend_add_node(Reader *r, GError **error)
{
    r->node = r->lines.fields[0];
    if (r->node >= 1 && r->node <= r->nodes_of_graphs->len && r->n_launches > 0)
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: node %" G_GUINT64_FORMAT " %s", r->lines.where, r->lines.line, r->node,
                r->n_launches > 0 ? "is not captured before" : "of no graph; expected its launch before");
    return false;
}

void ech_pretend_add_lengths(Reader *r)
{
    EchGpuLengths lengths = {r->lines.fields[0], r->lines.fields[1], r->lines.fields[2], r->lines.fields[3], r->lines.fields[4]};
    g_array_append_val(r->lengths, lengths);
    r->next_lengths = true;
}

static EchItem issued_item(Reader *r, EchItemKind kind, uint64_t device, uint64_t stream, Within *ret_within)
{
    EchItem item = ech_item_init(kind);
    item.issued = ech_pretend_time_of(r, r->lines.fields[0]);
    item.queue = ech_pretend_stream_queue(r, device, stream);
    item.thread = r->thread;
    item.node = (uint32_t)r->node;
    if (r->node > 0)
        mark_of_graph(r, r->node);
    if (r->of_graph > 0 && kind != ECH_ITEM_ALLOC && kind != ECH_ITEM_FREE) {
        item.together = r->in_graph;
        r->in_graph = --r->of_graph > 0;
    }
    *ret_within = r->node > 0 ? within_node(r, r->node) : ech_pretend_within(r);
    r->node = 0;
    if (ret_within->path != UINT32_MAX)
        item.stack = ech_pretend_path_text(r, ret_within->path);
    if (kind != ECH_ITEM_ALLOC && kind != ECH_ITEM_FREE) {
        r->worked = (uint32_t)ech_capture_n_items(r->capture);
        item.operators = item.together ? 0 : r->operators;
        r->operators = 0;
        r->meets_told = r->sends_told = false;
        r->launched = NULL;
    }
    return item;
}

bool ech_pretend_add_kernel(Reader *r, GError **error)
{
    Text *text = ech_pretend_text_of(r, r->lines.fields[3], error);
    if (!text)
        return false;
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_KERNEL, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = ech_pretend_kept_string_of(r, text);
    r->n_unmasked += !r->next_lengths && memmem(text->at, text->n, "triton_tem_", 11) && memmem(text->at, text->n, "flex_attention", 14);
    Kernel kernel = {.item = (uint32_t)ech_capture_n_items(r->capture), .call = where.call};
    for (size_t i = 0; i < 3; i++) {
        kernel.launch.grid[i] = (uint32_t)MIN(r->lines.fields[4 + i], (uint64_t)INT32_MAX);
        kernel.launch.block[i] = (uint32_t)MIN(r->lines.fields[7 + i], (uint64_t)INT32_MAX);
    }
    kernel.launch.shared = (uint32_t)MIN(r->lines.fields[10], (uint64_t)INT32_MAX);
    if (r->next_lengths && where.call != UINT32_MAX)
        g_array_index(r->calls, Call, where.call).lengths = r->lengths->len;
    r->next_lengths = false;
    r->launched = text;
    g_array_append_val(r->kernels, kernel);
    ech_capture_add(r->capture, &item);
    return true;
}

bool ech_pretend_add_library(Reader *r, GError **error)
{
    const Text *name = ech_pretend_text_of(r, r->lines.fields[3], error), *launch = name ? ech_pretend_text_of(r, r->lines.fields[4], error) : NULL,
               *dtype = launch ? ech_pretend_text_of(r, r->lines.fields[8], error) : NULL;
    if (!dtype)
        return false;
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_KERNEL, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = ech_pretend_string_of(r, name);
    item.other = ech_pretend_string_of(r, launch);
    EchGpuLaunch parsed;
    bool known = ech_gpu_launch_parse(r->scratch->str, &parsed);
    if (!known)
        ech_diag_dropped(r->ret->diag, "library_calls_without_a_shape", 1, "%s:%zu", r->lines.where, r->lines.line);
    ech_pretend_plain(r, dtype->at, dtype->n);
    EchItemWork work = {.read = r->lines.fields[5],
                        .write = r->lines.fields[6],
                        .ops = r->lines.fields[7],
                        .unit = known && (parsed.kind == ECH_GPU_PRODUCT || parsed.kind == ECH_GPU_ATTENTION) ? ECH_WORK_MATRIX : ECH_WORK_VECTOR,
                        .dtype = (uint8_t)ech_dtype_parse(r->scratch->str, r->scratch->len),
                        .origin = ECH_KNOWN};
    item.work = ech_capture_work(r->capture, work);
    ech_capture_add(r->capture, &item);
    if (where.call != UINT32_MAX) /* the operator's work is done */
        g_array_index(r->calls, Call, where.call).shared.n_main++;
    return true;
}

bool ech_pretend_add_products(Reader *r, GError **error)
{
    const Text *launch = ech_pretend_text_of(r, r->lines.fields[0], error), *dtype = launch ? ech_pretend_text_of(r, r->lines.fields[2], error) : NULL;
    if (!dtype)
        return false;
    if (!r->launched || r->kernels->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: products of no kernel; expected its launch before", r->lines.where, r->lines.line);
        return false;
    }
    Kernel *kernel = &g_array_index(r->kernels, Kernel, r->kernels->len - 1);
    kernel->product = (uint32_t)r->lines.fields[0];
    kernel->multiplied = r->lines.fields[1];
    ech_pretend_plain(r, dtype->at, dtype->n);
    kernel->dtype = ech_dtype_parse(r->scratch->str, r->scratch->len);
    return true;
}

bool ech_pretend_add_lanes(Reader *r, GError **error)
{
    if (!r->launched || r->kernels->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: lanes of no kernel; expected its launch before", r->lines.where, r->lines.line);
        return false;
    }
    Kernel *kernel = &g_array_index(r->kernels, Kernel, r->kernels->len - 1);
    kernel->by_code = true;
    memcpy(kernel->lanes, r->lines.fields, sizeof kernel->lanes);
    kernel->launch.issued = r->lines.fields[2];
    return true;
}

/* The newest kernel, whose lanes were told. @what: the line at hand. */
static EchGpuLaunch *told_launch(Reader *r, const char *what, GError **error)
{
    if (!r->launched || r->kernels->len == 0 || !g_array_index(r->kernels, Kernel, r->kernels->len - 1).by_code) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: %s of no kernel; expected its lanes before", r->lines.where, r->lines.line, what);
        return NULL;
    }
    return &g_array_index(r->kernels, Kernel, r->kernels->len - 1).launch;
}

bool ech_pretend_add_units(Reader *r, GError **error)
{
    EchGpuLaunch *launch = told_launch(r, "units", error);
    if (!launch)
        return false;
    launch->slots = r->lines.fields[0];
    launch->slots_64 = r->lines.fields[1];
    launch->functions = r->lines.fields[2];
    if (g_array_index(r->kernels, Kernel, r->kernels->len - 1).multiplied > 0)
        launch->arithmetic = 1 + (r->lines.fields[3] > 0 ? ECH_GPU_WGMMA : ECH_GPU_MMA);
    return true;
}

bool ech_pretend_add_atomics(Reader *r, GError **error)
{
    EchGpuLaunch *launch = told_launch(r, "atomics", error);
    if (!launch)
        return false;
    launch->atomics = r->lines.fields[0];
    launch->crowded = r->lines.fields[1];
    return true;
}

bool ech_pretend_add_code(Reader *r, GError **error)
{
    EchGpuLaunch *launch = told_launch(r, "code", error);
    if (!launch)
        return false;
    uint64_t *const to[] = {&launch->accesses, &launch->wavefronts, &launch->fetched, &launch->path_cycles, &launch->path_trips, &launch->barriers};
    for (size_t i = 0; i < G_N_ELEMENTS(to); i++)
        *to[i] = r->lines.fields[i];
    launch->registers = (uint32_t)MIN(r->lines.fields[6], 255);
    launch->shared = (uint32_t)MIN(launch->shared + r->lines.fields[7], (uint64_t)INT32_MAX);
    return true;
}

bool ech_pretend_add_places(Reader *r, bool sectors, GError **error)
{
    if (!r->launched || r->kernels->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: %s of no kernel; expected its launch before", r->lines.where, r->lines.line,
                    sectors ? "sectors" : "axes");
        return false;
    }
    EchGpuLaunch *launch = &g_array_index(r->kernels, Kernel, r->kernels->len - 1).launch;
    if (sectors)
        launch->sectors = (uint16_t)MIN(r->lines.fields[0], 4096u);
    else
        launch->axes = (uint8_t)MIN(r->lines.fields[0], 25u);
    return true;
}

bool ech_pretend_take_products(Reader *r, const Kernel *kernel, EchGpuLaunch *launch, EchItemWork *work)
{
    if (kernel->multiplied == 0 || (work->unit == ECH_WORK_MATRIX && work->ops > 0))
        return false;
    work->ops = kernel->multiplied;
    work->unit = ECH_WORK_MATRIX;
    work->dtype = (uint8_t)kernel->dtype;
    work->origin = ECH_INFERRED;
    const Text *text = &g_array_index(r->texts, Text, kernel->product - 1);
    EchGpuLaunch product;
    ech_pretend_plain(r, text->at, text->n);
    if (!ech_gpu_launch_parse(r->scratch->str, &product))
        return true;
    for (size_t i = 0; i < 3; i++) {
        product.grid[i] = launch->grid[i];
        product.block[i] = launch->block[i];
    }
    product.shared = launch->shared;
    product.registers = launch->registers;
    *launch = product;
    return true;
}

static void add_host_wait(Reader *r, EchTime at, uint32_t device, uint32_t queue, EchTime recorded, const char *name)
{
    EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
    item.issued = at;
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
    item.thread = r->thread;
    item.other = queue;
    item.address = (uint64_t)recorded;
    item.name = ech_trace_builder_string(r->builder, name, -1);
    ech_capture_add(r->capture, &item);
    g_hash_table_remove_all(r->runs);
}

/* The device is asked for what follows when the host is done with this. */
bool ech_pretend_add_host_work(Reader *r, GError **error)
{
    const Text *name = ech_pretend_text_of(r, r->lines.fields[2], error);
    if (!name)
        return false;
    uint32_t device = (uint32_t)MIN(r->lines.fields[1], 65535);
    Within where = ech_pretend_within(r);
    EchItem item = ech_item_init(ECH_ITEM_KERNEL);
    item.issued = ech_pretend_time_of(r, r->lines.fields[0]);
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
    item.thread = r->thread;
    item.to = ECH_TIER_HOST;
    item.told = true; /* none of the device's arrays */
    item.name = ech_pretend_string_of(r, name);
    if (where.path != UINT32_MAX)
        item.stack = ech_pretend_path_text(r, where.path);
    EchItemWork work = {.read = r->lines.fields[3], .write = r->lines.fields[4], .unit = ECH_WORK_VECTOR, .origin = ECH_KNOWN};
    item.work = ech_capture_work(r->capture, work);
    ech_capture_add(r->capture, &item);
    r->n_host_work++;
    r->host_work_bytes = ech_bytes_add(r->host_work_bytes, ech_bytes_add(work.read, work.write));
    return true;
}

static uint32_t file_queue(Reader *r, uint32_t device, uint64_t handle)
{
    g_autofree char *name = g_strdup_printf("files %" G_GUINT64_FORMAT, handle);
    const uint32_t queue = ech_capture_queue(r->capture, name, ECH_QUEUE_COPY, device);
    ech_capture_set_apart(r->capture, queue);
    return queue;
}

/* Of the memory of a host that may wait for its disk (vm.dirty_ratio, a fifth where it is not changed): who writes more waits, too. */
#define LEAST_MEMORY_OF_DIRTY 5

/* @bytes of the file of the line. The device is asked for what follows when the host has them, or got rid of them; beside, when it waits for that. */
static void add_file_work(Reader *r, const Text *path, EchFileUse use, bool beside, EchBytes bytes, EchBytes needs)
{
    const uint64_t *fields = r->lines.fields;
    const uint32_t device = (uint32_t)MIN(fields[1], 65535);
    if (bytes == 0)
        return;
    EchItem item = ech_item_init(beside ? ECH_ITEM_COPY : ECH_ITEM_KERNEL);
    item.issued = ech_pretend_time_of(r, fields[0]);
    item.queue = beside ? file_queue(r, device, fields[8]) : ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
    item.thread = r->thread;
    item.from = item.to = ECH_TIER_HOST;
    item.told = true;
    item.origin = ECH_KNOWN;
    Within where = ech_pretend_within(r);
    if (where.path != UINT32_MAX)
        item.stack = ech_pretend_path_text(r, where.path);
    ech_pretend_plain(r, path->at, path->n);
    g_autofree char *base = g_path_get_basename(r->scratch->str);
    g_string_printf(r->scratch, "%s of %s", use == ECH_FILE_WRITTEN ? "write" : "read", base);
    item.name = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    g_string_truncate(r->scratch, 0);
    ech_file_print(use, needs, r->scratch);
    item.other = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    EchItemWork work = {.unit = ECH_WORK_VECTOR, .origin = ECH_KNOWN};
    *(use == ECH_FILE_WRITTEN ? &work.read : &work.write) = bytes;
    if (beside)
        item.bytes = bytes;
    else
        item.work = ech_capture_work(r->capture, work);
    ech_capture_add(r->capture, &item);
}

bool ech_pretend_add_file(Reader *r, GError **error)
{
    const uint64_t *fields = r->lines.fields;
    const Text *path = ech_pretend_text_of(r, fields[2], error);
    if (!path)
        return false;
    const bool written = (fields[4] & 3) == 1, mapped = (fields[4] & 3) == 2, direct = fields[4] & 4, beside = fields[4] & 8;
    const EchFileUse use = written ? ECH_FILE_WRITTEN : mapped ? ECH_FILE_MAPPED : ECH_FILE_READ;
    const EchBytes bytes = fields[6], held = MAX(fields[7], r->pinned); /* which here may have no pages yet */
    if (direct) {                                                       /* and the page cache has none of it */
        add_file_work(r, path, use, beside, bytes, ECH_FILE_DISK);
        return true;
    }
    EchBytes fresh, since = ech_page_cache_take(r->page_cache, fields[3], fields[5], bytes, &fresh);
    if (written) {
        r->file_bytes = ech_bytes_add(r->file_bytes, bytes);
        const EchBytes waiting = r->file_bytes < UINT64_MAX / LEAST_MEMORY_OF_DIRTY ? LEAST_MEMORY_OF_DIRTY * r->file_bytes : UINT64_MAX;
        add_file_work(r, path, use, beside, bytes, ech_bytes_add(waiting, held));
    } else {
        add_file_work(r, path, use, beside, fresh, ECH_FILE_DISK);
        add_file_work(r, path, use, beside, bytes - fresh, ech_bytes_add(ech_bytes_add(since, fresh), held));
    }
    return true;
}

void ech_pretend_add_copy(Reader *r)
{
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_COPY, r->lines.fields[1], r->lines.fields[2], &where);
    /* As profilers call it: copies of pageable memory are known by their name. */
    char name[64];
    static const char *const kinds[] = {
        "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Unknown", "Pageable, untouched", "Device, over the host"};
    uint64_t from = r->lines.fields[4] < G_N_ELEMENTS(kinds) ? r->lines.fields[4] : 0, to = r->lines.fields[5] < G_N_ELEMENTS(kinds) ? r->lines.fields[5] : 0;
    g_snprintf(name, sizeof name, "Memcpy %cto%c (%s -> %s)", ech_pretend_tier_of(from) == ECH_TIER_HOST ? 'H' : 'D',
               ech_pretend_tier_of(to) == ECH_TIER_HOST ? 'H' : 'D', kinds[from], kinds[to]);
    item.name = ech_trace_builder_string(r->builder, name, -1);
    item.bytes = r->lines.fields[3];
    r->staged_bytes = to == 8 ? ech_bytes_add(r->staged_bytes, item.bytes) : r->staged_bytes;
    item.origin = ECH_KNOWN;
    item.from = ech_pretend_tier_of(from);
    item.to = ech_pretend_tier_of(to);
    item.behind = r->lines.fields[6] == 2 ? ECH_BEHIND_BATCH : r->behind_copy && where.path != UINT32_MAX ? ECH_BEHIND_LOOP : ECH_BEHIND_NONE;
    r->behind_copy = true;
    ech_capture_add(r->capture, &item);
    if (r->lines.fields[6] == 0)
        add_host_wait(r, item.issued, ech_capture_queue_device(r->capture, item.queue), item.queue, item.issued, "Synchronous copy");
}

void ech_pretend_add_prefetch(Reader *r)
{
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_COPY, r->lines.fields[1], r->lines.fields[2], &where);
    bool to_device = r->lines.fields[4] != 0;
    item.name = ech_trace_builder_string(r->builder, to_device ? "Prefetch of managed memory to the device" : "Prefetch of managed memory to the host", -1);
    item.bytes = r->lines.fields[3];
    item.origin = ECH_KNOWN;
    item.prefetch = true;
    item.from = to_device ? ECH_TIER_HOST : ECH_TIER_DEVICE;
    item.to = to_device ? ECH_TIER_DEVICE : ECH_TIER_HOST;
    ech_capture_add(r->capture, &item);
}

/* What is set stays: nothing that is known of sets and unsets it by turns. */
void ech_pretend_add_advice(Reader *r)
{
    bool of_device = r->lines.fields[5] != 0;
    EchItem item = ech_item_init(ECH_ITEM_ADVICE);
    item.issued = ech_pretend_time_of(r, r->lines.fields[0]);
    item.queue = ech_pretend_stream_queue(r, r->lines.fields[1], 0);
    item.address = r->lines.fields[2];
    item.bytes = r->lines.fields[3];
    switch (r->lines.fields[4]) {
    case 1: item.managed = ECH_MANAGED_READ_MOSTLY; break;
    case 3: item.managed = of_device ? ECH_MANAGED_ON_DEVICE : ECH_MANAGED_ON_HOST; break;
    case 5: item.managed = of_device ? ECH_MANAGED_MAPPED : 0; break; /* the host reaches none of a device's memory */
    default: ech_diag_note(r->ret->diag, "advice_taken_back", 1); break;
    }
    if (item.managed)
        ech_capture_add(r->capture, &item);
}

void ech_pretend_add_set(Reader *r)
{
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_MEMSET, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = ech_trace_builder_string(r->builder, "Memset", -1);
    item.bytes = r->lines.fields[3];
    item.origin = ECH_KNOWN;
    item.from = item.to = ECH_TIER_DEVICE;
    ech_capture_add(r->capture, &item);
}

void ech_pretend_add_pinning(Reader *r, EchBytes bytes, bool fresh)
{
    EchItem item = ech_item_init(ECH_ITEM_KERNEL);
    item.issued = ech_pretend_time_of(r, r->lines.fields[0]);
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, (uint32_t)MIN(r->lines.fields[1], 65535));
    item.to = ECH_TIER_HOST;
    item.told = true;
    item.name = ech_trace_builder_string(r->builder, fresh ? ECH_PIN_NEW : ECH_PIN_THERE, -1);
    item.work = ech_capture_work(r->capture, (EchItemWork){.write = bytes, .unit = ECH_WORK_VECTOR, .origin = ECH_KNOWN});
    ech_capture_add(r->capture, &item);
}

void ech_pretend_add_registered(Reader *r, EchItemKind kind)
{
    Within where;
    EchItem item = issued_item(r, kind, r->lines.fields[1], 0, &where);
    item.address = r->lines.fields[2];
    item.bytes = r->lines.fields[3];
    item.origin = ECH_KNOWN;
    item.from = item.to = ECH_TIER_HOST;
    item.name = ech_trace_builder_string(r->builder, "cudaHostRegister", -1);
    ech_capture_add(r->capture, &item);
}

/* TensorFlow's operators have arrays of their own: "model/dense/MatMul (MatMul)". */
static EchId named_by_operator(Reader *r, uint32_t path, EchId otherwise)
{
    const char *range = ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, path).name);
    if (!g_str_has_prefix(range, ECH_RANGE_TENSORFLOW))
        return otherwise;
    g_autofree char *name = g_strdup(range + strlen(ECH_RANGE_TENSORFLOW));
    return ech_trace_builder_string(r->builder, name, -1);
}

void ech_pretend_add_memory(Reader *r, EchItemKind kind)
{
    Within where;
    EchItem item = issued_item(r, kind, r->lines.fields[1], r->lines.fields[2] == UINT32_MAX ? 0 : r->lines.fields[2], &where);
    item.address = r->lines.fields[3];
    item.bytes = r->lines.fields[4];
    item.origin = ECH_KNOWN;
    item.managed = ech_pretend_is_managed(r->lines.fields[5]) ? ECH_MANAGED : 0;
    item.from = item.to = item.managed ? ECH_TIER_HOST : ech_pretend_tier_of(r->lines.fields[5]);
    /* NCCL's buffers are whole MiB each; less are variables of modules (traces/capture/pretend/code.c). */
    bool variable = r->lines.fields[5] == 6 && item.bytes < (uint64_t)1 << 20;
    item.name = ech_trace_builder_string(r->builder, variable ? "variables of modules" : ech_pretend_memory_name(r->lines.fields[5]), -1);
    item.direct = r->lines.fields[5] == 6;
    if (item.to == ECH_TIER_DEVICE && !item.direct && where.path != UINT32_MAX)
        item.name = named_by_operator(r, where.path, item.name);
    ech_capture_add(r->capture, &item);
    if (kind == ECH_ITEM_ALLOC && r->lines.fields[5] == 2)
        ech_pretend_add_pinning(r, item.bytes, true);
    if (r->lines.fields[5] == 2)
        r->pinned = kind == ECH_ITEM_ALLOC ? ech_bytes_add(r->pinned, item.bytes) : r->pinned - MIN(r->pinned, item.bytes);
    if (item.to != ECH_TIER_DEVICE || item.direct)
        return;
    if (kind == ECH_ITEM_ALLOC && r->refused > 0 && item.bytes == r->refused && r->lines.fields[1] == r->refused_device) {
        r->n_served_late++; /* once the program had given back what it kept */
        r->refused = 0;
    }
    r->n_blocks += kind == ECH_ITEM_ALLOC;
    r->n_of_pool += kind == ECH_ITEM_ALLOC && r->lines.fields[6] != 0;
    r->reserved = kind == ECH_ITEM_ALLOC ? ech_bytes_add(r->reserved, item.bytes) : r->reserved - MIN(r->reserved, item.bytes);
    r->peak_reserved = MAX(r->peak_reserved, r->reserved);
}

void ech_pretend_settle_refused(Reader *r)
{
    r->n_refused += r->refused > 0;
    r->largest_refused = MAX(r->largest_refused, r->refused);
    r->refused = 0;
}

void ech_pretend_add_refused(Reader *r)
{
    ech_pretend_settle_refused(r);
    r->refused = r->lines.fields[3];
    r->refused_device = r->lines.fields[1];
}

/* Records and waits are lines of a graph's, too, of no work. */
static void pass_line_of_graph(Reader *r)
{
    r->of_graph -= r->of_graph > 0;
    r->in_graph = r->in_graph && r->of_graph > 0;
}

void ech_pretend_add_event_record(Reader *r)
{
    pass_line_of_graph(r);
    Recorded *recorded = g_new(Recorded, 1);
    *recorded = (Recorded){ech_pretend_stream_queue(r, r->lines.fields[1], r->lines.fields[2]), ech_pretend_time_of(r, r->lines.fields[0])};
    g_hash_table_replace(r->events, g_memdup2(&r->lines.fields[3], sizeof r->lines.fields[3]), recorded);
}

void ech_pretend_add_event_wait(Reader *r)
{
    pass_line_of_graph(r);
    const Recorded *recorded = g_hash_table_lookup(r->events, &r->lines.fields[3]);
    EchTime at = ech_pretend_time_of(r, r->lines.fields[0]);
    if (!recorded) { /* which CUDA lets pass at once */
        ech_diag_note(r->ret->diag, "waits_for_events_never_recorded", 1);
        return;
    }
    EchItem item = ech_item_init(ECH_ITEM_STREAM_WAIT);
    item.issued = at;
    item.queue = ech_pretend_stream_queue(r, r->lines.fields[1], r->lines.fields[2]);
    if (item.queue == recorded->queue) /* in order anyway */
        return;
    item.thread = r->thread;
    item.other = recorded->queue;
    item.address = (uint64_t)recorded->time;
    item.name = ech_trace_builder_string(r->builder, "Stream waits for event", -1);
    ech_capture_add(r->capture, &item);
}

void ech_pretend_add_sync(Reader *r)
{
    uint64_t type = r->lines.fields[1];
    EchTime at = ech_pretend_time_of(r, r->lines.fields[0]);
    uint32_t device = (uint32_t)MIN(r->lines.fields[2], 65535);
    const Recorded *recorded = type == 1 ? g_hash_table_lookup(r->events, &r->lines.fields[4]) : NULL;
    if (recorded)
        add_host_wait(r, at, ech_capture_queue_device(r->capture, recorded->queue), recorded->queue, recorded->time, "Synchronize event");
    else if (type == 3)
        add_host_wait(r, at, device, ech_pretend_stream_queue(r, device, r->lines.fields[3]), at, "Synchronize stream");
    else if (type == 4)
        add_host_wait(r, at, device, ECH_NONE, at, "Synchronize device");
    else if (type == 5)
        add_host_wait(r, at, device, file_queue(r, device, r->lines.fields[3]), at, "Wait for files");
    else if (type == 1)
        ech_diag_note(r->ret->diag, "waits_for_events_never_recorded", 1);
    else
        ech_diag_dropped(r->ret->diag, "synchronisations_of_unknown_type", 1, "%s:%zu: type %" G_GUINT64_FORMAT, r->lines.where, r->lines.line, type);
}

bool ech_pretend_add_collective(Reader *r, GError **error)
{
    const Text *text = ech_pretend_text_of(r, r->lines.fields[3], error);
    if (!text)
        return false;
    const char *name = ech_pretend_plain(r, text->at, text->n);
    unsigned which = ECH_COLLECTIVE_NONE;
    for (unsigned i = ECH_COLLECTIVE_NONE + 1; i < ECH_N_COLLECTIVES; i++)
        if (strcmp(ech_collective_name((EchCollective)i), name) == 0)
            which = i;
    EchCommName kernel;
    if (which == ECH_COLLECTIVE_NONE && ech_comm_name(name, &kernel) && kernel.known && kernel.comm == ECH_COMM_ALL_REDUCE)
        which = ECH_COLLECTIVE_ALL_REDUCE;
    if (which == ECH_COLLECTIVE_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    "%s:%zu: collective '%.80s'; expected all-reduce or another kind, or a kernel that is known to be an all-reduce", r->lines.where,
                    r->lines.line, name);
        return false;
    }
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_COLLECTIVE, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = ech_pretend_string_of(r, text);
    item.from = (uint8_t)which;
    item.bytes = r->lines.fields[4];
    item.origin = ECH_KNOWN;
    uint64_t ranks = MIN(r->lines.fields[5], 1u << 20), stride = MIN(r->lines.fields[6], 1u << 20);
    item.other = ranks > 0 ? (uint32_t)ranks : ECH_NONE;
    item.rounded = stride > 0 ? ranks * stride : 0;
    item.address = stride;
    ech_capture_add(r->capture, &item);
    return true;
}

void ech_pretend_add_device(Reader *r)
{
    g_free(r->device);
    r->device = g_strdup(ech_pretend_plain(r, r->lines.quoted, r->lines.n_quoted));
    ech_trace_builder_set_property(r->builder, "pretended_device", r->device);
    ech_trace_builder_printf_property(r->builder, "pretended_bytes", "%" G_GUINT64_FORMAT, r->lines.fields[0]);
    ech_trace_builder_printf_property(r->builder, "pretended_context_bytes", "%" G_GUINT64_FORMAT, r->lines.fields[1]);
    ech_trace_builder_printf_property(r->builder, "pretended_devices", "%" G_GUINT64_FORMAT, r->lines.fields[2]);
}

bool ech_pretend_add_name(Reader *r, GError **error)
{
    if (r->lines.fields[0] != (uint64_t)r->texts->len + 1) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: name %" G_GUINT64_FORMAT "; expected %u, one more than the name before", r->lines.where,
                    r->lines.line, r->lines.fields[0], r->texts->len + 1);
        return false;
    }
    Text text = {r->lines.quoted, MIN(r->lines.n_quoted, MAX_NAME), ECH_NONE, NULL, NULL};
    if (text.n < r->lines.n_quoted)
        ech_diag_dropped(r->ret->diag, "names_cut", 1, "%s:%zu: %zu bytes", r->lines.where, r->lines.line, r->lines.n_quoted);
    g_array_append_val(r->texts, text);
    r->of_tensorflow |= memmem(text.at, text.n, "tensorflow::", 12) || memmem(text.at, text.n, "_GPU_DT_", 8);
    r->of_xla |= memmem(text.at, text.n, "_fusion", 7) || memmem(text.at, text.n, "wrapped_", 8);
    static const char *const frameworks[] = {"aten::", "at::native", "nn.Module", "triton_", "cupy", "cudapy", "tf::", "Eigen::"};
    for (size_t i = 0; i < G_N_ELEMENTS(frameworks) && !r->of_framework; i++)
        r->of_framework = memmem(text.at, text.n, frameworks[i], strlen(frameworks[i])) != NULL;
    r->launched = NULL; /* it may lie elsewhere now */
    return true;
}
