/** @file interrupt.h
 * Ctrl-C in work that has a result at every moment: the first one ends the work, its result is still told, and the program then ends of that signal, as it
 * would have at once. And what else would end the program without a word of its own.
 */
#pragma once
#include <signal.h>
#include <stdbool.h>

/** From now on the first SIGINT or SIGTERM is only noted, where it is not ignored; one that comes a third of a second later, or more, ends the program. What is
 * returned is not 0 from then on. */
const volatile sig_atomic_t *ech_interrupt_hold(void);
/** From now on they end the program again, unless one was noted: what was found by then is told first. Whether one was. */
bool ech_interrupt_release(void);
/** From now on a file that becomes shorter while it is read, or cannot be read after all, ends the program with a message and exit code 1; it would crash. */
void ech_interrupt_cut_files(void);
/** From now on a file that may grow no more (ulimit -f) is an error of what writes it; it would end the program. */
void ech_interrupt_full_files(void);
/** From now on GLib's want of memory ends the program with a message and exit code 1; it would be a trap that looks like a crash. */
void ech_interrupt_no_memory(void);
/** Ends the program of the signal that was noted; what was printed is written first. Returns where there was none. */
void ech_interrupt_end(void);
