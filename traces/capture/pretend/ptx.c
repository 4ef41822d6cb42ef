/* PTX as text to the instructions that memory traffic hangs on. What only makes values (nearly all arithmetic on floating-point numbers) is left out and
 * counted. */
#include "ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INSTRUCTIONS = 1 << 18, MOST_NAMES = 1 << 16, MOST_MODIFIERS = 16, MOST_OPERANDS = 48 };

/* ---- words ---- */

const char *ptx_word(const char *at, size_t *ret_n)
{
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            break;
        }
    }
    size_t n = 0;
    for (;;) {
        if (isalnum((unsigned char)at[n]) || (at[n] != '\0' && strchr("._$%", at[n])))
            n++;
        else if (n > 0 && at[n] == ':' && at[n + 1] == ':')
            n += 2;
        else
            break;
    }
    *ret_n = n > 0 ? n : *at != '\0';
    return at;
}

bool ptx_is_word(const char *at, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(at, word, n) == 0;
}

/* ---- what is read ---- */

typedef struct {
    const char *at;
    size_t n;
} Word;

typedef struct {
    Word name;
    uint32_t count; /* of "%r<4>"; 0: one, of this very name */
    PtxOperand first;
} Registers;

typedef enum { SHARED, DYNAMIC, LOCAL, PARAMETER, VARIABLE, OTHER } Place;
typedef struct {
    Word name;
    Place place;
    uint64_t bytes, align, value; /* value: offset, ordinal or number; UINT64_MAX: not taken yet */
} Symbol;

typedef struct {
    Word name;
    uint32_t instruction, scope;
} Label;

typedef struct {
    PtxKernel *kernel;
    const char *at;
    Registers *registers;
    Symbol *symbols;
    Label *labels, *jumps; /* jumps: to a name, from an instruction */
    uint32_t *scopes;      /* the one around each */
    uint32_t n_registers, n_symbols, n_labels, n_jumps, n_scopes, scope;
    bool failed;
    /* The statement at hand. */
    Word modifiers[MOST_MODIFIERS];
    size_t n_modifiers;
    PtxType types[4];
    Word type_names[4];
    size_t n_types;
    PtxOperand operands[MOST_OPERANDS];
    size_t n_operands, groups[8], n_groups; /* groups: operands before each one that commas part */
    int64_t offsets[8];                     /* of each group that is an address */
    bool is_second_half;                    /* of two operations on 16 bits */
    bool negated, has_more;                 /* has_more: operands than are kept */
} Parser;

/* Room for one more of @n elements, which grows by doubling. */
static bool has_room(Parser *p, void *array, uint32_t n, size_t bytes)
{
    void **at = array;
    if (n > 0 && (n & (n - 1)) != 0)
        return true;
    void *larger = n < MOST_INSTRUCTIONS * 8u ? realloc(*at, (n > 0 ? 2 * (size_t)n : 1) * bytes) : NULL;
    if (!larger) {
        p->failed = true;
        return false;
    }
    *at = larger;
    return true;
}

static bool same(Word a, Word b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

static PtxOperand add_constant(Parser *p, PtxConstant constant)
{
    PtxKernel *k = p->kernel;
    /* Neighbours often use the same. */
    for (uint32_t i = k->n_constants; i > 0 && i + 64 > k->n_constants; i--)
        if (memcmp(&k->constants[i - 1], &constant, sizeof constant) == 0)
            return ~(PtxOperand)(i - 1);
    if (!has_room(p, &k->constants, k->n_constants, sizeof *k->constants))
        return PTX_NOWHERE;
    k->constants[k->n_constants] = constant;
    return ~(PtxOperand)k->n_constants++;
}

static PtxOperand number(Parser *p, uint64_t value)
{
    PtxConstant constant;
    memset(&constant, 0, sizeof constant);
    constant.kind = PTX_NUMBER;
    constant.value = value;
    return add_constant(p, constant);
}

static PtxOperand special(Parser *p, Word name)
{
    static const struct {
        const char *name;
        PtxSpecial special;
    } known[] = {{"%tid.x", PTX_TID_X},
                 {"%tid.y", PTX_TID_Y},
                 {"%tid.z", PTX_TID_Z},
                 {"%ntid.x", PTX_NTID_X},
                 {"%ntid.y", PTX_NTID_Y},
                 {"%ntid.z", PTX_NTID_Z},
                 {"%ctaid.x", PTX_CTAID_X},
                 {"%ctaid.y", PTX_CTAID_Y},
                 {"%ctaid.z", PTX_CTAID_Z},
                 {"%nctaid.x", PTX_NCTAID_X},
                 {"%nctaid.y", PTX_NCTAID_Y},
                 {"%nctaid.z", PTX_NCTAID_Z},
                 {"%laneid", PTX_LANEID},
                 {"%warpid", PTX_WARPID},
                 {"%nwarpid", PTX_NWARPID},
                 {"%lanemask_eq", PTX_LANEMASK_EQ},
                 {"%lanemask_lt", PTX_LANEMASK_LT},
                 {"%lanemask_le", PTX_LANEMASK_LE},
                 {"%lanemask_gt", PTX_LANEMASK_GT},
                 {"%lanemask_ge", PTX_LANEMASK_GE},
                 {"%dynamic_smem_size", PTX_DYNAMIC_SHARED},
                 {"%cluster_ctaid.x", PTX_IN_CLUSTER_X},
                 {"%cluster_ctaid.y", PTX_IN_CLUSTER_Y},
                 {"%cluster_ctaid.z", PTX_IN_CLUSTER_Z},
                 {"%cluster_ctarank", PTX_IN_CLUSTER},
                 {"%clusterid.x", PTX_CLUSTER_X},
                 {"%clusterid.y", PTX_CLUSTER_Y},
                 {"%clusterid.z", PTX_CLUSTER_Z},
                 {"%nclusterid.x", PTX_CLUSTERS_X},
                 {"%nclusterid.y", PTX_CLUSTERS_Y},
                 {"%nclusterid.z", PTX_CLUSTERS_Z}};
    const unsigned *cluster = p->kernel->cluster;
    const struct {
        const char *name;
        uint64_t value;
    } sizes[] = {{"%cluster_nctaid.x", cluster[0]},
                 {"%cluster_nctaid.y", cluster[1]},
                 {"%cluster_nctaid.z", cluster[2]},
                 {"%cluster_nctarank", (uint64_t)cluster[0] * cluster[1] * cluster[2]},
                 {"%is_explicit_cluster", 1}};
    /* How large clusters are that a launch asks for is not known. Clocks and numbers of multiprocessors matter to no address. */
    bool is_of_cluster = name.n > 8 && (memcmp(name.at, "%cluster", 8) == 0 || memcmp(name.at, "%ncluste", 8) == 0);
    p->failed = p->failed || (is_of_cluster && cluster[0] == 0);
    PtxConstant constant;
    memset(&constant, 0, sizeof constant);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ptx_is_word(name.at, name.n, known[i].name)) {
            constant.kind = PTX_SPECIAL;
            constant.value = known[i].special;
            return add_constant(p, constant);
        }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (ptx_is_word(name.at, name.n, sizes[i].name))
            return number(p, sizes[i].value);
    return number(p, ptx_is_word(name.at, name.n, "WARP_SZ") ? 32 : 0);
}

/* The register of that name; PTX_NOWHERE where there is none. */
static PtxOperand find_register(const Parser *p, Word name)
{
    size_t stem = name.n;
    while (stem > 0 && isdigit((unsigned char)name.at[stem - 1]))
        stem--;
    for (uint32_t i = p->n_registers; i-- > 0;) {
        const Registers *r = &p->registers[i];
        if (r->count == 0 && same(r->name, name))
            return r->first;
        if (r->count > 0 && stem < name.n && name.n - stem < 8 && same(r->name, (Word){name.at, stem})) {
            unsigned long which = strtoul(name.at + stem, NULL, 10);
            return which < r->count ? r->first + (PtxOperand)which : PTX_NOWHERE;
        }
    }
    return PTX_NOWHERE;
}

