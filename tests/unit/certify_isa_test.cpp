// The disassembly of `heddle certify`: lines that nvdisasm, RADV and IGC printed of real kernels, shortened, with
// counts that were made by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "tools/certify/isa.h"

namespace heddle::tools::certify {
namespace {

size_t count(const Listing& listing, Unit unit) {
  return static_cast<size_t>(
      std::count_if(listing.begin(), listing.end(), [&](const Instruction& i) { return i.unit == unit; }));
}

double sum(const Listing& listing, Unit unit) {
  double total = 0;
  for (const Instruction& i : listing) total += i.unit == unit ? i.amount : 0;
  return total;
}

// Of matmul on sm_80: head, a loop with a branch forward in it, tail, the branch to itself at the end and padding.
constexpr const char* sass = R"(	.headerflags	@"EF_CUDA_SM80"
.L_0:
        /*0004*/ 	.word	index@(heddle_kernel)
.text.heddle_kernel:
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;
        /*0010*/                   HFMA2.MMA R4, -RZ, RZ, 0, 0 ;
        /*0a80*/              @!P4 BRA `(.L_x_2) ;
.L_x_7:
        /*0b40*/                   UIMAD UR6, UR5, 0x440, URZ ;
        /*0b50*/                   LOP3.LUT R44, R41, 0x3ffffffc, RZ, 0xc0, !PT ;
        /*0c20*/                   LDS.128 R32, [R32] ;
        /*0cb0*/                   FFMA R55, R32.reuse, R36, R55 ;
        /*0cc0*/                   FFMA R56, R32, R37, R56 ;
        /*0cd0*/               @P1 LDG.E.128.CONSTANT R8, [R2.64] ;
        /*22d0*/               @P5 BRA `(.L_x_3) ;
        /*22e0*/                   STS [R12], R8 ;
.L_x_3:
        /*23f0*/                   BAR.SYNC 0x0 ;
        /*2650*/              @!P6 BRA `(.L_x_7) ;
.L_x_2:
        /*2660*/                   STG.E.64 [R2.64], R4 ;
        /*2670*/                   STL [R1+0x4], R7 ;
        /*2680*/                   EXIT ;
.L_x_10:
        /*2690*/                   BRA `(.L_x_10);
        /*26a0*/                   NOP;
        /*26b0*/                   NOP;
)";

TEST(CertifyIsa, ReadsSass) {
  const Listing listing = parse_sass(sass);
  ASSERT_EQ(listing.size(), 17u);  // without the directives and the padding
  EXPECT_EQ(listing[2].target, 13u);
  EXPECT_EQ(listing[12].target, 3u);
  EXPECT_EQ(count(listing, Unit::fma), 2u);  // HFMA2 of zeros makes a constant
  EXPECT_EQ(sum(listing, Unit::fma), 64);
  EXPECT_EQ(sum(listing, Unit::shared), 32 * 16 + 32 * 4);
  EXPECT_EQ(sum(listing, Unit::memory), 32 * 16 + 32 * 8);
  EXPECT_EQ(count(listing, Unit::scratch), 1u);
  EXPECT_EQ(count(listing, Unit::barrier), 1u);
  EXPECT_EQ(count(listing, Unit::scalar), 1u);
  const auto loop = hot_loop(listing);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->instructions.size(), 10u);
  EXPECT_EQ(loop->math, 2u);
  EXPECT_DOUBLE_EQ(loop->density(), 0.2);
}

TEST(CertifyIsa, KnowsTheMatrixUnitsOfSass) {
  const Listing listing = parse_sass(
      "        /*0000*/  HMMA.16816.F32 R4, R8, R12, R4 ;\n        /*0010*/  HMMA.1688.F32.TF32 R4, R8, R12, R4 ;\n"
      "        /*0020*/  IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4 ;\n        /*0030*/  LDSM.16.M88.4 R8, [R2] ;\n"
      "        /*0040*/  FFMA2 R2, R4.F32x2.HI_LO, R6.F32x2.HI_LO, R2.F32x2.HI_LO ;\n        /*0050*/  IMAD R2, R3, "
      "R4, R5 ;\n        /*0060*/  HGMMA.64x256x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0 ;\n");
  EXPECT_EQ(sum(listing, Unit::matrix), 2048 + 1024 + 4096 + 16 * 256 * 16);
  EXPECT_EQ(sum(listing, Unit::shared), 32 * 16);
  EXPECT_EQ(sum(listing, Unit::fma), 64);
  EXPECT_EQ(count(listing, Unit::vector), 1u);  // addresses
}

// Of matmul on navi21 and gfx1100.
constexpr const char* gcn = R"(BB0:
	s_add_i32 s0, 0x7f, s4                                      ; 810004ff 0000007f
	s_cbranch_scc0 BB3                                          ; bf84075a
BB1:
	v_add_lshl_u32 v1, s6, v2, 2                                ; d7470001 04050406
	ds_read_b128 v[4:7], v1 offset:1024                         ; d9fc0400 04000001
	s_waitcnt lgkmcnt(0)                                        ; bf8cc07f
	v_fmac_f32_e32 v8, v4, v5                                   ; 56100b04
	v_dual_fmac_f32 v9, v4, v6 :: v_dual_fmac_f32 v10, v5, v7   ; c8000d04 090a0f05
	v_dual_mov_b32 v11, v4 :: v_dual_fmac_f32 v12, v5, v7       ; ca000d04 0b0c0f05
	v_mad_u32_u24 v2, v2, 4, v3                                 ; d55d0002 040d0902
	buffer_load_dwordx4 v[4:7], v1, s[4:7], 0 offen             ; e0381000 80010401
