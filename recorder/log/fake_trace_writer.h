// A TraceWriter for tests that keeps what it is given.

#ifndef HINDSIGHT_RECORDER_LOG_FAKE_TRACE_WRITER_H_
#define HINDSIGHT_RECORDER_LOG_FAKE_TRACE_WRITER_H_

#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/modules/module_contents.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class FakeTraceWriter final : public TraceWriter {
 public:
  absl::StatusOr<int32_t> AddModule(const std::string& path, int fd, uint64_t max_bytes) override {
    modules.push_back(path);
    contents.push_back(ReadFile(fd >= 0 ? absl::StrCat("/proc/self/fd/", fd) : path));
    return static_cast<int32_t>(modules.size() - 1);
  }
  std::shared_ptr<const ModuleContents> ContentsOf(int32_t module) const override {
    return contents.at(static_cast<size_t>(module));
  }
  absl::Status ReleaseModules(absl::Span<const int32_t> gone) override {
    released.insert(released.end(), gone.begin(), gone.end());
    return absl::OkStatus();
  }
  bool has_ring() const override { return ring; }
  SegmentWriter* Segments(int32_t thread) override {
    std::unique_ptr<FakeSegmentWriter>& writer = writers_[thread];
    if (writer == nullptr) writer = std::make_unique<FakeSegmentWriter>(thread, this);
    return writer.get();
  }
  absl::Status AppendEvent(ProcessEvent event) override {
    if (error.ok()) events.push_back(std::move(event));
    return error;
  }
  absl::Status BeginFullKeyframe(uint64_t number, uint64_t sequence,
                                 const std::vector<ThreadState>& threads,
                                 const std::vector<MapRegion>& maps,
                                 absl::Span<const uint64_t> auxv) override {
    return absl::OkStatus();
  }
  absl::Status AddPage(uint64_t address, absl::Span<const uint8_t> bytes) override {
    pages.push_back(address);
    return absl::OkStatus();
  }
  absl::Status AddModulePage(uint64_t address, int32_t module, uint64_t offset) override {
    module_pages.push_back(address);
    return absl::OkStatus();
  }
  absl::Status DeclareComplete(const std::vector<std::pair<uint64_t, uint64_t>>& ranges) override {
    unseen = ranges;
    return absl::OkStatus();
  }
  absl::Status AddKernelState(const KernelState& state) override { return absl::OkStatus(); }
  absl::Status FinishFullKeyframe() override { return absl::OkStatus(); }
  absl::Status AwaitFullKeyframe() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<TraceWriter>> CreateChild(const Manifest& manifest) override {
    auto child = std::make_unique<FakeTraceWriter>();
    children.push_back(child.get());
    return child;
  }
  absl::Status Flush() override {
    ++flushes;
    return status;
  }
  absl::Status Finish(const Manifest& manifest) override {
    finished = manifest;
    return status;
  }
  uint64_t bytes_written() const override { return bytes; }

  // The page imports among the records.
  std::vector<PageImport> Imports() const {
    std::vector<PageImport> imports;
    for (const Record& record : records) {
      if (const auto* page = std::get_if<PageImport>(&record.body)) imports.push_back(*page);
    }
    return imports;
  }

  // What BeginSegment was called with.
  struct BegunSegment {
    int32_t thread = 0;
    uint64_t number = 0, count = 0, sequence = 0;
  };

  absl::Status error;  // what refuses events, records and segments from now on
  bool ring = false;
  std::vector<std::string> modules;
  std::vector<std::shared_ptr<const ModuleContents>> contents;  // of each
  std::vector<int32_t> released;                                // of these
  std::vector<BegunSegment> segments;
  std::vector<Record> records;
  std::list<std::vector<uint8_t>> lines;
  std::vector<ProcessEvent> events;
  std::vector<uint64_t> pages, module_pages;
  std::vector<FakeTraceWriter*> children;
  bool large = false;  // segments
  int flushes = 0;
  std::optional<Manifest> finished;
  uint64_t bytes = 0;                                 // what bytes_written returns
  absl::Status status;                                // what Flush and Finish return
  std::vector<std::pair<uint64_t, uint64_t>> unseen;  // given to DeclareComplete

 private:
  static std::shared_ptr<const ModuleContents> ReadFile(const std::string& path) {
    std::ifstream file(path);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    auto contents = std::make_shared<ModuleContents>();
    contents->AddPages({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    return contents;
  }

  class FakeSegmentWriter final : public SegmentWriter {
   public:
    FakeSegmentWriter(int32_t thread, FakeTraceWriter* trace) : thread_(thread), trace_(trace) {}
    absl::Status Begin(uint64_t number, uint64_t count, uint64_t sequence,
                       const RegisterWords& registers) override {
      if (trace_->error.ok()) trace_->segments.push_back({thread_, number, count, sequence});
      return trace_->error;
    }
    absl::Status Append(const Record& record) override {
      if (!trace_->error.ok()) return trace_->error;
      trace_->records.push_back(record);
      if (auto* page = std::get_if<PageImport>(&trace_->records.back().body)) {
        trace_->lines.emplace_back(page->lines.begin(), page->lines.end());
        page->lines = trace_->lines.back();
      }
      return absl::OkStatus();
    }
    bool IsLarge() const override { return trace_->large; }

   private:
    const int32_t thread_;
    FakeTraceWriter* const trace_;
  };

  std::map<int32_t, std::unique_ptr<FakeSegmentWriter>> writers_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_FAKE_TRACE_WRITER_H_
