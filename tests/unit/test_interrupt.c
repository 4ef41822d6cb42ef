/* Programs that are ended, and files that are: nothing is left half-written, and what was cut is said. */
#include "sim/base/file.h"
#include "sim/cli/interrupt.h"
#include "sim/experiment/output.h"
#include "sim/trace/file.h"
#include "tests/support/support.h"

#include <check.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not while a debugger's or a sanitizer's own handlers would be tested: the child has only ours. */
START_TEST(a_file_that_is_cut_while_it_is_read)
{
    enum { BYTES = 1 << 16 };
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "echelon-cut-XXXXXX", NULL);
    int fd = g_mkstemp(path), ends[2];
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, BYTES), 0);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        ech_interrupt_cut_files();
        g_autoptr(GMappedFile) file = ech_map_file(path, NULL);
        volatile const char *bytes = file ? g_mapped_file_get_contents(file) : "x";
        _exit(bytes[BYTES - 1] != 0 || ftruncate(fd, 0) != 0 || bytes[BYTES - 1] == 0 ? 7 : 8);
    }
    close(ends[1]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    char said[200] = "";
    ck_assert_int_gt(read(ends[0], said, sizeof said - 1), 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %d, %s", status, said);
    ck_assert_msg(g_str_has_prefix(said, "echelon: a file became shorter while it was read"), "%s", said);
    close(ends[0]);
    close(fd);
    g_unlink(path);
}
END_TEST

static bool write_results(const char *path, const char *const *names, const char *text)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchOutput) output = ech_output_new(path, &error);
    for (const char *const *name = names; output && *name; name++)
        ck_assert(ech_output_write(output, *name, text, strlen(text), &error));
    return output && ech_output_commit(output, &error);
}

static char *contents(const char *folder, const char *name)
{
    char *text = NULL;
    g_autofree char *path = g_build_filename(folder, name, NULL);
    return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

/* Of processes that write to the same folder, new or not, each ends well, and what the last one wrote is there, whole. */
START_TEST(results_of_several)
{
    enum { WRITERS = 8, TIMES = 12 };
    static const char *const names[] = {"run.json", "summary.txt", "000/run.json", NULL};
    g_autofree char *folder = g_dir_make_tmp("echelon-several-XXXXXX", NULL), *results = g_build_filename(folder, "results", NULL),
                    *taken = g_build_filename(folder, "taken", NULL), *other = g_build_filename(taken, "thesis.tex", NULL);
    /* Both began where nothing was. */
    g_autoptr(GError) error = NULL;
    EchOutput *one = ech_output_new(results, &error), *two = ech_output_new(results, &error);
    ck_assert(one && two && ech_output_write(one, "run.json", "one", 3, &error) && ech_output_write(two, "run.json", "two", 3, &error));
    ck_assert(ech_output_commit(one, &error));
    ck_assert_msg(ech_output_commit(two, &error), "%s", error ? error->message : "");
    ech_output_free(two);
    ech_output_free(one);
    g_autofree char *text = contents(results, "run.json");
    ck_assert_str_eq(text, "two");
    for (int i = 0; i < WRITERS; i++) {
        if (fork() == 0) {
            g_autofree char *mine = g_strdup_printf("%d", i);
            bool ok = true;
            for (int k = 0; k < TIMES && ok; k++)
                ok = write_results(results, names, mine);
            _exit(ok ? 0 : 1);
        }
    }
    for (int i = 0, status; i < WRITERS; i++)
        ck_assert(wait(&status) > 0 && status == 0);
    g_autofree char *first = contents(results, names[0]), *second = contents(results, names[1]), *third = contents(results, names[2]);
    ck_assert(first && g_strcmp0(first, second) == 0 && g_strcmp0(first, third) == 0);
    /* What somebody else put there meanwhile stays. */
    EchOutput *late = ech_output_new(taken, &error);
    ck_assert(late && ech_output_write(late, "run.json", "late", 4, &error) && g_mkdir(taken, 0777) == 0 && g_file_set_contents(other, "mine", -1, NULL));
    ck_assert(!ech_output_commit(late, &error) && strstr(error->message, "taken: holds what is no result of echelon by now"));
    ech_output_free(late);
    g_autoptr(GDir) left = g_dir_open(folder, 0, NULL);
    for (const char *name = g_dir_read_name(left); name; name = g_dir_read_name(left))
        ck_assert_msg(!strchr(name, '.'), "%s", name);
    ech_remove_tree(folder);
}
END_TEST

/* Results take the place of results: of the folder that they lie in, and of what else its owner put there, nothing goes. */
START_TEST(results_again)
{
    static const char *const first[] = {"run.json", "000/run.json", "001/run.json", NULL}, *const second[] = {"run.json", "000/run.json", NULL};
    static const char *const mine[] = {"notes.txt", "papers/thesis.tex", "001/notes.txt", "2024/run.txt"};
    g_autofree char *folder = g_dir_make_tmp("echelon-again-XXXXXX", NULL), *results = g_build_filename(folder, "results", NULL),
                    *link = g_build_filename(folder, "link", NULL), *page = g_build_filename(results, "report.html", NULL);
    ck_assert(write_results(results, first, "one"));
    for (size_t i = 0; i < G_N_ELEMENTS(mine); i++) {
        g_autofree char *path = g_build_filename(results, mine[i], NULL), *in = g_path_get_dirname(path);
        ck_assert(g_mkdir_with_parents(in, 0777) == 0 && g_file_set_contents(path, "mine", -1, NULL));
    }
    GStatBuf before, after;
    ck_assert(g_stat(results, &before) == 0 && symlink(results, link) == 0);
    ck_assert(write_results(link, second, "two"));
    ck_assert(g_stat(results, &after) == 0 && before.st_ino == after.st_ino && g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    for (size_t i = 0; i < G_N_ELEMENTS(mine); i++) {
        g_autofree char *text = contents(results, mine[i]);
        ck_assert_msg(g_strcmp0(text, "mine") == 0, "%s: %s", mine[i], text ? text : "gone");
    }
    g_autofree char *new = contents(results, "000/run.json"), *old = contents(results, "001/run.json");
    ck_assert(g_strcmp0(new, "two") == 0 && !old);
    /* What cannot take its place leaves all as it was: a folder of somebody's with a page's name. */
    g_autoptr(GError) error = NULL;
    g_autoptr(EchOutput) output = ech_output_new(results, &error);
    g_autofree char *hidden = g_build_filename(results, "other", NULL);
    ck_assert(output && ech_output_write(output, "run.json", "three", 5, &error) && ech_output_write(output, "other", "three", 5, &error));
    ck_assert(g_mkdir(hidden, 0777) == 0 && g_mkdir(page, 0777) == 0 && !ech_output_commit(output, &error) && error);
    g_autofree char *kept = contents(results, "run.json");
    ck_assert_msg(g_strcmp0(kept, "two") == 0, "%s", kept ? kept : "gone");
    g_clear_pointer(&output, ech_output_free);
    g_autoptr(GDir) dir = g_dir_open(results, 0, NULL);
    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir))
        ck_assert_msg(*name != '.', "%s", name);
    ech_remove_tree(folder);
}
END_TEST

