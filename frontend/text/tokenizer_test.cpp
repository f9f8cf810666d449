// Ids and texts are those of Hugging Face's `tokenizers` (make_test_data.py).
#include "weft/text/tokenizer.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/errors.h"
#include "weft/data/random.h"

namespace weft::text {
namespace {

using nlohmann::json;
using testing_support::message_of;

const std::string kData = "frontend/text/test_data/";
const std::string kKinds[] = {"gpt2", "gpt2_prefixed", "llama3", "llama2", "metaspace", "unknown"};

json parse(const std::string &path) {
  return json::parse(std::ifstream(path));
}

Tokenizer load(const std::string &kind) {
  return Tokenizer::load(kData + kind + ".json");
}

void expect_cases(const Tokenizer &tokenizer, const std::string &kind) {
  const json all = parse(kData + "cases.json");
  ASSERT_GE(all[kind].size(), 30u);
  for (const json &one : all[kind]) {
    const std::string text = one["text"];
    const std::vector<int64_t> ids = one["ids"];
    EXPECT_EQ(tokenizer.encode(text), ids) << kind << ": " << one["text"];
    EXPECT_EQ(tokenizer.encode(text, {.add_special = false}),
              one["plain"].get<std::vector<int64_t>>())
        << kind << ": " << one["text"];
    EXPECT_EQ(tokenizer.decode(ids), one["decoded"].get<std::string>()) << kind;
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), one["shown"].get<std::string>())
        << kind;
  }
}

TEST(Tokenizer, GivesTheIdsAndTextsOfHuggingFace) {
  for (const std::string &kind : kKinds)
    expect_cases(load(kind), kind);
}

TEST(Tokenizer, VocabularyAndMergesAreTheSameAsOneFile) {
  expect_cases(Tokenizer::load(kData + "gpt2"), "gpt2");
}

TEST(Tokenizer, AnyBytesComeBack) {
  const std::string texts[] = {
      "a\xff\xfe b",    "\xe2\x82",         "\xe2\x82\xac\xe2\x82",      "\xc0\x80",
      "\xed\xa0\x80 x", "\xf5\x80\x80\x80", std::string("nul\0 nul", 8), "ok \xf0\x9f\x99 cut",
      "\x80\x80\x80"};
  for (const char *kind : {"gpt2", "llama3", "llama2", "metaspace"})
    for (const std::string &text : texts) {
      Tokenizer tokenizer = load(kind);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << kind;
    }
  // All bytes, alone and in a row.
  std::string all;
  for (int byte = 0; byte < 256; ++byte)
    all += static_cast<char>(byte);
  Tokenizer tokenizer = load("gpt2");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all)), all);
}

TEST(Tokenizer, ACharacterMayBeCutBetweenTokens) {
  Tokenizer tokenizer = load("llama2");
  std::vector<int64_t> ids = tokenizer.encode("x\U0001f642", {.add_special = false});
  std::string whole;
  for (size_t i = 0; i <= ids.size(); ++i) {
    std::string part = tokenizer.decode(std::span(ids).first(i));
    EXPECT_TRUE(part.starts_with(whole)) << "what is decoded stays as more tokens come";
    whole = part;
  }
  EXPECT_EQ(whole, "x\U0001f642");
}

TEST(Tokenizer, SpecialTokensInATextCanBeReadAsCharacters) {
  Tokenizer tokenizer = load("llama3");
  const int64_t begin = tokenizer.find("<s>").value();
  EXPECT_TRUE(tokenizer.is_special(begin));
  EXPECT_EQ(tokenizer.encode("a<s>").back(), begin);
  std::vector<int64_t> ids =
      tokenizer.encode("a<s>", {.add_special = false, .read_special = false});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), begin), 0);
  EXPECT_EQ(tokenizer.decode(ids), "a<s>");
  EXPECT_FALSE(tokenizer.find("no such token").has_value());
  EXPECT_FALSE(tokenizer.is_special(tokenizer.size()));
}

TEST(Tokenizer, LongTextsComeBack) {
  // One word of 200,000 symbols, where Llama 2's does not cut.
  std::string text;
  while (text.size() < 200000)
    text += "the value of a tensor ";
  Tokenizer tokenizer = load("llama2");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  std::string spaces(200000, ' ');
  for (const char *kind : {"gpt2", "llama3", "llama2"})
    EXPECT_TRUE(load(kind).decode(load(kind).encode(spaces)) == spaces) << kind;
}

