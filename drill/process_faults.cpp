// SPDX-License-Identifier: Apache-2.0
// Faults of a host's process.
#include "drill/fault_kind_groups.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace actor_rdma::drill {

namespace {
using spec = const fault_spec&;

struct exhaustible {
  const char* name;
  const char* words;
  const char* verbs; ///< that need some of it
  const char* error;
};
/// As a kernel answers. Rings of queues are pinned as memory regions are.
constexpr std::array exhaustibles{
    exhaustible{"descriptors", "file descriptors", "open_device,create_comp_channel", "EMFILE"},
    exhaustible{"memory", "memory", "alloc_pd,create_cq,create_qp,create_srq,reg_mr", "ENOMEM"},
    exhaustible{"memlock", "memory that may be locked (RLIMIT_MEMLOCK)",
                "create_cq,create_qp,create_srq,reg_mr", "ENOMEM"},
};

/// nullptr: what the file says was refused, and the others of its complaints are still looked for.
const exhaustible* resource_of(spec f) {
  const auto* const found = std::find_if(exhaustibles.begin(), exhaustibles.end(),
                                         [&](const exhaustible& e) { return f.resource == e.name; });
  return found != exhaustibles.end() ? found : nullptr;
}

std::vector<std::string> rules_of(spec f) {
  const auto* const e = resource_of(f);
  if (e == nullptr)
    return {};
  return {fmt::format("dev={} verb={} do=errno:{}", f.host, e->verbs, e->error)};
}

base::expected<void> exhaust(spec f, stage& s, bool on) {
  for (const auto& rule : rules_of(f))
    if (auto done = on ? s.devices().add_rule(rule) : s.devices().remove_rule(rule); !done)
      return done;
  return f.resource == "descriptors" ? s.limit_descriptors(f.host, on) : base::expected<void>{};
}

void add_exhausted(std::vector<fault_kind>& all) {
  fault_kind k;
  k.name = "exhausted";
  k.meaning = "The host's process gets no more of a resource: calls that need some fail.";
  k.must_have = {"host", "resource", "for_ms"};
  k.apply = [](spec f, stage& s) { return exhaust(f, s, true); };
  k.undo = [](spec f, stage& s) { return exhaust(f, s, false); };
  k.words = [](spec f) { return fmt::format("{} has no {} left", f.host, resource_of(f)->words); };
  k.rules = rules_of;
  all.push_back(std::move(k));
}

void add_fork(std::vector<fault_kind>& all) {
  all.push_back({"host_fork",
                 "The process forks while its transfers run; the child tries to use the transport and ends.",
                 {"host"},
                 {"by_ms"},
                 [](spec f, stage& s) { return s.fork_host(f.host, f.by); },
                 {},
                 [](spec f) {
                   return fmt::format("the process on {} forks a child that {}", f.host,
                                      f.by.count() == 0 ? "ends at once" : "lives for " + ms(f.by));
                 },
                 true});
}

} // namespace

std::vector<std::string> exhaustible_resources() {
  std::vector<std::string> all;
  for (const auto& e : exhaustibles)
    all.emplace_back(e.name);
  return all;
}

void add_process_kinds(std::vector<fault_kind>& all) {
  all.push_back({"host_kill",
                 "The process is gone at once, with its QPs and memory; its links are reset.",
                 {"host"},
                 {},
                 [](spec f, stage& s) { return s.kill_host(f.host); },
                 [](spec f, stage& s) { return s.restart_host(f.host); },
                 [](spec f) { return "the process on " + f.host + " is killed"; }});
  all.push_back(
      {"host_stop",
       "The process is told to stop (SIGTERM): it ends its transfers, releases what it has, and is gone.",
       {"host"},
       {},
       [](spec f, stage& s) { return s.stop_host(f.host); },
       [](spec f, stage& s) { return s.restart_host(f.host); },
       [](spec f) { return "the process on " + f.host + " is told to stop"; }});
  all.push_back({"host_restart",
                 "The killed process is there again, at the same address.",
                 {"host"},
                 {},
                 [](spec f, stage& s) { return s.restart_host(f.host); },
                 {},
                 [](spec f) { return "the process on " + f.host + " is started again"; },
                 true});
  all.push_back({"host_freeze",
                 "The process is stopped (SIGSTOP); its devices go on.",
                 {"host"},
                 {},
                 [](spec f, stage& s) { return s.freeze_host(f.host, true); },
                 [](spec f, stage& s) { return s.freeze_host(f.host, false); },
                 [](spec f) { return "the process on " + f.host + " is stopped"; }});
  all.push_back({"host_thaw",
                 "The stopped process goes on.",
                 {"host"},
                 {},
                 [](spec f, stage& s) { return s.freeze_host(f.host, false); },
                 {},
                 [](spec f) { return "the process on " + f.host + " goes on"; },
                 true});
  all.push_back({"churn_memory",
                 "The host registers and publishes memory and deregisters it at once.",
                 {"host"},
                 {},
                 [](spec f, stage& s) { return s.churn_memory(f.host); },
                 {},
                 [](spec f) { return f.host + " registers and deregisters memory"; },
                 true});
  add_exhausted(all);
  add_fork(all);
}

} // namespace actor_rdma::drill
