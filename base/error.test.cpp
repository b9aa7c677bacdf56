// SPDX-License-Identifier: Apache-2.0
//
// Tests of how errors read, since their text is what an operator gets.
#include "base/error.hpp"

#include <cerrno>
#include <set>

#include <doctest/doctest.h>

using namespace actor_rdma::base;

TEST_CASE("an error with every part reads as one sentence") {
  const error e{.why = reason::local_device,
                .layer = "verbs",
                .device = "soft0",
                .rail = "soft0-soft1",
                .peer = "host7",
                .what = "cannot create QP",
                .sys_errno = ENOMEM};
  CHECK(e.to_string() ==
        "verbs: cannot create QP (device soft0, rail soft0-soft1, peer host7): Cannot allocate memory");
}

TEST_CASE("an error leaves out what it does not know") {
  CHECK(error{.why = reason::timeout, .what = "no answer"}.to_string() == "no answer");
  CHECK(error{.why = reason::timeout, .layer = "bootstrap"}.to_string() == "bootstrap: timeout");
  CHECK(error{.why = reason::peer_dead, .peer = "host7", .what = "gone"}.to_string() == "gone (peer host7)");
  CHECK(error{.why = reason::path, .what = "down", .sys_errno = ETIMEDOUT}.to_string() ==
        "down: Connection timed out");
}

TEST_CASE("every reason has a name of its own") {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(reason::count); ++i)
    names.insert(to_string(static_cast<reason>(i)));
  CHECK(names.size() == static_cast<std::size_t>(reason::count));
  CHECK(names.count("unknown") == 0);
  CHECK(std::string{to_string(reason::count)} == "unknown");
}

TEST_CASE("fail makes an expected of any type an error") {
  const auto refuse = [](bool yes) -> expected<int> {
    if (yes)
      return fail(reason::not_found, "base", "nothing there", ENOENT);
    return 1;
  };
  CHECK(refuse(false).value() == 1);
  const auto refused = refuse(true);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().why == reason::not_found);
  CHECK(refused.error().to_string() == "base: nothing there: No such file or directory");
}
