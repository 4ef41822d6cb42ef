What the README shows is what the program says.
$ echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --pass offload >$T/out; sed -n '/^    \$ echelon run --trace traces.gpt_unrolled_kept/,/\.\.\.$/p' README.md | sed '1d;$d;s/^ *//' | while read -r line; do grep -qF -- "$line" $T/out && echo true || echo "untrue: $line"; done
true
true
true
true
true
$ echelon run --trace gpt_pytorch.h100 --device h100-sxm --step last >$T/out; sed -n '/^    \$ echelon run --trace traces.gpt_pytorch/,/\.\.\.$/p' README.md | sed '1d;$d;s/^ *//' | while read -r line; do grep -qF -- "$line" $T/out && echo true || echo "untrue: $line"; done
true
true
true
true
true
true
true
$ echelon advise gpt_unrolled_kept.h100 --device h100-sxm --memory 140MiB >$T/out; sed -n '/^    \$ echelon advise traces.gpt_unrolled_kept/,/\.\.\.$/p' README.md | sed '1d;$d;s/^ *//' | while read -r line; do grep -qF -- "$line" $T/out && echo true || echo "untrue: $line"; done
true
true
true
true
true
true
true
true
$ echelon info tests/fuzz/corpus/memory_figures/summary.txt >$T/out; sed -n '/^    \$ echelon info tests.fuzz/,/\.\.\.$/p' README.md | sed '1d;$d;s/^ *//' | while read -r line; do grep -qF -- "$line" $T/out && echo true || echo "untrue: $line"; done
true
true
