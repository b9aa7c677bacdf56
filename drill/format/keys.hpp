// SPDX-License-Identifier: Apache-2.0
// Makers of keys by type: numbers with a range, times with their unit in the name, sizes, texts, choices,
// lists. Each knows how to say what it accepts.
#pragma once

#include "base/time.hpp"
#include "base/units.hpp"
#include "drill/format/value.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

namespace actor_rdma::drill::format {

template <class M>
struct unwrapped {
  using type = M;
};
template <class M>
struct unwrapped<std::optional<M>> {
  using type = M;
};

/// An integer; M is an integer or an optional one.
template <class T, class M>
key<T> whole(std::string name, M T::*member, std::uint64_t low, std::uint64_t high) {
  auto accepts = fmt::format("a whole number, {} to {}", low, high);
  return {std::move(name), accepts, [=](const value& v, T& into) {
            const auto& n = v.node();
            if (!n.is_number_unsigned() || n.get<std::uint64_t>() < low || n.get<std::uint64_t>() > high)
              return v.refuse(accepts);
            into.*member = static_cast<typename unwrapped<M>::type>(n.get<std::uint64_t>());
          }};
}

template <class T, class M>
key<T> real(std::string name, M T::*member, double low, double high, const char* of = "a number") {
  auto accepts = fmt::format("{}, {} to {}", of, low, high);
  return {std::move(name), accepts, [=](const value& v, T& into) {
            if (!v.node().is_number() || !(v.node().get<double>() >= low && v.node().get<double>() <= high))
              return v.refuse(accepts);
            into.*member = v.node().get<double>();
          }};
}

/// A time in units of `unit`; M is base::duration or an optional one. Names end in _ms or _us.
template <class T, class M>
key<T> time(std::string name, M T::*member, base::duration unit, double low, double high) {
  auto accepts =
      fmt::format("a number of {}, {} to {}",
                  unit == std::chrono::microseconds{1} ? "microseconds" : "milliseconds", low, high);
  return {std::move(name), accepts, [=](const value& v, T& into) {
            if (!v.node().is_number() || !(v.node().get<double>() >= low && v.node().get<double>() <= high))
              return v.refuse(accepts);
            into.*member =
                base::duration{std::llround(v.node().get<double>() * static_cast<double>(unit.count()))};
          }};
}
/// Two days and a bit: what the longest outage in virtual time needs.
inline constexpr double longest_ms = 2e8;
template <class T, class M>
key<T> ms(std::string name, M T::*member, double low = 0, double high = longest_ms) {
  return time(std::move(name), member, std::chrono::milliseconds{1}, low, high);
}
template <class T, class M>
key<T> us(std::string name, M T::*member, double low = 0, double high = longest_ms) {
  return time(std::move(name), member, std::chrono::microseconds{1}, low, high);
}

template <class T>
key<T> flag(std::string name, bool T::*member) {
  return {std::move(name), "true or false", [=](const value& v, T& into) {
            if (!v.node().is_boolean())
              return v.refuse("true or false");
            into.*member = v.node().get<bool>();
          }};
}

template <class T>
key<T> text(std::string name, std::string T::*member, std::string accepts = "a text, not empty") {
  return {std::move(name), accepts, [=](const value& v, T& into) {
            if (!v.node().is_string() || v.node().get_ref<const std::string&>().empty())
              return v.refuse(accepts);
            into.*member = v.node().get<std::string>();
          }};
}

inline std::string listed(const std::vector<std::string>& choices) {
  std::string all;
  for (const auto& c : choices)
    all += (all.empty() ? "" : ", ") + c;
  return all;
}

/// One of a few words, kept as the word.
template <class T>
key<T> choice(std::string name, std::string T::*member, const std::vector<std::string>& choices) {
  auto accepts = "one of " + listed(choices);
  return {std::move(name), accepts, [=](const value& v, T& into) {
            for (const auto& c : choices)
              if (v.node() == c) {
                into.*member = c;
                return;
              }
            v.refuse(accepts);
          }};
}

/// Bytes of a path's MTU; M is std::uint32_t.
template <class T>
key<T> mtu(std::string name, std::uint32_t T::*member) {
  constexpr const char* accepts = "one of 256, 512, 1024, 2048, 4096";
  return {std::move(name), accepts, [=](const value& v, T& into) {
            for (const auto bytes : {256u, 512u, 1024u, 2048u, 4096u})
              if (v.node() == bytes) {
                into.*member = bytes;
                return;
              }
            v.refuse(accepts);
          }};
}

/// Bytes: a whole number, or a text with a unit ("64K").
inline std::optional<std::uint64_t> bytes_of(const value& v, std::uint64_t low, std::uint64_t high) {
  std::optional<std::uint64_t> n;
  if (v.node().is_number_unsigned())
    n = v.node().get<std::uint64_t>();
  else if (v.node().is_string())
    if (const auto parsed = base::parse_size(v.node().get_ref<const std::string&>()))
      n = *parsed;
  if (!n || *n < low || *n > high) {
    v.refuse(fmt::format("a number of bytes, {} to {}, also as a text with K, M or G", low, high));
    return std::nullopt;
  }
  return n;
}

/// A list that is not empty; `read_one` refuses for itself.
template <class T, class E>
key<T> list(std::string name, std::string accepts, std::vector<E> T::*member,
            std::function<void(const value&, T&, std::vector<E>&)> read_one, bool may_be_empty = false) {
  return {std::move(name), accepts, [=](const value& v, T& into) {
            if (!v.node().is_array() || (v.node().empty() && !may_be_empty))
              return v.refuse(accepts);
            std::vector<E> all;
            for (std::size_t i = 0; i < v.node().size(); ++i)
              read_one(v.element(i), into, all);
            into.*member = std::move(all);
          }};
}

} // namespace actor_rdma::drill::format
