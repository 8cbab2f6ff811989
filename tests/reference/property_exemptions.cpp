// What a property cannot say about a function, with the reason. check_property() runs these cases too and fails when one of them is not needed.
#include <array>

#include "tests/reference/property.h"

namespace heddle::tests {
namespace {

constexpr std::string_view host_sized = "the size of its result depends on values, which examples of vmap do not have";

constexpr std::array table{
    Exemption{"nonzero", "MapsOverExamples", "", host_sized},
    Exemption{"masked_select", "MapsOverExamples", "", host_sized},
    Exemption{"unique", "MapsOverExamples", "", host_sized},
};

}  // namespace

std::span<const Exemption> exemptions() { return table; }

}  // namespace heddle::tests
