/* PTX as text, one instruction a line, to an array of decoded instructions, and a loop that runs them. */
#include "tests/gpu/fake/ptx.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 16, MOST_PARAMETERS = 16, MOST_NAME = 64 };

typedef enum { SLOT, CONSTANT, SPECIAL, NOWHERE } OperandKind;
enum { TID, NTID, CTAID, NCTAID, GLOBALTIMER };

typedef struct {
    OperandKind kind;
    uint64_t value; /* Number of the register, the constant's bits, or which special register */
} Operand;

typedef enum { LD_PARAM, LD, ST, ATOM_ADD, MOV, CVT, ADD, SUB, MUL, MUL_WIDE, MIN, AND, OR, XOR, SHL, SHR, NEG, FMA, EX2, SETP, SELP, MMA, BRA, RET } Code;
typedef enum { U32, S32, U64, S64, F32, F64 } Type;
typedef enum { EQ, NE, LT, LE, GT, GE } Relation;

typedef struct {
    Code code;
    Type type, from; /* from: of cvt */
    Relation relation;
    int guard; /* Register of the predicate; -1: always */
    bool guarded_by_false, signed_shift;
    int vector; /* Elements of a load or store */
    int n;
    Operand operands[MOST_OPERANDS];
    int64_t offset;        /* Of a memory operand */
    size_t target;         /* Of a branch: instruction */
    char label[MOST_NAME]; /* Before that is known */
    unsigned line;
} Instruction;

typedef struct {
    char name[MOST_NAME];
    unsigned sizes[MOST_PARAMETERS], offsets[MOST_PARAMETERS];
    int n_parameters;
    unsigned most_threads;
    Instruction *code;
    size_t n, room;
    struct {
        char name[MOST_NAME];
        size_t at;
    } labels[64];
    int n_labels;
    struct {
        char prefix[8];
        unsigned first, count;
    } files[8];
    int n_files;
    unsigned n_registers;
} Kernel;

struct Ptx {
    Kernel *kernels;
    size_t n;
};

/* ---- reading ---- */

typedef struct {
    Kernel *kernel;
    unsigned line;
    char *why;
    size_t room;
} Reader;

static bool refuse(Reader *r, const char *what, const char *word)
{
    snprintf(r->why, r->room, "line %u: %s: %s", r->line, what, word);
    return false;
}

static bool type_of(const char *word, Type *ret)
{
    static const struct {
        const char *name;
        Type type;
    } names[] = {{"u32", U32}, {"b32", U32}, {"s32", S32}, {"u64", U64}, {"b64", U64}, {"s64", S64}, {"f32", F32}, {"f64", F64}, {"pred", U32}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, word) == 0) {
            *ret = names[i].type;
            return true;
        }
    }
    return false;
}

static unsigned size_of(Type type)
{
    return type == U64 || type == S64 || type == F64 ? 8 : 4;
}

static bool register_of(Reader *r, const char *word, Operand *ret)
{
    static const char *const specials[] = {"%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x", "%globaltimer"};
    for (unsigned i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (strcmp(word, specials[i]) == 0) {
            *ret = (Operand){SPECIAL, i};
            return true;
        }
    }
    size_t letters = 1 + strcspn(word + 1, "0123456789");
    for (int i = 0; i < r->kernel->n_files; i++) {
        if (strlen(r->kernel->files[i].prefix) != letters || strncmp(r->kernel->files[i].prefix, word, letters) != 0)
            continue;
        unsigned long number = strtoul(word + letters, NULL, 10);
        if (number >= r->kernel->files[i].count)
            break;
        *ret = (Operand){SLOT, r->kernel->files[i].first + number};
        return true;
    }
    return refuse(r, "no such register", word);
}

static bool operand_of(Reader *r, const char *word, Instruction *in)
{
    if (in->n == MOST_OPERANDS)
        return refuse(r, "too many operands", word);
    Operand *operand = &in->operands[in->n++];
    if (*word == '%')
        return register_of(r, word, operand);
    if (strcmp(word, "_") == 0) {
        *operand = (Operand){NOWHERE, 0};
        return true;
    }
    char *end;
    bool real = word[0] == '0' && (word[1] == 'f' || word[1] == 'd');
    *operand = (Operand){CONSTANT, real ? strtoull(word + 2, &end, 16) : strtoull(word, &end, 0)};
    if (*word == '-')
        operand->value = (uint64_t)strtoll(word, &end, 0);
    return *end == '\0' && *word ? true : refuse(r, "no operand", word);
}

