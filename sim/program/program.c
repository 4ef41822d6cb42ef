#include "sim/program/private.h"

#include "models/link/link.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

/* Opcodes */

static const struct {
    const char *name;
    uint8_t class, cost;
} hlo_table[] = {
#define ECH_HLO(NAME, text, class, cost) {text, ECH_CLASS_##class, cost},
#include "sim/program/opcodes.def"
#undef ECH_HLO
};

const char *ech_hlo_name(EchHlo opcode)
{
    return hlo_table[opcode].name;
}

EchHlo ech_hlo_parse(const char *name, size_t length)
{
    size_t low = 1, high = ECH_N_HLO;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *other = hlo_table[middle].name;
        int order = strncmp(name, other, length);
        /* A NUL inside the name ends the comparison early. */
        if (order == 0)
            order = (length > strlen(other)) - (length < strlen(other));
        if (order == 0)
            return (EchHlo)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return ECH_HLO_UNKNOWN;
}

EchHloClass ech_hlo_class(EchHlo opcode)
{
    return (EchHloClass)hlo_table[opcode].class;
}

bool ech_hlo_is_elementwise(EchHlo opcode)
{
    return hlo_table[opcode].class == ECH_CLASS_ELEMENTWISE;
}

bool ech_hlo_is_transcendental(EchHlo opcode)
{
    return hlo_table[opcode].cost == 2;
}

/* Shapes */

EchId ech_program_subshape(const EchProgram *program, EchId shape, uint32_t position)
{
    while (position > 0) {
        uint32_t k = ech_program_member_at(program, shape, position, &position);
        shape = program->elements[program->shapes[shape].first_element + k];
    }
    return shape;
}

