Recorded durations against a device's, and what cannot be compared.
$ echelon validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml
recorded.ech
recorded on small, against small (a device for tests)

                                               pairs   measured  predicted    in all    median   9 in 10      mean
  copy                                             3      55 ms      50 ms    -9.1 %     0.0 %    20.0 %     6.7 %
    hbm to host, against the other direction       1      25 ms      20 ms   -20.0 %    20.0 %    20.0 %    20.0 %
    host to hbm                                    1      10 ms      10 ms    +0.0 %     0.0 %     0.0 %     0.0 %
    host to hbm, against the other direction       1      20 ms      20 ms    +0.0 %     0.0 %     0.0 %     0.0 %
  kernel                                           2      31 ms      30 ms    -3.2 %     9.1 %     9.1 %     4.5 %
    bytes and operations recorded                  1      11 ms      10 ms    -9.1 %     9.1 %     9.1 %     9.1 %
    bytes inferred, operations not known           1      20 ms      20 ms    +0.0 %     0.0 %     0.0 %     0.0 %
  all                                              5      86 ms      80 ms    -7.0 %     0.0 %    20.0 %     5.8 %

Whole run: busy 71 ms of the 71 ms recorded; predicted 65.0 ms (-8.5 %), with 5 ms of recorded kernel times standing in

Where the prediction misses the most time (times of all occurrences together)
  out, both ways       1      25 ms      20 ms   -20.0 %  copy of 143 MiB
  matmul               1      11 ms      10 ms    -9.1 %  kernel of 191 MiB

Not compared, and not in any figure above
  1 kernel, recorded 5 ms in all: neither bytes nor operations are known (first: unknown)
  1 copy: its end was not recorded (first: no end)

