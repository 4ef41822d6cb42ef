#include "sim/import/import.h"
#include "sim/import/folder.h"
#include "sim/import/gpu_tools.h"
#include "sim/import/memory_texts.h"
#include "sim/import/plain_says.h"
#include "sim/import/tool_files.h"
#include "sim/import/wire.h"

#include "models/device/gpu_target.h"
#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/base/param.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#define ZLIB_CONST
#include <zlib.h>

#define ECH_IMPORTER(name) extern const EchImportClass ech_import_##name;
#include "sim/import/importers.def"
#undef ECH_IMPORTER

static const EchImportClass *const class_table[] = {
#define ECH_IMPORTER(name) &ech_import_##name,
#include "sim/import/importers.def"
#undef ECH_IMPORTER
    NULL,
};

#define HEAD_SIZE ((size_t)64 << 10)
/* A log in which a message is looked for beyond its head. */
#define LOG_SIZE ((size_t)256 << 20)
/* Of which figures are looked for at the end. */
#define TAIL_SIZE ((size_t)4 << 20)
#define DEFAULT_LIMIT ((size_t)4 << 30)
#define STREAM_LIMIT ((uint64_t)256 << 30)
/* Deflate packs at most 1032 to 1, real traces 10 to 40: past BOMB_FLOOR a higher ratio than this is a bomb. */
#define BOMB_FLOOR ((uint64_t)64 << 20)
#define BOMB_RATIO UINT64_C(400)

struct EchSource {
    char *path;
    GMappedFile *mapped; /* NULL for memory */
    char *converted;     /* what was UTF-16 or had other blanks, or NULL; then nothing is mapped */
    const uint8_t *raw;
    size_t n_raw;
    bool gzip, cut; /* cut: the head of what is packed could not be unpacked as far as it goes */
    uint8_t *head;  /* of a gzip source, else NULL */
    size_t n_head;
    size_t given_back; /* bytes of the map, from its beginning, whose pages were given back */
    size_t position;   /* plain: next raw byte; gzip: next compressed byte is in stream.next_in */
    z_stream stream;
    bool stream_open, stream_done;
    uint64_t produced;
    uint8_t first[3]; /* gzip: bytes unpacked to look for a byte order mark, still to be handed out */
    size_t n_first;
};

static bool is_gzip(const uint8_t *data, size_t n)
{
    return n >= 3 && data[0] == 0x1f && data[1] == 0x8b && data[2] == 8;
}

/* Of a file that is cut before that can be told. */
static bool begins_gzip(const uint8_t *data, size_t n)
{
    return n > 0 && n < 3 && memcmp(data, "\x1f\x8b", n) == 0;
}

