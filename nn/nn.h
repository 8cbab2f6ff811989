// Networks: modules, layers, initialisers and optimizers. Losses are functions (core/graph/functions.h).
#pragma once

#include "nn/activations.h"
#include "nn/clip.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/loss.h"
#include "nn/models/cnn.h"
#include "nn/models/gpt.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "nn/optim.h"
#include "nn/pool.h"
#include "nn/recurrent.h"
