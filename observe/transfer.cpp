// SPDX-License-Identifier: Apache-2.0
// Names of transfer operations and states.
#include "observe/transfer.hpp"

namespace actor_rdma {

const char* to_string(operation op) noexcept {
  return op == operation::read ? "read" : "write";
}

const char* to_string(transfer_status status) noexcept {
  switch (status) {
  case transfer_status::pending: return "pending";
  case transfer_status::completed: return "completed";
  case transfer_status::failed: return "failed";
  case transfer_status::timed_out: return "timed_out";
  case transfer_status::cancelled: return "cancelled";
  }
  return "?";
}

} // namespace actor_rdma
