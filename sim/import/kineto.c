/* PyTorch profiler (Kineto) traces: Chrome JSON of 2021 to today, CUDA, ROCm and CPU only.
 *
 * One pass over a streaming tokenizer. Kept of an event: what ran on the device, allocator events, waits, annotations. CPU
 * operators and Python functions become the stacks of what they launched; runtime calls become the times of issue, joined
 * by correlation. Kernels get traffic and operation counts from the recorded shapes of the operator that launched them.
 */
#include "sim/import/kineto.h"

#include "sim/base/error.h"
#include "sim/base/fnv.h"
#include "sim/base/hash.h"
#include "sim/import/tool_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All names a kind of record has had, in lower case. */
static const struct {
    const char *name;
    Category category;
} categories[] = {
    {"kernel", CAT_KERNEL},
    {"gpu_memcpy", CAT_MEMCPY},
    {"memcpy", CAT_MEMCPY},
    {"gpu_memset", CAT_MEMSET},
    {"memset", CAT_MEMSET},
    {"cuda_runtime", CAT_RUNTIME},
    {"cuda_driver", CAT_RUNTIME},
    {"hip_runtime", CAT_RUNTIME},
    {"runtime", CAT_RUNTIME},
    {"xpu_runtime", CAT_RUNTIME},
    {"xpu_driver", CAT_RUNTIME},
    {"mtia_runtime", CAT_RUNTIME},
    {"privateuse1_runtime", CAT_RUNTIME},
    {"privateuse1_driver", CAT_RUNTIME},
    {"cpu_op", CAT_CPU_OP},
    {"operator", CAT_CPU_OP},
    {"python_function", CAT_PYTHON},
    {"user_annotation", CAT_ANNOTATION},
    {"gpu_user_annotation", CAT_GPU_ANNOTATION},
    {"cpu_instant_event", CAT_INSTANT},
    {"cuda_sync", CAT_SYNC},
    {"ac2g", CAT_FLOW},
    {"async", CAT_FLOW},
    {"async_cpu_to_gpu", CAT_FLOW},
    {"async_gpu", CAT_FLOW},
    {"fwdbwd", CAT_FLOW},
    {"node", CAT_NODE},
};

/* ---- small things ---- */

static inline G_ALWAYS_INLINE bool is(const char *text, size_t n, const char *what)
{
    return strlen(what) == n && memcmp(text, what, n) == 0;
}

static Category category_of(const char *text, size_t n)
{
    for (size_t i = 0; i < G_N_ELEMENTS(categories); i++) {
        if (strlen(categories[i].name) == n && g_ascii_strncasecmp(categories[i].name, text, n) == 0)
            return categories[i].category;
    }
    return CAT_OTHER;
}

static void clear_kind(gpointer data)
{
    g_free(((Kind *)data)->name);
}

/* Files have a dozen of them. */
static uint32_t kind_of(Reader *r, const char *text, size_t n)
{
    n = MIN(n, (size_t)256);
    for (guint i = 0; i < r->kinds->len; i++) {
        const Kind *kind = &g_array_index(r->kinds, Kind, i);
        if (kind->n == n && memcmp(kind->name, text, n) == 0)
            return i;
    }
    Kind kind = {g_strndup(text, n), n, category_of(text, n), 0};
    if (r->kinds->len >= MAX_KINDS) {
        g_free(kind.name);
        if (r->kinds->len > MAX_KINDS)
            return MAX_KINDS;
        kind = (Kind){g_strdup("(others)"), strlen("(others)"), CAT_OTHER, 0};
    }
    g_array_append_val(r->kinds, kind);
    return r->kinds->len - 1;
}

/* ---- several processes in one file ---- */

/* A number of the event's process, where there are several: correlations, operators and threads of each begin anew. They have fewer bits than this. */
static int64_t of_process(const Event *e, int64_t number)
{
    return number < 0 || e->process == 0 ? number : number ^ (int64_t)((uint64_t)e->process << 48);
}

/* Processes of one file are told apart by what whoever merged their profiles put before each pid, "[TP01] 0" (SGLang's merger), or added to the arguments,
 * "rank" beside "pid_raw" (TraceLens's). Their place + 1. */
static uint32_t process_of(Reader *r, const char *name, size_t n)
{
    enum { MAX_PROCESSES = 8192 };
    char key[64];
    g_snprintf(key, sizeof key, "%.*s", (int)MIN(n, sizeof key - 1), name);
    guint place = GPOINTER_TO_UINT(g_hash_table_lookup(r->processes, key));
    if (place == 0) {
        place = MIN(g_hash_table_size(r->processes) + 1, (guint)MAX_PROCESSES);
        if (g_hash_table_size(r->processes) < MAX_PROCESSES)
            g_hash_table_insert(r->processes, g_strdup(key), GUINT_TO_POINTER(place));
    }
    return place;
}

/* The number of a process's device: its own unless it is another's already (ranks on several machines), then the next that is free. */
static int64_t device_of(Reader *r, uint32_t process, int64_t device)
{
    if (device < 0 || device >= MAX_SPACES)
        return device;
    gpointer key = GSIZE_TO_POINTER(((gsize)process << 16 | (gsize)device) + 1);
    guint number = GPOINTER_TO_UINT(g_hash_table_lookup(r->numbered, key));
    if (number)
        return (int64_t)number - 1;
    number = r->taken[device] ? 0 : (guint)device;
    while (number + 1 < MAX_SPACES && r->taken[number])
        number++;
    if (r->taken[number])
        ech_diag_dropped(r->ret->diag, "devices_beyond_1000", 1, "device %" G_GINT64_FORMAT, device);
    r->taken[number] = true;
    g_hash_table_insert(r->numbered, key, GUINT_TO_POINTER(number + 1));
    return number;
}

/* What the event says of its process's own numbers, as numbers of the whole file. */
static void tell_process(Reader *r)
{
    Event *e = &r->e;
    char name[32];
    if (e->process == 0 && e->raw_pid >= 0 && e->rank >= 0) {
        int n = g_snprintf(name, sizeof name, "%" G_GINT64_FORMAT, e->rank);
        e->process = process_of(r, name, (size_t)n);
    }
    bool device =
        e->category == CAT_KERNEL || e->category == CAT_MEMCPY || e->category == CAT_MEMSET || e->category == CAT_SYNC || e->category == CAT_GPU_ANNOTATION;
    if (device)
        e->device = device_of(r, e->process, e->device >= 0 ? e->device : e->raw_pid >= 0 ? e->raw_pid : e->pid);
    if (e->process == 0)
        return;
    e->correlation = of_process(e, e->correlation);
    e->external = of_process(e, e->external);
    e->wait_record = of_process(e, e->wait_record);
    if (e->device_type != 0)
        e->device_id = device_of(r, e->process, e->device_id);
    if (e->from_device >= 0 && e->to_device >= 0) {
        e->from_device = device_of(r, e->process, e->from_device);
        e->to_device = device_of(r, e->process, e->to_device);
    }
}

/* ---- small things of an event ---- */

static uint32_t thread_of(Reader *r, int64_t tid)
{
    gpointer key = GSIZE_TO_POINTER((gsize)of_process(&r->e, tid));
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(r->threads, key));
    if (!found) {
        found = g_hash_table_size(r->threads) + 1;
        g_hash_table_insert(r->threads, key, GUINT_TO_POINTER(found));
    }
    return found - 1;
}

/* An integer that may be quoted, with text around it: 7, "7", "stream 7". */
static int64_t loose_integer(const char *text, size_t n)
{
    int64_t value;
    if (ech_json_parse_whole(text, n, &value))
        return value;
    size_t at = n;
    while (at > 0 && g_ascii_isdigit(text[at - 1]))
        at--;
    if (at < n && ech_json_parse_i64(text + at, n - at, &value))
        return value;
    return -1;
}

