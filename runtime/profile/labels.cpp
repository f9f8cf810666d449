#include "runtime/profile/labels.h"

#include <array>

#include "runtime/core/caches.h"
#include "runtime/profile/limits.h"

namespace weft::runtime::profile {
namespace {

constexpr std::array kNames = {"kernel",     "library", "copy",       "fill",    "transfer",
                               "collective", "program", "evaluation", "prepare", "submit",
                               "find",       "wait",    "compile",    "phase",   "codegen",
                               "link",       "cache",   "counter"};
static_assert(kNames.size() == static_cast<size_t>(Kind::kCounter) + 1);

// A string of JSON. Bytes that are no UTF-8 become question marks.
void quote(std::string &to, std::string_view text) {
  to += '"';
  for (size_t i = 0; i < text.size();) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '"' || byte == '\\') {
      to += '\\';
      to += text[i++];
    } else if (byte < 0x20) {
      constexpr char kDigits[] = "0123456789abcdef";
      to += "\\u00";
      to += kDigits[byte >> 4];
      to += kDigits[byte & 15];
      ++i;
    } else if (byte < 0x80) {
      to += text[i++];
    } else {
      size_t length = byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
      bool whole = length > 0 && byte < 0xf5 && i + length <= text.size();
      for (size_t k = 1; whole && k < length; ++k)
        whole = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
      // Neither longer than it need be, nor a surrogate, nor beyond U+10FFFF.
      auto second = static_cast<unsigned char>(whole ? text[i + 1] : 0);
      whole = whole && !(byte == 0xe0 && second < 0xa0) && !(byte == 0xed && second > 0x9f) &&
              !(byte == 0xf0 && second < 0x90) && !(byte == 0xf4 && second > 0x8f);
      to += whole ? text.substr(i, length) : std::string_view("?");
      i += whole ? length : 1;
    }
  }
  to += '"';
}

const RegisteredCache registered("labels of profiles", "nothing: a trace begins with them known",
                                 [] {
                                   const Labels &labels = Labels::instance();
                                   return CacheUse{labels.count(), labels.bytes(), -1, kLabelBytes};
                                 });

} // namespace

const char *name(Kind kind) {
  return kNames[static_cast<size_t>(kind)];
}

void Args::key(std::string_view key) {
  if (!text_.empty())
    text_ += ',';
  quote(text_, key);
  text_ += ':';
}

Args &Args::add(std::string_view key, std::string_view text) {
  this->key(key);
  quote(text_, text);
  return *this;
}

Args &Args::add(std::string_view key, int64_t number) {
  this->key(key);
  text_ += std::to_string(number);
  return *this;
}

Args &Args::add(std::string_view key, const std::vector<std::string> &texts) {
  this->key(key);
  text_ += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0)
      text_ += ',';
    quote(text_, texts[i]);
  }
  text_ += ']';
  return *this;
}

Labels &Labels::instance() {
  static auto *labels = new Labels;
  return *labels;
}

Labels::Labels() {
  labels_.emplace_back();
  labels_.push_back({Kind::kProgram, "\"(labels beyond the bound)\"", "", "", 0, 0});
}

std::string Labels::key_of(const Label &label) {
  std::string key(1, static_cast<char>(label.kind));
  for (std::string_view part : {std::string_view(label.name), std::string_view(label.args),
                                std::string_view(label.value)}) {
    key += part;
    key += '\0';
  }
  for (double number : {label.flops, label.bytes})
    key.append(reinterpret_cast<const char *>(&number), sizeof number);
  return key;
}

uint32_t Labels::number_of(const Label &label) {
  std::string key = key_of(label);
  std::lock_guard lock(mutex_);
  auto known = numbers_.find(key);
  if (known != numbers_.end())
    return known->second;
  auto bytes = static_cast<int64_t>(2 * key.size() + sizeof(Label));
  if (bytes_ + bytes > kLabelBytes)
    return 1;
  bytes_ += bytes;
  // The name is kept as it stands in the file.
  Label kept = label;
  kept.name.clear();
  quote(kept.name, label.name);
  auto number = static_cast<uint32_t>(labels_.size());
  labels_.push_back(std::move(kept));
  numbers_.emplace(std::move(key), number);
  return number;
}

int64_t Labels::count() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(labels_.size());
}

int64_t Labels::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

const Label &Labels::at(uint32_t number) const {
  std::lock_guard lock(mutex_);
  return labels_[number];
}

uint32_t number_of(const Label &label) {
  return Labels::instance().number_of(label);
}

} // namespace weft::runtime::profile
