/* cuDNN's, NCCL's and other libraries' names over a GPU that is not there: asked as PyTorch asks them, and what is written then. The real libraries are not
 * needed. */
#include "tests/support/support.h"

#include <dlfcn.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define FLOAT 0
#define BF16 9

static void *library;
static char *path;

/* The pretending library's @name. */
static void find(const char *name, void *ret)
{
    void *symbol = dlsym(library, name);
    ck_assert_msg(symbol != NULL, "%s", dlerror());
    memcpy(ret, &symbol, sizeof symbol);
}

static const char h100[] =
    "id=h100-sxm;name=NVIDIA H100;bytes=84942979072;context=536870912;devices=8;links=18;multiprocessors=132;major=9;minor=0;shared=233472;l2=52428800";

static void load_device(const char *device)
{
    path = g_strdup_printf("%s/%d.pretend", g_get_tmp_dir(), (int)getpid());
    g_setenv("ECHELON_PRETEND_OUT", path, TRUE);
    g_setenv("ECHELON_PRETEND_DEVICE", device, TRUE);
    library = dlopen(ECH_BINARY_DIR "/lib/echelon/libechelon_pretend.so", RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
}

static void load(void)
{
    load_device(h100);
}

/* The lines that begin with @word, without their times, with names for numbers where @names says which fields are such. */
static char *written(const char *word, const char *names)
{
    void (*flush)(void);
    find("pretend_flush", &flush);
    flush();
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autoptr(GPtrArray) texts = g_ptr_array_new();
    GString *out = g_string_new(NULL);
    for (size_t i = 0; lines[i]; i++) {
        g_auto(GStrv) fields = g_strsplit(lines[i], " ", -1);
        if (g_strcmp0(fields[0], "name") == 0) {
            guint number = (guint)g_ascii_strtoull(fields[1], NULL, 10);
            while (texts->len <= number)
                g_ptr_array_add(texts, NULL);
            texts->pdata[number] = strchr(lines[i], '"');
        }
        if (g_strcmp0(fields[0], word) != 0)
            continue;
        for (size_t f = 2; fields[f]; f++) {
            guint number = (guint)g_ascii_strtoull(fields[f], NULL, 10);
            bool named = strchr(names, (int)('0' + f)) != NULL && number < texts->len;
            g_string_append_printf(out, "%s%s", f > 2 ? " " : "", named ? (char *)texts->pdata[number] : fields[f]);
        }
        g_string_append_c(out, '\n');
    }
    return g_string_free(out, FALSE);
}

/* The file stays: when its process exits, the library ends it. */
static void unload(void)
{
    g_free(path);
}

/* ---- cuDNN's descriptors ---- */

static int (*create)(int type, void **ret);
static int (*destroy)(void *descriptor);
static int (*set)(void *descriptor, int name, int type, int64_t n, const void *values);
static int (*get)(void *descriptor, int name, int type, int64_t room, int64_t *ret_n, void *ret);
static int (*finalize)(void *descriptor);
static int (*execute)(void *handle, void *plan, void *pack);
static int (*create_handle)(void **ret), (*destroy_handle)(void *handle);

static void load_dnn(void)
{
    load();
    find("cudnnBackendCreateDescriptor", &create);
    find("cudnnBackendDestroyDescriptor", &destroy);
    find("cudnnBackendSetAttribute", &set);
    find("cudnnBackendGetAttribute", &get);
    find("cudnnBackendFinalize", &finalize);
    find("cudnnBackendExecute", &execute);
    find("cudnnCreate", &create_handle);
    find("cudnnDestroy", &destroy_handle);
}

static void *make(int type)
{
    void *descriptor = NULL;
    ck_assert_int_eq(create(type, &descriptor), 0);
    ck_assert_ptr_nonnull(descriptor);
    return descriptor;
}

static void give(void *descriptor, int name, int type, int64_t n, const void *values)
{
    ck_assert_int_eq(set(descriptor, name, type, n, values), 0);
}

static void give_one(void *descriptor, int name, void *value)
{
    give(descriptor, name, 15, 1, &value);
    destroy(value); /* the other keeps it */
}

static void give_int(void *descriptor, int name, int type, int value)
{
    give(descriptor, name, type, 1, &value);
}

/* Channels lie side by side where @last. */
static void *tensor(int64_t id, int type, bool is_virtual, bool last, const int64_t sizes[4])
{
    void *t = make(17);
    int64_t strides[4] = {sizes[1] * sizes[2] * sizes[3], last ? 1 : sizes[2] * sizes[3], last ? sizes[3] * sizes[1] : sizes[3], last ? sizes[1] : 1};
    give_int(t, 901, 1, type);
    give(t, 902, 3, 4, sizes);
    give(t, 903, 3, 4, strides);
    give(t, 906, 3, 1, &id);
    give(t, 907, 2, 1, &is_virtual);
    ck_assert_int_eq(finalize(t), 0);
    return t;
}

static void *graph(void **operations, int64_t n)
{
    void *g = make(15);
    give(g, 801, 15, n, operations);
    ck_assert_int_eq(finalize(g), 0);
    for (int64_t i = 0; i < n; i++)
        destroy(operations[i]);
    return g;
}

/* Heuristics of @mode, their configuration number @which, its plan, and the plan is run. Its workspace. */
static int64_t run_of(void *of, int64_t which, int mode)
{
    void *heuristics = make(4), *configs[8], *plan = make(5), *pack = make(16), *handle = NULL;
    give_int(heuristics, 200, 8, mode);
    give_one(heuristics, 201, of);
    ck_assert_int_eq(finalize(heuristics), 0);
    int64_t n = 0, got = 0, workspace = -1;
    ck_assert_int_eq(get(heuristics, 202, 15, 0, &n, NULL), 0);
    ck_assert_int_eq(n, 2);
    for (int64_t i = 0; i < n; i++)
        configs[i] = make(3);
    ck_assert_int_eq(get(heuristics, 202, 15, n, &got, configs), 0);
    ck_assert_int_eq(got, n);
    ck_assert_int_eq(get(heuristics, 202, 15, 1, &got, configs), 0);
    ck_assert_int_eq(got, 1); /* no more than there was room for */
    destroy(heuristics);
    int32_t shared = -1;
    ck_assert_int_eq(get(configs[which], 304, 23, 1, &got, &shared), 0);
    ck_assert(got == 1 && shared == 0);
    give(plan, 401, 15, 1, &configs[which]);
    ck_assert_int_eq(finalize(plan), 0);
    for (int64_t i = 0; i < n; i++)
        destroy(configs[i]);
    ck_assert_int_eq(get(plan, 402, 3, 1, &got, &workspace), 0);
    ck_assert_int_eq(create_handle(&handle), 0);
    ck_assert_int_eq(execute(handle, plan, pack), 0);
    /* As XLA keeps it: written as text, and made again when it is gone. */
    char text[64];
    ck_assert_int_eq(get(plan, 405, 24, 0, &n, NULL), 0);
    ck_assert(n > 1 && n <= (int64_t)sizeof text);
    ck_assert_int_eq(get(plan, 405, 24, n, &got, text), 0);
    ck_assert(text[0] == '{' && text[n - 2] == '}' && text[n - 1] == '\0'); /* JSON: PyTorch parses it to know plans that a release gets wrong */
    destroy(plan);
    void *again = make(5);
    int64_t known = -1;
    give(again, 405, 24, n, text);
    ck_assert_int_eq(finalize(again), 0);
    ck_assert_int_eq(get(again, 402, 3, 1, &got, &known), 0);
    ck_assert_int_eq(known, workspace);
    destroy(again);
    destroy_handle(handle);
    destroy(pack);
    return workspace;
}

static int64_t run(void *of, int64_t which)
{
    return run_of(of, which, 3); /* mode A */
}

typedef struct {
    int type, x, w, y, first;
} Kind;
static const Kind forward = {10, 704, 703, 705, 700}, data = {12, 710, 709, 711, 706}, filters = {11, 716, 715, 717, 712};

static void *convolution(const Kind *kind, int type, bool last, const int64_t x[4], const int64_t w[4], const int64_t y[4])
{
    void *c = make(1), *o = make(kind->type);
    int64_t two[2] = {2, 2}, one[2] = {1, 1}, rank = 2;
    float alpha = 1, beta = 0;
    give_int(c, 100, 1, FLOAT);
    give(c, 102, 3, 2, one);
    give(c, 103, 3, 2, two);
    give(c, 104, 3, 2, one);
    give(c, 105, 3, 2, one);
    give(c, 106, 3, 1, &rank);
    ck_assert_int_eq(finalize(c), 0);
    give(o, kind->first, 4, 1, &alpha);
    give(o, kind->first + 1, 4, 1, &beta);
    give_one(o, kind->first + 2, c);
    give_one(o, kind->x, tensor('x', type, false, last, x));
    give_one(o, kind->w, tensor('w', type, false, last, w));
    give_one(o, kind->y, tensor('y', type, false, last, y));
    ck_assert_int_eq(finalize(o), 0);
    return o;
}

static const int64_t image[4] = {8, 64, 56, 56}, weights[4] = {128, 64, 3, 3}, result[4] = {8, 128, 28, 28};

/* 8 x 28 x 28 pixels, 64 channels of 9 taps, 128 filters: 462,422,016 multiplications, in the gradients, too. */
START_TEST(convolutions_are_products)
{
    load_dnn();
    const Kind *kinds[] = {&forward, &data, &filters};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        void *operation = convolution(kinds[i], BF16, true, image, weights, result);
        ck_assert_int_eq(run(graph(&operation, 1), 0), 0);
    }
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(
        lines,
        "0 0 \"cudnn convolution\" \"product=1x6272x128x576 taps=9 operand_bytes=2 class=product\" 3358720 1605632 924844032 \"bf16\"\n"
        "0 0 \"cudnn convolution: gradient of the data\" \"product=1x6272x64x1152 taps=9 operand_bytes=2 class=product\" 1753088 3211264 924844032 \"bf16\"\n"
        "0 0 \"cudnn convolution: gradient of the filters\" \"product=1x128x576x6272 operand_bytes=2 class=product\" 4816896 147456 924844032 \"bf16\"\n");
    unload();
}
END_TEST

/* Of f32 the first engine is one of tensor cores, told by its numerical note, the second is not. */
START_TEST(engines_without_the_library)
{
    load_dnn();
    for (int64_t i = 0; i < 2; i++) {
        void *operation = convolution(&forward, FLOAT, true, image, weights, result);
        ck_assert_int_eq(run(graph(&operation, 1), i), 0);
    }
    g_autofree char *lines = written("library", "9");
    g_auto(GStrv) each = g_strsplit(lines, "\n", -1);
    ck_assert_msg(g_str_has_suffix(each[0], "\"tf32\"") && g_str_has_suffix(each[1], "\"f32\""), "%s", lines);
    unload();
}
END_TEST

