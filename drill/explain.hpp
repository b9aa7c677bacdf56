// SPDX-License-Identifier: Apache-2.0
// A scenario in words: who there is, what will happen, what is checked.
#pragma once

#include "drill/scenario.hpp"

#include <string>

namespace actor_rdma::drill {

std::string explain(const scenario& what);

} // namespace actor_rdma::drill
