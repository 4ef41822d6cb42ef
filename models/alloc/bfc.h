/** @file bfc.h
 * What JAX's and TensorFlow's words for their BFC pool say where another pool stands in its place.
 */
#pragma once
#include "models/alloc/alloc.h"

/** Bytes of the pool of JAX, or of @tensorflow, told @text, on a device of @total bytes in a memory of *@capacity, which becomes what other pools leave of it,
 * and whether it takes them at the start. ECH_ERROR_CONFIG. */
bool ech_bfc_share(bool tensorflow, const char *text, EchBytes total, EchBytes *capacity, EchBytes *ret_bytes, bool *ret_preallocate, GError **error);
