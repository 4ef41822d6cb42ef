#include "sim/import/pool_says.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/refused.h"

#include <math.h>
#include <string.h>

enum { MAX_LABEL = 80, MAX_METRICS = 64 };

/* What is told of a pool at one time. */
typedef enum {
    LIVE,      /* given to tensors or arrays */
    LIVE_PEAK, /* the most of that so far */
    HELD,      /* taken from the device */
    HELD_PEAK, /* the most of that so far */
    SPLIT,     /* unused, in segments that are partly in use */
    N_FIGURES
} Figure;

typedef struct {
    bool has[N_FIGURES];
    EchRounded is[N_FIGURES];
    char label[MAX_LABEL]; /* when it was told, or "" */
} Reading;

typedef enum { UNKNOWN, PYTORCH, OWN_WORDS, JAX, ONNX, MLX } Kind;

/* Of Transformers' Trainer: what there is after the stages so far, and at the fullest, of which for a time only. */
typedef struct {
    bool any;
    double stays, peak, passes;
    uint64_t told[MAX_METRICS]; /* hashes of the figures' names: what is printed again is no more */
    unsigned n_told;
} Trainer;

struct EchPoolSays {
    bool own_words;
    Kind kind;
    Reading now, last; /* being read, and the one before */
    uint64_t readings;
    EchBytes live, held;     /* the most of all readings */
    char fullest[MAX_LABEL]; /* when most was live */
    EchBytes first;          /* live at the most, or held where that is all that is told, of the first reading */
    char began[MAX_LABEL];   /* when that was told */
    unsigned rises;          /* of that, one reading after another */
    bool falls;
    bool anew;           /* Peaks are each of the time since the reading before, as what prints them counts them anew. */
    EchBytes first_held; /* by the first reading; */
    EchBytes grown;      /* after it, beyond what tensors took between two readings; the most up to one */
    bool later;          /* There are readings after that one, */
    EchBytes later_live; /* with as much live at the most, as far as they tell. */
    bool has_limit;
    EchRounded limit; /* what the pool may take, or what the device has */
    uint64_t retries, refusals;
    char label[MAX_LABEL]; /* of the next reading */
    EchBytes device;       /* in use of the device, by all, at the fullest; 0: not told */
    EchBytes beside;       /* the most of that beside what PyTorch held then */
    EchBytes reserved;     /* JAX: for programs, beside arrays; 0: not told */
    bool in_stats;         /* XLA's figures are being listed, a line each */
    bool has_host;
    EchRounded host; /* used, as DeepSpeed tells it, */
    double host_share;
    Trainer trainer;
};

EchPoolSays *ech_pool_says_new(bool own_words)
{
    EchPoolSays *s = g_new0(EchPoolSays, 1);
    s->own_words = own_words;
    return s;
}

void ech_pool_says_free(EchPoolSays *says)
{
    g_free(says);
}

/* ---- readings ---- */

/* The most that was live at a time that a reading tells of. */
static EchBytes live_peak(const Reading *r)
{
    return r->has[LIVE_PEAK] ? r->is[LIVE_PEAK].bytes : r->is[LIVE].bytes;
}

static EchBytes held_peak(const Reading *r)
{
    return r->has[HELD_PEAK] ? r->is[HELD_PEAK].bytes : r->is[HELD].bytes;
}

/* Of tensors, or of what is held where that is all that is told. */
static EchBytes told_peak(const Reading *r)
{
    return r->has[LIVE] || r->has[LIVE_PEAK] ? live_peak(r) : held_peak(r);
}

static bool is_told(const Reading *r)
{
    for (int f = LIVE; f <= HELD_PEAK; f++) {
        if (r->has[f])
            return true;
    }
    return false;
}

static void settle(EchPoolSays *s)
{
    const Reading *r = &s->now;
    if (!is_told(r))
        return;
    EchBytes live = live_peak(r), told = told_peak(r), before = told_peak(&s->last);
    EchBytes held_before = s->last.has[HELD] ? s->last.is[HELD].bytes : 0, needed = MAX(held_before, live), held_now = held_peak(r);
    if (s->readings == 0) {
        s->first = told;
        s->first_held = held_now;
        g_strlcpy(s->began, r->label, sizeof s->began);
    } else {
        s->rises += told > before;
        s->falls |= told < before;
        s->grown = ech_bytes_add(s->grown, held_now - MIN(held_now, needed));
    }
    if (s->readings++ == 0 || live > s->live) {
        s->live = live;
        g_strlcpy(s->fullest, r->label, sizeof s->fullest);
        s->later = false;
        s->later_live = 0;
    } else {
        /* A peak that is not counted anew says nothing of what came later. */
        EchBytes since = live < s->live || !r->has[LIVE] ? live : r->is[LIVE].bytes;
        s->later = true;
        s->later_live = MAX(s->later_live, since);
    }
    s->held = MAX(s->held, held_peak(r));
    s->last = *r;
    s->now = (Reading){0};
}

static void set(EchPoolSays *s, Kind kind, Figure figure, EchRounded value)
{
    if (s->now.has[figure] && s->now.is[figure].bytes != value.bytes)
        settle(s);
    if (!is_told(&s->now))
        g_strlcpy(s->now.label, s->label, sizeof s->now.label);
    s->now.has[figure] = true;
    s->now.is[figure] = value;
    if (s->kind == UNKNOWN || s->kind == OWN_WORDS)
        s->kind = kind;
}

