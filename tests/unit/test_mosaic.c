/* Pallas kernels, read from their own code: JAX's causal attention and its gradients as the compiler was given them. */
#include "sim/program/mosaic_room.h"
#include "sim/experiment/experiment.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#define ATTENTION ECH_SOURCE_DIR "/traces/splash_attention.v6e"
#define FORWARD "splash_mha_fwd_residuals.1"
#define BACKWARD "splash_mha_dkv_no_residuals.1"

/* 4 heads, 2048 long in blocks of 512: a grid of 4 x 4 x 4, of whose steps the mask leaves 10 of 16. */
enum { HEADS = 4, BLOCKS = 4, STEPS = HEADS * BLOCKS * BLOCKS, WORKED = HEADS * 10, BLOCK = 512, WIDTH = 128 };
#define BLOCK_BYTES ((EchBytes)BLOCK * WIDTH * 2)
#define PRODUCT (2.0 * BLOCK * BLOCK * WIDTH)

static const EchKernelGrid *grid_of(const EchImport *import, const char *name)
{
    const EchKernelGrid *grid = ech_program_grid(import->program, ech_test_instruction(import->program, name));
    ck_assert_ptr_nonnull(grid);
    return grid;
}

/* The code of a kernel, as bytes; to be freed with g_free. */
static guchar *code_of(const EchImport *import, const char *name, gsize *ret_n)
{
    size_t n;
    const char *body = ech_program_config(&import->program->instructions[ech_test_instruction(import->program, name)], "custom_call_config.body", &n);
    ck_assert_ptr_nonnull(body);
    g_autofree char *text = g_strndup(body, n);
    return g_base64_decode(text, ret_n);
}

/* A kernel of the fuzzer's corpus. */
static EchKernelGrid read_corpus(const char *name, const EchMosaicArray *arrays, size_t n_operands, size_t n_arrays)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/mosaic", name, NULL), *code = NULL;
    gsize n;
    GError *error = NULL;
    ck_assert_ok(g_file_get_contents(path, &code, &n, &error), error);
    EchKernelGrid grid;
    uint64_t visits = ECH_MOSAIC_VISITS;
    ck_assert_ok(ech_mosaic_read((const uint8_t *)code, n, arrays, n_operands, n_arrays, &visits, &grid, &error), error);
    return grid;
}

START_TEST(work_of_attention)
{
    g_autoptr(EchImport) import = ech_test_import(ATTENTION, NULL);
    const EchKernelGrid *forward = grid_of(import, FORWARD), *backward = grid_of(import, BACKWARD);
    /* Scores and their sum of values: the second takes the exponentials in 32 bits. */
    ck_assert_double_eq(forward->steps, STEPS);
    ck_assert_int_eq(forward->assumed, false);
    ck_assert_uint_eq(forward->n_products, 2);
    static const EchKernelGridProduct products[] = {{BLOCK, WIDTH, BLOCK, 16, 16, true, 1, WORKED, true},
                                                    {BLOCK, BLOCK, WIDTH, 32, 32, true, 1, WORKED, false}};
    for (uint32_t i = 0; i < forward->n_products; i++) {
        const EchKernelGridProduct *p = &forward->products[i], *q = &products[i];
        ck_assert_msg(p->m == q->m && p->k == q->k && p->n == q->n && p->lhs_bits == q->lhs_bits && p->passes == q->passes && p->times == q->times &&
                          (p->transposed == q->transposed || p->k == p->n),
                      "product %u", i);
    }
    ck_assert_double_eq(forward->operations, WORKED * 2 * PRODUCT);
    /* Queries once for every row of blocks. Keys and values lead from one block that is worked on to the next: 0, 0 1, 0 1 2, 0 1 2 3 in each head, the
     * first row's and the second's 0 being one. */
    EchBytes fetched = HEADS * BLOCKS * BLOCK_BYTES + 2 * (HEADS * 9) * BLOCK_BYTES;
    ck_assert_uint_eq(forward->read, fetched);
    ck_assert_uint_eq(forward->first, 3 * BLOCK_BYTES);
    /* Three running figures of the last row leave in 32 bits; what the compiler placed on chip is not stored. */
    ck_assert_uint_eq(forward->written, 3 * 2 * BLOCK_BYTES);
    /* An exponential of every score, and one of each row's correction in all its lanes; some for the result. */
    double scores = WORKED * (BLOCK / 8.0) * (BLOCK / 128.0);
    ck_assert_double_ge(forward->transcendental, scores * 1.25);
    ck_assert_double_le(forward->transcendental, scores * 1.5);
    /* The compiler's schedule has 2,314 vector instructions for a block, and 162 around each row. */
    ck_assert_double_le(fabs(forward->vector / (WORKED * 2314 + HEADS * BLOCKS * 162) - 1), 0.1);
    ck_assert_double_eq(backward->operations, WORKED * 5 * PRODUCT);
    ck_assert_int_eq(backward->assumed, false);
    /* 3,056 in the backward one, of which the units' partial sums, 192, are counted where it is priced, and 384 pack and unpack for a transposition. */
    ck_assert_double_le(fabs(backward->vector / (WORKED * (3056 - 192 - 384) + HEADS * BLOCKS * 66) - 1), 0.1);
    /* Two reductions of every row, by each row of registers; nothing else crosses lanes forward, and a transposition does backward. */
    ck_assert_double_eq(forward->reduced, WORKED * 2 * BLOCK / 8.0);
    ck_assert_double_eq(forward->lanes, 0);
    ck_assert_double_gt(backward->lanes, 0);
    ck_assert_double_eq(forward->chains, WORKED);
    ck_assert_double_eq(forward->alone.stretches, 0); /* while a row waits others are worked on */
}
END_TEST

