/* What products read, and what they make, narrower. Products that are only read narrower are made so: XLA's BFloat16ConversionFolding (a result of 32 bits all
 * of whose readers convert it to bf16 is one of 16 bits), as a TPU's compiler runs it before it fuses. */
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

/* Does a product of 32 bits multiply in 16, as it does unless it is asked for more? */
static bool multiplies_narrow(const EchInstruction *product)
{
    size_t n;
    const char *precision = ech_program_attribute(product, "operand_precision", &n);
    const char *algorithm = ech_program_attribute(product, "algorithm", &n);
    return product->opcode == ECH_HLO_DOT && !precision && (!algorithm || strncmp(algorithm, "dot_bf16_bf16_f32", MIN(n, 17)) == 0);
}

void ech_graph_narrow_factors(EchGraph *g)
{
    ech_graph_find_uses(g);
    for (EchId id = 0; id < g->n_known; id++) {
        const EchInstruction i = *ech_graph_node(g, id);
        const EchLayout *own = ech_graph_layout(g, id);
        bool factor = g->live[id] && g->first_use[id] < g->first_use[id + 1] && own && strcmp(own->dtype, "f32") == 0 && i.n_called == 0 &&
                      ech_hlo_is_elementwise((EchHlo)i.opcode) && ech_graph_computation(g, i.computation)->root != id &&
                      !ech_graph_computation(g, i.computation)->body;
        for (uint32_t u = g->first_use[id]; factor && u < g->first_use[id + 1]; u++)
            factor = multiplies_narrow(ech_graph_node(g, g->uses[u].user));
        if (!factor)
            continue;
        EchLayout narrow = *own;
        g_strlcpy(narrow.dtype, "bf16", sizeof narrow.dtype);
        narrow.bits = 16;
        ech_layout_choose_tiles(&narrow, g->generation);
        EchId copy = ech_graph_add_new(g, i.computation, ECH_HLO_CONVERT, "factor", ech_program_builder_array(g->out, &narrow), &id, 1);
        for (uint32_t u = g->first_use[id]; u < g->first_use[id + 1]; u++)
            ech_graph_set_operand(g, g->uses[u].user, g->uses[u].operand, copy);
    }
}
