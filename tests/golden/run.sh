#!/bin/sh
# Runs the commands of a .t file and compares what they print (stdout and stderr, then "exit N" when not 0) with the lines that follow them.
# usage: run.sh ECHELON FILE.t      UPDATE_GOLDEN=1 rewrites the file. Lines before the first "$ " are comment.
set -u
program=$1; file=$2
new=$(mktemp) || exit 1
trap 'rm -rf "$new" "$new.d"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$new.d"
PATH=$(cd "$(dirname "$program")" && pwd):$PATH; export PATH
T=$new.d; export T
unset COLUMNS
sed '/^\$ /,$d' "$file" >"$new"
grep '^\$ ' "$file" | sed 's/^\$ //' | while IFS= read -r command; do
  printf '$ %s\n' "$command"
  sh -c "$command" 2>&1 </dev/null; code=$?
  [ "$code" = 0 ] || printf 'exit %s\n' "$code"
done >>"$new"
sed -i 's/(SimGrid version [0-9.]*)/(SimGrid version ...)/' "$new" # Debian's releases differ in it
if [ "${UPDATE_GOLDEN:-}" = 1 ]; then cp "$new" "$file"; exit 0; fi
diff -u "$file" "$new"
