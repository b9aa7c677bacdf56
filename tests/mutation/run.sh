#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Breaks the transport on purpose, one thing at a time, and asks whether the tests notice. Each break is a patch in
# breaks/; its text before the diff says what it breaks and, after "first:", which tests are tried before all others
# (a regular expression for ctest). An exception in each message handler is one patch more, throwing_handlers.patch,
# which throws in the handler that ACTOR_RDMA_THROW_IN names ("qp::post").
#
#   run.sh                 every break, then every handler
#   run.sh NAME...         these breaks ("stall_clock_off_in_paused", "handlers", "qp::post")
#   run.sh --check         only whether every patch still applies
#   run.sh --help          this text
#
# The work is done in a copy below build/mutation. Exit: 0 if everything was noticed, 1 if something was not, 2 if a
# break could not be tried.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
top="$(cd "$here/../.." && pwd)"
copy="$top/build/mutation/source"
built="$top/build/mutation/build"
logs="$top/build/mutation/logs"
jobs="$(nproc)"
# What a broken transport can change: no test of the drop-in library, none of real processes, none of wall-clock time.
# What is quick comes first, since the first test that notices ends the search.
stages=('^sim:' '^actors:' '^(transport|verbs|drill):' '^scenario:')
programs=(actors_tests sim_tests transport_tests verbs_tests drill_tests actor-rdma-drill)

copy_sources() {
  mkdir -p "$copy" "$built" "$logs"
  (cd "$top" && git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    [ ! -e "$file" ] || printf '%s\0' "$file"
  done) > "$logs/files"
  # By content, not by time: what a break changed is put back, nothing else is touched, and what is written anew has
  # the time of now, so that exactly that is compiled again.
  rsync --recursive --links --perms --checksum --from0 --files-from="$logs/files" "$top/" "$copy/"
  # What is left of a file that is gone would be built.
  (cd "$copy" && find . -type f -printf '%P\0') | sort -z > "$logs/there"
  sort -z "$logs/files" | comm -z -13 - "$logs/there" | (cd "$copy" && xargs -0 -r rm -f)
}

apply_patch() { patch --directory "$copy" --strip 1 --fuzz 0 --quiet --no-backup-if-mismatch < "$1"; }

take_back() {
  local file
  while IFS= read -r file; do
    cp "$top/$file" "$copy/$file"
  done < <(sed -n 's,^+++ b/,,p' "$1")
}

