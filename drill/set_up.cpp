// SPDX-License-Identifier: Apache-2.0
// Rails, and needs of devices.
#include "drill/set_up.hpp"

#include "actors/port_path.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

constexpr std::size_t shown_reasons = 3;
constexpr std::uint64_t fewest_reconnects = 16;
constexpr std::uint64_t reconnects_each = 4;

/// Of one device, so that all its QPs can come up.
struct needs {
  std::uint64_t qps = 0;
  std::uint64_t cq_entries = 0;
  std::uint64_t reads_answered = 0; ///< one at a time at least for each QP that the peer posts on
};

std::map<std::string, needs> needs_of_devices(const scenario& what) {
  std::map<std::string, needs> all;
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& t : what.traffic) {
    if (!pairs.insert({t.from, t.to}).second)
      continue;
    const auto& ours = what.host(t.from)->config;
    const auto qps = ours.qps_per_endpoint;
    const auto add = [&](const std::string& device, std::uint64_t wrs, std::uint64_t reads) {
      auto& n = all[device_of(device)]; // ports share what it has
      n.qps += qps;
      n.cq_entries += qps * (wrs + 1); // and the one receive that each QP has room for
      n.reads_answered += reads;
    };
    std::uint64_t depth = ours.send_queue_depth;
    for (const auto& nic : what.host(t.from)->nics()) // as the transport: all have what the least one can
      depth = std::min<std::uint64_t>(depth, std::bit_floor(std::max(2u, nic.limits.max_qp_wr) - 1));
    for (const auto& [from, to] : rails_of(what, t.from, t.to)) {
      add(from, depth + 1, 0);
      add(to, 1, qps);
    }
  }
  return all;
}

std::string too_small(const scenario& what) {
  std::string text;
  const auto needed = needs_of_devices(what);
  for (const auto& h : what.hosts) {
    std::uint64_t regions = 1; // for probes
    for (const auto& t : what.traffic)
      regions += t.notices_only ? 0 : (t.from == h.name ? 1 : 0) + (t.to == h.name ? 1 : 0);
    for (const auto& nic : h.nics()) {
      const auto device = h.name + "/" + nic.name;
      const auto found = needed.find(device);
      if (found == needed.end())
        continue;
      const auto check = [&](const char* limit, std::uint64_t is, std::uint64_t need) {
        if (is < need)
          text += fmt::format("; {}: {} is {}, this file's traffic needs {}", device, limit, is, need);
      };
      const auto& n = found->second;
      check("max_qp", nic.limits.max_qp, n.qps);
      check("max_cqe", nic.limits.max_cqe, n.cq_entries);
      check("max_mr", nic.limits.max_mr, regions);
      check("max_res_rd_atom", nic.limits.max_res_rd_atom, n.reads_answered);
    }
  }
  return text;
}

/// "a/soft0>b/soft0: why", without the "#1: " of the QP: each of a rail says the same.
std::string without_number(const observe::event& e) {
  const auto colon = e.detail.find(": ");
  return e.subject + ": " +
         (e.detail.starts_with('#') && colon != std::string::npos ? e.detail.substr(colon + 2) : e.detail);
}

} // namespace

std::vector<std::pair<std::string, std::string>> rails_of(const scenario& what, const std::string& from,
                                                          const std::string& to) {
  const auto ours = what.host(from)->ports();
  const auto theirs = what.host(to)->ports();
  const auto layers = [](const std::vector<verbs::soft::device_options>& ports) {
    std::vector<std::uint8_t> all;
    for (const auto& port : ports)
      all.push_back(port.link_layer);
    return all;
  };
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [our, their] : actors::missing_rails(layers(ours), layers(theirs), {}))
    all.emplace_back(from + '/' + ours[our].name, to + '/' + theirs[their].name);
  return all;
}

std::map<std::string, std::uint64_t> qps_of_devices(const scenario& what) {
  std::map<std::string, std::uint64_t> all;
  for (const auto& [device, n] : needs_of_devices(what))
    all[device] = n.qps;
  return all;
}

std::uint64_t usual_reconnects(std::uint64_t qps) noexcept {
  return std::max(fewest_reconnects, qps * reconnects_each);
}

std::string too_much_memory(const scenario& what, std::uint64_t has) {
  std::uint64_t all = 0;
  std::uint64_t most = 0;
  std::string who;
  for (const auto& t : what.traffic)
    for (const bool at_to : {false, true}) {
      const auto bytes = t.memory_bytes(at_to);
      all += bytes;
      if (bytes <= most)
        continue;
      most = bytes;
      who = fmt::format("{} bytes for {} (traffic {})", bytes, at_to ? t.to : t.from, t.name);
    }
  return all <= has
             ? std::string{}
             : fmt::format("its traffic needs {} bytes of memory, this machine has {}; the most are {}: "
                           "depth times batch times the greatest of sizes",
                           all, has, who);
}

std::uint64_t physical_memory() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<std::pair<std::string, std::string>>
carrying_rails_of(const scenario& what, const std::string& from, const std::string& to) {
  auto all = rails_of(what, from, to);
  const auto& spare = what.host(from)->config.spare_devices;
  const auto is_spare = [&](const auto& rail) {
    return std::find(spare.begin(), spare.end(), rail.first.substr(from.size() + 1)) != spare.end();
  };
  if (!std::all_of(all.begin(), all.end(), is_spare))
    std::erase_if(all, is_spare);
  return all;
}

std::string why_not_up(const scenario& what, const run_facts& facts) {
  std::string text;
  std::set<std::string> told;
  for (const auto& e : facts.events) {
    using kind = observe::event_kind;
    if ((e.what.kind == kind::attempt_failed || e.what.kind == kind::rejected) &&
        told.size() < shown_reasons && told.insert(without_number(e.what)).second)
      text += "; " + without_number(e.what);
  }
  return text + too_small(what);
}

} // namespace actor_rdma::drill