static Symbol *find_symbol(const Parser *p, Word name)
{
    for (uint32_t i = p->n_symbols; i-- > 0;)
        if (same(p->symbols[i].name, name))
            return &p->symbols[i];
    return NULL;
}

static uint64_t take_bytes(uint64_t *used, const Symbol *symbol)
{
    uint64_t align = symbol->align > 0 ? symbol->align : 1, at = (*used + align - 1) / align * align;
    *used = at + symbol->bytes;
    return at;
}

static uint64_t take_variable(Parser *p, Word name)
{
    PtxKernel *k = p->kernel;
    char *kept = has_room(p, &k->variables, k->n_variables, sizeof *k->variables) ? strndup(name.at, name.n) : NULL;
    if (!kept) {
        p->failed = true;
        return 0;
    }
    k->variables[k->n_variables] = kept;
    return k->n_variables++;
}

/* The address of what is called so, and @more bytes, in its own space. */
static PtxOperand address_of(Parser *p, Word name, uint64_t more)
{
    Symbol *symbol = find_symbol(p, name);
    if (!symbol || symbol->place == OTHER)
        return number(p, 0);
    if (symbol->value == UINT64_MAX && symbol->place == SHARED)
        symbol->value = take_bytes(&p->kernel->shared, symbol);
    if (symbol->value == UINT64_MAX && symbol->place == VARIABLE)
        symbol->value = take_variable(p, name);
    if (symbol->place == PARAMETER)
        return number(p, PTX_PARAMETER + (symbol->value << PTX_PARAMETER_BITS) + more);
    if (symbol->place != VARIABLE && symbol->place != DYNAMIC)
        return number(p, symbol->value + more);
    PtxConstant constant;
    memset(&constant, 0, sizeof constant);
    constant.kind = symbol->place == VARIABLE ? PTX_VARIABLE : PTX_SPECIAL;
    constant.value = symbol->place == VARIABLE ? symbol->value : PTX_SPECIALS;
    constant.more = more;
    return add_constant(p, constant);
}

static uint64_t literal(Word word)
{
    if (word.n > 2 && word.at[0] == '0' && strchr("fFdD", word.at[1]))
        return strtoull(word.at + 2, NULL, 16);
    return strtoull(word.at, NULL, 0);
}

/* ---- operands ---- */

static Word next(Parser *p)
{
    Word word;
    word.at = ptx_word(p->at, &word.n);
    p->at = word.at + word.n;
    return word;
}

static Word peek(const Parser *p)
{
    Word word;
    word.at = ptx_word(p->at, &word.n);
    return word;
}

static bool is(Word word, char sign)
{
    return word.n == 1 && *word.at == sign;
}

static PtxOperand operand(Parser *p, Word word)
{
    if (ptx_is_word(word.at, word.n, "_"))
        return PTX_NOWHERE;
    bool negative = is(word, '-');
    if (negative)
        word = next(p);
    if (isdigit((unsigned char)*word.at))
        return number(p, negative ? 0 - literal(word) : literal(word));
    PtxOperand found = find_register(p, word);
    if (found != PTX_NOWHERE)
        return found;
    if (*word.at == '%' || ptx_is_word(word.at, word.n, "WARP_SZ"))
        return special(p, word);
    uint64_t more = 0;
    if (is(peek(p), '+')) {
        next(p);
        more = literal(next(p));
    }
    return address_of(p, word, more);
}

static void push(Parser *p, PtxOperand one)
{
    if (p->n_operands < MOST_OPERANDS)
        p->operands[p->n_operands++] = one;
    else
        p->has_more = true;
}

/* "[base + offset]", or of a tensor "[map, {coordinates}]", behind its bracket. */
static void push_address(Parser *p, int64_t *ret_offset)
{
    push(p, operand(p, next(p)));
    for (Word word = next(p); word.n > 0 && !is(word, ']'); word = next(p)) {
        bool negative = is(word, '-');
        if (is(word, '{')) {
            for (word = next(p); word.n > 0 && !is(word, '}'); word = next(p))
                if (!is(word, ','))
                    push(p, operand(p, word));
        } else if (negative || is(word, '+')) {
            word = next(p);
            if (is(word, '-')) {
                negative = !negative;
                word = next(p);
            }
            *ret_offset = (int64_t)(negative ? 0 - literal(word) : literal(word));
        }
    }
}

/* All operands to the semicolon. */
static void read_operands(Parser *p)
{
    p->n_operands = p->n_groups = 0;
    p->negated = p->has_more = false;
    for (Word word = next(p); word.n > 0 && !is(word, ';'); word = next(p)) {
        if (is(word, ','))
            continue;
        if (is(word, '|')) { /* a second result: of the group before */
            push(p, operand(p, next(p)));
            continue;
        }
        int64_t *offset = NULL;
        if (p->n_groups < sizeof p->groups / sizeof *p->groups) {
            offset = &p->offsets[p->n_groups];
            *offset = 0;
            p->groups[p->n_groups++] = p->n_operands;
        }
        if (is(word, '[')) {
            int64_t unused;
            push_address(p, offset ? offset : &unused);
        } else if (is(word, '{')) {
            for (word = next(p); word.n > 0 && !is(word, '}'); word = next(p))
                if (!is(word, ','))
                    push(p, operand(p, word));
        } else if (is(word, '!')) {
            p->negated = true;
            push(p, operand(p, next(p)));
        } else if (is(word, '(')) { /* of a call */
            continue;
        } else if (!is(word, ')')) {
            push(p, operand(p, word));
        }
    }
}

/* ---- modifiers ---- */

