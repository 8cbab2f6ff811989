// The Heddle dialect in OpenCL C 1.2. Language and rules: shaders/README.md. "//@" lines cut this file into sections.
// It is longer than other files: what CPUs gain by (vectors, turned tiles, lines past the caches, their own instructions)
// is written with clang's builtins, and in standard OpenCL C beside them.
//@
#define GROUP_ID(d) ((uint)get_group_id(d))
#define LOCAL_ID(d) ((uint)get_local_id(d))
#define NUM_GROUPS(d) ((uint)get_num_groups(d))
#define GROUP_LINEAR (GROUP_ID(0) + GROUP_ID(1) * NUM_GROUPS(0))
typedef size_t INDEX;
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define CAST(T, x) ((T)(x))
#define AS_FLOAT(x) as_float(x)
#define AS_UINT(x) as_uint(x)
#define FUNC static __attribute__((always_inline, overloadable))
#define PRECISE
#ifdef HK_NO_CONTRACTION
#pragma OPENCL FP_CONTRACT OFF
#endif
#define UNROLL _Pragma("unroll")
// HK_INLINE_BUILTINS: a CPU's clang whose builtins say all that kernels rely on. A driver's own functions come as
// bitcode, and LLVM 18 does not inline what treats subnormals otherwise than the kernel (-cl-denorms-are-zero): on PoCL 6
// each fma of vectors was a call.
#if defined(__aarch64__) || (defined(__x86_64__) && defined(__FMA__) && defined(__F16C__))
#define HK_CPU
#endif
// HK_MACHINE_CODE: clang compiles for the CPU itself. Elsewhere its code becomes SPIR-V, whose translators and compilers
// end the process on hints that are no part of OpenCL C (prefetches; loops that are to be vectorised).
#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define HK_MACHINE_CODE
#endif
#if defined(HK_CPU) && defined(__clang__) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma) && __has_builtin(__builtin_convertvector)
#define HK_INLINE_BUILTINS
#endif
#endif
// x86: without it, loops are vectorised for registers of 256 bits even where those of 512 are there.
#if defined(__has_attribute) && defined(__clang__)
#if __has_attribute(min_vector_width)
#define HK_WIDE __attribute__((min_vector_width(512)))
#endif
#endif
#ifndef HK_WIDE
#define HK_WIDE
#endif
#define ARRAY(T, name, count) T name[count] __attribute__((aligned(64)))
#ifdef HK_MACHINE_CODE
#define VLOOP _Pragma("clang loop vectorize(assume_safety)")
#define VLOOP_LONG _Pragma("clang loop vectorize(assume_safety) vectorize_width(16)")
#define HK_PRAGMA(text) _Pragma(#text)
#define VLOOP_OF(n) HK_PRAGMA(clang loop vectorize(assume_safety) vectorize_width(16) interleave_count(((n) + 15) / 16))
#else
#define VLOOP
#define VLOOP_LONG
#define VLOOP_OF(n)
#endif
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#ifdef HK_HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double F64;
#define F64(x) ((double)(x))
#endif
#ifdef HK_HAS_I64
typedef long I64;
#define I64(x) ((long)(x))
#endif
#define HK_LOAD_i8(b, i) ((int)b[i])
#define HK_STORE_i8(b, i, v) b[i] = (char)(v)
#define HK_LOAD_u8(b, i) ((int)b[i])
#define HK_STORE_u8(b, i, v) b[i] = (uchar)(v)
#define HK_LOAD_bool(b, i) (b[i] != 0)
#define HK_STORE_bool(b, i, v) b[i] = ((v) ? 1 : 0)
// Clang's builtins vectorise; vload_half and vstore_half may be calls. Elsewhere only those are certain: Oclgrind reads
// clang's SPIR and knows no other conversion of a half.
#if defined(HK_MACHINE_CODE) && defined(__has_builtin)
#if __has_builtin(__builtin_load_halff) && __has_builtin(__builtin_store_halff)
// Negations, comparisons and roundings next to a conversion LLVM moves into f16, where CPUs without such arithmetic compute element by element.
// The highest bit of an address, 0 in a process of these CPUs, hides that a float comes from or goes to f16.
#define HK_HIDE(b, v) as_float(as_uint(v) ^ (uint)((size_t)(b) >> 63))
#define HK_LOAD_f16(b, i) HK_HIDE(b, __builtin_load_halff(b + (i)))
#define HK_STORE_f16(b, i, v) __builtin_store_halff(HK_HIDE(b, (float)(v)), b + (i))
#define HK_HALF_AT(p, i) __builtin_load_halff((p) + (i))
#define HK_HALF_TO(p, v) __builtin_store_halff(v, p)
#endif
#endif
#ifndef HK_LOAD_f16
#define HK_LOAD_f16(b, i) vload_half(0, b + (i))
#define HK_STORE_f16(b, i, v) vstore_half_rte(v, 0, b + (i))
#define HK_HALF_AT(p, i) vload_half(i, p)
#define HK_HALF_TO(p, v) vstore_half_rte(v, 0, p)
#endif
//@ HK_LOAD_bits
#define HK_LOAD_bits(b, i) ((int)b[i])
#define HK_STORE_bits(b, i, v) b[i] = (ushort)(v)
//@ HK_LOAD_bf16 hk_to_bf16
FUNC ushort hk_to_bf16(float v) {
  uint f = as_uint(v);
  return (ushort)((f & 0x7fffffffu) > 0x7f800000u ? (f >> 16) | 0x40u : (f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
}
#define HK_LOAD_bf16(b, i) as_float((uint)b[i] << 16)
#define HK_STORE_bf16(b, i, v) b[i] = hk_to_bf16(v)
//@ VEC
#define HK_JOIN_(a, b) a##b
#define HK_JOIN(a, b) HK_JOIN_(a, b)
#if HK_VW == 1
#define VEC float
#define VSUM(v) (v)
#define VZIP_LOW(a, b) (a)
#define VZIP_HIGH(a, b) (b)
#define VEVEN(a, b) (a)
#define VODD(a, b) (b)
#define VSLIDE(a, b, i) ((i) == 0u ? (a) : (b))
#define HK_VLOAD_f32(b, i) HK_LOAD_f32(b, i)
#define HK_VLOAD_f16(b, i) HK_LOAD_f16(b, i)
#define HK_VLOAD_bf16(b, i) HK_LOAD_bf16(b, i)
#define HK_VSTORE_f32(b, i, v) HK_STORE_f32(b, i, v)
#define HK_VSTORE_f16(b, i, v) HK_STORE_f16(b, i, v)
#define HK_VSTORE_bf16(b, i, v) HK_STORE_bf16(b, i, v)
#define VFROM(array, i) array[i]
#define VTO(array, i, v) array[i] = (v)
#else
#define VEC HK_JOIN(float, HK_VW)
#define HK_VUINT HK_JOIN(uint, HK_VW)
#define HK_VUSHORT HK_JOIN(ushort, HK_VW)
// Whole vectors at any element: vload16 and vstore16 of PoCL 3.1 are loads and stores of 16, 16 and 32 bytes, which LLVM
// 15 does not join.
#ifdef HK_MACHINE_CODE
typedef VEC hk_any_vec __attribute__((aligned(4), may_alias));
typedef HK_VUSHORT hk_any_ushorts __attribute__((aligned(2), may_alias));
#define HK_VLOAD_f32(b, i) (*(const __global hk_any_vec*)(b + (i)))
#define HK_VSTORE_f32(b, i, v) *(__global hk_any_vec*)(b + (i)) = (v)
#define HK_VLOAD_USHORT(b, i) (*(const __global hk_any_ushorts*)(b + (i)))
#define HK_VSTORE_USHORT(b, i, v) *(__global hk_any_ushorts*)(b + (i)) = (v)
#else
#define HK_VLOAD_f32(b, i) HK_JOIN(vload, HK_VW)(0, b + (i))
#define HK_VSTORE_f32(b, i, v) HK_JOIN(vstore, HK_VW)(v, 0, b + (i))
#define HK_VLOAD_USHORT(b, i) HK_JOIN(vload, HK_VW)(0, b + (i))
#define HK_VSTORE_USHORT(b, i, v) HK_JOIN(vstore, HK_VW)(v, 0, b + (i))
#endif
#ifdef HK_INLINE_BUILTINS
typedef half hk_halves __attribute__((ext_vector_type(HK_VW)));
typedef hk_halves hk_any_halves __attribute__((aligned(2), may_alias));
// As HK_HIDE: of all components.
#define HK_VHIDE(b, v) HK_JOIN(as_float, HK_VW)(HK_JOIN(as_uint, HK_VW)(v) ^ (HK_VUINT)((uint)((size_t)(b) >> 63)))
#define HK_VTO_UINT(v) __builtin_convertvector(v, HK_VUINT)
#define HK_VTO_USHORT(v) __builtin_convertvector(v, HK_VUSHORT)
#define HK_VLOAD_f16(b, i) HK_VHIDE(b, __builtin_convertvector(*(const __global hk_any_halves*)(b + (i)), VEC))
#define HK_VSTORE_f16(b, i, v) *(__global hk_any_halves*)(b + (i)) = __builtin_convertvector(HK_VHIDE(b, v), hk_halves)
#else
#define HK_VTO_UINT(v) HK_JOIN(convert_uint, HK_VW)(v)
#define HK_VTO_USHORT(v) HK_JOIN(convert_ushort, HK_VW)(v)
#define HK_VLOAD_f16(b, i) HK_JOIN(vload_half, HK_VW)(0, b + (i))
#define HK_VSTORE_f16(b, i, v) HK_JOIN(HK_JOIN(vstore_half, HK_VW), _rte)(v, 0, b + (i))
#endif
#define HK_VLOAD_bf16(b, i) HK_JOIN(as_float, HK_VW)(HK_VTO_UINT(HK_VLOAD_USHORT(b, i)) << 16)
#define HK_VSTORE_bf16(b, i, v) HK_VSTORE_USHORT(b, i, hk_to_bf16_v(HK_JOIN(as_uint, HK_VW)(v)))
FUNC HK_VUSHORT hk_to_bf16_v(HK_VUINT f) {
  HK_VUINT r = (f & 0x7fffffffu) > 0x7f800000u ? (f >> 16) | 0x40u : (f + 0x7fffu + ((f >> 16) & 1u)) >> 16;
  return HK_VTO_USHORT(r);
}
// PoCL's vstore16 into a private array falls apart into stores of 4 and 8, which later loads cannot be forwarded from.
typedef VEC hk_loose_vec __attribute__((aligned(4), may_alias));
#define VFROM(array, i) (*(const hk_loose_vec*)(array + (i)))
#define VTO(array, i, v) *(hk_loose_vec*)(array + (i)) = (v)
// Halves are added, then their halves: the order is a property of the width, not of the compiler.
FUNC float hk_vsum4(float4 v) { float2 h = v.lo + v.hi; return h.x + h.y; }
FUNC float hk_vsum8(float8 v) { return hk_vsum4(v.lo + v.hi); }
FUNC float hk_vsum16(float16 v) { return hk_vsum8(v.lo + v.hi); }
#define VSUM(v) HK_JOIN(hk_vsum, HK_VW)(v)
FUNC float4 hk_zip_low(float4 a, float4 b) { return (float4)(a.s0, b.s0, a.s1, b.s1); }
FUNC float4 hk_zip_high(float4 a, float4 b) { return (float4)(a.s2, b.s2, a.s3, b.s3); }
FUNC float8 hk_zip_low(float8 a, float8 b) { return (float8)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3); }
FUNC float8 hk_zip_high(float8 a, float8 b) { return (float8)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7); }
FUNC float16 hk_zip_low(float16 a, float16 b) { return (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7); }
FUNC float16 hk_zip_high(float16 a, float16 b) { return (float16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf); }
#define VZIP_LOW(a, b) hk_zip_low(a, b)
#define VZIP_HIGH(a, b) hk_zip_high(a, b)
FUNC VEC hk_even(VEC a, VEC b) { VEC r; r.lo = a.even; r.hi = b.even; return r; }
FUNC VEC hk_odd(VEC a, VEC b) { VEC r; r.lo = a.odd; r.hi = b.odd; return r; }
#define VEVEN(a, b) hk_even(a, b)
#define VODD(a, b) hk_odd(a, b)
#define VSLIDE(a, b, i) hk_slide(a, b, i)
#ifdef HK_MACHINE_CODE
// A shuffle wants its components as constants, which a variable is only once its loop is unrolled.
#define HK_FOUR_FROM(i) (i), (i) + 1, (i) + 2, (i) + 3
#if HK_VW == 4
#define HK_SLIDE(i) case i: return __builtin_shufflevector(a, b, HK_FOUR_FROM(i));
#elif HK_VW == 8
#define HK_SLIDE(i) case i: return __builtin_shufflevector(a, b, HK_FOUR_FROM(i), HK_FOUR_FROM((i) + 4));
#else
#define HK_SLIDE(i) case i: return __builtin_shufflevector(a, b, HK_FOUR_FROM(i), HK_FOUR_FROM((i) + 4), HK_FOUR_FROM((i) + 8), HK_FOUR_FROM((i) + 12));
#endif
FUNC VEC hk_slide(VEC a, VEC b, uint i) {
  switch (i) {
    case 0: return a;
    HK_SLIDE(1) HK_SLIDE(2) HK_SLIDE(3)
#if HK_VW >= 8
    HK_SLIDE(4) HK_SLIDE(5) HK_SLIDE(6) HK_SLIDE(7)
#endif
#if HK_VW >= 16
    HK_SLIDE(8) HK_SLIDE(9) HK_SLIDE(10) HK_SLIDE(11) HK_SLIDE(12) HK_SLIDE(13) HK_SLIDE(14) HK_SLIDE(15)
#endif
    default: return b;
  }
}
#else
FUNC VEC hk_slide(VEC a, VEC b, uint i) { float t[2 * HK_VW]; VTO(t, 0, a); VTO(t, HK_VW, b); return VFROM(t, i); }
#endif
#endif
#define VSPLAT(x) ((VEC)(x))
#define VSELECT(m, a, b) ((m) != VSPLAT(0.0f) ? (a) : (b))
#ifdef HK_INLINE_BUILTINS
#define VFMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define VFMA(a, b, c) fma(a, b, c)
#endif
//@ VTRANSPOSE TILE_LOAD HK_SQUARE
// A square of 16 x 16 floats, turned by 64 shuffles, each one instruction of x86 without a table: pairs, then fours within
// 16 bytes, then blocks of 16 bytes.
#define HK_SHUFFLE_1(a, b, i) \
  __builtin_shufflevector(a, b, (i), 16 + (i), (i) + 1, 17 + (i), (i) + 4, 20 + (i), (i) + 5, 21 + (i), \
                          (i) + 8, 24 + (i), (i) + 9, 25 + (i), (i) + 12, 28 + (i), (i) + 13, 29 + (i))
