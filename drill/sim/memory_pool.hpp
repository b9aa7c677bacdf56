// SPDX-License-Identifier: Apache-2.0
// The memory of one side of a traffic, cut into slots that transfers take and give back. A slot that is not
// in use holds canary words; whoever takes it, and whoever asks at the end, sees whether a late byte has
// changed one. What a transfer carries is a pattern of its own number, so that stale, missing and misplaced
// bytes differ from right ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class memory_pool {
public:
  memory_pool() = default;
  /// Without canaries where nothing ever lands: putting and reading them is most of such a run's work.
  memory_pool(std::uint64_t addr, std::uint64_t slot_bytes, std::size_t slots, bool with_canaries = true);

  static std::uint64_t rounded(std::uint64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }
  bool exists() const noexcept { return addr_ != 0; }
  std::size_t free_slots() const noexcept { return free_.size(); }
  std::uint64_t address(std::size_t slot) const noexcept { return addr_ + slot * slot_bytes_; }

  /// The slot that has been free for longest.
  std::size_t take();
  /// Its transfer's end was told: canaries are put, and from now on nothing may touch it.
  void give_back(std::size_t slot, std::uint64_t last_transfer);
  /// The first canary word of a free slot that has changed, in words for people.
  std::optional<std::string> changed(std::size_t slot) const;
  std::uint64_t last_transfer(std::size_t slot) const noexcept { return state_[slot].last; }
  const std::deque<std::size_t>& free() const noexcept { return free_; }
  /// The slot that holds this address, if it is free.
  std::optional<std::size_t> free_slot_at(std::uint64_t addr) const;

  void fill(std::size_t slot, std::uint64_t transfer, std::uint64_t bytes);
  /// Where the first wrong byte is, if there is one.
  std::optional<std::string> wrong(std::size_t slot, std::uint64_t transfer, std::uint64_t bytes) const;

private:
  struct slot_state {
    std::uint64_t last = 0;
    bool free = true;
  };
  void put_canaries(std::size_t slot);

  std::uint64_t addr_ = 0;
  std::uint64_t slot_bytes_ = 0;
  bool with_canaries_ = true;
  std::vector<slot_state> state_;
  std::deque<std::size_t> free_;
};

} // namespace actor_rdma::drill
