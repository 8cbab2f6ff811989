/* heddle.h: runs models that `heddle compile` made, from C, C++ and whatever calls C.
 *
 *   heddle_model* net = NULL;
 *   if (heddle_open("net.heddle", "opencl:0", 0, &net) != HEDDLE_OK) puts(heddle_error(NULL));
 *   heddle_input(net, 0, pixels, sizeof pixels);
 *   heddle_run(net);
 *   heddle_output(net, 0, scores, sizeof scores);
 *   heddle_close(net);
 *
 * Purpose: a file holds weights once and, by target ("opencl", "vulkan", "cuda:sm_80") and bucket ("N=8"), an image:
 * kernels and launches for inputs of those sizes. heddle_open() checks the file, loads the images for one device, binds
 * them to memory and compares their golden vectors; from then on nothing is allocated, but that uploads in flight may
 * take a staging buffer more in the first runs. Values are dense, row-major, in the machine's byte order; f16 and bf16
 * are 16 bits, bool is a byte of 0 or 1.
 * Ownership: a model owns all that it hands out, until heddle_close(); buffers of the caller may be reused when a call
 * returns. Errors: each function returns a status, HEDDLE_OK or why not, and heddle_error() says it in one line; after
 * a failed call a model stays as it was, but for HEDDLE_DEVICE_LOST, after which it can only be closed. No exception
 * leaves a function. Thread safety: a model belongs to one thread at a time; models are independent of each other, also
 * on one device. C99. */
#ifndef HEDDLE_RUNTIME_HEDDLE_H
#define HEDDLE_RUNTIME_HEDDLE_H

#include <stdint.h>

#ifdef __ELF__
#define HEDDLE_API __attribute__((visibility("default")))
#else
#define HEDDLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function changes or goes; a new function leaves it. */
#define HEDDLE_ABI 1

typedef enum heddle_status {
  HEDDLE_OK = 0,
  HEDDLE_BAD_ARGUMENT = 1,  /* null, an index or a name that there is not, another number of bytes */
  HEDDLE_NO_FILE = 2,       /* the file is missing or cannot be read */
  HEDDLE_BAD_FILE = 3,      /* damaged, not a .heddle file, or of a newer version */
  HEDDLE_NO_IMAGE = 4,      /* nothing in the file is for this device and driver */
  HEDDLE_NO_DEVICE = 5,     /* no such device, or its driver is absent */
  HEDDLE_MISMATCH = 6,      /* a golden vector: the device computes other values than those in the file */
  HEDDLE_OUT_OF_MEMORY = 7, /* of the device or the host */
  HEDDLE_DEVICE_LOST = 8,   /* it stopped working, or did not finish in time */
  HEDDLE_DEVICE_FAULT = 9,  /* its driver refused something else */
  HEDDLE_INTERNAL = 10,     /* a fault of this library */
  HEDDLE_WOULD_COPY = 11    /* what was to go without a copy cannot; heddle_error() says why */
} heddle_status;

typedef enum heddle_type {
  HEDDLE_F32 = 0,
  HEDDLE_F16 = 1,
  HEDDLE_BF16 = 2,
  HEDDLE_F64 = 3,
  HEDDLE_I8 = 4,
  HEDDLE_U8 = 5,
  HEDDLE_I32 = 6,
  HEDDLE_I64 = 7,
  HEDDLE_BOOL = 8
} heddle_type;

/* Flags of heddle_open(). */
#define HEDDLE_TRUST_FILE 1u /* hashes of the weights and golden vectors are not checked */

/* Flags of the functions that take and give DLPack tensors. */
#define HEDDLE_NO_COPY 1u /* HEDDLE_WOULD_COPY instead of a copy */

typedef struct heddle_model heddle_model;

/* What an input takes or an output gives, in the bucket in use; it lives as long as the model. */
typedef struct heddle_port {
  const char* name;
  heddle_type type;
  int32_t rank;
  const int64_t* shape;
  uint64_t bytes;
} heddle_port;

/* HEDDLE_ABI of the library that is linked. */
HEDDLE_API int heddle_abi(void);

/* Opens a file on a device ("opencl:0", "vulkan", NULL: the best that the file has images for). All buckets are loaded,
 * the first is in use. On failure *model is NULL and heddle_error(NULL) says why. */
HEDDLE_API heddle_status heddle_open(const char* path, const char* device, unsigned flags, heddle_model** model);
/* Gives everything back, after waiting for what runs. NULL is allowed. */
HEDDLE_API void heddle_close(heddle_model* model);

