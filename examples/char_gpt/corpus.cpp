#include "examples/char_gpt/corpus.h"

namespace char_gpt {
namespace {

constexpr int64_t kValidationShare = 10; // one character of so many

// FNV-1a over 64-bit words (Fowler, Noll and Vo): tells texts apart, needs to withstand nobody.
uint64_t digest_of(const std::vector<int64_t> &ids, uint64_t digest) {
  for (int64_t id : ids)
    digest = (digest ^ static_cast<uint64_t>(id)) * 0x100000001B3ull;
  return (digest ^ ids.size()) * 0x100000001B3ull;
}

} // namespace

Corpus read_corpus(const std::string &path, int64_t context) {
  Corpus corpus;
  std::vector<std::u32string> texts;
  std::u32string all;
  for (const std::string &file : weft::data::text_files(path)) {
    texts.push_back(weft::data::read_text(file));
    all += texts.back();
  }
  corpus.files = texts.size();
  corpus.vocabulary = weft::data::Vocabulary(all);
  for (const std::u32string &text : texts) {
    std::vector<int64_t> ids = corpus.vocabulary.encode(text);
    auto cut = ids.end() - static_cast<int64_t>(ids.size()) / kValidationShare;
    corpus.training.insert(corpus.training.end(), ids.begin(), cut);
    corpus.validation.insert(corpus.validation.end(), cut, ids.end());
  }
  if (static_cast<int64_t>(corpus.validation.size()) < context + 1 ||
      static_cast<int64_t>(corpus.training.size()) < context + 1)
    throw weft::Error(weft::ErrorKind::kFile,
                      "'" + path + "' is too short: it has " + std::to_string(all.size()) +
                          " characters, a context of " + std::to_string(context) +
                          " needs at least " + std::to_string((context + 1) * kValidationShare));
  corpus.digest = digest_of(corpus.validation, digest_of(corpus.training, 0xCBF29CE484222325ull));
  for (char32_t character : corpus.vocabulary.characters())
    corpus.digest = (corpus.digest ^ character) * 0x100000001B3ull;
  return corpus;
}

} // namespace char_gpt
