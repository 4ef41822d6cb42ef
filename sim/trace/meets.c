#include "sim/trace/meets.h"

#include <string.h>

const char *ech_meets_of(const char *launch)
{
    const char *at = strstr(launch, "meets=");
    return at ? at + strlen("meets=") : "";
}

bool ech_meets_next(const char **at, EchMeeting *ret)
{
    char *slash = NULL, *end = NULL;
    if (!g_ascii_isxdigit(**at))
        return false;
    uint64_t group = g_ascii_strtoull(*at, &slash, 16);
    if (*slash != '/' || !g_ascii_isdigit(slash[1]))
        return false;
    *ret = (EchMeeting){group, g_ascii_strtoull(slash + 1, &end, 10)};
    *at = end + (*end == ',');
    return true;
}

void ech_meets_print(GString *out, bool first, EchMeeting meeting)
{
    g_string_append_printf(out, "%s%" G_GINT64_MODIFIER "x/%" G_GUINT64_FORMAT, first ? "meets=" : ",", meeting.group, meeting.times);
}
