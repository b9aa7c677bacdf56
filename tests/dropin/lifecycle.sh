#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Forks and stopped peers on the drop-in library.
#
#   lifecycle.sh fork|stop
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/common.sh"
need /usr/bin/python3
choose_setting "$([ "$(id -u)" -eq 0 ] && echo root || echo user)" path
soft /usr/bin/python3 "$here/lifecycle.py" "$1" > "$work/out" 2>&1 || fail "$1"
cat "$work/out"
expect "^$1: done" "$work/out" "$1"
finish
