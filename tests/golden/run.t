One run, a what-if, one that does not fit, sweeps, result folders.
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine native
stream on small (a device for tests)
  with replay.engine=native

  It fits. hbm 2.79 GiB of 3.73 GiB (75 %), host 3.73 GiB of 59.6 GiB (6 %)
  It takes 400 ms, bound by host link to device (50 % of the critical path).
  No schedule of it is shorter than 267 ms on this device; with no overlap at all it takes 600 ms.

  Critical path
    host link to device            200 ms   50.0 % ##########..........
    host link from device          100 ms   25.0 % #####...............
    matrix unit                    100 ms   25.0 % #####...............

  Busy
    matrix unit                    200 ms   50.0 % ##########..........  20 GOP
    hbm port                        80 ms   20.0 % ####................  3.73 GiB read, 3.73 GiB written
    host port                        0 ps    0.0 % ....................  1.86 GiB read, 1.86 GiB written
    host link to device            200 ms   50.0 % ##########..........  1.86 GiB at 10 GB/s
    host link from device          200 ms   50.0 % ##########..........  1.86 GiB at 10 GB/s
    (units and ports: what their operations and bytes take at full rate)

  Operations waited (sum over all of them)
    for what they depend on        400 ms   80.0 % ################....
    for their own queue            100 ms   20.0 % ####................

  Waits for copies and collectives while nothing computes: 200 ms, 50.0 %
    100 ms 25.0 %: mul.0 for fetch.0 (954 MiB from host to hbm): could begin only then, took 100 ms
    100 ms 25.0 %: the program's end for store.1 (954 MiB from hbm to host): could begin only then, took 100 ms
    (at least 66.7 ms of it stays, whenever they are asked for: no schedule is shorter than 267 ms; less to move or a faster link helps there, asking earlier and both ways at once with the rest)

  Memory at its fullest
    hbm: 2.79 GiB live from the start; best_fit
       954 MiB  in.0
       954 MiB  in.1
       954 MiB  y.0
    host: 3.73 GiB live from the start; counted only
       954 MiB  w.0
       954 MiB  w.1
       954 MiB  out.0
       954 MiB  out.1

  Longest operations
    fetch.0                        100 ms   25.0 % #####...............  copy
    fetch.1                        100 ms   25.0 % #####...............  copy
    mul.0                          100 ms   25.0 % #####...............  kernel, roofline
    mul.1                          100 ms   25.0 % #####...............  kernel, roofline
    store.0                        100 ms   25.0 % #####...............  copy
    store.1                        100 ms   25.0 % #####...............  copy

  Kernel times: 2 roofline. Engine: native (0.1.0).
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine native --set device.memories.hbm.capacity=2.5GB
stream on small (a device for tests)
  with replay.engine=native
  with device.memories.hbm.capacity=2.5GB

  IT DOES NOT FIT. hbm 2.79 GiB of 2.33 GiB (120 %), host 3.73 GiB of 59.6 GiB (6 %)
  At 0 ps 'y.0' asks for 954 MiB more in hbm: 1.86 GiB of 2.33 GiB are live, 1.86 GiB reserved.
  What held the memory:
     954 MiB  in.0
     954 MiB  in.1
  What would make it fit:
    echelon advise --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set device.memories.hbm.capacity=2.5GB
  That is before anything ran.

  Memory at its fullest
    hbm: 1.86 GiB live; best_fit
       954 MiB  in.0
       954 MiB  in.1
    host: 3.73 GiB live; counted only
       954 MiB  w.0
       954 MiB  w.1
       954 MiB  out.0
       954 MiB  out.1

  Kernel times: 2 roofline. Engine: native (0.1.0).
