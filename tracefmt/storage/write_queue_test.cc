#include "tracefmt/storage/write_queue.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr int kThreads = 4, kJobs = 300;

class WriteQueueTest : public testing::TestWithParam<int> {
 protected:
  WriteQueue::Job Note(int number) {
    return [this, number] {
      written_.push_back(number);
      return absl::OkStatus();
    };
  }

  std::vector<int> written_;  // by jobs, one at a time
  WriteQueue queue_{16, {.threads = GetParam()}};
};

TEST_P(WriteQueueTest, JobsRunInOrderAfterTheirPreparations) {
  std::vector<std::atomic<bool>> prepared(kJobs);
  std::vector<int> expected;
  for (int i = 0; i < kJobs; ++i) {
    expected.push_back(i);
    if (i % 3 == 0) {
      ASSERT_TRUE(queue_.Post(Note(i)).ok());
      continue;
    }
    const auto prepare = [&prepared, i](size_t thread) {
      EXPECT_LT(thread, static_cast<size_t>(GetParam()));
      if (i % 7 == 0) usleep(1000);
      prepared[static_cast<size_t>(i)] = true;
      return absl::OkStatus();
    };
    ASSERT_TRUE(queue_
                    .Post(prepare,
                          [this, &prepared, i] {
                            EXPECT_TRUE(prepared[static_cast<size_t>(i)]);
                            return Note(i)();
                          })
                    .ok());
  }
  EXPECT_TRUE(queue_.Drain().ok());
  EXPECT_EQ(written_, expected);
}

TEST_P(WriteQueueTest, NothingIsWrittenAfterWhatFailed) {
  const absl::Status full = absl::ResourceExhaustedError("full");
  for (int i = 0; i < 5; ++i) queue_.Post(Note(i)).IgnoreError();
  queue_.Post([full](size_t) { return full; }, Note(5)).IgnoreError();
  for (int i = 6; i < kJobs; ++i) {
    queue_.Post([](size_t) { return absl::OkStatus(); }, Note(i)).IgnoreError();
  }
  EXPECT_EQ(queue_.Drain(), full);
  EXPECT_EQ(queue_.Post(Note(7)), full);
  EXPECT_EQ(written_, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(queue_.RunAnyway(Note(8)).ok());
  EXPECT_EQ(written_.back(), 8);
}

TEST_P(WriteQueueTest, TheEndWaitsForWhatIsQueued) {
  int done = 0;
  {
    WriteQueue queue(kJobs, {.threads = GetParam()});
    for (int i = 0; i < kJobs; ++i) {
      const auto prepare = [](size_t) { return absl::OkStatus(); };
      ASSERT_TRUE(queue
                      .Post(prepare,
                            [&done] {
                              ++done;
                              return absl::OkStatus();
                            })
                      .ok());
    }
  }
  EXPECT_EQ(done, kJobs);
}

TEST_P(WriteQueueTest, PreparationsRunAtTheSameTimeOnThreadsOfTheirOwn) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<size_t> present;
  const auto prepare = [&](size_t thread) {
    std::unique_lock<std::mutex> lock(mutex);
    EXPECT_TRUE(present.insert(thread).second);
    changed.notify_all();
    // All are here at once, or this hangs.
    changed.wait(lock, [&] { return present.size() == static_cast<size_t>(GetParam()); });
    return absl::OkStatus();
  };
  for (int i = 0; i < GetParam(); ++i) ASSERT_TRUE(queue_.Post(prepare, Note(i)).ok());
  EXPECT_TRUE(queue_.Drain().ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, WriteQueueTest, testing::Values(1, kThreads));

TEST(WriteQueuePriorityTest, IsItsThreadsOwn) {
  const int before = getpriority(PRIO_PROCESS, 0);
  WriteQueue queue(1, {.threads = 1, .nice = 19});
  int seen = -1;
  ASSERT_TRUE(queue
                  .Run([&seen] {
                    seen = getpriority(PRIO_PROCESS, 0);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(seen, 19);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

}  // namespace
}  // namespace hindsight