/* A byte order mark says nothing about UTF-8, but editors put it there; no binary format begins like it. */
static size_t mark_of(const uint8_t *data, size_t n)
{
    return n >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Whether every second byte is 0, from @first on, and those between are of a text: UTF-16 without its mark. */
static bool alternates(const uint8_t *data, size_t n, size_t first)
{
    enum { ENOUGH = 32 };
    for (size_t i = 0; i < 2 * ENOUGH && i < n; i++) {
        bool zero = i % 2 == first;
        if (zero ? data[i] != 0 : !g_ascii_isprint(data[i]) && !g_ascii_isspace(data[i]))
            return false;
    }
    return n >= 2 * ENOUGH;
}

/* Text that PowerShell and some editors wrote as UTF-16, as UTF-8; NULL: it is none, or damaged. */
static char *from_utf16(const uint8_t *data, size_t n, size_t *ret_n)
{
    bool little = n >= 2 && data[0] == 0xff && data[1] == 0xfe, big = n >= 2 && data[0] == 0xfe && data[1] == 0xff;
    size_t mark = little || big ? 2 : 0;
    little |= alternates(data, n, 1);
    big |= alternates(data, n, 0);
    if ((!little && !big) || n > LOG_SIZE)
        return NULL;
    return g_convert((const char *)data + mark, (gssize)((n - mark) & ~(size_t)1), "UTF-8", little ? "UTF-16LE" : "UTF-16BE", NULL, ret_n, NULL);
}

/* Text that was copied from a page or a chat, with plain blanks for those that do not break, thin ones and such of no width; NULL: it has none, is no such text
 * or too long to be copied by hand. */
static char *with_plain_blanks(const uint8_t *data, size_t n, size_t *ret_n)
{
    static const struct {
        const char *sign;
        bool blank;
    } signs[] = {{"\xc2\xa0", true}, {"\xe2\x80\xaf", true}, {"\xe2\x80\x87", true}, {"\xe2\x80\x89", true}, {"\xe2\x80\x8b", false}};
    const size_t most_copied = 1 << 20;
    if (n == 0 || n > most_copied || (!memchr(data, 0xc2, n) && !memchr(data, 0xe2, n)) || memchr(data, 0, n))
        return NULL;
    bool any = false;
    for (size_t k = 0; k < G_N_ELEMENTS(signs) && !any; k++)
        any = memmem(data, n, signs[k].sign, strlen(signs[k].sign)) != NULL;
    if (!any || !g_utf8_validate((const char *)data, (gssize)n, NULL))
        return NULL;
    GString *out = g_string_sized_new(n);
    for (size_t at = 0; at < n;) {
        size_t k = 0, length = 1;
        for (; k < G_N_ELEMENTS(signs); k++) {
            length = strlen(signs[k].sign);
            if (length <= n - at && memcmp(data + at, signs[k].sign, length) == 0)
                break;
        }
        bool found = k < G_N_ELEMENTS(signs);
        if (!found || signs[k].blank)
            g_string_append_c(out, found ? ' ' : (char)data[at]);
        at += found ? length : 1;
    }
    *ret_n = out->len;
    return g_string_free(out, FALSE);
}

static EchSource *source_new(const uint8_t *data, size_t n, const char *path)
{
    EchSource *source = g_new0(EchSource, 1);
    source->path = g_strdup(path);
    size_t n_converted;
    source->converted = from_utf16(data, n, &n_converted);
    if (!source->converted)
        source->converted = with_plain_blanks(data, n, &n_converted);
    if (source->converted) {
        data = (const uint8_t *)source->converted;
        n = n_converted;
    }
    size_t mark = mark_of(data, n);
    source->raw = mark ? data + mark : data;
    source->n_raw = n - mark;
    source->gzip = is_gzip(source->raw, source->n_raw);
    return source;
}

EchSource *ech_source_open(const char *path, GError **error)
{
    GMappedFile *mapped = ech_map_file(path, error);
    if (!mapped)
        return NULL;
    EchSource *source = source_new((const uint8_t *)g_mapped_file_get_contents(mapped), g_mapped_file_get_length(mapped), path);
    if (source->converted)
        g_mapped_file_unref(mapped);
    else
        source->mapped = mapped;
    return source;
}

EchSource *ech_source_new_memory(const uint8_t *data, size_t n, const char *path)
{
    return source_new(data, n, path);
}

void ech_source_free(EchSource *source)
{
    if (!source)
        return;
    if (source->stream_open)
        inflateEnd(&source->stream);
    g_clear_pointer(&source->mapped, g_mapped_file_unref);
    g_free(source->head);
    g_free(source->converted);
    g_free(source->path);
    g_free(source);
}

const char *ech_source_path(const EchSource *source)
{
    return source->path ? source->path : "(memory)";
}

static bool stream_start(EchSource *source, z_stream *stream, GError **error)
{
    memset(stream, 0, sizeof *stream);
    if (inflateInit2(stream, 15 + 16) == Z_OK)
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: cannot start unpacking", ech_source_path(source));
    return false;
}

/* Fills up to n bytes; short only at the end of the data. -1 and an error on damage. */
static gssize stream_read(EchSource *source, z_stream *stream, bool *done, uint64_t *produced, uint8_t *buffer, size_t n, GError **error)
{
    size_t got = 0;
    while (got < n && !*done) {
        uInt room = (uInt)MIN(n - got, (size_t)1 << 30);
        size_t consumed = stream->next_in ? (size_t)(stream->next_in - source->raw) : 0;
        stream->next_in = source->raw + consumed;
        stream->avail_in = (uInt)MIN(source->n_raw - consumed, (size_t)1 << 30);
        stream->next_out = buffer + got;
        stream->avail_out = room;
        uInt in_before = stream->avail_in;
        int status = inflate(stream, Z_NO_FLUSH);
        size_t made = room - stream->avail_out;
        got += made;
        *produced += made;
        consumed += in_before - stream->avail_in;
        if (*produced > STREAM_LIMIT || (*produced > BOMB_FLOOR && *produced / BOMB_RATIO > consumed)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                        "%s: byte %zu: gzip data grow to %" G_GUINT64_FORMAT " bytes from %zu, which no trace does; refusing to unpack further",
                        ech_source_path(source), consumed, *produced, consumed);
            return -1;
        }
        if (status == Z_STREAM_END) {
            /* Members may follow each other; anything else after the last one is padding. */
            if (is_gzip(source->raw + consumed, source->n_raw - consumed) && inflateReset(stream) == Z_OK)
                continue;
            *done = true;
        } else if (status == Z_BUF_ERROR || (status == Z_OK && made == 0 && in_before == 0)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: gzip data end in the middle (%" G_GUINT64_FORMAT " bytes unpacked); the file is cut",
                        ech_source_path(source), consumed, *produced);
            return -1;
        } else if (status != Z_OK) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: damaged gzip data: %s", ech_source_path(source), consumed,
                        stream->msg ? stream->msg : "unknown cause");
            return -1;
        }
    }
    return (gssize)got;
}

const uint8_t *ech_source_head(EchSource *source, size_t *ret_n)
{
    if (!source->gzip) {
        *ret_n = MIN(source->n_raw, HEAD_SIZE);
        return source->raw;
    }
    if (!source->head) {
        source->head = g_malloc(HEAD_SIZE);
        z_stream stream;
        if (stream_start(source, &stream, NULL)) {
            bool done = false;
            uint64_t produced = 0;
            /* What comes before a damage can still be sniffed. */
            while (source->n_head < HEAD_SIZE && !done) {
                gssize got = stream_read(source, &stream, &done, &produced, source->head + source->n_head, HEAD_SIZE - source->n_head, NULL);
                source->n_head = (size_t)produced;
                source->cut = got < 0;
                if (got <= 0)
                    break;
            }
            inflateEnd(&stream);
        }
        size_t mark = mark_of(source->head, source->n_head);
        source->n_head -= mark;
        memmove(source->head, source->head + mark, source->n_head);
    }
    *ret_n = source->n_head;
    return source->head;
}

/* A stream goes over the map once: pages behind it are given back, or a file of gigabytes would count as memory in use. They can be read again. */
static void give_back(EchSource *source, size_t consumed)
{
    enum { STEP = 4 << 20 };
    if (!source->mapped || consumed < source->given_back + 2 * (size_t)STEP)
        return;
    size_t n = (consumed - source->given_back - STEP) / STEP * STEP;
    void *at = (char *)g_mapped_file_get_contents(source->mapped) + source->given_back;
    if (madvise(at, n, MADV_DONTNEED) == 0)
        source->given_back += n;
}

