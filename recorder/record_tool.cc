// Records a program and verifies the traces of all its processes: for work on the recorder alone.
//
//   record_tool DIRECTORY PROGRAM ARGUMENTS...

#include <sys/wait.h>

#include <cstdio>

#include "keyframes/verify/verify.h"
#include "recorder/record.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

int VerifyAll(const std::string& directory) {
  auto processes = ListProcesses(directory, nullptr);
  if (!processes.ok()) {
    std::fprintf(stderr, "%s\n", processes.status().ToString().c_str());
    return 1;
  }
  int failed = 0;
  for (const ProcessInfo& process : *processes) {
    auto trace = TraceReader::Open(process.files);
    if (!trace.ok() || (*trace)->threads().empty()) {
      std::fprintf(stderr, "%s: %s\n", process.directory.c_str(),
                   trace.ok() ? "empty" : trace.status().ToString().c_str());
      continue;
    }
    auto result = Verify(**trace);
    const absl::Status status = result.ok() ? result->difference : result.status();
    std::fprintf(stderr, "%d %s: %zu threads, %llu states: %s\n", process.manifest.pid,
                 process.manifest.program.c_str(), (*trace)->threads().size(),
                 result.ok() ? static_cast<unsigned long long>(result->states) : 0,
                 status.ToString().c_str());
    if (!status.ok()) ++failed;
  }
  return failed;
}

int Main(int argc, char** argv) {
  if (argc < 3) return 2;
  RecordOptions options;
  options.directory = argv[1];
  options.arguments.assign(argv + 2, argv + argc);
  const auto result = RecordProgram(options);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 125;
  }
  std::fflush(stdout);
  std::fprintf(
      stderr, "status %d, %llu instructions, %llu events, %.2f s %s\n",
      WEXITSTATUS(result->wait_status), static_cast<unsigned long long>(result->instructions),
      static_cast<unsigned long long>(result->events), result->seconds, result->end_reason.c_str());
  return VerifyAll(options.directory);
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) { return hindsight::Main(argc, argv); }
