#include "sim/import/pretend_private.h"

#include "sim/import/range_sizes.h"
#include "sim/import/reuse.h"
#include <string.h>

/* The range of a function of autograd that is written in Python: no operator of PyTorch's, whose results its name and the shapes of its inputs would tell, and
 * of what type these are it does not say. */
static bool is_of_python(const char *bare, const Call *call)
{
    return call->around == 0 && strstr(bare, "::") == NULL && !g_str_has_prefix(bare, "triton_");
}

static void read_call(Reader *r, Call *call)
{
    const Text *text = &g_array_index(r->texts, Text, call->name - 1);
    if (text->n > r->to_look_at) {
        ech_diag_dropped(r->ret->diag, "calls_not_looked_at", 1, NULL);
        return;
    }
    r->to_look_at -= text->n;
    const char *name = ech_pretend_plain(r, text->at, text->n);
    g_autofree EchGpuInput *inputs = g_new(EchGpuInput, MAX_INPUTS);
    size_t n = ech_range_inputs(name, call->dtype != ECH_DTYPE_NONE ? call->dtype : ECH_DTYPE_F32, inputs, MAX_INPUTS);
    g_autofree char *bare = g_strndup(name, ech_range_bare_length(name));
    call->of_python = is_of_python(bare, call) && !ech_range_tells_types(name);
    if (call->of_python)
        return;
    const Text *around = call->around ? &g_array_index(r->texts, Text, call->around - 1) : NULL;
    if (around && around->n <= r->to_look_at) {
        r->to_look_at -= around->n;
        g_autofree EchGpuInput *outer = g_new(EchGpuInput, MAX_INPUTS);
        size_t n_outer = ech_range_inputs(ech_pretend_plain(r, around->at, around->n), ECH_DTYPE_F32, outer, MAX_INPUTS);
        ech_range_types_of(outer, n_outer, inputs, n);
    }
    ech_gpu_operator_of(bare, inputs, n, &call->shared.whole);
    if (call->lengths > 0)
        ech_gpu_attention_lengths(bare, inputs, n, &g_array_index(r->lengths, EchGpuLengths, call->lengths - 1), &call->shared.whole);
}

/* The type that a kernel's name speaks of. Its width alone counts. */
static EchDtype dtype_of(const EchGpuName *name)
{
    switch (name->element_bytes) {
    case 1: return ECH_DTYPE_S8;
    case 2: return ECH_DTYPE_BF16;
    case 8: return ECH_DTYPE_F64;
    default: return ECH_DTYPE_F32;
    }
}

static EchId carried(Reader *r, const EchTrace *from, EchId string)
{
    return string == ECH_NONE ? ECH_NONE : ech_trace_builder_string(r->builder, ech_trace_string(from, string), -1);
}

/* A kernel is what its program's own lowering makes of the instruction. */
static void take_compiled(Reader *r, const Kernel *kernel, const EchXlaLaunch *launch)
{
    EchItem *item = ech_capture_item(r->capture, kernel->item);
    const EchOp *op = launch->op;
    item->name = launch->instruction;
    if (!op) {
        item->kind = ECH_ITEM_MARK;
        return;
    }
    item->stack = carried(r, launch->trace, op->stack);
    item->other = carried(r, launch->trace, op->launch);
    item->work = ech_capture_work_of(r->capture, launch->trace, op, ECH_KNOWN);
    EchAddressUse *uses = ech_capture_uses(r->capture, kernel->item);
    if (!uses || item->n_uses != launch->n_arguments)
        return;
    item->n_uses = 0;
    item->parts = true;
    for (uint32_t a = 0; a < launch->n_arguments; a++)
        if (launch->arguments[a].bytes > 0)
            uses[item->n_uses++] =
                (EchAddressUse){uses[a].address, launch->arguments[a].bytes, launch->arguments[a].written ? ECH_ADDRESS_WRITE : ECH_ADDRESS_READ};
}

/* How many kernels each call has, and what it works with where they alone tell. */
static void count_kernels(Reader *r)
{
    for (guint i = 0; i < r->kernels->len; i++) {
        const Kernel *kernel = &g_array_index(r->kernels, Kernel, i);
        if (kernel->call == UINT32_MAX)
            continue;
        Call *call = &g_array_index(r->calls, Call, kernel->call);
        if (!call->read) {
            read_call(r, call);
            call->read = true;
        }
        const EchGpuName *name = ech_gpu_name_of(r->capture, r->names, ech_capture_item(r->capture, kernel->item)->name);
        if (ech_gpu_call_count(&call->shared, name, &kernel->launch) && call->dtype == ECH_DTYPE_NONE)
            call->dtype = dtype_of(name);
    }
}

