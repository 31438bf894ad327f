package strict

import (
	"fmt"
	"strconv"
	"strings"
)

// ref is a place in the tree, as a chain to the root. It becomes text only for a
// mistake: paths of a hostile file can be long.
type ref struct {
	parent *ref
	key    string // empty: an element of a list
	index  int
}

func (r *ref) String() string {
	if r == nil {
		return ""
	}
	if r.key == "" {
		return r.parent.String() + "[" + strconv.Itoa(r.index) + "]"
	}
	if r.parent == nil {
		return short(r.key)
	}
	return r.parent.String() + "." + short(r.key)
}

// step is one part of a path: a key, or an index where key is empty.
type step struct {
	key   string
	index int
}

// splitPath reads "factors.rate[1]" into its steps.
func splitPath(path string) ([]step, error) {
	if path == "" {
		return nil, nil
	}
	var steps []step
	for part := range strings.SplitSeq(path, ".") {
		name, indices, indexed := strings.Cut(part, "[")
		if name == "" {
			return nil, fmt.Errorf("found an empty name in %q", short(path))
		}
		steps = append(steps, step{key: name})
		if !indexed {
			continue
		}
		for ix := range strings.SplitSeq(indices, "[") {
			digits, closed := strings.CutSuffix(ix, "]")
			i, err := strconv.Atoi(digits)
			if !closed || err != nil || i < 0 {
				return nil, fmt.Errorf("found [%s, expected an index such as [0]", short(ix))
			}
			steps = append(steps, step{index: i})
		}
	}
	return steps, nil
}

// short truncates text of a file for a message.
func short(s string) string {
	const most = 60
	if r := []rune(s[:min(len(s), 4*most+4)]); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}

// DidYouMean is a hint for an unknown word: the nearest candidate, or all of them.
func DidYouMean(word string, candidates []string) string {
	if near, ok := Nearest(word, candidates); ok {
		return "did you mean " + near + "?"
	}
	if len(candidates) == 0 {
		return ""
	}
	return "known: " + strings.Join(candidates, ", ")
}

// Nearest returns the candidate a misspelt word was probably meant to be.
func Nearest(word string, candidates []string) (string, bool) {
	if len(word) > 64 {
		return "", false
	}
	allowed := max(len(word)/3, 2)
	if len(word) < 4 {
		allowed = 1
	}
	best, least := "", allowed+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best, best != ""
}

// distance counts insertions, deletions, substitutions and swaps of two
// neighbours (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
