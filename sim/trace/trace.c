#include "sim/trace/trace.h"

#include "sim/base/fnv.h"
#include "sim/base/hash.h"
#include "sim/trace/file.h"
#include "sim/trace/verify.h"

#include <stdatomic.h>
#include <string.h>

/* Strings live in one arena; an id is an index into offsets. The table maps a hash to id + 1 by open addressing. */
typedef struct {
    GString *arena;
    GArray *offsets; /* uint64_t */
    uint32_t *table;
    size_t mask; /* table size - 1; 0 where there is no table */
} StringPool;

struct EchTrace {
    atomic_uint references;
    char *format;
    StringPool strings;
    GPtrArray *memories; /* owned names */
    GArray *ops, *uses, *deps, *work, *buffers, *queues;
    GPtrArray *properties;      /* key, value, key, value... */
    GHashTable *property_index; /* key (the property's own) -> place of its value; NULL until the trace is finished */
    EchTrace *base;             /* whose strings these are (ech_trace_with_properties), or NULL */
    atomic_ullong hash;         /* ech_trace_hash once it was asked for, else 0 */
};

struct EchTraceBuilder {
    EchTrace *trace;            /* NULL after a finish */
    GHashTable *property_index; /* the trace's to be; NULL until needed */
};

static const char *const op_names[] = {
#define ECH_OP(NAME, text, doc) text,
#include "sim/trace/ops.def"
#undef ECH_OP
};
static const char *const dtype_names[] = {
#define ECH_DTYPE(NAME, text, bits) text,
#include "sim/trace/dtypes.def"
#undef ECH_DTYPE
};
static const uint8_t dtype_bits[] = {
#define ECH_DTYPE(NAME, text, bits) bits,
#include "sim/trace/dtypes.def"
#undef ECH_DTYPE
};
static const char *const role_names[] = {"unknown",  "parameter", "activation", "gradient", "optimizer",  "temporary",
                                         "kv_cache", "input",     "output",     "constant", "weight_copy"};
