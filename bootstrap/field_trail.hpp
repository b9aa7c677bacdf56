// SPDX-License-Identifier: Apache-2.0
//
// Where in a message an encoder or decoder stands, and the first thing that it found wrong there: what makes
// an error say "connect.qps[2].psn: missing". Nothing is formatted while all is well.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace actor_rdma::bootstrap {

class field_trail {
public:
  /// One step into a field or a list's element, taken back at the end of its life.
  class step {
  public:
    step(field_trail& trail, const char* key) : trail_{trail} { trail_.places_.push_back({key, 0}); }
    step(field_trail& trail, std::size_t index) : trail_{trail} {
      trail_.places_.push_back({nullptr, index});
    }
    ~step() { trail_.places_.pop_back(); }
    step(const step&) = delete;
    step& operator=(const step&) = delete;

  private:
    field_trail& trail_;
  };

  explicit field_trail(std::string root) : root_{std::move(root)} {}

  [[nodiscard]] bool ok() const noexcept { return fault_.empty(); }
  /// The first complaint, with the place that it is about.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

  void fail(std::string_view complaint) {
    if (!ok())
      return;
    fault_ = root_;
    for (const auto& at : places_) {
      if (at.key)
        fault_.append(".").append(at.key);
      else
        fault_.append("[").append(std::to_string(at.index)).append("]");
    }
    fault_.append(": ").append(complaint);
  }

private:
  struct place {
    const char* key; // null: an element of a list
    std::size_t index;
  };

  std::string root_;
  std::vector<place> places_;
  std::string fault_;
};

} // namespace actor_rdma::bootstrap
