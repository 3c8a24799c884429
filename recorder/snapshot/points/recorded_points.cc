#include "recorder/snapshot/points/recorded_points.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "libhindsight/control.h"

namespace hindsight {

absl::StatusOr<std::unique_ptr<RecordedPoints>> RecordedPoints::Make(
    const PointFilter& filter, absl::Span<const uint8_t> earlier) {
  RETURN_IF_ERROR(FilterFits(filter));
  const auto control = std::make_unique<hs_control>();
  WriteFilter(filter, *control);
  ContinueCounts(earlier, *control);
  control->version = HS_CONTROL_VERSION;
  control->size = sizeof(hs_control);
  control->magic = HS_CONTROL_MAGIC;
  control->recorded = 1;
  control->children = 1;
  control->active = 1;
  UniqueFd fd(memfd_create("hindsight-control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto size = static_cast<ssize_t>(sizeof(hs_control));
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!fd.valid() || write(fd.get(), control.get(), sizeof(hs_control)) != size ||
      fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::ErrnoToStatus(errno, "making the control file");
  }
  return absl::WrapUnique(new RecordedPoints(std::move(fd)));
}

const char* RecordedPoints::variable() { return HS_CONTROL_VARIABLE; }

std::string RecordedPoints::path() const {
  return absl::StrCat("/proc/", getpid(), "/fd/", fd_.get());
}

bool IsRecordedPoint(int64_t number, const uint64_t* arguments) {
  return number == SYS_getpid && arguments[0] == HS_RECORDED_POINT &&
         arguments[2] == sizeof(hs_slot);
}

std::optional<Point> RecordedPointAt(
    uint64_t address, const std::function<bool(uint64_t address, absl::Span<uint8_t> out)>& read) {
  hs_slot slot;
  if (!read(address, absl::MakeSpan(reinterpret_cast<uint8_t*>(&slot), sizeof(slot)))) {
    return std::nullopt;
  }
  return PointOf(slot);
}

}  // namespace hindsight
