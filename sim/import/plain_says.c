#include "sim/import/plain_says.h"
#include "sim/base/error.h"
#include "sim/import/host_says.h"
#include "sim/import/refused.h"

#include <string.h>

enum { MAX_LINE = 2000, MAX_FILLERS = 5 };

/* More than the largest machines have. */
static const EchBytes ABSURD = UINT64_C(64) << 40;

/* ---- words, in lower case ---- */

/* Where in @line the first of @words stands that does; NULL: none. */
static const char *find_any(const char *line, const char *const *words, size_t n)
{
    const char *at = NULL;
    for (size_t i = 0; i < n && !at; i++)
        at = strstr(line, words[i]);
    return at;
}

#define FIND_ANY(line, words) find_any((line), (words), G_N_ELEMENTS(words))
#define HAS_ANY(line, words) (FIND_ANY(line, words) != NULL)

/* Where @line says that something could not be allocated, its words close together; NULL: nowhere. */
static const char *failure(const char *line)
{
    enum { CLOSE = 64 };
    static const char *const before[] = {"failed to ", "unable to ", "cannot ", "can't ", "could not ", "couldn't ", "not able to "}, *const beside[] = {
                                                                                                                                          " fail", "exceed"};
    static const char *const allocating[] = {"allocate",         "alloc ",      "malloc", "allocation of ", "createbuffer", "available shared memory",
                                             "available memory", "memory limit"};
    bool any = false;
    for (size_t k = 0; k < G_N_ELEMENTS(before) + G_N_ELEMENTS(beside); k++) {
        bool ahead = k < G_N_ELEMENTS(before);
        const char *fails = ahead ? strstr(line, before[k]) : any ? NULL : strstr(line, beside[k - G_N_ELEMENTS(before)]);
        any |= fails != NULL;
        for (size_t i = 0; i < G_N_ELEMENTS(allocating) && fails; i++) {
            for (const char *at = strstr(line, allocating[i]); at; at = strstr(at + 1, allocating[i])) {
                if (at > fails ? at - fails < CLOSE : !ahead && fails - at < CLOSE)
                    return fails;
            }
        }
    }
    return NULL;
}

/* Where @line says that memory was refused; NULL: nowhere. */
static const char *refusal(const char *line)
{
    static const char *const words[] = {"out of memory",
                                        "out_of_memory",
                                        "outofmemory",
                                        "memoryerror",
                                        "bad_alloc",
                                        "errormemoryallocation",
                                        "resource_exhausted",
                                        "resourceexhausted",
                                        "resources are exhausted",
                                        "not enough memory",
                                        "no available memory",
                                        "not enough vram",
                                        "not enough host memory",
                                        "insufficient memory",
                                        "insufficient vram",
                                        "insufficient gpu memory",
                                        "insufficient device memory",
                                        "insufficient system resources",
                                        "alloc_failed",
                                        "allocation_failure",
                                        "allocation failed",
                                        "allocator fail",
                                        "allocation failure",
                                        "out_of_device_memory",
                                        "out_of_host_memory",
                                        "outofdevicememory",
                                        "outofhostmemory",
                                        "insufficient space in device",
                                        "memory limit exceeded",
                                        "low on memory",
                                        "memory pressure (oom)",
                                        "cuda oom",
                                        "ran out of memory",
                                        "more memory than",
                                        "cuda runtime error (2)",
                                        "ur_result_error_out_of",
                                        "8007000e"};
    static const char *const what[] = {"memory", "buffer", "byte", "kib", "mib", "gib", " kb", " mb", " gb", "tensor", "array", "size:", "size="};
    /* What may come, and what gRPC and clouds call so. */
    static const char *const not_it[] = {"if you are running out", "to avoid", "may run out", "might run out", "can run out", "in case of", "prevent",
                                         "larger than max",        "quota"};
    if (HAS_ANY(line, not_it))
        return NULL;
    const char *at = FIND_ANY(line, words);
    /* "System is out of GPU and shared host memory", "out of video memory" */
    const char *out = at ? NULL : strstr(line, "out of "), *memory = out ? strstr(out, " memory") : NULL;
    if (memory && memory - out < 32 && memory < out + strcspn(out, ",.;:"))
        return out;
    return at ? at : HAS_ANY(line, what) ? failure(line) : NULL;
}

