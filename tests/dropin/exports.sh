#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The drop-in library exports what the distribution's does, under the same versions, and nothing else.
#
#   exports.sh SYSTEM_LIBRARY
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need readelf
ours="$SOFT_LIB/libibverbs.so.1"

exported() { readelf --dyn-syms --wide "$1" | awk '$7 != "UND" && $8 ~ /@@/ { print $8 }' | sort -u; }

diff <(exported "$1" | grep IBVERBS) <(exported "$ours") > "$work/diff" || {
  fail "exports differ ('<': missing in ours)"
  cat "$work/diff" >&2
}
readelf --dyn-syms --wide "$ours" | awk '{ print $8 }' > "$work/symbols"
for number in 34 57 59 64 65; do
  for name in ibv_cmd_create_qp ibv_query_gid_type verbs_register_driver_34; do
    grep -qE "^$name@@?IBVERBS_PRIVATE_$number\$" "$work/symbols" || fail "no $name in IBVERBS_PRIVATE_$number"
  done
done
readelf --dynamic --wide "$ours" > "$work/dynamic"
expect 'SONAME.*\[libibverbs.so.1\]' "$work/dynamic" "soname"
expect 'NODELETE' "$work/dynamic" "flags"
! grep -E 'NEEDED.*(stdc|fmt|spdlog|gcc)' "$work/dynamic" || fail "it needs libraries that a container may not have"
finish
