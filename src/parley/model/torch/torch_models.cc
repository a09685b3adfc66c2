#include "parley/model/torch/torch_models.h"

#include <dlfcn.h>

#include <filesystem>

#include "parley/model/torch/networks.h"
#include "parley/model/torch/script.h"

namespace parley {
namespace {

void add_cnn(ModelRegistry& registry, const std::string& name, const std::string& data) {
  registry.add({.name = name,
                .summary = "Two 5x5 convolutions (32, 64) with 2x2 pooling, a layer of 512; for " + data + ".",
                .source = "McMahan et al. 2017",
                .options = {}},
               {{"torch", [name](const Options&, const Task& task) { return make_torch_cnn(name, task); }}});
}

}  // namespace

void add_torch_models(ModelRegistry& registry) {
  registry.at("mlp").make["torch"] = &make_torch_mlp;
  add_cnn(registry, "cnn_mnist", "images of 28 x 28");
  add_cnn(registry, "cnn_cifar", "colour images of 32 x 32");
  registry.add({.name = "torchscript",
                .summary = "Your own network: any TorchScript module exported from Python.",
                .source = "torch.jit.script(net).save(\"net.pt\")",
                .options = {{"path", std::string(), "the exported file", {}, {}, true}}},
               {{"torch", &make_script}});
}

std::string torch_blas_warning() {
  // The dynamic linker resolves LibTorch's calls to the first sgemm_ of the process, which is the
  // one found here.
  Dl_info where{};
  void* const sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  if (sgemm == nullptr || dladdr(sgemm, &where) == 0) return "";
  std::error_code ignored;
  const auto file = std::filesystem::weakly_canonical(where.dli_fname, ignored).string();
  if (file.find("openblas") != std::string::npos || file.find("mkl") != std::string::npos) return "";
  return fmt::format(
      "LibTorch runs on the BLAS of {}, which may be many times slower than OpenBLAS: apt install "
      "libopenblas-pthread-dev, or update-alternatives --config libblas.so.3-x86_64-linux-gnu",
      file);
}

}  // namespace parley
