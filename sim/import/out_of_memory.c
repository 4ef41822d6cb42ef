/* What a framework says when memory runs out, as people paste it: XLA's report of a program that does not fit a TPU ("Ran out of memory in memory space hbm",
 * "Largest program allocations") or a GPU ("BufferAssignment stats", "Peak buffers"), PyTorch's sentence ("Tried to allocate ..."), and what the BFC allocator
 * of JAX and TensorFlow logs (bfc_dump.c).
 *
 * The text may be a whole log, with times and file names before each line; the first report in it is read. It tells sizes and not times, so it becomes a trace
 * of what was there, which 'run' holds against any device: a resident buffer for each listed allocation and for what each sum has besides, and PyTorch's
 * request as an allocation. Rules, each counted:
 *  - a size that the listed shape explains is the shape's (sizes_from_shapes), else the text's rounded number (sizes_as_rounded);
 *  - allocations that add up to more than the sum they are listed under share places: they are parts of it (allocations_sharing_places);
 *  - what XLA keeps for itself before any program ("reserved") is no part of what a device has available and is left out. */
#include "sim/base/error.h"
#include "sim/import/bfc_dump.h"
#include "sim/import/rounded.h"

#include <string.h>

enum { MAX_ITEMS = 1 << 16, MAX_ROWS = 256, MAX_TEXT = 240 };

typedef enum { NOWHERE, TOTALS, REQUIREMENT, STATS, LIST } Section;

/* A sum by its name: "HLO temp  63.79G". */
typedef struct {
    EchId name;
    Section section;
    EchRounded size;
    EchBytes listed; /* by items */
} Row;

/* A listed allocation. */
typedef struct {
    EchBytes bytes, dense;
    EchId label, operation, source, shape, type;
    EchRounded size, unpadded;
    bool argument;
} Item;

typedef struct {
    const char *text;
    size_t n;
} Field;

typedef struct {
    EchImport *ret;
    const char *where;
    EchTraceBuilder *builder;
    Section section;
    GArray *rows, *items;       /* Row, Item */
    bool open, over;            /* An item is being read; a second report begins. */
    char space[32], memory[32]; /* As XLA calls it, as devices do. */
    bool has_used, has_capacity, has_request, has_free, has_temp_padding;
    EchRounded used, capacity, request, free;
    EchRounded unpadded, padded; /* Of the temporaries. */
    bool pytorch, scoped;
    EchRounded allocated, unallocated; /* By PyTorch; reserved beside it. */
    EchBfcDump *dump;                  /* Of XLA's and TensorFlow's allocator. */
} Reader;

static Field trim(const char *text, size_t n)
{
    while (n && g_ascii_isspace(*text))
        text++, n--;
    while (n && g_ascii_isspace(text[n - 1]))
        n--;
    return (Field){text, n};
}

static bool starts(Field f, const char *prefix)
{
    size_t n = strlen(prefix);
    return f.n >= n && memcmp(f.text, prefix, n) == 0;
}

/* What follows @key in @line; empty where it is not there. */
static Field after(Field line, const char *key)
{
    const char *at = line.n ? memmem(line.text, line.n, key, strlen(key)) : NULL;
    if (!at)
        return (Field){line.text, 0};
    at += strlen(key);
    return trim(at, (size_t)(line.text + line.n - at));
}

static bool has(Field line, const char *key)
{
    return line.n && memmem(line.text, line.n, key, strlen(key)) != NULL;
}

/* Whether a size follows @key. */
static bool size_after(Field line, const char *key, EchRounded *ret)
{
    Field rest = after(line, key);
    size_t used;
    return ech_rounded_parse(rest.text, rest.n, ret, &used);
}

/* The size that ends before @key: "129.48 MiB is reserved by PyTorch". */
static bool size_before(Field line, const char *key, EchRounded *ret)
{
    const char *at = line.n ? memmem(line.text, line.n, key, strlen(key)) : NULL;
    if (!at)
        return false;
    Field before = trim(line.text, (size_t)(at - line.text));
    size_t begin = before.n, used;
    for (int blanks = 0; begin > 0 && blanks < 2; begin--)
        blanks += before.text[begin - 1] == ' ';
    for (; begin < before.n && before.text[begin] == ' '; begin++)
        continue;
    return ech_rounded_parse(before.text + begin, before.n - begin, ret, &used) && begin + used == before.n;
}

