// examples/generate: a cache gives the tokens that the whole text gives, texts of a batch those
// that each gives alone, with few programs; sampling; folders as Hugging Face leaves them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "examples/generate/generate.h"
#include "tests/programs/process.h"
#include "tests/support/compiles.h"
#include "tests/support/errors.h"
#include "weft/models/pretrained.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using generate::Decoder;
using generate::GenerateOptions;
using testing_support::error_of;
using testing_support::message_of;
using Texts = std::vector<std::vector<int64_t>>;

constexpr int64_t kVocabulary = 61;

models::Gpt2 small_gpt2() {
  return models::Gpt2(
      {.vocabulary = kVocabulary, .positions = 320, .size = 24, .layers = 2, .heads = 4});
}
models::Llama small_llama() {
  return models::Llama({.vocabulary = kVocabulary,
                        .size = 24,
                        .hidden = 40,
                        .layers = 2,
                        .heads = 6,
                        .key_heads = 2});
}

// Weights as at the start of a training make much the same of every text; ten times as large ones
// tell them apart.
template <typename M> M shaken(M model) {
  NoGrad no_grad;
  for (const Tensor &parameter : model.parameters()) {
    Tensor tensor = parameter;
    tensor += randn(tensor.shape()) * 0.4;
  }
  eval(model.parameters());
  model.eval();
  return model;
}

template <typename M> Decoder small_decoder(const M &model) {
  Decoder decoder = generate::decoder_of(model);
  decoder.vocabulary = kVocabulary;
  return decoder;
}

Texts prompts(const std::vector<int64_t> &lengths) {
  Texts texts;
  data::SplitMix64 random(5);
  for (int64_t length : lengths) {
    texts.emplace_back();
    for (int64_t i = 0; i < length; ++i)
      texts.back().push_back(static_cast<int64_t>(random.below(kVocabulary)));
  }
  return texts;
}

GenerateOptions greedy(int64_t length) {
  return {.length = length, .sampling = {.temperature = 0}, .chunk = 8};
}

// The likeliest tokens by the whole text each time: one program, as the text is filled up behind,
// which a causal model does not see.
template <typename M>
std::vector<int64_t> without_cache(const M &model, std::vector<int64_t> ids, int64_t length) {
  NoGrad no_grad;
  const size_t given = ids.size();
  const int64_t room = static_cast<int64_t>(given) + length;
  auto whole = jit([model](const Tensor &x) { return model(x); });
  for (int64_t i = 0; i < length; ++i) {
    std::vector<int64_t> filled = ids;
    filled.resize(static_cast<size_t>(room));
    Tensor logits = whole(Tensor::from(filled, {1, room}));
    const float *row = logits.data<float>() + (static_cast<int64_t>(ids.size()) - 1) * kVocabulary;
    ids.push_back(std::max_element(row, row + kVocabulary) - row);
  }
  return {ids.begin() + static_cast<std::ptrdiff_t>(given), ids.end()};
}

template <typename M> void expect_the_cache_changes_nothing(const M &model) {
  Decoder decoder = small_decoder(model);
  // One token, less than a chunk, a chunk and one, many chunks.
  const Texts texts = prompts({1, 5, 9, 43});
  const int64_t length = 60;
  Texts together = generate::generate(decoder, texts, greedy(length)).added;
  ASSERT_EQ(together.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(together[i], without_cache(model, texts[i], length)) << i;
    EXPECT_EQ(together[i], generate::generate(decoder, {texts[i]}, greedy(length)).added[0]) << i;
  }
  std::vector<int64_t> all;
  for (const std::vector<int64_t> &one : together)
    all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  EXPECT_GE(std::unique(all.begin(), all.end()) - all.begin(), 10) << "texts that tell nothing";
}

TEST(Generate, Gpt2WithACacheGivesTheTokensOfTheWholeText) {
  manual_seed(1);
  expect_the_cache_changes_nothing(shaken(small_gpt2()));
}

TEST(Generate, LlamaWithACacheGivesTheTokensOfTheWholeText) {
  manual_seed(2);
  expect_the_cache_changes_nothing(shaken(small_llama()));
}

