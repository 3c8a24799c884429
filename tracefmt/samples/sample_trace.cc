#include "tracefmt/samples/sample_trace.h"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

constexpr int32_t kMain = 1;
constexpr int32_t kSecond = 2;
constexpr int32_t kChild = 4800;

UniqueFd ModuleFile() {
  UniqueFd file(memfd_create("module", MFD_CLOEXEC));
  const std::string bytes = "the bytes of a module\n";
  CHECK(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return file;
}

void WriteModule(TraceWriter* writer) {
  const UniqueFd file(ModuleFile());
  CHECK(*writer->AddModule("/usr/bin/sample", file.get(), 1 << 20) == 0);
  CHECK(*writer->AddModule("/usr/lib/too-large.so", file.get(), 0) == 1);
}

// 18 pages with contents (two groups), one of zeros, one of the module.
void WriteKeyframe(TraceWriter* writer, uint64_t number, uint8_t fill) {
  MapRegion region;
  region.start = 0x1000;
  region.end = 0x20000;
  region.protection = 5;
  region.name = "/usr/bin/sample";
  region.module = 0;
  CHECK(writer->BeginFullKeyframe(number, number, {{kMain, 0, 0, SampleRegisters()}}, {region}, {})
            .ok());
  CHECK(writer->AddModulePage(0x1000, 0, 0).ok());
  std::vector<uint8_t> page(kPageBytes, 0);
  CHECK(writer->AddPage(0x2000, page).ok());
  for (uint64_t i = 0; i < 18; ++i) {
    page.assign(kPageBytes, static_cast<uint8_t>(fill + i));
    CHECK(writer->AddPage(0x3000 + i * kPageBytes, page).ok());
  }
  CHECK(writer->FinishFullKeyframe().ok());
}

std::vector<Record> SampleRecords() {
  static const std::vector<uint8_t> kLine(kLineBytes, 0x11);
  static const std::vector<uint8_t> kTwoLines(2 * kLineBytes, 0x22);
  PageImport whole;
  whole.address = 0x5000;
  whole.first = true;
  whole.line_mask = uint64_t{1} << 63 | 1;
  whole.lines = kTwoLines;
  const PageImport of_module = {0x1000, true, 0, 0, 0, {}};
  SideEffect rdtsc;
  rdtsc.registers = {{0, 2}, {0x1234, 0x5678}};
  SideEffect syscall;
  syscall.kind = SideEffectKind::kSyscall;
  syscall.sequence = 1;
  syscall.register_hash = 0xabcdef;
  syscall.registers = {{0}, {~uint64_t{0}}};
  SideEffect part;
  part.retired = false;
  Discontinuity signal;
  signal.sequence = 2;
  signal.register_hash = 0xfedcba;
  signal.signal = 10;
  signal.siginfo = std::string(128, '\x0a');
  signal.registers = {{1, 3}, {0x111, 0x333}};
  return {{0, whole}, {0, of_module}, {3, LineImport{0x40c0, true, kLine}},
          {5, rdtsc}, {9, syscall},   {10, UncachedRead{0x9008, 4, 0xcafe}},
          {12, part}, {15, signal},   {16, RegisterHash{0x1111222233334444}}};
}

void WriteSegments(TraceWriter* writer) {
  CHECK(writer->BeginSegment(kMain, 0, 0, 0, SampleRegisters()).ok());
  for (const Record& record : SampleRecords()) CHECK(writer->Append(kMain, record).ok());
  CHECK(writer->Append(kMain, {20, SegmentEnd{SampleRegisters(20)}}).ok());
  CHECK(writer->BeginSegment(kMain, 1, 20, 2, SampleRegisters(20)).ok());
  // As it was in segment 0.
  Record again = SampleRecords().front();
  again.count = 21;
  CHECK(writer->Append(kMain, again).ok());
  CHECK(writer->Flush().ok());
  CHECK(writer->Append(kMain, {25, Gap{"a gap"}}).ok());
}

// A second thread takes turns with the first.
void WriteThread(TraceWriter* writer) {
  static const std::vector<uint8_t> kLine(kLineBytes, 0x33);
  static const std::vector<uint64_t> kCounts = {1, 2, 40, 300};
  static const std::vector<uint64_t> kUsed = {0x6000, 0x9000, 0x2000000};
  PageImport known;
  known.address = 0x6000;
  known.line_mask = 4;
  known.lines = kLine;
  known.known_mask = 4;
  CHECK(writer->BeginSegment(kSecond, 0, 0, 3, SampleRegisters(7)).ok());
  CHECK(writer->Append(kSecond, {0, MappedRange{0x5000, 0x5000, 0, 0x1000}}).ok());
  CHECK(writer->Append(kSecond, {0, known}).ok());
  CHECK(writer->Append(kSecond, {301, OrderRun{4, kCounts}}).ok());
  CHECK(writer->Append(kSecond, {301, PageLeft{0x6000}}).ok());
  CHECK(writer->Append(kSecond, {301, MemoryHash{0x6080, 64, 0x5555666677778888}}).ok());
  CHECK(writer->Append(kSecond, {302, MappedRange{0x8000, 0x4000}}).ok());
  CHECK(writer->Append(kSecond, {302, UsedPages{true, kUsed}}).ok());
  CHECK(writer->Append(kSecond, {302, SegmentEnd{SampleRegisters(8)}}).ok());
  writer->CloseThread(kSecond);
}

Manifest ChildManifest() {
  Manifest manifest = SampleManifest();
  manifest.uuid = "fedcba9876543210";
  manifest.pid = 4800;
  manifest.start_time_ns += 1000;
  manifest.parent_pid = 4711;
  manifest.parent_thread = kMain;
  manifest.parent_count = 10;
  manifest.parent_sequence = 1;
  manifest.start_kind = "fork";
  return manifest;
}

void WriteChild(TraceWriter* parent) {
  const auto child = parent->CreateChild(ChildManifest());
  CHECK(child.ok());
  const UniqueFd file(ModuleFile());
  CHECK(*(*child)->AddModule("/usr/bin/sample", file.get(), 1 << 20) == 0);
  CHECK((*child)->BeginFullKeyframe(1, 8, {{kChild, 0, 0, SampleRegisters()}}, {}, {}).ok());
  CHECK((*child)->AddModulePage(0x1000, 0, 0).ok());
  CHECK((*child)->FinishFullKeyframe().ok());
  CHECK((*child)->BeginSegment(kChild, 0, 0, 8, SampleRegisters()).ok());
  CHECK((*child)->Append(kChild, {9, SegmentEnd{SampleRegisters(9)}}).ok());
  Manifest end = ChildManifest();
  end.state = TraceState::kComplete;
  end.exit_status = 0;
  CHECK((*child)->Finish(end).ok());
}

void WriteEvents(TraceWriter* writer) {
  ProcessEvent call;
  call.kind = EventKind::kSyscall;
  call.sequence = 1;
  call.thread = kMain;
  call.count = 10;
  call.number = 39;
  call.arguments = {1, 2, 3, 4, 5, 6};
  call.result = -1;
  CHECK(writer->AppendEvent(call).ok());
  ProcessEvent maps;
  maps.kind = EventKind::kMapChange;
  maps.maps = {MapRegion(), MapRegion()};
  maps.maps[0].end = 0x1000;
  maps.maps[0].name = "[heap]";
  CHECK(writer->AppendEvent(maps).ok());
  ProcessEvent part;
  part.kind = EventKind::kMapPart;
  part.count = 11;
  part.arguments = {0x1000, 0x3000, 0x5000, 0x6000};
  part.maps = {MapRegion()};
  part.maps[0].start = 0x2000;
  part.maps[0].end = 0x3000;
  CHECK(writer->AppendEvent(part).ok());
  ProcessEvent start;
  start.kind = EventKind::kThreadStart;
  start.sequence = 3;
  start.thread = kSecond;
  start.number = kMain;
  start.text = "worker";
  CHECK(writer->AppendEvent(start).ok());
  ProcessEvent slice;
  slice.kind = EventKind::kSlice;
  slice.sequence = 9;
  slice.thread = kSecond;
  slice.count = 302;
  slice.arguments = {2000, 1500, ~uint64_t{0}};
  CHECK(writer->AppendEvent(slice).ok());
}

}  // namespace

