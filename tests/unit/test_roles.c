/* What arrays of a program of PyTorch's are, by where they are made, read and let go. */
#include "sim/import/roles.h"
#include "tests/support/made.h"

#include <check.h>

static const char forward[] = "nn.Module: layers.0 (Linear)\nmain", backward[] = "autograd::engine::evaluate_function: AddmmBackward0\nmain";

static void run_in(EchTraceBuilder *b, const char *where, EchId target, EchAccess access)
{
    ech_test_kernel(b, ECH_TEST_MS, target, access, 4);
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, where, -1);
}

static EchId made_in(EchTraceBuilder *b, const char *where)
{
    EchId made = ech_test_buffer(b, "made", 4, ECH_ROLE_UNKNOWN, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, made);
    run_in(b, where, made, ECH_WRITE);
    return made;
}

static EchRole role(EchTraceBuilder *b, EchId buffer)
{
    return (EchRole)ech_trace_builder_peek_buffer(b, buffer)->role;
}

/* What autograd saved it lets go within the backward pass, whether it read it or not; what the program itself lets go, before or after, is temporary. */
START_TEST(saved_unread)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    g_autoptr(GArray) given = g_array_new(FALSE, FALSE, sizeof(EchId));
    EchId read = made_in(b, forward), unread = made_in(b, forward), before = made_in(b, forward), after = made_in(b, forward);
    run_in(b, forward, before, ECH_READ);
    (void)ech_test_put(b, ECH_OP_FREE, before);
    run_in(b, backward, read, ECH_READ);
    (void)ech_test_put(b, ECH_OP_FREE, unread);
    run_in(b, backward, read, ECH_READ);
    (void)ech_test_put(b, ECH_OP_FREE, read);
    (void)ech_test_put(b, ECH_OP_FREE, after);
    run_in(b, forward, made_in(b, forward), ECH_READ);
    ech_roles_infer(b, given);
    ck_assert_int_eq(role(b, read), ECH_ROLE_ACTIVATION);
    ck_assert_int_eq(role(b, unread), ECH_ROLE_ACTIVATION);
    ck_assert_int_eq(role(b, before), ECH_ROLE_TEMPORARY);
    ck_assert_int_eq(role(b, after), ECH_ROLE_TEMPORARY);
}
END_TEST

/* Of optimizers that step in turn, what one network makes for another is alive at the steps of two and no state; what lives through a step of each is. */
START_TEST(optimizers_in_turn)
{
    enum { OPTIMIZERS = 3 };
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    g_autoptr(GArray) given = g_array_new(FALSE, FALSE, sizeof(EchId));
    EchId weights[OPTIMIZERS], image = ECH_NONE;
    for (unsigned k = 0; k < OPTIMIZERS; k++)
        weights[k] = made_in(b, "main");
    for (unsigned step = 0; step < 3; step++) {
        EchId old = image;
        image = made_in(b, forward);
        if (old != ECH_NONE)
            (void)ech_test_put(b, ECH_OP_FREE, old);
        for (unsigned k = 0; k < OPTIMIZERS; k++) {
            run_in(b, forward, image, ECH_READ);
            run_in(b, forward, weights[k], ECH_READ);
            run_in(b, backward, image, ECH_READ);
            run_in(b, "Optimizer.step#Adam.step\nmain", weights[k], ECH_WRITE);
        }
    }
    (void)ech_test_put(b, ECH_OP_FREE, image);
    ech_roles_infer(b, given);
    ck_assert_int_eq(role(b, image), ECH_ROLE_ACTIVATION);
    ck_assert_int_eq(role(b, weights[0] + OPTIMIZERS), ECH_ROLE_ACTIVATION); /* the first image */
    for (unsigned k = 0; k < OPTIMIZERS; k++)
        ck_assert_int_eq(role(b, weights[k]), ECH_ROLE_PARAMETER);
}
END_TEST

/* An optimizer for each parameter, which steps in a hook of its gradient: those of one backward pass are one step, and what they use is as it is elsewhere. */
START_TEST(optimizers_in_hooks)
{
    enum { OPTIMIZERS = 70 };
    static const char hook[] = "Optimizer.step#SGD.step\nautograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    g_autoptr(GArray) given = g_array_new(FALSE, FALSE, sizeof(EchId));
    EchId weights[OPTIMIZERS], moments[OPTIMIZERS], saved = ECH_NONE, gradient = ECH_NONE;
    for (unsigned k = 0; k < OPTIMIZERS; k++) {
        weights[k] = made_in(b, "main");
        moments[k] = ECH_NONE;
    }
    for (unsigned step = 0; step < 3; step++) {
        saved = made_in(b, forward);
        for (unsigned k = 0; k < OPTIMIZERS; k++)
            run_in(b, forward, weights[k], ECH_READ);
        for (unsigned k = 0; k < OPTIMIZERS; k++) {
            gradient = made_in(b, backward);
            moments[k] = moments[k] == ECH_NONE ? made_in(b, hook) : moments[k];
            run_in(b, hook, gradient, ECH_READ);
            run_in(b, hook, moments[k], ECH_WRITE);
            run_in(b, hook, weights[k], ECH_WRITE);
            (void)ech_test_put(b, ECH_OP_FREE, gradient);
        }
        run_in(b, backward, saved, ECH_READ);
        (void)ech_test_put(b, ECH_OP_FREE, saved);
    }
    ech_roles_infer(b, given);
    ck_assert_int_eq(role(b, saved), ECH_ROLE_ACTIVATION);
    ck_assert_int_eq(role(b, gradient), ECH_ROLE_GRADIENT);
    ck_assert_int_eq(role(b, weights[1]), ECH_ROLE_PARAMETER);
    ck_assert_int_eq(role(b, moments[1]), ECH_ROLE_OPTIMIZER);
}
END_TEST

/* An average of weights, which the program brings up to date after each step; what it keeps of another size, or beside no weights, is no copy. */
START_TEST(average_of_weights)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    g_autoptr(GArray) given = g_array_new(FALSE, FALSE, sizeof(EchId));
    EchId weight = made_in(b, "main"), average = made_in(b, "main"), kept = made_in(b, "main"), other = made_in(b, "main");
    ech_trace_builder_peek_buffer(b, other)->bytes = 8;
    for (unsigned step = 0; step < 3; step++) {
        run_in(b, forward, weight, ECH_READ);
        run_in(b, backward, weight, ECH_READ);
        run_in(b, "Optimizer.step#SGD.step\nmain", weight, ECH_WRITE);
        run_in(b, "aten::lerp_", average, ECH_WRITE);
        ech_trace_builder_use(b, weight, ECH_READ, 4, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, other, ECH_WRITE, 8, ECH_PATTERN_STREAM, ECH_KNOWN);
        run_in(b, "aten::add_", kept, ECH_WRITE);
    }
    ech_roles_infer(b, given);
    ck_assert_int_eq(role(b, weight), ECH_ROLE_PARAMETER);
    ck_assert_int_eq(role(b, average), ECH_ROLE_WEIGHT_COPY);
    ck_assert_int_eq(role(b, kept), ECH_ROLE_UNKNOWN);
    ck_assert_int_eq(role(b, other), ECH_ROLE_UNKNOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("roles");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, saved_unread);
    tcase_add_test(tcase, optimizers_in_turn);
    tcase_add_test(tcase, optimizers_in_hooks);
    tcase_add_test(tcase, average_of_weights);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