TEST(Generate, ACapacityThatChunksDoNotDivideIsFilled) {
  manual_seed(3);
  models::Gpt2 model = shaken(small_gpt2());
  Decoder decoder = small_decoder(model);
  decoder.positions = 50; // the capacity, too
  const Texts texts = prompts({45, 2});
  GenerateOptions options = greedy(5);
  options.chunk = 16; // the third one reaches back
  Texts given = generate::generate(decoder, texts, options).added;
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(given[i], without_cache(model, texts[i], 5)) << i;
}

TEST(Generate, TwoProgramsMakeAnyNumberOfTokens) {
  manual_seed(4);
  models::Llama model = shaken(small_llama());
  Decoder decoder = small_decoder(model);
  for (const Texts &texts : {prompts({40}), prompts({3, 17, 30})}) {
    Compiles compiles;
    generate::Generated result = generate::generate(decoder, texts, greedy(200));
    EXPECT_EQ(result.steps, 200);
    EXPECT_LE(compiles.count(), 2u) << "one for chunks of prompts, one for steps";
  }
  // Other lengths in the same capacity find both.
  Compiles compiles;
  generate::generate(decoder, prompts({30}), greedy(195));
  EXPECT_EQ(compiles.count(), 0u);
}

TEST(Generate, ATextEndsWithAnEndTokenAndOthersGoOn) {
  manual_seed(6);
  models::Gpt2 model = shaken(small_gpt2());
  Decoder decoder = small_decoder(model);
  const Texts texts = prompts({4, 6});
  Texts whole = generate::generate(decoder, texts, greedy(30)).added;
  // A token that only the first text has, as early as may be.
  auto only = std::find_if(whole[0].begin(), whole[0].end(), [&](int64_t id) {
    return std::find(whole[1].begin(), whole[1].end(), id) == whole[1].end();
  });
  ASSERT_NE(only, whole[0].end());
  decoder.end_tokens = {*only};
  std::map<int64_t, int64_t> called;
  Texts ended = generate::generate(decoder, texts, greedy(30), [&](int64_t row, int64_t) {
                  ++called[row];
                }).added;
  EXPECT_EQ(ended[0], std::vector<int64_t>(whole[0].begin(), only));
  EXPECT_EQ(ended[1], whole[1]);
  EXPECT_EQ(called[1], 30);
  EXPECT_EQ(called[0], static_cast<int64_t>(ended[0].size()));
  GenerateOptions options = greedy(30);
  options.stop_at_end = false;
  EXPECT_EQ(generate::generate(decoder, texts, options).added, whole);
}

TEST(Generate, ASeedRepeatsATextAndAnotherOneDoesNot) {
  manual_seed(7);
  Decoder decoder = small_decoder(shaken(small_gpt2()));
  GenerateOptions options{.length = 40, .sampling = {.temperature = 2}, .seed = 9};
  Texts texts = {prompts({5})[0], prompts({5})[0]};
  Texts first = generate::generate(decoder, texts, options).added;
  EXPECT_EQ(generate::generate(decoder, texts, options).added, first);
  EXPECT_NE(first[0], first[1]) << "each row has a stream of its own";
  EXPECT_EQ(generate::generate(decoder, {texts[0]}, options).added[0], first[0]);
  options.seed = 10;
  EXPECT_NE(generate::generate(decoder, texts, options).added[0], first[0]);
}

TEST(Generate, BadPromptsAreErrors) {
  manual_seed(8);
  Decoder decoder = small_decoder(small_gpt2());
  decoder.positions = 320;
  auto message = [&](const Texts &texts, const GenerateOptions &options) {
    return error_of([&] { generate::generate(decoder, texts, options); }).message();
  };
  EXPECT_EQ(message({}, greedy(1)), "there is no prompt");
  EXPECT_EQ(message({{1}, {}}, greedy(1)), "prompt 2 has no token");
  EXPECT_EQ(message({{1, kVocabulary}}, greedy(1)),
            "prompt 1 has the token 61, the model has 61: is this tokenizer the model's?");
  EXPECT_EQ(message(prompts({300}), greedy(21)),
            "a prompt of 300 tokens and 21 to add are more than the model's 320 positions");
  EXPECT_NE(
      message(prompts({300}), greedy(INT64_MAX)).find(" to add are more than the model's 320"),
      std::string::npos);
  EXPECT_MESSAGE(small_gpt2().make_cache(1, 321), "a text has at most 320 tokens");
  nn::KeyValueCache cache = small_gpt2().make_cache(2, 8);
  EXPECT_MESSAGE(small_gpt2()(zeros({3, 1}, int64), cache), "with the cache's batch of 2");
}

