#include "models/device/device.h"

#include "sim/base/hash.h"

#include <string.h>

EchDevice *ech_device_new(void)
{
    EchDevice *device = g_new0(EchDevice, 1);
    device->cores = 1;
    return device;
}

void ech_device_free(EchDevice *device)
{
    if (!device)
        return;
    for (size_t i = 0; i < device->n_memories; i++) {
        g_free(device->memories[i].name);
        g_free(device->memories[i].dram);
    }
    for (size_t i = 0; i < device->n_links; i++) {
        g_free(device->links[i].name);
        g_free(device->links[i].curve);
        g_free(device->links[i].curve_from);
    }
    for (size_t i = 0; i < device->n_units; i++) {
        for (size_t j = 0; j < device->units[i].n_peaks; j++)
            g_free(device->units[i].peaks[j].dtype);
        g_free(device->units[i].peaks);
        g_free(device->units[i].name);
    }
    for (size_t i = 0; i < device->n_numbers; i++) {
        g_free(device->numbers[i].path);
        g_free(device->numbers[i].source);
    }
    g_free(device->memories);
    g_free(device->links);
    g_free(device->units);
    g_free(device->number_slots);
    g_free(device->numbers);
    g_free(device->name);
    g_free(device->summary);
    g_free(device->family);
    g_free(device->compiler);
    g_strfreev(device->products);
    g_free(device->calibrated);
    g_free(device->unmeasured);
    g_free(device);
}

bool ech_device_is_product(const EchDevice *device, const char *product)
{
    if (device->name && g_ascii_strcasecmp(device->name, product) == 0)
        return true;
    for (char **name = device->products; name && *name; name++)
        if (g_ascii_strcasecmp(*name, product) == 0)
            return true;
    return false;
}

const EchMemory *ech_device_memory(const EchDevice *device, const char *name)
{
    for (size_t i = 0; i < device->n_memories; i++) {
        if (strcmp(device->memories[i].name, name) == 0)
            return &device->memories[i];
    }
    /* Programs call their memories as shipped devices do. */
    static const struct {
        const char *name;
        EchMemoryKind kind;
    } usual[] = {{"vector", ECH_MEM_VECTOR}, {"scalar", ECH_MEM_SCALAR}, {"common", ECH_MEM_COMMON}, {"host", ECH_MEM_HOST_PINNED}};
    const EchMemory *only = NULL;
    for (size_t k = 0; k < G_N_ELEMENTS(usual); k++)
        for (size_t i = 0; strcmp(usual[k].name, name) == 0 && i < device->n_memories; i++) {
            if (device->memories[i].kind == usual[k].kind && only)
                return NULL;
            if (device->memories[i].kind == usual[k].kind)
                only = &device->memories[i];
        }
    return only;
}

/* Of several of a kind (tiers of the host's memory, say) the one that programs mean: called as shipped devices call it, else with a number of XLA's. */
const EchMemory *ech_device_memory_kind(const EchDevice *device, EchMemoryKind kind)
{
    const EchMemory *best = NULL;
    int best_rank = -1;
    for (size_t i = 0; i < device->n_memories; i++) {
        const EchMemory *memory = &device->memories[i];
        bool usual = kind == ECH_MEM_HOST_PINNED && strcmp(memory->name, "host") == 0;
        int rank = usual ? 2 : memory->space >= 0 ? 1 : 0;
        if (memory->kind == kind && rank > best_rank) {
            best = memory;
            best_rank = rank;
        }
    }
    return best;
}

const EchMemory *ech_device_space(const EchDevice *device, int32_t space)
{
    for (size_t i = 0; space >= 0 && i < device->n_memories; i++) {
        if (device->memories[i].space == space)
            return &device->memories[i];
    }
    return NULL;
}

const EchLink *ech_device_link(const EchDevice *device, const char *name)
{
    for (size_t i = 0; i < device->n_links; i++) {
        if (strcmp(device->links[i].name, name) == 0)
            return &device->links[i];
    }
    return NULL;
}

const EchLink *ech_device_link_between(const EchDevice *device, const EchMemory *from, const EchMemory *to, bool *ret_forward)
{
    if (!from || !to)
        return NULL;
    size_t a = (size_t)(from - device->memories), b = (size_t)(to - device->memories);
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *link = &device->links[i];
        bool forward = link->from == a && link->to == b;
        if (forward || (link->from == b && link->to == a)) {
            *ret_forward = forward;
            return link;
        }
    }
    return NULL;
}

static bool is_host(const EchMemory *memory)
{
    return memory->kind == ECH_MEM_HOST_PINNED || memory->kind == ECH_MEM_HOST_PAGEABLE;
}

const EchMemory *ech_device_bytes_of(const EchDevice *device, const EchMemory *memory)
{
    return memory && memory->within ? &device->memories[memory->within - 1] : memory;
}

bool ech_device_shares_host(const EchDevice *device)
{
    const EchMemory *host = ech_device_memory_kind(device, ECH_MEM_HOST_PINNED);
    return host && host->within;
}

