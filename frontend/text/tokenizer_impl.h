// Private: what a tokenizer's files say, made ready for use.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/text/bpe.h"
#include "frontend/text/pattern.h"
#include "weft/text/tokenizer.h"

namespace weft::text {

// A token that is found in the text before anything else is done with it.
struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;
  bool left_strip = false, right_strip = false; // it takes the white space beside it
};

// What is done to a piece of text between added tokens, in order; each gives pieces.
struct TextStep {
  enum class Kind {
    kPrepend,    // `first` in front of a text that is not empty
    kReplace,    // each `first` by `second`
    kPrefix,     // `first` in front, unless the piece begins so
    kPrefixOnce, // the same for the beginning of the text alone
    kSplit,      // matches of the pattern, and what is between them
    kRemove,     // what is between them
    kSplitWords, // before each `first`
  } kind = Kind::kSplit;
  std::string first = {}, second = {};
  std::vector<Pattern> pattern = {}; // one, of a split
};

// What decoding does to the tokens' bytes.
struct TextDecoder {
  std::vector<std::pair<std::string, std::string>> replace; // in each token
  bool bytes = false;                                       // "<0x41>" is a byte
  std::string strip; // is taken away up to so often at both ends of the text
  int64_t strip_start = 0, strip_stop = 0;
  std::string strip_first; // is taken away once, in front of the first token
  std::string separator;   // between tokens
};

struct TokenizerImpl {
  // Tokens as bytes: of a byte-level model those that their names stand for.
  // Added ones are not among them: a text becomes one of those only where it is looked for.
  std::unordered_map<std::string, int64_t> pieces;
  std::unordered_map<std::string, int64_t> names; // as they stand in the file
  std::vector<std::string> contents;              // by id: what decode() gives
  std::vector<char> known, special;               // by id
  Merges merges;

  bool byte_level = false;    // symbols are bytes, else characters
  bool byte_fallback = false; // a character without a token is the tokens of its bytes
  bool whole_words = false;   // a piece that is a token is that token
  bool fuse_unknown = false;
  std::optional<int64_t> unknown;
  std::vector<int64_t> byte_ids; // of "<0x00>" to "<0xFF>", or empty

  std::vector<AddedToken> added; // the longest first
  std::vector<TextStep> steps;
  TextDecoder decoder;
  std::vector<int64_t> before, after; // every text
};

// Each `from`, which is not empty, by `to`: in time linear in the text.
std::string replaced(const std::string &text, const std::string &from, const std::string &to);

// Reads the files. Throws Error (kFile).
std::shared_ptr<TokenizerImpl> read_tokenizer_json(const std::string &path, Location location);
std::shared_ptr<TokenizerImpl> read_vocabulary(const std::string &folder, Location location);

} // namespace weft::text
