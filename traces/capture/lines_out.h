/* What both capture libraries do to write their lines (sim/import/lines.h reads them): libc only, each library has its own copy. */
#pragma once
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The file that @pattern names, "%p" being the number of @process; false: it is too long. */
static inline bool lines_path(const char *pattern, long process, char ret[PATH_MAX])
{
    const char *mark = strstr(pattern, "%p");
    int n = mark ? snprintf(ret, PATH_MAX, "%.*s%ld%s", (int)(mark - pattern), pattern, process, mark + 2) : snprintf(ret, PATH_MAX, "%s", pattern);
    return n >= 0 && n < PATH_MAX;
}

/* This process's file, made anew; -1 and errno. */
static inline int lines_open(const char *pattern)
{
    char path[PATH_MAX];
    if (!lines_path(pattern, (long)getpid(), path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* A kernel's name as people write it: by the program's own C++ runtime (Itanium C++ ABI, 3.4). NULL where it has none, or @symbol is no such name; freed by
 * the caller. Here rather than where the file is read: a symbol of the program is no trap, and one of a stranger's file may be made to grow without end. */
static inline char *lines_demangled(const char *symbol)
{
    int status = 0;
    char *(*demangle)(const char *, char *, size_t *, int *) = NULL;
    void *runtime = strncmp(symbol, "_Z", 2) == 0 ? dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *found = runtime ? dlsym(runtime, "__cxa_demangle") : NULL;
    memcpy(&demangle, &found, sizeof found);
    char *text = demangle ? demangle(symbol, NULL, NULL, &status) : NULL;
    if (runtime)
        dlclose(runtime);
    return text;
}

/* All of @text; 0, or the error that ended it. */
static inline int lines_write_all(int file, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(file, text, n);
        if (done < 0 && errno != EINTR)
            return errno;
        text += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

/* The same in a program that is only watched: a file that may grow no more (ulimit -f) must not end it. */
static inline int lines_write(int file, const char *text, size_t n)
{
    sigset_t large, before, pending;
    sigemptyset(&large);
    sigaddset(&large, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &large, &before);
    int error = lines_write_all(file, text, n);
    if (error == EFBIG && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&large, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* A quoted text: quotes, backslashes and control characters escaped. */
static inline void lines_quote(void (*put)(char c), const char *text)
{
    static const char digits[] = "0123456789abcdef";
    put('"');
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\' || c < 0x20)
            put('\\');
        if (c < 0x20) {
            put('x');
            put(digits[c >> 4]);
            put(digits[c & 15]);
        } else {
            put(*at);
        }
    }
    put('"');
}
