// SPDX-License-Identifier: Apache-2.0
// actor-rdma-drill. Exit status: 0 all is well; 1 an expectation of a file failed; 2 arguments or a file are
// wrong; 3 an invariant was broken; 4 a run crashed or did not come to its end, or nobody could be told.
#include "base/output.hpp"
#include "drill/command_line.hpp"
#include "drill/judge.hpp"

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  try {
    const int status = actor_rdma::drill::run_command_line(argc, argv, std::cout, std::cerr);
    return actor_rdma::base::output_written("actor-rdma-drill", status, actor_rdma::drill::exit_unfinished);
  } catch (const std::exception& e) {
    std::cerr << "actor-rdma-drill: " << e.what() << '\n';
    return actor_rdma::drill::exit_unfinished;
  }
}
