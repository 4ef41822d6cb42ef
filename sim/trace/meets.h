/** @file meets.h
 * Whom a collective meets in traces of other ranks: the words behind "meets=" of EchOp.launch. Each has a number that stands for those who take part, how often
 * they have before, and, of a message that is sent, how many bytes may be under way to its receiver before that comes: "4be1/12,9f/3>8388608".
 * Who only hears what the others say ("4be1/0<") keeps none of them waiting, and waits for no other that hears.
 */
#pragma once
#include "sim/trace/trace.h"

typedef struct {
    uint64_t group, times;
    uint64_t buffer; /**< Bytes; of what is sent. */
    bool sends, hears;
} EchMeeting;

/** The words in a launch, for ech_meets_next; "" where it meets nobody. Borrowed. */
const char *ech_meets_of(const char *launch);
/** Reads the word at *@at and goes past it. False at the end, and at what is no such word. */
bool ech_meets_next(const char **at, EchMeeting *ret);
/** Appends a word to @out, which is empty, ends in a blank, or in the words before it. */
void ech_meets_print(GString *out, EchMeeting meeting);
/** @launch of a collective that is done once more: another meeting, of those who do it again, too. Owned by the caller. */
char *ech_meets_again(const char *launch) G_GNUC_WARN_UNUSED_RESULT;
/** @launch of a collective in part @part, from 0, of @parts that are what was done once: each part is a meeting of its own. Owned by the caller. */
char *ech_meets_in_part(const char *launch, uint64_t part, uint64_t parts) G_GNUC_WARN_UNUSED_RESULT;
/** A property: how often each group has met before was counted from where a recording begins, which may be another meeting in every rank's. */
#define ECH_TRACE_MEETS_COUNTED "meetings_counted"
/** Fits what @traces[n], the ranks of one program or the devices of one capture, say of their meetings to one another; those traces are replaced:
 *  - where recordings begin at different meetings (ECH_TRACE_MEETS_COUNTED), those that are of the same kind and as many bytes are brought to meet;
 *  - collectives that say whom they meet but not of how many get the number of those that do;
 *  - a recorded collective lasts as long as with who came last: others' times have in them what they waited. *ret_settled counts those.
 * Errors of ech_trace_builder_finish. */
bool ech_meets_join(EchTrace **traces, size_t n, uint64_t *ret_settled, GError **error);
/** For tables: words of one meeting are equal, whoever says them. */
guint ech_meeting_hash(gconstpointer meeting);
gboolean ech_meeting_equal(gconstpointer a, gconstpointer b);