#define HK_SHUFFLE_2(a, b, i) \
  __builtin_shufflevector(a, b, (i), (i) + 1, 16 + (i), 17 + (i), (i) + 4, (i) + 5, 20 + (i), 21 + (i), \
                          (i) + 8, (i) + 9, 24 + (i), 25 + (i), (i) + 12, (i) + 13, 28 + (i), 29 + (i))
#define HK_SHUFFLE_4(a, b, i) \
  __builtin_shufflevector(a, b, (i), (i) + 1, (i) + 2, (i) + 3, (i) + 8, (i) + 9, (i) + 10, (i) + 11, \
                          16 + (i), 17 + (i), 18 + (i), 19 + (i), 24 + (i), 25 + (i), 26 + (i), 27 + (i))
// Rows 4 i .. 4 i + 3 to their columns, four in each 16 bytes.
#define HK_FOURS(a, t, i) { \
  float16 hk_a = HK_SHUFFLE_1(a[4u * (i)], a[4u * (i) + 1u], 0), hk_b = HK_SHUFFLE_1(a[4u * (i)], a[4u * (i) + 1u], 2); \
  float16 hk_c = HK_SHUFFLE_1(a[4u * (i) + 2u], a[4u * (i) + 3u], 0), hk_d = HK_SHUFFLE_1(a[4u * (i) + 2u], a[4u * (i) + 3u], 2); \
  t[4u * (i)] = HK_SHUFFLE_2(hk_a, hk_c, 0); \
  t[4u * (i) + 1u] = HK_SHUFFLE_2(hk_a, hk_c, 2); \
  t[4u * (i) + 2u] = HK_SHUFFLE_2(hk_b, hk_d, 0); \
  t[4u * (i) + 3u] = HK_SHUFFLE_2(hk_b, hk_d, 2); }
