#include "recorder/restore/descriptor_details.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// What the kernel says of a descriptor of this process.
std::string Details(const UniqueFd& fd) {
  std::ifstream file(absl::StrCat("/proc/self/fdinfo/", fd.get()));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DescriptorDetailsTest, EventCounter) {
  const UniqueFd counter(eventfd(26, EFD_CLOEXEC));
  EXPECT_EQ(DetailNumber(Details(counter), "eventfd-count", 16), 26u);
  EXPECT_EQ(DetailNumber(Details(counter), "no such", 16), std::nullopt);
}

TEST(DescriptorDetailsTest, TimerThatRuns) {
  const UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC));
  const itimerspec value = {{7, 5}, {1000, 0}};
  ASSERT_EQ(timerfd_settime(timer.get(), 0, &value, nullptr), 0);
  const std::string details = Details(timer);
  EXPECT_EQ(DetailNumber(details, "clockid", 10), static_cast<uint64_t>(CLOCK_BOOTTIME));
  EXPECT_EQ(DetailTimeNs(details, "it_interval"), 7'000'000'005u);
  const auto left = DetailTimeNs(details, "it_value");
  ASSERT_TRUE(left.has_value());
  EXPECT_GT(*left, 900'000'000'000u);
  EXPECT_LE(*left, 1000'000'000'000u);
}

TEST(DescriptorDetailsTest, WhatEpollWatches) {
  const UniqueFd poll(epoll_create1(EPOLL_CLOEXEC));
  const UniqueFd first(eventfd(0, EFD_CLOEXEC)), second(eventfd(0, EFD_CLOEXEC));
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = 0xfedcba9876543210;
  ASSERT_EQ(epoll_ctl(poll.get(), EPOLL_CTL_ADD, first.get(), &event), 0);
  event.events = EPOLLOUT;
  event.data.u64 = 3;
  ASSERT_EQ(epoll_ctl(poll.get(), EPOLL_CTL_ADD, second.get(), &event), 0);
  const std::vector<EpollTarget> targets = EpollTargets(Details(poll));
  ASSERT_EQ(targets.size(), 2u);
  const bool in_order = targets[0].fd == first.get();
  const EpollTarget &a = targets[in_order ? 0 : 1], &b = targets[in_order ? 1 : 0];
  EXPECT_EQ(a.fd, first.get());
  EXPECT_EQ(a.data, 0xfedcba9876543210u);
  EXPECT_EQ(a.events & (EPOLLIN | EPOLLET | EPOLLOUT), static_cast<uint32_t>(EPOLLIN | EPOLLET));
  EXPECT_EQ(b.fd, second.get());
  EXPECT_EQ(b.data, 3u);
}

TEST(DescriptorDetailsTest, NonsenseIsNothing) {
  EXPECT_TRUE(EpollTargets("tfd: 3\nevents: 1 data: 2\n\n:").empty());
  EXPECT_EQ(DetailTimeNs("it_value: 12", "it_value"), std::nullopt);
  EXPECT_EQ(DetailTimeNs("it_value: (12", "it_value"), std::nullopt);
  EXPECT_EQ(DetailNumber("ticks:", "ticks", 10), std::nullopt);
}

}  // namespace
}  // namespace hindsight
