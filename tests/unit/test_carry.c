/* The carry pass: what a loop takes slice by slice and stacks anew is updated in place, and only where nobody can tell. */
#include "sim/base/error.h"
#include "sim/pass/pass.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>

#define CACHE "f32[4,8,128]{2,1,0}"
#define SLICE "f32[1,8,128]{2,1,0}"
#define SLICES "f32[2,8,128]{2,1,0}"
#define STATE "(s32[], " CACHE ", " CACHE ")"

/* Four layers of 4 KiB each: a row of each is new. A cache is 16 KiB. */
static const char text[] =
    "HloModule m, is_scheduled=true%s, entry_computation_layout={(" CACHE ")->(" CACHE ", f32[])}\n\n"
    "cond {\n  p = " STATE " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(4)\n"
    "  ROOT c = pred[] compare(i, n), direction=LT\n}\n\n"
    "body {\n  p = " STATE " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  xs = " CACHE " get-tuple-element(p), index=1\n"
    "  ys = " CACHE " get-tuple-element(p), index=2\n  z = s32[] constant(0)\n  one = s32[] constant(1)\n  next = s32[] add(i, one)\n"
    "  s = " SLICE " dynamic-slice(xs, i, z, z), dynamic_slice_sizes={1,8,128}\n"
    "  row = f32[1,1,128]{2,1,0} slice(s), slice={[0:1], [0:1], [0:128]}\n  new = f32[1,1,128]{2,1,0} negate(row)\n"
    "  u = " SLICE " dynamic-update-slice(s, new, z, z, z)\n  w = " CACHE " dynamic-update-slice(ys, u, i, z, z)\n"
    "  ROOT r = " STATE " tuple(next, xs, w)\n}\n\n"
    "ENTRY e {\n  a = " CACHE " parameter(0)\n  z = s32[] constant(0)\n  f = f32[] constant(0)\n"
    "  empty = " CACHE " custom-call(), custom_call_target=\"AllocateBuffer\"\n  init = " STATE " tuple(z, a, empty)\n"
    "  loop = " STATE " while(init), condition=cond, body=body\n  out = " CACHE " get-tuple-element(loop), index=2\n  copy = " CACHE " %s(out)\n"
    "  ROOT r = (" CACHE ", f32[]) tuple(copy, f)\n}\n";

#define DONATED ", input_output_alias={ {0}: (0, {}, may-alias) }"
#define UPDATE "u = " SLICE " dynamic-update-slice(s, new, z, z, z)"
#define EMPTY "custom-call(), custom_call_target=\"AllocateBuffer\""
#define RESULT "  ROOT r = (" CACHE ", f32[]) tuple(copy, f)\n"

/* A change of the text, whether the argument is donated, what the pass does with it, and by how much less it needs then. */
static const struct {
    const char *from, *to;
    bool donated, carried, writes_whole;
    EchBytes saved;
} programs[] = {
    {"%", "%", true, true, false, 16384 + 4096}, /* the stack, and the slice that is taken */
    {"%", "%", false, true, false, 4096},        /* copied first, as large as the stack was */
    /* The whole slice is new: it is written still. */
    {UPDATE, "u = " SLICE " negate(s)", true, true, true, 16384},
    /* Filled by a kernel before. */
    {EMPTY, "broadcast(f), dimensions={}", true, true, false, 16384 + 4096},
    /* Written where another iteration reads. */
    {"dynamic-update-slice(ys, u, i, z, z)", "dynamic-update-slice(ys, u, next, z, z)", true, false, true, 0},
    /* Of nothing that is taken. */
    {UPDATE, "u = " SLICE " iota(), iota_dimension=1", true, false, true, 0},
    /* Summed up, not stacked. */
    {"w = " CACHE " dynamic-update-slice(ys, u, i, z, z)", "w = " CACHE " add(ys, xs)", true, false, false, 0},
    /* Read after the loop, as it was. */
    {RESULT, "  old = " CACHE " negate(a)\n" RESULT, true, false, true, 0},
    /* Begun with something. */
    {EMPTY, "negate(a)", true, false, true, 0},
    /* The argument's place is another result's. */
    {RESULT, "  other = " CACHE " negate(copy)\n  ROOT r = (" CACHE ", f32[]) tuple(other, f)\n", true, false, true, 0},
};