check_patches() {
  local patch failures=0
  for patch in "$here"/breaks/*.patch "$here/throwing_handlers.patch"; do
    if ! patch --directory "$top" --strip 1 --fuzz 0 --dry-run --quiet < "$patch" > /dev/null; then
      echo "$(basename "$patch"): does not apply any more"
      failures=$((failures + 1))
    fi
  done
  [ "$failures" -eq 0 ]
}

build() { # LABEL
  if [ ! -e "$built/build.ninja" ]; then
    cmake -S "$copy" -B "$built" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO='-O1' \
      > "$logs/configure.log" 2>&1 || {
      cat "$logs/configure.log"
      return 1
    }
  fi
  cmake --build "$built" --parallel "$jobs" --target "${programs[@]}" > "$logs/$1.build.log" 2>&1 || {
    tail -n 40 "$logs/$1.build.log"
    return 1
  }
}

# 0: all of these passed. A run that finds no test is not a pass of anything.
tests_pass() { # REGEX LOG
  local status=0
  rm -rf "$built/Testing" # from what earlier runs cost, ctest would conclude to begin with the longest
  ctest --test-dir "$built" --parallel "$jobs" --stop-on-failure --timeout 120 --no-tests=error -R "$1" > "$2" 2>&1 ||
    status=$?
  return "$status"
}

# What passed once is not tried again before anything has changed.
unbroken_passes() {
  local regex now
  now="$(cd "$copy" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)"
  [ "$(cat "$logs/baseline.passed" 2> /dev/null)" != "$now" ] || return 0
  build baseline || return 1
  for regex in "${stages[@]}"; do
    if ! tests_pass "$regex" "$logs/baseline.tests.log"; then
      tail -n 30 "$logs/baseline.tests.log"
      echo "unbroken, the tests fail already"
      return 1
    fi
  done
  echo "$now" > "$logs/baseline.passed"
}

noticed_by() { sed -n 's/^.*Test *#[0-9]*: \(.*[^ .]\) *\.*\*\*\*.*$/\1/p' "$1" | head -n 1; }

# The test of this name alone.
# shellcheck disable=SC2001 # what is kept of the pattern needs sed
only() { printf '^%s$' "$(sed 's/[][\\.*^$+?(){}|]/\\&/g' <<< "$1")"; }

report_notice() { # LABEL FIRST-REGEX: 0 if the tests notice what is built now
  local label="$1" regex test log="$logs/$1.tests.log"
  for regex in "$2" "${stages[@]}"; do
    [ -n "$regex" ] || continue
    until tests_pass "$regex" "$log"; do
      if grep -q '^No tests were found' "$log"; then
        echo "$label: no test matches $regex"
        return 2
      fi
      test="$(noticed_by "$log")"
      # A test that fails now and then on a busy machine has noticed nothing.
      if ! tests_pass "$(only "$test")" "$logs/$label.again.log"; then
        echo "$label: noticed by \"$test\""
        return 0
      fi
      echo "$label: \"$test\" failed, and not when it was run again"
    done
  done
  echo "$label: NOT NOTICED"
  return 1
}

try_break() { # NAME
  local name="$1" patch="$here/breaks/$1.patch" status=0 first
  first="$(sed -n 's/^first: //p' "$patch")"
  if ! apply_patch "$patch"; then
    take_back "$patch"
    echo "$name: does not apply"
    return 2
  fi
  if build "$name"; then
    report_notice "$name" "$first" || status=$?
  else
    echo "$name: does not compile"
    status=2
  fi
  take_back "$patch"
  return "$status"
}

handlers() {
  find "$top/actors" -name "*.cpp" ! -name "*.test.cpp" -exec grep -ohE 'on<[a-z_]+>\(&[a-z_]+::' {} + |
    sed -E 's/on<([a-z_]+)>\(&([a-z_]+)::/\2::\1/' | sort -u
}

try_handlers() { # [HANDLER...]
  local patch="$here/throwing_handlers.patch" status=0 worst=0 handler
  if ! apply_patch "$patch" || ! build throwing_handlers; then
    take_back "$patch"
    echo "throwing_handlers: does not apply or does not compile"
    return 2
  fi
  for handler in "$@"; do
    status=0
    ACTOR_RDMA_THROW_IN="$handler" report_notice "$handler" "" || status=$?
    [ "$status" -le "$worst" ] || worst="$status"
  done
  take_back "$patch"
  return "$worst"
}

main() {
  local names=() chosen=() worst=0 status name
  for name in "$@"; do
    case "$name" in
      -h | --help)
        sed -n '/^# Breaks/,/^set /{s/^# \{0,1\}//p}' "$here/run.sh"
        return
        ;;
    esac
  done
  if [ "${1:-}" = --check ]; then
    check_patches
    return
  fi
  if [ "$#" -eq 0 ]; then
    for name in "$here"/breaks/*.patch; do names+=("$(basename "$name" .patch)"); done
    mapfile -t chosen < <(handlers)
  fi
  for name in "$@"; do
    case "$name" in
      handlers) mapfile -t chosen < <(handlers) ;;
      *::*) chosen+=("$name") ;;
      *)
        if [[ "$name" = -* ]]; then
          echo "unknown option: $name; $here/run.sh --help says what there is" >&2
          return 2
        fi
        if [ ! -e "$here/breaks/$name.patch" ]; then
          echo "no break of the name $name; there are:" \
            "$(cd "$here/breaks" && echo *.patch | sed 's/\.patch//g') handlers, and one handler as class::message" >&2
          return 2
        fi
        names+=("$name")
        ;;
    esac
  done
  copy_sources
  unbroken_passes || return 2
  for name in ${names[@]+"${names[@]}"}; do
    status=0
    try_break "$name" || status=$?
    [ "$status" -le "$worst" ] || worst="$status"
  done
  if [ "${#chosen[@]}" -gt 0 ]; then
    status=0
    try_handlers "${chosen[@]}" || status=$?
    [ "$status" -le "$worst" ] || worst="$status"
  fi
  return "$worst"
}

main "$@"
