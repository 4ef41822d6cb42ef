/* Tables of source locations: xla/service/hlo.proto StackFrameIndexProto, and their form in HLO text. */
#include "sim/import/hlo_source.h"

#include "sim/base/hash.h"

enum { MOST_FRAMES = 64, MOST_NAME = 4096, MOST_TEXT = 16 << 20 };

typedef struct {
    uint64_t file, function, line;
} Location;

typedef struct {
    uint64_t location, parent;
    const char *text; /* The builder's, once asked for. */
} Frame;

/* A line of a file, as instructions name it; its text is the builder's, or NULL. */
typedef struct {
    const char *file, *text;
    size_t n;
    uint64_t line;
} Line;

struct EchHloFrames {
    GPtrArray *files, *functions; /* Owned texts. */
    GArray *locations, *frames;   /* Location, Frame */
    GHashTable *lines;            /* A set of Line, owned. */
    size_t written;
};

static guint hash_line(gconstpointer data)
{
    const Line *line = data;
    return (guint)ech_hash_word(ech_hash_bytes(line->file, line->n) ^ line->line, ech_hash_secret());
}

static gboolean equal_lines(gconstpointer a, gconstpointer b)
{
    const Line *x = a, *y = b;
    return x->line == y->line && x->n == y->n && memcmp(x->file, y->file, x->n) == 0;
}

EchHloFrames *ech_hlo_frames_new(void)
{
    EchHloFrames *frames = g_new0(EchHloFrames, 1);
    frames->files = g_ptr_array_new_with_free_func(g_free);
    frames->functions = g_ptr_array_new_with_free_func(g_free);
    frames->locations = g_array_new(FALSE, FALSE, sizeof(Location));
    frames->frames = g_array_new(FALSE, FALSE, sizeof(Frame));
    frames->lines = g_hash_table_new_full(hash_line, equal_lines, g_free, NULL);
    return frames;
}

void ech_hlo_frames_free(EchHloFrames *frames)
{
    if (!frames)
        return;
    g_ptr_array_unref(frames->files);
    g_ptr_array_unref(frames->functions);
    g_array_unref(frames->locations);
    g_array_unref(frames->frames);
    g_hash_table_unref(frames->lines);
    g_free(frames);
}

/* A name on one line. */
static char *one_line(const char *text, size_t n)
{
    g_autofree char *copy = g_strndup(text, MIN(n, (size_t)MOST_NAME));
    char *valid = g_utf8_make_valid(copy, -1);
    for (char *at = valid; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
    return valid;
}

void ech_hlo_frames_file(EchHloFrames *frames, const char *text, size_t n)
{
    g_ptr_array_add(frames->files, one_line(text, n));
}

void ech_hlo_frames_function(EchHloFrames *frames, const char *text, size_t n)
{
    g_ptr_array_add(frames->functions, one_line(text, n));
}

void ech_hlo_frames_location(EchHloFrames *frames, uint64_t file, uint64_t function, uint64_t line)
{
    const Location location = {file, function, line};
    g_array_append_val(frames->locations, location);
}

void ech_hlo_frames_frame(EchHloFrames *frames, uint64_t location, uint64_t parent)
{
    const Frame frame = {location, parent, NULL};
    g_array_append_val(frames->frames, frame);
}

static const char *kept(EchHloFrames *frames, EchProgramBuilder *builder, const GString *text)
{
    if (text->len == 0 || frames->written + text->len > MOST_TEXT)
        return NULL;
    frames->written += text->len;
    return ech_program_builder_string(builder, text->str, (gssize)text->len);
}

const char *ech_hlo_frames_text(EchHloFrames *frames, EchProgramBuilder *builder, uint64_t id)
{
    if (id == 0 || id > frames->frames->len)
        return NULL;
    Frame *asked = &g_array_index(frames->frames, Frame, id - 1);
    if (asked->text)
        return asked->text;
    g_autoptr(GString) text = g_string_new(NULL);
    uint64_t seen[MOST_FRAMES];
    unsigned n = 0;
    /* Differentiation runs the same lines again inside themselves: each is said once. A cycle ends with the count. */
    for (unsigned depth = 0; id != 0 && id <= frames->frames->len && depth < MOST_FRAMES; depth++) {
        const Frame *frame = &g_array_index(frames->frames, Frame, id - 1);
        id = frame->parent;
        bool again = frame->location == 0 || frame->location > frames->locations->len;
        for (unsigned k = 0; k < n && !again; k++)
            again = seen[k] == frame->location;
        if (again)
            continue;
        seen[n++] = frame->location;
        const Location *location = &g_array_index(frames->locations, Location, frame->location - 1);
        if (location->file == 0 || location->file > frames->files->len)
            continue;
        bool named = location->function > 0 && location->function <= frames->functions->len;
        g_string_append_printf(text, "%s%s:%" G_GUINT64_FORMAT ":%s", text->len ? "\n" : "", (const char *)frames->files->pdata[location->file - 1],
                               location->line, named ? (const char *)frames->functions->pdata[location->function - 1] : "");
    }
    asked->text = kept(frames, builder, text);
    return asked->text;
}

const char *ech_hlo_line_text(EchHloFrames *frames, EchProgramBuilder *builder, const char *file, size_t n, uint64_t line)
{
    /* Where TensorFlow makes each of its operators says nothing of any; their names say more. */
    static const char any_operator[] = "tensorflow/python/framework/ops.py";
    if (n == 0 || (n >= strlen(any_operator) && memcmp(file + n - strlen(any_operator), any_operator, strlen(any_operator)) == 0))
        return NULL;
    Line asked = {.file = file, .n = n, .line = line};
    const Line *known = g_hash_table_lookup(frames->lines, &asked);
    if (known)
        return known->text;
    g_autofree char *name = one_line(file, n);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s:%" G_GUINT64_FORMAT ":", name, line);
    asked.text = kept(frames, builder, text);
    g_hash_table_add(frames->lines, g_memdup2(&asked, sizeof asked));
    return asked.text;
}
