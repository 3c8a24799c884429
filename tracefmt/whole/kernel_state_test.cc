// What the kernel keeps of a process: what is written is read, and what nobody writes is refused.

#include "tracefmt/kernel_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tracefmt/samples/test_trace.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

using absl::StatusCode;

ThreadKernelState SampleThread() {
  return {.thread = 4711,
          .name = std::string("a\xff\n", 3),
          .blocked = ~uint64_t{0},
          .pending = 1 << 9,
          .siginfos = {std::string(128, 'i'), ""},
          .system_call = 202,
          .has_signal_stack = true,
          .signal_stack_base = 0x7000,
          .signal_stack_bytes = 8192,
          .signal_stack_flags = 1,
          .robust_list = 0x7010,
          .robust_list_bytes = 24,
          .clear_tid = 0x7020,
          .rseq = 0x7030,
          .rseq_bytes = 32,
          .rseq_signature = 0x53053053,
          .rseq_flags = 1,
          .policy = 1,
          .priority = 7,
          .nice = -5,
          .processors = {3, 1}};
}

OpenDescriptor SamplePipe() {
  return {.fd = 7,
          .kind = DescriptorKind::kPipe,
          .path = "pipe:[12]",
          .offset = uint64_t{1} << 40,
          .flags = 0x800,
          .close_on_exec = true,
          .mode = 0x1180,
          .device = 13,
          .inode = 12,
          .special_device = 3,
          .size_bytes = 9,
          .same_as = 5,
          .details = "eventfd-count: 3\n",
          .unread = std::string("\0x", 2)};
}

KernelState Sample() {
  return {.threads = {SampleThread(), {}},
          .descriptors = {SamplePipe(), {.unread = ""}, {}},
          .signals = {{1, 2, 3, 4}, {}},
          .pending = 1 << 16,
          .siginfos = {"one"},
          .interval_timers = {{1, 2, 3}},
          .posix_timers = {{1, 2, 3, 4, 5, 6}},
          .limits = {{1, 2}, {~uint64_t{0}, ~uint64_t{0}}},
          .layout = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
          .executable = "/bin/a (deleted)",
          .working_directory = "/home",
          .root = "/",
          .umask = 18,
          .personality = 0x40000,
          .parent = 1,
          .group = 2,
          .session = 3,
          .no_new_privileges = true};
}

void Write(const KernelState& state, TestTrace* trace) {
  TraceWriter* const writer = trace->writer();
  ASSERT_TRUE(writer->BeginFullKeyframe(1, 0, {}, {}, {}).ok());
  ASSERT_TRUE(writer->AddPage(0x1000, FilledPage(3)).ok());
  ASSERT_TRUE(writer->AddKernelState(state).ok());
  ASSERT_TRUE(writer->DeclareComplete({}).ok());
  ASSERT_TRUE(writer->FinishFullKeyframe().ok());
}

TEST(KernelState, IsReadAsItWasWritten) {
  for (const KernelState& state : {Sample(), KernelState()}) {
    TestTrace trace;
    Write(state, &trace);
    trace.Keyframe(2, {{0x1000, 3}});
    trace.Finish();
    const OpenTrace read = trace.Read();
    ASSERT_EQ(read->full_keyframes().size(), 2);
    const KernelState* found = read->full_keyframes()[0]->kernel_state();
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(*found, state);
    EXPECT_EQ(read->full_keyframes()[1]->kernel_state(), nullptr);
    EXPECT_EQ(read.FirstByte(0, 0x1000), 3);
  }
}

TEST(KernelState, ThreadsAreFound) {
  const KernelState state = Sample();
  ASSERT_NE(state.Thread(4711), nullptr);
  EXPECT_EQ(state.Thread(4711)->priority, 7);
  EXPECT_EQ(state.Thread(4712), nullptr);
}

TEST(KernelState, BelongsIntoAKeyframe) {
  TestTrace trace;
  EXPECT_EQ(trace.writer()->AddKernelState(Sample()).code(), StatusCode::kFailedPrecondition);
}

using Words = std::vector<uint64_t>;

