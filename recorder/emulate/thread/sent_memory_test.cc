#include "recorder/emulate/thread/sent_memory.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstring>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Ranges = std::vector<MemoryRange>;

constexpr uint64_t kMax = 1000;

// The test's own memory is the program's.
bool ReadOwn(uint64_t address, absl::Span<uint8_t> out) {
  std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
  return true;
}
bool ReadNothing(uint64_t, absl::Span<uint8_t>) { return false; }

Ranges Of(int64_t number, std::vector<uint64_t> arguments, uint64_t max_bytes = kMax) {
  arguments.resize(6);
  return SentMemory(number, arguments.data(), max_bytes, ReadOwn);
}

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

TEST(SentMemoryTest, BytesInTwoArguments) {
  EXPECT_EQ(Of(SYS_write, {1, 0x1000, 70}), (Ranges{{0x1000, 70}}));
  EXPECT_EQ(Of(SYS_pwrite64, {1, 0x1000, 70, 5}), (Ranges{{0x1000, 70}}));
  EXPECT_EQ(Of(SYS_sendto, {1, 0x1000, 70}), (Ranges{{0x1000, 70}}));
  EXPECT_EQ(Of(SYS_setsockopt, {1, 2, 3, 0x1000, 70}), (Ranges{{0x1000, 70}}));
  EXPECT_EQ(Of(SYS_msgsnd, {1, 0x1000, 70}), (Ranges{{0x1000, 8}, {0x1008, 70}}));
}

TEST(SentMemoryTest, OtherCallsHandNothingOut) {
  EXPECT_EQ(Of(SYS_read, {1, 0x1000, 70}), Ranges());
  EXPECT_EQ(Of(-1, {1, 0x1000, 70}), Ranges());
  EXPECT_EQ(Of(SYS_write, {1, 0x1000, 0}), Ranges());
}

TEST(SentMemoryTest, VectorsInOrderCutOff) {
  iovec vectors[] = {{reinterpret_cast<void*>(0x5000), 600},
                     {nullptr, 0},
                     {reinterpret_cast<void*>(0x2000), 600},
                     {reinterpret_cast<void*>(0x9000), 600}};
  for (const int64_t call : {SYS_writev, SYS_pwritev, SYS_pwritev2, SYS_vmsplice}) {
    EXPECT_EQ(Of(call, {1, Address(vectors), 4}), (Ranges{{0x5000, 600}, {0x2000, 400}}));
  }
}

TEST(SentMemoryTest, MessagesAndWhatTheyControl) {
  iovec vector = {reinterpret_cast<void*>(0x5000), 10};
  mmsghdr messages[2] = {};
  messages[0].msg_hdr.msg_iov = messages[1].msg_hdr.msg_iov = &vector;
  messages[0].msg_hdr.msg_iovlen = messages[1].msg_hdr.msg_iovlen = 1;
  messages[1].msg_hdr.msg_control = reinterpret_cast<void*>(0x7000);
  messages[1].msg_hdr.msg_controllen = 20;
  EXPECT_EQ(Of(SYS_sendmsg, {1, Address(&messages[0])}), (Ranges{{0x5000, 10}}));
  EXPECT_EQ(Of(SYS_sendmmsg, {1, Address(messages), 2}),
            (Ranges{{0x5000, 10}, {0x5000, 10}, {0x7000, 20}}));
}

TEST(SentMemoryTest, WhatProgramsGetWrong) {
  EXPECT_EQ(Of(SYS_write, {1, ~uint64_t{0} - 10, 70}), Ranges());
  EXPECT_EQ(Of(SYS_write, {1, 0x1000, ~uint64_t{0}}), (Ranges{{0x1000, kMax}}));
  const uint64_t arguments[6] = {1, 0x1000, ~uint64_t{0}};
  for (const int64_t call : {SYS_writev, SYS_sendmsg, SYS_sendmmsg}) {
    EXPECT_EQ(SentMemory(call, arguments, kMax, ReadNothing), Ranges());
  }
}

}  // namespace
}  // namespace hindsight
