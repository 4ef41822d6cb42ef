#include "sim/experiment/advise_private.h"

#include "sim/experiment/torch_measures.h"
#include "sim/pass/remat.h"
#include "sim/pass/schedule.h"
#include "sim/report/explain.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"
#include <string.h>

#define JAX_NO_POLICY "jax.checkpoint(block) without the policy that it has, or with one that keeps less"
/* Of a program that trains nothing. */
#define GIVEN "weights, a cache or what else it is given"

static void cell(GString *out, const char *text, int width)
{
    g_string_append_printf(out, "%*s%s", MAX(width - ech_text_width(text), 1), "", text);
}

/* @available: what there is, where it does not fit. */
static void print_run(GString *out, const EchAdviceRun *run, EchTime base, EchBytes available)
{
    g_autofree char *hbm = ech_format_bytes(run->hbm), *host = ech_format_bytes(run->host), *time = ech_format_time(run->makespan);
    g_autofree char *factor = g_strdup_printf("x%.3f", base > 0 ? (double)run->makespan / (double)base : 0);
    bool timed = run->makespan > 0;
    cell(out, hbm, 10);
    cell(out, run->host >= 1024 ? host : "-", 10); /* A word or two that a library pins are not worth a row. */
    cell(out, timed ? time : "-", 9);
    cell(out, timed && base > 0 ? factor : run->hbm <= available ? "in pieces" : "-", 10);
    g_string_append_c(out, '\n');
}

/* Rows of one rank, numbered. */
static void print_rows(GString *out, const EchAdvice *advice, EchAdviceRank of_rank, const char *heading)
{
    bool any = false;
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        if (ech_advice_rank(row) != of_rank)
            continue;
        if (!any)
            g_string_append_printf(out, "\n  %s\n", heading);
        any = true;
        g_string_append_printf(out, "  %2zu%s", i + 1, row->donated ? "* " : row->growing ? "+ " : "  ");
        ech_text_cell(out, row->label, 35);
        print_run(out, &row->run, advice->base.makespan, of_rank == NOT_ENOUGH && !advice->base.fits ? advice->available : 0);
    }
}

/* " (58 ms, x0.853)" of what takes another time, if it needs no less; else nothing. */
static char *time_beside(const EchAdvice *advice, const EchAdviceRow *row)
{
    enum { TOLD_PART = 100 };
    EchTime time = row->run.makespan, base = advice->base.makespan;
    if (g_strcmp0(row->nothing, NEEDS_NO_LESS) != 0 || time == 0 || base == 0 || ABS(time - base) <= base / TOLD_PART)
        return g_strdup("");
    g_autofree char *text = ech_format_time(time);
    return g_strdup_printf(" (%s, x%.3f)", text, (double)time / (double)base);
}

/* What is of no use for memory, and what could not be run, by reason. */
static void print_rest(GString *out, const EchAdvice *advice, EchAdviceRank of_rank, const char *heading, unsigned columns)
{
    g_autofree bool *said = g_new0(bool, advice->n + 1);
    bool any = false;
    for (size_t i = 0; i < advice->n; i++) {
        if (ech_advice_rank(&advice->rows[i]) != of_rank || said[i])
            continue;
        if (!any)
            g_string_append_printf(out, "\n  %s\n", heading);
        any = true;
        const char *reason = of_rank == ERROR ? advice->rows[i].error : advice->rows[i].nothing;
        g_autoptr(GString) text = g_string_new(NULL);
        size_t n_said = 0;
        for (size_t k = i; k < advice->n; k++) {
            const EchAdviceRow *row = &advice->rows[k];
            if (ech_advice_rank(row) != of_rank || strcmp(reason, of_rank == ERROR ? row->error : row->nothing) != 0)
                continue;
            g_autofree char *time = time_beside(advice, row);
            g_string_append_printf(text, "%s%s%s", text->len ? "; " : "", row->label, time);
            said[k] = true;
            n_said++;
        }
        if (n_said == advice->n)
            g_string_assign(text, "all that was tried");
        g_string_append_printf(text, ": %s", reason);
        ech_text_wrap(out, "    ", text->str, columns);
    }
}

/* 0.49 s a GiB on an L4's host (replay/price.c). */
static void print_pinned(GString *out, const EchAdvice *advice, unsigned columns)
{
    for (size_t i = 0; i < advice->n; i++) {
        if (strcmp(advice->rows[i].name, WEIGHTS_AHEAD) != 0 || ech_advice_rank(&advice->rows[i]) != FITS)
            continue;
        g_autofree char *text =
            g_strdup_printf("(%zu: from pinned memory, which takes the host half a second a GiB once and is not in the time; PyTorch rounds "
                            "each array there up to a power of two, so that it may take up to twice as much of the host)",
                            i + 1);
        ech_text_wrap(out, "  ", text, columns);
    }
}

