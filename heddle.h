// Heddle: everything a program needs. See README.md for a first program and docs/design.md for how it works.
#pragma once

#include "autograd/autograd.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/device/context.h"
#include "core/device/registry.h"
#include "core/exec/compile.h"
#include "core/graph/checkpoint.h"
#include "core/graph/control.h"
#include "core/graph/functions.h"
#include "core/graph/tensor.h"
#include "data/batcher.h"
#include "data/datasets.h"
#include "io/safetensors.h"
#include "nn/nn.h"
