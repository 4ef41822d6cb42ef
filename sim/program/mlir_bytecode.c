/** @file mlir_bytecode.c  Bytes to operations. */
#include "sim/program/mlir_bytecode.h"
#include <string.h>

/* mlir/docs/BytecodeFormat.md */
enum { SECTION_STRING, SECTION_DIALECT, SECTION_ATTR_TYPE, SECTION_ATTR_TYPE_OFFSET, SECTION_IR, SECTION_PROPERTIES = 8, N_SECTIONS = 16 };
enum { HAS_ATTRIBUTES = 1, HAS_RESULTS = 2, HAS_OPERANDS = 4, HAS_SUCCESSORS = 8, HAS_REGIONS = 16, HAS_USE_ORDERS = 32, HAS_PROPERTIES = 64 };
/* Versions, and what each added (mlir/include/mlir/Bytecode/Encoding.h). */
enum { DIALECT_VERSIONS = 1, LAZY_REGIONS = 2, USE_ORDERS = 3, FEWER_LOCATIONS = 4, PROPERTIES = 5, VERSION = 6 };
/* mlir/include/mlir/IR/BuiltinDialectBytecode.td: the order of BuiltinDialectAttributes and BuiltinDialectTypes. */
enum {
    ATTR_ARRAY = 0,
    ATTR_DICTIONARY = 1,
    ATTR_STRING = 2,
    ATTR_STRING_WITH_TYPE = 3,
    ATTR_SYMBOL = 4,
    ATTR_NESTED_SYMBOL = 5,
    ATTR_INTEGER = 8,
    ATTR_DENSE_ARRAY = 17
};
enum {
    TYPE_INTEGER = 0,
    TYPE_INDEX = 1,
    TYPE_BF16 = 3,
    TYPE_F16 = 4,
    TYPE_F32 = 5,
    TYPE_F64 = 6,
    TYPE_MEMREF = 10,
    TYPE_MEMREF_WITH_SPACE = 11,
    TYPE_TENSOR = 13,
    TYPE_VECTOR = 19,
    TYPE_SCALABLE_VECTOR = 20,
    TYPE_TF32 = 21, /* from here on since JAX 0.10 (before, as text): MLIR's order of its small numbers */
    TYPE_F8E5M2 = 22,
    TYPE_F8E3M4 = 28,
    TYPE_F4E2M1FN = 29,
    TYPE_F6E2M3FN = 30,
    TYPE_F6E3M2FN = 31,
    TYPE_F8E8M0FNU = 32
};
#define MAX_DEPTH 64

/* Reading stops at the first thing that is wrong: from then on every read gives 0. */
typedef struct {
    const uint8_t *bytes;
    size_t at, end;
    const char *wrong; /* static text; NULL while all is well */
    size_t wrong_at;
} Cursor;

static void fail(Cursor *c, const char *what)
{
    if (!c->wrong) {
        c->wrong = what;
        c->wrong_at = c->at;
    }
    c->at = c->end;
}

static uint8_t read_byte(Cursor *c)
{
    if (c->at >= c->end) {
        fail(c, "the bytes end too soon");
        return 0;
    }
    return c->bytes[c->at++];
}

/* PrefixVarInt: as many zero bits below the lowest one as bytes follow. */
static uint64_t read_varint(Cursor *c)
{
    uint8_t first = read_byte(c);
    if (first & 1)
        return first >> 1;
    unsigned more = 1;
    while (more < 8 && !(first >> more & 1))
        more++;
    uint64_t value = more < 8 ? (uint64_t)first >> (more + 1) : 0;
    unsigned have = more < 8 ? 7 - more : 0;
    for (unsigned i = 0; i < more; i++)
        value |= (uint64_t)read_byte(c) << (have + 8 * i);
    return value;
}

