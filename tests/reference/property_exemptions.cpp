// What a property cannot say about a function, with the reason. The tests run these cases too and fail when an
// exemption is not needed.
#include <array>

#include "tests/reference/property.h"

namespace heddle::tests {
namespace {

constexpr std::string_view host_sized = "the size of its result depends on values, which examples of vmap do not have";
constexpr std::string_view tie = "elements are equal in size there: a corner, without a second derivative";
constexpr std::string_view unsorted = "the boundaries are no longer sorted: any answer is right";
constexpr std::string_view weight_matrix =
    "a product with weights, whose zeros meet the NaN or infinity; PyTorch picks elements";
constexpr std::string_view order_of_products =
    "infinities times 0 and sums of both infinities depend on the order of the products";
constexpr std::string_view outside =
    "a gradient outside of the function's domain, or at a pole: PyTorch gives NaN or a number of its own";
constexpr std::string_view schedule =
    "some schedules multiply zeros of the border or between pixels: 0 * NaN; which, depends on the device";
constexpr std::string_view padding = "zeros of the border are skipped, not multiplied: no 0 * infinity";
constexpr std::string_view keeps_nan = "a NaN stays one, as in NumPy; PyTorch gives 0";
constexpr std::string_view vanishes = "its limit at infinity is 0; PyTorch gives NaN";
constexpr std::string_view mean_of_nothing =
    "the mean of nothing is NaN as for all losses; PyTorch gives 0 for this one";
constexpr std::string_view asked = "its dtype is asked for, or f32: it does not follow an input";

constexpr std::array table{
    Exemption{"nonzero", "MapsOverExamples", "", host_sized},
    Exemption{"masked_select", "MapsOverExamples", "", host_sized},
    Exemption{"unique", "MapsOverExamples", "", host_sized},
    Exemption{"unique_consecutive", "MapsOverExamples", "", host_sized},

    Exemption{"cdist", "SecondOrder", "{} f32", "two points are the same: a corner"},
    Exemption{"cdist", "SecondOrder", "{} f16", "two points are the same: a corner"},
    Exemption{"max_pool2d", "SecondOrder", "\"stride\":[1]", tie},
    Exemption{"norm", "SecondOrder", "-inf", tie},
    Exemption{"scatter_reduce", "SecondOrder", "{\"axis\":0,\"how\":\"amax\"}", tie},
    Exemption{"scatter_reduce", "SecondOrder", "{\"axis\":0,\"how\":\"amin\"}", tie},
    Exemption{"stddev", "SecondOrder", "{} f32", "all elements are equal in one case: a corner"},

    Exemption{"nan_to_num", "HalfPrecision", "", "infinities become the largest number of the dtype"},

    Exemption{"adaptive_avg_pool1d", "StoredValues", "nan", weight_matrix},
    Exemption{"adaptive_avg_pool1d", "StoredValues", "infinite", weight_matrix},
    Exemption{"adaptive_avg_pool2d", "StoredValues", "nan", weight_matrix},
    Exemption{"adaptive_avg_pool2d", "StoredValues", "infinite", weight_matrix},
    Exemption{"adaptive_avg_pool3d", "StoredValues", "nan", weight_matrix},
    Exemption{"adaptive_avg_pool3d", "StoredValues", "infinite", weight_matrix},
    Exemption{"interpolate", "StoredValues", "nan", weight_matrix},
    Exemption{"interpolate", "StoredValues", "infinite", weight_matrix},
    Exemption{"interpolate", "StoredValues", "extreme", "its weights are f32"},
    Exemption{"bucketize", "StoredValues", "nan", unsorted},
    Exemption{"bucketize", "StoredValues", "infinite", unsorted},
    Exemption{"bucketize", "StoredValues", "extreme", unsorted},
    Exemption{"searchsorted", "StoredValues", "nan", unsorted},
    Exemption{"searchsorted", "StoredValues", "infinite", unsorted},
    Exemption{"searchsorted", "StoredValues", "extreme", unsorted},
    Exemption{"conv1d", "StoredValues", "infinite", padding},
    Exemption{"conv2d", "StoredValues", "infinite", padding},
    Exemption{"conv3d", "StoredValues", "infinite", padding},
    Exemption{"conv_transpose1d", "KernelValues", "nan", schedule},
    Exemption{"conv_transpose1d", "KernelValues", "infinite", schedule},
    Exemption{"conv_transpose2d", "KernelValues", "nan", schedule},
    Exemption{"conv_transpose2d", "KernelValues", "infinite", schedule},
    Exemption{"conv_transpose3d", "KernelValues", "nan", schedule},
    Exemption{"conv_transpose3d", "KernelValues", "infinite", schedule},
    Exemption{"conv2d", "StoredValues", "empty",
              "without input channels the bias is left; PyTorch gives no output channels"},
    Exemption{"conv3d", "StoredValues", "empty",
              "without input channels the bias is left; PyTorch gives no output channels"},
    Exemption{"einsum", "StoredValues", "infinite", order_of_products},
    Exemption{"matrix_power", "StoredValues", "infinite", order_of_products},
    Exemption{"trapezoid", "StoredValues", "infinite", order_of_products},
    Exemption{"trapezoid", "StoredValues", "empty", "more places than values; refused"},
    Exemption{"trapezoid", "MapsOverExamples", "empty", "more places than values; refused"},
    Exemption{"trapezoid", "HalfPrecision", "empty", "more places than values; refused"},
    Exemption{"acosh", "StoredValues", "extreme", outside},
    Exemption{"digamma", "StoredValues", "extreme", outside},
    Exemption{"polygamma", "StoredValues", "extreme", outside},
    Exemption{"zeta", "StoredValues", "extreme", outside},
    Exemption{"bessel_j0", "StoredValues", "infinite", vanishes},
    Exemption{"bessel_j1", "StoredValues", "infinite", vanishes},
    Exemption{"bessel_y0", "StoredValues", "infinite", vanishes},
    Exemption{"bessel_y1", "StoredValues", "infinite", vanishes},
    Exemption{"bessel_y0", "StoredValues", "extreme", outside},
    Exemption{"bessel_y1", "StoredValues", "extreme", outside},
    Exemption{"bessel_j1", "StoredValues", "extreme", vanishes},
    Exemption{"masked_scatter", "StoredValues", "empty", "no element of the source is used, so there is no path to it"},
    Exemption{"logit", "StoredValues", "extreme", outside},
    Exemption{"hypot", "StoredValues", "extreme", "its gradient at (0, 0) is 0; PyTorch's NaN"},
    Exemption{"kl_div", "StoredValues", "extreme", "the gradient of 0 log 0 is 0; PyTorch's NaN"},
    Exemption{"heaviside", "StoredValues", "nan", keeps_nan},
    Exemption{"sign", "StoredValues", "nan", keeps_nan},
    Exemption{"multi_margin_loss", "StoredValues", "empty", mean_of_nothing},
    Exemption{"multilabel_margin_loss", "StoredValues", "empty", mean_of_nothing},
    Exemption{"multi_margin_loss", "StoredValues", "nan",
              "a NaN stays one; PyTorch's comparison with the margin drops it"},
    Exemption{"scaled_dot_product_attention", "StoredValues", "nan",
              "a NaN among the scores stays one; PyTorch's kernel gives 0"},
    Exemption{"scaled_dot_product_attention", "StoredValues", "extreme", "the logarithm of the sums is kept in f32"},
    Exemption{"soft_margin_loss", "StoredValues", "extreme", "PyTorch's formula overflows"},
    Exemption{"arange", "HalfPrecision", "", asked},
    Exemption{"linspace", "HalfPrecision", "", asked},
    Exemption{"zeros", "HalfPrecision", "", asked},
    Exemption{"ones", "HalfPrecision", "", asked},
    Exemption{"full", "HalfPrecision", "", asked},
    Exemption{"cast", "HalfPrecision", "", asked},
    Exemption{"cast", "ForwardMode", "f16", "differentials are rounded to 16 bits, once in each direction"},
    Exemption{"scatter", "StoredValues", "empty", "no element of the source is used, so there is no path to it"},
};

}  // namespace

std::span<const Exemption> exemptions() { return table; }

}  // namespace heddle::tests
