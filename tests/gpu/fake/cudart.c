/* Of CUDA's runtime what the pretending library asks it for, whose name this has: its release. */
int cudaRuntimeGetVersion(int *ret);

int cudaRuntimeGetVersion(int *ret)
{
    *ret = 13000;
    return 0;
}