/* Parts come and go once, whatever happens between. */
static void print_parts(GString *out, const EchAdvice *advice, unsigned columns)
{
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        if (strcmp(row->name, PARTS_IN_TURN) != 0 || ech_advice_rank(row) != FITS || advice->n_steps == 0)
            continue;
        g_autofree char *more = ech_format_time(MAX(row->run.whole - advice->base.whole, 0)), *step = ech_format_time(advice->base.makespan);
        g_autofree char *text =
            g_strdup_printf("(%zu: on average over the %zu steps that were captured; a step of a part that is there takes %s, and %s more is for parts that "
                            "come and go, however many steps there are)",
                            i + 1, advice->n_steps, step, more);
        ech_text_wrap(out, "  ", text, columns);
    }
}

static void print_untold(GString *out, const EchAdvice *advice, unsigned columns)
{
    bool any = false;
    for (size_t i = 0; i < advice->n; i++)
        any |= ech_advice_rank(&advice->rows[i]) == PAGES && advice->rows[i].run.makespan == 0;
    if (any)
        ech_text_wrap(out, "  ",
                      "(without a time: the capture does not tell which parts of blocks are used when, and which come and go; it may take many times as long)",
                      columns);
}

/* Why rows are not said to fit. */
static void print_why_may(GString *out, const EchAdvice *advice, unsigned columns)
{
    bool again = false, early = false, first = false, scheduled = false, policy = false, parts = false, graph = false;
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        bool may = ech_advice_rank(row) == MAY_FIT && !row->spread, room = row->run.hbm <= advice->available;
        if (row->in_code && g_str_has_prefix(row->in_code, TORCH_PARTS)) {
            parts |= may;
            continue;
        }
        policy |= may && !room;
        if (!may || !room)
            continue;
        bool is_again = strstr(row->options, PASS_REMAT) != NULL, is_early = row->run.early > row->run.hbm, is_first = row->run.first > row->run.hbm;
        again |= is_again && !advice->blocks;
        graph |= is_again && advice->blocks;
        early |= is_early;
        first |= is_first;
        scheduled |= !is_again && !is_early && !is_first && strstr(row->options, PASS_SCHEDULE) != NULL;
    }
    if (again) {
        g_autofree char *text = g_strdup_printf("(compilers asked for jax.checkpoint have taken up to %s times what is said of making again)", advice->margin);
        ech_text_wrap(out, "  ", text, columns);
    }
    if (scheduled)
        ech_text_wrap(out, "  ",
                      "(how much the compiler makes again itself to come down to memory is its own choice, and has taken up to " ECH_SCHEDULE_MARGIN
                      " times what is said of arrays on the host)",
                      columns);
    if (early)
        ech_text_wrap(out, "  ",
                      "(XLA fetches offloaded arrays early, many at once, and may need as much as without, or more; what a loop over layers fetches slice by "
                      "slice, jax.lax.scan, comes when it is used)",
                      columns);
    if (first)
        ech_text_wrap(out, "  ", "(some programs' offloaded arrays libtpu brings before all else, and needs more; " ECH_BRING_LATE " mostly has them as told)",
                      columns);
    if (policy)
        ech_text_wrap(
            out, "  ",
            "(what is told without a time has no room with the kernels that there are; a policy of jax.checkpoint makes again all that it does not name, "
            "in kernels fused anew, and needs from what 'make activations again' does up to that)",
            columns);
    if (graph)
        ech_text_wrap(out, "  ",
                      "(checkpoints within one graph of torch.compile have taken up to " ECH_REMAT_GRAPH_MARGIN " times what is told; " ECH_REMAT_APART ")",
                      columns);
    if (parts)
        ech_text_wrap(out, "  ", "(which arrays are made again is told as if each could be chosen; PyTorch does so by parts of a model)", columns);
    g_autofree char *know = ech_report_how_to_know(advice->device);
    if (again || early || first || policy)
        ech_text_wrap(out, "  ", know, columns);
}

