#!/usr/bin/env bash
# Every header compiles alone.
set -u
cd "$1" || exit 1
flags=$(pkg-config --cflags glib-2.0 json-glib-1.0) || exit 77
bad=0
while read -r header; do
  echo "#include \"$header\"" | gcc -std=c17 -D_GNU_SOURCE -I. $flags -fsyntax-only -x c - || { echo "$header does not compile alone"; bad=1; }
done < <(find sim models -name '*.h')
exit $bad
