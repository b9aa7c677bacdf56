# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
#
# For the groups, in the guest: `check SENTENCE COMMAND...` runs a check, tells its outcome as a line "ok - ..." or "not ok - ...", and
# shows what it said if it failed. `finish` ends the group.
checks_failed=0

check() { # SENTENCE COMMAND...
  sentence="$1"
  shift
  read -r begin _ < /proc/uptime
  if "$@" > /tmp/check.log 2>&1; then
    grep -E '^(throughput|transfers|content|notices|health)' /tmp/check.log | sed 's/^/# /' || true
    outcome=ok
  else
    echo "# status $?, the end of what it said:"
    tail -n "${CHECK_LINES:-60}" /tmp/check.log | sed 's/^/# /'
    outcome="not ok"
    checks_failed=$((checks_failed + 1))
  fi
  read -r end _ < /proc/uptime
  echo "$outcome - $sentence ($((${end%%.*} - ${begin%%.*})) s)"
}

# A child that has ended is there until it is waited for, and has no command line any more.
is_running() { # PROCESS
  [ -n "$(tr -d '\0' 2> /dev/null < "/proc/$1/cmdline")" ]
}

# For a run of the benchmark in the background that tells to a file: waits until it has transferred for a second.
is_under_way() { # PROCESS FILE
  until grep -q '^ *1 s ' "$2"; do
    is_running "$1" || return 1
    sleep 0.2
  done
}

finish() {
  [ "$checks_failed" -eq 0 ]
  exit $?
}

# What Soft-RoCE needs that hardware does not: its 7 retries are endless. And on an emulated processor an answer can take some
# hundred milliseconds though nothing is broken: 7 * 67 ms until an error. A longer time-out than this would leave a packet that
# got lost unrepaired for so long that its QP is given up.
nic="--fabric verbs --retry-count 6 --qp-timeout 14"

# The devices of a host ("a" or "b"), as the option wants them.
devices_of() {
  sed -n "s|^ *\"$1/soft[0-9]*\": {\"device\": \"\([^\"]*\)\".*|\1|p" /run/devices.json | tr '\n' ',' | sed 's/,$//'
}
