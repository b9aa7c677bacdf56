// SPDX-License-Identifier: Apache-2.0
// Names of notice states.
#include "observe/notice.hpp"

namespace actor_rdma {

const char* to_string(notice_status status) noexcept {
  switch (status) {
  case notice_status::none: return "none";
  case notice_status::pending: return "pending";
  case notice_status::delivered: return "delivered";
  case notice_status::withheld: return "withheld";
  case notice_status::lost: return "lost";
  case notice_status::unknown: return "unknown";
  }
  return "?";
}

} // namespace actor_rdma
