#include "models/layout/layout.h"

#include "sim/base/error.h"

#include <string.h>

typedef struct {
    const char *begin, *at, *end;
} Cursor;

static bool fail(const Cursor *cursor, GError **error, const char *expected)
{
    size_t left = (size_t)(cursor->end - cursor->at);
    g_autofree char *rest = g_strndup(cursor->at, MIN(left, 24));
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "shape: at byte %zu: '%s': expected %s", (size_t)(cursor->at - cursor->begin), rest, expected);
    return false;
}

static bool peek(const Cursor *cursor, char c)
{
    return cursor->at < cursor->end && *cursor->at == c;
}

static bool take(Cursor *cursor, char c)
{
    if (!peek(cursor, c))
        return false;
    cursor->at++;
    return true;
}

static bool take_text(Cursor *cursor, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(cursor->end - cursor->at) < n || memcmp(cursor->at, text, n) != 0)
        return false;
    cursor->at += n;
    return true;
}

static bool take_number(Cursor *cursor, uint64_t *ret)
{
    uint64_t value = 0;
    const char *at = cursor->at;
    for (; at < cursor->end && *at >= '0' && *at <= '9'; at++) {
        if (value > ((uint64_t)INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (at == cursor->at)
        return false;
    cursor->at = at;
    *ret = value;
    return true;
}

/* Number formats of XLA's shape grammar; storage is at least a byte unless the layout packs. */
static const struct {
    const char *name;
    int bits;
} formats[] = {
    {"pred", 8},       {"bf16", 16},  {"f8e3m4", 8},     {"f8e4m3", 8},    {"f8e4m3fn", 8}, {"f8e4m3b11fnuz", 8},
    {"f8e4m3fnuz", 8}, {"f8e5m2", 8}, {"f8e5m2fnuz", 8}, {"f8e8m0fnu", 8}, {"f4e2m1fn", 4}, {"f6e2m3fn", 6},
    {"f6e3m2fn", 6},   {"token", 0},  {"opaque", 0},     {"tuple", 0},     {"b16", 16},     {"tf32", 32},
    {"s1", 1},         {"s2", 2},     {"s4", 4},         {"s8", 8},        {"s16", 16},     {"s32", 32},
    {"s64", 64},       {"u1", 1},     {"u2", 2},         {"u4", 4},        {"u8", 8},       {"u16", 16},
    {"u32", 32},       {"u64", 64},   {"f16", 16},       {"f32", 32},      {"f64", 64},     {"c64", 64},
    {"c128", 128},
};

int ech_layout_dtype_bits(const char *name, size_t length)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        if (strlen(formats[i].name) == length && memcmp(formats[i].name, name, length) == 0)
            return formats[i].bits;
    }
    return -1;
}

const char *ech_layout_dtype_of(const char *name, size_t length)
{
    static const char *const types[][2] = {{"float32", "f32"},
                                           {"bfloat16", "bf16"},
                                           {"float16", "f16"},
                                           {"float64", "f64"},
                                           {"bool", "pred"},
                                           {"int4", "s4"},
                                           {"int8", "s8"},
                                           {"int16", "s16"},
                                           {"int32", "s32"},
                                           {"int64", "s64"},
                                           {"uint4", "u4"},
                                           {"uint8", "u8"},
                                           {"uint16", "u16"},
                                           {"uint32", "u32"},
                                           {"uint64", "u64"},
                                           {"complex64", "c64"},
                                           {"complex128", "c128"},
                                           {"float8_e4m3", "f8e4m3"},
                                           {"float8_e4m3fn", "f8e4m3fn"},
                                           {"float8_e4m3fnuz", "f8e4m3fnuz"},
                                           {"float8_e4m3b11fnuz", "f8e4m3b11fnuz"},
                                           {"float8_e5m2", "f8e5m2"},
                                           {"float8_e5m2fnuz", "f8e5m2fnuz"},
                                           {"float8_e8m0fnu", "f8e8m0fnu"},
                                           {"float4_e2m1fn", "f4e2m1fn"}};
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
        if (strlen(types[i][0]) == length && memcmp(types[i][0], name, length) == 0)
            return types[i][1];
    }
    return NULL;
}

