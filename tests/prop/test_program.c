/* What a program says of itself in arithmetic, counted: the trips of loops, by running them, and what windows of convolutions meet, one pair at a time. */
#include "sim/program/program.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>

static uint64_t state;

static int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(ech_test_draw(&state) % (uint64_t)(high - low + 1));
}

/* A loop over a counter, and how it is written. */
typedef struct {
    int64_t start, step, bound, ahead; /* ahead: added to the counter before it is compared */
    const char *direction;
    bool bound_first, bound_carried, step_first, subtracts, fused;
} Loop;

/* How often it runs; -1: for ever. */
static int64_t run(const Loop *loop)
{
    int64_t trips = 0;
    for (int64_t i = loop->start; trips <= 5000; i += loop->step, trips++) {
        int64_t left = loop->bound_first ? loop->bound : i + loop->ahead, right = loop->bound_first ? i + loop->ahead : loop->bound;
        bool goes_on = false;
        switch (loop->direction[0]) {
        case 'L': goes_on = loop->direction[1] == 'E' ? left <= right : left < right; break;
        case 'G': goes_on = loop->direction[1] == 'E' ? left >= right : left > right; break;
        case 'E': goes_on = left == right; break;
        default: goes_on = left != right;
        }
        if (!goes_on)
            return trips;
    }
    return -1;
}

/* Names are unique by @of. */
static void append_compare(GString *text, const Loop *loop, char of, const char *counter, const char *bound)
{
    const char *left = counter;
    g_autofree char *sum = g_strdup_printf("%%sum.%c", of);
    if (loop->ahead) {
        g_string_append_printf(text, "  %%ahead.%c = s32[] constant(%" G_GINT64_FORMAT ")\n  %s = s32[] add(%s, %%ahead.%c)\n", of, loop->ahead, sum, counter,
                               of);
        left = sum;
    }
    g_string_append_printf(text, "  ROOT %%cmp.%c = pred[] compare(%s, %s), direction=%s\n}\n\n", of, loop->bound_first ? bound : left,
                           loop->bound_first ? left : bound, loop->direction);
}

static GString *text_of(const Loop *loop)
{
    GString *text = g_string_new("HloModule loop, is_scheduled=true\n\n");
    if (loop->fused) {
        g_string_append(text, "%inner (a: s32[], b: s32[]) -> pred[] {\n  %a = s32[] parameter(0)\n  %b = s32[] parameter(1)\n");
        append_compare(text, loop, 'f', "%a", "%b");
    }
    g_string_append(text, "%cond (t: (s32[], f32[256], s32[])) -> pred[] {\n  %t = (s32[], f32[256]{0}, s32[]) parameter(0)\n"
                          "  %i = s32[] get-tuple-element(%t), index=0\n");
    if (loop->bound_carried)
        g_string_append(text, "  %n = s32[] get-tuple-element(%t), index=2\n");
    else
        g_string_append_printf(text, "  %%n = s32[] constant(%" G_GINT64_FORMAT ")\n", loop->bound);
    if (loop->fused)
        g_string_append(text, "  ROOT %k = pred[] fusion(%i, %n), kind=kLoop, calls=%inner\n}\n\n");
    else
        append_compare(text, loop, 'c', "%i", "%n");
    g_string_append_printf(text,
                           "%%body (u: (s32[], f32[256], s32[])) -> (s32[], f32[256], s32[]) {\n  %%u = (s32[], f32[256]{0}, s32[]) parameter(0)\n"
                           "  %%j = s32[] get-tuple-element(%%u), index=0\n  %%x = f32[256]{0} get-tuple-element(%%u), index=1\n"
                           "  %%m = s32[] get-tuple-element(%%u), index=2\n  %%by = s32[] constant(%" G_GINT64_FORMAT ")\n",
                           loop->subtracts ? -loop->step : loop->step);
    g_string_append_printf(text, "  %%next = s32[] %s\n", loop->subtracts ? "subtract(%j, %by)" : loop->step_first ? "add(%by, %j)" : "add(%j, %by)");
    g_string_append_printf(text,
                           "  %%y = f32[256]{0} negate(%%x)\n  ROOT %%v = (s32[], f32[256]{0}, s32[]) tuple(%%next, %%y, %%m)\n}\n\n"
                           "ENTRY %%main (p: f32[256]) -> f32[256] {\n  %%p = f32[256]{0} parameter(0)\n  %%c = f32[256]{0} copy(%%p)\n"
                           "  %%first = s32[] constant(%" G_GINT64_FORMAT ")\n  %%last = s32[] constant(%" G_GINT64_FORMAT ")\n"
                           "  %%s = (s32[], f32[256]{0}, s32[]) tuple(%%first, %%c, %%last)\n"
                           "  %%w = (s32[], f32[256]{0}, s32[]) while(%%s), condition=%%cond, body=%%body\n"
                           "  ROOT %%r = f32[256]{0} get-tuple-element(%%w), index=1\n}\n",
                           loop->start, loop->bound);
    return text;
}

