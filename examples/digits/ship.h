// The trained model as an executable of its own.
#pragma once

#include <string>

#include "examples/digits/trainer.h"
#include "weft/data/idx.h"

namespace digits {

// Compiles the model for one image of height x width, pixels 0 to 255, into folder/digits.o and
// links it with classify.c. Gives the executable's path. Throws weft::Error when compiling or
// linking fails.
std::string ship(const DigitsNet &trained, int64_t height, int64_t width,
                 const weft::data::ImageOptions &pixels, const std::string &folder);

// What the executable says of a picture. Throws weft::Error when it fails.
std::string classify(const std::string &executable, const std::string &picture);

} // namespace digits
