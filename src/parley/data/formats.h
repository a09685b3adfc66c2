// Data sets by name and by format; each function reads one. See datasets() for their options.
#pragma once

#include "parley/data/source.h"

namespace parley {

TrainTest load_mnist(const Options& options, const DataRoots& roots);
TrainTest load_fashion_mnist(const Options& options, const DataRoots& roots);
TrainTest load_cifar10(const Options& options, const DataRoots& roots);
TrainTest load_digits_by_writer(const Options& options, const DataRoots& roots);

TrainTest load_har(const Options& options, const DataRoots& roots);
TrainTest load_vsn(const Options& options, const DataRoots& roots);
TrainTest load_eeg(const Options& options, const DataRoots& roots);

TrainTest load_shakespeare(const Options& options, const DataRoots& roots);
TrainTest load_sentiment140(const Options& options, const DataRoots& roots);

TrainTest load_idx(const Options& options, const DataRoots& roots);
TrainTest load_csv(const Options& options, const DataRoots& roots);
TrainTest load_npy(const Options& options, const DataRoots& roots);
TrainTest load_images(const Options& options, const DataRoots& roots);
TrainTest load_leaf(const Options& options, const DataRoots& roots);
// No rows, only what they would look like.
TrainTest load_elsewhere(const Options& options, const DataRoots& roots);
TrainTest load_synthetic(const Options& options, const DataRoots& roots);

}  // namespace parley