static const char *const collective_names[] = {"none", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute", "broadcast", "send", "recv"};
static const char *const origin_names[] = {"absent", "known", "inferred", "assumed"};

G_STATIC_ASSERT(G_N_ELEMENTS(role_names) == ECH_N_ROLES);
G_STATIC_ASSERT(G_N_ELEMENTS(collective_names) == ECH_N_COLLECTIVES);

bool ech_op_is_prefetch(const EchTrace *trace, const EchOp *op)
{
    return op->kind == ECH_OP_COPY && op->launch != ECH_NONE && strstr(ech_trace_string(trace, op->launch), "prefetch=1");
}

EchBehind ech_op_behind(const EchTrace *trace, const EchOp *op)
{
    const char *text = op->kind == ECH_OP_COPY && op->launch != ECH_NONE ? strstr(ech_trace_string(trace, op->launch), "behind=") : NULL;
    return text == NULL ? ECH_BEHIND_NONE : text[strlen("behind=")] == '2' ? ECH_BEHIND_BATCH : ECH_BEHIND_LOOP;
}

static const char *const file_uses[] = {"none", "read", "mapped", "written"};

EchFileUse ech_op_file(const EchTrace *trace, const EchOp *op, EchBytes *ret_bytes, EchBytes *ret_needs)
{
    const bool may = op->launch != ECH_NONE && (op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COPY);
    const char *text = may ? strstr(ech_trace_string(trace, op->launch), "file=") : NULL;
    *ret_bytes = op->kind == ECH_OP_COPY ? op->bytes : 0;
    *ret_needs = ECH_FILE_DISK;
    if (!text)
        return ECH_FILE_NONE;
    text += strlen("file=");
    const size_t n = strcspn(text, " ");
    const char *needs = text[n] == ' ' && g_str_has_prefix(text + n + 1, "needs=") ? text + n + 1 + strlen("needs=") : NULL;
    if (needs)
        *ret_needs = g_ascii_strtoull(needs, NULL, 10);
    for (uint32_t u = op->first_use; op->kind == ECH_OP_KERNEL && u < op->first_use + op->n_uses; u++)
        *ret_bytes = ech_bytes_add(*ret_bytes, ech_trace_uses(trace)[u].bytes);
    for (size_t i = ECH_FILE_READ; i < G_N_ELEMENTS(file_uses); i++)
        if (strlen(file_uses[i]) == n && strncmp(text, file_uses[i], n) == 0)
            return (EchFileUse)i;
    return ECH_FILE_NONE;
}

void ech_file_print(EchFileUse use, EchBytes needs, GString *launch)
{
    g_string_append_printf(launch, "%sfile=%s", launch->len ? " " : "", file_uses[use]);
    if (needs != ECH_FILE_DISK)
        g_string_append_printf(launch, " needs=%" G_GUINT64_FORMAT, needs);
}

uint32_t ech_op_operators(const EchTrace *trace, const EchOp *op)
{
    const char *text = op->launch != ECH_NONE ? strstr(ech_trace_string(trace, op->launch), "operators=") : NULL;
    return text ? (uint32_t)MIN(g_ascii_strtoull(text + strlen("operators="), NULL, 10), 1000000) : 0;
}

char *ech_launch_with_operators(const char *launch, uint64_t operators)
{
    GString *text = g_string_new(launch);
    char *was = strstr(text->str, "operators=");
    if (was) {
        gssize at = was - text->str, n = (gssize)strcspn(was, " ");
        g_string_erase(text, at, n + (text->str[at + n] == ' '));
    }
    g_strchomp(text->str);
    text->len = strlen(text->str);
    if (operators > 0)
        g_string_append_printf(text, "%soperators=%" G_GUINT64_FORMAT, text->len ? " " : "", operators);
    return g_string_free(text, FALSE);
}

uint32_t ech_op_elsewhere(const EchTrace *trace, const EchOp *op, uint32_t *ret_operators)
{
    const char *text = op->launch != ECH_NONE ? strstr(ech_trace_string(trace, op->launch), "elsewhere=") : NULL;
    char *end = NULL;
    uint64_t launches = text ? g_ascii_strtoull(text + strlen("elsewhere="), &end, 10) : 0;
    *ret_operators = text && *end == '+' ? (uint32_t)MIN(g_ascii_strtoull(end + 1, NULL, 10), 1000000) : 0;
    return (uint32_t)MIN(launches, 1000000);
}

const char *ech_op_kind_name(EchOpKind kind)
{
    return op_names[kind];
}

const char *ech_dtype_name(EchDtype dtype)
{
    return dtype_names[dtype];
}

unsigned ech_dtype_bits(EchDtype dtype)
{
    return dtype_bits[dtype];
}

EchDtype ech_dtype_parse(const char *name, size_t length)
{
    for (size_t i = 1; i < ECH_N_DTYPES; i++) {
        if (strlen(dtype_names[i]) == length && memcmp(dtype_names[i], name, length) == 0)
            return (EchDtype)i;
    }
    return ECH_DTYPE_NONE;
}

const char *ech_role_name(EchRole role)
{
    return role_names[role];
}

const char *ech_collective_name(EchCollective collective)
{
    return collective_names[collective];
}

const char *ech_origin_name(EchOrigin origin)
{
    return origin_names[origin];
}

static const char *pool_get(const StringPool *pool, EchId id)
{
    return pool->arena->str + g_array_index(pool->offsets, uint64_t, id);
}

static size_t pool_length(const StringPool *pool, EchId id)
{
    uint64_t end = id + 1 < pool->offsets->len ? g_array_index(pool->offsets, uint64_t, id + 1) : pool->arena->len;
    return (size_t)(end - g_array_index(pool->offsets, uint64_t, id)) - 1;
}

static void pool_grow(StringPool *pool)
{
    size_t size = pool->mask ? (pool->mask + 1) * 2 : 256;
    g_free(pool->table);
    pool->table = g_new0(uint32_t, size);
    pool->mask = size - 1;
    for (uint32_t id = 0; id < pool->offsets->len; id++) {
        size_t at = ech_hash_bytes(pool_get(pool, id), pool_length(pool, id)) & pool->mask;
        while (pool->table[at])
            at = (at + 1) & pool->mask;
        pool->table[at] = id + 1;
    }
}

static EchId pool_intern(StringPool *pool, const char *text, size_t n)
{
    if (pool->offsets->len * 2 >= pool->mask)
        pool_grow(pool);
    size_t at = ech_hash_bytes(text, n) & pool->mask;
    for (; pool->table[at]; at = (at + 1) & pool->mask) {
        EchId id = pool->table[at] - 1;
        if (pool_length(pool, id) == n && memcmp(pool_get(pool, id), text, n) == 0)
            return id;
    }
    uint64_t offset = pool->arena->len;
    g_assert(pool->offsets->len < ECH_NONE - 1);
    pool->table[at] = pool->offsets->len + 1;
    g_array_append_val(pool->offsets, offset);
    g_string_append_len(pool->arena, text, (gssize)n);
    g_string_append_c(pool->arena, '\0');
    return pool->offsets->len - 1;
}

static EchTrace *trace_new(const char *format)
{
    EchTrace *trace = g_new0(EchTrace, 1);
    atomic_init(&trace->references, 1);
    trace->format = g_strdup(format);
    trace->strings.arena = g_string_new(NULL);
    trace->strings.offsets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    trace->memories = g_ptr_array_new_with_free_func(g_free);
    trace->ops = g_array_new(FALSE, FALSE, sizeof(EchOp));
    trace->uses = g_array_new(FALSE, FALSE, sizeof(EchUse));
    trace->deps = g_array_new(FALSE, FALSE, sizeof(EchDep));
    trace->work = g_array_new(FALSE, FALSE, sizeof(EchWork));
    trace->buffers = g_array_new(FALSE, FALSE, sizeof(EchBuffer));
    trace->queues = g_array_new(FALSE, FALSE, sizeof(EchQueue));
    trace->properties = g_ptr_array_new_with_free_func(g_free);
    return trace;
}

EchTrace *ech_trace_ref(EchTrace *trace)
{
    atomic_fetch_add(&trace->references, 1);
    return trace;
}

void ech_trace_unref(EchTrace *trace)
{
    if (!trace || atomic_fetch_sub(&trace->references, 1) != 1)
        return;
    g_free(trace->format);
    if (trace->base) {
        ech_trace_unref(trace->base);
    } else {
        g_string_free(trace->strings.arena, TRUE);
        g_array_unref(trace->strings.offsets);
        g_free(trace->strings.table);
    }
    g_ptr_array_unref(trace->memories);
    g_array_unref(trace->ops);
    g_array_unref(trace->uses);
    g_array_unref(trace->deps);
    g_array_unref(trace->work);
    g_array_unref(trace->buffers);
    g_array_unref(trace->queues);
    g_clear_pointer(&trace->property_index, g_hash_table_unref);
    g_ptr_array_unref(trace->properties);
    g_free(trace);
}

#define TRACE_VIEW(field, type)                                                                                                                                \
    size_t ech_trace_n_##field(const EchTrace *trace)                                                                                                          \
    {                                                                                                                                                          \
        return trace->field->len;                                                                                                                              \
    }                                                                                                                                                          \
    const type *ech_trace_##field(const EchTrace *trace)                                                                                                       \
    {                                                                                                                                                          \
        static const type none; /* an empty array has no bytes; its end may still be pointed at */                                                             \
        return trace->field->len > 0 ? (const type *)(const void *)trace->field->data : &none;                                                                 \
    }
TRACE_VIEW(ops, EchOp)
TRACE_VIEW(uses, EchUse)
TRACE_VIEW(deps, EchDep)
TRACE_VIEW(work, EchWork)
TRACE_VIEW(buffers, EchBuffer)
TRACE_VIEW(queues, EchQueue)
#undef TRACE_VIEW

size_t ech_trace_n_memories(const EchTrace *trace)
{
    return trace->memories->len;
}

size_t ech_trace_n_strings(const EchTrace *trace)
{
    return trace->strings.offsets->len;
}

const char *ech_trace_memory(const EchTrace *trace, EchId memory)
{
    return memory < trace->memories->len ? trace->memories->pdata[memory] : "";
}

bool ech_trace_is_host(const EchTrace *trace, EchId memory)
{
    return g_str_has_prefix(ech_trace_memory(trace, memory), "host");
}

const char *ech_trace_string(const EchTrace *trace, EchId string)
{
    return string < trace->strings.offsets->len ? pool_get(&trace->strings, string) : "";
}

EchId ech_trace_find_memory(const EchTrace *trace, const char *name)
{
    for (EchId i = 0; i < trace->memories->len; i++) {
        if (strcmp(trace->memories->pdata[i], name) == 0)
            return i;
    }
    return ECH_NONE;
}

const char *ech_trace_format(const EchTrace *trace)
{
    return trace->format;
}

const char *ech_trace_property(const EchTrace *trace, size_t i, const char **ret_value)
{
    if (i >= trace->properties->len / 2)
        return NULL;
    *ret_value = trace->properties->pdata[2 * i + 1];
    return trace->properties->pdata[2 * i];
}

bool ech_trace_says(const EchTrace *trace, const char *part, const char *after)
{
    bool found = false;
    for (EchId i = 0; i < ech_trace_n_strings(trace) && !found; i++) {
        const char *at = strstr(ech_trace_string(trace, i), part);
        found = at && strstr(at, after);
    }
    return found;
}

bool ech_trace_has_op(const EchTrace *trace, EchOpKind kind)
{
    bool has = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace) && !has; i++)
        has = ech_trace_ops(trace)[i].kind == kind;
    return has;
}

