/* Well-formed programs made of the input's bytes: loops in loops, branches, calls, fusions, in-place updates, copies between memories, donation.
 * What goes into a loop, around it or is updated in place is a copy of its own, as the compiler's copy insertion leaves it. Or programs as they are before a
 * compiler sees them: nothing is copied, computations have several callers, marks say what is to be moved to the host, and there is no schedule.
 * Each must be read, assigned and lowered, and no two buffers of its trace may share bytes while both live. */
#include "tests/fuzz/program_target.h"

enum { MAX_DEPTH = 3, MAX_STEPS = 40, MAX_ARRAYS = 12 };

typedef struct {
    const uint8_t *at, *end;
    GString *done; /* finished computations */
    unsigned names, computations;
    const char *layout; /* of f32[8,128] */
    const char *scalar; /* of s32[] */
    bool tpu;
    bool raw;                    /* not compiled */
    unsigned shared[MAX_ARRAYS]; /* computations of one array that may be called again */
    unsigned n_shared;
} Maker;

typedef struct {
    GString *text;
    unsigned arrays[MAX_ARRAYS]; /* names of f32[8,128] in HBM */
    unsigned n;
    unsigned counter; /* name of an s32[] */
} Body;

static unsigned take(Maker *m, unsigned below)
{
    return m->at < m->end ? *m->at++ % below : 0;
}

static unsigned any(Maker *m, const Body *b)
{
    return b->arrays[take(m, b->n)];
}

static void keep(Maker *m, Body *b, unsigned name)
{
    if (b->n < MAX_ARRAYS)
        b->arrays[b->n++] = name;
    else
        b->arrays[take(m, MAX_ARRAYS)] = name;
}

static unsigned name(Maker *m)
{
    return m->names++;
}

#define ARRAY m->layout
#define LINE(...) g_string_append_printf(b->text, __VA_ARGS__)

static void steps(Maker *m, Body *b, unsigned depth, unsigned n);

static unsigned copy(Maker *m, Body *b, unsigned x)
{
    if (m->raw)
        return x;
    unsigned c = name(m);
    LINE("  %%v%u = %s copy(%%v%u)\n", c, ARRAY, x);
    return c;
}

/* A computation of a tuple (s32[], array, array) or of one array; returns its number. */
static unsigned sub(Maker *m, unsigned depth, bool tuple, unsigned kind)
{
    Body inner = {.text = g_string_new(NULL)};
    Body *b = &inner;
    unsigned number = m->computations++, p = name(m);
    unsigned n = take(m, 6);
    if (tuple) {
        g_string_append_printf(b->text, "%%c%u (p: (s32[], f32[8,128], f32[8,128])) -> %s {\n", number,
                               kind == 0 ? "pred[]" : "(s32[], f32[8,128], f32[8,128])");
        LINE("  %%v%u = (%s, %s, %s) parameter(0)\n", p, m->scalar, ARRAY, ARRAY);
        b->counter = name(m);
        LINE("  %%v%u = %s get-tuple-element(%%v%u), index=0\n", b->counter, m->scalar, p);
        if (kind == 0) {
            unsigned limit = name(m);
            LINE("  %%v%u = %s constant(%u)\n  ROOT %%v%u = pred[] compare(%%v%u, %%v%u), direction=LT\n}\n\n", limit, m->scalar, take(m, 9), name(m),
                 b->counter, limit);
            g_string_append(m->done, b->text->str);
            g_string_free(b->text, TRUE);
            return number;
        }
        for (unsigned k = 0; k < 2; k++) {
            unsigned a = name(m);
            LINE("  %%v%u = %s get-tuple-element(%%v%u), index=%u\n", a, ARRAY, p, k + 1);
            keep(m, b, a);
        }
    } else {
        g_string_append_printf(b->text, "%%c%u (p: f32[8,128]) -> f32[8,128] {\n", number);
        LINE("  %%v%u = %s parameter(0)\n", p, ARRAY);
        keep(m, b, p);
        b->counter = name(m);
        LINE("  %%v%u = %s constant(0)\n", b->counter, m->scalar);
    }
    if (kind == 2) { /* a fusion's body */
        unsigned r = name(m), style = take(m, 3);
        if (style == 0)
            LINE("  ROOT %%v%u = %s negate(%%v%u)\n", r, ARRAY, p);
        else if (style == 1)
            LINE("  %%v%u = %s negate(%%v%u)\n  ROOT %%v%u = %s dynamic-update-slice(%%v%u, %%v%u, %%v%u, %%v%u)\n", r, ARRAY, p, name(m), ARRAY, p, r,
                 b->counter, b->counter);
        else
            LINE("  ROOT %%v%u = %s reverse(%%v%u), dimensions={0}\n", r, ARRAY, p);
    } else {
        steps(m, b, depth, n);
        if (tuple) {
            unsigned one = name(m), next = name(m);
            LINE("  %%v%u = %s constant(1)\n  %%v%u = %s add(%%v%u, %%v%u)\n", one, m->scalar, next, m->scalar, b->counter, one);
            /* Nothing reads the old elements once a new one is there. */
            unsigned x = copy(m, b, any(m, b)), y = copy(m, b, any(m, b));
            x = copy(m, b, x);
            y = copy(m, b, y);
            LINE("  ROOT %%v%u = (%s, %s, %s) tuple(%%v%u, %%v%u, %%v%u)\n", name(m), m->scalar, ARRAY, ARRAY, next, x, y);
        } else
            LINE("  ROOT %%v%u = %s negate(%%v%u)\n", name(m), ARRAY, any(m, b));
    }
    LINE("}\n\n");
    g_string_append(m->done, b->text->str);
    g_string_free(b->text, TRUE);
    return number;
}

