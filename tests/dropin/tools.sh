#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Unmodified programs of the distribution on the drop-in library.
#
#   tools.sh root|user path|preload
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need ibv_devices ibv_devinfo ibv_asyncwatch ibv_rc_pingpong ibv_srq_pingpong
need ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat
choose_setting "$1" "$2"

soft ACTOR_RDMA_SOFT_DEVICES=2 ibv_devices > "$work/out"
expect '^ +soft0[[:space:]]+[0-9a-f]{16}$' "$work/out" "ibv_devices"
expect '^ +soft1[[:space:]]+[0-9a-f]{16}$' "$work/out" "ibv_devices"

soft ACTOR_RDMA_SOFT_DEVICES=2 ibv_devinfo -v > "$work/out"
for line in 'hca_id:.*soft1' 'fw_ver:.*soft-1' 'board_id:.*ACTOR_RDMA_SOFT' 'state:.*PORT_ACTIVE' 'link_layer:.*Ethernet' \
  'GID\[ *3\]:.*RoCE v2' 'phys_state:.*LINK_UP'; do
  expect "$line" "$work/out" "ibv_devinfo -v"
done

# A wrong value is named, once, and then there are no devices.
soft ACTOR_RDMA_SOFT_DEVICES=many ibv_devices > "$work/out" 2> "$work/err"
expect 'ACTOR_RDMA_SOFT_DEVICES="many" is not a number of devices from 0 to 16' "$work/err" "a wrong number of devices"
[ "$(wc -l < "$work/err")" -eq 1 ] || fail "the refusal is said more than once"
! grep -q soft0 "$work/out" || fail "there are devices in spite of a wrong environment"

# ibv_asyncwatch sees what is done to the port from outside.
soft_exec ACTOR_RDMA_SOFT_HOST=watcher stdbuf -oL ibv_asyncwatch -d soft0 > "$work/out" 2>&1 &
watcher=$!
children+=("$watcher")
for ((i = 0; i < 200; i++)); do
  ! grep -q "async event FD" "$work/out" || break
  sleep 0.05
done
"${as[@]}" "$work/bin/soft-nic" --fabric "$fabric" link watcher/soft0 down
"${as[@]}" "$work/bin/soft-nic" --fabric "$fabric" link watcher/soft0 up
for ((i = 0; i < 200; i++)); do
  ! grep -q PORT_ACTIVE "$work/out" || break
  sleep 0.05
done
expect 'PORT_ERR' "$work/out" "ibv_asyncwatch"
expect 'PORT_ACTIVE' "$work/out" "ibv_asyncwatch"
kill "$watcher"
wait "$watcher" || true

common=(-d soft0 -F -p PORT)
for old in "" "--use_old_post_send"; do
  pair "ib_write_bw $old" ib_write_bw "${common[@]}" -n 500 -s 65536 $old
  expect '^ 65536 +500 ' "$work/client" "ib_write_bw"
  pair "ib_read_bw $old" ib_read_bw "${common[@]}" -n 500 -s 65536 $old
  expect '^ 65536 +500 ' "$work/client" "ib_read_bw"
  pair "ib_write_lat $old" ib_write_lat "${common[@]}" -n 200 -s 8 $old
  expect '^ 8 +200 ' "$work/client" "ib_write_lat"
  pair "ib_read_lat $old" ib_read_lat "${common[@]}" -n 200 -s 8 $old
  expect '^ 8 +200 ' "$work/client" "ib_read_lat"
done
for old in "" "--use_old_post_send"; do
  pair "ib_send_bw $old" ib_send_bw "${common[@]}" -n 500 -s 65536 $old
  expect '^ 65536 +500 ' "$work/client" "ib_send_bw"
  pair "ib_send_lat $old" ib_send_lat "${common[@]}" -n 200 -s 8 $old
  expect '^ 8 +200 ' "$work/client" "ib_send_lat"
  pair "ib_send_bw -e $old" ib_send_bw "${common[@]}" -n 200 -e $old
done
pair "ib_send_bw --use-srq" ib_send_bw "${common[@]}" -n 200 --use-srq
# RoCE has no addresses but GIDs: one has to be named.
pair "ibv_rc_pingpong" ibv_rc_pingpong -d soft0 -g 1 -n 200 -c -p PORT
expect 'iters in' "$work/client" "ibv_rc_pingpong"
pair "ibv_rc_pingpong -e" ibv_rc_pingpong -d soft0 -g 1 -n 200 -e -c -p PORT
pair "ibv_rc_pingpong -N" ibv_rc_pingpong -d soft0 -g 1 -n 200 -N -c -p PORT
pair "ibv_srq_pingpong" ibv_srq_pingpong -d soft0 -g 1 -n 200 -c -q 4 -p PORT
expect 'iters in' "$work/client" "ibv_srq_pingpong"
pair "ib_read_bw -e" ib_read_bw "${common[@]}" -n 200 -e
pair "ib_write_bw -q 4 -b" ib_write_bw "${common[@]}" -n 200 -q 4 -b
finish
