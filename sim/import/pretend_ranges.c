#include "sim/import/pretend_private.h"

#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/range_sizes.h"
#include "sim/trace/ranges.h"
#include "sim/trace/step.h"
#include <stdio.h>
#include <string.h>

/* Deeper ranges are not kept; operators nest a few dozen deep. */
#define MAX_RANGES 512

static const Range no_range = {.path = UINT32_MAX, .call = UINT32_MAX, .module = UINT32_MAX, .called = UINT32_MAX, .beneath = UINT32_MAX, .node = ECH_NONE};

static uint32_t path_of(Reader *r, uint32_t parent, EchId name)
{
    uint64_t key = (uint64_t)parent << 32 | name;
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(r->index, &key));
    if (found)
        return found - 1;
    Path path = {parent, name, ECH_NONE, ECH_NONE};
    g_array_append_val(r->paths, path);
    g_hash_table_insert(r->index, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(r->paths->len));
    return r->paths->len - 1;
}

EchId ech_pretend_path_text(Reader *r, uint32_t at)
{
    Path *path = &g_array_index(r->paths, Path, at);
    if (path->text != ECH_NONE || r->budget == 0)
        return path->text != ECH_NONE ? path->text : path->name;
    g_string_truncate(r->scratch, 0);
    for (uint32_t i = at; i != UINT32_MAX && r->scratch->len <= r->budget; i = g_array_index(r->paths, Path, i).parent) {
        if (r->scratch->len)
            g_string_append_c(r->scratch, '\n');
        g_string_append(r->scratch, ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, i).name));
    }
    r->budget -= MIN(r->budget, r->scratch->len);
    path->text = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    return path->text;
}

GArray *ech_pretend_ranges_of(Reader *r, uint64_t thread)
{
    GArray *open = g_hash_table_lookup(r->open, &thread);
    if (!open) {
        open = g_array_new(FALSE, FALSE, sizeof(Range));
        g_hash_table_insert(r->open, g_memdup2(&thread, sizeof thread), open);
    }
    return open;
}

const Range *ech_pretend_innermost(const Reader *r)
{
    return r->active && r->active->len > 0 ? &g_array_index(r->active, Range, MIN(r->active->len, MAX_RANGES) - 1) : NULL;
}

Within ech_pretend_within(const Reader *r)
{
    const Range *range = ech_pretend_innermost(r);
    return range ? (Within){range->path, range->call} : (Within){UINT32_MAX, UINT32_MAX};
}

void ech_pretend_mark_in(Reader *r, const char *queue, EchTime time, const char *name, size_t length)
{
    EchItem item = ech_item_init(ECH_ITEM_MARK);
    item.issued = time;
    item.queue = ech_capture_queue(r->capture, queue, ECH_QUEUE_HOST, 0);
    item.name = ech_trace_builder_string(r->builder, name, (gssize)length);
    ech_capture_add(r->capture, &item);
}

void ech_pretend_mark_at(Reader *r, EchTime time, const char *name, size_t length)
{
    ech_pretend_mark_in(r, "nvtx", time, name, length);
}

void ech_pretend_mark_here(Reader *r, uint64_t time, const char *name, size_t length)
{
    r->marked |= ech_mark_is_optimizer(name) || ech_mark_is_module_call(name);
    ech_pretend_mark_at(r, ech_pretend_time_of(r, time), name, length);
}

/* Modules that are called, and what a compiled graph says of its kernels: modules by their paths from the one that was compiled on
 * (capture/pretend/python/pretend_regions.py). */
#define BELOW "nn.Module below: "
#define BACKWARD_BELOW "backward of " BELOW

static bool is_below(const char *name)
{
    return g_str_has_prefix(name, BELOW) || g_str_has_prefix(name, BACKWARD_BELOW);
}

bool ech_pretend_is_step(const char *name, const Range *around)
{
    return g_str_has_prefix(name, "Optimizer.step") || (!around && !strstr(name, "::") && !strstr(name, "Backward") && !is_below(name));
}

/* Autograd numbers an operator and the node that will run backward of it alike. Threads that run backward passes count for themselves. */
static uint64_t node_key(const Reader *r, uint64_t sequence, uint32_t backward)
{
    return (backward > 0 ? r->lines.fields[1] << 40 : 0) ^ sequence;
}

