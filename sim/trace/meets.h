/** @file meets.h
 * Whom a collective meets in traces of other ranks: the words behind "meets=" of EchOp.launch, each a number that stands for those who take part and how often
 * they have before, "4be1/12,9f/3".
 */
#pragma once
#include "sim/trace/trace.h"

typedef struct {
    uint64_t group, times;
} EchMeeting;

/** The words in a launch, for ech_meets_next; "" where it meets nobody. Borrowed. */
const char *ech_meets_of(const char *launch);
/** Reads the word at *@at and goes past it. False at the end, and at what is no such word. */
bool ech_meets_next(const char **at, EchMeeting *ret);
/** Appends a word to @out, which ends in those before it where @first is false. */
void ech_meets_print(GString *out, bool first, EchMeeting meeting);
