// The confusion matrix as a picture.
#pragma once

#include <string>

#include "examples/digits/trainer.h"

namespace digits {

// A PNG with a square for each pair of classes, rows: what it is, columns: what it was taken for;
// the darker the larger its share of the row. Right ones are blue, wrong ones red, so that few of
// them show. Throws weft::Error when it cannot be written.
void write_confusion_image(const std::string &path, const Confusion &confusion);

} // namespace digits
