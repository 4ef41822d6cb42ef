#include "sim/report/placements_csv.h"

#include "sim/report/minimalloc_csv.h"

enum {
    BUFFER = 1 << 14, /* bytes gathered before they are appended */
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

/* What follows the id. By hand, because a million lines should take no longer than placing them. */
static char *put_place(char *at, const EchAllocEvent *event, const EchPlacedEvent *placed)
{
    const EchPlacement *placement = &placed->placement;
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

GString *ech_placements_csv_print(const GArray *events, const GArray *placed, const EchTrace *named)
{
    GString *out = g_string_new("event,id,requested,rounded,segment,offset,address\n");
    char buffer[BUFFER], *at = buffer;
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        const EchAllocEvent *event = &g_array_index(events, EchAllocEvent, item->event);
        at = put_u64(at, item->event);
        *at++ = ',';
        if (named && event->id < ech_trace_n_buffers(named)) {
            g_string_append_len(out, buffer, at - buffer);
            at = buffer;
            ech_minimalloc_csv_print_id(out, ech_trace_string(named, ech_trace_buffers(named)[event->id].name));
        } else {
            at = put_u64(at, event->id);
        }
        at = put_place(at, event, item);
        if (at > buffer + BUFFER - LINE || i + 1 == placed->len) {
            g_string_append_len(out, buffer, at - buffer);
            at = buffer;
        }
    }
    return out;
}
