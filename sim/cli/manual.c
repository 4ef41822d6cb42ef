/* The manual page and shell completions, from the tables that the verbs themselves use. */
#include "models/device/device_yaml.h"
#include "sim/cli/cli.h"
#include "sim/experiment/product.h"
#include "sim/pass/pass.h"
#include "sim/replay/replay.h"
#include "sim/report/text.h"

#include <string.h>

/* groff: a line must not begin with a dot or a quote, backslashes and hyphens mean something. */
static void append_roff(GString *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        g_string_append(out, "\\&");
    for (; *text; text++) {
        if (*text == '\\')
            g_string_append(out, "\\e");
        else if (*text == '-')
            g_string_append(out, "\\-");
        else if (*text == '\n')
            g_string_append_c(out, ' ');
        else
            g_string_append_c(out, *text);
    }
}

static void roff_options(const GOptionEntry *entries, void *data)
{
    GString *out = data;
    for (; entries->long_name; entries++) {
        if (!*entries->long_name || (entries->flags & G_OPTION_FLAG_HIDDEN))
            continue;
        g_string_append(out, ".TP\n");
        if (entries->short_name)
            g_string_append_printf(out, "\\fB\\-%c\\fR, ", entries->short_name);
        g_string_append(out, "\\fB\\-\\-");
        append_roff(out, entries->long_name);
        g_string_append(out, "\\fR");
        if (entries->arg_description) {
            g_string_append(out, "=\\fI");
            append_roff(out, entries->arg_description);
            g_string_append(out, "\\fR");
        }
        g_string_append_c(out, '\n');
        append_roff(out, entries->description ? entries->description : "");
        g_string_append_c(out, '\n');
    }
}

/* Calls @describe with the options of a verb. */
static void options_of(const EchVerb *verb, EchCliDescribe describe, void *data)
{
    g_autofree char *name = g_strdup(verb->name);
    char *args[] = {name, NULL};
    ech_cli_describe(describe, data);
    (void)verb->run(1, args);
    ech_cli_describe(NULL, NULL);
}

static void roff_row(GString *out, const char *name, const char *summary)
{
    g_string_append(out, ".TP\n\\fB");
    append_roff(out, name);
    g_string_append(out, "\\fR\n");
    append_roff(out, summary);
    g_string_append_c(out, '\n');
}

static void roff_params(GString *out, const EchParam *params)
{
    for (; params && params->name; params++) {
        g_string_append(out, ".br\n\\fI");
        append_roff(out, params->name);
        g_string_append(out, "\\fR");
        if (params->def && *params->def) {
            g_string_append(out, " (");
            append_roff(out, params->def);
            g_string_append(out, ")");
        }
        g_string_append(out, ": ");
        append_roff(out, params->doc ? params->doc : "");
        g_string_append_c(out, '\n');
    }
}

#define KEY(name, doc, example) {name, doc, example},
static const struct {
    const char *name, *doc, *example;
} keys[] = {
#include "sim/experiment/keys.def"
};
#undef KEY

static const char paths_help[] =
    "What --set, set and sweep name is one of these keys but set, sweep and find, replay.OPTION, matmul.OPTION, or a number of the device: "
    "device.memories.hbm.capacity, "
    "device.links.host.to_device, device.units.matrix.clock ... ('echelon list devices tpu-v5e --sources' shows all of one). A value is a text, or xNUMBER.";
static const char example_help[] = "title: What would a GPT step gain from a faster link?\ntrace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep:\n"
                                   "  - name: host link\n    path: [device.links.host.to_device, device.links.host.from_device]\n    values: [x0.5, x1, x2]\n"
                                   "  - {name: fetched ahead, path: passes, values: [\"\", \"prefetch:depth=1\"], labels: [as compiled, an iteration]}\n";