#define HK_BLOCKS(t, a, i) { \
  float16 hk_a = HK_SHUFFLE_4(t[(i)], t[4u + (i)], 0), hk_b = HK_SHUFFLE_4(t[(i)], t[4u + (i)], 4); \
  float16 hk_c = HK_SHUFFLE_4(t[8u + (i)], t[12u + (i)], 0), hk_d = HK_SHUFFLE_4(t[8u + (i)], t[12u + (i)], 4); \
  a[(i)] = HK_SHUFFLE_4(hk_a, hk_c, 0); \
  a[4u + (i)] = HK_SHUFFLE_4(hk_b, hk_d, 0); \
  a[8u + (i)] = HK_SHUFFLE_4(hk_a, hk_c, 4); \
  a[12u + (i)] = HK_SHUFFLE_4(hk_b, hk_d, 4); }
#define HK_SQUARE(a) { float16 hk_t[16]; \
  HK_FOURS(a, hk_t, 0u) HK_FOURS(a, hk_t, 1u) HK_FOURS(a, hk_t, 2u) HK_FOURS(a, hk_t, 3u) \
  HK_BLOCKS(hk_t, a, 0u) HK_BLOCKS(hk_t, a, 1u) HK_BLOCKS(hk_t, a, 2u) HK_BLOCKS(hk_t, a, 3u) }