/* What does not lie channel by channel is copied for tensor cores, and the result back; three channels count as eight. */
START_TEST(layouts)
{
    load_dnn();
    const int64_t colours[4] = {8, 3, 56, 56}, of_colours[4] = {128, 3, 3, 3};
    void *operation = convolution(&data, BF16, false, image, weights, result);
    ck_assert_int_eq(run(graph(&operation, 1), 0), 3211264 + 147456 + 1605632);
    operation = convolution(&forward, BF16, true, colours, of_colours, result);
    ck_assert_int_eq(run(graph(&operation, 1), 0), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(
        lines,
        "0 0 \"cudnn channels first to last\" \"elements=73728 operand_bytes=2 class=relayout\" 147456 147456 0 \"\"\n"
        "0 0 \"cudnn channels first to last\" \"elements=802816 operand_bytes=2 class=relayout\" 1605632 1605632 0 \"\"\n"
        "0 0 \"cudnn convolution: gradient of the data\" \"product=1x6272x64x1152 taps=9 operand_bytes=2 class=product\" 1753088 3211264 924844032 \"bf16\"\n"
        "0 0 \"cudnn channels last to first\" \"elements=1605632 operand_bytes=2 class=relayout\" 3211264 3211264 0 \"\"\n"
        "0 0 \"cudnn convolution\" \"product=1x6272x128x72 taps=9 operand_bytes=2 class=product\" 157440 1605632 43352064 \"bf16\"\n");
    unload();
}
END_TEST

/* Who times plans (torch.backends.cudnn.benchmark, XLA) takes the one that comes first, though it copies and so launches more, and a fallback last. */
START_TEST(timed_plans)
{
    load_dnn();
    int (*make_event)(void **), (*record)(void *, void *), (*elapsed)(float *, void *, void *), (*end_event)(void *);
    find("cudaEventCreate", &make_event);
    find("cudaEventRecord", &record);
    find("cudaEventElapsedTime", &elapsed);
    find("cudaEventDestroy", &end_event);
    static const struct {
        int64_t which;
        int mode;
    } plans[] = {{0, 3}, {1, 3}, {0, 2}};
    float ms[G_N_ELEMENTS(plans)];
    for (size_t i = 0; i < G_N_ELEMENTS(plans); i++) {
        void *begin = NULL, *end = NULL, *operation = convolution(&data, BF16, false, image, weights, result);
        ck_assert(make_event(&begin) == 0 && make_event(&end) == 0);
        ck_assert_int_eq(record(begin, NULL), 0);
        run_of(graph(&operation, 1), plans[i].which, plans[i].mode);
        ck_assert_int_eq(record(end, NULL), 0);
        ck_assert_int_eq(elapsed(&ms[i], begin, end), 0);
        ck_assert(end_event(begin) == 0 && end_event(end) == 0);
    }
    ck_assert_msg(ms[0] < ms[1] && ms[1] < ms[2], "%g %g %g", (double)ms[0], (double)ms[1], (double)ms[2]);
    unload();
}
END_TEST

/* One tap of few channels is for the lanes, in f32 and as it lies; nine of many are worth the copies; so are gradients. */
START_TEST(lanes_first)
{
    load_dnn();
    const int64_t few[4] = {64, 64, 1, 1}, same[4] = {8, 64, 56, 56}, deep[4] = {8, 512, 28, 28}, many[4] = {512, 512, 3, 3};
    void *operation = convolution(&forward, BF16, false, image, few, same);
    ck_assert_int_eq(run(graph(&operation, 1), 0), 0);
    operation = convolution(&forward, BF16, false, image, few, same);
    ck_assert_int_eq(run(graph(&operation, 1), 1), 2 * 3211264);
    operation = convolution(&forward, BF16, false, deep, many, deep);
    ck_assert_int_gt(run(graph(&operation, 1), 0), 0);
    operation = convolution(&data, BF16, false, image, few, same);
    ck_assert_int_gt(run(graph(&operation, 1), 0), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_msg(g_str_has_prefix(lines,
                                   "0 0 \"cudnn convolution\" \"product=1x25088x64x64 operand_bytes=2 class=product\" 3219456 3211264 205520896 \"f32\"\n"
                                   "0 0 \"cudnn channels first to last\""),
                  "%s", lines);
    unload();
}
END_TEST

/* Groups share out the channels; a filter a channel is no product, but threads' sums (cuDNN's kernels for 3 x 3 to 7 x 7, whose grids an H200's profile has).
 */
START_TEST(groups)
{
    load_dnn();
    const int64_t of_four[4] = {128, 16, 3, 3}, of_each[4] = {64, 1, 7, 7}, of_nine[4] = {64, 1, 9, 9}, same[4] = {8, 64, 28, 28};
    void *operation = convolution(&forward, BF16, true, image, of_four, result);
    run(graph(&operation, 1), 0);
    const Kind *kinds[] = {&forward, &data, &filters};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        operation = convolution(kinds[i], BF16, true, image, of_each, same);
        run(graph(&operation, 1), 0);
    }
    operation = convolution(&forward, BF16, true, image, of_nine, same);
    run(graph(&operation, 1), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(
        lines,
        "0 0 \"cudnn convolution\" \"product=4x6272x32x144 taps=9 operand_bytes=2 class=product\" 3248128 1605632 231211008 \"bf16\"\n"
        "0 0 \"cudnn convolution\" \"grid=112x1x1 block=128x1x1 registers=255 elements=401408 operand_bytes=2 class=elementwise trips=20 waits=1\" "
        "3217536 802816 0 \"\"\n"
        "0 0 \"cudnn convolution: gradient of the data\" \"grid=1568x1x1 block=256x1x1 registers=128 elements=1605632 operand_bytes=2 class=elementwise "
        "instructions=388 trips=7\" 809088 3211264 0 \"\"\n"
        "0 0 \"cudnn convolution: gradient of the filters\" \"grid=2x8x1 block=32x4x1 elements=401408 operand_bytes=2 class=elementwise instructions=262\" "
        "4014080 100352 0 \"\"\n"
        "0 0 \"cudnn convolution: parts added up\" \"grid=49x2x1 block=32x1x1 elements=3136 operand_bytes=2 class=split_reduce trips=0\" 100352 6272 0 \"\"\n"
        "0 0 \"cudnn convolution\" \"elements=401408 operand_bytes=2 class=elementwise instructions=410\" 3221632 802816 0 \"\"\n");
    unload();
}
END_TEST

/* What the fake's plans ask for, and their knobs. */
static void find_plans(int64_t **ret_workspace, int64_t **ret_knobs)
{
    void *fake = dlopen(ECH_BINARY_DIR "/tests/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(fake);
    *ret_workspace = dlsym(fake, "fake_cudnn_workspace");
    *ret_knobs = dlsym(fake, "fake_cudnn_knobs");
    ck_assert(*ret_workspace && *ret_knobs);
}

/* What plans ask for says how they take groups: cut out one by one, in eight streams of the library's own, which wait for the program's and it for them; or all
 * filled up to 2^n channels. Their knobs say tiles and parts. */
START_TEST(groups_by_workspaces)
{
    load_dnn();
    int64_t *workspace, *knobs;
    find_plans(&workspace, &knobs);
    const int64_t in[4] = {8, 480, 14, 14}, of_48[4] = {480, 48, 3, 3}, cut_bytes = 8 * 2 * (2 * 8 * 48 * 14 * 14), parts = 8 * 3 * 4 * 48 * 432,
                  told[] = {0, 3, 2, 5, 5, 3, 14, 6}; /* three parts, 64 x 64, steps of 32, ten at once */
    memcpy(knobs, told, sizeof told);
    const Kind *kinds[] = {&forward, &filters};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        *workspace = cut_bytes + (i > 0 ? parts : 0) + 128;
        void *operation = convolution(kinds[i], BF16, true, in, of_48, in);
        ck_assert_int_eq(run(graph(&operation, 1), 0), *workspace);
    }
    *workspace = 2 * (2 * 8 * 640 * 14 * 14 + 640 * 64 * 9) + 131;
    void *operation = convolution(&data, BF16, true, in, of_48, in);
    run(graph(&operation, 1), 0);
    g_autofree char *lines = written("library", "459");
    g_auto(GStrv) each = g_strsplit(lines, "\n", -1);
    ck_assert_uint_eq(g_strv_length(each), 3 * 10 + 5 * 10 + 4 + 1);
    static const char cut[] =
        "\"cudnn channels of a group\" \"grid=147x1x1 block=512x1x1 elements=75264 operand_bytes=2 class=strided trips=1\" 150528 150528 0 \"\"";
    ck_assert_str_eq(each[0] + 4, cut);
    ck_assert_str_eq(each[1] + 4, "\"cudnn convolution\" \"product=1x1568x48x432 taps=9 operand_bytes=2 class=product arithmetic=mma grid=25x1x1 block=128x1x1 "
                                  "shared=81920 tile=64x64x32 stages=10\" 192000 150528 65028096 \"bf16\"");
    ck_assert_msg(g_str_has_prefix(each[2] + 4, "\"cudnn channels of a group put back\""), "%s", each[2]);
    ck_assert(strncmp(each[0], each[1], 4) == 0 && strncmp(each[0], each[3], 4) != 0 &&
              strncmp(each[0], each[24], 4) == 0); /* the ninth in the first's stream */
    ck_assert_str_eq(each[31] + 4, cut);
    ck_assert_str_eq(each[32] + 4, "\"cudnn convolution: parts cleared\" \"class=fill operand_bytes=4\" 0 248832 0 \"\"");
    ck_assert_str_eq(each[33] + 4,
                     "\"cudnn convolution: gradient of the filters\" \"product=1x48x432x1568 operand_bytes=2 class=product arithmetic=mma filters=1 "
                     "grid=7x1x3 block=128x1x1 shared=81920 tile=64x64x32 stages=10\" 1505280 41472 65028096 \"bf16\"");
    ck_assert_str_eq(each[34] + 4, "\"cudnn convolution: parts added up\" \"elements=20736 operand_bytes=2 class=split_reduce trips=1\" 248832 41472 0 \"\"");
    ck_assert_msg(g_str_has_prefix(each[80], "0 0 \"cudnn groups filled up to 2^n channels\""), "%s", each[80]);
    ck_assert_msg(strstr(each[80], " elements=368640 ") && strstr(each[81], " elements=1003520 ") && strstr(each[83], " elements=1003520 "), "%s", lines);
    ck_assert_msg(strstr(each[82], "\"product=10x1568x64x576 taps=9 operand_bytes=2 class=product\""), "%s", each[82]);
    ck_assert_msg(g_str_has_prefix(each[83], "0 0 \"cudnn groups taken from 2^n channels\""), "%s", each[83]);
    g_autofree char *waits = written("wait", ""), *records = written("record", "");
    g_auto(GStrv) each_wait = g_strsplit(waits, "\n", -1), each_record = g_strsplit(records, "\n", -1);
    ck_assert_uint_eq(g_strv_length(each_wait), 2 * 16 + 1);
    ck_assert_uint_eq(g_strv_length(each_record), 2 * 9 + 1);
    unload();
}
END_TEST

/* A first layer in the tile that the plan's knobs tell, its gradient in parts; a position alone is a plain product. */
START_TEST(tiles_by_knobs)
{
    load_dnn();
    int64_t *workspace, *knobs;
    find_plans(&workspace, &knobs);
    const int64_t told[] = {0, 61, 2, 7, 5, 3, 14, 5}, colours[4] = {8, 3, 56, 56}, of_colours[4] = {128, 3, 3, 3}, of_one[4] = {128, 64, 1, 1};
    memcpy(knobs, told, sizeof told);
    *workspace = 4 << 20;
    void *operation = convolution(&filters, BF16, true, colours, of_colours, result);
    run(graph(&operation, 1), 0);
    operation = convolution(&forward, BF16, true, image, of_one, result);
    run(graph(&operation, 1), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_msg(strstr(lines, "\"product=1x128x72x6272 operand_bytes=2 class=product arithmetic=mma filters=1 grid=2x1x61 block=128x1x1 shared=73728 "
                                "tile=64x128x32 stages=6\""),
                  "%s", lines);
    ck_assert_msg(strstr(lines, "\"elements=9216 operand_bytes=2 class=split_reduce trips=16\"") && strstr(lines, "x64 operand_bytes=2 class=product\""), "%s",
                  lines);
    unload();
}
END_TEST

static void *product(void *a, void *b, void *c)
{
    void *m = make(18), *o = make(19);
    give_int(m, 1500, 1, FLOAT);
    ck_assert_int_eq(finalize(m), 0);
    give_one(o, 1520, a);
    give_one(o, 1521, b);
    give_one(o, 1522, c);
    give_one(o, 1523, m);
    ck_assert_int_eq(finalize(o), 0);
    return o;
}

/* As cudnn_frontend composes it: a product, a mask by comparing rows with columns, a second product. Half of 4 x 2 x 4 x 512 x 512 x 64 operations. */
START_TEST(attention_of_parts)
{
    load_dnn();
    const int64_t q[4] = {2, 4, 512, 64}, kt[4] = {2, 4, 64, 512}, s[4] = {2, 4, 512, 512};
    for (int causal = 0; causal < 2; causal++) {
        void *mode = make(0), *mask = make(13);
        give_int(mode, 0, 14, causal ? 303 : 0);
        ck_assert_int_eq(finalize(mode), 0);
        give_one(mask, 750, mode);
        give_one(mask, 751, tensor(10, FLOAT, true, false, s));
        give_one(mask, 753, tensor(11, FLOAT, true, false, s));
        void *operations[3] = {product(tensor(1, BF16, false, false, q), tensor(2, BF16, false, false, kt), tensor(10, FLOAT, true, false, s)), mask,
                               product(tensor(11, BF16, true, false, s), tensor(3, BF16, false, false, q), tensor(4, BF16, false, false, q))};
        run(graph(operations, 3), 0);
    }
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(
        lines, "0 0 \"cudnn attention\" \"grid=4x8x1 class=attention head=64 arithmetic=wgmma operand_bytes=2\" 1572864 524288 536870912 \"bf16\"\n"
               "0 0 \"cudnn attention\" \"grid=4x8x1 class=attention causal=1 head=64 arithmetic=wgmma operand_bytes=2\" 1572864 524288 268435456 \"bf16\"\n");
    unload();
}
END_TEST

/* The one operation of later versions, with its mask in a graph inside and what it keeps in its softmax. */
START_TEST(attention_as_one)
{
    load_dnn();
    const int64_t q[4] = {2, 8, 512, 64}, k[4] = {2, 2, 256, 64}, s[4] = {2, 8, 512, 256}, kept[4] = {2, 8, 512, 1};
    void *mask = make(44), *softmax = make(45), *o = make(41);
    give_one(mask, 3000, tensor(10, FLOAT, true, false, s));
    give_one(mask, 3006, tensor(11, FLOAT, true, false, s));
    give_one(softmax, 3102, tensor(5, FLOAT, false, false, kept));
    give_one(o, 2800, tensor(1, BF16, false, false, q));
    give_one(o, 2801, tensor(2, BF16, false, false, k));
    give_one(o, 2802, tensor(3, BF16, false, false, k));
    give_one(o, 2803, tensor(4, BF16, false, false, q));
    give_one(o, 2814, softmax);
    give_one(o, 2811, graph(&mask, 1));
    ck_assert_int_eq(finalize(o), 0);
    run(graph(&o, 1), 0);
    g_autofree char *lines = written("library", "459");
    /* 4 x 16 heads x 512 x 256 x 64, half of them; keys and values of two heads each. */
    ck_assert_str_eq(
        lines,
        "0 0 \"cudnn attention\" \"grid=4x16x1 class=attention causal=1 head=64 arithmetic=wgmma operand_bytes=2\" 1310720 1081344 268435456 \"bf16\"\n");
    unload();
}
END_TEST

START_TEST(descriptors_refuse_nonsense)
{
    load_dnn();
    void *handle = NULL, *plan = make(5);
    ck_assert_int_eq(create_handle(&handle), 0);
    ck_assert_int_ne(execute(handle, plan, NULL), 0);
    ck_assert_int_ne(set(NULL, 900, 3, 1, &(int64_t){1}), 0);
    ck_assert_int_ne(set(plan, 900, 3, -1, &(int64_t){1}), 0);
    ck_assert_int_ne(get(NULL, 900, 3, 1, NULL, NULL), 0);
    destroy(plan);
    destroy_handle(handle);
    unload();
}
END_TEST

/* ---- NCCL ---- */

typedef struct {
    char bytes[128];
} Id;

typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, min_blocks, max_blocks;
    const char *network;
    int share, traffic_class;
    const char *name;
} Config;

static int (*init)(void **ret, int n, Id id, int rank, void *config);
static int (*end_communicator)(void *communicator);
static int (*split)(void *of, int color, int key, void **ret, void *config);
static void (*tell)(const char *name, int n, const int *ranks, int rank);

static void load_nccl_of(const char *device)
{
    load_device(device);
    find("ncclCommInitRankConfig", &init);
    find("ncclCommSplit", &split);
    find("ncclCommDestroy", &end_communicator);
    find("pretend_group", &tell);
}

static void load_nccl(void)
{
    load_nccl_of(h100);
}

/* Groups of a mesh of 2 x 4: their ranks' distances, by name, and by the last told of where NCCL is told no name. */
START_TEST(groups_of_ranks)
{
    load_nccl();
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *), (*count)(void *, int *), (*rank)(void *, int *);
    find("ncclAllReduce", &all_reduce);
    find("ncclCommCount", &count);
    find("ncclCommUserRank", &rank);
    tell("0", 8, (const int[]){0, 1, 2, 3, 4, 5, 6, 7}, 5);
    tell("rows", 4, (const int[]){4, 5, 6, 7}, 1);
    tell("columns", 2, (const int[]){1, 5}, 1);
    tell("10", 2, (const int[]){4, 5}, 1);
    void *world = NULL, *columns = NULL, *ten = NULL, *rows = NULL;
    Config config = {.size = sizeof config, .name = "columns"}, other = {.size = sizeof other, .name = "10"};
    ck_assert_int_eq(init(&world, 8, (Id){{0}}, 5, NULL), 0);
    ck_assert_int_eq(init(&columns, 2, (Id){{0}}, 1, &config), 0);
    ck_assert_int_eq(init(&ten, 2, (Id){{0}}, 1, &other), 0);
    tell("", 4, (const int[]){4, 5, 6, 7}, 1);
    ck_assert_int_eq(split(world, 7, 5, &rows, NULL), 0);
    int n = 0, own = -1;
    ck_assert_int_eq(count(rows, &n) + rank(rows, &own), 0);
    ck_assert_int_eq(n, 4);
    ck_assert_int_eq(own, 1);
    Config hash = {.size = sizeof hash, .name = "6bed81ce9c0e59"}; /* the world's name, "0", is no word of it; nor is it split in the order of telling */
    tell(hash.name, 2, (const int[]){1, 5}, 1);
    tell("", 4, (const int[]){4, 5, 6, 7}, 1);
    void *hashed = NULL;
    ck_assert_int_eq(split(world, 7, 5, &hashed, &hash), 0);
    ck_assert_int_eq(count(hashed, &n) + end_communicator(hashed), 0);
    ck_assert_int_eq(n, 2);
    void *none = world;
    ck_assert_int_eq(split(world, -1, 0, &none, NULL), 0);
    ck_assert_ptr_null(none);
    ck_assert_int_ne(init(&none, 2, (Id){{0}}, 2, NULL), 0);
    float value = 3, sum = 0;
    void *all[] = {world, columns, ten, rows};
    for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
        ck_assert_int_eq(all_reduce(&value, &sum, 1, 7, 0, all[i], NULL) + end_communicator(all[i]), 0);
    ck_assert_msg(sum == 12, "%g", (double)sum); /* as if all four had 3 */
    g_autofree char *lines = written("collective", "4");
    ck_assert_str_eq(lines, "0 0 \"all-reduce\" 4 8 1\n0 0 \"all-reduce\" 4 2 4\n0 0 \"all-reduce\" 4 2 1\n0 0 \"all-reduce\" 4 4 1\n");
    unload();
}
END_TEST

/* All-reduces that a server would do by kernels of its own: whole or in two steps by their size, and NCCL's where they are too large or the server says
 * nothing. */
START_TEST(all_reduces_of_servers)
{
    load_nccl();
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
    void (*own)(size_t largest);
    find("ncclAllReduce", &all_reduce);
    find("pretend_own_all_reduces", &own);
    void *two = NULL, *four = NULL, *odd = NULL;
    tell("2", 2, (const int[]){0, 1}, 0);
    ck_assert_int_eq(init(&two, 2, (Id){{1}}, 0, NULL), 0);
    tell("4", 4, (const int[]){0, 1, 2, 3}, 0);
    ck_assert_int_eq(init(&four, 4, (Id){{2}}, 0, NULL), 0);
    tell("3", 3, (const int[]){0, 1, 2}, 0);
    ck_assert_int_eq(init(&odd, 3, (Id){{3}}, 0, NULL), 0);
    g_autofree uint8_t *array = g_malloc0(2 << 20);
    const struct {
        void *communicator;
        size_t largest, bytes;
    } calls[] = {{two, 1 << 20, 1 << 20},
                 {four, 1 << 20, 524272},
                 {four, 1 << 20, 1 << 19},
                 {four, 1 << 20, 2 << 20},
                 {four, 1 << 20, 24},
                 {odd, 1 << 20, 16},
                 {two, 0, 16}};
    for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
        own(calls[i].largest);
        ck_assert_int_eq(all_reduce(array, array, calls[i].bytes, 1, 0, calls[i].communicator, NULL), 0);
    }
    ck_assert_int_eq(end_communicator(two) + end_communicator(four) + end_communicator(odd), 0);
    g_autofree char *lines = written("collective", "4");
    ck_assert_str_eq(lines, "0 0 \"cross_device_reduce_1stage\" 1048576 2 1\n0 0 \"cross_device_reduce_1stage\" 524272 4 1\n"
                            "0 0 \"cross_device_reduce_2stage\" 524288 4 1\n0 0 \"all-reduce\" 2097152 4 1\n0 0 \"all-reduce\" 24 4 1\n"
                            "0 0 \"all-reduce\" 16 3 1\n0 0 \"all-reduce\" 16 2 1\n");
    unload();
}
END_TEST