/* What only programs before their compiler have. */
static void raw_step(Maker *m, Body *b, unsigned depth)
{
    unsigned x = any(m, b), r = name(m);
    static const char *const marks[] = {"MoveToHost", "MoveToDevice"};
    switch (take(m, 6)) {
    case 0: LINE("  %%v%u = %s custom-call(%%v%u), custom_call_target=\"%s\"\n", r, ARRAY, x, marks[take(m, 2)]); break;
    case 1:
        LINE("  %%v%u = %s custom-call(%%v%u), custom_call_target=\"annotate_device_placement\", frontend_attributes={_xla_buffer_placement=\"%s\"}\n", r,
             ARRAY, x, take(m, 2) ? "pinned_host" : "device");
        break;
    case 2: { /* a buffer that is filled by slices, one of which comes back */
        unsigned zero = name(m), wide = name(m), moved = name(m), filled = name(m), slice = name(m);
        g_autofree char *stack = g_strdup_printf("f32[4,8,128]{2,1,0%s}", m->tpu ? ":T(8,128)" : ""), *one = g_strdup_printf("f32[1,8,128]%s", stack + 12);
        unsigned flat = name(m), back = name(m);
        LINE("  %%v%u = f32[] constant(0)\n  %%v%u = %s broadcast(%%v%u), dimensions={}\n", zero, wide, stack, zero);
        LINE("  %%v%u = %s custom-call(%%v%u), custom_call_target=\"%s\"\n", moved, ARRAY, x, take(m, 4) ? "MoveToHost" : "other");
        LINE("  %%v%u = %s reshape(%%v%u)\n", slice, one, moved);
        LINE("  %%v%u = %s dynamic-update-slice(%%v%u, %%v%u, %%v%u, %%v%u, %%v%u)\n", filled, stack, wide, slice, b->counter, b->counter, b->counter);
        LINE("  %%v%u = %s dynamic-slice(%%v%u, %%v%u, %%v%u, %%v%u), dynamic_slice_sizes={1,8,128}\n", back, one, filled, b->counter, b->counter, b->counter);
        LINE("  %%v%u = %s reshape(%%v%u)\n", flat, ARRAY, back);
        if (take(m, 4))
            LINE("  %%v%u = %s custom-call(%%v%u), custom_call_target=\"MoveToDevice\"\n", r, ARRAY, flat);
        else
            r = flat;
        break;
    }
    case 3: LINE("  %%v%u = %s opt-barrier(%%v%u)\n", r, ARRAY, x); break;
    case 4: LINE("  %%v%u = %s %s(%%v%u)\n", r, ARRAY, take(m, 2) ? "tanh" : "reshape", x); break;
    default:
        if (m->n_shared > 0)
            LINE("  %%v%u = %s call(%%v%u), to_apply=%%c%u\n", r, ARRAY, x, m->shared[take(m, m->n_shared)]);
        else {
            unsigned made = sub(m, MAX_DEPTH, false, 1);
            if (m->n_shared < MAX_ARRAYS)
                m->shared[m->n_shared++] = made;
            LINE("  %%v%u = %s call(%%v%u), to_apply=%%c%u\n", r, ARRAY, x, made);
        }
        break;
    }
    (void)depth;
    keep(m, b, r);
}

