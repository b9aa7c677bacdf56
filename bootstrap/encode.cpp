// SPDX-License-Identifier: Apache-2.0
//
// The encoding half of the codec: a visitor of wire_fields that packs each field under its key.
#include "bootstrap/codec.hpp"
#include "bootstrap/field_trail.hpp"
#include "bootstrap/wire_fields.hpp"

#include <optional>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <msgpack.hpp>

namespace actor_rdma::bootstrap {

namespace {

struct byte_sink {
  std::vector<std::uint8_t>& bytes;
  void write(const char* data, std::size_t size) { bytes.insert(bytes.end(), data, data + size); }
};

/// msgpack writes the number of a map's keys before them.
struct field_counter {
  std::uint32_t count = 0;

  template <class T>
  void operator()(const char*, const T&) {
    ++count;
  }
  template <class T>
  void optional(const char*, const T&) {
    ++count;
  }
  void text(const char*, const std::string&) { ++count; }
  void up_to(const char*, std::uint32_t, std::uint32_t) { ++count; }
  template <class T>
  void list(const char*, const std::vector<T>&, std::size_t) {
    ++count;
  }
  template <class T>
  void optional_list(const char*, const std::optional<std::vector<T>>& values, std::size_t) {
    count += values ? 1 : 0;
  }
  void binary(const char*, const std::vector<std::uint8_t>&, std::size_t) { ++count; }
  void check(bool, const char*, const char*) {}
};

template <class T>
std::uint32_t count_fields(const T& value) {
  field_counter counter;
  wire_fields(counter, value);
  return counter.count;
}

/// At most max_string_bytes of a text, not ending within a UTF-8 sequence.
std::string_view cut(std::string_view text) {
  if (text.size() <= max_string_bytes)
    return text;
  auto end = max_string_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return text.substr(0, end);
}

class field_writer {
public:
  field_writer(std::vector<std::uint8_t>& bytes, field_trail& trail)
      : sink_{bytes}, packer_{sink_}, trail_{trail} {}

  template <class T>
  void operator()(const char* key, const T& value) {
    const field_trail::step into{trail_, key};
    put_string(key);
    put(value);
  }
  template <class T>
  void optional(const char* key, const T& value) {
    (*this)(key, value);
  }
  void text(const char* key, const std::string& value) {
    put_string(key);
    put_string(cut(value));
  }
  void up_to(const char* key, std::uint32_t value, std::uint32_t bound) {
    const field_trail::step into{trail_, key};
    if (value > bound)
      trail_.fail(fmt::format("is {}, at most {} is allowed", value, bound));
    put_string(key);
    put(value);
  }
  template <class T>
  void list(const char* key, const std::vector<T>& values, std::size_t bound) {
    const field_trail::step into{trail_, key};
    if (values.size() > bound) {
      trail_.fail(fmt::format("has {} entries, at most {} are allowed", values.size(), bound));
      return;
    }
    put_string(key);
    packer_.pack_array(static_cast<std::uint32_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const field_trail::step element{trail_, i};
      put(values[i]);
    }
  }
  template <class T>
  void optional_list(const char* key, const std::optional<std::vector<T>>& values, std::size_t bound) {
    if (values)
      list(key, *values, bound);
  }
  void binary(const char* key, const std::vector<std::uint8_t>& bytes, std::size_t bound) {
    const field_trail::step into{trail_, key};
    if (bytes.size() > bound) {
      trail_.fail(fmt::format("has {} bytes, at most {} are allowed", bytes.size(), bound));
      return;
    }
    put_string(key);
    put_binary(bytes);
  }
  void check(bool holds, const char* key, const char* complaint) {
    const field_trail::step at{trail_, key};
    if (!holds)
      trail_.fail(complaint);
  }

  void begin_map(std::uint32_t size) { packer_.pack_map(size); }
  void put_string(std::string_view text) {
    packer_.pack_str(static_cast<std::uint32_t>(text.size()));
    packer_.pack_str_body(text.data(), static_cast<std::uint32_t>(text.size()));
  }

private:
  template <class Bytes>
  void put_binary(const Bytes& bytes) {
    packer_.pack_bin(static_cast<std::uint32_t>(bytes.size()));
    packer_.pack_bin_body(reinterpret_cast<const char*>(bytes.data()),
                          static_cast<std::uint32_t>(bytes.size()));
  }

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value ? packer_.pack_true() : packer_.pack_false();
    } else if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_unsigned_v<T>) {
      packer_.pack_uint64(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (value.size() > max_string_bytes)
        trail_.fail(fmt::format("has {} bytes, at most {} are allowed", value.size(), max_string_bytes));
      else
        put_string(value);
    } else if constexpr (std::is_same_v<T, gid_bytes>) {
      put_binary(value);
    } else {
      begin_map(count_fields(value));
      wire_fields(*this, value);
    }
  }

  byte_sink sink_;
  msgpack::packer<byte_sink> packer_;
  field_trail& trail_;
};

} // namespace

base::expected<std::vector<std::uint8_t>> encode(const message& what) {
  std::vector<std::uint8_t> bytes;
  field_trail trail{type_name(what.what)};
  field_writer writer{bytes, trail};
  const std::string type = type_name(what.what);
  writer.begin_map(5);
  writer("version", what.version);
  writer("from", what.from);
  writer("to", what.to);
  writer("type", type);
  writer.put_string("body");
  std::visit(
      [&](const auto& fields) {
        writer.begin_map(count_fields(fields));
        wire_fields(writer, fields);
      },
      what.what);
  if (!trail.ok())
    return base::fail(base::reason::invalid_argument, "bootstrap", trail.fault());
  return bytes;
}

} // namespace actor_rdma::bootstrap