static EchImportProgress progress_call;

void ech_import_set_progress(EchImportProgress progress)
{
    progress_call = progress;
}

/* Files of which a moment's reading is all. */
enum { SMALL_FILE = 16 << 20 };

static void tell_progress(const EchSource *source, size_t read)
{
    if (progress_call && source->mapped && source->n_raw > SMALL_FILE)
        progress_call(read, source->n_raw);
}

gssize ech_source_read(EchSource *source, void *buffer, size_t n, GError **error)
{
    if (!source->gzip) {
        size_t got = MIN(n, source->n_raw - source->position);
        if (got)
            memcpy(buffer, source->raw + source->position, got);
        source->position += got;
        give_back(source, source->position);
        tell_progress(source, source->position);
        return (gssize)got;
    }
    if (!source->stream_open) {
        if (!stream_start(source, &source->stream, error))
            return -1;
        source->stream_open = true;
        gssize got = stream_read(source, &source->stream, &source->stream_done, &source->produced, source->first, sizeof source->first, error);
        if (got < 0)
            return -1;
        source->n_first = mark_of(source->first, (size_t)got) ? 0 : (size_t)got;
    }
    if (source->n_first) {
        size_t got = MIN(n, source->n_first);
        memcpy(buffer, source->first, got);
        memmove(source->first, source->first + got, source->n_first - got);
        source->n_first -= got;
        return (gssize)got;
    }
    gssize got = stream_read(source, &source->stream, &source->stream_done, &source->produced, buffer, n, error);
    if (source->stream.next_in) {
        give_back(source, (size_t)(source->stream.next_in - source->raw));
        tell_progress(source, (size_t)(source->stream.next_in - source->raw));
    }
    return got;
}

GBytes *ech_source_bytes(EchSource *source, size_t limit, GError **error)
{
    if (limit == 0)
        limit = DEFAULT_LIMIT;
    if (!source->gzip) {
        if (source->n_raw > limit) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: %zu bytes; at most %zu are read of this format", ech_source_path(source), source->n_raw, limit);
            return NULL;
        }
        if (!source->mapped)
            return g_bytes_new(source->raw, source->n_raw);
        g_autoptr(GBytes) whole = g_mapped_file_get_bytes(source->mapped);
        return g_bytes_new_from_bytes(whole, g_bytes_get_size(whole) - source->n_raw, source->n_raw);
    }
    z_stream stream;
    if (!stream_start(source, &stream, error))
        return NULL;
    bool done = false;
    uint64_t produced = 0;
    size_t room = CLAMP(source->n_raw * 4, (size_t)4096, (size_t)64 << 20), used = 0;
    g_autofree uint8_t *data = g_malloc(room);
    bool ok = true;
    while (ok && !done) {
        gssize got = stream_read(source, &stream, &done, &produced, data + used, room - used, error);
        ok = got >= 0;
        if (ok)
            used += (size_t)got;
        if (ok && used > limit) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: more than %zu bytes unpacked; no more are read of this format", ech_source_path(source), limit);
            ok = false;
        }
        if (ok && used == room) {
            room *= 2;
            data = g_realloc(data, room);
        }
    }
    inflateEnd(&stream);
    if (!ok)
        return NULL;
    size_t mark = mark_of(data, used);
    memmove(data, data + mark, used - mark);
    return g_bytes_new_take(g_steal_pointer(&data), used - mark);
}

const EchImportClass *const *ech_import_classes(size_t *ret_n)
{
    *ret_n = G_N_ELEMENTS(class_table) - 1;
    return class_table;
}

#define MANGLED "a binary file that was saved as UTF-8 text: every byte above 127 has become EF BF BD, and the contents are lost"

static bool is_mangled(const uint8_t *head, size_t n)
{
    size_t mangled = 0, high = 0, control = 0;
    for (size_t i = 0; i < n; i++) {
        high += head[i] >= 0x80;
        control += head[i] < 9;
        mangled += i + 2 < n && head[i] == 0xef && head[i + 1] == 0xbf && head[i + 2] == 0xbd;
    }
    /* What happened to be UTF-8 has stayed: of random bytes above 127 about one in ten. */
    return mangled > 8 && control > 8 && mangled * 3 * 2 >= high;
}

/* Perfetto's protobuf: packets (field 1) with a time, a sequence and an event or a track's description, one of which comes early. */
static bool is_perfetto(const uint8_t *head, size_t n)
{
    EchWire wire = ech_wire_init(head, n);
    EchWireField packet, field;
    for (int i = 0; i < 16 && ech_wire_next(&wire, &packet) && packet.number == 1 && packet.type == ECH_WIRE_BYTES; i++) {
        EchWire inner = ech_wire_sub(&wire, &packet);
        bool sequence = false, tracks = false;
        while (ech_wire_next(&inner, &field)) {
            sequence |= field.number == 10 && field.type == ECH_WIRE_VARINT;
            tracks |= (field.number == 11 || field.number == 60) && field.type == ECH_WIRE_BYTES;
        }
        if (sequence && tracks)
            return true;
    }
    return false;
}

/* ONNX's ModelProto: the version of its format (field 1), then who made it (2) or what it is made of (7, 8), and no other fields. */
static bool is_onnx(const uint8_t *head, size_t n)
{
    EchWire wire = ech_wire_init(head, n);
    EchWireField field;
    bool first = ech_wire_next(&wire, &field) && field.number == 1 && field.type == ECH_WIRE_VARINT && field.value > 0 && field.value < 64;
    bool second = first && ech_wire_next(&wire, &field);
    bool maker =
        second && field.number == 2 && field.type == ECH_WIRE_BYTES && g_utf8_validate((const char *)field.data, (gssize)MIN(field.size, (size_t)64), NULL);
    /* The graph of a model may be larger than what is looked at. */
    return maker || (first && n > 8 && head[2] == 0x3a && (memmem(head, n, "MatMul", 6) || memmem(head, n, "Conv", 4) || memmem(head, n, "Gemm", 4)));
}

