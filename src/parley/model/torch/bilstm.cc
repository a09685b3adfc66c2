#include "parley/model/torch/network.h"
#include "parley/model/torch/networks.h"
#include "parley/model/torch/shown_layers.h"

namespace parley {
namespace {

namespace rnn = torch::nn::utils::rnn;

// Where a text ends: behind its last token that is not padding. An empty one has a token of padding.
torch::Tensor lengths_of(const torch::Tensor& ids) {
  const torch::Tensor ends = torch::arange(1, ids.size(1) + 1, torch::kLong);
  return std::get<0>(((ids != 0) * ends).max(1)).clamp_min(1);
}

// Token ids -> embedding -> two layers of LSTM, perhaps in both directions -> dense layer on the last state of each.
class TextLstm final : public Network {
 public:
  TextLstm(const Options& options, const Task& task, bool both_directions)
      : both_directions_(both_directions),
        vocabulary_(options.integer("vocabulary")),
        embedding_(register_module("embedding", torch::nn::Embedding(vocabulary_, options.integer("embedding")))) {
    const std::int64_t hidden = options.integer("hidden");
    lstm_ = register_module(
        "lstm",
        torch::nn::LSTM(
            torch::nn::LSTMOptions(options.integer("embedding"), hidden).num_layers(2).bidirectional(both_directions)));
    fc_ = register_module("fc", Dense(both_directions ? 2 * hidden : hidden, static_cast<std::int64_t>(task.outputs)));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    const torch::Tensor ids = inputs.round().to(torch::kLong);
    check(ids);
    const auto packed = rnn::pack_padded_sequence(embedding_(ids), lengths_of(ids), /*batch_first=*/true,
                                                  /*enforce_sorted=*/false);
    const auto [outputs, state] = lstm_->forward_with_packed_input(packed);
    const torch::Tensor& last = std::get<0>(state);  // [layers × directions, batch, hidden]
    return fc_(both_directions_ ? torch::cat({last[-2], last[-1]}, 1) : last[-1]);
  }

 private:
  void check(const torch::Tensor& ids) const {
    const auto lowest = ids.min().item<std::int64_t>(), highest = ids.max().item<std::int64_t>();
    if (lowest >= 0 && highest < vocabulary_) return;
    fail<RunError>("model.vocabulary = {}: the data has a token {}, expected 0 (padding) to {}: raise model.vocabulary",
                   vocabulary_, lowest < 0 ? lowest : highest, vocabulary_ - 1);
  }

  bool both_directions_;
  std::int64_t vocabulary_;
  torch::nn::Embedding embedding_;
  torch::nn::LSTM lstm_{nullptr};
  Dense fc_{nullptr};
};

std::unique_ptr<Model> make_text_lstm(const std::string& name, const Options& options, const Task& task,
                                      bool both_directions) {
  if (task.input_shape.size() != 1) {
    fail("model.name: '{}' needs rows of token ids, shape [tokens]; the data has {}: choose text data", name,
         describe_shape(task.input_shape));
  }
  return make_network_model(name, std::make_shared<TextLstm>(options, task, both_directions), task);
}

}  // namespace

std::unique_ptr<Model> make_bilstm(const std::string& name, const Options& options, const Task& task) {
  return make_text_lstm(name, options, task, true);
}

std::unique_ptr<Model> make_char_lstm(const std::string& name, const Options& options, const Task& task) {
  return make_text_lstm(name, options, task, false);
}

}  // namespace parley
