#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bond --devices 1 --program actor-rdma-drill --file scenarios
#
# A bond under the device: the cable of its active slave is pulled.
. /guest/checks.sh

for name in K-17; do
  file="$(echo scenarios/$name-*.json)"
  check "$(sed -n 's/^  "title": "\(.*\)",$/\1/p' "$file")" \
    actor-rdma-drill run --fabric verbs --devices /run/devices.json "$file"
done
finish
