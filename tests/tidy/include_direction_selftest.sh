#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that include_direction.sh can fail: a small tree that is right passes, and each of its rules, broken once,
# is found and named.
set -euo pipefail
check="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/include_direction.sh"
tree="$(mktemp -d)"
trap 'rm -rf "$tree"' EXIT
spdx='// SPDX-License-Identifier: Apache-2.0'
failures=0
cases=0

# A tree that keeps every rule, near misses included.
good_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{base,observe,verbs/dropin,bootstrap,actors,transport,tent,inspector,bench,tests/scenarios,build}
  printf '%s\n#pragma once\n#include <vector>\n' "$spdx" > "$tree/base/a.hpp"
  printf '%s\n#include "base/a.hpp"\n#include <caf/all.hpp>\n#include "actors/b.hpp"\n' "$spdx" \
    > "$tree/transport/t.cpp"
  printf '%s\n#pragma once\n#include "verbs/v.hpp"\n#include <caf/all.hpp>\n' "$spdx" > "$tree/actors/b.hpp"
  printf '%s\n#pragma once\n#include <infiniband/verbs.h>\nint ibv_thing(int,\n              int);\n' "$spdx" \
    > "$tree/verbs/v.hpp"
  printf '%s\nint ibv_thing(int) {\n  return ibv_other(1);\n}\n' "$spdx" > "$tree/verbs/dropin/d.cpp"
  printf '%s\n#include "tests/support/s.hpp"\nTEST_CASE("a, b "\n          "(c) \x27d\x27") {\n  x[0] = 1;\n}\n' \
    "$spdx" > "$tree/base/a.test.cpp"
  printf '%s\n// %s(#12): later\n' "$spdx" 'TO''DO' > "$tree/base/b.cpp"
  printf '# SPDX-License-Identifier: Apache-2.0\n# never ibverbs )\n' > "$tree/CMakeLists.txt"
  printf '#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n' > "$tree/run"
  printf '{\n  "id": "x",\n  "seeds": 20\n}\n' > "$tree/tests/scenarios/x.json"
  printf 'whatever\n' > "$tree/build/generated.cpp"
}

# expect NAME FILE CONTENT MESSAGE: this file, added to the good tree, is refused with this message.
expect() {
  local output status=0
  good_tree
  printf '%b' "$3" > "$tree/$2"
  output="$("$check" "$tree" 2>&1)" || status=$?
  cases=$((cases + 1))
  if [ "$status" -eq 0 ] || ! grep -qF "$2:" <<< "$output" || ! grep -qF -- "$4" <<< "$output" ||
    ! grep -qx '1 findings' <<< "$output"; then
    printf 'not found: %s\n%s\n' "$1" "$output"
    failures=$((failures + 1))
  fi
}

good_tree
if ! output="$("$check" "$tree" 2>&1)"; then
  printf 'the good tree is refused:\n%s\n' "$output"
  exit 1
fi

h="$spdx\n#pragma once\n"
s="$spdx\n"
expect 'base above itself' base/x.cpp "$s#include \"verbs/v.hpp\"\n" 'base/ must not include verbs/'
expect 'verbs beside itself' verbs/x.cpp "$s#include \"bootstrap/y.hpp\"\n" 'verbs/ must not include bootstrap/'
expect 'bootstrap above itself' bootstrap/x.cpp "$s#include \"actors/b.hpp\"\n" 'bootstrap/ must not include actors/'
expect 'actors above themselves' actors/x.cpp "$s#include \"transport/t.hpp\"\n" 'actors/ must not include transport/'
expect 'a public header over actors' transport/x.hpp "$h#include \"actors/b.hpp\"\n" \
  'transport/ must not include actors/'
expect 'CAF in a public header' transport/x.hpp "$h#include <caf/all.hpp>\n" 'CAF stays behind actors/'
expect 'verbs in a public header' transport/x.hpp "$h#  include <infiniband/verbs.h>\n" \
  'libibverbs stays behind verbs/'
expect 'CAF in base' base/x.cpp "$s#include <caf/all.hpp>\n" 'CAF stays behind actors/'
expect 'tent past the public API' tent/x.cpp "$s#include \"actors/b.hpp\"\n" 'tent/ must not include actors/'
expect 'inspector past the public API' inspector/x.cpp "$s#include \"verbs/v.hpp\"\n" \
  'inspector/ must not include verbs/'
expect 'bench past the public API' bench/x.cpp "$s#include \"actors/b.hpp\"\n" 'bench/ must not include actors/'
expect 'a product source over tests' base/x.cpp "$s#include \"tests/support/s.hpp\"\n" \
  'base/ must not include tests/'
expect 'a relative include' base/x.cpp "$s#include \"a.hpp\"\n" 'from the root of the repository'
expect 'angle brackets' base/x.cpp "$s#include <base/a.hpp>\n" 'with quotes'
expect 'no licence' base/x.cpp '#include <vector>\n' 'no SPDX-License-Identifier'
expect 'a licence too late' base/x.cpp "\n$s" 'no SPDX-License-Identifier'
expect 'no licence in a script' base/x.sh '#!/bin/sh\ntrue\n' 'no SPDX-License-Identifier'
expect 'a header without guard' base/x.hpp "$s" 'without #pragma once'
expect 'a semicolon in a test name' base/x.test.cpp "${s}TEST_CASE(\"a; b\") {\n}\n" 'a test name must not contain'
expect 'a semicolon in the second line' base/x.test.cpp "${s}TEST_CASE(\"a \"\n  \"b; c\") {\n}\n" \
  'a test name must not contain'
expect 'a bracket in a fixture test' base/x.test.cpp "${s}TEST_CASE_FIXTURE(f, \"[0, 1)\") {\n}\n" \
  'a test name must not contain'
expect 'a test name twice' base/x.test.cpp "${s}TEST_CASE(\"same\") {\n}\nTEST_CASE(\"same\") {\n}\n" \
  'this test name is also in'
expect 'an open end' base/x.cpp "$s// TO""DO: finish\n" 'without the number of an issue'
expect 'an open end in a build file' base/x.cmake "# SPDX-License-Identifier: Apache-2.0\n# FIX""ME later\n" \
  'without the number of an issue'
expect 'a definition of a C name' verbs/x.cpp "${s}extern \"C\" int ibv_close_device(ibv_context* c) {\n}\n" \
  'verbs/dropin/ only'
expect 'a definition over two lines' verbs/x.cpp "${s}int ibv_x(int a,\n          int b) {\n}\n" \
  'verbs/dropin/ only'
expect 'a linked libibverbs' base/x.cmake \
  '# SPDX-License-Identifier: Apache-2.0\ntarget_link_libraries(a PRIVATE ibverbs)\n' 'never linked'
expect 'a linked -libverbs' base/x.cmake '# SPDX-License-Identifier: Apache-2.0\nset(flags "-libverbs")\n' \
  'never linked'
expect 'a scenario without seeds' tests/scenarios/y.json '{\n  "id": "y" // "seeds": 3\n}\n' 'how many "seeds"'
long="$(printf '//\\n%.0s' $(seq 400))"
expect 'a long source' base/x.cpp "$s$long" 'a source of more than 400 lines'
long="$(printf '//\\n%.0s' $(seq 249))"
expect 'a long header' base/x.hpp "$h$long" 'a header of more than 250 lines'

echo "$cases broken rules, $failures not found"
[ "$failures" -eq 0 ]
