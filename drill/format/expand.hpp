// SPDX-License-Identifier: Apache-2.0
// What stands for many in a scenario file, written out: a host with a count, and traffic between all hosts
// whose names begin alike.
#pragma once

#include "drill/scenario.hpp"

#include <string>
#include <vector>

namespace actor_rdma::drill::format {

/// Hosts with a count become name0, name1, ...; `from` and `to` of traffic that end in * become one traffic
/// for each pair of hosts, named after it. Traffic without a name gets one. A pattern that means no host
/// stays as it is: the checks name it.
void expand(scenario& s);

} // namespace actor_rdma::drill::format
