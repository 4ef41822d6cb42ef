/** @file batch.h
 * What of a program of PyTorch has as many rows as its batch: arrays, and operations on them.
 *
 * What modules are given has (ECH_ROLE_INPUT), and what is brought or made for them from nothing, outside of them; then what is made of that, but for what is
 * made of it for weights: gradients, and what those are made of alone (in another type, say), which sums over all rows leave. What modules make of weights
 * alone, or of nothing (masks, tables of angles), has not.
 */
#pragma once
#include "sim/pass/modules.h"

typedef struct {
    const EchSurvey *s;
    uint8_t *part;    /**< Per op: EchPart. */
    bool *has;        /**< Per buffer that is no part of another: it has the rows of a batch. */
    bool *is_weights; /**< Per such buffer: it is a weight, a gradient or an optimizer's, or made of those alone. */
    bool *works;      /**< Per op: it works on such rows. */
    uint64_t rows;    /**< Of a batch; 0: not told. */
    bool of_pairs;    /**< All rows are compared with all: by a product of what has rows on both sides, of as many rows as columns. */
    bool is_graph;    /**< Rows are nodes of one graph, which all steps are of: modules sum them up by an index that they are given, edges. */
    bool is_dense;    /**< A graph, whose edges are an array of all rows by all: as many rows need the square of that. */
} EchBatch;

/** False where nothing has. Must be cleared all the same. */
bool ech_batch_init(EchBatch *batch, const EchSurvey *survey);
void ech_batch_clear(EchBatch *batch);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchBatch, ech_batch_clear)

/** EchBatch.is_graph and of_pairs of @trace. */
void ech_batch_kind(const EchTrace *trace, const EchDevice *device, bool *ret_is_graph, bool *ret_of_pairs);

/** @count of what has rows with @times as many: none is none, else one at least. */
static inline uint64_t ech_batch_scaled(uint64_t count, double times)
{
    return count == 0 || times == 1 ? count : MAX((uint64_t)MIN((double)count * times + 0.5, 0x1p62), 1);
}
/** The launch of kernel @op with @times as many rows, as text; NULL: as it was. Owned by the caller. */
char *ech_batch_launch(const EchBatch *batch, EchId op, double times);
/** Parts that LigerFusedLinearCrossEntropyLoss takes the rows of product @op in, whose result has them: as many as make a part's logits about as large as what
 * the product is given (liger_kernel 0.8.5, ops/fused_linear_cross_entropy.py). 0: it is no product of one matrix. */
uint64_t ech_batch_liger_parts(const EchBatch *batch, EchId op);
/** Of the ops [first, last] of a step's forward and backward pass, those from the logits of a loss over classes to their gradients, with what is asked for and
 * let go for these. False where it has none, or does them in parts already. */
bool ech_batch_find_loss(const EchBatch *batch, EchId first, EchId last, EchId *ret_first, EchId *ret_last);
/** Per buffer: whether it is as large as logits of a loss (ECH_TRACE_LOGITS; NULL: there are none), their classes one of its dimensions. Owned. */
bool *ech_batch_logits(const EchSurvey *survey, const char *logits) G_GNUC_WARN_UNUSED_RESULT;
/** A program that XLA compiled with the loss of its logits (ECH_TRACE_LOGITS) done in @parts, a part of their rows at a time. Owned; NULL without *@error where
 * no such array lies in the device memory. */
EchTrace *ech_batch_logits_in_parts(const EchSurvey *survey, const char *logits, uint64_t parts, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
