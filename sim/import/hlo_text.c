/* HLO text, as compiled.as_text() and XLA's dumps print it. One pass over the bytes; strings stay where they are or go to the program's pool. */
#include "sim/import/hlo.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/hlo_nested.h"
#include "sim/import/hlo_source.h"

#include <string.h>

/* Names to ids: slices of the text, open addressing. */
typedef struct {
    const char *text;
    uint32_t n, hash;
    EchId id;
} NameSlot;

enum { FEW_SLOTS = 256 };

typedef struct {
    NameSlot *slots;
    size_t size, used;
} NameMap;

typedef struct {
    const char *text;
    size_t n;
} Slice;

/* A computation named before or after its definition. */
typedef struct {
    size_t at; /* index into program->called */
    Slice name;
} Pending;

/* The tables of source locations, each a line with its name and then a row a line. */
typedef enum { TABLE_NONE, TABLE_FILES, TABLE_FUNCTIONS, TABLE_LOCATIONS, TABLE_FRAMES } Table;

typedef struct {
    const char *begin, *at, *end;
    const char *where;
    const GArray *lines; /* uint32_t: of the file, for each line of the text; NULL: the same */
    EchProgramBuilder *builder;
    NameMap names; /* of the open computation */
    NameMap computations, shapes;
    GArray *pending;  /* Pending */
    GArray *controls; /* Pending, into program->control: of the open computation */
    GArray *operands; /* EchId, of the instruction that is being read */
    GArray *folded;   /* EchId of starts that stand for their computation and call what its instruction calls */
    EchDiag *diag;
    Slice alias, donors;
    EchHloFrames *frames;
    Table table; /* Whose rows the lines are. */
    bool own_parents;
    bool header_layouts, layouts, nameless; /* Layouts in the module's line, and in an instruction's; a computation has no name. */
} Reader;

static uint32_t hash_slice(const char *text, size_t n)
{
    return (uint32_t)ech_hash_bytes(text, n);
}

static NameSlot *find_slot(const NameMap *map, const char *text, size_t n, uint32_t hash)
{
    size_t at = hash & (map->size - 1);
    while (map->slots[at].text && !(map->slots[at].hash == hash && map->slots[at].n == n && memcmp(map->slots[at].text, text, n) == 0))
        at = (at + 1) & (map->size - 1);
    return &map->slots[at];
}

static void grow_map(NameMap *map)
{
    NameMap larger = {.size = map->size ? map->size * 2 : FEW_SLOTS, .used = map->used};
    larger.slots = g_new0(NameSlot, larger.size);
    for (size_t i = 0; i < map->size; i++) {
        if (map->slots[i].text)
            *find_slot(&larger, map->slots[i].text, map->slots[i].n, map->slots[i].hash) = map->slots[i];
    }
    g_free(map->slots);
    *map = larger;
}

/* What @name stands for, to be read or written before the next call; ECH_NONE the first time. */
static EchId *map_take(NameMap *map, Slice name)
{
    if ((map->used + 1) * 3 > map->size * 2)
        grow_map(map);
    uint32_t hash = hash_slice(name.text, name.n);
    NameSlot *slot = find_slot(map, name.text, name.n, hash);
    if (!slot->text) {
        *slot = (NameSlot){name.text, (uint32_t)name.n, hash, ECH_NONE};
        map->used++;
    }
    return &slot->id;
}

static EchId map_get(const NameMap *map, Slice name)
{
    if (map->size == 0)
        return ECH_NONE;
    const NameSlot *slot = find_slot(map, name.text, name.n, hash_slice(name.text, name.n));
    return slot->text ? slot->id : ECH_NONE;
}

/* Most computations are small: their names stay in one small table. */
static void map_clear(NameMap *map)
{
    if (map->size > FEW_SLOTS)
        g_clear_pointer(&map->slots, g_free);
    else if (map->size > 0)
        memset(map->slots, 0, map->size * sizeof *map->slots);
    map->size = map->slots ? map->size : 0;
    map->used = 0;
}

static bool fail(const Reader *r, const char *at, GError **error, const char *format, ...) G_GNUC_PRINTF(4, 5);
static bool fail(const Reader *r, const char *at, GError **error, const char *format, ...)
{
    size_t line = 1;
    const char *start = r->begin;
    for (const char *p = r->begin; p < at && (p = memchr(p, '\n', (size_t)(at - p))) != NULL; p++) {
        line++;
        start = p + 1;
    }
    size_t shown = r->lines && line <= r->lines->len ? g_array_index(r->lines, uint32_t, line - 1) : line;
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    /* What XLA writes ends with a newline: where it stops within a line, or a computation, somebody cut it. */
    const char *rest = at < r->end ? memchr(at, '\n', (size_t)(r->end - at)) : NULL;
    bool cut = !rest;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu:%zu: %s%s", r->where, shown, (size_t)(at - start) + 1, message,
                cut ? "; the text ends here, and looks cut off" : "");
    return false;
}

static const char *line_end(const Reader *r, const char *at)
{
    const char *newline = at < r->end ? memchr(at, '\n', (size_t)(r->end - at)) : NULL;
    return newline ? newline : r->end;
}

static Slice strip(const char *begin, const char *end)
{
    while (begin < end && g_ascii_isspace(*begin))
        begin++;
    while (end > begin && g_ascii_isspace(end[-1]))
        end--;
    return (Slice){begin, (size_t)(end - begin)};
}

static Slice bare_name(Slice name)
{
    if (name.n > 0 && name.text[0] == '%') {
        name.text++;
        name.n--;
    }
    return name;
}

