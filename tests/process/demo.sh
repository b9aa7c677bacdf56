#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A transfer between two processes that survives a NIC which swallows work in silence and then loses its link. Exits
# with 0 only if every byte was right, no transfer failed and the broken rail came back.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

bench="${ACTOR_RDMA_BIN:-build/release/bin}/actor-rdma-bench"
work="$(mktemp -d)"
export ACTOR_RDMA_SOFT_FABRIC="demo-$$"
nics=(--nics 2 --nic-mode paced --rate 1 --latency 20us --range 128M)
target=
initiator=
end_of() { # PID: in good order, so that a fabric which it is the last to use is removed
  [ -n "$1" ] && kill -TERM "$1" 2> /dev/null || return 0
  for ((i = 0; i < 100; i++)); do
    kill -0 "$1" 2> /dev/null || return 0
    sleep 0.05
  done
  kill -9 "$1" 2> /dev/null || true
}
cleanup() {
  end_of "$initiator"
  end_of "$target"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' INT TERM

fail() {
  echo "demo: $*" >&2
  exit 1
}

cat << 'TEXT'
Two processes, a target and an initiator, with two software NICs each (1 Gbit/s per NIC). The initiator writes batches
of 64 KiB transfers into the target's memory and reads every byte back to check it. In the middle soft0, one of its
two NICs, goes wrong:
    3 s  it swallows every work request: no completion, no error, no event,
    5 s  its link goes down as well,
    6 s  the link comes back, but work requests still vanish,
    7 s  the NIC is healthy again.
One line per second: what was completed and checked. A line that begins with a date is the transport's own log, as the
person on call would read it: "attempt failed" is a rail that was tried again while the NIC still swallowed everything,
which goes on, ever more rarely, until one attempt succeeds.

TEXT

"$bench" target --listen 127.0.0.1:0 "${nics[@]}" > "$work/target" &
target=$!
for ((i = 0; i < 200; i++)); do
  grep -qs '^listening on ' "$work/target" && break # not there before its process is
  kill -0 "$target" 2> /dev/null || fail "the target did not start"
  sleep 0.05
done
address="$(sed -n 's/^listening on //p' "$work/target")"
[ -n "$address" ] || fail "the target does not listen"

status=0
timeout -k 5 40 "$bench" initiator --connect "$address" "${nics[@]}" --batch 16 --verify --seconds 12 \
  --fault "hang:soft0@3s,down:soft0@5s,up:soft0@6s,heal:soft0@7s" > "$work/initiator" &
initiator=$!
wait "$initiator" || status=$?
initiator=
echo
cat "$work/initiator"
[ "$status" -eq 0 ] || fail "the initiator ended with status $status"
grep -q '^content .* 0 wrong$' "$work/initiator" || fail "the content was not checked"
grep -q 'first slice posted again, on initiator/soft1' "$work/initiator" || fail "no slice was issued again"
grep -q 'back at full rate' "$work/initiator" || fail "the rate did not come back"

kill -TERM "$target"
status=0
wait "$target" || status=$?
target=
[ "$status" -eq 0 ] || fail "the target ended with status $status"
echo
echo "No transfer failed, every byte is right, and the broken NIC carries traffic again."