/* What is not known of calls of attention, and what the host did itself. */
static void say_untold(Reader *r)
{
    uint64_t told = 0, untold = 0;
    for (guint i = 0; i < r->calls->len; i++) {
        const Call *call = &g_array_index(r->calls, Call, i);
        if (call->shared.n_kernels > 0 && call->shared.whole.kind == ECH_GPU_OP_ATTENTION && call->shared.whole.paged)
            *(call->lengths > 0 ? &told : &untold) += 1;
    }
    ech_diag_note(r->ret->diag, "attention_by_lengths_on_the_host", told);
    ech_diag_note(r->ret->diag, "attention_of_assumed_lengths", untold);
    if (untold > 0)
        ech_diag_remark(r->ret->diag,
                        "how long the sequences are is not told for %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                        " calls of paged attention: prompts are taken as they "
                        "are, and for a token each as many keys as its table of pages has room for, which is the longest that a sequence may become",
                        untold, told + untold);
    else if (told > 0)
        ech_diag_remark(r->ret->diag, "lengths of sequences are those that the host knew when it asked for attention over their pages");
    ech_diag_note(r->ret->diag, "kernels_of_unknown_masks", r->n_unmasked);
    if (r->n_unmasked > 0)
        ech_diag_remark(r->ret->diag,
                        "what the masks of FlexAttention leave is not known for %" G_GUINT64_FORMAT
                        " of its kernels in the whole capture: they count for the bytes of their arrays alone, which is the least",
                        r->n_unmasked);
    ech_diag_note(r->ret->diag, "operators_on_the_host", r->n_host_work);
    if (r->n_host_work > 0) {
        g_autofree char *bytes = ech_format_bytes(r->host_work_bytes);
        ech_diag_remark(r->ret->diag,
                        "%" G_GUINT64_FORMAT
                        " operator%s on the host's processor in the whole capture, on %s in all: what the host's memory takes for that is taken at least, or "
                        "its processor (memories.host.read and write, runtime.processor_rate), and the device is asked for nothing meanwhile",
                        r->n_host_work, r->n_host_work == 1 ? " runs" : "s run", bytes);
    }
}

/* What the kernel is told to read and write of its arrays. False where one of them is not told how much. */
static bool told_bytes(Reader *r, const Kernel *kernel, EchBytes *ret_read, EchBytes *ret_written)
{
    const EchItem *item = ech_capture_item(r->capture, kernel->item);
    const EchAddressUse *uses = ech_capture_uses(r->capture, kernel->item);
    *ret_read = *ret_written = 0;
    for (uint32_t i = 0; i < item->n_uses; i++) {
        if (uses[i].bytes == 0)
            return false;
        *ret_read = ech_bytes_add(*ret_read, uses[i].access == ECH_ADDRESS_WRITE ? 0 : uses[i].bytes);
        *ret_written = ech_bytes_add(*ret_written, uses[i].access == ECH_ADDRESS_READ ? 0 : uses[i].bytes);
    }
    return true;
}

/* A kernel whose own code was looked at: its traffic and its operations, by unit and type. */
static bool take_code(Reader *r, const Kernel *kernel)
{
    EchItemWork rows[3] = {{.origin = ECH_INFERRED}};
    if (!kernel->by_code || !told_bytes(r, kernel, &rows[0].read, &rows[0].write))
        return false;
    const EchDtype types[] = {kernel->dtype, ECH_DTYPE_F32, ECH_DTYPE_F64};
    const uint64_t operations[] = {kernel->multiplied, kernel->lanes[0], kernel->lanes[1]};
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        if (operations[i] == 0)
            continue;
        rows[n].ops = operations[i];
        rows[n].unit = i == 0 ? ECH_WORK_MATRIX : ECH_WORK_VECTOR;
        rows[n].dtype = (uint8_t)types[i];
        rows[n++].origin = ECH_INFERRED;
    }
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; i < MAX(n, 1); i++) {
        rows[i].more = i + 1 < n;
        uint32_t row = ech_capture_work(r->capture, rows[i]);
        first = i == 0 ? row : first;
    }
    ech_capture_item(r->capture, kernel->item)->work = first;
    return true;
}

