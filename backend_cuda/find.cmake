# Finds what the cuda backend is built with; replaced by its author.
set(HEDDLE_CUDA_FOUND FALSE)
heddle_backend(CUDA backend_cuda make_cuda_backend HEDDLE_CUDA_FOUND "the cuda headers")