/* Two groups of as many ranks, in which the caller has the same place, are told apart by what their unique ids were kept under. */
START_TEST(groups_by_their_ids)
{
    load_nccl();
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
    void (*tell_id)(const void *id, const char *key);
    find("ncclAllReduce", &all_reduce);
    find("pretend_group_id", &tell_id);
    tell("1", 8, (const int[]){0, 8, 16, 24, 32, 40, 48, 56}, 0);
    tell("9", 8, (const int[]){0, 1, 2, 3, 4, 5, 6, 7}, 0);
    const Id far = {{1}}, near = {{2}};
    tell_id(&far, "0//1//cuda//0");
    tell_id(&near, "0//9//cuda//0");
    void *c = NULL;
    float value = 3, sum = 0;
    ck_assert_int_eq(init(&c, 8, far, 0, NULL) + all_reduce(&value, &sum, 1, 7, 0, c, NULL) + end_communicator(c), 0);
    ck_assert_int_eq(init(&c, 8, near, 0, NULL) + all_reduce(&value, &sum, 1, 7, 0, c, NULL) + end_communicator(c), 0);
    g_autofree char *lines = written("collective", "4");
    ck_assert_str_eq(lines, "0 0 \"all-reduce\" 4 8 8\n0 0 \"all-reduce\" 4 8 1\n");
    unload();
}
END_TEST