/* "[%rd1]", "[%rd1+8]", "[NAME_param_3]" */
static bool address_of(Reader *r, char *word, Instruction *in)
{
    word[strlen(word) - 1] = '\0';
    word++;
    if (in->code == LD_PARAM) {
        const char *number = strstr(word, "_param_");
        in->operands[in->n++] = (Operand){CONSTANT, number ? strtoull(number + 7, NULL, 10) : MOST_PARAMETERS};
        return (int)in->operands[in->n - 1].value < r->kernel->n_parameters ? true : refuse(r, "no such parameter", word);
    }
    char *plus = strchr(word, '+');
    in->offset = plus ? strtoll(plus + 1, NULL, 0) : 0;
    if (plus)
        *plus = '\0';
    return operand_of(r, word, in);
}

/* The parts of an operation's name, to what it is. */
static bool opcode_of(Reader *r, const char *name, Instruction *in)
{
    static const struct {
        const char *name;
        Code code;
    } names[] = {{"ld", LD},   {"st", ST},   {"atom", ATOM_ADD}, {"mov", MOV},   {"cvta", MOV}, {"cvt", CVT}, {"add", ADD}, {"sub", SUB},
                 {"mul", MUL}, {"min", MIN}, {"and", AND},       {"or", OR},     {"xor", XOR},  {"shl", SHL}, {"shr", SHR}, {"neg", NEG},
                 {"fma", FMA}, {"ex2", EX2}, {"setp", SETP},     {"selp", SELP}, {"mma", MMA},  {"bra", BRA}, {"ret", RET}};
    static const struct {
        const char *name;
        Relation relation;
    } relations[] = {{"eq", EQ}, {"ne", NE}, {"lt", LT}, {"le", LE}, {"gt", GT}, {"ge", GE}, {"neu", NE}};
    static const char *const harmless[] = {"global", "nc",      "cg",       "lo",  "rn",  "approx", "ftz", "to",
                                           "sync",   "aligned", "m16n8k16", "row", "col", "bf16",   "uni", "add"};
    char copy[128];
    snprintf(copy, sizeof copy, "%s", name);
    bool known = false;
    int types = 0;
    in->vector = 1;
    char *rest = NULL;
    for (char *part = strtok_r(copy, ".", &rest), *first = part; part; part = strtok_r(NULL, ".", &rest)) {
        bool ok = false;
        if (part == first) {
            for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                if (strcmp(names[i].name, part) == 0) {
                    in->code = names[i].code;
                    ok = known = true;
                }
            }
        } else if (in->code == LD && strcmp(part, "param") == 0) {
            in->code = LD_PARAM;
            ok = true;
        } else if (in->code == MUL && strcmp(part, "wide") == 0) {
            in->code = MUL_WIDE;
            ok = true;
        } else if ((in->code == LD || in->code == ST) && strcmp(part, "v4") == 0) {
            in->vector = 4;
            ok = true;
        } else if (in->code == SETP && types == 0) {
            for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
                if (strcmp(relations[i].name, part) == 0) {
                    in->relation = relations[i].relation;
                    ok = true;
                }
            }
        }
        Type type;
        if (!ok && type_of(part, &type)) {
            *(types++ == 0 ? &in->type : &in->from) = type;
            in->signed_shift = type == S32 || type == S64;
            ok = true;
        }
        for (size_t i = 0; !ok && i < sizeof harmless / sizeof *harmless; i++)
            ok = strcmp(harmless[i], part) == 0;
        if (!ok)
            return refuse(r, "unknown instruction", name);
    }
    return known && (types > 0 || in->code == BRA || in->code == RET) ? true : refuse(r, "unknown instruction", name);
}