static void set_limit(EchPoolSays *s, EchRounded limit)
{
    s->has_limit = true;
    s->limit = limit;
}

static void set_label(EchPoolSays *s, EchWords words)
{
    g_autofree char *text = ech_quote(words.text, (gssize)MIN(words.n, (size_t)MAX_LABEL - 1), MAX_LABEL - 1);
    g_strlcpy(s->label, text, sizeof s->label);
}

/* ---- wordings ---- */

/* torch.cuda.memory_summary(): "Allocated memory      |  557248 KiB |    800 MiB |   3780 MiB |   3236 MiB |" */
static bool read_summary(EchPoolSays *s, EchWords line)
{
    static const struct {
        const char *name;
        Figure now, peak;
    } rows[] = {{"Allocated memory ", LIVE, LIVE_PEAK}, {"GPU reserved memory ", HELD, HELD_PEAK}, {"Non-releasable memory ", SPLIT, N_FIGURES}};
    uint64_t count;
    if (ech_words_have(line, "CUDA memory summary")) {
        settle(s);
        return true;
    }
    if (ech_words_number_after(line, "cudaMalloc retries", &count)) {
        s->retries = MAX(s->retries, count);
        if (ech_words_number_after(line, "CUDA OOMs", &count))
            s->refusals = MAX(s->refusals, count);
        return true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        EchRounded now, peak;
        EchWords cells = ech_words_after(line, "|");
        if (!ech_words_start(line, rows[i].name) || !ech_words_size_after(line, "|", &now) || !ech_words_size_after(cells, "|", &peak))
            continue;
        set(s, PYTORCH, rows[i].now, now);
        if (rows[i].peak != N_FIGURES)
            set(s, PYTORCH, rows[i].peak, peak);
        return true;
    }
    return false;
}

/* The number behind a quoted or bare @key of a dictionary: 'key': 12, ('key', 12), "key": 12, key=12. */
static bool entry(EchWords line, const char *key, uint64_t *ret)
{
    size_t n = strlen(key);
    for (const char *at = ech_words_find(line, key); at; at = ech_words_find((EchWords){at + 1, (size_t)(line.text + line.n - at) - 1}, key)) {
        const char *end = line.text + line.n, *value = at + n;
        while (value < end && value < at + n + 6 && strchr("'\",:= ", *value) && *value)
            value++;
        bool whole = at == line.text || (!g_ascii_isalnum(at[-1]) && at[-1] != '_' && at[-1] != '.');
        size_t digits = 0;
        while (value + digits < end && digits < 20 && g_ascii_isdigit(value[digits]))
            digits++;
        g_autofree char *text = g_strndup(value, digits);
        if (whole && value > at + n && digits && ech_parse_u64(text, ret, NULL))
            return true;
    }
    return false;
}

/* torch.cuda.memory_stats(), device.memory_stats() of JAX: on one line or on many. */
static bool read_stats(EchPoolSays *s, EchWords line)
{
    static const struct {
        const char *key;
        Kind kind;
        Figure figure;
    } keys[] = {{"allocated_bytes.all.current", PYTORCH, LIVE},
                {"allocated_bytes.all.peak", PYTORCH, LIVE_PEAK},
                {"reserved_bytes.all.current", PYTORCH, HELD},
                {"reserved_bytes.all.peak", PYTORCH, HELD_PEAK},
                {"inactive_split_bytes.all.current", PYTORCH, SPLIT},
                {"bytes_in_use", JAX, LIVE},
                {"peak_bytes_in_use", JAX, LIVE_PEAK}};
    bool any = false;
    uint64_t value;
    if (!ech_words_have(line, "_bytes") && !ech_words_have(line, "bytes_") && !ech_words_have(line, "num_"))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        if (!entry(line, keys[i].key, &value))
            continue;
        set(s, keys[i].kind, keys[i].figure, (EchRounded){value, 0});
        any = true;
    }
    if (entry(line, "bytes_limit", &value)) {
        set_limit(s, (EchRounded){value, 0});
        any = true;
    }
    if (entry(line, "bytes_reserved", &value)) {
        s->reserved = MAX(s->reserved, value);
        any = true;
    }
    if (entry(line, "num_alloc_retries", &value)) {
        s->retries = MAX(s->retries, value);
        any = true;
    }
    return any;
}

/* What Reactant.jl prints of the same, a line each: "AllocatorStats", "In Use: 2.648 GiB", "Peak In Use: 2.648 GiB", "Limit: 31.246 GiB". */
static bool read_listed_stats(EchPoolSays *s, EchWords line)
{
    static const struct {
        const char *key;
        Figure figure;
    } keys[] = {{"Peak In Use:", LIVE_PEAK}, {"In Use:", LIVE}};
    EchRounded size;
    if (ech_words_have(line, "AllocatorStats")) {
        settle(s);
        return s->in_stats = true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(keys) && s->in_stats; i++) {
        if (ech_words_size_after(line, keys[i].key, &size)) {
            set(s, JAX, keys[i].figure, size);
            return true;
        }
    }
    if (s->in_stats && (ech_words_have(line, "Peak Reserved:") || ech_words_have(line, "Reservable Limit:")))
        return true;
    if (s->in_stats && ech_words_size_after(line, "Reserved:", &size)) {
        s->reserved = MAX(s->reserved, size.bytes);
        return true;
    }
    if (!s->in_stats || !ech_words_size_after(line, "Limit:", &size))
        return false;
    set_limit(s, size);
    return true;
}

