/* echelon capture: runs a CUDA program with our CUPTI library injected, or with a GPU that is not there, and says what it left. */
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/base/modules.h"
#include "sim/base/units.h"
#include "sim/cli/capture_find.h"
#include "sim/cli/cli.h"
#include "sim/cli/descendants.h"
#include "sim/experiment/torch_measures.h"
#include "sim/replay/cuda_driver.h"
#include "sim/replay/replay.h"
#include "sim/trace/ranges.h"

#include <dlfcn.h>
#include <errno.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <limits.h>
#include <link.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
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

static volatile sig_atomic_t command_pids[ECH_MAX_RANKS], n_commands, interrupted;

/* Ctrl-C is the command's; we wait for its capture to be written. */
static void note(int number)
{
    interrupted = number;
}

/* `timeout echelon capture ...`, or a terminal that closes, ends the command, whose capture we wait for. */
static void pass_on(int number)
{
    interrupted = number;
    for (int i = 0; i < n_commands; i++)
        if (command_pids[i] > 0)
            kill(command_pids[i], number);
}

/* How many processes the kernel has ended for want of memory since it started; UINT64_MAX: it does not tell. */
static uint64_t ended_for_memory(void)
{
    static const char key[] = "\noom_kill ";
    g_autofree char *text = NULL;
    const char *at = g_file_get_contents("/proc/vmstat", &text, NULL, NULL) ? strstr(text, key) : NULL;
    return at ? g_ascii_strtoull(at + strlen(key), NULL, 10) : UINT64_MAX;
}

/* What SIGKILL says. @before: ended_for_memory() when the command began. */
static const char *killed(uint64_t before)
{
    if (before != UINT64_MAX && ended_for_memory() == before)
        return ": not by the kernel for want of the host's memory, of which it has counted nothing meanwhile, but by another program or by itself, as "
               "servers do whose worker failed: what was printed above says why then";
    return ": the kernel ends so what takes more memory than this host has; weights can be made on the device from the start (with torch.device(\"cuda\")), "
           "where without a GPU they take none";
}

/* Waits for the command's end; its exit status, 128 and the signal's number where one ended it, as shells have it. @ended: ended_for_memory() when it began. */
static int wait_for(GSubprocess *child, uint64_t ended)
{
    g_autoptr(GError) error = NULL;
    if (!g_subprocess_wait(child, NULL, &error)) {
        fprintf(stderr, "echelon capture: %s\n", error->message);
        return ECH_EXIT_FAILED;
    }
    if (g_subprocess_get_if_signaled(child)) {
        int number = g_subprocess_get_term_sig(child);
        fprintf(stderr, "echelon capture: the command ended by signal %d%s\n", number, number == SIGKILL ? killed(ended) : "");
        return 128 + number;
    }
    return g_subprocess_get_exit_status(child);
}

/* Of SIGRTMAX, less: asks a process of the capture to write it and to end (traces/capture/pretend/record.c). */
enum { PRETEND_END_BELOW = 3 };

/* Runs the command with what @launcher sets, once for each of @ranks[n] (NULL: once); the first exit status that is not 0. What it began ends with it. */
static int run_commands(GSubprocessLauncher *launcher, char **command, const int *ranks, guint n)
{
    g_autoptr(GPtrArray) children = g_ptr_array_new_with_free_func(g_object_unref);
    uint64_t ended = ended_for_memory();
    int code = ECH_EXIT_DONE;
    n_commands = 0;
    signal(SIGINT, note);
    signal(SIGTERM, pass_on);
    if (signal(SIGHUP, pass_on) == SIG_IGN) /* nohup */
        signal(SIGHUP, SIG_IGN);
    g_autoptr(GArray) ours = ech_descendants_hold();
    for (guint i = 0; i < n && code == ECH_EXIT_DONE; i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *rank = ranks ? g_strdup_printf("%d", ranks[i]) : NULL;
        if (rank)
            g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_RANK", rank, TRUE);
        GSubprocess *child = g_subprocess_launcher_spawnv(launcher, (const char *const *)command, &error);
        if (!child) {
            fprintf(stderr, "echelon capture: %s\n", error->message);
            code = ECH_EXIT_FAILED;
            break;
        }
        g_ptr_array_add(children, child);
        const char *pid = g_subprocess_get_identifier(child);
        command_pids[i] = pid ? (sig_atomic_t)g_ascii_strtoll(pid, NULL, 10) : 0;
        n_commands = (sig_atomic_t)i + 1;
    }
    for (guint i = 0; i < children->len; i++) {
        int own = wait_for(children->pdata[i], ended);
        if (code == ECH_EXIT_DONE)
            code = own;
    }
    g_autofree char *left = ech_descendants_end(ours, SIGRTMAX - PRETEND_END_BELOW);
    if (left)
        fprintf(stderr, "echelon capture: ended what the command left running: %s\n", left);
    return code;
}

