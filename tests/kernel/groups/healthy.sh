#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 2 --program actor-rdma-bench
# seconds: 20
#
# Traffic on a machine that is slow and stalls, but where nothing is broken, with the transport's own time limits: no queue pair is
# given up. Its argument is how long, in seconds.
. /guest/checks.sh
seconds="$1"

traffic() {
  actor-rdma-bench loopback $nic --devices "$(devices_of a)" --target-devices "$(devices_of b)" --size 16K --batch 4 --depth 2 \
    --range 2M --verify --notices --pause 20ms --seconds "$seconds" || return 1
  grep -q ', 0 QPs fenced, 0 rebuilt, 0 peers and 0 devices lost' /tmp/check.log
}

check "$seconds s of traffic on a slow machine, and no queue pair was given up" traffic
finish
