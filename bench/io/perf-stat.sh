#!/bin/sh
# What the hardware moves into and out of L2, by plain `perf stat`, against the words that `ioattn` counts, around
# `ioattn grad` and `ioattn sdpa` on arrays made here, with the events of `ioattn measure`.
#   bench/io/perf-stat.sh [IOATTN [N [D]]]
# perf counts the whole process: start, files and planning are in the lines, and every run of the passes, which
# the command tells. Where nothing can be counted it says why, and that is no failure.
set -eu

ioattn=${1:-$(dirname -- "$0")/../../build/release/bin/ioattn}
n=${2:-4096}
d=${3:-64}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

unavailable() {
  printf 'unavailable: %s\n' "$*"
  exit 0
}

command -v perf >/dev/null || unavailable "no perf (Debian's linux-perf)"
"$ioattn" measure --show-events >"$folder/events"
events=$(awk '$1 == "event" { printf "%s%s", comma, $3; comma = "," }' "$folder/events")

# npy FILE ROWS COLUMNS: zeros, as what moves does not depend on what it is.
npy() {
  {
    printf '\223NUMPY\001\000\166\000'
    printf '%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2, $3), }"
    head -c $((4 * $2 * $3)) /dev/zero
  } >"$folder/$1.npy"
}
for name in Q K V "dO"; do npy $name "$n" "$d"; done
npy X "$d" "$d"

# lines NAME: lines of a quantity ("L2 fills"), from perf's counts and the formula of the event file.
lines() {
  awk -F, -v quantity="$1" '
    FNR == NR {
      split($0, word, " ")
      if (word[1] == "event") name[++names] = word[2]
      if (index($0, quantity " = ") == 1) formula = substr($0, length(quantity) + 4)
      next
    }
    /^#/ || NF < 5 { next }
    {
      ++row
      if ($1 !~ /^[0-9]+$/) bad = $1 " " $3
      else if ($5 + 0 < 99.99) bad = "multiplexed: " $3 " counted " $5 "% of the time"
      value[name[row]] = $1
    }
    END {
      if (formula == "" || formula == "unavailable") { print "no event of this CPU counts " quantity; exit }
      if (bad != "") { print bad; exit }
      terms = split(formula, term, " ")
      sign = 1
      for (i = 1; i <= terms; ++i) {
        if (term[i] == "+" || term[i] == "-") sign = term[i] == "+" ? 1 : -1
        else sum += sign * value[term[i]]
      }
      printf "%.0f\n", sum
    }' "$folder/events" "$folder/perf"
}

# expected MEMBER: words of reads (writes) + created_memory, of all runs of all passes.
expected() {
  awk -v member="\"$1\":" '
    function flush() { sum += runs * (words + created); words = created = runs = 0 }
    /^    [{]/ { flush() }
    # Members of a pass are indented by six; those of its phases by more.
    match($0, /^      "/) { gsub(",", ""); if ($1 == member) words = $2; if ($1 == "\"created_memory\":") created = $2; if ($1 == "\"runs\":") runs = $2 }
    END { flush(); printf "%.0f\n", sum }' "$folder/json"
}

# around WHAT ARGUMENTS: one command under perf, and the ratio of its lines to the words of its passes.
around() {
  what=$1
  shift
  perf stat -x, -e "$events" -o "$folder/perf" -- "$ioattn" "$@" --threads 1 --out "$folder/out" --json \
    >"$folder/json"
  for pair in 'L2 fills/reads' 'L2 write-backs/writes'; do
    quantity=${pair%/*} member=${pair#*/}
    counted=$(lines "$quantity")
    words=$(expected "$member")
    case $counted in
      *[!0-9]* | '')
        case $counted in
          '<not supported>'* | '<not counted>'*)
            reason=$("$ioattn" measure -- true | awk '/unavailable: / { sub(".*unavailable: ", ""); print; exit }')
            ;;
          *) reason=$counted ;;
        esac
        printf '%s, %s: unavailable: %s\n' "$what" "$quantity" "${reason:-$counted}"
        ;;
      *)
        printf '%s, %s: %s lines = %s words; the passes %s + create %s words: ratio %s\n' "$what" "$quantity" \
          "$counted" $((counted * 16)) "$member" "$words" \
          "$(awk -v lines="$counted" -v words="$words" 'BEGIN { printf "%.3f", lines * 16 / words }')"
        ;;
    esac
  done
}

sed -n 's/^CPU: /events of /p' "$folder/events"
around grad grad --A1 "$folder/Q.npy" --X "$folder/X.npy" --Y "$folder/X.npy" --dO "$folder/dO.npy"
around sdpa sdpa --Q "$folder/Q.npy" --K "$folder/K.npy" --V "$folder/V.npy" --dO "$folder/dO.npy"
