#include "weft/text/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "frontend/text/characters.h"
#include "frontend/text/tokenizer_impl.h"

namespace weft::text {
namespace {

// The matches of a pattern, and (unless only those are wanted) what is between them.
void split(const Pattern &pattern, const std::string &piece, bool matches,
           std::vector<std::string> &result) {
  Characters characters(piece);
  size_t between = 0, at = 0;
  auto flush = [&](size_t end) {
    if (end > between)
      result.emplace_back(characters.bytes(between, end));
  };
  while (at < characters.size()) {
    size_t length = pattern.match(characters.codes, at);
    if (length == 0) {
      ++at;
      continue;
    }
    flush(at);
    if (matches)
      result.emplace_back(characters.bytes(at, at + length));
    at += length;
    between = at;
  }
  flush(at);
}

// A piece before each mark.
void split_words(const std::string &mark, const std::string &piece,
                 std::vector<std::string> &result) {
  size_t start = 0;
  while (start < piece.size()) {
    size_t end = std::min(piece.find(mark, start + 1), piece.size());
    result.push_back(piece.substr(start, end - start));
    start = end;
  }
}

class Encoder {
public:
  Encoder(const TokenizerImpl &impl, std::vector<int64_t> &ids, Location location)
      : impl_(impl), ids_(ids), location_(location) {}

  // A part of the text without added tokens.
  void section(std::string_view text, bool is_beginning) {
    if (text.empty())
      return;
    std::vector<std::string> pieces = {std::string(text)};
    for (const TextStep &step : impl_.steps)
      pieces = done(step, std::move(pieces), is_beginning);
    for (const std::string &piece : pieces)
      word(piece);
  }

private:
  static std::vector<std::string> done(const TextStep &step, std::vector<std::string> pieces,
                                       bool is_beginning) {
    std::vector<std::string> result;
    bool is_first = true;
    for (std::string &piece : pieces) {
      switch (step.kind) {
      case TextStep::Kind::kPrepend:
        result.push_back(step.first + piece);
        break;
      case TextStep::Kind::kReplace:
        result.push_back(replaced(piece, step.first, step.second));
        break;
      case TextStep::Kind::kPrefix:
      case TextStep::Kind::kPrefixOnce:
        if (!piece.starts_with(step.first) &&
            (step.kind == TextStep::Kind::kPrefix || (is_beginning && is_first)))
          piece.insert(0, step.first);
        result.push_back(std::move(piece));
        break;
      case TextStep::Kind::kSplit:
      case TextStep::Kind::kRemove:
        split(step.pattern[0], piece, step.kind == TextStep::Kind::kSplit, result);
        break;
      case TextStep::Kind::kSplitWords:
        split_words(step.first, piece, result);
        break;
      }
      is_first = false;
    }
    return result;
  }

  void word(const std::string &piece) {
    if (impl_.whole_words) {
      auto whole = impl_.pieces.find(piece);
      if (whole != impl_.pieces.end()) {
        ids_.push_back(whole->second);
        return;
      }
    }
    symbols_.clear();
    was_unknown_ = false;
    if (impl_.byte_level) {
      for (char byte : piece)
        symbol(std::string(1, byte));
    } else {
      Characters characters(piece);
      for (size_t i = 0; i < characters.size(); ++i)
        symbol(std::string(characters.bytes(i, i + 1)));
    }
    impl_.merges.apply(symbols_);
    ids_.insert(ids_.end(), symbols_.begin(), symbols_.end());
  }

  void symbol(const std::string &bytes) {
    auto found = impl_.pieces.find(bytes);
    if (found != impl_.pieces.end()) {
      symbols_.push_back(found->second);
      was_unknown_ = false;
    } else if (impl_.byte_fallback && !impl_.byte_ids.empty()) {
      for (unsigned char byte : bytes)
        symbols_.push_back(impl_.byte_ids[byte]);
      was_unknown_ = false;
    } else if (impl_.unknown) {
      if (!was_unknown_ || !impl_.fuse_unknown)
        symbols_.push_back(*impl_.unknown);
      was_unknown_ = true;
    } else {
      std::string shown;
      for (unsigned char byte : bytes)
        shown += std::string(" 0x") + "0123456789abcdef"[byte >> 4] + "0123456789abcdef"[byte & 15];
      throw Error(ErrorKind::kValue,
                  "Tokenizer: there is no token for the bytes" + shown +
                      " of the text, nor one for unknown ones",
                  location_);
    }
  }

