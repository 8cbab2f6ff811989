// Fingerprints: what a checkpoint was made with, in sixteen hexadecimal digits.
//
// Purpose: a resumed run repeats the same numbers only with the same code and the same data; the fingerprints in a
// checkpoint's metadata say whether they are, and ranks of one run compare theirs. Invariants: equal bytes give equal
// fingerprints on every machine. Errors: IoError. Thread safety: pure.
#pragma once

#include <string>

namespace heddle::train {

struct TrainingData;

// Of the file of this library, or of the program that it is linked into: its code, constants and kernels.
std::string code_fingerprint();

// Of a file, or of every file below a folder: names, sizes and contents. Of a file larger than 64 MiB, 64 blocks of 64
// KiB at equal distances, the first and the last bytes among them.
std::string data_fingerprint(const std::string& path);
// Of examples as the data gives them: how many there are, and 64 at equal distances, the first and the last among them;
// of a stream the first 16. Errors besides: those of the data.
std::string data_fingerprint(const TrainingData& data);

}  // namespace heddle::train
