// Worlds that mpirun makes, and processes that lack one. Skipped where Open MPI is not installed.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "heddle/core/base/system/machine.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/launch.h"
#include "heddle/distributed/open_world.h"
#include "tests/cli/subprocess.h"
#include "tests/distributed/open_mpi.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

using heddle::test::Finished;
using heddle::test::run_program;
using tests::expect_error;

const std::map<std::string, std::string> as_root = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                                    {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                                    {"OMPI_MCA_plm_rsh_agent", "/bin/true"},  // needs no ssh
                                                    {"ASAN_OPTIONS", "detect_leaks=0"}};      // MPI's own

// Found as a shell finds it; 127 where there is nothing of that name.
Finished run_command(std::vector<std::string> words) {
  words.insert(words.begin(), "/usr/bin/env");
  return run_program(words, {.environment = as_root});
}

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "MPI's libraries are not built for ThreadSanitizer";
#endif
    if (heddle::test::version_of_mpirun() == 0) GTEST_SKIP() << heddle::test::no_open_mpi;
  }
  static Finished ranks(int count, const std::string& what) {
    return run_command({"mpirun", "-n", std::to_string(count), "--oversubscribe", HEDDLE_MPI_RANKS, what});
  }
};

TEST_F(Mpi, TwoAndFourRanks) {
  for (const int count : {2, 4}) {
    const Finished first = ranks(count, "collectives"), again = ranks(count, "collectives");
    EXPECT_EQ(first.exit_code, 0) << first.err;
    EXPECT_EQ(first.out.rfind("ok " + std::to_string(count) + " ranks over Open MPI v", 0), 0u) << first.out;
    EXPECT_EQ(first.out, again.out) << "the same bits";
  }
}

TEST_F(Mpi, ProgramsOfRanks) {
  for (const int count : {2, 4}) {
    const Finished run = ranks(count, "program");
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out.rfind("ok ", 0), 0u) << run.out;
  }
}

TEST_F(Mpi, RanksThatDisagreeAreNamed) {
  const Finished run = ranks(2, "mismatch");
  EXPECT_NE(run.exit_code, 0);
  for (const char* part : {"[all_reduce] call 0 of all ranks: ranks made different calls",
                           "rank 0: all_reduce sum f32 (4) (ranks.cpp:", "rank 1: all_reduce sum f32 (8) (ranks.cpp:"})
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
}

TEST_F(Mpi, ARankThatDoesNotComeIsNamed) {
  const Finished run = ranks(2, "silent");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE(run.err.find("[barrier] call 0 of all ranks: rank 0 waited 1 s for barrier"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("rank 1 has not made this call"), std::string::npos) << run.err;
}

TEST_F(Mpi, StartsOnceInAProcess) {
  const Finished run = ranks(2, "twice");
  EXPECT_NE(run.err.find("[mpi] this process has had its world"), std::string::npos) << run.err;
}

TEST(Mpich, TwoRanks) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "MPI's libraries are not built for ThreadSanitizer";
#endif
  const Finished run = run_command({"mpiexec.hydra", "-n", "2", HEDDLE_MPI_RANKS, "collectives"});
  if (run.exit_code == 127) GTEST_SKIP() << "mpiexec.hydra is not installed (Debian: mpich)";
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.rfind("ok 2 ranks over MPICH Version: ", 0), 0u) << run.out;
}

// A launcher of another MPI: four ranks are said to be there, and the library knows of none.
TEST_F(Mpi, ALibraryOfAnotherLauncherIsRefused) {
  std::map<std::string, std::string> environment = as_root;
  environment["PMI_SIZE"] = "4";
  const Finished run = run_program({HEDDLE_MPI_RANKS, "collectives"}, {.environment = environment});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("[mpi] mpirun started 4 ranks, but "), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("sees 1: it belongs to another launcher"), std::string::npos) << run.err;
}

// Variables as a launcher sets them, for the time of a test; null: not set.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, const char*>> values) {
    for (const auto& [name, value] : values) {
      before_.emplace_back(name, os::variable(name));
      os::set_variable(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) os::set_variable(name, value);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST(Launch, IsReadFromTheEnvironment) {
  const Variables none{{"OMPI_COMM_WORLD_SIZE", nullptr},
                       {"PMI_SIZE", nullptr},
                       {"PMIX_RANK", nullptr},
                       {"SLURM_STEP_NUM_TASKS", nullptr}};
  EXPECT_EQ(launch_of_process().kind, Launch::Kind::none);
  EXPECT_EQ(open_world()->size(), 1);
  {
    const Variables set{{"PMIX_RANK", "0"}};
    EXPECT_EQ(launch_of_process().kind, Launch::Kind::pmix);
    EXPECT_EQ(launch_of_process().str(), "a PMIx launcher started this process");
    const Variables of_slurm{{"SLURM_STEP_NUM_TASKS", "1"}};
    EXPECT_EQ(launch_of_process().str(), "a PMIx launcher started 1 rank");
    EXPECT_EQ(open_world()->transport(), "none");  // nobody else is there: no library is needed
  }
  {
    const Variables set{{"PMI_SIZE", "3"}};
    EXPECT_EQ(launch_of_process().kind, Launch::Kind::mpich);
    EXPECT_EQ(launch_of_process().str(), "mpirun started 3 ranks");
  }
  {
    const Variables set{{"OMPI_COMM_WORLD_SIZE", "1"}};
    EXPECT_EQ(launch_of_process().kind, Launch::Kind::open_mpi);
    EXPECT_EQ(launch_of_process().str(), "mpirun started 1 rank");
  }
  const Variables broken{{"PMI_SIZE", "many"}, {"OMPI_COMM_WORLD_SIZE", "-4"}};
  EXPECT_EQ(launch_of_process().kind, Launch::Kind::none);
}

TEST(Launch, AMissingLibraryIsNamedWithItsPackage) {
  const Variables set{{"OMPI_COMM_WORLD_SIZE", "4"}, {"HEDDLE_MPI", "/nonexistent/libmpi.so"}};
  expect_error<TransportUnavailable>(
      [] { open_world(); }, {"[mpi] mpirun started 4 ranks, but no MPI library can be opened", "/nonexistent/libmpi.so",
                             "Debian's package is openmpi-bin"});
}

TEST(Launch, ALibraryThatIsNoMpiIsRefused) {
  const Variables set{{"OMPI_COMM_WORLD_SIZE", "4"}, {"HEDDLE_MPI", "libm.so.6"}};
  expect_error<TransportUnavailable>([] { open_world(); }, {"[mpi] libm.so.6 has no MPI_Initialized"});
}

}  // namespace
}  // namespace heddle::distributed
