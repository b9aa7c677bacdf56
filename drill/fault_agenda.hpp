// SPDX-License-Identifier: Apache-2.0
// A run's faults: which are still to come, which are to be undone, and what is written down of those that
// came. The same in virtual and in real time; when something is done is the run's affair.
#pragma once

#include "base/random.hpp"
#include "base/time.hpp"
#include "drill/facts.hpp"
#include "drill/scenario.hpp"
#include "drill/stage.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::drill {

class fault_agenda {
public:
  /// Both outlive it.
  fault_agenda(const scenario& what, run_facts& into) : what_(what), facts_(into) {}

  /// Hands each fault that has a time to `later` with it, once for each time it happens, in the file's order;
  /// what `spread` leaves open is drawn. Those of 0 ms are returned: they come before the traffic of 0 ms.
  std::vector<const fault_spec*> plan(base::rng& random,
                                      const std::function<void(base::duration, const fault_spec&)>& later);
  /// Those that waited for so many transfers of these flows to have ended, and do not any more.
  template <class Flows>
  std::vector<const fault_spec*> take_counted(const Flows& flows) {
    std::vector<const fault_spec*> due;
    std::erase_if(counted_, [&](const auto& c) {
      std::uint64_t ended = 0;
      for (const auto& f : flows)
        if (c.first->traffic.empty() || f.spec().name == c.first->traffic)
          ended += f.ended();
      if (ended < c.second)
        return false;
      due.push_back(c.first);
      return true;
    });
    return due;
  }

  /// First of what happens: it is not the last thing then if it is to be undone.
  void begins(const fault_spec& what) noexcept;
  void is_undone() noexcept { --undone_; }
  /// "over: ..." for its undoing.
  static std::string words(const fault_spec& what, bool undo);
  /// The host without whose process there is nothing that it could befall; empty: it needs none.
  std::string host_of(const fault_spec& what, bool undo) const;
  /// Why it would befall nothing now: its host's process is gone, or what is to be undone befell nothing, or
  /// a process that is gone, whose devices and memory went with it. Empty: it can be done.
  std::string void_because(const fault_spec& what, bool undo, const stage& on) const;
  /// Its words, and why nothing happens if it is void.
  std::string trace_words(const fault_spec& what, bool undo, const stage& on) const;
  /// Does or undoes it, or nothing if it is void, and writes it down with the time `at`. Empty, or why it
  /// could not be done. What lasts is undone in the order in which it began.
  std::string act(const fault_spec& what, bool undo, stage& on, base::duration at);

  /// Nothing is to come and nothing is to be undone.
  bool is_through() const noexcept { return pending_ == 0 && undone_ == 0; }
  /// The same, but for those that wait for transfers to end.
  bool only_counted_are_left() const noexcept { return undone_ == 0 && pending_ <= counted_.size(); }
  /// "fault ... never happened: ..."; empty if none waits.
  std::string never_happened() const;

private:
  const scenario& what_;
  run_facts& facts_;
  std::vector<std::pair<const fault_spec*, std::uint64_t>> counted_; ///< they wait for so many to end
  /// In which life of its host each fault began that is to be undone; none: it was void.
  std::map<const fault_spec*, std::deque<std::optional<std::uint64_t>>> begun_in_;
  std::size_t pending_ = 0;
  std::size_t undone_ = 0;
};

} // namespace actor_rdma::drill