/* Goes on with what the items up to @end use, and notes which bytes of that one's were used shortly before on its device. */
static void take_uses(const Reader *r, GHashTable *devices, uint32_t *next, uint32_t end, uint64_t near[ECH_GPU_NEAR])
{
    for (; *next <= end; ++*next) {
        const EchItem *item = ech_capture_item(r->capture, *next);
        const EchAddressUse *uses = ech_capture_uses(r->capture, *next);
        uint64_t others[ECH_GPU_NEAR] = {0};
        if (!uses)
            continue;
        gpointer device = GUINT_TO_POINTER(ech_capture_queue_device(r->capture, item->queue));
        EchReuse *reuse = g_hash_table_lookup(devices, device);
        if (!reuse)
            g_hash_table_insert(devices, device, reuse = ech_reuse_new());
        for (uint32_t i = 0; i < item->n_uses; i++) {
            const EchAddressUse *use = &uses[i];
            if (use->access != ECH_ADDRESS_WRITE)
                ech_reuse_take(reuse, use->address, use->bytes, false, *next == end ? near : others);
            if (use->access != ECH_ADDRESS_READ)
                ech_reuse_take(reuse, use->address, use->bytes, true, *next == end ? near : others);
        }
    }
}

/* What a kernel that TorchInductor generated is called with may be much larger than what it touches of it (a slice, rows that are picked): where its loads and
 * stores are told, no more is moved. */
static void cut_to_uses(Reader *r, const Kernel *kernel, const Call *call, EchItemWork *work)
{
    const Text *range = call ? &g_array_index(r->texts, Text, call->name - 1) : NULL;
    static const char prefix[] = "triton_";
    EchBytes read, written;
    if (!range || range->n < sizeof prefix || memcmp(range->at, prefix, sizeof prefix - 1) != 0 || !told_bytes(r, kernel, &read, &written))
        return;
    if (ech_capture_item(r->capture, kernel->item)->n_uses > 0) {
        work->read = MIN(work->read, read);
        work->write = MIN(work->write, written);
    }
}

void ech_pretend_infer_traffic(Reader *r)
{
    count_kernels(r);
    g_autoptr(GHashTable) devices = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)ech_reuse_free);
    uint32_t next = 0;
    uint64_t by_tiles = 0, by_code = 0, by_shape = 0, by_grid = 0, assumed = 0, unknown = 0;
    for (guint i = 0; i < r->kernels->len; i++) {
        const Kernel *kernel = &g_array_index(r->kernels, Kernel, i);
        const EchXlaLaunch *compiled = kernel->compiled > 0 ? &g_array_index(r->compiled, EchXlaLaunch, kernel->compiled - 1) : NULL;
        if (compiled && compiled->trace) {
            take_compiled(r, kernel, compiled);
            continue;
        }
        EchItem *item = ech_capture_item(r->capture, kernel->item);
        const EchGpuName *name = ech_gpu_name_of(r->capture, r->names, item->name);
        Call *call = kernel->call == UINT32_MAX ? NULL : &g_array_index(r->calls, Call, kernel->call);
        if (call && !call->settled) {
            call->settled = true;
            call->dtype = call->dtype != ECH_DTYPE_NONE ? call->dtype : dtype_of(name);
            read_call(r, call);
        }
        EchGpuLaunch launch = kernel->launch;
        EchItemWork work = {0};
        double share = call ? ech_gpu_call_share(&call->shared, name, &launch) : 0;
        bool known = ech_gpu_kernel_work(call ? &call->shared.whole : NULL, name, share, &launch, &work);
        if (!known)
            work = (EchItemWork){0};
        cut_to_uses(r, kernel, call, &work);
        if (take_code(r, kernel)) {
            take_uses(r, devices, &next, kernel->item, launch.near);
            by_code++;
        } else if (ech_pretend_take_products(r, kernel, &launch, &work)) {
            item->work = ech_capture_work(r->capture, work);
            by_tiles++;
        } else if (known) {
            item->work = ech_capture_work(r->capture, work);
            *(share > 0 ? &by_shape : &by_grid) += 1;
        } else if (!(item->told && call && call->of_python) && ech_gpu_assumed_work(name, &launch, &work)) {
            item->work = ech_capture_work(r->capture, work);
            assumed++;
        } else {
            unknown++;
        }
        g_string_truncate(r->scratch, 0);
        ech_gpu_launch_print(&launch, r->scratch);
        if (r->scratch->len > 0)
            item->other = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    }
    say_untold(r);
    ech_diag_note(r->ret->diag, "kernels_of_told_products", by_tiles);
    ech_diag_note(r->ret->diag, "kernels_told_by_their_code", by_code);
    ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_shapes", by_shape);
    ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", by_grid);
    ech_diag_note(r->ret->diag, "kernel_traffic_assumed", assumed);
    ech_diag_note(r->ret->diag, "kernels_of_unknown_traffic", unknown);
}
