/* Libraries that a program opens itself and asks for functions by name (JAX's plugin does, so that it starts where there are none): what is pretended is found
 * there, too. Symbols of the libraries that it was linked with come to us by being loaded first. */
#include "pretend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

bool pretend_is_of_cuda(const void *code)
{
    static const char *const names[] = {"libcu", "libnv", "libnccl", "libechelon_pretend"};
    Dl_info info;
    if (!dladdr(code, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* A framework's own function of that name (TensorFlow's look for the library when they are first called, and find us) is not the real one. */
void *pretend_real_symbol(const char *name, const char *const *libraries)
{
    void *found = dlsym(RTLD_NEXT, name);
    for (found = found && pretend_is_of_cuda(found) ? found : NULL; !found && *libraries; libraries++) {
        void *library = dlopen(*libraries, RTLD_NOW | RTLD_NOLOAD);
        found = library ? dlsym(library, name) : NULL;
    }
    return found;
}

#ifdef __x86_64__

/* Named by the assembly below. */
__attribute__((visibility("hidden"))) void *(*pretend_next_dlsym)(void *handle, const char *name);
__attribute__((visibility("hidden"))) void *pretend_symbol_of(void *handle, const char *name, const void *caller);

static void *self;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_real(void)
{
    void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    memcpy(&pretend_next_dlsym, &found, sizeof found);
    Dl_info info;
    self = dladdr(&self, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

void *pretend_own_symbol(const char *name)
{
    pthread_once(&once, find_real);
    return self ? pretend_next_dlsym(self, name) : NULL;
}

/* What is ours of a library's; NULL where the real dlsym() is to answer: NVIDIA's own libraries look for functions in each other, and we for real ones. */
void *pretend_symbol_of(void *handle, const char *name, const void *caller)
{
    pthread_once(&once, find_real);
    pretend_redirect_linked();                         /* what was loaded is about to be used */
    const char *bare = *name == '_' ? name + 1 : name; /* as CuTe's code calls CUDA (cute.c) */
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !self ||
        (strncmp(bare, "cu", 2) != 0 && strncmp(bare, "nccl", 4) != 0 && strncmp(bare, "nvrtc", 5) != 0))
        return NULL;
    void *ours = pretend_next_dlsym(self, name);
    ours = ours || bare == name ? ours : pretend_next_dlsym(self, bare);
    if (!ours)
        dlerror(); /* is the program's to read */
    return ours && !pretend_is_of_cuda(caller) ? ours : NULL;
}

/* Who asks for the next symbol after its own is known by its return address: so the real dlsym() is jumped to. */
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    push %rdi\n"
        "    push %rsi\n"
        "    sub $8, %rsp\n"
        "    mov 24(%rsp), %rdx\n"
        "    call pretend_symbol_of\n"
        "    add $8, %rsp\n"
        "    pop %rsi\n"
        "    pop %rdi\n"
        "    test %rax, %rax\n"
        "    jne 1f\n"
        "    jmp *pretend_next_dlsym(%rip)\n"
        "1:  ret\n"
        ".size dlsym, . - dlsym\n");

#endif