#define WEIGHTS                                                                                                                                                \
    "weights alone, not like what a program does with them; 'echelon capture --pretend DEVICE -- COMMAND' runs the program that loads them on a device "       \
    "that is not there (weights are not needed: from_config, load_format=\"dummy\") and says whether it fits"

/* A safetensors file: how long its JSON is, in eight bytes, and that. */
static bool is_safetensors(const uint8_t *head, size_t n)
{
    return n > 16 && head[6] == 0 && head[7] == 0 && head[8] == '{' && memmem(head, n, "\"data_offsets\"", 14);
}

/* Owned by the caller. */
static char *describe_zip(const uint8_t *head, size_t n)
{
    const char *what = ech_tool_file_zip((const char *)head, n);
    return g_strdup_printf("the bytes look like %s", what ? what : "a zip archive; unpack it first");
}

/* A format that its first bytes tell, or NULL. Owned by the caller. */
static char *describe_magic(const uint8_t *head, size_t n)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *what;
    } known[] = {
        {"SQLite format 3", 15, "an SQLite database without the tables of an Nsight Systems export"},
        {"\xfd"
         "7zXZ",
         5, "xz; unpack it first"},
        {"\xff\xfe", 2, "damaged UTF-16 text; save it as UTF-8"},
        {"\xfe\xff", 2, "damaged UTF-16 text; save it as UTF-8"},
        {"\x1f\x8b", 2, "gzip inside gzip; unpack it once"},
        {"\x04\x22\x4d\x18", 4, "lz4; unpack it first"},
        {"PAR1", 4, "Parquet; of Nsight Systems 'nsys export --type sqlite REPORT' writes what echelon reads"},
        {"ML\xefR", 4, "MLIR bytecode, " ECH_NOT_COMPILED},
        {"NVIDIA Tegra Profiler Report ", 29,
         "a report of Nsight Systems; 'nsys export --type sqlite FILE' writes the database that echelon reads"}, /* .qdrep before 2021.4 */
        {"NVR", 4, "a report of Nsight Compute, which tells of single kernels; 'nsys export --type sqlite' writes what echelon reads of a whole run"},
        {"BZh", 3, "bzip2; unpack it first"},
        {"\x28\xb5\x2f\xfd", 4, "zstd; unpack it first"},
        {"\x7f"
         "ELF",
         4, "an ELF program"},
        {"\x89"
         "HDF",
         4, "HDF5; of Nsight Systems 'nsys export --type sqlite REPORT' writes what echelon reads"},
        {"\x93NUMPY", 6, "a NumPy array"},
        {"GGUF", 4, WEIGHTS},
        {"GIF8", 4, "an image"},
        {"\x89PNG", 4, "an image"},
        {"%PDF", 4, "a PDF document"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        if (n >= known[i].n && memcmp(head, known[i].magic, known[i].n) == 0)
            return g_strdup_printf("the bytes look like %s", known[i].what);
    }
    if (is_safetensors(head, n))
        return g_strdup("the bytes look like " WEIGHTS);
    if (n > 4 && memcmp(head, "PK\x03\x04", 4) == 0)
        return describe_zip(head, n);
    if (n > 262 && memcmp(head + 257, "ustar", 5) == 0) {
        g_autofree char *first = ech_quote((const char *)head, (gssize)strnlen((const char *)head, 100), 99); /* a full field has no end of its own */
        return g_strdup_printf("the bytes look like a tar archive, of '%s' first; unpack it first", first);
    }
    if (memmem(head, n, "StableHLO_v", 11) && memmem(head, n, "ML\xefR", 4))
        return g_strdup("the bytes look like a program that jax.export wrote, " ECH_NOT_COMPILED);
    if (is_onnx(head, n))
        return g_strdup(
            "the bytes look like an ONNX model, not like what it did: a session with SessionOptions.enable_profiling writes a profile, and 'echelon "
            "capture' or 'nsys profile' record what it does on a GPU");
    if (n > 64 && (memcmp(head, "(dp0\n", 5) == 0 || memcmp(head, "}q", 2) == 0) && memmem(head, 64, "segments", 8))
        return g_strdup("the bytes look like a memory snapshot pickled by protocol 0 or 1; pickle it by protocol 2 or later");
    return NULL;
}

#define LINK_OF(link, whose) "--set device.links." link ".to_device=RATE --set device.links." link ".from_device=RATE', with " whose
#define BETWEEN_GPUS                                                                                                                                           \
    "What it means for a program: 'echelon run --trace FILE --device NAME " LINK_OF(                                                                           \
        "nvlink", "the bus bandwidth that nccl-tests reaches (12GB/s, say; links.host where the card has no NVLink),") " says "                                \
                                                                                                                       "what the slower link adds; 'echelon "  \
                                                                                                                       "capture --pretend NAME --gpus N -- "   \
                                                                                                                       "COMMAND' makes FILE without the GPUs"

