// Vision transformer (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words: Transformers for
// Image Recognition at Scale", table 1). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// The position table is made for images of this size: the model throws Error (kShape) for others.
struct VitConfig {
  int64_t image = 224, patch = 16; // rows and columns of the images, and of a patch
  int64_t layers = 12, heads = 12;
  int64_t size = 768;    // of a patch's vector
  int64_t hidden = 3072; // of the feed-forward branch
  double dropout = 0;    // on embeddings and in the branches; not on attention weights
  int64_t channels = 3;  // of the images
  int64_t classes = 1000;

  static VitConfig b_16(); // the defaults: 86.6 million parameters
};

// Self-attention with one matrix for queries, keys and values, as PyTorch's MultiheadAttention has
// it.
class PackedAttention : public nn::Module {
public:
  // Throws Error unless heads divides size.
  PackedAttention(int64_t size, int64_t heads, Location location = Location::current());

  // x: [N, T, size] -> the same.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Parameter in_proj_weight, in_proj_bias; // [3 size, size], [3 size]
  nn::Linear out_proj;

private:
  int64_t heads_;
};

// A transformer block, normalized before each branch.
class VitBlock : public nn::Module {
public:
  explicit VitBlock(const VitConfig &config, Location location = Location::current());

  // x: [N, T, size] -> the same.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  nn::LayerNorm ln_1_, ln_2_;
  PackedAttention self_attention_;
  nn::Dropout dropout_;
  nn::Sequential mlp_;
};

// images [N, channels, image, image] -> logits [N, classes].
class VisionTransformer : public nn::Module {
public:
  // Throws Error unless patch divides image, and heads size.
  explicit VisionTransformer(const VitConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  VitConfig config_;
  nn::Parameter class_token_;   // [1, 1, size]
  nn::Conv2d conv_proj_;        // of each patch alone
  nn::Parameter pos_embedding_; // [1, 1 + patches, size]
  nn::Dropout dropout_;
  std::vector<VitBlock> blocks_;
  nn::LayerNorm ln_;
  nn::Linear head_;
};

} // namespace weft::models
