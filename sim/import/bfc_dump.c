#include "sim/import/bfc_dump.h"
#include "models/alloc/alloc.h"
#include "sim/base/error.h"
#include "sim/import/pasted.h"
#include "sim/import/refused.h"
#include "sim/trace/trace.h"

#include <string.h>

enum {
    MAX_CHUNKS = 1 << 20,
    MAX_REGIONS = 1 << 16,
    MAX_SIZES = 1 << 16,
    MAX_BUFFERS = 1 << 16, /* of a summary by size */
    MAX_BINS = 64,
    MAX_DUMPS = 16, /* sums that are kept to tell dumps apart */
    MAX_NAME = 160,
};
static const char NO_NEXT[] = "18446744073709551615";

typedef struct {
    uint64_t address;
    EchBytes bytes;
    char *by; /* op or annotation, or NULL */
    uint32_t region, order;
    bool used;
} Chunk;

/* "Next region of size N" and the chunks after it. */
typedef struct {
    EchBytes bytes, listed;
    uint64_t end; /* where its next chunk begins; 0: it has none yet */
    bool closed;
} Region;

/* "3 Chunks of size 1024 totalling 3.0KiB" */
typedef struct {
    EchBytes bytes;
    uint64_t n;
} Size;

typedef struct {
    EchBytes bytes; /* of its smallest chunk */
    uint64_t n, used;
    EchRounded held, in_use, asked;
    bool old; /* releases until TensorFlow 1.3 counted free chunks only */
} Bin;

typedef struct {
    bool any;
    EchRounded limit, in_use, largest_free; /* releases since TensorFlow 2.18 round them for people */
} Stats;

/* What an allocator has taken from the device, and how much it may take. */
typedef struct {
    EchRounded bytes, limit;
} Pool;

typedef enum { BEFORE, WITHIN, AFTER } Phase;

struct EchBfcDump {
    const char *where;
    Phase phase;
    GArray *chunks, *regions, *sizes; /* Chunk, Region, Size */
    Bin bins[MAX_BINS];
    unsigned n_bins;
    char name[64];   /* "GPU_0_bfc" */
    char shape[128]; /* of the request, "f32[2,3]" */
    bool has_request, exact, in_stats;
    bool untyped; /* the request's type is not told, 4 bytes assumed */
    bool mixed;   /* another dump began before the end of this one */
    EchRounded request;
    EchBytes rounded; /* as the allocator rounded it; 0: unknown */
    EchRounded sum;   /* of what is in use; bytes 0: not told */
    Pool pools[MAX_DUMPS];
    Stats stats[MAX_DUMPS]; /* one more at the end is being read */
    unsigned n_pools, n_stats;
    EchBytes driver_refused; /* the most that the driver did not give */
    EchRounded device_total, device_free;
    uint64_t n_dumps, n_requests, optional, foreign, repeated, unsafe;
};

static void chunk_clear(gpointer data)
{
    g_free(((Chunk *)data)->by);
}

EchBfcDump *ech_bfc_dump_new(const char *where)
{
    EchBfcDump *d = g_new0(EchBfcDump, 1);
    d->where = where;
    d->chunks = g_array_new(FALSE, TRUE, sizeof(Chunk));
    g_array_set_clear_func(d->chunks, chunk_clear);
    d->regions = g_array_new(FALSE, TRUE, sizeof(Region));
    d->sizes = g_array_new(FALSE, TRUE, sizeof(Size));
    return d;
}

void ech_bfc_dump_free(EchBfcDump *d)
{
    if (!d)
        return;
    g_array_unref(d->chunks);
    g_array_unref(d->regions);
    g_array_unref(d->sizes);
    g_free(d);
}

/* ---- words ---- */

/* What follows @key, without blanks before it; n 0 where it is not there. */
static EchWords after(EchWords line, const char *key)
{
    const char *at = ech_words_find(line, key);
    if (!at)
        return (EchWords){line.text, 0};
    at += strlen(key);
    size_t n = (size_t)(line.text + line.n - at);
    while (n && (*at == ' ' || *at == '\t'))
        at++, n--;
    return (EchWords){at, n};
}

/* The number that @f begins with; the field goes on behind it. */
static bool take_number(EchWords *f, unsigned base, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i = 0;
    if (base == 16 && f->n > 2 && f->text[0] == '0' && (f->text[1] == 'x' || f->text[1] == 'X'))
        i = 2;
    size_t first = i;
    for (; i < f->n && g_ascii_isxdigit(f->text[i]); i++) {
        unsigned digit = (unsigned)g_ascii_xdigit_value(f->text[i]);
        if (digit >= base || value > (UINT64_MAX - digit) / base)
            break;
        value = value * base + digit;
    }
    if (i == first || (i < f->n && (g_ascii_isalnum(f->text[i]) || (f->text[i] == '.' && i + 1 < f->n && g_ascii_isdigit(f->text[i + 1])))))
        return false;
    *ret = value;
    f->text += i;
    f->n -= i;
    return true;
}

static bool number_after(EchWords line, const char *key, uint64_t *ret)
{
    EchWords rest = after(line, key);
    return take_number(&rest, 10, ret);
}

static bool size_at(EchWords f, EchRounded *ret)
{
    size_t used;
    return ech_rounded_parse(f.text, f.n, ret, &used);
}

static bool size_after(EchWords line, const char *key, EchRounded *ret)
{
    return size_at(after(line, key), ret);
}

/* Bytes as a number or as a size. */
static bool amount_at(EchWords f, EchRounded *ret)
{
    uint64_t bytes;
    if (size_at(f, ret))
        return true;
    if (!take_number(&f, 10, &bytes))
        return false;
    *ret = (EchRounded){bytes, 0};
    return true;
}

static bool amount_after(EchWords line, const char *key, EchRounded *ret)
{
    return amount_at(after(line, key), ret);
}

