/* The trace: invariants at finish, the .ech file both ways, lifetimes. */
#include "sim/base/error.h"
#include "sim/trace/file.h"
#include "sim/trace/lifetime.h"
#include "sim/trace/step.h"
#include "sim/trace/trace.h"
#include "tests/support/support.h"

#include <check.h>

typedef struct {
    EchTraceBuilder *builder;
    EchId hbm, host, core, dma;
} Fixture;

static Fixture fixture(void)
{
    Fixture f = {.builder = ech_trace_builder_new("test")};
    f.hbm = ech_trace_builder_memory(f.builder, "hbm");
    f.host = ech_trace_builder_memory(f.builder, "host");
    f.core = ech_trace_builder_queue(f.builder, "core", ECH_QUEUE_COMPUTE, 0);
    f.dma = ech_trace_builder_queue(f.builder, "dma to_device", ECH_QUEUE_COPY, 0);
    return f;
}

static EchId add_buffer(Fixture *f, const char *name, EchBytes bytes, bool resident)
{
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(f->builder, name, -1);
    b.memory = f->hbm;
    b.bytes = bytes;
    b.resident = resident;
    return ech_trace_builder_buffer(f->builder, b);
}

static EchId add_op(Fixture *f, EchOpKind kind, EchId target)
{
    EchOp op = ech_op_init(kind);
    op.queue = f->core;
    op.target = target;
    return ech_trace_builder_op(f->builder, op);
}

/* A loop that copies in, computes and frees, with every kind of field somewhere. */
static EchTrace *sample(void)
{
    Fixture f = fixture();
    EchId parameter = add_buffer(&f, "param \"0\"\n\\", 8192, true);
    EchId temporary = add_buffer(&f, "temp", 4096, false);
    EchBuffer alias = ech_buffer_init();
    alias.memory = f.hbm;
    alias.bytes = 1024;
    alias.alias_of = parameter;
    alias.alias_offset = 512;
    alias.shape = ech_trace_builder_string(f.builder, "f32[8,128]{1,0:T(8,128)}", -1);
    alias.dtype = ECH_DTYPE_F32;
    alias.role = ECH_ROLE_PARAMETER;
    EchId view = ech_trace_builder_buffer(f.builder, alias);
    EchOp loop = ech_op_init(ECH_OP_LOOP);
    loop.queue = f.core;
    loop.target = 4;
    loop.bytes = 10;
    loop.bytes_origin = ECH_INFERRED;
    ech_trace_builder_op(f.builder, loop);
    ech_trace_builder_peek_buffer(f.builder, temporary)->loop = 0;
    add_op(&f, ECH_OP_ALLOC, temporary);
    EchOp copy = ech_op_init(ECH_OP_COPY);
    copy.queue = f.dma;
    copy.memory_from = f.host;
    copy.memory_to = f.hbm;
    copy.bytes = 1024;
    copy.bytes_origin = ECH_KNOWN;
    copy.recorded = (EchRecorded){-5, 1000};
    EchId copied = ech_trace_builder_op(f.builder, copy);
    ech_trace_builder_dep(f.builder, copied + 1, 1);
    EchId kernel = add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(f.builder, kernel)->estimate = 77;
    ech_trace_builder_peek_op(f.builder, kernel)->estimate_origin = ECH_KNOWN;
    ech_trace_builder_peek_op(f.builder, kernel)->launch = ech_trace_builder_string(f.builder, "grid=96 block=128", -1);
    ech_trace_builder_use(f.builder, view, ECH_READ, 1024, ECH_PATTERN_RANDOM, ECH_INFERRED);
    ech_trace_builder_use(f.builder, temporary, ECH_WRITE, 4096, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_work(f.builder, ECH_WORK_MATRIX, ECH_DTYPE_BF16, 1 << 20, ECH_KNOWN);
    ech_trace_builder_dep(f.builder, copied, 0);
    add_op(&f, ECH_OP_FREE, temporary);
    ech_trace_builder_set_property(f.builder, "module", "jit f");
    GError *error = NULL;
    EchTrace *trace = ech_trace_builder_finish(f.builder, &error);
    if (!trace)
        ck_abort_msg("%s", error->message);
    ech_trace_builder_free(f.builder);
    return trace;
}

START_TEST(file_round_trip)
{
    g_autoptr(EchTrace) trace = sample();
    g_autoptr(GString) text = ech_trace_file_print(trace);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) again = ech_trace_file_read(text->str, text->len, "t.ech", &error);
    ck_assert_ok(again != NULL, error);
    g_autoptr(GString) text2 = ech_trace_file_print(again);
    ck_assert_str_eq(text->str, text2->str);
    ck_assert_uint_eq(ech_trace_hash(trace), ech_trace_hash(again));
    ck_assert_str_eq(ech_trace_string(again, ech_trace_buffers(again)[0].name), "param \"0\"\n\\");
    ck_assert_int_eq(ech_trace_ops(again)[2].recorded.start, -5);
    ck_assert_uint_eq(ech_trace_deps(again)[0].distance, 1);
    ck_assert_str_eq(ech_trace_get_property(again, "module"), "jit f");
}
END_TEST

