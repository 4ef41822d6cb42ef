#include "sim/import/hlo_nested.h"

#include <string.h>

#define MAX_DEPTH 1024 /* computations inside each other */

typedef struct Block Block;
struct Block {
    GString *text;
    GArray *lines;  /* uint32_t: where each line comes from */
    Block *inner;   /* what was taken out of it, before it in the end; NULL: nothing */
    Block *held;    /* a loop's condition, printed before the body that the module has first; NULL: none */
    size_t indent;  /* of the brace that opens it */
    bool list;      /* what comes is a list of computations: branch_computations={ */
    bool condition; /* what comes is a loop's condition */
    uint32_t begun; /* the line that is open, where its call's computation was taken out; 0: none */
};

typedef struct {
    const char *begin, *end; /* without blanks at both ends */
    size_t indent;
} Line;

static Block *block_new(size_t indent)
{
    Block *block = g_new0(Block, 1);
    block->text = g_string_new(NULL);
    block->lines = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    block->indent = indent;
    return block;
}

static void block_free(void *data)
{
    Block *block = data;
    if (block == NULL)
        return;
    block_free(block->inner);
    block_free(block->held);
    g_string_free(block->text, TRUE);
    g_array_unref(block->lines);
    g_free(block);
}

static void end_line(Block *block, uint32_t line)
{
    g_string_append_c(block->text, '\n');
    g_array_append_val(block->lines, line);
}

static void append_block(Block *to, const Block *from)
{
    if (from->inner != NULL)
        append_block(to, from->inner);
    g_string_append_len(to->text, from->text->str, (gssize)from->text->len);
    g_array_append_vals(to->lines, from->lines->data, from->lines->len);
}

static Line line_at(const char *at, const char *stop)
{
    Line line = {.begin = at, .end = stop};
    while (line.begin < line.end && (*line.begin == ' ' || *line.begin == '\t'))
        line.begin++;
    while (line.end > line.begin && (line.end[-1] == ' ' || line.end[-1] == '\t' || line.end[-1] == '\r'))
        line.end--;
    line.indent = (size_t)(line.begin - at);
    return line;
}

static bool ends_with(const Line *line, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(line->end - line->begin) >= n && memcmp(line->end - n, text, n) == 0;
}

/* Whether the line ends where a computation is to follow. */
static bool calls(const Line *line, bool *ret_list)
{
    static const char *const names[] = {
        "calls=", "to_apply=", "body=", "condition=", "select=", "scatter=", "true_computation=", "false_computation=", "called_computation=", NULL};
    *ret_list = false;
    if (line->end == line->begin || (line->end[-1] != '=' && line->end[-1] != '{'))
        return false;
    *ret_list = ends_with(line, "branch_computations={") || ends_with(line, "called_computations={") || ends_with(line, "calls={");
    for (unsigned i = 0; names[i] != NULL; i++)
        if (ends_with(line, names[i]))
            return true;
    return *ret_list;
}

static const char *newline_of(const char *at, const char *end)
{
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    return newline != NULL ? newline : end;
}

/* "{", or "(NAME: SHAPE) -> SHAPE {" */
static bool opens(const Line *line)
{
    return line->end > line->begin && line->end[-1] == '{' && (line->end - line->begin == 1 || *line->begin == '(');
}

/* Whether a line that calls is followed by one that opens, anywhere. */
static bool is_nested(const char *at, const char *end)
{
    bool called = false;
    while (at < end) {
        const char *stop = newline_of(at, end);
        bool list;
        Line line = line_at(at, stop);
        if (called && opens(&line))
            return true;
        called = calls(&line, &list);
        at = stop + 1;
    }
    return false;
}

typedef struct {
    GPtrArray *stack; /* Block: the module's own lines, and the open computations, innermost last */
    uint32_t number, n_named;
    bool keep; /* the open computation at the module's level is the entry */
} Unnester;

static Block *top(const Unnester *u)
{
    return g_ptr_array_index(u->stack, u->stack->len - 1);
}

