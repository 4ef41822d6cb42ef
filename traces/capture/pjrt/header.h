/** @file header.h
 * The first line of a compiled module's text: what it is given, what it makes, and which of that lies in the place of an argument.
 */
#pragma once
#include "models/layout/layout.h"

typedef struct {
    GArray *parameters; /**< EchLayout, in their order; with the layouts that the compiler chose. */
    GArray *results;    /**< EchLayout, the members of the result's tuple, or the one result. */
    GArray *places;     /**< int32_t for each result: the parameter in whose place it lies, or -1. */
} TpuHeader;

/** Reads @line ("HloModule NAME, ..."). False where it tells no layouts, or something in them is no array. */
bool tpu_header_read(const char *line, TpuHeader *ret);
void tpu_header_clear(TpuHeader *header);
