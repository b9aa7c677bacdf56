#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A program whose output could not be written does not say that all is well: who reads it would take nothing for good news.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

bin="${ACTOR_RDMA_BIN:-build/release/bin}"
failed=0
expect() { # STATUS PROGRAM ARGUMENT...: ends so with its output on a full device, and says why
  local wanted="$1" status=0 said
  shift
  said="$("$bin/$1" "${@:2}" 2>&1 > /dev/full)" || status=$?
  if [ "$status" -ne "$wanted" ] || [[ "$said" != *"could not be written"* ]]; then
    echo "$*: exit status $status, and it said: $said; wanted $wanted" >&2
    failed=1
  fi
}
expect 4 actor-rdma-drill explain tests/scenarios/link-flap.json
expect 4 actor-rdma-drill run tests/scenarios/link-flap.json --seed 1 --json
expect 1 actor-rdma-bench loopback --seconds 0.1
expect 1 soft-nic --help
"$bin/actor-rdma-drill" explain tests/scenarios/link-flap.json > /dev/null
exit "$failed"