// --- Sampling ---

constexpr int kDraws = 40000;

std::map<int64_t, double> frequencies(const std::vector<float> &logits,
                                      const generate::SamplingOptions &options,
                                      int draws = kDraws) {
  generate::Sampler sampler(options);
  data::SplitMix64 random(11);
  std::map<int64_t, double> result;
  for (int i = 0; i < draws; ++i)
    result[sampler.choose(logits, random)] += 1.0 / draws;
  return result;
}

// Of tokens with these probabilities.
std::vector<float> logits_of(const std::vector<double> &probabilities) {
  std::vector<float> logits;
  for (double p : probabilities)
    logits.push_back(static_cast<float>(std::log(p) + 3)); // any constant may be added
  return logits;
}

void expect_frequencies(const std::map<int64_t, double> &given,
                        const std::map<int64_t, double> &expected) {
  EXPECT_EQ(given.size(), expected.size());
  for (const auto &[id, share] : expected) // five deviations
    EXPECT_NEAR(given.contains(id) ? given.at(id) : 0, share,
                5 * std::sqrt(share * (1 - share) / kDraws) + 1e-9)
        << id;
}

TEST(Sampling, DrawsWithTheModelsProbabilities) {
  expect_frequencies(frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.temperature = 1}),
                     {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
}

TEST(Sampling, TemperatureIsAPowerOfThem) {
  // Squares of 1, 4, 2 and 3 add up to 30.
  expect_frequencies(frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.temperature = 0.5}),
                     {{0, 1.0 / 30}, {1, 16.0 / 30}, {2, 4.0 / 30}, {3, 9.0 / 30}});
}

TEST(Sampling, TopKKeepsTheLikeliest) {
  expect_frequencies(frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.temperature = 1, .top_k = 2}),
                     {{1, 4.0 / 7}, {3, 3.0 / 7}});
  expect_frequencies(frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.temperature = 1, .top_k = 9}),
                     {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  expect_frequencies(
      frequencies(logits_of({0.25, 0.25, 0.25, 0.25}), {.temperature = 1, .top_k = 2}),
      {{0, 0.5}, {1, 0.5}}); // the first of equals
}

TEST(Sampling, TopPKeepsTheFewestWithThatShare) {
  // 0.4 is less than 0.6, 0.4 and 0.3 are enough.
  expect_frequencies(frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.temperature = 1, .top_p = 0.6}),
                     {{1, 4.0 / 7}, {3, 3.0 / 7}});
  expect_frequencies(
      frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.temperature = 1, .top_p = 0.01}), {{1, 1.0}});
  // Of what top-k leaves, 0.4 and 0.3 of 0.7, the first has 0.57.
  expect_frequencies(
      frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.temperature = 1, .top_k = 2, .top_p = 0.55}),
      {{1, 1.0}});
}

TEST(Sampling, TopPOfALargeVocabularyIsThatOfASortedOne) {
  // Tokens of falling probability in a shuffled order; the share needs several hundred of them.
  const size_t count = 5000;
  std::vector<size_t> place(count);
  std::iota(place.begin(), place.end(), 0);
  data::SplitMix64 random(3);
  for (size_t i = count - 1; i > 0; --i)
    std::swap(place[i], place[random.below(i + 1)]);
  std::vector<float> logits(count);
  double total = 0, sum = 0;
  for (size_t i = 0; i < count; ++i) {
    logits[place[i]] = static_cast<float>(-0.002 * static_cast<double>(i));
    total += std::exp(-0.002 * static_cast<double>(i));
  }
  size_t kept = 0;
  while (sum < 0.7 * total)
    sum += std::exp(-0.002 * static_cast<double>(kept++));
  ASSERT_GT(kept, 512u);
  std::map<int64_t, double> given = frequencies(logits, {.temperature = 1, .top_p = 0.7}, 3000);
  EXPECT_GT(given.size(), 400u);
  std::vector<size_t> rank(count);
  for (size_t i = 0; i < count; ++i)
    rank[place[i]] = i;
  for (const auto &[id, share] : given)
    EXPECT_LT(rank[static_cast<size_t>(id)], kept + 1);
}

