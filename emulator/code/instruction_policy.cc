#include "emulator/code/instruction_policy.h"

#include "emulator/assist/instruction_executor.h"
#include "emulator/assist/software_assist.h"

namespace hindsight {
namespace {

// The instruction-set extensions Unicorn runs at all, in legacy encoding. Anything newer is run on
// the host, so an extension this list does not know is slow but never wrong.
bool IsKnownExtension(ZydisISASet set) {
  switch (set) {
    case ZYDIS_ISA_SET_ADOX_ADCX:
    case ZYDIS_ISA_SET_AES:
    case ZYDIS_ISA_SET_BMI1:  // tzcnt; the others are VEX
    case ZYDIS_ISA_SET_CLFSH:
    case ZYDIS_ISA_SET_CMOV:
    case ZYDIS_ISA_SET_CMPXCHG16B:
    case ZYDIS_ISA_SET_FAT_NOP:
    case ZYDIS_ISA_SET_FCMOV:
    case ZYDIS_ISA_SET_I186:
    case ZYDIS_ISA_SET_I386:
    case ZYDIS_ISA_SET_I486:
    case ZYDIS_ISA_SET_I486REAL:
    case ZYDIS_ISA_SET_I86:
    case ZYDIS_ISA_SET_LAHF:
    case ZYDIS_ISA_SET_LONGMODE:
    case ZYDIS_ISA_SET_LZCNT:
    case ZYDIS_ISA_SET_PAUSE:
    case ZYDIS_ISA_SET_PENTIUMREAL:  // cmpxchg8b
    case ZYDIS_ISA_SET_PPRO:         // fcomi, fucomi
    case ZYDIS_ISA_SET_PREFETCH_NOP:
    case ZYDIS_ISA_SET_SSE:
    case ZYDIS_ISA_SET_SSE2:
    case ZYDIS_ISA_SET_SSE3:
    case ZYDIS_ISA_SET_SSE3X87:
    case ZYDIS_ISA_SET_SSE4:
    case ZYDIS_ISA_SET_SSE42:
    case ZYDIS_ISA_SET_SSE_PREFETCH:
    case ZYDIS_ISA_SET_SSSE3:
    case ZYDIS_ISA_SET_X87:
      return true;
    default:
      return false;
  }
}

bool IsPrivileged(const ZydisDecodedInstruction& instruction) {
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_SYSRET:
      return true;
    default:
      break;
  }
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_CLI:
    case ZYDIS_MNEMONIC_STI:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
      return true;
    default:
      return (instruction.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) != 0;
  }
}

bool IsNondeterministic(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_RDPID:
    case ZYDIS_MNEMONIC_RDPMC:
    case ZYDIS_MNEMONIC_RDPRU:
      return true;
    default:
      return false;
  }
}

// Unicorn runs in ring 0 without descriptor tables: whatever shows or changes them, the selectors
// or the flags only ring 0 may change differs.
bool ShowsSystemState(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_SGDT:
    case ZYDIS_MNEMONIC_SIDT:
    case ZYDIS_MNEMONIC_SLDT:
    case ZYDIS_MNEMONIC_STR:
    case ZYDIS_MNEMONIC_SMSW:
    case ZYDIS_MNEMONIC_LAR:
    case ZYDIS_MNEMONIC_LSL:
    case ZYDIS_MNEMONIC_VERR:
    case ZYDIS_MNEMONIC_VERW:
    case ZYDIS_MNEMONIC_LFS:
    case ZYDIS_MNEMONIC_LGS:
    case ZYDIS_MNEMONIC_LSS:
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_ENTER:  // faults if the frame is not writable; Unicorn does not probe it
      return true;
    default:
      return false;
  }
}