static bool instruction_of(Reader *r, char *text)
{
    Kernel *k = r->kernel;
    if (k->n == k->room) {
        k->room = k->room ? 2 * k->room : 64;
        k->code = realloc(k->code, k->room * sizeof *k->code);
        if (!k->code)
            abort();
    }
    Instruction in = {.guard = -1, .line = r->line};
    const char *separators = " \t,{};";
    char *rest = NULL, *word = strtok_r(text, separators, &rest);
    if (word && *word == '@') {
        Operand guard;
        in.guarded_by_false = word[1] == '!';
        if (!register_of(r, word + 1 + in.guarded_by_false, &guard))
            return false;
        in.guard = (int)guard.value;
        word = strtok_r(NULL, separators, &rest);
    }
    if (!word || !opcode_of(r, word, &in))
        return word ? false : refuse(r, "no instruction", text);
    while ((word = strtok_r(NULL, separators, &rest))) {
        if (in.code == BRA)
            snprintf(in.label, sizeof in.label, "%s", word);
        else if (*word == '[' ? !address_of(r, word, &in) : !operand_of(r, word, &in))
            return false;
    }
    k->code[k->n++] = in;
    return true;
}

static bool declaration_of(Reader *r, const char *text)
{
    Kernel *k = r->kernel;
    char type[8], prefix[8];
    unsigned count;
    if (sscanf(text, ".reg .%7s %7[%a-z]<%u>", type, prefix, &count) != 3 || k->n_files == 8)
        return refuse(r, "unknown declaration", text);
    snprintf(k->files[k->n_files].prefix, sizeof k->files->prefix, "%s", prefix);
    k->files[k->n_files].first = k->n_registers;
    k->files[k->n_files++].count = count;
    k->n_registers += count;
    return true;
}

static bool resolve(Reader *r)
{
    Kernel *k = r->kernel;
    for (size_t i = 0; i < k->n; i++) {
        bool found = k->code[i].code != BRA;
        for (int l = 0; !found && l < k->n_labels; l++) {
            if (strcmp(k->labels[l].name, k->code[i].label) == 0) {
                k->code[i].target = k->labels[l].at;
                found = true;
            }
        }
        r->line = k->code[i].line;
        if (!found)
            return refuse(r, "no such label", k->code[i].label);
    }
    return k->n > 0 && k->code[k->n - 1].code == RET ? true : refuse(r, "no end of", k->name);
}

/* One line, its blanks and comment taken off. */
static bool line_of(Ptx *ptx, Reader *r, char *text)
{
    char name[MOST_NAME], type[8];
    Kernel *k = r->kernel;
    if (sscanf(text, ".visible .entry %63[a-z0-9_](", name) == 1) {
        ptx->kernels = realloc(ptx->kernels, (ptx->n + 1) * sizeof *ptx->kernels);
        if (!ptx->kernels)
            abort();
        r->kernel = k = &ptx->kernels[ptx->n++];
        *k = (Kernel){.most_threads = 1024};
        snprintf(k->name, sizeof k->name, "%s", name);
        return true;
    }
    if (!k)
        return strncmp(text, ".version", 8) == 0 || strncmp(text, ".target", 7) == 0 || strncmp(text, ".address_size 64", 16) == 0 ||
               refuse(r, "outside of a kernel", text);
    if (sscanf(text, ".param .%7[a-z0-9]", type) == 1) {
        Type is;
        if (!type_of(type, &is) || k->n_parameters == MOST_PARAMETERS)
            return refuse(r, "unknown parameter", text);
        k->sizes[k->n_parameters++] = size_of(is);
        return true;
    }
    if (sscanf(text, ".maxntid %u", &k->most_threads) == 1)
        return true;
    if (strncmp(text, ".minnctapersm", 13) == 0 || strcmp(text, ")") == 0 || strcmp(text, "{") == 0 || strncmp(text, ".pragma", 7) == 0)
        return true;
    if (strcmp(text, "}") == 0) {
        bool ok = resolve(r);
        r->kernel = NULL;
        return ok;
    }
    if (strncmp(text, ".reg", 4) == 0)
        return declaration_of(r, text);
    char *colon = strchr(text, ':');
    if (colon && colon[1] == '\0') {
        *colon = '\0';
        if (k->n_labels == 64)
            return refuse(r, "too many labels", text);
        snprintf(k->labels[k->n_labels].name, MOST_NAME, "%s", text);
        k->labels[k->n_labels++].at = k->n;
        return true;
    }
    return instruction_of(r, text);
}