/* A log's line without its time and place: "2020-05-04 09:05:40.719805: E 1578 xla_util.cc:76]   Unpadded size: 48.00M". */
static Field body(Field line)
{
    size_t n = MIN(line.n, (size_t)256);
    for (const char *bracket = memmem(line.text, n, "] ", 2); bracket; bracket = memmem(bracket + 1, n - (size_t)(bracket + 1 - line.text), "] ", 2)) {
        const char *at = bracket;
        while (at > line.text && g_ascii_isdigit(at[-1]))
            at--;
        if (at < bracket && at > line.text && at[-1] == ':')
            return trim(bracket + 1, (size_t)(line.text + line.n - bracket - 1));
    }
    return line;
}

static EchId text_of(Reader *r, Field f)
{
    if (f.n == 0)
        return ECH_NONE;
    g_autofree char *text = ech_quote(f.text, (gssize)f.n, MAX_TEXT);
    return ech_trace_builder_string(r->builder, text, -1);
}

/* XLA's names of memories are not those of devices. */
static void set_memory(Reader *r, Field name)
{
    static const char *const names[][2] = {{"hbm", "hbm"}, {"vmem", "vector"}, {"smem", "scalar"}, {"cmem", "common"}, {"host", "host"}};
    size_t n = 0;
    while (n < name.n && n < sizeof r->memory - 1 && (g_ascii_isalnum(name.text[n]) || name.text[n] == '_'))
        n++;
    if (n == 0)
        return;
    memcpy(r->space, name.text, n);
    r->space[n] = '\0';
    g_strlcpy(r->memory, r->space, sizeof r->memory);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(r->memory, names[i][0]) == 0)
            g_strlcpy(r->memory, names[i][1], sizeof r->memory);
    }
}

/* ---- sentences ---- */

/* PyTorch's, of all its releases. */
static void pytorch_sentence(Reader *r, Field line)
{
    if (!size_after(line, "Tried to allocate ", &r->request))
        return;
    r->pytorch = r->has_request = true;
    g_strlcpy(r->memory, "hbm", sizeof r->memory);
    EchRounded reserved;
    r->has_capacity = size_after(line, "has a total capacity of ", &r->capacity) || size_after(line, "has a total capacty of ", &r->capacity) ||
                      size_before(line, " total capacity;", &r->capacity);
    r->has_free = size_before(line, " is free", &r->free) || size_before(line, " free;", &r->free);
    if (size_before(line, " is allocated by PyTorch", &r->allocated)) {
        r->has_used = size_before(line, " is reserved by PyTorch but unallocated", &r->unallocated);
    } else if (size_before(line, " already allocated", &r->allocated)) {
        r->has_used = size_before(line, " reserved in total by PyTorch", &reserved) || size_before(line, " cached", &reserved);
        if (r->has_used)
            r->unallocated = (EchRounded){reserved.bytes - MIN(reserved.bytes, r->allocated.bytes), reserved.slack + r->allocated.slack};
    }
}

/* "Used 63.80G of 30.75G hbm." and what else XLA says in one line. True where it was one. */
static bool xla_sentence(Reader *r, Field line)
{
    EchRounded a, b;
    if (has(line, "Ran out of memory in memory space ")) {
        if (r->items->len || r->has_used) {
            r->over = true;
            return true;
        }
        set_memory(r, after(line, "Ran out of memory in memory space "));
    }
    if (!r->has_used && size_after(line, "Used ", &a) && size_after(after(line, "Used "), " of ", &b)) {
        r->used = a;
        r->capacity = b;
        r->has_used = r->has_capacity = true;
        return true;
    }
    if (!r->has_used && size_after(line, "Scoped allocation with size ", &a) && size_after(line, " and limit ", &b)) {
        r->used = a;
        r->capacity = b;
        r->has_used = r->has_capacity = r->scoped = true;
        return true;
    }
    if (!r->has_used && size_after(line, "HLO temporaries (", &a) && size_after(line, "exceeds available HBM (", &b)) {
        set_memory(r, (Field){"hbm", 3});
        r->used = a;
        r->capacity = b;
        r->has_used = r->has_capacity = true;
        return true;
    }
    if (!r->has_request && (size_after(line, "Attempting to reserve ", &a) || size_after(line, "Attempting to allocate ", &a) ||
                            size_after(line, "Out of memory while trying to allocate ", &a) || size_after(line, "Out of memory allocating ", &a) ||
                            size_after(after(line, "Failed to allocate request for "), " (", &a))) {
        if (!r->memory[0])
            set_memory(r, (Field){"hbm", 3});
        r->request = a;
        r->has_request = true;
        r->has_free = size_after(line, "There are ", &r->free);
        return true;
    }
    return false;
}

/* ---- tables ---- */