/* ---- one event ---- */

static bool in_range(Reader *r, int64_t us, int32_t ps, int64_t base, EchTime *ret)
{
    int64_t difference;
    if (__builtin_sub_overflow(us, base, &difference) || difference > INT64_MAX / ECH_PS_PER_US / 4 || difference < -(INT64_MAX / ECH_PS_PER_US / 4)) {
        ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return false;
    }
    *ret = difference * ECH_PS_PER_US + ps;
    return true;
}

/* Times are kept from that of the first event that is used: of metadata some have none and say 0. */
static void place_in_time(Reader *r)
{
    Event *e = &r->e;
    if (!r->has_base) {
        r->base_us = e->stamp_us;
        r->has_base = true;
    }
    e->has_time = in_range(r, e->stamp_us, e->stamp_ps, r->base_us, &e->start);
}

/* The value after a key, as text; containers are skipped and give "". False on damage. */
static bool scalar(Reader *r, const char **ret, size_t *ret_n)
{
    *ret = "";
    *ret_n = 0;
    switch (ech_json_next(r->json)) {
    case ECH_JSON_STRING:
    case ECH_JSON_NUMBER: *ret = ech_json_text(r->json, ret_n); return true;
    case ECH_JSON_TRUE:
    case ECH_JSON_FALSE:
    case ECH_JSON_NULL: return true;
    case ECH_JSON_OBJECT:
    case ECH_JSON_ARRAY: {
        unsigned depth = ech_json_depth(r->json);
        EchJsonToken token;
        do
            token = ech_json_next(r->json);
        while (token != ECH_JSON_BAD && ech_json_depth(r->json) >= depth);
        return token != ECH_JSON_BAD;
    }
    case ECH_JSON_END:
    case ECH_JSON_BAD:
    case ECH_JSON_OBJECT_END:
    case ECH_JSON_ARRAY_END:
    case ECH_JSON_KEY: break;
    }
    return false;
}

/* "Input Dims": [[64,256],[],[[2,3],[4,5]]]: one entry per input, lists of tensors one level deeper. */
static bool read_dims(Reader *r)
{
    Event *e = &r->e;
    e->n_inputs = 0;
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_ARRAY)
        return token != ECH_JSON_BAD;
    unsigned base = ech_json_depth(r->json);
    Input scratch = {0}, *input = &scratch;
    uint64_t product = 1;
    bool open = false;
    while ((token = ech_json_next(r->json)) != ECH_JSON_BAD) {
        unsigned depth = ech_json_depth(r->json);
        if (token == ECH_JSON_ARRAY_END && depth < base)
            return true;
        if (token == ECH_JSON_ARRAY && depth == base + 1) {
            input = e->n_inputs < MAX_INPUTS ? &e->inputs[e->n_inputs++] : &scratch;
            /* Types, strides and values may have come before. */
            input->numel = input->largest = 0;
            input->rank = 0;
            input->list = input->known = false;
        }
        if (token == ECH_JSON_ARRAY) {
            input->list |= depth > base + 1;
            product = 1;
            open = false;
        } else if (token == ECH_JSON_NUMBER) {
            size_t n;
            const char *text = ech_json_text(r->json, &n);
            int64_t dim;
            if (ech_json_parse_whole(text, n, &dim) && dim >= 0) {
                product = ech_bytes_mul(product, (uint64_t)dim);
                open = true;
                if (!input->list && input->rank < MAX_RANK)
                    input->dims[input->rank++] = dim;
            }
        } else if (token == ECH_JSON_ARRAY_END && open) {
            input->numel = ech_bytes_add(input->numel, product);
            input->largest = input->list ? MAX(input->largest, product) : 0;
            input->known = true;
            open = false;
        } else if (token == ECH_JSON_OBJECT) {
            return false;
        }
    }
    return false;
}

/* A walk through the list that a member is, with what is in lists of it; zeros begin it. */
typedef struct {
    EchJsonToken token; /* the last; ECH_JSON_BAD: the file is damaged */
    unsigned base;      /* depth of the list; 0: not begun */
    unsigned depth;     /* of the token below the list: 0 for a member that is no list */
    size_t n;           /* texts and lists that began so far as members */
} List;

/* To the next token of it; false at its end, where it is no list, and at damage. */
static bool list_next(Reader *r, List *list)
{
    list->token = ech_json_next(r->json);
    if (list->base == 0) {
        if (list->token != ECH_JSON_ARRAY)
            return false;
        list->base = ech_json_depth(r->json);
        list->token = ech_json_next(r->json);
    }
    unsigned depth = ech_json_depth(r->json);
    if (list->token == ECH_JSON_BAD || depth < list->base)
        return false;
    list->depth = depth - list->base;
    list->n += (list->token == ECH_JSON_STRING && list->depth == 0) || (list->token == ECH_JSON_ARRAY && list->depth == 1);
    return true;
}

/* "Input type": ["float", "c10::BFloat16", ""], in step with the dims; either may come first. */
static bool read_types(Reader *r)
{
    Event *e = &r->e;
    List list = {0};
    while (list_next(r, &list)) {
        if (list.token != ECH_JSON_STRING || list.depth != 0 || list.n > MAX_INPUTS)
            continue;
        size_t n;
        const char *text = ech_json_text(r->json, &n);
        e->inputs[list.n - 1].dtype = (uint8_t)ech_gpu_torch_dtype(text, n);
    }
    e->n_types = MIN(list.n, (size_t)MAX_INPUTS);
    return list.token != ECH_JSON_BAD;
}

/* "Input Strides": [[4096, 1], []]: those of lists are passed over. */
static bool read_strides(Reader *r)
{
    Event *e = &r->e;
    List list = {0};
    while (list_next(r, &list)) {
        if (list.token != ECH_JSON_NUMBER || list.depth != 1 || list.n == 0 || list.n > MAX_INPUTS)
            continue;
        Input *input = &e->inputs[list.n - 1];
        size_t n;
        const char *text = ech_json_text(r->json, &n);
        int64_t stride;
        if (input->n_strides < MAX_RANK && ech_json_parse_whole(text, n, &stride))
            input->strides[input->n_strides++] = stride;
        e->n_details = MAX(e->n_details, list.n);
    }
    return list.token != ECH_JSON_BAD;
}

/* The integers of "[14, -14]" or "1", as many as are kept. */
static void take_integers(Input *input, const char *text, size_t n)
{
    for (size_t i = 0; i < n && n <= 64 && input->n_integers < ECH_GPU_MAX_INTEGERS;) {
        size_t from = i;
        while (i < n && (g_ascii_isdigit(text[i]) || text[i] == '-'))
            i++;
        int64_t value;
        bool whole = i == n || text[i] == ',' || text[i] == ']';
        if (i > from && whole && ech_json_parse_i64(text + from, i - from, &value))
            input->integers[input->n_integers++] = value;
        i += i == from || !whole;
    }
}

/* "Concrete Inputs": ["", "[14, 14]", "1", "True"]: the first integers of each. */
static bool read_values(Reader *r)
{
    Event *e = &r->e;
    List list = {0};
    while (list_next(r, &list)) {
        if (list.token != ECH_JSON_STRING || list.depth != 0 || list.n > MAX_INPUTS)
            continue;
        Input *input = &e->inputs[list.n - 1];
        size_t n;
        const char *text = ech_json_text(r->json, &n);
        input->truth = is(text, n, "True");
        input->fraction = n > 2 && text[0] == '0' && text[1] == '.' && strspn(text + 2, "0") < n - 2;
        take_integers(input, text, n);
        e->n_details = MAX(e->n_details, list.n);
    }
    return list.token != ECH_JSON_BAD;
}

