// SPDX-License-Identifier: Apache-2.0
// Says now and then how far a command that takes long has come.
#pragma once

#include "base/time.hpp"

#include <iosfwd>
#include <string>

namespace actor_rdma::drill {

class progress {
public:
  /// Says nothing at all.
  progress() = default;
  /// One line each `period`; the first one period after `begin`.
  progress(std::ostream& to, base::duration period, base::time_point begin)
      : to_{&to}, period_{period}, begin_{begin}, due_{begin + period} {}

  [[nodiscard]] bool is_on() const noexcept { return to_ != nullptr; }
  /// To be called often. `words` is asked only when a line is due.
  template <class Words>
  void look(base::time_point now, const Words& words) {
    if (!is_on() || now < due_)
      return;
    due_ = now + period_;
    say(now, words());
  }

private:
  void say(base::time_point now, const std::string& words);

  std::ostream* to_ = nullptr;
  base::duration period_{};
  base::time_point begin_{};
  base::time_point due_{};
};

} // namespace actor_rdma::drill
