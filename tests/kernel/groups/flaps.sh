#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 2 --program actor-rdma-bench
# timeout: 400
#
# One of two ports is taken down 15 times under work, by a transport that is patient: 0.5 s of silence before it suspects, 0.5 s until the
# device itself gives up. On kernel 6.1 work hangs for ever in some of the trials, with no completion: its queue pairs are given up for
# their silence. Each time the rail is back within 3 s of the link.
. /guest/checks.sh
trials=15

flaps() {
  rm -f /tmp/told
  actor-rdma-bench loopback --fabric verbs --retry-count 6 --qp-timeout 17 --stall-floor 500ms --devices "$(devices_of a)" \
    --target-devices "$(devices_of b)" --size 16K --batch 4 --depth 2 --range 2M --verify --notices --pause 10ms \
    --seconds $((trials * 12)) --log debug > /tmp/result 2>> /tmp/told &
  bench=$!
  sleep 2
  back=0
  for trial in $(seq "$trials"); do
    echo "down $trial" >> /tmp/told
    /sbin/ip link set n0 down
    sleep 1
    echo "up $trial" >> /tmp/told
    /sbin/ip link set n0 up
    sleep 3
    sed "1,/^up $trial\$/d" /tmp/told | grep -q '/rxe0>target/rxe1#[01]: .* -> ACTIVE' && back=$((back + 1))
  done
  status=0
  kill -INT "$bench" # what is open ends in good order
  wait "$bench" || status=$?
  tail -n 40 /tmp/told
  cat /tmp/result
  echo "health: back within 3 s in $back of $trials trials; why queue pairs of the rail were given up:"
  sed -n 's/.*rxe0>target\/rxe1#[01]: [A-Z]* -> DRAINING (\(.*\)).*/\1/p' /tmp/told | sort | uniq -c | sed 's/^ */health: /'
  [ "$status" -eq 0 ] && [ "$back" -eq "$trials" ]
}

check "a port that is taken down again and again costs no transfer and no byte, and its rail is back within 3 s each time" flaps
finish
