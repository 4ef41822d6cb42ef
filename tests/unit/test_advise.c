/* Advice is what running the measures says: each row again by its options. */
#include "sim/experiment/advise.h"
#include "sim/import/import.h"
#include "sim/report/explain.h"
#include "sim/trace/file.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

static EchExperiment *load(const char *trace, const char *device, const char *allocator, const char *const *passes, const char *const *settings)
{
    g_autofree char *path = g_strconcat(ECH_SOURCE_DIR "/traces/", trace, NULL);
    GError *error = NULL;
    const EchExperimentOverrides overrides = {.trace = path, .device = device, .allocator = allocator, .passes = passes, .settings = settings};
    EchExperiment *experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    return experiment;
}

/* The specs behind each @option of @options; NULL-terminated. */
static char **said(const char *options, const char *option)
{
    g_auto(GStrv) words = g_strsplit(options, " ", -1);
    g_autoptr(GStrvBuilder) out = g_strv_builder_new();
    for (char **word = words; *word; word += 2) {
        ck_assert(strcmp(*word, "--pass") == 0 || strcmp(*word, "--allocator") == 0 || strcmp(*word, "--set") == 0);
        if (strcmp(*word, option) == 0)
            g_strv_builder_add(out, word[1]);
    }
    return g_strv_builder_end(out);
}

static EchAdvice *advise_on(EchExperiment *experiment, const char *memory, unsigned jobs)
{
    GError *error = NULL;
    EchAdvice *advice = ech_advise(experiment, memory, NULL, jobs, NULL, NULL, NULL, &error);
    ck_assert_ok(advice != NULL, error);
    return advice;
}

static EchAdvice *advise(const char *trace, const char *device, const char *memory, unsigned jobs)
{
    g_autoptr(EchExperiment) experiment = load(trace, device, NULL, NULL, NULL);
    return advise_on(experiment, memory, jobs);
}

/* The last step's, where the run tells steps. */
static EchTime time_of_step(JsonObject *run)
{
    JsonArray *steps = json_object_has_member(run, "steps") ? json_object_get_array_member(run, "steps") : NULL;
    return steps ? ech_member_int(json_array_get_object_element(steps, json_array_get_length(steps) - 1), "duration_ps") : ech_member_int(run, "makespan_ps");
}

static const struct {
    const char *trace, *device, *memory, *allocator; /* allocator: that advice takes where none is given */
    bool helps;
} asked[] = {
    {"gpt_everything.h100", "h100-sxm", "100MiB", NULL, true},    {"gpt_unrolled_kept.h100", "h100-sxm", "140MiB", NULL, true},
    {"gpt_unrolled_kept.h100", "h100-sxm", "30MiB", NULL, false}, {"gpt_everything.v5e", "tpu-v5e", NULL, NULL, true},
    {"cache_scan.v5e", "tpu-v5e", "900MiB", NULL, true},          {"gpt_pytorch.h100", "h100-sxm", "4352MiB", "pytorch", true},
};

START_TEST(rows_run_again)
{
    g_autoptr(EchAdvice) advice = advise(asked[_i].trace, asked[_i].device, asked[_i].memory, 1);
    ck_assert_int_eq(ech_advice_helps(advice), asked[_i].helps);
    ck_assert_uint_gt(advice->n, 0);
    size_t n_fitting = 0;
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        ck_assert_ptr_null(row->error);
        if (!row->run.fits || row->nothing)
            continue;
        ck_assert(advice->base.fits ? row->run.hbm < advice->base.hbm : row->run.hbm <= advice->available);
        g_auto(GStrv) passes = said(row->options, "--pass"), allocators = said(row->options, "--allocator");
        g_auto(GStrv) sets = said(row->options, "--set");
        const char *settings[4] = {"replay.engine=native"};
        ck_assert_uint_lt(g_strv_length(sets), G_N_ELEMENTS(settings) - 1);
        memcpy(settings + 1, sets, g_strv_length(sets) * sizeof *sets);
        g_autoptr(EchExperiment) again =
            load(asked[_i].trace, asked[_i].device, *allocators ? *allocators : asked[_i].allocator, (const char *const *)passes, settings);
        GError *error = NULL;
        g_autoptr(EchResult) result = ech_experiment_run(again, 0, &error);
        ck_assert_ok(result != NULL, error);
        EchReport report = ech_result_report(result);
        g_autoptr(JsonNode) json = ech_report_json(&report);
        JsonObject *run = json_node_get_object(json);
        ck_assert(ech_member_bool(run, "fits"));
        ck_assert_int_eq(time_of_step(run), row->run.makespan);
        EchBytes on_host = row->paged ? row->run.host : 0; /* of what is told of the device's */
        ck_assert_uint_eq((EchBytes)ech_run_memory_bytes(run, "hbm"), row->run.hbm + on_host);
        ck_assert_uint_eq((EchBytes)ech_run_memory_bytes(run, "host"), row->run.host - on_host);
        n_fitting += !row->paged;
    }
    ck_assert(n_fitting > 0 || !asked[_i].helps);
}
END_TEST

