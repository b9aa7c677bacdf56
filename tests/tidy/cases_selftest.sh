#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that cases.sh can fail: a small tree that is right passes, and each rule, broken once, is found and named.
set -euo pipefail
check="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cases.sh"
tree="$(mktemp -d)"
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{docs,tests/scenarios,base}
cases=0
failures=0

good_tree() {
  rm -f "$tree"/tests/scenarios/* "$tree"/base/*
  touch "$tree"/tests/scenarios/{A-01,A-02-more,Z-09,plain}.json
  printf 'TEST_CASE("A-02: one") {\n}\nTEST_CASE(\n    "a long "\n    "name") {\n}\n' > "$tree/base/a.test.cpp"
  printf '# Cases\n\n| id | shown by |\n| A-01 | x | scenario A-01 | |\n| A-02 | x | test A-02, scenario A-02-more, "a long name" | so |\n| A-03 | x | | cannot |\n' \
    > "$tree/docs/cases.md"
}

# expect NAME ROW MESSAGE: with this row added to the good page the check says that.
expect() {
  local output status=0
  good_tree
  printf '%s\n' "$2" >> "$tree/docs/cases.md"
  output="$("$check" "$tree" 2>&1)" || status=$?
  cases=$((cases + 1))
  if [ "$status" -eq 0 ] || ! grep -qF -- "$3" <<< "$output" || ! grep -qx '1 findings' <<< "$output"; then
    printf 'not found: %s\n%s\n' "$1" "$output"
    failures=$((failures + 1))
  fi
}

good_tree
if ! output="$("$check" "$tree" 2>&1)"; then
  printf 'the good tree is refused:\n%s\n' "$output"
  exit 1
fi
expect 'a scenario that is not there' '| A-04 | x | scenario A-04 | |' 'there is no scenario A-04'
expect 'a test that is not there' '| A-04 | x | test A-04 | |' 'begins with "A-04: "'
expect 'a name of no test' '| A-04 | x | "a long" | |' 'there is no test "a long"'
expect 'a row that says nothing' '| A-04 | x | | |' 'A-04 names neither'
expect 'an id twice' '| A-03 | x | | cannot |' 'A-03 stands twice'
expect 'a scenario without a row' '| Z-01 | x | | a group of its own |' 'Z-09 has a scenario or a test and no row'

echo "$cases broken rules, $failures not found"
[ "$failures" -eq 0 ]
