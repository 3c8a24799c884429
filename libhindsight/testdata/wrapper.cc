// Reaches points through the C++ wrapper, and leaves a scope by an exception.

#include <stdexcept>
#include <string>

#include "libhindsight/hindsight.hpp"

namespace {

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Odd {
  int value;
};

// Whether the scope's end is reached by an exception of type T.
template <typename T>
void LeaveBy(const T& exception, std::uint32_t id) {
  try {
    hs::ScopedPoint scope({1, 0, id, false});
    throw exception;
  } catch (const T&) {
  }
}

}  // namespace

int main() {
  hs::Snapshot(std::string("label"));
  hs::Breakpoint({3, 4, 5, false});
  hs::Breakpoint({3, 4, 6, false}, {{"phase", "solve"}, {"rank", "2"}});
  int made = 0;
  const auto make = [&] {
    ++made;
    return hs::Attributes{{"made", std::to_string(made)}};
  };
  hs::Breakpoint({0, 4, 7, false}, make);
  hs::Breakpoint({3, 4, 8, false}, make);
  { hs::ScopedPoint scope({1, 0, 9, false}); }
  LeaveBy(Refused("no room"), 10);
  LeaveBy(Odd{3}, 11);
  return made;
}