static int run_command(GSubprocessLauncher *launcher, char **command)
{
    return run_commands(launcher, command, NULL, 1);
}

/* A program's folder, in place of a suffix: PREFIX.PID.NAME. */
static const char a_folder[] = "/";
/* The folder of programs beside a PREFIX.PID.pretend is part of that. */
static const char of_a_run[] = ".programs";

/* Whether @name is BASE.PID@suffix. */
static bool is_capture(const char *name, const char *base, const char *suffix)
{
    if (!g_str_has_prefix(name, base) || name[strlen(base)] != '.')
        return false;
    const char *pid = name + strlen(base) + 1;
    size_t digits = strspn(pid, "0123456789");
    return digits > 0 && (suffix == a_folder ? pid[digits] == '.' && strcmp(pid + digits, of_a_run) != 0 : strcmp(pid + digits, suffix) == 0);
}

static int by_name(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The captures PREFIX.PID@suffix that there are: path -> what changes when it is written again, both strings of the table. */
static GHashTable *captures_at(const char *prefix, const char *suffix)
{
    g_autofree char *folder = g_path_get_dirname(prefix);
    g_autofree char *base = g_path_get_basename(prefix);
    g_autofree char *here = g_get_current_dir();
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    GHashTable *captures = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        GStatBuf status;
        if (is_capture(name, base, suffix) && g_stat(path, &status) == 0 && (suffix != a_folder || S_ISDIR(status.st_mode)))
            g_hash_table_replace(captures, strcmp(folder, here) == 0 ? g_strdup(name) : g_steal_pointer(&path),
                                 g_strdup_printf("%ju %jd.%09ld %jd", (uintmax_t)status.st_ino, (intmax_t)status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                                                 (intmax_t)status.st_size));
    }
    return captures;
}

/* The captures PREFIX.PID@suffix that are not in @earlier as they are now, sorted. No clock is asked: a file system's may lag behind, or be another machine's.
 */
static GPtrArray *captures_since(const char *prefix, const char *suffix, GHashTable *earlier)
{
    g_autoptr(GHashTable) captures = captures_at(prefix, suffix);
    GPtrArray *found = g_ptr_array_new_with_free_func(g_free);
    GHashTableIter each;
    gpointer path, version;
    for (g_hash_table_iter_init(&each, captures); g_hash_table_iter_next(&each, &path, &version);) {
        if (g_strcmp0(g_hash_table_lookup(earlier, path), version) != 0)
            g_ptr_array_add(found, g_strdup(path));
    }
    g_ptr_array_sort(found, by_name);
    return found;
}

/* Says of each what to go on with: "echelon @before FILE@after". */
static void tell_captures(const GPtrArray *captures, const char *before, const char *after)
{
    for (guint i = 0; i < captures->len; i++) {
        g_autofree char *word = ech_shell_word(captures->pdata[i]);
        fprintf(stderr, "echelon capture: wrote %s; now: echelon %s %s%s\n", (const char *)captures->pdata[i], before, word, after);
    }
}

static int capture(char **command, const char *prefix)
{
    GError *error = NULL;
    if (!ech_cuda_driver(&error)) {
        int code = ech_cli_fail(error);
        fprintf(stderr, "echelon capture: without a GPU: echelon capture --pretend DEVICE -- COMMAND ('echelon list devices')\n");
        return code;
    }
    g_autoptr(GString) tried = g_string_new(NULL);
    g_autofree char *library = ech_module_find("libechelon_capture.so", tried);
    if (!library)
        return ech_cli_fail(g_error_new(ECH_ERROR, ECH_ERROR_BACKEND, "the capture library is missing: %s", tried->str));
    g_autofree char *pattern = g_strconcat(prefix, ".%p.capture", NULL);
    g_autofree char *cupti = find_cupti();
    g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_STDIN_INHERIT);
    g_subprocess_launcher_setenv(launcher, "CUDA_INJECTION64_PATH", library, TRUE);
    g_subprocess_launcher_setenv(launcher, "NVTX_INJECTION64_PATH", library, FALSE); /* Without it there are no ranges */
    g_subprocess_launcher_setenv(launcher, "ECHELON_CAPTURE_OUT", pattern, TRUE);
    if (cupti)
        g_subprocess_launcher_setenv(launcher, "ECHELON_LIBCUPTI_ELSE", cupti, TRUE);
    g_autoptr(GHashTable) earlier = captures_at(prefix, ".capture");
    int code = run_command(launcher, command);
    g_autoptr(GPtrArray) written = captures_since(prefix, ".capture", earlier);
    tell_captures(written, "info", "");
    if (written->len == 0 && n_commands > 0)
        fprintf(stderr, "echelon capture: nothing was captured; the command used no CUDA, or CUPTI refused (see above)\n");
    return code;
}

/* ---- a GPU that is not there ---- */

