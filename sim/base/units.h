/** @file units.h
 * Integer time, bytes and rates; their one division; strict parsers and printers.
 *
 * Time is int64 picoseconds (106 days), sizes are uint64 bytes, rates are uint64 units per second.
 * GB is 10^9 and GiB is 2^30 everywhere. Doubles appear only in printing and where a model tells a time.
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef int64_t EchTime;   /**< Picoseconds. */
typedef uint64_t EchBytes; /**< Bytes. */
typedef uint64_t EchRate;  /**< Bytes (or operations) per second. */

#define ECH_TIME_MAX INT64_MAX
#define ECH_TIME_NONE INT64_MIN /**< "Not recorded". */
#define ECH_PS_PER_NS INT64_C(1000)
#define ECH_PS_PER_US INT64_C(1000000)
#define ECH_PS_PER_MS INT64_C(1000000000)
#define ECH_PS_PER_S INT64_C(1000000000000)

/** Time to move @amount at @rate units per second: amount / rate, rounded up to a picosecond, in 128 bits,
 * saturating at ECH_TIME_MAX; a rate of 0 gives ECH_TIME_MAX unless the amount is 0. */
EchTime ech_time_for(uint64_t amount, EchRate rate);
/** @a + @b, saturating; @b >= 0. */
EchTime ech_time_add(EchTime a, EchTime b);
/** @ps picoseconds to the nearest whole one; 0 below 0, ECH_TIME_MAX from 9e18 on. */
EchTime ech_time_round(double ps);
/** Sum and product of byte counts, saturating at UINT64_MAX. */
EchBytes ech_bytes_add(EchBytes a, EchBytes b);
EchBytes ech_bytes_mul(EchBytes a, EchBytes b);
/** Greatest common divisor; of 0 and x it is x. */
uint64_t ech_gcd(uint64_t a, uint64_t b);
/** @a / @b, rounded up; @b >= 1. */
static inline uint64_t ech_div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}
/** @value rounded up to a multiple of @granule (any granule >= 1), saturating to the largest multiple. */
EchBytes ech_round_up(EchBytes value, EchBytes granule);

/** Strict parsers. The whole text must be one number and one unit; on failure they return false, leave *ret
 * alone and set ECH_ERROR_CONFIG with a message of the form "'TEXT' is not a size; expected something like 16GiB".
 * Decimal numbers, to the nearest whole unit. Sizes: bytes, or with B, kB, KB, MB, GB, TB, KiB, MiB, GiB, TiB (K, M, G, T mean the binary ones). */
bool ech_parse_bytes(const char *text, EchBytes *ret, GError **error);
/** Times: number with ps, ns, us (or µs), ms, s; only 0 needs none. */
bool ech_parse_time(const char *text, EchTime *ret, GError **error);
/** Byte rates: number with B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s (or GBps and so on), or of bits, an eighth, with Mbit/s,
 * Gbit/s, Tbit/s (or Gb/s, Gbps, GbE and so on); a plain number is bytes/s, and refused below 10^6 (but for 0): a unit was forgotten. */
bool ech_parse_rate(const char *text, EchRate *ret, GError **error);
/** Operation rates and frequencies: number with /s, FLOP/s, OP/s or Hz after an SI prefix (197TFLOP/s, or 197TFLOPS, 1.5GHz); a plain number is per second,
 * and refused below 10^6 (but for 0). */
bool ech_parse_ops(const char *text, uint64_t *ret, GError **error);
/** An unsigned decimal integer (underscores not allowed, no sign, no leading or trailing space). */
bool ech_parse_u64(const char *text, uint64_t *ret, GError **error);
/** A finite decimal number. */
bool ech_parse_double(const char *text, double *ret, GError **error);

/** Printers for people: three or four significant digits and a unit. Owned by the caller. */
char *ech_format_bytes(EchBytes bytes) G_GNUC_WARN_UNUSED_RESULT;
char *ech_format_time(EchTime time) G_GNUC_WARN_UNUSED_RESULT;
char *ech_format_rate(EchRate rate) G_GNUC_WARN_UNUSED_RESULT;
/** An operation count or rate with an SI prefix and @unit ("197 TFLOP/s"). */
char *ech_format_count(double count, const char *unit) G_GNUC_WARN_UNUSED_RESULT;
