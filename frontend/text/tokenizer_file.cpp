// tokenizer.json, and vocab.json with merges.txt.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "frontend/io/json_file.h"
#include "frontend/text/tokenizer_impl.h"

namespace weft::text {
namespace {

using nlohmann::json;
using File = io::JsonFile;

// GPT-2's cut of a text into words, which ByteLevel has with use_regex.
constexpr const char *kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Ids index a table: several times the largest vocabularies, and what a damaged file may ask for.
constexpr int64_t kMaxId = int64_t(1) << 21;

// The steps of a kind of component that may be a "Sequence" of others, in order.
std::vector<std::pair<const json *, std::string>>
steps_of(const File &file, const json &whole, const char *list, const std::string &where) {
  std::vector<std::pair<const json *, std::string>> waiting, result;
  if (!whole.is_null())
    waiting.emplace_back(&whole, where);
  while (!waiting.empty()) {
    auto [step, path] = waiting.back();
    waiting.pop_back();
    if (file.text(*step, "type", path) != "Sequence") {
      result.emplace_back(step, path);
      continue;
    }
    const json &inner = file.list(*step, list, path);
    for (size_t i = inner.size(); i-- > 0;)
      waiting.emplace_back(&inner[i], path + "." + list + "[" + std::to_string(i) + "]");
  }
  return result;
}

class TokenizerReader {
public:
  explicit TokenizerReader(const File &file)
      : file_(file), impl_(std::make_shared<TokenizerImpl>()) {}

  std::shared_ptr<TokenizerImpl> read() {
    const json whole = file_.parse();
    read_normalizer(whole);
    read_pre_tokenizer(whole);
    const json &model = File::member(whole, "model");
    if (!model.is_object())
      file_.fail("model must be an object");
    read_model(model);
    read_added(whole);
    read_post_processor(whole);
    read_decoder(whole);
    return impl_;
  }

  // A byte-level model of these tokens; `merges` has a pair in each line.
  void read_tokens(const json &vocabulary, const std::string &where) {
    if (!vocabulary.is_object() || vocabulary.empty())
      file_.fail(where + " must be an object of tokens and their ids");
    for (const auto &[name, id] : vocabulary.items()) {
      std::string bytes;
      if (!impl_->byte_level || !byte_names_.bytes(name, bytes))
        bytes = name;
      int64_t index = file_.integer(id, where + "." + name, kMaxId);
      name_id(name, index, file_);
      impl_->pieces.emplace(bytes, index);
    }
  }
  void add_merge(const std::string &left, const std::string &right, const std::string &where,
                 const File &file) {
    auto find = [&](const std::string &name) {
      auto found = impl_->names.find(name);
      if (found == impl_->names.end())
        file.fail(where + ": the vocabulary lacks '" + name + "'");
      return found->second;
    };
    int64_t first = find(left), second = find(right);
    impl_->merges.add(first, second, find(left + right));
  }
  void cut_as_gpt2() {
    impl_->steps.push_back({.pattern = {Pattern(kGpt2Words, file_.path(), file_.location())}});
  }
  // file: the one that has it.
  void add(const AddedToken &token, const File &file) {
    auto found = impl_->names.find(token.content);
    if (found == impl_->names.end())
      name_id(token.content, token.id, file);
    else if (found->second != token.id)
      file.fail("'" + token.content + "' has two ids, " + std::to_string(found->second) + " and " +
                std::to_string(token.id));
    impl_->special[static_cast<size_t>(token.id)] = token.special;
    auto longer = [](const AddedToken &a, const AddedToken &b) {
      return a.content.size() > b.content.size();
    };
    impl_->added.insert(std::upper_bound(impl_->added.begin(), impl_->added.end(), token, longer),
                        token);
  }
  void fill_contents() {
    for (const auto &[name, id] : impl_->names) {
      std::string &content = impl_->contents[static_cast<size_t>(id)];
      if (!byte_decoder_ || !byte_names_.bytes(name, content))
        content = name;
      int byte = impl_->decoder.bytes ? byte_of(name) : -1;
      if (byte >= 0)
        content = static_cast<char>(byte);
      else
        for (const auto &[from, to] : impl_->decoder.replace)
          content = replaced(content, from, to);
    }
  }
  std::shared_ptr<TokenizerImpl> impl() {
    return impl_;
  }
  void set_byte_level() {
    impl_->byte_level = byte_decoder_ = true;
  }

private:
  // Until fill_contents(), the contents are the names.
  void name_id(const std::string &name, int64_t id, const File &file) {
    size_t index = static_cast<size_t>(id);
    if (index >= impl_->contents.size()) {
      impl_->contents.resize(index + 1);
      impl_->known.resize(index + 1, 0);
      impl_->special.resize(index + 1, 0);
    }
    if (impl_->known[index])
      file.fail("'" + impl_->contents[index] + "' and '" + name + "' have the same id, " +
                std::to_string(id));
    impl_->known[index] = 1;
    impl_->contents[index] = name;
    impl_->names.emplace(name, id);
  }