static bool check_pretended(const EchDevice *device, GError **error)
{
    if (strcmp(device->family, "gpu") != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--pretend %s: that is neither a GPU nor a TPU that a compiler is for", device->name);
        return false;
    }
    if (ech_device_is_amd(device)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "--pretend %s: a GPU by AMD, whose driver and libraries are other ones; pretend an NVIDIA GPU, like h100-sxm, and replay that capture with "
                    "--device %s",
                    device->name, device->name);
        return false;
    }
    if (!ech_device_has_number(device, "kernel.compute_capability")) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "--pretend %s: its file gives no kernel.compute_capability, which libraries choose their kernels by; expected something like 9.0",
                    device->name);
        return false;
    }
    return true;
}

/* What libechelon_pretend.so is told (traces/capture/pretend/pretend.h). */
static char *pretended_settings(const EchDevice *device, unsigned gpus)
{
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM), *l2 = ech_device_memory_kind(device, ECH_MEM_CACHE);
    const EchUnit *vector = ech_device_unit(device, ECH_UNIT_VECTOR);
    const EchLink *nvlink = ech_device_link(device, "nvlink"), *host = ech_device_link(device, "host");
    long capability = lround(10 * ech_device_number(device, "kernel.compute_capability", 0));
    EchRate rate = hbm->nominal > 0 ? hbm->nominal : hbm->read; /* what programs make of it: 2 x clock x bus / 8 */
    g_autofree char *name = device->products && *device->products ? g_strdup(*device->products) : g_strdup_printf("NVIDIA %s", device->name);
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "id=%s;name=%s", g_strdelimit(device->name, ";\"", '_'), g_strdelimit(name, ";\"", '_'));
    g_string_append_printf(out, ";bytes=%" G_GUINT64_FORMAT ";context=%" G_GUINT64_FORMAT ";devices=%u;links=%u;staged=%d",
                           hbm->available ? hbm->available : hbm->capacity, ech_device_context(device), gpus, nvlink ? nvlink->ports : 0,
                           ech_device_peer_share(device) < 1);
    g_string_append_printf(out, ";major=%ld;minor=%ld;memory_bus_bits=5120;memory_clock_khz=%.0f", capability / 10, capability % 10,
                           (double)rate * 4 / 5120 / 1000);
    g_string_append_printf(out, ";shared=%.0f", ech_device_number(device, "kernel.sm_shared", 167936));
    if (vector)
        g_string_append_printf(out, ";multiprocessors=%u;clock_khz=%" G_GUINT64_FORMAT, vector->count * MAX(device->cores, 1u), vector->clock_hz / 1000);
    if (host)
        g_string_append_printf(out, ";host_rate=%" G_GUINT64_FORMAT, host->nominal > 0 ? host->nominal : host->to_device);
    if (l2)
        g_string_append_printf(out, ";l2=%" G_GUINT64_FORMAT, l2->capacity);
    return g_string_free(out, FALSE);
}

/* @first before what the variable holds already. */
static void put_before(GSubprocessLauncher *launcher, const char *variable, const char *first)
{
    const char *rest = g_getenv(variable);
    g_autofree char *value = rest && *rest ? g_strconcat(first, ":", rest, NULL) : g_strdup(first);
    g_subprocess_launcher_setenv(launcher, variable, value, TRUE);
}

/* Has @library loaded before all others, and lets programs find what lies in @folder. LD_PRELOAD takes no path with a space in it, but a name that
 * LD_LIBRARY_PATH leads to; neither takes one with a colon. */
static bool preload(GSubprocessLauncher *launcher, const char *library, const char *folder, GError **error)
{
    if (strpbrk(library, ":;")) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%s: the dynamic loader takes ':' and ';' for the end of a path; expected echelon elsewhere", library);
        return false;
    }
    bool spaced = strpbrk(library, " \t\n") != NULL;
    g_autofree char *name = g_path_get_basename(library), *beside = g_path_get_dirname(library), *folders = g_strconcat(folder, ":", beside, NULL);
    put_before(launcher, "LD_PRELOAD", spaced ? name : library);
    put_before(launcher, "LD_LIBRARY_PATH", spaced ? folders : folder);
    return true;
}

/* What is asked for; owns its texts. */
typedef struct {
    char **command; /* borrowed */
    char *out, *prefix;
    char *device;             /* that is pretended, or NULL */
    char **settings;          /* of it */
    int gpus;                 /* that a process sees; 0: not said, which is one, or as many as a machine of @world has */
    int world;                /* a process stands for one rank of so many; 0: processes are what they are */
    int ranks[ECH_MAX_RANKS]; /* ranks[n_ranks] that there are processes for, ascending */
    guint n_ranks;
    char *ranks_text; /* as given: "0,64,128" */
    char *with;       /* measures of PyTorch's, or NULL: torch_measures.h */
} Words;

