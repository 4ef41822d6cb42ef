/* Readers of execution traces (Chakra, PyTorch): what small hand-made files must become, damage, and the real file. */
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "sim/report/wire_out.h"
#include "tests/support/support.h"

#include <check.h>

static EchImport *read_bytes(const char *format, const void *data, size_t n, GError **error)
{
    g_autoptr(EchSource) source = ech_source_new_memory(data, n, "test.et");
    return ech_import_source(source, format, NULL, error);
}

static EchId find(const EchTrace *trace, EchOpKind kind, const char *name)
{
    return (EchId)(ech_test_op(trace, kind, name) - ech_trace_ops(trace));
}

static bool depends(const EchTrace *trace, EchId op, EchId on)
{
    const EchOp *at = &ech_trace_ops(trace)[op];
    for (uint32_t d = at->first_dep; d < at->first_dep + at->n_deps; d++)
        if (ech_trace_deps(trace)[d].op == on)
            return true;
    return false;
}

/* Each as protobuf and as its JSON, which chakra_jsonizer writes with other names of fields than Python's dictionaries have. */
static const char *const of_a_gpu[] = {"chakra/gpu.et", "chakra_json/gpu.json"}, *const of_a_generator[] = {"chakra/remote.et", "chakra_json/remote.jsonl"};

START_TEST(chakra_of_a_gpu)
{
    g_autoptr(EchImport) import = ech_test_corpus(of_a_gpu[_i], NULL);
    const EchTrace *trace = import->trace;
    ck_assert_str_eq(import->format, _i ? "chakra_json" : "chakra");
    ck_assert_str_eq(ech_trace_get_property(trace, "chakra_version"), "0.0.4");
    ck_assert_str_eq(ech_trace_get_property(trace, "chakra.rank"), "0");
    EchId gemm = find(trace, ECH_OP_KERNEL, "gemm_kernel"), copy = find(trace, ECH_OP_COPY, "Memcpy HtoD (Pinned -> Device)");
    EchId reduce = find(trace, ECH_OP_COLLECTIVE, "all_reduce");
    const EchOp *ops = ech_trace_ops(trace);
    /* The dependency points forward in the file: the copy comes first here. */
    ck_assert_uint_lt(copy, gemm);
    ck_assert(depends(trace, gemm, copy));
    ck_assert(depends(trace, reduce, gemm));
    ck_assert_int_eq(ops[gemm].recorded.start, 10 * ECH_PS_PER_US);
    ck_assert_int_eq(ops[gemm].recorded.duration, 25 * ECH_PS_PER_US);
    ck_assert_uint_eq(ops[gemm].n_uses, 3);
    /* The second tensor lies 16 elements into its storage: the buffer is as large as what is known of it. */
    const EchUse *use = &ech_trace_uses(trace)[ops[gemm].first_use + 1];
    ck_assert_uint_eq(use->bytes, 512 * 4);
    ck_assert_uint_eq(ech_trace_buffers(trace)[use->buffer].bytes, (16 + 512) * 4);
    ck_assert_uint_eq(ops[copy].bytes, 2048);
    ck_assert_str_eq(ech_trace_memory(trace, ops[copy].memory_from), "host");
    ck_assert_str_eq(ech_trace_memory(trace, ops[copy].memory_to), "hbm");
    ck_assert_int_eq(ops[reduce].collective, ECH_COLLECTIVE_ALL_REDUCE);
    ck_assert_uint_eq(ops[reduce].bytes, 4096);
    ck_assert_int_eq(ops[reduce].bytes_origin, ECH_KNOWN);
    find(trace, ECH_OP_MARK, "aten::mm");
}
END_TEST

START_TEST(chakra_of_a_generator)
{
    g_autoptr(EchImport) import = ech_test_corpus(of_a_generator[_i], NULL);
    const EchTrace *trace = import->trace;
    const EchOp *ops = ech_trace_ops(trace);
    EchId load = find(trace, ECH_OP_COPY, "weights"), mul = find(trace, ECH_OP_KERNEL, "mul"), store = find(trace, ECH_OP_COPY, "out");
    ck_assert(depends(trace, mul, load) && depends(trace, store, mul));
    ck_assert_uint_eq(ops[load].bytes, 1 << 20);
    ck_assert_str_eq(ech_trace_memory(trace, ops[store].memory_to), "host");
    ck_assert_uint_eq(ops[mul].n_work, 1);
    ck_assert_uint_eq(ech_trace_work(trace)[ops[mul].first_work].count, UINT64_C(1) << 30);
    ck_assert_int_eq(ops[find(trace, ECH_OP_COLLECTIVE, "send")].collective, ECH_COLLECTIVE_SEND);
}
END_TEST

