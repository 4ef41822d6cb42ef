/* The file: lines of a word, a time in nanoseconds since `clock`, and numbers (sim/import/pretend_tpu.c says which). */
#include "plugin.h"
#include "../lines_out.h"

#include <stdlib.h>

enum { FLUSH_BYTES = 1 << 16 };
#define FLUSH_AFTER UINT64_C(100000000) /* nanoseconds: what a process that is killed may lose */

static int file = -1;
static GString *text;
static struct timespec begun;
static uint64_t flushed;
static char *folder;
static pid_t owner;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)((time.tv_sec - begun.tv_sec) * 1000000000L + (time.tv_nsec - begun.tv_nsec));
}

static void flush(void)
{
    if (file >= 0 && text->len > 0 && lines_write_all(file, text->str, text->len) != 0)
        file = -1; /* what the file holds is what was done up to there */
    g_string_truncate(text, 0);
    flushed = now();
}

static void end(void)
{
    if (getpid() != owner) /* a fork's: the parent's lines are the parent's to write */
        return;
    tpu_lock();
    if (file >= 0) {
        g_string_append(text, "end\n");
        flush();
        file = -1;
    }
    tpu_unlock();
}

void tpu_record_begin(const char *pattern, EchBytes capacity, size_t devices, const char *chip, int rank, int ranks)
{
    char path[PATH_MAX];
    owner = getpid();
    clock_gettime(CLOCK_MONOTONIC, &begun);
    text = g_string_new(NULL);
    if (!pattern || !lines_path(pattern, (long)owner, path) || (file = lines_open(pattern)) < 0) {
        fprintf(stderr, "echelon capture: nothing is written down: %s: %s\n", pattern ? pattern : "ECHELON_PRETEND_TPU_OUT", g_strerror(errno));
        return;
    }
    path[strlen(path) - strlen("pretend")] = '\0';
    folder = g_strconcat(path, "programs", NULL);
    g_string_append_printf(text, "echelon-pretend-tpu 1\nclock %" G_GINT64_FORMAT "\ndevice %" G_GUINT64_FORMAT " %zu \"%s\"\nrank %d %d\n",
                           g_get_real_time() * 1000, capacity, devices, chip, rank, ranks);
    flush();
    atexit(end);
}

void tpu_record(const char *word, const char *format, ...)
{
    if (file < 0 || getpid() != owner)
        return;
    uint64_t time = now();
    g_string_append_printf(text, "%s %" G_GUINT64_FORMAT " ", word, time);
    va_list list;
    va_start(list, format);
    g_string_append_vprintf(text, format, list);
    va_end(list);
    g_string_append_c(text, '\n');
    if (text->len >= FLUSH_BYTES || time - flushed >= FLUSH_AFTER)
        flush();
}

__attribute__((visibility("default"))) void pretend_tpu_mark(const char *name);
/* For the program's side of the capture: a moment. */
void pretend_tpu_mark(const char *name)
{
    g_autofree char *quoted = g_strescape(name, NULL);
    tpu_lock();
    tpu_record("mark", "\"%s\"", quoted);
    tpu_unlock();
}

const char *tpu_record_folder(void)
{
    return folder && g_mkdir_with_parents(folder, 0777) == 0 ? folder : NULL;
}
