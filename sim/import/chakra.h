/** @file chakra.h
 * What Chakra's execution traces say in the same words as protobuf (chakra.c) and as JSON (chakra_json.c).
 */
#pragma once
#include "sim/import/et.h"

/** Of the last node: arrays in a Python literal, [tensor, storage, offset, elements, bytes, 'device'] at any depth. Lists nested deeper than 64 and what
 * follows are left alone: false. */
bool ech_chakra_tensors(EchEt *et, bool written, const char *text, size_t n);
/** What attribute @name of @n bytes says of @node. Others than those that are known are passed over. */
void ech_chakra_attribute(EchEtNode *node, const char *name, size_t n, int64_t value);
/** The same of an attribute whose value is a text of @length bytes. */
void ech_chakra_word(EchEtNode *node, const char *name, size_t n, const char *text, size_t length);