  // Of "<0x41>", 0x41; -1 for any other token.
  static int byte_of(const std::string &name) {
    if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>')
      return -1;
    int byte = 0;
    for (char digit : {name[3], name[4]}) {
      size_t value = std::string_view("0123456789ABCDEF").find(digit);
      if (value == std::string_view::npos)
        return -1;
      byte = byte * 16 + static_cast<int>(value);
    }
    return byte;
  }

  [[noreturn]] void unknown(const std::string &where, const std::string &what) const {
    file_.fail(where + " is " + what + ", which is not supported");
  }

  // {"String": ".."} of a pattern that is one; a regular expression gives nothing.
  std::optional<std::string> plain(const json &pattern, const std::string &where) const {
    if (File::member(pattern, "String").is_string())
      return file_.text(pattern, "String", where);
    if (!File::member(pattern, "Regex").is_string())
      file_.fail(where + " must have a String or a Regex");
    return {};
  }

  TextStep replacement(const json &step, const std::string &where) const {
    std::optional<std::string> from = plain(File::member(step, "pattern"), where + ".pattern");
    if (!from || from->empty())
      unknown(where + ".pattern", "a regular expression or empty");
    return {.kind = TextStep::Kind::kReplace,
            .first = *from,
            .second = file_.text(step, "content", where)};
  }

  void read_normalizer(const json &whole) {
    for (const auto &[step, where] :
         steps_of(file_, File::member(whole, "normalizer"), "normalizers", "normalizer")) {
      std::string type = file_.text(*step, "type", where);
      if (type == "Prepend")
        impl_->steps.push_back(
            {.kind = TextStep::Kind::kPrepend, .first = file_.text(*step, "prepend", where)});
      else if (type == "Replace")
        impl_->steps.push_back(replacement(*step, where));
      else
        unknown(where, type);
    }
  }

  void read_pre_tokenizer(const json &whole) {
    for (const auto &[step, where] :
         steps_of(file_, File::member(whole, "pre_tokenizer"), "pretokenizers", "pre_tokenizer")) {
      std::string type = file_.text(*step, "type", where);
      if (impl_->byte_level)
        unknown(where, type + " behind ByteLevel");
      if (type == "ByteLevel") {
        impl_->byte_level = true;
        if (file_.flag(*step, "add_prefix_space", where, true))
          impl_->steps.push_back({.kind = TextStep::Kind::kPrefix, .first = " "});
        if (file_.flag(*step, "use_regex", where, true))
          cut_as_gpt2();
      } else if (type == "Split") {
        read_split(*step, where);
      } else if (type == "Metaspace") {
        read_metaspace(*step, where);
      } else {
        unknown(where, type);
      }
    }
  }

  void read_split(const json &step, const std::string &where) {
    std::string behavior = file_.text(step, "behavior", where);
    if (behavior != "Isolated" && behavior != "Removed")
      unknown(where + ".behavior", behavior);
    if (file_.flag(step, "invert", where, false))
      unknown(where + ".invert", "true");
    const json &pattern = File::member(step, "pattern");
    std::string source;
    if (auto text = plain(pattern, where + ".pattern")) {
      for (char c : *text) // characters of ASCII that mean something in a pattern
        source += std::string_view("\\^$.|?*+()[]{}").find(c) == std::string_view::npos
                      ? std::string(1, c)
                      : std::string("\\") + c;
    } else {
      source = file_.text(pattern, "Regex", where + ".pattern");
    }
    impl_->steps.push_back(
        {.kind = behavior == "Isolated" ? TextStep::Kind::kSplit : TextStep::Kind::kRemove,
         .pattern = {Pattern(source, file_.path(), file_.location())}});
  }

