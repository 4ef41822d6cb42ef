/* What kernels move, by their PTX: found by running some of their blocks. */
#include "tests/support/support.h"
#include "traces/capture/pretend/ptx.h"

#include <check.h>
#include <inttypes.h>
#include <string.h>

/* Arrays of the device: at 1, 2, 3 and 4 GiB, of 64 MiB each, and side by side at 5 GiB, of 1 MiB each. */
#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)
#define ARRAY (64 * MIB)

static uint64_t end_of(uint64_t address)
{
    if (address >= 5 * GIB && address < 5 * GIB + ARRAY)
        return (address / MIB + 1) * MIB;
    return address >= GIB && address < 5 * GIB && address % GIB < ARRAY ? address / GIB * GIB + ARRAY : 0;
}

/* The array at 4 GiB is known: the word at each place is what stands here, times the place. */
static uint64_t step;

static bool peek(uint64_t address, unsigned bytes, uint64_t *ret)
{
    *ret = (address - 4 * GIB) / 4 * step & (bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1);
    return address >= 4 * GIB;
}

typedef struct {
    unsigned grid[3], block[3];
    uint64_t parameters[4]; /* all of 8 bytes, of which kernels may take fewer */
    size_t shared;
} Launch;

/* Its parameter e: 100 x 60 numbers of 16 bits at 1 GiB, a row every 256 bytes, in boxes of 64 x 8. */
static const PtxTensor map = {.address = GIB, .apart = {256}, .sizes = {100, 60}, .box = {64, 8}, .dimensions = 2, .bits = 16};

/* Of the one kernel of @body, whose parameters a, b, c and d are 64-bit numbers. False: it is not told. */
static bool moves(const char *declared, const char *body, const Launch *launch, PtxMoves *ret)
{
    g_autofree char *text =
        g_strdup_printf(".version 8.5\n.target sm_80\n.address_size 64\n%s\n.visible .entry other(.param .u64 a)\n{ // a brace: {\n ret; }\n"
                        ".visible .entry k(\n .param .u64 a,\n .param .u64 b,\n .param .u64 c,\n .param .u64 d,\n .param .align 64 .b8 e[128]\n)\n"
                        ".maxntid 1024, 1, 1\n.reqnctapercluster 2, 1, 1\n"
                        "{\n.reg .pred %%p<9>;\n.reg .b32 %%r<40>;\n.reg .f32 %%f<9>;\n.reg .b64 %%d<20>;\n"
                        "ld.param.u64 %%d0, [a]; ld.param.u64 %%d1, [b]; ld.param.u64 %%d2, [c]; ld.param.u64 %%d3, [d];\n"
                        "mov.u32 %%r0, %%tid.x; mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mad.lo.s32 %%r3, %%r1, %%r2, %%r0;\n%s\n}\n",
                        declared, body);
    PtxKernel *kernel = ptx_kernel_new(text, "k");
    if (!kernel)
        return false;
    uint8_t tensor[128] = {0};
    memcpy(tensor, &map, sizeof map);
    const void *parameters[5] = {[4] = tensor};
    uint32_t bytes[5] = {8, 8, 8, 8, 128};
    uint64_t variables[4] = {0};
    for (size_t i = 0; i < 4; i++)
        parameters[i] = &launch->parameters[i];
    PtxLaunch at = {.dynamic_shared = launch->shared,
                    .enough = 500000,
                    .most = 2000000,
                    .parameters = (void *const *)(uintptr_t)parameters,
                    .parameter_bytes = bytes,
                    .n_parameters = 5,
                    .variables = variables,
                    .peek = peek,
                    .end = end_of};
    for (int i = 0; i < 3; i++) {
        at.grid[i] = MAX(launch->grid[i], 1);
        at.block[i] = MAX(launch->block[i], 1);
    }
    bool told = ptx_moves(kernel, &at, ret);
    ptx_kernel_free(kernel);
    return told;
}

/* Bytes that are read or written of the array at @gib. */
static uint64_t moved(const PtxMoves *found, uint64_t gib, bool writes)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < found->n; i++)
        if (found->moves[i].address / GIB == gib && found->moves[i].writes == writes)
            bytes += found->moves[i].bytes;
    return bytes;
}

