/** @file hlo_nested.h
 * HLO text whose instructions hold the computations that they call ("calls=", and then the body in braces), as HloPrintOptions.canonical() and fingerprint()
 * print it. The reader of HLO text wants each computation by itself and before its caller.
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/** The text with every nested computation taken out, named, and put before the one that held it; the copies that such prints keep beside are left out.
 * NULL where nothing is nested. @ret_lines: the line of @text, from 1, that each line was (uint32_t); owned. */
GBytes *ech_hlo_unnest(GBytes *text, GArray **ret_lines) G_GNUC_WARN_UNUSED_RESULT;
