// A model trained on the toy device, beside the same on the host; values that move both ways, an op
// that the device leaves to the host, a checkpoint, and memory that is over.
#include <cmath>
#include <filesystem>
#include <iostream>

#include "weft/weft.h"

namespace {

using weft::Tensor;

int wrong = 0;
void check(bool right, const std::string &what) {
  if (!right)
    std::cout << "WRONG: " << what << "\n";
  wrong += !right;
}

bool close(const std::vector<float> &a, const std::vector<float> &b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-5f * (1 + std::abs(b[i])))
      return false;
  return a.size() == b.size();
}

std::vector<float> values(const Tensor &x) {
  return x.to_vector<float>();
}

weft::nn::Sequential model() {
  return weft::nn::Sequential(weft::nn::Linear(6, 16), weft::nn::GELU(), weft::nn::LayerNorm(16),
                              weft::nn::Dropout(0.25), weft::nn::Linear(16, 3));
}

// The losses, and the parameters that they end with. All of it lies where tensors are made.
std::pair<std::vector<float>, std::vector<Tensor>> train(const weft::Device &device) {
  weft::DeviceScope scope(device);
  weft::manual_seed(7);
  weft::nn::Sequential network = model();
  weft::optim::AdamW optimizer(network.parameters(), {.lr = 1e-2});
  Tensor inputs = weft::randn({24, 6}), targets = weft::randint(0, 3, {24});
  weft::data::DataLoader loader(weft::data::TensorDataset(inputs, targets),
                                {.batch_size = 12, .prefetch = 2, .device = device});
  std::vector<float> losses;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (auto [input, target] : loader) {
      optimizer.zero_grad();
      Tensor loss = weft::cross_entropy(network(input), target);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<float>());
      check(loss.device() == device, "a loss lies elsewhere");
    }
  return {losses, network.parameters()};
}

void train_on_both(const weft::Device &toy) {
  auto [losses, parameters] = train(toy);
  auto [expected, expected_parameters] = train(weft::Device());
  check(close(losses, expected), "the losses are not the host's");
  for (size_t i = 0; i < parameters.size(); ++i)
    check(parameters[i].device() == toy &&
              close(values(parameters[i]), values(expected_parameters[i])),
          "parameter " + std::to_string(i) + " is not the host's");
  check(losses.back() < losses.front(), "nothing was learnt");
  std::cout << "loss " << losses.front() << " to " << losses.back() << "\n";
}

void explain_steps(const weft::Device &toy) {
  Tensor x = weft::randn({16, 8}).to(toy), w = weft::randn({8, 4}).to(toy);
  Tensor y = weft::softmax(weft::tanh(weft::matmul(x, w)), 1);
  y.eval();
  check(weft::explain(y).device == "toy:0" && weft::explain(y).backend == "toy",
        "explain's device");
  for (const std::string &note : weft::explain(y).notes)
    std::cout << "step: " << note << "\n";
  Tensor sums = weft::cumsum(w, 0) * 2;
  check(close(values(sums), values(weft::cumsum(w.to("cpu"), 0) * 2)), "an op of the host");
  for (const std::string &note : weft::explain(sums).notes)
    std::cout << "sums: " << note << "\n";
}

// A run takes the memory that it is given, and its inputs and outputs are the device's: what a step
// leaves behind is what it made.
void write_in_place(const weft::Device &toy) {
  Tensor w = weft::ones({256, 1024}).to(toy), step = weft::full({256, 1024}, 0.5).to(toy);
  weft::eval({w, step});
  int64_t before = weft::memory_statistics(toy).live_bytes;
  for (int i = 0; i < 4; ++i) {
    w += step;
    w.eval();
  }
  check(weft::memory_statistics(toy).live_bytes - before < w.numel(), "a write left memory behind");
  check(w.sum().item<float>() == 3 * 256 * 1024, "a write in place");
  w.narrow(0, 0, 1).copy_(weft::zeros({1, 1024})); // from the host into a view
  check(w.sum().item<float>() == 3 * 255 * 1024, "a write to a view");
  w.index_copy_(0, weft::tensor<int64_t>({1, 2}).to(toy), weft::zeros({2, 1024}).to(toy));
  check(w.sum().item<float>() == 3 * 253 * 1024, "a write by index");
}