/* "grid": [96, 1, 1] */
static bool read_triple(Reader *r, uint32_t *ret)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_ARRAY)
        return token != ECH_JSON_BAD && token != ECH_JSON_OBJECT;
    size_t at = 0;
    while ((token = ech_json_next(r->json)) == ECH_JSON_NUMBER) {
        size_t n;
        const char *text = ech_json_text(r->json, &n);
        int64_t value;
        if (at < 3 && ech_json_parse_whole(text, n, &value) && value > 0 && value <= UINT32_MAX)
            ret[at++] = (uint32_t)value;
    }
    for (; at > 0 && at < 3; at++)
        ret[at] = 1;
    return token == ECH_JSON_ARRAY_END;
}

/* What torch_npu tells of each task. */
static bool read_task(Reader *r)
{
    r->elsewhere = "an Ascend NPU";
    return ech_json_skip(r->json);
}

static bool read_grid(Reader *r)
{
    return read_triple(r, r->e.launch.grid);
}

static bool read_block(Reader *r)
{
    return read_triple(r, r->e.launch.block);
}

/* What is taken of an argument: a list by a function, a text, or a number. Nothing set: it is passed over. */
typedef struct {
    bool (*read)(Reader *r);
    GString *text;
    int64_t *number;
    uint8_t *has; /* says that the number was there, or NULL */
    bool loose;   /* the number may stand in a text */
} Arg;

/* By length first: every key of a file of gigabytes comes by here. */
static Arg arg_of(Event *e, const char *key, size_t n)
{
    switch (n) {
    case 3: return (Arg){.number = is(key, n, "Seq") ? &e->sequence : NULL};
    case 4:
        if (is(key, n, "grid"))
            return (Arg){.read = read_grid};
        if (is(key, n, "Addr"))
            return (Arg){.number = &e->address, .has = &e->has_address};
        if (is(key, n, "rank"))
            return (Arg){.number = &e->rank};
        return (Arg){.text = is(key, n, "kind") ? e->kind : NULL};
    case 5:
        if (is(key, n, "dtype"))
            return (Arg){.text = e->dtype};
        if (is(key, n, "block"))
            return (Arg){.read = read_block};
        if (g_ascii_strncasecmp(key, "bytes", 5) == 0)
            return (Arg){.number = &e->bytes, .has = &e->has_bytes};
        break;
    case 6: return (Arg){.number = is(key, n, "device") ? &e->device : is(key, n, "stream") ? &e->stream : NULL, .loose = true};
    case 7:
        if (is(key, n, "pid_raw"))
            return (Arg){.number = &e->raw_pid};
        return (Arg){.text = is(key, n, "op_name") ? e->op : NULL};
    case 8:
        if (is(key, n, "provider"))
            return (Arg){.text = e->provider};
        if (is(key, n, "Src Rank"))
            return (Arg){.number = &e->from_rank};
        if (is(key, n, "Dst Rank"))
            return (Arg){.number = &e->to_rank};
        return (Arg){.number = is(key, n, "toDevice") ? &e->to_device : NULL};
    case 9:
        if (is(key, n, "Task Type"))
            return (Arg){.read = read_task};
        return (Arg){.number = is(key, n, "Device Id") ? &e->device_id : NULL};
    case 10:
        if (is(key, n, "Input Dims"))
            return (Arg){.read = read_dims};
        if (is(key, n, "Input type"))
            return (Arg){.read = read_types};
        if (is(key, n, "node_index"))
            return (Arg){.number = &e->node};
        if (is(key, n, "Group size"))
            return (Arg){.number = &e->group};
        return (Arg){.number = is(key, n, "fromDevice") ? &e->from_device : NULL};
    case 11:
        if (is(key, n, "correlation"))
            return (Arg){.number = &e->correlation};
        if (is(key, n, "output_size"))
            return (Arg){.number = &e->output};
        if (g_ascii_strncasecmp(key, "external id", 11) == 0)
            return (Arg){.number = &e->external};
        return (Arg){.number = is(key, n, "Device Type") ? &e->device_type : NULL};
    case 13:
        if (is(key, n, "Input Strides"))
            return (Arg){.read = read_strides};
        if (is(key, n, "In msg nelems"))
            return (Arg){.number = &e->sent_elements};
        return (Arg){.number = is(key, n, "shared memory") ? &e->shared : NULL};
    case 14:
        if (is(key, n, "Total Reserved"))
            return (Arg){.number = &e->total_reserved, .has = &e->has_reserved};
        if (is(key, n, "parameter_size"))
            return (Arg){.number = &e->parameters};
        if (is(key, n, "cuda_sync_kind"))
            return (Arg){.text = e->sync};
        return (Arg){.number = is(key, n, "wait_on_stream") ? &e->wait_stream : NULL};
    case 15:
        if (is(key, n, "Concrete Inputs"))
            return (Arg){.read = read_values};
        if (is(key, n, "mem_in_use_peak"))
            return (Arg){.number = &e->in_use};
        if (is(key, n, "Total Allocated"))
            return (Arg){.number = &e->total_allocated, .has = &e->has_allocated};
        return (Arg){.text = is(key, n, "Collective name") ? e->collective : NULL};
    case 19: return (Arg){.text = is(key, n, "Process Group Ranks") ? e->ranks : NULL};
    case 18: return (Arg){.text = is(key, n, "Process Group Name") ? e->of_group : NULL};
    case 20: return (Arg){.number = is(key, n, "registers per thread") ? &e->registers : NULL};
    case 33: return (Arg){.number = is(key, n, "wait_on_cuda_event_record_corr_id") ? &e->wait_record : NULL};
    default: break;
    }
    return (Arg){0};
}

/* The value of an argument that is no list. */
static bool take_arg(Reader *r, const Arg *arg)
{
    const char *text;
    size_t n;
    if (!scalar(r, &text, &n))
        return false;
    int64_t value;
    if (arg->text) {
        g_string_truncate(arg->text, 0);
        g_string_append_len(arg->text, text, (gssize)n);
    } else if (ech_json_parse_whole(text, n, &value)) {
        *arg->number = value;
        if (arg->has)
            *arg->has = 1;
    } else if (arg->loose) {
        *arg->number = loose_integer(text, n);
    }
    return true;
}

static bool read_args(Reader *r)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_OBJECT)
        return token != ECH_JSON_BAD;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        size_t n;
        const char *key = ech_json_text(r->json, &n);
        Arg arg = arg_of(&r->e, key, n);
        bool ok = arg.read ? arg.read(r) : arg.text || arg.number ? take_arg(r, &arg) : ech_json_skip(r->json);
        if (!ok)
            return false;
    }
    return token == ECH_JSON_OBJECT_END;
}

static void reset(Event *e)
{
    GString *name = e->name, *kind = e->kind, *sync = e->sync, *collective = e->collective, *dtype = e->dtype, *ranks = e->ranks, *of_group = e->of_group,
            *op = e->op, *provider = e->provider;
    g_string_truncate(name, 0);
    g_string_truncate(kind, 0);
    g_string_truncate(sync, 0);
    g_string_truncate(collective, 0);
    g_string_truncate(dtype, 0);
    g_string_truncate(ranks, 0);
    g_string_truncate(of_group, 0);
    g_string_truncate(op, 0);
    g_string_truncate(provider, 0);
    /* Inputs are only read up to n_inputs and cleared as they are filled. */
    for (size_t i = 0; i < MAX(MAX(e->n_inputs, e->n_types), e->n_details); i++)
        e->inputs[i] = (Input){0};
    memset(e, 0, offsetof(Event, inputs));
    e->name = name;
    e->kind_index = ECH_NONE;
    e->kind = kind;
    e->sync = sync;
    e->collective = collective;
    e->dtype = dtype;
    e->ranks = ranks;
    e->of_group = of_group;
    e->op = op;
    e->provider = provider;
    e->pid = e->tid = e->correlation = e->external = e->stream = e->device = e->wait_stream = e->wait_record = e->from_device = e->to_device = e->device_id =
        e->rank = e->raw_pid = e->sent_elements = e->group = e->sequence = e->from_rank = e->to_rank = e->node = e->parameters = e->output = e->in_use = -1;
}