/* Passes cut what they make again as finely as that helps, a program's author by blocks. */
static void print_blocks(GString *out, const EchAdvice *advice, unsigned columns)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        if (row->run.once == 0 || ech_advice_rank(row) > MAY_FIT)
            continue;
        g_autofree char *bytes = ech_format_bytes(row->run.once);
        g_string_append_printf(text, "%s%s by %zu", text->len ? ", " : "(of what is made again there are at once at most: ", bytes, i + 1);
    }
    if (text->len == 0)
        return;
    g_string_append(text, "; jax.checkpoint has all there that a block makes: what a block makes beyond that it needs besides)");
    ech_text_wrap(out, "  ", text->str, columns);
}

/* How the program says so; NULL where it says nothing. */
static char *code_of(const EchAdvice *advice, const EchAdviceRow *row)
{
    const char *code = row->in_code;
    if (!code)
        return NULL;
    bool policy = advice->checkpointed && g_str_has_prefix(code, JAX_CHECKPOINT), given = advice->forward && g_str_has_prefix(code, STATE);
    g_autoptr(GString) text = g_string_new(policy ? JAX_NO_POLICY : given ? GIVEN : code);
    if (policy || given)
        g_string_append(text, code + strlen(policy ? JAX_CHECKPOINT : STATE));
    if (advice->blocks && g_str_has_prefix(code, ECH_TORCH_CHECKPOINT) && !g_str_has_prefix(code, ECH_TORCH_CHECKPOINT " of ")) {
        g_autofree char *of = g_strconcat(" of ", advice->blocks, NULL);
        g_string_insert(text, strlen(ECH_TORCH_CHECKPOINT), of);
    }
    if (row->growing)
        g_string_append(text, "; and " EXPANDABLE);
    bool donates = strcmp(code, DONATE) == 0;
    if (row->donated && !donates)
        g_string_append(text, "; and " DONATE);
    if (row->donated || donates)
        g_string_append_printf(text, advice->undonated ? "[%s])" : "[...])", advice->undonated);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* What to do, rows that say the same together. */
static void print_code(GString *out, const EchAdvice *advice, size_t n, unsigned columns)
{
    g_autofree bool *said = g_new0(bool, n + 1);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        g_autofree char *code = said[i] ? NULL : code_of(advice, &advice->rows[i]);
        if (!code)
            continue;
        if (!any)
            g_string_append(out, "\n  How a program says so\n");
        any = true;
        g_autoptr(GString) numbers = g_string_new("  ");
        for (size_t k = i; k < n; k++) {
            g_autofree char *other = code_of(advice, &advice->rows[k]);
            if (g_strcmp0(code, other) != 0)
                continue;
            said[k] = true;
            g_string_append_printf(numbers, k == i ? "%2zu" : ", %zu", k + 1);
        }
        g_string_append(numbers, "  ");
        ech_text_wrap(out, numbers->str, code, columns);
    }
}

static void print_how(GString *out, const EchAdvice *advice, unsigned columns)
{
    /* Those that may fit beside those that do; where none does, those that need less. */
    EchAdviceRank first_rank = ech_advice_rank(&advice->rows[0]), last = first_rank < PAGES ? PAGES : NOT_ENOUGH;
    size_t n = 0;
    while (n < advice->n && ech_advice_rank(&advice->rows[n]) <= last)
        n++;
    if (n == 0)
        return;
    print_code(out, advice, n, columns);
    g_string_append(out, "\n  What to add to 'echelon run', which tells the arrays\n");
    for (size_t i = 0; i < n; i++) {
        if (!advice->rows[i].options)
            continue;
        g_autofree char *first = g_strdup_printf("  %2zu  ", i + 1);
        g_autofree char *options = g_strconcat(advice->rows[i].options, advice->rows[i].captured ? " in place of this one" : "", NULL);
        ech_text_wrap(out, first, options, columns);
    }
}

/* Which device needs how much. */
static void print_devices(GString *out, const EchAdvice *advice, unsigned columns)
{
    if (advice->n_devices == 0)
        return;
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "It runs on %zu devices:", advice->n_devices);
    for (size_t i = 0; i < advice->n_devices; i++) {
        g_autofree char *hbm = ech_format_bytes(advice->devices[i].hbm);
        g_string_append_printf(text, "%s %u needs %s%s", i > 0 ? "," : "", advice->devices[i].number, hbm,
                               advice->devices[i].fits ? "" : " and has no room for it");
    }
    g_string_append(text, ". Below, hbm is that of the fullest, times are of all together.");
    ech_text_wrap(out, "  ", text->str, columns);
}