/* Where @line names what one buffer may be at most; NULL: nowhere. *ret_key: the words before that size. */
static const char *limit_of_piece(const char *line, const char **ret_key)
{
    static const char *const keys[] = {"maximum allowed buffer size", "maximum buffer size",    "max buffer size",
                                       "max buffer length",           "max_buffer_size",        "max alloc size",
                                       "max allocation size",         "maximum allocation size"};
    const char *at = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(keys) && !at; i++) {
        at = strstr(line, keys[i]);
        *ret_key = keys[i];
    }
    return at;
}

static bool does_without(const char *line)
{
    static const char *const words[] = {"ignoring",      "falling back", "fallback", "using synchronous transfer",
                                        "not a failure", "not an error", "retrying", "skipping "};
    return HAS_ANY(line, words);
}

/* Whether one of @words begins a word of @line; @whole: and is one. */
static bool has_word(const char *line, const char *const *words, size_t n, bool whole)
{
    for (size_t i = 0; i < n; i++) {
        for (const char *at = strstr(line, words[i]); at; at = strstr(at + 1, words[i])) {
            bool begins = at == line || !g_ascii_isalpha(at[-1]), ends = !g_ascii_isalpha(at[strlen(words[i])]);
            if (begins && (ends || !whole))
                return true;
        }
    }
    return false;
}

static EchPlace place_of(const char *line)
{
    static const char *const chip[] = {"shared memory", "smem", " lds", "vmem", "tensor memory", "scratchpad"};
    /* Of libibverbs and libfabric: queues and buffers of RDMA. */
    static const char *const network[] = {"ibv_", "ibverbs", "reg_mr", "fi_mr_reg"};
    static const char *const locked[] = {"mlock", "rlimit_memlock", "virtuallock", "directly in ram"};
    static const char *const pinned[] = {"pinned",     "page-lock",    "page lock",   "pin_memory",  "hostalloc", "hostmalloc",
                                         "mallochost", "hostregister", "allocmapped", "host_malloc", "host alloc"};
    static const char *const host[] = {"numpy",
                                       "and data type",
                                       "cpu",
                                       "host",
                                       "ram",
                                       "system memory",
                                       "arraymemoryerror",
                                       "on the node",
                                       "errno 12",
                                       "mmap",
                                       "runtime: out of memory",
                                       "your notebook",
                                       "erroroutofhostmemory"},
                             *const exception[] = {"bad_alloc", "memoryerror"}; /* libraries of a device throw them, too */
    static const char *const heap[] = {"javascript heap", "java heap", "reached heap limit", "gc overhead limit"};
    static const char *const metal[] = {"metal", "ggml_metal", "kiogpu", "mtl"};
    static const char *const device[] = {
        "gpu",    "cuda",     "cumem",    "vram",        "device", "hip",        "npu",  "rtmalloc",   "hbm",          "opencl",
        "ocl",    "cl_",      "clcreate", "xpu",         "vulkan", "vk_",        "tpu",  "dml",        "directml",     "cudnn",
        "cublas", "graphics", "rocm",     "framebuffer", "amdgpu", "vkallocate", "hsa_", "mem_object", "new constant", "erroroutofdevice"};
    bool of_host = has_word(line, host, G_N_ELEMENTS(host), true), of_device = has_word(line, device, G_N_ELEMENTS(device), false);
    of_host |= !of_device && has_word(line, exception, G_N_ELEMENTS(exception), true);
    bool of_metal = has_word(line, metal, G_N_ELEMENTS(metal), false) && !strstr(line, "bare");
    return strstr(line, "(shm)") || strstr(line, "/dev/shm") ? ECH_PLACE_HOST
           : HAS_ANY(line, heap)                             ? ECH_PLACE_HEAP
           : HAS_ANY(line, chip)                             ? ECH_PLACE_CHIP
           : HAS_ANY(line, network)                          ? ECH_PLACE_NETWORK
           : HAS_ANY(line, locked)                           ? ECH_PLACE_LOCKED
           : HAS_ANY(line, pinned)                           ? ECH_PLACE_PINNED
           : of_metal                                        ? ECH_PLACE_METAL
           : of_host && !of_device                           ? ECH_PLACE_HOST
           : of_device && !of_host                           ? ECH_PLACE_DEVICE
                                                             : ECH_PLACE_UNTOLD;
}

/* ---- calls ---- */

#define RICH_CALL "\u2771 "

