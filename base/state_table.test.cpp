// SPDX-License-Identifier: Apache-2.0
//
// Tests of state tables with a small door: that a table must be complete, what the machine reports and
// counts, and how a table reads.
#include "base/state_table.hpp"

#include "base/state_table_render.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

namespace {

enum class door : std::uint8_t { open, closed, locked, count };
enum class push : std::uint8_t { pull, shove, turn_key, count };
enum class reply : std::uint8_t { none, creak, click, count };

using door_table = state_table<door, push, reply>;
using row = door_table::row;

constexpr door_table table{
    {door::open, push::pull, ignored{"already open"}},
    {door::open, push::shove, door::closed, reply::creak},
    {door::open, push::turn_key, ignored{"an open door cannot be locked"}},
    {door::closed, push::pull, door::open, reply::creak},
    {door::closed, push::shove, door::closed, reply::none},
    {door::closed, push::turn_key, door::locked, reply::click},
    {door::locked, push::pull, ignored{"locked"}},
    {door::locked, push::shove, ignored{"locked"}},
    {door::locked, push::turn_key, door::closed, reply::click},
};

static_assert(table.lookup(door::closed, push::turn_key).to == door::locked);
static_assert(table.lookup(door::locked, push::pull).is_ignored());
static_assert(table.lookup(door::locked, push::pull).to == door::locked);

const char* to_string(door d) {
  constexpr std::array<const char*, 3> names{"open", "closed", "locked"};
  return names[static_cast<std::size_t>(d)];
}
const char* to_string(push p) {
  constexpr std::array<const char*, 3> names{"pull", "shove", "turn_key"};
  return names[static_cast<std::size_t>(p)];
}
const char* to_string(reply r) {
  constexpr std::array<const char*, 3> names{"none", "creak", "click"};
  return names[static_cast<std::size_t>(r)];
}

constexpr table_names<door_table> names{to_string, to_string, to_string};

} // namespace

TEST_CASE("a table with a hole, a double or a stray value is recognised") {
  const std::vector<row> all = [] {
    std::vector<row> rows;
    for (const auto s : {door::open, door::closed, door::locked}) {
      for (const auto e : {push::pull, push::shove, push::turn_key})
        rows.emplace_back(s, e, s, reply::none);
    }
    return rows;
  }();
  CHECK(door_table::find_defect(all) == table_defect::none);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto rows = all;
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(door_table::find_defect(rows) == table_defect::pair_missing);
    rows.push_back(rows.front());
    CHECK(door_table::find_defect(rows) == table_defect::pair_given_twice);
  }
  auto rows = all;
  rows[0].to = door::count;
  CHECK(door_table::find_defect(rows) == table_defect::value_out_of_range);
}

TEST_CASE("a machine follows its table and says what happened") {
  const time_point start{1s};
  machine<table> m{door::open, start};
  const auto shut = m.apply(push::shove, start + 3ms);
  CHECK(shut.from == door::open);
  CHECK(shut.to == door::closed);
  CHECK(shut.act == reply::creak);
  CHECK(shut.changed());
  CHECK(shut.in_state == 3ms);
  CHECK(m.in(door::closed));
  CHECK(m.entered_at() == start + 3ms);
}

TEST_CASE("an event that keeps the state acts without entering it anew") {
  const time_point start{1s};
  machine<table> m{door::closed, start};
  const auto again = m.apply(push::shove, start + 1s);
  CHECK_FALSE(again.is_ignored());
  CHECK_FALSE(again.changed());
  CHECK(m.entered_at() == start);
}

TEST_CASE("an ignored event changes nothing, is counted by pair and carries its reason") {
  machine<table> m{door::locked, time_point{}};
  for (int i = 0; i < 3; ++i) {
    const auto refused = m.apply(push::pull, time_point{1s});
    CHECK(refused.is_ignored());
    CHECK(std::string{refused.ignored_why} == "locked");
  }
  m.apply(push::shove, time_point{1s});
  CHECK(m.state() == door::locked);
  CHECK(m.entered_at() == time_point{});
  CHECK(m.ignored_count(door::locked, push::pull) == 3);
  CHECK(m.ignored_count(door::locked, push::shove) == 1);
  CHECK(m.ignored_count(door::open, push::pull) == 0);
  CHECK(m.ignored_total() == 4);
}

TEST_CASE("an observer sees every outcome after the state has changed") {
  struct watcher {
    machine<table>* watched;
    std::string seen;
  };
  machine<table> m{door::open, time_point{}};
  watcher w{&m, {}};
  m.set_observer(
      [](void* context, const machine<table>::outcome_type& o, time_point) {
        auto* const self = static_cast<watcher*>(context);
        CHECK(self->watched->state() == o.to);
        self->seen += std::string{to_string(o.from)} + (o.is_ignored() ? "=" : ">") + to_string(o.to) + " ";
      },
      &w);
  m.apply(push::pull, time_point{1s});
  m.apply(push::shove, time_point{2s});
  m.apply(push::turn_key, time_point{3s});
  CHECK(w.seen == "open=open open>closed closed>locked ");
}

TEST_CASE("the matrix shows every pair and why some are ignored") {
  CHECK(render_matrix(table, names) == "event      open             closed           locked\n"
                                       "pull       - [1]            open / creak     - [2]\n"
                                       "shove      closed / creak   closed / none    - [2]\n"
                                       "turn_key   - [3]            locked / click   closed / click\n"
                                       "\n"
                                       "Ignored, because:\n"
                                       "[1] already open\n"
                                       "[2] locked\n"
                                       "[3] an open door cannot be locked\n");
}

TEST_CASE("the graph shows the transitions, one arrow for two states") {
  CHECK(render_dot(table, names, "door") == "digraph \"door\" {\n"
                                            "  rankdir=LR;\n"
                                            "  node [shape=box, style=rounded];\n"
                                            "  \"open\";\n"
                                            "  \"closed\";\n"
                                            "  \"locked\";\n"
                                            "  \"open\" -> \"closed\" [label=\"shove / creak\"];\n"
                                            "  \"closed\" -> \"open\" [label=\"pull / creak\"];\n"
                                            "  \"closed\" -> \"closed\" [label=\"shove / none\"];\n"
                                            "  \"closed\" -> \"locked\" [label=\"turn_key / click\"];\n"
                                            "  \"locked\" -> \"closed\" [label=\"turn_key / click\"];\n"
                                            "}\n");
}
