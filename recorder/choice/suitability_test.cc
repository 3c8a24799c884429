#include "recorder/choice/suitability.h"

#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

MapRegion Region(uint64_t start, uint64_t end, const char* name) {
  MapRegion region;
  region.start = start;
  region.end = end;
  region.protection = PROT_READ;
  region.name = name;
  return region;
}

TEST(SuitabilityTest, WhatTheKernelMapsUpwardFits) {
  EXPECT_EQ(ReasonInMap(MemoryMap({Region(0x400000, 0x500000, "/bin/fixed"),
                                   Region(0x2aaaaaaab000, 0x2aaaaaaac000, "/lib/ld.so"),
                                   Region(0x555555554000, 0x555555555000, "/bin/pie"),
                                   Region(0x7ffffffde000, 0x7ffffffff000, "[stack]"),
                                   Region(0xffffffffff600000, 0xffffffffff601000, "[vsyscall]")})),
            "");
}

TEST(SuitabilityTest, AProgramBetweenTheWindowsDoesNot) {
  EXPECT_NE(ReasonInMap(MemoryMap({Region(0x200000000000, 0x200000001000, "/bin/odd")})), "");
}

// Where the layout was refused, libraries lie beside the stack.
TEST(SuitabilityTest, TheUsualLayoutDoesNot) { EXPECT_NE(ReasonNotToTranslate(getpid()), ""); }

TEST(SuitabilityTest, ProgramsAreKnownByTheirSymbols) {
  EXPECT_EQ(ReasonToDoubt({}), "");
  for (const char* name : {"__asan_init", "__tsan_init", "ptrace"}) {
    EXPECT_NE(ReasonToDoubt({.symbols = {name}}), "") << name;
  }
  EXPECT_EQ(ReasonToDoubt({.needs_avx = true}), "");
}

TEST(SuitabilityTest, ADebuggerTracesAndAShellDoesNot) {
  EXPECT_NE(ReasonToDoubt(FactsOf("/usr/bin/gdb")), "");
  EXPECT_EQ(ReasonToDoubt(FactsOf("/bin/bash")), "");
  EXPECT_EQ(ReasonToDoubt(FactsOf("/etc/passwd")), "");
}

}  // namespace
}  // namespace hindsight
