#include "sim/import/torch_says.h"
#include "sim/import/refused.h"

#include <string.h>

/* What the caching allocator takes from the device for a request (c10/cuda/CUDACachingAllocator.cpp: kSmallSize, kSmallBuffer, kMinLargeAlloc, kLargeBuffer,
 * kRoundLarge; the same in HIP, XPU and NPU builds). */
static const EchBytes SMALL = 1 << 20, SEGMENT_OF_SMALL = 2 << 20, MIDDLE = 10 << 20, SEGMENT_OF_MIDDLE = 20 << 20, ROUND = 2 << 20;

enum { MAX_PROCESSES = 32, MAX_LATER = 16 };

typedef enum { CUDA, HIP, XPU, NPU, MPS } Backend;

/* "Process 2048 has 15.11 GiB memory in use." */
typedef struct {
    uint64_t id;
    EchRounded size;
} Process;

/* What the traceback before it passes last: an optimizer that takes all parameters at once, a convolution, attention, FSDP that gathers all that a model has
 * (torch/distributed/fsdp/_state_dict_utils.py). */
typedef enum { IN_NOTHING, IN_LISTS, IN_CONVOLUTION, IN_ATTENTION, IN_STATE_DICT } Call;
static const struct {
    const char *mark;
    Call call;
} calls[] = {{"Traceback (most recent call last)", IN_NOTHING},
             {", in _multi_tensor_", IN_LISTS},
             {", in _conv_forward", IN_CONVOLUTION},
             {"scaled_dot_product_attention(", IN_ATTENTION},
             {", in _full_pre_state_dict_hook", IN_STATE_DICT},
             {", in _full_post_state_dict_hook", IN_STATE_DICT},
             {"Failed to clone() tensor with name ", IN_STATE_DICT}};

struct EchTorchSays {
    bool any, async; /* cudaMallocAsync rather than PyTorch's own */
    bool integrated; /* The text names an AMD GPU that has no memory of its own. */
    Call call;
    Backend backend;
    uint64_t others;                /* sentences after the first that say something else, */
    EchTorchSays *later[MAX_LATER]; /* of which these came first */
    unsigned n_later;
    bool has_device, has_rank; /* which one refused, and of which process of several */
    uint64_t device, rank;
    bool has_request, has_capacity, has_free, has_allocated, has_unallocated, has_allowed, has_own, has_private, has_reserve;
    EchRounded request, capacity, free, allocated, unallocated, allowed;
    EchRounded own;        /* of this process, as the driver counts it */
    EchRounded in_private; /* pools of graphs, of what is allocated */
    EchRounded reserve;    /* of addresses of an expandable segment */
    EchRounded elsewhere;  /* MPS: what this process holds beside PyTorch */
    Process processes[MAX_PROCESSES];
    unsigned n_processes;
};

EchTorchSays *ech_torch_says_new(void)
{
    return g_new0(EchTorchSays, 1);
}

void ech_torch_says_free(EchTorchSays *says)
{
    for (unsigned i = 0; says && i < says->n_later; i++)
        g_free(says->later[i]);
    g_free(says);
}

bool ech_torch_says_any(const EchTorchSays *says)
{
    return says->any;
}

static Backend backend_of(EchWords line)
{
    static const struct {
        const char *mark;
        Backend backend;
    } marks[] = {{"MPS backend", MPS},
                 {"HIP out of memory", HIP},
                 {"_HIP_ALLOC_CONF", HIP},
                 {"XPU out of memory", XPU},
                 {"Current platform can NOT allocate memory block", XPU},
                 {"NPU out of memory", NPU},
                 {"(NPU ", NPU}};
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        if (ech_words_have(line, marks[i].mark))
            return marks[i].backend;
    }
    return CUDA;
}

/* By the names that processors, their GPUs and ROCm's compiler give them: Phoenix, Strix Point, Strix Halo, Krackan. */
static bool is_of_apu(EchWords line)
{
    static const char *const names[] = {"gfx1103", "gfx1150",      "gfx1151",      "gfx1152",     "Strix Halo",
                                        "AI MAX+", "Radeon 8060S", "Radeon 8050S", "Radeon 890M", "Radeon 780M"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (ech_words_have(line, names[i]))
            return true;
    }
    return false;
}

/* What was reserved, of which part is allocated: the rest lies unused. */
static void set_reserved(EchTorchSays *s, const EchRounded *reserved)
{
    s->has_unallocated = true;
    s->unallocated = (EchRounded){reserved->bytes - MIN(reserved->bytes, s->allocated.bytes), reserved->slack + s->allocated.slack};
}

