/** @file place_products.h
 * What memory-space assignment counts for a matrix product and all that is fused around it, on chips whose compiler prices products by windows.
 */
#pragma once
#include "models/place/cost.h"
#include "sim/program/program.h"

/** Clocks of arithmetic of @instruction, a product or a fusion around one, whose arrays are results[n_results] (shapes). How many times over each operand is
 * read goes to ret_read[n_operands], each result written to ret_written[n_results]. False, and nothing written, where it holds no product, or one
 * of groups or of more dimensions than is known. */
bool ech_place_product(const EchProgram *program, EchId instruction, const EchId *results, uint32_t n_results, double *ret_clocks, double *ret_read,
                       double *ret_written);
