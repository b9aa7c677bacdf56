#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks docs/cases.md against the tree: each scenario and test that it names exists, each row names one or says why
# not, no id stands twice, and no scenario or test of a group that the page has is missing from it.
#
#   tests/tidy/cases.sh [DIRECTORY]     the repository there, by default this one
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
page=docs/cases.md

# The names of all tests, one a line, as the compiler joins them.
names="$(find . \( -name build -o -name .git \) -prune -o -type f -name '*.test.cpp' -print0 | sort -z | xargs -0 -r cat |
  tr '\n' ' ' | sed -E 's/"[ \t]+"//g' | grep -oE 'TEST_CASE(_FIXTURE|_TEMPLATE)?\([^"]*"([^"\\]|\\.)*"' | sed -E 's/^[^"]*"//; s/"$//')"
findings=0
complain() { # LINE TEXT
  printf '%s:%s: %s\n' "$page" "$1" "$2"
  findings=$((findings + 1))
}

declare -A rows=() groups=()
number=0
while IFS= read -r line; do
  number=$((number + 1))
  [[ "$line" =~ ^\|\ ([A-Z])-([0-9]+)\  ]] || continue
  IFS='|' read -r _ id _ shown note _ <<< "$line"
  id="${id// /}"
  groups[${id%%-*}]=1
  [ -z "${rows[$id]:-}" ] || complain "$number" "$id stands twice"
  rows[$id]=$number
  [[ "$shown$note" =~ [A-Za-z] ]] || complain "$number" "$id names neither a scenario, nor a test, nor a reason"
  rest="$shown"
  while [[ "$rest" =~ (scenario|test)\ ([A-Za-z0-9-]+)|\"([^\"]+)\" ]]; do
    rest="${rest#*"${BASH_REMATCH[0]}"}"
    kind="${BASH_REMATCH[1]}" name="${BASH_REMATCH[2]}" sentence="${BASH_REMATCH[3]}"
    case "$kind" in
      scenario) [ -e "tests/scenarios/$name.json" ] || complain "$number" "there is no scenario $name" ;;
      test) grep -q "^$name: " <<< "$names" || complain "$number" "there is no test whose name begins with \"$name: \"" ;;
      *) grep -qxF -- "$sentence" <<< "$names" || complain "$number" "there is no test \"$sentence\"" ;;
    esac
  done
done < "$page"

while IFS= read -r id; do
  [ -z "${groups[${id%%-*}]:-}" ] || [ -n "${rows[$id]:-}" ] || complain 1 "$id has a scenario or a test and no row"
done < <({
  find tests/scenarios -name '*.json' | sed -E 's#.*/##; s/\.json$//'
  printf '%s\n' "$names" | sed -E 's/:.*//'
} | grep -oE '^[A-Z]-[0-9]{2}' | sort -u)

[ "$findings" -eq 0 ] || echo "$findings findings"
[ "$findings" -eq 0 ]
