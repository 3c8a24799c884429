// The modules of a trace being read.
//
// Any number of threads may use it at once. Bytes handed out live as long as it does.

#ifndef HINDSIGHT_TRACEFMT_MODULES_MODULE_FILES_H_
#define HINDSIGHT_TRACEFMT_MODULES_MODULE_FILES_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {

class ModuleFiles {
 public:
  // Of the trace in `files`. Bytes that are not in its modules/ are looked for in that of the
  // recording that the trace is part of.
  explicit ModuleFiles(TraceDirectory files) : files_(std::move(files)) {}
  ~ModuleFiles();
  ModuleFiles(const ModuleFiles&) = delete;
  ModuleFiles& operator=(const ModuleFiles&) = delete;

  // Reads modules/list; called once, before everything below. What is damaged there is reported in
  // `warnings`; modules listed before it are usable. A missing list is an empty one.
  // `budget`, for the list, is borrowed.
  void Read(ReadBudget* budget, std::vector<std::string>* warnings);
  // Stored modules whose files are not there are not listed. Before others use this.
  void LeaveOutMissing();

  const ModuleList& modules() const { return modules_; }
  // Above the index of every module that was ever listed.
  size_t end_index() const { return static_cast<size_t>(next_); }
  // What the list ended in; kOutOfRange where the file just ends.
  const absl::Status& list_status() const { return list_status_; }

  // See TraceReader::ModuleBytes. kDataLoss if the file is not what the recorder stored.
  absl::StatusOr<absl::Span<const uint8_t>> Bytes(int32_t module) const;

  // Fills `out` with the bytes at `offset`, zeros where the file has none.
  absl::Status Read(int32_t module, uint64_t offset, absl::Span<uint8_t> out) const;

 private:
  absl::Status ReadList(ReadBudget* budget);
  absl::Status ReadBlock(const std::string& path, const RawBlock& block, ReadBudget* budget);
  // `path`: of the file, or where it should be.
  absl::StatusOr<UniqueFd> OpenFile(const Module& module, std::string* path) const;
  absl::StatusOr<absl::Span<const uint8_t>> Map(const Module& module) const;

  const TraceDirectory files_;
  ModuleList modules_;
  int64_t next_ = 0;  // index
  absl::Status list_status_;
  mutable std::mutex mutex_;
  // By hash: however often a file is listed, it is mapped once. Guarded by mutex_.
  mutable absl::flat_hash_map<std::string, absl::Span<const uint8_t>> maps_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MODULES_MODULE_FILES_H_
