/* The compiler's buffer assignment as text: "allocation N: size S, ..." and " value: <id name{index} @C> (size=S,offset=O): SHAPE" lines. */
#include "sim/import/hlo.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

typedef struct {
    const char *begin, *at, *end, *where;
    const EchProgram *program;
    GHashTable *names; /* instruction name -> id + 1, of those that hold values */
    GArray *allocations, *assigned;
    EchDiag *diag;
} Reader;

static bool fail(const Reader *r, const char *at, GError **error, const char *what)
{
    size_t line = 1;
    for (const char *p = r->begin; p < at && (p = memchr(p, '\n', (size_t)(at - p))) != NULL; p++)
        line++;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: expected %s", r->where, line, what);
    return false;
}

static bool number_after(const char *line, const char *stop, const char *key, uint64_t *ret)
{
    const char *at = g_strstr_len(line, stop - line, key);
    int64_t value;
    if (!at)
        return false;
    at += strlen(key);
    if (at >= stop || !g_ascii_isdigit(*at) || ech_program_numbers(at, (size_t)(stop - at), &value, 1) == 0)
        return false;
    *ret = (uint64_t)value;
    return true;
}

static bool has(const char *line, const char *stop, const char *key)
{
    return g_strstr_len(line, stop - line, key) != NULL;
}

/* Shapes hold words of their own ("parameter" in a name never, but '|shape|' may hold anything): look at the head and the tail around them. */
static bool read_allocation(Reader *r, const char *line, const char *stop, GError **error)
{
    EchAllocation allocation = {.parameter = -1, .first_assigned = r->assigned->len};
    uint64_t value = 0;
    if (!number_after(line, stop, "size ", &value))
        return fail(r, line, error, "'size N' in an allocation's line");
    allocation.bytes = value;
    if (number_after(line, stop, "color ", &value))
        allocation.space = (int32_t)MIN(value, (uint64_t)INT16_MAX);
    if (number_after(line, stop, ", parameter ", &value)) {
        allocation.is_parameter = 1;
        allocation.parameter = (int64_t)value;
    }
    allocation.is_constant = has(line, stop, ", constant");
    allocation.is_thread_local = has(line, stop, ", thread-local");
    allocation.is_live_out = has(line, stop, ", maybe-live-out");
    allocation.is_temp = has(line, stop, ", preallocated-temp");
    g_array_append_val(r->allocations, allocation);
    return true;
}

static EchId find_value(Reader *r, const char *name, const char *stop)
{
    const char *brace = memchr(name, '{', (size_t)(stop - name));
    const char *space = memchr(name, ' ', (size_t)(stop - name));
    const char *name_end = brace ? brace : space ? space : stop;
    if (space && space < name_end)
        name_end = space;
    g_autofree char *key = g_strndup(name, (size_t)(name_end - name));
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(r->names, key));
    if (found == 0)
        return ECH_NONE;
    int64_t index[16];
    const char *index_end = brace ? memchr(brace, '}', (size_t)(stop - brace)) : NULL;
    size_t n = index_end ? ech_program_numbers(brace, (size_t)(index_end - brace), index, G_N_ELEMENTS(index)) : 0;
    if (n > G_N_ELEMENTS(index))
        return ECH_NONE;
    uint32_t position = ech_program_index_position(r->program, r->program->instructions[found - 1].shape, index, n);
    return position == UINT32_MAX ? ECH_NONE : ech_program_value(r->program, (EchId)(found - 1), position);
}

/* " value: <12 copy-start{0} (phi) @0> (size=N,offset=M): SHAPE" */
static bool read_value(Reader *r, const char *line, const char *stop, GError **error)
{
    const char *open = memchr(line, '<', (size_t)(stop - line));
    const char *close = open ? memchr(open, '>', (size_t)(stop - open)) : NULL;
    const char *name = close ? memchr(open, ' ', (size_t)(close - open)) : NULL;
    EchAssigned assigned;
    if (!name || r->allocations->len == 0)
        return fail(r, line, error, "'value: <id name @space>' after an allocation");
    if (!number_after(close, stop, "size=", &assigned.bytes) || !number_after(close, stop, "offset=", &assigned.offset))
        return fail(r, line, error, "'(size=N,offset=M)'");
    assigned.value = find_value(r, name + 1, close);
    if (assigned.value == ECH_NONE)
        ech_diag_note(r->diag, "assigned_values_not_in_the_program", 1);
    g_array_append_val(r->assigned, assigned);
    EchAllocation *allocation = &g_array_index(r->allocations, EchAllocation, r->allocations->len - 1);
    allocation->n_assigned++;
    return true;
}

static bool read_lines(Reader *r, GError **error)
{
    while (r->at < r->end) {
        const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
        const char *stop = newline ? newline : r->end, *line = r->at;
        r->at = newline ? newline + 1 : r->end;
        if (stop - line > 11 && memcmp(line, "allocation ", 11) == 0) {
            if (!read_allocation(r, line, stop, error))
                return false;
        } else if (stop - line > 8 && memcmp(line, " value: ", 8) == 0) {
            if (!read_value(r, line, stop, error))
                return false;
        } else if (r->allocations->len > 0 && stop - line > 4 && line[0] != ' ')
            break; /* "Total bytes used", "Used values": what follows is about the same again. */
    }
    return r->allocations->len > 0 || fail(r, r->begin, error, "'allocation N: size S, ...' lines");
}

bool ech_hlo_read_assignment(EchProgram *program, const char *text, size_t n, const char *where, EchDiag *diag, GError **error)
{
    Reader r = {.begin = text, .at = text, .end = text + n, .where = where, .program = program, .diag = diag};
    r.names = g_hash_table_new(ech_hash_text, g_str_equal);
    r.allocations = g_array_new(FALSE, FALSE, sizeof(EchAllocation));
    r.assigned = g_array_new(FALSE, FALSE, sizeof(EchAssigned));
    for (size_t i = 0; i < program->n_instructions; i++) {
        if (program->instructions[i].first_position != ECH_NONE)
            g_hash_table_insert(r.names, (gpointer)(uintptr_t)program->instructions[i].name, GSIZE_TO_POINTER(i + 1));
    }
    bool ok = read_lines(&r, error);
    g_hash_table_unref(r.names);
    if (!ok) {
        g_array_unref(r.allocations);
        g_array_unref(r.assigned);
        return false;
    }
    EchProgramAssignment *assignment = g_new0(EchProgramAssignment, 1);
    assignment->n_allocations = r.allocations->len;
    assignment->n_assigned = r.assigned->len;
    assignment->allocations = (EchAllocation *)(void *)g_array_free(r.allocations, FALSE);
    assignment->assigned = (EchAssigned *)(void *)g_array_free(r.assigned, FALSE);
    ech_program_set_assignment(program, assignment, where);
    return true;
}
