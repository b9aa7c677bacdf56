#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes what a guest with the kernel's own RDMA stack boots from: the kernel and the modules out of Debian's package, which is
# unpacked and never installed, and an initramfs with the RDMA tools of this machine. Prints the folder that has them:
#   vmlinux      the kernel as ELF, which QEMU starts at once (the packed one costs 5 s)
#   base.cpio    busybox, ip, tc, rdma, ibv_*, the library's rxe provider, the modules
#   base.files   what is in it, one name a line
#   release      the kernel's release
#   tsc_khz      a program that measures the rate of the time stamp counter
# It is kept in ${XDG_CACHE_HOME:-~/.cache}/actor-rdma/kernel, by the release and by what it was made of.
# Status 75 and a sentence on standard error: it cannot be had here, which is no failure.
set -euo pipefail

readonly cannot=75
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/actor-rdma/kernel"

# What the guest uses, by name; what these depend on comes along.
modules=(
  rdma_rxe rdma_ucm ib_uverbs ib_umad crc32_generic crc32-pclmul crc32c_generic
  veth dummy bridge bonding sch_netem sch_ingress act_gact act_mirred cls_matchall cls_flower
  virtio_pci virtio_net 9p 9pnet_virtio ipv6 af_packet
)
# The rest of the programs are busybox's.
programs=(ip tc rdma bridge ibv_devinfo ibv_devices ibv_rc_pingpong ibv_asyncwatch)
# Too large to unpack, and nothing in them is used.
unused=(drivers/{gpu,media,scsi,usb,hid,iio,hwmon,mmc,input,staging,nvme,crypto,infiniband/hw} drivers/net/{ethernet,wireless} sound fs/{btrfs,xfs,ocfs2,nfs,ceph,smb,cifs,ext4,f2fs,gfs2})

skip() {
  echo "kernel: $*" >&2
  exit "$cannot"
}

usage() {
  echo "usage: prepare.sh [--kernel 6.1|6.12]" >&2
  exit 2
}

kernel=6.1
while [ "$#" -gt 0 ]; do
  case "$1" in
    --kernel) kernel="${2:-}" && shift ;;
    *) usage ;;
  esac
  shift
done
[[ "$kernel" =~ ^[0-9]+\.[0-9]+$ ]] || usage

[ "$(dpkg --print-architecture 2> /dev/null)" = amd64 ] || skip "guests are built from Debian's packages for amd64"
for program in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio depmod:kmod xz:xz-utils zstd:zstd \
  ip:iproute2 ibv_devinfo:ibverbs-utils g++:g++; do
  command -v "${program%%:*}" > /dev/null || [ -x "/usr/sbin/${program%%:*}" ] ||
    skip "there is no ${program%%:*} (package ${program#*:})"
done
PATH="$PATH:/usr/sbin:/sbin"
if ldd "$(command -v busybox)" > /dev/null 2>&1; then skip "busybox is not static: install busybox-static"; fi
provider="$(find /usr/lib -name 'librxe-rdmav*.so' -print -quit)"
[ -n "$provider" ] || skip "libibverbs has no provider for rxe (package ibverbs-providers)"

# The package behind the kernel's name: it has another name after each security update.
find_package() {
  local name
  for name in "linux-image-$kernel-amd64" linux-image-amd64; do
    apt-cache depends "$name" 2> /dev/null |
      sed -n "s/^ *Depends: \(linux-image-${kernel//./\\.}[.+][^ ]*\)\$/\1/p"
  done | head -n 1
}

package="$(find_package)"
release="${package#linux-image-}"
made_of="$({
  cat "$here"/{prepare.sh,libraries.sh,tsc_khz.cpp}
  dpkg-query -W -f='${Package} ${Version}\n' busybox-static libibverbs1 ibverbs-providers ibverbs-utils iproute2 libc6
} | sha256sum | cut -c 1-12)"
# Without a network, or with package lists that are out of date, the newest one that was prepared earlier will do.
newest_here() {
  find "$cache" -maxdepth 1 -name "${kernel}[.+]*-$made_of" 2> /dev/null | sort -V | tail -n 1
}
if [ -z "$package" ]; then
  folder="$(newest_here)"
  [ -n "$folder" ] || skip "no package linux-image-$kernel-amd64 in the package lists of this machine (apt-get update?)"
else
  folder="$cache/$release-$made_of"
fi
if [ -e "$folder/release" ]; then
  echo "$folder"
  exit 0
fi

mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9 # two runs at once: the second finds what the first one made
if [ -e "$folder/release" ]; then
  echo "$folder"
  exit 0