/* The path of a node of the backward pass is that of the module whose forward made it. */
static uint32_t node_path(Reader *r, Range *node, const Range *around, uint64_t sequence)
{
    uint64_t key = node_key(r, sequence, around->backward - 1);
    uint32_t module = GPOINTER_TO_UINT(g_hash_table_lookup(r->nodes, &key));
    if (!module)
        return around->path;
    node->beneath = node->called = module - 1;
    return path_of(r, module - 1, node->node);
}

static void note_moment(Reader *r, uint64_t time)
{
    Moment moment = {ech_pretend_time_of(r, time), ech_pretend_within(r).path};
    g_array_append_val(r->moments, moment);
}

/* "qkv (Linear)" below "nn.Module: layers.3 (Block)" is "nn.Module: layers.3.qkv (Linear)"; what is below a root, or nothing, has its own path. A root of its
 * own is "GPT" alone. */
static EchId joined_name(Reader *r, uint32_t called, const char *below)
{
    const char *outer =
        called != UINT32_MAX ? ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, called).name) + strlen(ECH_RANGE_MODULE) : "";
    const char *kind = strstr(outer, " (");
    g_autofree char *path = kind ? g_strndup(outer, (gsize)(kind - outer)) : NULL;
    g_autofree char *name = !path                 ? g_strconcat(ECH_RANGE_MODULE, below, NULL)
                            : strstr(below, " (") ? g_strconcat(ECH_RANGE_MODULE, path, ".", below, NULL)
                                                  : g_strconcat(ECH_RANGE_MODULE, path, " (", below, ")", NULL);
    return ech_trace_builder_string(r->builder, name, -1);
}

/* A module that a compiled graph tells; backward it stands beneath the node that runs, as a node stands in the module whose forward made it. */
static Range open_below(Reader *r, const Range *around, const char *name)
{
    Range range = around ? *around : no_range;
    bool backward = g_str_has_prefix(name, BACKWARD_BELOW);
    EchId module = joined_name(r, range.called, name + strlen(backward ? BACKWARD_BELOW : BELOW));
    range.evaluates = false;
    if (backward) {
        EchId node = range.node != ECH_NONE ? range.node : ech_trace_builder_string(r->builder, ECH_RANGE_BACKWARD "CompiledFunctionBackward", -1);
        range.module = range.beneath = path_of(r, range.beneath, module);
        range.path = path_of(r, range.beneath, node);
    } else
        range.module = range.path = path_of(r, range.path, module);
    return range;
}

static Range open_range(Reader *r, const Range *around, const char *name)
{
    if (is_below(name))
        return open_below(r, around, name);
    const char *number = strstr(name, ", seq = ");
    uint64_t sequence = number ? g_ascii_strtoull(number + 8, NULL, 10) : 0;
    uint32_t parent = around ? around->path : UINT32_MAX;
    Range range = around ? *around : no_range;
    range.call = UINT32_MAX;
    if (number && around && around->evaluates) {
        parent = node_path(r, &range, around, sequence);
    } else if (number && range.module != UINT32_MAX) {
        uint64_t key = node_key(r, sequence, range.backward);
        g_hash_table_insert(r->nodes, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(range.module + 1));
    }
    range.path = path_of(r, parent, ech_trace_builder_string(r->builder, name, (gssize)ech_range_bare_length(name)));
    range.evaluates = g_str_has_prefix(name, ECH_RANGE_BACKWARD);
    if (range.evaluates) {
        range.backward++;
        range.beneath = parent;
        range.node = g_array_index(r->paths, Path, range.path).name;
    }
    if (g_str_has_prefix(name, ECH_RANGE_MODULE))
        range.module = range.called = range.path;
    return range;
}

/* Whether PyTorch's own range @name says again, without its types, the call that is around it, or is what FBGEMM's operator around it calls in turn, or
 * attention's of PyTorch, whose arguments it has in another order. */
static bool says_again(Reader *r, const Range *around, const char *name)
{
    if (!around || around->call == UINT32_MAX || strstr(name, ", types = ["))
        return false;
    const Text *text = &g_array_index(r->texts, Text, g_array_index(r->calls, Call, around->call).name - 1);
    size_t n = ech_range_bare_length(name);
    if (g_str_has_prefix(name, "fbgemm::") && strstr(name, "embedding_") && memmem(text->at, text->n, "_pt2_wrapper, sizes", 19))
        return true;
    if (g_str_has_prefix(name, "aten::_efficient_attention_") && g_strstr_len(text->at, (gssize)text->n, "_scaled_dot_product_efficient_attention"))
        return g_strstr_len(text->at, (gssize)text->n, ", types = [") != NULL;
    return text->n > n && memcmp(text->at, name, n) == 0 && text->at[n] == ',' && g_strstr_len(text->at, (gssize)text->n, ", types = [");
}

