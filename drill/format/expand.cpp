// SPDX-License-Identifier: Apache-2.0
// Writing out hosts and traffic.
#include "drill/format/expand.hpp"

#include <utility>

#include <fmt/format.h>

namespace actor_rdma::drill::format {

namespace {

bool is_pattern(const std::string& name) noexcept {
  return name.ends_with('*');
}

std::vector<std::string> hosts_of(const scenario& s, const std::string& name) {
  std::vector<std::string> all;
  if (is_pattern(name))
    for (const auto& h : s.hosts)
      if (h.name.starts_with(std::string_view{name}.substr(0, name.size() - 1)))
        all.push_back(h.name);
  return all.empty() ? std::vector{name} : all;
}

} // namespace

void expand(scenario& s) {
  std::vector<host_spec> hosts;
  for (auto& h : s.hosts) {
    const auto n = std::exchange(h.count, 0);
    if (n == 0) {
      hosts.push_back(std::move(h));
      continue;
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      hosts.push_back(h);
      hosts.back().name += fmt::format("{}", i);
    }
  }
  s.hosts = std::move(hosts);

  std::vector<traffic_spec> traffic;
  for (std::size_t i = 0; i < s.traffic.size(); ++i) {
    const auto& t = s.traffic[i];
    const bool stands_for_many = is_pattern(t.from) || is_pattern(t.to);
    for (const auto& from : hosts_of(s, t.from))
      for (const auto& to : hosts_of(s, t.to)) {
        if (stands_for_many && from == to)
          continue;
        auto& one = traffic.emplace_back(t);
        one.from = from;
        one.to = to;
        if (stands_for_many)
          one.name = fmt::format("{}{}{}-{}", t.name, t.name.empty() ? "" : "-", from, to);
        else if (t.name.empty())
          one.name = fmt::format("{}-{}-{}", from, to, i);
      }
  }
  s.traffic = std::move(traffic);
}

} // namespace actor_rdma::drill::format