/* As a checkout on Windows leaves it. */
START_TEST(file_with_windows_line_ends)
{
    g_autoptr(EchTrace) trace = sample();
    g_autoptr(GString) text = ech_trace_file_print(trace);
    g_string_replace(text, "\n", "\r\n", 0);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) again = ech_trace_file_read(text->str, text->len, "t.ech", &error);
    ck_assert_ok(again != NULL, error);
    ck_assert_uint_eq(ech_trace_hash(trace), ech_trace_hash(again));
}
END_TEST

START_TEST(copy_of_a_trace_is_equal)
{
    g_autoptr(EchTrace) trace = sample();
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    g_autoptr(EchTrace) copy = ech_trace_builder_finish(builder, NULL);
    ck_assert_uint_eq(ech_trace_hash(trace), ech_trace_hash(copy));
}
END_TEST

/* Every cut of the text, and every byte damaged in turn, is read or refused, never a crash; refusals carry place and expectation. */
START_TEST(file_damage_is_refused)
{
    g_autoptr(EchTrace) trace = sample();
    g_autoptr(GString) text = ech_trace_file_print(trace);
    for (size_t n = 0; n < text->len; n++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *cut = g_memdup2(text->str, n ? n : 1);
        EchTrace *got = ech_trace_file_read(cut, n, "t.ech", &error);
        ck_assert_ptr_null(got);
        ck_assert(g_str_has_prefix(error->message, "t.ech:"));
    }
    static const char damages[] = "0z \n\"$-\xff";
    for (size_t n = 0; n < text->len; n++) {
        for (size_t d = 0; d < sizeof damages; d++) {
            g_autoptr(GError) error = NULL;
            g_autofree char *bad = g_memdup2(text->str, text->len);
            bad[n] = damages[d];
            g_autoptr(EchTrace) got = ech_trace_file_read(bad, text->len, "t.ech", &error);
            ck_assert((got == NULL) == (error != NULL));
        }
    }
}
END_TEST

static void expect_refusal(Fixture *f, const char *invariant)
{
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(f->builder, &error);
    ck_assert_msg(trace == NULL, "accepted against %s", invariant);
    ck_assert_msg(g_str_has_prefix(error->message, invariant), "%s: %s", invariant, error->message);
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_VERIFY));
    ech_trace_builder_free(f->builder);
}

/* What stands for a product is one of three, and has an element type. */
START_TEST(file_products)
{
    g_autoptr(GError) none = NULL;
    static const char odd[] = "echelon-trace 1 \"t\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\ncompute 0 \"core\"\nbuffers 1\n"
                              "b \"a\" m=0 bytes=4 product=1:f33\nops 0\n";
    ck_assert_ptr_null(ech_trace_file_read(odd, strlen(odd), "t.ech", &none));
    for (int product = 0; product <= 4; product++) {
        GError *error = NULL;
        g_autofree char *text = g_strdup_printf("echelon-trace 1 \"t\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\ncompute 0 \"core\"\nbuffers 1\n"
                                                "b \"a\" m=0 bytes=4 product=%d\nops 0\n",
                                                product);
        g_autoptr(EchTrace) got = ech_trace_file_read(text, strlen(text), "t.ech", &error);
        if (product >= ECH_PRODUCT_RESULT && product < ECH_N_PRODUCTS) {
            ck_assert_ok(got != NULL, error);
            ck_assert_uint_eq(ech_trace_buffers(got)[0].product, (unsigned)product);
        } else {
            ck_assert(got == NULL && strstr(error->message, "(1 to 3)") != NULL);
            g_error_free(error);
        }
    }
}
END_TEST

