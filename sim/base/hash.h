/** @file hash.h
 * Hashes for tables in memory. They differ from run to run: nothing that is written or printed depends on them, and whoever writes a file cannot choose
 * names or numbers that all meet in one place of a table, where finding each takes as long as there are others.
 */
#pragma once
#include <glib.h>
#include <stdint.h>
#include <string.h>

/** Odd, and another one for each process. */
uint64_t ech_hash_secret(void);

/** Spreads @word over all 64 bits: both halves of its product with the secret. */
static inline uint64_t ech_hash_word(uint64_t word, uint64_t secret)
{
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)(word ^ UINT64_C(0x9e3779b97f4a7c15)) * secret; /* 2^64 by the golden ratio: 0 is a word like others */
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/** Of a key that is two numbers. */
static inline guint ech_hash_pair(uint64_t first, uint64_t second)
{
    uint64_t secret = ech_hash_secret();
    return (guint)ech_hash_word(ech_hash_word(first, secret) ^ second, secret);
}

/** For a GHashTable whose keys are numbers in the place of pointers. GLib's own takes their low 32 bits only: keys made of two numbers would all collide. */
guint ech_hash_key(gconstpointer key);
/** In the place of g_str_hash, g_int64_hash and g_bytes_hash, for keys that come from files. */
guint ech_hash_text(gconstpointer text);
guint ech_hash_int64(gconstpointer number);
guint ech_hash_gbytes(gconstpointer bytes);

/** Of text[n], eight bytes at a time. */
static inline uint64_t ech_hash_bytes(const char *text, size_t n)
{
    uint64_t secret = ech_hash_secret(), hash = secret ^ n, word;
    for (; n >= sizeof word; text += sizeof word, n -= sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = ech_hash_word(hash ^ word, secret);
    }
    word = 0;
    for (size_t i = 0; i < n; i++)
        word = word << 8 | (unsigned char)text[i];
    return ech_hash_word(hash ^ word, secret);
}
