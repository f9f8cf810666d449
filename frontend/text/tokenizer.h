// Tokens of a text, as language models read it: byte-pair encodings in the files that Hugging
// Face's libraries write.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/error.h"

namespace weft::text {

struct EncodeOptions {
  bool add_special = true; // what the file puts around every text, such as <s>
  // Special tokens that are written out in the text are those tokens, not characters. Switch this
  // off for text that users give.
  bool read_special = true;
};

struct DecodeOptions {
  bool skip_special = true;
};

struct TokenizerImpl;

// A byte-pair encoding: of bytes, as GPT-2's and Llama 3's, or of characters with a token for each
// byte that no other one covers, as Llama 2's. It gives the ids that Hugging Face's `tokenizers`
// gives. A handle to an immutable object; threads may share it. One that was moved from throws
// Error.
//
//   text::Tokenizer tokenizer = text::Tokenizer::load("gpt2");
//   std::vector<int64_t> ids = tokenizer.encode("The licence");
class Tokenizer {
public:
  // A tokenizer.json, or a folder with one, or with vocab.json and merges.txt (GPT-2's cut into
  // words). Throws Error (kFile), naming the file and what in it: one that is missing, damaged, or
  // asks for something that is not here (other models than BPE; normalizers other than Prepend and
  // Replace; pre-tokenizers other than ByteLevel, Split and Metaspace).
  static Tokenizer load(const std::string &path, Location location = Location::current());

  // Any bytes: those that are no UTF-8 are encoded one by one where the file has tokens for bytes.
  // Throws Error (kValue) for a character that the file has no token for, not even one for unknown
  // ones.
  std::vector<int64_t> encode(std::string_view text, const EncodeOptions &options = {},
                              Location location = Location::current()) const;
  // The bytes of these tokens: UTF-8 but where a character is cut, or tokens of bytes make none.
  // Throws Error (kIndex) for an id that is no token's.
  std::string decode(std::span<const int64_t> ids, const DecodeOptions &options = {},
                     Location location = Location::current()) const;

  // The largest id, and 1.
  int64_t size(Location location = Location::current()) const;
  // The id of a token as it is written in the file ("<s>", "\u0120the"), if there is one.
  std::optional<int64_t> find(std::string_view token,
                              Location location = Location::current()) const;
  // Whether decode() skips it.
  bool is_special(int64_t id, Location location = Location::current()) const;

private:
  explicit Tokenizer(std::shared_ptr<const TokenizerImpl> impl) : impl_(std::move(impl)) {}
  const TokenizerImpl &held(const char *call, Location location) const;
  std::shared_ptr<const TokenizerImpl> impl_;
};

} // namespace weft::text
