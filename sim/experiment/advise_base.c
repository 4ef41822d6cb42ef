#include "sim/experiment/advise_private.h"

#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/base/tally.h"
#include "sim/experiment/devices.h"
#include "sim/experiment/served.h"
#include "sim/experiment/torch_measures.h"
#include "sim/import/hlo.h"
#include "sim/pass/batch.h"
#include "sim/pass/modules.h"
#include "sim/pass/remat.h"
#include "sim/program/softmax.h"
#include "sim/report/devices.h"
#include "sim/report/explain.h"
#include "sim/report/ranks.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"
#include <string.h>

/* Attention's scores are told from one part in SCORES of what is needed on. */
enum { SCORES = 8 };

/* So many lines are told that hold most. */
enum { MOST_LINES = 5 };

/* Devices that work at once for no more than one part in so many of a step take turns. */
#define BESIDE 10

/* What XLA compiled for TensorFlow: its names of a function and of a cluster of operators. */
static bool is_of_tensorflow(const EchProgram *program)
{
    return g_str_has_prefix(program->name, "a_inference_") || g_str_has_prefix(program->name, "cluster_");
}

/* Whether what was captured is a program of PyTorch's. */
static bool is_pytorch(const EchResult *result)
{
    static const char *const formats[] = {"memory_snapshot", "kineto", "pretend", "pytorch_et", NULL};
    bool others = result->allocator && !g_str_has_prefix(result->allocator, "pytorch"); /* TensorFlow's */
    return g_strv_contains(formats, ech_trace_format(result->trace)) && !others;
}

/* Whether anything is known to be kept for a backward pass, or made by one or by an optimizer; or what arrays are for is not known. */
static bool is_training(const EchResult *result)
{
    const EchBuffer *buffers = ech_trace_buffers(result->trace);
    bool any = false, known = false;
    for (size_t i = 0; i < ech_trace_n_buffers(result->trace); i++) {
        EchRole role = (EchRole)buffers[i].role;
        any |= role == ECH_ROLE_ACTIVATION || role == ECH_ROLE_GRADIENT || role == ECH_ROLE_OPTIMIZER;
        known |= role != ECH_ROLE_UNKNOWN;
    }
    return any || !known;
}

static bool has_averages(const EchTrace *trace)
{
    bool has = false;
    for (size_t i = 0; i < ech_trace_n_buffers(trace) && !has; i++)
        has = ech_trace_buffers(trace)[i].role == ECH_ROLE_WEIGHT_COPY;
    return has;
}

static bool has_collectives(const EchTrace *trace)
{
    bool has = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace) && !has; i++)
        has = ech_trace_ops(trace)[i].kind == ECH_OP_COLLECTIVE && ech_trace_ops(trace)[i].memory_from > 1;
    return has;
}

/* Who holds hbm at its fullest. Owned by the caller; NULL and 0: there is none. */
static EchHolder *holders_at_fullest(const EchResult *result, size_t *ret_n)
{
    EchReport report = ech_result_report(result);
    const EchMemoryRun *memory = ech_report_memory(result->run, "hbm");
    *ret_n = 0;
    return memory ? ech_report_holders(&report, "hbm", memory->peak_at, ret_n) : NULL;
}

/* EchTallyRow of each line of the program that made temporaries which hbm holds at its fullest, most bytes first. */
static GArray *rows_by_line(const EchResult *result)
{
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    EchTally *tally = ech_tally_new();
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(result->trace)[holders[i].buffer];
        bool given = buffer->role == ECH_ROLE_PARAMETER || buffer->role == ECH_ROLE_OPTIMIZER || buffer->role == ECH_ROLE_WEIGHT_COPY;
        char *line = given ? NULL : ech_report_source_line(ech_trace_string(result->trace, buffer->stack));
        if (line)
            ech_tally_add(tally, line, holders[i].bytes);
    }
    return ech_tally_end(tally);
}