/* What tools print of links, or NULL. */
static const char *describe_links(const char *head, size_t n)
{
    if (memmem(head, n, "CPU Affinity", 12) && memmem(head, n, "GPU0", 4))
        return "the text is nvidia-smi's table of how GPUs are joined: NV# between two is NVLink, PIX, PXB, PHB, NODE and SYS are PCIe over ever more of the "
               "machine, SYS by way of the other socket. " BETWEEN_GPUS;
    if (memmem(head, n, "Bandwidth Matrix (GB/s)", 23))
        return "the text is CUDA's test of copies between GPUs; where P2P=Enabled is no faster than P2P=Disabled they pass over the host. " BETWEEN_GPUS;
    if (memmem(head, n, "algbw", 5) && memmem(head, n, "busbw", 5))
        return "the text is a table of nccl-tests, whose busbw is the rate of a link that an ideal ring would need for that time. " BETWEEN_GPUS;
    if (memmem(head, n, "CUDA Bandwidth Test", 19) || memmem(head, n, "host_to_device_memcpy", 21))
        return "the text is a test of copies between host and device; 'echelon run --trace FILE --device NAME " LINK_OF(
            "host", "the rates it tells (12.3GB/s)") " says "
                                                     "what they mean for a program, '--pass pin' what page-locked memory would be worth";
    return NULL;
}

/* A text that its words tell, or NULL. */
static const char *describe_text(const uint8_t *head, size_t n)
{
    if (n == 0)
        return NULL;
    if (ech_gpu_target_probe((const char *)head, n))
        return "the text is XLA's description of a GPU: a device, not a trace; give it as --device FILE, or make a device file of it with 'echelon "
               "import FILE -o DEVICE.yaml'";
    if (n > 2 && head[0] == '[' && head[1] == '[' && g_ascii_isdigit(head[2]))
        return "the text looks like the sums of a PyTorch memory timeline; export_memory_timeline(\"NAME.raw.json.gz\") writes the allocations themselves";
    size_t at = ech_head_begin(head, n);
    if (n - at > 14 &&
        (g_ascii_strncasecmp((const char *)head + at, "<!doctype html", 14) == 0 || g_ascii_strncasecmp((const char *)head + at, "<html", 5) == 0))
        return "the text is a web page; give the capture that it was made from (a memory snapshot's .pickle, a memory timeline's .raw.json.gz)";
    if (n > 16 && (memcmp(head, "\"Name\",\"Calls\",\"", 16) == 0 || memcmp(head, "\"KernelName\",\"Calls", 16) == 0 ||
                   memmem(head, MIN(n, (size_t)512), "\"Counter_Name\"", 14)))
        return "the text is a table of sums or of counters by AMD's rocprof; what ran when is read: rocprofv3's database, its JSON, or STEM_kernel_trace.csv "
               "with what lies beside it (--runtime-trace)";
    if (memmem(head, MIN(n, (size_t)256), "Total (MB),Count,", 17) || memmem(head, MIN(n, (size_t)256), "Total Time (ns),", 16) ||
        memmem(head, MIN(n, (size_t)256), "Start (ns),Duration (ns),", 25))
        return "the text is a table of 'nsys stats', which leaves out most of what was recorded; the database that it was made from is read (.sqlite; 'nsys "
               "export --type sqlite REPORT' makes one)";
    if (memmem(head, n, "\"Metric Name\",", 14) && memmem(head, n, "\"Kernel Name\",", 14))
        return "the text is a table of Nsight Compute's, of single kernels run again and again; echelon reads what ran when: 'nsys profile', torch.profiler, "
               "'echelon capture'";
    if (n > 6 && memcmp(head, "GPU 0:", 6) == 0 && memmem(head, n, "(UUID: ", 7))
        return "the text is nvidia-smi's list of GPUs (-L), without sizes; what nvidia-smi alone prints has them, and those of MIG's slices";
    if (memmem(head, n, "Self CPU %", 10))
        return "the text is torch.profiler's table of operators; prof.export_chrome_trace(\"trace.json.gz\") writes what echelon reads";
    if (n > 15 && (memmem(head, n, "\nnodes {", 8) || memmem(head, n, "\nnode {", 7) || memcmp(head, "schema_version:", 15) == 0))
        return "the text looks like a protobuf's text form (a Chakra trace's, say); give the binary file that it was made from";
    if (ech_memory_text_is_program((const char *)head, n))
        return "the text looks like a Python program; 'echelon capture --pretend DEVICE -o step -- python FILE' runs it and leaves what echelon reads";
    if (memmem(head, n, "\ndevice: ", 9) && (memmem(head, n, "\ntrace: ", 8) || memmem(head, n, "\nsweep:\n", 8)))
        return "the text looks like an experiment; 'echelon run FILE' runs it, and its key 'trace' names what is read here";
    if (memmem(head, n, "\nmemories:", 10) && memmem(head, n, "\nlinks:", 7))
        return "the text looks like a device, not a trace; give it as --device FILE";
    if (memmem(head, n, "[architecture_presets]", 22))
        return "the text is SCALE-Sim's description of an array, not a topology; give the topology (CSV) and a device";
    if (memmem(head, n, "IFMAP Height Intraline", 22))
        return "the text is SCALE-Sim's layout of the layers' data in its memories, not their sizes; give the topology (CSV) and a device";
    if (n > 7 && memcmp(head, "LayerID", 7) == 0)
        return "the text is a report that SCALE-Sim wrote; give the topology (CSV) that it ran, and a device";
    if (memmem(head, n, "stablehlo.", 10) || memmem(head, n, "mhlo.num_partitions", 19))
        return "the text is StableHLO, " ECH_NOT_COMPILED;
    if (n > 18 &&
        (memcmp(head, "BufferAssignment:", 17) == 0 || memcmp(head, "HloLiveRange (", 14) == 0 || memmem(head, MIN(n, (size_t)256), "Total bytes used: ", 18)))
        return "the text is what XLA writes of a program's memory, which is read beside its program; give the program, whose name begins the same way "
               "(....txt or ....hlo.pb)";
    if (n > 11 && memcmp(head, "; ModuleID ", 11) == 0)
        return "the text is LLVM's, of single kernels; give the program, module_....after_optimizations.txt";
    if (n > 10 && memcmp(head, "digraph G {", 11) == 0)
        return "the text is a picture of a program (Graphviz); give the program that it was made from, module_....after_optimizations.txt";
    if (n > 4 && memcmp(head, "xla_", 4) == 0)
        return "the text is XLA's options; give the program, module_....after_optimizations.txt";
    return NULL;
}