uint32_t ech_program_member_at(const EchProgram *program, EchId shape, uint32_t position, uint32_t *ret_inner)
{
    const EchShape *s = &program->shapes[shape];
    g_assert(position > 0 && s->n_elements > 0);
    const uint32_t *starts = program->starts + s->first_element;
    uint32_t low = 0, high = s->n_elements; /* the last member that begins at the position or before */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (starts[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    *ret_inner = position - starts[low];
    return low;
}

uint32_t ech_program_member_position(const EchProgram *program, EchId shape, uint32_t member)
{
    const EchShape *s = &program->shapes[shape];
    return member < s->n_elements ? program->starts[s->first_element + member] : s->n_positions;
}

const EchLayout *ech_program_layout(const EchProgram *program, EchId shape)
{
    uint32_t layout = program->shapes[shape].layout;
    return layout == ECH_NONE ? NULL : &program->layouts[layout];
}

EchId ech_program_first_array(const EchProgram *p, EchId shape)
{
    while (p->shapes[shape].is_tuple && p->shapes[shape].n_elements > 0)
        shape = p->elements[p->shapes[shape].first_element];
    return shape;
}

const EchLayout *ech_program_first_layout(const EchProgram *p, EchId instruction)
{
    return ech_program_layout(p, ech_program_first_array(p, p->instructions[instruction].shape));
}

static void append_shape(const EchProgram *program, EchId shape, GString *text)
{
    const EchShape *s = &program->shapes[shape];
    if (!s->is_tuple) {
        ech_layout_append(&program->layouts[s->layout], text);
        return;
    }
    g_string_append_c(text, '(');
    for (uint32_t k = 0; k < s->n_elements; k++) {
        if (k > 0)
            g_string_append(text, ", ");
        append_shape(program, program->elements[s->first_element + k], text);
    }
    g_string_append_c(text, ')');
}

char *ech_program_shape_text(const EchProgram *program, EchId shape)
{
    GString *text = g_string_new(NULL);
    append_shape(program, shape, text);
    return g_string_free(text, FALSE);
}

static EchBytes shape_bytes(const EchProgram *program, const EchShape *shape)
{
    if (shape->is_tuple) {
        if (program->platform == ECH_PLATFORM_TPU)
            return ech_layout_tuple_bytes(shape->n_elements, program->tuple_granule);
        return ech_bytes_mul(shape->n_elements, 8);
    }
    const EchLayout *layout = &program->layouts[shape->layout];
    if (program->platform == ECH_PLATFORM_TPU)
        return ech_layout_padded_bytes(layout, ECH_LAYOUT_TPU);
    /* The true lengths lie behind an array of bounded ones, an s32 each (by buffer assignments of jaxlib 0.10.2 for an H100); a TPU's layout says so: M(n). */
    return ech_bytes_add(ech_layout_padded_bytes(layout, ECH_LAYOUT_DENSE), layout->dynamic ? 4 * (EchBytes)layout->rank : 0);
}

/* Bytes of every shape for the program's platform and tuple granule. */
static void size_shapes(EchProgram *program)
{
    for (size_t i = 0; i < program->n_shapes; i++) {
        EchShape *shape = &program->shapes[i];
        shape->bytes = shape_bytes(program, shape);
        shape->whole = shape->is_tuple ? 0 : shape->bytes;
        for (uint32_t k = 0; k < shape->n_elements; k++) /* which have smaller numbers */
            shape->whole = ech_bytes_add(shape->whole, program->shapes[program->elements[shape->first_element + k]].whole);
    }
}

/* Attributes */

const char *ech_program_quote_end(const char *at, const char *end)
{
    const char *from = at;
    while (at < end) {
        const char *quote = memchr(at, '"', (size_t)(end - at));
        if (!quote)
            return end;
        const char *escapes = quote;
        while (escapes > from && escapes[-1] == '\\')
            escapes--;
        if ((quote - escapes) % 2 == 0)
            return quote;
        at = quote + 1;
    }
    return end;
}

/* End of a value: balanced brackets, quoted strings with escapes; stops at a comma at depth 0. */
static const char *value_end(const char *at, const char *end)
{
    static const bool special[256] = {['"'] = true, ['{'] = true, ['('] = true, ['['] = true, ['}'] = true, [')'] = true, [']'] = true, [','] = true};
    unsigned depth = 0;
    for (; at < end; at++) {
        if (!special[(unsigned char)*at])
            continue;
        switch (*at) {
        case '"':
            at = ech_program_quote_end(at + 1, end);
            if (at >= end)
                return end;
            break;
        case '{':
        case '(':
        case '[': depth++; break;
        case '}':
        case ')':
        case ']':
            if (depth == 0)
                return at;
            depth--;
            break;
        case ',':
            if (depth == 0)
                return at;
            break;
        default: break;
        }
    }
    return end;
}

bool ech_program_next_attribute(const char **at, const char *end, EchAttribute *ret)
{
    const char *p = *at;
    while (p < end && (*p == ',' || g_ascii_isspace(*p)))
        p++;
    const char *name = p;
    while (p < end && *p != '=' && *p != ',' && *p != '{' && *p != '"')
        p++;
    if (p >= end || *p != '=') {
        *at = end;
        return false;
    }
    ret->name = name;
    ret->name_n = (size_t)(p - name);
    ret->value = ++p;
    p = value_end(p, end);
    ret->value_n = (size_t)(p - ret->value);
    while (p < end && *p != ',')
        p++;
    *at = p;
    return true;
}

const char *ech_program_attribute(const EchInstruction *instruction, const char *name, size_t *ret_n)
{
    const char *at = instruction->attributes, *end = at + instruction->attributes_n;
    size_t n = strlen(name);
    EchAttribute attribute;
    while (at && ech_program_next_attribute(&at, end, &attribute)) {
        if (attribute.name_n == n && memcmp(attribute.name, name, n) == 0) {
            *ret_n = attribute.value_n;
            return attribute.value;
        }
    }
    return NULL;
}

/* First `"key":` in [at, end) and its value. */
static const char *find_key(const char *at, const char *end, const char *key, size_t key_n, size_t *ret_n)
{
    while (at < end) {
        const char *quote = memchr(at, '"', (size_t)(end - at));
        if (!quote || (size_t)(end - quote) < key_n + 3)
            return NULL;
        if (memcmp(quote + 1, key, key_n) == 0 && quote[1 + key_n] == '"' && quote[2 + key_n] == ':') {
            const char *value = quote + 3 + key_n;
            while (value < end && *value == ' ')
                value++;
            const char *stop = value_end(value, end);
            *ret_n = (size_t)(stop - value);
            return value;
        }
        at = quote + 1;
    }
    return NULL;
}

const char *ech_program_config(const EchInstruction *instruction, const char *key, size_t *ret_n)
{
    /* Found once, since a run asks for ten keys of each kernel. While a program is still being made its attributes may be others by now. */
    size_t n = instruction->config_n;
    const char *config = instruction->config;
    if (instruction->config_of != instruction->attributes)
        config = ech_program_attribute(instruction, "backend_config", &n);
    return config ? ech_program_config_member(config, n, key, ret_n) : NULL;
}

const char *ech_program_config_member(const char *object, size_t object_n, const char *key, size_t *ret_n)
{
    const char *value = object;
    size_t n = object_n;
    while (true) {
        const char *dot = strchr(key, '.');
        size_t key_n = dot ? (size_t)(dot - key) : strlen(key);
        value = find_key(value, value + n, key, key_n, &n);
        if (!value)
            return NULL;
        if (!dot)
            break;
        key = dot + 1;
    }
    if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
        value++;
        n -= 2;
    }
    *ret_n = n;
    return value;
}

bool ech_program_config_u64(const EchInstruction *instruction, const char *key, uint64_t *ret)
{
    size_t n;
    const char *text = ech_program_config(instruction, key, &n);
    if (!text || n == 0 || n > 20)
        return false;
    g_autofree char *copy = g_strndup(text, n);
    return ech_parse_u64(copy, ret, NULL);
}

bool ech_program_joins_slices(const EchInstruction *instruction)
{
    return instruction->target != NULL && strcmp(instruction->target, "ConcatBitcast") == 0;
}

size_t ech_program_numbers(const char *text, size_t n, int64_t *ret, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        bool negative = text[i] == '-';
        size_t j = i + negative;
        if (j >= n || text[j] < '0' || text[j] > '9') {
            i++;
            continue;
        }
        int64_t value = 0;
        for (; j < n && text[j] >= '0' && text[j] <= '9'; j++)
            value = value > (INT64_MAX - 9) / 10 ? INT64_MAX / 2 : value * 10 + (text[j] - '0');
        if (count < max)
            ret[count] = negative ? -value : value;
        count++;
        i = j;
    }
    return count;
}

