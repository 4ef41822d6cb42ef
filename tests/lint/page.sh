#!/bin/bash
# The report page in a browser: one run, ranks, sweeps; no error, and what there is to draw is drawn. Skipped (77) without Chromium; without it but with node,
# the script's syntax.
set -u
cd "$(dirname "$0")/../.." || exit 1
echelon=${2:-build/release/echelon}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ]; then
  command -v node >/dev/null || { echo "neither Chromium nor node"; exit 77; }
  node --check viz/page.js
  exit
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

page() { # NAME ARGUMENTS...: leaves the drawn page as $work/NAME.dom
  local name=$1
  shift
  "$echelon" run "$@" -o "$work/$name" >/dev/null 2>&1
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --enable-logging=stderr --window-size=1300,1600 --dump-dom \
    "file://$work/$name/report.html" >"$work/$name.dom" 2>"$work/$name.log" || { echo "$name: the browser failed"; failed=1; }
  if grep -q CONSOLE "$work/$name.log"; then
    echo "$name: $(grep CONSOLE "$work/$name.log" | head -n 3)"
    failed=1
  fi
}
expect() { # NAME COUNT TEXT: the page has TEXT so often
  local n
  n=$(grep -oF -- "$3" "$work/$1.dom" | wc -l)
  [ "$n" = "$2" ] || { echo "$1: '$3' is there $n times, expected $2"; failed=1; }
}

page run --trace traces/gpt_everything.h100 --device h100-sxm
expect run 3 '<canvas '
expect run 1 '>latency inside kernels<'

# Two charts by the link, a line for each way to keep activations; time against memory; 15 points each.
page sweep break_even
expect sweep 3 '<svg '
expect sweep 6 '<path '
expect sweep 45 '<circle '
expect sweep 1 'class="on" aria-pressed="true">as given<'

# More combinations than colours: the others are dashed.
cat >"$work/many.yaml" <<YAML
title: Three axes
trace: $PWD/traces/adam_none.v5e
device: tpu-v5e
replay: {engine: native}
sweep:
  - {name: host link, path: [device.links.host.to_device, device.links.host.from_device], values: [16GB/s, 32GB/s, 64GB/s, 128GB/s]}
  - {name: state, path: passes, values: ["", "offload:what=arguments,names=state*", "offload:what=arguments,names=state*,overlap=true"]}
  - {name: ahead, path: passes, values: ["", "prefetch:depth=1", "prefetch:depth=2", "prefetch:depth=4"]}
YAML
page many "$work/many.yaml"
expect many 3 '<svg '
expect many 24 '<path '
expect many 4 'stroke-dasharray="8 4"'

# Of very many the first hundred in each table, the rest once it is asked for; all in the chart, and a small page.
cat >"$work/long.yaml" <<YAML
title: A thousand runs
trace: $PWD/tests/golden/data/stream.ech
device: $PWD/tests/golden/data/small.yaml
replay: {engine: native}
sweep: [{name: to device, path: device.links.host.to_device, values: [$(seq -s ', ' -f x%g 1000)]}]
YAML
page long "$work/long.yaml"
expect long 1 '<svg '
expect long 1000 '<circle '
expect long 100 '>bound by '
expect long 100 'class="stack"'
expect long 2 '>900 more<'
[ "$(wc -c <"$work/long/report.html")" -lt 2000000 ] || { echo "long: the page has $(wc -c <"$work/long/report.html") bytes"; failed=1; }

# Nothing differs but what there is: no chart, no order to choose.
page same capacity
expect same 0 '<svg '
expect same 0 '>as given<'

cat >"$work/names.yaml" <<YAML
title: Two axes of names
trace: $PWD/traces/gpt_unrolled_kept.h100
device: h100-sxm
sweep:
  - {name: activations, path: passes, values: ["", remat, offload]}
  - {name: memory, path: device.memories.hbm.capacity, values: [120MiB, 1GiB]}
YAML
page names "$work/names.yaml"
expect names 1 '<svg '
expect names 6 '<circle '
expect names 1 '>Hollow: does not fit.'

page ranks traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm
expect ranks 1 'ranks on h100-sxm'
exit $failed
