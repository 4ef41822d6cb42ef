/* echelon capture: runs a CUDA program with our CUPTI library injected, and says what it left. */
#include "sim/base/error.h"
#include "sim/base/modules.h"
#include "sim/cli/cli.h"
#include "sim/replay/cuda_driver.h"

#include <dlfcn.h>
#include <gio/gio.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

int ech_verb_capture(int argc, char **argv);

/* Where CUPTI lies, for programs beside whose own libraries the capture library finds none. */
static char *find_cupti(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", NULL};
    g_autofree char *why = NULL;
    void *library = ech_cuda_open_library(names, &why);
    struct link_map *map = NULL;
    return library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? g_strdup(map->l_name) : NULL;
}

static int run_command(char **command, const char *library, const char *out)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_STDIN_INHERIT);
    g_subprocess_launcher_setenv(launcher, "CUDA_INJECTION64_PATH", library, TRUE);
    g_subprocess_launcher_setenv(launcher, "NVTX_INJECTION64_PATH", library, FALSE); /* Without it there are no ranges */
    g_subprocess_launcher_setenv(launcher, "ECHELON_CAPTURE_OUT", out, TRUE);
    g_autofree char *cupti = find_cupti();
    if (cupti)
        g_subprocess_launcher_setenv(launcher, "ECHELON_LIBCUPTI_ELSE", cupti, TRUE);
    g_autoptr(GSubprocess) child = g_subprocess_launcher_spawnv(launcher, (const char *const *)command, &error);
    if (!child) {
        fprintf(stderr, "echelon capture: %s\n", error->message);
        return ECH_EXIT_FAILED;
    }
    signal(SIGINT, SIG_IGN); /* Ctrl-C is the command's; we wait for its capture to be written */
    if (!g_subprocess_wait(child, NULL, &error)) {
        fprintf(stderr, "echelon capture: %s\n", error->message);
        return ECH_EXIT_FAILED;
    }
    if (g_subprocess_get_if_signaled(child)) {
        fprintf(stderr, "echelon capture: the command ended by signal %d\n", g_subprocess_get_term_sig(child));
        return ECH_EXIT_FAILED;
    }
    return g_subprocess_get_exit_status(child);
}

/* Lists the captures that appeared. */
static unsigned list_captures(const char *prefix)
{
    g_autofree char *folder = g_path_get_dirname(prefix);
    g_autofree char *base = g_path_get_basename(prefix);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    unsigned n = 0;
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        if (!g_str_has_prefix(name, base) || !g_str_has_suffix(name, ".capture"))
            continue;
        g_autofree char *path = g_build_filename(folder, name, NULL);
        fprintf(stderr, "echelon capture: wrote %s; now: echelon info %s\n", path, path);
        n++;
    }
    return n;
}

int ech_verb_capture(int argc, char **argv)
{
    g_autofree char *out = NULL;
    g_auto(GStrv) rest = NULL;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &out, "prefix of the captures, one file a process (default: echelon)", "PREFIX"},
        G_OPTION_ENTRY_NULL,
    };
    /* Options end at "--" or at the first word of the command; what follows is the command's own. */
    int mine = 1;
    while (mine < argc && argv[mine][0] == '-' && strcmp(argv[mine], "--") != 0)
        mine += strcmp(argv[mine], "-o") == 0 || strcmp(argv[mine], "--output") == 0 ? 2 : 1;
    mine = MIN(mine, argc);
    if (!ech_cli_options(mine, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    char **command = argv + mine + (mine < argc && strcmp(argv[mine], "--") == 0);
    if (!*command) {
        fprintf(stderr, "echelon capture: no command; expected echelon capture [-o PREFIX] -- COMMAND\n");
        return ECH_EXIT_USAGE;
    }
    GError *error = NULL;
    if (!ech_cuda_driver(&error))
        return ech_cli_fail(error);
    g_autoptr(GString) tried = g_string_new(NULL);
    g_autofree char *library = ech_module_find("libechelon_capture.so", tried);
    if (!library)
        return ech_cli_fail(g_error_new(ECH_ERROR, ECH_ERROR_BACKEND, "the capture library is missing: %s", tried->str));
    g_autofree char *prefix = g_canonicalize_filename(out ? out : "echelon", NULL);
    g_autofree char *pattern = g_strconcat(prefix, ".%p.capture", NULL);
    int code = run_command(command, library, pattern);
    if (list_captures(prefix) == 0)
        fprintf(stderr, "echelon capture: nothing was captured; the command used no CUDA, or CUPTI refused (see above)\n");
    return code;
}