static bool type_of(Word word, PtxType *ret)
{
    static const struct {
        const char *name;
        PtxType type;
    } others[] = {{"pred", {1, false, false}}, {"bf16", {16, false, true}}, {"f16x2", {32, false, true}}, {"bf16x2", {32, false, true}},
                  {"tf32", {32, false, true}}, {"e4m3", {8, false, true}},  {"e5m2", {8, false, true}}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (ptx_is_word(word.at, word.n, others[i].name)) {
            *ret = others[i].type;
            return true;
        }
    char *end;
    unsigned long bits = word.n >= 2 && word.n <= 4 && strchr("busf", *word.at) && isdigit((unsigned char)word.at[1]) ? strtoul(word.at + 1, &end, 10) : 0;
    if (bits == 0 || bits > 128 || end != word.at + word.n)
        return false;
    *ret = (PtxType){(uint8_t)bits, *word.at == 's', *word.at == 'f'};
    return true;
}

static void split(Parser *p, Word word)
{
    p->n_modifiers = p->n_types = 0;
    size_t from = 0;
    for (size_t i = 0; i <= word.n; i++) {
        if (i < word.n && word.at[i] != '.')
            continue;
        Word part = {word.at + from, i - from};
        from = i + 1;
        if (p->n_modifiers < MOST_MODIFIERS)
            p->modifiers[p->n_modifiers++] = part;
        PtxType type;
        if (p->n_modifiers > 1 && p->n_types < 4 && type_of(part, &type)) {
            p->type_names[p->n_types] = part;
            p->types[p->n_types++] = type;
        }
    }
}

static bool has(const Parser *p, const char *modifier)
{
    for (size_t i = 1; i < p->n_modifiers; i++)
        if (ptx_is_word(p->modifiers[i].at, p->modifiers[i].n, modifier))
            return true;
    return false;
}

static bool begins(const Parser *p, const char *prefix)
{
    for (size_t i = 0; i < p->n_modifiers; i++)
        if (p->modifiers[i].n >= strlen(prefix) && memcmp(p->modifiers[i].at, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

static int listed(const Parser *p, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (has(p, names[i]))
            return (int)i;
    return -1;
}

static PtxSpace space_of(const Parser *p)
{
    return has(p, "global")      ? PTX_GLOBAL
           : begins(p, "shared") ? PTX_IN_SHARED
           : has(p, "local")     ? PTX_IN_LOCAL
           : has(p, "const")     ? PTX_CONST
           : begins(p, "param")  ? PTX_PARAM
                                 : PTX_GENERIC;
}

/* ---- instructions ---- */

static const struct {
    const char *name;
    PtxCode code;
} codes[] = {{"add", PTX_ADD},    {"sub", PTX_SUB},   {"mul", PTX_MUL},           {"mad", PTX_MAD},         {"fma", PTX_FMA},        {"div", PTX_DIV},
             {"rem", PTX_REM},    {"abs", PTX_ABS},   {"neg", PTX_NEG},           {"min", PTX_MIN},         {"max", PTX_MAX},        {"and", PTX_AND},
             {"or", PTX_OR},      {"xor", PTX_XOR},   {"not", PTX_NOT},           {"cnot", PTX_CNOT},       {"lop3", PTX_LOP3},      {"shl", PTX_SHL},
             {"shr", PTX_SHR},    {"shf", PTX_SHFL},  {"bfe", PTX_BFE},           {"bfi", PTX_BFI},         {"bfind", PTX_BFIND},    {"clz", PTX_CLZ},
             {"popc", PTX_POPC},  {"brev", PTX_BREV}, {"prmt", PTX_PRMT},         {"setp", PTX_SET},        {"set", PTX_SET},        {"selp", PTX_SELP},
             {"slct", PTX_SLCT},  {"cvt", PTX_CVT},   {"cvta", PTX_TO_GENERIC},   {"mov", PTX_MOV},         {"sqrt", PTX_SQRT},      {"rcp", PTX_RCP},
             {"shfl", PTX_LANES}, {"vote", PTX_VOTE}, {"activemask", PTX_ACTIVE}, {"redux", PTX_REDUX},     {"elect", PTX_ELECT},    {"ld", PTX_LD},
             {"ldu", PTX_LD},     {"st", PTX_ST},     {"atom", PTX_ATOM},         {"red", PTX_ATOM},        {"cp", PTX_COPY},        {"bra", PTX_BRA},
             {"brx", PTX_BRX},    {"ret", PTX_EXIT},  {"exit", PTX_EXIT},         {"trap", PTX_EXIT},       {"bar", PTX_BAR},        {"barrier", PTX_BAR},
             {"mma", PTX_MMA},    {"wmma", PTX_MMA},  {"wgmma", PTX_MMA},         {"ldmatrix", PTX_MATRIX}, {"stmatrix", PTX_MATRIX}};

static PtxCode code_of(Word name)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (ptx_is_word(name.at, name.n, codes[i].name))
            return codes[i].code;
    return PTX_ZERO;
}

/* "m16n8k16". False: no modifier says it. */
static bool read_shape(const Parser *p, uint64_t size[3])
{
    for (size_t i = 1; i < p->n_modifiers; i++) {
        const char *at = p->modifiers[i].at;
        char *end;
        memset(size, 0, 3 * sizeof *size);
        for (int k = 0; k < 3 && *at == "mnk"[k]; k++, at = end)
            size[k] = strtoull(at + 1, &end, 10);
        if (size[2] > 0 && size[0] <= 256 && size[1] <= 256 && size[2] <= 512)
            return true;
    }
    return false;
}

/* wmma.load and .store: [address], and how many elements a row, or a column where they lie so, is behind the one before. */
static void read_tile(Parser *p, PtxInstruction *in)
{
    uint64_t size[3];
    bool stores = has(p, "store"), ok = read_shape(p, size) && p->n_groups >= 2 && !p->has_more;
    size_t at = stores ? 0 : 1;
    if (!ok) {
        p->failed = true;
        return;
    }
    uint64_t rows = has(p, "b") ? size[2] : size[0], columns = has(p, "a") ? size[2] : size[1];
    uint64_t lines = has(p, "col") ? columns : rows, each = has(p, "col") ? rows : columns, bits = p->n_types > 0 ? p->types[0].bits : 16;
    PtxOperand address = p->operands[p->groups[at]], apart = p->n_groups > 2 ? p->operands[p->n_operands - 1] : number(p, each);
    in->code = PTX_TILE;
    in->is_written = stores;
    in->relation = (uint8_t)(lines < 255 ? lines : 255);
    in->type.bits = (uint8_t)bits;
    in->multiplied = each * bits / 8;
    in->offset = p->offsets[at];
    p->operands[0] = address;
    p->operands[1] = apart;
    p->n_operands = in->n = 2;
    in->n_results = 0;
}

/* Operations of a warp. A group of four warps shares wgmma's. */
static void read_product(Parser *p, PtxInstruction *in)
{
    uint64_t size[3];
    if (read_shape(p, size))
        in->multiplied = 2 * size[0] * size[1] * size[2];
    in->by_groups = ptx_is_word(p->modifiers[0].at, p->modifiers[0].n, "wgmma");
    if (in->by_groups)
        in->multiplied /= 4;
    /* Types of the result, of both factors, of the addend; wmma of f16 says its result's and its addend's alone. */
    Word type = p->n_types >= 3 ? p->type_names[1] : (Word){"f16", 3};
    if (ptx_is_word(type.at, type.n, "e4m3") || ptx_is_word(type.at, type.n, "e5m2"))
        type = (Word){"f8e4m3", 6};
    if (in->multiplied > 0 && type.n < sizeof p->kernel->multiplied) {
        memcpy(p->kernel->multiplied, type.at, type.n);
        p->kernel->multiplied[type.n] = '\0';
        if (*p->kernel->multiplied == 'b' && p->types[1].bits == 1)
            p->kernel->multiplied[0] = '\0';
    }
    in->n_results = 0;
    in->n = 0;
}

static bool is_zero(const Parser *p, PtxOperand one)
{
    const PtxConstant *constant = one < 0 ? &p->kernel->constants[~one] : NULL;
    return constant && constant->kind == PTX_NUMBER && constant->value + constant->more == 0;
}

/* A copy of a box: [to], [map, {coordinates}], [barrier], or [map, {coordinates}], [from]. */
static void read_tensor(Parser *p, PtxInstruction *in)
{
    in->is_written = p->n_modifiers > 5 && ptx_is_word(p->modifiers[5].at, p->modifiers[5].n, "global");
    size_t at = in->is_written ? 0 : 1, first = p->n_groups > at ? p->groups[at] : 0, end = p->n_groups > at + 1 ? p->groups[at + 1] : first;
    if (has(p, "prefetch")) {
        in->code = PTX_NOP;
        return;
    }
    p->failed = p->failed || begins(p, "im2col") || begins(p, "tile::") || end < first + 2 || end > first + 6;
    if (p->failed)
        return;
    in->code = PTX_TENSOR;
    in->relation = (uint8_t)(end - first - 1);
    in->space = PTX_GLOBAL;
    memmove(p->operands, p->operands + first, (end - first) * sizeof *p->operands);
    p->n_operands = in->n = (uint8_t)(end - first);
}

/* What lies in the group's first operand alone is the address: of a copy from global memory [to], [from], size. */
static void read_copy(Parser *p, PtxInstruction *in)
{
    bool bulk = has(p, "bulk"), writes = bulk && begins(p, "global") && p->n_modifiers > 3 && ptx_is_word(p->modifiers[3].at, p->modifiers[3].n, "global");
    in->n_results = 0;
    in->n = 0;
    if (begins(p, "reduce")) {
        p->failed = true;
        return;
    }
    if (has(p, "tensor")) {
        read_tensor(p, in);
        return;
    }
    in->waits_for_copies = has(p, "wait_all") || (has(p, "wait_group") && is_zero(p, p->n_operands > 0 ? p->operands[0] : PTX_NOWHERE));
    if (begins(p, "commit_group") || begins(p, "wait") || begins(p, "mbarrier") || has(p, "prefetch") || p->n_groups < 3) {
        in->code = PTX_NOP;
        return;
    }
    in->offset = p->offsets[writes ? 0 : 1];
    PtxOperand address = p->operands[p->groups[writes ? 0 : 1]], size = p->operands[p->groups[!bulk && p->n_groups > 3 ? 3 : 2]];
    PtxOperand to = p->operands[0];
    p->operands[0] = address;
    p->operands[1] = size;
    p->operands[2] = to;
    p->n_operands = in->n = bulk ? 2 : 3;
    in->apart = p->offsets[0];
    in->space = PTX_GLOBAL;
    in->is_written = writes;
}

/* Loads have their registers first, stores behind the address. */
static void read_matrices(Parser *p, PtxInstruction *in)
{
    bool loads = ptx_is_word(p->modifiers[0].at, p->modifiers[0].n, "ldmatrix");
    in->n_results = loads ? (uint8_t)(p->n_groups > 1 ? p->groups[1] : 1) : 0;
    in->n = (uint8_t)(in->n_results + 1);
    in->offset = p->offsets[loads];
    in->relation = has(p, "x4") ? 4 : has(p, "x2") ? 2 : 1;
    in->space = PTX_IN_SHARED;
    p->failed = p->failed || p->n_groups != 2;
}

static void read_comparison(Parser *p, PtxInstruction *in)
{
    static const char *const relations[] = {"eq", "ne", "lt", "le", "gt", "ge", "nan", "num"};
    static const char *const others[] = {"equ", "neu", "ltu", "leu", "gtu", "geu"}, *const unsigned_ones[] = {"lo", "ls", "hi", "hs"};
    static const PtxRelation of_unsigned[] = {PTX_LT, PTX_LE, PTX_GT, PTX_GE};
    int found = listed(p, relations, 8);
    found = found >= 0 ? found : listed(p, others, 6);
    if (found < 0 && (found = listed(p, unsigned_ones, 4)) >= 0)
        found = (int)of_unsigned[found];
    in->relation = (uint8_t)(found < 0 ? PTX_EQ : found);
    in->combined = has(p, "and") ? PTX_AND : has(p, "or") ? PTX_OR : has(p, "xor") ? PTX_XOR : 0;
    in->type = p->n_types > 0 ? p->types[p->n_types - 1] : (PtxType){32, false, false};
    bool is_predicate = p->modifiers[0].n == 4;
    in->from = is_predicate ? (PtxType){1, false, false} : p->types[0];
    in->n_results = (uint8_t)(p->n_groups > 1 ? p->groups[1] : 1);
    in->negates = p->negated;
}

static void read_atom(Parser *p, PtxInstruction *in)
{
    static const char *const operations[] = {"add", "inc", "dec", "min", "max", "and", "or", "xor", "exch", "cas"};
    static const uint8_t of[] = {PTX_ADD, PTX_ADD, PTX_SUB, PTX_MIN, PTX_MAX, PTX_AND, PTX_OR, PTX_XOR, PTX_MOV, PTX_SELP};
    int found = listed(p, operations, 10);
    in->relation = found < 0 ? PTX_ZERO : of[found];
    in->n_results = ptx_is_word(p->modifiers[0].at, p->modifiers[0].n, "atom") ? (uint8_t)(p->n_groups > 1 ? p->groups[1] : 0) : 0;
    in->type = p->n_types > 0 ? p->types[p->n_types - 1] : (PtxType){32, false, false};
    in->offset = p->offsets[in->n_results > 0];
    p->failed = p->failed || p->n_groups < 2u + (in->n_results > 0);
    if (has(p, "async"))
        in->space = PTX_IN_SHARED;
}

/* Arithmetic on floating-point numbers that is computed: of 32 and 64 bits. Also counts it. */
static void read_arithmetic(Parser *p, PtxInstruction *in)
{
    if (!in->type.is_float)
        return;
    bool multiplies_adds = in->code == PTX_FMA || in->code == PTX_MAD, counts = in->code <= PTX_MAX || multiplies_adds;
    uint32_t n = counts && in->code != PTX_ABS && in->code != PTX_NEG ? (multiplies_adds ? 2 : 1) : 0;
    bool is_slot = n > 0 && in->code != PTX_MIN && in->code != PTX_MAX && in->code != PTX_DIV;
    if (in->type.bits == 64)
        in->counts.flops_64 = n;
    else
        in->counts.flops = n;
    in->counts.slots = is_slot && in->type.bits == 32;
    in->counts.slots_64 = is_slot && in->type.bits == 64;
    if (begins(p, "f16x2") || begins(p, "bf16x2") || begins(p, "tf32") || in->type.bits < 32)
        in->code = PTX_ZERO;
    else if (multiplies_adds)
        in->code = PTX_FMA;
}

/* What the lanes of a warp do together. */
static void read_warp(Parser *p, PtxInstruction *in)
{
    static const char *const ways[] = {"up", "down", "bfly", "idx"}, *const votes[] = {"all", "any", "uni", "ballot"}, *const operations[] = {"add", "min",
                                                                                                                                              "max", "and",
                                                                                                                                              "or",  "xor"};
    static const uint8_t of_operations[] = {PTX_ADD, PTX_MIN, PTX_MAX, PTX_AND, PTX_OR, PTX_XOR};
    int found = in->code == PTX_LANES ? listed(p, ways, 4) : in->code == PTX_VOTE ? listed(p, votes, 4) : listed(p, operations, 6);
    p->failed = p->failed || found < 0;
    if (in->code == PTX_LANES)
        in->n_results = (uint8_t)(p->n_groups > 1 ? p->groups[1] : 1);
    in->relation = (uint8_t)(in->code == PTX_REDUX && found >= 0 ? of_operations[found] : found);
    in->negates = in->code == PTX_VOTE && p->negated;
}

/* The meaning of the statement at hand, but for its guard. */
static void read_meaning(Parser *p, PtxInstruction *in)
{
    in->n_results = p->n_operands > 0 ? 1 : 0;
    in->n = (uint8_t)p->n_operands;
    in->type = p->n_types > 0 ? p->types[p->n_types - 1] : (PtxType){32, false, false};
    in->space = (uint8_t)space_of(p);
    switch (in->code) {
    case PTX_MUL:
    case PTX_MAD:
        if (has(p, "hi"))
            in->code = in->code == PTX_MUL ? PTX_MULHI : PTX_MADHI;
        else if (has(p, "wide"))
            in->code = in->code == PTX_MUL ? PTX_MULWIDE : PTX_MADWIDE;
        break;
    case PTX_SHFL:
        in->code = has(p, "r") ? PTX_SHFR : PTX_SHFL;
        in->wraps = has(p, "wrap");
        break;
    case PTX_SET: read_comparison(p, in); return;
    case PTX_CVT:
        in->from = p->n_types > 1 ? p->types[1] : in->type;
        in->type = p->n_types > 0 ? p->types[0] : in->type;
        if (begins(p, "f16x2") || begins(p, "bf16x2") || begins(p, "e4m3") || begins(p, "e5m2") || begins(p, "bf16") || begins(p, "f16") || begins(p, "tf32"))
            in->code = PTX_ZERO;
        return;
    case PTX_TO_GENERIC: in->code = has(p, "to") ? PTX_FROM_GENERIC : PTX_TO_GENERIC; return;
    case PTX_MOV: {
        size_t results = p->n_groups > 1 ? p->groups[1] : 1;
        in->n_results = (uint8_t)results;
        in->code = results > 1 ? PTX_UNPACK : p->n_operands > 2 ? PTX_PACK : PTX_MOV;
        return;
    }
    case PTX_LANES:
    case PTX_VOTE:
    case PTX_REDUX: read_warp(p, in); return;
    case PTX_ELECT: in->n_results = (uint8_t)(p->n_groups > 1 ? p->groups[1] : 1); return;
    case PTX_LD:
        in->n_results = (uint8_t)(p->n_groups > 1 ? p->groups[1] : 1);
        in->offset = p->offsets[1];
        p->failed = p->failed || p->n_groups < 2;
        return;
    case PTX_ST:
        in->n_results = 0;
        in->offset = p->offsets[0];
        p->failed = p->failed || p->n_groups < 2;
        return;
    case PTX_ATOM: read_atom(p, in); return;
    case PTX_MATRIX: read_matrices(p, in); return;
    case PTX_COPY: read_copy(p, in); return;
    case PTX_EXIT:
    case PTX_BAR:
        if (in->code == PTX_BAR && (begins(p, "cluster") || has(p, "arrive")))
            in->code = PTX_NOP;
        in->counts.barriers = in->code == PTX_BAR;
        in->n = in->n_results = 0;
        return;
    case PTX_MMA:
        if (has(p, "load") || has(p, "store")) {
            read_tile(p, in);
            return;
        }
        read_product(p, in);
        if (in->multiplied == 0)
            in->code = PTX_NOP;
        return;
    case PTX_ZERO:
        in->n_results = (uint8_t)(p->n_groups > 1 ? p->groups[1] : 1);
        in->relation = !in->type.is_float && p->n_types > 0;
        return;
    default: break;
    }
    if (in->code <= PTX_MAX || in->code == PTX_FMA || in->code == PTX_SQRT || in->code == PTX_RCP)
        read_arithmetic(p, in);
    if (has(p, "cc")) {
        in->code = PTX_ZERO;
        in->relation = true;
    }
}

/* Whether it touches what is not known. */
static bool is_beyond(const Parser *p)
{
    static const char *const names[] = {"tex", "tld4", "suld", "sust", "sured", "tcgen05", "multimem"};
    Word name = p->modifiers[0];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ptx_is_word(name.at, name.n, names[i]))
            return true;
    return false;
}

/* Whether it asks a barrier in shared memory whether all have come, and all copies. They have: warps run one after the other. */
static bool is_awaited(const Parser *p)
{
    return ptx_is_word(p->modifiers[0].at, p->modifiers[0].n, "mbarrier") && (has(p, "try_wait") || has(p, "test_wait"));
}

static void read_wait(Parser *p, PtxInstruction *in)
{
    in->code = PTX_MOV;
    in->type = (PtxType){1, false, false};
    in->waits_for_copies = true;
    p->operands[1] = number(p, 1);
    p->n_operands = in->n = 2;
    in->n_results = 1;
}

/* Whether it moves nothing between arrays and multiprocessors that other instructions do not, and makes no address. */
static bool is_of_nothing(const Parser *p)
{
    static const char *const names[] = {"membar",        "fence",      "prefetch", "prefetchu", "griddepcontrol", "nanosleep", "discard",
                                        "applypriority", "setmaxnreg", "mbarrier", "pmevent",   "brkpt",          "isspacep"};
    Word name = p->modifiers[0];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ptx_is_word(name.at, name.n, names[i]))
            return !is_awaited(p);
    return false;
}

/* Whether it has the operands that it is run with: results are registers. */
static bool is_sound(const Parser *p, const PtxInstruction *in)
{
    for (size_t i = 0; i < in->n_results && i < in->n; i++)
        if (p->operands[i] < 0)
            return false;
    size_t of = in->n >= in->n_results ? in->n - (size_t)in->n_results : 0;
    switch (in->code) {
    case PTX_NOP:
    case PTX_BRA:
    case PTX_EXIT:
    case PTX_BAR:
    case PTX_MMA: return true;
    case PTX_ZERO:
    case PTX_ELECT: return in->n >= in->n_results;
    case PTX_ACTIVE: return in->n_results == 1 && in->n == 1;
    case PTX_ST:
    case PTX_COPY:
    case PTX_TENSOR:
    case PTX_TILE: return in->n_results == 0 && of >= 2;
    case PTX_BRX: return of == 1;
    case PTX_SET:
    case PTX_LANES: return in->n_results >= 1 && in->n_results <= 2 && of >= 2;
    case PTX_LD:
    case PTX_UNPACK: return in->n_results >= 1 && of == 1;
    case PTX_MATRIX: return of == 1;
    case PTX_ATOM: return in->n_results <= 1 && of >= 1;
    default: return in->n_results == 1 && of >= 1;
    }
}

static void add_instruction(Parser *p, PtxInstruction in)
{
    PtxKernel *k = p->kernel;
    p->failed = p->failed || !is_sound(p, &in);
    if (p->failed || k->n_instructions >= MOST_INSTRUCTIONS || !has_room(p, &k->instructions, k->n_instructions, sizeof in)) {
        p->failed = true;
        return;
    }
    in.first = k->n_operands;
    for (size_t i = 0; i < in.n; i++) {
        if (!has_room(p, &k->operands, k->n_operands, sizeof *k->operands))
            return;
        k->operands[k->n_operands++] = p->operands[i];
    }
    k->instructions[k->n_instructions++] = in;
}

static void add_jump(Parser *p, Word name)
{
    if (p->n_jumps < MOST_NAMES && has_room(p, &p->jumps, p->n_jumps, sizeof *p->jumps))
        p->jumps[p->n_jumps++] = (Label){name, p->kernel->n_instructions, p->scope};
    else
        p->failed = true;
}

/* What is called: only what prints and ends a program. */
static bool is_harmless(Parser *p)
{
    static const char *const names[] = {"vprintf", "__assertfail", "free"};
    for (Word word = next(p); word.n > 0 && !is(word, ';'); word = next(p))
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (ptx_is_word(word.at, word.n, names[i])) {
                p->at += strcspn(p->at, ";");
                return true;
            }
    return false;
}

/* Of arithmetic on 16 bits machine code has one instruction for two neighbours, which ptxas packs where it can. */
static bool is_half_of_pair(Parser *p, const PtxInstruction *in)
{
    bool is_half = in->type.is_float && in->type.bits == 16 && in->counts.flops > 0 && !begins(p, "f16x2") && !begins(p, "bf16x2");
    if (is_half)
        p->is_second_half = !p->is_second_half;
    return is_half && !p->is_second_half;
}

/* Whether machine code has an instruction for it: not where it names what is there already, a register, a parameter, or an integer in more or fewer bits. */
static bool is_issued(Parser *p, const PtxInstruction *in)
{
    static const char *const names[] = {"mov", "cvta"};
    Word name = p->modifiers[0];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ptx_is_word(name.at, name.n, names[i]))
            return false;
    if (is_half_of_pair(p, in))
        return false;
    return ptx_is_word(name.at, name.n, "cvt") ? in->type.is_float || in->from.is_float : !(ptx_is_word(name.at, name.n, "ld") && has(p, "param"));
}

