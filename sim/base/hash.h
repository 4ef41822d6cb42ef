/** @file hash.h
 * Hashes for tables in memory. They may differ between releases: nothing that is written or printed depends on them.
 */
#pragma once
#include <glib.h>
#include <stdint.h>
#include <string.h>

/** Spreads @word over all 64 bits. */
static inline uint64_t ech_hash_word(uint64_t word)
{
    word *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 by the golden ratio, as Fibonacci hashing has it. */
    return word ^ word >> 32;
}

/** For a GHashTable whose keys are numbers in the place of pointers. GLib's own takes their low 32 bits only: keys made of two numbers would all collide. */
static inline guint ech_hash_key(gconstpointer key)
{
    return (guint)ech_hash_word((uint64_t)GPOINTER_TO_SIZE(key));
}

/** Of text[n], eight bytes at a time. */
static inline uint64_t ech_hash_bytes(const char *text, size_t n)
{
    uint64_t hash = n, word;
    for (; n >= sizeof word; text += sizeof word, n -= sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = ech_hash_word(hash ^ word);
    }
    word = 0;
    for (size_t i = 0; i < n; i++)
        word = word << 8 | (unsigned char)text[i];
    return ech_hash_word(hash ^ word);
}