/* The frame of Python's traceback that was read last. */
typedef struct {
    uint64_t number, last; /* of its first line, and of the last that is its call's; 0: none */
    bool torch;            /* Its call is one of torch's. */
    bool pins;             /* It page-locks memory of the host. */
} Frame;

/* Whether a frame's line, its call or its function, page-locks: "in pin_memory", "return tensor.pin_memory()", "torch.empty(n, pin_memory=True)". */
static bool page_locks(const Frame *frame, const char *line)
{
    static const char *const calls[] = {"pin_memory(", "in pin_memory", "in _pin_memory", "hostalloc",    "mallochost",
                                        "hostmalloc",  "hostregister",  "allocmapped",    "alloc_pinned", "pinned_array("};
    /* A loader's option is no call of it. */
    return HAS_ANY(line, calls) || (strstr(line, "pin_memory=true") && frame->torch && !strstr(line, "loader"));
}

/* Whether a call goes on in @line, or is marked there: "torch.zeros(", "pin_memory=True,", "^^^^^^". */
static bool goes_on(const char *line)
{
    size_t n = strlen(line);
    return n && (strchr(",([{", line[n - 1]) || strchr(")]}", line[0]) || strspn(line, "^~ ") == n);
}

/* @lower may be a frame's first line, or one of those behind it, which are its call. */
static void read_frame(Frame *frame, const char *lower, uint64_t number)
{
    enum { MOST_LINES = 32 };
    const char *file = strstr(lower, "file \"");
    /* of Rich's: the call among the lines around it */
    bool begins = strstr(lower, RICH_CALL) || (file && strstr(file, "\", line "));
    bool call = frame->number && number == frame->last + 1 && number - frame->number <= MOST_LINES && (frame->last == frame->number || goes_on(lower));
    if (begins)
        *frame = (Frame){.number = number, .last = number};
    if (!begins && !call)
        return;
    frame->last = number;
    frame->torch |= strstr(lower, "torch.") != NULL;
    frame->pins |= page_locks(frame, lower);
}

/* Before anything is copied. */
static bool may_be_of_frame(EchWords line, const Frame *frame, uint64_t number)
{
    return (frame->number && number == frame->last + 1) || ech_words_start(line, "File \"") || ech_words_have(line, RICH_CALL);
}

/* Whether PyTorch's account of where a C++ exception came from names its allocator of page-locked memory: "Exception raised from allocate at
 * .../CachingHostAllocator.cpp:97", "frame #4: at::cuda::HostAlloc(...)". */
static bool is_thrown_by_pinning(EchWords line)
{
    static const char *const marks[] = {"HostAlloc", "_pin_memory", "pinned_memory"};
    bool any = false;
    for (size_t i = 0; i < G_N_ELEMENTS(marks) && !any; i++)
        any = ech_words_have(line, marks[i]);
    return any && (ech_words_start(line, "Exception raised from ") || ech_words_start(line, "frame #"));
}

/* ---- sizes ---- */

/* A size with its unit, or a whole number of bytes: "of 34359738368 bytes", and after a word that means a size without it. */
static bool size_at(const char *at, bool of_size, EchRounded *ret)
{
    size_t used, digits = strspn(at, "0123456789");
    if (ech_rounded_parse(at, MIN(strlen(at), (size_t)64), ret, &used))
        return true;
    uint64_t bytes;
    g_autofree char *text = g_strndup(at, MIN(digits, (size_t)24));
    bool goes_on = (at[digits] == '.' || at[digits] == ',') && g_ascii_isdigit(at[digits + 1]), ends = !g_ascii_isalnum(at[digits]) && !goes_on;
    of_size |= g_str_has_prefix(at + digits, "-byte");
    if (!of_size || digits < 4 || !ends || !ech_parse_u64(text, &bytes, NULL))
        return false;
    *ret = (EchRounded){bytes, 0};
    return true;
}

/* What may stand between a key and its size: "allocate a buffer of about 4 GiB". */
static const char *skip_fillers(const char *at)
{
    static const char *const fillers[] = {"approximately ",
                                          "about ",
                                          "memory ",
                                          "memory: ",
                                          "buffer ",
                                          "of ",
                                          "supported by device is ",
                                          "is ",
                                          "at least ",
                                          "another ",
                                          "a ",
                                          "an ",
                                          "for ",
                                          "size ",
                                          "total ",
                                          "tensor ",
                                          "with ",
                                          "device ",
                                          "host ",
                                          "pinned ",
                                          "page-locked "};
    for (int i = 0; i < MAX_FILLERS; i++) {
        at += strspn(at, " :=[('\"");
        size_t k = 0;
        while (k < G_N_ELEMENTS(fillers) && !g_str_has_prefix(at, fillers[k]))
            k++;
        if (k == G_N_ELEMENTS(fillers))
            break;
        at += strlen(fillers[k]);
    }
    return at + strspn(at, " :=[('\"");
}