/* What follows a whole word @key, wherever it stands: the lines of the statistics have no prefix of the log's own, but maybe a launcher's. */
static EchWords labelled(EchWords line, const char *key)
{
    EchWords rest = line;
    while ((rest = after(rest, key)).n) {
        const char *at = rest.text;
        while (at > line.text && (at[-1] == ' ' || at[-1] == '\t'))
            at--;
        at -= strlen(key);
        if (at == line.text || !g_ascii_isalnum(at[-1]))
            break;
    }
    return rest;
}

/* The size whose last letter stands before @key: "0B in use in bin." */
static bool size_before(EchWords line, const char *key, EchRounded *ret)
{
    const char *at = ech_words_find(line, key);
    size_t begin = at ? (size_t)(at - line.text) : 0;
    while (begin && line.text[begin - 1] != ' ')
        begin--;
    return at && size_at((EchWords){line.text + begin, (size_t)(at - line.text) - begin}, ret);
}

/* The word in parentheses after @key: "Allocator (GPU_0_bfc)". */
static void copy_word(EchWords f, char *to, size_t size)
{
    size_t n = 0;
    while (n < f.n && n < size - 1 && (g_ascii_isalnum(f.text[n]) || strchr("_-.:/", f.text[n])) && f.text[n])
        n++;
    memcpy(to, f.text, n);
    to[n] = '\0';
}

/* ---- the request ---- */

/* "shape[4,2048,128] and type float", "shape [4,128] and type float": XLA's words for it; releases before 1.9 do not say the type, the node may. */
static bool read_shape(EchBfcDump *d, EchWords line)
{
    static const char *const of_cpp[][2] = {{"float", "f32"}, {"half", "f16"}, {"double", "f64"}};
    EchWords shape = after(line, ech_words_have(line, "shape [") ? "shape [" : "shape["), type = after(line, "] and type ");
    const char *end = shape.n ? memchr(shape.text, ']', shape.n) : NULL;
    if (!end)
        return false;
    bool untyped = type.n == 0;
    if (untyped)
        type = (EchWords){"float ", 6};
    const char *blank = memchr(type.text, ' ', type.n);
    size_t word = blank ? (size_t)(blank - type.text) : type.n;
    const char *dtype = ech_layout_dtype_of(type.text, word);
    for (size_t i = 0; !dtype && i < G_N_ELEMENTS(of_cpp); i++)
        dtype = strlen(of_cpp[i][0]) == word && memcmp(of_cpp[i][0], type.text, word) == 0 ? of_cpp[i][1] : NULL;
    if (!dtype)
        return false;
    g_autofree char *text = g_strdup_printf("%s[%.*s]", dtype, (int)MIN(end - shape.text, 96), shape.text);
    EchLayout layout;
    size_t used;
    if (!ech_layout_parse(text, strlen(text), &layout, &used, NULL) || used != strlen(text))
        return false;
    EchBytes bytes = ech_layout_dense_bytes(&layout);
    if (bytes >= UINT64_C(1) << 60)
        return false;
    if (d->has_request && !ech_rounded_is(&d->request, bytes) && ech_round_up(bytes, 256) != d->rounded)
        return false;
    d->request = (EchRounded){bytes, 0};
    d->has_request = d->exact = true;
    d->untyped = untyped;
    g_strlcpy(d->shape, text, sizeof d->shape);
    return true;
}

/* Whether what was printed as @size is up to 255 bytes less than @rounded. */
static bool rounds_to(const EchRounded *size, EchBytes rounded)
{
    return (double)rounded >= (double)size->bytes - size->slack && (double)rounded <= (double)size->bytes + size->slack + 255;
}

static bool read_request(EchBfcDump *d, EchWords line)
{
    EchRounded size;
    if (ech_words_have(line, "OOM when allocating tensor with shape[") || ech_words_have(line, "oom when allocating tensor with shape[") ||
        ech_words_have(line, "OOM when allocating tensor of shape [")) {
        if (d->shape[0] == '\0')
            read_shape(d, line);
        EchWords name = after(line, "by allocator ");
        if (name.n && !d->name[0])
            copy_word(name, d->name, sizeof d->name);
        return true;
    }
    if (!size_after(line, "an out of memory trying to allocate ", &size))
        return false;
    if (ech_words_have(line, "not a failure")) {
        d->optional++;
        return true;
    }
    /* Old releases say it before the dump and after. */
    d->n_requests += !d->has_request || (!d->exact && d->request.bytes != size.bytes);
    if (d->has_request)
        return true;
    d->has_request = true;
    d->request = size;
    if (number_after(line, "(rounded to ", &d->rounded) && rounds_to(&size, d->rounded))
        d->request = (EchRounded){d->rounded, 0};
    EchWords name = after(line, "Allocator (");
    if (name.n && !d->name[0])
        copy_word(name, d->name, sizeof d->name);
    return true;
}

/* "failed to allocate 2.20G (2362232012 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY" */
static bool read_driver(EchBfcDump *d, EchWords line)
{
    EchRounded total, left;
    if (ech_words_have(line, "failed to allocate ") && ech_words_have(line, " from device")) {
        EchWords open = after(line, "failed to allocate ");
        uint64_t bytes;
        if (number_after(open, "(", &bytes))
            d->driver_refused = MAX(d->driver_refused, bytes);
        return true;
    }
    if (size_after(line, "totalMemory: ", &total) && size_after(line, "freeMemory: ", &left)) {
        d->device_total = total;
        d->device_free = left;
        return true;
    }
    return false;
}

/* ---- the dump ---- */

/* "Bin (256): 	Total Chunks: 4, Chunks in use: 4. 1.0KiB allocated for chunks. 1.0KiB in use in bin. 520B client-requested in use in bin." */
static bool read_bin(EchBfcDump *d, EchWords line)
{
    Bin bin = {0};
    if (!ech_words_start(line, "Bin (") || !number_after(line, "Bin (", &bin.bytes) || !number_after(line, "Total Chunks:", &bin.n) ||
        !number_after(line, "Chunks in use:", &bin.used))
        return false;
    if (d->n_bins && bin.bytes <= d->bins[d->n_bins - 1].bytes) {
        /* Another dump's. */
        d->n_dumps += bin.bytes <= d->bins[0].bytes;
        d->mixed |= d->phase == WITHIN;
        return true;
    }
    if (d->phase == BEFORE)
        d->n_dumps = 1;
    d->phase = WITHIN;
    bin.old = ech_words_have(line, " client-requested for chunks");
    if (d->n_bins < MAX_BINS && size_before(line, " allocated for chunks", &bin.held) && size_before(line, " in use in bin", &bin.in_use) &&
        size_before(line, " client-requested in use", &bin.asked))
        d->bins[d->n_bins++] = bin;
    return true;
}

