#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# rdma-core's own pyverbs tests, unmodified, on the drop-in library: how many pass, are skipped and fail, and why. It
# fails when a test fails that docs/dropin.md does not name with its reason, when one that is named there passes, or when
# fewer pass than the page says.
#
#   pyverbs.sh [--print]     --print: the tally as it stands in docs/dropin.md, without judging it
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/common.sh"
page="$here/../../docs/dropin.md"
python=/usr/bin/python3 # the distribution's: for no other does it have pyverbs
need "$python" dpkg-deb
choose_setting "$([ "$(id -u)" -eq 0 ] && echo root || echo user)" path

"$python" -c 'import pyverbs.device' 2> "$work/err" || {
  echo "FAILED: no pyverbs for $python (./run setup installs python3-pyverbs):" >&2
  cat "$work/err" >&2
  exit 1
}
suite=/usr/share/doc/rdma-core/tests
if ! [ -e "$suite/run_tests.py" ]; then
  # Small installations leave out what is below /usr/share/doc: the package still has it.
  (cd "$work" && apt-get download -q python3-pyverbs > "$work/err" 2>&1 && dpkg-deb -x python3-pyverbs_*.deb package) || {
    echo "FAILED: there is no $suite, and the package python3-pyverbs cannot be fetched again:" >&2
    cat "$work/err" >&2
    exit 1
  }
  suite="$work/package$suite"
fi
cp -rL "$suite" "$work/tests"
find "$work/tests" -name '*.gz' -exec gunzip {} +

status=0
(cd "$work" && limit_s=150 soft "$python" tests/run_tests.py -v) > "$work/log" 2>&1 || status=$?
grep -qE '^Ran [0-9]+ tests' "$work/log" || {
  echo "FAILED: the tests did not come to their end (status $status):" >&2
  tail -n 50 "$work/log" >&2
  exit 1
}
"$python" "$here/pyverbs_tally.py" "$work/log" "$page" "$@" || failures=1
finish
