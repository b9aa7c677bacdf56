#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bridge --program kernel-behaviour
# timeout: 400
#
# Takes the own port down 40 times under work and counts what becomes of it: on kernel 6.1 it hangs for ever in some of the trials.
export ACTOR_RDMA_DEVICES=/run/devices.json ACTOR_RDMA_TRIALS=40
kernel-behaviour --no-colors --test-case="count:*"
