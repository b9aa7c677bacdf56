// SPDX-License-Identifier: Apache-2.0
// Parsing, and what no single key can see: names that mean nothing, and keys that stand twice.
#include "drill/format/read.hpp"

#include "base/error.hpp"
#include "drill/checks/expectations.hpp"
#include "drill/format/tables.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using format::complaints;

/// A file of this kind is a page or two; a device never ends.
constexpr std::size_t most_bytes = 4u << 20;

std::string names_of(const scenario& s) {
  std::string all;
  for (const auto& h : s.hosts)
    all += (all.empty() ? "" : ", ") + h.name;
  return all;
}

void check_host(const scenario& s, const std::string& where, const std::string& name, complaints& to) {
  if (!name.empty() && s.host(name) == nullptr)
    to.push_back(fmt::format("{}: there is no host \"{}\", hosts are {}", where, name, names_of(s)));
}

std::vector<std::string> devices_of(const scenario& s) {
  std::vector<std::string> all;
  for (const auto& h : s.hosts)
    for (const auto& d : h.nics())
      all.push_back(h.name + "/" + d.name);
  return all;
}

void check_device(const scenario& s, const std::string& where, const std::string& name, complaints& to) {
  if (name.empty())
    return;
  std::string all;
  for (const auto& d : devices_of(s)) {
    if (name == d)
      return;
    all += (all.empty() ? "" : ", ") + d;
  }
  to.push_back(fmt::format("{}: there is no device \"{}\", devices are {}", where, name, all));
}

/// A pattern of a rule: a device, a host, or "soft0" on every host.
void check_pattern(const scenario& s, const std::string& where, const std::string& pattern, complaints& to) {
  if (pattern.empty())
    return;
  std::string all;
  for (const auto& d : devices_of(s)) {
    if (verbs::soft::names_device(pattern, d))
      return;
    all += (all.empty() ? "" : ", ") + d;
  }
  to.push_back(fmt::format("{}: \"{}\" means no device, devices are {}", where, pattern, all));
}

void check_traffic(const scenario& s, const std::string& where, const std::string& name, complaints& to) {
  std::string all;
  for (const auto& t : s.traffic) {
    if (name.empty() || t.name == name)
      return;
    all += (all.empty() ? "" : ", ") + t.name;
  }
  if (!name.empty())
    to.push_back(fmt::format("{}: there is no traffic \"{}\", traffic is {}", where, name, all));
}

void check_names(const scenario& s, complaints& to) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < s.hosts.size(); ++i)
    if (!seen.insert(s.hosts[i].name).second)
      to.push_back(fmt::format("hosts[{}].name: \"{}\" is there twice", i, s.hosts[i].name));
  const auto pair = [&](const std::string& where, const std::string& from, const std::string& name) {
    check_host(s, where + ".from", from, to);
    check_host(s, where + ".to", name, to);
    if (!from.empty() && from == name)
      to.push_back(where + ".to: is the same host as from");
  };
  for (std::size_t i = 0; i < s.control.size(); ++i)
    pair(fmt::format("control[{}]", i), s.control[i].from, s.control[i].to);
  seen.clear();
  for (std::size_t i = 0; i < s.traffic.size(); ++i) {
    const auto& t = s.traffic[i];
    const auto where = fmt::format("traffic[{}]", i);
    pair(where, t.from, t.to);
    if (!seen.insert(t.name).second)
      to.push_back(fmt::format("{}.name: \"{}\" is there twice", where, t.name));
    if (t.repeat_until && *t.repeat_until <= t.start)
      to.push_back(where + ".repeat_until_ms: must be after start_ms");
    if (t.notices_only && (t.batch != 1 || t.notice))
      to.push_back(where + ".notices_only: goes neither with batch nor with notice");
  }
  for (std::size_t i = 0; i < s.faults.size(); ++i) {
    const auto& f = s.faults[i];
    const auto where = fmt::format("faults[{}]", i);
    pair(where, f.from, f.to);
    check_host(s, where + ".host", f.host, to);
    check_device(s, where + ".device", f.device, to);
    check_traffic(s, where + ".traffic", f.traffic, to);
    check_pattern(s, where + ".peer", f.peer, to);
    if (const auto rule = verbs::soft::parse_rule(f.rule); rule && !f.rule.empty()) {
      check_pattern(s, where + ".rule: dev", rule->device, to);
      check_pattern(s, where + ".rule: peer", rule->peer, to);
    }
  }
  for (std::size_t i = 0; i < s.expect.size(); ++i) {
    const auto& e = s.expect[i];
    const auto where = fmt::format("expect[{}]", i);
    check_host(s, where + ".host", e.host, to);
    check_device(s, where + ".device", e.device, to);
    check_traffic(s, where + ".traffic", e.traffic, to);
    const auto* kind = find_expect_kind(e.kind);
    if (kind != nullptr && kind->is_time_of_recovery && e.fault >= s.faults.size())
      to.push_back(
          fmt::format("{}.fault: there is no fault {}, accepted is its place in faults, from 0 to {}", where,
                      e.fault, std::max<std::size_t>(s.faults.size(), 1) - 1));
  }
}

/// nlohmann-json keeps the last of two members with one name; a person who writes two means something.
class duplicate_finder {
public:
  explicit duplicate_finder(complaints& to) : to_(to) {}
  bool operator()(int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using e = nlohmann::json::parse_event_t;
    if (event == e::object_start)
      open_.emplace_back();
    else if (event == e::object_end)
      open_.pop_back();
    else if (event == e::key && !open_.back().insert(parsed.get<std::string>()).second)
      to_.push_back(parsed.get<std::string>() + ": stands twice in one object");
    return true;
  }

private:
  complaints& to_;
  std::vector<std::set<std::string>> open_;
};

} // namespace

tl::expected<scenario, std::vector<std::string>> parse_scenario(const std::string& text) {
  complaints wrong;
  nlohmann::json root;
  try { // the one way to hear where a text stops being JSON
    duplicate_finder finder{wrong};
    root = nlohmann::json::parse(text, std::ref(finder), true, true);
  } catch (const nlohmann::json::parse_error& e) {
    return tl::unexpected{complaints{fmt::format("is not JSON (with // comments): {}", e.what())}};
  }
  scenario s;
  format::read_object(format::value{root, "", wrong}, format::scenario_keys(), s);
  for (std::size_t i = 0; i < s.traffic.size(); ++i)
    if (s.traffic[i].name.empty())
      s.traffic[i].name = fmt::format("{}-{}-{}", s.traffic[i].from, s.traffic[i].to, i);
  if (wrong.empty())
    check_names(s, wrong);
  if (!wrong.empty())
    return tl::unexpected{std::move(wrong)};
  return s;
}

tl::expected<scenario, std::vector<std::string>> read_scenario(const std::string& path) {
  std::ifstream in(path);
  std::string text(most_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad())
    return tl::unexpected{complaints{path + ": cannot be read: " + base::errno_text(errno)}};
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most_bytes)
    return tl::unexpected{complaints{fmt::format("{}: longer than {} bytes", path, most_bytes)}};
  auto read = parse_scenario(text);
  if (read) {
    read->path = path;
    return read;
  }
  for (auto& c : read.error())
    c.insert(0, path + ": ");
  return read;
}

} // namespace actor_rdma::drill
