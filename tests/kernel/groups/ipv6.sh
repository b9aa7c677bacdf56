#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --family 6 --program actor-rdma-bench
#
# Devices that have no IPv4 address: their only routable GIDs are IPv6.
. /guest/checks.sh
a="$(devices_of a)"
b="$(devices_of b)"

transfers() {
  actor-rdma-bench loopback $nic --devices "$a" --target-devices "$b" --size 64K --batch 4 --depth 2 --range 4M --verify \
    --batches 30 --log info "$@" && grep -q 'address chosen: GID [0-9]* fd07::' /tmp/check.log
}

check "WRITEs between IPv6 addresses are right, and each notice comes once and behind its data" transfers --notices
check "READs between IPv6 addresses are right" transfers --op read
finish
