/* What machine code says of its kernels: parameters, registers, threads, shared memory. Fat binaries are decoded when a kernel of theirs is first asked for, of
 * the chosen architecture alone, and only those numbers are kept. Formats: as nvcc 13.0 and PyTorch's wheels of CUDA 12 and 13 have them. */
#include "pretend.h"
#include "ptx.h"
#include "sim/base/fnv.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entry of a fat binary: kind at 0 (1 PTX, 2 machine code), its header's bytes at 4, bytes behind that at 8, of them compressed ones at 16, version at 28,
 * flags at 40, decoded bytes at 56. */
enum { PTX = 1, CODE = 2, LEAST = 32, WHOLE = 64 };
#define FLAG_LZ4 UINT64_C(0x2000)
#define FLAG_ZSTD UINT64_C(0x8000)
#define MOST_DECODED (UINT64_C(1) << 30)
#define MOST_KEPT (UINT64_C(1) << 26)

/* A variable of the device. */
typedef struct {
    char *name;
    uint64_t bytes;
    void *address[PRETEND_DEVICES]; /* of each device; NULL: not taken yet */
} Variable;

struct PretendCode {
    int version;           /* 10 * major + minor; PRETEND_NO_CODE, PRETEND_ANY_CODE */
    int kind;              /* Of the entries that suit the device: CODE or PTX. */
    const uint8_t *binary; /* Of a fat binary not yet decoded; NULL: there is no more to read. */
    const uint8_t *whole;  /* The same, decoded or not, where it stays. NULL: it does not, or is none. */
    uint8_t *kept;         /* That, where it is a copy. */
    char *text;            /* PTX of what was handed over as that; or NULL. */
    const char *wanted;    /* While a kernel is looked for in PTX: its name, */
    PtxKernel *found;      /* and what that is. */
    bool has_left;         /* Its file was unloaded. */
    PretendCode *next_left;
    PretendKernelCode *kernels; /* by name */
    size_t n, room;
    Variable *variables;
    size_t n_variables;
};

static uint64_t number_at(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* ---- decoding ---- */

/* A length of LZ4 that goes on in bytes of 255. */
static bool lengthen(const uint8_t **at, const uint8_t *end, size_t *length)
{
    for (uint8_t more = *length == 15 ? 255 : 0; more == 255;) {
        if (*at == end)
            return false;
        more = *(*at)++;
        *length += more;
    }
    return true;
}

/* LZ4's block format (lz4_Block_format.md): a token of two lengths, literals, and how far back the match begins. @from may be padded behind the last match. */
static bool decode_lz4(const uint8_t *from, size_t n, uint8_t *to, size_t room)
{
    const uint8_t *at = from, *end = from + n;
    size_t done = 0;
    while (done < room) {
        if (at == end)
            return false;
        size_t literals = *at >> 4, match = *at & 15;
        at++;
        if (!lengthen(&at, end, &literals) || literals > (size_t)(end - at) || literals > room - done)
            return false;
        memcpy(to + done, at, literals);
        at += literals;
        done += literals;
        if (done == room)
            return true;
        if (end - at < 2)
            return false;
        size_t back = (size_t)number_at(at, 2);
        at += 2;
        if (!lengthen(&at, end, &match) || back == 0 || back > done || (match += 4) > room - done)
            return false;
        for (size_t i = 0; i < match; i++, done++)
            to[done] = to[done - back];
    }
    return true;
}

/* By the program's or the system's own library. */
static size_t (*decompress)(void *to, size_t room, const void *from, size_t n);
static pthread_once_t zstd_once = PTHREAD_ONCE_INIT; /* before the lock is taken */

static void find_zstd(void)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(library, "ZSTD_decompress") : NULL;
    memcpy(&decompress, &found, sizeof found);
}

static bool decode_zstd(const uint8_t *from, size_t n, uint8_t *to, size_t room)
{
    if (!decompress)
        pretend_say_once("kernels are compressed by zstd and there is no libzstd.so.1 to read them: which arrays they use is not recorded");
    return decompress && decompress(to, room, from, n) == room;
}

/* ---- what is read ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const PretendKernelCode *)a)->name, ((const PretendKernelCode *)b)->name);
}

/* Of a sorted table. */
static PretendKernelCode *kernel_named(const PretendCode *code, const char *name)
{
    const PretendKernelCode key = {.name = name};
    return code->n > 0 ? bsearch(&key, code->kernels, code->n, sizeof key, by_name) : NULL;
}

static uint64_t numbered; /* kernels so far */