/* The region that a chunk at @address belongs to: of the last ones, the one it goes on with, else one that has not begun. ECH_NONE: none. */
static uint32_t region_of(const EchBfcDump *d, uint64_t address)
{
    guint oldest = d->regions->len - MIN(d->regions->len, (guint)MAX_DUMPS); /* One is open in each dump. */
    for (guint i = d->regions->len; i-- > oldest;) {
        const Region *region = &g_array_index(d->regions, Region, i);
        if (!region->closed && region->end && region->end == address)
            return i;
    }
    const Region *last = d->regions->len ? &g_array_index(d->regions, Region, d->regions->len - 1) : NULL;
    return last && !last->closed && last->end == 0 ? d->regions->len - 1 : ECH_NONE;
}

static char *holder(EchWords line)
{
    EchWords by = after(line, " by op "), note = after(line, " allocation_annotation ");
    const char *end = by.n ? memmem(by.text, by.n, " action_count ", 14) : note.n ? memmem(note.text, note.n, " next ", 6) : NULL;
    if (by.n == 0)
        by = note;
    if (by.n == 0 || (end ? end == by.text : false))
        return NULL;
    char *text = ech_quote(by.text, end ? (gssize)(end - by.text) : (gssize)by.n, MAX_NAME);
    g_strchomp(text);
    if (*text && strcmp(text, "UNKNOWN") != 0 && strcmp(text, "(null)") != 0)
        return text;
    g_free(text);
    return NULL;
}

/* "InUse at 7f0c2e000000 of size 1280 next 1", "Free  at ...", in old releases "Chunk at 0x905a40000 of size 1280" */
static bool read_chunk(EchBfcDump *d, EchWords line, bool *ret_taken, GError **error)
{
    EchWords rest = ech_words_start(line, "InUse") ? after(line, "InUse") : ech_words_start(line, "Chunk") ? after(line, "Chunk") : after(line, "Free");
    Chunk chunk = {.used = !ech_words_start(line, "Free")};
    *ret_taken = false;
    if (!ech_words_start(rest, "at "))
        return true;
    rest = after(rest, "at ");
    if (!take_number(&rest, 16, &chunk.address) || !number_after(rest, "of size ", &chunk.bytes) || chunk.bytes == 0 ||
        chunk.bytes > UINT64_MAX - chunk.address || chunk.bytes > (UINT64_C(1) << 60))
        return true;
    *ret_taken = true;
    if (d->phase == AFTER) {
        d->foreign++;
        return true;
    }
    d->phase = WITHIN;
    uint64_t freed_at;
    d->unsafe += !chunk.used && number_after(rest, "freed_at_count ", &freed_at) && freed_at > 0;
    chunk.region = region_of(d, chunk.address);
    if (d->chunks->len == MAX_CHUNKS) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: more than %d chunks", d->where, MAX_CHUNKS);
        return false;
    }
    if (chunk.region == ECH_NONE && d->regions->len)
        chunk.region = d->regions->len - 1;
    if (chunk.region != ECH_NONE) {
        Region *region = &g_array_index(d->regions, Region, chunk.region);
        region->end = chunk.address + chunk.bytes;
        region->listed = ech_bytes_add(region->listed, chunk.bytes);
        region->closed = ech_words_have(rest, NO_NEXT);
    }
    chunk.by = chunk.used ? holder(line) : NULL;
    chunk.order = d->chunks->len;
    g_array_append_val(d->chunks, chunk);
    return true;
}

/* "12 Chunks of size 256 totalling 3.0KiB" */
static bool read_size(EchBfcDump *d, EchWords line)
{
    Size size = {0};
    EchWords rest = line;
    if (!take_number(&rest, 10, &size.n) || !ech_words_start(rest, " Chunks of size ") || !number_after(rest, "of size ", &size.bytes))
        return false;
    bool goes_on = d->sizes->len == 0 || g_array_index(d->sizes, Size, d->sizes->len - 1).bytes < size.bytes;
    if (d->phase != AFTER && goes_on && d->sizes->len < MAX_SIZES && size.n && size.bytes && size.bytes <= (UINT64_C(1) << 60) / size.n)
        g_array_append_val(d->sizes, size);
    return true;
}

/* The dump ends with its statistics; where several are mixed, the last one's. */
static void end_stats(EchBfcDump *d)
{
    if (!d->in_stats)
        return;
    d->in_stats = false;
    d->n_stats += d->stats[d->n_stats].any;
    if (d->n_stats >= MAX(d->n_dumps, 1) || d->n_stats == MAX_DUMPS - 1)
        d->phase = AFTER;
}

static bool read_stats(EchBfcDump *d, EchWords line)
{
    static const char *const rest[] = {
        "MaxInUse:", "NumAllocs:", "MaxAllocSize:", "Reserved:", "PeakReserved:", "ReservableLimit:", "PoolBytes:", "PeakPoolBytes:"};
    static const char head[] = "Stats:";
    if (line.n >= sizeof head - 1 && memcmp(line.text + line.n - (sizeof head - 1), head, sizeof head - 1) == 0) {
        end_stats(d);
        d->in_stats = d->phase != AFTER;
        if (d->in_stats)
            d->stats[d->n_stats] = (Stats){0};
        return true;
    }
    if (!d->in_stats)
        return false;
    Stats *s = &d->stats[d->n_stats];
    if (amount_at(labelled(line, "Limit:"), &s->limit))
        return true;
    if (amount_at(labelled(line, "InUse:"), &s->in_use))
        return s->any = true;
    if (amount_at(labelled(line, "LargestFreeBlock:"), &s->largest_free))
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(rest); i++) {
        if (labelled(line, rest[i]).n)
            return true;
    }
    end_stats(d);
    return false;
}

