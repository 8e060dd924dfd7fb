#pragma once

// CLI11 has no such header, and its own makes every file that includes it compile 3 s longer.
namespace CLI {
class App;
class Option;
}  // namespace CLI
