#include "tracefmt/event_output.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {
namespace {

class EventOutputTest : public testing::Test {
 protected:
  EventOutputTest() {
    EXPECT_TRUE(output_.queue()->Run([this] { return events_.Create(output_.directory()); }).ok());
  }
  ~EventOutputTest() override {
    EXPECT_TRUE(output_.queue()->Drain().ok());
    std::filesystem::remove_all(path_);
  }

  void Append(uint64_t sequence, std::string text = "") {
    const ProcessEvent event = {
        .kind = EventKind::kNote, .sequence = sequence, .text = std::move(text)};
    ASSERT_TRUE(events_.Append(event).ok());
  }
  void Post() { ASSERT_TRUE(events_.Post().ok()); }

  // The sequence numbers of the events on disk, block by block.
  std::vector<std::vector<uint64_t>> Blocks() {
    EXPECT_TRUE(output_.queue()->Drain().ok());
    const TraceDirectory files = *TraceDirectory::Open(path_);
    const BlockFile file = *BlockFile::Open(files, "events");
    std::vector<std::vector<uint64_t>> blocks;
    ReadBudget budget(uint64_t{1} << 30, 1);
    for (uint64_t offset = 0; !file.AtEnd(offset);) {
      const RawBlock block = *file.Read(offset);
      std::vector<ProcessEvent> events;
      EXPECT_TRUE(ReadEvents(file.path(), block, &budget, &events).ok());
      blocks.emplace_back();
      for (const ProcessEvent& event : events) blocks.back().push_back(event.sequence);
      offset = block.next_offset;
    }
    return blocks;
  }

  static std::string NewDirectory() {
    std::string path = testing::TempDir() + "/events_XXXXXX";
    return mkdtemp(path.data());
  }

  using List = std::vector<std::vector<uint64_t>>;
  const std::string path_ = NewDirectory();
  RecordingOutput output_{*OutputDirectory::Create(path_)};
  EventOutput events_{&output_};
};

TEST_F(EventOutputTest, EventsReachTheDiskInOrderOncePosted) {
  Append(1);
  Append(2);
  EXPECT_EQ(Blocks(), List{});
  Post();
  Append(3);
  Post();
  EXPECT_EQ(Blocks(), (List{{1, 2}, {3}}));
  EXPECT_EQ(events_.count(), 3u);
}

TEST_F(EventOutputTest, NothingWaitingIsNoBlock) {
  Post();
  EXPECT_EQ(Blocks(), List{});
  Append(1);
  Post();
  Post();
  EXPECT_EQ(Blocks(), List{{1}});
}

TEST_F(EventOutputTest, AFullBlockIsPostedUnasked) {
  Append(1, std::string(kBlockBytes, 'x'));
  Append(2);
  EXPECT_EQ(Blocks(), List{{1}});
  EXPECT_EQ(events_.count(), 2u);
}

}  // namespace
}  // namespace hindsight