//@ VTRANSPOSE
// A perfect shuffle of all VW * VW components, log2(VW) times.
#if HK_VW > 1
FUNC VEC hk_zip_lo(VEC a, VEC b) { VEC r; r.even = a.lo; r.odd = b.lo; return r; }
FUNC VEC hk_zip_hi(VEC a, VEC b) { VEC r; r.even = a.hi; r.odd = b.hi; return r; }
#endif
#define HK_ZIP(from, to) \
  UNROLL for (uint hk_i = 0u; hk_i < HK_VW / 2u; ++hk_i) { \
    to[2u * hk_i] = hk_zip_lo(from[hk_i], from[hk_i + HK_VW / 2u]); \
    to[2u * hk_i + 1u] = hk_zip_hi(from[hk_i], from[hk_i + HK_VW / 2u]); \
  }
#if HK_VW == 1
#define VTRANSPOSE(a)
#elif HK_VW == 4
#define VTRANSPOSE(a) { VEC hk_t[4]; HK_ZIP(a, hk_t) HK_ZIP(hk_t, a) }
#elif HK_VW == 8
#define VTRANSPOSE(a) { VEC hk_t[8], hk_u[8]; HK_ZIP(a, hk_t) HK_ZIP(hk_t, hk_u) HK_ZIP(hk_u, a) }
#elif defined(HK_MACHINE_CODE)
#define VTRANSPOSE(a) HK_SQUARE(a)
#else
#define VTRANSPOSE(a) { VEC hk_t[16]; HK_ZIP(a, hk_t) HK_ZIP(hk_t, a) HK_ZIP(a, hk_t) HK_ZIP(hk_t, a) }
#endif
//@ WILL_READ WILL_WRITE
// By address: beyond the end of a buffer there is nothing to read soon, but no harm in naming it.
#ifdef HK_MACHINE_CODE
#define HK_WILL_READ(b, i) __builtin_prefetch((__private const void*)((size_t)b + sizeof(b[0]) * (size_t)(i)), 0, 3)
#define HK_WILL_WRITE(b, i) __builtin_prefetch((__private const void*)((size_t)b + sizeof(b[0]) * (size_t)(i)), 1, 3)
#else
#define HK_WILL_READ(b, i)
#define HK_WILL_WRITE(b, i)
#endif
#define WILL_READ(name, i) WILL_READ_##name(i)
#define WILL_WRITE(name, i) WILL_WRITE_##name(i)
//@ STREAM
// Whole cache lines past the caches: a line that is written in full need not be read first, and does not push out what will be read again.
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define HK_LINE(v, b, i) __builtin_nontemporal_store(v, (__global uint16*)(b + (i)))
#endif
#endif
#ifndef HK_LINE
#define HK_LINE(v, b, i) vstore16(v, 0, (__global uint*)(b + (i)))
#endif
// A single line stands in no loop: LLVM 18 moves its store behind the loop, without the hint.
#define HK_LINES(n, step, line) \
  { if ((n) == (step)) { const int hk_k = 0; line; } else { for (int hk_k = 0; hk_k < (n); hk_k += (step)) { line; } } }
// Lines of one, two and four vectors of 16 elements.
#define HK_STREAM4(b, i, a, n, T) HK_LINES(n, 16, HK_LINE(as_uint16(HK_TAKE(T, a, hk_k)), b, (i) + hk_k))
#define HK_STREAM2(b, i, a, n, T, X) \
  HK_LINES(n, 32, HK_LINE((uint16)(HK_TWO_BYTES(a, hk_k, T, X), HK_TWO_BYTES(a, hk_k + 16, T, X)), b, (i) + hk_k))
#define HK_STREAM1(b, i, a, n) \
  HK_LINES(n, 64, HK_LINE((uint16)(HK_BYTES(a, hk_k), HK_BYTES(a, hk_k + 16), HK_BYTES(a, hk_k + 32), \
                                   HK_BYTES(a, hk_k + 48)), b, (i) + hk_k))
