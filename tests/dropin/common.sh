# SPDX-License-Identifier: Apache-2.0
#
# What the tests of the drop-in library share. Sourced, with SOFT_BIN (soft-nic) and SOFT_LIB (libibverbs.so.1) set
# to directories of the build, by a script that has set -euo pipefail.
#
# choose_setting USER WAY: USER is root or user (an unprivileged one), WAY is path (LD_LIBRARY_PATH) or preload.

export LC_ALL=C
work="$(mktemp -d)"
chmod 755 "$work"
# The unprivileged user cannot look into everybody's build directory.
mkdir "$work/bin" "$work/lib" "$work/lib/softverbs"
cp "$SOFT_BIN/soft-nic" "$work/bin/"
cp "$SOFT_LIB/libibverbs.so.1" "$work/lib/softverbs/"
chmod -R a+rX "$work/bin" "$work/lib"
fabric="dropin-test-$$"
children=()
failures=0
as=()
view=()

clean_up() {
  local pid
  for pid in ${children[@]+"${children[@]}"}; do kill "$pid" 2> /dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

need() { # COMMAND...: they are of the packages that ./run setup installs
  local command
  for command in "$@"; do
    command -v "$command" > /dev/null || {
      echo "FAILED: $command is not installed: ./run setup installs it" >&2
      exit 1
    }
  done
}

choose_setting() {
  case "$1" in
    root) [ "$(id -u)" -eq 0 ] || {
      echo "SKIPPED: only root can run this as root"
      exit 77
    } ;;
    user) [ "$(id -u)" -ne 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups) ;;
    *) exit 2 ;;
  esac
  case "$2" in
    path) view=("LD_LIBRARY_PATH=$work/lib/softverbs") ;;
    preload) view=("LD_PRELOAD=$work/lib/softverbs/libibverbs.so.1") ;;
    *) exit 2 ;;
  esac
}

# soft [NAME=VALUE...] PROGRAM ARGS...: the program as the chosen user on the software NIC.
soft() {
  "${as[@]}" timeout "${limit_s:-60}" env "ACTOR_RDMA_SOFT_FABRIC=$fabric" "${view[@]}" "$@"
}

# The same in the background: the pid is that of timeout, which hands signals on to the program.
soft_exec() {
  exec "${as[@]}" timeout 60 env "ACTOR_RDMA_SOFT_FABRIC=$fabric" "${view[@]}" "$@"
}

# A port that nothing listens on: from below the range of the kernel's own choices.
port=$((20000 + ($$ * 7) % 10000))
free_port() {
  while
    port=$((port + 1))
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null
  do :; done
}

listens() { # PORT: whether something does, without connecting to it
  local hex
  hex="$(printf '%04X' "$1")"
  cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | awk -v port=":$hex" '
    $4 == "0A" && substr($2, length($2) - 4) == port { found = 1 }
    END { exit !found }'
}

# pair LABEL PROGRAM ARGS...: two processes of it on 127.0.0.1, server first; both have to end well. PORT stands for
# the port in the arguments. What the client said is in $work/client.
pair() {
  local label="$1" status=0 server i args=()
  shift
  free_port
  for i in "$@"; do args+=("${i/PORT/$port}"); done
  soft_exec "${args[@]}" > "$work/server" 2>&1 &
  server=$!
  children+=("$server")
  for ((i = 0; i < 200; i++)); do
    ! listens "$port" || break
    kill -0 "$server" 2> /dev/null || break
    sleep 0.05
  done
  soft "${args[@]}" 127.0.0.1 > "$work/client" 2>&1 || status=$?
  [ "$status" -eq 0 ] || {
    fail "$label: the client ended with $status"
    cat "$work/client" >&2
  }
  status=0
  wait "$server" || status=$?
  [ "$status" -eq 0 ] || {
    fail "$label: the server ended with $status"
    cat "$work/server" >&2
  }
  echo "$label: done"
}

# expect PATTERN FILE WHAT
expect() {
  grep -qE "$1" "$2" || {
    fail "$3: nothing matches '$1' in:"
    cat "$2" >&2
  }
}

finish() {
  # Of the fabric nothing may be left when its last process has ended.
  if compgen -G "/dev/shm/actor-rdma-soft-*-$fabric" > /dev/null; then
    fail "the fabric's segment is left behind: $(echo /dev/shm/actor-rdma-soft-*-"$fabric")"
    rm -f /dev/shm/actor-rdma-soft-*-"$fabric"
  fi
  [ "$failures" -eq 0 ]
}
