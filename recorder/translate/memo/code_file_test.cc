#include "recorder/translate/memo/code_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "recorder/process/memory_map.h"

namespace hindsight {
namespace {

bool IsSystems(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && CodeFile::Open(path, status.st_ino) != nullptr;
}

class CodeFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
    for (const MapRegion& region : map.regions()) {
      if ((region.protection & PROT_EXEC) != 0 &&
          region.name.find("/libc.so") != std::string::npos) {
        code_ = region;
      }
    }
    if (!IsSystems(code_.name)) GTEST_SKIP() << "the C library's file does not tell its times";
  }

  MapRegion code_;
  CodeFiles files_;
};

TEST_F(CodeFileTest, HasWhatProcessesThatMapItHave) {
  const std::shared_ptr<CodeFile> file = files_.Find("", code_);
  ASSERT_NE(file, nullptr);
  const uint64_t first = code_.file_offset / kPageBytes;
  const uint64_t count = (code_.end - code_.start) / kPageBytes;
  for (const uint64_t number : {count - 1, uint64_t{0}, count / 2, count / 2 + 1}) {
    const uint8_t* const page = file->Page(first + number);
    ASSERT_NE(page, nullptr) << number;
    const auto* const here = reinterpret_cast<const uint8_t*>(code_.start + number * kPageBytes);
    EXPECT_EQ(std::memcmp(page, here, kPageBytes), 0) << number;
  }
  EXPECT_EQ(file->Page(first + 1), file->Page(first) + kPageBytes);
  EXPECT_EQ(files_.Find("", code_), file);
}

TEST_F(CodeFileTest, EndsWithTheFile) {
  const std::shared_ptr<CodeFile> file = files_.Find("", code_);
  ASSERT_NE(file, nullptr);
  struct stat status;
  ASSERT_EQ(stat(code_.name.c_str(), &status), 0);
  const uint64_t last = (static_cast<uint64_t>(status.st_size) - 1) / kPageBytes;
  const uint8_t* const page = file->Page(last);
  ASSERT_NE(page, nullptr);
  for (uint64_t i = static_cast<uint64_t>(status.st_size) % kPageBytes; i != 0 && i < kPageBytes;
       ++i) {
    EXPECT_EQ(page[i], 0) << i;
  }
  EXPECT_EQ(file->Page(last + 1), nullptr);
}

TEST_F(CodeFileTest, IsNotAskedWhenProcessesMayStoreWhereTheyCannotWrite) {
  files_.EndAll();
  EXPECT_EQ(files_.Find("", code_), nullptr);
}

TEST_F(CodeFileTest, FilesThatOthersMayWriteOrHaveJustWrittenAreLeftOut) {
  const std::string path = testing::TempDir() + "/code_file";
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ASSERT_EQ(write(fd.get(), path.data(), path.size()), static_cast<ssize_t>(path.size()));
  EXPECT_FALSE(IsSystems(path));  // just written
  EXPECT_FALSE(IsSystems("/proc/self/maps"));
  EXPECT_FALSE(IsSystems("/dev/null"));
  EXPECT_FALSE(IsSystems("/usr"));
  EXPECT_FALSE(IsSystems("/nowhere"));
  struct stat status;
  ASSERT_EQ(stat(code_.name.c_str(), &status), 0);
  EXPECT_EQ(CodeFile::Open(code_.name, status.st_ino + 1), nullptr);  // another one by now
}

}  // namespace
}  // namespace hindsight
