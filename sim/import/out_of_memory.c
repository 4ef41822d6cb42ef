/* What a framework says when memory runs out, as people paste it: XLA's report of a program that does not fit a TPU ("Ran out of memory in memory space hbm",
 * "Largest program allocations") or a GPU ("BufferAssignment stats", "Peak buffers"); PyTorch's sentences (torch_says.c), what the BFC allocator of JAX and
 * TensorFlow logs (bfc_dump.c), what others say (engine_says.c), and what software that nobody here knows does (plain_says.c).
 *
 * The text may be a whole log, with times and file names before each line; the first report in it is read. It tells sizes and not times, so it becomes a trace
 * of what was there, which 'run' holds against any device: a resident buffer for each listed allocation and for what each sum has besides, and PyTorch's
 * request as an allocation. Rules, each counted:
 *  - a size that the listed shape explains is the shape's (sizes_from_shapes), else the text's rounded number (sizes_as_rounded);
 *  - allocations that add up to more than the sum they are listed under share places: they are parts of it (allocations_sharing_places);
 *  - what XLA keeps for itself before any program ("reserved") is no part of what a device has available and is left out. */
#include "sim/base/error.h"
#include "sim/import/bfc_dump.h"
#include "sim/import/engine_says.h"
#include "sim/import/memory_figures.h"
#include "sim/import/plain_says.h"
#include "sim/import/refused.h"
#include "sim/import/torch_says.h"

#include <string.h>

enum { MAX_ITEMS = 1 << 16, MAX_ROWS = 256, MAX_TEXT = 240 };

typedef enum { NOWHERE, TOTALS, REQUIREMENT, STATS, LIST } Section;

/* A sum by its name: "HLO temp  63.79G". */
typedef struct {
    EchId name;
    Section section;
    EchRounded size;
    EchBytes listed; /* by items */
} Row;

/* A listed allocation. */
typedef struct {
    EchBytes bytes, dense;
    EchId label, operation, source, shape, type;
    EchRounded size, unpadded;
    bool argument;
} Item;

typedef struct {
    EchImport *ret;
    const char *where;
    EchTraceBuilder *builder;
    Section section;
    GArray *rows, *items;       /* Row, Item */
    uint64_t later;             /* Requests after the first. */
    bool open, over;            /* An item is being read; a second report begins. */
    char space[32], memory[32]; /* As XLA calls it, as devices do. */
    char stack[64];             /* The instruction whose own memory on chip ran out, or what of one; "" where it is not told. */
    bool own;                   /* That is one of XLA's, not a kernel of the program's author. */
    bool headless;              /* The list's head, which says of which memory it is, was not pasted; */
    bool on_chip;               /* but one of its rows does. */
    bool of_kernel;             /* The row is of a kernel. */
    bool has_used, has_capacity, has_request, has_free, has_piece, has_temp_padding;
    EchRounded used, capacity, exceeded, request, free;
    EchRounded sparse;           /* of what is used, SparseCores' */
    EchRounded piece;            /* The largest that could be had at once. */
    EchRounded unpadded, padded; /* Of the temporaries. */
    bool scoped, of_gpu, absurd;
    bool of_cpu;         /* JAX ran on the host's processor. */
    bool tuning;         /* The compiler asked for it, to time kernels. */
    int tells_of_tuning; /* for so many lines */
    bool one;            /* What was too large is one array, or one window of a kernel. */
    bool warned;         /* used and capacity are what XLA's rematerialization warns of: it goes on, and nothing was refused yet. */
    bool program;        /* The request is what a program needs beside its arguments, not an array. */
    bool loaded;         /* This line says that a program was being loaded ("Error loading program 'jit_f':"). */
    bool loading;        /* This line or the one before says that a program was being loaded. */
    EchBfcDump *dump;    /* Of XLA's and TensorFlow's allocator. */
    EchTorchSays *torch;
    EchEngineSays *engine;
    EchMemoryFigures *figures; /* that were printed beside it */
    EchPlainSays plain;        /* where nothing else refused: in words that are not known */
} Reader;

static EchId text_of(Reader *r, EchWords f)
{
    if (f.n == 0)
        return ECH_NONE;
    g_autofree char *text = ech_quote(f.text, (gssize)f.n, MAX_TEXT);
    return ech_trace_builder_string(r->builder, text, -1);
}

/* XLA's names of memories are not those of devices. */
static void set_memory(Reader *r, EchWords name)
{
    static const char *const names[][2] = {{"hbm", "hbm"}, {"vmem", "vector"}, {"smem", "scalar"}, {"cmem", "common"}, {"host", "host"}};
    size_t n = 0;
    while (n < name.n && n < sizeof r->memory - 1 && (g_ascii_isalnum(name.text[n]) || name.text[n] == '_'))
        n++;
    if (n == 0)
        return;
    memcpy(r->space, name.text, n);
    r->space[n] = '\0';
    g_strlcpy(r->memory, r->space, sizeof r->memory);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(r->memory, names[i][0]) == 0)
            g_strlcpy(r->memory, names[i][1], sizeof r->memory);
    }
}

/* ---- sentences ---- */

/* What runtimes say of a request. @also: what else their sentence has, where other software begins one so. */
static bool read_request(Reader *r, EchWords before, EchWords line, EchWords sentence)
{
    static const struct {
        const char *key, *also;
        bool of_gpu, program, of_cpu;
    } keys[] = {{"Attempting to reserve ", "That was not possible", false, true, false},
                {"Attempting to allocate ", "That was not possible", false, false, false},
                {"Could not allocate ", " allocatable", false, false, false},
                {"ut of memory while trying to allocate ", NULL, true, true, false},
                {"ut of memory allocating ", NULL, false, false, true}, /* xla/pjrt/cpu; GPUs' and TPUs' clients have no such words */
                {"Failed to allocate request for ", NULL, true, false, false}};
    EchRounded request, exact;
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        if (!ech_words_begin(line, sentence, keys[i].key) || (keys[i].also && !ech_words_have(sentence, keys[i].also)) ||
            !ech_words_size_after(sentence, keys[i].key, &request))
            continue;
        if (ech_words_size_after(ech_words_after(sentence, "Failed to allocate request for "), " (", &exact))
            request = exact;
        if (r->has_request) {
            r->later += request.bytes != r->request.bytes;
            return true;
        }
        r->request = request;
        if (!r->memory[0])
            set_memory(r, keys[i].of_cpu ? (EchWords){"host", 4} : (EchWords){"hbm", 3});
        r->has_request = true;
        r->of_gpu |= keys[i].of_gpu;
        r->of_cpu = keys[i].of_cpu;
        r->tuning = r->tells_of_tuning > 0 || ech_words_have(before, "autotun");
        r->program = keys[i].program || r->loading;
        r->has_free = ech_words_size_after(sentence, "There are ", &r->free) || ech_words_size_before(sentence, " available", &r->free);
        r->has_piece = ech_words_size_after(sentence, "largest contiguous region of free memory is ", &r->piece) ||
                       ech_words_size_before(sentence, " allocatable", &r->piece) || ech_words_size_before(sentence, " reservable", &r->piece);
        return true;
    }
    return false;
}