Ptx *ptx_load(const char *text, char *why, size_t room)
{
    Ptx *ptx = calloc(1, sizeof *ptx);
    Reader r = {.why = why, .room = room};
    bool ok = ptx != NULL;
    for (const char *at = text; ok && *at;) {
        size_t length = strcspn(at, "\n");
        char line[512];
        r.line++;
        ok = length < sizeof line || refuse(&r, "too long", "a line");
        if (!ok)
            break;
        memcpy(line, at, length);
        line[length] = '\0';
        char *comment = strstr(line, "//");
        if (comment)
            *comment = '\0';
        char *begin = line + strspn(line, " \t"), *end = begin + strlen(begin);
        while (end > begin && isspace((unsigned char)end[-1]))
            *--end = '\0';
        ok = *begin == '\0' || line_of(ptx, &r, begin);
        at += length + (at[length] == '\n');
    }
    if (ok && !r.kernel)
        return ptx;
    if (ok)
        refuse(&r, "no end of", r.kernel->name);
    ptx_free(ptx);
    return NULL;
}

void ptx_free(Ptx *ptx)
{
    if (!ptx)
        return;
    for (size_t i = 0; i < ptx->n; i++)
        free(ptx->kernels[i].code);
    free(ptx->kernels);
    free(ptx);
}

static const Kernel *kernel_of(const Ptx *ptx, const char *name)
{
    for (size_t i = 0; i < ptx->n; i++) {
        if (strcmp(ptx->kernels[i].name, name) == 0)
            return &ptx->kernels[i];
    }
    return NULL;
}

int ptx_parameters(const Ptx *ptx, const char *name, unsigned *sizes, int most)
{
    const Kernel *k = kernel_of(ptx, name);
    for (int i = 0; k && i < k->n_parameters && i < most; i++)
        sizes[i] = k->sizes[i];
    return k ? k->n_parameters : -1;
}

unsigned ptx_most_threads(const Ptx *ptx, const char *name)
{
    const Kernel *k = kernel_of(ptx, name);
    return k ? k->most_threads : 0;
}

/* ---- running ---- */

typedef struct {
    const Kernel *kernel;
    const uint64_t *parameters;
    uint64_t *registers;
    uint64_t specials[GLOBALTIMER + 1];
    PtxMemory memory;
    void *data;
    PtxCounts *counts;
} Thread;

static uint64_t value_of(Thread *t, const Operand *operand)
{
    if (operand->kind == SLOT)
        return t->registers[operand->value];
    if (operand->kind == CONSTANT)
        return operand->value;
    if (operand->value == GLOBALTIMER)
        t->specials[GLOBALTIMER] += 1000;
    return t->specials[operand->value];
}

static void set(Thread *t, const Operand *operand, Type type, uint64_t value)
{
    if (operand->kind == SLOT)
        t->registers[operand->value] = size_of(type) == 4 ? (uint32_t)value : value;
}

static double real_of(uint64_t bits, Type type)
{
    float narrow;
    double wide;
    uint32_t low = (uint32_t)bits;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    return type == F32 ? (double)narrow : wide;
}

static uint64_t bits_of(double value, Type type)
{
    float narrow = (float)value;
    uint32_t low;
    uint64_t bits;
    memcpy(&low, &narrow, sizeof low);
    memcpy(&bits, &value, sizeof bits);
    return type == F32 ? low : bits;
}

static bool is_real(Type type)
{
    return type == F32 || type == F64;
}

static int64_t signed_of(uint64_t bits, Type type)
{
    return type == S32 ? (int32_t)bits : (int64_t)bits;
}

static bool related(Relation relation, int order)
{
    switch (relation) {
    case EQ: return order == 0;
    case NE: return order != 0;
    case LT: return order < 0;
    case LE: return order <= 0;
    case GT: return order > 0;
    case GE: return order >= 0;
    }
    return false;
}

