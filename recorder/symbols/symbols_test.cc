#include "recorder/symbols/symbols.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace hindsight {

// Places to be found in this very process.
extern "C" __attribute__((noinline)) int PlainFunctionOfTheTest(int x) {
  asm volatile("");
  return x + 1;
}
int variable_of_the_test = 7;
namespace place {
uint16_t variable_of_the_test[5];
struct Class {
  __attribute__((noinline)) static int Method(int x, const char*) {
    asm volatile("");
    return x;
  }
};
}  // namespace place

namespace {

CodePlace Parsed(const std::string& text) {
  auto place = ParseCodePlace(text);
  EXPECT_TRUE(place.ok()) << place.status();
  return place.ok() ? *place : CodePlace{};
}

TEST(ParseCodePlaceTest, UnderstandsItsForms) {
  EXPECT_EQ(Parsed("main").function, "main");
  EXPECT_EQ(Parsed("libc.so.6:printf").file, "libc.so.6");
  EXPECT_EQ(Parsed("libc.so.6:printf").function, "printf");
  EXPECT_EQ(Parsed("/lib/a.so:f+0x10").file, "/lib/a.so");
  EXPECT_EQ(Parsed("/lib/a.so:f+0x10").offset, 16u);
  EXPECT_EQ(Parsed("f+12").offset, 12u);
  EXPECT_EQ(Parsed("std::vector<int>::push_back").file, "");
  EXPECT_EQ(Parsed("a.out:ns::f").function, "ns::f");
  EXPECT_EQ(Parsed("a.out:ns::f").file, "a.out");
  EXPECT_EQ(Parsed("N::operator+").function, "N::operator+");
  EXPECT_EQ(Parsed("0x401000").offset, 0x401000u);
  EXPECT_EQ(Parsed("0x401000").function, "");
}

TEST(ParseCodePlaceTest, RejectsTheRest) {
  for (const char* text : {"", "0x", "0xzz", "f+0xzz", "f+1x", ":f", "a.out:", "+5"}) {
    EXPECT_EQ(ParseCodePlace(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

class SymbolsTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> Find(const std::string& text) {
    return symbols_.Find(Parsed(text), map_, getpid()).addresses;
  }
  bool Finds(const std::string& text, const void* function) {
    const std::vector<uint64_t> found = Find(text);
    return std::count(found.begin(), found.end(), reinterpret_cast<uint64_t>(function)) == 1;
  }

  Symbols symbols_;
  MemoryMap map_ = MemoryMap::OfProcess("/proc/self/maps");
};

TEST_F(SymbolsTest, FunctionsOfTheProgram) {
  EXPECT_EQ(PlainFunctionOfTheTest(1), 2);
  const auto* plain = reinterpret_cast<const void*>(PlainFunctionOfTheTest);
  EXPECT_TRUE(Finds("PlainFunctionOfTheTest", plain));
  EXPECT_TRUE(Finds("symbols_test:PlainFunctionOfTheTest", plain));
  EXPECT_EQ(Find("PlainFunctionOfTheTest+3").at(0), Find("PlainFunctionOfTheTest").at(0) + 3);
  EXPECT_TRUE(Find("libc.so.6:PlainFunctionOfTheTest").empty());
}

TEST_F(SymbolsTest, NamesOfCxx) {
  EXPECT_EQ(place::Class::Method(5, ""), 5);
  const auto* method = reinterpret_cast<const void*>(place::Class::Method);
  EXPECT_TRUE(Finds("hindsight::place::Class::Method", method));
  EXPECT_TRUE(Finds("Class::Method", method));
  EXPECT_TRUE(Finds("Method", method));
  EXPECT_TRUE(Find("lass::Method").empty());
  EXPECT_TRUE(Finds("_ZN9hindsight5place5Class6MethodEiPKc", method));
}

TEST_F(SymbolsTest, FunctionsOfLibraries) {
  EXPECT_TRUE(Finds("libc.so.6:getenv", dlsym(RTLD_DEFAULT, "getenv")));
  EXPECT_TRUE(Finds("getenv", dlsym(RTLD_DEFAULT, "getenv")));
}

TEST_F(SymbolsTest, AddressesStandForThemselves) {
  EXPECT_EQ(Find("0x1234"), std::vector<uint64_t>{0x1234});
}

bool HasVariable(const std::vector<VariablePlace>& found, const void* address, size_t size) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  return std::any_of(found.begin(), found.end(), [&](const VariablePlace& place) {
    return place.begin == begin && place.end == begin + size;
  });
}

TEST_F(SymbolsTest, VariablesOfTheProgramAndItsLibraries) {
  EXPECT_TRUE(HasVariable(FindVariables("hindsight::variable_of_the_test", map_, ""),
                          &variable_of_the_test, sizeof(variable_of_the_test)));
  EXPECT_TRUE(HasVariable(FindVariables("hindsight::place::variable_of_the_test", map_, ""),
                          place::variable_of_the_test, sizeof(place::variable_of_the_test)));
  EXPECT_TRUE(HasVariable(FindVariables("_IO_2_1_stdout_", map_, ""),
                          dlsym(RTLD_DEFAULT, "_IO_2_1_stdout_"), sizeof(FILE) + 8));
  EXPECT_TRUE(FindVariables("PlainFunctionOfTheTest", map_, "").empty());
}

TEST_F(SymbolsTest, LinkerLetsKnow) { EXPECT_EQ(symbols_.LinkerHooks(map_, getpid()).size(), 1u); }

TEST_F(SymbolsTest, SuggestsWhatIsSimilar) {
  const absl::Status typo = symbols_.NotFound(Parsed("PlainFuntionOfTheTest"), map_, getpid());
  EXPECT_EQ(typo.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(typo.message(), "PlainFunctionOfTheTest")) << typo;
  const absl::Status part = symbols_.NotFound(Parsed("FunctionOfTheTest"), map_, getpid());
  EXPECT_TRUE(absl::StrContains(part.message(), "PlainFunctionOfTheTest")) << part;
  const absl::Status file = symbols_.NotFound(Parsed("libnone.so:f"), map_, getpid());
  EXPECT_TRUE(absl::StrContains(file.message(), "libnone.so")) << file;
  const absl::Status nothing = symbols_.NotFound(Parsed("zqxjkvbwpq"), map_, getpid());
  EXPECT_FALSE(absl::StrContains(nothing.message(), "similar")) << nothing;
}

}  // namespace
}  // namespace hindsight