/* "TPU TensorCore Hbm usage: 34.82G, SparseCore Hbm usage 174.10G, exceeding available bytes: 95.74G" (openxla.org/xla/errors/error_1000) */
static bool read_cores(Reader *r, EchWords sentence)
{
    EchRounded dense, sparse, room;
    if (!ech_words_size_after(sentence, "TensorCore Hbm usage", &dense) || !ech_words_size_after(sentence, "SparseCore Hbm usage", &sparse) ||
        !ech_words_size_after(sentence, "exceeding available bytes", &room))
        return false;
    set_memory(r, (EchWords){"hbm", 3});
    r->used = (EchRounded){ech_bytes_add(dense.bytes, sparse.bytes), dense.slack + sparse.slack};
    r->capacity = room;
    r->sparse = sparse;
    return r->has_used = r->has_capacity = true;
}

/* "Allocation (size=34359738368) would exceed memory (size=17179869184) :: #allocation7 [shape = 'f32[...]', space=hbm, size = ...]": of one array or window.
 */
static bool read_allocation(Reader *r, EchWords sentence)
{
    uint64_t size, most;
    if (!ech_words_number_after(sentence, "Allocation (size=", &size) || !ech_words_number_after(sentence, "would exceed memory (size=", &most) ||
        most >= size || size >= UINT64_C(1) << 55)
        return false;
    EchWords space = ech_words_after(sentence, "space=");
    set_memory(r, space.n ? space : (EchWords){"hbm", 3});
    /* "tag = 'input window allocation for operator input 0. The window shape is f32[8192,8192], ...'", "tag = 'scoped memory for my_kernel.2'" */
    EchWords tag = ech_words_after(sentence, "tag = '");
    size_t end = 0;
    while (end < tag.n && tag.text[end] != '\'' && !(tag.text[end] == '.' && end + 1 < tag.n && tag.text[end + 1] == ' '))
        end++;
    g_autofree char *whose = ech_quote(tag.text, (gssize)MIN(end, sizeof r->stack - 1), sizeof r->stack - 1);
    g_strlcpy(r->stack, whose, sizeof r->stack);
    r->used = (EchRounded){size, 0};
    r->capacity = (EchRounded){most, 0};
    r->one = true;
    return r->has_used = r->has_capacity = true;
}

/* What a compiler says that a program needs and what there is. */
static bool read_need(Reader *r, EchWords line, EchWords sentence)
{
    static const struct {
        const char *mark, *used, *capacity, *memory;
    } keys[] = {{"Scoped allocation with size ", "Scoped allocation with size ", " and limit ", NULL},
                {"HLO temporaries (", "HLO temporaries (", "exceeds available HBM (", "hbm"},
                {"Aborting compilation early because it's unlikely to have enough", "Requires ", ", has ", "hbm"},
                {"Can't reduce memory use below ", "only reduced to ", "memory use below ", "hbm"}};
    EchRounded a, b;
    if (ech_words_begin(line, sentence, "TensorCore Hbm usage") && read_cores(r, sentence))
        return true;
    if (ech_words_begin(line, sentence, "Allocation (size=") && read_allocation(r, sentence))
        return true;
    if (ech_words_begin(line, sentence, "Used ") && ech_words_size_after(sentence, "Used ", &a) &&
        ech_words_size_after(ech_words_after(sentence, "Used "), " of ", &b)) {
        r->used = a;
        r->capacity = b;
        r->has_used = r->has_capacity = true;
        r->warned = false;
        if (!ech_words_size_after(sentence, " capacity by ", &r->exceeded))
            r->exceeded = (EchRounded){0};
        return true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        if (!ech_words_begin(line, sentence, keys[i].mark) || !ech_words_size_after(sentence, keys[i].used, &a) ||
            !ech_words_size_after(sentence, keys[i].capacity, &b))
            continue;
        if (i == 3 && r->warned) /* of a program before */
            return true;
        r->warned = i == 3;
        if (keys[i].memory)
            set_memory(r, (EchWords){keys[i].memory, strlen(keys[i].memory)});
        r->used = a;
        r->capacity = b;
        r->has_used = r->has_capacity = true;
        r->scoped = i == 0;
        return true;
    }
    return false;
}

/* "... while allocating on stack for %reduce-window.1 = (u32[16,8,128]{...}) reduce-window(...)": whose memory ran out. */
static void set_stack(Reader *r, EchWords sentence)
{
    EchWords name = ech_words_after(sentence, " while allocating on stack for %");
    size_t n = 0;
    while (n < name.n && !g_ascii_isspace(name.text[n]))
        n++;
    n -= n && name.text[n - 1] == '.';
    g_autofree char *text = ech_quote(name.text, (gssize)MIN(n, sizeof r->stack - 1), sizeof r->stack - 1);
    g_strlcpy(r->stack, text, sizeof r->stack);
    r->own = ech_words_have(name, " = ") && !ech_words_have(name, " custom-call(");
}

/* What XLA and its runtimes say in a sentence. True where it was one. */
static bool xla_sentence(Reader *r, EchWords before, EchWords line, EchWords sentence)
{
    static const char ran_out[] = "Ran out of memory in memory space ";
    EchRounded reserved;
    bool needs = r->has_used && !r->warned;
    if (ech_words_begin(line, sentence, ran_out)) {
        if (r->items->len || needs) {
            r->over = true;
            return true;
        }
        set_memory(r, ech_words_after(sentence, ran_out));
        set_stack(r, sentence);
    }
    if (!needs && read_need(r, line, sentence))
        return true;
    if (read_request(r, before, line, sentence))
        return true;
    /* "HBM capacity 8.00G:", of which the runtime keeps a part to itself */
    if (!r->has_capacity && ech_words_start(line, "HBM capacity ") && ech_words_size_after(line, "HBM capacity ", &r->capacity))
        return r->has_capacity = true;
    if (r->has_capacity && !r->has_used && ech_words_start(line, "Top-of-Memory reserved:") && ech_words_size_after(line, "reserved", &reserved)) {
        r->capacity.bytes -= MIN(r->capacity.bytes, reserved.bytes);
        r->capacity.slack += reserved.slack;
        return true;
    }
    return false;
}

