#include "sim/base/units.h"

#include "sim/base/error.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

EchTime ech_time_for(uint64_t amount, EchRate rate)
{
    if (amount == 0)
        return 0;
    if (rate == 0)
        return ECH_TIME_MAX;
    u128 time = ((u128)amount * (u128)ECH_PS_PER_S + rate - 1) / rate;
    return time > (u128)ECH_TIME_MAX ? ECH_TIME_MAX : (EchTime)time;
}

EchTime ech_time_add(EchTime a, EchTime b)
{
    return a > ECH_TIME_MAX - b ? ECH_TIME_MAX : a + b;
}

EchTime ech_time_round(double ps)
{
    return ps >= 9e18 ? ECH_TIME_MAX : (EchTime)llround(MAX(ps, 0.0));
}

EchBytes ech_bytes_add(EchBytes a, EchBytes b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

EchBytes ech_bytes_mul(EchBytes a, EchBytes b)
{
    EchBytes product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t ech_gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

EchBytes ech_round_up(EchBytes value, EchBytes granule)
{
    g_assert(granule > 0);
    EchBytes rest = value % granule;
    if (rest == 0)
        return value;
    return value > UINT64_MAX - (granule - rest) ? UINT64_MAX - UINT64_MAX % granule : value + (granule - rest);
}

typedef struct {
    const char *suffix;
    uint64_t factor;
} UnitRow;

enum { BITS_PER_BYTE = 8 };

static const UnitRow byte_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"K", UINT64_C(1) << 10},
    {"M", UINT64_C(1) << 20},
    {"G", UINT64_C(1) << 30},
    {"T", UINT64_C(1) << 40},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {NULL, 0},
};
static const UnitRow time_units[] = {
    {"", 1}, {"ps", 1}, {"ns", 1000}, {"us", 1000000}, {"µs", 1000000}, {"ms", 1000000000}, {"s", 1000000000000}, {NULL, 0},
};
static const UnitRow rate_units[] = {
    {"", 1},
    {"B/s", 1},
    {"kB/s", 1000},
    {"KB/s", 1000},
    {"MB/s", 1000000},
    {"GB/s", 1000000000},
    {"TB/s", 1000000000000},
    {"KiB/s", UINT64_C(1) << 10},
    {"MiB/s", UINT64_C(1) << 20},
    {"GiB/s", UINT64_C(1) << 30},
    {"TiB/s", UINT64_C(1) << 40},
    {"Bps", 1},
    {"kBps", 1000},
    {"MBps", 1000000},
    {"GBps", 1000000000},
    {"TBps", 1000000000000},
    {NULL, 0},
};
/* What networks and links are sold by: bits a second. */
static const UnitRow bit_units[] = {
    {"Mbps", 1000000},   {"Gbps", 1000000000},   {"Tbps", 1000000000000},   {"Mb/s", 1000000}, {"Gb/s", 1000000000}, {"Tb/s", 1000000000000},
    {"Mbit/s", 1000000}, {"Gbit/s", 1000000000}, {"Tbit/s", 1000000000000}, {"MbE", 1000000},  {"GbE", 1000000000},  {"TbE", 1000000000000},
    {NULL, 0},
};
static const UnitRow ops_units[] = {
    {"", 1},
    {"/s", 1},
    {"k/s", 1000},
    {"M/s", 1000000},
    {"G/s", 1000000000},
    {"T/s", 1000000000000},
    {"P/s", 1000000000000000},
    {"FLOP/s", 1},
    {"MFLOP/s", 1000000},
    {"GFLOP/s", 1000000000},
    {"TFLOP/s", 1000000000000},
    {"PFLOP/s", 1000000000000000},
    {"GFLOPS", 1000000000},
    {"TFLOPS", 1000000000000},
    {"PFLOPS", 1000000000000000},
    {"OP/s", 1},
    {"MOP/s", 1000000},
    {"GOP/s", 1000000000},
    {"TOP/s", 1000000000000},
    {"POP/s", 1000000000000000},
    {"GOPS", 1000000000},
    {"TOPS", 1000000000000},
    {"POPS", 1000000000000000},
    {"Hz", 1},
    {"kHz", 1000},
    {"MHz", 1000000},
    {"GHz", 1000000000},
    {NULL, 0},
};