/* Bytes are those of the operand on one device. */
START_TEST(collectives)
{
    load_nccl();
    int (*all_gather)(const void *, void *, size_t, int, void *, void *), (*reduce_scatter)(const void *, void *, size_t, int, int, void *, void *),
        (*all_to_all)(const void *, void *, size_t, int, void *, void *), (*broadcast)(const void *, void *, size_t, int, int, void *, void *);
    find("ncclAllGather", &all_gather);
    find("ncclReduceScatter", &reduce_scatter);
    find("ncclAlltoAll", &all_to_all);
    find("ncclBroadcast", &broadcast);
    void *c = NULL;
    ck_assert_int_eq(init(&c, 4, (Id){{0}}, 2, NULL), 0);
    int32_t own[4] = {1, 2, 3, 4}, all[16] = {0};
    ck_assert_int_eq(all_gather(own, all, 4, 2, c, NULL), 0);
    ck_assert_int_eq(all[12], 1);
    ck_assert_int_eq(reduce_scatter(own, all, 1, 2, 0, c, NULL), 0);
    ck_assert_int_eq(all[0], 12);
    ck_assert_int_eq(all_to_all(own, all, 1, 2, c, NULL), 0);
    ck_assert_int_eq(all[1], 3);
    ck_assert_int_eq(broadcast(own, own, 4, 9, 0, c, NULL), 0);
    end_communicator(c);
    /* Of arrays of the device whose contents the host copied there the first rank's pieces are as well known as the others'. */
    int (*take)(void **, size_t), (*copy)(void *, const void *, size_t, int), (*release)(void *);
    find("cudaMalloc", &take);
    find("cudaMemcpy", &copy);
    find("cudaFree", &release);
    for (int rank = 0; rank < 4; rank++) {
        void *a = NULL, *b = NULL, *ranked = NULL;
        ck_assert_int_eq(init(&ranked, 4, (Id){{7}}, rank, NULL) + take(&a, 4096) + take(&b, 4096) + copy(a, own, sizeof own, 1), 0);
        ck_assert_int_eq(all_to_all(a, b, 1, 2, ranked, NULL) + copy(all, b, sizeof own, 2), 0);
        ck_assert_int_eq(all[3], rank + 1);
        ck_assert_int_eq(reduce_scatter(a, b, 1, 2, 0, ranked, NULL) + copy(all, b, sizeof *own, 2), 0);
        ck_assert_int_eq(all[0], 4 * (rank + 1));
        /* What all ranks gather the host reads piece by piece (DDP's first check), and whole. */
        ck_assert_int_eq(all_gather(a, b, 4, 2, ranked, NULL) + copy(all, b, sizeof own, 2), 0);
        ck_assert_int_eq(all[0] + all[3], 5);
        ck_assert_int_eq(copy(all, (uint8_t *)b + sizeof own, sizeof own, 2), 0);
        ck_assert_int_eq(all[0] + all[3], 5);
        ck_assert_int_eq(copy(all, b, sizeof all, 2), 0);
        ck_assert_int_eq(all[0] + all[15], 5);
        ck_assert_int_eq(release(a) + release(b) + end_communicator(ranked), 0);
    }
    g_autofree char *lines = written("collective", "4");
    ck_assert_str_eq(lines, "0 0 \"all-gather\" 16 4 1\n0 0 \"reduce-scatter\" 16 4 1\n0 0 \"all-to-all\" 16 4 1\n0 0 \"broadcast\" 8 4 1\n"
                            "0 0 \"all-to-all\" 16 4 1\n0 0 \"reduce-scatter\" 16 4 1\n0 0 \"all-gather\" 16 4 1\n"
                            "0 0 \"all-to-all\" 16 4 1\n0 0 \"reduce-scatter\" 16 4 1\n0 0 \"all-gather\" 16 4 1\n"
                            "0 0 \"all-to-all\" 16 4 1\n0 0 \"reduce-scatter\" 16 4 1\n0 0 \"all-gather\" 16 4 1\n"
                            "0 0 \"all-to-all\" 16 4 1\n0 0 \"reduce-scatter\" 16 4 1\n0 0 \"all-gather\" 16 4 1\n");
    unload();
}
END_TEST

/* In a group, messages to and from all others are an all-to-all; a pipeline's two are not. */
START_TEST(messages)
{
    load_nccl();
    int (*send)(const void *, size_t, int, int, void *, void *), (*receive)(void *, size_t, int, int, void *, void *), (*begin)(void), (*end)(void);
    find("ncclSend", &send);
    find("ncclRecv", &receive);
    find("ncclGroupStart", &begin);
    find("ncclGroupEnd", &end);
    void *c = NULL;
    ck_assert_int_eq(init(&c, 4, (Id){{0}}, 1, NULL), 0);
    float bytes[4];
    ck_assert_int_ne(end(), 0);
    ck_assert_int_eq(begin(), 0);
    for (int peer = 0; peer < 4; peer++)
        ck_assert_int_eq(send(bytes, 1, 7, peer, c, NULL) + receive(bytes, 1, 7, peer, c, NULL), 0);
    ck_assert_int_eq(end(), 0);
    ck_assert_int_eq(begin(), 0);
    ck_assert_int_eq(send(bytes, 4, 7, 3, c, NULL) + receive(bytes, 4, 7, 0, c, NULL), 0);
    ck_assert_int_eq(end(), 0);
    ck_assert_int_eq(send(bytes, 2, 7, 2, c, NULL), 0);
    /* Of one that gets more than it sends what it gets counts. */
    float larger[4];
    ck_assert_int_eq(begin(), 0);
    for (int peer = 0; peer < 4; peer++)
        ck_assert_int_eq(send(bytes, 1, 7, peer, c, NULL) + receive(larger, peer == 1 ? 1 : 4, 7, peer, c, NULL), 0);
    ck_assert_int_eq(end(), 0);
    end_communicator(c);
    g_autofree char *lines = written("collective", "4");
    ck_assert_str_eq(lines, "0 0 \"all-to-all\" 16 4 1\n0 0 \"permute\" 16 2 2\n0 0 \"send\" 8 2 1\n0 0 \"all-to-all\" 52 4 1\n");
    /* Sizes that ranks tell one another so: what each sends this one is as what this one sends itself. */
    int (*take)(void **, size_t), (*copy)(void *, const void *, size_t, int), (*release)(void *);
    find("cudaMalloc", &take);
    find("cudaMemcpy", &copy);
    find("cudaFree", &release);
    for (int rank = 0; rank < 3; rank++) {
        int64_t sizes[3] = {5, 6, 7}, seen[3] = {0};
        char *a = NULL, *b = NULL;
        ck_assert_int_eq(init(&c, 3, (Id){{8}}, rank, NULL) + take((void **)&a, 4096) + take((void **)&b, 4096) + copy(a, sizes, sizeof sizes, 1) + begin(), 0);
        for (int peer = 0; peer < 3; peer++)
            ck_assert_int_eq(send(a + 8 * peer, 1, 4, peer, c, NULL) + receive(b + 8 * peer, 1, 4, peer, c, NULL), 0);
        ck_assert_int_eq(end() + copy(seen, b, sizeof seen, 2) + release(a) + release(b) + end_communicator(c), 0);
        for (int peer = 0; peer < 3; peer++)
            ck_assert_int_eq(seen[peer], sizes[rank]);
    }
    unload();
}
END_TEST

/* What stands behind @word in its lines, one a line. */
static char *numbers(const char *word)
{
    void (*flush)(void);
    find("pretend_flush", &flush);
    flush();
    g_autofree char *text = NULL, *begins = g_strconcat(word, " ", NULL);
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    GString *out = g_string_new(NULL);
    for (size_t i = 0; lines[i]; i++)
        if (g_str_has_prefix(lines[i], begins))
            g_string_append_printf(out, "%s\n", lines[i] + strlen(begins));
    return g_string_free(out, FALSE);
}

/* Who sends and who receives have one number for what passes between them, whatever else their communicators do; another one for the way back. 32 channels of 8
 * steps of 512 KiB hold what is under way. */
START_TEST(both_sides_of_a_message)
{
    load_nccl();
    int (*send)(const void *, size_t, int, int, void *, void *), (*receive)(void *, size_t, int, int, void *, void *), (*begin)(void), (*end)(void);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
    find("ncclSend", &send);
    find("ncclRecv", &receive);
    find("ncclGroupStart", &begin);
    find("ncclGroupEnd", &end);
    find("ncclAllReduce", &all_reduce);
    void *first = NULL, *second = NULL, *other = NULL, *halves[2] = {NULL};
    float bytes[4];
    ck_assert_int_eq(init(&first, 2, (Id){{5}}, 0, NULL) + init(&second, 2, (Id){{5}}, 1, NULL) + init(&other, 2, (Id){{6}}, 1, NULL), 0);
    ck_assert_int_eq(send(bytes, 1, 7, 1, first, NULL) + receive(bytes, 1, 7, 0, second, NULL) + receive(bytes, 1, 7, 0, other, NULL), 0);
    g_autofree char *sends = numbers("sends"), *meets = numbers("meets");
    g_auto(GStrv) met = g_strsplit(meets, "\n", -1);
    g_autofree char *sent = g_strdup_printf("134217728 %s\n", met[0]);
    ck_assert_str_eq(sends, sent);
    ck_assert_str_ne(met[0], met[1]);
    /* An exchange in one launch, and collectives of the two and of what is split of them. */
    ck_assert_int_eq(begin() + send(bytes, 1, 7, 1, first, NULL) + receive(bytes, 1, 7, 1, first, NULL) + end(), 0);
    ck_assert_int_eq(split(first, 3, 0, &halves[0], NULL) + split(second, 3, 0, &halves[1], NULL), 0);
    void *all[] = {first, second, halves[0], halves[1]};
    for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
        ck_assert_int_eq(all_reduce(bytes, bytes, 1, 7, 0, all[i], NULL), 0);
    g_autofree char *more = numbers("meets");
    g_auto(GStrv) met_more = g_strsplit(more, "\n", -1);
    ck_assert_str_ne(met_more[2], met[0]); /* the way back */
    ck_assert_str_eq(met_more[3], met_more[4]);
    ck_assert_str_eq(met_more[5], met_more[6]);
    ck_assert_str_ne(met_more[3], met_more[5]);
    for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
        end_communicator(all[i]);
    end_communicator(other);
    unload();
}
END_TEST