static void words_clear(Words *w)
{
    g_free(w->out);
    g_free(w->prefix);
    g_free(w->device);
    g_strfreev(w->settings);
    g_free(w->ranks_text);
    g_free(w->with);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Words, words_clear)

/* Devices that a machine has: no maker's has more than eight on one link. */
enum { DEVICES_OF_A_MACHINE = 8, MAX_WORLD = 1 << 20, NOT_SAID = INT_MIN };

/* The number at @index, from 0 on, of "\nWORD NUMBER NUMBER ...". */
static uint64_t number_of_line(const char *line, unsigned index)
{
    const char *at = strchr(line, ' ');
    uint64_t number = 0;
    for (unsigned i = 0; at && *at == ' ' && i <= index; i++) {
        char *end;
        number = g_ascii_strtoull(at, &end, 10);
        at = end;
    }
    return number;
}

/* The end of a capture, of what a program still does when it ends, frees and copies by the thousand. Owned by the caller; "": there is none. */
static char *end_of(const char *path)
{
    enum { LAST = 4 << 20 }; /* bytes */
    g_autoptr(GMappedFile) file = g_mapped_file_new(path, FALSE, NULL);
    gsize n = file ? g_mapped_file_get_length(file) : 0, looked = MIN(n, (gsize)LAST);
    return looked == 0 ? g_strdup("") : g_strndup(g_mapped_file_get_contents(file) + (n - looked), looked); /* a text has no zeros */
}

/* What a server said of its cache and ended, which stands far above, behind what its processes print of where they were. Owned by the caller, or NULL. */
static char *no_room(const char *path)
{
    g_autofree char *last = end_of(path);
    const char *said = g_strrstr(last, "\"" ECH_MARK_NO_ROOM), *at = said ? said + 1 : NULL;
    return at ? g_strndup(at, strcspn(at, "\"\n")) : NULL;
}

/* Whether one of the last things that the program asked for was memory that was not there, nor once it had given back what it kept. */
static bool ran_out(const char *path)
{
    g_autofree char *last = end_of(path);
    const char *refused = g_strrstr(last, "\nrefused ");
    if (!refused)
        return false;
    uint64_t device = number_of_line(refused, 1), bytes = number_of_line(refused, 3);
    for (const char *alloc = strstr(refused, "\nalloc "); alloc; alloc = strstr(alloc + 1, "\nalloc "))
        if (number_of_line(alloc, 1) == device && number_of_line(alloc, 4) == bytes)
            return false;
    return true;
}

/* Whether it is a server that began to load its weights. */
static bool is_server(const char *path)
{
    g_autoptr(GMappedFile) file = g_mapped_file_new(path, FALSE, NULL);
    return file && g_strstr_len(g_mapped_file_get_contents(file), (gssize)g_mapped_file_get_length(file), "\"" ECH_MARK_LOADS "\"\n");
}

/* What is to be weighed of a run: XLA's program, to which more can be done than to what it asked for, where there is one; "NAME" of several. Owned by the
 * caller. */
static char *advised(const GPtrArray *programs, const char *prefix)
{
    if (programs->len != 1)
        return g_strdup(programs->len == 0 ? "pretend" : "NAME");
    g_autofree char *folder = g_path_get_basename(programs->pdata[0]), *base = g_path_get_basename(prefix);
    const char *name = strchr(folder + strlen(base) + 1, '.'); /* "BASE.PID.NAME" */
    return ech_shell_word(name + 1);
}

/* What whoever sees an out-of-memory error does next: other settings of the allocator, or the whole program where there is room, and then what would make it
 * fit. */
static void advise(const EchCaptured *captured, const char *prefix, const char *device, const char *options, char **command)
{
    g_autoptr(GString) again = g_string_new(NULL);
    for (char **argument = command; *argument; argument++) {
        g_autofree char *word = ech_shell_word(*argument);
        g_string_append_printf(again, " %s", word);
    }
    g_autofree char *folder = g_path_get_dirname(prefix), *here = g_get_current_dir();
    g_autofree char *base = g_path_get_basename(prefix), *out = ech_shell_word(strcmp(folder, here) == 0 ? base : prefix),
                    *file = ech_shell_word(captured->ran_out);
    g_autofree char *weighed = advised(captured->programs, prefix);
    bool serves = is_server(captured->ran_out);
    fprintf(stderr, "echelon capture: it ran out of memory; would another setting of the allocator have done? echelon alloc %s\n", file);
    fprintf(stderr, "echelon capture: all that it needs%s: echelon capture --pretend %s%s --set device.memories.hbm.capacity=1TiB -o %s.whole --%s\n",
            serves ? " (its KV cache takes what is left of that, and is told apart)" : "", device, options, out, again->str);
    fprintf(stderr, "echelon capture: then, what would make it fit: echelon advise --trace %s.whole.PID.%s%s\n", out, weighed, captured->as_run);
    if (serves && !strstr(options, " --gpus ") && !strstr(options, " --world "))
        fprintf(stderr, "echelon capture: or on two GPUs, with tensor_parallel_size=2: echelon capture --pretend %s%s --gpus 2 -o %s.two --%s\n", device,
                options, out, again->str);
}