static bool slice_is(Slice slice, const char *text)
{
    return strlen(text) == slice.n && memcmp(slice.text, text, slice.n) == 0;
}

/* Past the bracket that closes the one at @at, quoted strings and comments skipped; NULL if it never closes. */
static const char *closing(const char *at, const char *end)
{
    unsigned depth = 0;
    for (; at < end; at++) {
        switch (*at) {
        case '(':
        case '{':
        case '[': depth++; break;
        case ')':
        case '}':
        case ']':
            if (depth <= 1)
                return at + 1;
            depth--;
            break;
        case '"': at = ech_program_quote_end(at + 1, end); break;
        default: break;
        }
    }
    return NULL;
}

/* "{(PARAMETER, ...)->RESULT}": a layout that cannot be read is as good as none. */
static void read_entry_layout(Reader *r, Slice text)
{
    EchProgram *p = ech_program_builder_peek(r->builder);
    EchId sides[2];
    size_t used;
    const char *at = text.text + 1, *end = text.text + text.n - 1;
    bool ok = text.n > 2 && ech_program_builder_shape(r->builder, at, (size_t)(end - at), &sides[0], &used, NULL);
    at += ok ? used : 0;
    ok = ok && end - at > 2 && at[0] == '-' && at[1] == '>' && ech_program_builder_shape(r->builder, at + 2, (size_t)(end - at - 2), &sides[1], &used, NULL);
    EchId both = ok ? ech_program_builder_tuple(r->builder, sides, 2) : ECH_NONE;
    if (both == ECH_NONE || !p->shapes[sides[0]].is_tuple)
        ech_diag_note(r->diag, "entry_layouts_not_understood", 1);
    else
        p->entry_layout = both;
}

static void read_module_line(Reader *r)
{
    const char *stop = line_end(r, r->at);
    const char *at = r->at + strlen("HloModule ");
    const char *name = at;
    while (at < stop && *at != ',' && *at != ' ')
        at++;
    EchProgram *p = ech_program_builder_peek(r->builder);
    p->name = ech_program_builder_string(r->builder, name, at - name);
    EchAttribute a;
    Slice layout = {0};
    while (ech_program_next_attribute(&at, stop, &a)) {
        Slice key = {a.name, a.name_n};
        int64_t number = 0;
        if (slice_is(key, "is_scheduled"))
            p->scheduled = a.value_n == 4 && memcmp(a.value, "true", 4) == 0;
        else if (slice_is(key, "input_output_alias"))
            r->alias = (Slice){a.value, a.value_n};
        else if (slice_is(key, "buffer_donor"))
            r->donors = (Slice){a.value, a.value_n};
        else if (slice_is(key, "entry_computation_layout"))
            layout = (Slice){a.value, a.value_n};
        else if (slice_is(key, "num_partitions") && ech_program_numbers(a.value, a.value_n, &number, 1) > 0)
            p->partitions = (uint32_t)CLAMP(number, 1, INT32_MAX);
        else if (slice_is(key, "replica_count") && ech_program_numbers(a.value, a.value_n, &number, 1) > 0)
            p->replicas = (uint32_t)CLAMP(number, 1, INT32_MAX);
    }
    r->header_layouts = p->scheduled && layout.n > 0 && g_strstr_len(layout.text, (gssize)layout.n, "]{") != NULL;
    if (!p->scheduled && layout.n > 0)
        read_entry_layout(r, layout);
    r->at = stop;
}

/* Is the line the head of a computation? */
static bool is_head(Slice line)
{
    return line.n > 1 && (line.text[0] == '%' || line.text[0] == '(' || line.text[0] == '_' || g_ascii_isalpha(line.text[0])) && line.text[line.n - 1] == '{';
}

static bool open_computation(Reader *r, const char *stop, GError **error)
{
    const char *at = r->at;
    EchProgram *p = ech_program_builder_peek(r->builder);
    bool entry = stop - at > 6 && memcmp(at, "ENTRY ", 6) == 0;
    if (entry)
        at += 6;
    const char *name = at;
    while (at < stop && *at != ' ' && *at != '(' && *at != '{')
        at++;
    Slice slice = bare_name((Slice){name, (size_t)(at - name)});
    r->nameless |= slice.n == 0;
    if (entry && p->entry != ECH_NONE)
        return fail(r, r->at, error, "a second ENTRY computation: is the text two modules, one after the other?");
    if (slice.n > 0 && map_get(&r->computations, slice) != ECH_NONE) {
        g_autofree char *text = g_strndup(slice.text, MIN(slice.n, 80));
        return fail(r, name, error, "a second computation '%s' in one module; print the module with its names' numbers (print_ids=True)", text);
    }
    EchId id = ech_program_builder_computation(r->builder, ech_program_builder_string(r->builder, slice.text, (gssize)slice.n));
    *map_take(&r->computations, slice) = id;
    if (entry)
        p->entry = id;
    map_clear(&r->names);
    return true;
}

static bool read_shape(Reader *r, const char **at, const char *stop, EchId *ret, GError **error)
{
    const char *begin = *at, *p = begin;
    bool buffer = stop - p > 1 && p[0] == 'b' && p[1] == '(';
    if (p < stop && (*p == '(' || buffer))
        p = closing(p + buffer, stop);
    else {
        while (p < stop && !g_ascii_isspace(*p))
            p++;
    }
    if (!p)
        return fail(r, begin, error, "tuple shape without ')'");
    Slice slice = {begin, (size_t)(p - begin)};
    *ret = map_get(&r->shapes, slice);
    if (*ret == ECH_NONE) {
        g_autoptr(GError) inner = NULL;
        size_t used;
        if (!ech_program_builder_shape(r->builder, begin, (size_t)(stop - begin), ret, &used, &inner))
            return fail(r, begin, error, "%s", inner->message);
        slice.n = used;
        r->layouts |= g_strstr_len(begin, (gssize)used, "]{") != NULL;
        *map_take(&r->shapes, slice) = *ret;
        p = begin + used;
    }
    *at = p;
    return true;
}