  // "always", "first" or "never"; older files have a flag.
  std::string prepend_scheme(const json &step, const std::string &where) const {
    bool prefix = file_.flag(step, "add_prefix_space", where, true);
    std::string scheme = file_.text(step, "prepend_scheme", where, prefix ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      unknown(where + ".prepend_scheme", scheme);
    return scheme;
  }

  // What stands for a space in tokens.
  std::string metaspace_mark(const json &step, const std::string &where) const {
    std::string mark = file_.text(step, "replacement", where);
    if (mark.empty())
      unknown(where + ".replacement", "empty");
    return mark;
  }

  void read_metaspace(const json &step, const std::string &where) {
    std::string mark = metaspace_mark(step, where);
    impl_->steps.push_back({.kind = TextStep::Kind::kReplace, .first = " ", .second = mark});
    std::string scheme = prepend_scheme(step, where);
    if (scheme != "never")
      impl_->steps.push_back(
          {.kind = scheme == "first" ? TextStep::Kind::kPrefixOnce : TextStep::Kind::kPrefix,
           .first = mark});
    if (file_.flag(step, "split", where, true))
      impl_->steps.push_back({.kind = TextStep::Kind::kSplitWords, .first = mark});
  }

  void read_model(const json &model) {
    std::string type = file_.text(model, "type", "model", "BPE");
    if (type != "BPE")
      unknown("model.type", type);
    if (const json &dropout = File::member(model, "dropout");
        !dropout.is_null() && dropout != json(0.0))
      unknown("model.dropout", "a chance to leave out merges");
    for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!file_.text(model, key, "model", "").empty())
        unknown(std::string("model.") + key, "there");
    impl_->byte_fallback = file_.flag(model, "byte_fallback", "model", false);
    impl_->fuse_unknown = file_.flag(model, "fuse_unk", "model", false);
    impl_->whole_words = file_.flag(model, "ignore_merges", "model", false);
    read_tokens(File::member(model, "vocab"), "model.vocab");
    read_byte_tokens();
    if (std::string unknown = file_.text(model, "unk_token", "model", ""); !unknown.empty()) {
      auto found = impl_->names.find(unknown);
      if (found == impl_->names.end())
        file_.fail("model.unk_token: the vocabulary lacks '" + unknown + "'");
      impl_->unknown = found->second;
    }
    const json &merges = file_.list(model, "merges", "model");
    for (size_t i = 0; i < merges.size(); ++i) {
      const std::string where = "model.merges[" + std::to_string(i) + "]";
      const json &merge = merges[i];
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        add_merge(merge[0].get<std::string>(), merge[1].get<std::string>(), where, file_);
        continue;
      }
      std::string line = merge.is_string() ? merge.get<std::string>() : "";
      size_t space = line.find(' ');
      if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
        file_.fail(where + " must be two tokens");
      add_merge(line.substr(0, space), line.substr(space + 1), where, file_);
    }
  }

  void read_byte_tokens() {
    if (!impl_->byte_fallback)
      return;
    impl_->byte_ids.resize(256, -1);
    for (const auto &[name, id] : impl_->names)
      if (int byte = byte_of(name); byte >= 0)
        impl_->byte_ids[static_cast<size_t>(byte)] = id;
    if (std::count(impl_->byte_ids.begin(), impl_->byte_ids.end(), -1) > 0)
      file_.fail("model.byte_fallback is true, but the vocabulary lacks some of <0x00> to <0xFF>");
  }

  void read_added(const json &whole) {
    const json &added = File::member(whole, "added_tokens");
    if (added.is_null())
      return;
    if (!added.is_array())
      file_.fail("added_tokens must be a list");
    for (size_t i = 0; i < added.size(); ++i) {
      const std::string where = "added_tokens[" + std::to_string(i) + "]";
      AddedToken token{.content = file_.text(added[i], "content", where),
                       .id = file_.integer(File::member(added[i], "id"), where + ".id", kMaxId),
                       .special = file_.flag(added[i], "special", where, false),
                       .left_strip = file_.flag(added[i], "lstrip", where, false),
                       .right_strip = file_.flag(added[i], "rstrip", where, false)};
      if (token.content.empty())
        file_.fail(where + ".content must not be empty");
      if (file_.flag(added[i], "single_word", where, false))
        unknown(where + ".single_word", "true");
      add(token, file_);
    }
  }

