#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest: --shape bond --program kernel-behaviour
# timeout: 120
#
# Rows of the behaviour table for a device on a bond of two, of which one fails.
export ACTOR_RDMA_DEVICES=/run/devices.json
kernel-behaviour --no-colors --test-case="bond:*"
