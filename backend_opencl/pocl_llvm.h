// What PoCL's copy of LLVM must be told before it compiles.
// Thread safety: may be called from any thread.
#pragma once

namespace heddle::opencl {

// PoCL 6 runs LLVM's "instcombine" as LLVM's own tests do: where one round was not enough the process is ended ("LLVM
// ERROR: Instruction Combining did not reach a fixpoint after 1 iterations"; attention's gradient with 32 lanes does
// it). With LLVM 18 such a round is an instruction that was sunk into a branch, whose condition then says more about it
// (llvm-project #77462). There instructions are not sunk: the code generator does that once more anyway. Called before
// the first program of such a device is built (Quirk::sinks_instructions); other LLVMs of this process are left alone.
void keep_instcombine_alive();

}  // namespace heddle::opencl