/* "HLO temp  63.79G (...)", "parameter allocation:    6.00MiB": a name and a size after it. */
static void read_row(Reader *r, Field line)
{
    for (size_t at = 0; at < line.n; at++) {
        bool begins = at > 0 && g_ascii_isspace(line.text[at - 1]) && g_ascii_isdigit(line.text[at]);
        Row row = {.section = r->section};
        size_t used;
        if (!begins || !ech_rounded_parse(line.text + at, line.n - at, &row.size, &used))
            continue;
        Field name = trim(line.text, at), rest = {line.text + at + used, line.n - at - used};
        if (name.n && name.text[name.n - 1] == ':')
            name.n--;
        if (name.n == 0 || r->rows->len == MAX_ROWS)
            return;
        if (size_after(rest, "Unpadded (", &r->unpadded) && size_after(rest, " Padded (", &r->padded))
            r->has_temp_padding = true;
        row.name = text_of(r, name);
        g_array_append_val(r->rows, row);
        ech_diag_note(r->ret->records, "sums", 1);
        return;
    }
}

static Item *last_item(Reader *r)
{
    return r->open ? &g_array_index(r->items, Item, r->items->len - 1) : NULL;
}

/* The value of key="..." or key=... in an operator's metadata. */
static Field metadata(Field line, const char *key)
{
    Field rest = after(line, key);
    size_t n = 0;
    bool quoted = rest.n && *rest.text == '"';
    if (quoted)
        rest.text++, rest.n--;
    while (n < rest.n && (quoted ? rest.text[n] != '"' : g_ascii_isalnum(rest.text[n])))
        n++;
    return (Field){rest.text, n};
}

/* op_name="jit(step)/jvp(Model)/block_3/dot_general[precision=None]": what it does is the last part. */
static void read_operator(Reader *r, Item *item, Field line)
{
    Field name = metadata(line, "op_name="), file = metadata(line, "source_file="), number = metadata(line, "source_line=");
    for (size_t i = 0; i < name.n; i++) {
        if (name.text[i] == '[')
            name.n = i;
    }
    for (size_t i = name.n; i-- > 0;) {
        if (name.text[i] == '/') {
            name.text += i + 1;
            name.n -= i + 1;
            break;
        }
    }
    item->operation = text_of(r, name);
    const char *slash = file.n ? memrchr(file.text, '/', file.n) : NULL;
    if (slash)
        file = (Field){slash + 1, (size_t)(file.text + file.n - slash - 1)};
    if (file.n == 0)
        return;
    g_autofree char *base = ech_quote(file.text, (gssize)file.n, MAX_TEXT), *line_text = ech_quote(number.text, (gssize)number.n, 12);
    g_autofree char *source = *line_text ? g_strdup_printf("%s:%s", base, line_text) : g_strdup(base);
    item->source = ech_trace_builder_string(r->builder, source, -1);
}

static bool read_item_line(Reader *r, Field line, GError **error)
{
    Item *item = last_item(r);
    EchRounded size;
    Field label = after(line, starts(line, "XLA Label:") ? "XLA Label:" : "XLA label:");
    if (starts(line, "==")) {
        r->open = false;
    } else if ((starts(line, "Size:") || (line.n && g_ascii_isdigit(*line.text) && has(line, ". Size:"))) && size_after(line, "Size:", &size)) {
        if (r->items->len == MAX_ITEMS) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: more than %d allocations", r->where, MAX_ITEMS);
            return false;
        }
        Item made = {.size = size, .label = ECH_NONE, .operation = ECH_NONE, .source = ECH_NONE, .shape = ECH_NONE, .type = ECH_NONE};
        g_array_append_val(r->items, made);
        r->open = true;
    } else if (!item) {
        return true;
    } else if (starts(line, "Operator:")) {
        read_operator(r, item, line);
    } else if (starts(line, "Entry Parameter Subshape:")) {
        item->argument = true;
        item->shape = text_of(r, after(line, "Subshape:"));
    } else if (starts(line, "Shape:")) {
        item->shape = text_of(r, after(line, "Shape:"));
    } else if (starts(line, "Unpadded size:")) {
        if (!size_after(line, "Unpadded size:", &item->unpadded))
            item->unpadded = (EchRounded){0};
    } else if (starts(line, "Allocation type:")) {
        item->type = text_of(r, after(line, "type:"));
    } else if (label.n) {
        const char *equals = memmem(label.text, label.n, " = ", 3);
        if (equals)
            label.n = (size_t)(equals - label.text);
        if (*label.text == '%')
            label.text++, label.n--;
        item->label = text_of(r, label);
    }
    return true;
}

