// What PoCL's copy of LLVM must be told before it compiles.
// Thread safety: may be called from any thread.
#pragma once

namespace heddle::opencl {

// PoCL 6 runs LLVM's "instcombine" as LLVM's own tests do: where one round was not enough the process is ended ("LLVM
// ERROR: Instruction Combining did not reach a fixpoint after 1 iterations"; attention's gradient with 32 lanes does
// it). With LLVM 18 such a round is an instruction that was sunk into a branch, whose condition then says more about it
// (llvm-project #77462). There instructions are not sunk: the code generator does that once more anyway.
//
// Its "simple loop unswitch" comes a second time, behind the vectoriser. Where a condition of the loop masks a gather
// whose addresses are computed under it, the loop for the other case keeps a gather of no lane and of no addresses. The
// code generator may give such addresses the register of the result, and AVX-512 refuses that instruction (SIGILL; a
// concatenation along rows does it). There no loop is unswitched at a cost: kernels have their own cases.
//
// Called before the first program of such a device is built (Quirk::sinks_instructions, Quirk::unswitches_vectors);
// other LLVMs of this process are left alone.
void restrain_llvm();

}  // namespace heddle::opencl