static int64_t read_signed(Cursor *c)
{
    uint64_t value = read_varint(c);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* A count of things of at least a byte each. */
static uint32_t read_count(Cursor *c)
{
    uint64_t n = read_varint(c);
    if (n > c->end - c->at) {
        fail(c, "a count larger than the bytes that are left");
        return 0;
    }
    return (uint32_t)n;
}

static uint32_t read_index(Cursor *c, size_t limit, const char *what)
{
    uint64_t index = read_varint(c);
    if (index >= limit) {
        fail(c, what);
        return 0;
    }
    return (uint32_t)index;
}

static Cursor cursor_of(const EchMlirModule *m, uint32_t entry)
{
    const EchMlirEntry *e = &g_array_index(m->entries, EchMlirEntry, entry);
    return (Cursor){.bytes = m->bytes, .at = e->at, .end = (size_t)e->at + e->n};
}

/* ---- Tables ---- */

static void read_strings(Cursor *c, EchMlirModule *m)
{
    uint32_t n = read_count(c);
    g_autoptr(GArray) lengths = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint64_t total = 0;
    for (uint32_t i = 0; i < n && !c->wrong; i++) {
        uint64_t length = read_varint(c); /* with its zero, the last string's first */
        if (length == 0 || length > c->end - c->at || (total += length) > c->end - c->at)
            fail(c, "a string longer than its section");
        g_array_append_val(lengths, length);
    }
    if (c->wrong)
        return;
    size_t at = c->end - (size_t)total;
    for (uint32_t i = n; i-- > 0;) {
        uint64_t length = g_array_index(lengths, uint64_t, i);
        if (c->bytes[at + length - 1] != 0) {
            fail(c, "a string without its end");
            return;
        }
        g_ptr_array_add(m->strings, (gpointer)(uintptr_t)(c->bytes + at)); /* never written to */
        at += (size_t)length;
    }
}

/* Reads the head of a section: its kind, and where it ends. */
static size_t read_section_head(Cursor *c, uint8_t *ret_kind)
{
    uint8_t id = read_byte(c);
    uint64_t length = read_varint(c);
    if (id & 0x80) {
        uint64_t alignment = read_varint(c);
        if (alignment == 0 || alignment > 4096)
            fail(c, "an alignment that is none");
        while (!c->wrong && c->at % alignment != 0)
            (void)read_byte(c);
    }
    if (length > c->end - c->at)
        fail(c, "a section longer than the file");
    *ret_kind = id & 0x7f;
    return c->wrong ? c->end : c->at + (size_t)length;
}

/* An index with a flag in its lowest bit. */
static uint32_t read_flagged(Cursor *c, size_t limit, bool *ret_flag, const char *what)
{
    uint64_t value = read_varint(c);
    *ret_flag = value & 1;
    if (value >> 1 >= limit) {
        fail(c, what);
        return 0;
    }
    return (uint32_t)(value >> 1);
}

static void read_dialects(Cursor *c, EchMlirModule *m, GPtrArray *dialects)
{
    uint32_t n = read_count(c);
    bool flag = false;
    for (uint32_t i = 0; i < n && !c->wrong; i++) {
        const char *missing = "a dialect with a string that is not there";
        uint32_t name = m->version < DIALECT_VERSIONS ? read_index(c, m->strings->len, missing) : read_flagged(c, m->strings->len, &flag, missing);
        if (flag && !c->wrong) { /* the dialect's own version */
            uint8_t kind;
            c->at = read_section_head(c, &kind);
        }
        if (!c->wrong)
            g_ptr_array_add(dialects, m->strings->pdata[name]);
    }
    if (m->version >= FEWER_LOCATIONS && c->at < c->end)
        (void)read_count(c); /* operations in all */
    while (!c->wrong && c->at < c->end) {
        uint32_t dialect = read_index(c, dialects->len, "operations of a dialect that is not there"), ops = read_count(c);
        for (uint32_t i = 0; i < ops && !c->wrong; i++) {
            const char *missing = "an operation with a string that is not there";
            uint32_t name = m->version < PROPERTIES ? read_index(c, m->strings->len, missing) : read_flagged(c, m->strings->len, &flag, missing);
            if (!c->wrong)
                g_ptr_array_add(m->names, g_strconcat(dialects->pdata[dialect], ".", (const char *)m->strings->pdata[name], NULL));
        }
    }
}

static void read_offsets(Cursor *c, EchMlirModule *m, const GPtrArray *dialects, const Cursor *data)
{
    uint64_t n_attributes = read_count(c), n = n_attributes + read_count(c);
    m->n_attributes = (uint32_t)n_attributes;
    size_t at = data->at;
    while (!c->wrong && c->at < c->end && m->entries->len < n) {
        uint32_t dialect = read_index(c, dialects->len, "attributes of a dialect that is not there"), count = read_count(c);
        for (uint32_t i = 0; i < count && !c->wrong; i++) {
            uint64_t size = read_varint(c);
            if (size >> 1 > data->end - at)
                fail(c, "an attribute or type longer than its section");
            EchMlirEntry entry = {
                .at = (uint32_t)at, .n = (uint32_t)(size >> 1), .custom = size & 1, .builtin = !c->wrong && strcmp(dialects->pdata[dialect], "builtin") == 0};
            g_array_append_val(m->entries, entry);
            at += (size_t)(size >> 1);
        }
    }
    if (m->entries->len != n)
        fail(c, "fewer attributes and types than announced");
}

/* An entry's own kind, if the builtin dialect codes it; -1 else. */
static int64_t builtin_code(const EchMlirModule *m, uint32_t entry, Cursor *ret)
{
    if (entry >= m->entries->len)
        return -1;
    const EchMlirEntry *e = &g_array_index(m->entries, EchMlirEntry, entry);
    if (!e->custom || !e->builtin)
        return -1;
    *ret = cursor_of(m, entry);
    uint64_t code = read_varint(ret);
    return ret->wrong || code > INT32_MAX ? -1 : (int64_t)code;
}

/* Bits of a floating-point number's type; 0: it is none. */
static uint16_t float_bits(int64_t code)
{
    switch (code) {
    case TYPE_BF16:
    case TYPE_F16: return 16;
    case TYPE_F32:
    case TYPE_TF32: return 32;
    case TYPE_F64: return 64;
    case TYPE_F4E2M1FN: return 4;
    case TYPE_F6E2M3FN:
    case TYPE_F6E3M2FN: return 6;
    case TYPE_F8E8M0FNU: return 8;
    default: return code >= TYPE_F8E5M2 && code <= TYPE_F8E3M4 ? 8 : 0;
    }
}

/* Bits of a number's type that is text: "f8E4M3FN", "i4". */
static uint16_t text_bits(const EchMlirModule *m, uint32_t entry, uint8_t *ret_float)
{
    const EchMlirEntry *e = &g_array_index(m->entries, EchMlirEntry, entry);
    const uint8_t *text = m->bytes + e->at;
    if (e->custom || e->n < 2 || (text[0] != 'f' && text[0] != 'i'))
        return 0;
    unsigned bits = 0;
    for (uint32_t i = 1; i < e->n && g_ascii_isdigit(text[i]) && bits < 1000; i++)
        bits = bits * 10 + (unsigned)(text[i] - '0');
    *ret_float = text[0] == 'f';
    return bits <= 128 ? (uint16_t)bits : 0;
}

static EchMlirType read_type(const EchMlirModule *m, uint32_t type, unsigned depth)
{
    EchMlirType t = {.kind = ECH_MLIR_OTHER, .space = ECH_MLIR_NONE};
    Cursor c;
    int64_t code = builtin_code(m, m->n_attributes + type, &c);
    uint64_t width;
    switch (code) {
    case -1:
        t.bits = text_bits(m, m->n_attributes + type, &t.is_float);
        t.kind = t.bits == 0 ? ECH_MLIR_OTHER : t.is_float ? ECH_MLIR_FLOAT : ECH_MLIR_INTEGER;
        return t;
    case TYPE_INTEGER:
        t.kind = ECH_MLIR_INTEGER;
        width = read_varint(&c) >> 2;
        t.bits = (uint16_t)MIN(width, 4096);
        return t;
    case TYPE_INDEX:
        t.kind = ECH_MLIR_INDEX;
        t.bits = 32;
        return t;
    case TYPE_MEMREF:
    case TYPE_MEMREF_WITH_SPACE:
    case TYPE_TENSOR:
    case TYPE_VECTOR:
    case TYPE_SCALABLE_VECTOR: break;
    default:
        t.bits = float_bits(code);
        t.is_float = t.bits > 0;
        t.kind = t.is_float ? ECH_MLIR_FLOAT : ECH_MLIR_OTHER;
        return t;
    }
    bool vector = code == TYPE_VECTOR || code == TYPE_SCALABLE_VECTOR;
    if (code == TYPE_MEMREF_WITH_SPACE)
        t.space = read_index(&c, m->n_attributes, "a memory space that is not there");
    uint32_t rank = read_count(&c);
    for (uint32_t i = 0; i < rank && !c.wrong; i++) {
        int64_t size = read_signed(&c);
        if (i < ECH_MLIR_MAX_RANK)
            t.dims[i] = size;
    }
    uint32_t element = read_index(&c, m->entries->len - m->n_attributes, "an element type that is not there");
    if (c.wrong || rank > ECH_MLIR_MAX_RANK || depth > 0)
        return (EchMlirType){.kind = ECH_MLIR_OTHER, .space = ECH_MLIR_NONE};
    EchMlirType of = read_type(m, element, depth + 1);
    t.kind = vector ? ECH_MLIR_VECTOR : code == TYPE_TENSOR ? ECH_MLIR_TENSOR : ECH_MLIR_MEMREF;
    t.rank = (uint8_t)rank;
    t.bits = of.bits;
    t.is_float = of.is_float;
    return t;
}

/* ---- Operations ---- */

typedef struct {
    Cursor c;
    EchMlirModule *m;
    GArray *scope; /* uint32_t: types of the values of the scope, ECH_MLIR_NONE where not yet defined */
    unsigned depth;
} Reader;

static uint32_t define(Reader *r, uint32_t *next, size_t end)
{
    if (*next >= end) {
        fail(&r->c, "more values than its region announces");
        return 0;
    }
    return (*next)++;
}

static uint32_t read_region(Reader *r);

/* In which order the uses of values are kept, which says nothing here. */
static void skip_use_orders(Cursor *c, uint32_t values)
{
    bool pairs;
    for (uint32_t n = values > 1 ? read_count(c) : 1; n > 0 && !c->wrong; n--) {
        if (values > 1)
            (void)read_varint(c);
        for (uint32_t uses = read_flagged(c, c->end - c->at, &pairs, "a count larger than the bytes that are left"); uses > 0 && !c->wrong; uses--)
            (void)read_varint(c);
    }
}

static uint32_t read_op(Reader *r, uint32_t *next, size_t end)
{
    EchMlirModule *m = r->m;
    Cursor *c = &r->c;
    EchMlirOp op = {.attributes = ECH_MLIR_NONE, .properties = ECH_MLIR_NONE, .next = ECH_MLIR_NONE};
    uint32_t name = read_index(c, m->names->len, "an operation whose name is not there");
    uint8_t mask = read_byte(c), later = (m->version < USE_ORDERS ? HAS_USE_ORDERS : 0) | (m->version < PROPERTIES ? HAS_PROPERTIES : 0);
    if (mask & (0x80 | later))
        fail(c, "an operation with parts that its version does not have");
    (void)read_index(c, m->n_attributes, "a location that is not there");
    if (mask & HAS_ATTRIBUTES)
        op.attributes = read_index(c, m->n_attributes, "an attribute that is not there");
    if (mask & HAS_PROPERTIES)
        op.properties = read_index(c, m->properties->len, "properties that are not there");
    op.result_types = m->results->len;
    op.n_results = mask & HAS_RESULTS ? read_count(c) : 0;
    for (uint32_t i = 0; i < op.n_results && !c->wrong; i++) {
        uint32_t type = read_index(c, m->types->len, "a type that is not there"), value = define(r, next, end);
        g_array_append_val(m->results, type);
        if (i == 0)
            op.result = value;
        if (!c->wrong)
            g_array_index(r->scope, uint32_t, value) = type;
    }
    op.operands = m->operands->len;
    op.n_operands = mask & HAS_OPERANDS ? read_count(c) : 0;
    for (uint32_t i = 0; i < op.n_operands && !c->wrong; i++) {
        EchMlirOperand operand = {.value = read_index(c, r->scope->len, "a value that is not there")};
        if (!c->wrong)
            operand.type = g_array_index(r->scope, uint32_t, operand.value);
        g_array_append_val(m->operands, operand);
    }
    for (uint32_t i = mask & HAS_SUCCESSORS ? read_count(c) : 0; i > 0 && !c->wrong; i--)
        (void)read_varint(c);
    if (mask & HAS_USE_ORDERS)
        skip_use_orders(c, op.n_results);
    bool isolated = false;
    op.regions = m->regions->len;
    if (mask & HAS_REGIONS) {
        uint64_t regions = read_varint(c);
        isolated = regions & 1;
        if (regions >> 1 > c->end - c->at)
            fail(c, "more regions than bytes");
        else
            op.n_regions = (uint32_t)(regions >> 1);
    }
    if (c->wrong)
        return 0;
    op.name = m->names->pdata[name];
    uint32_t none = ECH_MLIR_NONE, index = m->ops->len;
    for (uint32_t i = 0; i < op.n_regions; i++)
        g_array_append_val(m->regions, none);
    g_array_append_val(m->ops, op);
    g_autoptr(GArray) outer = NULL;
    size_t outer_end = c->end, own_end = 0;
    if (isolated) {
        outer = g_steal_pointer(&r->scope);
        r->scope = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        if (m->version >= LAZY_REGIONS && op.n_regions > 0) { /* in a section of their own */
            uint8_t kind;
            own_end = read_section_head(c, &kind);
            if (kind != SECTION_IR)
                fail(c, "regions in a section of another kind");
            c->end = c->wrong ? outer_end : own_end;
        }
    }
    for (uint32_t i = 0; i < op.n_regions && !c->wrong; i++) {
        uint32_t first = read_region(r);
        g_array_index(m->regions, uint32_t, op.regions + i) = first;
    }
    if (isolated) {
        g_array_unref(r->scope);
        r->scope = g_steal_pointer(&outer);
        if (own_end > 0) {
            c->at = c->wrong ? outer_end : own_end;
            c->end = outer_end;
        }
    }
    return index;
}

/* Values of the region are numbered from *next on. */
static uint32_t read_block(Reader *r, uint32_t *next, size_t end)
{
    EchMlirModule *m = r->m;
    Cursor *c = &r->c;
    uint64_t header = read_varint(c);
    if (header >> 1 > c->end - c->at)
        fail(c, "more operations than bytes");
    EchMlirBlock block = {.first = ECH_MLIR_NONE, .next = ECH_MLIR_NONE, .argument = *next, .argument_types = m->results->len};
    block.n_arguments = header & 1 ? read_count(c) : 0;
    for (uint32_t i = 0; i < block.n_arguments && !c->wrong; i++) {
        bool located = true;
        const char *missing = "a type that is not there";
        uint32_t type = m->version < FEWER_LOCATIONS ? read_index(c, m->types->len, missing) : read_flagged(c, m->types->len, &located, missing);
        uint32_t value = define(r, next, end);
        if (located)
            (void)read_index(c, m->n_attributes, "a location that is not there");
        g_array_append_val(m->results, type);
        if (!c->wrong)
            g_array_index(r->scope, uint32_t, value) = type;
    }
    if ((header & 1) && m->version >= USE_ORDERS && read_byte(c) != 0)
        skip_use_orders(c, block.n_arguments);
    uint32_t index = m->blocks->len, last = ECH_MLIR_NONE;
    g_array_append_val(m->blocks, block);
    for (uint64_t i = 0; i < header >> 1 && !c->wrong; i++) {
        uint32_t op = read_op(r, next, end);
        if (c->wrong)
            break;
        if (last == ECH_MLIR_NONE)
            g_array_index(m->blocks, EchMlirBlock, index).first = op;
        else
            g_array_index(m->ops, EchMlirOp, last).next = op;
        last = op;
    }
    return index;
}

static uint32_t read_region(Reader *r)
{
    EchMlirModule *m = r->m;
    Cursor *c = &r->c;
    uint32_t n = read_count(c);
    if (n == 0 || c->wrong)
        return ECH_MLIR_NONE;
    uint32_t values = read_count(c), first = ECH_MLIR_NONE, last = ECH_MLIR_NONE;
    if (++r->depth > MAX_DEPTH)
        fail(c, "regions nested too deeply");
    uint32_t next = r->scope->len;
    size_t end = (size_t)next + values;
    if (!c->wrong && values > 0) {
        g_array_set_size(r->scope, (guint)end);
        memset(&g_array_index(r->scope, uint32_t, next), 0xff, values * sizeof(uint32_t));
    }
    m->n_values = MAX(m->n_values, r->scope->len);
    uint32_t begin = next;
    for (uint32_t i = 0; i < n && !c->wrong; i++) {
        uint32_t block = read_block(r, &next, end);
        if (last == ECH_MLIR_NONE)
            first = block;
        else
            g_array_index(m->blocks, EchMlirBlock, last).next = block;
        last = block;
    }
    g_array_set_size(r->scope, begin);
    r->depth--;
    return first;
}

/* ---- The file ---- */

static bool read_sections(Cursor *c, Cursor *sections, uint32_t *ret_version)
{
    if (c->end < 4 || memcmp(c->bytes, "ML\xefR", 4) != 0) {
        fail(c, "not MLIR bytecode");
        return false;
    }
    c->at = 4;
    uint64_t version = read_varint(c);
    if (version > VERSION && !c->wrong)
        return false;
    *ret_version = (uint32_t)version;
    while (read_byte(c) != 0) /* the producer */
        ;
    while (!c->wrong && c->at < c->end) {
        uint8_t kind;
        size_t end = read_section_head(c, &kind);
        if (c->wrong)
            break;
        if (kind < N_SECTIONS)
            sections[kind] = (Cursor){.bytes = c->bytes, .at = c->at, .end = end};
        c->at = end;
    }
    return !c->wrong;
}

static void read_properties(Cursor *c, EchMlirModule *m)
{
    for (uint32_t n = c->at < c->end ? read_count(c) : 0; n > 0 && !c->wrong; n--) {
        uint64_t size = read_varint(c);
        if (size > c->end - c->at)
            fail(c, "properties longer than their section");
        EchMlirEntry entry = {.at = (uint32_t)c->at, .n = (uint32_t)size};
        g_array_append_val(m->properties, entry);
        c->at = c->wrong ? c->end : c->at + (size_t)size;
    }
}

static EchMlirModule *new_module(const uint8_t *bytes)
{
    EchMlirModule *m = g_new0(EchMlirModule, 1);
    *m = (EchMlirModule){.bytes = bytes,
                         .strings = g_ptr_array_new(),
                         .names = g_ptr_array_new_with_free_func(g_free),
                         .entries = g_array_new(FALSE, FALSE, sizeof(EchMlirEntry)),
                         .types = g_array_new(FALSE, FALSE, sizeof(EchMlirType)),
                         .ops = g_array_new(FALSE, FALSE, sizeof(EchMlirOp)),
                         .blocks = g_array_new(FALSE, FALSE, sizeof(EchMlirBlock)),
                         .regions = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
                         .operands = g_array_new(FALSE, FALSE, sizeof(EchMlirOperand)),
                         .properties = g_array_new(FALSE, FALSE, sizeof(EchMlirEntry)),
                         .results = g_array_new(FALSE, FALSE, sizeof(uint32_t))};
    return m;
}

static bool wrong(const Cursor *c, GError **error)
{
    if (c->wrong)
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "kernel's code, byte %zu: %s", c->wrong_at, c->wrong);
    return c->wrong != NULL;
}

