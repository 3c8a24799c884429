// The demonstration of snapshots finds the statement that it promises: the script of
// `./demo snapshots` itself, with the real gdb.

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"

namespace hindsight::e2e {
namespace {

TEST(ChannelDemoTest, GoesFromSnapshotsToTheStatement) {
  const TempDir directory;
  const ChildResult run = RunProcess({Runfile("examples/channel_demo"), Hindsight(),
                                      Runfile("examples/channel"), directory.path()},
                                     {.timeout = absl::Seconds(800)});
  EXPECT_EQ(run.Ending(), "exit 0") << run.out << run.err;
  // The first fault is at step 1893, whatever the threads do.
  for (const char* text : {
           "changed between snapshots 9 and 10\n",  // of every 200th step
           "changed between snapshots 4 and 5\n",   // of every 20th from 1820 on, by refine
           "$1 = 1893\n",
           "It writes arrived[12]; there are 12.\n",
       }) {
    EXPECT_TRUE(absl::StrContains(run.out, text)) << text << "\n" << run.out << run.err;
  }
}

TEST(ChannelDemoTest, FailsIfThereIsNothingToFind) {
  const TempDir directory;
  const ChildResult run =
      RunProcess({Runfile("examples/channel_demo"), Hindsight(), "/bin/true", directory.path()});
  EXPECT_NE(run.Ending(), "exit 0") << run.out << run.err;
}

}  // namespace
}  // namespace hindsight::e2e
