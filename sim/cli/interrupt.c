#include "sim/cli/interrupt.h"

#include <glib.h>
#include <stdio.h>

static volatile sig_atomic_t noted; /* a handler can reach nothing else */
static const int signals[] = {SIGINT, SIGTERM};
static struct sigaction before[G_N_ELEMENTS(signals)];

static void note(int signal)
{
    noted = signal;
}

const volatile sig_atomic_t *ech_interrupt_hold(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) /* nohup, a shell's background */
            sigaction(signals[i], &action, NULL);
    }
    return &noted;
}

bool ech_interrupt_release(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
        sigaction(signals[i], &before[i], NULL);
    return noted != 0;
}

void ech_interrupt_end(void)
{
    if (!noted)
        return;
    fflush(stdout);
    signal(noted, SIG_DFL);
    raise(noted);
}
