Faults of what is around the program: closed streams, files that may grow no more. What is left is whole or not there, and a line says why.
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml -o $T/streams <&- 2>&- >$T/said; ls $T/streams; grep -c fits $T/said
details.json
memory.pprof.gz
report.html
run.json
summary.txt
time.pprof.gz
timeline.json.gz
timeline.pftrace
1
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml -o $T/closed >&- 2>$T/said; echo $?; cat $T/said | sed "s|$T|T|g"; ls $T/closed | wc -l
1
echelon: standard output: Bad file descriptor
8
$ echelon info - <&- 2>&1
echelon: standard input: Bad file descriptor
exit 1
$ (ulimit -f 100; echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml -o $T/full) 2>&1 | sed "s|$T|T|g"; ls -A $T | grep full
echelon: T/full/report.html: File too large
exit 1
$ (ulimit -f 1; echelon import traces/gpt_offload.h100 -o $T/full.ech) 2>&1 | tail -1 | sed "s|$T|T|g"; ls -A $T | grep full
echelon: T/full.ech: cannot write: File too large
exit 1
$ (ulimit -f 1; echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine native --json 2>&1 >$T/some) | cat
echelon: standard output: File too large
$ (ulimit -f 8; echelon run --trace traces/gpt_offload.h100 --device h100-sxm --engine simgrid 2>&1) | cat
echelon: the SimGrid engine failed: the worker had no room for its answer (memory, or ulimit -f); --engine native needs no worker