TEST(Sampling, GreedyTakesTheFirstOfEquals) {
  generate::Sampler sampler({.temperature = 0});
  data::SplitMix64 random(1);
  EXPECT_EQ(sampler.choose(std::vector<float>{1, 5, 5, 2}, random), 1);
  EXPECT_EQ(sampler.choose(std::vector<float>{-INFINITY, -3}, random), 1);
}

TEST(Sampling, BadOptionsAndLogitsAreErrors) {
  EXPECT_MESSAGE(generate::Sampler({.temperature = -1}), "the temperature must be 0 or above");
  EXPECT_MESSAGE(generate::Sampler({.temperature = NAN}), "the temperature must be 0 or above");
  EXPECT_MESSAGE(generate::Sampler({.top_k = -1}), "top-k must be 0 or above");
  EXPECT_MESSAGE(generate::Sampler({.top_p = 0}), "top-p must be above 0");
  EXPECT_MESSAGE(generate::Sampler({.top_p = 1.5}), "top-p must be above 0");
  generate::Sampler sampler({.temperature = 1});
  data::SplitMix64 random(1);
  EXPECT_MESSAGE(sampler.choose(std::vector<float>{1, NAN}, random), "no finite logits");
  EXPECT_MESSAGE(sampler.choose(std::vector<float>{-INFINITY}, random), "no finite logits");
}

// --- Folders ---

constexpr const char *kGpt2Config =
    R"({"model_type": "gpt2", "vocab_size": 500, "n_positions": 320, "n_embd": 24, "n_layer": 2,
        "n_head": 4, "n_inner": null, "activation_function": "gelu_new", "eos_token_id": 0})";
constexpr const char *kLlamaConfig =
    R"({"model_type": "llama", "vocab_size": 600, "hidden_size": 24, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4,
        "hidden_act": "silu", "rms_norm_eps": 1e-05, "eos_token_id": [2, 5],
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})";

class Folders : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = scratch_folder();
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
  }
  void write(const std::string &name, const std::string &content) {
    write_whole(folder_ + "/" + name, content);
  }
  // kGpt2Config with one text in place of another.
  void write_config(const std::string &from, const std::string &to,
                    std::string config = kGpt2Config) {
    size_t at = config.find(from);
    ASSERT_NE(at, std::string::npos);
    write("config.json", config.replace(at, from.size(), to));
  }
  std::string error_of_gpt2() {
    Error error = error_of([&] { models::load_pretrained_gpt2(folder_); });
    EXPECT_EQ(error.kind(), ErrorKind::kFile) << error.what();
    return error.message();
  }
  std::string folder_;
};

models::Gpt2 gpt2_of_500() {
  return shaken(
      models::Gpt2({.vocabulary = 500, .positions = 320, .size = 24, .layers = 2, .heads = 4}));
}

void expect_same_state(const nn::Module &given, const nn::Module &expected) {
  nn::NamedTensors a = given.state(), b = expected.state();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i].second.to_vector<float>(), b[i].second.to_vector<float>()) << a[i].first;
}

