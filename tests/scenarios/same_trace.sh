#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# same_trace.sh [FILE...]: plays every scenario, or those that are named, twice with one seed, in processes of their own, and
# compares the fingerprints: every choice and every line of the trace goes into them. What differs between processes, such as an
# address in memory, must not stand in a trace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
drill="${ACTOR_RDMA_DRILL:-build/release/bin/actor-rdma-drill}"
files=("$@")
[ "${#files[@]}" -gt 0 ] || files=(tests/scenarios/*.json)
prints() {
  "$drill" run --seed 1 --json "${files[@]}" | sed -E 's/^\{"file":"([^"]*)".*"fingerprint":"([0-9a-f]+)".*/\1 \2/' | sort
}
first="$(prints)"
second="$(prints)"
if [ "$(wc -l <<< "$first")" -ne "${#files[@]}" ]; then
  echo "same_trace.sh: ${#files[@]} files, and fingerprints of $(wc -l <<< "$first")" >&2
  exit 2
fi
diff <(echo "$first") <(echo "$second") || {
  echo "the lines above differ between two runs with one seed" >&2
  exit 1
}
echo "${#files[@]} scenarios: the same twice"