/* A get-tuple-element of @tuple's element @k, called @name; ECH_NONE where there is no such element. */
static EchId add_element(Reader *r, Slice name, EchId tuple, int64_t k)
{
    const EchProgram *p = ech_program_builder_peek(r->builder);
    const EchShape *shape = &p->shapes[p->instructions[tuple].shape];
    if (k < 0 || k >= shape->n_elements)
        return ECH_NONE;
    EchInstruction instruction = {.opcode = ECH_HLO_GET_TUPLE_ELEMENT,
                                  .opcode_name = ech_hlo_name(ECH_HLO_GET_TUPLE_ELEMENT),
                                  .name = ech_program_builder_string(r->builder, name.text, (gssize)name.n),
                                  .shape = p->elements[shape->first_element + k],
                                  .number = k,
                                  .attributes = name.text};
    EchId id = ech_program_builder_instruction(r->builder, instruction);
    ech_program_builder_operand(r->builder, tuple);
    *map_take(&r->names, name) = id;
    return id;
}

/* The instruction that @name stands for; of "name#1#0", as compilers of late 2026 print elements of tuples, each becomes an instruction before its first user.
 */
static EchId find_operand(Reader *r, Slice name)
{
    EchId id = map_get(&r->names, name);
    const char *mark = id == ECH_NONE ? memchr(name.text, '#', name.n) : NULL, *end = name.text + name.n;
    if (!mark)
        return id;
    id = map_get(&r->names, (Slice){name.text, (size_t)(mark - name.text)});
    while (id != ECH_NONE && mark < end) {
        const char *next = memchr(mark + 1, '#', (size_t)(end - mark - 1)), *stop = next ? next : end;
        Slice element = {name.text, (size_t)(stop - name.text)};
        EchId known = map_get(&r->names, element);
        int64_t k = -1;
        if (known == ECH_NONE && stop - mark < 10)
            (void)ech_program_numbers(mark + 1, (size_t)(stop - mark - 1), &k, 1);
        id = known != ECH_NONE ? known : add_element(r, element, id, k);
        mark = stop;
    }
    return id;
}

/* The ids of the operands, into r->operands. */
static bool read_operands(Reader *r, const char *at, const char *stop, GError **error)
{
    g_array_set_size(r->operands, 0);
    while (at < stop) {
        const char *begin = at, *last = at;
        unsigned depth = 0;
        /* Older prints give "shape %name": the name is what follows the last space outside brackets. */
        for (; at < stop && (depth > 0 || *at != ','); at++) {
            if (*at == '(' || *at == '{' || *at == '[')
                depth++;
            else if ((*at == ')' || *at == '}' || *at == ']') && depth > 0)
                depth--;
            else if (g_ascii_isspace(*at) && depth == 0 && at + 1 < stop && !g_ascii_isspace(at[1]) && at[1] != ',')
                last = at + 1;
            else if (*at == '/' && at + 1 < stop && at[1] == '*') {
                const char *close = g_strstr_len(at + 2, stop - at - 2, "*/");
                at = close ? close + 1 : stop - 1;
                last = at + 1;
            }
        }
        Slice name = bare_name(strip(last, at));
        if (at < stop)
            at++;
        if (name.n == 0 || memchr(name.text, '[', name.n)) {
            if (strip(begin, stop).n == 0)
                break;
            return fail(r, begin, error, "an operand without a name");
        }
        if (name.n > 3 && memcmp(name.text, "...", 3) == 0)
            return fail(r, name.text, error, "operands were left out; print the module with all of them (compact_operands=False)");
        EchId id = find_operand(r, name);
        if (id == ECH_NONE) {
            g_autofree char *text = g_strndup(name.text, MIN(name.n, 80));
            return fail(r, name.text, error, "operand '%s' is not defined before its use", text);
        }
        g_array_append_val(r->operands, id);
    }
    return true;
}

static void add_called(Reader *r, Slice name)
{
    Pending pending = {ech_program_builder_peek(r->builder)->n_called, bare_name(name)};
    g_array_append_val(r->pending, pending);
    ech_program_builder_called(r->builder, ECH_NONE);
}

/* "{%a, %b}" or "%a" */
static void each_name(Reader *r, const EchAttribute *a, void (*add)(Reader *, Slice))
{
    const char *at = a->value, *end = at + a->value_n;
    if (at < end && *at == '{') {
        at++;
        end--;
    }
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        Slice name = strip(at, stop);
        if (name.n > 0)
            add(r, name);
        at = comma ? comma + 1 : end;
    }
}

static void add_control(Reader *r, Slice name)
{
    Pending pending = {ech_program_builder_peek(r->builder)->n_control, bare_name(name)};
    g_array_append_val(r->controls, pending);
    ech_program_builder_control(r->builder, ECH_NONE);
}