/* ---- tables ---- */

/* "HLO temp  63.79G (...)", "parameter allocation:    6.00MiB": a name and a size after it. */
static void read_row(Reader *r, EchWords line)
{
    for (size_t at = 0; at < line.n; at++) {
        bool begins = at > 0 && g_ascii_isspace(line.text[at - 1]) && g_ascii_isdigit(line.text[at]);
        Row row = {.section = r->section};
        size_t used;
        if (!begins || !ech_rounded_parse(line.text + at, line.n - at, &row.size, &used))
            continue;
        EchWords name = ech_words_trim(line.text, at), rest = {line.text + at + used, line.n - at - used};
        if (name.n && name.text[name.n - 1] == ':')
            name.n--;
        if (name.n == 0 || r->rows->len == MAX_ROWS)
            return;
        if (ech_words_size_after(rest, "Unpadded (", &r->unpadded) && ech_words_size_after(rest, " Padded (", &r->padded))
            r->has_temp_padding = true;
        row.name = text_of(r, name);
        g_array_append_val(r->rows, row);
        ech_diag_note(r->ret->records, "sums", 1);
        return;
    }
}

static Item *last_item(Reader *r)
{
    return r->open ? &g_array_index(r->items, Item, r->items->len - 1) : NULL;
}

/* The value of key="..." or key=... in an operator's metadata. */
static EchWords metadata(EchWords line, const char *key)
{
    EchWords rest = ech_words_after(line, key);
    size_t n = 0;
    bool quoted = rest.n && *rest.text == '"';
    if (quoted)
        rest.text++, rest.n--;
    while (n < rest.n && (quoted ? rest.text[n] != '"' : g_ascii_isalnum(rest.text[n])))
        n++;
    return (EchWords){rest.text, n};
}

/* op_name="jit(step)/jvp(Model)/block_3/dot_general[precision=None]": what it does is the last part; of an argument, its path: "params['w1'][0]". */
static void read_operator(Reader *r, Item *item, EchWords line)
{
    EchWords name = metadata(line, "op_name="), file = metadata(line, "source_file="), number = metadata(line, "source_line=");
    for (size_t i = 0; i + 1 < name.n; i++) {
        if (name.text[i] == '[' && g_ascii_isalpha(name.text[i + 1]))
            name.n = i;
    }
    for (size_t i = name.n; i-- > 0;) {
        if (name.text[i] == '/') {
            name.text += i + 1;
            name.n -= i + 1;
            break;
        }
    }
    g_autofree char *plain = g_strndup(name.text, name.n); /* where quotes were escaped once more */
    char *to = plain;
    for (const char *from = plain; *from; from++) {
        if (*from != '\\')
            *to++ = *from;
    }
    item->operation = text_of(r, (EchWords){plain, (size_t)(to - plain)});
    const char *slash = file.n ? memrchr(file.text, '/', file.n) : NULL;
    if (slash)
        file = (EchWords){slash + 1, (size_t)(file.text + file.n - slash - 1)};
    if (file.n == 0)
        return;
    g_autofree char *base = ech_quote(file.text, (gssize)file.n, MAX_TEXT), *line_text = ech_quote(number.text, (gssize)number.n, 12);
    g_autofree char *source = *line_text ? g_strdup_printf("%s:%s", base, line_text) : g_strdup(base);
    item->source = ech_trace_builder_string(r->builder, source, -1);
}

/* What a kernel has scoped lies on chip: of a list without its head, which tells of which memory it is. */
static void set_scoped(Reader *r, EchWords line)
{
    bool listed = r->section == LIST && !r->headless, scoped = ech_words_have(line, "Allocation type: scoped");
    r->of_kernel |= ech_words_have(line, "tpu_custom_call") || ech_words_have(line, "/pallas_call\"");
    if (ech_words_start(line, "Size:"))
        r->of_kernel = false;
    if (listed || !scoped || !r->of_kernel)
        return;
    set_memory(r, (EchWords){"vmem", 4});
    r->on_chip = true;
}

static bool read_item_line(Reader *r, EchWords line, GError **error)
{
    Item *item = last_item(r);
    EchRounded size;
    EchWords label = ech_words_after(line, ech_words_start(line, "XLA Label:") ? "XLA Label:" : "XLA label:");
    if (ech_words_start(line, "==")) {
        r->open = false;
    } else if ((ech_words_start(line, "Size:") || (line.n && g_ascii_isdigit(*line.text) && ech_words_have(line, ". Size:"))) &&
               ech_words_size_after(line, "Size:", &size)) {
        if (r->items->len == MAX_ITEMS) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: more than %d allocations", r->where, MAX_ITEMS);
            return false;
        }
        Item made = {.size = size, .label = ECH_NONE, .operation = ECH_NONE, .source = ECH_NONE, .shape = ECH_NONE, .type = ECH_NONE};
        g_array_append_val(r->items, made);
        r->open = true;
    } else if (!item) {
        return true;
    } else if (ech_words_start(line, "Operator:")) {
        read_operator(r, item, line);
    } else if (ech_words_start(line, "Entry Parameter Subshape:")) {
        item->argument = true;
        item->shape = text_of(r, ech_words_after(line, "Subshape:"));
    } else if (ech_words_start(line, "Shape:")) {
        item->shape = text_of(r, ech_words_after(line, "Shape:"));
    } else if (ech_words_start(line, "Unpadded size:")) {
        if (!ech_words_size_after(line, "Unpadded size:", &item->unpadded))
            item->unpadded = (EchRounded){0};
    } else if (ech_words_start(line, "Allocation type:")) {
        item->type = text_of(r, ech_words_after(line, "type:"));
    } else if (label.n) {
        const char *equals = memmem(label.text, label.n, " = ", 3);
        if (equals)
            label.n = (size_t)(equals - label.text);
        if (*label.text == '%')
            label.text++, label.n--;
        item->label = text_of(r, label);
    }
    return true;
}

