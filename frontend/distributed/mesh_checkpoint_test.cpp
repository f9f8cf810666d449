// Checkpoints of models that are cut over a mesh: all ranks write one file, which is that of one
// process, and read of it what they have.
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "tests/support/errors.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace weft::distributed {
namespace {

using testing_support::what_of;
namespace fs = std::filesystem;

std::string file_of(const std::string &name) {
  fs::path folder = fs::path(testing::TempDir()) /
                    ("mesh_checkpoint." + std::to_string(getpid()) + "." +
                     testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::create_directories(folder);
  return (folder / name).string();
}
std::string content(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
Tensor here(const Tensor &x) {
  return x.to(current_device());
}
nn::NamedTensors whole_of(const nn::NamedTensors &tensors) {
  nn::NamedTensors all;
  for (const auto &[name, tensor] : tensors)
    all.emplace_back(name, whole(tensor).eval());
  return all;
}

// Which dims are cut says which runs of bytes a rank writes.
TEST(MeshCheckpoint, TheFileIsThatOfOneProcess) {
  manual_seed(1);
  Tensor x = randn({4, 6, 2}).eval(), bits = (randn({8, 4}) > 0).eval(),
         narrow = randn({6, 10}).to(DType::kBFloat16).eval();
  const std::pair<std::string, AxisNames> cuts[] = {
      {"first", {"model", "", ""}}, {"both", {"model", "data", ""}},
      {"last", {"", "", "model"}},  {"turned", {"data", "", "model"}},
      {"middle", {"", "data", ""}}, {"whole", {"", "", ""}},
  };
  run_ranks(6, [&] {
    Mesh mesh({{"data", 3}, {"model", 2}});
    nn::NamedTensors tensors;
    for (const auto &[name, axes] : cuts) {
      Tensor all = here(x);
      // Of 4 rows there are no 3 parts.
      if (axes[0] == "data")
        all = all.transpose(0, 1);
      tensors.emplace_back(name, axes == AxisNames{"", "", ""} ? all : shard(all, mesh, axes));
    }
    tensors.emplace_back("computed", tensors[0].second.sum({1}) * 2);
    tensors.emplace_back("view", tensors[1].second.transpose(0, 2));
    tensors.emplace_back("bits", shard(here(bits), mesh, {"model", ""}));
    tensors.emplace_back("narrow", shard(here(narrow), mesh, {"data", "model"}));
    tensors.emplace_back("scalar", scalar(2.5, float64));
    tensors.emplace_back("empty", zeros({0, 4}));
    nn::NamedTensors all = whole_of(tensors);
    if (world().rank() == 5)
      io::save_safetensors(file_of("one"), all, {{"step", "3"}});
    io::save_safetensors(file_of("all"), tensors, {{"step", "3"}});
    EXPECT_EQ(content(file_of("all")), content(file_of("one")));
    barrier();
  });
  // Nothing else is left.
  size_t files = 0;
  for ([[maybe_unused]] const auto &entry :
       fs::directory_iterator(fs::path(file_of("all")).parent_path()))
    ++files;
  EXPECT_EQ(files, 2u);
}

struct Network : nn::Module {
  nn::Embedding words = child("words", nn::Embedding(12, 8));
  nn::Linear up = child("up", nn::Linear(8, 24));
  nn::Linear down = child("down", nn::Linear(24, 8));
  nn::BatchNorm1d norm = child("norm", nn::BatchNorm1d(8));
  nn::Linear head = child("head", nn::Linear(8, 12));

  Tensor operator()(const Tensor &x) {
    return head(norm(words(x) + down(relu(up(words(x))))));
  }
};
const ShardingRules kRules = {
    {"words.weight", {"model", ""}}, {"up.weight", {"model", ""}},  {"up.bias", {"model"}},
    {"down.weight", {"", "model"}},  {"head.weight", {"", "data"}},
};

struct Training {
  Network network;
  optim::AdamW optimizer;
  optim::ExponentialMovingAverage average;

  explicit Training(const Mesh *mesh)
      : network(made(mesh)), optimizer(network.parameters(), {.lr = 0.02}),
        average(network.parameters(), 0.9) {}
  static Network made(const Mesh *mesh) {
    Network network;
    if (mesh)
      shard(network, *mesh, kRules);
    return network;
  }
  std::vector<double> train(const Mesh *mesh, const Tensor &words, const Tensor &next, int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      Tensor x = here(words),
             loss = cross_entropy(network(mesh ? shard(x, *mesh, {"data"}) : x), here(next));
      loss.backward();
      optimizer.step();
      average.update();
      losses.push_back(loss.item<double>());
    }
    return losses;
  }
  void save(const std::string &path) const {
    nn::NamedTensors tensors;
    for (const auto &[prefix, state] :
         {std::pair("model.", network.state()), std::pair("optimizer.", optimizer.state()),
          std::pair("average.", average.state())})
      for (const auto &[name, tensor] : state)
        tensors.emplace_back(prefix + name, tensor);
    io::save_safetensors(path, tensors);
  }
  void load(const std::string &path) {
    nn::NamedTensors model, moments, means;
    for (const auto &[name, tensor] : io::load_safetensors(path).tensors)
      (name.starts_with("model.")       ? model
       : name.starts_with("optimizer.") ? moments
                                        : means)
          .emplace_back(name.substr(name.find('.') + 1), tensor);
    network.load_state(model);
    optimizer.load_state(moments);
    average.load_state(means);
  }
};

// Trained and saved on 2 x 2 ranks; loaded on other meshes, on other numbers of ranks and on none.
TEST(MeshCheckpoint, ATrainingGoesOnOnAnotherMesh) {
  manual_seed(2);
  Tensor words = randint(0, 12, {24}).eval(), next = randint(0, 12, {24}).eval();
  const std::string start = file_of("start"), path = file_of("state");
  Training first(nullptr);
  first.save(start);
  std::vector<double> losses = first.train(nullptr, words, next, 6);
  auto expect_rest = [&](const std::vector<double> &found, size_t from) {
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], losses[from + i], 2e-5 * (1 + std::abs(losses[from + i]))) << i;
  };
  run_ranks(4, [&] {
    Mesh mesh({{"data", 2}, {"model", 2}});
    Training run(&mesh);
    run.load(start);
    expect_rest(run.train(&mesh, words, next, 3), 0);
    run.save(path);
  });
  const std::vector<std::vector<std::pair<std::string, int>>> meshes = {
      {{"data", 4}, {"model", 1}},
      {{"data", 1}, {"model", 2}},
      {{"model", 4}, {"data", 2}},
      {{"data", 1}, {"model", 1}}};
  for (const auto &axes : meshes)
    run_ranks(axes[0].second * axes[1].second, [&] {
      Mesh mesh(axes);
      Training run(&mesh);
      run.load(path);
      expect_rest(run.train(&mesh, words, next, 3), 3);
      // A state that is cut goes into another run of the mesh.
      Training copy(&mesh);
      copy.network.load_state(run.network.state());
      copy.optimizer.load_state(run.optimizer.state());
      EXPECT_EQ(local_part(copy.network.up.weight).to_vector<float>(),
                local_part(run.network.up.weight).to_vector<float>());
    });
  Training alone(nullptr);
  alone.load(path);
  expect_rest(alone.train(nullptr, words, next, 3), 3);
}

