package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// kind is the sort of text a block was read from.
type kind string

const (
	comments    kind = "comments"
	docs        kind = "docs"
	messages    kind = "messages"
	identifiers kind = "identifiers"
)

// rule forbids a pattern in some kinds of text.
type rule struct {
	Pattern string
	Instead string
	Where   []kind
	// Except are patterns of allowed uses. A match inside one of them is no finding.
	Except []string
	// Share allows the word in this percentage of sentences, over the whole
	// repository and per kind. Above it, each use is a finding.
	Share float64

	match  *regexp.Regexp
	except []*regexp.Regexp
}

// rules is the word list.
type rules struct {
	Rules []*rule
	// SentenceWords is the largest number of words in a sentence, per kind.
	SentenceWords map[kind]int `yaml:"sentence_words"`
	// SemicolonShare is the largest percentage of sentences with a semicolon, per kind.
	SemicolonShare map[kind]float64 `yaml:"semicolon_share"`
	// Skip are directories and files that are not checked, relative to the root.
	Skip []string
}

func readRules(path string) (*rules, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(rules)
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, rule := range r.Rules {
		if rule.Instead == "" || len(rule.Where) == 0 {
			return nil, fmt.Errorf("%s: rule %q needs instead and where", path, rule.Pattern)
		}
		if rule.match, err = compile(rule.Pattern); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, p := range rule.Except {
			e, err := compile(p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			rule.except = append(rule.except, e)
		}
	}
	return r, nil
}

// compile makes a pattern match whole words in any case. A space in the
// pattern matches any white space, line breaks included.
func compile(pattern string) (*regexp.Regexp, error) {
	spaced := regexp.MustCompile(` +`).ReplaceAllString(pattern, `\s+`)
	return regexp.Compile(`(?i)\b(?:` + spaced + `)\b`)
}

// uses returns the byte ranges of text that break the rule.
func (r *rule) uses(text []byte) [][]int {
	found := r.match.FindAllIndex(text, -1)
	if len(found) == 0 || len(r.except) == 0 {
		return found
	}
	var allowed [][]int
	for _, e := range r.except {
		allowed = append(allowed, e.FindAllIndex(text, -1)...)
	}
	var left [][]int
	for _, f := range found {
		if !inside(f, allowed) {
			left = append(left, f)
		}
	}
	return left
}

func inside(f []int, ranges [][]int) bool {
	for _, a := range ranges {
		if a[0] <= f[0] && f[1] <= a[1] {
			return true
		}
	}
	return false
}