size_t ech_program_attribute_numbers(const EchInstruction *instruction, const char *name, int64_t *ret, size_t max)
{
    size_t n;
    const char *text = ech_program_attribute(instruction, name, &n);
    return text ? MIN(ech_program_numbers(text, n, ret, max), max) : 0;
}

size_t ech_program_slice_ranges(const EchInstruction *slice, int64_t (*ret)[3], size_t max)
{
    size_t n, count = 0;
    const char *text = ech_program_attribute(slice, "slice", &n), *end = text ? text + n : NULL;
    for (const char *open = text; open && count < max;) {
        open = memchr(open, '[', (size_t)(end - open));
        const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
        if (!close)
            break;
        int64_t *range = ret[count++];
        range[0] = range[1] = 0;
        range[2] = 1;
        (void)ech_program_numbers(open, (size_t)(close - open), range, 3);
        open = close;
    }
    return count;
}

static EchBytes scoped_bytes(const EchInstruction *instruction, const char *key, int32_t space)
{
    size_t n;
    const char *text = ech_program_config(instruction, key, &n);
    EchBytes total = 0;
    const char *end = text ? text + n : NULL;
    while (text && text < end) {
        const char *open = memchr(text, '{', (size_t)(end - text));
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        if (!close)
            break;
        size_t m;
        int64_t number = -1, size = 0;
        const char *value = find_key(open, close, "memory_space", 12, &m);
        if (value)
            (void)ech_program_numbers(value, m, &number, 1);
        value = find_key(open, close, "size", 4, &m);
        if (value)
            (void)ech_program_numbers(value, m, &size, 1);
        if (number == space && size > 0)
            total = ech_bytes_add(total, (EchBytes)size);
        text = close + 1;
    }
    return total;
}

EchBytes ech_program_scoped_bytes(const EchInstruction *instruction)
{
    return scoped_bytes(instruction, "used_scoped_memory_configs", ECH_SPACE_VECTOR);
}

EchBytes ech_program_asked_bytes(const EchInstruction *instruction, int32_t space)
{
    return scoped_bytes(instruction, "scoped_memory_configs", space);
}

/* Ownership */

EchProgram *ech_program_ref(EchProgram *program)
{
    g_atomic_ref_count_inc(&program->refs);
    return program;
}

static void program_clear(EchProgram *p)
{
    g_free(p->shapes);
    g_free(p->elements);
    g_free(p->starts);
    g_free(p->layouts);
    g_free(p->instructions);
    g_free(p->computations);
    g_free(p->operands);
    g_free(p->called);
    g_free(p->control);
    g_free(p->donations);
    for (size_t c = 0; p->bodies && c < p->n_computations; c++)
        g_free(p->bodies[c].parameters);
    g_free(p->bodies);
    g_free(p->grids);
    g_free(p->flat);
    g_free(p->positions);
    g_free(p->values);
    g_free(p->holders);
    g_free(p->uses);
    g_free(p->buffers);
    g_free(p->buffer_values);
    ech_program_assignment_free(p->assignment);
    g_clear_pointer(&p->keep, g_ptr_array_unref);
    g_clear_pointer(&p->strings, g_string_chunk_free);
}

