// Another program recomputes a run. Nothing of Parley's is used here but its binary and its files: the network, its
// gradient, the methods and the file formats are written again, in double and in plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "program.h"

namespace parley::tests {
namespace {

using Json = nlohmann::ordered_json;
using Vector = std::vector<double>;

constexpr std::size_t kIn = 5, kHidden = 7, kOut = 3;
constexpr std::size_t kW1 = 0, kB1 = kW1 + kHidden * kIn, kW2 = kB1 + kHidden, kB2 = kW2 + kOut * kHidden;
constexpr std::size_t kSize = kB2 + kOut;

struct Rows {
  std::vector<Vector> x;
  std::vector<std::size_t> y;
};

// The gradient of the mean cross-entropy of softmax(W2·tanh(W1·x + b1) + b2) over `rows`.
Vector gradient(const Vector& theta, const Rows& data, const std::vector<std::size_t>& rows) {
  Vector total(kSize, 0.0);
  for (const std::size_t row : rows) {
    const Vector& x = data.x[row];
    Vector a(kHidden), p(kOut);
    for (std::size_t h = 0; h < kHidden; ++h) {
      double z = theta[kB1 + h];
      for (std::size_t i = 0; i < kIn; ++i) z += theta[kW1 + h * kIn + i] * x[i];
      a[h] = std::tanh(z);
    }
    double sum = 0.0;
    for (std::size_t o = 0; o < kOut; ++o) {
      double z = theta[kB2 + o];
      for (std::size_t h = 0; h < kHidden; ++h) z += theta[kW2 + o * kHidden + h] * a[h];
      sum += p[o] = std::exp(z);
    }
    Vector back(kHidden, 0.0);
    for (std::size_t o = 0; o < kOut; ++o) {
      const double delta = (p[o] / sum - (o == data.y[row] ? 1.0 : 0.0)) / static_cast<double>(rows.size());
      total[kB2 + o] += delta;
      for (std::size_t h = 0; h < kHidden; ++h) {
        total[kW2 + o * kHidden + h] += delta * a[h];
        back[h] += delta * theta[kW2 + o * kHidden + h];
      }
    }
    for (std::size_t h = 0; h < kHidden; ++h) {
      const double delta = back[h] * (1.0 - a[h] * a[h]);
      total[kB1 + h] += delta;
      for (std::size_t i = 0; i < kIn; ++i) total[kW1 + h * kIn + i] += delta * x[i];
    }
  }
  return total;
}

constexpr double kRate = 0.3;
constexpr std::size_t kEpochs = 2, kRounds = 3;

// The mean of the clients' weights after local training, by examples: FedAvg, and FedProx with mu > 0.
Vector average(const Vector& theta, const Rows& data, const std::vector<std::vector<std::size_t>>& clients, double mu) {
  Vector sum(kSize, 0.0);
  double examples = 0.0;
  for (const auto& rows : clients) {
    if (rows.empty()) continue;
    Vector local = theta;
    for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
      const Vector g = gradient(local, data, rows);
      for (std::size_t i = 0; i < kSize; ++i) local[i] -= kRate * (g[i] + mu * (local[i] - theta[i]));
    }
    const auto n = static_cast<double>(rows.size());
    for (std::size_t i = 0; i < kSize; ++i) sum[i] += n * local[i];
    examples += n;
  }
  for (double& x : sum) x /= examples;
  return sum;
}

// Reddi et al. 2021, Algorithm 2, FedAdam.
struct FedAdam {
  double lr = 0.05, beta1 = 0.9, beta2 = 0.99, tau = 1e-3;
  Vector m = Vector(kSize, 0.0), v = Vector(kSize, 1e-6);

