// Language models as Hugging Face's save_pretrained() leaves them: a folder with config.json and
// model.safetensors, or the files that model.safetensors.index.json names.
#pragma once

#include <string>
#include <vector>

#include "weft/models/gpt2.h"
#include "weft/models/llama.h"

namespace weft::models {

// All of these throw Error (kFile), naming the file and the key, for what is missing, damaged, or
// asks for something that the model here does not have.

// config.json's "model_type": "gpt2", "llama", ...
std::string pretrained_type(const std::string &folder, Location location = Location::current());
// What config.json says of a model of this type.
Gpt2Config pretrained_gpt2_config(const std::string &folder,
                                  Location location = Location::current());
LlamaConfig pretrained_llama_config(const std::string &folder,
                                    Location location = Location::current());
// The tokens that end a text, as generation_config.json or config.json says; empty for none.
std::vector<int64_t> pretrained_end_tokens(const std::string &folder,
                                           Location location = Location::current());
// All tensors of the folder's files, as they are in them.
nn::NamedTensors pretrained_tensors(const std::string &folder,
                                    Location location = Location::current());
// The models themselves, in evaluation. Weights of another floating dtype are converted to the
// model's (nn::DTypeScope, else float32). Old files of GPT-2, whose names lack "transformer.", and
// buffers that are no weights (masks, rotary frequencies) are understood.
Gpt2 load_pretrained_gpt2(const std::string &folder, Location location = Location::current());
Llama load_pretrained_llama(const std::string &folder, Location location = Location::current());

} // namespace weft::models