START_TEST(chakra_graph)
{
    g_autoptr(EchImport) import = ech_test_corpus("chakra_json/graph.json", NULL);
    const EchTrace *trace = import->trace;
    const EchOp *ops = ech_trace_ops(trace);
    EchId forward = find(trace, ECH_OP_KERNEL, "forward"), gather = find(trace, ECH_OP_COLLECTIVE, "gather"), fetch = find(trace, ECH_OP_COPY, "fetch");
    ck_assert_int_eq(ops[forward].recorded.duration, 5 * ECH_PS_PER_US);
    ck_assert(depends(trace, gather, forward) && depends(trace, fetch, gather));
    ck_assert_int_eq(ops[gather].collective, ECH_COLLECTIVE_ALL_GATHER);
    ck_assert_uint_eq(ops[gather].bytes, 1 << 20);
    ck_assert_uint_eq(ops[fetch].bytes, 4096);
}
END_TEST

/* The JSON of a trace that was cut ends in an error with its place. */
START_TEST(chakra_json_cut)
{
    static const char *const texts[] = {"{\"name\": \"a\", \"type\": \"COMP_NODE\"}{\"name\": \"b\", \"type\": \"COMP", "{\"type\": \"COMP_NODE\"} 7",
                                        "[[{\"type\": \"COMP_NODE\"}]]", "{\"type\": \"COMP_NODE\", \"dataDeps\": [[1]]}"};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = read_bytes(NULL, texts[_i], strlen(texts[_i]), &error);
    ck_assert_ptr_null(import);
    ck_assert_msg(strstr(error->message, "test.et: byte ") != NULL, "%s", error->message);
}
END_TEST

/* A clock that begins with the trace: protobuf leaves the 0 out. Where two of a thread would begin so, or the clock is the world's, nothing is known of them;
 * times of today in microseconds are within range. */
START_TEST(chakra_starts_at_zero)
{
    static const struct {
        const char *first, *second, *third; /* "startTimeMicros" and such, of nodes of 5 us each */
        int64_t starts_us[3];
    } cases[] = {{"\"startTimeMicros\": \"0\",", "\"startTimeMicros\": \"5\",", "\"startTimeMicros\": \"20\",", {0, 5, 20}},
                 {"", "\"startTimeMicros\": \"5\",", "\"startTimeMicros\": \"20\",", {0, 5, 20}},
                 {"", "", "\"startTimeMicros\": \"20\",", {-1, -1, 0}},
                 {"", "\"startTimeMicros\": \"1760000000000005\",", "\"startTimeMicros\": \"1760000000000020\",", {-1, 0, 15}},
                 {"", "", "", {-1, -1, -1}}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const char *starts[3] = {cases[i].first, cases[i].second, cases[i].third};
        g_autoptr(GString) text = g_string_new("{\"version\": \"0.0.4\"}\n");
        for (unsigned k = 0; k < 3; k++)
            g_string_append_printf(text, "{\"id\": \"%u\", \"name\": \"k%u\", \"type\": \"COMP_NODE\", %s \"durationMicros\": \"5\"}\n", k + 1, k, starts[k]);
        GError *error = NULL;
        g_autoptr(EchImport) import = read_bytes("chakra_json", text->str, text->len, &error);
        ck_assert_msg(import, "%s", error ? error->message : "");
        for (unsigned k = 0; k < 3; k++) {
            const char name[] = {'k', (char)('0' + k), '\0'};
            int64_t want = cases[i].starts_us[k];
            ck_assert_int_eq(ech_test_op(import->trace, ECH_OP_KERNEL, name)->recorded.start,
                             want < 0 ? ech_op_init(ECH_OP_KERNEL).recorded.start : want * ECH_PS_PER_US);
        }
    }
}
END_TEST

