/* The kernels that a GPU gets, run by an interpreter from the very PTX that is embedded: every byte that they read and write, and what they count as. This is
 * what "moves the stated bytes" and "does the stated operations" rest on. */
#include "sim/replay/cuda_driver.h"
#include "tests/gpu/fake/ptx.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* Memory at an address of its own, as long as it says and no longer, and how often each of its words of 4 bytes was read and written. */
typedef struct {
    uint64_t address;
    unsigned bytes;
    unsigned char *data;
    unsigned *reads, *writes;
} Region;

enum { MOST_REGIONS = 3 };
typedef struct {
    Region regions[MOST_REGIONS];
    int n;
} Space;

static void *reach(uint64_t address, unsigned bytes, bool writes, void *data)
{
    Space *space = data;
    for (int i = 0; i < space->n; i++) {
        Region *r = &space->regions[i];
        if (address < r->address || address + bytes > r->address + r->bytes)
            continue;
        for (unsigned at = 0; at < bytes; at += 4)
            (writes ? r->writes : r->reads)[(address - r->address + at) / 4]++;
        return r->data + (address - r->address);
    }
    return NULL;
}

static Region *add_region(Space *space, unsigned bytes)
{
    Region *r = &space->regions[space->n++];
    *r = (Region){.address = UINT64_C(0x7f0000000000) + ((uint64_t)space->n << 32), .bytes = bytes, .data = g_malloc0(bytes + 1)};
    r->reads = g_new0(unsigned, bytes / 4 + 1);
    r->writes = g_new0(unsigned, bytes / 4 + 1);
    for (unsigned i = 0; i < bytes; i++)
        r->data[i] = (unsigned char)(i * 31 + 7);
    return r;
}

static void clear_space(Space *space)
{
    for (int i = 0; i < space->n; i++) {
        g_free(space->regions[i].data);
        g_free(space->regions[i].reads);
        g_free(space->regions[i].writes);
    }
    space->n = 0;
}

static Ptx *ptx;

static void load(void)
{
    char why[256] = "";
    ptx = ptx_load(ech_cuda_kernels_ptx, why, sizeof why);
    ck_assert_msg(ptx != NULL, "%s", why);
}

static void unload(void)
{
    ptx_free(ptx);
}

static PtxCounts run(const char *name, unsigned blocks, unsigned threads, void *const *parameters, Space *space)
{
    char why[256] = "";
    PtxCounts counts;
    ck_assert_msg(ptx_run(ptx, name, blocks, threads, parameters, 0, reach, space, &counts, why, sizeof why), "%s", why);
    ck_assert_msg(counts.complete, "%s", name);
    return counts;
}

static void each_word(const Region *r, unsigned bytes, unsigned reads, unsigned writes, const char *what)
{
    for (unsigned i = 0; i < bytes / 4; i++)
        ck_assert_msg(r->reads[i] == reads && r->writes[i] == writes, "%s: word %u of %u read %u and written %u times", what, i, bytes / 4, r->reads[i],
                      r->writes[i]);
}

static const unsigned grids[][2] = {{1, 1}, {1, 32}, {3, 32}, {2, 96}, {5, 7}};
static const unsigned sizes[] = {0, 1, 2, 5, 31, 33, 96, 127, 128, 129, 385, 500};

/* Memory is exactly as long as what is to be read and written: every word of it once, none beside it. */
START_TEST(streams_the_stated_bytes)
{
    for (size_t g = 0; g < G_N_ELEMENTS(grids); g++) {
        for (size_t i = 0; i < G_N_ELEMENTS(sizes) * G_N_ELEMENTS(sizes); i++) {
            uint64_t reads = sizes[i / G_N_ELEMENTS(sizes)], writes = sizes[i % G_N_ELEMENTS(sizes)];
            Space space = {0};
            Region *source = add_region(&space, (unsigned)reads * 16), *target = add_region(&space, (unsigned)writes * 16), *sink = add_region(&space, 4);
            void *parameters[] = {&source->address, &target->address, &reads, &writes, &sink->address};
            PtxCounts counts = run("echelon_stream", grids[g][0], grids[g][1], parameters, &space);
            g_autofree char *what = g_strdup_printf("%u x %u, %u read, %u written", grids[g][0], grids[g][1], (unsigned)reads, (unsigned)writes);
            ck_assert_uint_eq(counts.read, reads * 16);
            ck_assert_uint_eq(counts.written, writes * 16);
            each_word(source, source->bytes, 1, 0, what);
            each_word(target, target->bytes, 0, 1, what);
            ck_assert_int_eq(memcmp(source->data, target->data, MIN(source->bytes, target->bytes)), 0);
            clear_space(&space);
        }
    }
}
END_TEST

