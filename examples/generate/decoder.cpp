#include "examples/generate/decoder.h"

#include "weft/models/pretrained.h"

namespace generate {

Decoder load_decoder(const std::string &folder, weft::DType dtype) {
  using namespace weft::models;
  weft::nn::DTypeScope scope(dtype); // of what is made here
  const std::string kind = pretrained_type(folder);
  Decoder decoder;
  if (kind == "gpt2") {
    Gpt2Config config = pretrained_gpt2_config(folder);
    decoder = decoder_of(load_pretrained_gpt2(folder));
    decoder.vocabulary = config.vocabulary;
    decoder.positions = config.positions;
  } else if (kind == "llama") {
    decoder = decoder_of(load_pretrained_llama(folder));
    decoder.vocabulary = pretrained_llama_config(folder).vocabulary;
  } else {
    throw weft::Error(weft::ErrorKind::kFile, "'" + folder + "/config.json': model_type is '" +
                                                  kind + "'; this program knows gpt2 and llama");
  }
  decoder.kind = kind;
  decoder.end_tokens = pretrained_end_tokens(folder);
  return decoder;
}

} // namespace generate
