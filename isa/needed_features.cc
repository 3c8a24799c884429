#include "isa/needed_features.h"

namespace hindsight {
namespace {

using Needed = std::optional<HostFeatures>;

// Legacy encodings. What every x86-64 processor has needs nothing.
Needed NeededByLegacy(ZydisISASet set) {
  switch (set) {
    case ZYDIS_ISA_SET_FCMOV:
    case ZYDIS_ISA_SET_FXSAVE:
    case ZYDIS_ISA_SET_FXSAVE64:
    case ZYDIS_ISA_SET_I186:
    case ZYDIS_ISA_SET_I386:
    case ZYDIS_ISA_SET_I486:
    case ZYDIS_ISA_SET_I486REAL:
    case ZYDIS_ISA_SET_I86:
    case ZYDIS_ISA_SET_LAHF:
    case ZYDIS_ISA_SET_LONGMODE:
    case ZYDIS_ISA_SET_CMOV:
    case ZYDIS_ISA_SET_PENTIUMMMX:
    case ZYDIS_ISA_SET_PENTIUMREAL:
    case ZYDIS_ISA_SET_PPRO:
    case ZYDIS_ISA_SET_FAT_NOP:
    case ZYDIS_ISA_SET_PREFETCH_NOP:
    case ZYDIS_ISA_SET_PAUSE:
    case ZYDIS_ISA_SET_POPCNT:
    case ZYDIS_ISA_SET_SSE:
    case ZYDIS_ISA_SET_SSE2:
    case ZYDIS_ISA_SET_SSE2MMX:
    case ZYDIS_ISA_SET_SSEMXCSR:
    case ZYDIS_ISA_SET_SSE_PREFETCH:
    case ZYDIS_ISA_SET_X87:
    case ZYDIS_ISA_SET_CMPXCHG16B:
    case ZYDIS_ISA_SET_CLFSH:
      return HostFeatures{};
    case ZYDIS_ISA_SET_AES:
      return HostFeatures{HostFeature::kAes};
    case ZYDIS_ISA_SET_CLFLUSHOPT:
      return HostFeatures{HostFeature::kClflushopt};
    case ZYDIS_ISA_SET_CLWB:
      return HostFeatures{HostFeature::kClwb};
    case ZYDIS_ISA_SET_GFNI:
      return HostFeatures{HostFeature::kGfni};
    case ZYDIS_ISA_SET_LZCNT:
      return HostFeatures{HostFeature::kAbm};
    case ZYDIS_ISA_SET_MOVBE:
      return HostFeatures{HostFeature::kMovbe};
    case ZYDIS_ISA_SET_PCLMULQDQ:
      return HostFeatures{HostFeature::kPclmulqdq};
    case ZYDIS_ISA_SET_RDWRFSGS:
      return HostFeatures{HostFeature::kFsgsbase};
    case ZYDIS_ISA_SET_SHA:
      return HostFeatures{HostFeature::kSha};
    case ZYDIS_ISA_SET_SSE4:
      return HostFeatures{HostFeature::kSse41};
    case ZYDIS_ISA_SET_SSE42:
      return HostFeatures{HostFeature::kSse42};
    case ZYDIS_ISA_SET_SSE4A:
      return HostFeatures{HostFeature::kSse4a};
    case ZYDIS_ISA_SET_SSE3:
    case ZYDIS_ISA_SET_SSE3X87:
      return HostFeatures{HostFeature::kSse3};
    case ZYDIS_ISA_SET_SSSE3:
    case ZYDIS_ISA_SET_SSSE3MMX:
      return HostFeatures{HostFeature::kSsse3};
    default:
      return std::nullopt;
  }
}

Needed NeededByVex(ZydisISASet set) {
  switch (set) {
    case ZYDIS_ISA_SET_BMI1:
      return HostFeatures{HostFeature::kBmi1};
    case ZYDIS_ISA_SET_BMI2:
      return HostFeatures{HostFeature::kBmi2};
    case ZYDIS_ISA_SET_AVX:
      return HostFeatures{HostFeature::kAvx};
    case ZYDIS_ISA_SET_AVX2:
    case ZYDIS_ISA_SET_AVX2GATHER:
      return HostFeatures{HostFeature::kAvx, HostFeature::kAvx2};
    case ZYDIS_ISA_SET_F16C:
      return HostFeatures{HostFeature::kAvx, HostFeature::kF16c};
    case ZYDIS_ISA_SET_FMA:
      return HostFeatures{HostFeature::kAvx, HostFeature::kFma};
    case ZYDIS_ISA_SET_AVXAES:
      return HostFeatures{HostFeature::kAvx, HostFeature::kAes};
    case ZYDIS_ISA_SET_AVX_GFNI:
      return HostFeatures{HostFeature::kAvx, HostFeature::kGfni};
    case ZYDIS_ISA_SET_AVX_VNNI:
      return HostFeatures{HostFeature::kAvx, HostFeature::kAvxVnni};
    case ZYDIS_ISA_SET_VAES:
      return HostFeatures{HostFeature::kAvx, HostFeature::kVaes};
    case ZYDIS_ISA_SET_VPCLMULQDQ:
      return HostFeatures{HostFeature::kAvx, HostFeature::kVpclmulqdq};
    default:
      return std::nullopt;
  }
}

// 128 and 256 bits are an extension of their own, but for scalars.
Needed NeededByEvex(ZydisISASet set) {
  switch (set) {
    case ZYDIS_ISA_SET_AVX512F_128N:
    case ZYDIS_ISA_SET_AVX512F_512:
    case ZYDIS_ISA_SET_AVX512F_KOP:
    case ZYDIS_ISA_SET_AVX512F_SCALAR:
      return HostFeatures{HostFeature::kAvx512F};
    case ZYDIS_ISA_SET_AVX512F_128:
    case ZYDIS_ISA_SET_AVX512F_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512BW_128N:
    case ZYDIS_ISA_SET_AVX512BW_512:
    case ZYDIS_ISA_SET_AVX512BW_KOP:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Bw};
    case ZYDIS_ISA_SET_AVX512BW_128:
    case ZYDIS_ISA_SET_AVX512BW_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Bw, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512CD_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Cd};
    case ZYDIS_ISA_SET_AVX512CD_128:
    case ZYDIS_ISA_SET_AVX512CD_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Cd, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512DQ_128N:
    case ZYDIS_ISA_SET_AVX512DQ_512:
    case ZYDIS_ISA_SET_AVX512DQ_KOP:
    case ZYDIS_ISA_SET_AVX512DQ_SCALAR:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Dq};
    case ZYDIS_ISA_SET_AVX512DQ_128:
    case ZYDIS_ISA_SET_AVX512DQ_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Dq, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_BF16_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Bf16};
    case ZYDIS_ISA_SET_AVX512_BF16_128:
    case ZYDIS_ISA_SET_AVX512_BF16_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Bf16, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_BITALG_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Bitalg};
    case ZYDIS_ISA_SET_AVX512_BITALG_128:
    case ZYDIS_ISA_SET_AVX512_BITALG_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Bitalg,
                          HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_FP16_128N:
    case ZYDIS_ISA_SET_AVX512_FP16_512:
    case ZYDIS_ISA_SET_AVX512_FP16_SCALAR:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Fp16};
    case ZYDIS_ISA_SET_AVX512_FP16_128:
    case ZYDIS_ISA_SET_AVX512_FP16_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Fp16, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_GFNI_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kGfni};
    case ZYDIS_ISA_SET_AVX512_GFNI_128:
    case ZYDIS_ISA_SET_AVX512_GFNI_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kGfni, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_IFMA_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Ifma};
    case ZYDIS_ISA_SET_AVX512_IFMA_128:
    case ZYDIS_ISA_SET_AVX512_IFMA_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Ifma, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_VAES_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kVaes};
    case ZYDIS_ISA_SET_AVX512_VAES_128:
    case ZYDIS_ISA_SET_AVX512_VAES_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kVaes, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_VBMI2_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vbmi2};
    case ZYDIS_ISA_SET_AVX512_VBMI2_128:
    case ZYDIS_ISA_SET_AVX512_VBMI2_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vbmi2, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_VBMI_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vbmi};
    case ZYDIS_ISA_SET_AVX512_VBMI_128:
    case ZYDIS_ISA_SET_AVX512_VBMI_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vbmi, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_VNNI_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vnni};
    case ZYDIS_ISA_SET_AVX512_VNNI_128:
    case ZYDIS_ISA_SET_AVX512_VNNI_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vnni, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_VPCLMULQDQ_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kVpclmulqdq};
    case ZYDIS_ISA_SET_AVX512_VPCLMULQDQ_128:
    case ZYDIS_ISA_SET_AVX512_VPCLMULQDQ_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kVpclmulqdq, HostFeature::kAvx512Vl};
    case ZYDIS_ISA_SET_AVX512_VPOPCNTDQ_512:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vpopcntdq};
    case ZYDIS_ISA_SET_AVX512_VPOPCNTDQ_128:
    case ZYDIS_ISA_SET_AVX512_VPOPCNTDQ_256:
      return HostFeatures{HostFeature::kAvx512F, HostFeature::kAvx512Vpopcntdq,
                          HostFeature::kAvx512Vl};
    default:
      return std::nullopt;
  }
}

}  // namespace