/* DeepSpeed: "[utils.py:803:see_memory_usage] MA 26.38 GB         Max_MA 26.38 GB         CA 26.71 GB         Max_CA 27 GB", after a line that says where. */
static bool read_deepspeed(EchPoolSays *s, EchWords before, EchWords line)
{
    EchRounded live, peak, held, held_peak, host;
    if (!ech_words_have(before, "see_memory_usage"))
        return false;
    if (ech_words_size_after(line, "MA ", &live) && ech_words_size_after(line, "Max_MA ", &peak) && ech_words_size_after(line, " CA ", &held) &&
        ech_words_size_after(line, "Max_CA ", &held_peak)) {
        settle(s);
        s->anew = true; /* reset_peak_memory_stats() behind each (deepspeed/runtime/utils.py) */
        set(s, PYTORCH, LIVE, live);
        set(s, PYTORCH, LIVE_PEAK, peak);
        set(s, PYTORCH, HELD, held);
        /* That one is rounded to whole gigabytes. */
        set(s, PYTORCH, HELD_PEAK, ech_rounded_is(&held_peak, held.bytes) ? held : held_peak);
    } else if (ech_words_start(line, "CPU Virtual Memory")) {
        EchWords share = ech_words_after(line, "percent = ");
        g_autofree char *percent = g_strndup(share.text, MIN(share.n, (size_t)12));
        double value = g_ascii_strtod(percent, NULL);
        if (ech_words_size_after(line, "used", &host) && value > 0 && value <= 100 && (!s->has_host || host.bytes > s->host.bytes)) {
            s->has_host = true;
            s->host = host;
            s->host_share = value;
        }
    } else {
        set_label(s, line);
    }
    return true;
}

/* PEFT's examples (TorchTracemalloc), in MiB: "GPU Total Peak Memory consumed during the train (max): 54371". */
static bool read_peft(EchPoolSays *s, EchWords line)
{
    uint64_t mib;
    if (!ech_words_start(line, "GPU Total Peak Memory consumed during the ") || !ech_words_number_after(line, "(max)", &mib) || mib >= UINT64_C(1) << 32)
        return false;
    set(s, PYTORCH, LIVE_PEAK, (EchRounded){mib << 20, 1 << 20});
    return true;
}

/* Unsloth's notebooks, in GiB: "GPU = NVIDIA L4. Max memory = 22.161 GB.", "2.697 GB of memory reserved." before a training run, "Peak reserved memory = 6.893
 * GB." after it. */
static bool read_unsloth(EchPoolSays *s, EchWords line)
{
    EchRounded size;
    if (ech_words_start(line, "GPU = ") && ech_words_size_after(line, "Max memory = ", &size))
        set_limit(s, size);
    else if (ech_words_start(line, "Peak reserved memory = ") && ech_words_size_after(line, "memory = ", &size))
        set(s, PYTORCH, HELD_PEAK, size);
    else if (ech_words_size_before(line, " of memory reserved.", &size))
        set(s, PYTORCH, HELD, size);
    else
        return false;
    return true;
}

/* MMEngine and MMCV, of MMDetection and others: "Epoch [1][50/29317]	lr: 1.978e-03, eta: 3 days, 10:34:55, time: 0.845, data_time: 0.061, memory: 6497, ...":
 * the most that tensors took, in MiB. */
static bool read_mmcv(EchPoolSays *s, EchWords line)
{
    uint64_t mib;
    if (!ech_words_have(line, "lr: ") || !ech_words_have(line, "eta: ") || !ech_words_number_after(line, " memory", &mib) || mib == 0 ||
        mib >= UINT64_C(1) << 32)
        return false;
    settle(s);
    set(s, PYTORCH, LIVE_PEAK, (EchRounded){mib << 20, 1 << 20});
    return true;
}

/* ONNX Runtime's arena, each time that it grows: "[I:onnxruntime:log, bfc_arena.cc:189 Extend] Total allocated bytes: 34603008". */
static bool read_onnx(EchPoolSays *s, EchWords before, EchWords line)
{
    uint64_t bytes;
    if (!ech_words_have(before, "bfc_arena.cc") || !ech_words_number_after(line, "Total allocated bytes", &bytes) || bytes >= UINT64_C(1) << 55)
        return false;
    settle(s);
    set(s, ONNX, HELD, (EchRounded){bytes, 0});
    return true;
}

static bool number_after(EchWords line, const char *key, double *ret);

/* mlx-lm, in units of 10^9 bytes: "Peak memory: 11.496 GB" and, in some releases, "Cache memory: 22.795 GB" after a generation, "Iter 1290: Train loss 0.225,
 * ... Peak mem 105.648 GB" while it trains. */
static bool read_mlx(EchPoolSays *s, EchWords line)
{
    double peak, cache;
    bool cached = ech_words_start(line, "Cache memory: ") && number_after(line, "Cache memory: ", &cache);
    if (cached && s->kind == MLX) {
        set(s, MLX, SPLIT, (EchRounded){ech_rounded_bytes(cache * 1e9), 5e5});
        return true;
    }
    bool trained = ech_words_start(line, "Iter ") && number_after(line, "Peak mem ", &peak);
    if (!trained && !(ech_words_start(line, "Peak memory: ") && ech_words_have(line, " GB") && number_after(line, "Peak memory: ", &peak)))
        return false;
    settle(s);
    set(s, MLX, LIVE_PEAK, (EchRounded){ech_rounded_bytes(peak * 1e9), 5e5});
    return true;
}

