#include "sim/import/meetings.h"

#include "models/kernel/comm_name.h"
#include "sim/base/fnv.h"
#include "sim/trace/meets.h"

typedef struct {
    EchId name;
    uint32_t device, item, size; /* size: devices that take part, or 0 */
    uint32_t turn;               /* which of its name it is on its device */
    EchTime start, end;
    uint8_t collective;
    bool met;
} Part;

/* What a name says: EchCollective, or TALKS of a kernel of which only that is known. NONE: nothing. */
enum { TALKS = ECH_N_COLLECTIVES };
enum { MOST_LOOKED_AT = 256 };
static const EchTime TOGETHER_PS = 10 * ECH_PS_PER_US; /* in which those are through that came from different devices, at the least */

static uint8_t said_by(const EchTraceBuilder *builder, EchId name)
{
    static const uint8_t kinds[] = {[ECH_COMM_ALL_REDUCE] = ECH_COLLECTIVE_ALL_REDUCE,
                                    [ECH_COMM_ALL_GATHER] = ECH_COLLECTIVE_ALL_GATHER,
                                    [ECH_COMM_REDUCE_SCATTER] = ECH_COLLECTIVE_REDUCE_SCATTER,
                                    [ECH_COMM_ALL_TO_ALL] = ECH_COLLECTIVE_ALL_TO_ALL,
                                    [ECH_COMM_PERMUTE] = TALKS,
                                    [ECH_COMM_BROADCAST] = ECH_COLLECTIVE_BROADCAST};
    EchCommName says;
    if (!ech_comm_name(ech_trace_builder_peek_string(builder, name), &says))
        return ECH_COLLECTIVE_NONE;
    return says.known ? kinds[says.comm] : TALKS;
}

static int compare_parts(gconstpointer a, gconstpointer b)
{
    const Part *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Part[], by name and start. */
static GArray *find_parts(const EchTraceBuilder *builder, const GArray *items, const uint32_t *devices)
{
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(Part));
    g_autoptr(GHashTable) names = g_hash_table_new(NULL, NULL); /* id + 1 -> what it says + 1 */
    for (guint i = 0; i < items->len; i++) {
        const EchItem *item = &g_array_index(items, EchItem, i);
        bool kernel = item->kind == ECH_ITEM_KERNEL;
        if ((!kernel && item->kind != ECH_ITEM_COLLECTIVE) || item->meets != ECH_NONE || item->start == ECH_TIME_NONE || item->duration == ECH_TIME_NONE)
            continue;
        gpointer key = GUINT_TO_POINTER(item->name + 1);
        guint says = kernel ? GPOINTER_TO_UINT(g_hash_table_lookup(names, key)) : item->from + 1u;
        if (says == 0) {
            says = said_by(builder, item->name) + 1u;
            g_hash_table_insert(names, key, GUINT_TO_POINTER(says));
        }
        if (kernel && says == ECH_COLLECTIVE_NONE + 1u)
            continue;
        Part part = {.name = item->name,
                     .device = devices[item->queue],
                     .item = i,
                     .size = kernel || item->other == ECH_NONE ? 0 : item->other,
                     .start = item->start,
                     .end = ech_time_add(item->start, item->duration),
                     .collective = (uint8_t)(says - 1)};
        g_array_append_val(parts, part);
    }
    g_array_sort(parts, compare_parts);
    return parts;
}

static EchTime apart(EchTime a, EchTime b)
{
    return a > b ? a - b : b - a;
}

/* Through together, as far as clocks of different devices tell. */
static bool is_together(const Part *a, const Part *b)
{
    return apart(a->end, b->end) <= MAX(TOGETHER_PS, MIN(a->end - a->start, b->end - b->start) / 2);
}

static int compare_turns(gconstpointer a, gconstpointer b)
{
    const Part *x = *(Part *const *)a, *y = *(Part *const *)b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

/* Part *[]: the first of each name on every device, the second ...; *@ret_devices: how many devices there are. */
static GPtrArray *by_turn(GArray *parts, guint *ret_devices)
{
    GPtrArray *ret = g_ptr_array_new();
    g_autoptr(GHashTable) turns = g_hash_table_new(NULL, NULL); /* device -> its next turn */
    g_autoptr(GHashTable) devices = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < parts->len; i++) {
        Part *part = &g_array_index(parts, Part, i);
        if (i == 0 || g_array_index(parts, Part, i - 1).name != part->name)
            g_hash_table_remove_all(turns);
        gpointer device = GUINT_TO_POINTER(part->device);
        part->turn = GPOINTER_TO_UINT(g_hash_table_lookup(turns, device));
        g_hash_table_insert(turns, device, GUINT_TO_POINTER(part->turn + 1));
        g_hash_table_add(devices, device);
        g_ptr_array_add(ret, part);
    }
    g_ptr_array_sort(ret, compare_turns);
    *ret_devices = g_hash_table_size(devices);
    return ret;
}