START_TEST(chakra_cycles_are_counted)
{
    g_autoptr(EchImport) import = ech_test_corpus("chakra/cycle.et", NULL);
    ck_assert_uint_eq(ech_diag_count(import->diag, "nodes_in_dependency_cycles"), 3);
    ck_assert_uint_eq(ech_diag_count(import->diag, "repeated_node_ids"), 1);
    ck_assert(!ech_diag_check_strict(import->diag, NULL));
}
END_TEST

START_TEST(chakra_cut_anywhere)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/chakra/gpu.et", NULL);
    g_autofree char *data = NULL;
    gsize n, whole = 0;
    ck_assert(g_file_get_contents(path, &data, &n, NULL));
    for (gsize cut = 1; cut < n; cut++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *copy = g_memdup2(data, cut);
        g_autoptr(EchImport) import = read_bytes("chakra", copy, cut, &error);
        if (import) {
            whole++;
            continue;
        }
        ck_assert_msg(g_error_matches(error, ECH_ERROR, ECH_ERROR_PARSE) && strstr(error->message, "test.et: byte "), "%s", error->message);
    }
    /* Only cuts between messages leave a whole file: after the metadata and three of the four nodes. */
    ck_assert_uint_eq(whole, 4);
}
END_TEST

/* A long chain given backwards, and a node with very many dependencies: no recursion, no quadratic time. */
START_TEST(chakra_of_many_nodes)
{
    enum { N = 60000 };
    g_autoptr(GByteArray) file = g_byte_array_new(), meta = g_byte_array_new();
    ech_wire_text(meta, 1, "0.0.4");
    ech_wire_varint(file, meta->len);
    g_byte_array_append(file, meta->data, meta->len);
    for (uint64_t i = 0; i < N; i++) {
        g_autoptr(GByteArray) node = g_byte_array_new();
        ech_wire_u64(node, 1, N - i);
        ech_wire_text(node, 2, "n");
        ech_wire_u64(node, 3, 4);
        if (i + 1 < N)
            ech_wire_u64(node, 5, N - i - 1);
        for (uint64_t k = 0; i == 0 && k < N; k++)
            ech_wire_u64(node, 5, 1 + k * 7 % N);
        ech_wire_varint(file, node->len);
        g_byte_array_append(file, node->data, node->len);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = read_bytes(NULL, file->data, file->len, &error);
    ck_assert_ok(import != NULL, error);
    ck_assert_uint_eq(ech_trace_n_ops(import->trace), N);
    ck_assert_uint_eq(ech_diag_count(import->diag, "nodes_in_dependency_cycles"), 0);
}
END_TEST

START_TEST(pytorch_of_both_schemas)
{
    g_autoptr(EchImport) now = ech_test_corpus("pytorch_et/new.json", NULL), old = ech_test_corpus("pytorch_et/old.json", NULL);
    ck_assert_str_eq(now->format, "pytorch_et");
    ck_assert_str_eq(ech_trace_get_property(now->trace, "pytorch_et.schema"), "1.1.1-chakra.0.0.4");
    /* The caller of a kernel is a mark; leaves work, in order of their ids. */
    EchId linear = find(now->trace, ECH_OP_MARK, "aten::linear"), mm = find(now->trace, ECH_OP_KERNEL, "aten::mm"),
          relu = find(now->trace, ECH_OP_KERNEL, "aten::relu");
    ck_assert_uint_lt(linear, mm);
    ck_assert_uint_lt(mm, relu);
    ck_assert_uint_eq(ech_trace_ops(now->trace)[mm].n_uses, 3);
    const EchOp *add = &ech_trace_ops(old->trace)[find(old->trace, ECH_OP_KERNEL, "aten::add")];
    ck_assert_uint_eq(add->n_uses, 3);
    const EchBuffer *buffer = &ech_trace_buffers(old->trace)[ech_trace_uses(old->trace)[add->first_use].buffer];
    ck_assert_str_eq(ech_trace_memory(old->trace, buffer->memory), "host");
    ck_assert_uint_eq(buffer->bytes, 400);
}
END_TEST

START_TEST(pytorch_damage)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{\"nodes\":[{\"id\":1,\"ctrl_deps\":", "cut"},
        {"{\"schema\":\"1\"}", "no \"nodes\""},
        {"{\"nodes\":3}", "unexpected"},
        {"{\"nodes\":[{\"id\":[1]}]}", "unexpected"},
        {"{\"nodes\":[{\"id\":1,\"attrs\":{}}]}", "unexpected"},
        {"[1]", "unexpected"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(read_bytes("pytorch_et", rows[i].text, strlen(rows[i].text), &error));
        ck_assert_msg(g_error_matches(error, ECH_ERROR, ECH_ERROR_PARSE) && strstr(error->message, rows[i].says), "%s: %s", rows[i].text, error->message);
        ck_assert_msg(g_str_has_prefix(error->message, "test.et: "), "%s", error->message);
    }
}
END_TEST