const char *ech_layout_dtype_meant(const char *name, size_t length)
{
    static const char *const meant[][2] = {{"half", "f16"},
                                           {"fp16", "f16"},
                                           {"float", "f32"},
                                           {"fp32", "f32"},
                                           {"single", "f32"},
                                           {"double", "f64"},
                                           {"fp64", "f64"},
                                           {"bfloat", "bf16"},
                                           {"fp8", "f8e4m3fn or f8e5m2"},
                                           {"f8", "f8e4m3fn or f8e5m2"},
                                           {"float8", "f8e4m3fn or f8e5m2"},
                                           {"e4m3", "f8e4m3fn"},
                                           {"fp8_e4m3", "f8e4m3fn"},
                                           {"fp8_e4m3fn", "f8e4m3fn"},
                                           {"e5m2", "f8e5m2"},
                                           {"fp8_e5m2", "f8e5m2"},
                                           {"fp6", "f6e2m3fn or f6e3m2fn"},
                                           {"float6", "f6e2m3fn or f6e3m2fn"},
                                           {"fp4", "f4e2m1fn"},
                                           {"f4", "f4e2m1fn"},
                                           {"float4", "f4e2m1fn"},
                                           {"nvfp4", "f4e2m1fn"},
                                           {"mxfp4", "f4e2m1fn"},
                                           {"nf4", "u4"},
                                           {"int", "s32"},
                                           {"short", "s16"},
                                           {"long", "s64"},
                                           {"char", "s8"},
                                           {"byte", "u8"},
                                           {"i1", "pred"},
                                           {"i4", "s4"},
                                           {"i8", "s8"},
                                           {"i16", "s16"},
                                           {"i32", "s32"},
                                           {"i64", "s64"},
                                           {"ui4", "u4"},
                                           {"ui8", "u8"},
                                           {"ui16", "u16"},
                                           {"ui32", "u32"},
                                           {"ui64", "u64"}};
    for (size_t i = 0; i < G_N_ELEMENTS(meant); i++) {
        if (strlen(meant[i][0]) == length && g_ascii_strncasecmp(meant[i][0], name, length) == 0)
            return meant[i][1];
    }
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        if (strlen(formats[i].name) == length && g_ascii_strncasecmp(formats[i].name, name, length) == 0)
            return formats[i].name;
    }
    return ech_layout_dtype_of(name, length);
}

/* Where what stands at @begin, up to the bracket, is called so elsewhere: in C, in MLIR, in PyTorch ("torch.half"). */
static bool refuse_dtype(Cursor *cursor, GError **error)
{
    const char *begin = cursor->at, *name = begin, *end = begin;
    for (; end < cursor->end && (g_ascii_isalnum(*end) || *end == '_' || *end == '.'); end++) {
        if (*end == '.')
            name = end + 1;
    }
    const char *meant = ech_layout_dtype_meant(name, (size_t)(end - name));
    g_autofree char *expected = meant ? g_strdup_printf("an element type by XLA's name, here %s", meant) : NULL;
    return fail(cursor, error, expected ? expected : "an element type such as f32, bf16 or pred");
}

static bool parse_dtype(Cursor *cursor, EchLayout *ret, GError **error)
{
    const char *begin = cursor->at;
    while (cursor->at < cursor->end && (g_ascii_isalnum(*cursor->at) || *cursor->at == '_'))
        cursor->at++;
    size_t n = (size_t)(cursor->at - begin);
    const char *known = ech_layout_dtype_of(begin, n), *name = known ? known : begin;
    n = known ? strlen(known) : n;
    int bits = n > 0 && n < sizeof ret->dtype ? ech_layout_dtype_bits(name, n) : -1;
    if (bits < 0) {
        cursor->at = begin;
        return refuse_dtype(cursor, error);
    }
    memcpy(ret->dtype, name, n);
    ret->bits = bits > 0 && bits < 8 ? 8 : (uint16_t)bits;
    return true;
}

