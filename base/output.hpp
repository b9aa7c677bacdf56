// SPDX-License-Identifier: Apache-2.0
// What a program printed has to be where it belongs before its end says that all is well.
#pragma once

namespace actor_rdma::base {

/// For the end of main(): writes out what stands in the buffers of standard output. `status` if that worked,
/// now and before; else `status_if_lost`, or `status` if that is no success already, and a line on standard
/// error.
int output_written(const char* program, int status, int status_if_lost);

} // namespace actor_rdma::base
