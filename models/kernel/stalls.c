/* Where the time of tiled kernels goes. */
#include "models/kernel/stalls.h"

#include <string.h>

#define PLENTY_OF_BUFFERS 16

static const char *const stall_names[ECH_N_STALLS] = {
    [ECH_STALL_COMPUTE] = "compute",
    [ECH_STALL_HBM] = "hbm",
    [ECH_STALL_SPACE] = "space",
    [ECH_STALL_PORT] = "vmem_port",
    [ECH_STALL_LATENCY] = "dma_latency",
    [ECH_STALL_FILL] = "fill_drain",
    [ECH_STALL_OVERHEAD] = "step_overhead",
    [ECH_STALL_LINK] = "link",
};

const char *ech_stall_name(EchStall stall)
{
    return (unsigned)stall < ECH_N_STALLS ? stall_names[stall] : "unknown";
}

EchTime ech_stalls_total(const EchStalls *stalls)
{
    EchTime total = 0;
    for (unsigned i = 0; i < ECH_N_STALLS; i++)
        total = ech_time_add(total, stalls->at[i]);
    return total;
}

void ech_stalls_add(EchStalls *stalls, const EchStalls *more, EchTime time)
{
    EchTime whole = ech_stalls_total(more), given = 0;
    unsigned largest = 0;
    for (unsigned i = 0; i < ECH_N_STALLS; i++) {
        double share = whole > 0 ? (double)more->at[i] / (double)whole * (double)time : 0;
        EchTime part = share < 9e18 ? MIN((EchTime)share, time - given) : time - given;
        stalls->at[i] = ech_time_add(stalls->at[i], part);
        given += part;
        if (more->at[i] > more->at[largest])
            largest = i;
    }
    stalls->at[largest] = ech_time_add(stalls->at[largest], time - given); /* rounding */
}

void ech_kernel_stalls(const EchKernelCost *cost, EchStalls *ret)
{
    *ret = (EchStalls){{
        [ECH_STALL_COMPUTE] = cost->compute,
        [ECH_STALL_HBM] = cost->hbm,
        [ECH_STALL_SPACE] = cost->space,
        [ECH_STALL_PORT] = cost->port,
        [ECH_STALL_LATENCY] = cost->latency,
        [ECH_STALL_FILL] = MAX(cost->fill, 0),
        [ECH_STALL_OVERHEAD] = cost->overhead,
        [ECH_STALL_LINK] = cost->link,
    }};
}

/* The schedule with other buffers, latency or port. */
static EchPipelineResult run_as(const EchPipeline *pipeline, bool plenty, bool latency, bool port)
{
    EchPipelineOperand operands[ECH_PIPELINE_MAX_OPERANDS];
    EchPipeline changed = *pipeline;
    memcpy(operands, pipeline->operands, MIN(pipeline->n_operands, G_N_ELEMENTS(operands)) * sizeof *operands);
    for (size_t i = 0; plenty && i < pipeline->n_operands; i++)
        operands[i].buffers = operands[i].output ? 2 : MAX(operands[i].buffers, PLENTY_OF_BUFFERS);
    changed.operands = operands;
    if (!latency)
        changed.latency = changed.setup = 0;
    if (!port)
        changed.port = 0;
    EchPipelineResult result;
    ech_pipeline_run(&changed, &result);
    return result;
}

void ech_pipeline_stalls(const EchPipeline *pipeline, EchStalls *ret)
{
    EchPipelineResult as_is = run_as(pipeline, false, true, true), roomy = run_as(pipeline, true, true, true);
    /* Looking further ahead may, by the order of copies on a shared port, even cost a little: then room is not what lacks. */
    bool roomier = roomy.total < as_is.total;
    EchPipelineResult base = roomier ? roomy : as_is, prompt = run_as(pipeline, roomier, false, true);
    EchTime waits = base.wait_in + base.wait_out, bytes = MIN(prompt.wait_in + prompt.wait_out, waits);
    EchTime bare = run_as(pipeline, false, true, false).compute;
    *ret = (EchStalls){{
        [ECH_STALL_COMPUTE] = bare,
        [ECH_STALL_HBM] = bytes,
        [ECH_STALL_SPACE] = as_is.total - base.total,
        [ECH_STALL_PORT] = base.compute - bare,
        [ECH_STALL_LATENCY] = waits - bytes,
        [ECH_STALL_FILL] = base.fill + base.drain,
        [ECH_STALL_OVERHEAD] = base.overhead,
    }};
}

EchKernelInside ech_kernel_inside(const EchKernelCost *cost)
{
    EchKernelInside inside = {.vmem = cost->vmem, .by_vector = cost->by_vector || !(cost->macs > 0)};
    ech_kernel_stalls(cost, &inside.stalls);
    return inside;
}

void ech_kernel_inside_print(const EchKernelInside *inside, GString *out)
{
    for (unsigned i = 0; i < ECH_N_STALLS; i++)
        if (i == 0 || inside->stalls.at[i] > 0)
            g_string_append_printf(out, "%s%s_ps=%" G_GINT64_FORMAT, i > 0 ? " " : "", stall_names[i], MAX(inside->stalls.at[i], 0));
    if (inside->vmem > 0)
        g_string_append_printf(out, " vmem_bytes=%" G_GUINT64_FORMAT, inside->vmem);
    if (inside->by_vector)
        g_string_append(out, " vector=1");
}

static uint64_t figure(const char *text, const char *name, const char *unit)
{
    g_autofree char *key = g_strconcat(name, unit, NULL);
    const char *at = strstr(text, key);
    return at ? MIN(g_ascii_strtoull(at + strlen(key), NULL, 10), (guint64)INT64_MAX / 64) : 0;
}

bool ech_kernel_inside_parse(const char *text, EchKernelInside *ret)
{
    if (!g_str_has_prefix(text, "compute_ps="))
        return false;
    EchKernelInside inside = {.vmem = figure(text, "vmem", "_bytes="), .by_vector = figure(text, "vector", "=") > 0};
    for (unsigned i = 0; i < ECH_N_STALLS; i++)
        inside.stalls.at[i] = (EchTime)figure(text, stall_names[i], "_ps=");
    *ret = inside;
    return true;
}
