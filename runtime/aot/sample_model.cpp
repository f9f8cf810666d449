#include "runtime/aot/sample_model.h"

#include <cstring>
#include <string>

#include "runtime/executable/program.h"

extern "C" const weft_library_entry *weft_onednn_find(const char *name);

namespace {

using namespace weft;
using namespace weft::runtime;

int32_t increment(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin * 8; i < end * 8; ++i)
    static_cast<float *>(buffers[1])[i] = static_cast<const float *>(buffers[0])[i] + 1;
  return WEFT_KERNEL_OK;
}

int32_t pick(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
             int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t row = static_cast<const int64_t *>(buffers[1])[i];
    if (row < 0 || row >= 4)
      return WEFT_KERNEL_INDEX_OUT_OF_RANGE;
    std::memcpy(static_cast<float *>(buffers[2]) + i * 8,
                static_cast<const float *>(buffers[0]) + row * 8, 32);
  }
  return WEFT_KERNEL_OK;
}

std::string program_bytes() {
  Program program;
  program.inputs = {{"x", DType::kFloat32, {4, 8}, 128, false, false},
                    {"w", DType::kFloat32, {8, 8}, 256, false, true},
                    {"idx", DType::kInt64, {2}, 16, false, false}};
  program.outputs = {{"y", DType::kFloat32, {4, 8}, 128, -1, -1, -1},
                     {"copy", DType::kFloat32, {4, 8}, 128, -1, 0, -1},
                     {"picked", DType::kFloat32, {2, 8}, 64, -1, -1, -1}};
  program.buffers = {{BufferKind::kInput, 0, 0, 128},  {BufferKind::kInput, 1, 0, 256},
                     {BufferKind::kInput, 2, 0, 16},   {BufferKind::kArena, -1, 0, 128},
                     {BufferKind::kOutput, 0, 0, 128}, {BufferKind::kOutput, 2, 0, 64}};
  program.arena_bytes = 128;
  program.symbols = {"increment", "pick"};
  program.locations = {"model.py:7"};
  LibraryCall matmul{"onednn.matmul", {}, {}, 2, -1, 0};
  matmul.operands = {{0, 0, DType::kFloat32, {4, 8}, {8, 1}},
                     {1, 0, DType::kFloat32, {8, 8}, {8, 1}},
                     {3, 0, DType::kFloat32, {4, 8}, {8, 1}}};
  IndexCheck check{.op = "weft.index_select", .operand = 1, .lower = 0, .upper = 4, .location = 0};
  program.instructions = {matmul, Launch{0, -1, {3, 4}, -1, 4, 1, false, 0, {}},
                          Launch{1, -1, {0, 2, 5}, -1, 2, 1, true, 0, {check}}};
  return serialize(program).value();
}

const std::string program = program_bytes();
const char *const kernel_names[] = {"increment", "pick"};
const weft_kernel kernels[] = {increment, pick};
const weft_library_finder libraries[] = {weft_onednn_find};
const int64_t w_dims[] = {8, 8};
const weft_held_code w = {"w", w_dims, 2, 0, 0, nullptr, 256};
const weft_held_code *const held[] = {&w};
const weft_held_place reads[] = {{1, 0}};
const weft_entry_code main_entry = {"main", program.data(), program.size(), 1, reads,
                                    0,      nullptr,        nullptr,        0};
const weft_entry_code *const entries[] = {&main_entry};
const weft_entry_code *const *const levels[] = {entries};

} // namespace

extern "C" {
extern const weft_model_code *const weft_main_model;
const weft_model_code weft_model_sample = {sizeof(weft_model_code),
                                           WEFT_MODEL_VERSION,
                                           WEFT_ABI_VERSION,
                                           2,
                                           "sample",
                                           kernel_names,
                                           kernels,
                                           1,
                                           libraries,
                                           1,
                                           held,
                                           1,
                                           1,
                                           levels,
                                           nullptr};
const weft_model_code *const weft_main_model = &weft_model_sample;
}