/* addmm of a bias of 8 floats: the bias seen expanded to 4 x 8 is still 32 bytes, and the result is made here although what addmm calls writes into it. */
START_TEST(pytorch_views_and_results)
{
    static const char text[] =
        "{\"schema\":\"1.1.1\",\"nodes\":["
        "{\"id\":2,\"name\":\"aten::addmm\",\"ctrl_deps\":1,\"inputs\":{\"values\":[[1,10,0,8,4,\"cpu\"],[2,11,0,16,4,\"cpu\"],1],\"shapes\":[[8],[4,4],[]],"
        "\"types\":[],\"strides\":[[1],[4,1],[]]},\"outputs\":{\"values\":[[3,12,0,32,4,\"cpu\"]],\"shapes\":[[4,8]],\"types\":[],\"strides\":[[8,1]]}},"
        "{\"id\":3,\"name\":\"aten::expand\",\"ctrl_deps\":2,\"inputs\":{\"values\":[[1,10,0,8,4,\"cpu\"],[4,8],false],\"shapes\":[[8],[[],[]],[]],\"types\":[]"
        ","
        "\"strides\":[[1],[[],[]],[]]},\"outputs\":{\"values\":[[4,10,0,32,4,\"cpu\"]],\"shapes\":[[4,8]],\"types\":[],\"strides\":[[0,1]]}},"
        "{\"id\":4,\"name\":\"aten::copy_\",\"ctrl_deps\":2,\"inputs\":{\"values\":[[3,12,0,32,4,\"cpu\"],[4,10,0,32,4,\"cpu\"]],\"shapes\":[[4,8],[4,8]],"
        "\"types\":[],"
        "\"strides\":[[8,1],[0,1]]},\"outputs\":{\"values\":[[3,12,0,32,4,\"cpu\"]],\"shapes\":[[4,8]],\"types\":[],\"strides\":[[8,1]]}},"
        "{\"id\":5,\"name\":\"aten::relu\",\"ctrl_deps\":1,\"inputs\":{\"values\":[[3,12,0,32,4,\"cpu\"]],\"shapes\":[[4,8]],\"types\":[],\"strides\":[[8,1]]},"
        "\"outputs\":{\"values\":[[5,13,0,32,4,\"cpu\"]],\"shapes\":[[4,8]],\"types\":[],\"strides\":[[8,1]]}}]}";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = read_bytes("pytorch_et", text, strlen(text), &error);
    ck_assert_ok(import != NULL, error);
    const EchTrace *t = import->trace;
    EchBytes resident = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(t); i++)
        resident += ech_trace_buffers(t)[i].resident ? ech_trace_buffers(t)[i].bytes : 0;
    ck_assert_uint_eq(resident, 32);
    ck_assert_uint_eq(ech_diag_count(import->diag, "allocations_inferred_from_first_write"), 2);
    const EchOp *copy = &ech_trace_ops(t)[find(t, ECH_OP_KERNEL, "aten::copy_")];
    EchBytes read = 0;
    for (uint32_t u = copy->first_use; u < copy->first_use + copy->n_uses; u++)
        read += ech_trace_uses(t)[u].access == ECH_READ ? ech_trace_uses(t)[u].bytes : 0;
    ck_assert_uint_eq(read, 128 + 32);
}
END_TEST

