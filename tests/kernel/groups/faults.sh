#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 1 --program actor-rdma-drill --file scenarios
#
# Scenarios of the drill that say most in the shortest time: the port switched off, silence, an address that comes back elsewhere.
. /guest/checks.sh

for name in K-01 K-04 K-08; do
  file="$(echo scenarios/$name-*.json)"
  check "$(sed -n 's/^  "title": "\(.*\)",$/\1/p' "$file")" \
    actor-rdma-drill run --fabric verbs --devices /run/devices.json "$file"
done
finish