/* What would fit may not, as a compiler has it, until less is asked of the pass: of a scan's stacks, and of products over split weights. */
static const struct {
    const char *trace, *device, *memory;
} narrow_at_first[] = {{"checkpointed/llama_scan.v5p", "tpu-v5p", "1200MiB"}, {"checkpointed/gpt_split.v6e", "tpu-v6e", "820MiB"}};

START_TEST(sure_with_less)
{
    g_autoptr(EchAdvice) advice = advise(narrow_at_first[_i].trace, narrow_at_first[_i].device, narrow_at_first[_i].memory, 1);
    size_t n = 0;
    for (size_t i = 0; i < advice->n; i++)
        n += strcmp(advice->rows[i].name, "remat") == 0 && advice->rows[i].run.fits && !advice->rows[i].run.narrow;
    ck_assert_uint_eq(n, 1);
}
END_TEST

/* Those that fit come first, quickest first; of times that are hardly told apart, what is least to do. */
START_TEST(in_order)
{
    g_autoptr(EchAdvice) advice = advise("gpt_unrolled_kept.h100", "h100-sxm", "140MiB", 1);
    ck_assert(!advice->base.fits);
    for (size_t i = 1; i < advice->n; i++) {
        const EchAdviceRow *before = &advice->rows[i - 1], *row = &advice->rows[i];
        ck_assert(before->run.fits || !row->run.fits || row->nothing || row->paged);
        ck_assert(!before->paged || row->paged || !row->run.fits || row->nothing);
        ck_assert(!before->nothing || row->nothing);
        if (before->run.fits && row->run.fits && !row->nothing && !row->paged)
            ck_assert_int_le(before->run.makespan - before->run.makespan / 20, row->run.makespan);
    }
}
END_TEST

/* To a program of PyTorch's that repeats blocks: checkpoint() takes those, not arrays; what it keeps goes to the host all or not at all; and where what is free
 * is in pieces, with segments that grow. What makes again and sends is more than the former, however early it ends here. */
START_TEST(of_pytorch)
{
    g_autoptr(EchAdvice) advice = advise("gpt_pytorch.h100", "h100-sxm", _i ? "1900MiB" : "2300MiB", 1);
    ck_assert_str_eq(advice->blocks, "blocks.*");
    size_t growing = 0, combined = 0;
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        ck_assert(!strstr(row->options, "--pass remat") || strstr(row->options, "--pass remat:modules=blocks.*"));
        ck_assert(strcmp(row->name, "save_on_cpu") != 0 || !strstr(row->options, "memory="));
        growing += row->growing && strstr(row->options, "--allocator pytorch:expandable_segments:True --pass ") != NULL;
        combined += g_str_has_prefix(row->name, "blocks_and_") && !row->nothing && row->run.host > (EchBytes)100 << 20;
    }
    ck_assert_uint_gt(growing, 0);
    ck_assert_uint_eq(combined, 3);
    g_autoptr(GString) text = ech_advice_text(advice, 0);
    ck_assert(strstr(text->str, "for block(x) of blocks.*"));
    ck_assert(strstr(text->str, "By line of the program, without what it is given: gpt_train.py:"));
}
END_TEST

/* The largest batch that has room, which one row more has not; where none has, what one of a row needs. */
static const struct {
    const char *memory;
    uint64_t most;
    bool more;
} batches[] = {{"3GiB", 3, false}, {"6GiB", 9, false}, {"1300MiB", 0, false}, {"2TiB", 512, true}};

