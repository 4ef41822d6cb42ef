/* donate: arguments whose place outputs take, or do not take any more: jit's donate_argnums, asked of a program that was compiled otherwise. */
#include "sim/pass/names.h"
#include "sim/pass/pass.h"
#include "sim/program/donation.h"

typedef enum { WHAT_ALL, WHAT_NONE } What;

typedef struct {
    uint64_t what;
    char *names;
    EchBytes above;
} DonateOptions;

static const char *const whats[] = {"all", "none", NULL};

static const EchParam donate_params[] = {
    {"what", ECH_PARAM_ENUM, offsetof(DonateOptions, what), "all", NULL, NULL, whats,
     "all: outputs take the place of arguments of their shape, else of their size; none: every output gets a place of its own"},
    {"names", ECH_PARAM_STRING, offsetof(DonateOptions, names), "*", NULL, NULL, NULL,
     "only arguments whose name fits this, * standing for anything (\"state*\")"},
    {"above", ECH_PARAM_BYTES, offsetof(DonateOptions, above), "0", NULL, NULL, NULL, "only arguments of at least this size"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

static bool called(const EchInstruction *parameter, const char *pattern)
{
    return g_pattern_match_simple(pattern, parameter->name) || (parameter->op_name != NULL && g_pattern_match_simple(pattern, parameter->op_name));
}

static bool meant(const EchProgram *program, EchId parameter, uint32_t position, const void *data)
{
    const DonateOptions *o = data;
    const EchInstruction *i = &program->instructions[parameter];
    if (program->shapes[ech_program_subshape(program, i->shape, position)].bytes < o->above)
        return false;
    return called(i, o->names);
}

/* Where no argument is called @pattern, that, and what they are called; else NULL. */
static char *unnamed_in(const EchProgram *program, const char *pattern)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    const EchComputation *entry = &program->computations[program->entry];
    for (uint32_t k = 0; k < entry->n; k++) {
        const EchInstruction *i = &program->instructions[entry->first + k];
        if (i->opcode != ECH_HLO_PARAMETER)
            continue;
        if (called(i, pattern))
            return NULL;
        g_ptr_array_add(names, (gpointer)(uintptr_t)(i->op_name != NULL ? i->op_name : i->name));
    }
    g_autofree char *unnamed = ech_pass_unnamed(pattern, names), *near = ech_names_near(pattern, names);
    return g_strconcat(unnamed, near ? "; " : NULL, near, NULL);
}

static void say(EchDiag *diag, const char *what, uint32_t n, EchBytes bytes)
{
    g_autofree char *size = ech_format_bytes(bytes);
    if (n > 0)
        ech_diag_remark(diag, "donate: %u array%s (%s): %s", n, n == 1 ? "" : "s", size, what);
}

static EchProgram *donate_run(const void *options, const EchDevice *device, EchProgram *in, EchDiag *diag, GError **error)
{
    (void)device;
    const DonateOptions *o = options;
    EchDonationChange change;
    EchProgram *out = ech_program_donate(in, meant, o, o->what == WHAT_ALL, &change, error);
    if (out == NULL)
        return NULL;
    g_autofree char *unnamed = out == in ? unnamed_in(in, o->names) : NULL;
    if (out == in)
        ech_diag_remark(diag, "donate: left the program as it is: %s",
                        unnamed                ? unnamed
                        : o->what == WHAT_NONE ? "none of these arguments is donated"
                                               : "these arguments are donated already, or no output has the shape, layout and memory of one of them");
    else {
        say(diag, "donated, an output takes the argument's place", change.donated, change.donated_bytes);
        say(diag, "donated no more, the output has a place of its own", change.kept, change.kept_bytes);
        say(diag, "asked for, but no output left has the argument's shape, layout and memory", change.unmatched, change.unmatched_bytes);
        say(diag, "no longer copied to where they are updated", change.spared, change.spared_bytes);
        say(diag,
            o->what == WHAT_ALL ? "copied into the argument's place at the end, which is still read when the output is made"
                                : "copied before they are written over, since the argument must stay",
            change.copies, change.copy_bytes);
        if (in->platform == ECH_PLATFORM_TPU)
            ech_diag_remark(diag, "donate: what is on chip is left as it was; decided anew too: pass place:policy=none before, place after");
    }
    return out;
}

const EchPassClass ech_pass_donate = {.name = "donate",
                                      .summary = "let outputs take the place of arguments, or none",
                                      .source = "XLA's input_output_alias and copy insertion; JAX's pairing of arguments with outputs",
                                      .params = donate_params,
                                      .options_size = sizeof(DonateOptions),
                                      .program = donate_run};
