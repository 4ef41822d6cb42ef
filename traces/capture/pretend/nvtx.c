/* NVTX: ranges and marks of the program and of PyTorch's operators. Version 3 is headers only and hands its callbacks to the library that
 * NVTX_INJECTION64_PATH names; version 2 is a library whose names we have. */
#include "pretend.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* nvtxTypes.h of version 3. */
enum { CALLBACKS = 1, CORE = 1, CORE2 = 5 };
enum { MARK_EX = 1, MARK_A = 2, MARK_W = 3, PUSH_EX = 8, PUSH_A = 9, PUSH_W = 10, POP = 11 };
enum { DOMAIN_MARK_EX = 1, DOMAIN_PUSH_EX = 4, DOMAIN_POP = 5, DOMAIN_REGISTER_A = 10, DOMAIN_REGISTER_W = 11, DOMAIN_CREATE_A = 12 };
enum { TEXT_ASCII = 1, TEXT_WIDE = 2, TEXT_REGISTERED = 3 };

typedef void (*Function)(void);

typedef struct {
    size_t bytes;
    int (*module_functions)(int module, Function ***ret_table, unsigned *ret_n);
} Callbacks;

typedef struct {
    uint16_t version, bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t text_type;
    const void *text;
} Attributes;

static __thread int depth, quiet;
static __thread uint64_t hushed;         /* bits: open ranges that are not written, the innermost lowest */
static __thread uint64_t operators;      /* bits: those of XLA's domain that are TensorFlow's operators, likewise */
static __thread char innermost[64][256]; /* names of operators that are open, without their numbers */

/* The Python hook's own operators are no part of the program. */
PRETEND_EXPORT void pretend_quiet(int on)
{
    quiet = on;
}

/* An operator that the host's processor ran on @read and @written bytes of its own memory: the device was asked for nothing meanwhile. */
PRETEND_EXPORT void pretend_host_work(const char *name, uint64_t read, uint64_t written)
{
    uint32_t number = pretend_name(name);
    pretend_event("host", "%d %" PRIu32 " %" PRIu64 " %" PRIu64, pretend_current_device(), number, read, written);
}

/* What the host did took it as long as so many operators, and no range tells it. */
PRETEND_EXPORT void pretend_asked(unsigned so_many)
{
    pretend_line("asked", "%u", so_many);
}

/* PyTorch's ranges of operators carry a number of the operator and those of its inputs' makers, which would make each text another. */
static void write_text(const char *word, const char *text)
{
    char some[4096];
    const char *number = text ? strstr(text, ", op_id = ") : NULL;
    size_t before = number ? (size_t)(number - text) : 0;
    if (number && before < sizeof some / 2) {
        const char *rest = number + strlen(", op_id = ");
        rest += strspn(rest, "0123456789");
        const char *makers = strstr(rest, ", input_op_ids = ");
        size_t n = makers ? (size_t)(makers - rest) : strlen(rest);
        n = n < sizeof some - before - 1 ? n : sizeof some - before - 1;
        memcpy(some, text, before);
        memcpy(some + before, rest, n);
        some[before + n] = '\0';
        text = some;
    }
    pretend_event(word, "%ld %u", (long)gettid(), text && strstr(text, ", seq = ") ? pretend_new_name(text) : pretend_name(text ? text : ""));
}

static void write_wide(const char *word, const wchar_t *text)
{
    char narrow[1024] = "";
    size_t n = 0;
    for (; text && text[n] && n + 1 < sizeof narrow; n++)
        narrow[n] = text[n] > 0 && text[n] < 0x7f ? (char)text[n] : '?';
    narrow[n] = '\0';
    write_text(word, narrow);
}

/* NULL where there is none, and of wide ones. A registered text is what we gave for it: a copy of the text. */
static const char *text_of(const Attributes *attributes)
{
    bool whole = attributes && attributes->bytes >= sizeof *attributes;
    return whole && (attributes->text_type == TEXT_ASCII || attributes->text_type == TEXT_REGISTERED) ? attributes->text : NULL;
}

static void write_attributes(const char *word, const Attributes *attributes)
{
    if (attributes && attributes->bytes >= sizeof *attributes && attributes->text_type == TEXT_WIDE)
        write_wide(word, attributes->text);
    else
        write_text(word, text_of(attributes));
}

PRETEND_EXPORT void nvtxMarkA(const char *text)
{
    write_text("mark", text);
}

PRETEND_EXPORT void nvtxMarkW(const wchar_t *text)
{
    write_wide("mark", text);
}

PRETEND_EXPORT void nvtxMarkEx(const Attributes *attributes)
{
    write_attributes("mark", attributes);
}

/* An operator that the hook hands on, or a generated kernel of which it says more, opens its range once more; that in which the hook says more of an operator
 * is none of these. */
static bool is_repeated(const char *text)
{
    if (depth >= 64)
        return quiet;
    if (strncmp(text, "PythonDispatchMode", 18) == 0) { /* the hook itself */
        snprintf(innermost[depth], sizeof *innermost, "%s", depth > 0 ? innermost[depth - 1] : "");
        return true;
    }
    size_t n = strcspn(text, ",");
    bool named = (strncmp(text, "aten::", 6) == 0 || strncmp(text, "triton_", 7) == 0) && n < sizeof *innermost;
    bool more = named && *text == 'a' && strstr(text, ", types = [");
    bool again = named && !more && depth > 0 && strncmp(innermost[depth - 1], text, n) == 0 && innermost[depth - 1][n] == '\0';
    snprintf(innermost[depth], sizeof *innermost, "%.*s", named ? (int)n : 0, text);
    return again || quiet;
}