/* Whose weights it holds, of a program of several modules, in a sentence; NULL where there are no two. */
static char *parts_of(const EchResult *result)
{
    EchReport report = ech_result_report(result);
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    g_autofree char *parts = ech_report_parts(&report, holders, n);
    return parts ? g_strdup_printf("Weights then, by who uses them: %s.", parts) : NULL;
}

/* How one says that images and videos are decoded in parts. */
#define VAE_TILES                                                                                                                                              \
    " Most of that is diffusers' autoencoder: pipe.vae.enable_tiling() has it go over images larger than its tiles (vae.tile_sample_min_size, _height, "       \
    "_width) in parts, enable_slicing() image by image; capture that anew."

/* Bytes of its temporaries that diffusers' autoencoders made, of what hbm holds at its fullest. */
static EchBytes decoded_held(const EchResult *result)
{
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    EchBytes bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(result->trace)[holders[i].buffer];
        if (buffer->role != ECH_ROLE_PARAMETER && strstr(ech_trace_string(result->trace, buffer->stack), "/diffusers/models/autoencoders/"))
            bytes = ech_bytes_add(bytes, holders[i].bytes);
    }
    return bytes;
}

/* What it holds in a sentence or two, without trifles; NULL where the program does not say. */
static char *lines_of(const EchResult *result)
{
    g_autoptr(GArray) rows = rows_by_line(result);
    EchBytes all = 0;
    for (guint i = 0; i < rows->len; i++)
        all = ech_bytes_add(all, g_array_index(rows, EchTallyRow, i).bytes);
    ech_tally_drop_trifles(rows);
    if (rows->len == 0)
        return NULL;
    g_autoptr(GString) text =
        g_string_new(result->program ? "Its temporaries then, by line of the program: " : "By line of the program, without what it is given: ");
    for (guint i = 0; i < MIN(rows->len, MOST_LINES); i++) {
        const EchTallyRow *row = &g_array_index(rows, EchTallyRow, i);
        g_autofree char *bytes = ech_format_bytes(row->bytes);
        g_string_append_printf(text, "%s%s (%s)", i ? ", " : "", row->name, bytes);
    }
    g_string_append(text, rows->len > MOST_LINES ? ", and others." : ".");
    if (decoded_held(result) > all / 2)
        g_string_append(text, VAE_TILES);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Elements of each array of attention's scores that a compiled program makes, uint64_t. */
static GArray *scores_of(const EchProgram *program)
{
    GArray *counts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autoptr(GArray) softmaxes = ech_program_softmaxes(program);
    for (guint i = 0; i < softmaxes->len; i++) {
        const EchSoftmax *softmax = &g_array_index(softmaxes, EchSoftmax, i);
        if (softmax->classes == 0)
            g_array_append_val(counts, softmax->elements);
    }
    return counts;
}

/* Whether an array, of the shape that @text says, is of so many elements, or a stack of such. */
static bool is_of_counts(const char *text, const GArray *counts)
{
    EchLayout layout;
    size_t used;
    if (!ech_layout_parse(text, strlen(text), &layout, &used, NULL))
        return false;
    uint64_t elements = ech_layout_elements(&layout), layers = layout.rank > 1 ? layout.dims[0] : 1;
    bool is = false;
    for (guint k = 0; k < counts->len && elements > 0; k++) {
        uint64_t count = g_array_index(counts, uint64_t, k);
        is |= elements == count || (elements / layers == count && elements % layers == 0);
    }
    return is;
}

/* What softmax is given and makes in PyTorch's modules that attend by themselves, or in a compiled program, in bytes of what hbm holds at its fullest. */
static EchBytes scores_held(const EchResult *result)
{
    const EchTrace *trace = result->trace;
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    g_autofree bool *is_score = g_new0(bool, ech_trace_n_buffers(trace) + 1);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        const char *stack = op->kind == ECH_OP_KERNEL ? ech_trace_string(trace, op->stack) : "";
        if (!strstr(stack, "aten::_softmax\n") || !strstr(stack, ECH_RANGE_MODULE) || strstr(stack, "aten::scaled_dot_product_attention"))
            continue;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            EchId buffer = ech_trace_uses(trace)[u].buffer;
            is_score[buffer] |= ech_trace_buffers(trace)[buffer].role != ECH_ROLE_PARAMETER;
        }
    }
    g_autoptr(GArray) counts = result->program ? scores_of(result->program) : NULL;
    EchBytes bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[holders[i].buffer];
        bool compiled = counts && buffer->role == ECH_ROLE_TEMPORARY && is_of_counts(ech_trace_string(trace, buffer->shape), counts);
        bytes = ech_bytes_add(bytes, compiled || is_score[holders[i].buffer] ? holders[i].bytes : 0);
    }
    return bytes;
}