/* A positive number, with a point or without. */
static bool number_after(EchWords line, const char *key, double *ret)
{
    EchWords rest = ech_words_after(line, key);
    g_autofree char *text = g_strndup(rest.text, MIN(rest.n, (size_t)32));
    *ret = g_ascii_isdigit(*text) ? g_ascii_strtod(text, NULL) : 0;
    return *ret > 0 && *ret < 1e12;
}

/* Megatron (report_memory() of its training/utils.py), of one rank's first iterations, in MiB: "[Rank 0] (after 10 iterations) memory (MB) | allocated: 23142.5
 * | max allocated: 61234.25 | reserved: 66810.0 | max reserved: 66810.0" */
static bool read_megatron(EchPoolSays *s, EchWords line)
{
    static const struct {
        const char *key;
        Figure figure;
    } keys[] = {{"| allocated: ", LIVE}, {"| max allocated: ", LIVE_PEAK}, {"| reserved: ", HELD}, {"| max reserved: ", HELD_PEAK}};
    EchWords words = ech_words_after(line, "memory (MB) ");
    if (!ech_words_start(words, keys[0].key))
        return false;
    settle(s);
    EchWords stage = ech_words_trim(line.text, (size_t)(words.text - line.text) - strlen("memory (MB) "));
    bool brackets = stage.n > 2 && stage.text[0] == '(' && stage.text[stage.n - 1] == ')';
    set_label(s, brackets ? (EchWords){stage.text + 1, stage.n - 2} : stage);
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        double mib;
        if (number_after(words, keys[i].key, &mib))
            set(s, PYTORCH, keys[i].figure, (EchRounded){ech_rounded_bytes(mib * (double)(1 << 20) + 0.5), 0});
    }
    return true;
}

/* A number of GiB without a unit. */
static bool gib_after(EchWords line, const char *key, EchRounded *ret)
{
    double value;
    if (!number_after(line, key, &value) || value > 1 << 20)
        return false;
    *ret = (EchRounded){ech_rounded_bytes(value * (double)(1 << 30) + 0.5), 0};
    return true;
}

/* "Step 7 | ...", "step:  7  loss: ...": its beginning. */
static void label_of_step(EchPoolSays *s, EchWords line)
{
    EchWords rest = ech_words_after(line, "tep");
    size_t n = 0, digits = 0;
    while (n < rest.n && n < 4 && strchr(" :", rest.text[n]) && rest.text[n])
        n++;
    while (n + digits < rest.n && digits < 12 && g_ascii_isdigit(rest.text[n + digits]))
        digits++;
    if (digits == 0)
        return;
    g_autofree char *label = g_strdup_printf("step %.*s", (int)digits, rest.text + n);
    g_strlcpy(s->label, label, sizeof s->label);
}

/* torchtune: "GPU peak memory reserved: 15.59 GiB", "Step 1 | ... peak_memory_alloc:47.0017 peak_memory_reserved:52.0017" */
static bool read_torchtune(EchPoolSays *s, EchWords line)
{
    EchRounded value;
    if (ech_words_size_after(line, "peak memory alloc", &value) || gib_after(line, "peak_memory_alloc:", &value)) {
        if (ech_words_have(line, "peak_memory_alloc:"))
            label_of_step(s, line);
        settle(s);
        set(s, PYTORCH, LIVE_PEAK, value);
        if (gib_after(line, "peak_memory_reserved:", &value))
            set(s, PYTORCH, HELD_PEAK, value);
        return true;
    }
    if (ech_words_size_after(line, "peak memory reserved", &value)) {
        set(s, PYTORCH, HELD_PEAK, value);
        return true;
    }
    return ech_words_have(line, "peak memory active");
}

/* torchtitan: "GPU capacity: NVIDIA H100 (0) with 95.04GiB memory", "step:  7  loss: ...  memory: 170.22GiB(95.44%)  tps: ...", "9 CUDA memory allocation
 * retries." */
static bool read_torchtitan(EchPoolSays *s, EchWords line)
{
    EchRounded value;
    const char *retries = ech_words_find(line, " CUDA memory allocation retries");
    if (retries) {
        const char *digit = retries;
        while (digit > line.text && g_ascii_isdigit(digit[-1]))
            digit--;
        g_autofree char *text = g_strndup(digit, (gsize)(retries - digit));
        uint64_t n;
        if (ech_parse_u64(text, &n, NULL))
            s->retries = MAX(s->retries, n);
        return true;
    }
    if (ech_words_have(line, " capacity: ") && ech_words_size_after(line, " with ", &value) && ech_words_have(line, "memory")) {
        set_limit(s, value);
        return true;
    }
    EchWords rest = ech_words_after(line, "memory: "), share = ech_words_after(rest, "(");
    size_t used;
    if (!ech_words_have(line, "tps") || !ech_words_have(share, "%)") || !ech_rounded_parse(rest.text, strcspn(rest.text, "( \n"), &value, &used))
        return false;
    g_autofree char *percent = g_strndup(share.text, MIN(share.n, (size_t)12));
    double part = g_ascii_strtod(percent, NULL) / 100;
    label_of_step(s, line);
    settle(s);
    set(s, PYTORCH, HELD_PEAK, value);
    if (part > 0.001 && part <= 1 && !s->has_limit)
        set_limit(s, (EchRounded){ech_rounded_bytes((double)value.bytes / part), value.slack / part});
    return true;
}

