The manual and the completions know every verb and its options.
$ echelon --print-man | grep -c '^\.SH '
22
$ echelon --print-completion bash > $T/c && bash -n $T/c && COMP_CWORD=1 bash -c ". $T/c; COMP_WORDS=(echelon comp); _echelon; echo \${COMPREPLY[@]}"
compare
$ echelon --print-completion bash > $T/c && bash -c ". $T/c; COMP_CWORD=2 COMP_WORDS=(echelon run --allo); _echelon; echo \${COMPREPLY[@]}"
--allocator
$ echelon --print-completion bash > $T/c && bash -c ". $T/c; COMP_CWORD=3 COMP_WORDS=(echelon run --device h2); _echelon; echo \${COMPREPLY[@]}"
h20 h20-3e h200 h200-nvl h200-calibrated
$ echelon --print-completion fish | grep -c 'seen_subcommand_from alloc'
13
$ echelon --print-completion tcsh
echelon --print-completion: expected bash, zsh or fish
exit 2
$ for v in $(echelon help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do echelon help $v | sed '1,/^Examples:/d;s/^  //'; done >$T/examples; grep -c '^echelon' $T/examples; grep -E 'traces/|layout|list|run tutorial|(report|compare) out' $T/examples | grep -v calibrate | while IFS= read -r line; do (eval "$(echo "$line" | sed "s: -o : -o $T/new-:; s: out\(/\| \|\$\): $T/new-out\1:g")") >$T/seen 2>&1 </dev/null || { echo "fails: $line"; cat $T/seen; }; done
33
$ echelon help experiment | grep -c -E '^  (title|trace|device|passes|set|sweep|replay|matmul)  '
8
$ echelon help questions PINNED copies
What would offloading, checkpointing, prefetching, donation change?

  My copies to the device are slow: what would pinned host memory be worth?
      echelon run --trace profile.json.gz --device h100-sxm --pass pin
$ for words in defragment swap dataloader "4bit quantized" "numbers come from" "share trace"; do echelon help questions $words | grep -m1 '^  [^ ]' || echo "nothing: $words"; done
  JAX or TensorFlow on a GPU logs 'ran out of memory trying to allocate' and every chunk: use or fragmentation, and what stands in the way?
  Pallas: 'Scoped allocation with size 18.36M and limit 16.00M exceeded scoped vmem limit': which arrays take it, which blocks would fit, what does padding cost?
  Is the GPU idle, does it wait for the host: the data loader, Python, the launches?
  Which GPU or TPU do I need for this model, with this batch, this length, LoRA, QLoRA, ZeRO or FSDP?
  Where does every number of a device come from, and how far off is it?
  May I share this trace, send it to somebody: names, paths, stacks?
$ echelon help questions no such words
echelon help questions: none has 'such'; did you mean 'much'? 'echelon help questions' shows all
exit 1
$ echelon help questions longest pinned | head -1
(None has all of these words; these have most.)
$ echelon help questions maxtext remat policy
What would offloading, checkpointing, prefetching, donation change?

  Which remat policy of JAX, or of MaxText (remat_policy: full, minimal_offloaded, custom)?
      echelon capture --pretend tpu-v5e -o step -- python train.py
    (once with each policy: the compiler itself then says what is kept; 'advise' of the one without says which arrays are worth it)
$ echelon help questions ofload
echelon help questions: none has 'ofload'; did you mean 'offload'? 'echelon help questions' shows all
exit 1
$ echelon help question | grep '^      ' | sed 's/^ *//' >$T/commands; grep -c . $T/commands; grep -E '^echelon ' $T/commands | while read -r program verb rest; do echelon help $verb >$T/options 2>&1 || echo "no verb: $verb"; for word in $rest; do case $word in --) break ;; --*) grep -q -e "$word[ =]" $T/options || echo "no option: $verb $word" ;; esac; done; done
162
$ grep -E 'traces/|tutorial|layout|list|offload_h100|checkpoint_or' $T/commands | while IFS= read -r line; do eval "$line" >$T/seen 2>&1 </dev/null || { echo "fails: $line"; cat $T/seen; }; done
$ for v in $(echelon help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do COLUMNS=80 echelon help $v | sed '/^Examples:/,$d' | awk -v v=$v 'length($0) > 80 { print v ": " $0 }'; done
$ COLUMNS=80 echelon help alloc | sed -n '1,/--help/p'
Usage:
  echelon alloc [OPTION...] FILE [--allocator SPEC]... [--capacity BYTES]
                [--placements OUT.csv] [--json]

replay allocations under allocators, without a clock

Help Options:
  -h, --help               Show help options
$ for words in device plugin "trace myself"; do echelon help questions $words | grep -c '^      echelon'; done  # a word that most commands have is looked for in the questions
23
1
3
$ echelon help | grep 'Exit codes'; echelon --print-man | grep 'of a sweep, nothing of it fits' | wc -l
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the simulated workload does not fit: a result, with what did not fit, when, and what held the memory; of a sweep, nothing of it fits; of advise, it does not fit and no measure but unified memory makes it.
1