/* @lower finds the words, @line of the same length has the units as they were written. */
static bool size_after(const char *line, const char *lower, const char *key, EchRounded *ret)
{
    bool of_size = strstr(key, "size") || strstr(key, "bytes");
    for (const char *at = strstr(lower, key); at; at = strstr(at + 1, key)) {
        const char *value = skip_fillers(at + strlen(key));
        bool told = value - lower > 7 && memcmp(value - 8, "memory: ", 8) == 0;
        if (size_at(line + (value - lower), of_size || told || strstr(at, "size"), ret))
            return true;
    }
    return false;
}

/* The size that ends at most a few characters before @key: "(2147483648 bytes) could not be allocated". */
static bool size_before(const char *line, const char *lower, const char *key, EchRounded *ret)
{
    const char *end = strstr(lower, key);
    for (const char *at = end; at && at > lower && end - at < 32; at--) {
        bool begins = g_ascii_isdigit(*at) && !g_ascii_isalnum(at[-1]) && at[-1] != '.' && at[-1] != ',';
        if (begins && size_at(line + (at - lower), false, ret))
            return true;
    }
    return false;
}

/* The size among the arguments of a call that is quoted: "clCreateBuffer(ctx, CL_MEM_READ_WRITE, 48771072, nullptr)". */
static bool argument_of_call(const char *lower, EchRounded *ret)
{
    static const char *const calls[] = {"createbuffer(", "malloc(", "mallocmanaged(", "mallochost(", "mallocasync(", "hostalloc("};
    for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
        const char *at = strstr(lower, calls[i]), *end = at ? at + strcspn(at, ")") : NULL;
        for (at = at ? at + strlen(calls[i]) - 1 : NULL; at && at < end; at++) {
            if (strchr("(, ", *at) && g_ascii_isdigit(at[1]) && size_at(at + 1, true, ret))
                return true;
        }
    }
    return false;
}

static void read_sizes(const char *line, const char *lower, EchPlainSays *s)
{
    static const char *const asked[] = {"allocate ", "allocating ", "allocation of ", "requested ", "requesting ", "request of ", "requires ", "required ",
                                        "size:",     "size=",       "size ",          "bytes=",     "needs ",      "need ",       "malloc ",   "alloc "},
                             *const before[] = {" could not be allocated", " cannot be allocated", " allocation failed", " failed", " chunk)", " block)"},
                             *const free[] = {"available:", "available bytes", "only ", "free:", "free ", "available "};
    for (size_t i = 0; i < G_N_ELEMENTS(asked) && !s->has_asked; i++)
        s->has_asked = size_after(line, lower, asked[i], &s->asked);
    for (size_t i = 0; i < G_N_ELEMENTS(before) && !s->has_asked; i++)
        s->has_asked = size_before(line, lower, before[i], &s->asked);
    s->has_asked = s->has_asked || argument_of_call(lower, &s->asked);
    for (size_t i = 0; i < G_N_ELEMENTS(free) && !s->has_free; i++)
        s->has_free = size_after(line, lower, free[i], &s->free);
    s->has_asked &= s->asked.bytes < UINT64_C(1) << 55;
    s->has_free &= s->free.bytes < UINT64_C(1) << 55;
}

/* "requested 4831838208 bytes, but max alloc size supported by device is 1073741824 bytes" (OpenVINO), "Failed to create a 9.20 GB Metal buffer. The max buffer
 * length is 4.00 GB." (tinygrad), "Buffer size 536870912 is greater than the maximum buffer size (268435456)" (wgpu). */
