#pragma once

#include <stdexcept>
#include <string>

#include "base/status.hpp"

namespace ioattn::tune {

// Exit codes of the command: 0 is done.
constexpr int exit_failed = 1;  // failed while doing
constexpr int exit_usage = 2;   // the command line or an input file is wrong

// Ends the command with one line on stderr.
class CommandError : public std::runtime_error {
 public:
  CommandError(int exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

class UsageError : public CommandError {
 public:
  explicit UsageError(const std::string& message) : CommandError(exit_usage, message) {}
};

// A UsageError: no plan, or not the one asked for, fits in M words.
class DoesNotFit : public UsageError {
 public:
  using UsageError::UsageError;
};

class RunError : public CommandError {
 public:
  explicit RunError(const std::string& message) : CommandError(exit_failed, message) {}
};

// Everything was said; the exit status is that of a command that was run for the user.
class CommandEnded : public std::exception {
 public:
  explicit CommandEnded(int exit_status) : exit_status_(exit_status) {}
  int exit_status() const { return exit_status_; }

 private:
  int exit_status_;
};

// Throws unless the status is ok: RunError for memory and internal errors, UsageError (DoesNotFit)
// for the rest, which the caller could have asked for differently.
void require(const Status& status);

}  // namespace ioattn::tune
