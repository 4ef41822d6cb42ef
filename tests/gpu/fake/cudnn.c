/* Of cuDNN what the pretending library asks it for, whose name this has: what a tensor is. Here a descriptor is an array of its rank and its sizes, of f32. And
 * what heuristics, engines and plans say without a GPU, which here is always the same: two configurations, on tensor cores, of the workspace and the knobs that
 * the test sets. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int cudnnGetTensorNdDescriptor(const void *descriptor, int room, int *ret_type, int *ret_rank, int *ret_sizes, int *ret_strides);
int cudnnBackendCreateDescriptor(int type, void **ret);
int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *values);
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t room, int64_t *ret_n, void *ret);
int cudnnBackendFinalize(void *descriptor);
extern int64_t fake_cudnn_workspace, fake_cudnn_knobs[4][2];

int64_t fake_cudnn_workspace, fake_cudnn_knobs[4][2]; /* types and values */

int cudnnGetTensorNdDescriptor(const void *descriptor, int room, int *ret_type, int *ret_rank, int *ret_sizes, int *ret_strides)
{
    const int *numbers = descriptor;
    if (numbers[0] > room)
        return 2000; /* CUDNN_STATUS_BAD_PARAM */
    *ret_type = 0;
    *ret_rank = numbers[0];
    for (int i = numbers[0] - 1, stride = 1; i >= 0; stride *= numbers[1 + i], i--) {
        ret_sizes[i] = numbers[1 + i];
        ret_strides[i] = stride;
    }
    return 0;
}

/* A descriptor is the place of a knob among all. */
int cudnnBackendCreateDescriptor(int type, void **ret)
{
    (void)type;
    *ret = calloc(1, sizeof(int64_t));
    return *ret ? 0 : 4003;
}

int cudnnBackendDestroyDescriptor(void *descriptor)
{
    free(descriptor);
    return 0;
}

int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *values)
{
    (void)descriptor, (void)name, (void)type, (void)n, (void)values;
    return 0;
}

int cudnnBackendFinalize(void *descriptor)
{
    (void)descriptor;
    return 0;
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t room, int64_t *ret_n, void *ret)
{
    int64_t *at = descriptor, all = 1;
    int32_t of = 0;
    (void)type;
    switch (name) {
    case 202: all = 2; break; /* results of heuristics */
    case 302:                 /* knobs */
        all = 4;
        for (int64_t i = 0; ret && i < all && i < room; i++)
            *((int64_t **)ret)[i] = i;
        break;
    case 303: /* the workspace of a configuration, and of a plan */
    case 402:
        if (ret && room > 0)
            memcpy(ret, &fake_cudnn_workspace, sizeof fake_cudnn_workspace);
        break;
    case 600: /* a knob */
        of = (int32_t)fake_cudnn_knobs[*at][0];
        memcpy(ret, &of, sizeof of);
        break;
    case 601: memcpy(ret, &fake_cudnn_knobs[*at][1], sizeof(int64_t)); break;
    case 304:  /* shared memory: none */
    case 1303: /* notes: CUDNN_NUMERICAL_NOTE_TENSOR_CORE */
        if (ret && room > 0)
            memcpy(ret, &of, sizeof of);
        break;
    default: break;
    }
    *ret_n = ret && all > room ? room : all;
    return 0;
}
