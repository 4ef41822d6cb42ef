#include "sim/import/arrays.h"

__extension__ typedef unsigned __int128 u128;

typedef struct {
    uint64_t address, end;
    EchId buffer;
    bool used, of_host;
    uint64_t round; /* of resolving in which... */
    guint row;      /* ...it got this row of arrays */
} Place;

/* An array, as long as that lies there. */
typedef struct {
    uint64_t address;
    EchId buffer;
} Asked;

struct EchArrays {
    GTree *places;  /* Place by address */
    GArray *asked;  /* Asked, in the order in which they were asked for, since what is new was filled last */
    GArray *arrays; /* EchArrayUse: of the op asked for last */
    GArray *found;  /* Place *, of each of its uses */
    GArray *before; /* EchAddressUse: what the op before was given, and what it did with it */
    uint64_t round; /* ops that were asked for */
};

static gint compare(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

EchArrays *ech_arrays_new(void)
{
    EchArrays *self = g_new0(EchArrays, 1);
    self->places = g_tree_new_full(compare, NULL, NULL, g_free);
    self->asked = g_array_new(FALSE, FALSE, sizeof(Asked));
    self->arrays = g_array_new(FALSE, FALSE, sizeof(EchArrayUse));
    self->found = g_array_new(FALSE, FALSE, sizeof(Place *));
    self->before = g_array_new(FALSE, FALSE, sizeof(EchAddressUse));
    return self;
}

void ech_arrays_free(EchArrays *self)
{
    if (!self)
        return;
    g_tree_unref(self->places);
    g_array_unref(self->asked);
    g_array_unref(self->arrays);
    g_array_unref(self->found);
    g_array_unref(self->before);
    g_free(self);
}

/* The last place that begins at @address or before. */
static Place *place_before(const EchArrays *self, uint64_t address)
{
    GTreeNode *after = g_tree_upper_bound(self->places, &address), *node = after ? g_tree_node_previous(after) : g_tree_node_last(self->places);
    return node ? g_tree_node_value(node) : NULL;
}

static Place *place_of(const EchArrays *self, uint64_t address)
{
    Place *place = place_before(self, address);
    return place && address < place->end ? place : NULL;
}

void ech_arrays_alloc(EchArrays *self, EchId buffer, uint64_t address, EchBytes bytes)
{
    uint64_t end = bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
    if (bytes == 0)
        return;
    for (const Place *old = place_before(self, end - 1); old && old->end > address; old = place_before(self, end - 1))
        g_tree_remove(self->places, &old->address);
    Place *place = g_new(Place, 1);
    *place = (Place){.address = address, .end = end, .buffer = buffer};
    g_tree_insert(self->places, &place->address, place);
    Asked asked = {address, buffer};
    g_array_append_val(self->asked, asked);
}

void ech_arrays_release(EchArrays *self, uint64_t address)
{
    g_tree_remove(self->places, &address);
}

void ech_arrays_of_host(EchArrays *self, uint64_t address)
{
    Place *place = place_of(self, address);
    if (place)
        place->used = place->of_host = true;
}

bool ech_arrays_find(const EchArrays *self, uint64_t address, EchId *ret_buffer)
{
    const Place *place = place_of(self, address);
    if (place)
        *ret_buffer = place->buffer;
    return place != NULL;
}

/* One more use of the array at @place; @apart: in a row of its own. */
static void add_use(EchArrays *self, Place *place, const EchAddressUse *use, bool apart, bool reads, bool writes)
{
    if (apart || place->round != self->round) {
        place->round = self->round;
        place->row = self->arrays->len;
        EchArrayUse fresh = {.buffer = place->buffer, .offset = use->address - place->address, .part = apart, .told = true};
        g_array_append_val(self->arrays, fresh);
    }
    EchArrayUse *array = &g_array_index(self->arrays, EchArrayUse, place->row);
    EchBytes whole = place->end - place->address, bytes = use->bytes ? MIN(use->bytes, whole) : place->end - use->address;
    array->offset = MIN(array->offset, use->address - place->address);
    array->reads |= reads;
    array->writes |= writes;
    array->told &= use->bytes > 0;
    if (reads)
        array->read = use->bytes ? MIN(ech_bytes_add(array->read, bytes), whole) : MAX(array->read, bytes);
    if (writes)
        array->written = use->bytes ? MIN(ech_bytes_add(array->written, bytes), whole) : MAX(array->written, bytes);
}

/* Whether the op before was given these very addresses. */
static bool is_given_again(const EchArrays *self, const EchAddressUse *uses, size_t n)
{
    bool again = n == self->before->len;
    for (size_t i = 0; again && i < n; i++)
        again = g_array_index(self->before, EchAddressUse, i).address == uses[i].address;
    return again;
}

/* What is done with an address of which nobody tells. @written: something else is. */
static EchAddressAccess access_of(EchAddressAccess told, const Place *place, bool written, const EchAddressUse *before)
{
    if (!place->used)
        return ECH_ADDRESS_WRITE;
    if (told == ECH_ADDRESS_INPUT || written || place->of_host)
        return ECH_ADDRESS_READ;
    return before && before->access == ECH_ADDRESS_READ ? ECH_ADDRESS_READ : ECH_ADDRESS_UPDATE;
}

const EchArrayUse *ech_arrays_resolve(EchArrays *self, const EchAddressUse *uses, size_t n, bool apart, size_t *ret_n, uint64_t *ret_unknown,
                                      uint64_t *ret_inferred)
{
    g_array_set_size(self->arrays, 0);
    g_array_set_size(self->found, 0);
    self->round++;
    bool writes = false, again = is_given_again(self, uses, n);
    g_array_set_size(self->before, (guint)n);
    for (size_t i = 0; i < n; i++) {
        Place *place = place_of(self, uses[i].address);
        g_array_append_val(self->found, place);
        *ret_unknown += place == NULL;
        writes |= place && (uses[i].access >= ECH_ADDRESS_WRITE || (uses[i].access <= ECH_ADDRESS_INPUT && !place->used));
    }
    for (size_t i = 0; i < n; i++) {
        Place *place = g_array_index(self->found, Place *, i);
        EchAddressUse *before = &g_array_index(self->before, EchAddressUse, i);
        if (!place) {
            *before = uses[i];
            continue;
        }
        EchAddressAccess access = uses[i].access;
        if (access <= ECH_ADDRESS_INPUT) {
            access = access_of(access, place, writes, again ? before : NULL);
            *ret_inferred += uses[i].access == ECH_ADDRESS_ANY;
        } else if (access == ECH_ADDRESS_INOUT)
            access = place->used ? ECH_ADDRESS_UPDATE : ECH_ADDRESS_WRITE;
        *before = (EchAddressUse){uses[i].address, uses[i].bytes, access};
        add_use(self, place, &uses[i], apart, access != ECH_ADDRESS_WRITE, access >= ECH_ADDRESS_WRITE);
    }
    for (size_t i = 0; i < n; i++)
        if (g_array_index(self->found, Place *, i))
            g_array_index(self->found, Place *, i)->used = true;
    *ret_n = self->arrays->len;
    return (const EchArrayUse *)(const void *)self->arrays->data;
}

void ech_arrays_fill_new(EchArrays *self, EchBytes bytes, GArray *uses)
{
    EchBytes left = bytes;
    for (guint i = self->asked->len; i-- > 0 && left > 0;) {
        const Asked *asked = &g_array_index(self->asked, Asked, i);
        const Place *place = place_of(self, asked->address);
        if (!place || place->buffer != asked->buffer || place->used)
            continue;
        EchAddressUse use = {place->address, MIN(place->end - place->address, left), ECH_ADDRESS_WRITE};
        left -= use.bytes;
        g_array_append_val(uses, use);
    }
    g_array_set_size(self->asked, 0);
}

/* One part in this many is left out where operations are counted: parameters of channels beside the images. An array that is short of that is whole. */
#define NEGLECTED 64

EchBytes ech_arrays_share(const EchArrayUse *arrays, size_t n, bool writes, EchBytes bytes, EchBytes *ret_each)
{
    EchBytes sum = 0;
    for (size_t i = 0; i < n; i++) {
        ret_each[i] = writes ? arrays[i].written : arrays[i].read;
        sum = ech_bytes_add(sum, ret_each[i]);
    }
    if (sum <= bytes)
        return bytes - sum;
    if (sum - bytes <= bytes / NEGLECTED)
        return 0;
    EchBytes given = 0, before = 0;
    for (size_t i = 0; i < n; i++) {
        /* Each up to its part of the whole, so that they sum up to it. */
        before += ret_each[i];
        EchBytes upto = (EchBytes)((u128)bytes * before / sum);
        ret_each[i] = upto - given;
        given = upto;
    }
    return 0;
}
