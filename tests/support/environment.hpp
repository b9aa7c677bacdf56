// SPDX-License-Identifier: Apache-2.0
// Whole numbers that tests take from the environment.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace actor_rdma::tests {

/// The variable's value, or `otherwise` if it is not set. What is no whole number from 1 to a million million
/// ends the program with 2: a run of another length than the one that was asked for proves nothing.
inline std::uint64_t whole_number(const char* variable, std::uint64_t otherwise) {
  constexpr std::uint64_t most = 1'000'000'000'000;
  const char* const text = std::getenv(variable);
  if (text == nullptr)
    return otherwise;
  const std::string_view all{text};
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), n);
  if (error == std::errc{} && end == all.data() + all.size() && n >= 1 && n <= most)
    return n;
  std::fprintf(stderr, "%s is no whole number from 1 to %llu\n", variable,
               static_cast<unsigned long long>(most));
  std::exit(2);
}

} // namespace actor_rdma::tests