/* Headers of tables; any other line that ends in a colon ends one. True where it was one. */
static bool read_header(Reader *r, Field line)
{
    EchRounded size;
    bool totals = starts(line, "Total ") && has(line, " usage >="), needs = starts(line, "Program ") && size_after(line, " requirement ", &size),
         stats = starts(line, "BufferAssignment stats"), list = starts(line, "Largest program allocations in ") || starts(line, "Peak buffers");
    if (!totals && !needs && !stats && !list) {
        if ((line.n && line.text[line.n - 1] == ':' && !starts(line, "Buffer ")) || starts(line, "Output size"))
            r->section = NOWHERE;
        return false;
    }
    if (r->items->len) {
        r->over = true;
        return true;
    }
    r->section = totals ? TOTALS : needs ? REQUIREMENT : stats ? STATS : LIST;
    if (!r->memory[0])
        set_memory(r, totals                              ? after(line, "Total ")
                      : needs                             ? after(line, "Program ")
                      : !stats && starts(line, "Largest") ? after(line, " allocations in ")
                                                          : (Field){"hbm", 3});
    if (needs && r->rows->len < MAX_ROWS) {
        Row row = {.section = NOWHERE, .size = size, .name = ech_trace_builder_string(r->builder, "program", -1)};
        g_array_append_val(r->rows, row);
    }
    return true;
}

static bool read_line(Reader *r, Field line, GError **error)
{
    bool dumped = false;
    if (!r->pytorch && has(line, "out of memory. Tried to allocate "))
        pytorch_sentence(r, line);
    if (!r->pytorch && !ech_bfc_dump_line(r->dump, line.text, line.n, &dumped, error))
        return false;
    if (dumped || r->pytorch || xla_sentence(r, line) || read_header(r, line))
        return true;
    switch (r->section) {
    case TOTALS:
    case REQUIREMENT:
    case STATS: read_row(r, line); break;
    case LIST: return read_item_line(r, line, error);
    case NOWHERE: break;
    }
    return true;
}

/* ---- the trace ---- */

static const Row *find_row(const Reader *r, Section section, const char *name)
{
    for (guint i = 0; i < r->rows->len; i++) {
        const Row *row = &g_array_index(r->rows, Row, i);
        if (row->section == section && g_str_has_prefix(ech_trace_builder_peek_string(r->builder, row->name), name))
            return row;
    }
    return NULL;
}

static EchId resident(Reader *r, const char *name, EchBytes bytes, EchRole role)
{
    if (bytes == 0)
        return ECH_NONE;
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(r->builder, name, -1);
    b.memory = ech_trace_builder_memory(r->builder, r->memory);
    b.bytes = bytes;
    b.resident = 1;
    b.role = (uint8_t)role;
    return ech_trace_builder_buffer(r->builder, b);
}

/* Sizes of the listed allocations as they were before they were rounded. */
static void settle_sizes(Reader *r)
{
    for (guint i = 0; i < r->items->len; i++) {
        Item *item = &g_array_index(r->items, Item, i);
        const char *shape = item->shape == ECH_NONE ? "" : ech_trace_builder_peek_string(r->builder, item->shape);
        item->bytes = item->size.bytes;
        if (item->size.slack > 0)
            ech_diag_note(r->ret->diag, ech_rounded_from_shapes(&item->size, shape, strlen(shape), &item->bytes) ? "sizes_from_shapes" : "sizes_as_rounded", 1);
        EchLayout layout;
        item->dense = item->unpadded.bytes;
        if (ech_layout_parse(shape, strlen(shape), &layout, NULL, NULL) && ech_rounded_is(&item->unpadded, ech_layout_dense_bytes(&layout)))
            item->dense = ech_layout_dense_bytes(&layout);
        item->dense = MIN(item->dense, item->bytes);
    }
}

/* By what people look for: the array's dimensions, what makes it and where. Allocations of one kind have one name. */
static EchId item_name(Reader *r, const Item *item)
{
    const char *shape = item->shape == ECH_NONE ? "" : ech_trace_builder_peek_string(r->builder, item->shape);
    const char *what = ech_trace_builder_peek_string(r->builder, item->operation != ECH_NONE ? item->operation : item->label);
    g_autoptr(GString) name = g_string_new(NULL);
    g_string_append_len(name, shape, (gssize)strcspn(shape, "{"));
    if (item->argument)
        g_string_append(name, name->len ? " (argument)" : "(argument)");
    else if (what && *what)
        g_string_append_printf(name, "%s%s", name->len ? " " : "", what);
    if (item->source != ECH_NONE)
        g_string_append_printf(name, " (%s)", ech_trace_builder_peek_string(r->builder, item->source));
    return ech_trace_builder_string(r->builder, name->len ? name->str : "(allocation)", -1);
}

