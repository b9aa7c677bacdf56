// SPDX-License-Identifier: Apache-2.0
//
// What the readers of keys and of actions share.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace actor_rdma::verbs::soft::rule_reading {

using done = base::expected<void>;

[[nodiscard]] inline tl::unexpected<base::error> refuse(std::string what) {
  return base::fail(base::reason::invalid_argument, "soft NIC rule", std::move(what));
}

[[nodiscard]] std::vector<std::string_view> split(std::string_view text, std::string_view separators);

[[nodiscard]] inline std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

/// `link=down`, and what it goes with.
[[nodiscard]] done read_link_state(rule& r, std::string_view value);
[[nodiscard]] done check_link_state(const rule& r);

/// The value of `do=`.
[[nodiscard]] done read_action(rule& r, std::string_view value);

} // namespace actor_rdma::verbs::soft::rule_reading
