// libFuzzer's two functions. Under Bazel the corpus is made of seeds() in the test's folder, and
// the files of corpus/NAME; `--write_seeds=FOLDER` writes the seeds elsewhere.
#include "tests/fuzz/parsers/parser_fuzzer.h"

#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

namespace {

std::atomic<int64_t> live{0}, most{0};
int64_t inputs = 0, accepted = 0;

// Mutated files that are refused at their first bytes test nothing more: it is a failure of a test
// if next to none get through. (Where coverage steers, most are meant to go wrong somewhere.)
void check_depth() {
  constexpr int64_t kEnough = 5000, kOneIn = 500;
  std::fprintf(stderr, "%lld of %lld inputs were accepted\n", static_cast<long long>(accepted),
               static_cast<long long>(inputs));
  if (!std::getenv("TEST_TMPDIR") || inputs < kEnough || accepted * kOneIn >= inputs)
    return;
  std::fprintf(stderr, "that is too few to show what lies behind the first checks\n");
  std::_Exit(1);
}

void *counted(void *pointer) {
  if (!pointer)
    throw std::bad_alloc();
  int64_t now = live += static_cast<int64_t>(malloc_usable_size(pointer));
  if (now > most)
    most = now;
  return pointer;
}
void uncount(void *pointer) {
  if (pointer)
    live -= static_cast<int64_t>(malloc_usable_size(pointer));
  std::free(pointer);
}

void write_seeds(const std::string &folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string &seed : weft::fuzz::seeds())
    std::ofstream(folder + "/seed" + std::to_string(number++), std::ios::binary) << seed;
}

} // namespace

// All C++ allocations of the process are counted; what a parser asks for shows even when it frees
// it at once.
void *operator new(size_t size) {
  return counted(std::malloc(size));
}
void *operator new[](size_t size) {
  return counted(std::malloc(size));
}
void *operator new(size_t size, std::align_val_t alignment) {
  size_t a = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(a, (size + a - 1) / a * a));
}
void operator delete(void *pointer) noexcept {
  uncount(pointer);
}
void operator delete[](void *pointer) noexcept {
  uncount(pointer);
}
void operator delete(void *pointer, size_t) noexcept {
  uncount(pointer);
}
void operator delete[](void *pointer, size_t) noexcept {
  uncount(pointer);
}
void operator delete(void *pointer, std::align_val_t) noexcept {
  uncount(pointer);
}
void operator delete(void *pointer, size_t, std::align_val_t) noexcept {
  uncount(pointer);
}

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  constexpr std::string_view kWrite = "--write_seeds=";
  for (int i = 1; i < *argc; ++i)
    if (std::string_view argument = (*argv)[i]; argument.starts_with(kWrite)) {
      write_seeds(std::string(argument.substr(kWrite.size())));
      std::exit(0);
    }
  std::atexit(check_depth);
  if (const char *folder = std::getenv("TEST_TMPDIR")) {
    static std::string corpus = std::string(folder) + "/corpus",
                       artifacts = std::string("-artifact_prefix=") + folder + "/";
    write_seeds(corpus);
    static std::vector<char *> arguments(*argv, *argv + *argc);
    // New inputs are written into the first folder.
    arguments.insert(arguments.begin() + 1, {artifacts.data(), corpus.data()});
    *argc += 2;
    arguments.push_back(nullptr);
    *argv = arguments.data();
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int64_t before = live;
  most = before;
  ++inputs;
  accepted += weft::fuzz::parse(data, size);
  int64_t taken = most - before, allowed = weft::fuzz::allowed_bytes(size);
  if (taken > allowed) {
    std::fprintf(stderr, "the parser held %lld bytes for a file of %zu; %lld are allowed\n",
                 static_cast<long long>(taken), size, static_cast<long long>(allowed));
    std::abort();
  }
  return 0;
}
