// Traces of several processes in one recording.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

Manifest ChildManifest(int32_t pid, int32_t parent_pid, int64_t start_time_ns = 1) {
  Manifest manifest = SampleManifest();
  manifest.uuid.clear();
  manifest.pid = pid;
  manifest.parent_pid = parent_pid;
  manifest.start_time_ns = SampleManifest().start_time_ns + start_time_ns;
  manifest.start_kind = "fork";
  return manifest;
}

std::unique_ptr<TraceWriter> MakeChild(TraceWriter* parent, const Manifest& manifest) {
  auto child = parent->CreateChild(manifest);
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

void FinishChild(TraceWriter* child, Manifest manifest) {
  manifest.state = TraceState::kComplete;
  manifest.exit_status = 0;
  const absl::Status status = child->Finish(manifest);
  EXPECT_TRUE(status.ok()) << status;
}

std::vector<int32_t> Pids(const std::string& directory,
                          std::vector<std::string>* warnings = nullptr) {
  std::vector<int32_t> pids;
  const auto processes = ListProcesses(directory, warnings);
  EXPECT_TRUE(processes.ok()) << processes.status();
  for (const ProcessInfo& process : *processes) pids.push_back(process.manifest.pid);
  return pids;
}

TEST(Processes, OneIsListedToo) {
  TestTrace trace;
  EXPECT_EQ(Pids(trace.directory()), std::vector<int32_t>{4711});
  EXPECT_FALSE(ListProcesses("/no/such/trace", nullptr).ok());
}

TEST(Processes, AChildHasATraceOfItsOwn) {
  TestTrace trace;
  Manifest manifest = ChildManifest(5000, 4711);
  manifest.parent_thread = 3;
  manifest.parent_count = 1000;
  manifest.parent_sequence = 77;
  auto child = MakeChild(trace.writer(), manifest);
  ASSERT_TRUE(child->BeginSegment(5000, 0, 12, 78, SampleRegisters(12)).ok());
  ASSERT_TRUE(child->Append(5000, {20, SegmentEnd{SampleRegisters(20)}}).ok());
  FinishChild(child.get(), ChildManifest(5000, 4711));
  trace.Begin(0).End(3);
  trace.Finish();

  const OpenTrace read(*TraceReader::Open(trace.Path("processes/5000")));
  EXPECT_EQ(read->manifest().state, TraceState::kComplete);
  EXPECT_EQ(read->manifest().parent_directory, "../..");
  EXPECT_NE(read->manifest().uuid, trace.Read()->manifest().uuid);
  EXPECT_EQ(read.Load(0, 5000)->end_count(), 20);
  EXPECT_TRUE(read->warnings().empty());
  EXPECT_EQ(trace.Read()->threads(), std::vector<int32_t>{kThread});
}

TEST(Processes, WhereTheParentStoodIsKept) {
  TestTrace trace;
  Manifest manifest = ChildManifest(5000, 4711);
  manifest.parent_thread = 3;
  manifest.parent_count = 1000;
  manifest.parent_sequence = 77;
  manifest.ordered_kernel_events = 5;
  manifest.ordered_instructions = 6;
  FinishChild(MakeChild(trace.writer(), manifest).get(), manifest);
  const OpenTrace read(*TraceReader::Open(trace.Path("processes/5000")));
  EXPECT_EQ(read->manifest().parent_pid, 4711);
  EXPECT_EQ(read->manifest().parent_thread, 3);
  EXPECT_EQ(read->manifest().parent_count, 1000);
  EXPECT_EQ(read->manifest().parent_sequence, 77);
  EXPECT_EQ(read->manifest().start_kind, "fork");
  EXPECT_EQ(read->manifest().ordered_kernel_events, 5);
  EXPECT_EQ(read->manifest().ordered_instructions, 6);
}

TEST(Processes, AreListedInTheOrderTheyWereMade) {
  TestTrace trace;
  auto later = MakeChild(trace.writer(), ChildManifest(10, 4711, 9));
  auto first = MakeChild(trace.writer(), ChildManifest(20, 4711, 5));
  auto grandchild = MakeChild(first.get(), ChildManifest(30, 20, 6));
  auto great_grandchild = MakeChild(grandchild.get(), ChildManifest(5, 30, 7));
  EXPECT_EQ(Pids(trace.directory()), (std::vector<int32_t>{4711, 20, 30, 5, 10}));
  EXPECT_EQ(Pids(trace.directory() + "/"), (std::vector<int32_t>{4711, 20, 30, 5, 10}));
  EXPECT_EQ(Pids(trace.Path("processes/20")), (std::vector<int32_t>{20, 30, 5}));
  EXPECT_EQ(Pids(trace.Path("processes/10")), std::vector<int32_t>{10});
}

TEST(Processes, APidMayComeAgain) {
  TestTrace trace;
  FinishChild(MakeChild(trace.writer(), ChildManifest(10, 4711, 1)).get(), ChildManifest(10, 4711));
  auto again = MakeChild(trace.writer(), ChildManifest(10, 4711, 2));
  auto child = MakeChild(again.get(), ChildManifest(10, 10, 3));
  const auto processes = ListProcesses(trace.directory(), nullptr);
  ASSERT_TRUE(processes.ok());
  ASSERT_EQ(processes->size(), 4);
  EXPECT_EQ((*processes)[2].directory, trace.Path("processes/10-2"));
  EXPECT_EQ((*processes)[3].manifest.parent_directory, "../10-2");
  EXPECT_EQ(Pids(trace.Path("processes/10-2")).size(), 2);
}

TEST(Processes, OneWithoutARecordedParentHasNoParentDirectory) {
  TestTrace trace;
  auto child = MakeChild(trace.writer(), ChildManifest(10, 0));
  const OpenTrace read(*TraceReader::Open(trace.Path("processes/10")));
  EXPECT_EQ(read->manifest().parent_directory, "");
}

TEST(Processes, MayOutliveTheirParentsWriter) {
  TestTrace trace;
  auto child = MakeChild(trace.writer(), ChildManifest(10, 4711));
  trace.Finish();
  ASSERT_TRUE(child->AppendEvent(ProcessEvent()).ok());
  auto grandchild = MakeChild(child.get(), ChildManifest(11, 10));
  FinishChild(child.get(), ChildManifest(10, 4711));
  child.reset();
  FinishChild(grandchild.get(), ChildManifest(11, 10));
  EXPECT_EQ(TraceReader::Open(trace.Path("processes/10")).value()->events().size(), 1);
}

TEST(Processes, EachIsInterruptedOnItsOwn) {
  TestTrace trace;
  auto ended = MakeChild(trace.writer(), ChildManifest(10, 4711));
  auto running = MakeChild(trace.writer(), ChildManifest(11, 4711));
  FinishChild(ended.get(), ChildManifest(10, 4711));
  auto processes = *ListProcesses(trace.directory(), nullptr);
  EXPECT_EQ(processes[0].manifest.state, TraceState::kRecording);
  EXPECT_EQ(processes[1].manifest.state, TraceState::kComplete);
  EXPECT_EQ(processes[2].manifest.state, TraceState::kRecording);
  running.reset();
  trace.Finish();
  processes = *ListProcesses(trace.directory(), nullptr);
  EXPECT_EQ(processes[0].manifest.state, TraceState::kComplete);
  EXPECT_EQ(processes[2].manifest.state, TraceState::kInterrupted);
}

TEST(Processes, ShareTheBytesOfModules) {
  TestTrace trace;
  const std::string file = trace.Path("file"), other = trace.Path("other");
  trace.SetBytes("file", std::string(3 * kPageBytes, 'm'));
  trace.SetBytes("other", std::string(2 * kPageBytes, 'o'));
  ASSERT_EQ(*trace.writer()->AddModule(file, -1, 1 << 20), 0);
  auto child = MakeChild(trace.writer(), ChildManifest(10, 4711));
  const uint64_t before = trace.writer()->bytes_written();
  ASSERT_EQ(*child->AddModule(other, -1, 1 << 20), 0);  // indices are each trace's own
  ASSERT_EQ(*child->AddModule(file, -1, 1 << 20), 1);
  EXPECT_LT(trace.writer()->bytes_written() - before, 2 * kPageBytes + 1000);
  EXPECT_EQ(trace.writer()->bytes_written(), child->bytes_written());

  ASSERT_TRUE(child->BeginFullKeyframe(1, 0, {}, {}, {}).ok());
  ASSERT_TRUE(child->AddModulePage(0x1000, 1, 0).ok());
  ASSERT_TRUE(child->AddPage(0x2000, FilledPage('o')).ok());  // found by its bytes
  ASSERT_TRUE(child->FinishFullKeyframe().ok());
  FinishChild(child.get(), ChildManifest(10, 4711));
  trace.Finish();

  const std::string directory = trace.Path("processes/10");
  const OpenTrace read(*TraceReader::Open(directory));
  EXPECT_TRUE(fs::is_empty(directory + "/threads"));
  EXPECT_EQ(read->modules().at(1).path, file);
  EXPECT_EQ(read->ModuleBytes(1)->size(), 3 * kPageBytes);
  EXPECT_EQ(read.FirstByte(0, 0x1000), 'm');
  EXPECT_EQ(read.FirstByte(0, 0x2000), 'o');
  // From inside, too.
  const fs::path here = fs::current_path();
  fs::current_path(directory);
  EXPECT_TRUE((*TraceReader::Open("."))->ModuleBytes(1).ok());
  EXPECT_EQ(Pids("."), std::vector<int32_t>{10});
  fs::current_path(here);
}

// As one that is stored to by way of a mapping: its times stay what they were.
TEST(Processes, GetTheBytesThatAFileHasWhateverItsTimesSay) {
  TestTrace trace;
  const std::string file = trace.Path("file");
  trace.SetBytes("file", std::string(2 * kPageBytes, 'm'));
  const auto time = fs::last_write_time(file);
  ASSERT_EQ(*trace.writer()->AddModule(file, -1, 1 << 20), 0);
  auto child = MakeChild(trace.writer(), ChildManifest(10, 4711));
  ASSERT_EQ(*child->AddModule(file, -1, 1 << 20), 0);
  trace.SetBytes("file", std::string(2 * kPageBytes, 'n'));
  fs::last_write_time(file, time);
  ASSERT_EQ(*child->AddModule(file, -1, 1 << 20), 1);
  FinishChild(child.get(), ChildManifest(10, 4711));
  trace.Finish();

  const OpenTrace read(*TraceReader::Open(trace.Path("processes/10")));
  EXPECT_EQ(read->ModuleBytes(0)->at(kPageBytes), 'm');
  EXPECT_EQ(read->ModuleBytes(1)->at(kPageBytes), 'n');
}

TEST(Processes, DamagedOnesAreLeftOutWithAWarning) {
  TestTrace trace;
  auto good = MakeChild(trace.writer(), ChildManifest(10, 4711));
  auto bad = MakeChild(trace.writer(), ChildManifest(11, 4711));
  fs::create_directory(trace.Path("processes/12"));  // a recorder died here: nothing is lost
  fs::create_directories(trace.Path("processes/13/threads/13"));
  trace.Flip("processes/11/manifest", 40);
  std::vector<std::string> warnings;
  EXPECT_EQ(Pids(trace.directory(), &warnings), (std::vector<int32_t>{4711, 10}));
  EXPECT_EQ(warnings.size(), 2);
}

TEST(Processes, ParentsInACircleDoNotHangTheReader) {
  TestTrace trace;
  auto a = MakeChild(trace.writer(), ChildManifest(10, 4711));
  auto b = MakeChild(a.get(), ChildManifest(11, 10));
  auto c = MakeChild(b.get(), ChildManifest(12, 11));
  c.reset();
  // 11 is the child of 12 now.
  fs::rename(trace.Path("processes/10"), trace.Path("processes/9"));
  fs::rename(trace.Path("processes/12"), trace.Path("processes/10"));
  EXPECT_EQ(Pids(trace.Path("processes/9")), std::vector<int32_t>{10});
  EXPECT_EQ(Pids(trace.directory()).size(), 4);
}

}  // namespace
}  // namespace hindsight