/* A launcher of the command, whose input is ours, and so is what it prints unless that goes to the file @log. */
static GSubprocessLauncher *launcher_new(const char *log)
{
    GSubprocessLauncher *launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_STDIN_INHERIT | (log ? G_SUBPROCESS_FLAGS_STDERR_MERGE : 0));
    if (log)
        g_subprocess_launcher_set_stdout_file_path(launcher, log);
    return launcher;
}

/* JAX programs are compiled for TPUs that are not there (traces/capture/pretend/python/pretend_tpu.py), and PyTorch's run on them (pretend_torch_tpu.py). */
static bool run_on_tpu(const Words *w, const char *log, EchCaptured *ret, GError **error)
{
    const EchDevice *device = ret->device;
    g_autoptr(GString) tried = g_string_new(NULL);
    g_autofree char *hook = ech_module_find("pretend/python/pretend_tpu.py", tried);
    if (!hook) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "what the pretended TPU adds to Python is missing: %s", tried->str);
        return false;
    }
    g_autofree char *hooks = g_path_get_dirname(hook);
    g_autofree char *devices = g_strdup_printf("%d", MAX(w->gpus, 1));
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    g_autofree char *bytes = g_strdup_printf("%" G_GUINT64_FORMAT, hbm->available);
    g_autoptr(GSubprocessLauncher) launcher = launcher_new(log);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_TPU_OUT", w->prefix, TRUE);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_CHIP", device->compiler, TRUE);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_DEVICES", devices, TRUE);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_HBM", bytes, TRUE);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_NAME", device->name, TRUE);
    g_autofree char *plugin = ech_module_find("libechelon_pretend_tpu.so", NULL);
    if (plugin)
        g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_PLUGIN", plugin, TRUE);
    put_before(launcher, "PYTHONPATH", hooks);
    g_autoptr(GHashTable) earlier = captures_at(w->prefix, a_folder), earlier_runs = captures_at(w->prefix, ".pretend");
    ret->code = run_command(launcher, w->command);
    ret->programs = captures_since(w->prefix, a_folder, earlier);
    ret->runs = captures_since(w->prefix, ".pretend", earlier_runs); /* of torch_tpu and torch_xla */
    return true;
}

static bool run_on_gpu(const Words *w, const char *log, EchCaptured *ret, GError **error)
{
    const EchDevice *device = ret->device;
    g_autoptr(GString) tried = g_string_new(NULL);
    g_autofree char *library = ech_module_find("libechelon_pretend.so", tried);
    g_autofree char *driver = library ? ech_module_find("pretend/libcuda.so.1", tried) : NULL;
    if (!driver) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "the library of the pretended GPU is missing: %s", tried->str);
        return false;
    }
    g_autofree char *folder = g_path_get_dirname(driver);
    int gpus = w->gpus ? w->gpus : CLAMP(w->world, 1, DEVICES_OF_A_MACHINE);
    g_autofree char *numbers = pretended_settings(device, (unsigned)gpus);
    g_autofree char *pattern = g_strconcat(w->prefix, ".%p.pretend", NULL);
    g_autoptr(GSubprocessLauncher) launcher = launcher_new(log);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_DEVICE", numbers, TRUE);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_OUT", pattern, TRUE);
    g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_CHIP", *device->compiler ? device->compiler : device->name, TRUE);
    g_subprocess_launcher_setenv(launcher, "CUPY_CACHE_IN_MEMORY", "1", FALSE); /* machine code in its cache on disk has no PTX beside it */
    if (w->with)
        g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_WITH", w->with, TRUE);
    if (w->world > 0) {
        g_autofree char *world = g_strdup_printf("%d", w->world);
        g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_WORLD", world, TRUE);
        g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_RANKS", w->ranks_text, TRUE);
    }
    if (!preload(launcher, library, folder, error))
        return false;
    g_autofree char *programs_of_ours = g_build_filename(folder, "bin", NULL); /* nvidia-smi */
    put_before(launcher, "PATH", programs_of_ours);
    g_subprocess_launcher_setenv(launcher, "NVTX_INJECTION64_PATH", library, TRUE);
    g_autofree char *hook = ech_module_find("pretend/python/sitecustomize.py", NULL);
    g_autofree char *hooks = hook ? g_path_get_dirname(hook) : NULL;
    if (hooks)
        put_before(launcher, "PYTHONPATH", hooks);
    g_autoptr(GHashTable) earlier_programs = captures_at(w->prefix, a_folder), earlier = captures_at(w->prefix, ".pretend");
    ret->beside_others = g_hash_table_size(earlier) > 0;
    /* Where processes leave what they take of the devices, and ranks what they tell one another. */
    g_autofree char *meeting = g_dir_make_tmp("echelon-processes-XXXXXX", NULL);
    g_autofree char *taken = meeting ? g_build_filename(meeting, "taken", NULL) : NULL;
    if (taken && g_file_set_contents(taken, "", 0, NULL))
        g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_PROCESSES", taken, TRUE);
    if (meeting && w->n_ranks > 1)
        g_subprocess_launcher_setenv(launcher, "ECHELON_PRETEND_MEETING", meeting, TRUE);
    ret->code = run_commands(launcher, w->command, w->world > 0 ? w->ranks : NULL, w->world > 0 ? w->n_ranks : 1);
    if (meeting)
        ech_remove_tree(meeting);
    ret->programs = captures_since(w->prefix, a_folder, earlier_programs); /* of XLA */
    ret->runs = captures_since(w->prefix, ".pretend", earlier);
    for (guint i = 0; i < ret->runs->len && ret->code != ECH_EXIT_DONE && !ret->ran_out; i++)
        ret->ran_out = ran_out(ret->runs->pdata[i]) ? ret->runs->pdata[i] : NULL;
    return true;
}