BB2:
	s_barrier                                                   ; bf8a0000
	s_cbranch_scc1 BB1                                          ; bf85fff0
BB3:
	buffer_store_dword v8, v1, s[4:7], 0 offen                  ; e0701000 80010801
	s_endpgm                                                    ; bf810000
)";

TEST(CertifyIsa, ReadsGcnAndRdna) {
  const Listing listing = parse_gcn(gcn, 64);
  ASSERT_EQ(listing.size(), 14u);
  EXPECT_EQ(listing[1].target, 12u);
  EXPECT_EQ(listing[11].target, 2u);
  EXPECT_EQ(count(listing, Unit::fma), 3u);
  EXPECT_EQ(sum(listing, Unit::fma), 64 * 4);  // the pair issues together and counts twice
  EXPECT_EQ(sum(listing, Unit::shared), 64 * 16);
  EXPECT_EQ(sum(listing, Unit::memory), 64 * 16 + 64 * 4);
  EXPECT_EQ(count(listing, Unit::vector), 2u);
  EXPECT_EQ(count(listing, Unit::none), 1u);
  const auto loop = hot_loop(listing);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->instructions.size(), 10u);
  EXPECT_EQ(loop->math, 3u);
}

// Of matmul on tgllp, skl (older messages) and pvc.
constexpr const char* gen = R"(//.kernel heddle_kernel
//.declare V0033 (41)  rf=r size=64 type=d alias=+0 align=32 words (r0.0)
.kernel heddle_kernel
_main:
// B000: Preds:{},  Succs:{B001}
(W)     mov (8|M0)               r2.0<1>:ud    r0.0<1;1,0>:ud                   {Compacted}          // $1
(W&~f1.0) jmpi                               _0_058                                                  // $11
_0_056:
        or (16|M0)               r12.0<1>:d    r6.0<0;1,0>:d     r78.0<8;8,1>:d   {Compacted,@3}     // $105
        load.ugm.d32x4.a64 (16|M0)  r7:8        [r15:4]            {A@1,$6} // ex_desc:0x0; desc:0x8803580 // $264
        store.slm.d32.a32 (16|M0)  [r102:2]     r32:2              {F@1,$9} // ex_desc:0x0; desc:0x4000504 // $331
        send (8|M0)              r18:f    r126    0xC            0x02406000           // wr:1+0, rd:4; hdc.dc1; untyped surface read with xyzw // $176
        sends (8|M0)             null:ud  r75     r126    0x4C            0x02026EFE           // wr:1+1, rd:0; hdc.dc1; untyped surface write with x // $244
        mad (16|M0)              r20.0<1>:f    r20.0<8;1>:f      r30.0<8;1>:f      r7.0<0>:f        // $300
        mad (8|M0)               r22.0<1>:d    r22.0<8;1>:d      r30.0<8;1>:d      r7.0<0>:d        // $301
        sync.nop                             null                             {Compacted,$4.src}     // $108
(f0.0)  while (16|M0)                        _0_056                                                  // $443
_0_058:
L6536:
(W)     send.gtwy (8|M0)         null     r112    null:0  0x0            0x02000010           {EOT,F@1} // wr:1+0, rd:0; end of thread // $707
)";

TEST(CertifyIsa, ReadsGen) {
  const Listing listing = parse_gen(gen);
  ASSERT_EQ(listing.size(), 12u);
  EXPECT_EQ(listing[1].target, 11u);
  EXPECT_EQ(listing[10].target, 2u);
  EXPECT_EQ(count(listing, Unit::fma), 1u);  // the other one is of integers
  EXPECT_EQ(sum(listing, Unit::fma), 16);
  EXPECT_EQ(sum(listing, Unit::memory), 16 * 16 + 8 * 16);
  EXPECT_EQ(sum(listing, Unit::shared), 16 * 4 + 8 * 4);
  EXPECT_EQ(count(listing, Unit::none), 1u);
  const auto loop = hot_loop(listing);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->instructions.size(), 9u);
  EXPECT_EQ(loop->math, 1u);
}

// What a loop inside multiplies is its own; one that only loads belongs to the loop around it.
TEST(CertifyIsa, GivesEachLoopItsOwnMultiplyAdds) {
  const Instruction fma{Unit::fma, "fma", 32, {}}, other{Unit::vector, "add", 32, {}};
  const auto back = [](size_t target) { return Instruction{Unit::branch, "bra", 0, target}; };
  // 0 [1 fma fma [4 fma back4] fma [7 other back7] back1] end
  const Listing listing = {other, other, fma, fma, fma, back(4), fma, other, back(7), back(1), other};
  const auto loop = hot_loop(listing);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->first, 1u);
  EXPECT_EQ(loop->last, 9u);
  EXPECT_EQ(loop->math, 3u);
  EXPECT_EQ(loop->instructions, (std::vector<size_t>{1, 2, 3, 6, 7, 8, 9}));
  EXPECT_FALSE(hot_loop({other, fma, other}));  // no loop
  EXPECT_FALSE(hot_loop({other, other, back(0)}));
}

TEST(CertifyIsa, RefusesTextWithoutInstructions) {
  EXPECT_THROW(parse_sass("nvdisasm fatal : not a cubin"), ValueError);
  EXPECT_THROW(parse_gcn("", 64), ValueError);
  EXPECT_THROW(parse_gen("// nothing\n"), ValueError);
}

}  // namespace
}  // namespace heddle::tools::certify