/* Is there a parameter of the program that belongs to this argument? */
static bool is_argument(const EchProgram *program, const char *name, size_t n)
{
    const EchComputation *entry = &program->computations[program->entry];
    for (EchId i = entry->first; n > 0 && i < entry->first + entry->n; i++) {
        const char *own = program->instructions[i].opcode == ECH_HLO_PARAMETER ? program->instructions[i].op_name : NULL;
        if (own && strspn(own, ECH_ARGUMENT_LETTERS) == n && strncmp(own, name, n) == 0)
            return true;
    }
    return false;
}

/* The arguments of the program whose arrays' places results could take, quoted for a list ("p", "state" of "2 arguments (of p, state: state['w'][0] and others,
 * ..."); NULL where none is named. */
static char *undonated_of(const EchProgram *program, JsonArray *remarks)
{
    for (guint k = 0; program && remarks && k < json_array_get_length(remarks); k++) {
        const char *remark = json_array_get_string_element(remarks, k), *named = strchr(remark, '(');
        if (!named++ || !strstr(remark, ECH_REMARK_UNDONATED))
            continue;
        g_autoptr(GString) found = g_string_new(NULL);
        bool several = g_str_has_prefix(named, ECH_REMARK_OF_ARGUMENTS);
        for (named += several ? strlen(ECH_REMARK_OF_ARGUMENTS) : 0; *named != '\0';) {
            size_t n = strspn(named, ECH_ARGUMENT_LETTERS);
            if (!is_argument(program, named, n))
                break;
            g_string_append_printf(found, "%s\"%.*s\"", found->len > 0 ? ", " : "", (int)n, named);
            named += n;
            if (!several || !g_str_has_prefix(named, ", "))
                break;
            named += strlen(", ");
        }
        if (found->len > 0)
            return g_string_free(g_steal_pointer(&found), FALSE);
    }
    return NULL;
}

/* Which step times are of, where it is not the whole run that they are of. */
static void tell_step(Advise *a, JsonObject *run, GPtrArray *said)
{
    JsonArray *steps = a->alone ? NULL : ech_advise_steps_of(run);
    a->advice->per = steps || a->alone || a->xla ? "a step" : "in all";
    if (!steps)
        return;
    a->advice->n_steps = json_array_get_length(steps);
    JsonObject *step = json_array_get_object_element(steps, MIN(a->step, (guint)a->advice->n_steps - 1));
    const char *name = ech_member_text(step, "name");
    a->advice->step = g_strconcat(name, ech_step_until(name, json_object_has_member(step, "of_several_optimizers")), NULL);
    a->advice->number = MIN(a->step + 1, a->advice->n_steps);
    g_autofree char *time = ech_format_time(a->advice->base.makespan);
    g_ptr_array_insert(said, (gint)MIN(said->len, 1u),
                       g_strdup_printf("Its last step%s, %zu of %zu, from %s, takes %s: times below are of that step, memory is of the whole.",
                                       a->before_last                           ? " but one"
                                       : a->advice->number < a->advice->n_steps ? " with as large a batch as most"
                                                                                : "",
                                       a->advice->number, a->advice->n_steps, a->advice->step, time));
}

