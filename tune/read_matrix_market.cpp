#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tune/command_error.hpp"
#include "tune/sparse_matrix.hpp"

#ifdef IOATTN_CHOLMOD
#include <cholmod.h>
#endif

namespace ioattn::tune {

#ifdef IOATTN_CHOLMOD

namespace {

struct Session {
  cholmod_common common;

  Session() {
    cholmod_l_start(&common);
    common.print = 0;
  }
  ~Session() { cholmod_l_finish(&common); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

struct FreeSparse {
  cholmod_common* common;
  void operator()(cholmod_sparse* matrix) const { cholmod_l_free_sparse(&matrix, common); }
};
using Sparse = std::unique_ptr<cholmod_sparse, FreeSparse>;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

SparsePattern read_matrix_market(const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "r"));
  if (!file) throw UsageError(path + ": " + std::strerror(errno));
  Session session;
  cholmod_common* common = &session.common;
  const Sparse read(cholmod_l_read_sparse(file.get(), common), FreeSparse{common});
  if (!read) throw UsageError(path + ": not a sparse matrix in Matrix Market format");
  if (read->xtype != CHOLMOD_PATTERN) cholmod_l_drop(0, read.get(), common);
  // Both halves of a symmetric matrix, the pattern alone; its transpose, as columns are stored.
  const Sparse whole(cholmod_l_copy(read.get(), 0, 0, common), FreeSparse{common});
  const Sparse rows(whole ? cholmod_l_transpose(whole.get(), 0, common) : nullptr,
                    FreeSparse{common});
  if (!rows) throw RunError(path + ": no memory for it");
  const auto* start = static_cast<const SuiteSparse_long*>(rows->p);
  const auto* column = static_cast<const SuiteSparse_long*>(rows->i);
  SparsePattern result;
  result.rows = static_cast<index_t>(rows->ncol);
  result.cols = static_cast<index_t>(rows->nrow);
  result.start.assign(start, start + rows->ncol + 1);
  result.column.assign(column, column + start[rows->ncol]);
  return result;
}

#else

SparsePattern read_matrix_market(const std::string& path) {
  throw UsageError(path +
                   ": this command was built without CHOLMOD (libsuitesparse-dev), which reads "
                   "Matrix Market files");
}

#endif

}  // namespace ioattn::tune
