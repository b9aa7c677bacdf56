#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 2 --program actor-rdma-bench
# timeout: 300
#
# One of two ports is taken down 15 times under work, by a transport that is patient: 0.5 s of silence before it suspects, 0.5 s until the
# device itself gives up. On kernel 6.1 work hangs for ever in some of the trials, with no completion: its queue pairs are given up for
# their silence. Each time the rail is back within 3 s of the link.
. /guest/checks.sh

flaps() {
  rm -f /tmp/told
  actor-rdma-bench loopback --fabric verbs --retry-count 6 --qp-timeout 17 --stall-floor 500ms --devices "$(devices_of a)" \
    --target-devices "$(devices_of b)" --size 16K --batch 4 --depth 2 --range 2M --verify --notices --pause 10ms \
    --seconds 70 --log debug > /tmp/result 2>> /tmp/told &
  bench=$!
  is_under_way "$bench" /tmp/told
  back=0
  trials=0
  while :; do
    echo "down $trials" >> /tmp/told
    /sbin/ip link set n0 down
    sleep 1
    echo "up $trials" >> /tmp/told
    /sbin/ip link set n0 up
    sleep 3
    is_running "$bench" || break # the last one was not over
    sed "1,/^up $trials\$/d" /tmp/told | grep -q '/rxe0>target/rxe1#[01]: .* -> ACTIVE' && back=$((back + 1))
    trials=$((trials + 1))
  done
  status=0
  wait "$bench" || status=$?
  tail -n 40 /tmp/told
  cat /tmp/result
  echo "health: back within 3 s in $back of $trials trials; why queue pairs of the rail were given up:"
  sed -n 's/.*rxe0>target\/rxe1#[01]: [A-Z]* -> DRAINING (\(.*\)).*/\1/p' /tmp/told | sort | uniq -c | sed 's/^ */health: /'
  [ "$status" -eq 0 ] && [ "$trials" -ge 5 ] && [ "$back" -eq "$trials" ]
}

check "a port that is taken down again and again costs no transfer and no byte, and its rail is back within 3 s each time" flaps
finish
