#include "sim/pass/pass.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/pass/names.h"
#include "sim/pass/survey.h"

#include <string.h>

#define ECH_PASS(name) extern const EchPassClass ech_pass_##name;
#include "sim/pass/passes.def"
#undef ECH_PASS

static const EchPassClass *const classes[] = {
#define ECH_PASS(name) &ech_pass_##name,
#include "sim/pass/passes.def"
#undef ECH_PASS
};

struct EchPass {
    const EchPassClass *class;
    void *options;
};

char *ech_pass_unnamed(const char *pattern, const GPtrArray *names)
{
    enum { MOST_NAMES = 6 };
    g_autoptr(GHashTable) seen = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    GString *out = g_string_new(NULL);
    g_string_printf(out, "no array is called '%s'", pattern);
    guint told = 0;
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        size_t n = strcspn(name, "[.");
        if (!g_hash_table_add(seen, g_strndup(name, n)) || told++ >= MOST_NAMES)
            continue;
        g_string_append_printf(out, "%s%.*s%s", told == 1 ? "; arguments are " : ", ", (int)n, name, name[n] ? "*" : "");
    }
    if (told > MOST_NAMES)
        g_string_append_printf(out, " and %u more", told - MOST_NAMES);
    return g_string_free(out, FALSE);
}

const EchPassClass *const *ech_pass_classes(size_t *ret_n)
{
    *ret_n = G_N_ELEMENTS(classes);
    return classes;
}

EchPass *ech_pass_new(const char *spec, GError **error)
{
    g_autofree char *name = NULL;
    g_autofree char *rest = NULL;
    ech_spec_split(spec, &name, &rest);
    g_autoptr(EchPass) pass = g_new0(EchPass, 1);
    const char *names[G_N_ELEMENTS(classes) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++) {
        names[i] = classes[i]->name;
        if (strcmp(classes[i]->name, name) == 0)
            pass->class = classes[i];
    }
    if (!pass->class) {
        const char *nearest = ech_nearest_name(name, names);
        g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no pass; %s%s%s", name, nearest ? "did you mean '" : "expected one of ",
                    nearest ? nearest : all, nearest ? "'?" : "");
        return NULL;
    }
    pass->options = g_malloc0(MAX(pass->class->options_size, 1));
    ech_params_defaults(pass->class->params, pass->options);
    if (!ech_params_parse(pass->class->params, pass->options, rest, error)) {
        g_prefix_error(error, "pass %s: ", name);
        return NULL;
    }
    return g_steal_pointer(&pass);
}

void ech_pass_free(EchPass *pass)
{
    if (!pass)
        return;
    if (pass->options)
        ech_params_clear(pass->class->params, pass->options);
    g_free(pass->options);
    g_free(pass);
}

const char *ech_pass_name(const EchPass *pass)
{
    return pass->class->name;
}

bool ech_pass_is_program(const EchPass *pass)
{
    return pass->class->program != NULL;
}

EchBytes ech_pass_goal(const EchPass *pass)
{
    return pass->class->goal ? pass->class->goal(pass->options) : 0;
}

char *ech_pass_print(const EchPass *pass)
{
    g_autofree char *options = ech_params_print(pass->class->params, pass->options);
    return *options ? g_strdup_printf("%s:%s", pass->class->name, options) : g_strdup(pass->class->name);
}

EchProgram *ech_passes_run_program(const GPtrArray *passes, const EchDevice *device, EchProgram *in, EchDiag *diag, GError **error)
{
    g_autoptr(EchProgram) program = ech_program_ref(in);
    for (guint i = 0; passes && i < passes->len; i++) {
        const EchPass *pass = passes->pdata[i];
        if (!pass->class->program)
            continue;
        EchProgram *next = pass->class->program(pass->options, device, program, diag, error);
        if (!next) {
            g_prefix_error(error, "pass %s: ", pass->class->name);
            return NULL;
        }
        ech_program_unref(program);
        program = next;
    }
    return g_steal_pointer(&program);
}

/* What comes near a name that was asked for and that nothing has. */
static void say_names(const EchPass *pass, const EchTrace *trace, EchDiag *diag)
{
    static const char *const keys[] = {"names", "keep", "modules", NULL};
    for (const EchParam *param = pass->class->params; param && param->name; param++) {
        if (param->type != ECH_PARAM_STRING || !g_strv_contains(keys, param->name))
            continue;
        const char *pattern = *(char *const *)(const void *)((const char *)pass->options + param->offset);
        if (!*pattern || strcmp(pattern, "*") == 0 || strcmp(pattern, ECH_PRODUCTS) == 0 || strcmp(pattern, ECH_STACKS) == 0)
            continue;
        g_autofree char *unfit = ech_names_unfit(trace, pattern, strcmp(param->name, "modules") == 0);
        if (unfit)
            ech_diag_remark(diag, "%s: nothing fits %s=%s: %s", pass->class->name, param->name, pattern, unfit);
    }
}

EchTrace *ech_passes_run_trace(const GPtrArray *passes, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    g_autoptr(EchTrace) trace = ech_trace_ref(in);
    for (guint i = 0; passes && i < passes->len; i++) {
        const EchPass *pass = passes->pdata[i];
        if (!pass->class->trace)
            continue;
        say_names(pass, trace, diag);
        if (pass->class->of_tensors && ech_trace_get_property(trace, ECH_TRACE_SEGMENTS)) {
            ech_diag_remark(diag,
                            "%s: left the trace as it is: no snapshot of PyTorch's lies beside it, and what is known are segments of its allocator, not its "
                            "tensors; 'echelon capture' writes one (PID.pickle beside PID.pretend)",
                            pass->class->name);
            continue;
        }
        EchTrace *next = pass->class->trace(pass->options, device, trace, diag, error);
        if (!next) {
            g_prefix_error(error, "pass %s: ", pass->class->name);
            return NULL;
        }
        ech_trace_unref(trace);
        trace = next;
    }
    return g_steal_pointer(&trace);
}
