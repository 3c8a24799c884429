#include "recorder/choice/executable_facts.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(ExecutableFactsTest, SymbolsWantedFromLibrariesAreFound) {
  const ExecutableFacts facts = ReadExecutableFacts("/usr/bin/gdb", {"ptrace", "no_such_function"});
  EXPECT_EQ(facts.symbols, std::set<std::string>{"ptrace"});
  EXPECT_FALSE(facts.needs_avx);
}

TEST(ExecutableFactsTest, AStaticProgramHasItsOwn) {
  const ExecutableFacts facts =
      ReadExecutableFacts("recorder/choice/testdata/for_new_processors", {"main", "ptrace"});
  EXPECT_EQ(facts.symbols, std::set<std::string>{"main"});
}

TEST(ExecutableFactsTest, AProgramSaysWhatProcessorsItIsFor) {
  EXPECT_TRUE(ReadExecutableFacts("recorder/choice/testdata/for_new_processors", {}).needs_avx);
}

TEST(ExecutableFactsTest, NothingIsKnownOfOtherFiles) {
  for (const char* path : {"/etc/passwd", "/nonexistent", "/"}) {
    EXPECT_TRUE(ReadExecutableFacts(path, {"main"}).symbols.empty()) << path;
  }
}

}  // namespace
}  // namespace hindsight