/* Divisions of blocks are not replayed. */
static void print_spread(GString *out, const EchAdvice *advice, unsigned columns)
{
    for (size_t i = 0; i < advice->n; i++) {
        if (!advice->rows[i].spread || ech_advice_rank(&advice->rows[i]) > NOT_ENOUGH)
            continue;
        g_autofree char *text =
            g_strdup_printf("(%zu: by what each block holds when, not replayed%s; %s)", i + 1,
                            ech_advice_rank(&advice->rows[i]) == MAY_FIT ? ", with as much as the allocator holds beside it now there is no room" : "",
                            advice->rows[i].run.makespan > 0 ? "devices that take turns take as long" : "what that does to the time, a capture of it tells");
        ech_text_wrap(out, "  ", text, columns);
    }
}

/* What to begin with, in a sentence. */
static void print_first(GString *out, const EchAdvice *advice, unsigned columns)
{
    const EchAdviceRow *row = advice->n > 0 ? &advice->rows[0] : NULL;
    if (advice->keeps)
        ech_text_wrap(out, "  ", "No backward pass follows, but what one would take is kept: " ECH_TORCH_NO_GRAD " keeps none of it.", columns);
    if (advice->base.fits || !row || ech_advice_rank(row) > MAY_FIT)
        return;
    g_autofree char *code = code_of(advice, row);
    g_autofree char *hbm = ech_format_bytes(row->run.hbm), *time = ech_format_time(row->run.makespan);
    g_autofree char *told = row->run.makespan > 0 ? g_strdup_printf(" (%s, %s %s)", hbm, time, advice->per) : g_strdup("");
    g_autofree char *text =
        g_strdup_printf("%s first: %s%s%s%s.", ech_advice_rank(row) == FITS ? "Do" : "Try", row->label, told, code ? ": " : "", code ? code : "");
    ech_text_wrap(out, "  ", text, columns);
}

/* The largest batch, in a sentence. */
static void print_batch(GString *out, const EchAdvice *advice, unsigned columns)
{
    if (advice->is_graph)
        ech_text_wrap(
            out, "  ",
            "Its rows are the nodes of one graph, and parts of it would lack one another's: gradients cannot be accumulated over them. Batches of nodes "
            "that bring their neighbours along (torch_geometric.loader.NeighborLoader) need less.",
            columns);
    if (advice->of_pairs)
        ech_text_wrap(out, "  ",
                      "All rows of its batch are compared with all: a smaller batch, or parts of one whose gradients are accumulated, have another loss. What "
                      "runs the model on parts of the batch, and the loss on all of it, needs less: GradCache, CachedMultipleNegativesRankingLoss of "
                      "sentence-transformers.",
                      columns);
    if (advice->batch == 0)
        return;
    g_autofree char *hbm = ech_format_bytes(advice->most.hbm), *time = ech_format_time(advice->most.makespan), *text = NULL;
    if (advice->most_batch == 0 && advice->batch == 1) {
        const char *part = advice->row_parts == 2 ? "half" : advice->row_parts == 4 ? "a quarter" : "an eighth";
        g_autofree char *takes = advice->row_parts > 0 && advice->most.makespan > 0 ? g_strdup_printf(", %s %s", time, advice->per) : g_strdup("");
        text = g_strdup_printf("Its batch is one row, of which %s (fewer tokens, or pixels) %s %s%s. Rows that are packed into one, without padding, are one.",
                               part, advice->row_parts > 0 ? "fits:" : "needs", hbm, takes);
    } else if (advice->most_batch == 0)
        text = g_strdup_printf("No smaller batch fits as it is (%" G_GUINT64_FORMAT " now): one of 1 needs %s.", advice->batch, hbm);
    else if (advice->most_batch == advice->batch)
        text = g_strdup_printf("Its batch of %" G_GUINT64_FORMAT " is the largest that fits.", advice->batch);
    else {
        double speed = (double)advice->most_batch / (double)advice->batch * (double)advice->base.makespan / MAX((double)advice->most.makespan, 1);
        g_autofree char *faster =
            advice->base.makespan > 0 && advice->most.makespan > 0 ? g_strdup_printf(", %.2f times the rows a second", speed) : g_strdup("");
        text = g_strdup_printf("A batch of %" G_GUINT64_FORMAT " fits%s as it is (%" G_GUINT64_FORMAT " now): %s, %s %s%s.", advice->most_batch,
                               advice->more_batch ? ", and perhaps more," : "", advice->batch, hbm, time, advice->per, faster);
    }
    ech_text_wrap(out, "  ", text, columns);
}

