// SPDX-License-Identifier: Apache-2.0
// Receipts of transfers.
#include "actors/receipt.hpp"

namespace actor_rdma::actors {

receipt_book::share& receipt_book::share_of(entry& of, const rail_name& rail) noexcept {
  for (std::size_t i = 0; i < rails_kept; ++i) {
    auto& s = of.shares[i];
    if (s.rail == nullptr)
      s.rail = rail;
    if (s.rail == rail)
      return s;
  }
  return of.shares.back();
}

void receipt_book::handed(std::size_t transfer, const rail_name& rail, bool again,
                          base::time_point now) noexcept {
  auto& e = entries_[transfer];
  if (!e.first)
    e.first = now;
  e.issued_again += again ? 1 : 0;
  ++share_of(e, rail).wrs;
}

void receipt_book::delivered(std::size_t transfer, const rail_name& rail, std::uint64_t bytes,
                             base::time_point now) noexcept {
  auto& e = entries_[transfer];
  e.last = now;
  share_of(e, rail).bytes += bytes;
}

transfer_receipt receipt_book::of(std::size_t transfer, base::time_point submitted) const {
  const auto& e = entries_[transfer];
  transfer_receipt r;
  r.issued_again = e.issued_again;
  if (e.first)
    r.queued = *e.first - submitted;
  if (e.first && e.last)
    r.carried = *e.last - *e.first;
  for (std::size_t i = 0; i <= rails_kept; ++i)
    if (const auto& s = e.shares[i]; s.wrs > 0)
      r.rails.push_back({i < rails_kept ? *s.rail : std::string{"other rails"}, s.bytes, s.wrs});
  return r;
}

} // namespace actor_rdma::actors
