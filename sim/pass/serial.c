/* serial: nothing on the device overlaps: every kernel, copy and collective waits for the one before it, and what computes waits for each of the others. What
 * overlap is worth is the difference. The host asks ahead as it did. */
#include "sim/pass/pass.h"
#include "sim/pass/survey.h"

typedef struct {
    const EchSurvey *s;
    EchEdit e;
    GArray *loops; /* open ones, old numbers */
    size_t n;      /* ops of other queues */
} Writer;

/* Work of the device on a queue other than the one that computes. */
static bool is_beside(const EchSurvey *s, EchId op)
{
    const EchOp *o = &s->ops[op];
    bool works = ech_op_is_work(o) || o->kind == ECH_OP_LOOP;
    return works && o->queue != s->core && o->queue != ECH_NONE && ech_trace_queues(s->t)[o->queue].kind != ECH_QUEUE_HOST;
}

/* A WAIT of what computes, for @on; ECH_NONE: for what it did before. */
static void put_wait(Writer *w, EchId on, EchId name)
{
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = w->s->core;
    wait.name = ech_edit_text(&w->e, name);
    w->e.last_core = ech_trace_builder_op(w->e.builder, wait);
    if (on != ECH_NONE)
        ech_trace_builder_dep(w->e.builder, on, 0);
}

static void put(Writer *w, EchId op)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    bool beside = is_beside(s, op);
    if (beside && w->e.last_core == ECH_NONE && w->loops->len > 0) /* the iteration before is over once what computes has come here */
        put_wait(w, ECH_NONE, o->name);
    w->e.map[op] = ech_trace_builder_op(w->e.builder, ech_edit_op(&w->e, op));
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        ech_trace_builder_use(w->e.builder, use->buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = 0; d < o->n_deps; d++)
        ech_edit_dep(&w->e, &s->deps[o->first_dep + d], 0);
    if (beside && w->e.last_core != ECH_NONE)
        ech_trace_builder_dep(w->e.builder, w->e.last_core, 0);
    ech_edit_work(&w->e, op, 1);
    if (o->queue == s->core)
        w->e.last_core = w->e.map[op];
    w->n += beside;
    if (beside && o->kind != ECH_OP_LOOP)
        put_wait(w, w->e.map[op], o->name);
}

static void write_ops(Writer *w)
{
    const EchSurvey *s = w->s;
    for (EchId i = 0; i <= s->n; i++) {
        while (w->loops->len > 0 && s->end[g_array_index(w->loops, EchId, w->loops->len - 1)] == i) {
            EchId loop = g_array_index(w->loops, EchId, w->loops->len - 1);
            g_array_set_size(w->loops, w->loops->len - 1);
            ech_edit_close(&w->e, w->e.map[loop]);
            if (is_beside(s, loop))
                put_wait(w, w->e.map[loop], s->ops[loop].name);
        }
        if (i == s->n)
            break;
        put(w, i);
        if (s->ops[i].kind == ECH_OP_LOOP) {
            g_array_append_val(w->loops, i);
            w->e.last_core = ECH_NONE;
        }
    }
}

static EchTrace *serial_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    (void)options;
    g_auto(EchSurvey) s = {0};
    bool any = false;
    if (ech_survey_init(&s, in, device))
        for (EchId i = 0; i < s.n && !any; i++)
            any = is_beside(&s, i);
    if (!any) {
        ech_diag_remark(diag, "serial: one queue: nothing overlaps as it is");
        return ech_trace_ref(in);
    }
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(in));
    Writer w = {.s = &s, .loops = g_array_new(FALSE, FALSE, sizeof(EchId))};
    ech_edit_init(&w.e, &s, builder);
    ech_edit_keep_places(&w.e); /* what was never live at once is not now */
    write_ops(&w);
    ech_edit_loops(&w.e, s.n_buffers);
    ech_diag_remark(diag, "serial: %zu operations of other queues take turns with those of '%s'", w.n, ech_trace_string(in, ech_trace_queues(in)[s.core].name));
    ech_edit_clear(&w.e);
    g_array_unref(w.loops);
    return ech_trace_builder_finish(builder, error);
}

const EchPassClass ech_pass_serial = {.name = "serial", .summary = "let nothing overlap, to see what overlap is worth", .source = "ours", .trace = serial_run};
