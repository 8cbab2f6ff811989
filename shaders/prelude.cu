// The Heddle dialect in CUDA C++ (NVRTC, no includes). Language and rules: shaders/README.md. "//@" lines cut this file into sections.
//@
typedef unsigned int uint;
#define FUNC static __device__ __forceinline__
FUNC uint hk_axis(uint3 v, int d) { return d == 0 ? v.x : d == 1 ? v.y : v.z; }
FUNC uint hk_axis(dim3 v, int d) { return d == 0 ? v.x : d == 1 ? v.y : v.z; }
#define GROUP_ID(d) hk_axis(blockIdx, d)
#define LOCAL_ID(d) hk_axis(threadIdx, d)
#define NUM_GROUPS(d) hk_axis(gridDim, d)
#define GROUP_LINEAR (blockIdx.x + blockIdx.y * gridDim.x)
typedef uint INDEX;
#define BARRIER() __syncthreads()
#define CAST(T, x) ((T)(x))
#define AS_FLOAT(x) __uint_as_float(x)
#define AS_UINT(x) __float_as_uint(x)
#define PRECISE
#ifndef HK_RESIDENT  // ", 1" where the compiler is to leave a lane the registers that it needs (backend_cuda/nvrtc.cpp)
#define HK_RESIDENT
#endif
#define UNROLL _Pragma("unroll")
#define ARRAY(T, name, count) T name[count]
#define VLOOP
#define VLOOP_LONG
#define VLOOP_OF(n)
#define WILL_READ(name, i)
#define WILL_WRITE(name, i)
#undef INFINITY
#undef NAN
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#ifdef HK_HAS_F64
typedef double F64;
#endif
typedef long long I64;
#define HK_LOAD_i8(b, i) ((int)b[i])
#define HK_STORE_i8(b, i, v) b[i] = (signed char)(v)
#define HK_LOAD_u8(b, i) ((int)b[i])
#define HK_STORE_u8(b, i, v) b[i] = (unsigned char)(v)
#define HK_LOAD_bool(b, i) (b[i] != 0)
#define HK_STORE_bool(b, i, v) b[i] = (unsigned char)((v) ? 1 : 0)
//@ HK_LOAD_f16 hk_to_f16
FUNC float hk_from_f16(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
FUNC unsigned short hk_to_f16(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
#define HK_LOAD_f16(b, i) hk_from_f16(b[i])
#define HK_STORE_f16(b, i, v) b[i] = hk_to_f16(v)
//@ HK_LOAD_bits
#define HK_LOAD_bits(b, i) ((int)b[i])
#define HK_STORE_bits(b, i, v) b[i] = (unsigned short)(v)
//@ HK_LOAD_bf16 hk_to_bf16
FUNC unsigned short hk_to_bf16(float v) {
  uint f = __float_as_uint(v);
  return (unsigned short)((f & 0x7fffffffu) > 0x7f800000u ? (f >> 16) | 0x40u : (f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
}
#define HK_LOAD_bf16(b, i) __uint_as_float((uint)b[i] << 16)
#define HK_STORE_bf16(b, i, v) b[i] = hk_to_bf16(v)
//@ VEC
#if HK_VW == 1
#define VEC float
#define VSPLAT(x) ((float)(x))
#define VSUM(v) (v)
#define VZIP_LOW(a, b) (a)
#define VZIP_HIGH(a, b) (b)
#define VEVEN(a, b) (a)
#define VODD(a, b) (b)
#define VSLIDE(a, b, i) ((i) == 0u ? (a) : (b))
#define VFMA(a, b, c) fmaf(a, b, c)
#define VSELECT(m, a, b) ((m) != 0.0f ? (a) : (b))
#define HK_GATHER(load, b, i) load(b, i)
#define HK_SCATTER(store, b, i, v) store(b, i, v)
#define VFROM(array, i) array[i]
#define VTO(array, i, v) array[i] = (v)
#elif HK_VW == 4
struct hk_vec4 { float x, y, z, w; };
#define HK_VECTOR_OPERATOR(op) \
  FUNC hk_vec4 operator op(hk_vec4 a, hk_vec4 b) { return hk_vec4{a.x op b.x, a.y op b.y, a.z op b.z, a.w op b.w}; } \
  FUNC hk_vec4 operator op(hk_vec4 a, float b) { return hk_vec4{a.x op b, a.y op b, a.z op b, a.w op b}; } \
  FUNC hk_vec4 operator op(float a, hk_vec4 b) { return hk_vec4{a op b.x, a op b.y, a op b.z, a op b.w}; }
HK_VECTOR_OPERATOR(+)
HK_VECTOR_OPERATOR(-)
HK_VECTOR_OPERATOR(*)
HK_VECTOR_OPERATOR(/)
FUNC hk_vec4 hk_splat(float x) { return hk_vec4{x, x, x, x}; }
FUNC hk_vec4 hk_vfma(hk_vec4 a, hk_vec4 b, hk_vec4 c) {
  return hk_vec4{fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w)};
}
FUNC hk_vec4 hk_vselect(hk_vec4 m, hk_vec4 a, hk_vec4 b) {
  return hk_vec4{m.x != 0.0f ? a.x : b.x, m.y != 0.0f ? a.y : b.y, m.z != 0.0f ? a.z : b.z, m.w != 0.0f ? a.w : b.w};
}
FUNC float hk_vsum(hk_vec4 v) { return (v.x + v.z) + (v.y + v.w); }
#define VEC hk_vec4
#define VSPLAT(x) hk_splat(x)
#define VSUM(v) hk_vsum(v)
FUNC hk_vec4 hk_zip_low(hk_vec4 a, hk_vec4 b) { return hk_vec4{a.x, b.x, a.y, b.y}; }
FUNC hk_vec4 hk_zip_high(hk_vec4 a, hk_vec4 b) { return hk_vec4{a.z, b.z, a.w, b.w}; }
#define VZIP_LOW(a, b) hk_zip_low(a, b)
#define VZIP_HIGH(a, b) hk_zip_high(a, b)
FUNC hk_vec4 hk_even(hk_vec4 a, hk_vec4 b) { return hk_vec4{a.x, a.z, b.x, b.z}; }
FUNC hk_vec4 hk_odd(hk_vec4 a, hk_vec4 b) { return hk_vec4{a.y, a.w, b.y, b.w}; }
#define VEVEN(a, b) hk_even(a, b)
#define VODD(a, b) hk_odd(a, b)
FUNC hk_vec4 hk_slide(hk_vec4 a, hk_vec4 b, uint i) {
  return i == 0u ? a : i == 1u ? hk_vec4{a.y, a.z, a.w, b.x} : i == 2u ? hk_vec4{a.z, a.w, b.x, b.y} : i == 3u ? hk_vec4{a.w, b.x, b.y, b.z} : b;
}
#define VSLIDE(a, b, i) hk_slide(a, b, i)
#define VFMA(a, b, c) hk_vfma(a, b, c)
#define VSELECT(m, a, b) hk_vselect(m, a, b)
#define HK_GATHER(load, b, i) hk_vec4{load(b, (i)), load(b, (i) + 1u), load(b, (i) + 2u), load(b, (i) + 3u)}
#define HK_SCATTER(store, b, i, v) { hk_vec4 hk_v = (v); store(b, (i), hk_v.x); store(b, (i) + 1u, hk_v.y); store(b, (i) + 2u, hk_v.z); store(b, (i) + 3u, hk_v.w); }
#define VFROM(array, i) hk_vec4{array[(i)], array[(i) + 1u], array[(i) + 2u], array[(i) + 3u]}
#define VTO(array, i, v) { hk_vec4 hk_v = (v); array[(i)] = hk_v.x; array[(i) + 1u] = hk_v.y; array[(i) + 2u] = hk_v.z; array[(i) + 3u] = hk_v.w; }
#else
#error "VW: CUDA has vectors of 1 or 4 floats"
#endif
#define HK_VLOAD_f32(b, i) HK_GATHER(HK_LOAD_f32, b, i)
#define HK_VLOAD_f16(b, i) HK_GATHER(HK_LOAD_f16, b, i)
#define HK_VLOAD_bf16(b, i) HK_GATHER(HK_LOAD_bf16, b, i)
#define HK_VSTORE_f32(b, i, v) HK_SCATTER(HK_STORE_f32, b, i, v)
#define HK_VSTORE_f16(b, i, v) HK_SCATTER(HK_STORE_f16, b, i, v)
#define HK_VSTORE_bf16(b, i, v) HK_SCATTER(HK_STORE_bf16, b, i, v)
//@ VTRANSPOSE
#if HK_VW == 1
#define VTRANSPOSE(a)
#else
#define VTRANSPOSE(a) { VEC hk_t[4]; UNROLL for (uint hk_i = 0u; hk_i < 4u; ++hk_i) hk_t[hk_i] = a[hk_i]; a[0] = hk_vec4{hk_t[0].x, hk_t[1].x, hk_t[2].x, hk_t[3].x}; a[1] = hk_vec4{hk_t[0].y, hk_t[1].y, hk_t[2].y, hk_t[3].y}; a[2] = hk_vec4{hk_t[0].z, hk_t[1].z, hk_t[2].z, hk_t[3].z}; a[3] = hk_vec4{hk_t[0].w, hk_t[1].w, hk_t[2].w, hk_t[3].w}; }
#endif
//@ MULHI
#define MULHI(a, b) __umulhi(a, b)
//@ ROLLED
#define ROLLED _Pragma("unroll 1")
//@ FMA
FUNC float hk_fma(float a, float b, float c) { return fmaf(a, b, c); }
FUNC double hk_fma(double a, double b, double c) { return fma(a, b, c); }
#define FMA(a, b, c) hk_fma(a, b, c)
//@ isnan isinf hk_isnan
FUNC bool hk_isnan(double x) { return (__double_as_longlong(x) & 0x7fffffffffffffffll) > 0x7ff0000000000000ll; }
FUNC bool hk_isinf(double x) { return (__double_as_longlong(x) & 0x7fffffffffffffffll) == 0x7ff0000000000000ll; }
//@ HK_NAN
#define HK_NAN(a) ((a) != (a))
//@ abs
FUNC float hk_abs(float x) { return fabsf(x); }
FUNC double hk_abs(double x) { return ::fabs(x); }
FUNC int hk_abs(int x) { return x < 0 ? (int)(0u - (uint)x) : x; }
FUNC I64 hk_abs(I64 x) { return x < 0 ? (I64)(0ull - (unsigned long long)x) : x; }
#define abs(x) hk_abs(x)
//@ WADD WSUB WMUL
// Signed overflow is undefined in C++.
#define HK_WRAPPING(T, U) \
  FUNC T hk_wadd(T a, T b) { return (T)((U)a + (U)b); } \
  FUNC T hk_wsub(T a, T b) { return (T)((U)a - (U)b); } \
  FUNC T hk_wmul(T a, T b) { return (T)((U)a * (U)b); }
HK_WRAPPING(int, uint)
HK_WRAPPING(I64, unsigned long long)
#define WADD(a, b) hk_wadd(a, b)
#define WSUB(a, b) hk_wsub(a, b)
#define WMUL(a, b) hk_wmul(a, b)
//@ WIDEN
#define WIDEN(x) ((I64)(x))
//@ round
// Overloads of the C++ kind: exp, log, sin, ... already take float or double.
FUNC float hk_round(float x) { return rintf(x); }
FUNC double hk_round(double x) { return ::rint(x); }
#define round(x) hk_round(x)
//@ COPYSIGN
FUNC float hk_copysign(float x, float y) { return copysignf(x, y); }
FUNC double hk_copysign(double x, double y) { return ::copysign(x, y); }
#define COPYSIGN(x, y) hk_copysign(x, y)
//@ rsqrt
FUNC float hk_rsqrt(float x) { return rsqrtf(x); }
FUNC double hk_rsqrt(double x) { return ::rsqrt(x); }
#define rsqrt(x) hk_rsqrt(x)
//@ VQUAD
#if HK_VW == 4
FUNC hk_vec4 hk_vquad(uint4 q) { return hk_vec4{__uint_as_float(q.x), __uint_as_float(q.y), __uint_as_float(q.z), __uint_as_float(q.w)}; }
#define VQUAD(name, q) hk_vquad(q)
#endif
//@ QUAD LOAD_QUAD QUAD_ASYNC
// Sixteen bytes at a time.
#define QUAD uint4
#define QUAD_ZERO uint4{0u, 0u, 0u, 0u}
#define QUAD_AT(q, j) ((&(q).x)[j])
#define LOAD_QUAD(name, i) (*(const uint4*)(hk_##name + (i)))
#define QUAD_TO(array, i, q) *(uint4*)(array + (i)) = (q)
#define HK_QUAD_f16(q, j) hk_from_f16((unsigned short)(QUAD_AT(q, (j) / 2) >> ((j) % 2 * 16)))
#if __CUDA_ARCH__ >= 800
FUNC uint hk_shared_address(const void* p) { return (uint)__cvta_generic_to_shared(p); }
FUNC void hk_async16(void* to, const void* from, bool valid) {
  int bytes = valid ? 16 : 0;  // the rest of 16 is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(hk_shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
#define QUAD_ASYNC(array, i, name, j, valid) hk_async16(array + (i), hk_##name + (j), valid);
#define ASYNC_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#endif
//@ SHUFFLE_XOR GROUP_SUM GROUP_MAX GROUP_MIN
#define HAS_SUBGROUPS 1
#define HK_SHUFFLE_MASK (GROUP_SIZE(0) >= 32u ? 0xffffffffu : (1u << (GROUP_SIZE(0) % 32u)) - 1u)
#define SHUFFLE_XOR(x, d) __shfl_xor_sync(HK_SHUFFLE_MASK, x, (int)(d))
#define HK_SUBGROUP_SIZE 32u
#define HK_SUBGROUP_ID (threadIdx.x / 32u)
#define HK_SUBGROUP_LANE (threadIdx.x % 32u)
#define HK_NUM_SUBGROUPS ((GROUP_SIZE(0) + 31u) / 32u)
#define HK_SEVERAL_SUBGROUPS (HK_NUM_SUBGROUPS > 1u)
//@ DOT4
// c + the sum of four products of signed bytes.
#define DOT4(a, b, c) __dp4a((int)(a), (int)(b), c)
//@ MMA
#if __CUDA_ARCH__ < 800
#error "matrix units are used from sm_80 on"
#endif
// Fragments of 16 rows by 32 bytes: two m16n8 instructions side by side. Layouts: PTX ISA, "Matrix fragments for mma.m16n8k16" (k8, k32).
#define MMA_EMULATED 0
#define MMA_UNROLL UNROLL
#define UNIT_ID (threadIdx.x / 32u)
#define UNIT_LANE (threadIdx.x % 32u)
#define UNIT_BARRIER() __syncwarp()
struct hk_mma_ab { uint r[4]; };
struct hk_mma_float { float r[8]; };
struct hk_mma_int { int r[8]; };
#define HK_MMA_A_f16 hk_mma_ab
#define HK_MMA_A_bf16 hk_mma_ab
#define HK_MMA_A_tf32 hk_mma_ab
#define HK_MMA_A_i8 hk_mma_ab
#define HK_MMA_B_f16 hk_mma_ab
#define HK_MMA_B_bf16 hk_mma_ab
#define HK_MMA_B_tf32 hk_mma_ab
#define HK_MMA_B_i8 hk_mma_ab
#define HK_MMA_C_f16 hk_mma_float
#define HK_MMA_C_bf16 hk_mma_float
#define HK_MMA_C_tf32 hk_mma_float
#define HK_MMA_C_i8 hk_mma_int
FUNC uint hk_mma_address(const void* p) { return (uint)__cvta_generic_to_shared(p); }
FUNC void hk_ldmatrix(hk_mma_ab& f, const uint* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]) : "r"(hk_mma_address(p)) : "memory");
}
FUNC void hk_ldmatrix_trans(hk_mma_ab& f, const uint* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]) : "r"(hk_mma_address(p)) : "memory");
}
FUNC void hk_mma_load_a(hk_mma_ab& f, const uint* p, uint stride, bool along_k) {
  uint l = UNIT_LANE;
  if (along_k) {
    hk_ldmatrix(f, p + l % 16u * stride + l / 16u * 4u);
  } else {
    hk_ldmatrix_trans(f, p + (l / 16u * 8u + l % 8u) * stride + l / 8u % 2u * 4u);
  }
}
FUNC void hk_mma_load_b(hk_mma_ab& f, const uint* p, uint stride, bool along_k) {
  uint l = UNIT_LANE;
  if (along_k) {
    hk_ldmatrix(f, p + (l / 16u * 8u + l % 8u) * stride + l / 8u % 2u * 4u);
  } else {
    hk_ldmatrix_trans(f, p + l % 16u * stride + l / 16u * 4u);
  }
}
FUNC void hk_to_tf32(hk_mma_ab& f) {
  _Pragma("unroll") for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(f.r[i]) : "f"(__uint_as_float(f.r[i])));
}
#define HK_MMA_ROUND_f16(f)
#define HK_MMA_ROUND_bf16(f)
#define HK_MMA_ROUND_i8(f)
#define HK_MMA_ROUND_tf32(f) hk_to_tf32(f);
#define MMA_LOAD_A(kind, f, array, at, stride, along_k) { hk_mma_load_a(f, array + (at), stride, (along_k) != 0); HK_PASTE(HK_MMA_ROUND_, kind)(f) }
#define MMA_LOAD_B(kind, f, array, at, stride, along_k) { hk_mma_load_b(f, array + (at), stride, (along_k) != 0); HK_PASTE(HK_MMA_ROUND_, kind)(f) }
#define HK_MMA_FLOAT(name, shape) \
  FUNC void name(hk_mma_float& c, const hk_mma_ab& a, const hk_mma_ab& b) { \
    _Pragma("unroll") for (int i = 0; i < 2; ++i) { \
      asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                   : "+f"(c.r[4 * i]), "+f"(c.r[4 * i + 1]), "+f"(c.r[4 * i + 2]), "+f"(c.r[4 * i + 3]) \
                   : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[2 * i]), "r"(b.r[2 * i + 1])); \
    } \
  }
