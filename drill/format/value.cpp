// SPDX-License-Identifier: Apache-2.0
// Refusals.
#include "drill/format/value.hpp"

namespace actor_rdma::drill::format {

void value::refuse(const std::string& accepts) const {
  constexpr std::size_t longest = 60;
  auto shown = node_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (shown.size() > longest)
    shown = shown.substr(0, longest) + "...";
  complain("is " + shown + ", accepted is " + accepts);
}

} // namespace actor_rdma::drill::format