const char *ech_trace_get_property(const EchTrace *trace, const char *key)
{
    /* Asked for every kernel, and a file may have any number of them. */
    guint at = GPOINTER_TO_UINT(g_hash_table_lookup(trace->property_index, key));
    return at ? trace->properties->pdata[at] : NULL;
}

static GHashTable *index_properties(const GPtrArray *properties)
{
    GHashTable *index = g_hash_table_new(ech_hash_text, g_str_equal);
    for (guint i = 0; i + 1 < properties->len; i += 2)
        g_hash_table_insert(index, properties->pdata[i], GUINT_TO_POINTER(i + 1));
    return index;
}

static void hash_piece(const char *text, size_t n, void *data)
{
    uint64_t *hash = data;
    *hash = ech_fnv(*hash, text, n);
}

uint64_t ech_trace_hash(const EchTrace *trace)
{
    /* A trace never changes, and a sweep asks at every point. */
    uint64_t hash = atomic_load(&trace->hash);
    if (hash != 0)
        return hash;
    hash = ECH_FNV;
    ech_trace_file_stream(trace, hash_piece, &hash);
    atomic_store(&((EchTrace *)(uintptr_t)trace)->hash, hash);
    return hash;
}

/* Shares all but the properties, of which there are none yet. */
static EchTrace *view_of(EchTrace *trace)
{
    EchTrace *view = g_new(EchTrace, 1);
    *view = *trace;
    atomic_init(&view->references, 1);
    atomic_init(&view->hash, 0);
    view->base = ech_trace_ref(trace);
    view->format = g_strdup(trace->format);
    g_ptr_array_ref(view->memories);
    g_array_ref(view->ops);
    g_array_ref(view->uses);
    g_array_ref(view->deps);
    g_array_ref(view->work);
    g_array_ref(view->buffers);
    g_array_ref(view->queues);
    view->properties = g_ptr_array_new_with_free_func(g_free);
    view->property_index = NULL;
    return view;
}