static bool is_tpu(const EchDevice *device)
{
    return strcmp(device->family, "tpu") == 0 && *device->compiler && strcmp(device->compiler, "v1") != 0;
}

/* Loads the device, whose settings may stand below "device.", as `echelon run` has them, or not. */
static bool load_device(const Words *w, EchCaptured *ret, GError **error)
{
    g_autoptr(GStrvBuilder) own = g_strv_builder_new(), of_run = g_strv_builder_new();
    g_autoptr(GString) shown = g_string_new(NULL);
    for (char **setting = w->settings; setting && *setting; setting++) {
        const char *bare = *setting + (g_str_has_prefix(*setting, "device.") ? strlen("device.") : 0);
        g_autofree char *whole = g_strconcat("device.", bare, NULL), *word = ech_shell_word(whole);
        g_strv_builder_add(own, bare);
        g_strv_builder_add(of_run, whole);
        g_string_append_printf(shown, " --set %s", word);
    }
    g_auto(GStrv) settings = g_strv_builder_end(own);
    ret->device = ech_device_load(w->device, (const char *const *)settings, error);
    if (!ret->device)
        return false;
    ret->settings = g_strv_builder_end(of_run);
    ret->device_word = g_strdup(is_tpu(ret->device) ? ret->device->name : w->device);
    g_autofree char *word = ech_shell_word(ret->device_word);
    ret->set_words = g_strdup(shown->str);
    ret->as_run = g_strdup_printf(" --device %s%s", word, ret->set_words);
    return true;
}

/* Runs the command on the device that is not there. Nothing is run where that cannot be: ECH_ERROR_CONFIG, or another. */
static bool run_pretended(const Words *w, const char *log, EchCaptured *ret, GError **error)
{
    if (!load_device(w, ret, error))
        return false;
    bool tpu = is_tpu(ret->device);
    if (tpu && (w->settings || w->world > 0)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: the compiler of %s knows that chip as it is, and several of them by --gpus",
                    w->settings ? "--set" : "--world", ret->device->name);
        return false;
    }
    if (tpu && w->with) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--with %s: what PyTorch does on a GPU; %s is a TPU", w->with, ret->device->name);
        return false;
    }
    /* Chips are as many as the largest slice has, which the hook knows; GPUs as many as the pretended driver counts by
     * (PRETEND_DEVICES of traces/capture/pretend/pretend.h). */
    int most = tpu ? MAX_WORLD : 256;
    if (w->gpus > most) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--gpus %d: expected 1 to %d", w->gpus, most);
        return false;
    }
    bool ran = tpu ? run_on_tpu(w, log, ret, error) : check_pretended(ret->device, error) && run_on_gpu(w, log, ret, error);
    ret->interrupted = interrupted != 0;
    return ran;
}

/* Ranks of one program are replayed together. */
static void tell_ranks(const Words *w, const EchCaptured *captured)
{
    g_autoptr(GString) shown = g_string_new(NULL);
    for (guint i = 0; i < captured->runs->len && captured->beside_others; i++) { /* those of other runs are not theirs */
        g_autofree char *word_of = ech_shell_word(captured->runs->pdata[i]);
        g_string_append_printf(shown, " %s", word_of);
    }
    if (shown->len == 0) {
        g_autofree char *folder_of = g_path_get_dirname(w->prefix), *here = g_get_current_dir(), *base = g_path_get_basename(w->prefix),
                        *all = ech_shell_word(strcmp(folder_of, here) == 0 ? base : w->prefix);
        g_string_printf(shown, " %s.*.pretend", all);
    }
    fprintf(stderr, "echelon capture: ranks of one program wait for one another: echelon run --trace%s%s\n", shown->str, captured->as_run);
}

