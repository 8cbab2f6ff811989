// The Heddle dialect in GLSL 4.50 (Vulkan). Language and rules: shaders/README.md. "//@" lines cut this file into sections.
//@
#define GROUP_ID(d) gl_WorkGroupID[d]
#define LOCAL_ID(d) gl_LocalInvocationID[d]
#define NUM_GROUPS(d) gl_NumWorkGroups[d]
#define GROUP_LINEAR (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x)
#define INDEX uint
#define BARRIER() { memoryBarrierShared(); barrier(); }
#define CAST(T, x) T(x)
#define AS_FLOAT(x) uintBitsToFloat(x)
#define AS_UINT(x) floatBitsToUint(x)
#define FUNC
#define PRECISE precise
#define UNROLL [[unroll]]
#define ARRAY(T, name, count) T name[count]
#define VLOOP
#define VLOOP_LONG
#define VLOOP_OF(n)
#define WILL_READ(name, i)
#define WILL_WRITE(name, i)
#define INFINITY uintBitsToFloat(0x7f800000u)
#define NAN uintBitsToFloat(0x7fc00000u)
#ifdef HK_HAS_F64
#define F64 double
#endif
#ifdef HK_HAS_I64
#define I64 int64_t
#endif
//@ HK_HALVES_BY_INTEGERS
// For drivers whose compiler cannot convert halves (dies-of-halves in core/contract/quirks.cpp).
float hk_from_f16(uint h) {
  uint exponent = h & 0x7c00u;
  uint f = ((h & 0x7fffu) << 13) + (exponent == 0x7c00u ? 0x70000000u : 0x38000000u);
  float tiny = uintBitsToFloat(f + 0x800000u) - uintBitsToFloat(0x38800000u);
  return uintBitsToFloat((exponent == 0u ? floatBitsToUint(tiny) : f) | (h & 0x8000u) << 16);
}
vec2 hk_halves(uint w) { return vec2(hk_from_f16(w & 0xffffu), hk_from_f16(w >> 16)); }
#define unpackHalf2x16(w) hk_halves(w)
//@ HK_LOAD_i8
#define HK_LOAD_i8(b, i) int(b[i])
#define HK_STORE_i8(b, i, v) b[i] = int8_t(v)
//@ HK_LOAD_u8
#define HK_LOAD_u8(b, i) int(b[i])
#define HK_STORE_u8(b, i, v) b[i] = uint8_t(v)
//@ HK_LOAD_bool
#define HK_LOAD_bool(b, i) (uint(b[i]) != 0u)
#define HK_STORE_bool(b, i, v) b[i] = uint8_t((v) ? 1u : 0u)
//@ HK_LOAD_f16 hk_to_f16
// Rounding of a float16_t conversion is the driver's choice, so the store rounds to nearest even by integers.
uint hk_to_f16(float v) {
  uint f = floatBitsToUint(v);
  uint sign = (f >> 16) & 0x8000u;
  f &= 0x7fffffffu;
  uint tiny = floatBitsToUint(uintBitsToFloat(f) + 0.5) - 0x3f000000u;
  uint normal = (f - 0x38000000u + 0xfffu + ((f >> 13) & 1u)) >> 13;
  uint special = f > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return sign | (f >= 0x47800000u ? special : f < 0x38800000u ? tiny : normal);
}
#define HK_LOAD_f16(b, i) unpackHalf2x16(uint(b[i])).x
#define HK_STORE_f16(b, i, v) b[i] = uint16_t(hk_to_f16(v))
//@ HK_LOAD_bits
#define HK_LOAD_bits(b, i) int(b[i])
#define HK_STORE_bits(b, i, v) b[i] = uint16_t(v)
//@ HK_LOAD_bf16 hk_to_bf16
uint hk_to_bf16(float v) {
  uint f = floatBitsToUint(v);
  return (f & 0x7fffffffu) > 0x7f800000u ? (f >> 16) | 0x40u : (f + 0x7fffu + ((f >> 16) & 1u)) >> 16;
}
#define HK_LOAD_bf16(b, i) uintBitsToFloat(uint(b[i]) << 16)
#define HK_STORE_bf16(b, i, v) b[i] = uint16_t(hk_to_bf16(v))
//@ VEC
#if HK_VW == 1
#define VEC float
#define VSPLAT(x) float(x)
#define VSUM(v) (v)
#define VZIP_LOW(a, b) (a)
#define VZIP_HIGH(a, b) (b)
#define VEVEN(a, b) (a)
#define VODD(a, b) (b)
#define VSLIDE(a, b, i) ((i) == 0u ? (a) : (b))
#define VSELECT(m, a, b) ((m) != 0.0f ? (a) : (b))
#define HK_GATHER(load, b, i) load(b, i)
#define HK_SCATTER(store, b, i, v) store(b, i, v)
#define VFROM(array, i) array[i]
#define VTO(array, i, v) array[i] = (v)
#elif HK_VW == 4
#define VEC vec4
#define VSPLAT(x) vec4(x)
float hk_vsum(vec4 v) { return (v.x + v.z) + (v.y + v.w); }
#define VSUM(v) hk_vsum(v)
vec4 hk_zip_low(vec4 a, vec4 b) { return vec4(a.x, b.x, a.y, b.y); }
vec4 hk_zip_high(vec4 a, vec4 b) { return vec4(a.z, b.z, a.w, b.w); }
#define VZIP_LOW(a, b) hk_zip_low(a, b)
#define VZIP_HIGH(a, b) hk_zip_high(a, b)
#define VEVEN(a, b) vec4((a).xz, (b).xz)
#define VODD(a, b) vec4((a).yw, (b).yw)
vec4 hk_slide(vec4 a, vec4 b, uint i) {
  return i == 0u ? a : i == 1u ? vec4(a.yzw, b.x) : i == 2u ? vec4(a.zw, b.xy) : i == 3u ? vec4(a.w, b.xyz) : b;
}
#define VSLIDE(a, b, i) hk_slide(a, b, i)
#define VSELECT(m, a, b) mix(b, a, notEqual(m, vec4(0.0f)))
#define HK_GATHER(load, b, i) vec4(load(b, (i)), load(b, (i) + 1u), load(b, (i) + 2u), load(b, (i) + 3u))
#define HK_SCATTER(store, b, i, v) { vec4 hk_v = (v); store(b, (i), hk_v.x); store(b, (i) + 1u, hk_v.y); store(b, (i) + 2u, hk_v.z); store(b, (i) + 3u, hk_v.w); }
#define VFROM(array, i) vec4(array[(i)], array[(i) + 1u], array[(i) + 2u], array[(i) + 3u])
#define VTO(array, i, v) { vec4 hk_v = (v); array[(i)] = hk_v.x; array[(i) + 1u] = hk_v.y; array[(i) + 2u] = hk_v.z; array[(i) + 3u] = hk_v.w; }
#else
#error "VW: GLSL has vectors of 1 or 4 floats"
#endif
#define VFMA(a, b, c) fma(a, b, c)
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
#define VTRANSPOSE(a) { VEC hk_t[4]; UNROLL for (uint hk_i = 0u; hk_i < 4u; ++hk_i) hk_t[hk_i] = a[hk_i]; a[0] = vec4(hk_t[0].x, hk_t[1].x, hk_t[2].x, hk_t[3].x); a[1] = vec4(hk_t[0].y, hk_t[1].y, hk_t[2].y, hk_t[3].y); a[2] = vec4(hk_t[0].z, hk_t[1].z, hk_t[2].z, hk_t[3].z); a[3] = vec4(hk_t[0].w, hk_t[1].w, hk_t[2].w, hk_t[3].w); }
#endif
//@ HK_TEXEL_LOAD
// Loads of buffers that are texel buffers.
#define HK_TEXEL_LOAD_f32(b, i) HK_FETCH(b, i).x
#define HK_TEXEL_LOAD_i32(b, i) HK_FETCH(b, i).x
#define HK_TEXEL_LOAD_i8(b, i) HK_FETCH(b, i).x
#define HK_TEXEL_LOAD_u8(b, i) int(HK_FETCH(b, i).x)
#define HK_TEXEL_LOAD_bool(b, i) (HK_FETCH(b, i).x != 0u)
#define HK_TEXEL_LOAD_bits(b, i) int(HK_FETCH(b, i).x)
#define HK_TEXEL_LOAD_f16(b, i) unpackHalf2x16(HK_FETCH(b, i).x).x
#define HK_TEXEL_LOAD_bf16(b, i) uintBitsToFloat(HK_FETCH(b, i).x << 16)
#define HK_TEXEL_VLOAD_f32(b, i) HK_GATHER(HK_TEXEL_LOAD_f32, b, i)
#define HK_TEXEL_VLOAD_f16(b, i) HK_GATHER(HK_TEXEL_LOAD_f16, b, i)
#define HK_TEXEL_VLOAD_bf16(b, i) HK_GATHER(HK_TEXEL_LOAD_bf16, b, i)
//@ HK_WORD_LOAD
// Buffers of bytes and halves on devices without such storage: their elements are parts of 32-bit words. Other lanes
// may store the rest of a word at the same time, so that a store clears and sets its own bits by atomics; the value is
// an argument before the clearing, since it may be computed from the element itself.
uint hk_first(uint first, uint second) { return first; }
#define HK_BYTE(b, i) bitfieldExtract(b[uint(i) / 4u], int(uint(i) % 4u * 8u), 8)
#define HK_HALF(b, i) bitfieldExtract(b[uint(i) / 2u], int(uint(i) % 2u * 16u), 16)
#define HK_PUT(word, v, mask, shift) atomicOr(word, hk_first(((v) & (mask)) << (shift), atomicAnd(word, ~((mask) << (shift)))))
#define HK_PUT_BYTE(b, i, v) HK_PUT(b[uint(i) / 4u], v, 255u, uint(i) % 4u * 8u)
#define HK_PUT_HALF(b, i, v) HK_PUT(b[uint(i) / 2u], v, 65535u, uint(i) % 2u * 16u)
#define HK_WORD_LOAD_i8(b, i) bitfieldExtract(int(b[uint(i) / 4u]), int(uint(i) % 4u * 8u), 8)
#define HK_WORD_LOAD_u8(b, i) int(HK_BYTE(b, i))
#define HK_WORD_LOAD_bool(b, i) (HK_BYTE(b, i) != 0u)
#define HK_WORD_LOAD_f16(b, i) unpackHalf2x16(HK_HALF(b, i)).x
#define HK_WORD_LOAD_bf16(b, i) uintBitsToFloat(HK_HALF(b, i) << 16)
#define HK_WORD_LOAD_bits(b, i) int(HK_HALF(b, i))
#define HK_WORD_STORE_i8(b, i, v) HK_PUT_BYTE(b, i, uint(v))
#define HK_WORD_STORE_u8(b, i, v) HK_PUT_BYTE(b, i, uint(v))
#define HK_WORD_STORE_bool(b, i, v) HK_PUT_BYTE(b, i, ((v) ? 1u : 0u))
#define HK_WORD_STORE_f16(b, i, v) HK_PUT_HALF(b, i, hk_to_f16(v))
#define HK_WORD_STORE_bf16(b, i, v) HK_PUT_HALF(b, i, hk_to_bf16(v))
#define HK_WORD_STORE_bits(b, i, v) HK_PUT_HALF(b, i, uint(v))
#define HK_WORD_VLOAD_f16(b, i) HK_GATHER(HK_WORD_LOAD_f16, b, i)
#define HK_WORD_VLOAD_bf16(b, i) HK_GATHER(HK_WORD_LOAD_bf16, b, i)
// Four halves from an even element on own their words.
#define HK_WORD_VSTORE(b, i, v, put, bits) { \
  vec4 hk_w = (v); \
  uint hk_at = uint(i); \
  if (hk_at % 2u == 0u) { \
    b[hk_at / 2u] = bits(hk_w.x) | bits(hk_w.y) << 16; \
    b[hk_at / 2u + 1u] = bits(hk_w.z) | bits(hk_w.w) << 16; \
  } else { \
    HK_SCATTER(put, b, hk_at, hk_w) \
  } \
}
#if HK_VW == 4
#define HK_WORD_VSTORE_f16(b, i, v) HK_WORD_VSTORE(b, i, v, HK_WORD_STORE_f16, hk_to_f16)
#define HK_WORD_VSTORE_bf16(b, i, v) HK_WORD_VSTORE(b, i, v, HK_WORD_STORE_bf16, hk_to_bf16)
#else
#define HK_WORD_VSTORE_f16(b, i, v) HK_SCATTER(HK_WORD_STORE_f16, b, i, v)
#define HK_WORD_VSTORE_bf16(b, i, v) HK_SCATTER(HK_WORD_STORE_bf16, b, i, v)
#endif
//@ MULHI
uint hk_mulhi(uint a, uint b) {
  uint high, low;
  umulExtended(a, b, high, low);
  return high;
}
#define MULHI(a, b) hk_mulhi(a, b)
//@ FMA
float hk_fma(float a, float b, float c) { return fma(a, b, c); }
#ifdef HK_HAS_F64
double hk_fma(double a, double b, double c) { return fma(a, b, c); }
#endif
#define FMA(a, b, c) hk_fma(a, b, c)
//@ isnan isinf hk_isnan
#ifdef HK_HAS_F64
bool hk_isnan(double x) {
  uvec2 u = unpackDouble2x32(x);
  uint high = u.y & 0x7fffffffu;
  return high > 0x7ff00000u || (high == 0x7ff00000u && u.x != 0u);
}
bool hk_isinf(double x) {
  uvec2 u = unpackDouble2x32(x);
  return (u.y & 0x7fffffffu) == 0x7ff00000u && u.x == 0u;
}
#endif
//@ HK_NAN
#define HK_NAN(a) hk_isnan(a)
//@ WIDEN
// From halves: Mesa 22.3 narrows comparisons of what int64_t(int) made, and gets them wrong.
int64_t hk_widen(int x) { return packInt2x32(ivec2(x, x >> 31)); }
#define WIDEN(x) hk_widen(x)
//@ WADD WSUB WMUL
#define WADD(a, b) ((a) + (b))
#define WSUB(a, b) ((a) - (b))
#define WMUL(a, b) ((a) * (b))
//@ hk_rint round
#define hk_rint(x) roundEven(x)
#define round(x) roundEven(x)
//@ rsqrt
#define rsqrt(x) (1.0f / sqrt(x))
//@ exp
#define exp(x) hk_exp(x)
//@ expm1
#define expm1(x) hk_expm1(x)
//@ log
#define log(x) hk_log(x)
//@ log1p
#define log1p(x) hk_log1p(x)
//@ sin
#define sin(x) hk_sin(x)
//@ cos
#define cos(x) hk_cos(x)
//@ tan
#define tan(x) hk_tan(x)
//@ tanh
#define tanh(x) hk_tanh(x)
//@ erf
#define erf(x) hk_erf(x)
//@ erfc
#define erfc(x) hk_erfc(x)
//@ erfinv
#define erfinv(x) hk_erfinv(x)
//@ lgamma
#define lgamma(x) hk_lgamma(x)
//@ COPYSIGN
float hk_copysign(float x, float y) { return uintBitsToFloat((floatBitsToUint(x) & 0x7fffffffu) | (floatBitsToUint(y) & 0x80000000u)); }
#ifdef HK_HAS_F64
double hk_copysign(double x, double y) {
  uvec2 u = unpackDouble2x32(x);
  return packDouble2x32(uvec2(u.x, (u.y & 0x7fffffffu) | (unpackDouble2x32(y).y & 0x80000000u)));
}
#endif
#define COPYSIGN(x, y) hk_copysign(x, y)
//@ pow
#define pow(x, y) hk_pow(x, y)
//@ atan2
#define atan2(y, x) hk_atan2(y, x)
//@ fmod
#define fmod(x, y) hk_fmod(x, y)
//@ VQUAD
#define VQUAD(name, q) VQUAD_##name(q)
#define HK_VQUAD_f32(q) uintBitsToFloat(q)
//@ STORE_QUAD
#define STORE_QUAD(name, i, array) STORE_QUAD_##name(i, array)
#define HK_STORE_QUAD_f32(b, i, a) b[uint(i) / 4u] = floatBitsToUint(vec4(a[0], a[1], a[2], a[3]))
#define HK_STORE_QUAD_i32(b, i, a) b[uint(i) / 4u] = uvec4(a[0], a[1], a[2], a[3])
//@ QUAD LOAD_QUAD QUAD_ASYNC
// Sixteen bytes at a time.
#define QUAD uvec4
#define QUAD_ZERO uvec4(0u)
#define QUAD_AT(q, j) q[j]
#define LOAD_QUAD(name, i) LOAD_QUAD_##name(i)
#define QUAD_TO(array, i, q) { array[i] = q.x; array[(i) + 1u] = q.y; array[(i) + 2u] = q.z; array[(i) + 3u] = q.w; }
#define HK_QUAD_f16(q, j) unpackHalf2x16(QUAD_AT(q, (j) / 2))[(j) % 2]
//@ SHUFFLE_XOR GROUP_SUM GROUP_MAX GROUP_MIN
#ifdef HK_HAS_SUBGROUPS
#define HAS_SUBGROUPS 1
#define SHUFFLE_XOR(x, d) subgroupShuffleXor(x, uint(d))
#define HK_SUBGROUP_SIZE gl_SubgroupSize
#define HK_SUBGROUP_ID gl_SubgroupID
#define HK_SUBGROUP_LANE gl_SubgroupInvocationID
#define HK_NUM_SUBGROUPS gl_NumSubgroups
#define HK_SEVERAL_SUBGROUPS (HK_NUM_SUBGROUPS > 1u)
#else
#define HAS_SUBGROUPS 0
#endif
//@ DOT4
// c + the sum of four products of signed bytes.
#ifdef HK_HAS_INT8_DOT
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450) int hk_sdot(uint a, uint b, spirv_literal int format);
#define DOT4(a, b, c) ((c) + hk_sdot(a, b, 0))
#else
#define DOT4(a, b, c) hk_dot4(a, b, c)
#endif
//@ MMA_BITS hk_mma_get_f16
float hk_mma_get_f16(uint w, uint j) { return unpackHalf2x16(w)[j]; }
//@ MMA
#if defined(HK_MATRIX_KHR) || defined(HK_MATRIX_NV)
// Cooperative matrices: f16 with f32 sums, i8 with i32 sums.
#define MMA_EMULATED 0
#define MMA_UNROLL UNROLL
#define UNIT_ID gl_SubgroupID
#define UNIT_LANE gl_SubgroupInvocationID
#define UNIT_BARRIER() { subgroupMemoryBarrierShared(); subgroupBarrier(); }
#define MMA_ZERO(kind, acc) acc = MMA_C(kind)(0)
#ifdef HK_MATRIX_KHR
#define HK_MMA_A_f16 coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define HK_MMA_B_f16 coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define HK_MMA_C_f16 coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define HK_MMA_A_i8 coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA>
#define HK_MMA_B_i8 coopmat<int8_t, gl_ScopeSubgroup, 32, 16, gl_MatrixUseB>
#define HK_MMA_C_i8 coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define HK_LAYOUT(column_major) ((column_major) != 0 ? gl_CooperativeMatrixLayoutColumnMajor : gl_CooperativeMatrixLayoutRowMajor)
#define MMA_LOAD_A(kind, x, array, at, stride, along_k) coopMatLoad(x, array, at, stride, HK_LAYOUT((along_k) == 0 ? 1 : 0))
#define MMA_LOAD_B(kind, x, array, at, stride, along_k) coopMatLoad(x, array, at, stride, HK_LAYOUT((along_k) == 0 ? 0 : 1))
#define MMA(kind, acc, a, b) acc = coopMatMulAdd(a, b, acc)
#define MMA_STORE(kind, array, at, stride, acc) coopMatStore(acc, array, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#else
#define HK_MMA_A_f16 fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define HK_MMA_B_f16 fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define HK_MMA_C_f16 fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define HK_MMA_A_i8 icoopmatNV<8, gl_ScopeSubgroup, 16, 32>
#define HK_MMA_B_i8 icoopmatNV<8, gl_ScopeSubgroup, 32, 16>
#define HK_MMA_C_i8 icoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define MMA_LOAD_A(kind, x, array, at, stride, along_k) coopMatLoadNV(x, array, at, stride, (along_k) == 0)
#define MMA_LOAD_B(kind, x, array, at, stride, along_k) coopMatLoadNV(x, array, at, stride, (along_k) != 0)
#define MMA(kind, acc, a, b) acc = coopMatMulAddNV(a, b, acc)
#define MMA_STORE(kind, array, at, stride, acc) coopMatStoreNV(acc, array, at, stride, false)
#endif
#else
#define HK_MMA_PRIVATE
#endif