/* Headers of tables; any other line that ends in a colon ends one. True where it was one. */
static bool read_header(Reader *r, EchWords line)
{
    EchRounded size;
    bool totals = ech_words_start(line, "Total ") && ech_words_have(line, " usage >="),
         needs = ech_words_start(line, "Program ") && ech_words_size_after(line, " requirement ", &size),
         stats = ech_words_start(line, "BufferAssignment stats"),
         list = ech_words_start(line, "Largest program allocations in ") || ech_words_start(line, "Peak buffers");
    if (!totals && !needs && !stats && !list) {
        if ((line.n && line.text[line.n - 1] == ':' && !ech_words_start(line, "Buffer ")) || ech_words_start(line, "Output size"))
            r->section = NOWHERE;
        return false;
    }
    if (r->items->len) {
        r->over = true;
        return true;
    }
    r->section = totals ? TOTALS : needs ? REQUIREMENT : stats ? STATS : LIST;
    if (!r->memory[0])
        set_memory(r, totals                                       ? ech_words_after(line, "Total ")
                      : needs                                      ? ech_words_after(line, "Program ")
                      : !stats && ech_words_start(line, "Largest") ? ech_words_after(line, " allocations in ")
                                                                   : (EchWords){"hbm", 3});
    if (needs && r->rows->len < MAX_ROWS) {
        Row row = {.section = NOWHERE, .size = size, .name = ech_trace_builder_string(r->builder, "program", -1)};
        g_array_append_val(r->rows, row);
    }
    return true;
}

/* "3. Size: 6.00G", "Buffer 11:": of a list. */
static bool begins_item(EchWords line, bool *ret_of_gpu)
{
    EchRounded size;
    size_t digits = 0;
    *ret_of_gpu = ech_words_start(line, "Buffer ");
    EchWords rest = *ret_of_gpu ? ech_words_after(line, "Buffer ") : line;
    while (digits < rest.n && g_ascii_isdigit(rest.text[digits]))
        digits++;
    if (digits == 0)
        return false;
    rest = (EchWords){rest.text + digits, rest.n - digits};
    return *ret_of_gpu ? rest.n == 1 && *rest.text == ':' : ech_words_start(rest, ". Size:") && ech_words_size_after(rest, "Size:", &size);
}

/* Whether something is said of memory in @line. */
static bool is_of_memory(EchWords line)
{
    static const char *const words[] = {"emory", "llocat",  "EXHAUSTED", "xhausted", "of resource:", "To serve ", "loading was stopped",
                                        "Used ", "reserve", "Tried",     "ailed to"};
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (ech_words_have(line, words[i]))
            return true;
    }
    return false;
}

static bool read_line(Reader *r, EchPasted *pasted, EchWords line, GError **error)
{
    EchWords sentence = is_of_memory(line) ? ech_pasted_sentence(pasted) : line;
    bool dumped = false, of_gpu, loads = ech_words_have(line, "loading program");
    r->loading = loads || r->loaded;
    r->loaded = loads;
    r->absurd |= ech_words_have(line, "Tried to allocate more than 1EB");
    r->tells_of_tuning -= r->tells_of_tuning > 0;
    if (ech_words_have(line, "Autotuning failed") || ech_words_have(line, "autotuner") || ech_words_have(line, "Failed to determine best cudnn"))
        r->tells_of_tuning = 8;
    if (ech_torch_says_line(r->torch, ech_pasted_before(pasted), line, sentence)) {
        ech_memory_figures_ran_out(r->figures);
        return true;
    }
    if (r->section == NOWHERE && ech_memory_figures_line(r->figures, ech_pasted_before(pasted), line))
        return true;
    if (!ech_torch_says_any(r->torch) && !ech_bfc_dump_line(r->dump, line.text, line.n, &dumped, error))
        return false;
    bool engine = ech_engine_says_line(r->engine, ech_pasted_before(pasted), line, sentence);
    if (dumped || engine || ech_torch_says_any(r->torch) || xla_sentence(r, ech_pasted_before(pasted), line, sentence) || read_header(r, line))
        return true;
    set_scoped(r, line);
    if (r->section == NOWHERE && begins_item(line, &of_gpu)) {
        r->section = LIST;
        r->headless = true;
        r->of_gpu |= of_gpu;
        if (!r->memory[0])
            set_memory(r, (EchWords){"hbm", 3});
    }
    switch (r->section) {
    case TOTALS:
    case REQUIREMENT:
    case STATS: read_row(r, line); break;
    case LIST: return read_item_line(r, line, error);
    case NOWHERE: break;
    }
    return true;
}

/* ---- the trace ---- */

static const Row *find_row(const Reader *r, Section section, const char *name)
{
    for (guint i = 0; i < r->rows->len; i++) {
        const Row *row = &g_array_index(r->rows, Row, i);
        if (row->section == section && g_str_has_prefix(ech_trace_builder_peek_string(r->builder, row->name), name))
            return row;
    }
    return NULL;
}

static EchId resident(Reader *r, const char *name, EchBytes bytes, EchRole role)
{
    if (bytes == 0)
        return ECH_NONE;
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(r->builder, name, -1);
    b.memory = ech_trace_builder_memory(r->builder, r->memory);
    b.bytes = bytes;
    b.resident = 1;
    b.role = (uint8_t)role;
    return ech_trace_builder_buffer(r->builder, b);
}

/* Sizes of the listed allocations as they were before they were rounded. */
static void settle_sizes(Reader *r)
{
    for (guint i = 0; i < r->items->len; i++) {
        Item *item = &g_array_index(r->items, Item, i);
        const char *shape = item->shape == ECH_NONE ? "" : ech_trace_builder_peek_string(r->builder, item->shape);
        item->bytes = item->size.bytes;
        if (item->size.slack > 0)
            ech_diag_note(r->ret->diag, ech_rounded_from_shapes(&item->size, shape, strlen(shape), &item->bytes) ? "sizes_from_shapes" : "sizes_as_rounded", 1);
        EchLayout layout;
        item->dense = item->unpadded.bytes;
        if (ech_layout_parse(shape, strlen(shape), &layout, NULL, NULL) && ech_rounded_is(&item->unpadded, ech_layout_dense_bytes(&layout)))
            item->dense = ech_layout_dense_bytes(&layout);
        item->dense = MIN(item->dense, item->bytes);
    }
}

/* By what people look for: the array's dimensions, what makes it and where. Allocations of one kind have one name. */
static EchId item_name(Reader *r, const Item *item)
{
    const char *shape = item->shape == ECH_NONE ? "" : ech_trace_builder_peek_string(r->builder, item->shape);
    const char *what = ech_trace_builder_peek_string(r->builder, item->operation != ECH_NONE ? item->operation : item->label);
    g_autoptr(GString) name = g_string_new(NULL);
    g_string_append_len(name, shape, (gssize)strcspn(shape, "{"));
    if (item->argument)
        g_string_append(name, name->len ? " (argument)" : "(argument)");
    else if (what && *what)
        g_string_append_printf(name, "%s%s", name->len ? " " : "", what);
    if (item->source != ECH_NONE)
        g_string_append_printf(name, " (%s)", ech_trace_builder_peek_string(r->builder, item->source));
    return ech_trace_builder_string(r->builder, name->len ? name->str : "(allocation)", -1);
}

