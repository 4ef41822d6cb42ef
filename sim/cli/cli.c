#include "sim/cli/cli.h"

#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/experiment/experiment.h"
#include "sim/report/text.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const EchVerb verb_table[] = {
#define ECH_VERB(name, usage, summary, examples) {#name, usage, summary, examples, ech_verb_##name},
#include "sim/cli/verbs.def"
#undef ECH_VERB
    {NULL, NULL, NULL, NULL, NULL},
};

const EchVerb *ech_verbs(size_t *ret_n)
{
    *ret_n = G_N_ELEMENTS(verb_table) - 1;
    return verb_table;
}

static EchCliDescribe describe_options;
static void *describe_data;

/* Where what goes on in the next line stands: behind the option's name, or the program's and the verb's. */
static size_t hanging_indent(const char *line)
{
    const char *at = line + strspn(line, " ");
    if (g_str_has_prefix(at, "echelon ")) {
        at += strlen("echelon ");
        return (size_t)(at - line) + strcspn(at, " ") + 1;
    }
    const char *blanks = *at == '-' ? strstr(at, "  ") : NULL;
    return (size_t)((blanks ? blanks : line) - line) + strspn(blanks ? blanks : line, " ");
}

/* GOption's own text, in ASCII (its "OPTION..." has an ellipsis that is not in every locale), and wrapped for the terminal but for examples, which are there
 * to be copied. */
static void print_help(const char *text)
{
    g_autoptr(GString) whole = g_string_new(text), out = g_string_new(NULL);
    g_string_replace(whole, "\xe2\x80\xa6", "...", 0);
    unsigned columns = ech_cli_columns();
    g_auto(GStrv) lines = g_strsplit(whole->str, "\n", -1);
    bool examples = false;
    for (char **line = lines; *line; line++) {
        examples |= strcmp(*line, "Examples:") == 0;
        size_t indent = hanging_indent(*line);
        if (examples || columns == 0 || ech_text_width(*line) <= (int)columns || indent >= columns / 2) {
            g_string_append_printf(out, "%s%s", *line, line[1] ? "\n" : "");
            continue;
        }
        g_autofree char *first = g_strndup(*line, indent);
        ech_text_wrap(out, first, *line + indent, columns);
    }
    ech_cli_print(out->str);
}

void ech_cli_describe(EchCliDescribe describe, void *data)
{
    describe_options = describe;
    describe_data = data;
}

/* Adds the option that was meant to the message of one that is not there. */
static void suggest_option(GError *error, const GOptionEntry *entries)
{
    const char *given = g_error_matches(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) ? strstr(error->message, "--") : NULL;
    if (!given)
        return;
    g_autofree char *name = g_strndup(given + 2, strcspn(given + 2, "= "));
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    for (const GOptionEntry *entry = entries; entry->long_name; entry++)
        g_ptr_array_add(names, (gpointer)(uintptr_t)entry->long_name);
    g_ptr_array_add(names, NULL);
    const char *nearest = ech_nearest_name(name, (const char *const *)names->pdata);
    if (!nearest)
        return;
    char *message = g_strdup_printf("%s; did you mean --%s?", error->message, nearest);
    g_free(error->message);
    error->message = message;
}

/* The entry that @argument names; *@ret_value: its value, where it stands in the same argument. */
static const GOptionEntry *entry_of(const char *argument, const GOptionEntry *entries, const char **ret_value)
{
    *ret_value = NULL;
    for (const GOptionEntry *entry = entries; argument[0] == '-' && entry->long_name; entry++) {
        size_t n = strlen(entry->long_name);
        if (argument[1] == '-' && strncmp(argument + 2, entry->long_name, n) == 0 && (argument[2 + n] == '\0' || argument[2 + n] == '=')) {
            *ret_value = argument[2 + n] ? argument + 3 + n : NULL;
            return entry;
        }
        if (entry->short_name && argument[1] == entry->short_name) {
            *ret_value = argument[2] ? argument + 2 : NULL;
            return entry;
        }
    }
    return NULL;
}

/* GOption lets the last of two values win without a word. The long name of an option that is given more than once but takes one value, or NULL. */
static const char *given_twice(int argc, char **argv, const GOptionEntry *entries)
{
    guint n = 0;
    while (entries[n].long_name)
        n++;
    g_autofree bool *given = g_new0(bool, n + 1);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value;
        const GOptionEntry *entry = entry_of(argv[i], entries, &value);
        if (!entry || entry->arg == G_OPTION_ARG_NONE)
            continue;
        bool *before = &given[entry - entries];
        if (*before && entry->arg != G_OPTION_ARG_STRING_ARRAY && entry->arg != G_OPTION_ARG_FILENAME_ARRAY)
            return entry->long_name;
        *before = true;
        i += value == NULL;
    }
    return NULL;
}

