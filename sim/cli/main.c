/* echelon: finds the verb and runs it. */
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"

#include "sim/base/param.h"
#include "sim/import/import.h"
#include "sim/report/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void reading(uint64_t done, uint64_t total)
{
    ech_cli_progress("reading", done, total);
}

/* Started without a standard stream, no file of ours may come to stand in its place: what is read there or written fails as if it were closed. */
static void hold_standard_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            break; /* no /dev/null: there is no better place */
    }
}

/* 'help TOPIC [WORD]...': the exit code, or -1 where @name is no topic. */
static int help_topic(const char *name, char *const *words)
{
    bool questions = g_str_has_prefix(name, "question");
    g_autoptr(GString) out = questions                              ? ech_cli_questions_help(words)
                             : g_str_has_prefix(name, "experiment") ? ech_cli_experiment_help()
                             : g_str_has_prefix(name, "device")     ? ech_cli_device_help()
                                                                    : NULL;
    if (out) {
        ech_cli_print(out->str);
        return ECH_EXIT_DONE;
    }
    if (!questions)
        return -1;
    g_autofree char *lack = ech_cli_questions_lack(words);
    fprintf(stderr, "echelon help questions: %s 'echelon help questions' shows all\n", lack);
    return ECH_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    ech_interrupt_cut_files();
    ech_interrupt_full_files();
    ech_interrupt_no_memory();
    ech_import_set_progress(reading);
    size_t n;
    const EchVerb *verbs = ech_verbs(&n);
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
        ech_cli_print("echelon " ECH_VERSION "\n");
        return ECH_EXIT_DONE;
    }
    if (strcmp(name, "--print-man") == 0 && argc == 2) {
        g_autoptr(GString) page = ech_cli_manual();
        ech_cli_print(page->str);
        return ECH_EXIT_DONE;
    }
    if (strcmp(name, "--print-completion") == 0) {
        g_autoptr(GString) script = argc == 3 ? ech_cli_completion(argv[2]) : NULL;
        if (!script) {
            fprintf(stderr, "echelon --print-completion: expected bash, zsh or fish\n");
            return ECH_EXIT_USAGE;
        }
        ech_cli_print(script->str);
        return ECH_EXIT_DONE;
    }
    bool help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (help && argc > 2) {
        name = argv[2];
        int code = help_topic(name, argv + 3);
        if (code >= 0)
            return code;
        for (size_t i = 0; i < n; i++) {
            if (strcmp(verbs[i].name, name) == 0) {
                char *args[] = {argv[2], (char[]){"--help"}, NULL};
                return verbs[i].run(2, args);
            }
        }
    } else if (help) {
        g_autoptr(GString) out = g_string_new(NULL);
        unsigned columns = ech_cli_columns();
        ech_text_wrap(out, "", "echelon: what would it cost in bytes and time, if the memory, the link or the allocator were different?", columns);
        g_string_append(out, "\nusage: echelon VERB ...\n\n");
        for (size_t i = 0; i < n; i++) {
            g_autofree char *first = g_strdup_printf("  %-10s ", verbs[i].name);
            ech_text_wrap(out, first, verbs[i].summary, columns);
        }
        g_string_append_c(out, '\n');
        ech_text_wrap(out, "",
                      "'echelon help VERB' tells the options of one, with examples; 'echelon help questions [WORD]...' which command answers what; 'echelon "
                      "help experiment' what an experiment's file says, 'echelon help device' a device's; 'echelon run tutorial' is one to begin with.",
                      columns);
        ech_text_wrap(out, "", "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 " ECH_CLI_DOES_NOT_FIT ".", columns);
        ech_text_wrap(out, "", "--print-man and --print-completion bash|zsh|fish print the manual and completions.", columns);
        ech_cli_print(out->str);
        return argc > 1 ? ECH_EXIT_DONE : ECH_EXIT_USAGE;
    } else {
        for (size_t i = 0; i < n; i++) {
            if (strcmp(verbs[i].name, name) == 0)
                return verbs[i].run(argc - 1, argv + 1);
        }
    }
    g_autofree const char **names = g_new0(const char *, n + 5);
    for (size_t i = 0; i < n; i++)
        names[i] = verbs[i].name;
    names[n] = "help";
    if (help) {
        names[n + 1] = "questions";
        names[n + 2] = "experiment";
        names[n + 3] = "device";
    }
    const char *nearest = ech_nearest_name(name, names);
    if (!nearest && g_file_test(name, G_FILE_TEST_EXISTS)) {
        fprintf(stderr, "echelon: '%s' is a file, not a verb; 'echelon info %s' says what is in it, 'echelon help' lists the verbs\n", name, name);
        return ECH_EXIT_USAGE;
    }
    fprintf(stderr, "echelon: '%s' is no verb; %s%s%s'echelon help' lists them\n", name, nearest ? "did you mean '" : "", nearest ? nearest : "",
            nearest ? "'? " : "");
    return ECH_EXIT_USAGE;
}