/* What is several instructions of machine code: of CUDA 13.0 for compute capabilities 8.0 and 9.0, where they branch the way that ordinary numbers take. With
 * .ftz some are fewer. */
static void count_machine_code(Parser *p, PtxInstruction *in)
{
    static const struct {
        const char *name, *how;
        uint8_t bits;
        bool is_float, is_signed;
        uint8_t issued, issued_ftz, slots_64;
    } several[] = {
        {"ex2", "approx", 32, true, false, 4, 1, 0}, {"lg2", "approx", 32, true, false, 4, 1, 0},  {"rsqrt", "approx", 32, true, false, 4, 1, 0},
        {"rcp", "approx", 32, true, false, 8, 1, 0}, {"sqrt", "approx", 32, true, false, 4, 1, 0}, {"sin", "approx", 32, true, false, 2, 2, 0},
        {"cos", "approx", 32, true, false, 2, 2, 0}, {"tanh", "approx", 32, true, false, 1, 1, 0}, {"div", "approx", 32, true, false, 6, 2, 0},
        {"div", "full", 32, true, false, 9, 6, 0},   {"div", "rn", 32, true, false, 10, 10, 0},    {"rcp", "rn", 32, true, false, 10, 10, 0},
        {"sqrt", "rn", 32, true, false, 10, 10, 0},  {"div", "rn", 64, true, false, 15, 15, 8},    {"sqrt", "rn", 64, true, false, 15, 15, 8},
        {"rcp", "rn", 64, true, false, 11, 11, 5},   {"div", NULL, 32, false, true, 24, 24, 0},    {"div", NULL, 32, false, false, 18, 18, 0},
        {"rem", NULL, 32, false, true, 22, 22, 0},   {"rem", NULL, 32, false, false, 17, 17, 0},   {"div", NULL, 64, false, true, 88, 88, 0},
        {"div", NULL, 64, false, false, 72, 72, 0},  {"rem", NULL, 64, false, true, 82, 82, 0},    {"rem", NULL, 64, false, false, 68, 68, 0},
    };
    Word name = p->modifiers[0];
    PtxType type = p->n_types > 0 ? p->types[p->n_types - 1] : (PtxType){0};
    for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
        bool is_this = type.bits == several[i].bits && type.is_float == several[i].is_float && (type.is_float || type.is_signed == several[i].is_signed);
        if (!is_this || !ptx_is_word(name.at, name.n, several[i].name) || (several[i].how && !has(p, several[i].how)) || begins(p, "f16") || begins(p, "bf16"))
            continue;
        in->counts.issued = has(p, "ftz") ? several[i].issued_ftz : several[i].issued;
        in->counts.functions = 1;
        in->counts.slots_64 = several[i].slots_64;
    }
}