/* Whether the figure whose name goes through line[at] was told before. */
static bool is_repeated(Trainer *t, EchWords line, size_t at)
{
    size_t begin = at, end = at;
    while (begin > 0 && (g_ascii_isalnum(line.text[begin - 1]) || line.text[begin - 1] == '_'))
        begin--;
    while (end < line.n && (g_ascii_isalnum(line.text[end]) || line.text[end] == '_'))
        end++;
    uint64_t name = ech_hash_bytes(line.text + begin, end - begin);
    for (unsigned i = 0; i < t->n_told; i++) {
        if (t->told[i] == name)
            return true;
    }
    if (t->n_told < MAX_METRICS)
        t->told[t->n_told++] = name;
    return false;
}

/* Transformers' Trainer: "train_mem_gpu_peaked_delta =     2012MB", of 2^20 bytes; in its files plain bytes. What a stage adds comes before what passed in it.
 */
static bool read_trainer(EchPoolSays *s, EchWords line)
{
    const char *at = ech_words_find(line, "_mem_gpu");
    if (!at)
        return ech_words_have(line, "_mem_cpu");
    EchWords rest = {at, (size_t)(line.text + line.n - at)};
    const char *end = rest.text + rest.n, *value = at;
    while (value < end && !g_ascii_isdigit(*value))
        value++;
    bool minus = value > at && value < end && value[-1] == '-';
    EchRounded size;
    size_t used;
    uint64_t bytes;
    g_autofree char *plain = g_strndup(value, MIN((size_t)(end - value), (size_t)24));
    plain[strspn(plain, "0123456789")] = '\0';
    if (!ech_rounded_parse(value, (size_t)(end - value), &size, &used)) {
        if (!ech_parse_u64(plain, &bytes, NULL))
            return false;
        size = (EchRounded){bytes, 0};
    }
    double amount = minus ? -(double)size.bytes : (double)size.bytes;
    Trainer *t = &s->trainer;
    if (is_repeated(t, line, (size_t)(at - line.text)))
        return true;
    if (ech_words_have(line, "_gpu_peaked_delta") && t->stays + amount > t->peak) {
        t->peak = t->stays + amount;
        t->passes = amount;
    } else if (ech_words_have(line, "before_init_mem_gpu") || ech_words_have(line, "_gpu_alloc_delta")) {
        t->stays += amount;
    }
    t->any = true;
    return true;
}

/* A size whose unit stands before it: @between a name and its number, "(GB): ", "[MiB] ". */
static bool size_of_unit(EchWords text, const char *between, size_t n, EchRounded *ret)
{
    size_t used, digits = 0;
    const char *open = n ? memchr(between, '(', n) : NULL;
    open = open || n == 0 ? open : memchr(between, '[', n);
    while (digits < text.n && digits < 24 && (g_ascii_isdigit(text.text[digits]) || text.text[digits] == '.'))
        digits++;
    if (!open || digits == 0)
        return false;
    g_autofree char *unit = g_strndup(open + 1, (gsize)(between + n - open - 1));
    unit[strspn(unit, "kmgtibKMGTIB")] = '\0';
    g_autofree char *upper = g_ascii_strup(unit, -1), *sized = g_strdup_printf("%.*s %s", (int)digits, text.text, upper);
    return unit[0] && ech_rounded_parse(sized, strlen(sized), ret, &used);
}

/* A count of bytes without a unit: what is less than a MiB is something else's number. */
static bool plain_bytes(EchWords text, EchRounded *ret)
{
    uint64_t bytes;
    if (!ech_words_number_after(text, "", &bytes) || bytes < UINT64_C(1) << 20 || bytes >= UINT64_C(1) << 55)
        return false;
    *ret = (EchRounded){bytes, 0};
    return true;
}

/* What stands before a comma at the beginning of a line whose figures begin at @at: "After init actor model". */
static void label_of_phrase(EchPoolSays *s, EchWords line, size_t at)
{
    const char *begin = ech_words_find(line, "After ");
    begin = begin ? begin : ech_words_find(line, "Before ");
    const char *comma = begin && begin < line.text + at ? memchr(begin, ',', (size_t)(line.text + at - begin)) : NULL;
    if (comma)
        set_label(s, (EchWords){begin, (size_t)(comma - begin)});
}

/* verl's "..., memory allocated (GB): 15.40, memory reserved (GB): 16.00, device memory used/total (GB): 62.87/79.15": the last. */
static void read_device(EchPoolSays *s, EchWords line)
{
    EchRounded used, total;
    EchWords pair = ech_words_after(line, "used/total");
    const char *colon = pair.n ? memchr(pair.text, ':', MIN(pair.n, (size_t)12)) : NULL;
    if (!colon)
        return;
    EchWords numbers = ech_words_trim(colon + 1, (size_t)(pair.text + pair.n - colon) - 1);
    const char *slash = numbers.n ? memchr(numbers.text, '/', numbers.n) : NULL;
    size_t between = (size_t)(colon - pair.text);
    if (!slash || !size_of_unit(numbers, pair.text, between, &used) ||
        !size_of_unit((EchWords){slash + 1, (size_t)(numbers.text + numbers.n - slash) - 1}, pair.text, between, &total))
        return;
    EchBytes held = s->now.has[HELD] ? s->now.is[HELD].bytes : s->now.has[LIVE] ? s->now.is[LIVE].bytes : used.bytes;
    set_limit(s, total);
    s->device = MAX(s->device, used.bytes);
    s->beside = MAX(s->beside, used.bytes - MIN(used.bytes, held));
}

