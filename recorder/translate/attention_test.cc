#include "recorder/translate/attention.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr int64_t kShort = 20'000'000, kLong = 900'000'000;

double Seconds(Attention* attention, int64_t nanoseconds) {
  const auto start = std::chrono::steady_clock::now();
  attention->Await(nanoseconds);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Wake(uint32_t* word) {
  __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

TEST(AttentionTest, NobodyAsks) {
  uint32_t word = 7;
  Attention attention;
  EXPECT_GE(Seconds(&attention, kShort), 0.02);
  attention.Note(&word);
  EXPECT_GE(Seconds(&attention, kShort), 0.02);
}

TEST(AttentionTest, WhoHasAskedSinceIsNotWaitedFor) {
  uint32_t words[2] = {7, 8};
  Attention attention;
  attention.Note(&words[0]);
  attention.Note(&words[1]);
  Wake(&words[1]);
  EXPECT_LT(Seconds(&attention, kLong), 0.5);
}

TEST(AttentionTest, WhoAsksEndsTheWait) {
  uint32_t words[2] = {7, 8};
  Attention attention;
  attention.Note(&words[0]);
  attention.Note(&words[1]);
  std::thread asks([&words] {
    usleep(20'000);
    Wake(&words[0]);
  });
  EXPECT_LT(Seconds(&attention, kLong), 0.5);
  asks.join();
  // Each look begins anew.
  attention.Clear();
  attention.Note(&words[0]);
  EXPECT_GE(Seconds(&attention, kShort), 0.02);
}

TEST(AttentionTest, MoreThanCanBeListenedTo) {
  std::vector<uint32_t> words(2 * FUTEX_WAITV_MAX);
  Attention attention;
  for (const uint32_t& word : words) attention.Note(&word);
  EXPECT_GE(Seconds(&attention, kShort), 0.02);
}

TEST(AttentionTest, OfMoreThanTheKernelWaitsForSomeAreNotHeard) {
  std::vector<uint32_t> words(200);
  Attention attention;
  EXPECT_TRUE(attention.HearsAll());
  for (const uint32_t& word : words) attention.Note(&word);
  EXPECT_FALSE(attention.HearsAll());
  attention.Clear();
  EXPECT_TRUE(attention.HearsAll());
}

TEST(IdlePauseTest, PausesGrowWithHowLongNothingHasCome) {
  IdlePause pause(200'000, 10'000'000);
  int64_t idle = 0, before = 0;
  for (int i = 0; i < 2000; ++i) {
    const int64_t next = pause.Next();
    EXPECT_GE(next, before);
    EXPECT_LE(next, std::max(idle / 16, int64_t{200'000}));
    idle += next;
    before = next;
  }
  EXPECT_EQ(before, 10'000'000);
  pause.Reset();
  EXPECT_EQ(pause.Next(), 200'000);
}

}  // namespace
}  // namespace hindsight