static void read_instruction(Parser *p, Word word, PtxOperand guard, bool not_guard)
{
    split(p, word);
    PtxInstruction in = {.code = (uint8_t)code_of(p->modifiers[0]), .guard = guard, .not_guard = not_guard, .joined = 1};
    if (ptx_is_word(p->modifiers[0].at, p->modifiers[0].n, "call")) {
        p->failed = p->failed || !is_harmless(p);
        return;
    }
    if (in.code == PTX_BRA) {
        add_jump(p, next(p));
    } else if (in.code == PTX_BRX) {
        p->operands[0] = operand(p, next(p));
        next(p);
        add_jump(p, next(p));
        in.n = 1;
    } else {
        read_operands(p);
        if (is_of_nothing(p))
            return;
        p->failed = p->failed || is_beyond(p) || (p->has_more && in.code != PTX_MMA);
        if (p->failed)
            return;
        if (is_awaited(p))
            read_wait(p, &in);
        else
            read_meaning(p, &in);
    }
    in.counts.issued = is_issued(p, &in);
    count_machine_code(p, &in);
    add_instruction(p, in);
    if (in.code == PTX_BRA || in.code == PTX_BRX)
        p->at += strcspn(p->at, ";");
}

/* ---- declarations ---- */

/* ".reg .b32 %r<4>, a;" behind its first word. Of what is declared again, as blocks of inline assembly do, the newest counts. */
static void read_registers(Parser *p)
{
    for (Word word = next(p); word.n > 0 && !is(word, ';'); word = next(p)) {
        if (*word.at == '.' || is(word, ','))
            continue;
        uint32_t count = 0;
        if (is(peek(p), '<')) {
            next(p);
            count = (uint32_t)strtoul(next(p).at, NULL, 10);
            next(p);
        }
        uint32_t taken = count > 0 ? count : 1, at = 0;
        while (at < p->n_registers && !(p->registers[at].count == count && same(p->registers[at].name, word)))
            at++;
        if (taken > MOST_INSTRUCTIONS || p->kernel->n_registers + taken > MOST_INSTRUCTIONS || p->n_registers >= MOST_NAMES ||
            !has_room(p, &p->registers, p->n_registers, sizeof *p->registers)) {
            p->failed = true;
            return;
        }
        p->registers[at] = (Registers){word, count, (PtxOperand)p->kernel->n_registers};
        p->n_registers += at == p->n_registers;
        p->kernel->n_registers += taken;
    }
}