/* What the builder knows of the properties is the trace's from now on. */
static void take_index(EchTraceBuilder *builder)
{
    EchTrace *trace = builder->trace;
    trace->property_index = builder->property_index ? g_steal_pointer(&builder->property_index) : index_properties(trace->properties);
}

EchTrace *ech_trace_with_properties(EchTrace *trace, const char *const *pairs)
{
    EchTraceBuilder builder = {.trace = view_of(trace)};
    for (guint i = 0; i + 1 < trace->properties->len; i += 2)
        ech_trace_builder_set_property(&builder, trace->properties->pdata[i], trace->properties->pdata[i + 1]);
    for (; pairs[0] && pairs[1]; pairs += 2)
        ech_trace_builder_set_property(&builder, pairs[0], pairs[1]);
    take_index(&builder);
    return builder.trace;
}

EchTrace *ech_trace_without_properties(EchTrace *trace, const char *const *prefixes)
{
    EchTrace *view = view_of(trace);
    for (guint i = 0; i + 1 < trace->properties->len; i += 2) {
        bool dropped = false;
        for (const char *const *prefix = prefixes; *prefix; prefix++)
            dropped |= g_str_has_prefix(trace->properties->pdata[i], *prefix);
        if (!dropped) {
            g_ptr_array_add(view->properties, g_strdup(trace->properties->pdata[i]));
            g_ptr_array_add(view->properties, g_strdup(trace->properties->pdata[i + 1]));
        }
    }
    view->property_index = index_properties(view->properties);
    return view;
}

EchTraceBuilder *ech_trace_builder_new(const char *format)
{
    EchTraceBuilder *builder = g_new0(EchTraceBuilder, 1);
    builder->trace = trace_new(format);
    return builder;
}