static int order_of(Type type, uint64_t a, uint64_t b)
{
    if (is_real(type)) {
        double x = real_of(a, type), y = real_of(b, type);
        return x < y ? -1 : x > y;
    }
    if (type == S32 || type == S64) {
        int64_t x = signed_of(a, type), y = signed_of(b, type);
        return x < y ? -1 : x > y;
    }
    if (type == U32)
        return (uint32_t)a < (uint32_t)b ? -1 : (uint32_t)a > (uint32_t)b;
    return a < b ? -1 : a > b;
}

static uint64_t shifted(const Instruction *in, uint64_t value, uint64_t by)
{
    unsigned bits = 8 * size_of(in->type);
    if (in->code == SHL)
        return by >= bits ? 0 : value << by;
    if (in->signed_shift)
        return (uint64_t)(signed_of(value, in->type) >> (by >= bits ? bits - 1 : by));
    return by >= bits ? 0 : (bits == 32 ? (uint32_t)value : value) >> by;
}

/* a op b, and with c where there are three. */
static uint64_t computed(const Instruction *in, uint64_t a, uint64_t b, uint64_t c)
{
    Type type = in->type;
    if (is_real(type)) {
        double x = real_of(a, type), y = real_of(b, type), z = real_of(c, type);
        switch ((int)in->code) {
        case ADD: return bits_of(type == F32 ? (double)((float)x + (float)y) : x + y, type);
        case SUB: return bits_of(type == F32 ? (double)((float)x - (float)y) : x - y, type);
        case MUL: return bits_of(type == F32 ? (double)((float)x * (float)y) : x * y, type);
        case FMA: return bits_of(type == F32 ? (double)fmaf((float)x, (float)y, (float)z) : fma(x, y, z), type);
        case EX2: return bits_of(exp2(x), type);
        case NEG: return bits_of(-x, type);
        default: return a;
        }
    }
    switch ((int)in->code) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case MUL_WIDE: return in->type == S32 ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b) : (uint64_t)(uint32_t)a * (uint32_t)b;
    case MIN: return order_of(type, a, b) <= 0 ? a : b;
    case AND: return a & b;
    case OR: return a | b;
    case XOR: return a ^ b;
    case SHL:
    case SHR: return shifted(in, a, b & 0xffffffffu);
    case NEG: return (uint64_t)0 - a;
    default: return a;
    }
}

static uint64_t converted(const Instruction *in, uint64_t value)
{
    uint64_t whole = in->from == U32 ? (uint32_t)value : in->from == S32 ? (uint64_t)(int64_t)(int32_t)value : value;
    if (!is_real(in->type))
        return whole;
    bool negative = in->from == S32 || in->from == S64;
    return bits_of(negative ? (double)(int64_t)whole : (double)whole, in->type);
}

/* Loads, stores and atomics. False: not allowed there. */
static bool touched(Thread *t, const Instruction *in, uint64_t *ret_address)
{
    bool reads = in->code != ST, writes = in->code != LD;
    int at = in->code == LD ? in->vector : in->code == ST ? 0 : 1;
    uint64_t address = *ret_address = value_of(t, &in->operands[at]) + (uint64_t)in->offset;
    unsigned size = size_of(in->type), bytes = size * (unsigned)in->vector;
    char *host = address % bytes == 0 ? t->memory(address, bytes, writes, t->data) : NULL;
    if (!host)
        return false;
    t->counts->read += reads ? bytes : 0;
    t->counts->written += writes ? bytes : 0;
    for (int i = 0; i < in->vector; i++) {
        uint64_t value = 0;
        if (in->code == ST) {
            value = value_of(t, &in->operands[1 + i]);
            memcpy(host + (size_t)i * size, &value, size);
            continue;
        }
        memcpy(&value, host + (size_t)i * size, size);
        set(t, &in->operands[i], in->type, value);
        value += in->code == ATOM_ADD ? value_of(t, &in->operands[2]) : 0;
        if (in->code == ATOM_ADD)
            memcpy(host, &value, size);
    }
    return true;
}

static void multiply(Thread *t, const Instruction *in)
{
    for (int i = 0; i < 4; i++)
        set(t, &in->operands[i], F32, value_of(t, &in->operands[in->n - 4 + i]));
    t->counts->mma++;
}

typedef enum { ENDED, FAULT, RAN_AWAY, OUT_OF_FUEL } Outcome;

