// SPDX-License-Identifier: Apache-2.0
// Which device cannot reach which memory. A registration that succeeds says only that the key is good:
// whether the device gets at the memory over the host's buses shows when it is used, and then it is a
// protection error of the request. A request that is wrong by itself gets the same error, so a failure is a
// suspicion at first; it is proven when the same request succeeds on another device, and taken back when no
// device takes it. What is proven is avoided and tried again, by one request at a time and ever more rarely;
// a success clears it. Pure: time and randomness are arguments.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace actor_rdma::actors {

class reach {
public:
  enum class side : std::uint8_t { ours, peers };
  /// Some memory as one device of its owner sees it.
  struct pair {
    side whose = side::ours;
    std::uint16_t device = 0;
    std::uint64_t buffer = 0; ///< id
    std::uint32_t key = 0;    ///< of its first region there; with another one it was registered anew
  };
  enum class state : std::uint8_t {
    open,    ///< nothing is known against it
    due,     ///< it may be tried again, by one request
    suspect, ///< a request failed there, for its own fault or the pair's
    avoided, ///< proven, and not to be tried yet
    tried,   ///< a request is out that tries it
  };
  /// What is known of the pair that failed longest ago is forgotten when there are more: if it is still so it
  /// will be found out again.
  static constexpr std::size_t most_pairs = 256;
  /// A pair that has worked for so long again begins with the shortest pause.
  static constexpr base::duration steady_after = std::chrono::seconds{10};

  /// `least` before the first try, twice as long after each failed one, `most` at most.
  reach(base::duration least, base::duration most) noexcept : least_{least}, most_{most} {}

  /// Whether there is any pair that is not open.
  bool knows_any() const noexcept { return bad_ > 0; }
  state look(const pair& what, base::time_point now) const noexcept;
  base::time_point retry_at(const pair& what) const noexcept;
  /// The first time after `now` at which a pair may be tried again; max() if there is none.
  base::time_point next_try(base::time_point now) const noexcept;

  /// A request failed there. `tried`: it was the one that tried the pair; others that were out with it say
  /// nothing new. True if a proven pair failed again.
  bool failed(const pair& what, base::time_point now, bool tried, std::uint64_t random);
  /// A request that failed there succeeded on another device. True if that was not known.
  bool prove(const pair& what) noexcept;
  /// A request that failed there is wrong by itself.
  void acquit(const pair& what) noexcept;
  /// A request succeeded there. True if it was proven that none would.
  bool works(const pair& what, base::time_point now) noexcept;

  /// The request that tries it goes out, and has ended, in whatever way.
  void try_now(const pair& what) noexcept;
  void try_ended(const pair& what) noexcept;

  /// All that is known of one side: it is another process now.
  void forget(side whose) noexcept;

private:
  struct entry {
    pair what;
    bool bad = false; ///< else it only remembers how long the pause was
    bool proven = false;
    bool trying = false;
    std::uint32_t failures = 0; ///< without a steady time between them
    base::time_point since{};   ///< it failed last, or works again
    base::time_point retry_at{};
  };
  const entry* find(const pair& what) const noexcept;
  entry* find_bad(const pair& what) noexcept;
  entry& place_for(const pair& what);
  void set_bad(entry& e, bool bad) noexcept;

  base::duration least_;
  base::duration most_;
  std::vector<entry> known_;
  std::size_t bad_ = 0;
};

} // namespace actor_rdma::actors