/* "Allocated: 0.53 GB, reserved 0.91 GB", "max_memory_allocated: 12.3 GiB", "occupied memory:2.47 GB": people's own words, with units or in bytes, before
 * which "After init actor model, " may tell when. */
static bool read_own_words(EchPoolSays *s, EchWords line)
{
    static const struct {
        const char *word;
        bool held;
    } words[] = {{"allocated", false}, {"occupied", false}, {"reserved", true}, {"cached", true}};
    bool any = false;
    size_t from = 0;
    if (line.n > 512)
        return false;
    g_autofree char *lower = g_ascii_strdown(line.text, (gssize)line.n);
    for (size_t at = 0; at < line.n; at++) {
        for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
            size_t n = strlen(words[i].word), gap = 0, used;
            EchRounded size;
            if (line.n - at < n || memcmp(lower + at, words[i].word, n) != 0)
                continue;
            while (at + n + gap < line.n && gap < 24 && !g_ascii_isdigit(lower[at + n + gap]) &&
                   strchr("_()[]: ='\"%abcdefghijklmnopqrstuvwxyz", lower[at + n + gap]))
                gap++;
            EchWords number = {line.text + at + n + gap, line.n - at - n - gap};
            used = 1;
            if (!ech_rounded_parse(number.text, number.n, &size, &used) && !size_of_unit(number, line.text + at + n, gap, &size) && !plain_bytes(number, &size))
                continue;
            if (!any)
                label_of_phrase(s, line, at);
            g_autofree char *phrase = g_strndup(lower + from, at - from);
            bool peak = strstr(phrase, "max") || strstr(phrase, "peak");
            set(s, OWN_WORDS, words[i].held ? (peak ? HELD_PEAK : HELD) : (peak ? LIVE_PEAK : LIVE), size);
            from = at += n + gap + used - 1;
            any = true;
            break;
        }
    }
    if (any)
        read_device(s, line);
    return any;
}

bool ech_pool_says_line(EchPoolSays *s, EchWords before, EchWords line)
{
    if (line.n == 0)
        return false;
    return read_summary(s, line) || read_deepspeed(s, before, line) || read_megatron(s, line) || read_torchtune(s, line) || read_torchtitan(s, line) ||
           read_trainer(s, line) || read_peft(s, line) || read_unsloth(s, line) || read_mmcv(s, line) || read_onnx(s, before, line) || read_mlx(s, line) ||
           read_stats(s, line) || read_listed_stats(s, line) || (s->own_words && read_own_words(s, line));
}

/* ---- what it comes to ---- */

/* All readings, the last one too. */
static EchPoolSays settled(const EchPoolSays *s)
{
    EchPoolSays all = *s;
    settle(&all);
    const Trainer *t = &all.trainer;
    if (all.readings == 0 && t->any) {
        set(&all, PYTORCH, LIVE, (EchRounded){ech_rounded_bytes(t->stays), 0});
        set(&all, PYTORCH, LIVE_PEAK, (EchRounded){ech_rounded_bytes(MAX(t->peak, t->stays)), 0});
        settle(&all);
    }
    return all;
}

bool ech_pool_says_any(const EchPoolSays *s)
{
    EchPoolSays all = settled(s);
    bool both = all.last.has[LIVE] && all.last.has[LIVE_PEAK];
    return all.kind == OWN_WORDS ? all.live && (all.held || both) : all.live || all.held;
}

static void say_jax(const EchPoolSays *s, EchDiag *diag)
{
    EchBytes used = s->last.is[LIVE].bytes;
    g_autofree char *live = ech_format_bytes(used), *peak = ech_format_bytes(s->live), *limit = ech_format_bytes(s->limit.bytes),
                    *left = ech_format_bytes(s->limit.bytes - MIN(s->limit.bytes, ech_bytes_add(used, s->reserved))), *reserved = ech_format_bytes(s->reserved),
                    *of = g_strdup_printf(", of at most %s", limit);
    ech_diag_remark(diag, "JAX holds %s in arrays and programs, %s at the fullest%s", live, peak, s->has_limit ? of : "");
    if (s->reserved)
        ech_diag_remark(diag, "beside that %s are reserved, as a TPU's runtime does for the temporaries of programs", reserved);
    if (s->has_limit)
        ech_diag_remark(diag,
                        "what is asked for next has %s left, in pieces; a program's temporaries have to fit into one. On a GPU the most is "
                        "XLA_PYTHON_CLIENT_MEM_FRACTION of the memory (.75 unless set), and nvidia-smi shows all of that, used or not",
                        left);
    ech_diag_remark(diag,
                    "which arrays those are: jax.profiler.save_device_memory_profile(\"memory.prof\"), which echelon reads; what a program takes: 'echelon "
                    "capture', or print(jax.jit(f).lower(...).compile().as_text()) into a file");
}

static void say_mlx(const EchPoolSays *s, EchDiag *diag)
{
    g_autofree char *peak = ech_format_bytes(s->live), *cache = ech_format_bytes(s->last.is[SPLIT].bytes);
    ech_diag_remark(diag, "MLX's arrays took %s at the fullest, of the memory that the Mac's CPU and GPU share", peak);
    if (s->last.has[SPLIT])
        ech_diag_remark(
            diag, "beside that it keeps %s of buffers that were freed, for the next arrays: mx.set_cache_limit() bounds it, mx.clear_cache() gives it back",
            cache);
    ech_diag_remark(
        diag,
        "of the machine's memory the GPU may take some two thirds to three quarters (recommendedMaxWorkingSetSize). Less is taken by weights of fewer bits, "
        "a shorter context or --max-kv-size, --kv-bits, and in training --batch-size, --grad-checkpoint and --num-layers");
}

