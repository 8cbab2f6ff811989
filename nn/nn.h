// Networks: modules, layers, initialisers and optimizers. Losses are functions (core/graph/functions.h).
#pragma once

#include "nn/average.h"
#include "nn/clip.h"
#include "nn/conv.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/metrics.h"
#include "nn/models/cnn.h"
#include "nn/models/gpt.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "nn/optim.h"
#include "nn/recurrent.h"
#include "nn/schedule.h"