START_TEST(largest_batch)
{
    g_autoptr(EchAdvice) advice = advise("gpt_pytorch.h100", "h100-sxm", batches[_i].memory, 1);
    ck_assert_uint_eq(advice->batch, 8);
    ck_assert_uint_eq(advice->most_batch, batches[_i].most);
    ck_assert_int_eq(advice->more_batch, batches[_i].more);
    ck_assert_int_eq(advice->most.hbm <= advice->available, batches[_i].most > 0);
    for (uint64_t k = 0; k < 2 && batches[_i].most > 0 && !batches[_i].more; k++) {
        g_autofree char *spec = g_strdup_printf("batch:rows=%" G_GUINT64_FORMAT, batches[_i].most + k),
                        *capacity = g_strdup_printf("device.memories.hbm.capacity=%s", batches[_i].memory),
                        *available = g_strdup_printf("device.memories.hbm.available=%s", batches[_i].memory);
        const char *const passes[] = {spec, NULL}, *const settings[] = {"replay.engine=native", capacity, available, NULL};
        g_autoptr(EchExperiment) again = load("gpt_pytorch.h100", "h100-sxm", NULL, passes, settings);
        GError *error = NULL;
        g_autoptr(EchResult) result = ech_experiment_run(again, 0, &error);
        ck_assert_ok(result != NULL, error);
        EchReport report = ech_result_report(result);
        g_autoptr(JsonNode) json = ech_report_json(&report);
        ck_assert_int_eq(ech_member_bool(json_node_get_object(json), "fits"), k == 0);
    }
    g_autoptr(GString) text = ech_advice_text(advice, 0);
    ck_assert(strstr(text->str, batches[_i].most > 0 ? " as it is (8 now)" : "No smaller batch fits as it is (8 now): one of 1 needs "));
}
END_TEST

/* What TensorFlow records is no program of PyTorch's. */
START_TEST(of_tensorflow)
{
    g_autoptr(EchAdvice) advice = advise("keras_cnn.h100", "h100-sxm", "70MiB", 1);
    g_autoptr(GString) text = ech_advice_text(advice, 0);
    ck_assert_uint_gt(advice->n, 0);
    ck_assert(!strstr(text->str, "torch"));
}
END_TEST

/* Nobody has another device at hand: they are told after all that can be done to the program, the smallest first. */
START_TEST(devices_last)
{
    g_autoptr(EchAdvice) advice = advise("published_steps/mistral-7b.v6e-8.hlo.txt.gz", "tpu-v5e", NULL, 1);
    ck_assert(!advice->base.fits && ech_advice_helps(advice));
    size_t n = 0;
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        bool may = !row->nothing && !row->error && (row->run.fits || row->run.narrow);
        ck_assert(row->device || n == 0 || !may);
        if (row->device && n++ == 0)
            ck_assert_str_eq(row->label, "tpu-v6e");
    }
    ck_assert_uint_gt(n, 1);
}
END_TEST

/* Times are a step's where the capture tells steps, as those of the step alone are; what is quicker and needs no less is told with its time. */
START_TEST(times_of_a_step)
{
    g_autoptr(EchAdvice) advice = advise("gpt_pytorch.h100", "l4", NULL, 1);
    const char *const settings[] = {"replay.engine=native", NULL}, *const passes[] = {"batch:rows=38", NULL};
    g_autofree char *path = g_strconcat(ECH_SOURCE_DIR "/traces/gpt_pytorch.h100", NULL);
    ck_assert_uint_eq(advice->n_steps, 2);
    ck_assert_uint_eq(advice->most_batch, 38);
    for (int k = 0; k < 2; k++) {
        const EchExperimentOverrides overrides = {.trace = path, .device = "l4", .step = "last", .passes = k ? passes : NULL, .settings = settings};
        GError *error = NULL;
        g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
        ck_assert_ok(experiment != NULL, error);
        g_autoptr(EchResult) alone = ech_experiment_run(experiment, 0, &error);
        ck_assert_ok(alone != NULL, error);
        EchTime told = k ? advice->most.makespan : advice->base.makespan;
        ck_assert_int_le(ABS(told - alone->run->makespan), told / 100);
    }
    g_autoptr(GString) text = ech_advice_text(advice, 0);
    ck_assert(strstr(text->str, "Its last step, 2 of 2, from Optimizer.step#AdamW.step to the next, takes "));
    ck_assert(strstr(text->str, "    optimizer in one kernel (116 ms, x0.852);"));
    g_autoptr(JsonNode) json = ech_advice_json(advice);
    ck_assert_int_eq(ech_member_int(ech_member_object(json_node_get_object(json), "step"), "number"), 2);
}
END_TEST