/* The name of the innermost range from @around on that tells types. */
static uint32_t tells_types(Reader *r, const Range *around)
{
    const Call *call = around && around->call != UINT32_MAX ? &g_array_index(r->calls, Call, around->call) : NULL;
    if (!call || call->around != 0)
        return call ? call->around : 0;
    const Text *text = &g_array_index(r->texts, Text, call->name - 1);
    return g_strstr_len(text->at, (gssize)text->n, ", types = [") ? call->name : 0;
}

/* Where a backward pass begins behind another's end. */
static void note_backward(Reader *r, const Range *around, const char *name)
{
    bool within = around && around->backward > 0, begins = !within && g_str_has_prefix(name, ECH_RANGE_BACKWARD);
    if (begins && !r->runs_backward) {
        EchTime time = ech_pretend_time_of(r, r->lines.fields[0]);
        g_array_append_val(r->backward, time);
    }
    r->runs_backward = begins || (within && r->runs_backward) || (r->runs_backward && strncmp(name, "aten::", 6) != 0);
}

bool ech_pretend_add_push(Reader *r, GError **error)
{
    const Text *text = ech_pretend_text_of(r, r->lines.fields[2], error);
    if (!text)
        return false;
    r->active = ech_pretend_ranges_of(r, r->lines.fields[1]);
    r->thread = (uint32_t)r->lines.fields[1];
    const Range *around = ech_pretend_innermost(r);
    const char *name = ech_pretend_plain(r, text->at, text->n);
    bool sized = strstr(name, ", sizes = [") != NULL;
    r->operators += (sized || g_str_has_prefix(name, "autograd::engine::")) && r->operators < UINT32_MAX;
    r->eager |= sized;
    Range range = no_range;
    /* An operator's sizes are not those of what it calls in turn. */
    if (ech_pretend_is_step(name, around))
        ech_pretend_mark_here(r, r->lines.fields[0], name, ech_range_bare_length(name));
    note_backward(r, around, name);
    if (r->active->len < MAX_RANGES) {
        range = open_range(r, around, name);
        if (sized && !says_again(r, around, name)) {
            Call call = {.name = (uint32_t)r->lines.fields[2], .around = ech_range_tells_types(name) ? 0 : tells_types(r, around)};
            g_array_append_val(r->calls, call);
            range.call = r->calls->len - 1;
        } else if (around && (sized || strncmp(name, "aten::", 6) != 0)) {
            range.call = around->call;
        }
    }
    g_array_append_val(r->active, range);
    note_moment(r, r->lines.fields[0]);
    return true;
}

void ech_pretend_add_pop(Reader *r)
{
    r->active = ech_pretend_ranges_of(r, r->lines.fields[1]);
    r->thread = (uint32_t)r->lines.fields[1];
    if (r->active->len > 0)
        g_array_set_size(r->active, r->active->len - 1);
    else
        ech_diag_note(r->ret->diag, "range_ends_without_begin", 1);
    note_moment(r, r->lines.fields[0]);
}

/* "nn.Module: layers.3.mlp (MLP)" as "layers.*.mlp (MLP)": layers of a network share a name. */
static void append_module(GString *out, const char *name)
{
    const char *at = name + strlen(ECH_RANGE_MODULE);
    while (*at) {
        size_t n = strcspn(at, ". "), digits = strspn(at, "0123456789");
        g_string_append_len(out, digits == n && n > 0 ? "*" : at, digits == n && n > 0 ? 1 : (gssize)n);
        at += n;
        if (*at)
            g_string_append_c(out, *at++);
    }
}

