/* The driver's linker: what Numba, CuPy and hand-written loaders make of PTX before they load it. Nothing is translated: the "cubin" is the texts of PTX, one
 * behind the other, which modules are read from as well; without any, the first machine code that was added. Libraries (cudadevrt) have no kernels of the
 * program's. */
#include "pretend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, FILE_NOT_FOUND = 301 };

/* CUjitInputType and CUjit_option. */
enum { INPUT_PTX = 1, INPUT_LIBRARY = 4 };
enum { OPTION_INFO_LOG = 3, OPTION_INFO_LOG_BYTES = 4, OPTION_ERROR_LOG = 5, OPTION_ERROR_LOG_BYTES = 6 };

typedef struct {
    char *ptx, *code; /* each NUL-terminated */
    size_t ptx_bytes, code_bytes;
} Linker;

/* Logs are empty: their first letter is a NUL, and their sizes are 0 from then on. */
static void clear_logs(unsigned n, const int *options, void **values)
{
    for (unsigned k = 0; options && values && k < n; k++) {
        bool log = options[k] == OPTION_INFO_LOG || options[k] == OPTION_ERROR_LOG;
        if (log && values[k])
            *(char *)values[k] = '\0';
        if (options[k] == OPTION_INFO_LOG_BYTES || options[k] == OPTION_ERROR_LOG_BYTES)
            values[k] = NULL;
    }
}

/* Appends @n bytes and a NUL, which the next text is put over. */
static int append(char **text, size_t *bytes, const void *data, size_t n)
{
    char *grown = realloc(*text, *bytes + n + 1);
    if (!grown)
        return OUT_OF_MEMORY;
    memcpy(grown + *bytes, data, n);
    grown[*bytes + n] = '\0';
    *text = grown;
    *bytes += n;
    return SUCCESS;
}

static int add(Linker *linker, int type, const void *data, size_t n)
{
    if (!linker || !data || n == 0)
        return INVALID_VALUE;
    if (type == INPUT_LIBRARY)
        return SUCCESS;
    if (type != INPUT_PTX)
        return linker->code ? SUCCESS : append(&linker->code, &linker->code_bytes, data, n);
    size_t length = strnlen(data, n); /* some count the NUL, some do not */
    int failed = append(&linker->ptx, &linker->ptx_bytes, data, length);
    return failed ? failed : append(&linker->ptx, &linker->ptx_bytes, "\n", 1);
}

PRETEND_EXPORT int cuLinkCreate_v2(unsigned n, const int *options, void **values, void **ret)
{
    clear_logs(n, options, values);
    *ret = calloc(1, sizeof(Linker));
    return *ret ? SUCCESS : OUT_OF_MEMORY;
}

PRETEND_EXPORT int cuLinkCreate(unsigned n, const int *options, void **values, void **ret)
{
    return cuLinkCreate_v2(n, options, values, ret);
}

PRETEND_EXPORT int cuLinkAddData_v2(void *linker, int type, const void *data, size_t bytes, const char *name, unsigned n, const int *options, void **values)
{
    (void)name;
    clear_logs(n, options, values);
    return add(linker, type, data, bytes);
}

PRETEND_EXPORT int cuLinkAddData(void *linker, int type, const void *data, size_t bytes, const char *name, unsigned n, const int *options, void **values)
{
    return cuLinkAddData_v2(linker, type, data, bytes, name, n, options, values);
}

PRETEND_EXPORT int cuLinkAddFile_v2(void *linker, int type, const char *path, unsigned n, const int *options, void **values)
{
    clear_logs(n, options, values);
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file)
        return FILE_NOT_FOUND;
    char *text = NULL, part[4096];
    size_t bytes = 0;
    int failed = SUCCESS;
    for (size_t got; !failed && (got = fread(part, 1, sizeof part, file)) > 0;)
        failed = append(&text, &bytes, part, got);
    fclose(file);
    if (!failed)
        failed = add(linker, type, text, bytes);
    free(text);
    return failed;
}

PRETEND_EXPORT int cuLinkAddFile(void *linker, int type, const char *path, unsigned n, const int *options, void **values)
{
    return cuLinkAddFile_v2(linker, type, path, n, options, values);
}

/* The linker's, until it is destroyed. */
PRETEND_EXPORT int cuLinkComplete(void *linker, void **ret, size_t *ret_bytes)
{
    Linker *of = linker;
    if (!of || !ret)
        return INVALID_VALUE;
    if (!of->ptx && !of->code)
        return INVALID_IMAGE;
    *ret = of->ptx ? of->ptx : of->code;
    if (ret_bytes)
        *ret_bytes = of->ptx ? of->ptx_bytes + 1 : of->code_bytes;
    return SUCCESS;
}

PRETEND_EXPORT int cuLinkDestroy(void *linker)
{
    Linker *of = linker;
    if (of) {
        free(of->ptx);
        free(of->code);
    }
    free(of);
    return SUCCESS;
}