/* Four numbers a thread, where there are as many: c is how many threads have some. */
START_TEST(test_streams)
{
    static const char body[] = "cvt.u32.u64 %r4, %d2; setp.ge.s32 %p0, %r3, %r4; @%p0 bra $done;\n"
                               "mul.wide.s32 %d4, %r3, 16; add.s64 %d5, %d0, %d4; add.s64 %d6, %d1, %d4;\n"
                               "ld.global.nc.L1::no_allocate.v4.f32 {%f0, %f1, %f2, %f3}, [%d5];\n"
                               "fma.rn.f32 %f0, %f0, %f1, %f2; add.f32 %f0, %f0, %f3;\n"
                               "st.global.v4.f32 [%d6], {%f0, %f1, %f2, %f3};\n$done:\nret;";
    PtxMoves found;
    ck_assert(moves("", body, &(Launch){{5000}, {256}, {GIB, 2 * GIB, 1000 * 256 + 100}, 0}, &found));
    ck_assert_uint_eq(found.n, 2);
    ck_assert_uint_eq(found.moves[0].address, GIB);
    /* Blocks behind the last thread do nothing; how many those are is estimated by the blocks that ran. */
    ck_assert_double_eq_tol((double)moved(&found, 1, false), 256100. * 16, 256100. * 16 * .03);
    ck_assert_double_eq_tol((double)moved(&found, 2, true), 256100. * 16, 256100. * 16 * .03);
    ck_assert_double_eq_tol((double)found.flops, 256100. * 3, 256100. * 3 * .03);
    ck_assert_uint_eq(found.flops_64, 0);
    ck_assert_uint_eq(found.multiplied, 0);

    ck_assert(moves("", body, &(Launch){{1000}, {256}, {GIB, 2 * GIB, 1000 * 256}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 256000 * 16);
    ck_assert_uint_eq(moved(&found, 2, true), 256000 * 16);
    ck_assert_uint_eq(found.issued, 8000 * 11); /* of each warp, but what names a register, a parameter or a wider integer */
    ck_assert(moves("", body, &(Launch){{1000}, {256}, {GIB, GIB, 1000 * 256}, 0}, &found)); /* in place */
    ck_assert_uint_eq(moved(&found, 1, false), 256000 * 16);
    ck_assert_uint_eq(moved(&found, 1, true), 256000 * 16);
}
END_TEST

/* A row a block: column by column of c columns in a loop, of each b bytes apart, twice over (as a softmax reads). What all read alike, it reads once. */
START_TEST(test_loops)
{
    static const char body[] = "mul.wide.u32 %d4, %r1, 4096; add.s64 %d4, %d0, %d4;\n"
                               "mov.b32 %r9, 2;\n$again:\nmov.u32 %r5, %r0;\n$next:\n"
                               "cvt.u64.u32 %d7, %r5; mul.lo.s64 %d6, %d7, %d1; add.s64 %d6, %d4, %d6; ld.global.f32 %f0, [%d6];\n"
                               "ld.global.f32 %f1, [%d3+8];\nmax.f32 %f2, %f0, %f1;\n"
                               "add.s32 %r5, %r5, %r2; cvt.u64.u32 %d8, %r5; setp.lt.u64 %p0, %d8, %d2; @%p0 bra $next;\n"
                               "add.s32 %r9, %r9, -1; setp.ne.s32 %p1, %r9, 0; @%p1 bra $again;\nret;";
    PtxMoves found;
    ck_assert(moves("", body, &(Launch){{300}, {128}, {GIB, 4, 1024, 2 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 300 * 4096);
    ck_assert_uint_eq(moved(&found, 2, false), 4);
    ck_assert_uint_eq(found.flops, UINT64_C(300) * 1024 * 2);
    /* Of what lies 64 bytes apart each one takes a sector. */
    ck_assert(moves("", body, &(Launch){{300}, {64}, {GIB, 64, 64, 2 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 300 * 64 * 32);
}
END_TEST

/* Blocks in three dimensions; those of one row read the same. */
START_TEST(test_shared_between_blocks)
{
    static const char body[] =
        "mov.u32 %r5, %ctaid.y; mad.lo.s32 %r6, %r5, 64, %r0; mul.wide.s32 %d4, %r6, 4; add.s64 %d5, %d0, %d4; ld.global.f32 %f0, [%d5];\n"
        "mad.lo.s32 %r7, %r5, 10, %r1; mad.lo.s32 %r7, %r7, 64, %r0; mul.wide.s32 %d6, %r7, 4; add.s64 %d7, %d1, %d6; st.global.f32 [%d7], %f0;\nret;";
    PtxMoves found;
    ck_assert(moves("", body, &(Launch){{10, 200}, {64}, {GIB, 2 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 200 * 64 * 4);
    ck_assert_uint_eq(moved(&found, 2, true), 2000 * 64 * 4);
}
END_TEST

/* Arrays that lie side by side are as many. */
START_TEST(test_neighbours)
{
    static const char body[] = "mul.wide.u32 %d4, %r3, 4; add.s64 %d5, %d0, %d4; ld.global.f32 %f0, [%d5]; ld.global.f32 %f1, [%d5+1048576];\n"
                               "add.s64 %d6, %d1, %d4; st.global.f32 [%d6], %f0; ret;";
    PtxMoves found;
    ck_assert(moves("", body, &(Launch){{1024}, {256}, {5 * GIB, 5 * GIB + 2 * MIB}, 0}, &found));
    ck_assert_uint_eq(found.n, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert(found.moves[i].address == 5 * GIB + i * MIB && found.moves[i].bytes == MIB && found.moves[i].writes == (i == 2));
}
END_TEST

/* Rows that an index picks: known (they lie step rows apart), and not known (each thread's its own). */
START_TEST(test_gathers)
{
    static const char body[] = "mul.wide.u32 %d4, %r3, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r4, [%d5];\n"
                               "mul.wide.u32 %d6, %r4, 1024; add.s64 %d7, %d0, %d6; ld.global.f32 %f0, [%d7+64]; ld.global.f32 %f1, [%d7+68];\nret;";
    PtxMoves found;
    step = 2;
    ck_assert(moves("", body, &(Launch){{4}, {64}, {GIB, 4 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 256 * 32);
    ck_assert_uint_eq(found.moves[0].address, GIB + 64);
    step = 0; /* one row for all */
    ck_assert(moves("", body, &(Launch){{4}, {64}, {GIB, 4 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 8);
    ck_assert(moves("", body, &(Launch){{4}, {64}, {GIB, 2 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 256 * 32);
    ck_assert_uint_eq(moved(&found, 2, false), 256 * 4);
    /* A byte that is not known is one of 256. */
    static const char bins[] = "cvt.u64.u32 %d4, %r3; add.s64 %d5, %d1, %d4; ld.global.u8 %r4, [%d5]; mul.wide.u32 %d6, %r4, 4; add.s64 %d7, %d0, %d6;\n"
                               "red.global.add.u32 [%d7], 1; ret;";
    ck_assert(moves("", bins, &(Launch){{4000}, {256}, {GIB, 2 * GIB}, 0}, &found));
    ck_assert_double_eq_tol((double)moved(&found, 1, true), 1024, 16);
    ck_assert_uint_eq(moved(&found, 2, false), 1024000);
}
END_TEST

/* An address that one thread leaves in shared memory for all others of its block, and one in its own. */
START_TEST(test_memories)
{
    static const char declared[] = ".shared .align 8 .b8 kept[16];\n.extern .shared .align 16 .b8 rest[];",
                      body[] = ".local .align 8 .b8 own[16];\n.reg .b64 %SP;\nmov.u64 %SP, own; cvta.local.u64 %SP, %SP;\n"
                               "setp.ne.s32 %p0, %r0, 95; @%p0 bra $wait;\nmul.wide.u32 %d4, %r1, 65536; add.s64 %d4, %d4, %d0; mov.u64 %d9, rest; "
                               "st.shared.u64 [kept+8], %d4; st.shared.u64 [%d9+8], %d4;\n"
                               "$wait:\nbar.sync 0;\nld.shared.u64 %d5, [kept+8]; cvta.shared.u64 %d9, %d9; mov.u64 %d10, rest; cvta.shared.u64 %d10, %d10; "
                               "ld.u64 %d11, [%d10+8]; min.u64 %d5, %d5, %d11;\n"
                               "st.u64 [%SP+8], %d5; ld.local.u64 %d6, [own+8]; mul.wide.u32 %d7, %r0, 4; add.s64 %d8, %d6, %d7; ld.f32 %f0, [%d8];\nret;";
    PtxMoves found;
    ck_assert(moves(declared, body, &(Launch){{3}, {96}, {GIB}, 1024}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 3 * 96 * 4);
    ck_assert_uint_eq(found.n, 1);
    ck_assert_uint_eq(found.moves[0].address, GIB);
}
END_TEST

/* Tensor cores, asynchronous copies, and what warps tell each other: 32 rows in a block, of which the last lane of a warp says the first one's. */
START_TEST(test_warps)
{
    static const char body[] =
        "and.b32 %r4, %r0, 31; shfl.sync.idx.b32 %r5|%p0, %r3, 0, 31, -1; mad.lo.s32 %r6, %r5, 1, %r4;\n"
        "vote.sync.any.pred %p1, %p0, -1; setp.eq.s32 %p2|%p3, %r4, 40; or.pred %p4, %p1, %p2; mov.u32 %r9, 0;\n"
        "mul.wide.s32 %d4, %r6, 16; add.s64 %d5, %d0, %d4; mov.b64 %d6, {%r6, %r9}; mov.b64 {%r10, %r11}, %d6;\n"
        "@%p4 cp.async.cg.shared.global [%r10], [%d5], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f0,%f1,%f2,%f3};\n"
        "bfe.u32 %r12, %r3, 5, 2; prmt.b32 %r13, %r12, 0, 0x4440; lop3.b32 %r13, %r13, %r12, 0, 192;\n"
        "goto: .branchtargets $a, $b, $a, $b;\n@%p3 brx.idx %r13, goto;\n$a: bra.uni $b;\n$b: @!%p4 bra $c;\nst.global.u32 [%d1], %r3;\n$c: ret;";
    PtxMoves found;
    ck_assert(moves("", body, &(Launch){{2}, {64}, {GIB, 2 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 128 * 16);
    ck_assert_uint_eq(moved(&found, 2, true), 4);
    ck_assert_uint_eq(found.multiplied, 4 * 2 * 16 * 8 * 16);
}
END_TEST

/* Tiles of tensor cores: a warp loads 16 rows of 16 halves, 64 apart, and 16 columns of b, 16 apart, and stores 16 rows of 16 floats; what it has in shared
 * memory is no array's. */
START_TEST(test_tiles)
{
    static const char body[] = "mul.wide.u32 %d4, %r1, 2048; add.s64 %d4, %d0, %d4; mov.u32 %r5, 64;\n"
                               "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%d4+32], %r5;\n"
                               "wmma.load.b.sync.aligned.col.m16n16k16.f16 {%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27}, [%d1];\n"
                               "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%r30], 16;\n"
                               "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, "
                               "{%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27}, {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};\n"
                               "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d2], {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, %r5;\nret;";
    PtxMoves found;
    ck_assert(moves("", body, &(Launch){{3}, {32}, {GIB, 2 * GIB, 3 * GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 3 * 16 * 32);
    ck_assert_uint_eq(found.moves[0].address, GIB + 32);
    ck_assert_uint_eq(moved(&found, 2, false), 16 * 32);
    ck_assert_uint_eq(moved(&found, 3, true), 3 * 16 * 64); /* of 64 bytes each; every block has the same */
    ck_assert_uint_eq(found.multiplied, 3 * 2 * 16 * 16 * 16);
}
END_TEST

/* Boxes of a tensor, by its map: what of them lies inside, read and written; a loop that waits for each; blocks of a cluster. */
START_TEST(test_tensors)
{
#define BOX "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], "
    static const char at[] = "mov.b64 %d4, e; cvta.param.u64 %d4, %d4; setp.ne.u32 %p1, %r0, 0; mov.u32 %r4, {}; mov.u32 %r5, {}; @%p1 bra $wait;\n" BOX
                             "[%d4, {%r4, %r5}], [%r11];\n$wait: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r11], %r12; @!%p0 bra $wait; ret;";
    static const struct {
        int x, y;
        uint64_t bytes;
    } cases[] = {{0, 0, 8 * 128}, {64, 0, 8 * 96}, {0, 56, 4 * 128}, {-32, -7, 64}, {128, 0, 0}, {0, 60, 0}};
    PtxMoves found;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_auto(GStrv) parts = g_strsplit(at, "{}", -1);
        g_autofree char *body = g_strdup_printf("%s%d%s%d%s", parts[0], cases[i].x, parts[1], cases[i].y, parts[2]);
        ck_assert_msg(moves("", body, &(Launch){{1}, {64}, {GIB}, 0}, &found), "%s", body);
        ck_assert_msg(moved(&found, 1, false) == cases[i].bytes, "%d, %d: %" PRIu64 " bytes", cases[i].x, cases[i].y, moved(&found, 1, false));
    }
    ck_assert(moves("",
                    "mov.b64 %d4, e; mov.u32 %r4, 0; shl.b32 %r5, %r1, 3;\n"
                    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d4, {%r4, %r5}], [%r10]; ret;",
                    &(Launch){{3}, {1}, {GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, true), 3 * 8 * 128);
    ck_assert_uint_eq(moved(&found, 1, false), 0);
    /* The second block of each cluster of two has the second half of a tile of 16 rows. */
    ck_assert(moves("",
                    "mov.b64 %d4, e; mov.u32 %r4, 0; mov.u32 %r5, %cluster_ctarank; mov.u32 %r6, %clusterid.x; mov.u32 %r7, %cluster_nctaid.x;\n"
                    "mad.lo.u32 %r5, %r6, %r7, %r5; shl.b32 %r5, %r5, 3; " BOX "[%d4, {%r4, %r5}], [%r11]; ret;",
                    &(Launch){{4}, {1}, {GIB}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 4 * 8 * 128);
    /* A map in memory that nobody knows, or of other dimensions. */
    ck_assert(!moves("", BOX "[%d0, {%r4, %r5}], [%r11]; ret;", &(Launch){{1}, {1}, {GIB}, 0}, &found));
    ck_assert(!moves(
        "", "mov.b64 %d4, e; cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%d4, {%r4, %r5, %r6}], [%r11]; ret;",
        &(Launch){{1}, {1}, {GIB}, 0}, &found));
#undef BOX
}
END_TEST

/* What instructions are in machine code, and which units they take. */
START_TEST(test_units)
{
    static const struct {
        const char *instruction;
        uint64_t issued, slots, slots_64, functions;
    } cases[] = {
        {"fma.rn.f32 %f0, %f1, %f2, %f3;", 1, 1, 0, 0}, {"add.f32 %f0, %f1, %f2;", 1, 1, 0, 0},       {"max.f32 %f0, %f1, %f2;", 1, 0, 0, 0},
        {"fma.rn.f64 %d4, %d5, %d6, %d7;", 1, 0, 1, 0}, {"ex2.approx.ftz.f32 %f0, %f1;", 1, 0, 0, 1}, {"ex2.approx.f32 %f0, %f1;", 4, 0, 0, 1},
        {"div.rn.f32 %f0, %f1, %f2;", 10, 0, 0, 1},     {"div.rn.f64 %d4, %d5, %d6;", 15, 0, 8, 1},   {"div.s32 %r4, %r5, %r6;", 24, 0, 0, 1},
        {"rem.u64 %d4, %d5, %d6;", 68, 0, 0, 1},
    };
    PtxMoves found, without;
    Launch launch = {{3}, {64}, {GIB}, 0};
    ck_assert(moves("", "ret;", &launch, &without));
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *body = g_strconcat(cases[i].instruction, " ret;", NULL);
        ck_assert(moves("", body, &launch, &found));
        bool is_so = found.issued - without.issued == 6 * cases[i].issued && found.slots == 192 * cases[i].slots && found.slots_64 == 192 * cases[i].slots_64 &&
                     found.functions == 192 * cases[i].functions;
        ck_assert_msg(is_so, "%s", cases[i].instruction);
    }
    launch = (Launch){{1}, {128}, {GIB}, 0};
    ck_assert(moves("", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %d4, %d5, 1, 1, 1, 0, 0; ret;", &launch, &found));
    ck_assert(found.by_groups && found.multiplied == 2 * 64 * 8 * 16);
}
END_TEST

/* Blocks that take their work from a counter: the first takes all there is. */
START_TEST(test_counters)
{
    static const char body[] = "$next:\nmov.u32 %r4, 1; atom.global.add.u32 %r5, [%d1], %r4; cvt.u32.u64 %r6, %d2; setp.ge.u32 %p0, %r5, %r6; @%p0 bra $done;\n"
                               "mul.wide.u32 %d4, %r5, 4; add.s64 %d5, %d0, %d4; red.global.add.f32 [%d5], %f0; bra.uni $next;\n$done:\nret;";
    PtxMoves found;
    ck_assert(moves("", body, &(Launch){{12}, {32}, {GIB, 2 * GIB, 4000}, 0}, &found));
    ck_assert_uint_eq(moved(&found, 1, false), 16000);
    ck_assert_uint_eq(moved(&found, 1, true), 16000);
}
END_TEST

/* What is not known is not told. */
START_TEST(test_untold)
{
    static const struct {
        const char *declared, *body;
    } cases[] = {
        {"", "$ever: ld.global.u32 %r4, [%d0]; bra.uni $ever;"},
        {"", "tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d0, {%f0, %f1}]; ret;"},
        {".func f(.param .b64 a) { ret; }", "{ .param .b64 x; st.param.b64 [x], %d0; call.uni f, (x); } ret;"},
        {"", "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%d0, {%r2, %r3, %r2, %r3}], [%r4], {%r5}; ret;"},
        {"", "strange.b64 %d4, %d0; ld.global.u32 %r4, [%d4]; ret;"},
        {"", "ld.global.u64 %d4, [%d0]; ld.global.u32 %r4, [%d4]; ret;"}, /* an address that nobody knows */
        {"", "bra $nowhere; ret;"},
        {"", "ld.global.u32 %r4, [%d0];"
             "{"},
    };
    PtxMoves found;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        ck_assert_msg(!moves(cases[i].declared, cases[i].body, &(Launch){{3}, {32}, {GIB}, 0}, &found), "case %zu", i);
    /* Nor does what makes values alone matter. */
    ck_assert(moves("", "strange.f32 %f0, %f1; { .reg .pred p; setp.gt.f32 p, %f0, %f1; @p bra $a; } $a: ret;", &(Launch){{3}, {32}, {GIB}, 0}, &found));
    ck_assert_uint_eq(found.n, 0);
    ck_assert_ptr_null(ptx_kernel_new(".version 8.5\n.entry k(.param .u64 a) { ret; }", "other"));
    ck_assert_ptr_null(ptx_kernel_new("", "k"));
}
END_TEST

/* Kernels that wait for other blocks: those whose loop loads one place until it changes. */
START_TEST(test_waits)
{
    static const struct {
        const char *body;
        bool waits;
    } cases[] = {
        {"$ever: ld.acquire.gpu.global.u32 %r4, [%d0]; setp.eq.u32 %p0, %r4, 0; @%p0 bra $ever; ret;", true},
        {"$ever: atom.global.cas.b32 %r4, [%d0], 0, 1; setp.ne.u32 %p0, %r4, 0; @!%p0 bra $done; bra.uni $ever; $done: ret;", true},
        {"$next: ld.global.u32 %r4, [%d0]; add.s64 %d0, %d0, 4; setp.eq.u32 %p0, %r4, 0; @%p0 bra $next; ret;", false}, /* from place to place */
        {"mov.u32 %r5, 0; $next: ld.global.u32 %r4, [%d0]; add.s32 %r5, %r5, 1; setp.ne.u32 %p0, %r5, 9; @%p0 bra $next; ret;", false}, /* nine times */
        {"$next: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r11], %r12; @!%p0 bra $next; ret;", false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_strdup_printf(".version 8.5\n.entry k(.param .u64 a)\n{\n.reg .pred %%p<3>;\n.reg .b32 %%r<20>;\n.reg .b64 %%d<3>;\n"
                                                "ld.param.u64 %%d0, [a];\n%s\n}\n",
                                                cases[i].body);
        PtxKernel *kernel = ptx_kernel_new(text, "k");
        ck_assert_msg(kernel && kernel->waits == cases[i].waits, "%s", cases[i].body);
        ptx_kernel_free(kernel);
    }
}
END_TEST

/* What accesses cost: each of a warp one, with a wavefront for each line of global memory, word of a bank, or word of a lane's own. */
START_TEST(test_wavefronts)
{
    static const char declared[] = ".shared .align 16 .b8 kept[32768];",
                      address[] = "mov.u32 %r10, kept; mul.lo.s32 %r11, %r0, {}; add.s32 %r11, %r10, %r11; mul.wide.u32 %d4, %r0, {}; add.s64 %d4, %d0, %d4;\n"
                                  ".local .align 16 .b8 own[64];\n";
    static const struct {
        const char *access;
        unsigned apart, wavefronts; /* bytes from one lane to the next */
    } cases[] = {
        {"ld.global.f32 %f0, [%d4];", 4, 2}, /* L1 takes two clocks */
        {"st.global.f32 [%d4], %f0;", 4, 1},
        {"ld.global.v2.f32 {%f0,%f1}, [%d4+4];", 8, 3},
        {"ld.global.f32 %f0, [%d4];", 0, 2},
        {"ld.global.f32 %f0, [%d4];", 256, 32},
        {"ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [%d4];", 16, 4},
        {"st.global.f32 [%d4], %f0;", 64, 16},
        {"ld.shared.f32 %f0, [%r11];", 4, 1},
        {"ld.shared.f32 %f0, [%r11];", 0, 1},
        {"ld.shared.f32 %f0, [%r11];", 8, 2},
        {"st.shared.f32 [%r11], %f0;", 128, 32},
        {"ld.shared.f32 %f0, [%r11];", 132, 1},
        {"ld.shared.u8 %r12, [%r11];", 1, 1},
        {"ld.shared.v2.f32 {%f0,%f1}, [%r11];", 8, 2},
        {"ld.shared.v4.f32 {%f0,%f1,%f2,%f3}, [%r11];", 16, 4},
        {"ld.shared.v4.f32 {%f0,%f1,%f2,%f3}, [%r11];", 32, 8}, /* each quarter of a warp has two words of every other four banks */
        {"ld.shared.v4.f32 {%f0,%f1,%f2,%f3}, [%r11];", 0, 2},  /* pairs of lanes ask for the same: two quarters at once */
        {"ld.shared.v4.f32 {%f0,%f1,%f2,%f3}, [%r11+4096];", 128, 32},
        {"st.local.f32 [own], %f0;", 4, 1},
        {"st.local.v4.f32 [own], {%f0,%f1,%f2,%f3};", 4, 4},
        {"atom.global.add.u32 %r12, [%d4], 1;", 128, 32},
        {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12,%r13,%r14,%r15}, [%r11];", 16, 4},
        {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12,%r13,%r14,%r15}, [%r11];", 128, 32}, /* eight rows of a matrix in the same banks */
        {"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r12,%r13}, [%r11];", 16, 2},
        {"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r11], {%r12,%r13,%r14,%r15};", 144, 4},
        {"cp.async.cg.shared.global [%r11], [%d4], 16;", 16, 8}, /* four lines, and four quarters of a warp */
        {"cp.async.cg.shared.global [%r11], [%d4], 16;", 128, 64},
        {"red.shared.add.u32 [%r11], 1;", 0, 1}, /* counted at once */
        {"red.shared.add.u32 [%r11], %r0;", 0, 32},
        {"red.shared.add.u32 [%r11], %r0;", 128, 32},
        {"red.shared.add.u32 [%r11], %r0;", 4, 1},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *apart = g_strdup_printf("%u", cases[i].apart);
        g_auto(GStrv) parts = g_strsplit(address, "{}", -1);
        g_autofree char *where = g_strjoinv(apart, parts), *body = g_strconcat(where, cases[i].access, "\nret;", NULL);
        PtxMoves found;
        ck_assert_msg(moves(declared, body, &(Launch){{3}, {64}, {GIB, 2 * GIB}, 0}, &found), "%s", body);
        ck_assert_msg(found.accesses == 6 && found.wavefronts == 6 * cases[i].wavefronts, "%s: %" PRIu64 " accesses, %" PRIu64 " wavefronts", body,
                      found.accesses, found.wavefronts);
    }
    PtxMoves found; /* Stores go to L2 each by itself, loads once a block. */
    ck_assert(moves("",
                    "mul.wide.u32 %d4, %r0, 64; add.s64 %d4, %d0, %d4; st.global.f32 [%d4], %f0; st.global.f32 [%d4+4], %f1;\n"
                    "ld.global.f32 %f2, [%d4+8]; ld.global.f32 %f3, [%d4+12]; ret;",
                    &(Launch){{2}, {64}, {GIB}, 0}, &found));
    ck_assert_uint_eq(found.fetched, (uint64_t)2 * 64 * (2 * 32 + 32));
}
END_TEST

/* Atomics: clocks of L2's units that do them, all together and of the one that has most; turns at a word of shared memory, which what a block waits for has. */
START_TEST(test_atomics)
{
    static const char lanes[] = "mul.wide.u32 %d4, %r0, 4; add.s64 %d4, %d0, %d4; mul.wide.u32 %d5, %r0, 32; add.s64 %d5, %d0, %d5; and.b32 %r5, %r0, 0;\n"
                                "mul.wide.u32 %d6, %r5, 4; add.s64 %d6, %d0, %d6; ld.global.u32 %r6, [%d1]; mul.wide.u32 %d7, %r6, 4; add.s64 %d7, %d2, %d7;\n"
                                "mul.wide.u32 %d8, %r1, 512; add.s64 %d8, %d0, %d8;\n";
    static const struct {
        const char *atomic;
        uint64_t atomics, crowded, turns;
    } cases[] = {
        {"red.global.add.u32 [%d0], 1;", 6, 6, 0},                    /* by the code one place for all lanes: once a warp */
        {"atom.global.max.u32 %r7, [%d0+4], %r0;", 6, 6, 0},          /* */
        {"atom.global.exch.b32 %r7, [%d0], %r0;", 6 * 32, 6 * 32, 0}, /* each lane */
        {"red.global.add.u64 [%d0], %d4;", 6 * 32, 6 * 32, 0},        /* */
        {"red.global.add.f32 [%d0], %f0;", 6 * 95, 6 * 95, 0},        /* two clocks and three for each other lane */
        {"red.global.add.u32 [%d6], 1;", 6 * 32, 6 * 32, 0},          /* one place, but not by the code */
        {"red.global.add.u32 [%d4], 1;", 3 * 8, 3 * 8, 0},            /* a sector each clock; all lie in one unit's */
        {"red.global.add.f32 [%d4], %f0;", 2 * 3 * 8, 2 * 3 * 8, 0},  /* or each second */
        {"red.global.add.u32 [%d5], 1;", 3 * 64, 3 * 16, 0},          /* four units */
        {"red.global.add.f32 [%d8], %f0;", 6 * 95, 2 * 95, 0},        /* each block has one of its own */
        {"red.shared.add.f32 [kept], %f0;", 0, 0, 3 * 64},            /* all lanes of a block */
        {"red.shared.add.f64 [kept], %d0;", 0, 0, 3 * 64},            /* */
        {"red.shared.add.u32 [kept], %r0;", 0, 0, 0},                 /* no loop */
        {"st.global.u32 [%d4], %r0;", 0, 0, 0},                       /* whole sectors */
        {"st.global.u32 [%d5], %r0;", 6 * 32 * 2, 0, 0},              /* parts of them */
        {"st.global.u32 [%d4+16], %r0;", 6 * 2 * 2, 0, 0},            /* the first and the last */
        {"@%p0 red.global.add.u32 [%d7], 1;", 0, 0, 0},               /* nobody does */
    };
    enum { TURN = 70 };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *body = g_strconcat(lanes, cases[i].atomic, "\nret;", NULL), *without = g_strconcat(lanes, "ret;", NULL);
        PtxMoves found, other;
        Launch launch = {{3}, {64}, {GIB, 2 * GIB, 3 * GIB}, 0};
        ck_assert_msg(moves(".shared .align 16 .b8 kept[4096];", body, &launch, &found), "%s", body);
        ck_assert(moves("", without, &launch, &other));
        ck_assert_msg(found.atomics == cases[i].atomics && found.crowded == cases[i].crowded, "%s: %" PRIu64 ", %" PRIu64, cases[i].atomic, found.atomics,
                      found.crowded);
        ck_assert_msg(found.cycles >= TURN * cases[i].turns && (cases[i].turns > 0 || found.cycles < TURN * 64), "%s: %" PRIu64 " cycles", cases[i].atomic,
                      found.cycles);
    }
}
END_TEST

/* Places that hang on what memory holds, which is not known, are spread over the array: of each lane, or of rows whole. */
START_TEST(test_spread_atomics)
{
    static const char counters[] =
        "mul.wide.u32 %d4, %r3, 4; add.s64 %d4, %d0, %d4; ld.global.u32 %r4, [%d4]; mul.wide.u32 %d5, %r4, 4; add.s64 %d5, %d1, %d5;\n"
        "red.global.add.u32 [%d5], 1; ret;";
    static const char rows[] = "mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d0, %d4; ld.global.u32 %r4, [%d4]; mul.wide.u32 %d5, %r4, 256; add.s64 %d5, %d1, %d5;\n"
                               "mul.wide.u32 %d6, %r0, 4; add.s64 %d5, %d5, %d6; red.global.add.f32 [%d5], %f0; ret;";
    PtxMoves found;
    ck_assert(moves("", counters, &(Launch){{16}, {256}, {GIB, 2 * GIB}, 0}, &found));
    ck_assert_uint_ge(found.atomics, 16 * 256 - 16); /* of 4096 lanes hardly two of a warp meet in the array */
    ck_assert_uint_le(found.crowded, 32);
    ck_assert_uint_ge(found.wavefronts, 16 * 8 * (2 + 31));
    ck_assert(moves("", rows, &(Launch){{16}, {64}, {GIB, 2 * GIB}, 0}, &found));
    ck_assert_uint_eq(found.atomics, 16 * 2 * 2 * 4);
}
END_TEST

/* Loads of shared memory that machine code joins: of four numbers side by side, of two, and in a loop that it unrolls; not across what writes there, nor where
 * they do not begin at a multiple of the whole. */
START_TEST(test_joined_loads)
{
    static const struct {
        const char *body;
        unsigned accesses;
    } cases[] = {
        {"ld.shared.f32 %f0, [%r11+4]; ld.shared.f32 %f1, [%r11+8]; ld.shared.f32 %f2, [%r11]; ld.shared.f32 %f3, [%r11+12];", 1},
        {"ld.shared.f32 %f0, [%r11]; ld.shared.f32 %f1, [%r11+4]; ld.shared.f32 %f2, [%r11+8];", 2},
        {"ld.shared.f32 %f0, [%r11+4]; ld.shared.f32 %f1, [%r11+8];", 2},
        {"ld.shared.f32 %f0, [%r11]; st.shared.f32 [%r11+64], %f0; ld.shared.f32 %f1, [%r11+4];", 3},
        {"ld.shared.f64 %f0, [%r11]; ld.shared.f64 %f1, [%r11+8]; ld.shared.f64 %f2, [%r11+16]; ld.shared.f64 %f3, [%r11+24];", 2},
        {"ld.shared.u16 %r12, [%r11]; ld.shared.u16 %r13, [%r11+2]; ld.shared.u16 %r14, [%r11+4]; ld.shared.u16 %r15, [%r11+6];", 1},
        {"add.s32 %r11, %r11, 4; ld.shared.f32 %f0, [%r11]; ld.shared.f32 %f1, [%r11+4]; ld.shared.f32 %f2, [%r11+8]; ld.shared.f32 %f3, [%r11+12];", 4},
        {"mov.u32 %r12, 0; $next: ld.shared.f32 %f0, [%r11]; add.s32 %r11, %r11, 4; add.s32 %r12, %r12, 1; setp.ne.s32 %p0, %r12, 16; @%p0 bra $next;", 4},
        {"mov.u32 %r12, 0; $next: ld.shared.f32 %f0, [%r11]; add.s32 %r11, %r11, 128; add.s32 %r12, %r12, 1; setp.ne.s32 %p0, %r12, 16; @%p0 bra $next;", 16},
        {"mov.u32 %r12, 0; $next: ld.shared.f32 %f0, [%r11]; add.s32 %r11, %r11, 4; add.s32 %r12, %r12, 1; setp.lt.s32 %p0, %r12, %r2; @%p0 bra $next;", 32},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *body = g_strconcat("mov.u32 %r10, kept; mul.lo.s32 %r11, %r0, 16; add.s32 %r11, %r10, %r11;\n", cases[i].body, "\nret;", NULL);
        PtxMoves found;
        ck_assert_msg(moves(".shared .align 16 .b8 kept[32768];", body, &(Launch){{1}, {32}, {GIB}, 0}, &found), "%s", body);
        ck_assert_msg(found.accesses == cases[i].accesses, "%s: %" PRIu64, body, found.accesses);
    }
}
END_TEST

/* What the slowest warp of a block waits for: what hangs on what, trips to memory one after another, and others at a barrier. */
START_TEST(test_paths)
{
    static const struct {
        const char *body;
        uint64_t trips, least, most, barriers; /* of a block: cycles */
    } cases[] = {
        {"ld.global.f32 %f0, [%d0]; ld.global.f32 %f1, [%d0+256]; add.f32 %f0, %f0, %f1; ret;", 1, 4, 30, 0},
        {"mul.f32 %f0, %f0, %f0; mul.f32 %f0, %f0, %f0; mul.f32 %f0, %f0, %f0; mul.f32 %f0, %f0, %f0; ret;", 0, 16, 30, 0},
        {"mul.f32 %f1, %f0, %f0; mul.f32 %f2, %f0, %f0; mul.f32 %f3, %f0, %f0; mul.f32 %f4, %f0, %f0; ret;", 0, 4, 15, 0},
        /* Each number says where the next is: known, step 0, so that only the first is new to the block. */
        {"mov.u32 %r9, 0; $next: ld.global.u32 %r4, [%d1]; mul.wide.u32 %d4, %r4, 4; add.s64 %d1, %d1, %d4; add.s32 %r9, %r9, 1; setp.ne.s32 %p0, %r9, 10; "
         "@%p0 "
         "bra $next; ret;",
         1, 9 * 40, 9 * 40 + 10 * 30, 0},
        /* What is loaded under a condition is no block by itself: both at once. */
        {"setp.lt.s32 %p0, %r0, 90; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; @!%p0 bra $a; ld.global.f32 %f0, [%d0]; $a: @!%p0 bra $b; ld.global.f32 %f1, "
         "[%d0+4096]; $b: add.f32 %f0, %f0, %f1; st.global.f32 [%d0], %f0; ret;",
         1, 4, 60, 0},
        /* Ten rows, a trip each. */
        {"mov.u32 %r9, 0; $next: ld.global.f32 %f0, [%d0]; add.f32 %f1, %f1, %f0; add.s64 %d0, %d0, 4096; add.s32 %r9, %r9, 1; setp.ne.s32 %p0, %r9, 10; @%p0 "
         "bra "
         "$next; ret;",
         10, 40, 250, 0},
        /* One warp fetches, the others wait for it; then all load what it left. */
        {"setp.ge.s32 %p0, %r0, 32; @%p0 bra $wait; ld.global.u64 %d4, [%d1]; st.shared.u64 [kept], %d4; $wait: bar.sync 0; ld.shared.u64 %d5, [kept]; add.s64 "
         "%d6, %d0, %d5; ld.global.f32 %f0, [%d6]; bar.sync 0; ret;",
         2, 29, 90, 2},
        {"cp.async.cg.shared.global [%r10], [%d0], 16; cp.async.wait_group 0; ld.shared.f32 %f0, [%r10]; ret;", 1, 29, 50, 0},
        /* What is issued behind a barrier comes after what is waited for before it. */
        {"ld.global.f32 %f0, [%d0]; st.shared.f32 [kept], %f0; bar.sync 0; mul.f32 %f1, %f2, %f2; mul.f32 %f3, %f2, %f2; mul.f32 %f4, %f2, %f2; mul.f32 %f5, "
         "%f2, %f2; mul.f32 %f6, %f2, %f2; mul.f32 %f7, %f2, %f2; mul.f32 %f8, %f2, %f2; ret;",
         1, 7, 30, 1},
        {"cp.async.cg.shared.global [%r10], [%d0], 16; cp.async.wait_group 1; ld.shared.f32 %f0, [%r10]; ret;", 0, 29, 50, 0},
    };
    step = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        PtxMoves found;
        ck_assert_msg(moves(".shared .align 16 .b8 kept[4096];", cases[i].body, &(Launch){{3}, {96}, {GIB, 4 * GIB}, 0}, &found), "%s", cases[i].body);
        ck_assert_msg(found.trips == 3 * cases[i].trips && found.barriers == 3 * cases[i].barriers, "%s: %" PRIu64 " trips, %" PRIu64 " barriers",
                      cases[i].body, found.trips, found.barriers);
        ck_assert_msg(found.cycles >= 3 * cases[i].least && found.cycles <= 3 * cases[i].most, "%s: %" PRIu64 " cycles", cases[i].body, found.cycles);
    }
}
END_TEST

static bool peek_numbers(uint64_t address, unsigned bytes, uint64_t *ret)
{
    (void)address, (void)bytes;
    *ret = 0;
    return true;
}

/* An instruction of two numbers, a and b, gives the offset of what is read. */
static uint64_t offset_of(const char *instruction, uint64_t a, uint64_t b)
{
    g_autofree char *text =
        g_strdup_printf(".entry k(.param .u64 a, .param .u64 b, .param .u64 c) {\n.reg .b64 %%d<9>; .reg .b32 %%r<9>; .reg .pred %%p<3>; .reg .f32 %%f<3>;\n"
                        "ld.param.u64 %%d0, [a]; ld.param.u64 %%d1, [b]; ld.param.u64 %%d2, [c]; cvt.u32.u64 %%r1, %%d1; cvt.u32.u64 %%r2, %%d2;\n"
                        "%s\nadd.s64 %%d4, %%d0, %%d3; ld.global.u8 %%r8, [%%d4]; ret; }",
                        instruction);
    PtxKernel *kernel = ptx_kernel_new(text, "k");
    ck_assert_msg(kernel != NULL, "%s", instruction);
    const uint64_t base = 2 * GIB, *parameters[] = {&base, &a, &b};
    const uint32_t bytes[] = {8, 8, 8};
    PtxLaunch launch = {{1, 1, 1}, {1, 1, 1}, 0, 100000, 100000, (void *const *)(uintptr_t)parameters, bytes, 3, NULL, peek_numbers, end_of};
    PtxMoves found;
    ck_assert_msg(ptx_moves(kernel, &launch, &found) && found.n == 1, "%s", instruction);
    ptx_kernel_free(kernel);
    return found.moves[0].address - base;
}

START_TEST(test_arithmetic)
{
    static const struct {
        const char *instruction;
        uint64_t a, b, result;
    } cases[] = {
        {"mul.hi.u32 %r3, %r1, %r2; cvt.u64.u32 %d3, %r3;", 0x80000000, 6, 3},
        {"mul.hi.s32 %r3, %r1, %r2; neg.s32 %r3, %r3; cvt.u64.u32 %d3, %r3;", 0x80000000, 6, 3},
        {"mul.wide.s32 %d3, %r1, %r2;", 0xfffffffe, 0xfffffffd, 6},
        {"mad.wide.u32 %d3, %r1, %r2, 7;", 5, 6, 37},
        {"div.s32 %r3, %r1, %r2; cvt.s64.s32 %d3, %r3; abs.s64 %d3, %d3;", 0xffffffff - 20, 4, 5},
        {"rem.u64 %d3, %d1, %d2;", 1000, 7, 6},
        {"div.u64 %d3, %d1, %d2;", 1000, 0, 0},
        {"min.s32 %r3, %r1, %r2; add.s32 %r3, %r3, 9; cvt.u64.u32 %d3, %r3;", 0xffffffff, 5, 8},
        {"shl.b32 %r3, %r1, %r2; cvt.u64.u32 %d3, %r3;", 3, 4, 48},
        {"shr.s32 %r3, %r1, %r2; add.s32 %r3, %r3, 4; cvt.u64.u32 %d3, %r3;", 0x80000000, 31, 3},
        {"shr.u32 %r3, %r1, %r2; cvt.u64.u32 %d3, %r3;", 0x80000000, 40, 0},
        {"shf.l.wrap.b32 %r3, %r1, %r2, 4; cvt.u64.u32 %d3, %r3;", 0xf0000000, 1, 31},
        {"shf.r.clamp.b32 %r3, %r1, %r2, 28; cvt.u64.u32 %d3, %r3;", 0xf0000000, 1, 31},
        {"bfe.u32 %r3, %r1, 4, 8; cvt.u64.u32 %d3, %r3;", 0xabcd, 0, 0xbc},
        {"bfi.b32 %r3, %r1, %r2, 4, 8; cvt.u64.u32 %d3, %r3;", 0x12, 0xf00f, 0xf12f},
        {"bfind.u32 %r3, %r1; cvt.u64.u32 %d3, %r3;", 0x100, 0, 8},
        {"clz.b32 %r3, %r1; cvt.u64.u32 %d3, %r3;", 0x100, 0, 23},
        {"popc.b64 %r3, %d1; cvt.u64.u32 %d3, %r3;", 0xff00ff, 0, 16},
        {"brev.b32 %r3, %r1; shr.u32 %r3, %r3, 28; cvt.u64.u32 %d3, %r3;", 3, 0, 12},
        {"prmt.b32 %r3, %r1, %r2, 0x5410; and.b32 %r3, %r3, 0xffffff; cvt.u64.u32 %d3, %r3;", 0x11223344, 0x5566, 0x663344},
        {"lop3.b32 %r3, %r1, %r2, 0xf, 0x96; cvt.u64.u32 %d3, %r3;", 0x33, 0x55, 0x69},
        {"setp.lo.u32 %p0, %r1, %r2; selp.b64 %d3, 11, 22, %p0;", 1, 0xffffffff, 11},
        {"setp.lt.s32 %p0, %r1, %r2; selp.b64 %d3, 11, 22, %p0;", 1, 0xffffffff, 22},
        {"setp.eq.s32 %p1, %r1, 1; setp.lt.and.s32 %p0|%p2, %r1, %r2, !%p1; selp.b64 %d3, 11, 22, %p0;", 1, 5, 22},
        {"set.eq.u32.u32 %r3, %r1, %r2; and.b32 %r3, %r3, 77; cvt.u64.u32 %d3, %r3;", 5, 5, 77},
        {"slct.u32.s32 %r3, %r1, 4, %r2; cvt.u64.u32 %d3, %r3;", 9, 0x80000000, 4},
        {"cvt.s64.s32 %d3, %r1; neg.s64 %d3, %d3;", 0xfffffff0, 0, 16},
        {"cvt.u64.u8 %d3, %r1;", 0x1234, 0, 0x34},
        {"cvt.rn.f32.u32 %f0, %r1; mul.f32 %f0, %f0, 0f3F000000; cvt.rzi.u32.f32 %r3, %f0; cvt.u64.u32 %d3, %r3;", 15, 0, 7},
        {"cvt.rn.f32.u32 %f0, %r1; rcp.approx.f32 %f1, %f0; fma.rn.f32 %f1, %f1, 0f42800000, %f0; cvt.rni.u64.f32 %d3, %f1;", 8, 0, 16},
        {"not.b32 %r3, %r1; cnot.b32 %r4, %r2; add.u32 %r3, %r3, %r4; cvt.u64.u32 %d3, %r3;", 0xfffffff0, 0, 16},
        {"activemask.b32 %r3; add.u32 %r3, %r3, %r1; cvt.u64.u32 %d3, %r3;", 4, 0, 5},
        {"redux.sync.max.u32 %r3, %r1, -1; cvt.u64.u32 %d3, %r3;", 44, 0, 44},
        {"mov.u32 %r3, %nctaid.x; mov.u32 %r4, WARP_SZ; mad.lo.u32 %r3, %r3, %r4, %r1; cvt.u64.u32 %d3, %r3;", 4, 0, 36},
        {"mov.b32 %r3, %clock; cvt.u64.u32 %d3, %r3;", 4, 0, 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        ck_assert_msg(offset_of(cases[i].instruction, cases[i].a, cases[i].b) == cases[i].result, "%s: %" PRIx64, cases[i].instruction,
                      offset_of(cases[i].instruction, cases[i].a, cases[i].b));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ptx");
    TCase *tcase = tcase_create("ptx");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_streams);
    tcase_add_test(tcase, test_loops);
    tcase_add_test(tcase, test_shared_between_blocks);
    tcase_add_test(tcase, test_neighbours);
    tcase_add_test(tcase, test_gathers);
    tcase_add_test(tcase, test_memories);
    tcase_add_test(tcase, test_warps);
    tcase_add_test(tcase, test_tiles);
    tcase_add_test(tcase, test_tensors);
    tcase_add_test(tcase, test_units);
    tcase_add_test(tcase, test_counters);
    tcase_add_test(tcase, test_untold);
    tcase_add_test(tcase, test_waits);
    tcase_add_test(tcase, test_wavefronts);
    tcase_add_test(tcase, test_atomics);
    tcase_add_test(tcase, test_spread_atomics);
    tcase_add_test(tcase, test_joined_loads);
    tcase_add_test(tcase, test_paths);
    tcase_add_test(tcase, test_arithmetic);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
