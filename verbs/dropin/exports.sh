#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Reads what a libibverbs exports and writes the version script of ours (exports.map) and a stub for each of its
# symbols (stubs.cpp). The stubs are weak: what is written by hand wins at link time, so there is no list to keep.
#
#   exports.sh LIBIBVERBS_SO OUTPUT_DIRECTORY
set -euo pipefail
export LC_ALL=C
library="$1"
out="$2"
# The node of the functions between the library and its providers is renamed when they change. Programs that were
# linked against another release refer to it through their provider libraries, and do not load without it.
private_nodes=(34 57 59 64 65)
# Of that node, what is written by hand gives itself the other names (system_files.cpp).
by_hand=' ibv_query_gid_type ibv_read_ibdev_sysfs_file '

mkdir -p "$out"
# name, node, type; only default versions. The second versions of the 2006 interface are not provided.
symbols="$(readelf --dyn-syms --wide "$library" |
  awk '$7 != "UND" && $8 ~ /@@IBVERBS_/ { split($8, part, "@@"); print part[1], part[2], $4, $3 }' | sort -u)"
count="$(wc -l <<< "$symbols")"
if [ "$count" -lt 140 ]; then
  echo "exports.sh: $library exports only $count symbols of libibverbs: which library is this?" >&2
  exit 1
fi
own_private="$(awk '$2 ~ /^IBVERBS_PRIVATE_/ { sub(/.*_/, "", $2); print $2; exit }' <<< "$symbols")"

{
  previous=""
  while read -r node; do
    echo "$node {"
    echo "  global:"
    awk -v node="$node" '$2 == node { print "    " $1 ";" }' <<< "$symbols"
    [ -n "$previous" ] || printf '  local:\n    *;\n'
    echo "}$previous;"
    previous=" $node"
  done < <(awk '{ print $2 }' <<< "$symbols" | sort -u -V)
  for number in "${private_nodes[@]}"; do
    [ "$number" = "$own_private" ] || echo "IBVERBS_PRIVATE_$number { };"
  done
} > "$out/exports.map.new"

{
  cat << HEAD
// SPDX-License-Identifier: Apache-2.0
//
// Made by exports.sh from $library. What is not written by hand answers ENOSYS, or NULL with errno ENOSYS.
#include <cerrno>

#define STUB __attribute__((weak, used))

extern "C" {
HEAD
  awk '
    $3 == "OBJECT" { print "STUB char " $1 "[" ($4 > 0 ? $4 : 1) "] = {};"; next }
    # The result type is not in the symbol. Those that give an object have names that say so.
    $1 ~ /^(ibv_cmd_|execute_ioctl)/ || ($1 ~ /^ibv_/ && $1 !~ /_(alloc|create|open|import|reg|get)_/) {
      print "STUB int " $1 "() { return ENOSYS; }"
      next
    }
    { print "STUB void* " $1 "() { errno = ENOSYS; return nullptr; }" }
  ' <<< "$symbols"
  echo '} // extern "C"'
  for number in "${private_nodes[@]}"; do
    [ "$number" != "$own_private" ] || continue
    while read -r name node _; do
      [[ "$node" == IBVERBS_PRIVATE_* && "$by_hand" != *" $name "* ]] || continue
      echo "__asm__(\".globl soft_${number}_$name\\n.set soft_${number}_$name, $name\\n\""
      echo "        \".symver soft_${number}_$name, $name@IBVERBS_PRIVATE_$number\");"
    done <<< "$symbols"
  done
} > "$out/stubs.cpp.new"

for file in exports.map stubs.cpp; do
  if cmp -s "$out/$file.new" "$out/$file"; then rm "$out/$file.new"; else mv "$out/$file.new" "$out/$file"; fi
done
