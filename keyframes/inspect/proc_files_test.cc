#include "keyframes/inspect/proc_files.h"

#include <sys/mman.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(ProcFilesTest, MapsLinesAreTheKernels) {
  MapRegion text = {.start = 0x555555554000,
                    .end = 0x555555556000,
                    .protection = PROT_READ | PROT_EXEC,
                    .file_offset = 0x1000,
                    .device_major = 0xfe,
                    .device_minor = 1,
                    .inode = 1234,
                    .name = "/bin/true"};
  MapRegion anonymous = {
      .start = 0x1000, .end = 0x2000, .protection = PROT_READ | PROT_WRITE, .shared = true};
  EXPECT_EQ(MapsText({text, anonymous}),
            "555555554000-555555556000 r-xp 00001000 fe:01 1234                       "
            "/bin/true\n"
            "00001000-00002000 rw-s 00000000 00:00 0 \n");
}

TEST(ProcFilesTest, NewlineInNameIsEscaped) {
  MapRegion region = {.start = 0x1000, .end = 0x2000, .name = "/a\nb"};
  EXPECT_NE(MapsText({region}).find("/a\\012b\n"), std::string::npos);
}

TEST(ProcFilesTest, SmapsAreSplitWhereMemoryIsUnknown) {
  MapRegion region = {.start = 0x10000, .end = 0x14000, .protection = PROT_READ};
  std::string text = SmapsText({region}, [](uint64_t start, uint64_t end) {
    return end <= 0x11000 || start >= 0x13000;  // two pages in the middle are not known
  });
  auto entry = [&text](const char* range) {
    size_t at = text.find(range);
    if (at == std::string::npos) return std::string("no ") + range;
    size_t flags = text.find("VmFlags:", at);
    return text.substr(flags, text.find('\n', flags) - flags);
  };
  EXPECT_EQ(entry("00010000-00011000"), "VmFlags: rd");
  EXPECT_EQ(entry("00011000-00013000"), "VmFlags: rd dd");
  EXPECT_EQ(entry("00013000-00014000"), "VmFlags: rd");
}

TEST(ProcFilesTest, StringsAreZeroTerminated) {
  EXPECT_EQ(ZeroTerminated({"ls", "-l"}), std::string("ls\0-l\0", 6));
}

TEST(ProcFilesTest, WordsAreLittleEndian) {
  EXPECT_EQ(RawWords({1, 0x0203}), std::string("\1\0\0\0\0\0\0\0\3\2\0\0\0\0\0\0", 16));
}

}  // namespace
}  // namespace hindsight