/* What is said of the run as it is. @run: in as much memory as it wants; @here: in what there is. */
static void tell_base(Advise *a, const EchProgram *program, JsonObject *run, JsonObject *here, const char *parts, const char *lines, const char *scores)
{
    g_autoptr(GPtrArray) said = ech_explain_run(run);
    tell_step(a, run, said);
    a->advice->checkpointed = a->again >= 0;
    if (a->again >= 0)
        g_ptr_array_add(said,
                        g_strdup(a->again >= MOST_AGAIN
                                     ? "It makes activations again by itself (jax.checkpoint), most products too: what would make more again is not tried."
                                     : "It makes activations again by itself (jax.checkpoint), and keeps products: a policy that keeps more is not tried."));
    if (a->advice->forward)
        g_ptr_array_add(said, g_strdup("It has no backward pass, for which jax.checkpoint would make activations again."));
    if (parts)
        g_ptr_array_add(said, g_strdup(parts));
    if (lines)
        g_ptr_array_add(said, g_strdup(lines));
    if (a->attends)
        g_ptr_array_add(said, g_strdup_printf("Softmax takes or makes %s of that, of all pairs of positions: %s keeps no such array.", scores,
                                              a->pytorch || !program                  ? ECH_TORCH_SDPA
                                              : program->platform == ECH_PLATFORM_TPU ? "jax.experimental.pallas.ops.tpu.splash_attention"
                                                                                      : "jax.nn.dot_product_attention(implementation=\"cudnn\")"));
    const char *went_on = ech_member_text(here, "went_on_when_captured");
    if (went_on)
        g_ptr_array_add(said, g_strdup(went_on));
    JsonArray *remarks = json_object_get_array_member(here, "remarks");
    a->advice->undonated = undonated_of(program, remarks);
    for (guint i = 0; remarks && i < json_array_get_length(remarks); i++) {
        const char *remark = json_array_get_string_element(remarks, i);
        if (g_str_has_prefix(remark, ECH_REMARK_OPTIMIZER))
            g_ptr_array_add(said, g_strdup_printf("%s.", remark));
        if (g_str_has_prefix(remark, ECH_REMARK_CACHE) || g_str_has_prefix(remark, ECH_REMARK_DEVICES)) /* one device of a recording */
            g_ptr_array_insert(said, 0, g_strdup_printf("T%s.", remark + 1));
    }
    g_ptr_array_add(said, NULL);
    a->advice->holds = g_strdupv((char **)said->pdata);
}

/* Whether weights are most of what a program without a backward pass needs, none of them of few bits as far as its libraries tell. */
static bool is_for_few_bits(const Advise *a, const EchTrace *trace)
{
    EchBytes weights = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[i];
        if (buffer->role == ECH_ROLE_PARAMETER && buffer->alias_of == ECH_NONE)
            weights = ech_bytes_add(weights, buffer->bytes);
    }
    return !a->trains && weights > a->advice->base.hbm / 2 && !ech_trace_says(trace, "torchao", "") && !ech_trace_says(trace, "bitsandbytes", "");
}

