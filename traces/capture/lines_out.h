/* What both capture libraries do to write their lines (sim/import/lines.h reads them): libc only, each library has its own copy. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The file that @pattern names, "%p" being the process id, made anew; -1 and errno. */
static inline int lines_open(const char *pattern)
{
    const char *mark = strstr(pattern, "%p");
    char path[PATH_MAX];
    int n =
        mark ? snprintf(path, sizeof path, "%.*s%ld%s", (int)(mark - pattern), pattern, (long)getpid(), mark + 2) : snprintf(path, sizeof path, "%s", pattern);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* All of @text; 0, or the error that ended it. */
static inline int lines_write(int file, const char *text, size_t n)
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