/* A quoted value without its quotes, escapes undone. */
static const char *unquote(Reader *r, const char *text, size_t n)
{
    if (n >= 2 && text[0] == '"') {
        text++;
        n -= 2;
    }
    if (!memchr(text, '\\', n))
        return ech_program_builder_string(r->builder, text, (gssize)n);
    g_autofree char *copy = g_malloc(n + 1);
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\' && i + 1 < n)
            i++;
        copy[m++] = text[i];
    }
    return ech_program_builder_string(r->builder, copy, (gssize)m);
}

static uint64_t number_of(const char *at, const char *end)
{
    uint64_t number = 0;
    for (; at < end && g_ascii_isdigit(*at); at++)
        number = number > UINT32_MAX ? number : number * 10 + (uint64_t)(*at - '0');
    return number;
}

/* The number behind @key, which comes first or after a blank or a brace; 0 where there is none. */
static uint64_t number_behind(const char *text, const char *end, const char *key)
{
    for (const char *at = text; (at = g_strstr_len(at, end - at, key)) != NULL;) {
        bool whole = at == text || at[-1] == ' ' || at[-1] == '{';
        at += strlen(key);
        if (whole)
            return number_of(at, end);
    }
    return 0;
}

/* Steps through 'name=value name="value" ...' from *at; false at the end. */
static bool next_field(const char **at, const char *end, EchAttribute *ret)
{
    const char *p = *at;
    while (p < end && (*p == ' ' || *p == '{' || *p == '}'))
        p++;
    ret->name = p;
    while (p < end && *p != '=' && *p != ' ')
        p++;
    ret->name_n = (size_t)(p - ret->name);
    ret->value = p += p < end && *p == '=';
    if (p < end && *p == '"')
        p = ech_program_quote_end(p + 1, end);
    while (p < end && *p != ' ' && *p != '}')
        p++;
    ret->value_n = (size_t)(p - ret->value);
    *at = p;
    return ret->name_n > 0;
}

static void read_metadata(Reader *r, const EchAttribute *metadata, EchInstruction *instruction)
{
    const char *at = metadata->value, *end = at + metadata->value_n;
    Slice file = {NULL, 0};
    uint64_t frame = 0, line = 0;
    EchAttribute a;
    while (next_field(&at, end, &a)) {
        Slice key = {a.name, a.name_n};
        bool quoted = a.value_n >= 2 && a.value[0] == '"' && a.value[a.value_n - 1] == '"';
        if (slice_is(key, "op_name") && quoted)
            instruction->op_name = unquote(r, a.value, a.value_n);
        else if (slice_is(key, "deduplicated_name") && quoted)
            instruction->twin = unquote(r, a.value, a.value_n);
        else if (slice_is(key, "source_file") && quoted)
            file = (Slice){a.value + 1, a.value_n - 2};
        else if (slice_is(key, "source_line"))
            line = number_of(a.value, a.value + a.value_n);
        else if (slice_is(key, "stack_frame_id"))
            frame = number_of(a.value, a.value + a.value_n);
    }
    if (frame > 0)
        instruction->source = ech_hlo_frames_text(r->frames, r->builder, frame);
    else if (file.text)
        instruction->source = ech_hlo_line_text(r->frames, r->builder, file.text, file.n, line);
}

static void read_attributes(Reader *r, EchId id, const char *at, const char *stop)
{
    EchAttribute a, condition = {0}, body = {0};
    while (ech_program_next_attribute(&at, stop, &a)) {
        Slice key = {a.name, a.name_n};
        EchInstruction *instruction = &ech_program_builder_peek(r->builder)->instructions[id];
        if (key.n == 0)
            continue;
        switch (key.text[0]) {
        case 'b':
            if (slice_is(key, "body"))
                body = a;
            else if (slice_is(key, "branch_computations"))
                each_name(r, &a, add_called);
            else if (slice_is(key, "backend_config") && !instruction->config) {
                instruction->config = a.value;
                instruction->config_n = (uint32_t)a.value_n;
            }
            break;
        case 'c':
            if (slice_is(key, "condition"))
                condition = a;
            else if (slice_is(key, "calls") || slice_is(key, "called_computations"))
                each_name(r, &a, add_called);
            else if (slice_is(key, "control-predecessors"))
                each_name(r, &a, add_control);
            else if (slice_is(key, "custom_call_target"))
                instruction->target = unquote(r, a.value, a.value_n);
            break;
        case 'f':
            if (slice_is(key, "false_computation"))
                each_name(r, &a, add_called);
            break;
        case 'i':
            if (slice_is(key, "index") && instruction->opcode == ECH_HLO_GET_TUPLE_ELEMENT)
                (void)ech_program_numbers(a.value, a.value_n, &instruction->number, 1);
            break;
        case 'k':
            if (slice_is(key, "kind") && a.value_n > 1)
                instruction->fusion_kind = (uint8_t)a.value[1];
            break;
        case 'm':
            if (slice_is(key, "metadata"))
                read_metadata(r, &a, instruction);
            break;
        case 's':
            if (slice_is(key, "select") || slice_is(key, "scatter"))
                each_name(r, &a, add_called);
            break;
        case 't':
            if (slice_is(key, "to_apply") || slice_is(key, "true_computation"))
                each_name(r, &a, add_called);
            break;
        default: break;
        }
    }
    EchInstruction *instruction = &ech_program_builder_peek(r->builder)->instructions[id];
    instruction->config_of = instruction->attributes;
    if (condition.value && body.value) {
        each_name(r, &condition, add_called);
        each_name(r, &body, add_called);
    }
}

/* Longer ones nobody asks for. */
#define MAX_LITERAL ((size_t)1 << 20)