void ech_program_unref(EchProgram *program)
{
    if (!program || !g_atomic_ref_count_dec(&program->refs))
        return;
    program_clear(program);
    g_free(program);
}

void ech_program_assignment_free(EchProgramAssignment *assignment)
{
    if (!assignment)
        return;
    g_free(assignment->allocations);
    g_free(assignment->assigned);
    g_free(assignment->heaps);
    g_free(assignment);
}

/* Builder */

typedef struct {
    size_t shapes, elements, starts, layouts, instructions, computations, operands, called, control, donations;
} Capacity;

struct EchProgramBuilder {
    EchProgram *program;
    Capacity capacity;
    GHashTable *shapes; /* GBytes (text of an array, or ids of a tuple) -> id + 1 */
};

#define GROW(builder, what)                                                                                                                                    \
    do {                                                                                                                                                       \
        EchProgram *grown = (builder)->program;                                                                                                                \
        if (grown->n_##what == (builder)->capacity.what) {                                                                                                     \
            (builder)->capacity.what = MAX((builder)->capacity.what * 2, 16);                                                                                  \
            grown->what = g_realloc_n(grown->what, (builder)->capacity.what, sizeof *grown->what);                                                             \
        }                                                                                                                                                      \
    } while (0)

EchProgramBuilder *ech_program_builder_new(const char *name)
{
    EchProgramBuilder *builder = g_new0(EchProgramBuilder, 1);
    EchProgram *p = builder->program = g_new0(EchProgram, 1);
    g_atomic_ref_count_init(&p->refs);
    p->strings = g_string_chunk_new(4096);
    p->keep = g_ptr_array_new_with_free_func((GDestroyNotify)g_bytes_unref);
    p->name = g_string_chunk_insert(p->strings, name);
    p->entry = p->entry_layout = ECH_NONE;
    p->replicas = p->partitions = 1;
    builder->shapes = g_hash_table_new_full(ech_hash_gbytes, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    return builder;
}

void ech_program_builder_free(EchProgramBuilder *builder)
{
    if (!builder)
        return;
    g_clear_pointer(&builder->program, ech_program_unref);
    g_hash_table_unref(builder->shapes);
    g_free(builder);
}

EchProgram *ech_program_builder_peek(EchProgramBuilder *builder)
{
    return builder->program;
}

const char *ech_program_builder_string(EchProgramBuilder *builder, const char *text, gssize length)
{
    return g_string_chunk_insert_len(builder->program->strings, text, length);
}

void ech_program_builder_keep(EchProgramBuilder *builder, GBytes *bytes)
{
    g_ptr_array_add(builder->program->keep, g_bytes_ref(bytes));
}

static EchId intern(EchProgramBuilder *builder, GBytes *key, EchShape shape)
{
    EchProgram *p = builder->program;
    GROW(builder, shapes);
    p->shapes[p->n_shapes] = shape;
    g_hash_table_insert(builder->shapes, key, GSIZE_TO_POINTER(p->n_shapes + 1));
    return (EchId)p->n_shapes++;
}

EchId ech_program_builder_array(EchProgramBuilder *builder, const EchLayout *layout)
{
    EchProgram *p = builder->program;
    g_autofree char *text = ech_layout_print(layout);
    g_autoptr(GBytes) key = g_bytes_new(text, strlen(text));
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(builder->shapes, key));
    if (found > 0)
        return (EchId)(found - 1);
    if (p->n_shapes >= INT32_MAX)
        return ECH_NONE;
    GROW(builder, layouts);
    p->layouts[p->n_layouts] = *layout;
    EchShape shape = {.dtype = (uint8_t)ech_dtype_parse(layout->dtype, strlen(layout->dtype)),
                      .space = layout->space,
                      .n_positions = 1,
                      .n_leaves = 1,
                      .layout = (uint32_t)p->n_layouts++,
                      .count = ech_layout_elements(layout),
                      .dense = ech_layout_dense_bytes(layout)};
    return intern(builder, g_steal_pointer(&key), shape);
}

