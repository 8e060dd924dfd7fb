#include <unordered_map>
#include <unordered_set>

#include "pebble/masks.hpp"
#include "pebble/partition.hpp"

namespace ioattn::pebble {
namespace {

class PartSearch {
 public:
  PartSearch(const Cdag& graph, index_t S, index_t most_sets)
      : graph_(graph), masks_(graph), S_(S), most_sets_(most_sets) {}

  Status run(index_t* parts) {
    std::vector<mask_t> reached = {0};
    known_.insert(0);
    for (index_t steps = 1; !reached.empty(); ++steps) {
      std::vector<mask_t> next;
      for (const mask_t done : reached) {
        tried_.clear();
        extend(done, 0, &next);
        if (overflow_) {
          return Status::error(StatusCode::memory_limit,
                               "more than %lld sets of nodes with their ancestors; at least %lld "
                               "parts are needed",
                               static_cast<long long>(most_sets_), static_cast<long long>(steps));
        }
        if (known_.count(masks_.all) > 0) {
          *parts = steps;
          return Status::ok();
        }
      }
      reached = std::move(next);
    }
    return Status::error(StatusCode::internal, "no partition, though single nodes are one");
  }

 private:
  // Every part that may follow `done`, a node at a time.
  void extend(mask_t done, mask_t part, std::vector<mask_t>* next) {
    if (!tried_.insert(part).second || overflow_) return;
    if (static_cast<index_t>(tried_.size() + known_.size()) > most_sets_) {
      overflow_ = true;
      return;
    }
    if (part != 0 && known_.count(done | part) == 0 && is_part(part)) {
      known_.insert(done | part);
      next->push_back(done | part);
    }
    for_each(masks_.all & ~(done | part), [&](node_t v) {
      if ((masks_.parents_of(v) & ~(done | part)) == 0) extend(done, part | bit(v), next);
    });
  }
  bool is_part(mask_t part) {
    const auto [known, is_new] = parts_.emplace(part, false);
    if (!is_new) return known->second;
    NodeSet set;
    for_each(part, [&](node_t v) { set.push_back(v); });
    known->second = static_cast<index_t>(minimum_set(graph_, set).size()) <= S_ &&
                    least_dominator(graph_, set) <= S_;
    return known->second;
  }

  const Cdag& graph_;
  Masks masks_;
  index_t S_, most_sets_;
  bool overflow_ = false;
  std::unordered_set<mask_t> known_;  // sets with all their ancestors that were reached
  std::unordered_set<mask_t> tried_;  // parts that were tried after the present one
  std::unordered_map<mask_t, bool> parts_;
};

}  // namespace

Status least_parts(const Cdag& graph, index_t S, index_t most_sets, index_t* parts) {
  if (graph.size() > most_masked_nodes) {
    return Status::error(
        StatusCode::unsupported, "the graph has %lld nodes; a search takes at most %lld",
        static_cast<long long>(graph.size()), static_cast<long long>(most_masked_nodes));
  }
  if (S < 1) {
    return Status::error(StatusCode::invalid_argument,
                         "S = %lld: a node has a dominator of 1, the least",
                         static_cast<long long>(S));
  }
  return PartSearch(graph, S, most_sets).run(parts);
}

}  // namespace ioattn::pebble
