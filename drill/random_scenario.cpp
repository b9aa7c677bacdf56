// SPDX-License-Identifier: Apache-2.0
// Faults are drawn one after the other, each for a target that has recovered from the one before; different
// targets' faults overlap as they come.
#include "drill/random_scenario.hpp"

#include "base/random.hpp"
#include "drill/scenario.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace actor_rdma::drill {

namespace {

using json = nlohmann::ordered_json;

struct host {
  std::string name;
  std::uint64_t devices = 0;
};

class maker {
public:
  explicit maker(const random_wishes& w) : wishes_(w), random_(w.seed) {}

  json make() {
    json s;
    s["id"] = fmt::format("random-{}", wishes_.seed);
    s["title"] = fmt::format("faults drawn from seed {}", wishes_.seed);
    s["seeds"] = 1;
    s["time_limit_ms"] = ms(wishes_.lasts) + 120'000;
    s["hosts"] = make_hosts();
    s["traffic"] = make_traffic();
    s["faults"] = make_faults();
    s["expect"] = {{{"kind", "transfers"}, {"status", "completed"}, {"at_least", 1}}};
    // Several faults may end together, and a restarted process has to be found again.
    s["bounds"] = {{"converge_within_ms", 4000}, {"reconnects_at_most", 64}};
    return s;
  }

private:
  static std::int64_t ms(base::duration d) { return d / std::chrono::milliseconds{1}; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[random_.below(all.size())];
  }

  json make_hosts() {
    json all = json::array();
    const auto count = random_.between(2, 3);
    const auto devices = static_cast<std::uint64_t>(random_.between(2, 3));
    for (std::int64_t i = 0; i < count; ++i) {
      hosts_.push_back({std::string(1, static_cast<char>('a' + i)), devices});
      all.push_back({{"name", hosts_.back().name},
                     {"devices", {{{"count", devices}, {"rate_gbit_s", one_of<double>({0.5, 1, 4})}}}}});
    }
    return all;
  }

  json make_traffic() {
    json all = json::array();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      const auto& from = hosts_[i].name;
      const auto& to = hosts_[(i + 1) % hosts_.size()].name;
      json t{{"name", from + to},
             {"from", from},
             {"to", to},
             {"op", random_.chance(0.7) ? "write" : "read"},
             {"sizes",
              {one_of<std::string>({"200", "4K", "16K"}), one_of<std::string>({"1000", "64K", "128K"})}},
             {"batch", random_.between(1, 6)},
             {"depth", random_.between(1, 6)},
             {"rate_per_s", random_.between(30, 150)},
             {"repeat_until_ms", ms(wishes_.lasts)},
             {"deadline_ms", one_of<std::int64_t>({1000, 5000, 20000})}};
      if (random_.chance(0.2))
        t["cancel_after_ms"] = random_.between(1, 50);
      if (!wishes_.for_real_time && random_.chance(0.5))
        t["notice"] = true;
      all.push_back(std::move(t));
    }
    return all;
  }

  bool is_idle(const std::string& target, std::int64_t at) const {
    const auto found = busy_until_.find(target);
    return found == busy_until_.end() || found->second <= at;
  }
  /// A host's own fault waits for those of its devices, and they for it.
  bool is_idle_whole(const host& h, std::int64_t at) const {
    return std::all_of(busy_until_.begin(), busy_until_.end(),
                       [&](const auto& b) { return b.second <= at || host_of(b.first) != h.name; });
  }

  json make_faults() {
    json all = json::array();
    const auto end = ms(wishes_.lasts) - 500;
    for (auto at = random_.between(100, 600); at < end; at += random_.between(20, 900)) {
      const auto longest = std::max<std::int64_t>(20, std::min<std::int64_t>(1500, end - at));
      const auto lasts = random_.chance(0.5) ? random_.between(5, std::min<std::int64_t>(longest, 150))
                                             : random_.between(10, longest);
      const auto& h = one_of(hosts_);
      const auto& peer = hosts_[(static_cast<std::size_t>(&h - hosts_.data()) + 1) % hosts_.size()];
      json f;
      std::string target = h.name;
      if (random_.chance(0.7)) {
        target += fmt::format("/soft{}", random_.below(h.devices));
        if (!is_idle(target, at) || !is_idle(h.name, at))
          continue;
        f = device_fault(target, lasts);
      } else {
        if (!is_idle_whole(h, at))
          continue;
        f = host_fault(h, peer, lasts);
      }
      f["at_ms"] = at;
      busy_until_[target] = at + (f.contains("for_ms") ? f["for_ms"].get<std::int64_t>() : 0) + 20;
      all.push_back(std::move(f));
    }
    return all;
  }

  json device_fault(const std::string& device, std::int64_t lasts) {
    json f{{"device", device}, {"for_ms", lasts}};
    switch (random_.below(11)) {
    case 0:
    case 1:
      f["kind"] = "link_down";
      f["quiet"] = random_.chance(0.3);
      break;
    case 2:
    case 3:
      f["kind"] = "hang";
      f["hard"] = random_.chance(0.3);
      break;
    case 4:
      f["kind"] = "delay";
      f["by_ms"] = random_.between(1, 400);
      break;
    case 5:
    case 6:
      f["kind"] = "packets_lost";
      f["direction"] = one_of<std::string>({"tx", "rx", "request", "ack"});
      break;
    case 7:
      f["kind"] = "rate";
      f["gbit_s"] = one_of<double>({0.01, 0.1, 1});
      break;
    case 8:
      f["kind"] = "verb_fails";
      f["verb"] = one_of<std::string>({"create_qp", "modify_qp", "destroy_qp", "query"});
      f["error"] = one_of<std::string>({"ENOMEM", "EIO", "EBUSY"});
      break;
    case 9:
      f["kind"] = "rule";
      f.erase("device");
      f["rule"] = fmt::format(
          "dev={} every={} do=status:{}", device, random_.between(20, 400),
          one_of<std::string>({"RETRY_EXC_ERR", "REM_ACCESS_ERR", "LOC_PROT_ERR", "GENERAL_ERR"}));
      break;
    default:
      f["kind"] = "event_lost";
      f["event"] = one_of<std::string>({"PORT_ERR", "PORT_ACTIVE", "GID_CHANGE"});
      break;
    }
    return f;
  }

  json host_fault(const host& h, const host& peer, std::int64_t lasts) {
    switch (random_.below(8)) {
    case 0:
    case 1: return {{"kind", "host_kill"}, {"host", h.name}, {"for_ms", lasts}};
    case 2: return {{"kind", "host_freeze"}, {"host", h.name}, {"for_ms", lasts}};
    case 3: return {{"kind", "control_cut"}, {"from", h.name}, {"to", peer.name}};
    case 4: return {{"kind", "control_black_hole"}, {"from", h.name}, {"to", peer.name}, {"for_ms", lasts}};
    case 5:
      return {{"kind", one_of<std::string>({"control_drop", "control_duplicate", "control_reorder"})},
              {"from", h.name},
              {"to", peer.name},
              {"messages", random_.between(1, 5)}};
    case 6: return {{"kind", "control_refuse"}, {"host", h.name}, {"for_ms", lasts}};
    default: return {{"kind", "churn_memory"}, {"host", h.name}};
    }
  }

  const random_wishes& wishes_;
  base::rng random_;
  std::vector<host> hosts_;
  std::map<std::string, std::int64_t> busy_until_; ///< by device or host, ms
};

} // namespace

std::string random_scenario(const random_wishes& wishes) {
  return maker{wishes}.make().dump(2) + "\n";
}

} // namespace actor_rdma::drill