// What stays with the process though it may be assistable by its operands.
bool IsTheProcesss(const ZydisDecodedInstruction& instruction) {
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_PAUSE:  // with REX.B the hardware exchanges rax and r8, which Zydis
                                // overlooks
      return instruction.raw.rex.B != 0;
    case ZYDIS_MNEMONIC_XGETBV:         // shows what the kernel has switched on
    case ZYDIS_MNEMONIC_VP2INTERSECTD:  // write a pair of which only one is named
    case ZYDIS_MNEMONIC_VP2INTERSECTQ:
      return true;
    default:
      return false;
  }
}

// Unicorn's MXCSR and x87 status word lack the accrued exception flags, and it computes x87's
// transcendental functions in double precision.
bool DiffersInX87OrMxcsr(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FLDCW:  // and we must know what it sets: float_control.h
    case ZYDIS_MNEMONIC_FLDENV:
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FRSTOR:
    case ZYDIS_MNEMONIC_FNINIT:
    case ZYDIS_MNEMONIC_F2XM1:
    case ZYDIS_MNEMONIC_FSIN:
    case ZYDIS_MNEMONIC_FCOS:
    case ZYDIS_MNEMONIC_FSINCOS:
    case ZYDIS_MNEMONIC_FPTAN:
    case ZYDIS_MNEMONIC_FPATAN:
    case ZYDIS_MNEMONIC_FYL2X:
    case ZYDIS_MNEMONIC_FYL2XP1:
    case ZYDIS_MNEMONIC_FLDPI:
    case ZYDIS_MNEMONIC_FLDL2E:
    case ZYDIS_MNEMONIC_FLDL2T:
    case ZYDIS_MNEMONIC_FLDLG2:
    case ZYDIS_MNEMONIC_FLDLN2:
    case ZYDIS_MNEMONIC_FBLD:
    case ZYDIS_MNEMONIC_FBSTP:
    case ZYDIS_MNEMONIC_FINCSTP:
    case ZYDIS_MNEMONIC_FDECSTP:
    case ZYDIS_MNEMONIC_FSTPNCE:
    case ZYDIS_MNEMONIC_FISTTP:  // saturates where the hardware gives the integer indefinite
    case ZYDIS_MNEMONIC_FPREM:
    case ZYDIS_MNEMONIC_FPREM1:
    case ZYDIS_MNEMONIC_FSCALE:
    case ZYDIS_MNEMONIC_FXTRACT:
      return true;
    default:
      return false;
  }
}

// Other instructions whose every form is computed differently or not at all.
bool DiffersAlways(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_RCPPS:  // approximations: the vendor's own bits
    case ZYDIS_MNEMONIC_RCPSS:
    case ZYDIS_MNEMONIC_RSQRTPS:
    case ZYDIS_MNEMONIC_RSQRTSS:
    case ZYDIS_MNEMONIC_DPPS:  // other order of additions, other sign of zero
    case ZYDIS_MNEMONIC_DPPD:
    case ZYDIS_MNEMONIC_PCMPESTRI:  // a length of INT_MIN crashes Unicorn
    case ZYDIS_MNEMONIC_PCMPESTRM:
    case ZYDIS_MNEMONIC_CVTPI2PD:  // MMX state is touched even if the operand is memory
    case ZYDIS_MNEMONIC_CVTPI2PS:
      return true;
    default:
      return false;
  }
}

bool UsesRegisterOf(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
                    ZydisRegisterClass kind) {
  for (int i = 0; i < instruction.operand_count_visible; ++i) {
    if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ZydisRegisterGetClass(operands[i].reg.value) == kind) {
      return true;
    }
  }
  return false;
}

// MMX: Unicorn leaves the exponent words alone that the hardware fills with ones.
bool UsesMmx(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  return instruction.mnemonic == ZYDIS_MNEMONIC_EMMS ||
         UsesRegisterOf(instruction, operands, ZYDIS_REGCLASS_MMX);
}

bool HasEqualRegisters(const ZydisDecodedInstruction& instruction,
                       const ZydisDecodedOperand* operands) {
  return instruction.operand_count_visible >= 2 &&
         operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
         operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
         operands[0].reg.value == operands[1].reg.value;
}

