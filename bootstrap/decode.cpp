// SPDX-License-Identifier: Apache-2.0
//
// The decoding half of the codec. Bytes are first only counted, so that nothing is allocated for what they
// merely claim to contain; then a tree of msgpack objects is made, which refers to the bytes, and a visitor
// of wire_fields takes each field out of it.
#include "bootstrap/codec.hpp"
#include "bootstrap/field_trail.hpp"
#include "bootstrap/wire_fields.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <msgpack.hpp>

namespace actor_rdma::bootstrap {

namespace {

/// Goes over the bytes without keeping anything and stops at the first bound that they exceed.
class bounds_visitor : public msgpack::null_visitor {
public:
  [[nodiscard]] const char* fault() const noexcept { return fault_; }

  bool start_array(std::uint32_t elements) { return enter(elements); }
  bool end_array() { return leave(); }
  bool start_map(std::uint32_t entries) {
    if (entries > max_map_entries)
      return refuse("a map has too many entries");
    return enter(std::uint64_t{entries} * 2);
  }
  bool end_map() { return leave(); }
  void parse_error(std::size_t, std::size_t) { refuse("not msgpack"); }
  void insufficient_bytes(std::size_t, std::size_t) { refuse("truncated"); }

private:
  bool enter(std::uint64_t values) {
    values_ += values;
    if (values_ > max_values)
      return refuse("too many values");
    if (++depth_ > max_nesting)
      return refuse("nested too deeply");
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool refuse(const char* fault) {
    if (!fault_)
      fault_ = fault;
    return false;
  }

  std::uint64_t values_ = 0;
  std::size_t depth_ = 0;
  const char* fault_ = nullptr;
};

const char* kind_of(const msgpack::object& value) {
  switch (value.type) {
  case msgpack::type::NIL: return "nil";
  case msgpack::type::BOOLEAN: return "a boolean";
  case msgpack::type::POSITIVE_INTEGER: return "an unsigned integer";
  case msgpack::type::NEGATIVE_INTEGER: return "a negative integer";
  case msgpack::type::FLOAT32:
  case msgpack::type::FLOAT64: return "a float";
  case msgpack::type::STR: return "a string";
  case msgpack::type::BIN: return "binary";
  case msgpack::type::ARRAY: return "an array";
  case msgpack::type::MAP: return "a map";
  case msgpack::type::EXT: return "an extension";
  }
  return "of an unknown type";
}

std::string_view view_of(const msgpack::object_str& text) {
  return {text.ptr, text.size};
}

/// What a stranger sent, fit to be logged.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 40))
    result.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  return result;
}

/// Fills the fields of one struct from one map.
class field_reader {
public:
  field_reader(const msgpack::object_map& map, field_trail& trail) : map_{map}, trail_{trail} {}

  template <class T>
  void operator()(const char* key, T& into) {
    read(key, [&](const msgpack::object& value) { get(value, into); });
  }
  /// Absent, the field keeps its default.
  template <class T>
  void optional(const char* key, T& into) {
    if (has(key))
      (*this)(key, into);
  }
  template <class T>
  void optional_list(const char* key, std::optional<std::vector<T>>& into, std::size_t bound) {
    if (has(key))
      list(key, into.emplace(), bound);
  }
  void text(const char* key, std::string& into) { (*this)(key, into); }
  void up_to(const char* key, std::uint32_t& into, std::uint32_t bound) {
    read(key,
         [&](const msgpack::object& value) { into = static_cast<std::uint32_t>(get_number(value, bound)); });
  }
  template <class T>
  void list(const char* key, std::vector<T>& into, std::size_t bound) {
    read(key, [&](const msgpack::object& value) { get_list(value, into, bound); });
  }
  void binary(const char* key, std::vector<std::uint8_t>& into, std::size_t bound) {
    read(key, [&](const msgpack::object& value) {
      if (!is(value, msgpack::type::BIN, "binary"))
        return;
      const auto& bin = value.via.bin;
      if (bin.size > bound)
        trail_.fail(fmt::format("has {} bytes, at most {} are allowed", bin.size, bound));
      else
        into.assign(bin.ptr, bin.ptr + bin.size);
    });
  }
  void check(bool holds, const char* key, const char* complaint) {
    const field_trail::step at{trail_, key};
    if (!holds)
      trail_.fail(complaint);
  }

  /// Null, and a complaint, unless the key is there exactly once.
  const msgpack::object* find(const char* key) {
    const msgpack::object* found = nullptr;
    for (std::uint32_t i = 0; i < map_.size; ++i) {
      const auto& entry = map_.ptr[i];
      if (!is_key(entry, key))
        continue;
      if (found) {
        trail_.fail("appears twice");
        return nullptr;
      }
      found = &entry.val;
    }
    if (!found)
      trail_.fail("missing");
    return found;
  }

private:
  static bool is_key(const msgpack::object_kv& entry, std::string_view key) {
    return entry.key.type == msgpack::type::STR && view_of(entry.key.via.str) == key;
  }
  bool has(const char* key) const {
    return std::any_of(map_.ptr, map_.ptr + map_.size,
                       [key](const auto& entry) { return is_key(entry, key); });
  }

  template <class F>
  void read(const char* key, F&& take) {
    if (!trail_.ok())
      return;
    const field_trail::step into{trail_, key};
    if (const auto* value = find(key))
      take(*value);
  }

  bool is(const msgpack::object& value, msgpack::type::object_type type, const char* wanted) {
    if (value.type == type)
      return true;
    trail_.fail(fmt::format("must be {}, is {}", wanted, kind_of(value)));
    return false;
  }

