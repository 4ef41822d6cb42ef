/** @file layout.h
 * Tiled array layouts in XLA's text grammar: parsing, printing, and the bytes an array takes once padded.
 *
 * One array shape only (tuples belong to the program). Knows no device: a TPU's rules differ from dense ones by EchLayoutRules, and the
 * choice of a tile by the chip's generation. Sources: XLA `docs/tiled_layout.md`, `xla/shape_util.cc` (ArraySize), and the sizes in
 * buffer assignments of libtpu 0.0.51 for TPU v2 to v7.
 */
#pragma once
#include "sim/base/units.h"

#define ECH_LAYOUT_MAX_RANK 32       /**< Longest list of dimensions taken; longer shapes are refused. */
#define ECH_LAYOUT_MAX_TILES 6       /**< Most tiles of one layout. */
#define ECH_LAYOUT_MAX_SPLITS 4      /**< Most split dimensions, and most cuts in each. */
#define ECH_LAYOUT_COMBINE INT64_MIN /**< The tile dimension '*': folded into the next more minor one. */

/** One tile "(8,128)": sizes from major to minor. */
typedef struct {
    uint8_t rank;    /**< 1 to 8. */
    int64_t dims[8]; /**< >= 1, or ECH_LAYOUT_COMBINE. */
} EchTile;

/** A dimension cut over cores: "SC(0:504)" cuts the most major dimension before index 504. */
typedef struct {
    uint8_t dim; /**< Counted from the most major in memory, whatever its logical number. */
    uint8_t n;
    uint64_t at[ECH_LAYOUT_MAX_SPLITS]; /**< Ascending indices inside the dimension. */
} EchSplit;

/** One array's element type, dimensions and layout, as "f32[3,5]{1,0:T(8,128)(2,1)S(1)}" says them. */
typedef struct {
    char dtype[16];        /**< "f32", "bf16", "pred", "token"...: XLA's names. */
    uint16_t bits;         /**< Bits of one element as stored where nothing else is said: pred 8, s4 8 (one byte each), token and opaque 0. */
    uint16_t element_bits; /**< E(n): packed width; 0 where not given. */
    uint8_t rank;
    bool has_layout;                    /**< "{...}" was written. */
    uint64_t dims[ECH_LAYOUT_MAX_RANK]; /**< Logical sizes, major first as written; bounds for dynamic dimensions. */
    uint32_t dynamic;                   /**< Bit i: dimension i was written "<=n". */
    uint8_t order[ECH_LAYOUT_MAX_RANK]; /**< Minor to major; row-major where no layout is written. */
    uint8_t n_tiles, n_splits;
    EchTile tiles[ECH_LAYOUT_MAX_TILES];
    EchSplit splits[ECH_LAYOUT_MAX_SPLITS];
    uint64_t tail_alignment; /**< L(n): elements; 1 where not given. */
    uint64_t dynamic_prefix; /**< M(n): bytes before the data. */
    int32_t space;           /**< S(n): memory space number; 0 where not given. */
} EchLayout;

/** How untiled arrays are stored. */
typedef enum {
    ECH_LAYOUT_DENSE, /**< GPU, host: no padding without a tile. */
    ECH_LAYOUT_TPU,   /**< A value without a tile takes whole 8x128 registers (1024 elements), except in spaces 2 and 7 and above. */
} EchLayoutRules;

/** Parses one array shape at @text (at most @n bytes), its type by XLA's name or by NumPy's ("float32[3,5]"); *ret_used is the number of bytes taken (NULL: the
 * whole text must be taken). ECH_ERROR_PARSE says what was expected and where. */
bool ech_layout_parse(const char *text, size_t n, EchLayout *ret, size_t *ret_used, GError **error);
/** The text of a shape: parse(print(x)) == x. Owned by the caller. */
char *ech_layout_print(const EchLayout *layout) G_GNUC_WARN_UNUSED_RESULT;
void ech_layout_append(const EchLayout *layout, GString *text);
/** Number of elements, saturating. */
uint64_t ech_layout_elements(const EchLayout *layout);
/** Bytes without padding: elements x width, the packed one where E(n) is narrower than the type; rounded up to a byte. Elements that E(n) widens (a TPU's pred
 * in 32 bits) are padded ones, as XLA counts too. */
EchBytes ech_layout_dense_bytes(const EchLayout *layout);
/** Bytes with padding, exactly as the compiler counts them. */
EchBytes ech_layout_padded_bytes(const EchLayout *layout, EchLayoutRules rules);
/** Bits of one stored element: element_bits where given, else bits. */
unsigned ech_layout_element_bits(const EchLayout *layout);
/** Bits of the named type as a number format (4 for s4, 8 for pred); -1 for an unknown name, 0 for token, opaque, tuple. */
int ech_layout_dtype_bits(const char *name, size_t length);
/** XLA's name of the type that NumPy, JAX and PyTorch call @name, @length bytes of it: "f32" of "float32". NULL: none of theirs. */
const char *ech_layout_dtype_of(const char *name, size_t length);
/** XLA's name for what others call @name, in any case, for a message: "f16" of "half", "f8e4m3fn or f8e5m2" of "fp8". NULL: nothing comes near. */
const char *ech_layout_dtype_meant(const char *name, size_t length);

/** The tiles XLA:TPU gives an array, from its dimensions, order and element width; @generation is 2 to 7 (v5e and v5p: 5). Replaces the
 * tiles of *layout. Exact for every parameter of the captures; intermediates may differ (8-bit in VMEM, 16-bit on generation 7). */
void ech_layout_choose_tiles(EchLayout *layout, unsigned generation);
/** Bytes of a tuple's pointer table on a TPU: 4 bytes a member rounded up to @granule (1024 on v2, v3; 512 on v4, v5e; 32 later). */
EchBytes ech_layout_tuple_bytes(uint64_t members, EchBytes granule);
