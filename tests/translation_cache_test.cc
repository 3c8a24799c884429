// Recording with what earlier recordings have translated: exact traces, whatever is in the cache.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/files.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

namespace fs = std::filesystem;

class TranslationCacheTest : public testing::Test {
 protected:
  // Expects that the program is recorded exactly.
  void Record(const std::string& cache) {
    const std::string trace = directory_.File("trace" + std::to_string(++recordings_));
    const ChildResult result =
        RunHindsight({"record", "--engine=translate", "--translation-cache=" + cache, "--quiet",
                      "-o", trace, "--", "/bin/sh", "-c", "echo $(/bin/echo one) two"});
    EXPECT_EQ(result.Ending(), "exit 0") << result.err;
    EXPECT_EQ(result.out, "one two\n");
    ExpectExact(trace);
  }
  std::vector<fs::path> Files() const {
    if (!fs::exists(cache_)) return {};
    return {fs::directory_iterator(cache_), fs::directory_iterator()};
  }
  uint64_t Bytes() const {
    uint64_t sum = 0;
    for (const fs::path& path : Files()) sum += fs::file_size(path);
    return sum;
  }

  TempDir directory_;
  const std::string cache_ = directory_.File("made/here");
  int recordings_ = 0;
};

TEST_F(TranslationCacheTest, LaterRecordingsUseWhatEarlierOnesKept) {
  Record(cache_);
  const uint64_t bytes = Bytes();
  EXPECT_GT(bytes, 100'000u);
  for (int i = 0; i < 3; ++i) Record(cache_);
  // Translated blocks depend on timing a little: what is likely to be needed is translated ahead.
  EXPECT_LT(Bytes(), bytes + bytes / 2);
}

TEST_F(TranslationCacheTest, DamagedFilesDoNoHarm) {
  Record(cache_);
  ASSERT_FALSE(Files().empty());
  for (int step : {64, 1000, 7000}) {
    for (const fs::path& path : Files()) {
      std::string bytes = ReadFile(path);
      for (size_t at = 80; at < bytes.size(); at += static_cast<size_t>(step)) bytes[at] ^= 0x11;
      WriteFile(path, bytes);
    }
    Record(cache_);
  }
  for (const fs::path& path : Files()) fs::resize_file(path, fs::file_size(path) / 2);
  Record(cache_);
}

TEST_F(TranslationCacheTest, NothingIsKeptWhereNothingIsToBe) {
  Record("none");
  Record("/proc/no/such/folder");
  EXPECT_TRUE(Files().empty());
}

}  // namespace
}  // namespace hindsight::e2e
