// What hyperparameters may be. Internal to nn.
#pragma once

namespace heddle::nn {

// ValueError "[name] what is ...": not finite or below 0; not in [0, 1).
void check_not_negative(double value, const char* name, const char* what);
void check_beta(double value, const char* name, const char* what);

}  // namespace heddle::nn
