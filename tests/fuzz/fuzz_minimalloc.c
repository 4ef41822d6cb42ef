/* Reads any bytes as MiniMalloc's CSV; what is accepted must plan legally (or be refused as impossible) and import without a crash. */
#include "models/alloc/plan.h"
#include "sim/import/minimalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(EchMinimalloc) table = ech_minimalloc_parse((const char *)data, size, "fuzz", NULL);
    if (!table || table->n > 2000)
        return 0;
    g_autoptr(GArray) items = ech_minimalloc_items(table);
    static const char *const specs[] = {"greedy", "xla:algorithm=best", "xla:algorithm=fast_split,alignment=1,limit=4096", "exact:step_limit=200"};
    for (size_t i = 0; i < G_N_ELEMENTS(specs); i++) {
        g_autoptr(EchPlan) plan = ech_plan_new(specs[i], (const EchPlanItem *)(const void *)items->data, items->len, 0, NULL);
        g_assert(!plan || ech_plan_check((const EchPlanItem *)(const void *)items->data, items->len, plan, NULL));
    }
    g_autoptr(EchSource) source = ech_source_new_memory(data, size, "fuzz");
    EchImportOptions options = {0};
    g_autoptr(EchImport) import = ech_import_source(source, "minimalloc", &options, NULL);
    (void)import;
    return 0;
}