static EchBytes needed(EchProgram *program)
{
    GError *error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    EchProgramAssignment *made = ech_program_assign(program, 0, diag, &error);
    ck_assert_ok(made != NULL, error);
    ech_program_set_assignment(program, made, "made by echelon");
    EchMemoryAnalysis m = ech_program_memory_analysis(program);
    return m.argument + m.output - m.alias + m.temp;
}

static EchProgram *carry(EchProgram *in, EchDiag *diag)
{
    GError *error = NULL;
    g_autoptr(EchPass) made = ech_pass_new("carry", &error);
    ck_assert_ok(made != NULL, error);
    g_autoptr(GPtrArray) passes = g_ptr_array_new();
    g_ptr_array_add(passes, made);
    EchProgram *out = ech_passes_run_program(passes, NULL, in, diag, &error);
    ck_assert_ok(out != NULL, error);
    return out;
}

START_TEST(carried)
{
    g_autofree char *plain = g_strdup_printf(text, programs[_i].donated ? DONATED : "", programs[_i].donated ? "copy" : "bitcast");
    g_auto(GStrv) parts = g_strsplit(plain, programs[_i].from, 2);
    g_autofree char *changed = g_strjoinv(programs[_i].to, parts);
    ck_assert(*programs[_i].from == '%' || strcmp(changed, plain) != 0);
    g_autoptr(EchImport) import = ech_test_hlo(changed, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = carry(import->program, diag);
    ck_assert_int_eq(out != import->program, programs[_i].carried);
    EchBytes before = needed(import->program), after = needed(out);
    ck_assert_msg(before == after + programs[_i].saved, "%" G_GUINT64_FORMAT " bytes before, %" G_GUINT64_FORMAT " now", before, after);
    bool whole = false;
    for (size_t i = 0; i < out->n_instructions; i++)
        whole |= out->instructions[i].opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && strcmp(out->instructions[i].name, "w") == 0;
    ck_assert_int_eq(whole, programs[_i].writes_whole);
    ck_assert_ptr_nonnull(ech_diag_remarks(diag)[0]);
}
END_TEST

/* What of the text is another in a test: every @from becomes @to. */
typedef struct {
    const char *from, *to;
} Change;

static EchImport *import_changed(const Change *changes, size_t n)
{
    g_autofree char *hlo = g_strdup_printf(text, "", "bitcast");
    for (size_t i = 0; i < n; i++) {
        g_auto(GStrv) parts = g_strsplit(hlo, changes[i].from, -1);
        ck_assert_uint_gt(g_strv_length(parts), 1);
        g_free(hlo);
        hlo = g_strjoinv(changes[i].to, parts);
    }
    return ech_test_hlo(hlo, NULL);
}

#define MADE "  b = " CACHE " negate(a)\n  empty = "
#define COMPUTATION(name, result, body) name " {\n  fa = " CACHE " parameter(0)\n" body "  ROOT fr = " result "\n}\n\nENTRY e {"

/* Arrays that somebody needs as they were, and such as one might take for them. */
static const struct {
    Change changes[6];
    bool carried;
} needs[] = {
    /* Made by the program. */
    {{{"  empty = ", MADE}, {"tuple(z, a, empty)", "tuple(z, b, empty)"}}, true},
    /* A result besides. */
    {{{"  empty = ", MADE}, {"tuple(z, a, empty)", "tuple(z, b, empty)"}, {"f32[])", CACHE ")"}, {"tuple(copy, f)", "tuple(copy, b)"}}, false},
    /* The same numbers whenever the program runs. */
    {{{"  empty = ", "  b = " CACHE " constant({...})\n  empty = "}, {"tuple(z, a, empty)", "tuple(z, b, empty)"}}, false},
    /* Given to a kernel twice, that reads a slice of the one and all of the other. */
    {{{"  s = " SLICE " dynamic-slice(xs, i, z, z), dynamic_slice_sizes={1,8,128}",
       "  xs2 = " CACHE " get-tuple-element(p), index=1\n  s = " SLICE " fusion(xs, i, xs2), kind=kLoop, calls=both"},
      {"ENTRY e {", COMPUTATION("both", SLICE " add(fs, ft)",
                                "  fi = s32[] parameter(1)\n  fb = " CACHE " parameter(2)\n  fz = s32[] constant(0)\n"
                                "  fs = " SLICE " dynamic-slice(fa, fi, fz, fz), dynamic_slice_sizes={1,8,128}\n"
                                "  ft = " SLICE " custom-call(fb), custom_call_target=\"all\"\n")}},
     false},
    /* What is stacked likewise. */
    {{{"  w = " CACHE " dynamic-update-slice(ys, u, i, z, z)",
       "  ys2 = " CACHE " get-tuple-element(p), index=2\n  w = " CACHE " fusion(ys, u, i, ys2), kind=kLoop, calls=over"},
      {"ENTRY e {", COMPUTATION("over", CACHE " dynamic-update-slice(fa, ft, fi, fz, fz)",
                                "  fu = " SLICE " parameter(1)\n  fi = s32[] parameter(2)\n  fb = " CACHE " parameter(3)\n  fz = s32[] constant(0)\n"
                                "  fn = " CACHE " negate(fb)\n  fs = " SLICE " slice(fn), slice={[0:1], [0:8], [0:128]}\n"
                                "  ft = " SLICE " add(fs, fu)\n")}},
     false},
    /* Slices that were stacked before are read. */
    {{{"negate(row)", "add(row, earlier)"},
      {"  new = ", "  earlier = f32[1,1,128]{2,1,0} dynamic-slice(ys, z, z, z), dynamic_slice_sizes={1,1,128}\n  new = "}},
     false},
    /* The same index, of another dimension. */
    {{{"  w = " CACHE " dynamic-update-slice(ys, u, i, z, z)",
       "  t = f32[4,1,128]{2,1,0} custom-call(u), custom_call_target=\"turn\"\n  w = " CACHE " dynamic-update-slice(ys, t, z, i, z)"}},
     false},
    /* In every iteration the same slice. */
    {{{"dynamic-slice(xs, i, ", "dynamic-slice(xs, q, "}, {"(ys, u, i, ", "(ys, u, q, "}, {"  s = ", "  q = s32[] multiply(i, z)\n  s = "}}, false},
    /* One index is given to both, and another is made of it inside of one. */
    {{{"dynamic-slice(xs, i, z, z), dynamic_slice_sizes={1,8,128}", "fusion(xs, i), kind=kLoop, calls=back"},
      {"ENTRY e {", COMPUTATION("back", SLICE " dynamic-slice(fa, fj, fz, fz), dynamic_slice_sizes={1,8,128}",
                                "  fi = s32[] parameter(1)\n  fn = s32[] constant(3)\n  fj = s32[] subtract(fn, fi)\n  fz = s32[] constant(0)\n")}},
     false},
    /* From the last to the first; and what JAX makes of an index that might count from the end. */
    {{{"dynamic-slice(xs, i, ", "dynamic-slice(xs, q, "},
      {"(ys, u, i, ", "(ys, u, q, "},
      {"  s = ", "  n = s32[] constant(3)\n  q = s32[] subtract(n, i)\n  s = "}},
     true},
    {{{"dynamic-slice(xs, i, ", "dynamic-slice(xs, q, "},
      {"  s = ", "  n = s32[] constant(4)\n  l = pred[] compare(i, z), direction=LT\n  in = s32[] add(i, n)\n  q = s32[] select(l, in, i)\n  s = "}},
     true},
    /* Two slices at a time, step by step, and one by one: those that come next are written over. */
    {{{"  s = " SLICE, "  s = " SLICES},
      {"u = " SLICE, "u = " SLICES},
      {"={1,8,128}", "={2,8,128}"},
      {"(xs, i, ", "(xs, q, "},
      {"(ys, u, i, ", "(ys, u, q, "},
      {"  one = ", "  two = s32[] constant(2)\n  q = s32[] multiply(i, two)\n  one = "}},
     true},
    {{{"  s = " SLICE, "  s = " SLICES}, {"u = " SLICE, "u = " SLICES}, {"={1,8,128}", "={2,8,128}"}}, false},
    /* Filled by a kernel of its own, as on a GPU. */
    {{{EMPTY, "fusion(), kind=kLoop, calls=fill"},
      {"ENTRY e {", "fill {\n  ff = f32[] constant(0)\n  ROOT fr = " CACHE " broadcast(ff), dimensions={}\n}\n\nENTRY e {"}},
     true},
};

START_TEST(needed_as_it_was)
{
    size_t n = 0;
    while (n < G_N_ELEMENTS(needs[_i].changes) && needs[_i].changes[n].from)
        n++;
    g_autoptr(EchImport) import = import_changed(needs[_i].changes, n);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = carry(import->program, diag);
    ck_assert_int_eq(out != import->program, needs[_i].carried);
}
END_TEST

#define AROUND "(s32[], " CACHE ", f32[])"

/* In a loop around it: what that hands on as it was (_i: anew) is needed the next time. */
START_TEST(in_a_loop)
{
    static const char around[] =
        "around {\n  p = " AROUND " parameter(0)\n  k = s32[] get-tuple-element(p), index=0\n  a = " CACHE " get-tuple-element(p), index=1\n"
        "  one = s32[] constant(1)\n  next = s32[] add(k, one)\n  z = s32[] constant(0)\n  empty = " CACHE " " EMPTY "\n"
        "  init = " STATE " tuple(z, a, empty)\n  loop = " STATE " while(init), condition=cond, body=body\n"
        "  out = " CACHE " get-tuple-element(loop), index=2\n  new = " CACHE " negate(out)\n  s = f32[] custom-call(new), custom_call_target=\"sum\"\n"
        "  ROOT r = " AROUND " tuple(next, %s, s)\n}\n\n"
        "more {\n  p = " AROUND " parameter(0)\n  k = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(3)\n"
        "  ROOT c = pred[] compare(k, n), direction=LT\n}\n\n"
        "ENTRY e {\n  a = " CACHE " parameter(0)\n  b = " CACHE " negate(a)\n  other = " CACHE " negate(a)\n  z = s32[] constant(0)\n"
        "  f = f32[] constant(0)\n  init = " AROUND " tuple(z, b, f)\n  loop = " AROUND " while(init), condition=more, body=around\n"
        "  s = f32[] get-tuple-element(loop), index=2\n  ROOT r = (" CACHE ", f32[]) tuple(other, s)\n}\n";
    g_autofree char *plain = g_strdup_printf(text, "", "bitcast"), *outer = g_strdup_printf(around, _i == 0 ? "a" : "new");
    g_auto(GStrv) parts = g_strsplit(plain, "ENTRY e {", 2);
    g_autofree char *hlo = g_strconcat(parts[0], outer, NULL);
    g_autoptr(EchImport) import = ech_test_hlo(hlo, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = carry(import->program, diag);
    ck_assert_int_eq(out != import->program, _i == 1);
}
END_TEST

/* An argument by another name is one all the same: it stays, and is copied first. */
START_TEST(another_name_of_an_argument)
{
    static const Change changes[] = {{"  empty = ", "  same = " CACHE " bitcast(a)\n  empty = "}, {"tuple(z, a, empty)", "tuple(z, same, empty)"}};
    g_autoptr(EchImport) import = import_changed(changes, G_N_ELEMENTS(changes));
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = carry(import->program, diag);
    ck_assert_uint_eq(needed(import->program) - needed(out), 4096);
    ck_assert_uint_lt(ech_test_instruction(out, "copy.of.same"), ech_test_instruction(out, "init"));
}
END_TEST

/* Both stacks come of the array, and only one has its place. */
START_TEST(one_place_is_given_once)
{
    static const Change changes[] = {
        {STATE, "(s32[], " CACHE ", " CACHE ", " CACHE ")"},
        {"  z = s32[] constant(0)\n  one", "  more = " CACHE " get-tuple-element(p), index=3\n  z = s32[] constant(0)\n  one"},
        {"tuple(next, xs, w)", "tuple(next, xs, w, w2)"},
        {"  w = ", "  w2 = " CACHE " dynamic-update-slice(more, u, i, z, z)\n  w = "},
        {"  empty = ", "  empty2 = " CACHE " " EMPTY "\n  empty = "},
        {"tuple(z, a, empty)", "tuple(z, a, empty, empty2)"},
        {"  out = ", "  out2 = " CACHE " get-tuple-element(loop), index=3\n  out = "},
        {"f32[])", CACHE ")"},
        {"tuple(copy, f)", "tuple(copy, out2)"},
    };
    g_autoptr(EchImport) import = import_changed(changes, G_N_ELEMENTS(changes));
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = carry(import->program, diag);
    unsigned written = 0;
    for (size_t i = 0; i < out->n_instructions; i++)
        written += out->instructions[i].opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && out->instructions[i].name[0] == 'w';
    ck_assert_uint_eq(written, 1);
    ck_assert_uint_eq(needed(import->program) - needed(out), 4096); /* the other is held still */
}
END_TEST

/* Two arguments of one loop, neither donated: each is copied before, and the loop begins with the copies. */
START_TEST(arguments_are_copied_first)
{
    static const Change changes[] = {
        {STATE, "(s32[], " CACHE ", " CACHE ", " CACHE ", " CACHE ")"},
        {"{(" CACHE ")->(" CACHE ", f32[])}", "{(" CACHE ", " CACHE ")->(" CACHE ", " CACHE ")}"},
        {"  z = s32[] constant(0)\n  one",
         "  xs2 = " CACHE " get-tuple-element(p), index=3\n  ys2 = " CACHE " get-tuple-element(p), index=4\n  z = s32[] constant(0)\n  one"},
        {"  ROOT r = (s32[]", "  s2 = " SLICE " dynamic-slice(xs2, i, z, z), dynamic_slice_sizes={1,8,128}\n  u2 = " SLICE " negate(s2)\n  w2 = " CACHE
                              " dynamic-update-slice(ys2, u2, i, z, z)\n  ROOT r = (s32[]"},
        {"tuple(next, xs, w)", "tuple(next, xs, w, xs2, w2)"},
        {"  a = ", "  b = " CACHE " parameter(1)\n  a = "},
        {"  empty = ", "  empty2 = " CACHE " " EMPTY "\n  empty = "},
        {"tuple(z, a, empty)", "tuple(z, a, empty, b, empty2)"},
        {"  out = ", "  out2 = " CACHE " get-tuple-element(loop), index=4\n  out = "},
        {RESULT, "  ROOT r = (" CACHE ", " CACHE ") tuple(copy, out2)\n"},
    };
    g_autoptr(EchImport) import = import_changed(changes, G_N_ELEMENTS(changes));
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = carry(import->program, diag);
    const EchInstruction *init = &out->instructions[ech_test_instruction(out, "init")];
    for (uint32_t k = 1; k <= 4; k++)
        ck_assert_str_eq(out->instructions[ech_program_operand(out, init, k)].name, k <= 2 ? "copy.of.a" : "copy.of.b");
    ck_assert(ech_test_says(diag, "carry: 2 arrays (32 KiB)"));
    ck_assert(ech_test_says(diag, "carry: 32 KiB of that are arguments that are not donated: copied first"));
}
END_TEST

/* A decoder's cache as xs and ys, with the pass, and what the compiler makes of it as the carry. */
START_TEST(as_compiled)
{
    const EchImportOptions options = {.device = "tpu-v5e"};
    g_autoptr(EchImport) scan = ech_test_import(ECH_SOURCE_DIR "/traces/cache_scan.v5e/program.hlo.txt.gz", &options);
    g_autoptr(EchImport) compiled = ech_test_import(ECH_SOURCE_DIR "/traces/cache_carry.v5e/program.hlo.txt.gz", &options);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) out = carry(scan->program, diag);
    double before = (double)needed(scan->program), after = (double)needed(out), real = (double)needed(compiled->program);
    ck_assert_msg(before > 1.8 * real, "%g bytes before, %g compiled with the carry", before, real);
    ck_assert_msg(fabs(after / real - 1) < 0.02, "%g bytes by the pass, %g compiled", after, real);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("carry");
    TCase *tcase = tcase_create("carry");
    tcase_add_loop_test(tcase, carried, 0, G_N_ELEMENTS(programs));
    tcase_add_loop_test(tcase, needed_as_it_was, 0, G_N_ELEMENTS(needs));
    tcase_add_loop_test(tcase, in_a_loop, 0, 2);
    tcase_add_test(tcase, another_name_of_an_argument);
    tcase_add_test(tcase, one_place_is_given_once);
    tcase_add_test(tcase, arguments_are_copied_first);
    tcase_add_test(tcase, as_compiled);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
