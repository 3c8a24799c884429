#include "tracefmt/manifest_codec.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/storage/trace_lock.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

void FillStrings(capnp::List<capnp::Data>::Builder list, const std::vector<std::string>& strings) {
  for (size_t i = 0; i < strings.size(); ++i)
    list.set(static_cast<uint32_t>(i), AsData(strings[i]));
}

std::vector<std::string> AsStrings(capnp::List<capnp::Data>::Reader list) {
  std::vector<std::string> strings;
  for (const auto data : list) strings.push_back(AsString(data));
  return strings;
}

void Build(const TraceTotals& from, wire::Totals::Builder to) {
  auto threads = to.initThreads(from.threads.size());
  for (size_t i = 0; i < from.threads.size(); ++i) {
    auto thread = threads[static_cast<uint32_t>(i)];
    thread.setThread(from.threads[i].thread);
    thread.setSegments(from.threads[i].segments);
    thread.setEndCount(from.threads[i].end_count);
    thread.setRecords(from.threads[i].records);
  }
  to.setEvents(from.events);
  to.setFullKeyframes(from.full_keyframes);
  to.setModules(from.modules);
}

// What totals of a thread take.
constexpr uint64_t kThreadTotalsWords = 4;
// A string takes 8 bytes of a message and its bytes, in memory 32 and its bytes.
constexpr uint64_t kMemoryPerRawByte = 4;

TraceTotals Read(wire::Totals::Reader from) {
  TraceTotals to;
  for (const auto thread : from.getThreads()) {
    to.threads.push_back({.thread = thread.getThread(),
                          .segments = thread.getSegments(),
                          .end_count = thread.getEndCount(),
                          .records = thread.getRecords()});
  }
  to.events = from.getEvents();
  to.full_keyframes = from.getFullKeyframes();
  to.modules = from.getModules();
  return to;
}

void Build(const Manifest& from, wire::Manifest::Builder to) {
  to.setUuid(AsData(from.uuid));
  to.setProgram(AsData(from.program));
  FillStrings(to.initArguments(from.arguments.size()), from.arguments);
  FillStrings(to.initEnvironment(from.environment.size()), from.environment);
  to.setWorkingDirectory(AsData(from.working_directory));
  to.setPid(from.pid);
  to.setStartTimeNs(from.start_time_ns);
  to.setHostCpu(AsData(from.host_cpu));
  FillStrings(to.initRequiredFeatures(from.required_features.size()), from.required_features);
  to.setEngine(AsData(from.engine));
  to.setMemoryModel(AsData(from.memory_model));
  to.setRegisterLayout(AsData(from.register_layout));
  to.setLightKeyframeInterval(from.light_keyframe_interval);
  to.setFullKeyframeInterval(from.full_keyframe_interval);
  FillList(to.initAuxv(from.auxv.size()), from.auxv);
  to.setState(static_cast<uint16_t>(from.state));
  to.setExitStatus(from.exit_status);
  to.setEndReason(AsData(from.end_reason));
  to.setEndSequence(from.end_sequence);
  to.setEndTimeNs(from.end_time_ns);
  to.setParentPid(from.parent_pid);
  to.setParentDirectory(AsData(from.parent_directory));
  to.setParentThread(from.parent_thread);
  to.setParentCount(from.parent_count);
  to.setParentSequence(from.parent_sequence);
  to.setStartKind(AsData(from.start_kind));
  to.setOrderedKernelEvents(from.ordered_kernel_events);
  to.setOrderedInstructions(from.ordered_instructions);
  to.setCpu(AsData(from.cpu));
  to.setSchedule(AsData(from.schedule));
  to.setScheduleSeed(from.schedule_seed);
  to.setRing(AsData(from.ring));
  if (from.totals.has_value()) Build(*from.totals, to.initTotals());
}