  const TokenizerImpl &impl_;
  std::vector<int64_t> &ids_, symbols_;
  bool was_unknown_ = false;
  Location location_;
};

// Where the white space in front of `end` begins, and where that from `begin` on ends.
size_t space_before(std::string_view text, size_t begin, size_t end) {
  Characters characters(text.substr(begin, end - begin));
  size_t i = characters.size();
  while (i > 0 && is_space(characters.codes[i - 1]))
    --i;
  return begin + characters.starts[i];
}

size_t space_after(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    Characters next(text.substr(begin, 4)); // the longest character
    if (!is_space(next.codes[0]))
      break;
    begin += next.starts[1];
  }
  return begin;
}

} // namespace

std::string replaced(const std::string &text, const std::string &from, const std::string &to) {
  std::string result;
  size_t start = 0;
  for (size_t at; (at = text.find(from, start)) != std::string::npos; start = at + from.size())
    result.append(text, start, at - start).append(to);
  return result.append(text, start);
}

Tokenizer Tokenizer::load(const std::string &path, Location location) {
  namespace fs = std::filesystem;
  CallerScope scope(location);
  Location line = CallerScope::resolve(location);
  std::error_code error;
  if (!fs::is_directory(path, error))
    return Tokenizer(read_tokenizer_json(path, line));
  const std::string whole = path + "/tokenizer.json";
  if (fs::exists(whole, error))
    return Tokenizer(read_tokenizer_json(whole, line));
  if (fs::exists(path + "/vocab.json", error) && fs::exists(path + "/merges.txt", error))
    return Tokenizer(read_vocabulary(path, line));
  throw Error(ErrorKind::kFile,
              "'" + path + "' has no tokenizer: neither tokenizer.json nor vocab.json and " +
                  "merges.txt are in it",
              line);
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, const EncodeOptions &options,
                                       Location location) const {
  const TokenizerImpl &impl = held("encode", location);
  std::vector<int64_t> ids;
  if (options.add_special)
    ids = impl.before;
  Encoder encoder(impl, ids, CallerScope::resolve(location));
  // Of the added tokens that begin at a place the longest one, which stands first, is meant.
  std::vector<const AddedToken *> by_byte[256];
  for (const AddedToken &token : impl.added)
    if (options.read_special || !token.special)
      by_byte[static_cast<unsigned char>(token.content[0])].push_back(&token);
  size_t start = 0, at = 0;
  while (at < text.size()) {
    const AddedToken *found = nullptr;
    for (const AddedToken *token : by_byte[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(token->content)) {
        found = token;
        break;
      }
    if (!found) {
      ++at;
      continue;
    }
    size_t end = found->left_strip ? space_before(text, start, at) : at;
    encoder.section(text.substr(start, end - start), start == 0);
    ids.push_back(found->id);
    at += found->content.size();
    if (found->right_strip)
      at = space_after(text, at);
    start = at;
  }
  encoder.section(text.substr(start), start == 0);
  if (options.add_special)
    ids.insert(ids.end(), impl.after.begin(), impl.after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, const DecodeOptions &options,
                              Location location) const {
  const TokenizerImpl &impl = held("decode", location);
  const TextDecoder &decoder = impl.decoder;
  std::string text;
  bool is_first = true;
  for (int64_t id : ids) {
    if (id < 0 || id >= size() || !impl.known[static_cast<size_t>(id)])
      fail_at(location, ErrorKind::kIndex,
              "Tokenizer: there is no token of id " + std::to_string(id) + "; they go up to " +
                  std::to_string(size() - 1));
    if (options.skip_special && impl.special[static_cast<size_t>(id)])
      continue;
    std::string content = impl.contents[static_cast<size_t>(id)];
    if (is_first && !decoder.strip_first.empty())
      content = replaced(content, decoder.strip_first, "");
    if (!is_first)
      text += decoder.separator;
    text += content;
    is_first = false;
  }
  if (!decoder.strip.empty()) {
    const size_t width = decoder.strip.size();
    size_t begin = 0;
    for (int64_t i = 0; i < decoder.strip_start && text.compare(begin, width, decoder.strip) == 0;
         ++i)
      begin += width;
    text.erase(0, begin);
    for (int64_t i = 0; i < decoder.strip_stop && text.ends_with(decoder.strip); ++i)
      text.resize(text.size() - width);
  }
  return text;
}

const TokenizerImpl &Tokenizer::held(const char *call, Location location) const {
  return recorder::held(impl_, call, "tokenizer", location);
}

int64_t Tokenizer::size(Location location) const {
  return static_cast<int64_t>(held("size", location).contents.size());
}

std::optional<int64_t> Tokenizer::find(std::string_view token, Location location) const {
  const auto &names = held("find", location).names;
  auto found = names.find(std::string(token));
  return found == names.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

bool Tokenizer::is_special(int64_t id, Location location) const {
  const std::vector<char> &special = held("is_special", location).special;
  return id >= 0 && id < static_cast<int64_t>(special.size()) && special[static_cast<size_t>(id)];
}

} // namespace weft::text
