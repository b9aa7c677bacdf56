// SPDX-License-Identifier: Apache-2.0
// Parsing a file, and keys that stand twice in it.
#include "drill/format/read.hpp"

#include "base/input.hpp"
#include "drill/format/cross_checks.hpp"
#include "drill/format/expand.hpp"
#include "drill/format/tables.hpp"

#include <set>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using format::complaints;

/// A file of this kind is a page or two.
constexpr std::size_t most_bytes = 4u << 20;

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
  format::expand(s);
  if (wrong.empty())
    format::check_together(s, wrong);
  if (!wrong.empty())
    return tl::unexpected{std::move(wrong)};
  return s;
}

tl::expected<scenario, std::vector<std::string>> read_scenario(const std::string& path) {
  const auto text = base::read_regular_file(path, most_bytes);
  if (!text)
    return tl::unexpected{complaints{text.error().to_string()}};
  auto read = parse_scenario(*text);
  if (read) {
    read->path = path;
    return read;
  }
  for (auto& c : read.error())
    c.insert(0, path + ": ");
  return read;
}

} // namespace actor_rdma::drill