/* Four chips share 4096 rows; each has a grid of its own two rows of blocks by all eight, and finds the steps of it that count by its number: 3, 7, 11 and 15
 * in each head. */
START_TEST(work_of_the_busiest_device)
{
    g_autoptr(EchImport) import = ech_test_import(ECH_SOURCE_DIR "/traces/splash_context.v6e", NULL);
    const EchKernelGrid *forward = grid_of(import, FORWARD), *backward = grid_of(import, BACKWARD);
    ck_assert_double_eq(forward->steps, HEADS * 2 * 8);
    ck_assert(!forward->assumed && forward->by_device);
    ck_assert_double_eq(forward->operations, HEADS * 15 * 2 * PRODUCT);
    ck_assert(!backward->assumed && backward->by_device);
    ck_assert_double_eq(backward->operations, HEADS * 15 * 5 * PRODUCT);
}
END_TEST

/* Without the mask nobody knows which blocks are skipped. */
START_TEST(unknown_data)
{
    g_autoptr(EchImport) import = ech_test_import(ATTENTION, NULL);
    gsize n;
    g_autofree guchar *code = code_of(import, FORWARD, &n);
    EchMosaicArray arrays[11] = {0};
    EchKernelGrid grid;
    uint64_t visits = ECH_MOSAIC_VISITS;
    GError *error = NULL;
    ck_assert_ok(ech_mosaic_read(code, n, arrays, 6, G_N_ELEMENTS(arrays), &visits, &grid, &error), error);
    ck_assert_int_eq(grid.assumed, true);
    ck_assert_double_eq(grid.operations, STEPS * 2 * PRODUCT);
    /* A mask of nothing: no step works. */
    static const int64_t none[BLOCKS * BLOCKS];
    arrays[0] = arrays[1] = (EchMosaicArray){.values = none, .n = G_N_ELEMENTS(none)};
    ck_assert_ok(ech_mosaic_read(code, n, arrays, 6, G_N_ELEMENTS(arrays), &visits, &grid, &error), error);
    ck_assert_int_eq(grid.assumed, false);
    ck_assert_double_eq(grid.operations, 0);
}
END_TEST

#define PROTO ECH_SOURCE_DIR "/tests/golden/data/splash_attention.hlo.pb.gz"

static EchTime time_of(const char *path)
{
    const EchExperimentOverrides overrides = {.trace = path, .device = "tpu-v6e", .engine = "native"};
    EchResult *result = ech_test_run(&overrides);
    EchTime time = result->run->makespan;
    ech_result_free(result);
    return time;
}

/* The same program as text and as proto: the same kernels, the same time. */
START_TEST(both_readers)
{
    g_autoptr(EchImport) text = ech_test_import(ATTENTION, NULL);
    g_autoptr(EchImport) proto = ech_test_import(PROTO, NULL);
    static const char *const names[] = {FORWARD, BACKWARD};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        ck_assert_mem_eq(grid_of(text, names[i]), grid_of(proto, names[i]), sizeof(EchKernelGrid));
    ck_assert_int_eq(grid_of(proto, FORWARD)->assumed, false);
    ck_assert_int_eq(time_of(PROTO), time_of(ATTENTION "/program.hlo.txt.gz"));
}
END_TEST

/* Constant arrays of every integer type, of truth values, a scalar, and one of floats. */
START_TEST(constants_of_a_proto)
{
    g_autoptr(EchImport) import = ech_test_corpus("hlo_proto/literals.pb", "hlo_proto");
    static const struct {
        const char *name;
        int64_t values[6];
        size_t n;
    } arrays[] = {{"a", {1, -2, 3, -128, 127, 0}, 6}, {"b", {0, 200, 255}, 3},    {"c", {-3, 300}, 2}, {"d", {65535, 256}, 2}, {"e", {-7, 8, 9, INT32_MAX}, 4},
                  {"f", {4294967295, 1}, 2},          {"g", {-5000000000, 5}, 2}, {"h", {6}, 1},       {"i", {1, 0, 0, 1}, 4}};
    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++) {
        const EchInstruction *constant = &import->program->instructions[ech_test_instruction(import->program, arrays[i].name)];
        int64_t values[7];
        size_t n = constant->literal ? ech_program_numbers(constant->literal, constant->literal_n, values, G_N_ELEMENTS(values)) : 0;
        ck_assert_msg(n == arrays[i].n && memcmp(values, arrays[i].values, n * sizeof(values[0])) == 0, "%s: %.*s", arrays[i].name, (int)constant->literal_n,
                      constant->literal ? constant->literal : "");
        ck_assert_int_eq(constant->has_literal, 0);
    }
    const EchInstruction *scalar = &import->program->instructions[ech_test_instruction(import->program, "j")];
    ck_assert(scalar->has_literal && scalar->number == -11 && !scalar->literal);
    ck_assert_ptr_null(import->program->instructions[ech_test_instruction(import->program, "k")].literal);
}
END_TEST

