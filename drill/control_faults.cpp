// SPDX-License-Identifier: Apache-2.0
// Faults of the control network: of whole links, and of single messages.
#include "drill/fault_kind_groups.hpp"

#include <utility>

namespace actor_rdma::drill {

namespace {

using spec = const fault_spec&;
using bootstrap::message_fate;

std::string messages_of(spec f) {
  return fmt::format("the next {} control message{}",
                     f.messages == 1 ? f.message : fmt::format("{} {}", f.messages, f.message),
                     f.messages == 1 ? "" : "s");
}

/// How long a message waits to be overtaken.
base::duration patience_of(spec f) {
  constexpr auto usual = std::chrono::milliseconds{100};
  return f.by.count() != 0 ? f.by : base::duration{usual};
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
    return fmt::format("{} from {} to {} {}", messages_of(f), f.from, f.to, words) +
           (f.by.count() != 0 ? " by " + ms(f.by) : "");
  };
  return k;
}

} // namespace

void add_control_kinds(std::vector<fault_kind>& all) {
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
  all.push_back({"control_reorder",
                 "The next control messages change places with those that follow them on their link.",
                 {"from", "to"},
                 {"messages", "message", "by_ms"},
                 [](spec f, stage& s) {
                   return s.next_messages(
                       {message_fate::overtaken, f.from, f.to, f.message, f.messages, patience_of(f), {}});
                 },
                 {},
                 [](spec f) {
                   return fmt::format("{} from {} to {} {} overtaken by what follows within {}",
                                      messages_of(f), f.from, f.to, f.messages == 1 ? "is" : "are",
                                      ms(patience_of(f)));
                 }});
}

} // namespace actor_rdma::drill
