#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# soft-nic exec: the files around the devices, the exit status, signals.
#
#   exec.sh root|user
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need ibv_devinfo ib_write_bw realpath
choose_setting "$1" path
cp "$SOFT_LIB/libsoftfiles.so" "$work/lib/softverbs/"
chmod a+r "$work/lib/softverbs/libsoftfiles.so"
mkdir -m 1777 "$work/tmp"

on_nic() { "${as[@]}" env "TMPDIR=$work/tmp" timeout 60 "$work/bin/soft-nic" exec --fabric "$fabric" "$@"; }

cat > "$work/look.sh" << 'LOOK'
set -eu
ibv_devinfo -d soft1 > /dev/null
test -d /sys/class/net/lo
for i in 0 1; do
  function="$(realpath "/sys/class/infiniband/soft$i/../..")"
  test "$(basename "$function")" = "0000:f5:0$i.0"
  test "$(cat "$function/numa_node")" = 0
  test "$(cat "/sys/class/infiniband/soft$i/device/numa_node")" = 0
  test "$(cat "/sys/class/infiniband_verbs/uverbs$i/ibdev")" = "soft$i"
  test -r "/dev/infiniband/uverbs$i" -a -w "/dev/infiniband/uverbs$i"
  test "$(stat -L -c %F "/dev/infiniband/uverbs$i")" = "character special file"
  echo nothing > "/dev/infiniband/uverbs$i"
done
test "$(ls /sys/class/infiniband | wc -l)" -eq 2
test -z "$(ls -l /sys/class/infiniband/ /sys/class/infiniband/soft0/ /dev/infiniband 2>&1 > "${TMPDIR:-/tmp}/listed")"
test "$(grep -c '^[lcd-]' "${TMPDIR:-/tmp}/listed")" -ge 8
echo seen
LOOK
chmod a+r "$work/look.sh"
on_nic --devices 2 -- bash "$work/look.sh" > "$work/out" 2>&1 || true
expect '^seen$' "$work/out" "files around the devices"
/usr/bin/env python3 -c '' 2> /dev/null && {
  on_nic -- python3 -c 'import os; print(os.path.realpath("/sys/class/infiniband/soft0/../.."), os.listdir("/dev/infiniband"))' \
    > "$work/out"
  expect "0000:f5:00.0 \['uverbs0'\]" "$work/out" "files as Python sees them"
}
on_nic --devices 2 --link-layer ethernet,infiniband -- sh -c \
  'cat /sys/class/infiniband/soft0/ports/1/link_layer /sys/class/infiniband/soft1/ports/1/link_layer; ibv_devinfo -v -d soft1' > "$work/out" 2>&1 || true
expect '^Ethernet$' "$work/out" "the link layer of a RoCE device"
expect '^InfiniBand$' "$work/out" "the link layer of an InfiniBand device"
expect 'link_layer:.*InfiniBand' "$work/out" "its port"
expect 'port_lid:.*[1-9]' "$work/out" "its LID"
expect 'sm_lid:.*1$' "$work/out" "the LID of its subnet manager"
expect 'GID\[  0\]:.*fe80:' "$work/out" "its GID"
status=0
on_nic --link-layer ib -- true 2> "$work/err" || status=$?
[ "$status" -eq 2 ] || fail "an unknown link layer gave $status"
expect 'ACTOR_RDMA_SOFT_LINK_LAYER="ib" is not ethernet or infiniband' "$work/err" "an unknown link layer"
[ -e /sys/class/infiniband/soft0 ] && fail "the files are visible outside"

status=0
on_nic -- sh -c 'exit 42' || status=$?
[ "$status" -eq 42 ] || fail "exit status 42 became $status"
status=0
on_nic -- /nonexistent 2> "$work/err" || status=$?
[ "$status" -eq 127 ] || fail "a program that does not exist gave $status"
expect '/nonexistent: No such file' "$work/err" "a program that does not exist"
status=0
on_nic --devices 99 -- true 2> "$work/err" || status=$?
[ "$status" -eq 2 ] || fail "99 devices gave $status"
expect 'ACTOR_RDMA_SOFT_DEVICES="99" is not a number of devices from 0 to 16' "$work/err" "99 devices"

# It is the program itself that a signal reaches.
"${as[@]}" env "TMPDIR=$work/tmp" "$work/bin/soft-nic" exec --fabric "$fabric" -- \
  bash -c 'trap "exit 9" USR1; echo ready; while :; do sleep 0.05; done' > "$work/out" &
program=$!
children+=("$program")
for ((i = 0; i < 200; i++)); do
  ! grep -q ready "$work/out" || break
  sleep 0.05
done
kill -USR1 "$program"
status=0
wait "$program" || status=$?
[ "$status" -eq 9 ] || fail "the program's own handler of SIGUSR1 did not run: $status"

# Two programs in views of their own reach each other.
view=(PATH="$PATH" TMPDIR="$work/tmp" "$work/bin/soft-nic" exec --fabric "$fabric" --devices 2 --)
pair "ib_write_bw between two of them" ib_write_bw -d soft1 -F -p PORT -n 200 -s 65536
view=(PATH="$PATH" TMPDIR="$work/tmp" "$work/bin/soft-nic" exec --fabric "$fabric" --link-layer infiniband --)
pair "ib_write_bw over InfiniBand, by LID" ib_write_bw -d soft0 -F -p PORT -n 200 -s 65536
finish