GString *ech_cli_experiment_help(void)
{
    unsigned columns = ech_cli_columns();
    GString *out = g_string_new(NULL);
    ech_text_wrap(out, "",
                  "An experiment is a YAML file, for 'echelon run FILE.yaml'; 'echelon list experiments' names those that are shipped. Its keys, all of which "
                  "but trace and device may be left out:",
                  columns);
    g_string_append_c(out, '\n');
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        g_autofree char *first = g_strdup_printf("  %-16s ", keys[i].name);
        ech_text_wrap(out, first, keys[i].doc, columns);
        if (*keys[i].example)
            ech_text_wrap(out, "                     ", keys[i].example, columns);
    }
    g_string_append(out, "\n  replay: {OPTION: VALUE}, or --set replay.OPTION=VALUE\n");
    ech_cli_params(out, ech_replay_params);
    g_string_append(out, "\n  matmul: {OPTION: VALUE}\n");
    ech_cli_params(out, ech_product_params);
    g_string_append_c(out, '\n');
    ech_text_wrap(out, "", paths_help, columns);
    g_string_append_printf(out, "\nFor example:\n\n%s", example_help);
    return out;
}

static const char device_head[] =
    "A device file is YAML, for --device FILE.yaml and for 'device:' in an experiment. 'base: h100-sxm' takes all that the file does not say from another one "
    "('echelon list devices'), and a file with a base need not say more than what differs. Without one it says: name, family (tpu, gpu or other), memories "
    "(one of "
    "them called hbm), links, units; if you like summary, compiler (whose rules hold: v5e, h100), cores, products (what captures call it), and kernel, "
    "runtime, "
    "layout, dram: numbers of the models, and mig: what a GPU is cut into (h100-sxm:3g.40gb is such a part), of which 'echelon list devices NAME --sources' "
    "shows those of another device. Some have a default that no file "
    "lists: of programs captured under "
    "--pretend, runtime.kernel_gap_ps lies between a kernel's end and the next of its stream (1.25us, of recorded H100s); runtime.eager_operator_ps is what "
    "PyTorch's host takes for each operator and node of gradients (4.8us, with runtime.submit_ps, 3.52us, for a launch, in a virtual machine with an H200; 6.2 "
    "and 4.53us with an H100), or runtime.eager_launch_ps for a launch and all that leads to it (15us where a capture tells no operators); of a program in "
    "CUDA "
    "C++ runtime.submit_ps (4.57us) is all; runtime.driver.peer_share is what copies between devices that no link joins get of the "
    "host link (1; 0.69 of GeForces, which the driver keeps from one another: 1 is that of a driver changed to let them); runtime.processor_rate what "
    "operators on the host read and write a second at most, by "
    "all their threads (69GB/s, of 16 processors of an "
    "H200's virtual machine); runtime.disk_read and runtime.disk_write what its disk gives and takes, where memories.host.capacity has no room for its page "
    "cache (3GB/s, 1GB/s).";
static const char device_values[] =
    "A number stands as it is, or as {value: 53.7GB/s, source: \"measured: ...\"}; 'source:' of a section holds for its numbers that have none; without either "
    "it is "
    "'assumed'. Sizes: kB, MB, GB, TB (of 1000), KiB, MiB, GiB, TiB, or K, M, G, T (of 1024). Bandwidths: MB/s, GB/s, TB/s, GiB/s, or bits: Gbit/s, Gb/s, "
    "Gbps, GbE (an "
    "eighth in bytes). Times: ps, ns, us, ms, s. Peaks: TFLOP/s, TFLOPS, TOP/s; clocks: MHz, GHz. --set device.PATH=VALUE changes any of them for one run "
    "(device.links.host.to_device=25GB/s, or x0.5).";
static const char device_example[] =
    "base: h100-sxm\nname: our-h100\nmemories: {hbm: {capacity: 94GiB}}\nlinks:\n"
    "  host:\n    to_device: {value: 25GB/s, source: \"measured: bandwidthTest\"}\n    from_device: 26GB/s\n    both_ways: 42GB/s\n";

static void text_device_key(const char *section, const EchDeviceKey *key, void *data)
{
    GString *out = data;
    g_autofree char *line = key ? g_strdup_printf("%s=%s  %s", key->name, key->takes, key->doc) : NULL;
    if (line)
        ech_cli_row(out, line);
    else
        g_string_append_printf(out, "\n  %s\n", section);
}