#define HK_TWO_BYTES(a, k, T, X) as_uint8(X(HK_TAKE(T, a, k)))
#define HK_BYTES(a, k) as_uint4(HK_TO_UCHAR16(HK_TAKE(hk_ints, a, k)))
// Whole vectors of a private array, which PoCL's vload16 is not: it takes parts, and arrays that are read so do not become registers.
typedef float16 hk_floats __attribute__((aligned(4), may_alias));
typedef int16 hk_ints __attribute__((aligned(4), may_alias));
typedef ulong8 hk_longs __attribute__((aligned(8), may_alias));
#define HK_TAKE(T, a, k) (*(const T*)(a + (k)))
#define HK_STREAM8(b, i, a, n) HK_LINES(n, 8, HK_LINE(as_uint16(HK_TAKE(hk_longs, a, hk_k)), b, (i) + hk_k))
#define HK_STREAM_f32(b, i, a, n) HK_STREAM4(b, i, a, n, hk_floats)
#define HK_STREAM_i32(b, i, a, n) HK_STREAM4(b, i, a, n, hk_ints)
#define HK_STREAM_f16(b, i, a, n) HK_STREAM2(b, i, a, n, hk_floats, hk_to_f16_16)
#define HK_STREAM_bf16(b, i, a, n) HK_STREAM2(b, i, a, n, hk_floats, hk_to_bf16_16)
#define HK_STREAM_bits(b, i, a, n) HK_STREAM2(b, i, a, n, hk_ints, HK_BITS_TO_USHORT16)
#define HK_BITS_TO_USHORT16(v) HK_TO_USHORT16(as_uint16(v))
#define HK_STREAM_i8(b, i, a, n) HK_STREAM1(b, i, a, n)
#define HK_STREAM_u8(b, i, a, n) HK_STREAM1(b, i, a, n)
#define HK_STREAM_f64(b, i, a, n) HK_STREAM8(b, i, a, n)
#define HK_STREAM_i64(b, i, a, n) HK_STREAM8(b, i, a, n)
#define STREAM(name, i, array, n) STREAM_##name(i, array, n)
#ifdef HK_INLINE_BUILTINS
#define HK_TO_UCHAR16(v) __builtin_convertvector(v, uchar16)
#define HK_TO_USHORT16(v) __builtin_convertvector(v, ushort16)
#else
#define HK_TO_UCHAR16(v) convert_uchar16(v)
#define HK_TO_USHORT16(v) convert_ushort16(v)
#endif
FUNC ushort16 hk_to_bf16_16(float16 v) {
  uint16 f = as_uint16(v);
  return HK_TO_USHORT16((f & 0x7fffffffu) > 0x7f800000u ? (f >> 16) | 0x40u : (f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
}
#ifdef HK_INLINE_BUILTINS
typedef half hk_half16 __attribute__((ext_vector_type(16)));
FUNC ushort16 hk_to_f16_16(float16 v) { return as_ushort16(__builtin_convertvector(v, hk_half16)); }
#define HK_TO_F16_16
#elif defined(__AVX512F__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_vcvtps2ph512_mask)
FUNC ushort16 hk_to_f16_16(float16 v) { return as_ushort16(__builtin_ia32_vcvtps2ph512_mask(v, 0, (short16)(0), (ushort)0xffff)); }
#define HK_TO_F16_16
#endif
#endif
#ifndef HK_TO_F16_16
// Through private memory: OpenCL C has no vector of half without f16 arithmetic.
FUNC ushort16 hk_to_f16_16(float16 v) {
  uint8 line;
  vstore_half16_rte(v, 0, (half*)&line);
  return as_ushort16(line);
}
#endif
//@ TILE_LOAD hk_turn
// 16 rows of 16 elements, turned: four rounds of shuffles. Integers travel as the bits of floats. The next tiles lie
// further along the same rows, or in the rows behind them, which are more than a processor's own prefetchers follow:
// lines `ahead` elements further are asked for, into the second cache.
#ifdef HK_MACHINE_CODE
#define HK_TILE_AHEAD(p) __builtin_prefetch((__private const void*)((size_t)(p)), 0, 2);
#else
#define HK_TILE_AHEAD(p)
#endif
#define HK_TILE(b, base, stride, a, at, pitch, ahead, ROW, AS) \
  { float16 hk_r[16]; \
    _Pragma("unroll") for (int hk_k = 0; hk_k < 16; ++hk_k) { HK_TILE_AHEAD(b + (base) + (ahead) + hk_k * (stride)) } \
    _Pragma("unroll") for (int hk_k = 0; hk_k < 16; ++hk_k) hk_r[hk_k] = ROW(b + (base) + hk_k * (stride)); \
    HK_SQUARE(hk_r) \
    _Pragma("unroll") for (int hk_k = 0; hk_k < 16; ++hk_k) HK_TILE_STORE(AS(hk_r[hk_k]), a + (at) + hk_k * (pitch)); }
// Whole vectors, as VLOAD and VTO.
#ifdef HK_MACHINE_CODE
#define HK_ROW(T, n, p) ({ typedef T hk_row __attribute__((aligned(n), may_alias)); *(const __global hk_row*)(p); })
#define HK_TILE_STORE(v, p) \
  { typedef __typeof__(v) hk_row __attribute__((aligned(4), may_alias)); *(hk_row*)(p) = (v); }
#define HK_ROW_4(p) HK_ROW(float16, 4, p)
#define HK_ROW_i32(p) HK_ROW(float16, 4, p)
#else
#define HK_TILE_STORE(v, p) vstore16(v, 0, p)
#define HK_ROW_4(p) vload16(0, p)
#define HK_ROW_i32(p) as_float16(vload16(0, p))
#endif
#ifdef HK_INLINE_BUILTINS
typedef half hk_tile_halves __attribute__((ext_vector_type(16), aligned(2), may_alias));
#define HK_ROW_i8(p) as_float16(__builtin_convertvector(HK_ROW(char16, 1, p), int16))
#define HK_ROW_u8(p) as_float16(__builtin_convertvector(HK_ROW(uchar16, 1, p), int16))
#define HK_ROW_f16(p) __builtin_convertvector(*(const __global hk_tile_halves*)(p), float16)
#define HK_ROW_bf16(p) as_float16(__builtin_convertvector(HK_ROW(ushort16, 2, p), uint16) << 16)
#define HK_ROW_bits(p) as_float16(__builtin_convertvector(HK_ROW(ushort16, 2, p), int16))
#else
#define HK_ROW_i8(p) as_float16(convert_int16(vload16(0, p)))
#define HK_ROW_u8(p) as_float16(convert_int16(vload16(0, p)))
#define HK_ROW_f16(p) vload_half16(0, p)
#define HK_ROW_bf16(p) as_float16(convert_uint16(vload16(0, p)) << 16)
#define HK_ROW_bits(p) as_float16(convert_uint16(vload16(0, p)))
#endif
#define HK_SCALAR_TILE(b, base, stride, a, at, pitch) \
  { for (int hk_k = 0; hk_k < 16; ++hk_k) for (int hk_l = 0; hk_l < 16; ++hk_l) a[(at) + hk_l * (pitch) + hk_k] = b[(base) + hk_k * (stride) + hk_l]; }
#define HK_TILE_f32(b, base, stride, a, at, pitch, ahead) HK_TILE(b, base, stride, a, at, pitch, ahead, HK_ROW_4, )
#define HK_TILE_f16(b, base, stride, a, at, pitch, ahead) HK_TILE(b, base, stride, a, at, pitch, ahead, HK_ROW_f16, )
#define HK_TILE_bf16(b, base, stride, a, at, pitch, ahead) HK_TILE(b, base, stride, a, at, pitch, ahead, HK_ROW_bf16, )
#define HK_TILE_bits(b, base, stride, a, at, pitch, ahead) HK_TILE(b, base, stride, a, at, pitch, ahead, HK_ROW_bits, as_int16)
#define HK_TILE_i32(b, base, stride, a, at, pitch, ahead) HK_TILE(b, base, stride, a, at, pitch, ahead, HK_ROW_i32, as_int16)
#define HK_TILE_i8(b, base, stride, a, at, pitch, ahead) HK_TILE(b, base, stride, a, at, pitch, ahead, HK_ROW_i8, as_int16)
#define HK_TILE_u8(b, base, stride, a, at, pitch, ahead) HK_TILE(b, base, stride, a, at, pitch, ahead, HK_ROW_u8, as_int16)
#define HK_TILE_f64(b, base, stride, a, at, pitch, ahead) HK_SCALAR_TILE(b, base, stride, a, at, pitch)
#define HK_TILE_i64(b, base, stride, a, at, pitch, ahead) HK_SCALAR_TILE(b, base, stride, a, at, pitch)
#define TILE_LOAD(name, base, stride, array, at, pitch, ahead) TILE_LOAD_##name(base, stride, array, at, pitch, ahead)
//@ CU_PRODUCT
typedef float16 hk_words __attribute__((aligned(4), may_alias));
#define CU_TURN(from, words, to) \
  { float16 hk_r[16]; \
    _Pragma("unroll") for (int hk_k = 0; hk_k < 16; ++hk_k) hk_r[hk_k] = *(const hk_words*)(from + hk_k * 16); \
    HK_SQUARE(hk_r) \
    _Pragma("unroll") for (int hk_k = 0; hk_k < 16; ++hk_k) *(hk_words*)(words + (to) + hk_k * 16) = hk_r[hk_k]; }
#ifdef HK_HAS_CORE_UNITS
// AMX: registers 0 to 3 are the sums, 4 and 5 rows of A, 6 and 7 columns of B; 16 rows of 64 bytes each. Functions of their own are compiled for a
// processor that has them: PoCL takes processors for older ones that it knows, and what is inlined loses its attribute.
#define HK_CU_FUNC static __attribute__((noinline, target("amx-tile,amx-bf16")))
#define HK_CU_LOAD(unit, p, bytes) __builtin_ia32_tileloadd64(unit, (const __private void*)(p), (size_t)(bytes))
#define HK_CU_STORE(unit, p, bytes) __builtin_ia32_tilestored64(unit, (__private void*)(p), (size_t)(bytes))
HK_CU_FUNC void hk_cu_begin(void) {
  uint shape[16] __attribute__((aligned(64)));
  for (int k = 0; k < 16; ++k) shape[k] = k < 4 || k > 7 ? 0u : 0x00400040u;
  shape[0] = 1u;
  shape[12] = shape[13] = 0x10101010u;
  __builtin_ia32_tile_loadconfig((const __private void*)shape);
}
HK_CU_FUNC void hk_cu_end(void) { __builtin_ia32_tilerelease(); }
HK_CU_FUNC void hk_cu_product(const uint* a, const uint* b, uint steps, float* c, uint stride, uint adds) {
  float* d = c + 16u * stride;
  if (adds) {
    HK_CU_LOAD(0, c, 4u * stride); HK_CU_LOAD(1, c + 16, 4u * stride);
    HK_CU_LOAD(2, d, 4u * stride); HK_CU_LOAD(3, d + 16, 4u * stride);
  } else {
    __builtin_ia32_tilezero(0); __builtin_ia32_tilezero(1); __builtin_ia32_tilezero(2); __builtin_ia32_tilezero(3);
  }
  for (; steps > 0u; --steps) {
    HK_CU_LOAD(4, a, 64); HK_CU_LOAD(6, b, 64); __builtin_ia32_tdpbf16ps(0, 4, 6);
    HK_CU_LOAD(7, b + 256, 64); __builtin_ia32_tdpbf16ps(1, 4, 7);
    HK_CU_LOAD(5, a + 256, 64); __builtin_ia32_tdpbf16ps(2, 5, 6); __builtin_ia32_tdpbf16ps(3, 5, 7);
    a += 512;
    b += 512;
  }
  HK_CU_STORE(0, c, 4u * stride); HK_CU_STORE(1, c + 16, 4u * stride);
  HK_CU_STORE(2, d, 4u * stride); HK_CU_STORE(3, d + 16, 4u * stride);
}
#define CU_BEGIN() hk_cu_begin();
#define CU_END() hk_cu_end();
#define CU_PRODUCT(a, i, b, j, steps, c, at, stride, adds) hk_cu_product(a + (i), b + (j), steps, c + (at), stride, adds);
#elif defined(HK_HAS_PAIR_DOTS)
// AVX512-BF16: a lane of a vector gets two neighbours along k multiplied and added. 8 rows by two vectors of sums keep the unit busy.
#if __clang_major__ >= 16
typedef __bf16 hk_pairs __attribute__((vector_size(64)));
#else
typedef int hk_pairs __attribute__((vector_size(64)));
#endif
typedef float hk_sums __attribute__((vector_size(64)));
typedef float hk_loose_sums __attribute__((vector_size(64), aligned(4), may_alias));
typedef int hk_pair_words __attribute__((vector_size(64), aligned(4), may_alias));
static __attribute__((noinline, target("avx512f,avx512bf16"))) HK_WIDE void hk_cu_product(const uint* a, const uint* b, uint steps, float* c, uint stride,
                                                                                          uint adds) {
  for (uint first = 0u; first < 32u; first += 8u) {
    hk_sums sums[16];
    float* to = c + first * stride;
    UNROLL for (uint i = 0u; i < 16u; ++i) {
      sums[i] = (hk_sums){};
      if (adds) sums[i] = *(const hk_loose_sums*)(to + i / 2u * stride + i % 2u * 16u);
    }
    const uint* rows = a + first / 16u * 256u + first % 16u * 16u;
    const uint* columns = b;
    for (uint s = 0u; s < steps; ++s) {
      for (uint k = 0u; k < 16u; ++k) {
        hk_pairs left = (hk_pairs)*(const hk_pair_words*)(columns + k * 16u);
        hk_pairs right = (hk_pairs)*(const hk_pair_words*)(columns + 256u + k * 16u);
        UNROLL for (uint r = 0u; r < 8u; ++r) {
          hk_pairs both = (hk_pairs)(uint16)(rows[r * 16u + k]);
          sums[2u * r] = __builtin_ia32_dpbf16ps_512(sums[2u * r], both, left);
          sums[2u * r + 1u] = __builtin_ia32_dpbf16ps_512(sums[2u * r + 1u], both, right);
        }
      }
      rows += 512;
      columns += 512;
    }
    UNROLL for (uint i = 0u; i < 16u; ++i) *(hk_loose_sums*)(to + i / 2u * stride + i % 2u * 16u) = sums[i];
  }
}
#define CU_BEGIN()
#define CU_END()
#define CU_PRODUCT(a, i, b, j, steps, c, at, stride, adds) hk_cu_product(a + (i), b + (j), steps, c + (at), stride, adds);
#endif
//@ IN_ORDER
#ifdef HK_NO_CONTRACTION
#define IN_ORDER _Pragma("clang loop vectorize(disable)")
#else
#define IN_ORDER
#endif
//@ MULHI
// A 64-bit product vectorises; mul_hi may be a call.
#define MULHI(a, b) ((uint)(((ulong)(uint)(a) * (ulong)(uint)(b)) >> 32))
//@ FMA
#ifdef HK_INLINE_BUILTINS
#define HK_FUSED(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define HK_FUSED(a, b, c) fma(a, b, c)
#endif
FUNC float hk_fma(float a, float b, float c) { return HK_FUSED(a, b, c); }
#ifdef HK_HAS_F64
FUNC double hk_fma(double a, double b, double c) { return HK_FUSED(a, b, c); }
#endif
#define FMA(a, b, c) hk_fma(a, b, c)
//@ isnan isinf hk_isnan
#ifdef HK_HAS_F64
FUNC bool hk_isnan(double x) { return (as_ulong(x) & 0x7fffffffffffffffUL) > 0x7ff0000000000000UL; }
FUNC bool hk_isinf(double x) { return (as_ulong(x) & 0x7fffffffffffffffUL) == 0x7ff0000000000000UL; }
#endif
//@ HK_NAN
#define HK_NAN(a) ((a) != (a))
//@ abs
#ifdef HK_INLINE_BUILTINS
#define HK_FABS(x) __builtin_elementwise_abs(x)
#else
#define HK_FABS(x) fabs(x)
#endif
FUNC float hk_abs(float x) { return HK_FABS(x); }
#ifdef HK_HAS_F64
FUNC double hk_abs(double x) { return HK_FABS(x); }
#endif
#undef abs
#ifdef HK_MACHINE_CODE
FUNC int hk_abs(int x) { return x < 0 ? (int)(0u - (uint)x) : x; }
FUNC long hk_abs(long x) { return x < 0 ? (long)(0ul - (ulong)x) : x; }
#else
// OpenCL's own: clang makes llvm.abs of a choice, which Oclgrind does not know.
FUNC int hk_abs(int x) { return (int)abs(x); }
FUNC long hk_abs(long x) { return (long)abs(x); }
#endif
#define abs(x) hk_abs(x)
//@ sqrt rsqrt
#ifdef HK_INLINE_BUILTINS
FUNC float hk_sqrt(float x) { return __builtin_sqrtf(x); }
#ifdef HK_HAS_F64
FUNC double hk_sqrt(double x) { return __builtin_sqrt(x); }
#endif
#undef sqrt
#undef rsqrt
#define sqrt(x) hk_sqrt(x)
#define rsqrt(x) (1.0f / hk_sqrt(x))
#endif
//@ WIDEN
#define WIDEN(x) ((I64)(x))
//@ WADD WSUB WMUL
// Signed overflow is undefined in C: clang makes (I64)(x * x) a product of 64 bits.
#define HK_WRAPPING(T, U) \
  FUNC T hk_wadd(T a, T b) { return (T)((U)a + (U)b); } \
  FUNC T hk_wsub(T a, T b) { return (T)((U)a - (U)b); } \
  FUNC T hk_wmul(T a, T b) { return (T)((U)a * (U)b); }
HK_WRAPPING(int, uint)
HK_WRAPPING(long, ulong)
#define WADD(a, b) hk_wadd(a, b)
#define WSUB(a, b) hk_wsub(a, b)
#define WMUL(a, b) hk_wmul(a, b)
//@ hk_rint round
// One instruction where clang knows one; PoCL's own rint is twenty.
#if defined(__has_builtin)
#if __has_builtin(__builtin_rintf) && (defined(__SSE4_1__) || defined(__aarch64__))
FUNC float hk_rint(float x) { return __builtin_rintf(x); }
#ifdef HK_HAS_F64
FUNC double hk_rint(double x) { return __builtin_rint(x); }
#endif
#else
#define hk_rint(x) rint(x)
#endif
#else
#define hk_rint(x) rint(x)
#endif
#undef round
#define round(x) hk_rint(x)
//@ floor ceil trunc
#if defined(__has_builtin)
#if __has_builtin(__builtin_floorf) && (defined(__SSE4_1__) || defined(__aarch64__))
FUNC float hk_floor(float x) { return __builtin_floorf(x); }
FUNC float hk_ceil(float x) { return __builtin_ceilf(x); }
FUNC float hk_trunc(float x) { return __builtin_truncf(x); }
#ifdef HK_HAS_F64
FUNC double hk_floor(double x) { return __builtin_floor(x); }
FUNC double hk_ceil(double x) { return __builtin_ceil(x); }
FUNC double hk_trunc(double x) { return __builtin_trunc(x); }
#endif
#undef floor
#undef ceil
#undef trunc
#define floor(x) hk_floor(x)
#define ceil(x) hk_ceil(x)
#define trunc(x) hk_trunc(x)
#endif
#endif
// The functions below inline to straight-line code, which vectorises over VLOOPs and lanes; a driver's own may be calls.
//@ exp
#ifdef HK_HAS_F64
FUNC double hk_exp(double x) { return exp(x); }
#endif
#undef exp
#define exp(x) hk_exp(x)
//@ expm1
#ifdef HK_HAS_F64
FUNC double hk_expm1(double x) { return expm1(x); }
#endif
#undef expm1
#define expm1(x) hk_expm1(x)
//@ log
#ifdef HK_HAS_F64
FUNC double hk_log(double x) { return log(x); }
#endif
#undef log
#define log(x) hk_log(x)
//@ log1p
#ifdef HK_HAS_F64
FUNC double hk_log1p(double x) { return log1p(x); }
#endif
#undef log1p
#define log1p(x) hk_log1p(x)
//@ tanh
#ifdef HK_HAS_F64
FUNC double hk_tanh(double x) { return tanh(x); }
#endif
#undef tanh
#define tanh(x) hk_tanh(x)
//@ erf
#ifdef HK_HAS_F64
FUNC double hk_erf(double x) { return erf(x); }
#endif
#undef erf
#define erf(x) hk_erf(x)
//@ sin
#ifdef HK_HAS_F64
FUNC double hk_sin(double x) { return sin(x); }
#endif
#undef sin
#define sin(x) hk_sin(x)
//@ cos
#ifdef HK_HAS_F64
FUNC double hk_cos(double x) { return cos(x); }
#endif
#undef cos
#define cos(x) hk_cos(x)
//@ tan
#ifdef HK_HAS_F64
FUNC double hk_tan(double x) { return tan(x); }
#endif
#undef tan
#define tan(x) hk_tan(x)
//@ erfc
#ifdef HK_HAS_F64
FUNC double hk_erfc(double x) { return erfc(x); }
#endif
#undef erfc
#define erfc(x) hk_erfc(x)
//@ erfinv
#ifdef HK_HAS_F64
// Newton's steps from Winitzki's approximation.
FUNC double hk_erfinv(double x) {
  double l = log1p(-x * x);
  double t = 4.3307467508 + 0.5 * l;
  double y = sqrt(sqrt(t * t - l / 0.147) - t);
  double a = x < 0.0 ? -x : x;
  for (int i = 0; i < 4; ++i) {
    double error = a < 0.5 ? erf(y) - a : (1.0 - a) - erfc(y);
    y -= error * exp(y * y) * 0.88622692545275801;
  }
  y = x < 0.0 ? -y : y;
  return a == 1.0 ? x * INFINITY : y;
}
#endif
#define erfinv(x) hk_erfinv(x)
//@ lgamma
#ifdef HK_HAS_F64
FUNC double hk_lgamma(double x) { return lgamma(x); }
#endif
#undef lgamma
#define lgamma(x) hk_lgamma(x)
//@ COPYSIGN
#ifdef HK_INLINE_BUILTINS
FUNC float hk_copysign(float x, float y) { return __builtin_copysignf(x, y); }
#ifdef HK_HAS_F64
FUNC double hk_copysign(double x, double y) { return __builtin_copysign(x, y); }
#endif
#define COPYSIGN(x, y) hk_copysign(x, y)
#else
#define COPYSIGN(x, y) copysign(x, y)
#endif
//@ pow
#ifdef HK_HAS_F64
FUNC double hk_pow(double x, double y) { return pow(x, y); }
#endif
#undef pow
#define pow(x, y) hk_pow(x, y)
//@ atan2
#ifdef HK_HAS_F64
FUNC double hk_atan2(double x, double y) { return atan2(x, y); }
#endif
#undef atan2
#define atan2(x, y) hk_atan2(x, y)
//@ fmod
#ifdef HK_HAS_F64
FUNC double hk_fmod(double x, double y) { return fmod(x, y); }
#endif
#undef fmod
#define fmod(x, y) hk_fmod(x, y)
//@ VQUAD
#define VQUAD(name, q) as_float4(q)
//@ READ_4
// Four neighbours of a shared array: Intel's compiler finds them where an addition has become an `or` only so; and folds
// a constant distance into an address that is added to the pointer by itself.
#define READ_4_OF(T, to, first, tile, at, distance) { \
    T##4 hk_four = vload4(0, tile + (at) + (distance)); \
    to[first] = hk_four.x; \
    to[first + 1] = hk_four.y; \
    to[first + 2] = hk_four.z; \
    to[first + 3] = hk_four.w; \
  }
#define READ_4(T, to, first, tile, at, distance) READ_4_OF(T, to, first, tile, at, distance)
//@ QUAD LOAD_QUAD QUAD_ASYNC
// Sixteen bytes at a time.
#define QUAD uint4
#define QUAD_ZERO ((uint4)(0u))
#define QUAD_AT(q, j) (((const uint*)&(q))[j])
#define LOAD_QUAD(name, i) (*(const __global uint4*)(hk_##name + (i)))
#define QUAD_TO(array, i, q) *(__local uint4*)(array + (i)) = (q)
#define HK_QUAD_f16(q, j) HK_HALF_AT((const half*)&(q), j)
//@ SHUFFLE_XOR GROUP_SUM GROUP_MAX GROUP_MIN
// HK_HAS_SUBGROUPS: the device has them. The macros of clang say only that the compiler knows them (Oclgrind).
#if defined(HK_HAS_SUBGROUPS) && (defined(cl_khr_subgroup_shuffle) || defined(cl_intel_subgroups))
#define HAS_SUBGROUPS 1
#ifdef cl_khr_subgroup_shuffle
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#define SHUFFLE_XOR(x, d) sub_group_shuffle_xor(x, (uint)(d))
#else
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define SHUFFLE_XOR(x, d) intel_sub_group_shuffle_xor(x, (uint)(d))
#endif
#define HK_SUBGROUP_SIZE get_max_sub_group_size()
#define HK_SUBGROUP_ID get_sub_group_id()
#define HK_SUBGROUP_LANE get_sub_group_local_id()
#define HK_NUM_SUBGROUPS get_num_sub_groups()
// Always: PoCL copies all that follows a barrier under a condition, and four reductions took it 20 minutes.
#define HK_SEVERAL_SUBGROUPS true
#else
#define HAS_SUBGROUPS 0
#endif
//@ DOT4
// c + the sum of four products of signed bytes.
#if defined(HK_HAS_INT8_DOT) && defined(cl_khr_integer_dot_product)
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#define DOT4(a, b, c) ((c) + dot_4x8packed_ss_int(a, b))
#else
#define DOT4(a, b, c) hk_dot4(a, b, c)
#endif
//@ hk_to_f16
FUNC ushort hk_to_f16(float v) { ushort h; HK_HALF_TO((half*)&h, v); return h; }
//@ MMA_BITS hk_mma_get_f16
FUNC float hk_mma_get_f16(uint w, uint j) { ushort h = (ushort)(w >> (j * 16u)); return HK_HALF_AT((const half*)&h, 0); }
//@ MMA
#define HK_MMA_PRIVATE
