#include "parley/gauss/kronecker.h"

#include <Eigen/Cholesky>
#include <vector>

#include "parley/gauss/eigen_maps.h"

namespace parley {
namespace {

using Dense = Matrix<double>;

// W -> Σ w B W A over all terms.
class Operator {
 public:
  Operator(std::span<const KroneckerTerm> terms, std::size_t rows, std::size_t width)
      : input_sum_(Dense::Zero(index(width), index(width))), output_sum_(Dense::Zero(index(rows), index(rows))) {
    double total = 0.0;
    for (const auto& term : terms) {
      inputs_.push_back(unpack<double>(term.inputs, width));
      outputs_.push_back(unpack<double>(term.outputs, rows, term.weight));
      input_sum_ += term.weight * inputs_.back();
      output_sum_ += outputs_.back();
      total += term.weight;
    }
    input_sum_ /= total;  // one of the two factors carries the weight
  }

  void apply(const Dense& w, Dense& result) {
    result.setZero(w.rows(), w.cols());
    for (std::size_t n = 0; n < inputs_.size(); ++n) {
      scratch_.noalias() = outputs_[n] * w;
      result.noalias() += scratch_ * inputs_[n];
    }
  }

  const Dense& input_sum() const { return input_sum_; }
  const Dense& output_sum() const { return output_sum_; }

 private:
  std::vector<Dense> inputs_, outputs_;
  Dense input_sum_, output_sum_, scratch_;
};

double dot(const Dense& a, const Dense& b) {
  return (a.array() * b.array()).sum();
}

}  // namespace

void times_kronecker(std::span<float> weights, std::size_t rows, std::size_t width,
                     std::span<const KroneckerTerm> terms) {
  Map<float> w(weights.data(), index(rows), index(width));
  Dense product;
  Operator(terms, rows, width).apply(w.cast<double>(), product);
  w = product.cast<float>();
}

CgReport solve_kronecker(std::span<const KroneckerTerm> terms, std::size_t rows, std::size_t width, std::size_t steps,
                         double tolerance, std::span<double> moments) {
  Operator kronecker(terms, rows, width);
  const Eigen::LLT<Dense> inputs(kronecker.input_sum()), outputs(kronecker.output_sum());
  const auto precondition = [&](const Dense& r) -> Dense {
    const Dense left = outputs.solve(r);
    return inputs.solve(left.transpose()).transpose();
  };
  Map<double> result(moments.data(), index(rows), index(width));
  const double norm = result.norm();
  if (norm == 0.0) return {};
  Dense w = precondition(result), image, residual, direction;
  kronecker.apply(w, image);
  residual = result - image;
  Dense z = precondition(residual);
  direction = z;
  double rz = dot(residual, z);
  CgReport report{.steps = 0, .residual = residual.norm() / norm};
  while (report.steps < steps && report.residual > tolerance) {
    kronecker.apply(direction, image);
    const double step = rz / dot(direction, image);
    w += step * direction;
    residual -= step * image;
    z = precondition(residual);
    const double next = dot(residual, z);
    direction = z + (next / rz) * direction;
    rz = next;
    report = {.steps = report.steps + 1, .residual = residual.norm() / norm};
  }
  result = w;
  return report;
}

}  // namespace parley
