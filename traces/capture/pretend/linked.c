/* A CUDA runtime that is linked into a program or a library of its own (nvcc's default; CuPy's and CTranslate2's wheels). Its calls meet no symbol of ours, and
 * it asks the driver for functions that NVIDIA documents nowhere. The file's table of symbols names its functions, though, unless it was stripped: each that we
 * have, too, begins with a jump to ours from then on. */
#include "pretend.h"

#ifdef __x86_64__

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JUMP = 13 }; /* bytes */

/* A file that is loaded, and what it says of its symbols: names[names_bytes] ends in 0. */
typedef struct {
    const struct dl_phdr_info *loaded;
    const uint8_t *data;
    size_t bytes;
    const Elf64_Shdr *sections;
    size_t n_sections;
    const Elf64_Sym *symbols;
    size_t n;
    const char *names;
    size_t names_bytes;
} File;

static bool lies_within(uint64_t at, uint64_t bytes, uint64_t all)
{
    return at <= all && bytes <= all - at;
}

/* In its table of @type. */
static bool find_symbols(File *file, uint32_t type)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file->data;
    if (file->bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shoff % 8 != 0 ||
        !lies_within(head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr), file->bytes))
        return false;
    file->sections = (const Elf64_Shdr *)(const void *)(file->data + head->e_shoff);
    file->n_sections = head->e_shnum;
    for (size_t i = 0; i < file->n_sections; i++) {
        const Elf64_Shdr *table = &file->sections[i];
        if (table->sh_type != type || table->sh_link >= file->n_sections || table->sh_offset % 8 != 0)
            continue;
        const Elf64_Shdr *names = &file->sections[table->sh_link];
        if (!lies_within(table->sh_offset, table->sh_size, file->bytes) || !lies_within(names->sh_offset, names->sh_size, file->bytes) || names->sh_size == 0)
            continue;
        file->symbols = (const Elf64_Sym *)(const void *)(file->data + table->sh_offset);
        file->n = table->sh_size / sizeof *file->symbols;
        file->names = (const char *)file->data + names->sh_offset;
        file->names_bytes = names->sh_size;
        return file->names[file->names_bytes - 1] == '\0';
    }
    return false;
}

/* The name of a function that the file itself has; NULL: it is something else. */
static const char *function_name(const File *file, const Elf64_Sym *symbol)
{
    bool is_own = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF && symbol->st_name < file->names_bytes;
    return is_own ? file->names + symbol->st_name : NULL;
}

/* Whether a jump fits into its machine code and what lies unused behind that. */
static bool has_room(const File *file, const Elf64_Sym *function)
{
    bool is_mapped = false;
    for (size_t i = 0; i < file->loaded->dlpi_phnum; i++) {
        const Elf64_Phdr *part = &file->loaded->dlpi_phdr[i];
        is_mapped |= part->p_type == PT_LOAD && (part->p_flags & PF_X) && function->st_value >= part->p_vaddr &&
                     lies_within(function->st_value - part->p_vaddr, JUMP, part->p_memsz);
    }
    if (!is_mapped || function->st_size >= JUMP || function->st_shndx >= file->n_sections)
        return is_mapped && function->st_size >= JUMP;
    const Elf64_Shdr *section = &file->sections[function->st_shndx];
    if (function->st_value < section->sh_addr || !lies_within(function->st_value - section->sh_addr, JUMP, section->sh_size))
        return false;
    for (size_t i = 0; i < file->n; i++) {
        if (function_name(file, &file->symbols[i]) && file->symbols[i].st_value > function->st_value && file->symbols[i].st_value - function->st_value < JUMP)
            return false;
    }
    return true;
}

/* False where it stands already, or the system does not let us. */
static bool write_jump(uint64_t from, const void *to)
{
    uint8_t jump[JUMP] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3}; /* mov $to, %r11; jmp *%r11 */
    memcpy(jump + 2, &to, sizeof to);
    if (memcmp((const void *)from, jump, sizeof jump) == 0) // NOLINT(performance-no-int-to-ptr)
        return false;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = from / page * page;
    void *pages = (void *)begin; // NOLINT(performance-no-int-to-ptr)
    size_t bytes = (size_t)(from + JUMP - begin);
    if (mprotect(pages, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return false;
    memcpy((void *)from, jump, sizeof jump); // NOLINT(performance-no-int-to-ptr)
    return mprotect(pages, bytes, PROT_READ | PROT_EXEC) == 0;
}

/* Kernels were registered with the runtime that was there, by the functions that nvcc writes for it: again, with ours. */
static void register_again(const File *file)
{
    for (size_t i = 0; i < file->n; i++) {
        const char *name = function_name(file, &file->symbols[i]);
        if (name && strncmp(name, "__cudaRegisterLinkedBinary", strlen("__cudaRegisterLinkedBinary")) == 0) {
            pretend_say_once(
                "a library of device code linked across files (nvcc -rdc=true) was loaded late, with CUDA's runtime linked into it: its kernels are not known");
            return; /* it counts its parts, and has room for each once */
        }
    }
    for (size_t i = 0; i < file->n; i++) {
        const char *name = function_name(file, &file->symbols[i]);
        if (!name || !strstr(name, "__sti____cudaRegisterAll"))
            continue;
        void (*run)(void) = NULL;
        uint64_t at = file->loaded->dlpi_addr + file->symbols[i].st_value;
        memcpy(&run, &at, sizeof run);
        run();
    }
}

static int (*linked_version)(int *); /* of the last such runtime: it knows without a driver */

int pretend_linked_version(void)
{
    int version = 0;
    return linked_version && linked_version(&version) == 0 ? version : 0;
}

/* Calls of a program that was compiled for default streams of each thread's own (nvcc --default-stream per-thread): those are the default stream here. */
static bool is_per_thread(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0);
}