static void add_symbol(Parser *p, Symbol symbol)
{
    if (p->n_symbols < MOST_NAMES && has_room(p, &p->symbols, p->n_symbols, sizeof *p->symbols))
        p->symbols[p->n_symbols++] = symbol;
    else
        p->failed = true;
}

/* ".align 16 .b8 name[64];" of a space; @ends besides a semicolon. An initializer is read over. */
static void read_variable(Parser *p, Place place, bool is_extern, uint64_t ordinal, const char *ends)
{
    Symbol symbol = {.place = place, .value = UINT64_MAX, .align = 1};
    uint64_t each = 1, count = 1;
    for (;;) {
        Word word = peek(p);
        if (word.n == 0 || (word.n == 1 && strchr(ends, *word.at)))
            break;
        next(p);
        PtxType type;
        if (ptx_is_word(word.at, word.n, ".align")) {
            symbol.align = literal(next(p));
        } else if (*word.at == '.' && type_of((Word){word.at + 1, word.n - 1}, &type)) {
            each = type.bits / 8u;
            symbol.align = symbol.align > each ? symbol.align : each;
        } else if (is(word, '[')) {
            Word length = peek(p);
            count = is(length, ']') ? 0 : count * literal(next(p));
            next(p);
        } else if (is(word, '=')) {
            int depth = 0;
            for (word = peek(p); word.n > 0 && (depth > 0 || !is(word, ';')); word = peek(p)) {
                next(p);
                depth += is(word, '{');
                depth -= is(word, '}');
            }
        } else if (*word.at != '.') {
            symbol.name = word;
        }
    }
    symbol.bytes = count < (UINT64_C(1) << 40) ? each * count : 0;
    if (place == SHARED && is_extern && count == 0)
        symbol.place = DYNAMIC;
    if (place == PARAMETER)
        symbol.value = ordinal;
    if (place == LOCAL)
        symbol.value = take_bytes(&p->kernel->local, &symbol);
    if (symbol.name.n > 0)
        add_symbol(p, symbol);
}

/* "targets: .branchtargets A, B;" behind the directive: the label before stands for all of them. */
static void read_targets(Parser *p)
{
    PtxKernel *k = p->kernel;
    Label *label = p->n_labels > 0 ? &p->labels[p->n_labels - 1] : NULL;
    if (label)
        label->scope = UINT32_MAX - k->n_targets; /* a list; its first */
    for (Word word = next(p); word.n > 0 && !is(word, ';'); word = next(p)) {
        if (is(word, ','))
            continue;
        if (!has_room(p, &k->targets, k->n_targets, sizeof *k->targets))
            return;
        k->targets[k->n_targets++] = p->n_jumps;
        add_jump(p, word);
        if (!p->failed)
            p->jumps[p->n_jumps - 1].instruction = UINT32_MAX;
    }
}

