#include "recorder/record.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "emulator/registers.h"
#include "recorder/process_facts.h"
#include "recorder/program_lookup.h"
#include "recorder/recording.h"
#include "recorder/tracee.h"
#include "tracefmt/manifest.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

Manifest Describe(const RecordOptions& options, const ExecCommand& command, pid_t pid) {
  using std::chrono::system_clock;
  Manifest manifest;
  manifest.program = ExecutablePath(pid);
  manifest.arguments = command.arguments;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    manifest.environment.push_back(*variable);
  }
  char directory[PATH_MAX];
  if (getcwd(directory, sizeof(directory)) != nullptr) manifest.working_directory = directory;
  manifest.pid = pid;
  manifest.start_time_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch())
          .count();
  manifest.host_cpu = CpuBrand();
  manifest.engine = "emulate";
  manifest.start_kind = "launch";
  manifest.memory_model = options.memory_model;
  manifest.register_layout = kRegisterLayout;
  manifest.light_keyframe_interval = options.light_keyframe_interval;
  manifest.full_keyframe_interval = options.full_keyframe_interval;
  manifest.auxv = AuxiliaryVector(pid);
  return manifest;
}

absl::StatusOr<MemoryModel> ModelNamed(absl::string_view name) {
  if (name == "kernel") return MemoryModel::kKernel;
  if (name == "fence") return MemoryModel::kFence;
  if (name == "acqrel") return MemoryModel::kAcqRel;
  if (name == "load") return MemoryModel::kLoad;
  return absl::InvalidArgumentError(
      absl::StrCat("no memory model '", name, "' (there are kernel, fence, acqrel and load)"));
}

}  // namespace

absl::StatusOr<RecordResult> RecordProgram(const RecordOptions& options) {
  if (options.arguments.empty()) return absl::InvalidArgumentError("no program given");
  if (options.quantum == 0) return absl::InvalidArgumentError("the quantum must not be 0");
  ASSIGN_OR_RETURN(const MemoryModel model, ModelNamed(options.memory_model));
  ASSIGN_OR_RETURN(const ExecCommand command, LookUpProgram(options.arguments));
  ASSIGN_OR_RETURN(std::unique_ptr<Tracee> tracee, Tracee::Launch(command));
  if (!tracee->Is64Bit()) {
    return absl::InvalidArgumentError(command.path + ": is not run by an x86-64 program");
  }
  Manifest manifest = Describe(options, command, tracee->process());
  ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer,
                   TraceWriter::Create(options.directory, manifest));
  tracee->Disown();
  Recording recording(options, model);
  RETURN_IF_ERROR(recording.AddRoot(std::move(writer), std::move(manifest), std::move(tracee)));
  return recording.Run();
}

}  // namespace hindsight