static void step(Maker *m, Body *b, unsigned depth)
{
    if (m->raw && take(m, 2)) {
        raw_step(m, b, depth);
        return;
    }
    unsigned x = any(m, b), y = any(m, b), r = name(m);
    const char *space = m->tpu && take(m, 2) ? "S(1)" : "S(5)";
    g_autofree char *moved = g_strdup_printf("%.*s%s%s}", (int)(strlen(ARRAY) - 1), ARRAY, strchr(ARRAY, ':') ? "" : ":", space);
    unsigned kind = take(m, depth < MAX_DEPTH ? 13 : 9);
    /* Copies that start and end, and fusions, are a compiler's. */
    switch (m->raw && (kind == 4 || kind == 5) ? 0 : kind) {
    case 0: LINE("  %%v%u = %s add(%%v%u, %%v%u)\n", r, ARRAY, x, y); break;
    case 1: LINE("  %%v%u = %s copy(%%v%u)\n", r, ARRAY, x); break;
    case 2:
        x = copy(m, b, x);
        LINE("  %%v%u = %s dynamic-update-slice(%%v%u, %%v%u, %%v%u, %%v%u)\n", r, ARRAY, x, y, b->counter, b->counter);
        break;
    case 3: {
        unsigned t = name(m);
        LINE("  %%v%u = (%s, %s) tuple(%%v%u, %%v%u)\n  %%v%u = %s get-tuple-element(%%v%u), index=%u\n", t, ARRAY, ARRAY, x, y, r, ARRAY, t, take(m, 2));
        break;
    }
    case 4: { /* there and back */
        unsigned s = name(m), d = name(m), back = name(m);
        LINE("  %%v%u = (%s, %s, u32[]) copy-start(%%v%u)\n", s, moved, ARRAY, x);
        steps(m, b, MAX_DEPTH, take(m, 3));
        LINE("  %%v%u = %s copy-done(%%v%u)\n", d, moved, s);
        LINE("  %%v%u = (%s, %s, u32[]) copy-start(%%v%u)\n  %%v%u = %s copy-done(%%v%u)\n", back, ARRAY, moved, d, r, ARRAY, back);
        break;
    }
    case 5:
        x = copy(m, b, x);
        LINE("  %%v%u = %s fusion(%%v%u), kind=kLoop, calls=%%c%u\n", r, ARRAY, x, sub(m, MAX_DEPTH, false, 2));
        break;
    case 6: LINE("  %%v%u = %s bitcast(%%v%u)\n", r, ARRAY, x); break;
    case 7:
        x = copy(m, b, x);
        LINE("  %%v%u = %s custom-call(%%v%u, %%v%u), custom_call_target=\"k\", output_to_operand_aliasing={{}: (0, {})}\n", r, ARRAY, x, y);
        break;
    case 8: LINE("  %%v%u = %s sort(%%v%u), dimensions={0}, to_apply=%%less\n", r, ARRAY, x); break;
    case 9: {
        unsigned made = sub(m, depth + 1, false, 1);
        if (m->n_shared < MAX_ARRAYS)
            m->shared[m->n_shared++] = made;
        LINE("  %%v%u = %s call(%%v%u), to_apply=%%c%u\n", r, ARRAY, x, made);
        break;
    }
    case 10: {
        unsigned p = name(m), yes = sub(m, depth + 1, false, 1), no = sub(m, depth + 1, false, 1);
        LINE("  %%v%u = pred[] constant(true)\n  %%v%u = %s conditional(%%v%u, %%v%u, %%v%u), true_computation=%%c%u, false_computation=%%c%u\n", p, r, ARRAY,
             p, x, y, yes, no);
        break;
    }
    default: {
        unsigned t = name(m), w = name(m), condition = sub(m, depth + 1, true, 0), body = sub(m, depth + 1, true, 1);
        x = copy(m, b, x);
        y = copy(m, b, y);
        LINE("  %%v%u = (%s, %s, %s) tuple(%%v%u, %%v%u, %%v%u)\n", t, m->scalar, ARRAY, ARRAY, b->counter, x, y);
        LINE("  %%v%u = (%s, %s, %s) while(%%v%u), condition=%%c%u, body=%%c%u\n", w, m->scalar, ARRAY, ARRAY, t, condition, body);
        LINE("  %%v%u = %s get-tuple-element(%%v%u), index=%u\n", r, ARRAY, w, 1 + take(m, 2));
        break;
    }
    }
    keep(m, b, r);
}

