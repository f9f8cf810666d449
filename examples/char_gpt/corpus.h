// The text to learn: its characters as numbers, split into a part to train on and a part to
// validate on.
#pragma once

#include <string>

#include "weft/data/text.h"

namespace char_gpt {

struct Corpus {
  weft::data::Vocabulary vocabulary;
  std::vector<int64_t> training, validation;
  size_t files = 0;
  uint64_t digest = 0; // of the text and its split, so that a run is not resumed on another text
};

// Reads the file, or all files of the folder. Of each file the last tenth is for validation, so
// that every kind of text in the folder is judged and nothing judged was seen. Throws weft::Error
// for what weft::data::text_files and read_text refuse, and when a part is shorter than one window
// of `context` + 1 characters.
Corpus read_corpus(const std::string &path, int64_t context);

} // namespace char_gpt