/* ---- what an event becomes ---- */

static uint32_t event_device(const Event *e)
{
    int64_t device = e->device >= 0 ? e->device : e->pid;
    return device >= 0 && device < MAX_SPACES ? (uint32_t)device : 0;
}

/* Where an event of a device ran; its thread stands for the stream where none is told. */
static uint32_t stream_of(Reader *r, const Event *e)
{
    uint32_t queue = ech_capture_stream(r->capture, event_device(e), e->stream >= 0 ? e->stream : e->tid);
    if (e->process)
        ech_capture_set_process(r->capture, queue, e->process);
    return queue;
}

void ech_kineto_add_item(Reader *r, const EchItem *item, int64_t correlation, int64_t external, uint32_t thread)
{
    Side side = {correlation, external, thread, ECH_NONE};
    ech_capture_add(r->capture, item);
    g_array_append_val(r->sides, side);
}

static EchItem base_item(Reader *r, EchItemKind kind)
{
    const Event *e = &r->e;
    EchItem item = ech_item_init(kind);
    item.name = ech_trace_builder_string(r->builder, e->name->str, (gssize)e->name->len);
    item.issued = item.start = e->start;
    if (e->has_duration)
        item.duration = e->duration;
    return item;
}

static bool has(const GString *text, const char *what)
{
    return strstr(text->str, what) != NULL;
}