// A model that no rank has room for.
struct Large : nn::Module {
  nn::Parameter rows, columns;
  Large(const Mesh &mesh, float value)
      : rows(
            parameter("rows", from_parts(full({kRows / 4, kColumns}, value), mesh, {"model", ""}))),
        columns(parameter("columns",
                          from_parts(full({kRows, kColumns / 4}, value), mesh, {"", "model"}))) {}
  static constexpr int64_t kRows = 1024, kColumns = 2048; // 8 MiB
};

// Of the file's pages, in KiB, those that this mapping of it has looked at.
int64_t mapped_kib(const std::string &path) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  int64_t most = 0;
  bool inside = false;
  while (std::getline(maps, line)) {
    if (line.find('-') < line.find(' ')) // a range of addresses
      inside = line.ends_with(path);
    else if (inside && line.starts_with("Rss:"))
      most = std::max<int64_t>(most, std::atoll(line.c_str() + 4));
  }
  return most;
}

TEST(MeshCheckpoint, WhatIsNowhereWholeStaysSo) {
  const std::string path = file_of("large");
  auto ranks = [&](const std::function<void(const Mesh &)> &rank) {
    run_ranks(4, [&] {
      // A rank's parts are 4 MiB; beside what they are made of, not one whole tensor has room.
      Device own = current_device();
      set_allocator(std::make_shared<runtime::LimitAllocator>(
                        std::make_shared<runtime::SystemAllocator>(), int64_t(11) << 20),
                    own);
      rank(Mesh({{"model", 4}}));
      barrier();
      set_allocator(nullptr, own);
    });
  };
  ranks([&](const Mesh &mesh) {
    EXPECT_NE(what_of([&] { (void)zeros({16, 1024, 1024}).eval(); }), "");
    Large large(mesh, static_cast<float>(world().rank() + 1));
    io::save_safetensors(path, large.state());
  });
  ASSERT_EQ(fs::file_size(path) >> 20, 16u);
  ranks([&](const Mesh &mesh) {
    Large large(mesh, 0);
    for (int turn = 0; turn < 4; ++turn) { // mappings of one file are not told apart
      if (turn == world().rank()) {
        io::SafeTensors file = io::load_safetensors(path);
        file.tensors.erase(file.tensors.begin() + 1);
        struct Rows : nn::Module {
          explicit Rows(const Tensor &value) {
            (void)parameter("rows", value);
          }
        } rows(large.rows);
        rows.load_state(file);
        // A quarter of 8 MiB, and what the system maps around it: blocks of 2 MiB at most.
        EXPECT_LE(mapped_kib(path), 3 * 2048);
        EXPECT_GE(mapped_kib(path), 2048);
      }
      barrier();
    }
    large.load_state(io::load_safetensors(path));
    for (const Tensor &each : large.parameters())
      for (float value : local_part(each).to_vector<float>())
        ASSERT_EQ(value, static_cast<float>(world().rank() + 1));
  });
}

