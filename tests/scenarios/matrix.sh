#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# matrix.sh RUNS TRIALS OUTPUT: writes the fault matrix, from RUNS runs of each of the files matrix-*.json in virtual time
# and TRIALS in real time. The output is written only if all runs were well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
runs="$1"
trials="$2"
output="$3"
files=(tests/scenarios/matrix-{port-event,silent-hang,network-loss,one-way-loss,lost-ack,peer-killed,peer-frozen,gid-change,device-removed}.json)
drill=build/release/bin/actor-rdma-drill
new="$(mktemp)"
trap 'rm -f "$new"' EXIT

{
  cat << 'TEXT'
# Fault matrix

How long it takes to get over a fault: two hosts with two rails of 0.5 Gbit/s each, which one of them writes full. Each cell is
p50 / p99 / greatest, in ms, counted from the moment of the fault (the last column: from its end). What the columns mean exactly
is in [scenarios.md](scenarios.md) ("Times of recovery"); the faults are in `tests/scenarios/matrix-*.json`, which also bound the
times in virtual time, in every run of the tests. *failed* counts runs in which any check failed.

A peer that is stopped is no fault of the data path: its devices go on. `-` means that there is nothing to measure.
TEXT
  # shellcheck disable=SC2016 # backquotes of Markdown
  printf '\nMade by `./run matrix --runs %s --trials %s` on %s, %s cores (%s), Linux %s.\n' "$runs" "$trials" \
    "$(date -u +%Y-%m-%d)" "$(nproc)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r)"
} > "$new"

measured() { # TITLE ARGUMENT...
  printf '\n## %s\n\n' "$1" >> "$new"
  shift
  "$drill" measure "$@" "${files[@]}" | tee -a "$new"
}

measured "In virtual time" --runs "$runs"
measured "In real time" --real --runs "$trials"
cp "$new" "$output"
echo "written: $output"
