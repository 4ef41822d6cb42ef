/* Of cuSPARSE what the pretending library asks it for, whose name this has: what matrices are. Here a descriptor is an array of numbers: a format, rows,
 * columns, elements (sparse, of f32 with indices of 64 bits), or rows, columns (dense, of f32), or a size (a vector). */
#include <stddef.h>
#include <stdint.h>

int cusparseSpMatGetFormat(const void *matrix, int *ret);
int cusparseConstCsrGet(const void *matrix, int64_t *rows, int64_t *columns, int64_t *elements, const void **offsets, const void **indices, const void **values,
                        int *of_offsets, int *of_indices, int *base, int *type);
int cusparseConstCooGet(const void *matrix, int64_t *rows, int64_t *columns, int64_t *elements, const void **of_rows, const void **of_columns,
                        const void **values, int *of_indices, int *base, int *type);
int cusparseConstDnMatGet(const void *matrix, int64_t *rows, int64_t *columns, int64_t *leading, const void **values, int *type, int *order);
int cusparseConstDnVecGet(const void *vector, int64_t *size, const void **values, int *type);

int cusparseSpMatGetFormat(const void *matrix, int *ret)
{
    *ret = (int)((const int64_t *)matrix)[0];
    return 0;
}

int cusparseConstCsrGet(const void *matrix, int64_t *rows, int64_t *columns, int64_t *elements, const void **offsets, const void **indices, const void **values,
                        int *of_offsets, int *of_indices, int *base, int *type)
{
    *of_offsets = 3;
    return cusparseConstCooGet(matrix, rows, columns, elements, offsets, indices, values, of_indices, base, type);
}

int cusparseConstCooGet(const void *matrix, int64_t *rows, int64_t *columns, int64_t *elements, const void **of_rows, const void **of_columns,
                        const void **values, int *of_indices, int *base, int *type)
{
    const int64_t *numbers = matrix;
    *rows = numbers[1];
    *columns = numbers[2];
    *elements = numbers[3];
    *of_rows = *of_columns = *values = NULL;
    *of_indices = 3;
    *base = *type = 0;
    return 0;
}

int cusparseConstDnMatGet(const void *matrix, int64_t *rows, int64_t *columns, int64_t *leading, const void **values, int *type, int *order)
{
    const int64_t *numbers = matrix;
    *rows = *leading = numbers[0];
    *columns = numbers[1];
    *values = NULL;
    *type = 0;
    *order = 1;
    return 0;
}

int cusparseConstDnVecGet(const void *vector, int64_t *size, const void **values, int *type)
{
    *size = *(const int64_t *)vector;
    *values = NULL;
    *type = 0;
    return 0;
}
