/* What reads recordings: validation, the selection of devices, and every writer, on any trace file. */
#include "sim/experiment/validate.h"
#include "sim/report/writers.h"
#include "sim/trace/file.h"
#include "sim/trace/select.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static EchDevice *devices[2];
    static const char *const names[] = {"tpu-v6e", "a100-80"};
    g_autoptr(EchTrace) trace = ech_trace_file_read((const char *)data, size, "fuzz", NULL);
    if (!trace || ech_trace_n_ops(trace) > 2000)
        return 0;
    for (size_t d = 0; d < G_N_ELEMENTS(names); d++) {
        if (!devices[d])
            devices[d] = ech_device_load(names[d], NULL, NULL);
        g_assert(devices[d]);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchValidation) validation = ech_validate_trace(trace, devices[d], &error);
        g_assert((validation != NULL) == (error == NULL));
        if (!validation)
            continue;
        for (size_t i = 0; i < validation->n_pairs; i++)
            g_assert(validation->pairs[i].measured > 0 && validation->pairs[i].predicted >= 0);
        g_autoptr(GString) text = ech_validation_text(validation, devices[d], "t", 80), html = ech_validation_html(validation, devices[d], "t"),
                           csv = ech_validation_csv(validation);
        g_assert(text && html && csv);
        JsonNode *json = ech_validation_json(validation, devices[d]);
        json_node_unref(json);
    }
    size_t n;
    const EchTraceWriter *writers = ech_trace_writers(&n);
    for (size_t i = 0; i < n; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(GBytes) bytes = NULL;
        if (strcmp(writers[i].name, "chakra") == 0) {
            GByteArray *nodes = ech_report_chakra(trace, 5000, diag, &error);
            bytes = nodes ? g_byte_array_free_to_bytes(nodes) : NULL;
        } else {
            bytes = writers[i].write(trace, "t", diag, &error);
        }
        g_assert((bytes != NULL) == (error == NULL));
    }
    EchSelectOptions options = {.device = 1, .clock = true, .pageable = "pages"};
    g_autofree EchId *map = g_new(EchId, ech_trace_n_ops(trace) + 1);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) one = ech_trace_select(trace, &options, map, &error);
    g_assert((one != NULL) == (error == NULL));
    return 0;
}
