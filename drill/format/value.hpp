// SPDX-License-Identifier: Apache-2.0
// A value of a scenario file together with its place in it ("faults[2].at_ms"), and the tables of keys with
// which objects are read. A table is all there is to say about an object of the file: the names, what each
// accepts, whether it may be missing, and where it goes. What does not fit is refused by name with what would
// be accepted; reading goes on, so that one run reports everything.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace actor_rdma::drill::format {

using complaints = std::vector<std::string>;

class value {
public:
  value(const nlohmann::json& node, std::string path, complaints& to)
      : node_(&node), path_(std::move(path)), to_(&to) {}

  const nlohmann::json& node() const noexcept { return *node_; }
  const std::string& path() const noexcept { return path_; }
  value member(const std::string& key) const {
    return {node_->at(key), path_.empty() ? key : path_ + "." + key, *to_};
  }
  value element(std::size_t i) const { return {node_->at(i), path_ + "[" + std::to_string(i) + "]", *to_}; }
  /// "faults[2].at_ms: is "soon", accepted is a number of milliseconds, 0 to 1000".
  void refuse(const std::string& accepts) const;
  /// "faults[2].at_ms: <text>".
  void complain(const std::string& text) const {
    to_->push_back((path_.empty() ? "file" : path_) + ": " + text);
  }
  void complain_at(const std::string& key, const std::string& text) const {
    to_->push_back((path_.empty() ? key : path_ + "." + key) + ": " + text);
  }

private:
  const nlohmann::json* node_;
  std::string path_;
  complaints* to_;
};

/// One key of objects that become a T.
template <class T>
struct key {
  std::string name;
  std::string accepts;
  std::function<void(const value&, T&)> read;
  bool is_required = false;

  key required() && {
    is_required = true;
    return std::move(*this);
  }
};

template <class T>
using key_table = std::vector<key<T>>;

/// Whether a key may be used here; empty: each may.
using key_filter = std::function<bool(const std::string&)>;

/// Reads in the order of the table, whatever the order of the file.
template <class T>
void read_object(const value& from, const key_table<T>& table, T& into, const key_filter& may = {}) {
  if (!from.node().is_object())
    return from.refuse("an object, { ... }");
  std::string names;
  for (const auto& k : table)
    if (!may || may(k.name))
      names += (names.empty() ? "" : ", ") + k.name;
  for (const auto& item : from.node().items()) {
    bool known = false;
    for (const auto& k : table)
      known = known || (k.name == item.key() && (!may || may(k.name)));
    if (!known)
      from.complain_at(item.key(), "is not a key here, accepted are " + names);
  }
  for (const auto& k : table) {
    if (may && !may(k.name))
      continue;
    if (from.node().contains(k.name))
      k.read(from.member(k.name), into);
    else if (k.is_required)
      from.complain_at(k.name, "is missing, accepted is " + k.accepts);
  }
}

} // namespace actor_rdma::drill::format
