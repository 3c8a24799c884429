#include "keyframes/state/process_threads.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {
namespace {

const ToyThreads& Toy() {
  static const auto* const kToy = new ToyThreads();
  return *kToy;
}

class ProcessThreadsTest : public testing::Test {
 protected:
  std::vector<std::string> warnings_;
  ProcessThreads threads_ = *ProcessThreads::Create(Toy().trace(), &warnings_);
};

TEST_F(ProcessThreadsTest, ThreadsAreListedInTheOrderOfTheirStart) {
  const std::vector<int32_t> expected = {ToyThreads::kMain, ToyThreads::kSecond,
                                         ToyThreads::kThird};
  EXPECT_EQ(threads_.all(), expected);
  EXPECT_EQ(threads_.first(), ToyThreads::kMain);
  EXPECT_TRUE(threads_.Has(ToyThreads::kThird));
  EXPECT_FALSE(threads_.Has(99));
  EXPECT_EQ(threads_.Of(ToyThreads::kThird).thread(), ToyThreads::kThird);
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_F(ProcessThreadsTest, AThreadLivesFromTheCallThatMadeItToItsLastState) {
  for (const auto& [thread, start] : Toy().starts()) {
    EXPECT_EQ(threads_.StartOf(thread), start) << thread;
    EXPECT_TRUE(threads_.IsAlive(thread, start)) << thread;
    if (start == 0) continue;
    EXPECT_FALSE(threads_.IsAlive(thread, start - 1)) << thread;
  }
  for (const auto& [thread, end] : Toy().ends()) {
    EXPECT_EQ(threads_.EndOf(thread), end) << thread;
    EXPECT_TRUE(threads_.IsAlive(thread, end)) << thread;
    EXPECT_FALSE(threads_.IsAlive(thread, end + 1)) << thread;
  }
  EXPECT_EQ(threads_.AliveAt(0), std::vector<int32_t>{ToyThreads::kMain});
  EXPECT_FALSE(threads_.IsAlive(99, 0));
}

TEST_F(ProcessThreadsTest, ALifeIsOnlyExtended) {
  const uint64_t end = threads_.EndOf(ToyThreads::kSecond);
  threads_.ExtendLife(ToyThreads::kSecond, end - 1);
  EXPECT_EQ(threads_.EndOf(ToyThreads::kSecond), end);
  threads_.ExtendLife(ToyThreads::kSecond, end + 1);
  EXPECT_EQ(threads_.EndOf(ToyThreads::kSecond), end + 1);
}

TEST_F(ProcessThreadsTest, NamesAreThoseOfTheMoment) {
  EXPECT_EQ(threads_.NameAt(ToyThreads::kSecond, threads_.StartOf(ToyThreads::kSecond)), "toy");
}

}  // namespace
}  // namespace hindsight