START_TEST(gathers_where_it_says)
{
    const uint64_t masks[] = {0, 1, 63, 1023}, strides[] = {1, 3, 4, 64};
    for (size_t i = 0; i < G_N_ELEMENTS(grids) * G_N_ELEMENTS(sizes) * G_N_ELEMENTS(masks) * G_N_ELEMENTS(strides); i++) {
        uint64_t mask = masks[i % 4], stride = strides[i / 4 % 4], reads = sizes[i / 16 % G_N_ELEMENTS(sizes)];
        const unsigned *grid = grids[i / 16 / G_N_ELEMENTS(sizes)];
        Space space = {0};
        Region *source = add_region(&space, (unsigned)(mask + 1) * 16), *sink = add_region(&space, 4);
        void *strided[] = {&source->address, &mask, &stride, &reads, &sink->address}, *random[] = {&source->address, &mask, &reads, &sink->address};
        ck_assert_uint_eq(run("echelon_strided", grid[0], grid[1], strided, &space).read, reads * 16);
        g_autofree unsigned *expected = g_new0(unsigned, mask + 1);
        for (uint64_t r = 0; r < reads; r++)
            expected[r * stride & mask]++;
        for (uint64_t w = 0; w <= mask; w++)
            ck_assert_uint_eq(source->reads[4 * w], expected[w]);
        PtxCounts counts = run("echelon_random", grid[0], grid[1], random, &space);
        ck_assert_uint_eq(counts.read, reads * 16);
        ck_assert_uint_eq(counts.written, 0);
        clear_space(&space);
    }
}
END_TEST

/* As many reads as there are words find about 1 - 1/e of them, and neighbours in the grid lie far apart. */
START_TEST(random_places_are_random)
{
    uint64_t mask = 4095, reads = 4096;
    Space space = {0};
    Region *source = add_region(&space, (unsigned)(mask + 1) * 16), *sink = add_region(&space, 4);
    void *parameters[] = {&source->address, &mask, &reads, &sink->address};
    run("echelon_random", 4, 32, parameters, &space);
    unsigned found = 0, beside = 0;
    for (unsigned i = 0; i <= mask; i++) {
        found += source->reads[4 * i] > 0;
        beside += i > 0 && source->reads[4 * i] > 0 && source->reads[4 * i - 4] > 0;
    }
    ck_assert_uint_gt(found, 2500);
    ck_assert_uint_lt(found, 2700);
    ck_assert_uint_lt(beside, 1800);
    clear_space(&space);
}
END_TEST

/* A chain goes on where the run before has left it: none meets a link twice until it has met all. */
START_TEST(chains_go_on)
{
    const uint64_t lines = 256;
    uint64_t steps = 50;
    Space space = {0};
    Region *chain = add_region(&space, (unsigned)lines * 128), *at = add_region(&space, 4);
    for (uint32_t i = 0; i < lines; i++) {
        uint32_t next = ((i * 1664525u + 1013904223u) & (uint32_t)(lines - 1)) * 32;
        memcpy(chain->data + (size_t)i * 128, &next, 4);
    }
    memset(at->data, 0, 4);
    void *parameters[] = {&chain->address, &steps, &at->address};
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(run("echelon_chase", 1, 1, parameters, &space).read, 4 * steps + 4);
    for (uint64_t i = 0; i < lines; i++)
        ck_assert_uint_le(chain->reads[i * 32], 1);
    steps = 6;
    run("echelon_chase", 1, 1, parameters, &space);
    for (uint64_t i = 0; i < lines; i++)
        ck_assert_uint_eq(chain->reads[i * 32], 1);
    uint32_t end;
    memcpy(&end, at->data, 4);
    ck_assert_uint_eq(end, 0);
    clear_space(&space);
}
END_TEST

START_TEST(does_the_stated_operations)
{
    const uint64_t rounds_of[] = {0, 1, 2, 3, 4, 5, 9, 64};
    for (size_t i = 0; i < G_N_ELEMENTS(rounds_of); i++) {
        uint64_t rounds = rounds_of[i];
        const uint64_t threads = 2 * 64;
        float narrow = 0.999F;
        double wide = 0.999;
        Space space = {0};
        Region *sink = add_region(&space, 8);
        void *fma[] = {&rounds, &narrow, &sink->address}, *fma64[] = {&rounds, &wide, &sink->address}, *plain[] = {&rounds, &sink->address};
        PtxCounts counts = run("echelon_fma", 2, 64, fma, &space);
        ck_assert_uint_eq(2 * counts.fma32, threads * rounds * 32);
        counts = run("echelon_fma64", 2, 64, fma64, &space);
        ck_assert_uint_eq(2 * counts.fma64, threads * rounds * 32);
        counts = run("echelon_exp", 2, 64, plain, &space);
        ck_assert_uint_eq(counts.ex2, threads * rounds * 16);
        counts = run("echelon_mma", 2, 64, plain, &space);
        /* A product of 16 x 8 x 16 by each warp. */
        ck_assert_uint_eq(counts.mma / 32 * 2 * 16 * 8 * 16, threads / 32 * rounds * 16384);
        clear_space(&space);
    }
}
END_TEST

