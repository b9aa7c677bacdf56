// SPDX-License-Identifier: Apache-2.0
// The table of faults.
#include "drill/fault_kinds.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using spec = const fault_spec&;
using bootstrap::message_fate;

std::string ms(base::duration d) {
  return fmt::format("{:g} ms", std::chrono::duration<double, std::milli>(d).count());
}

fault_kind message_kind(const char* name, const char* meaning, message_fate fate, const char* words,
                        std::vector<std::string> must_have, std::vector<std::string> may_have) {
  fault_kind k;
  k.name = name;
  k.meaning = meaning;
  k.must_have = std::move(must_have);
  k.may_have = std::move(may_have);
  k.apply = [fate](spec f, stage& s) {
    return s.next_messages({fate, f.from, f.to, f.message, f.messages, f.by, f.text});
  };
  k.words = [words](spec f) {
    return fmt::format("the next {} control message{} from {} to {} {}",
                       f.messages == 1 ? f.message : fmt::format("{} {}", f.messages, f.message),
                       f.messages == 1 ? "" : "s", f.from, f.to, words) +
           (f.by.count() != 0 ? " by " + ms(f.by) : "");
  };
  return k;
}

std::vector<fault_kind> make_kinds() {
  std::vector<fault_kind> all;
  // -- devices
  all.push_back({"link_down",
                 "The device's port goes down.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.set_link(f.device, false); },
                 [](spec f, stage& s) { return s.set_link(f.device, true); },
                 [](spec f) { return "the link of " + f.device + " goes down"; }});
  all.push_back({"link_up",
                 "The device's port comes up.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.set_link(f.device, true); },
                 {},
                 [](spec f) { return "the link of " + f.device + " comes up"; },
                 true});
  all.push_back({"hang",
                 "WRs of the device are swallowed: no completion, no error, until they are flushed.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.set_hang(f.device, true); },
                 [](spec f, stage& s) { return s.set_hang(f.device, false); },
                 [](spec f) { return f.device + " hangs"; }});
  all.push_back({"heal",
                 "The device hangs no longer; what it swallowed stays lost.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.set_hang(f.device, false); },
                 {},
                 [](spec f) { return f.device + " hangs no longer"; },
                 true});
  all.push_back({"delay",
                 "Packets that leave the device arrive later, whatever became of their sender.",
                 {"device", "by_ms"},
                 {},
                 [](spec f, stage& s) { return s.set_delay(f.device, f.by); },
                 [](spec f, stage& s) { return s.set_delay(f.device, {}); },
                 [](spec f) { return "packets of " + f.device + " are late by " + ms(f.by); }});
  all.push_back({"rate",
                 "The device is as fast as this from now on.",
                 {"device", "gbit_s"},
                 {},
                 [](spec f, stage& s) { return s.set_rate(f.device, f.gbit_s); },
                 [](spec f, stage& s) { return s.set_rate(f.device, s.usual_rate(f.device)); },
                 [](spec f) { return fmt::format("{} runs at {:g} Gbit/s", f.device, f.gbit_s); }});
  all.push_back({"gid_set",
                 "A place of the port's GID table gets this address (RoCE v2).",
                 {"device", "index", "gid"},
                 {},
                 [](spec f, stage& s) { return s.set_gid(f.device, f.index, f.gid); },
                 {},
                 [](spec f) { return fmt::format("GID {} of {} becomes {}", f.index, f.device, f.gid); }});
  all.push_back({"gid_delete",
                 "A place of the port's GID table becomes empty.",
                 {"device", "index"},
                 {},
                 [](spec f, stage& s) { return s.delete_gid(f.device, f.index); },
                 {},
                 [](spec f) { return fmt::format("GID {} of {} is deleted", f.index, f.device); }});
  all.push_back(
      {"gid_move",
       "An address moves to another place of the port's GID table.",
       {"device", "index", "to_index"},
       {},
       [](spec f, stage& s) { return s.move_gid(f.device, f.index, f.to_index); },
       [](spec f, stage& s) { return s.move_gid(f.device, f.to_index, f.index); },
       [](spec f) { return fmt::format("GID {} of {} moves to {}", f.index, f.device, f.to_index); }});
  all.push_back({"mtu",
                 "The port's MTU becomes this; it raises no event.",
                 {"device", "mtu"},
                 {},
                 [](spec f, stage& s) { return s.set_mtu(f.device, f.mtu); },
                 [](spec f, stage& s) { return s.set_mtu(f.device, s.usual_mtu(f.device)); },
                 [](spec f) { return fmt::format("the MTU of {} becomes {}", f.device, f.mtu); }});
  all.push_back({"revoke_memory",
                 "The memory that a traffic reaches at its `to` is deregistered; undone, it has new keys.",
                 {"traffic", "for_ms"},
                 {},
                 [](spec f, stage& s) { return s.revoke_memory(f.traffic, true); },
                 [](spec f, stage& s) { return s.revoke_memory(f.traffic, false); },
                 [](spec f) { return "the memory of " + f.traffic + " is deregistered"; }});
  // -- control network
  all.push_back(
      {"control_cut",
       "All control links between two hosts are reset; they can be dialled again.",
       {"from", "to"},
       {},
       [](spec f, stage& s) { return s.cut_control(f.from, f.to); },
       {},
       [](spec f) { return "the control links between " + f.from + " and " + f.to + " are reset"; }});
  all.push_back(
      {"control_black_hole",
       "Nothing gets through between two hosts on the control network, in either direction.",
       {"from", "to"},
       {},
       [](spec f, stage& s) { return s.black_hole_control(f.from, f.to, true); },
       [](spec f, stage& s) { return s.black_hole_control(f.from, f.to, false); },
       [](spec f) { return "the control network between " + f.from + " and " + f.to + " swallows all"; }});
  all.push_back(
      {"control_latency",
       "Control messages in this direction take so long.",
       {"from", "to", "by_ms"},
       {},
       [](spec f, stage& s) { return s.set_control_latency(f.from, f.to, f.by); },
       [](spec f, stage& s) {
         return s.set_control_latency(f.from, f.to, s.usual_control_latency(f.from, f.to));
       },
       [](spec f) { return fmt::format("control messages from {} to {} take {}", f.from, f.to, ms(f.by)); }});
  all.push_back({"control_refuse",
                 "Dials to the host are refused, as if nobody listened.",
                 {"host"},
                 {},
                 [](spec f, stage& s) { return s.refuse_dials(f.host, true); },
                 [](spec f, stage& s) { return s.refuse_dials(f.host, false); },
                 [](spec f) { return "dials to " + f.host + " are refused"; }});
  all.push_back(message_kind("control_drop", "The next control messages are lost; the link stays.",
                             message_fate::lost, "are lost", {"from", "to"}, {"messages", "message"}));
  all.push_back(message_kind("control_duplicate", "The next control messages arrive twice.",
                             message_fate::twice, "arrive twice", {"from", "to"}, {"messages", "message"}));
  all.push_back(message_kind("control_truncate", "The next control messages lose their second half.",
                             message_fate::truncated, "are cut in half", {"from", "to"},
                             {"messages", "message"}));
  all.push_back(message_kind(
      "control_delay", "The next control messages are late, and so is what follows them on their link.",
      message_fate::late, "are late", {"from", "to", "by_ms"}, {"messages", "message"}));
  all.push_back(message_kind(
      "control_reject", "The next CONNECT messages do not arrive; their sender gets a REJECT.",
      message_fate::refused, "are answered with a refusal", {"from", "to"}, {"messages", "text"}));
  // -- hosts
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
  return all;
}

} // namespace

const std::vector<fault_kind>& fault_kinds() {
  static const auto kinds = make_kinds();
  return kinds;
}

const fault_kind* find_fault_kind(const std::string& name) {
  const auto& all = fault_kinds();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& k) { return k.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string describe(const fault_spec& what) {
  std::string when;
  if (what.at)
    when = "at " + ms(*what.at);
  else if (what.after_completions)
    when = fmt::format("after {} transfers{} have ended", *what.after_completions,
                       what.traffic.empty() ? "" : " of " + what.traffic);
  if (what.spread.count() != 0)
    when += " (and up to " + ms(what.spread) + " later)";
  const auto* kind = find_fault_kind(what.kind);
  auto text = when + ": " + (kind != nullptr ? kind->words(what) : what.kind);
  if (what.lasts)
    text += ", for " + ms(*what.lasts);
  if (what.times > 1)
    text += fmt::format(", {} times, every {}", what.times, ms(what.every));
  return text;
}

} // namespace actor_rdma::drill
