#include "sim/import/rounded.h"

#include <math.h>
#include <string.h>

enum { MAX_SHAPES = 64 };

bool ech_rounded_parse(const char *text, size_t n, EchRounded *ret, size_t *ret_used)
{
    static const struct {
        const char *name;
        int power;
    } units[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"PiB", 50}, {"EiB", 60}, {"bytes", 0}, {"KB", 10},
                 {"kB", 10},  {"MB", 20},  {"GB", 30},  {"TB", 40},  {"Ki", 10},  {"Mi", 20},  {"Gi", 30},   {"Ti", 40},
                 {"K", 10},   {"M", 20},   {"G", 30},   {"T", 40},   {"P", 50},   {"E", 60},   {"B", 0}};
    char number[32];
    size_t digits = 0, decimals = 0;
    bool dot = false;
    while (digits < n && digits < sizeof number - 1 && (g_ascii_isdigit(text[digits]) || (text[digits] == '.' && !dot && digits > 0))) {
        decimals += dot;
        dot |= text[digits] == '.';
        number[digits] = text[digits];
        digits++;
    }
    number[digits] = '\0';
    size_t at = digits;
    bool apart = at < n && text[at] == ' ';
    /* NumPy's "926. GiB" */
    if (digits == 0 || (number[digits - 1] == '.' && !apart))
        return false;
    at += apart;
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        size_t length = strlen(units[i].name);
        if (n - at < length || memcmp(text + at, units[i].name, length) != 0 || (at + length < n && g_ascii_isalnum(text[at + length])))
            continue;
        double scale = ldexp(1, units[i].power), value = g_ascii_strtod(number, NULL) * scale;
        if (value > 8e18)
            return false;
        ret->bytes = (EchBytes)(value + 0.5);
        ret->slack = units[i].power ? scale * pow(10, -(double)decimals) * 0.51 : 0;
        /* tsl::strings::HumanReadableNumBytes() writes the unit close and cuts a number of MiB to whole KiB, one of GiB to whole MiB, before it rounds. */
        if (!apart && length == 3 && units[i].power > 10)
            ret->slack += scale / 1024;
        *ret_used = at + length;
        return true;
    }
    return false;
}

EchBytes ech_rounded_bytes(double value)
{
    return !(value > 0) ? 0 : value < ldexp(1, 62) ? (EchBytes)value : UINT64_C(1) << 62;
}

bool ech_rounded_is(const EchRounded *rounded, EchBytes bytes)
{
    return fabs((double)bytes - (double)rounded->bytes) <= rounded->slack;
}

bool ech_rounded_from_shapes(const EchRounded *rounded, const char *text, size_t n, EchBytes *ret)
{
    size_t at = 0;
    for (unsigned i = 0; at < n && i < MAX_SHAPES; i++) {
        const char *bracket = memchr(text + at, '[', n - at);
        if (!bracket)
            return false;
        size_t begin = (size_t)(bracket - text), used = 0;
        while (begin > at && g_ascii_isalnum(text[begin - 1]))
            begin--;
        EchLayout layout;
        at = (size_t)(bracket - text) + 1;
        if (!ech_layout_parse(text + begin, n - begin, &layout, &used, NULL) || used == 0)
            continue;
        for (int rules = 0; rules < 2; rules++) {
            EchBytes bytes = ech_layout_padded_bytes(&layout, rules ? ECH_LAYOUT_TPU : ECH_LAYOUT_DENSE);
            if (ech_rounded_is(rounded, bytes)) {
                *ret = bytes;
                return true;
            }
        }
        at = begin + used;
    }
    return false;
}
