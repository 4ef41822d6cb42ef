/** @file capture_find.h
 * `echelon capture --pretend DEVICE --find NAME=FROM..TO[:STEP] -- COMMAND`: how long a sequence, how large a batch fits, how few devices suffice? The command
 * is captured with one number after another in the place of {NAME}, which may stand in our own options too: both bounds, then halves of what lies between,
 * down to neighbours. What is asked for is taken to hold on one side of one point. The program, PyTorch's allocator and XLA's compilers decide each time: no
 * model of what the number does is in between.
 */
#pragma once
#include "models/device/device.h"

/** What a command left on a device that was not there. */
typedef struct {
    EchDevice *device;
    char *device_word;   /**< Its name or file as `echelon run` takes it. */
    char **settings;     /**< Likewise, "device.PATH=VALUE", NULL-terminated. */
    char *set_words;     /**< They as words of a shell: " --set device.PATH=VALUE". */
    char *as_run;        /**< Both, as words of a shell: " --device NAME --set device.PATH=VALUE". */
    int code;            /**< Its exit status; 128 and the signal's number where one ended it. */
    GPtrArray *runs;     /**< Paths of captures, PREFIX.PID.pretend, sorted. */
    GPtrArray *programs; /**< Those of compiled programs, folders PREFIX.PID.NAME, sorted. */
    const char *ran_out; /**< The first of the runs that ended for want of memory; NULL: none did. */
    bool interrupted;    /**< Ctrl-C, or SIGTERM, may be what ended it. */
    bool beside_others;  /**< There were captures of that prefix before. */
    char *log;           /**< Path of what it printed; NULL: it was not kept. */
} EchCaptured;

void ech_captured_clear(EchCaptured *captured);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchCaptured, ech_captured_clear)

/** Runs a command as the words of `echelon capture` say, which have --pretend: quietly, into files whose prefix ends with @mark. ECH_EXIT_DONE whatever the
 * command did; another code where it was not run, which was said. *ret is to be cleared. */
int ech_capture_once(int argc, char **argv, const char *mark, EchCaptured *ret) G_GNUC_WARN_UNUSED_RESULT;

/** The search that argv[@option] asks for, "--find" or "--find=NAME=FROM..TO". An exit code: ECH_EXIT_DOES_NOT_FIT where no number does. */
int ech_capture_find(int argc, char **argv, int option);
