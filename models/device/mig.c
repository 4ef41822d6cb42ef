#include "models/device/mig.h"

#include "sim/base/error.h"

#include <string.h>

const char *ech_mig_profile(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon && colon > name && g_ascii_isdigit(colon[1]) && !strchr(colon, '/') ? colon + 1 : NULL;
}

char *ech_mig_profiles(const EchDevice *board)
{
    static const char ends[] = ".multiprocessors";
    g_autoptr(GString) names = g_string_new(NULL);
    for (size_t i = 0; i < board->n_numbers; i++) {
        const char *path = board->numbers[i].path;
        if (g_str_has_prefix(path, "mig.") && g_str_has_suffix(path, ends))
            g_string_append_printf(names, "%s%.*s", names->len > 0 ? ", " : "", (int)(strlen(path) - strlen("mig.") - strlen(ends)), path + strlen("mig."));
    }
    return names->len > 0 ? g_strdup(names->str) : NULL;
}

static double part(const EchDevice *board, const char *profile, const char *what)
{
    g_autofree char *path = g_strdup_printf("mig.%s.%s", profile, what);
    return ech_device_number(board, path, 0);
}

static void append_rate(GString *out, const char *name, EchRate rate, unsigned eighths)
{
    if (rate > 0)
        g_string_append_printf(out, "    %s: {value: %" G_GUINT64_FORMAT "B/s, source: \"%u/8 of the board's\"}\n", name,
                               (uint64_t)((double)rate * eighths / 8), eighths);
}

static void append_memories(GString *out, const EchDevice *board, const char *profile, EchBytes bytes, unsigned eighths)
{
    const EchMemory *hbm = ech_device_memory_kind(board, ECH_MEM_HBM), *l2 = ech_device_memory_kind(board, ECH_MEM_CACHE);
    g_string_append_printf(out, "memories:\n  %s:\n", hbm->name);
    for (int i = 0; i < 2; i++)
        g_string_append_printf(out, "    %s: {value: %" G_GUINT64_FORMAT ", source: \"the board's mig.%s.bytes\"}\n", i ? "available" : "capacity", bytes,
                               profile);
    append_rate(out, "nominal", hbm->nominal, eighths);
    append_rate(out, "read", hbm->read, eighths);
    append_rate(out, "write", hbm->write, eighths);
    append_rate(out, "both", hbm->both, eighths);
    if (!l2)
        return;
    g_string_append_printf(out, "  %s:\n    capacity: {value: %" G_GUINT64_FORMAT ", source: \"%u/8 of the board's\"}\n", l2->name, l2->capacity * eighths / 8,
                           eighths);
    append_rate(out, "read", l2->read, eighths);
    append_rate(out, "write", l2->write, eighths);
}

/* What the whole board's power holds back is not what a part of it is held by. */
static void append_power(GString *out, const EchDevice *board)
{
    static const char *const numbers[] = {"sustained_share", "burst_share", "rated_power", "power"};
    bool any = false;
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        g_autofree char *path = g_strconcat("kernel.", numbers[i], NULL);
        if (!ech_device_has_number(board, path))
            continue;
        g_string_append_printf(out, "%s  %s: none\n", any ? "" : "kernel:\n", numbers[i]);
        any = true;
    }
}

GString *ech_mig_yaml(const EchDevice *board, const char *called, const char *profile, GError **error)
{
    const EchUnit *vector = ech_device_unit(board, ECH_UNIT_VECTOR);
    double multiprocessors = part(board, profile, "multiprocessors"), bytes = part(board, profile, "bytes"), eighths = part(board, profile, "eighths");
    if (multiprocessors == 0) {
        g_autofree char *profiles = ech_mig_profiles(board);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s cannot be cut into %s (MIG); %s%s", called, profile, profiles ? "expected one of " : "",
                    profiles ? profiles : "its file says nothing of mig");
        return NULL;
    }
    bool whole = vector && multiprocessors >= 1 && multiprocessors <= vector->count && multiprocessors == (uint32_t)multiprocessors;
    if (!whole || !(bytes >= 1 && bytes <= 1e15) || !(eighths >= 1 && eighths <= 8)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: mig.%s: expected multiprocessors, as many as it has at most, bytes, and eighths, 1 to 8", called,
                    profile);
        return NULL;
    }
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "base: \"%s\"\nname: \"%s:%s\"\nsummary: \"%s, MIG %s\"\n", called, called, profile, board->summary, profile);
    if (board->products && *board->products)
        g_string_append_printf(out, "products: [\"%s MIG %s\"]\n", *board->products, profile);
    append_memories(out, board, profile, (EchBytes)bytes, (unsigned)eighths);
    if (ech_device_link(board, "nvlink"))
        g_string_append(out, "links:\n  nvlink: none\n");
    g_string_append(out, "units:\n");
    for (size_t i = 0; i < board->n_units; i++)
        g_string_append_printf(out, "  %s:\n    count: {value: %.0f, source: \"%.0f of the board's %u multiprocessors\"}\n", board->units[i].name,
                               (double)board->units[i].count * multiprocessors / vector->count, multiprocessors, vector->count);
    append_power(out, board);
    return out;
}