static PretendKernelCode *add_kernel(PretendCode *code, const char *name)
{
    if (code->n == code->room) {
        size_t room = code->room ? 2 * code->room : 16;
        PretendKernelCode *larger = realloc(code->kernels, room * sizeof *larger);
        if (!larger)
            return NULL;
        code->kernels = larger;
        code->room = room;
    }
    char *kept = strdup(name);
    if (!kept)
        return NULL;
    code->kernels[code->n] = (PretendKernelCode){.name = kept, .of = code, .number = __atomic_add_fetch(&numbered, 1, __ATOMIC_RELAXED)};
    return &code->kernels[code->n++];
}

static void add_parameter(PretendKernelCode *kernel, size_t ordinal, uint64_t bytes)
{
    if (ordinal >= kernel->n_parameters) {
        uint32_t *larger = realloc(kernel->parameters, (ordinal + 1) * sizeof *larger);
        if (!larger)
            return;
        memset(larger + kernel->n_parameters, 0, (ordinal + 1 - kernel->n_parameters) * sizeof *larger);
        kernel->parameters = larger;
        kernel->n_parameters = ordinal + 1;
    }
    kernel->parameters[ordinal] = (uint32_t)bytes;
}

/* Section .nv.info.KERNEL: attributes of a format (4: as many bytes follow as its value says), a kind and a value. Kinds: 5 most threads of a block (three
 * numbers), 0x17 and 0x45 a parameter: its ordinal at 4, its bytes above bit 18 of the number at 8, or the lower half of that number (PyTorch's for a B200:
 * what is a pointer has 0x500 above). */
static void read_info(PretendKernelCode *kernel, const uint8_t *at, const uint8_t *end)
{
    enum { SIZED = 4, THREADS = 5, PARAMETER = 0x17, LONG_PARAMETER = 0x45 };
    while (end - at >= 4) {
        int format = at[0], kind = at[1];
        size_t value = (size_t)number_at(at + 2, 2), bytes = format == SIZED ? value : 0;
        at += 4;
        if (bytes > (size_t)(end - at))
            return;
        if (kind == PARAMETER && bytes >= 12)
            add_parameter(kernel, (size_t)number_at(at + 4, 2), number_at(at + 8, 4) >> 18);
        if (kind == LONG_PARAMETER && bytes >= 12)
            add_parameter(kernel, (size_t)number_at(at + 4, 2), number_at(at + 8, 2));
        if (kind == THREADS && bytes >= 12)
            kernel->threads = (uint32_t)(number_at(at, 4) * number_at(at + 4, 4) * number_at(at + 8, 4));
        at += bytes;
    }
}

static void add_variable(PretendCode *code, const char *name, uint64_t bytes)
{
    Variable *larger = realloc(code->variables, (code->n_variables + 1) * sizeof *larger);
    char *kept = strdup(name);
    if (larger)
        code->variables = larger;
    if (larger && kept)
        code->variables[code->n_variables++] = (Variable){.name = kept, .bytes = bytes};
    else
        free(kept);
}

/* Of @n bytes of an ELF file with so many @sections from @table on: what its table of symbols has of kind "object" that others see. */
static void read_variables(PretendCode *code, const uint8_t *data, size_t n, uint64_t table, uint64_t sections)
{
    enum { SECTION = 64, SYMBOLS = 2, SYMBOL = 24, GLOBAL_OBJECT = 1 << 4 | 1 };
    for (uint64_t i = 0; i < sections; i++) {
        const uint8_t *section = data + table + i * SECTION;
        uint64_t at = number_at(section + 24, 8), bytes = number_at(section + 32, 8), link = number_at(section + 40, 4);
        if (number_at(section + 4, 4) != SYMBOLS || at > n || bytes > n - at || link >= sections)
            continue;
        const uint8_t *names = data + table + link * SECTION;
        uint64_t names_at = number_at(names + 24, 8), names_bytes = number_at(names + 32, 8);
        if (names_at > n || names_bytes > n - names_at || names_bytes == 0 || data[names_at + names_bytes - 1] != '\0')
            continue;
        for (uint64_t s = at; s + SYMBOL <= at + bytes; s += SYMBOL) {
            uint64_t name = number_at(data + s, 4);
            if (data[s + 4] == GLOBAL_OBJECT && name < names_bytes && number_at(data + s + 16, 8) > 0)
                add_variable(code, (const char *)data + names_at + name, number_at(data + s + 16, 8));
        }
    }
}