static bool read_sums(EchBfcDump *d, EchWords line)
{
    Pool pool;
    EchRounded sum;
    if (ech_words_start(line, "Sum Total of in-use chunks:") && size_after(line, "chunks:", &sum)) {
        if (d->phase != AFTER && d->sum.bytes == 0)
            d->sum = sum;
        return true;
    }
    if (((amount_after(line, "total_region_allocated_bytes_: ", &pool.bytes) || amount_after(line, "Total bytes in pool: ", &pool.bytes) ||
          amount_after(line, "Total size in pool: ", &pool.bytes)) &&
         amount_after(line, "memory_limit_: ", &pool.limit)) ||
        (size_after(line, ", pool size ", &pool.bytes) && size_after(line, ", pool limit ", &pool.limit))) {
        if (d->phase != AFTER && d->n_pools < MAX_DUMPS)
            d->pools[d->n_pools++] = pool;
        return true;
    }
    /* Of a request that nothing else tells. */
    if (ech_words_start(line, "Bin for ") && size_after(line, "Bin for ", &sum)) {
        if (!d->has_request) {
            d->request = sum;
            d->has_request = true;
        }
        return true;
    }
    return ech_words_start(line, "Summary of in-use Chunks by size") || ech_words_start(line, "Allocator memory summary:") ||
           ech_words_start(line, "Allocator region growth hint") || ech_words_start(line, "Spatial partitioning summary");
}

bool ech_bfc_dump_line(EchBfcDump *d, const char *text, size_t n, bool *ret_taken, GError **error)
{
    EchWords line = {text, n};
    *ret_taken = true;
    if (read_stats(d, line) || n < 8)
        return true;
    uint64_t bytes;
    if (ech_words_start(line, "Next region of size ") && number_after(line, "of size ", &bytes)) {
        Region region = {.bytes = bytes};
        if (d->phase != AFTER && d->regions->len < MAX_REGIONS)
            g_array_append_val(d->regions, region);
        return true;
    }
    if (ech_words_start(line, "InUse") || ech_words_start(line, "Chunk") || ech_words_start(line, "Free")) {
        bool ok = read_chunk(d, line, ret_taken, error);
        if (!ok || *ret_taken)
            return ok;
    }
    if (ech_words_start(line, "BFCAllocator dump for ")) {
        EchWords name = after(line, "dump for ");
        if (d->phase == BEFORE || !d->name[0])
            copy_word(name, d->name, sizeof d->name);
        return true;
    }
    *ret_taken = read_bin(d, line) || read_size(d, line) || read_sums(d, line) || read_request(d, line) || read_driver(d, line);
    return true;
}

bool ech_bfc_dump_tells(const EchBfcDump *d)
{
    return d->chunks->len || d->sizes->len || d->n_stats || d->in_stats || d->n_bins;
}

uint64_t ech_bfc_dump_optional(const EchBfcDump *d)
{
    return d->optional;
}

bool ech_bfc_dump_asks(const EchBfcDump *d)
{
    return d->has_request;
}

/* ---- what it comes to ---- */

/* What is known in the end. */
typedef struct {
    Pool taken;  /* of this dump */
    Stats stats; /* of this dump */
    EchBytes asked, limit, pool, in_use;
    EchBytes free;    /* in the pool */
    EchBytes largest; /* free chunk */
    EchBytes joined;  /* largest run of free chunks, whatever regions they are of */
    EchBytes not_listed;
    uint64_t n_free, n_used, n_regions;
    bool has_limit, has_pieces;
    bool knows_pool; /* how much was taken from the device */
    bool seeds;      /* the trace tells where everything lies */
    double slack;    /* of limit and in_use, where they are rounded */
    /* The run of chunks in one region that would hold the request for the least in use. */
    EchBytes hole_in_use;
    uint64_t hole_chunks;
    guint hole_first, hole_last; /* indices into chunks */
} Sums;