EchId ech_program_builder_tuple(EchProgramBuilder *builder, const EchId *members, uint32_t n)
{
    EchProgram *p = builder->program;
    g_autofree char *raw = g_malloc(1 + (size_t)n * sizeof *members);
    raw[0] = '(';
    if (n > 0)
        memcpy(raw + 1, members, (size_t)n * sizeof *members);
    g_autoptr(GBytes) key = g_bytes_new(raw, 1 + (size_t)n * sizeof *members);
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(builder->shapes, key));
    if (found > 0)
        return (EchId)(found - 1);
    EchShape shape = {.dtype = ECH_DTYPE_TUPLE, .is_tuple = 1, .first_element = (uint32_t)p->n_elements, .n_elements = n, .layout = ECH_NONE};
    uint64_t positions = 1;
    for (uint32_t k = 0; k < n; k++) {
        const EchShape *member = &p->shapes[members[k]];
        GROW(builder, elements);
        GROW(builder, starts);
        p->elements[p->n_elements++] = members[k];
        p->starts[p->n_starts++] = (uint32_t)MIN(positions, UINT32_MAX);
        positions += member->n_positions;
        shape.n_leaves += member->n_leaves;
        shape.dense = ech_bytes_add(shape.dense, member->dense);
    }
    /* Nested tuples of tuples double at each level: refuse before positions overflow. */
    if (p->n_shapes >= INT32_MAX || positions > (1 << 24))
        return ECH_NONE;
    shape.n_positions = (uint32_t)positions;
    return intern(builder, g_steal_pointer(&key), shape);
}

enum { MAX_SHAPE_DEPTH = 64 };

static void skip_space(const char **at, const char *end)
{
    while (*at < end) {
        if (g_ascii_isspace(**at))
            (*at)++;
        else if (end - *at >= 2 && (*at)[0] == '/' && (*at)[1] == '*') {
            const char *close = g_strstr_len(*at + 2, end - *at - 2, "*/");
            *at = close ? close + 2 : end;
        } else
            break;
    }
}

static bool parse_shape(EchProgramBuilder *builder, const char **at, const char *end, unsigned depth, EchId *ret, GError **error)
{
    skip_space(at, end);
    bool deep = depth == MAX_SHAPE_DEPTH && *at < end && (**at == '(' || (**at == 'b' && end - *at > 1 && (*at)[1] == '('));
    if (deep) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "tuple shape nested more than %d deep", MAX_SHAPE_DEPTH);
        return false;
    }
    /* "b(f32[8]{0})": a buffer (JAX's pin), where the array stays as long as it is one. */
    if (end - *at > 1 && **at == 'b' && (*at)[1] == '(') {
        *at += 2;
        if (!parse_shape(builder, at, end, depth + 1, ret, error))
            return false;
        skip_space(at, end);
        if (*at >= end || *(*at)++ != ')') {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "a buffer's shape without ')'");
            return false;
        }
        return true;
    }
    if (*at >= end || **at != '(') {
        EchLayout layout;
        size_t used;
        if (!ech_layout_parse(*at, (size_t)(end - *at), &layout, &used, error))
            return false;
        *at += used;
        *ret = ech_program_builder_array(builder, &layout);
    } else {
        (*at)++;
        g_autoptr(GArray) members = g_array_new(FALSE, FALSE, sizeof(EchId));
        skip_space(at, end);
        while (*at < end && **at != ')') {
            EchId member;
            if (members->len > 0 && *(*at)++ != ',') {
                g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "tuple shape: expected ',' or ')'");
                return false;
            }
            if (!parse_shape(builder, at, end, depth + 1, &member, error))
                return false;
            g_array_append_val(members, member);
            skip_space(at, end);
        }
        if (*at >= end) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "tuple shape without ')'");
            return false;
        }
        (*at)++;
        *ret = ech_program_builder_tuple(builder, (const EchId *)(void *)members->data, members->len);
    }
    if (*ret == ECH_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "too many shapes, or a tuple of too many members");
        return false;
    }
    return true;
}

bool ech_program_builder_shape(EchProgramBuilder *builder, const char *text, size_t n, EchId *ret, size_t *ret_used, GError **error)
{
    const char *at = text;
    EchId shape;
    if (!parse_shape(builder, &at, text + n, 0, &shape, error))
        return false;
    *ret = shape;
    *ret_used = (size_t)(at - text);
    return true;
}

EchId ech_program_builder_computation(EchProgramBuilder *builder, const char *name)
{
    EchProgram *p = builder->program;
    GROW(builder, computations);
    p->computations[p->n_computations] = (EchComputation){.name = name, .first = (uint32_t)p->n_instructions, .root = ECH_NONE, .caller = ECH_NONE};
    return (EchId)p->n_computations++;
}