static void read_mps(EchTorchSays *s, EchWords line)
{
    s->has_allocated = ech_words_size_after(line, "MPS allocated", &s->allocated);
    s->has_capacity = ech_words_size_after(line, "max allowed", &s->capacity);
    if (ech_words_size_after(line, "other allocations", &s->elsewhere) && s->has_allocated && s->has_capacity) {
        EchBytes used = ech_bytes_add(s->allocated.bytes, s->elsewhere.bytes);
        s->free = (EchRounded){s->capacity.bytes - MIN(s->capacity.bytes, used), s->capacity.slack + s->allocated.slack + s->elsewhere.slack};
        s->has_free = s->has_unallocated = true;
    }
}

/* "Allocation on device 0 would exceed allowed memory. (out of memory) Currently allocated : 6.89 GiB Requested : 320.00 MiB ..." */
static void read_async(EchTorchSays *s, EchWords line)
{
    s->async = true;
    s->has_request = ech_words_size_after(line, "Requested ", &s->request);
    s->has_allocated = ech_words_size_after(line, "Currently allocated ", &s->allocated);
    s->has_capacity = ech_words_size_after(line, "Device limit ", &s->capacity);
    s->has_free = ech_words_size_after(line, "Free (according to CUDA)", &s->free);
    /* Without one PyTorch prints the largest number that it can. */
    s->has_allowed = ech_words_size_after(line, "memory fraction) ", &s->allowed) && (!s->has_capacity || s->allowed.bytes < s->capacity.bytes);
}

static void read_processes(EchTorchSays *s, EchWords line)
{
    for (EchWords rest = ech_words_after(line, "Process "); rest.n && s->n_processes < MAX_PROCESSES; rest = ech_words_after(rest, "Process ")) {
        Process *process = &s->processes[s->n_processes];
        g_autofree char *id = g_strndup(rest.text, strspn(rest.text, "0123456789"));
        if (ech_parse_u64(id, &process->id, NULL) && ech_words_start((EchWords){rest.text + strlen(id), rest.n - strlen(id)}, " has ") &&
            ech_words_size_after(rest, " has ", &process->size))
            s->n_processes++;
    }
}

static void read_caching(EchTorchSays *s, EchWords line)
{
    read_processes(s, line);
    EchRounded reserved;
    s->has_capacity = ech_words_size_after(line, "has a total capacity of ", &s->capacity) ||
                      ech_words_size_after(line, "has a total capacty of ", &s->capacity) || ech_words_size_before(line, " total capacity;", &s->capacity);
    s->has_free = ech_words_size_before(line, " is free", &s->free) || ech_words_size_before(line, " free;", &s->free);
    s->has_allowed = ech_words_size_before(line, " allowed;", &s->allowed);
    s->has_own = ech_words_size_after(line, "this process has ", &s->own);
    s->has_private = ech_words_size_before(line, " allocated in private pools", &s->in_private);
    s->has_reserve = ech_words_size_after(line, "exceeds the expandable-segment reserve of ", &s->reserve);
    if (ech_words_size_before(line, " is allocated by PyTorch", &s->allocated)) {
        s->has_allocated = true;
        s->has_unallocated = ech_words_size_before(line, " is reserved by PyTorch but unallocated", &s->unallocated);
    } else if (ech_words_size_before(line, " already allocated", &s->allocated)) {
        s->has_allocated = true;
        if (ech_words_size_before(line, " reserved in total by", &reserved))
            set_reserved(s, &reserved);
        else /* up to 1.3: what is cached and not allocated (c10/cuda/CUDACachingAllocator.cpp) */
            s->has_unallocated = ech_words_size_before(line, " cached", &s->unallocated);
    }
}

/* "... would exceed per_process_memory_fraction limit. Requested size: 2.00 GiB ... reserved (20.00 GiB) + requested size would exceed memory limit (21.00
 * GiB)" */
static void read_preemptive(EchTorchSays *s, EchWords line)
{
    s->has_request = ech_words_size_after(line, "Requested size", &s->request);
    s->has_allowed = ech_words_size_after(line, "memory limit (", &s->allowed);
    s->has_allocated = ech_words_size_before(line, ") + requested size", &s->allocated);
    s->has_unallocated = s->has_allocated;
}