GString *ech_cli_device_help(void)
{
    unsigned columns = ech_cli_columns();
    GString *out = g_string_new(NULL);
    ech_text_wrap(out, "", device_head, columns);
    ech_device_keys(text_device_key, out);
    g_string_append_c(out, '\n');
    ech_text_wrap(out, "", device_values, columns);
    g_string_append_printf(out, "\nFor example:\n\n%s", device_example);
    return out;
}

static void roff_device_key(const char *section, const EchDeviceKey *key, void *data)
{
    GString *out = data;
    if (!key) {
        roff_row(out, section, "");
        return;
    }
    g_string_append(out, ".br\n\\fI");
    append_roff(out, key->name);
    g_string_append(out, "\\fR (");
    append_roff(out, key->takes);
    g_string_append(out, "): ");
    append_roff(out, key->doc);
    g_string_append_c(out, '\n');
}

static void roff_devices(GString *out)
{
    g_string_append(out, "\n.SH DEVICE FILES\n");
    append_roff(out, device_head);
    g_string_append_c(out, '\n');
    ech_device_keys(roff_device_key, out);
    g_string_append(out, ".PP\n");
    append_roff(out, device_values);
}

/* A row without commands begins a group. */
#define ECH_QUESTIONS(group) {group, NULL, NULL},
#define ECH_QUESTION(question, commands, note) {question, commands, note},
static const struct {
    const char *text, *commands, *note;
} questions[] = {
#include "sim/cli/questions.def"
};
#undef ECH_QUESTIONS
#undef ECH_QUESTION

/* All that is said of a question, its commands too unless only @words count, in small letters, and of a group nothing. Owned by the caller. */
static char *text_of(size_t row, bool words)
{
    g_autofree char *all =
        questions[row].commands ? g_strjoin(" ", questions[row].text, questions[row].note, words ? NULL : questions[row].commands, NULL) : g_strdup("");
    return g_ascii_strdown(all, -1);
}

/* What people say of what these questions call otherwise. */
static const char *const other_words[][2] = {{"4bit", "qlora"},
                                             {"4-bit", "qlora"},
                                             {"anonymous", "anonymize"},
                                             {"checkpoint", "remat"},
                                             {"dataloader", "data loader"},
                                             {"decode", "token"},
                                             {"defrag", "fragmentation"},
                                             {"defragment", "fragmentation"},
                                             {"oom", "out of memory"},
                                             {"paging", "spilled"},
                                             {"quantization", "qlora"},
                                             {"quantized", "qlora"},
                                             {"recompute", "remat"},
                                             {"rematerialization", "remat"},
                                             {"serving", "server"},
                                             {"share", "anonymize"},
                                             {"sharing", "anonymize"},
                                             {"swap", "spilled"},
                                             {"swapping", "spilled"},
                                             {"throughput", "per second"},
                                             {"tp", "tensor parallel"},
                                             {"vram", "memory"}};

/* Whether @all, in small letters, has @word: as it is, without the s of many, or by another word for it. */
static bool has_word(const char *all, const char *word)
{
    size_t n = strlen(word);
    g_autofree char *single = n > 4 && word[n - 1] == 's' ? g_strndup(word, n - 1) : NULL;
    if (strstr(all, word) || (single && strstr(all, single)))
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(other_words); i++) {
        if (strcmp(word, other_words[i][0]) == 0 && strstr(all, other_words[i][1]))
            return true;
    }
    return false;
}

/* Which questions are shown: those that have so many of the words; 0: none. */
typedef struct {
    guint wanted;
    bool some;   /* Not all of the words: those with three letters and more count. */
    bool worded; /* In question or note: most commands have them (--device). */
} Search;

/* How many of @words a question has. */
static guint words_in(size_t row, char *const *words, const Search *search)
{
    guint n = 0;
    g_autofree char *all = text_of(row, search->worded);
    for (; *words; words++) {
        g_autofree char *word = g_ascii_strdown(*words, -1);
        n += has_word(all, word) && (!search->some || strlen(word) >= 3);
    }
    return n;
}