// What each rank is told.
class Told {
public:
  void put(const std::string &text) {
    of_[static_cast<size_t>(world().rank())] = text;
  }
  void expect(int rank, std::initializer_list<const char *> parts) const {
    const std::string &text = of_[static_cast<size_t>(rank)];
    for (const char *part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    EXPECT_NE(text.find("mesh_checkpoint_test.cpp:"), std::string::npos) << text;
  }

private:
  std::array<std::string, 4> of_;
};

TEST(MeshCheckpoint, ARankThatFailsFailsOnAllAndTheFileStays) {
  const std::string path = file_of("state"), missing = file_of("no") + "/such/folder/x";
  signal(SIGXFSZ, SIG_IGN);
  Told told, no_folder, full;
  std::string before;
  run_ranks(2, [&] {
    Mesh mesh({{"model", 2}});
    Tensor x = shard(arange(16384).to(float32), mesh, {"model"});
    io::save_safetensors(path, {{"x", x}});
    if (world().rank() == 0)
      before = content(path);
    // An index out of range on one of them.
    Tensor bad = index_select(arange(8).to(float32), 0,
                              Tensor::from(std::vector<int64_t>{world().rank() == 1 ? 99 : 1}));
    told.put(what_of([&] { io::save_safetensors(path, {{"x", x + 1}, {"bad", bad}}); }));
    no_folder.put(what_of([&] { io::save_safetensors(missing, {{"x", x}}); }));
    barrier();
    rlimit old;
    getrlimit(RLIMIT_FSIZE, &old);
    rlimit small = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
    barrier();
    setrlimit(RLIMIT_FSIZE, &small);
    full.put(what_of([&] { io::save_safetensors(path, {{"x", x + 1}}); }));
    barrier();
    setrlimit(RLIMIT_FSIZE, &old);
    barrier();
    EXPECT_EQ(content(path), before);
    // The ranks go on.
    io::save_safetensors(path, {{"x", x * 2}});
    EXPECT_EQ(io::load_safetensors(path).at("x").to_vector<float>()[16383], 2 * 16383);
  });
  told.expect(0, {"state' stays as it is, since rank 1 of the mesh failed", "index 99"});
  told.expect(1, {"index 99"});
  no_folder.expect(0, {"cannot write '", "/such/folder/x'", "No such file or directory"});
  no_folder.expect(1, {"rank 0 of the mesh failed", "No such file or directory"});
  full.expect(0, {"cannot write '", "File too large"});
  full.expect(1, {"rank 0 of the mesh failed", "File too large"});
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}), 1);
}

TEST(MeshCheckpoint, ARankThatDoesNotComeOrSavesSomethingElseIsNamed) {
  const std::string path = file_of("state");
  Told other, gone;
  EXPECT_NE(what_of([&] {
              run_ranks(2, [&] {
                Mesh mesh({{"model", 2}});
                Tensor x = shard(arange(8).to(float32), mesh, {"model"});
                other.put(what_of(
                    [&] { io::save_safetensors(path, {{world().rank() == 0 ? "x" : "y", x}}); }));
              });
            }),
            "");
  for (int rank : {0, 1})
    other.expect(rank, {"save_safetensors(", "calls"});
  std::string error = what_of([&] {
    run_ranks(2, [&] {
      Mesh mesh({{"model", 2}});
      Tensor x = shard(arange(8).to(float32), mesh, {"model"});
      if (world().rank() == 1)
        throw std::runtime_error("the power went");
      gone.put(what_of([&] { io::save_safetensors(path, {{"x", x}}); }));
    });
  });
  gone.expect(0, {"rank 1 ended: the power went"});
  EXPECT_FALSE(fs::exists(path));
  // Nor are tensors of two meshes in one file.
  run_ranks(2, [&] {
    Mesh mesh({{"model", 2}}), second({{"model", 2}});
    Tensor x = arange(8).to(float32);
    EXPECT_NE(what_of([&] {
                io::save_safetensors(
                    path, {{"x", shard(x, mesh, {"model"})}, {"y", shard(x, second, {"model"})}});
              }).find("'x' and 'y' are cut over two meshes"),
              std::string::npos);
  });
}

TEST(MeshCheckpoint, AnotherShapeIsAnErrorOnAllRanks) {
  const std::string path = file_of("state");
  run_ranks(2, [&] {
    Mesh mesh({{"model", 2}});
    nn::Linear layer(4, 8);
    shard(layer, mesh, {{"weight", {"model", ""}}});
    io::save_safetensors(path, layer.state());
    nn::Linear narrow(4, 6);
    shard(narrow, mesh, {{"weight", {"model", ""}}});
    std::string what = what_of([&] { narrow.load_state(io::load_safetensors(path)); });
    EXPECT_NE(what.find("'weight' is float32 [6, 4] in the module, the given tensor is float32 "
                        "[8, 4]"),
              std::string::npos)
        << what;
  });
}

} // namespace
} // namespace weft::distributed
