echelon plan: a CSV in, the same CSV with offsets out; sums, exit codes, messages.
$ printf 'id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n' > $T/in.csv
$ echelon plan $T/in.csv --planner exact -o $T/out.csv | sed '/ time /d'
exact: 5 buffers
  height       12 B (12 bytes), proved lowest
  lower bound  12 B (12 bytes), 0.00 % below the height
$ cat $T/out.csv
id,lower,upper,size,offset
b1,0,3,4,0
b2,3,9,4,0
b3,0,9,4,4
b4,9,21,4,0
b5,0,21,4,8
$ echelon plan $T/in.csv --planner exact -o - | cmp - $T/out.csv; echelon plan $T/in.csv -o - --json
echelon plan: --json and -o - both write to standard output; expected one of them, or -o OUT.csv
exit 2
$ printf 'id,lower,upper,size,gaps,alignment\na,0,10,100,6-8 2-5,4\nb,3,5,100,,\nc,0,10,50,2-5@10:20,8\n' >$T/gaps.csv; echelon plan $T/gaps.csv -o $T/once.csv >$T/said; echelon plan $T/once.csv -o $T/again.csv >$T/said; cmp $T/once.csv $T/again.csv && cat $T/once.csv  # what is written says what was read: b lies in a gap of a's
id,lower,upper,size,alignment,gaps,offset
a,0,10,100,4,2-5 6-8,52
b,3,5,100,1,,20
c,0,10,50,8,2-5@10:20,0
$ echelon alloc $T/gaps.csv -a best_fit 2>&1 >/dev/null | sed "s,$T/,,"; echelon import $T/gaps.csv -o $T/gaps.ech 2>&1 | sed "s,$T/,,g"
echelon: gaps.csv: 3 gaps not kept, first at a
dropped or repaired gaps not kept: 3, first at a
a trace's buffers live without a break; 'echelon plan' takes the gaps from the CSV itself
gaps.csv: minimalloc, 6 operations, 3 buffers -> gaps.ech
$ printf 'id,lower,upper,size\n"of ""x"", y",0,2,1048576\nb,1,3,2097152\n' >$T/ids.csv; echelon import $T/ids.csv -o $T/ids.ech 2>/dev/null; for f in ids.csv ids.ech; do echelon plan $T/$f -o $T/ids.out >/dev/null; cut -d, -f1-2 $T/ids.out; echelon alloc $T/$f -a best_fit -a plan:greedy --placements $T/p.csv >/dev/null; cat $T/p.csv $T/p.csv.2; done  # its ids, everywhere
id,lower
"of ""x"", y"
b,1
event,id,requested,rounded,segment,offset,address
0,"of ""x"", y",1048576,1048576,0,0,0
1,b,2097152,2097152,0,1048576,1048576
event,id,requested,rounded,segment,offset,address
0,"of ""x"", y",1048576,1048576,0,0,0
1,b,2097152,2097152,0,1048576,1048576
id,lower
"of ""x"", y"
b,1
event,id,requested,rounded,segment,offset,address
0,"of ""x"", y",1048576,1048576,0,0,0
1,b,2097152,2097152,0,1048576,1048576
event,id,requested,rounded,segment,offset,address
0,"of ""x"", y",1048576,1048576,0,0,0
1,b,2097152,2097152,0,1048576,1048576
$ echelon plan $T/in.csv --planner xla:algorithm=spatial,alignment=4,limit=8 -o $T/heaps.csv | sed '/ time /d'
xla:algorithm=spatial,alignment=4,limit=8: 5 buffers
  height       12 B (12 bytes)
  lower bound  12 B (12 bytes), 0.00 % below the height
  heaps        2
$ cat $T/heaps.csv
id,lower,upper,size,offset
b1,0,3,4,H1+0
b2,3,9,4,H1+0
b3,0,9,4,H0+4
b4,9,21,4,H0+4
b5,0,21,4,H0+0
$ echelon plan $T/in.csv --planner exact --capacity 11 --json | grep -v seconds
{
  "planner" : "exact",
  "buffers" : 5,
  "height_bytes" : 12,
  "lower_bound_bytes" : 12,
  "proved_optimal" : true,
  "out_of_time" : false,
  "too_large" : false,
  "interrupted" : false,
  "steps" : 5,
  "capacity_bytes" : 11,
  "fits" : false,
  "heap_bytes" : [
    12
  ]
}
$ echelon plan $T/in.csv --planner exact --capacity 11 > /dev/null
exit 3
$ echelon plan $T/in.csv --planner spatial
echelon: --planner: 'spatial' is not a planner; expected one of xla, exact, greedy
exit 2
$ echelon plan $T/out.csv --planner xla:algorithm=tightest
echelon: --planner: xla: algorithm: 'tightest' is unknown; expected one of spatial, temporal, best, phase, phase_end, fast_merge, fast_split
exit 2
$ echelon plan
echelon plan: one FILE is needed
exit 2
$ printf 'id,lower,upper,size\nb1,0,x,4\n' > $T/bad.csv; echelon plan $T/bad.csv 2>&1 | sed "s,$T/,,"
echelon: bad.csv:2: 'x' is not an end; expected a whole number at least as large as 'lower' in column 'upper'
$ awk 'BEGIN { print "id,lower,upper,size"; x = 1; for (i = 0; i < 2000; i++) { x = x * 16807 % 2147483647; l = x % 500; x = x * 16807 % 2147483647; d = 1 + x % 100; x = x * 16807 % 2147483647; print "b" i "," l "," l + d "," 1 + x % 997 } }' > $T/hard.csv
$ printf '"$@" & p=$!; until grep -q "^SigCgt:.*[4-7c-f]...$" /proc/$p/status; do :; done; kill -TERM $p $p; wait $p 2>/dev/null\n' > $T/ended; cat $T/ended  # a TERM, as twice as timeout sends it, once it is listened for
"$@" & p=$!; until grep -q "^SigCgt:.*[4-7c-f]...$" /proc/$p/status; do :; done; kill -TERM $p $p; wait $p 2>/dev/null
$ sh $T/ended echelon plan $T/hard.csv --planner exact:time_limit=60s -o $T/whole.csv > $T/said; echo exit $?; grep -o 'the lowest so far: interrupted' $T/said; sed 1d $T/whole.csv | wc -l; ls $T | grep -c whole
exit 143
the lowest so far: interrupted
2000
1
$ sh $T/ended echelon alloc $T/hard.csv --allocator plan:exact:time_limit=60s --allocator bfc > $T/said; echo exit $?; grep -c '^plan:exact' $T/said; tail -n 1 $T/said
exit 143
2
interrupted before it tried bfc
$ sh $T/ended echelon alloc $T/hard.csv --allocator plan:exact:time_limit=60s --allocator bfc --json > $T/said; echo exit $?; grep -E '"(interrupted|left_out|name)"' $T/said
exit 143
  "interrupted" : true,
  "left_out" : "bfc",
      "name" : "plan:exact:time_limit=60s",
