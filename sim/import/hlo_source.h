/** @file hlo_source.h
 * Where in its source a module's instructions come from: the tables of files, functions, locations and stack frames that XLA writes once per module.
 *
 * All ids count from 1, and 0 is none, as in the protobuf. A reader adds rows in the file's order and asks for an instruction's frames by id.
 */
#pragma once
#include "sim/program/program.h"

typedef struct EchHloFrames EchHloFrames;

EchHloFrames *ech_hlo_frames_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_hlo_frames_free(EchHloFrames *frames);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchHloFrames, ech_hlo_frames_free)

/** The next file's, or function's, name; @text is copied. */
void ech_hlo_frames_file(EchHloFrames *frames, const char *text, size_t n);
void ech_hlo_frames_function(EchHloFrames *frames, const char *text, size_t n);
void ech_hlo_frames_location(EchHloFrames *frames, uint64_t file, uint64_t function, uint64_t line);
void ech_hlo_frames_frame(EchHloFrames *frames, uint64_t location, uint64_t parent);

/** Frame @id and those around it, innermost first, one a line, "dir/model.py:29:layer"; each once, at most 64 of them. Kept by @builder. NULL for an id that is
 * in no table (0, too), and where the texts of a module have grown beyond 16 MiB. */
const char *ech_hlo_frames_text(EchHloFrames *frames, EchProgramBuilder *builder, uint64_t id);
/** The same for a file and a line alone, as older XLA writes them; NULL for an empty name, and where TensorFlow makes any operator. */
const char *ech_hlo_line_text(EchHloFrames *frames, EchProgramBuilder *builder, const char *file, size_t n, uint64_t line);
