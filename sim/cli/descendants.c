#include "sim/cli/descendants.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    pid_t pid, parent;
    bool ended; /* and its parent has not looked */
} Process;

static int compare(gconstpointer a, gconstpointer b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

static bool has(const GArray *pids, pid_t pid)
{
    return g_array_binary_search((GArray *)(void *)(guintptr)pids, &pid, compare, NULL);
}

/* Process: all that there are. Where the kernel does not tell of them there are none. */
static GArray *processes(void)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(Process));
    g_autoptr(GDir) dir = g_dir_open("/proc", 0, NULL);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_strdup_printf("/proc/%s/stat", name), *text = NULL;
        const char *end = g_ascii_isdigit(*name) && g_file_get_contents(path, &text, NULL, NULL) ? strrchr(text, ')') : NULL;
        char state;
        int parent;
        if (!end || sscanf(end, ") %c %d", &state, &parent) != 2)
            continue;
        Process process = {(pid_t)g_ascii_strtoll(name, NULL, 10), parent, state == 'Z' || state == 'X'};
        g_array_append_val(all, process);
    }
    return all;
}

/* pid_t, ascending: our children and theirs that run, but for @ours (may be NULL) and what is below those alone. Of the others that are ours alone it is noted
 * here that they have ended. */
static GArray *below(const GArray *ours)
{
    g_autoptr(GArray) all = processes();
    GArray *found = g_array_new(FALSE, FALSE, sizeof(pid_t));
    const pid_t self = getpid();
    for (bool more = true; more;) {
        more = false;
        for (guint i = 0; i < all->len; i++) {
            const Process *process = &g_array_index(all, Process, i);
            bool is_below = process->parent == self || has(found, process->parent);
            if (is_below && process->ended && process->parent == self && ours && !has(ours, process->pid))
                waitpid(process->pid, NULL, WNOHANG);
            if (!is_below || process->ended || has(found, process->pid) || (ours && has(ours, process->pid)))
                continue;
            more = true;
            g_array_append_val(found, process->pid);
            g_array_sort(found, compare);
        }
    }
    return found;
}

GArray *ech_descendants_hold(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return below(NULL);
}

/* "python (4711), 2 more" */
static char *names(const GArray *pids)
{
    pid_t first = g_array_index(pids, pid_t, 0);
    g_autofree char *path = g_strdup_printf("/proc/%d/comm", first), *name = NULL;
    bool named = g_file_get_contents(path, &name, NULL, NULL);
    g_autofree char *more = pids->len > 1 ? g_strdup_printf(", %u more", pids->len - 1) : g_strdup("");
    return g_strdup_printf("%s (%d)%s", named ? g_strchomp(name) : "a process", first, more);
}

char *ech_descendants_end(const GArray *ours, int write)
{
    enum { LOOK_EVERY = 20000 /* us */ };
    const struct {
        int number; /* 0: nothing is asked */
        unsigned looks;
    } rounds[] = {{0, 50}, {SIGTERM, 250}, {write, 500}, {SIGKILL, 50}};
    char *asked = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(rounds); i++) {
        g_autoptr(GArray) left = below(ours);
        if (left->len > 0 && rounds[i].number != 0 && !asked)
            asked = names(left);
        for (guint k = 0; k < left->len && rounds[i].number != 0; k++)
            kill(g_array_index(left, pid_t, k), rounds[i].number);
        for (unsigned look = 0; left->len > 0 && look < rounds[i].looks; look++) {
            g_usleep(LOOK_EVERY);
            g_array_unref(left);
            left = below(ours);
            for (guint k = 0; k < left->len && rounds[i].number == SIGKILL; k++) /* what they began meanwhile, too */
                kill(g_array_index(left, pid_t, k), SIGKILL);
        }
        if (left->len == 0)
            break;
    }
    return asked;
}
