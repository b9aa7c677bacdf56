// SPDX-License-Identifier: Apache-2.0
//
// Files and words from outside.
#include "base/input.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace actor_rdma::base;

namespace {

class directory {
public:
  directory() { REQUIRE(std::filesystem::create_directory(path_)); }
  ~directory() { std::filesystem::remove_all(path_); }
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + '/' + name, std::ios::binary) << text;
    return path_ + '/' + name;
  }
  const std::string& path() const { return path_; }

private:
  const std::string path_ = "/tmp/actor-rdma-input." + std::to_string(::getpid());
};

std::string refusal(const std::string& path) {
  const auto read = read_regular_file(path, 1000);
  REQUIRE_FALSE(read.has_value());
  return read.error().to_string();
}

} // namespace

TEST_CASE("a regular file is read whole, up to its greatest length") {
  const directory at;
  const std::string binary("a\0b\n\xff", 5);
  CHECK(*read_regular_file(at.file("short", binary), 1000) == binary);
  CHECK(read_regular_file(at.file("empty", ""), 1000)->empty());
  CHECK(read_regular_file(at.file("full", std::string(1000, 'x')), 1000)->size() == 1000);
  const auto longer = at.file("longer", std::string(1001, 'x'));
  CHECK(refusal(longer) == longer + ": is longer than 1000 bytes");
  std::filesystem::create_symlink(longer, at.path() + "/link");
  CHECK(read_regular_file(at.path() + "/link", 2000)->size() == 1001);
}

TEST_CASE("what is no regular file is refused and not waited for") {
  const directory at;
  CHECK(refusal(at.path()) == at.path() + ": is a directory, not a regular file");
  const auto fifo = at.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(refusal(fifo) == fifo + ": is a FIFO, not a regular file");
  CHECK(refusal("/dev/zero") == "/dev/zero: is a device, not a regular file");
  CHECK(refusal(at.path() + "/none") == at.path() + "/none: cannot be read: No such file or directory");
}

TEST_CASE("words of others are shown in quotes, escaped and cut") {
  CHECK(in_quotes("plain") == "\"plain\"");
  CHECK(in_quotes("") == "\"\"");
  CHECK(in_quotes("\x1b[2J\n\xc3\xa4") == "\"\\x1b[2J\\x0a\\xc3\\xa4\"");
  CHECK(in_quotes("abcdef", 3) == "\"abc...\"");
  CHECK(in_quotes(std::string(1000, '\0')).size() == 60 * 4 + 5);
}