static int pretend(const Words *w)
{
    GError *error = NULL;
    g_auto(EchCaptured) captured = {0};
    if (!run_pretended(w, NULL, &captured, &error))
        return ech_cli_fail(error);
    bool tpu = is_tpu(captured.device);
    g_autofree char *word = ech_shell_word(captured.device_word);
    g_autoptr(GString) options = g_string_new(captured.set_words);
    if (w->gpus > 0)
        g_string_append_printf(options, " --gpus %d", w->gpus);
    if (w->world > 0)
        g_string_append_printf(options, " --world %d --rank %s", w->world, w->ranks_text);
    if (w->with) {
        g_autofree char *shown = ech_shell_word(w->with);
        g_string_append_printf(options, " --with %s", shown);
    }
    tell_captures(captured.programs, "run --trace", captured.as_run);
    tell_captures(captured.runs, "run --trace", captured.as_run);
    if (n_commands > 0 && captured.runs->len + (tpu ? captured.programs->len : 0) == 0)
        fprintf(stderr, "echelon capture: nothing was captured; %s\n",
                captured.interrupted ? "the command was ended before"
                : tpu                ? "the command called no function of jax.jit, and PyTorch on no TPU (torch_tpu, torch_xla)"
                                     : "no process of the command asked for a GPU");
    if (!tpu && captured.runs->len > 1 && captured.runs->len <= ECH_MAX_RANKS && captured.programs->len == 0)
        tell_ranks(w, &captured);
    for (guint i = 0; i < captured.runs->len && captured.code != ECH_EXIT_DONE; i++) {
        g_autofree char *said = no_room(captured.runs->pdata[i]);
        if (said)
            fprintf(stderr, "echelon capture: the %s\n", said);
    }
    if (captured.ran_out)
        advise(&captured, w->prefix, word, options->str, w->command);
    return captured.code;
}

/* ---- the words ---- */

/* "0,64,128" of --rank. */
static bool read_ranks(Words *w)
{
    g_auto(GStrv) words = g_strsplit(w->ranks_text, ",", -1);
    for (char **word = words; *word; word++) {
        uint64_t rank;
        if (!ech_parse_u64(*word, &rank, NULL) || rank >= (uint64_t)MAX(w->world, 0) || w->n_ranks == ECH_MAX_RANKS ||
            (w->n_ranks > 0 && (uint64_t)w->ranks[w->n_ranks - 1] >= rank))
            return false;
        w->ranks[w->n_ranks++] = (int)rank;
    }
    return w->n_ranks > 0;
}

/* The first word that is none of our options: "--" or the command's. */
static int own_words(int argc, char **argv)
{
    static const char *const valued[] = {"-o", "--output", "--pretend", "--gpus", "--world", "--rank", "-s", "--set", "--with", "--find", NULL};
    int mine = 1;
    while (mine < argc && argv[mine][0] == '-' && strcmp(argv[mine], "--") != 0)
        mine += g_strv_contains(valued, argv[mine]) ? 2 : 1;
    return MIN(mine, argc);
}

/* What goes together; says what does not. */
static bool check_words(Words *w, const char *ranks)
{
    const char *extra = w->settings            ? "--set"
                        : w->gpus != NOT_SAID  ? "--gpus"
                        : w->world != NOT_SAID ? "--world"
                        : ranks                ? "--rank"
                        : w->with              ? "--with"
                                               : NULL;
    if (!w->device && extra) {
        fprintf(stderr, "echelon capture: %s is for a device that is not there; expected --pretend DEVICE, too\n", extra);
        return false;
    }
    if (w->gpus != NOT_SAID && w->gpus < 1) {
        fprintf(stderr, "echelon capture: --gpus %d: expected 1 or more\n", w->gpus);
        return false;
    }
    if (w->world != NOT_SAID && (w->world < 1 || w->world > MAX_WORLD)) {
        fprintf(stderr, "echelon capture: --world %d: expected 1 to %d\n", w->world, MAX_WORLD);
        return false;
    }
    w->gpus = MAX(w->gpus, 0);
    w->world = MAX(w->world, 0);
    w->ranks_text = g_strdup(ranks ? ranks : "0");
    if ((w->world > 0 || ranks) && !read_ranks(w)) {
        fprintf(stderr, "echelon capture: --rank %s: %s\n", w->ranks_text,
                w->world > 0 ? "expected numbers less than --world, ascending from 0, at most 64 of them" : "expected --world N, too");
        return false;
    }
    g_autoptr(GError) error = NULL;
    if (w->with && !ech_torch_measures_check(w->with, &error)) {
        fprintf(stderr, "echelon capture: --with: %s\n", error->message);
        return false;
    }
    return true;
}