EchMlirModule *ech_mlir_read(const uint8_t *bytes, size_t n, GError **error)
{
    g_return_val_if_fail(bytes != NULL || n == 0, NULL);
    Cursor file = {.bytes = bytes, .end = n}, sections[N_SECTIONS] = {0};
    if (n > INT32_MAX)
        fail(&file, "more than 2 GiB");
    uint32_t version = 0;
    if (!read_sections(&file, sections, &version)) {
        if (!wrong(&file, error))
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "kernel's code: MLIR bytecode of a later version than %d", VERSION);
        return NULL;
    }
    g_autoptr(EchMlirModule) m = new_module(bytes);
    m->version = version;
    g_autoptr(GPtrArray) dialects = g_ptr_array_new();
    read_strings(&sections[SECTION_STRING], m);
    if (wrong(&sections[SECTION_STRING], error))
        return NULL;
    read_dialects(&sections[SECTION_DIALECT], m, dialects);
    if (wrong(&sections[SECTION_DIALECT], error))
        return NULL;
    read_offsets(&sections[SECTION_ATTR_TYPE_OFFSET], m, dialects, &sections[SECTION_ATTR_TYPE]);
    if (wrong(&sections[SECTION_ATTR_TYPE_OFFSET], error))
        return NULL;
    for (uint32_t i = m->n_attributes; i < m->entries->len; i++) {
        EchMlirType type = read_type(m, i - m->n_attributes, 0);
        g_array_append_val(m->types, type);
    }
    read_properties(&sections[SECTION_PROPERTIES], m);
    if (wrong(&sections[SECTION_PROPERTIES], error))
        return NULL;
    Reader r = {.c = sections[SECTION_IR], .m = m, .scope = g_array_new(FALSE, FALSE, sizeof(uint32_t))};
    uint32_t next = 0;
    (void)read_block(&r, &next, 0);
    g_array_unref(r.scope);
    if (!r.c.wrong && m->ops->len == 0)
        fail(&r.c, "no operation");
    return wrong(&r.c, error) ? NULL : g_steal_pointer(&m);
}

