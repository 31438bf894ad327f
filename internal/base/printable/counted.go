package printable

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Clip returns the first n characters of a text, with an ellipsis if there are more.
func Clip(text string, n int) string {
	if all := []rune(text); len(all) > n {
		return string(all[:n]) + "…"
	}
	return text
}

// Plain replaces each character of a text that is not an ASCII letter or digit, and not in more.
func Plain(text, more string, by rune) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(more, r) {
			return r
		}
		return by
	}, text)
}

// Counted is a number with its noun: "1 block", "3 blocks". A noun may have a complement: "trial of each".
func Counted(n int, noun string) string { return fmt.Sprintf("%d %s", n, Plural(n, noun)) }

// Plural is the form of a noun for a number.
func Plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	noun, rest, more := strings.Cut(noun, " of ")
	if more {
		rest = " of " + rest
	}
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case strings.HasSuffix(noun, "series"):
	case y && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])):
		noun = stem + "ies"
	case strings.HasSuffix(noun, "s") || strings.HasSuffix(noun, "x") || strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return noun + rest
}

// MostFirst are the keys of counts, the highest count first, equal ones by name.
func MostFirst[N cmp.Ordered](counts map[string]N) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
}

// And lists names as a sentence does: "a, b and c".
func And(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// Listed names at most n things, and counts the others.
func Listed(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// plainInShells are the characters that no shell changes.
const plainInShells = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%"

// ShellWord is a word as shells read it: in quotes if a shell would change it.
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, plainInShells) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