bool IsVendorsOwn(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_F2XM1:
    case ZYDIS_MNEMONIC_FSIN:
    case ZYDIS_MNEMONIC_FCOS:
    case ZYDIS_MNEMONIC_FSINCOS:
    case ZYDIS_MNEMONIC_FPTAN:
    case ZYDIS_MNEMONIC_FPATAN:
    case ZYDIS_MNEMONIC_FYL2X:
    case ZYDIS_MNEMONIC_FYL2XP1:
    case ZYDIS_MNEMONIC_RCPPS:
    case ZYDIS_MNEMONIC_RCPSS:
    case ZYDIS_MNEMONIC_RSQRTPS:
    case ZYDIS_MNEMONIC_RSQRTSS:
    case ZYDIS_MNEMONIC_VRCPPS:
    case ZYDIS_MNEMONIC_VRCPSS:
    case ZYDIS_MNEMONIC_VRSQRTPS:
    case ZYDIS_MNEMONIC_VRSQRTSS:
    case ZYDIS_MNEMONIC_VRCP14PD:
    case ZYDIS_MNEMONIC_VRCP14PS:
    case ZYDIS_MNEMONIC_VRCP14SD:
    case ZYDIS_MNEMONIC_VRCP14SS:
    case ZYDIS_MNEMONIC_VRSQRT14PD:
    case ZYDIS_MNEMONIC_VRSQRT14PS:
    case ZYDIS_MNEMONIC_VRSQRT14SD:
    case ZYDIS_MNEMONIC_VRSQRT14SS:
    case ZYDIS_MNEMONIC_VRCPPH:
    case ZYDIS_MNEMONIC_VRCPSH:
    case ZYDIS_MNEMONIC_VRSQRTPH:
    case ZYDIS_MNEMONIC_VRSQRTSH:
    case ZYDIS_MNEMONIC_SHLD:  // of 16 bits, by more than these
    case ZYDIS_MNEMONIC_SHRD:
      return true;
    default:
      return false;
  }
}

Needed NeededFeatures(const ZydisDecodedInstruction& instruction) {
  const ZydisISASet set = instruction.meta.isa_set;
  Needed needed;
  switch (instruction.encoding) {
    case ZYDIS_INSTRUCTION_ENCODING_LEGACY:
      needed = NeededByLegacy(set);
      break;
    case ZYDIS_INSTRUCTION_ENCODING_VEX:
      // The instructions on opmask registers are AVX-512's.
      needed = NeededByVex(set);
      if (!needed.has_value()) needed = NeededByEvex(set);
      break;
    case ZYDIS_INSTRUCTION_ENCODING_EVEX:
      needed = NeededByEvex(set);
      break;
    default:
      break;
  }
  if (needed.has_value() && IsVendorsOwn(instruction.mnemonic)) {
    needed->Add(HostFeatures::Vendor());
  }
  return needed;
}

}  // namespace hindsight