exit 3
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine native --json --pass serial
{
  "title" : "stream",
  "makespan_ps" : 600000000000,
  "lower_bound_ps" : 266666666666,
  "serial_ps" : 600000000000,
  "ops" : 18,
  "completed" : true,
  "without_changes" : {
    "makespan_ps" : 400000000000,
    "fits" : true,
    "why" : [
      "It takes 50.0 % longer: 400 ms -> 600 ms. Along the critical path: +100 ms host link from device, +100 ms matrix unit.",
      "The host link from device does the same work as fast as before (200 ms); what changed is how much of it lies under other work."
    ]
  },
  "fits" : true,
  "needs" : {
    "hbm" : {
      "bytes" : 3000000000,
      "available_bytes" : 4000000000,
      "fits" : true,
      "planned" : false
    },
    "host" : {
      "bytes" : 4000000000,
      "available_bytes" : 64000000000,
      "fits" : true,
      "planned" : false
    }
  },
  "critical_path" : {
    "host link from device" : 200000000000,
    "host link to device" : 200000000000,
    "matrix unit" : 200000000000
  },
  "bound_by" : "host link from device",
  "memories" : {
    "hbm" : {
      "capacity_bytes" : 4000000000,
      "available_bytes" : 4000000000,
      "context_bytes" : 0,
      "peak_live_bytes" : 3000000000,
      "peak_at_ps" : 200000000000,
      "peak_reserved_bytes" : 3000000000,
      "allocator_reserved_bytes" : 3000000000,
      "direct_bytes" : 0,
      "end_live_bytes" : 0,
      "planned_bytes" : 0,
      "fragmentation" : 0.0,
      "traffic_read_bytes" : 4000000000,
      "traffic_written_bytes" : 4000000000,
      "busy_ps" : 80000000000,
      "utilisation" : 0.13333333333333333,
      "allocs" : 4,
      "frees" : 4,
      "failed" : 0,
      "allocator" : "best_fit",
      "held_by" : [
        {
          "name" : "in.0",
          "bytes" : 1000000000,
          "buffers" : 1,
          "role" : "unknown",
          "shape" : ""
        },
        {
          "name" : "in.1",
          "bytes" : 1000000000,
          "buffers" : 1,
          "role" : "unknown",
          "shape" : ""
        },
        {
          "name" : "y.0",
          "bytes" : 1000000000,
          "buffers" : 1,
          "role" : "unknown",
          "shape" : ""
        }
      ],
      "holds" : {
        "back from host before its use" : {
          "bytes" : 1000000000,
          "buffers" : 1,
          "largest" : [
            "in.1"
          ]
        },
        "buffers" : {
          "bytes" : 1000000000,
          "buffers" : 1,
          "largest" : [
            "y.0"
          ]
        },
        "from host, in use" : {
          "bytes" : 1000000000,
          "buffers" : 1,
          "largest" : [
            "in.0"
          ]
        }
      }
    },
    "host" : {
      "capacity_bytes" : 64000000000,
      "available_bytes" : 64000000000,
      "context_bytes" : 0,
      "peak_live_bytes" : 4000000000,
      "peak_at_ps" : 0,
      "peak_reserved_bytes" : 4000000000,
      "allocator_reserved_bytes" : 0,
      "direct_bytes" : 0,
      "end_live_bytes" : 4000000000,
      "planned_bytes" : 0,
      "fragmentation" : 0.0,
      "traffic_read_bytes" : 2000000000,
      "traffic_written_bytes" : 2000000000,
      "busy_ps" : 0,
      "utilisation" : 0.0,
      "allocs" : 4,
      "frees" : 0,
      "failed" : 0,
      "allocator" : "counted",
      "held_by" : [
        {
          "name" : "w.0",
          "bytes" : 1000000000,
          "buffers" : 1,
          "role" : "unknown",
          "shape" : ""
        },
        {
          "name" : "w.1",
          "bytes" : 1000000000,
          "buffers" : 1,
          "role" : "unknown",
          "shape" : ""
        },
        {
          "name" : "out.0",
          "bytes" : 1000000000,
          "buffers" : 1,
          "role" : "unknown",
          "shape" : ""
        },
        {
          "name" : "out.1",
          "bytes" : 1000000000,
          "buffers" : 1,
          "role" : "unknown",
          "shape" : ""
        }
      ],
      "holds" : {
        "arriving from hbm" : {
          "bytes" : 2000000000,
          "buffers" : 2,
          "largest" : [
            "out.0",
            "out.1"
          ]
        },
        "leaving for hbm" : {
          "bytes" : 2000000000,
          "buffers" : 2,
          "largest" : [
            "w.0",
            "w.1"
          ]
        }
      }
    }
  },
  "links" : {
    "host" : {
      "peers" : false,
      "bytes_forward" : 2000000000,
      "bytes_backward" : 2000000000,
      "busy_forward_ps" : 200000000000,
      "busy_backward_ps" : 200000000000,
      "busy_ps" : 400000000000,
      "utilisation" : 0.44444444444444442,
      "transfers" : 4
    }
  },
  "units" : {
    "matrix" : {
      "busy_ps" : 200000000000,
      "utilisation" : 0.33333333333333331,
      "flops" : 20000000000.0
    },
    "vector" : {
      "busy_ps" : 0,
      "utilisation" : 0.0,
      "flops" : 0.0
    }
  },
  "queues" : {
    "core" : {
      "busy_ps" : 200000000000,
      "ops" : 14,
      "waits" : {
        "dependency" : 400000000000,
        "queue" : 500000000000,
        "link" : 0,
        "memory_port" : 0,
        "compute" : 0,
        "space" : 0,
        "host" : 0,
        "allocator" : 0,
        "pages" : 0,
        "peers" : 0
      }
    },
    "dma in" : {
      "busy_ps" : 200000000000,
      "ops" : 2,
      "waits" : {
        "dependency" : 0,
        "queue" : 0,
        "link" : 0,
        "memory_port" : 0,
        "compute" : 0,
        "space" : 0,
        "host" : 0,
        "allocator" : 0,
        "pages" : 0,
        "peers" : 0
      }
    },
    "dma out" : {
      "busy_ps" : 200000000000,
      "ops" : 2,
      "waits" : {
        "dependency" : 400000000000,
        "queue" : 0,
        "link" : 0,
        "memory_port" : 0,
        "compute" : 0,
        "space" : 0,
        "host" : 0,
        "allocator" : 0,
        "pages" : 0,
        "peers" : 0
      }
    }
  },
  "waits" : {
    "dependency" : 800000000000,
    "queue" : 500000000000,
    "link" : 0,
    "memory_port" : 0,
    "compute" : 0,
    "space" : 0,
    "host" : 0,
    "allocator" : 0,
    "pages" : 0,
    "peers" : 0
  },
  "longest" : [
    {
      "name" : "fetch.0",
      "kind" : "copy",
      "time_ps" : 100000000000,
      "times" : 1,
      "priced_by" : "link"
    },
    {
      "name" : "fetch.1",
      "kind" : "copy",
      "time_ps" : 100000000000,
      "times" : 1,
      "priced_by" : "link"
    },
    {
      "name" : "mul.0",
      "kind" : "kernel",
      "time_ps" : 100000000000,
      "times" : 1,
      "priced_by" : "roofline"
    },
    {
      "name" : "mul.1",
      "kind" : "kernel",
      "time_ps" : 100000000000,
      "times" : 1,
      "priced_by" : "roofline"
    },
    {
      "name" : "store.0",
      "kind" : "copy",
      "time_ps" : 100000000000,
      "times" : 1,
      "priced_by" : "link"
    },
    {
      "name" : "store.1",
      "kind" : "copy",
      "time_ps" : 100000000000,
      "times" : 1,
      "priced_by" : "link"
    }
  ],
  "transfer_waits" : {
    "total_ps" : 400000000000,
    "least_ps" : 66666666666,
    "pairs" : 4,
    "longest" : [
      {
        "time_ps" : 100000000000,
        "times" : 1,
        "waiter" : {
          "name" : "mul.0",
          "kind" : "kernel"
        },
        "transfer" : {
          "name" : "fetch.0",
          "kind" : "copy",
          "bytes" : 1000000000
        },
        "own_queue" : false,
        "ahead_ps" : 0,
        "behind_ps" : 0,
        "peers_ps" : 0,
        "took_ps" : 100000000000,
        "after_ps" : 0
      },
      {
        "time_ps" : 100000000000,
        "times" : 1,
        "waiter" : {
          "name" : "mul.1",
          "kind" : "kernel"
        },
        "transfer" : {
          "name" : "fetch.1",
          "kind" : "copy",
          "bytes" : 1000000000
        },
        "own_queue" : false,
        "ahead_ps" : 0,
        "behind_ps" : 0,
        "peers_ps" : 0,
        "took_ps" : 100000000000,
        "after_ps" : 0
      },
      {
        "time_ps" : 100000000000,
        "times" : 1,
        "waiter" : {
          "name" : "mul.1",
          "kind" : "kernel"
        },
        "transfer" : {
          "name" : "store.0",
          "kind" : "copy",
          "bytes" : 1000000000
        },
        "own_queue" : false,
        "ahead_ps" : 0,
        "behind_ps" : 0,
        "peers_ps" : 0,
        "took_ps" : 100000000000,
        "after_ps" : 0
      },
      {
        "time_ps" : 100000000000,
        "times" : 1,
        "transfer" : {
          "name" : "store.1",
          "kind" : "copy",
          "bytes" : 1000000000
        },
        "own_queue" : false,
        "ahead_ps" : 0,
        "behind_ps" : 0,
        "peers_ps" : 0,
        "took_ps" : 100000000000,
        "after_ps" : 0
      }
    ]
  },
  "remarks" : [
    "serial: 4 operations of other queues take turns with those of 'core'"
  ],
  "counters" : {  },
  "provenance" : {
    "echelon" : "0.1.0",
    "engine" : "native",
    "engine_version" : "0.1.0",
    "trace" : "tests/golden/data/stream.ech",
    "format" : "ech",
    "device" : "small",
    "trace_hash" : "48e0b275954e9e4b",
    "device_hash" : "57899d6a82c22290",
    "options" : "engine=native",
    "passes" : [
      "serial"
    ],
    "settings" : [
      "replay.engine=native"
    ],
    "kernels_priced_by" : {
      "roofline" : 2
    },
    "ops_executed" : 18,
    "engine_events" : 6
  }
}
$ echelon run tests/golden/data/sweep.yaml
link and capacity

  host link, capacity  fits     time  x first  hbm peak  host peak  host to dev  host from dev  bound by
  -------------------  ----  -------  -------  --------  ---------  -----------  -------------  -------------------
  as it is, 4GB        yes    400 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
  as it is, 2.5GB      NO    stopped           2.79 GiB   3.73 GiB            -              -  space
  half, 4GB            yes    733 ms    1.833  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link both ways
  half, 2.5GB          NO    stopped           2.79 GiB   3.73 GiB            -              -  space
  twice, 4GB           yes    300 ms    0.750  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  matrix unit
  twice, 2.5GB         NO    stopped           2.79 GiB   3.73 GiB            -              -  space

  What changed, and why

  as it is, 4GB
    It takes 400 ms. Its critical path: host link to device 50 %, host link from device 25 %, matrix unit 25 %.
    It needs 2.79 GiB of hbm; at its fullest that holds 1.86 GiB arriving from host, 954 MiB buffers.

  as it is, 4GB -> half, 4GB
    It takes 83.3 % longer: 400 ms -> 733 ms. Along the critical path: +233 ms host link both ways, +100 ms host link
    from device.
    The host link both ways moves the same 3.73 GiB in 733 ms instead of 400 ms: 5.45 GB/s instead of 10 GB/s.
    The operations that changed most: 'fetch.1' 100 ms -> 233 ms, 'store.0' 100 ms -> 233 ms, 'fetch.0' 100 ms ->
    200 ms.

  as it is, 4GB -> twice, 4GB
    It takes 25.0 % less time: 400 ms -> 300 ms. Along the critical path: -150 ms host link to device, +100 ms matrix
    unit, -50 ms host link from device.
    The host link to device moves the same 1.86 GiB in 100 ms instead of 200 ms: 20 GB/s instead of 10 GB/s.
    The operations that changed most: 'fetch.0' 100 ms -> 50 ms, 'fetch.1' 100 ms -> 50 ms, 'store.0' 100 ms -> 50 ms.

  half, 4GB -> half, 2.5GB
    It stops fitting: at 0 ps 'y.0' asks for 954 MiB of hbm, where 1.86 GiB of 2.33 GiB are live.
$ echelon run tests/golden/data/sweep.yaml --jobs 2
link and capacity

  host link, capacity  fits     time  x first  hbm peak  host peak  host to dev  host from dev  bound by
  -------------------  ----  -------  -------  --------  ---------  -----------  -------------  -------------------
  as it is, 4GB        yes    400 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
  as it is, 2.5GB      NO    stopped           2.79 GiB   3.73 GiB            -              -  space
  half, 4GB            yes    733 ms    1.833  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link both ways
  half, 2.5GB          NO    stopped           2.79 GiB   3.73 GiB            -              -  space
  twice, 4GB           yes    300 ms    0.750  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  matrix unit
  twice, 2.5GB         NO    stopped           2.79 GiB   3.73 GiB            -              -  space

  What changed, and why

  as it is, 4GB
    It takes 400 ms. Its critical path: host link to device 50 %, host link from device 25 %, matrix unit 25 %.
    It needs 2.79 GiB of hbm; at its fullest that holds 1.86 GiB arriving from host, 954 MiB buffers.

  as it is, 4GB -> half, 4GB
    It takes 83.3 % longer: 400 ms -> 733 ms. Along the critical path: +233 ms host link both ways, +100 ms host link
    from device.
    The host link both ways moves the same 3.73 GiB in 733 ms instead of 400 ms: 5.45 GB/s instead of 10 GB/s.
    The operations that changed most: 'fetch.1' 100 ms -> 233 ms, 'store.0' 100 ms -> 233 ms, 'fetch.0' 100 ms ->
    200 ms.

  as it is, 4GB -> twice, 4GB
    It takes 25.0 % less time: 400 ms -> 300 ms. Along the critical path: -150 ms host link to device, +100 ms matrix
    unit, -50 ms host link from device.
    The host link to device moves the same 1.86 GiB in 100 ms instead of 200 ms: 20 GB/s instead of 10 GB/s.
    The operations that changed most: 'fetch.0' 100 ms -> 50 ms, 'fetch.1' 100 ms -> 50 ms, 'store.0' 100 ms -> 50 ms.

  half, 4GB -> half, 2.5GB
    It stops fitting: at 0 ps 'y.0' asks for 954 MiB of hbm, where 1.86 GiB of 2.33 GiB are live.