EchId ech_program_builder_instruction(EchProgramBuilder *builder, EchInstruction instruction)
{
    EchProgram *p = builder->program;
    g_assert(p->n_computations > 0 && p->n_instructions < INT32_MAX);
    EchComputation *computation = &p->computations[p->n_computations - 1];
    GROW(builder, instructions);
    instruction.computation = (EchId)(p->n_computations - 1);
    instruction.first_operand = (uint32_t)p->n_operands;
    instruction.n_operands = 0;
    instruction.first_called = (uint32_t)p->n_called;
    instruction.n_called = 0;
    instruction.first_control = (uint32_t)p->n_control;
    instruction.n_control = 0;
    p->instructions[p->n_instructions] = instruction;
    computation->n++;
    if (instruction.is_root)
        computation->root = (EchId)p->n_instructions;
    return (EchId)p->n_instructions++;
}

EchId ech_program_builder_insert(EchProgramBuilder *builder, EchId before, EchInstruction instruction, const EchId *operands, uint32_t n)
{
    EchProgram *p = builder->program;
    g_assert(before < p->n_instructions && p->n_instructions < INT32_MAX);
    instruction.computation = p->instructions[before].computation;
    instruction.first_operand = (uint32_t)p->n_operands;
    instruction.n_operands = n;
    instruction.n_called = instruction.n_control = 0;
    for (uint32_t k = 0; k < n; k++) {
        GROW(builder, operands);
        p->operands[p->n_operands++] = operands[k];
    }
    GROW(builder, instructions);
    memmove(p->instructions + before + 1, p->instructions + before, (p->n_instructions - before) * sizeof *p->instructions);
    p->instructions[before] = instruction;
    p->n_instructions++;
    for (size_t k = 0; k < p->n_operands; k++)
        p->operands[k] += p->operands[k] >= before;
    for (size_t k = 0; k < p->n_control; k++)
        p->control[k] += p->control[k] >= before;
    for (size_t c = 0; c < p->n_computations; c++) {
        EchComputation *computation = &p->computations[c];
        computation->n += c == instruction.computation;
        computation->first += c != instruction.computation && computation->first >= before;
        computation->root += computation->root != ECH_NONE && computation->root >= before;
    }
    return before;
}

void ech_program_builder_operand(EchProgramBuilder *builder, EchId operand)
{
    GROW(builder, operands);
    builder->program->operands[builder->program->n_operands++] = operand;
    builder->program->instructions[builder->program->n_instructions - 1].n_operands++;
}

void ech_program_builder_called(EchProgramBuilder *builder, EchId computation)
{
    GROW(builder, called);
    builder->program->called[builder->program->n_called++] = computation;
    builder->program->instructions[builder->program->n_instructions - 1].n_called++;
}

void ech_program_builder_control(EchProgramBuilder *builder, EchId predecessor)
{
    GROW(builder, control);
    builder->program->control[builder->program->n_control++] = predecessor;
    builder->program->instructions[builder->program->n_instructions - 1].n_control++;
}

void ech_program_builder_donation(EchProgramBuilder *builder, EchDonation donation)
{
    GROW(builder, donations);
    builder->program->donations[builder->program->n_donations++] = donation;
}

#define COPY_ARRAY(to, from, what) ((to)->what = g_memdup2((from)->what, (from)->n_##what * sizeof *(from)->what), (to)->n_##what = (from)->n_##what)