TEST(Tokenizer, AnIdThatIsNoTokensIsAnError) {
  Tokenizer tokenizer = load("gpt2");
  std::vector<int64_t> ids = {0, tokenizer.size()};
  EXPECT_EQ(message_of([&] { tokenizer.decode(ids); }, ErrorKind::kIndex),
            "Tokenizer: there is no token of id 500; they go up to 499");
  ids[1] = -1;
  EXPECT_NE(message_of([&] { tokenizer.decode(ids); }, ErrorKind::kIndex), "");
}

TEST(Tokenizer, OneThatWasMovedFromSaysSo) {
  Tokenizer tokenizer = load("gpt2"), kept = std::move(tokenizer);
  auto refused = [&](const std::string &call, const std::function<void()> &f) {
    EXPECT_EQ(message_of(f, ErrorKind::kState)
                  .find(call + ": the tokenizer was moved from; use the one"),
              0u);
  };
  refused("encode", [&] { tokenizer.encode("a"); });
  refused("decode", [&] { tokenizer.decode(std::vector<int64_t>{0}); });
  refused("size", [&] { (void)tokenizer.size(); });
  refused("find", [&] { (void)tokenizer.find("a"); });
  refused("is_special", [&] { (void)tokenizer.is_special(0); });
}

// --- Files ---

class TokenizerFiles : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("weft_tokenizer_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
  }
  std::string write(const std::string &name, const std::string &content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  // The error of gpt2.json after a change; it names the file.
  template <typename F> std::string error_after(F change, const std::string &kind = "gpt2") {
    json data = parse(kData + kind + ".json");
    change(data);
    const std::string path = write("tokenizer.json", data.dump());
    std::string message = message_of([&] { Tokenizer::load(path); }, ErrorKind::kFile);
    EXPECT_TRUE(message.starts_with("'" + path + "': ")) << message;
    return message.substr(std::min(message.size(), path.size() + 4));
  }
  std::filesystem::path folder_;
};

TEST_F(TokenizerFiles, MissingAndDamagedOnes) {
  const std::string missing = (folder_ / "none.json").string();
  EXPECT_MESSAGE(Tokenizer::load(missing), missing);
  EXPECT_MESSAGE(Tokenizer::load(folder_.string()), "neither tokenizer.json nor vocab.json");
  EXPECT_MESSAGE(Tokenizer::load(write("cut.json", "{\"model\": {")), "cut.json': the file is no");
  EXPECT_MESSAGE(Tokenizer::load(write("empty.json", "")), "empty.json'");
  EXPECT_MESSAGE(Tokenizer::load(write("list.json", "[1]")), "the file is no JSON object");
  std::filesystem::copy(kData + "gpt2/vocab.json", folder_ / "vocab.json");
  write("merges.txt", "#version: 0.2\na\n");
  EXPECT_MESSAGE(Tokenizer::load(folder_.string()), "merges.txt': line 2 must be two tokens");
  write("merges.txt", "#version: 0.2\na \xc4\xa0\xc4\xa0\xc4\xa0\n");
  EXPECT_MESSAGE(Tokenizer::load(folder_.string()), "merges.txt': line 2: the vocabulary lacks");
}

