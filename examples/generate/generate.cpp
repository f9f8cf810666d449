#include "examples/generate/generate.h"

#include <algorithm>
#include <chrono>

#include "weft/weft.h"

namespace generate {
namespace {

using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::vector<int64_t>>;

// Capacities are multiples of this, so that prompts of about one length share their programs.
constexpr int64_t kGrain = 64;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void fail(const std::string &what) {
  throw weft::Error(weft::ErrorKind::kValue, what);
}

// Throws for prompts that cannot be continued; gives the length of the longest one.
int64_t check(const Decoder &decoder, const Texts &prompts, const GenerateOptions &options) {
  if (prompts.empty())
    fail("there is no prompt");
  if (options.length < 1 || options.chunk < 1)
    fail("length and chunk must be at least 1, they are " + std::to_string(options.length) +
         " and " + std::to_string(options.chunk));
  size_t longest = 0;
  for (size_t row = 0; row < prompts.size(); ++row) {
    const std::string name = "prompt " + std::to_string(row + 1);
    if (prompts[row].empty())
      fail(name + " has no token");
    for (int64_t id : prompts[row])
      if (id < 0 || id >= decoder.vocabulary)
        fail(name + " has the token " + std::to_string(id) + ", the model has " +
             std::to_string(decoder.vocabulary) + ": is this tokenizer the model's?");
    longest = std::max(longest, prompts[row].size());
  }
  // The sum of both may be beyond all integers.
  if (options.length > decoder.positions - static_cast<int64_t>(longest))
    fail("a prompt of " + std::to_string(longest) + " tokens and " +
         std::to_string(options.length) + " to add are more than the model's " +
         std::to_string(decoder.positions) + " positions");
  return static_cast<int64_t>(longest);
}

// Everything but each prompt's last token, which the first step takes. A shorter prompt is filled
// up behind: what the cache then has for it beyond its length is never seen, and overwritten.
void read_prompts(const Steps &steps, const Texts &prompts, int64_t longest, int64_t chunk) {
  const int64_t batch = static_cast<int64_t>(prompts.size()), capacity = steps.cache.capacity();
  const int64_t width = std::min(chunk, capacity);
  weft::nn::KeyValueCache cache = steps.cache;
  for (int64_t at = 0; at < longest - 1; at += width) {
    // The last chunk may reach back instead of beyond the capacity: it writes the same again.
    const int64_t begin = std::min(at, capacity - width);
    std::vector<int64_t> ids(static_cast<size_t>(batch * width), 0);
    for (int64_t row = 0; row < batch; ++row) {
      const std::vector<int64_t> &prompt = prompts[static_cast<size_t>(row)];
      for (int64_t i = 0; i < width && begin + i < static_cast<int64_t>(prompt.size()); ++i)
        ids[static_cast<size_t>(row * width + i)] = prompt[static_cast<size_t>(begin + i)];
    }
    cache.set_lengths(std::vector<int64_t>(prompts.size(), begin));
    steps.read(weft::Tensor::from(ids, {batch, width}));
  }
  std::vector<int64_t> lengths;
  for (const std::vector<int64_t> &prompt : prompts)
    lengths.push_back(static_cast<int64_t>(prompt.size()) - 1);
  cache.set_lengths(lengths);
}

} // namespace

Generated generate(const Decoder &decoder, const Texts &prompts, const GenerateOptions &options,
                   const OnToken &on_token) {
  weft::NoGrad no_grad;
  const int64_t longest = check(decoder, prompts, options);
  const size_t batch = prompts.size();
  Sampler sampler(options.sampling);
  std::vector<weft::data::SplitMix64> random;
  for (size_t row = 0; row < batch; ++row)
    random.emplace_back(weft::data::derived_seed(options.seed, row));

  Clock::time_point start = Clock::now();
  const int64_t needed = longest + options.length;
  const int64_t capacity = std::min((needed + kGrain - 1) / kGrain * kGrain, decoder.positions);
  Steps steps = decoder.start(static_cast<int64_t>(batch), capacity);
  read_prompts(steps, prompts, longest, options.chunk);
  weft::synchronize();
  Generated result{.added = Texts(batch), .prompt_seconds = seconds_since(start)};

  start = Clock::now();
  std::vector<int64_t> last;
  for (const std::vector<int64_t> &prompt : prompts)
    last.push_back(prompt.back());
  std::vector<char> ended(batch, 0);
  auto is_end = [&](int64_t id) {
    return options.stop_at_end && std::find(decoder.end_tokens.begin(), decoder.end_tokens.end(),
                                            id) != decoder.end_tokens.end();
  };
  while (result.steps < options.length && std::count(ended.begin(), ended.end(), 0) > 0) {
    const Clock::time_point began = Clock::now();
    weft::Tensor logits = steps.next(weft::Tensor::from(last, {static_cast<int64_t>(batch), 1}));
    const float *values = logits.data<float>();
    const size_t width = static_cast<size_t>(logits.size(1));
    ++result.steps;
    for (size_t row = 0; row < batch; ++row) {
      if (ended[row])
        continue; // its tokens go on as the last one, and nobody looks
      last[row] = sampler.choose({values + row * width, width}, random[row]);
      if (is_end(last[row])) {
        ended[row] = 1;
        continue;
      }
      result.added[row].push_back(last[row]);
      if (on_token)
        on_token(static_cast<int64_t>(row), last[row]);
    }
    const double seconds = seconds_since(began);
    result.fastest = result.steps == 1 ? seconds : std::min(result.fastest, seconds);
  }
  result.seconds = seconds_since(start);
  return result;
}

} // namespace generate
