#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --program kernel-behaviour
# timeout: 400
#
# The behaviour table: what queue pairs and their work do when links, addresses, devices and peers fail, one level below the transport.
# The interface that is deleted comes last, and is not there any more after it.
export ACTOR_RDMA_DEVICES=/run/devices.json
kernel-behaviour --no-colors --test-case-exclude="bond:*,count:*,kernel:*"
status=$?
kernel-behaviour --no-colors --test-case="kernel:*" || status=$?
exit $status
