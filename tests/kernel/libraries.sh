#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# libraries.sh ROOT PROGRAM...: copies the shared libraries that the programs need, and theirs, to the same places below ROOT.
# What a program loads by name while it runs is not among them: name that file as a program too.
set -euo pipefail
root="$1"
shift
for program in "$@"; do
  ldd "$program" 2> /dev/null | sed -n 's/^.*[[:space:]]\(\/[^ ]*\) (0x[0-9a-f]*)$/\1/p'
done | sort -u | while IFS= read -r library; do
  [ ! -e "$root$library" ] || continue
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
