#include "sim/import/pickle.h"

#include "sim/base/error.h"

#include <string.h>

/* 16 bytes: containers keep an index in bits, strings an offset and a length. */
typedef struct {
    uint64_t bits;
    uint32_t length;
    uint8_t type;
    bool seen;
    uint8_t reserved[2];
} Value;

typedef struct {
    EchPickleRef *items; /* in the arena */
    uint32_t n, room;
} Container;

struct EchPickle {
    const uint8_t *data;
    GArray *values;     /* Value */
    GArray *containers; /* Container */
    GPtrArray *pages;   /* of the items' arena */
    EchPickleRef *page;
    size_t page_used, page_room;
    EchPickleRef root;
    size_t trailing;
};

typedef struct {
    EchPickle *pickle;
    const uint8_t *data;
    size_t n, at;
    const char *where;
    GArray *stack; /* EchPickleRef */
    GArray *marks; /* guint: stack heights */
    GArray *memo;  /* EchPickleRef */
    GError **error;
    size_t op_at;
} Reader;

/* Values that are there from the beginning; at REF_SMALL and after, the numbers 0 to 255. */
enum { REF_NIL, REF_FALSE, REF_TRUE, REF_IDENTITY, REF_SMALL };
enum { PAGE_ITEMS = 1 << 16 };