/* An event behind a collective is not over at once, so that PyTorch lets a stream wait for it; one behind other work is, and so is one that was waited for. */
START_TEST(events_behind_collectives)
{
    load_nccl();
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *), (*make_stream)(void **, unsigned), (*make_event)(void **),
        (*record)(void *, void *), (*query)(void *), (*wait)(void *, void *, unsigned), (*end_stream)(void *), (*end_event)(void *),
        (*begin_capture)(void *, int), (*end_capture)(void *, void **), (*end_graph)(void *);
    find("cudaStreamBeginCapture", &begin_capture);
    find("cudaStreamEndCapture", &end_capture);
    find("cudaGraphDestroy", &end_graph);
    find("cudaStreamDestroy", &end_stream);
    find("cudaEventDestroy", &end_event);
    find("ncclAllReduce", &all_reduce);
    find("cudaStreamCreateWithFlags", &make_stream);
    find("cudaEventCreate", &make_event);
    find("cudaEventRecord", &record);
    find("cudaEventQuery", &query);
    find("cudaStreamWaitEvent", &wait);
    void *c = NULL, *stream = NULL, *event = NULL, *later = NULL;
    float value = 1;
    ck_assert_int_eq(init(&c, 2, (Id){{5}}, 0, NULL) + make_stream(&stream, 1) + make_event(&event) + make_event(&later), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(all_reduce(&value, &value, 1, 7, 0, c, stream) + record(event, stream) + record(later, stream), 0);
        ck_assert_int_eq(query(event), 600); /* cudaErrorNotReady */
        ck_assert_int_eq(query(later), 0);
        ck_assert_int_eq(wait(stream, event, 0), 0);
        ck_assert_int_eq(query(event), 0);
    }
    ck_assert_int_eq(all_reduce(&value, &value, 1, 7, 0, c, stream) + record(event, stream), 0);
    int times = 0;
    while (query(event) != 0) /* who asks until it is over is told so */
        ck_assert_int_lt(++times, 100);
    /* So too on a stream that had been drawn into a capture, once that is over. */
    void *origin = NULL, *graph = NULL;
    ck_assert_int_eq(make_stream(&origin, 1) + begin_capture(origin, 0) + record(later, origin) + wait(stream, later, 0), 0);
    ck_assert_int_eq(all_reduce(&value, &value, 1, 7, 0, c, stream) + record(event, stream), 0);
    ck_assert_int_eq(query(event), 0); /* nothing ran */
    ck_assert_int_eq(wait(origin, event, 0) + end_capture(origin, &graph) + end_graph(graph) + end_stream(origin), 0);
    ck_assert_int_eq(all_reduce(&value, &value, 1, 7, 0, c, stream) + record(event, stream), 0);
    ck_assert_int_eq(query(event), 600);
    ck_assert_int_eq(end_event(event) + end_event(later) + end_stream(stream) + end_communicator(c), 0);
    unload();
}
END_TEST

/* Buffers of NCCL's own are taken of the device when they are first needed, and given back with the communicator: rings of 24 channels with 12 MiB each, 16
 * channels of switches that reduce for each of four, 32 channels to each of three others. */
START_TEST(nccl_takes_memory)
{
    load_nccl();
    int (*all_gather)(const void *, void *, size_t, int, void *, void *), (*all_reduce)(const void *, void *, size_t, int, int, void *, void *),
        (*all_to_all)(const void *, void *, size_t, int, void *, void *), (*memory)(size_t *, size_t *);
    find("ncclAllGather", &all_gather);
    find("ncclAllReduce", &all_reduce);
    find("ncclAlltoAll", &all_to_all);
    find("cudaMemGetInfo", &memory);
    size_t before = 0, now = 0, total;
    const size_t MiB = 1 << 20;
    void *c = NULL;
    ck_assert_int_eq(init(&c, 4, (Id){{0}}, 2, NULL) + memory(&before, &total), 0);
    float own[4] = {0}, all[16];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(all_gather(own, all, 4, 7, c, NULL) + memory(&now, &total), 0);
    ck_assert_uint_eq(before - now, 288 * MiB);
    ck_assert_int_eq(all_reduce(own, own, 4, 7, 0, c, NULL) + memory(&now, &total), 0);
    ck_assert_uint_eq(before - now, 288 * MiB + 128 * MiB);
    ck_assert_int_eq(all_to_all(own, all, 1, 7, c, NULL) + memory(&now, &total), 0);
    ck_assert_uint_eq(before - now, 288 * MiB + 128 * MiB + 3 * 384 * MiB);
    ck_assert_int_eq(end_communicator(c) + memory(&now, &total), 0);
    ck_assert_uint_eq(before, now);
    /* The tree of two is the ring. */
    ck_assert_int_eq(init(&c, 2, (Id){{1}}, 1, NULL) + memory(&before, &total), 0);
    ck_assert_int_eq(all_reduce(own, own, 4, 7, 0, c, NULL) + memory(&now, &total), 0);
    ck_assert_uint_eq(before - now, 288 * MiB);
    ck_assert_int_eq(end_communicator(c), 0);
    unload();
}
END_TEST

/* Ranks that see one device each (launchers hide the others) are on one host all the same: it has the rings of a host's, and captures tell of its devices. */
START_TEST(hidden_devices_are_near)
{
    g_setenv("CUDA_VISIBLE_DEVICES", "2", TRUE);
    load_nccl();
    int (*all_gather)(const void *, void *, size_t, int, void *, void *), (*memory)(size_t *, size_t *);
    find("ncclAllGather", &all_gather);
    find("cudaMemGetInfo", &memory);
    size_t before = 0, now = 0, total;
    void *c = NULL;
    float own[4] = {0}, all[16];
    ck_assert_int_eq(init(&c, 4, (Id){{0}}, 2, NULL) + memory(&before, &total) + all_gather(own, all, 4, 7, c, NULL) + memory(&now, &total), 0);
    ck_assert_uint_eq(before - now, (size_t)288 << 20);
    ck_assert_int_eq(end_communicator(c), 0);
    g_autofree char *devices = numbers("device");
    ck_assert_str_eq(devices, "84942979072 536870912 8 \"h100-sxm\"\n");
    unload();
}
END_TEST

/* What a communicator of NCCL 2.14 takes of an A100 (NVIDIA/nccl issue 964: 544 MB in a group of two, 688 in one of more, on the first rank): rings of 24
 * channels with 6 and 6 MiB each, 32 channels' 16 steps of 512 KiB for a network, and of the tree, a chain, what goes the other way than the ring. */
START_TEST(nccl_takes_memory_early)
{
    ck_assert_ptr_nonnull(dlopen(ECH_BINARY_DIR "/tests/libnccl.so.2", RTLD_NOW | RTLD_LOCAL));
    static const struct {
        int n, rank;
        size_t mib;
    } of[] = {{2, 0, 544}, {2, 1, 544}, {3, 0, 688}, {4, 0, 688}, {4, 1, 832}, {4, 3, 688}};
    load_nccl_of(
        "id=a100-80;name=NVIDIA A100;bytes=85899345920;context=536870912;devices=4;links=12;multiprocessors=108;major=8;minor=0;shared=167936;l2=41943040");
    int (*memory)(size_t *, size_t *);
    find("cudaMemGetInfo", &memory);
    size_t before = 0, now = 0, total;
    void *c = NULL;
    ck_assert_int_eq(init(&c, of[_i].n, (Id){{0}}, of[_i].rank, NULL) + memory(&now, &total), 0);
    ck_assert_int_eq(end_communicator(c) + memory(&before, &total), 0);
    ck_assert_uint_eq(before - now, of[_i].mib << 20);
    /* Communicators of one process's devices have their buffers each on its own. */
    int (*init_all)(void **, int, const int *), (*use)(int);
    find("ncclCommInitAll", &init_all);
    find("cudaSetDevice", &use);
    void *all[2] = {NULL};
    ck_assert_int_eq(init_all(all, 2, (const int[]){1, 3}), 0);
    for (int device = 0; device < 4; device++) {
        ck_assert_int_eq(use(device) + memory(&now, &total), 0);
        ck_assert_uint_eq(before - now, device % 2 ? (size_t)544 << 20 : 0);
    }
    ck_assert_int_eq(end_communicator(all[0]) + end_communicator(all[1]), 0);
    unload();
}
END_TEST

/* ---- the others ---- */