- Copies: the host link of small (rate, latency, both directions together), each beside what it was recorded beside.
- Where the link's rates come from (one that was fitted to this very recording agrees with it by making): links.host.to_device: assumed; links.host.from_device: assumed; links.host.both_ways: assumed.
- Kernels: the slower of operations at peak and bytes at full bandwidth of small, both inferred from recorded shapes; a lower bound, so most should come out too fast.
- In the whole run, kernels about which nothing but their recorded time is known take that time on both sides: it validates nothing, and where it is most of the run, neither does the whole.
- Set-ups of copies are left out on both sides, as are times in which the device had nothing to do: they are the host's. A kernel's least time is runtime.graph_launch_ps of the device, or launch_ps.
$ echelon validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml --json
{
  "device" : "small",
  "measured" : "recorded on small",
  "comparable" : true,
  "pairs" : [
    {
      "name" : "in alone",
      "kind" : "copy",
      "group" : "host to hbm",
      "measured_ps" : 10000000000,
      "predicted_ps" : 10000000000,
      "predicted_by" : "link",
      "device" : 0,
      "start_ps" : 0,
      "bytes" : 100000000
    },
    {
      "name" : "matmul",
      "kind" : "kernel",
      "group" : "bytes and operations recorded",
      "measured_ps" : 11000000000,
      "predicted_ps" : 10000000000,
      "predicted_by" : "roofline",
      "device" : 0,
      "start_ps" : 10000000000,
      "bytes" : 200000000
    },
    {
      "name" : "add",
      "kind" : "kernel",
      "group" : "bytes inferred, operations not known",
      "measured_ps" : 20000000000,
      "predicted_ps" : 20000000000,
      "predicted_by" : "roofline",
      "device" : 0,
      "start_ps" : 21000000000,
      "bytes" : 2000000000
    },
    {
      "name" : "in, both ways",
      "kind" : "copy",
      "group" : "host to hbm, against the other direction",
      "measured_ps" : 20000000000,
      "predicted_ps" : 20000000000,
      "predicted_by" : "link",
      "device" : 0,
      "start_ps" : 46000000000,
      "bytes" : 150000000
    },
    {
      "name" : "out, both ways",
      "kind" : "copy",
      "group" : "hbm to host, against the other direction",
      "measured_ps" : 25000000000,
      "predicted_ps" : 20000000000,
      "predicted_by" : "link",
      "device" : 0,
      "start_ps" : 46000000000,
      "bytes" : 150000000
    }
  ],
  "makespan" : {
    "measured_ps" : 71000000000,
    "predicted_ps" : 65000100000,
    "error" : -0.084505633802816948,
    "devices" : [
      {
        "device" : 0,
        "span_ps" : 71000000000,
        "measured_ps" : 71000000000,
        "predicted_ps" : 65000100000,
        "recorded_standing_in_ps" : 5000000000
      }
    ]
  },
  "mape" : {
    "copy" : 0.066666666666666652,
    "kernel" : 0.04545454545454547,
    "collective" : null,
    "all" : 0.058181818181818182
  },
  "groups" : [
    {
      "kind" : "copy",
      "group" : "hbm to host, against the other direction",
      "pairs" : 1,
      "measured_ps" : 25000000000,
      "predicted_ps" : 20000000000,
      "error" : -0.19999999999999996,
      "mape" : 0.19999999999999996,
      "median" : 0.19999999999999996,
      "p90" : 0.19999999999999996
    },
    {
      "kind" : "copy",
      "group" : "host to hbm",
      "pairs" : 1,
      "measured_ps" : 10000000000,
      "predicted_ps" : 10000000000,
      "error" : 0.0,
      "mape" : 0.0,
      "median" : 0.0,
      "p90" : 0.0
    },
    {
      "kind" : "copy",
      "group" : "host to hbm, against the other direction",
      "pairs" : 1,
      "measured_ps" : 20000000000,
      "predicted_ps" : 20000000000,
      "error" : 0.0,
      "mape" : 0.0,
      "median" : 0.0,
      "p90" : 0.0
    },
    {
      "kind" : "kernel",
      "group" : "bytes and operations recorded",
      "pairs" : 1,
      "measured_ps" : 11000000000,
      "predicted_ps" : 10000000000,
      "error" : -0.090909090909090939,
      "mape" : 0.090909090909090939,
      "median" : 0.090909090909090939,
      "p90" : 0.090909090909090939
    },
    {
      "kind" : "kernel",
      "group" : "bytes inferred, operations not known",
      "pairs" : 1,
      "measured_ps" : 20000000000,
      "predicted_ps" : 20000000000,
      "error" : 0.0,
      "mape" : 0.0,
      "median" : 0.0,
      "p90" : 0.0
    }
  ],
  "scatter" : [
    {
      "name" : "out, both ways",
      "kind" : "copy",
      "group" : "hbm to host, against the other direction",
      "pairs" : 1,
      "measured_ps" : 25000000000,
      "predicted_ps" : 20000000000,
      "bytes" : 150000000
    },
    {
      "name" : "in alone",
      "kind" : "copy",
      "group" : "host to hbm",
      "pairs" : 1,
      "measured_ps" : 10000000000,
      "predicted_ps" : 10000000000,
      "bytes" : 100000000
    },
    {
      "name" : "in, both ways",
      "kind" : "copy",
      "group" : "host to hbm, against the other direction",
      "pairs" : 1,
      "measured_ps" : 20000000000,
      "predicted_ps" : 20000000000,
      "bytes" : 150000000
    },
    {
      "name" : "matmul",
      "kind" : "kernel",
      "group" : "bytes and operations recorded",
      "pairs" : 1,
      "measured_ps" : 11000000000,
      "predicted_ps" : 10000000000,
      "bytes" : 200000000
    },
    {
      "name" : "add",
      "kind" : "kernel",
      "group" : "bytes inferred, operations not known",
      "pairs" : 1,
      "measured_ps" : 20000000000,
      "predicted_ps" : 20000000000,
      "bytes" : 2000000000
    }
  ],
  "not_compared" : [
    {
      "kind" : "kernel",
      "reason" : "neither bytes nor operations are known",
      "count" : 1,
      "measured_ps" : 5000000000,
      "first" : "unknown"
    },
    {
      "kind" : "copy",
      "reason" : "its end was not recorded",
      "count" : 1,
      "measured_ps" : 0,
      "first" : "no end"
    }
  ],
  "notes" : [
    "Copies: the host link of small (rate, latency, both directions together), each beside what it was recorded beside.",
    "Where the link's rates come from (one that was fitted to this very recording agrees with it by making): links.host.to_device: assumed; links.host.from_device: assumed; links.host.both_ways: assumed.",
    "Kernels: the slower of operations at peak and bytes at full bandwidth of small, both inferred from recorded shapes; a lower bound, so most should come out too fast.",
    "In the whole run, kernels about which nothing but their recorded time is known take that time on both sides: it validates nothing, and where it is most of the run, neither does the whole.",
    "Set-ups of copies are left out on both sides, as are times in which the device had nothing to do: they are the host's. A kernel's least time is runtime.graph_launch_ps of the device, or launch_ps."
  ]
}
$ echelon validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml -o $T/pairs.csv >/dev/null 2>&1; cat $T/pairs.csv
name,kind,group,predicted_by,device,start_ps,bytes,measured_ps,predicted_ps,error
in alone,copy,host to hbm,link,0,0,100000000,10000000000,10000000000,0.000000
matmul,kernel,bytes and operations recorded,roofline,0,10000000000,200000000,11000000000,10000000000,-0.090909
add,kernel,"bytes inferred, operations not known",roofline,0,21000000000,2000000000,20000000000,20000000000,0.000000
"in, both ways",copy,"host to hbm, against the other direction",link,0,46000000000,150000000,20000000000,20000000000,0.000000
"out, both ways",copy,"hbm to host, against the other direction",link,0,46000000000,150000000,25000000000,20000000000,-0.200000
$ echelon validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml -o $T/page.html >/dev/null 2>&1 && grep -c '<circle' $T/page.html
7
$ echelon validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml -o $T/page.svg >/dev/null 2>&1 && grep -c '<circle' $T/page.svg
7
$ echelon validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml -o $T/page.pdf 2>&1 | sed "s,$T,T,"
echelon: T/page.pdf: the ending says what to write; expected .html, .svg, .json or .csv
$ echelon validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml -o $T/no/such/page.svg 2>&1 | sed "s,$T,T,"; ls $T
echelon: T/no/such/page.svg: No such file or directory
page.html
page.svg
pairs.csv
$ echelon validate tests/golden/data/stream.ech --device tests/golden/data/small.yaml
echelon: tests/golden/data/stream.ech: no kernel, copy or collective of the trace has a recorded duration: there is nothing to hold a prediction against
exit 1
$ echelon validate tests/golden/data/recorded.ech
echelon validate: one FILE and --device NAME are needed
exit 2
$ echelon validate tests/golden/data/unknown.ech --device tests/golden/data/small.yaml
unknown.ech
recorded on small, against small (a device for tests)

