#include "recorder/translate/guard/store_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

class StoreWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    UniqueFd file(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
    if (!file.valid()) GTEST_SKIP() << "no userfaultfd for this user";
    auto watch = StoreWatch::Start(std::move(file), [this](uint64_t page) {
      if (!lets_through_) return;
      seen_[(page - start()) / kPageBytes] = *reinterpret_cast<uint8_t*>(page);
      ++stores_;
      watch_->Release(page, page + kPageBytes);
    });
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
    for (int i = 0; i < kPages; ++i) memory_[i * kPageBytes] = 1;
  }
  ~StoreWatchTest() override {
    watch_.reset();
    munmap(memory_, kPages * kPageBytes);
  }
  uint64_t start() const { return reinterpret_cast<uint64_t>(memory_); }

  static constexpr int kPages = 3;
  uint8_t* const memory_ = static_cast<uint8_t*>(mmap(
      nullptr, kPages* kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::unique_ptr<StoreWatch> watch_;
  std::atomic<int> stores_ = 0;
  std::atomic<bool> lets_through_ = true;
  std::atomic<uint8_t> seen_[kPages] = {};  // what the page began with when the store was reported
};

TEST_F(StoreWatchTest, AStoreIsReportedBeforeItIsDone) {
  ASSERT_TRUE(watch_->Register(start(), start() + kPages * kPageBytes));
  ASSERT_TRUE(watch_->Watch(start(), start() + kPageBytes));
  EXPECT_EQ(stores_, 0);
  *static_cast<volatile uint8_t*>(memory_) = 2;
  EXPECT_EQ(stores_, 1);
  EXPECT_EQ(seen_[0], 1);
  EXPECT_EQ(memory_[0], 2);
  *static_cast<volatile uint8_t*>(memory_) = 3;
  memory_[kPageBytes] = 4;
  EXPECT_EQ(stores_, 1) << "it was released, and the others were never watched";
}

TEST_F(StoreWatchTest, SoAreTheKernels) {
  ASSERT_TRUE(watch_->Register(start(), start() + kPages * kPageBytes));
  ASSERT_TRUE(watch_->Watch(start() + kPageBytes, start() + 3 * kPageBytes));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::vector<uint8_t> bytes(kPages * kPageBytes, 7);
  ASSERT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(read(ends[0], memory_, bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(stores_, 2);
  EXPECT_EQ(seen_[1], 1);
  EXPECT_EQ(seen_[2], 1);
  EXPECT_EQ(memory_[3 * kPageBytes - 1], 7);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(StoreWatchTest, MemoryThatIsNoneIsRefused) {
  EXPECT_FALSE(watch_->Watch(start(), start() + kPageBytes)) << "not registered";
  munmap(memory_ + kPageBytes, kPageBytes);
  EXPECT_FALSE(watch_->Register(start() + kPageBytes, start() + 2 * kPageBytes));
}

TEST_F(StoreWatchTest, WhoWaitsGoesOnWhenNobodyWatchesAnyMore) {
  ASSERT_TRUE(watch_->Register(start(), start() + kPages * kPageBytes));
  ASSERT_TRUE(watch_->Watch(start(), start() + kPageBytes));
  lets_through_ = false;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    *static_cast<volatile uint8_t*>(memory_) = 2;
    done = true;
  });
  usleep(20'000);
  EXPECT_FALSE(done);
  watch_.reset();
  writer.join();
  EXPECT_EQ(memory_[0], 2);
}

}  // namespace
}  // namespace hindsight