/* However the bytes are cut or changed: an error that says where, or numbers. */
START_TEST(broken_code)
{
    g_autoptr(EchImport) import = ech_test_import(ATTENTION, NULL);
    gsize n;
    g_autofree guchar *code = code_of(import, BACKWARD, &n);
    EchMosaicArray arrays[16] = {0};
    EchKernelGrid grid = {.steps = 7};
    uint64_t visits = ECH_MOSAIC_VISITS;
    for (gsize cut = 0; cut < n; cut += 1 + cut % 13) {
        g_autoptr(GError) error = NULL;
        g_autofree guchar *part = g_memdup2(code, MAX(cut, 1));
        ck_assert_msg(!ech_mosaic_read(part, cut, arrays, 9, G_N_ELEMENTS(arrays), &visits, &grid, &error), "%zu of %zu bytes", cut, n);
        ck_assert_msg(strstr(error->message, "byte ") != NULL, "%s", error->message);
    }
    ck_assert_double_eq(grid.steps, 7);
    guint32 seed = 20261122;
    for (unsigned i = 0; i < 300; i++) {
        seed = seed * 1664525 + 1013904223;
        gsize at = 6 + (seed >> 8) % (n - 6);
        guchar was = code[at];
        code[at] = (guchar)(was ^ (1u << (seed & 7)));
        g_autoptr(GError) error = NULL;
        if (!ech_mosaic_read(code, n, arrays, 9, G_N_ELEMENTS(arrays), &visits, &grid, &error))
            ck_assert_ptr_nonnull(error);
        code[at] = was;
    }
    g_autoptr(GError) error = NULL;
    code[4] = 15; /* version 7 */
    ck_assert(!ech_mosaic_read(code, n, arrays, 9, G_N_ELEMENTS(arrays), &visits, &grid, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
}
END_TEST

/* Matrix units and the others side by side, blocks beneath them. */
START_TEST(price_of_a_grid)
{
    g_autoptr(EchDevice) device = ech_test_device("tpu-v6e", NULL);
    EchKernelModel model;
    GError *error = NULL;
    ck_assert_ok(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, &error), error);
    EchKernelGrid grid = {.steps = 100, .read = 64 << 20, .written = 32 << 20, .first = 1 << 20, .last = 1 << 20};
    EchKernelCost moves, works, both;
    ech_kernel_grid_price(&model, &grid, 0, &moves);
    double bytes = (double)(96 << 20) / model.hbm / model.clock_hz * 1e12;
    ck_assert_double_le(fabs((double)moves.time / (bytes + model.fixed / model.clock_hz * 1e12) - 1), 1e-6);
    ck_assert_int_eq(moves.compute, 0);
    grid.n_products = 1;
    grid.products[0] = (EchKernelGridProduct){.m = 1024, .k = 256, .n = 1024, .lhs_bits = 16, .rhs_bits = 16, .is_float = true, .passes = 1, .times = 4000};
    ech_kernel_grid_price(&model, &grid, 0, &works);
    double matrix = 1000 * 1024.0 * 1024 * 1024 / ech_kernel_macs_per_cycle(&model, "bf16") / model.clock_hz * 1e12;
    ck_assert_double_le(fabs((double)works.busy_compute / matrix - 1), 1e-6);
    ck_assert_int_eq(works.hbm, 0);
    grid.vector = 1000 * 1024.0 * 1024 * 1024 / ech_kernel_macs_per_cycle(&model, "bf16") * model.bundle.vector; /* as long as the products */
    ech_kernel_grid_price(&model, &grid, 0, &both);
    ck_assert_double_le(fabs((double)both.busy_compute / matrix - pow(2, 1 / 1.5)), 1e-6);
    ck_assert_int_eq(both.time, both.compute + both.hbm + both.fill + both.overhead);
    /* Half as deep as the unit: as long; six passes: six times. */
    grid = (EchKernelGrid){.steps = 1, .n_products = 1, .products = {{1024, 128, 1024, 16, 16, true, 1, 1000}}};
    EchKernelCost shallow, precise;
    ech_kernel_grid_price(&model, &grid, 0, &shallow);
    ck_assert_double_le(fabs((double)shallow.busy_compute / (matrix / 4) - 1), 1e-6);
    grid.products[0].passes = 6;
    ech_kernel_grid_price(&model, &grid, 0, &precise);
    ck_assert_double_le(fabs((double)precise.busy_compute / (6 * matrix / 4) - 1), 1e-6);
    /* Twice as deep as the unit: half the vector unit's time for results that are added up. A chain more for every stretch that multiplies. */
    grid = (EchKernelGrid){.steps = 1, .n_products = 1, .products = {{1024, 512, 1024, 16, 16, true, 1, 1}}, .chains = 1};
    EchKernelCost deep;
    ech_kernel_grid_price(&model, &grid, 0, &deep);
    double units = 512.0 * 1024 * 1024 / ech_kernel_macs_per_cycle(&model, "bf16"), sums = 1024 / model.bundle.vector;
    double cycles = pow(pow(units, 1.5) + pow(sums, 1.5), 1 / 1.5) + model.bundle.chain;
    ck_assert_double_le(fabs((double)deep.busy_compute / (cycles / model.clock_hz * 1e12) - 1), 1e-6);
}
END_TEST

/* Units of a core work side by side: the slowest of them counts. Few rows wait for the side that the matrix unit holds, 16 rows a push. */
START_TEST(units_of_a_core)
{
    g_autoptr(EchDevice) device = ech_test_device("tpu-v6e", NULL);
    EchKernelModel model;
    ck_assert(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, NULL));
    const double n = 1e6;
    const struct {
        EchKernelGrid grid;
        double cycles;
    } cases[] = {
        {{.vector = n}, n / model.bundle.vector},
        {{.transcendental = n}, n / model.bundle.transcendental},
        {{.lanes = n}, n / model.bundle.lanes},
        {{.loaded = n}, n / model.bundle.load},
        {{.stored = n}, n / model.bundle.store},
        {{.reduced = n}, MAX(n * model.bundle.reduce_vector / model.bundle.vector, n * model.bundle.reduce_lanes / model.bundle.lanes)},
        {{.vector = n, .lanes = n, .loaded = n, .stored = n},
         n / MIN(MIN(model.bundle.vector, model.bundle.lanes), MIN(model.bundle.load, model.bundle.store))},
        {{.n_products = 1, .products = {{8, 256, 1024, 16, 16, true, 1, 100, false}}}, 100 * model.bundle.push * (256.0 / 16) * (1024.0 / 128)},
        {{.n_products = 1, .products = {{8, 256, 1024, 16, 16, true, 1, 100, true}}}, 200 * model.bundle.push * (256.0 / 16) * (1024.0 / 128)},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchKernelGrid grid = cases[i].grid;
        EchKernelCost cost;
        grid.steps = 1;
        ech_kernel_grid_price(&model, &grid, 0, &cost);
        double wanted = cases[i].cycles / model.clock_hz * 1e12;
        ck_assert_msg(fabs((double)cost.busy_compute / wanted - 1) < 1e-5, "%zu: %" G_GINT64_FORMAT ", not %g", i, cost.busy_compute, wanted);
        ck_assert(cost.by_vector == (grid.n_products == 0));
    }
}
END_TEST