START_TEST(loops_run_as_often_as_they_say)
{
    static const char *const directions[] = {"LT", "LE", "GT", "GE", "NE", "EQ"};
    unsigned told = 0;
    state = ech_test_seed_of(0);
    for (unsigned round = 0; round < 600; round++) {
        Loop loop = {.start = between(-20, 20), .bound = between(-20, 20), .ahead = between(0, 2) ? 0 : between(-3, 3), .step = between(1, 4)};
        loop.direction = directions[between(0, G_N_ELEMENTS(directions) - 1)];
        loop.bound_first = between(0, 1);
        loop.bound_carried = between(0, 1);
        loop.step_first = between(0, 1);
        loop.subtracts = between(0, 1);
        loop.fused = between(0, 3) == 0;
        loop.step = between(0, 1) ? loop.step : -loop.step;
        g_autoptr(GString) text = text_of(&loop);
        g_autoptr(EchProgram) program = ech_test_program(text->str, NULL);
        int64_t trips = run(&loop);
        uint64_t found = UINT64_MAX;
        EchOrigin origin;
        bool known = ech_program_trips(program, ech_test_instruction(program, "w"), &found, &origin);
        ck_assert_msg(!known || (int64_t)found == trips, "round %u: %" G_GUINT64_FORMAT " trips, not %" G_GINT64_FORMAT ":\n%s", round, found, trips,
                      text->str);
        /* Only what does not go towards its bound may stay untold. */
        bool upwards = (loop.direction[0] == 'L') != loop.bound_first;
        bool towards = loop.direction[0] == 'N' ? trips >= 0 : loop.direction[0] != 'E' && upwards == (loop.step > 0);
        ck_assert_msg(known == towards, "round %u: %s:\n%s", round, known ? "told" : "not told", text->str);
        told += known;
    }
    ck_assert_uint_gt(told, 150);
}
END_TEST

/* Places of a result and of the window that meet an element of the input: not padding, not a hole. */
static uint64_t count_pairs(int64_t input, int64_t output, int64_t size, int64_t stride, int64_t low, int64_t lhs, int64_t rhs)
{
    uint64_t pairs = 0;
    for (int64_t o = 0; o < output; o++)
        for (int64_t k = 0; k < size; k++) {
            int64_t at = o * stride + k * rhs - low;
            pairs += at >= 0 && at <= (input - 1) * lhs && at % lhs == 0;
        }
    return pairs;
}

START_TEST(convolutions_meet_what_is_there)
{
    state = ech_test_seed_of(1);
    unsigned met = 0;
    for (unsigned round = 0; round < 600; round++) {
        int64_t inputs[2], outputs[2], sizes[2], strides[2], lows[2], highs[2], lhs[2], rhs[2];
        bool whole = true;
        for (unsigned d = 0; d < 2; d++) {
            inputs[d] = between(1, 12);
            sizes[d] = between(1, 6);
            strides[d] = between(1, 4);
            lhs[d] = between(0, 1) ? between(1, 6) : 1;
            rhs[d] = between(0, 1) ? between(1, 4) : 1;
            lows[d] = between(-2, 5);
            highs[d] = between(-2, 5);
            int64_t room = (inputs[d] - 1) * lhs[d] + 1 + lows[d] + highs[d] - ((sizes[d] - 1) * rhs[d] + 1);
            outputs[d] = room < 0 ? 0 : room / strides[d] + 1;
            whole = whole && outputs[d] > 0;
        }
        if (!whole)
            continue;
#define PAIR "%" G_GINT64_FORMAT "x%" G_GINT64_FORMAT
        g_autofree char *text = g_strdup_printf(
            "HloModule window, is_scheduled=true\n\nENTRY %%main (x: f32[2,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",3], k: f32[%" G_GINT64_FORMAT
            ",%" G_GINT64_FORMAT ",3,5]) -> f32[2,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",5] {\n  %%x = f32[2,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT
            ",3]{3,2,1,0} parameter(0)\n  %%k = f32[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",3,5]{3,2,1,0} parameter(1)\n  ROOT %%c = f32[2,%" G_GINT64_FORMAT
            ",%" G_GINT64_FORMAT ",5]{3,2,1,0} convolution(%%x, %%k), window={size=" PAIR " stride=" PAIR " pad=%" G_GINT64_FORMAT "_%" G_GINT64_FORMAT
            "x%" G_GINT64_FORMAT "_%" G_GINT64_FORMAT " lhs_dilate=" PAIR " rhs_dilate=" PAIR "}, dim_labels=b01f_01io->b01f\n}\n",
            inputs[0], inputs[1], sizes[0], sizes[1], outputs[0], outputs[1], inputs[0], inputs[1], sizes[0], sizes[1], outputs[0], outputs[1], sizes[0],
            sizes[1], strides[0], strides[1], lows[0], highs[0], lows[1], highs[1], lhs[0], lhs[1], rhs[0], rhs[1]);
        g_autoptr(EchProgram) program = ech_test_program(text, NULL);
        uint64_t pairs = 1;
        for (unsigned d = 0; d < 2; d++)
            pairs *= count_pairs(inputs[d], outputs[d], sizes[d], strides[d], lows[d], lhs[d], rhs[d]);
        EchHloWork work = ech_program_work(program, ech_test_instruction(program, "c"));
        ck_assert_msg(work.matrix == 2 * 2 * 3 * 5 * pairs, "round %u: %" G_GUINT64_FORMAT ", not %" G_GUINT64_FORMAT ":\n%s", round, work.matrix, 60 * pairs,
                      text);
        met++;
    }
    ck_assert_uint_gt(met, 300);
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("program properties");
    TCase *tests = tcase_create("counted");
    tcase_add_test(tests, loops_run_as_often_as_they_say);
    tcase_add_test(tests, convolutions_meet_what_is_there);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