EchTraceBuilder *ech_trace_builder_new_from(const EchTrace *trace)
{
    EchTraceBuilder *builder = ech_trace_builder_new(trace->format);
    EchTrace *copy = builder->trace;
    for (EchId i = 0; i < trace->strings.offsets->len; i++)
        pool_intern(&copy->strings, pool_get(&trace->strings, i), pool_length(&trace->strings, i));
    for (size_t i = 0; i < trace->memories->len; i++)
        g_ptr_array_add(copy->memories, g_strdup(trace->memories->pdata[i]));
    for (size_t i = 0; i < trace->properties->len; i++)
        g_ptr_array_add(copy->properties, g_strdup(trace->properties->pdata[i]));
    g_array_append_vals(copy->ops, trace->ops->data, trace->ops->len);
    g_array_append_vals(copy->uses, trace->uses->data, trace->uses->len);
    g_array_append_vals(copy->deps, trace->deps->data, trace->deps->len);
    g_array_append_vals(copy->work, trace->work->data, trace->work->len);
    g_array_append_vals(copy->buffers, trace->buffers->data, trace->buffers->len);
    g_array_append_vals(copy->queues, trace->queues->data, trace->queues->len);
    return builder;
}

void ech_trace_builder_free(EchTraceBuilder *builder)
{
    if (!builder)
        return;
    g_clear_pointer(&builder->property_index, g_hash_table_unref);
    ech_trace_unref(builder->trace);
    g_free(builder);
}

EchId ech_trace_builder_string(EchTraceBuilder *builder, const char *text, gssize length)
{
    return pool_intern(&builder->trace->strings, text, length < 0 ? strlen(text) : strnlen(text, (size_t)length));
}

const char *ech_trace_builder_peek_string(const EchTraceBuilder *builder, EchId string)
{
    return ech_trace_string(builder->trace, string);
}

EchId ech_trace_builder_memory(EchTraceBuilder *builder, const char *name)
{
    /* More than that make no trace: whether one of them has that name need not be looked for. */
    EchId found = builder->trace->memories->len <= ECH_MAX_MEMORIES ? ech_trace_find_memory(builder->trace, name) : ECH_NONE;
    if (found != ECH_NONE)
        return found;
    g_ptr_array_add(builder->trace->memories, g_strdup(name));
    return builder->trace->memories->len - 1;
}

EchId ech_trace_builder_queue(EchTraceBuilder *builder, const char *name, EchQueueKind kind, uint32_t device)
{
    EchQueue queue = {.name = ech_trace_builder_string(builder, name, -1), .kind = (uint8_t)kind, .device = device};
    g_array_append_val(builder->trace->queues, queue);
    return builder->trace->queues->len - 1;
}

EchBuffer ech_buffer_init(void)
{
    return (EchBuffer){.name = ECH_NONE,
                       .memory = ECH_NONE,
                       .offset = ECH_OFFSET_NONE,
                       .address = ECH_OFFSET_NONE,
                       .alias_of = ECH_NONE,
                       .loop = ECH_NONE,
                       .queue = ECH_NONE,
                       .pool = ECH_NONE,
                       .segment = ECH_NONE,
                       .stack = ECH_NONE,
                       .shape = ECH_NONE};
}

EchId ech_buffer_root(const EchBuffer *buffers, EchId id, uint64_t *ret_offset)
{
    uint64_t offset = 0;
    for (; buffers[id].alias_of != ECH_NONE; id = buffers[id].alias_of)
        offset += buffers[id].alias_offset;
    if (ret_offset)
        *ret_offset = offset;
    return id;
}

EchOp ech_op_init(EchOpKind kind)
{
    return (EchOp){.kind = (uint8_t)kind,
                   .name = ECH_NONE,
                   .queue = ECH_NONE,
                   .stack = ECH_NONE,
                   .memory_from = ECH_NONE,
                   .memory_to = ECH_NONE,
                   .launch = ECH_NONE,
                   .target = ECH_NONE,
                   .estimate = ECH_TIME_NONE,
                   .recorded = {ECH_TIME_NONE, ECH_TIME_NONE}};
}

EchId ech_trace_builder_buffer(EchTraceBuilder *builder, EchBuffer buffer)
{
    g_array_append_val(builder->trace->buffers, buffer);
    return builder->trace->buffers->len - 1;
}

EchId ech_trace_builder_op(EchTraceBuilder *builder, EchOp op)
{
    EchTrace *trace = builder->trace;
    op.first_use = trace->uses->len;
    op.first_dep = trace->deps->len;
    op.first_work = trace->work->len;
    op.n_uses = op.n_deps = op.n_work = 0;
    g_array_append_val(trace->ops, op);
    return trace->ops->len - 1;
}