static void say_onnx(const EchPoolSays *s, EchDiag *diag)
{
    g_autofree char *held = ech_format_bytes(s->held);
    ech_diag_remark(diag, "ONNX Runtime's arena has taken %s, in %" G_GUINT64_FORMAT " piece%s: that it grows is no error", held, s->readings,
                    s->readings == 1 ? "" : "s");
    ech_diag_remark(
        diag, "it keeps what it has taken, and each piece that it adds is twice the one before unless arena_extend_strategy is kSameAsRequested; gpu_mem_limit "
              "bounds it, memory.enable_memory_arena_shrinkage of a run gives back what lies unused");
}

/* More and more, told step by step. */
static bool is_growing(const EchPoolSays *s)
{
    EchBytes most = s->live ? s->live : s->held;
    return g_str_has_prefix(s->began, "step ") && s->rises >= 2 && !s->falls && most > s->first + s->first / 20;
}

static void say_growth(const EchPoolSays *s, EchDiag *diag)
{
    g_autofree char *first = ech_format_bytes(s->first), *most = ech_format_bytes(s->live ? s->live : s->held);
    if (is_growing(s))
        ech_diag_remark(diag,
                        "at each of %" G_GUINT64_FORMAT " readings %s as much as before or more, from %s%s%s%s to %s: something is kept from step to step "
                        "(losses or outputs with their graphs, lists, caches), or inputs grow%s; a snapshot says which lines",
                        s->readings, s->live ? "tensors took" : "PyTorch held", first, s->began[0] ? " (" : "", s->began, s->began[0] ? ")" : "", most,
                        s->live ? "" : ", or pieces that were freed do not fit what is asked for next");
}

/* Peaks of the readings alone do not explain what was held when they began. */
static void say_earlier(const EchPoolSays *s, EchDiag *diag)
{
    g_autofree char *peak = ech_format_bytes(s->live), *first = ech_format_bytes(s->first_held);
    ech_diag_remark(diag,
                    "PyTorch held %s at the first of these readings already, and each peak (Max_MA) is of the time since the reading before alone: at most %s "
                    "in them. What is held is kept from an earlier peak, most likely, and no fragmentation shows: readings from before it would tell",
                    first, peak);
}

/* Why more is held than is in use. */
static void say_gap(const EchPoolSays *s, bool beside, EchDiag *diag)
{
    const Reading *r = &s->last;
    bool now = r->has[HELD] && r->has[LIVE], peaks = r->has[LIVE_PEAK] && (r->has[HELD_PEAK] || r->has[HELD]);
    EchBytes held = now ? r->is[HELD].bytes : s->held, live = now ? r->is[LIVE].bytes : s->live, unused = held - MIN(held, live);
    g_autofree char *held_size = ech_format_bytes(held), *live_size = ech_format_bytes(live), *unused_size = ech_format_bytes(unused),
                    *when = s->readings > 1 && r->label[0] ? g_strdup_printf(" (%s)", r->label) : g_strdup("");
    if (now)
        ech_diag_remark(
            diag,
            "PyTorch holds %s of the device, %s of that are tensors, %s lie unused%s. nvidia-smi shows what is held, and the process's context (some "
            "300 to 600 MiB)",
            held_size, live_size, unused_size, when);
    if (r->has[SPLIT] && unused > held / 20) {
        EchBytes stuck = MIN(r->is[SPLIT].bytes, unused), freed = unused - stuck;
        g_autofree char *split = ech_format_bytes(stuck), *whole = ech_format_bytes(freed);
        if (freed > unused / 20)
            ech_diag_remark(
                diag,
                "of what lies unused, %s are whole segments: torch.cuda.empty_cache() gives them back, and PyTorch itself does before it says out of "
                "memory; %s lie between tensors: nothing gives those back, and only requests that fit in get them",
                whole, split);
        else
            ech_diag_remark(diag,
                            "all that lies unused lies between tensors: torch.cuda.empty_cache() gives none of it back, and only requests that fit in get it");
    }
    if (!peaks && unused > held / 10)
        ech_diag_remark(diag, "whether that is kept from an earlier peak or is fragmentation, the peaks tell: torch.cuda.max_memory_allocated() beside "
                              "torch.cuda.max_memory_reserved(), or torch.cuda.memory_summary()");
    if (!peaks)
        return;
    EchBytes more = s->held - MIN(s->held, s->live), loose = s->anew ? MIN(more, s->grown) : more;
    g_autofree char *peak = ech_format_bytes(s->live), *all = ech_format_bytes(s->held), *over = ech_format_bytes(loose),
                    *later = ech_format_bytes(s->later_live);
    if (loose > s->held / 10)
        ech_diag_remark(
            diag,
            "at the fullest tensors took %s, and PyTorch held up to %s: %s that no tensors needed at once, in pieces of sizes that were not asked for "
            "again (lengths or batches that change, small tensors that stay between large ones)%s",
            peak, all, over,
            beside ? ""
                   : ". PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True mostly avoids it (not on Windows); 'echelon alloc' of a memory snapshot "
                     "says which setting does");
    else if (more > s->held / 10)
        say_earlier(s, diag);
    else
        ech_diag_remark(diag,
                        "at the fullest tensors took %s of the %s: what is held is what the peak needed, kept for the next one, and hardly fragmented. "
                        "Only a lower peak (smaller batch, checkpointing, offload) makes it less; emptying the cache helps other processes, not this one",
                        peak, all);
    say_growth(s, diag);
    if (s->later && s->fullest[0] && s->later_live < s->live / 10 * 7)
        ech_diag_remark(
            diag, "that peak was at '%s'; afterwards tensors took at most %s, as far as it is told: torch.cuda.empty_cache() after it gives the rest back",
            s->fullest, later);
}

