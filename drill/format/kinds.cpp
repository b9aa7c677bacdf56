// SPDX-License-Identifier: Apache-2.0
// Keys of faults and expectations: one table each, of which every kind takes a part.
#include "bootstrap/messages.hpp"
#include "drill/checks/expectations.hpp"
#include "drill/fault_kinds.hpp"
#include "drill/format/keys.hpp"
#include "drill/format/tables.hpp"
#include "verbs/soft/rules/rule_words.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

namespace actor_rdma::drill::format {

namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> words_of(std::span<const verbs::soft::rule_word> words) {
  std::vector<std::string> all;
  for (const auto& w : words)
    all.emplace_back(w.name);
  return all;
}

/// A rule that ends or acts by itself would hide from the run when its faults are over.
void check_rule(const value& from, const std::string& key, const std::string& text) {
  using verbs::soft::rule_target;
  const auto read = verbs::soft::parse_rule(text);
  if (!read)
    from.complain_at(key, read.error().what);
  else if (read->target == rule_target::timer)
    from.complain_at(key,
                     "do=raise and do=link act by themselves: say kind async_event, link_down or link_up");
  else if (read->after != 0 || read->during != verbs::soft::never)
    from.complain_at(key, "after_ms and for_ms are said of the fault, not in the rule");
}

template <class Number>
void one_of(const value& v, std::initializer_list<double> accepted, const char* accepts, Number& into) {
  const auto& n = v.node();
  if (!n.is_number() || std::find(accepted.begin(), accepted.end(), n.get<double>()) == accepted.end())
    return v.refuse(accepts);
  into = n.get<Number>();
}

template <class Kinds>
std::vector<std::string> names_of(const Kinds& kinds) {
  std::vector<std::string> all;
  for (const auto& k : kinds)
    all.push_back(k.name);
  return all;
}

/// The kind that the object names; complains if there is none.
template <class Kinds, class Find>
auto kind_of(const value& from, const Kinds& kinds, Find find) -> decltype(find(std::string{})) {
  const auto accepts = "one of " + listed(names_of(kinds));
  if (!from.node().is_object()) {
    from.refuse("an object, { ... }");
    return nullptr;
  }
  if (!from.node().contains("kind")) {
    from.complain_at("kind", "is missing, accepted is " + accepts);
    return nullptr;
  }
  const auto& name = from.node().at("kind");
  const auto* kind = name.is_string() ? find(name.get<std::string>()) : nullptr;
  if (kind == nullptr)
    from.member("kind").refuse(accepts);
  return kind;
}

void need(const value& from, const std::vector<std::string>& keys, const std::string& kind) {
  for (const auto& k : keys)
    if (!from.node().contains(k))
      from.complain_at(k, "is missing, a " + kind + " needs it");
}

/// Of all kinds of expectations together.
std::vector<std::string> statuses() {
  std::vector<std::string> all;
  for (const auto& k : expect_kinds())
    for (const auto& s : k.statuses)
      if (!has(all, s))
        all.push_back(s);
  return all;
}

std::vector<std::string> causes() {
  std::vector<std::string> all;
  for (unsigned i = 0; i < static_cast<unsigned>(base::reason::count); ++i)
    all.emplace_back(base::to_string(static_cast<base::reason>(i)));
  return all;
}

template <std::size_t... I>
std::vector<std::string> names_of_bodies(std::index_sequence<I...>) {
  return {bootstrap::type_name(bootstrap::body{std::in_place_index<I>})...};
}

std::vector<std::string> message_types() {
  return names_of_bodies(std::make_index_sequence<std::variant_size_v<bootstrap::body>>{});
}

std::vector<std::string> event_kinds() {
  std::vector<std::string> all;
  for (unsigned i = 0; i <= static_cast<unsigned>(observe::event_kind::internal_fault); ++i)
    all.emplace_back(to_string(static_cast<observe::event_kind>(i)));
  return all;
}

/// What is said of a fault's time has to mean something.
void check_when(const value& from, const fault_kind& kind, const fault_spec& f) {
  const auto says = [&](const char* key) { return from.node().contains(key); };
  if (says("at_ms") == says("after_completions"))
    from.complain("needs either at_ms or after_completions");
  for (const auto* key : {"spread_ms", "times", "every_ms"})
    if (says(key) && says("after_completions"))
      from.complain_at(key, "goes with at_ms only");
  if (says("traffic") && !says("after_completions") && !has(kind.must_have, "traffic"))
    from.complain_at("traffic", "goes with after_completions only, for a " + kind.name);
  if (says("after_completions"))
    return;
  if (f.times > 1 && !says("every_ms"))
    from.complain_at("every_ms",
                     "is missing, accepted is a number of milliseconds: the time from one to the next");
  if (f.times == 1 && says("every_ms"))
    from.complain_at("every_ms", "goes with times of 2 or more only");
  if (f.times > 1 && says("every_ms") && f.lasts && *f.lasts >= f.every)
    from.complain_at("for_ms", "must be shorter than every_ms");
}

/// A span that is empty has no figure, and bounds that exclude each other no run that keeps them.
void check_expect(const value& from, const expect_spec& e) {
  if (e.before && *e.before <= e.after)
    from.complain_at("before_ms", "must be after after_ms");
  if (e.base_before && *e.base_before <= e.base_after)
    from.complain_at("base_before_ms", "must be after base_after_ms");
  if (!e.at_least && !e.at_most && !e.equals)
    from.complain("needs at_least, at_most or equals");
  if ((e.at_least && e.at_most && *e.at_least > *e.at_most) ||
      (e.equals && ((e.at_least && *e.at_least > *e.equals) || (e.at_most && *e.at_most < *e.equals))))
    from.complain("at_least, at_most and equals exclude each other");
}

} // namespace