void ech_mlir_free(EchMlirModule *module)
{
    if (!module)
        return;
    g_ptr_array_unref(module->strings);
    g_ptr_array_unref(module->names);
    GArray *arrays[] = {module->entries, module->types, module->ops, module->blocks, module->regions, module->operands, module->results, module->properties};
    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_unref(arrays[i]);
    g_free(module);
}

/* ---- Questions ---- */

const char *ech_mlir_string(const EchMlirModule *module, uint32_t attribute)
{
    Cursor c;
    int64_t code = attribute < module->n_attributes ? builtin_code(module, attribute, &c) : -1;
    if (code == ATTR_SYMBOL || code == ATTR_NESTED_SYMBOL) {
        uint32_t name = read_index(&c, module->n_attributes, "");
        code = c.wrong ? -1 : builtin_code(module, name, &c);
    }
    if (code != ATTR_STRING && code != ATTR_STRING_WITH_TYPE)
        return NULL;
    uint32_t string = read_index(&c, module->strings->len, "");
    return c.wrong ? NULL : module->strings->pdata[string];
}

uint32_t ech_mlir_find(const EchMlirModule *module, uint32_t dictionary, const char *name)
{
    Cursor c;
    if (dictionary >= module->n_attributes || builtin_code(module, dictionary, &c) != ATTR_DICTIONARY)
        return ECH_MLIR_NONE;
    for (uint32_t n = read_count(&c); n > 0 && !c.wrong; n--) {
        uint32_t key = read_index(&c, module->n_attributes, ""), value = read_index(&c, module->n_attributes, "");
        if (!c.wrong && g_strcmp0(ech_mlir_string(module, key), name) == 0)
            return value;
    }
    return ECH_MLIR_NONE;
}