static int by_address(gconstpointer a, gconstpointer b)
{
    const Chunk *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* By address, and those of no told region by runs of them: a dump of old releases has used chunks first, then free ones. */
static void settle_chunks(EchBfcDump *d, Sums *s)
{
    if (d->chunks->len == 0)
        return;
    g_array_sort(d->chunks, by_address);
    guint kept = 0;
    uint64_t end = 0;
    for (guint i = 0; i < d->chunks->len; i++) {
        Chunk *chunk = &g_array_index(d->chunks, Chunk, i);
        if (kept && chunk->address < end) { /* the same lines twice, or another dump's */
            d->repeated++;
            g_clear_pointer(&chunk->by, g_free);
            continue;
        }
        if (d->regions->len == 0) {
            s->n_regions += kept == 0 || chunk->address != end;
            chunk->region = (uint32_t)s->n_regions;
        }
        end = chunk->address + chunk->bytes;
        Chunk moved = *chunk;
        chunk->by = NULL;
        g_array_index(d->chunks, Chunk, kept++) = moved;
    }
    g_array_set_size(d->chunks, kept);
}

/* Of dumps that were logged at the same time the first one's regions: those that make up a pool. */
static void drop_foreign(EchBfcDump *d)
{
    uint32_t n = 0;
    for (unsigned p = 0; p < d->n_pools && n == 0; p++) {
        EchBytes sum = 0;
        for (guint i = 0; i < d->regions->len && n == 0; i++) {
            sum = ech_bytes_add(sum, g_array_index(d->regions, Region, i).bytes);
            n = ech_rounded_is(&d->pools[p].bytes, sum) ? i + 1 : 0;
        }
    }
    if (n == 0 || n == d->regions->len)
        return;
    guint kept = 0;
    for (guint i = 0; i < d->chunks->len; i++) {
        Chunk chunk = g_array_index(d->chunks, Chunk, i);
        g_array_index(d->chunks, Chunk, i).by = NULL;
        if (chunk.region < n) {
            g_array_index(d->chunks, Chunk, kept++) = chunk;
        } else {
            d->foreign++;
            g_free(chunk.by);
        }
    }
    g_array_set_size(d->chunks, kept);
    g_array_set_size(d->regions, n);
    /* The summary by size is of both. */
    g_array_set_size(d->sizes, 0);
}

/* Sums that agree with the chunks, else the first ones. */
static void choose_sums(const EchBfcDump *d, EchBytes declared, Sums *s)
{
    s->taken = d->n_pools ? d->pools[0] : (Pool){0};
    s->stats = d->n_stats ? d->stats[0] : (Stats){0};
    for (unsigned i = d->mixed ? d->n_pools : 0; i-- > 0;)
        s->taken = ech_rounded_is(&d->pools[i].bytes, declared) ? d->pools[i] : s->taken;
    for (unsigned i = d->mixed ? d->n_stats : 0; i-- > 0;)
        s->stats = ech_rounded_is(&d->stats[i].in_use, s->in_use) ? d->stats[i] : s->stats;
}

static void find_pieces(const EchBfcDump *d, Sums *s)
{
    EchBytes run = 0, window = 0, window_used = 0;
    uint64_t n_used = 0;
    guint first = 0;
    s->hole_in_use = UINT64_MAX;
    for (guint i = 0; i < d->chunks->len; i++) {
        const Chunk *chunk = &g_array_index(d->chunks, Chunk, i), *before = i ? chunk - 1 : NULL;
        bool follows = before && before->address + before->bytes == chunk->address;
        if (chunk->used) {
            s->n_used++;
            s->in_use = ech_bytes_add(s->in_use, chunk->bytes);
        } else {
            s->n_free++;
            s->free = ech_bytes_add(s->free, chunk->bytes);
            s->largest = MAX(s->largest, chunk->bytes);
        }
        run = chunk->used ? 0 : follows ? ech_bytes_add(run, chunk->bytes) : chunk->bytes;
        s->joined = MAX(s->joined, run);
        if (!follows || before->region != chunk->region) {
            first = i;
            window = window_used = 0;
            n_used = 0;
        }
        window = ech_bytes_add(window, chunk->bytes);
        window_used = ech_bytes_add(window_used, chunk->used ? chunk->bytes : 0);
        n_used += chunk->used;
        for (const Chunk *left = &g_array_index(d->chunks, Chunk, first); first < i && window - left->bytes >= s->asked;
             left = &g_array_index(d->chunks, Chunk, ++first)) {
            window -= left->bytes;
            window_used -= left->used ? left->bytes : 0;
            n_used -= left->used;
        }
        if (s->asked && window >= s->asked && window_used < s->hole_in_use) {
            s->hole_in_use = window_used;
            s->hole_chunks = n_used;
            s->hole_first = first;
            s->hole_last = i;
        }
    }
    s->has_pieces = d->chunks->len > 0;
}

static Sums sums_of(EchBfcDump *d)
{
    if (d->mixed)
        drop_foreign(d);
    Sums s = {.asked = d->rounded ? d->rounded : ech_round_up(d->request.bytes, 256), .n_regions = d->regions->len};
    settle_chunks(d, &s);
    find_pieces(d, &s);
    EchBytes declared = 0;
    for (guint i = 0; i < d->regions->len; i++) {
        const Region *region = &g_array_index(d->regions, Region, i);
        declared = ech_bytes_add(declared, region->bytes);
    }
    EchBytes listed = ech_bytes_add(s.in_use, s.free), summed = 0;
    for (guint i = 0; i < d->sizes->len; i++) {
        const Size *size = &g_array_index(d->sizes, Size, i);
        summed = ech_bytes_add(summed, size->bytes * size->n);
    }
    EchBytes binned = 0, bins_free = 0;
    for (unsigned i = 0; i < d->n_bins; i++) {
        const Bin *bin = &d->bins[i];
        binned = ech_bytes_add(binned, bin->in_use.bytes);
        bins_free = ech_bytes_add(bins_free, bin->held.bytes - MIN(bin->held.bytes, bin->in_use.bytes));
    }
    choose_sums(d, declared, &s);
    const EchRounded *limit = s.taken.limit.bytes && s.taken.limit.slack <= s.stats.limit.slack ? &s.taken.limit : &s.stats.limit;
    limit = limit->bytes ? limit : &s.taken.limit;
    s.limit = limit->bytes;
    s.slack = limit->slack;
    s.has_limit = s.limit > 0;
    /* Exact numbers rather than rounded ones. */
    EchBytes pool = MAX(declared, listed), told = s.stats.any ? s.stats.in_use.bytes : MAX(summed, d->sum.bytes);
    s.pool = s.taken.bytes.bytes && !ech_rounded_is(&s.taken.bytes, pool) ? s.taken.bytes.bytes : pool;
    /* All that may be taken has been. */
    if (s.slack > 0 && ech_rounded_is(limit, s.pool))
        s.limit = s.pool;
    if (told == 0)
        told = binned;
    /* A dump that is cut off: what is not listed is in use or free, as the sums say. */
    s.not_listed = s.pool > listed && s.has_pieces ? s.pool - listed : 0;
    const EchRounded *rounded = s.stats.any ? &s.stats.in_use : &d->sum;
    if (!ech_rounded_is(rounded, s.in_use) || s.n_used == 0) {
        s.slack += rounded->slack;
        s.in_use = MAX(s.in_use, told);
    }
    s.knows_pool = s.pool > 0 || d->n_bins > 0;
    if (s.pool == 0)
        s.pool = ech_bytes_add(s.in_use, bins_free);
    if (!s.has_pieces)
        s.free = s.pool - MIN(s.pool, s.in_use);
    if (!s.has_pieces && s.stats.largest_free.bytes) {
        s.largest = s.stats.largest_free.bytes;
        s.has_pieces = true;
    }
    return s;
}

/* ---- the trace ---- */

static void resident(EchTraceBuilder *builder, EchId memory, const char *name, EchBytes bytes, uint64_t address)
{
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(builder, name, -1);
    b.memory = memory;
    b.bytes = bytes;
    b.resident = 1;
    if (address) {
        b.address = address;
        b.rounded = bytes;
    }
    ech_trace_builder_buffer(builder, b);
}

/* Chunks by what is told of them: who asked for them, else their size. */
static EchBytes add_chunks(const EchBfcDump *d, EchTraceBuilder *builder, EchId memory)
{
    EchBytes sum = 0;
    for (guint i = 0; i < d->chunks->len; i++) {
        const Chunk *chunk = &g_array_index(d->chunks, Chunk, i);
        if (!chunk->used)
            continue;
        g_autofree char *size = ech_format_bytes(chunk->bytes), *name = g_strdup_printf("chunk of %s", size);
        resident(builder, memory, chunk->by ? chunk->by : name, chunk->bytes, chunk->address);
        sum = ech_bytes_add(sum, chunk->bytes);
    }
    return sum;
}

/* The address and bytes of the region or, where none are told, run of chunks that begins with chunk *@at, which moves behind it. */
static EchSegmentRange next_region(const EchBfcDump *d, guint *at)
{
    const Chunk *first = &g_array_index(d->chunks, Chunk, *at);
    EchSegmentRange range = {.address = first->address};
    for (const Chunk *chunk = first; *at < d->chunks->len; chunk = &g_array_index(d->chunks, Chunk, *at)) {
        if (chunk->region != first->region || chunk->address != range.address + range.bytes)
            break;
        range.bytes += chunk->bytes;
        if (++*at == d->chunks->len)
            break;
    }
    return range;
}

/* Tells where each region lies, so that a replay can begin in this very memory; false, and nothing told, where a chunk may be missing. */
static bool add_regions(const EchBfcDump *d, const Sums *s, EchTraceBuilder *builder)
{
    uint64_t n = 0;
    g_autoptr(GString) regions = g_string_new(NULL);
    for (guint i = 0; i < d->chunks->len; n++) {
        uint32_t region = g_array_index(d->chunks, Chunk, i).region;
        EchSegmentRange range = next_region(d, &i);
        if (region < d->regions->len && range.bytes != g_array_index(d->regions, Region, region).bytes)
            return false;
        g_string_append_printf(regions, "%s0x%" G_GINT64_MODIFIER "x+%" G_GUINT64_FORMAT, n ? " " : "", range.address, range.bytes);
    }
    if (n == 0 || n != s->n_regions || s->not_listed)
        return false;
    ech_trace_builder_set_property(builder, "allocator_regions", regions->str);
    return true;
}

static EchBytes add_sizes(const EchBfcDump *d, EchTraceBuilder *builder, EchId memory)
{
    EchBytes sum = 0;
    uint64_t made = 0;
    for (guint i = d->sizes->len; i-- > 0;) {
        const Size *size = &g_array_index(d->sizes, Size, i);
        g_autofree char *text = ech_format_bytes(size->bytes);
        bool apart = size->n <= MAX_BUFFERS - MIN(made, (uint64_t)MAX_BUFFERS);
        g_autofree char *name = apart ? g_strdup_printf("chunk of %s", text) : g_strdup_printf("chunks of %s, %" G_GUINT64_FORMAT " of them", text, size->n);
        for (uint64_t k = 0; k < (apart ? size->n : 1); k++)
            resident(builder, memory, name, apart ? size->bytes : size->bytes * size->n, 0);
        made += apart ? size->n : 1;
        sum = ech_bytes_add(sum, size->bytes * size->n);
    }
    return sum;
}

static EchBytes add_bins(const EchBfcDump *d, EchTraceBuilder *builder, EchId memory)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < d->n_bins; i++) {
        const Bin *bin = &d->bins[i];
        if (bin->in_use.bytes == 0)
            continue;
        g_autofree char *from = ech_format_bytes(bin->bytes);
        g_autofree char *name = g_strdup_printf("chunks of %s or more, %" G_GUINT64_FORMAT " of them", from, bin->used);
        resident(builder, memory, name, bin->in_use.bytes, 0);
        sum = ech_bytes_add(sum, bin->in_use.bytes);
    }
    return sum;
}

