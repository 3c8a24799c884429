// Values in gdb that need more than memory: vector registers, functions that gdb calls, pretty
// printers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

const std::string& Containers() {
  static const Recorded* recorded = new Recorded({Program("containers")});
  return recorded->trace();
}

TEST(GdbVectorsTest, UpperHalvesOfRegistersBothWays) {
  if (!HostHas({"avx2", "fma", "f16c"})) GTEST_SKIP() << "this host's processors lack them";
  const Recorded recorded({Program("avx2_kernels")});
  const GdbResult gdb = RunGdb(
      recorded.trace(), absl::Substitute(R"(
break avx2_kernels.c:$0
python
def lanes(): return value("$$ymm9.v4_int64")
say("hit", run("continue"))
say("cleared", lanes())
while instruction() != "vzeroupper": gdb.execute("reverse-stepi", to_string=True)
say("filled", lanes())
gdb.execute("stepi", to_string=True)
say("cleared again", lanes())
say("low", value("$$xmm9.v2_int64"))
end
)",
                                         LineOf("avx2_kernels.c", "report(\"upper halves\"")));
  EXPECT_EQ(gdb.Answer("hit"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("cleared"), "{1, 2, 0, 0}") << gdb.text;
  EXPECT_EQ(gdb.Answer("filled"), "{1, 2, 3, 4}") << gdb.text;
  EXPECT_EQ(gdb.Answer("cleared again"), "{1, 2, 0, 0}") << gdb.text;
  EXPECT_EQ(gdb.Answer("low"), "{1, 2}") << gdb.text;
}

TEST(GdbVectorsTest, AllOfAvx512BothWays) {
  if (!HostHas({"avx512f", "avx512bw", "avx512dq", "avx512vl"})) {
    GTEST_SKIP() << "this host's processors lack them";
  }
  const Recorded recorded({Program("avx512_kernels")});
  const GdbResult gdb =
      RunGdb(recorded.trace(), absl::Substitute(R"(
break avx512_kernels.c:$0
python
say("hit", run("continue"))
say("value", value("$$zmm27.v8_int64"))
say("result", value("$$zmm20.v8_int64"))
say("mask", hex(int(gdb.parse_and_eval("$$k5"))))
after = all_registers()
gdb.execute("reverse-stepi 14", to_string=True)
say("mask before", hex(int(gdb.parse_and_eval("$$k5"))))
gdb.execute("stepi 14", to_string=True)
say("same", all_registers() == after)
end
)",
                                                LineOf("avx512_kernels.c", "report(\"upper reg")));
  EXPECT_EQ(gdb.Answer("value"), "{1, 2, 3, 4, 5, 6, 7, 8}") << gdb.text;
  // 1999 * 0x10001: of its low eight bits, those of 4 and 5 are clear.
  EXPECT_EQ(gdb.Answer("result"), "{16, 32, 48, 64, 0, 0, 112, 128}") << gdb.text;
  EXPECT_EQ(gdb.Answer("mask"), "0x7cf07cf") << gdb.text;
  EXPECT_EQ(gdb.Answer("mask before"), "0x7ce07ce") << gdb.text;
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
}

TEST(GdbCallsTest, FunctionsOfProgramAndLibraries) {
  const GdbResult gdb = RunGdb(Containers(), R"gdb(
break Look
continue
python
before = (all_registers(), when())
say("twice", value("Twice(21)"))
say("strlen", value("(int)strlen(text)"))
say("size", value("ages.size()"))
say("text", value("name.c_str()"))
say("allocated", value("((char*(*)(const char*))strdup)(text)"))
say("unchanged", (all_registers(), when()) == before)
end
finish
python say("result", value("$"))
)gdb");
  EXPECT_EQ(gdb.Answer("twice"), "42") << gdb.text;
  EXPECT_EQ(gdb.Answer("strlen"), "9") << gdb.text;
  EXPECT_EQ(gdb.Answer("size"), "3") << gdb.text;
  EXPECT_THAT(gdb.Answer("text"), HasSubstr("\"a string longer than")) << gdb.text;
  EXPECT_THAT(gdb.Answer("allocated"), HasSubstr("\"nine char\"")) << gdb.text;
  EXPECT_EQ(gdb.Answer("unchanged"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("result"), "187") << gdb.text;
}

TEST(GdbCallsTest, WhatACalledFunctionPrintsReachesTheUser) {
  const GdbResult gdb = RunGdb(Containers(), R"(
break Look
continue
call (int)puts("printed while replaying")
call (int)fflush(0)
call (int)write(2, "and to standard error\n", 22)
python say("alive", function())
)");
  EXPECT_THAT(gdb.text, HasSubstr("printed while replaying")) << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("and to standard error")) << gdb.text;
  EXPECT_EQ(gdb.Answer("alive"), "Look") << gdb.text;
}

