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
// What config.json says of a model of "model_type" "gpt2". Its dropout is resid_pdrop, or 0.1.
Gpt2Config pretrained_gpt2_config(const std::string &folder,
                                  Location location = Location::current());
// The same of "llama". Keys that are left out mean what they mean to Hugging Face: as many key
// heads as heads, eps 1e-6, rotary base 10000. Of the scalings of rotary angles "llama3" is read.
LlamaConfig pretrained_llama_config(const std::string &folder,
                                    Location location = Location::current());
// The tokens that end a text, as generation_config.json or config.json says; empty for none.
std::vector<int64_t> pretrained_end_tokens(const std::string &folder,
                                           Location location = Location::current());
// All tensors of the folder's files, as they are in them; one of a dtype that Weft has not is an
// error.
nn::NamedTensors pretrained_tensors(const std::string &folder,
                                    Location location = Location::current());
// The model itself, in evaluation. Weights of another floating dtype are converted to the
// model's (nn::DTypeScope, else float32). Old files, whose names lack "transformer.", are
// understood; masks, and a head where the config says that it is tied, are passed over.
Gpt2 load_pretrained_gpt2(const std::string &folder, Location location = Location::current());
// The same for Llama: names may lack "model.", and rotary frequencies are passed over.
Llama load_pretrained_llama(const std::string &folder, Location location = Location::current());

} // namespace weft::models