bool ech_mlir_integer(const EchMlirModule *module, uint32_t attribute, int64_t *ret)
{
    Cursor c;
    if (attribute >= module->n_attributes || builtin_code(module, attribute, &c) != ATTR_INTEGER)
        return false;
    uint32_t type = read_index(&c, module->types->len, "");
    if (c.wrong)
        return false;
    const EchMlirType *t = ech_mlir_type(module, type);
    if ((t->kind != ECH_MLIR_INTEGER && t->kind != ECH_MLIR_INDEX) || t->bits > 64)
        return false;
    /* One byte for 8 bits and fewer; an index has 64. Bits beyond the type's are written as 0 whatever the sign. */
    int64_t value = t->kind == ECH_MLIR_INTEGER && t->bits <= 8 ? read_byte(&c) : read_signed(&c);
    if (t->kind == ECH_MLIR_INTEGER && t->bits > 1 && t->bits < 64 && value >> (t->bits - 1) & 1)
        value = (int64_t)((uint64_t)value | UINT64_MAX << t->bits);
    if (c.wrong)
        return false;
    *ret = value;
    return true;
}

uint32_t ech_mlir_property(const EchMlirModule *module, const EchMlirOp *op, uint32_t k)
{
    if (op->properties >= module->properties->len)
        return ECH_MLIR_NONE;
    const EchMlirEntry *e = &g_array_index(module->properties, EchMlirEntry, op->properties);
    Cursor c = {.bytes = module->bytes, .at = e->at, .end = (size_t)e->at + e->n};
    uint64_t attribute = 0;
    for (uint32_t i = 0; i <= k; i++)
        attribute = read_varint(&c);
    return c.wrong || attribute >= module->n_attributes ? ECH_MLIR_NONE : (uint32_t)attribute;
}