static void read_literal(EchInstruction *instruction, Slice text)
{
    int64_t value;
    if (text.n > 1 && text.text[0] == '{' && text.n <= MAX_LITERAL && !memchr(text.text, '.', text.n)) { /* "{...}" was left out, others are not of integers */
        instruction->literal = text.text;
        instruction->literal_n = (uint32_t)text.n;
    } else if (slice_is(text, "true") || slice_is(text, "false")) {
        instruction->number = text.text[0] == 't';
        instruction->has_literal = 1;
    } else if (text.n > 0 && text.n < 20 && ech_program_numbers(text.text, text.n, &value, 1) == 1) {
        for (size_t i = 0; i < text.n; i++) {
            if (!g_ascii_isdigit(text.text[i]) && !(i == 0 && text.text[i] == '-'))
                return;
        }
        instruction->number = value;
        instruction->has_literal = 1;
    }
}

static EchHlo sugared(Slice opcode)
{
    /* "slice-start" and the like are async-start with the computation folded away. */
    if (opcode.n > 6 && memcmp(opcode.text + opcode.n - 6, "-start", 6) == 0)
        return ECH_HLO_ASYNC_START;
    if (opcode.n > 7 && memcmp(opcode.text + opcode.n - 7, "-update", 7) == 0)
        return ECH_HLO_ASYNC_UPDATE;
    if (opcode.n > 5 && memcmp(opcode.text + opcode.n - 5, "-done", 5) == 0)
        return ECH_HLO_ASYNC_DONE;
    return ECH_HLO_UNKNOWN;
}

/* What "fusion-start" runs; unknown for what names its computation ("async-start", "call-start"). */
static EchHlo folded_opcode(Slice opcode)
{
    if (opcode.n <= 6 || memcmp(opcode.text + opcode.n - 6, "-start", 6) != 0)
        return ECH_HLO_UNKNOWN;
    EchHlo inside = ech_hlo_parse(opcode.text, opcode.n - 6);
    return inside == ECH_HLO_CALL ? ECH_HLO_UNKNOWN : inside;
}

/* Whether a line looks like an instruction or the end of a computation. */
static bool is_next(const char *line, const char *stop)
{
    Slice text = strip(line, stop);
    if (text.n == 1 && *line == '}')
        return true;
    if (text.n > 5 && memcmp(text.text, "ROOT ", 5) == 0)
        return true;
    size_t n = 0;
    while (n < text.n && !strchr(" =\"{}", text.text[n]))
        n++;
    return n > 0 && n + 2 < text.n && memcmp(text.text + n, " = ", 3) == 0;
}

/* What ends so goes on in the next line, unless that looks like an instruction of its own. */
static bool goes_on(const char *begin, const char *stop)
{
    while (stop > begin && g_ascii_isspace(stop[-1]))
        stop--;
    return stop > begin && strchr(",([{=", stop[-1]) != NULL;
}

/* Where the lines behind @stop end that do not look like instructions: a newline is a blank. */
static const char *wrapped_end(const Reader *r, const char *stop)
{
    while (stop < r->end) {
        const char *next = line_end(r, stop + 1);
        if (is_next(stop + 1, next))
            break;
        stop = next;
    }
    return stop;
}

/* Past blanks, and where nothing else is left of the line into those that it goes on in. */
static void skip_blanks(const Reader *r, const char **at, const char **stop)
{
    while (*at < *stop && g_ascii_isspace(**at))
        (*at)++;
    if (*at < *stop || *stop >= r->end)
        return;
    *stop = wrapped_end(r, *stop);
    while (*at < *stop && g_ascii_isspace(**at))
        (*at)++;
}

/* Where the attributes that begin at @at end: mostly with their line (@stop), but what a Pallas kernel says of itself is JSON over several lines. */
static const char *attributes_end(const Reader *r, const char *at, const char *stop)
{
    if (stop == at || strchr("{[,\"", stop[-1]) == NULL)
        return stop;
    const char *begin = at;
    bool quoted = false;
    int64_t depth = 0;
    for (const char *end = stop;; end = line_end(r, end + 1)) {
        for (; at < end; at++) {
            if (quoted && *at == '\\' && at + 1 < end)
                at++;
            else if (*at == '"')
                quoted = !quoted;
            else if (!quoted)
                depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        }
        if (depth <= 0 && !quoted && !goes_on(begin, end))
            return end;
        if (end >= r->end || is_next(end + 1, line_end(r, end + 1)))
            return stop;
    }
}

