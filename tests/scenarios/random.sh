#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# random.sh FIRST LAST SECONDS [OPTION...]: makes a scenario up from each of these seeds and plays it; OPTION as those of
# `actor-rdma-drill run` (--real, --jobs N). A scenario that fails is kept, and named in the message that tells how to repeat it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
first="$1"
last="$2"
seconds="$3"
shift 3
drill="${ACTOR_RDMA_DRILL:-build/release/bin/actor-rdma-drill}"
wishes=()
for option in "$@"; do
  [ "$option" != --real ] || wishes=(--real)
done
place="${TMPDIR:-/tmp}/actor-rdma-random-$$"
mkdir "$place"
files=()
for ((seed = first; seed <= last; seed++)); do
  "$drill" random --seed "$seed" --seconds "$seconds" "${wishes[@]}" > "$place/$seed.json"
  files+=("$place/$seed.json")
done
if [ "${#files[@]}" -eq 0 ]; then
  echo "random.sh: no seed lies from $first to $last" >&2
  exit 2
fi
status=0
"$drill" run "$@" "${files[@]}" || status=$?
[ "$status" -ne 0 ] || rm -r "$place"
exit "$status"
