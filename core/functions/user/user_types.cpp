#include "heddle/core/functions/user/user_types.h"

namespace heddle {

UserValue::UserValue(const char* value_name, std::optional<DType> type) : name(value_name), dtype(type) {}
UserValue::UserValue(std::string value_name, std::optional<DType> type) : name(std::move(value_name)), dtype(type) {}
std::vector<UserValue> UserElementwise::only_output() { return {"out"}; }

}  // namespace heddle
