#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --devices 2 --program actor-rdma-drill --file scenarios
#
# The drill's scenarios in which one of two rails fails.
. /guest/checks.sh

for name in K-11 K-12; do
  file="$(echo scenarios/$name-*.json)"
  check "$(sed -n 's/^  "title": "\(.*\)",$/\1/p' "$file")" \
    actor-rdma-drill run --fabric verbs --devices /run/devices.json "$file"
done
finish