static void read_directive(Parser *p, Word word)
{
    if (ptx_is_word(word.at, word.n, ".reg"))
        read_registers(p);
    else if (ptx_is_word(word.at, word.n, ".shared"))
        read_variable(p, SHARED, false, 0, ";");
    else if (ptx_is_word(word.at, word.n, ".local"))
        read_variable(p, LOCAL, false, 0, ";");
    else if (ptx_is_word(word.at, word.n, ".param"))
        read_variable(p, OTHER, false, 0, ";");
    else if (ptx_is_word(word.at, word.n, ".branchtargets"))
        read_targets(p);
    else if (ptx_is_word(word.at, word.n, ".loc") || ptx_is_word(word.at, word.n, ".file"))
        p->at += strcspn(p->at, "\n");
    else
        p->at += strcspn(p->at, ";{}\n");
}

static void open_scope(Parser *p)
{
    if (p->n_scopes < MOST_NAMES && has_room(p, &p->scopes, p->n_scopes, sizeof *p->scopes)) {
        p->scopes[p->n_scopes] = p->scope;
        p->scope = p->n_scopes++;
    } else {
        p->failed = true;
    }
}

/* From behind the brace that opens it. */
static void read_body(Parser *p)
{
    size_t depth = 1;
    open_scope(p);
    while (depth > 0 && !p->failed) {
        Word word = next(p);
        PtxOperand guard = PTX_NOWHERE;
        bool not_guard = false;
        if (word.n == 0) {
            p->failed = true;
        } else if (is(word, '{')) {
            depth++;
            open_scope(p);
        } else if (is(word, '}')) {
            depth--;
            p->scope = p->scopes[p->scope];
        } else if (*word.at == '.') {
            read_directive(p, word);
        } else if (is(peek(p), ':')) {
            next(p);
            if (p->n_labels < MOST_NAMES && has_room(p, &p->labels, p->n_labels, sizeof *p->labels))
                p->labels[p->n_labels++] = (Label){word, p->kernel->n_instructions, p->scope};
            else
                p->failed = true;
        } else if (!is(word, ';')) {
            if (is(word, '@')) {
                word = next(p);
                not_guard = is(word, '!');
                guard = operand(p, not_guard ? next(p) : word);
                word = next(p);
            }
            read_instruction(p, word, guard, not_guard);
        }
    }
}

/* ---- where branches go ---- */

/* The label of that name in the nearest scope around. NULL: there is none. */
static const Label *label_of(const Parser *p, const Label *jump)
{
    const Label *found = NULL;
    for (uint32_t i = 0; i < p->n_labels; i++) {
        const Label *label = &p->labels[i];
        if (!same(label->name, jump->name))
            continue;
        if (label->scope >= p->n_scopes) /* a list of targets */
            return label;
        uint32_t scope = jump->scope;
        while (scope != label->scope && scope != p->scopes[scope])
            scope = p->scopes[scope];
        if (scope == label->scope && (!found || label->scope >= found->scope))
            found = label;
    }
    return found;
}

static void find_targets(Parser *p)
{
    PtxKernel *k = p->kernel;
    uint32_t *of_list = k->n_targets > 0 ? calloc(k->n_targets, sizeof *of_list) : NULL;
    for (uint32_t i = 0; i < p->n_jumps && !p->failed; i++) {
        const Label *label = label_of(p, &p->jumps[i]);
        if (!label) {
            p->failed = true;
        } else if (p->jumps[i].instruction == UINT32_MAX) {
            for (uint32_t t = 0; of_list && t < k->n_targets; t++)
                if (k->targets[t] == i)
                    of_list[t] = label->instruction;
        } else if (label->scope >= p->n_scopes) {
            PtxInstruction *in = &k->instructions[p->jumps[i].instruction];
            in->target = UINT32_MAX - label->scope;
            in->n_targets = k->n_targets - in->target; /* more than its own: what follows is never asked for */
        } else {
            k->instructions[p->jumps[i].instruction].target = label->instruction;
        }
    }
    if (of_list)
        memcpy(k->targets, of_list, k->n_targets * sizeof *of_list);
    free(of_list);
}

/* ---- what matters ---- */

static bool is_site(const PtxInstruction *in)
{
    bool touches = in->code == PTX_LD || in->code == PTX_ST || in->code == PTX_ATOM || in->code == PTX_COPY || in->code == PTX_TILE || in->code == PTX_TENSOR;
    return touches && (in->space == PTX_GLOBAL || in->space == PTX_GENERIC);
}

static bool makes_needed(const PtxKernel *k, const PtxInstruction *in, const bool *is_needed)
{
    for (size_t i = 0; i < in->n_results; i++) {
        PtxOperand result = k->operands[in->first + i];
        if (result >= 0 && result != PTX_NOWHERE && is_needed[result])
            return true;
    }
    return false;
}

/* How many operands behind its results the instruction needs, where it @makes what is needed or not: of memory at least the address, of control all. @times:
 * what it costs counts, too. */
static size_t needed_operands(const PtxKernel *k, const PtxInstruction *in, bool makes, bool times)
{
    size_t all = in->n - (size_t)in->n_results;
    bool is_read = (in->space == PTX_IN_SHARED && k->reads_shared) || (in->space == PTX_IN_LOCAL && k->reads_local) ||
                   (in->space == PTX_GENERIC && (k->reads_shared || k->reads_local));
    if (in->code == PTX_BRX || (is_site(in) && (in->code == PTX_COPY || in->code == PTX_TILE || in->code == PTX_TENSOR)) || makes ||
        (in->code == PTX_ST && is_read))
        return all;
    return is_site(in) || (times && ptx_is_access(in)) ? 1 : 0;
}

static bool is_control(const PtxInstruction *in)
{
    return in->code == PTX_BRA || in->code == PTX_BRX || in->code == PTX_EXIT || in->code == PTX_MMA || in->code == PTX_BAR;
}

static bool need(bool *is_needed, PtxOperand one)
{
    if (one < 0 || one == PTX_NOWHERE || is_needed[one])
        return false;
    is_needed[one] = true;
    return true;
}

/* What is read from there must have been written there. Whether that was not known. */
static bool need_memory(PtxKernel *k, const PtxInstruction *in)
{
    bool shared = !k->reads_shared && (in->space == PTX_IN_SHARED || in->space == PTX_GENERIC), local = !k->reads_local && in->space == PTX_IN_LOCAL;
    local = local || (!k->reads_local && in->space == PTX_GENERIC && k->local > 0);
    k->reads_shared |= shared;
    k->reads_local |= local;
    return shared || local;
}

/* From the last instruction to the first, until nothing changes: is_kept[instruction], is_needed[register]. @times: for what accesses cost, too, as far as that
 * hangs on no memory that is not kept besides. */
static void find_needed(PtxKernel *k, bool *is_kept, bool *is_needed, bool times)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = k->n_instructions; i-- > 0;) {
            const PtxInstruction *in = &k->instructions[i];
            bool makes = makes_needed(k, in, is_needed);
            size_t n = needed_operands(k, in, makes, times);
            if (!makes && n == 0 && !is_control(in))
                continue;
            is_kept[i] = true;
            for (size_t o = in->n_results; o < in->n_results + n; o++)
                changed |= need(is_needed, k->operands[in->first + o]);
            changed |= need(is_needed, in->guard);
            if (makes && in->code == PTX_LD && !times)
                changed |= need_memory(k, in);
        }
    }
}

/* Instructions that are jumped to. Owned by the caller; NULL: no memory. */
static bool *find_entries(const PtxKernel *k)
{
    bool *is_target = calloc(k->n_instructions + 1u, sizeof *is_target);
    for (uint32_t i = 0; is_target && i < k->n_instructions; i++)
        if (k->instructions[i].code == PTX_BRA)
            is_target[k->instructions[i].target] = true;
    for (uint32_t i = 0; is_target && i < k->n_targets; i++)
        is_target[k->targets[i]] = true;
    return is_target;
}

