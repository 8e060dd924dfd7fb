#pragma once

// Instantiates what passes over rows or keys are made of for all types that it is made for:
// operands of S, and S, h and G of P, where these are products in memory.
#define IOATTN_FOR_PASS_TYPES(INSTANTIATE) \
  INSTANTIATE(float, float);               \
  INSTANTIATE(double, double);             \
  INSTANTIATE(bf16, bf16);                 \
  INSTANTIATE(f16, f16);                   \
  INSTANTIATE(bf16, float);                \
  INSTANTIATE(f16, float)
