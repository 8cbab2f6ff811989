// Weights of a `.heddle` file as storages of a device.
//
// Purpose: where a device's memory is the host's (ConstantMemory), a weight stays in the mapping of the
// file; else its bytes go from there to the device, without a copy on the host but the driver's. Errors: IoError
// "[model_image] ..." for a part or a range that the file has not. Thread safety: as DeviceContext.
#pragma once

#include "heddle/core/device/context.h"
#include "heddle/io/model_parts.h"
#include "heddle/runtime/model_image.h"

namespace heddle {

// `parts` outlives the storage.
StoragePtr place_weight(DeviceContext& device, const ModelParts& parts, const ModelImage::Weight& weight);

}  // namespace heddle
