// SPDX-License-Identifier: Apache-2.0
//
// Tables that must not compile. ctest hands this file to the compiler once per defect and looks for the
// sentence that the table stops with; without a defect it must compile.
#include "base/state_table.hpp"

using namespace actor_rdma::base;

enum class state : std::uint8_t { on, off, count };
enum class event : std::uint8_t { press, count };
enum class action : std::uint8_t { none, count };

// clang-format off
constexpr state_table<state, event, action> table{
    {state::on, event::press, state::off, action::none},
#if !defined(PAIR_MISSING)
    {state::off, event::press, state::on, action::none},
#endif
#if defined(PAIR_TWICE)
    {state::off, event::press, ignored{"again"}},
#endif
#if defined(OUT_OF_RANGE)
    {state::off, event::count, ignored{"no such event"}},
#endif
};
// clang-format on

static_assert(table.lookup(state::on, event::press).to == state::off);