/* What stands for a function of the runtime's; NULL: nothing of ours. @shared: a runtime of its own, whose other names are found with us first. */
static const void *stand_in(const char *name, bool shared)
{
    char bare[128];
    bool per_thread = is_per_thread(name);
    if ((strncmp(name, "cuda", 4) != 0 && strncmp(name, "__cuda", 6) != 0) || (shared && !per_thread))
        return NULL;
    snprintf(bare, sizeof bare, "%.*s", (int)(strlen(name) - (per_thread ? 5 : 0)), name);
    return pretend_own_symbol(bare);
}

/* @began: its own constructors have run. */
static void redirect(const File *file, bool shared, bool began)
{
    static const char sign[] = "\0cudaGetExportTable"; /* as no function of a program's own is called, nor one of ours */
    /* Of functions that only look for the shared runtime and jump there (XLA's, made by Implib.so): they find ours, and have begun when we come here. */
    static const char forwards[] = "\0_cudart_tramp_table";
    if (!memmem(file->names, file->names_bytes, sign, sizeof sign) || memmem(file->names, file->names_bytes, forwards, sizeof forwards))
        return;
    size_t done = 0;
    for (size_t i = 0; i < file->n; i++) {
        const char *name = function_name(file, &file->symbols[i]);
        if (name && !shared && strcmp(name, "cudaRuntimeGetVersion") == 0) {
            uint64_t at = file->loaded->dlpi_addr + file->symbols[i].st_value;
            memcpy(&linked_version, &at, sizeof at);
            continue;
        }
        const void *ours = name ? stand_in(name, shared) : NULL;
        if (ours && has_room(file, &file->symbols[i]) && write_jump(file->loaded->dlpi_addr + file->symbols[i].st_value, ours))
            done++;
    }
    if (done > 0 && began && !shared)
        register_again(file);
}

static void look_into(const struct dl_phdr_info *loaded, bool began)
{
    /* Ours stand for them as a whole, or nobody asks them anything. In cuSOLVER's runtime a list becomes a ring when all is registered again (13.0), over
     * which its runtime goes for ever when the process ends. */
    static const char *const left[] = {"libnccl.", "libnvshmem", "nvshmem_", "libcusolver."};
    const char *path = loaded->dlpi_name[0] ? loaded->dlpi_name : "/proc/self/exe", *slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < sizeof left / sizeof *left; i++)
        if (strncmp(slash + 1, left[i], strlen(left[i])) == 0)
            return;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    bool is_file = descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
    void *data = is_file ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    if (descriptor >= 0)
        close(descriptor);
    if (data == MAP_FAILED)
        return;
    File file = {.loaded = loaded, .data = data, .bytes = (size_t)status.st_size};
    bool shared = slash && strncmp(slash + 1, "libcudart.", strlen("libcudart.")) == 0;
    if (find_symbols(&file, shared ? SHT_DYNSYM : SHT_SYMTAB))
        redirect(&file, shared, began);
    munmap(data, (size_t)status.st_size);
}

/* Of the files that are loaded, how many had come and how many had gone when all were last looked at. New ones stand behind the others. Under the linker's
 * lock. */
static unsigned long long came, went;

typedef struct {
    size_t number;
    unsigned long long came, went;
    bool starts;
} Look;

static int look_at(struct dl_phdr_info *loaded, size_t bytes, void *data)
{
    (void)bytes;
    Look *look = data;
    look->came = loaded->dlpi_adds;
    look->went = loaded->dlpi_subs;
    if (look->came == came && look->went == went)
        return 1;
    if (look->went != went || look->number >= came - went)
        look_into(loaded, !look->starts || look->number > 0);
    look->number++;
    return 0;
}

static void look(bool starts)
{
    Look look = {.starts = starts};
    dl_iterate_phdr(look_at, &look);
    came = look.came;
    went = look.went;
}

void pretend_redirect_linked(void)
{
    look(false);
}

/* The program's own file comes first, and its constructors last. */
__attribute__((constructor)) static void redirect_program(void)
{
    look(true);
}

#else

void pretend_redirect_linked(void)
{
}

int pretend_linked_version(void)
{
    return 0;
}

#endif