/* "GPU 1 has a total capacity of", "(NPU 0; 32.00 GiB total capacity;", "on device 0 would exceed"; "[rank2]:", "(VllmWorker rank=1 pid=4711)". */
static void read_whose(EchTorchSays *s, EchWords before, EchWords sentence)
{
    static const char *const devices[] = {"GPU ", "NPU ", "XPU ", " on device "};
    for (size_t i = 0; i < G_N_ELEMENTS(devices) && !s->has_device; i++)
        s->has_device = ech_words_number_after(sentence, devices[i], &s->device);
    s->has_rank = ech_words_number_after(before, "rank", &s->rank) || ech_words_number_after(before, "Rank", &s->rank);
}

/* Whether both sentences are of one refusal: each process of several tells of its own, and often twice, or the beginning of it again. */
static bool is_same(const EchTorchSays *a, const EchTorchSays *b)
{
    bool whole = a->has_allocated && b->has_allocated;
    return a->request.bytes == b->request.bytes && (!whole || (a->allocated.bytes == b->allocated.bytes && a->free.bytes == b->free.bytes)) &&
           (!a->has_device || !b->has_device || a->device == b->device);
}

static bool is_told(const EchTorchSays *says, const EchTorchSays *s)
{
    bool told = is_same(says, s);
    for (unsigned i = 0; i < says->n_later && !told; i++)
        told = is_same(says->later[i], s);
    return told;
}

bool ech_torch_says_line(EchTorchSays *says, EchWords before, EchWords line, EchWords sentence)
{
    for (size_t i = 0; i < G_N_ELEMENTS(calls) && !says->any; i++)
        says->call = ech_words_have(line, calls[i].mark) ? calls[i].call : says->call;
    says->integrated |= is_of_apu(line);
    EchTorchSays s = {.any = true, .call = says->call, .integrated = says->integrated};
    /* Its words may go on in the next line. */
    static const char *const openings[] = {" out of memory. Tried", "can NOT allocate memory block", "MPS backend out of memory"};
    const char *at = ech_words_find(sentence, "Tried to allocate ");
    bool async = ech_words_begin(line, sentence, "would exceed allowed memory. (out of memory)"),
         preemptive = ech_words_begin(line, sentence, "Allocation was preemptively rejected because it would exceed"),
         begun = at && (size_t)(at - sentence.text) < line.n;
    for (size_t i = 0; i < G_N_ELEMENTS(openings) && at && !begun; i++)
        begun = ech_words_begin(line, sentence, openings[i]);
    bool tried = begun && ech_words_size_after(sentence, "Tried to allocate ", &s.request);
    if (!async && !preemptive && !tried)
        return false;
    s.backend = backend_of(sentence);
    if (tried) {
        s.has_request = true;
        /* Up to the next one. */
        EchWords rest = ech_words_after(sentence, "Tried to allocate ");
        const char *again = rest.n ? memmem(rest.text, rest.n, "Tried to allocate ", 18) : NULL;
        if (again)
            sentence.n = (size_t)(again - sentence.text);
        s.backend == MPS ? read_mps(&s, sentence) : read_caching(&s, sentence);
        bool of_device = s.has_capacity || ech_words_have(line, "out of memory");
        if (!of_device)
            return false;
    } else {
        async ? read_async(&s, sentence) : read_preemptive(&s, sentence);
    }
    read_whose(&s, before, sentence);
    if (!says->any) {
        *says = s;
    } else if (!is_told(says, &s)) {
        says->others++;
        if (says->n_later < MAX_LATER)
            says->later[says->n_later++] = g_memdup2(&s, sizeof s);
    }
    return true;
}

/* ---- what it comes to ---- */

/* What the allocator would have taken from the device. */
static EchBytes segment_of(const EchTorchSays *s)
{
    EchBytes asked = s->request.bytes;
    if (s->async || s->backend == MPS)
        return asked;
    return asked <= SMALL ? SEGMENT_OF_SMALL : asked < MIDDLE ? SEGMENT_OF_MIDDLE : ech_round_up(asked, ROUND);
}

/* PyTorch's own, in use or not. */
static EchBytes reserved_of(const EchTorchSays *s)
{
    return ech_bytes_add(s->allocated.bytes, s->unallocated.bytes);
}

/* What it might still have taken: what is free, or what its own limit leaves of that. */
static EchBytes free_of(const EchTorchSays *s)
{
    EchBytes reserved = reserved_of(s), left = s->allowed.bytes - MIN(s->allowed.bytes, reserved);
    return !s->has_allowed ? s->free.bytes : s->has_free ? MIN(s->free.bytes, left) : left;
}

