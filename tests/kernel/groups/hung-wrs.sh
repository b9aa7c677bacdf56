#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 1 --program actor-rdma-drill --file scenarios
# timeout: 420
#
# The port is switched off and on under load, with patient settings: in some cases kernel 6.1 keeps WRs for ever then, without a word.
. /guest/checks.sh

for name in K-19; do
  file="$(echo scenarios/$name-*.json)"
  check "$(sed -n 's/^  "title": "\(.*\)",$/\1/p' "$file")" \
    actor-rdma-drill run --fabric verbs --devices /run/devices.json "$file"
done
finish