/* ---- what is said ---- */

/* Allocators of the host's memory: "gpu_host_bfc", "cuda_host_bfc", "mklcpu". */
static bool of_host(const EchBfcDump *d)
{
    return strstr(d->name, "host") || strstr(d->name, "cpu");
}

/* Of a request alone, without what the allocator logs beside it. */
void ech_bfc_dump_say_request(const EchBfcDump *d, EchDiag *diag)
{
    g_autofree char *asked = ech_format_bytes(d->request.bytes), *driver = ech_format_bytes(d->driver_refused);
    ech_diag_remark(diag, "%s refused %s%s%s%s", d->name[0] ? d->name : "the BFC allocator", asked, d->shape[0] ? ", " : "", d->shape,
                    d->untyped ? " if its elements have 4 bytes, which the text does not say" : "");
    if (d->driver_refused)
        ech_diag_remark(
            diag,
            "before that the driver refused %s that the allocator wanted for its pool: others hold the device's memory (nvidia-smi names them), or the "
            "limit is set too high",
            driver);
    if (d->n_requests > 1)
        ech_diag_note(diag, "reports_after_the_first", d->n_requests - 1);
}

static void say_missing(EchDiag *diag)
{
    ech_diag_remark(diag, "how much was in use and free, and in which pieces, the text does not say: the lines that bfc_allocator.cc logs after it do "
                          "('Current allocation summary follows'), to the end of 'Stats:'");
}

