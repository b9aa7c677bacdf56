// SPDX-License-Identifier: Apache-2.0
// How the transfers of a batch went, for those who ask when they submit it: what each rail carried, how often
// a part was issued again, and how long it waited and travelled. Written by the peer actor, which has to come
// to no allocation here, and read by anybody once the transfer has ended.
#pragma once

#include "base/time.hpp"
#include "observe/transfer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::actors {

/// "a/soft0>b/soft0". Shared, because receipts outlive the rail.
using rail_name = std::shared_ptr<const std::string>;

class receipt_book {
public:
  /// Rails of one transfer that are told apart; what others carry is counted together.
  static constexpr std::size_t rails_kept = 16;

  explicit receipt_book(std::size_t transfers) : entries_(transfers) {}

  /// A WR of the transfer goes to a QP of this rail.
  void handed(std::size_t transfer, const rail_name& rail, bool again, base::time_point now) noexcept;
  /// A WR of it has succeeded there, and its bytes count.
  void delivered(std::size_t transfer, const rail_name& rail, std::uint64_t bytes,
                 base::time_point now) noexcept;
  transfer_receipt of(std::size_t transfer, base::time_point submitted) const;

private:
  struct share {
    rail_name rail; ///< nullptr: a free place
    std::uint64_t bytes = 0;
    std::uint32_t wrs = 0;
  };
  struct entry {
    std::array<share, rails_kept + 1> shares; ///< the last one is that of all other rails
    std::uint32_t issued_again = 0;
    std::optional<base::time_point> first;
    std::optional<base::time_point> last;
  };
  static share& share_of(entry& of, const rail_name& rail) noexcept;

  std::vector<entry> entries_;
};

} // namespace actor_rdma::actors