/* Machine code is an ELF file (64 bit): sections .nv.info.KERNEL, .text.KERNEL (its registers in the upper byte of sh_info) and .nv.shared.KERNEL. */
static bool read_elf(PretendCode *code, const uint8_t *data, size_t n)
{
    enum { SECTION = 64 };
    if (n < 64 || memcmp(data,
                         "\x7f"
                         "ELF\2",
                         5) != 0)
        return false;
    uint64_t table = number_at(data + 40, 8), sections = number_at(data + 60, 2), names = number_at(data + 62, 2);
    if (names >= sections || table > n || sections * SECTION > n - table)
        return false;
    const uint8_t *text = data + table + names * SECTION;
    uint64_t text_at = number_at(text + 24, 8), text_bytes = number_at(text + 32, 8);
    if (text_at > n || text_bytes > n - text_at || text_bytes == 0 || data[text_at + text_bytes - 1] != '\0')
        return false;
    static const char *const kinds[] = {".nv.info.", ".text.", ".nv.shared."};
    for (size_t kind = 0; kind < 3; kind++) {
        size_t length = strlen(kinds[kind]);
        for (uint64_t i = 0; i < sections; i++) {
            const uint8_t *section = data + table + i * SECTION;
            uint64_t name_at = number_at(section, 4), at = number_at(section + 24, 8), bytes = number_at(section + 32, 8);
            const char *name = name_at < text_bytes ? (const char *)data + text_at + name_at : "";
            if (strncmp(name, kinds[kind], length) != 0)
                continue;
            PretendKernelCode *kernel = kind == 0 ? add_kernel(code, name + length) : kernel_named(code, name + length);
            if (kernel && kind == 0 && at <= n && bytes <= n - at)
                read_info(kernel, data + at, data + at + bytes);
            if (kernel && kind == 1)
                kernel->registers = (uint32_t)number_at(section + 44, 4) >> 24;
            if (kernel && kind == 2)
                kernel->shared = (uint32_t)bytes;
        }
        if (kind == 0 && code->n > 0)
            qsort(code->kernels, code->n, sizeof *code->kernels, by_name);
    }
    read_variables(code, data, n, table, sections);
    return true;
}

/* ---- PTX: what a driver compiles where there is no machine code for the device (PTX ISA 8.5: chapters 5 and 11) ---- */

/* Bytes of a type as ".u64" says it; 0 of any other word. */
static uint64_t type_bytes(const char *at, size_t n)
{
    bool is_type = n >= 3 && n <= 5 && at[0] == '.' && strchr("bsuf", at[1]) && isdigit((unsigned char)at[2]);
    return is_type ? strtoull(at + 2, NULL, 10) / 8 : 0;
}

/* A variable or parameter: its bytes; *@at is behind its last word, the sign before @ends. */
static uint64_t declared_bytes(const char **at, const char *ends)
{
    uint64_t each = 0, count = 1;
    for (size_t n = 0;;) {
        const char *word = ptx_word(*at, &n);
        if (n == 0 || (n == 1 && strchr(ends, *word)))
            return each * count;
        each = type_bytes(word, n) ? type_bytes(word, n) : each;
        *at = word + n;
        if (n == 1 && *word == '[')
            count *= strtoull(*at, NULL, 10); /* an extern array of no length takes none */
    }
}

/* What stands between a kernel's parameters and its body: .maxntid and .reqntid say the threads of a block. */
static const char *read_limits(PretendKernelCode *kernel, const char *at)
{
    for (size_t n = 0;; at += n) {
        at = ptx_word(at, &n);
        if (n == 0 || *at == '{' || *at == ';')
            return at;
        if (ptx_is_word(at, n, ".maxntid") || ptx_is_word(at, n, ".reqntid")) {
            uint32_t threads = 1;
            do {
                char *end;
                threads *= (uint32_t)strtoul(at + n, &end, 10);
                at = ptx_word(end, &n);
            } while (n == 1 && *at == ',');
            kernel->threads = threads;
            n = 0;
        }
    }
}

