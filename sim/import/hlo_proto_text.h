/** @file hlo_proto_text.h
 * Attributes of an HloInstructionProto as HLO text prints them, so that what looks for them sees one form. For hlo_proto.c.
 */
#pragma once
#include "sim/import/wire.h"

/** Appends ", name=value" of field @f, or nothing if it is no attribute. @instruction: the whole message from its begin; @wire: where @f was read. Fields that
 * print as one list are printed at the first of them: @listed (0 at first) remembers which. */
void ech_hlo_append_attribute(GString *text, const EchWire *instruction, const EchWire *wire, const EchWireField *f, uint32_t *listed);