#define FORMATS "; 'echelon list formats' shows what is read"

/* What a text is about that no reader takes, of which @text is all, or its head. NULL: nothing known. Owned by the caller. */
static char *describe_contents(const uint8_t *head, size_t n, const char *text, size_t n_text)
{
    if (memchr(head, 0, n))
        return NULL;
    const char *format = describe_text(head, n);
    if (format)
        return g_strdup(format);
    /* Before messages, which their calls' names look like ("cudaMallocHost"). */
    const char *tool = ech_tool_file_text((const char *)head, n, false);
    if (tool && !ech_memory_text_is_known(text, n_text))
        return g_strdup(tool);
    char *told = ech_memory_text_describe(text, n_text);
    const char *links = told ? NULL : describe_links((const char *)head, n);
    links = told || links ? links : ech_tool_file_text((const char *)head, n, true);
    return told ? told : links ? g_strdup(links) : ech_memory_text_amounts(text, n_text);
}

/* What the bytes look like, for the message when no reader wants them; @ret_known: that says it all. Owned by the caller. */
static char *describe(const uint8_t *head, size_t n, const char *text, size_t n_text, bool *ret_known)
{
    *ret_known = false;
    char *format = describe_magic(head, n);
    if (format != NULL)
        return format;
    char *known = describe_contents(head, n, text, n_text);
    *ret_known = known != NULL;
    if (known != NULL)
        return known;
    if (is_mangled(head, n))
        return g_strdup("the bytes look like " MANGLED);
    if (is_perfetto(head, n))
        return g_strdup("the bytes look like a Perfetto trace, which is for looking at; give the capture that it was made from");
    size_t control = 0;
    for (size_t i = 0; i < n; i++)
        control += head[i] < 9;
    if (control > n / 64)
        return g_strdup_printf("the bytes look binary and begin %02x %02x %02x %02x" FORMATS, head[0], n > 1 ? head[1] : 0, n > 2 ? head[2] : 0,
                               n > 3 ? head[3] : 0);
    g_autofree char *shown = ech_quote((const char *)head, (gssize)n, 40);
    g_autofree char *escaped = g_strescape(shown, NULL);
    return g_strdup_printf("the text begins \"%s\"" FORMATS, escaped);
}

/* What only its name tells, or NULL. Owned by the caller. */
static char *describe_name(const char *path)
{
    static const struct {
        const char *suffix, *what;
    } known[] = {{".nsys-rep", "a report of Nsight Systems; 'nsys export --type sqlite FILE' writes the database that echelon reads"},
                 {"-memory-usage-report.pb", "XLA's memory-usage report as protobuf; the text beside it is read (....txt)"}};
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        if (g_str_has_suffix(path, known[i].suffix))
            return g_strdup(known[i].what);
    }
    return NULL;
}

/* Whether a refusal of memory with its size stands in a text, in words of software that no reader knows. */
static bool refuses_memory(const uint8_t *head, size_t n, const char *text, size_t n_text)
{
    EchPlainSays says;
    bool json = n > 1 && (head[0] == '{' || head[0] == '[') && strchr("\" \n\r{[", head[1]) && !ech_pasted_is_record((const char *)head, n);
    return n && !json && !ech_head_is_document(head, n) && !memchr(head, 0, n) && !describe_text(head, n) && !ech_memory_text_is_known(text, n_text) &&
           ech_plain_says_find(text, n_text, &says) && says.has_asked && says.asked.bytes < UINT64_C(1) << 55;
}

/* The reader of what people paste where it is that, else @best. A log's figures may stand far behind. */
static const EchImportClass *pasted_class(const EchImportClass *best, const uint8_t *head, size_t n, const char *text, size_t n_text)
{
    size_t skipped = n_text > TAIL_SIZE ? n_text - TAIL_SIZE : 0;
    if (!best && !describe_text(head, n) && ech_import_memory_figures.probe((const uint8_t *)text + skipped, n_text - skipped))
        best = &ech_import_memory_figures;
    bool figures = best == &ech_import_memory_figures;
    return (!best || figures) && refuses_memory(head, n, text, n_text) ? &ech_import_out_of_memory : best;
}

static bool watches_memory(const char *head, size_t n)
{
    g_autoptr(EchGpuTools) tools = ech_gpu_tools_new();
    size_t at = ech_head_begin((const uint8_t *)head, n);
    return at < n && head[at] == '{' && ech_gpu_tools_json(tools, head + at, n - at);
}

static const EchImportClass *class_named(const char *format, GError **error)
{
    size_t n_classes;
    const EchImportClass *const *classes = ech_import_classes(&n_classes);
    g_autofree const char **names = g_new0(const char *, n_classes + 1);
    for (size_t i = 0; i < n_classes; i++) {
        if (strcmp(classes[i]->name, format) == 0)
            return classes[i];
        names[i] = classes[i]->name;
    }
    const char *nearest = ech_nearest_name(format, names);
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no format;%s%s%s 'echelon list formats' shows them", format, nearest ? " did you mean '" : "",
                nearest ? nearest : "", nearest ? "'?" : "");
    return NULL;
}