$ echelon run tests/golden/data/sweep.yaml --set 'sweep.0.values=[x1, x4]' --set 'sweep.1.values=[4GB]' | grep -B3 -A2 x4
  host link, capacity  fits    time  x first  hbm peak  host peak  host to dev  host from dev  bound by
  -------------------  ----  ------  -------  --------  ---------  -----------  -------------  -------------------
  x1, 4GB              yes   400 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
  x4, 4GB              yes   250 ms    0.625  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  matrix unit

  What changed, and why
--
    It takes 400 ms. Its critical path: host link to device 50 %, host link from device 25 %, matrix unit 25 %.
    It needs 2.79 GiB of hbm; at its fullest that holds 1.86 GiB arriving from host, 954 MiB buffers.

  x1, 4GB -> x4, 4GB
    It takes 37.5 % less time: 400 ms -> 250 ms. Along the critical path: -175 ms host link to device, +100 ms matrix
    unit, -75 ms host link from device.
$ mkdir $T/a $T/b; cp tests/golden/data/stream.ech $T/a/step.ech; cp tests/golden/data/stream.ech $T/b/step.ech; printf 'device: %s\nsweep: [{path: trace, values: [a/step.ech, b/step.ech]}]\n' $PWD/tests/golden/data/small.yaml >$T/two.yaml; echelon run $T/two.yaml | head -6; rm -r $T/a $T/b $T/two.yaml
two

  trace       fits    time  x first  hbm peak  host peak  host to dev  host from dev  bound by
  ----------  ----  ------  -------  --------  ---------  -----------  -------------  -------------------
  a/step.ech  yes   400 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
  b/step.ech  yes   400 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
$ echelon run tests/golden/data/sweep.yaml --set sweep.1.values=[3GB] --set device.memories.hbm.read=x2 -o $T/sweep >/dev/null 2>&1; cd $T/sweep && ls -R && cat summary.txt
.:
000
001
002
report.html
summary.txt
sweep.json

./000:
run.json

./001:
run.json

./002:
run.json
link and capacity

  host link, capacity  fits    time  x first  hbm peak  host peak  host to dev  host from dev  bound by
  -------------------  ----  ------  -------  --------  ---------  -----------  -------------  -------------------
  as it is, 3GB        yes   400 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
  half, 3GB            yes   733 ms    1.833  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link both ways
  twice, 3GB           yes   300 ms    0.750  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  matrix unit

  What changed, and why

  as it is, 3GB
    It takes 400 ms. Its critical path: host link to device 50 %, host link from device 25 %, matrix unit 25 %.
    It needs 2.79 GiB of hbm; at its fullest that holds 1.86 GiB arriving from host, 954 MiB buffers.

  as it is, 3GB -> half, 3GB
    It takes 83.3 % longer: 400 ms -> 733 ms. Along the critical path: +233 ms host link both ways, +100 ms host link
    from device.
    The host link both ways moves the same 3.73 GiB in 733 ms instead of 400 ms: 5.45 GB/s instead of 10 GB/s.
    The operations that changed most: 'fetch.1' 100 ms -> 233 ms, 'store.0' 100 ms -> 233 ms, 'fetch.0' 100 ms ->
    200 ms.

  as it is, 3GB -> twice, 3GB
    It takes 25.0 % less time: 400 ms -> 300 ms. Along the critical path: -150 ms host link to device, +100 ms matrix
    unit, -50 ms host link from device.
    The host link to device moves the same 1.86 GiB in 100 ms instead of 200 ms: 20 GB/s instead of 10 GB/s.
    The operations that changed most: 'fetch.0' 100 ms -> 50 ms, 'fetch.1' 100 ms -> 50 ms, 'store.0' 100 ms -> 50 ms.