static void add_counts(PtxCounts *to, const PtxCounts *more)
{
    to->flops += more->flops;
    to->flops_64 += more->flops_64;
    to->slots += more->slots;
    to->slots_64 += more->slots_64;
    to->functions += more->functions;
    to->issued += more->issued;
    to->barriers += more->barriers;
    to->cycles += more->cycles;
    to->trips += more->trips;
}

/* Leaves out what does not matter, and counts its arithmetic with what follows it; @moves: what matters for more than what it costs. False where what matters
 * is not known. */
static bool compact(PtxKernel *k, const bool *is_target, const bool *moves, const bool *is_kept, const bool *is_needed)
{
    uint32_t *now = calloc(k->n_instructions + 1u, sizeof *now), *registers = calloc(k->n_registers + 1u, sizeof *registers);
    /* A place for each instruction, and one before each target. */
    PtxInstruction *made = malloc((2 * (size_t)k->n_instructions + 1) * sizeof *made);
    bool ok = now && registers && made;
    PtxCounts counts = {0};
    uint32_t n = 0, sites = 0, n_registers = 0;
    for (uint32_t i = 0; ok && i <= k->n_instructions; i++) {
        if ((is_target[i] || i == k->n_instructions) && counts.cycles > 0) {
            made[n++] = (PtxInstruction){.code = PTX_NOP, .guard = PTX_NOWHERE, .counts = counts};
            counts = (PtxCounts){0};
        }
        now[i] = n;
        if (i == k->n_instructions)
            break;
        PtxInstruction in = k->instructions[i];
        add_counts(&counts, &in.counts);
        if (!is_kept[i] || (in.code == PTX_BAR && !k->reads_shared))
            continue;
        in.only_times = !moves[i];
        ok = in.only_times || !(in.code == PTX_ZERO && in.relation);
        in.site = is_site(&in) ? sites++ : UINT32_MAX;
        in.counts = counts;
        counts = (PtxCounts){0};
        made[n++] = in;
    }
    for (uint32_t i = 0; ok && i < k->n_registers; i++)
        registers[i] = is_needed[i] ? n_registers++ : UINT32_MAX;
    for (uint32_t i = 0; ok && i < k->n_operands; i++)
        if (k->operands[i] >= 0 && k->operands[i] != PTX_NOWHERE)
            k->operands[i] = registers[k->operands[i]] == UINT32_MAX ? PTX_NOWHERE : (PtxOperand)registers[k->operands[i]];
    for (uint32_t i = 0; ok && i < n; i++) {
        if (made[i].code == PTX_BRA)
            made[i].target = now[made[i].target];
        if (made[i].guard >= 0 && made[i].guard != PTX_NOWHERE)
            made[i].guard = (PtxOperand)registers[made[i].guard];
    }
    for (uint32_t i = 0; ok && i < k->n_targets; i++)
        k->targets[i] = now[k->targets[i]];
    free(now);
    free(registers);
    free(k->instructions);
    k->instructions = made;
    k->n_instructions = ok ? n : 0;
    k->n_registers = n_registers;
    k->n_sites = sites;
    return ok;
}

static bool keep_what_matters(PtxKernel *k)
{
    size_t n = k->n_instructions + 1u;
    bool *moves = calloc(n, sizeof *moves), *is_kept = calloc(n, sizeof *is_kept), *is_needed = calloc(k->n_registers + 1u, sizeof *is_needed);
    bool *is_target = find_entries(k), ok = moves && is_kept && is_needed && is_target;
    if (ok) {
        ptx_paths(k);
        find_needed(k, moves, is_needed, false);
        memcpy(is_kept, moves, n * sizeof *moves);
        find_needed(k, is_kept, is_needed, true);
        ok = compact(k, is_target, moves, is_kept, is_needed);
    }
    free(moves);
    free(is_kept);
    free(is_needed);
    free(is_target);
    return ok;
}

/* ---- modules ---- */

static void read_parameters(Parser *p)
{
    if (!is(peek(p), '('))
        return;
    next(p);
    for (uint64_t ordinal = 0; !p->failed; ordinal++) {
        Word word = peek(p);
        if (word.n == 0 || is(word, ')'))
            break;
        read_variable(p, PARAMETER, false, ordinal, ",)");
        if (is(peek(p), ','))
            next(p);
    }
    next(p);
}

/* From a brace on to behind the one that closes it. */
static void skip_body(Parser *p)
{
    int depth = 0;
    do {
        p->at += strcspn(p->at, "{}/");
        if (*p->at == '/')
            p->at = ptx_word(p->at, &(size_t){0}) == p->at ? p->at + 1 : ptx_word(p->at, &(size_t){0});
        else if (*p->at != '\0')
            depth += *p->at++ == '{' ? 1 : -1;
    } while (depth > 0 && *p->at != '\0');
}

/* Up to the body of the kernel @name, or to the end. */
/* What stands between a kernel's parameters and the brace that opens its body: how many blocks a cluster has. False: there is no body. */
static bool read_launch(Parser *p)
{
    for (Word word = next(p); word.n > 0 && !is(word, ';'); word = next(p)) {
        if (is(word, '{'))
            return true;
        if (!ptx_is_word(word.at, word.n, ".reqnctapercluster"))
            continue;
        for (size_t i = 0; i < 3; i++) {
            bool is_said = i == 0 || is(peek(p), ',');
            if (is_said && i > 0)
                next(p);
            uint64_t blocks = is_said ? literal(next(p)) : 1;
            p->kernel->cluster[i] = blocks >= 1 && blocks <= 1024 ? (unsigned)blocks : 1;
        }
    }
    return false;
}

static bool find_kernel(Parser *p, const char *name)
{
    bool is_extern = false;
    for (Word word = next(p); word.n > 0 && !p->failed; word = next(p)) {
        if (ptx_is_word(word.at, word.n, ".extern")) {
            is_extern = true;
            continue;
        }
        if (ptx_is_word(word.at, word.n, ".entry")) {
            word = next(p);
            if (ptx_is_word(word.at, word.n, name)) {
                read_parameters(p);
                return read_launch(p);
            }
            p->at += strcspn(p->at, "{;");
            if (*p->at == '{')
                skip_body(p);
        } else if (ptx_is_word(word.at, word.n, ".func")) {
            p->at += strcspn(p->at, "{;");
            if (*p->at == '{')
                skip_body(p);
        } else if (ptx_is_word(word.at, word.n, ".shared")) {
            read_variable(p, SHARED, is_extern, 0, ";");
        } else if (ptx_is_word(word.at, word.n, ".global") || ptx_is_word(word.at, word.n, ".const")) {
            read_variable(p, VARIABLE, is_extern, 0, ";");
        }
        is_extern = is_extern && *word.at == '.';
    }
    return false;
}

PtxKernel *ptx_kernel_new(const char *module, const char *name)
{
    Parser p = {.kernel = calloc(1, sizeof *p.kernel), .at = module};
    if (!p.kernel)
        return NULL;
    bool ok = find_kernel(&p, name);
    if (ok)
        read_body(&p);
    if (ok && !p.failed)
        find_targets(&p);
    ok = ok && !p.failed && keep_what_matters(p.kernel);
    free(p.registers);
    free(p.symbols);
    free(p.labels);
    free(p.jumps);
    free(p.scopes);
    if (!ok) {
        ptx_kernel_free(p.kernel);
        return NULL;
    }
    return p.kernel;
}

void ptx_kernel_free(PtxKernel *kernel)
{
    if (!kernel)
        return;
    for (uint32_t i = 0; i < kernel->n_variables; i++)
        free(kernel->variables[i]);
    free(kernel->variables);
    free(kernel->instructions);
    free(kernel->operands);
    free(kernel->constants);
    free(kernel->targets);
    free(kernel);
}
