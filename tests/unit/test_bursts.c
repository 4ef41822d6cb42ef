/* Copies beside work: closed forms, and copies at random against one rate gone through by itself. */
#include "models/kernel/bursts.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>

enum { BLOCK = 1 << 16, STEP = 100 };

/* So many groups of so many steps each; a group's block is fetched while the step @ahead before its first is worked on. */
static EchBursts groups_of(unsigned groups, unsigned steps, unsigned ahead)
{
    EchBursts bursts = {0};
    EchBurstTimes done[2];
    ech_bursts_begin(&bursts, BLOCK, &done[0]);
    for (unsigned i = 0; i < groups * steps; i++) {
        unsigned next = i + ahead;
        if (next % steps == 0 && next / steps < groups)
            ech_bursts_begin(&bursts, BLOCK, &done[next / steps % 2]);
        if (i % steps == 0)
            ech_bursts_wait(&bursts, &done[i / steps % 2]);
        ech_bursts_work(&bursts, STEP);
    }
    return bursts;
}

/* A block that takes three steps to fetch has one step to pass beneath, however many steps its group has, or as many as it is fetched ahead. */
START_TEST(bursts_wait)
{
    enum { GROUPS = 10, STEPS = 4 };
    const double work = GROUPS * STEPS * STEP, rate = BLOCK / (3.0 * STEP);
    const double waits[] = {2, 1, 0};
    for (unsigned ahead = 1; ahead <= 3; ahead++) {
        EchBursts bursts = groups_of(GROUPS, STEPS, ahead);
        double wanted = (3 + (GROUPS - 1) * waits[ahead - 1]) * STEP, waited = ech_bursts_waited(&bursts.waits, work, rate);
        ck_assert_msg(waited >= wanted - 1e-6 && waited <= wanted + 0.03 * work, "%u ahead: %g, not %g", ahead, waited, wanted);
        /* Work that takes twice as long at half the rate: the same steps, all of twice the time. */
        ck_assert_double_le(fabs(ech_bursts_waited(&bursts.waits, 2 * work, rate / 2) - 2 * waited), 1e-6);
    }
    /* Every step fetches: all bytes are waited for, or all but the first pass beneath. */
    EchBursts even = groups_of(STEPS * GROUPS, 1, 1);
    ck_assert_double_le(fabs(ech_bursts_waited(&even.waits, work, rate) / (STEPS * GROUPS * 3 * STEP + STEP - work) - 1), 0.03);
    ck_assert_double_le(ech_bursts_waited(&even.waits, work, 2 * BLOCK / (double)STEP), STEP);
    /* Beyond the rates that are gone through. */
    ck_assert_double_le(fabs(ech_bursts_waited(&even.waits, work, 1) / (STEPS * GROUPS * (double)BLOCK + STEP - work) - 1), 5e-3);
    ck_assert_double_le(fabs(ech_bursts_waited(&even.waits, work, 1e9) / (BLOCK / 1e9) - 1), 1e-3);
    ck_assert_double_eq(ech_bursts_waited(&(EchBurstWaits){0}, work, rate), 0);
    /* Nothing is copied: no other copy is waited for. */
    EchBurstTimes nothing, much;
    EchBursts two = {0};
    ech_bursts_begin(&two, BLOCK, &much);
    ech_bursts_begin(&two, 0, &nothing);
    ech_bursts_work(&two, STEP);
    ech_bursts_wait(&two, &nothing);
    ck_assert_double_eq(ech_bursts_waited(&two.waits, STEP, rate), 0);
}
END_TEST

/* Steps and copies at random, each waited for some steps later: at most as far off as a rate is from the next. */
START_TEST(any_order)
{
    enum { STEPS = 60, LATER = 4 };
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)_i + 1);
    EchBursts bursts = {0};
    EchBurstTimes done[LATER] = {{{0}}};
    double rate = exp2(g_rand_double_range(random, 7, 15)), now = 0, idle = 0, waited = 0, at[LATER] = {0};
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned slot = i % LATER;
        double bytes = g_rand_int_range(random, 0, 4) == 0 ? g_rand_double_range(random, 0, 1e6) : g_rand_double_range(random, 0, 1e4);
        double work = g_rand_double_range(random, 0, 200);
        ech_bursts_begin(&bursts, bytes, &done[slot]);
        at[slot] = idle = MAX(idle, now) + bytes / rate;
        ech_bursts_work(&bursts, work);
        now += work;
        slot = (unsigned)g_rand_int_range(random, 0, LATER);
        ech_bursts_wait(&bursts, &done[slot]);
        waited += MAX(at[slot] - now, 0);
        now = MAX(now, at[slot]);
    }
    double work = now - waited, found = ech_bursts_waited(&bursts.waits, work, rate);
    ck_assert_msg(work + found >= now * (1 - 1e-9) && work + found <= now * 1.025, "seed %d: %g, not %g", _i + 1, work + found, now);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bursts");
    TCase *tcase = tcase_create("bursts");
    tcase_add_test(tcase, bursts_wait);
    tcase_add_loop_test(tcase, any_order, 0, 20);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
