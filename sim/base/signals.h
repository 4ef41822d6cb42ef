/** @file signals.h
 * Ctrl-C while a file is being written: it waits until the file is whole, or gone.
 */
#pragma once
#include <signal.h>

/** Holds back SIGINT, SIGTERM and SIGHUP, by which people end programs; pthread_sigmask(SIG_SETMASK) with @ret_before lets them through again. */
static inline void ech_signals_hold(sigset_t *ret_before)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &held, ret_before);
}