static bool is_larger_than_a_piece(const char *line, const char *lower, EchPlainSays *ret)
{
    static const char *const asked[] = {"requested ", "allocate ", "create a ", "create ", "buffer size ", "size "};
    const char *key, *at = limit_of_piece(lower, &key);
    if (!at)
        return false;
    g_autofree char *limited = g_strdup(line + (at - lower)), *limited_lower = g_strdup(at), *before = g_strndup(line, (gsize)(at - lower)),
                    *before_lower = g_strndup(lower, (gsize)(at - lower));
    EchPlainSays s = {.has_most = size_after(limited, limited_lower, key, &s.most)};
    for (size_t i = 0; i < G_N_ELEMENTS(asked) && !s.has_asked; i++)
        s.has_asked = size_after(before, before_lower, asked[i], &s.asked);
    if (!s.has_most || !s.has_asked || s.asked.bytes <= s.most.bytes)
        return false;
    if (ret) {
        ret->has_most = ret->has_asked = true;
        ret->most = s.most;
        ret->asked = s.asked;
    }
    return true;
}

/* ---- the refusal that counts ---- */

/* Before anything is copied. */
static bool may_refuse(EchWords line)
{
    static const char *const words[] = {"emory",        "EMORY",   "lloc",          "LLOC",        "xhaust",       "XHAUST",
                                        "OOM",          "oom",     "VRAM",          "runtime err", "sufficient",   "createBuffer",
                                        "CreateBuffer", "8007000", "ERROR_OUT_OF_", "max buffer",  "aximum buffer"};
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (ech_words_have(line, words[i]))
            return true;
    }
    return false;
}

bool ech_plain_says_refuses(EchWords line)
{
    g_autofree char *plain = may_refuse(line) ? g_strndup(line.text, MIN(line.n, (size_t)MAX_LINE)) : g_strdup(""), *lower = g_ascii_strdown(plain, -1);
    return (refusal(lower) || is_larger_than_a_piece(plain, lower, NULL)) && !does_without(lower);
}

static int rank(const EchPlainSays *s)
{
    return (s->goes_on ? 0 : 4) + (s->has_asked ? 2 : 0) + (s->place != ECH_PLACE_UNTOLD);
}

/* Of a long line the words around @at. */
static void quote(EchPlainSays *s, const char *line, size_t at)
{
    enum { BEFORE = 40 };
    size_t begin = strlen(line) < sizeof s->line || at < BEFORE ? 0 : at - BEFORE;
    while (begin && begin < at && line[begin - 1] != ' ')
        begin++;
    g_autofree char *shown = ech_quote(line + begin, -1, sizeof s->line - 4), *text = g_strconcat(begin ? "..." : "", shown, NULL);
    g_strlcpy(s->line, text, sizeof s->line);
}

/* A figure on a line of its own behind the sentence: "- Requested memory: 33554432". */
static void read_figure(const char *line, const char *lower, EchPlainSays *s)
{
    static const char *const asked[] = {"request", "required", "needed", "asked"}, *const free[] = {"free", "available"};
    const char *colon = strrchr(lower, ':'), *before = colon ? memrchr(lower, ':', (size_t)(colon - lower)) : NULL, *name = before ? before + 1 : lower;
    name += strspn(name, " -*\t");
    EchRounded size;
    if (!colon || colon - name > 32 || colon < name || !size_at(line + (colon - lower) + 1 + strspn(colon + 1, " "), true, &size))
        return;
    g_autofree char *label = g_strndup(name, (gsize)(colon - name));
    g_strstrip(label);
    if (!s->has_asked && (HAS_ANY(label, asked) || strcmp(label, "size") == 0)) {
        s->asked = size;
        s->has_asked = size.bytes < UINT64_C(1) << 55;
    } else if (!s->has_free && HAS_ANY(label, free)) {
        s->free = size;
        s->has_free = size.bytes < UINT64_C(1) << 55;
    }
}

static void keep_better(EchPlainSays *best, const EchPlainSays *s)
{
    if (s->number && (best->number == 0 || rank(s) > rank(best)))
        *best = *s;
}

/* The driver's status is the same whose memory ever it refused: the frame that the traceback ends with tells, or its first where it stands behind. */
static void settle_place(EchPlainSays *s, const Frame *frame)
{
    enum { CLOSE = 6 }; /* marks below the call and an empty line between; of Rich's, the lines behind it and its frame */
    uint64_t apart = frame->number > s->number ? frame->number - s->number : s->number - frame->last;
    if (frame->number && apart <= CLOSE && frame->pins && (s->place == ECH_PLACE_DEVICE || s->place == ECH_PLACE_UNTOLD))
        s->place = ECH_PLACE_PINNED;
}