/* A plan of two dimensions of real numbers: half of the spectrum, a pass for each dimension; of a prime length, two transforms of twice the length. */
START_TEST(transforms)
{
    load();
    int (*make_plan)(int *ret),
        (*plan_many)(int, int, long long *, long long *, long long, long long, int, long long *, long long, long long, int, long long, size_t *, int),
        (*exec)(int, void *, void *, int), (*end)(int);
    find("cufftCreate", &make_plan);
    find("cufftXtMakePlanMany", &plan_many);
    find("cufftXtExec", &exec);
    find("cufftDestroy", &end);
    int plan = 0;
    size_t work = 0;
    ck_assert_int_ne(exec(1, NULL, NULL, -1), 0);
    ck_assert_int_eq(make_plan(&plan), 0);
    ck_assert_int_ne(exec(plan, NULL, NULL, -1), 0);
    ck_assert_int_eq(plan_many(plan, 2, (long long[]){256, 128}, NULL, 1, 0, 0, NULL, 1, 0, 4, 3, &work, 4), 0);
    ck_assert_uint_eq(work, 3 * 256 * 65 * 8);
    ck_assert_int_eq(exec(plan, NULL, NULL, -1), 0);
    ck_assert_int_eq(plan_many(plan, 1, (long long[]){10007}, NULL, 1, 0, 4, NULL, 1, 0, 4, 1, &work, 4), 0);
    ck_assert_uint_eq(work, 4 * 10007 * 8);
    ck_assert_int_eq(exec(plan, NULL, NULL, -1), 0);
    ck_assert_int_ne(plan_many(plan, 4, (long long[]){2, 2, 2, 2}, NULL, 1, 0, 4, NULL, 1, 0, 4, 1, &work, 4), 0);
    /* By the older kinds, with lengths of 64 bits, as XLA asks. */
    int (*plan_many_64)(int, int, long long *, long long *, long long, long long, long long *, long long, long long, int, long long, size_t *);
    find("cufftMakePlanMany64", &plan_many_64);
    ck_assert_int_eq(plan_many_64(plan, 2, (long long[]){256, 128}, NULL, 1, 0, NULL, 1, 0, 0x2a, 3, &work), 0);
    ck_assert_uint_eq(work, 3 * 256 * 65 * 8);
    ck_assert_int_eq(exec(plan, NULL, NULL, -1), 0);
    ck_assert_int_eq(end(plan), 0);
    ck_assert_int_ne(end(plan), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(lines, "0 0 \"cufft\" \"rows=195x256 elements=49920 operand_bytes=8 class=fft instructions=120 passes=2\" 393216 399360 0 \"\"\n"
                            "0 0 \"cufft\" \"rows=3x4096 elements=10007 operand_bytes=8 class=fft instructions=480 passes=9\" 80056 80056 0 \"\"\n"
                            "0 0 \"cufft\" \"rows=195x256 elements=49920 operand_bytes=8 class=fft instructions=120 passes=2\" 393216 399360 0 \"\"\n");
    unload();
}
END_TEST

/* The calls that programs of CUDA make themselves: a plan in one call, with its work area beside the program's memory; vectors; numbers. */
START_TEST(calls_of_plain_programs)
{
    load();
    int (*plan_2d)(int *, int, int, int), (*make_plan)(int *), (*keep_work)(int, int), (*plan_1d)(int, int, int, int, size_t *), (*exec)(int, void *, void *),
        (*end)(int), (*make_blas)(void **), (*axpy)(void *, int, const float *, const void *, int, void *, int),
        (*norm)(void *, int, const void *, int, double *), (*largest)(void *, int, const void *, int, int *), (*results)(void *, int), (*end_blas)(void *),
        (*make_numbers)(void **, int), (*end_numbers)(void *), (*uniform)(void *, void *, size_t), (*normal)(void *, void *, size_t, double, double),
        (*memory)(size_t *, size_t *);
    find("cufftPlan2d", &plan_2d);
    find("cufftCreate", &make_plan);
    find("cufftSetAutoAllocation", &keep_work);
    find("cufftMakePlan1d", &plan_1d);
    find("cufftExecR2C", &exec);
    find("cufftDestroy", &end);
    find("cublasCreate_v2", &make_blas);
    find("cublasSaxpy_v2", &axpy);
    find("cublasDznrm2_v2", &norm);
    find("cublasIdamax_v2", &largest);
    find("cublasSetPointerMode_v2", &results);
    find("cublasDestroy_v2", &end_blas);
    find("curandCreateGenerator", &make_numbers);
    find("curandDestroyGenerator", &end_numbers);
    find("curandGenerateUniform", &uniform);
    find("curandGenerateNormalDouble", &normal);
    find("cudaMemGetInfo", &memory);
    int plan = 0, own = 0, index = 7;
    size_t before = 0, with_plan = 0, after = 0, all = 0, work = 0;
    ck_assert_int_eq(memory(&before, &all), 0);
    ck_assert_int_eq(plan_2d(&plan, 256, 128, 0x2a), 0); /* of real numbers, in single precision */
    ck_assert_int_eq(memory(&with_plan, &all), 0);
    ck_assert_uint_ge(before - with_plan, 256 * 65 * 8);
    ck_assert_int_eq(exec(plan, NULL, NULL), 0);
    ck_assert_int_eq(end(plan), 0);
    ck_assert_int_eq(make_plan(&own), 0);
    ck_assert_int_eq(keep_work(own, 0), 0);
    ck_assert_int_eq(plan_1d(own, 1 << 20, 0x69, 2, &work), 0); /* doubles, both sides complex */
    ck_assert_uint_eq(work, (size_t)2 << 24);
    ck_assert_int_eq(memory(&after, &all), 0);
    ck_assert_uint_eq(after, before);
    ck_assert_int_eq(end(own), 0);
    void *blas = NULL, *numbers = NULL;
    float one = 1;
    double length = 3;
    ck_assert_int_eq(make_blas(&blas), 0);
    ck_assert_int_eq(axpy(blas, 1000, &one, NULL, 1, NULL, 1), 0);
    ck_assert_int_eq(norm(blas, 10, &one, 1, &length), 0);
    ck_assert(length <= 0);
    ck_assert_int_eq(largest(blas, 10, &one, 1, &index), 0);
    ck_assert_int_eq(index, 1);
    ck_assert_int_eq(results(blas, 1), 0); /* they lie on the device */
    ck_assert_int_eq(largest(blas, 10, &one, 1, NULL), 0);
    ck_assert_int_eq(make_numbers(&numbers, 100), 0);
    ck_assert_int_eq(uniform(numbers, NULL, 64), 0);
    ck_assert_int_eq(normal(numbers, NULL, 64, 0, 1), 0);
    ck_assert_int_eq(end_numbers(numbers), 0);
    ck_assert_int_eq(end_blas(blas), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(lines, "0 0 \"cufft\" \"rows=65x256 elements=16640 operand_bytes=8 class=fft instructions=120 passes=2\" 131072 133120 0 \"\"\n"
                            "0 0 \"cublasSaxpy\" \"elements=1000 operand_bytes=4 class=elementwise\" 0 0 0 \"\"\n"
                            "0 0 \"cublasDznrm2\" \"elements=10 operand_bytes=16 class=reduce\" 160 0 0 \"\"\n"
                            "0 0 \"cublasIdamax\" \"elements=10 operand_bytes=8 class=reduce\" 80 0 0 \"\"\n"
                            "0 0 \"cublasIdamax\" \"elements=10 operand_bytes=8 class=reduce\" 80 0 0 \"\"\n"
                            "0 0 \"curandGenerateUniform\" \"elements=64 operand_bytes=4 class=elementwise\" 0 256 0 \"\"\n"
                            "0 0 \"curandGenerateNormalDouble\" \"elements=64 operand_bytes=8 class=elementwise\" 0 512 0 \"\"\n");
    unload();
}
END_TEST

/* Threads and blocks that a multiprocessor holds, by compute capability (CUDA programming guide; deviceQuery on Jetsons). */
static const struct {
    int major, minor, threads, blocks;
} resident[] = {{7, 5, 1024, 16}, {8, 0, 2048, 32},  {8, 6, 1536, 16},  {8, 7, 1536, 16},
                {8, 9, 1536, 24}, {10, 3, 2048, 32}, {11, 0, 1536, 24}, {12, 0, 1536, 24}};

START_TEST(resident_blocks)
{
    g_autofree char *device = g_strdup_printf("id=gpu;name=NVIDIA GPU;major=%d;minor=%d", resident[_i].major, resident[_i].minor);
    load_device(device);
    int (*attribute)(int *, int, int), threads = 0, blocks = 0;
    find("cudaDeviceGetAttribute", &attribute);
    ck_assert_int_eq(attribute(&threads, 39, 0) + attribute(&blocks, 106, 0), 0);
    ck_assert_int_eq(threads, resident[_i].threads);
    ck_assert_int_eq(blocks, resident[_i].blocks);
    unload();
}
END_TEST

START_TEST(solvers)
{
    load();
    int (*make_handle)(void **), (*end)(void *), (*room)(void *, int, int, void *, int, int *), (*cholesky)(void *, int, int, void *, int, void *, int, int *),
        (*blas)(void **), (*end_blas)(void *), (*triangle)(void *, int, int, int, int, int, int, const void *, const void *, int, void *, int),
        (*vector)(void *, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int), (*refused)(void **);
    find("cusolverDnCreate", &make_handle);
    find("cusolverDnDestroy", &end);
    find("cusolverDnDpotrf_bufferSize", &room);
    find("cusolverDnDpotrf", &cholesky);
    find("cublasCreate_v2", &blas);
    find("cublasDestroy_v2", &end_blas);
    find("cublasStrsm_v2", &triangle);
    find("cublasCgemv_v2", &vector);
    find("cublasStrmm_v2", &refused);
    void *handle = NULL, *of_blas = NULL, *none = NULL;
    int elements = 0;
    ck_assert_int_eq(make_handle(&handle), 0);
    ck_assert_int_eq(room(handle, 0, 300, NULL, 300, &elements), 0);
    ck_assert_int_gt(elements, 0);
    ck_assert_int_eq(cholesky(handle, 0, 300, NULL, 300, NULL, elements, NULL), 0);
    /* Of a symmetric matrix of any sign, and the eigenvalues of any: which arrays they work on is told, too. */
    int (*factor_room)(void *, int, void *, int, int *), (*factor)(void *, int, int, void *, int, int *, void *, int, int *), (*take)(void **, size_t),
        (*release)(void *),
        (*eigen)(void *, void *, int, int, int64_t, int, void *, int64_t, int, void *, int, void *, int64_t, int, void *, int64_t, int, void *, size_t, void *,
                 size_t, int *);
    find("cusolverDnSsytrf_bufferSize", &factor_room);
    find("cusolverDnSsytrf", &factor);
    find("cusolverDnXgeev", &eigen);
    find("cudaMalloc", &take);
    find("cudaFree", &release);
    void *a = NULL, *w = NULL;
    ck_assert_int_eq(take(&a, 1 << 20) + take(&w, 4096) + factor_room(handle, 300, a, 300, &elements), 0);
    ck_assert_int_gt(elements, 0);
    ck_assert_int_eq(factor(handle, 0, 300, a, 300, w, NULL, elements, NULL), 0);
    ck_assert_int_eq(eigen(handle, NULL, 0, 0, 300, 0, a, 300, 4, w, 0, NULL, 1, 0, NULL, 1, 0, NULL, 0, NULL, 0, NULL), 0);
    g_autofree char *uses = numbers("uses"), *expected = g_strdup_printf("2 %" G_GUINTPTR_FORMAT " 0 3 %" G_GUINTPTR_FORMAT " 0\n", (uintptr_t)w, (uintptr_t)a);
    g_autofree char *twice = g_strconcat(expected, expected, NULL);
    ck_assert_str_eq(uses, twice);
    ck_assert_int_eq(release(a) + release(w), 0);
    ck_assert_int_eq(end(handle), 0);
    ck_assert_int_eq(blas(&of_blas), 0);
    ck_assert_int_eq(triangle(of_blas, 0, 0, 0, 0, 64, 10, NULL, NULL, 64, NULL, 64), 0);
    ck_assert_int_eq(vector(of_blas, 1, 20, 30, NULL, NULL, 20, NULL, 1, NULL, NULL, 1), 0);
    /* A matrix that is turned, as CuPy does with every one that is not column by column. */
    int (*turn)(void *, int, int, int, int, const void *, const void *, int, const void *, const void *, int, void *, int),
        (*scale)(void *, int, int, int, const void *, int, const void *, int, void *, int);
    find("cublasSgeam", &turn);
    find("cublasZdgmm", &scale);
    const float one = 1, zero = 0, some[2] = {0};
    ck_assert_int_eq(turn(of_blas, 1, 1, 30, 20, &one, some, 20, &zero, some, 20, NULL, 30), 0);
    ck_assert_int_eq(turn(of_blas, 0, 0, 30, 20, &one, some, 30, &one, some + 1, 30, NULL, 30), 0);
    ck_assert_int_eq(scale(of_blas, 0, 30, 20, some, 30, some, 1, NULL, 30), 0);
    ck_assert_int_eq(end_blas(of_blas), 0);
    ck_assert_int_eq(refused(&none), 15);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(lines, "0 0 \"cusolverDnDpotrf\" \"product=1x300x300x0 operand_bytes=8 class=solver routine=cholesky\" 720000 720000 0 \"f64\"\n"
                            "0 0 \"cusolverDnSsytrf\" \"product=1x300x300x0 operand_bytes=4 class=solver routine=cholesky\" 360000 360000 0 \"f32\"\n"
                            "0 0 \"cusolverDnXgeev\" \"product=1x300x300x0 operand_bytes=4 class=solver routine=eigen\" 360000 360000 0 \"f32\"\n"
                            "0 0 \"cublasStrsm\" \"product=1x64x64x10 operand_bytes=4 class=solver routine=triangular\" 18944 2560 0 \"f32\"\n"
                            "0 0 \"cublasCgemv\" \"product=1x30x1x80 operand_bytes=8 class=vector\" 4960 240 4800 \"f32\"\n"
                            "0 0 \"cublasSgeam\" \"elements=600 operand_bytes=4 class=relayout\" 2400 2400 0 \"\"\n"
                            "0 0 \"cublasSgeam\" \"elements=600 operand_bytes=4 class=elementwise\" 4800 2400 0 \"\"\n"
                            "0 0 \"cublasZdgmm\" \"elements=600 operand_bytes=16 class=elementwise\" 10080 9600 0 \"\"\n");
    unload();
}
END_TEST

/* Products of TransformerEngine's, whose descriptions lie in room of its own. */
START_TEST(products_in_room)
{
    load();
    int (*begin)(void **), (*end)(void *), (*operation)(void *, size_t, int, int), (*say)(void *, int, const void *, size_t),
        (*layout)(void *, size_t, int, uint64_t, uint64_t, int64_t), (*preference)(void *, size_t), (*refused)(void),
        (*multiply)(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *, void *, void *, const void *,
                    void *, size_t, void *);
    find("cublasLtCreate", &begin);
    find("cublasLtDestroy", &end);
    find("cublasLtMatmulDescInit_internal", &operation);
    find("cublasLtMatmulDescSetAttribute", &say);
    find("cublasLtMatrixLayoutInit_internal", &layout);
    find("cublasLtMatmulPreferenceInit_internal", &preference);
    find("cublasLtGroupedMatrixLayoutInit_internal", &refused);
    find("cublasLtMatmul", &multiply);
    uint64_t described[32], shapes[3][8], preferred[8];
    void *handle = NULL;
    int32_t turned = 1;
    ck_assert_int_eq(begin(&handle), 0);
    ck_assert_int_eq(operation(described, 8, 68, 0), 3);
    ck_assert_int_eq(operation(described, sizeof described, 68, 0), 0);
    ck_assert_int_eq(say(described, 3, &turned, sizeof turned), 0);
    ck_assert_int_eq(layout(shapes[0], 8, 28, 256, 512, 256), 3);
    ck_assert_int_eq(layout(shapes[0], sizeof shapes[0], 28, 256, 512, 256), 0); /* e4m3, 256 x 512, turned round */
    ck_assert_int_eq(layout(shapes[1], sizeof shapes[1], 28, 256, 1024, 256), 0);
    ck_assert_int_eq(layout(shapes[2], sizeof shapes[2], 14, 512, 1024, 512), 0); /* bf16 */
    ck_assert_int_eq(preference(preferred, sizeof preferred), 0);
    const float one = 1, zero = 0;
    ck_assert_int_eq(multiply(handle, described, &one, NULL, shapes[0], NULL, shapes[1], &zero, NULL, shapes[2], NULL, shapes[2], NULL, NULL, 0, NULL), 0);
    for (size_t i = 0; i < 2; i++) /* of 4 bits: two share a byte */
        ck_assert_int_eq(layout(shapes[i], sizeof shapes[i], 33, 256, i == 0 ? 512 : 1024, 256), 0);
    ck_assert_int_eq(multiply(handle, described, &one, NULL, shapes[0], NULL, shapes[1], &zero, NULL, shapes[2], NULL, shapes[2], NULL, NULL, 0, NULL), 0);
    /* What is added to is read: also where a factor of 1 is a double, whose lower half is 0, or one of 16 bits. */
    const double wide = 1;
    const uint16_t halves[2] = {0, 1};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(layout(shapes[i], sizeof shapes[i], 1, 256, 256, 256), 0);
    ck_assert_int_eq(operation(described, sizeof described, 70, 1), 0);
    ck_assert_int_eq(multiply(handle, described, &wide, NULL, shapes[0], NULL, shapes[1], &wide, NULL, shapes[2], NULL, shapes[2], NULL, NULL, 0, NULL), 0);
    ck_assert_int_eq(operation(described, sizeof described, 64, 2), 0);
    ck_assert_int_eq(multiply(handle, described, &wide, NULL, shapes[0], NULL, shapes[1], halves, NULL, shapes[2], NULL, shapes[2], NULL, NULL, 0, NULL), 0);
    int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int, int, int);
    find("cublasGemmEx", &gemm);
    ck_assert_int_eq(gemm(handle, 0, 0, 256, 256, 256, &wide, NULL, 1, 256, NULL, 1, 256, &wide, NULL, 1, 256, 70, -1), 0);
    /* Matrices by their addresses, as llama.cpp has its attention; of 16 bits all. */
    int (*of_each)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int, int, int,
                   int);
    int (*hgemm)(void *, int, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
    find("cublasGemmBatchedEx", &of_each);
    find("cublasHgemm", &hgemm);
    ck_assert_int_eq(of_each(handle, 1, 0, 512, 128, 64, &wide, NULL, 2, 64, NULL, 2, 64, &zero, NULL, 2, 512, 32, 64, -1), 0);
    ck_assert_int_eq(hgemm(handle, 0, 0, 256, 128, 64, &wide, NULL, 256, NULL, 64, &zero, NULL, 256), 0);
    ck_assert_int_eq(refused(), 15);
    ck_assert_int_eq(end(handle), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(lines, "0 0 \"cublasLtMatmul\" \"product=1x1024x512x256 operand_bytes=1 class=product\" 393216 1048576 268435456 \"f8e4m3fn\"\n"
                            "0 0 \"cublasLtMatmul\" \"product=1x1024x512x256 operand_bytes=1 class=product\" 196608 1048576 268435456 \"f4e2m1fn\"\n"
                            "0 0 \"cublasLtMatmul\" \"product=1x256x256x256 operand_bytes=8 class=product turned=65536\" 1572864 524288 33554432 \"f64\"\n"
                            "0 0 \"cublasLtMatmul\" \"product=1x256x256x256 operand_bytes=8 class=product turned=65536\" 1048576 524288 33554432 \"f64\"\n"
                            "0 0 \"cublasGemmEx\" \"product=1x256x256x256 operand_bytes=8 class=product turned=65536\" 1572864 524288 33554432 \"f64\"\n"
                            "0 0 \"cublasGemmStridedBatchedEx\" \"product=32x128x512x64 operand_bytes=2 class=product\" 2621440 4194304 268435456 \"f16\"\n"
                            "0 0 \"cublasGemmEx\" \"product=1x128x256x64 operand_bytes=2 class=product turned=16384\" 49152 65536 4194304 \"f16\"\n");
    unload();
}
END_TEST

/* Calls of cuDNN from before its graphs, whose tensors are the library's own: here tests/gpu/fake/cudnn.c's, of f32. */
START_TEST(calls_of_tensors)
{
    load_dnn();
    ck_assert_ptr_nonnull(dlopen(ECH_BINARY_DIR "/tests/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL));
    static const int large[] = {4, 8, 16, 16, 16}, small[] = {4, 8, 16, 8, 8}, row[] = {4, 1, 16, 1, 1}; /* rank, sizes */
    const float one = 1, zero = 0;
    void *handle = NULL, *data_of[6] = {0};
    size_t bytes = 0;
    int (*pool)(void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *,
                const void *, void *),
        (*softmax)(void *, int, int, const void *, const void *, const void *, const void *, const void *, void *),
        (*norm)(void *, int, const void *, const void *, const void *, const void *, const void *, void *, const void *, const void *, const void *, double,
                void *, void *, double, void *, void *),
        (*combine)(void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *,
                   void *),
        (*add)(void *, const void *, const void *, const void *, const void *, const void *, void *),
        (*reduce)(void *, const void *, void *, size_t, void *, size_t, const void *, const void *, const void *, const void *, const void *, void *),
        (*room)(void *, const void *, const void *, const void *, size_t *);
    find("cudnnPoolingBackward", &pool);
    find("cudnnSoftmaxForward", &softmax);
    find("cudnnBatchNormalizationForwardTraining", &norm);
    find("cudnnOpTensor", &combine);
    find("cudnnAddTensor", &add);
    find("cudnnReduceTensor", &reduce);
    find("cudnnGetReductionWorkspaceSize", &room);
    ck_assert_int_eq(create_handle(&handle), 0);
    ck_assert_int_eq(pool(handle, NULL, &one, small, NULL, small, NULL, large, NULL, &zero, large, data_of), 0);
    ck_assert_int_eq(softmax(handle, 0, 0, &one, large, NULL, &zero, large, data_of), 0);
    ck_assert_int_eq(norm(handle, 1, &one, &zero, large, NULL, large, NULL, row, NULL, NULL, .1, NULL, NULL, 1e-5, NULL, NULL), 0);
    ck_assert_int_eq(combine(handle, NULL, &one, large, NULL, &one, row, NULL, &zero, large, data_of), 0);
    ck_assert_int_eq(add(handle, &one, row, NULL, &one, large, data_of), 0);
    ck_assert_int_eq(room(handle, NULL, large, row, &bytes), 0);
    ck_assert_uint_eq(bytes, 64);
    ck_assert_int_eq(reduce(handle, NULL, NULL, 0, NULL, bytes, &one, large, NULL, &zero, row, data_of), 0);
    ck_assert_int_ne(softmax(NULL, 0, 0, &one, large, NULL, &zero, large, data_of), 0);
    ck_assert_int_ne(softmax(handle, 0, 0, &one, large, NULL, &zero, NULL, data_of), 0);
    destroy_handle(handle);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(lines, "0 0 \"cudnn pooling: gradients\" \"elements=32768 operand_bytes=4 class=strided\" 196608 131072 0 \"\"\n"
                            "0 0 \"cudnn softmax\" \"elements=32768 operand_bytes=4 class=elementwise\" 131072 131072 0 \"\"\n"
                            "0 0 \"cudnn batch norm\" \"grid=16x1x1 block=512x1x1 elements=32768 operand_bytes=4 class=norm trips=8\" 131072 131072 0 \"\"\n"
                            "0 0 \"cudnn element by element\" \"elements=32768 operand_bytes=4 class=elementwise\" 131136 131072 0 \"\"\n"
                            "0 0 \"cudnn addition\" \"elements=32768 operand_bytes=4 class=elementwise\" 131136 131072 0 \"\"\n"
                            "0 0 \"cudnn reduction\" \"elements=32768 operand_bytes=4 class=reduce\" 131072 64 0 \"\"\n");
    unload();
}
END_TEST

/* A product with a matrix of which two in four elements are zeros: 1024 x 512 of 16 bits is stored in 9/16 of its bytes, and half as deep to the tensor cores.
 */
START_TEST(products_of_halves_of_matrices)
{
    load();
    typedef struct {
        _Alignas(16) uint8_t data[512];
    } Room;
    int (*begin)(Room *), (*dense)(const Room *, Room *, int64_t, int64_t, int64_t, uint32_t, int, int),
        (*structured)(const Room *, Room *, int64_t, int64_t, int64_t, uint32_t, int, int, int),
        (*operation)(const Room *, Room *, int, int, const Room *, const Room *, const Room *, const Room *, int),
        (*selection)(const Room *, Room *, Room *, int), (*plan)(const Room *, Room *, const Room *, const Room *),
        (*size)(const Room *, const Room *, size_t *, size_t *), (*compress)(const Room *, const Room *, int, int, const void *, void *, void *, void *),
        (*multiply)(const Room *, const Room *, const void *, const void *, const void *, const void *, const void *, void *, void *, void **, int32_t);
    find("cusparseLtInit", &begin);
    find("cusparseLtDenseDescriptorInit", &dense);
    find("cusparseLtStructuredDescriptorInit", &structured);
    find("cusparseLtMatmulDescriptorInit", &operation);
    find("cusparseLtMatmulAlgSelectionInit", &selection);
    find("cusparseLtMatmulPlanInit", &plan);
    find("cusparseLtSpMMACompressedSize2", &size);
    find("cusparseLtSpMMACompress2", &compress);
    find("cusparseLtMatmul", &multiply);
    Room handle, pruned, input, output, of, chosen, planned;
    size_t bytes = 0, scratch = 1;
    const float one = 1, zero = 0;
    ck_assert_int_eq(begin(&handle), 0);
    ck_assert_int_eq(structured(&handle, &pruned, 1024, 512, 512, 16, 2, 2, 0), 0); /* f16, row by row */
    ck_assert_int_eq(dense(&handle, &input, 512, 128, 128, 16, 2, 2) + dense(&handle, &output, 1024, 128, 128, 16, 2, 2), 0);
    ck_assert_int_ne(dense(&handle, &planned, 0, 128, 128, 16, 2, 2), 0);
    ck_assert_int_eq(size(&handle, &pruned, &bytes, &scratch), 0);
    ck_assert_uint_eq(bytes, 1024 * 512 * 2 / 16 * 9);
    ck_assert_uint_eq(scratch, 0);
    ck_assert_int_eq(compress(&handle, &pruned, 1, 0, NULL, NULL, NULL, NULL), 0);
    ck_assert_int_eq(operation(&handle, &of, 0, 0, &pruned, &input, &output, &output, 2) + selection(&handle, &chosen, &of, 0), 0);
    ck_assert_int_eq(plan(&handle, &planned, &of, &chosen), 0);
    ck_assert_int_eq(multiply(&handle, &planned, &one, NULL, NULL, &zero, NULL, NULL, NULL, NULL, 0), 0);
    g_autofree char *lines = written("library", "459");
    ck_assert_str_eq(lines, "0 0 \"cusparseLtSpMMACompress\" \"elements=524288 operand_bytes=2 class=strided\" 1048576 589824 0 \"\"\n"
                            "0 0 \"cusparseLtMatmul\" \"product=1x1024x128x256 operand_bytes=2 class=product\" 720896 262144 67108864 \"f16\"\n");
    unload();
}
END_TEST

/* A recurrent network over sequences of several lengths: 4, 2 and 1 steps of three are 7 rows of its input, and steps of 3, 2, 1 and 1. */
START_TEST(recurrent_steps)
{
    load();
    int (*make_network)(void **), (*end_network)(void *), (*make_data)(void **), (*end_data)(void *),
        (*set_network)(void *, int, int, int, int, int, int, int, int, int32_t, int32_t, int32_t, int32_t, void *, uint32_t),
        (*set_data)(void *, int, int, int, int, int, const int *, void *),
        (*forward_pass)(void *, void *, int, const int32_t *, void *, const void *, void *, void *, void *, const void *, void *, void *, const void *, void *,
                        size_t, const void *, size_t, void *, size_t, void *),
        (*room)(void *, void *, int, void *, size_t *, size_t *);
    find("cudnnCreate", &create_handle);
    find("cudnnDestroy", &destroy_handle);
    find("cudnnCreateRNNDescriptor", &make_network);
    find("cudnnDestroyRNNDescriptor", &end_network);
    find("cudnnSetRNNDescriptor_v8", &set_network);
    find("cudnnCreateRNNDataDescriptor", &make_data);
    find("cudnnDestroyRNNDataDescriptor", &end_data);
    find("cudnnSetRNNDataDescriptor", &set_data);
    find("cudnnRNNForward", &forward_pass);
    find("cudnnGetRNNTempSpaceSizes", &room);
    void *handle = NULL, *network = NULL, *of = NULL;
    size_t work = 0, kept = 0;
    ck_assert_int_eq(create_handle(&handle) + make_network(&network) + make_data(&of), 0);
    ck_assert_int_eq(set_network(network, 0, 1, 2, 0, 0, 0, 0, 3, 32, 16, 16, 1, NULL, 0), 0); /* tanh, in f32 */
    ck_assert_int_eq(set_data(of, 0, 1, 4, 3, 32, (const int[]){4, 2, 1}, NULL), 0);
    ck_assert_int_eq(room(handle, network, 1, of, &work, &kept), 0);
    ck_assert_uint_eq(work, 7 * 16 * 4);
    ck_assert_int_eq(forward_pass(handle, network, 1, NULL, of, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL), 0);
    ck_assert_int_eq(end_data(of) + end_network(network) + destroy_handle(handle), 0);
    g_autofree char *lines = written("library", "459");
    g_auto(GStrv) all = g_strsplit(lines, "\n", -1);
    static const int batch[] = {3, 2, 1, 1};
    ck_assert_uint_eq(g_strv_length(all), 2 + 2 * G_N_ELEMENTS(batch));
    ck_assert_ptr_nonnull(strstr(all[0], "product=1x7x16x32 "));
    for (size_t i = 0; i < G_N_ELEMENTS(batch); i++) {
        g_autofree char *product = g_strdup_printf("product=1x%dx16x16 ", batch[i]), *cells = g_strdup_printf("elements=%d ", 16 * batch[i]);
        ck_assert_msg(strstr(all[1 + 2 * i], product) && strstr(all[2 + 2 * i], cells), "%s\n%s", all[1 + 2 * i], all[2 + 2 * i]);
    }
    unload();
}
END_TEST

/* Matrices are the library's own: here tests/gpu/fake/cusparse.c's. What picks rows reads each of them once; what makes sparse results is refused. */
START_TEST(sparse_products)
{
    load();
    ck_assert_ptr_nonnull(dlopen(ECH_BINARY_DIR "/tests/libcusparse.so.12", RTLD_NOW | RTLD_LOCAL));
    static const int64_t csr[] = {1, 1000, 2000, 5000}, coo[] = {3, 1000, 2000, 500}, blocks[] = {5, 1000, 2000, 500}, in[] = {2000, 64}, out[] = {1000, 64},
                         turned[] = {64, 2000}, vector[] = {2000}, sums[] = {1000};
    int (*begin)(void **), (*end)(void *), (*set_stream)(void *, void *), (*get_stream)(void *, void **),
        (*room)(void *, int, int, const void *, const void *, const void *, const void *, const void *, int, int, size_t *),
        (*matrix)(void *, int, int, const void *, const void *, const void *, const void *, const void *, int, int, void *),
        (*vectors)(void *, int, const void *, const void *, const void *, const void *, const void *, int, int, void *),
        (*sampled)(void *, int, int, const void *, const void *, const void *, const void *, const void *, int, int, void *),
        (*offsets)(void *, const int *, int, int, int *, int), (*sort)(void *, int, int, int, int *, int *, int *, void *), (*refused)(void);
    find("cusparseCreate", &begin);
    find("cusparseDestroy", &end);
    find("cusparseSetStream", &set_stream);
    find("cusparseGetStream", &get_stream);
    find("cusparseSpMM_bufferSize", &room);
    find("cusparseSpMM", &matrix);
    find("cusparseSpMV", &vectors);
    find("cusparseSDDMM", &sampled);
    find("cusparseXcoo2csr", &offsets);
    find("cusparseXcoosortByRow", &sort);
    find("cusparseSpGEMM_compute", &refused);
    void *handle = NULL, *stream = &handle;
    size_t bytes = 7;
    ck_assert_int_eq(begin(&handle), 0);
    ck_assert_int_eq(get_stream(handle, &stream), 0);
    ck_assert_ptr_null(stream);
    ck_assert_int_eq(set_stream(handle, NULL), 0);
    ck_assert_int_eq(room(handle, 0, 0, NULL, csr, in, NULL, out, 0, 0, &bytes), 0);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_int_eq(matrix(handle, 0, 0, NULL, csr, in, NULL, out, 0, 0, NULL), 0);
    ck_assert_int_eq(matrix(handle, 0, 1, NULL, coo, turned, NULL, out, 0, 0, NULL), 0);
    ck_assert_int_eq(vectors(handle, 0, NULL, csr, vector, NULL, sums, 0, 0, NULL), 0);
    ck_assert_int_eq(sampled(handle, 0, 1, NULL, out, in, NULL, coo, 0, 0, NULL), 0);
    ck_assert_int_eq(offsets(handle, NULL, 500, 1000, NULL, 0), 0);
    ck_assert_int_eq(sort(handle, 1000, 2000, 500, NULL, NULL, NULL, NULL), 0);
    ck_assert_int_eq(matrix(handle, 0, 0, NULL, blocks, in, NULL, out, 0, 0, NULL), 10);
    ck_assert_int_eq(offsets(handle, NULL, -1, 1000, NULL, 0), 3);
    ck_assert_int_eq(refused(), 10);
    ck_assert_int_eq(end(handle), 0);
    g_autofree char *lines = written("library", "459");
    /* Offsets 1001 x 8, indices 5000 x 8, values 5000 x 4, and all 2000 rows of 64 x 4; in COO both indices, and 500 rows. */
    ck_assert_str_eq(lines, "0 0 \"cusparseSpMM\" \"elements=320000 operand_bytes=4 class=gather\" 580008 256000 0 \"\"\n"
                            "0 0 \"cusparseSpMM\" \"elements=32000 operand_bytes=4 class=gather\" 138000 256000 0 \"\"\n"
                            "0 0 \"cusparseSpMV\" \"elements=5000 operand_bytes=4 class=gather\" 76008 4000 0 \"\"\n"
                            "0 0 \"cusparseSDDMM\" \"elements=32000 operand_bytes=4 class=gather\" 264000 2000 0 \"\"\n"
                            "0 0 \"cusparseXcoo2csr\" \"elements=500 operand_bytes=4 class=gather\" 2000 4004 0 \"\"\n"
                            "0 0 \"cusparseXcoosortByRow\" \"rows=1x500 operand_bytes=12 class=sort routine=radix keys=8\" 6000 6000 0 \"\"\n");
    unload();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretend_libraries");
    TCase *cases = tcase_create("cases");
    tcase_add_test(cases, convolutions_are_products);
    tcase_add_test(cases, sparse_products);
    tcase_add_test(cases, engines_without_the_library);
    tcase_add_test(cases, layouts);
    tcase_add_test(cases, timed_plans);
    tcase_add_test(cases, lanes_first);
    tcase_add_test(cases, groups);
    tcase_add_test(cases, groups_by_workspaces);
    tcase_add_test(cases, tiles_by_knobs);
    tcase_add_test(cases, attention_of_parts);
    tcase_add_test(cases, attention_as_one);
    tcase_add_test(cases, descriptors_refuse_nonsense);
    tcase_add_test(cases, groups_of_ranks);
    tcase_add_test(cases, all_reduces_of_servers);
    tcase_add_test(cases, groups_by_their_ids);
    tcase_add_test(cases, collectives);
    tcase_add_test(cases, messages);
    tcase_add_test(cases, both_sides_of_a_message);
    tcase_add_test(cases, events_behind_collectives);
    tcase_add_test(cases, nccl_takes_memory);
    tcase_add_test(cases, hidden_devices_are_near);
    tcase_add_loop_test(cases, nccl_takes_memory_early, 0, 6);
    tcase_add_test(cases, transforms);
    tcase_add_test(cases, calls_of_plain_programs);
    tcase_add_loop_test(cases, resident_blocks, 0, G_N_ELEMENTS(resident));
    tcase_add_test(cases, solvers);
    tcase_add_test(cases, products_in_room);
    tcase_add_test(cases, calls_of_tensors);
    tcase_add_test(cases, recurrent_steps);
    tcase_add_test(cases, products_of_halves_of_matrices);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
