#include "weft/models/pretrained.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "frontend/io/json_file.h"
#include "weft/io/safetensors.h"

namespace weft::models {
namespace {

using io::JsonFile;
using json = JsonFile::json;

// No size of a model comes near it.
constexpr int64_t kMaxSize = int64_t(1) << 31;
// Of layers: dozens of times the deepest models. All are built before the first weight is read.
constexpr int64_t kMaxLayers = int64_t(1) << 12;

JsonFile config_file(const std::string &folder, Location location) {
  return JsonFile(folder + "/config.json", location);
}

// config.json, read key by key.
class ConfigReader {
public:
  ConfigReader(const std::string &folder, const std::string &type, Location location)
      : file_(config_file(folder, location)), values_(file_.parse()) {
    if (std::string given = file_.text(values_, "model_type", ""); given != type)
      file_.fail("model_type is '" + given + "', it must be '" + type + "'");
  }

  int64_t size(const char *key) const {
    return at_least_one(key, kMaxSize);
  }
  int64_t layers(const char *key) const {
    return at_least_one(key, kMaxLayers + 1);
  }
  int64_t at_least_one(const char *key, int64_t end) const {
    int64_t value = file_.integer(JsonFile::member(values_, key), key, end);
    if (value == 0)
      file_.fail(std::string(key) + " must be at least 1");
    return value;
  }
  int64_t size(const char *key, int64_t otherwise) const {
    return JsonFile::member(values_, key).is_null() ? otherwise : size(key);
  }
  double number(const char *key, double otherwise) const {
    return file_.number(values_, key, "", otherwise);
  }
  bool flag(const char *key, bool otherwise) const {
    return file_.flag(values_, key, "", otherwise);
  }
  // Throws unless the key is absent, null, or one of these values.
  void expect(const char *key, std::initializer_list<json> values) const {
    const json &value = JsonFile::member(values_, key);
    if (!value.is_null() && std::find(values.begin(), values.end(), value) == values.end())
      file_.fail(std::string(key) + " is " + value.dump() + ", which the model here does not have");
  }
  const json &member(const char *key) const {
    return JsonFile::member(values_, key);
  }
  const JsonFile &file() const {
    return file_;
  }

private:
  JsonFile file_;
  json values_;
};

// rope_scaling, or rope_parameters of newer files, which has the base as well.
void read_rotary(const ConfigReader &reader, LlamaConfig &config) {
  config.rotary_base = reader.number("rope_theta", 10000);
  const JsonFile &file = reader.file();
  for (const char *key : {"rope_scaling", "rope_parameters"}) {
    const json &given = reader.member(key);
    if (given.is_null())
      continue;
    if (!given.is_object())
      file.fail(std::string(key) + " must be an object or null");
    config.rotary_base = file.number(given, "rope_theta", key, config.rotary_base);
    std::string type = file.text(given, "rope_type", key, file.text(given, "type", key, "default"));
    if (type == "default")
      continue;
    if (type != "llama3")
      file.fail(std::string(key) + ".rope_type is '" + type +
                "', which the model here does not have");
    config.rotary_scaling = {.factor = file.number(given, "factor", key),
                             .low = file.number(given, "low_freq_factor", key),
                             .high = file.number(given, "high_freq_factor", key),
                             .original =
                                 file.number(given, "original_max_position_embeddings", key)};
    if (const auto &scaling = *config.rotary_scaling;
        !(scaling.factor > 0 && scaling.original > 0 && scaling.high > scaling.low))
      file.fail(std::string(key) + ": factor and original_max_position_embeddings must be above 0, "
                                   "and high_freq_factor above low_freq_factor");
  }
}

bool is_no_weight(const std::string &name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

// Loads what the files have under the names that the module has, in its dtypes.
void load(nn::Module &module, const std::string &folder, const std::string &prefix,
          Location location) {
  std::map<std::string, DType> dtypes;
  for (const auto &[name, tensor] : module.state())
    dtypes.emplace(name, tensor.dtype());
  nn::NamedTensors tensors;
  for (auto &[name, tensor] : pretrained_tensors(folder, location)) {
    if (is_no_weight(name) || (name == "lm_head.weight" && !dtypes.contains(name)))
      continue;
    auto found = dtypes.find(name);
    if (found == dtypes.end())
      found = dtypes.find(name = prefix + name);
    bool converts = found != dtypes.end() && is_floating(tensor.dtype());
    tensors.emplace_back(name, converts ? tensor.to(found->second) : tensor);
  }
  try {
    module.load_state(tensors, true, location);
  } catch (const Error &error) {
    throw Error(ErrorKind::kFile, "the weights in '" + folder + "': " + error.message(), location);
  }
  module.eval();
}

// A model of what config.json says: sizes that it does not have are an error of that file.
template <typename M, typename C>
M made(const C &config, const std::string &folder, Location location) {
  try {
    return M(config, location);
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::kValue && error.kind() != ErrorKind::kShape)
      throw;
    config_file(folder, location).fail(error.message());
  }
}

} // namespace

std::string pretrained_type(const std::string &folder, Location location) {
  CallerScope scope(location);
  JsonFile file = config_file(folder, CallerScope::resolve(location));
  return file.text(file.parse(), "model_type", "");
}

Gpt2Config pretrained_gpt2_config(const std::string &folder, Location location) {
  CallerScope scope(location);
  ConfigReader reader(folder, "gpt2", CallerScope::resolve(location));
  reader.expect("layer_norm_epsilon", {1e-5});
  reader.expect("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  reader.expect("scale_attn_weights", {true});
  reader.expect("scale_attn_by_inverse_layer_idx", {false});
  reader.expect("add_cross_attention", {false});
  Gpt2Config config{.vocabulary = reader.size("vocab_size"),
                    .positions = reader.size("n_positions"),
                    .size = reader.size("n_embd"),
                    .layers = reader.layers("n_layer"),
                    .heads = reader.size("n_head"),
                    .hidden = reader.size("n_inner", 0),
                    .dropout = reader.number("resid_pdrop", 0.1),
                    .tied = reader.flag("tie_word_embeddings", true)};
  if (config.size % config.heads != 0)
    reader.file().fail("n_embd must be a multiple of n_head, they are " +
                       std::to_string(config.size) + " and " + std::to_string(config.heads));
  return config;
}

LlamaConfig pretrained_llama_config(const std::string &folder, Location location) {
  CallerScope scope(location);
  ConfigReader reader(folder, "llama", CallerScope::resolve(location));
  reader.expect("hidden_act", {"silu"});
  reader.expect("attention_bias", {false});
  reader.expect("mlp_bias", {false});
  LlamaConfig config{.vocabulary = reader.size("vocab_size"),
                     .size = reader.size("hidden_size"),
                     .hidden = reader.size("intermediate_size"),
                     .layers = reader.layers("num_hidden_layers"),
                     .heads = reader.size("num_attention_heads"),
                     .key_heads =
                         reader.size("num_key_value_heads", reader.size("num_attention_heads")),
                     .eps = reader.number("rms_norm_eps", 1e-6),
                     .tied = reader.flag("tie_word_embeddings", false)};
  if (config.size % config.heads == 0)
    reader.expect("head_dim", {config.size / config.heads});
  if (config.size % (2 * config.heads) != 0 || config.heads % config.key_heads != 0)
    reader.file().fail("hidden_size must be an even multiple of num_attention_heads, and that a "
                       "multiple of num_key_value_heads; they are " +
                       std::to_string(config.size) + ", " + std::to_string(config.heads) + " and " +
                       std::to_string(config.key_heads));
  read_rotary(reader, config);
  return config;
}

std::vector<int64_t> pretrained_end_tokens(const std::string &folder, Location location) {
  CallerScope scope(location);
  for (const char *name : {"/generation_config.json", "/config.json"}) {
    JsonFile file(folder + name, CallerScope::resolve(location));
    std::error_code error;
    if (!std::filesystem::exists(file.path(), error))
      continue;
    const json values = file.parse();
    const json &given = JsonFile::member(values, "eos_token_id");
    if (given.is_null())
      continue;
    std::vector<int64_t> ids;
    for (const json &id : given.is_array() ? given : json::array({given}))
      ids.push_back(file.integer(id, "eos_token_id", kMaxSize));
    return ids;
  }
  return {};
}

nn::NamedTensors pretrained_tensors(const std::string &folder, Location location) {
  CallerScope scope(location);
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string whole = folder + "/model.safetensors";
  auto read = [&](const std::string &path) {
    io::SafeTensors file = io::load_safetensors(path, location);
    for (const io::SafeTensors::Unread &each : file.unread)
      fail_at(location, ErrorKind::kFile, "'" + path + "': '" + each.name + "' is " + each.text());
    return std::move(file.tensors);
  };
  if (fs::exists(whole, error))
    return read(whole);
  JsonFile index(folder + "/model.safetensors.index.json", CallerScope::resolve(location));
  if (!fs::exists(index.path(), error))
    fail_at(location, ErrorKind::kFile,
            "'" + folder + "' has no weights: neither model.safetensors nor " +
                "model.safetensors.index.json is in it");
  const json values = index.parse();
  const json &map = JsonFile::member(values, "weight_map");
  if (!map.is_object())
    index.fail("weight_map must be an object of names and files");
  std::map<std::string, std::set<std::string>> files; // and the names that each has
  for (const auto &[name, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      index.fail("weight_map." + name + " must be the name of a file beside it");
    files[file.get<std::string>()].insert(name);
  }
  nn::NamedTensors tensors;
  for (auto &[file, names] : files) {
    for (auto &[name, tensor] : read(folder + "/" + file))
      if (names.erase(name))
        tensors.emplace_back(name, tensor);
    if (!names.empty())
      index.fail("weight_map." + *names.begin() + " is not in '" + file + "'");
  }
  return tensors;
}

Gpt2 load_pretrained_gpt2(const std::string &folder, Location location) {
  CallerScope scope(location);
  Gpt2 model =
      made<Gpt2>(pretrained_gpt2_config(folder, location), folder, CallerScope::resolve(location));
  load(model, folder, "transformer.", CallerScope::resolve(location));
  return model;
}

Llama load_pretrained_llama(const std::string &folder, Location location) {
  CallerScope scope(location);
  Llama model = made<Llama>(pretrained_llama_config(folder, location), folder,
                            CallerScope::resolve(location));
  load(model, folder, "model.", CallerScope::resolve(location));
  return model;
}

} // namespace weft::models
