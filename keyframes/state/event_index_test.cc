#include "keyframes/state/event_index.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(EventIndex, ListsAreInTheOrderOfMoments) {
  const ProcessEvent late = {.kind = EventKind::kSyscall, .number = 1};
  const ProcessEvent early = {.kind = EventKind::kSyscall, .number = 1};
  EventIndex index;
  index.Add(&late, 20, /*moves=*/true);
  index.Add(&early, 10, /*moves=*/true);
  index.Sort();
  ASSERT_EQ(index.all().size(), 2u);
  EXPECT_EQ(index.all()[0].event, &early);
  ASSERT_EQ(index.syscalls().at(1).size(), 2u);
  EXPECT_EQ(index.syscalls().at(1)[0].moment, 10u);
}

TEST(EventIndex, EventsBeforeAThreadsFirstStateAreNoPlacesToStop) {
  const ProcessEvent signal = {.kind = EventKind::kSignal, .number = 10};
  EventIndex index;
  index.Add(&signal, 0, /*moves=*/false);
  EXPECT_EQ(index.all().size(), 1u);
  EXPECT_TRUE(index.signals().empty());
}

TEST(EventIndex, TheLastExecIsTheOneThatLedHere) {
  const ProcessEvent first = {.kind = EventKind::kExec}, second = {.kind = EventKind::kExec};
  EventIndex index;
  index.Add(&first, 5, /*moves=*/true);
  index.Add(&second, 9, /*moves=*/true);
  index.Sort();
  EXPECT_EQ(index.LastExec(4), nullptr);
  EXPECT_EQ(index.LastExec(8)->event, &first);
  EXPECT_EQ(index.LastExec(9)->event, &second);
}

}  // namespace
}  // namespace hindsight