/* For GOption, which consumes them. It takes a short option's value from the next argument alone; "-j2" is as "-j 2". */
static char **arguments_of(const char *program, int argc, char **argv, const GOptionEntry *entries)
{
    g_autoptr(GStrvBuilder) args = g_strv_builder_new();
    g_strv_builder_add(args, program);
    bool options = true, is_value = false;
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        options = options && (is_value || strcmp(argv[i], "--") != 0);
        const GOptionEntry *entry = options && !is_value ? entry_of(argv[i], entries, &value) : NULL;
        bool takes = entry && entry->arg != G_OPTION_ARG_NONE;
        if (takes && value && argv[i][1] != '-') {
            const char option[] = {'-', entry->short_name, '\0'};
            g_strv_builder_add(args, option);
            g_strv_builder_add(args, value);
        } else {
            g_strv_builder_add(args, argv[i]);
        }
        is_value = takes && !value;
    }
    return g_strv_builder_end(args);
}

/* A name that is given and empty, mostly of a variable that is not set: of an option's (*ret_option), or as it stands. */
static bool is_name_empty(const GOptionEntry *entries, char *const *rest, const char **ret_option)
{
    *ret_option = NULL;
    for (const GOptionEntry *entry = entries; entry->long_name; entry++) {
        const char *one = entry->arg == G_OPTION_ARG_FILENAME ? *(char *const *)entry->arg_data : NULL;
        char *const *many = entry->arg == G_OPTION_ARG_FILENAME_ARRAY ? *(char **const *)entry->arg_data : NULL;
        bool empty = one && !*one;
        for (; many && *many; many++)
            empty |= !**many;
        if (empty) {
            *ret_option = entry->long_name;
            return true;
        }
    }
    for (; *rest; rest++) {
        if (!**rest)
            return true;
    }
    return false;
}

bool ech_cli_options(int argc, char **argv, const GOptionEntry *entries, char ***ret_rest)
{
    if (describe_options) {
        describe_options(entries, describe_data);
        return false;
    }
    const char *twice = given_twice(argc, argv, entries);
    if (twice) {
        fprintf(stderr, "echelon %s: --%s: given twice; expected one value\n", argv[0], twice);
        return false;
    }
    const EchVerb *verb = verb_table;
    while (verb->name && strcmp(verb->name, argv[0]) != 0)
        verb++;
    g_autoptr(GOptionContext) context = g_option_context_new(verb->name ? verb->usage : "");
    g_option_context_set_summary(context, verb->name ? verb->summary : "");
    g_autoptr(GString) examples = g_string_new("Examples:");
    g_auto(GStrv) lines = g_strsplit(verb->name ? verb->examples : "", "\n", -1);
    for (char **line = lines; *line; line++)
        g_string_append_printf(examples, "\n  %s", *line);
    if (verb->name)
        g_option_context_set_description(context, examples->str);
    /* Texts are taken as the bytes they are: GOption would refuse those that the locale, of which there may be none, cannot say. */
    guint n_entries = 0;
    while (entries[n_entries].long_name)
        n_entries++;
    g_autofree GOptionEntry *raw = g_memdup2(entries, (n_entries + 1) * sizeof *entries);
    for (guint i = 0; i < n_entries; i++) {
        if (raw[i].arg == G_OPTION_ARG_STRING)
            raw[i].arg = G_OPTION_ARG_FILENAME;
        else if (raw[i].arg == G_OPTION_ARG_STRING_ARRAY)
            raw[i].arg = G_OPTION_ARG_FILENAME_ARRAY;
    }
    g_option_context_add_main_entries(context, raw, NULL);
    g_autofree char *program = g_strdup_printf("echelon %s", argv[0]);
    char *prgname = g_strdup(g_get_prgname());
    g_set_prgname(program);
    char **args = arguments_of(program, argc, argv, entries);
    GError *error = NULL;
    g_set_print_handler(print_help);
    bool ok = g_option_context_parse_strv(context, &args, &error);
    g_set_prgname(prgname);
    g_free(prgname);
    if (!ok) {
        suggest_option(error, entries);
        fprintf(stderr, "echelon %s: %s\nusage: echelon %s %s\n", argv[0], error->message, argv[0], verb->name ? verb->usage : "");
        g_error_free(error);
        g_strfreev(args);
        return false;
    }
    g_free(args[0]);
    memmove(args, args + 1, g_strv_length(args + 1) * sizeof *args + sizeof *args);
    /* GOption leaves the dashes that end options where a name that begins with one follows them. */
    for (char **at = args; *at; at++) {
        if (strcmp(*at, "--") == 0) {
            g_free(*at);
            memmove(at, at + 1, g_strv_length(at) * sizeof *at);
            break;
        }
    }
    const char *option;
    if (is_name_empty(entries, args, &option)) {
        fprintf(stderr, "echelon %s: %s%s%s'' names nothing; is a variable empty?\n", argv[0], option ? "--" : "", option ? option : "", option ? ": " : "");
        g_strfreev(args);
        return false;
    }
    *ret_rest = args;
    return true;
}

