What run makes of captured files: on what they were recorded, what their allocator had before.
$ D=tests/golden/data; echelon run --trace $D/figures.ech --device h100-sxm --engine native | grep recorded; sed 's/"304"/"300"/' $D/figures.ech >$T/other.ech; echelon run --trace $T/other.ech --device h100-sxm --engine native | grep recorded; sed -e 's/AMD/Nvidia/;s/"304"/"132"/;s/"2100000"/"1980000"/;s/206100000000/84900000000/;s/"4"/"0"/' $D/figures.ech >$T/nvidia.ech; echelon run --trace $T/nvidia.ech --device a100-80 --engine native | grep 'recorded on'
  It takes 53.5 us, bound by recorded kernel times (100 % of the critical path).
    scale                         53.5 us  100.0 % ####################  kernel, recorded, scaled
  Kernel times: 1 recorded, scaled. Engine: native (0.1.0).
  - recorded on AMD Instinct MI300X: recorded times are carried from mi300x to h100-sxm
  - of the 40 us recorded on mi300x, 100.0 % by the rates of memory, or of products, alone
  It takes 40 us, bound by recorded kernel times (100 % of the critical path).
    scale                           40 us  100.0 % ####################  kernel, recorded
  Kernel times: 1 recorded. Engine: native (0.1.0).
  - recorded on a GPU by AMD of 300 multiprocessors at 2.1 GHz with 192 GiB, which is all that the file says of it: its recorded times count as those of h100-sxm
  - recorded on NVIDIA H100 80GB HBM3: recorded times are carried from h100-sxm to a100-80
  - of the 40 us recorded on h100-sxm, 100.0 % by the rates of memory, or of products, alone
$ D=tests/golden/data; echelon run --trace $D/warm_cache.json --device h100-sxm --engine native | grep -E 'takes|held'; for c in '2s/LaunchKernel/Malloc/;s/Reserved":130023424,"Total Allocated":7/Reserved":96468992,"Total Allocated":7/' 's/"Total Reserved":130023424,//' 's/"Total Reserved":130023424,//;s/"cudaLaunchKernel"/"cudaMalloc"/'; do sed "$c" $D/warm_cache.json >$T/changed.json; echelon run --trace $T/changed.json --device h100-sxm --engine native | grep -E 'It takes'; done
  100 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 612 MiB, 512 MiB of it the process's context. When it was recorded it held 124 MiB: how its cache lay when that began is not known here.
  It takes 50 us, bound by recorded kernel times (100 % of the critical path).
  No schedule of it is shorter than 50.0 us on this device; with no overlap at all it takes 50 us.
  It takes 208 us, bound by allocator (100 % of the critical path).
  It takes 50 us, bound by recorded kernel times (100 % of the critical path).
  It takes 416 us, bound by allocator (100 % of the critical path).
