/** @file experiment_private.h
 * What the files that make up an experiment share: reading it (experiment.c), where its files lie (experiment_files.c), running its cases (experiment_run.c).
 */
#pragma once
#include "sim/experiment/experiment.h"
#include "sim/import/alloc_events.h"

/** An import that is shared by the cases that read the same file the same way. */
typedef struct {
    char *key;
    EchImport *import;
    EchTrace *selected; /**< Of a capture: what was last selected of it, or NULL; and by which device number, with others or alone, and pageable memory. */
    uint32_t device;
    bool together;
    char *pageable;
    bool borrowed;        /**< The import is another experiment's. */
    bool asked;           /**< The next two are known... */
    uint32_t asked_of;    /**< ...of this device, as `device`. */
    char *allocator;      /**< Under which it was recorded, or NULL (alloc_study.h). */
    const char *released; /**< Of PyTorch's, or NULL. Static. */
    EchAllocStart *start; /**< What that held when the recording began, or NULL; and the same for a replay. */
    EchReplayStart begin;
    GArray *owners; /**< EchAllocOwner, of begin where passes renumbered them; or NULL. */
} EchCachedImport;

/** What the points of a sweep share. */
struct EchImportCache {
    GArray *items;       /**< EchCachedImport */
    GHashTable *devices; /**< name -> EchYamlNode */
    GPtrArray *parts;    /**< EchExperiment, one for each device of a capture of several (devices.h), or NULL. */
};
/** An experiment of one device of @of's captures, without cases. */
EchExperiment *ech_experiment_part_new(const EchExperiment *of) G_GNUC_WARN_UNUSED_RESULT;
/** What @c, which has a trace, imports; borrowed from the experiment. */
const EchImport *ech_experiment_import_case(EchExperiment *experiment, const EchCase *c, GError **error);

/** How the remark on the one of several devices begins that is replayed, and that on temporaries of PyTorch's optimizers; advice repeats both. */
#define ECH_REMARK_DEVICES "the capture holds devices "
#define ECH_REMARK_OPTIMIZER "PyTorch's optimizer"
/** Whether an optimizer asked for it that takes all parameters at once, and whether PyTorch 2.15 has it as one kernel, too. @stack: text, or NULL. */
typedef enum { ECH_FOREACH_NOT = 1, ECH_FOREACH_FUSIBLE, ECH_FOREACH_NOT_FUSIBLE } EchForeachKind;
EchForeachKind ech_foreach_kind(const char *stack);

/** The file that a trace's name stands for, relative to the file that @node stands in; owned by the caller. */
char *ech_experiment_trace_path(const EchYamlNode *node);
/** The device's name, or the path of its file likewise; owned by the caller. */
char *ech_experiment_device_path(const EchYamlNode *node);

/** Puts the place in a file of the edit that @error is about before it. @places: edit -> place. */
void ech_experiment_say_place(GHashTable *places, GError *error);
/** False for a value of an axis with which no case can run: a slip of the pen, better told at once. (One that some cases can have and others cannot is told by
 * these.) */
bool ech_experiment_check_values(EchExperiment *experiment, GError **error);