/* Whether its own limit, not the device, refused. */
static bool is_limited(const EchTorchSays *s)
{
    return s->has_allowed && s->has_allocated && (!s->has_free || s->free.bytes > free_of(s)) &&
           (double)ech_bytes_add(reserved_of(s), segment_of(s)) + s->allowed.slack + s->allocated.slack + s->unallocated.slack >= (double)s->allowed.bytes;
}

typedef struct {
    bool told;       /* The message says what this process holds in all. */
    EchBytes beside; /* of this process, beside PyTorch's, or of all where it is not told */
    EchBytes others; /* of other processes */
} Rest;

static Rest rest_of(const EchTorchSays *s)
{
    EchBytes reserved = reserved_of(s), used = s->capacity.bytes - MIN(s->capacity.bytes, s->free.bytes);
    if (s->backend == MPS)
        return (Rest){.told = true, .beside = s->elsewhere.bytes};
    if (!s->has_capacity || !s->has_free || !s->has_allocated || used < reserved)
        return (Rest){0};
    EchBytes slack = (EchBytes)(s->own.slack + s->allocated.slack + s->unallocated.slack + s->capacity.slack + s->free.slack);
    /* Where the driver does not tell, PyTorch prints 0 or 2^64. */
    if (s->async || !s->has_own || ech_bytes_add(s->own.bytes, slack) < reserved || s->own.bytes > ech_bytes_add(used, slack))
        return (Rest){.beside = used - reserved};
    EchBytes others = used - MIN(used, s->own.bytes);
    return (Rest){.told = true, .beside = s->own.bytes - MIN(s->own.bytes, reserved), .others = others > slack ? others : 0};
}

#define PRETEND ": 'echelon capture --pretend DEVICE -- COMMAND' runs the program without the device and tells"
#define SNAPSHOT                                                                                                                                               \
    "torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot(\"oom.pickle\") where the error is caught"

/* Who held what is neither PyTorch's nor free; of no account where a limit of PyTorch's own refused. */
static void say_rest(const EchTorchSays *s, EchDiag *diag)
{
    if (is_limited(s))
        return;
    Rest rest = rest_of(s);
    const EchBytes of_contexts = UINT64_C(4) << 30; /* more than a context and libraries take, mostly */
    EchBytes worth = s->capacity.bytes / 50;
    g_autofree char *beside = ech_format_bytes(rest.beside), *others = ech_format_bytes(rest.others);
    if (s->has_capacity && s->has_allocated && s->allocated.bytes > s->capacity.bytes)
        ech_diag_remark(diag, "more is allocated than the card has: the driver has moved some to the host's memory (Windows and WSL do)");
    g_autoptr(GString) listed = g_string_new(NULL);
    for (unsigned i = 0; i < s->n_processes; i++) {
        g_autofree char *size = ech_format_bytes(s->processes[i].size.bytes);
        g_string_append_printf(listed, "%s%" G_GUINT64_FORMAT " (%s)", i ? ", " : "", s->processes[i].id, size);
    }
    if (rest.told && rest.others > worth)
        ech_diag_remark(diag, "%s are other processes'%s%s: nvidia-smi (rocm-smi) names them; what they hold, no setting of this one frees", others,
                        listed->len ? ", by number " : "", listed->str);
    if (rest.told && rest.beside > worth)
        ech_diag_remark(diag, "%s of this process are not PyTorch's: %s", beside,
                        s->backend == MPS ? "Metal's other heaps, libraries"
                                          : "the context, libraries that allocate for themselves (NCCL, cuBLAS, JAX, TensorFlow)");
    else if (!rest.told && rest.beside > worth && rest.beside > of_contexts && !s->async && listed->len == 0)
        ech_diag_remark(
            diag,
            "%s are neither PyTorch's nor free, which is more than a context and libraries mostly take: other processes hold it, most likely (nvidia-smi, "
            "rocm-smi, npu-smi name them), and what they hold no setting of this one frees%s",
            beside, s->backend == HIP ? "; of an APU's, which is the host's memory, all that runs there counts, and files that were read or mapped" : "");
    else if (!rest.told && rest.beside > worth)
        ech_diag_remark(diag,
                        s->async ? "%s are neither tensors nor free: what cudaMallocAsync's pool holds unused, the CUDA context, libraries, other processes"
                                 : "%s are neither PyTorch's nor free: the context, libraries, other processes",
                        beside);
    if (!rest.told && listed->len)
        ech_diag_remark(diag, "as the driver counts, by process: %s; this one is among them, by its number or by another outside its container", listed->str);
    if (s->has_private && s->in_private.bytes) {
        g_autofree char *size = ech_format_bytes(s->in_private.bytes);
        ech_diag_remark(diag, "%s of what is allocated are kept in private pools, of captured graphs: nothing else gets them", size);
    }
}