static EchTime compute_on(const char *chip, const EchKernelGrid *grid)
{
    g_autoptr(EchDevice) device = ech_test_device(chip, NULL);
    EchKernelModel model;
    GError *error = NULL;
    ck_assert_ok(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, &error), error);
    EchKernelCost cost;
    ech_kernel_grid_price(&model, grid, 0, &cost);
    return (EchTime)((double)cost.busy_compute * model.clock_hz * 1e-12 + 0.5);
}

/* x + x * x of 16-bit elements: two instructions for every two registers where the chip computes with 16 bits, to 32 bits and back around each where it does
 * not. What a store of Pallas reads before it writes is used by nothing. */
START_TEST(narrow_arithmetic)
{
    EchKernelGrid grid = read_corpus("add", (EchMosaicArray[2]){{0}}, 1, 2);
    double registers = grid.steps * 256 * 2048 / 1024;
    ck_assert_double_eq(grid.vector, 0);
    ck_assert_double_eq(grid.half, 2 * registers);
    ck_assert_double_eq(grid.converted, 2 * registers);
    ck_assert_double_eq(grid.loaded, registers / 2);
    ck_assert_double_eq(grid.stored, registers / 2);
    ck_assert_int_eq(compute_on("tpu-v6e", &grid), (EchTime)(registers / 4));
    ck_assert_int_eq(compute_on("tpu-v5e", &grid), (EchTime)(2 * registers * 2.5 / 4));
    /* Two cores share a chip's steps where their order does not matter. */
    ck_assert_uint_eq(grid.parallel, 1);
    ck_assert_int_eq(compute_on("tpu-v5p", &grid), (EchTime)(2 * registers * 2.5 / 4));
    grid.parallel = 3;
    ck_assert_int_eq(compute_on("tpu-v5p", &grid), (EchTime)(2 * registers * 2.5 / 4 * 2 / 3 + 0.5));
}
END_TEST

/* JAX's grouped product: 2 by as many tiles as there are by 2 steps; its program makes the number of tiles, of which the kernel's scalars have room for 15. */
START_TEST(grid_of_unknown_size)
{
    static const uint64_t ids[] = {15};
    EchMosaicArray arrays[8] = {{0}, {0}, {.dims = ids, .rank = 1}, {.dims = ids, .rank = 1}};
    EchKernelGrid grid = read_corpus("gmm", arrays, 7, G_N_ELEMENTS(arrays));
    ck_assert_double_eq(grid.steps, 2 * 15 * 2);
    ck_assert_int_eq(grid.assumed, true);
    ck_assert_uint_eq(grid.n_products, 1);
    ck_assert_double_eq(grid.operations, 60 * 2.0 * 512 * 1024 * 1024);
    ck_assert_uint_eq(grid.parallel, 2);
    /* Which tile a step stores is not known, but that the next step of k stores the same one is: each once. */
    ck_assert_uint_eq(grid.written, (EchBytes)2 * 15 * 512 * 1024 * 2);
    static const int64_t tiles = 11;
    arrays[0] = (EchMosaicArray){.values = &tiles, .n = 1};
    grid = read_corpus("gmm", arrays, 7, G_N_ELEMENTS(arrays));
    ck_assert_double_eq(grid.steps, 2 * 11 * 2);
}
END_TEST