static bool parse_dims(Cursor *cursor, EchLayout *ret, GError **error)
{
    if (!take(cursor, '['))
        return fail(cursor, error, "'['");
    while (!take(cursor, ']')) {
        if (ret->rank > 0 && !take(cursor, ','))
            return fail(cursor, error, "',' or ']'");
        if (ret->rank == ECH_LAYOUT_MAX_RANK)
            return fail(cursor, error, "at most 32 dimensions");
        if (take_text(cursor, "<="))
            ret->dynamic |= UINT32_C(1) << ret->rank;
        if (!take_number(cursor, &ret->dims[ret->rank]))
            return fail(cursor, error, "a dimension");
        ret->rank++;
    }
    for (uint8_t i = 0; i < ret->rank; i++)
        ret->order[i] = (uint8_t)(ret->rank - 1 - i);
    return true;
}

static bool parse_tile(Cursor *cursor, EchLayout *ret, GError **error)
{
    if (ret->n_tiles == ECH_LAYOUT_MAX_TILES)
        return fail(cursor, error, "at most 6 tiles");
    EchTile tile = {0};
    do {
        uint64_t size;
        if (tile.rank == G_N_ELEMENTS(tile.dims))
            return fail(cursor, error, "a tile of at most 8 dimensions");
        if (take(cursor, '*'))
            tile.dims[tile.rank++] = ECH_LAYOUT_COMBINE;
        else if (take_number(cursor, &size) && size > 0)
            tile.dims[tile.rank++] = (int64_t)size;
        else
            return fail(cursor, error, "a tile size of at least 1");
    } while (take(cursor, ','));
    if (!take(cursor, ')'))
        return fail(cursor, error, "',' or ')'");
    ret->tiles[ret->n_tiles++] = tile;
    return true;
}

static bool parse_split(Cursor *cursor, EchLayout *ret, GError **error)
{
    uint64_t dim;
    EchSplit split = {0};
    if (ret->n_splits == ECH_LAYOUT_MAX_SPLITS || !take_number(cursor, &dim) || dim >= ret->rank || !take(cursor, ':'))
        return fail(cursor, error, "a split (dimension:index,...)");
    split.dim = (uint8_t)dim;
    uint64_t length = ret->dims[ret->order[ret->rank - 1 - dim]];
    do {
        if (split.n == ECH_LAYOUT_MAX_SPLITS || !take_number(cursor, &split.at[split.n]))
            return fail(cursor, error, "a split index");
        uint64_t previous = split.n > 0 ? split.at[split.n - 1] : 0;
        if (split.at[split.n] < previous || split.at[split.n] > length)
            return fail(cursor, error, "ascending split indices inside the dimension");
        split.n++;
    } while (take(cursor, ','));
    if (!take(cursor, ')'))
        return fail(cursor, error, "',' or ')'");
    ret->splits[ret->n_splits++] = split;
    return true;
}

static bool parse_bracketed_number(Cursor *cursor, uint64_t max, uint64_t *ret, GError **error)
{
    if (!take_number(cursor, ret) || *ret > max || !take(cursor, ')'))
        return fail(cursor, error, "a number and ')'");
    return true;
}

/* What echelon has no use for: dimension level types D(), index and pointer types #() *(), physical shape P(). */
static bool skip_bracketed(Cursor *cursor, GError **error)
{
    unsigned depth = 1;
    while (cursor->at < cursor->end && depth > 0) {
        char c = *cursor->at++;
        depth += c == '(';
        depth -= c == ')';
    }
    return depth == 0 || fail(cursor, error, "')'");
}