fi

work="$(mktemp -d -p "$cache")"
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p download tree root result
(cd download && apt-get download "$package") > download.log 2>&1 || {
  older="$(newest_here)"
  [ -n "$older" ] || skip "$package cannot be downloaded: $(tail -n 1 download.log)"
  echo "$older"
  exit 0
}
excludes=()
for what in "${unused[@]}"; do excludes+=("--exclude=./lib/modules/*/kernel/$what"); done
dpkg-deb --fsys-tarfile download/*.deb | tar x -C tree --no-same-owner --wildcards "${excludes[@]}" \
  './boot/vmlinuz-*' './lib/modules/*' 2> tar.log || {
  # In later releases everything is below /usr.
  dpkg-deb --fsys-tarfile download/*.deb | tar x -C tree --no-same-owner './boot' './usr/lib/modules'
  mkdir -p tree/lib
  mv tree/usr/lib/modules tree/lib/
}

# -- the kernel: the boot image says where the packed ELF file is in it (Linux/x86 boot protocol, setup header)
number_at() { od -A n -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }
image="$(find tree/boot -name 'vmlinuz-*')"
sectors="$(number_at "$image" 497 1)" # setup_sects; 0 means 4
[ "$sectors" -ne 0 ] || sectors=4
begin=$(((sectors + 1) * 512 + $(number_at "$image" 584 4))) # payload_offset
length="$(number_at "$image" 588 4)"                         # payload_length; the last 4 bytes are the size unpacked
tail -c +$((begin + 1)) "$image" | head -c $((length - 4)) > payload || true
case "$(od -A n -t x1 -N 4 payload | tr -d ' ')" in
  fd377a58) xz -d -c < payload > result/vmlinux ;;
  28b52ffd) zstd -d -q -c < payload > result/vmlinux ;;
  1f8b08*) gzip -d -c < payload > result/vmlinux ;;
  *) skip "the kernel of $package is packed in an unknown way" ;;
esac
[ "$(od -A n -t x1 -N 4 result/vmlinux | tr -d ' ')" = 7f454c46 ] || skip "the kernel of $package holds no ELF file"

# -- the modules, unpacked, with what they need
find tree/lib/modules -name '*.ko.xz' -print0 | xargs -0 -r -P "$(nproc)" xz -d
find tree/lib/modules -name '*.ko.zst' -print0 | xargs -0 -r -P "$(nproc)" zstd -d -q --rm
depmod -b tree "$release"
from="tree/lib/modules/$release"
for module in "${modules[@]}"; do
  grep -q "/${module//[-_]/[-_]}.ko\$" "$from/modules.builtin" && continue
  # A line is "insmod FILE"; a module that this kernel has not, or has built in, is no line.
  modprobe -d tree -S "$release" --show-depends "$module" 2> /dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | sort -u > wanted
grep -q '/rdma_rxe\.ko$' wanted || skip "$package has no rdma_rxe"
while IFS= read -r file; do
  file="${file#"$work/"}"
  file="${file#*tree/}"
  mkdir -p "root/$(dirname "$file")"
  cp "tree/$file" "root/$file"
done < wanted
cp "$from"/modules.{builtin,builtin.modinfo,order} "root/lib/modules/$release/"
depmod -b root "$release"

# -- the programs and what they load
mkdir -p root/{bin,sbin,etc/libibverbs.d,proc,sys,dev,run,tmp,root,usr/lib,usr/bin}
cp "$(command -v busybox)" root/bin/busybox
busybox --list | while IFS= read -r applet; do [ -e "root/bin/$applet" ] || ln -s busybox "root/bin/$applet"; done
for program in "${programs[@]}"; do cp "$(command -v "$program")" root/sbin/; done
mkdir -p "root$(dirname "$provider")"
cp "$provider" "root$provider"
echo 'driver rxe' > root/etc/libibverbs.d/rxe.driver
"$here/libraries.sh" root root/sbin/* "$provider"
printf 'root:x:0:0:root:/root:/bin/sh\n' > root/etc/passwd
printf 'root:x:0:\n' > root/etc/group
printf '127.0.0.1 localhost\n' > root/etc/hosts

(cd root && find . | sort > ../result/base.files && cpio -o -H newc -R 0:0 --quiet < ../result/base.files) > result/base.cpio
g++ -std=c++20 -O1 -o result/tsc_khz "$here/tsc_khz.cpp"
echo "$release" > result/release
rm -rf "$folder"
mv result "$folder"
echo "$folder"
