/* Which measures of PyTorch's can be asked for, and how what cannot is answered. */
#include "sim/experiment/torch_measures.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

static const struct {
    const char *specs;
    const char *says; /* of the error; NULL: they can be asked for */
} asked[] = {
    {"autocast", NULL},
    {"autocast=float16,fused", NULL},
    {"checkpoint=blocks.*+head,compile=max-autotune,foreach=false", NULL},
    {"activation_memory_budget=0.5", NULL},
    {"quantize=Float8WeightOnly,compile", NULL},
    {"quantize=int8", "'quantize=int8'; expected quantize=Int8WeightOnly, Float8WeightOnly, "},
    {"sdpa=flash", "'sdpa=flash': sdpa takes no value"},
    {"autocst", "there is no 'autocst'; did you mean 'autocast'?"},
    {"qqqqqqqqqq", "there is no 'qqqqqqqqqq'; expected one of autocast, "},
    {"", "there is no ''; expected one of"},
    {"fused,,compile", "there is no ''"},
    {"autocast=float8", "'autocast=float8'; expected autocast=bfloat16, float16"},
    {"autocast=", "'autocast='; expected"},
    {"fused=yes", "'fused=yes': fused takes no value"},
    {"foreach", "'foreach'; expected foreach=false"},
    {"checkpoint=", "'checkpoint='; expected checkpoint=VALUE"},
    {"activation_memory_budget", "'activation_memory_budget'; expected activation_memory_budget=VALUE"},
    {"activation_memory_budget=1.5", "'activation_memory_budget=1.5'; expected a number from 0 to 1"},
    {"activation_memory_budget=nan", "expected a number from 0 to 1"},
    {"fused,autocast,fused", "fused is asked for twice"},
};

START_TEST(specs)
{
    g_autoptr(GError) error = NULL;
    bool may = ech_torch_measures_check(asked[_i].specs, &error);
    ck_assert_msg(may == (asked[_i].says == NULL), "%s: %s", asked[_i].specs, error ? error->message : "may be asked for");
    if (!may)
        ck_assert_msg(strstr(error->message, asked[_i].says) != NULL, "%s", error->message);
}
END_TEST

START_TEST(found_by_name)
{
    size_t n;
    const EchTorchMeasure *all = ech_torch_measures(&n);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *spec = g_strconcat(all[i].name, "=x", NULL);
        ck_assert_ptr_eq(ech_torch_measure_find(all[i].name), &all[i]);
        ck_assert_ptr_eq(ech_torch_measure_find(spec), &all[i]);
    }
    ck_assert_ptr_null(ech_torch_measure_find("auto"));
    ck_assert_ptr_null(ech_torch_measure_find("autocasting"));
}
END_TEST

static const struct {
    const char *spec, *code;
} coded[] = {
    {"autocast", "with torch.autocast(\"cuda\", dtype=torch.bfloat16): around the forward pass and the loss"},
    {"autocast=float16", "with torch.autocast(\"cuda\", dtype=torch.float16): around the forward pass and the loss"},
    {"compile=max-autotune", "model.compile(mode=\"max-autotune\")"},
    {"float32_matmul_precision=medium", "torch.set_float32_matmul_precision(\"medium\")"},
    {"checkpoint", ECH_TORCH_CHECKPOINT},
    {"checkpoint=layers.*+head", ECH_TORCH_CHECKPOINT " of layers.*+head"},
    {"activation_memory_budget=0.3", "torch._functorch.config.activation_memory_budget = 0.3, before torch.compile"},
    {"foreach=false", "foreach=False for the optimizer: torch.optim.AdamW(..., foreach=False)"},
    {"quantize", "torchao.quantization.quantize_(model, torchao.quantization.Int8WeightOnlyConfig())"},
    {"quantize=Float8WeightOnly", "torchao.quantization.quantize_(model, torchao.quantization.Float8WeightOnlyConfig())"},
    {"fused", ECH_TORCH_FUSED},
    {"unheard", "unheard"},
};

START_TEST(in_code)
{
    g_autofree char *code = ech_torch_measure_code(coded[_i].spec);
    ck_assert_str_eq(code, coded[_i].code);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("torch_measures");
    TCase *tc = tcase_create("torch_measures");
    tcase_add_loop_test(tc, specs, 0, G_N_ELEMENTS(asked));
    tcase_add_test(tc, found_by_name);
    tcase_add_loop_test(tc, in_code, 0, G_N_ELEMENTS(coded));
    suite_add_tcase(suite, tc);
    return ech_test_main(suite);
}
