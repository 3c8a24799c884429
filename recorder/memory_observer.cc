#include "recorder/memory_observer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// Of memory that nobody has touched so many pages of a region are looked at.
constexpr uint64_t kUntouchedPages = 6;

// Libraries do not change; the rest of such names the kernel changes whenever it likes.
bool IsOfInterest(const MapRegion& region) {
  const bool library =
      region.inode != 0 && (region.protection & PROT_WRITE) == 0 &&
      (absl::StartsWith(region.name, "/lib") || absl::StartsWith(region.name, "/usr"));
  return !library && region.name != "[vvar]" && region.name != "[vvar_vclock]" &&
         region.name != "[vsyscall]" && region.name != "[vdso]";
}

}  // namespace

MemoryObserver::MemoryObserver(const std::string& requests, const std::string& answers) {
  CHECK(mkfifo(requests.c_str(), 0600) == 0 && mkfifo(answers.c_str(), 0600) == 0);
  requests_ = open(requests.c_str(), O_RDWR | O_CLOEXEC);
  answers_ = open(answers.c_str(), O_RDWR | O_CLOEXEC);
  CHECK(requests_ >= 0 && answers_ >= 0);
}

MemoryObserver::~MemoryObserver() {
  close(requests_);
  close(answers_);
}

void MemoryObserver::Observe() {
  while (!stop_) {
    pollfd polled = {requests_, POLLIN, 0};
    if (poll(&polled, 1, 20) <= 0) continue;
    Request request;
    CHECK(read(requests_, &request, sizeof(request)) == sizeof(request));
    AwaitQuiet(request);
    LookAt(request);
    CHECK(write(answers_, "", 1) == 1);
  }
}

// Until the thread is in the kernel, where it waits for the answer.
void MemoryObserver::AwaitQuiet(const Request& request) const {
  const std::string path =
      absl::StrCat("/proc/", request.process, "/task/", request.thread, "/syscall");
  const std::string wanted = absl::StrFormat("0 %#x ", request.answers);
  std::string line;
  while (!stop_ && !absl::StartsWith(line, wanted)) {
    usleep(20);
    std::ifstream file(path);
    std::getline(file, line);
  }
}

void MemoryObserver::LookAt(const Request& request) {
  const std::string process = absl::StrCat("/proc/", request.process);
  Look look{.request = request, .ordinal = ordinals_[request.process]++};
  look.map = MemoryMap::OfProcess(process + "/maps");
  const UniqueFd memory(open((process + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd pagemap(open((process + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  for (const MapRegion& region : look.map.regions()) {
    if (IsOfInterest(region)) LookAtRegion(region, memory.get(), pagemap.get(), &look);
  }
  looks_.push_back(std::move(look));
}

void MemoryObserver::LookAtRegion(const MapRegion& region, int memory, int pagemap, Look* look) {
  constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;
  const uint64_t pages = (region.end - region.start) / kPageBytes;
  std::vector<uint64_t> entries(std::min<uint64_t>(pages, 1 << 16));
  const ssize_t got = pread(pagemap, entries.data(), entries.size() * sizeof(uint64_t),
                            static_cast<off_t>(region.start / kPageBytes * sizeof(uint64_t)));
  CHECK(got == static_cast<ssize_t>(entries.size() * sizeof(uint64_t)));
  uint64_t untouched = 0;
  for (uint64_t i = 0; i < entries.size(); ++i) {
    const uint64_t page = region.start + i * kPageBytes;
    Bytes bytes = {};
    const bool anonymous = region.inode == 0;
    if (anonymous && (entries[i] & kPresentOrSwapped) == 0) {
      // The kernel says that the page is not there yet. Reading it would make it be.
      if (untouched++ < kUntouchedPages) look->pages[page] = Keep(bytes);
    } else if (pread(memory, bytes.data(), kPageBytes, static_cast<off_t>(page)) == kPageBytes) {
      look->pages[page] = Keep(bytes);
    } else {
      look->faulting.insert(page);
    }
  }
}

}  // namespace hindsight