bool ech_import_is_format(const char *format, GError **error)
{
    return class_named(format, error) != NULL;
}

/* Nothing is in it, or nothing to be seen. */
static bool is_empty(const EchSource *source, const uint8_t *head, size_t n, GError **error)
{
    size_t blank = 0;
    while (blank < n && g_ascii_isspace(head[blank]))
        blank++;
    if (blank < n || n == HEAD_SIZE)
        return false;
    const char *path = ech_source_path(source);
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: %s", path,
                n > 0                    ? "only blanks and ends of lines are in it"
                : strcmp(path, "-") == 0 ? "nothing came from standard input"
                                         : "the file is empty");
    return true;
}

/* Of a gzip file that ends in the middle or is damaged, why it could not be unpacked further than its head, in which nothing was known. */
static bool is_cut(EchSource *source, GError **error)
{
    if (begins_gzip(source->raw, source->n_raw)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %zu: gzip data end in the middle (0 bytes unpacked); the file is cut", ech_source_path(source),
                    source->n_raw);
        return true;
    }
    g_autoptr(GError) why = NULL;
    g_autoptr(GBytes) whole = source->cut ? ech_source_bytes(source, 0, &why) : NULL;
    if (!why || whole)
        return false;
    g_propagate_error(error, g_steal_pointer(&why));
    return true;
}

static const EchImportClass *find_class(EchSource *source, const char *format, GError **error)
{
    size_t n;
    const uint8_t *head = ech_source_head(source, &n);
    const EchImportClass *named = format ? class_named(format, error) : NULL;
    if ((format && !named) || (n < 3 && is_cut(source, error)) || is_empty(source, head, n, error))
        return NULL;
    if (named)
        return named;
    size_t n_classes;
    const EchImportClass *const *classes = ech_import_classes(&n_classes);
    const EchImportClass *best = NULL;
    int best_score = 0;
    for (size_t i = 0; i < n_classes; i++) {
        if (best && classes[i] == &ech_import_memory_figures) /* it looks at every line, and is for what is no other format */
            continue;
        int score = classes[i]->probe && n ? classes[i]->probe(head, n) : 0;
        if (score > best_score) {
            best = classes[i];
            best_score = score;
        }
    }
    /* Any object in JSON may be a trace; one with a message is a log's record, what watches memory prints them, too, and how a container ended. */
    if (best_score == 1 && (ech_pasted_is_record((const char *)head, n) || watches_memory((const char *)head, n) || memmem(head, n, "OOMKilled", 9)))
        best = NULL;
    /* A message stands where it was logged: far behind in a long log. */
    bool figures = best == &ech_import_memory_figures;
    g_autoptr(GBytes) all = (!best || figures) && n == HEAD_SIZE && !memchr(head, 0, n) ? ech_source_bytes(source, LOG_SIZE, NULL) : NULL;
    if (all && ech_import_out_of_memory.probe(g_bytes_get_data(all, NULL), g_bytes_get_size(all)))
        best = &ech_import_out_of_memory;
    const char *text = all ? g_bytes_get_data(all, NULL) : (const char *)head;
    size_t n_text = all ? g_bytes_get_size(all) : n;
    best = pasted_class(best, head, n, text, n_text);
    if (!best && is_cut(source, error))
        return NULL;
    if (!best) {
        bool known = false;
        g_autofree char *looks = describe_name(ech_source_path(source));
        if (!looks)
            looks = describe(head, n, text, n_text, &known);
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: %s%s", ech_source_path(source),
                    known ? "" : "no captured format that echelon knows: ", looks);
    }
    return best;
}

bool ech_import_is_pasted(const char *format)
{
    return strcmp(format, ech_import_out_of_memory.name) == 0 || strcmp(format, ech_import_memory_figures.name) == 0;
}

void ech_import_free(EchImport *import)
{
    if (!import)
        return;
    g_clear_pointer(&import->trace, ech_trace_unref);
    g_clear_pointer(&import->program, ech_program_unref);
    g_clear_pointer(&import->resident, ech_trace_unref);
    g_clear_pointer(&import->diag, ech_diag_free);
    g_clear_pointer(&import->records, ech_diag_free);
    g_free(import->refusal);
    g_free(import);
}

static bool is_idle(const EchTrace *trace)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (ech_op_is_work(op) || op->kind == ECH_OP_LOOP)
            return false;
    }
    return true;
}

static EchImport *read_class(EchSource *source, const EchImportClass *class, const EchImportOptions *options, GError **error)
{
    g_autoptr(EchImport) import = g_new0(EchImport, 1);
    import->format = class->name;
    import->diag = ech_diag_new();
    import->records = ech_diag_new();
    GError *failure = NULL;
    if (!class->read(source, options, import, &failure)) {
        size_t n;
        const uint8_t *head = ech_source_head(source, &n);
        /* Where the damage shows first is not its cause. */
        if (g_error_matches(failure, ECH_ERROR, ECH_ERROR_PARSE) && is_mangled(head, n)) {
            char *whole = g_strdup_printf("%s; it looks like " MANGLED, failure->message);
            g_free(failure->message);
            failure->message = whole;
        }
        g_propagate_error(error, failure);
        return NULL;
    }
    g_assert((import->trace != NULL) != (import->program != NULL));
    if (class->when_idle && !import->told_idle && import->trace && is_idle(import->trace))
        ech_diag_remark(import->diag, "%s", class->when_idle);
    return g_steal_pointer(&import);
}

