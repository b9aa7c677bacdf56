// SPDX-License-Identifier: Apache-2.0
// The tables of keys, one for each kind of object in a scenario file.
#pragma once

#include "drill/format/value.hpp"
#include "drill/scenario.hpp"

namespace actor_rdma::drill::format {

const key_table<scenario>& scenario_keys();
const key_table<actors::settings>& settings_keys();
const key_table<host_spec>& host_keys();
const key_table<device_group>& device_keys();
const key_table<verbs::soft::device_limits>& limit_keys();
const key_table<control_spec>& control_keys();
const key_table<traffic_spec>& traffic_keys();
const key_table<fault_spec>& fault_keys();
const key_table<expect_spec>& expect_keys();
const key_table<bounds_spec>& bounds_keys();

/// A fault's or an expectation's keys depend on its kind.
void read_fault(const value& from, std::vector<fault_spec>& into);
void read_expect(const value& from, std::vector<expect_spec>& into);

struct documented_key {
  std::string object; ///< "faults", "hosts.devices"; empty: the file itself
  std::string name;
  std::string accepts;
};
/// Every key that the reader knows.
std::vector<documented_key> all_keys();

} // namespace actor_rdma::drill::format
