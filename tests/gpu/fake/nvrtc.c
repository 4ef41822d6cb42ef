/* Of NVRTC what the pretending library asks it for: here a program is the machine code and the PTX that it was compiled to. */
#include <stddef.h>
#include <string.h>

typedef struct {
    const void *code;
    size_t bytes;
    const char *ptx;
} Program;

int nvrtcGetCUBINSize(const Program *program, size_t *ret);
int nvrtcGetCUBIN(const Program *program, char *ret);
int nvrtcGetPTXSize(const Program *program, size_t *ret);
int nvrtcGetPTX(const Program *program, char *ret);

int nvrtcGetCUBINSize(const Program *program, size_t *ret)
{
    *ret = program->bytes;
    return 0;
}

int nvrtcGetCUBIN(const Program *program, char *ret)
{
    memcpy(ret, program->code, program->bytes);
    return program->bytes > 0 ? 0 : 4;
}

int nvrtcGetPTXSize(const Program *program, size_t *ret)
{
    *ret = strlen(program->ptx) + 1;
    return 0;
}

int nvrtcGetPTX(const Program *program, char *ret)
{
    strcpy(ret, program->ptx);
    return 0;
}