bool ech_mlir_text_has(const EchMlirModule *module, uint32_t attribute, const char *part)
{
    if (attribute >= module->n_attributes)
        return false;
    const EchMlirEntry *e = &g_array_index(module->entries, EchMlirEntry, attribute);
    return !e->custom && g_strstr_len((const char *)module->bytes + e->at, e->n, part) != NULL;
}

size_t ech_mlir_numbers(const EchMlirModule *module, uint32_t attribute, int64_t *ret, size_t max)
{
    Cursor c;
    if (attribute >= module->n_attributes || builtin_code(module, attribute, &c) != ATTR_DENSE_ARRAY)
        return 0;
    uint32_t type = read_index(&c, module->types->len, "");
    uint64_t n = read_varint(&c), size = read_varint(&c);
    unsigned width = c.wrong ? 0 : ech_mlir_type(module, type)->bits / 8u;
    if ((width != 4 && width != 8) || size > c.end - c.at || size / width != n || size % width != 0)
        return 0;
    for (uint64_t i = 0; i < MIN(n, max); i++) {
        uint64_t value = 0;
        for (unsigned b = 0; b < width; b++)
            value |= (uint64_t)c.bytes[c.at + width * i + b] << 8 * b;
        ret[i] = width == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
    }
    return (size_t)n;
}

uint32_t ech_mlir_element(const EchMlirModule *module, uint32_t attribute, size_t k)
{
    Cursor c;
    if (attribute >= module->n_attributes || builtin_code(module, attribute, &c) != ATTR_ARRAY)
        return ECH_MLIR_NONE;
    uint32_t n = read_count(&c), element = ECH_MLIR_NONE;
    for (size_t i = 0; i <= k && i < n && !c.wrong; i++)
        element = read_index(&c, module->n_attributes, "");
    return k < n && !c.wrong ? element : ECH_MLIR_NONE;
}
