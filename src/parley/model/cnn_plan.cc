#include "parley/base/errors.h"
#include "parley/model/cnn.h"

namespace parley {

CnnPlan mcmahan_cnn() {
  return {.convolutions = {{32, 5, 2, true}, {64, 5, 2, true}}, .hidden = {512}};
}

CnnPlan lenet(NormKind norm) {
  return {.convolutions = {{16, 5, 2, true}, {16, 5, 2, false}, {32, 5, 2, true}, {32, 5, 2, false}},
          .hidden = {512, 128},
          .norm = norm};
}

// Table 3 gives no padding, and a stride of 1 for the pooling, by which 32 × 32 images would reach the dense layer as
// 64 × 16 × 16 numbers instead of its 1024 = 64 × 4 × 4. Pooling by strides of 2 and a padding of 1 at the 3 × 3
// convolution is the reading that keeps every shape of the table: 32, 28, 24 | 12, 12, 8 | 4.
CnnPlan cnn4(NormKind norm) {
  return {.convolutions = {{32, 5, 0, false}, {32, 5, 0, true}, {64, 3, 1, false}, {64, 5, 0, true}},
          .hidden = {128},
          .norm = norm,
          .least_size = 20};
}

Task as_images(const std::string& name, const Task& task, std::int64_t least_size) {
  Task image = task;
  if (image.input_shape.size() == 2) image.input_shape.insert(image.input_shape.begin(), 1);
  if (image.input_shape.size() != 3 || image.input_shape[1] < least_size || image.input_shape[2] < least_size) {
    fail(
        "model.name: '{}' needs images of shape [channels, height, width], at least {} x {}; the data has {}: choose "
        "'mlp' or image data",
        name, least_size, least_size, describe_shape(task.input_shape));
  }
  return image;
}

Option norm_option() {
  return {"norm",
          std::string("batch"),
          "after the convolutions: over the batch, in prediction by running statistics; over each batch, in prediction "
          "too; or over eight channels of an example",
          {},
          {"batch", "each_batch", "group"}};
}

NormKind norm_of(const Options& options) {
  const std::string& name = options.text("norm");
  return name == "batch" ? NormKind::batch : name == "group" ? NormKind::group : NormKind::each_batch;
}

void refuse_single_value() {
  fail<RefusedUpdate>(
      "model.norm: a batch of one leaves batch norm a single value for each channel, which has no variance: choose "
      "client.batch so that no client is left with a batch of one, or model.norm = \"group\"");
}

namespace {

void add_mcmahan(ModelRegistry& registry, const std::string& name, const std::string& data) {
  registry.add({.name = name,
                .summary = "Two 5x5 convolutions (32, 64) with 2x2 pooling, a layer of 512; for " + data + ".",
                .source = "McMahan et al. 2017",
                .options = {}},
               {{"native", [name](const Options&, const Task& task) {
                   const CnnPlan plan = mcmahan_cnn();
                   return make_native_cnn(plan, as_images(name, task, plan.least_size));
                 }}});
}

void add_normed(ModelRegistry& registry, const std::string& name, CnnPlan (*plan_of)(NormKind),
                const std::string& summary, const std::string& source) {
  registry.add({.name = name, .summary = summary, .source = source, .options = {norm_option()}},
               {{"native", [name, plan_of](const Options& options, const Task& task) {
                   const CnnPlan plan = plan_of(norm_of(options));
                   return make_native_cnn(plan, as_images(name, task, plan.least_size));
                 }}});
}

}  // namespace

void add_cnns(ModelRegistry& registry) {
  add_mcmahan(registry, "cnn_mnist", "images of 28 x 28");
  add_mcmahan(registry, "cnn_cifar", "colour images of 32 x 32");
  add_normed(registry, "lenet", lenet,
             "LeNet with norms: four 5x5 convolutions (16, 16, 32, 32), layers of 512 and 128.",
             "Lecun et al. 1998; FeDEC, Table 2");
  add_normed(registry, "cnn4", cnn4,
             "Four convolutions (32, 32, 64, 64) with norms, a layer of 128; images from 20 x 20.", "FeDEC, Table 3");
}

}  // namespace parley