static const EchAdviceRow *row_of(const EchAdvice *advice, const char *name)
{
    for (size_t i = 0; i < advice->n; i++)
        if (strcmp(advice->rows[i].name, name) == 0)
            return &advice->rows[i];
    ck_abort_msg("no %s", name);
}

/* What a program's own jax.checkpoint makes again, or keeps less than, is no measure. */
START_TEST(checkpoints_of_its_own)
{
    g_autoptr(EchAdvice) all = advise("gpt_nothing.h100", "h100-sxm", "24500KiB", 1), some = advise("gpt_unrolled_kept.h100", "h100-sxm", "140MiB", 1);
    for (size_t i = 0; i < all->n; i++)
        ck_assert_msg(!strstr(all->rows[i].options, "remat"), "%s", all->rows[i].options);
    for (size_t i = 0; i < some->n; i++)
        ck_assert_str_ne(some->rows[i].name, "remat_cheap");
    ck_assert(row_of(some, "remat")->run.fits);
    g_autoptr(GString) text = ech_advice_text(some, 0);
    ck_assert(strstr(text->str, "jax.checkpoint(block) without the policy that it has") && strstr(text->str, "and keeps products"));
    ck_assert(all->checkpointed && some->checkpointed);
}
END_TEST

/* What XLA compiled for TensorFlow is told TensorFlow's words, and nothing that it has none for. */
START_TEST(words_of_tensorflow)
{
    GError *error = NULL;
    g_autoptr(EchSource) source = ech_source_open(ECH_SOURCE_DIR "/traces/gpt_unrolled_kept.h100/program.hlo.txt.gz", &error);
    ck_assert_ok(source != NULL, error);
    g_autoptr(GBytes) bytes = ech_source_bytes(source, SIZE_MAX, &error);
    ck_assert_ok(bytes != NULL, error);
    const char *text = g_bytes_get_data(bytes, NULL), *name = "HloModule a_inference_step_7__.1";
    ck_assert(g_str_has_prefix(text, "HloModule jit_step"));
    g_autofree char *folder = g_dir_make_tmp("echelon-advise-XXXXXX", NULL), *path = g_build_filename(folder, "step.hlo.txt", NULL);
    g_autoptr(GString) out = g_string_new(name);
    g_string_append_len(out, text + strlen("HloModule jit_step"), (gssize)(g_bytes_get_size(bytes) - strlen("HloModule jit_step")));
    ck_assert(g_file_set_contents(path, out->str, (gssize)out->len, NULL));
    const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm"};
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    g_autoptr(EchAdvice) advice = advise_on(experiment, "140MiB", 1);
    g_autoptr(GString) told = ech_advice_text(advice, 0);
    ck_assert_msg(strstr(told->str, "tf.recompute_grad(part)") && !strstr(told->str, "jax.jit(") && !strstr(told->str, "jax.checkpoint(block"), "%s",
                  told->str);
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

/* Two steps of a weight with an optimizer's state and, where @copy, a copy of it that is brought up to date by it, of 256 MiB each; else what softmax makes,
 * which is no longer there where @flash, or is given where @given. */
static EchTrace *averaged(bool copy, bool flash, bool given)
{
    enum { STEPS = 2, BYTES = 256 << 20 };
    const struct {
        const char *stack;
        bool uses[3]; /* weight, state, copy */
    } ops[] = {{"aten::linear\nnn.Module: Net", {true, false, given}},
               {"autograd::engine::evaluate_function: AddmmBackward0", {true, false, false}},
               {"aten::_fused_adamw_\nOptimizer.step#AdamW.step", {true, true, false}},
               {copy    ? "aten::lerp_"
                : flash ? "aten::_softmax\naten::scaled_dot_product_attention\nnn.Module: Net"
                        : "aten::_softmax\naten::softmax\nnn.Module: Net",
                {true, false, true}}};
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("pretend");
    ech_trace_builder_set_property(b, "pretended_device", "h100-sxm");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), core = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0), of[3];
    const EchRole roles[3] = {ECH_ROLE_PARAMETER, ECH_ROLE_OPTIMIZER, ECH_ROLE_WEIGHT_COPY};
    for (size_t i = 0; i < G_N_ELEMENTS(of); i++) {
        EchBuffer buffer = ech_buffer_init();
        buffer.name = ech_trace_builder_string(b, "array", -1);
        buffer.memory = hbm;
        buffer.role = (uint8_t)(i == 2 && !copy ? ECH_ROLE_ACTIVATION : roles[i]);
        buffer.bytes = BYTES;
        buffer.resident = i < 2;
        of[i] = ech_trace_builder_buffer(b, buffer);
    }
    EchOp alloc = ech_op_init(ECH_OP_ALLOC);
    alloc.target = of[2];
    alloc.bytes = BYTES;
    alloc.queue = ech_trace_builder_queue(b, "allocator", ECH_QUEUE_HOST, 0);
    (void)ech_trace_builder_op(b, alloc);
    for (size_t i = 0; i < STEPS * G_N_ELEMENTS(ops); i++) {
        EchOp o = ech_op_init(ECH_OP_KERNEL);
        o.name = ech_trace_builder_string(b, "kernel", -1);
        o.stack = ech_trace_builder_string(b, ops[i % G_N_ELEMENTS(ops)].stack, -1);
        o.queue = core;
        (void)ech_trace_builder_op(b, o);
        if (i % G_N_ELEMENTS(ops) < 2) /* long enough for copies out and back */
            ech_trace_builder_work(b, ECH_WORK_MATRIX, ECH_DTYPE_BF16, (uint64_t)1e14, ECH_KNOWN);
        for (size_t k = 0; k < G_N_ELEMENTS(of); k++)
            for (int writes = 0; writes < ((k == 0 && i % G_N_ELEMENTS(ops) != 2) || (k == 2 && given && i % G_N_ELEMENTS(ops) == 3) ? 1 : 2) &&
                                 ops[i % G_N_ELEMENTS(ops)].uses[k];
                 writes++)
                ech_trace_builder_use(b, of[k], writes ? ECH_WRITE : ECH_READ, BYTES, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    GError *error = NULL;
    EchTrace *trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

/* Copies of weights wait on the host, one at a time on the device, of programs that have such. */
START_TEST(averages)
{
    GError *error = NULL;
    g_autofree char *folder = g_dir_make_tmp("echelon-advise-XXXXXX", NULL), *path = g_build_filename(folder, "step.ech", NULL);
    for (int copy = 0; copy < 2; copy++) {
        g_autoptr(EchTrace) trace = averaged(copy, false, false);
        ck_assert_ok(ech_trace_file_write(trace, path, &error), error);
        const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm"};
        g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
        ck_assert_ok(experiment != NULL, error);
        g_autoptr(EchAdvice) advice = advise_on(experiment, "600MiB", 1);
        size_t told = 0;
        for (size_t i = 0; i < advice->n; i++)
            told += strstr(advice->rows[i].options, "--pass offload:what=saved,names=weight_copy") != NULL;
        ck_assert_int_eq(told > 0, copy);
        if (copy) {
            const EchAdviceRow *row = row_of(advice, "averages_on_host");
            ck_assert_uint_eq(row->run.host, (EchBytes)256 << 20);
            ck_assert(strstr(row->in_code, "ema.step(model.parameters())"));
        }
    }
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

/* What attention keeps of all pairs of positions, and what does without, where PyTorch's own kernels do not attend already. */
START_TEST(attends)
{
    GError *error = NULL;
    g_autofree char *folder = g_dir_make_tmp("echelon-advise-XXXXXX", NULL), *path = g_build_filename(folder, "step.ech", NULL);
    for (int kind = 0; kind < 4; kind++) {
        g_autoptr(EchTrace) trace = averaged(kind == 0, kind == 1, kind == 3);
        ck_assert_ok(ech_trace_file_write(trace, path, &error), error);
        const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm"};
        g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
        ck_assert_ok(experiment != NULL, error);
        g_autoptr(EchAdvice) advice = advise_on(experiment, "600MiB", 1);
        g_autoptr(GString) text = ech_advice_text(advice, 0);
        const char *said =
            strstr(text->str, "Softmax takes or makes 256 MiB of that, of all pairs of positions: torch.nn.functional.scaled_dot_product_attention");
        ck_assert_int_eq(said != NULL, kind >= 2);
        ck_assert_int_eq(g_strcmp0(advice->to_capture, "sdpa, compile") == 0, kind >= 2);
    }
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

/* A program that differentiates nothing has nothing to make again, and no optimizer. */
START_TEST(no_backward_pass)
{
    g_autoptr(EchAdvice) advice = advise("cache_scan.v5e", "tpu-v5e", "900MiB", 1);
    for (size_t i = 0; i < advice->n; i++)
        ck_assert_msg(!strstr(advice->rows[i].options, "remat"), "%s", advice->rows[i].options);
    g_autoptr(GString) text = ech_advice_text(advice, 0);
    ck_assert(strstr(text->str, "It has no backward pass") && !strstr(text->str, "optimizer state"));
    ck_assert(strstr(text->str, "weights, a cache or what else it is given with sharding.with_memory_kind"));
}
END_TEST

/* Where what is live has room and its places have not, less is asked for than there is. */
START_TEST(less_than_is_live)
{
    g_autoptr(EchAdvice) advice = advise("checkpointed/llama_blocks.v6e", "tpu-v6e", "1390MiB", 1);
    ck_assert(!advice->base.fits);
    const EchAdviceRow *row = row_of(advice, "remat");
    ck_assert_ptr_null(row->nothing);
    ck_assert(row->run.fits || row->run.narrow);
    ck_assert_uint_lt(row->run.hbm, advice->available);
}
END_TEST

/* Where making again brings the need nearly down to what there is, and most of the way there, a compiler may need less. Policies need no less than that, and
 * more than half as much again as there is is too much. */
static const struct {
    const char *trace, *memory;
    bool again, products;
} near_it[] = {
    {"gpt_everything.h100", "29MiB", true, false},
    {"gpt_everything.h100", "100MiB", true, true},
    {"gpt_everything.h100", "20MiB", false, false},
};

START_TEST(nearly)
{
    g_autoptr(EchAdvice) advice = advise(near_it[_i].trace, "h100-sxm", near_it[_i].memory, 1);
    const EchAdviceRow *again = row_of(advice, "remat"), *products = row_of(advice, "remat_cheap");
    ck_assert_int_eq(again->run.fits || again->run.narrow, near_it[_i].again);
    ck_assert_int_eq(!products->nothing && (products->run.fits || products->run.narrow), near_it[_i].products);
    if (near_it[_i].again) /* products that are kept are not made again, which is quicker */
        ck_assert_ptr_eq(near_it[_i].products ? products : again, &advice->rows[0]);
}
END_TEST

/* The same bytes from any number of processes. */
START_TEST(jobs)
{
    g_autoptr(EchAdvice) one = advise("gpt_everything.v6e", "tpu-v6e", "20MiB", 1), two = advise("gpt_everything.v6e", "tpu-v6e", "20MiB", 2);
    g_autoptr(GString) a = ech_advice_text(one, 0), b = ech_advice_text(two, 0);
    ck_assert_str_eq(a->str, b->str);
}
END_TEST

/* Once stopped, what was not tried is told so. */
START_TEST(stopped)
{
    g_autoptr(EchExperiment) experiment = load("gpt_everything.v6e", "tpu-v6e", NULL, NULL, NULL);
    const volatile sig_atomic_t stop = 1;
    GError *error = NULL;
    g_autoptr(EchAdvice) advice = ech_advise(experiment, "20MiB", NULL, 1, &stop, NULL, NULL, &error);
    ck_assert_ok(advice != NULL, error);
    ck_assert(!ech_advice_helps(advice));
    for (size_t i = 0; i < advice->n; i++)
        ck_assert_ptr_nonnull(advice->rows[i].error);
    g_autoptr(GString) text = ech_advice_text(advice, 80);
    ck_assert(strstr(text->str, "What could not be tried") != NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("advise");
    TCase *tcase = tcase_create("advise");
    tcase_add_loop_test(tcase, rows_run_again, 0, G_N_ELEMENTS(asked));
    tcase_add_loop_test(tcase, sure_with_less, 0, G_N_ELEMENTS(narrow_at_first));
    tcase_add_test(tcase, in_order);
    tcase_add_loop_test(tcase, of_pytorch, 0, 2);
    tcase_add_loop_test(tcase, largest_batch, 0, G_N_ELEMENTS(batches));
    tcase_add_test(tcase, of_tensorflow);
    tcase_add_test(tcase, devices_last);
    tcase_add_test(tcase, times_of_a_step);
    tcase_add_test(tcase, less_than_is_live);
    tcase_add_test(tcase, checkpoints_of_its_own);
    tcase_add_test(tcase, words_of_tensorflow);
    tcase_add_test(tcase, averages);
    tcase_add_test(tcase, attends);
    tcase_add_test(tcase, no_backward_pass);
    tcase_add_loop_test(tcase, nearly, 0, G_N_ELEMENTS(near_it));
    tcase_add_test(tcase, jobs);
    tcase_add_test(tcase, stopped);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