static void add_item(Reader *r, const Item *item, EchId parent, EchRole role)
{
    EchBuffer b = ech_buffer_init();
    b.name = item_name(r, item);
    b.memory = ech_trace_builder_memory(r->builder, r->memory);
    b.bytes = item->bytes;
    b.dense = item->dense;
    b.shape = item->shape;
    b.stack = item->label;
    b.resident = 1;
    b.role = (uint8_t)(item->argument ? ECH_ROLE_PARAMETER : role);
    b.alias_of = parent;
    b.alias_offset = parent == ECH_NONE ? b.alias_offset : 0;
    ech_trace_builder_buffer(r->builder, b);
    ech_diag_note(r->ret->records, "allocations", 1);
}

/* The allocations listed of one @type (ECH_NONE: all; @arguments: a program's arguments or all others, -1 both) and what @sum has besides. Returns what is
 * listed. */
static EchBytes add_sum(Reader *r, const char *name, const EchRounded *sum, bool (*is_of)(const Reader *, const Item *, const char *), EchRole role)
{
    EchBytes listed = 0;
    guint n = 0;
    for (guint i = 0; i < r->items->len; i++) {
        const Item *item = &g_array_index(r->items, Item, i);
        if (!is_of(r, item, name))
            continue;
        listed = ech_bytes_add(listed, item->bytes);
        n++;
    }
    bool parts = listed > sum->bytes && !ech_rounded_is(sum, listed);
    EchId parent = parts ? resident(r, name, sum->bytes, role) : ECH_NONE;
    if (parts)
        ech_diag_note(r->ret->diag, "allocations_sharing_places", n);
    for (guint i = 0; i < r->items->len; i++) {
        const Item *item = &g_array_index(r->items, Item, i);
        if (is_of(r, item, name) && (!parts || (parent != ECH_NONE && item->bytes <= sum->bytes)))
            add_item(r, item, parent, role);
    }
    g_autofree char *rest = n ? g_strdup_printf("%s, not listed", name) : g_strdup(name);
    if (listed < sum->bytes && !ech_rounded_is(sum, listed))
        resident(r, rest, sum->bytes - listed, role);
    return listed;
}

static bool of_type(const Reader *r, const Item *item, const char *name)
{
    const char *type = item->type == ECH_NONE ? "HLO temp" : ech_trace_builder_peek_string(r->builder, item->type);
    return g_ascii_strcasecmp(type, name) == 0;
}

static bool of_program(const Reader *r, const Item *item, const char *name)
{
    (void)r;
    (void)name;
    return !item->argument;
}

static bool is_argument(const Reader *r, const Item *item, const char *name)
{
    (void)r;
    (void)name;
    return item->argument;
}

/* XLA on a TPU: the program by its kinds of memory, and its arguments. */
static EchBytes tpu_buffers(Reader *r)
{
    EchBytes listed = 0, sum = 0;
    bool any = false;
    for (guint i = 0; i < r->rows->len; i++) {
        Row row = g_array_index(r->rows, Row, i);
        if (row.section != REQUIREMENT)
            continue;
        g_autofree char *name = g_strdup(ech_trace_builder_peek_string(r->builder, row.name));
        listed = ech_bytes_add(listed, add_sum(r, name, &row.size, of_type, strcmp(name, "HLO temp") == 0 ? ECH_ROLE_TEMPORARY : ECH_ROLE_UNKNOWN));
        sum = ech_bytes_add(sum, row.size.bytes);
        any = true;
    }
    const Row *program = find_row(r, NOWHERE, "program"), *arguments = find_row(r, TOTALS, "arguments"), *heap = find_row(r, TOTALS, "heap allocations");
    if (!program)
        program = find_row(r, TOTALS, "program");
    if (any && program && program->size.bytes > sum && !ech_rounded_is(&program->size, sum) &&
        (double)(program->size.bytes - sum) > program->size.slack * (double)(r->rows->len + 1))
        resident(r, "program, not broken down", program->size.bytes - sum, ECH_ROLE_UNKNOWN);
    /* Arguments are among what is allocated already. */
    const EchRounded *before = heap ? &heap->size : arguments ? &arguments->size : NULL;
    if (!any) {
        EchRounded whole = program ? program->size : r->used;
        if (!program && before)
            whole.bytes -= MIN(whole.bytes, before->bytes);
        if (program || r->has_used)
            listed = add_sum(r, r->scoped ? "scoped" : "program", &whole, of_program, ECH_ROLE_UNKNOWN);
    }
    if (before)
        resident(r, heap ? "allocated before" : "arguments", before->bytes, heap ? ECH_ROLE_UNKNOWN : ECH_ROLE_PARAMETER);
    return listed;
}

