#!/usr/bin/env bash
# The layer rule of CONTRIBUTING.md: which folder may include which. Foreign headers have one home each. Tables with keys of files hash as nobody foresees.
set -u
cd "$1" || exit 1
bad=0
allowed() { # allowed FROM TO
  case "$1" in
    sim/base) [[ $2 == sim/base ]] ;;
    models/*) [[ $2 == sim/base || $2 == models/* ]] ;;
    sim/trace) [[ $2 == sim/base || $2 == sim/trace ]] ;;
    sim/program) [[ $2 == sim/base || $2 == sim/trace || $2 == models/* || $2 == sim/program ]] ;;
    sim/import) [[ $2 == sim/base || $2 == sim/trace || $2 == models/* || $2 == sim/program || $2 == sim/import ]] ;;
    sim/pass) [[ $2 == sim/base || $2 == sim/trace || $2 == models/* || $2 == sim/program || $2 == sim/pass ]] ;;
    sim/replay) [[ $2 == sim/base || $2 == sim/trace || $2 == models/* || $2 == sim/program || $2 == sim/replay ]] ;;
    sim/report) [[ $2 == sim/base || $2 == sim/trace || $2 == models/* || $2 == sim/program || $2 == sim/replay || $2 == sim/report ]] ;;
    sim/experiment) [[ $2 != sim/cli ]] ;;
    sim/cli) true ;;
    *) false ;;
  esac
}
while IFS=: read -r file include; do
  from=${file%/*}; to=${include%/*}
  allowed "$from" "$to" || { echo "$file includes $include: against the layer rule"; bad=1; }
done < <(grep -rHoE '#include "(sim|models)/[^"]+"' sim models --include='*.[ch]' | sed -E 's/#include "([^"]+)"/\1/')
home() { # home HEADER FILE...: who includes it, none else; without files nobody, what is needed of it being declared by us
  local header=$1 file; shift
  while read -r file; do
    [[ " $* " == *" $file "* ]] || { echo "$file includes $header: its home is ${*:-nowhere}"; bad=1; }
  done < <(grep -rlE "#include <$header" sim models --include='*.[ch]')
  for file; do
    grep -qsE "#include <$header" "$file" || { echo "$file does not include $header, but is said to be its home"; bad=1; }
  done
}
home 'simgrid/' sim/replay/simgrid.c
home 'libfyaml' sim/base/yaml.c
home 'sqlite3' sim/import/sqlite.c
home 'zlib' sim/import/import.c sim/report/report.c
home 'cu(da|pti|blas)'
while read -r line; do
  echo "$line: whoever writes the file can have all keys meet; expected a hash of sim/base/hash.h"
  bad=1
done < <(grep -rnE 'g_hash_table_new(_full)?\(g_(str|int64|bytes)_hash' sim/base sim/trace sim/program sim/import models --include='*.[ch]')
exit $bad
