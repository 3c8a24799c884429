// A thread's registers as Linux core files for x86-64 have them.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_CORE_REGISTERS_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_CORE_REGISTERS_H_

#include <sys/user.h>

#include <cstdint>
#include <string>
#include <vector>

#include "isa/registers.h"

namespace hindsight {

// Of NT_PRSTATUS.
user_regs_struct CoreGeneral(const RegisterFile& registers, int64_t orig_rax);
// NT_FPREGSET: FXSAVE's image.
user_fpregs_struct CoreVectors(const RegisterFile& registers);

// NT_X86_XSTATE: XSAVE's image in standard format, with the mask of its components in the bytes
// that are reserved for software, as the kernel does. Components have the places of Intel's
// processors, which every debugger knows; AMD's differ, and older gdbs read those wrongly.
// `extended`: with what only AVX and AVX-512 have, else without.
std::string CoreXstate(const RegisterFile& registers, bool extended);

// NT_X86_XSAVE_LAYOUT (Linux 6.12): type, size, offset and flags of each component of that image.
std::vector<uint32_t> CoreXstateLayout(bool extended);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_CORE_REGISTERS_H_