// Puts `words` into the file of keyframe 1 in place of its own message. What comes after moves, and
// its place is part of its hash.
void Replace(const Words& words, TestTrace* trace) {
  const auto file = BlockFile::Open(*TraceDirectory::Open(trace->directory()), "full/1");
  ASSERT_TRUE(file.ok());
  BlockEncoder encoder;
  std::string replaced;
  for (uint64_t offset = 0; !file->AtEnd(offset);) {
    const auto own = file->Read(offset);
    ASSERT_TRUE(own.ok());
    offset = own->next_offset;
    const bool here = own->Is(BlockKind::kKernelState);
    const auto* bytes = here ? reinterpret_cast<const uint8_t*>(words.data())
                             : reinterpret_cast<const uint8_t*>(own->words.get());
    const size_t count = here ? words.size() : own->word_count;
    const auto block =
        encoder.Encode(static_cast<BlockKind>(own->kind), {bytes, count * 8}, replaced.size());
    ASSERT_TRUE(block.ok());
    replaced.append(block->begin(), block->end());
  }
  trace->SetBytes("full/1", replaced);
}

Words WordsOf(capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> flat = capnp::messageToFlatArray(message);
  Words words(flat.size());
  std::memcpy(words.data(), flat.begin(), flat.size() * sizeof(uint64_t));
  return words;
}

absl::Status DamageOf(const Words& words) {
  TestTrace trace;
  Write(Sample(), &trace);
  trace.Finish();
  Replace(words, &trace);
  const OpenTrace read = trace.Read();
  return read->damage().empty() ? absl::OkStatus() : read->damage()[0];
}

TEST(HostileKernelState, AnotherMessageIsRead) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::KernelState>().initLimits(4);
  EXPECT_TRUE(DamageOf(WordsOf(message)).ok());
}

TEST(HostileKernelState, HalfALimit) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::KernelState>().initLimits(3);
  EXPECT_EQ(DamageOf(WordsOf(message)).code(), StatusCode::kDataLoss);
}

TEST(HostileKernelState, ElementsThatSayNothing) {
  capnp::MallocMessageBuilder message(2'000'000);  // in one segment
  message.initRoot<wire::KernelState>().initSignals(400'000);
  EXPECT_TRUE(DamageOf(WordsOf(message)).ok());
  // A list may say that its elements are that many and have no words.
  Words words = WordsOf(message);
  const size_t lists = 2 + (words[1] >> 32 & 0xffff);
  const size_t list = lists + 3 + (words[lists + 2] >> 2 & 0x3fffffff);
  ASSERT_EQ(words[list] & 0xffffffff, uint64_t{400'000} << 2);
  words[lists] = words[lists + 2] + (2 << 2);
  words[lists + 2] = 0;
  words[lists] &= 0x7ffffffff;
  words[list] = uint64_t{1'500'000} << 2;
  // As threads, of which each takes more memory than the message.
  EXPECT_EQ(DamageOf(words).code(), StatusCode::kResourceExhausted);
  words[list] = uint64_t{500'000'000} << 2;
  EXPECT_EQ(DamageOf(words).code(), StatusCode::kDataLoss);
}

// Lists of all kinds that say that their elements have no size.
TEST(HostileKernelState, ElementsOfNoSize) {
  constexpr uint64_t kMany = 500'000'000;
  for (uint64_t pointer = 0; pointer < 9; ++pointer) {
    capnp::MallocMessageBuilder message;
    message.initRoot<wire::KernelState>();
    Words words = WordsOf(message);
    const size_t first = 2 + (words[1] >> 32 & 0xffff);
    words[first + pointer] = 1 | kMany << 35;
    const absl::Status damage = DamageOf(words);
    EXPECT_EQ(damage.code(), StatusCode::kDataLoss) << pointer << damage;
  }
}

TEST(HostileKernelState, EveryBitFlipped) {
  TestTrace trace;
  Write(Sample(), &trace);
  trace.Finish();
  const std::string whole = trace.Bytes("full/1");
  for (size_t i = 0; i < whole.size(); i += 3) {
    trace.SetBytes("full/1", whole);
    trace.Flip("full/1", i);
    const OpenTrace read = trace.Read();
    for (const auto& keyframe : read->full_keyframes()) {
      if (keyframe->kernel_state() != nullptr) {
        EXPECT_EQ(*keyframe->kernel_state(), Sample());
      }
    }
  }
}

}  // namespace
}  // namespace hindsight
