// Converts between the register file and the host's own structures: ptrace's, of which
// user_fpregs_struct is also the memory image of FXSAVE64; and XSAVE's image, which
// PTRACE_GETREGSET returns for NT_X86_XSTATE, with components at the offsets given by CPUID leaf
// 0xd.

#ifndef HINDSIGHT_ISA_HOST_REGISTERS_H_
#define HINDSIGHT_ISA_HOST_REGISTERS_H_

#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "isa/registers.h"

namespace hindsight {

// The flags that belong to debugging, not to the program: the trap flag that single-stepping sets,
// and the resume flag that a fault leaves in the frame the kernel sees.
inline constexpr uint64_t kTrapFlag = 0x100;
inline constexpr uint64_t kResumeFlag = 0x10000;

void GeneralToRegisters(const user_regs_struct& general, RegisterFile* registers);
void VectorsToRegisters(const user_fpregs_struct& vectors, RegisterFile* registers);
// Leave what the register file does not have unchanged, except for orig_rax: it becomes -1, so that
// the kernel does not take the registers for those of an interrupted system call.
void RegistersToGeneral(const RegisterFile& registers, user_regs_struct* general);
void RegistersToVectors(const RegisterFile& registers, user_fpregs_struct* vectors);

// The size of XSAVE's image in standard format, with all components the kernel has enabled; 0 on a
// host without XSAVE, where ptrace has only user_fpregs_struct.
size_t XstateBytes();
// Where the image has ymm_high, zmm_high, zmm16 and k of the register file, which have as many
// bytes there; 0: not on this host.
std::array<uint32_t, 4> XstateOffsets();
// All vector and x87 registers, from the image. Components in their initial state, or that the host
// does not have, get their initial values. False, with nothing changed, if `image` is too short.
bool XstateToRegisters(absl::Span<const uint8_t> image, RegisterFile* registers);
// Stores them there and marks their components as present; leaves the components that the register
// file does not have unchanged. Extended registers that the host does not have are omitted.
// Requires: `image` has been filled by the kernel or XSAVE, or is zero.
void RegistersToXstate(const RegisterFile& registers, absl::Span<uint8_t> image);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_HOST_REGISTERS_H_