/* A file that may grow no more is an error of whoever writes it, and programs that are started from here end of it as ever. */
START_TEST(a_file_that_is_full)
{
    g_autofree char *folder = g_dir_make_tmp("echelon-full-XXXXXX", NULL), *path = g_build_filename(folder, "whole", NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit little = {4096, 4096};
        g_autofree char *text = g_malloc0(8192);
        g_autoptr(GError) error = NULL;
        ech_interrupt_full_files();
        if (setrlimit(RLIMIT_FSIZE, &little) != 0 || ech_output_file(path, text, 8192, &error) || !strstr(error->message, "whole: File too large"))
            _exit(7);
        execl("/bin/sh", "sh", "-c", "head -c 8192 /dev/zero >\"$0\"", path, NULL);
        _exit(8);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) ? WTERMSIG(status) == SIGXFSZ : WEXITSTATUS(status) == 128 + SIGXFSZ, "status %d", status);
    g_unlink(path);
    ck_assert_int_eq(g_rmdir(folder), 0);
}
END_TEST

/* More than there can be. */
START_TEST(memory_that_is_refused)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        ech_interrupt_no_memory();
        volatile gsize each = G_MAXSIZE / 2;
        g_free(g_malloc_n(each, 3));
        _exit(7);
    }
    close(ends[1]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    char said[200] = "";
    ck_assert_int_gt(read(ends[0], said, sizeof said - 1), 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %d, %s", status, said);
    ck_assert_msg(g_str_has_prefix(said, "echelon: ") && strstr(said, "expected more memory than there is"), "%s", said);
    close(ends[0]);
}
END_TEST

/* Ended while it writes one file after the other, which is nearly all it does. */
START_TEST(a_trace_file_is_whole_or_not_there)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    ech_trace_builder_memory(b, "hbm");
    ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0);
    for (int i = 0; i < 20000; i++) {
        EchOp op = ech_op_init(ECH_OP_MARK);
        op.name = ech_trace_builder_string(b, "mark", -1);
        op.queue = 0;
        ech_trace_builder_op(b, op);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, &error);
    ck_assert_msg(trace != NULL, "%s", error ? error->message : "");
    g_autofree char *folder = g_dir_make_tmp("echelon-write-XXXXXX", NULL), *path = g_build_filename(folder, "t.ech", NULL);
    for (int round = 0; round < 4; round++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGTERM, SIG_DFL); /* Check's own handler ends the test */
            while (ech_trace_file_write(trace, path, NULL))
                ;
            _exit(1);
        }
        while (!g_file_test(path, G_FILE_TEST_EXISTS))
            g_usleep(1000);
        g_usleep(3000);
        ck_assert_int_eq(kill(child, SIGTERM), 0);
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
        for (const char *name; (name = g_dir_read_name(dir));)
            ck_assert_str_eq(name, "t.ech");
        g_autofree char *text = NULL;
        gsize n;
        ck_assert(g_file_get_contents(path, &text, &n, NULL));
        g_autoptr(EchTrace) read = ech_trace_file_read(text, n, path, NULL);
        ck_assert_ptr_nonnull(read);
        g_unlink(path);
    }
    g_rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interrupt");
    TCase *tests = tcase_create("interrupt");
    tcase_add_test(tests, a_file_that_is_cut_while_it_is_read);
    tcase_add_test(tests, results_of_several);
    tcase_add_test(tests, results_again);
    tcase_add_test(tests, a_file_that_is_full);
    tcase_add_test(tests, memory_that_is_refused);
    tcase_add_test(tests, a_trace_file_is_whole_or_not_there);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
