/* Modules of PyTorch that a program repeats, by what its kernels stand in. */
#include "sim/pass/modules.h"
#include "tests/support/made.h"

#include <check.h>
#include <string.h>

/* Kernels, by the modules that each stands in, innermost first. */
static const struct {
    const char *in[12];
    const char *repeated; /* NULL: none */
} programs[] = {
    {{"blocks.0.qkv (Linear)|blocks.0 (Block)|GPT", "blocks.1.qkv (Linear)|blocks.1 (Block)|GPT", "head (Linear)|GPT"}, "blocks.*"},
    {{"module.model.layers.0.mlp (MLP)|module.model.layers.0 (Layer)", "module.model.layers.10.mlp (MLP)|module.model.layers.10 (Layer)"},
     "module.model.layers.*"},
    {{"encoder.layers.0.a (Linear)|encoder.layers.0 (Layer)", "encoder.layers.1.a (Linear)", "decoder.layers.0.a (Linear)", "decoder.layers.1.a (Linear)"},
     "decoder.layers.*+encoder.layers.*"},
    /* Blocks of stages; of experts, beside which layers have more. */
    {{"stages.0.blocks.0.a (Linear)", "stages.0.blocks.1.a (Linear)", "stages.1.blocks.0.a (Linear)", "stages.1.blocks.1.a (Linear)"}, "stages.*.blocks.*"},
    {{"layers.0.attention (A)", "layers.0.experts.0.up (Linear)", "layers.0.experts.1.up (Linear)", "layers.1.attention (A)", "layers.1.experts.0.up (Linear)",
      "layers.1.experts.1.up (Linear)"},
     "layers.*"},
    {{"stages.0.0.a (Linear)|stages.0.0 (Block)|stages.0 (Sequential)", "stages.0.1.a (Linear)", "stages.1.0.a (Linear)", "stages.1.1.a (Linear)"},
     "stages.*.*"},
    /* One alone; layers that are made of nothing; numbers that end no name, or begin it. */
    {{"blocks.0.qkv (Linear)|blocks.0 (Block)", "head (Linear)"}, NULL},
    {{"features.0 (Conv2d)", "features.1 (ReLU)"}, NULL},
    {{"conv2d_1.a (Conv2d)", "conv2d_2.a (Conv2d)", "0.a (Linear)", "1.a (Linear)"}, NULL},
    {{"GPT"}, NULL},
};

START_TEST(repeated)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    for (size_t k = 0; k < G_N_ELEMENTS(programs[_i].in) && programs[_i].in[k]; k++) {
        g_auto(GStrv) lines = g_strsplit(programs[_i].in[k], "|", -1);
        g_autoptr(GString) stack = g_string_new("aten::linear");
        for (char **line = lines; *line; line++)
            g_string_append_printf(stack, "\nnn.Module: %s", *line);
        EchId op = ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
        ech_trace_builder_peek_op(b, op)->stack = ech_trace_builder_string(b, stack->str, -1);
    }
    g_autoptr(EchTrace) t = ech_test_finish(b);
    g_autofree char *found = ech_modules_repeated(t);
    ck_assert_pstr_eq(found, programs[_i].repeated);
}
END_TEST

START_TEST(outermost)
{
    char *const patterns[] = {"blocks.*", NULL};
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId op = ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(b, op)->stack = ech_trace_builder_string(
        b, "aten::mm\nautograd::engine::evaluate_function: MmBackward0\nnn.Module: blocks.2.up (Linear)\nnn.Module: blocks.2 (Block)\nnn.Module: GPT", -1);
    op = ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(b, op)->stack = ech_trace_builder_string(b, "aten::mm\nnn.Module: head (Linear)\nnn.Module: GPT", -1);
    g_autoptr(EchTrace) t = ech_test_finish(b);
    g_auto(EchSurvey) s = {0};
    (void)ech_survey_init(&s, t, NULL);
    size_t n;
    const char *line = ech_modules_find(&s, 0, patterns, &n);
    ck_assert(line != NULL && n == strlen("nn.Module: blocks.2 (Block)") && g_str_has_prefix(line, "nn.Module: blocks.2 (Block)\n"));
    ck_assert_ptr_null(ech_modules_find(&s, 1, patterns, &n));
    ck_assert(ech_modules_is_backward(&s, 0) && !ech_modules_is_backward(&s, 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("modules");
    TCase *tcase = tcase_create("modules");
    tcase_add_loop_test(tcase, repeated, 0, G_N_ELEMENTS(programs));
    tcase_add_test(tcase, outermost);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