/* Tiers from "Memcpy HtoD (Pageable -> Device)", AMD's kind "HtoD", or the old "CopyHostToDevice". */
static bool direction(const Event *e, uint8_t *ret_from, uint8_t *ret_to)
{
    static const struct {
        const char *mark;
        uint8_t from, to;
    } marks[] = {
        {"HtoD", ECH_TIER_HOST, ECH_TIER_DEVICE},         {"DtoH", ECH_TIER_DEVICE, ECH_TIER_HOST},
        {"DtoD", ECH_TIER_DEVICE, ECH_TIER_DEVICE},       {"PtoP", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
        {"HtoH", ECH_TIER_HOST, ECH_TIER_HOST},           {"HostToDevice", ECH_TIER_HOST, ECH_TIER_DEVICE},
        {"DeviceToHost", ECH_TIER_DEVICE, ECH_TIER_HOST}, {"DeviceToDevice", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
        {"HtoA", ECH_TIER_HOST, ECH_TIER_DEVICE},         {"AtoH", ECH_TIER_DEVICE, ECH_TIER_HOST},
        {"M2D", ECH_TIER_HOST, ECH_TIER_DEVICE},          {"D2M", ECH_TIER_DEVICE, ECH_TIER_HOST},
        {"AtoD", ECH_TIER_DEVICE, ECH_TIER_DEVICE},       {"DtoA", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
        {"AtoA", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
    };
    const GString *texts[] = {e->name, e->kind};
    for (size_t t = 0; t < G_N_ELEMENTS(texts); t++) {
        for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
            if (has(texts[t], marks[i].mark)) {
                *ret_from = marks[i].from;
                *ret_to = marks[i].to;
                return true;
            }
        }
    }
    return false;
}

/* Whom the collective meets: its process group by name and ranks, of which all ranks that are profiled say the same, and of a message who sends to whom. Those
 * that are numbered ("Seq") are groups of their own. */
static void meet(Reader *r, const Event *e, const EchItem *item)
{
    const int64_t numbers[] = {e->group, e->sequence};
    bool sends = item->from == ECH_COLLECTIVE_SEND, message = sends || item->from == ECH_COLLECTIVE_RECV;
    Met met = {.item = (uint32_t)ech_capture_n_items(r->capture), .process = e->process, .from = e->from_rank, .to = e->to_rank};
    if (message)
        *(sends ? &met.from : &met.to) = e->rank;
    if (e->of_group->len + e->ranks->len == 0)
        return;
    met.group = ech_fnv(ECH_FNV, e->of_group->str, e->of_group->len + 1);
    met.group = ech_fnv(met.group, e->ranks->str, e->ranks->len + 1);
    met.group = ech_fnv(met.group, numbers, message ? sizeof *numbers : sizeof numbers);
    g_array_append_val(r->met, met);
}

/* What a kernel of NCCL or RCCL does and with whom, where PyTorch says it all (2.2 and later): then it is a collective. */
static void make_collective(Reader *r, const Event *e, EchItem *item)
{
    /* c10::ScalarType's names. */
    static const struct {
        const char *name;
        uint64_t bytes;
    } types[] = {{"Byte", 1}, {"Char", 1},     {"Bool", 1}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}, {"Short", 2},
                 {"Half", 2}, {"BFloat16", 2}, {"Int", 4},  {"Float", 4},         {"Long", 8},        {"Double", 8}};
    EchCollective kind = ech_capture_collective(e->collective->str);
    uint64_t bytes = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        bytes = strcmp(e->dtype->str, types[i].name) == 0 ? types[i].bytes : bytes;
    bool alone = kind == ECH_COLLECTIVE_SEND || kind == ECH_COLLECTIVE_RECV;
    if (kind == ECH_COLLECTIVE_NONE || bytes == 0 || e->sent_elements <= 0 || e->sent_elements > INT64_MAX / 8 || e->group > 1 << 20 ||
        (e->group < 2 && !alone))
        return;
    item->kind = ECH_ITEM_COLLECTIVE;
    item->from = (uint8_t)kind;
    item->bytes = (uint64_t)e->sent_elements * bytes;
    item->origin = ECH_KNOWN;
    item->other = alone ? 2 : (uint32_t)e->group;
    unsigned first, second;
    if (sscanf(e->ranks->str, "[%u, %u", &first, &second) == 2 && second > first && second - first <= 1 << 20) {
        item->address = second - first;
        item->rounded = item->other * item->address;
    }
    meet(r, e, item);
}

static void device_event(Reader *r)
{
    Event *e = &r->e;
    EchItem item = base_item(r, e->category == CAT_KERNEL ? ECH_ITEM_KERNEL : e->category == CAT_MEMCPY ? ECH_ITEM_COPY : ECH_ITEM_MEMSET);
    item.queue = stream_of(r, e);
    if (e->category == CAT_KERNEL && e->collective->len > 0 && has(e->name, "ccl")) /* nccl, rccl: what else its call launches is none */
        make_collective(r, e, &item);
    if (e->category != CAT_KERNEL) {
        item.origin = e->has_bytes && e->bytes >= 0 ? ECH_KNOWN : ECH_ABSENT;
        item.bytes = item.origin == ECH_KNOWN ? (uint64_t)e->bytes : 0;
        if (item.origin == ECH_ABSENT && e->category == CAT_MEMSET)
            ech_diag_note(r->ret->diag, "memsets_without_bytes", 1);
    }
    if (e->category == CAT_MEMCPY && !direction(e, &item.from, &item.to))
        ech_diag_dropped(r->ret->diag, "copy_directions", 1, "'%s': taken as device to device", e->name->str);
    if (e->category == CAT_MEMCPY && e->to_device >= 0 && e->to_device < MAX_SPACES && e->from_device >= 0 && e->from_device != e->to_device) {
        item.pulled = (uint32_t)e->to_device == event_device(e) && e->from_device < MAX_SPACES;
        item.other = (uint32_t)(item.pulled ? e->from_device : e->to_device);
    }
    if (!e->has_duration)
        ech_diag_dropped(r->ret->diag, "device_events_without_duration", 1, "'%s'", e->name->str);
    ech_kineto_add_item(r, &item, e->correlation, e->external, UINT32_MAX);
    if (item.kind == ECH_ITEM_KERNEL && e->launch.grid[0] > 0) {
        g_array_index(r->sides, Side, r->sides->len - 1).launch = r->kernels->len;
        e->launch.shared = (uint32_t)CLAMP(e->shared, 0, 1 << 20);
        e->launch.registers = (uint32_t)CLAMP(e->registers, 0, 1024);
        g_array_append_val(r->kernels, e->launch);
    }
}

static Use *use_of(Reader *r, uint8_t tier, uint32_t device)
{
    for (guint i = 0; i < r->uses->len; i++) {
        Use *use = &g_array_index(r->uses, Use, i);
        if (use->tier == tier && use->device == device)
            return use;
    }
    Use use = {.tier = tier, .device = device, .first = ECH_TIME_MAX, .last = INT64_MIN};
    g_array_append_val(r->uses, use);
    return &g_array_index(r->uses, Use, r->uses->len - 1);
}

static void memory_event(Reader *r)
{
    const Event *e = &r->e;
    if (!e->has_bytes || e->bytes == 0 || e->bytes == INT64_MIN)
        return;
    uint8_t tier = e->device_type == 0 ? ECH_TIER_HOST : ECH_TIER_DEVICE;
    uint32_t device = tier == ECH_TIER_DEVICE && e->device_id > 0 && e->device_id < MAX_SPACES ? (uint32_t)e->device_id : 0;
    Use *use = use_of(r, tier, device);
    if (e->has_allocated && e->start < use->first) {
        use->first = e->start;
        use->baseline = e->total_allocated > e->bytes ? (uint64_t)(e->total_allocated - e->bytes) : 0;
        use->first_reserved = e->has_reserved && e->total_reserved >= 0 ? (uint64_t)e->total_reserved : 0;
    }
    if (e->has_reserved && e->total_reserved >= 0) {
        if (e->start >= use->last) {
            use->last = e->start;
            use->reserved = (uint64_t)e->total_reserved;
        }
        use->peak_reserved = MAX(use->peak_reserved, (uint64_t)e->total_reserved);
    }
    if (!e->has_address) {
        ech_diag_dropped(r->ret->diag, "memory_events_without_address", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return;
    }
    EchItem item = base_item(r, e->bytes > 0 ? ECH_ITEM_ALLOC : ECH_ITEM_FREE);
    item.bytes = e->bytes > 0 ? (uint64_t)e->bytes : 0 - (uint64_t)e->bytes;
    item.origin = ECH_KNOWN;
    item.address = (uint64_t)e->address;
    item.to = tier;
    item.from = tier;
    item.duration = ECH_TIME_NONE;
    item.queue = ech_capture_queue(r->capture, tier == ECH_TIER_HOST ? "host" : "allocator", ECH_QUEUE_HOST, device);
    ech_kineto_add_item(r, &item, -1, e->external, thread_of(r, e->tid));
}

static void sync_event(Reader *r)
{
    const Event *e = &r->e;
    uint32_t device = event_device(e);
    bool stream_wait = strcmp(e->sync->str, "Stream Wait Event") == 0;
    EchItem item = base_item(r, stream_wait ? ECH_ITEM_STREAM_WAIT : ECH_ITEM_HOST_WAIT);
    int64_t waited = strcmp(e->sync->str, "Stream Sync") == 0 ? e->stream : e->wait_stream;
    if (stream_wait && e->stream < 0) {
        ech_diag_dropped(r->ret->diag, "stream_waits_without_stream", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return;
    }
    /* A wait for an event that was never recorded waits for nothing; but Kineto, which looks for events in the waiting stream's context, does not know those of
     * another device either. */
    if (waited < 0 && strcmp(e->sync->str, "Context Sync") != 0) {
        if (stream_wait)
            ech_capture_wait_call(r->capture, e->start, thread_of(r, e->tid), stream_of(r, e));
        r->n_untold += stream_wait;
        ech_diag_note(r->ret->diag, "waits_for_nothing", 1);
        return;
    }
    item.queue = stream_wait ? stream_of(r, e) : ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
    if (!stream_wait && e->process)
        ech_capture_set_process(r->capture, item.queue, e->process);
    item.other = waited < 0 ? ECH_NONE : ech_capture_stream(r->capture, device, waited);
    item.address = (uint64_t)e->start;
    r->n_syncs++;
    r->n_stream_waits += stream_wait;
    /* The external slot carries the call that recorded the event. */
    ech_kineto_add_item(r, &item, e->correlation, e->wait_record, UINT32_MAX);
}

static void runtime_event(Reader *r)
{
    static const char *const takes[] = {"cudaMalloc", "hipMalloc", "cuMemCreate", "hipMemCreate"};
    const Event *e = &r->e;
    for (size_t i = 0; i < G_N_ELEMENTS(takes); i++)
        r->takes_memory = r->takes_memory || has(e->name, takes[i]);
    Launch launch = {.correlation = e->correlation, .start = e->start, .end = e->start + (e->has_duration ? e->duration : 0), .thread = thread_of(r, e->tid)};
    if (has(e->name, "Synchronize"))
        launch.role = has(e->name, "Device") || has(e->name, "Ctx") ? SYNC_DEVICE : has(e->name, "Stream") ? SYNC_STREAM : SYNC_EVENT;
    else if (has(e->name, "StreamWaitEvent"))
        launch.role = SYNC_STREAM_WAIT;
    /* "globalWorkSize" of HIP's documentation of both: what MIOpen and Tensile launch by. */
    launch.in_work_items = has(e->name, "hipExtModuleLaunchKernel") || has(e->name, "hipHccModuleLaunchKernel");
    if (launch.correlation >= 0 || launch.role)
        g_array_append_val(r->launches, launch);
    if (e->has_bytes && e->bytes >= 0 && e->correlation >= 0) {
        Asked asked = {e->correlation, (uint64_t)e->bytes};
        g_array_append_val(r->asked, asked);
    }
}

static void annotation(Reader *r)
{
    const Event *e = &r->e;
    EchItem item = base_item(r, ECH_ITEM_MARK);
    char name[40];
    g_snprintf(name, sizeof name, "thread %" G_GINT64_FORMAT, e->tid);
    item.queue = e->category == CAT_GPU_ANNOTATION ? stream_of(r, e) : ech_capture_queue(r->capture, name, ECH_QUEUE_HOST, 0);
    ech_kineto_add_item(r, &item, -1, -1, UINT32_MAX);
}

/* The work of an operator, kept for its kernels. */
static void shape_event(Reader *r)
{
    const Event *e = &r->e;
    if (e->external < 0 || e->n_inputs == 0)
        return;
    Shape shape = {.external = e->external};
    ech_gpu_operator_of(e->name->str, e->inputs, e->n_inputs, &shape.call.whole);
    if (shape.call.whole.kind != ECH_GPU_OP_NONE)
        g_array_append_val(r->shapes, shape);
}

/* What is sent, and by how many, of a call that launches a collective. */
static void comm_event(Reader *r)
{
    const Event *e = &r->e;
    bool sends = g_str_has_prefix(e->name->str, "nccl:"),
         shares = strcmp(e->name->str, "c10d::_reduce_scatter_base_") == 0 || strcmp(e->name->str, "c10d::_allgather_base_") == 0;
    if ((!sends && !shares) || e->n_inputs == 0 || !e->inputs[0].known)
        return;
    Comm comm = {.start = e->start, .end = e->start + (e->has_duration ? e->duration : 0), .thread = thread_of(r, e->tid)};
    if (sends) {
        comm.kind = (uint8_t)ech_capture_collective(e->name->str);
        comm.bytes = ech_bytes_mul(e->inputs[0].numel, ech_dtype_bits((EchDtype)e->inputs[0].dtype)) / 8;
    } else if (e->n_inputs > 1 && e->inputs[1].known) {
        uint64_t more = MAX(e->inputs[0].numel, e->inputs[1].numel), less = MIN(e->inputs[0].numel, e->inputs[1].numel);
        comm.group = less > 0 && more % less == 0 && more / less <= 1 << 20 ? (uint32_t)(more / less) : 0;
    }
    if (comm.bytes > 0 || comm.group > 1)
        g_array_append_val(r->comms, comm);
}

/* Of ONNX Runtime, on the host. */
static void node_event(Reader *r)
{
    const Event *e = &r->e;
    EchOnnxNode node = {.name = e->name->str,
                        .op = e->op->str,
                        .provider = e->provider->str,
                        .duration = e->has_duration ? e->duration : 0,
                        .index = e->node,
                        .parameters = e->parameters,
                        .output = e->output,
                        .in_use = e->in_use};
    ech_onnx_nodes_add(r->nodes, &node);
}

static void use_event(Reader *r)
{
    Event *e = &r->e;
    if (e->kind_index == ECH_NONE)
        e->kind_index = kind_of(r, "None", strlen("None"));
    Kind *kind = &g_array_index(r->kinds, Kind, e->kind_index);
    kind->count++;
    r->n_events++;
    if (e->category == CAT_OTHER && g_str_has_prefix(kind->name, "mtia_"))
        r->elsewhere = "Meta's MTIA";
    if (e->category == CAT_NODE)
        node_event(r);
    if (e->category == CAT_OTHER || e->category == CAT_FLOW || e->category == CAT_NODE)
        return;
    if (e->phase == 'B' || e->phase == 'E') {
        r->n_halves++;
        return;
    }
    if (!e->has_time) {
        ech_diag_dropped(r->ret->diag, "events_without_time", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return;
    }
    place_in_time(r);
    if (!e->has_time)
        return;
    tell_process(r);
    if (e->phase == 'i' || e->phase == 'I') {
        if (e->category == CAT_INSTANT && strcmp(e->name->str, "[memory]") == 0)
            memory_event(r);
        return;
    }
    if (e->phase != 'X')
        return;
    switch (e->category) {
    case CAT_KERNEL:
    case CAT_MEMCPY:
    case CAT_MEMSET: device_event(r); break;
    case CAT_RUNTIME: runtime_event(r); break;
    case CAT_SYNC: sync_event(r); break;
    case CAT_ANNOTATION: comm_event(r); G_GNUC_FALLTHROUGH;
    case CAT_GPU_ANNOTATION: annotation(r); break;
    case CAT_CPU_OP:
        shape_event(r);
        comm_event(r);
        G_GNUC_FALLTHROUGH;
    case CAT_PYTHON: {
        Span span = {e->start, e->has_duration ? e->duration : 0, ech_trace_builder_string(r->builder, e->name->str, (gssize)e->name->len),
                     thread_of(r, e->tid)};
        g_array_append_val(r->spans, span);
        break;
    }
    case CAT_OTHER:
    case CAT_INSTANT:
    case CAT_NODE:
    case CAT_FLOW: break;
    }
}

static bool read_event(Reader *r)
{
    Event *e = &r->e;
    reset(e);
    EchJsonToken token;
    int64_t us;
    int32_t ps;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        size_t n;
        const char *key = ech_json_text(r->json, &n), *text;
        if (n == 4 && memcmp(key, "args", 4) == 0) {
            if (e->category == CAT_PYTHON || e->category == CAT_FLOW ? !ech_json_skip(r->json) : !read_args(r))
                return false;
            continue;
        }
        char which = 0;
        if (n == 2 && memcmp(key, "ph", 2) == 0)
            which = 'p';
        else if (n == 2 && memcmp(key, "ts", 2) == 0)
            which = 't';
        else if (n == 3)
            which = memcmp(key, "cat", 3) == 0   ? 'c'
                    : memcmp(key, "dur", 3) == 0 ? 'd'
                    : memcmp(key, "pid", 3) == 0 ? 'P'
                    : memcmp(key, "tid", 3) == 0 ? 'T'
                                                 : 0;
        else if (n == 4 && memcmp(key, "name", 4) == 0)
            which = 'n';
        if (!which) {
            if (!ech_json_skip(r->json))
                return false;
            continue;
        }
        if (!scalar(r, &text, &n))
            return false;
        switch (which) {
        case 'p': e->phase = n ? text[0] : 0; break;
        case 't': e->has_time = ech_json_parse_us(text, n, &e->stamp_us, &e->stamp_ps); break;
        case 'd':
            e->has_duration = ech_json_parse_us(text, n, &us, &ps) && in_range(r, us, ps, 0, &e->duration);
            if (e->has_duration && e->duration < 0) {
                ech_diag_dropped(r->ret->diag, "negative_durations", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
                e->duration = 0;
            }
            break;
        case 'c':
            e->kind_index = n ? kind_of(r, text, n) : ECH_NONE;
            e->category = !n ? CAT_OTHER : e->kind_index == MAX_KINDS ? category_of(text, n) : g_array_index(r->kinds, Kind, e->kind_index).category;
            break;
        case 'n':
            g_string_truncate(e->name, 0);
            g_string_append_len(e->name, text, (gssize)MIN(n, (size_t)65536));
            break;
        case 'P': {
            const char *close = n && *text == '[' ? memchr(text, ']', n) : NULL;
            e->process = close ? process_of(r, text, (size_t)(close - text)) : 0;
            e->pid = loose_integer(text, n);
            break;
        }
        default: e->tid = loose_integer(text, n);
        }
    }
    if (token != ECH_JSON_OBJECT_END)
        return false;
    use_event(r);
    return true;
}

static bool read_events(Reader *r)
{
    EchJsonToken token;
    r->events_seen = true;
    unsigned depth = ech_json_depth(r->json);
    while ((token = ech_json_next(r->json)) != ECH_JSON_ARRAY_END) {
        if (token == ECH_JSON_OBJECT) {
            if (!read_event(r))
                return false;
            continue;
        }
        while (token != ECH_JSON_BAD && token != ECH_JSON_END && ech_json_depth(r->json) > depth)
            token = ech_json_next(r->json);
        if (token == ECH_JSON_BAD || token == ECH_JSON_END)
            return false;
        ech_diag_dropped(r->ret->diag, "events_that_are_no_objects", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
    }
    return true;
}

/* "deviceProperties": [{"id": 0, "name": ..., "totalGlobalMem": ...}] */
static bool read_devices(Reader *r)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_ARRAY)
        return token != ECH_JSON_BAD;
    unsigned base = ech_json_depth(r->json);
    unsigned device = 0;
    char key[96];
    g_snprintf(key, sizeof key, "%s", "");
    while ((token = ech_json_next(r->json)) != ECH_JSON_BAD) {
        unsigned depth = ech_json_depth(r->json);
        if (token == ECH_JSON_ARRAY_END && depth < base)
            return true;
        if (token == ECH_JSON_OBJECT_END && depth == base)
            device++;
        size_t n;
        const char *text = ech_json_text(r->json, &n);
        if (token == ECH_JSON_KEY && depth == base + 1) {
            g_autofree char *name = ech_quote(text, (gssize)n, 40);
            g_snprintf(key, sizeof key, "device.%u.%s", device, name);
            continue;
        }
        if ((token == ECH_JSON_STRING || token == ECH_JSON_NUMBER) && depth == base + 1 && key[0] && device < 64)
            ech_trace_builder_set_property(r->builder, key, text);
        key[0] = '\0';
    }
    return false;
}

static bool read_top(Reader *r)
{
    EchJsonToken token = ech_json_next(r->json);
    /* Chrome's format of an array of events needs no bracket at its end: writers append to it until they die. */
    if (token == ECH_JSON_ARRAY)
        return read_events(r) ? ech_json_next(r->json) == ECH_JSON_END : ech_json_unclosed(r->json);
    if (token != ECH_JSON_OBJECT)
        return false;
    unsigned kept = 0;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        size_t n;
        const char *key = ech_json_text(r->json, &n);
        if (is(key, n, "traceEvents")) {
            if (ech_json_next(r->json) != ECH_JSON_ARRAY || !read_events(r))
                return false;
            continue;
        }
        r->pytorch = r->pytorch || is(key, n, "deviceProperties") || is(key, n, "schemaVersion");
        if (is(key, n, "deviceProperties")) {
            if (!read_devices(r))
                return false;
            continue;
        }
        g_autofree char *name = g_strndup(key, MIN(n, (size_t)64));
        if (!r->events_seen && r->keys->len < 120)
            g_string_append_printf(r->keys, "%s\"%s\"", r->keys->len ? ", " : "", name);
        EchJsonToken kind = ech_json_next(r->json);
        if (kind == ECH_JSON_STRING || kind == ECH_JSON_NUMBER) {
            const char *text = ech_json_text(r->json, &n);
            if (strcmp(name, "baseTimeNanoseconds") == 0)
                ech_json_parse_whole(text, n, &r->base_ns);
            if (kept++ < 64 && n < 1024)
                ech_trace_builder_set_property(r->builder, name, text);
        } else if (kind == ECH_JSON_OBJECT || kind == ECH_JSON_ARRAY) {
            const char *text;
            unsigned depth = ech_json_depth(r->json);
            int64_t *said = NULL; /* "distributedInfo": {"rank": 3, "world_size": 8} */
            while (kind != ECH_JSON_BAD && ech_json_depth(r->json) >= depth) {
                kind = ech_json_next(r->json);
                text = kind == ECH_JSON_KEY || kind == ECH_JSON_NUMBER ? ech_json_text(r->json, &n) : "";
                if (kind == ECH_JSON_NUMBER && said)
                    ech_json_parse_whole(text, n, said);
                said = kind != ECH_JSON_KEY || strcmp(name, "distributedInfo") != 0 ? NULL
                       : is(text, n, "world_size")                                  ? &r->world
                       : is(text, n, "rank")                                        ? &r->rank
                                                                                    : NULL;
            }
        }
        if (kind == ECH_JSON_BAD)
            return false;
    }
    return token == ECH_JSON_OBJECT_END && ech_json_next(r->json) == ECH_JSON_END;
}

static bool merge_snapshot(Reader *r, const char *path, GError **error)
{
    int64_t unix_us;
    g_autoptr(EchImport) other = ech_capture_read_snapshot(path, "a profile", &unix_us, error);
    if (!other)
        return false;
    /* The profile's clock: microseconds after baseTimeNanoseconds, or of the Unix epoch before 2024. */
    int64_t own_us = r->base_ns / 1000 + (r->has_base ? r->base_us : 0);
    int64_t difference = unix_us - own_us;
    if (difference > INT64_C(86400000000) || difference < INT64_C(-86400000000)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: begins %" G_GINT64_FORMAT " s away from the profile; they are not of the same run", path,
                    difference / 1000000);
        return false;
    }
    ech_capture_merge(r->capture, other->trace, difference * ECH_PS_PER_US);
    return true;
}

/* Allocations of one GPU are of the GPU that all streams are of. */
static void join_numbers(Reader *r)
{
    Use *only = NULL;
    for (guint i = 0; i < r->uses->len; i++) {
        Use *use = &g_array_index(r->uses, Use, i);
        if (use->tier != ECH_TIER_DEVICE)
            continue;
        if (only)
            return;
        only = use;
    }
    if (only)
        only->device = ech_capture_one_device(r->capture, only->device);
}

/* A timeline in Chrome's form, which many tools write, without a single event of the kinds that PyTorch's profiler has. */
static bool tell_other_tool(Reader *r)
{
    g_autoptr(GString) names = g_string_new(NULL);
    bool rocprof = false;
    for (guint i = 0; i < r->kinds->len; i++) {
        const Kind *kind = &g_array_index(r->kinds, Kind, i);
        if (kind->category != CAT_OTHER && kind->category != CAT_FLOW)
            return false;
        rocprof = rocprof || strcmp(kind->name, "DataFlow") == 0;
        if (strcmp(kind->name, "None") != 0 && !g_str_has_prefix(kind->name, "__") && names->len < 60)
            g_string_append_printf(names, "%s'%s'", names->len ? ", " : " (its own are ", kind->name);
    }
    if (!r->kinds->len || r->pytorch)
        return false;
    if (rocprof) {
        ech_diag_remark(r->ret->diag, "a timeline of rocprof before rocprofv3, which is not read; its table of kernels is (results.csv beside it), and of "
                                      "rocprofv3 all that it writes");
        return true;
    }
    g_autofree char *valid = g_utf8_make_valid(names->str, -1);
    ech_diag_remark(
        r->ret->diag,
        "none of its events is of a kind that PyTorch's profiler writes%s%s: a timeline of another tool, of which nothing is read here. What is: profiles "
        "of torch.profiler, of XLA (.xplane.pb, its trace.json.gz) and of ONNX Runtime, Nsight Systems' SQLite, rocprofv3's outputs",
        valid, names->len ? ")" : "");
    return true;
}

/* Of one device, of several with @suffix (":1"), or of all. */
static void tell_reserved(Reader *r, const Use *use, const char *suffix)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } figures[] = {{"end_reserved_bytes", use->reserved}, {"peak_reserved_bytes", use->peak_reserved}, {"begin_reserved_bytes", use->first_reserved}};
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        g_autofree char *key = g_strconcat(figures[i].name, suffix, NULL);
        ech_trace_builder_printf_property(r->builder, key, "%" G_GUINT64_FORMAT, figures[i].bytes);
    }
    g_autofree char *key = g_strconcat("reserved_never_grew", suffix, NULL);
    bool grew = use->peak_reserved > 0 ? use->peak_reserved > use->first_reserved : r->takes_memory || r->launches->len == 0;
    if (!grew || *suffix)
        ech_trace_builder_set_property(r->builder, key, grew ? "0" : "1");
}