/* The same kernel with no steps along its first dimension. */
START_TEST(grid_of_no_steps)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/mosaic", "gmm", NULL), *code = NULL;
    static const guchar bounds[] = {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 2, 0, 0, 0, 0, 0, 0, 0}; /* 2, unknown, 2 */
    gsize n;
    GError *error = NULL;
    ck_assert_ok(g_file_get_contents(path, &code, &n, &error), error);
    char *at = memmem(code, n, bounds, sizeof bounds);
    ck_assert_ptr_nonnull(at);
    *at = 0;
    EchMosaicArray arrays[8] = {{0}};
    EchKernelGrid grid;
    uint64_t visits = ECH_MOSAIC_VISITS;
    ck_assert(!ech_mosaic_read((const uint8_t *)code, n, arrays, 7, G_N_ELEMENTS(arrays), &visits, &grid, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
    g_clear_error(&error);
}
END_TEST

/* A product in blocks of 512 of 4096 whose pipeline is a loop inside the kernel (emit_pipeline), which hands its indices from trip to trip: every block of both
 * sides is fetched eight times, the result stored once. */
START_TEST(pipeline_in_a_loop)
{
    EchKernelGrid grid = read_corpus("pipe", (EchMosaicArray[3]){{0}}, 2, 3);
    EchBytes array = (EchBytes)4096 * 4096 * 2;
    ck_assert_int_eq(grid.assumed, false);
    ck_assert_double_eq(grid.operations, 2.0 * 4096 * 4096 * 4096);
    ck_assert_uint_eq(grid.read, 2 * 8 * array);
    ck_assert_uint_eq(grid.written, array);
    ck_assert_uint_eq(grid.sent, 0);
    ck_assert_double_eq(grid.copies, 2 * 8 * 64 + 64); /* each begun in a branch of its own */
}
END_TEST

/* Grouped products whose pipeline is such a loop, of two columns of blocks by as many steps as a number says that nobody knows: 5 blocks of rows and 3 groups,
 * each step's in lists of 7. They are all gone through, and each block is fetched and stored once a column. */
START_TEST(steps_in_lists)
{
    enum { BLOCKS_OF_ROWS = 5, GROUPS = 3, LISTED = 7, COLUMNS = 2 };
    const EchBytes block = (EchBytes)256 * 256 * 2;
    EchMosaicArray arrays[6] = {{0}};
    EchKernelGrid grid = read_corpus("steps", arrays, 5, G_N_ELEMENTS(arrays));
    ck_assert_int_eq(grid.assumed, true);
    ck_assert_double_eq(grid.operations, COLUMNS * LISTED * 2.0 * 256 * 256 * 256);
    ck_assert_uint_eq(grid.read, COLUMNS * (BLOCKS_OF_ROWS + GROUPS) * block);
    ck_assert_uint_eq(grid.written, COLUMNS * BLOCKS_OF_ROWS * block);
    /* Where the program tells them it is as they say. */
    static const int64_t steps = 4, rows[LISTED] = {0, 1, 1, 2, 0, 0, 0}, groups[LISTED] = {0, 0, 1, 2, 0, 0, 0};
    arrays[0] = (EchMosaicArray){.values = &steps, .n = 1};
    arrays[1] = (EchMosaicArray){.values = rows, .n = LISTED};
    arrays[2] = (EchMosaicArray){.values = groups, .n = LISTED};
    grid = read_corpus("steps", arrays, 5, G_N_ELEMENTS(arrays));
    ck_assert_int_eq(grid.assumed, false); /* not of the step before the first either, which is asked for where an index is -1 */
    ck_assert_double_eq(grid.operations, COLUMNS * 4 * 2.0 * 256 * 256 * 256);
    ck_assert_uint_eq(grid.read, COLUMNS * (3 + 3) * block);
    ck_assert_uint_eq(grid.written, COLUMNS * 3 * block);
}
END_TEST

/* What the kernel waits, in steps of its work, where a block takes @steps of them to fetch. */
static double steps_waited(const EchKernelGrid *grid, double n, double steps)
{
    return ech_bursts_waited(&grid->bursts, n, 256 * 256 * 2 / steps);
}

/* The same kernel, of one block of rows: two buffers of weights, so that a group's are fetched beside the step before its first, however many steps it has.
 * Where they take three steps, what a column begins with waits for all of it, a group for two steps of the three, and the next column, whose result is stored
 * behind its weights, for that too: 6, 2, 2, 2, 2 and the last result's 3; all bytes together take seven steps longer than the work. */
START_TEST(groups_come_in_bursts)
{
    enum { LISTED = 7, COLUMNS = 2 };
    static const int64_t steps = LISTED, rows[LISTED] = {0}, groups[LISTED] = {0, 0, 0, 1, 1, 1, 1}, one[LISTED] = {0};
    EchMosaicArray arrays[6] = {{.values = &steps, .n = 1}, {.values = rows, .n = LISTED}, {.values = groups, .n = LISTED}};
    EchKernelGrid grid = read_corpus("steps", arrays, 5, G_N_ELEMENTS(arrays));
    ck_assert_uint_eq(grid.read + grid.written, 7 * 256 * 256 * 2);
    ck_assert_double_le(fabs(steps_waited(&grid, COLUMNS * LISTED, 3) - 17), 0.6); /* a step that begins copies works a little longer */
    /* Of one group. */
    arrays[2].values = one;
    EchKernelGrid fewer = read_corpus("steps", arrays, 5, G_N_ELEMENTS(arrays));
    ck_assert_double_le(fabs(steps_waited(&fewer, COLUMNS * LISTED, 3) - 13), 0.6);
    /* A block that takes a tenth of a step is waited for where a column begins, and little besides. */
    ck_assert_double_le(steps_waited(&grid, COLUMNS * LISTED, 0.1), 1);
    /* The price is the longer one. */
    g_autoptr(EchDevice) device = ech_test_device("tpu-v6e", NULL);
    EchKernelModel model;
    GError *error = NULL;
    ck_assert_ok(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, &error), error);
    EchKernelCost with, without;
    ech_kernel_grid_price(&model, &grid, 0, &with);
    grid.bursts = (EchBurstWaits){0};
    ech_kernel_grid_price(&model, &grid, 0, &without);
    ck_assert_int_gt(with.hbm, without.hbm);
    ck_assert_int_eq(with.time - with.hbm, without.time - without.hbm);
}
END_TEST

/* As many steps as are gone through one by one, and eight times as many: what is left goes on as before. */
START_TEST(long_loops)
{
    static int64_t steps = 500, rows[4000], groups[4000];
    EchMosaicArray arrays[6] = {{.values = &steps, .n = 1}, {.values = rows, .n = 4000}, {.values = groups, .n = 4000}};
    EchKernelGrid few = read_corpus("steps", arrays, 5, G_N_ELEMENTS(arrays));
    ck_assert_double_eq(few.operations, 2.0 * 500 * 2 * 256 * 256 * 256);
    steps = 4000;
    EchKernelGrid many = read_corpus("steps", arrays, 5, G_N_ELEMENTS(arrays));
    ck_assert_double_le(fabs(many.operations / few.operations / 8 - 1), 1e-9);
}
END_TEST

