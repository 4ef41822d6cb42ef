#include "sim/cli/interrupt.h"

#include "sim/cli/cli.h"

#include <glib.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* `timeout` signals the program and then its group, so that one end comes twice, within microseconds; who means it twice takes longer. */
#define MEANT_AGAIN_NS 300000000

static volatile sig_atomic_t noted; /* a handler can reach nothing else */
static struct timespec noted_at;    /* written by the handler alone, while it holds both signals back */
static const int signals[] = {SIGINT, SIGTERM};
static struct sigaction before[G_N_ELEMENTS(signals)];

static void note(int number)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!noted) {
        noted_at = now;
        noted = number;
    } else if ((now.tv_sec - noted_at.tv_sec) * (gint64)1000000000 + now.tv_nsec - noted_at.tv_nsec >= MEANT_AGAIN_NS) {
        signal(number, SIG_DFL);
        raise(number); /* delivered as this returns */
    }
}

const volatile sig_atomic_t *ech_interrupt_hold(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) /* nohup, a shell's background */
            sigaction(signals[i], &action, NULL);
    }
    return &noted;
}

bool ech_interrupt_release(void)
{
    for (size_t i = 0; !noted && i < G_N_ELEMENTS(signals); i++)
        sigaction(signals[i], &before[i], NULL);
    return noted != 0;
}

/* Files are mapped, and of one that was cut there is nothing to map where its end was (mmap(2): SIGBUS). */
static void tell_cut(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (info->si_code == BUS_ADRERR) {
        static const char message[] = "echelon: a file became shorter while it was read, or its disk failed; expected one that stays as it is\n";
        ssize_t told = write(STDERR_FILENO, message, sizeof message - 1);
        (void)told; /* who cannot be told sees the exit code */
        _exit(ECH_EXIT_FAILED);
    }
}

void ech_interrupt_cut_files(void)
{
    struct sigaction action = {.sa_sigaction = tell_cut, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    sigaction(SIGBUS, &action, NULL);
}

/* A handler rather than nobody's: programs that we start begin with the usual end. */
static void pass_over(int number)
{
    (void)number;
}

void ech_interrupt_full_files(void)
{
    struct sigaction action = {.sa_handler = pass_over, .sa_flags = SA_RESTART};
    sigaction(SIGXFSZ, &action, NULL);
}

static void tell_no_memory(const char *domain, GLogLevelFlags level, const char *message, gpointer data)
{
    (void)domain;
    (void)level;
    (void)data;
    fprintf(stderr, "echelon: %s; expected more memory than there is (ulimit -v, a container's limit), a smaller file or fewer --jobs\n", message);
    _exit(ECH_EXIT_FAILED);
}

void ech_interrupt_no_memory(void)
{
    g_log_set_handler("GLib", G_LOG_LEVEL_ERROR | G_LOG_FLAG_FATAL | G_LOG_FLAG_RECURSION, tell_no_memory, NULL);
}

void ech_interrupt_end(void)
{
    if (!noted)
        return;
    fflush(stdout);
    signal(noted, SIG_DFL);
    raise(noted);
}