  void read_post_processor(const json &whole) {
    for (const auto &[step, where] :
         steps_of(file_, File::member(whole, "post_processor"), "processors", "post_processor")) {
      std::string type = file_.text(*step, "type", where);
      if (type == "ByteLevel")
        continue; // concerns offsets alone
      if (type != "TemplateProcessing")
        unknown(where, type);
      bool was_text = false;
      for (const json &item : file_.list(*step, "single", where)) {
        if (item.contains("Sequence")) {
          was_text = true;
          continue;
        }
        std::string name = file_.text(File::member(item, "SpecialToken"), "id", where + ".single");
        const json &ids =
            File::member(File::member(File::member(*step, "special_tokens"), name.c_str()), "ids");
        if (!ids.is_array())
          file_.fail(where + ".special_tokens lacks the ids of '" + name + "'");
        for (const json &given : ids) {
          const std::string key = where + ".special_tokens." + name;
          int64_t id = file_.integer(given, key, kMaxId);
          if (id >= static_cast<int64_t>(impl_->known.size()) ||
              !impl_->known[static_cast<size_t>(id)])
            file_.fail(key + " has the id " + std::to_string(id) + ", which no token has");
          (was_text ? impl_->after : impl_->before).push_back(id);
        }
      }
      if (!was_text)
        file_.fail(where + ".single lacks the text");
    }
  }

  void read_decoder(const json &whole) {
    TextDecoder &decoder = impl_->decoder;
    const json &given = File::member(whole, "decoder");
    if (given.is_null())
      decoder.separator = " ";
    bool is_fused = false;
    for (const auto &[step, where] : steps_of(file_, given, "decoders", "decoder")) {
      std::string type = file_.text(*step, "type", where);
      if (type == "ByteLevel") {
        byte_decoder_ = true;
      } else if (type == "ByteFallback") {
        decoder.bytes = true;
      } else if (type == "Fuse") {
        is_fused = true;
      } else if (type == "Replace" && !is_fused) {
        TextStep replace = replacement(*step, where);
        decoder.replace.emplace_back(replace.first, replace.second);
      } else if (type == "Metaspace") {
        decoder.replace.emplace_back(metaspace_mark(*step, where), " ");
        if (prepend_scheme(*step, where) != "never")
          decoder.strip_first = " ";
      } else if (type == "Strip" && is_fused && decoder.strip.empty()) {
        decoder.strip = file_.text(*step, "content", where);
        decoder.strip_start = file_.integer(File::member(*step, "start"), where + ".start", kMaxId);
        decoder.strip_stop = file_.integer(File::member(*step, "stop"), where + ".stop", kMaxId);
      } else {
        unknown(where, type + (is_fused ? " behind Fuse" : " where it stands"));
      }
    }
    fill_contents();
  }

  const File &file_;
  std::shared_ptr<TokenizerImpl> impl_;
  ByteNames byte_names_;
  bool byte_decoder_ = false;
};

} // namespace

std::shared_ptr<TokenizerImpl> read_tokenizer_json(const std::string &path, Location location) {
  return TokenizerReader(File(path, location)).read();
}

std::shared_ptr<TokenizerImpl> read_vocabulary(const std::string &folder, Location location) {
  File vocabulary(folder + "/vocab.json", location), merges(folder + "/merges.txt", location);
  TokenizerReader reader(vocabulary);
  reader.set_byte_level();
  reader.cut_as_gpt2();
  const json tokens = vocabulary.parse();
  reader.read_tokens(tokens, "the file");
  std::istringstream lines(merges.read());
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("#version")))
      continue;
    const std::string where = "line " + std::to_string(number);
    size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      merges.fail(where + " must be two tokens");
    reader.add_merge(line.substr(0, space), line.substr(space + 1), where, merges);
  }
  // GPT-2's only special token, and those that were added to it.
  constexpr const char *kEnd = "<|endoftext|>";
  if (tokens.contains(kEnd))
    reader.add({.content = kEnd, .id = tokens[kEnd].get<int64_t>(), .special = true}, vocabulary);
  std::error_code error;
  const std::string added = folder + "/added_tokens.json";
  if (std::filesystem::exists(added, error)) {
    File file(added, location);
    const json names = file.parse();
    for (const auto &[name, id] : names.items()) {
      if (name.empty())
        file.fail("a token must not be empty");
      reader.add({.content = name, .id = file.integer(id, name, kMaxId), .special = true}, file);
    }
  }
  reader.fill_contents();
  return reader.impl();
}

} // namespace weft::text