static void say_state(const EchBfcDump *d, const Sums *s, EchDiag *diag)
{
    g_autofree char *asked = ech_format_bytes(d->request.bytes), *in_use = ech_format_bytes(s->in_use), *limit = ech_format_bytes(s->limit),
                    *free = ech_format_bytes(s->free), *largest = ech_format_bytes(s->largest), *rest = ech_format_bytes(s->limit - MIN(s->limit, s->pool));
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s refused %s%s%s", d->name[0] ? d->name : "the BFC allocator", d->has_request ? asked : "a request", d->shape[0] ? ", " : "",
                           d->shape);
    if (s->has_limit)
        g_string_append_printf(text, ": %s of its limit of %s were in use", in_use, limit);
    else
        g_string_append_printf(text, ": %s were in use", in_use);
    if (s->n_free)
        g_string_append_printf(text, ", %s free in %" G_GUINT64_FORMAT " piece%s, the largest %s", free, s->n_free, s->n_free == 1 ? "" : "s", largest);
    else if (s->has_pieces && s->has_limit)
        g_string_append_printf(text, ", %s free, the largest piece %s", free, largest);
    if (!s->has_limit && !s->stats.any)
        g_string_append(text, ", by what is listed; the log's end, with its limit, is not in the text");
    if (s->has_limit && s->knows_pool && s->pool < s->limit && s->limit - s->pool >= 256)
        g_string_append_printf(text, ", %s not taken from the device", rest);
    ech_diag_remark(diag, "%s", text->str);
}

/* More than there is, however it lies. */
static void say_use(const EchBfcDump *d, const Sums *s, EchBytes room, EchDiag *diag)
{
    g_autofree char *over = ech_format_bytes(s->asked - room), *limit = ech_format_bytes(s->limit);
    ech_diag_remark(
        diag,
        "use, not fragmentation: %s too much, however the chunks lie. Use less at a time (a smaller batch, rematerialisation, offload), or raise the "
        "limit of %s where the device has more: %s",
        over, limit,
        strstr(d->name, "cpu") ? "TF_CPU_BFC_MEM_LIMIT_IN_MB (TensorFlow)"
        : of_host(d)           ? "TF_GPU_HOST_MEM_LIMIT_IN_MB (TensorFlow), XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB (JAX)"
                               : "XLA_PYTHON_CLIENT_MEM_FRACTION (JAX, .75 unless set), per_process_gpu_memory_fraction or memory_limit (TensorFlow)");
}

/* Who stands in the cheapest place for the request: the largest three. */
static void say_hole(const EchBfcDump *d, const Sums *s, EchDiag *diag)
{
    enum { NAMED = 3 };
    if (s->hole_in_use == UINT64_MAX || s->hole_chunks == 0)
        return;
    const Chunk *largest[NAMED] = {NULL};
    for (guint i = s->hole_first; i <= s->hole_last; i++) {
        const Chunk *chunk = &g_array_index(d->chunks, Chunk, i);
        if (!chunk->used)
            continue;
        for (unsigned k = 0; chunk && k < NAMED; k++) {
            if (largest[k] && largest[k]->bytes >= chunk->bytes)
                continue;
            const Chunk *moved = largest[k];
            largest[k] = chunk;
            chunk = moved;
        }
    }
    g_autoptr(GString) who = g_string_new(NULL);
    for (unsigned k = 0; k < NAMED && largest[k]; k++) {
        g_autofree char *size = ech_format_bytes(largest[k]->bytes);
        g_string_append_printf(who, "%s%s at 0x%" G_GINT64_MODIFIER "x%s%s", who->len ? ", " : "", size, largest[k]->address, largest[k]->by ? " of " : "",
                               largest[k]->by ? largest[k]->by : "");
    }
    g_autofree char *bytes = ech_format_bytes(s->hole_in_use), *asked = ech_format_bytes(s->asked);
    ech_diag_remark(diag, "nearest to a piece of %s: where %" G_GUINT64_FORMAT " chunk%s in use (%s) lie%s between free ones: %s%s", asked, s->hole_chunks,
                    s->hole_chunks == 1 ? "" : "s", bytes, s->hole_chunks == 1 ? "s" : "", who->str, s->hole_chunks > NAMED ? ", ..." : "");
}

/* As many bytes are free as were asked for, but not in one piece. */
static void say_fragmented(const EchBfcDump *d, const Sums *s, EchBytes room, EchDiag *diag)
{
    g_autofree char *all = ech_format_bytes(room), *joined = ech_format_bytes(s->joined), *rest = ech_format_bytes(s->limit - MIN(s->limit, s->pool)),
                    *driver = ech_format_bytes(d->driver_refused);
    EchBytes untaken = s->limit - MIN(s->limit, s->pool);
    if (s->knows_pool && untaken >= s->asked) {
        ech_diag_remark(diag,
                        "not the limit, the device: the allocator might have taken %s more and did not get it%s%s%s: other processes, the driver's context and "
                        "libraries hold it. Look with nvidia-smi; a lower limit does not help",
                        rest, d->driver_refused ? " (the driver refused " : "", d->driver_refused ? driver : "", d->driver_refused ? ")" : "");
        return;
    }
    if (!s->has_pieces) {
        ech_diag_remark(
            diag,
            "%s were free or not taken yet, so it is fragmentation, or the device had less to give than the limit says: the lines 'InUse at', 'Free at' "
            "of the log would tell",
            all);
        return;
    }
    ech_diag_remark(diag, "fragmentation: %s are free%s, not in one piece", all, untaken ? " or not taken yet" : "");
    say_hole(d, s, diag);
    if (s->joined >= s->asked && s->joined > s->largest)
        ech_diag_remark(diag,
                        "%s lie side by side but in different regions, which are never joined: one region from the start would have served it "
                        "(XLA_PYTHON_CLIENT_PREALLOCATE=true, TensorFlow without allow_growth)",
                        joined);
    else if (s->n_regions > 1)
        ech_diag_remark(diag,
                        "the pool grew in %" G_GUINT64_FORMAT " regions, and no chunk lies across two: one region from the start leaves larger pieces "
                        "(XLA_PYTHON_CLIENT_PREALLOCATE=true, TensorFlow without allow_growth)",
                        s->n_regions);
    if (!of_host(d))
        ech_diag_remark(diag,
                        "allocators that map pages do not need one piece: XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async (JAX), TF_GPU_ALLOCATOR=cuda_malloc_async "
                        "(TensorFlow). Or allocate what stays before what comes and goes");
}

