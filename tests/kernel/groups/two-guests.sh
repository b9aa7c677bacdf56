#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape pair --devices 2 --program actor-rdma-bench
#
# Two hosts that share nothing, each a guest of its own, with two cables between them: transfers, and a cable that is pulled at either
# end. No transfer fails, no byte is wrong, and the rail comes back.
. /guest/checks.sh
mine="$(devices_of "$GUEST_HOST")"
target=10.8.0.2:7000
orders=7001

# b serves, and pulls its own cable when a says so.
if [ "$GUEST_HOST" = b ]; then
  actor-rdma-bench target $nic --devices "$mine" --range 2M --listen "$target" > /tmp/target 2>&1 &
  serving=$!
  until grep -q '^listening on ' /tmp/target; do
    is_running "$serving" || exit 1
    sleep 0.2
  done
  while order="$(nc -l -p "$orders")"; do
    case "$order" in
      off | on) echo "host: set_link data0 $order" ;;
      ready) ;; # it is heard at all
      end) break ;;
    esac
  done
  kill -TERM "$serving"
  status=0
  wait "$serving" || status=$?
  sed 's/^/# /' /tmp/target
  exit "$status"
fi

tell_b() {
  tries=0
  until echo "$1" | nc -w 2 10.8.0.2 "$orders" 2> /dev/null; do # it listens anew after each order
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || return 1
    sleep 0.2
  done
}
pull_ours() {
  echo "host: set_link data0 $1" > /dev/console
}

transfers() {
  actor-rdma-bench initiator $nic --devices "$mine" --connect "$target" --connect-timeout 40s --size 16K --batch 4 --depth 2 \
    --range 2M --verify --log debug "$@"
}

survives() { # COMMAND: with "off" it pulls a cable, with "on" it puts it back
  rm -f /tmp/told
  transfers --notices --pause 20ms --seconds 9 > /tmp/result 2>> /tmp/told &
  bench=$!
  is_under_way "$bench" /tmp/told
  echo "fault" >> /tmp/told
  "$1" off
  sleep 2
  echo "heal" >> /tmp/told
  "$1" on
  status=0
  wait "$bench" || status=$?
  cat /tmp/told /tmp/result
  [ "$status" -eq 0 ] || return "$status"
  sed '1,/^fault$/d' /tmp/told | grep -q '/rxe0>.*/rxe1: ACTIVE -> ' || return 50
  sed '1,/^heal$/d' /tmp/told | grep -q '/rxe0>.*/rxe1: REBUILDING -> ACTIVE' || return 51
}

tell_b ready
check "WRITEs to another guest are right, and each notice comes" transfers --notices --batches 60
check "READs from another guest are right" transfers --op read --batches 60
check "a rail whose cable is pulled here and put back comes back" survives pull_ours
check "a rail whose cable is pulled at the other guest and put back comes back" survives tell_b
tell_b end

finish
