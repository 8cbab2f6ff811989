// What mpirun says is told from what its ranks say, and becomes one line: texts of Open MPI 4.1 and 5.0.
#include "tools/mpirun_errors.h"

#include <gtest/gtest.h>

#include <string>

namespace heddle::tools {
namespace {

using End = MpirunErrors::End;

const std::string rule = std::string(74, '-') + "\n";

struct Heard {
  End end;
  std::string reason, printed;
  int rank;
};

// In pieces of seven bytes: lines end where they end, not where a read does.
Heard hear(const std::string& text) {
  MpirunErrors errors;
  testing::internal::CaptureStderr();
  for (size_t at = 0; at < text.size(); at += 7) errors.take(text.substr(at, 7));
  errors.finish();
  return {errors.end(), errors.reason(), testing::internal::GetCapturedStderr(), errors.rank()};
}

TEST(MpirunErrors, ASignalIsNamedWithItsRank) {
  const std::string of_4 = "mpirun noticed that process rank 1 with PID 0 on node a exited on signal 9 (Killed).\n";
  const std::string of_5 =
      "prterun noticed that process rank 1 with PID 18190 on node a exited on\nsignal 9 (Killed).\n";
  const Heard older = hear(rule + of_4 + rule), newer = hear(rule + of_5 + rule);
  EXPECT_EQ(older.end, End::by_signal);
  EXPECT_EQ(older.reason, "process rank 1 with PID 0 on node a exited on signal 9 (Killed)");
  EXPECT_EQ(newer.end, End::by_signal);
  EXPECT_EQ(newer.reason, "process rank 1 with PID 18190 on node a exited on signal 9 (Killed)");
  EXPECT_EQ(older.printed + newer.printed, "");
  EXPECT_EQ(older.rank, 1);
  EXPECT_EQ(newer.rank, 1);
}

TEST(MpirunErrors, WhatRanksSayGoesOnOnce) {
  const std::string said = "heddle: [train] a batch of 2 for 3 ranks\n";
  const std::string of_4 =
      rule +
      "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job "
      "has been aborted.\n" +
      rule + "[a:71] 1 more process has sent help message help-mpi.txt\n";
  const std::string of_5 = "[a][[61063,1],1][../../btl_tcp_proc.c:266:mca_btl_tcp] Unable to find reachable pairing\n" +
                           rule +
                           "prterun detected that one or more processes exited with non-zero status,\nthus causing the "
                           "job to be terminated.\n" +
                           rule;
  for (const std::string& own : {of_4, of_5}) {
    const Heard heard = hear(said + own + said);
    EXPECT_EQ(heard.end, End::by_itself);
    EXPECT_EQ(heard.rank, -1);
    EXPECT_EQ(heard.printed, said);
  }
  EXPECT_EQ(hear("a\nb\na").printed, "a\nb\na\n");  // another library's lines, as they are
}

TEST(MpirunErrors, AHostThatCannotBeReachedIsNamed) {
  const std::string ssh = "ssh: Could not resolve hostname b: Name or service not known\n";
  const std::string of_4 = rule + "ORTE was unable to reliably start one or more daemons.\n" + rule;
  const std::string of_5 = rule + "PRTE has lost communication with a remote daemon.\n" + rule + std::string(1, '\0');
  for (const std::string& own : {of_4, of_5}) {
    const Heard heard = hear(ssh + own);
    EXPECT_EQ(heard.end, End::not_started);
    EXPECT_EQ(heard.reason, ssh.substr(0, ssh.size() - 1));
    EXPECT_EQ(heard.printed, "");
  }
}

TEST(MpirunErrors, WhatIsSaidToTheLauncherIsKept) {
  MpirunErrors errors;
  testing::internal::CaptureStderr();
  errors.take("heddle: a remark\nheddle-launch: first lost\nheddle-launch: ov");
  EXPECT_FALSE(errors.heard("over"));
  errors.take("er\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "heddle: a remark\n");
  EXPECT_TRUE(errors.heard("over"));
  EXPECT_TRUE(errors.heard("first lost"));
  EXPECT_FALSE(errors.heard("failed"));
}

}  // namespace
}  // namespace heddle::tools
