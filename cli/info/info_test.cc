// `hindsight info` on recordings of several processes.

#include "cli/info/info.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "isa/registers.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

class InfoTest : public ::testing::Test {
 protected:
  InfoTest() {
    directory_ = ::testing::TempDir() + "/info.XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    writer_ = *TraceWriter::Create(directory_, Describe(100, 0, "/bin/make"));
    Run(writer_.get(), 100, 1000);
  }
  ~InfoTest() override { std::filesystem::remove_all(directory_); }

  Manifest Describe(int32_t pid, int32_t parent, const std::string& program) {
    Manifest manifest;
    manifest.pid = pid;
    manifest.parent_pid = parent;
    manifest.parent_sequence = 0x1a;
    manifest.program = program;
    manifest.start_kind = parent == 0 ? "launch" : "fork";
    manifest.start_time_ns = ++now_;
    manifest.memory_model = "fence";
    return manifest;
  }
  void Run(TraceWriter* writer, int32_t thread, uint64_t states) {
    const RegisterWords registers = ToWords(RegisterFile());
    EXPECT_TRUE(writer->BeginSegment(thread, 0, 0, 0, registers).ok());
    EXPECT_TRUE(writer->Append(thread, {states, SegmentEnd{registers}}).ok());
    EXPECT_TRUE(writer->Flush().ok());
  }
  std::unique_ptr<TraceWriter> Child(TraceWriter* parent, int32_t pid, int32_t parent_pid,
                                     const std::string& program) {
    auto child = *parent->CreateChild(Describe(pid, parent_pid, program));
    Run(child.get(), pid, pid);
    return child;
  }
  void Finish(TraceWriter* writer, Manifest manifest, int status = 0) {
    manifest.state = TraceState::kComplete;
    manifest.exit_status = status;
    EXPECT_TRUE(writer->Finish(manifest).ok());
  }
  RecordingInfo Read(const std::string& below = "") {
    auto info = ReadRecording(*TraceDirectory::Open(directory_ + below), /*positions=*/true);
    EXPECT_TRUE(info.ok()) << info.status();
    return *std::move(info);
  }

  std::string directory_;
  int64_t now_ = 0;
  std::unique_ptr<TraceWriter> writer_;
};

TEST_F(InfoTest, ProcessesAreShownAsATree) {
  auto first = Child(writer_.get(), 200, 100, "/bin/gcc");
  auto second = Child(writer_.get(), 300, 100, "/bin/sh");
  auto below_first = Child(first.get(), 50, 200, "/bin/cc1");
  const RecordingInfo info = Read();
  std::vector<std::string> tree;
  for (const ProcessEntry& entry : info.processes) {
    tree.push_back(std::string(entry.depth, '.') + entry.id + "<" + entry.parent);
  }
  EXPECT_EQ(tree, (std::vector<std::string>{"100<", ".200<100", "..50<200", ".300<100"}));
  EXPECT_EQ(info.instructions(), 1000 + 200 + 50 + 300);
  const std::string text = InfoText(info, /*threads=*/false);
  EXPECT_TRUE(absl::StrContains(text, "processes:    4, with 4 threads, 1550 instructions"))
      << text;
  EXPECT_TRUE(absl::StrContains(text, "    /bin/cc1\n")) << text;
}

TEST_F(InfoTest, AChildWithoutRecordedParentIsBelowTheFirst) {
  auto child = Child(writer_.get(), 200, 0, "/bin/cc1");
  const RecordingInfo info = Read();
  ASSERT_EQ(info.processes.size(), 2);
  EXPECT_EQ(info.processes[1].depth, 1);
  EXPECT_EQ(info.processes[1].parent, "");
}

TEST_F(InfoTest, OfAChildShowsWhereItWasForked) {
  auto child = Child(writer_.get(), 200, 100, "/bin/gcc");
  const std::string text = InfoText(Read("/processes/200"), /*threads=*/false);
  EXPECT_TRUE(absl::StrContains(text, "fork by process 100, thread 0, at event 1A")) << text;
  EXPECT_FALSE(absl::StrContains(text, "processes:")) << text;
}

TEST_F(InfoTest, ThreadsHaveALineEach) {
  EXPECT_TRUE(
      writer_->AppendEvent({.kind = EventKind::kThreadName, .thread = 100, .text = "worker"}).ok());
  Run(writer_.get(), 101, 77);
  Finish(writer_.get(), Describe(100, 0, "/bin/make"));
  const std::string text = InfoText(Read(), /*threads=*/true);
  EXPECT_TRUE(absl::StrContains(text, "threads of 100:")) << text;
  EXPECT_TRUE(absl::StrContains(text, "100       worker")) << text;
  EXPECT_TRUE(absl::StrContains(text, "0:4D")) << text;
}

TEST_F(InfoTest, JsonHasAllProcesses) {
  auto child = Child(writer_.get(), 200, 100, "/bin/gcc");
  Finish(child.get(), Describe(200, 100, "/bin/gcc"), 3 << 8);
  const std::string json = InfoJson(Read(), /*threads=*/true);
  EXPECT_TRUE(absl::StrContains(json, "\"id\": \"200\"")) << json;
  EXPECT_TRUE(absl::StrContains(json, "\"parent\": \"100\"")) << json;
  EXPECT_TRUE(absl::StrContains(json, "exited with status 3")) << json;
}

TEST_F(InfoTest, TellsWhatThisHostLacks) {
  Manifest manifest = Describe(100, 0, "/bin/make");
  manifest.required_features = {"fma4096"};
  Finish(writer_.get(), manifest);
  const std::string text = InfoText(Read(), /*threads=*/false);
  EXPECT_TRUE(absl::StrContains(text, "fma4096; this host lacks fma4096")) << text;
}

TEST_F(InfoTest, ADamagedChildIsLeftOutWithAWarning) {
  auto child = Child(writer_.get(), 200, 100, "/bin/gcc");
  std::filesystem::resize_file(directory_ + "/processes/200/manifest", 40);
  const RecordingInfo info = Read();
  EXPECT_EQ(info.processes.size(), 1);
  EXPECT_EQ(info.warnings.size(), 1);
}

}  // namespace
}  // namespace hindsight