static void steps(Maker *m, Body *b, unsigned depth, unsigned n)
{
    for (unsigned k = 0; k < n && m->computations < 60; k++)
        step(m, b, depth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Maker maker = {.at = data, .end = data + MIN(size, 4096), .done = g_string_new(NULL)};
    Maker *m = &maker;
    m->tpu = take(m, 2);
    m->raw = take(m, 2);
    m->layout = m->tpu ? "f32[8,128]{1,0:T(8,128)}" : "f32[8,128]{1,0}";
    m->scalar = m->tpu ? "s32[]{:T(128)}" : "s32[]";
    Body entry = {.text = g_string_new(NULL)};
    Body *b = &entry;
    bool donated = take(m, 2);
    unsigned sides = m->raw ? take(m, 8) : 0;
    const char *moved = m->tpu ? "f32[8,128]{1,0:T(8,128)S(5)}" : "f32[8,128]{1,0:S(5)}";
    LINE("ENTRY %%main (p: f32[8,128], q: f32[8,128]) -> (f32[8,128], f32[8,128]) {\n");
    for (unsigned k = 0; k < 2; k++) {
        unsigned p = name(m);
        LINE("  %%v%u = %s parameter(%u)\n", p, ARRAY, k);
        keep(m, b, p);
    }
    b->counter = name(m);
    LINE("  %%v%u = %s constant(0)\n", b->counter, m->scalar);
    steps(m, b, 0, take(m, MAX_STEPS));
    unsigned x = name(m), y = name(m);
    LINE("  %%v%u = %s negate(%%v%u)\n", x, ARRAY, any(m, b));
    LINE("  %%v%u = %s copy(%%v%u)\n", y, ARRAY, any(m, b));
    x = copy(m, b, x);
    LINE("  ROOT %%v%u = (%s, %s) tuple(%%v%u, %%v%u)\n}\n", name(m), ARRAY, ARRAY, x, y);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append(text, m->raw ? "HloModule m" : "HloModule m, is_scheduled=true");
    if (m->raw)
        g_string_append_printf(text, ", entry_computation_layout={(%s, %s)->(%s, %s)}", sides & 1 ? moved : ARRAY, ARRAY, sides & 2 ? moved : ARRAY,
                               sides & 4 ? moved : ARRAY);
    g_string_append_printf(text,
                           "%s\n\n%%less (a: f32[], b: f32[]) -> pred[] {\n  %%a = f32[] parameter(0)\n  %%b = f32[] parameter(1)\n"
                           "  ROOT %%lt = pred[] compare(%%a, %%b), direction=LT\n}\n\n%s%s",
                           donated ? ", input_output_alias={ {0}: (1, {}, may-alias) }" : "", m->done->str, b->text->str);
    g_string_free(m->done, TRUE);
    g_string_free(b->text, TRUE);
    if (g_getenv("ECH_FUZZ_PRINT"))
        g_print("%s", text->str);
    ech_fuzz_program_bytes("hlo", (const uint8_t *)text->str, text->len, true);
    return 0;
}