START_TEST(invariants_hold)
{
    Fixture f = fixture();
    add_op(&f, ECH_OP_ALLOC, 7);
    expect_refusal(&f, "V1");

    f = fixture();
    add_op(&f, ECH_OP_ALLOC, add_buffer(&f, "b", 64, false) + 1);
    expect_refusal(&f, "V1");

    f = fixture();
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_use(f.builder, add_buffer(&f, "b", 64, true) + 1, ECH_READ, 64, ECH_PATTERN_STREAM, ECH_KNOWN);
    expect_refusal(&f, "V1");

    /* Behind the last string. */
    f = fixture();
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(f.builder, 0)->name = ech_trace_builder_string(f.builder, "last", -1) + 1;
    expect_refusal(&f, "V1");

    f = fixture();
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(f.builder, 0)->first_work = 1;
    expect_refusal(&f, "V2");

    f = fixture();
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_dep(f.builder, 0, 0);
    expect_refusal(&f, "V3");

    f = fixture();
    EchId loop = add_op(&f, ECH_OP_LOOP, 2);
    ech_trace_builder_peek_op(f.builder, loop)->bytes = 2;
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    expect_refusal(&f, "V4");

    f = fixture();
    loop = add_op(&f, ECH_OP_LOOP, 1);
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_dep(f.builder, 1, 0);
    expect_refusal(&f, "V5");

    f = fixture();
    EchId b = add_buffer(&f, "b", 64, false);
    add_op(&f, ECH_OP_ALLOC, b);
    add_op(&f, ECH_OP_ALLOC, b);
    expect_refusal(&f, "V6");

    f = fixture();
    b = add_buffer(&f, "b", 64, false);
    loop = add_op(&f, ECH_OP_LOOP, 1);
    add_op(&f, ECH_OP_ALLOC, b);
    expect_refusal(&f, "V6");

    f = fixture();
    b = add_buffer(&f, "b", 64, true);
    EchBuffer alias = ech_buffer_init();
    alias.memory = f.hbm;
    alias.alias_of = b;
    alias.alias_offset = 60;
    alias.bytes = 5;
    ech_trace_builder_buffer(f.builder, alias);
    expect_refusal(&f, "V7");

    f = fixture();
    b = add_buffer(&f, "b", 64, false);
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_use(f.builder, b, ECH_READ, 64, ECH_PATTERN_STREAM, ECH_KNOWN);
    expect_refusal(&f, "V8");

    f = fixture();
    add_op(&f, ECH_OP_COPY, ECH_NONE);
    expect_refusal(&f, "V9");

    f = fixture();
    EchId op = add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(f.builder, op)->recorded.duration = -7;
    expect_refusal(&f, "V10");

    f = fixture();
    op = add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(f.builder, op)->estimate = -7;
    expect_refusal(&f, "V10");

    f = fixture();
    add_op(&f, ECH_OP_WAIT, 3);
    expect_refusal(&f, "V11");

    f = fixture();
    loop = add_op(&f, ECH_OP_LOOP, 2);
    ech_trace_builder_peek_op(f.builder, loop)->bytes = UINT64_C(1) << 40;
    loop = add_op(&f, ECH_OP_LOOP, 1);
    ech_trace_builder_peek_op(f.builder, loop)->bytes = UINT64_C(1) << 40;
    add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    expect_refusal(&f, "V12");

    f = fixture();
    b = add_buffer(&f, "b", 64, false);
    ech_trace_builder_peek_buffer(f.builder, b)->offset = UINT64_MAX - 1;
    expect_refusal(&f, "V13");

    f = fixture();
    b = add_buffer(&f, "b", 64, false);
    ech_trace_builder_peek_buffer(f.builder, b)->loop = 0;
    loop = add_op(&f, ECH_OP_LOOP, 0);
    add_op(&f, ECH_OP_ALLOC, b);
    expect_refusal(&f, "V14");

    /* Used by the LOOP itself, or by the op behind its body. */
    for (EchId user = 0; user <= 3; user += 3) {
        f = fixture();
        b = add_buffer(&f, "b", 64, true);
        ech_trace_builder_peek_buffer(f.builder, b)->loop = 0;
        for (EchId i = 0; i < 4; i++) {
            add_op(&f, i == 0 ? ECH_OP_LOOP : ECH_OP_KERNEL, i == 0 ? 2 : ECH_NONE);
            if (i == user)
                ech_trace_builder_use(f.builder, b, ECH_READ, 64, ECH_PATTERN_STREAM, ECH_KNOWN);
        }
        expect_refusal(&f, "V14");
    }

    f = fixture();
    b = add_buffer(&f, "b", 64, true);
    for (unsigned i = 0; i <= ECH_MAX_ALIASES; i++) {
        EchId parent = b;
        b = add_buffer(&f, "b", 64, false);
        ech_trace_builder_peek_buffer(f.builder, b)->alias_of = parent;
    }
    expect_refusal(&f, "V7");

    f = fixture();
    for (unsigned i = 0; i < ECH_MAX_QUEUES; i++)
        ech_trace_builder_queue(f.builder, "q", ECH_QUEUE_COMPUTE, i);
    expect_refusal(&f, "V15");

    f = fixture();
    for (unsigned i = 0; i < ECH_MAX_MEMORIES; i++) {
        g_autofree char *name = g_strdup_printf("hbm:%u", i);
        ech_trace_builder_memory(f.builder, name);
    }
    expect_refusal(&f, "V15");

    for (int i = 0; i < 3; i++) {
        f = fixture();
        EchId parent = add_buffer(&f, "b", 64, true);
        b = add_buffer(&f, "b", 64, true);
        EchBuffer *direct = ech_trace_builder_peek_buffer(f.builder, b);
        direct->direct = 1;
        direct->offset = i == 0 ? 0 : ECH_OFFSET_NONE;
        direct->pool = i == 1 ? direct->name : ECH_NONE;
        direct->alias_of = i == 2 ? parent : ECH_NONE;
        expect_refusal(&f, "V16");
    }
    for (int i = 0; i < 5; i++) {
        f = fixture();
        EchId parent = add_buffer(&f, "b", 64, true);
        b = add_buffer(&f, "b", 64, true);
        EchBuffer *managed = ech_trace_builder_peek_buffer(f.builder, b);
        managed->managed = i == 4 ? ECH_MANAGED_MAPPED : ECH_MANAGED;
        managed->offset = i == 0 ? 0 : ECH_OFFSET_NONE;
        managed->pool = i == 1 ? managed->name : ECH_NONE;
        managed->alias_of = i == 2 ? parent : ECH_NONE;
        managed->direct = i == 3;
        expect_refusal(&f, "V17");
    }
}
END_TEST