TEST_F(Folders, AWholeFileShardsAndOldNamesAreTheSameModel) {
  manual_seed(20);
  models::Gpt2 model = gpt2_of_500();
  write("config.json", kGpt2Config);
  io::save_safetensors(folder_ + "/model.safetensors", model.state());
  expect_same_state(models::load_pretrained_gpt2(folder_), model);
  EXPECT_EQ(models::pretrained_type(folder_), "gpt2");
  EXPECT_EQ(models::pretrained_end_tokens(folder_), (std::vector<int64_t>{0}));

  // GPT-2's own file: no "transformer.", masks beside the weights, a head that is the token table.
  nn::NamedTensors old;
  for (const auto &[name, tensor] : model.state())
    old.emplace_back(name.substr(std::string("transformer.").size()), tensor);
  old.emplace_back("h.0.attn.bias", ones({1, 1, 320, 320}));
  old.emplace_back("lm_head.weight", model.state()[0].second);
  io::save_safetensors(folder_ + "/model.safetensors", old);
  expect_same_state(models::load_pretrained_gpt2(folder_), model);

  std::filesystem::remove(folder_ + "/model.safetensors");
  nn::NamedTensors parts[2];
  std::string map;
  int count = 0;
  for (const auto &[name, tensor] : model.state()) {
    int part = count++ % 2;
    parts[part].emplace_back(name, tensor);
    map += (map.empty() ? "\"" : ", \"") + name + "\": \"part-" + std::to_string(part) +
           ".safetensors\"";
  }
  for (int part : {0, 1})
    io::save_safetensors(folder_ + "/part-" + std::to_string(part) + ".safetensors", parts[part]);
  write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  expect_same_state(models::load_pretrained_gpt2(folder_), model);

  write("model.safetensors.index.json",
        "{\"weight_map\": {" + map + ", \"x\": \"part-1.safetensors\"}}");
  EXPECT_MESSAGE(models::load_pretrained_gpt2(folder_),
                 "weight_map.x is not in 'part-1.safetensors'");
  write("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"../part-1.safetensors\"}}");
  EXPECT_MESSAGE(models::load_pretrained_gpt2(folder_), "weight_map.x must be the name of a file");
}

TEST_F(Folders, ALlamaOfSixteenBitsBecomesOneOfThirtyTwo) {
  manual_seed(21);
  write("config.json", kLlamaConfig);
  models::LlamaConfig config = models::pretrained_llama_config(folder_);
  EXPECT_EQ(config.key_heads, 2);
  EXPECT_EQ(config.eps, 1e-5);
  EXPECT_EQ(config.rotary_base, 500);
  ASSERT_TRUE(config.rotary_scaling.has_value());
  EXPECT_EQ(config.rotary_scaling->original, 64);
  EXPECT_EQ(models::pretrained_end_tokens(folder_), (std::vector<int64_t>{2, 5}));
  models::Llama model = shaken(models::Llama(config));
  models::Llama half = nn::to(model, bfloat16);
  io::save_safetensors(folder_ + "/model.safetensors", half.state());
  expect_same_state(models::load_pretrained_llama(folder_), nn::to(half, float32));
  write("generation_config.json", "{\"eos_token_id\": 7}");
  EXPECT_EQ(models::pretrained_end_tokens(folder_), (std::vector<int64_t>{7}));
}

TEST_F(Folders, ErrorsNameTheFileAndTheKey) {
  EXPECT_EQ(error_of_gpt2(), "'" + folder_ + "/config.json': the file cannot be read, or is empty");
  write("config.json", "{");
  EXPECT_EQ(error_of_gpt2(), "'" + folder_ + "/config.json': the file is no JSON object");
  write("config.json", kLlamaConfig);
  EXPECT_EQ(error_of_gpt2(),
            "'" + folder_ + "/config.json': model_type is 'llama', it must be 'gpt2'");
  write_config("\"n_embd\": 24", "\"n_embd\": 0");
  EXPECT_EQ(error_of_gpt2(), "'" + folder_ + "/config.json': n_embd must be at least 1");
  write_config("\"n_embd\": 24, ", "");
  EXPECT_EQ(error_of_gpt2(),
            "'" + folder_ + "/config.json': n_embd must be an integer in [0, 2147483648)");
  write_config("gelu_new", "relu");
  EXPECT_EQ(error_of_gpt2(), "'" + folder_ + "/config.json': activation_function is \"relu\", " +
                                 "which the model here does not have");
  write("config.json", kGpt2Config);
  EXPECT_EQ(error_of_gpt2(), "'" + folder_ + "' has no weights: neither model.safetensors nor " +
                                 "model.safetensors.index.json is in it");
  models::Gpt2 model = gpt2_of_500();
  nn::NamedTensors state = model.state();
  state.pop_back();
  io::save_safetensors(folder_ + "/model.safetensors", state);
  std::string message = error_of_gpt2();
  EXPECT_TRUE(message.starts_with("the weights in '" + folder_ + "': ")) << message;
  EXPECT_NE(message.find("transformer.ln_f.bias"), std::string::npos) << message;
}