static bool read_instruction(Reader *r, GError **error)
{
    const char *at = r->at, *first_stop = line_end(r, at);
    while (at < first_stop && (*at == ' ' || *at == '\t'))
        at++;
    EchInstruction instruction = {.number = -1};
    if (first_stop - at > 5 && memcmp(at, "ROOT ", 5) == 0) {
        instruction.is_root = 1;
        at += 5;
    }
    const char *name_at = at;
    while (at < first_stop && *at != ' ' && *at != '=')
        at++;
    Slice name = bare_name((Slice){name_at, (size_t)(at - name_at)});
    while (at < first_stop && *at == ' ')
        at++;
    if (name.n == 0 || at >= first_stop || *at != '=')
        return fail(r, name_at, error, "expected an instruction: 'name = shape opcode(operands), ...'");
    at++;
    if (goes_on(at, first_stop))
        first_stop = wrapped_end(r, first_stop);
    skip_blanks(r, &at, &first_stop);
    if (!read_shape(r, &at, first_stop, &instruction.shape, error))
        return false;
    skip_blanks(r, &at, &first_stop);
    const char *opcode_at = at;
    while (at < first_stop && *at != '(')
        at++;
    Slice opcode = {opcode_at, (size_t)(at - opcode_at)};
    if (at >= first_stop || opcode.n == 0 || opcode.n > 64)
        return fail(r, opcode_at, error, "expected an opcode and '('");
    instruction.opcode = (uint16_t)ech_hlo_parse(opcode.text, opcode.n);
    if (instruction.opcode == ECH_HLO_UNKNOWN) {
        instruction.opcode = (uint16_t)sugared(opcode);
        instruction.opcode_name = ech_program_builder_string(r->builder, opcode.text, (gssize)opcode.n);
        if (instruction.opcode == ECH_HLO_UNKNOWN)
            ech_diag_note(r->diag, "unknown_opcodes", 1);
    } else
        instruction.opcode_name = ech_hlo_name((EchHlo)instruction.opcode);
    /* A literal may go on over several lines. */
    const char *close = closing(at, instruction.opcode == ECH_HLO_CONSTANT ? r->end : first_stop);
    close = close ? close : closing(at, wrapped_end(r, first_stop));
    if (!close)
        return fail(r, at, error, "operands without ')'");
    const char *stop = attributes_end(r, close, line_end(r, close - 1));
    instruction.name = ech_program_builder_string(r->builder, name.text, (gssize)name.n);
    instruction.attributes = close;
    instruction.attributes_n = (uint32_t)MIN((size_t)(stop - close), (size_t)UINT32_MAX);
    Slice inside = strip(at + 1, close - 1);
    if (instruction.opcode == ECH_HLO_CONSTANT)
        read_literal(&instruction, inside);
    else if (instruction.opcode == ECH_HLO_PARAMETER && ech_program_numbers(inside.text, inside.n, &instruction.number, 1) != 1)
        return fail(r, at, error, "expected a parameter's number");
    bool has_operands = instruction.opcode != ECH_HLO_CONSTANT && instruction.opcode != ECH_HLO_PARAMETER;
    if (has_operands && !read_operands(r, at + 1, close - 1, error))
        return false;
    EchId *named = map_take(&r->names, name);
    if (*named != ECH_NONE)
        return fail(r, name_at, error, "a second instruction '%s' in one computation; print the module with its names' numbers (print_ids=True)",
                    instruction.name);
    EchId id = *named = ech_program_builder_instruction(r->builder, instruction);
    for (guint k = 0; has_operands && k < r->operands->len; k++)
        ech_program_builder_operand(r->builder, g_array_index(r->operands, EchId, k));
    read_attributes(r, id, close, stop);
    const EchInstruction *read = &ech_program_builder_peek(r->builder)->instructions[id];
    if (read->opcode == ECH_HLO_GET_TUPLE_ELEMENT && read->number < 0)
        return fail(r, name_at, error, "'%s' does not say which element it gets (index=); print the module with its attributes (print_extra_attributes=True)",
                    read->name);
    if (read->opcode == ECH_HLO_ASYNC_START && read->n_called > 0 && folded_opcode(opcode) != ECH_HLO_UNKNOWN)
        g_array_append_val(r->folded, id);
    r->at = stop;
    return true;
}

static bool close_computation(Reader *r, const char *stop, GError **error)
{
    EchProgram *p = ech_program_builder_peek(r->builder);
    EchComputation *computation = &p->computations[p->n_computations - 1];
    if (computation->n == 0)
        return fail(r, r->at, error, "computation %s is empty", computation->name);
    if (computation->root == ECH_NONE)
        computation->root = computation->first + computation->n - 1;
    const char *at = r->at + 1;
    EchAttribute a;
    while (ech_program_next_attribute(&at, stop, &a)) {
        if (slice_is((Slice){a.name, a.name_n}, "execution_thread"))
            computation->thread = unquote(r, a.value, a.value_n);
    }
    /* Control predecessors that were never seen are dropped: they only order what is already in order. */
    for (guint k = 0; k < r->controls->len; k++) {
        const Pending *pending = &g_array_index(r->controls, Pending, k);
        EchId id = map_get(&r->names, pending->name);
        if (id == ECH_NONE) {
            ech_diag_dropped(r->diag, "unknown_control_predecessors", 1, "%s", r->where);
            id = computation->first;
        }
        p->control[pending->at] = id;
    }
    g_array_set_size(r->controls, 0);
    return true;
}

static bool resolve_called(Reader *r, GError **error)
{
    EchProgram *p = ech_program_builder_peek(r->builder);
    for (guint k = 0; k < r->pending->len; k++) {
        const Pending *pending = &g_array_index(r->pending, Pending, k);
        EchId id = map_get(&r->computations, pending->name);
        if (id == ECH_NONE) {
            g_autofree char *text = g_strndup(pending->name.text, MIN(pending->name.n, 80));
            return fail(r, pending->name.text, error, "computation '%s' is not in the module%s", text,
                        r->nameless ? ", whose computations were printed without names (is_in_nested_computation=False prints them)" : "");
        }
        p->called[pending->at] = id;
    }
    return true;
}

