// SPDX-License-Identifier: Apache-2.0
// What the program says to its user, beyond the reports of runs.
#include "drill/command_line.hpp"

#include "drill/judge.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

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

/// A file that is gone when this is.
struct scenario_file {
  explicit scenario_file(const std::string& rest)
      : path{std::filesystem::temp_directory_path() /
             ("drill-test-" + std::to_string(::getpid()) + ".json")} {
    std::ofstream{path} << R"({ "id": "x", "title": "y", "hosts": [{ "name": "a" }, { "name": "b" }])" << rest
                        << "}";
  }
  ~scenario_file() { std::filesystem::remove(path); }
  scenario_file(const scenario_file&) = delete;
  scenario_file& operator=(const scenario_file&) = delete;

  const std::string path;
};

const char* const short_traffic = R"(, "traffic": [{ "from": "a", "to": "b", "count": 2 }])";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
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

TEST_CASE(
    "a scenario without traffic is played, and both run and explain warn that it hardly checks anything") {
  const scenario_file file{""};
  const auto warning = file.path + ": warning: it has no traffic";
  auto o = run({"run", "--seed", "1", file.path.c_str()});
  CHECK(o.status == exit_good);
  CHECK(has(o.errors, warning));
  o = run({"explain", file.path.c_str()});
  CHECK(o.status == exit_good);
  CHECK(has(o.errors, warning));
}

TEST_CASE("a long run says how far it has come when it is asked to, and else is silent") {
  const scenario_file file{short_traffic};
  auto o = run({"run", "--seeds", "30", "--jobs", "1", "--progress-every", "0.001", file.path.c_str()});
  CHECK(o.status == exit_good);
  CHECK(o.errors.starts_with("progress: "));
  CHECK(has(o.errors, " of 30 runs done, 0 failed\n"));
  CHECK_FALSE(has(o.output, "progress"));
  CHECK(run({"run", "--seeds", "3", "--progress", file.path.c_str()}).errors.empty()); // it takes no 10 s
  CHECK(run({"run", "--seeds", "3", file.path.c_str()}).errors.empty());
  o = run({"measure", "--runs", "30", "--jobs", "1", "--progress-every", "0.001", file.path.c_str()});
  CHECK(has(o.errors, " of 30 runs done, 0 void, 0 failed\n"));
}
