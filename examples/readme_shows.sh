#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether the README's code block is this example, without its comment at the top.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
shown="$(sed -n '/^```cpp$/,/^```$/p' ../README.md | sed '1d;$d')"
[ -n "$shown" ]
diff <(printf '%s\n' "$shown") <(sed '/^[^/]/,$!d' "$1")