static bool parse_properties(Cursor *cursor, EchLayout *ret, GError **error)
{
    uint64_t value;
    while (!peek(cursor, '}')) {
        if (take_text(cursor, "T(")) {
            do {
                if (!parse_tile(cursor, ret, error))
                    return false;
            } while (take(cursor, '('));
        } else if (take_text(cursor, "SC(")) {
            do {
                if (!parse_split(cursor, ret, error))
                    return false;
            } while (take(cursor, '('));
        } else if (take_text(cursor, "S(")) {
            if (!parse_bracketed_number(cursor, INT16_MAX, &value, error))
                return false;
            ret->space = (int32_t)value;
        } else if (take_text(cursor, "E(")) {
            if (!parse_bracketed_number(cursor, 1024, &value, error))
                return false;
            ret->element_bits = (uint16_t)value;
        } else if (take_text(cursor, "L(")) {
            if (!parse_bracketed_number(cursor, INT32_MAX, &ret->tail_alignment, error))
                return false;
            ret->tail_alignment = MAX(ret->tail_alignment, 1);
        } else if (take_text(cursor, "M(")) {
            if (!parse_bracketed_number(cursor, INT32_MAX, &ret->dynamic_prefix, error))
                return false;
        } else if (take_text(cursor, "D(") || take_text(cursor, "#(") || take_text(cursor, "*(") || take_text(cursor, "P(")) {
            if (!skip_bracketed(cursor, error))
                return false;
        } else
            return fail(cursor, error, "a layout property: T, S, E, L, M, SC, D, P, # or *");
    }
    return true;
}

static bool parse_layout(Cursor *cursor, EchLayout *ret, GError **error)
{
    uint32_t seen = 0;
    uint8_t n = 0;
    ret->has_layout = true;
    while (!peek(cursor, '}') && !peek(cursor, ':')) {
        uint64_t dim;
        if (n > 0 && !take(cursor, ','))
            return fail(cursor, error, "',', ':' or '}'");
        if (!take_number(cursor, &dim) || dim >= ret->rank || (seen & (UINT32_C(1) << dim)))
            return fail(cursor, error, "each dimension's number once, minor to major");
        seen |= UINT32_C(1) << dim;
        ret->order[n++] = (uint8_t)dim;
    }
    if (n != ret->rank)
        return fail(cursor, error, "as many dimensions in the layout as in the shape");
    if (take(cursor, ':') && !parse_properties(cursor, ret, error))
        return false;
    return take(cursor, '}') || fail(cursor, error, "'}'");
}

bool ech_layout_parse(const char *text, size_t n, EchLayout *ret, size_t *ret_used, GError **error)
{
    Cursor cursor = {text, text, text + n};
    EchLayout layout = {.tail_alignment = 1};
    if (!parse_dtype(&cursor, &layout, error) || !parse_dims(&cursor, &layout, error))
        return false;
    if (take(&cursor, '{') && !parse_layout(&cursor, &layout, error))
        return false;
    if (!ret_used && cursor.at != cursor.end)
        return fail(&cursor, error, "the end of the shape");
    if (ret_used)
        *ret_used = (size_t)(cursor.at - text);
    *ret = layout;
    return true;
}

/* Layouts are printed by the thousand, to tell them apart: printf took most of that. */
static void append_number(GString *text, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    g_string_append_len(text, digits + at, (gssize)(sizeof digits - at));
}

