#include "sim/base/hash.h"

#include <stdatomic.h>
#include <sys/auxv.h>

uint64_t ech_hash_secret(void)
{
    static atomic_ullong kept;
    uint64_t secret = atomic_load_explicit(&kept, memory_order_relaxed);
    if (secret != 0)
        return secret;
    /* 16 random bytes that the kernel gives every process. */
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    if (random)
        memcpy(&secret, random, sizeof secret);
    secret |= 1;
    atomic_store_explicit(&kept, secret, memory_order_relaxed);
    return secret;
}

guint ech_hash_key(gconstpointer key)
{
    return (guint)ech_hash_word((uint64_t)GPOINTER_TO_SIZE(key), ech_hash_secret());
}

guint ech_hash_text(gconstpointer text)
{
    return (guint)ech_hash_bytes(text, strlen(text));
}

guint ech_hash_int64(gconstpointer number)
{
    return (guint)ech_hash_word(*(const uint64_t *)number, ech_hash_secret());
}

guint ech_hash_gbytes(gconstpointer bytes)
{
    gsize n;
    const char *data = g_bytes_get_data((GBytes *)(uintptr_t)bytes, &n);
    return (guint)ech_hash_bytes(data ? data : "", n);
}