/* mm asks resolve_conj for a view and works itself; its result is freed after relu has read it, and mul's result, twice as large, has the id that it had. */
START_TEST(pytorch_ids_come_again)
{
    static const char text[] =
        "{\"schema\":\"1.0.1\",\"nodes\":["
        "{\"id\":2,\"name\":\"aten::mm\",\"parent\":1,\"inputs\":[[1,10,0,16,4,\"cpu\"],[2,11,0,32,4,\"cpu\"]],\"outputs\":[[3,12,0,32,4,\"cpu\"]]},"
        "{\"id\":3,\"name\":\"aten::resolve_conj\",\"parent\":2,\"inputs\":[[3,12,0,32,4,\"cpu\"]],\"outputs\":[[3,12,0,32,4,\"cpu\"]]},"
        "{\"id\":4,\"name\":\"aten::relu\",\"parent\":1,\"inputs\":[[3,12,0,32,4,\"cpu\"]],\"outputs\":[[4,13,0,32,4,\"cpu\"]]},"
        "{\"id\":5,\"name\":\"aten::mul\",\"parent\":1,\"inputs\":[[4,13,0,32,4,\"cpu\"]],\"outputs\":[[5,12,0,64,4,\"cpu\"]]},"
        "{\"id\":6,\"name\":\"aten::sum\",\"parent\":1,\"inputs\":[[5,12,0,64,4,\"cpu\"]],\"outputs\":[[6,14,0,1,4,\"cpu\"]]}]}";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = read_bytes("pytorch_et", text, strlen(text), &error);
    ck_assert_ok(import != NULL, error);
    const EchTrace *t = import->trace;
    EchBytes live = 0, peak = 0, allocated = 0;
    size_t kernels = 0, frees = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(t); i++)
        live += ech_trace_buffers(t)[i].resident ? ech_trace_buffers(t)[i].bytes : 0;
    ck_assert_uint_eq(live, 64 + 128);
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        kernels += op->kind == ECH_OP_KERNEL;
        frees += op->kind == ECH_OP_FREE;
        allocated += op->kind == ECH_OP_ALLOC ? op->bytes : 0;
        live += op->kind == ECH_OP_ALLOC ? op->bytes : 0;
        live -= op->kind == ECH_OP_FREE ? op->bytes : 0;
        peak = MAX(peak, live);
    }
    ck_assert_uint_eq(kernels, 4); /* and no resolve_conj */
    ck_assert_uint_eq(frees, 3);   /* the sum is the result */
    ck_assert_uint_eq(allocated, 128 + 128 + 256 + 4);
    ck_assert_uint_eq(peak, 64 + 128 + 128 + 256);
    find(t, ECH_OP_KERNEL, "aten::mm");
}
END_TEST