/* The computation that a folded start stands for: parameters and the one instruction, which calls what the start was said to call. */
static void unfold(Reader *r, EchId start)
{
    EchProgram *p = ech_program_builder_peek(r->builder);
    EchInstruction old = p->instructions[start];
    if (!p->shapes[old.shape].is_tuple || p->shapes[old.shape].n_elements < 2)
        return;
    EchInstruction run = {.opcode = (uint16_t)folded_opcode((Slice){old.opcode_name, strlen(old.opcode_name)}),
                          .shape = ech_program_subshape(p, old.shape, ech_program_member_position(p, old.shape, 1)),
                          .name = old.name,
                          .attributes = old.attributes,
                          .attributes_n = old.attributes_n,
                          .fusion_kind = old.fusion_kind,
                          .is_root = 1};
    run.opcode_name = ech_hlo_name((EchHlo)run.opcode);
    EchId computation = ech_program_builder_computation(r->builder, old.name), first = (EchId)p->n_instructions;
    for (uint32_t k = 0; k < old.n_operands; k++) {
        g_autofree char *name = g_strdup_printf("%s.%u", old.name, k);
        EchInstruction parameter = {
            .opcode = ECH_HLO_PARAMETER, .attributes = "", .number = k, .shape = p->instructions[ech_program_operand(p, &old, k)].shape};
        parameter.opcode_name = ech_hlo_name(ECH_HLO_PARAMETER);
        parameter.name = ech_program_builder_string(r->builder, name, -1);
        ech_program_builder_instruction(r->builder, parameter);
    }
    ech_program_builder_instruction(r->builder, run);
    for (uint32_t k = 0; k < old.n_operands; k++)
        ech_program_builder_operand(r->builder, first + k);
    for (uint32_t k = 0; k < old.n_called; k++)
        ech_program_builder_called(r->builder, ech_program_called(p, &old, k));
    p->called[old.first_called] = computation;
    p->instructions[start].n_called = 1;
}

/* { {0}: (0, {}, may-alias), {1,0}: (2, {1}, must-alias) } */
static void read_aliases(Reader *r)
{
    const EchProgram *p = ech_program_builder_peek(r->builder);
    const char *at = r->alias.text, *end = at ? at + r->alias.n : NULL;
    EchId root = p->entry == ECH_NONE ? ECH_NONE : p->computations[p->entry].root;
    if (!at || root == ECH_NONE)
        return;
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(p);
    at++;
    while (at < end) {
        const char *open = memchr(at, '(', (size_t)(end - at));
        const char *close = open ? memchr(open, ')', (size_t)(end - open)) : NULL;
        if (!close)
            break;
        int64_t out[16], in[17];
        size_t n_out = ech_program_numbers(at, (size_t)(open - at), out, G_N_ELEMENTS(out));
        size_t n_in = ech_program_numbers(open, (size_t)(close - open), in, G_N_ELEMENTS(in));
        EchDonation donation = {0};
        bool ok = n_out <= G_N_ELEMENTS(out) && n_in >= 1 && n_in <= G_N_ELEMENTS(in);
        if (ok) {
            donation.output_position = ech_program_index_position(p, p->instructions[root].shape, out, n_out);
            donation.parameter = in[0];
            donation.parameter_position = ech_program_parameter_position(p, parameters, in[0], in + 1, n_in - 1);
        }
        if (ok && donation.output_position != UINT32_MAX && donation.parameter_position != UINT32_MAX)
            ech_program_builder_donation(r->builder, donation);
        else
            ech_diag_dropped(r->diag, "donations_of_unknown_places", 1, "%s", r->where);
        at = close + 1;
    }
}

/* 3 "model.py"   or   3 {file_name_id=1 function_name_id=2 line=53 ...}   or   3 {file_location_id=3 parent_frame_id=3} */
static void read_table_line(Reader *r, Slice line)
{
    static const char *const titles[] = {
        [TABLE_FILES] = "FileNames", [TABLE_FUNCTIONS] = "FunctionNames", [TABLE_LOCATIONS] = "FileLocations", [TABLE_FRAMES] = "StackFrames"};
    for (Table t = TABLE_FILES; t <= TABLE_FRAMES; t++) {
        if (slice_is(line, titles[t])) {
            r->table = t;
            return;
        }
    }
    const char *at = line.text, *end = at + line.n;
    while (at < end && g_ascii_isdigit(*at))
        at++;
    if (r->table == TABLE_NONE || at == line.text)
        return;
    if (r->table == TABLE_LOCATIONS) {
        ech_hlo_frames_location(r->frames, number_behind(at, end, "file_name_id="), number_behind(at, end, "function_name_id="),
                                number_behind(at, end, "line="));
    } else if (r->table == TABLE_FRAMES) {
        /* The first frame has no parent: where it names itself, the text counts parents from one more. */
        uint64_t parent = number_behind(at, end, "parent_frame_id=");
        if (at == line.text + 1 && *line.text == '1')
            r->own_parents = parent == 1;
        ech_hlo_frames_frame(r->frames, number_behind(at, end, "file_location_id="), r->own_parents && parent > 0 ? parent - 1 : parent);
    } else {
        const char *open = memchr(at, '"', (size_t)(end - at));
        Slice text = open && end - open >= 2 ? (Slice){open + 1, (size_t)(end - open) - 2} : (Slice){"", 0};
        if (r->table == TABLE_FILES)
            ech_hlo_frames_file(r->frames, text.text, text.n);
        else
            ech_hlo_frames_function(r->frames, text.text, text.n);
    }
}