Manifest SampleManifest() {
  Manifest manifest;
  manifest.uuid = "0123456789abcdef";
  manifest.program = "/usr/bin/sample";
  manifest.arguments = {"sample", "--help", std::string("\xff\x01", 2)};
  manifest.environment = {"PATH=/bin", "EMPTY="};
  manifest.working_directory = "/";
  manifest.pid = 4711;
  manifest.start_time_ns = 1234567890123456789;
  manifest.host_cpu = "A CPU";
  manifest.required_features = {"avx2"};
  manifest.engine = "emulate";
  manifest.memory_model = "fence";
  manifest.register_layout = "amd64-v1";
  manifest.light_keyframe_interval = 1000;
  manifest.full_keyframe_interval = 100000;
  manifest.auxv = {3, 0x40, 0, 0};
  manifest.start_kind = "launch";
  manifest.cpu = "portable";
  return manifest;
}

RegisterWords SampleRegisters(uint64_t seed) { return {seed, seed + 1, seed + 2, seed + 3}; }

void WriteSampleTrace(const std::string& directory) {
  auto writer = TraceWriter::Create(directory, SampleManifest());
  CHECK(writer.ok());
  WriteModule(writer->get());
  WriteKeyframe(writer->get(), 1, 1);
  WriteSegments(writer->get());
  WriteThread(writer->get());
  WriteChild(writer->get());
  WriteKeyframe(writer->get(), 2, 10);
  WriteEvents(writer->get());
  Manifest end = SampleManifest();
  end.state = TraceState::kComplete;
  end.exit_status = 256;
  end.end_reason = "stopped";
  end.end_sequence = 2;
  end.end_time_ns = 1000;
  end.ordered_kernel_events = 5;
  end.ordered_instructions = 4;
  CHECK((*writer)->Finish(end).ok());
}

}  // namespace hindsight