EchProgramBuilder *ech_program_builder_new_from(const EchProgram *program)
{
    EchProgramBuilder *builder = ech_program_builder_new(program->name);
    EchProgram *p = builder->program;
    p->platform = program->platform;
    p->tuple_granule = program->tuple_granule;
    p->chip = program->chip ? g_string_chunk_insert(p->strings, program->chip) : NULL;
    ech_program_set_kernels_for(p, program->kernels_for);
    p->scheduled = program->scheduled;
    p->replicas = program->replicas;
    p->partitions = program->partitions;
    p->unsplit = program->unsplit;
    p->entry = program->entry;
    p->entry_layout = program->entry_layout;
    COPY_ARRAY(p, program, shapes);
    COPY_ARRAY(p, program, elements);
    COPY_ARRAY(p, program, starts);
    COPY_ARRAY(p, program, layouts);
    COPY_ARRAY(p, program, instructions);
    COPY_ARRAY(p, program, computations);
    COPY_ARRAY(p, program, operands);
    COPY_ARRAY(p, program, called);
    COPY_ARRAY(p, program, control);
    COPY_ARRAY(p, program, donations);
    builder->capacity = (Capacity){p->n_shapes,       p->n_elements, p->n_starts, p->n_layouts, p->n_instructions,
                                   p->n_computations, p->n_operands, p->n_called, p->n_control, p->n_donations};
    for (guint i = 0; i < program->keep->len; i++)
        g_ptr_array_add(p->keep, g_bytes_ref(program->keep->pdata[i]));
    for (size_t i = 0; i < p->n_shapes; i++) {
        const EchShape *shape = &p->shapes[i];
        if (shape->is_tuple) {
            GByteArray *raw = g_byte_array_new();
            g_byte_array_append(raw, (const guint8 *)"(", 1);
            if (shape->n_elements > 0)
                g_byte_array_append(raw, (const guint8 *)(p->elements + shape->first_element), (guint)(shape->n_elements * sizeof(EchId)));
            g_hash_table_insert(builder->shapes, g_byte_array_free_to_bytes(raw), GSIZE_TO_POINTER(i + 1));
        } else {
            char *text = ech_layout_print(&p->layouts[shape->layout]);
            g_hash_table_insert(builder->shapes, g_bytes_new_take(text, strlen(text)), GSIZE_TO_POINTER(i + 1));
        }
    }
    /* Names are in the other program's string chunk: copy them, so that the two live apart. */
    for (size_t i = 0; i < p->n_instructions; i++) {
        EchInstruction *instruction = &p->instructions[i];
        instruction->name = g_string_chunk_insert_const(p->strings, instruction->name);
        instruction->opcode_name = g_string_chunk_insert_const(p->strings, instruction->opcode_name);
        if (instruction->op_name)
            instruction->op_name = g_string_chunk_insert_const(p->strings, instruction->op_name);
        if (instruction->twin)
            instruction->twin = g_string_chunk_insert_const(p->strings, instruction->twin);
        if (instruction->source)
            instruction->source = g_string_chunk_insert_const(p->strings, instruction->source);
        if (instruction->target)
            instruction->target = g_string_chunk_insert_const(p->strings, instruction->target);
        if (instruction->attributes_n > 0)
            instruction->attributes = g_string_chunk_insert_len(p->strings, instruction->attributes, (gssize)instruction->attributes_n);
    }
    for (size_t i = 0; i < p->n_computations; i++) {
        p->computations[i].name = g_string_chunk_insert_const(p->strings, p->computations[i].name);
        if (p->computations[i].thread)
            p->computations[i].thread = g_string_chunk_insert_const(p->strings, p->computations[i].thread);
    }
    return builder;
}

/* Finish */

static const struct {
    const char *prefix;
    EchBytes granule;
} tuple_granules[] = {
    /* Source: buffer assignments of libtpu 0.0.51 (facts: tuple tables are 4-byte pointers, rounded up). */
    {"tpu-v1", 32},  {"tpu-v2", 1024}, {"tpu-v3", 1024}, {"tpu-v4", 512},   {"tpu-v5e", 512}, {"tpu-v5p", 32},
    {"tpu-v6e", 32}, {"tpu7x", 32},    {"tpu-7x", 32},   {"tpu-tpu7x", 32}, {"tpu-8", 32}, /* as what it is compiled for */
};

bool ech_program_set_chip(EchProgram *program, const char *device_name, GError **error)
{
    if (program->platform != ECH_PLATFORM_TPU)
        return true;
    g_autofree char *base = g_path_get_basename(device_name);
    for (size_t i = 0; i < G_N_ELEMENTS(tuple_granules); i++) {
        if (!g_str_has_prefix(base, tuple_granules[i].prefix))
            continue;
        program->tuple_granule = tuple_granules[i].granule;
        program->chip = g_string_chunk_insert_const(program->strings, device_name);
        size_shapes(program);
        if (program->values) {
            ech_program_size_values(program);
            ech_program_touch_bodies(program);
        }
        return true;
    }
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no TPU, but the program was compiled for one; expected tpu-v1 to tpu-8i", device_name);
    return false;
}

void ech_program_set_kernels_for(EchProgram *program, const char *device_name)
{
    program->kernels_for = device_name ? g_string_chunk_insert_const(program->strings, device_name) : NULL;
}

static EchPlatform guess_platform(const EchProgram *p)
{
    for (size_t i = 0; i < p->n_layouts; i++) {
        if (p->layouts[i].n_tiles > 0)
            return ECH_PLATFORM_TPU;
    }
    return ECH_PLATFORM_GPU;
}

