/* Of cuDNN what the pretending library asks it for, whose name this has: what a tensor is. Here a descriptor is an array of its rank and its sizes, of f32. */
int cudnnGetTensorNdDescriptor(const void *descriptor, int room, int *ret_type, int *ret_rank, int *ret_sizes, int *ret_strides);

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
