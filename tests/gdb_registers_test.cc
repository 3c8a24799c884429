// Vector registers in gdb: walking a recording backward shows what the processor computes, as gdb
// sees it on the live process.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Tells the registers before each instruction of the functions that compute, one line each, from
// here until `done` says so; `step` goes on by one instruction.
constexpr char kWalk[] = R"(
def offset(): return pc() - int(gdb.parse_and_eval("(unsigned long)&" + function()))
def walk(step, done):
    while True:
        if function() in ("first_part", "second_part"):
            frame = gdb.selected_frame()
            say("state", "%s+%d %s mxcsr %s flags %x xmm %s" % (
                function(), offset(), instruction(), frame.read_register("mxcsr"),
                int(frame.read_register("eflags")) & 0x8d5,
                " ".join(str(frame.read_register("xmm%d" % i)["v2_int64"]) for i in range(8))))
        if done(): break
        gdb.execute(step, to_string=True)
)";

TEST(GdbRegistersTest, SseBackwardIsAsOnTheLiveProcess) {
  if (!HostHas({"sse4_2"})) GTEST_SKIP() << "this host's processors lack them";
  const std::string walk = kWalk;
  const GdbResult live = RunGdbOnProgram(Program("sse_registers"), R"(
break *first_part
continue
python)" + walk + R"(
walk("stepi", lambda: function() == "finished")
end
kill
)");
  const Recorded recorded({Program("sse_registers")});
  const GdbResult back = RunGdb(recorded.trace(), R"(
break finished
continue
delete
python)" + walk + R"(
walk("reverse-stepi", lambda: function() == "first_part" and offset() == 0)
end
)");
  std::vector<std::string> expected = live.Answers("state");
  std::vector<std::string> seen = back.Answers("state");
  std::reverse(seen.begin(), seen.end());
  ASSERT_GT(expected.size(), 3000u) << live.text;
  ASSERT_EQ(seen.size(), expected.size()) << back.text;
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], expected[i]) << "after " << (i == 0 ? "" : expected[i - 1]);
  }
}

}  // namespace
}  // namespace hindsight::e2e
