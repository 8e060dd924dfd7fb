#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

#include "tune/command_error.hpp"
#include "tune/files/sparse_matrix.hpp"

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
using File = std::unique_ptr<std::FILE, CloseFile>;

// The whole file, which may be a pipe: it is looked at twice.
std::string text_of(const std::string& path) {
  const File file(std::fopen(path.c_str(), "r"));
  std::string text;
  char part[1 << 16];
  while (file) {
    const std::size_t bytes = std::fread(part, 1, sizeof part, file.get());
    text.append(part, bytes);
    if (bytes < sizeof part) break;
  }
  if (!file || std::ferror(file.get())) throw UsageError(path + ": " + std::strerror(errno));
  return text;
}

// Whole numbers with which a line begins.
template <std::size_t count>
bool read_numbers(const std::string& line, std::array<index_t, count>* numbers) {
  const char *at = line.data(), *const end = at + line.size();
  for (index_t& number : *numbers) {
    while (at < end && (*at == ' ' || *at == '\t')) ++at;
    const auto [next, failure] = std::from_chars(at, end, number);
    if (failure != std::errc() || (next < end && std::strchr(" \t\r", *next) == nullptr))
      return false;
    at = next;
  }
  return true;
}

// What CHOLMOD makes something of: it takes memory for the sides before it reads an entry, cuts
// indices and lines short, and takes the first index to be 0 if there is one.
void check_text(const std::string& path, const std::string& text) {
  std::istringstream lines(text);
  const auto next = [&](std::string* line) {
    while (std::getline(lines, *line))
      if ((*line)[0] != '%' && line->find_first_not_of(" \t\r") != std::string::npos) return true;
    return false;
  };
  const auto refuse = [&](const std::string& why) { throw UsageError(path + ": " + why); };
  const std::string banner = text.substr(0, text.find('\n'));
  const bool is_symmetric = strcasestr(banner.c_str(), "symmetric") != nullptr ||
                            strcasestr(banner.c_str(), "hermitian") != nullptr;
  std::string line;
  std::array<index_t, 3> size = {};
  if (!next(&line) || !read_numbers(line, &size))
    refuse("not a sparse matrix in Matrix Market format");
  const auto [rows, cols, entries] = size;
  if (rows > most_sparse_rows || cols > most_sparse_rows) refuse("more than 10^7 rows or columns");
  if (is_symmetric && rows != cols) refuse("symmetric, but not square");
  index_t count = 0;
  for (; next(&line); ++count) {
    std::array<index_t, 2> at = {};
    if (!read_numbers(line, &at) || at[0] < 1 || at[1] < 1 || at[0] > rows || at[1] > cols) {
      refuse("entry " + std::to_string(count + 1) + ", \"" + line.substr(0, 40) +
             "\", is at no row and column from 1 to those of the matrix");
    }
  }
  if (count != entries) {
    refuse(std::to_string(count) + " entries where the header tells " + std::to_string(entries));
  }
}

// What made CHOLMOD give no matrix.
void check(const void* matrix, const std::string& path, const cholmod_common& common) {
  if (matrix != nullptr) return;
  if (common.status == CHOLMOD_OUT_OF_MEMORY) throw RunError(path + ": out of memory");
  throw UsageError(path + ": not a sparse matrix in Matrix Market format");
}

}  // namespace

SparsePattern read_matrix_market(const std::string& path) {
  std::string text = text_of(path);
  check_text(path, text);
  const File file(fmemopen(text.data(), text.size(), "r"));
  if (!file) throw UsageError(path + ": " + std::strerror(errno));
  Session session;
  cholmod_common* common = &session.common;
  const Sparse read(cholmod_l_read_sparse(file.get(), common), FreeSparse{common});
  check(read.get(), path, *common);
  if (read->xtype != CHOLMOD_PATTERN) cholmod_l_drop(0, read.get(), common);
  // Both halves of a symmetric matrix, the pattern alone; its transpose, as columns are stored.
  const Sparse whole(cholmod_l_copy(read.get(), 0, 0, common), FreeSparse{common});
  const Sparse rows(whole ? cholmod_l_transpose(whole.get(), 0, common) : nullptr,
                    FreeSparse{common});
  check(rows.get(), path, *common);
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