static bool fail(Reader *r, const char *what)
{
    g_set_error(r->error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: opcode 0x%02x: %s", r->where, r->op_at, r->data[r->op_at], what);
    return false;
}

static Value *value_at(const EchPickle *pickle, EchPickleRef ref)
{
    return &g_array_index(pickle->values, Value, ref);
}

static Container *container_at(const EchPickle *pickle, EchPickleRef ref)
{
    return &g_array_index(pickle->containers, Container, value_at(pickle, ref)->bits);
}

static EchPickleRef new_value(EchPickle *pickle, EchPickleType type, uint64_t bits, uint32_t length)
{
    Value value = {.bits = bits, .length = length, .type = (uint8_t)type};
    g_array_append_val(pickle->values, value);
    return pickle->values->len - 1;
}

static EchPickleRef new_container(EchPickle *pickle, EchPickleType type)
{
    Container container = {0};
    g_array_append_val(pickle->containers, container);
    return new_value(pickle, type, pickle->containers->len - 1, 0);
}

static EchPickleRef *arena(EchPickle *pickle, size_t n)
{
    if (pickle->page_room - pickle->page_used < n) {
        size_t room = MAX(n, (size_t)PAGE_ITEMS);
        EchPickleRef *page = g_new(EchPickleRef, room);
        g_ptr_array_add(pickle->pages, page);
        if (n >= PAGE_ITEMS / 2)
            return page; /* one of its own; the current page goes on */
        pickle->page = page;
        pickle->page_room = room;
        pickle->page_used = 0;
    }
    EchPickleRef *items = pickle->page + pickle->page_used;
    pickle->page_used += n;
    return items;
}

static void extend(EchPickle *pickle, EchPickleRef ref, const EchPickleRef *items, uint32_t n)
{
    Container *c = container_at(pickle, ref);
    if (c->room - c->n < n) {
        uint32_t room = c->room ? MAX(c->room * 2, c->n + n) : n;
        EchPickleRef *grown = arena(pickle, room);
        if (c->n)
            memcpy(grown, c->items, c->n * sizeof *grown);
        c->items = grown;
        c->room = room;
    }
    if (n)
        memcpy(c->items + c->n, items, n * sizeof *items);
    c->n += n;
}

static void push(Reader *r, EchPickleRef ref)
{
    g_array_append_val(r->stack, ref);
}

static bool take(Reader *r, size_t n, const uint8_t **ret)
{
    if (r->n - r->at < n)
        return fail(r, "its argument goes past the end of the file");
    *ret = r->data + r->at;
    r->at += n;
    return true;
}

/* Little-endian unsigned of n <= 8 bytes. */
static bool number(Reader *r, size_t n, uint64_t *ret)
{
    const uint8_t *p;
    if (!take(r, n, &p))
        return false;
    uint64_t value = 0;
    for (size_t i = n; i-- > 0;)
        value = value << 8 | p[i];
    *ret = value;
    return true;
}

/* The lowest stack entry above the newest mark; entries below a mark are out of reach. */
static guint floor_of(const Reader *r)
{
    return r->marks->len ? g_array_index(r->marks, guint, r->marks->len - 1) : 0;
}

static bool need(Reader *r, guint n)
{
    return r->stack->len - floor_of(r) >= n || fail(r, "the stack holds too few values");
}

static EchPickleRef peek(const Reader *r, guint below_top)
{
    return g_array_index(r->stack, EchPickleRef, r->stack->len - 1 - below_top);
}

static bool pop_mark(Reader *r, guint *ret_first, uint32_t *ret_n)
{
    if (r->marks->len == 0)
        return fail(r, "there is no MARK");
    *ret_first = floor_of(r);
    *ret_n = r->stack->len - *ret_first;
    g_array_set_size(r->marks, r->marks->len - 1);
    return true;
}

static bool string(Reader *r, size_t length_bytes)
{
    uint64_t length;
    const uint8_t *p;
    if (!number(r, length_bytes, &length))
        return false;
    if (length > r->n - r->at || length >= UINT32_MAX)
        return fail(r, "its text goes past the end of the file");
    if (!take(r, (size_t)length, &p))
        return false;
    push(r, new_value(r->pickle, ECH_PICKLE_STRING, (uint64_t)(p - r->data), (uint32_t)length));
    return true;
}

static bool long_integer(Reader *r, size_t length_bytes)
{
    uint64_t length;
    const uint8_t *p;
    if (!number(r, length_bytes, &length))
        return false;
    if (length > r->n - r->at)
        return fail(r, "its digits go past the end of the file");
    if (!take(r, (size_t)length, &p))
        return false;
    bool negative = length && p[length - 1] & 0x80;
    /* Sign bytes on top say nothing more. */
    while (length > 8 && p[length - 1] == (negative ? 0xff : 0))
        length--;
    uint64_t bits = negative ? UINT64_MAX : 0;
    for (size_t i = (size_t)MIN(length, 8); i-- > 0;)
        bits = bits << 8 | p[i];
    EchPickleType type = ECH_PICKLE_INT;
    if (length > 8 || (negative && bits <= INT64_MAX))
        type = ECH_PICKLE_BIG;
    else if (!negative && bits > INT64_MAX)
        type = ECH_PICKLE_UINT;
    push(r, new_value(r->pickle, type, bits, 0));
    return true;
}

static bool tuple(Reader *r, uint32_t n)
{
    if (!need(r, n))
        return false;
    EchPickleRef ref = new_container(r->pickle, ECH_PICKLE_LIST);
    extend(r->pickle, ref, n ? &g_array_index(r->stack, EchPickleRef, r->stack->len - n) : NULL, n);
    g_array_set_size(r->stack, r->stack->len - n);
    push(r, ref);
    return true;
}

static bool marked_tuple(Reader *r)
{
    guint first;
    uint32_t n;
    return pop_mark(r, &first, &n) && tuple(r, n);
}

/* APPENDS and SETITEMS: everything above the mark goes into the container below it. */
static bool marked_extend(Reader *r, EchPickleType type)
{
    guint first;
    uint32_t n;
    if (!pop_mark(r, &first, &n))
        return false;
    if (first <= floor_of(r) || value_at(r->pickle, g_array_index(r->stack, EchPickleRef, first - 1))->type != type)
        return fail(r, "there is no list or dict to fill below its MARK");
    if (type == ECH_PICKLE_DICT && n % 2)
        return fail(r, "a key has no value");
    if (n)
        extend(r->pickle, g_array_index(r->stack, EchPickleRef, first - 1), &g_array_index(r->stack, EchPickleRef, first), n);
    g_array_set_size(r->stack, first);
    return true;
}

static bool single_extend(Reader *r, EchPickleType type, guint n)
{
    if (!need(r, n + 1))
        return false;
    if (value_at(r->pickle, peek(r, n))->type != type)
        return fail(r, "there is no list or dict to fill");
    extend(r->pickle, peek(r, n), &g_array_index(r->stack, EchPickleRef, r->stack->len - n), n);
    g_array_set_size(r->stack, r->stack->len - n);
    return true;
}

static bool memo_put(Reader *r, uint64_t index)
{
    if (!need(r, 1))
        return false;
    /* Picklers number the memo without gaps: a far index would only waste memory. */
    if (index > r->memo->len)
        return fail(r, "its memo index skips entries");
    EchPickleRef top = peek(r, 0);
    if (index == r->memo->len)
        g_array_append_val(r->memo, top);
    else
        g_array_index(r->memo, EchPickleRef, index) = top;
    return true;
}

static bool memo_get(Reader *r, size_t bytes)
{
    uint64_t index;
    if (!number(r, bytes, &index))
        return false;
    if (index >= r->memo->len)
        return fail(r, "its memo entry was never stored");
    push(r, g_array_index(r->memo, EchPickleRef, index));
    return true;
}

/* The tagged mode of the JIT pickler wraps values in this one function, which returns its first argument. */
static bool global(Reader *r)
{
    static const char identity[] = "torch.jit._pickle\nrestore_type_tag\n";
    size_t n = sizeof identity - 1;
    if (r->n - r->at >= n && memcmp(r->data + r->at, identity, n) == 0) {
        r->at += n;
        push(r, REF_IDENTITY);
        return true;
    }
    g_set_error(r->error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                "%s: byte %zu: the pickle names a Python object (GLOBAL), which a memory snapshot never does; refusing it", r->where, r->op_at);
    return false;
}

static bool reduce(Reader *r)
{
    if (!need(r, 2))
        return false;
    EchPickleRef args = peek(r, 0);
    if (peek(r, 1) != REF_IDENTITY || value_at(r->pickle, args)->type != ECH_PICKLE_LIST || container_at(r->pickle, args)->n < 1)
        return fail(r, "it would call something; refusing it");
    EchPickleRef result = container_at(r->pickle, args)->items[0];
    g_array_set_size(r->stack, r->stack->len - 2);
    push(r, result);
    return true;
}

/* What STACK_GLOBAL would make, by the two names on the stack: that tells whose file it is. NULL: none. Owned by the caller. */
static char *named_object(Reader *r, uint8_t op)
{
    enum { MOST = 80 };
    g_autoptr(GString) name = g_string_new(NULL);
    for (guint back = 2; op == 0x93 && back-- > 0;) {
        size_t n = 0;
        const char *text = r->stack->len > back ? ech_pickle_text(r->pickle, peek(r, back), &n) : NULL;
        if (!text || n == 0 || n > MOST)
            return NULL;
        g_string_append_printf(name, "%s%.*s", name->len ? "." : "", (int)n, text);
    }
    for (gsize i = 0; i < name->len; i++) {
        if (!g_ascii_isalnum(name->str[i]) && !strchr("._", name->str[i]))
            return NULL;
    }
    return name->len ? g_strdup_printf(" (it holds objects of %s: another program's file)", name->str) : NULL;
}

static bool refuse(Reader *r, uint8_t op)
{
    static const struct {
        uint8_t op;
        const char *name;
    } running[] = {{0x93, "STACK_GLOBAL"}, {0x69, "INST"},      {0x6f, "OBJ"},  {0x81, "NEWOBJ"}, {0x92, "NEWOBJ_EX"}, {0x62, "BUILD"},
                   {0x50, "PERSID"},       {0x51, "BINPERSID"}, {0x82, "EXT1"}, {0x83, "EXT2"},   {0x84, "EXT4"}};
    for (size_t i = 0; i < G_N_ELEMENTS(running); i++) {
        if (running[i].op == op) {
            g_autofree char *object = named_object(r, op);
            g_set_error(r->error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                        "%s: byte %zu: opcode %s could run code, and a memory snapshot never has it; refusing the file%s", r->where, r->op_at, running[i].name,
                        object ? object : "");
            return false;
        }
    }
    return fail(r, "no opcode of a memory snapshot");
}

static bool simple_value(Reader *r, uint8_t op)
{
    uint64_t bits;
    if (op == 0x4b || op == 0x4d) { /* BININT1, BININT2 */
        if (!number(r, op == 0x4b ? 1 : 2, &bits))
            return false;
        push(r, bits < 256 ? REF_SMALL + (EchPickleRef)bits : new_value(r->pickle, ECH_PICKLE_INT, bits, 0));
        return true;
    }
    if (op == 0x4a) { /* BININT: signed */
        if (!number(r, 4, &bits))
            return false;
        push(r, new_value(r->pickle, ECH_PICKLE_INT, (uint64_t)(int64_t)(int32_t)(uint32_t)bits, 0));
        return true;
    }
    const uint8_t *p; /* BINFLOAT: big endian */
    if (!take(r, 8, &p))
        return false;
    bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    push(r, new_value(r->pickle, ECH_PICKLE_FLOAT, bits, 0));
    return true;
}

static bool mark(Reader *r)
{
    g_array_append_val(r->marks, r->stack->len);
    return true;
}

static bool one(Reader *r, EchPickleRef ref)
{
    push(r, ref);
    return true;
}

static bool step(Reader *r, uint8_t op)
{
    uint64_t number_;
    switch (op) {
    case 0x80: /* PROTO */
        if (!number(r, 1, &number_))
            return false;
        return number_ <= 5 || fail(r, "a pickle protocol newer than 5");
    case 0x95: /* FRAME: only for readers that buffer */
        if (!number(r, 8, &number_))
            return false;
        return number_ <= r->n - r->at || fail(r, "its frame is longer than the rest of the file: is it cut off?");
    case 0x7d: return one(r, new_container(r->pickle, ECH_PICKLE_DICT));
    case 0x5d:
    case 0x29: return one(r, new_container(r->pickle, ECH_PICKLE_LIST));
    case 0x28: return mark(r);
    case 0x75: return marked_extend(r, ECH_PICKLE_DICT);
    case 0x73: return single_extend(r, ECH_PICKLE_DICT, 2);
    case 0x65: return marked_extend(r, ECH_PICKLE_LIST);
    case 0x61: return single_extend(r, ECH_PICKLE_LIST, 1);
    case 0x94: return memo_put(r, r->memo->len);
    case 0x71: return number(r, 1, &number_) && memo_put(r, number_);
    case 0x72: return number(r, 4, &number_) && memo_put(r, number_);
    case 0x68: return memo_get(r, 1);
    case 0x6a: return memo_get(r, 4);
    case 0x8c:
    case 0x43: return string(r, 1);
    case 0x58:
    case 0x42: return string(r, 4);
    case 0x8d:
    case 0x96:
    case 0x8e: return string(r, 8);
    case 0x4b:
    case 0x4d:
    case 0x4a:
    case 0x47: return simple_value(r, op);
    case 0x8a: return long_integer(r, 1);
    case 0x8b: return long_integer(r, 4);
    case 0x88: return one(r, REF_TRUE);
    case 0x89: return one(r, REF_FALSE);
    case 0x4e: return one(r, REF_NIL);
    case 0x85: return tuple(r, 1);
    case 0x86: return tuple(r, 2);
    case 0x87: return tuple(r, 3);
    case 0x74: return marked_tuple(r);
    case 0x63: return global(r);
    case 0x52: return reduce(r);
    default: return refuse(r, op);
    }
}

static bool run(Reader *r)
{
    while (r->at < r->n) {
        r->op_at = r->at;
        uint8_t op = r->data[r->at++];
        if (op == 0x2e) { /* STOP */
            if (r->marks->len || !need(r, 1))
                return r->marks->len ? fail(r, "a MARK is still open at STOP") : false;
            r->pickle->root = peek(r, 0);
            r->pickle->trailing = r->n - r->at;
            return true;
        }
        if (r->pickle->values->len >= UINT32_MAX - 8 || r->stack->len >= UINT32_MAX - 8)
            return fail(r, "too many values");
        if (!step(r, op))
            return false;
    }
    g_set_error(r->error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: the pickle ends without STOP; the file is cut", r->where, r->n);
    return false;
}

EchPickle *ech_pickle_read(const uint8_t *data, size_t n, const char *where, GError **error)
{
    g_autoptr(EchPickle) pickle = g_new0(EchPickle, 1);
    pickle->data = data;
    pickle->values = g_array_new(FALSE, FALSE, sizeof(Value));
    pickle->containers = g_array_new(FALSE, FALSE, sizeof(Container));
    pickle->pages = g_ptr_array_new_with_free_func(g_free);
    new_value(pickle, ECH_PICKLE_NIL, 0, 0);
    new_value(pickle, ECH_PICKLE_BOOL, 0, 0);
    new_value(pickle, ECH_PICKLE_BOOL, 1, 0);
    new_value(pickle, ECH_PICKLE_IDENTITY, 0, 0);
    for (uint64_t i = 0; i < 256; i++)
        new_value(pickle, ECH_PICKLE_INT, i, 0);
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(EchPickleRef));
    g_autoptr(GArray) marks = g_array_new(FALSE, FALSE, sizeof(guint));
    g_autoptr(GArray) memo = g_array_new(FALSE, FALSE, sizeof(EchPickleRef));
    Reader reader = {.pickle = pickle, .data = data, .n = n, .where = where, .stack = stack, .marks = marks, .memo = memo, .error = error};
    return run(&reader) ? g_steal_pointer(&pickle) : NULL;
}

void ech_pickle_free(EchPickle *pickle)
{
    if (!pickle)
        return;
    g_array_unref(pickle->values);
    g_array_unref(pickle->containers);
    g_ptr_array_unref(pickle->pages);
    g_free(pickle);
}

EchPickleRef ech_pickle_root(const EchPickle *pickle)
{
    return pickle->root;
}

size_t ech_pickle_trailing(const EchPickle *pickle)
{
    return pickle->trailing;
}

size_t ech_pickle_n_values(const EchPickle *pickle)
{
    return pickle->values->len;
}

EchPickleType ech_pickle_type(const EchPickle *pickle, EchPickleRef ref)
{
    return ref == ECH_PICKLE_ABSENT ? ECH_PICKLE_NIL : (EchPickleType)value_at(pickle, ref)->type;
}

bool ech_pickle_u64(const EchPickle *pickle, EchPickleRef ref, uint64_t *ret)
{
    EchPickleType type = ech_pickle_type(pickle, ref);
    if (type != ECH_PICKLE_INT && type != ECH_PICKLE_UINT && type != ECH_PICKLE_BOOL)
        return false;
    *ret = value_at(pickle, ref)->bits;
    return true;
}

bool ech_pickle_i64(const EchPickle *pickle, EchPickleRef ref, int64_t *ret)
{
    EchPickleType type = ech_pickle_type(pickle, ref);
    if (type != ECH_PICKLE_INT && type != ECH_PICKLE_BOOL)
        return false;
    *ret = (int64_t)value_at(pickle, ref)->bits;
    return true;
}

bool ech_pickle_double(const EchPickle *pickle, EchPickleRef ref, double *ret)
{
    int64_t integer;
    if (ech_pickle_i64(pickle, ref, &integer)) {
        *ret = (double)integer;
        return true;
    }
    if (ech_pickle_type(pickle, ref) != ECH_PICKLE_FLOAT)
        return false;
    memcpy(ret, &value_at(pickle, ref)->bits, sizeof *ret);
    return true;
}

const char *ech_pickle_text(const EchPickle *pickle, EchPickleRef ref, size_t *ret_n)
{
    if (ech_pickle_type(pickle, ref) != ECH_PICKLE_STRING)
        return NULL;
    const Value *value = value_at(pickle, ref);
    *ret_n = value->length;
    return (const char *)pickle->data + value->bits;
}

bool ech_pickle_equals(const EchPickle *pickle, EchPickleRef ref, const char *text)
{
    size_t n;
    const char *own = ech_pickle_text(pickle, ref, &n);
    return own && n == strlen(text) && memcmp(own, text, n) == 0;
}

const EchPickleRef *ech_pickle_items(const EchPickle *pickle, EchPickleRef ref, size_t *ret_n)
{
    EchPickleType type = ech_pickle_type(pickle, ref);
    *ret_n = 0;
    if (type != ECH_PICKLE_LIST && type != ECH_PICKLE_DICT)
        return NULL;
    const Container *c = container_at(pickle, ref);
    *ret_n = type == ECH_PICKLE_DICT ? c->n / 2 : c->n;
    return c->n ? c->items : NULL;
}

EchPickleRef ech_pickle_get(const EchPickle *pickle, EchPickleRef ref, const char *key)
{
    if (ech_pickle_type(pickle, ref) != ECH_PICKLE_DICT)
        return ECH_PICKLE_ABSENT;
    size_t n;
    const EchPickleRef *items = ech_pickle_items(pickle, ref, &n);
    for (size_t i = n; i-- > 0;) {
        if (ech_pickle_equals(pickle, items[2 * i], key))
            return items[2 * i + 1];
    }
    return ECH_PICKLE_ABSENT;
}

bool ech_pickle_visit(EchPickle *pickle, EchPickleRef ref)
{
    EchPickleType type = ech_pickle_type(pickle, ref);
    if (type != ECH_PICKLE_LIST && type != ECH_PICKLE_DICT)
        return false;
    bool before = value_at(pickle, ref)->seen;
    value_at(pickle, ref)->seen = true;
    return before;
}
