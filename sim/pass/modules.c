#include "sim/pass/modules.h"

#include "sim/base/hash.h"
#include "sim/trace/ranges.h"

#include <string.h>

bool ech_modules_is_backward(const EchSurvey *survey, EchId op)
{
    return ech_stack_is_backward(ech_trace_string(survey->t, survey->ops[op].stack));
}

bool ech_modules_same_gradient(const EchSurvey *survey, EchId one, EchId other)
{
    const char *of[2];
    for (int k = 0; k < 2; k++) {
        EchId stack = survey->ops[k == 0 ? one : other].stack;
        const char *text = stack != ECH_NONE ? ech_trace_string(survey->t, stack) : "", *at = strstr(text, ECH_RANGE_BACKWARD);
        of[k] = at != NULL ? at : text;
    }
    return strcmp(of[0], of[1]) == 0;
}

static EchPart part_of(const EchSurvey *s, EchId op)
{
    const char *stack = ech_trace_string(s->t, s->ops[op].stack);
    return ech_modules_is_backward(s, op) || strstr(stack, "::root_post_backward") != NULL ? ECH_PART_BACKWARD /* FSDP's sums of what is in no module */
           : ech_stack_has_module(stack)                                                   ? ECH_PART_FORWARD
           : ech_stack_is_optimizer(stack)                                                 ? ECH_PART_OPTIMIZER
                                                                                           : ECH_PART_ELSE;
}

void ech_modules_find_parts(const EchSurvey *survey, uint8_t *part)
{
    const EchSurvey *s = survey;
    g_autofree uint8_t *parts = g_new0(uint8_t, ech_trace_n_strings(s->t) + 1); /* per stack: 1 + EchPart */
    bool before_backward = false;
    for (EchId i = (EchId)s->n; i-- > 0;) {
        EchId stack = s->ops[i].stack;
        part[i] = ECH_PART_ELSE;
        if (!ech_op_is_work(&s->ops[i]) || s->ops[i].n_uses == 0 || stack == ECH_NONE)
            continue;
        if (parts[stack] == 0)
            parts[stack] = (uint8_t)(part_of(s, i) + 1);
        part[i] = (uint8_t)(parts[stack] - 1);
        bool optimizer = part[i] == ECH_PART_OPTIMIZER;
        if (ech_stack_before_backward(part[i] == ECH_PART_FORWARD, part[i] == ECH_PART_BACKWARD, optimizer, &before_backward) && optimizer)
            part[i] = ECH_PART_ELSE;
    }
}

static bool fits_one_of(char *const *patterns, const char *path)
{
    bool fits = false;
    for (; *patterns && !fits; patterns++)
        fits = g_pattern_match_simple(*patterns, path);
    return fits;
}

const char *ech_modules_find(const EchSurvey *survey, EchId op, char *const *patterns, size_t *ret_n)
{
    const char *stack = ech_trace_string(survey->t, survey->ops[op].stack), *found = NULL;
    for (const char *at = strstr(stack, ECH_RANGE_MODULE); at; at = strstr(at + 1, ECH_RANGE_MODULE)) {
        size_t n = strcspn(at, "\n"), name = strcspn(at + strlen(ECH_RANGE_MODULE), " \n");
        g_autofree char *path = g_strndup(at + strlen(ECH_RANGE_MODULE), name);
        if (fits_one_of(patterns, path)) {
            found = at;
            *ret_n = n;
        }
    }
    return found;
}

/* What begins with "blocks.": the first number that follows it, whether another does, and whether anything follows those. */
typedef struct {
    char *first;
    bool is_repeated, is_made_of_others;
} Repeated;

static void free_repeated(gpointer data)
{
    g_free(((Repeated *)data)->first);
    g_free(data);
}

/* Of "blocks.2.qkv" what comes before its first number: 7 bytes; 0 where it has none, or begins with one. */
static size_t find_number(const char *path, size_t *ret_digits)
{
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
        *ret_digits = strspn(dot + 1, "0123456789");
        if (*ret_digits > 0 && (dot[1 + *ret_digits] == '.' || dot[1 + *ret_digits] == '\0'))
            return (size_t)(dot + 1 - path);
    }
    return 0;
}