GString *ech_advice_text(const EchAdvice *advice, unsigned columns)
{
    g_autofree char *need = ech_format_bytes(advice->base.hbm), *room = ech_format_bytes(advice->available), *taken = ech_format_bytes(advice->context);
    g_autofree char *beside = advice->context ? g_strdup_printf(" beside %s of the process's context", taken) : g_strdup("");
    GString *out = g_string_new(NULL);
    bool summary = advice->summary && *advice->summary;
    g_autofree char *title =
        g_strdup_printf("%s on %s%s%s%s", advice->title, advice->device, summary ? " (" : "", summary ? advice->summary : "", summary ? ")" : "");
    ech_text_wrap(out, "", title, columns);
    for (char **edit = advice->given; *edit; edit++)
        g_string_append_printf(out, "  with %s\n", *edit);
    g_autoptr(GString) line = g_string_new(NULL);
    g_string_append_c(out, '\n');
    if (advice->kernel && advice->base.fits)
        g_string_printf(line, "IT DOES NOT FIT. Of hbm it does, %s of %s are needed; a kernel has too little room on chip.", need, room);
    else if (advice->base.fits)
        g_string_printf(line, "It fits. %s of %s of hbm are needed%s: what needing less would cost.", need, room, beside);
    else if (advice->live_fits)
        g_string_printf(line, "IT DOES NOT FIT, though at most %s of %s of hbm are in use at a time: what is free is in pieces.", need, room);
    else
        g_string_printf(line, "IT DOES NOT FIT. %s of hbm are needed, %s are there%s.", need, room, beside);
    ech_text_wrap(out, "  ", line->str, columns);
    if (advice->kernel) {
        g_autoptr(GString) kernel = ech_text_fold(advice->kernel, columns);
        g_string_append(out, kernel->str);
        if (advice->base.fits)
            return out;
        g_string_append(out, "  What follows is about hbm alone.\n");
    }
    print_first(out, advice, columns);
    print_batch(out, advice, columns);
    print_devices(out, advice, columns);
    for (char **sentence = advice->holds; *sentence; sentence++)
        ech_text_wrap(out, "  ", *sentence, columns);
    g_string_append_printf(out, "\n  %-39s%10s%10s%9s%10s\n", "", "hbm", "host", "time", "relative");
    g_string_append_printf(out, "  %-39s", "as it is");
    print_run(out, &advice->base, 0, 0);
    print_rows(out, advice, FITS, advice->base.fits ? "What would save some" : "What would make it fit");
    print_pinned(out, advice, columns);
    print_parts(out, advice, columns);
    print_rows(out, advice, MAY_FIT, "What may");
    print_blocks(out, advice, columns);
    print_why_may(out, advice, columns);
    print_rows(out, advice, DEVICES, "As it is, on a larger device");
    print_rows(out, advice, SEVERAL, "On several of this device");
    print_rows(out, advice, PAGES, "What would run as it is, with what has no room on the host");
    print_untold(out, advice, columns);
    print_rows(out, advice, NOT_ENOUGH, advice->base.fits ? "What would not" : "What would not be enough");
    bool donated = false, growing = false;
    for (size_t i = 0; i < advice->n; i++) {
        donated |= advice->rows[i].donated && ech_advice_rank(&advice->rows[i]) <= NOT_ENOUGH;
        growing |= advice->rows[i].growing && ech_advice_rank(&advice->rows[i]) <= NOT_ENOUGH;
    }
    if (donated)
        g_string_append(out, "  (*: with arguments donated, too)\n");
    if (growing)
        ech_text_wrap(out, "  ", "(+: with segments that grow, too: " EXPANDABLE ")", columns);
    print_spread(out, advice, columns);
    if (advice->n > 0)
        print_how(out, advice, columns);
    if (advice->to_capture) {
        g_autofree char *first = g_strndup(advice->to_capture, strcspn(advice->to_capture, ","));
        g_autofree char *text =
            g_strdup_printf("Not tried, since PyTorch itself tells: %s. 'echelon capture --pretend %s%s --with %s -o with -- COMMAND', then "
                            "'--also with.PID.pretend' here; 'echelon list measures' has more.",
                            advice->to_capture, advice->device, advice->base.fits ? "" : " --set device.memories.hbm.capacity=1TiB", first);
        ech_text_wrap(g_string_append_c(out, '\n'), "  ", text, columns);
    } else if (advice->serves)
        ech_text_wrap(
            g_string_append_c(out, '\n'), "  ",
            "Other settings make another program of a server, whose capture tells its tokens in its log: a cache in 8 bits holds twice the tokens of one in 16 "
            "(--kv-cache-dtype fp8 of vLLM, fp8_e4m3 of SGLang), and weights in 8 bits (--quantization fp8) leave it half of what they have in 16.",
            columns);
    else if (!advice->base.fits && advice->holds_alone)
        ech_text_wrap(
            g_string_append_c(out, '\n'), "  ",
            "What computes is not recorded here, and with it most of what would help: 'echelon capture --pretend DEVICE -- COMMAND' runs the program, "
            "on a machine without that device too, and leaves what tells.",
            columns);
    else if (!advice->base.fits)
        ech_text_wrap(g_string_append_c(out, '\n'), "  ",
                      advice->batch > 0
                          ? "A shorter sequence, or a smaller type, is another program: capture that as you captured this ('echelon capture --find' looks "
                            "for the longest that fits)."
                          : "A smaller batch, a shorter sequence, or a smaller type, is another program: capture that as you captured this ('echelon "
                            "capture --find' looks for the largest that fits).",
                      columns);
    print_rest(out, advice, NOTHING, "What cannot be done, or needs no less", columns);
    print_rest(out, advice, ERROR, "What could not be tried", columns);
    return out;
}