const key_table<fault_spec>& fault_keys() {
  using f = fault_spec;
  static const key_table<f> table{
      choice("kind", &f::kind, names_of(fault_kinds())).required(),
      ms("at_ms", &f::at),
      ms("spread_ms", &f::spread),
      whole("after_completions", &f::after_completions, 1, 1'000'000'000),
      text("traffic", &f::traffic, "the name of a traffic"),
      ms("for_ms", &f::lasts, 0.001),
      whole("times", &f::times, 1, 1'000'000),
      ms("every_ms", &f::every, 0.001),
      text("device", &f::device, "a device, \"host/soft0\""),
      text("host", &f::host, "the name of a host"),
      text("from", &f::from, "the name of a host"),
      text("to", &f::to, "the name of a host"),
      ms("by_ms", &f::by),
      real("gbit_s", &f::gbit_s, 0.001, 10000, "a number of Gbit/s"),
      whole("member", &f::member, 0, verbs::soft::greatest_bond - 1),
      ms("rehash_ms", &f::rehash),
      {"lanes", "one of 1, 2, 4, 8, 12",
       [](const value& v, f& into) {
         one_of(v, {1, 2, 4, 8, 12}, "one of 1, 2, 4, 8, 12", into.lanes);
       }},
      {"lane_gbit_s", "one of 2.5, 5, 10, 14, 25, 50, 100",
       [](const value& v, f& into) {
         one_of(v, {2.5, 5, 10, 14, 25, 50, 100}, "one of 2.5, 5, 10, 14, 25, 50, 100", into.lane_gbit_s);
       }},
      whole("index", &f::index, 0, 15),
      whole("to_index", &f::to_index, 0, 15),
      {"gid", "an address, like 10.0.0.1 or fe80::1",
       [](const value& v, f& into) {
         if (!v.node().is_string() || !verbs::soft::parse_gid(v.node().get<std::string>()))
           return v.refuse("an address, like 10.0.0.1 or fe80::1");
         into.gid = v.node().get<std::string>();
       }},
      mtu("mtu", &f::mtu),
      whole("lid", &f::lid, 0, verbs::soft::greatest_lid),
      whole("messages", &f::messages, 1, 1'000'000),
      choice("message", &f::message, message_types()),
      text("text", &f::text),
      text("rule", &f::rule, "a rule of the software NIC"),
      choice("event", &f::event, words_of(verbs::soft::event_words())),
      whole("count", &f::count, 1, 100'000),
      text("peer", &f::peer, "a device or a host"),
      choice("direction", &f::direction, {"tx", "rx", "request", "ack"}),
      text("verb", &f::verb, "the name of a verbs call, or create, destroy, query, any"),
      choice("error", &f::error, words_of(verbs::soft::errno_words())),
      choice("resource", &f::resource, exhaustible_resources()),
      flag("quiet", &f::is_quiet),
      flag("hard", &f::is_hard),
  };
  return table;
}

const key_table<expect_spec>& expect_keys() {
  using e = expect_spec;
  static const key_table<e> table{
      choice("kind", &e::kind, names_of(expect_kinds())).required(),
      text("traffic", &e::traffic, "the name of a traffic"),
      text("host", &e::host, "the name of a host"),
      text("device", &e::device, "a device, \"host/soft0\""),
      choice("status", &e::status, statuses()),
      choice("cause", &e::cause, causes()),
      choice("event", &e::event, event_kinds()),
      text("subject", &e::subject),
      text("detail", &e::detail),
      real("percentile", &e::percentile, 0, 100),
      whole("fault", &e::fault, 0, 1'000'000),
      ms("window_ms", &e::window, 1, 2e8),
      ms("after_ms", &e::after),
      ms("before_ms", &e::before),
      ms("base_after_ms", &e::base_after),
      ms("base_before_ms", &e::base_before),
      real("at_least", &e::at_least, 0, 1e18),
      real("at_most", &e::at_most, 0, 1e18),
      real("equals", &e::equals, 0, 1e18),
  };
  return table;
}

void read_fault(const value& from, std::vector<fault_spec>& into) {
  const auto* kind = kind_of(from, fault_kinds(), find_fault_kind);
  if (kind == nullptr)
    return;
  static const std::vector<std::string> common{"kind",    "at_ms",  "spread_ms", "after_completions",
                                               "traffic", "for_ms", "times",     "every_ms"};
  fault_spec f;
  read_object(from, fault_keys(), f, [&](const std::string& k) {
    return (has(common, k) && (k != "for_ms" || kind->undo)) || has(kind->must_have, k) ||
           has(kind->may_have, k);
  });
  need(from, kind->must_have, kind->name);
  const bool is_complete = std::all_of(kind->must_have.begin(), kind->must_have.end(),
                                       [&](const auto& k) { return from.node().contains(k); });
  if (kind->rules && is_complete)
    for (const auto& r : kind->rules(f))
      check_rule(from, f.verb.empty() ? (f.rule.empty() ? "kind" : "rule") : "verb", r);
  check_when(from, *kind, f);
  into.push_back(std::move(f));
}

void read_expect(const value& from, std::vector<expect_spec>& into) {
  const auto* kind = kind_of(from, expect_kinds(), find_expect_kind);
  if (kind == nullptr)
    return;
  static const std::vector<std::string> common{"kind", "at_least", "at_most", "equals"};
  expect_spec e;
  read_object(from, expect_keys(), e, [&](const std::string& k) {
    return has(common, k) || has(kind->must_have, k) || has(kind->may_have, k);
  });
  need(from, kind->must_have, kind->name);
  if (!e.status.empty() && !has(kind->statuses, e.status))
    from.member("status").refuse("one of " + listed(kind->statuses));
  check_expect(from, e);
  into.push_back(std::move(e));
}

} // namespace actor_rdma::drill::format
