// SPDX-License-Identifier: Apache-2.0
// What surrounds a run: the log and the descriptors of this process.
#include "drill/sim/sim_runner.hpp"

#include "base/log.hpp"
#include "drill/descriptors.hpp"
#include "drill/sim/play.hpp"

#include <new>

namespace actor_rdma::drill {

namespace {

/// While it lives, log lines go to the run, which knows the time, instead of to standard error.
class captured_log {
public:
  captured_log() {
    base::set_level(base::level::info);
    base::set_sink([this](base::level, std::string_view text) {
      if (run != nullptr)
        run->log_line(text);
    });
  }
  ~captured_log() { base::set_sink({}); }
  captured_log(const captured_log&) = delete;
  captured_log& operator=(const captured_log&) = delete;

  play* run = nullptr;
};

} // namespace

run_facts sim_runner::run(const scenario& what, std::uint64_t seed, const run_wishes& wishes) {
  run_facts facts;
  facts.seed = seed;
  const auto before = open_descriptors();
  {
    captured_log log;
    play p(what, seed, wishes, facts);
    log.run = &p;
    try {
      p.run();
    } catch (const std::bad_alloc&) {
      facts.unfinished =
          "no more memory can be allocated for what its hosts hold and what is recorded of them";
    }
    log.run = nullptr;
  }
  facts.counters.push_back({"open file descriptors of the process", before, open_descriptors()});
  return facts;
}

} // namespace actor_rdma::drill
