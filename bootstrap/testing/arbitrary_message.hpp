// SPDX-License-Identifier: Apache-2.0
//
// Random messages for properties: every type, every field, within the bounds.
#pragma once

#include "bootstrap/messages.hpp"
#include "bootstrap/wire_fields.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rapidcheck.h>

namespace actor_rdma::bootstrap::testing {

/// A visitor of wire_fields that fills a struct.
class field_filler {
public:
  template <class T>
  void operator()(const char*, T& into) {
    fill(into);
  }
  template <class T>
  void optional(const char* key, T& into) {
    (*this)(key, into);
  }
  void text(const char*, std::string& into) { fill(into); }
  void up_to(const char*, std::uint32_t& into, std::uint32_t bound) {
    into = *rc::gen::inRange<std::uint32_t>(0, bound + 1);
  }
  template <class T>
  void list(const char* key, std::vector<T>& into, std::size_t bound) {
    // The rkeys of a segment belong to its devices: their number is drawn once.
    const bool per_device = std::string{key} == "rkeys" || std::string{key} == "probe_rkeys";
    const auto wanted = std::string{key} == "devices" ? devices_ = *rc::gen::inRange<std::size_t>(0, 5)
                        : per_device                  ? devices_
                                                      : *rc::gen::inRange<std::size_t>(0, 8);
    into.resize(std::min(wanted, bound));
    for (auto& element : into)
      fill(element);
  }
  template <class T>
  void optional_list(const char* key, std::optional<std::vector<T>>& into, std::size_t bound) {
    into.reset();
    if (*rc::gen::arbitrary<bool>())
      list(key, into.emplace(), bound);
  }
  void binary(const char*, std::vector<std::uint8_t>& into, std::size_t bound) {
    into = *rc::gen::arbitrary<std::vector<std::uint8_t>>();
    if (*rc::gen::inRange(0, 4) == 0)
      into.resize(bound, 0xa7);
  }
  void check(bool, const char*, const char*) {}

private:
  template <class T>
  void fill(T& into) {
    if constexpr (std::is_same_v<T, reject_code>) {
      into = static_cast<reject_code>(*rc::gen::arbitrary<std::uint16_t>());
    } else if constexpr (std::is_arithmetic_v<T>) {
      into = *rc::gen::weightedOneOf<T>(
          {{3, rc::gen::arbitrary<T>()}, {1, rc::gen::just(static_cast<T>(std::numeric_limits<T>::max()))}});
    } else if constexpr (std::is_same_v<T, std::string>) {
      into = *rc::gen::arbitrary<std::string>();
    } else if constexpr (std::is_same_v<T, gid_bytes>) {
      for (auto& byte : into)
        byte = *rc::gen::arbitrary<std::uint8_t>();
    } else {
      wire_fields(*this, into);
      repair(into);
    }
  }

  /// Draws again what wire_fields checks beyond types.
  template <class T>
  void repair(T& into) {
    if constexpr (std::is_same_v<T, port_address>)
      into.mtu = *rc::gen::element<std::uint32_t>(256, 512, 1024, 2048, 4096);
    else if constexpr (std::is_same_v<T, remote_buffer>)
      into.addr = into.length == 0 ? into.addr : std::min(into.addr, ~std::uint64_t{0} - (into.length - 1));
  }

  std::size_t devices_ = 0;
};

template <std::size_t... I>
body any_body(std::size_t index, std::index_sequence<I...>) {
  body result;
  ((I == index ? (void)result.emplace<I>() : void()), ...);
  field_filler filler;
  std::visit([&](auto& fields) { wire_fields(filler, fields); }, result);
  return result;
}

/// To be called inside a property. `index` chooses the type.
inline message any_message_of(std::size_t index) {
  message result;
  result.from = *rc::gen::arbitrary<incarnation>();
  result.to = *rc::gen::arbitrary<incarnation>();
  result.what = any_body(index, std::make_index_sequence<std::variant_size_v<body>>{});
  return result;
}

inline message any_message() {
  return any_message_of(*rc::gen::inRange<std::size_t>(0, std::variant_size_v<body>));
}

} // namespace actor_rdma::bootstrap::testing