/* A kernel that lists the groups with rows in scalar memory of its own, and fetches the weights of each, numbers of 8 bits. Without their sizes the rows are
 * spread evenly over the groups. */
START_TEST(groups_by_sizes)
{
    enum { GROUPS = 8, COLUMNS = 256 };
    const EchBytes weights = (EchBytes)COLUMNS * COLUMNS; /* of 8 bits */
    const uint64_t sizes[] = {GROUPS}, lhs[] = {32, COLUMNS}, rhs[] = {GROUPS, COLUMNS, COLUMNS}, few[] = {3, COLUMNS};
    EchMosaicArray arrays[] = {
        {.dims = sizes, .rank = 1}, {.dims = lhs, .rank = 2, .on_chip = true}, {.dims = rhs, .rank = 3}, {.dims = lhs, .rank = 2, .on_chip = true}};
    EchKernelGrid grid = read_corpus("groups", arrays, 3, G_N_ELEMENTS(arrays));
    ck_assert_int_eq(grid.assumed, true);
    ck_assert_uint_eq(grid.read, GROUPS * weights);
    ck_assert_double_eq(grid.operations, GROUPS * 2.0 * 32 * COLUMNS * COLUMNS);
    /* Three rows are of three groups at most. */
    arrays[1].dims = arrays[3].dims = few;
    ck_assert_uint_eq(read_corpus("groups", arrays, 3, G_N_ELEMENTS(arrays)).read, 3 * weights);
    static const int64_t told[GROUPS] = {0, 20, 0, 0, 1, 0, 0, 11};
    arrays[0].values = told;
    arrays[0].n = GROUPS;
    grid = read_corpus("groups", arrays, 3, G_N_ELEMENTS(arrays));
    ck_assert_int_eq(grid.assumed, false);
    ck_assert_uint_eq(grid.read, 3 * weights);
    ck_assert_double_eq(grid.operations, 3 * 2.0 * 32 * COLUMNS * COLUMNS);
    /* The scalar core makes the lists before anything else begins: a trip loads a size and branches twice at least. The loop that multiplies is not its own. */
    ck_assert_double_ge(grid.scalar, GROUPS * (6 + 2 * 7));
    ck_assert_double_le(grid.scalar, GROUPS * 60);
}
END_TEST

/* A ring of four: its own part copied, then three sent on, 1 MiB each, over one link. */
START_TEST(copies_to_other_devices)
{
    EchKernelGrid grid = read_corpus("ring", (EchMosaicArray[2]){{0}}, 1, 2);
    ck_assert_uint_eq(grid.sent, 3 << 20);
    ck_assert_uint_eq(grid.read, 4 << 20);
    ck_assert_uint_eq(grid.written, 4 << 20);
    g_autoptr(EchDevice) device = ech_test_device("tpu-v5e", NULL);
    EchKernelModel model;
    GError *error = NULL;
    ck_assert_ok(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, &error), error);
    EchKernelCost cost;
    ech_kernel_grid_price(&model, &grid, 0, &cost);
    EchTime link = ech_time_for(3 << 20, ech_device_link(device, "ici")->to_device);
    ck_assert_int_ge(cost.time, link - 1);
    ck_assert_int_le(cost.time, link + 3 * ECH_PS_PER_US);
}
END_TEST

/* Four steps of two heads of 8 rows each, 512 keys of 128: scores, a maximum along lanes, and the sum of values. Keys lie the other way, so that a register is
 * two pushes. The compiler's schedule of such code is the pushes and then what waits: two products and a reduction, or a product for each of many heads. */
START_TEST(products_of_few_rows)
{
    enum { HEADS_HERE = 2, KEYS = 512, ROWS = 8 };
    EchKernelGrid grid = read_corpus("few_rows", (EchMosaicArray[4]){{0}}, 3, 4);
    ck_assert_double_eq(grid.steps, 4);
    ck_assert_double_eq(grid.alone.stretches, 4);
    ck_assert_double_eq(grid.alone.products, 4 * 2);
    ck_assert_double_eq(grid.alone.reduced, 4);
    ck_assert_double_eq(grid.alone.heads, 4 * HEADS_HERE);
    ck_assert_double_eq(grid.alone.pushes, 4 * HEADS_HERE * (2 * KEYS * 128 + KEYS * 128) / (16 * 128.0));
    ck_assert_uint_eq(grid.n_products, 2);
    ck_assert(grid.products[0].transposed && !grid.products[1].transposed);
    g_autoptr(EchDevice) device = ech_test_device("tpu-v6e", NULL);
    EchKernelModel model;
    ck_assert(ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, NULL));
    double pushed = model.bundle.push * grid.alone.pushes, way = 4 * (2 * model.bundle.product + model.bundle.reduction);
    ck_assert_double_le(fabs((double)compute_on("tpu-v6e", &grid) / (pushed + way) - 1), 0.01);
    grid.alone.heads *= 8;
    ck_assert_double_le(fabs((double)compute_on("tpu-v6e", &grid) / (pushed + grid.alone.heads * model.bundle.product) - 1), 0.01);
    /* Where much else is to be done nothing is waited for. */
    grid.vector = grid.alone.vector = 1e6;
    ck_assert_double_le(fabs((double)compute_on("tpu-v6e", &grid) / (1e6 / model.bundle.vector) - 1), 0.05);
    /* What the kernel copies where it computes nothing is begun one after the other. */
    EchKernelGrid many = grid;
    many.copies = 1000;
    EchKernelCost with, without;
    ech_kernel_grid_price(&model, &grid, 0, &without);
    ech_kernel_grid_price(&model, &many, 0, &with);
    ck_assert_double_le(fabs((double)(with.time - without.time) * model.clock_hz * 1e-12 / (1000 * ECH_KERNEL_GRID_COPY_CYCLES) - 1), 1e-3);
}
END_TEST

