// Networks on sequences, trained as users write them, against the losses that PyTorch has
// (tests/golden/make_golden_architectures.py).
#include "tests/programs/training_run.h"
#include "weft/nn/nn.h"

namespace weft::tests {
namespace {

const golden::GoldenFile &file() {
  static const golden::GoldenFile file("architectures.safetensors");
  return file;
}

struct Seq2Seq : nn::Module {
  nn::Embedding embed = child("embed", nn::Embedding(11, 8));
  nn::GRU encoder = child("encoder", nn::GRU(8, 10, {.batch_first = true, .bidirectional = true}));
  nn::GRU decoder = child("decoder", nn::GRU(28, 10, {.batch_first = true}));
  nn::Linear query = child("query", nn::Linear(10, 12)),
             key = child("key", nn::Linear(20, 12, {.bias = false}));
  nn::Linear score = child("score", nn::Linear(12, 1, {.bias = false})),
             start = child("start", nn::Linear(20, 10));
  nn::Linear head = child("head", nn::Linear(30, 11));
};

TEST(SequenceNetworks, ATranslatorThatLooksBack) {
  TrainingRun run{.file = file(), .name = "seq2seq", .clip = 2};
  Seq2Seq model = run.started(Seq2Seq());
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  run.train(optimizer, [&](int64_t step) {
    Tensor seen = arange(6).unsqueeze(0) < run["length"][step].unsqueeze(1);
    auto [memory, last] = model.encoder(model.embed(run["source"][step]));
    Tensor keys = model.key(memory),
           state = tanh(model.start(cat({last[0], last[1]}, 1))).unsqueeze(0);
    Tensor loss = zeros({}), word = zeros({4}, int64);
    for (int64_t t = 0; t < 5; ++t) {
      Tensor score = model.score(tanh(model.query(state[0]).unsqueeze(1) + keys)).squeeze(2);
      Tensor weight = score.masked_fill(!seen, -INFINITY).softmax(1);
      Tensor context = matmul(weight.unsqueeze(1), memory);
      auto [y, next] = model.decoder(cat({model.embed(word).unsqueeze(1), context}, 2), state);
      state = next;
      word = run["target"][step].select(1, t);
      loss = loss + nn::cross_entropy(model.head(cat({y, context}, 2)).select(1, 0), word);
    }
    return loss / 5;
  });
}

struct Speech : nn::Module {
  nn::Linear up = child("up", nn::Linear(6, 16)), down = child("down", nn::Linear(16, 5));
};

// log(exp(a) + exp(b) + exp(c)), where some, and for a state that cannot be reached all, are -inf.
Tensor log_sum(const Tensor &a, const Tensor &b, const Tensor &c) {
  Tensor most = maximum(maximum(a, b), c), shift = where(is_finite(most), most, 0.0).detach();
  Tensor sum = exp(a - shift) + exp(b - shift) + exp(c - shift);
  return where(sum > 0, log(where(sum > 0, sum, 1.0)) + shift, -INFINITY);
}

TEST(SequenceNetworks, AlignmentsSummedInLogSpace) {
  TrainingRun run{file(), "ctc"};
  Speech model = run.started(Speech());
  constexpr int64_t kTime = 12, kBatch = 3, kLength = 4, kStates = 2 * kLength + 1;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  run.train(optimizer, [&](int64_t step) {
    Tensor log_p = model.down(tanh(model.up(run["x"][step]))).log_softmax(2);
    Tensor states = zeros({kBatch, kStates}, int64); // blank, y0, blank, y1, ..., blank
    states.slice(1, 1, {}, 2).copy_(run["y"][step]);
    // Two states back is allowed to a letter other than the last one.
    Tensor skips = cat({zeros({kBatch, 2}, boolean),
                        (states.slice(1, 2) != 0) & (states.slice(1, 2) != states.slice(1, 0, -2))},
                       1);
    Tensor none = full({kBatch, 2}, -INFINITY);
    Tensor alpha = where(arange(kStates) < 2, gather(log_p[0], 1, states), -INFINITY);
    for (int64_t t = 1; t < kTime; ++t) {
      Tensor before = cat({none, alpha}, 1); // alpha of s - 2 stands at s
      Tensor one = before.narrow(1, 1, kStates),
             two = where(skips, before.narrow(1, 0, kStates), -INFINITY);
      alpha = log_sum(alpha, one, two) + gather(log_p[t], 1, states);
    }
    Tensor ends = alpha.narrow(1, kStates - 2, 2);
    return -log_sum(ends.select(1, 0), ends.select(1, 1), full({kBatch}, -INFINITY)).sum() / kBatch;
  });
}

constexpr int64_t kWords = 13, kSize = 16, kHeads = 2, kPlaces = 24;

struct Decoder : nn::Module {
  nn::Embedding embed = child("embed", nn::Embedding(kWords, kSize)),
                places = child("places", nn::Embedding(kPlaces, kSize));
  std::vector<nn::TransformerBlock> blocks = {
      child("block0", nn::TransformerBlock(kSize, kHeads, {.causal = true})),
      child("block1", nn::TransformerBlock(kSize, kHeads, {.causal = true}))};
  nn::LayerNorm norm = child("norm", nn::LayerNorm(kSize));
  nn::Linear head = child("head", nn::Linear(kSize, kWords));