/* How many questions have all of @words. */
static guint having_all(char *const *words, bool worded)
{
    const Search search = {.worded = worded};
    guint all = g_strv_length((char **)(uintptr_t)words), n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++)
        n += questions[i].commands && words_in(i, words, &search) == all;
    return n;
}

/* Those that have all of @words, or else the most that any has, where few have so many. */
static Search search_for(char *const *words)
{
    enum { MOST_SHOWN = 8 };
    Search search = {.wanted = g_strv_length((char **)(uintptr_t)words)};
    guint having = having_all(words, false), all = search.wanted, most = 0, shown = 0;
    search.worded = all > 0 && having_all(words, true) > 0;
    if (having > 0)
        return search;
    search.some = true;
    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++) {
        guint n = questions[i].commands ? words_in(i, words, &search) : 0;
        shown = n > most ? 1 : shown + (n == most);
        most = MAX(most, n);
    }
    search.wanted = most > 0 && all > 1 && 2 * most >= all && shown <= MOST_SHOWN ? most : 0;
    return search;
}

char *ech_cli_questions_lack(char *const *words)
{
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++)
        g_ptr_array_add(texts, text_of(i, false));
    g_ptr_array_add(texts, NULL);
    g_autofree char *all = g_strjoinv(" ", (char **)texts->pdata);
    for (; *words; words++) {
        g_autofree char *word = g_ascii_strdown(*words, -1);
        if (has_word(all, word))
            continue;
        g_auto(GStrv) known = g_strsplit_set(all, " \n\"'`,.:;?!()[]{}<>|=/", -1);
        const char *nearest = ech_nearest_name(word, (const char *const *)known);
        return g_strdup_printf("none has '%s'%s%s%s", *words, nearest ? "; did you mean '" : ";", nearest ? nearest : "", nearest ? "'?" : "");
    }
    return g_strdup("each of these words is in some, none has them all;");
}

GString *ech_cli_questions_help(char *const *words)
{
    unsigned columns = ech_cli_columns();
    g_autoptr(GString) out = g_string_new(NULL);
    const char *group = NULL;
    const Search search = search_for(words);
    if (search.some && search.wanted == 0)
        return NULL;
    if (search.some)
        g_string_append(out, "(None has all of these words; these have most.)\n");
    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++) {
        if (!questions[i].commands) {
            group = questions[i].text;
            continue;
        }
        if (words_in(i, words, &search) < search.wanted)
            continue;
        if (group)
            g_string_append_printf(out, "%s%s\n", out->len ? "\n" : "", group);
        group = NULL;
        g_string_append_c(out, '\n');
        ech_text_wrap(out, "  ", questions[i].text, columns);
        g_auto(GStrv) lines = g_strsplit(questions[i].commands, "\n", -1);
        for (char **line = lines; *line; line++)
            g_string_append_printf(out, "      %s\n", *line); /* never broken, to be copied */
        g_autofree char *note = g_strdup_printf("(%s)", questions[i].note);
        if (*questions[i].note)
            ech_text_wrap(out, "    ", note, columns);
    }
    return g_steal_pointer(&out);
}

