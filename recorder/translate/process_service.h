// Answers the requests of one process's agent: above all, translates.
//
// Owns the memory file and all that was translated. One host thread, but for RequestStop.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_PROCESS_SERVICE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_PROCESS_SERVICE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/unique_fd.h"
#include "recorder/ptrace/exec_hold.h"
#include "recorder/translate/asking_child.h"
#include "recorder/translate/memory_file.h"
#include "recorder/translate/program_code.h"

namespace hindsight {

struct ServiceCounts {
  uint64_t instructions = 0;  // of threads that have ended by themselves
  uint64_t requests = 0, blocks = 0, code_bytes = 0;
};

class ProcessService {
 public:
  // Told of the service for a child process, which is to be run as well.
  using OnChild = std::function<void(std::unique_ptr<ProcessService>)>;

  ProcessService(pid_t process, MemoryFile file, const TranslationOptions& options,
                 OnChild on_child);
  ProcessService(const ProcessService&) = delete;
  ProcessService& operator=(const ProcessService&) = delete;

  // Memory is not exclusive from the beginning if the program lets others store to it anyway.
  void ShareMemoryIfUsual();
  // Until the process has ended or executes another program, or RequestStop.
  void Run();
  void RequestStop();

  pid_t process() const { return process_; }
  const ControlBlock& control() const { return *file_->control(); }
  const std::shared_ptr<MemoryFile>& file() const { return file_; }
  const ServiceCounts& counts() const { return counts_; }

 private:
  bool IsAsked() const;
  bool HasWork();
  void FreeSlotsOfTheDead();
  void Sleep();
  bool HasEnded() const;
  void AnswerAll();
  void Answer(RequestSlot* slot);
  void Translate(RequestSlot* slot);
  void Recover(RequestSlot* slot) const;
  void ReadMap(uint64_t start, uint64_t end, uint64_t* results) const;
  void AnswerCpuidFor(RequestSlot* slot) const;
  TranslationOptions OptionsOfOthers() const;
  void Fork(RequestSlot* slot);
  uint64_t Serve(RecordedBirth birth, int fd, bool same_code);
  uint64_t ShareWith(RecordedBirth birth);
  bool HoldForExec(pid_t thread, bool release);
  void ExpectForeignStores();
  void AnnounceTracing(pid_t task);
  void PollExecs();
  bool PollExec(ExecHold* exec);
  bool HasChildrenToCome() const;
  void StartNewProgram(pid_t process);

  const pid_t process_;
  const TranslationOptions options_;
  const OnChild on_child_;
  const UniqueFd pidfd_;
  const std::shared_ptr<MemoryFile> file_;
  ProgramCode code_;
  const std::shared_ptr<AskedCode> asked_;   // by children
  std::shared_ptr<AskedCode> makers_asked_;  // of who has made this process; null: nobody's
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<ExecHold>> execs_;  // threads that execute programs
  bool left_ = false;                             // the process has executed a program
  std::atomic<bool> stop_ = false;
  uint32_t seen_doorbell_ = 0;
  uint32_t sleeps_ = 0;       // since it last answered
  bool has_answered_ = true;  // since it last waited for a request without sleeping
  ServiceCounts counts_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_PROCESS_SERVICE_H_
