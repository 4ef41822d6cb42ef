#include "sim/import/pretend_private.h"

#include "sim/base/error.h"
#include "sim/import/range_sizes.h"
#include "sim/trace/meets.h"
#include "sim/trace/step.h"
#include <string.h>

static bool of_no_work(Reader *r, size_t numbers, GError **error)
{
    if (r->lines.list->len % numbers == 0 && r->worked != UINT32_MAX)
        return false;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: %s", r->lines.where, r->lines.line,
                r->worked == UINT32_MAX ? "what work uses; expected the work before"
                : numbers == 3          ? "uses; expected three numbers each"
                                        : "args; expected two numbers each");
    return true;
}

bool ech_pretend_add_known_uses(Reader *r, GError **error)
{
    static const EchAddressAccess accesses[] = {ECH_ADDRESS_ANY, ECH_ADDRESS_READ, ECH_ADDRESS_WRITE, ECH_ADDRESS_UPDATE};
    if (of_no_work(r, 3, error))
        return false;
    for (guint i = 0; i < r->lines.list->len; i += 3) {
        const uint64_t *at = &g_array_index(r->lines.list, uint64_t, i);
        ech_capture_use(r->capture, r->worked, (EchAddressUse){at[1], at[2], accesses[at[0] < G_N_ELEMENTS(accesses) ? at[0] : 0]});
    }
    ech_capture_item(r->capture, r->worked)->told = true;
    return true;
}

void ech_pretend_free_run(gpointer data)
{
    g_hash_table_unref(((Run *)data)->seen);
    g_free(data);
}

/* Whether it is in one launch with what the run asked for before. A launch ends where an instruction (ECH_NONE: none is told) comes again, in the next round of
 * a loop. */
static bool is_launched_together(Reader *r, uint32_t device, uint64_t run, EchId instruction)
{
    Run *known = g_hash_table_lookup(r->runs, GUINT_TO_POINTER(device));
    if (!known) {
        known = g_new0(Run, 1);
        known->seen = g_hash_table_new(NULL, NULL);
        g_hash_table_insert(r->runs, GUINT_TO_POINTER(device), known);
    }
    bool again = known->run == run && g_hash_table_size(known->seen) > 0;
    bool comes_again = again && instruction != ECH_NONE && known->last != instruction && g_hash_table_contains(known->seen, GUINT_TO_POINTER(instruction));
    if (!again || comes_again)
        g_hash_table_remove_all(known->seen);
    g_hash_table_add(known->seen, GUINT_TO_POINTER(instruction));
    known->run = run;
    known->last = instruction;
    return again && !comes_again;
}

bool ech_pretend_add_of(Reader *r, GError **error)
{
    Text *module = ech_pretend_text_of(r, r->lines.fields[1], error), *instruction = module ? ech_pretend_text_of(r, r->lines.fields[3], error) : NULL;
    if (!instruction)
        return false;
    EchItem *item = r->worked == UINT32_MAX ? NULL : ech_capture_item(r->capture, r->worked);
    if (!item) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: of a compiled program; expected the work before", r->lines.where, r->lines.line);
        return false;
    }
    item->together |= is_launched_together(r, ech_capture_queue_device(r->capture, item->queue), r->lines.fields[0],
                                           instruction->n > 0 ? ech_pretend_kept_string_of(r, instruction) : ECH_NONE) &&
                      item->kind != ECH_ITEM_COLLECTIVE;
    if (r->lines.fields[0] > r->newest_run) { /* of several devices, which each run it, the first that does */
        r->newest_run = r->lines.fields[0];
        g_autofree char *name = g_strdup_printf("%.*s(%" G_GUINT64_FORMAT ")", (int)module->n, module->at, r->lines.fields[2]);
        ech_pretend_mark_in(r, ECH_QUEUE_OF_PROGRAMS, item->issued - 1, name, strlen(name));
    }
    Kernel *kernel = r->kernels->len > 0 ? &g_array_index(r->kernels, Kernel, r->kernels->len - 1) : NULL;
    if (instruction->n == 0 || !kernel || kernel->item != r->worked || kernel->compiled > 0)
        return true;
    EchXlaLaunch launch = {.run = r->lines.fields[0],
                           .number = r->lines.fields[2],
                           .module = ech_pretend_kept_string_of(r, module),
                           .instruction = ech_pretend_kept_string_of(r, instruction)};
    g_array_append_val(r->compiled, launch);
    kernel->compiled = r->compiled->len;
    return true;
}

