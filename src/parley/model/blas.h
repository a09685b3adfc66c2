// How the program uses OpenBLAS.
#pragma once

namespace parley {

// Parallelism is over clients, and a product shared out over threads would round differently by
// their number: every model that multiplies matrices calls this when it is made.
void use_one_blas_thread();

}  // namespace parley
