#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 2 --program actor-rdma-bench
#
# Two rails, of which one fails while WRITEs go on: no transfer fails, no byte is wrong, and the rail comes back.
. /guest/checks.sh
a="$(devices_of a)"
b="$(devices_of b)"

# FAULT HEAL: what the fault does is a command, as is its end.
survives() {
  fault="$1"
  heal="$2"
  rm -f /tmp/told
  actor-rdma-bench loopback $nic --devices "$a" --target-devices "$b" --size 16K --batch 4 --depth 2 --range 2M --verify \
    --notices --pause 20ms --seconds 9 --log debug > /tmp/result 2>> /tmp/told &
  bench=$!
  is_under_way "$bench" /tmp/told
  echo "fault: $fault" >> /tmp/told
  $fault
  sleep 1.5
  echo "heal: $heal" >> /tmp/told
  $heal
  status=0
  wait "$bench" || status=$?
  cat /tmp/told /tmp/result
  [ "$status" -eq 0 ] || return "$status"
  # The rail carries again, and it did not before: the endpoint of device 0 went and came back.
  sed '1,/^fault:/d' /tmp/told | grep -q '/rxe0>target/rxe1: ACTIVE -> ' || return 50
  sed '1,/^heal:/d' /tmp/told | grep -q '/rxe0>target/rxe1: REBUILDING -> ACTIVE' || return 51
}

healthy() {
  actor-rdma-bench loopback $nic --devices "$a" --target-devices "$b" --size 16K --batch 8 --depth 2 --range 2M --verify \
    --notices --batches 40 --log info
}

ip=/sbin/ip
check "WRITEs over two rails are right" healthy
check "a rail whose own cable is cut and mended comes back" survives "$ip link set sw0 down" "$ip link set sw0 up"
check "a rail whose peer's cable is cut and mended comes back" survives "$ip link set sw1 down" "$ip link set sw1 up"
check "a rail whose own port is taken down and up comes back" survives "$ip link set n0 down" "$ip link set n0 up"
finish