// Looking at a recording must not change anything on this machine.
TEST(GdbCallsTest, OtherSystemCallsAreRefusedWithAWord) {
  const TempDir directory;
  const std::string file = directory.File("made");
  const GdbResult gdb = RunGdb(Containers(), absl::Substitute(R"(
break Look
continue
python
try: say("creat", value('(int)creat("$0", 0600)'))
except gdb.error as error: say("creat", "error: %s" % error)
say("alive", function())
end
)",
                                                              file));
  EXPECT_EQ(gdb.Answer("creat"), "-1") << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("hindsight: system call creat fails (ENOSYS)")) << gdb.text;
  EXPECT_EQ(access(file.c_str(), F_OK), -1);
  EXPECT_EQ(gdb.Answer("alive"), "Look") << gdb.text;
}

// In one that waits in a system call, too, though gdb has to step the one that it stopped in off
// its breakpoint first. Where the threads really are, no call changes.
TEST(GdbCallsTest, InAnotherThread) {
  const Recorded recorded({Program("crash_in_thread")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break load if index == 3
continue
python
here = (all_registers(), when())
say("strlen", value('(int)strlen("four")'))
switch_to("crash_in_thread")
say("main", value('(int)strlen("threee")'))
say("stack", "main" in functions())
switch_to("reader")
say("unchanged", (all_registers(), when()) == here)
say("next", run("continue"))
end
)");
  EXPECT_EQ(gdb.Answer("strlen"), "4") << gdb.text;
  EXPECT_EQ(gdb.Answer("main"), "6") << gdb.text;
  EXPECT_EQ(gdb.Answer("unchanged"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("next"), "signal SIGSEGV") << gdb.text;
  EXPECT_EQ(gdb.Answer("stack"), "True") << gdb.text;
}

// As gdb shows them of a live process: it does not find the scripts of libraries by the names that
// those of a remote process have.
TEST(GdbCallsTest, PrettyPrintersOfTheStandardLibrary) {
  const GdbResult gdb = RunGdb(Containers(), R"(
break Look
continue
python
for what in ("name", "ages", "numbers"):
    say(what, gdb.execute("output " + what, to_string=True))
end
)");
  EXPECT_EQ(gdb.Answer("name"), "\"a string longer than fits into its object\"") << gdb.text;
  EXPECT_EQ(gdb.Answer("ages"),
            "std::map with 3 elements = {[\"one\"] = 1, [\"three\"] = 3, [\"two\"] = 2}")
      << gdb.text;
  EXPECT_EQ(gdb.Answer("numbers"), "std::vector of length 3, capacity 3 = {10, 20, 30}")
      << gdb.text;
}

TEST(GdbCallsTest, PrettyPrintersAreNotLoadedIfTheUserDoesNotWantThem) {
  const GdbResult gdb = RunGdb(Containers(), R"(
set auto-load python-scripts off
break Look
continue
python say("numbers", gdb.execute("output numbers", to_string=True).split("=")[0])
info pretty-printer
)");
  EXPECT_THAT(gdb.Answer("numbers"), HasSubstr("<std::_Vector_base<int")) << gdb.text;
  EXPECT_THAT(gdb.text, ::testing::Not(HasSubstr("libstdc++-v6"))) << gdb.text;
}

}  // namespace
}  // namespace hindsight::e2e
