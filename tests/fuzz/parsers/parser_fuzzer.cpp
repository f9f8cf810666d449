// libFuzzer's two functions. Under Bazel the corpus is made of seeds() in the test's folder; `--write_seeds=FOLDER` writes them elsewhere.
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

void *counted(void *pointer) {
  if (!pointer) throw std::bad_alloc();
  int64_t now = live += static_cast<int64_t>(malloc_usable_size(pointer));
  if (now > most) most = now;
  return pointer;
}
void uncount(void *pointer) {
  if (pointer) live -= static_cast<int64_t>(malloc_usable_size(pointer));
  std::free(pointer);
}

void write_seeds(const std::string &folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string &seed : weft::fuzz::seeds()) std::ofstream(folder + "/seed" + std::to_string(number++), std::ios::binary) << seed;
}

} // namespace

// All C++ allocations of the process are counted; what a parser asks for shows even when it frees it at once.
void *operator new(size_t size) { return counted(std::malloc(size)); }
void *operator new[](size_t size) { return counted(std::malloc(size)); }
void *operator new(size_t size, std::align_val_t alignment) {
  size_t a = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(a, (size + a - 1) / a * a));
}
void operator delete(void *pointer) noexcept { uncount(pointer); }
void operator delete[](void *pointer) noexcept { uncount(pointer); }
void operator delete(void *pointer, size_t) noexcept { uncount(pointer); }
void operator delete[](void *pointer, size_t) noexcept { uncount(pointer); }
void operator delete(void *pointer, std::align_val_t) noexcept { uncount(pointer); }
void operator delete(void *pointer, size_t, std::align_val_t) noexcept { uncount(pointer); }

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  constexpr std::string_view kWrite = "--write_seeds=";
  for (int i = 1; i < *argc; ++i)
    if (std::string_view argument = (*argv)[i]; argument.starts_with(kWrite)) {
      write_seeds(std::string(argument.substr(kWrite.size())));
      std::exit(0);
    }
  if (const char *folder = std::getenv("TEST_TMPDIR")) {
    static std::string corpus = std::string(folder) + "/corpus", artifacts = std::string("-artifact_prefix=") + folder + "/";
    write_seeds(corpus);
    static std::vector<char *> arguments(*argv, *argv + *argc);
    arguments.push_back(artifacts.data());
    arguments.push_back(corpus.data());
    arguments.push_back(nullptr);
    *argc += 2;
    *argv = arguments.data();
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int64_t before = live;
  most = before;
  weft::fuzz::parse(data, size);
  int64_t taken = most - before, allowed = weft::fuzz::allowed_bytes(size);
  if (taken > allowed) {
    std::fprintf(stderr, "the parser held %lld bytes for a file of %zu; %lld are allowed\n", static_cast<long long>(taken), size,
                 static_cast<long long>(allowed));
    std::abort();
  }
  return 0;
}
