#include "sim/report/placements_csv.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>

enum {
    BUFFER = 1 << 18, /* bytes gathered for one write */
    LINE = 192,       /* no line is longer: seven numbers of at most 20 digits, eight signs and an E */
};

static char *put_u64(char *at, uint64_t value)
{
    char digits[20];
    unsigned n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (n)
        *at++ = digits[--n];
    return at;
}

static char *put_address(char *at, const EchPlacement *placement)
{
    if (placement->reservation < 0 || placement->address >> 48 != (uint64_t)placement->reservation + 1) /* none, or where a recording has it */
        return put_u64(at, placement->address);
    *at++ = 'E';
    at = put_u64(at, (uint64_t)placement->reservation);
    *at++ = '+';
    return put_u64(at, placement->address - ((uint64_t)(placement->reservation + 1) << 48));
}

/* By hand, because a million lines should take no longer than placing them. */
static char *put_line(char *at, const EchAllocEvent *event, const EchPlacedEvent *placed)
{
    const EchPlacement *placement = &placed->placement;
    at = put_u64(at, placed->event);
    *at++ = ',';
    at = put_u64(at, event->id);
    *at++ = ',';
    at = put_u64(at, event->bytes);
    *at++ = ',';
    if (placed->fit == ECH_FIT_OK && placement->address != ECH_ADDRESS_NONE) {
        at = put_u64(at, placement->rounded);
        *at++ = ',';
        at = put_u64(at, placement->segment);
        *at++ = ',';
        at = put_u64(at, placement->offset);
        *at++ = ',';
        at = put_address(at, placement);
    } else {
        *at++ = ',';
        *at++ = ',';
        *at++ = ',';
    }
    *at++ = '\n';
    return at;
}

/* Stops at the first failure of the disk, with errno set. */
static bool write_lines(FILE *file, const GArray *events, const GArray *placed)
{
    if (fputs("event,id,requested,rounded,segment,offset,address\n", file) < 0)
        return false;
    g_autofree char *buffer = g_malloc(BUFFER);
    char *at = buffer;
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        at = put_line(at, &g_array_index(events, EchAllocEvent, item->event), item);
        if (at > buffer + BUFFER - LINE || i + 1 == placed->len) {
            if (fwrite(buffer, 1, (size_t)(at - buffer), file) != (size_t)(at - buffer))
                return false;
            at = buffer;
        }
    }
    return true;
}

bool ech_placements_csv_write(const char *path, const GArray *events, const GArray *placed, GError **error)
{
    FILE *file = g_fopen(path, "w");
    int code = file ? 0 : errno;
    if (file) {
        if (!write_lines(file, events, placed))
            code = errno;
        if (fclose(file) != 0 && code == 0)
            code = errno;
    }
    if (code == 0)
        return true;
    g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(code), "%s: %s", path, g_strerror(code));
    return false;
}