/* Behind ".entry". Returns where its body ends. */
static const char *read_ptx_kernel(PretendCode *code, const char *at)
{
    size_t n;
    at = ptx_word(at, &n);
    char *name = strndup(at, n);
    PretendKernelCode *kernel = name ? add_kernel(code, name) : NULL;
    free(name);
    at = ptx_word(at + n, &n);
    if (!kernel)
        return at;
    for (size_t ordinal = 0; n == 1 && (*at == '(' || *at == ','); ordinal++) {
        at++;
        uint64_t bytes = declared_bytes(&at, ",)");
        if (bytes > 0)
            add_parameter(kernel, ordinal, bytes);
        at = ptx_word(at, &n);
    }
    at = read_limits(kernel, n == 1 && *at == ')' ? at + 1 : at);
    for (int depth = 0;; at += n) {
        at = ptx_word(at, &n);
        depth += n == 1 && *at == '{';
        depth -= n == 1 && *at == '}';
        if (n == 0 || depth <= 0)
            return at;
        if (ptx_is_word(at, n, ".shared")) {
            at += n;
            kernel->shared += (uint32_t)declared_bytes(&at, ";");
            n = 0;
        }
    }
}

static void read_ptx(PretendCode *code, const char *text)
{
    for (size_t n = 0;; text += n) {
        text = ptx_word(text, &n);
        if (n == 0)
            break;
        if (ptx_is_word(text, n, ".entry")) {
            text = read_ptx_kernel(code, text + n);
            n = 0;
        }
    }
    if (code->n > 0)
        qsort(code->kernels, code->n, sizeof *code->kernels, by_name);
}

/* What an entry holds, whole: its kernels, or the one that is wanted. */
static void read_content(PretendCode *code, const uint8_t *data, size_t n)
{
    if (code->kind != PTX) {
        read_elf(code, data, n);
        return;
    }
    char *text = strndup((const char *)data, n);
    if (text && code->wanted)
        code->found = code->found ? code->found : ptx_kernel_new(text, code->wanted);
    else if (text)
        read_ptx(code, text);
    free(text);
}

static void read_entry(PretendCode *code, const uint8_t *entry, uint64_t header, uint64_t bytes)
{
    uint64_t flags = header >= WHOLE ? number_at(entry + 40, 8) : 0;
    if (!(flags & (FLAG_LZ4 | FLAG_ZSTD))) {
        read_content(code, entry + header, bytes);
        return;
    }
    uint64_t packed = number_at(entry + 16, 4), whole = number_at(entry + 56, 8);
    uint8_t *decoded = packed > 0 && packed <= bytes && whole > 0 && whole <= MOST_DECODED ? malloc(whole) : NULL;
    if (decoded && (flags & FLAG_LZ4 ? decode_lz4 : decode_zstd)(entry + header, packed, decoded, whole))
        read_content(code, decoded, whole);
    free(decoded);
}

typedef void (*Visit)(PretendCode *code, const uint8_t *entry, uint64_t header, uint64_t bytes);

/* Of a fat binary: a header (magic, version, its own bytes, bytes behind it) and entries. False where it is none. */
static bool for_entries(PretendCode *code, const uint8_t *binary, Visit visit)
{
    if (!binary || number_at(binary, 4) != UINT64_C(0xba55ed50))
        return false;
    const uint8_t *at = binary + number_at(binary + 6, 2), *end = at + number_at(binary + 8, 8);
    while (end - at >= LEAST) {
        uint64_t header = number_at(at + 4, 4), bytes = number_at(at + 8, 8), left = (uint64_t)(end - at);
        if (header < LEAST || header > left || bytes > left - header)
            return false;
        visit(code, at, header, bytes);
        at += header + bytes;
    }
    return true;
}

static int version_of_entry(const uint8_t *entry, int kind)
{
    return (int)number_at(entry, 2) == kind ? (int)number_at(entry + 28, 4) : PRETEND_NO_CODE;
}

static int device_version(void)
{
    return (int)(10 * pretend_device()->major + pretend_device()->minor);
}

static void choose_code(PretendCode *code, const uint8_t *entry, uint64_t header, uint64_t bytes)
{
    (void)header, (void)bytes;
    int version = version_of_entry(entry, CODE), device = device_version();
    if (version / 10 == device / 10 && version <= device && version > code->version)
        code->version = version;
}

static void choose_ptx(PretendCode *code, const uint8_t *entry, uint64_t header, uint64_t bytes)
{
    (void)header, (void)bytes;
    int version = version_of_entry(entry, PTX);
    if (version <= device_version() && version > code->version)
        code->version = version;
}

/* What is newer than the device says of most kernels what older code does: the oldest of that. */
static void choose_newer_ptx(PretendCode *code, const uint8_t *entry, uint64_t header, uint64_t bytes)
{
    (void)header, (void)bytes;
    int version = version_of_entry(entry, PTX);
    if (version > device_version() && (code->version == PRETEND_NO_CODE || version < code->version))
        code->version = version;
}