/* A decimal number exactly, as digits * 10^-scale: "3.35" is 335 with scale 2. At most 19 digits. */
static bool scan_decimal(const char *text, uint64_t *ret_digits, unsigned *ret_scale, const char **ret_end)
{
    uint64_t digits = 0;
    unsigned scale = 0, n = 0;
    bool point = false;
    const char *at = text;
    for (; *at; at++) {
        if (*at == '.' && !point) {
            point = true;
        } else if (g_ascii_isdigit(*at)) {
            if (__builtin_mul_overflow(digits, UINT64_C(10), &digits) || __builtin_add_overflow(digits, (uint64_t)(*at - '0'), &digits))
                return false;
            n++;
            scale += point;
        } else {
            break;
        }
    }
    if (n == 0 || scale > 18 || (point && at[-1] == '.'))
        return false;
    *ret_digits = digits;
    *ret_scale = scale;
    *ret_end = at;
    return true;
}

/* digits * 10^-scale of a unit that is @factor / @parts of the smallest, rounded; false where that is more than @max. */
static bool scale_unit(uint64_t digits, unsigned scale, uint64_t factor, uint64_t parts, uint64_t max, uint64_t *ret)
{
    u128 divisor = parts;
    for (unsigned i = 0; i < scale; i++)
        divisor *= 10;
    u128 value = ((u128)digits * factor + divisor / 2) / divisor;
    if (value > max)
        return false;
    *ret = (uint64_t)value;
    return true;
}

static const UnitRow *find_unit(const UnitRow *units, const char *suffix)
{
    for (; units->suffix; units++) {
        if (strcmp(units->suffix, suffix) == 0)
            return units;
    }
    return NULL;
}

/* Appends @number with each unit that is @suffix in other letters: of 4gb/s, GB/s and Gb/s. */
static void suggest_units(const char *number, const UnitRow *units, const char *suffix, GString *out)
{
    for (; units->suffix; units++) {
        if (*suffix && g_ascii_strcasecmp(units->suffix, suffix) == 0 && !g_str_has_prefix(units->suffix, "k"))
            g_string_append_printf(out, "%s'%s%s'", out->len ? " or " : "", number, units->suffix);
    }
}

/* Of units, those of @bits (or NULL) are bits. */
static bool parse_unit(const char *text, const UnitRow *units, const UnitRow *bits, const char *what, const char *example, uint64_t max, uint64_t *ret,
                       GError **error)
{
    uint64_t digits;
    unsigned scale;
    const char *end;
    g_autoptr(GString) near = g_string_new(NULL);
    if (text && scan_decimal(text, &digits, &scale, &end)) {
        g_autofree char *number = g_strndup(text, (gsize)(end - text));
        if (*end == ' ')
            end++;
        const UnitRow *unit = find_unit(units, end), *bit = bits ? find_unit(bits, end) : NULL;
        if (unit && scale_unit(digits, scale, unit->factor, 1, max, ret))
            return true;
        if (bit && scale_unit(digits, scale, bit->factor, BITS_PER_BYTE, max, ret))
            return true;
        if (unit || bit) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is too large for a %s; expected something like %s", text, what, example);
            return false;
        }
        suggest_units(number, units, end, near);
        if (bits)
            suggest_units(number, bits, end, near);
    }
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not a %s; %s%s%s", text ? text : "", what,
                near->len ? "did you mean " : "expected something like ", near->len ? near->str : example, near->len ? "?" : "");
    return false;
}

/* Whether a number above 0 stands without a unit. */
static bool lacks_unit(const char *text)
{
    return strspn(text, "0123456789.") == strlen(text) && strspn(text, "0.") != strlen(text);
}

