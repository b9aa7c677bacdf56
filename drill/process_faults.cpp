// SPDX-License-Identifier: Apache-2.0
// Faults of a host's process.
#include "drill/fault_kind_groups.hpp"

namespace actor_rdma::drill {

namespace {
using spec = const fault_spec&;
} // namespace

void add_process_kinds(std::vector<fault_kind>& all) {
  all.push_back({"host_kill",
                 "The process is gone at once, with its QPs and memory; its links are reset.",
                 {"host"},
                 {},
                 [](spec f, stage& s) { return s.kill_host(f.host); },
                 [](spec f, stage& s) { return s.restart_host(f.host); },
                 [](spec f) { return "the process on " + f.host + " is killed"; }});
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
}

} // namespace actor_rdma::drill