/* As many memories, queues, parents and iterations as there may be. */
START_TEST(most_is_not_too_many)
{
    Fixture f = fixture();
    for (unsigned i = 2; i < ECH_MAX_QUEUES; i++)
        ech_trace_builder_queue(f.builder, "q", ECH_QUEUE_COMPUTE, i);
    for (unsigned i = 2; i < ECH_MAX_MEMORIES; i++) {
        g_autofree char *name = g_strdup_printf("hbm:%u", i);
        ech_trace_builder_memory(f.builder, name);
    }
    EchId b = add_buffer(&f, "b", 64, true);
    for (unsigned i = 0; i < ECH_MAX_ALIASES; i++) {
        EchId parent = b;
        b = add_buffer(&f, "b", 64, false);
        ech_trace_builder_peek_buffer(f.builder, b)->alias_of = parent;
    }
    EchId last = add_buffer(&f, "last", 64, true);
    ech_trace_builder_peek_buffer(f.builder, last)->offset = UINT64_MAX - 1 - 64;
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(f.builder, &error);
    ech_trace_builder_free(f.builder);
    ck_assert_ok(trace != NULL, error);
    ck_assert_uint_eq(ech_trace_n_queues(trace), ECH_MAX_QUEUES);
    ck_assert_uint_eq(ech_trace_n_memories(trace), ECH_MAX_MEMORIES);
}
END_TEST

