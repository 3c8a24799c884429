// What threads hand over to each other by locked instructions is replayed in the order in which
// their agents say that it happened.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "keyframes/verify/verify.h"
#include "recorder/translate/stream/thread_table_fixture.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

// Threads that hand a number over by `xchg %rax,(data)` in a loop, one at a time, in any order.
class TokenTest : public ThreadTableTest {
 protected:
  static constexpr uint64_t kInstruction = 8;

  TokenTest() {
    directory_ = testing::TempDir() + "/handed_token_test." + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
    table_.reset();
    process_.reset();
    Manifest manifest;
    manifest.pid = getpid();
    manifest.register_layout = kRegisterLayout;
    auto writer = TraceWriter::Create(directory_, manifest);
    EXPECT_TRUE(writer.ok()) << writer.status();
    Open(*std::move(writer));
  }
  ~TokenTest() override { std::filesystem::remove_all(directory_); }

  void Begin(Agent* agent, uint64_t rax) {
    agent->rax = rax;
    agent->State(HS_ENTRY_BEGIN, ++now_);
    std::vector<uint8_t> code = {0x48, 0x87, 0x04, 0x25, 0x00, 0x20, 0x00, 0x00, 0xeb, 0xf6};
    agent->Page(kCode, code);
    agent->Page(kData, {});
  }
  // Some wait in a call, which is made where it stood, if they have nothing to hand on.
  void MaybeCall(Agent* agent, bool wait) {
    if (agent->rax != 0) return;
    agent->Bare(HS_ENTRY_REACHED, ++now_);
    waiting_ = wait ? agent : nullptr;
    if (!wait) Return(agent);
  }
  void Return(Agent* agent) {
    agent->rip = kCode - 2;
    agent->Call(++now_, /*number=*/0, /*result=*/0);
    waiting_ = nullptr;
  }
  // The two instructions.
  void Turn(Agent* agent) {
    if (seen_[agent] != token_) agent->Word(kData, token_);
    agent->Bare(HS_ENTRY_LOCKED, ++now_);
    std::swap(agent->rax, token_);
    seen_[agent] = token_;
    agent->count += 2;
  }
  void ExpectExact() {
    EXPECT_TRUE(log_->Finish(sequence_.last, 1).ok());
    auto trace = TraceReader::Open(directory_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    auto verified = Verify(**trace);
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_TRUE(verified->exact()) << verified->difference;
    EXPECT_EQ(verified->states, table_->instructions());
    EXPECT_EQ(verified->order_numbers, sequence_.events());
  }

  std::string directory_;
  uint64_t now_ = 0;
  uint64_t token_ = 0;
  std::map<Agent*, uint64_t> seen_;
  Agent* waiting_ = nullptr;
};

TEST_F(TokenTest, IsReplayedExactly) {
  std::vector<Agent> agents;
  for (size_t ring = 1; ring < kRings; ++ring) agents.push_back(AgentOf(ring));
  // Each one makes the next.
  for (uint16_t ring = 1; ring < kRings; ++ring) {
    Begin(&agents[ring - 1], SYS_clone);
    if (ring + 1 == kRings) break;
    agents[ring - 1].rip = kCode - 2;  // the loop follows the call
    agents[ring - 1].Call(++now_, SYS_clone, 4711 + ring, ring + 1);
  }
  std::minstd_rand random(3);
  for (int i = 0; i < 5000; ++i) {
    Agent* const agent = &agents[random() % agents.size()];
    if (agent == waiting_) {
      Return(agent);
      continue;
    }
    Turn(agent);
    if (waiting_ == nullptr) MaybeCall(agent, random() % 2 == 0);
    if (random() % 100 == 0) {
      ASSERT_TRUE(Drain().ok());
    }
  }
  while (waiting_ == nullptr) {
    Agent* const agent = &agents[random() % agents.size()];
    Turn(agent);
    MaybeCall(agent, /*wait=*/true);
  }
  // That one is killed there.
  for (Agent& agent : agents) {
    if (&agent != waiting_) agent.State(HS_ENTRY_END, ++now_);
  }
  ASSERT_TRUE(table_->DrainLast().ok());
  table_->Finish();
  ExpectExact();
}

}  // namespace
}  // namespace hindsight