/* { (0, {}), (3, {1}) } */
static void settle_donors(const Reader *r, EchProgram *p)
{
    g_autoptr(GArray) donors = g_array_new(FALSE, FALSE, sizeof(EchHloDonor));
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(p);
    const char *at = r->donors.text, *end = at ? at + r->donors.n : NULL;
    while (at < end) {
        const char *open = memchr(at, '(', (size_t)(end - at));
        const char *close = open ? memchr(open, ')', (size_t)(end - open)) : NULL;
        if (!close)
            break;
        int64_t in[17];
        size_t n = ech_program_numbers(open, (size_t)(close - open), in, G_N_ELEMENTS(in));
        if (n > 0 && n <= G_N_ELEMENTS(in)) {
            const EchHloDonor donor = {in[0], ech_program_parameter_position(p, parameters, in[0], in + 1, n - 1)};
            g_array_append_val(donors, donor);
        }
        at = close + 1;
    }
    if (p->scheduled)
        ech_hlo_remark_donors(p, (const EchHloDonor *)(const void *)donors->data, donors->len, r->diag);
    else
        ech_hlo_pair_donors(p, (const EchHloDonor *)(const void *)donors->data, donors->len);
}

static bool read_module(Reader *r, GError **error)
{
    bool open = false, module = false;
    while (r->at < r->end) {
        const char *stop = line_end(r, r->at);
        Slice line = strip(r->at, stop); /* prints may be indented as a whole */
        r->at = line.text;
        if (open) {
            if (line.n > 0 && *line.text == '}') {
                if (!close_computation(r, stop, error))
                    return false;
                open = false;
                r->at = stop;
            } else if (line.n > 0) {
                if (!read_instruction(r, error))
                    return false;
            } else
                r->at = stop;
        } else if (line.n > 10 && memcmp(line.text, "HloModule ", 10) == 0) {
            if (module) {
                ech_diag_dropped(r->diag, "further_modules", 1, "%s", r->where);
                break;
            }
            module = true;
            read_module_line(r);
        } else if (module && is_head(line)) {
            if (!open_computation(r, stop, error))
                return false;
            open = true;
            r->table = TABLE_NONE;
            r->at = stop;
        } else {
            if (module)
                read_table_line(r, line);
            r->at = stop;
        }
        if (r->at < r->end)
            r->at++;
    }
    if (!module)
        return fail(r, r->begin, error, "no line begins with 'HloModule '");
    if (open)
        return fail(r, r->end, error, "a computation without its '}'");
    EchProgram *p = ech_program_builder_peek(r->builder);
    if (p->n_computations == 0)
        return fail(r, r->end, error, "a module without computations");
    if (p->entry == ECH_NONE && p->n_computations > 1)
        ech_diag_remark(r->diag, "no computation is marked ENTRY, so the last one is taken for the program; XLA prints it last: is the text cut off?");
    if (p->entry == ECH_NONE)
        p->entry = (EchId)p->n_computations - 1;
    if (!resolve_called(r, error))
        return false;
    if (r->header_layouts && !r->layouts)
        return fail(r, r->begin, error, "a compiled module without its arrays' layouts; print it with them (include_layout_in_shapes=True)");
    for (guint k = 0; k < r->folded->len; k++)
        unfold(r, g_array_index(r->folded, EchId, k));
    read_aliases(r);
    return true;
}

/* @text without the carriage returns at its lines' ends, which Windows' tools put there; NULL where it has none. */
static GBytes *without_returns(GBytes *text)
{
    gsize n, kept = 0;
    const char *from = g_bytes_get_data(text, &n);
    if (!from || !memmem(from, n, "\r\n", 2))
        return NULL;
    char *to = g_malloc(n);
    for (gsize i = 0; i < n; i++) {
        if (from[i] != '\r' || i + 1 == n || from[i + 1] != '\n')
            to[kept++] = from[i];
    }
    return g_bytes_new_take(to, kept);
}

EchProgram *ech_hlo_read_text(GBytes *given, const char *where, const char *device, EchDiag *diag, GError **error)
{
    gsize n;
    g_autoptr(GArray) lines = NULL;
    g_autoptr(GBytes) plain = without_returns(given);
    GBytes *text = plain ? plain : given;
    g_autoptr(GBytes) unnested = g_bytes_get_size(text) < INT32_MAX ? ech_hlo_unnest(text, &lines) : NULL;
    const char *data = g_bytes_get_data(unnested ? unnested : text, &n);
    data = data ? data : "";
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new("");
    ech_program_builder_keep(builder, unnested ? unnested : text);
    Reader r = {.begin = data, .at = data, .end = data + n, .where = where, .lines = lines, .builder = builder, .diag = diag};
    if (n >= INT32_MAX) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: more than 2 GiB of HLO text", where);
        return NULL;
    }
    r.pending = g_array_new(FALSE, FALSE, sizeof(Pending));
    r.controls = g_array_new(FALSE, FALSE, sizeof(Pending));
    r.operands = g_array_new(FALSE, FALSE, sizeof(EchId));
    r.folded = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autoptr(EchHloFrames) frames = ech_hlo_frames_new();
    r.frames = frames;
    if (unnested)
        ech_diag_remark(diag, "the text has its computations inside the instructions that call them (HloPrintOptions.canonical()), which XLA prints in another "
                              "order than they run in, and without its compiler's settings: on-chip memory may come out otherwise than from as_text()");
    bool ok = n > 0 ? read_module(&r, error) : fail(&r, data, error, "the file is empty");
    g_array_unref(r.pending);
    g_array_unref(r.controls);
    g_array_unref(r.operands);
    g_array_unref(r.folded);
    g_free(r.names.slots);
    g_free(r.computations.slots);
    g_free(r.shapes.slots);
    if (!ok)
        return NULL;
    EchProgram *program = ech_program_builder_finish(builder, device, diag, error);
    if (!program)
        g_prefix_error(error, "%s: ", where);
    else {
        settle_donors(&r, program);
        if (program->scheduled) {
            ech_hlo_remark_copied_back(program, diag);
            ech_hlo_remark_undonated(program, diag);
        }
    }
    return program;
}