bool ech_pretend_add_meetings(Reader *r, bool sends, GError **error)
{
    EchItem *item = r->worked == UINT32_MAX ? NULL : ech_capture_item(r->capture, r->worked);
    const GArray *list = r->lines.list;
    if (!item || item->kind != ECH_ITEM_COLLECTIVE || list->len < (sends ? 2 : 1)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: who meets; expected the collective before, and numbers", r->lines.where, r->lines.line);
        return false;
    }
    bool *told = sends ? &r->sends_told : &r->meets_told;
    if (*told) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: who meets, once more; expected one such line of a collective", r->lines.where, r->lines.line);
        return false;
    }
    *told = true;
    g_string_assign(r->scratch, item->meets == ECH_NONE ? "" : ech_trace_builder_peek_string(r->builder, item->meets));
    EchMeeting meeting = {.sends = sends, .buffer = sends ? g_array_index(list, uint64_t, 0) : 0};
    for (guint i = sends; i < list->len; i++) {
        meeting.group = g_array_index(list, uint64_t, i);
        const EchMeeting of_device = {.group = meeting.group, .times = ech_capture_queue_device(r->capture, item->queue)};
        uint64_t *times = g_hash_table_lookup(r->met, &of_device);
        if (!times) {
            times = g_new0(uint64_t, 1);
            g_hash_table_insert(r->met, g_memdup2(&of_device, sizeof of_device), times);
        }
        meeting.times = (*times)++;
        ech_meets_print(r->scratch, meeting);
    }
    item->meets = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    return true;
}

bool ech_pretend_add_host_meeting(Reader *r, bool tells, GError **error)
{
    const Text *text = ech_pretend_text_of(r, r->lines.fields[1], error);
    if (!text)
        return false;
    EchMeeting meeting = {.group = r->lines.fields[2], .sends = tells, .buffer = tells ? 1 : 0, .hears = !tells};
    g_string_truncate(r->scratch, 0);
    ech_meets_print(r->scratch, meeting);
    EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
    item.issued = ech_pretend_time_of(r, r->lines.fields[0]);
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, 0);
    item.meets = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    item.name = ech_pretend_string_of(r, text);
    ech_capture_add(r->capture, &item);
    return true;
}

static const EchArguments *arguments_of(Reader *r, Text *text)
{
    if (!text->arguments) {
        text->arguments = g_new(EchArguments, 1);
        ech_arguments_read(ech_pretend_plain(r, text->at, text->n), text->arguments);
    }
    return text->arguments;
}

/* What the range of the kernel that was launched last, which is the kernel's own, tells of its @n arrays; NULL where it does not. */
static const EchGpuUse *told_uses(Reader *r, size_t n)
{
    const Kernel *kernel = r->launched && r->kernels->len > 0 ? &g_array_index(r->kernels, Kernel, r->kernels->len - 1) : NULL;
    if (!kernel || kernel->item != r->worked || kernel->call == UINT32_MAX)
        return NULL;
    Text *range = &g_array_index(r->texts, Text, g_array_index(r->calls, Call, kernel->call).name - 1);
    if (range->n <= r->launched->n || memcmp(range->at, r->launched->at, r->launched->n) != 0 || range->at[r->launched->n] != ',')
        return NULL;
    if (!range->uses) {
        range->uses = g_array_new(FALSE, FALSE, sizeof(EchGpuUse));
        g_autofree EchGpuInput *inputs = g_new(EchGpuInput, MAX_INPUTS);
        const char *name = ech_pretend_plain(r, range->at, range->n);
        ech_gpu_generated_uses(name, inputs, ech_range_inputs(name, ECH_DTYPE_F32, inputs, MAX_INPUTS), range->uses);
    }
    return range->uses->len == n && n > 0 ? &g_array_index(range->uses, EchGpuUse, 0) : NULL;
}

bool ech_pretend_add_arguments(Reader *r, GError **error)
{
    if (of_no_work(r, 2, error))
        return false;
    static const EchArguments unknown = {0};
    const GArray *list = r->lines.list;
    const EchGpuUse *uses = told_uses(r, list->len / 2);
    for (guint i = 0; uses && i < list->len; i += 2) {
        EchAddressAccess access = !uses[i / 2].writes ? ECH_ADDRESS_READ : uses[i / 2].reads ? ECH_ADDRESS_INOUT : ECH_ADDRESS_WRITE;
        ech_capture_use(r->capture, r->worked, (EchAddressUse){g_array_index(list, uint64_t, i + 1), uses[i / 2].bytes, access});
    }
    if (uses) {
        ech_capture_item(r->capture, r->worked)->told = true;
        return true;
    }
    const EchArguments *arguments = r->launched ? arguments_of(r, r->launched) : &unknown;
    for (guint i = 0, end; i < list->len; i = end) {
        uint64_t parameter = g_array_index(list, uint64_t, i);
        g_array_set_size(r->addresses, 0);
        for (end = i; end < list->len && g_array_index(list, uint64_t, end) == parameter; end += 2)
            g_array_append_val(r->addresses, g_array_index(list, uint64_t, end + 1));
        const uint64_t *addresses = (const uint64_t *)(const void *)r->addresses->data;
        for (guint k = 0; k < r->addresses->len; k++)
            ech_capture_use(r->capture, r->worked,
                            (EchAddressUse){addresses[k], 0,
                                            arguments->result_last ? ech_arguments_by_result(list, i + 2 * k + 1)
                                                                   : ech_arguments_access(arguments, parameter, addresses, r->addresses->len, k)});
    }
    ech_capture_item(r->capture, r->worked)->told = !arguments->beyond;
    ech_capture_item(r->capture, r->worked)->beyond = arguments->beyond;
    return true;
}