uint64_t LastImmediate(const ZydisDecodedInstruction& instruction,
                       const ZydisDecodedOperand* operands) {
  const int last = instruction.operand_count_visible - 1;
  if (last < 0 || operands[last].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return 0;
  return operands[last].imm.value.u;
}

// A branch with an operand-size prefix: vendors disagree about what it does.
bool IsOddBranch(const ZydisDecodedInstruction& instruction) {
  if (instruction.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return true;
  const bool branch = instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE ||
                      instruction.meta.category == ZYDIS_CATEGORY_RET;
  return branch && (instruction.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) != 0 &&
         instruction.raw.rex.W == 0;
}

bool IsSegmentPrefix(uint8_t prefix) {
  switch (prefix) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
      return true;
    default:
      return false;
  }
}

// Prefixes that Unicorn reads differently from the hardware, and Zydis as the hardware does: a REX
// counts only directly before the opcode; F2 and F3, of which the last one counts, are mandatory
// prefixes before 66 is; of segments FS and GS count. Compilers, assemblers and linkers write none
// of these, but repeat 66, and put CS before a nop.
bool HasOddPrefixes(const ZydisDecodedInstruction& instruction) {
  uint8_t repeat = 0, segment = 0;
  bool operand_size = false, mandatory = false;
  for (int i = 0; i < instruction.raw.prefix_count; ++i) {
    const auto& prefix = instruction.raw.prefixes[i];
    if (prefix.value == 0x66) {
      operand_size = true;
    } else if (prefix.value == 0xf2 || prefix.value == 0xf3) {
      if (repeat != 0) return true;
      repeat = prefix.value;
      mandatory = prefix.type == ZYDIS_PREFIX_TYPE_MANDATORY;
    } else if (IsSegmentPrefix(prefix.value)) {
      if (segment != 0 && segment != prefix.value) return true;
      segment = prefix.value;
    } else if ((prefix.value & 0xf0) == 0x40 && i + 1 != instruction.raw.prefix_count) {
      return true;
    }
  }
  // Zydis calls the F2 or F3 of a string instruction mandatory as well.
  return operand_size && mandatory && instruction.meta.category != ZYDIS_CATEGORY_STRINGOP;
}

bool IsFromRipWithImmediate(const ZydisDecodedInstruction& instruction,
                            const ZydisDecodedOperand* operands) {
  return operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
         (operands[0].mem.base == ZYDIS_REGISTER_RIP ||
          operands[0].mem.base == ZYDIS_REGISTER_EIP) &&
         instruction.raw.imm[0].size != 0;
}

bool HasRepeatPrefix(const ZydisDecodedInstruction& instruction) {
  for (int i = 0; i < instruction.raw.prefix_count; ++i) {
    const uint8_t prefix = instruction.raw.prefixes[i].value;
    if (prefix == 0xf2 || prefix == 0xf3) return true;
  }
  return false;
}

// Single forms of instructions that are otherwise right.
bool DiffersInThisForm(const ZydisDecodedInstruction& instruction,
                       const ZydisDecodedOperand* operands) {
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_BSWAP:  // 16 bits: undefined, but the hardware gives zero
      return instruction.operand_width == 16;
    case ZYDIS_MNEMONIC_SHLD:  // 16 bits: undefined for counts above 16
    case ZYDIS_MNEMONIC_SHRD:  // relative to rip, Unicorn forgets the immediate
      return instruction.operand_width == 16 || IsFromRipWithImmediate(instruction, operands);
    case ZYDIS_MNEMONIC_CVTPS2PD:  // Unicorn reads 16 bytes for an operand of 8
    case ZYDIS_MNEMONIC_CVTDQ2PD:
      return operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY;
    case ZYDIS_MNEMONIC_CMPXCHG:  // the upper half of the register is kept, Unicorn clears it
      return instruction.operand_width == 32 && operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER;
    case ZYDIS_MNEMONIC_CMPPS:  // Unicorn rejects the reserved predicates
    case ZYDIS_MNEMONIC_CMPPD:
    case ZYDIS_MNEMONIC_CMPSS:
    case ZYDIS_MNEMONIC_CMPSD:
      return LastImmediate(instruction, operands) > 7;
    case ZYDIS_MNEMONIC_PCMPISTRI:  // "equal ordered", the search for a substring
    case ZYDIS_MNEMONIC_PCMPISTRM:
      return (LastImmediate(instruction, operands) & 0xc) == 0xc;
    case ZYDIS_MNEMONIC_PHADDW:  // Unicorn overwrites the source while reading it
    case ZYDIS_MNEMONIC_PHADDD:
    case ZYDIS_MNEMONIC_PHADDSW:
    case ZYDIS_MNEMONIC_PHSUBW:
    case ZYDIS_MNEMONIC_PHSUBD:
    case ZYDIS_MNEMONIC_PHSUBSW:
      return HasEqualRegisters(instruction, operands);
    case ZYDIS_MNEMONIC_LAHF:  // with a REX prefix Unicorn takes SPL for AH
    case ZYDIS_MNEMONIC_SAHF:
      return (instruction.attributes & ZYDIS_ATTRIB_HAS_REX) != 0;
    case ZYDIS_MNEMONIC_TEST:  // F6 /1 and F7 /1, aliases Unicorn does not know
      return (instruction.opcode & 0xfe) == 0xf6 && instruction.raw.modrm.reg == 1;
    case ZYDIS_MNEMONIC_RET:  // Unicorn extends the sign of what is to be popped
      return LastImmediate(instruction, operands) > 0x7fff;
    case ZYDIS_MNEMONIC_NEG:  // its flags are wrong
      return (instruction.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0;
    case ZYDIS_MNEMONIC_LOOPE:  // F2 and F3 mean nothing here
    case ZYDIS_MNEMONIC_LOOPNE:
      return HasRepeatPrefix(instruction);
    case ZYDIS_MNEMONIC_NOP:  // 0F 18 /4../7 and 0F 0D with a register: some processors refuse them
      return (instruction.opcode == 0x18 || instruction.opcode == 0x0d) &&
             instruction.raw.modrm.mod == 3;
    default:
      return false;
  }
}

}  // namespace

