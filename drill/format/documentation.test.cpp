// SPDX-License-Identifier: Apache-2.0
// docs/scenarios.md is what a stranger writes a scenario from: it knows each key, kind and word that the
// reader accepts, and speaks of none that there is not.
#include "drill/checks/expectations.hpp"
#include "drill/fault_kinds.hpp"
#include "drill/format/tables.hpp"
#include "verbs/soft/rules/rule_words.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;

namespace {

using names = std::set<std::string>;

std::string section(const std::string& name) {
  std::ifstream in(ACTOR_RDMA_SOURCE_DIR "/docs/scenarios.md");
  const std::string page{std::istreambuf_iterator<char>{in}, {}};
  const auto from = page.find("\n### " + name + "\n");
  CAPTURE(name);
  REQUIRE(from != std::string::npos);
  const auto to = page.find("\n##", from + 5);
  return page.substr(from, to == std::string::npos ? to : to - from);
}

/// What stands between ` and `.
names in_ticks(const std::string& text) {
  names all;
  for (auto from = text.find('`'); from != std::string::npos;) {
    const auto to = text.find('`', from + 1);
    if (to == std::string::npos)
      break;
    all.insert(text.substr(from + 1, to - from - 1));
    from = text.find('`', to + 1);
  }
  return all;
}

/// The cells of each row of a section's tables.
std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `"))
      continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');)
      cells.push_back(cell);
    all.push_back(std::move(cells));
  }
  return all;
}

names keys_of(const std::string& object) {
  names all;
  for (const auto& k : format::all_keys())
    if (k.object.substr(0, k.object.find('.')) == object)
      all.insert(k.name);
  return all;
}

template <class Kind>
void check_kinds(const char* of, const std::vector<Kind>& kinds, std::size_t columns) {
  names known = keys_of(of);
  names told;
  std::size_t documented = 0;
  for (const auto& row : rows_of(section(of))) {
    const auto first = in_ticks(row.front());
    told.insert(first.begin(), first.end());
    for (const auto& k : kinds) {
      if (first != names{k.name} || row.size() != columns) // a key may have the name of a kind
        continue;
      ++documented;
      names keys{k.must_have.begin(), k.must_have.end()};
      keys.insert(k.may_have.begin(), k.may_have.end());
      CAPTURE(k.name);
      CHECK(in_ticks(row[1]) == keys);
    }
  }
  CHECK(documented == kinds.size());
  for (const auto& k : kinds)
    known.insert(k.name);
  CHECK(told == known);
}

} // namespace

TEST_CASE("the documentation's tables of keys are those of the reader, both ways") {
  for (const std::string object : {"", "hosts", "settings", "control", "traffic", "bounds"}) {
    CAPTURE(object);
    names told;
    for (const auto& row : rows_of(section(object.empty() ? "The file" : object))) {
      const auto first = in_ticks(row.front());
      told.insert(first.begin(), first.end());
      if (first == names{"limits"}) // its own keys stand in its row
        for (const auto& k : format::all_keys())
          if (k.object == "hosts.devices.limits") {
            CHECK(in_ticks(row[3]).count(k.name) == 1);
            told.insert(k.name);
          }
    }
    CHECK(told == keys_of(object));
  }
}

TEST_CASE("the documentation says of each fault and expectation which keys it takes, and no others") {
  check_kinds("faults", fault_kinds(), 4);
  check_kinds("expect", expect_kinds(), 3);
}

TEST_CASE("the documentation lists the words that events, errors, messages and causes accept") {
  const auto faults = in_ticks(section("faults"));
  for (const auto& w : verbs::soft::event_words())
    CHECK_MESSAGE(faults.count(w.name) == 1, w.name);
  for (const auto& w : verbs::soft::errno_words())
    CHECK_MESSAGE(faults.count(w.name) == 1, w.name);
  for (const auto& k : format::all_keys())
    if (k.object == "faults" && k.name == "message")
      for (std::istringstream words(k.accepts.substr(std::string{"one of "}.size())); words;) {
        std::string word;
        if (std::getline(words >> std::ws, word, ','))
          CHECK_MESSAGE(faults.count(word) == 1, word);
      }
  const auto expect = in_ticks(section("expect"));
  for (unsigned i = 0; i < static_cast<unsigned>(base::reason::count); ++i)
    CHECK_MESSAGE(expect.count(base::to_string(static_cast<base::reason>(i))) == 1, i);
  for (unsigned i = 0; i <= static_cast<unsigned>(observe::event_kind::internal_fault); ++i)
    CHECK_MESSAGE(expect.count(to_string(static_cast<observe::event_kind>(i))) == 1, i);
}