  void step(Vector& theta, const Vector& target) {
    for (std::size_t i = 0; i < kSize; ++i) {
      const double delta = target[i] - theta[i];
      m[i] = beta1 * m[i] + (1.0 - beta1) * delta;
      v[i] = beta2 * v[i] + (1.0 - beta2) * delta * delta;
      theta[i] += lr * m[i] / (std::sqrt(v[i]) + tau);
    }
  }
};

struct TensorPlace {
  const char* name;
  std::vector<std::size_t> shape;
  std::size_t offset, size;
};
const std::vector<TensorPlace>& places() {
  static const std::vector<TensorPlace> all{{"fc1.weight", {kHidden, kIn}, kW1, kHidden * kIn},
                                            {"fc1.bias", {kHidden}, kB1, kHidden},
                                            {"fc2.weight", {kOut, kHidden}, kW2, kOut * kHidden},
                                            {"fc2.bias", {kOut}, kB2, kOut}};
  return all;
}

// safetensors: 8 bytes of length (little-endian), a JSON header, the floats. The tensors are written in an order of our
// own, because a reader must go by name.
std::string to_safetensors(const Vector& theta) {
  Json header;
  std::string data;
  for (auto place = places().rbegin(); place != places().rend(); ++place) {
    const std::size_t begin = data.size();
    for (std::size_t i = 0; i < place->size; ++i) {
      const auto x = static_cast<float>(theta[place->offset + i]);
      data.append(reinterpret_cast<const char*>(&x), sizeof(x));
    }
    header[place->name] = {{"dtype", "F32"}, {"shape", place->shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> 8 * i & 0xff);
  return length + text + data;
}

Vector from_safetensors(const std::string& bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::size_t{static_cast<unsigned char>(bytes.at(i))} << 8 * i;
  const Json header = Json::parse(bytes.substr(8, length));
  Vector theta(kSize);
  for (const auto& place : places()) {
    const Json& entry = header.at(place.name);
    EXPECT_EQ(entry.at("dtype"), "F32");
    EXPECT_EQ(entry.at("shape"), Json(place.shape)) << place.name;
    const auto begin = entry.at("data_offsets").at(0).get<std::size_t>();
    EXPECT_EQ(entry.at("data_offsets").at(1), begin + 4 * place.size);
    for (std::size_t i = 0; i < place.size; ++i) {
      float x = 0.0f;
      std::memcpy(&x, bytes.substr(8 + length + begin + 4 * i, 4).data(), 4);
      theta[place.offset + i] = x;
    }
  }
  return theta;
}

class Interchange : public testing::Test {
 protected:
  Interchange() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::string csv = "a,b,c,d,e,label\n";
    for (std::size_t row = 0; row < 30; ++row) {
      data_.y.push_back(random() % kOut);
      auto& x = data_.x.emplace_back();
      char text[32];
      for (std::size_t i = 0; i < kIn; ++i) {
        const float value = normal(random) + (i == data_.y.back() ? 1.5f : 0.0f);
        std::snprintf(text, sizeof(text), "%.9g,", double{value});
        csv += text;
        x.push_back(double{value});
      }
      csv += std::to_string(data_.y.back()) + "\n";
    }
    for (std::size_t i = 0; i < kSize; ++i) initial_.push_back(double{0.5f * normal(random)});
    // Unequal clients, one of them empty, rows out of order, some rows held by nobody.
    clients_ = {{0, 3, 6}, {}, {1, 2, 4, 5, 7, 8, 10, 11}, {29, 9, 28, 12, 27, 13, 26, 14, 25, 15, 24, 16, 23}};
    write_text(temp_ / "train.csv", csv);
    write_text(temp_ / "clients.json", Json(clients_).dump());
    write_text(temp_ / "init.safetensors", to_safetensors(initial_));
    write_text(temp_ / "e.toml", R"([run]
rounds = 3
[data]
name = "csv"
path = "train.csv"
test_path = "train.csv"
normalize = "none"
[partition]
kind = "file"
path = "clients.json"
[model]
name = "mlp"
hidden = [7]
activation = "tanh"
init = "init.safetensors"
[client]
batch = 0
shuffle = false
epochs = 2
lr = 0.3
)");
  }

  void expect_run(const std::vector<std::string>& sets, const Vector& expected) const {
    std::vector<std::string> arguments{"run", "e.toml", "--out", "out"};
    for (const auto& set : sets) arguments.insert(arguments.end(), {"--set", set});
    const Outcome outcome = parley(temp_.path(), arguments);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Vector found = from_safetensors(read_text(temp_ / "out" / "model.safetensors"));
    double moved = 0.0;
    for (std::size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
      moved = std::max(moved, std::abs(found[i] - initial_[i]));
    }
    EXPECT_GT(moved, 0.05) << "a run that changes nothing proves nothing";
  }

  Rows data_;
  Vector initial_;
  std::vector<std::vector<std::size_t>> clients_;
  const TempFolder temp_;
};

TEST_F(Interchange, FedAvg) {
  Vector theta = initial_;
  for (std::size_t round = 0; round < kRounds; ++round) theta = average(theta, data_, clients_, 0.0);
  expect_run({}, theta);
}

TEST_F(Interchange, FedProx) {
  Vector theta = initial_;
  for (std::size_t round = 0; round < kRounds; ++round) theta = average(theta, data_, clients_, 0.8);
  expect_run({"method.name=fedprox", "method.mu=0.8"}, theta);
}

TEST_F(Interchange, FedAdam) {
  Vector theta = initial_;
  FedAdam adam;
  for (std::size_t round = 0; round < kRounds; ++round) adam.step(theta, average(theta, data_, clients_, 0.0));
  expect_run({"server.step=adam", "server.lr=0.05"}, theta);
}

#ifdef PARLEY_TORCH
TEST_F(Interchange, FedAvgOnLibTorch) {
  Vector theta = initial_;
  for (std::size_t round = 0; round < kRounds; ++round) theta = average(theta, data_, clients_, 0.0);
  expect_run({"model.backend=torch"}, theta);
}
#endif

}  // namespace
}  // namespace parley::tests
