// Comes to a point of every kind in each of three rounds, as far as that round has one.
//
//   kinds [wait]     with an argument it computes for a quarter of a second as well

#include <csignal>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include "libhindsight/hindsight.hpp"

extern "C" {
volatile int round_now;  // 1 to 3
volatile int handled;
volatile unsigned long counted;
char text[16] = "begin";

__attribute__((noinline)) void work(int number) {
  counted = counted + static_cast<unsigned long>(number);
}
}

namespace {

void OnSignal(int) { handled = handled + 1; }

void Throw(int number) {
  try {
    if (number == 2) throw std::runtime_error("the second");
    if (number == 3) throw number;
  } catch (const std::exception&) {
  } catch (int) {
  }
}

void Compute() {
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 4;
  while (std::clock() < end) {
    for (int i = 0; i < 10000; ++i) counted = counted + 1;
  }
}

void Round(int number) {
  round_now = number;
  hs_snapshot("direct");
  hs::Breakpoint({number, 7, static_cast<std::uint32_t>(10 + number), false},
                 {{"phase", number == 3 ? "end" : "on"}, {"rank", "2"}});
  if (number == 2) std::strcpy(text, "second");
  HS_SNAPSHOT_IF(number == 2);
  HS_ASSERT(number != 3);
  hs::Breakpoint({9, 8, 1, true});
  Throw(number);
  if (number == 1) std::raise(SIGUSR1);
  work(number);
}

}  // namespace

int main(int count, char**) {
  std::signal(SIGUSR1, OnSignal);
  for (int number = 1; number <= 3; ++number) Round(number);
  if (count > 1) Compute();
  return handled + 4;
}