static bool check(const EchProgram *p, GError **error)
{
    if (p->entry == ECH_NONE || p->entry >= p->n_computations) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: no entry computation", p->name);
        return false;
    }
    for (size_t c = 0; c < p->n_computations; c++) {
        const EchComputation *computation = &p->computations[c];
        if (computation->n == 0 || computation->root == ECH_NONE || p->instructions[computation->root].computation != c) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: computation %s has no root instruction", p->name, computation->name);
            return false;
        }
    }
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        const EchComputation *computation = &p->computations[instruction->computation];
        bool ok = instruction->shape < p->n_shapes;
        for (uint32_t k = 0; ok && k < instruction->n_operands; k++) {
            EchId operand = p->operands[instruction->first_operand + k];
            ok = operand < i && operand >= computation->first;
        }
        for (uint32_t k = 0; ok && k < instruction->n_called; k++)
            ok = p->called[instruction->first_called + k] < p->n_computations;
        for (uint32_t k = 0; ok && k < instruction->n_control; k++)
            ok = p->control[instruction->first_control + k] < p->n_instructions;
        if (!ok) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY,
                        "%s: instruction %s of %s: operands must come before it in its computation, and called computations must exist", p->name,
                        instruction->name, computation->name);
            return false;
        }
    }
    return true;
}

/* A module that does not say how many devices it is for, as protobufs do not before any were assigned: its collectives tell. */
static void count_devices(EchProgram *p)
{
    for (size_t k = 0; k < p->n_instructions; k++) {
        EchHlo opcode = (EchHlo)p->instructions[k].opcode;
        if (opcode != ECH_HLO_UNKNOWN && ech_hlo_class(opcode) != ECH_CLASS_COLLECTIVE)
            continue;
        size_t n;
        const char *text = ech_program_attribute(&p->instructions[k], "replica_groups", &n);
        EchGroup group;
        if (text && ech_group_read(text, n, &group))
            p->partitions = MAX(p->partitions, MIN(group.devices, (uint32_t)INT32_MAX));
    }
}

/* Until a TPU's compiler has generated code a ragged product's kernel says nothing of its windows and groups: the fusion that it ends with does. */
static void configure_ragged(const EchProgram *p, EchInstruction *kernel)
{
    size_t n;
    if (kernel->opcode != ECH_HLO_FUSION || kernel->fusion_kind != 'C' || kernel->n_called != 1 ||
        ech_program_config(kernel, "convolution_algorithm_config", &n) != NULL)
        return;
    EchId root = p->computations[ech_program_called(p, kernel, 0)].root;
    const EchInstruction *product = root != ECH_NONE ? &p->instructions[root] : NULL;
    if (product && product->opcode == ECH_HLO_FUSION && ech_program_ragged_groups(product) > 0) {
        kernel->config = product->config;
        kernel->config_n = product->config_n;
    }
}

EchProgram *ech_program_builder_finish(EchProgramBuilder *builder, const char *device_name, EchDiag *diag, GError **error)
{
    EchProgram *p = builder->program;
    /* Schedules and roots may have been changed: the root is where the flag is. */
    if (!check(p, error))
        return NULL;
    /* Empty lists have an address too. */
    EchId **lists[] = {&p->operands, &p->called, &p->control, &p->elements, &p->starts};
    for (size_t k = 0; k < G_N_ELEMENTS(lists); k++)
        *lists[k] = *lists[k] ? *lists[k] : g_new0(EchId, 1);
    if (p->platform == ECH_PLATFORM_UNKNOWN)
        p->platform = guess_platform(p);
    if (p->replicas <= 1 && p->partitions <= 1)
        count_devices(p);
    if (p->tuple_granule == 0)
        p->tuple_granule = p->platform == ECH_PLATFORM_TPU ? 512 : 8;
    size_shapes(p);
    for (size_t i = 0; i < p->n_instructions; i++) {
        EchInstruction *instruction = &p->instructions[i];
        if (instruction->config_of == instruction->attributes && instruction->attributes_n > 0)
            continue; /* whoever read the attributes has seen it */
        size_t n = 0;
        instruction->config = ech_program_attribute(instruction, "backend_config", &n);
        instruction->config_n = (uint32_t)n;
        instruction->config_of = instruction->attributes;
    }
    for (size_t i = 0; i < p->n_instructions; i++)
        configure_ragged(p, &p->instructions[i]);
    if (device_name && p->platform == ECH_PLATFORM_TPU)
        (void)ech_program_set_chip(p, device_name, NULL);
    ech_program_derive_grids(p);
    if (!ech_program_derive_bodies(p, error) || !ech_program_derive(p, diag, error))
        return NULL;
    return g_steal_pointer(&builder->program);
}
