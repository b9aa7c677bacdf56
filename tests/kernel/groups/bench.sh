#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape veth --program actor-rdma-bench
# part of: test
#
# Every byte of WRITEs and READs, and notices behind them, between two devices: in one process, and between two.
. /guest/checks.sh
a="$(devices_of a)"
b="$(devices_of b)"
work="--size 64K --batch 4 --depth 2 --range 4M --verify"

loopback() {
  actor-rdma-bench loopback $nic --devices "$a" --target-devices "$b" --range 4M --verify "$@"
}

between_processes() {
  actor-rdma-bench target $nic --devices "$b" --range 4M > /tmp/target 2>&1 &
  target=$!
  until grep -q '^listening on ' /tmp/target; do
    is_running "$target" || return 3
    sleep 0.2
  done
  status=0
  actor-rdma-bench initiator $nic --devices "$a" $work --connect "$(sed -n 's/^listening on //p' /tmp/target)" "$@" || status=1
  kill -TERM "$target"
  wait "$target" || status=2
  cat /tmp/target
  return "$status"
}

check "WRITEs between two devices are right, and each notice comes once and behind its data" \
  loopback --size 64K --batch 4 --depth 2 --notices --batches 40
check "READs between two devices are right" loopback --op read --size 64K --batch 4 --depth 2 --batches 40
check "one WRITE of several slices is right" loopback --size 1000003 --batch 1 --depth 2 --batches 8
check "WRITEs between two processes are right, and each notice comes once and behind its data" \
  between_processes --notices --batches 30
check "READs between two processes are right" between_processes --op read --batches 30
finish
