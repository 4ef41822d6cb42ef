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
$ for f in README.md CONTRIBUTING.md; do grep -o '](\([^)#]*\)' $f | sed 's/^](//' | while read -r link; do [ -z "$link" ] || [ -e "$link" ] || echo "$f leads nowhere: $link"; done; done
$ grep -o '`echelon [a-z][^`]*`' README.md CONTRIBUTING.md | sed 's/^[^`]*`echelon //; s/`$//' | grep -v '^help' | while read -r verb rest; do echelon help $verb >$T/options 2>&1 || echo "no verb: $verb"; for word in $rest; do case $word in --) break ;; --*) grep -q -e "$word[ =]" $T/options || echo "no option: $verb $word" ;; esac; done; done