START_TEST(counts_what_differs)
{
    for (size_t i = 0; i < G_N_ELEMENTS(sizes) * G_N_ELEMENTS(grids); i++) {
        uint64_t words = sizes[i % G_N_ELEMENTS(sizes)];
        const unsigned *grid = grids[i / G_N_ELEMENTS(sizes)];
        uint32_t pattern = 0x5ca1ab1e, wrong = 0, found = 0;
        Space space = {0};
        Region *data = add_region(&space, (unsigned)words * 4), *differing = add_region(&space, 4);
        for (uint32_t w = 0; w < words; w++) {
            uint32_t value = w % 5 == 3 ? w : pattern;
            wrong += value != pattern;
            memcpy(data->data + (size_t)w * 4, &value, 4);
        }
        memset(differing->data, 0, 4);
        void *parameters[] = {&data->address, &words, &pattern, &differing->address};
        run("echelon_verify", grid[0], grid[1], parameters, &space);
        each_word(data, data->bytes, 1, 0, "verify");
        memcpy(&found, differing->data, 4);
        ck_assert_uint_eq(found, wrong);
        clear_space(&space);
    }
}
END_TEST

/* Of every word, both halves are numbers of the magnitude promised, as bfloat16 and as float16. */
START_TEST(noise_is_numbers)
{
    for (size_t i = 0; i < G_N_ELEMENTS(sizes) * G_N_ELEMENTS(grids); i++) {
        uint64_t words = sizes[i % G_N_ELEMENTS(sizes)];
        const unsigned *grid = grids[i / G_N_ELEMENTS(sizes)];
        uint32_t seed = 7;
        Space space = {0};
        Region *target = add_region(&space, (unsigned)words * 4);
        void *parameters[] = {&target->address, &words, &seed};
        run("echelon_noise", grid[0], grid[1], parameters, &space);
        each_word(target, target->bytes, 0, 1, "noise");
        for (uint64_t half = 0; half < 2 * words; half++) {
            uint16_t bits;
            memcpy(&bits, target->data + 2 * half, 2);
            uint32_t as_float = (uint32_t)bits << 16;
            float bf16;
            memcpy(&bf16, &as_float, 4);
            ck_assert(fabsf(bf16) >= 1.0F / 128 && fabsf(bf16) < 2);
            ck_assert_uint_eq(bits >> 10 & 31, 15);
        }
        clear_space(&space);
    }
}
END_TEST

START_TEST(spins_by_the_clock)
{
    const uint64_t times[] = {0, 1, 999, 1000, 250000};
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++) {
        uint64_t time = times[i];
        Space space = {0};
        void *parameters[] = {&time};
        /* The interpreter's clock goes on by a microsecond when it is read. */
        uint64_t reads = MAX((time + 999) / 1000, 1);
        PtxCounts counts = run("echelon_spin", 1, 1, parameters, &space);
        ck_assert_uint_ge(counts.instructions, 3 * reads);
        ck_assert_uint_le(counts.instructions, 5 * reads + 8);
    }
}
END_TEST

/* What the interpreter does not know it refuses, and what a kernel may not touch it reports. */
START_TEST(refuses_what_it_does_not_know)
{
    static const char *const bodies[] = {"sqrt.rn.f32 %r1, %r1;", "mov.u32 %r9, 0;", "bra $nowhere;", "ld.global.v2.u32 {%r0, %r1}, [%r0];", "mov.u32 %r1, x;"};
    char why[256];
    for (size_t i = 0; i < G_N_ELEMENTS(bodies); i++) {
        g_autofree char *text = g_strdup_printf(".visible .entry k(\n.param .u64 k_param_0\n)\n{\n.reg .b32 %%r<2>;\n%s\nret;\n}\n", bodies[i]);
        ck_assert_ptr_null(ptx_load(text, why, sizeof why));
        ck_assert_msg(strncmp(why, "line 6: ", 8) == 0, "%s", why);
    }
    uint64_t words = 4, address = 64;
    uint32_t seed = 0;
    void *parameters[] = {&address, &words, &seed};
    PtxCounts counts;
    Space space = {0};
    ck_assert(!ptx_run(ptx, "echelon_noise", 1, 1, parameters, 0, reach, &space, &counts, why, sizeof why));
    ck_assert_msg(strstr(why, "may not be touched") != NULL, "%s", why);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_kernels");
    TCase *tests = tcase_create("ptx");
    tcase_add_checked_fixture(tests, load, unload);
    tcase_add_test(tests, streams_the_stated_bytes);
    tcase_add_test(tests, gathers_where_it_says);
    tcase_add_test(tests, random_places_are_random);
    tcase_add_test(tests, chains_go_on);
    tcase_add_test(tests, does_the_stated_operations);
    tcase_add_test(tests, counts_what_differs);
    tcase_add_test(tests, noise_is_numbers);
    tcase_add_test(tests, spins_by_the_clock);
    tcase_add_test(tests, refuses_what_it_does_not_know);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