/* Forty shapes, more than are told apart: none is lost. */
START_TEST(many_products)
{
    EchKernelGrid grid = read_corpus("shapes", (EchMosaicArray[3]){{0}}, 2, 3);
    ck_assert_uint_eq(grid.n_products, ECH_KERNEL_MAX_PRODUCTS);
    double sum = 0, all = 0;
    for (uint32_t i = 0; i < grid.n_products; i++)
        sum += grid.products[i].times * (double)(grid.products[i].m * grid.products[i].k * grid.products[i].n);
    for (unsigned i = 1; i <= 40; i++)
        all += grid.steps * 8 * i * 256.0 * 256;
    ck_assert_double_le(fabs(sum / all - 1), 1e-12);
    ck_assert_double_eq(grid.operations, 2 * all);
}
END_TEST

/* The steps 0 to 3 of a kernel that asks a function for the least of 3 and its index, goes round a loop as often, and does once more in step 2: what is called
 * has values of its own, and hands one back. */
START_TEST(called_functions)
{
    EchKernelGrid grid = read_corpus("called", (EchMosaicArray[1]){{0}}, 1, 1);
    ck_assert_int_eq(grid.assumed, false);
    ck_assert_double_eq(grid.steps, 4);
    ck_assert_double_eq(grid.stored, 0 + 1 + 2 + 3 + 1);
    ck_assert_double_eq(grid.vector, 0 + 1 + 2 + 3 + 1);
}
END_TEST

/* A number that the kernel keeps in scalar memory it sets up for itself: 3, so many trips of an addition. Of two branches that hang on it and on what nobody
 * knows, both and either, it settles which is taken: the second, an addition more. */
START_TEST(own_counters)
{
    EchKernelGrid grid = read_corpus("counted", (EchMosaicArray[2]){{0}}, 1, 2);
    ck_assert_int_eq(grid.assumed, false);
    ck_assert_double_eq(grid.vector, 3 + 1);
}
END_TEST

/* Rows of 4 KiB, as many of each sequence as its length says (20, 0, 100, 33 of pages of 16): the capture notes what it was called with. Without that each
 * copy is as large as it may be. */
START_TEST(rows_by_lengths)
{
    enum { ROW = 8 * 128 * 4, PAGE = 16 };
    g_autoptr(EchImport) import = ech_test_import(ECH_SOURCE_DIR "/traces/ragged_copies.v5e", NULL);
    const EchKernelGrid *grid = grid_of(import, "ragged_copies.1");
    ck_assert_uint_eq(grid->read, (20 + 100 + 33) * ROW);
    ck_assert(!grid->assumed);
    gsize n;
    g_autofree guchar *code = code_of(import, "ragged_copies.1", &n);
    EchKernelGrid unknown;
    uint64_t visits = ECH_MOSAIC_VISITS;
    GError *error = NULL;
    ck_assert_ok(ech_mosaic_read(code, n, (EchMosaicArray[4]){{0}}, 3, 4, &visits, &unknown, &error), error);
    ck_assert(unknown.assumed);
    ck_assert_uint_eq(unknown.read % (PAGE * ROW), 0);
    ck_assert_uint_ge(unknown.read, 4 * PAGE * ROW);
    /* What is told of an argument holds for programs that are made of this one, too, and anything else says nothing. */
    g_autoptr(GPtrArray) texts = g_ptr_array_new();
    char lengths[] = "1,2,3,4", too_few[] = "0";
    g_ptr_array_add(texts, lengths);
    g_ptr_array_add(texts, too_few);
    ck_assert(ech_program_set_arguments(import->program, texts));
    ck_assert_uint_eq(grid_of(import, "ragged_copies.1")->read, 10 * ROW);
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new_from(import->program);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchProgram) made = ech_program_builder_finish(builder, "tpu-v5e", diag, &error);
    ck_assert_ok(made != NULL, error);
    ck_assert_uint_eq(ech_program_grid(made, ech_test_instruction(made, "ragged_copies.1"))->read, 10 * ROW);
    g_autoptr(EchImport) other = ech_test_import(ATTENTION, NULL);
    ck_assert(!ech_program_set_arguments(other->program, texts)); /* its kernels go by constants alone */
}
END_TEST

/* ---- What a kernel keeps on chip ---- */

static EchKernelRoom room_of(const char *name, size_t n_operands, size_t n_arrays, bool on_chip)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/mosaic", name, NULL), *code = NULL;
    const EchMosaicArray arrays[8] = {{.on_chip = on_chip}};
    gsize n;
    GError *error = NULL;
    ck_assert_ok(g_file_get_contents(path, &code, &n, &error), error);
    EchKernelRoom room;
    ck_assert_ok(ech_mosaic_room((const uint8_t *)code, n, arrays, n_operands, n_arrays, &room, &error), error);
    return room;
}