static void say_waste(const EchBfcDump *d, EchDiag *diag)
{
    EchBytes in_use = 0, asked = 0;
    for (unsigned i = 0; i < d->n_bins; i++) {
        in_use = ech_bytes_add(in_use, d->bins[i].in_use.bytes);
        asked = ech_bytes_add(asked, d->bins[i].asked.bytes);
    }
    EchBytes waste = in_use - MIN(in_use, asked);
    if (waste < in_use / 20 || waste == 0)
        return;
    g_autofree char *lost = ech_format_bytes(waste), *all = ech_format_bytes(in_use);
    ech_diag_remark(diag,
                    "%s of the %s in use were not asked for: a free chunk is cut only where it is twice as large as the request, or 128 MiB larger "
                    "(internal_fragmentation_fraction of TensorFlow's GPUOptions sets that)",
                    lost, all);
}

static void say_verdict(const EchBfcDump *d, const Sums *s, EchDiag *diag)
{
    if (!d->has_request || !s->has_limit) {
        if (d->has_request && s->has_pieces && s->largest >= s->asked)
            ech_diag_remark(diag, "the log is of another moment: a free piece is as large as what was asked for");
        return;
    }
    EchBytes room = s->limit - MIN(s->limit, s->in_use);
    if (s->has_pieces && s->largest >= s->asked && s->not_listed == 0)
        ech_diag_remark(diag, d->unsafe
                                  ? "a free piece is large enough, but the device may still have been using it (freed_at_count): wait for the device before "
                                    "asking again"
                                  : "a free piece is as large as what was asked for: the log is of another moment, or mixes two allocators");
    else if (s->asked > room && (double)(s->asked - room) <= d->request.slack + s->slack)
        ech_diag_remark(diag, "about as much was free as asked for: the figures are too rounded to tell use from fragmentation");
    else if (s->asked > room)
        say_use(d, s, room, diag);
    else
        say_fragmented(d, s, room, diag);
}

void ech_bfc_dump_write(EchBfcDump *d, EchTraceBuilder *builder, EchImport *import, bool explained)
{
    end_stats(d);
    EchDiag *diag = import->diag;
    Sums s = sums_of(d);
    EchId memory = ech_trace_builder_memory(builder, of_host(d) ? "host" : "hbm");
    EchBytes named = s.n_used ? add_chunks(d, builder, memory) : d->sizes->len ? add_sizes(d, builder, memory) : add_bins(d, builder, memory);
    bool more = s.in_use > named && s.in_use - named > s.in_use / 1000;
    if (more)
        resident(builder, memory, named ? "in use, not listed" : "in use", s.in_use - named, 0);
    s.seeds = d->has_request && !more && add_regions(d, &s, builder);
    if (d->has_request) {
        g_autofree char *name = d->shape[0] ? g_strdup_printf("what was asked for, %s", d->shape) : g_strdup("what was asked for");
        ech_refused_request(builder, memory, name, d->shape[0] ? d->shape : NULL, d->request.bytes);
    }
    if (d->name[0])
        ech_trace_builder_set_property(builder, "allocator", d->name);
    if (!of_host(d))
        ech_trace_builder_set_property(builder, "refused_on", "gpu");
    ech_refused_number(builder, "asked_for_bytes", d->has_request, d->request.bytes);
    if (!ech_bfc_dump_tells(d)) {
        ech_trace_builder_set_property(builder, "sums_only", "true");
        ech_bfc_dump_say_request(d, diag);
        if (!explained)
            say_missing(diag);
        return;
    }
    ech_diag_note(import->records, "chunks in use", s.n_used);
    ech_diag_note(import->records, "free chunks", s.n_free);
    ech_diag_note(import->records, "regions", s.n_regions);
    ech_diag_note(import->records, "bins", d->n_bins);
    const struct {
        const char *name;
        uint64_t n;
    } notes[] = {{"reports_after_the_first", MAX(MAX(d->n_dumps, d->n_requests), 1) - 1},
                 {"lines_of_another_dump", d->foreign},
                 {"optional_requests_refused", d->optional},
                 {"chunks_freed_but_not_safe", d->unsafe}};
    for (size_t i = 0; i < G_N_ELEMENTS(notes); i++) {
        if (notes[i].n)
            ech_diag_note(diag, notes[i].name, notes[i].n);
    }
    if (d->repeated)
        ech_diag_dropped(diag, "chunks_listed_twice", d->repeated, NULL);
    /* What the device refused was not to be had, whatever the limit says. */
    bool of_device = d->has_request && s.knows_pool && s.limit - MIN(s.limit, s.pool) >= s.asked;
    ech_refused_number(builder, "had_bytes", s.has_limit, of_device ? s.pool : MAX(s.limit, s.pool));
    ech_refused_number(builder, "pool_bytes", s.knows_pool, s.pool);
    ech_refused_number(builder, "in_use_bytes", true, s.in_use);
    ech_refused_number(builder, "free_bytes", s.has_pieces, s.free);
    ech_refused_number(builder, "largest_free_bytes", s.has_pieces, s.largest);
    say_state(d, &s, diag);
    say_verdict(d, &s, diag);
    say_waste(d, diag);
    if (s.not_listed > s.pool / 1000) {
        g_autofree char *lost = ech_format_bytes(s.not_listed), *pool = ech_format_bytes(s.pool);
        ech_diag_remark(diag, "the log is cut off: %s of the pool's %s are not listed, so free pieces may be missing", lost, pool);
    }
    if (d->device_total.bytes && d->device_free.bytes < d->device_total.bytes / 5 * 4) {
        g_autofree char *left = ech_format_bytes(d->device_free.bytes), *all = ech_format_bytes(d->device_total.bytes);
        ech_diag_remark(diag, "when the framework began only %s of the device's %s were free: another process held the rest", left, all);
    }
    if (d->optional && !d->has_request)
        ech_diag_remark(diag, "the refusals were of memory that the caller can do without (workspaces of cuDNN, say): slower, not an error");
}
