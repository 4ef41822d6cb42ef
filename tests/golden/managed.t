$ echelon info tests/fuzz/corpus/pretend/managed.pretend | head -20
tests/fuzz/corpus/pretend/managed.pretend: pretend
7 operations on 3 queues, 6 buffers
  kernel 2  copy 2  alloc 2  free 1
bytes
  allocated in all           8.00 MiB  (8392704)
  most live in hbm              4 KiB  (4096)
  most live in host             8 MiB  (8388608)
  live at the end               4 KiB  (4096)
  reserved at the end           4 KiB  (4096)
  host to device                1 MiB  (1048576)
  device to host                  0 B  (0)
  device to device                0 B  (0)
  managed, at most              8 MiB  (8388608)
  prefetched to host            2 MiB  (2097152)
what the file says, what was inferred
  sizes of allocations   known 100.0 %
  bytes of copies        known 100.0 %
  bytes of kernels       inferred 100.0 %
  operations of kernels  absent 100.0 %
records of the file
$ echelon info tests/fuzz/corpus/cupti/managed.capture | sed -n '/^bytes/,/migrated to host/p'
bytes
  allocated in all              2 MiB  (2097152)
  live at the peak              2 MiB  (2097152)
  live at the end                 0 B  (0)
  host to device               68 KiB  (69632)
  device to host               32 KiB  (32768)
  device to device                0 B  (0)
  managed, at most              2 MiB  (2097152)
  migrated to device           64 KiB  (65536)
  migrated to host             32 KiB  (32768)
$ echelon run --trace tests/fuzz/corpus/pretend/managed.pretend --device t4 | sed -n '/fits/,/critical path/p'
  It fits. host 8 MiB of 256 GiB (0 %), hbm 4 KiB of 14.6 GiB (0 %)
  Managed memory: up to 8 MiB, on the device as far as hbm has room left, else on the host. 8 MiB came from the host when they were touched or prefetched, or were read there, and 0 B went there to make room; operations waited 832 us for that.
  It takes 1.09 ms, bound by unified memory's pages (77 % of the critical path).
$ echelon run --trace tests/fuzz/corpus/pretend/managed.pretend --device t4 --set device.memories.hbm.available=6MiB | grep -E 'Managed|takes'
  Managed memory: up to 8 MiB, on the device as far as hbm has room left, else on the host. 8 MiB came from the host when they were touched or prefetched, or were read there, and 0 B went there to make room; operations waited 832 us for that.
  It takes 1.09 ms, bound by unified memory's pages (77 % of the critical path).
  No schedule of it is shorter than 248 us on this device; with no overlap at all it takes 1.11 ms.
    It takes as long as before, 1.09 ms: 77 % of its critical path is on the unified memory's pages, which this does not touch.
    (pageable port: copies from or to host memory that is not page-locked: the driver takes them over a buffer of its own)
    (the host's launches: one thread of the host asks for one kernel or copy after another and takes runtime.submit_ps for each and runtime.eager_operator_ps for each operator (runtime.eager_launch_ps for each where no operators are told; of a program in CUDA C++ runtime.submit_ps alone): larger ones or a CUDA graph (replay.graph=true) hide it, replay.host_launches=false leaves it out)
    210 us 19.3 %: the program's end for Memcpy HtoD (Pageable -> Managed) (1 MiB from pageable to hbm): 210 us in its own queue
         8 MiB  cudaMallocManaged
    Memcpy HtoD (Pageable -> Managed)     210 us   19.3 % ####................  copy
$ echelon run --trace tests/fuzz/corpus/pretend/managed.pretend --device mi300x 2>&1 | grep managed
managed.pretend on mi300x (AMD Instinct MI300X, 192 GB HBM3)
  - managed buffers cost no migration here: unified memory: mi300x has no driver that moves pages when they are touched, as far as is known here; expected an NVIDIA GPU with a link to the host