/* One thread from its first instruction on; @ret_at and @ret_address tell where it failed. */
static Outcome run_thread(Thread *t, uint64_t fuel, const Instruction **ret_at, uint64_t *ret_address)
{
    const Kernel *k = t->kernel;
    memset(t->registers, 0, (size_t)k->n_registers * sizeof *t->registers);
    uint64_t steps = 0;
    for (size_t at = 0; at < k->n; at++) {
        const Instruction *in = *ret_at = &k->code[at];
        if (fuel > 0 && t->counts->instructions >= fuel)
            return OUT_OF_FUEL;
        t->counts->instructions++;
        if (++steps >> 32)
            return RAN_AWAY;
        if (in->guard >= 0 && (t->registers[in->guard] != 0) == in->guarded_by_false)
            continue;
        const Operand *to = &in->operands[0];
        uint64_t a = in->n > 1 && in->code != LD && in->code != ATOM_ADD && in->code != MMA ? value_of(t, &in->operands[1]) : 0;
        uint64_t b = in->n > 2 && in->code != ATOM_ADD && in->code != MMA && in->code != LD ? value_of(t, &in->operands[2]) : 0;
        switch ((int)in->code) {
        case RET: return ENDED;
        case BRA: at = in->target - 1; break;
        case LD_PARAM: set(t, to, in->type, t->parameters[in->operands[1].value]); break;
        case LD:
        case ST:
        case ATOM_ADD:
            if (!touched(t, in, ret_address))
                return FAULT;
            break;
        case MOV: set(t, to, in->type, a); break;
        case CVT: set(t, to, in->type, converted(in, a)); break;
        case SETP: set(t, to, U32, related(in->relation, order_of(in->type, a, b))); break;
        case SELP: set(t, to, in->type, value_of(t, &in->operands[3]) ? a : b); break;
        case MMA: multiply(t, in); break;
        case MUL_WIDE: set(t, to, U64, computed(in, a, b, 0)); break;
        default:
            t->counts->fma32 += in->code == FMA && in->type == F32;
            t->counts->fma64 += in->code == FMA && in->type == F64;
            t->counts->ex2 += in->code == EX2;
            set(t, to, in->type, computed(in, a, b, in->n > 3 ? value_of(t, &in->operands[3]) : 0));
        }
    }
    return ENDED;
}

bool ptx_run(const Ptx *ptx, const char *name, unsigned blocks, unsigned threads, void *const *parameters, uint64_t fuel, PtxMemory memory, void *data,
             PtxCounts *ret, char *why, size_t room)
{
    const Kernel *k = kernel_of(ptx, name);
    uint64_t values[MOST_PARAMETERS] = {0}, all = (uint64_t)blocks * threads, address = 0;
    *ret = (PtxCounts){0};
    if (!k) {
        snprintf(why, room, "no kernel %s", name);
        return false;
    }
    /* As many bytes of each as the kernel says, as the driver does. */
    for (int i = 0; i < k->n_parameters; i++)
        memcpy(&values[i], parameters[i], k->sizes[i]);
    uint64_t *registers = calloc(k->n_registers + 1, sizeof *registers);
    if (!registers)
        abort();
    Thread t = {.kernel = k, .parameters = values, .registers = registers, .memory = memory, .data = data, .counts = ret};
    Outcome outcome = ENDED;
    for (uint64_t i = 0; i < all && outcome == ENDED; i++) {
        uint64_t which = i == 0 ? all - 1 : i - 1;
        const Instruction *at = NULL;
        t.specials[TID] = which % threads;
        t.specials[CTAID] = which / threads;
        t.specials[NTID] = threads;
        t.specials[NCTAID] = blocks;
        outcome = run_thread(&t, fuel, &at, &address);
        ret->threads += outcome == ENDED;
        if (outcome == FAULT)
            snprintf(why, room, "%s, line %u, block %u, thread %u: %llx may not be touched", name, at->line, (unsigned)(which / threads),
                     (unsigned)(which % threads), (unsigned long long)address);
        else if (outcome == RAN_AWAY)
            snprintf(why, room, "%s, line %u: a thread does not end", name, at->line);
    }
    free(registers);
    ret->complete = ret->threads == all;
    return outcome == ENDED || outcome == OUT_OF_FUEL;
}
