#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Boots a guest with the kernel's RDMA stack, runs a command in it and ends with its status (at most 100). See README.md.
# 75: it cannot be had on this machine. 124: it took too long. 125: the guest died.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() {
  cat << 'TEXT'
run.sh [OPTION...] -- COMMAND [ARGUMENT...]
  --kernel 6.1|6.12               [6.1]
  --shape veth|bridge|bond|none   how hosts a and b are connected, in one guest [veth]
          pair                    a and b are guests of their own, both run the command
  --devices N                     RDMA devices of each host [1]
  --family 4|6|both               their addresses [4]
  --mtu N                         of their interfaces [1500]
  --program FILE                  a program that is taken along, stripped, with its libraries, as /work/bin/NAME
  --file PATH[:NAME]              a file or folder that is taken along as /work/NAME
  --out FOLDER                    the guest's /out
  --timeout SECONDS               of the whole run [120]
  --memory MIB                    [1024]
  --log FILE                      the console, besides standard output
The command runs in /work. /run/devices.json names the devices.
TEXT
}

fail() {
  echo "kernel: $*" >&2
  exit 2
}

kernel=6.1
shape=veth
devices=1
family=4
mtu=1500
timeout=120
memory=1024
out=
log=/dev/null
programs=()
files=()
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
  case "$1" in
    -h | --help)
      usage
      exit 0
      ;;
    --*) [ "$#" -ge 2 ] || fail "$1 needs a value" ;;&
    --kernel) kernel="$2" ;;
    --shape) shape="$2" ;;
    --devices) devices="$2" ;;
    --family) family="$2" ;;
    --mtu) mtu="$2" ;;
    --program) programs+=("$2") ;;
    --file) files+=("$2") ;;
    --out) out="$2" ;;
    --timeout) timeout="$2" ;;
    --memory) memory="$2" ;;
    --log) log="$2" ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift 2
done
[ "$#" -ge 2 ] || fail "there is no command: run.sh [OPTION...] -- COMMAND"
shift

base="$("$here/prepare.sh" --kernel "$kernel")"

work="$(mktemp -d)"
guests=()
cleanup() {
  [ "${#guests[@]}" -eq 0 ] || kill "${guests[@]}" 2> /dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' INT TERM

# -- what the guest gets besides the base
root="$work/root"
mkdir -p "$root/guest" "$root/work/bin"
cp "$here/guest/init" "$root/init"
cp "$here"/guest/*.sh "$root/guest/"
chmod -R a+rx "$root/init" "$root/guest"
for program in "${programs[@]}"; do
  [ -x "$program" ] || fail "there is no program $program"
  strip -o "$root/work/bin/$(basename "$program")" "$program"
done
[ "${#programs[@]}" -eq 0 ] || "$here/libraries.sh" "$root" "${programs[@]}"
for file in "${files[@]}"; do
  path="${file%%:*}"
  name="$(basename "$path")"
  [ "$path" = "$file" ] || name="${file#*:}"
  [ -e "$path" ] || fail "there is no file $path"
  mkdir -p "$root/work/$(dirname "$name")"
  cp -rL "$path" "$root/work/$name"
done
printf 'exec %s\n' "${*@Q}" > "$root/guest/command"
(cd "$root" && find . | sort | grep -vxFf <(grep '\.so' "$base/base.files") | cpio -o -H newc -R 0:0 --quiet) > "$work/payload.cpio"
cat "$base/base.cpio" "$work/payload.cpio" > "$work/initrd"
rm -rf "$root" "$work/payload.cpio"

# -- boot
append="console=ttyS0 panic=-1 quiet tsc=reliable tsc_early_khz=$("$base/tsc_khz") no_timer_check"
append+=" guest.SHAPE=$shape guest.DEVICES=$devices guest.FAMILY=$family guest.MTU=$mtu"
extra=()
if [ -n "$out" ]; then
  mkdir -p "$out"
  append+=" guest.OUT=1"
  extra+=(-fsdev "local,id=out,path=$out,security_model=none" -device "virtio-9p-pci,fsdev=out,mount_tag=out")
fi

# Its console goes to $work/console-HOST.
boot() { # HOST MORE...
  local host="$1"
  shift
  : > "$work/console-$host"
  timeout -k 5 "$timeout" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m "$memory" -nodefaults \
    -display none -no-reboot -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=0x4 \
    -kernel "$base/vmlinux" -initrd "$work/initrd" -append "$append guest.HOST=$host" "${extra[@]}" "$@" \
    < /dev/null > "$work/console-$host" 2>&1 &
  guests+=("$!")
}

# One cable to the other guest: a socket at each end. (QEMU's streams end with the other guest, and QEMU 7.2 with them.)
cable() { # HOST CABLE NUMBER
  local other=b number=1
  [ "$1" = a ] || other=a number=2
  echo "-netdev dgram,id=$2,local.type=unix,local.path=$work/$2-$1,remote.type=unix,remote.path=$work/$2-$other" \
    "-device virtio-net-pci,netdev=$2,mac=52:54:00:07:0$number:$3"
}

# A guest may ask for its cables to be pulled and put back, "host: set_link data0 off": real loss of carrier.
obey() { # HOST
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line"
    [[ "$line" =~ ^host:\ (set_link\ data[0-9]+\ (on|off))$ ]] && echo "${BASH_REMATCH[1]}" 1<> "$work/monitor-$1.in"
  done
}

show() { # HOST PID
  tail -n +1 -s 0.1 --pid="$2" -f "$work/console-$1" | sed -u 's|\r||g'
}

if [ "$shape" = pair ]; then
  for host in a b; do
    mkfifo "$work/monitor-$host.in" "$work/monitor-$host.out"
    words="$(cable "$host" control ff)"
    for ((i = 0; i < devices; i++)); do words+=" $(cable "$host" "data$i" "0$i")"; done
    read -r -a words <<< "$words"
    boot "$host" "${words[@]}" -chardev "pipe,id=monitor,path=$work/monitor-$host" -mon chardev=monitor
  done
  {
    show a "${guests[0]}" | obey a &
    show b "${guests[1]}" | obey b | sed -u 's/^/b: /' &
    wait
  } | tee "$log" &
else
  boot both
  show both "${guests[0]}" | tee "$log" &
fi
shown=$!
statuses=()
for guest in "${guests[@]}"; do
  status=0
  wait "$guest" || status=$?
  statuses+=("$status")
done
guests=()
wait "$shown" || true

for status in "${statuses[@]}"; do
  case "$status" in
    33) ;; # the guest's status 0
    124 | 137)
      echo "kernel: the guest took longer than $timeout s"
      exit 124
      ;;
    *)
      if [ $((status % 2)) -eq 1 ] && [ "$status" -gt 33 ]; then exit $(((status >> 1) - 16)); fi
      echo "kernel: the guest died (QEMU's status is $status)"
      exit 125
      ;;
  esac
done
