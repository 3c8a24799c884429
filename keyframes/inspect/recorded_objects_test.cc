#include "keyframes/inspect/recorded_objects.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "isa/registers.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

constexpr int32_t kPid = 4711;
constexpr int32_t kSecond = 4712;
constexpr uint64_t kCode = 0x400000;

bool NoMemory(uint64_t, absl::Span<uint8_t>) { return false; }

// A trace of ten states; a signal is delivered from state 5. One file is mapped. If there are
// `several` threads, the second one runs from moment 7 to 11, on processor 3.
class RecordedObjectsTest : public ::testing::Test {
 protected:
  explicit RecordedObjectsTest(bool several = false)
      : directory_(testing::TempDir() + "recorded_objects_test"), several_(several) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    program_ = directory_ + "/a_program_of_long_name";
    std::ofstream(program_) << "not much of a program";
    Write();
    reader_ = *TraceReader::Open(directory_ + "/trace");
    process_.emplace(*ProcessState::Create(reader_.get()));
    objects_.emplace(reader_.get(), &*process_);
  }
  ~RecordedObjectsTest() override { std::filesystem::remove_all(directory_); }

  void Write() {
    Manifest manifest = {.program = program_,
                         .arguments = {"prog", "-x"},
                         .environment = {"A=1"},
                         .working_directory = "/somewhere",
                         .pid = kPid,
                         .register_layout = "amd64-v1",
                         .auxv = {6, 4096, 0, 0}};
    auto writer = *TraceWriter::Create(directory_ + "/trace", manifest);
    int32_t module = *writer->AddModule(program_, -1, 1 << 20);
    RegisterWords registers = ToWords(RegisterFile());
    EXPECT_TRUE(writer->BeginSegment(kPid, 0, 0, 0, registers).ok());
    siginfo_t info = {};
    info.si_signo = SIGUSR1;
    info.si_code = SI_USER;
    std::string siginfo(reinterpret_cast<const char*>(&info), sizeof(info));
    Record signal = {5, Discontinuity{.sequence = 2, .signal = SIGUSR1, .siginfo = siginfo}};
    EXPECT_TRUE(writer->Append(kPid, signal).ok());
    EXPECT_TRUE(writer->Append(kPid, {10, SegmentEnd{registers}}).ok());
    std::vector<MapRegion> maps = {{.start = kCode,
                                    .end = kCode + kPageBytes,
                                    .protection = PROT_READ,
                                    .inode = 7,
                                    .name = program_,
                                    .module = module}};
    ProcessEvent map = {.kind = EventKind::kMapChange, .thread = kPid, .maps = maps};
    EXPECT_TRUE(writer->AppendEvent(map).ok());
    ProcessEvent event = {.kind = EventKind::kSignal,
                          .sequence = 2,
                          .thread = kPid,
                          .count = 6,
                          .number = SIGUSR1,
                          .text = siginfo};
    EXPECT_TRUE(writer->AppendEvent(event).ok());
    if (several_) WriteSecondThread(writer.get(), registers);
    manifest.state = TraceState::kComplete;
    EXPECT_TRUE(writer->Finish(manifest).ok());
  }

  void WriteSecondThread(TraceWriter* writer, const RegisterWords& registers) {
    EXPECT_TRUE(writer->BeginSegment(kSecond, 0, 0, 3, registers).ok());
    EXPECT_TRUE(writer->Append(kSecond, {4, SegmentEnd{registers}}).ok());
    const ProcessEvent events[] = {
        {.kind = EventKind::kSlice, .sequence = 1, .thread = kPid, .arguments = {0, 0, 1}},
        {.kind = EventKind::kThreadStart,
         .sequence = 3,
         .thread = kSecond,
         .number = kPid,
         .text = "a_worker"},
        {.kind = EventKind::kSlice, .sequence = 4, .thread = kSecond, .arguments = {0, 0, 3}},
        {.kind = EventKind::kThreadName, .thread = kSecond, .count = 2, .text = "renamed"},
        {.kind = EventKind::kThreadExit, .thread = kSecond, .count = 4},
        {.kind = EventKind::kSlice, .sequence = 5, .thread = kPid, .count = 7, .arguments = {0, 0}},
    };
    for (const ProcessEvent& event : events) EXPECT_TRUE(writer->AppendEvent(event).ok());
  }

  std::string Contents(const std::string& path, uint64_t moment = 0) {
    auto contents = objects_->FileContents(path, moment, NoMemory);
    return contents.ok() ? *contents : std::string(contents.status().message());
  }
  absl::StatusCode ContentsCode(const std::string& path) {
    return objects_->FileContents(path, 0, NoMemory).status().code();
  }
  siginfo_t SigInfo(uint64_t moment, int32_t thread = kPid) {
    std::string bytes = objects_->SigInfo(thread, moment);
    siginfo_t info;
    EXPECT_EQ(bytes.size(), sizeof(info));
    std::memcpy(&info, bytes.data(), std::min(bytes.size(), sizeof(info)));
    return info;
  }

  std::string directory_, program_;
  bool several_;
  std::unique_ptr<TraceReader> reader_;
  std::optional<ProcessState> process_;
  std::optional<RecordedObjects> objects_;
};

