/* Every pass over traces, on any trace file: each gives a trace, which the next one takes, or an error that is not its own. What is planned anew is apart. A
 * part of what comes out is a trace, too, or cuts a loop. */
#include "sim/base/error.h"
#include "sim/trace/step.h"
#include "tests/fuzz/program_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static EchDevice *device;
    device = device ? device : ech_device_load("a100-80", NULL, NULL);
    g_assert(device);
    g_autoptr(EchTrace) trace = ech_trace_file_read((const char *)data, size, "fuzz", NULL);
    if (!trace || ech_trace_n_ops(trace) > 2000)
        return 0;
    static const char *const specs[] = {"unplan",
                                        "pad:align=1KiB",
                                        "pin",
                                        "batch:times=3",
                                        "remat:modules=blocks.*",
                                        "batch:parts=3,times=0.5",
                                        "shard:over=3",
                                        "offload:idle=0,above=1",
                                        "prefetch:depth=2",
                                        "plan",
                                        "schedule:copies=2,memory=1MiB",
                                        "remat:above=1",
                                        "shard:above=1,weights=false,over=5",
                                        "batch:rows=7,parts=2",
                                        "slice:above=1",
                                        "offload:what=arguments,above=1,overlap=true",
                                        "schedule",
                                        "plan",
                                        "shard:above=1,keep=true,over=2,modules=*",
                                        "serial"};
    for (size_t k = 0; k < G_N_ELEMENTS(specs); k++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
        g_ptr_array_add(passes, ech_pass_new(specs[k], &error));
        g_assert(!error);
        EchTrace *out = ech_passes_run_trace(passes, device, trace, diag, &error);
        g_assert((out != NULL) == (error == NULL));
        if (g_error_matches(error, ECH_ERROR, ECH_ERROR_VERIFY))
            g_error("%s: %s", specs[k], error->message);
        if (!out)
            continue;
        bool planned = out != trace && strcmp(specs[k], "plan") == 0 && g_strcmp0(ech_trace_get_property(out, "planned_anew"), "hbm") == 0;
        g_assert(!planned || ech_fuzz_places_are_apart(out, "hbm"));
        ech_trace_unref(trace);
        trace = out;
    }
    g_autoptr(GError) error = NULL;
    EchId n = (EchId)ech_trace_n_ops(trace);
    g_autoptr(EchTrace) part = ech_trace_part(trace, n / 3, n - n / 3, &error);
    g_assert(part || g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
    return 0;
}
