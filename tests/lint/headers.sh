#!/usr/bin/env bash
# Every header compiles alone, and all of them but the private ones together: no two give one name two meanings.
set -u
cd "$1" || exit 1
flags=$(pkg-config --cflags glib-2.0 json-glib-1.0) || exit 77
bad=0
export flags
find sim models -name '*.h' | xargs -P "$(nproc)" -n 1 sh -c \
  'echo "#include \"$0\"" | gcc -std=c17 -D_GNU_SOURCE -I. $flags -fsyntax-only -x c - || { echo "$0 does not compile alone"; exit 1; }' || bad=1
find sim models -name '*.h' ! -name '*_private.h' ! -name '*_internal.h' | sort | sed 's/.*/#include "&"/' | gcc -std=c17 -D_GNU_SOURCE -I. $flags -fsyntax-only -x c - ||
  { echo "the headers do not compile together"; bad=1; }
exit $bad