PRETEND_EXPORT int nvtxRangePushA(const char *text)
{
    bool hush = is_repeated(text ? text : "");
    hushed = hushed << 1 | hush;
    if (!hush)
        write_text("push", text);
    return depth++;
}

PRETEND_EXPORT int nvtxRangePushW(const wchar_t *text)
{
    hushed <<= 1;
    if (depth < 64)
        *innermost[depth] = '\0';
    write_wide("push", text);
    return depth++;
}

PRETEND_EXPORT int nvtxRangePushEx(const Attributes *attributes)
{
    hushed <<= 1;
    if (depth < 64)
        *innermost[depth] = '\0';
    write_attributes("push", attributes);
    return depth++;
}

PRETEND_EXPORT int nvtxRangePop(void)
{
    if (depth == 0)
        return -2; /* NVTX_NO_PUSH_POP_TRACKING */
    if (!(hushed & 1))
        pretend_event("pop", "%ld", (long)gettid());
    hushed >>= 1;
    return --depth;
}

static void *domain_register(void *domain, const char *text)
{
    (void)domain;
    return text ? strdup(text) : NULL; /* lives as long as the process */
}

/* A library of a domain that it is not given asks all the same, as NCCL does; XLA does not. */
static const char xla_domain[] = "TSL";

static void *domain_create(const char *name)
{
    return name && strcmp(name, xla_domain) == 0 ? (void *)(uintptr_t)xla_domain : NULL;
}

static void domain_mark(void *domain, const Attributes *attributes)
{
    if (domain != xla_domain)
        nvtxMarkEx(attributes);
}

/* TensorFlow's operators are ranges of that domain, too: "model/dense/MatMul:MatMul", what some are given after a '#'. The length of the name; 0: none. */
static size_t operator_length(const char *text)
{
    size_t n = strcspn(text, ":#");
    return text[n] == ':' && (isalpha((unsigned char)text[n + 1]) || text[n + 1] == '_') ? n : 0;
}

/* "tf::model/dense/MatMul (MatMul)", as sim/trace/ranges.h has it; the calls that it was put into the place of are left out of its name. */
static void push_operator(const char *text, size_t n)
{
    static const char call[] = "StatefulPartitionedCall";
    const char *type = text + n + 1;
    char name[1024];
    while (n > strlen(call) && strncmp(text, call, strlen(call)) == 0) {
        size_t of_call = strcspn(text, "/:");
        if (of_call >= n)
            break;
        text += of_call + 1;
        n -= of_call + 1;
    }
    snprintf(name, sizeof name, "tf::%.*s (%.*s)", (int)n, text, (int)strcspn(type, "#"), type);
    write_text("push", name);
}

static int domain_push(void *domain, const Attributes *attributes)
{
    if (domain != xla_domain)
        return nvtxRangePushEx(attributes);
    const char *text = text_of(attributes) ? text_of(attributes) : "";
    size_t n = operator_length(text);
    operators = operators << 1 | (n > 0);
    if (n > 0) {
        pretend_name_threads();
        push_operator(text, n);
    } else
        pretend_xla_push(text);
    return 0;
}

static int domain_pop(void *domain)
{
    if (domain != xla_domain)
        return nvtxRangePop();
    if (operators & 1)
        pretend_event("pop", "%ld", (long)gettid());
    else
        pretend_xla_pop();
    operators >>= 1;
    return 0;
}

static void *domain_register_wide(void *domain, const wchar_t *text)
{
    (void)domain;
    size_t n = text ? wcslen(text) : 0;
    char *narrow = malloc(n + 1);
    for (size_t i = 0; narrow && i <= n; i++)
        narrow[i] = i == n ? '\0' : text[i] > 0 && text[i] < 0x7f ? (char)text[i] : '?';
    return narrow;
}

/* Called by each library's copy of NVTX, before its first range; 1: go on. */
PRETEND_EXPORT int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id))
{
    const Callbacks *callbacks = get_export_table ? get_export_table(CALLBACKS) : NULL;
    Function **core = NULL, **core2 = NULL;
    unsigned n = 0, n2 = 0;
    if (!callbacks || callbacks->bytes < sizeof *callbacks || !callbacks->module_functions(CORE, &core, &n) || !callbacks->module_functions(CORE2, &core2, &n2))
        return 0;
    const struct {
        unsigned id;
        Function function;
    } of_core[] = {{MARK_EX, (Function)nvtxMarkEx},    {MARK_A, (Function)nvtxMarkA},      {MARK_W, (Function)nvtxMarkW}, {PUSH_EX, (Function)nvtxRangePushEx},
                   {PUSH_A, (Function)nvtxRangePushA}, {PUSH_W, (Function)nvtxRangePushW}, {POP, (Function)nvtxRangePop}},
      of_core2[] = {{DOMAIN_MARK_EX, (Function)domain_mark},    {DOMAIN_PUSH_EX, (Function)domain_push},
                    {DOMAIN_POP, (Function)domain_pop},         {DOMAIN_REGISTER_A, (Function)domain_register},
                    {DOMAIN_CREATE_A, (Function)domain_create}, {DOMAIN_REGISTER_W, (Function)domain_register_wide}};
    for (size_t i = 0; i < sizeof of_core / sizeof *of_core; i++) {
        if (of_core[i].id < n && core[of_core[i].id])
            *core[of_core[i].id] = of_core[i].function;
    }
    for (size_t i = 0; i < sizeof of_core2 / sizeof *of_core2; i++) {
        if (of_core2[i].id < n2 && core2[of_core2[i].id])
            *core2[of_core2[i].id] = of_core2[i].function;
    }
    return 1;
}