/* XLA on a GPU: arguments, and the rest of what the program's buffer assignment takes. */
static EchBytes gpu_buffers(Reader *r)
{
    static const char *const names[] = {"constant allocation", "maybe_live_out allocation", "preallocated temp allocation"};
    const Row *parameter = find_row(r, STATS, "parameter allocation");
    EchRounded arguments = parameter ? parameter->size : (EchRounded){0}, rest = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        const Row *row = find_row(r, STATS, names[i]);
        rest.bytes = ech_bytes_add(rest.bytes, row ? row->size.bytes : 0);
        rest.slack += row ? row->size.slack : 0;
    }
    return ech_bytes_add(add_sum(r, "arguments", &arguments, is_argument, ECH_ROLE_PARAMETER),
                         add_sum(r, "temporaries, results and constants", &rest, of_program, ECH_ROLE_UNKNOWN));
}

/* An allocation that was refused. */
static void add_request(Reader *r)
{
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(r->builder, "what was asked for", -1);
    b.memory = ech_trace_builder_memory(r->builder, r->memory);
    b.bytes = r->request.bytes;
    EchId buffer = ech_trace_builder_buffer(r->builder, b);
    EchOp op = ech_op_init(ECH_OP_ALLOC);
    op.name = b.name;
    op.target = buffer;
    op.bytes = b.bytes;
    op.bytes_origin = ECH_KNOWN;
    op.queue = ech_trace_builder_queue(r->builder, "allocator", ECH_QUEUE_HOST, 0);
    ech_trace_builder_op(r->builder, op);
}

/* ---- what it comes to ---- */

static void say_refused(Reader *r, const char *who)
{
    if (!r->has_used || !r->has_capacity || r->used.bytes <= r->capacity.bytes)
        return;
    g_autofree char *used = ech_format_bytes(r->used.bytes), *room = ech_format_bytes(r->capacity.bytes),
                    *over = ech_format_bytes(r->used.bytes - r->capacity.bytes);
    ech_diag_remark(r->ret->diag, "%s: %s of %s asked for, of %s there are: %s too much", who, used, r->space, room, over);
}

static void say_padding(Reader *r)
{
    EchBytes padding = r->has_temp_padding && r->padded.bytes > r->unpadded.bytes ? r->padded.bytes - r->unpadded.bytes : 0;
    if (padding < r->padded.bytes / 20 || padding == 0)
        return;
    g_autofree char *lost = ech_format_bytes(padding), *all = ech_format_bytes(r->padded.bytes);
    bool enough = r->has_used && r->has_capacity && r->used.bytes > r->capacity.bytes && r->used.bytes - MIN(padding, r->used.bytes) <= r->capacity.bytes;
    ech_diag_remark(r->ret->diag,
                    "%s of the %s of temporaries are padding%s: arrays are stored in whole tiles of their last two dimensions as laid out; 'echelon layout "
                    "SHAPE --device CHIP' says which dimension costs what, and what another order would take",
                    lost, all, enough ? ", without which it would fit" : "");
}

/* What was refused while the program was loaded, or an array made. */
static void say_request(Reader *r)
{
    g_autofree char *asked = ech_format_bytes(r->request.bytes), *free = ech_format_bytes(r->free.bytes);
    if (r->has_request && r->has_free)
        ech_diag_remark(r->ret->diag, "refused: %s at once; %s were free%s", asked, free, r->request.bytes <= r->free.bytes ? ", but not in one piece" : "");
}

/* Of a GPU's program: what it needs in all, @dumped: beside the allocator's own log, which says why there was no room. */
static void say_program(Reader *r, bool dumped)
{
    const Row *total = find_row(r, STATS, "total allocation"), *temp = find_row(r, STATS, "preallocated temp allocation");
    g_autofree char *asked = ech_format_bytes(r->request.bytes), *all = ech_format_bytes(total ? total->size.bytes : 0),
                    *block = ech_format_bytes(temp ? temp->size.bytes : 0);
    if (r->has_request && total)
        ech_diag_remark(r->ret->diag, "refused: %s at once; the program takes %s with its arguments, of which its temporaries are one block of %s%s", asked,
                        all, block,
                        dumped ? ""
                               : ": other arrays that are alive, and the share of the memory that JAX takes (XLA_PYTHON_CLIENT_MEM_FRACTION, .75 by default), "
                                 "leave it no room");
}

