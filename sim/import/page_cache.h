/** @file page_cache.h
 * How much of a host's memory its page cache would need to still have what a program reads of a file: all bytes of files that were used since it was used last
 * (the stack distance of Mattson et al., 1970), which is what a cache that drops what lay idle longest needs, of whatever size.
 */
#pragma once
#include "sim/base/units.h"

#include <glib.h>

typedef struct EchPageCache EchPageCache;

EchPageCache *ech_page_cache_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_page_cache_free(EchPageCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPageCache, ech_page_cache_free)

/** @bytes of @file (any number) from @from on are read or written. Returns the bytes of all files, these among them, that were used since that part of them was
 * that lay idle longest; *ret_new: of them, those that were never used. */
EchBytes ech_page_cache_take(EchPageCache *cache, uint64_t file, uint64_t from, EchBytes bytes, EchBytes *ret_new);