Manifest Read(wire::Manifest::Reader from) {
  Manifest to;
  to.uuid = AsString(from.getUuid());
  to.program = AsString(from.getProgram());
  to.arguments = AsStrings(from.getArguments());
  to.environment = AsStrings(from.getEnvironment());
  to.working_directory = AsString(from.getWorkingDirectory());
  to.pid = from.getPid();
  to.start_time_ns = from.getStartTimeNs();
  to.host_cpu = AsString(from.getHostCpu());
  to.required_features = AsStrings(from.getRequiredFeatures());
  to.engine = AsString(from.getEngine());
  to.memory_model = AsString(from.getMemoryModel());
  to.register_layout = AsString(from.getRegisterLayout());
  to.light_keyframe_interval = from.getLightKeyframeInterval();
  to.full_keyframe_interval = from.getFullKeyframeInterval();
  to.auxv = AsWords(from.getAuxv());
  to.state = static_cast<TraceState>(from.getState());
  to.exit_status = from.getExitStatus();
  to.end_reason = AsString(from.getEndReason());
  to.end_sequence = from.getEndSequence();
  to.end_time_ns = from.getEndTimeNs();
  to.parent_pid = from.getParentPid();
  to.parent_directory = AsString(from.getParentDirectory());
  to.parent_thread = from.getParentThread();
  to.parent_count = from.getParentCount();
  to.parent_sequence = from.getParentSequence();
  to.start_kind = AsString(from.getStartKind());
  to.ordered_kernel_events = from.getOrderedKernelEvents();
  to.ordered_instructions = from.getOrderedInstructions();
  to.cpu = AsString(from.getCpu());
  to.schedule = AsString(from.getSchedule());
  to.schedule_seed = from.getScheduleSeed();
  to.ring = AsString(from.getRing());
  if (from.hasTotals()) to.totals = Read(from.getTotals());
  return to;
}

absl::StatusOr<Manifest> ReadManifest(const TraceDirectory& files, ReadBudget* budget) {
  absl::StatusOr<BlockFile> file = BlockFile::Open(files, "manifest");
  const std::string path = files.PathOf("manifest");
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file; not a Hindsight trace"));
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const RawBlock block, file->Read(0));
  if (!block.Is(BlockKind::kManifest)) {
    return BlockError(absl::StatusCode::kInvalidArgument, path, 0, "not a manifest");
  }
  budget->AddStored(block.next_offset);
  if (!budget->Take(block.word_count * sizeof(uint64_t) * kMemoryPerRawByte)) {
    return BlockError(absl::StatusCode::kResourceExhausted, path, 0,
                      "holds more than such a file can");
  }
  Manifest manifest;
  RETURN_IF_ERROR(VisitMessage<wire::Manifest>(path, block, [&](wire::Manifest::Reader message) {
    if (!ListFits(message.getTotals().getThreads().size(), kThreadTotalsWords, block.word_count)) {
      return BlockError(absl::StatusCode::kDataLoss, path, 0, "impossible list of threads");
    }
    manifest = Read(message);
    const bool valid =
        manifest.uuid.size() == kUuidBytes &&
        (manifest.state == TraceState::kRecording || manifest.state == TraceState::kComplete);
    if (valid) return absl::OkStatus();
    return BlockError(absl::StatusCode::kDataLoss, path, 0, "impossible manifest");
  }));
  return manifest;
}

}  // namespace

absl::Status WriteManifest(const OutputDirectory& trace, const Manifest& manifest,
                           BlockEncoder* encoder, LateSync* late,
                           std::atomic<uint64_t>* bytes_written) {
  constexpr char kNext[] = "manifest.tmp";
  ASSIGN_OR_RETURN(const auto file, AppendFile::Create(trace, kNext, bytes_written));
  capnp::MallocMessageBuilder message;
  Build(manifest, message.initRoot<wire::Manifest>());
  absl::Status written = AppendMessage(file.get(), BlockKind::kManifest, encoder, message);
  // Until then a machine that dies after the rename may leave an empty manifest.
  if (written.ok()) written = file->Sync(late);
  if (written.ok()) written = trace.Rename(kNext, "manifest");
  if (!written.ok()) trace.Remove(kNext);
  return written;
}

absl::StatusOr<Manifest> ReadTraceManifest(const TraceDirectory& files, ReadBudget* budget) {
  // The lock is looked at first: a recorder that finishes in between has made the manifest final.
  const bool recording = TraceLockIsHeld(files);
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, budget));
  if (manifest.state == TraceState::kRecording && !recording) {
    manifest.state = TraceState::kInterrupted;
  }
  return manifest;
}

}  // namespace hindsight