static void read_chosen(PretendCode *code, const uint8_t *entry, uint64_t header, uint64_t bytes)
{
    if (version_of_entry(entry, code->kind) == code->version)
        read_entry(code, entry, header, bytes);
}

/* Of the code in a fat binary what the driver would load: machine code of the device's major version and no later minor one, else PTX of no later version. */
static void choose(PretendCode *code, const uint8_t *binary)
{
    if (!for_entries(code, binary, choose_code)) {
        code->version = PRETEND_ANY_CODE;
        return;
    }
    code->kind = code->version == PRETEND_NO_CODE ? PTX : CODE;
    if (code->kind == PTX)
        for_entries(code, binary, choose_ptx);
    code->binary = code->whole = binary;
}

/* Byte by byte: what is handed over may be a text of none. */
static bool begins(const uint8_t *image, const char *magic)
{
    for (size_t i = 0; i < 4; i++)
        if (image[i] != (uint8_t)magic[i])
            return false;
    return true;
}

/* The wrapper that compilers register holds a magic number, a version and the binary's address. */
static const uint8_t *unwrapped(const uint8_t *image)
{
    return image && begins(image, "\xb1\x43\x62\x46") ? (const uint8_t *)(uintptr_t)number_at(image + 8, 8) : NULL;
}

PretendCode *pretend_code_of_wrapper(const void *wrapper)
{
    PretendCode *code = calloc(1, sizeof *code);
    if (code)
        choose(code, unwrapped(wrapper));
    return code;
}

/* An ELF file tells its length by where its last table ends: that of sections, or of segments behind it. */
static size_t elf_bytes(const uint8_t *data)
{
    uint64_t segments = number_at(data + 32, 8) + number_at(data + 54, 2) * number_at(data + 56, 2),
             sections = number_at(data + 40, 8) + number_at(data + 58, 2) * number_at(data + 60, 2);
    return (size_t)(segments > sections ? segments : sections);
}

/* A text of PTX begins with ".version", behind comments. */
static bool is_ptx(const char *text)
{
    size_t n;
    text = ptx_word(text, &n);
    return ptx_is_word(text, n, ".version");
}

/* What was compiled at run time, the newest first: the machine code by its bytes and a hash of them. */
typedef struct Made {
    uint64_t hash;
    size_t bytes;
    char *ptx;
    struct Made *next;
} Made;

static Made *made;

void pretend_code_made_of(const void *image, size_t bytes, char *ptx)
{
    Made *one = malloc(sizeof *one);
    if (!one) {
        free(ptx);
        return;
    }
    pretend_lock();
    *one = (Made){ech_fnv(ECH_FNV, image, bytes), bytes, ptx, made};
    made = one;
    pretend_unlock();
}

static char *text_of(const uint8_t *image, size_t bytes)
{
    char *text = NULL;
    pretend_lock();
    uint64_t hash = made ? ech_fnv(ECH_FNV, image, bytes) : 0;
    for (const Made *one = made; one && !text; one = one->next)
        text = one->hash == hash && one->bytes == bytes ? strdup(one->ptx) : NULL;
    pretend_unlock();
    return text;
}

/* What the caller may let go of, for the PTX in it. */
static void keep_binary(PretendCode *code, const uint8_t *binary)
{
    if (!binary)
        return;
    uint64_t bytes = number_at(binary + 6, 2) + number_at(binary + 8, 8);
    code->kept = bytes <= MOST_KEPT ? malloc(bytes) : NULL;
    if (code->kept)
        memcpy(code->kept, binary, bytes);
    code->whole = code->kept;
}

PretendCode *pretend_code_of_image(const void *image)
{
    PretendCode *code = calloc(1, sizeof *code);
    if (code)
        code->version = PRETEND_ANY_CODE;
    if (!code || !image)
        return code;
    pthread_once(&zstd_once, find_zstd);
    const uint8_t *binary = unwrapped(image);
    if (begins(image, "\x7f"
                      "ELF")) {
        read_elf(code, image, elf_bytes(image));
        code->text = text_of(image, elf_bytes(image));
    } else if (binary || begins(image, "\x50\xed\x55\xba")) {
        /* The caller may let go of it. */
        PretendCode chosen = {0};
        choose(&chosen, binary ? binary : image);
        code->version = chosen.version;
        code->kind = chosen.kind;
        for_entries(code, chosen.binary, read_chosen);
        keep_binary(code, chosen.binary);
    } else if (is_ptx(image)) {
        code->text = strdup(image);
        read_ptx(code, image);
    }
    return code;
}