/* What the allocator held before and after, and whether it grew; where it is not told how much it had, calls tell. */
static void tell_uses(Reader *r)
{
    Use all = {0};
    unsigned n = 0;
    for (guint i = 0; i < r->uses->len; i++) {
        const Use *use = &g_array_index(r->uses, Use, i);
        ech_capture_baseline(r->capture, (EchTier)use->tier, use->device, use->baseline);
        if (use->tier != ECH_TIER_DEVICE)
            continue;
        all.first_reserved += use->first_reserved;
        all.reserved += use->reserved;
        all.peak_reserved += use->peak_reserved;
        n++;
    }
    if (!r->uses->len)
        return;
    tell_reserved(r, &all, "");
    for (guint i = 0; i < r->uses->len && n > 1; i++) {
        const Use *use = &g_array_index(r->uses, Use, i);
        g_autofree char *suffix = g_strdup_printf(":%u", use->device);
        if (use->tier == ECH_TIER_DEVICE)
            tell_reserved(r, use, suffix);
    }
}

static bool finish(Reader *r, const EchImportOptions *options, GError **error)
{
    if (!r->events_seen) {
        const char *what = ech_tool_file_json(r->keys->str);
        g_autofree char *keys = g_utf8_make_valid(r->keys->str, -1);
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: a JSON document without traceEvents: %s%s%s%s", r->where,
                    r->keys->len ? "its keys begin " : "it has no keys", keys, what ? "; " : "", what ? what : "");
        return false;
    }
    for (guint i = 0; i < r->kinds->len; i++)
        ech_diag_note(r->ret->records, g_array_index(r->kinds, Kind, i).name, g_array_index(r->kinds, Kind, i).count);
    ech_diag_dropped(r->ret->diag, "strings_repaired", ech_json_repaired(r->json), NULL);
    ech_diag_note(r->ret->diag, "processes_merged_in_the_file", g_hash_table_size(r->processes));
    if (r->elsewhere)
        ech_diag_remark(r->ret->diag, "it ran on %s, whose work is not read; that of CUDA, ROCm and XPU is", r->elsewhere);
    if (r->n_halves) {
        ech_diag_remark(r->ret->diag,
                        "%" G_GUINT64_FORMAT " of its events of the host and the device are told by their beginnings and ends (\"B\", \"E\"), which "
                        "are not read; PyTorch's profiler writes whole ones (\"X\")",
                        r->n_halves);
        ech_diag_dropped(r->ret->diag, "events_in_halves", r->n_halves, NULL);
    }
    r->ret->told_idle = ech_onnx_nodes_say(r->nodes, r->ret->diag) || r->n_halves > 0 || r->elsewhere || tell_other_tool(r);
    if (r->has_base)
        ech_trace_builder_printf_property(r->builder, "time_base_us", "%" G_GINT64_FORMAT, r->base_us);
    if (r->rank >= 0 && g_hash_table_size(r->processes) == 0)
        ech_trace_builder_printf_property(r->builder, "rank", "%" G_GINT64_FORMAT, r->rank);
    join_numbers(r);
    tell_uses(r);
    ech_kineto_join(r);
    if (options->beside && !merge_snapshot(r, options->beside, error))
        return false;
    return ech_capture_finish(r->capture, error);
}

