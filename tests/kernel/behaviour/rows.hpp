// SPDX-License-Identifier: Apache-2.0
//
// The behaviour table: what a queue pair and its work requests do when something breaks, on the software NIC,
// on rdma_rxe of kernel 6.1 and of 6.12. It is asserted here, and docs/software-nic.md has the same table for
// readers.
#pragma once

#include "tests/kernel/behaviour/stage.hpp"

#include <span>
#include <string>
#include <string_view>

namespace actor_rdma::tests::kernel {

/// What may be seen in a row, in words; several with commas.
struct row {
  std::string_view name;
  std::string_view soft;
  std::string_view rxe_6_1;
  std::string_view rxe_6_12;
  std::string_view in(world where) const noexcept;
};

std::span<const row> rows() noexcept;
/// "| name | soft | 6.1 | 6.12 |"
std::string table_line(const row& r);

/// "ok" for 0, "ENODATA".
std::string errno_name(int error);

/// Says what was seen, and fails the test case if the row does not have it in this world. `more` goes into
/// the output only.
void check_row(world where, std::string_view name, std::string_view seen, const std::string& more = {});

} // namespace actor_rdma::tests::kernel