/* What operators compute, by the shapes and types of their inputs, in both schemas. */
START_TEST(pytorch_work)
{
    static const struct {
        const char *name, *inputs;
        EchWorkUnit unit;
        EchDtype dtype;
        uint64_t count; /* 0: none */
    } rows[] = {
        {"aten::mm",
         "\"inputs\":{\"values\":[[1,2,0,24,2,\"cuda:0\"],[3,4,0,32,2,\"cuda:0\"]],\"shapes\":[[3,8],[8,4]],\"types\":[\"Tensor(c10::BFloat16)\",\"Tensor(c10::"
         "BFloat16)\"]}",
         ECH_WORK_MATRIX, ECH_DTYPE_BF16, 2 * 3 * 8 * 4},
        {"aten::addmm",
         "\"inputs\":[[9,9,0,4,4,\"cuda:0\"],[1,2,0,24,4,\"cuda:0\"],[3,4,0,32,4,\"cuda:0\"],1,1],\"input_shapes\":[[4],[3,8],[8,4],[],[]],"
         "\"input_types\":[\"Tensor(float)\",\"Tensor(float)\",\"Tensor(float)\",\"Int\",\"Int\"]",
         ECH_WORK_VECTOR, ECH_DTYPE_F32, 2 * 3 * 8 * 4},
        {"aten::cudnn_convolution",
         "\"inputs\":{\"values\":[[1,2,0,384,4,\"cuda:0\"],[3,4,0,135,4,\"cuda:0\"],[1,1],[2,2],[1,1],1,false,false,true],"
         "\"shapes\":[[2,3,8,8],[5,3,3,3],[[],[]],[[],[]],[[],[]],[],[],[],[]],\"types\":[\"Tensor(float)\",\"Tensor(float)\",\"GenericList[Int,Int]\","
         "\"GenericList[Int,Int]\","
         "\"GenericList[Int,Int]\",\"Int\",\"Bool\",\"Bool\",\"Bool\"]}",
         ECH_WORK_MATRIX, ECH_DTYPE_F32, UINT64_C(2) * (2 * 4 * 4) * 5 * 27},
        {"aten::_scaled_dot_product_flash_attention",
         "\"inputs\":{\"values\":[[1,2,0,96,2,\"cuda:0\"],[3,4,0,96,2,\"cuda:0\"],[5,6,0,96,2,\"cuda:0\"],0.0,true,false],\"shapes\":[[1,2,6,8],[1,2,6,8],[1,2,"
         "6,8],[],[],[]],"
         "\"types\":[\"Tensor(c10::Half)\",\"Tensor(c10::Half)\",\"Tensor(c10::Half)\",\"Double\",\"Bool\",\"Bool\"]}",
         ECH_WORK_MATRIX, ECH_DTYPE_F16, 4 * 96 * 6 / 2}, /* causal: half */
        {"aten::relu", "\"inputs\":{\"values\":[[1,2,0,24,4,\"cuda:0\"]],\"shapes\":[[3,8]],\"types\":[\"Tensor(float)\"]}", ECH_WORK_VECTOR, ECH_DTYPE_F32, 0},
        {"aten::mm", "\"inputs\":{\"values\":[[1,2,0,24,4,\"cuda:0\"]],\"shapes\":[[3,8],[8,4]],\"types\":[\"Tensor(float)\"]}", ECH_WORK_VECTOR, ECH_DTYPE_F32,
         192},
        {"aten::mm", "\"inputs\":{\"values\":[[1,2,0,24,4,\"cuda:0\"]],\"shapes\":7,\"types\":[7,[\"Tensor(float)\"]]}", ECH_WORK_VECTOR, ECH_DTYPE_F32, 0},
    };
    const char *inputs = rows[_i].inputs;
    g_autofree char *text = g_strdup_printf(
        "{\"schema\":\"1\",\"nodes\":[{\"id\":1,\"name\":\"%s\",\"ctrl_deps\":0,%s,\"outputs\":{\"values\":[[7,8,0,12,4,\"cuda:0\"]],\"shapes\":[[3,4]]}}]}",
        rows[_i].name, inputs);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = read_bytes("pytorch_et", text, strlen(text), &error);
    ck_assert_ok(import != NULL, error);
    const EchOp *op = ech_test_op(import->trace, ECH_OP_KERNEL, rows[_i].name);
    ck_assert_uint_eq(op->n_work, rows[_i].count > 0);
    if (op->n_work == 0)
        return;
    const EchWork *work = &ech_trace_work(import->trace)[op->first_work];
    ck_assert_uint_eq(work->count, rows[_i].count);
    ck_assert_int_eq(work->unit, rows[_i].unit);
    ck_assert_int_eq(work->dtype, rows[_i].dtype);
    ck_assert_int_eq(work->origin, ECH_INFERRED);
}
END_TEST

START_TEST(real_chakra)
{
    const char *path = ECH_SHARED "/traces/chakra/chakra.0.et";
    if (ech_test_lacks(path))
        return;
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, &error);
    ck_assert_ok(import != NULL, error);
    ck_assert_uint_eq(ech_diag_count(import->records, "COMP"), 3643);
    ck_assert_uint_eq(ech_diag_count(import->records, "COMM_COLL"), 21);
    ck_assert(ech_diag_check_strict(import->diag, NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("execution traces");
    TCase *cases = tcase_create("readers");
    tcase_add_loop_test(cases, chakra_of_a_gpu, 0, 2);
    tcase_add_loop_test(cases, chakra_of_a_generator, 0, 2);
    tcase_add_test(cases, chakra_graph);
    tcase_add_test(cases, chakra_starts_at_zero);
    tcase_add_loop_test(cases, chakra_json_cut, 0, 4);
    tcase_add_test(cases, chakra_cycles_are_counted);
    tcase_add_test(cases, chakra_cut_anywhere);
    tcase_add_test(cases, chakra_of_many_nodes);
    tcase_add_test(cases, pytorch_of_both_schemas);
    tcase_add_test(cases, pytorch_damage);
    tcase_add_test(cases, pytorch_views_and_results);
    tcase_add_test(cases, pytorch_ids_come_again);
    tcase_add_loop_test(cases, pytorch_work, 0, 7);
    tcase_add_test(cases, real_chakra);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