static bool bar_shown; /* A progress bar stands on the terminal's line. */

/* Of the terminal that @fd is; 0: it is none. */
static unsigned columns_of(int fd)
{
    const char *set = g_getenv("COLUMNS");
    struct winsize size;
    guint64 columns = 0;
    if (!set || !g_ascii_string_to_unsigned(set, 10, 1, 10000, &columns, NULL))
        columns = isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 0;
    return columns ? (unsigned)CLAMP(columns, 60, 240) : 0;
}

int ech_cli_fail(GError *error)
{
    if (bar_shown)
        fputs("\r\033[K", stderr);
    int code = g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG) ? ECH_EXIT_USAGE : ECH_EXIT_FAILED;
    /* What a pasted message means is a paragraph. */
    g_autofree char *text = g_strdup_printf("echelon: %s\n", error->message);
    g_autoptr(GString) folded = ech_text_fold(text, columns_of(STDERR_FILENO));
    ech_cli_say("%s", folded->str);
    g_error_free(error);
    return code;
}

void ech_cli_find_trace(char **name)
{
    if (!*name || strcmp(*name, "-") == 0 || g_file_test(*name, G_FILE_TEST_EXISTS))
        return;
    char *found = ech_trace_find(*name, NULL);
    g_free(*name);
    *name = found;
}

bool ech_cli_check_device(const char *name, GError **error)
{
    g_autoptr(EchDevice) device = name ? ech_device_load(name, NULL, error) : NULL;
    return !name || device;
}

void ech_cli_progress(const char *label, guint64 done, guint64 total)
{
    static int terminal = -1;
    static guint64 shown = G_MAXUINT64;
    if (terminal < 0)
        terminal = isatty(STDERR_FILENO) && g_strcmp0(g_getenv("TERM"), "dumb") != 0;
    if (!terminal || total == 0)
        return;
    guint64 percent = (guint64)((double)done * 100 / (double)total);
    if (percent == shown && (done != total || !bar_shown))
        return;
    shown = percent;
    bar_shown = done != total;
    char bar[31];
    for (guint64 i = 0; i < 30; i++)
        bar[i] = i < percent * 30 / 100 ? '#' : '.';
    bar[30] = '\0';
    /* A line that a narrow terminal breaks could not be taken back. */
    struct winsize size;
    bool narrow = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_col < 64;
    if (narrow)
        fprintf(stderr, "\r\033[K%.12s %3" G_GUINT64_FORMAT "%%", label, percent);
    else
        fprintf(stderr, "\r\033[K%-24s [%s] %3" G_GUINT64_FORMAT "%%", label, bar, percent);
    if (done == total)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

unsigned ech_cli_columns(void)
{
    return columns_of(STDOUT_FILENO);
}

static const char *type_name(EchParamType type)
{
    switch (type) {
    case ECH_PARAM_U64: return "number";
    case ECH_PARAM_BYTES: return "size";
    case ECH_PARAM_TIME: return "time";
    case ECH_PARAM_RATE: return "rate";
    case ECH_PARAM_BOOL: return "true or false";
    case ECH_PARAM_RATIO: return "ratio";
    case ECH_PARAM_ENUM: return "choice";
    case ECH_PARAM_STRING: return "text";
    }
    return "";
}

char *ech_cli_param_takes(const EchParam *param)
{
    return param->values ? g_strjoinv("|", (char **)(uintptr_t)param->values) : g_strdup(type_name(param->type));
}

void ech_cli_row(GString *out, const char *line)
{
    gsize at = out->len;
    ech_text_wrap(out, "          ", line, ech_cli_columns());
    g_string_erase(out, (gssize)at, 4); /* Only what follows the first line stands further in. */
}

void ech_cli_params(GString *out, const EchParam *params)
{
    for (const EchParam *param = params; param && param->name; param++) {
        g_autofree char *takes = ech_cli_param_takes(param);
        g_autoptr(GString) line = g_string_new(NULL);
        g_string_append_printf(line, "%s=%s", param->name, takes);
        if (param->def)
            g_string_append_printf(line, " (%s)", param->def);
        g_string_append_printf(line, "  %s", param->doc ? param->doc : "");
        ech_cli_row(out, line->str);
    }
}

void ech_cli_print(const char *text)
{
    g_autofree char *plain = ech_plain(text);
    ech_cli_print_bytes(plain, strlen(plain));
}

void ech_cli_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments), *plain = ech_plain(text);
    va_end(arguments);
    fputs(plain, stderr);
}

void ech_cli_print_bytes(const void *data, size_t n)
{
    ech_cli_printed(fwrite(data, 1, n, stdout) == n && fflush(stdout) == 0);
}

void ech_cli_printed(bool all)
{
    if (all)
        return;
    if (errno != EPIPE)
        fprintf(stderr, "echelon: standard output: %s\n", g_strerror(errno));
    exit(ECH_EXIT_FAILED);
}