  Tensor operator()(const Tensor &ids) const {
    Tensor h = embed(ids) + places(arange(ids.size(1)));
    for (const auto &block : blocks)
      h = block(h);
    return head(norm(h));
  }
};

// One word more: the keys and values of those before stand in caches [batch, heads, places, size /
// heads], written in place. A mask says how many of the places count, so that all steps have the
// same shapes, and are one program.
Tensor next_logits(const Decoder &model, std::vector<Tensor> &keys, std::vector<Tensor> &values,
                   const Tensor &word, int64_t at) {
  auto heads = [](const Tensor &x) {
    return x.reshape({x.size(0), 1, kHeads, kSize / kHeads}).transpose(1, 2);
  };
  Tensor h = (model.embed(word) + model.places.weight[at]).unsqueeze(1);
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    const auto &block = model.blocks[i];
    Tensor x = block.norm1(h);
    keys[i].narrow(2, at, 1) = heads(block.self_attn.k_proj(x));
    values[i].narrow(2, at, 1) = heads(block.self_attn.v_proj(x));
    Tensor y = attention(heads(block.self_attn.q_proj(x)), keys[i], values[i],
                         (arange(kPlaces) <= at).unsqueeze(0));
    h = h + block.self_attn.out_proj(y.transpose(1, 2).flatten(2));
    h = h + block.linear2(gelu(block.linear1(block.norm2(h))));
  }
  return model.head(model.norm(h)).select(1, 0);
}

TEST(SequenceNetworks, ADecoderThatKeepsKeysAndValues) {
  TrainingRun run{.file = file(), .name = "cache", .most_compiles = 8};
  Decoder model = run.started(Decoder());
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  std::vector<int64_t> lengths = run["lengths"].to_vector<int64_t>();
  // Two programs a length: one for the first step that has it, one for all others.
  run.train(optimizer, [&](int64_t step) {
    int64_t n = lengths[static_cast<size_t>(step)];
    Tensor ids = run["ids"][step];
    return nn::cross_entropy(model(ids.narrow(1, 0, n)), ids.narrow(1, 1, n));
  });
  NoGrad no_grad;
  std::vector<int64_t> expected = run["said"].to_vector<int64_t>();
  std::vector<Tensor> keys, values;
  for (int i = 0; i < 2; ++i) {
    keys.push_back(zeros({2, kHeads, kPlaces, kSize / kHeads}));
    values.push_back(zeros({2, kHeads, kPlaces, kSize / kHeads}));
  }
  Tensor said = run["said"], word, logits;
  eval({keys[0], keys[1], values[0], values[1]});
  Compiles compiles;
  for (int64_t at = 0; at < 23; ++at) {
    if (at < 4)
      word = said.select(1, at);
    logits = next_logits(model, keys, values, word, at);
    if (at < 3)
      continue;
    word = logits.argmax(1);
    std::vector<int64_t> found = word.to_vector<int64_t>();
    for (size_t b = 0; b < 2; ++b)
      ASSERT_EQ(found[b], expected[b * 24 + static_cast<size_t>(at) + 1]) << "at " << at;
  }
  EXPECT_LT(golden::relative_distance(logits, run["logits"]), 1e-3);
  EXPECT_LE(compiles.count(), 6u);
  ThreeWays ways{.written = keys, .calls = 3, .fed_back = 1};
  ways.written.insert(ways.written.end(), values.begin(), values.end());
  ways.compare(
      [&](const Tensor &word) {
        Tensor logits = next_logits(model, keys, values, word, 9);
        return std::pair(logits.argmax(1), logits);
      },
      said.select(1, 9));
}

} // namespace
} // namespace weft::tests
