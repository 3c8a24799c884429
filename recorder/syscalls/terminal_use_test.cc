#include "recorder/syscalls/terminal_use.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// This process uses a terminal of its own; its memory is its own.
class TerminalUseTest : public testing::Test {
 protected:
  TerminalUseTest() {
    int master = -1, terminal = -1;
    EXPECT_EQ(openpty(&master, &terminal, nullptr, nullptr, nullptr), 0);
    master_ = UniqueFd(master);
    terminal_ = UniqueFd(terminal);
    use_ = TerminalUse(terminal, /*at_line_start=*/true);
  }

  static bool Read(uint64_t address, absl::Span<uint8_t> out) {
    std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
    return true;
  }

  // A call that returns `result`. Whether it uses the terminal.
  bool Call(int64_t number, uint64_t a, uint64_t b, uint64_t c, int64_t result) {
    const uint64_t arguments[6] = {a, b, c};
    const bool uses = use_.BeforeCall(getpid(), number, arguments, Read);
    use_.AfterCall(getpid(), number, arguments, result, Read, start_);
    return uses;
  }
  template <typename T>
  static uint64_t Address(const T* pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  }
  bool Write(int fd, const std::string& text) {
    return Call(SYS_write, fd, Address(text.data()), text.size(), text.size());
  }
  bool MayShowLater() const { return use_.MayShow(start_ + seconds(2)); }

  UniqueFd master_, terminal_;
  const UniqueFd null_{open("/dev/null", O_RDWR)};
  const TerminalUse::Clock::time_point start_ = TerminalUse::Clock::now();
  TerminalUse use_;
};

TEST_F(TerminalUseTest, AtFirstALineMayBeShown) { EXPECT_TRUE(use_.MayShow(start_)); }

TEST_F(TerminalUseTest, WhereThereIsNoTerminalNothingIsShown) {
  EXPECT_FALSE(TerminalUse(null_.get(), true).MayShow(start_));
  EXPECT_FALSE(TerminalUse().MayShow(start_));
  EXPECT_FALSE(TerminalUse(terminal_.get(), false).MayShow(start_));
}

TEST_F(TerminalUseTest, AfterWholeLinesThereIsASecondOfQuiet) {
  EXPECT_TRUE(Write(terminal_.get(), "one\ntwo\n"));
  EXPECT_FALSE(use_.MayShow(start_ + milliseconds(900)));
  EXPECT_TRUE(use_.MayShow(start_ + milliseconds(1100)));
}

TEST_F(TerminalUseTest, AfterTheBeginningOfALineNothingIsShownUntilItEnds) {
  EXPECT_TRUE(Write(terminal_.get(), "one\nname? "));
  EXPECT_FALSE(MayShowLater());
  EXPECT_FALSE(use_.at_line_start());
  EXPECT_TRUE(Write(terminal_.get(), "\n"));
  EXPECT_TRUE(MayShowLater());
}

TEST_F(TerminalUseTest, WhatGoesElsewhereDoesNotCount) {
  EXPECT_FALSE(Write(null_.get(), "half a line"));
  EXPECT_FALSE(Write(master_.get(), "what a user types"));
  EXPECT_FALSE(Write(-1, "nowhere"));
  EXPECT_TRUE(use_.MayShow(start_));
}

TEST_F(TerminalUseTest, OfAWriteWhatWasWrittenCounts) {
  const std::string text = "one\ntwo";
  Call(SYS_write, terminal_.get(), Address(text.data()), text.size(), 4);
  EXPECT_TRUE(MayShowLater());
  Call(SYS_write, terminal_.get(), Address(text.data()), text.size(), 5);
  EXPECT_FALSE(MayShowLater());
}

TEST_F(TerminalUseTest, AWriteThatHasNotReturnedMayHaveWrittenAnything) {
  const std::string text = "one\n";
  const uint64_t arguments[6] = {static_cast<uint64_t>(terminal_.get()), Address(text.data()), 4};
  EXPECT_TRUE(use_.BeforeCall(getpid(), SYS_write, arguments, Read));
  EXPECT_FALSE(MayShowLater());
}