static void say_pytorch(const EchPoolSays *s, bool beside, EchDiag *diag)
{
    EchBytes most = MAX(s->live, s->held);
    g_autofree char *top = ech_format_bytes(most), *now = ech_format_bytes(s->last.is[LIVE].bytes), *limit = ech_format_bytes(s->limit.bytes),
                    *passing = ech_format_bytes(ech_rounded_bytes(s->trainer.passes));
    if (s->held && s->live) {
        say_gap(s, beside, diag);
    } else if (s->trainer.any && s->live) {
        ech_diag_remark(
            diag,
            "tensors took %s at the fullest: what was there before, what each stage added (alloc_delta) and what came and went in it (peaked_delta); "
            "%s of that only for a time: activations, gradients, workspaces. %s stay: weights, gradients, optimizer state",
            top, passing, now);
        ech_diag_remark(diag, "the device needs more: what PyTorch keeps unused between tensors, and the context (some 300 to 600 MiB)");
    } else if (s->last.has[LIVE] && s->live > s->last.is[LIVE].bytes) {
        g_autofree char *less = ech_format_bytes(s->live - s->last.is[LIVE].bytes);
        ech_diag_remark(
            diag,
            "tensors take %s, at the fullest they took %s: %s of that only for a time (activations, gradients, workspaces). The peak is what has to fit, "
            "and what PyTorch keeps unused and the context (some 300 to 600 MiB) beside it",
            now, top, less);
    } else {
        ech_diag_remark(diag, "PyTorch %s %s at the most", s->held ? "held" : "had tensors of", top);
    }
    if (!s->held || !s->live)
        say_growth(s, diag);
    if (s->has_limit && s->limit.bytes)
        ech_diag_remark(diag, "the device has %s of memory: that is %.0f %% of it", limit, 100 * (double)most / (double)s->limit.bytes);
    g_autofree char *device = ech_format_bytes(s->device), *not_of_pool = ech_format_bytes(s->beside);
    if (s->beside > UINT64_C(1) << 30)
        ech_diag_remark(
            diag,
            "of the device up to %s were in use, up to %s of that beside what PyTorch held then: contexts, other processes, and engines that allocate "
            "for themselves (vLLM's weights and KV cache where it sleeps, NCCL)",
            device, not_of_pool);
    if (s->refusals)
        ech_diag_remark(diag,
                        "out of memory %" G_GUINT64_FORMAT " time%s (CUDA OOMs): the peak would have been higher with what was refused, which is not told here",
                        s->refusals, s->refusals == 1 ? "" : "s");
    if (s->retries)
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT
                        " time%s the device was full, PyTorch gave back what it held unused and asked again (retries): it waits for the device "
                        "each time, so steps get slower before anything fails. A lower peak, or a setting that leaves less unused, ends that",
                        s->retries, s->retries == 1 ? "" : "s");
    if (s->has_host) {
        g_autofree char *host = ech_format_bytes(s->host.bytes), *all = ech_format_bytes(ech_rounded_bytes((double)s->host.bytes / s->host_share * 100));
        ech_diag_remark(diag, "of the host's memory up to %s were in use, of about %s", host, all);
    }
    if (!beside)
        ech_diag_remark(diag, "what is in it, and from which line: torch.cuda.memory._record_memory_history() when the program begins, "
                              "torch.cuda.memory._dump_snapshot(\"memory.pickle\") at the peak; without a GPU 'echelon capture --pretend DEVICE -- COMMAND'");
}

void ech_pool_says_say(const EchPoolSays *s, bool beside, EchDiag *diag)
{
    EchPoolSays all = settled(s);
    if (all.kind == JAX)
        say_jax(&all, diag);
    else if (all.kind == MLX)
        say_mlx(&all, diag);
    else if (all.kind == ONNX)
        say_onnx(&all, diag);
    else
        say_pytorch(&all, beside, diag);
}

void ech_pool_says_write(const EchPoolSays *s, EchTraceBuilder *builder, EchImport *import)
{
    EchPoolSays all = settled(s);
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    bool jax = all.kind == JAX, onnx = all.kind == ONNX;
    if (all.held)
        ech_trace_builder_set_property(builder, "refused_on", "gpu");
    ech_refused_number(builder, "had_bytes", all.has_limit, all.limit.bytes);
    ech_refused_held(builder, memory,
                     jax               ? "arrays and programs, at the fullest"
                     : all.kind == MLX ? "MLX's arrays, at the fullest"
                                       : "PyTorch's tensors, at the fullest",
                     all.live);
    ech_refused_held(builder, memory,
                     onnx       ? "ONNX Runtime's arena"
                     : all.live ? "held by PyTorch besides"
                                : "held by PyTorch, at the fullest",
                     all.held - MIN(all.held, all.live));
    ech_refused_held(builder, memory, "reserved beside arrays", all.reserved);
    ech_diag_note(import->records, "readings", all.readings);
}
