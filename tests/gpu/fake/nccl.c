/* Of NCCL what the pretending library asks it for, whose name this has: its release, one that connects when a communicator is made. */
int ncclGetVersion(int *ret);

int ncclGetVersion(int *ret)
{
    *ret = 21403;
    return 0;
}
