#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 1 --program actor-rdma-drill --file scenarios
# timeout: 420
#
# The drill's scenarios on one rail: links, addresses, the peer, and devices that retry for ever.
. /guest/checks.sh

for name in K-02 K-03 K-05 K-06 K-07 K-09 K-10 K-13 K-14 K-15 K-16 K-18; do
  file="$(echo scenarios/$name-*.json)"
  check "$(sed -n 's/^  "title": "\(.*\)",$/\1/p' "$file")" \
    actor-rdma-drill run --fabric verbs --devices /run/devices.json "$file"
done
finish
