/* Products that are only read narrower are made so: XLA's BFloat16ConversionFolding (a result of 32 bits all of whose readers convert it to bf16 is one of
 * 16 bits), as a TPU's compiler runs it before it fuses. */
#include "sim/program/graph.h"

#include <string.h>

/* The shape that every reader of @id converts it to; ECH_NONE where one does not. */
static EchId narrowed(const EchGraph *g, EchId id)
{
    EchId shape = ECH_NONE;
    for (uint32_t u = g->first_use[id]; u < g->first_use[id + 1]; u++) {
        EchId user = g->uses[u].user;
        const EchLayout *to = ech_graph_layout(g, user);
        if (ech_graph_node(g, user)->opcode != ECH_HLO_CONVERT || !to || strcmp(to->dtype, "bf16") != 0)
            return ECH_NONE;
        shape = ech_graph_node(g, user)->shape;
    }
    return shape;
}

void ech_graph_narrow_products(EchGraph *g)
{
    ech_graph_find_uses(g);
    for (EchId id = 0; id < g->n_known; id++) {
        EchInstruction *i = ech_graph_node(g, id);
        const EchLayout *own = ech_graph_layout(g, id);
        bool product = i->opcode == ECH_HLO_DOT || i->opcode == ECH_HLO_CONVOLUTION;
        if (!g->live[id] || !product || !own || strcmp(own->dtype, "f32") != 0 || ech_graph_computation(g, i->computation)->root == id)
            continue;
        EchId shape = narrowed(g, id);
        if (shape == ECH_NONE)
            continue;
        i->shape = shape;
        for (uint32_t u = g->first_use[id]; u < g->first_use[id + 1]; u++) {
            EchId narrow = g->uses[u].user;
            EchGraphComputation *c = ech_graph_computation(g, ech_graph_node(g, narrow)->computation);
            c->root = c->root == narrow ? id : c->root;
            for (uint32_t r = g->first_use[narrow]; r < g->first_use[narrow + 1]; r++)
                ech_graph_set_operand(g, g->uses[r].user, g->uses[r].operand, id);
        }
    }
}
