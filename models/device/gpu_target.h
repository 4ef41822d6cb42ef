/** @file gpu_target.h
 * XLA's description of a GPU as text (NAME.gpu_target_config.pbtxt of an XLA dump, NAME.txtpb of xla/backends/gpu/target_config/specs) as a device.
 *
 * ech_device_load() takes such a file wherever it takes a device; `echelon import FILE -o DEVICE.yaml` writes what it becomes. What the file says is
 * taken as it is; what it does not say (tensor cores of old files, achieved shares of bandwidths, the host) is filled in by capability and marked `assumed`.
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/** True if the bytes begin such a text. */
bool ech_gpu_target_probe(const char *head, size_t n);
/** The device as YAML text, for ech_yaml_parse or a file. @where names the text in messages ("FILE:line: ..."). Owned by the caller. ECH_ERROR_PARSE. */
GString *ech_gpu_target_yaml(const char *text, size_t n, const char *where, GError **error) G_GNUC_WARN_UNUSED_RESULT;