/* Appends a line, or what goes on in one, to the open computation; a call's computation may have to follow. */
static void append(Unnester *u, const Line *line, bool goes_on)
{
    Block *block = top(u);
    bool list;
    if (!goes_on)
        for (size_t i = 0; i < line->indent; i++)
            g_string_append_c(block->text, ' ');
    g_string_append_len(block->text, line->begin, line->end - line->begin);
    if (calls(line, &list)) {
        block->list = list;
        block->condition = ends_with(line, "condition=");
        block->begun = block->begun > 0 ? block->begun : u->number;
    } else {
        end_line(block, block->begun > 0 ? block->begun : u->number);
        block->begun = 0;
        block->list = false;
    }
}

/* A computation that was nested ends: its caller's line names it and goes on. */
static void close_nested(Unnester *u, const Line *line)
{
    Block *done = g_ptr_array_steal_index(u->stack, u->stack->len - 1), *caller = top(u);
    end_line(done, u->number);
    if (caller->inner == NULL)
        caller->inner = block_new(0);
    if (caller->condition && caller->held == NULL) {
        caller->held = done;
    } else {
        append_block(caller->inner, done);
        block_free(done);
        if (caller->held != NULL)
            append_block(caller->inner, caller->held);
        g_clear_pointer(&caller->held, block_free);
    }
    Line rest = {.begin = line->begin + 1, .end = line->end};
    if (caller->list) { /* "}," between two, "}" before the list's own */
        g_string_append_len(caller->text, rest.begin, rest.end - rest.begin);
    } else
        append(u, &rest, true);
}

static void take_line(Unnester *u, const Line *line)
{
    Block *block = top(u);
    if (block->begun > 0 && opens(line) && u->stack->len < MAX_DEPTH) {
        g_autofree char *name = g_strdup_printf("nested.%u", ++u->n_named);
        g_string_append(block->text, name);
        Block *nested = block_new(line->indent);
        g_string_append_printf(nested->text, "%s {", name);
        end_line(nested, u->number);
        g_ptr_array_add(u->stack, nested);
    } else if (u->stack->len > 2 && line->end > line->begin && *line->begin == '}' && line->indent == block->indent && block->begun == 0) {
        g_string_append_c(block->text, '}');
        close_nested(u, line);
    } else if (u->stack->len == 1 && line->end > line->begin && line->end[-1] == '{' &&
               !(line->end - line->begin > 10 && memcmp(line->begin, "HloModule ", 10) == 0)) {
        u->keep = line->end - line->begin > 6 && memcmp(line->begin, "ENTRY ", 6) == 0;
        g_ptr_array_add(u->stack, block_new(line->indent));
        append(u, line, false);
    } else if (u->stack->len == 2 && block->begun == 0 && line->end > line->begin && *line->begin == '}' && line->indent == block->indent) {
        append(u, line, false);
        if (u->keep)
            append_block(g_ptr_array_index(u->stack, 0), block);
        g_ptr_array_set_size(u->stack, 1);
    } else
        append(u, line, block->begun > 0);
}

GBytes *ech_hlo_unnest(GBytes *text, GArray **ret_lines)
{
    gsize n;
    const char *at = g_bytes_get_data(text, &n), *end = at != NULL ? at + n : NULL;
    if (at == NULL || !is_nested(at, end))
        return NULL;
    Unnester u = {.stack = g_ptr_array_new_with_free_func(block_free)};
    g_ptr_array_add(u.stack, block_new(0));
    while (at < end) {
        const char *stop = newline_of(at, end);
        Line line = line_at(at, stop);
        u.number++;
        take_line(&u, &line);
        at = stop + 1;
    }
    /* What does not end keeps its open end, of which the reader tells. */
    Block *all = g_ptr_array_index(u.stack, 0);
    if (u.stack->len > 1) {
        append_block(all, g_ptr_array_index(u.stack, 1));
        end_line(all, u.number);
    }
    *ret_lines = g_array_ref(all->lines);
    gsize length = all->text->len;
    GBytes *bytes = g_bytes_new_take(g_string_free(all->text, FALSE), length);
    all->text = g_string_new(NULL);
    g_ptr_array_unref(u.stack);
    return bytes;
}
