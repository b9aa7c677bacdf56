#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks what a compiler does not: that includes point downwards through the folders, and the small rules that all
# sources keep. Prints "file:line: what is wrong" and fails if there was anything.
#
#   tests/tidy/include_direction.sh [DIRECTORY]     the whole tree below it, by default the repository
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

# folder: the folders that its files may include, beside itself. A line for FOLDER.cpp is for its sources and for
# what lies in FOLDER/internal/, which no other folder includes.
export layers='
base:
observe: base
verbs: base
bootstrap: base
actors: base observe verbs bootstrap
transport: base observe
transport.cpp: base observe verbs bootstrap actors
tent: transport
inspector: transport observe
bench: transport verbs base observe
drill: base observe verbs bootstrap actors transport tent inspector bench
tests: base observe verbs bootstrap actors transport tent inspector bench drill
examples: transport base observe
'
# Headers of libraries that must not spread, and the places where they may be included.
export caf_allowed='^(actors/|tests/|drill/|bench/.*\.cpp$|transport/.*\.cpp$|transport/internal/)'
export verbs_allowed='^(verbs/|actors/|bench/|tests/|drill/|transport/.*\.cpp$|transport/internal/)'
export max_header_lines=250 max_source_lines=400

find . \( -name build -o -name .git \) -prune -o -type f \
  \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.sh' -o -path ./run \
  -o -path ./.ci/run -o -path './tests/scenarios/*.json' \) -print0 | sort -z | xargs -0 -r awk '
function complain(line, text) {
  print path ":" line ": " text
  failures++
}

function finish_file() {
  if (path == "")
    return
  if (is_header && last_line > ENVIRON["max_header_lines"])
    complain(last_line, "a header of more than " ENVIRON["max_header_lines"] " lines: split it by concept")
  if (is_source && last_line > ENVIRON["max_source_lines"])
    complain(last_line, "a source of more than " ENVIRON["max_source_lines"] " lines: split it by concept")
  if (is_header && !has_pragma_once)
    complain(1, "a header without #pragma once")
  if (is_scenario && !has_seeds)
    complain(1, "a scenario of the tests says how many \"seeds\" an ordinary run plays")
  if (!is_scenario && !has_spdx)
    complain(1, "no SPDX-License-Identifier: Apache-2.0 on the first line")
}

function start_file() {
  path = FILENAME
  sub(/^\.\//, "", path)
  folder = path
  sub(/\/.*/, "", folder)
  is_header = path ~ /\.hpp$/
  is_source = path ~ /\.cpp$/
  is_cmake = path ~ /(\.cmake|CMakeLists\.txt)$/
  is_scenario = path ~ /\.json$/
  has_seeds = 0
  has_pragma_once = 0
  has_spdx = 0
  test_name = ""
  signature = ""
}

function check_include(    target, rule, spelled) {
  spelled = $0
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", spelled)
  target = substr(spelled, 2)
  sub(/[">].*/, "", target)
  if (target ~ /^caf\// && path !~ ENVIRON["caf_allowed"])
    complain(FNR, "<" target "> does not belong here: CAF stays behind actors/")
  if (target ~ /^infiniband\// && path !~ ENVIRON["verbs_allowed"])
    complain(FNR, "<" target "> does not belong here: libibverbs stays behind verbs/")
  sub(/\/.*/, "", target)
  if (!(target in allowed)) {
    if (spelled ~ /^"/)
      complain(FNR, "includes of our own are written from the root of the repository")
    return
  }
  if (spelled ~ /^</)
    complain(FNR, "our own headers are included with quotes")
  if (target == folder || !(folder in allowed))
    return
  if (target == "tests" && path ~ /\.test\.cpp$/)
    return
  if (spelled ~ /^"[a-z]+\/internal\// && folder != "tests")
    complain(FNR, "what lies in internal/ belongs to its folder alone")
  rule = folder
  if ((is_source || path ~ /\/internal\//) && (folder ".cpp") in allowed)
    rule = folder ".cpp"
  if (index(allowed[rule], " " target " ") == 0)
    complain(FNR, folder "/ must not include " target "/")
}

# A name may go on over several lines. ctest splits lists at semicolons, and brackets unbalance them.
function check_test_name(    name, module) {
  test_name = test_name $0
  if (test_name !~ /\{/)
    return
  name = test_name
  test_name = ""
  sub(/^[^"]*"/, "", name)
  sub(/"[^"]*\{.*$/, "", name)
  gsub(/"[ \t]*"/, "", name)
  if (name ~ /[;\[\]\\]/)
    complain(FNR, "a test name must not contain ; [ ] or a backslash, ctest would run something else or nothing")
  if ((folder, name) in test_names)
    complain(FNR, "this test name is also in " test_names[folder, name])
  test_names[folder, name] = path
}

# A C name of libibverbs that we define would take over calls of other libraries in the process.
function check_verbs_definition() {
  signature = signature $0
  if (signature !~ /[;{]/)
    return
  if (signature !~ /^[^{]*;/)
    complain(FNR, "a function named ibv_... may be defined in verbs/dropin/ only")
  signature = ""
}

BEGIN {
  count = split(ENVIRON["layers"], lines, "\n")
  for (i = 1; i <= count; i++) {
    if (lines[i] == "")
      continue
    name = lines[i]
    sub(/:.*/, "", name)
    sub(/^[^:]*:/, "", lines[i])
    allowed[name] = lines[i] " "
  }
}

FNR == 1 {
  finish_file()
  start_file()
}
{ last_line = FNR }
FNR <= 2 && /SPDX-License-Identifier: Apache-2\.0/ && (FNR == 1 || first_line ~ /^#!/) { has_spdx = 1 }
FNR == 1 { first_line = $0 }
/TO[D]O|FIX[M]E|XX[X]/ && !/(TO[D]O|FIX[M]E|XX[X])[ (]*#[0-9]/ { complain(FNR, "an open end without the number of an issue") }

is_cmake && !/^[ \t]*#/ && /-libverbs|[( \t]ibverbs([ \t)]|$)|IBVERBS_LIBRAR|pkg_check_modules.*libibverbs/ {
  complain(FNR, "libibverbs is loaded at run time and never linked")
}

is_scenario && /^  "seeds": [0-9]/ { has_seeds = 1 }

!is_header && !is_source { next }
/^#pragma once/ { has_pragma_once = 1 }
/^[ \t]*#[ \t]*include[ \t]*["<]/ { check_include() }
test_name != "" || /^[ \t]*(DOCTEST_)?TEST_CASE(_FIXTURE|_TEMPLATE|_CLASS)?[ \t]*\(/ { check_test_name() }
path !~ /^verbs\/dropin\// &&
  (signature != "" || /^[A-Za-z_][A-Za-z0-9_ *&:"]*[ *&]ibv_[a-z0-9_]+[ \t]*\(/) { check_verbs_definition() }

END {
  finish_file()
  if (failures > 0)
    print failures " findings"
  exit failures > 0
}
'
