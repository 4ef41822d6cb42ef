#!/usr/bin/env bash
# Every header compiles alone, and all of them but the private ones together: no two give one name two meanings.
set -u
cd "$1" || exit 1
flags=$(pkg-config --cflags glib-2.0 json-glib-1.0) || exit 77
bad=0
while read -r header; do
  echo "#include \"$header\"" | gcc -std=c17 -D_GNU_SOURCE -I. $flags -fsyntax-only -x c - || { echo "$header does not compile alone"; bad=1; }
done < <(find sim models -name '*.h')
find sim models -name '*.h' ! -name '*_private.h' ! -name '*_internal.h' | sort | sed 's/.*/#include "&"/' | gcc -std=c17 -D_GNU_SOURCE -I. $flags -fsyntax-only -x c - ||
  { echo "the headers do not compile together"; bad=1; }
exit $bad