/* By the name under which the backend's allocator takes its settings. */
static const char *setting_of(Backend backend)
{
    return backend == NPU ? "PYTORCH_NPU_ALLOC_CONF" : backend == HIP ? "PYTORCH_HIP_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

static void say_free_all_the_same(const EchTorchSays *s, EchBytes left, EchDiag *diag)
{
    g_autofree char *asked = ech_format_bytes(s->request.bytes), *free = ech_format_bytes(left);
    ech_diag_remark(diag, "%s were free and %s refused all the same: the driver did not give it, or other processes held it at that moment; %s", free, asked,
                    s->backend == HIP ? "of an APU's memory the kernel gives a GPU no more than ttm.pages_limit (pages of 4 KiB), whatever is free"
                                      : "on Windows the driver gives no more than memory and page file can back");
}

/* Whether an Intel GPU had the room, and not in one piece: 4 GiB and more its driver gives no buffer of, unless asked to (github.com/intel/compute-runtime
 * issue 627, intel-extension-for-pytorch issues 325, 846 and 863). */
static bool is_too_large_a_piece(const EchTorchSays *s)
{
    return s->backend == XPU && s->has_request && s->has_capacity && (double)s->request.bytes + s->request.slack >= 4.0 * (1 << 30) &&
           ech_bytes_add(reserved_of(s), s->request.bytes) <= s->capacity.bytes && (!s->has_free || s->free.bytes >= s->request.bytes);
}

/* cudaMallocAsync does not tell what its pool holds unused, MPS counts against a limit of its own. */
static void say_other_allocators(const EchTorchSays *s, EchDiag *diag)
{
    g_autofree char *asked = ech_format_bytes(s->request.bytes), *live = ech_format_bytes(s->allocated.bytes), *free = ech_format_bytes(s->free.bytes),
                    *limit = ech_format_bytes(s->capacity.bytes);
    if (s->backend == MPS)
        ech_diag_remark(diag,
                        "no room: %s asked for beside %s of PyTorch's, of %s that it may take: use less (a smaller batch, checkpointing), or lift the limit "
                        "(PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0) as far as the machine's memory reaches",
                        asked, live, limit);
    else if (s->has_free && (double)s->request.bytes + s->request.slack + s->free.slack <= (double)s->free.bytes)
        say_free_all_the_same(s, s->free.bytes, diag);
    else
        ech_diag_remark(
            diag,
            "%s asked for beside %s of tensors, %s free: use less (smaller batch, checkpointing, offload) or a larger card. How much cudaMallocAsync's "
            "pool holds unused it does not say; PyTorch's own allocator does (PYTORCH_CUDA_ALLOC_CONF=backend:native; ComfyUI: --disable-cuda-malloc)",
            asked, live, free);
}

static void say_limit(const EchTorchSays *s, EchDiag *diag)
{
    g_autofree char *limit = ech_format_bytes(s->allowed.bytes), *device = ech_format_bytes(s->free.bytes);
    ech_diag_remark(diag, "a limit of its own refused, not the device: %s are allowed to it (set_per_process_memory_fraction)%s%s%s", limit,
                    s->has_free ? "; of the device " : "", s->has_free ? device : "", s->has_free ? " are free" : "");
}

/* What is free and unused against what was asked for. */
typedef enum { OF_RESERVE, OF_FREE, ROUNDED_AWAY, OF_SEGMENT, FULL, OF_PIECES, ABSURD, TOO_MUCH, N_VERDICTS } Verdict;

static Verdict verdict_of(const EchTorchSays *s)
{
    EchBytes asked = s->request.bytes, segment = segment_of(s), left = free_of(s), room = ech_bytes_add(left, s->unallocated.bytes);
    double slack = s->request.slack + s->unallocated.slack + (s->has_allowed ? s->allowed.slack + s->allocated.slack : s->free.slack),
           over = (double)asked - (double)room;
    if (s->has_reserve && asked > s->reserve.bytes)
        return OF_RESERVE;
    if ((double)segment + slack <= (double)left)
        return OF_FREE;
    if (over > -slack && over <= slack)
        return ROUNDED_AWAY;
    if (over < 0 && s->unallocated.bytes < asked && left >= asked && segment > left)
        return OF_SEGMENT;
    if (over < 0)
        return -over < (double)s->capacity.bytes / 50 ? FULL : OF_PIECES;
    return asked >= UINT64_C(64) << 40 /* more than the largest machines have */ ? ABSURD : TOO_MUCH;
}

static void say_verdict(const EchTorchSays *s, EchDiag *diag)
{
    EchBytes left = free_of(s), room = ech_bytes_add(left, s->unallocated.bytes), missing = s->request.bytes - MIN(s->request.bytes, room),
             spare_bytes = room - MIN(room, s->request.bytes);
    const char *free_what = is_limited(s) ? "what the limit leaves" : "what is free";
    g_autofree char *asked = ech_format_bytes(s->request.bytes), *free = ech_format_bytes(left), *cache = ech_format_bytes(s->unallocated.bytes),
                    *together = ech_format_bytes(room), *live = ech_format_bytes(s->allocated.bytes), *whole = ech_format_bytes(segment_of(s)),
                    *reserve = ech_format_bytes(s->reserve.bytes), *spare = ech_format_bytes(spare_bytes), *all = ech_format_bytes(s->capacity.bytes),
                    *more = ech_format_bytes(missing);
    if (is_limited(s))
        say_limit(s, diag);
    switch (verdict_of(s)) {
    case OF_RESERVE:
        ech_diag_remark(diag, "%s asked for is more than an expandable segment may become, %s: expandable_segments_reserve sets that", asked, reserve);
        break;
    case OF_FREE: say_free_all_the_same(s, left, diag); break;
    case ROUNDED_AWAY:
        ech_diag_remark(
            diag,
            "%s asked for, and about as much free (%s) and held unused (%s) together: the figures are too rounded to tell whether another setting of "
            "the allocator would have served it",
            asked, free, cache);
        break;
    case OF_SEGMENT:
        ech_diag_remark(diag, "%s asked for, for which PyTorch takes %s from the device, and %s were free: a little less in use is enough", asked, whole, free);
        break;
    case FULL:
        if (is_limited(s)) {
            ech_diag_remark(diag,
                            "it is used up: %s more were asked for beside %s of tensors. What it leaves (%s) and what PyTorch holds unused (%s) would have "
                            "served this request at best, and left %s for those after it: use less (smaller batch, checkpointing, offload) or raise it",
                            asked, live, free, cache, spare);
            break;
        }
        ech_diag_remark(
            diag,
            "the device is full: %s more were asked for beside %s of tensors, of %s in all. What is free (%s) and what PyTorch holds unused (%s) would "
            "have served this request at best, under %s=expandable_segments:True, and left %s for those after it: use less (smaller batch, checkpointing, "
            "offload), or a larger card",
            asked, live, all, free, cache, setting_of(s->backend), spare);
        break;
    case OF_PIECES:
        ech_diag_remark(
            diag,
            "%s would fit into %s (%s) and what PyTorch holds unused (%s): the latter lies in pieces that are too small, partly used or of "
            "another stream; %s=expandable_segments:True can join them (not on Windows), and 'echelon alloc' of a memory snapshot says which setting "
            "does. It would leave %s for those after it: where more than that is still to come (the first step of training, a longer input), only less in "
            "use helps",
            asked, free_what, free, cache, setting_of(s->backend), spare);
        break;
    case ABSURD:
        ech_diag_remark(
            diag,
            "%s asked for at once: no machine has as much, and the size came out wrong (a negative or uninitialised dimension, two arrays that were "
            "to go element by element and went all against all, a damaged file); what is free does not matter",
            asked);
        break;
    case TOO_MUCH:
        ech_diag_remark(diag,
                        "no setting of the allocator would have served it: %s asked for, %s free and unused together, %s too much beside %s in use: use less "
                        "(smaller batch, checkpointing, offload) or %s",
                        asked, together, more, live, is_limited(s) ? "raise the limit" : "a larger card");
        break;
    case N_VERDICTS: break;
    }
}

/* Whether the message tells all that a verdict takes. */
static bool is_known(const EchTorchSays *s)
{
    return s->has_request && s->has_allocated && (s->has_unallocated || s->async) && (s->has_free || s->has_allowed);
}

/* Whether others hold more than PyTorch. */
static bool are_others_first(const EchTorchSays *s)
{
    Rest rest = rest_of(s);
    return !s->async && s->backend != MPS && MAX(rest.others, rest.told ? 0 : rest.beside) > reserved_of(s);
}

/* "GPU 2 (rank 2)". Owned by the caller. */
static char *whose(const EchTorchSays *s)
{
    g_autofree char *rank = s->has_rank ? g_strdup_printf("rank %" G_GUINT64_FORMAT, s->rank) : NULL,
                    *device = s->has_device ? g_strdup_printf("%s %" G_GUINT64_FORMAT, s->backend == NPU ? "NPU" : "GPU", s->device) : NULL;
    if (device && rank)
        return g_strdup_printf("%s (%s)", device, rank);
    return g_strdup(device ? device : rank ? rank : "a process that is not named");
}

/* What it comes to for one of those after the first, in a few words. Owned by the caller. */
static char *gist_of(const EchTorchSays *s)
{
    static const char *const gists[N_VERDICTS] = {"more than an expandable segment may become",
                                                  "as much was free",
                                                  "about as much free and held unused together",
                                                  "a little less in use is enough",
                                                  "the device is full",
                                                  NULL,
                                                  "a size that came out wrong",
                                                  "more than is free and unused together"};
    Rest rest = rest_of(s);
    g_autofree char *cache = ech_format_bytes(s->unallocated.bytes), *others = ech_format_bytes(MAX(rest.others, rest.beside));
    if (!is_known(s) || s->async || s->backend == MPS)
        return g_strdup("");
    if (are_others_first(s))
        return g_strdup_printf(": others hold %s", others);
    if (is_limited(s))
        return g_strdup(": a limit of its own refused");
    return verdict_of(s) == OF_PIECES ? g_strdup_printf(": it would fit into what is free and what PyTorch holds unused (%s)", cache)
                                      : g_strdup_printf(": %s", gists[verdict_of(s)]);
}

/* Which of several devices and processes refused, and which others did. */
static void say_whose(const EchTorchSays *s, EchDiag *diag)
{
    g_autofree char *first = whose(s), *gist = gist_of(s);
    if (s->others == 0) {
        if (s->has_rank || (s->has_device && s->device))
            ech_diag_remark(diag, "refused %s %s", s->has_device ? "on" : "to", first);
        return;
    }
    g_autoptr(GString) text = g_string_new(NULL);
    for (unsigned i = 0; i < s->n_later; i++) {
        const EchTorchSays *other = s->later[i];
        g_autofree char *name = whose(other), *asked = ech_format_bytes(other->request.bytes), *of_it = gist_of(other);
        g_string_append_printf(text, "%s%s, %s%s", i ? "; " : "", name, asked, strcmp(gist, of_it) == 0 ? " likewise" : of_it);
    }
    if (s->others > s->n_later)
        g_string_append_printf(text, "; and %" G_GUINT64_FORMAT " more", s->others - s->n_later);
    ech_diag_remark(diag, "told here: the first of %" G_GUINT64_FORMAT " refusals in the text, %s. Also %s", s->others + 1, first, text->str);
}

static void say(const EchTorchSays *s, EchDiag *diag)
{
    bool cuda = s->backend == CUDA || s->backend == HIP, first = are_others_first(s); /* then that comes before the verdict on this process */
    Rest rest = rest_of(s);
    say_whose(s, diag);
    if (is_too_large_a_piece(s)) {
        g_autofree char *asked = ech_format_bytes(s->request.bytes), *all = ech_format_bytes(s->capacity.bytes);
        ech_diag_remark(diag,
                        "%s in one piece, of %s that the GPU has: Intel's driver gives no piece of 4 GiB or more, however much is free, unless "
                        "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1 is set (on the first generation of Arc kernels may be wrong on such arrays). Smaller "
                        "batches, attention and decoding of images in slices keep arrays below it",
                        asked, all);
        return;
    }
    if (!is_known(s)) {
        g_autofree char *live = ech_format_bytes(reserved_of(s)), *asked = ech_format_bytes(s->request.bytes), *all = ech_format_bytes(s->capacity.bytes);
        bool had_room = s->has_capacity && ech_bytes_add(reserved_of(s), s->request.bytes) < s->capacity.bytes;
        if (s->has_allocated && s->has_request && had_room)
            ech_diag_remark(
                diag,
                "%s were refused beside %s that PyTorch held, of %s that the device has: the rest was others' or the driver's, or it gave no piece as "
                "large; how much was free the message does not say",
                asked, live, all);
        else if (s->has_allocated)
            ech_diag_remark(diag, "how much was free the message does not say; PyTorch held %s", live);
        else if (s->has_free && s->has_request && s->has_capacity) {
            g_autofree char *left = ech_format_bytes(s->free.bytes);
            ech_diag_remark(diag, "%s were refused with %s free of %s that the device has; what PyTorch held unused of the rest the message does not say",
                            asked, left, all);
        }
        ech_diag_remark(diag, "the message does not say what was allocated%s%s", cuda ? ": a memory snapshot does: " SNAPSHOT : "", cuda ? "" : PRETEND);
        return;
    }
    if (first)
        say_rest(s, diag);
    g_autofree char *own = ech_format_bytes(reserved_of(s));
    if (s->async || s->backend == MPS)
        say_other_allocators(s, diag);
    else if (first && !is_limited(s) && reserved_of(s) < s->capacity.bytes / 10 && MAX(rest.others, rest.beside) > s->capacity.bytes / 4 * 3)
        ech_diag_remark(
            diag, "PyTorch here holds no more than %s: nothing that this program changes makes much room, only another device, or that the others end", own);
    else
        say_verdict(s, diag);
    if (!first)
        say_rest(s, diag);
    bool much = s->has_request && s->request.bytes >= s->allocated.bytes;
    if (much && s->call == IN_CONVOLUTION)
        ech_diag_remark(diag, "more is asked for than all tensors have: unless that is its result, " ECH_TORCH_UNFOLDS);
    /* Queries, keys and values of a layer are a small part of what there is. */
    bool large = s->has_request && s->has_capacity && s->request.bytes >= s->capacity.bytes / 4;
    if ((much || large) && s->call == IN_ATTENTION)
        ech_diag_remark(diag, "more is asked for than %s: " ECH_TORCH_SCORES, much ? "all tensors have" : "queries, keys and values of a layer mostly have");
    if (s->call == IN_LISTS)
        ech_diag_remark(diag,
                        "it was asked for in the optimizer's step, which takes all parameters at once and makes temporaries as large as they are: fused=True "
                        "(Adam, AdamW, Adagrad, SGD) makes none, foreach=False those of one parameter at a time; a smaller batch changes nothing of them");
    if (s->call == IN_STATE_DICT)
        ech_diag_remark(diag, "it was asked for while FSDP put together whole what ranks hold in parts, to save it: FullStateDictConfig(offload_to_cpu=True, "
                              "rank0_only=True) puts that on the host, part after part, and StateDictType.SHARDED_STATE_DICT gathers nothing; what fits in "
                              "training says little of it");
    /* ROCm/TheRock issues 519 and 1054, ROCm issue 5444 */
    if (s->backend == HIP && s->integrated)
        ech_diag_remark(diag,
                        "that is an APU, whose GPU has no memory of its own: PyTorch counts what the kernel lets it have of the host's (GTT: "
                        "ttm.pages_limit, in pages of 4 KiB, half of it unless set), not what the firmware set aside (VRAM), which the host then lacks. Less "
                        "set aside there (512 MB do) and a larger ttm.pages_limit give it more");
    ech_diag_remark(diag, "what was in use, and from which line: %s", cuda ? SNAPSHOT : &PRETEND[2]);
}

/* ---- the trace ---- */

void ech_torch_says_write(const EchTorchSays *s, EchTraceBuilder *builder, EchImport *import)
{
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    Rest rest = rest_of(s);
    bool limited = is_limited(s);
    ech_trace_builder_set_property(builder, "sums_only", "true");
    if (s->backend != MPS && !limited)
        ech_trace_builder_set_property(builder, "refused_on", "gpu");
    ech_refused_number(builder, "asked_for_bytes", s->has_request, s->request.bytes);
    ech_refused_number(builder, "had_bytes", s->has_capacity || limited, limited ? s->allowed.bytes : s->capacity.bytes);
    ech_refused_held(builder, memory, "PyTorch's tensors", s->allocated.bytes);
    /* Against its own limit only PyTorch's counts. */
    if (!limited) {
        ech_refused_held(builder, memory,
                         s->async    ? "neither tensors nor free (unused in the pool, context, other processes)"
                         : rest.told ? "of this process, not PyTorch's (context, libraries)"
                                     : "not PyTorch's (context, libraries, other processes)",
                         rest.beside);
        if (rest.beside > 0)
            ech_trace_builder_set_property(builder, "context_held", "true");
        ech_refused_held(builder, memory, "other processes", rest.others);
        ech_refused_number(builder, "others_bytes", rest.others > 0 || s->async, s->async ? rest.beside : rest.others);
    }
    if (s->has_request)
        ech_refused_request(builder, memory, "what was asked for", NULL, s->request.bytes);
    if (s->others)
        ech_diag_note(import->diag, "reports_after_the_first", s->others);
    say(s, import->diag);
}
