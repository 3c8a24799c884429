// Where the pages of a Cpu's view come from.

#ifndef HINDSIGHT_EMULATOR_CPU_PAGER_H_
#define HINDSIGHT_EMULATOR_CPU_PAGER_H_

#include <cstdint>

namespace hindsight {

enum class Access : uint8_t { kRead, kWrite, kExecute };

// Answers the Cpu's page faults. Called during Run, Step and the reading of code, on that thread.
// `page` is a multiple of kPageBytes.
class Pager {
 public:
  virtual ~Pager() = default;
  // The view does not hold `page`. Put its contents there (Cpu::HostPage, Cpu::SetRights) and
  // return true, or return false: Run stops with kFault.
  virtual bool OnMissing(uint64_t page, Access access) = 0;
  // First write to `page` since it became kRead. Return true to make it kReadWrite; its contents
  // are still the old ones. False: kFault.
  virtual bool OnFirstWrite(uint64_t page) = 0;
  // False: an instruction fetched from `page`, which is held, faults.
  virtual bool MayExecute(uint64_t page) { return true; }
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_PAGER_H_