TEST_F(TokenizerFiles, ErrorsNameTheKey) {
  EXPECT_EQ(error_after([](json &data) { data["model"] = 3; }), "model must be an object");
  EXPECT_EQ(error_after([](json &data) { data["model"]["type"] = "Unigram"; }),
            "model.type is Unigram, which is not supported");
  EXPECT_EQ(error_after([](json &data) { data["model"]["vocab"]["a"] = -1; }),
            "model.vocab.a must be an integer in [0, 2097152)");
  EXPECT_EQ(error_after([](json &data) { data["model"]["merges"][2] = "ab"; }),
            "model.merges[2] must be two tokens");
  EXPECT_EQ(error_after([](json &data) { data["model"]["merges"][2] = {"a", "zzz"}; }),
            "model.merges[2]: the vocabulary lacks 'zzz'");
  EXPECT_EQ(error_after([](json &data) { data["model"]["unk_token"] = "<none>"; }),
            "model.unk_token: the vocabulary lacks '<none>'");
  EXPECT_EQ(error_after([](json &data) { data["model"]["end_of_word_suffix"] = "</w>"; }),
            "model.end_of_word_suffix is there, which is not supported");
  EXPECT_EQ(error_after([](json &data) { data["normalizer"] = {{"type", "NFKC"}}; }),
            "normalizer is NFKC, which is not supported");
  EXPECT_EQ(error_after([](json &data) { data["pre_tokenizer"] = {{"type", "Whitespace"}}; }),
            "pre_tokenizer is Whitespace, which is not supported");
  EXPECT_EQ(error_after([](json &data) { data["added_tokens"][0]["content"] = ""; }),
            "added_tokens[0].content must not be empty");
  EXPECT_EQ(error_after([](json &data) { data["added_tokens"][0]["id"] = 7; }),
            "'<|endoftext|>' has two ids, 0 and 7");
  EXPECT_EQ(
      error_after([](json &data) { data["model"]["vocab"]["b"] = data["model"]["vocab"]["a"]; }),
      "'a' and 'b' have the same id, 65");
  EXPECT_EQ(error_after([](json &data) { data["added_tokens"][0]["content"] = "<end>"; }),
            "'<|endoftext|>' and '<end>' have the same id, 0");
  EXPECT_EQ(error_after([](json &data) { data["post_processor"] = {{"type", "BertProcessing"}}; }),
            "post_processor is BertProcessing, which is not supported");
  EXPECT_EQ(
      error_after(
          [](json &data) { data["post_processor"]["special_tokens"]["<s>"]["ids"][0] = 5000; },
          "llama2"),
      "post_processor.special_tokens.<s> has the id 5000, which no token has");
  EXPECT_EQ(error_after([](json &data) { data["pre_tokenizer"]["replacement"] = ""; }, "unknown"),
            "pre_tokenizer.replacement is empty, which is not supported");
  EXPECT_EQ(error_after([](json &data) { data["decoder"]["replacement"] = ""; }, "unknown"),
            "decoder.replacement is empty, which is not supported");
  EXPECT_EQ(
      error_after([](json &data) { data["decoder"]["decoders"][3]["start"] = "x"; }, "llama2"),
      "decoder.decoders[3].start must be an integer in [0, 2097152)");
  EXPECT_EQ(error_after([](json &data) { data["model"]["vocab"].erase("<0x41>"); }, "llama2"),
            "model.byte_fallback is true, but the vocabulary lacks some of <0x00> to <0xFF>");
}

TEST_F(TokenizerFiles, AddedTokensHaveIdsOfTheirOwn) {
  for (const char *name : {"vocab.json", "merges.txt"})
    std::filesystem::copy(kData + "gpt2/" + name, folder_ / name);
  const std::string added = write("added_tokens.json", "{\"<pad>\": 1}");
  EXPECT_EQ(message_of([&] { Tokenizer::load(folder_.string()); }, ErrorKind::kFile),
            "'" + added + "': '!' and '<pad>' have the same id, 1");
  write("added_tokens.json", "{\"!\": 2}");
  EXPECT_EQ(message_of([&] { Tokenizer::load(folder_.string()); }, ErrorKind::kFile),
            "'" + added + "': '!' has two ids, 1 and 2");
  write("added_tokens.json", "{\"\": 500}");
  EXPECT_EQ(message_of([&] { Tokenizer::load(folder_.string()); }, ErrorKind::kFile),
            "'" + added + "': a token must not be empty");
  write("added_tokens.json", "{\"<pad>\": 500}");
  EXPECT_EQ(Tokenizer::load(folder_.string()).find("<pad>"), 500);
}

// The ids are those of Hugging Face with encode_special_tokens, which is read_special = false.
TEST_F(TokenizerFiles, ASpecialTokenOfLettersAloneCannotBeTyped) {
  struct Case {
    std::string kind, token, text;
    std::vector<int64_t> read, typed;
  };
  const Case cases[] = {
      {"llama3", "secret", "secret", {503}, {343, 66, 265, 83}},
      {"llama3", "secret", "a secret", {64, 220, 503}, {64, 453, 66, 265, 83}},
      {"metaspace", "日", "日", {559}, {348, 233, 154, 168}},
      {"llama2",
       "日",
       "日s 日",
       {559, 359, 348, 559},
       {348, 233, 154, 168, 333, 348, 233, 154, 168}},
  };
  for (const Case &one : cases) {
    json data = parse(kData + one.kind + ".json");
    data["added_tokens"].push_back(
        {{"id", one.kind == "llama3" ? 503 : 559}, {"content", one.token}, {"special", true}});
    Tokenizer tokenizer = Tokenizer::load(write("tokenizer.json", data.dump()));
    EncodeOptions options{.add_special = false};
    EXPECT_EQ(tokenizer.encode(one.text, options), one.read) << one.kind << ": " << one.text;
    options.read_special = false;
    EXPECT_EQ(tokenizer.encode(one.text, options), one.typed) << one.kind << ": " << one.text;
  }
}

