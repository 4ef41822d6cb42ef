/* Whether a dispatch mode of Python's is on, PyTorch's operators and autograd ask before they work in place: gradients are added up in new memory then, and
 * operators take longer ways that suit tensors of any kind. The Python hook is such a mode (python/pretend_values.py) and none of the program's, so that it
 * does not count for them. libc10 has the function that they call; the library that is loaded first answers. What calls Python itself (libtorch_python) has to
 * know of the hook. */
#include "pretend.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef struct { /* the same from PyTorch 2.0 to 2.15, c10/core/SafePyObject.h */
    const void *object;
} Mode;

typedef struct { /* std::shared_ptr */
    const Mode *held;
    void *count;
} Shared;

static bool (*any)(void);
static int64_t (*depth)(void);
static const Shared *(*at)(int64_t); /* C++ returns a reference */
static const void *own;
static uintptr_t begin, end; /* of libtorch_python, half open */

bool pretend_torch_modes(void) __asm__("_ZN3c104impl21dispatch_mode_enabledEv");

static int look_at(struct dl_phdr_info *info, size_t bytes, void *data)
{
    (void)bytes, (void)data;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libtorch_python.so"))
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            begin = info->dlpi_addr + part->p_vaddr;
            end = begin + part->p_memsz;
        }
    }
    return 1;
}

static void *find(const char *name)
{
    void *library = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD), *found = library ? dlsym(library, name) : NULL;
    if (library)
        dlclose(library); /* it stays */
    return found;
}

PRETEND_EXPORT bool pretend_torch_modes(void)
{
    if (!any) {
        void *found = find("_ZN3c104impl21dispatch_mode_enabledEv");
        if (!found)
            return false;
        memcpy(&any, &found, sizeof any);
    }
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (!any() || !own || (caller >= begin && caller < end))
        return any();
    int64_t modes = depth();
    for (int64_t i = 0; i < modes; i++) {
        const Shared *mode = at(i);
        if (!mode->held || mode->held->object != own)
            return true;
    }
    return modes == 0;
}

/* The Python hook's mode: its object. */
PRETEND_EXPORT void pretend_own_mode(const void *object)
{
    void *length = find("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"), *which = find("_ZN3c104impl20TorchDispatchModeTLS12get_stack_atEl");
    dl_iterate_phdr(look_at, NULL);
    if (!length || !which || begin == end)
        return;
    memcpy(&depth, &length, sizeof depth);
    memcpy(&at, &which, sizeof at);
    own = object;
}
