// Continues texts with a language model from a Hugging Face folder. See README.md.
#include <cstdio>
#include <fstream>

#include "examples/common/command_line.h"
#include "examples/generate/generate.h"
#include "weft/io/progress.h"
#include "weft/text/tokenizer.h"
#include "weft/weft.h"

namespace {

struct Arguments {
  std::string model, tokenizer, file, dtype = "float32";
  std::vector<std::string> prompts;
  generate::GenerateOptions options;
  bool ids_only = false, no_stop = false, quiet = false;
};

std::vector<std::string> lines_of(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    throw weft::Error(weft::ErrorKind::kFile, "'" + path + "' cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r'))
      line.pop_back();
    lines.push_back(line);
  }
  if (lines.empty())
    throw weft::Error(weft::ErrorKind::kFile, "'" + path + "' has no line");
  return lines;
}

// Prints a text as its tokens come: what decoding more of them adds. A character that is cut
// between two tokens is held back by no one: its bytes follow each other on the terminal.
class Printer {
public:
  explicit Printer(const weft::text::Tokenizer &tokenizer, std::vector<int64_t> prompt)
      : tokenizer_(tokenizer), ids_(std::move(prompt)), shown_(tokenizer.decode(ids_)) {
    std::fwrite(shown_.data(), 1, shown_.size(), stdout);
    std::fflush(stdout);
  }
  void add(int64_t id) {
    ids_.push_back(id);
    std::string text = tokenizer_.decode(ids_);
    if (text.size() <= shown_.size())
      return; // what ends a text may be stripped: it shows when more follows
    std::fwrite(text.data() + shown_.size(), 1, text.size() - shown_.size(), stdout);
    std::fflush(stdout);
    shown_ = std::move(text);
  }

private:
  const weft::text::Tokenizer &tokenizer_;
  std::vector<int64_t> ids_;
  std::string shown_;
};

void print(const std::vector<int64_t> &ids) {
  for (size_t i = 0; i < ids.size(); ++i)
    std::printf("%s%lld", i > 0 ? " " : "", static_cast<long long>(ids[i]));
  std::printf("\n");
}

int run(Arguments arguments) {
  using weft::text::Tokenizer;
  if (!arguments.file.empty())
    for (std::string &line : lines_of(arguments.file))
      arguments.prompts.push_back(std::move(line));
  Tokenizer tokenizer =
      Tokenizer::load(arguments.tokenizer.empty() ? arguments.model : arguments.tokenizer);
  std::vector<std::vector<int64_t>> prompts;
  for (const std::string &prompt : arguments.prompts)
    prompts.push_back(tokenizer.encode(prompt));
  generate::Decoder decoder = generate::load_decoder(
      arguments.model, arguments.dtype == "bfloat16" ? weft::bfloat16 : weft::float32);
  arguments.options.stop_at_end = !arguments.no_stop;
  if (!arguments.quiet)
    std::fprintf(stderr, "model       %s, %s parameters\n", decoder.kind.c_str(),
                 weft::io::format_count(static_cast<double>(decoder.parameters)).c_str());

  const uint64_t compiled_before = weft::statistics().compiles;
  const bool streams = prompts.size() == 1 && !arguments.ids_only;
  std::optional<Printer> printer;
  if (streams)
    printer.emplace(tokenizer, prompts[0]);
  generate::Generated result =
      generate::generate(decoder, prompts, arguments.options, [&](int64_t, int64_t id) {
        if (printer)
          printer->add(id);
      });
  if (streams)
    std::printf("\n");
  for (size_t row = 0; row < prompts.size() && !streams; ++row) {
    if (arguments.ids_only) {
      print(result.added[row]);
      continue;
    }
    std::vector<int64_t> whole = prompts[row];
    whole.insert(whole.end(), result.added[row].begin(), result.added[row].end());
    std::printf("--- %zu\n%s\n", row + 1, tokenizer.decode(whole).c_str());
  }
  if (!arguments.quiet)
    std::fprintf(stderr,
                 "prompts     %.2f s\n"
                 "steps       %lld for %zu text%s: %.2f s, %.1f ms each, %.1f ms the fastest\n"
                 "programs    %llu compiled\n",
                 result.prompt_seconds, static_cast<long long>(result.steps), prompts.size(),
                 prompts.size() == 1 ? "" : "s", result.seconds,
                 1000 * result.seconds / static_cast<double>(std::max<int64_t>(result.steps, 1)),
                 1000 * result.fastest,
                 static_cast<unsigned long long>(weft::statistics().compiles - compiled_before));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  generate::GenerateOptions &options = arguments.options;
  CLI::App app("Continues texts with GPT-2 or Llama from a Hugging Face folder.");
  app.add_option("--model", arguments.model,
                 "folder with config.json, model.safetensors and the tokenizer's files")
      ->required();
  app.add_option("--tokenizer", arguments.tokenizer,
                 "a tokenizer.json, or a folder with one; default: that of the model");
  CLI::Option *prompts =
      app.add_option("--prompt", arguments.prompts, "a text; several are continued together");
  CLI::Option *file =
      app.add_option("--prompts", arguments.file, "a file with a text in each line");
  app.add_option("--length", options.length, "tokens to add, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", options.sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  app.add_option("--top-k", options.sampling.top_k, "among so many likeliest tokens; 0: all")
      ->capture_default_str();
  app.add_option("--top-p", options.sampling.top_p,
                 "among the fewest likeliest tokens with this much of the probability")
      ->capture_default_str();
  app.add_option("--dtype", arguments.dtype, "of weights and cache: float32 or bfloat16")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--chunk", options.chunk, "tokens of prompts that are read at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--ignore-end", arguments.no_stop, "go on behind tokens that end a text");
  app.add_flag("--ids", arguments.ids_only, "print the ids that were added, a line each prompt");
  app.add_flag("--quiet", arguments.quiet, "say nothing on stderr");
  return examples::run_program("generate", app, argc, argv, [&] {
    if (prompts->count() == 0 && file->count() == 0)
      throw weft::Error(weft::ErrorKind::kValue, "give a --prompt, or --prompts FILE");
    return run(arguments);
  });
}