static EchOp *last_op(EchTraceBuilder *builder)
{
    g_assert(builder->trace->ops->len > 0);
    return &g_array_index(builder->trace->ops, EchOp, builder->trace->ops->len - 1);
}

void ech_trace_builder_use(EchTraceBuilder *builder, EchId buffer, EchAccess access, EchBytes bytes, EchPattern pattern, EchOrigin origin)
{
    EchUse use = {.buffer = buffer, .access = (uint8_t)access, .pattern = (uint8_t)pattern, .origin = (uint8_t)origin, .bytes = bytes};
    g_array_append_val(builder->trace->uses, use);
    last_op(builder)->n_uses++;
}

void ech_trace_builder_dep(EchTraceBuilder *builder, EchId op, uint32_t distance)
{
    EchDep dep = {op, distance};
    g_array_append_val(builder->trace->deps, dep);
    last_op(builder)->n_deps++;
}

void ech_trace_builder_work(EchTraceBuilder *builder, EchWorkUnit unit, EchDtype dtype, uint64_t count, EchOrigin origin)
{
    EchWork work = {.unit = (uint8_t)unit, .dtype = (uint8_t)dtype, .origin = (uint8_t)origin, .count = count};
    g_array_append_val(builder->trace->work, work);
    last_op(builder)->n_work++;
}

EchOp *ech_trace_builder_peek_op(EchTraceBuilder *builder, EchId op)
{
    g_assert(op < builder->trace->ops->len);
    return &g_array_index(builder->trace->ops, EchOp, op);
}

EchUse *ech_trace_builder_peek_use(EchTraceBuilder *builder, uint32_t use)
{
    g_assert(use < builder->trace->uses->len);
    return &g_array_index(builder->trace->uses, EchUse, use);
}

EchDep *ech_trace_builder_peek_dep(EchTraceBuilder *builder, uint32_t dep)
{
    g_assert(dep < builder->trace->deps->len);
    return &g_array_index(builder->trace->deps, EchDep, dep);
}

EchBuffer *ech_trace_builder_peek_buffer(EchTraceBuilder *builder, EchId buffer)
{
    g_assert(buffer < builder->trace->buffers->len);
    return &g_array_index(builder->trace->buffers, EchBuffer, buffer);
}

size_t ech_trace_builder_n_ops(const EchTraceBuilder *builder)
{
    return builder->trace->ops->len;
}

size_t ech_trace_builder_n_queues(const EchTraceBuilder *builder)
{
    return builder->trace->queues->len;
}

size_t ech_trace_builder_n_buffers(const EchTraceBuilder *builder)
{
    return builder->trace->buffers->len;
}

void ech_trace_builder_set_property(EchTraceBuilder *builder, const char *key, const char *value)
{
    GPtrArray *properties = builder->trace->properties;
    if (!builder->property_index)
        builder->property_index = index_properties(properties);
    guint at = GPOINTER_TO_UINT(g_hash_table_lookup(builder->property_index, key));
    if (at) {
        g_free(properties->pdata[at]);
        properties->pdata[at] = g_strdup(value);
        return;
    }
    g_ptr_array_add(properties, g_strdup(key));
    g_hash_table_insert(builder->property_index, properties->pdata[properties->len - 1], GUINT_TO_POINTER(properties->len));
    g_ptr_array_add(properties, g_strdup(value));
}

void ech_trace_builder_printf_property(EchTraceBuilder *builder, const char *key, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *value = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    ech_trace_builder_set_property(builder, key, value);
}

void ech_trace_builder_drop_properties(EchTraceBuilder *builder, const char *prefix)
{
    g_clear_pointer(&builder->property_index, g_hash_table_unref);
    g_autoptr(GPtrArray) old = builder->trace->properties;
    GPtrArray *kept = builder->trace->properties = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i + 1 < old->len; i += 2) {
        if (g_str_has_prefix(old->pdata[i], prefix))
            continue;
        g_ptr_array_add(kept, g_steal_pointer(&old->pdata[i]));
        g_ptr_array_add(kept, g_steal_pointer(&old->pdata[i + 1]));
    }
}

EchTrace *ech_trace_builder_finish(EchTraceBuilder *builder, GError **error)
{
    take_index(builder);
    g_autoptr(EchTrace) trace = g_steal_pointer(&builder->trace);
    if (!ech_trace_verify(trace, error))
        return NULL;
    g_clear_pointer(&trace->strings.table, g_free);
    trace->strings.mask = 0;
    return g_steal_pointer(&trace);
}
