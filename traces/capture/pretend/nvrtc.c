/* The run-time compiler (NVRTC), which is the real one: with machine code it keeps the PTX that this was made of, which tells what kernels move (moves.c). */
#include "pretend.h"

#include <stdlib.h>
#include <string.h>

static const char *const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", NULL};

enum { SUCCESS = 0, INTERNAL_ERROR = 11 };

/* The PTX of a program; NULL: it has none. */
static char *ptx_of(void *program)
{
    int (*size)(void *, size_t *), (*text)(void *, char *);
    void *found[] = {pretend_real_symbol("nvrtcGetPTXSize", libraries), pretend_real_symbol("nvrtcGetPTX", libraries)};
    size_t bytes = 0;
    memcpy(&size, &found[0], sizeof size);
    memcpy(&text, &found[1], sizeof text);
    char *ptx = size && text && size(program, &bytes) == SUCCESS && bytes > 1 ? calloc(bytes + 1, 1) : NULL;
    if (ptx && text(program, ptx) == SUCCESS)
        return ptx;
    free(ptx);
    return NULL;
}

PRETEND_EXPORT int nvrtcGetCUBIN(void *program, char *ret)
{
    int (*real)(void *, char *), (*size)(void *, size_t *);
    void *found[] = {pretend_real_symbol("nvrtcGetCUBIN", libraries), pretend_real_symbol("nvrtcGetCUBINSize", libraries)};
    size_t bytes = 0;
    memcpy(&real, &found[0], sizeof real);
    memcpy(&size, &found[1], sizeof size);
    int failed = real ? real(program, ret) : INTERNAL_ERROR;
    char *ptx = !failed && size && size(program, &bytes) == SUCCESS && bytes > 0 ? ptx_of(program) : NULL;
    if (ptx)
        pretend_code_made_of(ret, bytes, ptx);
    return failed;
}
