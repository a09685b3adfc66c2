#include "parley/model/convolution.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "parley/base/errors.h"
#include "parley/model/kernels.h"
#include "parley/model/winograd.h"

namespace parley {
namespace {

using Memory = dnnl::memory;
using Arguments = std::unordered_map<int, Memory>;

const dnnl::engine& processor() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Memory::dim dimension(std::size_t n) {
  return static_cast<Memory::dim>(n);
}

Memory::desc description(Memory::dims dimensions, Memory::format_tag format) {
  return {std::move(dimensions), Memory::data_type::f32, format};
}

// oneDNN's memory that points at numbers of ours, which it does not write to where they are constant.
Memory pointing(const Memory::desc& description) {
  return {description, processor(), nullptr};
}
void point(Memory& memory, const float* data) {
  memory.set_data_handle(const_cast<float*>(data));
}

}  // namespace

class Convolution::Passes {
 public:
  Passes(const ConvolutionShape& shape, std::size_t images, bool with_bias)
      : inputs_(description({dimension(images), dimension(shape.in), dimension(shape.height), dimension(shape.width)},
                            Memory::format_tag::nhwc)),
        outputs_(description(
            {dimension(images), dimension(shape.out), dimension(shape.out_height()), dimension(shape.out_width())},
            Memory::format_tag::nhwc)),
        any_weight_(description(dimensions_of_weight(shape), Memory::format_tag::any)),
        plain_weight_(description(dimensions_of_weight(shape), Memory::format_tag::oihw)),
        bias_(with_bias ? description({dimension(shape.out)}, Memory::format_tag::x) : Memory::desc()),
        padding_{dimension(shape.padding), dimension(shape.padding)},
        forward_({{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, inputs_, any_weight_, bias_,
                   outputs_, kStride, padding_, padding_},
                  on_own_scratchpad(),
                  processor()}),
        stream_(processor()),
        plain_(pointing(plain_weight_)),
        forward_step_(*this, dnnl::convolution_forward(forward_), forward_,
                      {{DNNL_ARG_SRC, inputs_}, {DNNL_ARG_BIAS, bias_}, {DNNL_ARG_DST, outputs_}}, DNNL_ARG_WEIGHTS,
                      forward_.weights_desc()) {}

  void forward(const float* inputs, const float* weight, const float* bias, float* outputs) {
    forward_step_.pack(weight);
    forward_step_.run({{DNNL_ARG_SRC, inputs}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, outputs}});
  }

  void backward_weight(const float* inputs, const float* deltas, float* weight, float* bias) {
    if (!weight_step_) {
      const dnnl::convolution_backward_weights::primitive_desc made(
          {dnnl::algorithm::convolution_direct, inputs_, any_weight_, bias_, outputs_, kStride, padding_, padding_},
          on_own_scratchpad(), processor(), forward_);
      weight_step_.emplace(
          *this, dnnl::convolution_backward_weights(made), made,
          Descriptions{{DNNL_ARG_SRC, inputs_}, {DNNL_ARG_DIFF_BIAS, bias_}, {DNNL_ARG_DIFF_DST, outputs_}},
          DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc());
    }
    weight_step_->run({{DNNL_ARG_SRC, inputs}, {DNNL_ARG_DIFF_BIAS, bias}, {DNNL_ARG_DIFF_DST, deltas}});
    weight_step_->unpack(weight);
  }

  void backward_inputs(const float* deltas, const float* weight, float* inputs) {
    if (!inputs_step_) {
      const dnnl::convolution_backward_data::primitive_desc made(
          {dnnl::algorithm::convolution_direct, inputs_, any_weight_, outputs_, kStride, padding_, padding_},
          on_own_scratchpad(), processor(), forward_);
      inputs_step_.emplace(*this, dnnl::convolution_backward_data(made), made,
                           Descriptions{{DNNL_ARG_DIFF_SRC, inputs_}, {DNNL_ARG_DIFF_DST, outputs_}}, DNNL_ARG_WEIGHTS,
                           made.weights_desc());
    }
    inputs_step_->pack(weight);
    inputs_step_->run({{DNNL_ARG_DIFF_SRC, inputs}, {DNNL_ARG_DIFF_DST, deltas}});
  }

 private:
  using Descriptions = std::vector<std::pair<int, Memory::desc>>;