static void add_item(Reader *r, const Item *item, EchId parent, EchRole role)
{
    EchBuffer b = ech_buffer_init();
    b.name = item_name(r, item);
    b.memory = ech_trace_builder_memory(r->builder, r->memory);
    b.bytes = item->bytes;
    b.dense = item->dense;
    b.shape = item->shape;
    b.stack = item->label;
    b.resident = 1;
    b.role = (uint8_t)(item->argument ? ECH_ROLE_PARAMETER : role);
    b.alias_of = parent;
    b.alias_offset = parent == ECH_NONE ? b.alias_offset : 0;
    ech_trace_builder_buffer(r->builder, b);
    ech_diag_note(r->ret->records, "allocations", 1);
}

/* The allocations listed of one @type (ECH_NONE: all; @arguments: a program's arguments or all others, -1 both) and what @sum has besides. Returns what is
 * listed. */
static EchBytes add_sum(Reader *r, const char *name, const EchRounded *sum, bool (*is_of)(const Reader *, const Item *, const char *), EchRole role)
{
    EchBytes listed = 0;
    guint n = 0;
    for (guint i = 0; i < r->items->len; i++) {
        const Item *item = &g_array_index(r->items, Item, i);
        if (!is_of(r, item, name))
            continue;
        listed = ech_bytes_add(listed, item->bytes);
        n++;
    }
    bool parts = listed > sum->bytes && !ech_rounded_is(sum, listed);
    EchId parent = parts ? resident(r, name, sum->bytes, role) : ECH_NONE;
    if (parts)
        ech_diag_note(r->ret->diag, "allocations_sharing_places", n);
    for (guint i = 0; i < r->items->len; i++) {
        const Item *item = &g_array_index(r->items, Item, i);
        if (is_of(r, item, name) && (!parts || (parent != ECH_NONE && item->bytes <= sum->bytes)))
            add_item(r, item, parent, role);
    }
    g_autofree char *rest = n ? g_strdup_printf("%s, not listed", name) : g_strdup(name);
    if (listed < sum->bytes && !ech_rounded_is(sum, listed))
        resident(r, rest, sum->bytes - listed, role);
    return listed;
}

static bool of_type(const Reader *r, const Item *item, const char *name)
{
    const char *type = item->type == ECH_NONE ? "HLO temp" : ech_trace_builder_peek_string(r->builder, item->type);
    return g_ascii_strcasecmp(type, name) == 0;
}

static bool of_program(const Reader *r, const Item *item, const char *name)
{
    (void)r;
    (void)name;
    return !item->argument;
}

static bool is_argument(const Reader *r, const Item *item, const char *name)
{
    (void)r;
    (void)name;
    return item->argument;
}

/* XLA on a TPU: the program by its kinds of memory, and its arguments. */
static EchBytes tpu_buffers(Reader *r)
{
    EchBytes listed = 0, sum = 0;
    bool any = false;
    for (guint i = 0; i < r->rows->len; i++) {
        Row row = g_array_index(r->rows, Row, i);
        if (row.section != REQUIREMENT)
            continue;
        g_autofree char *name = g_strdup(ech_trace_builder_peek_string(r->builder, row.name));
        listed = ech_bytes_add(listed, add_sum(r, name, &row.size, of_type, strcmp(name, "HLO temp") == 0 ? ECH_ROLE_TEMPORARY : ECH_ROLE_UNKNOWN));
        sum = ech_bytes_add(sum, row.size.bytes);
        any = true;
    }
    const Row *program = find_row(r, NOWHERE, "program"), *arguments = find_row(r, TOTALS, "arguments"), *heap = find_row(r, TOTALS, "heap allocations");
    if (!program)
        program = find_row(r, TOTALS, "program");
    if (any && program && program->size.bytes > sum && !ech_rounded_is(&program->size, sum) &&
        (double)(program->size.bytes - sum) > program->size.slack * (double)(r->rows->len + 1))
        resident(r, "program, not broken down", program->size.bytes - sum, ECH_ROLE_UNKNOWN);
    /* Arguments are among what is allocated already. */
    const EchRounded *before = heap ? &heap->size : arguments ? &arguments->size : NULL;
    if (!any) {
        EchRounded whole = program ? program->size : r->used;
        if (!program && before)
            whole.bytes -= MIN(whole.bytes, before->bytes);
        if (!program && !r->has_used && !before) {
            for (guint i = 0; i < r->items->len; i++) {
                const Item *item = &g_array_index(r->items, Item, i);
                add_item(r, item, ECH_NONE, ECH_ROLE_UNKNOWN);
                listed = ech_bytes_add(listed, item->bytes);
            }
        }
        if (program || r->has_used)
            listed = add_sum(r, r->scoped ? "scoped" : r->one ? "one array" : "program", &whole, of_program, ECH_ROLE_UNKNOWN);
    }
    if (before)
        resident(r, heap ? "allocated before" : "arguments", before->bytes, heap ? ECH_ROLE_UNKNOWN : ECH_ROLE_PARAMETER);
    return listed;
}

/* XLA on a GPU: arguments, and the rest of what the program's buffer assignment takes. */
static EchBytes gpu_buffers(Reader *r)
{
    static const char *const names[] = {"constant allocation", "maybe_live_out allocation", "preallocated temp allocation"};
    const Row *parameter = find_row(r, STATS, "parameter allocation");
    EchRounded arguments = parameter ? parameter->size : (EchRounded){0}, rest = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        const Row *row = find_row(r, STATS, names[i]);
        rest.bytes = ech_bytes_add(rest.bytes, row ? row->size.bytes : 0);
        rest.slack += row ? row->size.slack : 0;
    }
    return ech_bytes_add(add_sum(r, "arguments", &arguments, is_argument, ECH_ROLE_PARAMETER),
                         add_sum(r, "temporaries, results and constants", &rest, of_program, ECH_ROLE_UNKNOWN));
}

/* ---- what it comes to ---- */