PretendCode *pretend_code_of_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    PretendCode *code = pretend_code_of_image(NULL);
    long n = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    uint8_t *image = code && n > 0 && (uint64_t)n <= MOST_DECODED && fseek(file, 0, SEEK_SET) == 0 ? calloc((size_t)n + 1, 1) : NULL;
    if (image && fread(image, 1, (size_t)n, file) == (size_t)n) {
        if (is_ptx((const char *)image))
            read_ptx(code, (const char *)image);
        else
            read_elf(code, image, (size_t)n);
    }
    free(image);
    fclose(file);
    return code;
}

int pretend_code_version(const PretendCode *code)
{
    return code ? code->version : PRETEND_ANY_CODE;
}

static PretendCode *left;

void pretend_code_leaves(PretendCode *code)
{
    pretend_lock();
    code->binary = code->whole = NULL;
    code->has_left = true;
    code->next_left = left;
    left = code;
    pretend_unlock();
}

void pretend_code_forget(void)
{
    pretend_lock();
    while (left) {
        PretendCode *code = left;
        left = code->next_left;
        for (size_t i = 0; i < code->n; i++) {
            free((char *)(uintptr_t)code->kernels[i].name);
            free(code->kernels[i].parameters);
            ptx_kernel_free(code->kernels[i].ptx);
        }
        for (size_t i = 0; i < code->n_variables; i++)
            free(code->variables[i].name);
        free(code->kernels);
        free(code->variables);
        free(code->text);
        free(code->kept);
        free(code);
    }
    pretend_unlock();
}

bool pretend_code_has_left(const PretendCode *code)
{
    return code && code->has_left;
}

static void decode(PretendCode *code)
{
    if (code->binary)
        for_entries(code, code->binary, read_chosen);
    code->binary = NULL;
}

const PretendKernelCode *pretend_code_kernel(PretendCode *code, const char *name)
{
    if (!code)
        return NULL;
    pthread_once(&zstd_once, find_zstd);
    pretend_lock();
    decode(code);
    const PretendKernelCode *found = kernel_named(code, name);
    pretend_unlock();
    return found;
}

/* Of the PTX in a fat binary that suits the device best, whatever the driver would load. */
static PtxKernel *find_in_binary(const uint8_t *binary, const char *name)
{
    PretendCode wanted = {.kind = PTX, .wanted = name};
    for_entries(&wanted, binary, choose_ptx);
    if (wanted.version == PRETEND_NO_CODE)
        for_entries(&wanted, binary, choose_newer_ptx);
    if (wanted.version != PRETEND_NO_CODE)
        for_entries(&wanted, binary, read_chosen);
    return wanted.found;
}

PtxKernel *pretend_code_ptx(const PretendKernelCode *kernel)
{
    PretendCode *code = kernel->of;
    pretend_lock();
    PretendKernelCode *found = &code->kernels[kernel - code->kernels];
    if (!found->is_looked_for) {
        found->is_looked_for = true;
        found->ptx = code->text ? ptx_kernel_new(code->text, kernel->name) : code->whole ? find_in_binary(code->whole, kernel->name) : NULL;
    }
    pretend_unlock();
    return found->ptx;
}

size_t pretend_code_kernels(PretendCode *code, const char **ret_names, size_t room)
{
    size_t n = 0;
    if (!code)
        return 0;
    pthread_once(&zstd_once, find_zstd);
    pretend_lock();
    decode(code);
    for (size_t i = 0; i < code->n; i++) {
        if (code->kernels[i].n_parameters == 0)
            continue;
        if (n < room)
            ret_names[n] = code->kernels[i].name;
        n++;
    }
    pretend_unlock();
    return n;
}

void *pretend_code_variable(PretendCode *code, const char *name, uint64_t *ret_bytes)
{
    *ret_bytes = 0;
    pretend_lock();
    Variable *found = NULL;
    for (size_t i = 0; code && i < code->n_variables && !found; i++)
        if (strcmp(code->variables[i].name, name) == 0)
            found = &code->variables[i];
    void **address = found ? &found->address[(unsigned)pretend_current_device() % (sizeof found->address / sizeof *found->address)] : NULL;
    if (found && !*address)
        *address = pretend_allocate(pretend_current_device(), found->bytes, PRETEND_LIBRARY, NULL, false);
    if (found)
        *ret_bytes = found->bytes;
    void *ret = address ? *address : NULL;
    pretend_unlock();
    return ret;
}
