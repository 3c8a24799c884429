#include "recorder/syscalls/call_timeout.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

uint64_t Address(const void* object) { return reinterpret_cast<uint64_t>(object); }

// Of a call by this process itself.
std::optional<CallTimeout> Timeout(int64_t number, std::array<uint64_t, 6> arguments) {
  const auto read = [](uint64_t address, absl::Span<uint8_t> out) {
    std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
    return true;
  };
  return TimeoutOfCall(getpid(), number, arguments.data(), read);
}

UniqueFd SocketWithTimeouts(int domain) {
  UniqueFd fd(socket(domain, SOCK_STREAM, 0));
  const timeval receive = {2, 500'000}, send = {3, 0};
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof(receive)), 0);
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &send, sizeof(send)), 0);
  return fd;
}

TEST(CallTimeoutTest, OfMilliseconds) {
  const auto timeout = Timeout(SYS_epoll_wait, {3, 0, 1, 1500});
  ASSERT_TRUE(timeout.has_value());
  EXPECT_EQ(timeout->ns, 1'500'000'000u);
  EXPECT_EQ(timeout->result, 0);
  EXPECT_FALSE(Timeout(SYS_epoll_wait, {3, 0, 1, 0xffffffff}).has_value());  // for ever
}

TEST(CallTimeoutTest, OfATimespec) {
  const timespec time = {4, 5};
  const auto timeout = Timeout(SYS_semtimedop, {0, 0, 0, Address(&time)});
  ASSERT_TRUE(timeout.has_value());
  EXPECT_EQ(timeout->ns, 4'000'000'005u);
  EXPECT_EQ(timeout->result, -EAGAIN);
  EXPECT_FALSE(Timeout(SYS_semtimedop, {0, 0, 0, 0}).has_value());
}

TEST(CallTimeoutTest, OfASocketInEachDirection) {
  const UniqueFd local = SocketWithTimeouts(AF_UNIX), internet = SocketWithTimeouts(AF_INET);
  const auto fd = static_cast<uint64_t>(local.get());
  EXPECT_EQ(Timeout(SYS_recvfrom, {fd}).value().ns, 2'500'000'000u);
  EXPECT_EQ(Timeout(SYS_write, {fd}).value().ns, 3'000'000'000u);
  EXPECT_EQ(Timeout(SYS_connect, {fd}).value().result, -EAGAIN);
  const auto remote = static_cast<uint64_t>(internet.get());
  EXPECT_EQ(Timeout(SYS_connect, {remote}).value().result, -EINPROGRESS);
}

TEST(CallTimeoutTest, NoneWhereNothingLimitsTheTime) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_FALSE(Timeout(SYS_recvfrom, {static_cast<uint64_t>(fd.get())}).has_value());
  EXPECT_FALSE(Timeout(SYS_recvfrom, {~uint64_t{0}}).has_value());
  EXPECT_FALSE(Timeout(SYS_pause, {}).has_value());
}

}  // namespace
}  // namespace hindsight
