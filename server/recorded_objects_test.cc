#include "server/recorded_objects.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "emulator/registers.h"
#include "gtest/gtest.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

constexpr int32_t kPid = 4711;
constexpr uint64_t kCode = 0x400000;

bool NoMemory(uint64_t, absl::Span<uint8_t>) { return false; }

// A trace of ten states; a signal is delivered from state 5. One file is mapped.
class RecordedObjectsTest : public ::testing::Test {
 protected:
  RecordedObjectsTest() : directory_(testing::TempDir() + "recorded_objects_test") {
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
    Record signal = {5, Discontinuity{.sequence = 1, .signal = SIGUSR1, .siginfo = siginfo}};
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
                          .sequence = 1,
                          .thread = kPid,
                          .count = 6,
                          .number = SIGUSR1,
                          .text = siginfo};
    EXPECT_TRUE(writer->AppendEvent(event).ok());
    manifest.state = TraceState::kComplete;
    EXPECT_TRUE(writer->Finish(manifest).ok());
  }

  std::string Contents(const std::string& path) {
    auto contents = objects_->FileContents(path, 0, NoMemory);
    return contents.ok() ? *contents : std::string(contents.status().message());
  }
  absl::StatusCode ContentsCode(const std::string& path) {
    return objects_->FileContents(path, 0, NoMemory).status().code();
  }
  siginfo_t SigInfo(uint64_t count) {
    std::string bytes = objects_->SigInfo(count);
    siginfo_t info;
    EXPECT_EQ(bytes.size(), sizeof(info));
    std::memcpy(&info, bytes.data(), std::min(bytes.size(), sizeof(info)));
    return info;
  }

  std::string directory_, program_;
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
