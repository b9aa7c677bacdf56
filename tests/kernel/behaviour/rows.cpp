// SPDX-License-Identifier: Apache-2.0
//
// The table.
#include "tests/kernel/behaviour/rows.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace actor_rdma::tests::kernel {

namespace {

constexpr std::array table{
    // Links. The acknowledge time-out is 67 ms and there are 6 retries, unless it is said.
    row{"own port taken down", "gives up", "dies, stuck", "dies"},
    row{"own cable cut", "gives up", "held", "dies"},
    row{"peer's cable cut", "gives up", "gives up", "gives up"},
    row{"peer's cable cut for 300 ms", "held", "held", "held"},
    row{"everything lost silently", "gives up", "gives up", "gives up"},
    row{"requests lost silently", "gives up", "gives up", "gives up"},
    row{"answers lost silently", "gives up", "gives up", "gives up"},
    row{"everything lost silently, time-out 268 ms", "gives up", "gives up", "gives up"},
    row{"everything lost silently, 7 retries", "gives up", "held", "held"},
    row{"everything lost silently, no time-out", "stuck", "stuck", "stuck"},
    row{"no time-out, healed, one more request", "held", "held", "held"},
    row{"peer's queue pair destroyed", "gives up", "gives up", "gives up"},
    row{"peer's queue pair moved to ERR", "gives up", "gives up", "gives up"},
    row{"peer's queue pair destroyed, 7 retries", "gives up", "stuck", "stuck"},
    // Addresses and devices.
    row{"second address added", "goes on", "goes on", "goes on"},
    row{"own address removed", "gives up", "dies, stuck", "dies"},
    row{"where a returned address is found", "another", "another", "another"},
    row{"RTR with the index that it had", "ENODATA", "ENODATA", "ENODATA"},
    row{"peer's address removed", "gives up", "gives up", "gives up"},
    row{"own MAC address changed", "gives up", "dies, stuck", "dies"},
    row{"MTU below that of the path", "gives up", "held", "dies"},
    row{"cable of a bond's active member cut", "goes on", "dies, stuck", "dies"},
    row{"cable of a bond's other member cut", "goes on", "goes on", "goes on"},
    row{"device deleted while it is open", "fatal", "goes on", "goes on"},
    row{"interface deleted while the device is open", "-", "dies, stuck", "dies"},
    // Requests and states.
    row{"WRITE with a wrong key", "REM_ACCESS_ERR", "REM_ACCESS_ERR", "REM_ACCESS_ERR"},
    row{"READ of memory that was deregistered", "REM_ACCESS_ERR", "REM_ACCESS_ERR", "REM_ACCESS_ERR"},
    row{"the peer's queue pair after it", "ERR and QP_ACCESS_ERR", "ERR without an event",
        "ERR without an event"},
    row{"request beyond the own memory", "LOC_PROT_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR"},
    row{"SEND without a receive, no retry", "RNR_RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR"},
    row{"SEND without a receive, 3 retries", "RNR_RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR"},
    row{"SEND without a receive, 7 retries", "held", "held, RETRY_EXC_ERR", "held"},
    row{"to ERR with requests that are out", "flushed", "flushed", "flushed"},
    row{"to RESET with requests that are out", "no completion", "no completion", "no completion"},
    row{"post in RESET", "EINVAL", "EINVAL", "EINVAL"},
    row{"post in INIT", "EINVAL", "EINVAL", "EINVAL"},
    row{"post in ERR", "ok", "ok", "ok"},
    row{"post to a full send queue", "ENOMEM", "ENOMEM", "ENOMEM"},
    row{"RTR to an address that nobody has", "ok", "ETIMEDOUT", "ETIMEDOUT"},
    row{"RTR to where no way leads", "ok", "ETIMEDOUT", "ETIMEDOUT"},
    row{"RTR with the own port down", "ok", "ENETUNREACH", "ENETUNREACH"},
};

} // namespace

std::string_view row::in(world where) const noexcept {
  return where == world::soft ? soft : where == world::rxe_6_1 ? rxe_6_1 : rxe_6_12;
}

std::string errno_name(int error) {
  const char* const name = error == 0 ? "ok" : ::strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

std::span<const row> rows() noexcept {
  return table;
}

std::string table_line(const row& r) {
  return fmt::format("| {} | {} | {} | {} |", r.name, r.soft, r.rxe_6_1, r.rxe_6_12);
}

void check_row(world where, std::string_view name, std::string_view seen, const std::string& more) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const row& r) { return r.name == name; });
  REQUIRE_MESSAGE(found != table.end(), "the table has no row \"" << std::string{name} << '"');
  std::printf("row: %s: %s%s%s\n", std::string{name}.c_str(), std::string{seen}.c_str(),
              more.empty() ? "" : "; ", more.c_str());
  std::fflush(stdout);
  auto rest = found->in(where);
  bool is_there = false;
  while (!rest.empty()) {
    const auto end = rest.find(", ");
    is_there = is_there || rest.substr(0, end) == seen;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  }
  CHECK_MESSAGE(is_there, std::string{name} << ": seen is \"" << std::string{seen}
                                            << "\", and the table says \"" << std::string{found->in(where)}
                                            << '"');
}

} // namespace actor_rdma::tests::kernel