GString *ech_cli_manual(void)
{
    GString *out = g_string_new(".TH ECHELON 1 \"\" \"echelon " ECH_VERSION
                                "\" \"User Commands\"\n.SH NAME\nechelon \\- what\\-if simulator of accelerator memory hierarchies\n.SH SYNOPSIS\n");
    size_t n;
    const EchVerb *verbs = ech_verbs(&n);
    for (size_t i = 0; i < n; i++) {
        g_string_append_printf(out, "%s\\fBechelon %s\\fR ", i ? ".br\n" : "", verbs[i].name);
        append_roff(out, verbs[i].usage);
        g_string_append_c(out, '\n');
    }
    g_string_append(out, ".SH DESCRIPTION\nReplays captured programs (JAX/XLA, PyTorch, CUDA) on a model of accelerator memory: would it fit, how fast would "
                         "it be, and where would the bytes and the time go, "
                         "if the memory, the link, the allocator, the layout, the prefetching or the offloading were different?\n");
    for (size_t i = 0; i < n; i++) {
        g_string_append(out, ".SH ");
        g_autofree char *upper = g_ascii_strup(verbs[i].name, -1);
        g_string_append_printf(out, "%s\n", upper);
        append_roff(out, verbs[i].summary);
        g_string_append(out, ".\n");
        options_of(&verbs[i], roff_options, out);
        g_string_append(out, ".PP\nFor example:\n.PP\n.nf\n");
        g_auto(GStrv) lines = g_strsplit(verbs[i].examples, "\n", -1);
        for (char **line = lines; *line; line++) {
            append_roff(out, *line);
            g_string_append_c(out, '\n');
        }
        g_string_append(out, ".fi\n");
    }
    g_string_append(out, ".SH QUESTIONS\n");
    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++) {
        if (!questions[i].commands) {
            g_string_append(out, ".SS ");
            append_roff(out, questions[i].text);
            g_string_append_c(out, '\n');
            continue;
        }
        g_string_append(out, ".PP\n");
        append_roff(out, questions[i].text);
        g_string_append(out, "\n.RS\n.nf\n");
        g_auto(GStrv) lines = g_strsplit(questions[i].commands, "\n", -1);
        for (char **line = lines; *line; line++) {
            append_roff(out, *line);
            g_string_append_c(out, '\n');
        }
        g_string_append(out, ".fi\n");
        append_roff(out, questions[i].note);
        g_string_append(out, *questions[i].note ? "\n.RE\n" : ".RE\n");
    }
    g_string_append(out, ".SH PASSES\n");
    const EchPassClass *const *passes = ech_pass_classes(&n);
    for (size_t i = 0; i < n; i++) {
        roff_row(out, passes[i]->name, passes[i]->summary);
        roff_params(out, passes[i]->params);
    }
    g_string_append(out, ".SH EXPERIMENTS\nFiles in YAML, for echelon run. Keys:\n");
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        roff_row(out, keys[i].name, keys[i].doc);
        if (*keys[i].example)
            roff_row(out, "", keys[i].example);
    }
    roff_row(out, "replay", "its options:");
    roff_params(out, ech_replay_params);
    roff_row(out, "matmul", "its options:");
    roff_params(out, ech_product_params);
    g_string_append(out, ".PP\n");
    append_roff(out, paths_help);
    roff_devices(out);
    g_string_append(out, "\n.SH EXIT STATUS\n");
    roff_row(out, "0", "done");
    roff_row(out, "1", "failed");
    roff_row(out, "2", "wrong usage");
    roff_row(out, "3", ECH_CLI_DOES_NOT_FIT);
    roff_row(out, "130, 143",
             "interrupted by SIGINT or SIGTERM: sweeps, searches, advise, alloc and plan have told by then what they had, marked as interrupted");
    g_string_append(out, ".SH ENVIRONMENT\n");
    roff_row(out, "ECHELON_DEVICES", "folder in which device files are looked for first");
    roff_row(out, "ECHELON_TRACES", "folder in which traces named in experiments are looked for first");
    roff_row(out, "COLUMNS", "columns that tables and sentences may take (default: the terminal's; without one, sentences are not broken and names are whole)");
    return out;
}

static void words_of(const GOptionEntry *entries, void *data)
{
    GString *words = data;
    for (; entries->long_name; entries++) {
        if (*entries->long_name && !(entries->flags & G_OPTION_FLAG_HIDDEN))
            g_string_append_printf(words, "%s--%s", words->len ? " " : "", entries->long_name);
    }
}

/* What follows an option or a verb: a command that lists it. */
static const char list_kinds[] = "devices allocators planners passes formats writers engines experiments";

#define LIST_EXPERIMENTS "echelon list experiments 2>/dev/null | awk '{print $1}'"

