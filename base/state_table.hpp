// SPDX-License-Identifier: Apache-2.0
//
// State machines as complete tables. A table maps every pair of state and event to a next state and an
// action, or to "ignored" with a reason; a pair that is missing or given twice does not compile. The machine
// below is the only thing that changes a state, so that what it reports is all that ever happened.
//
//   enum class state : std::uint8_t { idle, running, count };   // each enum ends with `count`
//   inline constexpr state_table<state, event, action> table{
//       {state::idle, event::start, state::running, action::spin_up},
//       {state::idle, event::stop, ignored{"nothing is running"}},
//       ...};
//   machine<table> m{state::idle, now};
//   switch (m.apply(event::start, now).act) ...
#pragma once

#include "base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace actor_rdma::base {

template <class E>
concept counted_enum = requires {
  E::count;
};

struct ignored {
  const char* why;
};

/// What a table says about one pair. Only an ignored one has a reason.
template <counted_enum State, counted_enum Event, counted_enum Action>
struct table_row {
  State from{};
  Event on{};
  State to{};
  Action act{};
  const char* ignored_why = nullptr;
  bool given = false;

  constexpr table_row() = default;
  constexpr table_row(State s, Event e, State next, Action a)
      : from{s}, on{e}, to{next}, act{a}, given{true} {}
  constexpr table_row(State s, Event e, ignored reason)
      : from{s}, on{e}, to{s}, ignored_why{reason.why}, given{true} {}

  [[nodiscard]] constexpr bool is_ignored() const noexcept { return ignored_why != nullptr; }
};

enum class table_defect : std::uint8_t { none, pair_missing, pair_given_twice, value_out_of_range };

// Not constexpr on purpose: reached while a table is built at compile time, each ends the compilation with
// its name.
inline void this_table_lacks_a_pair_of_state_and_event() {}
inline void this_table_has_a_pair_of_state_and_event_twice() {}
inline void this_table_has_a_state_event_or_action_out_of_range() {}

template <counted_enum StateT, counted_enum EventT, counted_enum ActionT>
class state_table {
public:
  using state = StateT;
  using event = EventT;
  using action = ActionT;
  using row = table_row<state, event, action>;

  static constexpr auto states = static_cast<std::size_t>(state::count);
  static constexpr auto events = static_cast<std::size_t>(event::count);
  static constexpr auto actions = static_cast<std::size_t>(action::count);

  consteval state_table(std::initializer_list<row> rows) {
    switch (find_defect({rows.begin(), rows.size()})) {
    case table_defect::none: break;
    case table_defect::pair_missing: this_table_lacks_a_pair_of_state_and_event(); break;
    case table_defect::pair_given_twice: this_table_has_a_pair_of_state_and_event_twice(); break;
    case table_defect::value_out_of_range: this_table_has_a_state_event_or_action_out_of_range(); break;
    }
    for (const auto& r : rows)
      cells_[index(r.from, r.on)] = r;
  }

  [[nodiscard]] static constexpr table_defect find_defect(std::span<const row> rows) {
    std::array<bool, states * events> given{};
    for (const auto& r : rows) {
      if (static_cast<std::size_t>(r.from) >= states || static_cast<std::size_t>(r.on) >= events ||
          static_cast<std::size_t>(r.to) >= states || static_cast<std::size_t>(r.act) >= actions)
        return table_defect::value_out_of_range;
      auto& seen = given[index(r.from, r.on)];
      if (seen)
        return table_defect::pair_given_twice;
      seen = true;
    }
    return rows.size() == given.size() ? table_defect::none : table_defect::pair_missing;
  }

  [[nodiscard]] constexpr const row& lookup(state s, event e) const { return cells_[index(s, e)]; }

  [[nodiscard]] static constexpr std::size_t index(state s, event e) noexcept {
    return static_cast<std::size_t>(s) * events + static_cast<std::size_t>(e);
  }

private:
  std::array<row, states * events> cells_{};
};

/// What one event did.
template <class Table>
struct outcome {
  typename Table::state from;
  typename Table::state to;
  typename Table::event on;
  typename Table::action act; // meaningless when ignored
  const char* ignored_why;
  duration in_state; // how long `from` had lasted

  [[nodiscard]] constexpr bool is_ignored() const noexcept { return ignored_why != nullptr; }
  [[nodiscard]] constexpr bool changed() const noexcept { return from != to; }
};

/// A state and the one function that changes it.
template <const auto& Table>
class machine {
public:
  using table_type = std::remove_cvref_t<decltype(Table)>;
  using state_type = typename table_type::state;
  using event_type = typename table_type::event;
  using outcome_type = outcome<table_type>;
  using observer = void (*)(void* context, const outcome_type&, time_point now);

  constexpr machine(state_type initial, time_point now) noexcept : state_{initial}, entered_at_{now} {}

  /// Sees every outcome, ignored ones included, after the state has changed.
  constexpr void set_observer(observer observe, void* context) noexcept {
    observe_ = observe;
    context_ = context;
  }

  constexpr outcome_type apply(event_type e, time_point now) {
    const auto& row = Table.lookup(state_, e);
    const outcome_type result{state_, row.to, e, row.act, row.ignored_why, now - entered_at_};
    if (row.is_ignored())
      ++ignored_[table_type::index(state_, e)];
    if (result.changed()) {
      state_ = row.to;
      entered_at_ = now;
    }
    if (observe_)
      observe_(context_, result, now);
    return result;
  }

  [[nodiscard]] constexpr state_type state() const noexcept { return state_; }
  [[nodiscard]] constexpr bool in(state_type s) const noexcept { return state_ == s; }
  [[nodiscard]] constexpr time_point entered_at() const noexcept { return entered_at_; }

  [[nodiscard]] constexpr std::uint32_t ignored_count(state_type s, event_type e) const noexcept {
    return ignored_[table_type::index(s, e)];
  }
  [[nodiscard]] constexpr std::uint64_t ignored_total() const noexcept {
    std::uint64_t total = 0;
    for (const auto n : ignored_)
      total += n;
    return total;
  }

private:
  state_type state_;
  time_point entered_at_;
  observer observe_ = nullptr;
  void* context_ = nullptr;
  std::array<std::uint32_t, table_type::states * table_type::events> ignored_{};
};

} // namespace actor_rdma::base