static void json_run(JsonBuilder *b, const EchAdviceRun *run)
{
    ech_json_add_bool(b, "fits", run->fits);
    if (run->narrow)
        ech_json_add_bool(b, "may_fit", true);
    ech_json_add_count(b, "hbm_bytes", run->hbm);
    ech_json_add_count(b, "host_bytes", run->host);
    if (run->once)
        ech_json_add_count(b, "again_at_once_bytes", run->once);
    json_builder_set_member_name(b, "makespan_ps");
    if (run->makespan > 0)
        json_builder_add_int_value(b, run->makespan);
    else
        json_builder_add_null_value(b);
}

JsonNode *ech_advice_json(const EchAdvice *advice)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "title", advice->title);
    ech_json_add_text(b, "device", advice->device);
    ech_json_begin_array(b, "given");
    for (char **edit = advice->given; *edit; edit++)
        json_builder_add_string_value(b, *edit);
    json_builder_end_array(b);
    ech_json_add_count(b, "hbm_available_bytes", advice->available);
    ech_json_add_count(b, "context_bytes", advice->context);
    if (advice->n_steps > 0) {
        json_builder_set_member_name(b, "step");
        json_builder_begin_object(b);
        ech_json_add_count(b, "number", advice->number);
        ech_json_add_text(b, "from", advice->step);
        json_builder_end_object(b);
    }
    if (advice->n_devices > 0)
        ech_json_begin_array(b, "devices");
    for (size_t i = 0; i < advice->n_devices; i++) {
        json_builder_begin_object(b);
        ech_json_add_count(b, "device", advice->devices[i].number);
        ech_json_add_bool(b, "fits", advice->devices[i].fits);
        ech_json_add_count(b, "hbm_bytes", advice->devices[i].hbm);
        json_builder_end_object(b);
    }
    if (advice->n_devices > 0)
        json_builder_end_array(b);
    json_run(b, &advice->base);
    if (advice->kernel)
        ech_json_add_text(b, "kernel", advice->kernel);
    if (advice->batch > 0) {
        json_builder_set_member_name(b, "batch");
        json_builder_begin_object(b);
        ech_json_add_count(b, "rows", advice->batch);
        ech_json_add_count(b, "most_rows", advice->most_batch);
        json_run(b, &advice->most);
        json_builder_end_object(b);
    }
    if (advice->keeps)
        ech_json_add_bool(b, "keeps_for_backward", true);
    if (advice->to_capture)
        ech_json_add_text(b, "to_capture", advice->to_capture);
    ech_json_begin_array(b, "measures");
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        bool known = row->run.makespan > 0 && advice->base.makespan > 0 && !row->error;
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", row->name);
        ech_json_add_text(b, "does", row->label);
        if (row->options)
            ech_json_add_text(b, "options", row->options);
        if (row->donated)
            ech_json_add_bool(b, "donated", true);
        if (row->growing)
            ech_json_add_bool(b, "growing", true);
        json_run(b, &row->run);
        ech_json_add_mean(b, "relative", known ? (double)row->run.makespan / (double)advice->base.makespan : -1);
        if (row->nothing)
            ech_json_add_text(b, "why", row->nothing);
        if (row->error)
            ech_json_add_text(b, "error", row->error);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}