static void say_refused(Reader *r, const char *who)
{
    bool more = r->has_used && r->has_capacity && r->used.bytes > r->capacity.bytes;
    if (r->warned || (!more && r->exceeded.bytes == 0))
        return;
    EchBytes by = r->exceeded.bytes ? r->exceeded.bytes : r->used.bytes - r->capacity.bytes; /* the compiler's own has more digits */
    g_autofree char *used = ech_format_bytes(r->used.bytes), *room = ech_format_bytes(r->capacity.bytes), *over = ech_format_bytes(by);
    ech_diag_remark(r->ret->diag, "%s: %s of %s asked for%s%s, of %s there are: %s too much", who, used, r->space,
                    !r->stack[0] ? ""
                    : r->one     ? " as "
                                 : " by ",
                    r->stack, room, over);
}

/* Whether what the compiler warned of was refused when it ran. */
static bool is_refused_later(const Reader *r)
{
    return r->warned && (r->has_request || ech_bfc_dump_asks(r->dump));
}

/* What rematerialization aims at: gpu_hlo_schedule.cc of openxla/xla, GetSchedulerMemoryLimit. What the runtime was refused @later counts in its place. */
static void say_warning(Reader *r, bool later)
{
    if (!r->warned)
        return;
    g_autofree char *used = ech_format_bytes(r->used.bytes), *room = ech_format_bytes(r->capacity.bytes);
    ech_diag_remark(r->ret->diag,
                    "%s: with what it makes again the program's buffers come to %s, and it aimed at %s (what the client may take of the GPU, or 80 %% of it, "
                    "less arguments and results)",
                    later ? "XLA's compiler had warned of it" : "XLA's compiler warns, and goes on", used, room);
    if (later)
        return;
    r->of_gpu = true; /* TPUs' compiler refuses */
    ech_diag_remark(r->ret->diag,
                    "nothing in the text was refused: that would come when it runs (RESOURCE_EXHAUSTED), but for unified memory (TF_FORCE_UNIFIED_MEMORY=true, "
                    "XLA_CLIENT_MEM_FRACTION above 1), where what the GPU has no room for moves over the host's link, again and again");
}

static void say_padding(Reader *r)
{
    EchBytes padding = r->has_temp_padding && r->padded.bytes > r->unpadded.bytes ? r->padded.bytes - r->unpadded.bytes : 0;
    if (padding < r->padded.bytes / 20 || padding == 0)
        return;
    g_autofree char *lost = ech_format_bytes(padding), *all = ech_format_bytes(r->padded.bytes);
    bool enough = r->has_used && r->has_capacity && r->used.bytes > r->capacity.bytes && r->used.bytes - MIN(padding, r->used.bytes) <= r->capacity.bytes;
    ech_diag_remark(r->ret->diag,
                    "%s of the %s of temporaries are padding%s: arrays are stored in whole tiles of their last two dimensions as laid out; 'echelon layout "
                    "SHAPE --device CHIP' says which dimension costs what, and what another order would take",
                    lost, all, enough ? ", without which it would fit" : "");
}

/* What was refused while the program was loaded, or an array made. */
static void say_request(Reader *r)
{
    g_autofree char *asked = ech_format_bytes(r->request.bytes), *free = ech_format_bytes(r->free.bytes), *piece = ech_format_bytes(r->piece.bytes);
    if (r->has_request && r->of_gpu && r->rows->len == 0)
        ech_diag_remark(
            r->ret->diag,
            "refused: %s at once, of the share of the GPU's memory that JAX takes (XLA_PYTHON_CLIENT_MEM_FRACTION, .75 by default) and other programs leave",
            asked);
    if (r->has_request && r->tuning)
        ech_diag_remark(r->ret->diag,
                        "it was asked for while XLA timed kernels for one instruction, on arrays of its own as large as that one's, beside all that is in use: "
                        "XLA_FLAGS=--xla_gpu_autotune_level=0 times none (kernels may be slower)");
    if (!r->has_request || r->of_gpu)
        return;
    bool pieces = r->request.bytes <= r->free.bytes;
    if (r->of_cpu) {
        ech_diag_remark(r->ret->diag,
                        "refused: %s at once of the host's memory: JAX ran on the processor here, not on a GPU or TPU (jax.devices() tells which it found, and "
                        "JAX_PLATFORMS chooses), and one array was more than the machine, or a container's limit, had to give",
                        asked);
        return;
    }
    if (!r->has_free)
        ech_diag_remark(r->ret->diag, "refused: %s at once", asked);
    else if (r->has_piece && r->piece.bytes < r->free.bytes)
        ech_diag_remark(r->ret->diag, "refused: %s at once; %s were free, %s of it in one piece%s", asked, free, piece,
                        pieces ? ": fragmentation, by arrays that lie between" : "");
    else
        ech_diag_remark(r->ret->diag, "refused: %s at once; %s were free%s", asked, free, pieces ? ", but not in one piece" : "");
    ech_diag_remark(r->ret->diag,
                    r->program
                        ? "that is what a program needs beside its arguments, in one block: it fits when the program needs less, or when arrays that are no "
                          "longer used are deleted before it is loaded (of a server's, when its KV cache is smaller)"
                        : "that is an array: fewer that are alive at once (x.delete(), donated arguments, a smaller batch), or arrays split over more chips, "
                          "make room");
}

/* Of a GPU's program: what it needs in all, @dumped: beside the allocator's own log, which says why there was no room. */
static void say_program(Reader *r, bool dumped)
{
    const Row *total = find_row(r, STATS, "total allocation"), *temp = find_row(r, STATS, "preallocated temp allocation");
    if (!r->has_request || !total)
        return;
    g_autofree char *asked = ech_format_bytes(r->request.bytes), *all = ech_format_bytes(total->size.bytes),
                    *size = ech_format_bytes(temp ? temp->size.bytes : 0), *block = g_strdup_printf(", of which its temporaries are one block of %s", size);
    ech_diag_remark(r->ret->diag, "refused: %s at once; the program takes %s with its arguments%s%s", asked, all, temp && temp->size.bytes ? block : "",
                    dumped ? ""
                           : ": other arrays that are alive, other processes (nvidia-smi), and the share of the memory that JAX takes "
                             "(XLA_PYTHON_CLIENT_MEM_FRACTION, .75 by default), "
                             "leave it no room");
}

