/** @file descendants.h
 * Processes that a command has started and left behind: of servers, say, whose engines are processes of their own and outlive who began them.
 */
#pragma once
#include <glib.h>

/** From now on processes of ours whose parent ends become children of ours, so that they are found again. Those that there are already (pid_t, ascending),
 * which are no command's; owned by the caller. */
GArray *ech_descendants_hold(void);
/** Ends what has come since, but for @ours and what these began: it has a second to end by itself, then SIGTERM asks it to, @write asks for what is to be
 * written first (sitecustomize.py), and SIGKILL asks nobody. "python (4711), 2 more": who had to be asked; NULL: nobody. Owned by the caller. */
char *ech_descendants_end(const GArray *ours, int write);
