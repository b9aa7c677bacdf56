// SPDX-License-Identifier: Apache-2.0
// What the program says to its user, beyond the reports of runs.
#include "drill/command_line.hpp"

#include "drill/judge.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::drill;

namespace {

struct outcome {
  int status;
  std::string output;
  std::string errors;
};

outcome run(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "actor-rdma-drill");
  std::ostringstream output;
  std::ostringstream errors;
  const auto status = run_command_line(static_cast<int>(arguments.size()), arguments.data(), output, errors);
  return {status, output.str(), errors.str()};
}

} // namespace

TEST_CASE("a word that is no command is named, with the commands that there are") {
  const auto o = run({"frob", "--seed", "1"});
  CHECK(o.status == exit_usage);
  CHECK(o.errors ==
        "actor-rdma-drill: unknown command \"frob\", known are run, list, measure, random, explain\n");
  CHECK(run({}).status == exit_usage);
  CHECK(run({"--frob"}).errors.find("unknown command") == std::string::npos);
  CHECK(run({"run"}).errors.find("unknown command") == std::string::npos);
  CHECK(run({"--help"}).status == exit_good);
}
