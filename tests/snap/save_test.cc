// hindsight snap --save: what is asked for is there, all else is not known, and not zeros.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/harness/gdb.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

class SaveTest : public testing::Test {
 protected:
  // What gdb says of the snapshot in `mark`.
  GdbResult Look(const std::string& save) {
    const ChildResult snap = RunProcess({Hindsight(), "snap", "-o", trace_, "--at=mark",
                                         "--save=" + save, "--", Runfile("tests/snap/saved")});
    EXPECT_EQ(snap.Ending(), "exit 0") << snap.err;
    err_ = snap.err;
    return TryGdb(trace_, R"(
python
def look(tag, expression):
  try:
    say(tag, value(expression))
  except gdb.error as error:
    say(tag, str(error).split(" at ")[0])
def frames(thread):
  thread.switch()
  frame, names = gdb.selected_frame(), []
  try:
    while frame: names, frame = names + [frame.name()], frame.older()
  except gdb.error: pass
  return names
look("table", "table[2999]")
look("other", "other[2999]")
look("heap", "heap")
threads = sorted(gdb.selected_inferior().threads(), key=lambda t: t.num)
stacks = [frames(thread) for thread in threads]
say("main", "main" in stacks[0])
say("waits", sum("wait_twice" in names for names in stacks))
say("code", value("*(unsigned char *) &mark != 0xcc"))
end
)");
  }

  TempDir directory_;
  const std::string trace_ = directory_.path() + "/trace";
  std::string err_;
};

constexpr char kUnknown[] = "Cannot access memory";

TEST_F(SaveTest, StacksOnly) {
  const GdbResult gdb = Look("stacks");
  EXPECT_EQ(gdb.Answer("main"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("waits"), "2");
  EXPECT_EQ(gdb.Answer("table"), kUnknown);
  EXPECT_EQ(gdb.Answer("other"), kUnknown);
  EXPECT_EQ(gdb.Answer("heap"), kUnknown);
  EXPECT_EQ(gdb.Answer("code"), "1");
}

TEST_F(SaveTest, VariableOnly) {
  const GdbResult gdb = Look("variable:table");
  EXPECT_EQ(gdb.Answer("table"), "2999") << gdb.text;
  EXPECT_EQ(gdb.Answer("other"), kUnknown);
  EXPECT_EQ(gdb.Answer("waits"), "0");
}

TEST_F(SaveTest, Everything) {
  const GdbResult gdb = Look("all");
  EXPECT_EQ(gdb.Answer("table"), "2999") << gdb.text;
  EXPECT_EQ(gdb.Answer("other"), "5998");
  EXPECT_EQ(gdb.Answer("waits"), "2");
}

TEST_F(SaveTest, UnknownVariableIsNamed) {
  Look("variable:nothing");
  EXPECT_THAT(err_, HasSubstr("--save=variable:nothing: "));
}

}  // namespace
}  // namespace hindsight::e2e
