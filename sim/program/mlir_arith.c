#include "sim/program/mlir_arith.h"

#include <glib.h>
#include <string.h>

EchMlirArith ech_mlir_arith(const char *name)
{
    static const struct {
        const char *name;
        EchMlirArith arith;
    } names[] = {
        {"arith.addi", ECH_ARITH_ADD},      {"arith.subi", ECH_ARITH_SUB},         {"arith.muli", ECH_ARITH_MUL},         {"arith.andi", ECH_ARITH_AND},
        {"arith.ori", ECH_ARITH_OR},        {"arith.xori", ECH_ARITH_XOR},         {"arith.maxsi", ECH_ARITH_LARGEST},    {"arith.maxui", ECH_ARITH_LARGEST},
        {"arith.minsi", ECH_ARITH_LEAST},   {"arith.minui", ECH_ARITH_LEAST},      {"arith.divsi", ECH_ARITH_DIV},        {"arith.divui", ECH_ARITH_DIV},
        {"arith.remsi", ECH_ARITH_REM},     {"arith.remui", ECH_ARITH_REM},        {"arith.floordivsi", ECH_ARITH_FLOOR}, {"arith.ceildivsi", ECH_ARITH_CEIL},
        {"arith.shli", ECH_ARITH_SHIFT_UP}, {"arith.shrsi", ECH_ARITH_SHIFT_DOWN},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].arith;
    return ECH_ARITH_NONE;
}

bool ech_mlir_compute(EchMlirArith arith, int64_t a, int64_t b, int64_t *ret)
{
    if (arith >= ECH_ARITH_DIV && arith <= ECH_ARITH_CEIL && (b == 0 || (a == INT64_MIN && b == -1)))
        return false;
    switch (arith) {
    case ECH_ARITH_NONE: return false;
    case ECH_ARITH_ADD: return !__builtin_add_overflow(a, b, ret);
    case ECH_ARITH_SUB: return !__builtin_sub_overflow(a, b, ret);
    case ECH_ARITH_MUL: return !__builtin_mul_overflow(a, b, ret);
    case ECH_ARITH_AND: *ret = a & b; return true;
    case ECH_ARITH_OR: *ret = a | b; return true;
    case ECH_ARITH_XOR: *ret = a ^ b; return true;
    case ECH_ARITH_LARGEST: *ret = MAX(a, b); return true;
    case ECH_ARITH_LEAST: *ret = MIN(a, b); return true;
    case ECH_ARITH_DIV: *ret = a / b; return true;
    case ECH_ARITH_REM: *ret = a % b; return true;
    case ECH_ARITH_FLOOR: *ret = a / b - (a % b != 0 && (a < 0) != (b < 0)); return true;
    case ECH_ARITH_CEIL: *ret = a / b + (a % b != 0 && (a < 0) == (b < 0)); return true;
    case ECH_ARITH_SHIFT_UP:
        if (b < 0 || b >= 32 || a < 0 || a > INT32_MAX)
            return false;
        *ret = a << b;
        return true;
    case ECH_ARITH_SHIFT_DOWN:
        if (b < 0 || b >= 32)
            return false;
        *ret = a >> b;
        return true;
    }
    return false;
}

bool ech_mlir_compare(int64_t predicate, int64_t a, int64_t b, int64_t *ret)
{
    switch (predicate) {
    case 0: *ret = a == b; return true;
    case 1: *ret = a != b; return true;
    case 2:
    case 6: *ret = a < b; return true;
    case 3:
    case 7: *ret = a <= b; return true;
    case 4:
    case 8: *ret = a > b; return true;
    case 5:
    case 9: *ret = a >= b; return true;
    default: return false;
    }
}