bool ech_plain_says_find(const char *text, size_t n, EchPlainSays *ret)
{
    enum { BEHIND = 6, THROWN = 32 };
    g_autoptr(EchPasted) pasted = ech_pasted_new(text, n);
    EchPlainSays best = {0}, s = {0};
    Frame frame = {0};
    bool framed = false; /* s has a frame before it, or had one behind */
    EchWords line;
    for (uint64_t number = 1; ech_pasted_next(pasted, &line); number++) {
        bool behind = s.number && number - s.number <= BEHIND;
        if (s.number && number - s.number <= THROWN && (s.place == ECH_PLACE_DEVICE || s.place == ECH_PLACE_UNTOLD) && is_thrown_by_pinning(line))
            s.place = ECH_PLACE_PINNED;
        if (!behind && !may_refuse(line) && !may_be_of_frame(line, &frame, number))
            continue;
        g_autofree char *plain = g_strndup(line.text, MIN(line.n, (size_t)MAX_LINE)), *lower = g_ascii_strdown(plain, -1);
        EchPlainSays piece = {0};
        bool too_large = may_refuse(line) && is_larger_than_a_piece(plain, lower, &piece);
        const char *at = too_large ? lower : may_refuse(line) ? refusal(lower) : NULL;
        if (!at) {
            read_frame(&frame, lower, number);
            if (behind && !framed && frame.number > s.number) {
                settle_place(&s, &frame);
                framed = !goes_on(lower) && number > frame.number;
            }
            if (behind)
                read_figure(plain, lower, &s);
            continue;
        }
        keep_better(&best, &s);
        /* What it falls back to is not what was refused. */
        const char *instead = strstr(lower, "falling back");
        g_autofree char *refused = instead ? g_strndup(lower, (gsize)(instead - lower)) : g_strdup(lower);
        s = (EchPlainSays){.number = number, .place = place_of(refused)};
        s.goes_on = does_without(lower) || s.place == ECH_PLACE_LOCKED;
        if (too_large && s.place == ECH_PLACE_UNTOLD)
            s.place = ECH_PLACE_DEVICE;
        /* The file that logs may say it: "cuda_driver.cc:828]". */
        EchWords before = ech_pasted_before(pasted);
        g_autofree char *logger = g_strndup(before.text, MIN(before.n, (size_t)MAX_LINE)), *of_logger = g_ascii_strdown(logger, -1);
        if (s.place == ECH_PLACE_UNTOLD && place_of(of_logger) == ECH_PLACE_DEVICE)
            s.place = ECH_PLACE_DEVICE;
        if ((s.place == ECH_PLACE_UNTOLD || s.place == ECH_PLACE_PINNED) && strstr(lower, "regist") && strstr(of_logger, "rdma"))
            s.place = ECH_PLACE_NETWORK;
        settle_place(&s, &frame);
        framed = frame.number != 0;
        quote(&s, plain, (size_t)(at - lower));
        read_sizes(plain, lower, &s);
        if (too_large) {
            s.has_free = false;
            s.asked = piece.asked;
            s.most = piece.most;
            s.has_asked = s.has_most = true;
        }
    }
    keep_better(&best, &s);
    if (best.number)
        *ret = best;
    return best.number != 0;
}

/* ---- what it comes to ---- */

const char *ech_place_name(EchPlace place)
{
    static const char *const names[ECH_N_PLACES] = {"memory",
                                                    "the device's memory",
                                                    "the host's memory",
                                                    "page-locked memory of the host",
                                                    "memory that a network card may read and write (RDMA)",
                                                    "the host's memory that was to be kept in RAM (mlock)",
                                                    "memory on the chip",
                                                    "the Mac's memory that its GPU may take",
                                                    "the heap of a virtual machine"};
    return names[place];
}