/* A hash tells traces apart by whatever they differ in. */
START_TEST(hashes_tell_traces_apart)
{
    enum { CHANGES = 14 };
    g_autoptr(EchTrace) trace = sample();
    uint64_t hashes[CHANGES];
    for (unsigned i = 0; i < CHANGES; i++) {
        g_autoptr(EchTraceBuilder) b = ech_trace_builder_new_from(trace);
        EchOp *copy = ech_trace_builder_peek_op(b, 2);
        switch (i) {
        case 0: break;
        case 1: copy->bytes++; break;
        case 2: copy->recorded.duration++; break;
        case 3: copy->recorded.start++; break;
        case 4: copy->bytes_origin = ECH_INFERRED; break;
        case 5: copy->name = ech_trace_builder_string(b, "another", -1); break;
        case 6: ech_trace_builder_peek_op(b, 3)->estimate++; break;
        case 7: ech_trace_builder_peek_op(b, 0)->bytes++; break;
        case 8: ech_trace_builder_peek_buffer(b, 0)->bytes++; break;
        case 9: ech_trace_builder_peek_buffer(b, 2)->alias_offset++; break;
        case 10: ech_trace_builder_peek_buffer(b, 2)->role = ECH_ROLE_GRADIENT; break;
        case 11: ech_trace_builder_peek_use(b, 1)->bytes--; break;
        case 12: ech_trace_builder_set_property(b, "module", "jit g"); break;
        default: add_op(&(Fixture){.builder = b}, ECH_OP_MARK, ECH_NONE);
        }
        g_autoptr(GError) error = NULL;
        g_autoptr(EchTrace) changed = ech_trace_builder_finish(b, &error);
        ck_assert_ok(changed != NULL, error);
        hashes[i] = ech_trace_hash(changed);
        for (unsigned k = 0; k < i; k++)
            ck_assert_msg(hashes[i] != hashes[k], "changes %u and %u", k, i);
    }
    ck_assert_uint_eq(hashes[0], ech_trace_hash(trace));
}
END_TEST

/* A key that is there gets the new value; others stay, in their order. */
START_TEST(properties_are_replaced)
{
    g_autoptr(EchTrace) trace = sample();
    g_autoptr(EchTrace) more = ech_trace_with_properties(trace, (const char *const[]){"chip", "v5e", "module", "jit g", NULL});
    g_autoptr(EchTrace) again = ech_trace_with_properties(more, (const char *const[]){"module", "jit h", "chip", "v6e", "jit g", "x", NULL});
    static const char *const pairs[] = {"module", "jit h", "chip", "v6e", "jit g", "x"};
    const char *value;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_str_eq(ech_trace_property(again, i, &value), pairs[2 * i]);
        ck_assert_str_eq(value, pairs[2 * i + 1]);
    }
    ck_assert_ptr_null(ech_trace_property(again, 3, &value));
    ck_assert_str_eq(ech_trace_get_property(trace, "module"), "jit f");
    g_autoptr(EchTrace) fewer = ech_trace_without_properties(again, (const char *const[]){"mod", "jit", NULL});
    ck_assert_str_eq(ech_trace_property(fewer, 0, &value), "chip");
    ck_assert_ptr_null(ech_trace_property(fewer, 1, &value));
}
END_TEST