HK_MMA_FLOAT(hk_mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
HK_MMA_FLOAT(hk_mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
HK_MMA_FLOAT(hk_mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
FUNC void hk_mma_i8(hk_mma_int& c, const hk_mma_ab& a, const hk_mma_ab& b) {
  _Pragma("unroll") for (int i = 0; i < 2; ++i) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c.r[4 * i]), "+r"(c.r[4 * i + 1]), "+r"(c.r[4 * i + 2]), "+r"(c.r[4 * i + 3])
                 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[2 * i]), "r"(b.r[2 * i + 1]));
  }
}
#define MMA(kind, acc, a, b) HK_PASTE(hk_mma_, kind)(acc, a, b)
#define MMA_ZERO(kind, acc) { _Pragma("unroll") for (int hk_i = 0; hk_i < 8; ++hk_i) acc.r[hk_i] = 0; }
// r[4 * i + 2 * h + j]: row lane / 4 + 8 h, column 8 i + lane % 4 * 2 + j
#define MMA_STORE(kind, array, at, stride, acc) { \
  _Pragma("unroll") for (uint hk_i = 0u; hk_i < 8u; ++hk_i) { \
    array[(at) + (UNIT_LANE / 4u + hk_i / 2u % 2u * 8u) * (stride) + hk_i / 4u * 8u + UNIT_LANE % 4u * 2u + hk_i % 2u] = acc.r[hk_i]; \
  } \
}
//@ WG_MULTIPLY
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#error "warpgroups multiply on sm_90a"
#endif
// Warpgroups of 128 lanes: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". The shuffle says that a warp's
// lanes have one value.
#define WG_UNROLL UNROLL
#define WG_ID __shfl_sync(0xffffffffu, threadIdx.x / 128u, 0)
#define WG_SHOW() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define WG_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WG_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WG_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
// Where sums may be read: behind the wait, which says nothing to the compiler of registers.
#define WG_SUMS(acc, count) { UNROLL for (uint hk_i = 0u; hk_i < (count); ++hk_i) asm volatile("" : "+f"(acc[hk_i]) :: "memory"); }
// A matrix descriptor, in units of 16 bytes: where it starts, from one block of 64 rows or columns to the next (8 KiB; of rows along k it says
// nothing), from 8 rows to the next 8 (1 KiB), and the swizzle of 128 bytes.
FUNC unsigned long long hk_wg_matrix(const uint* p, bool along_k) {
  unsigned long long start = ((uint)__cvta_generic_to_shared(p) & 0x3ffffu) >> 4;
  return start | (along_k ? 1ull : 512ull) << 16 | 64ull << 32 | 1ull << 62;
}
#define HK_WG_REGISTERS_64 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HK_WG_REGISTERS_128 HK_WG_REGISTERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HK_WG_REGISTERS_192 HK_WG_REGISTERS_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define HK_WG_REGISTERS_256 HK_WG_REGISTERS_192 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define HK_WG_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define HK_WG_16(i) HK_WG_4(i), HK_WG_4((i) + 4), HK_WG_4((i) + 8), HK_WG_4((i) + 12)
#define HK_WG_SUMS_64 HK_WG_16(0), HK_WG_16(16)
#define HK_WG_SUMS_128 HK_WG_SUMS_64, HK_WG_16(32), HK_WG_16(48)
#define HK_WG_SUMS_192 HK_WG_SUMS_128, HK_WG_16(64), HK_WG_16(80)
#define HK_WG_SUMS_256 HK_WG_SUMS_192, HK_WG_16(96), HK_WG_16(112)
// The predicate says that what the sums were counts; the numbers that no operand is negated, and whether a and b are turned.
#define HK_WG_FUNCTION(n, kind, a, b, turn_a, turn_b) \
  template <int TurnA, int TurnB> \
  FUNC void hk_wg_##kind##_##n(float* d, unsigned long long left, unsigned long long right) { \
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #kind "." #kind " {" HK_WG_REGISTERS_##n "}, " a ", " b ", p, 1, 1, " \
                 turn_a ", " turn_b ";\n}" \
                 : HK_WG_SUMS_##n : "l"(left), "l"(right), "n"(TurnA), "n"(TurnB)); \
  }
HK_WG_FUNCTION(64, f16, "%32", "%33", "%34", "%35")
HK_WG_FUNCTION(64, bf16, "%32", "%33", "%34", "%35")
HK_WG_FUNCTION(128, f16, "%64", "%65", "%66", "%67")
HK_WG_FUNCTION(128, bf16, "%64", "%65", "%66", "%67")
HK_WG_FUNCTION(192, f16, "%96", "%97", "%98", "%99")
HK_WG_FUNCTION(192, bf16, "%96", "%97", "%98", "%99")
HK_WG_FUNCTION(256, f16, "%128", "%129", "%130", "%131")
HK_WG_FUNCTION(256, bf16, "%128", "%129", "%130", "%131")
#define HK_WG_NAME_(kind, n) hk_wg_##kind##_##n
#define HK_WG_NAME(kind, n) HK_WG_NAME_(kind, n)
#define WG_MULTIPLY(kind, n, acc, first, array, a_at, a_along_k, b_at, b_along_k) \
  HK_WG_NAME(kind, n)<(a_along_k) == 0, (b_along_k) == 0>(acc + (first), hk_wg_matrix(array + (a_at), (a_along_k) != 0), \
                                                         hk_wg_matrix(array + (b_at), (b_along_k) != 0));
