/** @file program_target.h
 * What a program that was read must survive: its buffers assigned, its figures, the trace it makes, and that trace's own file.
 */
#pragma once
#include "models/device/device.h"
#include "sim/import/import.h"
#include "sim/pass/pass.h"
#include "sim/trace/file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void ech_fuzz_stop(const char *what, const GError *error)
{
    g_printerr("%s: %s\n", what, error->message);
    abort();
}

/** Buffers with fixed places in @memory (NULL: in any) never overlap while they live, in the trace's own order (a loop's body once); false names nobody. */
static inline bool ech_fuzz_places_are_apart(const EchTrace *trace, const char *memory)
{
    size_t n = ech_trace_n_buffers(trace);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autofree bool *live = g_new0(bool, n + 1);
    for (size_t k = 0; k < n; k++)
        live[k] = buffers[k].resident; /* until it is freed, where it is */
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE)
            continue;
        const EchBuffer *b = &buffers[op->target];
        if (memory && strcmp(ech_trace_memory(trace, b->memory), memory) != 0)
            continue;
        live[op->target] = op->kind == ECH_OP_ALLOC;
        for (size_t k = 0; op->kind == ECH_OP_ALLOC && b->offset != ECH_OFFSET_NONE && k < n; k++) {
            const EchBuffer *c = &buffers[k];
            if (k != op->target && live[k] && c->memory == b->memory && c->offset != ECH_OFFSET_NONE && c->offset < b->offset + b->bytes &&
                b->offset < c->offset + c->bytes)
                return false;
        }
    }
    return true;
}

/** Runs a pass over @program and lowers what it makes, or over @trace; where neither may fail. */
static inline void ech_fuzz_pass(const char *spec, EchProgram *program, EchTrace *trace)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    g_ptr_array_add(passes, ech_pass_new(spec, &error));
    if (error)
        ech_fuzz_stop(spec, error);
    g_autoptr(EchTrace) out = trace ? ech_passes_run_trace(passes, NULL, trace, diag, &error) : NULL;
    g_autoptr(EchProgram) changed = trace ? NULL : ech_passes_run_program(passes, NULL, program, diag, &error);
    if (error)
        ech_fuzz_stop(spec, error);
    g_ptr_array_set_size(passes, 0);
    g_ptr_array_add(passes, ech_pass_new("plan", NULL));
    g_autoptr(EchTrace) planned = out ? ech_passes_run_trace(passes, NULL, out, diag, &error) : NULL;
    if (error)
        ech_fuzz_stop("plan", error);
    g_assert(!planned || planned == out || ech_fuzz_places_are_apart(planned, NULL));
    if (!changed || changed == program)
        return;
    EchProgramAssignment *assignment = ech_program_assign(changed, (EchBytes)1 << 33, diag, &error);
    g_assert(assignment && !error);
    ech_program_set_assignment(changed, assignment, "made by echelon");
    EchLowerOptions options = {.loop_trips = 3};
    g_autoptr(EchTrace) lowered = ech_program_lower(changed, NULL, &options, diag, &error);
    if (error)
        ech_fuzz_stop(spec, error);
    g_assert(ech_fuzz_places_are_apart(lowered, NULL));
}

/** Assigns, sums up and lowers @program. @strict: it is well formed, so nothing may fail and places must be apart. */
static inline void ech_fuzz_program(EchProgram *program, bool strict)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    if (program->platform == ECH_PLATFORM_TPU && !program->chip)
        g_assert(ech_program_set_chip(program, "tpu-v5e", NULL));
    bool made = !program->assignment;
    if (made) {
        EchProgramAssignment *assignment = ech_program_assign(program, (EchBytes)1 << 33, diag, &error);
        g_assert(assignment && !error);
        ech_program_set_assignment(program, assignment, "made by echelon");
    }
    EchMemoryAnalysis figures = ech_program_memory_analysis(program);
    if (strict)
        g_assert(figures.alias <= figures.argument && figures.alias <= figures.output);
    EchLowerOptions options = {.loop_trips = 3};
    g_autoptr(EchTrace) trace = ech_program_lower(program, NULL, &options, diag, &error);
    g_assert((trace != NULL) == (error == NULL));
    if (strict && !trace)
        ech_fuzz_stop("a well-formed program was not lowered", error);
    if (!trace)
        return;
    if (strict && made)
        g_assert(ech_fuzz_places_are_apart(trace, NULL));
    g_autoptr(GString) text = ech_trace_file_print(trace);
    g_autoptr(EchTrace) again = ech_trace_file_read(text->str, text->len, "again", &error);
    if (!again)
        ech_fuzz_stop("the lowered trace cannot be read", error);
    static const char *const of_programs[] = {"donate", "donate:what=none"};
    static const char *const of_traces[] = {
        "offload:idle=0,above=1", "offload:what=arguments,above=1", "offload:what=results,above=1,overlap=true", "prefetch", "plan",
        "remat:above=1",          "remat:above=1,products=false"};
    for (size_t k = 0; strict && program->scheduled && k < G_N_ELEMENTS(of_programs); k++)
        ech_fuzz_pass(of_programs[k], program, NULL);
    for (size_t k = 0; strict && k < G_N_ELEMENTS(of_traces); k++)
        ech_fuzz_pass(of_traces[k], program, trace);
}

/** Reads @data as @format; what is accepted is exercised. */
static inline void ech_fuzz_program_bytes(const char *format, const uint8_t *data, size_t size, bool strict)
{
    g_autoptr(EchSource) source = ech_source_new_memory(data, size, "fuzz");
    g_autoptr(GError) error = NULL;
    EchImportOptions options = {.ignore_beside = true};
    g_autoptr(EchImport) import = ech_import_source(source, format, &options, &error);
    g_assert((import != NULL) == (error == NULL));
    if (strict && !import)
        ech_fuzz_stop("a well-formed program was not read", error);
    if (import)
        ech_fuzz_program(import->program, strict);
}