const char *ech_place_advice(EchPlace place)
{
    static const char *const advice[ECH_N_PLACES] = {
        "of which memory, the device's or the host's, the text does not say: nvidia-smi (rocm-smi, xpu-smi) tells the one, 'free -h' the other, both while it "
        "runs",
        "nvidia-smi (rocm-smi, xpu-smi, npu-smi) says who holds the rest: what others hold no setting of this program frees. Less at a time (a smaller batch, "
        "a shorter context, fewer bits), or a part of it on the host or on more devices, needs less",
        "that is not the device: 'free -h' tells how much there is, a container's or a job's limit (docker --memory, SLURM's --mem) how much of that may be "
        "had. " ECH_HOST_FULL,
        "that is not the device's: 'ulimit -l' and a container's limit bound it, drivers what one piece may be, under WSL 2 Windows all of it; the host may "
        "have "
        "it all the same, not page-locked. Fewer or smaller buffers for offload and data loaders, or none that are page-locked (pin_memory=False, slower "
        "copies), need less. A GPU that is full (nvidia-smi) gives the same error: not even this process's context finds room then; on a Jetson all of it is "
        "one memory",
        "cards of InfiniBand and RoCE use only memory that is locked for them: 'ulimit -l' bounds that, and is small unless set (docker run --ulimit "
        "memlock=-1, memlock in /etc/security/limits.conf, LimitMEMLOCK=infinity of the service that starts the job), so that little of it is refused while "
        "the "
        "host has plenty. Where it is a GPU's own memory (GPUDirect) its driver's module (nvidia-peermem) and BAR1 bound it, and NCCL_NET_GDR_LEVEL=LOC does "
        "without; NCCL_IB_DISABLE=1 goes over TCP, slower",
        "it is allocated all the same, and may go to disk where the host runs short, slower then. 'ulimit -l' bounds it: root has no bound (sudo), docker run "
        "--ulimit memlock=-1 and memlock in /etc/security/limits.conf set it",
        "that is memory that one block of a kernel has for itself, not the device's: smaller tiles or fewer stages of it need less; what else runs does not "
        "matter",
        ECH_MAC_LESS,
        "that is a limit of the virtual machine's own, not what the machine has: NODE_OPTIONS=--max-old-space-size=MIB raises it for Node.js (V8), -Xmx for "
        "Java (Spark: spark.driver.memory, spark.executor.memory), as far as the host's memory ('free -h') and a container's limit reach"};
    return advice[place];
}

void ech_plain_says_write(const EchPlainSays *s, EchTraceBuilder *builder, EchImport *import)
{
    static const char *const memories[ECH_N_PLACES] = {"memory", "hbm", "host", "host", "memory", "host", "shared", "hbm", "host"};
    EchId memory = ech_trace_builder_memory(builder, memories[s->place]);
    ech_trace_builder_set_property(builder, "sums_only", "true");
    if (s->place == ECH_PLACE_CHIP)
        ech_trace_builder_set_property(builder, "limit_of_a_kernel", "true");
    ech_refused_number(builder, "asked_for_bytes", true, s->asked.bytes);
    ech_refused_request(builder, memory, "what was asked for", NULL, s->asked.bytes);
    g_autofree char *asked = ech_format_bytes(s->asked.bytes), *free = ech_format_bytes(s->free.bytes),
                    *there = s->has_free ? g_strdup_printf("; %s were there", free) : g_strdup("");
    if (s->goes_on)
        ech_diag_remark(import->diag, "%s of %s were refused, and the program goes on without: a warning, not an error (line %" G_GUINT64_FORMAT ": '%s')",
                        asked, ech_place_name(s->place), s->number, s->line);
    else
        ech_diag_remark(import->diag, "%s of %s were refused%s (line %" G_GUINT64_FORMAT ": '%s')", asked, ech_place_name(s->place), there, s->number, s->line);
    if (s->has_most && s->asked.bytes < ABSURD) {
        g_autofree char *most = ech_format_bytes(s->most.bytes);
        ech_diag_remark(import->diag,
                        "one buffer may be no larger than %s there, however much is free: a smaller batch, a shorter context, inputs or weights in parts keep "
                        "each below it",
                        most);
    } else if (s->asked.bytes >= ABSURD)
        ech_diag_remark(import->diag,
                        "no machine has as much: the size came out wrong (a negative or uninitialised dimension, a damaged or misread file, a count "
                        "times a count), or all of something is held against all of something else; what is free does not matter");
    else if (!s->goes_on && s->has_free && s->free.bytes >= s->asked.bytes)
        ech_diag_remark(import->diag,
                        "more was free than was asked for: a limit of its own stands in the way (a pool's, a process's, what one piece may be), what is free "
                        "lies in smaller pieces, or an error before it is told as this one");
    else if (!s->goes_on || s->place != ECH_PLACE_UNTOLD)
        ech_diag_remark(import->diag, "%s", ech_place_advice(s->place));
}