/* What is within @path: "AddmmBackward0 of layers.*.mlp (MLP)", "aten::cat in layers.*.mlp (MLP)". */
static EchId path_label(Reader *r, uint32_t path)
{
    Path *labelled = &g_array_index(r->paths, Path, path);
    if (labelled->label != ECH_NONE)
        return labelled->label;
    const char *called = NULL, *module = NULL, *node = NULL;
    for (uint32_t i = path; i != UINT32_MAX && !module; i = g_array_index(r->paths, Path, i).parent) {
        const char *name = ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, i).name);
        if (g_str_has_prefix(name, ECH_RANGE_MODULE))
            module = name;
        else if (g_str_has_prefix(name, ECH_RANGE_BACKWARD))
            node = name + strlen(ECH_RANGE_BACKWARD);
        else
            called = name; /* the outermost is what the program called */
    }
    g_string_assign(r->scratch, node ? node : called ? called : "");
    if (module) {
        if (r->scratch->len)
            g_string_append(r->scratch, node ? " of " : " in ");
        append_module(r->scratch, module);
    }
    labelled->label = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    return labelled->label;
}

void ech_pretend_name_block(void *data, EchTime time, EchId *ret_name, EchId *ret_stack)
{
    Reader *r = data;
    size_t low = 0, high = r->moments->len; /* the first moment after it; the snapshot counts whole microseconds */
    ECH_SEARCH(low, high, middle, g_array_index(r->moments, Moment, middle).time <= time + ECH_PS_PER_US / 2);
    uint32_t path = low > 0 ? g_array_index(r->moments, Moment, low - 1).path : UINT32_MAX;
    if (path == UINT32_MAX)
        return;
    *ret_name = path_label(r, path);
    *ret_stack = ech_pretend_path_text(r, path);
}

/* Before the outermost module is called (capture/pretend/python/sitecustomize.py): rows of a batch, and where the arrays lie that it is given. */
#define GIVEN "nn.Module given: "

static void add_given(Reader *r, uint64_t time, const char *told)
{
    EchItem item = ech_item_init(ECH_ITEM_GIVEN);
    item.issued = ech_pretend_time_of(r, time);
    item.queue = ech_capture_queue(r->capture, "nvtx", ECH_QUEUE_HOST, 0);
    char *at;
    item.bytes = g_ascii_strtoull(told, &at, 10);
    while (*at == ' ' && g_ascii_isdigit(at[1])) {
        item.address = g_ascii_strtoull(at, &at, 10);
        ech_capture_add(r->capture, &item);
    }
}

/* A measure of PyTorch's was applied that the program does not have itself (capture/pretend/python/pretend_with.py). */
#define WITH "echelon with: "

static void add_with(Reader *r, const char *measure)
{
    enum { MOST = 1000 }; /* characters of all */
    g_auto(GStrv) known = g_strsplit(r->with->str, ",", -1);
    if (g_strv_contains((const char *const *)known, measure) || r->with->len + strlen(measure) > MOST)
        return; /* of several processes, or models */
    g_string_append_printf(r->with, "%s%s", r->with->len > 0 ? "," : "", measure);
    ech_trace_builder_set_property(r->builder, ECH_TRACE_WITH, r->with->str);
}

/* Which PyTorch the program runs; of another than 2.N nothing is known that would hang on it. */
static void add_release(Reader *r, const char *version)
{
    unsigned minor;
    if (sscanf(version, "2.%2u.", &minor) == 1)
        ech_trace_builder_printf_property(r->builder, ECH_TRACE_TORCH_RELEASE, "%u", minor);
}

bool ech_pretend_add_mark(Reader *r, GError **error)
{
    const Text *text = ech_pretend_text_of(r, r->lines.fields[2], error);
    if (!text)
        return false;
    const char *name = ech_pretend_plain(r, text->at, text->n);
    if (g_str_has_prefix(name, GIVEN))
        add_given(r, r->lines.fields[0], name + strlen(GIVEN));
    else if (g_str_has_prefix(name, WITH))
        add_with(r, name + strlen(WITH));
    else if (g_str_has_prefix(name, ECH_MARK_TORCH))
        add_release(r, name + strlen(ECH_MARK_TORCH));
    else if (strcmp(name, ECH_MARK_KEEPS) == 0)
        ech_trace_builder_set_property(r->builder, ECH_TRACE_KEEPS, "true");
    else if (g_str_has_prefix(name, ECH_MARK_NO_ROOM))
        ech_trace_builder_set_property(r->builder, ECH_TRACE_NO_ROOM, name + strlen(ECH_MARK_NO_ROOM));
    else
        ech_pretend_mark_here(r, r->lines.fields[0], name, r->scratch->len);
    return true;
}
