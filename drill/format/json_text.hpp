// SPDX-License-Identifier: Apache-2.0
// From a text to a JSON value, with // comments. A key that stands twice in one object is complained of.
#pragma once

#include "drill/format/value.hpp"

#include <optional>
#include <string>

namespace actor_rdma::drill::format {

/// Nothing, with the reason among the complaints, if it is no JSON.
std::optional<nlohmann::json> parse_json(const std::string& text, complaints& wrong);

} // namespace actor_rdma::drill::format