  std::uint64_t get_number(const msgpack::object& value, std::uint64_t bound) {
    if (!is(value, msgpack::type::POSITIVE_INTEGER, "an unsigned integer"))
      return 0;
    if (value.via.u64 <= bound)
      return value.via.u64;
    trail_.fail(fmt::format("is {}, at most {} is allowed", value.via.u64, bound));
    return 0;
  }

  template <class T>
  void get_list(const msgpack::object& value, std::vector<T>& into, std::size_t bound) {
    if (!is(value, msgpack::type::ARRAY, "an array"))
      return;
    const auto& array = value.via.array;
    if (array.size > bound) {
      trail_.fail(fmt::format("has {} entries, at most {} are allowed", array.size, bound));
      return;
    }
    into.resize(array.size);
    for (std::size_t i = 0; i < array.size && trail_.ok(); ++i) {
      const field_trail::step element{trail_, i};
      get(array.ptr[i], into[i]);
    }
  }

  template <class T>
  void get(const msgpack::object& value, T& into) {
    if constexpr (std::is_same_v<T, bool>) {
      if (is(value, msgpack::type::BOOLEAN, "a boolean"))
        into = value.via.boolean;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      get(value, number);
      into = static_cast<T>(number);
    } else if constexpr (std::is_unsigned_v<T>) {
      into = static_cast<T>(get_number(value, std::numeric_limits<T>::max()));
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!is(value, msgpack::type::STR, "a string"))
        return;
      if (value.via.str.size > max_string_bytes)
        trail_.fail(
            fmt::format("has {} bytes, at most {} are allowed", value.via.str.size, max_string_bytes));
      else
        into.assign(view_of(value.via.str));
    } else if constexpr (std::is_same_v<T, gid_bytes>) {
      if (!is(value, msgpack::type::BIN, "binary"))
        return;
      if (value.via.bin.size != into.size())
        trail_.fail(fmt::format("has {} bytes, must have {}", value.via.bin.size, into.size()));
      else
        std::copy_n(value.via.bin.ptr, into.size(), reinterpret_cast<char*>(into.data()));
    } else if (is(value, msgpack::type::MAP, "a map")) {
      field_reader inner{value.via.map, trail_};
      wire_fields(inner, into);
    }
  }

  const msgpack::object_map& map_;
  field_trail& trail_;
};

template <std::size_t... I>
bool select_body(std::string_view name, body& into, std::index_sequence<I...>) {
  const auto select = [&](auto index) {
    body candidate{std::in_place_index<decltype(index)::value>};
    if (name != type_name(candidate))
      return false;
    into = std::move(candidate);
    return true;
  };
  return (select(std::integral_constant<std::size_t, I>{}) || ...);
}

tl::expected<message, decode_failure> refuse(std::string text, incarnation from = 0) {
  return tl::unexpected<decode_failure>{decode_failure{std::move(text), std::nullopt, from}};
}

tl::expected<message, decode_failure> read_message(const msgpack::object_map& map) {
  field_trail trail{"message"};
  field_reader envelope{map, trail};
  message result;
  envelope("version", result.version);
  if (!trail.ok())
    return refuse(trail.fault());

  std::string type;
  envelope("type", type);
  envelope("from", result.from);
  if (result.version != protocol_version && type != "reject") {
    auto text =
        fmt::format("message of protocol version {}, this end speaks {}", result.version, protocol_version);
    return tl::unexpected<decode_failure>{decode_failure{std::move(text), result.version, result.from}};
  }
  envelope("to", result.to);
  if (trail.ok() && !select_body(type, result.what, std::make_index_sequence<std::variant_size_v<body>>{}))
    trail.fail(fmt::format("unknown type \"{}\"", printable(type)));
  const auto* fields = trail.ok() ? envelope.find("body") : nullptr;
  if (!trail.ok())
    return refuse(trail.fault(), result.from);

  field_trail inside{type};
  if (fields->type != msgpack::type::MAP)
    return refuse(fmt::format("{}: body must be a map, is {}", type, kind_of(*fields)), result.from);
  field_reader reader{fields->via.map, inside};
  std::visit([&](auto& what) { wire_fields(reader, what); }, result.what);
  if (!inside.ok())
    return refuse(inside.fault(), result.from);
  return result;
}

} // namespace

tl::expected<message, decode_failure> decode(byte_view bytes) {
  if (bytes.size() > max_message_bytes)
    return refuse(
        fmt::format("message of {} bytes, at most {} are allowed", bytes.size(), max_message_bytes));
  const auto* data = reinterpret_cast<const char*>(bytes.data());
  bounds_visitor bounds;
  std::size_t used = 0;
  if (!msgpack::parse(data, bytes.size(), used, bounds))
    return refuse(fmt::format("message: {}", bounds.fault() ? bounds.fault() : "not msgpack"));
  if (used != bytes.size())
    return refuse(fmt::format("message: {} bytes after its end", bytes.size() - used));

  msgpack::zone zone;
  const auto refer = [](msgpack::type::object_type, std::size_t, void*) { return true; };
  const msgpack::object tree = msgpack::unpack(zone, data, bytes.size(), refer);
  if (tree.type != msgpack::type::MAP)
    return refuse(fmt::format("message: must be a map, is {}", kind_of(tree)));
  return read_message(tree.via.map);
}

message wrong_version_answer(const decode_failure& failure) {
  message answer;
  answer.to = failure.from;
  reject why;
  why.code = reject_code::wrong_version;
  why.text = fmt::format("this end speaks protocol version {}, yours speaks {}", protocol_version,
                         failure.other_version.value_or(0));
  answer.what = std::move(why);
  return answer;
}

} // namespace actor_rdma::bootstrap
