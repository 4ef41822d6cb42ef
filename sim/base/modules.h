/** @file modules.h
 * Where the program finds the libraries that it loads at run time: the SimGrid engine, the capture library.
 */
#pragma once
#include <glib.h>

/** Path of @file in ECHELON_MODULES, lib/echelon or ../lib/echelon beside the program, or the install's library folder; NULL if it is in
 * none of them. The places tried are appended to @tried (may be NULL). Owned by the caller. */
char *ech_module_find(const char *file, GString *tried) G_GNUC_WARN_UNUSED_RESULT;