bool ech_parse_bytes(const char *text, EchBytes *ret, GError **error)
{
    return parse_unit(text, byte_units, NULL, "size", "16GiB", UINT64_MAX, ret, error);
}

bool ech_parse_time(const char *text, EchTime *ret, GError **error)
{
    uint64_t value;
    if (!parse_unit(text, time_units, NULL, "time", "1.5us", INT64_MAX, &value, error))
        return false;
    /* Who leaves the unit away means one of five. */
    if (lacks_unit(text)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' has no unit; expected %sps, %sns, %sus, %sms or %ss", text, text, text, text, text, text);
        return false;
    }
    *ret = (EchTime)value;
    return true;
}

/* Nobody means 5 bytes, operations or cycles a second: a unit was forgotten. */
static bool refuse_few(const char *text, uint64_t rate, const char *example, GError **error)
{
    enum { FEW = 1000000 };
    if (rate >= FEW || !lacks_unit(text))
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' has no unit; expected something like %s", text, example);
    return false;
}

bool ech_parse_rate(const char *text, EchRate *ret, GError **error)
{
    EchRate rate;
    if (!parse_unit(text, rate_units, bit_units, "rate", "819GB/s or 400Gbit/s", UINT64_MAX, &rate, error) || !refuse_few(text, rate, "819GB/s", error))
        return false;
    *ret = rate;
    return true;
}

bool ech_parse_ops(const char *text, uint64_t *ret, GError **error)
{
    uint64_t rate;
    if (!parse_unit(text, ops_units, NULL, "rate of operations", "197TFLOP/s", UINT64_MAX, &rate, error) ||
        !refuse_few(text, rate, "197TFLOP/s or 1.5GHz", error))
        return false;
    *ret = rate;
    return true;
}

bool ech_parse_u64(const char *text, uint64_t *ret, GError **error)
{
    if (text && g_ascii_isdigit(*text) && g_ascii_string_to_unsigned(text, 10, 0, UINT64_MAX, ret, NULL))
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not a whole number; expected something like 4096", text ? text : "");
    return false;
}

bool ech_parse_double(const char *text, double *ret, GError **error)
{
    char *end = NULL;
    double value = text && *text && !g_ascii_isspace(*text) ? g_ascii_strtod(text, &end) : 0;
    if (!end || *end || end == text || !isfinite(value)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not a number; expected something like 0.9", text ? text : "");
        return false;
    }
    *ret = value;
    return true;
}

/* Three digits after the leading ones are noise: 819, 81.9, 8.19. */
static char *format_scaled(double value, const char *unit)
{
    int decimals = fabs(value) >= 99.95 || value == floor(value) ? 0 : fabs(value) >= 9.995 ? 1 : 2;
    return g_strdup_printf("%.*f %s", decimals, value, unit);
}

char *ech_format_bytes(EchBytes bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t i = 0;
    for (; value >= 1023.5 && i + 1 < G_N_ELEMENTS(names); i++) /* 1023.7 KiB would be told as 1024 */
        value /= 1024;
    return format_scaled(value, names[i]);
}

char *ech_format_time(EchTime time)
{
    static const char *const names[] = {"ps", "ns", "us", "ms", "s"};
    if (time == ECH_TIME_NONE)
        return g_strdup("-");
    double value = (double)time;
    size_t i = 0;
    for (; fabs(value) >= 999.5 && i + 1 < G_N_ELEMENTS(names); i++)
        value /= 1000;
    return format_scaled(value, names[i]);
}

char *ech_format_count(double count, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = 0;
    for (; count >= 999.5 && i + 1 < G_N_ELEMENTS(prefixes); i++)
        count /= 1000;
    g_autofree char *full = g_strconcat(prefixes[i], unit, NULL);
    return format_scaled(count, full);
}

char *ech_format_rate(EchRate rate)
{
    return ech_format_count((double)rate, "B/s");
}