/* Of a file that is cut what is there can be used, if that has anything of a device. */
static bool is_usable(Reader *r)
{
    bool any = false;
    for (guint i = 0; i < r->kinds->len; i++)
        any = any || (g_array_index(r->kinds, Kind, i).category == CAT_KERNEL && g_array_index(r->kinds, Kind, i).count > 0);
    if (!any || !ech_json_is_cut(r->json))
        return false;
    ech_diag_dropped(r->ret->diag, "cut_files", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
    ech_diag_remark(r->ret->diag, "the file is cut, at byte %" G_GUINT64_FORMAT " of its text: %" G_GUINT64_FORMAT " events are read, those behind are missing",
                    ech_json_offset(r->json), r->n_events);
    return true;
}

/* A document on each line is a log, or another profiler's. */
static bool tell_damage(Reader *r, EchSource *source, GError **error)
{
    size_t n;
    const uint8_t *head = ech_source_head(source, &n);
    if (r->events_seen ||
        !(ech_head_has(head, n, "\"TraceProcessEvent\"") || ech_head_has(head, n, "\"CudaEvent\"") || ech_head_has(head, n, "CUPTI_ACTIVITY_KIND_")))
        return ech_json_error(r->json, error);
    g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                "%s: the text looks like Nsight Systems' export as JSON; 'nsys export --type sqlite REPORT' writes the database that echelon reads", r->where);
    return false;
}