TEST_F(TokenizerFiles, PatternsThatAreNotKnownAreErrorsWithAPlace) {
  auto error_of_pattern = [&](const std::string &pattern) {
    return error_after(
        [&](json &data) {
          data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
        },
        "llama3");
  };
  for (const char *bad :
       {"(a", "a)", "[a", "a{", "a{3,1}", "(a)+", "a+?", "a++", "^a", "\\w", "\\p{Lu}", "(?<=a)b",
        "[a[b]]", "*", "(?!ab)", "a{1001}", "\\", "[z-a]"}) {
    std::string message = error_of_pattern(bad);
    EXPECT_TRUE(message.starts_with("the pattern '" + std::string(bad) + "' has ")) << message;
    EXPECT_NE(message.find(" at character "), std::string::npos) << message;
  }
  std::string many = "(a|b|c|d|e|f|g|h|i)";
  EXPECT_NE(error_of_pattern(many + many + many).find("more than 512 alternatives"),
            std::string::npos);
  // Few alternatives, each with all that follows, and groups that are copied one by one.
  EXPECT_NE(error_of_pattern(many + many + std::string(2000, 'x')).find("more than 131072"),
            std::string::npos);
  EXPECT_NE(error_of_pattern(many + many + "[" + std::string(2000, 'x') + "]").find("more than"),
            std::string::npos);
  std::string groups;
  for (int i = 0; i < 1000; ++i)
    groups += "(a)";
  EXPECT_NE(error_of_pattern(groups).find("more than 131072"), std::string::npos);
  EXPECT_NE(error_of_pattern(std::string(100, '(')).find("too many groups"), std::string::npos);
}

// Whatever is in a file: it is read, or the error is Weft's own.
TEST_F(TokenizerFiles, DamagedAnywhereAreReadOrRefused) {
  data::SplitMix64 random(1);
  int refused = 0, read = 0;
  for (const char *kind : {"gpt2_prefixed", "llama3", "llama2", "metaspace", "unknown"}) {
    std::ifstream stream(kData + kind + ".json", std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(stream)), {});
    ASSERT_GT(whole.size(), 1000u);
    for (int i = 0; i < 300; ++i) {
      std::string content = whole;
      // A byte that means something in JSON, or any, or the file is cut; mostly where the parts
      // other than the vocabulary stand.
      size_t at = random.below(i % 2 ? content.size() : 1500);
      if (i % 5 == 0)
        content.resize(at);
      else
        content[at] =
            i % 3 ? "{}[]\",:0 9tn"[random.below(13)] : static_cast<char>(random.below(256));
      const std::string path = write("tokenizer.json", content);
      try {
        Tokenizer tokenizer = Tokenizer::load(path);
        ++read;
        tokenizer.decode(tokenizer.encode("some text <s> \u00e9"));
      } catch (const Error &error) {
        ++refused;
        if (error.kind() == ErrorKind::kFile)
          EXPECT_NE(error.message().find(path), std::string::npos) << error.message();
      }
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

TEST_F(TokenizerFiles, AByteThatNoTokenHasIsAnErrorOfTheText) {
  json data = parse(kData + "gpt2.json");
  for (const char *key : {"vocab"})
    data["model"][key].erase("z");
  data["model"]["merges"] = json::array();
  Tokenizer tokenizer = Tokenizer::load(write("tokenizer.json", data.dump()));
  EXPECT_EQ(
      message_of([&] { tokenizer.encode("buzz"); }, ErrorKind::kValue),
      "Tokenizer: there is no token for the bytes 0x7a of the text, nor one for unknown ones");
}

} // namespace
} // namespace weft::text