static void append_properties(const EchLayout *layout, GString *text)
{
    if (layout->n_tiles > 0)
        g_string_append_c(text, 'T');
    for (uint8_t i = 0; i < layout->n_tiles; i++) {
        for (uint8_t j = 0; j < layout->tiles[i].rank; j++) {
            g_string_append_c(text, j == 0 ? '(' : ',');
            if (layout->tiles[i].dims[j] == ECH_LAYOUT_COMBINE)
                g_string_append_c(text, '*');
            else
                append_number(text, (uint64_t)layout->tiles[i].dims[j]);
        }
        g_string_append_c(text, ')');
    }
    if (layout->tail_alignment > 1)
        g_string_append_printf(text, "L(%" G_GUINT64_FORMAT ")", layout->tail_alignment);
    if (layout->element_bits != 0)
        g_string_append_printf(text, "E(%u)", layout->element_bits);
    if (layout->space != 0)
        g_string_append_printf(text, "S(%d)", layout->space);
    if (layout->n_splits > 0)
        g_string_append(text, "SC");
    for (uint8_t i = 0; i < layout->n_splits; i++) {
        g_string_append_printf(text, "(%u", layout->splits[i].dim);
        for (uint8_t j = 0; j < layout->splits[i].n; j++)
            g_string_append_printf(text, "%c%" G_GUINT64_FORMAT, j == 0 ? ':' : ',', layout->splits[i].at[j]);
        g_string_append_c(text, ')');
    }
    if (layout->dynamic_prefix != 0)
        g_string_append_printf(text, "M(%" G_GUINT64_FORMAT ")", layout->dynamic_prefix);
}

void ech_layout_append(const EchLayout *layout, GString *text)
{
    g_string_append(text, layout->dtype);
    g_string_append_c(text, '[');
    for (uint8_t i = 0; i < layout->rank; i++) {
        if (i > 0)
            g_string_append_c(text, ',');
        if (layout->dynamic & (UINT32_C(1) << i))
            g_string_append(text, "<=");
        append_number(text, layout->dims[i]);
    }
    g_string_append_c(text, ']');
    if (!layout->has_layout)
        return;
    g_string_append_c(text, '{');
    for (uint8_t i = 0; i < layout->rank; i++) {
        if (i > 0)
            g_string_append_c(text, ',');
        append_number(text, layout->order[i]);
    }
    size_t before = text->len;
    append_properties(layout, text);
    if (layout->rank == 0 && text->len == before) { /* as XLA prints a scalar */
        g_string_truncate(text, before - 1);
        return;
    }
    if (text->len > before)
        g_string_insert_c(text, (gssize)before, ':');
    g_string_append_c(text, '}');
}

char *ech_layout_print(const EchLayout *layout)
{
    GString *text = g_string_new(NULL);
    ech_layout_append(layout, text);
    return g_string_free(text, FALSE);
}

uint64_t ech_layout_elements(const EchLayout *layout)
{
    uint64_t n = 1;
    for (uint8_t i = 0; i < layout->rank; i++) {
        if (layout->dims[i] == 0)
            return 0;
        n = ech_bytes_mul(n, layout->dims[i]);
    }
    return n;
}

unsigned ech_layout_element_bits(const EchLayout *layout)
{
    return layout->element_bits != 0 ? layout->element_bits : layout->bits;
}

static EchBytes bytes_of(uint64_t elements, unsigned bits)
{
    return ech_bytes_add(ech_bytes_mul(elements / 8, bits), (elements % 8 * bits + 7) / 8);
}

EchBytes ech_layout_dense_bytes(const EchLayout *layout)
{
    return bytes_of(ech_layout_elements(layout), MIN(ech_layout_element_bits(layout), layout->bits));
}

/* A split dimension counts as its largest piece. */
static uint64_t largest_piece(const EchLayout *layout, uint8_t dim)
{
    for (uint8_t i = 0; i < layout->n_splits; i++) {
        const EchSplit *split = &layout->splits[i];
        if (layout->order[layout->rank - 1 - split->dim] != dim)
            continue;
        uint64_t largest = 0, previous = 0;
        for (uint8_t j = 0; j <= split->n; j++) {
            uint64_t edge = j < split->n ? split->at[j] : layout->dims[dim];
            largest = MAX(largest, edge - previous);
            previous = edge;
        }
        return largest;
    }
    return layout->dims[dim];
}

