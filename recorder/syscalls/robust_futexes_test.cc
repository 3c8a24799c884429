#include "recorder/syscalls/robust_futexes.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kWord = sizeof(uint32_t);

bool ReadOwn(uint64_t address, absl::Span<uint8_t> out) {
  std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
  return true;
}

uint64_t At(const void* object) { return reinterpret_cast<uint64_t>(object); }

// As the kernel defines them: an entry each, and the word 16 bytes after it.
struct Futex {
  robust_list entry = {};
  uint64_t unused = 0;
  uint32_t word = 0;
};
constexpr long kOffset = offsetof(Futex, word);

TEST(RobustFutexesTest, FollowsTheListUpToItsHead) {
  Futex first, second, pending;
  robust_list_head head = {
      .list = {&first.entry}, .futex_offset = kOffset, .list_op_pending = &pending.entry};
  first.entry.next = &second.entry;
  second.entry.next = &head.list;
  EXPECT_THAT(FutexesInList(At(&head), ReadOwn),
              ElementsAre(MemoryRange{At(&first.word), kWord}, MemoryRange{At(&second.word), kWord},
                          MemoryRange{At(&pending.word), kWord}));
}

TEST(RobustFutexesTest, BitForPriorityIsNoPartOfTheAddress) {
  Futex futex;
  robust_list_head head = {.list = {reinterpret_cast<robust_list*>(At(&futex.entry) | 1)},
                           .futex_offset = kOffset,
                           .list_op_pending = nullptr};
  futex.entry.next = &head.list;
  EXPECT_THAT(FutexesInList(At(&head), ReadOwn), ElementsAre(MemoryRange{At(&futex.word), kWord}));
}

TEST(RobustFutexesTest, RingWithoutTheHeadEndsWhereTheKernelGivesUp) {
  Futex futex;
  robust_list_head head = {
      .list = {&futex.entry}, .futex_offset = kOffset, .list_op_pending = nullptr};
  futex.entry.next = &futex.entry;
  EXPECT_EQ(FutexesInList(At(&head), ReadOwn).size(), size_t{ROBUST_LIST_LIMIT});
}

TEST(RobustFutexesTest, ListThatCannotBeReadIsEmpty) {
  const auto read = [](uint64_t, absl::Span<uint8_t>) { return false; };
  EXPECT_THAT(FutexesInList(0x1000, read), IsEmpty());
  EXPECT_THAT(FutexesInList(0, ReadOwn), IsEmpty());
}

// What the C library does with a mutex of the kind, in the thread's own list.
TEST(RobustFutexesTest, FindsTheMutexThatAThreadHolds) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_t mutex;
  pthread_mutex_init(&mutex, &attributes);
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  EXPECT_THAT(RobustFutexes(own, ReadOwn), IsEmpty());
  pthread_mutex_lock(&mutex);
  EXPECT_THAT(RobustFutexes(own, ReadOwn), ElementsAre(MemoryRange{At(&mutex), kWord}));
  pthread_mutex_unlock(&mutex);
}

}  // namespace
}  // namespace hindsight
