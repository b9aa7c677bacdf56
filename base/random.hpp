// SPDX-License-Identifier: Apache-2.0
//
// Seeded randomness. A run is reproducible from its seed only if every random choice comes from a generator
// that was seeded explicitly, so nothing but entropy_seed() asks the operating system. The generator is
// xoshiro256**, seeded through splitmix64; it is not for secrets.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace actor_rdma::base {

/// A seed from the operating system: the one source of irreproducible numbers.
[[nodiscard]] std::uint64_t entropy_seed();

class rng {
public:
  using result_type = std::uint64_t; // a UniformRandomBitGenerator, for std::shuffle

  explicit constexpr rng(std::uint64_t seed) noexcept {
    for (auto& word : state_)
      word = splitmix(seed);
  }

  constexpr std::uint64_t next() noexcept {
    const auto result = std::rotl(state_[1] * 5, 7) * 9;
    const auto shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// A number in [0, n), and 0 for n = 0. Lemire's multiplication with rejection: exactly uniform.
  constexpr std::uint64_t below(std::uint64_t n) noexcept {
    auto product = wide{next()} * n;
    if (auto low = static_cast<std::uint64_t>(product); low < n) {
      const auto threshold = (0 - n) % n;
      while (low < threshold) {
        product = wide{next()} * n;
        low = static_cast<std::uint64_t>(product);
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// A number in [low, high]; low must not exceed high.
  constexpr std::int64_t between(std::int64_t low, std::int64_t high) noexcept {
    const auto span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    const auto offset = span == 0 ? next() : below(span);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
  }

  /// A number in [0, 1).
  constexpr double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  constexpr bool chance(double probability) noexcept { return uniform() < probability; }

  /// An independent generator, for a part that must not disturb its neighbours' sequence.
  constexpr rng fork() noexcept { return rng{next()}; }

  constexpr std::uint64_t operator()() noexcept { return next(); }
  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return std::numeric_limits<std::uint64_t>::max(); }

private:
  __extension__ using wide = unsigned __int128;

  static constexpr std::uint64_t splitmix(std::uint64_t& seed) noexcept {
    seed += 0x9e3779b97f4a7c15;
    auto z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::array<std::uint64_t, 4> state_{};
};

} // namespace actor_rdma::base
