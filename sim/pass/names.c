/* Patterns of names that nothing fits, and what comes near them. */
#include "sim/pass/names.h"

#include "sim/base/hash.h"
#include "sim/base/param.h"
#include "sim/trace/ranges.h"

#include <string.h>

static void add_text(GHashTable *names, const char *text, size_t n)
{
    if (n > 0)
        g_hash_table_add(names, g_strndup(text, n));
}

/* The lines of a stack; of modules of PyTorch their paths, which is all that @modules asks for. */
static void add_lines(GHashTable *names, const char *stack, bool modules)
{
    for (const char *line = stack; *line; line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        bool module = n > strlen(ECH_RANGE_MODULE) && strncmp(line, ECH_RANGE_MODULE, strlen(ECH_RANGE_MODULE)) == 0;
        if (modules && module)
            add_text(names, line + strlen(ECH_RANGE_MODULE), strcspn(line + strlen(ECH_RANGE_MODULE), " \n"));
        else if (!modules)
            add_text(names, line, n);
        line += n;
    }
}

/* All that patterns are held against, each once. */
static GHashTable *names_of(const EchTrace *trace, bool modules)
{
    GHashTable *names = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autofree bool *met = g_new0(bool, ech_trace_n_strings(trace) + 1); /* stacks that many share */
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const char *name = ech_trace_string(trace, buffers[i].name), *role = ech_role_name((EchRole)buffers[i].role);
        EchId stack = buffers[i].stack;
        if (stack < ech_trace_n_strings(trace) && !met[stack]) {
            met[stack] = true;
            add_lines(names, ech_trace_string(trace, stack), modules);
        }
        if (modules)
            continue;
        add_text(names, name, strlen(name));
        if (buffers[i].role != ECH_ROLE_UNKNOWN)
            add_text(names, role, strlen(role));
    }
    return names;
}

/* The longest stretch of a pattern without a star. Owned by the caller. */
static char *core_of(const char *pattern)
{
    const char *best = pattern;
    size_t n_best = 0;
    for (const char *at = pattern; *at; at += *at == '*') {
        size_t n = strcspn(at, "*");
        if (n > n_best) {
            best = at;
            n_best = n;
        }
        at += n;
    }
    return g_strndup(best, n_best);
}

/* Where @name has @text, in any case, or NULL. */
static const char *find_text(const char *name, const char *text)
{
    size_t n = strlen(text);
    for (; n > 0 && *name; name++) {
        if (g_ascii_strncasecmp(name, text, n) == 0)
            return name;
    }
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The words of names: "fusion" of "loop_fusion.3" stands in "loop_fusion". */
static GPtrArray *words_of(const GPtrArray *names)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    for (guint i = 0; i < names->len; i++) {
        g_auto(GStrv) words = g_strsplit_set(names->pdata[i], " .:/\\()[]{}<>,='\"*", -1);
        for (char **word = words; *word; word++)
            add_text(seen, *word, strlen(*word) >= 3 ? strlen(*word) : 0);
    }
    GPtrArray *words = g_ptr_array_new_with_free_func(g_free);
    GHashTableIter iter;
    void *word;
    g_hash_table_iter_init(&iter, seen);
    while (g_hash_table_iter_next(&iter, &word, NULL))
        g_ptr_array_add(words, g_strdup(word));
    g_ptr_array_sort(words, compare_names);
    g_ptr_array_add(words, NULL);
    return words;
}

char *ech_names_near(const char *pattern, const GPtrArray *names)
{
    g_autofree char *text = core_of(pattern);
    const char *first = NULL, *stretch = NULL;
    guint n = 0;
    for (guint i = 0; i < names->len; i++) {
        const char *at = find_text(names->pdata[i], text);
        if (at && !first) {
            first = names->pdata[i];
            stretch = at;
        }
        n += at != NULL;
    }
    if (first)
        return g_strdup_printf("'*%.*s*' fits %u name%s, like %s", (int)strlen(text), stretch, n, n == 1 ? "" : "s", first);
    g_autoptr(GPtrArray) words = words_of(names);
    const char *nearest = ech_nearest_name(text, (const char *const *)words->pdata);
    return nearest ? g_strdup_printf("did you mean '*%s*'?", nearest) : NULL;
}

/* "a, b, c and 12 more" of names that stand alone. */
static char *list_names(const GPtrArray *names)
{
    enum { MOST_NAMES = 6 };
    GString *out = g_string_new(NULL);
    guint told = MIN(names->len, (guint)MOST_NAMES);
    for (guint i = 0; i < told; i++)
        g_string_append_printf(out, "%s%s", i ? ", " : "", (const char *)names->pdata[i]);
    if (names->len > told)
        g_string_append_printf(out, " and %u more", names->len - told);
    return g_string_free(out, FALSE);
}

/* Names without their numbers, each once, in order of the alphabet: "fusion.12" and "fusion.7" are "fusion*". Lines of stacks are left out. */
static GPtrArray *kinds_of(const GPtrArray *names)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    GPtrArray *kinds = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        char *kind = g_strdup_printf("%.*s*", (int)strcspn(name, "[.{0123456789"), name);
        if (kind[1] && !strpbrk(name, "/( ") && g_hash_table_add(seen, g_strdup(kind)))
            g_ptr_array_add(kinds, kind);
        else
            g_free(kind);
    }
    return kinds;
}

char *ech_names_unfit(const EchTrace *trace, const char *pattern, bool modules)
{
    g_autoptr(GHashTable) all = names_of(trace, modules);
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    GHashTableIter iter;
    void *name;
    g_hash_table_iter_init(&iter, all);
    while (g_hash_table_iter_next(&iter, &name, NULL)) {
        if (g_pattern_match_simple(pattern, name))
            return NULL;
        g_ptr_array_add(names, name);
    }
    g_ptr_array_sort(names, compare_names);
    g_autofree char *near = ech_names_near(pattern, names);
    if (near)
        return g_steal_pointer(&near);
    g_autoptr(GPtrArray) kinds = kinds_of(names);
    g_autofree char *list = list_names(kinds);
    return kinds->len > 0 ? g_strdup_printf("there %s %s", kinds->len == 1 ? "is" : "are", list) : g_strdup("nothing in it has such a name");
}