EchBytes ech_layout_padded_bytes(const EchLayout *layout, EchLayoutRules rules)
{
    bool flags = rules == ECH_LAYOUT_TPU && layout->space == 2; /* semaphores lie one after the other, whatever their tiles say */
    const EchTile *tile = layout->n_tiles > 0 && !flags ? &layout->tiles[0] : NULL;
    uint64_t n = 1, folded = 1;
    uint8_t tile_rank = tile ? tile->rank : 0;
    /* The first tile pads its dimensions, counted from the minor end; the tiles after it never add padding (ArraySize). A combined
     * dimension multiplies into the next more minor one. */
    uint8_t dim = 0;
    for (uint8_t i = 0; i < tile_rank; i++) {
        int64_t size = tile->dims[tile_rank - 1 - i];
        uint64_t length = dim < layout->rank ? largest_piece(layout, layout->order[dim]) : 1;
        dim++;
        if (size == ECH_LAYOUT_COMBINE) {
            folded = ech_bytes_mul(folded, length);
            continue;
        }
        /* A run of '*' more major than this one belongs to this dimension. */
        for (uint8_t next = (uint8_t)(i + 1); next < tile_rank && tile->dims[tile_rank - 1 - next] == ECH_LAYOUT_COMBINE; next++, i++) {
            length = ech_bytes_mul(length, dim < layout->rank ? largest_piece(layout, layout->order[dim]) : 1);
            dim++;
        }
        n = ech_bytes_mul(n, ech_round_up(length, (EchBytes)size));
    }
    n = ech_bytes_mul(n, folded);
    for (; dim < layout->rank; dim++)
        n = ech_bytes_mul(n, largest_piece(layout, layout->order[dim]));
    if (!tile && rules == ECH_LAYOUT_TPU && layout->space != 2 && layout->space < 7)
        n = ech_round_up(n, 1024);
    if (layout->tail_alignment > 1)
        n = ech_round_up(n, layout->tail_alignment);
    return ech_bytes_add(bytes_of(n, ech_layout_element_bits(layout)), layout->dynamic_prefix);
}

void ech_layout_choose_tiles(EchLayout *layout, unsigned generation)
{
    /* Source: layouts.md's xla_tile, checked on libtpu 0.0.51. Before v4 narrow types are stored as bytes and the smallest tile has two rows. */
    unsigned bits = layout->element_bits != 0 ? layout->element_bits : layout->bits;
    if (generation < 4)
        bits = MAX(bits, 8);
    if (bits == 0 || bits > 32)
        bits = 32;
    int64_t packing = 32 / (int64_t)bits;
    int64_t least = generation < 4 ? 2 : 1;
    layout->n_tiles = 0;
    layout->has_layout = true;
    EchTile first = {0};
    if (layout->rank < 2) {
        int64_t size = 128 * packing * least;
        if (layout->rank == 1) {
            while (size < 1024 && (uint64_t)size < layout->dims[0])
                size *= 2;
        }
        first.rank = 1;
        first.dims[0] = MIN(size, 1024);
        layout->tiles[layout->n_tiles++] = first;
        if (packing > 1 && layout->rank == 1) {
            layout->tiles[layout->n_tiles++] = (EchTile){.rank = 1, .dims = {128}};
            layout->tiles[layout->n_tiles++] = (EchTile){.rank = 2, .dims = {packing, 1}};
        }
        return;
    }
    uint64_t rows = layout->dims[layout->order[1]];
    int64_t large = bits == 4 ? 64 : bits == 8 ? 32 : 0;
    int64_t size = packing * least;
    if (generation >= 4 && large > 0 && rows % (uint64_t)large == 0)
        size = large;
    else {
        while (size < 8 && (uint64_t)size < rows)
            size *= 2;
    }
    first.rank = 2;
    first.dims[0] = size;
    first.dims[1] = 128;
    layout->tiles[layout->n_tiles++] = first;
    if (packing > 1)
        layout->tiles[layout->n_tiles++] = (EchTile){.rank = 2, .dims = {packing, 1}};
}

EchBytes ech_layout_tuple_bytes(uint64_t members, EchBytes granule)
{
    return ech_round_up(ech_bytes_mul(members, 4), MAX(granule, 1));
}