void mix_devices(const weft::Device &toy) {
  Tensor a = weft::tensor({1.f, 2.f, 3.f}).set_requires_grad(),
         b = weft::tensor({4.f, 5.f, 6.f}).to(toy).set_requires_grad();
  Tensor there = a.to(toy) * b + 1, here = there.to("cpu") * a;
  here.sum().backward();
  check(close(values(here), {5, 22, 57}), "values that go back and forth");
  check(close(values(a.grad()), {9, 21, 37}) && a.grad().device() == weft::Device(),
        "a's gradient");
  check(close(values(b.grad()), {1, 4, 9}) && b.grad().device() == toy, "b's gradient");
  try {
    (void)(a + b);
    check(false, "two devices in one op");
  } catch (const weft::Error &error) {
    std::cout << "mixed: " << error.what() << "\n";
  }
  // An index that is wrong is found by the host's rule, and what it would have written stays.
  Tensor table = weft::ones({4, 2}).to(toy).eval();
  try {
    table += weft::index_select(table, 0, weft::tensor<int64_t>({0, 1, 2, 9}).to(toy));
    (void)table.sum().item<float>();
    check(false, "an index beyond the end");
  } catch (const weft::Error &error) {
    std::cout << "index: " << error.what() << "\n";
  }
  check(table.sum().item<float>() == 8, "what a failed run would have written");
}

void checkpoint(const weft::Device &toy, const std::string &path) {
  weft::nn::Sequential saved = weft::nn::to(model(), toy), back = weft::nn::to(model(), toy),
                       host = model();
  weft::io::save_safetensors(path, saved.state());
  back.load_state(weft::io::load_safetensors(path).tensors);
  host.load_state(weft::io::load_safetensors(path).tensors);
  for (size_t i = 0; i < saved.parameters().size(); ++i) {
    check(back.parameters()[i].device() == toy, "a checkpoint's tensor lies elsewhere");
    check(values(back.parameters()[i]) == values(saved.parameters()[i]), "a checkpoint's bits");
    check(values(host.parameters()[i]) == values(saved.parameters()[i]), "its bits on the host");
  }
}

void run_out_of_memory(const weft::Device &toy) {
  Tensor held = weft::ones({1 << 20}).to(toy).eval();
  try {
    weft::DeviceScope scope(toy);
    weft::ones({400, 1 << 20}).eval(); // 1.6 GB
    check(false, "memory beyond the end");
  } catch (const weft::Error &error) {
    std::cout << "memory: " << error.what() << "\n";
    check(error.kind() == weft::ErrorKind::kMemory, "its kind");
  }
  check(held.sum().item<float>() == 1 << 20, "what goes on after it");
}

} // namespace

int main(int argc, char **argv) {
  weft::Device toy("toy");
  std::cout << "new tensors on " << (weft::ones({2}) + 1).device().name() << "\n";
  weft::DeviceScope scope{weft::Device()}; // whatever WEFT_DEVICE says
  train_on_both(toy);
  explain_steps(toy);
  write_in_place(toy);
  mix_devices(toy);
  checkpoint(toy, argc > 1 ? argv[1] : "toy.safetensors");
  run_out_of_memory(toy);
  weft::Config config = weft::config();
  config.backend = "toy"; // of cpu:0, which it cannot be
  try {
    weft::set_config(config);
    check(false, "a backend of another device");
  } catch (const weft::Error &error) {
    std::cout << "backend: " << error.what() << "\n";
  }
  std::cout << (wrong ? "NOT as on the host\n" : "as on the host\n");
  return wrong ? 1 : 0;
}
