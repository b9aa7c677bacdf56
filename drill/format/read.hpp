// SPDX-License-Identifier: Apache-2.0
// From a file to a scenario, or to everything that is wrong with it. Pure but for opening the file.
#pragma once

#include "drill/scenario.hpp"

#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace actor_rdma::drill {

/// JSON with // comments. Each complaint names its place: "faults[2].at_ms: ...".
tl::expected<scenario, std::vector<std::string>> parse_scenario(const std::string& text);
/// The same from a file; complaints begin with its name.
tl::expected<scenario, std::vector<std::string>> read_scenario(const std::string& path);

} // namespace actor_rdma::drill
