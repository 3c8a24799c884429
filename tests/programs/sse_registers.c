// Every SSE instruction that computes, on registers full of patterns that are NaNs, denormals and
// numbers, one after the other: for debuggers to walk through.
#include <stdio.h>

// Bytes 0, 1, 2, ...; NaNs of both kinds and signs; small and large numbers.
__attribute__((aligned(16))) const unsigned patterns[8][4] = {
    {0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c},
    {0x7fc00001, 0xffc00002, 0x7f800003, 0xffa00004},
    {0xfff00000, 0x7ff80000, 0x00000005, 0xfff40000},
    {0x80000001, 0x007fffff, 0x3f800000, 0xbfc00000},
    {0x00000007, 0x7ff00000, 0x00000001, 0x3ff80000},
    {0xf3f2f1f0, 0xf7f6f5f4, 0xfbfaf9f8, 0xfffefdfc},
    {0x12345678, 0x3fb99999, 0x9abcdef0, 0xc0e00010},
    {0x80000000, 0x00000000, 0x7fffffff, 0x80000000},
};

#define LOAD                                                                   \
  "movaps patterns(%%rip), %%xmm0\n\tmovaps patterns+16(%%rip), %%xmm1\n\t"    \
  "movaps patterns+32(%%rip), %%xmm2\n\tmovaps patterns+48(%%rip), %%xmm3\n\t" \
  "movaps patterns+64(%%rip), %%xmm4\n\tmovaps patterns+80(%%rip), %%xmm5\n\t" \
  "movaps patterns+96(%%rip), %%xmm6\n\tmovaps patterns+112(%%rip), %%xmm7\n\t"
// In a ring, so that each result is an operand of the next instruction; and both orders.
#define EACH(operation)                                                     \
  operation " %%xmm1, %%xmm0\n\t" operation " %%xmm2, %%xmm1\n\t" operation \
            " %%xmm3, %%xmm2\n\t" operation " %%xmm4, %%xmm3\n\t" operation \
            " %%xmm5, %%xmm4\n\t" operation " %%xmm6, %%xmm5\n\t" operation \
            " %%xmm7, %%xmm6\n\t" operation " %%xmm0, %%xmm7\n\t"
#define CLOBBERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "rax", "cc"
#define RUN(...) __asm__ volatile(LOAD __VA_ARGS__ : : : CLOBBERS)
#define FOUR(name)      \
  RUN(EACH(name "ps")); \
  RUN(EACH(name "pd")); \
  RUN(EACH(name "ss")); \
  RUN(EACH(name "sd"))

__attribute__((noinline)) void first_part(void) {
  FOUR("add");
  FOUR("sub");
  FOUR("mul");
  FOUR("div");
  FOUR("min");
  FOUR("max");
  FOUR("sqrt");
  FOUR("cmpeq");
  FOUR("cmplt");
  FOUR("cmple");
  FOUR("cmpunord");
  FOUR("cmpneq");
  FOUR("cmpnlt");
  FOUR("cmpnle");
  FOUR("cmpord");
  RUN(EACH("haddps"));
  RUN(EACH("haddpd"));
  RUN(EACH("hsubps"));
  RUN(EACH("hsubpd"));
  RUN(EACH("addsubps"));
  RUN(EACH("addsubpd"));
  RUN(EACH("cvtdq2ps"));
  RUN(EACH("cvtps2dq"));
  RUN(EACH("cvttps2dq"));
  RUN(EACH("cvtps2pd"));
  RUN(EACH("cvtpd2ps"));
  RUN(EACH("cvtdq2pd"));
  RUN(EACH("cvtpd2dq"));
  RUN(EACH("cvttpd2dq"));
  RUN(EACH("cvtss2sd"));
  RUN(EACH("cvtsd2ss"));
  RUN(EACH("ucomiss"));
  RUN(EACH("comisd"));
}

__attribute__((noinline)) void second_part(void) {
#define R(name) RUN(EACH(name))
  R("andps");
  R("andnpd");
  R("orps");
  R("xorpd");
  R("pand");
  R("pandn");
  R("por");
  R("pxor");
  R("unpcklps");
  R("unpckhps");
  R("unpcklpd");
  R("unpckhpd");
  R("shufps $27,");
  R("shufpd $1,");
  R("movss");
  R("movsd");
  R("movhlps");
  R("movlhps");
  R("movsldup");
  R("movshdup");
  R("movddup");
  R("paddb");
  R("paddw");
  R("paddd");
  R("paddq");
  R("paddsb");
  R("paddsw");
  R("paddusb");
  R("paddusw");
  R("psubb");
  R("psubw");
  R("psubd");
  R("psubq");
  R("psubsb");
  R("psubsw");
  R("psubusb");
  R("psubusw");
  R("pmullw");
  R("pmulhw");
  R("pmulhuw");
  R("pmuludq");
  R("pmaddwd");
  R("pavgb");
  R("pavgw");
  R("psadbw");
  R("pminub");
  R("pmaxub");
  R("pminsw");
  R("pmaxsw");
  R("pcmpeqb");
  R("pcmpeqw");
  R("pcmpeqd");
  R("pcmpgtb");
  R("pcmpgtw");
  R("pcmpgtd");
  R("packsswb");
  R("packssdw");
  R("packuswb");
  R("punpcklbw");
  R("punpckhwd");
  R("punpcklqdq");
  R("psllw");
  R("pslld");
  R("psllq");
  R("psrlw");
  R("psrld");
  R("psrlq");
  R("psraw");
  R("psrad");
  R("pshufd $57,");
  R("pshufhw $57,");
  R("pshuflw $57,");
  // SSSE3
  R("pshufb");
  R("phaddw");
  R("phaddd");
  R("phaddsw");
  R("phsubw");
  R("phsubd");
  R("phsubsw");
  R("pmaddubsw");
  R("pmulhrsw");
  R("psignb");
  R("psignw");
  R("psignd");
  R("palignr $5,");
  R("pabsb");
  R("pabsw");
  R("pabsd");
  // SSE4.1, SSE4.2
  R("blendps $5,");
  R("blendpd $2,");
  R("blendvps");
  R("blendvpd");
  R("pblendw $90,");
  R("pblendvb");
  R("roundps $1,");
  R("roundpd $2,");
  R("roundss $3,");
  R("roundsd $8,");
  R("dpps $0x71,");
  R("dppd $0x31,");
  R("insertps $0x4c,");
  R("mpsadbw $5,");
  R("pmuldq");
  R("pmulld");
  R("pminsb");
  R("pmaxsb");
  R("pminuw");
  R("pmaxuw");
  R("pminud");
  R("pmaxud");
  R("pminsd");
  R("pmaxsd");
  R("phminposuw");
  R("pcmpeqq");
  R("pcmpgtq");
  R("packusdw");
  R("ptest");
  R("pmovsxbw");
  R("pmovsxbd");
  R("pmovsxbq");
  R("pmovsxwd");
  R("pmovsxwq");
  R("pmovsxdq");
  R("pmovzxbw");
  R("pmovzxbd");
  R("pmovzxbq");
  R("pmovzxwd");
  R("pmovzxwq");
  R("pmovzxdq");
}

__attribute__((noinline)) void finished(void) { puts("done"); }

int main(void) {
  RUN("xor %%eax, %%eax");  // registers and flags as they are from here on, whatever ran before
  first_part();
  second_part();
  finished();
  return 0;
}
