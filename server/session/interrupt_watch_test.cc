#include "server/session/interrupt_watch.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

// A client that sends what the test asks it to, and keeps what it receives.
class FakeStream final : public rsp::ByteStream {
 public:
  absl::StatusOr<size_t> Read(absl::Span<char> out, bool) override {
    const std::lock_guard lock(mutex_);
    const size_t size = std::min(out.size(), said_.size());
    said_.copy(out.data(), size);
    said_.erase(0, size);
    return size;
  }
  absl::Status Write(absl::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    absl::StrAppend(&heard_, bytes);
    return absl::OkStatus();
  }
  void Say(absl::string_view bytes) {
    const std::lock_guard lock(mutex_);
    absl::StrAppend(&said_, bytes);
  }
  std::string heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  std::mutex mutex_;
  std::string said_, heard_;
};

class InterruptWatchTest : public testing::Test {
 protected:
  // Waits up to five seconds.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 500; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  FakeStream stream_;
  rsp::Link link_{&stream_};
  std::atomic<bool> interrupt_ = false;
  InterruptWatch watch_{&link_, &interrupt_};
};

TEST_F(InterruptWatchTest, NoticesAnInterruptWhileArmed) {
  const InterruptWatch::Armed armed(&watch_);
  stream_.Say("\x03");
  EXPECT_TRUE(Eventually([this] { return interrupt_.load(); }));
}

// As gdb's between two runs of one command.
TEST_F(InterruptWatchTest, AnInterruptThatNobodyActedOnIsStillThere) {
  {
    const InterruptWatch::Armed armed(&watch_);
    stream_.Say("\x03");
    EXPECT_TRUE(Eventually([this] { return interrupt_.load(); }));
  }
  const InterruptWatch::Armed armed(&watch_);
  EXPECT_TRUE(interrupt_.load());
  watch_.Acted();
  EXPECT_FALSE(interrupt_.load());
}

TEST_F(InterruptWatchTest, AnInterruptActedOnIsOver) {
  {
    const InterruptWatch::Armed armed(&watch_);
    stream_.Say("\x03");
    EXPECT_TRUE(Eventually([this] { return interrupt_.load(); }));
    watch_.Acted();
  }
  const InterruptWatch::Armed armed(&watch_);
  EXPECT_FALSE(interrupt_.load());
}

TEST_F(InterruptWatchTest, TellsAClientToBePatient) {
  const InterruptWatch::Armed armed(&watch_, /*patience=*/true);
  EXPECT_TRUE(Eventually([this] { return stream_.heard() == "+"; }));
}

TEST_F(InterruptWatchTest, SaysNothingWhereNothingIsExpected) {
  {
    const InterruptWatch::Armed armed(&watch_);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
  EXPECT_EQ(stream_.heard(), "");
}

}  // namespace
}  // namespace hindsight