/* With a device memory profile beside it: the profile's buffers are added here. Other second files are the reader's own business. */
static EchImport *read_beside(EchSource *source, const EchImportClass *class, const EchImportOptions *options, GError **error)
{
    if (class->takes_programs && g_file_test(options->beside, G_FILE_TEST_IS_DIR))
        return read_class(source, class, options, error);
    g_autoptr(EchSource) second = ech_source_open(options->beside, error);
    const EchImportClass *second_class = second ? find_class(second, NULL, error) : NULL;
    if (!second_class)
        return NULL;
    if (strcmp(second_class->name, "memory_profile") != 0) {
        if (strcmp(second_class->name, "memory_snapshot") == 0 && (strcmp(class->name, "kineto") == 0 || strcmp(class->name, "pretend") == 0))
            return read_class(source, class, options, error);
        if (class->takes_programs && g_str_has_prefix(second_class->name, "hlo"))
            return read_class(source, class, options, error);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "%s: a %s file cannot be merged with a %s file; expected a memory_snapshot beside a kineto or a pretend file, XLA's programs (a folder, or "
                    "one) beside what cupti, nsys or rocprofv3 recorded, or a memory_profile beside anything",
                    options->beside, second_class->name, class->name);
        return NULL;
    }
    EchImportOptions alone = *options;
    alone.beside = NULL;
    g_autoptr(EchImport) profile = read_class(second, second_class, &alone, error);
    g_autoptr(EchImport) import = profile ? read_class(source, class, &alone, error) : NULL;
    if (!import)
        return NULL;
    if (import->program) {
        import->resident = g_steal_pointer(&profile->trace);
    } else {
        EchTrace *merged = ech_import_add_resident(import->trace, profile->trace, import->diag, error);
        if (!merged)
            return NULL;
        ech_trace_unref(import->trace);
        import->trace = merged;
    }
    return g_steal_pointer(&import);
}

/* The file in a page that PyTorch's memory_viz makes ("trace_plot"): its first one, in base64. NULL where it is no such page. Owned by the caller. */
static guchar *file_of_page(EchSource *source, gsize *ret_n)
{
    static const char mark[] = "\"base64\": \"";
    size_t head_size, at;
    const uint8_t *head = ech_source_head(source, &head_size);
    at = ech_head_begin(head, head_size);
    if (at == head_size || head[at] != '<' || !ech_head_has(head, head_size, "add_local_files") || !ech_head_has(head, head_size, mark))
        return NULL;
    g_autoptr(GBytes) page = ech_source_bytes(source, 0, NULL);
    gsize n;
    const char *data = page ? g_bytes_get_data(page, &n) : NULL, *text = data ? memmem(data, n, mark, strlen(mark)) : NULL;
    text = text ? text + strlen(mark) : NULL;
    const char *end = text ? memchr(text, '"', n - (gsize)(text - data)) : NULL;
    if (!end)
        return NULL;
    gsize length = (gsize)(end - text);
    guchar *file = g_malloc(length / 4 * 3 + 3);
    int state = 0;
    guint save = 0;
    *ret_n = g_base64_decode_step(text, length, file, &state, &save);
    return file;
}

/* What a terminal has broken of a text that may have been pasted, joined; NULL where it has broken nothing. @sure: see pasted.h. Owned by the caller. */
static char *joined_text(EchSource *source, bool sure, gsize *ret_n)
{
    g_autoptr(GBytes) all = ech_source_bytes(source, TAIL_SIZE, NULL);
    gsize n = 0;
    const char *text = all ? g_bytes_get_data(all, &n) : NULL;
    return n && !memchr(text, 0, n) ? ech_pasted_joined(text, n, sure, ret_n) : NULL;
}

EchImport *ech_import_source(EchSource *source, const char *format, const EchImportOptions *options, GError **error)
{
    static const EchImportOptions defaults = {0};
    gsize n = 0;
    g_autofree guchar *file = file_of_page(source, &n);
    g_autoptr(EchSource) inside = file ? ech_source_new_memory(file, n, ech_source_path(source)) : NULL;
    source = inside ? inside : source;
    GError *failure = NULL;
    const EchImportClass *class = find_class(source, format, &failure);
    /* What people paste a terminal may have broken, and with it what tells that it is that. */
    bool pasted = !format && (!class || ech_import_is_pasted(class->name));
    g_autofree char *joined = pasted ? joined_text(source, class != NULL, &n) : NULL;
    g_autoptr(EchSource) whole = joined ? ech_source_new_memory((const uint8_t *)joined, n, ech_source_path(source)) : NULL;
    const EchImportClass *of_whole = whole ? find_class(whole, NULL, NULL) : NULL;
    if (of_whole && ech_import_is_pasted(of_whole->name)) {
        g_clear_error(&failure);
        source = whole;
        class = of_whole;
    }
    if (!class) {
        g_propagate_error(error, failure);
        return NULL;
    }
    options = options ? options : &defaults;
    return options->beside ? read_beside(source, class, options, error) : read_class(source, class, options, error);
}

EchImport *ech_import_file(const char *path, const char *format, const EchImportOptions *options, GError **error)
{
    unsigned like = 0;
    g_autofree char *file = ech_import_file_in(path, &like, error);
    g_autoptr(EchSource) source = file ? ech_source_open(file, error) : NULL;
    EchImport *import = source ? ech_import_source(source, format, options, error) : NULL;
    if (import && like > 1) {
        g_autofree char *name = g_path_get_basename(file);
        ech_diag_remark(import->diag, "of %u such files in the folder the largest is taken, %s; ranks of one program are given one by one, to run together",
                        like, name);
    }
    return import;
}
