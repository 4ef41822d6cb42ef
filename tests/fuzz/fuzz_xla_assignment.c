/* A compiler's buffer assignment beside a program: whatever the text says, the program keeps its values and can be lowered. */
#include "sim/import/hlo.h"
#include "tests/fuzz/program_target.h"

static const char module[] = "HloModule m, is_scheduled=true, entry_computation_layout={(f32[8,128]{1,0})->(f32[8,128]{1,0}, f32[8,128]{1,0})}\n\n"
                             "ENTRY %main (p: f32[8,128]) -> (f32[8,128], f32[8,128]) {\n"
                             "  %p = f32[8,128]{1,0} parameter(0)\n"
                             "  %a = f32[8,128]{1,0} add(%p, %p)\n"
                             "  %b = f32[8,128]{1,0} multiply(%a, %p)\n"
                             "  %c = f32[8,128]{1,0} add(%b, %a)\n"
                             "  ROOT %t = (f32[8,128]{1,0}, f32[8,128]{1,0}) tuple(%c, %b)\n"
                             "}\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 1 << 18)
        return 0;
    g_autoptr(GBytes) text = g_bytes_new_static(module, sizeof module - 1);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    g_autoptr(EchProgram) program = ech_hlo_read_text(text, "m", NULL, diag, &error);
    g_assert(program);
    bool read = ech_hlo_read_assignment(program, (const char *)data, size, "fuzz", diag, &error);
    g_assert(read == (error == NULL));
    ech_fuzz_program(program, false);
    return 0;
}
