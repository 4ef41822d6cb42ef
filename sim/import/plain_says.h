/** @file plain_says.h
 * A refusal of memory in words of software that no other reader knows: a sentence that says that something could not be allocated, or was not enough, and
 * maybe how much. What its words say is taken, and no more: whose memory it was, and whether the program goes on without it.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

/** Of a machine whose GPU has no memory of its own. */
#define ECH_MAC_LESS                                                                                                                                           \
    "that is the machine's memory, which its CPU shares: of it the GPU may take some two thirds to three quarters, and other models and programs count. A "    \
    "shorter context, a smaller batch, weights or a KV cache of fewer bits need less; 'sudo sysctl iogpu.wired_limit_mb=N' lets it take more"

/** Whose memory, as the sentence's words have it. */
typedef enum {
    ECH_PLACE_UNTOLD,
    ECH_PLACE_DEVICE,
    ECH_PLACE_HOST,
    ECH_PLACE_PINNED,  /**< The host's, for copies to a device. */
    ECH_PLACE_NETWORK, /**< Either's, for a network card. */
    ECH_PLACE_LOCKED,  /**< The host's, which is there already and shall stay in RAM. */
    ECH_PLACE_CHIP,
    ECH_PLACE_METAL, /**< A Mac's, as far as its GPU may take it. */
    ECH_PLACE_HEAP,  /**< Of a virtual machine (V8, Java), by a limit of its own. */
    ECH_N_PLACES
} EchPlace;

typedef struct {
    char line[128];  /**< What it says, without what a log put before it; of a long line the words around. */
    uint64_t number; /**< Which line that is, from 1. */
    EchPlace place;
    bool goes_on; /**< It is a warning: the program does without. */
    bool has_asked, has_free;
    bool has_most; /**< What was asked for is more than one piece may be, however much is free. */
    EchRounded asked, free, most;
} EchPlainSays;

/** Looks through the @n bytes of @text for the refusal that counts: the first with a size, else the first, those that the program does without last. False:
 * none. */
bool ech_plain_says_find(const char *text, size_t n, EchPlainSays *ret);
/** Whether @line says that memory was refused, and not that it may be. */
bool ech_plain_says_refuses(EchWords line);
/** "the host's memory": how messages call it. */
const char *ech_place_name(EchPlace place);
/** What helps where that memory ran out. */
const char *ech_place_advice(EchPlace place);
/** Puts the refusal, of which the size is told, into @builder and says what it comes to. */
void ech_plain_says_write(const EchPlainSays *says, EchTraceBuilder *builder, EchImport *import);