char *ech_advise_measures_to_capture(const Advise *a, const EchTrace *trace, const char *const *also)
{
    bool wide = false, narrow = false, few_bits = false, generated = false;
    const char *with = ech_trace_get_property(trace, ECH_TRACE_WITH);
    if (!a->pytorch || a->by_hand || a->serves || with || also || !ech_trace_get_property(trace, "pretended_device") || !ech_trace_says(trace, "aten::", ""))
        return NULL;
    for (const EchOp *op = ech_trace_ops(trace), *end = op + ech_trace_n_ops(trace); op < end; op++) {
        const char *launch = op->kind == ECH_OP_KERNEL && op->launch != ECH_NONE ? ech_trace_string(trace, op->launch) : NULL;
        EchGpuLaunch gpu;
        generated |= launch && g_str_has_prefix(ech_trace_string(trace, op->name), "triton_");
        if (!launch || !strstr(launch, "product=") || !ech_gpu_launch_parse(launch, &gpu))
            continue;
        wide |= gpu.operand_bytes >= 4;
        narrow |= gpu.operand_bytes < 4;
        few_bits |= gpu.operand_bytes < 2;
    }
    g_autoptr(GString) asked = g_string_new(a->advice->keeps ? a->attends ? "no_grad, sdpa" : "no_grad" : a->attends ? "sdpa" : NULL);
    if (wide && !narrow)
        g_string_append_printf(asked, "%sautocast", asked->len > 0 ? ", " : "");
    if (!generated)
        g_string_append_printf(asked, "%scompile", asked->len > 0 ? ", " : "");
    if (narrow && !few_bits && is_for_few_bits(a, trace))
        g_string_append_printf(asked, "%squantize%s", asked->len > 0 ? ", " : "",
                               ech_trace_says(trace, "/diffusers/models/", "") && !ech_trace_says(trace, "layerwise_casting.py", "") ? ", layerwise_casting"
                                                                                                                                     : "");
    return asked->len > 0 ? g_string_free(g_steal_pointer(&asked), FALSE) : NULL;
}

/* Which of its steps times are of; of one alone that is cut out of them, and has another batch than most have, rows are not told. */
static void choose_step(Advise *a, const EchResult *result)
{
    size_t n, n_whole = 0;
    g_autofree EchTraceStep *steps = ech_trace_steps(result->trace, &n), *whole = result->whole ? ech_trace_steps(result->whole, &n_whole) : NULL;
    a->step = steps ? (guint)ech_trace_usual_step(steps, n) : 0;
    /* A model's last call leaves nothing to any other: a cache on the host would go and not come back. */
    const EchOp *mark = steps ? &ech_trace_ops(result->trace)[steps[n - 1].mark] : NULL;
    a->before_last =
        n > 2 && a->step + 1 == n && steps[n - 2].rows == steps[n - 1].rows && ech_mark_is_module_call(ech_trace_string(result->trace, mark->name));
    a->step -= a->before_last;
    if (steps && whole && steps[a->step].rows != whole[ech_trace_usual_step(whole, n_whole)].rows)
        a->advice->batch = 0;
}

/* What each device needs, with as much room as that. */
static void note_needs(EchAdvice *advice, const GPtrArray *results)
{
    for (size_t i = 0; i < advice->n_devices; i++) {
        size_t n;
        EchReport report = ech_result_report(results->pdata[i]);
        g_autofree EchMemoryUse *uses = ech_report_uses(&report, &n);
        const EchMemoryRun *hbm = ech_report_memory(report.run, "hbm");
        for (size_t k = 0; k < n; k++)
            if (strcmp(uses[k].memory, "hbm") == 0)
                advice->devices[i].hbm = uses[k].bytes;
        advice->devices[i].beside = hbm ? hbm->peak_reserved - MIN(hbm->peak_reserved, hbm->peak_live) : 0;
    }
}

/* Whether devices work one after the other, but for an optimizer and the like: moving work from one to another of the same kind takes as long. */
static bool run_in_turn(const GPtrArray *results)
{
    EchReport reports[ECH_MAX_RANKS];
    for (guint i = 0; i < results->len; i++)
        reports[i] = ech_result_report(results->pdata[i]);
    g_autoptr(EchRanks) ranks = ech_ranks_new(reports, results->len);
    EchTime step = 0, busy = 0;
    for (size_t i = 0; i < ranks->n; i++) {
        step = MAX(step, ranks->ranks[i].end - ranks->ranks[i].start);
        busy = ech_time_add(busy, ranks->ranks[i].times[ECH_RANK_KERNELS]);
    }
    return busy <= step + step / BESIDE;
}