static bool kineto_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(EchJson) json = ech_json_new(source);
    g_autoptr(EchCapture) capture = ech_capture_new(ret, "kineto");
    Reader *r = g_new0(Reader, 1);
    r->ret = ret;
    r->json = json;
    r->where = ech_source_path(source);
    r->capture = capture;
    r->builder = ech_capture_builder(capture);
    r->spans = g_array_new(FALSE, FALSE, sizeof(Span));
    r->launches = g_array_new(FALSE, FALSE, sizeof(Launch));
    r->asked = g_array_new(FALSE, FALSE, sizeof(Asked));
    r->sides = g_array_new(FALSE, FALSE, sizeof(Side));
    r->shapes = g_array_new(FALSE, TRUE, sizeof(Shape));
    r->kernels = g_array_new(FALSE, FALSE, sizeof(EchGpuLaunch));
    r->uses = g_array_new(FALSE, FALSE, sizeof(Use));
    r->comms = g_array_new(FALSE, FALSE, sizeof(Comm));
    r->met = g_array_new(FALSE, FALSE, sizeof(Met));
    r->rank = -1;
    r->threads = g_hash_table_new(ech_hash_key, NULL);
    r->processes = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    r->numbered = g_hash_table_new(ech_hash_key, NULL);
    r->kinds = g_array_new(FALSE, FALSE, sizeof(Kind));
    g_array_set_clear_func(r->kinds, clear_kind);
    r->e.name = g_string_new(NULL);
    r->e.kind = g_string_new(NULL);
    r->e.sync = g_string_new(NULL);
    r->e.collective = g_string_new(NULL);
    r->e.dtype = g_string_new(NULL);
    r->e.ranks = g_string_new(NULL);
    r->e.of_group = g_string_new(NULL);
    r->e.op = g_string_new(NULL);
    r->e.provider = g_string_new(NULL);
    r->keys = g_string_new(NULL);
    r->nodes = ech_onnx_nodes_new();
    bool ok = read_top(r) || is_usable(r) ? finish(r, options, error) : tell_damage(r, source, error);
    g_string_free(r->e.name, TRUE);
    g_string_free(r->e.kind, TRUE);
    g_string_free(r->e.sync, TRUE);
    g_string_free(r->e.collective, TRUE);
    g_string_free(r->e.dtype, TRUE);
    g_string_free(r->e.ranks, TRUE);
    g_string_free(r->e.of_group, TRUE);
    g_string_free(r->e.op, TRUE);
    g_string_free(r->e.provider, TRUE);
    g_string_free(r->keys, TRUE);
    ech_onnx_nodes_free(r->nodes);
    g_array_unref(r->kinds);
    g_hash_table_unref(r->threads);
    g_hash_table_unref(r->processes);
    g_hash_table_unref(r->numbered);
    g_array_unref(r->uses);
    g_array_unref(r->comms);
    g_array_unref(r->met);
    g_array_unref(r->shapes);
    g_array_unref(r->kernels);
    g_array_unref(r->sides);
    g_array_unref(r->launches);
    g_array_unref(r->asked);
    g_array_unref(r->spans);
    g_free(r);
    return ok;
}

static int probe(const uint8_t *head, size_t n)
{
    size_t i = ech_head_begin(head, n);
    if (i == n || (head[i] != '{' && head[i] != '['))
        return 0;
    if (ech_head_has(head, n, "\"traceEvents\"") || ech_head_has(head, n, "\"schemaVersion\"") || ech_head_has(head, n, "\"deviceProperties\"") ||
        ech_head_has(head, n, "\"ph\""))
        return 2;
    /* Users' own metadata may come first and be long; a key in single quotes is Python's, one in none JavaScript's, or it is a jaxpr: no JSON. */
    bool object = head[i++] == '{';
    i += ech_head_begin(head + i, n - i);
    return object && i < n && head[i] != '\'' && !g_ascii_isalpha(head[i]) ? 1 : 0;
}

const EchImportClass ech_import_kineto = {
    .name = "kineto",
    .summary = "PyTorch profiler trace (Kineto, Chrome JSON), with its memory events and synchronisation; profiles of ONNX Runtime",
    .probe = probe,
    .read = kineto_read,
    .when_idle = "nothing in it ran on a GPU; of PyTorch ProfilerActivity.CUDA records what does (of a Mac's GPU its profiler records nothing)",
};
