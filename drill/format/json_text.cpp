// SPDX-License-Identifier: Apache-2.0
// Parsing, and keys that stand twice.
#include "drill/format/json_text.hpp"

#include <set>

#include <fmt/format.h>

namespace actor_rdma::drill::format {

namespace {

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

std::optional<nlohmann::json> parse_json(const std::string& text, complaints& wrong) {
  try { // the one way to hear where a text stops being JSON
    duplicate_finder finder{wrong};
    return nlohmann::json::parse(text, std::ref(finder), true, true);
  } catch (const nlohmann::json::exception& e) { // also for a number that is none of ours
    wrong = {fmt::format("is not JSON (with // comments): {}", e.what())};
    return std::nullopt;
  }
}

} // namespace actor_rdma::drill::format