/* Of "stages.0.blocks.2.mlp" that blocks follow "stages.", or, with @inner, that those follow "stages.*.blocks.". */
static void note_path(GHashTable *found, const char *path, bool inner)
{
    size_t digits, n = find_number(path, &digits);
    if (n == 0)
        return;
    g_autoptr(GString) key = g_string_new_len(path, (gssize)n);
    const char *rest = path + n;
    if (inner) { /* the next number, with a dot before it */
        const char *after = rest + digits;
        g_string_append_c(key, '*');
        n = find_number(after, &digits);
        if (n == 0)
            return;
        g_string_append_len(key, after, (gssize)n);
        rest = after + n;
    }
    Repeated *repeated = g_hash_table_lookup(found, key->str);
    if (!repeated) {
        repeated = g_new0(Repeated, 1);
        repeated->first = g_strndup(rest, digits);
        g_hash_table_insert(found, g_strdup(key->str), repeated);
    }
    repeated->is_repeated |= strlen(repeated->first) != digits || strncmp(repeated->first, rest, digits) != 0;
    repeated->is_made_of_others |= rest[digits] == '.';
}

static gint compare_paths(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Patterns, NULL-terminated, of what is repeated, or repeated in what is. */
static GStrv repeated_in(const EchTrace *trace, bool inner)
{
    g_autoptr(GHashTable) found = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, free_repeated);
    g_autoptr(GPtrArray) patterns = g_ptr_array_new();
    for (EchId i = 0; i < ech_trace_n_strings(trace); i++)
        for (const char *at = strstr(ech_trace_string(trace, i), ECH_RANGE_MODULE); at; at = strstr(at + 1, ECH_RANGE_MODULE)) {
            g_autofree char *path = g_strndup(at + strlen(ECH_RANGE_MODULE), strcspn(at + strlen(ECH_RANGE_MODULE), " \n"));
            note_path(found, path, inner);
        }
    GHashTableIter iter;
    gpointer key, value;
    g_hash_table_iter_init(&iter, found);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const Repeated *repeated = value;
        if (repeated->is_repeated && repeated->is_made_of_others)
            g_ptr_array_add(patterns, g_strconcat(key, "*", NULL));
    }
    g_ptr_array_sort(patterns, compare_paths);
    g_ptr_array_add(patterns, NULL);
    return (GStrv)g_ptr_array_free(g_steal_pointer(&patterns), FALSE);
}

/* Kernels in modules that fit. */
static size_t kernels_in(const EchTrace *trace, char *const *patterns)
{
    const EchSurvey s = {.t = trace, .ops = ech_trace_ops(trace)};
    size_t n_strings = ech_trace_n_strings(trace), n = 0, at;
    g_autofree uint8_t *fits = g_new0(uint8_t, n_strings + 1); /* per stack: 1 it does not, 2 it does */
    for (EchId i = 0; i < ech_trace_n_ops(trace); i++) {
        EchId stack = s.ops[i].stack;
        if (s.ops[i].kind != ECH_OP_KERNEL || stack >= n_strings)
            continue;
        if (fits[stack] == 0)
            fits[stack] = ech_modules_find(&s, i, patterns, &at) ? 2 : 1;
        n += fits[stack] == 2;
    }
    return n;
}

/* Stages are made of blocks and little else, layers of experts and more. */
#define MOSTLY 0.9

char *ech_modules_repeated(const EchTrace *trace)
{
    g_auto(GStrv) outer = repeated_in(trace, false), inner = outer[0] ? repeated_in(trace, true) : g_new0(char *, 1);
    bool in_stages = inner[0] && (double)kernels_in(trace, inner) >= MOSTLY * (double)kernels_in(trace, outer);
    return outer[0] ? g_strjoinv(ECH_MODULES_OR, in_stages ? inner : outer) : NULL;
}
