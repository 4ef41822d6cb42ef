#!/usr/bin/env bash
# Our declarations of PJRT against pjrt_c_api.h: every field of every argument lies where the header has it, and so does every function in the table. The header in
# ECHELON_PJRT_HEADER, or of a tensorflow that python3 has (version 0.104 was compared). Skipped without one.
set -u
cd "$1" || exit 1
header=${ECHELON_PJRT_HEADER:-$(python3 -c 'import importlib.util, os; spec = importlib.util.find_spec("tensorflow"); print(os.path.join(os.path.dirname(spec.origin), "include/xla/pjrt/c/pjrt_c_api.h") if spec else "")' 2>/dev/null)}
[ -f "$header" ] || { echo "no pjrt_c_api.h here"; exit 77; }
ours=traces/capture/pjrt/pjrt_abi.h
minor=$(sed -n 's/^#define PJRT_API_MINOR \([0-9]*\)$/\1/p' "$header") own=$(sed -n 's/.*PJRT_MINOR = \([0-9]*\).*/\1/p' $ours)
[ "${minor:-0}" -ge "$own" ] || { echo "$header is of PJRT 0.$minor; compared are 0.$own and later"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# "STRUCT FIELD" for each argument of a call; extensions have headers of their own.
tr '\n' ' ' <$ours | grep -oE 'PJRT_CALL\([A-Z][A-Za-z_]*, [^#]*\)' | sed 's/PJRT_CALL(/\n/g' | grep -vE '^(NAME|Layouts_|RawBuffer_)' | sed -n 's/^\([A-Za-z_]*\), */\1|/p' |
  while IFS='|' read -r name fields; do
    sed 's/);.*//; s/;/\n/g' <<<"$fields" | sed -E 's/\)\(void \*\)?$//; s/\[[0-9]*\]$//' | grep -oE '[A-Za-z_0-9]+ *$' | while read -r field; do echo "PJRT_${name}_Args $field"; done
  done >"$work/fields"
sed -n 's/^PJRT_[A-Z]*(\([A-Za-z_]*\))$/\1/p' traces/capture/pjrt/pjrt_table.def >"$work/slots"
[ "$(wc -l <"$work/fields")" -gt 300 ] && [ "$(wc -l <"$work/slots")" -gt 100 ] || { echo "the table of $ours could not be read"; exit 1; }
program() { # HEADER PREFIX_OF_SLOTS TYPE_OF_LAYOUT
  echo "#include <stdio.h>
#include <stddef.h>
#include \"$1\"
int main(void) {"
  while read -r type field; do echo "printf(\"$type.$field %zu\\n\", offsetof($type, $field));"; done <"$work/fields"
  while read -r slot; do echo "printf(\"$slot %zu\\n\", offsetof(PJRT_Api, $2$slot));"; done <"$work/slots"
  for field in tiled strides type; do echo "printf(\"layout.$field %zu\\n\", offsetof($3, $field));"; done
  for field in type int64_value value_size; do echo "printf(\"value.$field %zu\\n\", offsetof(PJRT_NamedValue, $field));"; done
  for field in launch_id num_non_donatable_input_indices call_location; do echo "printf(\"options.$field %zu\\n\", offsetof(PJRT_ExecuteOptions, $field));"; done
  echo "return 0; }"
}
program "$PWD/$ours" "" PJRT_MemoryLayout >"$work/ours.c"
program "$header" PJRT_ PJRT_Buffer_MemoryLayout >"$work/theirs.c"
for which in ours theirs; do
  gcc -w "$work/$which.c" -o "$work/$which" && "$work/$which" >"$work/$which.txt" || exit 1
done
diff "$work/ours.txt" "$work/theirs.txt" || { echo "differs from $header"; exit 1; }
echo "$(wc -l <"$work/ours.txt") places equal"