static void say_xla(Reader *r, bool gpu, EchBytes listed)
{
    say_refused(r, gpu ? "XLA" : "XLA refused the program");
    if (gpu)
        say_program(r, false);
    say_request(r);
    say_padding(r);
    if (r->items->len) {
        g_autofree char *sum = ech_format_bytes(listed);
        ech_diag_remark(r->ret->diag, "listed: %u allocation%s, %s in all; the largest only", r->items->len, r->items->len == 1 ? "" : "s", sum);
    }
    if (r->has_request && r->rows->len == 0 && r->items->len == 0 && !r->has_used)
        ech_diag_remark(
            r->ret->diag,
            "the message does not say what was in use: jax.profiler.save_device_memory_profile(\"oom.prof\") where the error is caught does, and so do "
            "the lines of bfc_allocator.cc in the log");
    if (strcmp(r->memory, "vector") == 0)
        ech_diag_remark(r->ret->diag,
                        "what a kernel keeps on chip has a limit of its own: smaller blocks or fewer buffers need less; Pallas kernels may ask for more "
                        "(pltpu.CompilerParams(vmem_limit_bytes=...)), XLA's own with --xla_tpu_scoped_vmem_limit_kib=...");
    else
        ech_diag_remark(
            r->ret->diag,
            "what would make room takes the program itself, which 'echelon capture --pretend NAME -- COMMAND' writes down without the device, also where it "
            "does not fit ('echelon advise')");
}

#define SNAPSHOT                                                                                                                                               \
    "torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot(\"oom.pickle\") where the error is caught"

static void say_pytorch(Reader *r)
{
    if (!r->has_capacity || !r->has_used || !r->has_free) {
        ech_diag_remark(r->ret->diag, "the message does not say what was allocated: a memory snapshot does: " SNAPSHOT);
        return;
    }
    EchBytes own = ech_bytes_add(r->allocated.bytes, r->unallocated.bytes), room = ech_bytes_add(r->free.bytes, r->unallocated.bytes);
    g_autofree char *asked = ech_format_bytes(r->request.bytes), *free = ech_format_bytes(r->free.bytes), *cache = ech_format_bytes(r->unallocated.bytes),
                    *together = ech_format_bytes(room), *live = ech_format_bytes(r->allocated.bytes);
    double slack = r->request.slack + r->free.slack + r->unallocated.slack;
    if (r->request.bytes <= r->free.bytes)
        ech_diag_remark(r->ret->diag,
                        "%s were free and %s refused: PyTorch asks for whole segments, a limit of its own (set_per_process_memory_fraction) may stand, or "
                        "the pages are spread; other processes may have taken it since",
                        free, asked);
    else if (r->request.bytes > room && (double)(r->request.bytes - room) <= slack)
        ech_diag_remark(r->ret->diag,
                        "%s asked for, and about as much free (%s) and held unused (%s) together: the figures are too rounded to tell whether "
                        "another setting of the allocator would have served it",
                        asked, free, cache);
    else if (r->request.bytes <= room)
        ech_diag_remark(r->ret->diag,
                        "%s would fit into what is free (%s) and what PyTorch holds unused (%s): the latter lies in pieces that are too small or partly used; "
                        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True can join them, and 'echelon alloc' of a memory snapshot says which setting does",
                        asked, free, cache);
    else {
        g_autofree char *over = ech_format_bytes(r->request.bytes - room);
        ech_diag_remark(r->ret->diag,
                        "no setting of the allocator would have served it: %s asked for, %s free and unused together, %s too much beside %s in use: use less "
                        "(smaller batch, checkpointing, offload) or a larger card",
                        asked, together, over, live);
    }
    if (r->capacity.bytes > ech_bytes_add(own, r->free.bytes)) {
        EchBytes others = r->capacity.bytes - own - r->free.bytes;
        g_autofree char *size = ech_format_bytes(others);
        if (others > r->capacity.bytes / 50)
            ech_diag_remark(r->ret->diag, "%s are neither PyTorch's nor free: the CUDA context, libraries, other processes", size);
    } else if (r->allocated.bytes > r->capacity.bytes) {
        ech_diag_remark(r->ret->diag, "more is allocated than the card has: the driver has moved some to the host's memory (Windows does)");
    }
    ech_diag_remark(r->ret->diag, "what was in use, and from which line: " SNAPSHOT);
}

static void pytorch_buffers(Reader *r)
{
    resident(r, "PyTorch's tensors", r->allocated.bytes, ECH_ROLE_UNKNOWN);
    EchBytes own = ech_bytes_add(ech_bytes_add(r->allocated.bytes, r->unallocated.bytes), r->free.bytes);
    if (r->has_capacity && r->has_used && r->has_free && r->capacity.bytes > own)
        resident(r, "not PyTorch's (context, libraries, other processes)", r->capacity.bytes - own, ECH_ROLE_UNKNOWN);
}

