#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs groups of tests on the kernel's RDMA stack, one guest each, and counts their checks.
# Where no guest can be had it says so on a line "SKIP: ...", and that is neither a pass nor a failure.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bin="${ACTOR_RDMA_BIN:-$here/../../build/release/bin}"

usage() {
  cat << 'TEXT'
all.sh [--kernel 6.1|6.12]... [--part NAME] [--seconds N] [--logs FOLDER] [GROUP...]
  --kernel     on this kernel, several may be named [both]
  --part test  only the groups that belong to that part
  --seconds N  for groups of a chosen length, instead of their own
  --logs       where the consoles are kept [build/kernel]
  --programs   says which programs the groups take along, and does nothing else
The groups:
TEXT
  for file in "$here"/groups/*.sh; do
    printf '  %-12s %s\n' "$(basename "$file" .sh)" "$(awk '/^$/ || /^[^#]/ {exit} NR > 3 && /^# [A-Z]/ {print substr($0, 3); exit}' "$file")"
  done
}

# What a group says about itself in its head: "# NAME: VALUE".
says() { # GROUP NAME
  sed -n "s/^# $2: *//p" "$here/groups/$1.sh"
}

kernels=()
part=
seconds=
logs="$here/../../build/kernel"
groups=()
while [ "$#" -gt 0 ]; do
  case "$1" in
    -h | --help)
      usage
      exit 0
      ;;
    --programs)
      sed -n 's/^# guest: //p' "$here"/groups/*.sh | grep -o -- '--program [^ ]*' | cut -d ' ' -f 2 | sort -u
      exit 0
      ;;
    --kernel | --part | --seconds | --logs)
      [ "$#" -ge 2 ] || {
        echo "$1 needs a value" >&2
        exit 2
      }
      case "$1" in
        --kernel) kernels+=("$2") ;;
        --part) part="$2" ;;
        --seconds) seconds="$2" ;;
        --logs) logs="$2" ;;
      esac
      shift
      ;;
    -*)
      usage >&2
      exit 2
      ;;
    *)
      [ -e "$here/groups/$1.sh" ] || {
        echo "there is no group $1" >&2
        usage >&2
        exit 2
      }
      groups+=("$1")
      ;;
  esac
  shift
done
[ "${#kernels[@]}" -gt 0 ] || kernels=(6.1 6.12)
if [ "${#groups[@]}" -eq 0 ]; then
  for file in "$here"/groups/*.sh; do groups+=("$(basename "$file" .sh)"); done
fi

passed=0
failed=0
skipped=0
failures=()
mkdir -p "$logs"

run_group() { # KERNEL GROUP
  local kernel="$1" group="$2" log="$logs/$1-$2.log" try status=0 begin="$SECONDS" words=() arguments=() good bad
  read -r -a words <<< "$(says "$group" guest)"
  for ((i = 0; i < ${#words[@]}; i++)); do
    arguments+=("${words[i]}")
    case "${words[i]}" in
      --program) arguments+=("$bin/${words[++i]}") ;;
      --file) arguments+=("$here/${words[++i]}") ;;
    esac
  done
  local length="${seconds:-$(says "$group" seconds)}"
  length="$(says "$group" seconds | grep -q . && echo "$length" || true)"
  echo "== kernel $kernel, $group"
  for try in 1 2; do
    status=0
    "$here/run.sh" --kernel "$kernel" --timeout $(($(says "$group" timeout | grep . || echo 240) + 3 * ${length:-0})) \
      --file "$here/groups/$group.sh:group.sh" --log "$log" "${arguments[@]}" -- sh /work/group.sh ${length:+"$length"} || status=$?
    # QEMU now and then runs a breakpoint that the guest's kernel has taken away again while it patched itself: nothing of ours.
    if [ "$status" -ne 125 ] || [ "$try" -eq 2 ] || ! grep -q 'Oops: int3:' "$log"; then break; fi
    echo "== kernel $kernel, $group: the emulator tripped over a breakpoint of the guest's kernel, once more"
  done
  good="$(grep -c '^ok - ' "$log" || true)"
  bad="$(grep -c '^not ok - ' "$log" || true)"
  passed=$((passed + good))
  failed=$((failed + bad))
  while IFS= read -r line; do failures+=("kernel $kernel, $group: ${line#not ok - }"); done < <(grep '^not ok - ' "$log" || true)
  # Whatever else is no pass: a group without a single check, one that ended early, a guest that died.
  if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; }; then
    failed=$((failed + 1))
    failures+=("kernel $kernel, $group: ended with status $status after $good checks, see $log")
  fi
  echo "== kernel $kernel, $group: $good ok, $bad not ok, $((SECONDS - begin)) s"
}

for kernel in "${kernels[@]}"; do
  status=0
  "$here/prepare.sh" --kernel "$kernel" > "$logs/$kernel-prepare.log" 2>&1 || status=$?
  if [ "$status" -eq 75 ]; then
    echo "SKIP: kernel $kernel: $(sed 's/^kernel: //' "$logs/$kernel-prepare.log" | tail -n 1)"
    skipped=$((skipped + 1))
    continue
  elif [ "$status" -ne 0 ]; then
    cat "$logs/$kernel-prepare.log"
    failed=$((failed + 1))
    failures+=("kernel $kernel: the guest could not be prepared, status $status")
    continue
  fi
  for group in "${groups[@]}"; do
    if [ -z "$part" ] || says "$group" "part of" | grep -qw "$part"; then run_group "$kernel" "$group"; fi
  done
done

for what in "${failures[@]}"; do echo "== FAILED: $what"; done
[ "$skipped" -eq 0 ] || echo "SKIP: $skipped of ${#kernels[@]} kernels"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
