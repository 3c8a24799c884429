// What a Target answers from a ProcessView: the questions that a debugger asks about a process at
// rest, of a recording and of a sequence of snapshots alike. What a debugger has changed in a copy
// shows in the registers and the memory that a derived class gives.
//
// Borrows the trace, which must outlive it. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_VIEWED_TARGET_H_
#define HINDSIGHT_SERVER_TARGET_VIEWED_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "keyframes/inspect/process_view.h"
#include "server/target/target.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ViewedTarget : public Target {
 public:
  std::vector<ThreadRef> threads() override;
  std::string ThreadName(ThreadRef thread) override { return view().ThreadName(thread.tid); }
  std::optional<int> ThreadProcessor(ThreadRef thread) override {
    return view().ThreadProcessor(thread.tid);
  }

  RegisterSet register_set() override;
  absl::StatusOr<std::string> ReadRegister(ThreadRef thread, int number) override;
  absl::StatusOr<size_t> ReadMemory(ThreadRef thread, uint64_t address,
                                    absl::Span<uint8_t> out) override;
  std::vector<MemoryRegion> Regions() override;

  absl::StatusOr<std::string> Auxv() override { return view().Auxv(); }
  absl::StatusOr<std::string> SigInfo(ThreadRef thread) override;
  std::string ExecutablePath() override { return view().ExecutablePath(); }
  absl::StatusOr<std::vector<Library>> Libraries(uint64_t* main_link_map) override;
  absl::StatusOr<std::string> ReadLink(const std::string& path) override;
  absl::StatusOr<std::string> FileContents(const std::string& path) override;
  absl::StatusOr<uint64_t> TlsAddress(ThreadRef thread, uint64_t offset,
                                      uint64_t link_map) override;

 protected:
  explicit ViewedTarget(const TraceReader* trace) : trace_(trace) {}

  const TraceReader& trace() const { return *trace_; }
  ThreadRef Ref(int32_t thread) const;
  // kNotFound: it is not alive here.
  absl::Status CheckThread(ThreadRef thread);
  // False unless all of it is known, as `thread` sees it.
  bool ReadAll(ThreadRef thread, uint64_t address, absl::Span<uint8_t> out);
  // The list of the dynamic linker, in memory as the current thread sees it. A function called by a
  // debugger may have loaded libraries.
  LinkMap LinkedHere();

 private:
  // As recorded. What follows is as recorded, or of the copy where that has its own.
  virtual ProcessView& view() = 0;
  // Valid until the next call of any function. Requires of these three: `thread` is alive.
  virtual absl::StatusOr<const RegisterFile*> RegistersOf(int32_t thread) = 0;
  virtual int64_t SyscallNumberOf(int32_t thread) = 0;
  virtual absl::StatusOr<size_t> ReadMemoryOf(int32_t thread, uint64_t address,
                                              absl::Span<uint8_t> out) = 0;

  const TraceReader* trace_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_VIEWED_TARGET_H_