/* What would make room, by the memory that has none. */
static const char *remedy(const Reader *r)
{
    if (strcmp(r->memory, "vector") == 0 && r->one)
        return "that is one window or scratch array of a kernel, larger than all of the memory on chip, so that no limit helps: smaller blocks (of a Pallas "
               "kernel its BlockSpecs; without one a whole operand is one block), fewer buffers of each, or operands that stay in HBM (memory_space=pl.ANY)";
    /* https://openxla.org/xla/errors/error_1001 */
    if (strcmp(r->memory, "vector") == 0 && r->own)
        return "that is one of XLA's own instructions, whose blocks its compiler chooses, not a Pallas kernel: --xla_tpu_scoped_vmem_limit_kib=... gives it "
               "more, another libtpu may choose otherwise, and XLA asks for a report of it";
    if (strcmp(r->memory, "vector") == 0)
        return "what a kernel keeps on chip has a limit of its own: smaller blocks or fewer buffers need less; Pallas kernels may ask for more "
               "(pltpu.CompilerParams(vmem_limit_bytes=...)), XLA's own with --xla_tpu_scoped_vmem_limit_kib=... Of the program itself ('echelon capture "
               "--pretend NAME -- COMMAND') 'echelon run' tells what a Pallas kernel keeps, array by array, and which blocks would have room";
    if (strcmp(r->memory, "scalar") == 0)
        return "scalar memory holds what kernels steer by: prefetched scalars (tables of pages, lengths, offsets), which grow with the sequences and pages "
               "that a call handles; fewer of those at once need less";
    return "what would make room takes the program itself, which 'echelon capture --pretend NAME -- COMMAND' writes down without the device, also where it "
           "does not fit ('echelon advise')";
}

static void say_xla(Reader *r, bool gpu, EchBytes listed)
{
    say_refused(r, r->of_gpu ? "XLA" : r->one ? "XLA refused one array" : "XLA refused the program");
    g_autofree char *sparse = ech_format_bytes(r->sparse.bytes);
    if (r->sparse.bytes)
        ech_diag_remark(r->ret->diag,
                        "%s of that are for SparseCores (tables of embeddings): narrower tables, fewer rows of one at a time (max_unique_nz_per_row) and "
                        "--xla_sc_num_serialized_tables_to_optimize_hbm need less",
                        sparse);
    if (gpu)
        say_program(r, false);
    say_request(r);
    say_padding(r);
    if (r->items->len) {
        g_autofree char *sum = ech_format_bytes(listed);
        const char *rest = !r->headless                    ? "the largest only"
                           : r->on_chip                    ? "memory on chip (scoped); the list's beginning, with its sums, is not in the text"
                           : strcmp(r->memory, "hbm") != 0 ? "the list's beginning, with its sums, is not in the text"
                                                           : "the list's beginning, with its sums and which memory it is of (taken as hbm), is not in the text";
        ech_diag_remark(r->ret->diag, "listed: %u allocation%s, %s in all; %s", r->items->len, r->items->len == 1 ? "" : "s", sum, rest);
    }
    if (r->has_request && r->rows->len == 0 && r->items->len == 0 && !r->has_used)
        ech_diag_remark(r->ret->diag,
                        "the message does not say what was in use: jax.profiler.save_device_memory_profile(\"oom.prof\") where the error is caught does%s",
                        r->of_gpu ? ", and so do the lines of bfc_allocator.cc in the log" : "");
    bool of_array = r->has_request && !r->program && r->rows->len == 0 && !r->has_used;
    if ((!of_array || r->of_gpu) && !(r->tuning && r->has_request))
        ech_diag_remark(r->ret->diag, "%s", remedy(r));
}

/* Of a text that says that memory ran out, and no sizes. */
static void refuse(const Reader *r, GError **error)
{
    uint64_t optional = ech_bfc_dump_optional(r->dump);
    if (optional)
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    "%s: nothing ran out of memory: what was refused (times: %" G_GUINT64_FORMAT
                    ") the caller can do without, workspaces of cuDNN, say; slower, not an error",
                    r->where, optional);
    else if (r->absurd)
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_PARSE,
            "%s: more than 1 EB asked for: no array is that large; the size is wrong (a negative or uninitialised dimension, a collective that failed before), "
            "memory did not run out",
            r->where);
    else if (r->memory[0])
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: %s ran out, but the text gives no sizes (the rest of the message has them); %s", r->where, r->space,
                    remedy(r));
    else
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_PARSE,
            "%s: an error about memory that gives no sizes; 'echelon capture --pretend DEVICE -- COMMAND' runs the program without the device and tells them",
            r->where);
}

static bool write_xla(Reader *r, GError **error)
{
    bool gpu = find_row(r, STATS, "total allocation") != NULL;
    r->of_gpu |= gpu;
    ech_trace_builder_set_property(r->builder, "sums_only", "true");
    if (strcmp(r->memory, "hbm") == 0 && !r->headless)
        ech_trace_builder_set_property(r->builder, "refused_on", r->of_gpu ? "gpu" : "tpu");
    if (strcmp(r->memory, "vector") == 0 || strcmp(r->memory, "scalar") == 0)
        ech_trace_builder_set_property(r->builder, "limit_of_a_kernel", "true");
    /* Of a GPU's memory JAX takes three quarters unless told otherwise. */
    if (gpu)
        ech_trace_builder_set_property(r->builder, "share_percent", "75");
    ech_refused_number(r->builder, "asked_for_bytes", r->has_request, r->request.bytes);
    ech_refused_number(r->builder, "needed_bytes", r->has_used, r->used.bytes);
    ech_refused_number(r->builder, "had_bytes", r->has_capacity, r->capacity.bytes);
    EchBytes listed = gpu ? gpu_buffers(r) : tpu_buffers(r);
    if (r->has_request && ech_trace_builder_n_buffers(r->builder) == 0)
        ech_refused_request(r->builder, ech_trace_builder_memory(r->builder, r->memory), "what was asked for", NULL, r->request.bytes);
    if (ech_trace_builder_n_buffers(r->builder) == 0) {
        refuse(r, error);
        return false;
    }
    say_xla(r, gpu, listed);
    return true;
}