static EchResult *fullest_of(const GPtrArray *results)
{
    EchReport reports[ECH_MAX_RANKS];
    for (guint i = 0; i < results->len; i++)
        reports[i] = ech_result_report(results->pdata[i]);
    return results->pdata[ech_report_fullest_device(reports, results->len)];
}

/* What was captured: of several devices all of them. */
static const EchTrace *whole_trace(const Advise *a, const EchResult *result)
{
    const EchImport *import = a->advice->n_devices > 0 || result->program ? NULL : ech_experiment_import_case(a->experiment, a->base, NULL);
    return import && import->trace && !import->program ? import->trace : result->trace;
}

/* Where several devices run it. */
static void take_devices(EchAdvice *advice, const GPtrArray *results)
{
    advice->n_devices = results->len > 1 ? results->len : 0;
    advice->devices = g_new0(EchAdviceDevice, advice->n_devices + 1);
    for (size_t i = 0; i < advice->n_devices; i++) {
        EchReport report = ech_result_report(results->pdata[i]);
        advice->devices[i] = (EchAdviceDevice){.number = (uint32_t)ech_trace_number(report.trace, i), .fits = ech_report_fits(&report)};
    }
    note_needs(advice, results);
}

bool ech_advise_run_base(Advise *a, GPtrArray **ret_results, EchResult **ret, GError **error)
{
    EchAdvice *advice = a->advice;
    g_autoptr(GPtrArray) results = ech_experiment_run_whole(a->experiment, a->base, error);
    if (!results)
        return false;
    EchResult *result = fullest_of(results);
    const EchTrace *whole = whole_trace(a, result);
    advice->blocks = ech_modules_repeated(whole);
    take_devices(advice, results);
    a->pytorch = is_pytorch(result);
    a->by_hand = g_strcmp0(ech_trace_get_property(result->trace, "host_order"), ECH_HOST_COMPILED) == 0;
    for (guint i = 0; i < results->len; i++)
        a->trains |= is_training(results->pdata[i]);
    advice->keeps = !a->trains && ech_trace_get_property(result->trace, ECH_TRACE_KEEPS);
    a->serves = advice->serves = ech_serves(result->trace);
    a->twice = ech_trace_says(whole, "BackwardBackward", ""); /* nodes of autograd for gradients of gradients: "ConvolutionBackwardBackward0" */
    a->lists = ech_trace_says(whole, "aten::_foreach_", "\n" ECH_RANGE_OPTIMIZER);
    a->averages = has_averages(whole);
    a->loops = ech_trace_has_op(result->trace, ECH_OP_LOOP);
    a->advice->holds_alone = !ech_trace_has_op(whole, ECH_OP_KERNEL);
    a->logits = ech_trace_get_property(result->trace, ECH_TRACE_LOGITS) != NULL;
    a->xla = result->program != NULL;
    a->tensorflow = a->xla && is_of_tensorflow(result->program);
    a->again = a->xla ? ech_program_products_again(result->program) : -1;
    advice->forward = a->xla && ech_program_is_forward(result->program);
    a->remade = a->xla && ech_trace_is_remade(result->trace);
    a->tpu = a->xla && result->program->platform == ECH_PLATFORM_TPU;
    a->several = a->xla ? (uint64_t)result->program->partitions * result->program->replicas > 1 : has_collectives(whole);
    advice->margin = ech_remat_margin(result->trace);
    if (a->pytorch && a->trains)
        ech_batch_kind(result->trace, result->device, &advice->is_graph, &advice->of_pairs);
    bool tensors = !ech_trace_get_property(result->trace, ECH_TRACE_SEGMENTS);
    const char *rows =
        a->pytorch && a->trains && tensors && !advice->is_graph && !advice->of_pairs ? ech_trace_get_property(result->trace, ECH_TRACE_BATCH) : NULL;
    advice->batch = rows ? g_ascii_strtoull(rows, NULL, 10) : 0;
    const EchMemory *hbm = ech_device_memory(result->device, "hbm");
    if (!hbm) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s has no memory 'hbm'; advice is about that", result->device->name);
        return false;
    }
    if (ech_trace_get_property(result->trace, "sums_only")) {
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
            "%s is a message, with sums and no program in it; measures are tried on the program itself, which 'echelon capture --pretend %s -- COMMAND' "
            "writes down without the device",
            a->experiment->title, result->device->name);
        return false;
    }
    choose_step(a, result);
    EchReport report = ech_result_report(result);
    EchRanOut ran;
    if (ech_report_ran_out(&report, &ran)) {
        g_free(ran.line);
        if (ran.said)
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                        "the server stopped when it was captured, and what a step of it takes is not known; expected one that came to serve. It said: %s",
                        ran.said);
        else
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                        "the program ran out of memory when it was captured, and what it needs in all is not known; expected one that was captured with room: "
                        "'echelon capture --pretend %s --set device.memories.hbm.capacity=1TiB'",
                        result->device->name);
        return false;
    }
    g_autoptr(JsonNode) node = ech_results_json(results, true);
    const EchMemoryRun *used = ech_report_memory(result->run, "hbm");
    advice->available = used ? used->available : hbm->available;
    advice->context = used ? used->context : 0;
    EchCrowded crowded;
    if (ech_report_crowded(&report, &crowded)) {
        GString *text = g_string_new(NULL);
        ech_report_append_crowded(text, &report, &crowded, 0);
        advice->kernel = g_string_free(text, FALSE);
    }
    advice->base = ech_advise_run_of(a, json_node_get_object(node));
    const char *short_of = ech_member_text(ech_member_object(json_node_get_object(node), "failure"), "memory");
    if (!advice->base.fits && short_of && strcmp(short_of, "hbm") != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "what is short is the memory '%s'; advice is about hbm", short_of);
        return false;
    }
    g_autoptr(JsonNode) roomy_node = NULL;
    g_autofree char *lines = advice->base.fits ? lines_of(result) : NULL, *parts = advice->base.fits ? parts_of(result) : NULL;
    bool attention = a->pytorch || (a->xla && !ech_device_is_amd(result->device));
    EchBytes scores = advice->base.fits && attention ? scores_held(result) : 0;
    if (!advice->base.fits) {
        EchCase *roomy = ech_advise_vary_memory(a->base, ROOMY, error);
        g_autoptr(GPtrArray) with_room = roomy ? ech_experiment_run_whole(a->experiment, roomy, error) : NULL;
        ech_case_free(roomy);
        if (!with_room)
            return false;
        const EchResult *fullest = fullest_of(with_room);
        roomy_node = ech_results_json(with_room, true);
        lines = lines_of(fullest);
        parts = parts_of(fullest);
        scores = attention ? scores_held(fullest) : 0;
        note_needs(advice, with_room);
        a->in_turn = run_in_turn(with_room);
        EchBytes planned = advice->base.hbm;
        bool compiled = ech_member_bool(ech_member_object(ech_member_object(json_node_get_object(node), "needs"), "hbm"), "planned");
        advice->base = ech_advise_run_of(a, json_node_get_object(roomy_node));
        advice->base.fits = false;
        advice->base.hbm = compiled ? planned : advice->base.hbm;
    } else
        a->in_turn = run_in_turn(results);
    advice->live_fits = advice->base.hbm <= advice->available;
    a->attends = scores > advice->base.hbm / SCORES;
    g_autofree char *scores_text = ech_format_bytes(scores);
    tell_base(a, result->program, json_node_get_object(roomy_node ? roomy_node : node), json_node_get_object(node), parts, lines, scores_text);
    *ret = result;
    *ret_results = g_steal_pointer(&results);
    return true;
}