/* What libtpu 0.0.52 takes on a v5e: used_scoped_memory_configs, or the size in its refusal. */
START_TEST(room_as_compiled)
{
    static const struct {
        const char *name;
        size_t n_operands, n_arrays;
        EchBytes bytes;
    } kernels[] = {
        {"room_set_up", 1, 2, 6291456},    /* 2 MiB of blocks, and first 2 MiB, then 4 that run_scoped sets up */
        {"room_pipeline", 1, 2, 10485760}, /* emit_pipeline: three buffers of what it reads, two of what it writes */
        {"room_scratch", 1, 2, 8390656},   /* f32[3,5] takes four rows of 128 lanes */
        {"room_whole", 1, 2, 33554432},    /* without a grid whole arrays, once */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++)
        ck_assert_uint_eq(room_of(kernels[i].name, kernels[i].n_operands, kernels[i].n_arrays, false).bytes, kernels[i].bytes);
    ck_assert_uint_eq(room_of("room_whole", 1, 2, true).bytes, 16777216); /* what is on chip already needs no room */
}
END_TEST

/* A product in blocks of 512 x 1024 x 1024; the first operand asks for one buffer. */
START_TEST(room_of_a_product)
{
    EchKernelRoom room = room_of("room_product", 2, 3, false);
    static const EchBytes bytes[] = {1 << 20, 4 << 20, 2 << 20, 2 << 20};
    static const EchRoomKind kinds[] = {ECH_ROOM_INPUT, ECH_ROOM_INPUT, ECH_ROOM_OUTPUT, ECH_ROOM_SCRATCH};
    ck_assert_uint_eq(room.n_arrays, G_N_ELEMENTS(bytes));
    for (size_t i = 0; i < G_N_ELEMENTS(bytes); i++) {
        ck_assert_uint_eq(ech_room_array_bytes(&room.arrays[i]), bytes[i]);
        ck_assert_uint_eq(room.arrays[i].kind, kinds[i]);
    }
    ck_assert(room.arrays[0].asked_once && !room.arrays[1].asked_once);
    ck_assert_uint_eq(room.results, 512 * 1024 * 4);
    /* Columns: of the second operand, the result and the sums. */
    int64_t from = 0;
    ck_assert_uint_eq(ech_room_halve(&room, 1, &from), 5 << 20);
    ck_assert_int_eq(from, 1024);
    ck_assert_uint_eq(ech_room_halve(&room, 7, &from), 0);
}
END_TEST

/* Attention in blocks of 2048 x 2048: its scores are larger than what it keeps. */
START_TEST(room_of_attention)
{
    EchKernelRoom room = room_of("room_attention", 3, 4, false);
    ck_assert_uint_eq(room.bytes, 7 << 20);
    ck_assert_uint_ge(room.results, 2048 * 2048 * 4);
    int64_t from = 0;
    ck_assert_uint_eq(ech_room_halve(&room, 2, &from), 4718592); /* queries, the result, and the sums beside it: as compiled, less what is spilled */
    ck_assert_int_eq(from, 2048);
}
END_TEST

/* Rows of 4096 in 16 bits, normed in 32: no registers hold them until their sum is known. The compiler takes 47.82 MiB, 15.82 of them for that. */
START_TEST(room_of_a_norm)
{
    EchKernelRoom room = room_of("room_norm", 1, 2, false);
    ck_assert_uint_eq(room.bytes, 32 << 20);
    ck_assert_uint_eq(room.results, 1024 * 4096 * 4);
}
END_TEST

/* Copies that have one buffer wait for the work, and it for them; arrays that are brought whole are fetched, too. */
START_TEST(copies_that_nothing_hides)
{
    EchMosaicArray arrays[3] = {{0}};
    EchKernelGrid grid = read_corpus("room_product", arrays, 2, G_N_ELEMENTS(arrays));
    const EchBytes block = 1 << 20, steps = 16 * 8 * 8;
    ck_assert_uint_eq(grid.read, steps * block + steps * 2 * block);
    ck_assert_uint_eq(grid.first, steps * block + 2 * block);
    ck_assert_uint_eq(grid.last, block);
    grid = read_corpus("room_whole", arrays, 1, 2);
    ck_assert_uint_eq(grid.read, 16 << 20);
    ck_assert_uint_eq(grid.first, 16 << 20);
    ck_assert_uint_eq(grid.last, 16 << 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mosaic");
    TCase *tcase = tcase_create("mosaic");
    tcase_add_test(tcase, work_of_attention);
    tcase_add_test(tcase, work_of_the_busiest_device);
    tcase_add_test(tcase, rows_by_lengths);
    tcase_add_test(tcase, unknown_data);
    tcase_add_test(tcase, both_readers);
    tcase_add_test(tcase, constants_of_a_proto);
    tcase_add_test(tcase, broken_code);
    tcase_add_test(tcase, price_of_a_grid);
    tcase_add_test(tcase, units_of_a_core);
    tcase_add_test(tcase, narrow_arithmetic);
    tcase_add_test(tcase, grid_of_unknown_size);
    tcase_add_test(tcase, grid_of_no_steps);
    tcase_add_test(tcase, pipeline_in_a_loop);
    tcase_add_test(tcase, steps_in_lists);
    tcase_add_test(tcase, groups_come_in_bursts);
    tcase_add_test(tcase, long_loops);
    tcase_add_test(tcase, own_counters);
    tcase_add_test(tcase, groups_by_sizes);
    tcase_add_test(tcase, copies_to_other_devices);
    tcase_add_test(tcase, many_products);
    tcase_add_test(tcase, products_of_few_rows);
    tcase_add_test(tcase, called_functions);
    tcase_add_test(tcase, room_as_compiled);
    tcase_add_test(tcase, room_of_a_product);
    tcase_add_test(tcase, room_of_attention);
    tcase_add_test(tcase, room_of_a_norm);
    tcase_add_test(tcase, copies_that_nothing_hides);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