TEST_F(Folders, SizesThatDoNotFitAreErrorsOfTheFile) {
  const std::string file = "'" + folder_ + "/config.json': ";
  write_config("\"n_head\": 4", "\"n_head\": 5");
  EXPECT_EQ(error_of_gpt2(), file + "n_embd must be a multiple of n_head, they are 24 and 5");
  write_config("\"n_layer\": 2", "\"n_layer\": 2147483647");
  EXPECT_EQ(error_of_gpt2(), file + "n_layer must be an integer in [0, 4097)");
  write_config("\"n_head\"", "\"resid_pdrop\": 1.5, \"n_head\"");
  EXPECT_TRUE(error_of_gpt2().starts_with(file + "Dropout")) << error_of_gpt2();
  auto error_of_llama = [&](const std::string &from, const std::string &to) {
    write_config(from, to, kLlamaConfig);
    Error error = error_of([&] { models::load_pretrained_llama(folder_); });
    EXPECT_EQ(error.kind(), ErrorKind::kFile) << error.what();
    return error.message();
  };
  EXPECT_EQ(error_of_llama("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"),
            file + "hidden_size must be an even multiple of num_attention_heads, and that a "
                   "multiple of num_key_value_heads; they are 24, 6 and 4");
  EXPECT_EQ(error_of_llama("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 5000"),
            file + "num_hidden_layers must be an integer in [0, 4097)");
  EXPECT_EQ(error_of_llama("\"rope_parameters\"", "\"rope_scaling\": 3, \"rope_parameters\""),
            file + "rope_scaling must be an object or null");
  EXPECT_EQ(error_of_llama("\"factor\": 8.0", "\"factor\": 0"),
            file + "rope_parameters: factor and original_max_position_embeddings must be above 0, "
                   "and high_freq_factor above low_freq_factor");
}

TEST_F(Folders, TheProgramContinuesTexts) {
  const std::string program = "examples/generate/generate";
  manual_seed(22);
  write("config.json", kGpt2Config);
  io::save_safetensors(folder_ + "/model.safetensors", gpt2_of_500().state());
  std::filesystem::copy("frontend/text/test_data/gpt2.json", folder_ + "/tokenizer.json");
  ProcessResult one = run_process({program, "--model", folder_, "--prompt", "The tensor",
                                   "--length", "12", "--temperature", "0", "--ignore-end"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_TRUE(one.out.starts_with("The tensor")) << one.out;
  EXPECT_GT(one.out.size(), std::string("The tensor\n").size());
  EXPECT_NE(one.err.find("steps       12 for 1 text:"), std::string::npos) << one.err;
  write("prompts.txt", "a\r\nThe tensor\r\n"); // as some systems end lines
  ProcessResult two =
      run_process({program, "--model", folder_, "--prompts", folder_ + "/prompts.txt", "--length",
                   "12", "--temperature", "0", "--ignore-end", "--quiet"});
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(two.err, "");
  EXPECT_NE(two.out.find("--- 2\n" + one.out), std::string::npos) << two.out;
  ProcessResult half =
      run_process({program, "--model", folder_, "--prompt", "The tensor", "--length", "12",
                   "--temperature", "0", "--ignore-end", "--ids", "--dtype", "bfloat16"});
  EXPECT_EQ(half.exit_code, 0) << half.err;
  EXPECT_EQ(std::count(half.out.begin(), half.out.end(), ' '), 11) << "12 ids: " << half.out;
  for (const std::vector<std::string> &more :
       {std::vector<std::string>{},
        {"--prompt", ""},
        {"--prompt", "a", "--length", "400"},
        {"--prompt", "a", "--top-p", "2"},
        {"--prompts", folder_ + "/none"},
        {"--prompt", "a", "--tokenizer", folder_ + "/config.json"}}) {
    std::vector<std::string> command = {program, "--model", folder_};
    command.insert(command.end(), more.begin(), more.end());
    ProcessResult bad = run_process(command);
    EXPECT_EQ(bad.exit_code, 2) << bad.err;
    EXPECT_NE(bad.err.find("generate: "), std::string::npos) << bad.err;
  }
}

} // namespace
} // namespace weft::tests