Nothing could be compared.

Not compared, and not in any figure above
  1 kernel, recorded 5 ms in all: neither bytes nor operations are known (first: unknown)

- Set-ups of copies are left out on both sides, as are times in which the device had nothing to do: they are the host's. A kernel's least time is runtime.graph_launch_ps of the device, or launch_ps.
echelon: tests/golden/data/unknown.ech: nothing could be compared: 1 kernel: neither bytes nor operations are known
exit 1
$ echelon validate tests/golden/data/unknown.ech --device tests/golden/data/small.yaml --json 2>/dev/null | grep comparable
  "comparable" : false,
$ COLUMNS=80 echelon validate tests/golden/data/pageable.json --device h100-sxm
pageable.json
recorded on NVIDIA H100 80GB HBM3, against h100-sxm (NVIDIA H100 SXM5, 80 GB
HBM3)

                            pairs   measured  predicted    in all    median
  copy                          1    1.01 ms    1.00 ms    -0.9 %     0.9 %
    host to hbm, pageable       1    1.01 ms    1.00 ms    -0.9 %     0.9 %

Whole run: busy 1.01 ms of the 1.01 ms recorded; predicted 1.00 ms (-0.9 %)

Where the prediction misses the most time (times of all occurrences together)
  Memcpy HtoD (Pageable -> Device)
                             1    1.01 ms    1.00 ms    -0.9 %  copy of 10.6 MiB

- Copies: the host link of h100-sxm (rate, latency, both directions together),
  each beside what it was recorded beside.
- Where the link's rates come from (one that was fitted to this very recording
  agrees with it by making): links.host.to_device: measured: bandwidthTest,
  32 MiB pinned, on an H20 with the same PCIe 5 x16 (forum);
  links.host.from_device: measured: as to_device; links.host.both_ways:
  measured: vllm, copy engines, 2 MiB blocks.
- Pageable copies: the device's own link of pageable memory.
- Set-ups of copies are left out on both sides, as are times in which the device
  had nothing to do: they are the host's. A kernel's least time is
  runtime.graph_launch_ps of the device, or launch_ps.
