/* Which instruction of which compiled program asks. XLA says it by ranges of NVTX's domain "TSL", of the thread that launches: around a run of a program
 * "XlaModule:#prefix=NAME,hlo_module=jit_step,program_id=1322#", within it around each instruction "Thunk:#name=jit(step)/mul,hlo_op=loop_fusion.3#", a loop's
 * around those of its body (annotation.cc of XLA). What else is in that domain, thousands of passes of the compiler, is not written down. */
#include "pretend.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is open. The text of an instruction is numbered when it asks for something. */
typedef struct {
    uint32_t module; /* its name's number; 0: none */
    uint64_t id, run;
    char *instruction; /* NULL: none */
    bool owned;        /* this range named it */
} Place;

enum { DEEPEST = 64 };
static __thread Place places[DEEPEST];
static __thread unsigned depth;
static uint64_t n_runs;

/* What follows the last @key in @text, up to @end; NULL where either is missing. */
static char *value_of(const char *text, const char *key, const char *end)
{
    const char *at = NULL;
    for (const char *found = strstr(text, key); found; found = strstr(found + 1, key))
        at = found + strlen(key);
    const char *last = at ? strstr(at, end) : NULL;
    return last ? strndup(at, (size_t)(last - at)) : NULL;
}

void pretend_xla_push(const char *text)
{
    Place place = depth > 0 && depth <= DEEPEST ? places[depth - 1] : (Place){0};
    place.owned = false;
    if (strncmp(text, "XlaModule:#", 11) == 0) {
        char *module = value_of(text, "hlo_module=", ",program_id="), *id = value_of(text, ",program_id=", "#");
        place = (Place){0};
        if (module && id)
            place = (Place){.module = pretend_name(module), .id = strtoull(id, NULL, 10), .run = __atomic_add_fetch(&n_runs, 1, __ATOMIC_RELAXED)};
        free(module);
        free(id);
    } else if (strncmp(text, "Thunk:#", 7) == 0) {
        place.instruction = value_of(text, "hlo_op=", "#");
        if (place.instruction)
            place.instruction[strcspn(place.instruction, ",")] = '\0'; /* since JAX 0.11 ",unique_hlo_op_id=7" follows */
        place.owned = true;
    }
    if (depth < DEEPEST)
        places[depth] = place;
    else if (place.owned)
        free(place.instruction);
    depth++;
}

void pretend_xla_pop(void)
{
    if (depth == 0 || --depth >= DEEPEST)
        return;
    if (places[depth].owned)
        free(places[depth].instruction);
}

bool pretend_xla_asks(uint64_t *ret_run, uint32_t *ret_module, uint64_t *ret_id, uint32_t *ret_instruction)
{
    const Place *place = depth > 0 ? &places[(depth < DEEPEST ? depth : DEEPEST) - 1] : NULL;
    if (!place || place->module == 0)
        return false;
    *ret_run = place->run;
    *ret_module = place->module;
    *ret_id = place->id;
    *ret_instruction = pretend_name(place->instruction ? place->instruction : "");
    return true;
}
