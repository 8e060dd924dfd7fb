#include "pebble/game.hpp"

#include <algorithm>

namespace ioattn::pebble {

const char* name_of(Rule rule) {
  switch (rule) {
    case Rule::read: return "read";
    case Rule::write: return "write";
    case Rule::compute: return "compute";
    case Rule::remove: return "remove";
  }
  return "";
}

namespace {

class Game {
 public:
  Game(const Cdag& graph, index_t M, Transfer transfer)
      : graph_(graph),
        M_(M),
        replaces_(transfer == Transfer::replace),
        red_(static_cast<std::size_t>(graph.size())),
        blue_(static_cast<std::size_t>(graph.size())) {
    for (node_t v = 0; v < graph.size(); ++v) blue_[at(v)] = graph.is_input(v);
  }

  // Why the move is illegal, or null.
  const char* make(const Move& move) {
    const node_t v = move.node;
    if (v < 0 || v >= graph_.size()) return "no such node";
    switch (move.rule) {
      case Rule::read:
        if (!blue_[at(v)]) return "read without a blue pebble";
        if (replaces_) blue_[at(v)] = false;
        ++result_.reads;
        return place_red(v);
      case Rule::write:
        if (!red_[at(v)]) return "written without a red pebble";
        if (replaces_) take_red(v);
        blue_[at(v)] = true;
        ++result_.writes;
        return nullptr;
      case Rule::compute: {
        if (graph_.is_input(v)) return "an input computed";
        for (const node_t parent : graph_.parents(v))
          if (!red_[at(parent)]) return "computed while a parent is not red";
        ++result_.computations;
        return place_red(v);
      }
      case Rule::remove:
        if (!red_[at(v)]) return "removed without a red pebble";
        take_red(v);
        return nullptr;
    }
    return "no such rule";
  }

  Play finish() {
    for (const node_t v : graph_.outputs())
      if (!blue_[at(v)]) fail(v, "an output without a blue pebble at the end");
    return result_;
  }
  Play fail(node_t v, const char* why) {
    if (result_.violation.empty()) {
      const bool exists = v >= 0 && v < graph_.size();
      result_.violation = (exists ? to_text(graph_.node(v)) : std::to_string(v)) + ": " + why;
    }
    return result_;
  }

 private:
  static std::size_t at(node_t v) { return static_cast<std::size_t>(v); }

  const char* place_red(node_t v) {
    if (!red_[at(v)]) ++count_;
    red_[at(v)] = true;
    result_.most_red = std::max(result_.most_red, count_);
    return count_ > M_ ? "more than M red pebbles" : nullptr;
  }
  void take_red(node_t v) {
    red_[at(v)] = false;
    --count_;
  }

  const Cdag& graph_;
  index_t M_;
  bool replaces_;
  std::vector<bool> red_, blue_;
  index_t count_ = 0;
  Play result_;
};

// For each move, whether a later one satisfies `needs` for its node before one satisfies `ends`.
template <class Needs, class Ends>
std::vector<bool> later(const Cdag& graph, const std::vector<Move>& moves, bool at_end,
                        const Needs& needs, const Ends& ends) {
  std::vector<bool> wanted(static_cast<std::size_t>(graph.size()), false);
  if (at_end)
    for (const node_t v : graph.outputs()) wanted[static_cast<std::size_t>(v)] = true;
  std::vector<bool> result(moves.size());
  for (std::size_t k = moves.size(); k-- > 0;) {
    const std::size_t v = static_cast<std::size_t>(moves[k].node);
    result[k] = wanted[v];
    if (ends(moves[k])) wanted[v] = false;
    needs(moves[k], &wanted);
  }
  return result;
}

}  // namespace

Play play(const Cdag& graph, const std::vector<Move>& moves, index_t M, Transfer transfer) {
  Game game(graph, M, transfer);
  for (const Move& move : moves) {
    const char* broken = game.make(move);
    if (broken != nullptr) return game.fail(move.node, broken);
  }
  return game.finish();
}

std::vector<Move> with_replacement(const Cdag& graph, const std::vector<Move>& moves) {
  const auto places_red = [](const Move& move) {
    return move.rule == Rule::read || move.rule == Rule::compute;
  };
  // A red pebble is used by computations and writes until it is taken or placed anew; a blue one is
  // used by reads and at the end until it is placed anew.
  const std::vector<bool> red_is_used = later(
      graph, moves, false,
      [&](const Move& move, std::vector<bool>* wanted) {
        if (move.rule == Rule::write) (*wanted)[static_cast<std::size_t>(move.node)] = true;
        if (move.rule != Rule::compute) return;
        for (const node_t parent : graph.parents(move.node))
          (*wanted)[static_cast<std::size_t>(parent)] = true;
      },
      [&](const Move& move) { return move.rule == Rule::remove || places_red(move); });
  const std::vector<bool> blue_is_used = later(
      graph, moves, true,
      [](const Move& move, std::vector<bool>* wanted) {
        if (move.rule == Rule::read) (*wanted)[static_cast<std::size_t>(move.node)] = true;
      },
      [](const Move& move) { return move.rule == Rule::write; });

  std::vector<Move> result;
  std::vector<bool> red(static_cast<std::size_t>(graph.size())), blue(red);
  for (node_t v = 0; v < graph.size(); ++v) blue[static_cast<std::size_t>(v)] = graph.is_input(v);
  const auto emit = [&](Rule rule, std::size_t v) {
    result.push_back({rule, static_cast<node_t>(v)});
  };
  for (std::size_t k = 0; k < moves.size(); ++k) {
    const std::size_t v = static_cast<std::size_t>(moves[k].node);
    switch (moves[k].rule) {
      case Rule::read:
        if (red[v]) break;  // it would only lose its blue pebble
        emit(Rule::read, v);
        red[v] = true;
        blue[v] = false;
        break;
      case Rule::compute:
        emit(Rule::compute, v);
        red[v] = true;
        break;
      case Rule::write:
        // A pebble that stays is written when it goes, unless it stays to the end.
        if (red_is_used[k] || !blue_is_used[k]) break;
        emit(Rule::write, v);
        blue[v] = true;
        red[v] = false;
        break;
      case Rule::remove:
        if (!red[v]) break;
        emit(blue_is_used[k] && !blue[v] ? Rule::write : Rule::remove, v);
        blue[v] = blue[v] || blue_is_used[k];
        red[v] = false;
        break;
    }
  }
  for (const node_t v : graph.outputs())
    if (!blue[static_cast<std::size_t>(v)]) emit(Rule::write, static_cast<std::size_t>(v));
  return result;
}

}  // namespace ioattn::pebble
