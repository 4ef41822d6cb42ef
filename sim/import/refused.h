/** @file refused.h
 * What the readers of messages about refused memory (torch_says.c, engine_says.c, bfc_dump.c, out_of_memory.c) put into a trace. Its property "context_held":
 * what a process's context takes is among what is held.
 */
#pragma once
#include "sim/trace/trace.h"

/** Memory that is held from the start, whoever holds it; nothing where @bytes is 0. Returns its buffer, or ECH_NONE. */
EchId ech_refused_held(EchTraceBuilder *builder, EchId memory, const char *name, EchBytes bytes);
/** The allocation that was refused, of an array of @shape (or NULL). */
void ech_refused_request(EchTraceBuilder *builder, EchId memory, const char *name, const char *shape, EchBytes bytes);
/** A figure of the message's as a property, where it is @known. */
void ech_refused_number(EchTraceBuilder *builder, const char *key, bool known, EchBytes value);
