/** @file device_yaml.h
 * Device descriptions from YAML trees, for those who have the tree already (experiments, fuzz targets). Everyone else calls ech_device_load().
 *
 * A device file:
 *
 *     name: my-chip
 *     summary: one line
 *     family: tpu                      # tpu, gpu or other
 *     compiler: v5e                    # whose compiler rules hold; may be left out
 *     cores: 1
 *     memories:
 *       hbm: {kind: hbm, space: 0, capacity: {value: 16GiB, source: "data sheet"}, read: 737GB/s, ...}
 *       host: {kind: host-pinned, space: 5, capacity: 512GiB}
 *     links:
 *       host: {from: host, to: hbm, to_device: {value: 15GB/s, source: assumed}, from_device: 15GB/s}
 *     units:
 *       matrix: {count: 4, rows: 128, columns: 128, clock: 1.5GHz, peaks: {bf16: 197TFLOP/s}}
 *     kernel: {step_overhead: 500}     # and runtime:, layout: any dotted numbers, for the models
 *
 * Every number stands as a value or as {value: ..., source: ...}; a `source:` of a section holds for its numbers that have none; without either a number
 * is `assumed`.
 *
 * `base: h100-sxm` takes what the file does not say from another device, down to single numbers; their sources then begin with "as h100-sxm: ". Not its name,
 * summary, products and day of calibration, nor what stands as `none`.
 */
#pragma once
#include "models/device/device.h"
#include "sim/base/yaml.h"

/** A key of a section of a device file: what it is called, what it takes ("size", "a|b") and what it means. */
typedef struct {
    const char *name, *takes, *doc;
} EchDeviceKey;
/** Is told each key of @section ("links.NAME"); NULL begins the section. */
typedef void (*EchDeviceTell)(const char *section, const EchDeviceKey *key, void *data);
void ech_device_keys(EchDeviceTell tell, void *data);

/** The device a tree describes. ECH_ERROR_CONFIG with FILE:line:column. */
EchDevice *ech_device_from_yaml(const EchYamlNode *root, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The same after @settings ("PATH=VALUE", with or without "device." in front; NULL-terminated or NULL). What hangs together with an edited number follows it
 * unless it is edited too: available keeps its distance from capacity and assignment_limit from available (what runtime and compiler keep is theirs,
 * whatever the size, up to half of it); both and both_ways keep their ratio to the sum of the two directions, but no less than what one way alone has; copies
 * over a link with a curve keep their set-up; a unit's peaks go with its clock, count, rows and columns, and with them what
 * kernel models count in its cycles. A memory that would hand out more than it has is refused, and a file's
 * link that would carry less both ways than one way. */
EchDevice *ech_device_load_yaml(const EchYamlNode *root, const char *const *settings, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The tree of the file of a device, or of the device file that XLA's description of a GPU stands for. What a file says instead of its base's is followed as
 * settings are. A file with a base and no name is called as the file is. As ech_device_load. Owned by the caller. */
EchYamlNode *ech_device_tree(const char *name_or_path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The same of a device that stands in another file and names its base. Without a name it is called "BASE, changed". Owned by the caller. */
EchYamlNode *ech_device_tree_over_base(const EchYamlNode *own, GError **error) G_GNUC_WARN_UNUSED_RESULT;