  // A primitive with the memory that it works on: its operands, which are ours, and its packed weights.
  class Step {
   public:
    Step(Passes& all, dnnl::primitive primitive, const dnnl::primitive_desc_base& made, const Descriptions& operands,
         int weight, const Memory::desc& packed)
        : all_(all), primitive_(std::move(primitive)), packed_(packed, processor()) {
      for (const auto& [name, operand] : operands) {
        if (operand.get_size() > 0) arguments_.emplace(name, pointing(operand));
      }
      arguments_.emplace(weight, packed_);
      arguments_.emplace(DNNL_ARG_SCRATCHPAD, Memory(made.scratchpad_desc(), processor()));
      pack_ = dnnl::reorder(all.plain_, packed_);
      unpack_ = dnnl::reorder(packed_, all.plain_);
    }
    void pack(const float* weight) {
      point(all_.plain_, weight);
      pack_.execute(all_.stream_, all_.plain_, packed_);
    }
    void unpack(float* weight) {
      point(all_.plain_, weight);
      unpack_.execute(all_.stream_, packed_, all_.plain_);
    }
    void run(std::initializer_list<std::pair<int, const float*>> operands) {
      for (const auto& [name, data] : operands) {
        if (data != nullptr) point(arguments_.at(name), data);
      }
      primitive_.execute(all_.stream_, arguments_);
    }

   private:
    Passes& all_;
    dnnl::primitive primitive_;
    Memory packed_;
    Arguments arguments_;
    dnnl::reorder pack_, unpack_;
  };

  static Memory::dims dimensions_of_weight(const ConvolutionShape& shape) {
    return {dimension(shape.out), dimension(shape.in), dimension(shape.kernel), dimension(shape.kernel)};
  }
  static dnnl::primitive_attr on_own_scratchpad() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
  }

  inline static const Memory::dims kStride{1, 1};
  Memory::desc inputs_, outputs_, any_weight_, plain_weight_, bias_;
  Memory::dims padding_;
  dnnl::convolution_forward::primitive_desc forward_;
  dnnl::stream stream_;
  Memory plain_;
  Step forward_step_;
  std::optional<Step> weight_step_, inputs_step_;
};

Convolution::Convolution(const ConvolutionShape& shape)
    : shape_(shape), winograd_(Winograd::suits(shape) ? std::make_unique<Winograd>(shape) : nullptr) {}
Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;

Convolution::Passes& Convolution::passes(std::size_t images, bool with_bias) {
  use_one_openmp_thread();
  auto& found = passes_[images];
  if (!found) found = std::make_unique<Passes>(shape_, images, with_bias);
  return *found;
}

void Convolution::forward(std::size_t images, const float* inputs, const float* weight, const float* bias,
                          float* outputs) {
  if (winograd_) return winograd_->forward(images, inputs, weight, bias, outputs);
  passes(images, bias != nullptr).forward(inputs, weight, bias, outputs);
}

void Convolution::backward(std::size_t images, const float* inputs, const float* deltas, const float* weight,
                           float* by_weight, float* by_bias, float* by_inputs) {
  if (winograd_) return winograd_->backward(images, inputs, deltas, weight, by_weight, by_bias, by_inputs);
  Passes& made = passes(images, by_bias != nullptr);
  made.backward_weight(inputs, deltas, by_weight, by_bias);
  if (by_inputs != nullptr) made.backward_inputs(deltas, weight, by_inputs);
}

void copy_patches(const ConvolutionShape& shape, std::size_t images, const float* inputs, float* patches) {
  const auto side = static_cast<std::ptrdiff_t>(shape.kernel), padding = static_cast<std::ptrdiff_t>(shape.padding);
  const auto height = static_cast<std::ptrdiff_t>(shape.height), width = static_cast<std::ptrdiff_t>(shape.width);
  const auto channels = static_cast<std::ptrdiff_t>(shape.in);
  for (std::size_t image = 0; image < images; ++image) {
    const float* const from = inputs + image * shape.inputs();
    for (std::size_t position = 0; position < shape.positions(); ++position) {
      const auto top = static_cast<std::ptrdiff_t>(position / shape.out_width()) - padding;
      const auto left = static_cast<std::ptrdiff_t>(position % shape.out_width()) - padding;
      for (std::ptrdiff_t channel = 0; channel < channels; ++channel) {
        for (std::ptrdiff_t y = top; y < top + side; ++y) {
          for (std::ptrdiff_t x = left; x < left + side; ++x) {
            const bool inside = y >= 0 && y < height && x >= 0 && x < width;
            *patches++ = inside ? from[(y * width + x) * channels + channel] : 0.0f;
          }
        }
      }
    }
  }
}

}  // namespace parley
