/* A stage in a process of its own: a GPU that hangs, a crash or a lost context costs that stage. */
#include "sim/experiment/gpu_suite_private.h"

#include "sim/base/error.h"
#include "sim/replay/cuda_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* When a file was written last; 0: it is not there. */
static gint64 written(const char *path)
{
    GStatBuf s;
    return path && g_stat(path, &s) == 0 ? (gint64)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec : 0;
}

/* What a child has to say arrives here: its error, if it has one. */
static char *read_message(int from, pid_t child, const EchGpuLimit *limit, double *ret_timed_out)
{
    GString *text = g_string_new(NULL);
    gint64 now = g_get_monotonic_time(), end = now + (gint64)(limit->seconds * 1e6), last = now, known = written(limit->step);
    *ret_timed_out = 0;
    for (;;) {
        now = g_get_monotonic_time();
        gint64 latest = written(limit->step), step_end = limit->step ? last + (gint64)(limit->step_seconds * 1e6) : end;
        if (latest != known) {
            known = latest;
            last = now;
            continue;
        }
        if (now >= MIN(end, step_end)) {
            *ret_timed_out = now >= end ? limit->seconds : limit->step_seconds;
            kill(child, SIGKILL);
            break;
        }
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int n = poll(&ready, 1, (int)MIN((MIN(end, step_end) - now) / 1000 + 1, limit->step ? 100 : 3600000));
        if (n == 0 || (n < 0 && errno == EINTR))
            continue;
        if (n < 0)
            break;
        char part[512];
        ssize_t got = read(from, part, sizeof part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        g_string_append_len(text, part, got);
    }
    return g_string_free(text, FALSE);
}

bool ech_gpu_in_child(EchGpuWork work, void *data, const EchGpuLimit *limit, GError **error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no pipe: %s", g_strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        g_autoptr(GError) failure = NULL;
        bool ok = work(data, &failure);
        size_t length = ok ? 0 : strlen(failure->message);
        for (size_t at = 0; at < length;) {
            ssize_t n = write(ends[1], failure->message + at, length - at);
            if (n <= 0)
                break;
            at += (size_t)n;
        }
        _exit(ok ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no process: %s", g_strerror(errno));
        return false;
    }
    double timed_out;
    g_autofree char *message = read_message(ends[0], child, limit, &timed_out);
    close(ends[0]);
    /* A process that the driver does not let go of is left to it. */
    int status = 0;
    pid_t ended = 0;
    for (unsigned tries = 0; tries < 500 && (ended = waitpid(child, &status, WNOHANG)) == 0; tries++)
        g_usleep(timed_out > 0 ? 20000 : 2000 + 1000 * MIN(tries, 100));
    if (timed_out > 0)
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no end after %.0f s: ended by force", timed_out);
    else if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    else if (ended == child && WIFSIGNALED(status))
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "the process died of signal %d", WTERMSIG(status));
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%s", *message ? message : "the process failed without a word");
    return false;
}

/* A process that keeps the driver started: without one, every stage would wait for the GPU to be set up anew. */
pid_t ech_gpu_start_keeper(void)
{
    pid_t keeper = fork();
    if (keeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const EchCuDriver *driver = ech_cuda_driver(NULL);
        if (!driver || driver->init(0) != 0)
            _exit(1);
        for (;;)
            pause();
    }
    return keeper;
}

void ech_gpu_stop_keeper(pid_t keeper)
{
    if (keeper <= 0)
        return;
    kill(keeper, SIGKILL);
    waitpid(keeper, NULL, 0);
}