$ cd $T/sweep && cp report.html page.html && echelon report . && cmp page.html report.html && sed -n 's,.*id="run">\(.*\)</script>,\1,p' report.html | sed 's/,{"values":\["half".*//'; rm page.html  # the page has of each run what it draws
./report.html
{"title":"link and capacity","axes":["host link","capacity"],"points":[{"values":["as it is","3GB"],"fits":true,"makespan_ps":400000000000,"run":{"completed":true,"critical_path":{"host link to device":200000000000,"host link from device":100000000000,"matrix unit":100000000000},"bound_by":"host link to device","needs":{"hbm":{"bytes":3000000000},"host":{"bytes":4000000000}},"memories":{"hbm":{"available_bytes":3000000000},"host":{"available_bytes":64000000000}},"links":{"host":{"peers":false,"bytes_forward":2000000000,"bytes_backward":2000000000}}}}
$ echelon run tests/golden/data/half.yaml -o $T/half >/dev/null 2>&1; echelon run tests/golden/data/half.yaml --set device.links.host.to_device=10GB/s -o $T/whole >/dev/null 2>&1; cd $T && ls half && echelon compare half whole && echelon compare half whole --json
details.json
memory.pprof.gz
report.html
run.json
summary.txt
time.pprof.gz
timeline.json.gz
timeline.pftrace
  run    fits    time  x first  hbm peak  host peak  host to dev  host from dev  bound by
  -----  ----  ------  -------  --------  ---------  -----------  -------------  -------------------
  half   yes   600 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
  whole  yes   400 ms    0.667  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device

  What changed, and why

  half
    It takes 600 ms. Its critical path: host link to device 67 %, host link from device 17 %, matrix unit 17 %.
    It needs 2.79 GiB of hbm; at its fullest that holds 1.86 GiB arriving from host, 954 MiB buffers.

  half -> whole
    It takes 33.3 % less time: 600 ms -> 400 ms. Along the critical path: -200 ms host link to device.
    The host link to device moves the same 1.86 GiB in 200 ms instead of 400 ms: 10 GB/s instead of 5 GB/s.
    The operations that changed most: 'fetch.0' 200 ms -> 100 ms, 'fetch.1' 200 ms -> 100 ms, 'store.0' 138 ms ->
    100 ms.

half -> whole
  time
    takes                                       600 ms -> 400 ms    (-200 ms)
    no schedule is shorter than                 400 ms -> 267 ms    (-133 ms)
    host link to device (critical path)         400 ms -> 200 ms    (-200 ms)
    waits for what they depend on               762 ms -> 400 ms    (-362 ms)
    waits for their own queue                   262 ms -> 100 ms    (-162 ms)
    waits for a link in use                    37.5 ms -> 0 ps      (-37.5 ms)
{
  "runs" : [
    {
      "label" : "half",
      "title" : "half the link",
      "fits" : true,
      "makespan_ps" : 600000000000,
      "relative" : 1.0,
      "completed" : true,
      "bound_by" : "host link to device",
      "critical_path" : {
        "host link to device" : 400000000000,
        "host link from device" : 100000000000,
        "matrix unit" : 100000000000
      },
      "needs" : {
        "hbm" : {
          "bytes" : 3000000000,
          "available_bytes" : 4000000000,
          "fits" : true,
          "planned" : false
        },
        "host" : {
          "bytes" : 4000000000,
          "available_bytes" : 64000000000,
          "fits" : true,
          "planned" : false
        }
      },
      "links" : {
        "host" : {
          "peers" : false,
          "bytes_forward" : 2000000000,
          "bytes_backward" : 2000000000,
          "busy_forward_ps" : 400000000000,
          "busy_backward_ps" : 237500000000,
          "busy_ps" : 537500000000,
          "utilisation" : 0.59259259259259256,
          "transfers" : 4
        }
      }
    },
    {
      "label" : "whole",
      "title" : "half the link",
      "fits" : true,
      "makespan_ps" : 400000000000,
      "relative" : 0.66666666666666663,
      "completed" : true,
      "bound_by" : "host link to device",
      "critical_path" : {
        "host link to device" : 200000000000,
        "host link from device" : 100000000000,
        "matrix unit" : 100000000000
      },
      "needs" : {
        "hbm" : {
          "bytes" : 3000000000,
          "available_bytes" : 4000000000,
          "fits" : true,
          "planned" : false
        },
        "host" : {
          "bytes" : 4000000000,
          "available_bytes" : 64000000000,
          "fits" : true,
          "planned" : false
        }
      },
      "links" : {
        "host" : {
          "peers" : false,
          "bytes_forward" : 2000000000,
          "bytes_backward" : 2000000000,
          "busy_forward_ps" : 200000000000,
          "busy_backward_ps" : 200000000000,
          "busy_ps" : 400000000000,
          "utilisation" : 0.66666666666666663,
          "transfers" : 4
        }
      }
    }
  ],
  "changes" : [
    {
      "to" : 0,
      "why" : [
        "It takes 600 ms. Its critical path: host link to device 67 %, host link from device 17 %, matrix unit 17 %.",
        "It needs 2.79 GiB of hbm; at its fullest that holds 1.86 GiB arriving from host, 954 MiB buffers."
      ]
    },
    {
      "from" : 0,
      "to" : 1,
      "why" : [
        "It takes 33.3 % less time: 600 ms -> 400 ms. Along the critical path: -200 ms host link to device.",
        "The host link to device moves the same 1.86 GiB in 200 ms instead of 400 ms: 10 GB/s instead of 5 GB/s.",
        "The operations that changed most: 'fetch.0' 200 ms -> 100 ms, 'fetch.1' 200 ms -> 100 ms, 'store.0' 138 ms -> 100 ms."
      ]
    }
  ]
}
$ echelon run tests/golden/data/half.yaml -o $T/half >/dev/null 2>&1 && echelon report $T/half -o $T/page.html >/dev/null && grep -c 'id="timeline"' $T/page.html
1
$ mkdir $T/mine && touch $T/mine/thesis.tex && echelon run tests/golden/data/half.yaml -o $T/mine 2>&1 | sed "s:$T:T:"; ls $T/mine
echelon: T/mine: is there already and holds no results of echelon; give another -o or remove it
thesis.tex
$ mkdir $T/project && for i in 1 2; do echelon run --trace tests/golden/data/stream.ech --device tpu-v5e -o $T/project >/dev/null 2>&1; touch $T/project/thesis.tex; done; ls -A $T/project | grep -c . && ls $T/project/thesis.tex | sed "s:$T:T:"
9
T/project/thesis.tex
$ echelon run tests/golden/data/half.yaml --set device.memories.hbm.capacity=2GB -o $T/stopped >/dev/null 2>&1; cd $T && echelon compare whole stopped | sed -n 1,4p; echelon compare whole stopped --json | grep -e completed -e relative -e fits.*false
  run      fits     time  x first  hbm peak  host peak  host to dev  host from dev  bound by
  -------  ----  -------  -------  --------  ---------  -----------  -------------  -------------------
  whole    yes    400 ms    1.000  2.79 GiB   3.73 GiB     1.86 GiB       1.86 GiB  host link to device
  stopped  NO    stopped           2.79 GiB   3.73 GiB            -              -  space
      "relative" : 1.0,
      "completed" : true,
      "fits" : false,
      "relative" : null,
      "completed" : false,
          "fits" : false,
$ echelon run --trace tests/golden/data/apart.pickle --device h100-sxm -o $T/apart >/dev/null 2>&1; grep -o '"#[0-9]*[^,]*recording)"' $T/apart/details.json
"#1 (in use before the recording)"
"#2 (in use before the recording)"
"#3 (in use before the recording)"
"#0 (in use before the recording)"
$ cd $T && COLUMNS=80 echelon compare half whole
                                                          hbm      host
  run    fits    time  x first  bound by                 peak      peak
  -----  ----  ------  -------  -------------------  --------  --------
  half   yes   600 ms    1.000  host link to device  2.79 GiB  3.73 GiB
  whole  yes   400 ms    0.667  host link to device  2.79 GiB  3.73 GiB

             host      host
  run      to dev  from dev
  -----  --------  --------
  half   1.86 GiB  1.86 GiB
  whole  1.86 GiB  1.86 GiB

  What changed, and why

  half
    It takes 600 ms. Its critical path: host link to device 67 %, host link from
    device 17 %, matrix unit 17 %.
    It needs 2.79 GiB of hbm; at its fullest that holds 1.86 GiB arriving from
    host, 954 MiB buffers.

  half -> whole
    It takes 33.3 % less time: 600 ms -> 400 ms. Along the critical path:
    -200 ms host link to device.
    The host link to device moves the same 1.86 GiB in 200 ms instead of 400 ms:
    10 GB/s instead of 5 GB/s.
    The operations that changed most: 'fetch.0' 200 ms -> 100 ms, 'fetch.1'
    200 ms -> 100 ms, 'store.0' 138 ms -> 100 ms.

half -> whole
  time
    takes                                       600 ms -> 400 ms    (-200 ms)
    no schedule is shorter than                 400 ms -> 267 ms    (-133 ms)
    host link to device (critical path)         400 ms -> 200 ms    (-200 ms)
    waits for what they depend on               762 ms -> 400 ms    (-362 ms)
    waits for their own queue                   262 ms -> 100 ms    (-162 ms)
    waits for a link in use                    37.5 ms -> 0 ps      (-37.5 ms)
$ COLUMNS=80 echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine native
stream on small (a device for tests)
  with replay.engine=native

  It fits. hbm 2.79 GiB of 3.73 GiB (75 %), host 3.73 GiB of 59.6 GiB (6 %)
  It takes 400 ms, bound by host link to device (50 % of the critical path).
  No schedule of it is shorter than 267 ms on this device; with no overlap at
  all it takes 600 ms.

  Critical path
    host link to device            200 ms   50.0 % ##########..........
    host link from device          100 ms   25.0 % #####...............
    matrix unit                    100 ms   25.0 % #####...............

  Busy
    matrix unit              200 ms  50.0 %  20 GOP
    hbm port                  80 ms  20.0 %  3.73 GiB read, 3.73 GiB written
    host port                  0 ps   0.0 %  1.86 GiB read, 1.86 GiB written
    host link to device      200 ms  50.0 %  1.86 GiB at 10 GB/s
    host link from device    200 ms  50.0 %  1.86 GiB at 10 GB/s
    (units and ports: what their operations and bytes take at full rate)

  Operations waited (sum over all of them)
    for what they depend on        400 ms   80.0 % ################....
    for their own queue            100 ms   20.0 % ####................

  Waits for copies and collectives while nothing computes: 200 ms, 50.0 %
    100 ms 25.0 %: mul.0 for fetch.0 (954 MiB from host to hbm): could begin
    only then, took 100 ms
    100 ms 25.0 %: the program's end for store.1 (954 MiB from hbm to host):
    could begin only then, took 100 ms
    (at least 66.7 ms of it stays, whenever they are asked for: no schedule is
    shorter than 267 ms; less to move or a faster link helps there, asking
    earlier and both ways at once with the rest)

  Memory at its fullest
    hbm: 2.79 GiB live from the start; best_fit
       954 MiB  in.0
       954 MiB  in.1
       954 MiB  y.0
    host: 3.73 GiB live from the start; counted only
       954 MiB  w.0
       954 MiB  w.1
       954 MiB  out.0
       954 MiB  out.1

  Longest operations
    fetch.0     100 ms   25.0 % #####...............  copy
    fetch.1     100 ms   25.0 % #####...............  copy
    mul.0       100 ms   25.0 % #####...............  kernel, roofline
    mul.1       100 ms   25.0 % #####...............  kernel, roofline
    store.0     100 ms   25.0 % #####...............  copy
    store.1     100 ms   25.0 % #####...............  copy

  Kernel times: 2 roofline. Engine: native (0.1.0).
$ COLUMNS=80 echelon run --trace traces/sharded_mlp.v5e --device tpu-v5e --engine native | awk 'length($0) > 80 { print "too wide: " $0 } /ici/'
  It takes 1.51 ms, bound by ici link out (80 % of the critical path).
    ici link out                  1.21 ms   80.4 % ################....
    ici link out          1.21 ms  80.4 %  52.0 MiB at 45 GB/s
    ici link in           1.21 ms  80.4 %  52.0 MiB at 45 GB/s
$ printf 'a 0 64000000\na 1 32000000\nf 1\na 2 8000000\n' >$T/t.txt && echelon run --trace $T/t.txt --device tests/golden/data/small.yaml --engine native | sed -n '/hbm:/,/^$/p'
    hbm: 91.6 MiB live; best_fit
      61.0 MiB  0
      30.5 MiB  1

$ echelon run --trace tests/golden/data/retry.ech --device h100-sxm --set device.memories.hbm.available=64MiB --allocator pytorch: --set replay.engine=native | grep -v 'Engine:'
retry on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  with device.memories.hbm.available=64MiB
  with replay.engine=native
  with allocator=pytorch:

  It fits. hbm 41 MiB of 64 MiB (64 %)
  42 MiB reserved by allocator pytorch:.
  It takes 11.4 ms, bound by recorded kernel times (96 % of the critical path).
  No schedule of it is shorter than 11.0 ms on this device; with no overlap at all it takes 11.8 ms.

  What that changes
    It takes 3.8 % longer: 11 ms -> 11.4 ms. Along the critical path: +416 us allocator.
    The allocator's share is its calls of the driver: cudaMalloc, and cudaFree, which waits until the device has done all that was asked for before and lets nothing new begin. A cache that must be emptied to make room for a request (PyTorch's retry) costs that every time.

  Critical path
    recorded kernel times           11 ms   96.4 % ###################.
    allocator                      416 us    3.6 % #...................
    (recorded kernel times: kernels that take longer than what they move and compute needs, or of which neither is known)
    (allocator: its cudaMalloc and cudaFree; the latter waits for the device)

  Operations waited (sum over all of them)
    for the allocator's cudaFree      10 ms  100.0 % ####################

  Memory at its fullest
    hbm: 41 MiB live at 416 us, 42 MiB reserved (2.4 % of it lost to fragmentation); pytorch:
        40 MiB  b
         1 MiB  c

  Longest operations
    before                          10 ms   87.6 % ##################..  kernel, recorded
    after                            1 ms    8.8 % ##..................  kernel, recorded

$ echelon run --trace tests/golden/data/retry.ech --device h100-sxm --set device.memories.hbm.available=64MiB --allocator pytorch:expandable_segments:True --json --set replay.engine=native | grep -E '"(makespan_ps|allocator)"'
  "makespan_ps" : 11000000000,
    "makespan_ps" : 11000000000,
      "allocator" : "pytorch:expandable_segments:True",
      "allocator" : "counted",
      "allocator" : "counted",
      "allocator" : "counted",
    "allocator" : {
        "allocator" : 0,
        "allocator" : 0,
    "allocator" : 0,
$ for p in serial pin; do echelon run --trace tests/golden/data/pageable.json --device h100-sxm --engine native --pass $p | grep -E 'It takes|pin:|link'; done
  It takes 1.01 ms, bound by pageable port (100 % of the critical path).
    It takes as long as before, 1.01 ms: 100 % of its critical path is on the pageable port, which this does not touch.
    pageable link to device       1.01 ms  100.0 % ####################  10.6 MiB at 11.0 GB/s
  It takes 213 us, bound by host link to device (100 % of the critical path).
    It takes 78.9 % less time: 1.01 ms -> 213 us. Along the critical path: -1.01 ms pageable port, +213 us host link to device.
    host link to device            213 us  100.0 % ####################  10.6 MiB at 52.0 GB/s
  - pin: 1 copy of 10.6 MiB in all: from or to pinned memory now (pin_memory(), non_blocking=True); pinning it takes time of its own, not counted, once
$ echelon run --trace tests/golden/data/oom.pickle --device h100-sxm --engine native | sed -n '3,5p'

  It fits. hbm 120 MiB of 78.6 GiB (0 %)
  120 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 632 MiB, 512 MiB of it the process's context.
$ echelon run --trace tests/golden/data/layers.ech --device tests/golden/data/small.yaml
layers on small (a device for tests)

  It fits. hbm 1.86 GiB of 3.73 GiB (50 %)
  It takes 10 ms, bound by hbm port (100 % of the critical path).
  No schedule of it is shorter than 10 ms on this device; with no overlap at all it takes 10 ms.

  Busy
    hbm port                        10 ms  100.0 % ####################  954 MiB read, 0 B written
    (units and ports: what their operations and bytes take at full rate)

  Memory at its fullest
    hbm: 1.86 GiB live at 5 ms; best_fit
       954 MiB  model.py:7, 2 of them
       477 MiB  (in use before the recording), 2 of them
       381 MiB  one.py:1
      95.4 MiB  table                                     constant

  Longest operations
    cat::gemm<(cat::Mode)1>                                         5 ms   50.0 % ##########..........  kernel, roofline
    elementwise_kernel<128, 4, ...nel(TensorIteratorBase&)> >       5 ms   50.0 % ##########..........  kernel, roofline

  Kernel times: 2 roofline. Engine: simgrid (SimGrid version ...).
$ echelon run --trace tests/golden/data/layers.ech --device tests/golden/data/small.yaml --set device.memories.hbm.capacity=1.6GB
layers on small (a device for tests)
  with device.memories.hbm.capacity=1.6GB

  IT DOES NOT FIT. hbm 1.86 GiB of 1.49 GiB (125 %)
  At 5 ms 'model.py:7' asks for 477 MiB more in hbm: 1.40 GiB of 1.49 GiB are live, 1.40 GiB reserved.
  What held the memory:
     477 MiB  (in use before the recording), 2 of them
     477 MiB  model.py:7
     381 MiB  one.py:1
    95.4 MiB  table                                     constant
  What would make it fit:
    echelon advise --trace tests/golden/data/layers.ech --device tests/golden/data/small.yaml --set device.memories.hbm.capacity=1.6GB
  Up to there it takes 5 ms, bound by hbm port (100 % of the critical path).
  The whole of it would take at least 10 ms on this device; with no overlap at all 10 ms.

  What that changes
    It stops fitting: at 5 ms 'model.py:7' asks for 477 MiB of hbm, where 1.40 GiB of 1.49 GiB are live.

  Busy
    hbm port                         5 ms  100.0 % ####################  477 MiB read, 0 B written
    (units and ports: what their operations and bytes take at full rate)

  Memory at its fullest
    hbm: 1.40 GiB live from the start; best_fit
       477 MiB  (in use before the recording), 2 of them
       477 MiB  model.py:7
       381 MiB  one.py:1
      95.4 MiB  table                                     constant

  Longest operations
    elementwise_kernel<128, 4, ...nel(TensorIteratorBase&)> >       5 ms  100.0 % ####################  kernel, roofline

  Kernel times: 2 roofline. Engine: simgrid (SimGrid version ...).
exit 3
$ echelon run least_hbm | head -4
The least HBM that Adam fits into, by where its moments live

  moments=on the device: Least HBM with which it fits: 2.561GiB. With 2.56GiB not.
  moments=on the host: Least HBM with which it fits: 2.951GiB. With 2.95GiB not.
$ echelon run --trace adam_none.v5e --device tpu-v5e --find device.memories.hbm.capacity=1GiB..16GiB | grep -A12 -E '^  (Least|2.56)'
  Least capacity with which it fits: 2.561GiB. With 2.56GiB not.
  Of a capacity the runtime keeps its part, of a small one up to half: programs get what 'available' says.

  capacity  fits     time  x first  hbm needed  vector needed  bound by
  --------  ----  -------  -------  ----------  -------------  --------
  1GiB      NO    10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  2GiB      NO    10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  2.5GiB    NO    10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  2.56GiB   NO    10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  2.561GiB  yes   10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  2.625GiB  yes   10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  2.75GiB   yes   10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  3GiB      yes   10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  4GiB      yes   10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  16GiB     yes   10.0 ms    1.000    2.31 GiB       17.5 MiB  hbm port
  (5 more were tried, closer to it; --json tells them)

  What changed, and why

  2.56GiB
    It does not fit: hbm needs 2.31 GiB and 2.31 GiB are handed out, 768 KiB too little.
    It takes 10.0 ms. Its critical path: hbm port 87 %, latency inside kernels 12 %.
    It needs 2.31 GiB of hbm; at its fullest that holds 2.30 GiB arguments.
    It needs 17.5 MiB of vector; at its fullest that holds 8.75 MiB temporaries in use, 7 MiB kept for later use.

  2.56GiB -> 2.561GiB
    It fits now.
    It takes as long as before, 10.0 ms: 87 % of its critical path is on the hbm port, which this does not touch.
$ echelon run --trace adam_none.v5e --device tpu-v5e --find device.memories.hbm.capacity=1GiB..2GiB --json | grep 'with 2GiB is it so'
        "text" : "Neither with capacity 1GiB nor with 2GiB is it so that it fits; nothing between was tried: another range may hold the answer."
$ echelon run --trace adam_none.v5e --device tpu-v5e --find device.memories.hbm.capacity=1GiB..2GiB >$T/nowhere
exit 3
$ echelon run --trace tests/golden/data/served.pickle --device a100-80 --allocator pytorch --set device.memories.hbm.available=200MiB | sed -n "/hbm/p" | head -2
  with device.memories.hbm.available=200MiB
  IT DOES NOT FIT. hbm 130 MiB of 200 MiB (65 %)
$ echelon run --trace tests/golden/data/served.pickle --device a100-80 --allocator pytorch --set device.memories.hbm.available=210MiB | sed -n "/hbm/p" | head -2
  with device.memories.hbm.available=210MiB
  It fits. hbm 200 MiB of 210 MiB (95 %)
$ echelon run --trace tests/golden/data/graphs.pickle --device a100-80 --allocator pytorch --set device.memories.hbm.available=140MiB | grep asks
  At 476 us 'serve.py:9' asks for 80 MiB more in hbm: 20 MiB of 140 MiB are live, 70 MiB reserved. It is for a private pool (of a CUDA graph or MemPool), and 50 MiB are cached for others, which nothing gives back then.
    It stops fitting: at 476 us 'serve.py:9' asks for 80 MiB of hbm, where 20 MiB of 140 MiB are live and no free piece is large enough.
$ echelon import tests/golden/data/graphs.pickle -o $T/g.ech >/dev/null 2>&1; sed -e 's/^buffers 3/buffers 4/' -e 's/^ops 10/b "more" m=0 bytes=115343360 q=1\nops 11/' $T/g.ech >$T/h.ech; echo 'alloc "more" q=0 target=3 bytes=115343360 start=120000000' >>$T/h.ech; for room in 200 140 210; do echelon run --trace $T/h.ech --device a100-80 --allocator pytorch --set device.memories.hbm.available=${room}MiB | grep -e fits -e asks; done; echelon run --trace $T/h.ech --device a100-80 --allocator pytorch --set device.memories.hbm.available=200MiB --json | grep kept_bytes
  At 734 us 'more' asks for 110 MiB more in hbm: 20 MiB of 200 MiB are live, 150 MiB reserved, and private pools (of CUDA graphs, MemPools) keep 80 MiB more until they are released.
    It stops fitting: at 734 us 'more' asks for 110 MiB of hbm, where 20 MiB of 200 MiB are live and no free piece is large enough.
  At 476 us 'serve.py:9' asks for 80 MiB more in hbm: 20 MiB of 140 MiB are live, 70 MiB reserved. It is for a private pool (of a CUDA graph or MemPool), and 50 MiB are cached for others, which nothing gives back then.
    It stops fitting: at 476 us 'serve.py:9' asks for 80 MiB of hbm, where 20 MiB of 140 MiB are live and no free piece is large enough.
  It fits. hbm 130 MiB of 210 MiB (62 %)
echelon: h does not fit on a100-80
    "kept_bytes" : 83886080,
$ echelon run --trace traces/splash_attention.v6e --device tpu-v6e | sed -n "/Critical path/,/^$/p"
  Critical path
    matrix unit                   42.1 us   41.5 % ########............
    vector unit                   28.6 us   28.2 % ######..............
    grid steps                    25.6 us   25.2 % #####...............
    overhead                      2.87 us    2.8 % #...................
    hbm port                      1.41 us    1.4 % ....................
    vector port                    871 ns    0.9 % ....................
    (grid steps: what each step of a kernel's grid costs besides its work)
    (overhead: launches, set-ups and latencies, the fill and drain of kernels)

$ echelon run --trace traces/gpt_everything.v5e --device tpu-v5e --pass pin | grep -A1 "What that changes"
  What that changes
    Nothing: pass pin leaves it as it is, and says why in the notes below.
$ echelon run --trace tests/golden/data/cache_emptied.ech --device a100-80 | grep -E 'fits|reserved'
  It fits. hbm 150 MiB of 78.8 GiB (0 %)
  150 MiB reserved by allocator pytorch:max_split_size_mb:64, as recorded; nvidia-smi would show 662 MiB, 512 MiB of it the process's context.
$ echelon run --trace tests/golden/data/cache_emptied_before.ech --device a100-80 | grep reserved
  400 MiB reserved by allocator pytorch:max_split_size_mb:64, as recorded; in the last step 150 MiB, the rest was given back before it; nvidia-smi would show 912 MiB, 512 MiB of it the process's context.
$ echelon run --trace tests/golden/data/cache_emptied.ech --device a100-80 --allocator best_fit | grep -E 'reserved|best_fit'
  with allocator=best_fit
    hbm: 150 MiB live at 30 us; best_fit
$ grep -v allocator_settings tests/golden/data/cache_emptied.ech >$T/n.ech; sed -e 's/:empty_cache/:malloc/' tests/golden/data/cache_emptied.ech >$T/k.ech; for f in n k; do echelon run --trace $T/$f.ech --device a100-80 | grep reserved; done
  150 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 662 MiB, 512 MiB of it the process's context.
  150 MiB reserved by allocator pytorch:max_split_size_mb:64, as recorded; nvidia-smi would show 662 MiB, 512 MiB of it the process's context.
$ echelon run --trace tests/golden/data/cache_emptied.ech --device a100-80 --set device.memories.hbm.capacity=600MiB | grep -E 'FIT|asks'
  IT DOES NOT FIT. hbm 100 MiB of 0 B
  At 0 ps 'loading' asks for 100 MiB more in hbm: 0 B of 0 B are live, 0 B reserved.
$ echelon run --trace tests/golden/data/cache_emptied.ech --device a100-80 --set device.memories.hbm.available=120MiB | grep -E 'FIT|asks'
  IT DOES NOT FIT. hbm 150 MiB of 120 MiB (125 %)
  At 238 us 'weights' asks for 150 MiB more in hbm: 0 B of 120 MiB are live, 0 B reserved.
    It stops fitting: at 238 us 'weights' asks for 150 MiB of hbm, where 0 B of 120 MiB are live.
$ for room in 1GiB 220MiB 200MiB; do echelon run --trace traces/gpt_unrolled_kept.h100 --device h100-sxm --set device.memories.hbm.available=$room --set device.runtime.driver.context_bytes=32MiB | grep -E 'fits|JAX'; done
  It fits. hbm 180 MiB of 1 GiB (18 %)
  It fits. hbm 180 MiB of 220 MiB (82 %)
  JAX would not run it as it is: it takes three quarters of the memory, 165 MiB; XLA_PYTHON_CLIENT_MEM_FRACTION=0.82 gives enough.
  It fits. hbm 180 MiB of 200 MiB (90 %)
  JAX would not run it as it is: it takes three quarters of the memory, 150 MiB; nor would the process's context, 32 MiB, have room beside it.
$ for gpu in h100-sxm t4; do echelon run --trace tests/fuzz/corpus/out_of_memory/bfc.txt --device $gpu | grep -E 'It fits|reserved'; done
  It fits. hbm 3.44 GiB of 78.6 GiB (4 %)
  59.3 GiB reserved by allocator jax, as recorded; nvidia-smi would show 59.8 GiB, 512 MiB of it the process's context.
    hbm: 3.44 GiB live, 59.3 GiB reserved, whole at the start; jax
  It fits. hbm 3.44 GiB of 14.6 GiB (24 %)
  11.1 GiB reserved by allocator jax, as recorded; nvidia-smi would show 11.2 GiB, 138 MiB of it the process's context.
    hbm: 3.44 GiB live, 11.1 GiB reserved, whole at the start; jax
$ echelon run --trace tests/golden/data/began.ech --device a100-80 | grep -E 'fits|reserved by'
  It fits. hbm 70 MiB of 78.8 GiB (0 %)
  100 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 612 MiB, 512 MiB of it the process's context.
$ echelon run --trace tests/golden/data/began.ech --device a100-80 --set device.memories.hbm.available=90MiB | grep -E 'fits|reserved by|start state'
  It fits. hbm 70 MiB of 90 MiB (78 %)
  80 MiB reserved by allocator pytorch, as recorded. When it was recorded it held 100 MiB: how its cache lay when that began is not known here.
  - allocator pytorch: not from the recorded start state, which does not fit (start state: block at 0x7e0000000000: the device's memory is smaller than what was recorded; expected a larger --capacity)
$ for p in offload:above=1MiB offload:what=arguments pad:align=16MiB; do echelon run --trace tests/golden/data/began_work.ech --device a100-80 --pass $p | grep -E 'fits|reserved by|began,'; done
  It fits. hbm 100 MiB of 78.8 GiB (0 %), host 60 MiB of 2 TiB (0 %)
  100 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 612 MiB, 512 MiB of it the process's context.
  It fits. hbm 95 MiB of 78.8 GiB (0 %), host 10 MiB of 2 TiB (0 %)
  110 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 622 MiB, 512 MiB of it the process's context.
  - of what its allocator held when the recording began, passes have 10 MiB otherwise: it begins with an empty cache, and what it reserves is not to be compared with the run without them
  It fits. hbm 128 MiB of 78.8 GiB (0 %)
  128 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 640 MiB, 512 MiB of it the process's context.
  - of what its allocator held when the recording began, passes have 10 MiB otherwise: it begins with an empty cache, and what it reserves is not to be compared with the run without them
$ echelon import traces/gpt_nothing.v5e 2>/dev/null | grep -v -e '"chip"' -e '"estimates_for"' >$T/unnamed.ech; for run in "$T/unnamed.ech h100-sxm" "traces/gpt_nothing.v5e mi300x" "traces/gpt_nothing.h100 tpu-v5e" "traces/gpt_pytorch.h100 tpu-v5e"; do echelon run --trace ${run% *} --device ${run#* } --engine native | grep -e 'Kernel times' -e 'and nothing more'; done
  Kernel times: 78 roofline; 21 unknown. Engine: native (0.1.0).
  - the program was compiled for a TPU: on h100-sxm its kernels' bytes and operations are priced, and nothing more is known; 'echelon capture --pretend h100-sxm' asks its compiler
  Kernel times: 99 roofline. Engine: native (0.1.0).
  - the program was compiled for a TPU (tpu-v5e): on mi300x its kernels' bytes and operations are priced, and nothing more is known
  Kernel times: 98 roofline. Engine: native (0.1.0).
  - the program was compiled for a GPU: on tpu-v5e its kernels' bytes and operations are priced, and nothing more is known; 'echelon capture --pretend tpu-v5e' asks its compiler
  Kernel times: 550 roofline. Engine: native (0.1.0).
  - its kernels are those of h100-sxm, a GPU: on tpu-v5e their bytes and operations are priced, and nothing more is known
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --engine native -o $T/page 2>/dev/null >$T/page.txt; grep -o '"verdict":.*\],"bounds"' $T/page/details.json | tr '"' '\n' | grep -e ' fits' -e '^It takes' -e reserved -e 'kernels. time' | sed 's/^/  /' | while read -r said; do grep -qF -- "$said" $T/page.txt && echo "$said"; done; sed -n 's/.*"reasons":\(\[[^]]*\]\).*/\1/p' $T/page/details.json
It fits.
It takes
4.99 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); nvidia-smi would show 5.49 GiB, 512 MiB of it the process's context.
Of the kernels' time 32 % is products, which are held against published times; 67 % other kernels with constants from recorded ones of their class; 1 % assumed (most of it scatter).
["what they depend on","their own queue","a link in use","a shared memory port","a shared unit","memory to become free","the host's launches","the allocator's cudaFree","unified memory's pages","other devices"]
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml $(yes -- '--pass pin' | head -14) | tail -2
  - pin: no copy is from or to pageable memory
  - and 2 more remarks (--json has them all)
$ echelon run --trace tests/golden/data/beside.ech --device h100-sxm
beside on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)

  It fits. hbm 3.94 GiB of 78.6 GiB (5 %)
  3 GiB reserved by allocator pytorch, as recorded; 960 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 4.44 GiB, 512 MiB of it the process's context. When it was recorded it held 2 GiB: how its cache lay when that began is not known here.
  It takes 916 us, bound by hbm port (55 % of the critical path).
  No schedule of it is shorter than 500 us on this device; with no overlap at all it takes 1.33 ms.

  Critical path
    hbm port                       500 us   54.6 % ###########.........
    allocator                      416 us   45.4 % #########...........
    (allocator: its cudaMalloc and cudaFree; the latter waits for the device)

  Busy
    hbm port                       500 us   54.6 % ###########.........  2 GiB read, 1 GiB written
    (units and ports: what their operations and bytes take at full rate)

  Operations waited (sum over all of them)
    for what they depend on        416 us  100.0 % ####################

  Memory at its fullest
    hbm: 3.94 GiB live at 208 us; pytorch
         2 GiB  weights
         1 GiB  activations
       960 MiB  NCCL's buffers, 2 of them

  Longest operations
    step                           500 us   54.6 % ###########.........  kernel, recorded

  Kernel times: 1 recorded. Engine: simgrid (SimGrid version ...).
  - the file does not say what it was recorded on: its recorded times count as those of h100-sxm
$ echelon run --trace tests/golden/data/beside.ech --device h100-sxm --allocator best_fit --json | grep -E '"(peak_live|peak_reserved|allocator_reserved|direct)_bytes"' | head -4
      "peak_live_bytes" : 4227858432,
      "peak_reserved_bytes" : 4227858432,
      "allocator_reserved_bytes" : 3221225472,
      "direct_bytes" : 1006632960,
$ echelon run --trace tests/golden/data/beside.ech --device h100-sxm --set device.memories.hbm.available=3900MiB
beside on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  with device.memories.hbm.available=3900MiB

  IT DOES NOT FIT. hbm 3.56 GiB of 3.81 GiB (94 %)
  3 GiB reserved by allocator pytorch, as recorded; 576 MiB beside it, from the device itself (NCCL's buffers). When it was recorded it held 2 GiB: how its cache lay when that began is not known here.
  At 916 us 'NCCL's buffers' asks for 384 MiB more in hbm: 2.56 GiB of 3.81 GiB are live, 3.56 GiB reserved, 576 MiB of both beside the allocator. It is asked of the device, not of the allocator, which has 1 GiB cached that only its own requests get.
  What held the memory:
       2 GiB  weights
     576 MiB  NCCL's buffers
  (3.81 GiB of the 80 GiB of hbm were set to be available.)
  What would make it fit:
    echelon advise --trace tests/golden/data/beside.ech --device h100-sxm --set device.memories.hbm.available=3900MiB
  Up to there it takes 916 us, bound by hbm port (55 % of the critical path).
  The whole of it would take at least 500 us on this device; with no overlap at all 1.12 ms.

  What that changes
    It stops fitting: at 916 us 'NCCL's buffers' asks for 384 MiB of hbm, where 2.56 GiB of 3.81 GiB are live and no free piece is large enough.

  Critical path
    hbm port                       500 us   54.6 % ###########.........
    allocator                      416 us   45.4 % #########...........
    (allocator: its cudaMalloc and cudaFree; the latter waits for the device)

  Busy
    hbm port                       500 us   54.6 % ###########.........  2 GiB read, 1 GiB written
    (units and ports: what their operations and bytes take at full rate)

  Operations waited (sum over all of them)
    for what they depend on        416 us  100.0 % ####################

  Memory at its fullest
    hbm: 3.56 GiB live at 208 us; pytorch
         2 GiB  weights
         1 GiB  activations
       576 MiB  NCCL's buffers

  Longest operations
    step                           500 us   54.6 % ###########.........  kernel, recorded

  Kernel times: 1 recorded. Engine: simgrid (SimGrid version ...).
  - the file does not say what it was recorded on: its recorded times count as those of h100-sxm
exit 3
$ echelon import tests/golden/data/beside.ech -o $T/beside.ech 2>/dev/null && grep -c direct=1 $T/beside.ech; echelon import tests/golden/data/beside.ech --anonymize -o $T/beside.ech 2>/dev/null && grep 'direct=1' $T/beside.ech
2
b "NCCL's buffers" m=0 bytes=603979776 direct=1
b "NCCL's buffers" m=0 bytes=402653184 direct=1
$ echelon plan tests/golden/data/beside.ech --planner xla:algorithm=best --json | grep -E 'buffers|height'
  "buffers" : 2,
  "height_bytes" : 3221225472,
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device h100-sxm --set device.memories.hbm.capacity=140MiB --set device.memories.hbm.available=140MiB --set replay.unified_memory=true | sed -n '/It fits/,/Along/p; /Critical/,/hbm port/p'
  It fits. hbm 180 MiB of 2.00 TiB (0 %)
  Unified memory: 140 MiB of it are the device's. 180 MiB came from the host when they were touched, and 180 MiB went there to make room; operations waited 8.61 ms for that.
  It takes 10.4 ms, bound by unified memory's pages (83 % of the critical path).
  No schedule of it is shorter than 1.83 ms on this device; with no overlap at all it takes 10.4 ms.

  What that changes
    It takes 5.72 times as long: 1.83 ms -> 10.4 ms. Along the critical path: +8.61 ms unified memory's pages.
  Critical path
    unified memory's pages        8.61 ms   82.5 % #################...
    hbm port                       756 us    7.2 % #...................
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device gh200 --set device.memories.hbm.capacity=140MiB --set device.memories.hbm.available=140MiB --set replay.unified_memory=true | grep 'Unified'
  Unified memory: 140 MiB of it are the device's. Of the rest, where it lies on the host, 360 MiB were read over the link and 234 MiB written; operations waited 1.54 ms for that.
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device mi300x --set replay.unified_memory=true
echelon: unified memory: mi300x has no driver that moves pages when they are touched, as far as is known here; expected an NVIDIA GPU with a link to the host
exit 2
$ echelon run slowest_link | sed -n '3,4p'
  schedule=one after the other: Least link with which it fits and takes at most 6.42 ms (1.1 times the 5.83 ms that it
  takes as it is): x0.8653 (46.5 GB/s). With x0.8652 not.
$ echelon run --trace traces/gpt_unrolled_offload.h100 --device h100-sxm --find device.links.host.to_device=40GB/s..60GB/s --for 'time<=x1.05' | tail -2
  46.46GB/s -> 46.47GB/s
    It takes as long as before, 6.13 ms: 35 % of its critical path is on the host link to device.
$ printf 'trace: gpt_unrolled_offload.h100\ndevice: {base: h100-sxm, memories: {hbm: {capacity: 40GiB}}}\n' >$T/inline.yaml && echelon run $T/inline.yaml --find device.links.host.to_device=x0.5..x1 --for 'time<=x1.05' | sed -n '3,4p'
  Least to_device with which it fits and takes at most 6.13 ms (1.05 times the 5.83 ms that it takes as it is): x0.8654
  (46.5 GB/s). With x0.8653 not.
$ echelon run $T/inline.yaml | sed -n '1,3p'
inline on h100-sxm, changed

  It fits. hbm 95.5 MiB of 39.1 GiB (0 %), host 96 MiB of 2 TiB (0 %)
$ printf 'trace: gpt_unrolled_offload.h100\ndevice: {base: h100-sx}\n' >$T/none.yaml && cd $T && echelon run none.yaml
echelon: none.yaml:2:16: base: 'h100-sx' is no device; did you mean 'h100-sxm' or 'h100-sxm-calibrated'?
exit 2
$ echelon run --trace traces/sharded_mlp.v5e --device l4 | grep -E 'collectives'
  Without its collectives it takes 2.20 ms, bound by hbm port (96 % of the critical path).
  Waits for copies and collectives while nothing computes: 219 us, 10.0 %
  - l4 has no link between devices: collectives cost what was recorded of them, else only their memory traffic, and take longer. What nccl-tests reaches where they cross PCIe, say 20 GB/s: --set 'device.links.pcie={from: hbm, to: hbm, to_device: 20GB/s, from_device: 20GB/s, reach: 8}'
$ echelon run --trace traces/sharded_mlp.v5e --device l4 --set 'device.links.pcie={from: hbm, to: hbm, to_device: 20GB/s, from_device: 20GB/s, reach: 8}' | grep -E 'collectives|It takes'
  It takes 3.77 ms, bound by pcie link out (72 % of the critical path).
    It takes 71.9 % longer: 2.20 ms -> 3.77 ms. Along the critical path: +2.73 ms pcie link out, -1.13 ms hbm port.
  Waits for copies and collectives while nothing computes: 1.88 ms, 49.9 %
$ echelon run break_even | sed -n '4,21p'
  activations, host link     fits     time  x first   needed      peak    to dev  from dev  bound by
  -------------------------  ----  -------  -------  -------  --------  --------  --------  ---------------------
  made again, x0.5           yes   1.98 ms    1.000  128 MiB         -         -         -  hbm port
  made again, x1             yes   1.98 ms    1.000  128 MiB         -         -         -  hbm port
  made again, x2             yes   1.98 ms    1.000  128 MiB         -         -         -  hbm port
  made again, x4             yes   1.98 ms    1.000  128 MiB         -         -         -  hbm port
  made again, x8             yes   1.98 ms    1.000  128 MiB         -         -         -  hbm port
  on host, waited for, x0.5  yes   6.17 ms    3.115  126 MiB  53.5 MiB  53.5 MiB  53.5 MiB  host link to device
  on host, waited for, x1    yes   4.08 ms    2.061  126 MiB  53.5 MiB  53.5 MiB  53.5 MiB  host link to device
  on host, waited for, x2    yes   2.98 ms    1.507  128 MiB  51.5 MiB  51.5 MiB  51.5 MiB  hbm port
  on host, waited for, x4    yes   2.51 ms    1.269  122 MiB  57.5 MiB  57.5 MiB  57.5 MiB  hbm port
  on host, waited for, x8    yes   2.35 ms    1.188  122 MiB  57.5 MiB  57.5 MiB  57.5 MiB  hbm port
  on host, overlapped, x0.5  yes   4.58 ms    2.315  128 MiB  53.5 MiB  53.5 MiB  53.5 MiB  host link from device
  on host, overlapped, x1    yes   2.47 ms    1.248  128 MiB  53.5 MiB  53.5 MiB  53.5 MiB  host link from device
  on host, overlapped, x2    yes   1.84 ms    0.928  138 MiB  51.5 MiB  51.5 MiB  51.5 MiB  hbm port
  on host, overlapped, x4    yes   1.84 ms    0.928  136 MiB  57.5 MiB  57.5 MiB  57.5 MiB  hbm port
  on host, overlapped, x8    yes   1.84 ms    0.929  136 MiB  57.5 MiB  57.5 MiB  57.5 MiB  hbm port

$ echelon run --trace tests/golden/data/exact.ech --device h100-sxm | grep -E '32-bit|bound by|(vector|matrix) unit '; for device in v100-16 mi300x tpu-v5e; do echelon run --trace tests/golden/data/exact.ech --device $device | grep '32-bit'; done; sed 's/matrix:f32/matrix:tf32/' tests/golden/data/exact.ech >$T/rounded.ech && echelon run --trace $T/rounded.ech --device h100-sxm | grep '32-bit'
  It takes 4.20 ms, bound by vector unit (100 % of the critical path).
    vector unit                   4.20 ms  100.0 % ####################
    vector unit                   3.08 ms   73.4 % ###############.....  206 GOP
  - 100 % of the kernels' time are products of 32-bit floats as they are, which tensor cores do not do: in bf16 (torch.autocast), or rounded to TF32 where that is enough (torch.set_float32_matmul_precision("high")), they do
exit 1
$ { printf '{title: long, trace: adam_none.v5e, device: tpu-v5e, sweep: [{name: hbm, path: device.memories.hbm.capacity, values: ['; seq -s ', ' -f %.1fGiB 1 .1 4; echo ']}]}'; } > $T/long.yaml; echelon run $T/long.yaml | sed -n '/What changed/,$p' | sed '/^  1.0GiB$/,/^$/d'  # of a long series the whole way, and the steps that tell something
  What changed most, and why

  1.0GiB -> 4.0GiB; 2.5GiB -> 2.6GiB
    It fits now.
    It takes as long as before, 10.0 ms: 87 % of its critical path is on the hbm port, which this does not touch.
$ echelon run $T/long.yaml --json | grep -c '"why"'
3
$ printf '"$@" & p=$!; until grep -q "^SigCgt:.*[4-7c-f]...$" /proc/$p/status; do :; done; kill -TERM $p; wait $p 2>/dev/null\n' > $T/ended; { printf '{title: long, trace: gpt_offload.v5e, device: tpu-v5e, sweep: [{name: link, path: device.links.host.to_device, values: ['; seq -s ', ' -f x%g 1 2000; echo ']}]}'; } > $T/long.yaml; sh $T/ended echelon run $T/long.yaml > $T/said; echo exit $?; grep -o 'of 2000 runs were made' $T/said; grep -c 'x2000' $T/said
exit 143
of 2000 runs were made
0
exit 1
$ for x in x1 x0.25; do echelon run --trace traces/gpt_unrolled_kept.h100 --device h100-sxm --set device.memories.hbm.read=$x --set device.memories.hbm.write=$x --set device.memories.hbm.both=$x | sed -n '/moves the same/p;/^  Busy/,/^$/{/matrix/p;/hbm/p}'; done
    matrix unit             280 us   15.3 % ###................  277 GOP
    hbm port                352 us   19.3 % ####...............  2.13 GiB read, 1.35 GiB written; 2.45 GiB of that in L2
    The hbm port moves the same 3.48 GiB (2.45 GiB of that in L2) in 1.41 ms instead of 352 us.
    matrix unit             280 us   10.2 % ##.................  277 GOP
    hbm port               1.41 ms   51.5 % ##########.........  2.13 GiB read, 1.35 GiB written; 2.45 GiB of that in L2
$ echelon import tests/golden/data/oom.pickle -o $T/first.ech >/dev/null 2>&1; sed -i 's/^property "records.oom".*/&\nproperty "pretended_bytes" "220200960"/' $T/first.ech; sed 's/^host 0/host 1/; s/^compute 0/compute 1/' $T/first.ech >$T/second.ech; for f in first second; do echelon run $T/$f.ech --device h100-sxm | grep 'It fits'; done
  It fits as far as the program came. hbm 120 MiB of 78.6 GiB (0 %)
  It fits as far as the program came. hbm 120 MiB of 78.6 GiB (0 %)
$ echelon import tests/golden/data/oom.pickle -o $T/on.ech >/dev/null 2>&1; sed -i 's/^property "records.oom".*/&\nproperty "pretended_bytes" "220200960"/; s/^ops 11/ops 12/; $a kernel "k" q=1' $T/on.ech; echelon run --trace $T/on.ech --device h100-sxm | grep -E 'It fits|went on'; echelon advise --trace $T/on.ech --device h100-sxm | grep 'went on'
  It fits. hbm 120 MiB of 78.6 GiB (0 %)
  The program ran out of memory 1 time when it was captured, with 210 MiB, and went on: 100 MiB more were asked for by loss.py:8 with 56 MiB in use. What it leaves out then, a batch say, is in no figure here; captured with room (--set device.memories.hbm.capacity=1TiB) it leaves out nothing.
  The program ran out of memory 1 time when it was captured, with 210 MiB, and went on: 100 MiB more were asked for by loss.py:8 with 56 MiB in use. What it leaves out then, a batch say, is in no figure here; captured with room (--set device.memories.hbm.capacity=1TiB) it leaves out nothing.
$ for f in tests/fuzz/corpus/nsys/gpus.sqlite tests/golden/data/peers.json; do echelon run --trace $f --device h200 | grep -E "fits|recorded on|holds|no memory"; done
  Every device fits.
    devices 1, 2: recorded on NVIDIA H100 80GB HBM3: recorded times are carried from h100-sxm to h200
    device 1: of the 200 ns recorded on h100-sxm, 100.0 % by the rates of memory, or of products, alone
    device 2: of the 170 ns recorded on h100-sxm, 100.0 % by the rates of memory, or of products, alone
  It fits. hbm 500 KiB of 139 GiB (0 %)
  - recorded on NVIDIA H100 80GB HBM3: recorded times are carried from h100-sxm to h200
  - of the 20 us recorded on h100-sxm, 50.0 % by the rates of memory, or of products, alone, 50.0 % are copies and collectives, by their links
$ printf 'id,lower,upper,size\na,0,2,5242880\nb,1,3,7340032\n' >$T/lifetimes.csv; echelon run --trace $T/lifetimes.csv --device tests/golden/data/small.yaml --set 'sweep=[{path: device.memories.hbm.capacity, values: [1GiB, 512MiB]}]'
lifetimes.csv

  capacity  fits  time  x first  hbm peak  bound by
  --------  ----  ----  -------  --------  --------
  1GiB      yes   0 ps             12 MiB  nothing
  512MiB    yes   0 ps             12 MiB  nothing

  What changed, and why

  1GiB
    It takes no time: nothing in it has a cost.
    It needs 12 MiB of hbm; at its fullest that holds 12 MiB buffers.

  1GiB -> 512MiB
    It takes no time, as before.