static GString *bash_completion(void)
{
    GString *out = g_string_new("# bash completion for echelon; written by echelon --print-completion bash\n_echelon()\n{\n    local "
                                "word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=\n"
                                "    case $before in\n    --device|-d) words=$(echelon list devices 2>/dev/null | awk '/^  [^ ]/{print $1}') ;;\n    "
                                "--allocator|-a|--host-allocator) words=$(echelon list allocators 2>/dev/null | awk '/^  [^ ]/{print $1}') ;;\n"
                                "    --planner) words=$(echelon list planners 2>/dev/null | awk '/^  [^ ]/{print $1}') ;;\n    --pass|-p) words=$(echelon list "
                                "passes 2>/dev/null | awk '/^  [^ ]/{print $1}') ;;\n"
                                "    --format|-f) words=$(echelon list formats 2>/dev/null | awk '/^  [^ ]/{print $1}') ;;\n    --engine|-e) words='auto "
                                "native simgrid cuda' ;;\n    esac\n"
                                "    if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); return; fi\n"
                                "    if [ \"$COMP_CWORD\" = 1 ]; then COMPREPLY=($(compgen -W '");
    size_t n;
    const EchVerb *verbs = ech_verbs(&n);
    for (size_t i = 0; i < n; i++)
        g_string_append_printf(out, "%s ", verbs[i].name);
    g_string_append(out, "help' -- \"$word\")); return; fi\n    case $verb in\n");
    for (size_t i = 0; i < n; i++) {
        g_autoptr(GString) words = g_string_new(NULL);
        options_of(&verbs[i], words_of, words);
        bool lists = strcmp(verbs[i].name, "list") == 0, runs = strcmp(verbs[i].name, "run") == 0;
        g_string_append_printf(out, "    %s) words=\"%s%s%s\" ;;\n", verbs[i].name, words->str, lists || runs ? " " : "",
                               lists  ? list_kinds
                               : runs ? "$(" LIST_EXPERIMENTS ")"
                                      : "");
    }
    g_string_append(out, "    help) words='");
    for (size_t i = 0; i < n; i++)
        g_string_append_printf(out, "%s%s", i ? " " : "", verbs[i].name);
    g_string_append(out, " experiment device questions' ;;\n    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n    case $word in -*) ;; *) "
                         "COMPREPLY+=($(compgen -f -- "
                         "\"$word\")) ;; esac\n}\ncomplete -o filenames -F _echelon echelon\n");
    return out;
}

GString *ech_cli_completion(const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        return bash_completion();
    if (strcmp(shell, "zsh") == 0) {
        g_autoptr(GString) bash = bash_completion();
        GString *out = g_string_new(
            "#compdef echelon\n# zsh completion for echelon; written by echelon --print-completion zsh\nautoload -U +X bashcompinit && bashcompinit\n");
        g_string_append(out, bash->str);
        return out;
    }
    if (strcmp(shell, "fish") != 0)
        return NULL;
    GString *out = g_string_new("# fish completion for echelon; written by echelon --print-completion fish\n");
    size_t n;
    const EchVerb *verbs = ech_verbs(&n);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *summary = g_strescape(verbs[i].summary, NULL);
        g_string_append_printf(out, "complete -c echelon -n __fish_use_subcommand -a %s -d \"%s\"\n", verbs[i].name, summary);
        g_autoptr(GString) words = g_string_new(NULL);
        options_of(&verbs[i], words_of, words);
        g_auto(GStrv) options = g_strsplit(words->str, " ", -1);
        for (char **option = options; *option; option++) {
            if (g_str_has_prefix(*option, "--"))
                g_string_append_printf(out, "complete -c echelon -n '__fish_seen_subcommand_from %s' -l %s\n", verbs[i].name, *option + 2);
        }
    }
    g_string_append_printf(out, "complete -c echelon -n '__fish_seen_subcommand_from list' -a '%s'\n", list_kinds);
    g_string_append(
        out, "complete -c echelon -n '__fish_seen_subcommand_from run' -a '(echelon list experiments 2>/dev/null | string trim | string split -f1 \" \")'\n");
    return out;
}