const EchLink *ech_device_transfer_link(const EchDevice *device, const EchMemory *from, const EchMemory *to, bool *ret_forward)
{
    const EchLink *link = ech_device_link_between(device, from, to, ret_forward);
    if (link || !from || !to || from == to || is_host(from) == is_host(to))
        return link;
    size_t host = (size_t)((is_host(from) ? from : to) - device->memories);
    for (size_t i = 0; i < device->n_links; i++) {
        if (device->links[i].from == host && device->links[i].to != host) {
            *ret_forward = is_host(from);
            return &device->links[i];
        }
    }
    return NULL;
}

const EchLink *ech_device_host_link(const EchDevice *device, bool *ret_forward)
{
    const EchMemory *host = ech_device_memory_kind(device, ECH_MEM_HOST_PINNED), *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    bool forward = true;
    const EchLink *named = ech_device_link(device, "host"), *link = named ? named : ech_device_transfer_link(device, host, hbm, &forward);
    if (ret_forward)
        *ret_forward = forward;
    return link;
}

const EchUnit *ech_device_unit(const EchDevice *device, EchUnitKind kind)
{
    for (size_t i = 0; i < device->n_units; i++) {
        if (device->units[i].kind == kind)
            return &device->units[i];
    }
    return NULL;
}

/* Width of a dtype by its name: the digits after the letters, "pred" 8. Floats and integers are different families. */
static unsigned width_of(const char *dtype, bool *ret_float)
{
    *ret_float = strchr("fbt", dtype[0]) != NULL;
    if (g_str_has_prefix(dtype, "tf"))
        return 32;
    const char *at = dtype;
    while (*at && !g_ascii_isdigit(*at))
        at++;
    return *at ? (unsigned)g_ascii_strtoull(at, NULL, 10) : 8;
}

/* The peak that work of @dtype takes; NULL where the unit lists none. *ret_fits: it is of that type or of a wider one of its family. */
static const EchPeak *peak_for(const EchUnit *unit, const char *dtype, bool *ret_fits)
{
    *ret_fits = true;
    if (!unit || unit->n_peaks == 0)
        return NULL;
    bool is_float;
    unsigned width = width_of(dtype, &is_float), best_width = UINT32_MAX;
    const EchPeak *best = NULL;
    for (size_t i = 0; i < unit->n_peaks; i++) {
        const EchPeak *peak = &unit->peaks[i];
        if (strcmp(peak->dtype, dtype) == 0)
            return peak;
        bool peak_float;
        unsigned peak_width = width_of(peak->dtype, &peak_float);
        if (peak_float == is_float && peak_width >= width && peak_width < best_width) {
            best = peak;
            best_width = peak_width;
        }
    }
    *ret_fits = best != NULL;
    return best ? best : &unit->peaks[0];
}

uint64_t ech_unit_peak(const EchUnit *unit, const char *dtype)
{
    bool fits;
    const EchPeak *peak = peak_for(unit, dtype, &fits);
    return peak ? peak->ops : 0;
}

const EchPeak *ech_unit_peak_borrowed(const EchUnit *unit, const char *dtype)
{
    bool fits;
    const EchPeak *peak = peak_for(unit, dtype, &fits);
    return fits ? NULL : peak;
}

static const EchDeviceNumber *find_number(const EchDevice *device, const char *path)
{
    uint64_t hash = ech_hash_bytes(path, strlen(path));
    for (size_t slot = hash & (device->n_slots - 1); device->number_slots && device->number_slots[slot]; slot = (slot + 1) & (device->n_slots - 1)) {
        const EchDeviceNumber *number = &device->numbers[device->number_slots[slot] - 1];
        if (number->hash == hash && strcmp(number->path, path) == 0)
            return number;
    }
    for (size_t i = 0; !device->number_slots && i < device->n_numbers; i++) {
        if (strcmp(device->numbers[i].path, path) == 0)
            return &device->numbers[i];
    }
    return NULL;
}

double ech_device_number(const EchDevice *device, const char *path, double fallback)
{
    const EchDeviceNumber *number = find_number(device, path);
    return number ? number->value : fallback;
}

const char *ech_device_number_source(const EchDevice *device, const char *path)
{
    const EchDeviceNumber *number = find_number(device, path);
    return number ? number->source : NULL;
}

bool ech_device_has_number(const EchDevice *device, const char *path)
{
    return find_number(device, path) != NULL;
}

EchBytes ech_device_context(const EchDevice *device)
{
    /* Assumed where nothing is said: as measured on A100s (their device file). */
    double assumed = g_strcmp0(device->family, "gpu") == 0 ? 512.0 * 1024 * 1024 : 0;
    return (EchBytes)ech_device_number(device, "runtime.driver.context_bytes", assumed);
}

double ech_device_peer_share(const EchDevice *device)
{
    return CLAMP(ech_device_number(device, "runtime.driver.peer_share", 1), 1e-3, 1);
}

bool ech_device_is_amd(const EchDevice *device)
{
    return g_strcmp0(device->family, "gpu") == 0 && device->compiler && g_str_has_prefix(device->compiler, "gfx");
}
