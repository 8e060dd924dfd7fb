/* A C program that knows the public header and the shared library, nothing else. With one key
 * softmax is 1, so O = A3 Y exactly, LSE is the score, and dX = 0. */
#include <ioattn/ioattn.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void check(int condition, const char* what) {
  if (!condition) {
    fprintf(stderr, "failed: %s (last error: %s)\n", what, ioattn_last_error());
    ++failures;
  }
}

int main(void) {
  static const float a1[2 * 2] = {1, 2, 3, 4};
  static const float key[2] = {2, -1};
  static const float x[2 * 2] = {1, 0, 0, 2};
  static const float y[2 * 3] = {1, 2, 3, 4, 5, 6};
  static const float d_o[2 * 3] = {1, -1, 2, 0, 1, 3};
  float o[2 * 3], lse[2], dx[2 * 2], dy[2 * 3];
  ioattn_layer_problem problem;
  memset(&problem, 0, sizeof problem);
  memset(o, -1, sizeof o); /* NaN: outputs are written, never read */
  memset(lse, -1, sizeof lse);
  memset(dx, -1, sizeof dx);
  memset(dy, -1, sizeof dy);
  problem.struct_size = sizeof problem;
  problem.n = 2;
  problem.m = 1;
  problem.d = 2;
  problem.dv = 3;
  problem.dtype = IOATTN_F32;
  problem.a1 = a1;
  problem.a2 = problem.a3 = key;
  problem.x = x;
  problem.y = y;

  check(strcmp(ioattn_version(), IOATTN_TEST_VERSION) == 0, "version of library and project agree");
  check(ioattn_machine_threads() >= 1, "at least one thread");
  check(ioattn_layer_forward(&problem, NULL, o, 0, lse) == IOATTN_OK, "forward");
  check(o[0] == -2 && o[1] == -1 && o[2] == 0 && o[3] == -2 && o[4] == -1 && o[5] == 0, "O = A3 Y");
  check(lse[0] == -2 && lse[1] == -2, "LSE is the score");
  ioattn_layer_gradients gradients;
  memset(&gradients, 0, sizeof gradients);
  gradients.struct_size = sizeof gradients;
  gradients.dx = dx;
  gradients.dy = dy;
  check(ioattn_layer_backward(&problem, NULL, d_o, 0, o, 0, lse, &gradients) == IOATTN_OK,
        "backward");
  check(dx[0] == 0 && dx[1] == 0 && dx[2] == 0 && dx[3] == 0, "dX = 0");
  check(dy[0] == 2 && dy[1] == 0 && dy[2] == 10 && dy[3] == -1 && dy[4] == 0 && dy[5] == -5,
        "dY = A3^T (sum of the rows of dO)");

  problem.d = -1;
  check(ioattn_layer_forward(&problem, NULL, o, 0, lse) == IOATTN_INVALID_ARGUMENT, "d < 0");
  check(ioattn_last_error()[0] != '\0', "an error has a message");
  return failures == 0 ? 0 : 1;
}