Policy DecidePolicy(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand* operands) {
  if (instruction.mnemonic == ZYDIS_MNEMONIC_SYSCALL) return Policy::kSyscall;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_CPUID) return Policy::kCpuid;
  if (IsNondeterministic(instruction.mnemonic)) return Policy::kNondeterministic;
  if (IsPrivileged(instruction)) return Policy::kPrivileged;
  if (IsTheProcesss(instruction)) return Policy::kNative;
  if (HasSoftwareAssist(instruction)) return Policy::kAssist;
  if (ShowsSystemState(instruction.mnemonic) || IsOddBranch(instruction) ||
      UsesRegisterOf(instruction, operands, ZYDIS_REGCLASS_SEGMENT)) {
    return Policy::kNative;
  }
  // endbr64 and rdssp are no-ops while shadow stacks are off.
  const bool endbr = instruction.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
  const bool emulated = instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
                        (endbr || IsKnownExtension(instruction.meta.isa_set)) &&
                        !DiffersInX87OrMxcsr(instruction.mnemonic) &&
                        !DiffersAlways(instruction.mnemonic) && !UsesMmx(instruction, operands) &&
                        !DiffersInThisForm(instruction, operands) && !HasOddPrefixes(instruction);
  if (emulated) return Policy::kEmulate;
  return HasAssist(instruction, operands) ? Policy::kAssist : Policy::kNative;
}

}  // namespace hindsight