static void set_number(Reader *r, const char *key, bool known, EchBytes value)
{
    if (known)
        ech_trace_builder_printf_property(r->builder, key, "%" G_GUINT64_FORMAT, value);
}

static bool make_trace(Reader *r, GError **error)
{
    settle_sizes(r);
    bool gpu = find_row(r, STATS, "total allocation") != NULL;
    if (ech_bfc_dump_tells(r->dump) || (ech_bfc_dump_asks(r->dump) && r->rows->len == 0 && !r->has_used)) {
        ech_bfc_dump_write(r->dump, r->builder, r->ret);
        say_program(r, true);
        r->ret->trace = ech_trace_builder_finish(r->builder, error);
        return r->ret->trace != NULL;
    }
    ech_trace_builder_set_property(r->builder, "sums_only", "true");
    if (strcmp(r->memory, "vector") != 0)
        ech_trace_builder_set_property(r->builder, "refused_on", r->pytorch || gpu ? "gpu" : "tpu");
    set_number(r, "asked_for_bytes", r->has_request, r->request.bytes);
    set_number(r, "needed_bytes", r->has_used && !r->pytorch, r->used.bytes);
    set_number(r, "had_bytes", r->has_capacity, r->capacity.bytes);
    if (r->pytorch)
        pytorch_buffers(r);
    EchBytes listed = r->pytorch ? 0 : gpu ? gpu_buffers(r) : tpu_buffers(r);
    if (r->has_request && (r->pytorch || ech_trace_builder_n_buffers(r->builder) == 0))
        add_request(r);
    if (ech_trace_builder_n_buffers(r->builder) == 0) {
        uint64_t optional = ech_bfc_dump_optional(r->dump);
        if (optional)
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                        "%s: nothing ran out of memory: what was refused (times: %" G_GUINT64_FORMAT
                        ") the caller can do without, workspaces of cuDNN, say; slower, not an error",
                        r->where, optional);
        else
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: an error about memory that gives no sizes", r->where);
        return false;
    }
    if (r->pytorch)
        say_pytorch(r);
    else
        say_xla(r, gpu, listed);
    r->ret->trace = ech_trace_builder_finish(r->builder, error);
    return r->ret->trace != NULL;
}

static bool read_text(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)1 << 30, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("out_of_memory");
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(Row)), items = g_array_new(FALSE, TRUE, sizeof(Item));
    g_autoptr(EchBfcDump) dump = ech_bfc_dump_new(ech_source_path(source));
    Reader r = {.ret = ret, .where = ech_source_path(source), .builder = builder, .rows = rows, .items = items, .dump = dump};
    if (options->device)
        ech_trace_builder_set_property(builder, "chip", options->device);
    for (size_t at = 0; at < n && !r.over;) {
        const char *line = data + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        at += length + 1;
        if (!read_line(&r, body(trim(line, length)), error))
            return false;
    }
    if (r.over)
        ech_diag_note(ret->diag, "reports_after_the_first", 1);
    return make_trace(&r, error);
}

static int probe(const uint8_t *head, size_t n)
{
    static const char *const marks[] = {"Ran out of memory in memory space ",
                                        "Ran out of memory on HBM",
                                        "Largest program allocations in ",
                                        "Total hbm usage >=",
                                        "Program hbm requirement ",
                                        "BufferAssignment stats:",
                                        "Out of memory while trying to allocate ",
                                        ": Out of memory allocating ",
                                        ": Failed to allocate request for ",
                                        "Attempting to reserve ",
                                        "RESOURCE_EXHAUSTED: Error allocating device buffer",
                                        "out of memory. Tried to allocate ",
                                        "an out of memory trying to allocate ",
                                        "Sum Total of in-use chunks",
                                        "OOM when allocating tensor with shape[",
                                        "BFCAllocator dump for ",
                                        " allocated for chunks. "};
    /* Text that is not another format's, in which such a message may stand. */
    if (n < 2 || head[0] == '{' || head[0] == '<' || (head[0] == '[' && strchr("[{\" \n", head[1])) || memchr(head, 0, n))
        return 0;
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        if (memmem(head, n, marks[i], strlen(marks[i])))
            return 1;
    }
    return 0;
}

const EchImportClass ech_import_out_of_memory = {
    .name = "out_of_memory",
    .summary = "what JAX, XLA, TensorFlow or PyTorch says when memory runs out, pasted into a file: sums, and the largest allocations",
    .probe = probe,
    .read = read_text,
};