static bool make_trace(Reader *r, GError **error)
{
    settle_sizes(r);
    bool later = is_refused_later(r);
    if (later)
        r->has_used = r->has_capacity = false;
    else
        say_warning(r, false);
    bool xla = r->rows->len || r->items->len || r->has_used;
    if (r->plain.has_asked) {
        ech_plain_says_write(&r->plain, r->builder, r->ret);
        ech_engine_says_parts(r->engine, r->ret->diag);
    } else if (ech_torch_says_any(r->torch)) {
        ech_torch_says_write(r->torch, r->builder, r->ret);
    } else if (ech_bfc_dump_tells(r->dump) || (ech_bfc_dump_asks(r->dump) && !xla && !ech_engine_says_sizes(r->engine))) {
        ech_bfc_dump_write(r->dump, r->builder, r->ret, later);
        if (!ech_bfc_dump_tells(r->dump))
            ech_memory_figures_nodes(r->figures, r->builder);
        say_program(r, true);
    } else if (ech_engine_says_any(r->engine) && !xla) {
        if (!ech_engine_says_write(r->engine, r->where, r->builder, r->ret, error))
            return false;
        if (ech_bfc_dump_asks(r->dump)) /* of TensorFlow's: for which array cudaMallocAsync was asked */
            ech_bfc_dump_say_request(r->dump, r->ret->diag);
    } else {
        if (ech_bfc_dump_asks(r->dump))
            ech_bfc_dump_say_request(r->dump, r->ret->diag);
        if (!write_xla(r, error))
            return false;
    }
    if (ech_trace_builder_n_buffers(r->builder) == 0) {
        refuse(r, error);
        return false;
    }
    if (later)
        say_warning(r, true);
    uint64_t more = ech_diag_count(r->ret->diag, "reports_after_the_first");
    if (more && !ech_torch_says_any(r->torch))
        ech_diag_remark(r->ret->diag, "%" G_GUINT64_FORMAT " more refusal%s in the text, by other processes or later, %s not told here", more,
                        more == 1 ? "" : "s", more == 1 ? "is" : "are");
    ech_memory_figures_say(r->figures, r->ret->diag);
    r->ret->trace = ech_trace_builder_finish(r->builder, error);
    return r->ret->trace != NULL;
}

static bool read_text(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)1 << 30, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("out_of_memory");
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(Row)), items = g_array_new(FALSE, TRUE, sizeof(Item));
    g_autoptr(EchBfcDump) dump = ech_bfc_dump_new(ech_source_path(source));
    g_autoptr(EchTorchSays) torch = ech_torch_says_new();
    g_autoptr(EchEngineSays) engine = ech_engine_says_new();
    g_autoptr(EchMemoryFigures) figures = ech_memory_figures_new(true);
    g_autoptr(EchPasted) pasted = ech_pasted_new(data, n);
    Reader r = {.ret = ret,
                .where = ech_source_path(source),
                .builder = builder,
                .rows = rows,
                .items = items,
                .dump = dump,
                .torch = torch,
                .engine = engine,
                .figures = figures};
    if (options->device)
        ech_trace_builder_set_property(builder, "chip", options->device);
    EchWords line;
    while (!r.over && ech_pasted_next(pasted, &line)) {
        if (!read_line(&r, pasted, line, error))
            return false;
    }
    bool refused = r.rows->len || r.items->len || r.has_used || r.has_request || ech_torch_says_any(torch) || ech_bfc_dump_asks(dump) ||
                   ech_bfc_dump_tells(dump) || ech_engine_says_any(engine) || ech_bfc_dump_optional(dump) || r.absurd || r.memory[0];
    if (!refused)
        ech_plain_says_find(data, n, &r.plain);
    if (r.over || r.later)
        ech_diag_note(ret->diag, "reports_after_the_first", r.over + r.later);
    return make_trace(&r, error);
}

/* Whether the text begins as JSON does, not as what Python prints of a dictionary: "{'loss': 1.3, 'epoch': 0.99}". */
static bool is_json(const uint8_t *head, size_t n)
{
    size_t at = 1;
    while (at < n && g_ascii_isspace(head[at]))
        at++;
    return n > 1 && head[0] == '{' && (at == n || head[at] == '"' || head[at] == '}');
}

/* Whether one of @marks, or an engine's, stands in a sentence that was broken at one of its blanks. Long logs, which take time, are files and have no such
 * lines. */
static bool has_sentence(const char *text, size_t n, const char *const *marks, size_t n_marks)
{
    const size_t most_pasted = 1 << 20;
    g_autoptr(EchPasted) pasted = n <= most_pasted ? ech_pasted_new(text, n) : NULL;
    EchWords line;
    while (pasted && ech_pasted_next(pasted, &line)) {
        EchWords sentence = is_of_memory(line) ? ech_pasted_sentence(pasted) : (EchWords){line.text, 0};
        for (size_t i = 0; i < n_marks && sentence.n; i++) {
            if (ech_words_have(sentence, marks[i]))
                return true;
        }
        if (sentence.n && ech_engine_says_probe(sentence.text, sentence.n))
            return true;
    }
    return false;
}

static int probe(const uint8_t *head, size_t n)
{
    static const char *const marks[] = {"Ran out of memory in",
                                        "Ran out of memory on HBM",
                                        "Largest program allocations in ",
                                        "Total hbm usage >=",
                                        "TensorCore Hbm usage",
                                        "Program hbm requirement ",
                                        "BufferAssignment stats:",
                                        "Allocation type: HLO temp",
                                        "Allocation type: scoped",
                                        "Extra memory due to padding: ",
                                        "Entry Parameter Subshape: ",
                                        "XLA Label: ",
                                        "Aborting compilation early because it's unlikely to have enough",
                                        "would exceed memory (size=",
                                        "Can't reduce memory use below ",
                                        "of memory while trying to allocate ",
                                        ": Out of memory allocating ",
                                        ": Failed to allocate request for ",
                                        "That was not possible",
                                        "RESOURCE_EXHAUSTED: Could not allocate ",
                                        "Tried to allocate ",
                                        " already allocated; ",
                                        "would exceed allowed memory. (out of memory)",
                                        "Allocation was preemptively rejected because it would exceed",
                                        "an out of memory trying to allocate ",
                                        "Sum Total of in-use chunks",
                                        "OOM when allocating tensor with shape[",
                                        "oom when allocating tensor with shape[",
                                        "OOM when allocating tensor of shape [",
                                        "BFCAllocator dump for ",
                                        "bfc_allocator.cc:",
                                        " allocated for chunks. "};
    /* Text that is not another format's, in which such a message may stand. */
    bool json = is_json(head, n);
    if (n < 2 || ech_head_is_document(head, n) || (head[0] == '[' && strchr("[{\" \n", head[1])) || memchr(head, 0, n) ||
        (json && !ech_pasted_is_record((const char *)head, n)))
        return 0;
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        if (memmem(head, n, marks[i], strlen(marks[i])))
            return json ? 2 : 1;
    }
    if (ech_engine_says_probe((const char *)head, n))
        return json ? 2 : 1;
    return has_sentence((const char *)head, n, marks, G_N_ELEMENTS(marks)) ? (json ? 2 : 1) : 0;
}

const EchImportClass ech_import_out_of_memory = {
    .name = "out_of_memory",
    .summary = "what JAX, XLA, TensorFlow, PyTorch, vLLM, llama.cpp, Triton and others say when memory runs out, pasted into a file",
    .probe = probe,
    .read = read_text,
};
