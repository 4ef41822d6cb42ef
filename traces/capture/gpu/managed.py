"""Managed memory that host and GPU touch in turn, for `echelon capture`: what migrates, and who faults. Nothing but Python and the driver.

    echelon capture -o DIR/managed -- python managed.py

Each round 64 MiB go to the GPU and back; more than a second lies between rounds, since the counters may be had only some time after the driver has started.
"""
import ctypes
import os
import sys
import time

BYTES, ROUNDS = 64 << 20, 4
GLOBAL = 1  # CU_MEM_ATTACH_GLOBAL


def main():
    driver = ctypes.CDLL(os.environ.get("ECHELON_LIBCUDA") or "libcuda.so.1")

    def call(name, *arguments):
        result = getattr(driver, name)(*arguments)
        if result:
            sys.exit(f"{name}: error {result}")

    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    size = ctypes.c_size_t(BYTES)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAllocManaged", ctypes.byref(address), size, GLOBAL)
    for number in range(ROUNDS):
        ctypes.memset(address.value, number + 1, BYTES)  # the host writes
        call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), size)  # the GPU does
        call("cuCtxSynchronize")
        assert not any(ctypes.string_at(address.value, BYTES)[:: 1 << 16])  # the host reads
        time.sleep(1.2)
    call("cuMemFree_v2", address)
    call("cuDevicePrimaryCtxRelease_v2", device)


if __name__ == "__main__":
    main()