/* 0 kernel, 1 LOOP of 2 and 3, 4 kernel that depends on the first, 5 LOOP of 6; a buffer each made before, in the first loop, and there from the start. */
START_TEST(parts_cut_no_loop)
{
    Fixture f = fixture();
    EchId outer = add_buffer(&f, "outer", 64, false), inner = add_buffer(&f, "inner", 32, false), there = add_buffer(&f, "there", 16, true);
    EchId kernel = add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_use(f.builder, there, ECH_READ, 16, ECH_PATTERN_STREAM, ECH_KNOWN);
    for (EchId loop = 0; loop < 2; loop++) {
        EchId op = add_op(&f, ECH_OP_LOOP, loop == 0 ? 3 : 1);
        ech_trace_builder_peek_op(f.builder, op)->bytes = 5;
        if (loop == 0) {
            ech_trace_builder_peek_buffer(f.builder, inner)->loop = op;
            add_op(&f, ECH_OP_ALLOC, inner);
            add_op(&f, ECH_OP_KERNEL, ECH_NONE);
            ech_trace_builder_use(f.builder, inner, ECH_WRITE, 32, ECH_PATTERN_STREAM, ECH_KNOWN);
            add_op(&f, ECH_OP_FREE, inner);
            add_op(&f, ECH_OP_ALLOC, outer);
            ech_trace_builder_dep(f.builder, kernel, 0);
        } else
            add_op(&f, ECH_OP_KERNEL, ECH_NONE);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(f.builder, &error);
    ech_trace_builder_free(f.builder);
    ck_assert_ok(trace != NULL, error);
    const EchId n = (EchId)ech_trace_n_ops(trace); /* 0 K, 1 L 2 A 3 K 4 F, 5 A, 6 L 7 K */
    ck_assert_uint_eq(n, 8);
    for (EchId begin = 0; begin <= n; begin++)
        for (EchId end = begin; end <= n; end++) {
            bool cut = (begin > 1 && begin <= 4) || (end > 1 && end <= 4) || begin == 7 || end == 7;
            if (cut && begin == end)
                continue; /* nothing at all */
            g_autoptr(EchTrace) part = ech_trace_part(trace, begin, end, &error);
            ck_assert_msg((part == NULL) == cut, "[%u, %u): %s", begin, end, error ? error->message : "taken");
            g_clear_error(&error);
            if (!part)
                continue;
            const EchBuffer *buffers = ech_trace_buffers(part);
            ck_assert_uint_eq(ech_trace_n_ops(part), end - begin);
            ck_assert_uint_eq(buffers[inner].loop, begin <= 1 && end > 4 ? 1 - begin : ECH_NONE);
            ck_assert_uint_eq(buffers[inner].bytes, begin <= 1 && end > 4 ? 32 : 0);
            ck_assert_uint_eq(buffers[outer].resident, begin > 5);
            ck_assert_uint_eq(buffers[outer].bytes, end > 5 || begin > 5 ? 64 : 0);
            ck_assert(buffers[there].resident && buffers[there].bytes == 16);
            ck_assert_uint_eq(ech_trace_n_deps(part), begin == 0 && end > 5);
        }
}
END_TEST

START_TEST(lifetimes_and_peak)
{
    Fixture f = fixture();
    EchId a = add_buffer(&f, "a", 100, true), b = add_buffer(&f, "b", 30, false), c = add_buffer(&f, "c", 50, false);
    add_op(&f, ECH_OP_ALLOC, b);
    add_op(&f, ECH_OP_ALLOC, c);
    add_op(&f, ECH_OP_FREE, b);
    add_op(&f, ECH_OP_FREE, a);
    add_op(&f, ECH_OP_ALLOC, b);
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(f.builder, NULL);
    ech_trace_builder_free(f.builder);
    ck_assert_ptr_nonnull(trace);
    g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(trace, ECH_NONE);
    ck_assert_uint_eq(lifetimes->n, 4);
    ck_assert_uint_eq(lifetimes->peak, 180);
    ck_assert_uint_eq(lifetimes->peak_at, 1);
    ck_assert_uint_eq(lifetimes->end_live, 80);
    ck_assert_uint_eq(lifetimes->total, 210);
    ck_assert_uint_eq(lifetimes->items[0].end, 3);
    ck_assert_uint_eq(lifetimes->items[1].end, 2);
    ck_assert_uint_eq(lifetimes->items[3].end, 5);
    g_autoptr(EchLifetimes) host = ech_lifetimes_new(trace, ech_trace_find_memory(trace, "host"));
    ck_assert_uint_eq(host->n, 0);
}
END_TEST

/* JSON and protobuf can hold zero bytes; two texts that differ only behind one would be one text in a file. */
START_TEST(text_ends_at_zero_byte)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId plain = ech_trace_builder_string(builder, "name", -1);
    ck_assert_uint_eq(ech_trace_builder_string(builder, "name\0one", 8), plain);
    ck_assert_uint_eq(ech_trace_builder_string(builder, "name of more", 4), plain);
    ck_assert_uint_ne(ech_trace_builder_string(builder, "name of more", 12), plain);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tests = tcase_create("trace");
    tcase_add_test(tests, file_round_trip);
    tcase_add_test(tests, file_with_windows_line_ends);
    tcase_add_test(tests, copy_of_a_trace_is_equal);
    tcase_add_test(tests, text_ends_at_zero_byte);
    tcase_add_test(tests, file_damage_is_refused);
    tcase_add_test(tests, file_products);
    tcase_add_test(tests, invariants_hold);
    tcase_add_test(tests, parts_cut_no_loop);
    tcase_add_test(tests, properties_are_replaced);
    tcase_add_test(tests, most_is_not_too_many);
    tcase_add_test(tests, hashes_tell_traces_apart);
    tcase_add_test(tests, lifetimes_and_peak);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