TEST_F(RecordedObjectsTest, ProgramIsServedFromTheTraceThoughTheFileIsGone) {
  std::filesystem::remove(program_);
  EXPECT_EQ(Contents(program_), "not much of a program");
  EXPECT_EQ(Contents("/proc/4711/exe"), "not much of a program");
}

TEST_F(RecordedObjectsTest, NothingElseOfTheHostIsServed) {
  EXPECT_EQ(ContentsCode("/etc/passwd"), absl::StatusCode::kNotFound);
  EXPECT_EQ(ContentsCode("/proc/1/maps"), absl::StatusCode::kNotFound);
  EXPECT_EQ(ContentsCode("/proc/4711/../../etc/passwd"), absl::StatusCode::kNotFound);
  EXPECT_EQ(ContentsCode("/proc/4711/root/etc/passwd"), absl::StatusCode::kNotFound);
  EXPECT_EQ(ContentsCode(""), absl::StatusCode::kNotFound);
}

TEST_F(RecordedObjectsTest, ProcFilesAreTheProgramsOwn) {
  EXPECT_EQ(Contents("/proc/4711/cmdline"), std::string("prog\0-x\0", 8));
  EXPECT_EQ(Contents("/proc/4711/environ"), std::string("A=1\0", 4));
  EXPECT_NE(Contents("/proc/4711/maps").find(program_), std::string::npos);
  EXPECT_EQ(Contents("/proc/4711/task/4711/maps"), Contents("/proc/4711/maps"));
  EXPECT_EQ(Contents("/proc/4711/comm"), "a_program_of_lo\n");
}

TEST_F(RecordedObjectsTest, Links) {
  EXPECT_EQ(objects_->ReadLink("/proc/4711/exe", 0, NoMemory).value_or(""), program_);
  EXPECT_EQ(objects_->ReadLink("/proc/4711/cwd", 0, NoMemory).value_or(""), "/somewhere");
  EXPECT_EQ(objects_->ReadLink(program_, 0, NoMemory).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(objects_->ReadLink("/etc/mtab", 0, NoMemory).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RecordedObjectsTest, SigInfoIsThatOfTheSignalDeliveredNext) {
  EXPECT_EQ(SigInfo(5).si_signo, SIGUSR1);
  EXPECT_EQ(SigInfo(5).si_code, SI_USER);
  EXPECT_EQ(SigInfo(4).si_signo, SIGTRAP);
  EXPECT_EQ(SigInfo(6).si_signo, SIGTRAP);
}

class RecordedThreadsTest : public RecordedObjectsTest {
 protected:
  RecordedThreadsTest() : RecordedObjectsTest(/*several=*/true) {}
};

TEST_F(RecordedThreadsTest, HaveNamesOfTheirOwn) {
  ASSERT_TRUE(process_->warnings().empty()) << process_->warnings().front();
  EXPECT_EQ(objects_->ThreadName(kPid, 8), "a_program_of_lo");
  EXPECT_EQ(objects_->ThreadName(kSecond, 8), "a_worker");
  EXPECT_EQ(objects_->ThreadName(kSecond, 10), "renamed");
  EXPECT_EQ(Contents("/proc/4711/task/4712/comm", 8), "a_worker\n");
  EXPECT_EQ(Contents("/proc/4712/comm", 8), "a_worker\n");
  EXPECT_EQ(Contents("/proc/4711/task/4712/maps", 8), Contents("/proc/4711/maps", 8));
  EXPECT_NE(Contents("/proc/4711/task/4712/status", 8).find("Tgid:\t4711\nPid:\t4712\n"),
            std::string::npos);
}

TEST_F(RecordedThreadsTest, HaveFilesOnlyWhileTheyLive) {
  EXPECT_EQ(Contents("/proc/4711/task/4712/comm", 0),
            "/proc/4711/task/4712/comm is not in the trace");
  EXPECT_EQ(Contents("/proc/4711/task/4712/comm", 13),
            "/proc/4711/task/4712/comm is not in the trace");
}

TEST_F(RecordedThreadsTest, HaveSignalsOfTheirOwn) {
  EXPECT_EQ(SigInfo(5, kPid).si_signo, SIGUSR1);
  EXPECT_EQ(SigInfo(8, kSecond).si_signo, SIGTRAP);
}

TEST_F(RecordedThreadsTest, RunOnProcessors) {
  EXPECT_EQ(objects_->ThreadProcessor(kPid, 2), 1);
  EXPECT_EQ(objects_->ThreadProcessor(kSecond, 8), 3);
  EXPECT_EQ(objects_->ThreadProcessor(kPid, 13), 1) << "the last slice does not tell";
}

TEST_F(RecordedObjectsTest, AuxvIsRaw) {
  auto auxv = objects_->Auxv(0);
  ASSERT_TRUE(auxv.ok());
  EXPECT_EQ(auxv->size(), 32);
  EXPECT_EQ((*auxv)[0], 6);
}

TEST_F(RecordedObjectsTest, NoThreadLocalStorageWithoutACLibrary) {
  EXPECT_EQ(objects_->TlsAddress(0x7000, 0, 0x8000, NoMemory).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hindsight