TEST_F(TerminalUseTest, AWriteThatWritesNothingChangesNothing) {
  for (const int64_t result : {0, -EAGAIN, -EINTR}) {
    Call(SYS_write, terminal_.get(), Address("x"), 1, result);
    EXPECT_TRUE(MayShowLater()) << result;
  }
  Write(terminal_.get(), "begun");
  Call(SYS_write, terminal_.get(), Address("x"), 1, -EAGAIN);
  EXPECT_FALSE(MayShowLater());
}

TEST_F(TerminalUseTest, TheLastByteOfAVectorIsFound) {
  char one[] = "one\n", two[] = "two\nthree";
  const iovec pieces[] = {{one, 4}, {nullptr, 0}, {two, 9}};
  for (const auto& [written, may_show] : {std::pair{4, true}, {8, true}, {13, false}, {2, false}}) {
    Call(SYS_writev, terminal_.get(), Address(pieces), 3, written);
    EXPECT_EQ(MayShowLater(), may_show) << written;
  }
}

TEST_F(TerminalUseTest, WhatIsCopiedByTheKernelIsUnknown) {
  EXPECT_TRUE(Call(SYS_sendfile, terminal_.get(), null_.get(), 0, 10));
  EXPECT_FALSE(MayShowLater());
}

TEST_F(TerminalUseTest, AReaderHasTheTerminalForGood) {
  char byte = 0;
  EXPECT_FALSE(Call(SYS_read, null_.get(), Address(&byte), 1, 0));
  EXPECT_TRUE(use_.MayShow(start_));
  EXPECT_TRUE(Call(SYS_read, terminal_.get(), Address(&byte), 1, 1));
  Write(terminal_.get(), "a whole line\n");
  EXPECT_FALSE(MayShowLater());
}

TEST_F(TerminalUseTest, WhoChangesTheTerminalHasItForGood) {
  const TerminalUse before = use_;
  termios modes = {};
  EXPECT_FALSE(Call(SYS_ioctl, terminal_.get(), TCGETS, Address(&modes), 0));
  EXPECT_FALSE(Call(SYS_ioctl, null_.get(), TCSETSW, Address(&modes), -ENOTTY));
  EXPECT_FALSE(Call(SYS_ioctl, terminal_.get(), TIOCGPGRP, Address(&modes), 0));
  EXPECT_TRUE(MayShowLater());
  for (const unsigned request : {TCSETS, TCSETSW, TCSETSF, TIOCSPGRP, TIOCSCTTY, TIOCNOTTY}) {
    use_ = before;
    EXPECT_TRUE(Call(SYS_ioctl, terminal_.get(), request, Address(&modes), 0)) << request;
    EXPECT_FALSE(MayShowLater()) << request;
  }
}

TEST_F(TerminalUseTest, PollForInputIsReading) {
  pollfd polled[] = {{null_.get(), POLLIN, 0}, {terminal_.get(), POLLOUT, 0}};
  EXPECT_FALSE(Call(SYS_poll, Address(polled), 2, 0, 0));
  EXPECT_TRUE(use_.MayShow(start_));
  polled[1].events = POLLIN;
  EXPECT_TRUE(Call(SYS_poll, Address(polled), 2, 0, 0));
  EXPECT_FALSE(MayShowLater());
}

TEST_F(TerminalUseTest, SelectForInputIsReading) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(null_.get(), &set);
  EXPECT_FALSE(Call(SYS_select, FD_SETSIZE, Address(&set), 0, 0));
  EXPECT_FALSE(Call(SYS_select, 0, 0, 0, 0));
  FD_SET(terminal_.get(), &set);
  EXPECT_TRUE(Call(SYS_pselect6, terminal_.get() + 1, Address(&set), 0, 0));
  EXPECT_FALSE(MayShowLater());
}

TEST_F(TerminalUseTest, WhoIsNotWatchedMayWriteAtAnyTime) {
  use_.NoteUnrecordedUser();
  EXPECT_FALSE(use_.MayShow(start_));
  EXPECT_FALSE(use_.at_line_start());
}

}  // namespace
}  // namespace hindsight