/* @mark: what the prefix ends with. ECH_EXIT_DONE, or the exit code where it was said why not. */
static int read_words(int argc, char **argv, const char *mark, Words *w)
{
    g_autofree char *ranks = NULL, *find = NULL;
    g_auto(GStrv) rest = NULL, with = NULL;
    w->gpus = w->world = NOT_SAID;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &w->out, "prefix of the captures, one file a process (default: echelon)", "PREFIX"},
        {"pretend", 0, 0, G_OPTION_ARG_STRING, &w->device, "no GPU, or no TPU: let the command see this one; what it asks of it is written down and not run",
         "DEVICE"},
        {"gpus", 0, 0, G_OPTION_ARG_INT, &w->gpus, "how many of them there are (default: 1)", "N"},
        {"world", 0, 0, G_OPTION_ARG_INT, &w->world, "one process alone for a world of torch.distributed: the ranks it believes in", "N"},
        {"rank", 0, 0, G_OPTION_ARG_STRING, &ranks, "which of them it is (default: 0); several, ascending: a process for each", "R[,R]..."},
        {"set", 's', 0, G_OPTION_ARG_STRING_ARRAY, &w->settings, "change a number of the pretended device", "PATH=VALUE"},
        {"with", 0, 0, G_OPTION_ARG_STRING_ARRAY, &with,
         "PyTorch: as if the program had autocast, compile, checkpoint or another of 'echelon list measures'; may be given again", "MEASURE"},
        {"find", 0, 0, G_OPTION_ARG_STRING, &find,
         "the largest number with which it fits the pretended device, or the least: the command runs with one after the other in the place of {NAME}, "
         "multiples of "
         "STEP (default: to a hundredth)",
         "NAME=FROM..TO[:STEP]"},
        G_OPTION_ENTRY_NULL,
    };
    int mine = own_words(argc, argv);
    if (!ech_cli_options(mine, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    w->command = argv + mine + (mine < argc && strcmp(argv[mine], "--") == 0);
    if (!*w->command) {
        fprintf(stderr, "echelon capture: no command; expected echelon capture [--pretend DEVICE] [-o PREFIX] -- COMMAND\n");
        return ECH_EXIT_USAGE;
    }
    w->with = with ? g_strjoinv(",", with) : NULL;
    if (!check_words(w, ranks))
        return ECH_EXIT_USAGE;
    const char *out = w->out ? w->out : "echelon";
    g_autofree char *whole = g_canonicalize_filename(out, NULL), *folder = g_path_get_dirname(whole);
    w->prefix = g_strconcat(whole, mark, NULL);
    if (g_access(folder, W_OK | X_OK) != 0) { /* else that would be known when the command has ended */
        fprintf(stderr, "echelon capture: -o %s: nothing can be written to %s: %s\n", out, folder, g_strerror(errno));
        return ECH_EXIT_FAILED;
    }
    return ECH_EXIT_DONE;
}

int ech_capture_once(int argc, char **argv, const char *mark, EchCaptured *ret)
{
    g_auto(Words) w = {0};
    int code = read_words(argc, argv, mark, &w);
    if (code == ECH_EXIT_DONE && !w.device) {
        fprintf(stderr, "echelon capture: --find is for a device that is not there; expected --pretend DEVICE, too\n");
        code = ECH_EXIT_USAGE;
    }
    if (code != ECH_EXIT_DONE)
        return code;
    GError *error = NULL;
    g_autofree char *log = g_strconcat(w.prefix, ".log", NULL), *folder = g_path_get_dirname(log), *here = g_get_current_dir();
    ret->log = strcmp(folder, here) == 0 ? g_path_get_basename(log) : g_steal_pointer(&log);
    if (!run_pretended(&w, ret->log, ret, &error))
        return ech_cli_fail(error);
    return ECH_EXIT_DONE;
}

void ech_captured_clear(EchCaptured *captured)
{
    g_clear_pointer(&captured->runs, g_ptr_array_unref);
    g_clear_pointer(&captured->programs, g_ptr_array_unref);
    g_clear_pointer(&captured->device, ech_device_free);
    g_clear_pointer(&captured->device_word, g_free);
    g_clear_pointer(&captured->settings, g_strfreev);
    g_clear_pointer(&captured->set_words, g_free);
    g_clear_pointer(&captured->as_run, g_free);
    g_clear_pointer(&captured->log, g_free);
}

int ech_verb_capture(int argc, char **argv)
{
    int mine = own_words(argc, argv);
    for (int i = 1; i < mine; i++)
        if (strcmp(argv[i], "--find") == 0 || g_str_has_prefix(argv[i], "--find="))
            return ech_capture_find(argc, argv, i);
    g_auto(Words) w = {0};
    int code = read_words(argc, argv, "", &w);
    if (code != ECH_EXIT_DONE)
        return code;
    return w.device ? pretend(&w) : capture(w.command, w.prefix);
}
