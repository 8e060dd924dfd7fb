#pragma once

// The types that calls are instantiated for: of its arrays, and of those and its gradients.
#define IOATTN_FOR_ARRAY_TYPES(INSTANTIATE) \
  INSTANTIATE(float);                       \
  INSTANTIATE(double);                      \
  INSTANTIATE(bf16);                        \
  INSTANTIATE(f16)
#define IOATTN_FOR_GRADIENT_TYPES(INSTANTIATE) \
  INSTANTIATE(float, float);                   \
  INSTANTIATE(double, double);                 \
  INSTANTIATE(bf16, bf16);                     \
  INSTANTIATE(bf16, float);                    \
  INSTANTIATE(f16, f16);                       \
  INSTANTIATE(f16, float)