/* "opencl:0". */
HEDDLE_API const char* heddle_device(const heddle_model* model);
/* Buckets by number, in the order of the file; a name is NULL from the last on. */
HEDDLE_API const char* heddle_bucket(const heddle_model* model, uint32_t index);
/* The bucket that later calls are about, by name. Its inputs are those that it was given last. */
HEDDLE_API heddle_status heddle_use(heddle_model* model, const char* bucket);

/* Of an input or output of the bucket in use; HEDDLE_BAD_ARGUMENT from the last on. */
HEDDLE_API heddle_status heddle_input_port(heddle_model* model, uint32_t index, heddle_port* port);
HEDDLE_API heddle_status heddle_output_port(heddle_model* model, uint32_t index, heddle_port* port);

/* Copies an input's values to the device; `bytes` are all of it. An input keeps its values until the next call. */
HEDDLE_API heddle_status heddle_input(heddle_model* model, uint32_t index, const void* values, uint64_t bytes);
/* Starts the model on its inputs and returns; an input that was never given is a bad argument. */
HEDDLE_API heddle_status heddle_run(heddle_model* model);
/* Sets *done to whether the latest run has finished (1) or not (0); does not wait. */
HEDDLE_API heddle_status heddle_done(heddle_model* model, int* done);
/* Waits for the latest run and copies an output's values to `values`; `bytes` are all of it. */
HEDDLE_API heddle_status heddle_output(heddle_model* model, uint32_t index, void* values, uint64_t bytes);

/* ---- arrays of others, by DLPack (https://dmlc.github.io/dlpack): the structs of its dlpack.h, versions 0.8 and 1.x.
 * Memory of the host is shared where the driver computes in it: OpenCL on a CPU, Vulkan where host and device share
 * memory (to take arrays, with VK_EXT_external_memory_host). Elsewhere, and where an array does not lie as it must, its
 * values are copied, and heddle_copied() says why. A tensor that was taken is given back by its deleter, once: before
 * the call returns where it was copied, else when it is replaced, or in heddle_close(); one that was refused stays the
 * caller's. All of it is checked before any of it is used: wrong dtypes, shapes and devices are HEDDLE_BAD_ARGUMENT. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* An input that reads where the tensor lies, until it is given other values: each run takes what is there while it
 * runs, so the memory may be written again once the run has finished. Without a copy where the elements are row-major
 * without gaps and, but for bool, at an address that the device takes. The first call with an address prepares the
 * model anew; later ones with the same address cost nothing. */
HEDDLE_API heddle_status heddle_input_dlpack(heddle_model* model, uint32_t index,
                                             struct DLManagedTensorVersioned* tensor, unsigned flags);
HEDDLE_API heddle_status heddle_input_dlpack_unversioned(heddle_model* model, uint32_t index,
                                                         struct DLManagedTensor* tensor, unsigned flags);
/* Later runs write an output where the tensor lies, which is HEDDLE_WOULD_COPY where they cannot (heddle_output() then
 * copies). The memory must be no input's or other output's. NULL: to the model's own memory, as at first. */
HEDDLE_API heddle_status heddle_output_into(heddle_model* model, uint32_t index,
                                            struct DLManagedTensorVersioned* tensor);
HEDDLE_API heddle_status heddle_output_into_unversioned(heddle_model* model, uint32_t index,
                                                        struct DLManagedTensor* tensor);
/* Waits for the latest run and hands out an output, for reading: the next run of this bucket may write there. Whoever
 * has the tensor calls its deleter, from any thread, also after heddle_close(). */
HEDDLE_API heddle_status heddle_output_dlpack(heddle_model* model, uint32_t index, unsigned flags,
                                              struct DLManagedTensorVersioned** tensor);
HEDDLE_API heddle_status heddle_output_dlpack_unversioned(heddle_model* model, uint32_t index, unsigned flags,
                                                          struct DLManagedTensor** tensor);
/* Why the latest of these calls copied; "": it did not. */
HEDDLE_API const char* heddle_copied(const heddle_model* model);

/* Why the latest call with this model failed; with NULL, why heddle_open() failed last in this thread. One line, ""
 * where nothing failed; it stands until the next failure. */
HEDDLE_API const char* heddle_error(const heddle_model* model);

#ifdef __cplusplus
}
#endif

#endif