/* Whether all devices run the same, each as often, and those of one turn are of one meeting: so they are where those that nobody leaves before all have come
 * are through together, but for few. Whom a broadcast's root met its time does not tell: it may be through before another begins. */
static bool takes_turns(const GPtrArray *turns, guint n_devices)
{
    guint n = 0, together = 0;
    if (n_devices < 2 || turns->len % n_devices != 0)
        return false;
    for (guint i = 0; i < turns->len; i += n_devices) {
        const Part *first = turns->pdata[i];
        bool all = true;
        for (guint k = 1; k < n_devices; k++) {
            const Part *part = turns->pdata[i + k];
            if (part->name != first->name || part->turn != first->turn || part->size != first->size)
                return false;
            all = all && is_together(part, first);
        }
        if (first->size != 0 && first->size != n_devices)
            return false;
        n += first->collective != ECH_COLLECTIVE_BROADCAST;
        together += all && first->collective != ECH_COLLECTIVE_BROADCAST;
    }
    return n > 0 && together >= n - n / 10;
}

/* Of the devices that run the same as @first while it does, each one's that is through nearest to it: Part *[], @first among them. */
static void find_others(const GArray *parts, guint at, GPtrArray *ret)
{
    Part *first = &g_array_index(parts, Part, at);
    g_ptr_array_set_size(ret, 0);
    g_ptr_array_add(ret, first);
    for (guint i = at + 1; i < MIN(parts->len, at + MOST_LOOKED_AT); i++) {
        Part *part = &g_array_index(parts, Part, i);
        if (part->name != first->name || part->start > first->end)
            break;
        if (part->met || part->size != first->size || !is_together(part, first))
            continue;
        guint k = 0;
        while (k < ret->len && ((const Part *)ret->pdata[k])->device != part->device)
            k++;
        if (k == ret->len)
            g_ptr_array_add(ret, part);
        else if (k > 0 && apart(part->end, first->end) < apart(((const Part *)ret->pdata[k])->end, first->end))
            ret->pdata[k] = part;
    }
}

static int compare_ends(gconstpointer a, gconstpointer b, gpointer data)
{
    const Part *x = *(Part *const *)a, *y = *(Part *const *)b, *first = data;
    EchTime s = apart(x->end, first->end), t = apart(y->end, first->end);
    return s != t ? (s < t ? -1 : 1) : x->device < y->device ? -1 : x->device > y->device;
}

static void let_meet(EchTraceBuilder *builder, GArray *items, const GPtrArray *met, uint64_t group, GString *text)
{
    g_string_truncate(text, 0);
    ech_meets_print(text, (EchMeeting){.group = group});
    EchId meets = ech_trace_builder_string(builder, text->str, (gssize)text->len);
    for (guint k = 0; k < met->len; k++) {
        Part *part = met->pdata[k];
        EchItem *item = &g_array_index(items, EchItem, part->item);
        part->met = true;
        item->meets = meets;
        if (item->kind == ECH_ITEM_COLLECTIVE)
            continue;
        item->kind = ECH_ITEM_COLLECTIVE;
        item->from = part->collective == TALKS ? ECH_COLLECTIVE_PERMUTE : part->collective;
        item->bytes = item->rounded = 0;
        item->origin = ECH_ABSENT;
        item->other = met->len;
        item->work = ECH_NONE;
    }
}

uint64_t ech_meetings_find(EchTraceBuilder *builder, GArray *items, const uint32_t *devices)
{
    g_autoptr(GArray) parts = find_parts(builder, items, devices);
    guint n_devices;
    g_autoptr(GPtrArray) turns = by_turn(parts, &n_devices);
    bool in_turn = takes_turns(turns, n_devices);
    g_autoptr(GPtrArray) met = g_ptr_array_new();
    g_autoptr(GString) text = g_string_new(NULL);
    uint64_t n = 0, salt = ECH_FNV; /* of this recording: no other one's are met */
    for (guint i = 0; i < parts->len; i++) {
        const Part *part = &g_array_index(parts, Part, i);
        const EchTime times[] = {part->start, part->end};
        salt = ech_fnv(salt, times, sizeof times);
    }
    for (guint i = 0; i < parts->len && in_turn; i += n_devices) {
        g_ptr_array_set_size(met, 0);
        for (guint k = 0; k < n_devices; k++)
            g_ptr_array_add(met, turns->pdata[i + k]);
        let_meet(builder, items, met, ech_fnv(salt, &i, sizeof i) >> 2, text);
        n += met->len;
    }
    for (guint i = 0; i < parts->len; i++) {
        Part *first = &g_array_index(parts, Part, i);
        if (first->met)
            continue;
        find_others(parts, i, met);
        if (first->size > 1 && met->len > first->size) {
            g_ptr_array_sort_with_data(met, compare_ends, first);
            g_ptr_array_set_size(met, (gint)first->size);
        }
        if (met->len < 2)
            continue;
        let_meet(builder, items, met, ech_fnv(salt, &i, sizeof i) >> 2, text);
        n += met->len;
    }
    return n;
}
