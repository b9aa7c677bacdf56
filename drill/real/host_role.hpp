// SPDX-License-Identifier: Apache-2.0
// The hidden role of this program: one host of a scenario, which does what the conductor says and tells what
// happens. All it knows of a transfer is addresses; content and canaries are the conductor's, who has mapped
// the same memory.
//
// From the conductor, each with "call", a number that the answer carries as "answer":
//   memory   key, fd, bytes, publish    -> addr                    map and register
//   revoke   key, on                    -> -                       deregister, or register again
//   connect  peer, address, want        -> -                       want: [[addr, bytes]...] that it must
//            publish
//   submit   batch, peer, key, op,      -> at_ns                   items: [[offset, remote, bytes]...]
//            deadline_ns, items
//   cancel   batch                      -> -
//   churn                               -> -
//   snapshot                            -> actors, silent
//   changed                             -> changed                 [[batch, index, status]...] since their
//            ends were told
//   stop                                -> left, fds               fds: [before, after]; then it ends
// An answer with "error" says why not. Unasked: ready (address), event, log, ended (batch, at_ns, results:
// [[status, cause, unconfirmed]...]; with devices of the kernel each with its receipt, [[rail, bytes]...]).
#pragma once

#include <string>

namespace actor_rdma::drill {

struct host_wishes {
  std::string file;
  std::string name;
  std::string fabric;  ///< of the software NIC
  std::string devices; ///< or a devices file: those of the kernel
  std::string listen;
  int socket = -1;
};

/// Until it is told to stop, or the conductor is gone. The exit status, 0 if all is well.
int run_host(const host_wishes& wishes);

} // namespace actor_rdma::drill
